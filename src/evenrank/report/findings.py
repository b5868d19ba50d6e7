"""Findings: every number of a report, worked out from contests.

All models of a contest share its targets, so what depends on these alone (chance laws, groups, queries)
is worked out once, whatever the number of models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import DegenerateError, InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted, Affine, Expression
from evenrank.metrics.chance import NullDistribution
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, bare, evaluate
from evenrank.ranks.protocol import Protocol, shared
from evenrank.ranks.ranks import tie_rule
from evenrank.report.contest import Contest
from evenrank.stats import Comparison, Interval, Intervals, compare, intervals
from evenrank.stats._intervals import check_level
from evenrank.stats._sample import ROUNDING, Error, Sample, Terms
from evenrank.stats.averages import AVERAGES

METRICS = ("mrr", "hits@1", "hits@10", "mr", "index(mrr)", "index(hits@10)", "index(mr)", "z(mrr)")
LEVEL = 0.95
NOT_KINDS = ("head", "tail", "query", "answer", "source", "target", "relation")
MOST_KINDS = 12  # a key with more values than this names things, and is no way to break results down
POINTS = 60  # of a curve of ranks
STEPS = (1, 2, 3, 4, 5)  # standard deviations at which chance is held against a normal law
FAR_OUT = 10.0  # standard deviations; chance gets there less than once in a hundred times
CALIBRATED = ("mrr", "hits@10", "mr")


@dataclass(frozen=True)
class Group:
    """Some targets of a contest: how many, what chance gets on them, and every model's index."""

    value: str
    count: int
    chance: float
    intervals: tuple[Interval, ...]

    @property
    def index(self) -> tuple[float, ...]:
        """The index of every model."""
        return tuple(interval.value for interval in self.intervals)


class Spread(NamedTuple):
    """How many independent units a group has, and the standard error of every model on them."""

    units: int
    errors: list[float]


class Findings:
    """What contests show, in the metrics asked for; the first of them leads."""

    def __init__(
        self,
        contests: Sequence[Contest],
        metrics: Sequence[str | Expression] = (),
        ties: Ties | None = None,
        level: float = LEVEL,
    ) -> None:
        """Evaluate every model of every contest."""
        check_level(level)
        self.contests, self.level = tuple(contests), level
        self.ties = tie_rule((r for contest in self.contests for r in contest.models.values()), ties)
        wanted = list(dict.fromkeys(map(parse, metrics or METRICS)))
        lead = next(
            (e for e in wanted if not isinstance(e, Adjusted) and e.increasing is not None), None
        )
        if lead is None:
            raise InputError(
                "a report needs a plain metric to lead",
                got=", ".join(map(str, wanted)),
                do="name one, such as mrr or hits@10",
            )
        self.lead: Metric | Statistic = bare(lead)
        self.metrics = wanted
        self._unaveraged: dict[str, None] = {}
        self.evaluation = self._evaluate(wanted, shared(c.protocol for c in self.contests))

    def _evaluate(self, metrics: Sequence[Expression], protocol: Protocol) -> Evaluation[Any]:
        return evaluate(
            [ranks.tally() for contest in self.contests for ranks in contest.models.values()],
            metrics,
            ties=self.ties,
            labels=[(contest.data, model) for contest in self.contests for model in contest.models],
            label_names=("data", "model"),
            protocol=replace(protocol, average="micro"),
        )

    # One row per model and data set -------------------------------------------------------------

    @cached_property
    def paper(self) -> Evaluation[Any]:
        """The leading metric raw, as index and as z, with its chance level: the paper's figure."""
        forms: list[Expression] = [
            self.lead,
            *(Adjusted(f, self.lead) for f in ("index", "z", "chance")),
        ]
        return self._evaluate(forms, Protocol())

    def value(self, form: str, data: str, model: str) -> float:
        """Give the leading metric of a model: raw (an empty form), index, z or chance."""
        expression = Adjusted(form, self.lead) if form else self.lead  # type: ignore[arg-type]
        at = self.paper.labels.index((data, model))
        return float(self.paper.values_by_group[at, self.paper.expressions.index(expression)])

    def surprise(self, contest: Contest, model: str) -> float:
        """Give the probability that chance does at least as well in the leading metric, or NaN.

        Where that is small whatever the law, the bound of Cantelli, 1 / (1 + z^2), will do.
        """
        z = self.value("z", contest.data, model)
        if z > FAR_OUT:
            return 1.0 / (1.0 + z * z)
        try:
            return float(
                NullDistribution(self.lead, contest.sizes).sf(self.value("", contest.data, model))
            )
        except NullDistributionError:
            return nan

    def chance(self, contest: Contest, metric: Metric | Statistic) -> float:
        """Give what chance gets on a data set, or NaN."""
        try:
            return float(NullDistribution(metric, contest.sizes).mean())
        except NullDistributionError:
            return nan

    def ranges(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Give what ties leave open of the leading metric, where more than nothing."""
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
        with threadpool_limits(1, "blas"):  # no vector here is worth waking another thread for
            return {
                contest.data: intervals(
                    contest.alike, *wanted, level=self.level, by=contest.unit, ties=self.ties
                )
                for contest in self.contests
            }

    def interval(self, metric: str | Expression, data: str, model: str) -> Interval:
        """Give the interval of a metric; its ends are NaN where there is none."""
        made = self._intervals[data]
        found: list[Interval] = made[metric]
        return found[made.evaluation.labels.index((model,))]

    @property
    def notes(self) -> list[str]:
        """Say where there is no interval, or no test, and why."""
        said = [(data, note) for data, made in self._intervals.items() for note in made.notes]
        said += [
            (contest.data, f"– no tests: {why}")
            for contest in self.contests
            if len(contest.models) > 1 and (why := self._untested(contest))
        ]
        return [note if len(self.contests) == 1 else f"{note} ({data})" for data, note in said]

    @property
    def _averaged(self) -> Metric | None:
        """The leading metric, if it is a mean of a term per target; a median and a maximum are not."""
        return self.lead if isinstance(self.lead, Metric) and abs(self.lead.p) < inf else None

    def _untested(self, contest: Contest) -> str:
        """Say why the models of a contest are not tested; nothing, where they are."""
        return contest.untestable if self._averaged else f"{self.lead} is not made of a term per target"

    @property
    def sure(self) -> str:
        """The level in percent."""
        return f"{100 * self.level:.6g}%"

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """The paired tests of the leading metric, for each data set with several models."""
        with threadpool_limits(1, "blas"):
            return {
                contest.data: compare(
                    contest.alike,
                    metrics=self.lead,
                    level=self.level,
                    by=contest.unit,
                    on="row",
                    ties=self.ties,
                )
                for contest in self.contests
                if len(contest.models) > 1 and not self._untested(contest)
            }

    @property
    def tested(self) -> str:
        """Say what the tests are."""
        units = " or ".join(dict.fromkeys(f"{made.unit}s" for made in self.comparisons.values()))
        return (
            f"paired, two-sided permutation tests of {self.lead} over {units}, Holm-corrected within "
            "each data set"
        )

    # Groups of targets --------------------------------------------------------------------------

    @cached_property
    def groups(self) -> dict[str, dict[str, list[Group]]]:
        """The groups of each data set, by relation and by every key that tells a few kinds."""
        return {
            contest.data: {
                key: self.by(contest, key)
                for key in ("relation", *self._kinds(contest))
                if key in contest.first.keys
            }
            for contest in self.contests
        }

    def by(self, contest: Contest, key: str) -> list[Group]:
        """Break a contest down by a key; each group has its own chance level and intervals."""
        groups = list(contest.split(key))
        spreads = self._spreads(contest, groups)
        found = (self._group(contest, *group, spreads[i]) for i, group in enumerate(groups))
        return [group for group in found if group is not None]

    def _group(self, contest: Contest, value: str, rows: Ints, spread: Spread) -> Group | None:
        tallies = contest.tallies(rows)
        if not tallies[0].count:  # all of weight zero
            return None
        null, index = NullDistribution(self.lead, tallies[0].sizes), Adjusted("index", self.lead)
        try:
            line = index.map(null)
            raw = [self.lead(tally, self.ties) for tally in tallies]
        except (DegenerateError, NullDistributionError):
            line, raw = Affine(nan, nan), [nan] * len(tallies)
        assert isinstance(line, Affine)
        ends = sorted(map(line, self.lead.range))
        return Group(
            value,
            tallies[0].count,
            _mean(null),
            tuple(
                self._interval(line(x), Error(abs(line.scale) * error, spread.units - 1), ends)
                for x, error in zip(raw, spread.errors, strict=True)
            ),
        )

    def _interval(self, value: float, error: Error, ends: Sequence[float]) -> Interval:
        """Give the symmetric interval of a value, cut off at the least and the most it can be."""
        units = int(error.freedom) + 1
        if isnan(error.size) or isnan(value):
            return Interval(value, nan, nan, nan, units)
        (least, most), reach = ends, error.reach(self.level)
        return Interval(value, max(value - reach, least), min(value + reach, most), error.size, units)

    def _spreads(self, contest: Contest, groups: Sequence[tuple[str, Ints]]) -> list[Spread]:
        """Give the standard errors of the leading metric in all groups at once; NaN without any.

        This is the delta method of `evenrank.stats`; a thousand relations, asked one by one, would
        take longer than all the rest of a report.
        """
        of = np.empty(len(contest), dtype=np.int64)
        for i, (_, rows) in enumerate(groups):
            of[rows] = i
        weight = contest.first.weights
        weighs = np.ones(len(of), dtype=bool) if weight is None else weight > 0
        of, mass = of[weighs], np.ones(weighs.sum()) if weight is None else weight[weighs]
        part, (owner, _) = columns.encode([of, contest.units[weighs]])
        units = np.bincount(owner, minlength=len(groups))
        errors = np.full((len(groups), len(contest.models)), nan)
        if self._averaged is not None:
            for column, ranks in enumerate(contest.models.values()):
                terms = Sample(ranks[weighs], self.ties).terms(self._averaged)
                errors[:, column] = _errors(terms, mass, of, part, owner, units)
        return [Spread(int(n), row) for n, row in zip(units, errors.tolist(), strict=True)]

    def _kinds(self, contest: Contest) -> list[str]:
        """Give the keys that put targets into a few kinds: side, cardinality and the like."""
        keys = contest.first.keys
        return [
            name
            for name, column in keys.items()
            if name not in NOT_KINDS and 1 < len(set(column.tolist())) <= MOST_KINDS
        ]

    @cached_property
    def averages(self) -> dict[str, dict[str, dict[str, float]]]:
        """The index over targets, queries and relations, by data set and model, as keys allow."""
        return {contest.data: self._averages(contest) for contest in self.contests}

    def _averages(self, contest: Contest) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for average in AVERAGES:
            try:
                weight = contest.first.weights_by(average)
            except InputError:  # no queries, or no relations, to average over
                continue
            for model, ranks in contest.models.items():
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
        """Say why some averages are undefined."""
        return list(self._unaveraged) if self.averages else []

    # Curves -------------------------------------------------------------------------------------

    def curves(self) -> list[dict[str, Any]]:
        """Give the share of targets within each rank, for chance (no model) and for every model."""
        return [row for contest in self.contests for row in self._curves(contest)]

    def _curves(self, contest: Contest) -> Iterator[dict[str, Any]]:
        most = int(contest.first.candidates.max())
        at = np.unique(np.round(np.geomspace(1, most, POINTS)).astype(np.int64))
        sizes = contest.sizes
        mass = sizes.counts * sizes["weight"]
        chance = (np.minimum(1.0, at[:, None] / sizes["candidates"]) @ mass) / mass.sum()
        shares = {"": chance} | {
            model: _within(at, ranks.tally(), self.ties) for model, ranks in contest.models.items()
        }
        for model, share in shares.items():
            for rank, value in zip(at.tolist(), share.tolist(), strict=True):
                yield {"data": contest.data, "model": model, "rank": rank, "share": round(value, 5)}

    @cached_property
    def calibration(self) -> list[dict[str, Any]]:
        """How often chance reaches some z, exactly, beside what a normal law would say."""
        return [row for contest in self.contests for row in self._calibration(contest)]

    def _calibration(self, contest: Contest) -> Iterator[dict[str, Any]]:
        from scipy.special import ndtr

        for name in dict.fromkeys([str(self.lead), *CALIBRATED]):
            metric = bare(parse(name))
            try:
                null = NullDistribution(metric, contest.sizes)
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
                row = {"data": contest.data, "metric": name, "z": z}
                yield row | {"exact": exact, "normal": normal, "ratio": exact / normal}


def _errors(terms: Terms, mass: Floats, of: Ints, part: Ints, owner: Ints, units: Ints) -> Floats:
    """Give the standard error of a metric in every group.

    `of` is the group of each target, `part` its unit within the group, `owner` the group of each unit.
    """
    n = len(units)
    with np.errstate(divide="ignore", invalid="ignore"):  # groups that weigh nothing, infinite terms
        total = np.bincount(of, mass, n)
        mean = np.bincount(of, mass * terms.x, n) / total
        pull = np.bincount(part, mass * (terms.x - mean[of])) / total[owner]
        error = np.sqrt(np.bincount(owner, pull**2, n) * units / (units - 1))
        spread = (units > 1) & (error > ROUNDING * np.abs(mean))
        slope = np.abs([terms.slope(m) for m in mean.tolist()])
        return np.where(spread, error * slope, nan)


def _mean(null: NullDistribution) -> float:
    try:
        return float(null.mean())
    except NullDistributionError:
        return nan


def _within(at: Any, tally: Tally, ties: Ties) -> Floats:
    """Give the share of targets whose rank is at most each of some numbers; ties count in part."""
    rows = tally.rows(ties)
    width = np.where(rows.high > rows.low, rows.high - rows.low + 1.0, 1.0)
    share = np.array(
        [np.clip(np.floor(rank - rows.low + 1.0) / width, 0.0, 1.0) @ rows.mass for rank in at.tolist()]
    )
    return np.asarray(share / rows.mass.sum())


def best(values: Sequence[float], *, increasing: bool | None) -> set[int]:
    """Give the places of the best values; none where nothing is better than anything.

    >>> best([0.5, 0.7, float("nan"), 0.7], increasing=True), best([3, 1], increasing=None)
    ({1, 3}, set())
    """
    sign = {True: 1.0, False: -1.0, None: 0.0}[increasing]
    scores = [-inf if isnan(value) else sign * value for value in values]
    if not sign or max(scores, default=-inf) == -inf:
        return set()
    return {i for i, score in enumerate(scores) if score == max(scores)}
