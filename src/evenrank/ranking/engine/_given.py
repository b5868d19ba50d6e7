"""Count from scores as they are: of a function, in plain float32, or compared as some library does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints, array, complex_error, dense, host, is_tensor
from evenrank.errors import InputError
from evenrank.ranking.engine import numpy_kernels
from evenrank.ranking.engine._count import CHUNK, Block, in_blocks, table_of
from evenrank.ranking.engine.run import Runner
from evenrank.ranking.scorer import Candidates, Factored
from evenrank.ranks.lists import Lists
from evenrank.ranks.presets import Yardstick
from evenrank.ranks.task import Part

Function = Callable[[Ints, Candidates], Any]


def plain(factored: Factored, runner: Runner) -> Function:
    """Return a function that scores a model that factors in plain float32."""
    form, table = factored.form, table_of(factored)

    def scores(queries: Ints, candidates: Candidates) -> NDArray[np.float32]:
        vectors, rows = factored.vectors(queries), table[candidates]
        if rows.ndim == 3:  # a list of candidates per query
            narrow = vectors[:, None].astype(np.float32)
            return np.asarray(numpy_kernels.score(form, narrow, rows.astype(np.float32, copy=False)))
        result = np.empty((len(queries), len(rows)), dtype=np.float32)

        def some(start: int) -> None:
            stop = start + CHUNK
            result[start:stop] = runner.kernels.dense(form, vectors[start:stop], rows)

        runner.run(some, range(0, len(queries), CHUNK))
        return result

    return scores


def compared(function: Function, factored: Factored | None, yardstick: Yardstick) -> Function:
    """Return a function of what a library compares instead of scores, on the scale of its scores."""

    def keys(queries: Ints, candidates: Candidates) -> Any:
        scores = host(array("scores", function(queries, candidates), real=True))
        if factored is not None and factored.form == "l2":
            scores = -np.sqrt(-scores)  # a distance, which is squared here
        if factored is not None and factored.form != "dot":
            scores = scores + scores.dtype.type(yardstick.margin)
        return yardstick.keys(scores)

    return keys


def count_scores(
    function: Function, part: Part, runner: Runner, yardstick: Yardstick | None = None
) -> tuple[Ints, Ints, int]:
    """Count from the scores of a function: better, equal, and no undecided pairs."""
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

    return in_blocks(
        part, runner, lambda memory: min(runner.batch, max(1, memory // (16 * width))), count
    )


def _inside(block: Block, queries: Ints, candidates: Ints) -> bool:
    targets = block.targets[block.of(queries).values]
    return bool(np.isin(targets, candidates, assume_unique=False).all())


class Counts:
    """Counts of the candidates that are better than, or tied with, each target, from pieces of scores.

    Targets `first[i]:first[i + 1]` are compared with the scores of row `i`. If scores within a band
    count as tied, the candidates above either end are counted, and the ties are the difference.
    """

    def __init__(
        self, runner: Runner, first: Ints, goal: NDArray[Any], yardstick: Yardstick | None
    ) -> None:
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
        """Return better and equal without the known true answers, whose scores are in lists."""
        known = [(scores, -1)]
        if self.yardstick and self.yardstick.keeps_known:
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
    """Count queries that share their candidates (all, or a list), in pieces if rows are very long.

    Targets outside the list are scored as well, but not counted as candidates.
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
    """Scores picked out of pieces of a matrix, in a type that holds the values of all pieces."""

    def __init__(self, size: int) -> None:
        self.values: NDArray[Any] = np.zeros(size, dtype=bool)

    def take(self, piece: NDArray[Any], row: Ints, column: Ints, start: int) -> None:
        """Pick the scores that lie in a piece of the matrix, which begins at column `start`."""
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
    """Count queries that have their own lists, all of one length."""
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
    """Check that a scorer returned a matrix of numbers: a row per query, a column per candidate."""
    if is_tensor(scores):
        scores = dense("scores", scores).cpu().numpy()
    try:
        result = np.asarray(scores)
    except ValueError:
        raise InputError("a scorer must return a matrix", got="ragged rows") from None
    if result.shape == (*shape, 1):
        result = result[..., 0]
    if result.shape != shape:
        raise InputError(
            "a scorer returned the wrong shape",
            got=f"{result.shape}",
            allowed=f"{shape}: a row per query, a column per candidate",
        )
    if result.dtype.kind == "c":
        raise complex_error("scores")
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
