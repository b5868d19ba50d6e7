"""Estimates of the full ranking's metrics from ranks among sampled candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import get_args

from numpy.typing import ArrayLike

from evenrank.adjusted import Adjusted, Expression
from evenrank.compare._intervals import check_level
from evenrank.compare._sample import By, Sample, smooth, unit_name
from evenrank.errors import InputError
from evenrank.evaluation import SAMPLED, Evaluation, evaluate
from evenrank.law import Null
from evenrank.metric import Ties
from evenrank.ranks import Groups, Ranks, average_name, tie_rule
from evenrank.sampled._means import Means, means
from evenrank.sampled._result import Estimate, Estimated, Estimator, Vary
from evenrank.sampled._targets import ROW, Targets, pooled
from evenrank.tally import Histogram

DEFAULT = ("mrr", "hits@1", "hits@10", "mr", "index(mrr)", "index(hits@10)", "index(mr)")


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

    >>> import numpy as np
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
    if isinstance(ranks, Groups):
        raise InputError(
            "estimate each group by itself",
            got=f"ranks split by {', '.join(ranks.names)}",
            do="e.g. {label: estimate(part) for label, part in groups}",
        )
    several = [ranks] if isinstance(ranks, Ranks) else list(ranks)
    together = pooled(several, full)
    ties, unit = tie_rule([together], ties), unit_name([together], by)
    sample = Sample(together, ties, average, ROW if unit == "target" else unit)
    protocol = {**together.protocol, "average": average_name(average)}
    evaluation = _sampled(several, metrics, ties, average, protocol)
    if vary == "targets" and sample.units < 2:
        raise InputError(f"one {unit} alone has no spread", do="vary='candidates' (--vary candidates)")
    data = Targets(sample, ties, len(several))
    mean_of = cache(lambda metric: means(data, metric, estimator, gamma, vary, level))
    values = zip(evaluation.expressions, evaluation.values[0].tolist(), strict=True)
    cells = [_cell(data, e, sampled, mean_of(smooth(e))) for e, sampled in values]
    return Estimate(
        evaluation,
        tuple(cells),
        estimator,
        vary,
        level,
        unit,
        (int(data.drawn.min()), int(data.drawn.max())),
        (int(data.full.min()), int(data.full.max())),
        len(several),
        tuple(_outside(evaluation.expressions, cells)),
    )


def _sampled(
    several: Sequence[Ranks],
    metrics: Sequence[str | Expression],
    ties: Ties,
    average: str | Sequence[str],
    protocol: dict[str, str],
) -> Evaluation:
    """Evaluate the ranks as they are, each sample by itself, and give the mean of these values.

    What is undefined among so few candidates may well be defined among all: here it is no error.
    """
    labels = [(str(i),) for i in range(len(several))]
    tallies = [ranks.tally(average) for ranks in several]
    each = evaluate(
        tallies,
        metrics,
        default=DEFAULT,
        ties=ties,
        labels=labels,
        label_names=("sample",),
        protocol=protocol,
    )
    return replace(
        each,
        values=each.values.mean(axis=0, keepdims=True),
        labels=((),),
        label_names=(),
        counts=each.counts[:1],
        tie_rates=(sum(each.tie_rates) / len(several),),
        optimistic=None,
        pessimistic=None,
        notes=tuple(f"{note}, among the sampled" for note in each.notes if note != SAMPLED),
    )


def _check(estimator: str, vary: str, gamma: float) -> None:
    if estimator not in get_args(Estimator):
        allowed = ", ".join(get_args(Estimator))
        raise InputError("unknown estimator", got=repr(estimator), allowed=allowed)
    if vary not in get_args(Vary):
        raise InputError("unknown vary", got=repr(vary), allowed=", ".join(get_args(Vary)))
    if not 0 < gamma <= 1:
        raise InputError("gamma lies above 0 and is at most 1", got=gamma, do="e.g. 0.01")


def _cell(data: Targets, expression: Expression, sampled: float, mean: Means) -> Estimated:
    """Make a metric, adjusted by the chance of the full sizes where asked, of the mean of its terms."""
    adjust: Callable[[float], float] = float
    if isinstance(expression, Adjusted):
        once = len(data.full) // data.samples  # chance ranks a target once, however often it is sampled
        sizes = Histogram.of(candidates=data.full[:once], weight=data.weight[:once])
        adjust = expression.map(Null(expression.metric, sizes))
    value, *ends = (adjust(float(mean.terms.value(m))) for m in (mean.value, mean.low, mean.high))
    low, high = sorted(ends)
    slope = (high - low) / (mean.high - mean.low) if mean.high > mean.low else 0.0
    return Estimated(sampled, value, low, high, mean.kind, slope * mean.error)


def _outside(expressions: Sequence[Expression], cells: Sequence[Estimated]) -> Iterator[str]:
    """Say where a guess is refuted by its bounds."""
    for expression, found in zip(expressions, cells, strict=True):
        if not found.low <= found.value <= found.high:
            yield f"{expression}: the estimate is outside its bounds, so what it supposes is not so"
