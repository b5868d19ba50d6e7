"""Groups in the order of a metric, those with enough targets, and models side by side."""

import json

import numpy as np
import polars as pl
import pytest

import evenrank as er
from evenrank.ranks.evaluation import NotEvaluatedError

METRICS = ("count", "mrr", "mr", "index(mrr)")


def drawn(seed, targets=200, relations=12):
    rng = np.random.default_rng(seed)
    relation = [f"r{i:02}" for i in rng.integers(relations, size=targets) ** 2 // relations]
    return er.Ranks.of(rng.integers(1, 50, size=targets), candidates=60, keys={"relation": relation})


@pytest.fixture(scope="module")
def models():
    first, second = drawn(1), drawn(2)
    return {"first": first, "second": second.with_keys(relation=first.keys["relation"])}


@pytest.fixture(scope="module")
def pivot(models):
    return er.evaluate({name: one.by("relation") for name, one in models.items()}, *METRICS).pivot(
        "model"
    )


@pytest.mark.parametrize("metric", ["mrr", "mr", "index(mrr)"])
@pytest.mark.parametrize("reverse", [False, True])
def test_groups_are_sorted_by_goodness(models, metric, reverse):
    made = models["first"].by("relation").evaluate(*METRICS)
    better = er.parse(metric).increasing
    want = sorted(made.rows(), key=lambda row: row[metric], reverse=better != reverse)
    assert made.sort(metric, reverse=reverse).rows() == want


def test_groups_are_sorted_by_counts_that_are_not_shown(models):
    made = models["first"].by("relation").evaluate("mrr").sort("count")
    assert list(made.counts) == sorted(made.counts, reverse=True)
    assert dict(zip(made.labels, made["mrr"], strict=True)) == {
        label: ranks.evaluate("mrr")["mrr"] for label, ranks in models["first"].by("relation")
    }


def test_undefined_values_come_last_in_either_order():
    keys = {"k": ["a", "b", "c"]}
    made = er.Ranks.of([1, 3, 2], candidates=[1, 9, 9], keys=keys).by("k").evaluate("index(mrr)")
    assert [label for (label,) in made.sort("index(mrr)").labels] == ["c", "b", "a"]
    assert [label for (label,) in made.sort("index(mrr)", reverse=True).labels] == ["b", "c", "a"]


def test_equal_groups_keep_their_order():
    made = er.Ranks.of([2, 2, 2, 1], keys={"k": list("dbca")}).by("k").evaluate("mr")
    assert [label for (label,) in made.sort("mr").labels] == ["a", "b", "c", "d"]


def test_small_groups_are_left_out_with_a_note(models):
    ranks = models["first"]
    relations, counts = np.unique(ranks.keys["relation"], return_counts=True)
    made = ranks.by("relation").evaluate("mrr")
    for least in (1, 5, 20):
        kept = made.filter(min_count=least)
        assert [label for (label,) in kept.labels] == relations[counts >= least].tolist()
        assert kept.counts == tuple(counts[counts >= least].tolist())
        gone = int((counts < least).sum())
        note = f"{gone} of {len(counts)} groups left out: fewer than {least} targets"
        assert kept.notes == ((note,) if gone else ())
        assert f"{counts[counts >= least].sum():,} targets" in kept.text()


@pytest.mark.parametrize(
    ("least", "message"),
    [
        (10**6, "no group has enough targets; got at most"),
        (0, "min_count must be at least 1"),
        (1.5, "min_count must be whole"),
    ],
)
def test_impossible_numbers_of_targets_raise(models, least, message):
    with pytest.raises(er.errors.InputError, match=message):
        models["first"].by("relation").evaluate("mrr").filter(min_count=least)


def test_a_single_group_has_nothing_to_filter(models):
    with pytest.raises(er.errors.InputError, match="group the ranks by a key first"):
        models["first"].evaluate("mrr").filter(min_count=2)


def test_sorting_by_another_metric_raises(models, pivot):
    for made in (models["first"].by("relation").evaluate("mrr"), pivot):
        with pytest.raises(NotEvaluatedError, match=r"hits@3 was not evaluated; allowed: .*mrr"):
            made.sort("hits@3")


def test_bands_of_ties_are_sorted_with_their_groups():
    ranks = er.Ranks.of([2.5, 1, 3.5, 1], candidates=9, keys={"k": ["a", "b", "c", "d"]})
    made = ranks.by("k").evaluate("mrr")
    sorted_ = made.sort("mrr")
    for layer in ("optimistic", "pessimistic"):
        before = dict(zip(made.labels, getattr(made, layer)[:, 0], strict=True))
        assert dict(zip(sorted_.labels, getattr(sorted_, layer)[:, 0], strict=True)) == before
    assert sorted_.tie_rates == (0, 0, 1, 1)


def test_intervals_are_sorted_and_filtered_with_their_cells(models):
    made = er.intervals(models["first"].by("relation"), "mrr")
    found = made.sort("mrr").filter(min_count=20)
    want = models["first"].by("relation").evaluate("mrr").sort("mrr").filter(min_count=20)
    assert found.evaluation.labels == want.labels
    assert [row["value"] for row in found.rows()] == want["mrr"].tolist()
    before = {row["relation"]: row for row in made.rows()}
    assert all(row == before[row["relation"]] for row in found.rows())
    assert want.notes[-1] in found.text()


def test_models_side_by_side_have_the_values_of_each(models, pivot):
    each = {
        name: {row["relation"]: row for row in one.by("relation").evaluate(*METRICS).rows()}
        for name, one in models.items()
    }
    for row in pivot.rows():
        assert row["count"] == each["first"][row["relation"]]["count"]
        for metric in METRICS[1:]:
            values = [each[name][row["relation"]][metric] for name in models]
            assert [row[f"{name} {metric}"] for name in models] == values
            assert row[f"difference {metric}"] == values[0] - values[1]
    assert pivot["mrr"].shape == (len(pivot), 2)
    assert pivot.to_polars()["first mrr"].to_list() == pivot["mrr"][:, 0].tolist()


def test_the_values_are_those_of_polars(models, pivot):
    frames = [
        one.to_polars().select("relation", model=pl.lit(name), rank=pl.col("better") + 1)
        for name, one in models.items()
    ]
    want = pl.concat(frames).pivot(
        on="model", index="relation", values="rank", aggregate_function="mean"
    )
    assert (
        pivot.to_polars()
        .select("relation", first="first mr", second="second mr")
        .equals(want.sort("relation"))
    )


@pytest.mark.parametrize("of", [None, "first", "second", "difference"])
@pytest.mark.parametrize("metric", ["mrr", "mr"])
def test_groups_of_models_are_sorted_by_one_of_them_or_by_the_difference(pivot, metric, of):
    name = f"{of or 'first'} {metric}"
    want = sorted(pivot.rows(), key=lambda row: row[name], reverse=er.parse(metric).increasing)
    assert pivot.sort(metric, of).rows() == want


def test_a_group_that_a_model_has_not_is_undefined():
    first = er.Ranks.of([1, 2, 3], keys={"k": ["a", "b", "b"]})
    second = er.Ranks.of([4, 2, 2], keys={"k": ["b", "c", "c"]})
    made = er.evaluate({"first": first.by("k"), "second": second.by("k")}, "count", "mr").pivot("model")
    assert made.labels == (("a",), ("b",), ("c",))
    assert np.isnan(made["mr"]).tolist() == [[False, True], [False, False], [True, False]]
    assert made.text().splitlines() == [
        "      first         second     difference",
        "   ------------  ------------  ----------",
        "k  count   mr ↓  count   mr ↓        mr ↓",
        "-  -----  -----  -----  -----  ----------",
        "a      1  1.000      0      –           –",
        "b      2  2.500      1  4.000      -1.500",
        "c      0      –      2  2.000           –",
        "3 targets of each model, 0.0% tied",
        "no protocol recorded [788eeea3]",
    ]
    assert [label for (label,) in made.sort("mr", "second").labels] == ["c", "b", "a"]
    assert [label for (label,) in made.filter(min_count=2).labels] == ["b", "c"]
    assert json.loads(made.to_json())["rows"][0] == {
        "k": "a",
        "first": {"count": 1, "mr": 1.0},
        "second": {"count": 0, "mr": None},
        "difference": {"mr": None},
    }


def test_three_models_have_no_difference(models):
    three = {name: drawn(3).by("relation") for name in "abc"}
    made = er.evaluate(three, "mrr").pivot("model")
    assert made.differences is None
    with pytest.raises(er.errors.InputError, match="no such model; got 'difference'; allowed: a, b, c"):
        made.sort("mrr", "difference")


def test_only_labels_of_groups_can_be_put_side_by_side(models):
    grouped = er.evaluate({name: one.by("relation") for name, one in models.items()}, "mrr")
    with pytest.raises(
        er.errors.InputError, match="no such label; got 'side'; allowed: model, relation"
    ):
        grouped.pivot("side")
    with pytest.raises(er.errors.InputError, match="only model"):
        er.evaluate(models, "mrr").pivot("model")


def test_several_models_are_evaluated_like_each_of_them(models):
    made = er.evaluate(models, "mrr", "index(mrr)")
    for i, ranks in enumerate(models.values()):
        assert made.values_by_group[i].tolist() == list(ranks.evaluate("mrr", "index(mrr)").values())
    assert er.evaluate([*models.values()], ["mrr"]).labels == (("model 1",), ("model 2",))
    assert er.evaluate(models["first"], "mrr") == models["first"].evaluate("mrr")
    macro = er.evaluate(models, "mrr", average="relation")
    assert macro["mrr"][0] == models["first"].evaluate("mrr", average="relation")["mrr"]
    assert macro.protocol.average == "relation"


def test_undefined_values_are_counted_among_the_groups_that_a_filter_keeps():
    keys = {"relation": ["a"] * 5 + ["b"] * 4 + ["c", "d"]}
    sizes = [1] * 5 + [9] * 4 + [1, 1]  # one candidate: nothing to adjust, in a, c and d
    ranks = er.Ranks.of([1] * 11, candidates=sizes, keys=keys)
    made = ranks.by("relation").evaluate("mrr", "index(mrr)")
    (note,) = (note for note in made.notes if note.startswith("–"))
    assert note.endswith("(in 3 of 4 groups)")
    kept = made.filter(min_count=2)
    assert [one for one in kept.notes if one.startswith("–")] == [note.replace("3 of 4", "1 of 2")]
    assert not any(one.startswith("–") for one in made.take([1]).notes)
    assert made.sort("mrr").notes == made.notes
    both = er.evaluate({"x": ranks.by("relation"), "y": ranks.by("relation")}, "index(mrr)")
    side = both.pivot("model").filter(min_count=2)
    assert [one for one in side.notes if one.startswith("–")] == [note.replace("3 of 4", "2 of 4")]
    wide = er.intervals(ranks.by("relation"), "mrr", "index(mrr)").filter(min_count=2)
    assert any(one.endswith("(in 1 of 2 groups)") for one in wide.evaluation.notes)
