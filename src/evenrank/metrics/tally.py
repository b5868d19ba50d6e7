"""Tallies: exact integer histograms of what was ranked. They add.

A tally keeps two histograms: of rank ranges `(better, equal, weight)`, for the metrics, and of
candidate counts `(candidates, weight)`, for their law under chance. Counts are integers and rows are
kept sorted, so a tally does not depend on the order, the batches or the shards it was built from, and
neither does any bit of any metric computed from it. `Tally()` is the identity of `+`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.columns import checked, from_ranks
from evenrank.errors import InputError
from evenrank.metrics.ties import Ranges, Ties, check_ties


class Histogram:
    """How often each distinct row of some named columns occurs.

    >>> a = Histogram.of(size=[3, 5, 3])
    >>> (a + a)["size"].tolist(), (a + a).counts.tolist()
    ([3, 5], [4, 2])
    """

    __slots__ = ("columns", "counts")

    def __init__(self, columns: dict[str, NDArray[Any]], counts: Ints) -> None:
        """Hold rows that are already distinct and sorted; use `Histogram.of` for others."""
        self.columns = columns
        self.counts = counts

    @classmethod
    def of(cls, counts: ArrayLike | None = None, **columns: ArrayLike) -> Histogram:
        """Group equal rows, adding their counts (default: one each)."""
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        given = None if counts is None else np.asarray(counts, dtype=np.int64)
        grouped, sums = _group(list(arrays.values()), given)
        return cls(dict(zip(arrays, grouped, strict=True)), sums)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Give a column by name."""
        return self.columns[name]

    def __len__(self) -> int:
        """Number of distinct rows."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """Number of rows counted."""
        return int(self.counts.sum())

    def __add__(self, other: Histogram) -> Histogram:
        """Count both."""
        if not len(other):
            return self
        if not len(self):
            return other
        columns = {name: np.concatenate([column, other[name]]) for name, column in self.columns.items()}
        return Histogram.of(np.concatenate([self.counts, other.counts]), **columns)

    def __eq__(self, other: object) -> bool:
        """Compare bit by bit."""
        if not isinstance(other, Histogram):
            return NotImplemented
        return (
            self.columns.keys() == other.columns.keys()
            and np.array_equal(self.counts, other.counts)
            and all(np.array_equal(self[name], other[name]) for name in self.columns)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays: equal by value, not hashable

    def __repr__(self) -> str:
        """Say how much it holds."""
        return f"Histogram({', '.join(self.columns)}: {len(self):,} distinct of {self.total:,})"


def _group(columns: list[NDArray[Any]], counts: Ints | None) -> tuple[list[NDArray[Any]], Ints]:
    """Find the distinct rows, in sorted order, and how often each occurs."""
    if not len(columns[0]):
        return columns, np.zeros(0, dtype=np.int64)
    packed = _pack(columns)
    if packed is None:
        order = np.lexsort(columns[::-1])
        new = reduce(np.logical_or, (np.diff(column[order]) != 0 for column in columns))
        starts = np.concatenate([[0], np.flatnonzero(new) + 1])
        ones = np.ones(len(order), dtype=np.int64) if counts is None else counts
        return [column[order[starts]] for column in columns], np.add.reduceat(ones[order], starts)
    key, digits = packed
    # A dense key is counted in place; sorting ten million keys costs twenty times as much.
    if int(key.max()) < 4 * len(key) + 1024:
        filled = np.bincount(key)
        present = np.flatnonzero(filled)
        sums = filled[present] if counts is None else _add_at(key, counts, len(filled))[present]
    elif counts is None:
        present, sums = np.unique(key, return_counts=True)
    else:
        present, inverse = np.unique(key, return_inverse=True)
        sums = _add_at(inverse, counts, len(present))
    rest, columns_back = present, []
    for width, decode in reversed(digits):
        rest, digit = np.divmod(rest, width)
        columns_back.append(decode(digit))
    return columns_back[::-1], sums


def _add_at(index: Ints, counts: Ints, length: int) -> Ints:
    sums = np.zeros(length, dtype=np.int64)  # integers: np.bincount's float weights end at 2^53
    np.add.at(sums, index, counts)
    return sums


Decoder = Callable[[Ints], NDArray[Any]]


def _pack(columns: list[NDArray[Any]]) -> tuple[Ints, list[tuple[int, Decoder]]] | None:
    """Pack the columns, in order, into one integer that sorts as they do; None if it cannot hold."""
    key: Ints | None = None
    digits: list[tuple[int, Decoder]] = []
    room = 1
    for column in columns:
        # a broadcast constant need not be read through; that saves four passes of ten million
        low = column[0] if column.strides == (0,) else column.min()
        if column.strides == (0,) or low == column.max():
            digits.append((1, partial(_constant, low)))
            continue
        if column.dtype.kind == "f":
            distinct, digit = np.unique(column, return_inverse=True)
            width, decode = len(distinct), distinct.__getitem__
        else:
            # a column that starts near zero is its own digit: no pass over the rows to shift it
            low = np.int64(0) if 0 <= low < 1024 else np.int64(low)
            width = int(column.max()) - int(low) + 1
            digit = column.astype(np.int64, copy=False)
            digit = digit - low if low else digit
            decode = partial(np.add, low)
        room *= width
        if room >= 2**62:
            return None
        digits.append((width, decode))
        key = digit if key is None else key * width + digit
    return (np.zeros(len(columns[0]), dtype=np.int64) if key is None else key), digits


def _constant(value: Any, digit: Ints) -> NDArray[Any]:
    return np.full(len(digit), value)


@runtime_checkable
class Tallied(Protocol):
    """Anything that can be counted into a tally, such as `Ranks`."""

    def tally(self) -> Tally:
        """Count it."""


def as_tally(given: Tally | Tallied | ArrayLike) -> Tally:
    """Give a tally of what was ranked: a tally, `Ranks`, or plain ranks.

    >>> as_tally([1, 2, 2]).count
    3
    """
    if isinstance(given, Tally):
        return given
    return given.tally() if isinstance(given, Tallied) else Tally.of_ranks(given)


class Tally:
    """What was ranked: enough for every metric, and for its law under chance; `+` merges.

    >>> one, two = Tally.of([0, 3], [0, 0], [9, 9]), Tally.of([1], [1], [5])
    >>> (one + two) == (two + one), (one + Tally()) == one, (one + two).count
    (True, True, 3)
    """

    __slots__ = ("_rows", "ranks", "sizes")

    def __init__(self, ranks: Histogram | None = None, sizes: Histogram | None = None) -> None:
        """Hold two histograms; without them, nothing was ranked yet."""
        none = np.zeros(0, dtype=np.int64)
        self.ranks = ranks or Histogram.of(better=none, equal=none, weight=none.astype(float))
        self.sizes = sizes or Histogram.of(candidates=none, weight=none.astype(float))
        self._rows: dict[Ties, Ranges] = {}

    @classmethod
    def of(
        cls,
        better: ArrayLike,
        equal: ArrayLike,
        candidates: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Tally:
        """Count one row per ranked target.

        Parameters
        ----------
        better, equal : array_like of int
            How many candidates have a better, and the same, score.
        candidates : array_like of int, optional
            How many candidates there are, the target included; without it there are no chance levels.
        weights : array_like of float, optional
            Weights of the targets.

        Returns
        -------
        Tally
            The counts.
        """
        return cls.of_checked(*checked(better, equal, candidates, weights))

    @classmethod
    def of_ranks(cls, ranks: ArrayLike) -> Tally:
        """Count plain ranks, without candidates; a half-integer is the mean rank of a tie of two."""
        return cls.of(*from_ranks(ranks))

    @classmethod
    def of_checked(cls, better: Ints, equal: Ints, candidates: Ints, weight: Floats | None) -> Tally:
        """Count rows that were checked already; those of weight zero do not count."""
        one = np.asarray(1.0 if weight is None else weight, dtype=float)
        w = np.broadcast_to(one, better.shape)
        if one.ndim and not (one > 0).all():
            weighs = one > 0
            better, equal, candidates, w = (c[weighs] for c in (better, equal, candidates, w))
        sizes = Histogram.of(candidates=candidates, weight=w)
        tied = np.flatnonzero(equal)
        if one.ndim or not 0 < len(tied) < len(equal) // 2:
            return cls(Histogram.of(better=better, equal=equal, weight=w), sizes)
        # Few ties: count all rows as untied, which is one dense pass, then move the tied ones over.
        none = np.broadcast_to(equal.dtype.type(0), equal.shape)
        every = Histogram.of(better=better, equal=none, weight=w)
        apart = Histogram.of(better=better[tied], equal=equal[tied], weight=w[tied])
        moved = np.searchsorted(every["better"], apart["better"])
        np.subtract.at(every.counts, moved, apart.counts)
        left = every.counts > 0
        untied = {name: column[left] for name, column in every.columns.items()}
        return cls(Histogram(untied, every.counts[left]) + apart, sizes)

    def update(
        self,
        better: ArrayLike,
        equal: ArrayLike,
        candidates: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        """Count more rows in place, for streams."""
        more = self + Tally.of(better, equal, candidates, weights)
        self.ranks, self.sizes, self._rows = more.ranks, more.sizes, {}

    @property
    def count(self) -> int:
        """Number of ranked targets."""
        return self.ranks.total

    @property
    def has_candidates(self) -> bool:
        """Whether the number of candidates is known, for all that was counted."""
        return bool(self.sizes["candidates"].all())

    @property
    def equal_weights(self) -> bool:
        """Whether all targets weigh the same."""
        weight = self.ranks["weight"]
        return bool((weight == weight[0]).all())

    @property
    def tie_rate(self) -> float:
        """Share of targets that tie with another candidate."""
        self._refuse_empty()
        return float(self.ranks.counts[self.ranks["equal"] > 0].sum() / self.count)

    def rows(self, ties: Ties) -> Ranges:
        """Give the distinct rows under a tie rule.

        The mass is the plain count where all weights are equal.
        """
        check_ties(ties)
        self._refuse_empty()
        if ties not in self._rows:
            self._rows[ties] = self._read(ties)
        return self._rows[ties]

    def _read(self, ties: Ties) -> Ranges:
        counts = self.ranks.counts.astype(float)
        mass = counts if self.equal_weights else counts * self.ranks["weight"]
        return Ranges.of(self.ranks["better"], self.ranks["equal"], mass, ties)

    def _refuse_empty(self) -> None:
        if not len(self.ranks):
            raise InputError(
                "a metric of nothing does not exist", got="no ranks", do="rank at least one target"
            )

    def __add__(self, other: Tally) -> Tally:
        """Count both."""
        return Tally(self.ranks + other.ranks, self.sizes + other.sizes)

    def __eq__(self, other: object) -> bool:
        """Compare bit by bit."""
        if not isinstance(other, Tally):
            return NotImplemented
        return self.ranks == other.ranks and self.sizes == other.sizes

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        """Say how much it holds."""
        return f"Tally({self.count:,} ranked, {len(self.sizes):,} distinct sizes)"
