"""Ranks from top-k lists of rule miners, language models and leaderboards, with bounds for the rest.

    ranks(task, lists)        lists of ids, one for each target of a task
    anyburl(path, graph)      AnyBURL's and PyClause's blocks of text
    jsonl(path, graph)        a JSON object per line, as a script around a language model writes them
    wikikg90m(predictions)    the dictionary of OGB-LSC's evaluators

`evenrank.integrations.listed` defines the ranks and their bounds. Known true answers in a list are left
out as the task is filtered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints, host
from evenrank._internal.checks import check_type
from evenrank._internal.files import as_path
from evenrank._internal.reading import parse_json
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.graphs.graph import PARTS, Graph
from evenrank.integrations._blocks import MOST, Block, Gather, Vocabulary
from evenrank.integrations._lines import lines
from evenrank.integrations.listed import LENIENT, Batch, Listed, Order, check_order
from evenrank.ranks.lists import Lists, offsets
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import HOLE, Part, Task

__all__ = ["anyburl", "jsonl", "ranks", "wikikg90m"]

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
    """Rank the targets of a task by lists of answers.

    Parameters
    ----------
    task : Task
        The targets.
    lists : sequence of array-like of int
        Ids of answers, best first: a list for each target, in the order of ``task.keys``. In a matrix,
        -1 pads shorter lists.
    scores : sequence of array-like, optional
        Scores of the answers; higher is better, equal scores tie. Without them the order counts.
    lenient : bool, default False
        Leave out answers that are not candidates, and use the better place of an answer that is listed
        twice, instead of raising an error.
    model : str
        Name of the model, for the protocol.

    Returns
    -------
    Ranks
        Optimistic and pessimistic ranks bound what is not listed.

    Raises
    ------
    InputError
        If an answer is listed twice or is not a candidate, or lists and targets differ in number.

    Examples
    --------
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
    check_type(task, Task, "task must be a Task", do="graph.task(...)")
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
    """Concatenate lists, or the rows of a matrix."""
    if getattr(rows, "ndim", 0) == 2:
        matrix = np.asarray(host(rows))
        if matrix.dtype.kind not in "iuf":
            raise InputError(f"{name} must be a matrix of numbers", got=f"type {matrix.dtype}")
        return Lists(offsets(np.full(len(matrix), matrix.shape[1])), matrix.ravel())
    arrays = [columns.as_array(name, row) for row in (rows if isinstance(rows, Iterable) else [rows])]
    if any(array.ndim != 1 or (array.size and array.dtype.kind not in "iuf") for array in arrays):
        raise InputError(f"{name} must be lists of numbers, or a matrix with a row per target")
    filled = [array for array in arrays if array.size]
    flat = np.concatenate(filled) if filled else np.zeros(0, np.int64)
    return Lists(offsets([len(array) for array in arrays]), flat)


def _batch(
    listed: Listed, part: Part, at: Ints, place: Ints, answers: Lists, scores: NDArray[Any] | None
) -> Batch:
    """Return the lists of some targets without padding and, if lenient, without unknown answers."""
    mine = answers.select(place)
    unknown = mine.values >= part.size
    if unknown.any():
        if not listed.lenient:
            i = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"list {place[mine.owner[i]]}: an answer is not a candidate",
                got=mine.values[i],
                allowed=f"0 to {part.size - 1:,}",
                do=["correct the list, or leave such answers out with ", LENIENT],
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
    """Rank the predictions for the evaluators of WikiKG90M and WikiKG90Mv2 in `ogb.lsc`.

    Ranks are not filtered, as in OGB. Its MRR counts targets that are not listed as 0; here they have
    an optimistic and a pessimistic rank.

    Parameters
    ----------
    predictions : mapping
        The evaluator's dictionary. Its ``"h,r->t"`` has ``t_pred_top10``, a row of answers per query,
        best first, and the targets: ``t`` (v2, entities) or ``t_correct_index`` (v1, places among 1,001
        candidates).
    candidates : int, optional
        Number of candidates; by default that of the data set.
    lenient : bool, default False
        Leave out answers that are not candidates, and use the better place of an answer that is listed
        twice, instead of raising an error.
    model : str
        Name of the model, for the protocol.

    Returns
    -------
    Ranks
        Optimistic and pessimistic ranks bound what is not listed.

    Raises
    ------
    InputError
        If the dictionary holds no predictions or no targets.

    Examples
    --------
    >>> given = {"h,r->t": {"t_pred_top10": [[4, 2, 9], [1, 2, 3]], "t": [9, 7]}}
    >>> found = wikikg90m(given, candidates=1_000)
    >>> found.better.tolist(), found.equal.tolist()
    ([2, 3], [0, 996])
    """
    # read: OGB 1.3.6, ogb/lsc/wikikg90m.py and wikikg90mv2.py
    given = columns.mapping("predictions", columns.mapping("predictions", predictions).get(TAILS))
    right = next((name for name in ("t_correct_index", "t") if name in given), None)
    if right is None or "t_pred_top10" not in given:
        raise InputError(
            "no predictions, or no targets",
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
    """Read predictions of AnyBURL or PyClause.

    The file has three lines per triple: the triple, then ``Heads: ...`` and ``Tails: ...`` with
    alternating names and confidences, separated by tabs. The triple is separated by tabs or, as AnyBURL
    writes it, by spaces; names may contain spaces.

    Parameters
    ----------
    path : path-like
        The file, gzipped or not.
    graph : Graph
        The graph, whose names the file uses.
    task : Task, optional
        The targets; by default ``graph.task("test")``.
    order : {"scores", "listed"}, default "scores"
        Rank by score, where equal scores tie, or by the order in the file.
        AnyBURL's order also compares the next best rules of answers with equal confidence.
    lenient : bool, default False
        Leave out answers that are not candidates, and use the better place of an answer that is listed
        twice, instead of raising an error.
    model : str
        Name of the model, for the protocol.

    Returns
    -------
    Ranks
        Optimistic and pessimistic ranks bound what is not listed.

    Raises
    ------
    InputError
        If a line cannot be read, or an answer is not in the graph.
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
    """Read a list of answers from each line of a JSON Lines file.

    Each line is a triple with null for the side that is asked for, and its answers::

        {"head": "a", "relation": "r", "tail": null, "answers": ["b", "c"], "scores": [0.9, 0.4]}

    Such a list is for all targets of the query; with ``"tail": "b", "side": "tail"`` it is for this
    target alone. Without scores the order counts. Heads, relations and tails can be asked for.

    Parameters
    ----------
    path : path-like
        The file, gzipped or not.
    graph : Graph
        The graph, whose names the file uses.
    task : Task, optional
        The targets; by default ``graph.task("test")``.
    order : {"scores", "listed"}, default "scores"
        Rank by score, where equal scores tie, or by the order in the file.
    lenient : bool, default False
        Leave out answers that are not candidates, and use the better place of an answer that is listed
        twice, instead of raising an error.
    model : str, optional
        Name of the model, for the protocol; by default the name of the file.

    Returns
    -------
    Ranks
        Optimistic and pessimistic ranks bound what is not listed.

    Raises
    ------
    InputError
        If a line cannot be read, or an answer is not in the graph.
    """
    name = model or as_path(path).name
    return _named(_jsonl(path), Vocabulary(graph), graph, task, order, lenient).ranks(name, order)


def _named(
    blocks: Iterable[Block],
    names: Vocabulary,
    graph: Graph,
    task: Task | None,
    order: Order,
    lenient: bool,
) -> Listed:
    """Count lists of names while they are read."""
    check_order(order)
    task = graph.task("test") if task is None else task
    if isinstance(task, Task) and task.vocabulary != graph.vocabulary:
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
    """Split a line at tabs or spaces into a head, relation and tail of the graph."""
    words = line.split("\t") if "\t" in line else line.split(" ")
    if len(words) == 3:
        return words
    separator, n = "\t" if "\t" in line else " ", len(words)
    entity, relation = (names.most_words(part, separator) for part in ("head", "relation"))
    found = []
    if n <= 2 * entity + relation:  # names in the graph bound the work, however long the line is
        starts = [(i, separator.join(words[:i])) for i in range(1, min(entity, n) + 1)]
        ends = [(j, separator.join(words[j:])) for j in range(max(n - entity, 1), n)]
        known = names.of["head"]
        cuts = (
            (head, separator.join(words[i:j]), tail)
            for (i, head), (j, tail) in product(starts, ends)
            if i < j <= i + relation and head in known and tail in known
        )
        found = [cut for cut in cuts if cut[1] in names.of["relation"]]
    if len(found) != 1:
        raise InputError(
            f"{where}: not a triple" if not found else f"{where}: an ambiguous triple",
            got=repr(line[:60]),
            do="separate head, relation and tail by tabs",
        )
    return found[0]


def _jsonl(path: str | os.PathLike[str]) -> Iterator[Block]:
    for where, line in lines(path):
        try:
            record = parse_json(line, where)
        except InputError:
            raise InputError(f"{where}: not JSON", got=repr(line.strip()[:60])) from None
        yield _block(where, record)


def _block(where: str, record: Any) -> Block:
    """Convert a JSON object to a block."""
    if not isinstance(record, dict) or not isinstance(record.get("answers"), list):
        raise InputError(f"{where}: not a list of answers", got=repr(record)[:60], allowed=RECORD)
    triple = [None if record.get(part) is None else str(record[part]) for part in PARTS]
    holes = [part for part, name in zip(PARTS, triple, strict=True) if name is None]
    side = record.get("side", holes[0] if len(holes) == 1 else None)
    if side not in PARTS or [hole for hole in holes if hole != side]:
        raise InputError(
            f"{where}: the side that is asked for is not clear",
            got=f"side {side}, without {' and '.join(holes) or 'a null'}",
            do="set the part that is asked for to null, or add its side",
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
    """Whether a score is an integer within the range of floats."""
    return isinstance(score, int) and abs(score) < sys.float_info.max
