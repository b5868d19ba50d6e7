"""Counts of better and equal candidates, from matrices of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints, nan_error
from evenrank.errors import InputError


def of_targets(scores: ArrayLike, target: ArrayLike, known: ArrayLike | None) -> tuple[Ints, Ints, Ints]:
    """Count for the target of each row: `better, equal, candidates`."""
    matrix = _matrix(scores)
    at = columns.repeat("target", columns.integers("target", target, 0), len(matrix))
    columns.reject(at >= matrix.shape[1], at, "a target is not among the candidates (columns)")
    others = np.ones(matrix.shape, dtype=bool)
    if known is not None:
        mask = columns.as_array("known", known)
        if mask.dtype.kind != "b" and not np.isin(mask, (0, 1)).all():
            raise InputError("known must be true or false", got=columns.described(mask))
        if mask.shape != matrix.shape:
            raise InputError("known and scores differ in shape", got=f"{mask.shape} and {matrix.shape}")
        others = ~mask.astype(bool)
    rows = np.arange(len(matrix))
    others[rows, at] = False
    wanted = matrix[rows, at][:, None]
    return (
        ((matrix > wanted) & others).sum(axis=1),
        ((matrix == wanted) & others).sum(axis=1),
        others.sum(axis=1) + 1,
    )


def of_answers(
    scores: ArrayLike, relevant: ArrayLike, known: ArrayLike | None
) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """Count for the relevant candidates of each row: `first, better, equal, candidates, gains`."""
    matrix = _matrix(scores)
    worth = columns.as_array("relevant", relevant)
    if worth.shape != matrix.shape or worth.dtype.kind not in "biuf":
        raise InputError(
            "relevant must have the shape of scores", got=f"{worth.shape} and {matrix.shape}"
        )
    wrong = ~np.isfinite(worth) | (worth < 0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            "gains must be finite and not negative",
            got=f"{worth[row, column]} (query {row}, candidate {column})",
        )
    gain = worth.astype(float)
    there = np.ones(matrix.shape, dtype=bool)
    if known is not None:
        mask = columns.as_array("known", known)
        if mask.shape != matrix.shape or (mask.dtype.kind != "b" and not np.isin(mask, (0, 1)).all()):
            raise InputError("known must be true or false, in the shape of scores", got=mask.shape)
        there = ~mask.astype(bool) | (gain > 0)
    query, at = np.nonzero(gain)
    better, equal = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
    for i in range(len(matrix)):
        mine = query == i if len(matrix) < 64 else slice(*np.searchsorted(query, [i, i + 1]))
        ordered = np.sort(matrix[i, there[i]])
        own = matrix[i, at[mine]]
        low, high = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
        better[mine], equal[mine] = len(ordered) - high, high - low - 1
    first = np.searchsorted(query, np.arange(len(matrix) + 1))
    return first, better, equal, there.sum(axis=1), gain[query, at]


def _matrix(scores: ArrayLike) -> NDArray[Any]:
    """Check a matrix of scores."""
    matrix = columns.as_array("scores", scores)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        raise InputError(
            "scores must be a matrix of numbers, a row per query and a column per candidate",
            got=f"shape {matrix.shape} of {matrix.dtype}",
        )
    if np.isnan(matrix).any():
        row, column = np.argwhere(np.isnan(matrix))[0]
        raise nan_error(f"query {row}, candidate {column}")
    return matrix
