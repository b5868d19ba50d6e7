"""How likely chance does at least this well: tails of `S = sum w X(rank)`, as logarithms.

hits@k under equal weights is a Poisson-binomial count, exact as in `_order`. Everything else uses the
Lugannani-Rice saddlepoint formula on the exact cumulant generating function: its error is relative, a
few parts in n, however far out the value lies, which is where real models are. Sums that live on a
lattice (the mean rank) use the lattice version with continuity correction.
"""

from __future__ import annotations

from math import inf, log, pi, sinh, sqrt

import numpy as np

from evenrank.law._sum import SumLaw


def log_at_least(law: SumLaw, x: float, *, log_best: float, lattice: float = 0.0) -> float:
    """Log P(S >= x); `log_best` is the log probability of the largest value of S."""
    return _upper(law, x, 1.0, log_best, lattice)


def log_at_most(law: SumLaw, x: float, *, log_best: float, lattice: float = 0.0) -> float:
    """Log P(S <= x); `log_best` is the log probability of the smallest value of S."""
    return _upper(law, x, -1.0, log_best, lattice)


def _upper(law: SumLaw, x: float, sign: float, log_end: float, lattice: float) -> float:
    worst, best = sorted(sign * end for end in law.bounds)
    slack = 1e-12 * max(abs(best), abs(worst))
    x = sign * x
    if x > best + slack:
        return -inf
    if x >= best - slack:
        return log_end
    if x <= worst + slack:
        return 0.0
    spread = sqrt(law.variance)
    a = x - lattice / 2.0 - sign * law.mean
    theta = _saddle(law, a, sign, spread)
    _, k, _, variance, third = (float(r[0]) for r in law.cumulants(np.array([-sign * theta]), 3))
    w2 = 2.0 * (theta * a - k)
    if abs(a) < 1e-6 * spread or w2 <= 0:
        # the formula's two poles cancel at the mean; this is their limit
        centre = 0.5 - sign * third / (6.0 * sqrt(2.0 * pi) * variance**1.5)
        return log(centre - a / (spread * sqrt(2.0 * pi)))
    from scipy.special import erfcx, log_ndtr  # here, because it doubles the time of `import evenrank`

    w = sqrt(w2) if theta > 0 else -sqrt(w2)
    step = 2.0 * sinh(theta * lattice / 2.0) / lattice if lattice else theta
    v = step * sqrt(variance)
    bridge = 1.0 / v - 1.0 / w
    if w > 0:
        mills = sqrt(pi / 2.0) * float(erfcx(w / sqrt(2.0)))
        return -w2 / 2.0 - 0.5 * log(2.0 * pi) + log(mills + bridge)
    tail = float(np.exp(log_ndtr(-w))) + float(np.exp(-w2 / 2.0)) / sqrt(2.0 * pi) * bridge
    return min(0.0, log(tail)) if tail > 0 else -inf


def _saddle(law: SumLaw, a: float, sign: float, spread: float) -> float:
    """Solve K'(theta) = a for the centred, signed sum: Newton steps kept inside a bracket."""

    def slope(theta: float) -> tuple[float, float]:
        rows = law.cumulants(np.array([-sign * theta]), 2)
        return sign * float(rows[2, 0]), float(rows[3, 0])

    low, high = (0.0, inf) if a > 0 else (-inf, 0.0)
    theta = a / law.variance
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
