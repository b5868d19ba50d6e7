"""Confidence intervals of a metric: delta method, order statistics, and bootstrap over distinct units.

The bootstrap never copies ranks. All that metrics need of a unit is a few sums (its weight and its
terms); many units have the same sums, and a bootstrap sample of n units is a multinomial vector of how
often each distinct row is drawn. Every metric of the sample is then one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.metrics.adjusted import Adjusted, Affine, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram, Tally
from evenrank.ranks.evaluation import bare
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.selection import rows_of
from evenrank.stats._sample import Expansion, Sample, StandardError

OFTEN = 16  # a binomial draw costs about as much as drawing this many units one at a time
BLOCK = 200_000  # counts in memory at once
NO_SPREAD = "the same for every {unit}, so that its variance cannot be estimated"
NO_SPREAD_WITHIN = "the same for every {unit} of a group, so that its variance cannot be estimated"


class Bounds(NamedTuple):
    """A confidence interval and its standard error; `why` is the reason if there is none."""

    low: float = nan
    high: float = nan
    standard_error: float = nan
    why: str = ""


def no_interval(
    expression: Expression, sample: Sample, value: float, method: str, expansion: Expansion | None
) -> str | None:
    """Explain why there is no interval; None if there is one, empty for undefined values."""
    metric = sample.metric(expression)
    if isnan(value):
        return ""
    if isinstance(metric, Statistic) and metric.kind == "count":
        return f"the number of {rows_of(sample.ranks.row_name)}, not an estimate"
    if isinstance(expression, Adjusted) and expression.adjustment == "chance":
        return "computed from the numbers of candidates, not estimated"
    if isinstance(metric, Metric) and expansion is None:
        return "an extreme value of this sample; there is no interval for that of the population"
    if sample.fewest < 2:
        return "a single {unit} has no variance"
    if expansion is None:
        return None
    if not expansion.terms.finite:
        return "infinite for some targets, or its inverse is"
    if not expansion.influence.any():
        if method == "delta" and expansion.terms.is_share and expansion.mean in (0.0, 1.0):
            return None
        return NO_SPREAD if sample.groups == 1 else NO_SPREAD_WITHIN
    return None


def expand(sample: Sample, expression: Expression) -> Expansion | None:
    """Expand a metric in the targets of a sample; None for statistics and extreme values."""
    metric = sample.metric(expression)
    if isinstance(metric, Statistic) or abs(metric.p) == inf or not sample.units:
        return None
    return Expansion(sample, metric)


def delta(expression: Expression, sample: Sample, level: float, expansion: Expansion | None) -> Bounds:
    """Compute an interval by the delta method; for quantiles, from order statistics.

    The interval is that of the mean term, mapped to the metric: symmetric for plain means, and on the
    scale of logarithms for GMR. Hits have the interval of a proportion.
    """
    if expansion is None:
        return _order_statistics(sample, expression, level)
    terms, mean, own = expansion.terms, expansion.mean, expansion.error
    error = sample.error(expansion.on(expression))
    if terms.is_share:
        ends = _proportion(mean, own, expansion.influence, sample, level)
    elif not error.size > 0:
        return Bounds(why="not differentiable at this value")
    else:
        margin = own.margin(level)
        ends = mean - margin if terms.metric.p == 0 else max(mean - margin, 0.0), mean + margin
    low, high = sorted(adjustment(expression, sample)(terms.value(np.array(ends))).tolist())
    least, most = limits(expression, sample)
    return Bounds(max(low, least), min(high, most), error.size if error.size > 0 else nan)


def _proportion(
    share: float, error: StandardError, influence: Floats, sample: Sample, level: float
) -> tuple[float, float]:
    """Compute the interval of a proportion (Clopper and Pearson 1934), also for dependent targets.

    With dependent targets, or weights, the number of independent targets with the same standard error
    replaces their number (Korn and Graubard 1998). If the outcome is rare, few units determine the
    standard error, and Student's t has no more degrees of freedom than these. If all targets are hits,
    or none, the number of independent targets is that of the units.
    """
    if sample.fewest == len(sample.ranks) and sample.groups == 1 and sample.equal_weights:
        n = float(len(sample.ranks))
    elif error.size > 0:
        n = _independent(share, error, sample.effective(influence), level)
    else:
        weights = [way.total(way.weight) / way.weight.sum() for way in sample.ways]
        n = min(1.0 / float((weight**2).sum()) for weight in weights)
    return _clopper_pearson(share, n, level)


def _independent(share: float, error: StandardError, determined: float, level: float) -> float:
    """Compute the number of independent targets with the same standard error and margin of error."""
    from scipy.special import stdtrit

    tail, df = (1.0 - level) / 2.0, min(error.df, determined)
    return share * (1.0 - share) / error.size**2 * float(stdtrit(inf, tail) / stdtrit(df, tail)) ** 2


def _clopper_pearson(share: float, n: float, level: float) -> tuple[float, float]:
    tail = (1.0 - level) / 2.0
    return _least(share, n, tail), 1.0 - _least(1.0 - share, n, tail)


def bounds_by_group(
    sample: Sample, metric: Metric | Statistic | QueryMetric, level: float
) -> list[Bounds]:
    """Compute the interval of a metric in each fixed group of a sample, as `delta` does for each alone.

    Parameters
    ----------
    sample : Sample
        The targets, with their groups.
    metric : Metric, Statistic or QueryMetric
        The metric.
    level : float
        The confidence level.

    Returns
    -------
    list of Bounds
        The intervals; NaN where there is none, as for statistics.
    """
    expansion = expand(sample, metric)
    if expansion is None:
        return [Bounds()] * sample.groups
    terms, means = expansion.terms, expansion.means
    errors = sample.errors_by_group(expansion)
    low, high = (_shares if terms.is_share else _margins)(expansion, errors, level)
    with np.errstate(invalid="ignore"):  # groups without an interval
        ends = np.sort(terms.value(np.array([low, high])), axis=0)
    least, most = limits(metric, sample)
    return [
        Bounds() if isnan(mean) else Bounds(max(low, least), min(high, most), error.size)
        for mean, low, high, error in zip(means.tolist(), *ends.tolist(), errors, strict=True)
    ]


def values_by_group(sample: Sample, metric: Metric | Statistic | QueryMetric) -> Floats:
    """Compute a metric in each fixed group of a sample.

    Parameters
    ----------
    sample : Sample
        The targets, with their groups.
    metric : Metric, Statistic or QueryMetric
        The metric.

    Returns
    -------
    ndarray
        The values; NaN in groups without targets, or where all have weight zero.
    """
    expansion = expand(sample, metric)
    if expansion is not None:  # in all groups at once, as these may be a thousand relations
        return expansion.terms.value(expansion.means)
    r = sample.ranks
    assert not isinstance(r, Rankings)
    assert not isinstance(metric, QueryMetric)
    values = np.full(sample.groups, nan)
    for group in np.unique(sample.group[sample.weight > 0]).tolist():
        rows = np.flatnonzero(sample.group == group)
        mine = Tally.of_checked(r.better[rows], r.equal[rows], r.candidates[rows], sample.weight[rows])
        values[group] = metric(mine, sample.ties)
    return values


def _margins(
    expansion: Expansion, errors: Sequence[StandardError], level: float
) -> tuple[Floats, Floats]:
    """Compute the intervals of the mean term in each group by Student's t."""
    from scipy.special import stdtrit

    terms, means = expansion.terms, expansion.means
    size, df = np.array(errors).T
    with np.errstate(invalid="ignore", divide="ignore"):
        margin = stdtrit(df, 0.5 + level / 2) * size
        margin = margin / np.abs([terms.slope(mean) for mean in means.tolist()])
    return means - margin if terms.metric.p == 0 else np.maximum(means - margin, 0.0), means + margin


def _shares(
    expansion: Expansion, errors: Sequence[StandardError], level: float
) -> tuple[Floats, Floats]:
    """Compute the intervals of a proportion in each group; those of one unit have none."""
    determined, units, alone = expansion.sample.spread_by_group(expansion)
    found = []
    for i, (mean, error) in enumerate(zip(expansion.means.tolist(), errors, strict=True)):
        if isnan(mean) or error.df < 1:
            found.append((nan, nan))
            continue
        n = float(units[i])
        if not alone[i] and error.size > 0:
            n = _independent(mean, error, float(determined[i]), level)
        elif not alone[i] and 0.0 < mean < 1.0:
            n = nan
        found.append(_clopper_pearson(mean, n, level))
    low, high = np.array(found).T
    return low, high


def _least(share: float, n: float, tail: float) -> float:
    """Compute p for which the binomial probability of share n of n hits, or more, is the tail."""
    from scipy.special import betaincinv

    hits = share * n
    return float(betaincinv(hits, n - hits + 1.0, tail)) if hits > 0.0 else 0.0


def limits(expression: Expression, sample: Sample) -> tuple[float, float]:
    """Compute the smallest and the largest value a metric can have, on the scale of its adjustment."""
    ends = np.array(sample.metric(expression).range)
    low, high = sorted(adjustment(expression, sample)(ends).tolist())
    return low, high


def _order_statistics(sample: Sample, expression: Expression, level: float) -> Bounds:
    """Compute the interval of a quantile from two order statistics.

    The number of ranks below the true quantile is binomial. P(fewer than l of n ranks lie at or below
    the quantile) and P(u or more lie below it) are each at most (1 - level) / 2 for every distribution.
    """
    from scipy.stats import binom

    metric = bare(expression)
    assert isinstance(metric, Statistic)
    if metric.kind != "quantile":
        return Bounds(why="there is no analytic interval; use the bootstrap")
    if sample.fewest < len(sample.ranks) or not sample.tally.equal_weights:
        why = "order statistics need independent targets of equal weight"
        return Bounds(why=f"{why}; use the bootstrap")
    rank, tail = np.sort(sample.rank()), (1.0 - level) / 2
    low, high = (int(binom.ppf(p, len(rank), metric.at or 0.0)) for p in (tail, 1.0 - tail))
    if low < 1 or high >= len(rank):
        return Bounds(why="too extreme a quantile, or too few targets, for order statistics")
    adjust = adjustment(expression, sample)
    ends = adjust(np.array([rank[low - 1], rank[high]]) ** float(metric.q))
    return Bounds(*sorted(ends.tolist()))


def bootstrap(
    sample: Sample, expressions: Sequence[Expression], level: float, samples: int, seed: int, bca: bool
) -> Iterator[Bounds]:
    """Compute intervals from bootstrap samples of units: BCa (Efron 1987), or percentiles.

    Quantiles and measures of spread are not smooth enough for BCa and always get percentiles.
    """
    every = dict.fromkeys(map(sample.metric, expressions))
    metrics = [metric for metric in every if not isinstance(metric, Statistic)]
    means = Means(sample, metrics)
    sources = means.drawn(samples, seed), means.observed, means.without_one
    for expression in expressions:
        metric, adjust = sample.metric(expression), adjustment(expression, sample)
        if isinstance(metric, Statistic):
            drawn = adjust(_statistics(sample, metric, samples, seed))
            stays = metric.kind == "quantile" and drawn.min() == drawn.max()  # ranks are whole numbers
            here = float(drawn[0])
            yield Bounds(here, here, 0.0) if stays else _percentiles(drawn, level)
            continue
        at = metrics.index(metric)
        drawn, observed, apart = (adjust(means.terms[at].value(source[..., at])) for source in sources)
        if bca:
            yield _bca(drawn, float(observed), apart, means.counts, level)
        else:
            yield _percentiles(drawn, level)


def crossed_bootstrap(
    sample: Sample, values: Mapping[Expression, float], level: float, samples: int, seed: int, bca: bool
) -> Iterator[Bounds]:
    """Compute bootstrap intervals for units that cross.

    The unit with the larger standard error is resampled, and the distances of both ends from the value
    are multiplied by the standard error of crossed units, relative to that. Quantiles and measures of
    spread have the wider interval of both units.
    """
    each = [dict(zip(values, bootstrap(way, list(values), level, samples, seed, bca), strict=True))
            for way in sample.ways]  # fmt: skip
    for expression, value in values.items():
        found = [one[expression] for one in each]
        if isinstance(bare(expression), Statistic):
            yield max(found, key=lambda one: -1.0 if isnan(one.low) else one.high - one.low)
            continue
        influence = sample.influence_on(expression)
        whole, sizes = sample.error(influence), [one.size for one in sample.errors_of_ways(influence)]
        larger = int(np.argmax(sizes))
        ratio, bounds = whole.size / sizes[larger] if sizes[larger] > 0 else 1.0, found[larger]
        ends = (value + ratio * (end - value) for end in (bounds.low, bounds.high))
        low, high = (
            min(max(end, least), most) for least, most in [limits(expression, sample)] for end in ends
        )
        yield Bounds(low, high, ratio * bounds.standard_error, bounds.why)


def adjustment(expression: Expression, sample: Sample) -> Function:
    """Get the map from raw to adjusted values; the null distribution is that of all targets."""
    if not isinstance(expression, Adjusted):
        return lambda raw: raw
    adjust = expression.map(sample.null(expression))
    return adjust if isinstance(adjust, Affine) else np.vectorize(adjust, otypes=[float])


class Means:
    """The weighted mean of each metric's terms, in bootstrap samples of units."""

    def __init__(self, sample: Sample, metrics: Sequence[Metric | QueryMetric]) -> None:
        self.terms = [sample.terms(metric) for metric in metrics]
        sums = [sample.total(sample.weight), *(sample.total(sample.weight * t.x) for t in self.terms)]
        distinct = Histogram.of(**{str(i): column for i, column in enumerate(sums)})
        self.counts = distinct.counts
        self._rows = np.column_stack(list(distinct.columns.values()))
        self._total = self.counts @ self._rows

    @property
    def observed(self) -> Floats:
        """The means of the sample itself."""
        return _ratio(self._total)

    @property
    def without_one(self) -> Floats:
        """The jackknife: the means without one unit, for each distinct unit."""
        return _ratio(self._total - self._rows)

    def drawn(self, samples: int, seed: int) -> Floats:
        """Compute the means of bootstrap samples."""
        blocks = (times @ self._rows for times in resampled(self.counts, samples, seed))
        return _ratio(np.concatenate(list(blocks)))


def _ratio(sums: Floats) -> Floats:
    return np.asarray(sums[..., 1:] / sums[..., :1])


def resampled(counts: Ints, samples: int, seed: int) -> Iterator[Floats]:
    """Draw bootstrap samples, in blocks: how often each distinct unit is drawn.

    The counts are multinomial. Those of frequent units are drawn as such; all rare units together are
    one cell, filled by drawing single units, because a binomial draw costs as much as many of these.

    >>> [block.sum(axis=1).tolist() for block in resampled(np.array([1, 2, 50]), samples=2, seed=0)]
    [[53.0, 53.0]]
    """
    rng = np.random.default_rng(seed)
    often = np.flatnonzero(counts >= OFTEN)
    seldom = np.flatnonzero(counts < OFTEN)
    pool = np.repeat(seldom, counts[seldom])
    cells = np.append(counts[often], len(pool)) / counts.sum()
    step = max(1, BLOCK // int(max(len(counts), len(pool))))
    for first in range(0, samples, step):
        rows = min(step, samples - first)
        drawn = rng.multinomial(counts.sum(), cells, rows)
        owner = np.repeat(np.arange(rows) * len(counts), drawn[:, -1])
        picked = pool[rng.integers(0, max(1, len(pool)), len(owner), dtype=np.int32)]
        times = np.bincount(picked + owner, minlength=rows * len(counts)).reshape(rows, -1)
        times[:, often] = drawn[:, :-1]
        yield times.astype(float)


def _statistics(sample: Sample, statistic: Statistic, samples: int, seed: int) -> Floats:
    """Compute a statistic of the ranks in each bootstrap sample."""
    row, (rank, weight) = columns.encode([sample.rank(), sample.weight])
    equal = sample.tally.equal_weights
    weight = np.ones(len(rank)) if equal else weight
    return np.array(
        [
            statistic.of(rank[mass > 0], mass[mass > 0], equal)
            for block in _row_counts(sample, row, samples, seed)
            for mass in block * weight
        ]
    )


def _row_counts(sample: Sample, row: Ints, samples: int, seed: int) -> Iterator[Floats]:
    """Count how often each distinct row occurs in bootstrap samples of units, in blocks."""
    from scipy.sparse import csr_array

    if sample.units == len(row):  # units are targets; those with the same row are interchangeable
        yield from resampled(np.bincount(row), samples, seed)
        return
    within = csr_array((np.ones(len(row)), (sample.unit, row)))
    for times in resampled(np.ones(sample.units, dtype=np.int64), samples, seed):
        yield np.asarray(times @ within)


def _percentiles(drawn: Floats, level: float, at: Floats | None = None) -> Bounds:
    if not np.isfinite(drawn).all():
        return Bounds(why="undefined in some bootstrap samples")
    error = float(drawn.std(ddof=1))
    if error == 0:
        return Bounds(why=NO_SPREAD)
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2] if at is None else at)
    return Bounds(float(low), float(high), error)


def _bca(drawn: Floats, observed: float, apart: Floats, counts: Ints, level: float) -> Bounds:
    """Correct the percentiles for bias and for a standard error that changes with the value.

    `z0` is the normal quantile of the value among the samples, `a` a sixth of the skewness of the
    jackknife values; both move the percentiles (Efron 1987, Better bootstrap confidence intervals,
    section 3).
    """
    from scipy.special import ndtr, ndtri

    if not (np.isfinite(drawn).all() and np.isfinite(apart).all()):
        return _percentiles(drawn, level)
    below = ((drawn < observed).mean() + (drawn <= observed).mean()) / 2  # half of those that are equal
    from_mean = (counts @ apart) / counts.sum() - apart
    square = float(counts @ from_mean**2)
    if not 0 < below < 1 or square == 0:
        return _percentiles(drawn, level)
    z0, a = ndtri(below), float(counts @ from_mean**3) / (6 * square**1.5)
    ends = z0 + ndtri([0.5 - level / 2, 0.5 + level / 2])
    return _percentiles(drawn, level, ndtr(z0 + ends / (1 - a * ends)))
