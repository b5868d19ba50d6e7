"""Tallies: exact integer histograms of ranks, which add up.

A tally has two histograms: of ranks `(better, equal, weight)`, for the metrics, and of numbers of
candidates `(candidates, weight)`, for the null distributions. Counts are integers and rows are sorted,
so a tally, and every bit of a metric computed from it, does not depend on the order, batches or shards
of the ranks. `Tally()` is the identity of `+`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.columns import checked, from_ranks
from evenrank._internal.columns import counts as checked_counts
from evenrank.errors import InputError
from evenrank.metrics.ties import Ranges, Ties, check_ties


class Histogram:
    """The number of occurrences of each distinct row of some columns.

    Parameters
    ----------
    columns : dict of str to ndarray
        Distinct rows, sorted; `Histogram.of` groups other rows.
    counts : ndarray of int
        How often each row occurs.

    Examples
    --------
    >>> a = Histogram.of(size=[3, 5, 3])
    >>> (a + a)["size"].tolist(), (a + a).counts.tolist()
    ([3, 5], [4, 2])
    """

    __slots__ = ("_known", "columns", "counts")

    def __init__(self, columns: dict[str, NDArray[Any]], counts: Ints) -> None:
        self.columns = columns
        self.counts = counts
        self._known: Callable[[], Any] | None = None

    def knowing(self, dependence: Callable[[], Any]) -> Histogram:
        """Return the same numbers of candidates with what tells which ranks depend on each other.

        Parameters
        ----------
        dependence : callable
            Returns a `Dependence`, or None.

        Returns
        -------
        Histogram
            The same histogram.
        """
        known = Histogram(self.columns, self.counts)
        known._known = dependence
        return known

    def dependence(self, *, weights: ArrayLike | None = None) -> Any:
        """Return which ranks depend on each other under a random scorer, if that is known.

        Parameters
        ----------
        weights : None
            A histogram knows no single targets.

        Returns
        -------
        Dependence or None
            What the variances of `evenrank.chance` are computed from.
        """
        return None if self._known is None or weights is not None else self._known()

    @classmethod
    def of(cls, counts: ArrayLike | None = None, **columns: ArrayLike) -> Histogram:
        """Group equal rows and add their counts, by default 1."""
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        given = None if counts is None else checked_counts(counts)
        grouped, sums = _group(list(arrays.values()), given)
        return cls(dict(zip(arrays, grouped, strict=True)), sums)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column by name."""
        return self.columns[name]

    def __len__(self) -> int:
        """Number of distinct rows."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """The number of rows counted."""
        return int(self.counts.sum())

    def __add__(self, other: Histogram) -> Histogram:
        """Add the counts."""
        if not len(other):
            return self
        if not len(self):
            return other
        columns = {name: np.concatenate([column, other[name]]) for name, column in self.columns.items()}
        return Histogram.of(np.concatenate([self.counts, other.counts]), **columns)

    def __eq__(self, other: object) -> bool:
        """Compare rows and counts bit by bit."""
        if not isinstance(other, Histogram):
            return NotImplemented
        return (
            self.columns.keys() == other.columns.keys()
            and np.array_equal(self.counts, other.counts)
            and all(np.array_equal(self[name], other[name]) for name in self.columns)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays: equal by value, not hashable

    def __repr__(self) -> str:
        """Summarise the histogram."""
        return f"Histogram({', '.join(self.columns)}: {len(self):,} distinct of {self.total:,})"


def _group(columns: list[NDArray[Any]], counts: Ints | None) -> tuple[list[NDArray[Any]], Ints]:
    """Find the distinct rows, sorted, and how often each occurs."""
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
    # Dense keys are counted by bincount; sorting ten million of them takes twenty times as long.
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
    sums = np.zeros(
        length, dtype=np.int64
    )  # np.bincount adds weights as floats, which are exact up to 2^53 only
    np.add.at(sums, index, counts)
    return sums


Decoder = Callable[[Ints], NDArray[Any]]


def _pack(columns: list[NDArray[Any]]) -> tuple[Ints, list[tuple[int, Decoder]]] | None:
    """Pack the columns into one integer that sorts as the rows do; None if it would overflow."""
    key: Ints | None = None
    digits: list[tuple[int, Decoder]] = []
    values = 1  # number of different keys
    for column in columns:
        # a broadcast constant needs no pass over the rows
        low = column[0] if column.strides == (0,) else column.min()
        if column.strides == (0,) or low == column.max():
            digits.append((1, partial(_constant, low)))
            continue
        if column.dtype.kind == "f":
            distinct, digit = np.unique(column, return_inverse=True)
            width, decode = len(distinct), distinct.__getitem__
        else:
            # a column that starts near zero is not shifted, which saves a pass over the rows
            low = np.int64(0) if 0 <= low < 1024 else np.int64(low)
            width = int(column.max()) - int(low) + 1
            digit = column.astype(np.int64, copy=False)
            digit = digit - low if low else digit
            decode = partial(np.add, low)
        values *= width
        if values >= 2**62:
            return None
        digits.append((width, decode))
        key = digit if key is None else key * width + digit
    return (np.zeros(len(columns[0]), dtype=np.int64) if key is None else key), digits


def _constant(value: Any, digit: Ints) -> NDArray[Any]:
    return np.full(len(digit), value)


@runtime_checkable
class Tallied(Protocol):
    """An object that can be converted to a tally, such as `Ranks`."""

    def tally(self) -> Tally:
        """Convert to a tally."""


def as_tally(given: Tally | Tallied | ArrayLike) -> Tally:
    """Convert `Ranks` or plain ranks to a tally.

    >>> as_tally([1, 2, 2]).count
    3
    """
    if isinstance(given, Tally):
        return given
    return given.tally() if isinstance(given, Tallied) else Tally.of_ranks(given)


class Tally:
    """Counts of ranks: all that metrics and their null distributions depend on.

    Tallies of disjoint sets of targets add up with ``+``.

    Parameters
    ----------
    ranks, sizes : Histogram, optional
        Histograms of (better, equal, weight) and of (candidates, weight).

    See Also
    --------
    Tally.of : Tally from columns.

    Examples
    --------
    >>> one, two = Tally.of([0, 3], [0, 0], [9, 9]), Tally.of([1], [1], [5])
    >>> (one + two) == (two + one), (one + Tally()) == one, (one + two).count
    (True, True, 3)
    """

    __slots__ = ("_rows", "ranks", "sizes")

    def __init__(self, ranks: Histogram | None = None, sizes: Histogram | None = None) -> None:
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
        """Count the ranks of targets.

        Parameters
        ----------
        better, equal : array_like of int
            For each target, how many candidates have a better, and the same, score.
        candidates : array_like of int, optional
            The number of candidates, the target included; required by chance-adjusted metrics.
        weights : array_like of float, optional
            Weights of the targets.

        Returns
        -------
        Tally
            The counts.

        Raises
        ------
        InputError
            If a column is invalid.
        """
        return cls.of_checked(*checked(better, equal, candidates, weights))

    @classmethod
    def of_ranks(cls, ranks: ArrayLike) -> Tally:
        """Count plain ranks, without numbers of candidates.

        Parameters
        ----------
        ranks : array_like
            Ranks from 1; a half-integer is the mean rank of a tie of two.

        Returns
        -------
        Tally
            The counts.
        """
        return cls.of(*from_ranks(ranks))

    @classmethod
    def of_checked(cls, better: Ints, equal: Ints, candidates: Ints, weight: Floats | None) -> Tally:
        """Count columns that were checked already; rows of weight zero do not count.

        Parameters
        ----------
        better, equal, candidates, weight
            As for `Tally.of`, as arrays of the same length.

        Returns
        -------
        Tally
            The counts.
        """
        one = np.asarray(1.0 if weight is None else weight, dtype=float)
        w = np.broadcast_to(one, better.shape)
        if one.ndim and not (one > 0).all():
            weighs = one > 0
            better, equal, candidates, w = (c[weighs] for c in (better, equal, candidates, w))
        sizes = Histogram.of(candidates=candidates, weight=w)
        tied = np.flatnonzero(equal)
        if one.ndim or not 0 < len(tied) < len(equal) // 2:
            return cls(Histogram.of(better=better, equal=equal, weight=w), sizes)
        # Few ties: count all rows as untied, which is one dense pass, then correct for the tied ones.
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
        """Add the ranks of more targets in place.

        Parameters
        ----------
        better, equal, candidates, weights
            As for `Tally.of`.
        """
        more = self + Tally.of(better, equal, candidates, weights)
        self.ranks, self.sizes, self._rows = more.ranks, more.sizes, {}

    @property
    def count(self) -> int:
        """The number of targets."""
        return self.ranks.total

    @property
    def has_candidates(self) -> bool:
        """Whether the numbers of candidates of all targets are known."""
        return bool(self.sizes["candidates"].all())

    @property
    def equal_weights(self) -> bool:
        """Whether all targets have the same weight."""
        weight = self.ranks["weight"]
        return bool((weight == weight[0]).all())

    @property
    def tie_rate(self) -> float:
        """The share of targets that tie with another candidate."""
        self._check_not_empty()
        return float(self.ranks.counts[self.ranks["equal"] > 0].sum() / self.count)

    def rows(self, ties: Ties) -> Ranges:
        """Return the distinct ranks under a tie-breaking rule, with their mass.

        Parameters
        ----------
        ties : str
            The tie-breaking rule.

        Returns
        -------
        Ranges
            Ranges of ranks; their mass is the count if all weights are equal.
        """
        check_ties(ties)
        self._check_not_empty()
        if ties not in self._rows:
            self._rows[ties] = self._read(ties)
        return self._rows[ties]

    def _read(self, ties: Ties) -> Ranges:
        counts = self.ranks.counts.astype(float)
        mass = counts if self.equal_weights else counts * self.ranks["weight"]
        return Ranges.of(self.ranks["better"], self.ranks["equal"], mass, ties)

    def _check_not_empty(self) -> None:
        if not len(self.ranks):
            raise InputError("metrics need at least one rank", got="no ranks")

    def __add__(self, other: Tally) -> Tally:
        """Add the counts."""
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(self.ranks + other.ranks, self.sizes + other.sizes)

    def __eq__(self, other: object) -> bool:
        """Compare rows and counts bit by bit."""
        if not isinstance(other, Tally):
            return NotImplemented
        return self.ranks == other.ranks and self.sizes == other.sizes

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        """Summarise the tally."""
        return f"Tally({self.count:,} targets; {len(self.sizes):,} distinct numbers of candidates)"
