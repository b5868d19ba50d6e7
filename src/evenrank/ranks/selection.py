"""Choosing groups of an evaluation: by a metric, best first, and by their numbers of targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.columns import integer
from evenrank.errors import InputError


def best_first(values: Floats, *, increasing: bool | None, reverse: bool = False) -> Ints:
    """Order values from the best to the worst, or the other way round; undefined ones come last.

    Parameters
    ----------
    values : ndarray of float
        The values.
    increasing : bool or None
        Whether larger values are better; None orders from the largest to the smallest as well.
    reverse : bool
        Whether the worst come first.

    Returns
    -------
    ndarray of int
        Positions of the values; equal values stay in their order.

    Examples
    --------
    >>> ranks = np.array([3.0, np.nan, 1.0, 9.0])
    >>> best_first(ranks, increasing=False).tolist(), best_first(ranks, increasing=True).tolist()
    ([2, 0, 3, 1], [3, 0, 2, 1])
    """
    descending = (increasing is not False) != reverse
    return np.lexsort((-values if descending else values, np.isnan(values)))


def counted(number: int, name: str) -> str:
    """Write a number of targets or queries.

    >>> counted(1, "query"), counted(2000, "query")
    ('1 query', '2,000 queries')
    """
    return f"{number:,} {name if number == 1 else rows_of(name)}"


def rows_of(name: str) -> str:
    """Write what rows are in the plural.

    >>> rows_of("target"), rows_of("query")
    ('targets', 'queries')
    """
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def frequent(
    counts: Sequence[int], min_count: int, names: Sequence[str], row_name: str = "target"
) -> tuple[list[int], list[str]]:
    """Select the groups with enough targets.

    Parameters
    ----------
    counts : sequence of int
        The number of targets of each group.
    min_count : int
        The smallest number of targets.
    names : sequence of str
        Names of the labels of the groups.
    row_name : str
        What is counted: targets or queries.

    Returns
    -------
    tuple of list of int and list of str
        Positions of the groups, and a note on how many were left out.

    Raises
    ------
    InputError
        If there are no groups or no counts, or no group has enough targets.

    Examples
    --------
    >>> frequent([5, 1, 12], 5, ["relation"])
    ([0, 2], ['1 of 3 groups left out: fewer than 5 targets'])
    """
    least = integer("min_count", min_count, 1)
    if not names or not counts:
        raise InputError(
            f"only groups have numbers of {rows_of(row_name)}",
            do="group the ranks by a key first",
        )
    rows = [i for i, count in enumerate(counts) if count >= least]
    if not rows:
        got = f"at most {max(counts):,}, and min_count {least:,}"
        raise InputError(f"no group has enough {rows_of(row_name)}", got=got)
    gone = len(counts) - len(rows)
    what = "models" if tuple(names) in (("model",), ("ranks",), ("rankings",)) else "groups"
    targets = counted(least, row_name)
    return rows, [f"{gone} of {len(counts)} {what} left out: fewer than {targets}"] * (gone > 0)
