"""Null distributions by enumeration of all outcomes, or by sampling.

They share only the definition of the metric with the exact methods; they check these, and serve metrics
that have no exact method.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import copysign, fsum, inf, log, prod, sqrt

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank.errors import InputError, Option
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.chance._moment import Moment, infinite
from evenrank.metrics.chance._sum import Sizes
from evenrank.metrics.metric import NEAR_ZERO, NORMAL_QUARTILE, TINY, Metric, Statistic, quantile

MOST_OUTCOMES = 2_000_000
MOST_DRAWS = 4_000_000_000
BATCH = 4_000_000


def outcomes(sizes: Sizes) -> float:
    """Return the number of equally likely outcomes."""
    log_count = float((np.log(sizes.size) * sizes.count).sum())
    return (
        prod(int(s) ** int(c) for s, c in zip(sizes.size, sizes.count, strict=True))
        if (log_count < 40)
        else inf
    )


def _tasks(sizes: Sizes) -> tuple[Floats, Floats]:
    repeat = sizes.count.astype(np.int64)
    return np.repeat(sizes.size, repeat).astype(float), np.repeat(sizes.weight, repeat)


def values(metric: Metric | Statistic, ranks: Floats, weight: Floats) -> Floats:
    """Evaluate a metric by its definition on every row of a matrix of ranks."""
    with np.errstate(divide="ignore"):
        if isinstance(metric, Metric):
            f, p = metric.f(ranks), metric.p
            if abs(p) == inf:
                mean = f.max(axis=1) if p > 0 else f.min(axis=1)
            elif p == 0:
                mean = np.exp(np.log(f) @ weight)
            elif abs(p) < NEAR_ZERO:
                p = copysign(max(abs(p), TINY), p)
                top = f.max(axis=1, keepdims=True)
                with np.errstate(invalid="ignore", over="ignore"):
                    excess = np.expm1(p * np.log(f / top)) @ weight
                    mean = np.nan_to_num(top[:, 0] * np.exp(np.log1p(excess) / p))
            else:
                mean = (f**p @ weight) ** (1.0 / p)
            return np.asarray(mean ** float(metric.q))
        if metric.kind == "count":
            return np.full(len(ranks), float(ranks.shape[1]))
        mean = ranks @ weight
        if metric.kind in ("var", "std"):
            variance = (ranks - mean[:, None]) ** 2 @ weight
            return np.asarray(variance if metric.kind == "var" else np.sqrt(variance))
        equal = bool((weight == weight[0]).all())
        mass = np.ones_like(weight) if equal else weight

        def at(rows: Floats, level: float) -> Floats:
            if equal:
                return np.asarray(np.quantile(rows, level, axis=1))
            return np.array([quantile(row, mass, level, equal) for row in rows])

        if metric.kind == "quantile":
            return np.asarray(at(ranks, metric.at or 0.0) ** float(metric.q))
        middle = at(ranks, 0.5)
        return at(np.abs(ranks - middle[:, None]), 0.5) / NORMAL_QUARTILE


def enumerated(metric: Metric | Statistic, sizes: Sizes) -> Floats:
    """Compute the metric for every outcome; all are equally likely."""
    total = outcomes(sizes)
    if total > MOST_OUTCOMES:
        raise InputError(
            "too many outcomes to enumerate",
            got=f"{total:,.0f}" if total < inf else "more than 10^17",
            allowed=f"up to {MOST_OUTCOMES:,} (the product of all numbers of candidates)",
            do=[Option("method", "exact"), " or ", Option("method", "sample")],
        )
    size, weight = _tasks(sizes)
    index = np.arange(int(total))
    columns = []
    for n in size.astype(np.int64):
        index, digit = np.divmod(index, n)
        columns.append(digit + 1.0)
    return values(metric, np.stack(columns, axis=1), weight)


def sampled(metric: Metric | Statistic, sizes: Sizes, samples: int, seed: int) -> Floats:
    """Compute the metric for random outcomes."""
    if samples * sizes.n > MOST_DRAWS:
        raise InputError(
            "too many ranks to draw",
            got=f"{samples:,} samples of {sizes.n:,} targets",
            allowed=f"up to {MOST_DRAWS:,} ranks in all",
            do="use fewer samples, or the exact method",
        )
    return np.concatenate(list(_draws(metric, sizes, samples, seed)))


def _draws(metric: Metric | Statistic, sizes: Sizes, samples: int, seed: int) -> Iterator[Floats]:
    size, weight = _tasks(sizes)
    rng = np.random.default_rng(seed)
    step = max(1, BATCH // len(size))
    for first in range(0, samples, step):
        rows = min(step, samples - first)
        ranks = rng.integers(1, size.astype(np.int64), (rows, len(size)), endpoint=True)
        yield values(metric, ranks.astype(float), weight)


def _moments(sample: Floats, *, whole: bool) -> tuple[float, float, float, float]:
    """Compute mean and variance, and their standard errors, which are 0 for all outcomes."""
    n = len(sample)
    mean = fsum(sample) / n
    square = (sample - mean) ** 2
    if whole:
        return mean, fsum(square) / n, 0.0, 0.0
    variance = fsum(square) / (n - 1)
    fourth = fsum(square**2) / n
    return mean, variance, sqrt(variance / n), sqrt(max(0.0, fourth - variance**2) / n)


class Outcomes:
    """The null distribution of any metric as a list of its values, all or sampled."""

    def __init__(self, metric: Metric | Statistic | QueryMetric, values: Floats, method: str) -> None:
        self.metric, self.values, self.method = metric, values, method

    def moments(self) -> tuple[Moment, Moment]:
        """Compute mean and variance, with standard errors if sampled."""
        if not np.isfinite(self.values).all() and not isinstance(self.metric, QueryMetric):
            raise infinite(self.metric)
        mean, variance, error, error2 = _moments(self.values, whole=self.method == "enumerate")
        return Moment(mean, self.method, error), Moment(variance, self.method, error2)

    def log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value), up to rounding errors."""
        sign = 1.0 if self.metric.increasing else -1.0
        slack = 1e-12 * abs(value) if abs(value) < inf else 0.0
        share = float((sign * self.values >= sign * value - slack).mean())
        if not share:
            return Moment(-inf, self.method, inf if self.method == "sample" else 0.0)
        if self.method == "sample":  # half an outcome is added, or 1 would have no error
            n = len(self.values)
            moved = (share * n + 0.5) / (n + 1.0)
            return Moment(log(share), self.method, sqrt(moved * (1.0 - moved) / n) / share)
        return Moment(log(share), self.method, 1e-12)
