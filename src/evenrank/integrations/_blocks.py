"""Turns lists of names, read from files one by one, into batches of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import compress
from typing import NamedTuple

import numpy as np

from evenrank._internal.checks import check_type
from evenrank.errors import InputError
from evenrank.graphs.graph import PARTS, Graph
from evenrank.graphs.make_task import HOLES
from evenrank.integrations.listed import LENIENT, Batch, Listed
from evenrank.ranks.lists import Lists, offsets
from evenrank.ranks.task import HOLE, Part

MOST = 2**18  # answers held before they are counted
NOT_ASKED = "lists for queries that are not in the task"


class Block(NamedTuple):
    """One list: its place in the file, its query, and the answers, best first or with scores.

    `triple` has the names of head, relation and tail. On the `side` that is asked for, it has the
    target if the list is for this target alone, or None if it is for all targets of the query.
    """

    where: str
    side: str
    triple: Sequence[str | None]
    answers: Sequence[str]
    scores: Sequence[float] | None


class Vocabulary:
    """Ids of the names of a graph; the ids are the names if it has no others."""

    def __init__(self, graph: Graph) -> None:
        """Index the names."""
        check_type(graph, Graph, "graph must be a Graph", do="er.load(...)")
        self.names = dict(zip(PARTS, (graph.entities, graph.relations, graph.entities), strict=True))
        entity, relation = (
            {str(name): i for i, name in enumerate(names)} for names in (graph.entities, graph.relations)
        )
        self.of = dict(zip(PARTS, (entity, relation, entity), strict=True))

    @cache  # noqa: B019  # there are as many of these as files that are read
    def most_words(self, part: str, separator: str) -> int:
        """Return the most words that a name of a head, relation or tail consists of."""
        return max((name.count(separator) for name in self.of[part]), default=0) + 1

    def name(self, part: str, number: int) -> str:
        """Return the name of a head, relation or tail."""
        return repr(str(self.names[part][number]))

    def triple(self, names: Sequence[str | None]) -> list[int | None]:
        """Return the ids of head, relation and tail; None for names that are not in the graph."""
        return [self.of[part].get(name or "") for part, name in zip(PARTS, names, strict=True)]


class Gather:
    """Collects blocks and passes them to `Listed`, a few hundred thousand answers at a time."""

    def __init__(self, names: Vocabulary, listed: Listed) -> None:
        """Start without blocks."""
        self.names, self.listed = names, listed
        self.sides = {part.side: _Side(number, part) for number, part in enumerate(listed.task.parts)}

    def add(self, block: Block) -> None:
        """Add a list; lists for sides that are not in the task are skipped."""
        side = self.sides.get(block.side)
        if side is None:
            return
        targets = self._targets(side, block)
        if not targets:
            return
        values = [self.names.of[block.side].get(name, HOLE) for name in block.answers]
        scores = list(range(0, -len(values), -1) if block.scores is None else block.scores)
        if HOLE in values:
            if not self.listed.lenient:
                raise InputError(
                    f"{block.where}: an answer is not in the graph",
                    got=repr(block.answers[values.index(HOLE)]),
                    do=["correct the list, or leave such answers out with ", LENIENT],
                )
            self.listed.left_out["unknown answers"] += values.count(HOLE)
            known = [value != HOLE for value in values]
            values, scores = list(compress(values, known)), list(compress(scores, known))
        for target in targets:
            side.hold(target, values, scores, block.where)
        if len(side.values) >= MOST:
            self._count(side)

    def _targets(self, side: _Side, block: Block) -> list[int]:
        """Return the targets of a list, by their numbers in the part."""
        triple, hole = self.names.triple(block.triple), HOLES[block.side][0]
        asked = tuple(HOLE if i == hole else number for i, number in enumerate(triple))
        query = side.queries.get(asked)
        alone = block.triple[hole] is not None
        targets = [] if query is None else list(range(*side.part.first[query : query + 2].tolist()))
        if alone:
            targets = [i for i in targets if side.part.targets[i] == triple[hole]]
        if not targets:
            self.listed.left_out[NOT_ASKED] += 1
            return []
        # a triple that is in the split twice may have two lists
        if side.given[targets[0]] == (len(targets) if alone else 1):
            if not self.listed.lenient:
                raise InputError(
                    f"{block.where}: a second list for one query",
                    got=" ".join(name or "?" for name in block.triple),
                    do=["keep one of them, or use the first with ", LENIENT],
                )
            self.listed.left_out["second lists for one query"] += 1
            return []
        side.given[targets] += 1
        return targets

    def flush(self) -> None:
        """Count the blocks that are still held."""
        for side in self.sides.values():
            self._count(side)

    def _count(self, side: _Side) -> None:
        if side.targets:
            self.listed.add(side.number, side.take(partial(self.names.name, side.part.side)))


class _Side:
    """The lists held for one part of a task."""

    def __init__(self, number: int, part: Part) -> None:
        self.number, self.part = number, part
        self.queries = {tuple(row): i for i, row in enumerate(part.queries.tolist())}
        self.given = np.zeros(len(part.targets), np.int64)
        self._clear()

    def _clear(self) -> None:
        self.targets: list[int] = []
        self.lengths: list[int] = []
        self.places: list[str] = []
        self.values: list[int] = []
        self.scores: list[float] = []

    def hold(self, target: int, values: list[int], scores: list[float], where: str) -> None:
        self.targets.append(target)
        self.lengths.append(len(values))
        self.places.append(where)
        self.values += values
        self.scores += scores

    def take(self, name: Callable[[int], str]) -> Batch:
        """Return the held lists as a batch, and start anew."""
        batch = Batch(
            np.array(self.targets),
            Lists(offsets(self.lengths), np.array(self.values, dtype=np.int64)),
            np.array(self.scores, dtype=float),
            where=self.places.__getitem__,
            name=name,
        )
        self._clear()
        return batch
