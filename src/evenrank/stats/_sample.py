"""A sample of targets: which of them move together, and how each pulls on a metric.

A power mean is a smooth function of one mean, `M = G(m)` with `m = sum_i w_i x_i / sum_i w_i`, where a
target's term `x_i` is `f(r_i)^p` (`log f(r_i)` for p = 0), averaged over the ranks a tie allows. An
adjusted metric is a line of M. So each has a first-order expansion in the targets,

    M* - M  ~  sum_i pull_i,    pull_i = G'(m) w_i (x_i - m) / sum_j w_j,

and its variance is that of a sum over independent units (targets, triples, queries), with
`pull_u = sum_{i in u} pull_i`:  `C / (C - 1) * sum_u pull_u^2` for C units (the delta method; for units
of different weight, the linearised variance of a ratio of sums).

An average over relations, sides or any other key is one over fixed groups: other targets would have come
from the same ones. A target then pulls by how far it is from the mean of its group g, not from m, and
`C / (C - 1)` is that of the C units in g (the variance of a stratified sample). Queries, like targets,
are a sample; so are groups of which each lies in one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, nan, pi, sqrt
from typing import NamedTuple

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Affine, Expression, z
from evenrank.metrics.chance import NullDistribution
from evenrank.metrics.metric import Metric
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ranges, Ties
from evenrank.ranks.evaluation import bare
from evenrank.ranks.ranks import TRIPLE, Ranks, average_name

By = str | Sequence[str] | None
ROUNDING = 1e-12  # of the numbers added up: sums closer than this are equal
SAMPLED = ("micro", "query")  # averages over what is drawn, and not over fixed groups


def unit_name(ranks: Iterable[Ranks], by: By) -> str:
    """Say what counts as one independent observation: by default the triple, where all name triples."""
    if by is None:
        return "triple" if all(set(TRIPLE) <= one.keys.keys() for one in ranks) else "target"
    return by if isinstance(by, str) else ",".join(by)


@dataclass(frozen=True)
class Terms:
    """A metric's term of each target, and the function G that makes the metric of their mean."""

    metric: Metric
    x: Floats
    reference: float

    @property
    def finite(self) -> bool:
        """Whether every term is finite: `f = 0` under `p <= 0` is not."""
        return bool(np.isfinite(self.x).all())

    def value(self, mean: Floats | float) -> Floats:
        """Make the metric of the mean of the terms: `G(m)`."""
        p, q = self.metric.p, self.metric.q
        m = np.asarray(mean, dtype=float)
        with np.errstate(divide="ignore"):
            if p == 0:
                return np.asarray(np.exp(q * m))
            root = m if p == q else m ** (q / p)
        return np.asarray(self.reference**q * root)

    def slope(self, mean: float) -> float:
        """Give `G'(m)`; NaN where G has none."""
        p, q = self.metric.p, self.metric.q
        if p == q:
            return float(self.reference**q)
        value = float(self.value(mean))
        if p == 0:
            return q * value
        return q / p * value / mean if mean > 0 else nan

    def at_reference(self, reference: float) -> Floats:
        """Give the terms on the scale of another reference."""
        if reference == self.reference:
            return self.x
        return np.asarray(self.x * (self.reference / reference) ** self.metric.p)


class Error(NamedTuple):
    """A standard error, and its degrees of freedom."""

    size: float
    freedom: float

    def reach(self, level: float) -> float:
        """Give how far an interval of this level reaches, by Student's t."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, 0.5 + level / 2)) * self.size


class Sample:
    """Ranked targets with weights under an average, numbered by the unit they belong to.

    `group` is the fixed group of each target, one for all where groups are none or a sample. What a unit
    has in one group is a part of it; mostly that is all of the unit.
    """

    def __init__(
        self,
        ranks: Ranks,
        ties: Ties = "expected",
        average: str | Sequence[str] = "micro",
        by: str = "target",
    ) -> None:
        """Leave out what weighs nothing."""
        weight = ranks.weights_by(average)
        unit = np.arange(len(ranks)) if by == "target" else ranks.units(by)
        if weight is not None and not (weight > 0).all():
            weighs = weight > 0
            ranks, weight = ranks[weighs], weight[weighs]
            _, unit = np.unique(unit[weighs], return_inverse=True)
        self.ranks, self.ties, self.unit = ranks, ties, unit
        self.weight: Floats = np.ones(len(ranks)) if weight is None else weight
        self.units = int(unit.max()) + 1 if len(unit) else 0
        self.group = np.zeros(len(unit), dtype=np.int64)
        self.part, self._unit_of, self._group_of = unit, np.arange(self.units), self.group[: self.units]
        if average_name(average) not in SAMPLED:
            group = ranks.units(average)
            part, (unit_of, group_of) = columns.encode([unit, group])
            if len(unit_of) > len(np.unique(group)):  # else the groups are the sample
                self.group, self.part, self._unit_of, self._group_of = group, part, unit_of, group_of
        self._within = np.bincount(self._group_of)  # units in each group

    @property
    def groups(self) -> int:
        """Number of fixed groups."""
        return len(self._within)

    @property
    def alone(self) -> int:
        """Number of fixed groups with one unit, which have no spread of their own."""
        return int((self._within == 1).sum()) if self.groups > 1 else 0

    @cached_property
    def tally(self) -> Tally:
        """The targets, counted."""
        r = self.ranks
        return Tally.of_checked(r.better, r.equal, r.candidates, self.weight)

    @cached_property
    def _rows(self) -> tuple[Ints, Ranges]:
        """The distinct rows of counts, and which of them each target has."""
        row, (better, equal) = columns.encode([self.ranks.better, self.ranks.equal])
        return row, Ranges.of(better, equal, np.ones(len(better)), self.ties)

    def rank(self) -> Floats:
        """Give one rank per target; under `expected` ties its expected value."""
        row, ranges = self._rows
        return np.asarray((ranges.low + ranges.high)[row] / 2.0)

    def terms(self, metric: Metric) -> Terms:
        """Give the term of each target."""
        row, ranges = self._rows
        x, reference = metric.term(float(ranges.low.min()), float(ranges.high.max()))
        with np.errstate(divide="ignore"):  # f = 0 under p <= 0: an infinite term, as it should be
            return Terms(metric, ranges.mean(x)[row], reference)

    def total(self, column: Floats) -> Floats:
        """Add a column up within each unit."""
        return np.bincount(self.unit, weights=column, minlength=self.units).astype(float, copy=False)

    def net(self, x: Floats) -> Floats:
        """Add a column up by weight within each unit; what is only rounding is zero."""
        return self._net(x, x, self.unit)

    def _net(self, x: Floats, of: Floats, owner: Ints) -> Floats:
        """Add a column up by weight; what is only the rounding of larger numbers is zero."""
        total, size = (
            np.bincount(owner, self.weight * column).astype(float, copy=False)
            for column in (x, np.abs(of))
        )
        total[np.abs(total) <= ROUNDING * size] = 0.0
        return total

    def mean(self, x: Floats) -> float:
        """Give the weighted mean of a column."""
        return float((self.weight * x).sum() / self.weight.sum())  # BLAS would wake threads for this

    def pull(self, x: Floats) -> Floats:
        """Give how each part of a unit pulls on the weighted mean of a column.

        The pulls within a group add up to zero; only a unit that is alone in its group pulls by how far
        it is from the mean of all.
        """
        mean: Floats | float = self.mean(x)
        if self.groups > 1:
            means = np.bincount(self.group, self.weight * x) / np.bincount(self.group, self.weight)
            mean = np.where(self._within > 1, means, mean)[self.group]
        return np.asarray(self._net(x - mean, x, self.part) / self.weight.sum())

    def error(self, pull: Floats) -> Error:
        """Give the standard error that pulls make; with fixed groups, Satterthwaite's freedom (1946)."""
        if self.units < 2:
            return Error(nan, nan)
        n, most = self._within, self.units - 1
        pull = pull * np.sqrt(n / np.maximum(n - 1, 1))[self._group_of]
        size = sqrt(float((np.bincount(self._unit_of, pull) ** 2).sum()))
        if self.groups == 1 or not size > 0:
            return Error(size, most)
        variance = np.bincount(self._group_of, pull**2)
        lone, others = variance[n == 1], variance[n > 1]
        doubt = (others**2 / (n[n > 1] - 1)).sum() + lone.sum() ** 2 / max(len(lone), 1)
        return Error(size, min(float(variance.sum() ** 2 / doubt), most))

    def pull_on(self, expression: Expression) -> Floats:
        """Give how each part pulls on a metric of finite terms, to first order; NaN without a slope."""
        metric = smooth(expression)
        terms = self.terms(metric)
        mean = self.mean(terms.x)
        slope = terms.slope(mean) * self._map_slope(expression, float(terms.value(mean)))
        return np.asarray(slope * self.pull(terms.x))

    def _map_slope(self, expression: Expression, value: float) -> float:
        """The slope of an adjustment; its chance law is that of the sizes, which are not drawn."""
        if not isinstance(expression, Adjusted):
            return 1.0
        law = NullDistribution(expression.metric, self.tally.sizes)
        if expression.adjustment == "phi":
            line = z(law)
            return line.scale * exp(-0.5 * line(value) ** 2) / sqrt(2.0 * pi)
        line_or_map = expression.map(law)
        assert isinstance(line_or_map, Affine)
        return line_or_map.scale


def smooth(expression: Expression) -> Metric:
    """Give the metric behind an expression; refuse what is no smooth function of a mean over targets."""
    metric = bare(expression)
    if not isinstance(metric, Metric) or abs(metric.p) == inf:
        raise InputError(
            f"{expression} is not made of a term per target",
            allowed="means such as mrr, hits@10, mr, gmr, and these adjusted for chance",
        )
    if isinstance(expression, Adjusted) and expression.adjustment == "chance":
        raise InputError(f"{expression} is computed from the candidate counts, whatever the ranks are")
    return metric
