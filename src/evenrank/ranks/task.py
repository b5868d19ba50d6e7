"""Ranking tasks: queries, targets to rank, candidates, and known true answers to filter.

A query is a row of integers. In a knowledge graph it is a triple with an unknown part, -1: `(h, r, -1)`
predicts the tail, `(-1, r, t)` the head, `(h, -1, t)` the relation, `(-1, r, -1)` the pair. Other models
may define queries as they like. Duplicate queries are stored once, with all of their targets; known
answers are a list per distinct query.

For target `t` of a query with candidates `C` and known answers `K`

    candidates = #(C without K) + 1, where t is not counted among K
    better, equal = number of these candidates, without t, with a higher score than t, or the same

Tasks are independent of models: `candidates` depends on the task alone, not on scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.checks import check_choice
from evenrank.errors import InputError, Option
from evenrank.metrics.chance import Chance, Dependence
from evenrank.metrics.metric import Metric, Statistic
from evenrank.ranks.lists import Lists, offsets
from evenrank.ranks.presets import PRESETS, chance_of
from evenrank.ranks.protocol import Protocol, shared

HOLE = -1
Outside = Literal["raise", "add"]


@dataclass(frozen=True, eq=False)
class Part:
    """Distinct queries of one side, with their targets in the order of the queries.

    Targets `first[i]:first[i + 1]` belong to query `i`; `place` is the position of each in the result.
    Candidates are `range(size)`, or the sorted `lists[group[i]]`. Known answers that are no candidates
    are not listed. `own` marks targets that are candidates and not known answers.

    For a block of the candidates (`among`), `begin` is the first of them; targets may lie outside of it,
    and `goal` are their scores, once these are known.
    """

    side: str
    queries: Ints
    first: Ints
    targets: Ints
    place: Ints
    known: Lists
    size: int
    lists: Lists | None
    group: Ints
    own: NDArray[np.bool_]
    keys: Mapping[str, NDArray[Any]]
    begin: int = 0
    goal: Floats | None = None

    @cached_property
    def query_of(self) -> Ints:
        """The number of the query of each target."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.first))

    @cached_property
    def candidates(self) -> Ints:
        """The number of candidates of each target, the target included."""
        wide = np.full(len(self.queries), self.size)
        if self.lists is not None:
            wide = self.lists.lengths[self.group]
        return (wide - self.known.lengths)[self.query_of] - self.own + 1

    @property
    def everything(self) -> Ints:
        """The number of candidates of each target if known answers are not filtered."""
        others = self.known.lengths[self.query_of] - self.known.contains(self.query_of, self.targets)
        return self.candidates + others

    @property
    def scores(self) -> int:
        """The number of scores to compute: distinct queries times their candidates."""
        if self.lists is None:
            return len(self.queries) * self.size
        return int(self.lists.lengths[self.group].sum())

    def between(self, start: int, stop: int) -> tuple[Ints, Part]:
        """Return the positions of the targets of some queries in the result, and the part of these."""
        mine = slice(int(self.first[start]), int(self.first[stop]))
        rows = np.sort(self.place[mine])
        lists, group = self.lists, self.group[start:stop]
        if lists is not None:
            used, group = np.unique(group, return_inverse=True)
            lists = lists.select(used)
        return rows, replace(
            self,
            queries=self.queries[start:stop],
            first=self.first[start : stop + 1] - mine.start,
            targets=self.targets[mine],
            place=np.searchsorted(rows, self.place[mine]),
            known=self.known.select(np.arange(start, stop)),
            lists=lists,
            group=group,
            own=self.own[mine],
            keys={name: column[rows] for name, column in self.keys.items()},
        )

    def among(self, start: int, stop: int) -> Part:
        """Restrict the candidates to a block, numbered from 0; the counts of all blocks add up."""
        return replace(
            self,
            targets=self.targets - start,
            known=self.known.within(start, stop),
            size=stop - start,
            lists=None if self.lists is None else self.lists.within(start, stop),
            own=self.own & (self.targets >= start) & (self.targets < stop),
            begin=self.begin + start,
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A ranking task: queries, their targets, candidates and known true answers.

    Create tasks with `Graph.task`, or with the class methods for other data.

    Parameters
    ----------
    parts : tuple of Part
        Queries by side.
    protocol : Protocol
        The protocol of the ranks.
    vocabulary : str, optional
        Hash of the numbering of entities and relations.
    mixed : bool
        Whether parts number entities or relations differently, as they are of several graphs.

    See Also
    --------
    Task.of : Task from queries and targets.

    Examples
    --------
    >>> task = Task.of([[0], [0], [7]], targets=[3, 4, 1], size=10)
    >>> task
    Task(3 targets of 2 distinct queries among 10 candidates)
    """

    parts: tuple[Part, ...]
    protocol: Protocol = field(default_factory=Protocol)
    vocabulary: str | None = None  # hash of the numbering of entities and relations, if known
    mixed: bool = False  # whether parts number entities or relations differently

    def __len__(self) -> int:
        """The number of targets."""
        return sum(len(part.targets) for part in self.parts)

    def __repr__(self) -> str:
        """Summarise the task in one line."""
        counts = [part.candidates for part in self.parts]
        low, high = min(int(c.min()) for c in counts), max(int(c.max()) for c in counts)
        among = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        queries = sum(len(part.queries) for part in self.parts)
        return f"Task({len(self):,} targets of {queries:,} distinct queries among {among} candidates)"

    @cached_property
    def keys(self) -> dict[str, NDArray[Any]]:
        """The key columns that all parts have, in the order of the result."""
        shared = [name for name in self.parts[0].keys if all(name in part.keys for part in self.parts)]
        return {name: np.concatenate([part.keys[name] for part in self.parts]) for name in shared}

    @cached_property
    def candidates(self) -> Ints:
        """The number of candidates of each target, on which null distributions depend.

        >>> Task.of([[0], [0]], targets=[3, 4], size=10, known=([[0]], [4])).candidates.tolist()
        [9, 10]
        """
        return np.concatenate([in_place(part, part.candidates) for part in self.parts])

    def dependence(self, *, weights: ArrayLike | None = None) -> Dependence | None:
        """Describe which ranks depend on each other under a random scorer.

        Parameters
        ----------
        weights : array_like of float, optional
            Weights of the targets, in the order of the result.

        Returns
        -------
        Dependence or None
            What the variances of `evenrank.chance` are computed from; None for a task of several graphs.
        """
        from evenrank.ranks import dependence

        if self.mixed:
            return None
        given = None if weights is None else columns.weights(weights, len(self))
        return dependence.of_task(self, given)

    @property
    def chance(self) -> Chance:
        """How z-scores treat random ranks: as the protocol says, else as its preset, else "scorer"."""
        return chance_of(self.protocol)

    def simulated(
        self,
        metric: Metric | Statistic,
        samples: int,
        seed: int,
        weights: Floats | None = None,
    ) -> Floats:
        """Evaluate a metric on random scorers, which score every candidate independently.

        Parameters
        ----------
        metric : Metric or Statistic
            The metric.
        samples : int
            Number of scorers.
        seed : int
            Seed of the scores.
        weights : ndarray of float, optional
            Weights of the targets.

        Returns
        -------
        ndarray of float
            The value for each scorer.

        Raises
        ------
        InputError
            If the task is too large.
        """
        from evenrank.ranks import simulation

        return simulation.values_of(self, metric, samples, seed, weights)

    @property
    def scores(self) -> int:
        """The number of scores to compute."""
        return sum(part.scores for part in self.parts)

    @property
    def everything(self) -> Ints:
        """The number of candidates of each target if known answers are not filtered."""
        return np.concatenate([in_place(part, part.everything) for part in self.parts])

    def together(self) -> Task:
        """Return the task in which all answers of a query are ranked together.

        The targets of a query compete instead of being filtered for each other, so that each query has
        one set of candidates: all except the other known answers. A target that occurs twice counts
        once, and one that was added to its own candidates only is added to those of its query. The
        protocol has the entry ``answers: together``.

        Returns
        -------
        Task
            The same queries. The targets of a query are neighbours in the result.

        Raises
        ------
        InputError
            If the task follows the protocol of a library, if a query has several lists of candidates,
            or if a candidate is listed twice.

        Examples
        --------
        >>> task = Task.answers([[0, 9], [1, 9]], [[2, 3, 4], [0]], size=5, known=[[1], []])
        >>> task.candidates.tolist(), task.together().candidates.tolist()
        ([2, 2, 2, 5], [4, 4, 4, 5])
        """
        return self._together

    @cached_property
    def _together(self) -> Task:
        from evenrank.ranks.together import together

        return together(self)

    @classmethod
    def join(cls, tasks: Sequence[Task], protocol: Protocol | Mapping[str, Any] | None = None) -> Task:
        """Join several tasks; their common protocol is kept.

        Parameters
        ----------
        tasks : sequence of Task
            The tasks.
        protocol : Protocol or mapping, optional
            Further entries of the protocol.

        Returns
        -------
        Task
            All queries and targets.

        Raises
        ------
        InputError
            If there are no tasks, or their presets differ.
        """
        if not isinstance(tasks, Sequence) or not all(isinstance(task, Task) for task in tasks):
            raise InputError("tasks must be a list of tasks", got=repr(tasks)[:40])
        if not tasks:
            raise InputError("no tasks to join")
        presets = dict.fromkeys(PRESETS.get(task.protocol.preset or "") for task in tasks)
        if len(presets) > 1:
            got = " and ".join(preset.name if preset else "none" for preset in presets)
            raise InputError("tasks with different presets cannot be joined", got=got)
        common = shared(task.protocol for task in tasks).updated(Protocol.of(protocol).to_dict())
        named = {task.vocabulary for task in tasks}
        parts = tuple(part for task in tasks for part in task.parts)
        mixed = len(named) > 1 or any(task.mixed for task in tasks)
        return cls(parts, common, None if mixed else named.pop(), mixed)

    @classmethod
    def of(
        cls,
        queries: ArrayLike,
        targets: ArrayLike,
        *,
        size: int,
        known: tuple[ArrayLike, ArrayLike] | None = None,
        candidates: Lists | Sequence[ArrayLike] | None = None,
        group: ArrayLike | None = None,
        outside: Outside = "raise",
        repeats: bool = False,
        side: str = "answer",
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Task:
        """Create a task to rank `targets[i]` for the query `queries[i]` among `range(size)`.

        Parameters
        ----------
        queries : array_like of int
            A row per target.
        targets : array_like of int
            The targets.
        size : int
            The number of entities; candidates are ``range(size)`` unless `candidates` are given.
        known : tuple of array_like, optional
            Queries and known true answers, which are filtered from the candidates of the query, except
            the target itself. Targets of one query compete unless they are listed here, too.
        candidates : sequence of array_like of int, optional
            A list of candidates for each row of `queries`, or, with `group`, any number of lists.
        group : array_like of int, optional
            The list of candidates for each row of `queries`.
        outside : {"raise", "add"}
            Whether a target that is not among its candidates raises an error or is added to its own.
        repeats : bool
            Whether a candidate counts as often as it is listed.
        side : str
            The predicted side.
        keys : mapping of str to array_like, optional
            Columns that describe the targets.
        protocol : Protocol or mapping, optional
            Entries of the protocol.

        Returns
        -------
        Task
            The task.

        Raises
        ------
        InputError
            If an argument is invalid.

        Examples
        --------
        >>> task = Task.of([[0], [1]], targets=[2, 5], size=6, candidates=[[1, 2, 3], [5, 0]])
        >>> task.candidates.tolist()
        [3, 2]
        """
        check_choice("value of outside", outside, ("raise", "add"))
        asked = _rows("queries", queries)
        target = columns.integers("targets", targets, 0)
        size = columns.integer("size", size, 1)
        if not len(target):
            raise InputError("a task requires at least one target", got="none")
        if len(asked) != len(target):
            raise InputError(
                "queries and targets differ in length", got=f"{len(asked)} and {len(target)}"
            )
        columns.reject(target >= size, target, f"a target is not below the size, {size:,}")
        named = {
            name: columns.key(name, key, len(target))
            for name, key in columns.mapping("keys", keys).items()
        }
        lists, of_row = _lists(candidates, group, len(asked), size, repeats)
        known_rows, answers = _known(known, asked.shape[1], size)
        code, known_code = _codes(asked, known_rows)
        plain, number = np.unique(code, return_inverse=True)
        place = np.minimum(np.searchsorted(plain, known_code), len(plain) - 1)
        wanted = plain[place] == known_code
        index = Lists.grouped(place[wanted], answers[wanted], len(plain))
        if lists is not None:
            # a query with different lists of candidates is several queries, in the order of the lists,
            # so that queries that share a list are neighbours
            _, where, query_of = np.unique(
                of_row * len(plain) + number, return_index=True, return_inverse=True
            )
            index = index.select(number[where])
            inside = lists.contains(of_row[where][index.owner], index.values)
            index = Lists.grouped(index.owner[inside], index.values[inside], len(where))
        else:
            _, where, query_of = np.unique(number, return_index=True, return_inverse=True)
        order = np.argsort(query_of, kind="stable")
        target, query_of, group_of = target[order], query_of[order], of_row[where]
        there = np.ones(len(target), dtype=bool)
        if lists is not None:
            if outside == "raise" and not lists.lengths[group_of].all():
                empty = asked[where[np.flatnonzero(lists.lengths[group_of] == 0)[0]]]
                raise InputError("a query has no candidates", got=f"an empty list for {empty.tolist()}")
            there = lists.contains(group_of[query_of], target)
            if outside == "raise" and not there.all():
                raise _outside(asked[order], target, ~there, {k: named[k][order] for k in named})
        part = Part(
            side=side,
            queries=asked[where],
            first=np.searchsorted(query_of, np.arange(len(where) + 1)),
            targets=target,
            place=order,
            known=index,
            size=size,
            lists=lists,
            group=group_of,
            own=there & ~index.contains(query_of, target),
            keys=named,
        )
        return cls((part,), Protocol.of(protocol))

    # Other kinds of ranking tasks -------------------------------------------------------------------

    @classmethod
    def alignment(
        cls,
        pairs: ArrayLike,
        *,
        size: int,
        known: ArrayLike | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Task:
        """Create an entity alignment task: rank the target of each pair among `size` entities.

        Parameters
        ----------
        pairs : array_like of int
            Rows of source and target. The query is ``(source,)``; several targets of a source are
            filtered against each other.
        size : int
            The number of candidates.
        known : array_like of int, optional
            Further pairs to filter, such as those of the training split.
        protocol : Protocol or mapping, optional
            Entries of the protocol.

        Returns
        -------
        Task
            The task.

        Examples
        --------
        >>> Task.alignment([[0, 3], [0, 4], [1, 1]], size=5).candidates.tolist()
        [4, 4, 5]
        """
        source, target = _columns("pairs", pairs, 2).T
        every = np.concatenate([_columns("pairs", p, 2) for p in (pairs, known) if p is not None])
        return cls.of(
            source[:, None],
            target,
            size=size,
            known=(every[:, :1], every[:, 1]),
            side="target",
            keys={"source": source, "target": target, "query": source},
            protocol=_about("entity alignment", protocol),
        )

    @classmethod
    def links(
        cls,
        edges: ArrayLike,
        *,
        size: int,
        known: ArrayLike | None = None,
        directed: bool = True,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Task:
        """Create a link prediction task without relations: rank both ends of each edge.

        Parameters
        ----------
        edges : array_like of int
            Rows of source and target. The queries are ``(source, -1)`` and ``(-1, target)``.
        size : int
            The number of nodes.
        known : array_like of int, optional
            Further edges to filter, such as those of the training split.
        directed : bool
            False filters edges in both directions.
        protocol : Protocol or mapping, optional
            Entries of the protocol.

        Returns
        -------
        Task
            The task.

        Examples
        --------
        >>> Task.links([[0, 1], [0, 2]], size=4, directed=False).candidates.tolist()
        [3, 3, 4, 4]
        """
        asked = _columns("edges", edges, 2)
        every = np.concatenate([asked] + ([] if known is None else [_columns("edges", known, 2)]))
        if not directed:
            every = np.concatenate([every, every[:, ::-1]])
        sides = []
        for side, answer in (("target", 1), ("source", 0)):
            sides.append(
                cls.of(
                    _with_hole(asked, answer),
                    asked[:, answer],
                    size=size,
                    known=(_with_hole(every, answer), every[:, answer]),
                    side=side,
                    keys={"source": asked[:, 0], "target": asked[:, 1], "side": side},
                )
            )
        return cls.join(sides, _about("link prediction, one relation", protocol))

    @classmethod
    def answers(
        cls,
        queries: ArrayLike,
        answers: Sequence[ArrayLike],
        *,
        size: int,
        known: Sequence[ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Task:
        """Create a query answering task: rank the answers of each query, filtered against each other.

        Parameters
        ----------
        queries : array_like of int
            A row per query.
        answers : sequence of array_like of int
            The answers to each query, which are ranked.
        size : int
            The number of candidates.
        known : sequence of array_like of int, optional
            Further answers to each query, which are filtered but not ranked, such as the easy ones that
            follow from training triples.
        protocol : Protocol or mapping, optional
            Entries of the protocol.

        Returns
        -------
        Task
            The task.

        Examples
        --------
        >>> Task.answers([[0, 9], [1, 9]], [[2, 3, 4], [0]], size=5, known=[[1], []]).candidates.tolist()
        [2, 2, 2, 5]
        """
        asked = _rows("queries", queries)
        lists = Lists.of(answers)
        given = [lists] + ([] if known is None else [Lists.of(known)])
        for one in given:
            if len(one) != len(asked):
                raise InputError(
                    "each query requires a list of answers",
                    got=f"{len(one)} lists for {len(asked)} queries",
                )
        return cls.of(
            asked[lists.owner],
            lists.values,
            size=size,
            known=(
                np.concatenate([asked[one.owner] for one in given]),
                np.concatenate([one.values for one in given]),
            ),
            keys={"query": lists.owner, "answer": lists.values},
            protocol=_about("query answering", protocol),
        )

    @classmethod
    def recommendation(
        cls,
        test: Any,
        *,
        train: Any = None,
        items: int | None = None,
        users: int | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Task:
        """Create a recommendation task: rank the test items of each user among all items.

        Parameters
        ----------
        test : array_like or sparse matrix
            Rows of user and item, or of user, item and gain; or a SciPy matrix of users and items, whose
            values are the gains. Pairs with a gain of 0 are not relevant and are left out.
        train : array_like or sparse matrix, optional
            Interactions to filter, such as those of the training split. An item that is also a test item
            of the user is ranked.
        items : int, optional
            The number of items; by default that of the matrix.
        users : int, optional
            The number of users; by default that of the matrix, or of those who occur. Users without test
            items are left out, and the protocol says how many.
        protocol : Protocol or mapping, optional
            Entries of the protocol.

        Returns
        -------
        Task
            The task; the query of a user is ``(user,)``. Keys are the user, the item, and the gain if
            there is one. Rows are sorted by user and item.

        Raises
        ------
        InputError
            If an id or a gain is invalid, or a pair has several gains.

        Examples
        --------
        >>> task = Task.recommendation([[0, 3], [0, 4], [2, 1]], train=[[0, 0], [1, 2]], items=5)
        >>> task.candidates.tolist(), task.together().candidates.tolist()
        ([3, 3, 5], [4, 4, 5])
        >>> task.protocol.extra["users without test items"]
        '1'
        """
        from evenrank.ranks.interactions import recommendation

        about = _about("recommendation", protocol)
        return recommendation(test, train, items, users, about)


def _about(task: str, protocol: Protocol | Mapping[str, Any] | None) -> Protocol:
    """Add the kind of task to the protocol, unless it is set."""
    given = Protocol.of(protocol)
    return replace(given, extra={"task": task, **given.extra})


class Blocks:
    """A task split into tasks of at most `queries` distinct queries of one side.

    >>> blocks = Blocks(Task.of([[7], [0], [7], [0]], targets=[3, 4, 1, 2], size=10), queries=1)
    >>> len(blocks), blocks[0]
    (2, Task(2 targets of 1 distinct queries among 10 candidates))
    >>> blocks.rows(0).tolist(), blocks.rows(1).tolist()
    ([1, 3], [0, 2])
    """

    def __init__(self, task: Task, queries: int) -> None:
        self.task, self.queries = task, queries
        self._before = offsets([len(part.targets) for part in task.parts])
        self._cuts = [
            (number, start, min(start + queries, len(part.queries)))
            for number, part in enumerate(task.parts)
            for start in range(0, len(part.queries), queries)
        ]

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._cuts)

    def __getitem__(self, i: int) -> Task:
        """Create a block, with the keys that all parts of the task have."""
        _, part = self._cut(i)
        keys = {name: column for name, column in part.keys.items() if name in self.task.keys}
        return replace(self.task, parts=(replace(part, keys=keys),))

    def rows(self, i: int) -> Ints:
        """Return the positions of the targets of a block among all targets."""
        rows, _ = self._cut(i)
        return np.asarray(self._before[self._cuts[i][0]] + rows)

    def _cut(self, i: int) -> tuple[Ints, Part]:
        number, start, stop = self._cuts[i]
        return self.task.parts[number].between(start, stop)


def in_place(part: Part, column: NDArray[Any]) -> NDArray[Any]:
    """Restore the order of the result in a column of the targets of a part."""
    result = np.empty_like(column)
    result[part.place] = column
    return result


# Checks and indices ------------------------------------------------------------------------------


def _rows(name: str, values: ArrayLike) -> Ints:
    """Check a table of whole numbers with a row per query; a vector is a single column."""
    array = columns.as_array(name, values)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.shape[1]:
        raise InputError(f"{name} must be rows of whole numbers", got=columns.described(array))
    flat = columns.integers(name, array.ravel(), HOLE, 2**62)
    return np.ascontiguousarray(flat.reshape(array.shape))


def _columns(name: str, values: ArrayLike, width: int) -> Ints:
    table = _rows(name, values)
    if not table.size:
        return np.zeros((0, width), np.int64)
    if table.shape[1] != width:
        raise InputError(f"{name} must have {width} columns", got=f"shape {table.shape}")
    return table


def _with_hole(rows: Ints, column: int) -> Ints:
    asked = rows.copy()
    asked[:, column] = HOLE
    return asked


def _known(known: tuple[ArrayLike, ArrayLike] | None, width: int, size: int) -> tuple[Ints, Ints]:
    if known is None:
        return np.zeros((0, width), np.int64), np.zeros(0, np.int64)
    if not isinstance(known, Sequence) or len(known) != 2:
        raise InputError("known must be queries and an answer to each", got=repr(known)[:40])
    rows, answers = _rows("known queries", known[0]), columns.integers("known answers", known[1], 0)
    if len(rows) != len(answers) or rows.shape[1] != width:
        raise InputError(
            "known answers do not fit the queries",
            got=f"{len(rows)} rows of {rows.shape[1]} columns with {len(answers)} answers",
            allowed=f"rows of {width} columns, with an answer each",
        )
    columns.reject(answers >= size, answers, f"a known answer is not below the size, {size:,}")
    return rows, answers


def _lists(
    candidates: Lists | Sequence[ArrayLike] | None,
    group: ArrayLike | None,
    rows: int,
    size: int,
    repeats: bool,
) -> tuple[Lists | None, Ints]:
    """Check and sort lists of candidates; return them and the list of each row."""
    if candidates is None:
        return None, np.zeros(rows, np.int64)
    given = candidates if isinstance(candidates, Lists) else Lists.of(candidates)
    columns.reject(given.values >= size, given.values, f"a candidate is not below the size, {size:,}")
    of_row = np.arange(rows) if group is None else columns.integers("group", group, 0)
    if len(of_row) != rows or (len(given) != rows if group is None else of_row.max() >= len(given)):
        raise InputError(
            "each query requires a list of candidates", got=f"{len(given)} lists for {rows} queries"
        )
    if repeats:
        return Lists(given.first, np.sort(given.owner * size + given.values) % size), of_row
    return Lists.grouped(given.owner, given.values, len(given)), of_row


def _codes(asked: Ints, known: Ints) -> tuple[Ints, Ints]:
    """Number distinct rows."""
    every = np.concatenate([asked, known])
    low = every.min(axis=0)
    spans = [int(span) + 1 for span in every.max(axis=0) - low]
    # the column with the fewest values (relations) first: queries that share it become neighbours
    order = np.argsort(spans, kind="stable").tolist()
    if prod(spans) < 2**62:
        code = np.zeros(len(every), dtype=np.int64)
        for i in order:
            code = code * spans[i] + (every[:, i] - low[i])
    else:
        code, _ = columns.encode([every[:, i] for i in order])
    return code[: len(asked)], code[len(asked) :]


def _outside(
    queries: Ints, targets: Ints, bad: NDArray[np.bool_], keys: Mapping[str, NDArray[Any]]
) -> InputError:
    row = int(np.flatnonzero(bad)[0])
    names = ", ".join(f"{name} {column[row]}" for name, column in keys.items())
    return InputError(
        "a target is not among the candidates of its query",
        got=(names or f"target {targets[row]} of query {queries[row].tolist()}")
        + (f", and {bad.sum() - 1:,} more" if bad.sum() > 1 else ""),
        do=[
            "use candidates that contain the targets, or add each to its own with ",
            Option("outside", "add"),
        ],
    )
