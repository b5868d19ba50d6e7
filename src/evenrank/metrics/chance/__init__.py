"""Exact null distributions: the distribution of a metric under random ranking.

The rank of target `i`, with `N_i` candidates and weight `w_i`, is uniform on 1..N_i. If ranks are
independent, only the multiset of pairs (size, weight) matters; all costs are per distinct pair. The
ranks of a random scorer depend on each other, as targets share scores: this changes variances, and is
described by `dependence`.

- `_sum`    sums S = sum w X(rank): cumulant generating function, at full precision for any n
- `_power`  power means: additive, product (p = 0) and Laplace transform (everything else)
- `_order`  order statistics: min, max, median, quantiles
- `_count`  Poisson-binomial counts, for order statistics and the tail of hits@k
- `_tails`  tails of S, with bounds on their error; `_atoms` and `_wave` are its tools
- `_check`  enumeration and sampling, which check the other methods
- `dependence`  covariances of ranks under a random scorer
- `_scorer` what these do to the variance of each metric
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from math import inf, sqrt
from typing import Any, Protocol, cast, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.checks import check_choice
from evenrank.errors import InputError, NullDistributionError, Option
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance import _check
from evenrank.metrics.chance._check import Outcomes
from evenrank.metrics.chance._moment import Moment, infinite
from evenrank.metrics.chance._null import Chance as Chance
from evenrank.metrics.chance._null import Method as Method
from evenrank.metrics.chance._null import Null as Null
from evenrank.metrics.chance._order import Extreme, Quantile
from evenrank.metrics.chance._power import PowerMean
from evenrank.metrics.chance._scorer import inflation
from evenrank.metrics.chance._sum import Sizes
from evenrank.metrics.chance.dependence import Dependence as Dependence
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram, Tallied, Tally

evaluate_rows = _check.values  # a metric on each row of a matrix of ranks
FEW_OUTCOMES = 20_000  # up to here, tails are computed by enumeration


class Computation(Protocol):
    """A method to compute a null distribution."""

    def moments(self) -> tuple[Moment, Moment]:
        """Compute mean and variance."""

    def log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value)."""


class NullDistribution(Null):
    """The distribution of a metric under random ranking: every rank is uniform on its candidates.

    Use `evenrank.chance`, which parses metrics and accepts numbers of candidates in any form.

    Parameters
    ----------
    metric : Metric or Statistic
        The metric.
    sizes : Histogram
        Numbers of candidates, with weights and counts.
    method : {"exact", "enumerate", "sample"}
        How to compute the distribution.
    samples, seed : int
        For ``method="sample"``.
    dependence : Dependence, optional
        Which ranks depend on each other under a random scorer; without it, ranks are independent.
    simulated : callable, optional
        For ``method="simulate"``: draws random scorers, and returns a row of ranks for each.

    Examples
    --------
    >>> from evenrank.metrics.metric import IGMR, MRR
    >>> null = NullDistribution(MRR, read_sizes({14_541: 40_932}))
    >>> null.mean(), null.mean().method
    (0.000698..., 'formula')
    >>> NullDistribution(IGMR, read_sizes({14_541: 40_932})).std()  # Hoyt et al. use Monte Carlo
    9.2...e-07
    """

    metric: Metric | Statistic

    def __init__(
        self,
        metric: Metric | Statistic,
        sizes: Histogram,
        method: Method = "exact",
        samples: int = 10_000,
        seed: int = 0,
        dependence: Dependence | None = None,
        simulated: Simulated | None = None,
    ) -> None:
        check_choice("method", method, get_args(Method))
        if isinstance(metric, Statistic) and metric.kind == "count":
            raise NullDistributionError("count has no chance level: it does not depend on the ranks")
        if len(sizes) and not sizes["candidates"].all():
            raise NullDistributionError(
                f"the chance level of {metric} requires the number of candidates, which is unknown",
                do=["pass ", Option("candidates")],
            )
        if not len(sizes):
            raise InputError("chance levels require at least one target", got="none")
        self.metric, self.method = metric, method
        self.sizes = Sizes(sizes["candidates"], sizes["weight"], sizes.counts)
        if isinstance(metric, Metric):
            metric.f.check(self.sizes.size)
        self.dependence = dependence
        self._simulated = simulated
        self._samples = columns.integer("samples", samples, 2)
        self._seed = columns.integer("seed", seed, 0, 2**63 - 1)

    def __repr__(self) -> str:
        """Summarise metric, targets and mean."""
        return f"NullDistribution({self.metric}; {self.extent}; {_span(self.sizes.size)} candidates)"

    @property
    def chance(self) -> Chance:
        """Whether ranks are those of a random scorer, which depend on each other, or independent."""
        return "independent" if self.dependence is None and self.method != "simulate" else "scorer"

    @property
    def best(self) -> float:
        """The value when every rank is 1."""
        return self.metric.best

    @property
    def count(self) -> int:
        """The number of targets."""
        return self.sizes.n

    @property
    def extent(self) -> str:
        """The number of targets, as plain text."""
        return f"{self.sizes.n:,} target{'s' * (self.sizes.n != 1)}"

    @property
    def most_candidates(self) -> int:
        """The largest number of candidates."""
        return int(self.sizes.size.max())

    @property
    def has_cutoff(self) -> bool:
        """Whether the metric is hits@k."""
        return isinstance(self.metric, Metric) and self.metric.f.k is not None

    def _log_tail(self, value: float) -> Moment:
        if self.dependence is not None:
            return self._scaled_tail(value)
        few = self.method == "exact" and _check.outcomes(self.sizes) <= FEW_OUTCOMES
        return (self._enumeration if few else self._computation).log_tail(value)

    @cached_property
    def _computation(self) -> Computation:
        """The computation by the chosen method."""
        metric, sizes = self.metric, self.sizes
        if self.method == "enumerate":
            return self._enumeration
        if self.method == "simulate":
            if self._simulated is None:
                raise NullDistributionError(
                    "random scorers can only be drawn for a task",
                    do="pass the task instead of its ranks or numbers of candidates",
                )
            drawn = self._simulated(metric, self._samples, self._seed)
            return Outcomes(metric, drawn, "simulate")
        if self.method == "sample":
            sample = _check.sampled(metric, sizes, self._samples, self._seed)
            return Outcomes(metric, sample, "sample")
        if isinstance(metric, Statistic):
            exact = metric.kind == "quantile" and sizes.equal_weights
            if not exact and _check.outcomes(sizes) <= _check.MOST_OUTCOMES:
                return self._enumeration
            return Quantile(metric, sizes)
        return Extreme(metric, sizes) if abs(metric.p) == inf else PowerMean(metric, sizes)

    @cached_property
    def _enumeration(self) -> Outcomes:
        return Outcomes(self.metric, _check.enumerated(self.metric, self.sizes), "enumerate")

    @cached_property
    def _moments(self) -> tuple[Moment, Moment]:
        if self.method == "exact" and self.certain:
            if self.best == inf:
                raise infinite(self.metric)
            return Moment(self.best, "formula"), Moment(0.0, "formula")
        return self._computation.moments()

    @property
    def _mean(self) -> Moment:
        return self._moments[0]

    @cached_property
    def _variance(self) -> Moment:
        """The variance; that for independent ranks is scaled if they depend on each other."""
        variance = self._moments[1]
        if self.dependence is None or not variance:
            return variance
        factor, method = self._inflation
        return Moment(variance * factor, "quadrature" if method == "exact" else method)

    @cached_property
    def _inflation(self) -> tuple[float, str]:
        """The variance for a random scorer divided by that for independent ranks, and its method."""
        assert self.dependence is not None
        return inflation(self.metric, self.sizes, self.dependence, self._computation.moments())

    @property
    def _worst(self) -> float:
        """The value when every target is ranked last."""
        size, count = self.sizes.size, self.sizes.count.astype(np.int64)
        last = Histogram(
            {"better": size - 1, "equal": np.zeros_like(size), "weight": self.sizes.weight}, count
        )
        return self.metric(
            Tally(last, Histogram({"candidates": size, "weight": self.sizes.weight}, count))
        )

    def _scaled_tail(self, value: float) -> Moment:
        """Compute the tail of independent ranks at the same number of standard deviations."""
        mean, _ = self._moments
        factor, _ = self._inflation
        alone = NullDistribution(
            self.metric,
            Histogram(
                {"candidates": self.sizes.size, "weight": self.sizes.weight},
                self.sizes.count.astype(np.int64),
            ),
        )
        better = 1.0 if self.metric.increasing else -1.0
        best, worst = (better * end for end in (self.best, self._worst))
        if better * value > best * (1.0 + 1e-9 * np.sign(best)):
            return Moment(-inf, "formula")
        if better * value <= worst:
            return Moment(0.0, "formula")
        if not factor:  # the value is certain
            return Moment(0.0 if better * value <= better * mean + 1e-9 * abs(mean) else -inf, "formula")
        tail = alone.logsf(mean + (value - mean) / sqrt(factor))
        return Moment(tail, f"scaled {tail.method}", inf)  # there is no bound on its error

    @property
    def certain(self) -> bool:
        """Whether every ranking has the same value: one candidate per target, or only hits."""
        largest = int(self.sizes.size.max())
        if isinstance(self.metric, Metric):
            return self.metric.f.at(1) == self.metric.f.at(largest)
        return largest == 1


def _span(sizes: Ints) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


@runtime_checkable
class Asked(Protocol):
    """An object that knows the number of candidates of each target, such as `Task`."""

    @property
    def candidates(self) -> Ints:
        """The numbers of candidates."""


@runtime_checkable
class Dependent(Protocol):
    """An object that knows which of its ranks depend on each other, such as `Task` and `Ranks`."""

    def dependence(self, *, weights: ArrayLike | None = None) -> Dependence | None:
        """Describe which ranks depend on each other; None if that is unknown."""


@runtime_checkable
class Shaped(Protocol):
    """An object that knows the shapes of its queries, such as `Rankings`."""

    def shapes(self) -> Shapes:
        """Count the queries by numbers of candidates and answers, and gains."""


class Simulated(Protocol):
    """Draws random scorers."""

    def __call__(self, metric: Metric | Statistic, samples: int, seed: int) -> Floats:
        """Return the values of a metric for random scorers."""


SizesLike = ArrayLike | Mapping[int, int] | Histogram | Tally | Tallied | Asked
QueriesLike = SizesLike | Shapes | Shaped
MOST_CANDIDATES = 10**12


def read_sizes(
    sizes: SizesLike, counts: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Histogram:
    """Convert numbers of candidates in any form to a histogram of (candidates, weight).

    >>> read_sizes([3, 3, 5]).counts.tolist(), read_sizes({10**8: 10**9}).total
    ([2, 1], 1000000000)
    """
    if not isinstance(sizes, np.ndarray | list | Mapping | Tally | Histogram):
        # protocols are checked attribute by attribute, which is slow
        if isinstance(sizes, Tallied):
            sizes = sizes.tally()
        elif isinstance(sizes, Asked):
            sizes = sizes.candidates
    if isinstance(sizes, Tally | Histogram):
        if counts is not None or weights is not None:
            raise InputError("counts= and weights= cannot be combined with Ranks or a Tally")
        return sizes.sizes if isinstance(sizes, Tally) else sizes
    if isinstance(sizes, Mapping):
        if counts is not None:
            raise InputError("counts= cannot be combined with a mapping, which has counts")
        counts, sizes = list(sizes.values()), list(sizes)
    size = columns.integers("numbers of candidates", sizes, 1, MOST_CANDIDATES)
    rows = len(size)
    if not rows:
        raise InputError("no numbers of candidates", do="pass at least one")
    weight = np.ones(rows) if weights is None else columns.weights(weights, rows)
    count = np.ones(rows, dtype=np.int64)
    if counts is not None:
        count = columns.counts(columns.repeat("counts", columns.counts(counts), rows))
    if not count.any():
        raise InputError("impossible number of targets", got=0, allowed="1 to 2^53")
    some = count > 0
    columns.check_weights(weight[some])
    return Histogram.of(count[some], candidates=size[some], weight=weight[some])


def read_shapes(
    sizes: QueriesLike,
    answers: ArrayLike | None,
    counts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Shapes | None:
    """Convert queries in any form to shapes; None if these are single targets.

    >>> read_shapes({1000: 50}, answers=3), read_shapes([1000, 1000], None)
    (Shapes(50 queries; 1 distinct), None)
    """
    if not isinstance(sizes, np.ndarray | list | Mapping | Tally | Histogram):
        if isinstance(sizes, Shaped):
            sizes = sizes.shapes()
        if isinstance(sizes, Shapes):
            for name, given in (("answers", answers), ("counts", counts), ("weights", weights)):
                if given is not None:
                    raise InputError(
                        f"{name}= cannot be combined with rankings, which know their answers"
                    )
            return sizes
    if answers is None:
        return None
    if isinstance(sizes, Tally | Tallied | Asked):
        raise InputError(
            "answers= cannot be combined with targets that are ranked one by one",
            got=type(sizes).__name__,
            do="pass the numbers of candidates, or rankings",
        )
    if isinstance(sizes, Mapping | Histogram):
        if counts is not None:
            raise InputError("counts= cannot be combined with a mapping, which has counts")
        if isinstance(sizes, Mapping):
            return Shapes.of_counts(list(sizes), answers, list(sizes.values()), weights)
        return Shapes.of_counts(sizes["candidates"], answers, sizes.counts, sizes["weight"])
    return Shapes.of_counts(sizes, answers, counts, weights)


def chance(
    metric: str | Metric | Statistic | QueryMetric,
    sizes: QueriesLike,
    *,
    answers: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    chance: Chance | None = None,
    method: Method = "exact",
    samples: int = 10_000,
    seed: int = 0,
) -> Null:
    """Return the null distribution of a metric: its distribution under random ranking.

    Parameters
    ----------
    metric : str or Metric
        The metric, for example ``"mrr"``, ``"hits@10"`` or ``"map"``.
    sizes : array_like, mapping, Task, Tally, Ranks or Rankings
        Numbers of candidates: one per target or query, or distinct ones with `counts`, or
        ``{size: count}``.
    answers : array_like of int, optional
        The number of answers of each query, for metrics of several answers such as ``"map"`` and
        ``"recall@20"``. Rankings know it, and the gains.
    counts : array_like of int, optional
        How often each size occurs.
    weights : array_like of float, optional
        Weights of the targets; by default all weigh the same.
    chance : {"scorer", "independent"}, optional
        Whether ranks are those of a random scorer, which depend on each other because targets share
        scores, or independent, as Hoyt et al. (2022) and PyKEEN take them: the variances differ.
        By default those of a random scorer, if `sizes` is a task, or ranks with keys.
    method : {"exact", "enumerate", "sample", "simulate"}
        How to compute the distribution; the others check the first independently. "enumerate" and
        "sample" take ranks as independent; "simulate" draws random scorers for a task.
    samples, seed : int
        Number of samples and seed for ``method="sample"`` and ``method="simulate"``.

    Returns
    -------
    Null
        The distribution, with the methods `mean`, `var`, `std`, `sf` and `logsf`.

    Raises
    ------
    InputError
        If an argument is invalid.
    NullDistributionError
        If the metric has no null distribution, or the numbers of candidates are unknown.

    Examples
    --------
    >>> chance("1/gmr", sizes=[14_541] * 40_932).mean()
    0.000186867...
    >>> chance("mrr", {10**8: 10**9}).std()
    4.05...e-09
    >>> chance("map", sizes=[1000] * 50, answers=3).mean()
    0.00947...
    """
    from evenrank.metrics.answers.null import QueryNull  # which, as the grammar, imports this module
    from evenrank.metrics.grammar import parse_metric

    if chance is not None:
        check_choice("chance", chance, get_args(Chance))
    check_choice("method", method, get_args(Method))
    parsed = parse_metric(metric)
    shapes = read_shapes(sizes, answers, counts, weights)
    if shapes is not None:
        if chance == "scorer":
            raise NullDistributionError(
                "which queries depend on each other is unknown",
                got="chance='scorer' for queries with several answers",
                do="leave it out: queries are taken as independent",
            )
        return QueryNull(for_answers(parsed), shapes, method, samples, seed)
    if isinstance(parsed, QueryMetric):
        raise InputError(
            f"the chance level of {parsed} requires the number of answers of each query",
            do=["pass ", Option("answers")],
        )
    known, given = None, cast(Any, sizes)
    treated = chance or getattr(given, "chance", "scorer")
    if treated != "independent" and method == "exact" and isinstance(given, Dependent):
        known = given.dependence(weights=weights)
    drawn = getattr(given, "simulated", None) if method == "simulate" else None
    if (known is not None or drawn is not None) and counts is not None:
        raise InputError("counts= cannot be combined with a task or ranks, which count for themselves")
    if chance == "independent" and method == "simulate":
        raise InputError(
            "random scorers have ranks that depend on each other",
            got="chance='independent' with method='simulate'",
            do=["use ", Option("method", "sample")],
        )
    if chance == "scorer" and known is None and drawn is None:
        raise NullDistributionError(
            "which ranks depend on each other is unknown",
            got=type(sizes).__name__ if method == "exact" else f"method {method!r}",
            do="pass a task, or ranks with the keys head, relation, tail and side"
            if method == "exact"
            else ["use ", Option("method", "exact"), " or ", Option("method", "simulate")],
        )
    read = read_sizes(given, counts, weights)
    if drawn is not None and weights is not None:
        drawn = partial(drawn, weights=columns.weights(weights, read.total))
    return NullDistribution(parsed, read, method, samples, seed, known, drawn)
