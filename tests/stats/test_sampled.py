"""Estimates from sampled candidates: enumerated distributions, envelopes, coverage of bounds."""

import json
from itertools import combinations, product
from math import comb, exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom, hypergeom
from shell import run

import evenrank as er
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import SAMPLED
from evenrank.ranks.sampling import DRAW, FULL, sample
from evenrank.ranks.task import Task
from evenrank.stats.sampled import _bounds, _corrections, _design, _estimate, _variance

RANKS = Path(__file__).parents[2] / "examples/case_study/ranks"
MODEL = Path(er.__file__).parent / "models/bundled/kinships-complex.safetensors"


def raises(*parts):
    return pytest.raises(er.errors.InputError, match=".*".join(parts))


def drawn(full, k, rng):
    """Sample exactly from full ranks: the number of better candidates among k is hypergeometric."""
    k_of = np.minimum(k, full.candidates - 1)
    better = rng.hypergeometric(full.better, full.candidates - 1 - full.better, k_of)
    return er.Ranks(better, 0, k_of + 1, keys={**full.keys, FULL: full.candidates})


def design(k, sizes, low=(0,), high=None, size_of=None, replace=False):
    low = np.asarray(low)
    high = low if high is None else np.asarray(high)
    size_of = np.zeros_like(low) if size_of is None else np.asarray(size_of)
    return _design.Design(k, np.atleast_1d(sizes), np.arange(len(low)), size_of, low, high, replace)


def reciprocal(r):
    return 1.0 / r


def hits(k):
    return parse(f"hits@{k}").f


# The distribution of the counts -------------------------------------------------------------------


@given(st.integers(2, 8), st.data())
def test_the_distribution_of_counts_equals_enumeration(size, data):
    k = data.draw(st.integers(1, size - 1))
    rank = data.draw(st.integers(1, size))
    counts = np.zeros(k + 1)
    for chosen in combinations(range(1, size), k):  # others 1..size - 1; those below the rank are better
        counts[sum(one < rank for one in chosen)] += 1 / comb(size - 1, k)
    assert _design.count_distribution(k, size, np.array([rank]))[0] == pytest.approx(counts, abs=1e-12)


def test_the_distribution_of_counts_equals_scipy_in_every_block(monkeypatch):
    ranks = np.array([1, 2, 77, 4000, 14_541])
    want = hypergeom.pmf(np.arange(101), 14_540, ranks[:, None] - 1, 100)
    monkeypatch.setattr(_design, "BLOCK", 250)
    assert _design.count_distribution(100, 14_541, ranks) == pytest.approx(want, abs=1e-9)


def test_nodes_are_few_and_find_jumps():
    nodes = _design.nodes(100, 14_541)
    assert set(range(1, 65)) <= set(nodes.tolist())
    assert nodes[-1] == 14_541
    assert len(nodes) < 400
    assert (np.diff(_design.nodes(100, 14_541, 4)) <= np.diff(nodes).max()).all()
    assert _design.jumps(hits(300), 14_541).tolist() == [300, 301]
    assert _design.nodes(1, 1).tolist() == [1]


def test_designs_have_similar_numbers_of_candidates():
    drawn_, full = np.array([5, 5, 5, 9, 5, 5]), np.array([100, 105, 200, 100, 6, 4])
    low = np.arange(6)
    made = _design.designs(drawn_, full, low, low)
    assert [(d.drawn, d.sizes.tolist(), d.targets.tolist()) for d in made] == [
        (5, [100, 105], [0, 1]),
        (5, [200], [2]),
        (5, [4, 6], [4, 5]),
        (9, [100], [3]),
    ]
    assert [d.exhaustive for d in made] == [False, False, True, False]


def test_ties_are_spread():
    one = design(4, [10], low=[0, 1, 4], high=[0, 3, 4])
    table = np.array([[1.0, 2.0, 4.0, 9.0, 16.0]])
    assert one.look_up(table).tolist() == [1.0, 5.0, 16.0]
    assert one.counted(np.array([1.0, 3.0, 2.0])).tolist() == [1.0, 1.0, 1.0, 1.0, 2.0]
    two = design(1, [5, 6], low=[0, 1], high=[1, 1], size_of=[0, 1])
    assert two.look_up(np.array([[1.0, 3.0], [0.0, 7.0]])).tolist() == [2.0, 7.0]


# Corrections --------------------------------------------------------------------------------------


@given(st.integers(1, 3), st.integers(3, 12), st.integers(0, 30))
def test_powers_of_the_rank_have_an_unbiased_estimate(power, k, more):
    size = k + 1 + more
    metric = er.MR if power == 1 else parse(f"mean({power})")
    table = _corrections.unbiased(metric, design(k, [size]))
    ranks = np.arange(1, size + 1)
    assert _design.count_distribution(k, size, ranks) @ table[0] == pytest.approx(
        ranks.astype(float) ** power
    )


def test_metrics_without_an_unbiased_estimate():
    small = design(2, [9])
    for name in ("mrr", "hits@3", "gmr", "mean(0.5)", "mean(3)", "ndcg"):
        assert _corrections.unbiased(parse(name), small) is None
    # and none could: 1/R is outside the span of the k + 1 likelihoods, R^2 within it
    p = _design.count_distribution(2, 9, np.arange(1, 10))
    for term, inside in ((reciprocal, False), (lambda r: r**2, True)):
        x = term(np.arange(1.0, 10.0))
        left = x - p @ np.linalg.lstsq(p, x, rcond=None)[0]
        assert (np.abs(left).max() < 1e-9) == inside


def test_bias_variance_minimises_its_sum():
    k, size, gamma = 6, 40, 0.1
    ranks = np.arange(1, size + 1)
    p, x = _design.count_distribution(k, size, ranks), 1 / ranks
    bias = np.sqrt(1 / size) * p
    # a row per rank and count: sqrt(gamma / N P(x | R)) (T(x) - E_R T)
    each = np.sqrt(gamma / size * p)[:, :, None] * (np.eye(k + 1)[None] - p[:, None, :])
    rows = np.concatenate([bias, each.reshape(-1, k + 1)])
    want = np.linalg.lstsq(rows, np.append(np.sqrt(1 / size) * x, np.zeros(size * (k + 1))), rcond=None)
    found = _corrections.bias_variance(reciprocal, design(k, [size]), ranks, gamma)
    assert found[0] == pytest.approx(want[0])


def test_constrained_least_squares():
    k, size = 6, 40
    ranks = np.arange(1, size + 1)
    found = _corrections.constrained(reciprocal, design(k, [size]), ranks)[0]
    assert (found >= 1 / size).all()
    assert (found <= 1).all()
    p, x = _design.count_distribution(k, size, ranks), 1 / ranks

    def loss(t):
        return float(((p @ t - x) ** 2).sum())

    rng = np.random.default_rng(0)
    for _ in range(200):  # no other T nearby and within the range is better
        other = np.clip(found + rng.normal(0, 0.02, k + 1), 1 / size, 1)
        assert loss(other) >= loss(found) - 1e-9
    every = _corrections.constrained(reciprocal, design(size - 1, [size]), ranks)[0]
    assert every == pytest.approx(x, abs=1e-6)


def test_the_fit_increases_the_likelihood_and_recovers_a_distribution():
    rng = np.random.default_rng(1)
    rank = rng.integers(1, 30, 500)
    x = rng.hypergeometric(rank - 1, 60 - rank, 20)
    one, ranks = design(20, [60], low=x), np.arange(1, 61)
    counts = one.counted(np.ones(500))
    likely = [
        float(counts @ np.log(_corrections.Fit.of([one], np.ones(500), ranks, n).counts(one) + 1e-300))
        for n in (0, 1, 10, 100)
    ]
    assert likely == sorted(likely)
    # all candidates drawn: the fit is the distribution of the ranks themselves
    every = design(59, [60], low=rank - 1)
    fit = _corrections.Fit.of([every], np.ones(500), ranks, 5)
    assert fit.mass == pytest.approx(np.bincount(rank - 1, minlength=60) / 500)
    assert _corrections.posterior(reciprocal, every, fit)[0, :5] == pytest.approx(1 / ranks[:5])


# Bounds -------------------------------------------------------------------------------------------

TERMS = {"mrr": reciprocal, "hits@1": hits(1), "hits@10": hits(10), "hits@90": hits(90), "gmr": np.log}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("k", "sizes"), [(5, [40]), (20, [300, 311, 330]), (100, [5000])])
def test_envelopes_are_valid_at_every_rank_and_size(name, replace, k, sizes):
    one, term = design(k, sizes, replace=replace), TERMS[name]
    q = _corrections.Fit.of([one], np.zeros(1), _design.nodes(k, sizes[-1])).counts(one)
    lower, upper, solved = _bounds.envelope(term, one, q, 1000.0)
    assert solved
    for size in sizes:
        ranks = np.arange(1, size + 1)
        p, x = one.distribution(size, ranks), term(ranks.astype(float))
        slack = 1e-4 * (x.max() - x.min()) + 1e-9  # between the ranks and sizes on the grid
        assert (p @ upper[0] >= x - slack).all()
        assert (p @ lower[0] <= x + slack).all()


@pytest.mark.parametrize("name", ["mrr", "hits@10"])
def test_envelopes_are_optimal(name, monkeypatch):
    """Without a cost of steps, by duality: the range over distributions with the same counts."""
    monkeypatch.setattr(_bounds, "SAFE", 0.0)
    monkeypatch.setattr(_bounds, "STEEP", 1e4)
    k, size = 5, 40
    ranks = np.arange(1, size + 1)
    mass = 1.0 / ranks**1.5
    p, x, one = (
        _design.count_distribution(k, size, ranks),
        TERMS[name](ranks.astype(float)),
        design(k, [size]),
    )
    q = mass / mass.sum() @ p
    lower, upper, _ = _bounds.envelope(TERMS[name], one, q, 1e12)
    for sign, table in ((1, lower), (-1, upper)):
        found = linprog(sign * x, A_eq=p.T, b_eq=q, method="highs")
        assert q @ table[0] == pytest.approx(sign * found.fun, abs=1e-5)


@pytest.mark.parametrize("name", ["hits@1", "hits@10"])
def test_programs_end_within_their_limit(name, monkeypatch):
    """Ranks up to 100 of 2.5 million: 32,144 and more than 68,421 steps without the coarser accuracy."""
    rng, k, size = np.random.default_rng(1), 1000, 2_500_604
    rank = np.minimum(rng.geometric(0.05, 20_000), size)
    one = design(k, [size], low=rng.hypergeometric(rank - 1, size - rank, k))
    q = _corrections.Fit.of([one], np.ones(len(rank)), _design.nodes(k, size)).counts(one)
    steps = []

    def counted(*arguments, **options):
        found = linprog(*arguments, **options)
        steps.append(found.nit)
        return found

    monkeypatch.setattr("scipy.optimize.linprog", counted)
    assert _bounds.envelope(TERMS[name], one, q, 20_000.0).solved
    assert sum(steps) <= 2 * sum(_bounds.SOLVERS.values())


def test_a_program_that_is_not_solved_leaves_valid_bounds_and_a_note(monkeypatch):
    full, rng = er.Ranks.load(RANKS / "nations-rotate.parquet"), np.random.default_rng(0)
    ranks, truth = drawn(full, 5, rng), full.evaluate("mrr", "hits@3").to_dict()
    solved = er.estimate_full(ranks, "mrr", "hits@3", "mr")
    monkeypatch.setattr(_bounds, "SOLVERS", {"highs-ds": 1, "highs-ipm": 0})
    wider = er.estimate_full(ranks, "mrr", "hits@3", "mr")
    for name in ("mrr", "hits@3"):
        assert (
            wider[name].low <= solved[name].low <= truth[name] <= solved[name].high <= wider[name].high
        )
        assert wider[name].high - wider[name].low > 1.3 * (solved[name].high - solved[name].low)
        assert wider[name].value == solved[name].value
    assert solved["mr"] == wider["mr"]
    assert solved.notes == ()
    assert wider.notes == (
        "a linear program was not solved within its limit: bounds are valid, but wider than necessary",
    )


@pytest.mark.parametrize("replace", [False, True])
def test_too_many_candidates_are_thinned_out(monkeypatch, replace):
    """A random part of a sample is a sample: the distribution of counts stays the same."""
    rng, rows, k, rank, size = np.random.default_rng(0), 40_000, 30, 20, 60
    better = rng.binomial(k, 19 / 59, rows) if replace else rng.hypergeometric(19, 40, k, rows)
    equal = rng.hypergeometric(np.minimum(better, 1), np.maximum(1 - better, 0) + k - 1, 1)
    monkeypatch.setattr(_design, "MOST_DRAWN", 8)
    k_of, column = np.full(rows, k), np.full(rows, size)
    wanted, low, high = _design.thinned(k_of, column, better, better + equal * (better < k), replace)
    assert set(wanted) == {8}
    assert (high - low >= 0).all()
    assert (high <= 8).all()
    want = _design.count_distribution(8, size, np.array([rank]), replace)[0]
    assert np.bincount(low, minlength=9) / rows == pytest.approx(want, abs=0.01)
    monkeypatch.setattr(_design, "MOST_DRAWN", 5000)
    monkeypatch.setattr(_design, "MOST_DESIGNS", 3)
    k_of = np.array([40, 44, 45, 46, 50, 59])
    wanted, _, _ = _design.thinned(k_of, column[:6], k_of // 2, k_of // 2, replace)
    assert (wanted <= k_of).all()
    assert (wanted > k_of / 1.15).all()
    assert wanted[-1] == (59 if not replace else 54)  # exhaustive samples stay exact
    assert len(set(wanted)) < 6


def test_estimates_from_many_candidates_are_labelled(monkeypatch):
    full, rng = er.Ranks.load(RANKS / "kinships-transe.parquet"), np.random.default_rng(0)
    ranks, truth = drawn(full, 60, rng), full.evaluate("mrr", "mr").to_dict()
    whole = er.estimate_full(ranks, "mrr", "mr")
    monkeypatch.setattr(_design, "MOST_DRAWN", 20)
    part = er.estimate_full(ranks, "mrr", "mr")
    assert part["mrr"].low < whole["mrr"].low < truth["mrr"] < whole["mrr"].high < part["mrr"].high
    assert part["mr"] == whole["mr"]  # mean ranks need no program
    assert whole.notes == ()
    assert "from a random part of the sampled candidates" in part.notes[0]
    assert part.drawn == whole.drawn


def test_bins_are_fine_where_counts_are_small():
    bins = design(1000, [9000]).bins
    assert bins[:25].tolist() == list(range(25))
    assert len(bins) < 80
    assert design(3, [9]).bins.tolist() == [0, 1, 2, 3]


# Variance -----------------------------------------------------------------------------------------


def all_samples(scores, targets, k, replace):
    """All samples of k of the other candidates, with the counts of each target: better, equal."""
    every = range(len(scores))
    for chosen in product(every, repeat=k) if replace else combinations(every, k):
        picked = np.array([scores[i] for i in chosen])
        yield [(int((picked > t).sum()), int((picked == t).sum())) for t in targets]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("targets", [[2.5], [2.5, 0.5, 4.5], [3.0, 3.0, 1.5]])
def test_the_variance_of_mean_ranks_is_unbiased(targets, replace):
    """Enumerated: targets of one query share a draw; two of them tie with candidates."""
    scores, k = [1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 0.0], 3
    weight = np.arange(1.0, len(targets) + 1)
    estimates, variances = [], []
    for counts in all_samples(scores, targets, k, replace):
        better, equal = np.array(counts).T
        one = design(k, [8], low=better, high=better + equal, replace=replace)
        values = one.look_up(_corrections.unbiased(er.MR, one))
        estimates.append((weight * values).sum() / weight.sum())
        variances.append(_variance.of_mean_rank([one], weight, np.zeros(len(targets), int))[0])
    full = [1 + sum(s > t for s in scores) + sum(s == t for s in scores) / 2 for t in targets]
    assert np.mean(estimates) == pytest.approx((weight * full).sum() / weight.sum())
    assert np.mean(variances) / weight.sum() ** 2 == pytest.approx(np.var(estimates))


def test_the_variance_of_shared_draws_is_bounded():
    rng = np.random.default_rng(0)
    weight, draw = rng.random(6) + 0.1, np.array([0, 0, 1, 1, 1, 2])
    noise = rng.normal(0, 1, (50_000, 3))[:, draw] * (sd := rng.random(6) + 0.5)
    worst = (noise * weight).sum(axis=1).std() / weight.sum()
    assert _variance.over_draws(weight, sd**2, draw) >= 0.99 * worst
    alone = np.sqrt((weight**2 * sd**2).sum()) / weight.sum()
    assert _variance.over_draws(weight, sd**2, np.arange(6)) == pytest.approx(alone)


def test_values_missing_from_the_sample_are_allowed_for():
    """If all sampled ranks are 1: the rule of three, not a width of zero."""
    assert _variance.unseen(np.ones(100), np.arange(100), 0.95) == pytest.approx(np.log(40) / 100)
    assert _variance.unseen(np.ones(100), np.arange(100) // 2, 0.95) == pytest.approx(np.log(40) / 50)
    for vary in ("candidates", "targets"):
        made = er.estimate_full(
            er.Ranks(np.zeros(200, int), 0, 31), "mr", "mrr", "hits@1", full=101, vary=vary
        )
        assert made["mr"].value == made["mr"].low == 1
        assert made["mr"].high > 1 + 3.6 * 100 / 30 / 200
        assert max(made["mrr"].low, made["hits@1"].low) < 0.99
        assert made["mrr"].high == made["hits@1"].high == 1
    every = er.estimate_full(er.Ranks(np.zeros(200, int), 0, 101), "hits@1", full=101, vary="targets")
    assert every["hits@1"].low == pytest.approx(1 - np.log(40) / 200)


@pytest.mark.parametrize("ranks", [[1] * 97 + [8] * 3, [1] * 95 + [3] * 5])
def test_coverage_with_few_better_candidates(ranks):
    full, rng = er.Ranks.of(ranks, 100), np.random.default_rng(0)
    truth, held = full.evaluate("mr", "mrr").to_dict(), {"mr": 0, "mrr": 0}
    for i in range(60):
        made = er.estimate_full(drawn(full, 20, rng), "mr", *(["mrr"] if i < 10 else []))
        for name in made.evaluation:
            held[str(name)] += made[name].low <= truth[str(name)] <= made[name].high
    assert held["mr"] >= 54
    assert held["mrr"] >= 9


@pytest.mark.parametrize(("share", "name"), [(1, "mr"), (4, "mr"), (1, "mean(2)")])
def test_coverage_if_few_targets_determine_the_variance(share, name):
    """One target in ten has rank 8, the others 1: misses were 8 to 40 % with Student's t of all."""
    rank, rng, held = np.tile([1] * 9 + [8], 4), np.random.default_rng(0), 0
    truth = er.Ranks.of(rank, 40).evaluate(name)[name]
    draw = np.arange(len(rank)) // share
    for _ in range(100):
        each = np.array([rng.choice(39, 5, replace=False) + 1 for _ in range(draw[-1] + 1)])
        better = (each[draw] < rank[:, None]).sum(axis=1)
        made = er.estimate_full(er.Ranks(better, 0, 6, keys={"draw": draw}), name, full=40)[name]
        held += made.low <= truth <= made.high
    assert held >= 93


def test_units_that_share_a_draw_are_dependent():
    """The variance over many targets of one query hardly depends on the draw they share."""
    rng, held = np.random.default_rng(0), 0
    rank = rng.integers(40, 50, 60)
    draw = np.arange(60) // 30
    for _ in range(60):
        each = np.array([rng.choice(99, 5, replace=False) + 1 for _ in range(2)])
        better = (each[draw] < rank[:, None]).sum(axis=1)
        ranks = er.Ranks(better, 0, 6, keys={"draw": draw})
        made = er.estimate_full(ranks, "mr", full=100, vary="targets")["mr"]
        held += made.low <= rank.mean() <= made.high
    assert held >= 55
    alone = er.Ranks(ranks.better, 0, 6)  # a draw each: as `intervals` of these estimates
    error = er.estimate_full(alone, "mr", full=100, vary="targets")["mr"].standard_error
    assert error == pytest.approx(np.std(1 + better * 99 / 5, ddof=1) / np.sqrt(60))


def test_bounds_exclude_impossible_ranks():
    """With x better candidates among k drawn, the rank is between 1 + x and N - k + x."""
    made = er.estimate_full(er.Ranks([1, 3], [0, 1], 6), "mr", "hits@1", "mrr", full=20)
    assert made["mr"].low >= (2 + 4.5) / 2
    assert made["mr"].high <= (16 + 18.5) / 2
    assert made["hits@1"][1:4] == (0, 0, 0)
    assert made["mrr"].high <= (1 / 2 + (1 / 4 + 1 / 5) / 2) / 2 + 1e-12
    assert made["mrr"].low >= (1 / 16 + (1 / 18 + 1 / 19) / 2) / 2 - 1e-12


def test_a_step_of_the_mean_rank_is_one_better_candidate():
    designs = [design(5, [101], low=np.zeros(4, int))]
    apart, together = np.arange(4), np.array([0, 0, 1, 1])
    assert _variance.step_of_mean_rank(designs, np.ones(4) / 4, apart) == pytest.approx(100 / 5 / 4)
    assert _variance.step_of_mean_rank(designs, np.ones(4) / 4, together) == pytest.approx(100 / 5 / 2)
    assert _variance.step_of_mean_rank([design(5, [6])], np.ones(1), np.zeros(1, int)) == 0.0


def test_a_single_candidate_has_no_variance():
    assert _variance.of_mean_rank([design(1, [9])], np.ones(1), np.zeros(1, int)) is None
    assert _variance.of_mean_rank([design(1, [2])], np.ones(1), np.zeros(1, int)) == (0.0, 0.0)
    made = er.estimate_full(er.Ranks([0, 1, 0, 1], 0, 2), "mr", full=9)["mr"]
    assert (made.value, made.kind) == (5.0, "interval")
    assert made.low < 5 < made.high


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("share", [1, 3])
def test_intervals_near_the_last_rank_mirror_those_near_the_first(share, replace):
    """The number of worse candidates near the last rank is distributed as that of better ones near 1."""
    rng, k, size = np.random.default_rng(0), 20, 300
    draw = np.arange(60) // share
    for rank in (rng.integers(1, 6, 60), rng.integers(1, size + 1, 60), np.tile([1, 9, 290], 20)):
        each = rng.integers(1, size, (draw[-1] + 1, k))
        better = (each[draw] < rank[:, None]).sum(axis=1)
        one, other = (
            er.estimate_full(
                er.Ranks(counts, 0, k + 1, keys={"draw": draw}), "mr", full=size, replace=replace
            )["mr"]
            for counts in (better, k - better)
        )
        assert other.value == pytest.approx(size + 1 - one.value)
        assert (other.low, other.high) == pytest.approx((size + 1 - one.high, size + 1 - one.low))
        assert other.standard_error == pytest.approx(one.standard_error)


@pytest.mark.parametrize("worst", [0.0, 0.1, 0.5, 1.0])
def test_coverage_if_targets_rank_nearly_last(worst):
    """Without the correction at the last rank, 82 to 88 % of these intervals contained the mean rank."""
    rng, k, size = np.random.default_rng(1), 20, 1000
    near = rng.integers(0, 5, 50)
    rank = np.where(np.arange(50) < 50 * worst, size - near, 1 + near)
    held = 0
    for _ in range(200):
        better = rng.hypergeometric(rank - 1, size - rank, k)
        made = er.estimate_full(er.Ranks(better, 0, k + 1), "mr", full=size)["mr"]
        held += made.low <= rank.mean() <= made.high
    assert held >= 186


# With replacement ---------------------------------------------------------------------------------


def test_counts_with_replacement_are_binomial():
    for k, size in ((3, 9), (40, 9), (1000, 2_500_604)):
        ranks = np.unique(np.geomspace(1, size, 9).astype(int))
        want = binom.pmf(np.arange(k + 1), k, (ranks[:, None] - 1) / (size - 1))
        found = _design.count_distribution(k, size, ranks, True)
        assert found == pytest.approx(want, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_powers_of_the_rank_have_an_unbiased_estimate_with_replacement(power):
    one = design(12, [9, 40], replace=True)
    table = _corrections.unbiased(parse(f"mean({power})"), one)
    for row, size in zip(table, one.sizes, strict=True):
        ranks = np.arange(1, size + 1)
        p = _design.count_distribution(12, size, ranks, True)
        assert p @ row == pytest.approx(ranks.astype(float) ** power)


@pytest.mark.parametrize("share", [1, 4])
def test_coverage_with_replacement(share):
    """150 of 60 others: without replacement this is not possible, and 60 of 60 would be exact."""
    rng, size, k = np.random.default_rng(2), 61, 150
    rank = np.minimum(np.floor(1 / (1 - rng.random(80)) ** 1.2), size).astype(int)
    draw, held = np.arange(80) // share, {"mr": 0, "mrr": 0, "hits@3": 0}
    truth = er.Ranks.of(rank, size).evaluate(*held).to_dict()
    for i in range(200):
        each = rng.integers(1, size, (draw[-1] + 1, k))
        ranks = er.Ranks((each[draw] < rank[:, None]).sum(axis=1), 0, k + 1, keys={"draw": draw})
        names = held if i < 20 else ["mr"]
        made = er.estimate_full(ranks, *names, full=size, replace=True)
        for name in names:
            held[name] += made[name].low <= truth[name] <= made[name].high
    assert held["mr"] >= 184
    assert held["mrr"] == held["hits@3"] == 20
    assert made["mr"].kind == "interval"


def test_a_sample_with_replacement_excludes_few_ranks():
    made = er.estimate_full(er.Ranks([0, 30], 0, 31), "mr", "hits@1", full=20, replace=True)
    assert made["mr"].low >= 1.5
    assert made["mr"].high <= 19.5
    assert made["hits@1"].high == 0.5


def test_replacement_is_recorded_and_read_from_the_protocol(tmp_path):
    protocol = {"candidates": "30 sampled per query with replacement, seed 3"}
    ranks = er.Ranks([0, 12, 30], 0, 31, protocol=protocol)
    kind = ranks.protocol.candidates
    assert (kind.k, kind.seed, kind.replace) == (30, 3, True)
    ranks.save(tmp_path / "ranks.csv")
    again = er.Ranks.load(tmp_path / "ranks.csv")
    assert again.protocol.candidates == kind
    made = er.estimate_full(again, "mr", full=20)
    assert made.replace
    assert "30 of 19 other candidates drawn with replacement; low to high" in str(made)
    assert (
        made["mr"] == er.estimate_full(er.Ranks([0, 12, 30], 0, 31), "mr", full=20, replace=True)["mr"]
    )
    with raises(
        "the protocol of the ranks says otherwise",
        "got candidates: 30 sampled",
        "leave out replace=False",
    ):
        er.estimate_full(ranks, full=20, replace=False)
    er.Ranks([0, 12, 30], 0, 31).save(tmp_path / "plain.csv")
    text = run("estimate", tmp_path / "plain.csv", "--full", 20, "-m", "mr", "--replace")
    assert "drawn with replacement" in text
    assert (
        "got 30 drawn of 19 others (full=20) in row 0; if they were drawn with replacement, use"
        in run("estimate", tmp_path / "plain.csv", "--full", 20, "-m", "mr", code=2)
    )


def test_samples_that_need_replacement_are_detected():
    one, other = (er.Ranks([x, 3], 0, 11) for x in (0, 10))
    assert er.estimate_full([one, other], "mr", full=21)["mr"].value > 1
    with raises(
        "cannot have been drawn without replacement",
        "10 better candidates in one sample and 10 worse ones in another, of 15 others .row 0.",
        "replace=True",
    ):
        er.estimate_full([one, other], "mr", full=16)
    assert er.estimate_full([one, other], "mr", full=16, replace=True)["mr"].value > 1
    with raises("replace must be True, False or None; got 'yes'"):
        er.estimate_full(one, "mr", full=16, replace="yes")
    with raises("a target without other candidates has a sample of them"):
        er.estimate_full(one, "mr", full=1, replace=True)
    kept = er.Ranks([0, 1], 0, 11, protocol={"candidates": "10 sampled per query, seed 1"})
    again = er.Ranks(
        [0, 1], 0, 11, protocol={"candidates": "10 sampled per query with replacement, seed 2"}
    )
    with raises("samples to be pooled differ: some were drawn with replacement"):
        er.estimate_full([kept, again], full=50)


# Estimates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(RANKS.glob("[nkw]*[xe].parquet")), ids=lambda path: path.stem)
def test_bounds_contain_the_full_ranking_of_trained_models(path):
    full = er.Ranks.load(path)
    names = ("mrr", "hits@10", "index(mrr)")
    k = {"nations": 5, "kinships": 20}.get(path.stem.split("-")[0], 100)
    made, truth = (
        er.estimate_full(drawn(full, k, np.random.default_rng(7)), *names),
        full.evaluate(*names),
    )
    for name in names:
        assert made[name].kind == "bounds"
        assert made[name].low <= truth[name] <= made[name].high
    assert made["mrr"].sampled > truth["mrr"]  # the uncorrected metric


@pytest.mark.parametrize("vary", ["candidates", "targets"])
def test_intervals_of_mean_ranks_have_their_coverage(vary):
    full = er.Ranks.load(RANKS / "kinships-rotate.parquet")
    rng, held = np.random.default_rng(0), 0
    for _ in range(120):
        of = full if vary == "candidates" else full[rng.integers(0, len(full), len(full))]
        made = er.estimate_full(drawn(of, 20, rng), "mr", vary=vary, unit="target")["mr"]
        held += made.low <= full.evaluate("mr")["mr"] <= made.high
    assert 107 <= held <= 120


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_bounds_hold_for_any_distribution(seed):
    """At 99.9 %, so that the test does not fail by chance; few distinct ranks are the worst case."""
    rng = np.random.default_rng(seed)
    rank = rng.choice(rng.integers(1, 80, rng.integers(1, 4)), 200)
    full = er.Ranks.of(rank, 80)
    made = er.estimate_full(drawn(full, 12, rng), "mrr", "hits@3", "gmr", "mr", level=0.999)
    truth = full.evaluate("mrr", "hits@3", "gmr", "mr")
    for name in truth:
        assert made[name].low - 1e-9 <= truth[name] <= made[name].high + 1e-9


def test_a_sample_of_all_candidates_is_exact():
    graph = er.load("kinships")
    model = er.models.load(MODEL)
    names = ("mrr", "hits@10", "mr", "gmr", "mean(2)", "z(mrr)")
    made = er.estimate_full(er.rank(model, graph.task("test", candidates=200), progress=False), *names)
    truth = er.rank(model, graph.task("test"), progress=False).evaluate(*names, chance="independent")
    for name in names:
        found = made[name]
        assert found.kind == "interval"
        assert [found.sampled, found.value, found.low, found.high] == pytest.approx([truth[name]] * 4)
        assert found.standard_error == pytest.approx(0, abs=1e-9)


def test_the_engine_samples_as_assumed():
    """Targets of a query share a draw, and the interval of the mean rank allows for it."""
    graph, model = er.load("kinships"), er.models.load(MODEL)
    truth = er.rank(model, graph.task("test"), progress=False).evaluate("mr", "mrr")
    held, values = 0, []
    for seed in range(20):
        ranks = er.rank(model, graph.task("test", candidates=20, seed=seed), progress=False)
        found = er.estimate_full(ranks, "mr")["mr"]
        held += found.low <= truth["mr"] <= found.high
        values.append(found.value)
    assert held >= 16
    assert np.std(values, ddof=1) == pytest.approx(found.standard_error, rel=0.45)
    assert np.mean(values) == pytest.approx(truth["mr"], abs=4 * found.standard_error / np.sqrt(20))


def test_sampled_tasks_have_full_sizes_and_draws_as_keys():
    graph = er.load("nations")
    full, task = graph.task("test"), graph.task("test", candidates=5, seed=3)
    assert task.keys[FULL].tolist() == full.candidates.tolist()
    ranks = er.Ranks(np.zeros(len(task), int), 0, task.candidates, keys=task.keys)
    assert (np.unique(task.keys[DRAW]).size, len(ranks.by("side"))) == (
        sum(len(part.queries) for part in full.parts),
        2,
    )
    together = ranks.units("query")
    pairs = set(zip(together.tolist(), task.keys[DRAW].tolist(), strict=True))
    assert len(pairs) == together.max() + 1  # one draw per query, one query per draw


def test_other_targets_as_candidates_are_not_a_simple_random_sample():
    raw = sample(Task.of([[0], [0], [1]], targets=[3, 4, 1], size=50), 5)
    assert FULL not in raw.keys
    assert str(raw.protocol.candidates) == "5 sampled per query, seed 0, and its other targets"
    alone = sample(Task.of([[0], [1]], targets=[3, 1], size=50), 5)
    assert alone.keys[FULL].tolist() == [50, 50]


def test_adjusted_metrics_use_the_full_numbers_of_candidates():
    full = er.Ranks.load(RANKS / "nations-rotate.parquet")
    made = er.estimate_full(drawn(full, 5, np.random.default_rng(0)), "mr", "index(mr)", "mrr", "z(mrr)")
    for plain, adjusted in (("mr", "index(mr)"), ("mrr", "z(mrr)")):
        line = parse(adjusted).map(er.chance(plain, full.candidates))
        ends = sorted(line(made[plain][at]) for at in (2, 3))
        assert list(made[adjusted][2:4]) == pytest.approx(ends)
        assert made[adjusted].value == pytest.approx(line(made[plain].value))


def test_geometric_and_inverse_means():
    """A geometric mean is computed from the mean logarithm, an inverse mean rank from the mean rank."""
    full = er.Ranks.load(RANKS / "nations-rotate.parquet")
    ranks = drawn(full, 8, np.random.default_rng(0))
    logarithm = er.define("log_rank", lambda r: np.log(r))
    made = er.estimate_full(ranks, "gmr", "igmr", "mr", "imr", logarithm)
    assert made["gmr"].low == pytest.approx(exp(made[logarithm].low))
    assert made["igmr"].high == pytest.approx(1 / made["gmr"].low)
    assert (made["imr"].low, made["imr"].kind) == (pytest.approx(1 / made["mr"].high), "interval")


def test_weights_and_macro_averages():
    full = er.Ranks.load(RANKS / "nations-rotate.parquet")
    ranks = drawn(full, 5, np.random.default_rng(0))
    found = er.estimate_full(ranks, "mr", average="relation")["mr"].value
    each = 1 + ranks.better * (full.candidates - 1) / (ranks.candidates - 1)
    weight = ranks.weights_by("relation")
    assert found == pytest.approx((weight * each).sum() / weight.sum())
    first = (np.arange(len(ranks)) < 50) * 2.0
    part = er.Ranks(ranks.better, 0, ranks.candidates, weights=first, keys=ranks.keys)
    assert er.estimate_full(part, "mr")["mr"] == er.estimate_full(ranks[:50], "mr")["mr"]


def test_ties():
    ranks = er.Ranks([0, 1, 2], [2, 0, 1], 11)
    for rule, value in (("optimistic", 11.0), ("pessimistic", 21.0), ("expected", 16.0)):
        assert er.estimate_full(ranks, "mr", full=101, ties=rule)["mr"].value == value
    with raises("the mean rank of a tie cannot be estimated", "realistic"):
        er.estimate_full(ranks, "mr", full=101, ties="realistic")


def test_samples_are_pooled():
    full = er.Ranks.load(RANKS / "kinships-rotate.parquet")
    rng = np.random.default_rng(0)
    one, two = drawn(full, 10, rng), drawn(full, 10, rng)
    apart = [er.estimate_full(r, "mr", "mrr")["mr"] for r in (one, two)]
    both = er.estimate_full([one, two], "mr", "mrr")
    assert both["mr"].value == pytest.approx((apart[0].value + apart[1].value) / 2)
    half = np.hypot(apart[0].standard_error, apart[1].standard_error) / 2
    assert both["mr"].standard_error == pytest.approx(half)
    assert "10 of 73 to 103 other candidates drawn, 2 times" in str(both)
    targets = [er.estimate_full(r, "mr", vary="targets")["mr"].standard_error for r in (one, [one, one])]
    assert targets[0] == pytest.approx(
        targets[1]
    )  # a repeated sample has no information on other targets
    alone = [
        er.estimate_full(r, "mr", vary="targets", unit="target")["mr"].standard_error
        for r in (one, [one, one])
    ]
    assert alone[0] == pytest.approx(alone[1])
    # the chance level counts every target once, however often it is sampled
    line = parse("z(mr)").map(er.chance("mr", full.candidates))
    made = er.estimate_full([one, two], "z(mr)")
    assert made["z(mr)"].value == pytest.approx(line(both["mr"].value))
    each = [r.evaluate("z(mr)", chance="independent")["z(mr)"] for r in (one, two)]
    assert made["z(mr)"].sampled == pytest.approx(np.mean(each))
    assert f"{len(full):,} targets" in str(made)


@pytest.mark.parametrize("estimator", ["em", "bv", "cls"])
def test_estimators_are_closer_than_the_sampled_metric(estimator):
    full = er.Ranks.load(RANKS / "wn18rr-transe.parquet")
    ranks = drawn(full, 200, np.random.default_rng(0))
    made, truth = er.estimate_full(ranks, "mrr", estimator=estimator)["mrr"], full.evaluate("mrr")["mrr"]
    assert abs(made.value - truth) < abs(made.sampled - truth) / 2


def test_an_estimate_outside_its_bounds_has_a_note():
    ranks = er.Ranks(np.zeros(500, int), 0, 51)
    made = er.estimate_full(ranks, "mrr", full=100, estimator="bv", gamma=1.0)
    assert "mrr: the estimate is outside its bounds, so that its assumption does not hold" in made.text()


def test_results_are_written_in_every_format():
    made = er.estimate_full(er.Ranks([0, 1, 0, 4, 9, 0], 0, 11), "mrr", "mr", full=101)
    text = str(made)
    assert "10 of 100 other candidates drawn" in text
    assert "; low to high is for the full ranking of these targets" in text
    assert "interval: 95 % confidence interval; the estimate is unbiased" in text
    assert "bounds: at least 95 % confidence for every distribution of ranks;" in text
    assert "the estimate between them assumes a smooth distribution of ranks" in text
    content = json.loads(made.to_json())
    assert [row["kind"] for row in content["rows"]] == ["bounds", "interval"]
    assert (content["full"], content["drawn"], content["samples"]) == ([101, 101], [10, 10], 1)
    assert content["protocol"]["varied"] == "candidates"
    assert content["rows"][0]["standard_error"] is None
    assert made.to_csv().splitlines()[0] == "metric,sampled,value,low,high,kind,standard_error"
    assert "\\toprule" in made.to_latex()
    wide = er.estimate_full(er.Ranks([0, 1, 0, 4], 0, 11), "mr", full=101, vary="targets")
    assert "low to high is for the full ranking of other targets like these" in str(wide)
    assert list(er.estimate_full(er.Ranks([0, 1], 0, 11), full=101).evaluation.expressions) == [
        parse(name) for name in _estimate.DEFAULT
    ]


def test_invalid_input():
    ranks = er.Ranks([0, 1, 2], 0, 11, protocol={"model": "a", "candidates": "10 sampled"})
    with raises("the full number of candidates is unknown", "full=14541"):
        er.estimate_full(ranks)
    with raises(
        "more candidates were drawn than there are", "got 10 drawn of 4 others .full=5. in row 0"
    ):
        er.estimate_full(ranks, full=5)
    with raises("columns differ in length"):
        er.estimate_full(ranks, full=[50, 60])
    with raises("a target has no other candidates: candidates", "got 1 in row 0"):
        er.estimate_full(er.Ranks([0], 0, 1), full=5)
    for wrong, got in ((None, "NoneType"), ("a", "str"), ([[1]], "list"), ({"a": ranks}, "dict")):
        with raises(f"every sample must be ranks; got {got}"):
            er.estimate_full(wrong, full=50)
    with raises("gamma must be above 0", "got 'small'"):
        er.estimate_full(ranks, full=50, gamma="small")
    with raises("no ranks to estimate from"):
        er.estimate_full([])
    with raises("unknown estimator", "'mle'", "em, bv, cls"):
        er.estimate_full(ranks, full=50, estimator="mle")
    with raises("unknown vary", "'models'", "candidates, targets"):
        er.estimate_full(ranks, full=50, vary="models")
    with raises("gamma must be above 0", "got 0"):
        er.estimate_full(ranks, full=50, gamma=0)
    with raises("the confidence level must be between 0 and 1"):
        er.estimate_full(ranks, full=50, level=95)
    with raises("median is not a mean over targets"):
        er.estimate_full(ranks, "median", full=50)
    with raises("infinite for some ranks"):
        er.estimate_full(ranks, "mean(-1, hits@3)", full=50)
    with raises("a single target has no variance", "candidates"):
        er.estimate_full(ranks[:1], "mr", full=50, vary="targets")
    with raises("must rank the same targets in the same order", "3 and 2 targets"):
        er.estimate_full([ranks, ranks[:2]], full=50)
    with raises("must rank the same targets in the same order"):
        er.estimate_full(
            [er.Ranks([0, 1, 2], 0, 11, weights=[1, 2, 3]), er.Ranks([0, 1, 2], 0, 11)], full=50
        )
    seeded = er.Ranks([0, 1], 0, 11, protocol={"candidates": "10 sampled per query, seed 3"})
    with raises("samples to be pooled must have different seeds", "got seed 3, 3", "another seed="):
        er.estimate_full([seeded, seeded], full=50)
    with raises("these ranks are among all candidates", "nothing to estimate", "evaluate them"):
        er.estimate_full(er.Ranks([0, 1], 0, 11, protocol={"candidates": "all"}))
    beside = sample(Task.of([[0], [0]], targets=[3, 4], size=50), 5)
    with raises("not a simple random sample", "and its other targets", "filter='all'"):
        er.estimate_full(er.Ranks([0, 1], 0, 7, protocol=beside.protocol), full=50)
    split = er.Ranks([0, 1], 0, 11, keys={"side": ["head", "tail"]})
    with raises("samples to be pooled are grouped by different keys", "got no key and side"):
        er.estimate_full([split, split.by("side")], full=50)
    with raises("full must be a column of whole numbers"):
        er.estimate_full(er.Ranks([0, 1], 0, 11, keys={FULL: ["many", "50"]}))
    other = er.Ranks([0, 1, 2], 0, 11, protocol={"model": "b"})
    with raises("samples to be pooled differ in model", "a and b"):
        er.estimate_full([ranks, other], full=50)


def test_groups_are_estimated_separately():
    full, rng = er.Ranks.load(RANKS / "kinships-rotate.parquet"), np.random.default_rng(0)
    several = [drawn(full, 10, rng) for _ in range(2)]
    several = [one[::14] for one in several]
    sizes = several[0].keys[FULL]
    several = [one.with_only_keys({k: c for k, c in one.keys.items() if k != FULL}) for one in several]
    made = er.estimate_full([one.by("side") for one in several], "mrr", "mr", "z(mr)", full=sizes)
    assert made.evaluation.labels == (("head",), ("tail",))
    for label, row in zip(("head", "tail"), made.cells, strict=True):
        mine = several[0].keys["side"] == label
        alone = er.estimate_full([one[mine] for one in several], "mrr", "mr", "z(mr)", full=sizes[mine])
        assert str(row) == str(alone.cells[0])  # to the last digit, and NaN where there is NaN
    assert [row["side"] for row in made.rows()] == ["head"] * 3 + ["tail"] * 3
    assert [found.kind for found in made["mr"]] == ["interval", "interval"]
    assert made.to_csv().startswith("side,metric,sampled,value,low,high,kind,standard_error\nhead,mrr,")
    assert made.text().startswith("side  metric   sampled")
    assert f"{len(sizes):,} targets" in made.text()


def test_a_single_group_equals_ungrouped_ranks():
    ranks = er.Ranks([0, 1, 0, 4, 9, 0], 0, 11, keys={"side": "tail"})
    made, alone = (er.estimate_full(one, "mrr", "mr", full=101) for one in (ranks.by("side"), ranks))
    assert str(made.cells) == str(alone.cells)
    assert made["mr"] == [alone["mr"]]


def test_a_group_without_an_estimate_has_a_note():
    keys = {"relation": ["a", "a", "a", "b", "c"], "size": [9] * 4 + [50]}
    ranks = er.Ranks([0, 1, 2, 1, 3], 0, 6, weights=[1, 1, 1, 1, 0], keys=keys)
    groups = ranks.by("relation")
    made = er.estimate_full(groups, "mr", "index(hits@10)", full=keys["size"], vary="targets")
    assert [found.kind for found in made["mr"]] == ["interval", "unknown"]
    assert np.isnan(made["mr"][1][1:4]).all()
    assert "– a single target has no variance (in 1 of 2 groups)" in made.notes
    assert "1 group of weight zero left out: c" in made.text().splitlines()
    assert json.loads(made.to_json())["rows"][2]["value"] is None
    made = er.estimate_full(groups, "mr", "index(hits@10)", full=keys["size"])
    assert [found.kind for found in made["index(hits@10)"]] == ["unknown"] * 2
    assert any(note.endswith("the best possible (in 2 of 2 groups)") for note in made.notes)
    with raises("median is not a mean over targets"):
        er.estimate_full(groups, "median", full=50)
    named = er.Ranks([0, 1], 0, 11, keys={"metric": ["a", "b"]}).by("metric")
    with raises("two columns would have the same name", "'metric'"):
        er.estimate_full(named, "mr", full=50).rows()


def test_metrics_undefined_in_the_sample_may_be_defined_in_full():
    made = er.estimate_full(er.Ranks([0, 1, 0, 1], 0, 3), "index(hits@10)", full=50)
    assert np.isnan(made["index(hits@10)"].sampled)
    assert made["index(hits@10)"].high > 0
    assert (
        "undefined: every ranking has the value 1, the best possible, among sampled candidates"
        in str(made)
    )


def test_sampled_values_have_a_note(tmp_path):
    graph, model = er.load("kinships"), er.models.load(MODEL)
    paths = [tmp_path / f"{seed}.parquet" for seed in range(2)]
    for seed, path in enumerate(paths):
        er.rank(model, graph.task("test", candidates=9, seed=seed), progress=False).save(path)
    note = SAMPLED
    assert "sampled candidates" in note
    assert "evenrank estimate" in note
    ranks = er.Ranks.load(paths[0])
    for made in (ranks.evaluate(), ranks.by("side").evaluate(), er.intervals(ranks, "mrr")):
        assert note in str(made)
    assert note in json.loads(ranks.evaluate("mrr").to_json())["notes"]
    assert note in run("evaluate", *paths)  # other seeds, too
    assert note not in str(er.estimate_full(ranks, "mr"))
    assert note not in str(er.rank(model, graph.task("test"), progress=False).evaluate())


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv"])
def test_files_can_be_estimated_from(kind, tmp_path):
    graph, model = er.load("kinships"), er.models.load(MODEL)
    ranks = er.rank(model, graph.task("test", candidates=9), progress=False)
    ranks.save(tmp_path / f"ranks.{kind}")
    again = er.Ranks.load(tmp_path / f"ranks.{kind}")
    assert str(er.estimate_full(again, "mr", "z(mr)")) == str(er.estimate_full(ranks, "mr", "z(mr)"))


def test_in_the_shell(tmp_path):
    rng, full = np.random.default_rng(0), er.Ranks.load(RANKS / "nations-rotate.parquet")
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path in paths:
        drawn(full, 5, rng).save(path)
    text = run("estimate", *paths, "-m", "mrr", "-m", "mr", "--vary", "targets")
    assert text == f"{er.estimate_full([*map(er.Ranks.load, paths)], 'mrr', 'mr', vary='targets')}\n"
    split = er.estimate_full([er.Ranks.load(path).by("relation", "side") for path in paths], "mr")
    assert run("estimate", *paths, "-m", "mr", "--by", "relation,side") == f"{split}\n"
    er.Ranks([0, 1], 0, 5).save(tmp_path / "plain.csv")
    assert "the full number of candidates is unknown; pass it, e.g. --full 14541" in run(
        "estimate", tmp_path / "plain.csv", code=2
    )
