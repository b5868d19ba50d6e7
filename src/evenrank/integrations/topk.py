"""Top-k lists of rule miners, language models and leaderboards: ranks, with honest bounds for the rest.

    ranks(task, lists)        lists of ids, one for each target of a task
    anyburl(path, graph)      AnyBURL's and PyClause's blocks of text
    jsonl(path, graph)        a JSON object per line, as a script around a language model writes them
    wikikg90m(predictions)    what the evaluators of OGB-LSC take

How they are counted, and what they leave open, is told in `evenrank.integrations.listed`. Known answers
that a list holds are left out, as the task says.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints, host
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.graphs.graph import PARTS, Graph
from evenrank.integrations._blocks import MOST, Block, Gather, Vocabulary
from evenrank.integrations._lines import lines
from evenrank.integrations.listed import LENIENT, Batch, Listed, Order, check_order
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import HOLE, Lists, Part, Task, offsets

TAILS = "h,r->t"
PLACES = 1001  # the candidates of each query of WikiKG90M, version 1
ANYBURL = {"Heads": "head", "Tails": "tail"}
RECORD = '{"head": "a", "relation": "r", "tail": null, "answers": ["b", "c"], "scores": [0.9, 0.4]}'


# Ids ----------------------------------------------------------------------------------------------


def ranks(
    task: Task,
    lists: Sequence[ArrayLike] | NDArray[Any],
    scores: Sequence[ArrayLike] | NDArray[Any] | None = None,
    *,
    lenient: bool = False,
    model: str = "lists",
) -> Ranks:
    """Rank a task's targets by lists of answers, one for each target in the order of `task.keys`.

    Answers are ids, best first; or with scores, where higher is better and equal ones tie. In a matrix,
    -1 fills what a shorter list leaves empty. An answer that stands twice in a list, or that is no
    candidate, is an error; `lenient` lets the best place count, and leaves the unknown out.

    >>> task = Task.of([[0], [1]], targets=[3, 4], size=10, known=([[0]], [7]))
    >>> result = ranks(task, [[7, 5, 3], [8, 9]])
    >>> result.better.tolist(), result.equal.tolist(), result.candidates.tolist()
    ([1, 2], [0, 7], [9, 10])
    >>> print(result.protocol.scores)
    lists of answers, in the order listed; 50.0% of targets not listed, anywhere among the rest
    """
    return _ids(task, lists, scores, lenient).ranks(model, "listed" if scores is None else "scores")


def _ids(task: Task, lists: Any, scores: Any, lenient: bool) -> Listed:
    """Count lists of ids."""
    answers = _flat("answers", lists)
    answers = Lists(answers.first, columns.integers("answers", answers.values, HOLE))
    given = answers if scores is None else _flat("scores", scores)
    if len(answers) != len(task) or not np.array_equal(given.first, answers.first):
        raise InputError(
            "there must be a list for each target, and a score for each answer",
            got=f"{len(answers):,} lists of {len(answers.values):,} answers for {len(task):,} targets"
            + f", with {len(given.values):,} scores" * (scores is not None),
        )
    listed = Listed(task, lenient=lenient)
    start = 0
    for number, part in enumerate(task.parts):
        place = start + part.place
        pieces = -(-len(answers.values) // MOST) or 1
        for at in np.array_split(np.arange(len(place)), min(pieces, len(place))):
            values = None if scores is None else given.select(place[at]).values.astype(float)
            listed.add(number, _batch(listed, part, at, place[at], answers, values))
        start += len(place)
    return listed


def _flat(name: str, rows: Sequence[ArrayLike] | NDArray[Any]) -> Lists:
    """Join lists, or the rows of a matrix, of any numbers."""
    if hasattr(rows, "ndim") and rows.ndim == 2:
        matrix = np.asarray(host(rows))
        return Lists(offsets(np.full(len(matrix), matrix.shape[1])), matrix.ravel())
    arrays = [np.asarray(row) for row in rows]
    if any(array.ndim != 1 or (array.size and array.dtype.kind not in "iuf") for array in arrays):
        raise InputError(f"{name} must be lists of numbers, or a matrix with a row per target")
    filled = [array for array in arrays if array.size]
    flat = np.concatenate(filled) if filled else np.zeros(0, np.int64)
    return Lists(offsets([len(array) for array in arrays]), flat)


def _batch(
    listed: Listed, part: Part, at: Ints, place: Ints, answers: Lists, scores: NDArray[Any] | None
) -> Batch:
    """Take the lists of some targets, without what fills them up and, leniently, without the unknown."""
    mine = answers.select(place)
    unknown = mine.values >= part.size
    if unknown.any():
        if not listed.lenient:
            i = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"list {place[mine.owner[i]]}: an answer that is no candidate",
                got=mine.values[i],
                allowed=f"0 to {part.size - 1:,}",
                do=f"mend the list, or leave such answers out: {LENIENT}",
            )
        listed.left_out["unknown answers"] += int(unknown.sum())
    kept = ~unknown & (mine.values != HOLE)
    lengths = np.bincount(mine.owner[kept], minlength=len(at))
    return Batch(
        at,
        Lists(offsets(lengths), mine.values[kept]),
        None if scores is None else scores[kept],
        where=lambda i: f"list {place[i]}",
        name=str,
    )


def wikikg90m(
    predictions: Mapping[str, Mapping[str, Any]],
    *,
    candidates: int | None = None,
    lenient: bool = False,
    model: str = "lists",
) -> Ranks:
    """Take the dictionary that the evaluators of WikiKG90M and WikiKG90Mv2 take (in `ogb.lsc`).

    Its `h,r->t` has `t_pred_top10`, a row of answers per query, best first, and the right ones: `t` (v2,
    entities) or `t_correct_index` (v1, places among 1,001 candidates). Nothing is filtered, as nothing
    is there. Their MRR takes what is not listed for 0; this one says what it may be.

    >>> given = {"h,r->t": {"t_pred_top10": [[4, 2, 9], [1, 2, 3]], "t": [9, 7]}}
    >>> found = wikikg90m(given, candidates=1_000)
    >>> found.better.tolist(), found.equal.tolist()
    ([2, 3], [0, 996])
    """
    # read: OGB 1.3.6, ogb/lsc/wikikg90m.py and wikikg90mv2.py
    given = predictions.get(TAILS, {})
    right = next((name for name in ("t_correct_index", "t") if name in given), None)
    if right is None or "t_pred_top10" not in given:
        raise InputError(
            "no predictions, or no answers to them",
            got=", ".join(given or predictions) or "nothing",
            allowed=f"{TAILS!r}: t_pred_top10, and t (v2) or t_correct_index (v1)",
        )
    target = np.atleast_1d(host(given[right]))
    rows = np.arange(len(target))
    every = registry.find("wikikg90m-v2").entities if right == "t" else PLACES
    task = Task.of(
        rows,
        target,
        size=every if candidates is None else candidates,
        side="tail",
        keys={"query": rows, "answer": target, "side": "tail"},
        protocol={"data": "WikiKG90Mv2" if right == "t" else "WikiKG90M", "filter": "none"},
    )
    top = np.asarray(host(given["t_pred_top10"]))
    return _ids(task, top, None, lenient).ranks(model, "listed")


# Names --------------------------------------------------------------------------------------------


def anyburl(
    path: str | os.PathLike[str],
    graph: Graph,
    task: Task | None = None,
    *,
    order: Order = "scores",
    lenient: bool = False,
    model: str = "AnyBURL",
) -> Ranks:
    """Read predictions of AnyBURL or PyClause: a triple, then a line `Heads: ` and a line `Tails: `.

    Each of these holds names and confidences in turn, with tabs between them. The triple is separated
    by tabs or, as AnyBURL writes it, by spaces; names that have spaces themselves are found all the
    same. Equal confidences tie; `order="listed"` trusts the order of the file instead, in which AnyBURL
    has compared the next best rules, too. `task` is what is asked of the graph: `graph.task("test")`,
    unless another is given.
    """
    # read: symbolic-kg/PyClause, clause/eval/evaluation.py, clause/config-default.yaml
    names = Vocabulary(graph)
    return _named(_anyburl(path, names), names, graph, task, order, lenient).ranks(model, order)


def jsonl(
    path: str | os.PathLike[str],
    graph: Graph,
    task: Task | None = None,
    *,
    order: Order = "scores",
    lenient: bool = False,
    model: str | None = None,
) -> Ranks:
    """Read a JSON object per line: a triple with a null for what is asked, and a list of answers.

        {"head": "a", "relation": "r", "tail": null, "answers": ["b", "c"], "scores": [0.9, 0.4]}

    answers all targets of a query; with `"tail": "b", "side": "tail"`, this target alone. Scores may be
    missing: then the order counts. Any side of the task will do, relations too.
    """
    names = Vocabulary(graph)
    listed = _named(_jsonl(path), names, graph, task, order, lenient)
    return listed.ranks(model or Path(path).name, order)


def _named(
    blocks: Iterable[Block],
    names: Vocabulary,
    graph: Graph,
    task: Task | None,
    order: Order,
    lenient: bool,
) -> Listed:
    """Count lists of names, as they are read."""
    check_order(order)
    task = graph.task("test") if task is None else task
    if task.vocabulary != graph.vocabulary:
        raise InputError("the task is not of this graph", do="make it with graph.task(...)")
    listed = Listed(task, lenient=lenient)
    gather = Gather(names, listed)
    for block in blocks:
        gather.add(block if order == "scores" else block._replace(scores=None))
    gather.flush()
    return listed


def _anyburl(path: str | os.PathLike[str], names: Vocabulary) -> Iterator[Block]:
    content = lines(path)
    for where, line in content:
        triple = _triple(where, line, names)
        for _ in ANYBURL:
            where, line = next(content, (f"{where}, the last line", ""))
            word, _, rest = line.partition(":")
            if word not in ANYBURL:
                raise InputError(
                    f"{where}: not a line of predictions",
                    got=repr(line[:60]),
                    allowed="a triple, 'Heads: ...', 'Tails: ...', each on its line",
                )
            fields = rest.strip(" \t").split("\t") if rest.strip() else []
            yield Block(where, ANYBURL[word], triple, fields[::2], _confidences(where, fields))


def _confidences(where: str, fields: Sequence[str]) -> list[float]:
    """Read every second field."""
    try:
        confidences = [float(field) for field in fields[1::2]]
    except ValueError:
        confidences = []
    if 2 * len(confidences) != len(fields):
        raise InputError(f"{where}: names and confidences must alternate, with tabs between them")
    return confidences


def _triple(where: str, line: str, names: Vocabulary) -> Sequence[str]:
    """Cut a line into head, relation and tail, at tabs or spaces, so that the graph knows all three."""
    words = line.split("\t") if "\t" in line else line.split(" ")
    if len(words) == 3:
        return words
    separator = "\t" if "\t" in line else " "
    cuts = (
        (separator.join(words[:i]), separator.join(words[i:j]), separator.join(words[j:]))
        for i, j in combinations(range(1, len(words)), 2)
    )
    found = [cut for cut in cuts if None not in names.triple(cut)]
    if len(found) != 1:
        raise InputError(
            f"{where}: not a triple" if not found else f"{where}: more than one triple could be meant",
            got=repr(line[:60]),
            do="separate head, relation and tail by tabs",
        )
    return found[0]


def _jsonl(path: str | os.PathLike[str]) -> Iterator[Block]:
    for where, line in lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON", got=str(error)) from None
        yield _block(where, record)


def _block(where: str, record: Any) -> Block:
    """Check an object and take what it says."""
    if not isinstance(record, dict) or not isinstance(record.get("answers"), list):
        raise InputError(f"{where}: not a list of answers", got=repr(record)[:60], allowed=RECORD)
    triple = [None if record.get(part) is None else str(record[part]) for part in PARTS]
    holes = [part for part, name in zip(PARTS, triple, strict=True) if name is None]
    side = record.get("side", holes[0] if len(holes) == 1 else None)
    if side not in PARTS or [hole for hole in holes if hole != side]:
        raise InputError(
            f"{where}: it is not clear what is asked for",
            got=f"side {side}, without {' and '.join(holes) or 'a null'}",
            do="leave out (null) what is asked for, or name the side",
        )
    answers, scores = list(map(str, record["answers"])), record.get("scores")
    if scores is not None and (
        not isinstance(scores, list)
        or len(scores) != len(answers)
        or not all(isinstance(score, float) or _is_whole(score) for score in scores)
    ):
        raise InputError(f"{where}: scores must be numbers, one for each answer", got=repr(scores)[:60])
    return Block(where, side, triple, answers, scores)


def _is_whole(score: Any) -> bool:
    """Say whether a score is a whole number that a float can stand for."""
    return isinstance(score, int) and abs(score) < sys.float_info.max
