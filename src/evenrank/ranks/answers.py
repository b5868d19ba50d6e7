"""The answers of `Rankings`, from lists, columns, or ranks of single answers: checked and in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.metrics.answers.values import UNRANKED, Answers
from evenrank.ranks.lists import offsets
from evenrank.ranks.ranks import Ranks


def checked(
    first: ArrayLike,
    better: ArrayLike,
    equal: ArrayLike,
    candidates: ArrayLike | None,
    gains: ArrayLike | None,
    answers: ArrayLike | None,
) -> tuple[Answers, NDArray[Any] | None]:
    """Check columns with a row per answer, and order the answers of each query; also their names."""
    start = columns.integers("first", first, 0)
    if not len(start) or start[0] or (np.diff(start) < 0).any():
        raise InputError("first must start at 0 and not fall", got=columns.described(start[:9]))
    rows, total = len(start) - 1, int(start[-1])
    ahead = columns.repeat("better", columns.integers("better", better, UNRANKED), total)
    same = columns.repeat("equal", columns.integers("equal", equal, 0), total)
    gain = None if gains is None else _gains(gains, total)
    names = None if answers is None else columns.key("answers", answers, total)
    many = np.zeros(rows, np.int64)
    if candidates is not None:
        many = columns.integers("candidates", candidates, 1)
        many = columns.repeat("candidates", many, rows)
    if gain is not None and not gain.all():
        worth = gain > 0
        start = offsets(worth)[start]
        ahead, same, gain = ahead[worth], same[worth], gain[worth]
        names = None if names is None else names[worth]
    if gain is not None and (gain == 1.0).all():
        gain = None
    given = Answers(start, ahead, same, gain, many)
    order = given.order
    if order is not None:
        given, names = given.taken(order), None if names is None else names[order]
    given.check()
    _check_names(given, names)
    return given, names


def per_query(name: str, given: Any) -> list[NDArray[Any]]:
    """Read a list of columns, one per query."""
    several = columns.as_list(given)
    if several is None or any(np.ndim(one) != 1 for one in several):
        raise InputError(f"{name} must be a list for each query", got=repr(given)[:40])
    return [columns.as_array(name, one) for one in several]


def flat_lists(name: str, given: Any, first: Ints) -> Any:
    """Concatenate lists of the lengths of the queries; single numbers and None stay."""
    if columns.as_list(given) is None:
        return given
    several = per_query(name, given)
    if [len(one) for one in several] != np.diff(first).tolist():
        raise InputError(f"{name} must have as many values as there are answers", got=repr(given)[:40])
    return (
        np.concatenate([[], *several])
        if name != "answers"
        else [v for one in several for v in one.tolist()]
    )


def _gains(values: ArrayLike, total: int) -> Floats:
    gain = columns.as_array("gains", values)
    if gain.ndim != 1 or (gain.dtype.kind not in "biuf" and gain.size):
        raise InputError("gains must be numbers", got=columns.described(gain))
    worth: Floats = np.broadcast_to(gain, total).astype(float) if len(gain) == 1 else gain.astype(float)
    if len(worth) != total:
        raise InputError("columns differ in length", got=f"{total} answers, but {len(worth)} gains")
    columns.reject(~np.isfinite(worth) | (worth < 0), worth, "gains must be finite and not negative")
    return worth


def joined(
    ranks: Ranks, gains: ArrayLike | None
) -> tuple[Ints, Ints, Ints, Ints | None, Floats, NDArray[Any] | None, dict[str, NDArray[Any]]]:
    """Join ranks of single answers: `first, better, equal, candidates, gains, names, keys`."""
    if ranks.weights is not None:
        raise InputError("weighted ranks cannot be joined to rankings", do="use with_weights(None)")
    query = ranks.units("query")
    worth = np.ones(len(ranks)) if gains is None else _gains(gains, len(ranks))
    order = np.lexsort((ranks.equal, ranks.better, query))
    query, better, equal = query[order], ranks.better[order], ranks.equal[order]
    first = np.searchsorted(query, np.arange(int(query.max(initial=-1)) + 2))
    candidates = ranks.candidates[order][first[:-1]]
    mixed = candidates[query] != ranks.candidates[order]
    if mixed.any():
        row = int(order[np.flatnonzero(mixed)[0]])
        raise InputError(
            "answers of one query have different numbers of candidates",
            got=f"{ranks.candidates[row]:,} in row {row}",
            do='rank all answers together: er.rank(model, task, answers="together")',
        )
    # answers that share both counts, and untied ones with nothing between them, tie with each other
    # as far as ranks tell; those above have fewer others above or, with as many, no ties
    new = np.diff(query, prepend=-1) != 0
    new[1:] |= (np.diff(better) != 0) | (np.diff(equal) != 0)
    start = np.flatnonzero(new)
    size = np.diff(start, append=len(query))
    group = np.repeat(np.arange(len(start)), size)
    earlier = (start - first[query[start]])[group]
    tied = (equal > 0) | (worth.min(initial=1.0) != worth.max(initial=1.0))
    within = np.arange(len(query)) - start[group]
    ahead = better + earlier + np.where(tied, 0, within)
    same = equal + np.where(tied, size[group] - 1, 0)
    many = None if not ranks.has_candidates else candidates + np.diff(first) - 1
    answers = first[:-1]
    names = ranks.keys.get("answer")
    keys = {
        name: column[order][answers]
        for name, column in ranks.keys.items()
        if name != "answer" and _constant(column[order], first)
    }
    return first, ahead, same, many, worth[order], None if names is None else names[order], keys


def _constant(column: NDArray[Any], first: Ints) -> bool:
    """Whether all answers of each query agree in a key."""
    whole = column[first[:-1]]
    return bool((np.repeat(whole, np.diff(first)) == column).all())


def _check_names(answers: Answers, names: NDArray[Any] | None) -> None:
    """Check that no query has an answer twice."""
    if names is None:
        return
    # sorting pairs of small numbers is six times as fast as numbering them
    small = (
        names.dtype.kind == "i" and names.min(initial=0) >= 0 and names.max(initial=0) < columns.LARGEST
    )
    code = names if small else columns.numbered(names)[0]
    pair = answers.owner * (code.max(initial=0) + 1) + code
    ordered = np.sort(pair)
    if (ordered[1:] == ordered[:-1]).any():
        _, at = np.unique(pair, return_index=True)
        row = int(np.setdiff1d(np.arange(len(pair)), at)[0])
        raise columns.RowError(
            "a query has an answer twice", int(answers.owner[row]), got=repr(names[row])
        )
