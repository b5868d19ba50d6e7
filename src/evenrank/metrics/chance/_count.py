"""Poisson-binomial distributions: the number of successes in independent trials.

Probabilities are computed by a discrete Fourier transform on a window around the mean; only frequencies
where the characteristic function is above 1e-20 contribute, about forty. For far tails, the success
probabilities are tilted so that the count in question is near the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asinh, ceil, inf, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats
from evenrank.metrics.chance._sum import CHUNK, Sizes

Complexes = NDArray[np.complex128]
LOST = 42.0  # exponent of the error of interpolation: e^-42 ~ 1e-18


@dataclass(frozen=True)
class Trials:
    """Independent trials in groups: `count` of them succeed with probability `min(1, x * rate)`."""

    rate: Floats
    count: Floats
    n: int

    @classmethod
    def of(cls, sizes: Sizes) -> Trials:
        """Create one trial per target; its rate is one over its number of candidates."""
        distinct, index = np.unique(sizes.size, return_inverse=True)
        count = np.bincount(index, weights=sizes.count).astype(float)
        return cls(1.0 / distinct, count, sizes.n)

    def at(self, x: Floats) -> Floats:
        """Compute success probabilities by row of x and group.

        A group saturates half a step early, which changes no probability at integers, and makes them a
        smooth function of x on panels that start at its size or end before it.
        """
        p = np.multiply.outer(x, self.rate)
        return np.where(p > 1.0 - 0.499999 * self.rate, 1.0, p)

    def merged(self, smallest: float) -> Trials:
        """Merge the groups that always succeed from `smallest` on."""
        sure = self.rate * smallest >= 1.0
        if not sure.any():
            return self
        return Trials(
            np.concatenate([self.rate[~sure], [2.0 / smallest]]),
            np.concatenate([self.count[~sure], [self.count[sure].sum()]]),
            self.n,
        )

    def compressed(self, largest: float) -> Trials:
        """Replace the groups that do not saturate up to `largest` by few equivalent ones.

        Sums of `c_u phi(rate_u)` over groups enter only through functions phi that are analytic far
        beyond the range of rates, so interpolating phi at Chebyshev nodes and pushing the weights onto
        the nodes loses no precision. At the relevant frequencies (`omega < 1/2`, from 20 deviations on),
        `log(1 + x rate (e^(i omega) - 1))` is singular two largest rates off the real line at least:
        the error falls like `exp(-asinh(2 most/half))` per node, `half` being half the width.
        """
        free = self.rate * largest < 1.0
        if not free.any():
            return self
        rate, count = self.rate[free], self.count[free]
        middle, half = (rate.max() + rate.min()) / 2.0, (rate.max() - rate.min()) / 2.0
        nodes = ceil(LOST / asinh(2.0 * rate.max() / half)) if half else 1
        if len(rate) <= 2 * nodes:
            return self
        angle = (np.arange(nodes) + 0.5) * pi / nodes
        k = np.arange(nodes)
        # sum_u c_u phi(rate_u) with phi interpolated: T_k moments of the rates, then back to nodes
        moments = np.cos(np.multiply.outer(k, np.arccos(np.clip((rate - middle) / half, -1, 1)))) @ count
        moments[1:] *= 2.0
        weights = np.cos(np.multiply.outer(angle, k)) @ moments / nodes
        return Trials(
            np.concatenate([middle + half * np.cos(angle), self.rate[~free]]),
            np.concatenate([weights, self.count[~free]]),
            self.n,
        )


def log_count(p: Floats, count: Floats, m: int, *, tail: bool, tilt: bool) -> Floats:
    """Compute log P(C = m), or log P(C >= m) with `tail`, for rows of success probabilities.

    Without `tilt` the absolute error of the probability is about 1e-15, with it the relative one.
    """
    n = round(float(count.sum()))
    simple = _simple(p, count, m, n, tail=tail)
    if simple is not None:
        return simple
    sure, possible = (count * (p >= 1.0)).sum(axis=1), (count * (p > 0.0)).sum(axis=1)
    theta, scale = np.zeros(len(p)), np.zeros(len(p))
    if tilt:
        away = (count * p).sum(axis=1) < m if tail else np.ones(len(p), dtype=bool)
        theta = np.where(away, _saddle(p, count, np.clip(m, sure + 0.5, possible - 0.5)), 0.0)
        theta = (
            np.maximum(theta, 0.0) if tail else theta
        )  # there is no saddlepoint where m is impossible
        p, scale = _tilted(p, count, theta)
        scale -= theta * m
    start, window, omega = _window(p, count, n)
    terms = np.maximum(start + window - m, 0.0)  # counts from m to the window's end
    mass = _flat(theta, terms) if tail else np.ones(len(p))
    step = max(1, CHUNK // max(1, p.size))
    for first in range(0, len(omega), step):
        w = omega[first : first + step]
        value = _characteristic(p, count, w, m)
        if tail:  # sum the probabilities from m on: a geometric series in every frequency
            ratio = np.exp(-(theta[:, None] + 1j * w))
            value = value * (1.0 - ratio ** terms[:, None]) / (1.0 - ratio)
        mass = mass + 2.0 * value.real.sum(axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(np.clip(mass / window, 0.0, None if tilt else 1.0)) + scale
    # a tolerance of half a count: the counts of compressed trials are not whole
    never = (m > possible + 0.5) | (m >= start + window)
    if tail:
        always = (m <= sure + 0.5) | ((m <= start) & (not tilt))
        return np.where(never, -inf, np.where(always, 0.0, logs))
    return np.where(never | (m < sure - 0.5) | (m < start), -inf, logs)


def _simple(p: Floats, count: Floats, m: int, n: int, *, tail: bool) -> Floats | None:
    """Compute probabilities that are products; None for other counts."""
    with np.errstate(divide="ignore"):
        if m > n or (m < 0 and not tail):
            return np.full(len(p), -inf)
        if m <= 0 and tail:
            return np.zeros(len(p))
        if m == n:
            return np.asarray((np.log(p) * count).sum(axis=1))
        none = (np.log1p(-p) * count).sum(axis=1)
        if m == 0:
            return np.asarray(none)
        return np.asarray(np.log(-np.expm1(none))) if m == 1 and tail else None


def _saddle(p: Floats, count: Floats, wanted: Floats) -> Floats:
    """Find theta per row so that the tilted mean is close to `wanted`.

    Any theta yields the same probability; a good one preserves its precision.
    """
    low, high = np.full(len(p), -800.0), np.full(len(p), 800.0)
    theta = np.zeros(len(p))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        odds = np.log(p) - np.log1p(-p)
        for _ in range(80):
            tilted = 1.0 / (1.0 + np.exp(-(odds + theta[:, None])))
            mean = (count * tilted).sum(axis=1)
            variance = (count * tilted * (1.0 - tilted)).sum(axis=1)
            if (np.abs(mean - wanted) <= 0.05 * np.sqrt(variance) + 1e-9).all():
                break
            low, high = np.where(mean < wanted, theta, low), np.where(mean < wanted, high, theta)
            step = theta + (wanted - mean) / variance
            theta = np.where((step > low) & (step < high), step, (low + high) / 2.0)
    return theta


def _tilted(p: Floats, count: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Compute probabilities under the tilt e^(theta C), and log E e^(theta C), for any theta."""
    up, decay = theta[:, None] > 0, np.exp(-np.abs(theta))[:, None]
    total = np.where(up, p + (1.0 - p) * decay, 1.0 - p + p * decay)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (count * np.log(total)).sum(axis=1) + np.maximum(theta, 0.0) * float(count.sum())
        return np.where(total > 0, np.where(up, p, p * decay) / total, 0.0), scale


def _window(p: Floats, count: Floats, n: int) -> tuple[Floats, int, Floats]:
    """Choose the start of the window in each row, its length, and the relevant frequencies."""
    mean = (count * p).sum(axis=1)
    variance = np.maximum((count * p * (1.0 - p)).sum(axis=1), 0.0)
    reach = 13.0 * sqrt(float(variance.max())) + 40.0
    window = min(2 * ceil(reach) + 1, n + 1 + n % 2)  # odd, so that no frequency is its own conjugate
    start = np.clip(np.floor(mean - window / 2.0), 0, max(0, n + 1 - window))
    # |characteristic function| <= exp(-variance (1 - cos omega)), which is 1e-20 at an exponent of 46
    least = float(variance.min())
    most = pi if least < 25.0 else float(np.arccos(max(-1.0, 1.0 - 46.0 / least)))
    last = min((window - 1) // 2, ceil(most * window / (2.0 * pi)))
    return start, window, 2.0 * pi / window * np.arange(1.0, last + 1.0)


def _flat(theta: Floats, terms: Floats) -> Floats:
    """Sum e^(-theta k) over the terms: the contribution of frequency zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(theta > 0, np.expm1(-theta * terms) / np.expm1(-theta), terms)


def _characteristic(p: Floats, count: Floats, omega: Floats, m: int) -> Complexes:
    """Compute E exp(i omega (C - m)) by row and frequency, from modulus and centred phase."""
    mean = (count * p).sum(axis=1)
    half, p3 = np.sin(omega / 2.0) ** 2, p[..., None]
    with np.errstate(divide="ignore"):
        log_size = 0.5 * np.log1p(np.maximum(-4.0 * p3 * (1.0 - p3) * half, -1.0))
    turn = np.arctan2(p3 * np.sin(omega), 1.0 - 2.0 * p3 * half) - p3 * omega
    log_sizes, turns = (np.einsum("bdf,d->bf", part, count) for part in (log_size, turn))
    return np.asarray(np.exp(log_sizes + 1j * (turns + (mean - m)[:, None] * omega)))
