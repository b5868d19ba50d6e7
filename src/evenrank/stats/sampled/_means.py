"""The mean of a metric's terms in the full ranking, with a confidence interval or bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot, inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np

from evenrank._internal.arrays import Floats, Function
from evenrank.errors import InputError
from evenrank.metrics.metric import RANK, Metric
from evenrank.stats._terms import Terms
from evenrank.stats.sampled._bounds import Envelope, envelope
from evenrank.stats.sampled._corrections import bias_variance, constrained, plain, posterior, unbiased
from evenrank.stats.sampled._design import Design
from evenrank.stats.sampled._result import Estimator, Kind, Vary
from evenrank.stats.sampled._targets import Targets
from evenrank.stats.sampled._variance import (
    of_draws,
    of_mean_rank,
    over_draws,
    step_of_mean_rank,
    unseen,
)

UNSOLVED = "a linear program was not solved within its limit: bounds are valid, but wider than necessary"
THINNED = (
    "bounds, and metrics with these, are from a random part of the sampled candidates, for speed: up"
)


class Means(NamedTuple):
    """The mean of a metric's terms, with a confidence interval or bounds, as `kind` says."""

    terms: Terms
    value: float
    low: float
    high: float
    kind: Kind
    error: float
    notes: tuple[str, ...] = ()


def means(
    data: Targets, metric: Metric, estimator: Estimator, gamma: float, vary: Vary, level: float
) -> Means:
    """Estimate the mean of a metric's terms over all candidates."""
    top = int(data.full.max())
    x, reference = metric.term(1.0, float(top))
    with np.errstate(divide="ignore"):  # f = 0 under p <= 0 is an error below
        ends = x(np.array([1.0, float(top)]))
    if not np.isfinite(ends).all():
        raise InputError(f"{metric} is infinite for some ranks, or its inverse is")
    least, most = float(ends.min()), float(ends.max())
    given, notes = data, list[str]()
    if metric.p != 1 or metric.f != RANK or vary == "targets":
        data = given.thinned
    if data is not given:
        notes.append(f"{THINNED} to {int(data.drawn.max()):,}")
    unit = data.sample.unit if vary == "targets" else data.draw
    z = _student(min(int(unit.max()), int(data.draw.max())), level)
    rare = unseen(data.weight, unit, level)
    exact = [plain(x, d) if d.exhaustive else unbiased(metric, d) for d in data.designs]
    terms = Terms(metric, np.zeros(0), reference)
    found = [table for table in exact if table is not None]
    if len(found) == len(exact):
        value, error, low, high = _interval(data, metric, found, vary, level, z)
        if metric.p > 1 and not all(design.exhaustive for design in data.designs):
            # so skewed that rare ranks dominate
            low, high = _bounds(data, x, exact, vary, z, rare, notes)
        elif vary == "targets" and not data.sample.influence(data.apply(found)).any():
            low = min(low, value - rare * (value - least))
            high = max(high, value + rare * (most - value))
    else:
        estimate = [
            _point_estimate(x, design, data, estimator, gamma) if table is None else table
            for design, table in zip(data.designs, exact, strict=True)
        ]
        value, error = data.sample.mean(data.apply(estimate)), nan
        low, high = _bounds(data, x, exact, vary, z, rare, notes)
    if vary == "candidates":
        least, most = given.possible(x)
    value, low, high = (min(max(end, least), most) for end in (value, low, high))
    kind: Kind = "bounds" if isnan(error) else "interval"
    return Means(terms, value, low, high, kind, error, tuple(notes))


def _point_estimate(
    x: Function, design: Design, data: Targets, estimator: Estimator, gamma: float
) -> Floats:
    if estimator == "em":
        return posterior(x, design, data.fit(None))
    if estimator == "bv":
        return bias_variance(x, design, data.ranks, gamma)
    return constrained(x, design, data.ranks)


def _student(degrees: float, level: float) -> float:
    """Compute the margin of error in standard errors, by Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees, 1.0), 0.5 + level / 2))


def _interval(
    data: Targets, metric: Metric, tables: Sequence[Floats], vary: Vary, level: float, z: float
) -> tuple[float, float, float, float]:
    """Compute an unbiased estimate, its standard error, and its confidence interval."""
    values = data.apply(tables)
    mean = data.sample.mean(values)
    if vary == "candidates" and metric.p == 1:
        error, below, above = _of_mean_rank(data, values, tables, level)
        return mean, error, mean - below, mean + above
    error = _error(data, values, lambda: data.spread(tables), vary)
    return mean, error, mean - z * error, mean + z * error


def _of_mean_rank(
    data: Targets, values: Floats, tables: Sequence[Floats], level: float
) -> tuple[float, float, float]:
    """Compute the standard error of a mean rank over candidates, and its distances to both limits.

    The number of better candidates of targets in the better half is treated as a Poisson variable, and
    so is the number of worse candidates of targets in the worse half: with few of them the distribution
    is skewed, away from the first and from the last rank. The limits are those of a sum of two estimates
    whose variances differ at both limits (MOVER; Zou and Donner 2008, with their correlation). If few
    draws determine the variance, they use Student's t.
    """
    spread: Floats | None = None

    def of_sum(weight: Floats) -> tuple[float, float]:
        found = of_mean_rank(data.designs, weight, data.draw)
        if found is not None:
            return found
        nonlocal spread  # a single candidate shows no variance
        spread = data.spread(tables) if spread is None else spread
        return of_draws(weight, spread, data.draw), float(data.draw.max())

    variance, draws = of_sum(data.weight)
    t, z, total = _student(draws, level), _student(inf, level), data.weight.sum()
    first = (1.0 - np.sign(2.0 * (values - 1.0) - (data.full - 1.0))) / 2.0  # half of the middle rank
    errors, ends = [], []
    for mine, beyond in ((first, values - 1.0), (1.0 - first, data.full - values)):
        weight = data.weight * mine
        own = of_sum(weight)[0] / total**2
        step = step_of_mean_rank(data.designs, weight, data.draw) / total
        beyond_mean = float((weight * beyond).sum()) / total
        if beyond_mean > 0:  # as implied by the variance: less than the effect of a whole draw
            step = min(step, own / beyond_mean)
        shift = step * z**2 / 2.0
        reach = hypot(t * sqrt(own), shift)
        errors.append(own)
        ends.append((reach - shift, reach + shift))  # towards the first or last rank, and away from it
    (to_first, from_first), (to_last, from_last) = ends
    variance /= total**2
    product = sqrt(errors[0] * errors[1])
    shared = (variance - sum(errors)) / (2.0 * product) if product else 0.0
    shared = min(max(shared, -1.0), 1.0)
    below, above = (
        sqrt(max(one**2 + other**2 + 2.0 * shared * one * other, 0.0))
        for one, other in ((to_first, from_last), (from_first, to_last))
    )
    return sqrt(variance), below, above


def _bounds(
    data: Targets,
    x: Function,
    exact: Sequence[Floats | None],
    vary: Vary,
    z: float,
    rare: float,
    notes: list[str],
) -> tuple[float, float]:
    """Compute bounds: means of tables that are never too large, or too small, with a margin of error.

    The tables applied to one half of the draws are chosen on the other half. To z standard errors the
    margin adds the possible effect of values too rare to be in the sample: the worst value of the table,
    times the largest share of such values.
    """
    values, variances = np.zeros((2, len(data.weight))), np.zeros((2, len(data.weight)))
    worst = [inf, -inf]
    for fold in (0, 1):
        mine, fit = data.draw % 2 == fold, data.fit(1 - fold)
        pairs = [
            Envelope(table, table, True)
            if table is not None
            else envelope(x, design, fit.counts(design), float(len(data.weight)))
            for design, table in zip(data.designs, exact, strict=True)
        ]
        if not all(pair.solved for pair in pairs):
            notes.append(UNSOLVED)
        for side, extreme in enumerate((min, max)):
            tables = [(pair.lower, pair.upper)[side] for pair in pairs]
            values[side, mine] = data.apply(tables)[mine]
            variances[side, mine] = data.spread(tables)[mine]
            ends = (float(extreme(table.min(), table.max())) for table in tables)
            worst[side] = extreme(worst[side], *ends)

    def end(side: int, sign: int) -> float:
        mean = data.sample.mean(values[side])
        error = _error(data, values[side], lambda: variances[side], vary)
        return mean + sign * z * error + rare * (worst[side] - mean)

    return end(0, -1), end(1, 1)


def _error(data: Targets, values: Floats, variances: Callable[[], Floats], vary: Vary) -> float:
    """Compute the standard error of the mean of T over candidates, or over targets and candidates.

    The variance over units contains that over their candidates, but not the covariance from draws that
    several units share: the full variance less that with a separate draw for each unit.
    """
    own = data.sample.error(data.sample.influence(values)).size if vary == "targets" else 0.0
    if own and not data.shared:
        return own
    spread = variances()
    together = over_draws(data.weight, spread, data.draw)
    apart = over_draws(data.weight, spread, data.own_draw) if own else 0.0
    return sqrt(own**2 + max(together**2 - apart**2, 0.0))
