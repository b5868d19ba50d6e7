"""Tail probabilities of the null distributions of sums, `S = sum w X(rank)`, as logarithms.

hits@k with equal weights is a Poisson-binomial count, computed exactly in `_count`. Other sums use the
saddlepoint approximation in Barndorff-Nielsen's form, `P(S >= x) = Phi(-(w + log(v/w)/w))`, with the
exact cumulant generating function; sums of whole numbers (MR) use its lattice version with continuity
correction. It is accurate where many targets contribute to the sum. Where a few first ranks dominate
(MRR or nDCG with many more candidates than targets), the sum is strongly skewed and the approximation
fails. The tail is then the probability of the likeliest simple event, "k of the ranks are at most R",
which is exact and nearly the whole tail. Chernoff's bound is an upper limit for both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sinh, sqrt

import numpy as np

from evenrank.metrics.chance._sum import RankSum

SKEWED = 2.0  # skewness beyond which the saddlepoint is off by more than tens of per cent


def log_tail(
    total: RankSum,
    x: float,
    *,
    upper: bool,
    log_best: float,
    log_simple: Callable[[], float],
    lattice: float = 0.0,
) -> float:
    """Compute log P(S >= x), or log P(S <= x) if not `upper`.

    `log_best` is the log probability of the extreme value on that side; `log_simple` computes that of
    the likeliest simple event that reaches x, -inf if there is none.
    """
    from scipy.special import log_ndtr  # here, because it doubles the time of `import evenrank`

    sign = 1.0 if upper else -1.0
    worst, best = sorted(sign * end for end in total.bounds)
    slack = 1e-12 * max(abs(best), abs(worst))
    x = sign * x
    if x > best + slack:
        return -inf
    if x >= best - slack:
        return log_best
    if x <= worst + slack:
        return 0.0
    spread = sqrt(total.variance)
    a = x - lattice / 2.0 - sign * total.mean
    if abs(a) < 1e-5 * spread:  # w and v vanish at the mean, but not close to it
        a = 1e-5 * spread
    theta = _saddle(total, a, sign, spread)
    _, k, _, variance = (float(r[0]) for r in total.cumulants(np.array([-sign * theta]), 2))
    chernoff = k - theta * a if theta > 0 else 0.0
    w2 = 2.0 * (theta * a - k)
    simple = log_simple() if sign * total.skewness > SKEWED else -inf
    if simple > -inf and theta > 0:
        return min(simple, chernoff)
    if w2 <= 0:
        return chernoff
    w = sqrt(w2) if theta > 0 else -sqrt(w2)
    step = 2.0 * sinh(theta * lattice / 2.0) / lattice if lattice else theta
    v = step * sqrt(variance)
    return min(max(float(log_ndtr(-(w + log(v / w) / w))), simple), chernoff)


def _saddle(total: RankSum, a: float, sign: float, spread: float) -> float:
    """Solve K'(theta) = a for the centred, signed sum by safeguarded Newton steps."""

    def slope(theta: float) -> tuple[float, float]:
        rows = total.cumulants(np.array([-sign * theta]), 2)
        return sign * float(rows[2, 0]), float(rows[3, 0])

    low, high = (0.0, inf) if a > 0 else (-inf, 0.0)
    theta = a / total.variance
    for _ in range(200):
        value, curvature = slope(theta)
        if value < a:
            low = theta
        else:
            high = theta
        if abs(value - a) <= 1e-12 * spread:
            break
        step = theta + (a - value) / curvature if curvature > 0 else inf
        if not low < step < high:
            step = 2.0 * theta if inf in (high, -low) else (low + high) / 2.0
        if step == theta:
            break
        theta = step
    return theta
