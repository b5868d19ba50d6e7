"""Tasks in which all answers of a query are ranked together: they compete, and none is filtered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_choice, check_type
from evenrank.errors import InputError
from evenrank.ranks.lists import Lists, repeats
from evenrank.ranks.presets import PRESETS
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.sampling import DRAW, FULL
from evenrank.ranks.task import HOLE, Part, Task, in_place

ANSWERS, TOGETHER = "answers", "together"  # the entry of the protocol that says so
GAIN = "gain"  # the key of the gains of answers


def asked(task: Task, answers: str) -> Task:
    """Return the task whose targets are to be ranked, for the option `answers` of `rank`."""
    check_choice("value of answers", answers, ("apart", TOGETHER))
    if answers != TOGETHER:
        return task
    check_type(task, Task, "rank needs a Task", do="build one by graph.task('test') or Task.of(...)")
    return task.together()


def together(task: Task) -> Task:
    """Return the task in which the targets of a query compete (`Task.together`)."""
    name = task.protocol.preset
    if PRESETS.get(name or "") is not None:
        raise InputError(
            "the protocol of a library ranks each answer without the others",
            got=f"the protocol {name}",
            do="build the task without this protocol to rank all answers of a query together",
        )
    extra = {**task.protocol.extra, ANSWERS: TOGETHER}
    return replace(
        task,
        parts=tuple(_together(part) for part in task.parts),
        protocol=replace(task.protocol, extra=extra),
    )


def _together(part: Part) -> Part:
    """Let the distinct targets of each query compete; they become neighbours in the result."""
    queries = len(part.queries)
    kept = _first_of_each(part)
    query, target, place = part.query_of[kept], part.targets[kept], part.place[kept]
    first = np.searchsorted(query, np.arange(queries + 1))
    order = np.lexsort((place, place[first[:-1]][query]))  # queries in the order of their first targets
    moved = np.empty_like(order)
    moved[order] = np.arange(len(order))
    known, answers = part.known, Lists.grouped(query, target, queries)
    others = ~answers.contains(known.owner, known.values)
    lists, group = (None, part.group) if part.lists is None else _containing(part, query, target)
    return replace(
        part,
        first=first,
        targets=target,
        place=moved,
        known=Lists.grouped(known.owner[others], known.values[others], queries),
        lists=lists,
        group=group,
        own=np.ones(len(target), dtype=bool),
        # the number of all candidates and the sample are those of a target whose rivals are filtered
        keys={n: key[place[order]] for n, key in part.keys.items() if n not in (FULL, DRAW)},
    )


def _first_of_each(part: Part) -> Ints:
    """Return the targets of a part, each of a query once: the first in the result."""
    order = np.lexsort((part.place, part.targets, part.query_of))
    query, target = part.query_of[order], part.targets[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (np.diff(query) != 0) | (np.diff(target) != 0)
    return np.sort(order[fresh])


def _containing(part: Part, query: Ints, target: Ints) -> tuple[Lists, Ints]:
    """Add the targets that were candidates only for themselves to the lists of their queries."""
    lists, group = part.lists, part.group
    assert lists is not None
    if repeats(lists):
        raise InputError(
            "answers of a query can be ranked together only if no candidate is listed twice",
            do="rank each answer without the others, or list every candidate once",
        )
    if len(np.unique(part.queries, axis=0)) < len(part.queries):
        raise InputError(
            "answers of a query can be ranked together only if they have the same candidates",
            got=f"several lists for a query on side {part.side}",
            do="rank each answer without the others, or pass the same list for all answers of a query",
        )
    outside = ~lists.contains(group[query], target)
    changed, number = np.unique(query[outside], return_inverse=True)
    mine = lists.select(group[changed])
    wider = Lists.grouped(
        np.concatenate([mine.owner, number]),
        np.concatenate([mine.values, target[outside]]),
        len(changed),
    )
    group = group.copy()
    group[changed] = len(lists) + np.arange(len(changed))
    return Lists(
        np.concatenate([lists.first, lists.first[-1] + wider.first[1:]]),
        np.concatenate([lists.values, wider.values]),
    ), group


# Rankings ---------------------------------------------------------------------------------------------


def rankings(task: Task, ranks: Ranks) -> Rankings:
    """Collect the answers of each query of a task made by `together`, from the ranks of its targets.

    Keys that are the same for all answers of a query become keys of the query. The part of a triple
    that a query asks for, or the key that is named after the side, names the answers. Where sides have
    several such keys, the key of a query is "?", or -1 among numbers.
    """
    first = np.concatenate([[0], *_ends(task)])
    named = [_names(part) for part in task.parts]
    gains = task.keys.get(GAIN)
    return Rankings.flat(
        first,
        ranks.better,
        ranks.equal,
        ranks.candidates[first[:-1]],
        gains,
        np.concatenate([answers for answers, _ in named]),
        keys=dict(_keys(task, first, [holes for _, holes in named])),
        protocol=ranks.protocol,
        work=ranks.work,
    )


def _ends(task: Task) -> Iterator[Ints]:
    """Yield, for each part, where the targets of its queries end in the result."""
    before = 0
    for part in task.parts:
        start = part.place[part.first[:-1]]
        yield before + np.sort(start + np.diff(part.first))
        before += len(part.targets)


def _names(part: Part) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return what names the answers, in the order of the result, and the keys that it comes from."""
    if part.side == "pair" and {"head", "tail"} <= part.keys.keys():
        both = zip(part.keys["head"].tolist(), part.keys["tail"].tolist(), strict=True)
        return np.array([f"{head}, {tail}" for head, tail in both], dtype=object), ("head", "tail")
    if part.side in part.keys:
        return part.keys[part.side], (part.side,)
    return in_place(part, part.targets), ()


def _keys(task: Task, first: Ints, holes: list[tuple[str, ...]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the keys of the queries."""
    side = np.repeat(np.arange(len(task.parts)), [len(part.targets) for part in task.parts])
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    for name, key in task.keys.items():
        asked = np.array([name in some for some in holes])[side]
        if name == GAIN or asked.all():
            continue
        column = key.copy() if asked.any() else key
        column[asked] = "?" if key.dtype.kind == "O" else HOLE
        if (column == column[first[:-1]][owner]).all():
            yield name, column[first[:-1]]
