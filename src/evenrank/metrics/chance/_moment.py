"""A number under chance, and how it was made."""

from __future__ import annotations

from evenrank.errors import NullDistributionError
from evenrank.metrics.metric import Metric, Statistic


class Moment(float):
    """A float that says how it was made: `method`, and for a sampled one its standard `error`."""

    method: str
    error: float

    def __new__(cls, value: float, method: str, error: float = 0.0) -> Moment:
        """Attach the method to the number."""
        self = super().__new__(cls, value)
        self.method, self.error = method, error
        return self

    def __reduce__(self) -> tuple[type[Moment], tuple[float, str, float]]:
        """Pickle all three."""
        return Moment, (float(self), self.method, self.error)


def infinite(metric: Metric | Statistic) -> NullDistributionError:
    """Say that a metric has no mean under chance."""
    return NullDistributionError(
        f"the expectation of {metric} under chance is infinite",
        got="a positive probability that what it inverts is 0",
        do=f"use {1 / metric} instead",
    )
