"""Confidence intervals: each bound in a second way, errors, and missing intervals."""

import csv
import io
import json
import math

import numpy as np
import pytest
import strategies
from drawn import copied, drawn, raises, scipy_seed
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import evenrank as er
from evenrank.metrics import adjusted as adjusted_metrics
from evenrank.metrics.adjusted import index, z
from evenrank.metrics.ties import TIES
from evenrank.stats import _bounds
from evenrank.stats._sample import Expansion, Sample
from evenrank.stats.averages import AVERAGES

MEANS = ("mrr", "hits@3", "mr", "gmr", "igmr", "hmr", "imr", "mean(2)", "mean(-0.5)", "ndcg", "1/ndcg")
ADJUSTED = ("index(mrr)", "z(mrr)", "ratio(mr)", "index(gmr)", "z(hits@3)", "phi(imr)")


def values(metric, ranks, weight, ties="expected"):
    """A metric of ranks with any weights."""
    return metric(er.Tally.of(ranks.better, ranks.equal, ranks.candidates, weight), ties)


# The delta method ---------------------------------------------------------------------------------


@given(
    table=strategies.rows(largest=40, most=8),
    metric=strategies.metrics.filter(lambda m: abs(m.p) < 4 and m.f.k is None),
    ties=st.sampled_from(TIES),
)
@settings(max_examples=60)
def test_influence_is_the_derivative_with_respect_to_the_weight(table, metric, ties):
    better, equal, candidates, weight = map(np.array, zip(*table, strict=True))
    ranks = er.Ranks(better, equal, candidates, weights=weight)
    influences = Sample(ranks, ties).influence_on(metric)
    step = 1e-6
    for i in range(len(table)):
        ends = []
        for sign in (1, -1):
            moved = weight.copy()
            moved[i] *= 1 + sign * step
            ends.append(values(metric, ranks, moved, ties))
        slope = (ends[0] - ends[1]) / (2 * step)
        assert math.isclose(influences[i], slope, rel_tol=1e-4, abs_tol=1e-7 * abs(ends[0]))
    assert abs(influences.sum()) <= 1e-9 * (np.abs(influences).sum() + 1e-300)


def test_a_delta_interval_is_students_t_of_the_terms():
    ranks = drawn(ties=False)
    r = ranks.better + 1.0
    made = er.intervals(ranks, "mrr", "mr", "gmr", "hmr", unit="target", level=0.9)
    for name, terms in (("mrr", 1 / r), ("mr", r)):
        want = stats.ttest_1samp(terms.astype(float), 0).confidence_interval(0.9)
        got = made[name]
        assert np.allclose((got.low, got.high), (want.low, want.high), rtol=1e-12)
        assert math.isclose(got.standard_error, stats.sem(terms.astype(float)))
        assert got.value == ranks.evaluate(name)[name]
        assert got.n == 120
    assert math.isclose(made["gmr"].standard_error, made["gmr"].value * stats.sem(np.log(r)))
    want = np.exp(stats.ttest_1samp(np.log(r), 0).confidence_interval(0.9))
    assert np.allclose((made["gmr"].low, made["gmr"].high), want, rtol=1e-12)
    assert math.isclose(made["hmr"].low, 1 / made["mrr"].high)
    assert math.isclose(made["hmr"].high, 1 / made["mrr"].low)


def test_units_are_summed_before_they_are_squared():
    ranks = drawn()
    by_hand = (1 / (ranks.better + 1.0)).reshape(-1, 2).mean(axis=1)  # mean of both sides of each triple
    made = er.intervals(ranks, "mrr", ties="optimistic")
    assert made.unit == "triple"  # the default if there are triples
    assert made["mrr"].n == 60
    assert math.isclose(made["mrr"].standard_error, stats.sem(by_hand), rel_tol=1e-12)
    apart = er.intervals(ranks, "mrr", ties="optimistic", unit="target")
    assert apart["mrr"].standard_error < made["mrr"].standard_error  # the sides are similar here
    no_triples = er.Ranks(ranks.better, ranks.equal, ranks.candidates)
    assert er.intervals(no_triples, "mrr").unit == "target"
    assert er.intervals(ranks, "mrr", unit=["relation"])["mrr"].n == 5
    assert "relation,side" in str(er.intervals(ranks, "mrr", unit="relation,side"))


def test_a_macro_average_over_its_own_groups_is_a_mean_over_groups():
    ranks = drawn(ties=False)
    relation = ranks.keys["relation"]
    means = [(1 / (ranks.better + 1.0))[relation == name].mean() for name in np.unique(relation)]
    made = er.intervals(ranks, "mrr", average="relation", unit="relation")
    assert math.isclose(made["mrr"].value, np.mean(means))
    assert math.isclose(made["mrr"].standard_error, stats.sem(means), rel_tol=1e-12)


@pytest.mark.parametrize("method", ["delta", "percentile"])
def test_adjusted_intervals_are_raw_intervals_on_another_scale(method):
    ranks = drawn()
    made = er.intervals(ranks, "mrr", "mr", *ADJUSTED[:3], method=method, samples=500)
    for form, metric in (("index", "mrr"), ("z", "mrr"), ("ratio", "mr")):
        line = getattr(adjusted_metrics, form)(er.chance(metric, ranks))
        raw, adjusted = made[metric], made[f"{form}({metric})"]
        assert np.allclose(sorted(map(line, (raw.low, raw.high))), (adjusted.low, adjusted.high))
        assert math.isclose(abs(line.scale) * raw.standard_error, adjusted.standard_error)


def test_intervals_are_within_the_range_of_the_metric():
    ranks = er.Ranks.of([1, 1, 1, 1, 2], candidates=9)
    assert er.intervals(ranks, "mrr")["mrr"].high == 1.0
    assert er.intervals(ranks, "index(mrr)")["index(mrr)"].high == 1.0
    wide = er.intervals(er.Ranks.of([1, 9], candidates=9), "mrr", "index(mrr)", "z(mrr)", "z(mr)")
    assert (wide["mrr"].low, wide["mrr"].high) == (0.0, 1.0)
    for form in ("index", "z"):
        line = getattr(adjusted_metrics, form)(er.chance("mrr", [9, 9]))
        assert wide[f"{form}(mrr)"][1:3] == (line(0.0), line(1.0))
    assert wide["z(mr)"].high == z(er.chance("mr", [9, 9]))(1.0)
    assert wide["z(mr)"].low > -math.inf


@pytest.mark.parametrize("at", [0.5, 0.25, 0.9])
def test_quantile_intervals_are_order_statistics(at):
    ranks = drawn(ties=False)
    r = ranks.better + 1.0
    name = f"quantile({at})"
    made = er.intervals(ranks, name, f"1/{name}", f"index({name})", unit="target")
    want = stats.quantile_test(r, p=at).confidence_interval(0.95)
    got = made[name]
    assert (got.low, got.high) == (want.low, want.high)
    assert math.isnan(got.standard_error)
    assert (made[f"1/{name}"].low, made[f"1/{name}"].high) == (1 / got.high, 1 / got.low)
    line = index(er.chance(name, ranks))
    assert made[f"index({name})"].low == line(got.high)


# The bootstrap ------------------------------------------------------------------------------------


def test_resampled_counts_are_multinomial():
    counts = np.array([1, 1, 3, 40, 200, 15, 16])
    drawn_counts = np.concatenate(list(_bounds.resampled(counts, 40_000, 1)))
    assert drawn_counts.shape == (40_000, 7)
    assert (drawn_counts.sum(axis=1) == counts.sum()).all()
    p = counts / counts.sum()
    covariance = counts.sum() * (np.diag(p) - np.outer(p, p))
    assert np.allclose(drawn_counts.mean(axis=0), counts, rtol=0.03)
    assert np.allclose(np.cov(drawn_counts.T), covariance, atol=0.03 * covariance.max())
    again = np.concatenate(list(_bounds.resampled(counts, 40_000, 1)))
    assert (again == drawn_counts).all()
    other = np.concatenate(list(_bounds.resampled(counts, 40_000, 2)))
    assert (other != drawn_counts).any()
    for extreme in (np.array([3]), np.array([50]), np.array([1, 1]), np.array([90, 30])):
        block = next(iter(_bounds.resampled(extreme, 10, 0)))
        assert (block.sum(axis=1) == extreme.sum()).all()


def test_bootstrap_blocks_have_all_samples(monkeypatch):
    monkeypatch.setattr(_bounds, "BLOCK", 100)
    blocks = list(_bounds.resampled(np.ones(30, dtype=int), 10, 0))
    assert [len(block) for block in blocks] == [3, 3, 3, 1]


@pytest.mark.parametrize("by", ["target", "triple", "relation,side"])
def test_the_bootstrap_equals_resampled_rows(by):
    ranks = drawn()
    unit = np.arange(len(ranks)) if by == "target" else ranks.units(by)
    wanted = [er.parse(name) for name in ("mrr", "gmr", "hits@3", "median", "std")]
    naive = np.array(
        [[metric(ranks[rows].tally()) for metric in wanted] for rows in copied(ranks, unit, samples=800)]
    )
    made = er.intervals(ranks, *wanted, unit=by, method="percentile", samples=4000)
    for metric, column in zip(wanted, naive.T, strict=True):
        got, error = made[metric], column.std(ddof=1)
        assert math.isclose(got.standard_error, error, rel_tol=0.1)
        assert abs(got.low - np.quantile(column, 0.025)) < 0.35 * error + 0.5 * (str(metric) == "median")
        assert abs(got.high - np.quantile(column, 0.975)) < 0.35 * error + 0.5 * (
            str(metric) == "median"
        )


@pytest.mark.parametrize("name", ["mrr", "gmr", "hits@3", "mr"])
def test_bca_equals_scipy(name):
    ranks = drawn(triples=30, ties=False)
    metric, r = er.parse(name), ranks.better + 1.0

    def statistic(x, axis):
        f = metric.f(x)
        mean = (
            np.exp(np.log(f).mean(axis)) if metric.p == 0 else (f**metric.p).mean(axis) ** (1 / metric.p)
        )
        return mean**metric.q

    want = stats.bootstrap((r,), statistic, n_resamples=20_000, method="BCa", **scipy_seed(3))
    got = er.intervals(ranks, name, unit="target", method="bootstrap", samples=20_000)[name]
    assert math.isclose(got.standard_error, want.standard_error, rel_tol=0.03)
    slack = 0.08 * want.standard_error + (1 / 60 if name == "hits@3" else 0)
    assert abs(got.low - want.confidence_interval.low) < slack
    assert abs(got.high - want.confidence_interval.high) < slack
    plain = er.intervals(ranks, name, unit="target", method="percentile", samples=20_000)[name]
    assert name == "hits@3" or (got.low, got.high) != (plain.low, plain.high)


@pytest.mark.parametrize(
    ("average", "unit"),
    [*((a, b) for a in ("micro", "query") for b in ("target", "triple", "query")), ("tail", "tail")],
)
def test_delta_and_bootstrap_agree(average, unit):
    ranks = drawn(triples=400)
    options = {"average": average, "unit": unit, "ties": "realistic"}
    delta = er.intervals(ranks, *MEANS, *ADJUSTED, **options)
    boot = er.intervals(ranks, *MEANS, *ADJUSTED, method="bootstrap", samples=3000, **options)
    for name in (*MEANS, *ADJUSTED[:5]):
        one, other = delta[name], boot[name]
        assert one.value == other.value
        assert math.isclose(one.standard_error, other.standard_error, rel_tol=0.08), name
        assert abs(one.low - other.low) < 0.5 * one.standard_error
        assert abs(one.high - other.high) < 0.5 * one.standard_error


def test_the_seed_is_reproducible_and_row_order_does_not_matter():
    ranks = drawn()
    options = {"method": "bootstrap", "samples": 1000}
    one = er.intervals(ranks, "mrr", seed=4, **options)
    assert one["mrr"] == er.intervals(ranks, "mrr", seed=4, **options)["mrr"]
    assert one["mrr"] != er.intervals(ranks, "mrr", seed=5, **options)["mrr"]
    rows = np.random.default_rng(0).permutation(len(ranks))
    mixed = er.intervals(ranks[rows], "mrr", seed=4, unit="target", **options)["mrr"]
    straight = er.intervals(ranks, "mrr", seed=4, unit="target", **options)["mrr"]
    assert np.allclose(mixed, straight)


# Intervals as a result ----------------------------------------------------------------------------


def test_groups_and_models_have_their_own_intervals():
    ranks, other = drawn(), drawn(seed=1)
    groups = er.intervals(ranks.by("relation"), "mrr", "hits@3")
    assert [i.n for i in groups["mrr"]] == [12] * 5
    for (_, part), got in zip(ranks.by("relation"), groups["mrr"], strict=True):
        assert got == er.intervals(part, "mrr")["mrr"]
    several = er.intervals({"one": ranks, "other": other})
    assert several["mrr"][1] == er.intervals(other, "mrr")["mrr"]
    both = er.intervals({"one": ranks.by("side"), "other": other.by("side")}, "mrr")
    assert [row["model"] for row in both.rows()] == ["one", "one", "other", "other"]
    assert [row["side"] for row in both.rows()] == ["head", "tail"] * 2
    with raises("ranks are grouped by different keys; got no key and side"):
        er.intervals({"a": ranks, "b": ranks.by("side")})
    with raises("no ranks given"):
        er.intervals({})


def test_intervals_are_written_in_every_format(nations):
    made = er.intervals({"<script>a_b": nations["rotate"], "Ü & b": nations["transe"]}, "mrr", "median")
    content = json.loads(made.to_json())
    assert content["rows"][0]["model"] == "<script>a_b"
    assert content["rows"][0]["value"] == made["mrr"][0].value
    assert content["rows"][1]["low"] is None  # a median by triple
    assert content["unit"] == "triple+query"
    assert content["protocol"]["intervals"] == "95 % delta method"
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert float(rows[0]["high"]) == made["mrr"][0].high
    assert rows[1]["low"] == ""
    assert "<script>" not in made._repr_html_()
    assert r"a\_b" in made.to_latex()
    assert r"Ü \& b" in made.to_latex()
    assert made.to_markdown().startswith("| model |")
    assert "no interval for median: order statistics need independent targets" in str(made)
    assert repr(made) == str(made)
    with raises("hits@10 was not evaluated"):
        made["hits@10"]


def test_key_columns_are_not_overwritten():
    keys = {"n": ["a", "b", "b"], "average": "x", "query": [0, 1, 1], "relation": "r"}
    ranks = er.Ranks.of([1, 2, 3], candidates=9, keys=keys)
    with raises("two columns would have the same name; got 'n'; rename the key column"):
        er.intervals(ranks.by("n"), "mrr").rows()
    with raises("two columns would have the same name; got 'average'"):
        er.intervals(ranks.by("average"), "mrr", averages=True).to_csv()


def test_default_metrics_of_one_group_and_of_several():
    ranks = drawn()
    assert len(er.intervals(ranks).evaluation) == 9
    split = er.intervals(ranks.by("side"))
    assert [f"{e}" for e in split.evaluation] == ["mrr", "chance(mrr)", "index(mrr)", "hits@10"]
    assert f" {split['chance(mrr)'][0].value:.4f} " in str(split)  # a chance level has no interval
    alone = er.intervals(er.Ranks.of([1, 1], candidates=1))  # default metrics may be undefined
    assert math.isnan(alone["index(mrr)"].value)
    assert "index(mrr) is undefined" in str(alone)


@pytest.mark.parametrize("method", ["delta", "bootstrap", "percentile"])
def test_missing_intervals_have_a_note(method):
    one = er.intervals(er.Ranks.of([3], candidates=9), "mrr", method=method, samples=200)
    assert math.isnan(one["mrr"].low)
    assert one["mrr"].value == 1 / 3
    assert "no interval for mrr: a single target has no variance" in str(one)
    ranks = er.Ranks.of([1, 1, 1, 2], candidates=9)
    made = er.intervals(
        ranks, "1/hits@3", "count", "max", "chance(mrr)", method=method, samples=200, unit="target"
    )
    notes = "\n".join(made.notes)
    assert "1/hits@3: the same for every target, so that its variance cannot be estimated" in notes
    assert "count: the number of targets, not an estimate" in notes
    assert "max: an extreme value of this sample" in notes
    assert "chance(mrr): computed from the numbers of candidates, not estimated" in notes
    assert "–" in made.text()
    assert "nan" not in made.text()


def test_ranks_without_candidates_have_raw_metrics_by_default():
    grouped = er.Ranks.of([1, 2, 3], keys={"side": ["head", "tail", "tail"]}).by("side")
    assert list(er.intervals(grouped).evaluation) == ["mrr", "hits@10"]
    noted = str(er.intervals(grouped, "index(mrr)", "z(mrr)"))
    assert "requires the number of candidates, which is unknown (in 2 of 2 groups)" in noted


def test_no_interval_by_the_delta_method():
    ranks = er.Ranks.of([1, 5, 2, 7], candidates=9)
    made = er.intervals(ranks, "std", "median", "1/hits@3", "mean(-1, hits@3)", "quantile(0.99)")
    assert "std: there is no analytic interval; use the bootstrap" in str(made)
    assert "median, quantile(0.99): too extreme a quantile, or too few targets" in str(made)
    assert made["1/hits@3"].standard_error > 0
    sure = er.intervals(er.Ranks.of([1] * 40 + [2, 3], candidates=900), "phi(mrr)")
    assert "phi(mrr): not differentiable at this value" in str(sure)


@pytest.mark.parametrize("method", ["bootstrap", "percentile"])
def test_no_interval_by_the_bootstrap(method):
    ranks = er.Ranks.of([1, 5, 2, 7], candidates=9)
    boot = er.intervals(ranks, "1/hits@3", method=method, samples=500)
    assert "1/hits@3: undefined in some bootstrap samples" in str(boot)
    same = er.intervals(er.Ranks.of([2] * 9, candidates=9), "median", "std", method=method, samples=200)
    assert same["median"][:4] == (2.0, 2.0, 2.0, 0.0)  # ranks are whole numbers: a quantile may not vary
    assert "std: the same for every target" in str(same)


@pytest.mark.parametrize("method", ["delta", "bootstrap", "percentile"])
def test_rounding_errors_are_not_variance(method):
    weight = [0.1, 0.2, 0.3, 0.7, 0.11, 0.13, 0.17]
    weighed = er.Ranks.of([3] * 7, candidates=50, weights=weight)
    keys = {"head": np.repeat(range(9), 2), "relation": "r", "tail": "t", "side": ["head", "tail"] * 9}
    alike = er.Ranks.of([1, 3] * 9, candidates=50, keys=keys)  # 1 + 1/3 for every triple
    for ranks, unit in ((weighed, "target"), (alike, "triple")):
        names = "mrr", "gmr", "1/hits@2", "index(mrr)"
        made = er.intervals(ranks, *names, method=method, samples=200, unit=unit)
        assert all(math.isnan(row["low"]) for row in made.rows())
        assert f"index(mrr): the same for every {unit}" in str(made)


@pytest.mark.parametrize("method", ["delta", "bootstrap", "percentile"])
def test_no_interval_without_finite_terms(method):
    made = er.intervals(er.Ranks.of([1, 5], candidates=9), "mean(-1, hits@3)", method=method)
    assert made["mean(-1, hits@3)"].value == 0.0
    assert "mean(-1, hits@3): infinite for some targets, or its inverse is" in str(made)


def test_single_candidates_have_no_adjusted_metrics():
    ranks = er.Ranks.of([1, 1, 1], candidates=1, keys={"relation": ["a", "a", "b"]})
    assert "the same for every target" in str(er.intervals(ranks, "mrr"))
    with raises("index.mrr. is undefined: every ranking has the value 1", er.errors.DegenerateError):
        er.intervals(ranks, "index(mrr)")
    more = ranks + er.Ranks.of([2, 3], candidates=9, keys={"relation": ["c", "c"]})
    made = er.intervals(more.by("relation"), "index(mrr)")
    assert math.isnan(made["index(mrr)"][0].value)
    assert made["index(mrr)"][2].standard_error > 0
    assert "index(mrr) is undefined" in str(made)
    assert "(in 2 of 3 groups)" in str(made)


def test_targets_of_weight_zero_are_ignored():
    ranks = er.Ranks.of(
        [1, 5, 2, 7], candidates=9, weights=[1, 0, 1, 1], keys={"g": ["a", "b", "a", "c"]}
    )
    weighs = er.Ranks.of([1, 2, 7], candidates=9)
    assert er.intervals(ranks, "mrr")["mrr"] == er.intervals(weighs, "mrr")["mrr"]
    assert len(er.intervals(ranks.by("g"), "mrr").rows()) == 2


@given(
    table=strategies.rows(largest=30, most=8),
    expression=strategies.expressions,
    method=st.sampled_from(("delta", "bootstrap", "percentile")),
    ties=st.sampled_from(TIES),
    weighted=st.booleans(),
)
@settings(max_examples=80)
def test_any_metric_has_an_interval_or_a_reason(table, expression, method, ties, weighted):
    better, equal, candidates, weight = zip(*table, strict=True)
    ranks = er.Ranks(better, equal, candidates, weights=weight if weighted else None)
    try:
        made = er.intervals(ranks, expression, method=method, samples=100, ties=ties)
    except (er.errors.DegenerateError, er.errors.NullDistributionError, er.errors.InputError):
        return  # the value itself is undefined, as for evaluate
    value, low, high, *_ = made[expression]
    if math.isnan(low):
        assert made.notes
    else:
        assert low <= high
        slack = 1e-6 * (abs(value) + 1)
        assert method != "delta" or low - slack <= value <= high + slack
    assert json.loads(made.to_json())["rows"][0]["metric"] == str(expression)


def test_invalid_options_are_input_errors():
    ranks = drawn()
    with raises("the confidence level must be between 0 and 1; got 95"):
        er.intervals(ranks, level=95)
    with raises("unknown method; got 'wald'; allowed: delta, bootstrap, percentile"):
        er.intervals(ranks, method="wald")
    with raises("too few samples to estimate tails; got 10; allowed: 100 or more"):
        er.intervals(ranks, samples=10)
    with raises("samples must be a whole number; got 1000.0"):
        er.intervals(ranks, samples=1e3)
    with raises("the seed must not be negative; got -1"):
        er.intervals(ranks, seed=-1)
    for wrong, got in ((None, "NoneType"), ("ranks.parquet", "str"), ([[1, 2]], "list"), (3, "int")):
        with raises(f"model 1 must be ranks, or groups of ranks; got {got}; e.g."):
            er.intervals(wrong)
    with raises("a must be ranks, or groups of ranks; got ndarray"):
        er.intervals({"a": np.arange(3)})
    with raises("no ranks given"):
        er.intervals([])
    for unit in (5, [], ["side", 3], [["side"]]):
        with raises("unit must be a name, or a list of names; got"):
            er.intervals(ranks, unit=unit)
    with raises("average must be a name, or a list of names; got None"):
        er.intervals(ranks, average=None)
    for level in (None, "0.95", [0.9], math.nan):
        with raises("the confidence level must be between 0 and 1; got"):
            er.intervals(ranks, level=level)
    with raises("unknown method; got None"):
        er.intervals(ranks, method=None)
    for metrics in (None, 7, {"mrr": 1}.items()):
        with raises("metrics must be texts such as 'mrr', or Metric objects"):
            er.intervals(ranks, metrics)
    with raises("no such key column; got 'sex'"):
        er.intervals(ranks, unit="sex")
    with raises("metrics need at least one rank"):
        er.intervals(er.Ranks([], [], []), "mrr")


# Averages side by side ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["delta", "bootstrap"])
def test_averages_equal_those_computed_one_by_one(method):
    ranks, options = drawn(), {"method": method, "samples": 300}
    made = er.intervals(ranks, "mrr", "index(gmr)", averages=True, **options)
    for i, average in enumerate(AVERAGES[:2] if method == "bootstrap" else AVERAGES):
        alone = er.intervals(ranks, "mrr", "index(gmr)", average=average, **options)
        for name in ("mrr", "index(gmr)"):
            assert made[name][i] == alone[name]
    told = "a macro average over fixed groups has intervals by the delta method only (in 1 of 3 groups)"
    assert (told in str(made)) == (method == "bootstrap")
    assert [row["average"] for row in made.rows()[::2]] == list(AVERAGES)
    assert [i.value for i in made["mrr"]] == er.averages(ranks, "mrr")["mrr"].tolist()
    assert made.protocol.average is None
    assert "\n120 targets\n" in str(made)  # once, not for each average


def test_averages_of_groups_and_models():
    models = {"one": drawn(), "other": drawn(seed=1)}
    split = {name: ranks.by("side") for name, ranks in models.items()}
    made = er.intervals(split, averages=True)
    assert made.evaluation.label_names == ("model", "side", "average")
    values = [er.averages(ranks, "mrr", by=("side",))["mrr"] for ranks in models.values()]
    assert [i.value for i in made["mrr"]] == np.concatenate(values).tolist()
    assert "\n240 targets\n" in str(made)


def test_an_average_over_queries_is_a_mean_over_queries():
    ranks = drawn(ties=False)
    query = ranks.units("query")
    means = [(1 / (ranks.better + 1.0))[query == q].mean() for q in range(query.max() + 1)]
    made = er.intervals(ranks, "mrr", averages=True, unit="query")["mrr"][1]
    assert (made.n, len(ranks)) == (len(means), 120)
    assert math.isclose(made.value, np.mean(means))
    assert math.isclose(made.standard_error, stats.sem(means), rel_tol=1e-12)


# Averages over fixed groups -----------------------------------------------------------------------


def uneven(seed=0, sizes=(3, 5, 8, 30, 60)):
    """Ranks of triples, both sides, of relations of different size and difficulty."""
    rng = np.random.default_rng(seed)
    relation = np.repeat(np.arange(len(sizes)), sizes)
    hard = rng.normal(0.6 * relation, 0.8)
    better = np.exp(np.repeat(hard, 2) + rng.normal(0, 0.4, 2 * len(hard))).astype(int).clip(0, 49)
    keys = {
        "head": np.repeat(np.arange(len(hard)), 2),
        "relation": np.repeat(relation, 2),
        "tail": 0,
        "side": ["head", "tail"] * len(hard),
    }
    return er.Ranks(better, 0, 50, keys=keys)


def test_fixed_groups_have_the_standard_error_of_a_stratified_sample():
    ranks = uneven()
    x = (1 / (ranks.better + 1.0)).reshape(-1, 2).mean(axis=1)  # of each triple
    relation = ranks.keys["relation"][::2]
    groups = [x[relation == r] for r in range(5)]
    made = er.intervals(ranks, "mrr", "index(mrr)", averages=True, unit="triple")["mrr"][2]
    parts = np.array([stats.sem(group) ** 2 for group in groups]) / 5**2
    freedom = parts.sum() ** 2 / (parts**2 / [len(group) - 1 for group in groups]).sum()
    error = math.sqrt(parts.sum())
    assert math.isclose(made.value, np.mean([group.mean() for group in groups]))
    assert math.isclose(made.standard_error, error, rel_tol=1e-12)
    assert math.isclose(made.high - made.value, stats.t.ppf(0.975, freedom) * error, rel_tol=1e-9)
    assert made == er.intervals(ranks, "mrr", average=["relation"], unit="triple")["mrr"]


def test_units_across_fixed_groups_are_summed():
    ranks = uneven()
    x = (1 / (ranks.better + 1.0)).reshape(-1, 2)  # every triple has both sides, which are the groups
    made = er.intervals(ranks, "mrr", average="side", unit="triple")["mrr"]
    assert math.isclose(made.standard_error, stats.sem(x.mean(axis=1)), rel_tol=1e-12)
    reach = stats.t.ppf(0.975, len(x) - 1) * made.standard_error
    assert math.isclose(made.high - made.value, reach, rel_tol=1e-12)


def test_no_interval_without_variance_within_fixed_groups():
    keys = {"relation": ["a"] * 50 + ["b"] * 50}
    ranks = er.Ranks.of([1] * 50 + [2] * 50, candidates=50, keys=keys)
    made = er.intervals(ranks, "hits@1", average="relation", unit="target")
    assert made["hits@1"].value == 0.5
    assert math.isnan(made["hits@1"].low)
    assert "hits@1: the same for every target of a group" in str(made)


def test_a_single_unit_of_a_group_counts_with_its_distance_from_the_average():
    keys = {"relation": ["a", "a", "a", "b", "c"]}
    ranks = er.Ranks.of([1, 2, 4, 1, 5], candidates=50, keys=keys)
    made = er.intervals(ranks, "mrr", average="relation")
    a = np.array([1, 1 / 2, 1 / 4])
    mean = (a.mean() + 1 + 1 / 5) / 3
    variance = stats.sem(a) ** 2 + (1 - mean) ** 2 + (1 / 5 - mean) ** 2
    assert math.isclose(made["mrr"].value, mean)
    assert math.isclose(made["mrr"].standard_error, math.sqrt(variance) / 3, rel_tol=1e-12)
    note = (
        "2 of the 3 groups averaged over have a single target: its distance from the average stands in"
    )
    assert note in str(made)
    assert note in "".join(er.compare(a=ranks, b=ranks[:], on="row", average="relation").notes)
    one = er.intervals(ranks[:4], "mrr", average="relation")
    assert "1 of the 2 groups averaged over has a single target" in str(one)


def test_fixed_groups_agree_with_a_stratified_bootstrap():
    ranks, rng = uneven(), np.random.default_rng(3)
    x = (1 / (ranks.better + 1.0)).reshape(-1, 2).mean(axis=1)
    relation = ranks.keys["relation"][::2]
    groups = [x[relation == r] for r in range(5)]
    means = [rng.choice(group, (20_000, len(group))).mean(axis=1) for group in groups]
    # a bootstrap of few units lacks n / (n - 1)
    variance = sum(m.var() * len(g) / (len(g) - 1) for m, g in zip(means, groups, strict=True)) / 5**2
    made = er.intervals(ranks, "mrr", average="relation")["mrr"]
    assert math.isclose(made.standard_error, math.sqrt(variance), rel_tol=0.02)


def test_intervals_over_fixed_groups_have_their_coverage():
    sizes = (3, 5, 8, 30, 60)
    truth = np.mean(
        [
            [er.intervals(uneven(s, (20_000,) * 5), "mrr", average="relation")["mrr"].value]
            for s in (0, 1)
        ]
    )
    made = [er.intervals(uneven(s, sizes), "mrr", average="relation")["mrr"] for s in range(2, 602)]
    assert 0.93 < np.mean([one.low <= truth <= one.high for one in made]) < 0.97
    errors = np.sqrt(np.mean([one.standard_error**2 for one in made]))
    assert math.isclose(errors, np.std([one.value for one in made]), rel_tol=0.06)


def test_no_bootstrap_over_fixed_groups():
    for method in ("bootstrap", "percentile"):
        with raises(
            "a macro average over fixed groups has intervals by the delta method only; got method="
        ):
            er.intervals(uneven(), "mrr", average="relation", method=method)
    assert (
        er.intervals(uneven(), "mrr", average="relation", unit="relation", method="bootstrap")["mrr"].n
        == 5
    )


def test_protocol_and_fingerprint_depend_on_the_options():
    made = {
        how: er.intervals(drawn(), "mrr", **how_made)
        for how, how_made in {
            "plain": {},
            "level": {"level": 0.9},
            "drawn": {"method": "bootstrap", "samples": 200},
            "seed": {"method": "bootstrap", "samples": 200, "seed": 1},
        }.items()
    }
    prints = {how: json.loads(one.to_json())["fingerprint"] for how, one in made.items()}
    assert len(set(prints.values())) == 4
    assert all(f"[{prints[how]}]" in str(one) for how, one in made.items())
    assert made["seed"].protocol.to_dict().items() >= {"samples": "200", "seed": "1"}.items()
    assert "seed" not in made["plain"].protocol.to_dict()


def test_averages_with_an_average_are_an_error():
    with raises("averages=True shows micro, query and relation; got average='relation,side' as well"):
        er.intervals(drawn(), averages=True, average=["relation", "side"])
    with raises("requires keys that identify queries; got no key head, relation, tail, side"):
        er.intervals(er.Ranks.of([1, 2], candidates=9), averages=True)


# Proportions --------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(1, 40), st.sampled_from([0.8, 0.95, 0.99]))
@settings(max_examples=60, deadline=None)
def test_independent_hits_have_the_exact_interval_of_a_proportion(misses, hits, level):
    if hits + misses < 2:
        return
    ranks = er.Ranks.of([1] * hits + [30] * misses, candidates=50)
    made = er.intervals(ranks, "hits@10", "index(hits@10)", level=level)
    want = stats.binomtest(hits, hits + misses).proportion_ci(level)
    assert made["hits@10"][1:3] == pytest.approx((want.low, want.high))
    line = index(er.chance("hits@10", ranks))
    assert made["index(hits@10)"][1:3] == pytest.approx((line(want.low), line(want.high)))
    mirrored = er.intervals(er.Ranks.of([30] * hits + [1] * misses, 50), "hits@10", level=level)[
        "hits@10"
    ]
    assert mirrored[1:3] == pytest.approx((1 - want.high, 1 - want.low))


def test_dependent_hits_have_the_interval_of_as_many_independent_ones():
    """Five equal targets per query count as one, apart from the degrees of freedom."""
    hit = np.random.default_rng(0).random(400) < 0.8
    one = er.Ranks.of(np.where(hit, 1, 30), candidates=50)
    five = er.Ranks.of(np.repeat(np.where(hit, 1, 30), 5), 50, keys={"query": np.arange(2000) // 5})
    apart, together = (er.intervals(ranks, "hits@10")["hits@10"] for ranks in (one, five))
    assert together[1:3] == pytest.approx(apart[1:3], abs=0.002)
    assert together.n == apart.n == 400
    naive = er.intervals(five, "hits@10", unit="target")["hits@10"]
    assert (naive.high - naive.low) * 2 < together.high - together.low


def test_no_misses_do_not_mean_that_misses_are_impossible():
    keys = {"query": np.arange(100) // 4, "answer": np.arange(100)}
    ranks = er.Ranks.of([1] * 100, candidates=50, keys=keys)
    apart = er.intervals(ranks, "hits@10", "index(hits@10)", unit="target")
    together = er.intervals(ranks, "hits@10")
    assert together.unit == "query"
    assert (apart["hits@10"].value, apart["hits@10"].high) == (1.0, 1.0)
    assert apart["hits@10"].low == pytest.approx(0.025 ** (1 / 100))  # the rule of three
    assert together["hits@10"].low == pytest.approx(0.025 ** (1 / 25))  # 25 queries
    line = index(er.chance("hits@10", ranks))
    assert apart["index(hits@10)"].low == pytest.approx(line(apart["hits@10"].low))
    assert math.isnan(apart["hits@10"].standard_error)
    none = er.intervals(er.Ranks.of([30] * 100, candidates=50), "hits@10")["hits@10"]
    assert (none.low, none.high) == pytest.approx((0.0, 1 - apart["hits@10"].low))


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_intervals_of_rare_hits_have_their_coverage(share):
    """Symmetric intervals contain 0.01 in 63 % of the samples of 100 targets."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        rank = np.where(rng.random(100) < share, 1, 30)
        found = er.intervals(er.Ranks.of(rank, candidates=50), "hits@10")["hits@10"]
        held += found.low <= share <= found.high
    assert held >= 279


# Units that cross ---------------------------------------------------------------------------------


def answered(seed=0, triples=300, queries=150, by_query=1.0):
    """Ranks of triples that share heads and tails; the answers of a query are correlated."""
    rng = np.random.default_rng(seed)
    head, tail = np.repeat(rng.integers(0, queries // 2, (2, triples)), 2, axis=1)
    side = np.tile(["tail", "head"], triples)
    query = np.where(side == "tail", head, queries // 2 + tail)
    hard = by_query * rng.normal(0, 1, queries)[query] + np.repeat(rng.normal(0, 0.8, triples), 2)
    better = np.exp(np.minimum(1.5 + hard + rng.normal(0, 1, 2 * triples), 9)).astype(int)
    keys = {
        "head": head,
        "relation": 0,
        "tail": tail,
        "side": side,
        "triple": np.arange(2 * triples) // 2,
    }
    return er.Ranks(better, 0, 14_541, keys=keys)


def test_crossed_units_add_both_variances_less_that_of_both():
    ranks = answered()
    errors = {
        unit: er.intervals(ranks, "mrr", unit=unit)["mrr"].standard_error
        for unit in ("triple", "query", "target", "triple+query", "query+triple")
    }
    want = errors["triple"] ** 2 + errors["query"] ** 2 - errors["target"] ** 2
    assert want > max(errors["triple"], errors["query"]) ** 2
    assert errors["triple+query"] == pytest.approx(math.sqrt(want), rel=1e-9)
    assert errors["query+triple"] == pytest.approx(math.sqrt(want), rel=1e-9)
    made = er.intervals(ranks, "mrr", unit="triple+query")["mrr"]
    freedom = len(set(ranks.units("query"))) - 1
    assert made.high - made.value == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(want))
    assert made.n == 300


def test_the_variance_of_crossed_units_is_never_less_than_that_of_either():
    """Head and tail prediction of a triple balance each other, so that the difference is negative."""
    keys = {"head": np.repeat(range(40), 2), "relation": 0, "tail": np.repeat([0, 1] * 20, 2)}
    ranks = er.Ranks.of([1, 9] * 40, candidates=50, keys={**keys, "side": ["head", "tail"] * 40})
    crossed, query = (er.intervals(ranks, "mrr", unit=unit)["mrr"] for unit in ("triple+query", "query"))
    assert crossed.standard_error == pytest.approx(query.standard_error)


def test_units_cross_by_default_if_triples_share_queries(nations):
    assert er.intervals(nations["rotate"], "mrr").unit == "triple+query"
    alone = answered()
    apart = alone.with_keys({"head": np.repeat(range(300), 2), "tail": np.repeat(range(300), 2)})
    made = er.intervals(apart, "mrr")
    assert (made.unit, made.notes) == ("triple", ())
    few = np.where(np.arange(600) < 20, alone.keys["head"], apart.keys["head"])
    assert er.intervals(apart.with_keys({"head": few}), "mrr").unit == "triple"
    assert er.intervals(alone.with_only_keys({}), "mrr").unit == "target"
    assert er.intervals(alone.with_only_keys({"query": np.arange(600) // 3}), "mrr").unit == "query"
    assert er.intervals(alone.with_only_keys({"query": np.arange(600)}), "mrr").unit == "target"
    noted = er.intervals(alone, "mrr", unit="triple")
    assert "of the targets share their query with others, which unit triple takes as independent" in str(
        noted
    )
    assert "use triple+query" in noted.notes[0]
    assert er.intervals(alone, "mrr", unit="query").notes == ()
    with raises("at most two units can cross; got 'triple.query.side'"):
        er.intervals(alone, "mrr", unit="triple+query+side")


@pytest.mark.parametrize("method", ["delta", "bootstrap"])
def test_intervals_have_their_coverage_if_triples_share_queries(method):
    """By triple alone, 84 % of the intervals contained the MRR."""
    population = [answered(seed, 20_000, 20_000_00).evaluate("mrr")["mrr"] for seed in range(30)]
    truth, held = np.mean(population), 0
    for seed in range(150):
        made = er.intervals(answered(seed + 100), "mrr", method=method, samples=400)["mrr"]
        held += made.low <= truth <= made.high
    assert held >= 137


def test_bootstrap_intervals_of_crossed_units_are_those_of_the_larger_unit_stretched():
    ranks = answered()
    options = {"method": "percentile", "samples": 500}
    crossed, query, triple = (
        er.intervals(ranks, "mrr", "median", unit=unit, **options)
        for unit in ("triple+query", "query", "triple")
    )
    delta = [
        er.intervals(ranks, "mrr", unit=unit)["mrr"].standard_error for unit in ("triple+query", "query")
    ]
    ratio, value = delta[0] / delta[1], crossed["mrr"].value
    assert ratio > 1
    assert crossed["mrr"].low == pytest.approx(value + ratio * (query["mrr"].low - value))
    assert crossed["mrr"].standard_error == pytest.approx(ratio * query["mrr"].standard_error)
    wider = max((query["median"], triple["median"]), key=lambda one: one.high - one.low)
    assert crossed["median"][1:3] == wider[1:3]


def test_errors_of_groups_with_crossed_units_equal_those_of_each_group_alone():
    ranks = answered()
    group = np.repeat(np.arange(300) % 3, 2)
    sample = Sample(ranks, unit="triple+query", groups=group)
    found = sample.errors_by_group(Expansion(sample, er.MRR))
    for i, error in enumerate(found):
        alone = er.intervals(ranks[group == i], "mrr", unit="triple+query")["mrr"]
        assert error.size == pytest.approx(alone.standard_error)
