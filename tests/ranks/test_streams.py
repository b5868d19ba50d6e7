"""Streams: the same bits as loaded ranks, for any files, parts and ways of counting."""

import json
import pickle
import threading
from datetime import date, datetime, time, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from unittest import mock

import fsspec
import numpy as np
import polars as pl
import pytest
import strategies as own
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import evenrank as er
from evenrank.cli import app
from evenrank.errors import InputError
from evenrank.ranks import Protocol
from evenrank.ranks.streams import (
    Part,
    Question,
    Tallies,
    _count,
    _dense,
    count,
    cut,
    find,
    merged,
    of_one_file,
)

ROWS = 500
ALL_AVERAGES = ["micro", "query", "triple", "relation", "relation,side"]


def example(seed: int = 0, rows: int = ROWS, **changes) -> er.Ranks:
    """Ranks with ties, keys of text and of numbers, as a trained model's."""
    rng = np.random.default_rng(seed)
    candidates = rng.integers(50, 60, rows)
    better = (candidates * rng.random(rows) ** 3).astype(np.int64)
    equal = np.where(rng.random(rows) < 0.2, rng.integers(0, 3, rows), 0).clip(
        max=candidates - better - 1
    )
    keys = {
        "head": rng.integers(0, 9, rows),
        "relation": rng.choice(["r", "s", "ü", ""], rows).astype(object),
        "tail": rng.integers(0, 9, rows),
        "side": rng.choice(["head", "tail"], rows).astype(object),
    }
    return er.Ranks(better, equal, candidates, keys=keys, protocol={"data": "toy"}, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files, of which one is text."""
    folder = tmp_path_factory.mktemp("ranks")
    for seed, name in enumerate(["a.parquet", "b.csv", "c.parquet"]):
        made = example(seed)
        as_text = {name: column.astype(str) for name, column in made.keys.items()}  # as in text files
        made.with_keys(as_text).save(folder / name)
    (folder / "notes.md").write_text("not ranks")
    return folder


@pytest.fixture(scope="module")
def loaded(folder):
    a, b, c = (er.Ranks.load(path) for path in sorted(folder.glob("*.[pc]*")))
    return a + b + c


def same(a: er.Evaluation, b: er.Evaluation) -> bool:
    return a.to_json() == b.to_json()


def in_parts(path, rows: int, **question) -> Tallies:
    """Count a file that is cut into small parts, in reverse."""
    asked = Question.of(
        **{"by": (), "average": "micro", "candidates": None, "skip_damaged": False} | question
    )
    return merged([count(part, asked) for part in cut(str(path), rows)[::-1]]).checked()


# The same numbers -------------------------------------------------------------------------------


def test_the_default_table_is_that_of_loaded_ranks(folder, loaded):
    streamed = er.stream(folder)
    assert streamed.tally == loaded.tally()
    assert same(streamed.evaluate(chance="independent"), loaded.evaluate(chance="independent"))
    assert repr(streamed) == "Tallies(1,500 targets)"
    assert len(streamed) == 1


@pytest.mark.parametrize("average", ALL_AVERAGES)
def test_averages_are_those_of_loaded_ranks(folder, loaded, average):
    assert same(
        er.stream(folder, average=average).evaluate(chance="independent"),
        loaded.evaluate(chance="independent", average=average),
    )


@pytest.mark.parametrize("by", [["relation"], ["relation", "side"], ["head"]])
@pytest.mark.parametrize("average", ["micro", "query", "relation"])
def test_groups_are_those_of_loaded_ranks(folder, loaded, by, average):
    streamed = er.stream(folder, by=by, average=average)
    groups = loaded.by(*by)
    assert streamed.labels == groups.labels
    assert len(streamed) == len(groups)
    assert same(
        streamed.evaluate(chance="independent"), groups.evaluate(chance="independent", average=average)
    )
    if average == "micro":
        assert [tally for _, tally in streamed] == [part.tally() for _, part in groups]
        assert streamed.tally == loaded.tally()


@pytest.mark.parametrize("rows", [1, 7, 64, ROWS])
@pytest.mark.parametrize("by", ["", "relation", "head,side"])
def test_no_bit_depends_on_parts_or_their_order(tmp_path, rows, by):
    ranks = example()
    ranks.save(tmp_path / "r.parquet")
    keys = by.split(",") if by else []
    wanted = (ranks.by(*keys) if keys else ranks).evaluate(chance="independent")
    some = in_parts(tmp_path / "r.parquet", rows, by=keys)
    assert same(some.evaluate(chance="independent"), wanted)
    assert some.count == ROWS


@settings(max_examples=40)  # each writes and reads a file
@given(own.rows(), st.booleans(), st.integers(1, 12))
def test_any_ranks_give_the_same_tally(tmp_path_factory, table, weighted, rows):
    better, equal, candidates, weight = zip(*table, strict=True)
    path = tmp_path_factory.mktemp("any") / "r.parquet"
    er.Ranks(better, equal, candidates, weights=weight if weighted else None).save(path)
    assert in_parts(path, rows).tally == own.tally(table, weighted=weighted)


def test_the_three_ways_of_counting_agree(tmp_path, monkeypatch):
    """In place, grouped by polars, and row by row through `Ranks`."""
    ranks = example()
    path = tmp_path / "r.parquet"
    ranks.save(path)
    ways = [er.stream(path).tally]
    monkeypatch.setattr(_count, "count_in_tables", lambda frame, keys: None)
    ways.append(er.stream(path).tally)
    monkeypatch.setattr(_count, "_whole", lambda *_: None)
    monkeypatch.setattr(_count, "SLICE", 99)
    ways.append(er.stream(path).tally)
    assert ways == [ranks.tally()] * 3


KEYS = {
    "numbers": st.integers(-3, 3),
    "large": st.sampled_from([-(2**62), 0, 2**62]),
    "texts": st.sampled_from(["a", "b", "", "ü"]),
    "truths": st.booleans(),
}


@settings(max_examples=60)  # each writes and reads files
@given(st.data(), st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3, unique=True))
def test_groups_counted_in_tables_are_those_that_polars_groups(tmp_path_factory, data, names):
    """For parts of different sizes, some with all groups and some with few, in any order."""
    folder = tmp_path_factory.mktemp("groups")
    for i in range(data.draw(st.integers(1, 4))):
        table = data.draw(own.rows())
        better, equal, candidates, _ = zip(*table, strict=True)
        keys = {
            name: np.array(data.draw(st.lists(KEYS[name], min_size=len(table), max_size=len(table))))
            for name in names
        }
        times = data.draw(st.sampled_from([1, 20]))  # more rows than cells, or fewer
        columns = (np.repeat(column, times) for column in (better, equal, candidates))
        keys = {name: np.repeat(key, times) for name, key in keys.items()}
        er.Ranks(*columns, keys=keys).save(folder / f"{i}.parquet")
    found = er.stream(folder, by=names)
    with mock.patch.object(_count, "count_in_tables", return_value=None):
        wanted = er.stream(folder, by=names)
    assert wanted.dense is None
    assert found.labels == wanted.labels
    assert [tally for _, tally in found] == [tally for _, tally in wanted]
    assert found.count == wanted.count
    loaded = sum((er.Ranks.load(path) for path in find(folder)[1:]), er.Ranks.load(find(folder)[0]))
    assert [tally for _, tally in found] == [part.tally() for _, part in loaded.by(*names)]


@pytest.mark.parametrize("limit", ["CELLS", "CODES", "GROUPS"])
@pytest.mark.parametrize("by", [["relation"], ["head"], ["relation", "side"]])
def test_groups_that_do_not_fit_the_tables_are_grouped_by_polars(tmp_path, monkeypatch, limit, by):
    for seed in range(3):
        example(seed).save(tmp_path / f"{seed}.parquet")
    wanted = er.stream(tmp_path, by=by)
    assert wanted.dense is not None
    outcomes = set()
    for most in (1, 3, 5, 9, 64, 250, 1000):
        monkeypatch.setattr(_dense, limit, most)
        some = er.stream(tmp_path, by=by)
        assert list(some) == list(wanted)
        outcomes.add(some.dense is None)
    assert True in outcomes


def test_tallies_in_tables_can_be_pickled_and_added_to_others(tmp_path):
    example(0).save(tmp_path / "0.parquet")
    example(1, rows=3).save(tmp_path / "1.parquet")  # fewer rows than cells
    weighted = example(2, rows=40, weights=np.ones(40))
    weighted.save(tmp_path / "2.parquet")
    question = Question.of("relation", "micro", None, False)
    parts = [count(part, question) for i in range(3) for part in cut(str(tmp_path / f"{i}.parquet"))]
    assert [part.dense is None for part in parts] == [False, True, True]
    mixed = merged([pickle.loads(pickle.dumps(part)) for part in parts[:2]])
    assert mixed.dense is not None
    every = merged([mixed, parts[2]])
    assert every.dense is None
    for total, some in ((mixed, range(2)), (every, range(3))):
        ranks = [er.Ranks.load(tmp_path / f"{i}.parquet") for i in some]
        ranks = [one.with_weights(np.ones(len(one))) for one in ranks]
        wanted = sum(ranks[1:], ranks[0]).by("relation")
        assert [tally for _, tally in total] == [part.tally() for _, part in wanted]


def test_counts_outside_the_tables_are_grouped(tmp_path):
    """Mostly ties, or more candidates than there are places: polars counts, to the same bits."""
    for ranks in (er.Ranks([0, 1, 2], [2, 2, 0], 9), er.Ranks([0, 10**8], 0, 10**9)):
        ranks.save(tmp_path / "r.parquet")
        assert er.stream(tmp_path / "r.parquet").tally == ranks.tally()


def test_tables_grow_with_the_ranks(tmp_path):
    ranks = er.Ranks(np.arange(1000) ** 2, 0, np.arange(1000) ** 2 + 1)
    ranks.to_polars().write_parquet(tmp_path / "r.parquet", row_group_size=100)
    assert er.stream(tmp_path / "r.parquet").tally == ranks.tally()


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt8, pl.Int32, pl.UInt64])
def test_any_integer_types_are_accepted(tmp_path, kind):
    ranks = er.Ranks([0, 100, 3], [1, 20, 0], 127)
    ranks.to_polars().cast(kind).write_parquet(tmp_path / "r.parquet")
    assert er.stream(tmp_path / "r.parquet").tally == ranks.tally()


def test_files_of_others_are_read(tmp_path):
    """A rank with halves, or the best and the worst one; candidates may come from outside."""
    frames = {
        "rank": {"rank": [1.0, 2.5, 7.0]},
        "between": {"optimistic": [1, 2, 7], "pessimistic": [1, 3, 7]},
        "own": {"better": [0, 1, 6], "equal": [0, 1, 0]},
    }
    for name, frame in frames.items():
        path = tmp_path / f"{name}.parquet"
        pl.DataFrame(frame).write_parquet(path)
        assert er.stream(path, candidates=9).tally == er.Ranks.load(path, candidates=9).tally()
    assert er.stream(tmp_path, candidates=9).count == 9


def test_weights_count_and_zeros_do_not(tmp_path):
    weight = np.arange(ROWS) % 4 / 2
    ranks = example(weights=weight)
    ranks.save(tmp_path / "r.parquet")
    assert in_parts(tmp_path / "r.parquet", 64).tally == ranks.tally()
    ranks = ranks.with_weights(np.where(ranks.keys["relation"] == "s", 0, weight))
    ranks.save(tmp_path / "r.parquet")
    wanted = ranks.by("relation").evaluate(chance="independent")
    assert same(er.stream(tmp_path / "r.parquet", by="relation").evaluate(chance="independent"), wanted)
    assert "1 group of weight zero left out: s" in str(wanted)


def test_keys_are_labelled_as_loaded_ones(tmp_path):
    """Numbers sort as numbers; empty cells, dates and truths are written alike."""
    frame = pl.DataFrame(
        {
            "better": [0, 1, 2, 3],
            "equal": 0,
            "candidates": 9,
            "number": [10, 9, 10, 1],
            "holes": [2, None, 1, 2],
            "text": ["b", None, "a", ""],
            "day": [date(2022, 3, 14), date(2021, 1, 1), date(2022, 3, 14), None],
            "truth": [True, False, True, False],
            "kind": pl.Series(["y", "x", "y", "x"], dtype=pl.Categorical),
        }
    )
    frame.write_parquet(tmp_path / "r.parquet")
    ranks = er.Ranks.load(tmp_path / "r.parquet")
    for name in frame.columns[3:]:
        streamed = in_parts(tmp_path / "r.parquet", 1, by=[name])
        assert streamed.labels == ranks.by(name).labels, name
        assert same(
            streamed.evaluate(chance="independent"), ranks.by(name).evaluate(chance="independent")
        ), name


@pytest.mark.parametrize(
    "column",
    [
        [datetime(2022, 3, 14), None, datetime(2022, 3, 14, 1, 2, 3, 4)],
        [time(1), time(1, 2, 3, 4), None],
        [timedelta(1), None, timedelta(2)],
        pl.Series([datetime(2022, 3, 14)] * 3, dtype=pl.Datetime("ns", "UTC")),
        [b"a", b"b", None],
        [[1], [2], [1]],
        [None, None, None],
        [float("nan"), None, 1.5],
        [float("nan")] * 3,
        [True, None, False],
    ],
)
@pytest.mark.parametrize("rows", [1, 3])
def test_keys_of_any_type_are_those_of_loaded_ranks(tmp_path, column, rows):
    frame = {"better": [0, 1, 2], "equal": 0, "candidates": 9, "k": column}
    pl.DataFrame(frame).write_parquet(tmp_path / "r.parquet")
    ranks = er.Ranks.load(tmp_path / "r.parquet")
    streamed = in_parts(tmp_path / "r.parquet", rows, by=["k"])
    assert same(streamed.evaluate(chance="independent"), ranks.by("k").evaluate(chance="independent"))
    streamed = in_parts(tmp_path / "r.parquet", rows, average="k")
    assert same(
        streamed.evaluate(chance="independent"), ranks.evaluate(chance="independent", average="k")
    )


def test_whole_numbers_with_empty_cells_are_text_wherever_these_are(tmp_path):
    """In one file or the other, in any part, alone or beside text."""
    counts = {"better": [0, 1, 2], "equal": 0, "candidates": 9}
    sides = {"relation": "r", "tail": 1, "side": ["tail", "head", "tail"]}
    for name, keys in {"a": [10, None, 9], "b": [9, 9, 10], "c": ["x", "", "9"]}.items():
        pl.DataFrame(counts | {"head": keys} | sides).write_parquet(tmp_path / f"{name}.parquet")
    a, b, c = (er.Ranks.load(tmp_path / f"{name}.parquet") for name in "abc")
    assert a.by("head").labels == (("",), ("10",), ("9",))
    assert b.by("head").labels == (("9",), ("10",))
    for some, loaded in (("a", a), ("ab", a + b), ("abc", a + b + c)):
        files = [tmp_path / f"{name}.parquet" for name in some]
        assert same(
            er.stream(files, by="head").evaluate(chance="independent"),
            loaded.by("head").evaluate(chance="independent"),
        )
        for average in ("head", "query", "triple"):
            wanted = loaded.evaluate(chance="independent", average=average)
            assert same(er.stream(files, average=average).evaluate(chance="independent"), wanted)
    assert in_parts(tmp_path / "a.parquet", 1, by=["head"]).labels == a.by("head").labels


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_keys_may_be_named_much_like_counts(tmp_path, ending):
    path = tmp_path / f"r.{ending}"
    keys = {"equality": ["a", "b"], "n_candidates": ["x", "x"]}
    ranks = er.Ranks.of([1, 2], 9, keys=keys)
    ranks.save(path)
    for by in (["equality"], ["n_candidates", "equality"], ["equality", "equality"]):
        assert same(
            er.stream(path, by=by).evaluate(chance="independent"),
            ranks.by(*by).evaluate(chance="independent"),
        )


def test_queries_without_a_given_entity_are_one(tmp_path):
    frame = {"head": ["", None], "relation": "r", "tail": ["a", "b"], "side": "tail"}
    counts = {"better": [0, 3], "equal": 0, "candidates": 9}
    pl.DataFrame(frame | counts).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"head": "x", "relation": "r", "tail": "a", "side": "tail"} | counts).write_parquet(
        tmp_path / "b.parquet"
    )
    a, b = er.Ranks.load(tmp_path / "a.parquet"), er.Ranks.load(tmp_path / "b.parquet")
    assert same(
        er.stream(tmp_path, average="query").evaluate(chance="independent"),
        (a + b).evaluate(chance="independent", average="query"),
    )


def test_leading_rows_may_have_zero_weight(tmp_path, monkeypatch):
    """In text, too, which becomes `Ranks` some rows at a time."""
    monkeypatch.setattr(_count, "SLICE", 3)
    ranks = example(rows=9, weights=[0, 0, 0, 1, 2, 1, 0, 0, 0])
    for name in ("r.csv", "r.parquet"):
        ranks.save(tmp_path / name)
        assert er.stream(tmp_path / name).tally == ranks.tally()


def test_protocols_are_what_all_files_share(tmp_path):
    for name, data in (("a", "x"), ("b", "y")):
        entries = {"data": data, "split": "test", "preset": "libkge"}
        ranks = example(rows=9).with_protocol(Protocol.from_dict(entries))
        ranks.save(tmp_path / f"{name}.parquet")
    made = er.stream(tmp_path).evaluate("mrr")
    assert made.protocol.to_dict() == {
        "split": "test",
        "preset": "libkge",
        "average": "micro",
        "ties": "rounded",
    }
    other = example(rows=9).with_protocol(Protocol(preset="openke"))
    other.save(tmp_path / "c.parquet")
    with pytest.raises(InputError, match=r"have different tie-breaking rules; got optimistic, rounded"):
        er.stream(tmp_path).evaluate("mrr")
    assert er.stream(tmp_path).evaluate("mrr", ties="pessimistic").protocol.ties == "pessimistic"


def test_files_with_different_protocols_are_noted(tmp_path):
    """Ranks of several models and graphs can be evaluated together; the table has a note."""
    for seed, (data, model) in enumerate([("x", "A"), ("y", "B"), ("y", "")]):
        weight = np.ones(9) if seed else None
        ranks = example(seed, rows=9, weights=weight)
        ranks = ranks.with_protocol(Protocol(split="test", data=data, model=model or None))
        ranks.save(tmp_path / f"{seed}.parquet")
    note = (
        "the files, evaluated as one, differ in "
        "data (x, y), model ((none), A, B), weights ((none), given)"
    )
    made = er.stream(tmp_path).evaluate("mrr")
    assert made.notes == (note,)
    assert made.protocol.to_dict() == {"split": "test", "average": "micro", "ties": "expected"}
    assert er.stream(tmp_path / "0.parquet").notes == []
    alike = er.stream([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    assert alike.notes == ["the files, evaluated as one, differ in model ((none), B)"]
    rows = table(tmp_path, tmp_path / "0.parquet")
    assert rows["notes"][1:] == ["the files differ in data (x; y)", f"{tmp_path}: {note}"]
    assert rows["notes"][0].startswith("z: ranks are taken as independent, as they are read in parts")
    for seed in range(3, 9):
        ranks = example(rows=9).with_protocol(Protocol(extra={"seed": str(seed)}))
        ranks.save(tmp_path / f"{seed}.parquet")
    assert "seed ((none), 3, 4, 5, 6, ...)" in str(er.stream(tmp_path).evaluate("mrr"))


# Files ------------------------------------------------------------------------------------


def test_files_folders_and_patterns_are_found(folder):
    names = [str(folder / name) for name in ("a.parquet", "b.csv", "c.parquet")]
    assert find(folder) == names
    assert find(f"{folder}/*.parquet") == [names[0], names[2]]
    assert find(f"{folder}/**/b.*") == [names[1]]
    assert find([folder / "c.parquet", folder / "a.parquet"]) == [names[2], names[0]]


def test_existing_file_names_with_a_star_are_not_patterns(tmp_path):
    ranks = example(rows=9)
    ranks.save(tmp_path / "a[1]*.parquet")
    assert er.stream(tmp_path / "a[1]*.parquet").tally == ranks.tally()


def test_parts_are_consecutive(folder):
    path = str(folder / "a.parquet")
    assert cut(path, 200) == [Part(path, 0, 200), Part(path, 200, 200), Part(path, 400, 100)]
    assert cut(str(folder / "b.csv"), 200) == [Part(str(folder / "b.csv"))]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_urls_are_read_by_fsspec(folder, ending):
    memory = fsspec.filesystem("memory")
    for path in folder.glob("*.*"):
        memory.pipe_file(f"/ranks/{path.name}", path.read_bytes())
    assert er.stream("memory://ranks").tally == er.stream(folder).tally
    wanted = er.stream(f"{folder}/*.{ending}").tally
    assert er.stream(f"memory://ranks/*.{ending}").tally == wanted
    assert er.stream("memory://ranks/a.parquet").count == ROWS
    with pytest.raises(InputError, match=r"no file matches; got memory://ranks/\*.x"):
        er.stream("memory://ranks/*.x")
    with pytest.raises(InputError, match=r"no such file; got memory://ranks/none.parquet"):
        er.stream("memory://ranks/none.parquet")


def test_damage_behind_a_url_is_named_by_it():
    fsspec.filesystem("memory").pipe_file("/damaged/r.csv", b"")
    with pytest.raises(InputError, match=r"memory://damaged/r.csv: an empty file; add a header"):
        er.stream("memory://damaged/r.csv")


def test_the_library_that_a_url_needs_is_named():
    if find_spec("s3fs"):
        pytest.skip("s3fs is installed")
    with pytest.raises(
        InputError,
        match=r"this URL requires another library; got s3://x \(Install s3fs.*\); install it$",
    ):
        er.stream("s3://x")


def test_local_files_may_be_urls(tmp_path):
    (tmp_path / "ü b").mkdir()
    path = tmp_path / "ü b" / "100%.parquet"
    example().save(path)
    assert find(path.as_uri()) == find(path.parent.as_uri()) == [str(path)]
    assert er.stream(path.as_uri()).tally == example().tally()


def test_unknown_urls_are_one_line():
    with pytest.raises(
        InputError, match=r"cannot reach this URL; got nothing://x \(.*nothing.*\); check"
    ):
        er.stream("nothing://x")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no file of ranks"),
        ("none.parquet", "no such file; got none.parquet"),
        ("none/*.parquet", "no file matches; got none/*.parquet"),
    ],
)
def test_missing_files_are_named(files, message):
    with pytest.raises(InputError) as error:
        er.stream(files)
    assert str(error.value) == message


def test_a_folder_without_ranks_is_an_error(tmp_path):
    with pytest.raises(
        InputError, match=r"no file of ranks in this folder \(.parquet, .csv, .tsv\); got [^;]*$"
    ):
        er.stream(tmp_path)
    (tmp_path / "parts").mkdir()
    with pytest.raises(InputError, match=r"; finished parts of an incomplete run are in .*parts$"):
        er.stream(tmp_path)


def test_a_file_is_counted_once(folder):
    with pytest.raises(InputError, match=r"occurs twice; got .*a.parquet; pass each file once"):
        er.stream([folder, folder / "a.parquet"])


# Errors ----------------------------------------------------------------------------------


def damage(path, how: str) -> None:
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(
        content[:half] if how == "truncated" else b"PAR1" + bytes(half) + content[half + 4 :]
    )


@pytest.mark.parametrize("how", ["truncated", "overwritten"])
def test_damaged_files_are_named_and_skipped_on_request(tmp_path, how):
    for seed in range(3):
        example(seed).save(tmp_path / f"{seed}.parquet")
    damage(tmp_path / "1.parquet", how)
    with pytest.raises(InputError, match=r"cannot read .*1.parquet; got .*; it may be damaged"):
        er.stream(tmp_path)
    rest = er.stream(tmp_path, skip_damaged=True)
    assert rest.tally == (example(0) + example(2)).tally()
    assert list(rest.left_out) == [str(tmp_path / "1.parquet")]
    made = rest.evaluate("mrr")
    assert [note for note in made.notes if "1.parquet" in note and "left out" in note]
    assert "left out as damaged: cannot read" in str(made)
    damage(tmp_path / "0.parquet", how)
    damage(tmp_path / "2.parquet", how)
    with pytest.raises(InputError, match=r"every file is damaged; got cannot read .*0.parquet"):
        er.stream(tmp_path, skip_damaged=True)


def test_a_damaged_file_is_skipped_entirely(tmp_path):
    """What was counted of it before the damage showed does not stay in."""
    rows = example().to_polars()
    pl.concat([rows, rows[:1].with_columns(better=pl.lit(-1, pl.Int64))]).write_parquet(
        tmp_path / "bad.parquet"
    )
    asked = Question.of((), "micro", None, True)
    counted = [count(part, asked) for part in cut(str(tmp_path / "bad.parquet"), 100)]
    assert [one.count for one in counted] == [100] * 5 + [0]
    assert of_one_file(counted).count == 0
    example(1).save(tmp_path / "good.parquet")
    assert er.stream(tmp_path, by="relation", skip_damaged=True).tally == example(1).tally()
    assert "better must be at least 0; got -1 in row 501" in of_one_file(counted).notes[0]


def test_damage_that_makes_polars_panic_is_damage(tmp_path, monkeypatch):
    """Its panic is no exception that programs expect; about one in 5,000 random changes brings it on."""
    example(0).save(tmp_path / "ranks.parquet")

    def panic(*_, **__):
        raise pl.exceptions.PanicException("called `Option::unwrap()` on a `None` value")

    for name in ("read_parquet", "scan_parquet"):
        monkeypatch.setattr(pl, name, panic)
    for read in (er.Ranks.load, er.stream):
        with pytest.raises(InputError, match=r"cannot read .*ranks.parquet; got damaged content"):
            read(tmp_path / "ranks.parquet")


def test_notes_name_some_of_many_damaged_files(tmp_path):
    example(0).save(tmp_path / "good.parquet")
    for i in range(7):
        (tmp_path / f"{i}.parquet").write_bytes(b"PAR1")
    notes = er.stream(tmp_path, skip_damaged=True).notes
    assert len(notes) == 6
    assert notes[-1] == "and 2 more damaged files were left out"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"better": [0, -1]}, "better must be at least 0; got -1 in row 2"),
        ({"equal": [0, -1]}, "equal must be at least 0; got -1 in row 2"),
        ({"better": [0, 9]}, "a rank is above its number of candidates; got rank 10 of 9 in row 2"),
        ({"equal": [0, 9]}, "a rank is above its number of candidates; got rank 10 of 9 in row 2"),
        ({"candidates": [9, 0]}, "candidates must be at least 1; got 0 in row 2"),
        ({"candidates": [9, 2 * 10**9]}, "candidates must be at most 1,000,000,000; got 2000000000"),
        ({"better": [0, None]}, "empty cell in column better; got row 2"),
        ({"better": [0.0, 0.5]}, "better must be whole; got 0.5 in row 2"),
        ({"better": ["0", "x"]}, "a cell that is not a number in column better; got 'x' in row 2"),
        ({"weight": [1.0, -1.0]}, "weights must be finite and not negative; got -1.0"),
        ({"weight": ["1", "x"]}, "a cell that is not a number in column weight; got 'x' in row 2"),
        ({"weight": [1.0, float("nan")]}, "weights must be finite and not negative; got nan"),
    ],
)
@pytest.mark.parametrize("by", [(), ("k",)])
def test_invalid_ranks_name_the_file_and_the_row(tmp_path, change, message, by):
    frame = {"k": ["a", "b"], "better": [0, 0], "equal": [0, 0], "candidates": [9, 9]} | change
    pl.DataFrame(frame).write_parquet(tmp_path / "r.parquet")
    for read in (er.Ranks.load, partial(er.stream, by=by)):
        with pytest.raises(InputError) as error:
            read(tmp_path / "r.parquet")
        assert f"r.parquet: {message}" in str(error.value)


@pytest.mark.parametrize("name", ["r.csv", "r.tsv"])
def test_rows_of_text_are_counted_below_the_header(tmp_path, name):
    """An empty cell is one that a line cut short lacks; an empty name has quotes."""
    path, rows = tmp_path / name, ['0,0,9,""', "1,0,9,a", "2,0,9"]
    for last, message in (
        ("2,0,9", "empty cell in column k, or a line cut short; got row 3 below the header"),
        ("2,0,9,", "empty cell in column k, or a line cut short; got row 3 below the header"),
        ("9,0,9,b", "a rank is above its number of candidates; got rank 10 of 9 in row 3 below the"),
        ("x,0,9,b", "a cell that is not a number in column better; got 'x' in row 3 below the header"),
    ):
        text = "\n".join(["better,equal,candidates,k", *rows[:2], last])
        path.write_text(text.replace(",", "\t") if name == "r.tsv" else text)
        for read in (er.Ranks.load, er.stream, partial(er.stream, by="k")):
            with pytest.raises(InputError) as error:
                read(path)
            assert f"{name}: {message}" in str(error.value)
        assert er.stream([path, saved(tmp_path)], skip_damaged=True).left_out.keys() == {str(path)}


def saved(folder):
    """A file of ranks without keys."""
    er.Ranks.of([1], 9).save(folder / "good.parquet")
    return folder / "good.parquet"


def test_wrong_rows_far_into_a_file_are_counted_from_its_first(tmp_path):
    rows = pl.DataFrame({"better": [0] * 20, "equal": 0, "candidates": 9})
    rows[17, "better"] = 9
    rows.write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"r.parquet: .*; got rank 10 of 9 in row 18; allowed"):
        in_parts(tmp_path / "r.parquet", 8)


def test_overflowing_sums_raise(tmp_path):
    huge = 2**62
    pl.DataFrame({"better": [huge], "equal": [huge], "candidates": [9]}).write_parquet(
        tmp_path / "r.parquet"
    )
    with pytest.raises(InputError, match="better must be at most"):
        er.stream(tmp_path / "r.parquet")


@pytest.mark.parametrize("skip", [False, True])
def test_invalid_arguments_are_not_damage(tmp_path, skip):
    """Columns that are not there are an error, also where damaged files are left out."""
    ranks = example()
    ranks.save(tmp_path / "r.parquet")
    for question, message in (
        ({"by": "colour"}, r"no such key column; got 'colour'; allowed: head, relation, tail, side"),
        ({"by": "query"}, r"no such key column; got 'query'"),
        ({"average": "colour"}, r"no such key column; got 'colour'"),
    ):
        with pytest.raises(InputError, match=message):
            er.stream(tmp_path, skip_damaged=skip, **question)
    pl.DataFrame({"score": [1.0]}).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"r.parquet has no columns of ranks; got columns score"):
        er.stream(tmp_path, skip_damaged=skip)


def test_a_file_that_lacks_a_column_is_named(tmp_path):
    example().save(tmp_path / "a.parquet")
    saved(tmp_path)
    for question in ({"by": "relation"}, {"average": "relation"}, {"average": "query"}):
        with pytest.raises(
            InputError, match=r"good.parquet: (no such key|a macro average over queries requires)"
        ):
            er.stream(tmp_path, **question)


def test_queries_need_sides_and_keys(tmp_path):
    ranks = er.Ranks.of(
        [1, 2], 9, keys={"head": "a", "relation": "r", "tail": "b", "side": ["tail", "up"]}
    )
    ranks.save(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"unknown side; got 'up'"):
        er.stream(tmp_path, average="query")
    er.Ranks.of([1, 2], 9).save(tmp_path / "r.parquet")
    with pytest.raises(
        InputError, match="a macro average over queries requires keys that identify queries"
    ):
        er.stream(tmp_path, average="query")
    ranks = er.Ranks.of([1, 2, 4], 9, keys={"query": ["a", "a", "b"]})
    ranks.save(tmp_path / "r.parquet")
    assert er.stream(tmp_path, average="query").evaluate("mr")["mr"] == 2.75


def test_weighted_targets_are_not_averaged_by_group(tmp_path):
    example(weights=np.arange(ROWS) + 1.0).save(tmp_path / "r.parquet")
    with pytest.raises(
        InputError, match=r"macro averages of weighted targets cannot be streamed; got average relation"
    ):
        er.stream(tmp_path, average="relation")
    example(weights=np.ones(ROWS)).save(tmp_path / "r.parquet")
    wanted = example(weights=np.ones(ROWS)).evaluate("mrr", average="relation")
    assert er.stream(tmp_path, average="relation").evaluate("mrr")["mrr"] == wanted["mrr"]


def test_keys_of_two_types_are_text(tmp_path):
    for name, key in (("a", [7]), ("b", ["x"])):
        er.Ranks.of([1], 9, keys={"k": key}).save(tmp_path / f"{name}.parquet")
    assert er.stream(tmp_path, by="k").labels == (("7",), ("x",))


def test_queries_are_identified_alike_in_all_files(tmp_path):
    example().save(tmp_path / "a.parquet")
    er.Ranks.of([1], 9, keys={"query": ["q"]}).save(tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"the files identify queries by different keys; got .*use the same keys"
    ):
        er.stream(tmp_path, average="query")


def test_no_files_are_an_error(tmp_path):
    er.Ranks([], [], 9, keys={"k": []}).save(tmp_path / "r.parquet")
    with pytest.raises(InputError, match="metrics need at least one rank"):
        er.stream(tmp_path).evaluate(chance="independent")
    with pytest.raises(InputError, match="no ranks to group"):
        er.stream(tmp_path, by="k")
    ones = pl.DataFrame({"better": [0], "equal": 0, "candidates": 9, "weight": 0.0})
    ones.write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match="at least one weight must be positive; got only zeros"):
        er.stream(tmp_path)


def test_an_invalid_protocol_is_damage(tmp_path):
    frame = pl.DataFrame({"better": [0], "equal": 0, "candidates": 9})
    for text in ("[1]", "{"):
        frame.write_parquet(tmp_path / "r.parquet", metadata={"evenrank": text})
        with pytest.raises(InputError, match=r"r.parquet"):
            er.stream(tmp_path)


# The shell --------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def table(*arguments):
    done = run(*arguments, "--format", "json")
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)


def test_patterns_and_folders_count_as_one(folder, loaded):
    def wanted(ranks, **options):
        return json.loads(ranks.evaluate(chance="independent", **options).to_json())

    alone = ("--chance", "independent")
    assert table(folder, *alone) == table(f"{folder}/*.[pc]*", *alone) == wanted(loaded)
    assert table(folder, "--by", "relation", *alone) == wanted(loaded.by("relation"))
    assert table(folder, "--average", "query", *alone) == wanted(loaded, average="query")


def test_each_argument_has_its_row(folder):
    pattern = f"{folder}/*.parquet"
    rows = table(pattern, folder / "b.csv")["rows"]
    assert [(row["ranks"], row["count"]) for row in rows] == [
        (pattern, 1000),
        (str(folder / "b.csv"), 500),
    ]
    rows = table(folder / "a.parquet", folder / "c.parquet", "--by", "side")["rows"]
    assert [list(row) for row in rows] == [["side", "a", "c", "difference"]] * 2
    assert [row["side"] for row in rows] == ["head", "tail"]


def test_damaged_files_are_skipped_only_on_request(tmp_path):
    for seed in range(2):
        example(seed).save(tmp_path / f"{seed}.parquet")
    damage(tmp_path / "0.parquet", "overwritten")
    assert isinstance(run(tmp_path).exception, InputError)
    content = table(tmp_path, "--skip-damaged")
    assert content["rows"][0]["count"] == ROWS
    assert "0.parquet" in content["notes"][-1]


@pytest.mark.parametrize(
    "option", [["--interval", "delta"], ["--averages"], ["--data", "nations", "--by", "frequency"]]
)
def test_unsupported_streaming_options_raise(folder, option):
    error = run(folder, *option).exception
    assert isinstance(error, InputError)
    assert str(error) == (
        f"{option[0]} needs all ranks in memory; got several files, a URL, --dask or --skip-damaged; "
        "name one file per model"
    )


def test_strata_that_are_columns_are_streamed(tmp_path):
    for name in ("a", "b"):
        ranks = er.Ranks.of([1, 2], 9, keys={"frequency": ["rare", "often"]})
        ranks.save(tmp_path / f"{name}.parquet")
    rows = table(tmp_path, "--by", "frequency")["rows"]
    assert [row["frequency"] for row in rows] == ["often", "rare"]


def test_progress_is_shown_on_terminals_only(folder, monkeypatch, capsys):
    er.stream(folder)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    er.stream(folder)
    er.stream(folder, progress=False)
    assert "counting" in capsys.readouterr().err


def test_files_on_a_web_server_are_read(folder):
    pytest.importorskip("aiohttp")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.parquet"
        signed = f"{url}?signature=a/{'b' * 300}"
        assert er.stream(url).tally == er.stream(signed).tally == er.stream(folder / "a.parquet").tally
        server.shutdown()
