"""Shapes of queries: how many candidates and answers they have, and which gains.

The null distribution of a metric of several answers depends on the queries only through their shapes.
Shapes are counted: counts are integers and rows are sorted, so that shapes, and every bit of a moment
computed from them, do not depend on the order, batches or shards of the queries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.metrics.tally import Histogram

ONES = -1  # the profile of queries whose gains are all 1, however many there are
MOST_CODES = 2**62
FEW_LEVELS = 1 << 16  # whole gains below need no sorting to be numbered


class Shapes:
    """Counts of queries by number of candidates, number of answers, weight and gains.

    Shapes of disjoint sets of queries add up with ``+``. A query without answers has the value 0 under
    every metric: leave such queries out, or have them count.

    Parameters
    ----------
    rows : Histogram, optional
        Distinct rows of (candidates, answers, weight, profile); 0 candidates are unknown.
    profiles : dict of int to ndarray, optional
        For each number of answers, the distinct rows of gains, largest first; `profile` is the number of
        the row, or -1 if all gains are 1.

    See Also
    --------
    Shapes.of : Shapes from columns of answers.
    Shapes.of_counts : Shapes from numbers of answers.

    Examples
    --------
    >>> one = Shapes.of(candidates=[9, 5, 9], first=[0, 2, 3, 5], gain=[1, 3, 1, 3, 1])
    >>> one
    Shapes(3 queries; 2 distinct)
    >>> one + one == Shapes.of([9, 5, 9] * 2, [0, 2, 3, 5, 7, 8, 10], [1, 3, 1, 3, 1] * 2)
    True
    """

    __slots__ = ("profiles", "rows")

    def __init__(self, rows: Histogram | None = None, profiles: dict[int, Floats] | None = None) -> None:
        none = np.zeros(0, dtype=np.int64)
        self.rows = rows or Histogram.of(
            candidates=none, answers=none, weight=none.astype(float), profile=none
        )
        self.profiles = profiles or {}

    @classmethod
    def of(
        cls,
        candidates: ArrayLike,
        first: ArrayLike,
        gain: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Shapes:
        """Count queries given by columns of answers.

        Parameters
        ----------
        candidates : array_like of int
            The number of candidates of each query, answers included; 0 if it is unknown.
        first : array_like of int
            Offsets: the answers of query `i` are `first[i]` to `first[i + 1] - 1`.
        gain : array_like of float, optional
            The gain of each answer; by default 1.
        weights : array_like of float, optional
            Weights of the queries.

        Returns
        -------
        Shapes
            The counts.

        Raises
        ------
        InputError
            If a column is invalid.
        """
        offsets = columns.integers("first", first, 0)
        if not len(offsets) or offsets[0] or (np.diff(offsets) < 0).any():
            raise InputError("first must start at 0 and not fall", got=columns.described(offsets[:9]))
        answers = np.diff(offsets)
        size = _sizes(candidates, answers)
        weight = None if weights is None else columns.weights(weights, len(answers))
        profile: Ints = np.full(len(answers), ONES)
        profiles: dict[int, Floats] = {}
        if gain is not None:
            worth = _gains(gain, int(offsets[-1]))
            profile, profiles = _profiles(worth, offsets, weight)
        return cls._counted(size, answers, weight, profile, profiles)

    @classmethod
    def of_counts(
        cls,
        candidates: ArrayLike,
        answers: ArrayLike,
        counts: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Shapes:
        """Count queries whose answers all have the gain 1.

        Parameters
        ----------
        candidates, answers : array_like of int
            The number of candidates of each query, answers included, and that of its answers; single
            numbers are repeated.
        counts : array_like of int, optional
            How often each occurs.
        weights : array_like of float, optional
            Weights of the queries.

        Returns
        -------
        Shapes
            The counts.

        Raises
        ------
        InputError
            If a column is invalid.
        """
        few = columns.integers("numbers of answers", answers, 0)
        many = columns.integers("numbers of candidates", candidates, 0)
        rows = max(len(few), len(many)) if len(few) and len(many) else 0
        few = columns.repeat("answers", few, rows)
        weight = None if weights is None else columns.weights(weights, rows)
        number = (
            None
            if counts is None
            else columns.counts(columns.repeat("counts", columns.counts(counts), rows))
        )
        return cls._counted(_sizes(many, few), few, weight, np.full(rows, ONES), {}, number)

    @classmethod
    def _counted(
        cls,
        candidates: Ints,
        answers: Ints,
        weight: Floats | None,
        profile: Ints,
        profiles: dict[int, Floats],
        counts: Ints | None = None,
    ) -> Shapes:
        """Count rows; those of weight or count zero do not count."""
        w = np.broadcast_to(1.0, answers.shape) if weight is None else weight
        some = w > 0
        if counts is not None:
            some &= counts > 0
        if not some.all():
            candidates, answers, profile = (c[some] for c in (candidates, answers, profile))
            w = w[some]
            counts = None if counts is None else counts[some]
        rows = Histogram.of(counts, candidates=candidates, answers=answers, weight=w, profile=profile)
        return cls(rows, profiles)

    def __len__(self) -> int:
        """Number of distinct shapes."""
        return len(self.rows)

    @property
    def total(self) -> int:
        """The number of queries."""
        return self.rows.total

    @property
    def known(self) -> bool:
        """Whether the numbers of candidates of all queries are known."""
        return bool(self.rows["candidates"].all())

    @property
    def graded(self) -> bool:
        """Whether any answer has a gain other than 1."""
        return bool(self.profiles)

    def __add__(self, other: Shapes) -> Shapes:
        """Add the counts."""
        if not isinstance(other, Shapes):
            return NotImplemented
        if not len(other):
            return self
        if not len(self):
            return other
        merged: dict[int, Floats] = {}
        codes = [self.rows["profile"].copy(), other.rows["profile"].copy()]
        for answers in sorted({*self.profiles, *other.profiles}):
            parts = [shapes.profiles.get(answers, np.zeros((0, answers))) for shapes in (self, other)]
            merged[answers], number = distinct_rows(np.concatenate(parts))
            numbers = number[: len(parts[0])], number[len(parts[0]) :]
            for shapes, code, new in zip((self, other), codes, numbers, strict=True):
                mine = (shapes.rows["answers"] == answers) & (shapes.rows["profile"] >= 0)
                code[mine] = new[shapes.rows["profile"][mine]]
        both = {
            name: np.concatenate([self.rows[name], other.rows[name]])
            for name in ("candidates", "answers", "weight")
        }
        counts = np.concatenate([self.rows.counts, other.rows.counts])
        return Shapes(Histogram.of(counts, **both, profile=np.concatenate(codes)), merged)

    def __eq__(self, other: object) -> bool:
        """Compare rows, gains and counts bit by bit."""
        if not isinstance(other, Shapes):
            return NotImplemented
        return (
            self.rows == other.rows
            and self.profiles.keys() == other.profiles.keys()
            and all(np.array_equal(gains, other.profiles[m]) for m, gains in self.profiles.items())
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays: equal by value, not hashable

    def __repr__(self) -> str:
        """Count the queries."""
        noun = "query" if self.total == 1 else "queries"
        return f"Shapes({self.total:,} {noun}; {len(self):,} distinct)"

    def where(self, keep: NDArray[np.bool_]) -> Shapes:
        """Select rows.

        Parameters
        ----------
        keep : ndarray of bool
            Which rows to keep.

        Returns
        -------
        Shapes
            The shapes of these rows; gains keep their numbers.
        """
        if keep.all():
            return self
        columns = {name: column[keep] for name, column in self.rows.columns.items()}
        return Shapes(Histogram(columns, self.rows.counts[keep]), self.profiles)

    def gains(self, row: int) -> Floats:
        """Return the gains of a query of one row.

        Parameters
        ----------
        row : int
            The number of the row.

        Returns
        -------
        ndarray of float
            The gains, largest first.
        """
        answers, profile = int(self.rows["answers"][row]), int(self.rows["profile"][row])
        return np.ones(answers) if profile == ONES else self.profiles[answers][profile]

    def per_row(self, of_ones: Floats, of_gains: Callable[[Floats], Floats]) -> Floats:
        """Compute a number for each row from its gains.

        Parameters
        ----------
        of_ones : ndarray of float
            The number of each row if its gains are all 1.
        of_gains : callable
            Maps an array of gains, one row per query and largest first, to a number per row.

        Returns
        -------
        ndarray of float
            The numbers.
        """
        out = np.array(of_ones, dtype=float)
        numbers = {m: of_gains(gains) for m, gains in self.profiles.items()}
        rows = np.flatnonzero(self.rows["profile"] >= 0)
        answers, profile = self.rows["answers"][rows], self.rows["profile"][rows]
        order = np.argsort(answers, kind="stable")
        ends = np.flatnonzero(np.diff(answers[order])) + 1
        for part in np.split(order, ends) if len(rows) else ():
            out[rows[part]] = numbers[int(answers[part[0]])][profile[part]]
        return out


def _sizes(candidates: ArrayLike, answers: Ints) -> Ints:
    size = columns.repeat(
        "candidates", columns.integers("numbers of candidates", candidates, 0), len(answers)
    )
    over = (answers > size) & (size > 0)
    if over.any():
        row = int(np.flatnonzero(over)[0])
        raise columns.RowError(
            "a query has more answers than candidates",
            row,
            got=f"{answers[row]:,} answers of {size[row]:,} candidates",
        )
    return size


def _gains(gain: ArrayLike, answers: int) -> Floats:
    worth = columns.as_array("gains", gain)
    if worth.ndim != 1 or (worth.dtype.kind not in "iuf" and worth.size):
        raise InputError("gains must be a column of numbers", got=columns.described(worth))
    worth = worth.astype(float)
    if len(worth) != answers:
        raise InputError("columns differ in length", got=f"{answers} answers, but {len(worth)} gains")
    columns.reject(~np.isfinite(worth) | (worth < 0), worth, "gains must be finite and not negative")
    return worth


def _profiles(gain: Floats, first: Ints, weight: Floats | None) -> tuple[Ints, dict[int, Floats]]:
    """Number the distinct rows of gains, by number of answers; queries of weight zero are left out."""
    answers = np.diff(first)
    others = np.concatenate([[0], np.cumsum(gain != 1.0)])
    graded = others[first[1:]] > others[first[:-1]]
    if weight is not None:
        graded &= weight > 0
    rows = np.flatnonzero(graded)
    rows = rows[np.argsort(answers[rows], kind="stable")]
    profile: Ints = np.full(len(answers), ONES)
    profiles: dict[int, Floats] = {}
    ends = np.flatnonzero(np.diff(answers[rows])) + 1
    for part in np.split(rows, ends) if len(rows) else ():
        m = int(answers[part[0]])
        matrix = -np.sort(-gain[first[part][:, None] + np.arange(m)], axis=1)
        profiles[m], profile[part] = distinct_rows(matrix)
    return profile, profiles


def distinct_rows(matrix: Floats) -> tuple[Floats, Ints]:
    """Return the distinct rows in lexicographic order, and the number of each row among them.

    >>> distinct_rows(np.array([[3.0, 1.0], [2.0, 2.0], [3.0, 1.0]]))[1].tolist()
    [1, 0, 1]
    """
    digits, base = _digits(matrix)
    key, width = digits[:, 0], base
    for column in digits.T[1:]:  # columns are packed into one integer, which is far faster to sort
        if width * base >= MOST_CODES:
            distinct, key = np.unique(key, return_inverse=True)
            width = len(distinct)
        key, width = key * base + column, width * base
    _, where, number = np.unique(key, return_index=True, return_inverse=True)
    return matrix[where], number


def _digits(matrix: Floats) -> tuple[Ints, int]:
    """Number the gains in ascending order."""
    if matrix.max(initial=0.0) < FEW_LEVELS:
        whole = matrix.astype(np.int64)
        if (whole == matrix).all():
            return whole, int(whole.max(initial=0)) + 1
    levels, digits = np.unique(matrix, return_inverse=True)
    return digits.reshape(matrix.shape), len(levels)
