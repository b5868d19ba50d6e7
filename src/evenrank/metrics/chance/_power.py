"""Null distributions of power means: exact mean and variance, and tails.

With `S = sum w X`, `mu = E S` and `s = q/p` the metric is `M = S^s`. Three cases:

additive (s = 1)   E M = mu, Var M = Var S.
product (p = 0)    M = exp(q S) with X = log f, so E M^k = exp(k q mu + K(-k q)).
otherwise          the Laplace transform, below.

For any real `s <= 1` (`s` not 0 or 1, where both sides vanish), by analytic continuation of the gamma
integral,

    E (S/mu)^s - 1 = 1/Gamma(-s) * integral_0^inf u^(-s-1) e^-u expm1(K(u/mu)) du,

because K(u) = O(u^2) at 0. For `s > 1` take m = ceil(s) + 1 and a = m - s in [1, 2]:

    E (S/mu)^s - 1 = 1/Gamma(a) * integral_0^inf u^(a-1) e^-u (e^K B_m - 1) du,

(a whole `s` needs no integral: E S^s is a polynomial in the cumulants of S)
with `e^(K-u) B_m = E[(S/mu)^m exp(-u S/mu)]`, and B_m - 1 summed from the tilted cumulants without
ever forming the 1. Only the *difference* to a constant S is integrated, so there is no cancellation
for any number of targets, and Var M = (E M)^2 expm1(A(2s) - 2 A(s)) with A(s) = log E (S/mu)^s.

The integrals are taken by the trapezoidal rule in `v = log u`. The integrand is analytic for
|Im v| < pi/2, so the error falls like exp(-2 pi d/h) with d just below pi/2: halving the step squares
the error, which is also how convergence is judged.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil, copysign, exp, expm1, floor, inf, isfinite, lgamma, log, log1p

import numpy as np

from evenrank._internal.arrays import Floats, Function
from evenrank._internal.quadrature import last_true
from evenrank.errors import NullDistributionError, Option
from evenrank.metrics.chance._atoms import values_of_few
from evenrank.metrics.chance._count import Trials, log_count
from evenrank.metrics.chance._moment import Moment, infinite
from evenrank.metrics.chance._sum import RankSum, Sizes
from evenrank.metrics.chance._tails import log_tail
from evenrank.metrics.metric import RANK, TINY, Metric

STEP = 0.4
AGREE = 1e-7  # the error of the finer of two rules is about the square of their difference
NEGLIGIBLE = 1e-19
MOST_HITS = 250  # up to here, numbers of hits are enumerated
SMALL = 0.04  # powers closer to 0 are interpolated
UNDERFLOW = -745.0  # log of the least positive float
NEVER = 45.0  # exponent of what is negligible: e^-45 ~ 3e-20


def closed(metric: Metric, sizes: Sizes) -> tuple[float, float] | None:
    """Compute mean and variance of MR, MRR and hits@k by closed formulas; None for other metrics.

    `RankSum` yields the same numbers, but these take microseconds.
    """
    n = sizes.size.astype(float)
    if metric.f.k is not None and metric.p == metric.q == 1:
        k = np.minimum(metric.f.k, n)
        mean, variance = k / n, (k / n) * ((n - k) / n)
    elif metric.f == RANK and metric.p == metric.q == 1:
        mean, variance = (n + 1.0) / 2.0, (n * n - 1.0) / 12.0
    elif metric.f == RANK and metric.p == metric.q == -1:
        first, second = harmonic(n)
        mean = first / n
        variance = np.maximum(second / n - mean * mean, 0.0)
    else:
        return None
    mass = sizes.count * sizes.weight
    return float((mass * mean).sum()), float((mass * sizes.weight * variance).sum())


def harmonic(n: Floats) -> tuple[Floats, Floats]:
    """Sum 1/j and 1/j^2 for j up to n, by Euler-Maclaurin from n = 64 on, where n need not be whole."""
    j = np.arange(1.0, 64.0)
    small = np.minimum(n, 63.0).astype(int)
    x = 1.0 / np.maximum(n, 64.0)
    y = x * x
    first = np.log(np.maximum(n, 64.0)) + np.euler_gamma
    first += x / 2 - y / 12 + y**2 / 120 - y**3 / 252 + y**4 / 240
    second = np.pi**2 / 6 - x + y / 2 - x * y / 6 + x * y**2 / 30 - x * y**3 / 42 + x * y**4 / 30
    return (
        np.where(n < 64, np.append(0.0, np.cumsum(1.0 / j))[small], first),
        np.where(n < 64, np.append(0.0, np.cumsum(1.0 / j**2))[small], second),
    )


def additive(rank_sum: RankSum) -> tuple[float, float]:
    """Compute mean and variance of S."""
    return rank_sum.mean, rank_sum.variance


def product(rank_sum: RankSum, q: int) -> tuple[float, float]:
    """Compute mean and variance of exp(q S)."""
    once, twice = rank_sum.cumulants(np.array([-q, -2.0 * q]))[1]
    mean = exp(q * rank_sum.mean + once)
    return mean, mean * mean * expm1(twice - 2.0 * once)


def power(rank_sum: RankSum, s: float) -> tuple[float, float]:
    """Compute mean and variance of S^s."""
    if rank_sum.variance == 0.0:
        return rank_sum.mean**s, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        excess = _excess(rank_sum, s)
    if not all(isfinite(x) and x > -1.0 for x in excess):
        raise _too_extreme(s)
    once, twice = (log1p(x) for x in excess)
    mean = rank_sum.mean**s * exp(once)
    return mean, mean * mean * expm1(twice - 2.0 * once)


def _too_extreme(s: float) -> NullDistributionError:
    return NullDistributionError(
        "the power p of this mean is too extreme for floating-point numbers",
        got=f"|p| = {1.0 / abs(s):.4g}",
        do=["use its limit (gmr near 0, min or max for large p), or ", Option("method", "sample")],
    )


def _excess(rank_sum: RankSum, s: float) -> list[float]:
    """Compute E (S/mu)^s - 1 and E (S/mu)^(2s) - 1."""
    if 2 * s <= 1:
        return _integrate(rank_sum, [s, 2 * s], 0)
    return [_whole(rank_sum, int(k)) if k == int(k) else _fraction(rank_sum, k) for k in (s, 2 * s)]


def _whole(rank_sum: RankSum, s: int) -> float:
    """Compute the excess of an integer power from the cumulants of S."""
    rows = rank_sum.cumulants(np.zeros(1), s)[2:]
    return float(_bell([row / rank_sum.mean**j for j, row in enumerate(rows, start=1)])[1][0])


def _fraction(rank_sum: RankSum, s: float) -> float:
    return _integrate(rank_sum, [s], 0 if s <= 1 else ceil(s) + 1)[0]


def _integrate(rank_sum: RankSum, powers: list[float], m: int) -> list[float]:
    exponents = np.array([m - s for s in powers])
    # a power that grows like u^a narrows the peak: keep the number of nodes across it
    step = STEP / max(1.0, float(np.sqrt(np.abs(exponents).max() / 4.0)))
    start = float(np.log(max(1.0, np.abs(exponents).max())))
    total = _trapezoid(rank_sum, exponents, m, start, step)
    for _ in range(5):
        finer = (total + _trapezoid(rank_sum, exponents, m, start + step / 2.0, step)) / 2.0
        if not np.isfinite(finer).all() or (np.abs(finer - total) <= AGREE * np.abs(finer)).all():
            return [float(x) for x in finer]
        total, step = finer, step / 2.0
    raise NullDistributionError(
        "the integral for the moments of this metric did not converge",
        got=f"steps down to {step:.3g}",
        do=["use ", Option("method", "sample"), " and its standard error"],
    )


def _trapezoid(rank_sum: RankSum, exponents: Floats, m: int, start: float, step: float) -> Floats:
    """Sum the integrand on `start + step * Z`, outwards until it is negligible."""
    sums = np.zeros(len(exponents))
    largest = np.zeros(len(exponents))
    for direction in (1.0, -1.0):
        v = start if direction > 0 else start - step
        for _ in range(400):
            nodes = v + direction * step * np.arange(32.0)
            values = _integrand(rank_sum, exponents, m, nodes)
            sums += values.sum(axis=1)
            largest = np.maximum(largest, np.abs(values).max(axis=1))
            if (np.abs(values[:, -1]) <= NEGLIGIBLE * largest).all():
                break
            v = nodes[-1] + direction * step
            if abs(v) > 650.0:  # exp(v) would overflow
                raise _too_extreme(float(exponents[0]) - m)
    return sums * step


def _integrand(rank_sum: RankSum, exponents: Floats, m: int, v: Floats) -> Floats:
    u = np.exp(v)
    rows = rank_sum.cumulants(u / rank_sum.mean, m)
    log_laplace, k = rows[:2]
    bell, bell_less_one = np.ones_like(u), np.zeros_like(u)
    if m:
        cumulants = [row / rank_sum.mean**j for j, row in enumerate(rows[2:], start=1)]
        bell, bell_less_one = _bell(cumulants)
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.exp(-u) * (np.expm1(k) * bell + bell_less_one)
        far = np.exp(log_laplace) * bell - np.exp(-u)
    difference = np.nan_to_num(np.where(k > 1.0, far, near))
    return np.stack([_gamma_weight(a, v) * difference for a in exponents])


def _gamma_weight(a: float, v: Floats) -> Floats:
    """Compute `exp(a v) / Gamma(a)`, which is 0 at the poles of Gamma."""
    if a <= 0 and a == int(a):
        return np.zeros_like(v)
    sign = -1.0 if a < 0 and floor(a) % 2 else 1.0
    return np.asarray(sign * np.exp(a * v - lgamma(a)))


def _bell(cumulants: list[Floats]) -> tuple[Floats, Floats]:
    """Compute the m-th moment from cumulants (1 + cumulants[0], cumulants[1], ...), and less 1."""
    less = [np.zeros_like(cumulants[0])]
    for k in range(1, len(cumulants) + 1):
        term = less[k - 1] + cumulants[0] * (1.0 + less[k - 1])
        binomial = 1.0
        for j in range(2, k + 1):
            binomial *= (k - j + 1) / (j - 1)
            term = term + binomial * cumulants[j - 1] * (1.0 + less[k - j])
        less.append(term)
    return 1.0 + less[-1], less[-1]


class PowerMean:
    """The null distribution of a power mean with finite p.

    For p <= 0, a single f = 0 makes the mean 0, and for tiny p > 0 nearly so. Then the distribution is
    that of the ranks where f > 0, from `_skip` + 1 on; the probability of only such ranks is a factor.
    """

    def __init__(self, metric: Metric, sizes: Sizes) -> None:
        """Leave out the ranks where f = 0 makes the mean 0."""
        self.metric, self.sizes, self._cut, self._skip = metric, sizes, sizes, 0
        self._log_positive = 0.0  # log P(no f = 0), if these are left out
        self._log_limit = -inf  # log of the largest mean with an f = 0, if these are left out
        f, p, largest = metric.f, metric.p, int(sizes.size.max())
        self._zeros = f.at(largest if f.falling else 1) == 0
        if not self._zeros or p >= SMALL:
            return
        if f.falling:
            positive = np.minimum(sizes.size, last_true(largest, lambda rank: f.at(rank) > 0))
        else:
            self._skip = last_true(largest, lambda rank: f.at(rank) == 0)
            positive = np.maximum(sizes.size - self._skip, 0)
        self._cut = sizes.resized(np.maximum(positive, 1))
        with np.errstate(divide="ignore"):
            self._log_positive = float((np.log(positive / sizes.size) * sizes.count).sum())
            if p > 0 and self._log_positive > -inf:
                self._log_limit = log(max(self._ends)) + float(np.log1p(-sizes.weight.min())) / p

    @property
    def _ends(self) -> tuple[float, float]:
        """The values of f at the first and the last rank that is not left out."""
        f = self.metric.f
        return f.at(1 + self._skip), f.at(int(self._cut.size.max()) + self._skip)

    @cached_property
    def _sum(self) -> tuple[RankSum, float]:
        x, reference = self._term
        return RankSum(x, self._cut), reference

    @property
    def _term(self) -> tuple[Function, float]:
        """X as a function of the rank among those that are not left out, and its scale."""
        skip = float(self._skip)
        x, reference = self.metric.term(1.0 + skip, float(self._cut.size.max()) + skip)
        return (lambda rank: x(rank + skip)) if skip else x, reference

    def moments(self) -> tuple[Moment, Moment]:
        """Compute mean and variance."""
        p, q, method = self.metric.p, self.metric.q, "formula"
        simple = closed(self.metric, self.sizes)
        if simple is not None:
            return Moment(simple[0], method), Moment(simple[1], method)
        if self.metric.f.k is not None and p > 0 and q == 1 and self.sizes.equal_weights:
            short = self._hits_moments(self.metric.f.k)
            if short is not None:
                return short
        can_vanish = (
            p > 0 and self.metric.f.at(self.sizes.size.min() if self.metric.f.falling else 1) == 0
        )
        if q == -1 and (self._log_positive < 0 or can_vanish):
            raise infinite(self.metric)
        if self._log_positive == -inf:
            return Moment(0.0, method), Moment(0.0, method)
        if self._zeros and 0 < p < SMALL and not self._log_limit < self._log_least - NEVER:
            return self._listed()
        if self._ends[0] == self._ends[1]:
            return self._with_zeros(self._ends[0] ** q, 0.0, method)
        if 0 < abs(p) < SMALL:
            return self._with_zeros(*self._between_powers(), "quadrature")
        rank_sum, reference = self._sum
        if p == 0:
            mean, variance = product(rank_sum, q)
        elif p == q:
            mean, variance = additive(rank_sum)
        else:
            method = "formula" if q / p > 1 and q / p == int(q / p) else "quadrature"
            mean, variance = power(rank_sum, q / p)
        return self._with_zeros(mean * reference**q, variance * reference ** (2 * q), method)

    @property
    def _log_least(self) -> float:
        """A lower bound on the log of the part of the mean without f = 0."""
        return self._log_positive + log(min(self._ends))

    def _with_zeros(self, mean: float, variance: float, method: str) -> tuple[Moment, Moment]:
        """Add the outcomes where f = 0 makes the mean 0."""
        positive = exp(self._log_positive)
        variance = positive * (variance - expm1(self._log_positive) * mean * mean)
        return Moment(mean * positive, method), Moment(variance, method)

    def _listed(self) -> tuple[Moment, Moment]:
        """Compute moments from all values of S, where 1/p is so large that S^(1/p) has no other way."""
        x, reference = self.metric.term(1.0, float(self.sizes.size.max()))
        law = values_of_few(x, self.sizes)
        if law is None:
            raise _too_extreme(self.metric.q / self.metric.p)
        values, probability = law
        values = reference * np.maximum(values, 0.0) ** (1.0 / self.metric.p)
        mean = float((probability * values).sum())
        variance = float((probability * (values - mean) ** 2).sum())
        return Moment(mean, "convolution"), Moment(variance, "convolution")

    def _hits_moments(self, k: int) -> tuple[Moment, Moment] | None:
        """Compute moments from the distribution of the number of hits; None if it is too long.

        Where "no hits" is likely, the integral loses precision, or does not converge for high powers.
        Otherwise the integral is faster.
        """
        trials = Trials.of(self.sizes)
        rate = trials.at(np.array([float(k)]))
        center = float((trials.count * rate).sum())
        reach = 14.0 * float((trials.count * rate * (1.0 - rate)).sum()) ** 0.5 + 40.0
        hits = np.arange(max(0, int(center - reach)), min(trials.n, int(center + reach)) + 1)
        if len(hits) > MOST_HITS or (self.metric.p <= 3 and center > 1):
            return None
        logs = [log_count(rate, trials.count, int(c), tail=False, tilt=True)[0] for c in hits]
        probability, values = np.exp(logs), (hits / trials.n) ** (1.0 / self.metric.p)
        mean = float((probability * values).sum())
        return Moment(mean, "formula"), Moment(
            float((probability * (values - mean) ** 2).sum()), "formula"
        )

    def _between_powers(self) -> tuple[float, float]:
        """Interpolate in p where p is so close to 0 that S^(1/p) overflows.

        Mean and variance are analytic in p (through the geometric mean at 0) up to |p| = 1 or so:
        Chebyshev nodes on [-0.3, 0.3] converge like 6.5^-21, and the smallest of them is harmless.
        """
        angles = (np.arange(21) + 0.5) * np.pi / 21
        nodes = np.where(np.arange(21) == 10, 0.0, 0.3 * np.cos(angles))
        logs = np.log([self._positive(node).moments() for node in nodes.tolist()])
        p = copysign(max(abs(self.metric.p), TINY), self.metric.p)
        weights = (-1.0) ** np.arange(21) * np.sin(angles) / (p - nodes)
        mean, variance = np.exp(weights @ logs / weights.sum())
        return float(mean), float(variance)

    def _positive(self, p: float) -> PowerMean:
        """Return the distribution with another power among the ranks where f > 0."""
        other = object.__new__(PowerMean)
        other.metric = Metric(self.metric.f, p, self.metric.q)
        other.sizes = other._cut = self._cut
        other._skip, other._zeros, other._log_positive = self._skip, False, 0.0
        return other

    def log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value)."""
        f, p = self.metric.f, self.metric.p
        if self.metric.q == -1 and value <= 0:
            return Moment(0.0 if self.metric.increasing else -inf, "formula")
        mean = value if self.metric.q == 1 else 1.0 / value
        best = f.at(1)
        if mean < 0 or (mean == 0 and f.falling):
            return Moment(0.0 if f.falling else -inf, "formula")
        if mean > best * (1.0 + 1e-9) if f.falling else mean < best * (1.0 - 1e-9):
            return Moment(-inf, "formula")
        if f.k is not None and p <= 0:  # 1 if all hit, else 0
            return Moment(self._log_positive, "formula", 1e-15 * abs(self._log_positive))
        if f.k is not None and self.sizes.equal_weights:
            return self._log_hits(f.k, mean**p)
        log_mean = log(mean) if mean > 0 else -inf
        if not self._zeros or p >= SMALL:
            return self._log_sum(log_mean)
        least = log_mean if mean > 0 else UNDERFLOW  # a computed mean of 0 may be tiny
        if least <= self._log_limit:  # the zeros must not be left out
            return self._whole_range()._log_sum(log_mean)
        positive = self._log_sum(log_mean) if mean > 0 and self._log_positive > -inf else None
        if f.falling:
            if positive is None:
                return Moment(-inf, "formula")
            return Moment(self._log_positive + positive, positive.method, positive.error)
        with np.errstate(divide="ignore"):
            log_zero = float(np.log(-np.expm1(self._log_positive)))
        if positive is None:
            return Moment(log_zero, "formula", 1e-15 * abs(log_zero))
        log_p = float(np.logaddexp(log_zero, self._log_positive + positive))
        return Moment(log_p, positive.method, positive.error)

    def _whole_range(self) -> PowerMean:
        """Return the same distribution, with no ranks left out."""
        other = self._positive(self.metric.p)
        other.sizes = other._cut = self.sizes
        other._skip = 0
        return other

    def _log_hits(self, k: int, share: float) -> Moment:
        wanted = ceil(share * self.sizes.n * (1.0 - 1e-12) - 1e-9)
        trials = Trials.of(self.sizes)
        p = trials.at(np.array([float(k)]))
        log_p = float(log_count(p, trials.count, wanted, tail=True, tilt=True)[0])
        return Moment(log_p, "formula", 1e-10 + 1e-14 * abs(log_p) if isfinite(log_p) else 0.0)

    def _log_sum(self, log_mean: float) -> Moment:
        """Compute log P(at least as good) among the ranks that are not left out, from the sum S."""
        f, p, sizes, skip = self.metric.f, self.metric.p, self._cut, self._skip
        upper, whole = f.falling == (p >= 0), 0.0
        term: Function
        if 0 < abs(p) < SMALL and min(self._ends) > 0:  # f^p is 1 but for a few digits
            p = copysign(max(abs(p), TINY), p)
            upper, term = f.falling, lambda rank: np.expm1(p * np.log(f(rank + skip))) / p
            total, x = RankSum(term, sizes), expm1(p * log_mean) / p
        else:
            term, reference = self._term
            total, _ = self._sum
            x = log_mean if p == 0 else exp(p * (log_mean - log(reference)))
            if f.k is not None or (f == RANK and p >= 1 and p == int(p)):
                whole = reference**-p  # all differences of X are multiples
        level = last_true(int(sizes.size.max()), lambda rank: f.at(rank + skip) == f.at(1 + skip))
        best = float((np.log(np.minimum(level, sizes.size) / sizes.size) * sizes.count).sum())
        return log_tail(total, term, sizes, x, upper=upper, best=best, whole=whole)
