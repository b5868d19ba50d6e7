"""Confidence intervals of metrics: the uncertainty that comes from the choice of test targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from evenrank._internal.checks import check_choice
from evenrank._internal.table import Table, figure
from evenrank.errors import InputError, Option
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, arrow, cell, dispensable, evaluate, title, within
from evenrank.ranks.protocol import Protocol, differences, shared
from evenrank.ranks.rankings import AnyRanks, Rankings, evaluate_rankings
from evenrank.ranks.ranks import Ranks, chance_rule, dependences_of
from evenrank.ranks.rows import Groups, average_name, tie_rule
from evenrank.stats._bounds import Bounds, bootstrap, crossed_bootstrap, delta, expand, no_interval
from evenrank.stats._cells import Cells
from evenrank.stats._join import named_models, one_kind
from evenrank.stats._sample import Sample, samples_of
from evenrank.stats._units import Unit, names_of, unit_name, unit_note
from evenrank.stats.averages import AVERAGES, not_averaged, one_count

Method = Literal["delta", "bootstrap", "percentile"]
Several: TypeAlias = AnyRanks | Groups | Mapping[str, AnyRanks | Groups] | Sequence[AnyRanks | Groups]
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
ANSWERS = (
    *("map", "mrr", "ndcg@10", "recall@10", "precision@10", "success@10"),
    *("index(map)", "index(mrr)", "index(ndcg@10)", "index(recall@10)"),
)
ANSWERS_WIDE = ("map", "chance(map)", "index(map)", "ndcg@10")
BY_DELTA = "a macro average over fixed groups has intervals by the delta method only"
DRAWS = {"samples": "10000", "seed": "0"}  # as usual
HOW = {"delta": "delta method", "bootstrap": "BCa bootstrap", "percentile": "percentile bootstrap"}


class Interval(NamedTuple):
    """A value with its confidence interval.

    Parameters
    ----------
    value : float
        The value of the metric.
    low, high : float
        The confidence interval; NaN if there is none.
    standard_error : float
        The standard error.
    n : int
        The number of resampling units; of the first ones, if units cross.
    """

    value: float
    low: float
    high: float
    standard_error: float
    n: int


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Cells[Interval]):
    """Metrics with confidence intervals, for one or more groups of ranks; prints as a table.

    `result["mrr"]` is the `Interval` of a metric, or a list with one per group.

    Parameters
    ----------
    evaluation : Evaluation
        The values.
    cells : tuple of tuple of Interval
        An interval per group and metric.
    level : float
        The confidence level.
    method : {"delta", "bootstrap", "percentile"}
        How the intervals were computed.
    unit : str
        The resampling unit.
    samples, seed : int
        The number of bootstrap samples, and their seed.
    notes : tuple of str
        Why some metrics have no interval.
    """

    level: float
    method: Method
    unit: str
    samples: int
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def protocol(self) -> Protocol:
        """How the ranks and the intervals were computed."""
        draws = {"samples": str(self.samples), "seed": str(self.seed)}
        return self.evaluation.protocol.updated(
            self.described | (draws if self.method != "delta" else {})
        )

    @property
    def described(self) -> dict[str, str]:
        """The entries of the protocol that another line below the table describes."""
        return {"intervals": f"{percent(self.level)} {HOW[self.method]}", "unit": self.unit}

    def content(self) -> dict[str, Any]:
        """Collect all results, with protocol and notes."""
        return {
            "protocol": self.protocol.to_dict(),
            "fingerprint": self.protocol.fingerprint,
            "level": self.level,
            "method": self.method,
            "unit": self.unit,
            "rows": self.rows(),
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Build the table: a row per metric, or with several groups a row per group."""
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
        first = plural(self.unit.split("+")[0], 2)
        header = [*made.label_names, first, *map(title, made.expressions)]
        optional = dispensable([first, *made], made.sorted_by)
        return [Table(header, rows, self._footer(), labels=len(made.label_names), optional=optional)]

    def _footer(self) -> list[str]:
        units = f"{self.cells[0][0].n:,} " if len(self.cells) == 1 else ""
        drawn = units + plural(self.unit, 1 if units == "1 " else 2)
        how = f"{percent(self.level)} confidence intervals: {HOW[self.method]} over {drawn}"
        *counted, _ = self.evaluation.footer()
        return [how, *self.notes, *counted, self.protocol.note(self.described | DRAWS)]


def intervals(
    ranks: Several,
    *metrics: Metrics,
    level: float = 0.95,
    method: Method = "delta",
    unit: Unit = None,
    samples: int = 10_000,
    seed: int = 0,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
    averages: bool = False,
) -> Intervals:
    """Compute confidence intervals of metrics, for the uncertainty from the choice of test targets.

    Parameters
    ----------
    ranks : Ranks, Rankings, Groups, or mapping or list of these
        The ranks, or rankings of queries with several answers; also grouped, ``ranks.by("relation")``,
        or of several models, ``{"a": ranks_a, "b": ranks_b}``.
    *metrics : str, Metric or list of these
        The metrics; by default a table of common ones.
    level : float, default 0.95
        The confidence level.
    method : {"delta", "bootstrap", "percentile"}, default "delta"
        "delta": by Student's t and the influence of each unit, symmetric for plain means; for hits, the
        interval of a proportion (Clopper-Pearson); for quantiles, the exact interval from order
        statistics. "bootstrap": BCa; "percentile": both from bootstrap samples.
    unit : str or sequence of str, optional
        The resampling unit: "target"; "triple", which keeps the head and the tail prediction of a
        triple together because they are dependent; "query", all answers of a query; key columns; or two
        units that cross, "triple+query" (two-way clustering). By default "triple+query" if the keys have
        triples and 5 % or more of the targets share their query with another triple; "triple" if fewer
        do; "query" if there are no triples but shared queries; else "target". Of rankings, the query,
        or key columns such as "user".
    samples : int, default 10,000
        The number of bootstrap samples.
    seed : int, default 0
        The seed of the bootstrap samples.
    ties : str, optional
        The tie-breaking rule; by default that of the protocol.
    average : str or sequence of str, default "micro"
        "micro", or a macro average: "query", or key columns such as "relation".
    averages : bool, default False
        Whether to show the averages over targets, queries and relations side by side, as `averages`
        does. The resampling unit is the same for each. Not for rankings.

    Returns
    -------
    Intervals
        The metrics with their intervals.

    Raises
    ------
    InputError
        If an option is unknown, or the bootstrap is asked for with a macro average over fixed groups.

    Notes
    -----
    A macro average over relations, or over any key but the query, is over fixed groups: units vary
    within groups, and intervals are those of the delta method. With the same key as the resampling
    unit, the groups are resampled instead.

    Chance levels are held fixed: the interval of an adjusted metric is that of the metric, on the
    adjusted scale. The candidates of this test set are known, not estimated, and z even depends on their
    number. An interval for other test sets would also let their chance levels vary; that matters only
    if numbers of candidates differ much (measured in docs/compare.md).

    Examples
    --------
    >>> ranks = Ranks.of([1, 2, 4, 1, 12, 3, 1, 40], candidates=50)
    >>> intervals(ranks, "mrr", "hits@3", "index(mrr)")
    metric         value     low    high  std. error
    ------------  ------  ------  ------  ----------
    mrr ↑         0.5240  0.1728  0.8751      0.1485
    hits@3 ↑      0.6250  0.2449  0.9148      0.1830
    index(mrr) ↑  0.4769  0.0910  0.8628      0.1632
    95 % confidence intervals: delta method over 8 targets
    8 targets, 0.0% tied
    no protocol recorded [...]
    """
    check_level(level)
    check_choice("method", method, get_args(Method))
    check_draws(samples, seed)
    names_of("average", average)
    if averages and any(isinstance(part, Rankings) for part in parts_of(ranks).ranks):
        raise not_averaged()
    if averages and average != "micro":
        got = f"average={average_name(average)!r} as well"
        raise InputError("averages=True shows micro, query and relation", got=got)
    names, labels, parts, protocol, apart = parts_of(ranks)
    ties = tie_rule(parts, ties)
    unit = unit_name(parts, unit)
    shown = AVERAGES if averages else (average,)
    drawn = samples_of(parts, ties, shown, unit)
    if method != "delta" and not averages and any(sample.groups > 1 for sample in drawn):
        name = average_name(average)
        got = f"method={method!r} of average={name!r}"
        do = "resample the groups, ", Option("unit", name), ", or use the delta method"
        raise InputError(BY_DELTA, got=got, do=do)
    if averages:
        names, labels = (*names, "average"), [(*label, one) for label in labels for one in AVERAGES]
    else:
        protocol = replace(protocol, average=average_name(average))
    evaluation = _evaluated(
        parts, shown, drawn, metrics, ties=ties, labels=labels, label_names=names, protocol=protocol
    )
    if averages:
        evaluation = one_count(evaluation)
    cells: list[tuple[Interval, ...]] = []
    whys: Counter[tuple[str, str]] = Counter()
    weigh = [sample for sample in drawn if sample.units]  # evaluate leaves the others out, too
    for sample, values in zip(weigh, evaluation.values_by_group.tolist(), strict=True):
        made = _bounds(sample, evaluation.expressions, values, level, method, samples, seed)
        whys.update((str(e), b.why) for e, b in zip(evaluation.expressions, made, strict=True) if b.why)
        cells.append(
            tuple(Interval(v, *bounds[:3], sample.units) for v, bounds in zip(values, made, strict=True))
        )
    notes = (
        *_notes(whys, unit, len(cells), names),
        *unit_note(parts, unit),
        *single_units(drawn, unit),
        *apart,
    )
    return Intervals(evaluation, tuple(cells), level, method, unit, samples, seed, notes)


def _evaluated(
    parts: Sequence[AnyRanks],
    shown: Sequence[str | Sequence[str]],
    drawn: Sequence[Sample],
    metrics: Sequence[Metrics],
    *,
    label_names: tuple[str, ...],
    **options: Any,
) -> Evaluation[Any]:
    """Evaluate the metrics on each part under each average."""
    rankings = [part for part in parts if isinstance(part, Rankings)]
    if rankings:
        return evaluate_rankings(
            [(part, one) for part in rankings for one in shown],
            metrics,
            default=ANSWERS_WIDE if label_names else ANSWERS,
            label_names=label_names,
            **options,
        )
    ranks = [part for part in parts if isinstance(part, Ranks)]
    return evaluate(
        [sample.tally for sample in drawn],
        metrics,
        default=DEFAULT_WIDE if label_names else DEFAULT,
        label_names=label_names,
        dependences=dependences_of([(part, one) for part in ranks for one in shown]),
        chance=chance_rule(ranks),
        **options,
    )


class Parts(NamedTuple):
    """The groups of the ranks given: names of the labels, labels, ranks, shared protocol, and notes."""

    names: tuple[str, ...]
    labels: list[tuple[str, ...]]
    ranks: list[AnyRanks]
    protocol: Protocol
    notes: tuple[str, ...] = ()


def parts_of(given: Several) -> Parts:
    if isinstance(given, Ranks | Rankings):
        return Parts((), [()], [given], given.protocol)
    if isinstance(given, Groups):
        split = list(given)
        labels, ranks = [label for label, _ in split], [part for _, part in split]
        return Parts(given.names, labels, ranks, given.ranks.protocol)
    ranked = named_models([given], {}, what="ranks, or groups of ranks", kinds=(Ranks, Rankings, Groups))
    if not ranked:
        raise InputError("no ranks given", do='e.g. {"model": ranks}')
    each = {name: parts_of(one) for name, one in ranked.items()}
    names = {parts.names for parts in each.values()}
    if len(names) > 1:
        got = " and ".join(",".join(n) or "no key" for n in sorted(names))
        raise InputError("ranks are grouped by different keys", got=got)
    one_kind({name: part for name, parts in each.items() for part in parts.ranks})
    protocols = [parts.protocol for parts in each.values()]
    label_names = ("model", *names.pop())
    return Parts(
        label_names,
        [(name, *label) for name, parts in each.items() for label in parts.labels],
        [ranks for parts in each.values() for ranks in parts.ranks],
        shared(protocols),
        differences(protocols, ignored=label_names),
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
    """Compute the interval of each metric, or the reason why it has none."""
    own = {e: sample.defined(e) for e in expressions}
    if any(one is not sample for one in own.values()):
        found: dict[Expression, Bounds] = {}
        for one in dict.fromkeys(own.values()):
            some = {e: x for e, x in zip(expressions, values, strict=True) if own[e] is one}
            bounds = _bounds_of(one, [*some], [*some.values()], level, method, samples, seed)
            found |= zip(some, bounds, strict=True)
        return [found[e] for e in expressions]
    return _bounds_of(sample, expressions, values, level, method, samples, seed)


def _bounds_of(
    sample: Sample,
    expressions: Sequence[Expression],
    values: Sequence[float],
    level: float,
    method: Method,
    samples: int,
    seed: int,
) -> list[Bounds]:
    """Compute the intervals of metrics that are defined for all targets of a sample."""
    given = dict(zip(expressions, values, strict=True))
    found: dict[Expression, Bounds] = {}
    for metric in dict.fromkeys(map(sample.metric, expressions)):
        expansion = expand(sample, metric)  # shared by all adjustments of the metric
        for e in (e for e in expressions if sample.metric(e) == metric):
            why = no_interval(e, sample, given[e], method, expansion)
            if why is None and method != "delta" and sample.groups > 1:
                why = BY_DELTA
            if why is not None:
                found[e] = Bounds(why=why)
            elif method == "delta":
                found[e] = delta(e, sample, level, expansion)
    wanted, bca = {e: x for e, x in given.items() if e not in found}, method == "bootstrap"
    if wanted and sample.crossed:
        made = crossed_bootstrap(sample, wanted, level, samples, seed, bca)
        found |= zip(wanted, made, strict=True)
    elif wanted:
        made = bootstrap(sample, list(wanted), level, samples, seed, bca)
        found |= zip(wanted, made, strict=True)
    return [found[e] for e in expressions]


def _notes(
    whys: Counter[tuple[str, str]], unit: str, rows: int, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Note why metrics have no interval, each reason once."""
    metrics: dict[tuple[str, int], list[str]] = {}
    for (metric, why), times in whys.items():
        metrics.setdefault((why.format(unit=unit.replace("+", " or ")), times), []).append(metric)
    return tuple(
        f"– no interval for {', '.join(each)}: {why}{within(times, rows, names)}"
        for (why, times), each in metrics.items()
    )


def single_units(drawn: Iterable[Sample], unit: str) -> Iterator[str]:
    """Note how many of the groups averaged over have a single unit, and no variance of their own."""
    for few, groups in dict.fromkeys((sample.alone, sample.groups) for sample in drawn if sample.alone):
        has = "has" if few == 1 else "have"
        yield (
            f"{few:,} of the {groups:,} groups averaged over {has} a single {unit.split('+')[0]}: "
            "its distance from the average stands in for its standard deviation"
        )


def written(expression: Expression, interval: Interval) -> str:
    """Format a value with its interval; chance levels, which are computed, have none."""
    if isinstance(expression, Adjusted) and expression.adjustment == "chance":
        return cell(expression, interval.value)
    low, high = end(expression, interval.low), end(expression, interval.high)
    return f"{cell(expression, interval.value)} [{low}, {high}]"


def end(expression: Expression, x: float) -> str:
    """Format an end of an interval, a dash if there is none."""
    return figure(x) if isnan(x) else cell(expression, x)


def plural(unit: str, n: int) -> str:
    """Format the name of a resampling unit in the singular or the plural.

    Parameters
    ----------
    unit : str
        The unit.
    n : int
        How many there are.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> plural("triple", 1), plural("query", 2), plural("relation,side", 2)
    ('triple', 'queries', 'combinations of relation,side')
    >>> plural("triple+query", 2)
    'triples crossed with queries'
    """
    if "+" in unit:
        first, second = unit.split("+")
        return f"{plural(first, n)} crossed with {plural(second, 2)}"
    if "," in unit:
        return f"combinations of {unit}"
    return unit if n == 1 else f"{unit.removesuffix('y')}ies" if unit.endswith("y") else f"{unit}s"


def percent(level: float) -> str:
    """Format a confidence level in percent."""
    return f"{100 * level:.6g} %"


def check_level(level: Any) -> None:
    """Check that a confidence level lies between 0 and 1.

    Parameters
    ----------
    level : float
        The confidence level.

    Raises
    ------
    InputError
        If it does not.
    """
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise InputError("the confidence level must be between 0 and 1", got=repr(level), do="e.g. 0.95")


def check_draws(samples: int, seed: int) -> None:
    """Check the number of samples, and their seed."""
    for what, number in {"samples": samples, "seed": seed}.items():
        if not isinstance(number, int | np.integer):
            raise InputError(f"{what} must be a whole number", got=repr(number))
    if samples < 100:
        raise InputError("too few samples to estimate tails", got=samples, allowed="100 or more")
    if seed < 0:
        raise InputError("the seed must not be negative", got=seed)
