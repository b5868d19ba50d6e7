"""Paired tests of the null hypothesis that two models are exchangeable, and corrections for many tests.

All tests take differences `d_u`, one per independent unit and already summed over its targets. The
sign-flip permutation test assumes only that under the null hypothesis each `d_u` is as likely to have
the other sign. It tests the metric itself, though it adds terms: with the two means of terms
`(s + t) / 2` and `(s - t) / 2`, flips change `t` alone, and `|G((s + t) / 2) - G((s - t) / 2)|` grows
with `|t|` for every monotone G. So the difference of two GMRs, or of two indices, is as extreme among
all flips as the difference of the mean terms.

Flips are drawn from a random subgroup of all of them. Each unit u gets a random code c_u of m bits, and
flip h, another number of m bits, changes the sign of u if `h & c_u` has an odd number of bits. All 2^m
flips are a group, so flips drawn from it without replacement, together with the identity, make the test
exact for any codes (Hemerik and Goeman 2018, doi:10.1007/s11749-017-0571-1). Over random codes, each
flip but the identity is uniform among all 2^n, and any two are independent of each other. So the
p-value has the mean and the variance that it has with signs drawn one by one. But the sums of all flips
are a Walsh-Hadamard transform of the sums by code, which costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import copysign, inf, log2, sqrt
from typing import Literal, NamedTuple

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank.stats._sample import ROUNDING, StandardError

Test = Literal["permutation", "t", "wilcoxon"]
Correction = Literal["holm", "bonferroni", "bh", "none"]
AT_ONCE = 7  # bits of codes that one matrix product transforms


class Permuted(NamedTuple):
    """The p-value of each column of differences under sign flips, and the interval of its mean."""

    p: Floats
    low: Floats
    high: Floats


def permutation(
    differences: Floats,
    weight: Floats,
    level: float,
    samples: int,
    seed: int,
    stretch: Floats | float = 1.0,
) -> Permuted:
    """Test each column of differences by two-sided sign flips, and find the means they do not reject.

    If there are at most `samples` flips of the k nonzero differences, the p-value is of all `2^k`;
    otherwise `samples` random ones are drawn, and the observed one is counted with them (Phipson and
    Smyth 2010). If units cross, the flips of one kind vary too little: `stretch` multiplies their sums,
    by the ratio of both standard errors.

    For the interval, let D and W be the sums of a column and of the weights, and `D_s`, `W_s` those
    under the flip s. The flip is as extreme as the data, under the mean difference m, if
    `|D - m W| <= |D_s - m W_s|`. This holds for m between `(D - D_s) / (W - W_s)` and
    `(D + D_s) / (W + W_s)`. So the p-value of m is the share of flips whose interval contains it.

    >>> d = np.array([[3.0], [1.0], [0.0], [2.0], [2.0], [1.0]])
    >>> [found.tolist() for found in permutation(d, np.ones(6), 0.9, samples=100, seed=0)]
    [[0.0625], [0.5], [2.5]]
    """
    rows, columns = differences.shape
    p, low, high = np.ones(columns), np.full(columns, -inf), np.full(columns, inf)
    stretch = np.broadcast_to(np.asarray(stretch, dtype=float), columns)
    few = (differences != 0).sum(axis=0) <= log2(samples)
    for column in np.flatnonzero(few):
        d = differences[differences[:, column] != 0, column]
        p[column] = _extreme(stretch[column] * _every(len(d)).sums(d), d) / 2 ** len(d)
    listed = rows <= log2(samples)
    own, count = (0, 2**rows) if listed else (1, samples)
    needed = int(np.floor((1.0 - level) * (count + own) * (1.0 + ROUNDING) - own))
    if needed < 0 and few.all():
        return Permuted(p, low, high)
    flips = _every(rows) if listed else _drawn(rows, samples, seed)
    total, weights = weight.sum(), flips.sums(weight)
    for i in range(columns):
        d = differences[:, i]
        flipped, observed = stretch[i] * flips.sums(d), d.sum()
        if not few[i]:
            p[i] = (_extreme(flipped, d) + 1) / (samples + 1)
        if needed < 0:
            continue
        w = stretch[i] * weights
        # all means, if the flip changes no sign or, stretched, more than all
        inside = np.abs(w) < total * (1.0 - ROUNDING)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.sort(
                [(observed - flipped) / (total - w), (observed + flipped) / (total + w)], axis=0
            )
        ends = np.where(inside, ends, [[-inf], [inf]])
        low[i] = np.partition(ends[0], needed)[needed]
        high[i] = np.partition(ends[1], count - 1 - needed)[count - 1 - needed]
    return Permuted(p, low, high)


class Flips(NamedTuple):
    """Some flips of the group that codes of some bits span, the identity being number 0."""

    bits: int
    codes: Ints
    numbers: Ints

    def sums(self, d: Floats) -> Floats:
        """Sum differences, one per unit, under each flip."""
        x: Floats = np.bincount(self.codes, weights=d, minlength=2**self.bits).astype(float, copy=False)
        for done in range(0, self.bits, AT_ONCE):
            more = min(AT_ONCE, self.bits - done)
            x = _hadamard(more) @ x.reshape(-1, 2**more, 2**done)
        return np.asarray(x.ravel()[self.numbers])


def _every(units: int) -> Flips:
    """List all flips of a few units: each has a bit of its own."""
    return Flips(units, 1 << np.arange(units), np.arange(2**units))


def _drawn(units: int, samples: int, seed: int) -> Flips:
    """Draw flips from a random group that is larger than their number, without the identity."""
    rng, bits = np.random.default_rng(seed), samples.bit_length()
    codes = rng.integers(2**bits, size=units)
    return Flips(bits, codes, 1 + rng.choice(2**bits - 1, samples, replace=False))


@cache
def _hadamard(bits: int) -> Floats:
    """Return the signs (-1)^|h & c| of all flips h and codes c (Sylvester's construction)."""
    if not bits:
        return np.ones((1, 1))
    half = _hadamard(bits - 1)
    return np.block([[half, half], [half, -half]])


def _extreme(sums: Floats, d: Floats) -> int:
    """Count the flips whose sum is at least as far from zero as that of the differences."""
    least = abs(d.sum()) - ROUNDING * np.abs(d).sum()
    return int((np.abs(sums) >= least).sum())


def t_test(difference: float, error: StandardError, units: int) -> float:
    """Compute the two-sided p-value of a mean difference by Student's t.

    Differences that do not vary have no t statistic. Then the p-value is that of sign flips, so that two
    units cannot make it zero.
    """
    from scipy.special import stdtr

    if difference == 0:
        return 1.0
    if error.size == 0:
        return float(2.0 ** (1 - units))
    return 2.0 * float(stdtr(error.df, -abs(difference) / error.size))


def wilcoxon(differences: Floats) -> float:
    """Compute the two-sided p-value of the signed-rank test, without zero differences (Wilcoxon 1945).

    Differences are rounded to 40 bits: 1/3 - 1/6 and 1/6, which differ only by rounding, are equal.
    """
    from scipy import stats

    fraction, exponent = np.frexp(differences[differences != 0])
    left = np.ldexp(np.round(np.ldexp(fraction, 40)), exponent - 40)
    return float(stats.wilcoxon(left).pvalue) if len(left) else 1.0


def standardised(difference: float, standard_error: float, units: int) -> float:
    """Compute the mean difference in standard deviations of the units' differences (Cohen's d_z)."""
    if difference == 0:
        return 0.0
    return difference / (standard_error * sqrt(units)) if standard_error else copysign(inf, difference)


def holm(p: Floats) -> Floats:
    """Control the family-wise error rate, step by step (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    return np.minimum(1.0, steps[np.argsort(order, kind="stable")])


def bonferroni(p: Floats) -> Floats:
    """Control the family-wise error rate in one step."""
    return np.minimum(1.0, p * len(p))


def benjamini_hochberg(p: Floats) -> Floats:
    """Control the false discovery rate (Benjamini and Hochberg 1995)."""
    from scipy import stats

    return np.asarray(stats.false_discovery_control(p))


CORRECTIONS: dict[Correction, Callable[[Floats], Floats]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "bh": benjamini_hochberg,
    "none": lambda p: p,
}
