"""The times of triples as ids, and which known triples are filtered from a query at a time.

A query of a temporal graph asks for the answer at a time, a point or an interval. Three filters are in
use: time-aware, time-agnostic (also called static), and, for intervals, by overlap.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.ranks.lists import Lists

MOST = 2**53  # ids of times may be seconds or milliseconds since 1970
Time: TypeAlias = Literal["aware", "overlap", "agnostic"]
KINDS: tuple[Time, ...] = get_args(Time)


def check_times(split: str, times: NDArray[Any]) -> Ints:
    """Check the times of an array of facts: one or two columns of ids."""
    whole = (times >= 0) & (times < MOST) & (times == np.floor(times))
    if not whole.all():
        row = int(np.flatnonzero(~whole.all(axis=1))[0])
        raise InputError(
            f"{split} row {row}: not the id of a time",
            got=times[row][~whole[row]][0],
            allowed=f"a whole number from 0 to {MOST - 1:,}",
        )
    both = times if times.shape[1] == 2 else np.repeat(times, 2, axis=1)
    return np.array(both, dtype=np.int64, order="C")


def filtered(
    kind: Time,
    asked: tuple[Ints, Ints],
    known: tuple[Ints, Ints],
    answers: Ints,
    *,
    intervals: bool,
) -> tuple[Ints, Ints, Ints]:
    """Add times to queries, and find the known answers that are filtered at these times.

    Parameters
    ----------
    kind : {"aware", "overlap", "agnostic"}
        The filter.
    asked, known : tuple of array of int
        Rows of queries, and the first and the last time of each: those that are ranked, and those of
        known triples.
    answers : array of int
        The answer to each query of a known triple.
    intervals : bool
        Whether queries get two columns, the first and the last time, or one.

    Returns
    -------
    tuple of array of int
        The queries that are ranked with their times; queries of known answers with the times of those
        that are ranked; and these answers.

    Examples
    --------
    >>> asked = np.array([[0, 5, -1], [0, 5, -1]]), np.array([[3, 3], [7, 7]])
    >>> known = np.array([[0, 5, -1]] * 3), np.array([[3, 3], [3, 3], [8, 8]])
    >>> queries, rows, answers = filtered("aware", asked, known, np.array([1, 2, 9]), intervals=False)
    >>> queries.tolist(), rows.tolist(), answers.tolist()
    ([[0, 5, -1, 3], [0, 5, -1, 7]], [[0, 5, -1, 3], [0, 5, -1, 3]], [1, 2])
    """
    columns = slice(0, 2 if intervals else 1)
    queries = np.concatenate([asked[0], asked[1][:, columns]], axis=1)
    if not len(known[0]):
        return queries, queries[:0], answers[:0]
    # each distinct query at a time, beside the known triples of that query at any time
    distinct = np.unique(np.concatenate(asked, axis=1), axis=0)
    plain, when = distinct[:, :-2], distinct[:, -2:]
    code = np.unique(np.concatenate([plain, known[0]]), axis=0, return_inverse=True)[1].ravel()
    mine, theirs = code[: len(plain)], code[len(plain) :]
    rows = Lists.grouped(theirs, np.arange(len(theirs)), int(code.max()) + 1).select(mine)
    at, triple = rows.owner, rows.values
    kept = meets(kind, when[at], known[1][triple])
    at, triple = at[kept], triple[kept]
    found = np.concatenate([plain[at], when[at][:, columns]], axis=1)
    return queries, found, answers[triple]


def meets(kind: Time, asked: Ints, known: Ints) -> NDArray[np.bool_]:
    """Mark, row by row, whether a known fact is filtered from a query at a time.

    Parameters
    ----------
    kind : {"aware", "overlap", "agnostic"}
        The filter.
    asked, known : array of int, shape (n, 2)
        The first and the last time of the query and of the fact.

    Returns
    -------
    array of bool
        For each row, whether it is.

    Examples
    --------
    >>> asked, known = np.array([[3, 3], [3, 5]]), np.array([[3, 3], [5, 9]])
    >>> [meets(kind, asked, known).tolist() for kind in ("aware", "overlap", "agnostic")]
    [[True, False], [True, True], [True, True]]
    """
    if kind == "agnostic":
        return np.ones(len(asked), dtype=bool)
    if kind == "aware":
        return np.asarray((asked == known).all(axis=1))
    return np.asarray((asked[:, 0] <= known[:, 1]) & (known[:, 0] <= asked[:, 1]))
