"""The five properties the source paper asks of a rank metric, checked for any metric.

    non-negative          no ranks give a value below 0
    fixed optimum         perfect ranks give 1 for every number of candidates, and nothing gives more
    asymptotic pessimum   the worst ranks tend to 0 as candidates grow
    anti-monotonic        making any one rank worse makes the value strictly smaller
    size invariant        chance gets the same expected value for every number of candidates

A property is refuted by a counterexample, which is the reason given. Counterexamples are searched for
among ranks of one and of three targets and a ladder of sizes, so a "yes" means that none was found
there; for the metrics of the family that settles it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from evenrank._internal.table import Table, figure
from evenrank.errors import InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted, AdjustmentName, Expression
from evenrank.metrics.chance import NullDistribution, read_sizes
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally

PROPERTIES = (
    "non-negative",
    "fixed optimum",
    "asymptotic pessimum",
    "anti-monotonic",
    "size invariant",
)


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds, and why not."""

    holds: bool
    why: str = ""

    def __bool__(self) -> bool:
        """Whether the property holds."""
        return self.holds


class Desiderata(Mapping[str, Mapping[str, Verdict]]):
    """Verdicts by metric and property; prints as the paper's table, with reasons below."""

    def __init__(self, verdicts: dict[str, dict[str, Verdict]]) -> None:
        """Hold the verdicts."""
        self._verdicts = verdicts

    def __getitem__(self, metric: str) -> Mapping[str, Verdict]:
        """Give the verdicts of one metric."""
        return self._verdicts[str(parse(metric))]

    def __iter__(self) -> Iterator[str]:
        """Give the metrics."""
        return iter(self._verdicts)

    def __len__(self) -> int:
        """Number of metrics."""
        return len(self._verdicts)

    def table(self) -> Table:
        """Lay it out as in the paper."""
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
        """Show the table."""
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def desiderata(*metrics: str | Expression) -> Desiderata:
    """Check the five properties; for one plain metric, also what each adjustment repairs.

    >>> table = desiderata("mrr")
    >>> [bool(v) for v in table["mrr"].values()]
    [True, True, True, True, False]
    >>> table["mrr"]["size invariant"].why
    'chance gets 0.2586 among 12 candidates but 0.0519 among 100'
    >>> table["index(mrr)"]["size invariant"].holds
    True
    """
    expressions = [parse(metric) for metric in metrics]
    if not expressions:
        raise InputError("desiderata needs a metric", do='e.g. desiderata("mrr")')
    for expression in expressions:
        if expression.increasing is None:
            raise InputError(f"{expression} has no better or worse, so no desiderata either")
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
        except NullDistributionError as error:  # an infinite expectation: there is nothing to adjust for
            verdicts[name] = Verdict(False, error.what)
    return verdicts


def _metric(expression: Expression) -> Metric | Statistic:
    return expression.metric if isinstance(expression, Adjusted) else expression


def _sizes(expression: Expression) -> tuple[int, int, int]:
    """Numbers of candidates to try: small, but more than the k of hits@k."""
    metric = _metric(expression)
    k = (metric.f.k or 0) if isinstance(metric, Metric) else 0
    return (12, 100, 1000) if k < 12 else (k + 2, 4 * k, 16 * k)


def _value(expression: Expression, ranks: tuple[int, ...], size: int) -> float:
    better = np.array(ranks) - 1
    return expression(Tally.of_checked(better, better * 0, better * 0 + size, None))


def _cases(size: int) -> list[tuple[int, ...]]:
    """Ranks of one and of three targets, the extremes included."""
    steps = sorted({1, 2, size // 3, size // 2, size - 1, size} - {0})
    return [(r,) for r in steps] + [*product(sorted({1, 2, size // 2, size}), repeat=3)]


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _non_negative(expression: Expression) -> Verdict:
    for size in _sizes(expression):
        for ranks in _cases(size):
            value = _value(expression, ranks, size)
            if value < 0:
                return Verdict(False, f"{_ranks(ranks)} of {size} gives {figure(value)}")
    return Verdict(True)


def _fixed_optimum(expression: Expression) -> Verdict:
    if isinstance(expression, Adjusted) and expression.adjustment == "phi":
        return Verdict(False, "no z is infinite, so 1 is never reached")
    for size in _sizes(expression):
        best = _value(expression, (1, 1, 1), size)
        if abs(best - 1.0) > 1e-9:
            return Verdict(False, f"perfect ranks among {size} give {best:.9g}, not 1")
        for ranks in _cases(size):
            value = _value(expression, ranks, size)
            if value > 1.0 + 1e-9:
                return Verdict(False, f"{_ranks(ranks)} of {size} gives more, {figure(value)}")
    return Verdict(True)


def _pessimum(expression: Expression) -> Verdict:
    small = _sizes(expression)[1]
    ladder = (small, small**2, small**4)
    values = [abs(_value(expression, (size,), size)) for size in ladder]
    if values[-1] == 0.0 or (values[0] > values[1] > values[2] and values[2] <= 0.75 * values[1]):
        return Verdict(True)
    worst = _value(expression, (ladder[-1],), ladder[-1])
    return Verdict(False, f"rank {ladder[-1]:,} of {ladder[-1]:,} gives {figure(worst)}")


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
                        f"{_ranks(ranks)} gives {figure(here)}, but the worse {_ranks(worse)} "
                        f"gives {figure(there)}",
                    )
    return Verdict(True)


def _size_invariant(expression: Expression) -> Verdict:
    first, *rest = ((size, _chance(expression, size)) for size in _sizes(expression))
    for size, value in rest:
        if abs(value - first[1]) > 1e-9:
            return Verdict(
                False,
                f"chance gets {figure(first[1])} among {first[0]} candidates "
                f"but {figure(value)} among {size}",
            )
    return Verdict(True)


def _chance(expression: Expression, size: int) -> float:
    """Expected value of one target's metric when its rank is uniform."""
    law = NullDistribution(_metric(expression), read_sizes([size]))
    if not isinstance(expression, Adjusted):
        return law.mean()
    adjusted = expression.map(law)
    if expression.adjustment != "phi":
        return adjusted(law.mean())
    ranks, metric = np.arange(1.0, size + 1.0), law.metric
    values = metric.f(ranks) if isinstance(metric, Metric) else ranks
    return float(np.mean([adjusted(value) for value in values ** float(metric.q)]))
