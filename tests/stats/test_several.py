"""Several runs and several data sets: two ways to each number, and what is not complete."""

import json
import math

import numpy as np
from drawn import drawn, raises
from scipy import stats

import evenrank as er
from evenrank.stats import _several

# RunSummary and folds ----------------------------------------------------------------------------------


def test_seeds_are_summed_up():
    runs = [drawn(seed=i) for i in range(4)]
    made = er.summarize_runs(runs, "mrr", "median", ties="realistic")
    column = [ranks.evaluate("mrr", ties="realistic")["mrr"] for ranks in runs]
    first = made.spreads[0]
    assert math.isclose(first.mean, np.mean(column))
    assert math.isclose(first.sd, np.std(column, ddof=1))
    assert (first.n, first.least, first.most) == (4, min(column), max(column))
    models = er.summarize_runs({"a": runs, "b": runs[:1]}, "mrr")
    assert [s.n for s in models.spreads] == [4, 1]
    assert math.isnan(models.spreads[1].sd)
    assert "one run of b has no sd" in str(models)
    assert json.loads(models.to_json())["rows"][1]["sd"] is None
    assert len(er.summarize_runs(runs).spreads) == 4
    folds = [
        drawn(seed=i, protocol={"content": str(i), "split": "test", "model": str(i)}) for i in range(2)
    ]
    noted = er.summarize_runs(folds, "mrr")
    assert "the runs differ in content, and their sd holds that too" in str(noted)
    assert noted.protocol.split == "test"
    assert [s.n for s in er.summarize_runs(runs[0]).spreads] == [1] * 4  # not a run per row
    assert [s.n for s in er.summarize_runs({"a": runs[0]}, "mrr").spreads] == [1]
    with raises("every run must be ranks; got int; e.g."):
        er.summarize_runs([1, 2])
    with raises("no runs to sum up; got none for b"):
        er.summarize_runs({"a": runs, "b": []})
    with raises("no runs to sum up; got none; give"):
        er.summarize_runs([])
    with raises("no runs to sum up"):
        er.summarize_runs({})


# Data sets ----------------------------------------------------------------------------------------


def test_friedman_is_scipys():
    rng = np.random.default_rng(0)
    for ties in (False, True):
        scores = rng.integers(0, 4, (7, 5)) if ties else rng.normal(size=(7, 5))
        ranks = stats.rankdata(-scores, axis=1)
        want = stats.friedmanchisquare(*scores.T)
        assert np.allclose(_several.friedman(ranks), (want.statistic, want.pvalue))
    assert _several.friedman(np.full((4, 3), 2.0)) == (0.0, 1.0)


def test_critical_differences_are_those_of_the_tables():
    """Critical values of the two-tailed Nemenyi test, Demšar 2006, table 5(a)."""
    tables = {
        0.95: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
        0.90: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
    }
    for level, row in tables.items():
        for models, q in enumerate(row, start=2):
            got = _several.critical_difference(models, 10, level)
            assert math.isclose(got, q * math.sqrt(models * (models + 1) / 60), abs_tol=1e-3)


def test_models_that_are_close_are_grouped():
    def groups(ranks, reach):
        standings = [_several.Standing(str(i), rank, 0.0) for i, rank in enumerate(ranks)]
        return list(_several._alike(standings, reach))

    assert groups([1.0, 2.0, 3.0], 1.5) == [("0", "1"), ("1", "2")]
    assert groups([1.0, 1.2, 3.0, 3.1], 1.0) == [("0", "1"), ("2", "3")]
    assert groups([1.0, 2.0, 3.0], 5.0) == [("0", "1", "2")]
    assert groups([1.0, 2.0, 3.0], 0.5) == []


def graded(seed, order, models=("a", "b", "c")):
    """Models on a drawn data set, better to worse as the order says."""
    ranks = {}
    for name in models:
        one = drawn(seed=seed, shift=0.4 * order.index(name), ties=False, protocol={"data": f"d{seed}"})
        ranks[name] = one
    sizes = ranks["a"].candidates
    return {
        name: er.Ranks(np.minimum(one.better, sizes - 1), 0, sizes, keys=one.keys, protocol=one.protocol)
        for name, one in ranks.items()
    }


def test_models_across_data_sets():
    data = {f"d{i}": graded(i, order) for i, order in enumerate(("abc", "abc", "bac", "abc", "acb"))}
    made = er.across_datasets(data, "mrr", level=0.9)
    for result in made.results:
        one = data[result.data][result.model].evaluate("mrr", "index(mrr)", "z(mrr)").to_dict()
        assert [result.value, result.index, result.z] == list(one.values())
    table = np.array([[data[d][m].evaluate("mrr")["mrr"] for m in "abc"] for d in data])
    average = stats.rankdata(-table, axis=1).mean(axis=0)
    assert {s.model: s.rank for s in made.standings} == dict(zip("abc", average, strict=True))
    want = stats.friedmanchisquare(*table.T)
    assert np.allclose((made.statistic, made.p), want)
    assert made.critical_difference == _several.critical_difference(3, 5, 0.9)
    index = {s.model: s.mean_index for s in made.standings}
    assert math.isclose(index["a"], np.mean([r.index for r in made.results if r.model == "a"]))
    content = json.loads(made.to_json())
    assert content["friedman"]["p"] == made.p
    assert content["rows"][0]["average_rank"] == average[0]
    assert len(made.to_csv().splitlines()) == 16
    assert "critical difference of ranks (Nemenyi, 90 %)" in str(made)
    assert "few" not in str(made)
    assert "\\toprule" in made.to_latex()
    lower = er.across_datasets(
        data, "index(mr)"
    )  # the form is given anyway: an adjusted name means its metric
    assert str(lower.metric) == "mr"
    assert lower.results[0].rank == 1.0


def test_equal_models_share_ranks_across_data_sets():
    same = {"a": drawn(), "b": drawn()}
    made = er.across_datasets({"one": same, "two": same})
    assert [s.rank for s in made.standings] == [1.5, 1.5]
    assert (made.p, made.alike) == (1.0, (("a", "b"),))
    assert "2 data sets are few: not told apart does not mean equal" in str(made)


def test_across_refuses_what_is_not_complete():
    one = graded(0, "abc")
    with raises("comparing across data sets needs two or more; got 1"):
        er.across_datasets({"d": one})
    with raises("comparing needs two models or more; got 1"):
        er.across_datasets({"d": {"a": one["a"]}, "e": {"a": one["a"]}})
    less = {name: one[name] for name in "ab"}
    with raises("every model must be there on every data set; got no ranks of c on e; rank it there"):
        er.across_datasets({"d": one, "e": less})
    with raises("c on e, c on f, c on g and 1 more"):
        er.across_datasets({"d": one, "e": less, "f": less, "g": less, "h": less})
    with raises("not ranked in the same way; got filter: x .a. and y .b.; rank them alike$"):
        apart = {
            name: er.Ranks(r.better, r.equal, r.candidates, protocol={"filter": word})
            for (name, r), word in zip(one.items(), "xyz", strict=True)
        }
        er.across_datasets({"d": one, "e": apart})
    with raises("ranked among different candidates; got a and b on d"):
        er.across_datasets({"d": one | {"b": drawn(seed=8)}, "e": one})
    weight = np.arange(len(one["b"]))
    heavy = er.Ranks(one["b"].better, one["b"].equal, one["b"].candidates, weights=weight)
    with raises("the models weigh their targets differently; got a and b on d"):
        er.across_datasets({"d": one | {"b": heavy}, "e": one})
    named = {name: r[:] for name, r in one.items()}
    for r in named.values():
        r.protocol = {"content": "50109268", "split": "test"}
    with raises("one data set twice; got d and e, content 50109268; give each data set once"):
        er.across_datasets({"d": named, "e": named})
    with raises("a level lies between 0 and 1"):
        er.across_datasets({"d": one, "e": one}, level=2)
    with raises("d must name its models; got Ranks; e.g."):
        er.across_datasets({"d": one["a"], "e": one["b"]})
    with raises("a on d must be ranks; got int; rank it there"):
        er.across_datasets({"d": {"a": 1, "b": 2}, "e": one})
    alone = {name: er.Ranks.of([1, 1], candidates=1) for name in "abc"}
    with raises(r"on e, index\(mrr\) is undefined: chance always gets 1.*; leave the data set out"):
        er.across_datasets({"d": one, "e": alone})
