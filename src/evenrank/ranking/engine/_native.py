"""The compiled kernels (`_kernels.c`), if the package was installed with a C compiler."""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.ranking.engine import numpy_kernels
from evenrank.ranking.engine.bounds import FORMS, Counter, Form, Found, bounds

VARIANTS = ("base", "avx2", "avx512")
FUNCTIONS = (
    *("pairs", "pack", "count", "dense"),
    *("count_rows_narrow", "count_rows_wide", "count_lists"),
)


class Kernels(Protocol):
    """The functions that counting needs, of the compiled kernels or of the module `numpy_kernels`."""

    @property
    def name(self) -> str:
        """Name of the kernels."""
        ...

    def pairs(self, form: Form, queries: Floats, table: NDArray[Any], query: Ints, row: Ints) -> Floats:
        """Score single pairs by definition."""
        ...

    def counter(
        self, form: Form, vectors: Floats, rows: NDArray[Any], first: Ints, scores: Floats
    ) -> Counter:
        """Prepare to count queries against rows; the targets of query i are `first[i]:first[i + 1]`."""
        ...

    def dense(self, form: Form, vectors: Floats, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Score queries against rows in plain float32."""
        ...

    def count_rows(
        self, scores: NDArray[Any], first: Ints, goal: NDArray[Any], better: Ints, equal: Ints
    ) -> None:
        """Add the numbers of scores, a row per query, better than and equal to each target score."""
        ...

    def count_lists(
        self, scores: NDArray[Any], start: Ints, first: Ints, goal: NDArray[Any]
    ) -> tuple[Ints, Ints]:
        """Count, in a list of scores per query, those better than and equal to each target score."""
        ...


class Native:
    """The kernels for one instruction set. Calls release the GIL, so threads run in parallel."""

    def __init__(self, library: ctypes.CDLL, variant: str) -> None:
        self.name = variant
        self._call = {name: getattr(library, f"{name}_{variant}") for name in FUNCTIONS}
        self._room = library[f"room_for_{variant}"]
        self._room.restype = ctypes.c_int64

    def pairs(self, form: Form, queries: Floats, table: NDArray[Any], query: Ints, row: Ints) -> Floats:
        """Score single pairs by definition."""
        result = np.empty(len(query))
        code = self._call["pairs"](
            FORMS.index(form),
            _long(_dimension(form, queries)),
            _at(queries),
            _at(table),
            int(table.dtype == np.float64),
            _long(len(query)),
            _at(np.ascontiguousarray(query)),
            _at(np.ascontiguousarray(row)),
            _at(result),
        )
        _check(code)
        return result

    def counter(
        self, form: Form, vectors: Floats, rows: NDArray[Any], first: Ints, scores: Floats
    ) -> Counter:
        """Prepare to count queries against rows: pack both into panels, and bound the errors."""
        d = _dimension(form, rows)
        query_of = np.repeat(np.arange(len(vectors)), np.diff(first))
        limits = bounds(form, d, vectors, rows, query_of, scores)
        rows_in_panel = self._room(0, _long(1), _long(1))
        weight = np.maximum.reduceat(limits.weight, np.arange(0, len(rows), rows_in_panel))
        packed_vectors, packed_rows = self._pack(form, vectors, 1), self._pack(form, rows, 0)

        def count(start: int, stop: int, better: Ints, equal: Ints) -> Found:
            undecided, bad = np.zeros(1, np.int64), np.zeros(2, np.int64)
            code = self._call["count"](
                FORMS.index(form),
                _long(d),
                _long(stop - start),
                _at(vectors[start:stop]),
                _at(packed_vectors[start * vectors.shape[1] :]),
                _long(len(rows)),
                _at(rows),
                int(rows.dtype == np.float64),
                _at(packed_rows),
                _at(first[start : stop + 1]),
                _at(scores),
                _at(limits.low),
                _at(limits.high),
                _at(limits.slope[start:stop]),
                _at(weight),
                _at(better),
                _at(equal),
                _at(undecided),
                _at(bad),
            )
            _check(code)
            return int(undecided[0]), (int(bad[0]), int(bad[1])) if code == 1 else None

        return count

    def dense(self, form: Form, vectors: Floats, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Score queries against rows in plain float32."""
        scores = np.empty((len(vectors), len(rows)), dtype=np.float32)
        self._call["dense"](
            FORMS.index(form),
            _long(_dimension(form, rows)),
            _long(len(vectors)),
            _at(self._pack(form, vectors, 1)),
            _long(len(rows)),
            _at(self._pack(form, rows, 0)),
            _at(scores),
        )
        return scores

    def _pack(self, form: Form, rows: NDArray[Any], queries: int) -> NDArray[np.float32]:
        room = self._room(queries, _long(len(rows)), _long(rows.shape[1]))
        packed = np.empty(room, dtype=np.float32)
        self._call["pack"](
            queries,
            FORMS.index(form),
            _long(len(rows)),
            _long(_dimension(form, rows)),
            _at(rows),
            int(rows.dtype == np.float64),
            _at(packed),
        )
        return packed

    def count_rows(
        self, scores: NDArray[Any], first: Ints, goal: NDArray[Any], better: Ints, equal: Ints
    ) -> None:
        """Add the numbers of scores, a row per query, better than and equal to each target score."""
        names = {np.dtype(np.float32): "count_rows_narrow", np.dtype(np.float64): "count_rows_wide"}
        if scores.dtype != goal.dtype or scores.dtype not in names or not scores.flags.c_contiguous:
            numpy_kernels.count_rows(scores, first, goal, better, equal)
            return
        rows, width = scores.shape
        self._call[names[scores.dtype]](
            _long(rows), _long(width), _at(scores), _at(first), _at(goal), _at(better), _at(equal)
        )

    def count_lists(
        self, scores: NDArray[Any], start: Ints, first: Ints, goal: NDArray[Any]
    ) -> tuple[Ints, Ints]:
        """Count, in a list of scores per query, those better than and equal to each target score."""
        if scores.dtype.kind != "f" or goal.dtype.kind != "f":
            return numpy_kernels.count_lists(scores, start, first, goal)
        scores, goal = (x.astype(np.float64, copy=False) for x in (scores, goal))
        better, equal = np.zeros(len(goal), np.int64), np.zeros(len(goal), np.int64)
        self._call["count_lists"](
            _long(len(first) - 1),
            _at(scores),
            _at(start),
            _at(first),
            _at(goal),
            _at(better),
            _at(equal),
        )
        return better, equal


def kernels() -> Kernels:
    """Return the fastest kernels that this machine can run.

    The environment variable EVENRANK_KERNELS selects others: numpy, base, avx2 or avx512. They differ
    in speed only.
    """
    wanted = os.environ.get("EVENRANK_KERNELS", "")
    able = available()
    if wanted == "numpy":
        return numpy_kernels
    if not wanted and not able:
        _warn_of_slowness()
        return numpy_kernels
    if wanted and wanted not in able:
        raise InputError(
            "EVENRANK_KERNELS names kernels that are not available",
            got=wanted,
            allowed=", ".join(["numpy", *able]),
        )
    return _variant(wanted or able[-1])


@cache
def _warn_of_slowness() -> None:
    """Say once that ranking could be faster: pip hides what the build of a package prints."""
    warnings.warn(
        "evenrank was installed without its compiled kernels, so NumPy ranks, with the same results but "
        "much slower; install a C compiler and reinstall evenrank, or set EVENRANK_KERNELS=numpy",
        RuntimeWarning,
        stacklevel=4,
    )


@cache
def available() -> tuple[str, ...]:
    """Return the variants that were compiled and that this machine can run, the fastest last."""
    library = _library()
    return VARIANTS[: library.kernel_level() + 1] if library is not None else ()


@cache
def _variant(name: str) -> Native:
    library = _library()
    assert library is not None
    return Native(library, name)


@cache
def _library() -> ctypes.CDLL | None:
    path = Path(__file__).with_name("_kernels.dll" if os.name == "nt" else "_kernels.so")
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # not compiled, or for another machine: NumPy is used
        return None


def _dimension(form: Form, rows: NDArray[Any]) -> int:
    return int(rows.shape[1]) // (2 if form == "modulus" else 1)


def _long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(int(value))


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    # the kernels trust the pointer; an array of another type would give a wrong result
    assert array.flags.c_contiguous
    assert array.dtype in (np.float32, np.float64, np.int64)
    return array.ctypes.data_as(ctypes.c_void_p)  # this keeps the array alive


def _check(code: int) -> None:
    if code == 2:
        raise MemoryError
