"""Estimates of the full ranking's metrics: a value for each, and an interval or bounds around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import hypot, inf, isnan, nan
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank.adjusted import Adjusted, Expression
from evenrank.compare._intervals import check_level, percent, plural
from evenrank.compare._sample import By, Sample, Terms, smooth, standard_error, unit_name
from evenrank.errors import InputError
from evenrank.evaluation import Evaluation, arrow, cell, evaluate
from evenrank.grammar import parse
from evenrank.law import Null
from evenrank.metric import Metric, Ties
from evenrank.ranks import Ranks, average_name, tie_rule
from evenrank.sampled._bounds import envelope
from evenrank.sampled._corrections import (
    bias_variance,
    constrained,
    plain,
    posterior,
    unbiased,
)
from evenrank.sampled._design import Design
from evenrank.sampled._targets import ROW, Targets, pooled
from evenrank.sampled._variance import of_mean_rank, over_draws, step_of_mean_rank, unseen
from evenrank.sums import Floats, Function
from evenrank.table import Shown, Table
from evenrank.tally import Histogram

Estimator = Literal["em", "bv", "cls"]
Vary = Literal["candidates", "targets"]
Kind = Literal["interval", "bounds"]
DEFAULT = ("mrr", "hits@1", "hits@10", "mr", "index(mrr)", "index(hits@10)", "index(mr)")
WORDS = {
    "em": "ranks as a fit by expectation and maximisation has them",
    "bv": "all ranks equally likely, least squared bias and variance",
    "cls": "all ranks equally likely, least squares within the range",
}


class Estimated(NamedTuple):
    """A metric among the sampled candidates, and what is known of it among all of them.

    Of kind "interval", `value` has no bias and `low` to `high` holds the truth at the level asked for.
    Of kind "bounds" they hold it at that level or more, and `value` is a guess that supposes how ranks
    are distributed.
    """

    sampled: float
    value: float
    low: float
    high: float
    kind: Kind
    standard_error: float


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Shown):
    """Metrics of a full ranking, estimated from ranks among sampled candidates; prints as a table.

    Index it with a metric: `result["mrr"]` is an `Estimated`.
    """

    evaluation: Evaluation
    cells: tuple[Estimated, ...]
    estimator: Estimator
    vary: Vary
    level: float
    unit: str
    drawn: tuple[int, int]
    full: tuple[int, int]
    samples: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, metric: str | Expression) -> Estimated:
        """Give what is known of a metric."""
        self.evaluation[metric]  # says what is there, if this is not
        return self.cells[self.evaluation.expressions.index(parse(metric))]

    @property
    def protocol(self) -> dict[str, str]:
        """How the ranks and the estimates were made."""
        own = {"estimate": self.estimator, "level": percent(self.level), "varied": self.vary}
        return {**self.evaluation.protocol, **own}

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per metric."""
        return [
            {"metric": str(expression), **found._asdict()}
            for expression, found in zip(self.evaluation.expressions, self.cells, strict=True)
        ]

    def content(self) -> dict[str, Any]:
        """Give everything there is to say, protocol and notes included."""
        return {
            "protocol": self.protocol,
            "level": self.level,
            "drawn": list(self.drawn),
            "full": list(self.full),
            "samples": self.samples,
            "rows": self.rows(),
            "notes": [*self._words(), *self.notes],
        }

    def tables(self) -> list[Table]:
        """Lay it out, a metric per line."""
        rows = [
            [
                f"{expression} {arrow(expression)}".rstrip(),
                *(cell(expression, x) for x in (found.sampled, found.value, found.low, found.high)),
                found.kind,
            ]
            for expression, found in zip(self.evaluation.expressions, self.cells, strict=True)
        ]
        header = ["metric", "sampled", "estimate", "low", "high", "kind"]
        return [Table(header, rows, [*self._words(), *self.notes, *self.evaluation.footer()])]

    def _words(self) -> list[str]:
        """Say what was drawn, and what the kinds promise."""
        of = "these targets" if self.vary == "candidates" else f"other {plural(self.unit, 2)}, too"
        kinds = {found.kind for found in self.cells}
        others = tuple(n - 1 for n in self.full)
        times = f", {self.samples} times" if self.samples > 1 else ""
        words = [f"{_span(self.drawn)} of {_span(others)} other candidates drawn{times}"]
        if "interval" in kinds:
            words.append(f"interval: no bias; holds the full ranking of {of}, at {percent(self.level)}")
        if "bounds" in kinds:
            words += [
                f"bounds: hold it at {percent(self.level)} or more, however ranks are distributed;",
                f"  the estimate within supposes {WORDS[self.estimator]}",
            ]
        return words


def _span(ends: tuple[int, ...]) -> str:
    return " to ".join(dict.fromkeys(f"{end:,}" for end in ends))


def estimate(
    ranks: Ranks | Sequence[Ranks],
    *metrics: str | Expression,
    full: ArrayLike | None = None,
    estimator: Estimator = "em",
    gamma: float = 0.01,
    vary: Vary = "candidates",
    level: float = 0.95,
    by: By = None,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> Estimate:
    """Estimate the metrics of a full ranking from ranks among sampled candidates, and say how surely.

    `ranks` are those of a task with sampled candidates (`graph.task(candidates=100)`), which know how
    many there are in all; of other ranks say it with `full`, the target counted: one number, or one per
    target. The candidates must have been drawn from all others alike, each at most once; targets that
    share a draw have the same `draw` key. Several samples of one task (other seeds) may be given as a
    list; they are averaged, target by target.

    Mean ranks have an *interval* around an estimate without bias. MRR, hits@k and others have no such
    estimate: they get *bounds*, which hold for every distribution of ranks, and a guess between them by
    `estimator`: "em" (the fit of a distribution by maximum likelihood, Jin et al. 2021), "bv" or "cls"
    (Krichene and Rendle 2020: bias against `gamma` times variance, or constrained least squares).
    Adjusted metrics use the exact chance level of the full sizes.

    `vary="candidates"` is about the full ranking of these very targets; `"targets"` about others like
    them as well, drawn by units as in `intervals`.

    >>> rng = np.random.default_rng(0)
    >>> rank = np.minimum(np.floor(1 / (1 - rng.random(2000)) ** 1.5), 5000).astype(int)
    >>> better = rng.hypergeometric(rank - 1, 5000 - rank, 200)
    >>> estimate(Ranks(better, 0, 201), "mrr", "mr", full=5000)
    metric  sampled  estimate     low    high      kind
    ------  -------  --------  ------  ------  --------
    ...
    """
    _check(estimator, vary, gamma)
    check_level(level)
    together = pooled([ranks] if isinstance(ranks, Ranks) else list(ranks), full)
    ties, unit = tie_rule([together], ties), unit_name([together], by)
    sample = Sample(together, ties, average, ROW if unit == "target" else unit)
    evaluation = evaluate(
        [sample.tally],
        metrics,
        default=DEFAULT,
        ties=ties,
        protocol={**together.protocol, "average": average_name(average)},
    )
    if vary == "targets" and sample.units < 2:
        raise InputError(f"one {unit} alone has no spread", do="vary='candidates' (--vary candidates)")
    data = Targets(sample, ties)
    means = cache(lambda metric: _means(data, metric, estimator, gamma, vary, level))
    values = zip(evaluation.expressions, evaluation.values[0].tolist(), strict=True)
    cells = [_cell(data, e, sampled, *means(smooth(e))) for e, sampled in values]
    return Estimate(
        evaluation,
        tuple(cells),
        estimator,
        vary,
        level,
        unit,
        (int(data.drawn.min()), int(data.drawn.max())),
        (int(data.full.min()), int(data.full.max())),
        1 if isinstance(ranks, Ranks) else len(ranks),
        tuple(_outside(evaluation.expressions, cells)),
    )


def _check(estimator: str, vary: str, gamma: float) -> None:
    if estimator not in get_args(Estimator):
        allowed = ", ".join(get_args(Estimator))
        raise InputError("unknown estimator", got=repr(estimator), allowed=allowed)
    if vary not in get_args(Vary):
        raise InputError("unknown vary", got=repr(vary), allowed=", ".join(get_args(Vary)))
    if not 0 < gamma <= 1:
        raise InputError("gamma lies above 0 and is at most 1", got=gamma, do="e.g. 0.01")


# From counts to metrics ---------------------------------------------------------------------------


class _Means(NamedTuple):
    """The mean of a metric's terms: a value, the ends of an interval or bounds, and which it is."""

    terms: Terms
    value: float
    low: float
    high: float
    kind: Kind
    error: float


def _means(
    data: Targets, metric: Metric, estimator: Estimator, gamma: float, vary: Vary, level: float
) -> _Means:
    from scipy.special import stdtrit

    top = int(data.full.max())
    x, reference = metric.term(1.0, float(top))
    with np.errstate(divide="ignore"):  # f = 0 under p <= 0 is refused
        ends = x(np.array([1.0, float(top)]))
    if not np.isfinite(ends).all():
        raise InputError(f"{metric} is infinite for some ranks, or its inverse is")
    least, most = float(ends.min()), float(ends.max())
    unit = data.sample.unit if vary == "targets" else data.draw
    z = float(stdtrit(max(int(unit.max()), 1), 0.5 + level / 2))
    rare = unseen(data.weight, unit, level)
    exact = [plain(x, d) if d.exhaustive else unbiased(metric, d) for d in data.designs]
    terms = Terms(metric, np.zeros(0), reference)
    found = [table for table in exact if table is not None]
    if len(found) == len(exact):
        mean, error, low, high = _interval(data, metric, found, vary, z)
        if vary == "targets" and error == 0:
            low, high = mean - rare * (mean - least), mean + rare * (most - mean)
        value = mean
    else:
        guess = [
            _guess(x, design, data, estimator, gamma) if table is None else table
            for design, table in zip(data.designs, exact, strict=True)
        ]
        value, error = data.sample.mean(data.apply(guess)), nan
        low, high = _bounds(data, x, exact, vary, z, rare)
    value, low, high = (min(max(end, least), most) for end in (value, low, high))
    return _Means(terms, value, low, high, "bounds" if isnan(error) else "interval", error)


def _guess(x: Function, design: Design, data: Targets, estimator: Estimator, gamma: float) -> Floats:
    if estimator == "em":
        return posterior(x, design, data.fit(None))
    if estimator == "bv":
        return bias_variance(x, design, data.ranks, gamma)
    return constrained(x, design, data.ranks)


def _interval(
    data: Targets, metric: Metric, tables: Sequence[Floats], vary: Vary, z: float
) -> tuple[float, float, float, float]:
    """Give an estimate without bias, its standard error, and its interval.

    Over candidates the interval of a mean rank is that of a Poisson variable in steps of `a`, the means
    whose distance from the estimate is z of their own standard errors; with many better candidates it is
    the usual one.
    """
    values = data.apply(tables)
    mean, a = data.sample.mean(values), 0.0
    error = standard_error(data.sample.pull(values)) if vary == "targets" else None
    if error is None and metric.p == 1:
        error = of_mean_rank(data.designs, data.weight, data.draw)
        a = step_of_mean_rank(data.designs, data.weight, data.draw)
    if error is None:
        error = over_draws(data.weight, data.spread(tables), data.draw)
    centre, reach = mean + a * z**2 / 2.0, hypot(z * error, a * z**2 / 2.0)
    return mean, error, centre - reach, centre + reach


def _bounds(
    data: Targets, x: Function, exact: Sequence[Floats | None], vary: Vary, z: float, rare: float
) -> tuple[float, float]:
    """Give the mean of what is never too large, less its margin, and of what is never too small.

    The tables applied to one half of the draws are chosen on the other half. To z standard errors the
    margin adds what may have been too rare to be seen: the worst of the table, for the share of that.
    """
    values, variances = np.zeros((2, len(data.weight))), np.zeros((2, len(data.weight)))
    worst = [inf, -inf]
    for fold in (0, 1):
        mine, fit = data.draw % 2 == fold, data.fit(1 - fold)
        pairs = [
            (table, table)
            if table is not None
            else envelope(x, design, fit.counts(design), float(len(data.weight)))
            for design, table in zip(data.designs, exact, strict=True)
        ]
        for side, extreme in enumerate((min, max)):
            tables = [pair[side] for pair in pairs]
            values[side, mine] = data.apply(tables)[mine]
            variances[side, mine] = data.spread(tables)[mine]
            ends = (float(extreme(table.min(), table.max())) for table in tables)
            worst[side] = extreme(worst[side], *ends)
    low, high = (
        mean + sign * z * error + rare * (worst[side] - mean)
        for side, sign in enumerate((-1, 1))
        for mean, error in [_mean_and_error(data, values[side], variances[side], vary)]
    )
    return low, high


def _mean_and_error(data: Targets, values: Floats, variances: Floats, vary: Vary) -> tuple[float, float]:
    over = standard_error(data.sample.pull(values)) if vary == "targets" else 0.0
    return data.sample.mean(values), over or over_draws(data.weight, variances, data.draw)


def _cell(
    data: Targets,
    expression: Expression,
    sampled: float,
    terms: Terms,
    value: float,
    low: float,
    high: float,
    kind: Kind,
    error: float,
) -> Estimated:
    """Make a metric, adjusted by the chance of the full sizes where asked, of the mean of its terms."""
    adjust: Callable[[float], float] = float
    if isinstance(expression, Adjusted):
        sizes = Histogram.of(candidates=data.full, weight=data.weight)
        adjust = expression.map(Null(expression.metric, sizes))

    def made(mean: float) -> float:
        return adjust(float(terms.value(mean)))

    first, second = sorted((made(low), made(high)))
    slope = abs(second - first) / (high - low) if high > low else 0.0
    return Estimated(sampled, made(value), first, second, kind, slope * error)


def _outside(expressions: Sequence[Expression], cells: Sequence[Estimated]) -> Iterator[str]:
    """Say where a guess is refuted by its bounds."""
    for expression, found in zip(expressions, cells, strict=True):
        if not found.low <= found.value <= found.high:
            yield f"{expression}: the estimate is outside its bounds, so what it supposes is not so"
