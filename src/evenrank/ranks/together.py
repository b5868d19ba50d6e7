"""Tasks in which all answers to a query are ranked together: they compete, and none is filtered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.ranks.lists import Lists, repeats
from evenrank.ranks.presets import PRESETS
from evenrank.ranks.sampling import DRAW, FULL
from evenrank.ranks.task import Part, Task

ANSWERS, TOGETHER = "answers", "together"  # the entry of the protocol that says so


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
