"""Summaries of several runs of a model, and comparisons of models across data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import nan, pi, sqrt
from statistics import fmean, stdev
from string import ascii_lowercase
from typing import Any, NamedTuple, Unpack

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank._internal.checks import check_type
from evenrank._internal.columns import as_list
from evenrank._internal.latex import Grid, escape
from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import DegenerateError, InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, arrow, bare, cell
from evenrank.ranks.paper import Options, Style, called, metric_name, numbers, paper
from evenrank.ranks.protocol import OWN, Protocol, shared
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import average_name, evaluate_rows, tie_rule
from evenrank.stats._intervals import check_level, percent
from evenrank.stats._join import check_protocols, check_ranks, named_models, one_kind
from evenrank.stats._units import names_of

DEFAULT = ("mrr", "hits@1", "hits@10", "index(mrr)")
NARROW = 3  # data sets that fit beside each other on a page
ANSWERS = ("map", "mrr", "ndcg@10", "recall@10", "index(map)")
KINDS = (Ranks, Rankings)
FEW = 5  # with fewer data sets, the Friedman test has hardly any power


class Spread(NamedTuple):
    """A metric over several runs.

    Parameters
    ----------
    metric : Metric or Adjusted
        The metric.
    model : str
        The model; empty if there is one only.
    mean : float
        The mean over the runs.
    sd : float
        The standard deviation over the runs (with n - 1).
    n : int
        The number of runs.
    min, max : float
        The smallest and the largest value.
    """

    metric: Expression
    model: str
    mean: float
    sd: float
    n: int
    min: float
    max: float


@dataclass(frozen=True, eq=False, repr=False)
class RunSummary(Shown):
    """Metrics over several runs of one or more models; prints as a table.

    Parameters
    ----------
    spreads : tuple of Spread
        One entry per model and metric.
    protocol : Protocol
        What the protocols of all runs share.
    notes : tuple of str
        Remarks, such as runs that differ in their protocols.
    """

    spreads: tuple[Spread, ...]
    protocol: Protocol
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per model and metric."""
        return [{**s._asdict(), "metric": str(s.metric)} for s in self.spreads]

    def content(self) -> dict[str, Any]:
        """Collect all results, with protocol and notes."""
        return {"protocol": self.protocol.to_dict(), "rows": self.rows(), "notes": list(self.notes)}

    def tables(self) -> list[Table]:
        """Build the table: a row per model and metric."""
        named = any(s.model for s in self.spreads)
        rows = [
            [
                *([s.model] if named else []),
                f"{s.metric} {arrow(s.metric)}".rstrip(),
                cell(s.metric, s.mean),
                figure(s.sd),
                str(s.n),
                *(cell(s.metric, x) for x in (s.min, s.max)),
            ]
            for s in self.spreads
        ]
        header = [*(["model"] if named else []), "metric", "mean", "sd", "n", "min", "max"]
        return [Table(header, rows, [*self.notes, self.protocol.note()], labels=1 + named)]

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write means and standard deviations as a table for a paper, in LaTeX.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label.

        Returns
        -------
        str
            LaTeX text.
        """
        models = list(dict.fromkeys(s.model for s in self.spreads))
        metrics = tuple(dict.fromkeys(s.metric for s in self.spreads))
        mean, sd = np.array([(s.mean, s.sd) for s in self.spreads]).T.reshape(2, len(models), -1)
        labels, names = ([(model,) for model in models], ("model",)) if any(models) else ([()], ())
        made: Evaluation[Any] = Evaluation(
            metrics, mean, tuple(labels), names, protocol=self.protocol, notes=self.notes
        )
        runs = sorted({s.n for s in self.spreads})
        n = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        text = rf"Mean $\pm$ standard deviation of {n} runs." if runs[-1] > 1 else ""
        return paper(made, style, note=text, spreads=sd)


def summarize_runs(
    runs: Iterable[AnyRanks] | Mapping[str, Iterable[AnyRanks]],
    *metrics: Metrics,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> RunSummary:
    """Summarize several runs: mean, standard deviation and number of seeds or folds, per metric.

    Parameters
    ----------
    runs : list of Ranks or Rankings, or mapping of str to such lists
        The runs of a model, or of several models.
    *metrics : str, Metric or list of these
        The metrics; by default "mrr", "hits@1", "hits@10", and "index(mrr)" if candidates are known; of
        rankings "map", "mrr", "ndcg@10", "recall@10", and "index(map)".
    ties : str, optional
        The tie-breaking rule; by default that of the protocols.
    average : str or sequence of str, default "micro"
        "micro", or a macro average: "query", or key columns such as "relation".

    Returns
    -------
    RunSummary
        The mean, standard deviation, minimum and maximum of each metric.

    Raises
    ------
    InputError
        If there are no runs.

    Notes
    -----
    The standard deviation shows how much runs differ. A confidence interval of one run shows something
    else: how much the choice of test triples matters.

    Examples
    --------
    >>> runs = [Ranks.of(r, candidates=50) for r in ([1, 2, 9], [1, 3, 4], [2, 2, 5])]
    >>> print(summarize_runs(runs, "mrr", "mr"))
    metric    mean      sd  n     min     max
    ------  ------  ------  -  ------  ------
    mrr ↑   0.4883  0.0766  3  0.4000  0.5370
    mr ↓     3.222  0.6939  3   2.667   4.000
    no protocol recorded [788eeea3]
    """
    given = runs if isinstance(runs, Mapping) else {"": runs}
    lists = {str(name): _listed(several) for name, several in given.items()}
    every = [ranks for several in lists.values() for ranks in several]
    for ranks in every:
        check_ranks("every run", ranks, do="e.g. er.summarize_runs([first, second, third])", kinds=KINDS)
    one_kind({f"run {i}": ranks for i, ranks in enumerate(every, 1)})
    names_of("average", average)
    empty = [name for name, several in lists.items() if not several]
    if empty or not every:
        got = f"none for {empty[0]}" if empty and empty[0] else "none"
        raise InputError("no runs to summarize", got=got, do="pass the ranks of each seed or fold")
    known = all(ranks.has_candidates for ranks in every)
    usual = ANSWERS if any(isinstance(ranks, Rankings) for ranks in every) else DEFAULT
    default = usual if known else [name for name in usual if not isinstance(parse(name), Adjusted)]
    wanted = list(dict.fromkeys(map(parse, listed(metrics) or default)))
    ties = tie_rule(every, ties)
    spreads = []
    for name, several in lists.items():
        values = np.array(
            [evaluate_rows([(r, average)], wanted, ties=ties).values_by_group[0] for r in several],
            dtype=float,
        )
        spreads += [
            _spread(e, name, column.tolist()) for e, column in zip(wanted, values.T, strict=True)
        ]
    protocol = replace(
        shared(ranks.protocol for ranks in every), average=average_name(average), ties=ties
    )
    return RunSummary(tuple(spreads), protocol, tuple(_remarks(lists, every)))


def _listed(runs: Any) -> list[Any]:
    """Turn runs into a list; a single run is one, not a list of rows."""
    several = None if isinstance(runs, KINDS) else as_list(runs)
    return [runs] if several is None else several


def _spread(metric: Expression, model: str, values: list[float]) -> Spread:
    n = len(values)
    sd = stdev(values) if n > 1 else nan
    return Spread(metric, model, fmean(values), sd, n, min(values), max(values))


def _remarks(lists: Mapping[str, Sequence[AnyRanks]], every: Sequence[AnyRanks]) -> list[str]:
    """Note models with a single run, and runs with different protocols."""
    notes = [
        f"– a single run{f' of {name}' * bool(name)} has no sd"
        for name, r in lists.items()
        if len(r) == 1
    ]
    entries = dict.fromkeys(k for ranks in every for k in ranks.protocol.to_dict() if k not in OWN)
    apart = [k for k in entries if len({ranks.protocol.to_dict().get(k) for ranks in every}) > 1]
    if apart:
        notes.append(f"the runs differ in {', '.join(apart)}, which adds to their sd")
    return notes


class AverageRank(NamedTuple):
    """A model across data sets.

    Parameters
    ----------
    model : str
        The model.
    rank : float
        Its average rank among the models.
    mean_index : float
        The mean of its adjusted index.
    """

    model: str
    rank: float
    mean_index: float


@dataclass(frozen=True)
class Result:
    """A model on a data set: the metric, its adjusted values, and the rank among the models."""

    data: str
    model: str
    value: float
    index: float
    z: float
    rank: float


@dataclass(frozen=True, eq=False, repr=False)
class AcrossDatasets(Shown):
    """Models compared across data sets by their average ranks; prints as tables.

    Parameters
    ----------
    metric : Metric or QueryMetric
        The metric.
    results : tuple of Result
        One entry per data set and model.
    average_ranks : tuple of AverageRank
        The models, the best average rank first.
    statistic, p : float
        The Friedman test of the null hypothesis that all models are equal.
    critical_difference : float
        The difference of average ranks from which on two models differ significantly (Nemenyi).
    undecided : tuple of tuple of str
        The largest groups of models without a significant difference.
    level : float
        The confidence level.
    protocol : Protocol
        What the protocols of all ranks share.
    notes : tuple of str
        Remarks.
    """

    metric: Metric | Statistic | QueryMetric
    results: tuple[Result, ...]
    average_ranks: tuple[AverageRank, ...]
    statistic: float
    p: float
    critical_difference: float
    undecided: tuple[tuple[str, ...], ...]
    level: float
    protocol: Protocol
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per data set and model, with the model's average rank."""
        average = {one.model: one.rank for one in self.average_ranks}
        return [
            {"metric": str(self.metric), **asdict(r), "average_rank": average[r.model]}
            for r in self.results
        ]

    def content(self) -> dict[str, Any]:
        """Collect all results, with protocol and notes."""
        return {
            "protocol": self.protocol.to_dict(),
            "metric": str(self.metric),
            "level": self.level,
            "rows": self.rows(),
            "average_ranks": [one._asdict() for one in self.average_ranks],
            "friedman": {"statistic": self.statistic, "p": self.p},
            "critical_difference": self.critical_difference,
            "undecided": [list(group) for group in self.undecided],
            "notes": list(self.notes),
        }

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write the models on each data set as a table for a paper, in LaTeX, and their average ranks.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label.

        Returns
        -------
        str
            LaTeX text; models of the second table that share a letter are not significantly different.
        """
        expressions = (self.metric, Adjusted("index", self.metric), Adjusted("z", self.metric))
        made: Evaluation[Any] = Evaluation(
            expressions,
            np.array([(r.value, r.index, r.z) for r in self.results]),
            tuple((r.data, r.model) for r in self.results),
            ("data", "model"),
            protocol=self.protocol,
            notes=self.notes,
        )
        if len({r.data for r in self.results}) > NARROW:
            style = {"layout": "long", **style}
        return "\n\n".join([paper(made, style), self._average_ranks(style)])

    def _average_ranks(self, style: Style) -> str:
        """Write the average ranks in LaTeX."""
        own: Any = {name: style[name] for name in ("digits", "hits", "names") if name in style}
        given, index = Options(**own), Adjusted("index", self.metric)
        names = called([one.model for one in self.average_ranks], given)
        letters = list(zip(ascii_lowercase, self.undecided, strict=False))
        rows = [
            [
                names[one.model],
                f"{one.rank:.2f}",
                " ".join(letter for letter, models in letters if one.model in models) or "--",
                *numbers(index, [one.mean_index], given),
            ]
            for one in self.average_ranks
        ]
        metric = escape(given.own(str(self.metric)) or metric_name(self.metric, given.hits))
        sets = len({r.data for r in self.results})
        sign = "<" if self.p < 0.001 else "="
        caption = (
            f"Average ranks of the models by {metric} on {sets} data sets (Friedman test: "
            f"$p {sign} {max(self.p, 0.001):.3f}$). Models that share a letter do not differ "
            f"significantly (Nemenyi test, critical difference {self.critical_difference:.2f}, "
            f"significance level {1.0 - self.level:.6g})."
        )
        mean = escape(given.own(str(index)) or metric_name(index, given.hits))
        header = [["Model", "Average rank", "Group", f"Mean {mean}"]]
        return Grid(header, rows, 1, []).float(caption)

    def tables(self) -> list[Table]:
        """Build the tables: the models on each data set, then their average ranks."""
        signed = Adjusted("z", self.metric)
        within = [
            [r.data, r.model, *(figure(x) for x in (r.value, r.index)), cell(signed, r.z), f"{r.rank:g}"]
            for r in self.results
        ]
        header = ["data", "model", f"{self.metric} {arrow(self.metric)}", "index", "z", "rank"]
        average_ranks = [[a.model, f"{a.rank:.3g}", figure(a.mean_index)] for a in self.average_ranks]
        undecided = "; ".join(" = ".join(group) for group in self.undecided) or "none"
        notes = [
            f"Friedman test: {figure(self.statistic)}, p {figure(self.p)}; critical difference of ranks "
            f"(Nemenyi, {percent(self.level)}): {figure(self.critical_difference)}",
            f"not significantly different: {undecided}",
            *self.notes,
            self.protocol.note(),
        ]
        return [
            Table(header, within, labels=2),
            Table(["model", "average rank", "mean index"], average_ranks, notes),
        ]


def across_datasets(
    data: Mapping[str, Mapping[str, AnyRanks]],
    metric: Metrics | None = None,
    *,
    level: float = 0.95,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> AcrossDatasets:
    """Compare models across data sets by their average ranks (Demšar 2006).

    Parameters
    ----------
    data : mapping of str to mapping of str to Ranks or Rankings
        The ranks of every model on every data set: ``{"wn18rr": {"a": ranks, "b": ranks}, ...}``. On
        each, models may also be a list; they are then called by the model of their protocol.
    metric : str or Metric, optional
        The metric that orders the models; by default the MRR, of rankings the MAP.
    level : float, default 0.95
        The confidence level.
    ties : str, optional
        The tie-breaking rule; by default that of the protocols.
    average : str or sequence of str, default "micro"
        "micro", or a macro average: "query", or key columns such as "relation".

    Returns
    -------
    AcrossDatasets
        The models on each data set, their average ranks, and the tests.

    Raises
    ------
    InputError
        If a model lacks a data set, or models on a data set differ in their protocols or candidates.
    DegenerateError
        If the metric cannot be adjusted for chance on a data set.

    Notes
    -----
    Values on different data sets are not comparable. They are adjusted for chance, and only the order of
    models within each data set is tested: the Friedman test tests whether any models differ; two models
    differ significantly if their average ranks differ by Nemenyi's critical difference
    ``q sqrt(k (k + 1) / (6 N))`` or more, for k models on N data sets.

    Examples
    --------
    >>> good, fair, poor = (Ranks.of(r, candidates=50) for r in ([1, 2, 9], [2, 3, 20], [9, 30, 41]))
    >>> models = {"good": good, "fair": fair, "poor": poor}
    >>> result = across_datasets({"d1": models, "d2": models, "d3": models})
    >>> [(a.model, a.rank) for a in result.average_ranks], round(result.critical_difference, 3)
    ([('good', 1.0), ('fair', 2.0), ('poor', 3.0)], 1.914)
    """
    check_level(level)
    names_of("average", average)
    data = _named(data)
    models = _models(data)
    ties = tie_rule((ranks for ranked in data.values() for ranks in ranked.values()), ties)
    rankings = any(isinstance(r, Rankings) for ranked in data.values() for r in ranked.values())
    one_kind({f"{m} on {name}": r for name, ranked in data.items() for m, r in ranked.items()})
    usual = "map" if rankings else "mrr"
    asked = [parse(one) for one in listed([usual if metric is None else metric])]
    if len(asked) != 1:
        got = ", ".join(map(str, asked)) or "none"
        raise InputError(
            "across_datasets orders models by one metric", got=got, do="call it once for each"
        )
    base = bare(asked[0])
    notes: list[str] = []
    results: list[Result] = []
    wanted = [base, Adjusted("index", base), Adjusted("z", base)]
    for name, ranked in data.items():
        notes += [
            f"{name}: {note}" for note in check_protocols(ranked, do="rank them under one protocol")
        ]
        _check_sizes(name, ranked, models, [_sizes(ranked[model], average) for model in models])
        try:
            made = [
                evaluate_rows([(ranked[model], average)], wanted, ties=ties).values_by_group[0].tolist()
                for model in models
            ]
        except DegenerateError as error:
            do = "leave out the data set, or choose another metric"
            raise DegenerateError(f"on {name}, {error.what}", do=do) from None
        ranks = _ranks(np.array([index for _, index, _ in made]))
        results += [
            Result(name, model, value, index, z, rank)
            for model, (value, index, z), rank in zip(models, made, ranks.tolist(), strict=True)
        ]
    table = np.array([result.rank for result in results]).reshape(len(data), len(models))
    statistic, p = friedman(table)
    critical = critical_difference(len(models), len(data), level)
    average_ranks = sorted(
        (
            AverageRank(model, float(column.mean()), fmean(r.index for r in results if r.model == model))
            for model, column in zip(models, table.T, strict=True)
        ),
        key=lambda one: one.rank,
    )
    if len(data) < FEW:
        notes.append(f"{len(data)} data sets are few: no significant difference does not mean equal")
    protocol = replace(
        shared(ranks.protocol for ranked in data.values() for ranks in ranked.values()),
        average=average_name(average),
        ties=ties,
    )
    return AcrossDatasets(
        base,
        tuple(results),
        tuple(average_ranks),
        statistic,
        p,
        critical,
        tuple(_undecided(average_ranks, critical)),
        level,
        protocol,
        tuple(notes),
    )


def friedman(ranks: Floats) -> tuple[float, float]:
    """Compute the Friedman statistic and its p-value from ranks of models (columns) on data sets (rows).

    `chi^2 = 12 N / (k (k + 1)) * sum_j (R_j - (k + 1) / 2)^2`, corrected for ties;
    chi-squared with k - 1 degrees of freedom (Friedman 1937).
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
    """Compute Nemenyi's critical difference of average ranks.

    >>> round(critical_difference(4, 14, 0.95), 2)  # Demšar 2006, section 3.2.2's example: 1.25
    1.25
    """
    return range_quantile(level, models) * sqrt(models * (models + 1) / (12 * data_sets))


def range_quantile(level: float, count: int) -> float:
    """Compute a quantile of the range of independent standard normal numbers.

    `P(range <= q) = k ∫ φ(z) (Φ(z) - Φ(z - q))^(k-1) dz`: the largest number is at z. Importing
    `scipy.stats` for its studentized range would take longer than everything else here.

    >>> round(range_quantile(0.95, 2), 6)  # sqrt(2) times the normal quantile 1.959964
    2.771808
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.legendre.leggauss(120)
    z, density = 9.0 * nodes, 9.0 * weights * np.exp(-0.5 * (9.0 * nodes) ** 2) / sqrt(2.0 * pi)
    low, high = 0.0, 80.0
    while high - low > 4 * np.spacing(high):
        q = (low + high) / 2
        reached = count * float(density @ (ndtr(z) - ndtr(z - q)) ** (count - 1))
        low, high = (q, high) if reached < level else (low, q)
    return high


def _ranks(index: Floats) -> Floats:
    """Rank models, the largest index first; ties get their mean rank."""
    better, equal = (f(index, index[:, None]).sum(axis=1) for f in (np.greater, np.equal))
    return np.asarray(better + (equal + 1) / 2)


def _undecided(ordered: Sequence[AverageRank], critical: float) -> Iterable[tuple[str, ...]]:
    """Find the largest groups of models whose average ranks differ less than critically."""
    last = 0
    for start, first in enumerate(ordered):
        stop = max(i for i, a in enumerate(ordered) if a.rank - first.rank < critical) + 1
        if stop > max(last, start + 1):
            yield tuple(a.model for a in ordered[start:stop])
        last = max(last, stop)


def _sizes(ranks: AnyRanks, average: str | Sequence[str]) -> object:
    """Return what the null distribution depends on."""
    return ranks.shapes(average) if isinstance(ranks, Rankings) else ranks.tally(average).sizes


def _named(data: Any) -> dict[str, dict[str, AnyRanks]]:
    """Check the type of nested mappings, and name the models on each data set."""
    do = 'e.g. {"nations": {"a": ranks_a, "b": ranks_b}, ...}'
    check_type(data, Mapping, "data must map data sets to models", do=do)
    for name, ranked in data.items():
        check_type(ranked, Mapping | list | tuple, f"{name} must map models to ranks", do=do)
        for model, ranks in ranked.items() if isinstance(ranked, Mapping) else ():
            check_ranks(f"{model} on {name}", ranks, do=do, kinds=KINDS)
    return {str(name): named_models([ranked], {}, kinds=KINDS) for name, ranked in data.items()}


def _models(data: Mapping[str, Mapping[str, AnyRanks]]) -> list[str]:
    """List the models, which every data set must have."""
    if len(data) < 2:
        raise InputError("comparing across data sets needs two or more", got=len(data))
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
            "every model needs ranks on every data set",
            got=f"no ranks of {', '.join(absent[:3])}{more}",
            do="rank it there, or leave out the model or the data set",
        )
    return models


def _check_once(data: Mapping[str, Mapping[str, AnyRanks]]) -> None:
    """Check by content that no data set occurs under two names: it would count twice."""
    names: dict[tuple[str, str | None], str] = {}
    for name, ranked in data.items():
        facts = {(r.protocol.content, r.protocol.split) for r in ranked.values()}
        for content, split in facts:
            if content and names.setdefault((content, split), name) != name:
                got = f"{names[content, split]} and {name}, content {content}"
                raise InputError("the same data set twice", got=got, do="pass each data set once")


def _check_sizes(
    name: str, ranked: Mapping[str, AnyRanks], models: Sequence[str], sizes: Sequence[object]
) -> None:
    """Check that the models have the same numbers of candidates, and weights."""
    first, *others = models
    for model, one in zip(others, sizes[1:], strict=True):
        if one != sizes[0]:
            mine, theirs = (np.sort(ranked[m].candidates) for m in (first, model))
            several = isinstance(ranked[first], Rankings)
            alike = "numbers of answers, gains or weights" if several else "weights"
            what = alike if np.array_equal(mine, theirs) else "numbers of candidates"
            raise InputError(f"the models have different {what}", got=f"{first} and {model} on {name}")
