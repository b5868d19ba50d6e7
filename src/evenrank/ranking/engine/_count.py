"""Count one part of a task by the definition of the score, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Ints, nan_error
from evenrank.ranking.engine.run import Runner, out_of_memory
from evenrank.ranking.scorer import Factored
from evenrank.ranks.lists import Lists
from evenrank.ranks.task import HOLE, Part

# queries whose vectors are computed together: always the same ones, whatever the memory, in case the
# arithmetic of a model depends on the batch; a multiple of CHUNK
BATCH = 960
CHUNK = 240  # queries a thread takes at a time: whole panels of every kernel
SHARED = 8  # queries from which gathering the rows of a shared list pays


def batch(length: int) -> int:
    """Return the number of queries whose vectors of some length are computed together."""
    return max(1, min(BATCH, BATCH * 4096 // length) // CHUNK) * CHUNK


class Block:
    """Queries `start` to `stop` of a part and their targets, numbered from 0, with their counts."""

    def __init__(self, part: Part, start: int, stop: int) -> None:
        self.part, self.start, self.stop = part, start, stop
        self.queries = part.queries[start:stop]
        self.where = slice(int(part.first[start]), int(part.first[stop]))
        self.first = part.first[start : stop + 1] - self.where.start
        self.targets = part.targets[self.where]
        self.query_of = np.repeat(np.arange(len(self.queries)), np.diff(self.first))
        self.better, self.equal = (np.zeros(len(self.targets), np.int64) for _ in "be")
        self.undecided = 0

    def known(self, start: int, stop: int) -> Lists:
        """Return the known true answers of some queries."""
        first = self.part.known.first[self.start + start : self.start + stop + 1]
        return Lists(first - first[0], self.part.known.values[first[0] : first[-1]])

    def of(self, queries: Ints) -> Lists:
        """Return the positions of the targets of some queries."""
        return Lists(self.first, np.arange(len(self.targets))).select(queries)

    def groups(self) -> list[tuple[int, Ints]]:
        """Return each list of candidates that these queries have, and its queries."""
        group = self.part.group[self.start : self.stop]
        order = np.argsort(group, kind="stable")
        used, begin = np.unique(group[order], return_index=True)
        return list(zip(used.tolist(), np.split(order, begin[1:]), strict=True))

    def refuse_nan(self, query: int, candidate: int) -> None:
        """Raise an error that names a score that is NaN."""
        refuse_nan(self.part, self.start + query, candidate)


def refuse_nan(part: Part, query: int, candidate: int) -> NoReturn:
    """Raise an error that names a score that is NaN."""
    ids = ", ".join("?" if entry == HOLE else str(entry) for entry in part.queries[query].tolist())
    raise nan_error(f"query ({ids}), candidate {part.begin + candidate}")


def in_blocks(
    part: Part, runner: Runner, rows: Callable[[int], int], count: Callable[[Block], None]
) -> tuple[Ints, Ints, int]:
    """Count block by block, `rows(memory)` queries each; a block that runs out of memory is halved."""
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
    # a target that is not among the known true answers was counted as equal to itself
    return better, equal - part.own, undecided


def count_factored(factored: Factored, part: Part, runner: Runner) -> tuple[Ints, Ints, int]:
    """Count by the definition of the score: better, equal, and the number of undecided pairs."""
    table = table_of(factored)

    def count(block: Block) -> None:
        _FactoredBlock(factored, table, block, runner).count()

    return in_blocks(part, runner, _fitting(table.shape[1]), count)


def goals(factored: Factored, part: Part, runner: Runner) -> Floats:
    """Compute the target scores of a part by definition."""
    table, result = table_of(factored), np.empty(len(part.targets))

    def score(block: Block) -> None:
        asked = _FactoredBlock(factored, table, block, runner)
        asked.prepare()
        result[block.where] = asked.scores

    in_blocks(part, runner, _fitting(table.shape[1]), score)
    return result


def _fitting(length: int) -> Callable[[int], int]:
    """Return a function from memory to the number of queries, in whole batches, that fit it."""
    # float64 and packed vectors take 12 bytes a number, computing them about as much again
    unit = 24 * length * batch(length)
    return lambda memory: max(1, memory // 2 // unit) * batch(length)


def table_of(factored: Factored) -> NDArray[Any]:
    """Convert the table for the kernels; float32 holds every value of half precision."""
    kind = np.float64 if factored.table.dtype == np.float64 else np.float32
    return np.ascontiguousarray(factored.table, dtype=kind)


class _FactoredBlock:
    """A block of queries with their vectors and exact target scores."""

    def __init__(self, factored: Factored, table: NDArray[Any], block: Block, runner: Runner) -> None:
        self.factored, self.form, self.table = factored, factored.form, table
        self.block, self.runner, self.kernels = block, runner, runner.kernels
        self.vectors = np.empty((len(block.queries), table.shape[1]))
        self.scores = np.empty(len(block.targets))

    def count(self) -> None:
        block, queries = self.block, len(self.block.queries)
        self.prepare()
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

    def prepare(self) -> None:
        """Compute the query vectors, and the target scores by definition unless the part has them."""
        self.runner.run(self._prepare, range(0, len(self.vectors), batch(self.table.shape[1])))

    def _prepare(self, start: int) -> None:
        block, stop = self.block, min(start + batch(self.table.shape[1]), len(self.vectors))
        self.vectors[start:stop] = self.factored.vectors(block.queries[start:stop])
        mine = slice(block.first[start], block.first[stop])
        self.scores[mine] = (
            self._pairs(block.query_of[mine], block.targets[mine])
            if block.part.goal is None
            else block.part.goal[block.where][mine]
        )

    def _count_rows(self, start: int, rows: NDArray[Any]) -> None:
        """Count all queries against a block of the table, a chunk of queries per thread."""
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
        """Count against lists of candidates, a list per thread."""
        groups = self.block.groups()
        shared = [(lists[number], queries) for number, queries in groups if len(queries) >= SHARED]
        single = np.concatenate(
            [np.zeros(0, np.int64), *(queries for _, queries in groups if len(queries) < SHARED)]
        )
        self.block.undecided += sum(self.runner.run(self._count_shared, shared))
        length = lists.lengths[self.block.part.group[self.block.start + single]]
        # so many queries per thread that their lists have about this many entries
        cells = max(1, self.runner.memory // 16 // self.runner.threads // 64)
        cuts = np.flatnonzero(np.diff(np.cumsum(length) // cells)) + 1
        self.runner.run(self._count_single, np.split(single, cuts) if len(single) else [])

    def _count_shared(self, item: tuple[Ints, Ints]) -> int:
        """Gather the rows of a list once, and count the queries that share it."""
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
