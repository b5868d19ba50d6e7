"""Answers that are ranked together by lists of the best candidates.

For an answer of a query with L listed candidates, among C candidates:

    it is listed      better, equal: how many of the L score higher, or the same
    it is not listed  "tied": better = L, equal = C - L - 1, as it may stand anywhere below the list;
                      "never": it is not retrieved (better = -1), and adds nothing to any metric
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError, Option

Unretrieved = Literal["tied", "never"]
WORDS: dict[Unretrieved, str] = {"tied": "anywhere among the rest", "never": "never retrieved"}


@dataclass(frozen=True)
class Groups:
    """Listed candidates in order of their scores: groups of equal scores, best first.

    `order` sorts the rows by query and score; group `i` is rows `start[i] : start[i] + size[i]` of that
    order, with `before[i]` better candidates in the list.
    """

    order: Ints
    start: Ints
    size: Ints
    before: Ints

    @classmethod
    def of(cls, owner: Ints, score: NDArray[Any]) -> Groups:
        """Sort the candidates of each query by score; none may be NaN."""
        order = np.lexsort((-score, owner))
        query, value = owner[order], score[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (query[1:] != query[:-1]) | (value[1:] != value[:-1])
        start = np.flatnonzero(new)
        before = start - np.searchsorted(query, query[start])
        return cls(order, start, np.diff(start, append=len(order)), before)

    def counts(self) -> tuple[Ints, Ints]:
        """Count better and equal candidates of the list, for each row."""
        better, equal = np.empty_like(self.order), np.empty_like(self.order)
        better[self.order] = np.repeat(self.before, self.size)
        equal[self.order] = np.repeat(self.size - 1, self.size)
        return better, equal

    def numbered(self, order: Ints) -> tuple[Ints, Ints]:
        """Count better candidates if each group has the given order instead of a tie."""
        better = np.empty_like(order)
        better[order] = np.repeat(self.before - self.start, self.size) + np.arange(len(order))
        return better, np.zeros_like(better)


def place_unlisted(
    owner: Ints,
    better: Ints,
    equal: Ints,
    length: Ints,
    candidates: Ints | None,
    unretrieved: Unretrieved,
    names: NDArray[Any],
) -> tuple[Ints, Ints]:
    """Rank the answers that are not listed, which have a `better` of -1.

    `owner` is the number of the query of each answer; `length`, `candidates` and `names` have a row per
    query.
    """
    absent = better < 0
    if candidates is not None:
        size = length + np.bincount(owner[absent], minlength=len(length))
        over = np.flatnonzero(size > candidates)
        if len(over):
            row = int(over[0])
            raise InputError(
                "there are fewer candidates than listed and relevant ones",
                got=f"{candidates[row]:,}, and {size[row]:,} for query {names[row]}",
                do=["set ", Option("candidates"), " to the number of all candidates"],
            )
    if unretrieved == "never" or not absent.any():
        return better, equal
    if candidates is None:
        raise InputError(
            "ranking answers that are not listed requires the number of candidates",
            got=f"{absent.sum():,} such answers",
            do=["pass ", Option("candidates"), ", or ", Option("unretrieved", "never")],
        )
    below = length[owner]
    return (
        np.where(absent, below, better),
        np.where(absent, candidates[owner] - below - 1, equal),
    )


def described(order: str, unlisted: NDArray[np.bool_], unretrieved: Unretrieved) -> str:
    """Describe in words how answers were ranked, for the protocol."""
    share = float(unlisted.mean()) if len(unlisted) else 0.0
    return f"lists of answers, {order}; {share:.1%} of answers not listed, {WORDS[unretrieved]}"
