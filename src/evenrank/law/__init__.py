"""The exact law of a rank metric under chance.

Chance: `n` independent tasks, task `i` with `N_i` candidates and weight `w_i`, its rank uniform on
1..N_i. Only the multiset of (size, weight) pairs matters, and every cost is per distinct pair.

- `_sum`    S = sum w X(rank): cumulant generating function, at full precision for any n
- `_power`  moments of S^s: additive, product (p = 0) and Laplace transform (everything else)
- `_order`  order statistics: min, max, median, quantiles
- `_tails`  survival functions
- `_check`  enumeration and sampling, to check the others
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import exp, inf, log, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank.columns import check_weights
from evenrank.errors import InputError, NoLawError
from evenrank.law import _check, _power, _tails
from evenrank.law._order import OrderLaw, Trials, extreme_moments, log_count
from evenrank.law._sum import Sizes, SumLaw
from evenrank.metric import RANK, Metric, Statistic
from evenrank.sums import Floats, Ints
from evenrank.tally import Histogram, Tally

Method = Literal["exact", "enumerate", "sample"]
FEW_OUTCOMES = 20_000  # below this, a tail is read off the full list of outcomes


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


class Null:
    """The law of a metric when every rank is uniform on its candidates.

    >>> from evenrank.metric import IGMR, MRR
    >>> law = Null(MRR, read_sizes({14_541: 40_932}))
    >>> law.mean(), law.mean().method
    (0.000698..., 'formula')
    >>> Null(IGMR, read_sizes({14_541: 40_932})).std()  # the paper needs Monte Carlo here
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
            raise NoLawError("count does not depend on the ranks: there is no chance level")
        if not len(sizes):
            raise InputError("no tasks, so no chance level", do="rank at least one target")
        self.metric, self.method = metric, method
        self.sizes = Sizes(sizes["candidates"], sizes["weight"], sizes.counts)
        self._samples, self._seed = samples, seed

    def __repr__(self) -> str:
        """Say what it is the law of."""
        return f"Null({self.metric}, {self.sizes.n:,} tasks, {len(self.sizes.size):,} distinct)"

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

        >>> from evenrank.metric import MRR
        >>> round(Null(MRR, read_sizes({14_541: 40_932})).logsf(0.35))
        -110456
        """
        if np.isnan(value):
            raise InputError("a tail needs a number", got=value)
        if self.metric.increasing is None:
            raise NoLawError(f"{self.metric} has no better or worse, so no tail either")
        if self.method != "exact" or _check.outcomes(self.sizes) <= FEW_OUTCOMES:
            sign = 1.0 if self.metric.increasing else -1.0
            # values within rounding of the one asked for count as equal to it
            reached = sign * self._outcomes >= sign * value - 1e-12 * abs(value)
            share = float(reached.mean())
            way = self.method if self.method != "exact" else "enumerate"
            return Moment(log(share) if share else -inf, way)
        log_p, how = self._log_tail(value)
        return Moment(min(0.0, log_p), how)

    @cached_property
    def _outcomes(self) -> Floats:
        if self.method == "sample":
            return _check.sampled(self.metric, self.sizes, self._samples, self._seed)
        return _check.enumerated(self.metric, self.sizes)

    @cached_property
    def _moments(self) -> tuple[Moment, Moment]:
        if self.method != "exact":
            if not np.isfinite(self._outcomes).all():
                raise self._infinite()
            mean, variance, error, error2 = _check.moments(
                self._outcomes, whole=self.method == "enumerate"
            )
            return Moment(mean, self.method, error), Moment(variance, self.method, error2)
        if self._certain:
            return Moment(self.best, "formula"), Moment(0.0, "formula")
        if isinstance(self.metric, Statistic):
            mean, variance = self._order.moments(self.metric.q)
            return Moment(mean, "formula"), Moment(variance, "formula")
        if abs(self.metric.p) == inf:
            mean, variance = self._extreme()
            return Moment(mean, "formula"), Moment(variance, "formula")
        return self._power_mean(self.metric)

    @property
    def _certain(self) -> bool:
        """Whether every outcome has the same value: one candidate each, or all of them hits."""
        largest = int(self.sizes.size.max())
        if isinstance(self.metric, Metric):
            return _at(self.metric, 1) == _at(self.metric, largest)
        return largest == 1

    def _infinite(self) -> NoLawError:
        return NoLawError(
            f"the expectation of {self.metric} under chance is infinite",
            got="a positive probability that the value under the inverse is 0",
            do=f"use {self.metric.__rtruediv__(1)} instead",
        )

    # The power means ---------------------------------------------------------------------------

    @cached_property
    def _positive(self) -> tuple[Sizes, float]:
        """Sizes cut to the ranks where f > 0, and the log probability of falling there.

        For p <= 0 one f = 0 makes the whole mean 0, so the law is that of the cut sizes times that
        probability.
        """
        assert isinstance(self.metric, Metric)
        metric, largest = self.metric, int(self.sizes.size.max())
        if metric.p > 0 or _at(metric, largest) > 0:
            return self.sizes, 0.0
        cut = self.sizes.capped(_last(largest, lambda rank: _at(metric, rank) > 0))
        return cut, float((np.log(cut.size / self.sizes.size) * self.sizes.count).sum())

    @cached_property
    def _law(self) -> tuple[SumLaw, float]:
        assert isinstance(self.metric, Metric)
        sizes = self._positive[0]
        x, reference = self.metric.term(1.0, float(sizes.size.max()))
        return SumLaw(x, sizes), reference

    def _power_mean(self, metric: Metric) -> tuple[Moment, Moment]:
        p, q = metric.p, metric.q
        simple = _power.closed(metric, self.sizes)
        if simple is not None:
            return Moment(simple[0], "formula"), Moment(simple[1], "formula")
        log_positive = self._positive[1]
        if log_positive < 0 and q == -1:
            raise self._infinite()
        law, reference = self._law
        method = "formula"
        if p == 0:
            mean, variance = _power.product(law, q)
        elif p == q:
            mean, variance = _power.additive(law)
        else:
            if p > 0 and q == -1 and law.bounds[0] <= 0.0:
                raise self._infinite()
            method = "formula" if q / p in (2.0, 3.0) else "quadrature"
            mean, variance = _power.power(law, q / p)
        scale = reference**q
        mean, variance = mean * scale, variance * scale * scale
        if log_positive < 0:
            chance = exp(log_positive)
            variance = chance * (variance + (1.0 - chance) * mean * mean)
            mean *= chance
        return Moment(mean, method), Moment(variance, method)

    # Order statistics --------------------------------------------------------------------------

    @cached_property
    def _order(self) -> OrderLaw:
        assert isinstance(self.metric, Statistic)
        if self.metric.kind != "quantile":
            raise NoLawError(
                f"{self.metric} has no exact law under chance",
                do='use method="sample" (or "enumerate" for a few small tasks)',
            )
        if not self.sizes.equal_weights:
            raise NoLawError(
                f"a weighted {self.metric} has no exact law under chance",
                do='use method="sample", or equal weights',
            )
        position = (self.metric.at or 0.0) * (self.sizes.n - 1)
        below = int(position)
        return OrderLaw(self.sizes, below + 1, position - below)

    @property
    def _decided_by_largest(self) -> bool:
        """Whether the extreme of f is that of the largest rank, not of the smallest."""
        assert isinstance(self.metric, Metric)
        return (self.metric.p > 0) != self.metric.f.falling

    def _extreme(self) -> tuple[float, float]:
        assert isinstance(self.metric, Metric)
        f, q = self.metric.f, float(self.metric.q)
        largest = self._decided_by_largest
        worst = self.sizes.size.max() if largest else self.sizes.size.min()
        if q < 0 and _at(self.metric, int(worst)) == 0.0:
            raise self._infinite()
        with np.errstate(divide="ignore", invalid="ignore"):
            return extreme_moments(self.sizes, lambda x: f(x) ** q, largest=largest)

    # Tails -------------------------------------------------------------------------------------

    def _log_tail(self, value: float) -> tuple[float, str]:
        metric = self.metric
        if isinstance(metric, Statistic):
            if metric.q == 1:
                return self._order.log_at_most(value + 1e-9), "formula"
            if value <= 0:
                return 0.0, "formula"
            return self._order.log_at_most(1.0 / value + 1e-9), "formula"
        better = metric.increasing
        if (value <= 0) if better else (value == inf):
            return 0.0, "formula"
        if value <= 0 or value == inf:
            return -inf, "formula"
        inner = value if metric.q == 1 else 1.0 / value  # the power mean of f that gives the value
        if abs(metric.p) == inf:
            return self._extreme_tail(metric, inner), "formula"
        if metric.f.k is not None:
            exact = self._hits_tail(metric, metric.f.k, inner)
            if exact is not None:
                return exact, "formula"
        return self._sum_tail(metric, inner), "saddlepoint"

    def _extreme_tail(self, metric: Metric, inner: float) -> float:
        """Log P(the extreme of f is at least as good as `inner`)."""
        slack = 1e-12 * abs(inner)

        def good(rank: int) -> bool:
            value = _at(metric, rank)
            return value >= inner - slack if metric.f.falling else value <= inner + slack

        # f is monotone, so the deciding rank must be at most the last one that is good enough
        last = _last(int(self.sizes.size.max()), good)
        m = self.sizes.n if self._decided_by_largest else 1
        return OrderLaw(self.sizes, m).log_at_most(float(last))

    def _hits_tail(self, metric: Metric, k: int, inner: float) -> float | None:
        if metric.p <= 0:
            return self._positive[1] if inner <= 1.0 + 1e-12 else -inf
        if not self.sizes.equal_weights:
            return None
        share = inner**metric.p
        wanted = int(np.ceil(share * self.sizes.n * (1.0 - 1e-12) - 1e-9))
        trials = Trials.of(self.sizes)
        p = trials.at(np.array([float(k)]))
        return float(log_count(p, trials.count, wanted, tail=True, tilt=True)[0])

    def _sum_tail(self, metric: Metric, inner: float) -> float:
        law, reference = self._law
        p = metric.p
        x = log(inner) if p == 0 else (inner / reference) ** p
        sizes, log_positive = self._positive
        up = metric.f.falling == (p >= 0)  # better means a larger S
        first = _at(metric, 1)
        level = _last(int(sizes.size.max()), lambda rank: _at(metric, rank) == first)
        log_best = float((np.log(np.minimum(level, sizes.size) / sizes.size) * sizes.count).sum())
        on_lattice = metric.f == RANK and p == 1 and self.sizes.equal_weights
        lattice = 1.0 / self.sizes.n / reference if on_lattice else 0.0
        if lattice:
            x = np.floor(x / lattice + 1e-6) * lattice
        tail = _tails.log_at_least if up else _tails.log_at_most
        return log_positive + tail(law, x, log_best=log_best, lattice=lattice)


def _at(metric: Metric, rank: int) -> float:
    return float(metric.f(np.array([float(rank)]))[0])


def _last(largest: int, holds: Callable[[int], bool]) -> int:
    """Give the last rank for which a condition holds that holds up to some rank (0 if none)."""
    low, high = 0, largest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


SizesLike = ArrayLike | Mapping[int, int] | Histogram | Tally


def read_sizes(
    sizes: SizesLike, counts: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Histogram:
    """Turn sizes in any form into a histogram of (candidates, weight).

    >>> read_sizes([3, 3, 5]).counts.tolist(), read_sizes({10**8: 10**9}).total
    ([2, 1], 1000000000)
    """
    if isinstance(sizes, Tally):
        return sizes.sizes
    if isinstance(sizes, Histogram):
        return sizes
    if isinstance(sizes, Mapping):
        counts = list(sizes.values())
        sizes = list(sizes)
    size = np.atleast_1d(np.asarray(sizes))
    if size.ndim != 1 or not size.size:
        raise InputError("candidate counts must be a non-empty list", got=f"shape {size.shape}")
    size = _whole(size, "candidate counts", 1)
    count = None if counts is None else _whole(np.atleast_1d(np.asarray(counts)), "counts", 0)
    weight = np.ones(len(size)) if weights is None else np.asarray(weights, dtype=float)
    for name, column in (("counts", count), ("weights", weight)):
        if column is not None and column.shape != size.shape:
            raise InputError(
                f"{name} and candidate counts differ in length",
                got=f"{column.shape} and {size.shape}",
            )
    check_weights(weight)
    if count is not None:
        size, weight, count = size[count > 0], weight[count > 0], count[count > 0]
        if not len(size):
            raise InputError("no tasks: every count is 0")
    return Histogram.of(count, candidates=size, weight=weight)


def _whole(values: NDArray[Any], what: str, least: int) -> Ints:
    if values.dtype.kind not in "iuf":
        raise InputError(f"{what} must be whole numbers", got=f"type {values.dtype}")
    bad = ~(np.isfinite(values) & (values == np.floor(values)) & (values >= least))
    if bad.any():
        raise InputError(f"{what} must be whole numbers of at least {least}", got=values[bad][0])
    return values.astype(np.int64)
