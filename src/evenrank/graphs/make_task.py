"""Build the ranking task of a split: queries for heads, tails, relations or pairs, and candidates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Ints
from evenrank._internal.columns import LARGEST
from evenrank._internal.reading import content, reason
from evenrank.errors import InputError, Option
from evenrank.graphs.instants import KINDS, Time, filtered
from evenrank.ranks.dependence import TIMED
from evenrank.ranks.lists import Lists
from evenrank.ranks.presets import Preset, preset
from evenrank.ranks.protocol import All, Listed, Protocol, Typed
from evenrank.ranks.protocol import Candidates as Kind
from evenrank.ranks.sampling import sample
from evenrank.ranks.task import HOLE, Outside, Task

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph

Side = Literal["head", "tail", "relation", "pair"]
Sides: TypeAlias = Side | Literal["both"] | Sequence[Side]
# per side, the candidates of each relation (a mapping) or of each triple (rows)
Given: TypeAlias = Mapping[str, Mapping[int, ArrayLike] | Sequence[ArrayLike] | NDArray[Any]]
Candidates: TypeAlias = Literal["all", "typed"] | int | Given | str | os.PathLike[str]
SIDES = "both, tail, head, relation, pair, or a list of these"
HOLES: dict[str, tuple[int, ...]] = {"tail": (2,), "head": (0,), "relation": (1,), "pair": (0, 2)}


def ask(
    graph: Graph,
    split: str,
    sides: Sides,
    filter: Sequence[str] | Literal["all"] | None,  # noqa: A002  # the field's word for it
    candidates: Candidates,
    seed: int,
    outside: Outside,
    protocol: str | None = None,
    time: Time | None = None,
) -> Task:
    """Build the task of `Graph.task`."""
    triples = triples_of(graph, split)
    if time is not None and (not isinstance(time, str) or time not in KINDS):
        raise InputError("unknown filter by time", got=repr(time), allowed=", ".join(KINDS))
    if time is not None and not graph.times:
        raise InputError(
            f"the triples of {graph.name} have no times", do=["leave out ", Option("time", time)]
        )
    when = graph.times.get(split)
    if not len(triples):
        raise InputError(f"split {split} of {graph.name} has no triples")
    rules = preset(protocol) if protocol is not None else None
    if rules is not None:
        if filter != "all":
            raise InputError(
                f"the protocol {rules.name} determines the filter",
                got=f"filter={filter!r}",
                do=["leave out ", Option("filter")],
            )
        if time is not None and rules.time not in (None, time):
            raise InputError(
                f"the protocol {rules.name} filters known answers at the time of the query",
                got=repr(time),
                do=["leave out ", Option("time", time)],
            )
        _check_unseen(rules, graph)
        _check_candidates(rules, candidates)
        # candidates that come with the data contain no known answers
        own = rules.known == "given" and isinstance(candidates, Mapping)
        filter = () if own else rules.filters(split, graph.splits)  # noqa: A001
        outside = "add" if rules.outside == "add" else outside
        if rules.negatives is not None and isinstance(candidates, str) and candidates == "all":
            candidates = rules.negatives
        if rules.once:
            whole = triples if when is None else np.concatenate([triples, when], axis=1)
            first = np.sort(np.unique(whole, axis=0, return_index=True)[1])
            triples, when = triples[first], None if when is None else when[first]
    filters = _filters(graph, filter)
    known = np.concatenate([np.zeros((0, 3), np.int64), *(triples_of(graph, name) for name in filters)])
    seen = tuple(graph.splits) if rules is not None and rules.typed == "all" else graph.training
    given, kind = _given(graph, candidates, seen)
    if isinstance(sides, str):
        sides = ("tail", "head") if sides == "both" else (sides,)
    if not isinstance(sides, Iterable):
        raise InputError("unknown side", got=repr(sides), allowed=SIDES)
    asked = tuple(sides)
    if not asked:
        raise InputError("a task needs at least one side", got="none")
    repeats = rules is not None and rules.repeats
    dated = None
    if when is not None:
        empty = np.zeros((0, 2), dtype=np.int64)
        dated = (
            when,
            np.concatenate([empty, *(graph.times[name] for name in filters)]),
            time or "aware",
        )
    parts = [_side(graph, side, triples, known, given, outside, repeats, dated) for side in asked]
    if outside == "add" and isinstance(kind, Typed | Listed):
        kind = replace(kind, targets_added=True)
    facts = Protocol(
        data=graph.name,
        content=graph.hash,
        split=split,
        sides=asked,
        filter=filters,
        candidates=kind,
        unseen=graph.unseen,
        preset=protocol,
        extra={} if dated is None else {TIMED: f"{dated[2]} filter" if filters else "no filter"},
    )
    task = Task(tuple(part for one in parts for part in one.parts), facts, graph.vocabulary)
    if not isinstance(candidates, int | np.integer):
        return task
    each = rules is not None and rules.negatives is not None
    return sample(task, int(candidates), seed, each=each)


def _filters(graph: Graph, filter: Any) -> tuple[str, ...]:  # noqa: A002  # the field's word for it
    """Return the splits whose known true answers are filtered out."""
    if filter is None:
        return ()
    if isinstance(filter, str):
        names = graph.splits if filter == "all" else filter.split(",")
        return tuple(name.strip() for name in names)
    if not isinstance(filter, Iterable):
        raise InputError("unknown filter", got=repr(filter), allowed="'all', splits, or None for raw")
    return tuple(filter)


def triples_of(graph: Graph, name: Any) -> Ints:
    """Return the triples of a split."""
    if not isinstance(name, str) or name not in graph.splits:
        raise InputError(
            f"{graph.name} has no such split", got=repr(name), allowed=", ".join(graph.splits)
        )
    return graph.splits[name]


def _check_unseen(rules: Preset, graph: Graph) -> None:
    """Check that the graph keeps or drops what is not seen in training, as the library does."""
    train = np.concatenate([graph.splits[split] for split in graph.training])
    shown = len(np.unique(train[:, ::2])), len(np.unique(train[:, 1]))
    more = shown != (len(graph.entities), len(graph.relations))
    does, wrong = {"drop": ("drops", more), "keep": ("keeps", bool(graph.dropped))}[rules.unseen]
    if wrong:
        raise InputError(
            f"the protocol {rules.name} {does} entities and relations not seen in training",
            got=f"a graph with unseen={graph.unseen!r}",
            do=["load the graph with ", Option("unseen", rules.unseen)],
        )


def _check_candidates(rules: Preset, candidates: Candidates) -> None:
    """Check that the library can rank among these candidates."""
    if rules.known == "given" and isinstance(candidates, str | os.PathLike):
        raise InputError(
            f"the protocol {rules.name} ranks among candidates that come with each triple",
            got=f"candidates {str(candidates)!r}",
            do="pass them as {'tail': ..., 'head': ...}, or a number to sample",
        )
    sampled = isinstance(candidates, int | np.integer)
    if sampled and rules.yardstick is not None and rules.yardstick.keeps_known:
        raise InputError(
            f"the protocol {rules.name} keeps known true answers, which samples do not contain",
            got=f"{candidates} sampled candidates",
            do="rank among all candidates, or pass lists",
        )


def _side(
    graph: Graph,
    side: str,
    triples: Ints,
    known: Ints,
    given: Given | None,
    outside: Outside,
    repeats: bool,
    dated: tuple[Ints, Ints, Time] | None = None,
) -> Task:
    if not isinstance(side, str) or side not in HOLES:
        raise InputError("unknown side", got=repr(side), allowed=SIDES)
    entities, relations = len(graph.entities), len(graph.relations)
    size = {"relation": relations, "pair": entities**2}.get(side, entities)
    if size > LARGEST:
        raise InputError(f"too many candidates on side {side}", got=f"{size:,}", allowed=f"{LARGEST:,}")
    lists, group = _lists(graph, side, triples, given, outside)
    answers = _answer(side, triples, entities)
    if repeats and lists is not None and group is None:
        # the target is added to its own list, even if the list contains it
        values = np.insert(lists.values, lists.first[1:], answers)
        lists = Lists(lists.first + np.arange(len(lists.first)), values)
    queries, others = _query(side, triples), _query(side, known)
    keys: dict[str, NDArray[Any]] = {}
    right = _answer(side, known, entities)
    if dated is not None:
        when, past, kind = dated
        queries, others, right = filtered(
            kind, (queries, when), (others, past), right, intervals=graph.intervals
        )
        keys["time"] = _times(graph, when)
    return Task.of(
        queries,
        answers,
        size=size,
        known=(others, right) if len(others) else None,
        candidates=lists,
        group=group,
        outside=outside,
        repeats=repeats,
        side=side,
        keys={
            "head": _names(graph.entities)[triples[:, 0]],
            "relation": _names(graph.relations)[triples[:, 1]],
            "tail": _names(graph.entities)[triples[:, 2]],
            "side": np.full(len(triples), side, dtype=object),
            **keys,
        },
    )


def _times(graph: Graph, when: Ints) -> NDArray[Any]:
    """Name the times of triples: a point, or the first and the last of an interval."""
    numbered = isinstance(graph.instants, range)
    if not graph.intervals:
        points = when[:, 0]
        return points if numbered else _names(graph.instants)[points]
    code, first = np.unique(when, axis=0, return_inverse=True)
    names = graph.instants
    labels = np.array([f"{names[a]} to {names[b]}" for a, b in code.tolist()], dtype=object)
    return np.asarray(labels[first.ravel()])


def _query(side: str, triples: Ints) -> Ints:
    rows = triples.copy()
    rows[:, HOLES[side]] = HOLE
    return rows


def _answer(side: str, triples: Ints, entities: int) -> Ints:
    if side == "pair":
        return np.asarray(triples[:, 0] * entities + triples[:, 2])
    return triples[:, HOLES[side][0]]


def _names(names: Sequence[str] | range) -> NDArray[Any]:
    return np.arange(len(names)) if isinstance(names, range) else np.array(names, dtype=object)


# Candidates ---------------------------------------------------------------------------------------


def _given(graph: Graph, candidates: Candidates, seen: Sequence[str]) -> tuple[Given | None, Kind]:
    """Return the lists of candidates and their description for the protocol."""
    if isinstance(candidates, str) and candidates == "all":
        return None, All()
    if isinstance(candidates, int | np.integer) and not isinstance(candidates, bool):
        return None, All()  # sampled once the task is built
    if isinstance(candidates, str) and candidates == "typed":
        return types(graph, seen), Typed(", ".join(seen))
    if isinstance(candidates, str | os.PathLike):
        path = Path(candidates)
        if isinstance(candidates, str) and not path.exists():
            raise InputError(
                "unknown candidates",
                got=repr(candidates),
                allowed="all, typed, a number to sample, a type_constrain.txt, or lists per side",
            )
        if graph.dropped:
            raise InputError(
                f"{path} has the ids of all entities, but those not seen in training were dropped",
                do=["load the graph with ", Option("unseen", "keep"), ", or pass lists of candidates"],
            )
        typed = read_types(graph, path)
        return typed, Typed(path.name, _digest(typed))
    if not isinstance(candidates, Mapping):
        raise InputError(
            "unknown candidates",
            got=type(candidates).__name__,
            allowed="all, typed, a number to sample, a type_constrain.txt, or lists per side as in "
            "{'tail': ..., 'head': ...}",
        )
    return candidates, Listed(_digest(candidates))


def _digest(given: Given) -> str:
    """Hash lists of candidates to eight characters."""
    digest = sha256()
    try:
        for side in sorted(given):
            lists = given[side]
            items = lists.items() if isinstance(lists, Mapping) else enumerate(lists)
            digest.update(side.encode())
            for name, ids in sorted(items, key=lambda item: int(item[0])):
                digest.update(f"{name}:{np.asarray(ids).tolist()}".encode())
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            "candidates of a side must be lists of ids",
            got=f"{given!r:.60}",
            allowed="a list per triple, or a mapping from relations to lists",
        ) from None
    return digest.hexdigest()[:8]


def _lists(
    graph: Graph, side: str, triples: Ints, given: Given | None, outside: Outside
) -> tuple[Lists | None, Ints | None]:
    if given is None:
        return None, None
    if side not in given:
        raise InputError(f"no candidates for side {side}", got=", ".join(map(str, given)) or "none")
    mine = given[side]
    if not isinstance(mine, Mapping):
        if len(mine) != len(triples):
            raise InputError(
                f"candidates of side {side} must be a list per triple",
                got=f"{len(mine)} lists for {len(triples)} triples",
            )
        return Lists.of(list(mine)), None
    asked = np.unique(triples[:, 1]).tolist()
    missing = [relation for relation in asked if relation not in mine]
    if missing and outside == "raise":
        raise InputError(
            f"relation {graph.relations[missing[0]]} has no candidates on side {side}",
            do=[
                "drop entities and relations not seen in training by ",
                Option("unseen", "drop"),
                ", or add targets to their candidates by ",
                Option("outside", "add"),
            ],
        )
    number = np.zeros(len(graph.relations), dtype=np.int64)
    number[asked] = np.arange(len(asked))
    return Lists.of([mine.get(relation, ()) for relation in asked]), number[triples[:, 1]]


def types(graph: Graph, splits: Sequence[str]) -> Given:
    """Return, for each relation, the heads and the tails that occur with it in some splits."""
    rows = np.concatenate([triples_of(graph, split) for split in splits])
    sides: dict[str, Mapping[int, ArrayLike]] = {}
    for side, column in (("head", 0), ("tail", 2)):
        lists = Lists.grouped(rows[:, 1], rows[:, column], len(graph.relations))
        sides[side] = {int(r): lists[int(r)] for r in np.flatnonzero(lists.lengths)}
    return sides


def read_types(graph: Graph, path: Path) -> Given:
    """Read OpenKE's `type_constrain.txt`: for each relation a line of heads, then a line of tails.

    The first line is the number of relations; the others hold the relation, the number of ids, and the
    ids.
    """
    sides: dict[str, dict[int, ArrayLike]] = {"head": {}, "tail": {}}
    raw = content(path)
    try:
        lines = raw.decode().splitlines()
        rows = [np.array(line.split(), dtype=np.int64) for line in lines[1:] if line.strip()]
        counted = int(lines[0]) * 2 == len(rows)
    except (ValueError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is not a file of type constraints", got=reason(error)) from None
    for i, row in enumerate(rows):
        side = "tail" if int(row[0]) in sides["head"] else "head"
        if len(row) < 2 or len(row) != row[1] + 2 or int(row[0]) in sides["tail"]:
            raise InputError(
                f"{path}:{i + 2}: not a line of type constraints",
                got=f"relation {row[0]}, {len(row) - 2} ids",
                allowed="relation, number of ids, ids; heads first, then tails",
            )
        if not (0 <= row[0] < len(graph.relations)) or (row[2:] >= len(graph.entities)).any():
            raise InputError(f"{path}:{i + 2}: an id that the graph lacks", got=f"relation {row[0]}")
        sides[side][int(row[0])] = row[2:]
    if not counted or len(sides["head"]) != len(sides["tail"]):
        raise InputError(
            f"{path}: the first line is not the number of relations", got=f"{len(rows)} further lines"
        )
    return {side: dict(lists) for side, lists in sides.items()}
