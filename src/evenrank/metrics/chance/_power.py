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
from math import ceil, exp, expm1, floor, inf, isfinite, lgamma, log, log1p

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank._internal.quadrature import last_true
from evenrank.errors import NullDistributionError, Option
from evenrank.metrics.chance._count import Trials, log_count
from evenrank.metrics.chance._moment import Moment, infinite
from evenrank.metrics.chance._sum import RankSum, Sizes
from evenrank.metrics.chance._tails import log_tail
from evenrank.metrics.metric import RANK, Metric

STEP = 0.4
AGREE = 1e-7  # the error of the finer of two rules is about the square of their difference
NEGLIGIBLE = 1e-19
MOST_HITS = 250  # up to here, numbers of hits are enumerated
SMALL = 0.04  # powers closer to 0 are interpolated


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
        first, second = _harmonic(n)
        mean = first / n
        variance = np.maximum(second / n - mean * mean, 0.0)
    else:
        return None
    mass = sizes.count * sizes.weight
    return float((mass * mean).sum()), float((mass * sizes.weight * variance).sum())


def _harmonic(n: Floats) -> tuple[Floats, Floats]:
    """Sum 1/j and 1/j^2 for j up to n, by Euler-Maclaurin from n = 64 on."""
    j = np.arange(1.0, 64.0)
    small = np.minimum(n, 63.0).astype(int) - 1
    x = 1.0 / np.maximum(n, 64.0)
    y = x * x
    first = np.log(np.maximum(n, 64.0)) + np.euler_gamma
    first += x / 2 - y / 12 + y**2 / 120 - y**3 / 252 + y**4 / 240
    second = np.pi**2 / 6 - x + y / 2 - x * y / 6 + x * y**2 / 30 - x * y**3 / 42 + x * y**4 / 30
    return (
        np.where(n < 64, np.cumsum(1.0 / j)[small], first),
        np.where(n < 64, np.cumsum(1.0 / j**2)[small], second),
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

    For p <= 0, a single f = 0 makes the mean 0. Then the sizes are cut to the ranks where f > 0, and the
    probability that all ranks are among these is a factor.
    """

    def __init__(self, metric: Metric, sizes: Sizes) -> None:
        """Cut the sizes where f = 0 makes the mean 0."""
        self.metric, self.sizes, self._cut, self._log_positive = metric, sizes, sizes, 0.0
        largest = int(sizes.size.max())
        if metric.p <= 0 and metric.f.at(largest) == 0:
            self._cut = sizes.capped(last_true(largest, lambda rank: metric.f.at(rank) > 0))
            shares = np.log(self._cut.size / sizes.size) * sizes.count
            self._log_positive = float(shares.sum())

    @cached_property
    def _sum(self) -> tuple[RankSum, float]:
        x, reference = self.metric.term(1.0, float(self._cut.size.max()))
        return RankSum(x, self._cut), reference

    def moments(self) -> tuple[Moment, Moment]:
        """Compute mean and variance."""
        p, q, method = self.metric.p, self.metric.q, "formula"
        simple = closed(self.metric, self.sizes)
        if simple is not None:
            return Moment(simple[0], method), Moment(simple[1], method)
        if 0 < abs(p) < SMALL and self.metric.f.at(self.sizes.size.max()) > 0:
            return self._between_powers()
        if self.metric.f.k is not None and p > 0 and q == 1 and self.sizes.equal_weights:
            short = self._hits_moments(self.metric.f.k)
            if short is not None:
                return short
        rank_sum, reference = self._sum
        can_vanish = p > 0 and self.metric.f.at(self.sizes.size.min()) == 0
        if q == -1 and (self._log_positive < 0 or can_vanish):
            raise infinite(self.metric)
        if p == 0:
            mean, variance = product(rank_sum, q)
        elif p == q:
            mean, variance = additive(rank_sum)
        else:
            method = "formula" if q / p > 1 and q / p == int(q / p) else "quadrature"
            mean, variance = power(rank_sum, q / p)
        mean, variance = mean * reference**q, variance * reference ** (2 * q)
        if self._log_positive < 0:
            positive = exp(self._log_positive)
            variance = positive * (variance + (1.0 - positive) * mean * mean)
            mean *= positive
        return Moment(mean, method), Moment(variance, method)

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

    def _between_powers(self) -> tuple[Moment, Moment]:
        """Interpolate in p where p is so close to 0 that S^(1/p) overflows.

        Mean and variance are analytic in p (through the geometric mean at 0) up to |p| = 1 or so:
        Chebyshev nodes on [-0.3, 0.3] converge like 6.5^-21, and the smallest of them is harmless.
        """
        angles = (np.arange(21) + 0.5) * np.pi / 21
        nodes = np.where(np.arange(21) == 10, 0.0, 0.3 * np.cos(angles))
        means = [PowerMean(Metric(self.metric.f, p, self.metric.q), self.sizes) for p in nodes]
        logs = np.log([one.moments() for one in means])
        weights = (-1.0) ** np.arange(21) * np.sin(angles) / (self.metric.p - nodes)
        mean, variance = np.exp(weights @ logs / weights.sum())
        return Moment(float(mean), "quadrature"), Moment(float(variance), "quadrature")

    def log_tail(self, value: float) -> Moment:
        """Compute log P(at least as good as the value)."""
        beyond = (
            value / self.metric.best if self.metric.increasing else self.metric.best / (value or 1e-300)
        )
        if beyond > 1.0 + 1e-9:
            return Moment(-inf, "formula")
        if value <= 0 or value > 1e300:
            certain = (value <= 0) == self.metric.increasing
            return Moment(0.0 if certain else -inf, "formula")
        mean = value if self.metric.q == 1 else 1.0 / value
        if self.metric.f.k is not None and self.metric.p <= 0:  # 1 if all hit, else 0
            return Moment(self._log_positive if mean <= 1.0 + 1e-12 else -inf, "formula")
        if self.metric.f.k is not None and self.sizes.equal_weights:
            return self._log_hits(self.metric.f.k, mean**self.metric.p)
        return self._log_sum(mean)

    def _log_hits(self, k: int, share: float) -> Moment:
        wanted = ceil(share * self.sizes.n * (1.0 - 1e-12) - 1e-9)
        trials = Trials.of(self.sizes)
        p = trials.at(np.array([float(k)]))
        log_p = float(log_count(p, trials.count, wanted, tail=True, tilt=True)[0])
        return Moment(log_p, "formula", 1e-10 + 1e-14 * abs(log_p) if isfinite(log_p) else 0.0)

    def _log_sum(self, mean: float) -> Moment:
        (rank_sum, reference), f, p, sizes = self._sum, self.metric.f, self.metric.p, self._cut
        level = last_true(int(sizes.size.max()), lambda rank: f.at(rank) == f.at(1))
        log_best = float((np.log(np.minimum(level, sizes.size) / sizes.size) * sizes.count).sum())
        whole = 0.0  # what all differences of X are multiples of, if known
        if f.k is not None or (f == RANK and p >= 1 and p == int(p)):
            whole = reference**-p
        term, _ = self.metric.term(1.0, float(sizes.size.max()))
        log_p = log_tail(
            rank_sum,
            term,
            sizes,
            log(mean) if p == 0 else (mean / reference) ** p,
            upper=f.falling == (p >= 0),  # whether better means a larger S
            best=log_best,
            whole=whole,
        )
        return Moment(self._log_positive + log_p, log_p.method, log_p.error)
