"""Errors in the printed formulas of Hoyt et al. (2022), each shown by enumeration.

All outcomes of a few small tasks are enumerated, independently of any formula. Each test shows that the
enumerated number is the corrected one, that the exact null distribution agrees, and that the printed
one differs. There are `n` tasks of `N` candidates each, as in the paper, or tasks of different sizes.
"""

from itertools import permutations, product
from math import exp, log

import numpy as np
import pytest

import evenrank as er
from evenrank.metrics.adjusted import ratio

N, n, k = 6, 3, 2
EQUAL = [N] * n
MIXED, WEIGHTS = np.array([2, 5, 7, 7]), np.array([1.0, 2.0, 0.5, 3.0])
W = WEIGHTS / WEIGHTS.sum()


def harmonic(size, power=1):
    return sum(j**-power for j in range(1, size + 1))


def agree(metric, sizes, weights=None, *, mean=None, var=None):
    """Check the enumerated and the exact null distribution against a formula."""
    for method in ("enumerate", "exact"):
        null = er.chance(metric, sizes, weights=weights, method=method)
        if mean is not None:
            assert null.mean() == pytest.approx(mean, rel=1e-12), method
        if var is not None:
            assert null.var() == pytest.approx(var, rel=1e-12), method
    return er.chance(metric, sizes, weights=weights, method="enumerate")


def outcomes(metric):
    """Evaluate a metric on every outcome of the n equal tasks."""
    every = product(range(1, N + 1), repeat=n)
    return np.array([er.Ranks.of(ranks, candidates=N).evaluate(metric)[metric] for ranks in every])


def test_variance_of_the_mean_rank_is_that_of_a_mean():
    """Printed: Var[MR] = (N^2-1)/12, which is Var[r]; a mean of n has 1/n of it, in general w^2."""
    printed = (N**2 - 1) / 12
    null = agree("mr", EQUAL, mean=(N + 1) / 2, var=printed / n)
    assert abs(null.var() / printed - 1) > 0.5
    agree("mr", MIXED, WEIGHTS, mean=W @ (MIXED + 1) / 2, var=W**2 @ (MIXED**2 - 1) / 12)
    assert er.chance("mr", [N], method="enumerate").var() == pytest.approx(printed)  # one task alone


def test_expected_reciprocal_rank_is_discrete():
    """Printed: E[1/r] = ln N/(N-1), of a continuous rank; ranks are whole numbers, so H_1(N)/N."""
    null = agree("mrr", EQUAL, mean=harmonic(N) / N)
    assert abs(null.mean() / (log(N) / (N - 1)) - 1) > 0.1
    agree("mrr", MIXED, WEIGHTS, mean=sum(w * harmonic(m) / m for w, m in zip(W, MIXED, strict=True)))


def test_variance_of_the_reciprocal_rank_is_positive():
    """Printed: Var[1/r] = 1/N - ln N/(N-1), which is negative; H_2(N)/N - (H_1(N)/N)^2, then w^2."""

    def single(size):
        return harmonic(size, 2) / size - (harmonic(size) / size) ** 2

    null = agree("mrr", EQUAL, var=single(N) / n)
    assert 1 / N - log(N) / (N - 1) < 0 < null.var()
    # squaring the mean, as was surely meant, still leaves the continuous distribution
    assert abs(null.var() * n / (1 / N - (log(N) / (N - 1)) ** 2) - 1) > 0.1
    agree("mrr", MIXED, WEIGHTS, var=sum(w**2 * single(m) for w, m in zip(W, MIXED, strict=True)))


def test_variance_of_hits_is_that_of_a_share():
    """Printed: Var[hits] = k(N-k)/N, above the 1/4 any share may have; k(N-k)/N^2, then w^2."""
    null = agree(f"hits@{k}", EQUAL, mean=k / N, var=k * (N - k) / N**2 / n)
    assert k * (N - k) / N > 0.25 > null.var()
    chance = np.minimum(1, 5 / MIXED)  # k = 5 is above the two candidates of the first task
    agree("hits@5", MIXED, WEIGHTS, mean=W @ chance, var=W**2 @ (chance * (1 - chance)))
    assert W @ chance < W @ (5 / MIXED)
    assert er.chance("hits@10", EQUAL, method="enumerate").mean() == 1.0
    assert er.chance("hits@10", EQUAL).var() == 0.0


def test_adjusted_mean_rank_is_one_under_chance():
    """Printed: MR* = 2/(N(N-1)) sum r; only 2/(n(N+1)) sum r is 1 on average under chance."""
    total = n * er.chance("mr", EQUAL, method="enumerate").mean()
    assert 2 / (n * (N + 1)) * total == pytest.approx(1)
    assert abs(2 / (N * (N - 1)) * total - 1) > 0.1
    assert ratio(er.chance("mr", EQUAL)).scale == pytest.approx(2 / (n * (N + 1)) * n)
    assert outcomes("ratio(mr)").mean() == pytest.approx(1)


@pytest.mark.parametrize(
    ("metric", "printed"),
    [
        ("mrr", (N - 1) / log(N)),  # times a sum: lacks 1/n, and is continuous
        (f"hits@{k}", 1 / k),  # times a sum: lacks 1/n and N
    ],
)
def test_other_adjusted_metrics_are_one_under_chance(metric, printed):
    """Printed: MRR* and H* scale the sum over tasks; dividing the mean by its expectation gives 1."""
    null = er.chance(metric, EQUAL, method="enumerate")
    assert abs(printed * n * null.mean() - 1) > 0.1
    assert ratio(er.chance(metric, EQUAL))(null.mean()) == pytest.approx(1)
    assert outcomes(f"ratio({metric})").mean() == pytest.approx(1)
    assert outcomes(f"index({metric})").mean() == pytest.approx(0, abs=1e-12)


def test_adjusted_mean_rank_lies_between_zero_and_two():
    """Printed: AMR lies in [0, 1); it is never 0, and worse than chance goes up to 2N/(N+1) < 2."""
    values = outcomes("amr")
    assert values.min() == pytest.approx(2 / (N + 1))
    assert values.max() == pytest.approx(2 * N / (N + 1))
    assert values.min() > 0
    assert 1 < values.max() < 2
    assert (values >= 1).mean() >= 0.5  # half of all outcomes leave the printed range
    assert er.Ranks.of([10**6], candidates=10**6).evaluate("amr")["amr"] == pytest.approx(2, rel=1e-5)


def test_geometric_mean_rank_has_a_closed_form():
    """Printed: closed forms for GMR are difficult; ranks are independent, so powers multiply."""

    def power(e):  # E[r^e] of each task
        return np.array(
            [np.mean(np.arange(1.0, m + 1) ** (e * w)) for w, m in zip(W, MIXED, strict=True)]
        )

    for metric, q in (("gmr", 1), ("igmr", -1)):
        mean = exp(np.log(power(q)).sum())
        agree(metric, MIXED, WEIGHTS, mean=mean, var=np.prod(power(2 * q)) - mean**2)
        single = np.mean(np.arange(1.0, N + 1) ** (q / n))
        agree(metric, EQUAL, mean=single**n)
        assert er.chance(metric, EQUAL).mean().method == "formula"


def test_filtered_means_without_every_known_answer():
    """Printed: filtered leaves out triples of the test split; every known answer must go but the target.

    One query over five entities, with answers 0 from training, 1 from validation, 2 and 3 from test;
    the target is 3. All 5! orders of the scores are listed.
    """
    known = np.array([True, True, True, True, False])
    test_only = np.array([False, False, True, True, False])
    scores = np.array(list(permutations(range(5))), dtype=float)
    target = np.full(len(scores), 3)

    right = er.Ranks.from_scores(scores, target, np.broadcast_to(known, scores.shape))
    printed = er.Ranks.from_scores(scores, target, np.broadcast_to(test_only, scores.shape))
    assert set(right.candidates) == {5 - 4 + 1}  # |E| - |known| + 1: the target itself stays
    assert set(printed.candidates) == {4}
    null = er.chance("mrr", [2], method="enumerate")
    assert right.evaluate("mrr")["mrr"] == pytest.approx(null.mean(), rel=1e-12)
    assert printed.evaluate("mrr")["mrr"] != pytest.approx(null.mean(), rel=1e-2)

    # a model that knows all four answers and puts them first, in whatever order, makes no mistake
    perfect = scores[:, :4].min(axis=1) > scores[:, 4]
    assert right[perfect].evaluate("mrr")["mrr"] == 1.0
    assert printed[perfect].evaluate("mrr")["mrr"] < 0.7
