"""Samples of the candidates of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.ranks.lists import Lists, in_sorted, offsets
from evenrank.ranks.protocol import Sampled
from evenrank.ranks.task import Part, Task, in_place

FULL, DRAW = "full_candidates", "draw"  # keys of sampled tasks: number of all candidates; shared sample


def sample(task: Task, k: int, seed: int = 0, *, each: bool = False) -> Task:
    """Sample `k` candidates per query from those that are neither known answers nor targets.

    The sample depends on the seed and the query only, so a query has the same sample in every task. If
    fewer than `k` candidates are left, all are taken. A key stores the number of all candidates of each
    target, with which `estimate_full` estimates the metrics of the full ranking; it is absent if targets
    of a query compete, which are then candidates besides the sample.

    With `each`, every target has a sample of its own, which depends on the target, too, as in GraIL.
    Other targets of its query may be in it if they are not known.
    """
    k = columns.integer("the number of sampled candidates", k, 1)
    seed = columns.integer("seed", seed, 0)
    parts = []
    if each:
        task = replace(task, parts=tuple(map(_each, task.parts)))
    for part in task.parts:
        if part.lists is not None:
            raise InputError("lists of candidates cannot be sampled")
        queries = len(part.queries)
        taken = Lists.grouped(
            np.concatenate([part.known.owner, part.query_of]),
            np.concatenate([part.known.values, part.targets]),
            queries,
        )
        asked = np.column_stack([part.queries, part.targets]) if each else part.queries
        drawn = _draw(asked, taken, part.size, k, seed)
        lists = Lists.grouped(
            np.concatenate([drawn.owner, part.query_of]),
            np.concatenate([drawn.values, part.targets]),
            queries,
        )
        # targets are candidates of their query, and filtered against each other where they are known
        known_target = part.known.contains(part.query_of, part.targets)
        known = Lists.grouped(part.query_of[known_target], part.targets[known_target], queries)
        parts.append(
            replace(part, lists=lists, group=np.arange(queries), known=known, own=~known_target)
        )
    how = Sampled(k, seed)
    sampled = replace(task, parts=tuple(parts), protocol=replace(task.protocol, candidates=how))
    if (sampled.candidates - 1 != np.minimum(task.candidates - 1, k)).any():
        beside = replace(how, with_targets=True)  # not a sample of the candidates alone
        return replace(sampled, protocol=replace(task.protocol, candidates=beside))
    return replace(sampled, parts=tuple(_with_draws(task, parts)))


def _each(part: Part) -> Part:
    """Make each target a query of its own."""
    rows = part.query_of
    return replace(
        part,
        queries=part.queries[rows],
        first=np.arange(len(rows) + 1),
        known=part.known.select(rows),
        group=part.group[rows],
    )


def _with_draws(task: Task, parts: Sequence[Part]) -> Iterator[Part]:
    """Add keys for the number of all candidates of each target, and for its sample."""
    before = 0
    for whole, part in zip(task.parts, parts, strict=True):
        own = {FULL: in_place(whole, whole.candidates), DRAW: in_place(part, before + part.query_of)}
        yield replace(part, keys={**part.keys, **own})
        before += len(part.queries)


def _draw(queries: Ints, taken: Lists, size: int, k: int, seed: int) -> Lists:
    """Sample k distinct free ids per query, by hashes of the query and of the attempt."""
    free = size - taken.lengths
    few = np.flatnonzero(free <= k)  # all free ids are taken
    rest = [np.setdiff1d(np.arange(size), taken[int(i)], assume_unique=True) for i in few]
    state = _mix(np.full(len(queries), seed, dtype=np.uint64))
    for column in queries.T:
        state = _mix(state ^ _mix(column.astype(np.uint64)))
    pool = taken.owner * size + taken.values
    missing = np.where(free <= k, 0, k)
    owners, values = [np.repeat(few, free[few])], [np.concatenate([*rest, np.zeros(0, np.int64)])]
    attempt = np.zeros(len(queries), dtype=np.uint64)
    while missing.any():
        owner = np.repeat(np.arange(len(queries)), missing)
        within = np.arange(len(owner)) - np.repeat(offsets(missing)[:-1], missing)
        draw = _mix(state[owner] + attempt[owner] + within.astype(np.uint64) + np.uint64(1))
        value = (draw % np.uint64(size)).astype(np.int64)
        attempt += missing.astype(np.uint64)
        fresh, where = np.unique(owner * size + value, return_index=True)
        where = where[~in_sorted(fresh, pool)]
        owners.append(owner[where])
        values.append(value[where])
        pool = np.sort(np.concatenate([pool, owner[where] * size + value[where]]))
        missing = missing - np.bincount(owner[where], minlength=len(queries))
    return Lists.grouped(np.concatenate(owners), np.concatenate(values), len(queries))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash 64-bit numbers (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
