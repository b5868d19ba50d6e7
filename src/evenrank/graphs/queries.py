"""Query answering: queries of several steps, by structure, with easy and hard answers.

A query such as "which films were directed by winners of this award?" takes two steps through the graph.
Its *easy* answers follow from the other splits alone; its *hard* answers need a triple of the ranked
split. Hard answers are ranked; all other answers are filtered.

The structures have the names of Query2box and BetaE: `p` is a step along a relation, `i` an
intersection, `u` a union. `Queries.load` reads the files of BetaE, also those with negation;
`Queries.draw` draws queries from a graph.

| structure | query: entities `a`, `b`, `c`, relations `r`, `s`, `t`                          |
|-----------|---------------------------------------------------------------------------------|
| 1p 2p 3p  | `(a, r)`; `(a, r, s)`; `(a, r, s, t)`: one, two or three steps                  |
| 2i 3i     | `(a, r, b, s)`; `(a, r, b, s, c, t)`: answers of both, or of all three          |
| ip        | `(a, r, b, s, t)`: a step from what both give                                   |
| pi        | `(a, r, s, b, t)`: what two steps and one step give                             |
| 2u up     | `(a, r, b, s)`; `(a, r, b, s, t)`: answers of either; a step from these         |
"""

from __future__ import annotations

import io
import os
import pickle  # of a few plain types, see `_Plain`
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, final

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_type
from evenrank._internal.files import expanded
from evenrank._internal.reading import content, translated
from evenrank.errors import InputError
from evenrank.graphs.graph import Graph
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.task import Task

# a structure is the position of an entity in the query, a step ("p", what, position of the relation), or
# ("i" or "u", several)
Node: TypeAlias = int | tuple[Any, ...]
STRUCTURES: dict[str, Node] = {
    "1p": ("p", 0, 1),
    "2p": ("p", ("p", 0, 1), 2),
    "3p": ("p", ("p", ("p", 0, 1), 2), 3),
    "2i": ("i", ("p", 0, 1), ("p", 2, 3)),
    "3i": ("i", ("p", 0, 1), ("p", 2, 3), ("p", 4, 5)),
    "ip": ("p", ("i", ("p", 0, 1), ("p", 2, 3)), 4),
    "pi": ("i", ("p", ("p", 0, 1), 2), ("p", 3, 4)),
    "2u": ("u", ("p", 0, 1), ("p", 2, 3)),
    "up": ("p", ("u", ("p", 0, 1), ("p", 2, 3)), 4),
}
ONE = ("e", ("r",))
# the structures of BetaE's files, in nested tuples
BETAE: dict[Any, str] = {
    ONE: "1p",
    ("e", ("r", "r")): "2p",
    ("e", ("r", "r", "r")): "3p",
    (ONE, ONE): "2i",
    (ONE, ONE, ONE): "3i",
    ((ONE, ONE), ("r",)): "ip",
    (("e", ("r", "r")), ONE): "pi",
    (ONE, ("e", ("r", "n"))): "2in",
    (ONE, ONE, ("e", ("r", "n"))): "3in",
    ((ONE, ("e", ("r", "n"))), ("r",)): "inp",
    (("e", ("r", "r")), ("e", ("r", "n"))): "pin",
    (("e", ("r", "r", "n")), ONE): "pni",
    (ONE, ONE, ("u",)): "2u",
    ((ONE, ONE, ("u",)), ("r",)): "up",
}
TRIES = 300  # draws of a query for each one that is wanted
Answers: TypeAlias = dict[tuple[int, int], set[int]]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Asked:
    """The queries of one structure.

    Parameters
    ----------
    rows : array of int
        A row per query: entities and relations in the order of the structure.
    easy, hard : tuple of array of int
        For each query, its answers.
    """

    rows: Ints
    easy: tuple[Ints, ...]
    hard: tuple[Ints, ...]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Queries:
    """Queries by structure, with easy and hard answers.

    Build them by `Queries.of`, draw them from a graph by `Queries.draw`, or read them by `Queries.load`.

    Parameters
    ----------
    name : str
        Name of the data set.
    entities : int
        Number of entities, which are the candidates.
    split : str
        The split whose triples hard answers need.
    structures : dict of str to Asked
        The queries of each structure.

    Examples
    --------
    >>> queries = Queries.of({"2i": ([[0, 0, 1, 0]], [[5]], [[6, 7]])}, entities=10)
    >>> queries
    queries: 10 entities; 2i 1 query, 2 hard answers
    >>> queries.task().candidates.tolist()  # without the easy answer, and without the other hard one
    [8, 8]
    """

    name: str
    entities: int
    split: str
    structures: dict[str, Asked]

    @classmethod
    def of(
        cls,
        structures: Mapping[str, tuple[Any, Sequence[Iterable[int]], Sequence[Iterable[int]]]],
        *,
        entities: int,
        name: str = "queries",
        split: str = "test",
    ) -> Self:
        """Build queries from lists.

        Parameters
        ----------
        structures : mapping of str to tuple
            For each structure, rows of queries, their easy answers and their hard answers.
        entities : int
            Number of entities.
        name : str, default "queries"
            Name of the data set.
        split : str, default "test"
            The split whose triples hard answers need.

        Returns
        -------
        Queries
            The queries.

        Raises
        ------
        InputError
            If an answer is not an entity, easy and hard answers overlap, or a query has no hard answer.
        """
        check_type(structures, Mapping, "queries are given by structure")
        size = columns.integer("entities", entities, 1)
        found: dict[str, Asked] = {}
        for what, given in structures.items():
            if not isinstance(given, tuple | list) or len(given) != 3:
                raise InputError(
                    f"queries {what} must be rows, their easy answers and their hard answers",
                    got=f"{given!r:.60}",
                    allowed="three lists of the same length",
                )
            found[str(what)] = _checked(str(what), *given, size)
        if not found:
            raise InputError("there are no queries", got="no structures")
        return cls(name, size, split, found)

    @classmethod
    def draw(
        cls, graph: Graph, *structures: str, count: int = 100, split: str = "test", seed: int = 0
    ) -> Self:
        """Draw queries from a graph, each with a hard answer.

        Parameters
        ----------
        graph : Graph
            The graph. Easy answers follow from its other splits; those after `split` are not used, so
            that validation queries do not depend on test triples.
        *structures : str
            Structures such as "1p", "2i", "up". By default all.
        count : int, default 100
            Number of queries of each structure.
        split : str, default "test"
            The split whose triples hard answers need.
        seed : int, default 0
            Seed of the draw.

        Returns
        -------
        Queries
            The queries.

        Raises
        ------
        InputError
            If a structure is unknown, or the graph has too few such queries.

        Examples
        --------
        >>> from evenrank.graphs import load
        >>> Queries.draw(load("nations"), "1p", "2i", count=5).task()
        Task(... targets of 10 distinct queries among ... candidates)
        """
        check_type(graph, Graph, "queries are drawn from Graphs", do="use er.load")
        count, seed = columns.integer("count", count, 1), columns.integer("seed", seed, 0)
        wanted = structures or tuple(STRUCTURES)
        unknown = [one for one in wanted if one not in STRUCTURES]
        if unknown:
            allowed = ", ".join(STRUCTURES)
            raise InputError("unknown structure of queries", got=repr(unknown[0]), allowed=allowed)
        new = graph.triples(split)
        later = ("valid", "test") if split == "valid" else (split,)
        old = np.concatenate([rows for name, rows in graph.splits.items() if name not in later])
        every = np.concatenate([old, new])
        before, after = steps(old), steps(every)
        into: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for h, rel, t in every.tolist():
            into[t].append((h, rel))
        ends = new[:, 2].tolist()
        given = {}
        for one in wanted:
            walk = _Walk(into, [*into], np.random.default_rng([seed, *one.encode()]))
            given[one] = _drawn(one, walk, ends, before, after, count)
        return cls.of(
            given,
            entities=len(graph.entities),
            name=graph.name,
            split=split,
        )

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, entities: int, split: str = "test", name: str | None = None
    ) -> Self:
        """Read the files of BetaE: `test-queries.pkl`, `test-easy-answers.pkl`, `test-hard-answers.pkl`.

        The pickles are read without running code from them: any other content than numbers, tuples,
        sets and dictionaries is an error.

        Parameters
        ----------
        path : path or str
            The folder.
        entities : int
            Number of entities, which `stats.txt` there states.
        split : str, default "test"
            The split, "test" or "valid".
        name : str, optional
            Name of the data set. By default that of the folder.

        Returns
        -------
        Queries
            The queries that have a hard answer.

        Raises
        ------
        InputError
            If a file is missing, or holds something else.
        """
        folder = expanded(path)
        names = ("queries", "easy-answers", "hard-answers")
        parts = {what: folder / f"{split}-{what}.pkl" for what in names}
        for file in parts.values():
            if not file.is_file() and not file.with_name(f"{file.name}.gz").is_file():
                allowed = ", ".join(file.name for file in parts.values())
                raise InputError(f"{folder} has no file {file.name}", got=str(path), allowed=allowed)
        asked, easy, hard = map(_unpickled, parts.values())
        given: dict[str, tuple[Any, Any, Any]] = {}
        for structure, queries in asked.items():
            if structure not in BETAE:
                raise InputError(f"{parts['queries']}: unknown structure", got=repr(structure)[:60])
            ranked = sorted((query for query in queries if hard.get(query)), key=_flat)
            if ranked:
                rows = [_flat(query) for query in ranked]
                known, right = ([sorted(of.get(query, ())) for query in ranked] for of in (easy, hard))
                given[BETAE[structure]] = (rows, known, right)
        return cls.of(given, entities=entities, name=name or folder.resolve().name, split=split)

    def task(self, *structures: str) -> Task:
        """Build the task to rank the hard answers, filtered by all other answers.

        Results are usually averaged over the answers of each query first, then over queries: the macro
        average over the key `query`.

        Parameters
        ----------
        *structures : str
            The structures. By default all.

        Returns
        -------
        Task
            The task, with the keys structure, query and answer.

        Raises
        ------
        InputError
            If there are no queries of a structure.
        """
        unknown = [one for one in structures if one not in self.structures]
        if unknown:
            allowed = ", ".join(self.structures)
            what = "there are no queries of this structure"
            raise InputError(what, got=repr(unknown[0]), allowed=allowed)
        return Task.join([self._task(one) for one in structures or self.structures])

    def _task(self, structure: str) -> Task:
        asked = self.structures[structure]
        of = np.repeat(np.arange(len(asked.rows)), [len(answers) for answers in asked.hard])
        known = [np.concatenate(both) for both in zip(asked.easy, asked.hard, strict=True)]
        answers, rows = np.concatenate(asked.hard), asked.rows.tolist()
        return Task.of(
            asked.rows[of],
            answers,
            size=self.entities,
            known=(
                np.repeat(asked.rows, [len(one) for one in known], axis=0),
                np.concatenate(known),
            ),
            side=structure,
            keys={
                "structure": np.full(len(of), structure, dtype=object),
                "query": np.array([f"{structure} {row}" for row in rows], dtype=object)[of],
                "answer": answers,
            },
            protocol=Protocol(
                data=self.name, split=self.split, filter=("all",), extra={"task": "query answering"}
            ),
        )

    def __repr__(self) -> str:
        """Summarise the queries in a line."""
        words = []
        for structure, asked in self.structures.items():
            queries, answers = len(asked.rows), sum(map(len, asked.hard))
            words.append(
                f"{structure} {queries:,} quer{'y' if queries == 1 else 'ies'}, "
                f"{answers:,} hard answer{'s' * (answers != 1)}"
            )
        return f"{self.name}: {self.entities:,} entities; {'; '.join(words)}"


def answers(structure: str, query: Sequence[int], step: Answers) -> set[int]:
    """Answer a query by its steps.

    Parameters
    ----------
    structure : str
        One of `STRUCTURES`.
    query : sequence of int
        Its entities and relations.
    step : dict
        For each entity and relation, the entities that one step reaches.

    Returns
    -------
    set of int
        The answers.

    Examples
    --------
    >>> step = steps(np.array([[0, 0, 1], [0, 0, 2], [1, 1, 3], [2, 1, 4]]))
    >>> sorted(answers("2p", [0, 0, 1], step))
    [3, 4]
    """
    return _answer(STRUCTURES[structure], query, step)


def steps(triples: Ints) -> Answers:
    """Index triples by what one step reaches.

    Parameters
    ----------
    triples : array of int
        Rows of head, relation, tail.

    Returns
    -------
    dict
        For each head and relation, the tails.
    """
    found: Answers = defaultdict(set)
    for h, r, t in triples.tolist():
        found[h, r].add(t)
    return dict(found)


def _answer(node: Node, query: Sequence[int], step: Answers) -> set[int]:
    if isinstance(node, int):
        return {query[node]}
    if node[0] == "p":
        relation = query[node[2]]
        starts = _answer(node[1], query, step)
        return set().union(*(step.get((start, relation), ()) for start in starts))
    parts = [_answer(part, query, step) for part in node[1:]]
    return set.intersection(*parts) if node[0] == "i" else set.union(*parts)


def _drawn(
    structure: str, walk: _Walk, ends: Sequence[int], before: Answers, after: Answers, count: int
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Draw queries backwards from an answer, and keep those with a hard one."""
    length = _length(STRUCTURES[structure])
    found: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    for _ in range(TRIES * count):
        row = [-1] * length
        if not _back(STRUCTURES[structure], ends[int(walk.draw.integers(len(ends)))], row, walk):
            continue
        easy, full = (answers(structure, row, known) for known in (before, after))
        if full - easy:
            found.setdefault(tuple(row), (sorted(easy), sorted(full - easy)))
        if len(found) == count:
            break
    else:
        raise InputError(
            f"the graph has few queries of structure {structure} with a hard answer",
            got=f"{len(found)} in {TRIES * count:,} draws",
            do=f"ask for at most {len(found)} by count" if found else "leave the structure out",
        )
    rows, both = [list(row) for row in found], list(found.values())
    return rows, [easy for easy, _ in both], [hard for _, hard in both]


class _Walk(NamedTuple):
    """The triples into each entity, the entities that have some, and the generator of random numbers."""

    into: Mapping[int, list[tuple[int, int]]]
    ends: Sequence[int]
    draw: np.random.Generator


def _back(node: Node, answer: int, row: list[int], walk: _Walk) -> bool:
    """Fill a query so that it has this answer; False if no triple leads there."""
    if isinstance(node, int):
        row[node] = answer
        return True
    if node[0] == "p":
        edges = walk.into.get(answer)
        if not edges:
            return False
        start, row[node[2]] = edges[int(walk.draw.integers(len(edges)))]
        return _back(node[1], start, row, walk)
    others = walk.ends if node[0] == "u" else [answer]
    chosen = [answer, *(others[int(walk.draw.integers(len(others)))] for _ in node[2:])]
    made = all(_back(part, one, row, walk) for part, one in zip(node[1:], chosen, strict=True))
    return made and len({_slice(part, row) for part in node[1:]}) == len(node[1:])


def _slice(node: Node, row: Sequence[int]) -> tuple[int, ...]:
    """Return the entries of a query that a part of its structure takes."""
    if isinstance(node, int):
        return (row[node],)
    if node[0] == "p":
        return (*_slice(node[1], row), row[node[2]])
    return tuple(entry for part in node[1:] for entry in _slice(part, row))


def _length(node: Node) -> int:
    return len(_slice(node, range(9)))


def _checked(
    structure: str, rows: Any, easy: Sequence[Iterable[int]], hard: Sequence[Iterable[int]], size: int
) -> Asked:
    """Check the queries of a structure."""
    table = columns.as_array(f"queries {structure}", rows)
    if table.ndim != 2 or not table.size:
        raise InputError(
            f"queries {structure} must be rows of whole numbers", got=columns.described(table)
        )
    flat = columns.integers(f"queries {structure}", table.ravel(), 0).reshape(table.shape)
    if structure in STRUCTURES:
        _check_entries(structure, flat, size)
    if not len(flat) == len(easy) == len(hard):
        got = f"{len(flat)} queries, {len(easy)} lists of easy and {len(hard)} of hard answers"
        raise InputError(f"queries {structure} need two lists of answers each", got=got)
    lists = []
    for what, given in (("easy", easy), ("hard", hard)):
        arrays = [_answers(f"{structure}: {what} answers", one) for one in given]
        every = np.concatenate(arrays)
        bad = every[(every < 0) | (every >= size)]
        if len(bad):
            text = f"{structure}: one of the {what} answers is not an entity"
            raise InputError(text, got=int(bad[0]), allowed=f"0 to {size - 1:,}")
        lists.append(tuple(arrays))
    for i in range(len(flat)):
        both = np.intersect1d(lists[0][i], lists[1][i])
        if len(both):
            got = f"answer {both[0]} of query {flat[i].tolist()}"
            raise InputError(f"{structure}: an answer is easy and hard", got=got)
        if not len(lists[1][i]):
            raise InputError(f"{structure}: a query has no hard answer", got=f"query {flat[i].tolist()}")
    return Asked(flat, lists[0], lists[1])


def _check_entries(structure: str, rows: Ints, size: int) -> None:
    """Check the number of entries of queries, and that the entities among them exist."""
    node = STRUCTURES[structure]
    if rows.shape[1] != _length(node):
        raise InputError(
            f"queries {structure} have {_length(node)} entries: entities and relations in order",
            got=f"{rows.shape[1]} in {rows[0].tolist()}",
        )
    entities = rows[:, _anchors(node)]
    bad = (entities >= size).any(axis=1)
    if bad.any():
        got = f"query {rows[int(np.flatnonzero(bad)[0])].tolist()}"
        raise InputError(
            f"{structure}: a query has an entity that does not exist",
            got=got,
            allowed=f"0 to {size - 1:,}",
        )


def _anchors(node: Node) -> list[int]:
    """Return the positions of the entities in a query."""
    if isinstance(node, int):
        return [node]
    parts = node[1:2] if node[0] == "p" else node[1:]
    return [position for part in parts for position in _anchors(part)]


def _answers(name: str, given: Any) -> Ints:
    """Check the answers of a query: a list or set of ids."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name} must be a list of ids for each query", got=f"{given!r:.40}")
    return np.unique(columns.integers(name, [*given], -columns.LARGEST))


def _flat(query: Any) -> list[int]:
    """Flatten the nested tuples of a query; negative entries only mark its structure."""
    if isinstance(query, tuple):
        return [number for part in query for number in _flat(part)]
    return [int(query)] if query >= 0 else []


class _Plain(pickle.Unpickler):
    """Reads dictionaries of sets and tuples, and nothing that runs code."""

    def find_class(self, module: str, name: str) -> Any:
        """Allow `set` and `defaultdict`."""
        if (module, name) in (("builtins", "set"), ("__builtin__", "set")):
            return set
        if (module, name) == ("collections", "defaultdict"):
            return defaultdict
        raise pickle.UnpicklingError(f"{module}.{name}")


def _unpickled(file: Path) -> dict[Any, Any]:
    found = file if file.is_file() else file.with_name(f"{file.name}.gz")
    raw = content(found)
    with translated(found):
        loaded = _Plain(io.BytesIO(raw)).load()
        if not isinstance(loaded, dict):
            raise ValueError(f"a {type(loaded).__name__}")
    return loaded
