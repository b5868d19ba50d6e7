"""Intervals: how far a metric might have come out otherwise, had other targets been drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import parse
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import (
    Evaluation,
    arrow,
    cell,
    evaluate,
    labelled,
    title,
    within,
)
from evenrank.ranks.protocol import Protocol, shared
from evenrank.ranks.ranks import Groups, Ranks, average_name, tie_rule
from evenrank.stats._bounds import Bounds, bootstrap, delta, refusal
from evenrank.stats._sample import By, Sample, unit_name
from evenrank.stats.averages import AVERAGES, one_count

Method = Literal["delta", "bootstrap", "percentile"]
Several: TypeAlias = Ranks | Groups | Mapping[str, Ranks | Groups]
DEFAULT = (
    "mrr",
    "hits@1",
    "hits@3",
    "hits@10",
    "mr",
    "gmr",
    "index(mrr)",
    "index(hits@10)",
    "index(mr)",
)
DEFAULT_WIDE = ("mrr", "chance(mrr)", "index(mrr)", "hits@10")
BY_DELTA = "an average over fixed groups has intervals by the delta method alone"
HOW = {
    "delta": "delta method",
    "bootstrap": "BCa bootstrap",
    "percentile": "percentile bootstrap",
}


class Interval(NamedTuple):
    """A value, the interval around it, its standard error, and how many units it rests on."""

    value: float
    low: float
    high: float
    standard_error: float
    n: int


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Shown):
    """Metric values with intervals, for one or more groups of ranks; prints as a table.

    Index it with a metric: `result["mrr"]` is an `Interval`, or a list with one per group.
    """

    evaluation: Evaluation[Any]
    cells: tuple[tuple[Interval, ...], ...]
    level: float
    method: Method
    unit: str
    samples: int
    seed: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, metric: str | Expression) -> Any:
        """Give the interval (or one per group) of a metric."""
        self.evaluation[metric]  # says what is there, if this is not
        column = self.evaluation.expressions.index(parse(metric))
        found = [row[column] for row in self.cells]
        return found if self.evaluation.label_names else found[0]

    @property
    def protocol(self) -> Protocol:
        """How the ranks and the intervals were computed."""
        own = {"intervals": f"{percent(self.level)} {HOW[self.method]}", "unit": self.unit}
        draws = {"samples": str(self.samples), "seed": str(self.seed)}
        return self.evaluation.protocol.updated(own | (draws if self.method != "delta" else {}))

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per group and metric: labels, value, low, high, standard error, n."""
        made = self.evaluation
        return [
            labelled(made.label_names, label, {"metric": str(expression), **interval._asdict()})
            for label, row in zip(made.labels, self.cells, strict=True)
            for expression, interval in zip(made.expressions, row, strict=True)
        ]

    def content(self) -> dict[str, Any]:
        """Give everything there is to say, protocol and notes included."""
        return {
            "protocol": self.protocol.to_dict(),
            "fingerprint": self.protocol.fingerprint,
            "level": self.level,
            "method": self.method,
            "by": self.unit,
            "rows": self.rows(),
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Lay it out: one group as a metric per line, several as groups by metrics."""
        made = self.evaluation
        if not made.label_names:
            rows = [
                [
                    f"{e} {arrow(e)}".rstrip(),
                    cell(e, i.value),
                    *(end(e, x) for x in (i.low, i.high)),
                    figure(i.standard_error),
                ]
                for e, i in zip(made.expressions, self.cells[0], strict=True)
            ]
            header = ["metric", "value", "low", "high", "std. error"]
            return [Table(header, rows, self._footer())]
        rows = [
            [
                *label,
                f"{row[0].n:,}",
                *(written(e, interval) for e, interval in zip(made.expressions, row, strict=True)),
            ]
            for label, row in zip(made.labels, self.cells, strict=True)
        ]
        header = [*made.label_names, plural(self.unit, 2), *map(title, made.expressions)]
        return [Table(header, rows, self._footer(), labels=len(made.label_names))]

    def _footer(self) -> list[str]:
        units = f"{self.cells[0][0].n:,} " if len(self.cells) == 1 else ""
        drawn = units + plural(self.unit, 1 if units == "1 " else 2)
        how = f"{percent(self.level)} intervals: {HOW[self.method]} over {drawn}"
        return [how, *self.notes, *replace(self.evaluation, protocol=self.protocol).footer()]


def intervals(
    ranks: Several,
    *metrics: str | Expression,
    level: float = 0.95,
    method: Method = "delta",
    by: By = None,
    samples: int = 10_000,
    seed: int = 0,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
    averages: bool = False,
) -> Intervals:
    """Give metrics with intervals: where they might have come out, had other targets been drawn.

    `ranks` may be split (`ranks.by("relation")`) or several (`{"a": ranks_a, "b": ranks_b}`).

    `method` is "delta" (symmetric, Student's t on the pull of each unit; the exact order-statistic
    interval for quantiles), "bootstrap" (BCa) or "percentile", the last two from `samples` bootstrap
    samples that `seed` repeats.

    `by` is what is drawn as one: "target", "triple" (head and tail prediction of one triple, which are
    dependent: the default where the keys name triples), "query", or key columns.

    `averages=True` puts three averages side by side, as `averages()` does: over targets, over queries
    and over relations. What is drawn is the same for each.

    Averages over relations, or any key but the query, are over fixed groups: units vary within them,
    and intervals are those of the delta method. `by` the same key draws the groups instead.

    Chance is held fixed: an adjusted metric's interval is that of the metric, on the adjusted scale. The
    candidates of this test set are known, not estimated, and z even counts their number. An interval
    for other test sets would let their chance levels differ too; only where candidate counts differ
    much does that matter (measured in docs/compare.md).

    >>> ranks = Ranks.of([1, 2, 4, 1, 12, 3, 1, 40], candidates=50)
    >>> intervals(ranks, "mrr", "hits@3", "index(mrr)")
    metric         value     low    high  std. error
    ------------  ------  ------  ------  ----------
    mrr ↑         0.5240  0.1728  0.8751      0.1485
    hits@3 ↑      0.6250  0.1923   1.000      0.1830
    index(mrr) ↑  0.4769  0.0910  0.8628      0.1632
    95 % intervals: delta method over 8 targets
    8 targets, 0.0% tied
    average: micro; ties: expected; intervals: 95 % delta method; by: target [...]
    """
    check_level(level)
    if method not in get_args(Method):
        raise InputError("unknown method", got=repr(method), allowed=", ".join(get_args(Method)))
    check_draws(samples, seed)
    if averages and average != "micro":
        got = f"average={average_name(average)!r} as well"
        raise InputError("averages=True shows micro, query and relation", got=got)
    names, labels, parts, protocol = _parts(ranks)
    ties = tie_rule(parts, ties)
    unit = unit_name(parts, by)
    shown = AVERAGES if averages else (average,)
    drawn = [Sample(part, ties, one, unit) for part in parts for one in shown]
    if method != "delta" and not averages and any(sample.groups > 1 for sample in drawn):
        name = average_name(average)
        got = f"method={method!r} of average={name!r}"
        do = f'draw the groups, by="{name}" (--unit {name}), or take the delta method'
        raise InputError(BY_DELTA, got=got, do=do)
    if averages:
        names, labels = (*names, "average"), [(*label, one) for label in labels for one in AVERAGES]
    else:
        protocol = replace(protocol, average=average_name(average))
    evaluation = evaluate(
        [sample.tally for sample in drawn],
        metrics,
        default=DEFAULT_WIDE if names else DEFAULT,
        ties=ties,
        labels=labels,
        label_names=names,
        protocol=protocol,
    )
    if averages:
        evaluation = one_count(evaluation)
    cells: list[tuple[Interval, ...]] = []
    whys: Counter[tuple[str, str]] = Counter()
    weigh = [sample for sample in drawn if sample.units]  # evaluate left the others out, too
    for sample, values in zip(weigh, evaluation.values_by_group.tolist(), strict=True):
        made = _bounds(sample, evaluation.expressions, values, level, method, samples, seed)
        whys.update((str(e), b.why) for e, b in zip(evaluation.expressions, made, strict=True) if b.why)
        cells.append(
            tuple(Interval(v, *bounds[:3], sample.units) for v, bounds in zip(values, made, strict=True))
        )
    notes = (*_notes(whys, unit, len(cells), names), *alone(drawn, unit))
    return Intervals(evaluation, tuple(cells), level, method, unit, samples, seed, notes)


class _Parts(NamedTuple):
    """What was given, taken apart: the names of the labels, the labels, ranks, and a shared protocol."""

    names: tuple[str, ...]
    labels: list[tuple[str, ...]]
    ranks: list[Ranks]
    protocol: Protocol


def _parts(given: Several) -> _Parts:
    if isinstance(given, Ranks):
        return _Parts((), [()], [given], given.protocol)
    if isinstance(given, Groups):
        split = list(given)
        labels, ranks = [label for label, _ in split], [part for _, part in split]
        return _Parts(given.names, labels, ranks, given.ranks.protocol)
    if not isinstance(given, Mapping):
        raise InputError("not ranks", got=type(given).__name__, do='e.g. {"model": ranks}')
    if not given:
        raise InputError("no ranks given", do='e.g. {"model": ranks}')
    each = {name: _parts(one) for name, one in given.items()}
    names = {parts.names for parts in each.values()}
    if len(names) > 1:
        got = " and ".join(",".join(n) or "no key" for n in sorted(names))
        raise InputError("ranks are split by different keys", got=got)
    return _Parts(
        ("model", *names.pop()),
        [(name, *label) for name, parts in each.items() for label in parts.labels],
        [ranks for parts in each.values() for ranks in parts.ranks],
        shared(parts.protocol for parts in each.values()),
    )


def _bounds(
    sample: Sample,
    expressions: Sequence[Expression],
    values: Sequence[float],
    level: float,
    method: Method,
    samples: int,
    seed: int,
) -> list[Bounds]:
    """Bound each metric that can be."""
    pairs = list(zip(expressions, values, strict=True))
    refused = [refusal(expression, sample, value) for expression, value in pairs]
    if method != "delta" and sample.groups > 1:
        refused = [BY_DELTA if why is None else why for why in refused]
    wanted = {e: value for (e, value), why in zip(pairs, refused, strict=True) if why is None}
    made: Iterator[Bounds] = (
        delta(sample, wanted, level)
        if method == "delta"
        else bootstrap(sample, list(wanted), level, samples, seed, bca=method == "bootstrap")
    )
    return [next(made) if why is None else Bounds(why=why) for why in refused]


def _notes(
    whys: Counter[tuple[str, str]], unit: str, rows: int, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Say once why there is no interval, naming the metrics."""
    metrics: dict[tuple[str, int], list[str]] = {}
    for (metric, why), times in whys.items():
        metrics.setdefault((why.format(unit=unit), times), []).append(metric)
    return tuple(
        f"– no interval for {', '.join(each)}: {why}{within(times, rows, names)}"
        for (why, times), each in metrics.items()
    )


def alone(drawn: Iterable[Sample], unit: str) -> Iterator[str]:
    """Say how many of the groups that are averaged over have no spread of their own."""
    for few, groups in dict.fromkeys((sample.alone, sample.groups) for sample in drawn if sample.alone):
        has = "has" if few == 1 else "have"
        yield (
            f"{few:,} of the {groups:,} groups averaged over {has} one {unit} alone: its spread is "
            "taken to be its distance from the average"
        )


def written(expression: Expression, interval: Interval) -> str:
    """Write a value with its interval in one cell; a chance level, which is computed, stands alone."""
    if isinstance(expression, Adjusted) and expression.adjustment == "chance":
        return cell(expression, interval.value)
    low, high = end(expression, interval.low), end(expression, interval.high)
    return f"{cell(expression, interval.value)} [{low}, {high}]"


def end(expression: Expression, x: float) -> str:
    """Write an end of an interval, or a dash where there is none."""
    return figure(x) if isnan(x) else cell(expression, x)


def plural(unit: str, n: int) -> str:
    """Write the name of so many units.

    >>> plural("triple", 1), plural("query", 2), plural("relation,side", 2)
    ('triple', 'queries', 'combinations of relation,side')
    """
    if "," in unit:
        return f"combinations of {unit}"
    return unit if n == 1 else f"{unit.removesuffix('y')}ies" if unit.endswith("y") else f"{unit}s"


def percent(level: float) -> str:
    """Write a level in percent."""
    return f"{100 * level:.6g} %"


def check_level(level: float) -> None:
    """Refuse a level that is none."""
    if not 0 < level < 1:
        raise InputError("a level lies between 0 and 1", got=level, do="e.g. 0.95")


def check_draws(samples: int, seed: int) -> None:
    """Refuse too few samples, and seeds that are none."""
    for what, number in {"samples": samples, "seed": seed}.items():
        if not isinstance(number, int | np.integer):
            raise InputError(f"{what} must be a whole number", got=repr(number))
    if samples < 100:
        raise InputError("too few samples to read tails off", got=samples, allowed="100 or more")
    if seed < 0:
        raise InputError("a seed is not negative", got=seed)
