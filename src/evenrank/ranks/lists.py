"""Lists of integers of any lengths, in two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank.errors import InputError


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of integers of any lengths in two arrays: list `i` is `values[first[i]:first[i + 1]]`.

    >>> lists = Lists.of([[3, 1], [], [2]])
    >>> len(lists), lists[0].tolist(), lists.lengths.tolist()
    (3, [3, 1], [2, 0, 1])
    """

    first: Ints
    values: Ints

    @classmethod
    def of(cls, lists: Sequence[ArrayLike]) -> Lists:
        """Concatenate lists."""
        several = columns.as_list(lists)
        if several is None:
            raise InputError("a list of ids is required for each query", got=repr(lists)[:40])
        arrays = [columns.integers("candidates", one, 0) for one in several]
        lengths = [len(one) for one in arrays]
        values = np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
        return cls(offsets(lengths), values)

    @classmethod
    def grouped(cls, group: Ints, values: Ints, groups: int) -> Lists:
        """Collect the distinct values of each group in a sorted list."""
        most = int(values.max(initial=0)) + 1
        ordered = np.sort(group * most + values)
        # four times as fast as np.unique
        owner, value = np.divmod(ordered[np.diff(ordered, prepend=-1) > 0], most)
        return cls(np.searchsorted(owner, np.arange(groups + 1)), value)

    def __len__(self) -> int:
        """The number of lists."""
        return len(self.first) - 1

    def __getitem__(self, i: int) -> Ints:
        """Return one list."""
        return self.values[self.first[i] : self.first[i + 1]]

    @property
    def lengths(self) -> Ints:
        """The length of each list."""
        return np.diff(self.first)

    @property
    def owner(self) -> Ints:
        """The number of the list of each value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def select(self, which: Ints) -> Lists:
        """Return some of the lists, in the given order."""
        lengths = self.lengths[which]
        first = offsets(lengths)
        places = np.arange(first[-1]) + np.repeat(self.first[which] - first[:-1], lengths)
        return Lists(first, self.values[places])

    def within(self, start: int, stop: int) -> Lists:
        """Return the values of each list in `range(start, stop)`, less `start`.

        >>> Lists.of([[3, 1], [], [2]]).within(2, 4).values.tolist()
        [1, 0]
        """
        inside = (self.values >= start) & (self.values < stop)
        return Lists(offsets(inside)[self.first], self.values[inside] - start)

    def contains(self, which: Ints, values: Ints) -> NDArray[np.bool_]:
        """Return for each value whether it is in the list of its number; the lists must be sorted.

        `np.isin` would hash all lists again for each call.
        """
        if not len(self.values):
            return np.zeros(len(values), dtype=bool)
        most = int(max(self.values.max(), values.max(initial=0))) + 1
        return in_sorted(which * most + values, self.owner * most + self.values)


def repeats(lists: Lists) -> bool:
    """Whether a list contains a value twice; the lists must be sorted.

    >>> repeats(Lists.of([[1, 3], [3]])), repeats(Lists.of([[1, 3, 3]]))
    (False, True)
    """
    same = np.diff(lists.values) == 0
    return bool((same & (np.diff(lists.owner) == 0)).any())


def offsets(lengths: ArrayLike) -> Ints:
    """Return the offsets of consecutive lists with these lengths, and the end of the last one.

    >>> offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def in_sorted(values: Ints, ordered: Ints) -> NDArray[np.bool_]:
    """Return for each value whether it is in a sorted array."""
    if not len(ordered):
        return np.zeros(len(values), dtype=bool)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[place] == values)
