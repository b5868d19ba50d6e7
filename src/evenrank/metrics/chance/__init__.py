"""The exact law of a rank metric under chance.

Chance: `n` independent tasks, task `i` with `N_i` candidates and weight `w_i`, its rank uniform on
1..N_i. Only the multiset of (size, weight) pairs matters, and every cost is per distinct pair.

- `_sum`    S = sum w X(rank): cumulant generating function, at full precision for any n
- `_power`  power means: additive, product (p = 0) and Laplace transform (everything else)
- `_order`  order statistics: min, max, median, quantiles
- `_count`  Poisson-binomial counts, for order statistics and the tail of hits@k
- `_tails`  saddlepoint tails of S
- `_check`  enumeration and sampling, to check the others
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import exp, inf, sqrt
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal import columns
from evenrank.errors import InputError, NullDistributionError
from evenrank.metrics.chance import _check
from evenrank.metrics.chance._check import Outcomes
from evenrank.metrics.chance._moment import Moment
from evenrank.metrics.chance._order import Extreme, Quantile
from evenrank.metrics.chance._power import PowerMean
from evenrank.metrics.chance._sum import Sizes
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram, Tallied, Tally

Method = Literal["exact", "enumerate", "sample"]
FEW_OUTCOMES = 20_000  # below this, a tail is read off the full list of outcomes


class Way(Protocol):
    """One way to a metric's law."""

    def moments(self) -> tuple[Moment, Moment]:
        """Mean and variance."""

    def log_tail(self, value: float) -> Moment:
        """Log P(at least as good as the value)."""


class NullDistribution:
    """The law of a metric when every rank is uniform on its candidates.

    >>> from evenrank.metrics.metric import IGMR, MRR
    >>> law = NullDistribution(MRR, read_sizes({14_541: 40_932}))
    >>> law.mean(), law.mean().method
    (0.000698..., 'formula')
    >>> NullDistribution(IGMR, read_sizes({14_541: 40_932})).std()  # the paper needs Monte Carlo here
    9.2...e-07
    """

    def __init__(
        self,
        metric: Metric | Statistic,
        sizes: Histogram,
        method: Method = "exact",
        samples: int = 10_000,
        seed: int = 0,
    ) -> None:
        """Prefer the function `evenrank.null`, which reads metrics and sizes in any form."""
        if method not in get_args(Method):
            raise InputError("unknown method", got=repr(method), allowed=", ".join(get_args(Method)))
        if isinstance(metric, Statistic) and metric.kind == "count":
            raise NullDistributionError("count does not depend on the ranks: there is no chance level")
        if len(sizes) and not sizes["candidates"].all():
            raise NullDistributionError(
                "chance levels need the number of candidates, which these ranks do not have",
                do="give it: candidates= (--candidates)",
            )
        if not len(sizes):
            raise InputError("no tasks, so no chance level", do="rank at least one target")
        self.metric, self.method = metric, method
        self.sizes = Sizes(sizes["candidates"], sizes["weight"], sizes.counts)
        self._samples, self._seed = samples, seed

    def __repr__(self) -> str:
        """Say what it is the law of."""
        return (
            f"NullDistribution({self.metric}, {self.sizes.n:,} tasks, {len(self.sizes.size):,} distinct)"
        )

    @property
    def best(self) -> float:
        """The value when every rank is 1."""
        return self.metric.best

    def mean(self) -> Moment:
        """Expectation."""
        return self._moments[0]

    def var(self) -> Moment:
        """Variance."""
        return self._moments[1]

    def std(self) -> Moment:
        """Standard deviation."""
        variance = self._moments[1]
        root = sqrt(variance)
        error = variance.error / (2.0 * root) if root else 0.0
        return Moment(root, variance.method, error)

    def sf(self, value: float) -> Moment:
        """How likely chance does at least as well as `value`."""
        log_p = self.logsf(value)
        return Moment(exp(log_p), log_p.method)

    def logsf(self, value: float) -> Moment:
        """Logarithm of `sf`: real models sit where `sf` itself is zero in floating point.

        >>> from evenrank.metrics.metric import MRR
        >>> round(NullDistribution(MRR, read_sizes({14_541: 40_932})).logsf(0.35))
        -110456
        """
        if np.isnan(value):
            raise InputError("a tail needs a number", got=value)
        if self.metric.increasing is None:
            raise NullDistributionError(f"{self.metric} has no better or worse, so no tail either")
        few = self.method == "exact" and _check.outcomes(self.sizes) <= FEW_OUTCOMES
        log_p = (self._every if few else self._way).log_tail(value)
        return Moment(min(0.0, log_p), log_p.method)

    @cached_property
    def _way(self) -> Way:
        """The law by the method asked for."""
        metric, sizes = self.metric, self.sizes
        if self.method == "enumerate":
            return self._every
        if self.method == "sample":
            sample = _check.sampled(metric, sizes, self._samples, self._seed)
            return Outcomes(metric, sample, "sample")
        if isinstance(metric, Statistic):
            lawless = metric.kind != "quantile" or not sizes.equal_weights
            if lawless and _check.outcomes(sizes) <= _check.MOST_OUTCOMES:
                return self._every  # no formula, but few enough outcomes to list
            return Quantile(metric, sizes)
        return Extreme(metric, sizes) if abs(metric.p) == inf else PowerMean(metric, sizes)

    @cached_property
    def _every(self) -> Outcomes:
        return Outcomes(self.metric, _check.enumerated(self.metric, self.sizes), "enumerate")

    @cached_property
    def _moments(self) -> tuple[Moment, Moment]:
        if self.method == "exact" and self.certain:
            return Moment(self.best, "formula"), Moment(0.0, "formula")
        return self._way.moments()

    @property
    def certain(self) -> bool:
        """Whether every outcome has the same value: one candidate each, or all of them hits."""
        largest = int(self.sizes.size.max())
        if isinstance(self.metric, Metric):
            return self.metric.f.at(1) == self.metric.f.at(largest)
        return largest == 1


SizesLike = ArrayLike | Mapping[int, int] | Histogram | Tally | Tallied
MOST_CANDIDATES = 10**12
MOST_TASKS = 2**53  # counts are exact in floats up to here


def read_sizes(
    sizes: SizesLike, counts: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Histogram:
    """Turn sizes in any form into a histogram of (candidates, weight).

    >>> read_sizes([3, 3, 5]).counts.tolist(), read_sizes({10**8: 10**9}).total
    ([2, 1], 1000000000)
    """
    if isinstance(sizes, Tallied):
        sizes = sizes.tally()
    if isinstance(sizes, Tally | Histogram):
        if counts is not None or weights is not None:
            raise InputError("a tally has its own counts and weights", got="counts= or weights= as well")
        return sizes.sizes if isinstance(sizes, Tally) else sizes
    if isinstance(sizes, Mapping):
        if counts is not None:
            raise InputError("a mapping of sizes has its own counts", got="counts= as well")
        counts, sizes = list(sizes.values()), list(sizes)
    size = columns.integers("candidate counts", sizes, 1, MOST_CANDIDATES)
    rows = len(size)
    if not rows:
        raise InputError("no candidate counts", do="give at least one task's")
    weight = np.ones(rows) if weights is None else columns.weights(weights, rows)
    count = np.ones(rows, dtype=np.int64)
    if counts is not None:
        count = columns.repeat("counts", columns.integers("counts", counts, 0, MOST_TASKS), rows)
    if not 0 < float(count.sum(dtype=float)) <= MOST_TASKS:
        raise InputError(
            "impossible number of tasks", got=f"{count.sum(dtype=float):.3g}", allowed="1 to 2^53"
        )
    some = count > 0
    columns.check_weights(weight[some])
    return Histogram.of(count[some], candidates=size[some], weight=weight[some])


def chance(
    metric: str | Metric | Statistic,
    sizes: SizesLike,
    *,
    counts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    method: Method = "exact",
    samples: int = 10_000,
    seed: int = 0,
) -> NullDistribution:
    """Give the null distribution of a metric: what a random ranking gets.

    Parameters
    ----------
    metric : str or Metric
        The metric, for example ``"mrr"`` or ``"hits@10"``.
    sizes : array_like, mapping, Tally or Ranks
        Numbers of candidates: one per task, or distinct ones with `counts`, or ``{size: count}``.
    counts : array_like of int, optional
        How often each size occurs.
    weights : array_like of float, optional
        Weights of the tasks; by default all count the same.
    method : {"exact", "enumerate", "sample"}
        How to compute it; the last two are independent ways to check the first.
    samples, seed : int
        For ``method="sample"``.

    Returns
    -------
    NullDistribution
        The distribution, with `mean`, `var`, `std`, `sf` and `logsf`.

    Raises
    ------
    InputError
        If sizes, counts or weights cannot be right.
    NullDistributionError
        If the metric has no chance level.

    Examples
    --------
    >>> chance("1/gmr", sizes=[14_541] * 40_932).mean()
    0.000186867...
    >>> chance("mrr", {10**8: 10**9}).std()
    4.05...e-09
    """
    from evenrank.metrics.grammar import parse_metric  # which reads adjusted metrics, and they use this

    return NullDistribution(
        parse_metric(metric), read_sizes(sizes, counts, weights), method, samples, seed
    )
