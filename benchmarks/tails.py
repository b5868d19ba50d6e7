"""Tail probabilities beside their truth: the table in docs/chance.md.

    python benchmarks/tails.py

The truth is computed without any code of evenrank. Sums are convolved on a grid, tilted to the value in
question; every value is split between its two neighbours on the grid so that its mean is kept, and the
difference of 2^20 and 2^21 points, doubled, is shown as the accuracy. Whole numbers need no splitting.
Weighted hits are sums of binomial probabilities. A case is reported if the truth is outside the stated
error by more than the truth's own accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft, optimize, stats

import evenrank as er

Floats = NDArray[np.float64]
BINS = 1 << 21


class Case(NamedTuple):
    metric: str
    groups: tuple[tuple[int, int, float], ...]  # (candidates, targets, weight of each)
    z: tuple[float, ...]


TWO_RELATIONS = ((14_541, 1, 200.0), (14_541, 200, 1.0))
CASES = (
    Case("mrr", TWO_RELATIONS, (0.0, 0.5, 3.0, 30.0)),
    Case("mrr", ((14_541, 1000, 1.0),), (-1.0, 0.0, 1.5, 10.0, 300.0)),
    Case("mrr", ((14_541, 3, 1.0),), (0.0, 1.0, 100.0)),
    Case("mrr", ((14_541, 40_932, 1.0),), (0.0, 3.0, 100.0)),
    Case("hmr", ((3_000, 100, 1.0), (300, 7, 5.0)), (0.0, 1.0, 1.8)),
    Case("gmr", ((1_000, 60, 1.0), (90, 20, 3.3)), (-2.0, 0.0, 2.0)),
    Case("imr", ((1_000, 60, 1.0), (90, 20, 3.0)), (0.0, 2.0, 6.0)),
    Case("ndcg", ((10_000, 30, 1.0), (500, 5, 10.0)), (0.0, 2.0, 6.0)),
    Case("hits@10", TWO_RELATIONS, (0.0, 0.5, 3.0)),
    Case("hits@10", ((1_000, 50, 1.0), (3_000, 400, 0.3171)), (0.0, 2.0, 10.0)),
)
TERMS: dict[str, tuple[Callable[[Floats], Floats], Callable[[float], float], float]] = {
    "mrr": (lambda r: 1.0 / r, lambda x: x, 1.0),  # X, S as a function of the value, sign of better
    "hmr": (lambda r: 1.0 / r, lambda x: 1.0 / x, 1.0),
    "gmr": (np.log, log, -1.0),
    "imr": (lambda r: r, lambda x: 1.0 / x, -1.0),
    "ndcg": (lambda r: 1.0 / np.log2(1.0 + r), lambda x: x, 1.0),
}


def tilt(case: Case, y: float) -> float:
    """Find the tilt that moves the mean of sign * S to y, or 0 if y is below the mean."""
    x, _, sign = TERMS[case.metric]
    parts = [(sign * w * x(np.arange(1.0, n + 1.0)), c) for n, c, w in normalised(case)]

    def gap(theta: float) -> float:
        mean = 0.0
        for values, count in parts:
            weights = np.exp(theta * (values - values.max()))
            mean += count * float((weights * values).sum() / weights.sum())
        return mean - y

    if gap(0.0) >= 0:
        return 0.0
    high = 1.0
    while gap(high) < 0:
        high *= 2.0
    return float(optimize.brentq(gap, 0.0, high))


def normalised(case: Case) -> list[tuple[int, int, float]]:
    total = sum(count * weight for _, count, weight in case.groups)
    return [(size, count, weight / total) for size, count, weight in case.groups]


def by_grid(case: Case, y: float, bins: int) -> float:
    """Compute log P(sign * S >= y) by convolution on a grid over the whole range."""
    x, _, sign = TERMS[case.metric]
    parts = [(sign * w * x(np.arange(1.0, n + 1.0)), n, c) for n, c, w in normalised(case)]
    lowest = sum(c * values.min() for values, _, c in parts)
    reach = sum(c * values.max() for values, _, c in parts) - lowest
    theta, log_mgf, variance = tilt(case, y), 0.0, 0.0
    for values, _, count in parts:
        weights = np.exp(theta * (values - values.max()))
        mean = np.average(values, weights=weights)
        variance += count * float(np.average((values - mean) ** 2, weights=weights))
    # the sum is wrapped around a window that it never leaves
    window = min(reach, 80.0 * sqrt(variance) + 20.0 * max(float(np.ptp(v)) for v, _, _ in parts))
    step = window / bins
    if case.metric == "imr":
        step = min(w for _, _, w in normalised(case))  # of whole ranks
        y -= 1e-6 * step
    length = fft.next_fast_len(int(window / step) + sum(c for _, _, c in parts) + 2, real=True)
    wave = np.ones(length // 2 + 1, dtype=complex)
    for values, size, count in parts:
        weights = np.exp(theta * (values - values.max()))
        log_mgf += count * (log(weights.sum() / size) + theta * values.max())
        place = (values - values.min()) / step
        floor = np.floor(place + 1e-9).astype(int)
        upper = np.clip(place - floor, 0.0, 1.0) * weights / weights.sum()
        mass = np.bincount(floor, weights / weights.sum() - upper, length)
        mass += np.bincount(floor + 1, upper, length)
        wave *= fft.rfft(mass) ** count
    at = lowest + step * np.arange(length)
    if window < reach:
        at += length * step * np.round((y - at) / (length * step))
    probability = np.maximum(fft.irfft(wave, length), 0.0)[at >= y]
    with np.errstate(divide="ignore"):
        return log_mgf + float(np.logaddexp.reduce(np.log(probability) - theta * at[at >= y]))


def by_binomials(case: Case, value: float) -> float:
    """Compute log P(weighted hits >= value) from all pairs of two counts of hits."""
    k = int(case.metric.removeprefix("hits@"))
    (n1, c1, w1), (n2, c2, w2) = normalised(case)
    first, second = np.arange(c1 + 1), np.arange(c2 + 1)
    logs = np.add.outer(stats.binom.logpmf(first, c1, k / n1), stats.binom.logpmf(second, c2, k / n2))
    enough = np.add.outer(w1 * first, w2 * second) >= value - 1e-12
    return float(np.logaddexp.reduce(logs[enough]))


def main() -> None:
    print(
        "| metric | targets x candidates (weight) | value | z | log p: truth | evenrank | stated error |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    outside, largest = 0, 0.0
    for case in CASES:
        size, count, weight = (list(column) for column in zip(*case.groups, strict=True))
        null = er.chance(case.metric, size, counts=count, weights=weight)
        sign = 1.0 if null.metric.increasing else -1.0
        text = ", ".join(
            f"{c:,} x {n:,}" + (f" ({w:g})" if len(case.groups) > 1 else "") for n, c, w in case.groups
        )
        for z in case.z:
            value = float(null.mean()) + sign * z * float(null.std())
            got = null.logsf(value)
            if case.metric in TERMS:
                _, to_sum, better = TERMS[case.metric]
                y = better * to_sum(value)
                coarse, truth = by_grid(case, y, BINS // 2), by_grid(case, y, BINS)
                unsure = 2.0 * abs(truth - coarse) + 1e-9 * abs(truth) + 1e-9
            else:
                truth, unsure = by_binomials(case, value), 1e-9 * abs(float(got)) + 1e-9
            off = abs(truth - float(got))
            inside = off <= got.error + unsure
            outside += not inside
            largest = max(largest, off if got.error < inf else inf)
            print(
                f"| {case.metric} | {text} | {value:.5g} | {z:g} | {truth:.5f} ± {unsure:.0e} | "
                f"{float(got):.5f} | {got.error:.0e} ({got.method}){'' if inside else ' OUTSIDE'} |",
                flush=True,
            )
    print(f"\noutside their stated error: {outside}; largest difference of log p: {largest:.1e}")


if __name__ == "__main__":
    main()
