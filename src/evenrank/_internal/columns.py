"""Checks of arguments and columns, and numbering of distinct rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.names import count_name
from evenrank.errors import InputError

COUNTS = ("better", "equal", "candidates")
LARGEST = 10**9
MOST_COUNTED = 2**53  # floats represent counts exactly up to here
HEAVIEST = 1e50  # of weights: fourth powers of as many as can be counted can be added
TEXT = (".csv", ".tsv", ".txt")


class RowError(InputError):
    """An invalid value in one row; rows are counted from 0, as in arrays."""

    def __init__(self, what: str, row: int, *, got: str = "", allowed: str | None = None) -> None:
        self.row, self._got, self._allowed = row, f"{got} in " if got else "", allowed
        super().__init__(what, got=f"{self._got}row {row}", allowed=allowed)

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        """Pickle as a plain `InputError` with the same message."""
        return InputError, (str(self),)

    def in_file(self, file: str, first: int) -> InputError:
        """Name the file, and the row counted from 1; `first` rows of the file precede these columns."""
        below = " below the header" if file.lower().endswith(TEXT) else ""
        row = f"{self._got}row {first + self.row + 1:,}{below}"
        return InputError(f"{file}: {self.what}", got=row, allowed=self._allowed)

    def of_one(self) -> InputError:
        """Leave out the row, if there is one value only."""
        return InputError(self.what, got=self._got.removesuffix(" in "), allowed=self._allowed)


@contextmanager
def errors_name_file(file: str, first: int = 0) -> Iterator[None]:
    """Add the name of the file, and the row in it, to errors about its columns."""
    try:
        yield
    except RowError as error:
        raise error.in_file(file, first) from None
    except InputError as error:
        raise error if file in str(error) else InputError(f"{file}: {error}") from None


def checked(
    better: ArrayLike, equal: ArrayLike, candidates: ArrayLike | None, given: ArrayLike | None
) -> tuple[Ints, Ints, Ints, Floats | None]:
    """Check the columns of `Ranks`; single numbers are repeated, unknown candidates become zeros."""
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
    """Convert ranks to counts of better and equal candidates; a half-integer is a tie of two."""
    values = _numbers("ranks", rank, "a column of numbers")
    whole = values.dtype.kind in "iu"
    values = values.astype(np.int64 if whole else float)
    if not whole:
        reject(~np.isfinite(values), values, "ranks must be finite")
        reject(2 * values != np.floor(2 * values), values, "ranks must be whole numbers or halves")
    reject(values < 1, values, "ranks start at 1")
    reject(values > LARGEST, values, f"ranks must be at most {LARGEST:,}")
    better = np.floor(values).astype(np.int64) - 1
    equal = (2 * values).astype(np.int64) - 2 * better - 2  # 1 where the rank is a half-integer
    return better, equal


def reject(bad: NDArray[np.bool_], values: NDArray[Any], what: str) -> None:
    """Raise an error that names the first row where `bad` is true."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise RowError(what, row, got=str(values[row]))


def is_whole(text: str) -> bool:
    """Whether a text is a whole number that fits into 64 bits, in digits from 0 to 9.

    >>> is_whole("12"), is_whole("²"), is_whole("-1"), is_whole("9" * 5000)
    (True, False, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= 18


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert to an array; rows of different lengths raise an InputError."""
    try:
        return np.asarray(values)
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"{name} must be a column of numbers", got="rows of different lengths"
        ) from None


def described(array: NDArray[Any]) -> str:
    """Describe an array of the wrong type or shape for an error message.

    >>> described(np.zeros((2, 3))), described(np.array(None)), described(np.array(["a"]))
    ('an array of shape (2, 3)', 'None', "['a']")
    """
    if array.ndim > 1:
        return f"an array of shape {array.shape}"
    text = repr(array.tolist())
    return text if len(text) <= 40 else f"{text[:40]}..."


def _numbers(name: str, values: ArrayLike, what: str) -> NDArray[Any]:
    """Convert to a column of numbers; a single number is a column of one."""
    column = np.atleast_1d(as_array(name, values))
    if column.ndim != 1 or (column.dtype.kind not in "iuf" and column.size):
        raise InputError(f"{name} must be {what}", got=described(column))
    return column


def integers(name: str, values: ArrayLike, least: int, most: int = LARGEST) -> Ints:
    """Check a column of whole numbers from `least` to `most`; a single number is a column of one."""
    array = _numbers(name, values, "a column of whole numbers")
    if array.dtype.kind == "f":
        reject(~np.isfinite(array) | (array != np.floor(array)), array, f"{name} must be whole")
    reject(array < least, array, f"{name} must be at least {least}")
    reject(array > most, array, f"{name} must be at most {most:,}")
    return array.astype(np.int64, copy=False)


def integer(name: str, value: Any, least: int, most: int = LARGEST) -> int:
    """Check one whole number from `least` to `most`.

    >>> integer("count", 0, 1)
    Traceback (most recent call last):
    evenrank.errors.InputError: count must be at least 1; got 0
    """
    try:
        column = integers(name, value, least, most)
    except RowError as error:
        raise (error if np.ndim(value) else error.of_one()) from None
    if len(column) != 1:
        raise InputError(f"{name} must be one whole number", got=f"{len(column)} values")
    return int(column[0])


def counts(values: ArrayLike) -> Ints:
    """Check numbers of targets: whole, not negative, and exact as floats when they are added."""
    count = integers("counts", values, 0, MOST_COUNTED)
    total = float(count.sum(dtype=float))
    if total < 2 * MOST_COUNTED:  # exact, where integers cannot overflow
        total = int(count.sum())
    if total > MOST_COUNTED:
        raise InputError("impossible number of targets", got=f"{total:.3g}", allowed="1 to 2^53")
    return count


def repeat(name: str, column: Ints, rows: int) -> Ints:
    """Repeat a single number; any other length than `rows` is an error."""
    if len(column) == 1 and rows != 1:
        return np.broadcast_to(column, rows)
    if len(column) != rows:
        raise InputError("columns differ in length", got=f"{rows} rows, but {len(column)} in {name}")
    return column


def weights(values: ArrayLike, rows: int) -> Floats:
    """Check a column of weights."""
    weight = _numbers("weights", values, "numbers").astype(float)
    if len(weight) != rows:
        raise InputError("columns differ in length", got=f"{rows} rows, but {len(weight)} in weight")
    if rows:
        check_weights(weight)
    return weight


def check_weights(weight: Floats) -> None:
    """Check that weights can be normalised."""
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~(np.isfinite(weight) & (weight >= 0))][0]
        raise InputError("weights must be finite and not negative", got=float(bad))
    largest = float(weight.max())
    if not largest:
        raise InputError("at least one weight must be positive", got="only zeros")
    if not 1 / HEAVIEST <= largest <= HEAVIEST:  # or sums of their powers overflow
        raise InputError(
            f"weights are too {'large' if largest > 1 else 'small'} to be added",
            got=f"a largest weight of {largest:g}",
            allowed=f"{1 / HEAVIEST:g} to {HEAVIEST:g}",
            do="divide them by their largest",
        )


def key(name: str, values: ArrayLike, rows: int) -> NDArray[Any]:
    """Check a key column: numbers stay numbers, everything else becomes text."""
    column = as_array(f"key {name}", values)
    if count_name(name, numbers=column.dtype.kind in "iuf") is not None:
        raise InputError("a key column has the name of a count", got=repr(name), do="rename it")
    if column.ndim == 1 and column.dtype.kind not in "iufb":
        column = as_texts(column)
    if column.ndim == 0:
        column = np.broadcast_to(column, rows)
    if column.shape != (rows,):
        raise InputError("columns differ in length", got=f"{rows} rows, but {column.shape} in {name}")
    return column


def as_texts(column: NDArray[Any]) -> NDArray[Any]:
    """Copy a column as texts; None is empty.

    >>> as_texts(np.array(["a", None, 3], dtype=object)).tolist()
    ['a', '', '3']
    """
    values = column.tolist()
    if set(map(type, values)) == {str}:  # checked without a loop in Python, since most are texts
        return column.astype(object)
    values = ["" if v is None else v if isinstance(v, str) else str(v) for v in values]
    return np.array([*values, None], dtype=object)[:-1]  # objects, whatever the texts look like


def mapping(name: str, given: Any) -> Mapping[Any, Any]:
    """Check an optional argument that must be a mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"{name} must be a mapping", got=repr(given)[:40])
    return given or {}


def column_names(name: str, given: Any) -> list[str]:
    """Read names: one text, in which commas separate them, or several texts.

    >>> column_names("by", "relation,side"), column_names("by", ("relation", "side"))
    (['relation', 'side'], ['relation', 'side'])
    """
    several = given.split(",") if isinstance(given, str) else as_list(given)
    if not several or not all(isinstance(one, str) for one in several):
        raise InputError(f"{name} must be one or more names", got=repr(given)[:40])
    return several


def as_list(given: Any) -> list[Any] | None:
    """Return the items of a sequence or another iterable, but of no text or mapping; else None."""
    try:
        return None if isinstance(given, str | bytes | Mapping) else list(given)
    except TypeError:  # also raised by arrays without dimensions
        return None


Numbered = tuple[Ints, NDArray[Any]]


def encode(columns: list[NDArray[Any]]) -> tuple[Ints, list[NDArray[Any]]]:
    """Number the distinct rows of some columns in sorted order; return the numbers and the rows."""
    return combined([numbered(column) for column in columns])


def numbered(column: NDArray[Any]) -> Numbered:
    """Number the distinct values of a column in sorted order; return the numbers and the values."""
    if column.dtype.kind == "O":  # a dictionary beats sorting strings five to one
        cells = column.tolist()
        names = sorted(dict.fromkeys(cells))
        place = {name: i for i, name in enumerate(names)}
        code = np.fromiter(map(place.__getitem__, cells), dtype=np.int64, count=len(cells))
        return code, np.array(names, dtype=object)
    values, code = _unique(column)
    return code, values


def combined(columns: list[Numbered]) -> tuple[Ints, list[NDArray[Any]]]:
    """Number the distinct rows of numbered columns."""
    numbers, first = columns[0]
    rows = [first]
    for code, names_of in columns[1:]:
        # renumbered after every column, so that the product of distinct counts cannot overflow
        present, numbers = _unique(numbers * len(names_of) + code)
        group, digit = np.divmod(present, len(names_of))
        rows = [*(row[group] for row in rows), names_of[digit]]
    return numbers, rows


def _unique(column: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Number the distinct values; small integers, such as codes, without sorting."""
    if column.dtype.kind == "i" and len(column) and column.min() >= 0:
        limit = int(column.max()) + 1
        if limit <= 4 * len(column):
            there = np.zeros(limit, dtype=bool)
            there[column] = True
            return np.flatnonzero(there).astype(column.dtype), (np.cumsum(there) - 1)[column]
    values, code = np.unique(column, return_inverse=True)
    return values, code
