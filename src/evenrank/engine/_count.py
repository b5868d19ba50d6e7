"""Counting one part of a task: blocks of queries against blocks of candidates."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank.engine import _numpy
from evenrank.engine._run import Runner, out_of_memory
from evenrank.engine.scorer import Candidates, Factored
from evenrank.errors import InputError
from evenrank.protocols import Yardstick
from evenrank.sums import Floats, Ints
from evenrank.task import Lists, Part

# queries whose vectors are worked out together: always the same ones, whatever the memory, in case a
# model's arithmetic depends on the batch after all; a multiple of CHUNK
BATCH = 960
CHUNK = 240  # queries a thread takes at a time: whole panels of every kernel
SHARED = 8  # queries from which gathering the rows of a shared list pays


def batch(length: int) -> int:
    """Give the number of queries whose vectors of some length are worked out together."""
    return max(1, min(BATCH, BATCH * 4096 // length) // CHUNK) * CHUNK


class Block:
    """Some of a part's queries and their targets, numbered from 0, and what is counted for them."""

    def __init__(self, part: Part, start: int, stop: int) -> None:
        """Cut queries `start` to `stop` out of a part."""
        self.part, self.start, self.stop = part, start, stop
        self.queries = part.queries[start:stop]
        self.where = slice(int(part.first[start]), int(part.first[stop]))
        self.first = part.first[start : stop + 1] - self.where.start
        self.targets = part.targets[self.where]
        self.query_of = np.repeat(np.arange(len(self.queries)), np.diff(self.first))
        self.better, self.equal = (np.zeros(len(self.targets), np.int64) for _ in "be")
        self.undecided = 0

    def known(self, start: int, stop: int) -> Lists:
        """Give the known answers of some queries."""
        first = self.part.known.first[self.start + start : self.start + stop + 1]
        return Lists(first - first[0], self.part.known.values[first[0] : first[-1]])

    def of(self, queries: Ints) -> Lists:
        """Give the places of the targets of some queries."""
        return Lists(self.first, np.arange(len(self.targets))).select(queries)

    def groups(self) -> list[tuple[int, Ints]]:
        """Give each list of candidates that is in use, and its queries."""
        group = self.part.group[self.start : self.stop]
        order = np.argsort(group, kind="stable")
        used, begin = np.unique(group[order], return_index=True)
        return list(zip(used.tolist(), np.split(order, begin[1:]), strict=True))

    def refuse_nan(self, query: int, candidate: int) -> None:
        """Name a score that has no rank."""
        raise InputError(
            "a score is not a number",
            got=f"NaN for query {self.queries[query].tolist()} and candidate {candidate}",
            do="mend the model; a NaN has no rank",
        )


def _blocks(
    part: Part, runner: Runner, rows: Callable[[int], int], count: Callable[[Block], None]
) -> tuple[Ints, Ints, int]:
    """Count block by block, `rows(memory)` queries each; one that runs out of memory is halved."""
    better, equal = (np.zeros(len(part.targets), np.int64) for _ in "be")
    undecided = at = 0
    while at < len(part.queries):
        block = Block(part, at, min(len(part.queries), at + rows(runner.memory)))
        try:
            count(block)
        except Exception as error:
            if not out_of_memory(error):
                raise
            runner.halve(error)
            continue
        better[block.where], equal[block.where] = block.better, block.equal
        undecided += block.undecided
        at = block.stop
    # a target that is not among the known answers was counted as equal to itself
    return better, equal - part.own, undecided


# Models that factor -------------------------------------------------------------------------------


def count_factored(factored: Factored, part: Part, runner: Runner) -> tuple[Ints, Ints, int]:
    """Count by the definition of the score: better, equal, and how many pairs took float64 to decide."""
    table = _table(factored)
    # float64 and packed vectors take 12 bytes a number, working them out about as much again
    unit = 24 * table.shape[1] * batch(table.shape[1])

    def count(block: Block) -> None:
        _FactoredBlock(factored, table, block, runner).count()

    return _blocks(
        part, runner, lambda memory: max(1, memory // 2 // unit) * batch(table.shape[1]), count
    )


def _table(factored: Factored) -> NDArray[Any]:
    """Give the table as kernels read it; float32 holds every value of half precision."""
    kind = np.float64 if factored.table.dtype == np.float64 else np.float32
    return np.ascontiguousarray(factored.table, dtype=kind)


class _FactoredBlock:
    """A block of queries, their vectors, and the exact scores of their targets."""

    def __init__(self, factored: Factored, table: NDArray[Any], block: Block, runner: Runner) -> None:
        self.factored, self.form, self.table = factored, factored.form, table
        self.block, self.runner, self.kernels = block, runner, runner.kernels
        self.vectors = np.empty((len(block.queries), table.shape[1]))
        self.scores = np.empty(len(block.targets))

    def count(self) -> None:
        block, queries = self.block, len(self.block.queries)
        self.runner.run(self._prepare, range(0, queries, batch(self.table.shape[1])))
        lost = np.flatnonzero(np.isnan(self.scores))
        if len(lost):
            block.refuse_nan(int(block.query_of[lost[0]]), int(block.targets[lost[0]]))
        if block.part.lists is None:
            step = max(1, self.runner.memory // 4 // (8 * self.table.shape[1]))
            for start in range(0, len(self.table), step):
                self._count_rows(start, self.table[start : start + step])
        else:
            self._count_lists(block.part.lists)
        self.runner.run(self._subtract_known, range(0, queries, CHUNK))

    def _pairs(self, query: Ints, row: Ints) -> Floats:
        return self.kernels.pairs(self.form, self.vectors, self.table, query, row)

    def _prepare(self, start: int) -> None:
        """Work out query vectors, and the targets' scores by definition."""
        block, stop = self.block, min(start + batch(self.table.shape[1]), len(self.vectors))
        self.vectors[start:stop] = self.factored.vectors(block.queries[start:stop])
        mine = slice(block.first[start], block.first[stop])
        self.scores[mine] = self._pairs(block.query_of[mine], block.targets[mine])

    def _count_rows(self, start: int, rows: NDArray[Any]) -> None:
        """Count all queries against a block of the table, a chunk of queries to a thread."""
        block, queries = self.block, len(self.vectors)
        counter = self.kernels.counter(self.form, self.vectors, rows, block.first, self.scores)

        def count(at: int) -> int:
            stop = min(at + CHUNK, queries)
            undecided, bad = counter(at, stop, block.better, block.equal)
            if bad:
                block.refuse_nan(at + bad[0], start + bad[1])
            self.runner.advance((stop - at) * len(rows))
            return undecided

        block.undecided += sum(self.runner.run(count, range(0, queries, CHUNK)))

    def _count_lists(self, lists: Lists) -> None:
        """Count against lists of candidates, a list to a thread."""
        groups = self.block.groups()
        shared = [(lists[number], queries) for number, queries in groups if len(queries) >= SHARED]
        single = np.concatenate(
            [np.zeros(0, np.int64), *(queries for _, queries in groups if len(queries) < SHARED)]
        )
        self.block.undecided += sum(self.runner.run(self._count_shared, shared))
        length = lists.lengths[self.block.part.group[self.block.start + single]]
        # as many queries to a thread as make lists of this length together
        cells = max(1, self.runner.memory // 16 // self.runner.threads // 64)
        cuts = np.flatnonzero(np.diff(np.cumsum(length) // cells)) + 1
        self.runner.run(self._count_single, np.split(single, cuts) if len(single) else [])

    def _count_shared(self, item: tuple[Ints, Ints]) -> int:
        """Gather the rows of a list once and count the queries that share it."""
        candidates, queries = item
        block, undecided = self.block, 0
        places = block.of(queries)
        vectors, scores = self.vectors[queries], self.scores[places.values]
        better, equal = (np.zeros(len(scores), np.int64) for _ in "be")
        step = max(1, self.runner.memory // 4 // self.runner.threads // (12 * self.table.shape[1]))
        for at in range(0, len(candidates), step):
            some = candidates[at : at + step]
            counter = self.kernels.counter(self.form, vectors, self.table[some], places.first, scores)
            more, bad = counter(0, len(queries), better, equal)
            if bad:
                block.refuse_nan(int(queries[bad[0]]), int(some[bad[1]]))
            undecided += more
            self.runner.advance(len(queries) * len(some))
        block.better[places.values], block.equal[places.values] = better, equal
        return undecided

    def _count_single(self, queries: Ints) -> None:
        """Score lists pair by pair, by definition."""
        block, lists = self.block, self.block.part.lists
        assert lists is not None
        mine = lists.select(block.part.group[block.start + queries])
        scores = self._pairs(queries[mine.owner], mine.values)
        lost = np.flatnonzero(np.isnan(scores))
        if len(lost):
            block.refuse_nan(int(queries[mine.owner[lost[0]]]), int(mine.values[lost[0]]))
        places = block.of(queries)
        goal = self.scores[places.values]
        better, equal = self.kernels.count_lists(scores, mine.first, places.first, goal)
        block.better[places.values], block.equal[places.values] = better, equal
        self.runner.advance(len(scores))

    def _subtract_known(self, start: int) -> None:
        block, stop = self.block, min(start + CHUNK, len(self.vectors))
        known, first = block.known(start, stop), block.first[start : stop + 1]
        mine = slice(first[0], first[-1])
        scores = self._pairs(known.owner + start, known.values)
        better, equal = self.kernels.count_lists(
            scores, known.first, first - first[0], self.scores[mine]
        )
        block.better[mine] -= better
        block.equal[mine] -= equal


# Any scorer ---------------------------------------------------------------------------------------

Function = Callable[[Ints, Candidates], Any]


def plain(factored: Factored, runner: Runner) -> Function:
    """Score by plain float32 what factors."""
    form, table = factored.form, _table(factored)

    def scores(queries: Ints, candidates: Candidates) -> NDArray[np.float32]:
        vectors, rows = factored.vectors(queries), table[candidates]
        if rows.ndim == 3:  # a list of candidates per query
            narrow = vectors[:, None].astype(np.float32)
            return np.asarray(_numpy.score(form, narrow, rows.astype(np.float32, copy=False)))
        result = np.empty((len(queries), len(rows)), dtype=np.float32)

        def some(start: int) -> None:
            stop = start + CHUNK
            result[start:stop] = runner.kernels.dense(form, vectors[start:stop], rows)

        runner.run(some, range(0, len(queries), CHUNK))
        return result

    return scores


def count_scores(
    function: Function, part: Part, runner: Runner, yardstick: Yardstick | None = None
) -> tuple[Ints, Ints, int]:
    """Count in scores as they are given: better, equal, and nothing undecided."""
    width = part.size if part.lists is None else int(part.lists.lengths.max(initial=1))

    def count(block: Block) -> None:
        everything = np.arange(len(block.queries))
        if part.lists is None:
            _count_together(function, block, everything, None, runner, yardstick)
            return
        alone: list[int] = []
        for number, queries in block.groups():
            if len(queries) > 1 or not _inside(block, queries, part.lists[number]):
                _count_together(function, block, queries, part.lists[number], runner, yardstick)
            else:
                alone.append(int(queries[0]))
        queries = np.array(alone, dtype=np.int64)
        lengths = part.lists.lengths[part.group[block.start + queries]]
        for length in np.unique(lengths):
            _count_apart(function, block, queries[lengths == length], part.lists, runner, yardstick)

    return _blocks(part, runner, lambda memory: min(runner.batch, max(1, memory // (16 * width))), count)


def _inside(block: Block, queries: Ints, candidates: Ints) -> bool:
    targets = block.targets[block.of(queries).values]
    return bool(np.isin(targets, candidates, assume_unique=False).all())


class Counts:
    """What is better than each target, and what ties with it, among scores that come in pieces.

    Where ties have a band, what lies above either end is counted, and ties are the difference.
    """

    def __init__(
        self, runner: Runner, first: Ints, goal: NDArray[Any], yardstick: Yardstick | None
    ) -> None:
        """Start with nothing; targets `first[i]:first[i + 1]` have the scores of row `i` to beat."""
        self.kernels, self.first, self.yardstick = runner.kernels, first, yardstick
        self.goals = yardstick.band(goal) if yardstick and yardstick.band else (goal,)
        self.counts = [
            (np.zeros(len(goal), np.int64), np.zeros(len(goal), np.int64)) for _ in self.goals
        ]

    def add(self, scores: NDArray[Any]) -> None:
        """Count a piece of the matrix."""
        for goal, (better, equal) in zip(self.goals, self.counts, strict=True):
            self.kernels.count_rows(scores, self.first, goal, better, equal)

    def without(self, scores: NDArray[Any], start: Ints) -> tuple[Ints, Ints]:
        """Give better and equal, less what known answers contributed, whose scores are in lists."""
        known = [(scores, -1)]
        if self.yardstick and self.yardstick.handicap < inf:
            known.append((scores - np.float32(self.yardstick.handicap), 1))
        for goal, (better, equal) in zip(self.goals, self.counts, strict=True):
            for values, sign in known:
                more, same = self.kernels.count_lists(values, start, self.first, goal)
                better += sign * more
                equal += sign * same
        (better, equal), (above, _) = self.counts[0], self.counts[-1]
        return above, equal + better - above


def _count_together(
    function: Function,
    block: Block,
    queries: Ints,
    candidates: Ints | None,
    runner: Runner,
    yardstick: Yardstick | None,
) -> None:
    """Count queries that share their candidates: all, or a list; in pieces where rows are very long.

    Targets outside the list are asked for beside it, and compared but not counted.
    """
    asked, places = block.queries[queries], block.of(queries)
    known = block.part.known.select(block.start + queries)
    targets, answers = block.targets[places.values], known.values
    width = total = block.part.size
    if candidates is not None:
        beside = np.setdiff1d(targets, candidates)
        width, total = len(candidates), len(candidates) + len(beside)
        outside = np.isin(targets, beside)
        targets = np.where(
            outside, width + np.searchsorted(beside, targets), np.searchsorted(candidates, targets)
        )
        answers = np.searchsorted(candidates, answers)
        candidates = np.concatenate([candidates, beside])
    step = max(1, runner.memory // (16 * len(queries)))

    def ask(start: int) -> NDArray[Any]:
        stop = min(start + step, total)
        ids = np.arange(start, stop) if candidates is None else candidates[start:stop]
        which = slice(start, stop) if candidates is None else ids
        scores = _given(function(asked, which), (len(asked), stop - start))
        _refuse_nan(scores, block, queries, ids)
        return scores

    last: tuple[int, NDArray[Any]] = (-1, np.zeros((0, 0)))
    goals, contributions = Column(len(targets)), Column(len(answers))
    for start in np.unique(targets // step * step).tolist():
        last = start, ask(start)
        goals.take(last[1], places.owner, targets, start)
    counts = Counts(runner, places.first, goals.values, yardstick)
    for start in range(0, width, step):
        scores = last[1] if last[0] == start else ask(start)
        contributions.take(scores, known.owner, answers, start)
        counts.add(scores[:, : width - start])
        runner.advance(len(asked) * min(step, width - start))
    better, equal = counts.without(contributions.values, known.first)
    block.better[places.values], block.equal[places.values] = better, equal


class Column:
    """Scores picked out of pieces of a matrix, in a type that holds what all pieces have."""

    def __init__(self, size: int) -> None:
        """Start with nothing."""
        self.values: NDArray[Any] = np.zeros(size, dtype=bool)

    def take(self, piece: NDArray[Any], row: Ints, column: Ints, start: int) -> None:
        """Pick what lies in a piece that starts at a column."""
        here = (column >= start) & (column < start + piece.shape[1])
        kind = np.result_type(self.values, piece)
        self.values = self.values.astype(kind, copy=False)
        self.values[here] = piece[row[here], column[here] - start]


def _count_apart(
    function: Function,
    block: Block,
    queries: Ints,
    lists: Lists,
    runner: Runner,
    yardstick: Yardstick | None,
) -> None:
    """Count queries that have lists of their own, all of one length."""
    asked, places = block.queries[queries], block.of(queries)
    mine = lists.select(block.part.group[block.start + queries])
    matrix = mine.values.reshape(len(queries), -1)
    known = block.part.known.select(block.start + queries)
    scores = _given(function(asked, matrix), matrix.shape)
    _refuse_nan(scores, block, queries, matrix)
    size = block.part.size
    inside = mine.owner * size + mine.values  # sorted, as each list is

    def pick(owner: Ints, values: Ints) -> NDArray[Any]:
        return np.asarray(scores.ravel()[np.searchsorted(inside, owner * size + values)])

    goal = pick(places.owner, block.targets[places.values])
    counts = Counts(runner, places.first, goal, yardstick)
    counts.add(scores)
    better, equal = counts.without(pick(known.owner, known.values), known.first)
    block.better[places.values], block.equal[places.values] = better, equal
    runner.advance(matrix.size)


def _given(scores: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Check what a scorer returned: a row per query, a column per candidate, numbers."""
    if hasattr(scores, "detach"):  # a torch tensor, without importing torch
        scores = scores.detach()
        scores = (scores.float() if str(scores.dtype) == "torch.bfloat16" else scores).cpu().numpy()
    try:
        result = np.asarray(scores)
    except ValueError:
        raise InputError("a scorer must return a matrix", got="ragged rows") from None
    if result.shape != shape:
        raise InputError(
            "a scorer returned the wrong shape",
            got=f"{result.shape}",
            allowed=f"{shape}: a row per query, a column per candidate",
        )
    if result.dtype.kind not in "iufb":
        raise InputError("a scorer must return numbers", got=f"type {result.dtype}")
    kinds = {2: np.float32, 16: np.float64}  # the kernels count in float32 and float64
    if result.dtype.kind == "f" and result.dtype.itemsize not in (4, 8):
        result = result.astype(kinds.get(result.dtype.itemsize, np.float64))
    return np.ascontiguousarray(result)


def _refuse_nan(scores: NDArray[Any], block: Block, queries: Ints, candidates: Ints) -> None:
    if scores.dtype.kind == "f" and np.isnan(scores).any():
        row, column = np.argwhere(np.isnan(scores))[0]
        ids = candidates if candidates.ndim == 1 else candidates[row]
        block.refuse_nan(int(queries[row]), int(ids[column]))
