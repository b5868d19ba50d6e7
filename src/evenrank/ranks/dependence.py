"""Which ranks depend on each other under a random scorer (`evenrank.metrics.chance.dependence`).

A task knows this exactly. Ranks know it from their keys, and from the known triples that several of
their queries share, which `evenrank.rank` and files of ranks keep.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import compress, decompressobj

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.metrics.chance.dependence import Dependence
from evenrank.ranks.crossings import NONE, Lines, dependence_of
from evenrank.ranks.lists import Lists
from evenrank.ranks.protocol import All, Protocol

if TYPE_CHECKING:
    from evenrank.ranks.task import Part, Task

HOLE = -1  # the unknown part of a query, as in tasks
TRIPLE = ("head", "relation", "tail")
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
    start = 0
    for part in task.parts:
        mine = weight[start : start + len(part.targets)][part.place]
        start += len(part.targets)
        lines = _of_part(part, mine)
        sides.setdefault((lines.hole, part.side if lines.hole < 0 else ""), []).append(lines)
    return dependence_of([_joined(several) for several in sides.values()], [key[1] for key in sides])


def _of_part(part: Part, weight: Floats) -> Lines:
    holes = np.flatnonzero(part.queries[0] == HOLE) if len(part.queries) else NONE
    wide = part.size if part.lists is None else part.lists.lengths[part.group]
    return Lines(
        hole=int(holes[0]) if len(holes) == 1 else -1,
        rows=part.queries,
        free=np.asarray(wide - part.known.lengths),
        line=part.query_of,
        value=part.targets,
        rival=part.own,
        weight=weight,
        known=(part.known.owner, part.known.values),
        lists=part.lists,
        group=part.group,
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
        task, self._task = self._task, None
        return None if task is None else _shared_triples(task)

    @classmethod
    def of(cls, known: Mapping[str, NDArray[Any]] | None) -> Crossings:
        """Hold triples that were found before."""
        made = object.__new__(cls)
        made._task = None
        made.__dict__["known"] = known
        return made

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
    if not {*TRIPLE, "side"} <= task.keys.keys():
        return None
    parts = [part for part in task.parts if part.side in TRIPLE]
    triples, names = [], []
    for part in parts:
        rows = part.queries[part.known.owner].copy()
        rows[:, TRIPLE.index(part.side)] = part.known.values
        triples.append(rows)
    for column, key in enumerate(TRIPLE):
        ids, at = [NONE], [NONE]
        for part in parts:
            own = part.queries[part.query_of, column]
            ids.append(np.where(own == HOLE, part.targets, own))
            at.append(part.keys[key][part.place])
        known, first = np.unique(np.concatenate(ids), return_index=True)
        names.append((known, np.concatenate(at[1:])[first] if len(known) else NONE))
    every = np.concatenate([np.zeros((0, 3), dtype=np.int64), *triples])
    code, _ = columns.encode([*every.T])
    _, first, times = np.unique(code, return_index=True, return_counts=True)
    shared = every[first[times > 1]]
    # the parts of a shared triple occur in queries, and so among the targets
    return {
        key: label[np.searchsorted(known, shared[:, column])]
        for column, (key, (known, label)) in enumerate(zip(TRIPLE, names, strict=True))
    }


def of_keys(
    keys: Mapping[str, NDArray[Any]],
    candidates: Ints,
    weights: Floats | None,
    protocol: Protocol,
    known: Mapping[str, NDArray[Any]] | None = None,
) -> Dependence | None:
    """Describe which ranks depend on each other, as far as their keys tell.

    Parameters
    ----------
    keys : mapping of str to ndarray
        The key columns: head, relation, tail and side.
    candidates : ndarray of int
        Numbers of candidates.
    weights : ndarray of float or None
        Weights of the targets.
    protocol : Protocol
        The protocol of the ranks.
    known : mapping of str to ndarray, optional
        Known triples (head, relation, tail) besides the targets that two of the queries share; without
        them, their number is estimated from the numbers of candidates.

    Returns
    -------
    Dependence or None
        The histograms that variances are computed from; None if the keys do not identify triples.
    """
    if not {*TRIPLE, "side"} <= keys.keys() or not len(candidates):
        return None
    side = np.asarray(keys["side"])
    names = [name for name in (*TRIPLE, "pair") if (side == name).any()]
    if sum(int((side == name).sum()) for name in names) < len(side):
        return None
    weight = np.ones(len(side)) if weights is None else weights
    extra = dict.fromkeys(TRIPLE, NONE) if known is None else known
    entity = columns.encode([_both(keys["head"], keys["tail"], extra["head"], extra["tail"])])[0]
    relation = columns.encode([_both(keys["relation"], extra["relation"])])[0]
    n, more = len(side), len(extra["head"])
    triples = np.stack([entity[:n], relation[:n], entity[n : 2 * n]], axis=1)
    others = np.stack(
        [entity[2 * n : 2 * n + more], relation[n:], entity[2 * n + more :]], axis=1
    ).astype(np.int64)
    raw = protocol.filter is not None and protocol.split not in protocol.filter
    gaps = [UNFILTERED] * (protocol.filter is None)
    estimate = known is None
    listed = protocol.candidates is not None and not isinstance(protocol.candidates, All)
    if listed:
        gaps.append(LISTED)
    elif estimate and not raw and len(names) > 1:
        gaps.append(ESTIMATED)
    found = []
    for name in names:
        mine = side == name
        found.append(
            _of_side(name, triples[mine], candidates[mine], weight[mine], others, raw, estimate, listed)
        )
    result = dependence_of(found, names)
    return replace(result, gaps=(*result.gaps, *gaps))


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
    others: Ints,
    raw: bool,
    estimate: bool,
    listed: bool,
) -> Lines:
    holes = {"head": [0], "relation": [1], "tail": [2], "pair": [0, 2]}[name]
    asked = triples.copy()
    asked[:, holes] = HOLE
    span = int(triples.max(initial=0)) + 2
    code = ((asked[:, 0] + 1) * span + asked[:, 1] + 1) * span + asked[:, 2] + 1
    _, first, line = np.unique(code, return_index=True, return_inverse=True)
    value = triples[:, holes[0]] if len(holes) == 1 else triples[:, 0] * span + triples[:, 2]
    # the number of candidates of a query is that of its targets; if they differ, of most
    free = candidates[first] - (not raw)
    known = (NONE, NONE) if raw else (line, value)
    if len(others) and len(holes) == 1 and not raw:
        there = others.copy()
        there[:, holes] = HOLE
        their = ((there[:, 0] + 1) * span + there[:, 1] + 1) * span + there[:, 2] + 1
        at = np.minimum(np.searchsorted(code[first], their), len(first) - 1)
        asks = code[first][at] == their
        known = (np.r_[line, at[asks]], np.r_[value, others[asks, holes[0]]])
    share = None
    if (estimate and not raw) or listed:
        targets = np.bincount(line) if not raw else np.zeros(len(first), dtype=np.int64)
        most = int(triples[:, [0, 2]].max(initial=0)) + 1
        entities = most if listed else int((free + targets).max())
        share = np.sqrt(np.clip(free / np.maximum(entities - targets, 1), 0.0, 1.0))
    return Lines(
        hole=holes[0] if len(holes) == 1 else -1,
        rows=asked[first],
        free=free,
        line=line,
        value=value,
        rival=np.full(len(line), raw),
        weight=weight,
        known=known,
        share=share,
    )
