"""Moments of null distributions, with the method that computed them."""

from __future__ import annotations

from evenrank.errors import NullDistributionError
from evenrank.metrics.metric import Metric, Statistic


class Moment(float):
    """A float with the `method` that computed it, and its `error`.

    The error of a tail probability is a bound on it. Sampled numbers have their standard error.
    """

    method: str
    error: float

    def __new__(cls, value: float, method: str, error: float = 0.0) -> Moment:
        """Create the number."""
        self = super().__new__(cls, value)
        self.method, self.error = method, error
        return self

    def __reduce__(self) -> tuple[type[Moment], tuple[float, str, float]]:
        """Pickle the attributes, too."""
        return Moment, (float(self), self.method, self.error)


def infinite(metric: Metric | Statistic) -> NullDistributionError:
    """Build the error for an infinite mean."""
    return NullDistributionError(
        f"the chance level of {metric} is infinite",
        got="a positive probability of 1/0",
        do=f"use {1 / metric} instead",
    )
