"""Metrics of several answers by their definition, on all rankings of a few queries or on random ones.

These share only the definitions of metrics with the closed forms; they check these, and serve where
there is no closed form.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError, Option
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance._check import BATCH, MOST_DRAWS, MOST_OUTCOMES


def values(metric: QueryMetric, positions: Ints, gains: Floats, candidates: int) -> Floats:
    """Evaluate a metric by its definition on rankings of one query.

    Positions of the answers ascend in each row; gains are those of the answers at these positions.
    """
    m = positions.shape[1]
    if not m:
        return np.zeros(len(positions))
    k = m if metric.k == "answers" else metric.k or candidates
    counts, number = positions <= k, np.arange(1.0, m + 1.0)
    if metric.kind == "auc":
        return np.asarray(1.0 - (positions - number).sum(axis=1) / (m * (candidates - m)))
    d = metric.discount(positions.astype(float))
    if metric.kind == "first":
        return np.asarray((d * counts)[:, 0])
    if metric.kind == "cascade":
        stop = metric.worth(gains)
        total, left = np.zeros(len(positions)), np.ones(len(positions))
        for s in range(m):
            total += left * stop[:, s] / positions[:, s] * counts[:, s]
            left *= 1.0 - stop[:, s]
        return total
    each = number / positions if metric.kind == "precision" else d * metric.worth(gains)
    norm = {
        "one": 1.0,
        "k": float(k),
        "answers": float(m),
        "least": float(min(m, k)),
        "mean": (m + k) / 2.0,
        "ideal": _ideal(metric, gains[0], k),
    }[metric.norm]
    return np.asarray((each * counts).sum(axis=1) / norm)


def _ideal(metric: QueryMetric, gains: Floats, k: int) -> float:
    most = np.sort(metric.worth(gains))[::-1][:k]
    return float(most @ metric.discount(np.arange(1.0, len(most) + 1.0))) or 1.0


def arrangements(gains: Floats) -> Floats:
    """List the distinct orders of gains.

    >>> arrangements(np.array([2.0, 1.0, 1.0])).tolist()
    [[1.0, 1.0, 2.0], [1.0, 2.0, 1.0], [2.0, 1.0, 1.0]]
    """
    lowest, m = gains.min(), len(gains)
    others = gains[gains != lowest]
    if not len(others):
        return gains[None].copy()
    rest = arrangements(others)
    out = np.full((comb(m, len(others)), len(rest), m), lowest)
    chosen = reversed(list(combinations(range(m), len(others))))
    for row, places in zip(out, chosen, strict=True):
        row[:, list(places)] = rest
    return out.reshape(-1, m)


def outcomes(metric: QueryMetric, shapes: Shapes) -> int:
    """Count the equally likely outcomes, up to far more than can be listed."""
    total = 1
    for row, (n, m, count) in enumerate(_rows(shapes)):
        if n > MOST_OUTCOMES and m:
            return 10**18
        orders = _orders(shapes.gains(row)) if metric.graded else 1
        total *= (comb(n, m) * orders) ** min(count, 64)
        if total > 10**18:
            return 10**18
    return total


def _orders(gains: Floats) -> int:
    left, total = len(gains), 1
    for count in np.unique(gains, return_counts=True)[1].tolist():
        total, left = total * comb(left, count), left - count
    return total


def _rows(shapes: Shapes) -> list[tuple[int, int, int]]:
    columns = (shapes.rows["candidates"], shapes.rows["answers"], shapes.rows.counts)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def enumerated(metric: QueryMetric, shapes: Shapes, share: Floats) -> Floats:
    """Compute the mean over queries for every outcome; all are equally likely."""
    total = outcomes(metric, shapes)
    if total > MOST_OUTCOMES:
        raise InputError(
            "too many outcomes to enumerate",
            got=f"{total:,}" if total < 10**18 else "more than 10^17",
            allowed=f"up to {MOST_OUTCOMES:,} (the product over queries of the orders of their answers)",
            do=[Option("method", "exact"), " or ", Option("method", "sample")],
        )
    found = np.zeros(1)
    for row, (n, m, count) in enumerate(_rows(shapes)):
        if not m:
            continue
        gains = shapes.gains(row)
        orders = arrangements(gains) if metric.graded else gains[None]
        places = np.array(list(combinations(range(1, n + 1), m)))
        one = values(
            metric, np.repeat(places, len(orders), axis=0), np.tile(orders, (len(places), 1)), n
        )
        for _ in range(count):
            found = np.add.outer(found, share[row] * one).ravel()
    return found


def sampled(metric: QueryMetric, shapes: Shapes, share: Floats, samples: int, seed: int) -> Floats:
    """Compute the mean over queries for random rankings."""
    work = samples * sum(count * min(m * (m + 1), n) for n, m, count in _rows(shapes))
    if work > MOST_DRAWS:
        raise InputError(
            "too many positions to draw",
            got=f"{samples:,} samples of {shapes.total:,} queries",
            allowed="about 10^9 answers in all",
            do="use fewer samples, or the exact method",
        )
    rng = np.random.default_rng(seed)
    found = np.zeros(samples)
    for row, (n, m, count) in enumerate(_rows(shapes)):
        if not m:
            continue
        gains, step = shapes.gains(row), max(1, BATCH // min(m * m, n))
        for _ in range(count):
            for start in range(0, samples, step):
                rows = min(step, samples - start)
                places = _subsets(rng, n, m, rows)
                mixed = np.tile(gains, (rows, 1))
                if metric.graded:
                    mixed = rng.permuted(mixed, axis=1)
                found[start : start + rows] += share[row] * values(metric, places, mixed, n)
    return found


def _subsets(rng: np.random.Generator, n: int, m: int, rows: int) -> Ints:
    """Draw ascending uniform m-subsets of 1..n, by sorting or, for a few of many, by Floyd's method."""
    if m * m >= n:
        order = np.argpartition(rng.random((rows, n)), m - 1, axis=1)[:, :m] + 1
        return np.sort(order, axis=1)
    chosen = np.zeros((rows, m), dtype=np.int64)
    for i, top in enumerate(range(n - m + 1, n + 1)):
        drawn = rng.integers(1, top, rows, endpoint=True)
        taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, top, drawn)
    return np.sort(chosen, axis=1)
