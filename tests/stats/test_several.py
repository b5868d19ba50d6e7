"""Several runs and several data sets: each number computed in a second way, and incomplete input."""

import json
import math
import re

import numpy as np
from drawn import drawn, raises
from scipy import stats

import evenrank as er
from evenrank.stats import _several

# Runs ---------------------------------------------------------------------------------------------


def test_runs_are_summarized():
    runs = [drawn(seed=i) for i in range(4)]
    made = er.summarize_runs(runs, "mrr", "median", ties="realistic")
    column = [ranks.evaluate("mrr", ties="realistic")["mrr"] for ranks in runs]
    first = made.spreads[0]
    assert math.isclose(first.mean, np.mean(column))
    assert math.isclose(first.sd, np.std(column, ddof=1))
    assert (first.n, first.min, first.max) == (4, min(column), max(column))
    models = er.summarize_runs({"a": runs, "b": runs[:1]}, "mrr")
    assert [s.n for s in models.spreads] == [4, 1]
    assert math.isnan(models.spreads[1].sd)
    assert "a single run of b has no sd" in str(models)
    assert json.loads(models.to_json())["rows"][1]["sd"] is None
    assert len(er.summarize_runs(runs).spreads) == 4
    folds = [
        drawn(seed=i, protocol={"content": str(i), "split": "test", "model": str(i)}) for i in range(2)
    ]
    noted = er.summarize_runs(folds, "mrr")
    assert "the runs differ in content, which adds to their sd" in str(noted)
    assert noted.protocol.split == "test"
    assert [s.n for s in er.summarize_runs(runs[0]).spreads] == [1] * 4  # a single run, not one per row
    assert [s.n for s in er.summarize_runs({"a": runs[0]}, "mrr").spreads] == [1]
    with raises("every run must be ranks; got int; e.g."):
        er.summarize_runs([1, 2])
    with raises("no runs to summarize; got none for b"):
        er.summarize_runs({"a": runs, "b": []})
    with raises("no runs to summarize; got none; pass"):
        er.summarize_runs([])
    with raises("no runs to summarize"):
        er.summarize_runs({})
    for wrong, got in ((None, "NoneType"), ("a", "str"), ({"a": 3}, "int"), ([[1, 2]], "list")):
        with raises(f"every run must be ranks; got {got}"):
            er.summarize_runs(wrong)
    assert str(er.summarize_runs(runs, ["mrr", "mr"])) == str(er.summarize_runs(runs, "mrr", "mr"))


# Data sets ----------------------------------------------------------------------------------------


def test_runs_without_candidates_have_raw_metrics_by_default():
    runs = [er.Ranks.of([1, 2, i]) for i in (3, 4)]
    assert [str(s.metric) for s in er.summarize_runs(runs).spreads] == ["mrr", "hits@1", "hits@10"]
    with raises("the chance level of mrr requires the number of candidates"):
        er.summarize_runs(runs, "index(mrr)")


def test_friedman_equals_scipy():
    rng = np.random.default_rng(0)
    for ties in (False, True):
        scores = rng.integers(0, 4, (7, 5)) if ties else rng.normal(size=(7, 5))
        ranks = stats.rankdata(-scores, axis=1)
        want = stats.friedmanchisquare(*scores.T)
        assert np.allclose(_several.friedman(ranks), (want.statistic, want.pvalue))
    assert _several.friedman(np.full((4, 3), 2.0)) == (0.0, 1.0)


def test_critical_differences_equal_published_tables():
    """Critical values of the two-tailed Nemenyi test, Demšar 2006, table 5(a)."""
    tables = {
        0.95: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
        0.90: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
    }
    for level, row in tables.items():
        for models, q in enumerate(row, start=2):
            got = _several.critical_difference(models, 10, level)
            assert math.isclose(got, q * math.sqrt(models * (models + 1) / 60), abs_tol=1e-3)


def test_quantiles_of_the_range_equal_scipy():
    for count in (2, 3, 5, 14, 40):
        for level in (0.5, 0.9, 0.95, 0.999):
            want = stats.studentized_range.ppf(level, count, np.inf)
            assert math.isclose(_several.range_quantile(level, count), want, rel_tol=1e-8)


def test_ranks_of_models_equal_scipy():
    scores = np.random.default_rng(0).integers(0, 4, (20, 6)) / 4
    for row in scores:
        assert _several._ranks(row).tolist() == stats.rankdata(-row).tolist()


def test_undecided_models_are_grouped():
    def groups(ranks, critical):
        ordered = [_several.AverageRank(str(i), rank, 0.0) for i, rank in enumerate(ranks)]
        return list(_several._undecided(ordered, critical))

    assert groups([1.0, 2.0, 3.0], 1.5) == [("0", "1"), ("1", "2")]
    assert groups([1.0, 1.2, 3.0, 3.1], 1.0) == [("0", "1"), ("2", "3")]
    assert groups([1.0, 2.0, 3.0], 5.0) == [("0", "1", "2")]
    assert groups([1.0, 2.0, 3.0], 0.5) == []


def graded(seed, order, models=("a", "b", "c")):
    """Models on a random data set, in the given order from better to worse."""
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
    assert {s.model: s.rank for s in made.average_ranks} == dict(zip("abc", average, strict=True))
    want = stats.friedmanchisquare(*table.T)
    assert np.allclose((made.statistic, made.p), want)
    assert made.critical_difference == _several.critical_difference(3, 5, 0.9)
    index = {s.model: s.mean_index for s in made.average_ranks}
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
    )  # an adjusted name stands for its metric: the adjusted forms are always computed
    assert str(lower.metric) == "mr"
    assert lower.results[0].rank == 1.0


def test_equal_models_have_equal_average_ranks():
    same = {"a": drawn(), "b": drawn()}
    made = er.across_datasets({"one": same, "two": same})
    assert [s.rank for s in made.average_ranks] == [1.5, 1.5]
    assert (made.p, made.undecided) == (1.0, (("a", "b"),))
    assert "2 data sets are few: no significant difference does not mean equal" in str(made)


def test_models_on_a_data_set_may_be_lists():
    one = {name: r.with_protocol({"model": name}) for name, r in graded(0, "abc").items()}
    other = {name: r.with_protocol({"model": name}) for name, r in graded(1, "abc").items()}
    want = er.across_datasets({"d": one, "e": other}, "mr")
    assert str(er.across_datasets({"d": [*one.values()], "e": tuple(other.values())}, ["mr"])) == str(
        want
    )


def test_incomplete_input_is_an_error():
    one = graded(0, "abc")
    with raises("comparing across data sets needs two or more; got 1"):
        er.across_datasets({"d": one})
    with raises("comparing needs two models or more; got 1"):
        er.across_datasets({"d": {"a": one["a"]}, "e": {"a": one["a"]}})
    less = {name: one[name] for name in "ab"}
    with raises("every model needs ranks on every data set; got no ranks of c on e; rank it there"):
        er.across_datasets({"d": one, "e": less})
    with raises("c on e, c on f, c on g and 1 more"):
        er.across_datasets({"d": one, "e": less, "f": less, "g": less, "h": less})
    with raises("ranked under different protocols; got filter: x .a. and y .b.; rank them under one"):
        apart = {
            name: er.Ranks(r.better, r.equal, r.candidates, protocol={"filter": word})
            for (name, r), word in zip(one.items(), "xyz", strict=True)
        }
        er.across_datasets({"d": one, "e": apart})
    with raises("the models have different numbers of candidates; got a and b on d"):
        er.across_datasets({"d": one | {"b": drawn(seed=8)}, "e": one})
    weight = np.arange(len(one["b"]))
    heavy = er.Ranks(one["b"].better, one["b"].equal, one["b"].candidates, weights=weight)
    with raises("the models have different weights; got a and b on d"):
        er.across_datasets({"d": one | {"b": heavy}, "e": one})
    named = {name: r[:] for name, r in one.items()}
    named = {n: r.with_protocol({"content": "50109268", "split": "test"}) for n, r in named.items()}
    with raises("the same data set twice; got d and e, content 50109268; pass each data set once"):
        er.across_datasets({"d": named, "e": named})
    with raises("the confidence level must be between 0 and 1"):
        er.across_datasets({"d": one, "e": one}, level=2)
    with raises("d must map models to ranks; got Ranks; e.g."):
        er.across_datasets({"d": one["a"], "e": one["b"]})
    with raises("a on d must be ranks; got int; e.g."):
        er.across_datasets({"d": {"a": 1, "b": 2}, "e": one})
    with raises("model 1 must be ranks; got int"):
        er.across_datasets({"d": [1, 2], "e": one})
    for data, got in ((None, "NoneType"), ([one], "list"), ("d", "str"), (one["a"], "Ranks")):
        with raises(f"data must map data sets to models; got {got}"):
            er.across_datasets(data)
    for metric, got in ((["mrr", "mr"], "mrr, mr"), ([], "none")):
        with raises(f"across_datasets orders models by one metric; got {got}"):
            er.across_datasets({"d": one, "e": one}, metric)
    alone = {name: er.Ranks.of([1, 1], candidates=1) for name in "abc"}
    with raises(
        r"on e, index\(mrr\) is undefined: every ranking has the value 1.*; leave out the data set"
    ):
        er.across_datasets({"d": one, "e": alone})


def test_latex_of_average_ranks_names_the_test_and_groups():
    one = {"a": drawn(), "b_c": drawn()}
    text = er.across_datasets({"d": one, "e": one}, "hits@10").to_latex(names={"b_c": "B"}, digits=2)
    first, second = text.split("\n\n")
    assert r"\multicolumn{3}{c}{d}" in first
    assert "Average rank & Group & Mean AH@10" in second
    assert "Friedman test: $p" in second.replace("\n", " ")
    assert re.search(r"^  B & [12]\.\d\d & a & \d\.\d\d", second, re.MULTILINE)
