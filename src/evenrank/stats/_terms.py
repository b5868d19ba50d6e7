"""Metrics as smooth functions of a mean over targets: the terms of the mean, and the function.

A power mean is a smooth function of one mean, `M = G(m)` with `m = sum_i w_i x_i / sum_i w_i`, where a
target's term `x_i` is `f(r_i)^p` (`log f(r_i)` for p = 0), averaged over the ranks a tie allows. Metrics
of rankings of queries are plain means, whose terms are the values of the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.metric import Metric, Statistic
from evenrank.ranks.evaluation import COUNT, bare
from evenrank.ranks.rankings import AnyRanks, Rankings


@dataclass(frozen=True)
class Terms:
    """The terms of a metric, one per target, and the function G that maps their mean to the metric.

    Parameters
    ----------
    metric : Metric or QueryMetric
        The metric.
    x : ndarray of float
        The term of each target.
    reference : float
        The scale of the terms.
    """

    metric: Metric | QueryMetric
    x: Floats
    reference: float

    @property
    def rising(self) -> bool:
        """Whether larger terms are better."""
        if isinstance(self.metric, QueryMetric):
            return True
        return self.metric.f.falling == (self.metric.p >= 0)

    @property
    def is_share(self) -> bool:
        """Whether the metric is a share of hits."""
        if isinstance(self.metric, QueryMetric):
            return self.metric.is_share
        return self.metric.f.k is not None and self.metric.p == self.metric.q == 1

    @property
    def finite(self) -> bool:
        """Whether every term is finite: `f = 0` under `p <= 0` is not."""
        return bool(np.isfinite(self.x).all())

    def value(self, mean: Floats | float) -> Floats:
        """Compute the metric from the mean of its terms, `G(m)`.

        Parameters
        ----------
        mean : float or ndarray
            One or more means of terms.

        Returns
        -------
        ndarray
            The metric at each mean.
        """
        p, q = self.metric.p, self.metric.q
        m = np.asarray(mean, dtype=float)
        with np.errstate(divide="ignore"):
            if p == 0:
                return np.asarray(np.exp(q * m))
            root = m if p == q else m ** (q / p)
        return np.asarray(self.reference**q * root)

    def slope(self, mean: float) -> float:
        """Compute the derivative `G'(m)`; NaN if there is none.

        Parameters
        ----------
        mean : float
            A mean of terms.

        Returns
        -------
        float
            The derivative.
        """
        p, q = self.metric.p, self.metric.q
        if p == q:
            return float(self.reference**q)
        value = float(self.value(mean))
        if p == 0:
            return q * value
        return q / p * value / mean if mean > 0 else nan

    def at_reference(self, reference: float) -> Floats:
        """Rescale the terms to another reference.

        Parameters
        ----------
        reference : float
            The scale to convert to.

        Returns
        -------
        ndarray
            The terms on that scale.
        """
        if reference == self.reference:
            return self.x
        return np.asarray(self.x * (self.reference / reference) ** self.metric.p)


def metric_of(expression: Expression, ranks: AnyRanks) -> Metric | Statistic | QueryMetric:
    """Get the metric of an expression without its adjustment, as ranks or rankings have it."""
    metric = bare(expression)
    if isinstance(ranks, Rankings):
        return metric if metric == COUNT else for_answers(metric)
    if isinstance(metric, QueryMetric):
        raise metric.not_of_ranks()
    return metric


def smooth(expression: Expression, ranks: AnyRanks) -> Metric | QueryMetric:
    """Get the metric of an expression; raise `InputError` unless it is a smooth function of a mean."""
    metric = metric_of(expression, ranks)
    if isinstance(metric, Statistic) or abs(metric.p) == inf:
        several = isinstance(ranks, Rankings)
        such = "map, ndcg@10, recall@10" if several else "mrr, hits@10, mr, gmr"
        raise InputError(
            f"{expression} is not a mean over {'queries' if several else 'targets'}",
            allowed=f"means such as {such}, also adjusted for chance",
        )
    if isinstance(expression, Adjusted) and expression.adjustment == "chance":
        raise InputError(
            f"{expression} is computed from the numbers of candidates; it does not depend on the ranks"
        )
    return metric
