"""Paired tests of the null hypothesis that two models are exchangeable, and corrections for many tests.

All tests take differences `d_u`, one per independent unit and already summed over its targets. The
sign-flip permutation test assumes only that under the null hypothesis each `d_u` is as likely to have
the other sign. It tests the metric itself, though it adds terms: with the two means of terms
`(s + t) / 2` and `(s - t) / 2`, flips change `t` alone, and `|G((s + t) / 2) - G((s - t) / 2)|` grows
with `|t|` for every monotone G. So the difference of two GMRs, or of two indices, is as extreme among
all flips as the difference of the mean terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import copysign, inf, log2, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats
from evenrank.stats._sample import ROUNDING, StandardError

Test = Literal["permutation", "t", "wilcoxon"]
Correction = Literal["holm", "bonferroni", "bh", "none"]
BLOCK = 4_000_000  # signs in memory at once


def permutation(differences: Floats, samples: int, seed: int) -> Floats:
    """Compute the two-sided p-value of each column of differences under sign flips.

    If there are at most `samples` flips of the k nonzero differences, all `2^k` are listed; otherwise
    `samples` random ones are drawn, and the observed one is counted with them (Phipson and Smyth 2010).
    The matrix of signs is made in blocks.

    >>> permutation(np.array([[3.0], [1.0], [0.0], [2.0]]), samples=100, seed=0).tolist()
    [0.25]
    """
    p = np.ones(differences.shape[1])
    count = (differences != 0).sum(axis=0)
    few = count <= log2(samples)
    for column in np.flatnonzero(few):
        d = differences[differences[:, column] != 0, column]
        p[column] = sum(_as_extreme(flips, d[:, None])[0] for flips in _listed(len(d))) / 2 ** len(d)
    many = np.flatnonzero(~few)
    if len(many):
        d = differences[np.ix_((differences[:, many] != 0).any(axis=1), many)]
        rng, step = np.random.default_rng(seed), max(1, BLOCK // len(d))
        extreme = np.zeros(len(many))
        for first in range(0, samples, step):
            rows = min(step, samples - first)
            extreme += _as_extreme(_coins(rng, rows, len(d)), d)
        p[many] = (extreme + 1) / (samples + 1)
    return p


def _listed(columns: int) -> Iterator[Floats]:
    """List all combinations of signs, in blocks."""
    step = max(1, BLOCK // max(1, columns))
    for first in range(0, 2**columns, step):
        number = np.arange(first, min(first + step, 2**columns))
        yield (number[:, None] >> np.arange(columns) & 1).astype(float)


def _coins(rng: np.random.Generator, rows: int, columns: int) -> Floats:
    """Draw random signs, one bit each."""
    width = -(-columns // 8)
    bits = np.frombuffer(rng.bytes(rows * width), dtype=np.uint8).reshape(rows, width)
    return np.unpackbits(bits, axis=1, count=columns).astype(float)


def _as_extreme(flips: Floats, d: Floats) -> NDArray[np.int64]:
    """Count the flips whose sum is at least as far from zero as the observed sum."""
    total = d.sum(axis=0)
    least = np.abs(total) - ROUNDING * np.abs(d).sum(axis=0)
    return np.asarray((np.abs(total - 2.0 * (flips @ d)) >= least).sum(axis=0))


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
