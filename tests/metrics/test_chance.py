"""Null distributions: formula == quadrature == enumeration == sample == arbitrary precision."""

import math
import pickle
from fractions import Fraction
from itertools import pairwise
from math import inf

import mpmath
import numpy as np
import oracle
import pytest
import strategies as own
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import evenrank as er
from evenrank._internal.quadrature import Rule
from evenrank.metrics.chance import _power
from evenrank.metrics.chance._count import log_count
from evenrank.metrics.chance._sum import RankSum, cumulants_from_moments, log1pmx
from evenrank.metrics.metric import GAIN, RANK, Statistic, Transform, hit

CASES = [
    # sizes and weights; the product of sizes is at most 10^5
    ([50], [1.0]),
    ([5, 7, 3], [1.0, 1.0, 1.0]),
    ([2, 9, 4, 3], [1.0, 2.0, 0.5, 3.0]),
    ([30, 40], [1.0, 1.0]),
    ([3] * 6, [1.0] * 6),
    ([1, 1, 6], [1.0, 1.0, 1.0]),
    ([4, 4, 5, 1], [0.001, 1.0, 1.0, 1.0]),
    ([2000, 3, 16], [1.0, 5.0, 1.0]),
    ([300, 200], [1.0, 1.0]),
    ([7, 7, 7, 7, 5, 5], [1.0] * 6),
    ([100_000], [1.0]),
]


def relative(got: float, want: float) -> float:
    return abs(got / want - 1) if want else abs(got)


@pytest.mark.parametrize(("sizes", "weights"), CASES)
@pytest.mark.parametrize("p", own.POWERS)
@pytest.mark.parametrize("q", [1, -1])
@pytest.mark.parametrize("f", [RANK, GAIN, hit(1), hit(3), hit(10)], ids=lambda f: f.name)
def test_every_power_mean_agrees_with_enumeration(f, p, q, sizes, weights):
    metric = er.Metric(f, p, q)
    if math.prod(sizes) > 100_000:
        pytest.fail("a case is larger than what enumeration is meant for")
    exact = er.chance(metric, sizes, weights=weights)
    every = er.chance(metric, sizes, weights=weights, method="enumerate")
    try:
        mean, variance = every.mean(), every.var()
    except er.errors.NullDistributionError:
        with pytest.raises(er.errors.NullDistributionError, match="infinite"):
            exact.mean()
        return
    assert relative(exact.mean(), mean) <= 1e-12
    # a variance far below the mean's last digit is beyond what enumeration in floats can tell
    assert abs(exact.var() - variance) <= 1e-12 * variance + 1e-29 * mean**2
    assert mean.method == "enumerate"


@pytest.mark.parametrize(("sizes", "weights"), [c for c in CASES if len(set(c[1])) == 1])
@pytest.mark.parametrize("at", [0, 0.1, 0.5, 0.75, 1])
@pytest.mark.parametrize("q", [1, -1])
def test_every_quantile_agrees_with_enumeration(at, q, sizes, weights):
    metric = Statistic("quantile", at, q)
    exact, every = er.chance(metric, sizes), er.chance(metric, sizes, method="enumerate")
    assert relative(exact.mean(), every.mean()) <= 1e-12
    assert abs(exact.var() - every.var()) <= 1e-12 * every.var() + 1e-29


def test_metrics_without_formula_are_enumerated_if_small():
    for name, weights in (("std", None), ("mad", None), ("median", [1, 2, 4])):
        null = er.chance(name, [5, 6, 9], weights=weights)
        assert null.mean() == er.chance(name, [5, 6, 9], weights=weights, method="enumerate").mean()
        assert null.var().method == "enumerate"


def test_the_median_of_an_even_count_is_the_mean_of_two():
    """Not the upper of the two, as elsewhere: two tasks of two candidates give 1, 1.5, 1.5, 2."""
    null = er.chance("median", [2, 2])
    assert null.mean() == pytest.approx(1.5, rel=1e-14)
    assert null.var() == pytest.approx(0.125, rel=1e-13)


def _exact_median(size: int, n: int) -> tuple[Fraction, Fraction]:
    """Mean and variance of the median of an even number of ranks, in rational arithmetic."""
    m, total = n // 2, size**n

    def above(x: int, k: int) -> int:  # outcomes with fewer than k ranks up to x
        return sum(math.comb(n, i) * x**i * (size - x) ** (n - i) for i in range(k))

    lower, upper = ([above(x, k) for x in range(size)] for k in (m, m + 1))
    first = Fraction(sum(lower) + sum(upper), 2 * total)
    squares = sum((2 * x + 1) * (a + b) for x, (a, b) in enumerate(zip(lower, upper, strict=True)))
    rest = [0] * (size + 1)  # sum over y >= x of (size - y)^(n-m)
    for y in range(size - 1, -1, -1):
        rest[y] = rest[y + 1] + (size - y) ** (n - m)
    pairs = math.comb(n, m) * sum(x**m * rest[x + 1] for x in range(size))
    gap = sum(upper) - sum(lower) + 2 * pairs  # E (B - A)^2
    return first, Fraction(2 * squares - gap, 4 * total) - first**2


@pytest.mark.parametrize(("size", "n"), [(500, 2), (700, 8), (2000, 20), (1000, 200), (64, 1000)])
def test_medians_of_even_counts_agree_with_rational_arithmetic(size, n):
    mean, variance = _exact_median(size, n)
    null = er.chance("median", {size: n})
    assert null.mean() == pytest.approx(float(mean), rel=1e-13)
    assert null.var() == pytest.approx(float(variance), rel=1e-11)


@pytest.mark.parametrize(
    ("at", "size", "n"), [(0.9, 2746, 1276), (0.99, 40_943, 6268), (0.5, 9000, 402), (0.5, 3000, 878)]
)
def test_quantiles_between_two_ranks_agree_with_binomials(at, size, n):
    """For equal sizes, P(A <= x, B > y) is one term of a binomial; every pair x < y is added up."""
    below, g = divmod(at * (n - 1), 1)
    m, x = int(below) + 1, np.arange(size)
    a, b = (stats.binom.cdf(k, n, x / size) for k in (m - 1, m))  # P(A > x), P(B > x)
    last = np.cumsum((1 - x[::-1] / size) ** (n - m))[::-1] - (1 - x / size) ** (n - m)
    pairs = math.comb(n, m) * ((x / size) ** m * last).sum()
    gap = (b - a).sum() + 2 * pairs  # E (B - A)^2
    middle = at * size
    mean = ((1 - g) * a + g * b).sum() - middle
    square = ((2 * (x - middle) + 1) * ((1 - g) * a + g * b)).sum() + middle**2
    null = er.chance(f"quantile({at})", {size: n})
    assert null.mean() == pytest.approx(mean + middle, rel=1e-13)
    assert null.var() == pytest.approx(square - g * (1 - g) * gap - mean**2, rel=1e-9)


@pytest.mark.parametrize(("size", "n"), [(10**8, 41), (10**8, 5), (10**7, 21)])
def test_inverse_medians_keep_their_digits_among_many_candidates(size, n):
    """The continuous limit: n N/(m-1) ... of a beta distribution, right to about m/N here."""
    m = (n + 1) // 2
    null = er.chance("1/median", {size: n})
    mean = n / (m - 1) / size
    variance = (n * (n - 1) / ((m - 1) * (m - 2)) - (n / (m - 1)) ** 2) / size**2
    assert null.mean() == pytest.approx(mean, rel=1e-5)
    assert null.var() == pytest.approx(variance, rel=1e-3)


def test_a_median_over_many_sizes_agrees_with_sampling():
    sizes = 14_541 - np.minimum((np.random.default_rng(1).pareto(0.6, 100) * 3).astype(int), 14_000)
    for name in ("median", "1/median", "quantile(0.3)"):
        null, sample = er.chance(name, sizes), er.chance(name, sizes, method="sample", samples=20_000)
        assert abs(null.mean() - sample.mean()) <= 5 * sample.mean().error
        assert abs(null.var() - sample.var()) <= 5 * sample.var().error


@pytest.mark.parametrize("p", [2, 20, 50, 300])
def test_powers_of_a_share_of_hits(p):
    null = er.chance(f"mean({p}, hits@10)", {10**6: 5})
    rate = 1e-5
    share = [math.comb(5, c) * rate**c * (1 - rate) ** (5 - c) for c in range(6)]
    mean = sum(s * (c / 5) ** (1 / p) for c, s in enumerate(share))
    assert null.mean() == pytest.approx(mean, rel=1e-12)
    assert null.var() == pytest.approx(
        sum(s * ((c / 5) ** (1 / p) - mean) ** 2 for c, s in enumerate(share))
    )


@settings(max_examples=60)
@given(own.sizes, own.metrics)
def test_random_metrics_on_random_sizes(sizes, metric):
    assume(math.prod(sizes) <= 3000)
    try:
        want = er.chance(metric, sizes, method="enumerate")
        mean, variance = want.mean(), want.var()
    except er.errors.NullDistributionError:
        with pytest.raises(er.errors.NullDistributionError):
            er.chance(metric, sizes).mean()
        return
    null = er.chance(metric, sizes)
    assert relative(null.mean(), mean) <= 1e-11
    assert abs(null.var() - variance) <= 1e-10 * variance + 1e-28 * mean**2


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=20),
    st.sampled_from(["mr", "mrr", "hits@1", "hits@300"]),
)
def test_closed_forms_agree_with_the_general_sum(sizes, name):
    metric = er.parse(name)
    null = er.chance(metric, sizes)
    assume(null.var() > 0)
    mean, variance = _power.additive(RankSum(metric.term(1, max(sizes))[0], null.sizes))
    assert null.mean() == pytest.approx(mean, rel=1e-13)
    assert null.var() == pytest.approx(variance, rel=1e-12)


@given(own.sizes)
def test_enumeration_agrees_with_the_oracle(sizes):
    assume(math.prod(sizes) <= 500)
    null = er.chance("1/gmr", sizes, method="enumerate")
    mean, variance = oracle.chance(lambda r: math.prod(r) ** (-1 / len(r)), sizes)
    assert null.mean() == pytest.approx(mean, rel=1e-13)
    assert null.var() == pytest.approx(variance, rel=1e-11, abs=1e-30)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20))
def test_mrr_agrees_with_rational_arithmetic(sizes):
    mean, variance = oracle.exact_mrr_chance(sizes)
    null = er.chance("mrr", sizes)
    assert null.mean() == pytest.approx(float(mean), rel=1e-14)
    assert null.var() == pytest.approx(float(variance), rel=1e-13, abs=1e-33)


@pytest.mark.parametrize(
    "name", ["mr", "hmr", "igmr", "mean(2)", "hits@5", "median", "mad", "std", "max"]
)
def test_sampling_agrees_within_its_error(name):
    sizes = [20, 35, 35, 50, 80]
    null = er.chance(name, sizes, method="sample", samples=4000, seed=1)
    small = er.parse(name) in (er.parse("mad"), er.parse("std"))
    want = (
        er.chance(name, sizes, method="sample", samples=40_000, seed=2)
        if small
        else er.chance(name, sizes)
    )
    for got, truth in ((null.mean(), want.mean()), (null.var(), want.var())):
        assert got.method == "sample"
        assert got.error > 0
        assert abs(got - truth) <= 5 * math.hypot(got.error, truth.error)


def test_methods_are_named():
    sizes = {14_541: 1000, 14_000: 10}
    methods = {
        name: er.chance(name, sizes).mean().method
        for name in ("mr", "mrr", "gmr", "hmr", "imr", "median")
    }
    assert methods == {
        "mr": "formula",
        "mrr": "formula",
        "gmr": "formula",
        "hmr": "quadrature",
        "imr": "quadrature",
        "median": "formula",
    }
    assert er.chance("mrr", sizes).logsf(0.1).method == "inversion"
    assert er.chance("hits@10", sizes).logsf(0.1).method == "formula"
    assert er.chance("hits@10", [3, 4]).logsf(0.1).method == "enumerate"
    moment = pickle.loads(pickle.dumps(er.chance("hmr", sizes).mean()))
    assert moment.method == "quadrature"


# Digits survive size ------------------------------------------------------------------------------

N, TASKS = 10**8, 10**9


def _power_sum(e) -> mpmath.mpf:
    """Sum of j^e for j up to N by Euler-Maclaurin around zeta(-e); what is left out is below 1e-100."""
    if e == -1:
        return mpmath.harmonic(N)
    total = mpmath.zeta(-e) + mpmath.mpf(N) ** (e + 1) / (e + 1) + mpmath.mpf(N) ** e / 2
    falling = mpmath.mpf(1)
    for k in range(1, 9):
        falling = e if k == 1 else falling * (e - 2 * k + 3) * (e - 2 * k + 2)
        total += (
            mpmath.bernoulli(2 * k)
            / mpmath.factorial(2 * k)
            * falling
            * mpmath.mpf(N) ** (e - 2 * k + 1)
        )
    return total


def _reference_variance(name: str) -> mpmath.mpf:
    """Variance for TASKS tasks of N candidates with 60 digits, so that nothing needs care.

    MRR is a closed form and GMR a product of power sums. 1/S of IMR and HMR is integrated as it stands:
    E S^-a = integral t^(a-1) E exp(-t S) dt / Gamma(a), with E exp(-t r) a geometric sum and E exp(-t/r)
    its power series.
    """
    n = mpmath.mpf(TASKS)
    if name == "mrr":
        h1, h2 = _power_sum(-1), _power_sum(-2)
        return (h2 / N - (h1 / N) ** 2) / n
    if name in ("gmr", "igmr"):
        q = 1 if name == "gmr" else -1
        once, twice = _power_sum(q / n) / N, _power_sum(2 * q / n) / N
        spread = mpmath.expm1(n * (mpmath.log(twice) - 2 * mpmath.log(once)))
        return mpmath.exp(2 * n * mpmath.log(once)) * spread
    if name == "imr":
        mu = mpmath.mpf(N + 1) / 2

        def laplace(t):
            return mpmath.exp(-t) * mpmath.expm1(-N * t) / (N * mpmath.expm1(-t)) if t else mpmath.mpf(1)
    else:
        mu = _power_sum(-1) / N
        series = [_power_sum(-k) / N / mpmath.factorial(k) if k else mpmath.mpf(1) for k in range(60)]

        def laplace(t):
            return mpmath.fsum(c * (-t) ** k for k, c in enumerate(series))

    def integrate(a):  # E (S/mu)^-a
        def integrand(u):
            return u ** (a - 1) * mpmath.exp(n * mpmath.log(laplace(u / (n * mu))))

        return mpmath.quad(integrand, [0, 1, 3, 6, 10, 15, 25, 40, 60, 90, 130])

    once, twice = integrate(1), integrate(2)
    return (twice - once**2) / mu**2


@pytest.mark.parametrize("name", ["mrr", "gmr", "igmr", "imr", "hmr"])
def test_digits_survive_a_billion_tasks_of_a_hundred_million_candidates(name):
    with mpmath.workdps(60):
        want = _reference_variance(name)
        got = er.chance(name, {N: TASKS}).var()
        assert abs(got / want - 1) <= 1e-12


def test_harmonic_numbers_keep_all_digits():
    """mean of 1/r for 10^8 candidates, one task: formula against mpmath."""
    with mpmath.workdps(40):
        assert er.chance("mrr", [N]).mean() == pytest.approx(float(_power_sum(-1) / N), rel=1e-15)


def test_cost_does_not_grow_with_tasks():
    """The same histogram with counts 10^6 times larger has the same distinct sizes, so the same work."""
    sizes = np.arange(1000, 1400)
    few = er.chance("hmr", sizes, counts=np.full(400, 100))
    many = er.chance("hmr", sizes, counts=np.full(400, 100_000_000))
    assert many.mean() == pytest.approx(few.mean(), rel=0.1)
    assert many.var() == pytest.approx(few.var() / 1e6, rel=0.1)


# Tails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[6] * 5, [9, 4, 5, 7], [3, 3, 1, 8]])
@pytest.mark.parametrize(
    "name", ["hits@2", "median", "1/median", "quantile(0.3)", "min", "max", "1/max", "mean(2, hits@2)"]
)
def test_exact_tails_agree_with_enumeration(name, sizes, monkeypatch):
    every = er.chance(name, sizes, method="enumerate")
    monkeypatch.setattr("evenrank.metrics.chance.FEW_OUTCOMES", 0)
    exact = er.chance(name, sizes)
    for value in np.unique(every._enumeration.values):
        assert exact.logsf(value) == pytest.approx(every.logsf(value), abs=1e-10)
        assert exact.logsf(value).method == "formula"
        assert exact.sf(value) == pytest.approx(math.exp(every.logsf(value)), rel=1e-9)


@pytest.mark.parametrize("name", ["mr", "mrr", "gmr", "hmr", "imr", "ndcg", "mean(2)"])
def test_tails_of_sums_agree_with_enumeration(name, monkeypatch):
    sizes = [5, 6, 7, 4, 5, 4, 3, 2]
    every = er.chance(name, sizes, method="enumerate")
    monkeypatch.setattr("evenrank.metrics.chance.FEW_OUTCOMES", 0)
    exact = er.chance(name, sizes)
    for level in (0.01, 0.2, 0.5, 0.8, 0.99):
        value = np.quantile(every._enumeration.values, level, method="inverted_cdf")
        assert exact.logsf(value) == pytest.approx(every.logsf(value), abs=1e-10)
        assert exact.logsf(value).method == "convolution"


@pytest.mark.parametrize("name", ["mrr", "hmr", "ndcg", "mr", "gmr"])
@pytest.mark.parametrize("sizes", [{14_541: 8}, {1000: 2}, {14_541: 40_932}])
def test_tails_fall_to_that_of_the_best_value(name, sizes):
    null = er.chance(name, sizes)
    better = 1 if er.parse(name).increasing else -1
    steps = np.concatenate([[-3, -1, -0.1, 0, 0.1], np.geomspace(0.3, 30, 8)])
    values = [float(null.mean()) + better * k * float(null.std()) for k in steps]
    logs = [null.logsf(v) for v in values if v > 0 and (v - null.best) * better <= 0]
    assert all(log <= 0 for log in logs)
    assert all(b <= a + a.error + b.error for a, b in pairwise(logs))
    assert null.logsf(null.best) == pytest.approx(-sum(c * math.log(n) for n, c in sizes.items()))


@pytest.mark.parametrize("name", ["mrr", "hits@10", "mr", "gmr", "hmr", "imr", "ndcg", "median"])
def test_tails_run_from_certain_to_all_ranks_one(name):
    null = er.chance(name, {14_541: 40_932})
    metric = er.parse(name)
    sign = 1 if metric.increasing else -1
    worst, sigma = null.mean() - sign * 40 * null.std(), null.std()
    values = [worst, *(null.mean() + sign * k * sigma for k in (-2, 0, 2, 8)), null.best]
    logs = [float(null.logsf(v)) for v in values]
    assert logs[0] == pytest.approx(0, abs=1e-12)
    assert all(a >= b for a, b in pairwise(logs))
    all_best = {"hits@10": -40_932 * math.log(1454.1)}.get(name, -40_932 * math.log(14_541))
    if name != "median":
        assert logs[-1] == pytest.approx(all_best, rel=1e-9)
    assert null.logsf(null.best + sign * 0.5) in (-inf, logs[-1])


def test_poisson_binomial_far_tail_against_binomial_sums():
    """Tilting reaches tails of e^-2000 with relative precision: checked against log-binomial sums."""
    n, p = 3000, 0.002
    for wanted in (0, 3, 6, 50, 700, 2999, 3000):
        terms = [
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(p)
            + (n - k) * math.log1p(-p)
            for k in range(wanted, n + 1)
        ]
        top = max(terms)
        want = top + math.log(math.fsum(math.exp(t - top) for t in terms))
        got = log_count(np.array([[p]]), np.array([float(n)]), wanted, tail=True, tilt=True)[0]
        assert got == pytest.approx(want, rel=1e-11, abs=1e-11)


def test_tails_are_continuous_at_the_mean():
    null = er.chance("gmr", {50: 400})
    logs = [float(null.logsf(null.mean() * (1 - e))) for e in (-1e-4, -1e-7, 0.0, 1e-7, 1e-4)]
    assert max(np.diff(logs)) <= 0
    assert abs(logs[0] - logs[-1]) < 2e-2


@pytest.mark.parametrize(
    ("name", "sizes", "value", "truth"),
    [
        # by convolution on a grid with floor and ceiling bounds
        ("mrr", {14_541: 40}, 0.1, -26.913),
        ("mrr", {14_541: 40}, 0.35, -110.308),
        ("mrr", {10**6: 200}, 0.005, -8.517),
        ("mrr", {10**6: 200}, 0.3, -709.543),
    ],
)
def test_tails_that_depend_on_rare_first_ranks(name, sizes, value, truth):
    assert er.chance(name, sizes).logsf(value) == pytest.approx(truth, abs=2e-3)


# The tools below ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 5000)), min_size=1, max_size=6))
def test_rule_sums_like_a_loop(ranges):
    lo = np.array([a for a, _ in ranges])
    hi = lo + np.array([b for _, b in ranges])
    for g in (
        np.log,
        np.sqrt,
        lambda r: 1 / r,
        lambda r: r**3.0,
        lambda r: (r <= 700) * 1.0,
        lambda r: r % 7,
    ):
        rule = Rule(lo, hi, g)
        want = [math.fsum(g(np.arange(a, b + 1.0))) for a, b in zip(lo, hi, strict=True)]
        assert rule.sum(g(rule.points)) == pytest.approx(want, rel=1e-12)


def test_quadrature_raises_for_rough_functions_of_too_many_candidates():
    with pytest.raises(er.errors.InputError, match="too rough to sum"):
        Rule([1], [10**9], lambda r: r % 2)


def test_log1pmx_and_cumulants():
    x = np.array([-0.9, -0.4, -1e-9, 0.0, 1e-12, 0.3, 5.0])
    with mpmath.workdps(50):
        want = [float(mpmath.log1p(mpmath.mpf(v)) - mpmath.mpf(v)) for v in x.tolist()]
    assert log1pmx(x) == pytest.approx(want, rel=1e-14)
    rate = 2.0  # the cumulants of an exponential distribution are (k-1)!/rate^k
    raw = [np.array(math.factorial(k) / rate**k) for k in range(1, 7)]
    assert cumulants_from_moments(raw) == pytest.approx(
        [math.factorial(k - 1) / rate**k for k in range(1, 7)]
    )


def test_user_defined_cut_off_is_exact():
    """nDCG@10, a step in the function of the rank, against a plain sum."""
    metric = er.Metric(Transform("ndcg_at_10", lambda r: (r <= 10) / np.log2(1 + r)))
    null = er.chance(metric, {10**6: 100})
    want = sum(1 / math.log2(1 + j) for j in range(1, 11)) / 10**6
    assert null.mean() == pytest.approx(want, rel=1e-13)
    small = er.chance(er.Metric(metric.f, 0), [12, 15, 9])
    every = er.chance(er.Metric(metric.f, 0), [12, 15, 9], method="enumerate")
    assert small.mean() == pytest.approx(every.mean(), rel=1e-12)
    assert small.var() == pytest.approx(every.var(), rel=1e-12)


def test_histogram_array_mapping_and_tally_are_equivalent():
    sizes = [7, 7, 9, 30]
    want = er.chance("hmr", sizes).var()
    assert er.chance("hmr", {7: 2, 9: 1, 30: 1}).var() == want
    assert er.chance("hmr", [7, 9, 30], counts=[2, 1, 1]).var() == want
    assert er.chance("hmr", er.Tally.of([0] * 4, [0] * 4, sizes)).var() == want
    weighted = er.chance("mrr", [7, 9, 30], counts=[2, 1, 1], weights=[0.5, 1, 1])
    assert weighted.mean() == pytest.approx(er.chance("mrr", [7, 9, 30]).mean(), rel=1e-14)


def test_many_distinct_weights_agree_with_the_additive_formula_and_sampling():
    rng = np.random.default_rng(3)
    sizes, weights = rng.integers(10, 90, 60), rng.random(60)
    null = er.chance("hmr", sizes, weights=weights)
    sample = er.chance("hmr", sizes, weights=weights, method="sample", samples=20_000)
    assert abs(null.mean() - sample.mean()) <= 5 * sample.mean().error
    assert abs(null.var() - sample.var()) <= 5 * sample.var().error
    w = weights / weights.sum()
    assert er.chance("mr", sizes, weights=weights).var() == pytest.approx(
        (w**2 * (sizes**2 - 1) / 12).sum(), rel=1e-13
    )


def test_extreme_powers_are_exact_or_raise():
    for p in (100, 300, -100):
        null, every = (
            er.chance(f"mean({p})", [3, 5, 2]),
            er.chance(f"mean({p})", [3, 5, 2], method="enumerate"),
        )
        assert null.mean() == pytest.approx(every.mean(), rel=1e-12)
        assert null.var() == pytest.approx(every.var(), rel=1e-11)
    with pytest.raises(er.errors.NullDistributionError, match=r"too extreme|did not converge"):
        er.chance("mean(-300)", {10**8: 1000}).mean()


@pytest.mark.parametrize("p", [0.0399, 0.01, -1e-9])
def test_powers_near_zero_are_exact(p):
    for sizes in ([3, 5, 2], [30, 40]):
        for q in (1, -1):
            metric = er.Metric(p=p, q=q)
            null, every = er.chance(metric, sizes), er.chance(metric, sizes, method="enumerate")
            # 1/p magnifies the rounding of enumeration's own power: it can tell no more than this
            assert null.mean() == pytest.approx(every.mean(), rel=1e-12 + 1e-15 / abs(p))
            assert null.var() == pytest.approx(every.var(), rel=1e-11 + 1e-14 / abs(p))
    assert er.chance(f"mean({p})", {10**6: 10**6}).var() == pytest.approx(
        er.chance("gmr", {10**6: 10**6}).var(), rel=max(1e-11, 3 * abs(p))
    )


# Transforms with zeros, and tiny powers --------------------------------------------------------------

ZEROS = {
    "less_one": lambda r: r - 1.0,
    "log": np.log,
    "capped": lambda r: np.minimum(r - 1.0, 3.0),
    "late": lambda r: np.maximum(r - 4.0, 0.0),
    "falling": lambda r: np.maximum(0.0, 1.0 - (r - 1.0) / 4.0),
    "never": lambda r: 0.0 * r,
}
TINY_POWERS = (-1, -1e-6, -1e-320, 0, 1e-13, 1e-6, 0.5, 1)


@pytest.mark.parametrize("p", TINY_POWERS)
@pytest.mark.parametrize("name", ZEROS)
def test_transforms_with_zeros_have_the_moments_and_tails_of_enumeration(name, p, monkeypatch):
    for q, weights in ((1, None), (1, [1.0, 2.0, 0.5]), (-1, [1.0, 2.0, 0.5])):
        metric = er.Metric(Transform(name, ZEROS[name]), p, q)
        exact = er.chance(metric, [3, 5, 6], weights=weights)
        every = er.chance(metric, [3, 5, 6], weights=weights, method="enumerate")
        values = every._enumeration.values
        if np.isfinite(values).all():
            assert exact.mean() == pytest.approx(every.mean(), rel=1e-11)
            assert exact.var() == pytest.approx(every.var(), rel=1e-10, abs=1e-25)
        else:
            with pytest.raises(er.errors.NullDistributionError, match="infinite"):
                exact.mean()
        monkeypatch.setattr("evenrank.metrics.chance.FEW_OUTCOMES", 0)
        for value in [-1.0, 0.0, *np.unique(values)[::7], values.max()]:
            got, want = exact.logsf(value), every.logsf(value)
            assert got == want or abs(got - want) <= got.error + 1e-9
        monkeypatch.undo()


def test_tiny_powers_of_weighted_hits_return():
    weights = [0.5] + [1 / 400] * 200
    null = er.chance("mean(1e-6, hits@1)", [3, *[2] * 200], weights=weights)
    assert null.mean() == pytest.approx(2.0**-200 / 3, rel=1e-12)  # all hit
    few = er.chance("mean(1e-2, hits@1)", [3, 4, 5], weights=[1, 2, 4])
    every = er.chance("mean(1e-2, hits@1)", [3, 4, 5], weights=[1, 2, 4], method="enumerate")
    assert few.mean() == pytest.approx(every.mean(), rel=1e-12)
    assert few.var() == pytest.approx(every.var(), rel=1e-12)
    with pytest.raises(er.errors.NullDistributionError, match="too extreme"):
        er.chance("mean(1e-4, hits@9)", np.arange(10, 300), weights=np.sqrt(np.arange(10, 300))).mean()


@given(
    st.one_of(st.floats(-30, 2), st.sampled_from([-13.0, -17.0, -300.0, math.log10(168.7)])),
    st.sampled_from((1, -1)),
    st.lists(st.one_of(st.integers(1, 5), st.integers(1, 10**6)), min_size=1, max_size=20),
)
def test_power_means_keep_their_digits_for_any_power(exponent, sign, ranks):
    p = sign * 10.0**exponent
    with mpmath.workdps(60 + max(0, round(-exponent))):
        power = mpmath.mpf(p)
        want = (mpmath.fsum(mpmath.mpf(r) ** power for r in ranks) / len(ranks)) ** (1 / power)
        assert er.Metric(p=p)(ranks) == pytest.approx(float(want), rel=2e-14)


def test_tiny_powers_of_tied_ranks_tend_to_the_geometric_mean():
    ranks = er.Tally.of([0, 3, 10], [0, 4, 500], [1000] * 3)
    assert er.Metric(p=1e-12)(ranks) == pytest.approx(er.GMR(ranks), rel=1e-10)
    assert er.Metric(p=-1e-320)(ranks) == pytest.approx(er.GMR(ranks), rel=1e-14)
