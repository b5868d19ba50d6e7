"""Tail probabilities of sums `S = sum w X(rank)`, as logarithms, with bounds on their error.

With the tilt exp(theta Y), Y = S or -S, that moves the mean to y (the saddlepoint),

    P(Y >= y) = exp(K(theta) - theta (y - E Y)) E_theta g(Y - y),    g(d) = exp(-theta d) [d >= 0],

where the last factor is moderate. It is computed from the characteristic function of the tilted sum
(`_wave`), so relative accuracy does not depend on how far out y is. Beyond a window around y, given by
Chernoff's bounds, the tilted sum has a negligible probability; so it may be wrapped around there, and a
Fourier series replaces the integral. There are three ways:

lattice       The possible values have a common step, coarse enough to compute a whole period of the
              characteristic function: exact up to rounding.
few values    The sums of two halves of the targets can be listed: exact up to rounding (`_atoms`).
any other     Only frequencies up to Omega are computed. The extremal functions of Graham and Vaaler
              (1981) lie above and below g, and their Fourier transforms vanish beyond Omega. So their
              expectations bracket the probability, whatever the characteristic function does there.
              Frequencies are added until the bracket is narrow. The value in it is the integral up to
              Omega if the characteristic function has decayed, otherwise the geometric middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, gcd, inf, lcm, log, pi, sqrt

import numpy as np

from evenrank._internal.arrays import Floats, Function
from evenrank.metrics.chance._atoms import log_tail_of_few
from evenrank.metrics.chance._moment import Moment
from evenrank.metrics.chance._sum import RankSum, Sizes
from evenrank.metrics.chance._wave import Complexes, Wave

OUTSIDE = 28.0  # exponent of the probability of leaving the window: e^-28 ~ 1e-12
ROUNDING = 1e-11  # of expectations under the tilt, which are at most 1; see the tests
WANTED = 2e-3  # relative width of the bracket at which no more frequencies are added
MOST_WORK = 1 << 21  # frequencies times (weight, size) pairs
MOST_FREQUENCIES = 1 << 20
FEW_FREQUENCIES = 1 << 12
MOST_POINTS = 300_000  # ranks summed over, for all frequencies together
DECAYED = 1e-9
MOST_STEPS = 1 << 22  # steps of a common lattice across the largest term
FLAT = 1e-3  # least theta times the window, for the digits of its Fourier coefficients
MOST_TERMS = 4096  # values of one target in the search for a common step


@dataclass(frozen=True)
class Bracket:
    """Bounds on a probability and a value between them, as logarithms."""

    low: float
    value: float
    high: float
    method: str

    @property
    def error(self) -> float:
        """The largest possible error of the logarithm."""
        return max(self.high - self.value, self.value - self.low)


def lattice_step(x: Function, sizes: Sizes, whole: float) -> float:
    """Return the common step of the possible values of S, or 0.

    `whole` is a number of which all differences of X are multiples, if known.
    """
    weights = np.unique(sizes.weight)
    if len(weights) > MOST_TERMS:
        return 0.0
    steps = whole * weights
    if not whole:
        if sizes.size.max() > 64:
            return 0.0
        each = x(np.arange(1.0, sizes.size.max() + 1.0))
        steps = np.unique(np.abs(np.multiply.outer(weights, each[1:] - each[0])))
    steps = steps[steps > 0]
    if not 0 < len(steps) <= MOST_TERMS:
        return 0.0
    largest = float(steps.max())
    common, numerators = 1, []
    for ratio in (steps / largest).tolist():
        fraction = Fraction(ratio).limit_denominator(MOST_STEPS)
        common = lcm(common, fraction.denominator)
        if common > MOST_STEPS or abs(float(fraction) - ratio) > 1e-13 * ratio:
            return 0.0
        numerators.append(fraction)
    return largest * gcd(*(int(f * common) for f in numerators)) / common


def log_tail(
    total: RankSum, x: Function, sizes: Sizes, value: float, *, upper: bool, best: float, whole: float
) -> Moment:
    """Compute log P(S >= value), or log P(S <= value) if not `upper`, with its error.

    `best` is the log probability of the extreme value on that side.
    """
    sign = 1.0 if upper else -1.0
    lowest, highest = sorted(sign * end for end in total.bounds)
    y, slack = sign * value, 1e-12 * max(abs(highest), abs(lowest))
    if y > highest + slack:
        return Moment(-inf, "formula")
    if y >= highest - slack:
        return Moment(best, "formula", 1e-15 * abs(best))
    if y <= lowest + slack:
        return Moment(0.0, "formula")
    step = lattice_step(x, sizes, whole)
    if step:  # the next possible value, and half a step below it
        steps = (y - lowest) / step
        y = lowest + (ceil(steps - max(1e-6, 1e-12 * steps)) - 0.5) * step
    else:
        y -= slack
    tail = _Tail(total, x, sizes, sign, step)
    if y >= sign * total.mean:
        bracket = tail.above(y)
        return Moment(min(bracket.value, 0.0), bracket.method, bracket.error)
    other = _Tail(total, x, sizes, -sign, step).above(-y)
    below = [exp(min(0.0, log_p)) for log_p in (other.low, other.value, other.high)]
    high, log_p, low = (log(max(1.0 - p, exp(best))) if p > 0.5 else np.log1p(-p) for p in below)
    return Moment(float(log_p), other.method, float(max(high - log_p, log_p - low)) + 1e-15)


class _Tail:
    """Tails of Y = sign S."""

    def __init__(self, total: RankSum, x: Function, sizes: Sizes, sign: float, step: float) -> None:
        self.total, self.sizes, self.sign, self.step = total, sizes, sign, step
        self.x: Function = x if sign > 0 else lambda rank: -x(rank)

    def cumulants(self, theta: Floats, order: int) -> Floats:
        """Compute K(theta) of the centred Y, and its derivatives."""
        rows = self.total.cumulants(-self.sign * theta, order)[1:]
        rows[1::2] *= self.sign
        return rows

    def above(self, y: float) -> Bracket:
        """Bracket log P(Y >= y) for y above the mean, where y is not a possible value."""
        a = y - self.sign * self.total.mean
        theta = self._saddle(a)
        for _ in range(2):
            k, _, variance = (float(row[0]) for row in self.cumulants(np.array([theta]), 2))
            typical = 1.0 / (1.0 + 2.5 * theta * sqrt(max(variance, 0.0)))  # of the expectation of g
            outside = log(typical) - OUTSIDE
            below, above = self._window(theta, k, a, outside)
            if theta * above >= FLAT:
                break
            theta = FLAT / above
        scale = k - theta * a
        lost = 2.0 * exp(outside) + ROUNDING * typical
        method = "convolution"
        few = log_tail_of_few(self.x, self.sizes, theta, y)
        if few is not None:
            error = ROUNDING + 1e-15 * (abs(k) + 2.0 * abs(theta * a))
            return Bracket(few - error, few, few + error, method)
        window = _Window(Wave(self.x, self.sizes, theta), y, below, above)
        count = 2 * ceil((below + above) / self.step / 2.0) + 5 if self.step else inf
        if count / 2 <= window.most_frequencies:
            value = window.lattice(self.step, int(count))
            low = high = value
        else:
            method = "inversion"
            low, value, high = window.bracket()
        error = 1e-15 * (abs(k) + abs(theta * a))
        logs = [scale + log(p) if p > 0 else -inf for p in (low - lost, value, high + lost)]
        return Bracket(logs[0] - error, logs[1], min(logs[2] + error, scale), method)

    def _saddle(self, a: float) -> float:
        """Solve K'(theta) = a > 0 for the centred sum by safeguarded Newton steps."""
        low, high = 0.0, inf
        spread = sqrt(self.total.variance)
        theta = a / self.total.variance
        for _ in range(200):
            _, mean, variance = self.cumulants(np.array([theta]), 2)[:, 0]
            low, high = (theta, high) if mean < a else (low, theta)
            if abs(mean - a) <= 1e-9 * spread:
                break
            step = theta + (a - mean) / variance if variance > 0 else inf
            if not low < step < high:
                step = 2.0 * theta if high == inf else (low + high) / 2.0
            if step == theta:
                break
            theta = float(step)
        return theta

    def _window(self, theta: float, k: float, a: float, outside: float) -> tuple[float, float]:
        """Return how far below and above y the tilted sum has a probability exp(outside) each."""
        _, _, variance = self.cumulants(np.array([theta]), 2)[:, 0]
        unit = 1.0 / sqrt(variance) if variance > 0 else 1.0 / sqrt(self.total.variance)
        lowest, highest = sorted(self.sign * end for end in self.total.bounds)
        mean = self.sign * self.total.mean
        ends = [a - (lowest - mean), (highest - mean) - a]
        tilts = unit * np.exp2(np.arange(-3.0, 6.0, 0.5))
        for side in (0, 1):
            direction = 1.0 if side else -1.0
            rise = self.cumulants(theta + direction * tilts, 0)[0] - k - direction * tilts * a
            reach = (rise - outside) / tilts
            ends[side] = min(ends[side], float(np.nanmin(np.where(reach > 0, reach, inf))))
        return ends[0] * (1.0 + 1e-9), ends[1] * (1.0 + 1e-9)


class _Window:
    """Expectations of functions of Y - y under a tilt, where Y - y is in [-below, above]."""

    def __init__(self, wave: Wave, y: float, below: float, above: float) -> None:
        self.wave, self.y, self.above, self.length = wave, y, above, below + above
        self.theta = wave.theta
        self.most_frequencies = min(MOST_FREQUENCIES, max(MOST_WORK // wave.pairs, 256))

    def lattice(self, step: float, count: int) -> float:
        """Compute E exp(-theta (Y - y)) [Y > y] where y is half a step from possible values."""
        turns = 2.0 * pi / (count * step)
        last = count // 2
        psi = self.wave(turns, last, self.y + step / 2.0)
        terms = min(count, ceil(self.above / step) + 1)
        power = -(self.theta * step + 1j * turns * step * np.arange(last + 1.0))
        sums = np.expm1(power * terms) / np.expm1(power)
        total = float((psi[0] * sums[0]).real + 2.0 * (psi[1:] * sums[1:]).real.sum())
        return exp(-self.theta * step / 2.0) * total / count

    def bracket(self) -> tuple[float, float, float]:
        """Compute bounds on E exp(-theta (Y - y)) [Y >= y] and a value between them."""
        count = min(FEW_FREQUENCIES, self.most_frequencies)
        before = inf
        while True:
            low, value, high = self._bracket(count)
            width = (high - low) / max(low, 0.01 * high)  # falls like 1 / count, but at an atom
            most = min(self.most_frequencies, count * MOST_POINTS // max(self.wave.points, 1))
            if width <= WANTED or width > 0.8 * before or 2 * count > most:
                return low, value, high
            before = width
            count = int(min(most, max(2.0, min(16.0, 1.3 * width / WANTED)) * count))

    def _bracket(self, count: int) -> tuple[float, float, float]:
        """Do the same with frequencies below `count` times 2 pi over the window."""
        turns = 2.0 * pi / self.length
        self.wave.check(turns * np.array([count // 64, count // 16, count // 4, count - 1.0]))
        psi = self.wave(turns, count - 1, self.y)
        omega = turns * np.arange(count)
        rate = self.theta + 1j * omega
        end = np.exp(-rate * self.above)
        fine = self.length / count  # 2 pi / Omega
        over, under = _one_sided(self.theta * fine, np.arange(count) / count)

        def expect(coefficients: Complexes) -> float:
            terms = (coefficients * psi).real
            return float(terms[0] + 2.0 * terms[1:].sum()) / count

        low, high = expect(under - end * over), expect(over - end * under)
        if np.abs(psi[-(count // 8) :]).max() <= DECAYED:
            value = expect((1.0 - end) / (rate * fine))
        else:
            value = sqrt(max(low, 0.0) * high)
        low = max(low, 0.0)
        return low, min(max(value, low), high), high


def _one_sided(decay: float, t: Floats) -> tuple[Complexes, Complexes]:
    """Compute Fourier transforms, 0 <= t < 1, of functions above and below exp(-decay d) [d >= 0].

    Values and slopes at the whole numbers determine both (Vaaler 1985). They are those of the function,
    except at 0, where the values are 1 and 0, and the slope makes the sum of all slopes vanish.
    """
    power = -(decay + 2j * pi * t)
    less_one = np.expm1(power)  # q - 1
    ratio = np.exp(power) / -less_one  # q + q^2 + ...
    slope = decay / expm1(decay) if decay < 700.0 else 0.0
    slopes = (slope - decay * ratio) / (2j * pi) * (t > 0)
    return (1.0 - t) * (-1.0 / less_one) + slopes, (1.0 - t) * ratio + slopes
