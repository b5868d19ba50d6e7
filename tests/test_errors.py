"""Invalid input: one clear error of one line, and no lost data."""

import pickle

import numpy as np
import polars as pl
import pytest

import evenrank as er
from evenrank.metrics.adjusted import Adjusted, Affine
from evenrank.metrics.metric import hit

BAD_RANKS = [
    (dict(rank=[0], candidates=5), "ranks start at 1; got 0 in row 0"),
    (dict(rank=[1, -3], candidates=5), "ranks start at 1; got -3 in row 1"),
    (
        dict(rank=[1, 6], candidates=5),
        "a rank is above its number of candidates; got rank 6 of 5 in row 1",
    ),
    (dict(rank=[2.5], candidates=2), "a rank is above its number of candidates; got rank 3 of 2"),
    (dict(rank=[np.nan], candidates=5), "ranks must be finite; got nan in row 0"),
    (dict(rank=[np.inf], candidates=5), "ranks must be finite; got inf"),
    (dict(rank=[1.25], candidates=5), "whole numbers or halves; got 1.25"),
    (dict(rank=["1"], candidates=5), "ranks must be a column of numbers; got ['1']"),
    (
        dict(rank=[1, 2], candidates=[5, 5, 5]),
        "columns differ in length; got 2 rows, but 3 in candidates",
    ),
    (
        dict(rank=[1, 2], candidates=5, weights=[1]),
        "columns differ in length; got 2 rows, but 1 in weight",
    ),
    (dict(rank=[1], candidates=5, weights=[-1]), "weights must be finite and not negative; got -1.0"),
    (dict(rank=[1], candidates=5, weights=[np.nan]), "weights must be finite"),
    (dict(rank=[1, 1], candidates=5, weights=[0, 0]), "at least one weight must be positive"),
    (dict(rank=[1], candidates=5, weights=["a"]), "weights must be numbers"),
    (dict(rank=[1], candidates=[0]), "candidates must be at least 1; got 0"),
    (dict(rank=[1], candidates=[2.5]), "candidates must be whole; got 2.5"),
    (dict(rank=[1], candidates=[10**10]), "candidates must be at most 1,000,000,000"),
    (dict(rank=[1, 2], candidates=5, keys={"side": ["a"]}), "columns differ in length"),
    (dict(rank=[1], candidates=5, keys={"weight": ["a"]}), "has the name of a count"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_RANKS, ids=[m for _, m in BAD_RANKS])
def test_bad_ranks(arguments, message):
    with pytest.raises(er.errors.InputError) as caught:
        er.Ranks.of(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def raises(message):
    return pytest.raises(er.errors.EvenrankError, match=message)


def test_bad_counts_and_pairs():
    with raises("better must be at least 0"):
        er.Ranks([-1], [0], [5])
    with raises("better must be whole"):
        er.Ranks([0.5], [0], [5])
    with raises("a column of whole numbers"):
        er.Ranks([[1, 2]], [0], [5])
    with raises("below its optimistic one; got 1 in row 0"):
        er.Ranks.between([2], [1], [5])
    with raises("optimistic ranks must be at least 1"):
        er.Ranks.between([0], [1], [5])


def test_tallies_check_what_they_count():
    with raises("better must be at least 0"):
        er.Tally.of([-5], [0], [10])
    with raises("rank 51 of 10"):
        er.Tally().update([50], [0], [10])
    assert er.Tally.of([1, 2], 0, 10).count == 2  # a single number is repeated


def test_bad_keys_and_protocols(tmp_path):
    with raises("no targets to group"):
        er.Ranks([], [], [], keys={"side": []}).by("side")
    with raises("unknown side; got 'subject'; allowed: head, tail"):
        keys = {"head": ["a"], "relation": ["r"], "tail": ["b"], "side": ["subject"]}
        er.Ranks.of([1], candidates=5, keys=keys).evaluate("mrr", average="query")
    with raises("different columns cannot be concatenated"):
        er.Ranks.of([1], candidates=5) + er.Ranks.of([1], candidates=5, weights=[1])
    path = tmp_path / "odd.csv"
    path.write_text('# evenrank "text"\nrank,candidates\n1,5\n')
    with raises("must be a JSON object; got str"):
        er.Ranks.load(path)
    path.write_text("rank,candidates\none,5\n")
    with raises("a cell that is not a number in column rank; got 'one' in row 1 below the header"):
        er.Ranks.load(path)


def test_bad_scores():
    with raises("scores contain NaN .query 1, candidate 2.; check"):
        er.Ranks.from_scores([[1, 2, 3], [1, 2, np.nan]], [0, 0])
    with raises("not among the candidates"):
        er.Ranks.from_scores([[1, 2, 3]], [3])
    with raises("target must be at least 0"):
        er.Ranks.from_scores([[1, 2, 3]], [-1])
    with raises("known and scores differ in shape"):
        er.Ranks.from_scores([[1, 2, 3]], [0], known=[[True]])
    with raises("must be a matrix"):
        er.Ranks.from_scores([1, 2, 3], [0])


@pytest.mark.parametrize("all_nan", [True, False])
def test_nan_never_becomes_a_good_rank(all_nan):
    """Elsewhere a model that returns NaN gets MRR 2.0, 1.0 or infinity."""
    scores = np.full((2, 4), np.nan) if all_nan else np.array([[np.nan, 1, 2, 3], [0, 1, 2, 3]])
    with raises("scores contain NaN"):
        er.Ranks.from_scores(scores, [0, 1])


def test_infinite_scores_are_ordinary_scores_and_stay_candidates():
    ranks = er.Ranks.from_scores([[np.inf, 1, -np.inf, np.inf]], [1])
    assert (ranks.better[0], ranks.equal[0], ranks.candidates[0]) == (2, 0, 4)


def test_tiny_and_negative_scores_are_compared_exactly():
    """No tolerance, no rounding, no sign: scaled or shifted scores have the same ranks."""
    scores = np.random.default_rng(0).standard_normal((20, 50))
    want = er.Ranks.from_scores(scores, np.arange(20))
    for other in (scores * 1e-6, scores * 1e-300, scores - 1000):
        got = er.Ranks.from_scores(other, np.arange(20))
        assert got.better.tolist() == want.better.tolist()


def test_bad_options(tmp_path):
    ranks = er.Ranks.of([1, 2], candidates=5, keys={"side": ["head", "tail"]})
    with raises(
        "unknown tie-breaking rule; got 'middle'; allowed: expected, realistic, optimistic, pessimistic"
    ):
        ranks.evaluate("mrr", ties="middle")
    with raises("no such key column; got 'relation'; allowed: side"):
        ranks.by("relation")
    with raises("requires a key"):
        ranks.by()
    with raises(
        "average over queries requires keys that identify queries; got no key head, relation, tail"
    ):
        ranks.evaluate("mrr", average="query")
    with raises("no such key column"):
        ranks.evaluate("mrr", average="macro")
    with raises("unknown metric"):
        ranks.evaluate("mmr")


def test_bad_metrics():
    with raises("must be a number"):
        er.Metric(p=float("nan"))
    with raises("q must be 1 or -1"):
        er.Metric(q=2)
    for k in (0, -1, 1.5, True):
        with raises("k >= 1"):
            hit(k)
    with raises("unknown adjustment"):
        Adjusted("best", er.MRR)
    with pytest.raises(TypeError):
        2 / er.MR
    with pytest.raises(TypeError):
        2 / er.MEDIAN


def test_bad_null():
    for sizes, message in [
        ([], "no numbers of candidates"),
        ([0], "at least 1; got 0"),
        ([2.5], "must be whole"),
        ([np.nan], "must be whole"),
        (["a"], "a column of whole numbers"),
        ({5: 0}, "impossible number of targets"),
        ({5: -1}, "counts must be at least 0"),
    ]:
        with raises(message):
            er.chance("mrr", sizes)
    with raises("columns differ in length"):
        er.chance("mrr", [5, 6], counts=[1, 2, 3])
    with raises("columns differ in length"):
        er.chance("mrr", [5, 6], weights=[1])
    with raises("at least one weight must be positive"):
        er.chance("mrr", [5, 6], weights=[0, 0])
    with raises("counts= and weights= cannot be combined with Ranks or a Tally"):
        er.chance("mrr", er.Tally.of([0], [0], [5]), weights=[1])
    with raises("counts= cannot be combined with a mapping"):
        er.chance("mrr", {5: 2}, counts=[1])
    with raises("numbers of candidates must be at most"):
        er.chance("mrr", [1e30])
    with raises("impossible number of targets"):
        er.chance("mrr", {10: 2**53, 11: 2**53})
    with raises("weights must be numbers"):
        er.chance("mrr", [5], weights=["a"])
    with raises("unknown method; got 'guess'; allowed: exact, enumerate, sample"):
        er.chance("mrr", [5], method="guess")
    with raises("a metric without adjustment is required; got z.mrr.; use mrr"):
        er.chance("z(mrr)", [5])
    with raises("chance levels require at least one target"):
        er.chance("mrr", er.Tally())
    with raises("no chance level"):
        er.chance("count", [5])
    with raises("no exact null distribution"):
        er.chance("std", {100: 50}).mean()
    with raises("median has no exact null distribution with unequal weights"):
        er.chance("median", np.arange(50, 90), weights=np.arange(1, 41)).mean()
    with raises("neither large nor small|no value is better or worse"):
        er.chance("mad", [5, 6]).sf(1.0)
    with raises("a value of the metric must be a number"):
        er.chance("mrr", [5, 6]).sf(float("nan"))
    with raises("too many outcomes to enumerate"):
        er.chance("mrr", {100: 50}, method="enumerate").mean()
    with raises("too many ranks to draw"):
        er.chance("mrr", {100: 10**9}, method="sample").mean()
    with raises("samples must be at least 2"):
        er.chance("mrr", [5], method="sample", samples=1).mean()
    with raises("quantile between two ranks with so many sizes"):
        er.chance("median", np.arange(5000, 11000, 100)).mean()


def test_bad_lines():
    with raises("same x"):
        Affine.through((1, 0), (1, 1))
    with raises("a constant map has no inverse"):
        ~Affine(0.0, 1.0)


def test_bad_files(tmp_path):
    good = tmp_path / "good.parquet"
    er.Ranks.of(np.arange(1, 500), candidates=500).save(good)
    truncated = tmp_path / "truncated.parquet"
    truncated.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    with raises("cannot read .*truncated.parquet; got .*; it may be damaged, truncated"):
        er.Ranks.load(truncated)
    with raises("no such file; got .*missing.parquet"):
        er.Ranks.load(tmp_path / "missing.parquet")
    other = tmp_path / "other.parquet"
    pl.DataFrame({"score": [1.0]}).write_parquet(other)
    with raises("has no columns of ranks; got columns score; allowed: better"):
        er.Ranks.load(other)
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("rank\n1\n2\n")
    with raises("chance level of mrr requires the number of candidates, .*; pass candidates="):
        er.Ranks.load(lacking).evaluate("index(mrr)")
    assert er.Ranks.load(lacking, candidates=9).candidates.tolist() == [9, 9]
    hole = tmp_path / "hole.csv"
    hole.write_text("rank,candidates\n1,5\n,5\n")
    with raises("hole.csv: empty cell in column rank, or a line cut short; got row 2 below the header"):
        er.Ranks.load(hole)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("rank,candidates\n1,5\n2,5,7,8\n")
    with raises(
        "ragged.csv: more cells than columns; got 4 cells in row 2 below the header; allowed: 2"
    ):
        er.Ranks.load(ragged)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00rank")
    with raises("binary.csv:1: not UTF-16, as its first bytes say"):
        er.Ranks.load(binary)
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with raises("empty.csv: an empty file; add a header and ranks"):
        er.Ranks.load(empty)
    with raises("not a table of ranks; got object"):
        er.Ranks.from_frame(object())


def test_errors_travel_between_processes():
    with raises("ranks start at 1") as caught:
        er.Ranks.of([1, 0], candidates=5)
    there = pickle.loads(pickle.dumps(caught.value))
    assert (type(there), str(there)) == (er.errors.InputError, "ranks start at 1; got 0 in row 1")


def test_unwritable_output_leaves_nothing(tmp_path):
    ranks = er.Ranks.of([1], candidates=5)
    with raises("cannot write .*; got"):
        ranks.save(tmp_path / "no" / "such" / "folder.parquet")
    with raises("cannot write .*; got"):
        ranks.save(tmp_path / "no" / "such" / "folder.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "r.parquet"
    er.Ranks.of([1], candidates=5).save(path)
    before = path.read_bytes()

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with raises("cannot write .*; got No space left on device"):
        er.Ranks.of([2], candidates=5).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Wrong types --------------------------------------------------------------------------------------

RANKS = er.Ranks.of([1, 2], 9, keys={"side": ["head", "tail"]})
ODD = {
    "None": None,
    "text": "x",
    "mapping": {"a": 1},
    "ragged": [[1], [1, 2]],
    "matrix": [[1, 2], [3, 4]],
    "object": object(),
    "bytes": b"x",
    "list of None": [None],
    "mixed": [1, "a"],
    "complex": [1 + 2j],
    "date": np.datetime64("2020-01-01"),
    "array of None": np.array(None),
    "array of text": np.array(["a", "b"]),
    "function": len,
}
BAD_IN = {  # by call, the kinds of arguments that are right there
    "Ranks.of": (er.Ranks.of, ()),
    "Ranks.of candidates": (lambda v: er.Ranks.of([1, 2], v), ("None",)),
    "Ranks.of weights": (lambda v: er.Ranks.of([1, 2], weights=v), ("None",)),
    "Ranks.of keys": (lambda v: er.Ranks.of([1], keys=v), ("None", "mapping")),
    "Ranks.of protocol": (lambda v: er.Ranks.of([1], protocol=v), ("None", "mapping")),
    "Ranks": (lambda v: er.Ranks(v, 0, 9), ()),
    "Ranks equal": (lambda v: er.Ranks([1], v), ()),
    "Ranks.between": (lambda v: er.Ranks.between(v, [2], 9), ()),
    "Ranks.from_scores": (lambda v: er.Ranks.from_scores(v, [5, 5]), ()),
    "Ranks.from_scores target": (lambda v: er.Ranks.from_scores([[1, 2]], v), ()),
    "Ranks.from_scores known": (lambda v: er.Ranks.from_scores([[1, 2]], [0], v), ("None",)),
    "Ranks.from_frame": (er.Ranks.from_frame, ()),
    "Ranks.load": (er.Ranks.load, ()),
    "save": (RANKS.save, ("text",)),
    "by": (RANKS.by, ()),
    "evaluate": (RANKS.evaluate, ()),
    "ties": (lambda v: RANKS.evaluate("mr", ties=v), ("None",)),
    "average": (lambda v: RANKS.evaluate("mr", average=v), ()),
    "units": (RANKS.units, ()),
    "rows": (lambda v: RANKS[v], ()),
    "with_keys": (RANKS.with_keys, ("None", "mapping")),
    "with_only_keys": (RANKS.with_only_keys, ("None", "mapping")),
    "with_protocol": (RANKS.with_protocol, ("None", "mapping")),
    "with_weights": (RANKS.with_weights, ("None",)),
    "Tally.of": (lambda v: er.Tally.of(v, 0, 9), ()),
    "Tally.of_ranks": (er.Tally.of_ranks, ()),
    "Tally.update": (lambda v: er.Tally().update(v, 0), ()),
    "chance": (lambda v: er.chance(v, [5]), ()),
    "chance sizes": (lambda v: er.chance("mr", v), ()),
    "chance counts": (lambda v: er.chance("mr", [5, 6], counts=v), ("None",)),
    "chance weights": (lambda v: er.chance("mr", [5, 6], weights=v), ("None",)),
    "chance method": (lambda v: er.chance("mr", [5], method=v), ()),
    "chance samples": (lambda v: er.chance("mr", [5], samples=v), ()),
    "chance seed": (lambda v: er.chance("mr", [5], seed=v), ()),
    "p-value": (er.chance("mr", [5]).sf, ()),
    "parse": (er.parse, ()),
    "define": (lambda v: er.define(v, lambda r: 1 / r), ("text",)),
    "define function": (lambda v: er.define("odd_function", v), ()),
    "desiderata": (er.desiderata, ()),
    "stream": (er.stream, ()),
    "stream by": (lambda v: er.stream("x", by=v), ()),
    "Metric": (er.Metric, ()),
    "Metric p": (lambda v: er.Metric(p=v), ()),
    "Metric q": (lambda v: er.Metric(q=v), ()),
    "HITS": (er.HITS, ()),
    "MRR": (er.MRR, ()),
    "MRR ties": (lambda v: er.MRR([1], v), ()),
    "MEDIAN": (er.MEDIAN, ()),
    "Task.of": (lambda v: er.Task.of(v, [1], size=5), ()),
    "Task.of targets": (lambda v: er.Task.of([[0]], v, size=5), ()),
    "Task.of size": (lambda v: er.Task.of([[0]], [1], size=v), ()),
    "Task.of known": (lambda v: er.Task.of([[0]], [1], size=5, known=v), ("None", "matrix")),
    "Task.of candidates": (lambda v: er.Task.of([[0]], [1], size=5, candidates=v), ("None",)),
    "Task.of keys": (lambda v: er.Task.of([[0]], [1], size=5, keys=v), ("None", "mapping")),
    "Task.of outside": (lambda v: er.Task.of([[0]], [1], size=5, outside=v), ()),
    "Task.alignment": (lambda v: er.Task.alignment(v, size=3), ()),
    "Task.links": (lambda v: er.Task.links(v, size=3), ()),
    "Task.answers": (lambda v: er.Task.answers([[0]], v, size=5), ()),
    "Task.join": (er.Task.join, ()),
    "Graph": (lambda v: er.Graph("g", range(2), range(2), v), ()),
    "Model.triples": (lambda v: er.models.load("nations/complex").triples(v, [0], [0]), ()),
    "Model.size": (lambda v: er.models.load("nations/complex").size(v), ()),
    "Protocol sides": (lambda v: er.Protocol(sides=v), ("None", "text", "array of text")),
    "Protocol extra": (lambda v: er.Protocol(extra=v), ("None", "mapping")),
    "Protocol.only": (er.Protocol().only, ("text", "mapping", "array of text")),
}


@pytest.mark.parametrize("call", BAD_IN)
@pytest.mark.parametrize("kind", ODD)
def test_wrong_types_are_one_clear_line(call, kind):
    """Never a TypeError or AttributeError of Python, nor the message of another library."""
    function, right = BAD_IN[call]
    if kind in right:
        return
    with pytest.raises(er.errors.EvenrankError) as caught:
        function(ODD[kind])
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
