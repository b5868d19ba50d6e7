"""Estimate the metrics of a full ranking from ranks among sampled candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace as changed
from functools import cache
from math import nan
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_choice
from evenrank.errors import EvenrankError, InputError, Option
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.chance import NullDistribution
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.tally import Histogram
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import SAMPLED, Evaluation, evaluate
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import Groups, average_name, tie_rule
from evenrank.stats._intervals import check_level
from evenrank.stats._join import check_ranks
from evenrank.stats._sample import Sample
from evenrank.stats._terms import smooth
from evenrank.stats._units import Unit, names_of, unit_name
from evenrank.stats.sampled._means import Means, means
from evenrank.stats.sampled._result import Estimated, Estimator, FullEstimate, Vary
from evenrank.stats.sampled._targets import ROW, Targets, pooled, with_replacement

ESTIMATED = "those of the full ranking are not known"
DEFAULT = ("mrr", "hits@1", "hits@10", "mr", "index(mrr)", "index(hits@10)", "index(mr)")


class _Way(NamedTuple):
    """The options of an estimate."""

    estimator: Estimator
    gamma: float
    vary: Vary
    level: float


def estimate_full(
    ranks: Ranks | Groups | Sequence[Ranks | Groups],
    *metrics: Metrics,
    full: ArrayLike | None = None,
    estimator: Estimator = "em",
    gamma: float = 0.01,
    vary: Vary = "candidates",
    level: float = 0.95,
    unit: Unit = None,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
    replace: bool | None = None,
) -> FullEstimate:
    """Estimate the metrics of a full ranking from ranks among sampled candidates.

    Parameters
    ----------
    ranks : Ranks, Groups, or list of these
        Ranks among sampled candidates, as of ``graph.task(candidates=100)``; grouped ranks
        (``ranks.by("side")``) are estimated group by group. A list holds several samples of the same
        task, with different seeds; they are averaged, target by target.
    *metrics : str, Metric or list of these
        The metrics; by default a table of common ones.
    full : array_like of int, optional
        The full number of candidates, the target included: one number, or one per target. Not needed if
        the ranks were made by `evenrank.rank`.
    estimator : {"em", "bv", "cls"}, default "em"
        The point estimate between bounds: "em" fits a distribution of ranks by maximum likelihood (Jin
        et al. 2021); "bv" minimises squared bias plus `gamma` times variance, and "cls" is constrained
        least squares (both Krichene and Rendle 2020).
    gamma : float, default 0.01
        The weight of the variance, for "bv".
    vary : {"candidates", "targets"}, default "candidates"
        What is considered random: the sampled candidates, for statements about the full ranking of these
        targets; or the targets as well.
    level : float, default 0.95
        The confidence level.
    unit : str or sequence of str, optional
        The resampling unit of targets, as in `intervals`.
    ties : str, optional
        The tie-breaking rule; by default that of the protocol.
    average : str or sequence of str, default "micro"
        "micro", or a macro average: "query", or key columns such as "relation".
    replace : bool, optional
        Whether candidates were drawn with replacement; by default as the protocol says, and without
        replacement if it does not say.

    Returns
    -------
    FullEstimate
        An estimate per metric, with a confidence interval or bounds.

    Raises
    ------
    InputError
        If the ranks are not among sampled candidates, the full number of candidates is unknown, or
        several samples are not of the same task.

    Notes
    -----
    Candidates must have been sampled uniformly; targets that share sampled candidates have the same
    `draw` key.

    Mean ranks have an unbiased estimate and a confidence interval. MRR, hits@k and other metrics have no
    unbiased estimate; they get bounds, which hold for every distribution of ranks, and a point estimate
    between them. Adjusted metrics use the exact chance level of the full numbers of candidates.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rank = np.minimum(np.floor(1 / (1 - rng.random(2000)) ** 1.5), 5000).astype(int)
    >>> better = rng.hypergeometric(rank - 1, 5000 - rank, 200)
    >>> estimate_full(Ranks(better, 0, 201), "mrr", "mr", full=5000)
    metric  sampled  estimate     low    high      kind
    ------  -------  --------  ------  ------  --------
    ...
    """
    check_choice("estimator", estimator, get_args(Estimator))
    check_choice("vary", vary, get_args(Vary))
    _check_gamma(gamma)
    check_level(level)
    names_of("average", average)
    several = _listed(ranks)
    names, whole = _names(several), list(map(_whole, several))
    drawn_again = with_replacement(whole, replace)
    together = pooled(whole, full, drawn_again)
    ties, unit = tie_rule([together], ties), unit_name([together], unit)
    protocol = changed(together.protocol, average=average_name(average))
    evaluation = _sampled(several, metrics, ties, average, protocol)
    group = np.tile(whole[0].units(names), len(whole)) if names else np.zeros(len(together), np.int64)
    split = (
        Sample(together[group == i], ties, average, ROW if unit == "target" else unit)
        for i in range(int(group.max()) + 1)
    )
    data = [Targets(sample, ties, len(several), drawn_again) for sample in split if sample.units]
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
        drawn_again,
        _counted([notes for _, notes in made]),
    )


def _listed(ranks: Any) -> list[Ranks | Groups]:
    """Turn one sample or several into a list."""
    several = list(ranks) if isinstance(ranks, list | tuple) else [ranks]
    for one in several:
        check_ranks("every sample", one, do="e.g. er.estimate_full(ranks)", kinds=(Ranks, Groups))
    return several


def _whole(given: Ranks | Groups) -> Ranks:
    """Get the ranks of groups; those of rankings raise an error."""
    ranks = given.ranks if isinstance(given, Groups) else given
    check_ranks("every sample", ranks)
    assert isinstance(ranks, Ranks)
    return ranks


def _names(several: Sequence[Ranks | Groups]) -> tuple[str, ...]:
    """Get the keys by which all samples are grouped."""
    names = {one.names if isinstance(one, Groups) else () for one in several}
    if len(names) > 1:
        got = " and ".join(",".join(keys) or "no key" for keys in sorted(names))
        raise InputError("samples to be pooled are grouped by different keys", got=got)
    return names.pop() if names else ()


def _sampled(
    several: Sequence[Ranks | Groups],
    metrics: Sequence[Metrics],
    ties: Ties,
    average: str | Sequence[str],
    protocol: Protocol,
) -> Evaluation[Any]:
    """Evaluate each sample as it is, and average the values.

    Metrics that are undefined among so few candidates may be defined among all: here it is no error.
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
            independent=ESTIMATED,
        )
        for one in several
    ]
    notes = dict.fromkeys(note for made in each for note in made.notes if note != SAMPLED)
    return changed(
        each[0],
        values_by_group=np.mean([made.values_by_group for made in each], axis=0),
        label_names=names,
        tie_rates=tuple(np.mean([made.tie_rates for made in each], axis=0).tolist()),
        optimistic=None,
        pessimistic=None,
        notes=tuple(f"{note}{', among sampled candidates' * note.startswith('–')}" for note in notes),
    )


def _check_gamma(gamma: Any) -> None:
    if not isinstance(gamma, int | float | np.floating) or not 0 < gamma <= 1:
        raise InputError("gamma must be above 0 and at most 1", got=repr(gamma), do="e.g. 0.01")


def _row(
    data: Targets,
    expressions: Sequence[Expression],
    sampled: Sequence[float],
    unit: str,
    way: _Way,
    alone: bool,
) -> tuple[tuple[Estimated, ...], list[str]]:
    """Estimate the metrics of a group, with notes; raise errors only if there is no other group."""
    mean_of = cache(lambda metric: means(data, metric, *way))
    cells, notes = [], list[str]()
    for expression, value in zip(expressions, sampled, strict=True):
        metric = smooth(expression, data.sample.ranks)
        try:
            if way.vary == "targets" and data.sample.units < 2:
                raise InputError(
                    f"a single {unit} has no variance", do=["use ", Option("vary", "candidates")]
                )
            mean = mean_of(metric)
            found = _cell(data, expression, value, mean)
            notes += mean.notes
        except EvenrankError as error:
            if alone:
                raise
            found = Estimated(value, nan, nan, nan, "unknown", nan)
            notes.append(f"– {error.what}")
        if found.value < found.low or found.value > found.high:
            notes.append(
                f"{expression}: the estimate is outside its bounds, so that its assumption does not hold"
            )
        cells.append(found)
    return tuple(cells), list(dict.fromkeys(notes))


def _cell(data: Targets, expression: Expression, sampled: float, mean: Means) -> Estimated:
    """Compute a metric from the mean of its terms, adjusted for the chance level of the full ranking."""
    adjust: Callable[[float], float] = float
    if isinstance(expression, Adjusted):
        once = (
            len(data.full) // data.samples
        )  # the chance level counts a target once, however often it is sampled
        sizes = Histogram.of(candidates=data.full[:once], weight=data.weight[:once])
        metric = data.sample.metric(expression)
        assert not isinstance(metric, QueryMetric)
        adjust = expression.map(NullDistribution(metric, sizes))
    value, *ends = (adjust(float(mean.terms.value(m))) for m in (mean.value, mean.low, mean.high))
    low, high = sorted(ends)
    slope = (high - low) / (mean.high - mean.low) if mean.high > mean.low else 0.0
    return Estimated(sampled, value, low, high, mean.kind, slope * mean.error)


def _counted(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """List each note once; with several groups, count the groups."""
    times = Counter(note for notes in rows for note in dict.fromkeys(notes))
    return tuple(
        f"{note} (in {n} of {len(rows)} groups)" if len(rows) > 1 else note for note, n in times.items()
    )


def _ends(columns: Iterable[Ints]) -> tuple[int, int]:
    """Get the smallest and the largest number in some columns."""
    ends = [(int(column.min()), int(column.max())) for column in columns]
    return min(least for least, _ in ends), max(most for _, most in ends)
