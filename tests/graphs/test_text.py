"""Text files as people have them: what surrounds a name is no part of it, and is noted."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.errors import InputError

ROWS = [("New York", "in", "USA"), ("Rome", "in", "Italy"), ("Italy", "near", "Rome")]
NAMES = {"entities": ("Italy", "New York", "Rome", "USA"), "relations": ("in", "near")}
PLAIN = "".join("\t".join(row) + "\n" for row in ROWS)
UNDERSCORED = PLAIN.replace("New York", "New_York")


def load(folder, raw, name="train.txt", **options):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return er.load(folder, **options)


def triples(graph):
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.splits["train"]
    ]


SPACES = "the spaces around {} names"
CLEAN = {
    "a space at the end of lines": (PLAIN.replace("\n", " \n"), SPACES.format(3)),
    "spaces around names": (PLAIN.replace("\t", " \t "), SPACES.format(9)),
    "a space before one name": (PLAIN.replace("Rome\t", " Rome\t", 1), "the spaces around 1 name"),
    "a no-break space": (PLAIN.replace("USA", "USA\u00a0"), "the spaces around 1 name"),
    "an ideographic space": (PLAIN.replace("USA", "\u3000USA"), "the spaces around 1 name"),
    "a mark of byte order within": ("\ufeff" + PLAIN.replace("Rome\t", "\ufeffRome\t"), "1 name"),
    "tabs at the end of lines": (PLAIN.replace("\n", "\t\n"), None),
    "a tab and a space at the end of one line": (PLAIN.replace("USA", "USA\t "), None),
    "empty lines": (PLAIN.replace("\n", "\n\n"), "3 empty lines"),
    "an empty line at the end": (PLAIN + "\n", "1 empty line"),
    "lines of spaces": (" \n" + PLAIN + "\t\n  \n", "3 empty lines"),
    "comments": ("# made by hand\n#\n" + PLAIN + "# the end", "3 comments"),
    "all of it": (
        "\ufeff# from\tus\r\n\r\n" + PLAIN.replace("\n", " \r\n"),
        "the spaces around 3 names and 1 empty line and 1 comment",
    ),
    "CRLF": (PLAIN.replace("\n", "\r\n"), None),
    "CR": (PLAIN.replace("\n", "\r"), None),
    "BOM": ("\ufeff" + PLAIN, None),
    "UTF-16": (PLAIN.encode("utf-16"), None),
    "UTF-16, big endian, CRLF": ((("\ufeff" + PLAIN).replace("\n", "\r\n")).encode("utf-16-be"), None),
    "UTF-32": (PLAIN.encode("utf-32"), None),
    "gzip": (gzip.compress(("\ufeff" + PLAIN).encode()), None),
    "commas": (PLAIN.replace("\t", ","), None),
    "commas and spaces": (PLAIN.replace("\t", ", "), SPACES.format(6)),
    "semicolons": (PLAIN.replace("\t", ";"), None),
    "semicolons, quoted": (PLAIN.replace("\t", ";").replace("New York", '"New York"'), None),
    "quotes as Excel writes them": (
        "".join(",".join(f'"{name}"' for name in row) + "\r\n" for row in ROWS),
        None,
    ),
    "spaces within quotes": (PLAIN.replace("\t", ",").replace("Rome,", '" Rome",'), "1 name"),
    "quotes and an empty line": (
        PLAIN.replace("\t", ",").replace("Rome,", '"Rome",') + "\n\n# end",
        "2 empty lines and 1 comment",
    ),
    "a header with spaces": ("head \trelation\t tail\n" + PLAIN, "the spaces around 2 names"),
    "a header after #": ("#Head\tRel\tTail\n" + PLAIN, None),
    "a header after # and a space": ("# head\trelation\ttail\n" + PLAIN, None),
    "a header of other words": ("subj;pred;obj\n" + PLAIN.replace("\t", ";"), None),
    "a header of SQL": ("h_id,type,t_id\n" + PLAIN.replace("\t", ","), None),
}


@pytest.mark.parametrize("case", CLEAN)
def test_what_surrounds_a_name_is_no_part_of_it(case, tmp_path):
    raw, note = CLEAN[case]
    graph = load(tmp_path, raw)
    assert triples(graph) == ROWS
    assert {"entities": graph.entities, "relations": graph.relations} == NAMES
    if note is None:
        assert graph.remarks == ()
    else:
        (remark,) = graph.remarks
        assert remark.startswith("train.txt: left out ")
        assert remark.endswith(note)
        assert remark in graph.notes


SEPARATED = {
    "spaces": UNDERSCORED.replace("\t", " "),
    "several spaces": UNDERSCORED.replace("\t", "   "),
    "spaces at both ends": "".join(
        f"  {line} \n" for line in UNDERSCORED.replace("\t", " ").splitlines()
    ),
    "spaces and a tab at the end": UNDERSCORED.replace("\t", " ").replace("USA", "USA\t"),
    "a header after #": "# head relation tail\n" + UNDERSCORED.replace("\t", " "),
}


@pytest.mark.parametrize("case", SEPARATED)
def test_spaces_separate_names_where_nothing_else_does(case, tmp_path):
    found = triples(load(tmp_path, SEPARATED[case]))
    assert found == [tuple(name.replace("New York", "New_York") for name in row) for row in ROWS]


REFUSED = {
    "a triple that starts like a comment": (
        "# a b\n" + UNDERSCORED.replace("\t", " "),
        "train.txt:1: a comment or a triple.; got '# a b'; remove the line, or separate names by tabs",
    ),
    "a comment with two commas": (
        PLAIN.replace("\t", ",") + "# of rivers, lakes, seas\n",
        "train.txt:4: a comment or a triple.; got '# of rivers, lakes, seas'",
    ),
    "commas and semicolons": (
        "a;b,c;d,e\n",
        "cannot tell what separates the columns; got commas or semicolons; use tabs",
    ),
    "a header with a word we do not know": (
        "head\tlink\ttail\n" + PLAIN,
        "train.txt:1: the names of columns, or a triple.; got head, link, tail; name the columns",
    ),
    "spaces for the tab of one line": (
        PLAIN + "Paris in France\n",
        "train.txt:4: expected 3 fields; got 1 field; fix",
    ),
    "the same at the end": (PLAIN + "Paris", "train.txt:4: expected 3 fields; got 1 field; fix"),
    "a tab for one space": (
        UNDERSCORED.replace("\t", " ") + "Paris in\tFrance\n",
        "train.txt:4: expected 3 fields; got 2 fields",
    ),
    "two tabs": (PLAIN + "Paris\t\tin\tFrance\n", "train.txt:4: expected 3 fields; got 4 fields"),
    "a name of spaces": (PLAIN + "Paris\t \tFrance\n", "train.txt:4: no relation"),
    "a name of spaces after empty lines": (
        "\n\n" + PLAIN + "Paris\t \tFrance\n",
        "train.txt:6: no relation",
    ),
    "UTF-16 cut short": (
        PLAIN.encode("utf-16")[:-1],
        "train.txt:.*: not UTF-16, as its first bytes say",
    ),
    "UTF-16 without its mark": (
        PLAIN.encode("utf-16-le"),
        "train.txt: a binary file, not text; save it",
    ),
    "Latin-1": ("Zürich\tin\tCH\n".encode("latin-1"), "train.txt:1: not UTF-8; got byte 0xfc"),
    "nothing but a mark": ("\ufeff", "train.txt: an empty file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_be_read_in_two_ways_is_an_error(case, tmp_path):
    raw, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, raw)
    assert "\n" not in str(caught.value)


def test_a_dictionary_and_its_triples_agree_on_what_a_name_is(tmp_path):
    (tmp_path / "entities.dict").write_text("0\tNew York \n1\t USA\n\n2\tRome\n3\tItaly\n")
    (tmp_path / "relations.dict").write_text("# id name\n0\tin\n1\tnear \n")
    graph = load(tmp_path, PLAIN.replace("USA", "USA "))
    assert (graph.entities, graph.relations) == (("New York", "USA", "Rome", "Italy"), ("in", "near"))
    assert triples(graph) == ROWS
    (tmp_path / "entities.dict").write_text("0\tRome\n1\tRome \n")
    with pytest.raises(InputError, match=r"entities.dict:2: duplicate name; got 'Rome'"):
        er.load(tmp_path)


def test_counts_of_openke_do_not_count_empty_lines(tmp_path):
    (tmp_path / "train2id.txt").write_text("2\n0 1 0\n1 2 0 \n\n")
    (tmp_path / "entity2id.txt").write_text("3 \nNew York\t0\nUSA\t1\nRome\t2\n")
    (tmp_path / "relation2id.txt").write_text("1\r\nin 0\r\n")
    graph = er.load(tmp_path)
    assert triples(graph) == [("New York", "in", "USA"), ("USA", "in", "Rome")]


blanks = st.sampled_from(["", "", " ", "  ", "\u00a0", " \t"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.data(), end=st.sampled_from(["\n", "\r\n", " \n", "\t\r\n"]))
def test_blanks_never_make_another_entity(data, end, tmp_path):
    text = ""
    for row in ROWS:
        text += data.draw(st.sampled_from(["", "\n", "  \r\n", "# a comment\n"]))
        text += "\t".join(
            data.draw(blanks).strip("\t") + name + data.draw(blanks).strip("\t") for name in row
        )
        text += end
    graph = load(tmp_path, text)
    assert triples(graph) == ROWS
    assert graph.hash == load(tmp_path / "plain", PLAIN).hash
