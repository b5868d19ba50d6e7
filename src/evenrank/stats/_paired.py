"""Models side by side on the same targets: differences, intervals around them, and paired tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan, nan
from typing import Any, NamedTuple, get_args

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import parse
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import arrow
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks, tie_rule
from evenrank.stats import _significance
from evenrank.stats._bounds import possible
from evenrank.stats._intervals import (
    Intervals,
    alone,
    check_draws,
    check_level,
    intervals,
    percent,
    plural,
)
from evenrank.stats._join import On, check_protocols, check_ranks, differing, joined, spans
from evenrank.stats._sample import ROUNDING, By, Error, Sample, Terms, smooth, unit_name
from evenrank.stats._significance import CORRECTIONS, Correction, Test

DEFAULT = ("mrr",)
HOW = {
    "permutation": "sign flips",
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
    """Two models under one metric: the difference `first - second`, and how sure it is.

    `effect` is the mean difference of the units in their standard deviations (Cohen's d_z), positive
    where the first is better. Wins, ties and losses of the first are counted over targets. `p` is of
    this test alone, `p_corrected` takes all tests of the comparison into account.
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
        """Name the model that is better at a level of confidence, or None where neither is."""
        if not self.p_corrected <= 1.0 - level or self.effect == 0:
            return None
        return self.first if self.effect > 0 else self.second


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Models compared on the same targets; prints as tables.

    `values` has each model with its intervals, `pairs` one entry per metric and pair of models.
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
        """Give one pair, as it was compared (without a metric, under the first one)."""
        wanted = self.values.evaluation.expressions[0] if metric is None else parse(metric)
        for pair in self.pairs:
            if (pair.metric, pair.first, pair.second) == (wanted, first, second):
                return pair
        allowed = ", ".join(dict.fromkeys(f"{p.first} and {p.second}" for p in self.pairs))
        got = f"{first} and {second} under {wanted}"
        raise InputError("no such pair was compared", got=got, allowed=allowed)

    @property
    def protocol(self) -> Protocol:
        """How the models were ranked and compared."""
        flips = {"samples": str(self.samples), "seed": str(self.seed)}
        own = {"test": self.test, **(flips if self.test == "permutation" else {})}
        return self.values.protocol.updated({**own, "correction": self.correction})

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per metric and pair."""
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
        """Give everything there is to say, protocol and notes included."""
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
        """Lay it out: the models with their intervals, then the pairs."""
        (models,) = self.values.tables()
        header = [
            *("metric", "first", "second", "difference", f"{percent(self.level)} interval"),
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
        return [
            replace(models, notes=()),
            Table(header, rows, [how, *self.notes, str(self.protocol)], 3),
        ]


def compare(
    models: Mapping[str, Ranks] | None = None,
    /,
    *,
    metrics: str | Expression | Sequence[str | Expression] = DEFAULT,
    baseline: str | None = None,
    test: Test = "permutation",
    correction: Correction = "holm",
    level: float = 0.95,
    by: By = None,
    on: On = None,
    mixed: bool = False,
    samples: int = 10_000,
    seed: int = 0,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
    **named: Ranks,
) -> Comparison:
    """Compare models on the same targets, in pairs or against a baseline.

    Targets are joined by head, relation, tail and side (or source and target, query and answer, or the
    keys named by `on`; `on="row"` takes row i of each, if nothing tells them apart). Models that were
    ranked on other data, with another filter or among other candidates are refused, unless `mixed`.

    `test` looks at the differences of the metric's terms (reciprocal ranks, hits, logarithms of ranks):
    "permutation" flips their signs (exact where the flips can be listed, else `samples` of them drawn
    with `seed`) and holds for the metric itself; "t" is Student's paired t; "wilcoxon" asks instead
    whether positive and negative differences balance in rank, and may answer otherwise than the metric.

    `by` is what is flipped and drawn as one: the triple where there are triples, because the head and
    the tail prediction of one triple are not independent, and taking them as such makes p too small;
    else the target. "target", "query" or key columns on request.

    >>> a = Ranks.of([1, 2, 1, 3, 1, 2, 1, 5], candidates=50)
    >>> b = Ranks.of([2, 2, 4, 9, 1, 3, 2, 7], candidates=50)
    >>> result = compare(a=a, b=b, on="row")
    >>> pair = result.pair("a", "b")
    >>> round(pair.difference, 4), pair.wins, pair.ties, pair.losses, pair.p  # 2 of the 2^6 flips
    (0.2..., 6, 2, 0, 0.03125)
    """
    ranked = _named(models, named)
    _check_options(ranked, baseline, test, correction, level, samples, seed)
    asked = [metrics] if isinstance(metrics, str | Expression) else list(metrics)
    expressions = list(dict.fromkeys(map(parse, asked)))
    if not expressions:
        raise InputError("no metric to compare by", do='e.g. metrics="mrr"')
    for expression in expressions:
        smooth(expression)
    notes = () if mixed else check_protocols(ranked)
    ties = tie_rule(ranked.values(), ties)
    ranked = joined(ranked, on, mixed=mixed)
    if mixed:
        notes = tuple(f"mixed: {what}" for what in (*differing(ranked), *_other_candidates(ranked)))
    _check_footing(ranked, expressions)
    unit = unit_name(ranked.values(), by)
    values = intervals(ranked, *expressions, level=level, by=unit, ties=ties, average=average)
    drawn = {name: Sample(ranks, ties, average, unit) for name, ranks in ranked.items()}
    for name, sample in drawn.items():
        if sample.units < 2:
            got = f"{len(ranked[name]):,} target{'s' * (len(ranked[name]) != 1)} of one {unit}"
            raise InputError(f"one {unit} alone cannot tell models apart", got=got)
    couples = (
        list(combinations(ranked, 2))
        if baseline is None
        else [(name, baseline) for name in ranked if name != baseline]
    )
    made: list[Difference] = []
    for expression in expressions:
        each = zip(drawn.items(), values[expression], strict=True)
        views = {name: _view(name, expression, one, interval.value) for (name, one), interval in each}
        made += [_difference(expression, views[a], views[b], level) for a, b in couples]
    p = _p_values(made, test, samples, seed)
    corrected = CORRECTIONS[correction](p)
    pairs = tuple(
        replace(d.pair, p=float(one), p_corrected=float(all_))
        for d, one, all_ in zip(made, p, corrected, strict=True)
    )
    notes = (*notes, *_remarks(ranked, pairs, test), *alone(drawn.values(), unit))
    units = len(made[0].units)
    return Comparison(values, pairs, test, correction, level, unit, units, samples, seed, notes)


class View(NamedTuple):
    """One model under one metric: its value, the terms of its targets, and how its units pull on it."""

    name: str
    sample: Sample
    value: float
    terms: Terms
    pull: Floats


def _view(name: str, expression: Expression, sample: Sample, value: float) -> View:
    terms = sample.terms(smooth(expression))
    if not terms.finite:
        raise InputError(f"{expression} has no finite term for some targets", got=name)
    return View(name, sample, value, terms, sample.pull_on(expression))


class Difference(NamedTuple):
    """A pair before it is tested: the differences of its units, their mean, and its standard error."""

    pair: Pair
    units: Floats
    mean: float
    error: Error


def _difference(expression: Expression, first: View, second: View, level: float) -> Difference:
    """Take two models apart target by target."""
    metric, sample = smooth(expression), first.sample
    x, y = first.terms.at_reference(second.terms.reference), second.terms.x
    d = np.where(np.isclose(x, y, rtol=ROUNDING, atol=0.0), 0.0, x - y)
    better = 1.0 if metric.f.falling == (metric.p >= 0) else -1.0  # whether larger terms are better
    mean, error = sample.mean(d), sample.error(sample.pull(d))
    difference, spread = first.value - second.value, sample.error(first.pull - second.pull)
    varies = spread.size > ROUNDING * sample.error(first.pull).size
    reach, (least, most) = spread.reach(level) if varies else nan, possible(expression, sample)
    pair = Pair(
        expression,
        first.name,
        second.name,
        difference,
        max(difference - reach, least - most),
        min(difference + reach, most - least),
        spread.size,
        effect=better * _significance.standardised(mean, error.size, sample.units),
        wins=int((better * d > 0).sum()),
        ties=int((d == 0).sum()),
        losses=int((better * d < 0).sum()),
        p=1.0,
        p_corrected=1.0,
    )
    return Difference(pair, sample.net(d), mean, error)


def _p_values(made: Sequence[Difference], test: Test, samples: int, seed: int) -> Floats:
    if test == "permutation":
        return _significance.permutation(np.column_stack([d.units for d in made]), samples, seed)
    if test == "t":
        return np.array([_significance.t_test(d.mean, d.error, len(d.units)) for d in made])
    return np.array([_significance.wilcoxon(d.units) for d in made])


def _named(models: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Ranks]:
    """Put the models together, each under its name."""
    twice = [name for name in models or {} if name in named]
    if twice:
        raise InputError("one model twice", got=twice[0], do="give each a name of its own")
    ranked = {str(name): ranks for name, ranks in {**(models or {}), **named}.items()}
    for name, ranks in ranked.items():
        check_ranks(name, ranks, do="e.g. er.compare(a=ranks_a, b=ranks_b)")
    if len(ranked) < 2:
        raise InputError("comparing needs two models or more", got=len(ranked))
    return ranked


def _check_options(
    models: Mapping[str, Ranks],
    baseline: str | None,
    test: str,
    correction: str,
    level: float,
    samples: int,
    seed: int,
) -> None:
    check_level(level)
    check_draws(samples, seed)
    for what, got, allowed in (
        ("test", test, get_args(Test)),
        ("correction", correction, get_args(Correction)),
        ("baseline", baseline, (None, *models)),
    ):
        if got not in allowed:
            raise InputError(f"unknown {what}", got=repr(got), allowed=", ".join(filter(None, allowed)))


def _check_footing(models: Mapping[str, Ranks], expressions: Sequence[Expression]) -> None:
    """Refuse to adjust models that were ranked among different candidates.

    Then each has a chance level of its own, and the difference is no longer one of terms to be flipped.
    """
    adjusted = [e for e in expressions if isinstance(e, Adjusted)]
    if adjusted and any(_other_candidates(models)):
        raise InputError(
            "models ranked among different candidates differ in chance level, too",
            got=adjusted[0],
            do=f"compare them by {adjusted[0].metric}, or rank them among the same candidates",
        )


def _other_candidates(models: Mapping[str, Ranks]) -> Iterator[str]:
    """Say of models among how many candidates each was ranked, where that is not the same."""
    first, *others = (ranks.candidates for ranks in models.values())
    if not all(np.array_equal(first, other) for other in others):
        yield f"candidates differ ({', '.join(spans(ranks) for ranks in models.values())})"


def _remarks(models: Mapping[str, Ranks], pairs: Sequence[Pair], test: Test) -> Iterator[str]:
    """Say what a reader might not expect."""
    for first, second in combinations(models, 2):
        one, other = models[first], models[second]
        if np.array_equal(one.better, other.better) and np.array_equal(one.equal, other.equal):
            yield f"{first} and {second} have the same ranks"
    if any(isnan(pair.low) for pair in pairs):
        yield "– no interval where the differences have no spread"
    if test == "wilcoxon":
        yield "p is of the signs and sizes of differences in order, not of their mean"


def signed(x: float) -> str:
    """Write a number with its sign."""
    return f"+{figure(x)}" if x > 0 else figure(x)
