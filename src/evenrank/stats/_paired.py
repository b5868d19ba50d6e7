"""Compare models on the same targets: differences, confidence intervals, and paired tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan, nan
from typing import Any, NamedTuple, Unpack, get_args

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank._internal.checks import check_choice
from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import arrow, bare
from evenrank.ranks.paper import Style
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import tie_rule
from evenrank.ranks.selection import counted
from evenrank.stats import _significance
from evenrank.stats._bounds import adjustment
from evenrank.stats._intervals import (
    DRAWS,
    Intervals,
    check_draws,
    check_level,
    intervals,
    percent,
    plural,
    single_units,
)
from evenrank.stats._join import (
    On,
    candidate_range,
    check_protocols,
    differing,
    joined,
    named_models,
    one_kind,
)
from evenrank.stats._sample import ROUNDING, Sample, StandardError, samples_of
from evenrank.stats._significance import CORRECTIONS, Correction, Test
from evenrank.stats._terms import Terms, smooth
from evenrank.stats._units import Unit, names_of, unit_name, unit_note

HOW = {
    "permutation": "sign-flip permutation test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
}
CORRECTED = {
    "holm": "Holm-corrected",
    "bonferroni": "Bonferroni-corrected",
    "bh": "Benjamini-Hochberg-corrected",
    "none": "not corrected",
}


@dataclass(frozen=True)
class Pair:
    """The comparison of two models by one metric.

    Parameters
    ----------
    metric : Metric or Adjusted
        The metric.
    first, second : str
        The models.
    difference : float
        The metric of the first model minus that of the second.
    low, high : float
        The confidence interval of the difference.
    standard_error : float
        Its standard error.
    effect : float
        Cohen's d_z: the mean difference of the units in their standard deviations, positive if the first
        model is better.
    wins, ties, losses : int
        The number of targets on which the first model is better, equal, worse.
    p : float
        The p-value of this test.
    p_corrected : float
        The p-value, corrected for all tests of the comparison.
    """

    metric: Expression
    first: str
    second: str
    difference: float
    low: float
    high: float
    standard_error: float
    effect: float
    wins: int
    ties: int
    losses: int
    p: float
    p_corrected: float

    def better(self, level: float) -> str | None:
        """Name the significantly better model.

        Parameters
        ----------
        level : float
            The confidence level.

        Returns
        -------
        str or None
            The model; None if the pair is undecided, that is, if the difference is not significant.
        """
        if not self.p_corrected <= 1.0 - level or self.effect == 0:
            return None
        return self.first if self.effect > 0 else self.second


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Models compared on the same targets; prints as tables.

    Parameters
    ----------
    values : Intervals
        Each model with its confidence intervals.
    pairs : tuple of Pair
        One entry per metric and pair of models.
    test : {"permutation", "t", "wilcoxon"}
        The paired test.
    correction : {"holm", "bonferroni", "bh", "none"}
        The correction for multiple tests.
    level : float
        The confidence level.
    unit : str
        The resampling unit.
    units : int
        The number of units.
    samples, seed : int
        The number of sign flips drawn, and their seed.
    notes : tuple of str
        Remarks, such as missing intervals.
    """

    values: Intervals
    pairs: tuple[Pair, ...]
    test: Test
    correction: Correction
    level: float
    unit: str
    units: int
    samples: int
    seed: int
    notes: tuple[str, ...] = ()

    def pair(self, first: str, second: str, metric: str | Expression | None = None) -> Pair:
        """Look up the comparison of two models.

        Parameters
        ----------
        first, second : str
            The models, in the order in which they were compared.
        metric : str or Metric, optional
            The metric; by default the first one.

        Returns
        -------
        Pair
            The comparison.

        Raises
        ------
        InputError
            If these models were not compared by this metric.
        """
        wanted = self.values.evaluation.expressions[0] if metric is None else parse(metric)
        for pair in self.pairs:
            if (pair.metric, pair.first, pair.second) == (wanted, first, second):
                return pair
        allowed = ", ".join(dict.fromkeys(f"{p.first} and {p.second}" for p in self.pairs))
        got = f"{first} and {second} by {wanted}"
        raise InputError("no such comparison", got=got, allowed=allowed)

    @property
    def protocol(self) -> Protocol:
        """How the models were ranked and compared."""
        flips = {"samples": str(self.samples), "seed": str(self.seed)}
        own = {"test": self.test, **(flips if self.test == "permutation" else {})}
        return self.values.protocol.updated({**own, "correction": self.correction})

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per metric and pair of models."""
        value = {(row["model"], row["metric"]): row["value"] for row in self.values.rows()}
        return [
            {
                "metric": (name := str(pair.metric)),
                "first": pair.first,
                "second": pair.second,
                "first_value": value[pair.first, name],
                "second_value": value[pair.second, name],
                "difference": pair.difference,
                "low": pair.low,
                "high": pair.high,
                "standard_error": pair.standard_error,
                "effect": pair.effect,
                "wins": pair.wins,
                "ties": pair.ties,
                "losses": pair.losses,
                "p": pair.p,
                "p_corrected": pair.p_corrected,
                "better": pair.better(self.level),
            }
            for pair in self.pairs
        ]

    def content(self) -> dict[str, Any]:
        """Collect all results, with protocol and notes."""
        return {
            "protocol": self.protocol.to_dict(),
            "fingerprint": self.protocol.fingerprint,
            "level": self.level,
            "units": self.units,
            "models": self.values.rows(),
            "pairs": self.rows(),
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Build the tables: the models with their intervals, then the pairs."""
        (models,) = self.values.tables()
        between = f"{percent(self.level)} interval"
        header = [
            *("metric", "first", "second", "difference", between),
            *("effect", "wins/ties/losses", "p", "p corrected", "better"),
        ]
        rows = [
            [
                f"{pair.metric} {arrow(pair.metric)}",
                pair.first,
                pair.second,
                signed(pair.difference),
                f"[{signed(pair.low)}, {signed(pair.high)}]",
                signed(pair.effect),
                f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}",
                figure(pair.p),
                figure(pair.p_corrected),
                pair.better(self.level) or "–",
            ]
            for pair in self.pairs
        ]
        tests = len(self.pairs)
        family = f"{tests} test{'s' * (tests != 1)}, {CORRECTED[self.correction]}"
        over = f"{self.units:,} {plural(self.unit, self.units)}"
        how = f"{HOW[self.test]} over {over}; {family}"
        described = {"test": self.test, "correction": self.correction, **self.values.described, **DRAWS}
        only = "p corrected" if self.correction == "none" else "p"  # of which one is enough
        optional = ("wins/ties/losses", "effect", only, between)
        return [
            replace(models, notes=()),
            Table(header, rows, [how, *self.notes, self.protocol.note(described)], 3, optional=optional),
        ]

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write the models as a table for a paper, in LaTeX, and the tests as another.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label.

        Returns
        -------
        str
            LaTeX text: a dagger marks best values that are significantly better than the second best,
            or values that are significantly better than those of the baseline.
        """
        from evenrank.stats.paper import marked, pair_table

        made = {"": self}
        return "\n\n".join(
            filter(None, [marked(self.values.evaluation, made, style), pair_table(made, style)])
        )


def compare(
    *models: AnyRanks | Mapping[str, AnyRanks] | Sequence[AnyRanks],
    metrics: Metrics | None = None,
    baseline: str | None = None,
    test: Test = "permutation",
    correction: Correction = "holm",
    level: float = 0.95,
    unit: Unit = None,
    on: On = None,
    mixed: bool = False,
    samples: int = 10_000,
    seed: int = 0,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
    **named: AnyRanks,
) -> Comparison:
    """Compare models on the same targets, pairwise or with a baseline.

    Parameters
    ----------
    *models : Ranks or Rankings, or mapping of str to these, or list of these
        Two models or more. Without names, they are called by the model of their protocol, or
        "model 1", "model 2", ...
    metrics : str, Metric or list of these, optional
        The metrics: means over targets such as MRR or hits@10, also adjusted for chance. By default the
        MRR; of rankings, whose metrics are means over queries, the MAP.
    baseline : str, optional
        Compare all other models with this one; by default all pairs are compared.
    test : {"permutation", "t", "wilcoxon"}, default "permutation"
        The paired test of the differences between the metric's terms (reciprocal ranks, hits, logarithms
        of ranks). "permutation" flips their signs, and is exact if there are at most `samples` flips;
        "t" is Student's paired t-test; "wilcoxon" is the signed-rank test, which tests whether positive
        and negative differences balance in rank, and may disagree with the metric.
    correction : {"holm", "bonferroni", "bh", "none"}, default "holm"
        The correction for multiple tests: Holm, Bonferroni, Benjamini-Hochberg, or none.
    level : float, default 0.95
        The confidence level.
    unit : str or sequence of str, optional
        The resampling unit, whose differences flip their signs together: "target", "triple", "query" or
        key columns; or two units that cross, "triple+query". The default is that of `intervals`: head
        and tail prediction of one triple are dependent, and so are the answers of one query; treating
        them as independent makes p-values too small.
    on : str or sequence of str, optional
        The keys that identify a target; by default head, relation, tail and side, or source and target,
        or query and answer. Of rankings, the key query, or all keys that they share. "row" takes row i
        of each model.
    mixed : bool, default False
        Whether to compare models whose protocols or candidates differ.
    samples : int, default 10,000
        The number of random sign flips.
    seed : int, default 0
        The seed of the random sign flips.
    ties : str, optional
        The tie-breaking rule; by default that of the protocols.
    average : str or sequence of str, default "micro"
        "micro", or a macro average: "query", or key columns such as "relation".
    **named : Ranks or Rankings
        More models, by name.

    Returns
    -------
    Comparison
        The models with confidence intervals, and the pairs with their tests.

    Raises
    ------
    InputError
        If there are fewer than two models; if their targets, or (unless `mixed`) their protocols or
        candidates differ; or if an option is unknown.

    Examples
    --------
    >>> a = Ranks.of([1, 2, 1, 3, 1, 2, 1, 5], candidates=50)
    >>> b = Ranks.of([2, 2, 4, 9, 1, 3, 2, 7], candidates=50)
    >>> result = compare(a=a, b=b, on="row")
    >>> pair = result.pair("a", "b")
    >>> round(pair.difference, 4), pair.wins, pair.ties, pair.losses, pair.p  # 2 of the 2^6 flips
    (0.2..., 6, 2, 0, 0.03125)
    >>> compare(a, b, on="row", metrics=["mrr", "hits@3"]).pair("model 1", "model 2", "hits@3").wins
    2
    """
    ranked = named_models(models, named, kinds=(Ranks, Rankings))
    if len(ranked) < 2:
        raise InputError("comparing needs two models or more", got=len(ranked))
    check_level(level)
    check_draws(samples, seed)
    check_choice("test", test, get_args(Test))
    check_choice("correction", correction, get_args(Correction))
    if baseline is not None:
        check_choice("baseline", baseline, list(ranked))
    names_of("average", average)
    wanted = [_default(ranked) if metrics is None else metrics]
    expressions = list(dict.fromkeys(map(parse, listed(wanted))))
    if not expressions:
        raise InputError("no metric to compare by", do='e.g. metrics="mrr"')
    one_kind(ranked)
    for expression in expressions:
        smooth(expression, next(iter(ranked.values())))
    notes = () if mixed else check_protocols(ranked)
    ties = tie_rule(ranked.values(), ties)
    ranked = joined(ranked, on, mixed=mixed)
    if mixed:
        notes = tuple(f"mixed: {what}" for what in (*differing(ranked), *_other_candidates(ranked)))
    _check_chance_levels(ranked, expressions)
    unit = unit_name(ranked.values(), unit)
    values = intervals(ranked, *expressions, level=level, unit=unit, ties=ties, average=average)
    if values.evaluation.row_name == "query":  # which `_left_out` counts once for all models
        kept = tuple(note for note in values.evaluation.notes if "left out" not in note)
        values = replace(values, evaluation=replace(values.evaluation, notes=kept))
    drawn = dict(zip(ranked, samples_of(ranked.values(), ties, (average,), unit), strict=True))
    for name, sample in drawn.items():
        if sample.fewest < 2:
            got = f"{counted(len(ranked[name]), ranked[name].row_name)} of one {unit}"
            raise InputError(f"a single {unit} is not enough to compare models", got=got)
    couples = (
        list(combinations(ranked, 2))
        if baseline is None
        else [(name, baseline) for name in ranked if name != baseline]
    )
    made: list[Difference] = []
    for expression in expressions:
        each = zip(drawn.items(), values[expression], strict=True)
        views = {name: _view(name, expression, one, interval.value) for (name, one), interval in each}
        made += [_difference(expression, views[a], views[b]) for a, b in couples]
    p, every = _tested(made, test, level, samples, seed)
    corrected = CORRECTIONS[correction](p)
    pairs = []
    for d, ends, one, all_ in zip(made, every, p.tolist(), corrected.tolist(), strict=True):
        low, high = _interval(d, ends, one, test, level)
        pairs.append(replace(d.pair, low=low, high=high, p=one, p_corrected=all_))
    notes = (
        *notes,
        *_left_out(next(iter(ranked.values())), expressions),
        *unit_note(ranked.values(), unit),
        *_remarks(ranked, pairs, test, "+" in unit),
        *single_units(drawn.values(), unit),
    )
    units = next(iter(drawn.values())).units
    return Comparison(values, tuple(pairs), test, correction, level, unit, units, samples, seed, notes)


class View(NamedTuple):
    """One model by one metric: its value, the terms of its targets, and the influence of its units."""

    name: str
    sample: Sample
    value: float
    terms: Terms
    influence: Floats


def _view(name: str, expression: Expression, sample: Sample, value: float) -> View:
    sample = sample.defined(expression)
    terms = sample.terms(smooth(expression, sample.ranks))
    if not terms.finite:
        raise InputError(f"{expression} is infinite for some targets", got=name)
    return View(name, sample, value, terms, sample.influence_on(expression))


class Difference(NamedTuple):
    """A pair before its test, on the scale of the terms: the mean difference and its standard error.

    `by` are the units whose differences flip their signs: of units that cross, those with the larger
    standard error, `stretch` times which is the standard error of both. `way` is their number, 0 or 1.
    """

    pair: Pair
    x: Floats
    mean: float
    error: StandardError
    by: Sample
    way: int
    stretch: float
    to_metric: Callable[[float], float]

    @property
    def units(self) -> Floats:
        """The differences of the units."""
        return self.by.net(self.x)


def _difference(expression: Expression, first: View, second: View) -> Difference:
    """Compute the differences of two models, target by target."""
    sample = first.sample
    x, y = first.terms.at_reference(second.terms.reference), second.terms.x
    d = np.where(np.isclose(x, y, rtol=ROUNDING, atol=0.0), 0.0, x - y)
    better = 1.0 if first.terms.rising else -1.0
    influence = sample.influence(d)
    mean, error = sample.mean(d), sample.error(influence)
    spread = sample.error(first.influence - second.influence)
    sizes = [one.size for one in sample.errors_of_ways(influence)]
    larger = int(np.argmax(sizes))
    pair = Pair(
        expression,
        first.name,
        second.name,
        first.value - second.value,
        nan,
        nan,
        spread.size,
        effect=better * _significance.standardised(mean, error.size, sample.units),
        wins=int((better * d > 0).sum()),
        ties=int((d == 0).sum()),
        losses=int((better * d < 0).sum()),
        p=1.0,
        p_corrected=1.0,
    )
    adjust, total = adjustment(expression, sample), sample.mean(x) + sample.mean(y)
    least, most = _possible(second)

    def to_metric(gap: float) -> float:
        """Compute the difference of the metrics from that of the mean terms, whose sum is fixed."""
        ends = np.array([total + gap, total - gap]) / 2.0
        one, other = adjust(second.terms.value(np.clip(ends, least, most)))
        return float(one - other)

    varies = spread.size > ROUNDING * sample.error(first.influence).size
    stretch = error.size / sizes[larger] if sizes[larger] > 0 else 1.0
    by = sample.ways[larger]
    return Difference(pair, d, mean, error, by, larger, stretch if varies else nan, to_metric)


def _possible(view: View) -> tuple[float, float]:
    """Compute the range of the terms, on the scale of a model's terms."""
    metric, ranks = view.terms.metric, view.sample.ranks
    if isinstance(ranks, Rankings) or isinstance(metric, QueryMetric):
        return metric.range
    last = float(ranks.candidates.max() if ranks.has_candidates else view.sample.rank().max())
    x, reference = metric.term(1.0, last)
    ends = Terms(metric, x(np.array([1.0, last])), reference).at_reference(view.terms.reference)
    return float(ends.min()), float(ends.max())


def _tested(
    made: Sequence[Difference], test: Test, level: float, samples: int, seed: int
) -> tuple[Floats, list[tuple[float, float]]]:
    """Compute p-values, and the intervals of mean differences of terms: all that are not rejected."""
    if test == "permutation":
        return _permuted(made, level, samples, seed)
    if test == "t":
        p = [_significance.t_test(d.mean, d.error, len(d.units)) for d in made]
    else:
        p = [_significance.wilcoxon(d.units) for d in made]
    margins = [d.error.margin(level) for d in made]
    ends = [(d.mean - margin, d.mean + margin) for d, margin in zip(made, margins, strict=True)]
    return np.array(p), ends


def _permuted(
    made: Sequence[Difference], level: float, samples: int, seed: int
) -> tuple[Floats, list[tuple[float, float]]]:
    """Test pairs by sign flips; those whose units are the same share the flips."""
    p, ends = np.ones(len(made)), [(nan, nan)] * len(made)
    kinds = [(d.way, len(d.x)) for d in made]  # some queries have no AUC
    for kind in dict.fromkeys(kinds):
        rows = [i for i, one in enumerate(kinds) if one == kind]
        some = [made[i] for i in rows]
        by = some[0].by
        found = _significance.permutation(
            np.column_stack([d.units for d in some]),
            by.total(by.weight),
            level,
            samples,
            seed,
            np.nan_to_num([d.stretch for d in some], nan=1.0),
        )
        p[rows] = found.p
        for i, low, high in zip(rows, found.low.tolist(), found.high.tolist(), strict=True):
            ends[i] = (low, high)
    return p, ends


def _interval(
    made: Difference, ends: tuple[float, float], p: float, test: Test, level: float
) -> tuple[float, float]:
    """Map the interval of the difference of mean terms to the metric, such as from logarithms to GMR.

    It excludes 0 exactly if the test rejects it.
    """
    if isnan(made.stretch):
        return nan, nan
    if test != "wilcoxon":  # few flips are listed for p, but not for the interval
        tiny = np.nextafter(0.0, made.mean)
        rejected = p <= 1.0 - level
        if rejected and ends[0] <= 0.0 <= ends[1]:
            ends = (tiny, ends[1]) if made.mean > 0 else (ends[0], tiny)
        elif not rejected:
            ends = min(ends[0], 0.0), max(ends[1], 0.0)
    low, high = sorted(made.to_metric(end) for end in ends)
    return low, high


def _check_chance_levels(models: Mapping[str, AnyRanks], expressions: Sequence[Expression]) -> None:
    """Check that adjusted metrics compare models with the same candidates.

    Otherwise each model has its own chance level, and the difference is not one of terms whose signs
    could be flipped.
    """
    adjusted = [e for e in expressions if isinstance(e, Adjusted)]
    if adjusted and any(_other_candidates(models)):
        raise InputError(
            "models with different candidates have different chance levels",
            got=adjusted[0],
            do=f"compare them by {adjusted[0].metric}, or rank them with the same candidates",
        )


def _other_candidates(models: Mapping[str, AnyRanks]) -> Iterator[str]:
    """Note the numbers of candidates, if they differ between models."""
    first, *others = (ranks.candidates for ranks in models.values())
    if not all(np.array_equal(first, other) for other in others):
        yield f"candidates differ ({', '.join(map(candidate_range, models.values()))})"


def _default(models: Mapping[str, AnyRanks]) -> str:
    return "map" if any(isinstance(one, Rankings) for one in models.values()) else "mrr"


def _left_out(ranks: AnyRanks, expressions: Sequence[Expression]) -> Iterator[str]:
    """Note the queries without answers, and those whose candidates are all answers."""
    if not isinstance(ranks, Rankings):
        return
    answers = ranks.answer_counts
    if empty := int((answers == 0).sum()):
        yield f"{counted(empty, 'query')} without answers: left out"
    whole = int(((answers == ranks.candidates) & (answers > 0)).sum())
    if whole and any(str(bare(e)) == "auc" for e in expressions):
        yield f"auc: {counted(whole, 'query')} left out, as all candidates are answers"


def _remarks(
    models: Mapping[str, AnyRanks], pairs: Sequence[Pair], test: Test, crossed: bool
) -> Iterator[str]:
    """Note what a reader might not expect."""
    for first, second in combinations(models, 2):
        one, other = models[first], models[second]
        if np.array_equal(one.better, other.better) and np.array_equal(one.equal, other.equal):
            yield f"{first} and {second} have the same ranks"
    if any(isnan(pair.low) for pair in pairs):
        yield "– no interval if the differences do not vary"
    if test == "wilcoxon":
        yield "the Wilcoxon test is about the signed ranks of differences, not about their mean"
        if crossed:
            yield "the Wilcoxon test takes units of one kind as independent, although these cross"


def signed(x: float) -> str:
    """Format a number with its sign.

    Parameters
    ----------
    x : float
        The number.

    Returns
    -------
    str
        The number; "+" before positive ones.
    """
    return f"+{figure(x)}" if x > 0 else figure(x)
