"""The distribution of `S = sum_i w_i X(r_i)` for independent ranks `r_i ~ Uniform{1..N_i}`.

Moments and tails are computed from the cumulant generating function of the centred sum

    K(t) = log E exp(-t (S - E S)) = sum_u c_u log E exp(-t w_u (X(r_u) - E X(r_u)))

over the distinct (size, weight) pairs u, and the cumulants of S under the tilt exp(-t S). Costs are
per distinct size and weight, not per target.

Precision. Sizes are processed in blocks within a factor of two, with one centre per block, so that
one running sum over the ranks serves all sizes of a block while E(X - c) stays below its spread. With
`d = X - c`, `m = E d`, `R = E[exp(-td) - 1 + td]` and `x = E[exp(-td) - 1] = R - t m`,

    log E exp(-t (d - m)) = log1p(x) + t m = (log1p(x) - x) + R,

without cancellation for any t. There are four methods, by the reach `|t w| max|d|`: up to 0.1, the power
series of K itself, whose cumulants are added up over all pairs once, so that a node costs twenty
multiplications in all (with many targets, nearly every node); up to 1, the series of R in the moments
of d; beyond, exponentials of d; and where those would overflow, exponentials of X less the end that
dominates. There `t E S` is much larger than all other terms, so the uncentred `log E exp(-t S)` is kept
beside K: it is precise where K - t E S is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank._internal.quadrature import Rule

TERMS = 20  # 1/20! < 1e-18: enough for a reach of one
NEAR = 0.1  # reach of the cumulant series: log E exp(-td) has no singularity closer than pi/2
CHUNK = 1 << 18  # elements worked on at a time: small enough for the second-level cache


class Sizes:
    """Distinct pairs of (size, weight) with their counts; the weights of all targets sum to one."""

    __slots__ = ("count", "n", "size", "weight")

    def __init__(self, size: Ints, weight: Floats, count: Ints) -> None:
        """Drop pairs of weight zero and normalise the others."""
        keep = weight > 0
        self.size = size[keep]
        self.count = count[keep].astype(float)
        self.n = int(count[keep].sum())
        raw = weight[keep] / weight[keep].max()
        equal = bool((raw == raw[0]).all())
        self.weight = np.full(len(raw), 1.0 / self.n) if equal else raw / float((raw * self.count).sum())

    @property
    def equal_weights(self) -> bool:
        """Whether all targets weigh the same."""
        return bool((self.weight == self.weight[0]).all())

    def resized(self, size: Ints) -> Sizes:
        """Return the same targets with other numbers of candidates."""
        other = object.__new__(Sizes)
        other.size, other.weight, other.count, other.n = size, self.weight, self.count, self.n
        return other


def log1pmx(x: Floats) -> Floats:
    """Compute `log(1 + x) - x` without cancellation.

    With `r = x/(2+x)`: `log1p(x) = 2 atanh(r)`, so the difference is `-x r + 2 (r^3/3 + r^5/5 + ...)`.
    """
    r = x / (2.0 + x)
    square = np.where(np.abs(x) <= 0.5, r * r, 0.0)
    series = np.zeros_like(x)
    for k in range(37, 1, -2):
        series = series * square + 1.0 / k
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.log1p(x) - x
    return np.where(np.abs(x) <= 0.5, -x * r + 2.0 * r * square * series, plain)


def cumulants_from_moments(raw: list[Floats]) -> list[Floats]:
    """Convert raw moments 1..k to cumulants 1..k."""
    cumulants: list[Floats] = []
    for k, moment in enumerate(raw, start=1):
        term, binomial = moment, 1.0
        for j in range(1, k):
            term = term - binomial * cumulants[j - 1] * raw[k - j - 1]
            binomial *= (k - j) / j
        cumulants.append(term)
    return cumulants


class _Block:
    """Sizes within a factor of two of each other, and X centred at one constant."""

    def __init__(self, x: Function, size: Ints, weight: Floats, count: Floats) -> None:
        self.distinct, self.index = np.unique(size, return_inverse=True)
        self.weight, self.count = weight, count
        self.rule = Rule(np.concatenate([[1], self.distinct[:-1] + 1]), self.distinct, x)
        self.x = x(self.rule.points)
        # X is monotone, so a size's extremes are at rank 1 and at rank N
        self.ends = np.stack([x(np.ones(len(self.distinct))), x(self.distinct.astype(float))])
        self.center = float(self.expect(self.x)[len(self.distinct) // 2])
        self.d = self.x - self.center
        self.spread = float(np.abs(self.d).max())
        self.scaled = self.d / self.spread if self.spread else self.d
        self._power = np.ones_like(self.d)
        self._moments: list[Floats] = []

    def expect(self, values: Floats) -> Floats:
        """Average values at the points over 1..N for each distinct size N (last axis)."""
        return np.asarray(np.cumsum(self.rule.sum(values), axis=-1) / self.distinct)

    def moment(self, k: int) -> Floats:
        """Compute `E d^k` in units of the spread, by distinct size."""
        while len(self._moments) < k:
            self._power = self._power * self.scaled
            self._moments.append(self.expect(self._power))
        return self._moments[k - 1]

    @property
    def mean(self) -> Floats:
        """E X by distinct size."""
        return self.center + self.spread * self.moment(1)

    @property
    def variance(self) -> Floats:
        """Var X by distinct size."""
        return np.asarray(self.spread**2 * (self.moment(2) - self.moment(1) ** 2))

    def cumulants_of_sum(self, order: int, unit: float) -> Floats:
        """Compute cumulants 1..order of the block's part of S, in a unit; the first is centred."""
        per_size = cumulants_from_moments([self.moment(k) for k in range(1, order + 1)])
        share = self.weight * self.spread / unit
        return np.array(
            [(self.count * share**k * c[self.index]).sum() for k, c in enumerate(per_size, start=1)]
        )

    def series(self, tau: Floats, pairs: slice, order: int) -> list[Floats]:
        """Compute log E exp(-tau X), K and cumulants by pair and node, for a reach up to one."""
        at = self.index[pairs]
        scaled = -tau * self.spread

        def exponential(j: int, first: int) -> Floats:  # sum_{k >= first} scaled^k E d^(k+j)/k!
            total = np.zeros_like(scaled)
            for k in range(TERMS, first, -1):
                total = (total + self.moment(k + j)[at, None]) * scaled / k
            total += self.moment(first + j)[at, None]
            for k in range(first, 0, -1):
                total = total * scaled / k
            return total

        r = exponential(0, 2)
        x = r + scaled * self.moment(1)[at, None]
        k0 = log1pmx(x) + r
        out = [k0 - tau * self.mean[at, None], k0]
        if order:
            m = [self.moment(k)[at, None] for k in range(1, order + 1)]
            tilt = [exponential(k, 1) for k in range(1, order + 1)]
            out += self._cumulants(m, tilt, x)
        return out

    def _cumulants(self, m: list[Floats], tilt: list[Floats], x: Floats) -> list[Floats]:
        """Compute tilted cumulants from `E d^k` and `E[d^k (exp(-td) - 1)]`, in units of X."""
        shift = (tilt[0] - m[0] * x) / (1.0 + x)
        raw = [(mk + tk) / (1.0 + x) for mk, tk in zip(m, tilt, strict=True)]
        cumulants = [shift, *cumulants_from_moments(raw)[1:]]
        return [c * self.spread**k for k, c in enumerate(cumulants, start=1)]

    def direct(self, tau: Floats, order: int) -> list[Floats]:
        """Compute the same by node and distinct size from exponentials, for any reach."""
        y = -np.multiply.outer(tau, self.d)
        if y.max() <= 1.0:
            e = np.expm1(y)
            x = self.expect(e)
            k0 = log1pmx(x) + self.expect(e - y)
            out = [k0 - tau[:, None] * self.mean, k0]
            if order:
                tilt = [self.expect(e * self.scaled**k) for k in range(1, order + 1)]
                out += self._cumulants([self.moment(k) for k in range(1, order + 1)], tilt, x)
            return out
        end = np.where(tau > 0, self.x.min(), self.x.max())[:, None]
        weights = np.exp(-tau[:, None] * (self.x - end))
        total = self.expect(weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_total = np.log(total)
            out = [log_total - tau[:, None] * end, log_total + tau[:, None] * (self.mean - end)]
            if order:
                raw = [self.expect(weights * self.scaled**k) / total for k in range(1, order + 1)]
                cumulants = cumulants_from_moments(raw)
                cumulants[0] = cumulants[0] - self.moment(1)
                out += [c * self.spread**k for k, c in enumerate(cumulants, start=1)]
        return out


def uniform_moments(x: Function, size: Ints) -> tuple[Floats, Floats]:
    """Compute mean and variance of X(r), r uniform on 1..N, for ascending distinct sizes N."""
    ends = np.flatnonzero(np.diff(np.frexp(size.astype(float))[1])) + 1
    ones = np.ones(len(size))
    blocks = [_Block(x, part, ones, ones) for part in np.split(size, ends)]
    return np.concatenate([b.mean for b in blocks]), np.concatenate([b.variance for b in blocks])


class RankSum:
    """The null distribution of `S = sum w X(rank)`: moments, K(t) and tilted cumulants."""

    def __init__(self, x: Function, sizes: Sizes) -> None:
        """Prepare one running sum per block of sizes."""
        octave = np.frexp(sizes.size.astype(float))[1]
        _, level = np.unique(sizes.weight, return_inverse=True)
        # one weight per block: each weight has its own exponentials, at its own sizes
        _, block = np.unique(level * 64 + octave, return_inverse=True)
        order = np.argsort(block, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(block))[:-1])
        self.blocks = [
            _Block(x, sizes.size[part], sizes.weight[part], sizes.count[part]) for part in parts
        ]
        self._kappa: Floats = np.zeros(0)

    def _sum(self, per_size: str, power: int) -> float:
        return sum(
            float((b.count * b.weight**power * getattr(b, per_size)[b.index]).sum()) for b in self.blocks
        )

    @cached_property
    def mean(self) -> float:
        """E S."""
        return self._sum("mean", 1)

    @cached_property
    def variance(self) -> float:
        """Var S."""
        return self._sum("variance", 2)

    @cached_property
    def skewness(self) -> float:
        """Third standardised cumulant of S."""
        third = float(self.cumulants(np.zeros(1), 3)[4, 0])
        return float(third / self.variance**1.5)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value S can take."""
        low = high = 0.0
        for b in self.blocks:
            mass = b.count * b.weight
            low += float((mass * b.ends.min(axis=0)[b.index]).sum())
            high += float((mass * b.ends.max(axis=0)[b.index]).sum())
        return low, high

    def cumulants(self, t: Floats, order: int = 0) -> Floats:
        """Compute log E exp(-t S), K(t), and the first cumulants of S - E S tilted by exp(-t S).

        The result has the shape (order + 2, len(t)).
        """
        t = np.asarray(t, dtype=float)
        out = np.zeros((order + 2, len(t)))
        close = np.abs(t) * self._unit <= NEAR
        out[:, close] = self._near(t[close], order)
        for block in self.blocks if not close.all() else ():
            if not block.spread:
                out[0, ~close] -= t[~close] * block.center * float((block.weight * block.count).sum())
                continue
            for nodes, weight, terms in self._parts(block, t, np.flatnonzero(~close), order):
                for k, term in enumerate(terms):
                    out[k, nodes] += (term * weight[:, None] ** max(0, k - 1)).sum(axis=0)
        return out

    @cached_property
    def _unit(self) -> float:
        """The largest reach at t = 1."""
        return max(block.spread * float(block.weight.max()) for block in self.blocks)

    def _near(self, t: Floats, order: int) -> Floats:
        """Compute the same by the power series of K, for a reach up to NEAR."""
        if len(self._kappa) < TERMS + order and self._unit:
            parts = [block.cumulants_of_sum(TERMS + order, self._unit) for block in self.blocks]
            self._kappa = np.sum(parts, axis=0)
        scaled = -t * self._unit
        out = np.zeros((order + 2, len(t)))
        for j in range(order + 1) if self._unit else ():
            first = max(0, 2 - j)  # row j + 1 is the j-th derivative, less the mean in K and K'
            for k in range(TERMS, first, -1):
                out[j + 1] = (out[j + 1] + self._kappa[k + j - 1]) * scaled / k
            out[j + 1] += self._kappa[first + j - 1]
            for k in range(first, 0, -1):
                out[j + 1] *= scaled / k
            out[j + 1] *= self._unit**j
        out[0] = out[1] - t * self.mean
        return out

    def _parts(
        self, block: _Block, t: Floats, wanted: Ints, order: int
    ) -> Iterator[tuple[Ints, Floats, list[Floats]]]:
        """Yield nodes, weights of pairs, and the contributions of the pairs at the nodes, in chunks."""
        levels, level = np.unique(block.weight, return_inverse=True)
        reach = np.abs(t) * block.spread
        nodes = wanted[reach[wanted] * levels[0] <= 1.0]
        step = max(1, CHUNK // max(1, len(nodes)))
        for first in range(0, len(level) if len(nodes) else 0, step):
            pairs = slice(first, first + step)
            weight = block.weight[pairs]
            tau = np.multiply.outer(weight, t[nodes])
            small = np.abs(tau) * block.spread <= 1.0
            count = np.where(small, block.count[pairs, None], 0.0)
            terms = block.series(np.where(small, tau, 0.0), pairs, order)
            yield nodes, weight, [count * term for term in terms]
        for v, w in enumerate(levels):
            mine = np.flatnonzero(level == v)
            nodes = wanted[reach[wanted] * w > 1.0]
            step = max(1, CHUNK // len(block.d))
            for first in range(0, len(nodes), step):
                part = nodes[first : first + step]
                terms = block.direct(w * t[part], order)
                yield (
                    part,
                    block.weight[mine],
                    [(term[:, block.index[mine]] * block.count[mine]).T for term in terms],
                )
