"""The definition of a score, and counting with NumPy: slower than the compiled kernels, same counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank.ranking.engine.bounds import Counter, Form, Found, norms

name = "numpy"
# rows of queries x candidates x dimensions (distances) or queries x candidates (dot) held at once
CELLS = 1 << 20


def fold(terms: NDArray[Any]) -> NDArray[Any]:
    """Sum the last axis by halves: add the second half to the first, until one number is left.

    By definition, scores are summed in this order, padded with zeros to a power of two of terms. Each
    step is one addition of arrays, so every machine, library, batch size and device gives the same bits.

    >>> float(fold(np.array([1.0, 2.0, 3.0, 4.0, 5.0])))  # (((1 + 5) + 3) + (2 + 4))
    15.0
    """
    width = 1 << (terms.shape[-1] - 1).bit_length()
    while width > 1:
        width //= 2
        onto = terms.shape[-1] - width  # how many of the second half are there
        terms = np.concatenate([terms[..., :onto] + terms[..., width:], terms[..., onto:width]], axis=-1)
    return terms[..., 0]


def score(form: Form, queries: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Score query vectors against rows (shapes broadcast); in float64 this is the definition."""
    if form == "dot":
        return fold(queries * rows)
    apart = queries - rows
    if form == "l1":
        return -fold(np.abs(apart))
    if form == "l2":
        return -fold(apart * apart)
    real, imaginary = np.split(apart, 2, axis=-1)
    return -fold(np.sqrt(real * real + imaginary * imaginary))


def pairs(form: Form, queries: Floats, table: NDArray[Any], query: Ints, row: Ints) -> Floats:
    """Score single pairs by definition."""
    result = np.empty(len(query))
    step = max(1, CELLS // queries.shape[1])
    with np.errstate(all="ignore"):
        for at in range(0, len(query), step):
            block = slice(at, at + step)
            rows = table[row[block]].astype(np.float64, copy=False)
            result[block] = score(form, queries[query[block]], rows)
    return result


def counter(form: Form, vectors: Floats, rows: NDArray[Any], first: Ints, scores: Floats) -> Counter:
    """Prepare to count queries against rows; the targets of query i are `first[i]:first[i + 1]`."""
    wide = rows.astype(np.float64, copy=False)
    several = max(1, CELLS // len(rows))
    with np.errstate(all="ignore"):
        sizes = norms(wide)

    def dense(block: Floats) -> tuple[Floats, Floats]:
        """Score a few queries against all rows, with bounds on the error."""
        if form != "dot":
            return score(form, block[:, None], wide), np.zeros((len(block), 1))
        # float64 from BLAS, in any order of additions, errs by at most d 2^-53 |q| |e|
        # (twice that, as norms of denormal numbers are rough; and what underflows)
        slack = norms(block)[:, None] * sizes * ((rows.shape[1] + 8) * 2.0**-52) + 1e-290
        return block @ wide.T, slack

    def count(start: int, stop: int, better: Ints, equal: Ints) -> Found:
        undecided = 0
        step = several if form == "dot" else max(1, several // rows.shape[1])
        for at in range(start, stop, step):
            block = vectors[at : min(at + step, stop)]
            got, slack = dense(block)
            unsure = ~np.isfinite(got)  # overflow, or NaN
            query_of = np.repeat(np.arange(len(block)), np.diff(first[at : at + len(block) + 1]))
            for begin in range(0, len(query_of), several):
                mine = query_of[begin : begin + several]
                targets = slice(first[at] + begin, first[at] + begin + len(mine))
                goal = scores[targets][:, None]
                over = got[mine] > goal + slack[mine]
                near = ~(over | (got[mine] < goal - slack[mine])) | unsure[mine]
                target, row = np.nonzero(near)
                exact = pairs(form, block, wide, mine[target], row)
                lost = np.flatnonzero(np.isnan(exact))
                if len(lost):
                    return 0, (at - start + int(mine[target[lost[0]]]), int(row[lost[0]]))
                over[target, row] = exact > goal[target, 0]
                near[target, row] = exact == goal[target, 0]
                better[targets] += over.sum(axis=1)
                equal[targets] += near.sum(axis=1)
                undecided += len(target)
        return undecided, None

    def quiet(start: int, stop: int, better: Ints, equal: Ints) -> Found:
        with np.errstate(all="ignore"):
            return count(start, stop, better, equal)

    return quiet


def dense(form: Form, vectors: Floats, rows: NDArray[Any]) -> NDArray[np.float32]:
    """Score queries against rows in plain float32."""
    narrow, table = vectors.astype(np.float32), rows.astype(np.float32, copy=False)
    with np.errstate(all="ignore"):
        if form == "dot":
            return np.asarray(narrow @ table.T)
        return np.stack([score(form, vector, table) for vector in narrow])


def count_rows(scores: NDArray[Any], first: Ints, goal: NDArray[Any], better: Ints, equal: Ints) -> None:
    """Count the scores, a row per query, that are better than and equal to each target score."""
    query_of = np.repeat(np.arange(len(scores)), np.diff(first))
    step = max(1, CELLS // scores.shape[1])
    for at in range(0, len(goal), step):
        block = slice(at, at + step)
        rows, mine = scores[query_of[block]], goal[block][:, None]
        better[block] += (rows > mine).sum(axis=1)
        equal[block] += (rows == mine).sum(axis=1)


def count_lists(scores: NDArray[Any], start: Ints, first: Ints, goal: NDArray[Any]) -> tuple[Ints, Ints]:
    """Count in lists of scores, one per query, which are better than and equal to each target score."""
    better, equal = np.zeros(len(goal), np.int64), np.zeros(len(goal), np.int64)
    for query in np.flatnonzero((np.diff(start) > 0) & (np.diff(first) > 0)):
        ordered = np.sort(scores[start[query] : start[query + 1]])
        mine = slice(first[query], first[query + 1])
        low = np.searchsorted(ordered, goal[mine], "left")
        high = np.searchsorted(ordered, goal[mine], "right")
        better[mine], equal[mine] = len(ordered) - high, high - low
    return better, equal
