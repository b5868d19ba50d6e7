"""Values as they were published: of which metric, in which unit, and which can be adjusted at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from evenrank.errors import InputError, NullDistributionError, UnknownMetricError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.ranks.evaluation import bare

SLACK = 1e-9  # what rounding may leave


@dataclass(frozen=True)
class Given:
    """A value as it was published: of which expression, and whether in percent."""

    expression: Expression
    value: float
    percent: bool = False

    @classmethod
    def of(cls, name: str | Expression, value: Any) -> Self:
        """Read a value; a sign says that it is percent, else `decide_percent` finds out.

        >>> Given.of("hits@10", "57.1 %").fraction
        0.571
        """
        marked = isinstance(value, str) and value.rstrip().endswith("%")
        given = cls(adjustable(name), number(value.rstrip(" %") if marked else value), marked)
        if marked and not given.ends_at_one:
            raise InputError(f"{given.expression} has no percent: it is not a part of 1", got=value)
        return given

    @property
    def metric(self) -> Metric | Statistic:
        """The metric itself, without its adjustment."""
        return bare(self.expression)

    @property
    def ends_at_one(self) -> bool:
        """Whether nothing is above 1, so that authors may write it in percent."""
        if isinstance(self.expression, Adjusted):
            return self.expression.adjustment == "index"
        return self.expression.range[1] <= 1

    @property
    def fraction(self) -> float:
        """The value as a part of 1; the point moves in decimals, so that 57.1 % and 0.571 are equal."""
        return float(Decimal(str(self.value)).scaleb(-2)) if self.percent else self.value

    @property
    def kind(self) -> str:
        """What authors write in one unit: a metric, or hits@k for every k."""
        hits = isinstance(self.metric, Metric) and self.metric.f.k is not None
        name = "hits@k" if hits else str(self.metric)
        return f"index({name})" if isinstance(self.expression, Adjusted) else name

    def __str__(self) -> str:
        """Write it as it was published."""
        return f"{self.expression}={self.value:.12g}"


def adjustable(name: str | Expression) -> Expression:
    """Read an expression whose published values can be adjusted, or say why they cannot."""
    try:
        expression = parse(name)
    except UnknownMetricError:
        if "macro" not in str(name).lower():
            raise
        raise NullDistributionError(
            "a macro average cannot be adjusted after the fact: how its groups weigh is not published",
            got=repr(name),
            do="adjust the plain average, or give sizes= with the weights= of its tasks",
        ) from None
    metric = bare(expression)
    if metric == Statistic("count"):
        raise NullDistributionError("count does not depend on the ranks: there is no chance level")
    if metric.increasing is None:
        raise NullDistributionError(
            f"{metric} cannot be adjusted: neither large nor small values are better",
            do="adjust a metric such as mrr, mr or hits@10",
        )
    form = expression.adjustment if isinstance(expression, Adjusted) else None
    if form == "phi":
        raise NullDistributionError(
            f"{expression} cannot be taken back to {metric}: it is 1 to all digits from z = 9 on",
            do=f"use {metric}, or z({metric})",
        )
    if form == "chance":
        raise NullDistributionError(
            f"{expression} cannot be taken back to {metric}: a flat line, the same for every model",
            do=f"use {metric}",
        )
    return expression


def number(value: Any) -> float:
    """Read a number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "a value must be a number", got=repr(value), do="write it as 0.571, or in percent as 57.1"
        ) from None


def decide_percent(given: Sequence[Given], where: Sequence[str], percent: bool | None) -> list[Given]:
    """Tell percent from fractions, one kind of metric at a time: authors keep to one unit.

    A sign, or a value above 1 and up to 100, means percent. A kind with values on both sides of 1 could
    be either.
    """
    read = list(given)
    kinds: dict[str, list[int]] = {}
    for i, one in enumerate(given):
        if one.ends_at_one:
            kinds.setdefault(one.kind, []).append(i)
    for kind, rows in kinds.items():
        large = [i for i in rows if given[i].percent or 1 + SLACK < given[i].value <= 100]
        small = [i for i in rows if not given[i].percent and 0 < abs(given[i].value) <= 1 + SLACK]
        if percent is None and large and small:
            raise InputError(
                f"values of {kind} may be percent or fractions",
                got=f"{where[small[0]]} beside {where[large[0]]}",
                do="say percent=True or percent=False (--percent, --fraction), or keep to one unit",
            )
        for i in rows if percent or (percent is None and large) else ():
            read[i] = replace(given[i], percent=True)
    return read
