"""Adjusting for chance: each adjustment is a straight line through two points.

    ratio   0 -> 0,  E -> 1                 1 is chance; keeps the metric's own direction
    index   E -> 0,  best -> 1              0 is chance, 1 is perfect; larger is better
    z       E -> 0,  E +- sigma -> 1        standard deviations better than chance
    chance  E, whatever the value           the chance level itself, a flat line

A line composes (`@`), inverts (`~`, which recovers raw from published adjusted values) and prints.
`phi` maps z through the normal distribution function onto (0, 1); it is monotone but not a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erfc, inf, sqrt
from typing import Literal, TypeAlias, TypeVar, get_args

from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats
from evenrank.errors import DegenerateError, InputError, NullDistributionError
from evenrank.metrics.chance import NullDistribution
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tallied, Tally, as_tally
from evenrank.metrics.ties import Ties

Point: TypeAlias = tuple[float, float]
Number = TypeVar("Number", float, Floats)


@dataclass(frozen=True)
class Affine:
    """The line `x -> scale * x + offset`.

    >>> line = Affine.through((3.0, 0.0), (1.0, 1.0))
    >>> print(line, line(2.0), (~line)(0.5), (line @ ~line)(7.0))
    -0.5 x + 1.5 0.5 2.0 7.0
    """

    scale: float
    offset: float = 0.0
    # two points that it goes through, whatever rounding makes of scale and offset
    points: tuple[Point, Point] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def through(cls, first: Point, second: Point) -> Affine:
        """Draw the line through two points: exactly so, at (x, 0) and at (x, 1)."""
        (x0, y0), (x1, y1) = first, second
        if x0 == x1:
            raise DegenerateError("no line through two points with the same x", got=x0)
        scale = (y1 - y0) / (x1 - x0)
        return cls(scale, y0 - scale * x0, (first, second))

    def __call__(self, x: Number) -> Number:
        """Map a value, or an array of them."""
        if self.points is None:
            return self.scale * x + self.offset
        (x0, y0), (x1, y1) = self.points
        return y1 - (x1 - x) / (x1 - x0) * (y1 - y0)

    def __matmul__(self, other: Affine) -> Affine:
        """Apply `other` first, then this."""
        return Affine(self.scale * other.scale, self.scale * other.offset + self.offset)

    def __invert__(self) -> Affine:
        """Undo."""
        if self.scale == 0:
            raise DegenerateError("a flat line cannot be inverted", got=self)
        return Affine(1.0 / self.scale, -self.offset / self.scale)

    def __str__(self) -> str:
        """Write the formula."""
        if self.offset == 0:
            return f"{self.scale:.6g} x"
        return f"{self.scale:.6g} x {'-' if self.offset < 0 else '+'} {abs(self.offset):.6g}"


def ratio(null: NullDistribution) -> Affine:
    """Divide by the expectation."""
    mean = float(null.mean())
    if mean == 0:
        raise DegenerateError(f"the ratio of {null.metric} is undefined: chance gets exactly 0")
    return Affine(1.0 / mean)


def index(null: NullDistribution) -> Affine:
    """Put chance at 0 and the best value at 1."""
    _refuse_certain(null, "index")
    return Affine.through((float(null.mean()), 0.0), (null.best, 1.0))


def z(null: NullDistribution) -> Affine:
    """Count standard deviations better than chance."""
    _refuse_certain(null, "z")
    better = 1.0 if null.metric.increasing else -1.0
    mean = null.mean()
    scale = better / null.std()
    return Affine(scale, -scale * mean)


def chance(null: NullDistribution) -> Affine:
    """Forget the value and give the expectation."""
    return Affine(0.0, null.mean())


def _refuse_certain(null: NullDistribution, name: str) -> None:
    if null.metric.increasing is None:
        raise NullDistributionError(
            f"{null.metric} cannot be adjusted: neither large nor small values are better",
            do="adjust a metric such as mrr, mr or hits@10",
        )
    if null.certain or (float(null.var()) == 0 and float(null.mean()) == null.best):
        hits = isinstance(null.metric, Metric) and null.metric.f.k is not None
        raise DegenerateError(
            f"{name}({null.metric}) is undefined: chance always gets {float(null.mean()):.6g}, "
            "the best value there is",
            got=f"sizes up to {int(null.sizes.size.max())}",
            do="rank among more candidates" + ", or choose a smaller k" * hits,
        )
    if name == "z" and float(null.var()) == 0:
        raise DegenerateError(
            f"z({null.metric}) is undefined: its variance under chance is too small for a float",
            got=f"an expectation of {float(null.mean()):.6g} over {null.sizes.n:,} tasks",
            do=f"use index({null.metric})",
        )


AdjustmentName = Literal["chance", "ratio", "index", "z", "phi"]
LINES: dict[str, Callable[[NullDistribution], Affine]] = {
    "chance": chance,
    "ratio": ratio,
    "index": index,
    "z": z,
}


@dataclass(frozen=True)
class Adjusted:
    """A metric adjusted for chance; evaluates, prints and compares like a metric.

    >>> from evenrank.metrics.metric import MRR
    >>> same = Tally.of(better=[0] * 9, equal=[4] * 9, candidates=[5] * 9)  # all candidates tie
    >>> print(Adjusted("index", MRR), round(Adjusted("index", MRR)(same), 12))
    index(mrr) 0.0
    """

    adjustment: AdjustmentName
    metric: Metric | Statistic

    def __post_init__(self) -> None:
        """Refuse what cannot be adjusted."""
        if self.adjustment not in get_args(AdjustmentName):
            raise InputError(
                "unknown adjustment",
                got=repr(self.adjustment),
                allowed=", ".join(get_args(AdjustmentName)),
            )
        if not isinstance(self.metric, Metric | Statistic):
            raise InputError("only a plain metric can be adjusted", got=repr(self.metric))
        if self.metric.increasing is None:
            raise NullDistributionError(
                f"{self.metric} cannot be adjusted: neither large nor small values are better",
                do="adjust a metric such as mrr, mr or hits@10",
            )

    @property
    def increasing(self) -> bool | None:
        """Whether larger is better; a chance level is neither good nor bad."""
        if self.adjustment == "chance":
            return None
        return True if self.adjustment != "ratio" else self.metric.increasing

    @property
    def best(self) -> float | None:
        """The value when every rank is 1; None where that depends on the sizes."""
        return 1.0 if self.adjustment == "index" else None

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest value over all ranks and sizes (the limit included)."""
        return {
            "chance": self.metric.range,
            "ratio": (0.0, inf),
            "index": (-inf, 1.0),
            "z": (-inf, inf),
            "phi": (0.0, 1.0),
        }[self.adjustment]

    @property
    def formula(self) -> str:
        """The formula in plain text."""
        m = str(self.metric)
        sign = "" if self.metric.increasing else "-"
        return {
            "chance": f"E[{m}]",
            "ratio": f"{m} / E[{m}]",
            "index": f"({m} - E[{m}]) / ({self.metric.best:g} - E[{m}])",
            "z": f"{sign}({m} - E[{m}]) / sigma[{m}]",
            "phi": f"Phi({sign}({m} - E[{m}]) / sigma[{m}])",
        }[self.adjustment]

    @property
    def reference(self) -> str:
        """Where it comes from."""
        if str(self.metric) == "mr" and self.adjustment in ("ratio", "index"):
            return "Berrendorf et al. 2020"
        return "Hoyt et al. 2022"

    def map(self, null: NullDistribution) -> Callable[[float], float]:
        """Give the map from raw to adjusted values under a chance law."""
        if self.adjustment != "phi":
            return LINES[self.adjustment](null)
        line = z(null)
        return lambda x: 0.5 * erfc(-line(x) / sqrt(2.0))

    def __call__(
        self,
        ranks: Tally | Tallied | ArrayLike,
        ties: Ties = "expected",
        null: NullDistribution | None = None,
    ) -> float:
        """Compute the adjusted metric; `null` spares working out the null distribution again."""
        tally = as_tally(ranks)
        return self.map(null or NullDistribution(self.metric, tally.sizes))(self.metric(tally, ties))

    def __str__(self) -> str:
        """Write it as the grammar reads it."""
        return f"{self.adjustment}({self.metric})"

    def __repr__(self) -> str:
        """Print as it is written."""
        return f"Adjusted({str(self)!r})"


Expression = Metric | Statistic | Adjusted
