"""Lists of answers, as rule miners, language models and search engines give them, counted into ranks.

A list names the answers a model holds best, and says nothing of the rest. For target `t` of a query with
candidates `C` and known answers `K`, let `L` be what is listed in `C` without `K` and `t`:

    t is listed:      better, equal = how many of L score higher than t, or the same
    t is not listed:  better = #L; equal = all other candidates: t may stand anywhere among them

So the rules `optimistic` and `pessimistic` bound every metric, whatever order the rest has, and
`expected` is the mean over all of its orders. What is listed comes before what is not, even where a
list was cut between answers of one score.
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
from evenrank.errors import InputError
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Lists, Part, Task, in_place

Order = Literal["scores", "listed"]
WORDS: dict[Order, str] = {"scores": "by score, equal ones tied", "listed": "in the order listed"}
LENIENT = "lenient=True (--lenient)"


def check_order(order: str) -> None:
    """Refuse an order that is none."""
    if order not in WORDS:
        raise InputError("unknown order of lists", got=repr(order), allowed=", ".join(WORDS))


class Batch(NamedTuple):
    """Lists for some targets of a part: list `i` is for target `targets[i]`, as the part numbers them.

    `scores` are those of the listed answers, None where only their order counts; `where(i)` says in
    words where list `i` stands, and `name(answer)` what an answer is called.
    """

    targets: Ints
    lists: Lists
    scores: Floats | None
    where: Callable[[int], str]
    name: Callable[[int], str]


class Listed:
    """What lists say of a task's targets so far; a target without a list may stand anywhere."""

    def __init__(self, task: Task, *, lenient: bool = False) -> None:
        """Begin with no lists; `lenient` leaves out what cannot count, where else it is an error."""
        self.task, self.lenient = task, lenient
        self.left_out: Counter[str] = Counter()  # in words: what was left out, and how often
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
        """Flatten the lists; of an answer that stands twice in one, its best place counts."""
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
                    f"{batch.where(int(owner[i]))}: an answer stands twice in one list",
                    got=batch.name(int(values[i])),
                    do=f"mend the list, or let its best place count: {LENIENT}",
                )
            # a list that several targets share is counted once
            lists_with, repeats = (each.tolist() for each in np.unique(owner[again], return_counts=True))
            by_list = dict(zip(map(batch.where, lists_with), repeats, strict=True))
            self.left_out["repeated answers"] += sum(by_list.values())
        return _Answers(owner[~again], values[~again], scores[~again])

    def ranks(self, model: str, order: Order, *, best_of: str | None = None) -> Ranks:
        """Give the ranks, and say of what could not count that it did not.

        `best_of` names a key: of the targets that share it, only the best is kept.
        """
        better, equal, found, asked = map(
            self._whole, (self._better, self._equal, self._found, self._asked)
        )
        if not asked.any():
            raise InputError(
                "no list is for a query of the task",
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
        """Put a column of all parts into the order in which targets were asked."""
        pairs = zip(self.task.parts, columns, strict=True)
        return np.concatenate([in_place(part, column) for part, column in pairs])


class _Answers(NamedTuple):
    """Listed answers, the number of the list each is in, and their scores."""

    owner: Ints
    values: Ints
    scores: Floats


def _count(part: Part, at: Ints, answers: _Answers) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Count better and equal for some targets of a part, and say which are listed."""
    owner, values, scores = answers
    query = part.query_of[at]
    rivals = ~_among(part.known, query[owner], values, part.size)
    if part.lists is not None:
        rivals &= _among(part.lists, part.group[query][owner], values, part.size)
    own = values == part.targets[at][owner]
    rivals &= ~own

    def count(which: NDArray[np.bool_]) -> Ints:
        return np.bincount(owner[which], minlength=len(at))

    found = count(own) > 0
    goal = np.zeros(len(at))
    goal[owner[own]] = scores[own]
    listed, beside = count(rivals), goal[owner]
    higher, same = count(rivals & (scores > beside)), count(rivals & (scores == beside))
    rest = part.candidates[at] - 1 - listed
    return np.where(found, higher, listed), np.where(found, same, rest), found


def _among(lists: Lists, which: Ints, values: Ints, size: int) -> NDArray[np.bool_]:
    """Say of each value whether it is in the list named beside it; lists are sorted.

    `np.isin` would hash all lists anew for each batch: half the time of reading a file.
    """
    ordered, wanted = lists.owner * size + lists.values, which * size + values
    if not len(ordered):
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.asarray(ordered[place] == wanted)
