"""A sample of targets: the influence of each resampling unit on a metric, and its standard error.

A metric is a smooth function of one mean, `M = G(m)` with `m = sum_i w_i x_i / sum_i w_i`, whose terms
`x_i` are defined in `_terms`; an adjusted metric is an affine function of M. So each has a first-order
expansion in the targets,

    M* - M  ~  sum_i I_i,    I_i = G'(m) w_i (x_i - m) / sum_j w_j,

and its variance is that of a sum over independent units (targets, triples, queries) with influence
`I_u = sum_{i in u} I_i`:  `C / (C - 1) * sum_u I_u^2` for C units (the delta method; for units of
different weight, the linearised variance of a ratio of sums).

Targets may be dependent in two ways: both sides of a triple, and all answers of a query. Units crossed
like this, "triple+query", have the variance `V(triple) + V(query) - V(triple and query)` (two-way
clustering; Cameron, Gelbach and Miller 2011), and at least the larger of the first two.

Rankings of queries with several answers have a row per query. Their metrics are plain means, whose terms
are the values of the queries; a query without answers has none, and is left out.

A macro average over relations, sides or any other key averages over fixed groups: another test set would
have the same groups. The influence of a target is then relative to the mean of its group g, not to m,
and `C / (C - 1)` counts the C units in g (the variance of a stratified sample). Queries, like targets,
are a sample; so are groups if each of them lies within one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from math import exp, nan, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.metrics.adjusted import Adjusted, Affine, Expression, z
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance import Dependence, Null, NullDistribution
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ranges, Ties
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.rows import average_name
from evenrank.stats._terms import Terms, metric_of, smooth
from evenrank.stats._units import units_of

ROUNDING = 1e-12  # relative to the numbers that are summed: sums closer than this are equal
SAMPLED = ("micro", "query")  # averages over a sample, not over fixed groups


class StandardError(NamedTuple):
    """A standard error, and its degrees of freedom.

    Parameters
    ----------
    size : float
        The standard error.
    df : float
        Its degrees of freedom.
    """

    size: float
    df: float

    def margin(self, level: float) -> float:
        """Compute the margin of error by Student's t.

        Parameters
        ----------
        level : float
            The confidence level.

        Returns
        -------
        float
            Half the width of the confidence interval.
        """
        from scipy.special import stdtrit

        return float(stdtrit(self.df, 0.5 + level / 2)) * self.size


class Sample:
    """Targets with their weights under an average, their resampling units, and their groups.

    Targets of weight zero, and queries without answers, are left out.

    Parameters
    ----------
    ranks : Ranks or Rankings
        The ranked targets, or queries with all of their answers: a query then stands for a target.
    ties : str, default "expected"
        The tie-breaking rule.
    average : str or sequence of str, default "micro"
        The average, which weighs the targets.
    unit : str, default "target"
        The resampling unit, or two that cross: "triple+query".
    groups : ndarray of int, optional
        The fixed group of each target, numbered from 0, instead of the groups of the average.

    Attributes
    ----------
    unit : ndarray of int
        The unit of each target.
    group : ndarray of int
        The fixed group of each target; a single one if the average is not over fixed groups.
    part : ndarray of int
        The part of each target: a unit within a group. Mostly a unit lies in one group.
    crossed : tuple of Sample
        With crossed units, the same targets by the second unit, and by both units together.
    """

    ranks: AnyRanks

    def __init__(
        self,
        ranks: AnyRanks,
        ties: Ties = "expected",
        average: str | Sequence[str] = "micro",
        unit: str | Ints = "target",
        groups: Ints | None = None,
    ) -> None:
        given = groups is not None
        if isinstance(ranks, Rankings):
            weight = ranks.weights_of_answered(average)
        else:
            weight = ranks.weights_by(average)
        count = 0 if groups is None else int(groups.max(initial=-1)) + 1
        units, *others = units_of(ranks, unit)
        self.crossed = tuple(Sample(ranks, ties, average, other, groups) for other in others)
        self._weighs: NDArray[np.bool_] | None = None
        if weight is not None and not (weight > 0).all():
            self._weighs = weighs = weight > 0
            ranks, weight = ranks[weighs], weight[weighs]
            _, units = np.unique(units[weighs], return_inverse=True)
            groups = None if groups is None else groups[weighs]
        self.ranks, self.ties, self.unit, self._average = ranks, ties, units, average
        self.weight: Floats = np.ones(len(ranks)) if weight is None else weight
        self.units = int(units.max()) + 1 if len(units) else 0
        self.group = np.zeros(len(units), dtype=np.int64)
        self.part, self._unit_of, self._group_of = units, np.arange(self.units), self.group[: self.units]
        if groups is None and average_name(average) not in SAMPLED:
            groups = ranks.units(average)
        if groups is not None:
            part, (unit_of, group_of) = columns.encode([units, groups])
            if given or len(unit_of) > len(np.unique(groups)):  # otherwise the groups are the sample
                self.group, self.part, self._unit_of, self._group_of = groups, part, unit_of, group_of
        self._within = np.bincount(self._group_of, minlength=count)  # units in each group

    def __repr__(self) -> str:
        return f"Sample({len(self.ranks):,} targets, {self.units:,} units, {self.groups:,} groups)"

    def of_model(self, ranks: AnyRanks) -> Sample:
        """Return the sample of another model that ranked these targets: with the same units and groups.

        Parameters
        ----------
        ranks : Ranks or Rankings
            The ranks of the model.

        Returns
        -------
        Sample
            Its sample.
        """
        made = copy(self)
        for name in ("tally", "_rows", "_dependence", "_shapes", "_defined"):
            vars(made).pop(name, None)
        made.ranks = ranks if self._weighs is None else ranks[self._weighs]
        made.crossed = tuple(one.of_model(ranks) for one in self.crossed)
        return made

    @property
    def ways(self) -> tuple[Sample, ...]:
        """The same targets by each of the units that cross; the sample itself if there is one unit."""
        return (self, *self.crossed[:1])

    @property
    def fewest(self) -> int:
        """The smallest number of units of one kind."""
        return min(way.units for way in self.ways)

    @property
    def groups(self) -> int:
        """Number of fixed groups."""
        return len(self._within)

    @property
    def units_by_group(self) -> list[int]:
        """Number of units in each fixed group."""
        return list(map(int, self._within.tolist()))

    @property
    def alone(self) -> int:
        """Number of fixed groups with a single unit, whose spread cannot be estimated."""
        return int((self._within == 1).sum()) if self.groups > 1 else 0

    def metric(self, expression: Expression) -> Metric | Statistic | QueryMetric:
        """Get the metric of an expression, as it is computed from these ranks or rankings.

        Parameters
        ----------
        expression : Metric or Adjusted
            The metric.

        Returns
        -------
        Metric, Statistic or QueryMetric
            The metric without its adjustment; of rankings, MRR is that of the first answer.
        """
        return metric_of(expression, self.ranks)

    def defined(self, expression: Expression) -> Sample:
        """Leave out the queries for which a metric is undefined.

        Parameters
        ----------
        expression : Metric or Adjusted
            The metric.

        Returns
        -------
        Sample
            The sample itself, unless some queries have only answers as candidates: these have no AUC.
        """
        metric = self.metric(expression)
        if not isinstance(metric, QueryMetric) or metric.kind != "auc":
            return self
        return self if self._defined is None else self._defined

    @cached_property
    def _defined(self) -> Sample | None:
        assert isinstance(self.ranks, Rankings)
        some = self.ranks.answer_counts < self.ranks.candidates
        if some.all() or not self.ranks.has_candidates:
            return None
        weights = np.where(some, self.weight, 0.0)
        ranks = self.ranks.with_weights(weights) if some.any() else self.ranks[:0]
        groups = None if self.groups == 1 else self.group
        units = self.unit if some.any() else self.unit[:0]
        made = Sample(ranks, self.ties, "micro", units, groups)
        made.crossed = tuple(one._defined or one for one in self.crossed)
        return made

    @cached_property
    def tally(self) -> Tally:
        """The tally of the targets, which rankings do not have."""
        r = self.ranks
        assert not isinstance(r, Rankings)
        return Tally.of_checked(r.better, r.equal, r.candidates, self.weight)

    @cached_property
    def _rows(self) -> tuple[Ints, Ranges]:
        """The distinct counts of better and equal candidates, and which of them each target has."""
        r = self.ranks
        assert not isinstance(r, Rankings)
        row, (better, equal) = columns.encode([r.better, r.equal])
        return row, Ranges.of(better, equal, np.ones(len(better)), self.ties)

    def rank(self) -> Floats:
        """Compute one rank per target, under `expected` ties the expected rank.

        Returns
        -------
        ndarray
            The ranks.
        """
        row, ranges = self._rows
        return np.asarray((ranges.low + ranges.high)[row] / 2.0)

    @property
    def equal_weights(self) -> bool:
        """Whether all targets have the same weight."""
        if isinstance(self.ranks, Rankings):
            return bool((self.weight == self.weight[:1]).all())
        return self.tally.equal_weights

    def terms(self, metric: Metric | QueryMetric) -> Terms:
        """Compute the term of each target.

        Parameters
        ----------
        metric : Metric or QueryMetric
            A power mean.

        Returns
        -------
        Terms
            The terms.
        """
        if isinstance(self.ranks, Rankings):
            ties = self.ties
            return Terms(metric, self.ranks.values(metric, ties), 1.0)  # type: ignore[arg-type]  # checked
        assert isinstance(metric, Metric)
        row, ranges = self._rows
        x, reference = metric.term(float(ranges.low.min()), float(ranges.high.max()))
        with np.errstate(divide="ignore"):  # f = 0 under p <= 0 makes an infinite term
            return Terms(metric, ranges.mean(x)[row], reference)

    def total(self, column: Floats) -> Floats:
        """Sum a column within each unit.

        Parameters
        ----------
        column : ndarray
            A value per target.

        Returns
        -------
        ndarray
            A sum per unit.
        """
        return np.bincount(self.unit, weights=column, minlength=self.units).astype(float, copy=False)

    def net(self, x: Floats) -> Floats:
        """Compute the weighted sum of a column within each unit, with rounding errors set to zero.

        Parameters
        ----------
        x : ndarray
            A value per target.

        Returns
        -------
        ndarray
            A sum per unit.
        """
        return self._net(x, x, self.unit)

    def _net(self, x: Floats, of: Floats, owner: Ints) -> Floats:
        """Compute weighted sums; the rounding error of larger numbers is set to zero."""
        total, size = (
            np.bincount(owner, self.weight * column).astype(float, copy=False)
            for column in (x, np.abs(of))
        )
        total[np.abs(total) <= ROUNDING * size] = 0.0
        return total

    def mean(self, x: Floats) -> float:
        """Compute the weighted mean of a column.

        Parameters
        ----------
        x : ndarray
            A value per target.

        Returns
        -------
        float
            The mean.
        """
        return float((self.weight * x).sum() / self.weight.sum())  # BLAS would wake threads for this

    def influence(self, x: Floats, means: Floats | None = None) -> Floats:
        """Compute the influence of each part of a unit on the weighted mean of a column.

        Within a group the influences sum to zero, unless the group has a single unit: its influence is
        its distance from the mean of all targets.

        Parameters
        ----------
        x : ndarray
            A value per target.
        means : ndarray, optional
            Its means by group, if they are known.

        Returns
        -------
        ndarray
            The influence of each part.
        """
        mean = self.mean(x)
        if self.groups > 1 and means is None:
            means = self.means_by_group(x)
        own = [one._influence(x, mean, means) for one in (self, *self.crossed)]
        return np.concatenate(own) if self.crossed else own[0]

    def _influence(self, x: Floats, mean: float, means: Floats | None) -> Floats:
        """Compute the influences by one kind of units."""
        centre = mean if means is None else np.where(self._within > 1, means, mean)[self.group]
        return np.asarray(self._net(x - centre, x, self.part) / self.weight.sum())

    def _split(self, influence: Floats) -> list[Floats]:
        """Split the influences of crossed units: by the first, by the second, by both."""
        ends = np.cumsum([len(one._unit_of) for one in (self, *self.crossed)])
        return np.split(influence, ends[:-1])

    def error(self, influence: Floats) -> StandardError:
        """Compute a standard error from influences.

        With fixed groups, the degrees of freedom are those of Satterthwaite (1946).

        Parameters
        ----------
        influence : ndarray
            The influence of each part.

        Returns
        -------
        StandardError
            The standard error; NaN with fewer than two units.
        """
        if self.fewest < 2:
            return StandardError(nan, nan)
        if self.crossed:
            parts = self._split(influence)
            first, second, both = (
                one._error(part) for one, part in zip((self, *self.crossed), parts, strict=True)
            )
            return StandardError(_crossed(first.size, second.size, both.size), min(first.df, second.df))
        return self._error(influence)

    def errors_of_ways(self, influence: Floats) -> list[StandardError]:
        """Compute the standard error by each of the units that cross, as if there were only this one.

        Parameters
        ----------
        influence : ndarray
            The influence of each part.

        Returns
        -------
        list of StandardError
            One for each of `ways`.
        """
        return [one._error(part) for one, part in zip(self.ways, self._split(influence), strict=False)]

    def effective(self, influence: Floats) -> float:
        """Compute how many units determine a variance, `(sum I^2)^2 / sum I^4`.

        Parameters
        ----------
        influence : ndarray
            The influence of each part.

        Returns
        -------
        float
            The number of units; the smaller one, if two units cross.
        """
        parts = zip(self.ways, self._split(influence), strict=False)
        squares = [np.bincount(one._unit_of, part) ** 2 for one, part in parts]
        return min(float(each.sum() ** 2 / (each**2).sum()) for each in squares)

    def _error(self, influence: Floats) -> StandardError:
        """Compute the standard error by one kind of units."""
        n, most = self._within, self.units - 1
        influence = self._unbiased(influence)
        size = sqrt(float((np.bincount(self._unit_of, influence) ** 2).sum()))
        if self.groups == 1 or not size > 0:
            return StandardError(size, most)
        variance = np.bincount(self._group_of, influence**2)
        lone, others = variance[n == 1], variance[n > 1]
        doubt = (others**2 / (n[n > 1] - 1)).sum() + lone.sum() ** 2 / max(len(lone), 1)
        return StandardError(size, min(float(variance.sum() ** 2 / doubt), most))

    def errors_by_group(self, expansion: Expansion) -> list[StandardError]:
        """Compute the standard error of a metric in each group, on the targets of that group alone.

        Parameters
        ----------
        expansion : Expansion
            The metric, expanded in these targets.

        Returns
        -------
        list of StandardError
            The standard errors, with the number of units less one as degrees of freedom; NaN without
            spread, and without a derivative.
        """
        with np.errstate(divide="ignore", invalid="ignore"):  # empty groups, infinite terms
            slope = np.abs([expansion.terms.slope(mean) for mean in expansion.means.tolist()])
            share = np.bincount(self.group, self.weight, self.groups) / self.weight.sum()
            sizes = [
                one._size_by_group(part) * slope / share
                for one, part in zip(
                    (self, *self.crossed), self._split(expansion.influence), strict=True
                )
            ]
        size, fewest = sizes[0], self._within
        if self.crossed:
            for one, other in zip(self.crossed, sizes[1:], strict=True):
                other[(one._within < 2) | ~(other > 0)] = nan
            size = np.array(list(map(_crossed, *np.nan_to_num(sizes))))
            fewest = np.minimum(fewest, self.crossed[0]._within)
        size[(fewest < 2) | ~(size > 0)] = nan
        return list(map(StandardError, size.tolist(), (fewest - 1).tolist()))

    def _size_by_group(self, influence: Floats) -> Floats:
        """Compute the part of each group in the standard error by one kind of units."""
        variance = np.bincount(self._group_of, self._unbiased(influence) ** 2, self.groups)
        return np.asarray(np.sqrt(variance))

    def spread_by_group(self, expansion: Expansion) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Describe the units of each group; the less favourable kind, if two units cross.

        Parameters
        ----------
        expansion : Expansion
            A metric, expanded in these targets.

        Returns
        -------
        tuple of ndarray
            How many units determine the variance of the mean term, `effective`; how many there are, with
            those of smaller weight as fewer; and whether each target is a unit, of equal weight.
        """
        targets = np.bincount(self.group, minlength=self.groups)
        rows = []
        for one, part in zip(self.ways, self._split(expansion.influence), strict=False):
            weight = np.bincount(one.part, one.weight, minlength=len(one._unit_of))
            counts = []
            for column in (part**2, weight):
                total, square = (np.bincount(one._group_of, c, self.groups) for c in (column, column**2))
                with np.errstate(invalid="ignore", divide="ignore"):  # no spread
                    counts.append(total**2 / square)
            rows.append((*counts, one._within == targets))
        determined, units, alone = (np.min(column, axis=0) for column in zip(*rows, strict=True))
        return determined, units, alone & self.equal_weights

    def means_by_group(self, x: Floats) -> Floats:
        """Compute the weighted mean of a column in each group.

        Parameters
        ----------
        x : ndarray
            A value per target.

        Returns
        -------
        ndarray
            A mean per group.
        """
        total, mass = (
            np.bincount(self.group, column, self.groups) for column in (self.weight * x, self.weight)
        )
        with np.errstate(invalid="ignore"):  # empty groups
            return np.asarray(total / mass)

    def _unbiased(self, influence: Floats) -> Floats:
        """Scale influences by the square root of n / (n - 1), for the n units of their group."""
        n = self._within
        return influence * np.sqrt(n / np.maximum(n - 1, 1))[self._group_of]

    def influence_on(self, expression: Expression) -> Floats:
        """Compute the influence of each part on a metric of finite terms, to first order.

        Parameters
        ----------
        expression : Metric or Adjusted
            The metric.

        Returns
        -------
        ndarray
            The influence of each part; NaN if the metric has no derivative at its value.
        """
        return Expansion(self, smooth(expression, self.ranks)).on(expression)

    def null(self, expression: Adjusted) -> Null:
        """Return the null distribution of an adjusted metric, as `evaluate` takes it.

        Parameters
        ----------
        expression : Adjusted
            The metric.

        Returns
        -------
        NullDistribution or QueryNull
            The distribution, which is held fixed.
        """
        metric = self.metric(expression)
        if isinstance(metric, QueryMetric):
            return QueryNull(metric, self._shapes)
        assert not isinstance(self.ranks, Rankings)
        spread = expression.adjustment in ("z", "phi") and self.ranks.chance == "scorer"
        dependence = self._dependence if spread else None
        return NullDistribution(metric, self.tally.sizes, dependence=dependence)

    @cached_property
    def _shapes(self) -> Shapes:
        assert isinstance(self.ranks, Rankings)
        return self.ranks.with_weights(None if self.equal_weights else self.weight).shapes()

    @cached_property
    def _dependence(self) -> Dependence | None:
        assert not isinstance(self.ranks, Rankings)
        if self._weighs is None:  # as the evaluation has it, whose description is then shared
            return self.ranks.dependence(self._average)
        return self.ranks.dependence(weights=self.weight)

    def _map_slope(self, expression: Expression, value: float) -> float:
        """Compute the slope of an adjustment; the null distribution is held fixed."""
        if not isinstance(expression, Adjusted):
            return 1.0
        null = self.null(expression)
        if expression.adjustment == "phi":
            line = z(null)
            return line.scale * exp(-0.5 * line(value) ** 2) / sqrt(2.0 * pi)
        line_or_map = expression.map(null)
        assert isinstance(line_or_map, Affine)
        return line_or_map.scale


class Expansion:
    """The first-order expansion of a metric in the targets of a sample.

    Parameters
    ----------
    sample : Sample
        The targets.
    metric : Metric or QueryMetric
        The metric, a smooth function of a mean of terms.
    """

    def __init__(self, sample: Sample, metric: Metric | QueryMetric) -> None:
        self.sample, self.terms = sample, sample.terms(metric)

    def __repr__(self) -> str:
        return f"Expansion({self.terms.metric}; {self.sample!r})"

    @cached_property
    def mean(self) -> float:
        """The mean term."""
        return self.sample.mean(self.terms.x)

    @cached_property
    def means(self) -> Floats:
        """The mean term of each group."""
        return self.sample.means_by_group(self.terms.x)

    @cached_property
    def influence(self) -> Floats:
        """The influence of each part of a unit on the mean term."""
        means = self.means if self.sample.groups > 1 else None
        return self.sample.influence(self.terms.x, means)

    @cached_property
    def error(self) -> StandardError:
        """The standard error of the mean term."""
        return self.sample.error(self.influence)

    def on(self, expression: Expression) -> Floats:
        """Compute the influence of each part on the metric, or on an adjustment of it.

        Parameters
        ----------
        expression : Metric or Adjusted
            The metric.

        Returns
        -------
        ndarray
            The influence of each part; NaN if the metric has no derivative at its value.
        """
        terms, mean = self.terms, self.mean
        slope = terms.slope(mean) * self.sample._map_slope(expression, float(terms.value(mean)))
        return np.asarray(slope * self.influence)


def samples_of(
    parts: Iterable[AnyRanks],
    ties: Ties,
    averages: Sequence[str | Sequence[str]] = ("micro",),
    unit: str = "target",
) -> list[Sample]:
    """Sample the targets of each part under each average; equal targets are numbered once.

    Parameters
    ----------
    parts : iterable of Ranks or Rankings
        The ranks.
    ties : str
        The tie-breaking rule.
    averages : sequence of str or sequence of str
        The averages.
    unit : str
        The resampling unit.

    Returns
    -------
    list of Sample
        The samples, by part and average.
    """
    found: list[Sample] = []
    before: AnyRanks | None = None
    for part in parts:
        if before is not None and part.has_targets_of(before):
            found += [one.of_model(part) for one in found[-len(averages) :]]
        else:
            found += [Sample(part, ties, average, unit) for average in averages]
        before = part
    return found


def _crossed(first: float, second: float, both: float) -> float:
    """Compute the standard error of crossed units; it is at least that by either unit."""
    return sqrt(max(first**2 + second**2 - both**2, first**2, second**2))
