"""Published values: their metric, their unit, and whether they can be adjusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np

from evenrank.errors import InputError, NullDistributionError, Option, UnknownMetricError
from evenrank.metrics.adjusted import Adjusted, Expression, no_direction
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.ranks.evaluation import bare

SLACK = 1e-9  # for rounding errors


@dataclass(frozen=True)
class PublishedValue:
    """A value as published.

    Parameters
    ----------
    expression : Metric or Adjusted
        The metric, which may be adjusted.
    value : float
        The value.
    percent : bool
        Whether it is in percent.
    places : int, optional
        The number of decimals that were printed; by default the value is not rounded.
    units : float, default 0.5
        By how many units of the last digit the printed value may differ from the exact one. It is half a
        unit after rounding, and up to one where further digits were cut off.
    """

    expression: Expression
    value: float
    percent: bool = False
    places: int | None = None
    units: float = 0.5

    @classmethod
    def of(cls, name: str | Expression, value: Any) -> Self:
        """Parse a value; a percent sign marks percent, otherwise `decide_percent` detects it.

        Parameters
        ----------
        name : str or Metric
            The metric.
        value : float or str
            The value; text may end with "%".

        Returns
        -------
        PublishedValue
            The value.

        Examples
        --------
        >>> PublishedValue.of("hits@10", "57.1 %").fraction
        0.571
        >>> [PublishedValue.of("mrr", text).value for text in (".476", "47,6", "0,476")]
        [0.476, 47.6, 0.476]
        """
        expression = adjustable(name)
        marked = isinstance(value, str) and value.rstrip().endswith("%")
        plain = _with_point(value.rstrip(" %").strip(), expression) if isinstance(value, str) else value
        given = cls(expression, number(plain), marked, decimals(plain))
        if marked and not given.ends_at_one:
            raise InputError(f"{given.expression} cannot be in percent: its maximum is not 1", got=value)
        return given

    @property
    def metric(self) -> Metric | Statistic:
        """The metric itself, without its adjustment."""
        metric = bare(self.expression)
        assert not isinstance(metric, QueryMetric)  # `adjustable` rejects these
        return metric

    @property
    def ends_at_one(self) -> bool:
        """Whether the maximum is 1, so that authors may write it in percent."""
        if isinstance(self.expression, Adjusted):
            return self.expression.adjustment == "index"
        return self.expression.range[1] <= 1

    @property
    def fraction(self) -> float:
        """The value as a fraction, converted in decimal, so that 57.1 % and 0.571 are equal."""
        return float(Decimal(str(self.value)).scaleb(-2)) if self.percent else self.value

    @property
    def rounded_from(self) -> tuple[float, float]:
        """The smallest and the largest fraction that is printed like this: 0.48 is 0.475 to 0.485."""
        if self.places is None:
            return self.fraction, self.fraction
        half = Decimal(str(self.units)).scaleb(-self.places)
        ends = (Decimal(str(self.value)) + sign * half for sign in (-1, 1))
        low, high = (float(end.scaleb(-2 * self.percent)) for end in ends)
        return low, high

    @property
    def kind(self) -> str:
        """Values of one kind have the same unit: a metric, or hits@k for every k."""
        hits = isinstance(self.metric, Metric) and self.metric.f.k is not None
        name = "hits@k" if hits else str(self.metric)
        return f"index({name})" if isinstance(self.expression, Adjusted) else name

    @property
    def printed(self) -> str:
        """The value with all digits that were printed, such as "mrr=0.480"."""
        text = f"{self.value:.12g}" if self.places is None else f"{self.value:.{max(self.places, 0)}f}"
        return f"{self.expression}={text}{' %' * self.percent}"

    def __str__(self) -> str:
        """Format it as published."""
        return f"{self.expression}={self.value:.12g}"


def adjustable(name: str | Expression) -> Expression:
    """Parse a metric whose published values can be adjusted.

    Parameters
    ----------
    name : str or Metric
        The metric, which may be adjusted.

    Returns
    -------
    Metric or Adjusted
        The metric.

    Raises
    ------
    NullDistributionError
        If its published values cannot be adjusted.
    """
    try:
        expression = parse(name)
    except UnknownMetricError:
        if "macro" not in str(name).lower():
            raise
        raise NullDistributionError(
            "a published macro average cannot be adjusted: the weights of its groups are unknown",
            got=repr(name),
            do="adjust the micro average, or pass sizes= with the weights= of the targets",
        ) from None
    metric = bare(expression)
    if isinstance(metric, QueryMetric):
        raise NullDistributionError(
            f"published values of {metric} cannot be adjusted: the numbers of answers are unknown",
            do=f'compute its chance level: er.chance("{metric}", sizes=..., answers=...)',
        )
    if metric == Statistic("count"):
        raise NullDistributionError("count does not depend on the ranks: there is no chance level")
    if metric.increasing is None:
        raise no_direction(metric)
    form = expression.adjustment if isinstance(expression, Adjusted) else None
    if form == "phi":
        raise NullDistributionError(
            f"{expression} cannot be converted back to {metric}: it is 1 to all digits from z = 9 on",
            do=f"use {metric}, or z({metric})",
        )
    if form == "chance":
        raise NullDistributionError(
            f"{expression} cannot be converted back to {metric}: it is the same for every model",
            do=f"use {metric}",
        )
    return expression


def number(value: Any) -> float:
    """Parse a number; booleans are none."""
    try:
        if not isinstance(value, bool | np.bool_):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(
        "a value must be a number", got=repr(value), do="write it as 0.571, or in percent as 57.1"
    )


_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def _with_point(text: str, expression: Expression) -> str:
    """Write a number with a decimal point: "57,1" is 57.1, and "12,345.6" is 12345.6.

    >>> from evenrank.metrics.grammar import parse
    >>> [_with_point(text, parse("mr")) for text in ("57,1", "12,345.6", "1,234,567", "0,571")]
    ['57.1', '12345.6', '1234567', '0.571']
    """
    if "," not in text:
        return text
    if text.count(",") > 1 or "." in text:  # where it is well-formed, commas group digits
        return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
    if _THOUSANDS.fullmatch(text) and expression.range[1] > 1 and not text.lstrip("+-").startswith("0"):
        point, none = text.replace(",", "."), text.replace(",", "")
        raise InputError(
            f"the comma in a value of {expression} may be a decimal or a thousands separator",
            got=text,
            do=f"write {none}, or {point}",
        )
    return text.replace(",", ".")


def decimals(value: Any) -> int | None:
    """Count the decimals of a printed number; None if it has no digits.

    Whole floats count as whole numbers: 57.0 may be what was left of 57.

    >>> decimals("0.480"), decimals(0.48), decimals("3e2"), decimals(57.0)
    (3, 2, -2, 0)
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return 0
    exponent = Decimal(str(value)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else None


def check_percent(percent: Any) -> None:
    """Raise `InputError` unless this says whether values are in percent."""
    if not isinstance(percent, bool | np.bool_ | None):
        raise InputError("percent must be True, False or None", got=repr(percent))


def decide_percent(
    given: Sequence[PublishedValue], where: Sequence[str], percent: bool | None
) -> list[PublishedValue]:
    """Detect percent and fractions, one kind of metric at a time: authors use one unit.

    A percent sign, or a value above 1 and up to 100, means percent. If a kind has values both above and
    below 1, its unit is ambiguous.
    """
    check_percent(percent)
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
                do=["use one unit, or pass ", Option("percent", True), " if all of them are in percent"],
            )
        for i in rows if percent or (percent is None and large) else ():
            read[i] = replace(given[i], percent=True)
    return read


def units_note(given: Iterable[PublishedValue]) -> tuple[str, ...]:
    """Note the units in which metrics were read."""
    units: dict[str, dict[str, None]] = {}
    for one in given:
        if one.ends_at_one:
            units.setdefault("percent" if one.percent else "fractions", {})[str(one.expression)] = None
    read = "; ".join(f"as {unit}: {', '.join(names)}" for unit, names in units.items())
    return (f"read {read}",) if read else ()
