"""Findings: all numbers of a report, computed from its benchmarks.

All models of a benchmark share its targets, so whatever depends on the targets alone (null
distributions, groups, queries) is computed once for all models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf, isnan, nan
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from evenrank._internal.arrays import Floats
from evenrank.errors import DegenerateError, InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted, Affine, Expression
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.answers.tally import QueryTally
from evenrank.metrics.chance import chance as null_distribution
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram, Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import COUNT, Evaluation, bare
from evenrank.ranks.protocol import Protocol, shared
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import evaluate_rows, tie_rule
from evenrank.report.benchmark import Benchmark, null_of
from evenrank.stats import (
    AcrossDatasets,
    Bounds,
    Comparison,
    Interval,
    Intervals,
    Pair,
    Sample,
    across_datasets,
    bounds_by_group,
    check_level,
    compare,
    intervals,
    plural,
    values_by_group,
)
from evenrank.stats.averages import AVERAGES

ANSWERS = (
    *("map", "mrr", "ndcg@10", "recall@10", "index(map)", "index(ndcg@10)", "index(recall@10)"),
    "z(map)",
)
METRICS = ("mrr", "hits@1", "hits@10", "mr", "index(mrr)", "index(hits@10)", "index(mr)", "z(mrr)")
LEVEL = 0.95
NOT_KINDS = ("head", "tail", "query", "answer", "source", "target", "relation", "user", "item")
MOST_KINDS = 12  # keys with more values are names, not kinds to group by
POINTS = 60  # of a cumulative distribution of ranks
WORKERS = 2  # threads beside the main one, which mostly waits for them
STEPS = (2, 3, 5)  # z at which the null distribution is compared with the normal one
CALIBRATED = ("mrr", "hits@10")  # of the mean rank, it is normal for all practical purposes


class _OneThread:
    """Limits BLAS to one thread while any thread is inside, as its vectors are too short for more."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limits: threadpool_limits | None = None

    def __enter__(self) -> None:
        """Set the limit, unless another thread has."""
        with self._lock:
            self._limits = self._limits or threadpool_limits(1, "blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """Lift the limit, if no other thread is inside."""
        with self._lock:
            self._inside -= 1
            if self._limits is not None and not self._inside:
                self._limits.restore_original_limits()
                self._limits = None


ONE_THREAD = _OneThread()


@dataclass(frozen=True)
class Group:
    """A group of targets: its size, its chance level, and the index of every model."""

    value: str
    count: int
    chance: float
    intervals: tuple[Interval, ...]

    @property
    def index(self) -> tuple[float, ...]:
        """The index of every model."""
        return tuple(interval.value for interval in self.intervals)


class Findings:
    """Values, intervals and tests of all models; `lead` is the first plain metric."""

    def __init__(
        self,
        benchmarks: Sequence[Benchmark],
        metrics: Sequence[str | Expression] = (),
        ties: Ties | None = None,
        level: float = LEVEL,
    ) -> None:
        check_level(level)
        self.benchmarks, self.level = tuple(benchmarks), level
        self.ties = tie_rule(
            (r for benchmark in self.benchmarks for r in benchmark.models.values()), ties
        )
        self.rankings = any(isinstance(benchmark.first, Rankings) for benchmark in self.benchmarks)
        usual = ANSWERS if self.rankings else METRICS
        wanted = list(dict.fromkeys(self._read(parse(metric)) for metric in metrics or usual))
        lead = next(
            (e for e in wanted if not isinstance(e, Adjusted) and e.increasing is not None), None
        )
        if lead is None:
            raise InputError(
                "a report needs a plain metric (not a chance-adjusted one)",
                got=", ".join(map(str, wanted)),
                do=f"add one, such as {'map or ndcg@10' if self.rankings else 'mrr or hits@10'}",
            )
        self.lead: Metric | Statistic | QueryMetric = bare(lead)
        self.metrics = wanted
        self._unaveraged: dict[str, None] = {}
        self.evaluation = self._evaluate(wanted, shared(c.protocol for c in self.benchmarks))

    def _read(self, expression: Expression) -> Expression:
        """Return a metric as it is computed: of rankings, mrr is that of the first answer."""
        metric = bare(expression)
        if not self.rankings and isinstance(metric, QueryMetric):
            raise metric.not_of_ranks()
        if not self.rankings or metric == COUNT:
            return expression
        of_queries = for_answers(metric)
        return (
            Adjusted(expression.adjustment, of_queries)
            if isinstance(expression, Adjusted)
            else of_queries
        )

    def _evaluate(self, metrics: Sequence[Expression], protocol: Protocol) -> Evaluation[Any]:
        return evaluate_rows(
            [(r, "micro") for benchmark in self.benchmarks for r in benchmark.models.values()],
            metrics,
            ties=self.ties,
            labels=[
                (benchmark.data, model) for benchmark in self.benchmarks for model in benchmark.models
            ],
            label_names=("data", "model"),
            protocol=replace(protocol, average="micro"),
        )

    # One row per model and data set -------------------------------------------------------------

    @cached_property
    def paper(self) -> Evaluation[Any]:
        """The lead metric: its value, index, z and chance level."""
        forms: list[Expression] = [
            self.lead,
            *(Adjusted(f, self.lead) for f in ("index", "z", "chance")),
        ]
        return self._evaluate(forms, Protocol())

    def value(self, form: str, data: str, model: str) -> float:
        """Return the lead metric of a model: plain (an empty form), index, z or chance."""
        expression = Adjusted(form, self.lead) if form else self.lead  # type: ignore[arg-type]
        at = self.paper.labels.index((data, model))
        return float(self.paper.values_by_group[at, self.paper.expressions.index(expression)])

    def ordered(self, benchmark: Benchmark) -> list[str]:
        """Return the models of a benchmark, the best by the lead metric first."""
        sign = -1.0 if self.lead.increasing else 1.0
        score = {model: sign * self.value("", benchmark.data, model) for model in benchmark.models}
        return sorted(score, key=lambda model: (isnan(score[model]), score[model]))

    @property
    def across(self) -> AcrossDatasets | None:
        """The test over several data sets, of the models that all of them have."""
        return self._across[0]

    @cached_property
    def _across(self) -> tuple[AcrossDatasets | None, str]:
        """The test over several data sets, or the reason why there is none."""
        models = [m for m in self.benchmarks[0].models if all(m in c.models for c in self.benchmarks)]
        if len(self.benchmarks) < 2 or max(len(c.models) for c in self.benchmarks) < 2:
            return None, ""
        if len(models) < 2:
            return None, "there are no two models that have ranks on every data set"
        data = {c.data: {model: c.models[model] for model in models} for c in self.benchmarks}
        try:
            return across_datasets(data, self.lead, level=self.level, ties=self.ties), ""
        except (DegenerateError, NullDistributionError, InputError) as error:
            return None, str(error)

    def contenders(self, benchmark: Benchmark) -> list[str]:
        """Return the best model, and those that are not significantly worse; it is alone if it wins."""
        first, *others = self.ordered(benchmark)
        duels = self.duels.get(benchmark.data, {})
        return [first, *(m for m in others if not duels or duels[first, m].better(self.level) is None)]

    @cached_property
    def duels(self) -> dict[str, dict[tuple[str, str], Pair]]:
        """The paired tests of each data set, by both orders of the models."""
        return {
            data: {(p.first, p.second): p for pair in made.pairs for p in (pair, _turned(pair))}
            for data, made in self.comparisons.items()
        }

    def p_value(self, benchmark: Benchmark, model: str) -> float:
        """Return the probability that random ranking does at least as well in the lead metric, or NaN.

        Where it suffices to reject chance, it returns the bound of Cantelli's inequality, 1 / (1 + z^2),
        which is faster.
        """
        z = self.value("z", benchmark.data, model)
        bound = 1.0 / (1.0 + z * z) if z > 0 else 1.0
        if bound < 1.0 - self.level:
            return bound
        try:
            return float(
                null_distribution(self.lead, benchmark.models[model]).sf(
                    self.value("", benchmark.data, model)
                )
            )
        except NullDistributionError:
            return nan

    def chance(self, benchmark: Benchmark, metric: Metric | Statistic | QueryMetric) -> float:
        """Return the chance level of a metric on a benchmark, or NaN."""
        try:
            return float(benchmark.null(metric).mean())
        except NullDistributionError:
            return nan

    def ranges(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Return the range of the lead metric over tie-breaking rules, where ties matter."""
        low, high = self.paper.optimistic, self.paper.pessimistic
        if low is None or high is None:
            return {}
        both = zip(self.paper.labels, low[:, 0].tolist(), high[:, 0].tolist(), strict=True)
        return {(data, model): (min(a, b), max(a, b)) for (data, model), a, b in both if a != b}

    @cached_property
    def _intervals(self) -> dict[str, Intervals]:
        """The intervals of all metrics, for each data set."""
        drawn = [e for e in self.paper.expressions if e != Adjusted("chance", self.lead)]
        wanted = list(dict.fromkeys([*self.metrics, *drawn]))
        with ONE_THREAD:
            return {
                benchmark.data: intervals(
                    benchmark.aligned, *wanted, level=self.level, unit=benchmark.unit, ties=self.ties
                )
                for benchmark in self.benchmarks
            }

    def interval(self, metric: str | Expression, data: str, model: str) -> Interval:
        """Return the confidence interval of a metric; its ends are NaN if there is none."""
        made = self._intervals[data]
        found: list[Interval] = made[metric]
        return found[made.evaluation.labels.index((model,))]

    @property
    def notes(self) -> list[str]:
        """Reasons for missing intervals and tests."""
        notes = [(data, note) for data, made in self._intervals.items() for note in made.notes]
        notes += [
            (benchmark.data, f"– no tests: {why}")
            for benchmark in self.benchmarks
            if len(benchmark.models) > 1 and (why := self._untested(benchmark))
        ]
        named = [note if len(self.benchmarks) == 1 else f"{note} ({data})" for data, note in notes]
        return named + [f"– no test across data sets: {why}" for why in [self._across[1]] if why]

    @property
    def _averaged(self) -> bool:
        """Whether the lead metric is a mean over targets, unlike a median or a maximum."""
        return not isinstance(self.lead, Statistic) and abs(self.lead.p) < inf

    def _untested(self, benchmark: Benchmark) -> str:
        """Return the reason why the models of a benchmark are not tested, or an empty text."""
        return benchmark.untestable if self._averaged else f"{self.lead} is not a mean over targets"

    @property
    def percent(self) -> str:
        """The confidence level in percent."""
        return f"{100 * self.level:.6g}%"

    @property
    def comparisons(self) -> dict[str, Comparison]:
        """The paired tests of the lead metric, for each data set with several models."""
        return {data: made.result() for data, made in self._comparing.items()}

    @cached_property
    def _comparing(self) -> dict[str, Future[Comparison]]:
        """The paired tests, in threads: products of matrices leave Python to other work meanwhile."""
        tested = [c for c in self.benchmarks if len(c.models) > 1 and not self._untested(c)]
        works = [partial(self._compare, c.aligned, c.unit) for c in tested]
        return dict(zip([c.data for c in tested], map(self._pool.submit, works), strict=True))

    def _compare(self, models: Mapping[str, AnyRanks], unit: str) -> Comparison:
        with ONE_THREAD:
            return compare(
                models, metrics=self.lead, level=self.level, unit=unit, on="row", ties=self.ties
            )

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """The threads of work that leaves Python to other work, or takes long; they end when idle."""
        return ThreadPoolExecutor(WORKERS)

    def start(self) -> None:
        """Start what takes longest and leaves Python to other work meanwhile."""
        _ = self._comparing, self._calibrating

    @property
    def tested(self) -> str:
        """The tests in words."""
        units = " or ".join(dict.fromkeys(plural(made.unit, 2) for made in self.comparisons.values()))
        return (
            f"paired, two-sided permutation tests of {self.lead} over {units}, Holm-corrected within "
            "each data set"
        )

    # Groups of targets --------------------------------------------------------------------------

    @cached_property
    def groups(self) -> dict[str, dict[str, list[Group]]]:
        """The groups of each data set, by relation and by every key with few values."""
        return {
            benchmark.data: {
                key: self.by(benchmark, key)
                for key in ("relation", *self._kinds(benchmark))
                if key in benchmark.first.keys
            }
            for benchmark in self.benchmarks
        }

    def by(self, benchmark: Benchmark, key: str) -> list[Group]:
        """Group a benchmark by a key; each group has its own chance level and intervals."""
        groups = list(benchmark.group_by(key))
        group_of = np.empty(len(benchmark), dtype=np.int64)
        for i, (_, rows) in enumerate(groups):
            group_of[rows] = i
        first, *others = benchmark.aligned.values()
        sample = Sample(first, self.ties, unit=benchmark.unit, groups=group_of)
        samples = [sample, *map(sample.of_model, others)]
        # in all groups at once: one call for each of a thousand relations takes too long
        values = [values_by_group(one, self.lead).tolist() for one in samples]
        bounds = [bounds_by_group(one, self.lead, self.level) for one in samples]
        sizes = benchmark.sizes_by_group(group_of, len(groups))
        return [
            self._group(value, sizes[i], [x[i] for x in values], [x[i] for x in bounds], units)
            for i, ((value, _), units) in enumerate(zip(groups, sample.units_by_group, strict=True))
            if sizes[i].total  # not all of weight zero
        ]

    def _group(
        self,
        value: str,
        sizes: Histogram | Shapes,
        raw: Sequence[float],
        bounds: Sequence[Bounds],
        units: int,
    ) -> Group:
        level = nan
        try:
            null = null_of(self.lead, sizes)
            level = float(null.mean())
            line = Adjusted("index", self.lead).map(null)
        except (DegenerateError, NullDistributionError):
            line = Affine(nan, nan)
        assert isinstance(line, Affine)
        found = [_on_index(line, x, ends, units) for x, ends in zip(raw, bounds, strict=True)]
        return Group(value, sizes.total, level, tuple(found))

    def _kinds(self, benchmark: Benchmark) -> list[str]:
        """Return the keys with few values, such as side and cardinality."""
        keys = benchmark.first.keys
        return [
            name
            for name, column in keys.items()
            if name not in NOT_KINDS and 1 < len(set(column.tolist())) <= MOST_KINDS
        ]

    @cached_property
    def averages(self) -> dict[str, dict[str, dict[str, float]]]:
        """The index over targets, queries and relations, by data set and model, as keys allow."""
        return {benchmark.data: self._averages(benchmark) for benchmark in self.benchmarks}

    def _averages(self, benchmark: Benchmark) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        ranks_of = {m: ranks for m, ranks in benchmark.models.items() if isinstance(ranks, Ranks)}
        for average in AVERAGES if ranks_of else ():  # the average of rankings is that over queries
            try:
                weight = benchmark.first.weights_by(average)
            except InputError:  # no queries, or no relations, to average over
                continue
            for model, ranks in ranks_of.items():
                tally = Tally.of_checked(ranks.better, ranks.equal, ranks.candidates, weight)
                try:
                    value = Adjusted("index", self.lead)(tally, self.ties)
                except (DegenerateError, NullDistributionError) as error:
                    value = nan
                    self._unaveraged[error.what] = None
                found.setdefault(model, {})[average] = value
        return found

    @property
    def unaveraged(self) -> list[str]:
        """Reasons for undefined averages."""
        return list(self._unaveraged) if self.averages else []

    # Curves -------------------------------------------------------------------------------------

    def curves(self) -> list[dict[str, Any]]:
        """Return the cumulative distribution of ranks, of random ranking (no model) and all models."""
        return [row for benchmark in self.benchmarks for row in self._curves(benchmark)]

    def _curves(self, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
        known = benchmark.first.has_candidates
        counts = (
            [benchmark.first.candidates]
            if known
            else [ranks.better + ranks.equal + 1 for ranks in benchmark.models.values()]
        )
        most = max(int(column.max()) for column in counts)
        at = np.unique(np.round(np.geomspace(1, most, POINTS)).astype(np.int64))
        shares = {
            model: self._recall(at, ranks)
            if isinstance(ranks, Rankings)
            else _within(at, ranks.tally(), self.ties)
            for model, ranks in benchmark.models.items()
        }
        if known:
            sizes = benchmark.sizes
            rows = sizes.rows if isinstance(sizes, Shapes) else sizes
            mass = rows.counts * rows["weight"]
            chance = (np.minimum(1.0, at[:, None] / rows["candidates"]) @ mass) / mass.sum()
            shares = {"": chance} | shares
        for model, share in shares.items():
            for rank, value in zip(at.tolist(), share.tolist(), strict=True):
                yield {"data": benchmark.data, "model": model, "rank": rank, "share": round(value, 5)}

    def _recall(self, at: Any, rankings: Rankings) -> Floats:
        """Return the recall at each rank: the share of the answers of a query, on average."""
        metrics = [QueryMetric("sum", k=k, norm="answers") for k in at.tolist()]
        tally = rankings.tally(*metrics)
        return np.array([value_of(metric, tally, self.ties) for metric in metrics])

    @cached_property
    def spreads(self) -> dict[str, float]:
        """How much more the lead metric of a random scorer spreads than with independent ranks."""
        found = {}
        for benchmark in self.benchmarks if not self.rankings else ():  # queries share no scores
            try:
                scorer = null_distribution(self.lead, benchmark.first)
                alone = benchmark.null(self.lead)
                found[benchmark.data] = scorer.std() / alone.std()
            except (NullDistributionError, ZeroDivisionError):
                continue
        return found

    @property
    def calibration(self) -> list[dict[str, Any]]:
        """The exact tail probabilities of z under random ranking, and those of a normal distribution."""
        return [row for rows in self._calibrating for row in rows.result()]

    @cached_property
    def _calibrating(self) -> list[Future[list[dict[str, Any]]]]:
        """The calibration, in threads: it takes longest on small data."""
        works = [partial(lambda c: list(self._calibration(c)), c) for c in self.benchmarks]
        return [self._pool.submit(work) for work in works]

    def _calibration(self, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
        from scipy.special import ndtr

        if self.rankings:  # whose tails are those of the normal distribution, but for the shortest
            return
        for name in dict.fromkeys([str(self.lead), *CALIBRATED]):
            metric = bare(parse(name))
            try:
                null = benchmark.null(metric)
                line = Adjusted("z", metric).map(null)
            except (DegenerateError, NullDistributionError):
                continue
            mean = float(null.mean())
            slope = line(mean + 1.0) - line(mean)
            for z in STEPS:
                try:
                    exact = float(null.sf(mean + z / slope))
                except NullDistributionError:
                    break
                normal = float(ndtr(-z))
                row = {"data": benchmark.data, "metric": name, "z": z}
                yield row | {"exact": exact, "normal": normal, "ratio": exact / normal}


def _turned(pair: Pair) -> Pair:
    """Return the same test with the models in the other order."""
    return replace(
        pair,
        first=pair.second,
        second=pair.first,
        difference=-pair.difference,
        low=-pair.high,
        high=-pair.low,
        effect=-pair.effect,
        wins=pair.losses,
        losses=pair.wins,
    )


def _on_index(line: Affine, value: float, found: Bounds, units: int) -> Interval:
    """Return the interval of an index from that of its metric."""
    low, high = sorted((line(found.low), line(found.high)))
    if isnan(value) or isnan(low):
        return Interval(line(value), nan, nan, nan, units)
    return Interval(line(value), low, high, abs(line.scale) * found.standard_error, units)


def value_of(metric: Metric | Statistic | QueryMetric, tally: Tally | QueryTally, ties: Ties) -> float:
    """Return the value of a metric of a tally; NaN if it is defined for no query."""
    if isinstance(tally, QueryTally):
        return tally.value(for_answers(metric), ties)  # type: ignore[arg-type]  # checked by the tally
    assert not isinstance(metric, QueryMetric)
    return metric(tally, ties)


def sizes_of(tally: Tally | QueryTally) -> Histogram | Shapes:
    """Return what the null distribution of a tally depends on."""
    return tally.shapes if isinstance(tally, QueryTally) else tally.sizes


def _within(at: Any, tally: Tally, ties: Ties) -> Floats:
    """Return the share of targets with rank at most `at`; tied ranks count in part."""
    rows = tally.rows(ties)
    width = np.where(rows.high > rows.low, rows.high - rows.low + 1.0, 1.0)
    share = np.array(
        [np.clip(np.floor(rank - rows.low + 1.0) / width, 0.0, 1.0) @ rows.mass for rank in at.tolist()]
    )
    return np.asarray(share / rows.mass.sum())


def best(values: Sequence[float], *, increasing: bool | None) -> set[int]:
    """Return the positions of the best values; none if the metric has no direction.

    >>> best([0.5, 0.7, float("nan"), 0.7], increasing=True), best([3, 1], increasing=None)
    ({1, 3}, set())
    """
    sign = {True: 1.0, False: -1.0, None: 0.0}[increasing]
    scores = [-inf if isnan(value) else sign * value for value in values]
    if not sign or max(scores, default=-inf) == -inf:
        return set()
    return {i for i, score in enumerate(scores) if score == max(scores)}
