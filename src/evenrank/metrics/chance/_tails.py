"""How likely chance does at least this well: tails of `S = sum w X(rank)`, as logarithms.

hits@k under equal weights is a Poisson-binomial count, exact as in `_count`. Everything else uses the
saddlepoint approximation in Barndorff-Nielsen's form, `P(S >= x) = Phi(-(w + log(v/w)/w))`, on the exact
cumulant generating function; sums of whole numbers (MR) use its lattice version with continuity
correction. It is good where many tasks share in the sum. Where a few rare first ranks decide (MRR or
nDCG with many more candidates than tasks) the sum is strongly skewed and no saddlepoint helps: then
the answer is the probability of the likeliest simple way to get there, "k of the ranks are at most R,
the others are bad", an exact count that is nearly all of it. Chernoff's bound caps both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sinh, sqrt

import numpy as np

from evenrank.metrics.chance._sum import SumLaw

SKEWED = 2.0  # skewness beyond which the saddlepoint is off by more than tens of per cent


def log_tail(
    law: SumLaw,
    x: float,
    *,
    upper: bool,
    log_best: float,
    log_simple: Callable[[], float],
    lattice: float = 0.0,
) -> float:
    """Log P(S >= x), or P(S <= x) if not `upper`.

    `log_best` is the log probability of the extreme value on that side, `log_simple` gives that of the
    likeliest simple way to reach x (-inf where there is none).
    """
    from scipy.special import log_ndtr  # here, because it doubles the time of `import evenrank`

    sign = 1.0 if upper else -1.0
    worst, best = sorted(sign * end for end in law.bounds)
    slack = 1e-12 * max(abs(best), abs(worst))
    x = sign * x
    if x > best + slack:
        return -inf
    if x >= best - slack:
        return log_best
    if x <= worst + slack:
        return 0.0
    spread = sqrt(law.variance)
    a = x - lattice / 2.0 - sign * law.mean
    if abs(a) < 1e-5 * spread:  # w and v both vanish at the mean; a hair beside it they do not
        a = 1e-5 * spread
    theta = _saddle(law, a, sign, spread)
    _, k, _, variance = (float(r[0]) for r in law.cumulants(np.array([-sign * theta]), 2))
    chernoff = k - theta * a if theta > 0 else 0.0
    w2 = 2.0 * (theta * a - k)
    simple = log_simple() if sign * law.skewness > SKEWED else -inf
    if simple > -inf and theta > 0:
        return min(simple, chernoff)
    if w2 <= 0:
        return chernoff
    w = sqrt(w2) if theta > 0 else -sqrt(w2)
    step = 2.0 * sinh(theta * lattice / 2.0) / lattice if lattice else theta
    v = step * sqrt(variance)
    return min(max(float(log_ndtr(-(w + log(v / w) / w))), simple), chernoff)


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
