"""Five desirable properties of rank-based metrics (Hoyt et al. 2022), checked for any metric.

    non-negative          the value is never below 0
    fixed optimum         the value of perfect ranks is 1, the maximum, for every number of candidates
    asymptotic pessimum   the value of the worst ranks tends to 0 as the number of candidates grows
    anti-monotonic        the value strictly falls when any one rank gets worse
    size invariant        the chance level is the same for every number of candidates

A property is refuted by a counterexample, which is reported. Counterexamples are searched among ranks of
one and of three targets and several numbers of candidates; "yes" means that none was found, which is
conclusive for power means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from evenrank._internal.table import Table, figure
from evenrank._internal.terminal import terminal_width
from evenrank.errors import InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted, AdjustmentName, Expression
from evenrank.metrics.chance import NullDistribution, read_sizes
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally

PROPERTIES = ("non-negative", "fixed optimum", "asymptotic pessimum", "anti-monotonic", "size invariant")


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds, and if not, a counterexample."""

    holds: bool
    why: str = ""

    def __bool__(self) -> bool:
        """Whether the property holds."""
        return self.holds


class Desiderata(Mapping[str, Mapping[str, Verdict]]):
    """Verdicts by metric and property; prints as a table with the counterexamples below.

    Parameters
    ----------
    verdicts : dict
        A verdict for each property of each metric.
    """

    def __init__(self, verdicts: dict[str, dict[str, Verdict]]) -> None:
        self._verdicts = verdicts

    def __getitem__(self, metric: str) -> Mapping[str, Verdict]:
        """Return the verdicts of one metric."""
        return self._verdicts[str(parse(metric))]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the metrics."""
        return iter(self._verdicts)

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self._verdicts)

    def table(self) -> Table:
        """Lay out the verdicts as a table.

        Returns
        -------
        Table
            A row per metric, and a note per counterexample.
        """
        rows = [
            [metric, *("yes" if verdicts[name] else "no" for name in PROPERTIES)]
            for metric, verdicts in self._verdicts.items()
        ]
        notes = [
            f"{metric} is not {name}: {verdict.why}"
            if name in ("non-negative", "anti-monotonic", "size invariant")
            else f"{metric} has no {name}: {verdict.why}"
            for metric, verdicts in self._verdicts.items()
            for name, verdict in verdicts.items()
            if not verdict
        ]
        return Table(["metric", *PROPERTIES], rows, notes)

    def __repr__(self) -> str:
        """Return the table as text."""
        return self.table().text(terminal_width())

    def _repr_html_(self) -> str:
        return self.table().html()


def desiderata(*metrics: Metrics) -> Desiderata:
    """Check five desirable properties of metrics.

    Parameters
    ----------
    *metrics : str or Metric, or list of them
        The metrics. A single metric without adjustment is compared to its adjusted forms.

    Returns
    -------
    Desiderata
        A mapping from metrics to properties to verdicts, which prints as a table.

    Raises
    ------
    InputError
        If there is no metric, or one without a direction.

    Examples
    --------
    >>> table = desiderata("mrr")
    >>> [bool(v) for v in table["mrr"].values()]
    [True, True, True, True, False]
    >>> table["mrr"]["size invariant"].why
    'the expected value is 0.2586 for 12 candidates but 0.0519 for 100'
    >>> table["index(mrr)"]["size invariant"].holds
    True
    """
    expressions = [parse(metric) for metric in listed(metrics)]
    if not expressions:
        raise InputError("desiderata requires a metric", do='e.g. desiderata("mrr")')
    for expression in expressions:
        if expression.increasing is None:
            raise InputError(
                f"{expression} has no desiderata: neither large nor small values are better"
            )
    if len(expressions) == 1 and not isinstance(expressions[0], Adjusted):
        forms: tuple[AdjustmentName, ...] = ("ratio", "index", "z", "phi")
        plain = expressions[0]
        expressions += [Adjusted(form, plain) for form in forms]
    return Desiderata({str(e): _check(e) for e in expressions})


def _check(expression: Expression) -> dict[str, Verdict]:
    checks = (_non_negative, _fixed_optimum, _pessimum, _anti_monotonic, _size_invariant)
    verdicts = {}
    for name, check in zip(PROPERTIES, checks, strict=True):
        try:
            verdicts[name] = check(expression)
        except NullDistributionError as error:  # the chance level is infinite
            verdicts[name] = Verdict(False, error.what)
    return verdicts


def _metric(expression: Expression) -> Metric | Statistic:
    return expression.metric if isinstance(expression, Adjusted) else expression


def _sizes(expression: Expression) -> tuple[int, int, int]:
    """Return small numbers of candidates, larger than the k of hits@k."""
    metric = _metric(expression)
    k = (metric.f.k or 0) if isinstance(metric, Metric) else 0
    return (12, 100, 1000) if k < 12 else (k + 2, 4 * k, 16 * k)


def _value(expression: Expression, ranks: tuple[int, ...], size: int) -> float:
    better = np.array(ranks) - 1
    return expression(Tally.of_checked(better, better * 0, better * 0 + size, None))


def _cases(size: int) -> list[tuple[int, ...]]:
    """Return ranks of one and of three targets, including the extremes."""
    steps = sorted({1, 2, size // 3, size // 2, size - 1, size} - {0})
    return [(r,) for r in steps] + [*product(sorted({1, 2, size // 2, size}), repeat=3)]


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _non_negative(expression: Expression) -> Verdict:
    for size in _sizes(expression):
        for ranks in _cases(size):
            value = _value(expression, ranks, size)
            if value < 0:
                return Verdict(False, f"the value of {_ranks(ranks)} of {size} is {figure(value)}")
    return Verdict(True)


def _fixed_optimum(expression: Expression) -> Verdict:
    if isinstance(expression, Adjusted) and expression.adjustment == "phi":
        return Verdict(False, "z is finite, so phi is below 1")
    for size in _sizes(expression):
        best = _value(expression, (1, 1, 1), size)
        if abs(best - 1.0) > 1e-9:
            return Verdict(False, f"the value of perfect ranks of {size} is {best:.9g}, not 1")
        for ranks in _cases(size):
            value = _value(expression, ranks, size)
            if value > 1.0 + 1e-9:
                return Verdict(
                    False, f"the value of {_ranks(ranks)} of {size} is larger, {figure(value)}"
                )
    return Verdict(True)


def _pessimum(expression: Expression) -> Verdict:
    small = _sizes(expression)[1]
    ladder = (small, small**2, small**4)
    values = [abs(_value(expression, (size,), size)) for size in ladder]
    if values[-1] == 0.0 or (values[0] > values[1] > values[2] and values[2] <= 0.75 * values[1]):
        return Verdict(True)
    worst = _value(expression, (ladder[-1],), ladder[-1])
    return Verdict(False, f"the value of rank {ladder[-1]:,} of {ladder[-1]:,} is {figure(worst)}")


def _anti_monotonic(expression: Expression) -> Verdict:
    if isinstance(expression, Adjusted) and expression.adjustment == "phi":
        expression = Adjusted("z", expression.metric)  # Phi is monotone, but rounds to 1
    size = _sizes(expression)[0]
    single = [(r,) for r in (range(1, size + 1) if size < 100 else (1, size // 2, size))]
    for ranks in [*single, *product((1, 2, 5, 11), repeat=3)]:
        here = _value(expression, ranks, size)
        for i, rank in enumerate(ranks):
            if rank < size:
                worse = (*ranks[:i], rank + 1, *ranks[i + 1 :])
                there = _value(expression, worse, size)
                if not there < here - 1e-12 * abs(here):
                    return Verdict(
                        False,
                        f"the value of {_ranks(ranks)} is {figure(here)}, that of the worse "
                        f"{_ranks(worse)} is {figure(there)}",
                    )
    return Verdict(True)


def _size_invariant(expression: Expression) -> Verdict:
    first, *rest = ((size, _chance(expression, size)) for size in _sizes(expression))
    for size, value in rest:
        if abs(value - first[1]) > 1e-9:
            return Verdict(
                False,
                f"the expected value is {figure(first[1])} for {first[0]} candidates "
                f"but {figure(value)} for {size}",
            )
    return Verdict(True)


def _chance(expression: Expression, size: int) -> float:
    """Compute the expected value for one target under random ranking."""
    null = NullDistribution(_metric(expression), read_sizes([size]))
    if not isinstance(expression, Adjusted):
        return null.mean()
    adjusted = expression.map(null)
    if expression.adjustment != "phi":
        return adjusted(null.mean())
    ranks, metric = np.arange(1.0, size + 1.0), null.metric
    values = metric.f(ranks) if isinstance(metric, Metric) else ranks
    return float(np.mean([adjusted(value) for value in values ** float(metric.q)]))
