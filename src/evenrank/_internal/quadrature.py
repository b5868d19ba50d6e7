"""Sums of a function over ranges of integers, at a cost that hardly grows with the range.

Every expectation in this library is a sum `sum_{j=lo}^{hi} g(j)` over ranks. Up to a few hundred
terms are simply added up. A longer range is cut into panels `[a, b)` with `b <= 2a`; on a panel
`g` is replaced by its Legendre expansion through 24 Gauss nodes, and the *discrete* sum of each
Legendre polynomial is known exactly from the (for polynomials finite) midpoint Euler-Maclaurin
formula. So a sum over 10^8 ranks costs about 500 evaluations and keeps full precision: on a panel of
ratio two, a function like `log r` or `r^p` (singular at 0) converges like 5.8^-24 ~ 5e-19.

Functions that turn out not to be smooth on a panel have it bisected, at worst down to single
integers, so a step or a cut-off costs points, never digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import factorial

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.errors import InputError

NODES = 24
DIRECT = 128  # ranges up to this long are added up term by term
SHORT = 40  # the same in sums over pairs, where terms are expensive
PIECES = 4.0  # pieces per `reach`: ten exponents each, which 24 nodes resolve to full precision
MOST_POINTS = 30_000_000  # a function that needs more is not smooth: raise instead of exhausting memory


def last_true(limit: int, holds: Callable[[int], bool]) -> int:
    """Find by bisection the last integer up to `limit` for which a monotone condition holds.

    >>> last_true(100, lambda x: x * x < 50)
    7
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


@cache
def _panel_rule() -> tuple[Floats, Floats, Floats]:
    """Gauss nodes, the map from values to Legendre coefficients, and the discrete-sum weights.

    The weight of node i on a panel of L integers is `sum_r T[i, r] h^(2r-1)` with `h = 2/L`:
    `sum_j P_k(x_j) = [k = 0] 2/h + sum_r D_r h^(2r-1) 2 P_k^(2r-1)(1)` for even k (zero for odd k),
    `D_r = B_2r(1/2)/(2r)!`, `P_k^(m)(1) = (k+m)! / (2^m m! (k-m)!)`.
    """
    nodes, weights = legendre.leggauss(NODES)
    vandermonde = legendre.legvander(nodes, NODES - 1)
    to_coefficients = (vandermonde * weights[:, None]).T * (np.arange(NODES)[:, None] + 0.5)
    # sinh's reciprocal series: (t/2)/sinh(t/2) = sum B_2r(1/2) t^2r/(2r)!, inverted term by term
    series = [1.0 / (4.0**r * factorial(2 * r + 1)) for r in range(NODES // 2 + 1)]
    midpoint = [1.0]
    for r in range(1, NODES // 2 + 1):
        midpoint.append(-sum(series[i] * midpoint[r - i] for i in range(1, r + 1)))
    moments = np.zeros((NODES, NODES // 2 + 1))
    moments[0, 0] = 2.0
    for k in range(2, NODES, 2):
        for r in range(1, k // 2 + 1):
            m = 2 * r - 1
            derivative = factorial(k + m) / (2.0**m * factorial(m) * factorial(k - m))
            moments[k, r] = 2.0 * midpoint[r] * derivative
    return nodes, to_coefficients, to_coefficients.T @ moments


def _smooth(
    f: Function, start: Ints, stop: Ints, *, tolerance: float, floor: float
) -> NDArray[np.bool_]:
    """Whether the Legendre series of f has converged on each panel."""
    if not len(start):
        return np.zeros(0, dtype=bool)
    nodes, to_coefficients, _ = _panel_rule()
    values = f(_panel_points(nodes, start, stop - start).ravel()).reshape(-1, NODES)
    coefficients = values @ to_coefficients.T
    scale = np.maximum(np.abs(values).max(axis=1), floor)
    # A step between an end and the first node is invisible to the nodes: check the end integers too.
    last = legendre.legvander(1.0 - 1.0 / (stop - start), NODES - 1) * coefficients
    first = last * (-1.0) ** np.arange(NODES)
    ends = f(np.concatenate([start, stop - 1]).astype(float)).reshape(2, -1)
    missed = np.abs(np.stack([first.sum(axis=1), last.sum(axis=1)]) - ends).max(axis=0)
    tail = np.abs(coefficients[:, -4:]).max(axis=1)
    return np.asarray((tail <= tolerance * scale) & (missed <= 100 * tolerance * scale))


def _panel_points(nodes: Floats, start: Floats | Ints, length: Floats | Ints) -> Floats:
    half = length / 2.0
    return np.asarray((start + half - 0.5)[:, None] + half[:, None] * nodes)


def gauss_panels(start: Floats, length: Floats) -> tuple[Floats, Floats]:
    """Points and weights of panels, in rows; a length that is not whole continues the sum analytically.

    Panels are at least `SHORT` long: the weights of shorter ones nearly cancel.
    """
    nodes, _, table = _panel_rule()
    powers = (2.0 / length)[:, None] ** (2 * np.arange(NODES // 2 + 1) - 1)
    return _panel_points(nodes, start, length), np.asarray(powers @ table.T)


class Rule:
    """Points and weights that sum any function as smooth as `f` over the ranges `[lo, hi]`.

    >>> rule = Rule([1, 5], [4, 10**8], np.log)
    >>> rule.sum(np.log(rule.points)).round(3).tolist()  # log 4!, log (10^8)! - log 4!
    [3.178, 1742068081.346]
    >>> len(rule.points) < 1000
    True
    """

    __slots__ = ("_starts", "_unit", "points", "weights")

    def __init__(
        self,
        lo: Ints | list[int],
        hi: Ints | list[int],
        f: Function,
        *,
        octaves: bool = True,
        tolerance: float = 1e-13,
        floor: float = 0.0,
        direct: int = DIRECT,
    ) -> None:
        """Cut the ranges into terms and panels.

        `octaves` keeps every panel within a factor of two, as functions singular at rank 0 need.
        Convergence is judged against the panel's largest value, or `floor` if that is larger. Ranges
        up to `direct` are added up term by term.
        """
        start = np.asarray(lo, dtype=np.int64)
        stop = np.asarray(hi, dtype=np.int64) + 1
        row = np.arange(len(start))
        terms: list[tuple[Ints, Ints, Ints]] = []
        panels: list[tuple[Ints, Ints, Ints]] = []
        total = 0
        while len(start):
            short = stop - start <= direct
            terms.append((start[short], stop[short], row[short]))
            total += int((stop - start)[short].sum())
            start, stop, row = start[~short], stop[~short], row[~short]
            wide = (stop > 2 * start) if octaves else np.zeros(len(start), dtype=bool)
            fine = ~wide
            fine[fine] = _smooth(f, start[fine], stop[fine], tolerance=tolerance, floor=floor)
            panels.append((start[fine], stop[fine], row[fine]))
            total += NODES * int(fine.sum())
            if total > MOST_POINTS:
                raise InputError(
                    "the function of the rank is too rough to sum over so many candidates",
                    got=f"more than {MOST_POINTS:,} points",
                    do="use a smooth function of the rank, or fewer candidates",
                )
            start, stop, row, wide = start[~fine], stop[~fine], row[~fine], wide[~fine]
            middle = np.where(wide, np.maximum(2 * start, direct), (start + stop) // 2)
            start, stop = np.concatenate([start, middle]), np.concatenate([middle, stop])
            row = np.concatenate([row, row])
        self._collect(terms, panels, len(np.atleast_1d(np.asarray(lo))))

    def _collect(
        self, terms: list[tuple[Ints, Ints, Ints]], panels: list[tuple[Ints, Ints, Ints]], rows: int
    ) -> None:
        start, stop, row = (np.concatenate(column) for column in zip(*terms, strict=True))
        length = stop - start
        offset = np.repeat(start - (np.cumsum(length) - length), length)
        points = (np.arange(int(length.sum())) + offset).astype(float)
        owner = np.repeat(row, length)
        start, stop, row = (np.concatenate(column) for column in zip(*panels, strict=True))
        self._unit = len(start) == 0
        weights = np.ones(0 if self._unit else len(points))
        if not self._unit:
            inside, by = gauss_panels(start.astype(float), (stop - start).astype(float))
            points = np.concatenate([points, inside.ravel()])
            weights = np.concatenate([weights, by.ravel()])
            owner = np.concatenate([owner, np.repeat(row, NODES)])
        if np.any(owner[1:] < owner[:-1]):
            order = np.argsort(owner, kind="stable")
            points, owner = points[order], owner[order]
            weights = weights if self._unit else weights[order]
        self.points: Floats = points
        self.weights: Floats = weights
        self._starts = np.searchsorted(owner, np.arange(rows))

    @property
    def flat_weights(self) -> Floats:
        """The weights of the points, ones included."""
        return np.ones(len(self.points)) if self._unit else self.weights

    @property
    def owner(self) -> Ints:
        """The number of the range of each point."""
        return np.repeat(np.arange(len(self._starts)), np.diff(self._starts, append=len(self.points)))

    def sum(self, values: Floats) -> Floats:
        """Sum values given at `points` (last axis) over each range."""
        weighted = values if self._unit else values * self.weights
        return np.asarray(np.add.reduceat(weighted, self._starts, axis=-1))


def pair_rule(edges: Ints, last: int, reach: float) -> tuple[Floats, Floats, Floats]:
    """Points x, y and weights that sum a function over integers `x < y`, smooth between the edges.

    x runs over [edges[0], last), y up to edges[-1]; pairs further apart than `reach` are left out, and
    pieces are cut to a quarter of it or less. Two different pieces make a rectangle: a product of
    panels. A piece with itself makes a triangle, summed by y - x: the sums over x then have lengths
    that need not be whole at the nodes, which panels allow; the short ones in the corner are added up.

    >>> x, y, weight = pair_rule(np.array([0, 1000, 5000]), 5000, 1e9)
    >>> round(float((weight * x * y).sum())), sum(y * y * (y - 1) // 2 for y in range(5000))
    (78072926041250, 78072926041250)
    """
    cuts = [int(edges[0])]
    for a, b in pairwise(np.unique(np.append(edges, last)).tolist()):
        while a < b:  # within a factor of two as well, for functions singular at 0
            a = min(b, a + max(1, min(int(reach / PIECES), max(SHORT, a))))
            cuts.append(a)
    pieces = [piece for piece in pairwise(cuts) if piece[0] < piece[1]]
    lines = [_line(*piece) for piece in pieces]
    found: list[tuple[Floats, Floats, Floats]] = []
    for i, (a, b) in enumerate(pieces):
        if a >= last:
            break
        found.append(_triangle(a, b))
        x, wx = lines[i]
        for (y, wy), (c, _) in zip(lines[i + 1 :], pieces[i + 1 :], strict=True):
            if c - b >= reach:
                break
            found.append((np.repeat(x, len(y)), np.tile(y, len(x)), np.outer(wx, wy).ravel()))
    x, y, weight = (np.concatenate(part) for part in zip(*found, strict=True))
    return x, y, weight


def _line(a: int, b: int) -> tuple[Floats, Floats]:
    if b - a <= SHORT:
        return np.arange(a, b, dtype=float), np.ones(b - a)
    points, weights = gauss_panels(np.array([float(a)]), np.array([float(b - a)]))
    return points[0], weights[0]


def _triangle(a: int, b: int) -> tuple[Floats, Floats, Floats]:
    """Pairs a <= x < y < b."""
    length = b - a
    corner = np.arange(max(1, length - SHORT), length)
    short = length - corner  # that many x for each y - x in the corner
    gap = np.repeat(corner, short).astype(float)
    x = a + np.arange(int(short.sum())) - np.repeat(np.cumsum(short) - short, short).astype(float)
    if length - SHORT <= 1:
        return x, x + gap, np.ones(len(x))
    d, wd = _line(1, length - SHORT)
    inner, wx = gauss_panels(np.full(len(d), float(a)), length - d)
    return (
        np.concatenate([x, inner.ravel()]),
        np.concatenate([x + gap, (inner + d[:, None]).ravel()]),
        np.concatenate([np.ones(len(x)), (wx * wd[:, None]).ravel()]),
    )
