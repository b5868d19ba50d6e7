"""The variance of each metric under a random scorer, relative to that for independent ranks."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from evenrank.metrics.chance._moment import Moment
from evenrank.metrics.chance._order import Quantile
from evenrank.metrics.chance._power import SMALL
from evenrank.metrics.chance._sum import RankSum, Sizes
from evenrank.metrics.chance.dependence import Dependence
from evenrank.metrics.metric import HITS, Metric, Statistic, quantile_position

FEW_RANKS = 256  # up to this many candidates, quantiles are treated as the few whole numbers they are


def inflation(
    metric: Metric | Statistic, sizes: Sizes, dependence: Dependence, alone: tuple[Moment, Moment]
) -> tuple[float, str]:
    """Divide the variance for a random scorer by that for independent ranks.

    The ratio is exact for means of f(rank). Other power means are functions of such a mean S, so that
    their variance grows as that of S, to leading order in the number of targets. A quantile exceeds x if
    too few ranks are up to x, so its variance follows from those of hits@x.

    Parameters
    ----------
    metric : Metric or Statistic
        The metric.
    sizes : Sizes
        Numbers of candidates and weights.
    dependence : Dependence
        Which ranks depend on each other.
    alone : tuple of Moment
        Mean and variance for independent ranks.

    Returns
    -------
    float, str
        The ratio, and "exact", "leading order", or "independent" where no ratio is known.
    """
    largest = int(sizes.size.max())
    if isinstance(metric, Statistic):
        if metric.kind != "quantile" or not sizes.equal_weights or not alone[1]:
            return 1.0, "independent"
        if largest <= FEW_RANKS:
            whole = Statistic("quantile", metric.at)
            before = Quantile(whole, sizes).moments()[1] if metric.q == -1 else alone[1]
            return _quantile_variance(whole, sizes, dependence) / before, "leading order"
        return _ratio(HITS(max(1, round(alone[0] ** metric.q))), sizes, dependence), "leading order"
    if abs(metric.p) == inf or (metric.p <= 0 and metric.f.at(largest) == 0):
        return 1.0, "independent"
    if metric.p == metric.q:
        return _ratio(metric, sizes, dependence), "exact"
    close_to_zero = abs(metric.p) < SMALL
    mean = Metric(metric.f, 0.0, metric.q) if close_to_zero else metric
    return _ratio(mean, sizes, dependence), "leading order"


def _ratio(metric: Metric, sizes: Sizes, dependence: Dependence) -> float:
    """Return the ratio of variances of the sum S of a metric."""
    largest = int(sizes.size.max())
    x, _ = metric.term(1.0, float(largest))
    variance = RankSum(x, sizes).variance
    ratio = 1.0 + dependence.excess(metric, largest) / variance if variance else 1.0
    return ratio if ratio > 1e-12 else 0.0  # what is left of a sum that is certain is rounding


def _quantile_variance(metric: Statistic, sizes: Sizes, dependence: Dependence) -> float:
    """Compute the variance of a quantile among few candidates.

    The number of ranks up to x is nearly normal, with the variance of hits@x. Between neighbouring order
    statistics, a quantile falls between x and x + 1 if the lower one is x or less.
    """
    from scipy.special import ndtr

    below, between = quantile_position(metric.at or 0.0, sizes.n)
    wanted = np.array([below + 1, below + 2 if between else below + 1])
    ranks = np.arange(1, int(sizes.size.max()) + 1)
    rate = np.minimum(1.0, ranks[:, None] / sizes.size)
    mean, variance = rate @ sizes.count, (rate * (1.0 - rate)) @ sizes.count
    reached = (mean[:, None] >= wanted).astype(float)
    # the ratio is at most 3 or so: beyond 20 standard deviations, all is certain
    for i in np.flatnonzero(np.abs(mean - wanted[0]) <= 20.0 * np.sqrt(variance) + 2.0):
        spread = sqrt(variance[i] * _ratio(HITS(int(ranks[i])), sizes, dependence))
        if spread:
            reached[i] = ndtr((mean[i] - wanted + 0.5) / spread)
    lower, upper = reached.T
    # both neighbours are x, or the lower one is x and the upper one is x + 1
    same = np.maximum(0.0, upper - np.concatenate([[0.0], lower[:-1]]))
    mass = np.concatenate([same, lower - upper])
    at = np.concatenate([ranks, ranks + between])
    mass = mass / mass.sum()
    center = float(mass @ at)
    return float(mass @ (at - center) ** 2)
