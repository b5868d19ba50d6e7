"""Paired tests of the null hypothesis that two models are exchangeable, and corrections for many tests.

All tests take differences `d_u`, one per independent unit and already summed over its targets. The
sign-flip permutation test assumes only that under the null hypothesis each `d_u` is as likely to have
the other sign. It tests the metric itself, though it adds terms: with the two means of terms
`(s + t) / 2` and `(s - t) / 2`, flips change `t` alone, and `|G((s + t) / 2) - G((s - t) / 2)|` grows
with `|t|` for every monotone G. So the difference of two GMRs, or of two indices, is as extreme among
all flips as the difference of the mean terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import copysign, inf, log2, sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank.stats._sample import ROUNDING, StandardError

Test = Literal["permutation", "t", "wilcoxon"]
Couple: TypeAlias = tuple[str, str, str]  # a metric, and two models
Correction = Literal["holm", "bonferroni", "bh", "none"]
BLOCK = 4_000_000  # signs drawn at once
CACHED = 1_000_000  # signs summed at once
KEPT = 10_000_000  # sums of flips in memory at once


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
    couples: Sequence[Couple] = (),
    stretch: Floats | float = 1.0,
    others: Sequence[tuple[Couple, Floats]] = (),
) -> Permuted:
    """Test each column of differences by two-sided sign flips, and find the means they do not reject.

    If there are at most `samples` flips of the k nonzero differences, the p-value is of all `2^k`;
    otherwise `samples` random ones are drawn, and the observed one is counted with them (Phipson and
    Smyth 2010). The matrix of signs is made in blocks. `couples` names the metric and the two models of
    each column: the sums of many couples follow from those of fewer, also from those of `others`, which
    are not tested. If units cross, the flips of one kind vary too little: `stretch` multiplies their
    sums, by the ratio of both standard errors.

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
        sums, least = _observed(d)
        each = (_extreme(flips @ d, sums, least, stretch[column]) for flips in _listed(len(d)))
        p[column] = sum(each) / 2 ** len(d)
    listed = rows <= log2(samples)
    own, count = (0, 2**rows) if listed else (1, samples)
    needed = int(np.floor((1.0 - level) * (count + own) * (1.0 + ROUNDING) - own))
    if needed < 0 and few.all():
        return Permuted(p, low, high)
    step = max(1, KEPT // count)
    for first in range(0, columns, step):
        block = slice(first, first + step)
        d = differences[:, block]
        named = [*(couples[block] or [("", str(i), "") for i in range(d.shape[1])])]
        every = np.column_stack([d, *(column for _, column in others)])
        choices = [_basis(d, named), _basis(every, [*named, *(couple for couple, _ in others)])]
        basis, mixed = min(choices, key=lambda made: len(made[0]))
        both = np.column_stack([every[:, basis], weight])
        blocks = _listed(rows) if listed else _drawn(rows, samples, seed)
        sums = np.concatenate([flips @ both for flips in blocks])
        flipped, total = sums[:, :-1] @ mixed[:, : d.shape[1]], weight.sum()
        extreme = _extreme(flipped, *_observed(d), stretch[block])
        p[block] = np.where(few[block], p[block], (extreme + 1) / (samples + 1))
        for i in range(d.shape[1]) if needed >= 0 else ():
            ratio, observed = stretch[first + i], d[:, i].sum()
            gap, w = ratio * (observed - 2.0 * flipped[:, i]), ratio * (total - 2.0 * sums[:, -1])
            # all means, if the flip changes no sign or, stretched, more than all
            inside = np.abs(w) < total * (1.0 - ROUNDING)
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.sort([(observed - gap) / (total - w), (observed + gap) / (total + w)], axis=0)
            ends = np.where(inside, ends, [[-inf], [inf]])
            low[first + i] = np.partition(ends[0], needed)[needed]
            high[first + i] = np.partition(ends[1], count - 1 - needed)[count - 1 - needed]
    return Permuted(p, low, high)


def _listed(columns: int) -> Iterator[Floats]:
    """List all combinations of signs, in blocks."""
    step = max(1, BLOCK // max(1, columns))
    for first in range(0, 2**columns, step):
        number = np.arange(first, min(first + step, 2**columns))
        yield (number[:, None] >> np.arange(columns) & 1).astype(float)


def _drawn(columns: int, samples: int, seed: int) -> Iterator[Floats]:
    """Draw random signs, one bit each, and yield them in pieces that fit into a processor's cache.

    A piece is valid until the next one.
    """
    rng, width = np.random.default_rng(seed), -(-columns // 8)
    drawn, step = max(1, BLOCK // columns), max(1, CACHED // columns)
    signs = np.empty((min(step, drawn), columns))
    for first in range(0, samples, drawn):
        rows = min(drawn, samples - first)
        bits = np.frombuffer(rng.bytes(rows * width), dtype=np.uint8).reshape(rows, width)
        for start in range(0, rows, step):
            some = np.unpackbits(bits[start : start + step], axis=1, count=columns)
            signs[: len(some)] = some
            yield signs[: len(some)]


def _observed(d: Floats) -> tuple[Floats, Floats]:
    """Sum the columns, and return how far from zero a sum must be to count as that far."""
    total = d.sum(axis=0)
    return total, np.abs(total) - ROUNDING * np.abs(d).sum(axis=0)


def _extreme(flipped: Floats, total: Floats, least: Floats, stretch: Floats | float = 1.0) -> Ints:
    """Count the flips whose sum is at least as far from zero as the observed sum.

    `flipped` holds the sum of the differences whose sign is flipped, for each flip.
    """
    return np.asarray((stretch * np.abs(total - 2.0 * flipped) >= least).sum(axis=0))


def _basis(d: Floats, couples: Sequence[Couple]) -> tuple[list[int], Floats]:
    """Choose columns to sum, and the matrix that turns their sums into those of all columns.

    With k models, k - 1 columns are enough: those of the first model with each other one. A column is
    only computed from two others if the rounding error stays below what counts as equal.
    """
    place, size = {couple: i for i, couple in enumerate(couples)}, np.abs(d).sum(axis=0)
    root: dict[str, str] = {}
    basis: list[int] = []
    mixed: list[dict[int, float]] = []
    for column, (metric, first, second) in enumerate(couples):
        head = root.setdefault(metric, first)
        i, j = place.get((metric, head, first)), place.get((metric, head, second))
        if i is not None and j is not None:
            apart = np.abs(d[:, j] - d[:, i] - d[:, column]).sum()
            if apart <= 0.1 * ROUNDING * size[column] and size[i] + size[j] <= 100 * size[column]:
                mixed.append({i: -1.0, j: 1.0})
                continue
        mixed.append({column: 1.0})
        basis.append(column)
    return basis, np.array([[terms.get(i, 0.0) for terms in mixed] for i in basis])


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
