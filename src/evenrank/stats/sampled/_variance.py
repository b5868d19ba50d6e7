"""The variance of a mean of corrections: over candidates, or over targets and candidates."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank.stats.sampled._corrections import Fit
from evenrank.stats.sampled._design import Design


def spread(table: Floats, design: Design, fit: Fit) -> Floats:
    """Compute the expected variance of T over candidates for each target, under a fit."""
    row = table[0] if len(table) == 1 else table[np.searchsorted(design.sizes, design.typical)]
    p = fit.distribution(design)
    variance = np.maximum(p @ row**2 - (p @ row) ** 2, 0.0)
    return design.look_up(fit.expected(variance, design)[None, :])


def over_draws(weight: Floats, variance: Floats, draw: Ints) -> float:
    """Compute an upper bound of the standard error of a mean over candidates."""
    return sqrt(of_draws(weight, variance, draw)) / float(weight.sum())


def of_draws(weight: Floats, variance: Floats, draw: Ints) -> float:
    """Compute an upper bound of the variance of a sum over candidates; targets of a draw are dependent.

    `sd(sum) <= sum of sd`, so that a draw contributes at most its weight times the weighted sum of
    variances.
    """
    return float((np.bincount(draw, weight) * np.bincount(draw, weight * variance)).sum())


def unseen(weight: Floats, unit: Ints, level: float) -> float:
    """Bound the share of values that occurred in no unit, at a confidence level (the rule of three).

    An event with probability `log(2 / (1 - level)) / n` is missing from n independent units with
    probability `(1 - level) / 2`; units of different weight count as fewer (the effective sample size
    of Kish: 1 / sum of squared shares).
    """
    share = np.bincount(unit, weights=weight) / weight.sum()
    return min(1.0, log(2.0 / (1.0 - level)) * float((share**2).sum()))


def step_of_mean_rank(designs: Sequence[Design], weight: Floats, draw: Ints) -> float:
    """Compute by how much one more better candidate raises the weighted sum of ranks, on average.

    If few candidates are better, their number is nearly a Poisson variable, and skewed: the variance at
    the ends of the interval depends on this step.
    """
    each = np.zeros(len(weight))
    for design in designs:
        if not design.exhaustive:
            others = (design.sizes - 1.0)[design.size_of]
            each[design.targets] = weight[design.targets] * others / design.drawn
    steps = np.bincount(draw, weights=each)
    return float((steps**2).sum() / (steps.sum() or 1.0))


def of_mean_rank(designs: Sequence[Design], weight: Floats, draw: Ints) -> tuple[float, float] | None:
    """Compute the unbiased variance of the sum of ranks over candidates, and its number of draws.

    None if a single candidate was drawn, which shows no variance. The number of draws is an effective
    one, `(sum v)^2 / sum v^2`: for a model whose targets nearly always win, few draws contribute to the
    variance, and it is known no better than that.

    Candidates better than a target are better than every target below it, so that among the candidates
    of a draw the sets counted are nested: with `a = w (N - 1) / k`, the sum of `a x` over the targets of
    a draw is a sum over its k candidates, and their sample variance gives

        (1 - k / (N - 1)) k / (k - 1) (sum_ij a_i a_j min(x_i, x_j) - (sum_i a_i x_i)^2 / k)

    with `k / (N - 1)` left out if candidates are drawn with replacement. A tie counts half with each of
    its extreme ranks, whose sets are nested as well.
    """
    a, x, k = (np.zeros(2 * len(weight)) for _ in range(3))
    owner = np.tile(draw, 2)
    for design in designs:
        if design.drawn < 2 and not design.exhaustive:
            return None
        others = (design.sizes - 1.0)[design.size_of]
        drawn_share = 0.0 if design.replace else design.drawn / np.maximum(others, 1.0)
        left = np.maximum(1.0 - drawn_share, 0.0)
        drawn = max(design.drawn, 1)
        scale = others / drawn * np.sqrt(left * drawn / max(drawn - 1, 1))
        for half, count in ((0, design.low), (len(weight), design.high)):
            at = design.targets + half
            a[at], x[at] = weight[design.targets] * scale / 2.0, count
            k[at] = design.drawn
    order = np.lexsort((x, owner))
    a, x, k, owner = a[order], x[order], np.maximum(k[order], 1.0), owner[order]
    above = _within(a, owner)  # the sum of a from here to the end of the draw
    shared = np.bincount(owner, weights=x * (above**2 - (above - a) ** 2))
    square = np.bincount(owner, weights=a * x / np.sqrt(k)) ** 2
    variance = np.maximum(shared - square, 0.0)
    total = float(variance.sum())
    return total, total**2 / float((variance**2).sum() or 1.0)


def _within(values: Floats, owner: Ints) -> Floats:
    """Sum from each value to the last of the same owner; owners are sorted."""
    back = np.cumsum(values[::-1])[::-1]
    ends = np.searchsorted(owner, owner, side="right")
    return np.asarray(back - np.append(back, 0.0)[ends])
