"""Characteristic functions of tilted sums `Y = sum w X(rank)` at equally spaced frequencies.

Under the tilt exp(theta Y) the ranks stay independent, and rank r of a target has a probability
proportional to exp(theta w X(r)). The characteristic function of Y is the product of those of the
targets; for one weight, running sums over the ranks serve all numbers of candidates.

Many sizes or weights. The logarithm of a target's characteristic function is analytic in its number of
candidates and in its weight. So within a factor of two it is interpolated at Chebyshev nodes, and the
counts are pushed onto the nodes. `Wave` checks this against the sum over all pairs, and does without
where it does not hold.

Many frequencies. The first ones are computed from sines, to full precision also for billions of targets;
the others by a non-uniform fast Fourier transform with a Kaiser-Bessel window, to 1e-13.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank._internal.quadrature import Rule
from evenrank.metrics.chance._sum import CHUNK, Sizes

Complexes = NDArray[np.complex128]
DIGITS = 30.0  # exponent of the error of interpolation: e^-30 ~ 1e-13
DIRECT_NODES = 192  # frequencies computed from sines
WIDTH = 14  # grid points across the window of the non-uniform transform
BETA = pi * sqrt(WIDTH**2 * 0.75**2 - 0.8)


@dataclass(frozen=True)
class Level:
    """Targets of one weight: numbers of candidates, ascending, with counts that need not be whole."""

    weight: float
    size: Ints
    count: Floats


def levels(sizes: Sizes, digits: float = 0.0) -> list[Level]:
    """Group targets by weight; given digits, push counts onto few weights and sizes."""
    if not digits:
        return [
            _level(sizes.weight[mine[0]], sizes.size[mine], sizes.count[mine])
            for mine in _groups(sizes.weight)
        ]
    octave = np.frexp(sizes.weight)[1] * 4096.0 + np.frexp(sizes.size.astype(float))[1]
    found: dict[float, list[tuple[Ints, Floats]]] = {}
    for mine in _groups(octave):
        weight, count = sizes.weight[mine], sizes.count[mine]
        weights, by_weight = _pushed(weight, digits, whole=False)
        size, by_size = _pushed(sizes.size[mine].astype(float), digits, whole=True)
        if len(weights) * len(size) < len(weight):
            table = (by_weight * count) @ by_size.T
            for w, row in zip(weights.tolist(), table, strict=True):
                found.setdefault(w, []).append((size.astype(np.int64), row))
        else:  # nothing gained
            for part in _groups(weight):
                at = mine[part]
                found.setdefault(float(weight[part[0]]), []).append((sizes.size[at], sizes.count[at]))
    return [
        _level(w, np.concatenate([s for s, _ in parts]), np.concatenate([c for _, c in parts]))
        for w, parts in found.items()
    ]


def _groups(key: Floats) -> list[Ints]:
    """Return the indices of equal keys."""
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1)


def _level(weight: float, size: Ints, count: Floats) -> Level:
    distinct, index = np.unique(size, return_inverse=True)
    return Level(float(weight), distinct, np.bincount(index, weights=count).astype(float))


def _pushed(values: Floats, digits: float, *, whole: bool) -> tuple[Floats, Floats]:
    """Choose nodes for smooth functions of the values; return them and their Lagrange weights."""
    distinct, index = np.unique(values, return_inverse=True)
    low, high = distinct[0], distinct[-1]
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    if half:  # singular at 0 at the closest
        ratio = middle / half
        nodes = ceil(digits / float(np.log(ratio + np.sqrt(ratio * ratio - 1.0) + 1e-12))) + 1
    if not half or len(distinct) <= 2 * nodes:
        return distinct, (np.arange(len(distinct))[:, None] == index).astype(float)
    at = middle - half * np.cos(pi * np.arange(nodes) / (nodes - 1))
    at = np.unique(np.rint(at)) if whole else at
    gaps = at[:, None] - at
    np.fill_diagonal(gaps, 1.0)
    signs = np.sign(gaps).prod(axis=1)
    scale = np.log(np.abs(gaps)).sum(axis=1)
    away = distinct - at[:, None]
    hit = away == 0
    terms = (signs * np.exp(scale.min() - scale))[:, None] / np.where(hit, 1.0, away)
    lagrange = np.where(hit.any(axis=0), hit, terms / terms.sum(axis=0))
    return at, np.asarray(lagrange[:, index], dtype=float)


class Wave:
    """The characteristic function of Y under the tilt exp(theta Y), centred at the mean of the tilt."""

    def __init__(self, x: Function, sizes: Sizes, theta: float) -> None:
        self.x, self.sizes, self.theta = x, sizes, theta
        self.levels = levels(sizes, DIGITS)
        self.points = 0  # summed over in the last call

    @property
    def pairs(self) -> int:
        """The number of (weight, size) pairs to be computed."""
        return sum(len(level.size) for level in self.levels)

    def check(self, omega: Floats) -> None:
        """Use all pairs if interpolation with more nodes does not give the same at these frequencies."""
        if self.pairs == len(self.sizes.size):
            return
        parts = (self.levels, levels(self.sizes, 1.4 * DIGITS))
        few, many = (np.sum([self._at(level, omega) for level in part], axis=0) for part in parts)
        near = (many.real > -40.0) | (few.real > -40.0)
        if not np.all(np.abs(np.exp(few[near]) - np.exp(many[near])) <= 1e-9):
            self.levels = levels(self.sizes)

    def _at(self, level: Level, omega: Floats) -> Complexes:
        part = _Part(self.x, level, self.theta, float(omega[-1]))
        return np.asarray(part.total(part.direct(omega)) + 1j * omega * part.center)

    def __call__(self, step: float, last: int, x: float) -> Complexes:
        """Compute E exp(i omega (Y - x)) at the frequencies `step * 0, ..., step * last`."""
        logs = np.zeros(last + 1, dtype=complex)
        first = min(last + 1, DIRECT_NODES)
        omega = step * np.arange(last + 1.0)
        center, self.points = 0.0, 0
        for level in self.levels:
            part = _Part(self.x, level, self.theta, float(omega[first - 1]))
            logs[:first] += part.total(part.direct(omega[:first]))
            center += part.center
            if last + 1 > first:
                fine = _Part(self.x, level, self.theta, float(omega[-1]), part.mean)
                self.points += len(fine.values)
                logs[first:] += fine.fast(step, first, last)
        size = np.exp(np.minimum(np.nan_to_num(logs.real, nan=-np.inf), 0.0))
        return np.asarray(size * np.exp(1j * (np.nan_to_num(logs.imag) + omega * (center - x))))


class _Part:
    """One level: probabilities of ranks under the tilt at the points of a rule."""

    def __init__(
        self, x: Function, level: Level, theta: float, top: float, mean: float | None = None
    ) -> None:
        self.level, weight = level, level.weight
        start = np.concatenate([[1], level.size[:-1] + 1])
        peak = float(np.max(weight * theta * x(np.array([1.0, float(level.size[-1])]))))

        def wave(rank: Floats) -> Floats:  # as rough as anything that will be summed
            values = weight * x(rank)
            swing = top * values
            return np.asarray(np.exp(theta * values - peak) * (np.cos(swing) + np.sin(swing) + 2.0))

        self.rule = Rule(start, level.size, wave, tolerance=1e-12, floor=1e-4)
        values = weight * x(self.rule.points)
        tilt = np.exp(theta * values - peak)
        self.mass = tilt * self.rule.flat_weights
        self.total_mass = np.cumsum(self._rows(self.mass))
        self.reference = len(level.size) // 2
        moment = np.cumsum(self._rows(self.mass * values))
        self.mean = float(moment[self.reference] / self.total_mass[self.reference])
        self.mean = self.mean if mean is None else mean
        self.values = values - self.mean
        self.center = self.mean * float(level.count.sum())

    def _rows(self, values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, self.rule._starts, axis=-1))

    def direct(self, omega: Floats) -> Complexes:
        """Compute log characteristic functions by frequency and size, from sines."""
        out = np.empty((len(omega), len(self.level.size)), dtype=complex)
        step = max(1, CHUNK // len(self.values))
        for first in range(0, len(omega), step):
            rows = slice(first, first + step)
            half = np.multiply.outer(omega[rows] / 2.0, self.values)
            sine = np.sin(half)
            real = np.cumsum(self._rows(-2.0 * sine * sine * self.mass), axis=-1) / self.total_mass
            imag = (
                np.cumsum(self._rows(2.0 * sine * np.cos(half) * self.mass), axis=-1) / self.total_mass
            )
            with np.errstate(divide="ignore"):
                square = np.maximum(2.0 * real + real * real + imag * imag, -1.0)
                out[rows] = 0.5 * np.log1p(square) + 1j * np.arctan2(imag, 1.0 + real)
        return out

    def total(self, logs: Complexes) -> Complexes:
        """Add up logarithms over the sizes; angles are continued from a middle size."""
        middle = logs.imag[:, self.reference, None]
        turn = (logs.imag - middle + pi) % (2.0 * pi) - pi + middle
        count = self.level.count
        with np.errstate(invalid="ignore"):
            return np.asarray(logs.real @ count + 1j * (turn @ count))

    def fast(self, step: float, first: int, last: int) -> Complexes:
        """Compute `total` at the frequencies `step * first, ..., step * last` by fast transforms."""
        from scipy import fft

        length = fft.next_fast_len(4 * (last + 1), real=True)
        j = np.arange(first, last + 1)
        root = np.sqrt(BETA**2 - (pi * WIDTH * j / length) ** 2)
        window = np.sinh(root) / root * WIDTH
        grid = np.zeros(length)
        reference: Floats | None = None
        out = np.zeros(len(j), dtype=complex)
        edges = [*self.rule._starts.tolist(), len(self.values)]
        order = [self.reference, *(k for k in range(len(edges) - 1) if k != self.reference)]
        done = -1
        for k in order:  # the middle size first, then from the smallest
            if k < done:
                grid[:] = 0.0
                done = -1
            for begin in range(edges[done + 1], edges[k + 1], CHUNK):
                rows = slice(begin, min(begin + CHUNK, edges[k + 1]))
                _spread(grid, self.values[rows] * (step / (2.0 * pi)), self.mass[rows])
            done = k
            wave = fft.rfft(grid)[first : last + 1].conj() / window / self.total_mass[k]
            with np.errstate(divide="ignore"):
                size, angle = np.log(np.abs(wave)), np.angle(wave)
            if reference is None:
                reference = angle
            angle = (angle - reference + pi) % (2.0 * pi) - pi + reference
            count = self.level.count[k]
            with np.errstate(invalid="ignore"):
                out += count * np.minimum(size, 0.0) + 1j * count * angle
        return out


def _spread(grid: Floats, turns: Floats, mass: Floats) -> None:
    """Add masses at turns of the circle to a grid on it, smoothed by the Kaiser-Bessel window."""
    from scipy.special import i0

    place = turns % 1.0 * len(grid)
    start = np.ceil(place - WIDTH / 2.0)
    for offset in range(WIDTH):
        away = (start + offset - place) * (2.0 / WIDTH)
        kernel = i0(BETA * np.sqrt(np.maximum(0.0, 1.0 - away * away)))
        np.add.at(grid, (start.astype(np.int64) + offset) % len(grid), kernel * mass)
