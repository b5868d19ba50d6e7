"""Five desirable properties of rank-based metrics (Hoyt et al. 2022), checked for any metric.

    non-negative          the value is never below 0
    fixed optimum         the value of perfect ranks is 1, the maximum, for every number of candidates
    asymptotic pessimum   the value of the worst ranks tends to a constant as the number of candidates
                          grows (usually 0; -1 for balanced metrics)
    anti-monotonic        the value strictly falls when any one rank gets worse
    size invariant        the chance level is the same for every number of candidates

For metrics of several answers, the ranks are the positions of the answers of one query, and the chance
level may depend on the number of answers, too.

A property is refuted by a counterexample, which is reported. Counterexamples are searched among ranks of
one and of three targets or answers and several numbers of candidates, and for transforms among all small
and many large ranks; "yes" means that none was found, which is conclusive for power means of the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import inf

import numpy as np

from evenrank._internal.table import Table, figure
from evenrank._internal.terminal import terminal_width
from evenrank.errors import DegenerateError, InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted, AdjustmentName, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.answers.values import Answers, values
from evenrank.metrics.chance import Null, NullDistribution, read_sizes
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally

UNDERFLOW = 1e-290
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
        except (DegenerateError, NullDistributionError) as error:  # e.g. an infinite chance level
            verdicts[name] = Verdict(False, error.what)
    return verdicts


def _metric(expression: Expression) -> Metric | Statistic | QueryMetric:
    return expression.metric if isinstance(expression, Adjusted) else expression


def _sizes(expression: Expression) -> tuple[int, int, int]:
    """Return small numbers of candidates, larger than the k of hits@k."""
    metric = _metric(expression)
    k = (metric.f.k or 0) if isinstance(metric, Metric) else 0
    if isinstance(metric, QueryMetric) and isinstance(metric.k, int):
        k = metric.k
    return (12, 100, 1000) if k < 12 else (k + 2, 4 * k, 16 * k)


def _value(expression: Expression, ranks: tuple[int, ...], size: int) -> float:
    better = np.array(ranks) - 1
    metric = _metric(expression)
    if isinstance(metric, QueryMetric):
        first, none = np.array([0, len(ranks)]), np.zeros(len(ranks), np.int64)
        value = float(values(metric, Answers(first, better, none, None, np.array([size])))[0])
        null = _null(metric, len(ranks), size) if isinstance(expression, Adjusted) else None
        return value if null is None else expression.map(null)(value)  # type: ignore[union-attr]  # adjusted
    tally = Tally.of_checked(better, better * 0, better * 0 + size, None)
    if not isinstance(expression, Adjusted):
        return expression(tally)
    return expression(tally, null=_null(expression.metric, len(ranks), size))


@lru_cache(maxsize=64)
def _null(metric: Metric | Statistic | QueryMetric, targets: int, size: int) -> Null:
    if isinstance(metric, QueryMetric):
        return QueryNull(metric, Shapes.of_counts([size], [targets]))
    return NullDistribution(metric, read_sizes({size: targets}))


def _cases(expression: Expression, size: int) -> list[tuple[int, ...]]:
    """Return ranks of one and of three targets, including the extremes."""
    steps = sorted({1, 2, size // 3, size // 2, size - 1, size} - {0})
    return [(r,) for r in steps] + _threes(expression, sorted({1, 2, size // 2, size}))


def _threes(expression: Expression, ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """Return ranks of three targets; different answers of a query have different ones."""
    if isinstance(_metric(expression), QueryMetric):
        return [*combinations(ranks, 3)]
    return [*product(ranks, repeat=3)]


def _perfect(expression: Expression) -> tuple[int, ...]:
    return (1, 2, 3) if isinstance(_metric(expression), QueryMetric) else (1, 1, 1)


def _worst(expression: Expression, size: int) -> tuple[int, ...]:
    return (size - 2, size - 1, size) if isinstance(_metric(expression), QueryMetric) else (size,) * 3


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _non_negative(expression: Expression) -> Verdict:
    for size in _sizes(expression):
        for ranks in _cases(expression, size):
            value = _value(expression, ranks, size)
            if value < 0:
                return Verdict(False, f"the value of {_ranks(ranks)} of {size} is {figure(value)}")
    return Verdict(True)


def _fixed_optimum(expression: Expression) -> Verdict:
    if isinstance(expression, Adjusted) and expression.adjustment == "phi":
        return Verdict(False, "z is finite, so phi is below 1")
    for size in _sizes(expression):
        for ranks in ((1,), _perfect(expression)):
            best = _value(expression, ranks, size)
            if abs(best - 1.0) > 1e-9:
                perfect = "perfect ranks" if len(ranks) > 1 else "rank 1"
                return Verdict(False, f"the value of {perfect} of {size} is {best:.9g}, not 1")
        for ranks in _cases(expression, size):
            value = _value(expression, ranks, size)
            if value > 1.0 + 1e-9:
                return Verdict(
                    False, f"the value of {_ranks(ranks)} of {size} is larger, {figure(value)}"
                )
    return Verdict(True)


def _pessimum(expression: Expression) -> Verdict:
    if not isinstance(expression, Adjusted) and expression.increasing:
        return Verdict(True)  # it falls, and is never negative
    small = _sizes(expression)[1]
    ladder = (small, small**2, small**4)
    values = [_value(expression, (size,), size) for size in ladder]
    largest = f"rank {ladder[-1]:,} of {ladder[-1]:,}"
    if not _converges(values):
        return Verdict(False, f"the value of {largest} is {figure(values[-1])}")
    size = ladder[1]
    three = [_value(expression, _worst(expression, n), n) for n in ladder[:2]]
    first, second = (abs(a - b) for a, b in zip(three, values[:2], strict=True))
    if second > max(0.75 * first, 1e-9):
        one, more = figure(values[1]), figure(three[1])
        why = f"the value of rank {size:,} of {size:,} is {one}, that of three such ranks {more}"
        return Verdict(False, why)
    return Verdict(True)


def _converges(values: list[float]) -> bool:
    """Whether values at N, N^2 and N^4 approach a constant, however slowly.

    A limit approached like 1/log N or 1/log log N shrinks its steps; log N and log log N do not.
    """
    if not np.isfinite(values).all():
        return False
    noise = 1e-9 * (1.0 + abs(values[0]))
    return abs(values[2] - values[1]) <= max(0.75 * abs(values[1] - values[0]), noise)


def _anti_monotonic(expression: Expression) -> Verdict:
    if isinstance(expression, Adjusted) and expression.adjustment == "phi":
        expression = Adjusted("z", expression.metric)  # Phi is monotone, but rounds to 1
    size, flat = _sizes(expression)[0], _flat(_metric(expression))
    several = isinstance(_metric(expression), QueryMetric)
    if flat:
        size = max(size, 2 * flat + 2)
        single = [(flat,)]
    else:
        single = [(r,) for r in (range(1, size + 1) if size < 100 else (1, size // 2, size))]
    for ranks in [*single, *_threes(expression, (1, 2, 5, 11))]:
        here = _value(expression, ranks, size)
        for i, rank in enumerate(ranks):
            if rank < size and not (several and rank + 1 in ranks):
                worse = (*ranks[:i], rank + 1, *ranks[i + 1 :])
                there = _value(expression, worse, size)
                if not there < here - 1e-12 * abs(here):
                    return Verdict(
                        False,
                        f"the value of {_ranks(ranks)} is {figure(here)}, that of the worse "
                        f"{_ranks(worse)} is {figure(there)}",
                    )
    return Verdict(True)


def _flat(metric: Metric | Statistic | QueryMetric) -> int:
    """Return the first rank from 12 on at which the transform does not change, or 0.

    Values that fall below the smallest float, such as 0.8^r, are not flat.
    """
    if not isinstance(metric, Metric) or metric.f.k is not None:
        return 0
    rank = np.concatenate([np.arange(12.0, 20_000.0), np.rint(np.geomspace(20_000, 2.0**24, 500))])
    here, there = metric.f(rank), metric.f(rank + 1.0)
    same, least = here == there, here[here > 0].min(initial=inf)
    same &= (here > UNDERFLOW) | ((here == 0) & (least > UNDERFLOW))
    return int(rank[same][0]) if same.any() else 0


def _size_invariant(expression: Expression) -> Verdict:
    first, *rest = ((size, _chance(expression, size)) for size in _sizes(expression))
    if isinstance(_metric(expression), QueryMetric):
        one, three = (_chance(expression, first[0], answers) for answers in (1, 3))
        if abs(one - three) > 1e-9:
            return Verdict(
                False,
                f"the expected value is {figure(one)} for one answer among {first[0]} candidates but "
                f"{figure(three)} for three",
            )
    for size, value in rest:
        if abs(value - first[1]) > 1e-9:
            return Verdict(
                False,
                f"the expected value is {figure(first[1])} for {first[0]} candidates "
                f"but {figure(value)} for {size}",
            )
    return Verdict(True)


def _chance(expression: Expression, size: int, answers: int = 1) -> float:
    """Compute the expected value for one target, or one query, under random ranking."""
    null = _null(_metric(expression), answers, size)
    if not isinstance(expression, Adjusted):
        return null.mean()
    adjusted = expression.map(null)
    if expression.adjustment != "phi":
        return adjusted(null.mean())
    ranks, metric = np.arange(1.0, size + 1.0), null.metric
    if isinstance(metric, QueryMetric):
        cases = combinations(range(1, min(size, 40) + 1), answers)
        return float(np.mean([_value(expression, case, min(size, 40)) for case in cases]))
    values = metric.f(ranks) if isinstance(metric, Metric) else ranks
    return float(np.mean([adjusted(value) for value in values ** float(metric.q)]))
