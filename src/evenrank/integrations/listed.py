"""Ranks from top-k lists of answers, as rule miners, language models and search engines write them.

A list names the best answers of a model and leaves out the rest. For target `t` of a query with
candidates `C` and known answers `K`, let `L` be what is listed in `C` without `K` and `t`:

    t is listed:      better, equal = how many of L score higher than t, or the same
    t is not listed:  better = #L; equal = all other candidates: t may stand anywhere among them

So the tie-breaking rules `optimistic` and `pessimistic` bound every metric, whatever the order of the
rest, and `expected` is the mean over all orders. Listed answers come before all others, even where a
list was cut between answers of the same score.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Ints, nan_error
from evenrank._internal.checks import check_choice, check_type
from evenrank.errors import InputError, Option
from evenrank.ranks.lists import Lists
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Part, Task, in_place

Order = Literal["scores", "listed"]
WORDS: dict[Order, str] = {"scores": "by score, equal ones tied", "listed": "in the order listed"}
LENIENT = Option("lenient", True)


def check_order(order: str) -> None:
    """Check the order of lists."""
    check_choice("order of lists", order, WORDS)


class Batch(NamedTuple):
    """Lists for some targets of a part: list `i` is for target `targets[i]` of the part.

    `scores` are those of the listed answers, or None if only their order counts; `where(i)` describes
    the place of list `i`, and `name(answer)` is the name of an answer.
    """

    targets: Ints
    lists: Lists
    scores: Floats | None
    where: Callable[[int], str]
    name: Callable[[int], str]


class Listed:
    """Counts lists for the targets of a task; targets without a list may rank anywhere."""

    def __init__(self, task: Task, *, lenient: bool = False) -> None:
        """Start without lists; `lenient` leaves invalid answers out instead of raising an error."""
        check_type(task, Task, "task must be a Task", do="graph.task(...)")
        self.task, self.lenient = task, lenient
        self.left_out: Counter[str] = Counter()  # description of what was left out: how often
        self._better = [np.zeros(len(part.targets), np.int64) for part in task.parts]
        self._equal = [part.candidates - 1 for part in task.parts]
        self._found = [np.zeros(len(part.targets), bool) for part in task.parts]
        self._asked = [np.zeros(len(part.targets), bool) for part in task.parts]

    def add(self, number: int, batch: Batch) -> None:
        """Count the lists of some targets of a part."""
        part, at = self.task.parts[number], batch.targets
        answers = self._distinct(batch)
        better, equal, found = _count(part, at, answers)
        self._better[number][at], self._equal[number][at] = better, equal
        self._found[number][at], self._asked[number][at] = found, True

    def _distinct(self, batch: Batch) -> _Answers:
        """Flatten the lists; of an answer that is in a list twice, the better place counts."""
        lists = batch.lists
        owner, values = lists.owner, lists.values
        scores = batch.scores
        if scores is None:  # the earlier, the better
            scores = (lists.first[owner] - np.arange(len(values))).astype(float)
        elif np.isnan(scores).any():
            i = int(np.flatnonzero(np.isnan(scores))[0])
            where = f"{batch.where(int(owner[i]))}, candidate {batch.name(int(values[i]))}"
            raise nan_error(where, do="check the list")
        order = np.lexsort((-scores, values, owner))
        again = np.zeros(len(values), bool)
        again[order[1:]] = (np.diff(values[order]) == 0) & (np.diff(owner[order]) == 0)
        if again.any():
            if not self.lenient:
                i = int(np.flatnonzero(again)[0])
                raise InputError(
                    f"{batch.where(int(owner[i]))}: an answer is listed twice",
                    got=batch.name(int(values[i])),
                    do=["correct the list, or use the better place with ", LENIENT],
                )
            # a list that several targets share is counted once
            lists_with, repeats = (each.tolist() for each in np.unique(owner[again], return_counts=True))
            by_list = dict(zip(map(batch.where, lists_with), repeats, strict=True))
            self.left_out["repeated answers"] += sum(by_list.values())
        return _Answers(owner[~again], values[~again], scores[~again])

    def ranks(self, model: str, order: Order, *, best_of: str | None = None) -> Ranks:
        """Return the ranks, and warn about lists and answers that were left out.

        `best_of` is the name of a key: of the targets that share it, only the best is kept.
        """
        better, equal, found, asked = map(
            self._whole, (self._better, self._equal, self._found, self._asked)
        )
        if not asked.any():
            raise InputError(
                "none of the lists is for a query of the task",
                got=", ".join(f"{n:,} {what}" for what, n in self.left_out.items()) or "no lists",
                do="check the data set, the split and the side",
            )
        notes = [f"{n:,} {what}: left out" for what, n in self.left_out.items()]
        if not asked.all():
            without = f"{(~asked).sum():,} of {len(asked):,} targets have no list"
            notes.append(f"{without}: they may rank anywhere")
        for note in notes:
            warnings.warn(note, stacklevel=3)
        ranks = Ranks(better, equal, self.task.candidates, keys=self.task.keys)
        if best_of is not None:
            rows = np.lexsort((equal, better, ranks.units(best_of)))
            group = ranks.units(best_of)[rows]
            rows = np.sort(rows[np.diff(group, prepend=-1) > 0])
            ranks, found = ranks[rows], found[rows]
        rest = f"{(~found).mean():.1%} of targets not listed, anywhere among the rest"
        scores = f"lists of answers, {WORDS[order]}; {rest}"
        return ranks.with_protocol(replace(self.task.protocol, model=model, scores=scores))

    def _whole(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Concatenate a column of all parts in the order of the task's targets."""
        pairs = zip(self.task.parts, columns, strict=True)
        return np.concatenate([in_place(part, column) for part, column in pairs])


class _Answers(NamedTuple):
    """Listed answers, the number of the list of each, and their scores."""

    owner: Ints
    values: Ints
    scores: Floats


def _count(part: Part, at: Ints, answers: _Answers) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Count better and equal candidates for some targets of a part; also return which are listed."""
    owner, values, scores = answers
    query = part.query_of[at]
    rivals = ~part.known.contains(query[owner], values)
    if part.lists is not None:
        rivals &= part.lists.contains(part.group[query][owner], values)
    own = values == part.targets[at][owner]
    rivals &= ~own

    def count(which: NDArray[np.bool_]) -> Ints:
        return np.bincount(owner[which], minlength=len(at))

    found = count(own) > 0
    target_score = np.zeros(len(at))
    target_score[owner[own]] = scores[own]
    listed, beside = count(rivals), target_score[owner]
    higher, same = count(rivals & (scores > beside)), count(rivals & (scores == beside))
    rest = part.candidates[at] - 1 - listed
    return np.where(found, higher, listed), np.where(found, same, rest), found
