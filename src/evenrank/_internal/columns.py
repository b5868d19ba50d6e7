"""Checks and codes for columns: what may be in them, and which rows are alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError

COUNTS = ("better", "equal", "candidates")
LARGEST = 10**9
TEXT = (".csv", ".tsv", ".txt")


class RowError(InputError):
    """What is wrong in one row of some columns."""

    def __init__(self, what: str, row: int, *, got: str = "", allowed: str | None = None) -> None:
        """Name the row as arrays count, from 0."""
        self.row, self._got, self._allowed = row, f"{got} in " if got else "", allowed
        super().__init__(what, got=f"{self._got}row {row}", allowed=allowed)

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        """Travel between processes as what it says."""
        return InputError, (str(self),)

    def in_file(self, file: str, first: int) -> InputError:
        """Say it of a file whose rows are counted as people do, from 1; `first` came before these."""
        below = " below the header" if file.lower().endswith(TEXT) else ""
        row = f"{self._got}row {first + self.row + 1:,}{below}"
        return InputError(f"{file}: {self.what}", got=row, allowed=self._allowed)


@contextmanager
def said_of(file: str, first: int = 0) -> Iterator[None]:
    """Name the file that columns are of, and the row in it, in what is said against them."""
    try:
        yield
    except RowError as error:
        raise error.in_file(file, first) from None
    except InputError as error:
        raise error if file in str(error) else InputError(f"{file}: {error}") from None


def checked(
    better: ArrayLike, equal: ArrayLike, candidates: ArrayLike | None, given: ArrayLike | None
) -> tuple[Ints, Ints, Ints, Floats | None]:
    """Check the columns of ranked targets; a single number is repeated, no candidates become zeros."""
    first = integers("better", better, 0)
    rows = len(first)
    second = repeat("equal", integers("equal", equal, 0), rows)
    weight = None if given is None else weights(given, rows)
    if candidates is None:
        return first, second, np.broadcast_to(np.int64(0), rows), weight
    third = repeat("candidates", integers("candidates", candidates, 1), rows)
    over = first + second >= third
    if over.any():
        row = int(np.flatnonzero(over)[0])
        raise RowError(
            "a rank is above its number of candidates",
            row,
            got=f"rank {first[row] + second[row] + 1} of {third[row]}",
            allowed="1 to candidates, where candidates counts the target too",
        )
    return first, second, third, weight


def from_ranks(rank: ArrayLike) -> tuple[Ints, Ints]:
    """Count better and equal candidates from ranks; a half-integer is the mean rank of a tie of two."""
    try:
        values = np.atleast_1d(np.asarray(rank))
    except ValueError:
        raise InputError("ranks must be a column of numbers", got="ragged rows") from None
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise InputError("ranks must be numbers", got=f"shape {values.shape} of type {values.dtype}")
    whole = values.dtype.kind != "f"
    values = values.astype(np.int64 if whole else float)
    if not whole:
        refuse(~np.isfinite(values), values, "ranks must be finite")
        refuse(2 * values != np.floor(2 * values), values, "ranks must be whole numbers or halves")
    refuse(values < 1, values, "ranks start at 1")
    refuse(values > LARGEST, values, f"ranks must be at most {LARGEST:,}")
    better = np.floor(values).astype(np.int64) - 1
    equal = (2 * values).astype(np.int64) - 2 * better - 2  # 1 where the rank is a half-integer
    return better, equal


def refuse(bad: NDArray[np.bool_], values: NDArray[Any], what: str) -> None:
    """Raise an error that names the first bad row."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise RowError(what, row, got=str(values[row]))


def integers(name: str, values: ArrayLike, least: int, most: int = LARGEST) -> Ints:
    """Give a column of whole numbers from `least` to `most`."""
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1 or (array.dtype.kind not in "iuf" and array.size):
        raise InputError(
            f"{name} must be a column of whole numbers", got=f"shape {array.shape} of {array.dtype}"
        )
    if array.dtype.kind == "f":
        refuse(~np.isfinite(array) | (array != np.floor(array)), array, f"{name} must be whole")
    refuse(array < least, array, f"{name} must be at least {least}")
    refuse(array > most, array, f"{name} must be at most {most:,}")
    return array.astype(np.int64, copy=False)


def repeat(name: str, column: Ints, rows: int) -> Ints:
    """Repeat a single number; refuse any other length than `rows`."""
    if len(column) == 1 and rows != 1:
        return np.broadcast_to(column, rows)
    if len(column) != rows:
        raise InputError("columns differ in length", got=f"{rows} rows, but {len(column)} in {name}")
    return column


def weights(values: ArrayLike, rows: int) -> Floats:
    """Give a column of weights."""
    weight = np.atleast_1d(np.asarray(values))
    if weight.dtype.kind not in "iuf":
        raise InputError("weights must be numbers", got=f"type {weight.dtype}")
    weight = weight.astype(float)
    if len(weight) != rows:
        raise InputError("columns differ in length", got=f"{rows} rows, but {len(weight)} in weight")
    if rows:
        check_weights(weight)
    return weight


def check_weights(weight: Floats) -> None:
    """Refuse weights that cannot be normalised."""
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~(np.isfinite(weight) & (weight >= 0))][0]
        raise InputError("weights must be finite and not negative", got=float(bad))
    if not (weight > 0).any():
        raise InputError("at least one weight must be positive", got="only zeros")


def key(name: str, values: ArrayLike, rows: int) -> NDArray[Any]:
    """Give a column that names things: numbers as they are, everything else as text."""
    if name in (*COUNTS, "weight"):
        raise InputError("a key column has the name of a count", got=repr(name), do="rename it")
    column = np.asarray(values)
    if column.ndim == 1 and column.dtype.kind not in "iufb":
        texts = ["" if v is None else v if isinstance(v, str) else str(v) for v in column.tolist()]
        column = np.array([*texts, None], dtype=object)[:-1]  # objects, whatever the texts look like
    if column.ndim == 0:
        column = np.broadcast_to(column, rows)
    if column.shape != (rows,):
        raise InputError("columns differ in length", got=f"{rows} rows, but {column.shape} in {name}")
    return column


def encode(columns: list[NDArray[Any]]) -> tuple[Ints, list[NDArray[Any]]]:
    """Number the distinct rows of some columns in sorted order; give the numbers and the rows."""
    codes: list[Ints] = []
    distinct: list[NDArray[Any]] = []
    for column in columns:
        if column.dtype.kind == "O":  # a dictionary beats sorting strings five to one
            names = sorted(dict.fromkeys(column.tolist()))
            place = {name: i for i, name in enumerate(names)}
            codes.append(np.array([place[v] for v in column.tolist()], dtype=np.int64))
            distinct.append(np.array(names, dtype=object))
        else:
            values, code = np.unique(column, return_inverse=True)
            codes.append(code)
            distinct.append(values)
    present, numbers = np.unique(codes[0], return_inverse=True)
    rows = [distinct[0][present]]
    for code, names_of in zip(codes[1:], distinct[1:], strict=True):
        # renumbered after every column, so that the product of distinct counts cannot overflow
        present, numbers = np.unique(numbers * len(names_of) + code, return_inverse=True)
        group, digit = np.divmod(present, len(names_of))
        rows = [*(row[group] for row in rows), names_of[digit]]
    return numbers, rows
