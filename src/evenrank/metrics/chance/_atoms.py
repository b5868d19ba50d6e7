"""Tails of sums that take few values: the sums of two halves of the targets are listed, then paired.

Probabilities are tilted while they are convolved, so that the far tail keeps its relative precision.
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from evenrank._internal.arrays import Floats, Function
from evenrank.metrics.chance._sum import Sizes

MOST_VALUES = 200_000  # of one half
MOST_PRODUCTS = 2_000_000  # in all convolutions
MOST_TERMS = 20_000  # values of one target

Values = tuple[Floats, Floats]  # ascending values, and their probabilities under the tilt


def log_tail_of_few(x: Function, sizes: Sizes, theta: float, y: float) -> float | None:
    """Compute log P(sum w X >= y), or return None if the sums take too many values.

    `theta` is the tilt that moves the mean to y; it affects only the precision.
    """
    halves = _halves(x, sizes, theta)
    if halves is None:
        return None
    log_total, (left, p), (right, q) = halves
    with np.errstate(divide="ignore"):
        above = np.logaddexp.accumulate((np.log(q) - theta * right)[::-1])[::-1]
        at = np.searchsorted(right, y - left)
        logs = np.log(p) - theta * left + np.append(above, -inf)[at]
    return log_total + float(np.logaddexp.reduce(logs))


def values_of_few(x: Function, sizes: Sizes) -> Values | None:
    """Return the values of sum w X and their probabilities, or None if there are too many."""
    halves = _halves(x, sizes, 0.0)
    if halves is None:
        return None
    return _convolved(*halves[1:], float(np.abs(halves[1][0]).max()), [MOST_PRODUCTS])


def _halves(x: Function, sizes: Sizes, theta: float) -> tuple[float, Values, Values] | None:
    """List the sums of two halves of the targets; also return the log of the tilt's normalisation."""
    if len(sizes.size) > 64 or sizes.size.max() > MOST_TERMS:
        return None
    log_total, parts = 0.0, []
    ranks = x(np.arange(1.0, sizes.size.max() + 1.0))
    scale = float(np.abs(ranks).max())
    budget = [MOST_PRODUCTS]
    for size, weight, count in zip(sizes.size, sizes.weight, sizes.count, strict=True):
        values = weight * ranks[:size]
        peak = float(values.max()) * theta
        tilted = np.exp(values * theta - peak)
        log_total += float(count) * (log(tilted.sum() / size) + peak)
        one = _merged(values, tilted / tilted.sum(), scale)
        for half in (int(count) // 2, int(count) - int(count) // 2):
            if half:
                part = _power(one, half, scale, budget)
                if part is None:
                    return None
                parts.append(part)
    while len(parts) > 2:
        parts.sort(key=lambda part: len(part[0]))
        both = _convolved(parts[0], parts[1], scale, budget)
        if both is None:
            return None
        parts[:2] = [both]
    left, right = parts if len(parts) == 2 else (parts[0], (np.zeros(1), np.ones(1)))
    return (log_total, left, right) if len(left[0]) >= len(right[0]) else (log_total, right, left)


def _merged(values: Floats, mass: Floats, scale: float) -> Values:
    """Sort values and merge those that differ by rounding."""
    order = np.argsort(values)
    values, mass = values[order], mass[order]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values) > 1e-14 * scale]))
    return values[starts], np.add.reduceat(mass, starts)


def _convolved(a: Values, b: Values, scale: float, budget: list[int]) -> Values | None:
    budget[0] -= len(a[0]) * len(b[0])
    if budget[0] < 0:
        return None
    sums, mass = np.add.outer(a[0], b[0]).ravel(), np.multiply.outer(a[1], b[1]).ravel()
    both = _merged(sums, mass, scale)
    return both if len(both[0]) <= MOST_VALUES else None


def _power(one: Values, count: int, scale: float, budget: list[int]) -> Values | None:
    """Convolve `count` equal targets."""
    total: Values | None = None
    square: Values | None = one
    while count and square is not None:
        if count % 2:
            total = square if total is None else _convolved(total, square, scale, budget)
            if total is None:
                return None
        count //= 2
        if count:
            square = _convolved(square, square, scale, budget)
    return total if square is not None else None
