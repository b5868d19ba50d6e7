"""Chance-adjusted metrics: affine maps of a metric by its mean E and deviation sigma under chance.

    ratio   0 -> 0,  E -> 1             1 is the chance level; smaller stays better where it was
    index   E -> 0,  best -> 1          0 is the chance level, 1 is a perfect ranking
    z       E -> 0,  E +- sigma -> 1    standard deviations better than the chance level
    chance  any value -> E              the chance level itself

Maps compose (`@`) and invert (`~`, which recovers raw values from published adjusted ones). `phi` maps
z by the normal distribution function to (0, 1); it is monotone but not affine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erfc, inf, sqrt
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats
from evenrank._internal.checks import check_choice
from evenrank.errors import DegenerateError, InputError, NullDistributionError
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.chance import Dependent, Null, Shaped
from evenrank.metrics.chance import chance as null_distribution
from evenrank.metrics.metric import MR, MRR, NDCG, Metric, Statistic
from evenrank.metrics.tally import Tallied, Tally, as_tally
from evenrank.metrics.ties import Ties

Point: TypeAlias = tuple[float, float]
Number = TypeVar("Number", float, Floats)


@dataclass(frozen=True)
class Affine:
    """The affine map `x -> scale * x + offset`.

    >>> line = Affine.through((3.0, 0.0), (1.0, 1.0))
    >>> print(line, line(2.0), (~line)(0.5), (line @ ~line)(7.0))
    -0.5 x + 1.5 0.5 2.0 7.0
    """

    scale: float
    offset: float = 0.0
    # points on the line, which are mapped exactly in spite of rounding
    points: tuple[Point, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def through(cls, first: Point, second: Point) -> Affine:
        """Return the map through two points, which is exact where y is 0 or 1."""
        (x0, y0), (x1, y1) = first, second
        if x0 == x1:
            raise DegenerateError("no affine map through two points with the same x", got=x0)
        scale = (y1 - y0) / (x1 - x0)
        return cls(scale, y0 - scale * x0, (first, second))

    def __call__(self, x: Number) -> Number:
        """Map a value or an array."""
        if len(self.points) == 2:
            (x0, y0), (x1, y1) = self.points
            y = y1 - (x1 - x) / (x1 - x0) * (y1 - y0)
        else:
            y = self.scale * x + self.offset
        for known, exact in self.points:
            if isinstance(x, np.ndarray):
                y = np.where(x == known, exact, y)
            elif x == known:
                y = exact
        return y

    def __matmul__(self, other: Affine) -> Affine:
        """Compose: apply `other` first."""
        return Affine(self.scale * other.scale, self.scale * other.offset + self.offset)

    def __invert__(self) -> Affine:
        """Return the inverse map."""
        if self.scale == 0:
            raise DegenerateError("a constant map has no inverse", got=self)
        back = tuple((y, x) for x, y in self.points)
        return Affine(1.0 / self.scale, -self.offset / self.scale, back)

    def __str__(self) -> str:
        """Return the formula."""
        if self.offset == 0:
            return f"{self.scale:.6g} x"
        return f"{self.scale:.6g} x {'-' if self.offset < 0 else '+'} {abs(self.offset):.6g}"


def ratio(null: Null) -> Affine:
    """Divide by the expected value under random ranking."""
    mean = float(null.mean())
    if mean == 0:
        raise DegenerateError(f"ratio({null.metric}) is undefined: the chance level is 0")
    return Affine(1.0 / mean, points=((mean, 1.0),))


def index(null: Null) -> Affine:
    """Map the chance level to 0 and the best value to 1."""
    _check_adjustable(null, "index")
    return Affine.through((float(null.mean()), 0.0), (null.best, 1.0))


def z(null: Null) -> Affine:
    """Count standard deviations from the chance level, positive where better."""
    _check_adjustable(null, "z")
    better = 1.0 if null.metric.increasing else -1.0
    mean = float(null.mean())
    scale = better / null.std()
    return Affine(scale, -scale * mean, ((mean, 0.0),))


def chance(null: Null) -> Affine:
    """Map every value to the chance level."""
    return Affine(0.0, null.mean())


def _check_adjustable(null: Null, name: str) -> None:
    if null.metric.increasing is None:
        raise no_direction(null.metric)
    if null.certain or (float(null.mean()) == null.best and float(null.var()) == 0):
        raise DegenerateError(
            f"{name}({null.metric}) is undefined: every ranking has the value "
            f"{float(null.mean()):.6g}, the best possible",
            got=f"at most {null.most_candidates} candidates",
            do="rank more candidates" + ", or use a smaller k" * null.has_cutoff,
        )
    if name == "z" and float(null.var()) == 0:
        raise DegenerateError(
            f"z({null.metric}) is undefined: the variance of the null distribution underflows",
            got=f"mean {float(null.mean()):.6g} over {null.extent}",
            do=f"use index({null.metric})",
        )


def no_direction(metric: Metric | Statistic) -> NullDistributionError:
    """Build the error for a metric that cannot be adjusted."""
    return NullDistributionError(
        f"{metric} cannot be adjusted: neither large nor small values are better",
        do="adjust a metric such as mrr, mr or hits@10",
    )


AdjustmentName = Literal["chance", "ratio", "index", "z", "phi"]
LINES: dict[str, Callable[[Null], Affine]] = {
    "chance": chance,
    "ratio": ratio,
    "index": index,
    "z": z,
}


@dataclass(frozen=True)
class Adjusted:
    """A chance-adjusted metric, to evaluate, print and compare as other metrics.

    Parameters
    ----------
    adjustment : {"chance", "ratio", "index", "z", "phi"}
        The adjustment.
    metric : Metric or Statistic
        The metric to adjust.

    Examples
    --------
    >>> from evenrank.metrics.metric import MR, MRR, NDCG, MRR
    >>> same = Tally.of(better=[0] * 9, equal=[4] * 9, candidates=[5] * 9)  # all candidates tie
    >>> print(Adjusted("index", MRR), round(Adjusted("index", MRR)(same), 12))
    index(mrr) 0.0
    """

    adjustment: AdjustmentName
    metric: Metric | Statistic | QueryMetric

    def __post_init__(self) -> None:
        """Check that the metric can be adjusted."""
        check_choice("adjustment", self.adjustment, get_args(AdjustmentName))
        if not isinstance(self.metric, Metric | Statistic | QueryMetric):
            raise InputError(
                "only metrics without adjustment can be adjusted", got=repr(self.metric)[:40]
            )
        if self.metric.increasing is None:
            raise no_direction(self.metric)

    @property
    def increasing(self) -> bool | None:
        """Whether larger values are better; None for chance levels."""
        if self.adjustment == "chance":
            return None
        return True if self.adjustment != "ratio" else self.metric.increasing

    @property
    def best(self) -> float | None:
        """The value when every rank is 1; None if it depends on the numbers of candidates."""
        return 1.0 if self.adjustment == "index" else None

    @property
    def range(self) -> tuple[float, float]:
        """Infimum and supremum over all ranks and numbers of candidates."""
        return {
            "chance": self.metric.range,
            "ratio": (0.0, inf),
            "index": (self._lowest_index, 1.0),
            "z": (-inf, inf),
            "phi": (0.0, 1.0),
        }[self.adjustment]

    @property
    def _lowest_index(self) -> float:
        """A lower bound of the index over all ranks and numbers of candidates.

        That of a plain mean of f(r) is at least the least (f(N) - E f) / (f(1) - E f) of any N. This is
        -1 for all N if f is linear. If f falls ever more slowly, E f is at most the middle, so that it
        is -1 or more, and -1 at N = 2. Hits@k have -E/(1 - E), which is -k at N = k + 1. For other
        metrics no bound is known.
        """
        metric = self.metric
        if metric in (MR, MRR, NDCG):
            return -1.0
        if isinstance(metric, Metric) and metric.f.k is not None and metric.p == metric.q == 1:
            return -float(metric.f.k)
        return -inf

    @property
    def span(self) -> str:
        """The range as plain text, in terms of the chance level E where it depends on that."""
        low, high = self.range
        metric = self.metric
        if self.adjustment == "index" and metric.increasing and metric.range == (0.0, 1.0):
            return "-E/(1-E) to 1" if self._best == "1" else "-E/(best-E) to 1"
        return f"{low:g} to {high:g}"

    @property
    def _best(self) -> str:
        """The best value as plain text; that of precision@10 depends on the numbers of answers."""
        depends = isinstance(self.metric, QueryMetric) and not self.metric.bounded
        return "best" if depends else f"{self.metric.best:g}"

    @property
    def formula(self) -> str:
        """The formula as plain text."""
        m = str(self.metric)
        sign = "" if self.metric.increasing else "-"
        return {
            "chance": f"E[{m}]",
            "ratio": f"{m} / E[{m}]",
            "index": f"({m} - E[{m}]) / ({self._best} - E[{m}])",
            "z": f"{sign}({m} - E[{m}]) / sigma[{m}]",
            "phi": f"Phi({sign}({m} - E[{m}]) / sigma[{m}])",
        }[self.adjustment]

    @property
    def reference(self) -> str:
        """The publication that introduced the adjustment."""
        if str(self.metric) == "mr" and self.adjustment in ("ratio", "index"):
            return "Berrendorf et al. 2020"
        return "Hoyt et al. 2022"

    def map(self, null: Null) -> Callable[[float], float]:
        """Return the map from raw to adjusted values.

        Parameters
        ----------
        null : Null
            The null distribution of the metric.

        Returns
        -------
        callable
            Maps a raw value to its adjusted value.
        """
        if self.adjustment != "phi":
            return LINES[self.adjustment](null)
        line = z(null)
        return lambda x: 0.5 * erfc(-line(x) / sqrt(2.0))

    def __call__(
        self,
        ranks: Tally | Tallied | Shaped | ArrayLike,
        ties: Ties = "expected",
        null: Null | None = None,
    ) -> float:
        """Compute the chance-adjusted metric.

        Parameters
        ----------
        ranks : Ranks, Tally or Rankings
            The ranks, with numbers of candidates; rankings, for a metric of several answers.
        ties : str
            The tie-breaking rule.
        null : Null, optional
            The null distribution of the metric, if it is known already.

        Returns
        -------
        float
            The adjusted value.

        Raises
        ------
        NullDistributionError
            If the numbers of candidates are unknown, or the null distribution is not known.
        DegenerateError
            If every ranking has the same value.
        """
        if isinstance(ranks, Shaped):
            several = for_answers(self.metric)
            return self.map(null or null_distribution(several, ranks))(several(ranks, ties))
        if isinstance(self.metric, QueryMetric):
            raise self.metric.not_of_ranks()
        tally = as_tally(ranks)
        known = ranks if isinstance(ranks, Dependent) else tally
        return self.map(null or null_distribution(self.metric, known))(self.metric(tally, ties))

    def __str__(self) -> str:
        """Return the metric expression."""
        return f"{self.adjustment}({self.metric})"

    def __repr__(self) -> str:
        """Return the metric expression with the name of the class."""
        return f"Adjusted({str(self)!r})"


Expression = Metric | Statistic | QueryMetric | Adjusted
