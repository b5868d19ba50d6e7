"""What null distributions have in common, of single targets and of queries with several answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp, expm1, sqrt
from typing import Literal

import numpy as np

from evenrank.errors import InputError, NullDistributionError
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.chance._moment import Moment
from evenrank.metrics.metric import Metric, Statistic

Method = Literal["exact", "enumerate", "sample", "simulate"]
Chance = Literal["scorer", "independent"]


class Null(ABC):
    """The distribution of a metric under random ranking.

    Use `evenrank.chance`, which parses metrics and accepts numbers of candidates in any form.
    """

    metric: Metric | Statistic | QueryMetric
    method: Method
    _samples: int

    @property
    @abstractmethod
    def chance(self) -> Chance:
        """Whether ranks are those of a random scorer, which depend on each other, or independent."""

    @property
    @abstractmethod
    def best(self) -> float:
        """The largest value, or the smallest if smaller ones are better."""

    @property
    @abstractmethod
    def certain(self) -> bool:
        """Whether every ranking has the same value."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of targets or queries."""

    @property
    @abstractmethod
    def extent(self) -> str:
        """The number of targets or queries, as plain text."""

    @property
    @abstractmethod
    def most_candidates(self) -> int:
        """The largest number of candidates."""

    @property
    @abstractmethod
    def has_cutoff(self) -> bool:
        """Whether the metric ignores positions beyond some k."""

    @property
    @abstractmethod
    def _mean(self) -> Moment: ...

    @property
    @abstractmethod
    def _variance(self) -> Moment: ...

    @abstractmethod
    def _log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value)."""

    def mean(self) -> Moment:
        """Compute the mean.

        Returns
        -------
        float
            The expected value under random ranking, with the attributes `method` and `error`.

        Raises
        ------
        NullDistributionError
            If the mean is infinite or not known exactly.
        """
        return self._mean

    def var(self) -> Moment:
        """Compute the variance.

        Returns
        -------
        float
            The variance, with the attributes `method` and `error`.
        """
        return self._variance

    def std(self) -> Moment:
        """Compute the standard deviation.

        Returns
        -------
        float
            The standard deviation, with the attributes `method` and `error`.
        """
        variance = self._variance
        root = sqrt(variance)
        error = variance.error / (2.0 * root) if root else 0.0
        return Moment(root, variance.method, error)

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
        log_p = self.logsf(value)
        p = exp(log_p)
        if log_p.method in ("sample", "simulate"):
            error = p * log_p.error if p else 1.0 / self._samples
        else:
            error = p * expm1(min(log_p.error, 700.0)) if p else 0.0
        return Moment(p, log_p.method, min(1.0, error))

    def logsf(self, value: float) -> Moment:
        """Compute the logarithm of `sf`, which does not underflow.

        Parameters
        ----------
        value : float
            A value of the metric.

        Returns
        -------
        float
            The logarithm of the probability, with the attributes `method` and `error`.

        Raises
        ------
        InputError
            If the value is no number.
        NullDistributionError
            If neither large nor small values of the metric are better.

        Examples
        --------
        >>> import evenrank as er
        >>> round(er.chance("mrr", {14_541: 40_932}).logsf(0.35))
        -110456
        """
        if not isinstance(value, int | float | np.number) or value != value:  # NaN
            raise InputError("a value of the metric must be a number", got=repr(value)[:40])
        if self.metric.increasing is None:
            raise NullDistributionError(f"{self.metric} has no p-value: no value is better or worse")
        log_p = self._log_tail(float(value))
        return Moment(min(0.0, log_p), log_p.method, log_p.error)
