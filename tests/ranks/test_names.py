"""Tables of ranks as people have them: names, separators, headers, decimal commas, encodings."""

import csv
import io
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank._internal.names import COUNT_WORDS, KEY_WORDS, RANK_WORDS, meanings
from evenrank.errors import InputError


def write(folder, raw, name="ranks.csv"):
    path = folder / name
    path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return path


def plain(ranks):
    """The columns of ranks as lists; ties as half-integers."""
    found = {"rank": (ranks.better + 1 + ranks.equal / 2).tolist()}
    if ranks.has_candidates:
        found["candidates"] = ranks.candidates.tolist()
    if ranks.weights is not None:
        found["weight"] = ranks.weights.tolist()
    return found | {name: column.tolist() for name, column in ranks.keys.items()}


def both(path, **options):
    """Load a file, and stream it: both must find the same."""
    ranks = er.Ranks.load(path, **options)
    streamed = er.stream(path, **options)
    assert streamed.tally == ranks.tally()
    for key in ranks.keys:
        assert er.stream(path, by=key, **options).labels == ranks.by(key).labels
    return plain(ranks)


WANTED = {"rank": [1.0, 2.5], "candidates": [10, 20]}
KEYED = WANTED | {"relation": ["a", "b"]}
READ = {
    "only ranks": ("rank\n1\n2.5\n", {"rank": [1.0, 2.5]}),
    "only ranks, without a header": ("1\n2.5\n", {"rank": [1.0, 2.5]}),
    "commas": ("rank,candidates\n1,10\n2.5,20\n", WANTED),
    "semicolons": ("rank;candidates\n1;10\n2.5;20\n", WANTED),
    "tabs": ("rank\tcandidates\n1\t10\n2.5\t20\n", WANTED),
    "spaces": ("rank candidates\n1 10\n2.5 20\n", WANTED),
    "commas and spaces": ("rank, candidates\n1, 10\n2.5, 20\n", WANTED),
    "names with spaces": (" rank ;candidates \n1; 10\n2.5 ;20\n", WANTED),
    "case and aliases": ("RANKS,Num_Candidates\n1,10\n2.5,20\n", WANTED),
    "an alias of four words": ("Rank,number of candidates\n1,10\n2.5,20\n", WANTED),
    "keys in another case": ("Rank,Candidates,Relation\n1,10,a\n2.5,20,b\n", KEYED),
    "aliases of keys": ("rank,candidates,predicate\n1,10,a\n2.5,20,b\n", KEYED),
    "data sets": ("Dataset,Rank\nwn18,1\nfb15k,3\n", {"rank": [1.0, 3.0], "data": ["wn18", "fb15k"]}),
    "triples of letters": (
        "h,r,t,rank\na,b,c,1\n",
        {"rank": [1.0], "head": ["a"], "relation": ["b"], "tail": ["c"]},
    ),
    "a letter alone is a key": ("h,rank\na,1\n", {"rank": [1.0], "h": ["a"]}),
    "head and head_id": (
        "head_id,head,rank\n7,a,1\n",
        {"rank": [1.0], "head_id": ["7"], "head": ["a"]},
    ),
    "ids of a triple": (
        "head_id,relation_id,tail_id,rank\n7,0,8,1\n",
        {"rank": [1.0], "head": ["7"], "relation": ["0"], "tail": ["8"]},
    ),
    "a weight with a space": (
        "rank,candidates,weight \n1,9,2\n",
        {"rank": [1.0], "candidates": [9], "weight": [2.0]},
    ),
    "a rank with a space": (" rank,relation\n3,a\n", {"rank": [3.0], "relation": ["a"]}),
    "a filtered rank": ("filtered_rank,relation\n3,a\n", {"rank": [3.0], "relation": ["a"]}),
    "the rank, and a raw one": ("rank,raw_rank\n3,4\n", {"rank": [3.0], "raw_rank": ["4"]}),
    "both ends of ties": (
        "Optimistic Rank,pessimistic-rank\n1,3\n",
        {"rank": [2.0]},
    ),
    "a mark of byte order": ("\ufeffrank,candidates\n1,10\n2.5,20\n", WANTED),
    "UTF-16": ("rank,candidates\n1,10\n2.5,20\n".encode("utf-16"), WANTED),
    "CRLF": ("rank,candidates\r\n1,10\r\n2.5,20\r\n\r\n", WANTED),
    "CR": ("rank,candidates\r1,10\r2.5,20\r", WANTED),
    "quotes": ('"rank","candidates","relation"\r\n"1","10","a"\r\n"2.5","20","b"\r\n', KEYED),
    "quotes in quotes": ('rank,relation\n1,"a, ""b"""\n', {"rank": [1.0], "relation": ['a, "b"']}),
    "decimal commas": ("rank;candidates\n1;10\n2,5;20\n", WANTED),
    "decimal commas and tabs": ("rank\tcandidates\n1\t10\n2,5\t20\n", WANTED),
    "decimal commas of weights": (
        "rank;weight\n1;0,125\n2;1,125\n",
        {"rank": [1.0, 2.0], "weight": [0.125, 1.125]},
    ),
    "commas in keys": ("rank;relation\n1;a,5\n", {"rank": [1.0], "relation": ["a,5"]}),
    "Excel's hint": ("sep=;\r\nrank;candidates\r\n1;10\r\n2,5;20\r\n", WANTED),
    "a comment": ("# ranks of TransE, both sides\n\nrank,candidates\n1,10\n2.5,20\n", WANTED),
    "a header after #": ("#rank,candidates\n1,10\n2.5,20\n", WANTED),
    "row numbers of pandas": (",rank,candidates\n0,1,10\n1,2.5,20\n", WANTED),
    "a key much like a weight": ("rank,height\n1,3\n", {"rank": [1.0], "height": ["3"]}),
    "a misspelt key of text": ("rank,wieght\n1,heavy\n", {"rank": [1.0], "wieght": ["heavy"]}),
}


@pytest.mark.parametrize("case", READ)
def test_tables_are_read_as_people_have_them(case, tmp_path):
    raw, wanted = READ[case]
    for name in ("ranks.csv", "ranks.tsv", "ranks.txt"):
        assert both(write(tmp_path, raw, name)) == wanted


REFUSED = {
    "two columns of ranks": (
        "rank,Rank\n1,2\n",
        "two columns mean rank; got 'rank' and 'Rank'; rename or",
    ),
    "two spellings": ("rank,candidates,n_candidates\n1,2,2\n", "two columns mean candidates; got 'cand"),
    "one name twice": ("rank,rank\n1,2\n", "two columns have the same name; got 'rank'"),
    "two columns of a key": ("rank,Relation,relation\n1,a,b\n", "two columns mean relation; got 'Rel"),
    "filtered and raw": (
        "filtered_rank,raw_rank\n1,2\n",
        "several columns could mean rank; got 'filtered_rank' and 'raw_rank'; rename the one",
    ),
    "count": ("rank,count\n1,3\n", "column 'count' could mean candidates or weight; rename it to"),
    "count beside candidates": (
        "rank,candidates,count\n1,3,3\n",
        "column 'count' could mean weight; ren",
    ),
    "size": ("rank,Size\n1,3\n", "column 'Size' could mean candidates; rename it to candidates, or"),
    "wieght": ("rank,wieght\n1,2\n", "column 'wieght' may be misspelt; rename it to weight, or"),
    "candidtes": (
        "better,equal,candidtes\n1,2,9\n",
        "column 'candidtes' may be misspelt; rename it to ca",
    ),
    "num_candidate s": (
        "rank,num_candiates\n1,9\n",
        "column 'num_candiates' may be misspelt; rename it",
    ),
    "rnak": ("rnak\n1\n", "no columns of ranks; got columns rnak; allowed: .*; rename rnak to rank"),
    "no ranks": (
        "relation\na\n",
        "no columns of ranks; got columns relation; allowed: better and equal",
    ),
    "several columns without a header": (
        "1,10\n2,10\n",
        "no header names the columns; got 1,10; add a first line such as rank,candidates",
    ),
    "thousands": (
        "rank;weight\n1;1,125\n",
        "a decimal comma, or one between thousands, in column weight",
    ),
    "a point and a comma": ("rank;weight\n1;1,5\n2;0.5\n", "a decimal comma, or one between thousands"),
    "thousands in quotes": (
        'rank\n"1,234"\n',
        "a cell that is not a number in column rank; got '1,234'",
    ),
    "more cells than columns": (
        "rank,candidates\n1,5\n2,5,7\n",
        "more cells than columns; got 3 cells in row 2 below the header; allowed: 2",
    ),
    "decimal commas between commas": ("rank\n2,5\n", "more cells than columns; got 2 cells in row 1"),
    "a column without a name": ("rank,\n1,5\n", "a column has no name; name it, or remove it"),
    "Latin-1": ("rank,relation\n1,Zürich\n".encode("latin-1"), "ranks.csv:2: not UTF-8; got byte 0xfc"),
    "nothing": ("", "an empty file; add a header and ranks"),
    "a text": (
        "rank\nfirst\n",
        "a cell that is not a number in column rank; got 'first' in row 1 below",
    ),
    "a NaN": ("rank\n1\nnan\n", "ranks must be finite; got nan in row 2 below the header"),
    "a date": ("rank\n2020-01-01\n", "a cell that is not a number in column rank; got '2020-01-01'"),
    "a boolean": ("rank\nTrue\n", "a cell that is not a number in column rank; got 'True'"),
    "a complex number": ("rank\n1+2j\n", "a cell that is not a number in column rank; got '1\\+2j'"),
    "a superscript": ("rank\n1\u00b2\n", "a cell that is not a number in column rank; got '1²'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_mean_two_things_is_an_error(case, tmp_path):
    raw, message = REFUSED[case]
    path = write(tmp_path, raw)
    for read in (er.Ranks.load, er.stream):
        with pytest.raises(InputError, match=message) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert "ranks.csv" in str(caught.value)


def test_given_candidates_are_not_missing(tmp_path):
    path = write(tmp_path, "rank,size\n1,3\n")
    assert both(path, candidates=9) == {"rank": [1.0], "candidates": [9], "size": ["3"]}


@pytest.mark.parametrize(
    "word", [*RANK_WORDS, *(w for words in COUNT_WORDS.values() for w in words.split())]
)
def test_every_alias_is_known_in_any_spelling(word):
    meaning = next((name for name, words in COUNT_WORDS.items() if word in words.split()), "rank")
    pairs = {
        "better": "equal",
        "equal": "better",
        "optimistic": "pessimistic",
        "pessimistic": "optimistic",
    }
    rest = [pairs[meaning]] if meaning in pairs else [] if meaning == "rank" else ["rank"]
    for spelling in (
        word,
        word.upper(),
        f" {word[:3]}_{word[3:]} ",
        f"{word[:4]} {word[4:]}",
        f"{word}.",
    ):
        named = meanings([spelling, *rest], lambda _: True)
        assert named.get(spelling, spelling) == meaning


def test_keys_have_one_meaning():
    words = [word for several in KEY_WORDS.values() for word in several.split()]
    assert len(words) == len({*words})
    counts = [*RANK_WORDS, *(word for several in COUNT_WORDS.values() for word in several.split())]
    assert len(counts) == len({*counts})
    assert {*words}.isdisjoint(counts)


# Files of evenrank --------------------------------------------------------------------------------

OWN = er.Ranks.of(
    [1, 2.5],
    candidates=9,
    weights=[1, 0.25],
    keys={"side": ["head", "tail"], "Relation": ["a;b", "c, d"], "count": [3, 4], " x ": ["y ", " z"]},
    protocol={"data": "toy", "model": 'TransE, "big"'},
)


def same(one, other):
    columns = [
        (r.better.tolist(), r.equal.tolist(), r.candidates.tolist(), r.weights.tolist())
        for r in (one, other)
    ]
    keys = [{name: [*map(str, column)] for name, column in r.keys.items()} for r in (one, other)]
    return columns[0] == columns[1] and keys[0] == keys[1] and one.protocol == other.protocol


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.parquet"])
def test_our_own_files_keep_their_names(name, tmp_path):
    OWN.save(tmp_path / name)
    assert same(er.Ranks.load(tmp_path / name), OWN)
    assert (
        er.stream(tmp_path / name, by=["Relation", "count", " x "]).labels
        == OWN.by("Relation", "count", " x ").labels
    )
    frame = OWN.to_polars()
    assert {*er.Ranks.from_frame(frame).keys} == {*OWN.keys}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_our_own_csv_survives_a_spreadsheet(separator, end, mark, tmp_path):
    path = tmp_path / "ours.csv"
    OWN.save(path)
    rows = list(csv.reader(io.StringIO(path.read_text())))
    rows = [row + [""] * (len(rows[1]) - len(row)) for row in rows]  # a rectangle
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end).writerows(rows)
    assert same(er.Ranks.load(write(tmp_path, mark + text.getvalue())), OWN)


def test_our_own_csv_with_a_mark_of_byte_order_loads(tmp_path):
    OWN.save(tmp_path / "r.csv")
    raw = (tmp_path / "r.csv").read_bytes()
    assert same(er.Ranks.load(write(tmp_path, b"\xef\xbb\xbf" + raw)), OWN)
    assert same(er.Ranks.load(write(tmp_path, raw.decode().encode("utf-16"))), OWN)


@pytest.mark.parametrize("name", ["weight", "Weight ", "CANDIDATES", "equal", " better"])
def test_keys_cannot_have_the_names_of_counts(name):
    with pytest.raises(InputError, match=r"a key column has the name of a count; got .*; rename it"):
        er.Ranks.of([1, 2], keys={name: ["a", "b"]})


def test_keys_of_numbers_cannot_have_an_alias_of_a_count():
    for name in ("num_candidates", "Weights", "n_better"):
        with pytest.raises(InputError, match="a key column has the name of a count"):
            er.Ranks.of([1, 2], keys={name: [3, 4]})
        assert er.Ranks.of([1, 2], keys={name: ["a", "b"]}).keys[name].tolist() == ["a", "b"]


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(2, 40), texts), min_size=1, max_size=8),
    separator=st.sampled_from(",;\t"),
    commas=st.booleans(),
    header=st.sampled_from(["rank", "Rank ", "RANKS", "filtered rank"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_any_table_that_python_writes_is_read(rows, separator, commas, header, mark, tmp_path):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL)
    halves = [str(n / 2).removesuffix(".0") for n, _ in rows]
    writer.writerow([header, "Relation"])
    writer.writerows(
        (n.replace(".", ",") if commas and separator != "," else n, key)
        for n, (_, key) in zip(halves, rows, strict=True)
    )
    found = plain(er.Ranks.load(write(tmp_path, mark + text.getvalue())))
    assert found == {"rank": [*map(float, halves)], "relation": [key.strip() for _, key in rows]}


# Frames -------------------------------------------------------------------------------------------


def test_frames_are_named_like_files():
    frame = pl.DataFrame({"Rank": [1, 2], "num_candidates": [9, 9], "Relation": ["a", "b"]})
    assert plain(er.Ranks.from_frame(frame)) == {
        "rank": [1.0, 2.0],
        "candidates": [9, 9],
        "relation": ["a", "b"],
    }
    assert plain(er.Ranks.from_frame({"ranks": [1.5]}, candidates=4)) == {
        "rank": [1.5],
        "candidates": [4],
    }
    pandas = pytest.importorskip("pandas")
    assert plain(er.Ranks.from_frame(pandas.DataFrame({" RANK": [3]}))) == {"rank": [3.0]}
    with pytest.raises(InputError, match="column 'wieght' may be misspelt"):
        er.Ranks.from_frame({"rank": [1], "wieght": [2.0]})


def test_parquet_of_others_is_named_like_text(tmp_path):
    path = tmp_path / "theirs.parquet"
    pl.DataFrame({"Rank": [1.0, 2.5], "nCandidates": [10, 20], "Dataset": ["x", "y"]}).write_parquet(
        path
    )
    assert both(path) == WANTED | {"data": ["x", "y"]}
    pl.DataFrame({"better": [0], "equal": [0], "Num Candidates": [7], "weight ": [2.0]}).write_parquet(
        path
    )
    assert both(path) == {"rank": [1.0], "candidates": [7], "weight": [2.0]}
    pl.DataFrame({"better": [0], "equal": [0], "candidats": [7]}).write_parquet(path)
    for read in (er.Ranks.load, er.stream):
        with pytest.raises(InputError, match=r"theirs.parquet.*column 'candidats' may be misspelt"):
            read(path)


WRONG = {
    "complex": np.array([1 + 2j, 3]),
    "a complex zero": [1, 2 + 0j],
    "booleans": [True, False],
    "objects": np.array([{}, None], dtype=object),
    "numbers as objects": np.array([1, "2"], dtype=object),
    "texts": ["1", "2"],
    "NaN as text": ["nan", "1"],
    "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    "durations": np.array([1, 2], dtype="timedelta64[s]"),
    "dates of Python": [date(2020, 1, 1), date(2020, 1, 2)],
    "bytes": [b"1", b"2"],
    "None": [None, 1],
    "records": np.zeros(2, dtype=[("a", int)]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_column_of_numbers_is_one_clear_error(case):
    wrong = WRONG[case]
    calls = {
        "ranks": lambda: er.Ranks.of(wrong),
        "better": lambda: er.Ranks(wrong, 0),
        "equal": lambda: er.Ranks([0, 0], wrong),
        "candidates": lambda: er.Ranks.of([1, 2], wrong),
        "weights": lambda: er.Ranks.of([1, 2], weights=wrong),
        "optimistic ranks": lambda: er.Ranks.between(wrong, [5, 5]),
        "pessimistic ranks": lambda: er.Ranks.between([1, 1], wrong),
        "target": lambda: er.Ranks.from_scores(np.zeros((2, 3)), wrong),
        "ranks of a metric": lambda: er.MRR(wrong),
        "numbers of candidates": lambda: er.chance("mrr", wrong),
        "counts": lambda: er.chance("mrr", [3, 4], counts=wrong),
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=f"^{name.removesuffix(' of a metric')} must be") as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="scores must be a matrix of numbers"):
        er.Ranks.from_scores([wrong, wrong] if isinstance(wrong, list) else np.stack([wrong, wrong]), 0)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([True, False]),
        pl.Series([date(2020, 1, 1), date(2020, 1, 2)]),
        pl.Series([[1], [2]]),
        pl.Series([{"a": 1}, {"a": 2}]),
        pl.Series([b"1", b"2"]),
        pl.Series(["one", "two"]),
    ],
)
def test_columns_of_other_types_are_one_clear_error(column, tmp_path):
    for name in ("rank", "candidates", "weight"):
        frame = pl.DataFrame({"rank": [1, 2]}).with_columns(column.alias(name))
        frame.write_parquet(tmp_path / "r.parquet")
        for read, source in (
            (er.Ranks.from_frame, frame),
            (er.Ranks.load, tmp_path / "r.parquet"),
            (er.stream, tmp_path / "r.parquet"),
        ):
            with pytest.raises(InputError, match="number") as caught:
                read(source)
            assert "\n" not in str(caught.value)
