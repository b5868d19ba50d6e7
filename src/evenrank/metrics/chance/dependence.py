"""The variance of sums of ranks under a random scorer, whose ranks depend on each other.

A scorer is one function g(h, r, t). A random scorer draws a score for every triple, independently and
from one continuous distribution. Each rank is then uniform, but ranks are not independent: the score of
a test triple decides its rank among tails and its rank among heads, and the targets of a query meet the
same negatives. For a sum `S = sum_i w_i X(R_i)`

    Var S = sum_i w_i^2 Var X(R_i) + sum_{i != j} w_i w_j Cov(X(R_i), X(R_j)),

and only two kinds of pairs have a covariance. Write `n` and `m` for the numbers of candidates.

Within a query, two ranks against the same n - 1 negatives are a and b with the probability
(1 + [a = b])/(n(n + 1)):

    Cov = Var X(R) / (n + 1)     if the targets are filtered from each other's candidates,
    Cov = -Var X(R) / (n - 1)    if they compete with each other (raw ranking),
    Cov = 0                      if only one of the two is a candidate of the other.

Across queries that have a triple in common (a tail query (h, r, ?) and a head query (?, r, t) share
(h, r, t)), condition on the quantile u of the triple's score. Where the triple is the target, the rank
is 1 + Binomial(n - 1, u), with A_n(u) = E X(1 + Binomial(n - 1, u)). Where it is a negative,

    E[X(R) | u] = (n E X(R) - A_n(u)) / (n - 1),

so all covariances are multiples of one integral, `C(n, m) = int_0^1 A_n A_m du - E X(R_n) E X(R_m)`:

    C(n, m)                          target of both queries,
    -C(n, m) / (m - 1)               target of the first and a negative of the second,
    C(n, m) / ((n - 1)(m - 1))       negative of both.

Hence a task is described by two histograms: `within`, a share per number of candidates, and `across`,
a mass per pair of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.metrics.chance._sum import RankSum, Sizes
from evenrank.metrics.metric import RANK, Metric

SMALL = 256  # up to this many candidates, one Gauss rule is exact
NODES = 20  # Gauss nodes per panel beyond
DEGREE = 24  # interpolation nodes for numbers of candidates within a factor of two
TOLERANCE = 1e-11
SPLITS = 5
FEW_HITS = 256  # hits@k up to this k: the binomial distribution function is summed term by term
BATCH = 1 << 20  # binomial probabilities computed at a time


@dataclass(frozen=True, eq=False)
class Dependence:
    """Which ranks depend on each other under a random scorer, summed over pairs of targets.

    Parameters
    ----------
    total : float
        The sum of all weights.
    sizes, shares : ndarray
        Pairs within queries: `Var X(R_n)` counts `shares` times, by number of candidates `sizes`.
    first, second, mass : ndarray
        Pairs across queries: `C(first, second)` counts `mass` times.
    gaps : tuple of str
        What is only approximate, as notes for the user; empty if the dependence is exact.

    Notes
    -----
    Both orders of a pair are counted, so that shares and masses include the factor two of a variance.
    Dependences of targets that share no query and no triple add up with ``+``.

    Examples
    --------
    Two queries of 3 candidates each whose target is the same triple:

    >>> import numpy as np
    >>> none, three = np.zeros(0, dtype=np.int64), np.array([3])
    >>> pair = Dependence(2.0, none, none.astype(float), three, three, np.array([2.0]))
    >>> from evenrank.metrics.metric import MR
    >>> round(pair.excess(MR), 12)  # 2 C(3, 3) / 4, where C(3, 3) = (3 - 1)(3 - 1) / 12
    0.166666666667
    """

    total: float
    sizes: Ints
    shares: Floats
    first: Ints
    second: Ints
    mass: Floats
    gaps: tuple[str, ...] = field(default=())

    def __add__(self, other: Dependence) -> Dependence:
        """Add the pairs of targets that share no query and no triple with these."""
        return Dependence(
            self.total + other.total,
            np.concatenate([self.sizes, other.sizes]),
            np.concatenate([self.shares, other.shares]),
            np.concatenate([self.first, other.first]),
            np.concatenate([self.second, other.second]),
            np.concatenate([self.mass, other.mass]),
            tuple(dict.fromkeys(self.gaps + other.gaps)),
        )

    def excess(self, metric: Metric, largest: int = 1) -> float:
        """Compute the covariances' part of Var S, for weights that sum to one.

        Parameters
        ----------
        metric : Metric
            The metric whose summand is X.
        largest : int
            The largest number of candidates of any target, which sets the unit of X.

        Returns
        -------
        float
            The sum of w_i w_j Cov(X(R_i), X(R_j)) over all pairs of different targets, in units of
            `metric.term`.
        """
        if (metric, largest) not in self._computed:
            self._computed[metric, largest] = self._excess(metric, largest)
        return self._computed[metric, largest]

    @cached_property
    def _computed(self) -> dict[tuple[Metric, int], float]:
        return {}

    def _excess(self, metric: Metric, largest: int) -> float:
        every = (self.sizes, self.first, self.second)
        x = Summand(metric, max(int(sizes.max(initial=largest)) for sizes in every))
        value = self._across(x) if len(self.mass) else 0.0
        if len(self.sizes):
            distinct, place = np.unique(self.sizes, return_inverse=True)
            value += float((self.shares * variances(x, distinct)[place]).sum())
        return value / self.total**2 if self.total else 0.0

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Distinct numbers of candidates, and pairs of their places with the summed mass."""
        distinct, place = np.unique(np.concatenate([self.first, self.second]), return_inverse=True)
        a, b = place[: len(self.first)], place[len(self.first) :]
        key, where = np.unique(np.minimum(a, b) * len(distinct) + np.maximum(a, b), return_inverse=True)
        low, high = np.divmod(key, len(distinct))
        return distinct, low, high, added(where, self.mass)

    @cached_property
    def _condensed(self) -> tuple[Ints, Floats]:
        return self._condense(DEGREE)

    def _condense(self, degree: int) -> tuple[Ints, Floats]:
        """Express the pairs as a matrix of masses between few numbers of candidates.

        As A_n(u) is smooth in n, it is interpolated between a few numbers of candidates per factor of
        two. The interpolation is applied to the masses instead of the functions, once for all metrics.
        """
        distinct, a, b, mass = self._pairs
        some, weights = interpolation(distinct, degree)
        rows = np.zeros((len(distinct), len(some)))
        step = max(1, BATCH // len(some))
        for start in range(0, len(mass), step):
            part = slice(start, start + step)
            np.add.at(rows, a[part], mass[part, None] * weights[b[part]])
        return some, weights.T @ rows

    def condensed(self, degree: int = DEGREE) -> Dependence:
        """Return a dependence with few distinct pairs, and the same variances up to rounding errors.

        Parameters
        ----------
        degree : int
            The most numbers of candidates per factor of two. With 16, variances of MR, MRR, hits@100 and
            the like agree to 13 digits, those of hits@1000 to 8.

        Returns
        -------
        Dependence
            The dependence, for storage.
        """
        some, matrix = self._condense(degree)
        matrix = np.triu(matrix + matrix.T) - np.diag(np.diag(matrix))
        a, b = np.nonzero(matrix)
        return replace(self, first=some[a], second=some[b], mass=matrix[a, b])

    def _across(self, x: Summand) -> float:
        distinct, a, b, mass = self._pairs
        some, matrix = self._condensed
        nodes = panels(int(distinct[-1]), x.splits(distinct[[0, -1]]))
        means = x.given(some, *nodes[:2])
        if not _interpolates(x, distinct, some, means, nodes):
            # a transform with steps: no interpolation, at the cost of every number of candidates
            matrix = np.zeros((len(distinct), len(distinct)))
            np.add.at(matrix, (a, b), mass)
            means = x.given(distinct, *nodes[:2])
        centred = means - (means @ nodes[2])[:, None]
        return float(((matrix @ centred) * centred).sum(axis=0) @ nodes[2])


def added(place: Ints, values: Floats, places: int = 0) -> Floats:
    """Add up values by their places, from 0 to `places` at least."""
    return np.asarray(np.bincount(place, weights=values, minlength=places), dtype=float)


def variances(x: Function, sizes: Ints) -> Floats:
    """Compute Var X(R) for a rank R that is uniform on 1..n, for distinct sizes n in increasing order.

    >>> variances(RANK, np.array([1, 2, 7])).tolist()
    [0.0, 0.25, 4.0]
    """
    single = RankSum(x, Sizes(sizes, np.ones(len(sizes)), np.ones(len(sizes), dtype=np.int64)))
    return np.concatenate([block.variance[block.index] for block in single.blocks])


@lru_cache(maxsize=32)
def panels(largest: int, splits: int = 0) -> tuple[Floats, Floats, Floats]:
    """Return quadrature nodes u on (0, 1), 1 - u without rounding, and weights.

    A_n(u) is a polynomial of degree n - 1, which one Gauss rule integrates exactly if n is small. For
    large n it varies within 1/n of both ends, so panels are graded towards both.
    """
    from numpy.polynomial import legendre  # slow to import

    if largest <= SMALL:
        nodes, weights = legendre.leggauss(largest + 1)
        return (1.0 + nodes) / 2.0, (1.0 - nodes) / 2.0, weights / 2.0
    edges = np.concatenate([[0.0], 0.5 ** np.arange(int(np.log2(largest)) + 3, 0, -1.0)])
    for _ in range(splits):
        edges = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2.0]))
    nodes, weights = legendre.leggauss(NODES)
    length = np.diff(edges)[:, None]
    low = (edges[:-1, None] + length * (1.0 + nodes) / 2.0).ravel()
    half = (length * weights / 2.0).ravel()
    return (
        np.concatenate([low, 1.0 - low[::-1]]),
        np.concatenate([1.0 - low, low[::-1]]),
        np.concatenate([half, half[::-1]]),
    )


class Summand:
    """The summand X(rank) of a metric, and its expectations given the quantile of the target.

    Parameters
    ----------
    metric : Metric
        The metric, `g(sum w X)`.
    largest : int
        The largest rank.
    closed : bool
        Whether to use closed forms for MR, MRR and hits@k instead of summing over ranks.
    """

    def __init__(self, metric: Metric, largest: int, *, closed: bool = True) -> None:
        self.x, _ = metric.term(1.0, float(largest))
        self.form = (metric.f.name, metric.p) if metric.f == RANK else None
        self.k = metric.f.k if metric.p > 0 else None
        self.closed = closed

    def __call__(self, rank: Floats) -> Floats:
        """Evaluate X."""
        return self.x(rank)

    def given(self, sizes: Ints, u: Floats, v: Floats) -> Floats:
        """Compute A_n(u) = E X(1 + Binomial(n - 1, u)) by size n and node u, where v = 1 - u."""
        n = sizes[:, None].astype(float)
        if self.closed and self.form == ("rank", 1.0):
            return np.asarray(1.0 + (n - 1.0) * u)
        if self.closed and self.form == ("rank", -1.0):
            return np.asarray(-np.expm1(n * np.log(v)) / (n * u))
        if self.closed and self.k is not None and self.k <= FEW_HITS:
            return _at_most(self.k - 1, n - 1.0, u, v)
        if self.closed and self.k is not None:
            from scipy.special import betainc

            more = n - self.k  # P(Binomial(n - 1, u) <= k - 1); certain up to k candidates
            return np.where(more > 0, betainc(np.maximum(more, 1.0), float(self.k), v), 1.0)
        return np.stack([_binomial_mean(self.x, size - 1, u, v) for size in sizes.tolist()])

    def splits(self, sizes: Ints) -> int:
        """Find how often panels must be halved until the variances of A_n converge."""
        if int(sizes.max()) <= SMALL:
            return 0
        previous = np.full(len(sizes), np.inf)
        for splits in range(SPLITS):
            u, v, weight = panels(int(sizes.max()), splits)
            means = self.given(sizes, u, v)
            value = (means - (means @ weight)[:, None]) ** 2 @ weight
            if (np.abs(value - previous) <= TOLERANCE * value).all():
                return max(0, splits - 1)
            previous = value
        return SPLITS


def _at_most(k: int, n: Floats, u: Floats, v: Floats) -> Floats:
    """Compute P(Binomial(n, u) <= k), term by term."""
    term = np.exp(n * np.log(v))
    total = term.copy()
    for j in range(k):
        term = term * np.maximum(n - j, 0.0) / (j + 1.0) * (u / v)
        total += term
    return total


def _binomial_mean(x: Function, n: int, u: Floats, v: Floats) -> Floats:
    """Compute E X(1 + B) for B ~ Binomial(n, u), from probabilities relative to the mode's.

    Products of ratios need no factorials, and normalising them makes the result accurate.
    """
    if n == 0:
        return np.full(len(u), float(x(np.ones(1))[0]))
    table = x(np.arange(1.0, n + 2.0)) if n < BATCH else None
    mode = np.minimum(np.floor((n + 1) * u), n).astype(np.int64)
    reach = np.minimum(np.ceil(9.5 * np.sqrt(n * u * v) + 30.0), n + 1).astype(np.int64)
    order = np.argsort(reach, kind="stable")
    out = np.empty(len(u))
    start = 0
    while start < len(order):
        stop = start + 1
        # nodes with similar reach together, within the memory of a batch
        limit = max(64, 2 * int(reach[order[start]]))
        while stop < len(order) and reach[order[stop]] <= limit and (stop - start) * limit * 2 < BATCH:
            stop += 1
        rows = order[start:stop]
        steps = np.arange(int(reach[rows[-1]]))
        j, odds = mode[rows, None], (u[rows] / v[rows])[:, None]
        up, down = j + steps, j - steps
        rising = np.cumprod(np.maximum(n - up, 0) / (up + 1.0) * odds, axis=1)
        falling = np.cumprod(np.maximum(down, 0) / (n - down + 1.0) / odds, axis=1)
        above, below = np.minimum(up + 2, n + 1), np.maximum(down, 1)
        at = [x(r.astype(float)) if table is None else table[r - 1] for r in (above, below, j + 1)]
        total = 1.0 + rising.sum(axis=1) + falling.sum(axis=1)
        value = at[2][:, 0] + (rising * at[0]).sum(axis=1) + (falling * at[1]).sum(axis=1)
        out[rows] = value / total
        start = stop
    return out


def interpolation(sizes: Ints, degree: int) -> tuple[Ints, Floats]:
    """Choose few sizes, and the weights that interpolate functions of the size between them.

    Sizes within a factor of two of each other are interpolated between Chebyshev points; where there are
    few sizes, they are kept as they are.
    """
    octave = np.frexp(sizes.astype(float))[1]
    chosen, blocks = [], []
    for level in np.unique(octave):
        mine = sizes[octave == level]
        if len(mine) <= degree + 8:
            chosen.append(mine)
            blocks.append(np.eye(len(mine)))
            continue
        low, high = float(mine[0]), float(mine[-1])
        angles = np.cos(np.pi * np.arange(degree) / (degree - 1))
        nodes = np.unique(np.round((low + high) / 2.0 - (high - low) / 2.0 * angles))
        chosen.append(nodes.astype(np.int64))
        blocks.append(_lagrange(nodes, mine.astype(float)))
    weights = np.zeros((len(sizes), sum(map(len, chosen))))
    row = column = 0
    for block in blocks:
        weights[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return np.concatenate(chosen), weights


def _lagrange(nodes: Floats, at: Floats) -> Floats:
    """Return the matrix that interpolates from nodes to other points (barycentric formula)."""
    gaps = (nodes[:, None] - nodes) * (4.0 / (nodes[-1] - nodes[0]))
    np.fill_diagonal(gaps, 1.0)
    weight = 1.0 / gaps.prod(axis=1)
    away = at[:, None] - nodes
    hit = away == 0
    terms = weight / np.where(hit, 1.0, away)
    terms /= terms.sum(axis=1, keepdims=True)
    return np.asarray(np.where(hit.any(axis=1, keepdims=True), hit.astype(float), terms))


def _interpolates(
    x: Summand, sizes: Ints, some: Ints, means: Floats, nodes: tuple[Floats, Floats, Floats]
) -> bool:
    """Whether interpolation between some sizes reproduces the functions A_n of others."""
    octave = np.frexp(some.astype(float))[1]
    others = np.setdiff1d(sizes, some)
    for n in others[np.linspace(0, len(others) - 1, min(3, len(others))).astype(int)]:
        near = octave == np.frexp(float(n))[1]
        guess = _lagrange(some[near].astype(float), np.array([float(n)])) @ means[near]
        true = x.given(np.array([n]), *nodes[:2])
        spread = np.sqrt(((true - true @ nodes[2]) ** 2) @ nodes[2])
        if np.sqrt(((guess - true) ** 2) @ nodes[2]) > 1e-9 * spread:
            return False
    return True
