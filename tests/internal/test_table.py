"""Tables in a terminal: what is left out, where names break, and how letters align."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import evenrank as er
from evenrank._internal.table import Note, Table
from evenrank._internal.terminal import columns_of, least_width, pieces, terminal_width, wrapped

NAMES = st.from_regex(r"\A[a-z日本é]{1,12}([/_. -][a-z日本é]{1,12}){0,4}\Z")
FIGURES = st.floats(-1e4, 1e4).map(lambda x: f"{x:.4g}")
SCRIPTS = {
    "Latin": (0x20, 0x17F),
    "accents": (0x300, 0x36F),
    "Greek, Cyrillic, Armenian, Hebrew": (0x370, 0x5FF),
    "Arabic": (0x610, 0x6DC),
    "Devanagari, Bengali": (0x900, 0x9FF),
    "Thai": (0xE00, 0xE7F),
    "Hangul letters": (0x1100, 0x11FF),
    "Japanese": (0x3041, 0x312F),
    "Chinese": (0x4E00, 0x9FFF),
    "Hangul syllables": (0xAC00, 0xD7A3),
    "full and half width": (0xFF01, 0xFF9F),
    "faces": (0x1F600, 0x1F64F),
}


@st.composite
def tables(draw):
    labels, values = draw(st.integers(1, 2)), draw(st.integers(1, 5))
    header = [f"label{j}" for j in range(labels)] + [f"m{j} ↑" for j in range(values)]
    row = st.tuples(*[NAMES] * labels, *[FIGURES] * values)
    rows = draw(st.lists(row, min_size=1, max_size=4))
    models = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    if not draw(st.booleans()):
        return Table(header, rows, ["a note of several words"], labels)
    return Table(
        [*header, *header[labels:]],
        [[*row, *row[labels:]] for row in rows],
        labels=labels,
        groups=[""] * labels + [models[0]] * values + [models[1]] * values,
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_letters_are_as_wide_as_rich_says(script):
    first, last = SCRIPTS[script]
    letters = [chr(code) for code in range(first, last + 1) if code != 0xAD and chr(code).isprintable()]
    assert [one for one in letters if columns_of(one) != cell_len(one)] == []


@given(tables(), st.integers(8, 120))
def test_tables_fit_any_width_that_holds_their_longest_words(table, width):
    header, rows, notes = table.lines(width, "-o FILE")
    words = {columns_of(word) for line in notes for word in line.split()}
    assert all(columns_of(line) <= max(width, *words, 0) for line in notes)
    kept = table.lines(width, "")[0][-1].split("  ")  # the rule below the titles
    floor = [
        least_width([row[j] for row in table.rows] + [table.header[j]]) for j in range(table.labels)
    ]
    longest = max(map(columns_of, [*header, *rows]))
    if longest > width:  # only labels and the first value are left, and no name breaks any further
        assert len(kept) == table.labels + 1
        assert [len(rule) for rule in kept[: table.labels]] == floor


@given(tables(), st.integers(8, 120))
def test_no_word_breaks_and_no_cell_of_a_kept_column_is_lost(table, width):
    _, rows, notes = table.lines(width, "-o FILE")
    text = "".join(rows)
    for row in table.rows:
        for cell in row[: table.labels]:
            assert all(piece.strip() in text for piece in pieces(cell))
        assert row[table.labels] in text
    left_out = re.match(r"left out at \d+ columns: (.*) \(all:", " ".join(notes))
    names = left_out[1].split(", ") if left_out else []
    for j, title in enumerate(table.header[table.labels :], table.labels):
        gone = {title.rstrip(" ↑"), *table.groups[j : j + 1]} & {*names}
        assert gone or all(row[j] in text for row in table.rows)


@given(tables())
def test_without_a_width_nothing_is_left_out(table):
    header, rows, notes = table.lines(None, "")
    assert len(rows) == len(table.rows)
    assert notes == list(table.notes)
    assert table.text(10**6) == table.text()
    assert all(cell in line for cells, line in zip(table.rows, rows, strict=True) for cell in cells)
    places = [match.span() for match in re.finditer("-+", header[-1])]
    assert len(places) == len(table.header)


def test_columns_are_left_out_in_the_order_that_the_table_names():
    table = Table(["model", "mrr ↑", "mr ↓", "index\n(mrr) ↑"], [["a", "0.5", "2.5", "0.4"]], ["note"])
    assert table.text(22).splitlines() == [
        "model  mrr ↑  mr ↓",
        "-----  -----  ----",
        "a        0.5   2.5",
        "left out at 22",
        "columns: index(mrr)",
        "(all: .text())",
        "note",
    ]
    ordered = Table(table.header, table.rows, optional=["mr", "index(mrr)"]).text(22, more="-o FILE")
    assert ordered.splitlines()[:4] == [
        "                index",
        "model  mrr ↑  (mrr) ↑",
        "-----  -----  -------",
        "a        0.5      0.4",
    ]


def test_columns_of_models_side_by_side_are_left_out_together_and_then_whole_models():
    table = Table(
        ["relation", "mrr ↑", "mr ↓", "mrr ↑", "mr ↓"],
        [["born_in", "0.5", "2.5", "0.25", "8.0"]],
        groups=["", "TransE", "TransE", "日本", "日本"],
    )
    assert table.text().splitlines() == [
        "            TransE        日本",
        "          -----------  -----------",
        "relation  mrr ↑  mr ↓  mrr ↑  mr ↓",
        "--------  -----  ----  -----  ----",
        "born_in     0.5   2.5   0.25   8.0",
    ]
    assert table.text(25).splitlines() == [
        "          TransE  日本",
        "          ------  -----",
        "relation   mrr ↑  mrr ↑",
        "--------  ------  -----",
        "born_in      0.5   0.25",
        "left out at 25 columns:",
        "mr (all: .text())",
    ]
    assert table.text(17).splitlines()[5:] == ["left out at 17", "columns: mr, 日本", "(all: .text())"]
    assert (
        table.markdown().splitlines()[0]
        == "| relation | TransE mrr ↑ | TransE mr ↓ | 日本 mrr ↑ | 日本 mr ↓ |"
    )
    assert '<th colspan="2">TransE</th>' in table.html()


def test_names_break_between_words_and_numbers_do_not():
    name = "/people/person/spouse_s./people/marriage/type_of_union"
    assert wrapped(name, 30, indent="  ") == [
        "/people/person/spouse_s.",
        "  /people/marriage/type_of_",
        "  union",
    ]
    assert "".join(pieces(name)) == name
    assert pieces("0.5 [-1.2e-04, 3.0]") == ["0.5 ", "[-1.2e-04, ", "3.0]"]
    assert pieces("東京タワー") == [*"東京タワー"]
    assert wrapped("unbreakable", 4) == ["unbreakable"]


def test_names_in_several_columns_share_the_room():
    names = [f"{model}-fb15k237-dim200-margin9-seed1" for model in ("transe", "rotate")]
    table = Table(["first", "second", "p"], [[*names, "0.05"]], labels=2)
    assert table.text(60).splitlines() == [
        "first                       second                         p",
        "--------------------------  --------------------------  ----",
        "transe-fb15k237-dim200-     rotate-fb15k237-dim200-     0.05",
        "  margin9-seed1               margin9-seed1",
    ]


def test_the_width_is_that_of_columns_or_of_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72
    monkeypatch.setenv("COLUMNS", "wide")
    assert terminal_width() is None  # stdout is no terminal here
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.stdout", None)
    assert terminal_width() is None


def test_printed_results_fit_columns_and_text_has_everything(monkeypatch):
    ranks = er.Ranks.of([1, 2, 40], candidates=50, keys={"relation": ["a", "a", "b"]})
    result = ranks.by("relation").evaluate()
    whole = result.text()
    assert str(result) == repr(result) == whole
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, str(result).splitlines())) <= 60
    assert "left out at 60 columns: index(mr), mr" in str(result)
    assert result.text() == whole
    assert "index(mr)" in result._repr_html_()
    assert "index(mr)" in result.to_markdown()


def test_the_line_below_a_table_has_the_whole_protocol_only_if_asked():
    ranks = er.Ranks.of(
        [1, 2], candidates=9, protocol={"data": "nations", "split": "test", "ties": "expected"}
    )
    result = ranks.evaluate("mrr")
    short, full = f"data: nations [{result.fingerprint}]", result.protocol.line(full=True)
    assert result.text().splitlines()[-1] == short
    assert result.text(verbose=True).splitlines()[-1] == full
    assert "split: test" in full
    assert "ties: expected" in full
    assert result.to_markdown().endswith(short)
    assert result.to_markdown(verbose=True).endswith(full)


def test_a_note_in_full_replaces_its_short_form():
    table = Table(["a"], [["1"]], ["plain", Note("short", "long")], labels=0)
    assert table.text().splitlines()[3:] == ["plain", "short"]
    assert table.in_full().text().splitlines()[3:] == ["plain", "long"]
