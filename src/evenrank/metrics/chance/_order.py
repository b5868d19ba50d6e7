"""Null distributions of order statistics: minimum, maximum, median and other quantiles.

`C_x = #{i : r_i <= x}` is a sum of independent Bernoulli(min(1, x/N_i)), a Poisson-binomial, and
`r_(m) <= x` iff `C_x >= m`. A quantile as numpy defines it is `V = (1-g) A + g B` with neighbours
`A = r_(m)`, `B = r_(m+1)`; their joint distribution is

    G(x, y) = P(A <= x, B > y) = [z^m] prod_i (pi_i(x) z + 1 - pi_i(y)),    x <= y.

Summing by parts twice, for any function eta and `h(x, y) = eta((1-g) x + g y)`,

    E eta(A) = eta(b) + sum_x ([x >= b] - P(A <= x)) (eta(x+1) - eta(x))             (any b)
    E eta(V) = E eta(A) + sum_y G(y, y) D(y, y) - sum_{x < y} G(x, y) (D(x+1, y) - D(x, y)),

with `D(x, y) = h(x, y+1) - h(x, y)`. The steps of eta are computed in closed form, because subtracting
values cancels as many digits as x has. Every summand is smooth in x between sizes, so a wide band of x
costs a few hundred evaluations, and outside a band of some ten standard deviations all is negligible.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import floor, inf, log, sqrt

import numpy as np

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank._internal.quadrature import SHORT, Rule, last_true, pair_rule
from evenrank.errors import NullDistributionError, Option
from evenrank.metrics.chance._count import Trials, log_count
from evenrank.metrics.chance._moment import Moment, infinite
from evenrank.metrics.chance._sum import CHUNK, Sizes
from evenrank.metrics.metric import Metric, Statistic, quantile_position

CERTAIN = 60.0  # exponent of probabilities treated as 0: e^-60 ~ 1e-26
NEGLIGIBLE_GAP = 40.0
MANY = 1000  # targets from which the gap between neighbours is nearly irrelevant
MOST_WORK = 2e8  # (x, y) pairs times groups times frequencies: ten seconds or so


# Step(v, by) is h(v + by) - h(v), free of cancellation, for the function h whose mean is wanted
Step = Callable[[Floats, float], Floats]


class OrderStatistic:
    """The distribution of `V = (1-g) r_(m) + g r_(m+1)` for independent uniform ranks."""

    def __init__(self, sizes: Sizes, m: int, g: float = 0.0) -> None:
        """Find the band of x outside of which probabilities are negligible."""
        self.trials, self.m, self.g = Trials.of(sizes), m, g
        self.largest = int(sizes.size.max())
        self.low = max(1, last_true(self.largest, lambda x: self._surely_below(x, m)))
        self.high = last_true(self.largest, lambda x: not self._surely_above(x, m + (g > 0))) + 1
        self.gap = max(1, self._gap()) if g > 0 else 0
        self._middle = max(self.low, last_true(self.largest, lambda x: self._mean_variance(x)[0] < m))
        # Where V^q varies by orders of magnitude, tiny probabilities need full precision.
        self.wide = self.high > 4 * self.low
        self.few = self.trials.merged(self.low - 0.5)
        if self._spread(self.low) > 20.0 and self._spread(self.high) > 20.0:
            self.few = self.few.compressed(float(self.high + self.gap))

    def _mean_variance(self, x: float) -> tuple[float, float]:
        p = self.trials.at(np.array([float(x)]))[0]
        return float(p @ self.trials.count), float((p * (1.0 - p)) @ self.trials.count)

    def _spread(self, x: float) -> float:
        return sqrt(self._mean_variance(x)[1])

    def _surely_below(self, x: int, m: int) -> bool:
        """Whether P(C_x >= m) is negligible, by Bernstein's inequality."""
        mean, variance = self._mean_variance(x)
        t = m - mean
        return t > 0 and t * t > 2.0 * CERTAIN * (variance + t / 3.0)

    def _surely_above(self, x: int, m: int) -> bool:
        """Whether P(C_x < m) is negligible, by Bernstein's inequality."""
        mean, variance = self._mean_variance(x)
        t = mean - m
        return t > 0 and t * t > 2.0 * CERTAIN * (variance + t / 3.0)

    def _gap(self) -> int:
        """Find the largest relevant y - x: P(no rank in (x, y]) is largest at the upper end of the band.

        A gap cannot end beyond the largest size; one that would, starts lower.
        """

        def likely(gap: int) -> bool:
            x = float(min(self.high, self.largest - gap))
            before, after = self.trials.at(np.array([x, x + gap]))
            with np.errstate(divide="ignore"):
                return float(np.log1p(before - after) @ self.trials.count) > -NEGLIGIBLE_GAP

        return last_true(self.largest - self.low, likely)

    def at_most(self, x: Floats) -> Floats:
        """Compute P(r_(m) <= x)."""
        return self._tail(x, above=False)

    def above(self, x: Floats) -> Floats:
        """Compute P(r_(m) > x), the probability of at least n - m + 1 failures."""
        return self._tail(x, above=True)

    def _tail(self, x: Floats, *, above: bool) -> Floats:
        out = np.empty(len(x))
        wanted = self.trials.n - self.m + 1 if above else self.m
        for part in self._chunks(len(x)):
            p = self.few.at(x[part])
            tail = log_count(1.0 - p if above else p, self.few.count, wanted, tail=True, tilt=self.wide)
            out[part] = np.exp(tail)
        return out

    def _chunks(self, length: int) -> list[slice]:
        step = max(1, CHUNK // (64 * len(self.few.rate)))
        return [slice(i, i + step) for i in range(0, length, step)]

    def joint(self, x: Floats, y: Floats, *, tilt: bool = False) -> Floats:
        """Compute log P(r_(m) <= x, r_(m+1) > y)."""
        out = np.empty(len(x))
        trials = self.trials if tilt else self.few
        for part in self._chunks(len(x)):
            below, over = trials.at(x[part]), 1.0 - trials.at(y[part])
            total = below + over
            with np.errstate(divide="ignore", invalid="ignore"):
                none_between = (np.log(total) * trials.count).sum(axis=1)
                p = np.where(total > 0, below / total, 0.0)
            logs = log_count(p, trials.count, self.m, tail=False, tilt=tilt or self.wide)
            out[part] = none_between + logs
        return out

    def moments(self, q: int) -> tuple[float, float]:
        """Compute mean and variance of V^q, q = 1 or -1."""
        # sum outwards from the middle, which avoids cancellation
        middle = float(self._middle)
        edges = np.unique(np.concatenate([[self.low, self._middle], self._kinks(), [self.high]]))
        ends = np.array([self.low, self.high], dtype=float) ** q
        size = float(np.abs(np.diff(ends))[0]) or 1.0
        rule = Rule(
            edges[:-1],
            edges[1:] - 1,
            lambda x: self.at_most(x) + np.maximum(x, 1.0) ** float(q) / size,
            tolerance=1e-14,
            floor=1.0,
        )
        x = rule.points
        upper = x > middle - 0.5
        weight = np.empty(len(x))
        weight[upper], weight[~upper] = self.above(x[upper]), -self.at_most(x[~upper])
        pairs = self._pairs() if self.g else None

        def rise(step: Step) -> float:  # E h(V) - h(middle), from h's differences
            total = float(rule.sum(weight * step(x, 1.0)).sum())
            return total + (pairs(step) if pairs else 0.0)

        def power(v: Floats, by: float) -> Floats:
            return np.full_like(v, by) if q == 1 else -by / (v * (v + by))

        center = middle**q
        shift = rise(power)

        def square(v: Floats, by: float) -> Floats:  # of v^q - mean, factored to avoid cancellation
            return power(v, by) * ((v**q - center) + ((v + by) ** q - center) - 2.0 * shift)

        return center + shift, shift * shift + rise(square)

    def _kinks(self, stop: int | None = None) -> Ints:
        """Return sizes inside the band, or up to `stop`, where the distribution of C_x has kinks."""
        sizes = np.sort(np.rint(1.0 / self.trials.rate).astype(np.int64))
        return sizes[(sizes > self.low) & (sizes < (stop or self.high))]

    def _pairs(self) -> Callable[[Step], float]:
        """Prepare the contribution of the gap between the neighbours to E eta(A)."""
        g = self.g
        edges = np.concatenate([[self.low], self._kinks(), [self.high]])
        line = Rule(edges[:-1], edges[1:] - 1, lambda x: np.exp(self.joint(x, x)), floor=1.0)
        diagonal = np.exp(self.joint(line.points, line.points))
        x, y, weight = self._triangle()
        # where the diagonal is negligible, so is everything off it
        each, index = np.unique(x, return_inverse=True)
        live = (np.exp(self.joint(each, each)) > 1e-25)[index]
        x, y, weight = x[live], y[live], weight[live]
        weight = weight * np.exp(self.joint(x, y))
        v = (1.0 - g) * x + g * y

        def add(step: Step) -> float:
            near = line.sum(diagonal * step(line.points, g)).sum()
            return float(near - (weight * (step(v + (1.0 - g), g) - step(v, g))).sum())

        return add

    def _next_above(self, y: int) -> bool:
        """Whether P(r_(m+1) > y) is not negligible."""
        p = 1.0 - self.trials.at(np.array([float(y)]))
        wanted = self.trials.n - self.m
        return float(log_count(p, self.trials.count, wanted, tail=True, tilt=True)[0]) > -NEGLIGIBLE_GAP

    def _triangle(self) -> tuple[Floats, Floats, Floats]:
        """Choose points and weights for the double sum over x < y.

        That sum is about 4/n of the variance. With many targets, the faint kinks at sizes are therefore
        negligible; with few targets, it is split at the kinks.
        """
        last = min(self.high, self.largest)  # P(B > y) = 0 from the largest size on
        stop = min(last + self.gap, last_true(self.largest, self._next_above) + 1, self.largest)
        kinks = self._kinks(max(stop, last))
        smooth = not len(kinks) and last + self.gap < self.largest
        if self.trials.n < MANY and not smooth:
            edges = np.concatenate([[self.low], kinks, [max(stop, last)]])
            points = pair_rule(edges, last, self.gap)
        else:
            points = self._strip(last)
        if len(points[0]) * len(self.few.rate) * min(60, self.trials.n) > MOST_WORK:
            raise NullDistributionError(
                "no exact null distribution for a quantile between two ranks with so many sizes",
                got=f"{self.trials.n} targets, {len(kinks)} numbers of candidates near the quantile",
                do=["use a quantile that falls on one rank, or ", Option("method", "sample")],
            )
        return points

    def _strip(self, last: int) -> tuple[Floats, Floats, Floats]:
        """Choose points for x times points for y - x, for gaps that are short compared to the band."""
        rule = partial(
            Rule, octaves=False, direct=SHORT, tolerance=min(1e-6, max(1e-13, 1e-14 * self.trials.n))
        )
        peak, rate = np.array([float(self._middle)]), NEGLIGIBLE_GAP / self.gap
        top = float(np.exp(self.joint(peak, peak))[0])
        x = rule([self.low], [last - 1], lambda x: np.exp(self.joint(x, x)), floor=top)
        d = rule([1], [self.gap], lambda d: np.exp(-rate * d), floor=1.0)
        return (
            np.repeat(x.points, len(d.points)),
            (x.points[:, None] + d.points).ravel(),
            np.outer(x.flat_weights, d.flat_weights).ravel(),
        )

    def log_at_most(self, value: float) -> float:
        """Compute log P(V <= value), precise in the far tail, too."""
        x = floor(min(value, float(self.largest)))
        if x < 1:
            return -inf
        p = self.trials.at(np.array([float(x)]))
        if not self.g:
            return float(log_count(p, self.trials.count, self.m, tail=True, tilt=True)[0])
        # P(B <= v) + sum_a P(A = a, v < B <= (v - (1-g) a)/g), where A = a only near v matters
        both = float(log_count(p, self.trials.count, self.m + 1, tail=True, tilt=True)[0])
        here = np.array([float(x)])
        top = max(both, float(self.joint(here, here, tilt=True)[0]))
        if top == -inf:
            return -inf
        first = max(1, x - self.gap)
        whole = x - first <= 5000

        def split(a: Floats) -> Floats:  # P(A = a, x < B <= y(a)), in units of exp(top)
            y = (value - (1 - self.g) * a) / self.g
            y = np.maximum(np.floor(y + 1e-9) if whole else y, x)
            at_x = np.full_like(a, x)
            spots = ((1.0, a, at_x), (-1.0, a - 1, at_x), (-1.0, a, y), (1.0, a - 1, y))
            return sum(
                (sign * np.exp(self.joint(left, right, tilt=True) - top) for sign, left, right in spots),
                np.zeros(len(a)),
            )

        if whole:
            mass = float(split(np.arange(first, x + 1.0)).sum())
        else:  # for so many ranks, the steps of y are negligible
            rule = Rule([first], [x], split, tolerance=1e-6, floor=float(split(here)[0]))
            mass = float(rule.sum(split(rule.points))[0])
        mass += float(np.exp(both - top))
        return min(0.0, top + log(mass)) if mass > 0 else -inf


def extreme_moments(sizes: Sizes, eta: Function, *, largest: bool) -> tuple[float, float]:
    """Compute mean and variance of eta(max rank) or eta(min rank), for monotone eta, from the pmf.

    P(max = x) = P(max <= x) (1 - ((x-1)/x)^c), c the number of sizes >= x; P(min = x) alike. Unlike
    differences of the distribution function, these are free of cancellation.
    """
    statistic = OrderStatistic(sizes, sizes.n if largest else 1)
    size, count = np.rint(1.0 / statistic.trials.rate), statistic.trials.count

    def pmf(x: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            if largest:  # half a step early, for a smooth function between two sizes
                active = count * (size >= x[:, None] - 0.5)
                at_most = np.where(active > 0, active * np.log(x[:, None] / size), 0.0).sum(axis=1)
                return np.asarray(-np.exp(at_most) * np.expm1(active.sum(axis=1) * np.log1p(-1.0 / x)))
            left = np.maximum(size - x[:, None], 0.0)
            above = (count * np.log((left + 1.0) / size)).sum(axis=1)
            return np.asarray(
                -np.exp(above) * np.expm1((count * np.log1p(-1.0 / (left + 1.0))).sum(axis=1))
            )

    last = statistic.largest if largest else min(statistic.high, int(size.min()))
    inside = statistic._kinks() + 1 if largest else np.zeros(0, dtype=np.int64)
    edges = np.unique(np.concatenate([[statistic.low], inside[inside <= last], [last + 1]]))
    top = float(pmf(np.arange(statistic.low, min(last, statistic.low + 4096) + 1.0)).max())
    ends = eta(np.array([statistic.low, last], dtype=float))
    spread = float(np.abs(np.diff(ends))[0]) or 1.0
    rule = Rule(
        edges[:-1],
        edges[1:] - 1,
        lambda x: pmf(x) / top + eta(np.maximum(x, 1.0)) / spread,
        tolerance=1e-14,
        floor=1.0,
    )
    weight, values = pmf(rule.points), eta(rule.points)
    mean = float(rule.sum(weight * values).sum())
    return mean, float(rule.sum(weight * (values - mean) ** 2).sum())


class Quantile:
    """The null distribution of a quantile of equally weighted ranks, or of its inverse."""

    def __init__(self, metric: Statistic, sizes: Sizes) -> None:
        """Check that there is an exact null distribution."""
        if metric.kind != "quantile":
            raise NullDistributionError(
                f"{metric} has no exact null distribution", do=["use ", Option("method", "sample")]
            )
        if not sizes.equal_weights:
            raise NullDistributionError(
                f"{metric} has no exact null distribution with unequal weights",
                do=["use ", Option("method", "sample"), ", or equal weights"],
            )
        below, between = quantile_position(metric.at or 0.0, sizes.n)
        self.q, self._order = metric.q, OrderStatistic(sizes, below + 1, between)

    def moments(self) -> tuple[Moment, Moment]:
        """Compute mean and variance."""
        mean, variance = self._order.moments(self.q)
        return Moment(mean, "formula"), Moment(variance, "formula")

    def log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value)."""
        if self.q == -1 and value <= 0:
            return Moment(0.0, "formula")
        rank = value if self.q == 1 else (1.0 / value if value > 1e-300 else inf)
        return Moment(self._order.log_at_most(rank * (1.0 + 1e-12) + 1e-9), "formula")


class Extreme:
    """The null distribution of max or min f(rank), p = +-inf, or of its inverse."""

    def __init__(self, metric: Metric, sizes: Sizes) -> None:
        """Choose the largest or the smallest rank."""
        self.metric, self.sizes = metric, sizes
        self._largest = (metric.p > 0) != metric.f.falling

    def moments(self) -> tuple[Moment, Moment]:
        """Compute mean and variance."""
        f, q = self.metric.f, float(self.metric.q)
        worst = self.sizes.size.max() if self._largest else self.sizes.size.min()
        if q < 0 and f.at(worst) == 0.0:
            raise infinite(self.metric)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, variance = extreme_moments(self.sizes, lambda x: f(x) ** q, largest=self._largest)
        return Moment(mean, "formula"), Moment(variance, "formula")

    def log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value)."""
        f = self.metric.f
        wanted = value if self.metric.q == 1 else 1.0 / value
        slack = 1e-12 * abs(wanted)

        def good(rank: int) -> bool:
            return f.at(rank) >= wanted - slack if f.falling else f.at(rank) <= wanted + slack

        # f is monotone, so the extreme rank must be at most the last one that is good enough
        last = last_true(int(self.sizes.size.max()), good)
        statistic = OrderStatistic(self.sizes, self.sizes.n if self._largest else 1)
        return Moment(statistic.log_at_most(float(last)), "formula")
