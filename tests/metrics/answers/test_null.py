"""Null distributions of several answers: formulas == all rankings == random rankings == long sums."""

from fractions import Fraction
from itertools import product
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenrank.errors import DegenerateError, InputError, NullDistributionError
from evenrank.metrics import adjusted
from evenrank.metrics.answers._absent import log_absent
from evenrank.metrics.answers._moments import moments
from evenrank.metrics.answers.metric import ONE, RECIPROCAL, QueryMetric, _Geometric
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance import NullDistribution, read_sizes
from evenrank.metrics.metric import GAIN, HITS, MRR, NDCG, Transform

RBP = Transform("rbp(0.8)", _Geometric(0.8))
CUTOFFS = (None, 1, 2, 3, 5, 20)
AUC, RPREC = QueryMetric("auc"), QueryMetric("sum", ONE, "answers", norm="answers")


def of_sums(k):
    """Sums over the answers: every discount, gain and norm."""
    norms = ("one", "answers", "ideal", *(("k", "least", "mean") if k else ()))
    gains = ("binary", "linear", "exponential")
    return [QueryMetric("sum", *each) for each in product((ONE, GAIN, RBP), (k,), gains, norms)]


def binary(k):
    """Metrics that no gain changes."""
    first = [QueryMetric("first", d, k) for d in (ONE, RECIPROCAL, GAIN, RBP)]
    return first + [QueryMetric("precision", k=k, norm=norm) for norm in ("answers", "least")]


def err(k=None):
    return QueryMetric("cascade", RECIPROCAL, k, "exponential", largest=4.0)


def one(n, m, gains=None) -> Shapes:
    return Shapes.of([n], [0, m], gains)


def agrees(exact: QueryNull, every: QueryNull, case) -> None:
    mean, variance = every.mean(), every.var()
    assert abs(exact.mean() - mean) <= 1e-13 * mean, case
    assert abs(exact.var() - variance) <= 1e-12 * variance + 1e-15 * mean**2, case
    values = every._outcomes.values
    assert abs(exact.best - values.max()) <= 1e-13, case
    assert exact.certain == (np.ptp(values) < 1e-14), case


@pytest.mark.parametrize("n", range(1, 10))
@pytest.mark.parametrize("k", CUTOFFS)
def test_moments_agree_with_all_rankings(n, k):
    metrics = [
        *binary(k),
        *(m for m in of_sums(k) if not m.graded),
        *([AUC, RPREC] if k is None else ()),
    ]
    for m in range(1, n + 1):
        for metric in metrics:
            if metric != AUC or m < n:
                shapes = one(n, m)
                agrees(QueryNull(metric, shapes), QueryNull(metric, shapes, "enumerate"), (m, metric))


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("k", CUTOFFS)
def test_moments_of_gains_agree_with_all_rankings_and_all_orders_of_gains(n, k):
    for m in range(1, n + 1):
        for gains in ([3, 1, 1, 2, 1, 1, 1][:m], [0.5] * m, [0.0] * (m - 1) + [2.0]):
            for metric in (metric for metric in of_sums(k) if metric.graded):
                shapes = one(n, m, gains)
                agrees(
                    QueryNull(metric, shapes), QueryNull(metric, shapes, "enumerate"), (gains, metric)
                )


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("k", CUTOFFS)
def test_moments_of_the_expected_reciprocal_rank_agree_with_all_rankings(n, k):
    metric = err(k)
    for m in range(1, n + 1):
        for gains in ([1] * m, [3, 1, 1, 2, 1, 1, 1, 1][:m], [4, 0, *[2] * 6][:m], [2] * m):
            shapes = one(n, m, gains)
            agrees(QueryNull(metric, shapes), QueryNull(metric, shapes, "enumerate"), gains)


def test_queries_of_all_kinds_are_averaged_by_their_weights():
    shapes = Shapes.of([4, 5, 3, 4], [0, 2, 3, 3, 5], [2, 1, 3, 1, 2], weights=[1.0, 2.0, 0.5, 1.0])
    for metric in (*binary(2), *of_sums(2), err(), err(2)):
        exact, every = QueryNull(metric, shapes), QueryNull(metric, shapes, "enumerate")
        assert exact.mean() == pytest.approx(every.mean(), rel=1e-13)
        assert exact.var() == pytest.approx(every.var(), rel=1e-12)


def test_a_query_without_answers_counts_as_zero():
    metric = QueryMetric("precision", norm="answers")
    with_none = QueryNull(metric, Shapes.of_counts([9, 9], [2, 0]))
    alone = QueryNull(metric, Shapes.of_counts(9, 2))
    assert with_none.mean() == alone.mean() / 2
    assert with_none.var() == pytest.approx(alone.var() / 4, rel=1e-15)
    assert with_none.best == 0.5


@pytest.mark.parametrize("size", [1, 2, 7, 100, 14_541])
def test_one_answer_reduces_to_metrics_of_single_targets(size):
    sizes, shapes = read_sizes([size]), Shapes.of_counts(size, 1)
    average = (QueryMetric("precision", norm="answers"), QueryMetric("first", RECIPROCAL))
    ten = [QueryMetric("sum", ONE, 10, norm="answers"), QueryMetric("first", ONE, 10)]
    pairs = [(metric, MRR) for metric in average] + [(metric, HITS(10)) for metric in ten]
    pairs.append((QueryMetric("sum", GAIN, gain="linear", norm="ideal"), NDCG))
    for metric, single in pairs:
        ours, theirs = QueryNull(metric, shapes), NullDistribution(single, sizes)
        assert ours.mean() == pytest.approx(theirs.mean(), rel=1e-13)
        assert ours.var() == pytest.approx(theirs.var(), rel=1e-12, abs=1e-30)
        assert ours.best == pytest.approx(theirs.best, rel=1e-15)


# Large numbers of candidates ----------------------------------------------------------------------


def of_first(n, m, value, k):
    """Moments of the value of the first answer, as a long sum of 150 digits."""
    with mpmath.workdps(150):
        absent, mean, square = mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0)
        for x in range(1, min(k or n, n - m + 1) + 1):
            chance = absent * m / (n - x + 1)
            mean, square = mean + chance * value(x), square + chance * value(x) ** 2
            absent *= mpmath.mpf(n - m - x + 1) / (n - x + 1)
            if absent < mpmath.mpf(10) ** -140:
                break
        return float(mean), float(square - mean**2)


VALUES = {
    ONE: lambda x: 1,
    RECIPROCAL: lambda x: 1 / mpmath.mpf(x),
    GAIN: lambda x: mpmath.log(2) / mpmath.log(1 + x),
}


@pytest.mark.parametrize("n", [200, 1500])
@pytest.mark.parametrize("k", [None, 5, 500, 1100])
def test_the_first_of_many_candidates_agrees_with_long_sums(n, k):
    for m in (1, 2, 5, 17, 60, 99, 101, 150, 195, n // 3, n // 2, n - 3, n - 1):
        for discount, value in VALUES.items():
            if discount == ONE and (k is None or k > n - m):
                continue  # certain
            wanted = of_first(n, m, value, k)
            if discount == ONE and wanted[1] < 1e-100:
                continue  # beyond the digits of the long sum
            (mean,), (variance,) = moments(QueryMetric("first", discount, k), one(n, m))
            assert mean == pytest.approx(wanted[0], rel=2e-14), (m, discount)
            assert variance == pytest.approx(wanted[1], rel=1e-12), (m, discount)


@pytest.mark.parametrize("m", [2, 40, 5_000_000, 9_999_999])
def test_the_first_of_ten_million_candidates_agrees_with_long_sums(m):
    n = 10**7
    for k in (None, 10) if m > 40 else (10,):
        wanted = of_first(n, m, VALUES[RECIPROCAL], k)
        (mean,), (variance,) = moments(QueryMetric("first", RECIPROCAL, k), one(n, m))
        assert mean == pytest.approx(wanted[0], rel=2e-14)
        assert variance == pytest.approx(wanted[1], rel=1e-12)


@pytest.mark.parametrize("m", [2, 129, 193, 1000, 300_000, 4_999_999])
def test_the_reciprocal_rank_among_ten_million_agrees_with_the_other_sum(m):
    """E 1/X^2 as a sum over positions instead of the complement of one over answers."""
    n = 10**7
    (mean,), (variance,) = moments(QueryMetric("first", RECIPROCAL), one(n, m))
    x = np.arange(1.0, n - m + 2.0)
    absent = np.cumsum(np.log1p(-m / (n - x[:-1] + 1.0)))  # errors of 10^7 logarithms add up
    chance = np.exp(np.append(0.0, absent)) * m / (n - x + 1.0)
    wanted = chance @ (1 / x)
    assert mean == pytest.approx(wanted, rel=1e-10)
    assert variance == pytest.approx(chance @ (1 / x - wanted) ** 2, rel=1e-10)


def test_auc_leaves_out_queries_for_which_it_is_undefined():
    some = QueryNull(AUC, Shapes.of_counts([3, 3, 5], [3, 3, 2]))
    assert (some.count, some.mean(), some.var()) == (1, 0.5, QueryNull(AUC, one(5, 2)).var())


def test_success_with_a_tiny_probability_keeps_its_digits():
    n = 10**7
    for m, k in ((1, 1), (3, 2), (200, 300), (1, 5000)):
        share = 1 - Fraction(comb(n - k, m), comb(n, m))
        null = QueryNull(QueryMetric("first", ONE, k), one(n, m))
        assert null.mean() == pytest.approx(float(share), rel=1e-13)
        assert null.var() == pytest.approx(float(share * (1 - share)), rel=1e-13)


def test_the_chance_of_no_answer_agrees_with_binomial_coefficients():
    cases = [(n, m, x) for n in (40, 300) for m in (1, 16, 17, 20) for x in (0, 3, 17, n - m - 2, n - m)]
    n, m, x = (np.array(c, dtype=float) for c in zip(*cases, strict=True))
    wanted = [float(mpmath.log(mpmath.mpf(comb(a - c, b)) / comb(a, b))) for a, b, c in cases]
    assert log_absent(n, m, x) == pytest.approx(wanted, rel=1e-13)


def of_precision(n, m, k):
    """Moments of AP times m in rational arithmetic, by sums over positions."""
    k = min(k or n, n)
    a = [Fraction(1, i) for i in range(1, k + 1)]
    tail = [sum(a[i + 1 :]) for i in range(k)]
    p = [Fraction(1)]
    for j in range(4):
        p.append(p[-1] * max(m - j, 0) / (n - j))
    pairs = sum(a[i] * i for i in range(k))
    square = sum(x * x for x in a)
    u, v = sum(a[i] ** 2 * i for i in range(k)), sum(a[i] * tail[i] for i in range(k))
    s = sum(a[i] ** 2 * i * (i - 1) for i in range(k))
    t = sum(tail[i] ** 2 - sum(x * x for x in a[i + 1 :]) for i in range(k))
    c = 2 * sum(a[i] * i * tail[i] for i in range(k))
    mean = p[1] * sum(a) + p[2] * pairs
    second = p[1] * square + p[2] * (sum(a) ** 2 - square)
    second += 2 * (p[2] * (u + v) + p[3] * (sum(a) * pairs - u - v))
    second += p[2] * u + p[3] * (s + t + c) + p[4] * (pairs**2 - u - s - t - c)
    return float(mean), float(second - mean**2)


@pytest.mark.parametrize("n", [5, 30, 150])
def test_average_precision_agrees_with_rational_sums(n):
    for m, k in product(sorted({1, 2, 3, n // 2, n - 1}), (None, 4, 20)):
        mean, variance = of_precision(n, m, k)
        (got,), (spread,) = moments(QueryMetric("precision", k=k, norm="one"), one(n, m))
        assert got == pytest.approx(mean, rel=1e-14)
        assert spread == pytest.approx(variance, rel=2e-13)


@pytest.mark.parametrize("m", [1, 2, 50, 5_000_000, 9_999_990, 9_999_999])
@pytest.mark.parametrize("k", [None, 10, 1000])
def test_average_precision_of_ten_million_candidates_keeps_its_digits(m, k):
    n = 10**7
    with mpmath.workdps(60):
        mp, last = mpmath.mpf, k or n
        h, h2 = mpmath.harmonic(last), mpmath.zeta(2) - mpmath.zeta(2, last + 1)
        p = [mp(1)]
        for j in range(4):
            p.append(p[-1] * (m - j) / (n - j))
        pairs, u, v = last - h, h - h2, (h * h - h2) / 2
        s, t, c = last - 3 * h + 2 * h2, 2 * (last - h) - (h * h - h2), 2 * (last - h - v)
        mean = p[1] * h + p[2] * pairs
        second = p[1] * h2 + p[2] * (h * h - h2) + 2 * (p[2] * (u + v) + p[3] * (h * pairs - u - v))
        second += p[2] * u + p[3] * (s + t + c) + p[4] * (pairs**2 - u - s - t - c)
        wanted = float(mean), float(second - mean**2)
    (got,), (spread,) = moments(QueryMetric("precision", k=k, norm="one"), one(n, m))
    assert got == pytest.approx(wanted[0], rel=1e-14)
    assert spread == pytest.approx(wanted[1], rel=1e-12)


@pytest.mark.parametrize("discount", [ONE, GAIN, RBP], ids=str)
@pytest.mark.parametrize("k", [None, 10, 5000])
def test_sums_over_many_candidates_agree_with_long_sums(discount, k):
    n, m = 10**6, 4
    d = discount(np.arange(1.0, n + 1.0)).astype(np.longdouble)
    d[k or n :] = 0
    gains = np.zeros(n, dtype=np.longdouble)
    gains[:m] = 3, 2, 2, 1
    (mean,), (variance,) = moments(QueryMetric("sum", discount, k, "linear"), one(n, m, [2, 3, 1, 2]))
    assert mean == pytest.approx(float(gains.mean() * d.sum()), rel=1e-14)
    wanted = gains.var() * ((d - d.mean()) ** 2).sum() * n / (n - 1)
    assert variance == pytest.approx(float(wanted), rel=1e-12, abs=1e-30)


@pytest.mark.parametrize("k", [None, 20])
def test_the_expected_reciprocal_rank_of_one_answer_is_a_multiple_of_the_reciprocal_rank(k):
    (mean,), (variance,) = moments(err(k), one(3000, 1, [3.0]))
    wanted = moments(QueryMetric("first", RECIPROCAL, k), one(3000, 1))
    assert mean == pytest.approx(7 / 16 * wanted[0][0], rel=1e-13)
    assert variance == pytest.approx((7 / 16) ** 2 * wanted[1][0], rel=1e-13)


def test_the_expected_reciprocal_rank_of_many_shapes_is_that_of_each():
    sizes, gains = [50, 30, 50, 12, 50], [[3, 1], [3, 1], [4, 2], [1], [1, 1]]
    first = np.cumsum([0, *map(len, gains)])
    shapes = Shapes.of(sizes, first, [g for row in gains for g in row])
    for k in (None, 20):
        together = [row.tolist() for row in moments(err(k), shapes)]
        for i in range(len(shapes)):
            n, m = (int(shapes.rows[name][i]) for name in ("candidates", "answers"))
            alone = [float(row[0]) for row in moments(err(k), one(n, m, shapes.gains(i)))]
            assert [row[i] for row in together] == pytest.approx(alone, rel=1e-13)


# Random rankings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method_of", ["few of many", "most"])
def test_random_rankings_agree_within_their_standard_errors(method_of):
    n, m = (5000, 6) if method_of == "few of many" else (30, 12)
    shapes = Shapes.of([n] * 3, [0, m, 2 * m, 3 * m], [1.0, 2.0, 3.0] * m)
    for metric in (
        QueryMetric("precision", norm="answers"),
        QueryMetric("first", RECIPROCAL),
        QueryMetric("sum", GAIN, 10, "exponential", "ideal"),
        err(),
        AUC,
    ):
        exact = QueryNull(metric, shapes)
        drawn = QueryNull(metric, shapes, "sample", samples=20_000, seed=3)
        assert abs(exact.mean() - drawn.mean()) <= 4 * drawn.mean().error
        assert abs(exact.var() - drawn.var()) <= 4 * drawn.var().error
        assert drawn.mean().method == "sample"


# Tails --------------------------------------------------------------------------------------------


def test_tails_of_few_rankings_are_exact():
    shapes = Shapes.of_counts([6, 7], [2, 3])
    metric = QueryMetric("precision", norm="answers")
    null, every = QueryNull(metric, shapes), QueryNull(metric, shapes, "enumerate")
    for value in (0.0, 0.3, 0.5, 0.9, 1.0, 1.1):
        assert null.sf(value) == every.sf(value)
        assert null.sf(value).method == "enumerate"
    assert null.sf(1.0) == pytest.approx(1 / (comb(6, 2) * comb(7, 3)), rel=1e-12)


def test_tails_of_success_agree_with_the_binomial_distribution():
    from scipy import stats

    null = QueryNull(QueryMetric("first", ONE, 10), Shapes.of_counts([1000] * 300, 4))
    p = float(null.mean())
    for count in (0, 5, 12, 30, 120):
        log_p = null.logsf(count / 300)
        assert log_p.method == "formula"
        assert abs(log_p - stats.binom.logsf(count - 1, 300, p)) <= max(log_p.error, 1e-9)


def test_other_tails_are_normal_and_state_their_error():
    shapes = Shapes.of_counts([200] * 2000, 5)
    metric = QueryMetric("precision", norm="answers")
    null, drawn = QueryNull(metric, shapes), QueryNull(metric, shapes, "sample", samples=2000)
    for z in (-1.0, 0.0, 1.0, 2.0):
        value = null.mean() + z * null.std()
        p, sampled = null.sf(value), drawn.sf(value)
        assert p.method == "normal"
        assert 0 < p.error < 0.5
        assert abs(p - sampled) <= p.error + 4 * sampled.error
    far = null.sf(0.06)  # where the bound of Berry and Esseen says nothing
    assert far < far.error < 1e-9
    assert null.sf(0.0) == 1.0
    assert null.sf(1.5) == 0.0


def test_normal_tails_are_within_their_error_of_the_truth():
    """The distribution of a mean over 12 queries, by convolution of all rankings of each."""
    metric = QueryMetric("sum", ONE, 2, norm="k")
    null = QueryNull(metric, Shapes.of_counts([9] * 12, 3))
    one_query = np.array([comb(3, i) * comb(6, 2 - i) for i in range(3)]) / comb(9, 2)
    total = np.ones(1)
    for _ in range(12):
        total = np.convolve(total, one_query)
    for hits in range(1, 25):
        truth, p, log_p = total[hits:].sum(), null.sf(hits / 24), null.logsf(hits / 24)
        assert p.method == "normal"
        assert abs(p - truth) <= p.error
        assert abs(log_p - np.log(truth)) <= log_p.error


# Adjustments --------------------------------------------------------------------------------------


def test_adjustments_use_the_best_value_of_these_queries():
    null = QueryNull(QueryMetric("sum", ONE, 10, norm="k"), Shapes.of_counts([100] * 9, 3))
    assert null.best == 0.3
    line = adjusted.index(null)
    assert (line(0.3), line(float(null.mean()))) == (1.0, 0.0)
    assert adjusted.z(null)(float(null.mean() + null.std())) == pytest.approx(1.0, rel=1e-12)
    assert adjusted.ratio(null)(float(null.mean())) == 1.0


def test_a_certain_value_cannot_be_adjusted():
    null = QueryNull(QueryMetric("first", ONE, 10), Shapes.of_counts([10, 12], [1, 3]))
    assert null.certain
    with pytest.raises(DegenerateError) as error:
        adjusted.index(null)
    assert str(error.value) == (
        "index(success@10) is undefined: every ranking has the value 1, the best possible; "
        "got at most 12 candidates; rank more candidates, or use a smaller k"
    )


# Determinism and errors ---------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(6, 300), st.integers(1, 5), st.sampled_from((1.0, 0.7))), min_size=2),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_no_bit_depends_on_the_order_or_the_shards_of_queries(rows, at, random):
    def of(part):
        n, m, w = zip(*part, strict=True)
        return Shapes.of_counts(n, m, weights=w)

    mixed = random.sample(rows, len(rows))
    cut = min(at, len(rows) - 1)
    whole, shards = of(rows), of(mixed[:cut]) + of(mixed[cut:])
    for metric in (QueryMetric("precision", norm="answers"), QueryMetric("first", RECIPROCAL, 10), AUC):
        a, b = QueryNull(metric, whole), QueryNull(metric, shards)
        assert (float(a.mean()), float(a.var())) == (float(b.mean()), float(b.var()))


def test_what_has_no_chance_level_is_named():
    with pytest.raises(
        NullDistributionError, match="requires the number of candidates, which is unknown"
    ):
        QueryNull(AUC, Shapes.of_counts([0], 1))
    with pytest.raises(InputError, match="at least one query; got none"):
        QueryNull(AUC, Shapes())
    with pytest.raises(NullDistributionError, match="auc is undefined where all candidates are answers"):
        QueryNull(AUC, Shapes.of_counts([3, 3], 3))
    with pytest.raises(NullDistributionError, match="random scorers are drawn for single targets only"):
        QueryNull(AUC, Shapes.of_counts([3], 1), "simulate")
    with pytest.raises(InputError, match="too many outcomes to enumerate; got more than 10\\^17"):
        QueryNull(AUC, Shapes.of_counts([300] * 9, 5), "enumerate").mean()
    with pytest.raises(InputError, match="too many positions to draw"):
        QueryNull(AUC, Shapes.of_counts(10**6, 10**5, counts=1000), "sample").mean()
    with pytest.raises(InputError, match="a value of the metric must be a number; got 'a'"):
        QueryNull(AUC, Shapes.of_counts([3], 1)).sf("a")


def test_an_expected_reciprocal_rank_over_too_many_positions_is_left_to_sampling():
    null = QueryNull(err(), Shapes.of_counts(10**7, 3))
    with pytest.raises(NullDistributionError) as error:
        null.mean()
    assert str(error.value) == (
        "the chance level of err is a sum over too many positions; got up to 10,000,000 positions and "
        "3 answers; use err@20, or method='sample'"
    )
    assert QueryNull(err(20), Shapes.of_counts(10**7, 3)).mean() > 0
    with pytest.raises(InputError, match="requires gains up to 4; got 5; name the largest gain"):
        QueryNull(err(), one(9, 1, [5.0])).mean()


def test_gains_that_overflow_are_named():
    metric = QueryMetric("sum", GAIN, 10, "exponential", "ideal")
    with pytest.raises(InputError, match="requires gains up to 1000, as it adds 2\\^gain - 1; got 2000"):
        QueryNull(metric, one(9, 1, [2000.0])).mean()


def test_distributions_say_what_they_are_of():
    null = QueryNull(QueryMetric("first", ONE, 10), Shapes.of_counts([50, 1200], [1, 3]))
    assert repr(null) == "QueryNull(success@10; 2 queries; 50 to 1,200 candidates; 1 to 3 answers)"
    assert null.chance == "independent"
