"""Estimates of the full ranking's metrics from ranks among sampled candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import nan
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Ints
from evenrank.errors import EvenrankError, InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.chance import NullDistribution
from evenrank.metrics.tally import Histogram
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import SAMPLED, Evaluation, evaluate
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Groups, Ranks, average_name, tie_rule
from evenrank.stats._intervals import check_level
from evenrank.stats._sample import By, Sample, smooth, unit_name
from evenrank.stats.sampled._means import Means, means
from evenrank.stats.sampled._result import Estimated, Estimator, FullEstimate, Vary
from evenrank.stats.sampled._targets import ROW, Targets, pooled

DEFAULT = ("mrr", "hits@1", "hits@10", "mr", "index(mrr)", "index(hits@10)", "index(mr)")


class _Way(NamedTuple):
    """How to estimate: by which guess, over what might have come out otherwise, and how surely."""

    estimator: Estimator
    gamma: float
    vary: Vary
    level: float


def estimate_full(
    ranks: Ranks | Groups | Sequence[Ranks | Groups],
    *metrics: str | Expression,
    full: ArrayLike | None = None,
    estimator: Estimator = "em",
    gamma: float = 0.01,
    vary: Vary = "candidates",
    level: float = 0.95,
    by: By = None,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> FullEstimate:
    """Estimate the metrics of a full ranking from ranks among sampled candidates, and say how surely.

    `ranks` are those of a task with sampled candidates (`graph.task(candidates=100)`), which know how
    many there are in all; of other ranks say it with `full`, the target counted: one number, or one per
    target. The candidates must have been drawn from all others alike, each at most once; targets that
    share a draw have the same `draw` key. Several samples of one task (other seeds) may be given as a
    list; they are averaged, target by target. Of ranks that are split (`ranks.by("side")`) each group is
    estimated by itself; what cannot be told of a group is NaN, with a note.

    Mean ranks have an *interval* around an estimate without bias. MRR, hits@k and others have no such
    estimate: they get *bounds*, which hold for every distribution of ranks, and a guess between them by
    `estimator`: "em" (the fit of a distribution by maximum likelihood, Jin et al. 2021), "bv" or "cls"
    (Krichene and Rendle 2020: bias against `gamma` times variance, or constrained least squares).
    Adjusted metrics use the exact chance level of the full sizes.

    `vary="candidates"` is about the full ranking of these very targets; `"targets"` about others like
    them as well, drawn by units as in `intervals`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rank = np.minimum(np.floor(1 / (1 - rng.random(2000)) ** 1.5), 5000).astype(int)
    >>> better = rng.hypergeometric(rank - 1, 5000 - rank, 200)
    >>> estimate_full(Ranks(better, 0, 201), "mrr", "mr", full=5000)
    metric  sampled  estimate     low    high      kind
    ------  -------  --------  ------  ------  --------
    ...
    """
    _check(estimator, vary, gamma)
    check_level(level)
    several = [ranks] if isinstance(ranks, Ranks | Groups) else list(ranks)
    names, whole = _names(several), [one.ranks if isinstance(one, Groups) else one for one in several]
    together = pooled(whole, full)
    ties, unit = tie_rule([together], ties), unit_name([together], by)
    protocol = replace(together.protocol, average=average_name(average))
    evaluation = _sampled(several, metrics, ties, average, protocol)
    group = np.tile(whole[0].units(names), len(whole)) if names else np.zeros(len(together), np.int64)
    split = (
        Sample(together[group == i], ties, average, ROW if unit == "target" else unit)
        for i in range(int(group.max()) + 1)
    )
    data = [Targets(sample, ties, len(several)) for sample in split if sample.units]
    way = _Way(estimator, gamma, vary, level)
    made = [
        _row(targets, evaluation.expressions, values, unit, way, alone=not names)
        for targets, values in zip(data, evaluation.values_by_group.tolist(), strict=True)
    ]
    return FullEstimate(
        evaluation,
        tuple(cells for cells, _ in made),
        estimator,
        vary,
        level,
        unit,
        _ends(targets.drawn for targets in data),
        _ends(targets.full for targets in data),
        len(several),
        _counted([notes for _, notes in made]),
    )


def _names(several: Sequence[Ranks | Groups]) -> tuple[str, ...]:
    """Give the keys by which samples are split, all of them alike; none, if they are not."""
    names = {one.names if isinstance(one, Groups) else () for one in several}
    if len(names) > 1:
        got = " and ".join(",".join(keys) or "no key" for keys in sorted(names))
        raise InputError("samples to be pooled are split by different keys", got=got)
    return names.pop() if names else ()


def _sampled(
    several: Sequence[Ranks | Groups],
    metrics: Sequence[str | Expression],
    ties: Ties,
    average: str | Sequence[str],
    protocol: Protocol,
) -> Evaluation[Any]:
    """Evaluate the ranks as they are, each sample by itself, and give the mean of these values.

    What is undefined among so few candidates may well be defined among all: here it is no error.
    """
    first = several[0]
    names, labels = (first.names, first.labels) if isinstance(first, Groups) else ((), ((),))
    each = [
        evaluate(
            [part.tally(average) for part in ([one] if isinstance(one, Ranks) else dict(one).values())],
            metrics,
            default=DEFAULT,
            ties=ties,
            labels=labels,
            label_names=names or ("",),
            protocol=protocol,
        )
        for one in several
    ]
    notes = dict.fromkeys(note for made in each for note in made.notes if note != SAMPLED)
    return replace(
        each[0],
        values_by_group=np.mean([made.values_by_group for made in each], axis=0),
        label_names=names,
        tie_rates=tuple(np.mean([made.tie_rates for made in each], axis=0).tolist()),
        optimistic=None,
        pessimistic=None,
        notes=tuple(f"{note}{', among the sampled' * note.startswith('–')}" for note in notes),
    )


def _check(estimator: str, vary: str, gamma: float) -> None:
    if estimator not in get_args(Estimator):
        allowed = ", ".join(get_args(Estimator))
        raise InputError("unknown estimator", got=repr(estimator), allowed=allowed)
    if vary not in get_args(Vary):
        raise InputError("unknown vary", got=repr(vary), allowed=", ".join(get_args(Vary)))
    if not 0 < gamma <= 1:
        raise InputError("gamma lies above 0 and is at most 1", got=gamma, do="e.g. 0.01")


def _row(
    data: Targets,
    expressions: Sequence[Expression],
    sampled: Sequence[float],
    unit: str,
    way: _Way,
    alone: bool,
) -> tuple[tuple[Estimated, ...], list[str]]:
    """Estimate the metrics of a group, with notes; what cannot be told is an error if it is alone."""
    mean_of = cache(lambda metric: means(data, metric, *way))
    cells, notes = [], []
    for expression, value in zip(expressions, sampled, strict=True):
        metric = smooth(expression)
        try:
            if way.vary == "targets" and data.sample.units < 2:
                what, do = f"one {unit} alone has no spread", "vary='candidates' (--vary candidates)"
                raise InputError(what, do=do)
            found = _cell(data, expression, value, mean_of(metric))
        except EvenrankError as error:
            if alone:
                raise
            found = Estimated(value, nan, nan, nan, "unknown", nan)
            notes.append(f"– {error.what}")
        if found.value < found.low or found.value > found.high:
            notes.append(
                f"{expression}: the estimate is outside its bounds, so what it supposes is not so"
            )
        cells.append(found)
    return tuple(cells), notes


def _cell(data: Targets, expression: Expression, sampled: float, mean: Means) -> Estimated:
    """Make a metric, adjusted by the chance of the full sizes where asked, of the mean of its terms."""
    adjust: Callable[[float], float] = float
    if isinstance(expression, Adjusted):
        once = len(data.full) // data.samples  # chance ranks a target once, however often it is sampled
        sizes = Histogram.of(candidates=data.full[:once], weight=data.weight[:once])
        adjust = expression.map(NullDistribution(expression.metric, sizes))
    value, *ends = (adjust(float(mean.terms.value(m))) for m in (mean.value, mean.low, mean.high))
    low, high = sorted(ends)
    slope = (high - low) / (mean.high - mean.low) if mean.high > mean.low else 0.0
    return Estimated(sampled, value, low, high, mean.kind, slope * mean.error)


def _counted(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Give each note once, and of several groups, in how many."""
    times = Counter(note for notes in rows for note in dict.fromkeys(notes))
    return tuple(
        f"{note} (in {n} of {len(rows)} groups)" if len(rows) > 1 else note for note, n in times.items()
    )


def _ends(columns: Iterable[Ints]) -> tuple[int, int]:
    """Give the least and the greatest number in some columns."""
    ends = [(int(column.min()), int(column.max())) for column in columns]
    return min(least for least, _ in ends), max(most for _, most in ends)
