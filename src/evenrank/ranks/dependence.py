"""Which ranks depend on each other under a random scorer (`evenrank.metrics.chance.dependence`).

A task knows this exactly. Ranks know it from their keys, and from the known triples that several of
their queries share, which `evenrank.rank` and files of ranks keep.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import compress, decompressobj

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.metrics.chance.dependence import Dependence
from evenrank.ranks.crossings import NONE, Lines, dependence_of
from evenrank.ranks.lists import Lists, repeats
from evenrank.ranks.protocol import All, Protocol, Sampled, Typed

if TYPE_CHECKING:
    from evenrank.ranks.task import Part, Task

HOLE = -1  # the unknown part of a query, as in tasks
TRIPLE = ("head", "relation", "tail")
TIMED = "time"  # the key of the times of queries, and the entry of the protocol if they have some
MOST_SHARED = 50_000  # shared triples that files of ranks hold

ESTIMATED = "z: the number of known triples that queries share is estimated from numbers of candidates"
UNFILTERED = "z: the filter of the ranks is unknown; known true answers are taken to be filtered"
LISTED = "z: which candidates the queries share is estimated, as ranks do not tell"


def of_task(task: Task, weights: Floats | None = None) -> Dependence:
    """Describe which ranks of a task depend on each other, exactly.

    Parameters
    ----------
    task : Task
        The task.
    weights : ndarray of float, optional
        Weights of the targets, in the order of the result.

    Returns
    -------
    Dependence
        The histograms that variances are computed from.
    """
    weight = np.ones(len(task)) if weights is None else weights
    sides: dict[Any, list[Lines]] = {}
    start, gaps = 0, []
    for number, part in enumerate(task.parts):
        mine = weight[start : start + len(part.targets)][part.place]
        start += len(part.targets)
        lines = _of_part(part, mine)
        if lines.apart:
            gaps.append(LISTED)
        alone = number if lines.hole < 0 else -1  # equal numbers may mean other things in another part
        key = (lines.hole, lines.rows.shape[1], alone, part.side if lines.hole < 0 else "")
        sides.setdefault(key, []).append(lines)
    names = [key[-1] or part.side for key, part in zip(sides, task.parts, strict=False)]
    found = dependence_of([_joined(several) for several in sides.values()], names)
    return replace(found, gaps=tuple(dict.fromkeys((*found.gaps, *gaps))))


def _of_part(part: Part, weight: Floats) -> Lines:
    holes = np.flatnonzero(part.queries[0] == HOLE) if len(part.queries) else NONE
    wide = part.size if part.lists is None else part.lists.lengths[part.group]
    mixed = bool((part.queries == HOLE).any(axis=0).sum() > 1) and len(holes) == 1
    return Lines(
        hole=int(holes[0]) if len(holes) == 1 and not mixed else -1,
        rows=part.queries,
        free=np.asarray(wide - part.known.lengths),
        line=part.query_of,
        value=part.targets,
        rival=part.own,
        weight=weight,
        known=(part.known.owner, part.known.values),
        lists=part.lists,
        group=part.group,
        apart=part.lists is not None and repeats(part.lists),
    )


def _joined(several: Sequence[Lines]) -> Lines:
    """Join parts of one side; equal queries become one, if they have the same candidates."""
    if len(several) == 1:
        return several[0]
    before = np.cumsum([0, *(len(one.rows) for one in several)])
    lists, group = None, NONE
    if any(one.lists is not None for one in several):
        held = [one.lists or Lists.of([]) for one in several]
        shift = np.cumsum([0, *(len(one) for one in held)])
        ends = np.cumsum([0, *(len(one.values) for one in held)])
        lists = Lists(
            np.concatenate([[0], *(one.first[1:] + end for one, end in zip(held, ends, strict=False))]),
            np.concatenate([one.values for one in held]),
        )
        group = np.concatenate([one.group + s for one, s in zip(several, shift, strict=False)])
        equal: dict[bytes, int] = {}  # equal lists have one number
        number = [equal.setdefault(lists[i].tobytes(), i) for i in range(len(lists))]
        group = np.array(number)[group]
    every = list(zip(several, before, strict=False))
    rows = np.concatenate([one.rows for one in several])
    free = np.concatenate([one.free for one in several])
    # the same query in several parts is one line; lists of candidates tell others apart
    code, _ = columns.encode([*rows.T, free, *([group] if len(group) else [])])
    _, first, of = np.unique(code, return_index=True, return_inverse=True)
    return Lines(
        hole=several[0].hole,
        rows=rows[first],
        free=free[first],
        line=of[np.concatenate([one.line + b for one, b in every])],
        value=np.concatenate([one.value for one in several]),
        rival=np.concatenate([one.rival for one in several]),
        weight=np.concatenate([one.weight for one in several]),
        known=(
            of[np.concatenate([one.known[0] + b for one, b in every])],
            np.concatenate([one.known[1] for one in several]),
        ),
        lists=lists,
        group=group[first] if len(group) else NONE,
        apart=any(one.apart for one in several),
    )


class Crossings:
    """The known triples that a tail query and a head query of a task share, targets aside.

    Ranks keep them, because their keys alone do not tell which shared triples are filtered.

    Parameters
    ----------
    task : Task
        The task, which is only read when the triples are needed.
    """

    def __init__(self, task: Task) -> None:
        self._task: Task | None = task

    @cached_property
    def known(self) -> Mapping[str, NDArray[Any]] | None:
        """The triples, as key columns; None if the targets of the task are no triples."""
        found = None if self._task is None else _shared_triples(self._task)
        self._task = None
        return found

    @classmethod
    def of(cls, known: Mapping[str, NDArray[Any]] | None) -> Crossings:
        """Hold triples that were found before."""
        made = object.__new__(cls)
        made._task = None
        made.__dict__["known"] = known
        return made

    @staticmethod
    def equal(one: Crossings | None, other: Crossings | None) -> bool:
        """Whether both hold the same triples; those of tasks are not read for this."""
        if one is None or other is None or one is other:
            return one is other
        if not ({"known"} <= vars(one).keys() & vars(other).keys()):
            return one._task is not None and one._task is other._task
        if one.known is None or other.known is None:
            return one.known is other.known
        return all(np.array_equal(one.known[name], other.known[name]) for name in TRIPLE)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the triples instead of the task."""
        return Crossings.of, (self.known,)

    def to_text(self, keys: Mapping[str, NDArray[Any]]) -> str | None:
        """Write the triples for the metadata of a file: each part by a row whose key it is.

        Returns None for more than 50,000 triples. Estimating their number then changes standard
        deviations by less than one in a thousand, as only small graphs are dense.
        """
        if self.known is None or not {*TRIPLE} <= keys.keys() or len(self.known["head"]) > MOST_SHARED:
            return None
        rows = []
        for name in TRIPLE:
            code, _ = columns.encode([_both(keys[name], self.known[name])])
            _, first, of = np.unique(code, return_index=True, return_inverse=True)
            at = first[of[len(keys[name]) :]]
            if (at >= len(keys[name])).any():
                return None  # some of the queries were left out, or renamed
            rows.append(at.astype("<i4"))
        return b64encode(compress(np.stack(rows).tobytes(), 9)).decode("ascii")

    @classmethod
    def of_text(cls, text: str, keys: Mapping[str, NDArray[Any]]) -> Crossings:
        """Read what `to_text` wrote; raises ValueError if it is damaged."""
        inflater = decompressobj()
        data = inflater.decompress(b64decode(text, validate=True), 12 * MOST_SHARED + 1)
        if not inflater.eof:
            raise ValueError("the text ends early")
        rows = np.frombuffer(data, dtype="<i4").reshape(3, -1)
        if rows.size and not (rows.min() >= 0 and rows.max() < len(keys["head"])):
            raise ValueError("a row that the file lacks")
        return cls.of({name: keys[name][at] for name, at in zip(TRIPLE, rows, strict=True)})


def _shared_triples(task: Task) -> dict[str, NDArray[Any]] | None:
    """Find the filtered triples that are asked for from two sides, and name their parts."""
    if not {*TRIPLE, "side"} <= task.keys.keys() or TIMED in task.protocol.extra:
        return None
    parts = [part for part in task.parts if part.side in TRIPLE]
    triples, names = [], []
    for part in parts:
        side = TRIPLE.index(part.side)
        rows = np.full((len(part.known.values), 4), side)
        rows[:, :3] = part.queries[part.known.owner]
        rows[:, side] = part.known.values
        triples.append(rows)
    for column, key in enumerate(TRIPLE):
        ids, at = [NONE], [NONE]
        for part in parts:
            own = part.queries[part.query_of, column]
            ids.append(np.where(own == HOLE, part.targets, own))
            at.append(part.keys[key][part.place])
        known, first = np.unique(np.concatenate(ids), return_index=True)
        names.append((known, np.concatenate(at[1:])[first] if len(known) else NONE))
    every = np.concatenate([np.zeros((0, 4), dtype=np.int64), *triples])
    code, _ = columns.encode([*every.T])
    every = every[np.unique(code, return_index=True)[1]]  # once per side
    code, _ = columns.encode([*every[:, :3].T])
    _, first, sides = np.unique(code, return_index=True, return_counts=True)
    shared = every[first[sides > 1], :3]
    # the parts of a triple that is asked for from two sides occur in queries, and so among the targets
    return {
        key: label[np.searchsorted(known, shared[:, column])]
        for column, (key, (known, label)) in enumerate(zip(TRIPLE, names, strict=True))
    }


@dataclass(frozen=True, eq=False)
class Coded:
    """Targets of triples and known triples that their queries share, as whole numbers."""

    side: NDArray[Any]
    triples: Ints
    known: Ints | None

    @classmethod
    def of(
        cls,
        keys: Mapping[str, NDArray[Any]],
        known: Mapping[str, NDArray[Any]] | None,
        *,
        timed: bool = False,
    ) -> Coded | None:
        """Number entities and relations; None if the keys do not identify triples.

        A relation at different times counts as different ones, if queries have times.
        """
        if not {*TRIPLE, "side"} <= keys.keys() or not len(keys["side"]):
            return None
        side = np.asarray(keys["side"])
        if not np.isin(side.astype(str), (*TRIPLE, "pair")).all():
            return None
        extra = dict.fromkeys(TRIPLE, NONE) if known is None else known
        n, more = len(side), len(extra["head"])
        entity = columns.encode([_both(keys["head"], keys["tail"], extra["head"], extra["tail"])])[0]
        relation = columns.encode([_both(keys["relation"], extra["relation"])])[0]
        if timed and TIMED in keys and not more:
            relation = columns.encode([relation, keys[TIMED]])[0]
        triples = np.stack([entity[:n], relation[:n], entity[n : 2 * n]], axis=1)
        others = (entity[2 * n : 2 * n + more], relation[n:], entity[2 * n + more :])
        shared = None if known is None else np.stack(others, axis=1).astype(np.int64)
        return cls(side.astype(str), triples, shared)

    def select(self, rows: Ints) -> Coded:
        """Select targets, and the known triples with one of their relations or without any."""
        triples = self.triples[rows]
        known = self.known
        if known is not None:
            known = known[np.isin(known[:, 1], np.unique(triples[:, 1]))]
        return Coded(self.side[rows], triples, known)


def of_codes(coded: Coded, candidates: Ints, weights: Floats | None, protocol: Protocol) -> Dependence:
    """Describe which ranks depend on each other, as far as their keys tell.

    Parameters
    ----------
    coded : Coded
        The targets; without known triples, the number of these is estimated from the numbers of
        candidates.
    candidates : ndarray of int
        Numbers of candidates.
    weights : ndarray of float or None
        Weights of the targets.
    protocol : Protocol
        The protocol of the ranks.

    Returns
    -------
    Dependence
        The histograms that variances are computed from.
    """
    names = [name for name in (*TRIPLE, "pair") if (coded.side == name).any()]
    weight = np.ones(len(candidates)) if weights is None else weights
    raw, gaps = _unfiltered(protocol)
    kind = protocol.candidates
    listed = kind is not None and not isinstance(kind, All)
    if listed:
        gaps.append(LISTED)
    elif coded.known is None and protocol.filter != () and len(names) > 1:
        gaps.append(ESTIMATED)
    # lists may differ between the targets of a query, and then share nothing that is known
    apart = listed and not isinstance(kind, Typed | Sampled)
    found = []
    for name in names:
        mine = coded.side == name
        lines = _of_side(
            name, coded.triples[mine], candidates[mine], weight[mine], coded.known, raw, listed
        )
        found.append(replace(lines, apart=apart))
    result = dependence_of(found, names)
    return replace(result, gaps=tuple(dict.fromkeys((*result.gaps, *gaps))))


def _unfiltered(protocol: Protocol) -> tuple[bool, list[str]]:
    """Whether targets of a query compete with each other, and a note if that is unknown."""
    known = protocol.filter
    if known == ():
        return True, []
    if known is None:
        return False, [UNFILTERED]
    if "all" in known or {"train", "valid", "test"} <= set(known):
        return False, []
    if protocol.split is None:
        return False, [UNFILTERED]
    return protocol.split not in known, []


def _both(*parts: NDArray[Any]) -> NDArray[Any]:
    """Join columns of names; as text if any of them is text."""
    some = [part for part in parts if len(part)]
    if len({part.dtype.kind for part in some}) > 1:
        some = [part.astype(str).astype(object) for part in some]
    return np.concatenate(some) if some else NONE


def _of_side(
    name: str,
    triples: Ints,
    candidates: Ints,
    weight: Floats,
    shared: Ints | None,
    raw: bool,
    listed: bool,
) -> Lines:
    holes = {"head": [0], "relation": [1], "tail": [2], "pair": [0, 2]}[name]
    others = np.zeros((0, 3), dtype=np.int64) if shared is None or len(holes) > 1 else shared
    span = int(max(triples.max(initial=0), others.max(initial=0))) + 2

    def coded(rows: Ints, hole: Sequence[int] = ()) -> Ints:
        asked = rows.copy()
        asked[:, hole] = HOLE
        return np.asarray(((asked[:, 0] + 1) * span + asked[:, 1] + 1) * span + asked[:, 2] + 1)

    code = coded(triples, holes)
    queries, first, line = np.unique(code, return_index=True, return_inverse=True)
    value = triples[:, holes[0]] if len(holes) == 1 else triples[:, 0] * span + triples[:, 2]
    # a target that is filtered itself, such as one that occurs in training, is no rival of others
    rival = np.full(len(line), raw)
    if raw and len(others):
        rival &= ~np.isin(coded(triples), coded(others))
    # the number of candidates of a query is that of its targets; if they differ, of one of them
    free = candidates[first] - ~rival[first]
    known = (line[~rival], value[~rival])
    if len(others):
        their = coded(others, holes)
        at = np.minimum(np.searchsorted(queries, their), len(queries) - 1)
        asks = queries[at] == their
        known = (np.r_[known[0], at[asks]], np.r_[known[1], others[asks, holes[0]]])
    share = None
    if (shared is None and not raw) or listed:
        targets = np.bincount(line) if not raw else np.zeros(len(first), dtype=np.int64)
        most = int(triples[:, [0, 2]].max(initial=0)) + 1
        entities = most if listed else int((free + targets).max())
        share = np.sqrt(np.clip(free / np.maximum(entities - targets, 1), 0.0, 1.0))
    asked = triples[first]
    asked[:, holes] = HOLE
    return Lines(
        hole=holes[0] if len(holes) == 1 else -1,
        rows=asked,
        free=free,
        line=line,
        value=value,
        rival=rival,
        weight=weight,
        known=known,
        share=share,
    )
