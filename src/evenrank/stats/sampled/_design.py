"""The sampling design: numbers of drawn and of all candidates, and the distribution of counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Function, Ints

SIMILAR = 1.1  # targets share a design if their numbers of candidates differ by a tenth at most
EVERY = 64  # all ranks up to this one are on the grid
STEP = 0.25  # between larger ranks on the grid, in standard deviations of the counts
GROWTH = 0.05  # and at most this fraction of the rank
JUMP = 0.005  # both sides of larger changes of a term (relative to all its changes) are on the grid
SEARCHED = 100_000  # ranks in which jumps are searched
FINER = 4  # ranks that are verified, for each rank in the linear program
SINGLE = 24  # smaller counts have a bin each; larger ones share a bin
WIDTH = 0.08  # of this relative width
BLOCK = 1_000_000  # probabilities computed at once


MOST_DRAWN = 5000  # candidates per target in bounds; more are thinned out at random
MOST_DESIGNS = 32  # with more different numbers of candidates, these are thinned out to steps of
THINNER = 1.1  # this ratio


def count_distribution(drawn: int, size: int, ranks: Ints, replace: bool = False) -> Floats:
    """Compute P(x of the drawn candidates are better), a row per rank, a column for each x.

    >>> count_distribution(2, 4, np.array([1, 2, 4])).round(3).tolist()
    [[1.0, 0.0, 0.0], [0.333, 0.667, 0.0], [0.0, 0.0, 1.0]]
    """
    found = np.empty((len(ranks), drawn + 1))
    step = max(1, BLOCK // (drawn + 1))
    for first in range(0, len(ranks), step):
        some = ranks[first : first + step, None]
        found[first : first + step] = (
            _with_replacement(drawn, size, some) if replace else _distribution(drawn, size, some)
        )
    return found


def _with_replacement(drawn: int, size: int, ranks: Ints) -> Floats:
    """Compute the binomial distribution."""
    from scipy.special import xlog1py, xlogy

    x, share = np.arange(drawn + 1), (ranks - 1.0) / max(size - 1, 1)
    log_p = _log_ways(drawn, x) + xlogy(x, share) + xlog1py(drawn - x, -share)
    return np.asarray(np.exp(log_p))


def _distribution(drawn: int, size: int, ranks: Ints) -> Floats:
    x, better, worse = np.arange(drawn + 1), ranks - 1, size - ranks
    possible = (x <= better) & (drawn - x <= worse)
    chosen, left = np.minimum(x, better), np.clip(drawn - x, 0, worse)
    log_p = _log_ways(better, chosen) + _log_ways(worse, left) - _log_ways(size - 1, drawn)
    p = np.where(possible, np.exp(log_p), 0.0)
    return np.asarray(
        p / p.sum(axis=1, keepdims=True)
    )  # log factorials of 10^9 are only good to five digits


def _log_ways(n: Ints | int, k: Ints | int) -> Floats:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def nodes(drawn: int, size: int, fine: int = 1) -> Ints:
    """Choose a grid of ranks between which the distribution of the counts changes little.

    In the angle `asin sqrt(R / N)` the counts have a standard deviation of about `1 / (2 sqrt k)`
    everywhere; steps are a fraction of that, divided by `fine`.
    """
    angle = np.arange(0.0, pi / 2, STEP / fine / (2.0 * sqrt(drawn)))
    growing = np.exp(np.arange(0.0, log(size) + GROWTH, GROWTH / fine))
    every = np.arange(1, min(size, EVERY * fine) + 1)
    found = np.concatenate([every, 1 + (size - 1) * np.sin(angle) ** 2, growing, [size]])
    return np.unique(np.minimum(np.round(found), size)).astype(np.int64)


def jumps(term: Function, size: int) -> Ints:
    """Find the ranks on both sides of the jumps of a term.

    >>> jumps(lambda r: (r <= 300) * 1.0, 1000).tolist()
    [300, 301]
    """
    searched = np.arange(1, min(size, SEARCHED) + 1)
    change = np.abs(np.diff(term(searched.astype(float))))
    before = searched[:-1][change > JUMP * change.sum()]
    return np.union1d(before, before + 1)


@dataclass(frozen=True, eq=False)
class Design:
    """Targets with `drawn` sampled candidates each, out of similar numbers of candidates.

    `sizes` are the distinct numbers of candidates, the target included; `size_of` is the index of each
    target among them; `low` and `high` are the smallest and largest count x that its ties allow;
    `replace` is whether candidates were drawn with replacement.
    """

    drawn: int
    sizes: Ints
    targets: Ints
    size_of: Ints
    low: Ints
    high: Ints
    replace: bool = False

    @property
    def exhaustive(self) -> bool:
        """Whether all candidates were drawn."""
        others = int(self.sizes[-1]) - 1
        return others == 0 or (others <= self.drawn and not self.replace)

    @cached_property
    def typical(self) -> int:
        """The most frequent number of candidates."""
        return int(self.sizes[np.bincount(self.size_of).argmax()])

    @cached_property
    def bins(self) -> Ints:
        """The first count of each bin: a bin for each small count, then bins of growing width."""
        growing = SINGLE * np.exp(np.arange(0.0, log(max(self.drawn, SINGLE) / SINGLE), WIDTH))
        starts = np.concatenate([np.arange(SINGLE), np.round(growing)]).astype(np.int64)
        return np.unique(starts[starts <= self.drawn])

    def binned(self, size: int, ranks: Ints) -> Floats:
        """Compute the distribution of the bins at some ranks."""
        return np.add.reduceat(self.distribution(size, ranks), self.bins, axis=1)

    def distribution(self, size: int, ranks: Ints) -> Floats:
        """Compute the distribution of the counts at some ranks."""
        return count_distribution(self.drawn, size, ranks, self.replace)

    def possible(self) -> tuple[Floats, Floats]:
        """Compute the smallest and the largest rank that each count allows, a row per size."""
        x, size = np.arange(self.drawn + 1.0), self.sizes[:, None]
        if self.replace and not self.exhaustive:  # the same candidate may have been drawn every time
            return 1.0 + np.minimum(x, 1.0) + 0.0 * size, size - np.minimum(self.drawn - x, 1.0)
        return 1.0 + x + 0.0 * size, size - self.drawn + x

    @cached_property
    def grids(self) -> dict[int, tuple[Ints, Floats, NDArray[np.bool_]]]:
        """A fine grid of ranks, the distribution of the bins there, and which form a coarse grid.

        For the smallest and the largest number of candidates: what holds for both holds in between.
        """
        found = {}
        for size in {int(self.sizes[0]), int(self.sizes[-1])}:
            ranks = nodes(self.drawn, size, FINER)
            first = np.isin(ranks, nodes(self.drawn, size))
            found[size] = ranks, self.binned(size, ranks), first
        return found

    def counted(self, weight: Floats) -> Floats:
        """Sum the weights of the targets at each x; ties are spread evenly over their counts."""
        weight = weight[self.targets]
        share = weight / (self.high - self.low + 1)
        ends = np.zeros(self.drawn + 2)
        np.add.at(ends, self.low, share)
        np.subtract.at(ends, self.high + 1, share)
        counts = np.cumsum(ends[:-1])
        return np.where(counts > 1e-12 * weight.sum(), counts, 0.0)  # smaller sums are rounding errors

    def look_up(self, table: Floats) -> Floats:
        """Look up T of each target, in one row for all sizes or one per size; ties get the mean.

        Under `expected` ties, all ranks that a tie allows are equally likely, and so are the counts x
        among the drawn candidates.
        """
        row = self.size_of if len(table) > 1 else np.zeros_like(self.size_of)
        values = np.array(table[row, self.low])
        tied = np.flatnonzero(self.high > self.low)
        if len(tied):
            total = np.pad(np.cumsum(table, axis=1), ((0, 0), (1, 0)))
            row, low, end = row[tied], self.low[tied], self.high[tied] + 1
            values[tied] = (total[row, end] - total[row, low]) / (end - low)
        return values


def designs(drawn: Ints, full: Ints, low: Ints, high: Ints, replace: bool = False) -> list[Design]:
    """Group targets with the same number of drawn candidates and similar numbers of candidates."""
    made = []
    for k in np.unique(drawn).tolist():
        mine = np.flatnonzero(drawn == k)
        exhaustive = full[mine] - 1 <= (0 if replace else k)
        rest, groups = np.unique(full[mine[~exhaustive]]), []
        while len(rest):
            together = rest[rest <= SIMILAR * rest[0]]
            groups.append(mine[np.isin(full[mine], together)])
            rest = rest[len(together) :]
        groups += [mine[exhaustive]] if exhaustive.any() else []
        for targets in groups:
            sizes, size_of = np.unique(full[targets], return_inverse=True)
            made.append(Design(k, sizes, targets, size_of, low[targets], high[targets], replace))
    return made


def thinned(drawn: Ints, full: Ints, low: Ints, high: Ints, replace: bool) -> tuple[Ints, Ints, Ints]:
    """Leave out drawn candidates at random where they are too many, or too many different numbers.

    A random part of a sample is a sample, so all estimates from it are valid, and less accurate.
    """
    wanted = np.minimum(drawn, MOST_DRAWN)
    if len(np.unique(wanted)) > MOST_DESIGNS:
        steps = np.unique(np.floor(THINNER ** np.arange(log(MOST_DRAWN) / log(THINNER) + 1)))
        wanted = steps[np.searchsorted(steps, np.maximum(wanted, 1), side="right") - 1].astype(np.int64)
        wanted = np.minimum(wanted, drawn)
    exhaustive = full - 1 <= (0 if replace else drawn)
    wanted = np.where(exhaustive, drawn, wanted)
    rng = np.random.default_rng(0)
    better = rng.hypergeometric(low, drawn - low, wanted)
    equal = rng.hypergeometric(high - low, drawn - high, wanted - better)
    return wanted, better, better + equal
