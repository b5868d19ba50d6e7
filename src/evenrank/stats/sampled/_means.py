"""The mean of a metric's terms in the full ranking, with a confidence interval or bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot, inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np

from evenrank._internal.arrays import Floats, Function
from evenrank.errors import InputError
from evenrank.metrics.metric import Metric
from evenrank.stats._sample import Terms
from evenrank.stats.sampled._bounds import envelope
from evenrank.stats.sampled._corrections import bias_variance, constrained, plain, posterior, unbiased
from evenrank.stats.sampled._design import Design
from evenrank.stats.sampled._result import Estimator, Kind, Vary
from evenrank.stats.sampled._targets import Targets
from evenrank.stats.sampled._variance import of_mean_rank, over_draws, step_of_mean_rank, unseen


class Means(NamedTuple):
    """The mean of a metric's terms, with a confidence interval or bounds, as `kind` says."""

    terms: Terms
    value: float
    low: float
    high: float
    kind: Kind
    error: float


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
    unit = data.sample.unit if vary == "targets" else data.draw
    z = _student(min(int(unit.max()), int(data.draw.max())), level)
    rare = unseen(data.weight, unit, level)
    exact = [plain(x, d) if d.exhaustive else unbiased(metric, d) for d in data.designs]
    terms = Terms(metric, np.zeros(0), reference)
    found = [table for table in exact if table is not None]
    if len(found) == len(exact):
        value, error, low, high = _interval(data, metric, found, vary, level, z)
        if metric.p > 1 and not all(design.exhaustive for design in data.designs):
            low, high = _bounds(data, x, exact, vary, z, rare)  # so skewed that rare ranks dominate
        elif vary == "targets" and not data.sample.influence(data.apply(found)).any():
            low = min(low, value - rare * (value - least))
            high = max(high, value + rare * (most - value))
    else:
        estimate = [
            _point_estimate(x, design, data, estimator, gamma) if table is None else table
            for design, table in zip(data.designs, exact, strict=True)
        ]
        value, error = data.sample.mean(data.apply(estimate)), nan
        low, high = _bounds(data, x, exact, vary, z, rare)
    if vary == "candidates":
        least, most = data.possible(x)
    value, low, high = (min(max(end, least), most) for end in (value, low, high))
    return Means(terms, value, low, high, "bounds" if isnan(error) else "interval", error)


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
    """Compute an unbiased estimate, its standard error, and its confidence interval.

    Over candidates the interval of a mean rank is that of a Poisson variable in steps of `a`: all means
    whose distance from the estimate is at most z of their own standard errors. With many better
    candidates it is the usual interval. If few draws determine the variance, it uses Student's t.
    """
    values = data.apply(tables)
    mean, a, t, exact = data.sample.mean(values), 0.0, z, None
    if vary == "candidates" and metric.p == 1:
        a = step_of_mean_rank(data.designs, data.weight, data.draw)
        exact = of_mean_rank(data.designs, data.weight, data.draw)
    if exact is not None:
        error, draws = exact
        t = _student(draws, level)
    else:
        error = _error(data, values, lambda: data.spread(tables), vary)
    if mean > 1.0:
        a = min(
            a, error**2 / (mean - 1.0)
        )  # as implied by the variance: less than the effect of a whole draw
    shift = a * _student(inf, level) ** 2 / 2.0
    reach = hypot(t * error, shift)
    return mean, error, mean + shift - reach, mean + shift + reach


def _bounds(
    data: Targets, x: Function, exact: Sequence[Floats | None], vary: Vary, z: float, rare: float
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
