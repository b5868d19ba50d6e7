"""Random scorers, drawn: a second way to compute null distributions of tasks with few candidates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.metrics.chance import evaluate_rows
from evenrank.metrics.metric import Metric, Statistic
from evenrank.ranks.lists import Lists, offsets, repeats
from evenrank.ranks.task import HOLE, Part, Task

MOST_PAIRS = 50_000_000  # of targets and candidates
BATCH = 4_000_000  # comparisons at a time


def values_of(
    task: Task, metric: Metric | Statistic, samples: int, seed: int, weights: Floats | None = None
) -> Floats:
    """Evaluate a metric on the ranks of random scorers.

    Parameters
    ----------
    task : Task
        The task.
    metric : Metric or Statistic
        The metric.
    samples, seed : int
        Number of scorers, and seed of their scores.
    weights : ndarray of float, optional
        Weights of the targets.

    Returns
    -------
    ndarray of float
        The value for each scorer.
    """
    weight = np.ones(len(task)) if weights is None else weights
    equal = bool((weight == weight[0]).all())
    share = np.full(len(task), 1.0 / len(task)) if equal else weight / weight.sum()
    return np.concatenate(
        [evaluate_rows(metric, ranks, share) for ranks in ranks_of(task, samples, seed)]
    )


def ranks_of(task: Task, samples: int, seed: int) -> Iterator[Floats]:
    """Draw random scorers, and rank the targets by each.

    Parameters
    ----------
    task : Task
        The task.
    samples, seed : int
        Number of scorers, and seed of their scores.

    Yields
    ------
    ndarray of float
        A row of ranks per scorer, in the order of the result of the task.
    """
    pairs = int((task.candidates - 1).sum())
    if pairs > MOST_PAIRS:
        raise InputError(
            "the task is too large to simulate",
            got=f"{pairs:,} pairs of targets and candidates",
            allowed=f"up to {MOST_PAIRS:,}",
        )
    found = [_compared(part) for part in task.parts]
    place = np.concatenate(
        [part.place + start for part, start in zip(task.parts, _starts(task), strict=True)]
    )
    # every candidate of every query is one entry in the array of all triples: number the distinct ones
    target = np.concatenate([own for own, _, _ in found])
    other = np.concatenate([others for _, others, _ in found])
    lengths = np.concatenate([length for _, _, length in found])
    every, _ = columns.encode([*np.concatenate([target, other]).T])
    _, number = np.unique(every, return_inverse=True)
    own, against = number[: len(target)], number[len(target) :]
    cells, first = int(number.max()) + 1, offsets(lengths)
    rng = np.random.default_rng(seed)
    step = max(1, BATCH // max(len(against), cells))
    some = np.flatnonzero(lengths)
    for start in range(0, samples, step):
        scores = rng.random((min(step, samples - start), cells))
        ranks = np.ones((len(scores), len(target)))
        if len(some):
            better = scores[:, against] > np.repeat(scores[:, own], lengths, axis=1)
            counts = np.add.reduceat(better, first[:-1][some], axis=1, dtype=np.int64)
            ranks[:, place[some]] += counts
        yield ranks


def _starts(task: Task) -> Ints:
    return offsets([len(part.targets) for part in task.parts])[:-1]


def _compared(part: Part) -> tuple[Ints, Ints, Ints]:
    """Return the triples of the targets and of all they are compared with, and how many these are."""
    every = np.arange(len(part.queries))
    if part.lists is not None and repeats(part.lists):
        raise InputError(
            "candidates that occur several times cannot be simulated",
            do="list every candidate of a query once",
        )
    if part.lists is None:
        lengths = np.full(len(every), part.size)
        lists = Lists(offsets(lengths), np.tile(np.arange(part.size), len(every)))
    else:
        lists = part.lists.select(part.group)
    free = ~part.known.contains(lists.owner, lists.values)
    kept = Lists.grouped(lists.owner[free], lists.values[free], len(every))
    mine = kept.select(part.query_of)
    others = mine.values != part.targets[mine.owner]
    owner, values = mine.owner[others], mine.values[others]
    own = _entries(part, part.query_of, part.targets)
    return own, _entries(part, part.query_of[owner], values), np.bincount(owner, minlength=len(own))


def _entries(part: Part, query: Ints, answer: Ints) -> Ints:
    """Fill answers into queries; where these name no unknown part, append side and answer."""
    rows = part.queries[query]
    holes = np.flatnonzero(part.queries[0] == HOLE)
    if len(holes) == 1:
        rows[:, holes[0]] = answer
    elif len(holes) == 2:
        rows[:, holes[0]], rows[:, holes[1]] = np.divmod(answer, round(part.size**0.5))
    else:
        rows = np.concatenate([rows, answer[:, None]], axis=1)
    return rows
