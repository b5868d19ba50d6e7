"""Several runs of one model, and several models on several data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, nan, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import DegenerateError, InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import arrow, bare, cell, evaluate
from evenrank.ranks.protocol import Protocol, shared
from evenrank.ranks.ranks import Ranks, average_name, tie_rule
from evenrank.stats._intervals import check_level, percent
from evenrank.stats._join import OWN, check_protocols, check_ranks

DEFAULT = ("mrr", "hits@1", "hits@10", "index(mrr)")
FEW = 5  # data sets below which the Friedman test can hardly find anything


class Spread(NamedTuple):
    """A metric over several runs: mean, standard deviation (n - 1), how many, least and most."""

    metric: Expression
    model: str
    mean: float
    sd: float
    n: int
    least: float
    most: float


@dataclass(frozen=True, eq=False, repr=False)
class RunSummary(Shown):
    """Metrics over several runs of one or more models; prints as a table."""

    spreads: tuple[Spread, ...]
    protocol: Protocol
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per model and metric."""
        return [{**s._asdict(), "metric": str(s.metric)} for s in self.spreads]

    def content(self) -> dict[str, Any]:
        """Give everything there is to say, protocol and notes included."""
        return {"protocol": self.protocol.to_dict(), "rows": self.rows(), "notes": list(self.notes)}

    def tables(self) -> list[Table]:
        """Lay it out: one line per model and metric."""
        named = any(s.model for s in self.spreads)
        rows = [
            [
                *([s.model] if named else []),
                f"{s.metric} {arrow(s.metric)}".rstrip(),
                cell(s.metric, s.mean),
                figure(s.sd),
                str(s.n),
                *(cell(s.metric, x) for x in (s.least, s.most)),
            ]
            for s in self.spreads
        ]
        header = [*(["model"] if named else []), "metric", "mean", "sd", "n", "least", "most"]
        return [Table(header, rows, [*self.notes, str(self.protocol)], labels=1 + named)]


def summarize_runs(
    runs: Iterable[Ranks] | Mapping[str, Iterable[Ranks]],
    *metrics: str | Expression,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> RunSummary:
    """Sum up several runs: mean, standard deviation and number of seeds or folds, per metric.

    The standard deviation tells how much a run differs from the next. That is not what an interval of
    one run tells, which is how much other test triples would have changed it.

    >>> runs = [Ranks.of(r, candidates=50) for r in ([1, 2, 9], [1, 3, 4], [2, 2, 5])]
    >>> print(summarize_runs(runs, "mrr", "mr"))
    metric    mean      sd  n   least    most
    ------  ------  ------  -  ------  ------
    mrr ↑   0.4883  0.0766  3  0.4000  0.5370
    mr ↓     3.222  0.6939  3   2.667   4.000
    average: micro; ties: expected [788eeea3]
    """
    given = runs if isinstance(runs, Mapping) else {"": runs}
    # ranks alone would be taken row by row
    lists = {name: [s] if isinstance(s, Ranks) else list(s) for name, s in given.items()}
    every = [ranks for several in lists.values() for ranks in several]
    for ranks in every:
        check_ranks("every run", ranks, do="e.g. er.summarize_runs([first, second, third])")
    empty = [name for name, several in lists.items() if not several]
    if empty or not every:
        got = f"none for {empty[0]}" if empty and empty[0] else "none"
        raise InputError("no runs to sum up", got=got, do="give the ranks of each seed or fold")
    wanted = list(dict.fromkeys(map(parse, metrics or DEFAULT)))
    ties = tie_rule(every, ties)
    spreads = []
    for name, several in lists.items():
        values = np.array(
            [evaluate([r.tally(average)], wanted, ties=ties).values_by_group[0] for r in several],
            dtype=float,
        )
        spreads += [
            _spread(e, name, column.tolist()) for e, column in zip(wanted, values.T, strict=True)
        ]
    protocol = replace(
        shared(ranks.protocol for ranks in every), average=average_name(average), ties=ties
    )
    return RunSummary(tuple(spreads), protocol, tuple(_remarks(lists, every)))


def _spread(metric: Expression, model: str, values: list[float]) -> Spread:
    n = len(values)
    sd = stdev(values) if n > 1 else nan
    return Spread(metric, model, fmean(values), sd, n, min(values), max(values))


def _remarks(lists: Mapping[str, Sequence[Ranks]], every: Sequence[Ranks]) -> list[str]:
    """Say where a spread is missing, and where runs are not of one test set."""
    notes = [
        f"– one run{f' of {name}' * bool(name)} has no sd" for name, r in lists.items() if len(r) == 1
    ]
    entries = dict.fromkeys(k for ranks in every for k in ranks.protocol.to_dict() if k not in OWN)
    apart = [k for k in entries if len({ranks.protocol.to_dict().get(k) for ranks in every}) > 1]
    if apart:
        notes.append(f"the runs differ in {', '.join(apart)}, and their sd holds that too")
    return notes


class Standing(NamedTuple):
    """A model across data sets: the mean of its ranks among the models, and the mean of its indices."""

    model: str
    rank: float
    mean_index: float


@dataclass(frozen=True)
class Result:
    """A model on a data set: the metric, adjusted, and the model's rank among the models there."""

    data: str
    model: str
    value: float
    index: float
    z: float
    rank: float


@dataclass(frozen=True, eq=False, repr=False)
class AcrossDatasets(Shown):
    """Models across data sets: what each gets where, average ranks, and which ones cannot be told apart.

    `statistic` and `p` are of the Friedman test that all models are equally good. Two models whose
    average ranks differ by less than `critical_difference` are not told apart (Nemenyi); `alike` lists
    the largest sets of these.
    """

    metric: Metric | Statistic
    results: tuple[Result, ...]
    standings: tuple[Standing, ...]
    statistic: float
    p: float
    critical_difference: float
    alike: tuple[tuple[str, ...], ...]
    level: float
    protocol: Protocol
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per data set and model, with the model's average rank."""
        average = {standing.model: standing.rank for standing in self.standings}
        return [
            {"metric": str(self.metric), **asdict(r), "average_rank": average[r.model]}
            for r in self.results
        ]

    def content(self) -> dict[str, Any]:
        """Give everything there is to say, protocol and notes included."""
        return {
            "protocol": self.protocol.to_dict(),
            "metric": str(self.metric),
            "level": self.level,
            "rows": self.rows(),
            "standings": [standing._asdict() for standing in self.standings],
            "friedman": {"statistic": self.statistic, "p": self.p},
            "critical_difference": self.critical_difference,
            "alike": [list(group) for group in self.alike],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Lay it out: models by data sets, then the average ranks."""
        signed = Adjusted("z", self.metric)
        within = [
            [
                r.data,
                r.model,
                *(figure(x) for x in (r.value, r.index)),
                cell(signed, r.z),
                f"{r.rank:g}",
            ]
            for r in self.results
        ]
        header = ["data", "model", f"{self.metric} {arrow(self.metric)}", "index", "z", "rank"]
        standings = [[s.model, f"{s.rank:.3g}", figure(s.mean_index)] for s in self.standings]
        alike = "; ".join(" = ".join(group) for group in self.alike) or "none"
        notes = [
            f"Friedman test: {figure(self.statistic)}, p {figure(self.p)}; critical difference of ranks "
            f"(Nemenyi, {percent(self.level)}): {figure(self.critical_difference)}",
            f"not told apart: {alike}",
            *self.notes,
            str(self.protocol),
        ]
        return [
            Table(header, within, labels=2),
            Table(["model", "average rank", "mean index"], standings, notes),
        ]


def across_datasets(
    data: Mapping[str, Mapping[str, Ranks]],
    metric: str | Metric | Statistic = "mrr",
    *,
    level: float = 0.95,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> AcrossDatasets:
    """Compare models across data sets by their ranks on each (Demšar 2006).

    `data` has the ranks of every model on every data set. Values of different data sets do not compare,
    so they are adjusted for chance, and only the order of models within a data set is tested: the
    Friedman test asks whether any model is better at all, and average ranks closer than Nemenyi's
    critical difference `q sqrt(k (k + 1) / (6 N))`, for k models on N data sets, do not tell two models
    apart.

    >>> good, fair, poor = (Ranks.of(r, candidates=50) for r in ([1, 2, 9], [2, 3, 20], [9, 30, 41]))
    >>> result = across_datasets({d: {"good": good, "fair": fair, "poor": poor} for d in ("d1", "d2", "d3")})
    >>> [(s.model, s.rank) for s in result.standings], round(result.critical_difference, 3)
    ([('good', 1.0), ('fair', 2.0), ('poor', 3.0)], 1.914)
    """
    check_level(level)
    models = _models(data)
    ties = tie_rule((ranks for ranked in data.values() for ranks in ranked.values()), ties)
    metric = bare(parse(metric))
    notes: list[str] = []
    results: list[Result] = []
    wanted = [metric, Adjusted("index", metric), Adjusted("z", metric)]
    for name, ranked in data.items():
        notes += [f"{name}: {note}" for note in check_protocols(ranked, do="rank them alike")]
        tallies = [ranked[model].tally(average) for model in models]
        _check_sizes(name, ranked, models, [tally.sizes for tally in tallies])
        try:
            made = [
                evaluate([tally], wanted, ties=ties).values_by_group[0].tolist() for tally in tallies
            ]
        except DegenerateError as error:
            do = "leave the data set out, or choose another metric"
            raise DegenerateError(f"on {name}, {error.what}", do=do) from None
        ranks = _ranks(np.array([index for _, index, _ in made]))
        results += [
            Result(name, model, value, index, z, rank)
            for model, (value, index, z), rank in zip(models, made, ranks.tolist(), strict=True)
        ]
    table = np.array([result.rank for result in results]).reshape(len(data), len(models))
    statistic, p = friedman(table)
    reach = critical_difference(len(models), len(data), level)
    standings = sorted(
        (
            Standing(model, float(column.mean()), fmean(r.index for r in results if r.model == model))
            for model, column in zip(models, table.T, strict=True)
        ),
        key=lambda standing: standing.rank,
    )
    if len(data) < FEW:
        notes.append(f"{len(data)} data sets are few: not told apart does not mean equal")
    protocol = replace(
        shared(ranks.protocol for ranked in data.values() for ranks in ranked.values()),
        average=average_name(average),
        ties=ties,
    )
    alike = tuple(_alike(standings, reach))
    return AcrossDatasets(
        metric,
        tuple(results),
        tuple(standings),
        statistic,
        p,
        reach,
        alike,
        level,
        protocol,
        tuple(notes),
    )


def friedman(ranks: Floats) -> tuple[float, float]:
    """Give Friedman's statistic and its p, from ranks of models (columns) on data sets (rows).

    `chi^2 = 12 N / (k (k + 1)) * sum_j (R_j - (k + 1) / 2)^2`, divided by the share of the spread that
    ties leave; chi-squared with k - 1 degrees of freedom (Friedman 1937).
    """
    from scipy.special import chdtrc

    n, k = ranks.shape
    middle = (k + 1) / 2
    spread = float(((ranks - middle) ** 2).sum()) / (k - 1)
    if spread == 0:  # all models tie everywhere
        return 0.0, 1.0
    statistic = n**2 * float(((ranks.mean(axis=0) - middle) ** 2).sum()) / spread
    return statistic, float(chdtrc(k - 1, statistic))


def critical_difference(models: int, data_sets: int, level: float = 0.95) -> float:
    """Give Nemenyi's critical difference of average ranks.

    >>> round(critical_difference(4, 14, 0.95), 2)  # Demšar 2006, section 3.2.2's example: 1.25
    1.25
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(level, models, inf)) / sqrt(2.0)
    return q * sqrt(models * (models + 1) / (6 * data_sets))


def _ranks(index: Floats) -> Floats:
    """Rank models, the largest index first; equals share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-index), dtype=float)


def _alike(standings: Sequence[Standing], reach: float) -> Iterable[tuple[str, ...]]:
    """Give the largest runs of models whose average ranks lie within reach of each other."""
    last = 0
    for start, first in enumerate(standings):
        stop = max(i for i, s in enumerate(standings) if s.rank - first.rank < reach) + 1
        if stop > max(last, start + 1):
            yield tuple(s.model for s in standings[start:stop])
        last = max(last, stop)


def _models(data: Mapping[str, Any]) -> list[str]:
    """Give the models, which every data set must have."""
    if len(data) < 2:
        raise InputError("comparing across data sets needs two or more", got=len(data))
    for name, ranked in data.items():
        if not isinstance(ranked, Mapping):
            do = 'e.g. {"nations": {"a": ranks_a, "b": ranks_b}, ...}'
            raise InputError(f"{name} must name its models", got=type(ranked).__name__, do=do)
        for model, ranks in ranked.items():
            check_ranks(f"{model} on {name}", ranks, do="rank it there")
    _check_once(data)
    models = list(dict.fromkeys(model for ranked in data.values() for model in ranked))
    if len(models) < 2:
        raise InputError("comparing needs two models or more", got=len(models))
    absent = [
        f"{model} on {name}" for name, ranked in data.items() for model in models if model not in ranked
    ]
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise InputError(
            "every model must be there on every data set",
            got=f"no ranks of {', '.join(absent[:3])}{more}",
            do="rank it there, or leave the model or the data set out",
        )
    return models


def _check_once(data: Mapping[str, Mapping[str, Ranks]]) -> None:
    """Refuse one data set under two names, told by its content: it would count twice."""
    names: dict[tuple[str, str | None], str] = {}
    for name, ranked in data.items():
        facts = {(r.protocol.content, r.protocol.split) for r in ranked.values()}
        for content, split in facts:
            if content and names.setdefault((content, split), name) != name:
                got = f"{names[content, split]} and {name}, content {content}"
                raise InputError("one data set twice", got=got, do="give each data set once")


def _check_sizes(
    name: str, ranked: Mapping[str, Ranks], models: Sequence[str], sizes: Sequence[object]
) -> None:
    """Refuse models whose targets have other candidates, or weigh something else."""
    first, *others = models
    for model, one in zip(others, sizes[1:], strict=True):
        if one != sizes[0]:
            mine, theirs = (np.sort(ranked[m].candidates) for m in (first, model))
            alike = np.array_equal(mine, theirs)
            what = (
                "weigh their targets differently" if alike else "were ranked among different candidates"
            )
            raise InputError(f"the models {what}", got=f"{first} and {model} on {name}")
