"""Streams of rankings: equal to evaluation in memory, to the bit, in any parts and in bounded memory."""

import subprocess
import sys

import numpy as np
import pytest

import evenrank as er
from evenrank import Rankings
from evenrank.errors import InputError
from evenrank.ranks.streams import QueryTallies, Tallies, _rankings

METRICS = ["map", "ndcg@5", "recall@3", "success@2", "mrr", "z(map)", "index(ndcg@5)", "count"]


def drawn(seed=0, queries=120, weighted=False):
    rng = np.random.default_rng(seed)
    gains = (rng.random((queries, 15)) < 0.2) * rng.integers(1, 4, (queries, 15))
    scores = rng.normal(size=gains.shape).round(1)
    number = np.arange(queries) + 1000 * seed
    keys = {
        "query": number,
        "kind": rng.choice(["x", "y"], queries),
        "size": rng.integers(5, 12, queries),
    }
    weights = rng.random(queries) * (rng.random(queries) < 0.8) if weighted else None
    return Rankings.from_scores(scores, gains, keys=keys, weights=weights)


@pytest.fixture(params=[False, True], ids=["equal weights", "weighted"])
def folder(request, tmp_path):
    """A folder of three files, and all of their rankings."""
    every = [drawn(seed, weighted=request.param) for seed in range(3)]
    for i, one in enumerate(every):
        one.save(tmp_path / f"{i}.parquet")
    return tmp_path, every[0] + every[1] + every[2]


@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_a_stream_has_the_bits_of_evaluation_in_memory(folder, ties):
    path, whole = folder
    made = er.stream(path, progress=False)
    assert isinstance(made, QueryTallies)
    for empty in ("skip", "zero"):
        expected = whole.evaluate(METRICS, ties=ties, empty=empty)
        found = made.evaluate(METRICS, ties=ties, empty=empty)
        assert found == expected
        assert found.counts == expected.counts
        assert found.table().notes == expected.table().notes
    assert made.evaluate() == whole.evaluate()


def test_files_are_read_in_any_parts(folder, monkeypatch):
    path, whole = folder
    for answers in (1, 100, 10**9):
        monkeypatch.setattr(_rankings, "MOST_ANSWERS", answers)
        monkeypatch.setattr(_rankings, "FEWEST", 7)
        assert er.stream(str(path / "*.parquet")).evaluate(METRICS) == whole.evaluate(METRICS)


def test_metrics_that_were_not_added_up_are_read_again(folder):
    path, whole = folder
    made = er.stream(path, metrics="map")
    assert made.evaluate("map") == whole.evaluate("map")
    assert made.evaluate("auc", "map") == whole.evaluate("auc", "map")
    assert made.evaluate("z(rbp(0.5))") == whole.evaluate("z(rbp(0.5))")


@pytest.mark.parametrize("by", ["kind", "size", ["kind", "size"]])
def test_groups_are_those_in_memory(folder, by):
    path, whole = folder
    names = [by] if isinstance(by, str) else by
    found, expected = er.stream(path, by=by).evaluate(METRICS), whole.by(*names).evaluate(METRICS)
    assert found == expected
    assert found.labels == expected.labels  # 5 before 10
    assert repr(er.stream(path, by=by)) == (
        f"QueryTallies({sum(found.counts):,} queries; {len(expected.labels):,} groups "
        f"by {', '.join(names)})"
    )


def test_text_files_of_rankings_say_so(tmp_path):
    rankings = drawn()
    rankings = rankings[rankings.answer_counts > 0]
    for name in ("a.csv", "a.tsv"):
        path = tmp_path / name
        rankings.save(path)
        assert er.stream(path).evaluate(METRICS) == rankings.evaluate(METRICS)
        assert Rankings.load(path).protocol == rankings.protocol
        with pytest.raises(InputError, match=r"er\.Rankings\.load reads it"):
            er.Ranks.load(path)


def test_a_table_of_others_with_a_row_per_answer_is_one_of_ranks_unless_told_otherwise(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query,better,equal,candidates\na,0,0,9\na,2,0,9\nb,1,0,9\n")
    assert isinstance(er.stream(path), Tallies)
    assert er.stream(path, kind="rankings").evaluate("map")["map"] == pytest.approx((5 / 6 + 1 / 2) / 2)


def test_damaged_files_are_left_out_on_request(folder):
    path, whole = folder
    (path / "3.parquet").write_bytes((path / "2.parquet").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"3\.parquet"):
        er.stream(path)
    made = er.stream(path, skip_damaged=True)
    assert list(made.left_out) == [str(path / "3.parquet")]
    assert made.evaluate("map") == whole.evaluate("map")
    assert "left out as damaged" in made.evaluate("map").notes[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "user"}, r"no such key column; got 'user'; allowed: query, kind, size"),
        ({"average": "kind"}, r"cannot be streamed; got average kind; load the file with er\.Rank"),
        ({"kind": "ranks"}, r"a file of rankings of queries with several answers.*leave out kind="),
        ({"kind": "list"}, r"unknown kind; got 'list'; allowed: ranks, rankings"),
        ({"metrics": "hits@10"}, r"use success@10"),
    ],
)
def test_bad_options_get_one_clear_error(folder, options, message):
    with pytest.raises(InputError, match=message):
        er.stream(folder[0], **options)


def test_files_of_ranks_and_of_rankings_do_not_mix(folder):
    path, _ = folder
    er.Ranks.of([1, 2], 9, keys={"query": ["a", "b"]}).save(path / "z.parquet")
    with pytest.raises(InputError, match=r"files of ranks and of rankings do not mix; got .*z\.parquet"):
        er.stream(path)


PEAK = """
import resource, sys, numpy as np, evenrank as er
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
er.stream(sys.argv[1], metrics=["map", "ndcg@10"], progress=False).evaluate("map", "ndcg@10")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_number_of_queries(tmp_path):
    rng, peaks = np.random.default_rng(0), []
    for queries in (100_000, 500_000):
        better = np.sort(rng.integers(0, 900, (queries, 8)), axis=1) + np.arange(8)
        path = tmp_path / f"{queries}.parquet"
        Rankings.flat(np.arange(0, 8 * queries + 1, 8), better.ravel(), 0, 1000).save(path)
        done = subprocess.run(
            [sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout) / 1000)
    assert peaks[1] < 1.3 * peaks[0] + 20, peaks
