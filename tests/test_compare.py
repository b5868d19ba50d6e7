"""Intervals, paired comparisons, seeds and data sets: two ways to each number, and every refusal."""

import csv
import io
import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import evenrank as er
import strategies
from evenrank.compare import _bounds, _several, _significance
from evenrank.compare._sample import Sample

MODELS = Path(er.__file__).parent / "data" / "models"
MEANS = ("mrr", "hits@3", "mr", "gmr", "igmr", "hmr", "imr", "mean(2)", "mean(-0.5)", "ndcg", "1/ndcg")
ADJUSTED = ("index(mrr)", "z(mrr)", "ratio(mr)", "index(gmr)", "z(hits@3)", "phi(imr)")


def raises(message, error=er.EvenrankError):
    return pytest.raises(error, match=message)


def run(*arguments, code=0):
    """Run the command; on failure, the one line on stderr."""
    command = [sys.executable, "-m", "evenrank.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    if code:
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.stderr
    assert done.stderr == ""
    return done.stdout


def drawn(triples=60, seed=0, *, ties=True, shift=0.0, protocol=None):
    """Ranks of both sides of some triples; the sides of one triple are alike."""
    rng = np.random.default_rng(seed)
    hard = np.repeat(rng.normal(1.0 + shift, 1.2, triples), 2) + rng.normal(0, 0.7, 2 * triples)
    candidates = np.repeat(rng.integers(40, 90, triples), 2)
    better = np.minimum(np.exp(hard).astype(int), candidates - 5)
    equal = rng.integers(0, 3, 2 * triples) * (rng.random(2 * triples) < 0.3) if ties else 0
    names = np.repeat(np.arange(triples), 2)
    keys = {
        "head": [f"h{i % 17}" for i in names],
        "relation": [f"r{i % 5}" for i in names],
        "tail": [f"t{i}" for i in names],
        "side": ["head", "tail"] * triples,
    }
    return er.Ranks(better, equal, candidates, keys=keys, protocol=protocol)


def values(metric, ranks, weight, ties="expected"):
    """A metric of ranks with any weights."""
    return metric(er.Tally.of(ranks.better, ranks.equal, ranks.candidates, weight), ties)


@pytest.fixture(scope="module")
def nations():
    task = er.load("nations").task("test")
    kinds = ("transe", "rotate", "complex")
    return {
        kind: er.rank(er.models.load(MODELS / f"nations-{kind}.safetensors"), task, progress=False)
        for kind in kinds
    }


# The delta method ---------------------------------------------------------------------------------


@given(
    table=strategies.rows(largest=40, most=8),
    metric=strategies.metrics.filter(lambda m: abs(m.p) < 4 and m.f.k is None),
    ties=st.sampled_from(er.metric.TIES),
)
@settings(max_examples=60)
def test_a_pull_is_the_derivative_by_a_targets_weight(table, metric, ties):
    better, equal, candidates, weight = map(np.array, zip(*table, strict=True))
    ranks = er.Ranks(better, equal, candidates, weight=weight)
    pulls = Sample(ranks, ties).pull_on(metric)
    step = 1e-6
    for i in range(len(table)):
        ends = []
        for sign in (1, -1):
            moved = weight.copy()
            moved[i] *= 1 + sign * step
            ends.append(values(metric, ranks, moved, ties))
        slope = (ends[0] - ends[1]) / (2 * step)
        assert math.isclose(pulls[i], slope, rel_tol=1e-4, abs_tol=1e-7 * abs(ends[0]))
    assert abs(pulls.sum()) <= 1e-9 * (np.abs(pulls).sum() + 1e-300)


def test_a_delta_interval_is_students_t_of_the_terms():
    ranks = drawn(ties=False)
    r = ranks.better + 1.0
    made = er.intervals(ranks, "mrr", "hits@3", "mr", "gmr", by="target", level=0.9)
    for name, terms in (("mrr", 1 / r), ("hits@3", r <= 3), ("mr", r)):
        want = stats.ttest_1samp(terms.astype(float), 0).confidence_interval(0.9)
        got = made[name]
        assert np.allclose((got.low, got.high), (want.low, want.high), rtol=1e-12)
        assert math.isclose(got.standard_error, stats.sem(terms.astype(float)))
        assert got.value == ranks.evaluate(name)[name]
        assert got.n == 120
    assert math.isclose(made["gmr"].standard_error, made["gmr"].value * stats.sem(np.log(r)))


def test_units_are_summed_before_they_are_squared():
    ranks = drawn()
    by_hand = (1 / (ranks.better + 1.0)).reshape(-1, 2).mean(axis=1)  # of the two sides of each triple
    made = er.intervals(ranks, "mrr", ties="optimistic")
    assert made.unit == "triple"  # the default, where there are triples
    assert made["mrr"].n == 60
    assert math.isclose(made["mrr"].standard_error, stats.sem(by_hand), rel_tol=1e-12)
    apart = er.intervals(ranks, "mrr", ties="optimistic", by="target")
    assert apart["mrr"].standard_error < made["mrr"].standard_error  # the sides are alike here
    no_triples = er.Ranks(ranks.better, ranks.equal, ranks.candidates)
    assert er.intervals(no_triples, "mrr").unit == "target"
    assert er.intervals(ranks, "mrr", by=["relation"])["mrr"].n == 5
    assert "relation,side" in str(er.intervals(ranks, "mrr", by="relation,side"))


def test_a_macro_average_over_its_own_groups_is_a_mean_over_groups():
    ranks = drawn(ties=False)
    relation = ranks.keys["relation"]
    means = [(1 / (ranks.better + 1.0))[relation == name].mean() for name in np.unique(relation)]
    made = er.intervals(ranks, "mrr", average="relation", by="relation")
    assert math.isclose(made["mrr"].value, np.mean(means))
    assert math.isclose(made["mrr"].standard_error, stats.sem(means), rel_tol=1e-12)


@pytest.mark.parametrize("method", ["delta", "percentile"])
def test_an_adjusted_interval_is_the_raw_one_on_another_scale(method):
    ranks = drawn()
    made = er.intervals(ranks, "mrr", "mr", *ADJUSTED[:3], method=method, samples=500)
    for form, metric in (("index", "mrr"), ("z", "mrr"), ("ratio", "mr")):
        line = getattr(er, form)(er.null(metric, ranks))
        raw, adjusted = made[metric], made[f"{form}({metric})"]
        assert np.allclose(sorted(map(line, (raw.low, raw.high))), (adjusted.low, adjusted.high))
        assert math.isclose(abs(line.scale) * raw.standard_error, adjusted.standard_error)


def test_an_interval_stays_in_the_range_of_its_metric():
    ranks = er.Ranks.of([1, 1, 1, 1, 2], candidates=9)
    assert er.intervals(ranks, "mrr")["mrr"].high == 1.0
    assert er.intervals(ranks, "index(mrr)")["index(mrr)"].high == 1.0


@pytest.mark.parametrize("at", [0.5, 0.25, 0.9])
def test_a_quantile_lies_between_two_ranks(at):
    ranks = drawn(ties=False)
    r = ranks.better + 1.0
    name = f"quantile({at})"
    made = er.intervals(ranks, name, f"1/{name}", f"index({name})", by="target")
    want = stats.quantile_test(r, p=at).confidence_interval(0.95)
    got = made[name]
    assert (got.low, got.high) == (want.low, want.high)
    assert math.isnan(got.standard_error)
    assert (made[f"1/{name}"].low, made[f"1/{name}"].high) == (1 / got.high, 1 / got.low)
    line = er.index(er.null(name, ranks))
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


def test_blocks_hold_every_sample(monkeypatch):
    monkeypatch.setattr(_bounds, "BLOCK", 100)
    blocks = list(_bounds.resampled(np.ones(30, dtype=int), 10, 0))
    assert [len(block) for block in blocks] == [3, 3, 3, 1]


def copied(ranks, unit, samples=4000, seed=5):
    """The naive way: copy the rows of the units drawn."""
    rng, members = (
        np.random.default_rng(seed),
        [np.flatnonzero(unit == u) for u in range(unit.max() + 1)],
    )
    for _ in range(samples):
        picked = rng.integers(0, len(members), len(members))
        yield np.concatenate([members[u] for u in picked])


@pytest.mark.parametrize("by", ["target", "triple", "relation,side"])
def test_the_bootstrap_is_that_of_copied_rows(by):
    ranks = drawn()
    unit = np.arange(len(ranks)) if by == "target" else ranks.units(by)
    wanted = [er.parse(name) for name in ("mrr", "gmr", "hits@3", "median", "std")]
    naive = np.array(
        [[metric(ranks[rows].tally()) for metric in wanted] for rows in copied(ranks, unit, samples=800)]
    )
    made = er.intervals(ranks, *wanted, by=by, method="percentile", samples=4000)
    for metric, column in zip(wanted, naive.T, strict=True):
        got, error = made[metric], column.std(ddof=1)
        assert math.isclose(got.standard_error, error, rel_tol=0.1)
        assert abs(got.low - np.quantile(column, 0.025)) < 0.35 * error + 0.5 * (str(metric) == "median")
        assert abs(got.high - np.quantile(column, 0.975)) < 0.35 * error + 0.5 * (
            str(metric) == "median"
        )


@pytest.mark.parametrize("name", ["mrr", "gmr", "hits@3", "mr"])
def test_bca_is_scipys(name):
    ranks = drawn(triples=30, ties=False)
    metric, r = er.parse(name), ranks.better + 1.0

    def statistic(x, axis):
        f = metric.f(x)
        mean = (
            np.exp(np.log(f).mean(axis)) if metric.p == 0 else (f**metric.p).mean(axis) ** (1 / metric.p)
        )
        return mean**metric.q

    want = stats.bootstrap((r,), statistic, n_resamples=20_000, method="BCa", rng=3)
    got = er.intervals(ranks, name, by="target", method="bootstrap", samples=20_000)[name]
    assert math.isclose(got.standard_error, want.standard_error, rel_tol=0.03)
    slack = 0.08 * want.standard_error + (1 / 60 if name == "hits@3" else 0)
    assert abs(got.low - want.confidence_interval.low) < slack
    assert abs(got.high - want.confidence_interval.high) < slack
    plain = er.intervals(ranks, name, by="target", method="percentile", samples=20_000)[name]
    assert name == "hits@3" or (got.low, got.high) != (plain.low, plain.high)


@pytest.mark.parametrize("average", ["micro", "relation", "query"])
@pytest.mark.parametrize("by", ["target", "triple", "query"])
def test_delta_and_bootstrap_agree(average, by):
    ranks = drawn(triples=400)
    options = {"average": average, "by": by, "ties": "realistic"}
    delta = er.intervals(ranks, *MEANS, *ADJUSTED, **options)
    boot = er.intervals(ranks, *MEANS, *ADJUSTED, method="bootstrap", samples=3000, **options)
    for name in (*MEANS, *ADJUSTED[:5]):
        one, other = delta[name], boot[name]
        assert one.value == other.value
        assert math.isclose(one.standard_error, other.standard_error, rel_tol=0.08), name
        assert abs(one.low - other.low) < 0.5 * one.standard_error
        assert abs(one.high - other.high) < 0.5 * one.standard_error


def test_the_seed_repeats_and_the_order_of_rows_does_not_matter():
    ranks = drawn()
    options = {"method": "bootstrap", "samples": 1000}
    one = er.intervals(ranks, "mrr", seed=4, **options)
    assert one["mrr"] == er.intervals(ranks, "mrr", seed=4, **options)["mrr"]
    assert one["mrr"] != er.intervals(ranks, "mrr", seed=5, **options)["mrr"]
    rows = np.random.default_rng(0).permutation(len(ranks))
    mixed = er.intervals(ranks[rows], "mrr", seed=4, by="target", **options)["mrr"]
    straight = er.intervals(ranks, "mrr", seed=4, by="target", **options)["mrr"]
    assert np.allclose(mixed, straight)


# Intervals as a result ----------------------------------------------------------------------------


def test_groups_and_several_models_have_intervals_of_their_own():
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
    with raises("ranks are split by different keys; got no key and side"):
        er.intervals({"a": ranks, "b": ranks.by("side")})
    with raises("no ranks given"):
        er.intervals({})


def test_intervals_are_written_in_every_format(nations):
    made = er.intervals({"<script>a_b": nations["rotate"], "Ü & b": nations["transe"]}, "mrr", "median")
    content = json.loads(made.json())
    assert content["rows"][0]["model"] == "<script>a_b"
    assert content["rows"][0]["value"] == made["mrr"][0].value
    assert content["rows"][1]["low"] is None  # a median by triple
    assert content["by"] == "triple"
    assert content["protocol"]["intervals"] == "95 % delta method"
    rows = list(csv.DictReader(io.StringIO(made.csv())))
    assert float(rows[0]["high"]) == made["mrr"][0].high
    assert rows[1]["low"] == ""
    assert "<script>" not in made._repr_html_()
    assert r"a\_b" in made.latex()
    assert r"Ü \& b" in made.latex()
    assert made.markdown().startswith("| model |")
    assert "no interval for median: by order statistics only" in str(made)
    assert repr(made) == str(made)
    with raises("hits@10 was not evaluated"):
        made["hits@10"]


def test_the_default_metrics_fit_one_group_and_many():
    ranks = drawn()
    assert len(er.intervals(ranks).evaluation) == 9
    split = er.intervals(ranks.by("side"))
    assert [f"{e}" for e in split.evaluation] == ["mrr", "chance(mrr)", "index(mrr)", "hits@10"]
    assert f" {split['chance(mrr)'][0].value:.4f} " in str(split)  # alone: it has no interval
    alone = er.intervals(er.Ranks.of([1, 1], candidates=1))  # what nobody asked for may be undefined
    assert math.isnan(alone["index(mrr)"].value)
    assert "index(mrr) is undefined" in str(alone)


@pytest.mark.parametrize("method", ["delta", "bootstrap", "percentile"])
def test_where_there_is_no_interval_a_note_says_why(method):
    one = er.intervals(er.Ranks.of([3], candidates=9), "mrr", method=method, samples=200)
    assert math.isnan(one["mrr"].low)
    assert one["mrr"].value == 1 / 3
    assert "no interval for mrr: one target alone has no spread" in str(one)
    ranks = er.Ranks.of([1, 1, 1, 2], candidates=9)
    made = er.intervals(
        ranks, "hits@3", "count", "max", "chance(mrr)", method=method, samples=200, by="target"
    )
    notes = "\n".join(made.notes)
    assert "hits@3: the same for every target: its spread cannot be told from these" in notes
    assert "count: the number of targets, not an estimate" in notes
    assert "max: an extreme of these targets" in notes
    assert "chance(mrr): computed from the candidate counts, not estimated" in notes
    assert "–" in made.text()
    assert "nan" not in made.text()


def test_no_interval_by_the_delta_method():
    ranks = er.Ranks.of([1, 5, 2, 7], candidates=9)
    made = er.intervals(ranks, "std", "median", "1/hits@3", "mean(-1, hits@3)", "quantile(0.99)")
    assert 'std: without an analytic interval; ask for method="bootstrap"' in str(made)
    assert "median, quantile(0.99): too near an end, or of too few targets" in str(made)
    assert made["1/hits@3"].standard_error > 0
    sure = er.intervals(er.Ranks.of([1] * 40 + [2, 3], candidates=900), "phi(mrr)")
    assert "phi(mrr): without a slope at this value" in str(sure)


@pytest.mark.parametrize("method", ["bootstrap", "percentile"])
def test_no_interval_by_the_bootstrap(method):
    ranks = er.Ranks.of([1, 5, 2, 7], candidates=9)
    boot = er.intervals(ranks, "1/hits@3", method=method, samples=500)
    assert "1/hits@3: without a value in some bootstrap samples" in str(boot)
    same = er.intervals(er.Ranks.of([2] * 9, candidates=9), "median", "std", method=method, samples=200)
    assert same["median"][:4] == (2.0, 2.0, 2.0, 0.0)  # ranks are whole: a quantile may well stay
    assert "std: the same for every target" in str(same)


@pytest.mark.parametrize("method", ["delta", "bootstrap", "percentile"])
def test_rounding_is_no_spread(method):
    weight = [0.1, 0.2, 0.3, 0.7, 0.11, 0.13, 0.17]
    weighed = er.Ranks.of([3] * 7, candidates=50, weight=weight)
    keys = {"head": np.repeat(range(9), 2), "relation": "r", "tail": "t", "side": ["head", "tail"] * 9}
    alike = er.Ranks.of([1, 3] * 9, candidates=50, keys=keys)  # 1 + 1/3 for every triple
    for ranks, unit in ((weighed, "target"), (alike, "triple")):
        made = er.intervals(ranks, "mrr", "gmr", "1/hits@2", "index(mrr)", method=method, samples=200)
        assert all(math.isnan(row["low"]) for row in made.rows())
        assert f"index(mrr): the same for every {unit}" in str(made)


@pytest.mark.parametrize("method", ["delta", "bootstrap", "percentile"])
def test_no_interval_without_finite_terms(method):
    made = er.intervals(er.Ranks.of([1, 5], candidates=9), "mean(-1, hits@3)", method=method)
    assert made["mean(-1, hits@3)"].value == 0.0
    assert "mean(-1, hits@3): infinite for some targets, or their inverse is" in str(made)


def test_candidate_sets_of_one_leave_nothing_to_say():
    ranks = er.Ranks.of([1, 1, 1], candidates=1, keys={"relation": ["a", "a", "b"]})
    assert "the same for every target" in str(er.intervals(ranks, "mrr"))
    with raises("index.mrr. is undefined: chance always gets 1", er.DegenerateError):
        er.intervals(ranks, "index(mrr)")
    more = ranks + er.Ranks.of([2, 3], candidates=9, keys={"relation": ["c", "c"]})
    made = er.intervals(more.by("relation"), "index(mrr)")
    assert math.isnan(made["index(mrr)"][0].value)
    assert made["index(mrr)"][2].standard_error > 0
    assert "index(mrr) is undefined" in str(made)
    assert "(in 2 of 3 groups)" in str(made)


def test_weightless_targets_do_not_count():
    ranks = er.Ranks.of(
        [1, 5, 2, 7], candidates=9, weight=[1, 0, 1, 1], keys={"g": ["a", "b", "a", "c"]}
    )
    weighs = er.Ranks.of([1, 2, 7], candidates=9)
    assert er.intervals(ranks, "mrr")["mrr"] == er.intervals(weighs, "mrr")["mrr"]
    assert len(er.intervals(ranks.by("g"), "mrr").rows()) == 2


@given(
    table=strategies.rows(largest=30, most=8),
    expression=strategies.expressions,
    method=st.sampled_from(("delta", "bootstrap", "percentile")),
    ties=st.sampled_from(er.metric.TIES),
    weighted=st.booleans(),
)
@settings(max_examples=80)
def test_any_metric_has_an_interval_or_a_reason(table, expression, method, ties, weighted):
    better, equal, candidates, weight = zip(*table, strict=True)
    ranks = er.Ranks(better, equal, candidates, weight=weight if weighted else None)
    try:
        made = er.intervals(ranks, expression, method=method, samples=100, ties=ties)
    except (er.DegenerateError, er.NoLawError, er.InputError):
        return  # the value itself is undefined, which evaluate says too
    value, low, high, *_ = made[expression]
    if math.isnan(low):
        assert made.notes
    else:
        assert low <= high
        slack = 1e-6 * (abs(value) + 1)
        assert method != "delta" or low - slack <= value <= high + slack
    assert json.loads(made.json())["rows"][0]["metric"] == str(expression)


def test_intervals_refuse_bad_options():
    ranks = drawn()
    with raises("a level lies between 0 and 1; got 95"):
        er.intervals(ranks, level=95)
    with raises("unknown method; got 'wald'; allowed: delta, bootstrap, percentile"):
        er.intervals(ranks, method="wald")
    with raises("too few samples to read tails off; got 10; allowed: 100 or more"):
        er.intervals(ranks, samples=10)
    with raises("samples must be a whole number; got 1000.0"):
        er.intervals(ranks, samples=1e3)
    with raises("a seed is not negative; got -1"):
        er.intervals(ranks, seed=-1)
    with raises("not ranks; got list; e.g."):
        er.intervals([ranks])
    with raises("no such key column; got 'sex'"):
        er.intervals(ranks, by="sex")
    with raises("a metric of nothing does not exist"):
        er.intervals(er.Ranks([], [], []), "mrr")


# Paired tests -------------------------------------------------------------------------------------


def listed(d):
    """Every sign flip, by hand."""
    total = abs(math.fsum(d))
    sums = [abs(math.fsum(s * x for s, x in zip(signs, d, strict=True))) for signs in flips(len(d))]
    return sum(x >= total - 1e-9 for x in sums) / len(sums)


def flips(n):
    return itertools.product((1, -1), repeat=n)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
@settings(max_examples=60)
def test_few_flips_are_listed(d):
    got = _significance.permutation(np.array(d, dtype=float)[:, None], 1000, 0)[0]
    assert got == listed(d)


def test_exact_flips_are_scipys():
    a, b = (er.Ranks.of(r, candidates=99) for r in ([1, 3, 2, 9, 4, 30, 2], [2, 9, 2, 30, 3, 41, 5]))
    got = er.compare(a=a, b=b, on="row").pairs[0]
    terms = [1 / (ranks.better + 1.0) for ranks in (a, b)]
    want = stats.permutation_test(
        terms, lambda x, y, axis: (x - y).mean(axis), permutation_type="samples", vectorized=True
    )
    assert math.isclose(got.p, want.pvalue)
    assert math.isclose(got.difference, want.statistic)


def test_many_flips_are_drawn():
    d = np.random.default_rng(0).normal(0.25, 1, 60)
    exact = stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum())) * 2
    got = _significance.permutation(np.column_stack([d, d, -d]), 20_000, 1)
    assert abs(got[0] - exact) < 0.01
    assert got[0] == got[1] == got[2]
    assert _significance.permutation(np.full((60, 1), 1.0), 999, 0)[0] == 1 / 1000  # never zero
    assert _significance.permutation(np.zeros((60, 1)), 999, 0)[0] == 1.0
    one_by_one = _significance.permutation(np.column_stack([d, np.r_[1.0, np.zeros(59)]]), 20_000, 1)
    assert one_by_one[1] == 1.0  # listed, beside one that is drawn


def test_flips_in_blocks_are_all_there(monkeypatch):
    monkeypatch.setattr(_significance, "BLOCK", 500)
    assert _significance.permutation(np.full((60, 1), 1.0), 999, 0)[0] == 1 / 1000
    d = np.array([3.0, 1, 4, 1, 5, 9, 2, -6, 5])
    assert _significance.permutation(d[:, None], 999, 0)[0] == listed(d)


@pytest.mark.parametrize("name", ["gmr", "hmr", "imr", "index(mrr)", "z(gmr)", "mean(2)"])
def test_flipping_terms_flips_the_metric_itself(name):
    """The p of the terms is the p of the metric, though that is no mean: by listing all swaps."""
    expression = er.parse(name)
    a, b = (er.Ranks.of(r, candidates=60) for r in ([1, 3, 2, 9, 4, 30], [2, 9, 2, 3, 7, 41]))
    first, second = a.better + 1, b.better + 1
    observed = abs(expression(a.tally()) - expression(b.tally()))
    extreme = 0
    for signs in flips(6):
        kept = np.array(signs) > 0
        one, other = (
            er.Ranks.of(np.where(mask, first, second), candidates=60) for mask in (kept, ~kept)
        )
        extreme += abs(expression(one.tally()) - expression(other.tally())) >= observed * (1 - 1e-9)
    assert er.compare(a=a, b=b, on="row", metrics=name).pairs[0].p == extreme / 64


def test_both_sides_of_a_triple_flip_together():
    a, b = drawn(triples=8, ties=False), drawn(triples=8, seed=3, ties=False)
    b = er.Ranks(np.minimum(b.better, a.candidates - 1), 0, a.candidates, keys=a.keys)
    d = 1 / (a.better + 1.0) - 1 / (b.better + 1.0)
    assert math.isclose(er.compare(a=a, b=b).pairs[0].p, listed(d.reshape(-1, 2).sum(axis=1)))
    alone = er.compare(a=a, b=b, by="target", samples=70_000).pairs[0]
    assert math.isclose(alone.p, _significance.permutation(d[:, None], 70_000, 0)[0])


def test_t_and_wilcoxon_are_scipys():
    a, b = drawn(ties=False), drawn(seed=1, ties=False, shift=0.3)
    b = er.Ranks(np.minimum(b.better, a.candidates - 1), 0, a.candidates, keys=a.keys)
    x, y = (1 / (ranks.better + 1.0) for ranks in (a, b))
    alone = er.compare(a=a, b=b, by="target", test="t").pairs[0]
    want = stats.ttest_rel(x, y)
    assert math.isclose(alone.p, want.pvalue, rel_tol=1e-9)
    assert np.allclose((alone.low, alone.high), want.confidence_interval(0.95))
    assert math.isclose(alone.effect, (x - y).mean() / (x - y).std(ddof=1))
    joined = er.compare(a=a, b=b, test="t", level=0.9).pairs[0]
    want = stats.ttest_rel(*(z.reshape(-1, 2).mean(axis=1) for z in (x, y)))
    assert math.isclose(joined.p, want.pvalue, rel_tol=1e-9)
    assert np.allclose((joined.low, joined.high), want.confidence_interval(0.9))
    ranked = er.compare(a=a, b=b, by="target", test="wilcoxon")
    ranks = zip((a.better + 1).tolist(), (b.better + 1).tolist(), strict=True)
    exact = [Fraction(1, m) - Fraction(1, n) for m, n in ranks]
    sizes = sorted({abs(d) for d in exact})  # 1/3 - 1/6 and 1/2 - 1/3 are one size; not so in floats
    order = [int(np.sign(d)) * (1 + sizes.index(abs(d))) for d in exact if d]
    assert ranked.pairs[0].p == stats.wilcoxon(order).pvalue != stats.wilcoxon(x, y).pvalue
    assert "not of their mean" in str(ranked)


def test_sides_that_cancel_leave_no_difference():
    keys = {"head": [0, 0, 1, 1], "relation": "r", "tail": "t", "side": ["head", "tail"] * 2}
    a, b = (er.Ranks.of(rank, candidates=9, keys=keys) for rank in ([3, 6, 1, 1], [4, 4, 2, 1]))
    assert 1 / 3 - 1 / 4 + (1 / 6 - 1 / 4) != 0  # in floats
    assert [er.compare(a=a, b=b, test=t).pairs[0].p for t in ("permutation", "wilcoxon")] == [1.0, 1.0]


def test_a_difference_that_never_varies_has_no_interval():
    a, b = (er.Ranks.of(rank, candidates=90) for rank in ([1, 3, 7, 20, 33], [2, 4, 8, 21, 34]))
    made = er.compare(a=a, b=b, on="row", metrics="mr")
    assert made.pairs[0].difference == -1
    assert math.isnan(made.pairs[0].low)
    assert math.isnan(made.pairs[0].high)
    assert "– no interval where the differences have no spread" in str(made)
    assert er.compare(a=a, b=b, on="row", metrics="mr", test="t").pairs[0].p == made.pairs[0].p == 1 / 16
    assert json.loads(made.json())["pairs"][0]["low"] is None


@pytest.mark.parametrize("test", ["permutation", "t", "wilcoxon"])
def test_equal_models_are_not_told_apart_and_said_to_be_equal(test):
    a = drawn()
    result = er.compare(a=a, b=a, test=test)
    assert result.pairs[0].p == 1.0
    assert result.pairs[0].better(0.95) is None
    assert (result.pairs[0].effect, result.pairs[0].ties) == (0.0, len(a))
    assert "a and b have the same ranks" in str(result)


def test_wins_are_those_of_the_better_rank():
    a = er.Ranks.of([1, 2, 3, 12], candidates=20)
    b = er.Ranks.of([2, 2, 9, 4], candidates=20)
    for name, want in (("mrr", (2, 1, 1)), ("mr", (2, 1, 1)), ("gmr", (2, 1, 1)), ("hits@3", (1, 3, 0))):
        pair = er.compare(a=a, b=b, on="row", metrics=name).pairs[0]
        assert (pair.wins, pair.ties, pair.losses) == want
    up = er.compare(a=a, b=b, on="row", metrics="mrr").pairs[0]
    assert up.difference > 0 < up.effect
    down = er.compare(a=b, b=a, on="row", metrics="hmr").pairs[0]
    assert down.difference > 0 > down.effect  # a larger rank is worse


@pytest.mark.parametrize("name", ["mrr", "gmr", "index(mr)", "z(hits@3)", "mean(-200)"])
def test_the_interval_of_a_difference_is_that_of_bootstrapped_pairs(name):
    a, b = drawn(triples=200, ties=False), drawn(triples=200, seed=1, ties=False, shift=0.3)
    b = er.Ranks(np.minimum(b.better, a.candidates - 1), 0, a.candidates, keys=a.keys)
    expression = er.parse(name)
    pair = er.compare(a=a, b=b, metrics=name, by="triple").pairs[0]
    assert math.isclose(pair.difference, expression(a.tally()) - expression(b.tally()))
    if name == "mean(-200)":  # min in all but name: no slope to speak of, but terms on one scale
        return
    sizes = a.tally().sizes
    line = expression.map(er.Null(expression.metric, sizes)) if "(" in name else lambda x: x
    metric = expression.metric if "(" in name else expression
    replicates = [
        line(metric(a[rows].tally())) - line(metric(b[rows].tally()))
        for rows in copied(a, a.units("triple"), samples=1200)
    ]
    assert math.isclose(pair.standard_error, np.std(replicates), rel_tol=0.1)


@given(
    table=strategies.rows(largest=30, most=8),
    metric=strategies.metrics.filter(lambda m: abs(m.p) < 4 and m.f.k is None),
    test=st.sampled_from(("permutation", "t", "wilcoxon")),
    seed=st.integers(0, 999),
)
@settings(max_examples=80)
def test_who_comes_first_does_not_matter(table, metric, test, seed):
    better, equal, candidates, weight = zip(*table, strict=True)
    a = er.Ranks(better, equal, candidates, weight=weight)
    b = er.Ranks(np.random.default_rng(seed).integers(0, candidates), 0, candidates, weight=weight)
    if len(a) < 2:
        return
    options = {"on": "row", "metrics": metric, "test": test, "samples": 300}
    (one,), (other,) = er.compare(a=a, b=b, **options).pairs, er.compare(b=b, a=a, **options).pairs
    assert one.wins + one.ties + one.losses == len(a)
    assert (one.wins, one.losses) == (other.losses, other.wins)
    assert 0 <= one.p <= 1
    assert math.isclose(one.p, other.p, rel_tol=1e-9)
    assert math.isclose(one.effect, -other.effect, rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(one.low, -other.high, rel_tol=1e-9, abs_tol=1e-12)


def test_corrections_by_their_definitions():
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.9])
    order = np.argsort(p)
    holm = np.empty(5)
    rising = np.empty(5)
    for i, at in enumerate(order):
        holm[at] = min(1, max((5 - j) * p[order[j]] for j in range(i + 1)))
        rising[at] = min(min(1, 5 / (j + 1) * p[order[j]]) for j in range(i, 5))
    assert np.allclose(_significance.CORRECTIONS["holm"](p), holm)
    assert np.allclose(_significance.CORRECTIONS["bh"](p), rising)
    assert np.allclose(_significance.CORRECTIONS["bonferroni"](p), np.minimum(1, 5 * p))
    assert (_significance.CORRECTIONS["none"](p) == p).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_corrections_are_ordered(p):
    values = np.array(p)
    made = {name: correct(values) for name, correct in _significance.CORRECTIONS.items()}
    slack = 1 + 1e-12
    assert (values <= made["bh"] * slack).all()
    assert (made["bh"] <= made["holm"] * slack).all()
    assert (made["holm"] <= made["bonferroni"] * slack).all()


# Comparisons --------------------------------------------------------------------------------------


def test_all_pairs_or_one_baseline(nations):
    every = er.compare(nations)
    assert [(p.first, p.second) for p in every.pairs] == list(itertools.combinations(nations, 2))
    assert all(p.better(0.95) == p.second for p in every.pairs)  # in the order of MRR
    against = er.compare(nations, baseline="transe", metrics=["mrr", "hits@1"], correction="bonferroni")
    assert [p.first for p in against.pairs] == ["rotate", "complex"] * 2
    assert np.allclose([p.p_corrected for p in against.pairs], [min(1, 4 * p.p) for p in against.pairs])
    assert against.pair("complex", "transe").metric == er.MRR
    assert against.pair("complex", "transe", "hits@1").metric == er.HITS(1)
    with raises(
        "no such pair was compared; got rotate and complex under mrr; allowed: rotate and transe"
    ):
        against.pair("rotate", "complex")
    one, other = every.values["mrr"][:2]
    assert one == er.intervals(nations["transe"], "mrr")["mrr"]
    pair = every.pairs[0]
    assert pair.difference == one.value - other.value
    assert pair.standard_error < math.hypot(one.standard_error, other.standard_error)  # it is paired


def test_targets_are_joined_by_triple_and_side(nations):
    a, b = nations["transe"], nations["rotate"]
    want = er.compare(a=a, b=b).pairs[0]
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(b))
        got = er.compare(a=a, b=b[rows]).pairs[0]
        assert (got.wins, got.ties, got.losses) == (want.wins, want.ties, want.losses)
        assert math.isclose(got.difference, want.difference)
        assert got.p == want.p
    assert er.compare(a=a + a, b=(b + b)[::-1]).pairs[0].wins == 2 * want.wins  # a triple twice
    some = ["side", "tail", "relation", "head"]
    assert er.compare(a=a, b=b[::-1], on=some).pairs[0].wins == want.wins


def test_numbers_and_texts_join(tmp_path):
    keys = {"head": [3, 4, 10], "relation": 0, "tail": [1, 2, 3]}
    a, b = (er.Ranks.of(r, candidates=50, keys=keys) for r in ([1, 2, 3], [2, 2, 9]))
    b.save(tmp_path / "b.csv")
    got = er.compare(a=a, b=er.Ranks.load(tmp_path / "b.csv")).pairs[0]
    assert (got.wins, got.ties) == (2, 1)
    assert got == er.compare(a=a, b=b).pairs[0]


@pytest.mark.parametrize("by", ["triple", "relation"])
def test_units_are_the_same_whatever_the_type_of_their_names(by):
    """As text, 10 sorts before 9: the units of the two models must not be numbered apart."""
    rng = np.random.default_rng(0)
    keys = {"head": np.arange(60), "relation": rng.integers(0, 20, 60), "tail": 0}
    texts = {name: np.broadcast_to(column, 60).astype(str) for name, column in keys.items()}
    rank = rng.integers(1, 40, (2, 60))
    a, b = (er.Ranks.of(r, candidates=50, keys=keys) for r in rank)
    told = er.Ranks.of(rank[1], candidates=50, keys=texts)
    options = {"metrics": ("mrr", "z(mr)"), "by": by, "average": "relation"}
    assert er.compare(a=a, b=told, **options).pairs == er.compare(a=a, b=b, **options).pairs


def test_other_tasks_join_by_their_keys():
    source, target = np.random.default_rng(0).normal(size=(2, 30, 8))
    aligner = er.Factored("dot", target, lambda queries: source[queries[:, 0]])
    pairs = [[i, i] for i in range(30)]
    ranks = er.rank(aligner, er.Task.alignment(pairs, size=30), progress=False)
    result = er.compare(a=ranks, b=ranks[::-1])
    assert result.unit == "target"
    assert result.units == 30
    asked = er.Task.answers([[7, 1], [7, 2]], answers=[[3, 4, 5], [0]], known=[[1, 2], []], size=30)
    answers = er.rank(er.Factored("dot", target, lambda q: source[q[:, 1]]), asked, progress=False)
    assert er.compare(a=answers, b=answers[::-1]).pairs[0].ties == 4


def test_different_protocols_are_refused_by_name():
    a = drawn(protocol={"data": "d", "content": "1", "filter": "all", "model": "A", "scores": "x"})
    b = drawn(protocol={"data": "e", "content": "2", "filter": "none", "model": "B", "split": "test"})
    with raises(
        r"not ranked in the same way; got data: d \(a\) and e \(b\); content: 1 \(a\) and 2"
    ) as e:
        er.compare(a=a, b=b)
    assert "filter: all (a) and none (b)" in str(e.value)
    assert "model" not in str(e.value).replace("the models", "")
    assert "say mixed=True (--mixed)" in str(e.value)
    assert er.compare(a=a, b=b, mixed=True).pairs[0].p == 1.0
    same = drawn(protocol={"data": "another name", "content": "1", "model": "B", "split": "test"})
    assert "not every model says its filter, split" in str(er.compare(a=a, b=same))


def test_different_targets_are_counted_and_shown(nations):
    a, b = nations["transe"], nations["rotate"]
    with raises("not tested on the same targets; got 0 only in a and 2 only in b, such as head ") as e:
        er.compare(a=a[2:], b=b)
    first = {name: column[0] for name, column in b.keys.items()}
    second = {name: column[1] for name, column in b.keys.items()}
    assert any(
        ", ".join(f"{name} {one[name]}" for name in ("head", "relation", "tail", "side")) in str(e.value)
        for one in (first, second)
    )
    assert str(e.value).endswith("in b")
    with raises("got 2 only in a and 0 only in b"):
        er.compare(a=a, b=b[2:], mixed=True)


def test_different_candidates_are_refused():
    a = drawn(ties=False)
    sizes = a.candidates.copy()
    sizes[3] += 1
    b = er.Ranks(a.better, 0, sizes, keys=a.keys)
    with raises(
        "ranked among different candidates; got 1 such targets: head h1, relation r1, tail t1, "
    ):
        er.compare(a=a, b=b)
    assert er.compare(a=a, b=b, mixed=True, metrics="mrr").pairs[0].difference == 0
    with raises("differ in chance level, too; got index\\(mrr\\); compare them by mrr, or rank them"):
        er.compare(a=a, b=b, mixed=True, metrics=["mrr", "index(mrr)"])
    heavy = er.Ranks(a.better, 0, a.candidates, keys=a.keys, weight=np.arange(len(a)))
    with raises("the models weigh their targets differently; got a and b"):
        er.compare(a=a, b=heavy)
    ones = er.Ranks(a.better, 0, a.candidates, keys=a.keys, weight=np.ones(len(a)))
    assert er.compare(a=a, b=ones).pairs[0].p == 1.0


def test_rows_are_joined_only_on_request():
    keys = {"relation": ["r", "r", "s"]}
    a, b = (er.Ranks.of(r, candidates=50, keys=keys) for r in ([1, 2, 3], [2, 2, 9]))
    with raises("nothing tells which ranks are of the same target; got keys relation; allowed: head"):
        er.compare(a=a, b=b)
    with raises("no keys that all models have"):
        er.compare(a=a, b=er.Ranks.of([1, 2, 3], candidates=50))
    assert er.compare(a=a, b=b, on="row").pairs[0].wins == 2
    with raises("row 1 is not the same target in each; got relation r in a and s in b"):
        er.compare(a=a, b=b[np.array([0, 2, 1])], on="row")
    with raises("rows can only be joined one to one; got 3 in a and 2 in b"):
        er.compare(a=a, b=b[:2], on="row")
    with raises("rows can only be trusted to be the same targets under one protocol"):
        er.compare(a=a, b=b, on="row", mixed=True)
    with raises("ranked among different candidates; got 3 such targets: relation r has 50 in a and 60"):
        er.compare(a=a, b=er.Ranks.of([1, 2, 3], candidates=60, keys=keys), on="row")
    with raises("no such key in all models; got head; allowed: relation"):
        er.compare(a=a, b=b, on="head")
    bare = [er.Ranks.of([1, 2, 3], candidates=n) for n in (50, 60)]
    with raises("row 0 has 50 in a and 60 in b"):
        er.compare(a=bare[0], b=bare[1], on="row")


def test_comparisons_refuse_bad_input():
    a, b = drawn(), drawn()
    with raises("comparing needs two models or more; got 1"):
        er.compare(a=a)
    with raises("one model twice; got a; give each a name of its own"):
        er.compare({"a": a}, a=b)
    with raises("b must be ranks; got list; e.g. er.compare"):
        er.compare(a=a, b=[1, 2])
    with raises("unknown test; got 'z'; allowed: permutation, t, wilcoxon"):
        er.compare(a=a, b=b, test="z")
    with raises("unknown correction; got 'fdr'; allowed: holm, bonferroni, bh, none"):
        er.compare(a=a, b=b, correction="fdr")
    with raises("unknown baseline; got 'c'; allowed: a, b"):
        er.compare(a=a, b=b, baseline="c")
    with raises("a level lies between 0 and 1"):
        er.compare(a=a, b=b, level=1)
    with raises("too few samples"):
        er.compare(a=a, b=b, samples=1)
    with raises("no metric to compare by"):
        er.compare(a=a, b=b, metrics=())
    with raises("median is not made of a term per target; allowed: means such as mrr"):
        er.compare(a=a, b=b, metrics="median")
    with raises("max is not made of a term per target"):
        er.compare(a=a, b=b, metrics="max")
    with raises("chance.mrr. is computed from the candidate counts"):
        er.compare(a=a, b=b, metrics="chance(mrr)")
    with raises("mean.-1, hits@1. has no finite term for some targets"):
        er.compare(a=a, b=b, metrics="mean(-1, hits@1)")
    with raises("one triple alone cannot tell models apart"):
        er.compare(a=a[:2], b=b[:2])


def test_a_comparison_is_written_in_every_format(nations):
    result = er.compare({"<script>a_b": nations["transe"], "Ü | b": nations["rotate"]}, metrics="mrr")
    content = json.loads(result.json())
    (pair,) = content["pairs"]
    assert pair["first"] == "<script>a_b"
    assert pair["better"] == "Ü | b"
    assert pair["second_value"] == content["models"][1]["value"]
    assert content["protocol"]["test"] == "permutation"
    (row,) = csv.DictReader(io.StringIO(result.csv()))
    assert float(row["difference"]) == result.pairs[0].difference
    assert "<script>" not in result._repr_html_()
    assert r"\textless{}script\textgreater{}a\_b" in result.latex()
    assert r"Ü \| b" in result.markdown()
    assert "sign flips over 201 triples; 1 test, Holm-corrected" in str(result)
    assert repr(result) == str(result)


def test_names_stay_in_their_cells(nations):
    """A line break, a bar or a tag in a name ends no cell and begins no tag, nor does it in a note."""
    name = "<script>\\|\nx"
    result = er.compare({name: nations["transe"], "b": nations["transe"]})
    assert "<script>" not in result.markdown().replace("\\<", "")
    assert "\\<script>\\\\\\| x and b have the same ranks" in result.markdown()
    comments = result.latex().rpartition("tabular}\n")[2].splitlines()
    assert comments[1] == "% <script>\\| x and b have the same ranks"
    assert all(line.startswith("% ") for line in comments)
    assert "{[$-" in er.compare(a=nations["transe"], b=nations["rotate"]).latex()


# Seeds and data sets ------------------------------------------------------------------------------


def test_seeds_are_summed_up():
    runs = [drawn(seed=i) for i in range(4)]
    made = er.seeds(runs, "mrr", "median", ties="realistic")
    column = [ranks.evaluate("mrr", ties="realistic")["mrr"] for ranks in runs]
    first = made.spreads[0]
    assert math.isclose(first.mean, np.mean(column))
    assert math.isclose(first.sd, np.std(column, ddof=1))
    assert (first.n, first.least, first.most) == (4, min(column), max(column))
    models = er.seeds({"a": runs, "b": runs[:1]}, "mrr")
    assert [s.n for s in models.spreads] == [4, 1]
    assert math.isnan(models.spreads[1].sd)
    assert "one run of b has no sd" in str(models)
    assert json.loads(models.json())["rows"][1]["sd"] is None
    assert len(er.seeds(runs).spreads) == 4
    folds = [
        drawn(seed=i, protocol={"content": str(i), "split": "test", "model": str(i)}) for i in range(2)
    ]
    noted = er.seeds(folds, "mrr")
    assert "the runs differ in content, and their sd holds that too" in str(noted)
    assert noted.protocol["split"] == "test"
    assert [s.n for s in er.seeds(runs[0]).spreads] == [1] * 4  # not a run per row
    assert [s.n for s in er.seeds({"a": runs[0]}, "mrr").spreads] == [1]
    with raises("every run must be ranks; got int; e.g."):
        er.seeds([1, 2])
    with raises("no runs to sum up; got none for b"):
        er.seeds({"a": runs, "b": []})
    with raises("no runs to sum up; got none; give"):
        er.seeds([])
    with raises("no runs to sum up"):
        er.seeds({})


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
    made = er.across(data, "mrr", level=0.9)
    for result in made.results:
        one = data[result.data][result.model].evaluate("mrr", "index(mrr)", "z(mrr)").flat()
        assert [result.value, result.index, result.z] == list(one.values())
    table = np.array([[data[d][m].evaluate("mrr")["mrr"] for m in "abc"] for d in data])
    average = stats.rankdata(-table, axis=1).mean(axis=0)
    assert {s.model: s.rank for s in made.standings} == dict(zip("abc", average, strict=True))
    want = stats.friedmanchisquare(*table.T)
    assert np.allclose((made.statistic, made.p), want)
    assert made.critical_difference == _several.critical_difference(3, 5, 0.9)
    index = {s.model: s.mean_index for s in made.standings}
    assert math.isclose(index["a"], np.mean([r.index for r in made.results if r.model == "a"]))
    content = json.loads(made.json())
    assert content["friedman"]["p"] == made.p
    assert content["rows"][0]["average_rank"] == average[0]
    assert len(made.csv().splitlines()) == 16
    assert "critical difference of ranks (Nemenyi, 90 %)" in str(made)
    assert "few" not in str(made)
    assert "\\toprule" in made.latex()
    lower = er.across(data, "index(mr)")  # the form is given anyway: an adjusted name means its metric
    assert str(lower.metric) == "mr"
    assert lower.results[0].rank == 1.0


def test_equal_models_share_ranks_across_data_sets():
    same = {"a": drawn(), "b": drawn()}
    made = er.across({"one": same, "two": same})
    assert [s.rank for s in made.standings] == [1.5, 1.5]
    assert (made.p, made.alike) == (1.0, (("a", "b"),))
    assert "2 data sets are few: not told apart does not mean equal" in str(made)


def test_across_refuses_what_is_not_complete():
    one = graded(0, "abc")
    with raises("comparing across data sets needs two or more; got 1"):
        er.across({"d": one})
    with raises("comparing needs two models or more; got 1"):
        er.across({"d": {"a": one["a"]}, "e": {"a": one["a"]}})
    less = {name: one[name] for name in "ab"}
    with raises("every model must be there on every data set; got no ranks of c on e; rank it there"):
        er.across({"d": one, "e": less})
    with raises("c on e, c on f, c on g and 1 more"):
        er.across({"d": one, "e": less, "f": less, "g": less, "h": less})
    with raises("not ranked in the same way; got filter: x"):
        apart = {
            name: er.Ranks(r.better, r.equal, r.candidates, protocol={"filter": word})
            for (name, r), word in zip(one.items(), "xyz", strict=True)
        }
        er.across({"d": one, "e": apart})
    with raises("ranked among different candidates; got a and b on d"):
        er.across({"d": one | {"b": drawn(seed=8)}, "e": one})
    with raises("a level lies between 0 and 1"):
        er.across({"d": one, "e": one}, level=2)
    with raises("d must name its models; got Ranks; e.g."):
        er.across({"d": one["a"], "e": one["b"]})
    with raises("a on d must be ranks; got int; rank it there"):
        er.across({"d": {"a": 1, "b": 2}, "e": one})
    alone = {name: er.Ranks.of([1, 1], candidates=1) for name in "abc"}
    with raises(r"on e, index\(mrr\) is undefined: chance always gets 1.*; leave the data set out"):
        er.across({"d": one, "e": alone})


# The shell ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(nations, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    paths = [folder / f"{name}.parquet" for name in nations]
    for path, ranks in zip(paths, nations.values(), strict=True):
        ranks.save(path)
    return paths


def test_the_shell_compares(files, nations):
    assert run("compare", *files) == f"{er.compare(nations)}\n"
    options = ["-m", "mrr", "-m", "hits@1", "--baseline", "transe", "--test", "t", "--correction", "bh"]
    want = er.compare(
        nations,
        metrics=("mrr", "hits@1"),
        baseline="transe",
        test="t",
        correction="bh",
        level=0.9,
        by="query",
    )
    got = run("compare", *files, *options, "--level", 0.9, "--unit", "query", "--json")
    assert json.loads(got) == json.loads(want.json())
    for form in ("csv", "markdown", "latex"):
        assert run("compare", *files[:2], f"--{form}").startswith(
            {"csv": "metric,first", "markdown": "| model |", "latex": "\\begin{tabular}"}[form]
        )


def test_the_shell_gives_intervals(files, nations):
    assert run("metrics", files[0], "--interval", "delta") == f"{er.intervals(nations['transe'])}\n"
    got = run(
        *("metrics", *files, "-m", "mrr", "--interval", "bootstrap", "--samples", 500, "--seed", 3),
        *("--by", "side", "--unit", "target", "--level", 0.8, "--csv"),
    )
    groups = {name: ranks.by("side") for name, ranks in nations.items()}
    want = er.intervals(groups, "mrr", method="bootstrap", samples=500, seed=3, by="target", level=0.8)
    assert got == f"{want.csv()}\n"


def test_the_shell_refuses(files, tmp_path):
    assert "one model twice" in run("compare", files[0], files[0], code=2)
    assert "comparing needs two models or more" in run("compare", files[0], code=2)
    er.Ranks.load(files[0])[5:].save(tmp_path / "rotate.parquet")
    message = run("compare", files[0], tmp_path / "rotate.parquet", code=2)
    assert "not tested on the same targets; got 5 only in transe and 0 only in rotate" in message
    assert "unknown baseline" in run("compare", *files, "--baseline", "x", code=2)
    assert "intervals are of one average" in run(
        "metrics", files[0], "--interval", "delta", "--averages", code=2
    )
    assert "are of intervals; ask for these" in run("metrics", files[0], "--level", "0.9", code=2)
    assert "a seed is not negative; got -1" in run("compare", *files, "--seed", "-1", code=2)
    names = run("compare", files[1], tmp_path / "rotate.parquet", code=2)
    assert str(files[1]) in names  # two files of one name are told apart by their paths
