"""Tie-breaking rules: the rank of a target when other candidates have the same score."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank._internal.checks import check_choice
from evenrank._internal.quadrature import DIRECT, Rule

Ties = Literal["expected", "realistic", "optimistic", "pessimistic", "rounded"]
RULES: tuple[Ties, ...] = get_args(Ties)
TIES = RULES[:4]  # without `rounded`, the mean rank rounded up, which only LibKGE uses

PART_POINTS = 4_000_000


def check_ties(ties: str) -> None:
    """Check the name of a tie-breaking rule."""
    check_choice("tie-breaking rule", ties, RULES)


class Ranges:
    """Ranges of possible ranks, `low..high`, with their mass.

    A range of one rank has `low == high`, which may then be a half-integer.

    >>> Ranges(np.array([1.0, 2.0]), np.array([1.0, 4.0]), np.ones(2)).mean(lambda r: r).tolist()
    [1.0, 3.0]
    """

    def __init__(self, low: Floats, high: Floats, mass: Floats) -> None:
        self.low, self.high, self.mass = low, high, mass
        self._tied = np.flatnonzero(high > low)
        self._first, self._last = (end[self._tied].astype(np.int64) for end in (low, high))
        self._terms: dict[int, Rule] = {}

    @classmethod
    def of(cls, better: Ints, equal: Ints, mass: Floats, ties: Ties) -> Ranges:
        """Convert counts of better and equal candidates under a tie-breaking rule."""
        check_ties(ties)
        low: Floats = better.astype(float) + 1.0
        high = low + equal
        if ties == "optimistic":
            high = low
        elif ties == "pessimistic":
            low = high
        elif ties == "realistic":
            low = high = (low + high) / 2.0
        elif ties == "rounded":
            low = high = np.ceil((low + high) / 2.0)
        return cls(low, high, mass)

    def mean(self, g: Function) -> Floats:
        """Average `g` over the ranks of each range."""
        means = g(self.low)
        if len(self._tied):
            means = np.array(means)
            for part in self._parts():
                rule = self._rule(g, part)
                length = self._last[part] - self._first[part] + 1
                means[self._tied[part]] = rule.sum(g(rule.points)) / length
        return means

    def _parts(self) -> list[slice]:
        """Split the tied ranges so that no quadrature rule has more than some million points."""
        points = np.cumsum(np.minimum(self._last - self._first + 1, 1000))
        cuts = np.searchsorted(points, np.arange(0, int(points[-1]), PART_POINTS))
        return [slice(a, b) for a, b in pairwise([*cuts.tolist(), len(points)]) if a < b]

    def _rule(self, g: Function, part: slice) -> Rule:
        if (self._last - self._first).max() >= DIRECT:
            return Rule(self._first[part], self._last[part], g)
        # short ranges are added term by term: one rule serves every g
        if part.start not in self._terms:
            self._terms[part.start] = Rule(self._first[part], self._last[part], g)
        return self._terms[part.start]
