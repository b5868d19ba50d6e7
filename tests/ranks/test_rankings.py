"""Rankings: queries with all of their answers."""

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.errors import InputError, NullDistributionError
from evenrank.ranks.rankings import Rankings


def drawn(queries=40, seed=0, *, graded=False, empty=0.2, n=12):
    """Draw rankings with ties from random scores."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (queries, n))
    gains = rng.integers(1, 4 if graded else 2, (queries, n)) * (rng.random((queries, n)) < 0.3)
    gains[rng.random(queries) < empty] = 0
    keys = {"user": [f"u{i}" for i in range(queries)], "kind": rng.choice(["a", "b"], queries)}
    return scores, gains, Rankings.from_scores(scores, gains, keys=keys)


def same(a, b):
    """Whether two rankings have the same columns."""
    names = ("first", "better", "equal", "gains", "candidates", "weights", "answers")
    columns = all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)
    keys = a.keys.keys() == b.keys.keys()
    return columns and keys and all(np.array_equal(a.keys[k], b.keys[k]) for k in a.keys)


def test_scores_are_counted_as_by_comparing_all_pairs():
    scores, gains, rankings = drawn()
    for i, (row, gain) in enumerate(zip(scores, gains, strict=True)):
        mine = slice(*rankings.first[i : i + 2])
        expected = sorted(
            ((row > s).sum(), (row == s).sum() - 1) for s, g in zip(row, gain, strict=True) if g
        )
        found = zip(rankings.better[mine], rankings.equal[mine], strict=True)
        assert [tuple(map(int, one)) for one in found] == [tuple(map(int, one)) for one in expected]
    assert set(rankings.candidates) == {12}


def test_known_candidates_are_filtered_but_answers_stay():
    rankings = Rankings.from_scores([[5, 4, 3, 2]], [[0, 0, 1, 0]], known=[[1, 0, 1, 0]])
    assert (rankings.better.tolist(), rankings.candidates.tolist()) == ([1], [3])


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv"])
def test_files_give_the_same_rankings_back(tmp_path, suffix, graded):
    _, _, rankings = drawn(graded=graded, empty=0.0 if suffix != "parquet" else 0.3)
    rankings = rankings[rankings.first[1:] > rankings.first[:-1]] if suffix != "parquet" else rankings
    rankings = rankings.with_protocol(data="films", model="kNN").with_keys(
        query=np.arange(len(rankings))
    )
    rankings.save(tmp_path / f"r.{suffix}")
    again = Rankings.load(tmp_path / f"r.{suffix}")
    if suffix == "parquet":
        assert same(again, rankings)
    assert again.protocol == rankings.protocol
    assert np.array_equal(again.better, rankings.better)
    assert again.evaluate("map", "z(ndcg)") == rankings.evaluate("map", "z(ndcg)")


def test_names_of_answers_and_weights_are_kept_in_files(tmp_path):
    rankings = Rankings([[3, 0], [1]], 0, 9, answers=[["x", "y"], ["x"]], weights=[1, 2.5])
    assert rankings.answers.tolist() == ["y", "x", "x"]  # in the order of their ranks
    rankings.save(tmp_path / "r.parquet")
    assert same(Rankings.load(tmp_path / "r.parquet"), rankings)
    assert rankings.evaluate("map")["map"] == pytest.approx((1 * (1 + 2 / 4) / 2 + 2.5 * 0.5) / 3.5)


def test_queries_without_answers_cannot_be_saved_as_text(tmp_path):
    with pytest.raises(InputError, match=r"1 queries without answers; save as \.parquet"):
        Rankings([[1], []], 0, 9).save(tmp_path / "r.csv")


def test_tables_with_a_row_per_answer_need_the_query():
    with pytest.raises(InputError, match="require the key query"):
        Rankings.from_frame({"better": [1, 2], "equal": [0, 0]})
    with pytest.raises(InputError, match="answers of one query differ in column candidates"):
        Rankings.from_frame({"query": [1, 1], "better": [1, 2], "equal": [0, 0], "candidates": [9, 8]})
    with pytest.raises(InputError, match="no columns of rankings; got columns rank"):
        Rankings.from_frame({"rank": [1, 2]})


def test_frames_and_pickles_hold_all_columns():
    _, _, rankings = drawn(graded=True)
    assert same(Rankings.from_frame(rankings.to_polars()), rankings)
    assert same(Rankings.from_frame(rankings.to_pandas()), rankings)
    assert same(pickle.loads(pickle.dumps(rankings)), rankings)
    assert isinstance(rankings.to_polars().schema["better"], pl.List)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_sums_do_not_depend_on_order_or_shards_in_any_bit(seed, graded):
    _, _, rankings = drawn(30, seed, graded=graded)
    rng = np.random.default_rng(seed)
    rankings = rankings.with_weights(rng.random(30) if seed % 2 else None)
    metrics = "map", "mrr", "ndcg@5", "recall@3", "err"
    whole = rankings.tally(*metrics)
    order = rng.permutation(30)
    cuts = sorted(rng.integers(0, 31, 3))
    parts = [rankings[part].tally(*metrics) for part in np.split(order, cuts) if len(part)]
    added = parts[0]
    for part in parts[1:]:
        added = added + part
    assert added == whole
    for metric in whole.metrics:
        assert added.value(metric) == whole.value(metric) or not whole.count


def test_rows_are_selected_with_their_answers():
    _, _, rankings = drawn()
    some = rankings[np.array([5, 2, 9])]
    assert some.keys["user"].tolist() == ["u5", "u2", "u9"]
    assert some.values("map").tolist() == pytest.approx(rankings.values("map")[[5, 2, 9]], nan_ok=True)
    assert len(rankings[3]) == 1
    assert len(rankings[:7] + rankings[7:]) == len(rankings)
    assert same(rankings[:7] + rankings[7:], rankings)


def test_groups_have_their_own_values_and_chance_levels():
    _, _, rankings = drawn()
    result = rankings.by("kind").evaluate("count", "map", "chance(map)")
    for i, kind in enumerate("ab"):
        part = rankings[rankings.keys["kind"] == kind].evaluate("map", "chance(map)")
        assert result["map"][i] == part["map"]
        assert result["chance(map)"][i] == part["chance(map)"]
    assert result["count"].sum() == (np.diff(rankings.first) > 0).sum()
    macro = rankings.evaluate("map", "chance(map)", average="kind")
    for metric in macro:  # queries without answers have no share in the weight of their group
        assert macro[metric] == pytest.approx(result[metric].mean())
    zero = rankings.evaluate("map", average="kind", empty="zero")
    each = rankings.by("kind").evaluate("map")["map"] * [
        (rankings.answer_counts[rankings.keys["kind"] == kind] > 0).mean() for kind in "ab"
    ]
    assert zero["map"] == pytest.approx(each.mean())


def test_queries_without_answers_are_left_out_or_zero_and_counted():
    rankings = Rankings([[0], [1], []], 0, 5)
    skipped = rankings.evaluate("map", "index(map)", "chance(map)")
    zero = rankings.evaluate("map", "index(map)", "chance(map)", empty="zero")
    assert (skipped["map"], zero["map"]) == (0.75, pytest.approx(0.5))
    assert zero["chance(map)"] == pytest.approx(skipped["chance(map)"] * 2 / 3)
    assert zero["index(map)"] == skipped["index(map)"]
    assert "1 query without answers: left out" in skipped.notes
    assert "1 query without answers: have the value 0" in zero.notes
    with pytest.raises(InputError, match="at least one query with an answer"):
        Rankings([[], []], 0, 5).evaluate("map")


def test_a_query_whose_candidates_are_all_answers_has_no_auc():
    rankings = Rankings([[0, 1], [1]], 0, [2, 3])
    result = rankings.evaluate("auc", "map")
    assert result["auc"] == 0.5
    assert "auc: 1 query left out, as all candidates are answers" in result.notes
    assert rankings.evaluate("z(auc)")["z(auc)"] == rankings[1:].evaluate("z(auc)")["z(auc)"]
    with pytest.raises(er.errors.DegenerateError, match="all candidates are answers"):
        rankings[:1].evaluate("auc")


def test_without_candidates_only_unadjusted_metrics_are_known():
    rankings = Rankings([[0, 3], [1]], 0)
    assert rankings.evaluate("map")["map"] == 0.625
    assert not any("index" in name for name in rankings.evaluate())
    with pytest.raises(NullDistributionError, match="requires the number of candidates"):
        rankings.evaluate("index(map)")
    with pytest.raises(InputError, match="auc requires the number of candidates"):
        rankings.evaluate("auc")


def test_each_answer_by_itself_ranks_without_the_others():
    scores, gains, rankings = drawn(60, empty=0.0)
    ranks = rankings.ranks()
    expected = [
        ((row > s)[gain == 0].sum(), (row == s)[gain == 0].sum())
        for row, gain in zip(scores, gains, strict=True)
        for s in sorted(row[gain > 0], reverse=True)
    ]
    found = list(zip(ranks.better.tolist(), ranks.equal.tolist(), strict=True))
    assert found == [tuple(map(int, one)) for one in expected]
    assert ranks.candidates.tolist() == [
        12 - sum(gain > 0) + 1 for gain in gains for _ in range(sum(gain > 0))
    ]


def test_ranks_of_single_answers_give_the_rankings_back():
    for seed in range(20):
        _, _, rankings = drawn(25, seed, empty=0.0)
        rankings = rankings[np.diff(rankings.first) > 0]
        again = Rankings.from_ranks(rankings.ranks())
        for metric in ("map", "mrr", "ndcg", "recall@3", "auc", "r_precision"):
            for ties in ("expected", "optimistic", "pessimistic"):
                a, b = rankings.values(metric, ties), again.values(metric, ties)
                assert b == pytest.approx(a, abs=1e-13, nan_ok=True), (metric, ties)


def test_filtered_ranks_of_a_model_become_rankings():
    task = er.load("nations").task("test")
    ranks = er.rank(er.models.load("nations/complex"), task)
    rankings = Rankings.from_ranks(ranks)
    assert rankings.first[-1] == len(ranks)
    assert len(rankings) == len(set(ranks.units("query").tolist()))
    assert rankings.evaluate("map")["map"] <= rankings.evaluate("mrr")["mrr"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Rankings([[0, 1]], 0, 9, gains=[[1, -1]]), "gains must be finite and not negative"),
        (lambda: Rankings([[0, 1]], 0, 9, gains=[[1, float("nan")]]), "gains must be finite"),
        (lambda: Rankings([[0, 1]], 0, 9, gains=[[1]]), "gains must have as many values"),
        (lambda: Rankings([[0, 1]], 0, 9, answers=[["x", "x"]]), "a query has an answer twice; got 'x'"),
        (lambda: Rankings([0, 1], 0, 9), "better must be a list for each query"),
        (lambda: Rankings([[0, 1]], 0, 1), "more answers than candidates"),
        (lambda: Rankings.of([[1, 1]], 9), "more answers tie than candidates do"),
        (lambda: Rankings.of([[0]], 9), "positions must be at least 1"),
        (lambda: Rankings.of([[10]], 9), "position 10 of 9"),
        (lambda: Rankings.from_scores([[float("nan")]], [[1]]), "scores contain NaN"),
        (
            lambda: Rankings.from_scores([[1.0, 2], [3, 4]], [[0, 1], [1, -1]]),
            "gains must be finite and not negative; got -1 .query 1, candidate 1.",
        ),
        (lambda: Rankings.from_scores([[1.0]], [1]), "relevant must have the shape of scores"),
        (lambda: Rankings([[0]], 0, 9).evaluate("map@0"), "map@k needs a whole number k >= 1"),
        (lambda: Rankings([[0]], 0, 9).evaluate("hits@10"), "use success@10"),
        (
            lambda: Rankings([[0]], 0, 9).evaluate("map", ties="realistic"),
            "tie-breaking rule for several",
        ),
        (lambda: Rankings([[0]], 0, 9).evaluate("map", empty="nan"), "empty"),
        (lambda: Rankings.from_ranks(er.Ranks.of([1, 2])), "keys that identify queries"),
    ],
)
def test_bad_input_gets_one_clear_error(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_cutoff_beyond_all_candidates_is_that_of_all():
    rankings = Rankings([[0, 3], [1]], 0, 5)
    for name in ("map", "recall", "success", "mrr", "ndcg"):
        assert rankings.values(f"{name}@50").tolist() == rankings.values(f"{name}@5").tolist()
