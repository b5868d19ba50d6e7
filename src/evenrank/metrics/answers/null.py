"""The null distribution of a metric of several answers: its distribution under random ranking.

A random ranking puts the answers of a query on a uniform subset of the positions, and the gains of the
answers in a random order. Queries are independent. The distribution depends on the queries only through
their shapes, and all costs are per distinct shape.
"""

from __future__ import annotations

from functools import cached_property
from math import exp, inf, log, log1p, sqrt
from typing import get_args

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.checks import check_choice
from evenrank.errors import InputError, NullDistributionError, Option
from evenrank.metrics.answers import _moments as formulas
from evenrank.metrics.answers import _outcomes as definitions
from evenrank.metrics.answers.metric import ONE, RECIPROCAL, QueryMetric
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance import FEW_OUTCOMES, Chance, Method, Null
from evenrank.metrics.chance._check import Outcomes
from evenrank.metrics.chance._count import log_count
from evenrank.metrics.chance._moment import Moment

BERRY_ESSEEN = 0.56  # Shevtsova 2010, for variables with different distributions
MOST_COUNTED = 50_000  # distinct shapes in a count of successes, each at some forty frequencies


class QueryNull(Null):
    """The distribution of a metric of several answers under random ranking.

    Use `evenrank.chance`, which parses metrics and accepts rankings. AUC is undefined for a query whose
    candidates are all answers; its distribution is that of the mean over the other queries.

    Parameters
    ----------
    metric : QueryMetric
        The metric.
    shapes : Shapes
        Numbers of candidates and answers, gains, and weights of the queries.
    method : {"exact", "enumerate", "sample"}
        How to compute the distribution.
    samples, seed : int
        For ``method="sample"``.

    Examples
    --------
    >>> from evenrank.metrics.answers.metric import QueryMetric
    >>> average_precision = QueryMetric("precision", norm="answers")
    >>> null = QueryNull(average_precision, Shapes.of_counts(candidates=1000, answers=[3] * 50))
    >>> null.mean(), null.std(), null.mean().method
    (0.009472..., 0.003333..., 'formula')
    """

    metric: QueryMetric

    def __init__(
        self,
        metric: QueryMetric,
        shapes: Shapes,
        method: Method = "exact",
        samples: int = 10_000,
        seed: int = 0,
    ) -> None:
        check_choice("method", method, get_args(Method))
        if method == "simulate":
            raise NullDistributionError(
                "random scorers are drawn for single targets only",
                got=f"{metric}, a metric of several answers",
                do=["use ", Option("method", "exact"), " or ", Option("method", "sample")],
            )
        if not len(shapes):
            raise InputError("chance levels require at least one query", got="none")
        if not shapes.known:
            raise NullDistributionError(
                f"the chance level of {metric} requires the number of candidates, which is unknown",
                do=["pass ", Option("candidates")],
            )
        if metric.kind == "auc":  # the value of AUC, too, is the mean over the other queries
            shapes = shapes.where(shapes.rows["candidates"] > shapes.rows["answers"])
            if not len(shapes):
                raise NullDistributionError("auc is undefined where all candidates are answers")
        size = shapes.rows["candidates"]
        if metric.discount not in (ONE, RECIPROCAL):
            metric.discount.check(np.unique(size))
        self.metric, self.shapes, self.method = metric, shapes, method
        self._samples = columns.integer("samples", samples, 2)
        self._seed = columns.integer("seed", seed, 0, 2**63 - 1)
        weight = shapes.rows["weight"] / shapes.rows["weight"].max()
        self._mass = weight * shapes.rows.counts
        self._total = float(self._mass.sum())
        self._share = weight / self._total

    def __repr__(self) -> str:
        """Summarise metric, queries, candidates and answers."""
        size, answers = self.shapes.rows["candidates"], self.shapes.rows["answers"]
        spans = f"{_span(size)} candidates; {_span(answers)} answer{'s' * bool(answers.max() > 1)}"
        return f"QueryNull({self.metric}; {self.extent}; {spans})"

    @property
    def chance(self) -> Chance:
        """Queries are taken as independent."""
        return "independent"

    @property
    def best(self) -> float:
        """The mean of the largest values that the queries can have.

        It may be less than 1: precision@10 of a query with three answers is at most 0.3.
        """
        return self._average(self._best_per_row)

    @property
    def certain(self) -> bool:
        """Whether every ranking has the same value: if all candidates are answers, for example."""
        return bool(formulas.Rows(self.metric, self.shapes).certain.all())

    @property
    def count(self) -> int:
        """The number of queries for which the metric is defined."""
        return self.shapes.total

    @property
    def extent(self) -> str:
        """The number of queries, as plain text."""
        return f"{self.count:,} {'query' if self.count == 1 else 'queries'}"

    @property
    def most_candidates(self) -> int:
        """The largest number of candidates."""
        return int(self.shapes.rows["candidates"].max())

    @property
    def has_cutoff(self) -> bool:
        """Whether positions beyond some k do not count."""
        return self.metric.k is not None

    def sf(self, value: float) -> Moment:
        """Compute the probability that a random ranking is at least as good as `value`.

        Parameters
        ----------
        value : float
            A value of the metric.

        Returns
        -------
        float
            The survival function, which is a one-sided p-value, with the attributes `method` and
            `error`, a bound on its error (a standard error if sampled).
        """
        p = super().sf(value)
        if p.method != "normal":
            return p
        above = max(exp(self._log_bound(float(value))) - p, 0.0)
        return Moment(p, p.method, min(self._normal_error, max(above, p)))

    def _average(self, per_row: Floats) -> float:
        """Average over queries; shapes are sorted, so that the order of queries changes no bit."""
        return float((self._mass * per_row).sum()) / self._total

    @cached_property
    def _per_row(self) -> tuple[Floats, Floats]:
        """Mean and variance of each row of shapes."""
        return formulas.moments(self.metric, self.shapes)

    @cached_property
    def _moments(self) -> tuple[Moment, Moment]:
        if self.method != "exact":
            return self._outcomes.moments()
        mean, variance = self._per_row
        spread = self._average(self._share * variance)
        return Moment(self._average(mean), "formula"), Moment(spread, "formula")

    @property
    def _mean(self) -> Moment:
        return self._moments[0]

    @property
    def _variance(self) -> Moment:
        return self._moments[1]

    @cached_property
    def _outcomes(self) -> Outcomes:
        """The values of all rankings, or of random ones."""
        if self.method == "sample":
            drawn = definitions.sampled(self.metric, self.shapes, self._share, self._samples, self._seed)
            return Outcomes(self.metric, drawn, "sample")
        every = definitions.enumerated(self.metric, self.shapes, self._share)
        return Outcomes(self.metric, every, "enumerate")

    def _log_tail(self, value: float) -> Moment:
        if self.method != "exact" or definitions.outcomes(self.metric, self.shapes) <= FEW_OUTCOMES:
            return self._outcomes.log_tail(value)
        best, slack = self.best, 1e-12 * self.best
        if value <= slack:
            return Moment(0.0, "formula")
        if value > best + slack:
            return Moment(-inf, "formula")
        if self.certain:
            return Moment(0.0, "formula")
        weight = self.shapes.rows["weight"]
        yes_or_no = self.metric.kind == "first" and self.metric.discount == ONE
        if yes_or_no and len(weight) <= MOST_COUNTED and (weight == weight[0]).all():
            return self._log_count(value)
        return self._normal(value)

    def _log_count(self, value: float) -> Moment:
        """Compute the tail of a number of successes, which is Poisson-binomial."""
        count = self.shapes.rows.counts.astype(float)
        wanted = int(np.ceil(value * self.shapes.total * (1.0 - 1e-12)))
        log_p = float(log_count(self._per_row[0][None, :], count, wanted, tail=True, tilt=True)[0])
        return Moment(log_p, "formula", 1e-11 + 1e-15 * abs(log_p))

    @cached_property
    def _normal_error(self) -> float:
        """The bound of Berry and Esseen on the error of a normal tail.

        The third absolute moment of a query is at most its variance times its largest deviation.
        """
        mean, variance = self._per_row
        largest = np.maximum(self._best_per_row - mean, mean)
        third = self._average(self._share**2 * largest * variance)
        return float(BERRY_ESSEEN * third / float(self._variance) ** 1.5)

    @cached_property
    def _best_per_row(self) -> Floats:
        return formulas.best(self.metric, self.shapes)

    def _log_bound(self, value: float) -> float:
        """Compute Bennett's bound on log P(M >= value), which is far below that of Berry and Esseen.

        exp(-V/b^2 h(b t/V)) with h(u) = (1 + u) log(1 + u) - u, for M that is t above its mean, and no
        query adds more than b to that.
        """
        over, variance = value * (1.0 - 1e-12) - float(self._mean), float(self._variance)
        most = float((self._share * (self._best_per_row - self._per_row[0])).max())
        u = max(over, 0.0) * most / variance
        return -variance / most**2 * ((1.0 + u) * log1p(u) - u)

    def _normal(self, value: float) -> Moment:
        from scipy.special import log_ndtr

        z = (value * (1.0 - 1e-12) - self._mean) / sqrt(self._variance)
        log_p, bound = float(log_ndtr(-z)), self._log_bound(value)
        log_p = min(log_p, bound)
        above = min(bound, float(np.logaddexp(log_p, log(self._normal_error)))) - log_p
        share = self._normal_error / exp(log_p) if log_p > -700.0 else inf
        below = -log1p(-share) if share < 1.0 else inf
        return Moment(log_p, "normal", max(above, below))


def _span(numbers: Ints) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
