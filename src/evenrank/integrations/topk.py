"""Ranks from top-k lists of rule miners, language models and leaderboards, with bounds for the rest.

    ranks(task, lists)        lists of ids, one for each target of a task
    rankings(ids, relevant)   lists of ids, one for each query, with all of its answers (recommenders)
    from_hits(hits, answers)  which of the listed ids are answers, as RecBole and PyG have them
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
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints, host, nan_error
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import as_path
from evenrank._internal.reading import parse_json
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.graphs.graph import PARTS, Graph
from evenrank.integrations._blocks import MOST, Block, Gather, Vocabulary
from evenrank.integrations._lines import lines
from evenrank.integrations._together import Groups, Unretrieved, described, place_unlisted
from evenrank.integrations.listed import LENIENT, WORDS, Batch, Listed, Order, check_order
from evenrank.ranks.lists import Lists, offsets
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import HOLE, Part, Task

__all__ = ["anyburl", "from_hits", "jsonl", "rankings", "ranks", "wikikg90m"]

TAILS = "h,r->t"
UNRETRIEVED = get_args(Unretrieved)
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


def rankings(
    ids: Sequence[ArrayLike] | NDArray[Any],
    relevant: Any = None,
    *,
    pairs: tuple[ArrayLike, ArrayLike] | ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    scores: Sequence[ArrayLike] | NDArray[Any] | None = None,
    gains: Any = None,
    queries: ArrayLike | None = None,
    unretrieved: Unretrieved | None = None,
    model: str | None = None,
) -> Rankings:
    """Rank all answers of each query by a list of its best candidates.

    Parameters
    ----------
    ids : sequence of array-like of int, or matrix
        For each query, the best candidates, best first. In a matrix, -1 pads shorter lists.
    relevant : sequence of array-like of int, or sparse matrix
        For each query, its answers; of a sparse matrix, the columns that are not zero in its row.
    pairs : pair of array-like of int
        Instead of `relevant`, the row of the query and the answer of each pair, such as the
        `edge_label_index` of PyG.
    candidates : array-like of int, optional
        Number of candidates: one, or one per query, without those that are filtered, such as items
        seen in training. Chance levels and bounds require it.
    scores : sequence of array-like, optional
        Scores of the listed candidates; higher is better, equal ones tie. Without them the order counts.
    gains : sequence of array-like, or array-like, optional
        The gain of each answer, in the layout of `relevant`, or for each of the `pairs`; by default 1.
        Answers of gain 0 are none.
    queries : array-like, optional
        Names of the queries, for the key `query`.
    unretrieved : {"tied", "never"}, optional
        Answers that are not listed tie with all other candidates that are not listed: the tie-breaking
        rules "optimistic" and "pessimistic" bound every metric, and "expected" is the mean over all
        orders. Or they are never retrieved, and add nothing. By default "tied" with `candidates`, else
        "never".
    model : str, optional
        Name of the model, for the protocol.

    Returns
    -------
    Rankings
        A row per query.

    Raises
    ------
    InputError
        If a candidate is listed or relevant twice for a query, queries differ in number, or there are
        fewer candidates than listed and relevant ones.

    Examples
    --------
    >>> found = rankings([[7, 5, 3], [8, 9, 2]], [[5], [2, 4]], candidates=10)
    >>> found.better.tolist(), found.equal.tolist()
    ([1, 2, 3], [0, 0, 6])
    >>> found.evaluate("recall@3", "map").to_dict()
    {'recall@3': 0.75, 'map': 0.411592970521542}
    """
    whole = _flat("ids", ids)
    kept = columns.integers("ids", whole.values, HOLE) != HOLE
    listed = _without(whole, kept)
    owner, values, worth = _relevant(relevant, pairs, gains, len(listed))
    within = np.arange(len(listed.values)) - listed.first[listed.owner]
    placed = within, np.zeros_like(within)
    if scores is not None:
        given = _flat("scores", scores)
        if not np.array_equal(given.first, whole.first):
            raise InputError(
                "there must be a score for each listed candidate",
                got=f"{len(given.values):,} scores in {len(given):,} lists",
            )
        score = given.values.astype(float)[kept]
        if np.isnan(score).any():
            i = int(np.flatnonzero(np.isnan(score))[0])
            raise nan_error(
                f"query {listed.owner[i]}, candidate {listed.values[i]}", do="check the list"
            )
        placed = Groups.of(listed.owner, score).counts()
    # numbers of pairs (query, id), with the place in the list behind the point: sorting them is several
    # times as fast as finding the order that sorts them
    most = max(int(listed.values.max(initial=0)), int(values.max(initial=0))) + 1
    wide = int(within.max(initial=0)) + 1
    listed_pairs = np.sort((listed.owner * most + listed.values) * wide + within)
    _check_once("a candidate is listed twice", listed_pairs // wide, most)
    pairs_wanted = owner * most + values
    if worth is None:
        pairs_wanted = np.sort(pairs_wanted)
        owner, values = np.divmod(pairs_wanted, most)
        _check_once("an answer is relevant twice", pairs_wanted, most)
    else:
        _check_once("an answer is relevant twice", np.sort(pairs_wanted), most)
    counts = np.full(len(values), -1), np.zeros(len(values), np.int64)
    if len(listed_pairs):
        at = np.minimum(np.searchsorted(listed_pairs, pairs_wanted * wide), len(listed_pairs) - 1)
        pair, place = np.divmod(listed_pairs[at], wide)
        there = pair == pairs_wanted
        row = listed.first[owner[there]] + place[there]
        counts[0][there], counts[1][there] = placed[0][row], placed[1][row]
    return _joined(
        owner,
        counts,
        listed,
        candidates,
        unretrieved,
        values,
        worth,
        queries,
        WORDS["listed" if scores is None else "scores"],
        model,
    )


def from_hits(
    hits: ArrayLike,
    answers: ArrayLike,
    *,
    candidates: ArrayLike | None = None,
    queries: ArrayLike | None = None,
    unretrieved: Unretrieved | None = None,
    model: str | None = None,
) -> Rankings:
    """Rank all answers of each query by which of its best candidates are answers.

    Parameters
    ----------
    hits : array-like of bool, matrix
        A row per query and a column per position: whether the candidate there is an answer, as the
        first columns of RecBole's ``rec.topk`` and the `pred_rel_mat` of PyG.
    answers : array-like of int
        The number of answers of each query, as the last column of RecBole's ``rec.topk`` and the
        `label_count` of PyG.
    candidates, queries, unretrieved, model
        As for `rankings`.

    Returns
    -------
    Rankings
        A row per query.

    Raises
    ------
    InputError
        If hits are neither true nor false, or a query has more hits than answers.

    Examples
    --------
    >>> found = from_hits([[False, True, False], [True, False, True]], [1, 3], candidates=20)
    >>> found.better.tolist(), found.equal.tolist()
    ([1, 0, 2, 3], [0, 0, 0, 16])
    """
    matrix = np.asarray(host(hits))
    if matrix.ndim != 2 or not np.isin(matrix, (0, 1)).all():
        raise InputError(
            "hits must be a matrix of true and false, with a row per query and a column per position",
            got=columns.described(matrix),
        )
    matrix = matrix.astype(bool)
    many = columns.integers("answers", host(answers), 0)
    many = columns.repeat("answers", many, len(matrix))
    over = matrix.sum(axis=1) > many
    if over.any():
        row = int(np.flatnonzero(over)[0])
        raise columns.RowError(
            "a query has more hits than answers",
            row,
            got=f"{matrix[row].sum()} hits, {many[row]} answers",
        )
    owner = np.repeat(np.arange(len(matrix)), many)
    query, position = np.nonzero(matrix)
    better = np.full(len(owner), -1)
    within = np.arange(len(query)) - np.searchsorted(query, query)
    better[offsets(many)[query] + within] = position
    width = np.full(len(matrix), matrix.shape[1])
    listed = Lists(offsets(width), np.zeros(matrix.size, np.int64))
    counts = better, np.zeros_like(better)
    return _joined(
        owner, counts, listed, candidates, unretrieved, None, None, queries, WORDS["listed"], model
    )


def _joined(
    owner: Ints,
    counts: tuple[Ints, Ints],
    listed: Lists,
    candidates: ArrayLike | None,
    unretrieved: Unretrieved | None,
    values: Ints | None,
    gains: NDArray[Any] | None,
    queries: ArrayLike | None,
    order: str,
    model: str | None,
) -> Rankings:
    """Rank the answers that are not listed, and make rankings."""
    unretrieved = unretrieved or ("never" if candidates is None else "tied")
    check_choice("value of unretrieved", unretrieved, UNRETRIEVED)
    rows = len(listed)
    many = None
    if candidates is not None:
        many = columns.repeat("candidates", columns.integers("candidates", host(candidates), 1), rows)
    keys = {} if queries is None else {"query": columns.key("query", host(queries), rows)}
    names = keys.get("query", np.arange(rows))
    length = np.diff(listed.first)
    placed = place_unlisted(owner, *counts, length, many, unretrieved, names)
    return Rankings.flat(
        offsets(np.bincount(owner, minlength=rows)),
        *placed,
        many,
        gains,
        values,
        None,
        keys,
        {"scores": described(order, counts[0] < 0, unretrieved)} | ({"model": model} if model else {}),
    )


def _without(whole: Lists, kept: NDArray[np.bool_]) -> Lists:
    """Return lists without some of their values."""
    values = whole.values[kept].astype(np.int64)
    return Lists(offsets(np.bincount(whole.owner[kept], minlength=len(whole))), values)


def _relevant(
    relevant: Any, pairs: Any, gains: Any, rows: int
) -> tuple[Ints, Ints, NDArray[Any] | None]:
    """Return the query, the id and the gain of each answer, by query."""
    if (relevant is None) == (pairs is None):
        raise InputError("pass the answers as relevant or as pairs, one of them")
    worth = None
    if pairs is not None:
        both = [np.asarray(host(one)) for one in pairs]
        if len(both) != 2 or both[0].shape != both[1].shape or both[0].ndim != 1:
            raise InputError(
                "pairs must be two columns of one length: the row of a query, and an answer",
                got=" and ".join(columns.described(one) for one in both[:2]),
            )
        owner, values = (columns.integers("pairs", one, 0) for one in both)
        if gains is not None:
            worth = np.asarray(host(gains))
        columns.reject(owner >= rows, owner, f"pairs name a query that has no list (there are {rows:,})")
    else:
        lists = _sparse(relevant) if hasattr(relevant, "tocsr") else _flat("relevant", relevant)
        if len(lists) != rows:
            raise InputError(
                "there must be a list of answers for each list of candidates",
                got=f"{len(lists):,} and {rows:,}",
            )
        owner, values = lists.owner, columns.integers("relevant", lists.values, 0)
        if gains is not None:
            worth = _flat("gains", gains).values
    if worth is not None and worth.shape != values.shape:
        raise InputError(
            "there must be a gain for each answer", got=f"{worth.size:,} and {len(values):,}"
        )
    order = np.argsort(owner, kind="stable")
    return owner[order], values[order], None if worth is None else worth[order]


def _sparse(matrix: Any) -> Lists:
    """Return the columns of each row of a sparse matrix that are not zero."""
    rows = matrix.tocsr()
    there = np.asarray(rows.data) != 0
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[there]
    lengths = np.bincount(owner, minlength=rows.shape[0])
    return Lists(offsets(lengths), np.asarray(rows.indices)[there].astype(np.int64))


def _check_once(what: str, ordered: Ints, most: int) -> None:
    """Check that no pair of query and id occurs twice; pairs are numbered and sorted."""
    again = np.flatnonzero(np.diff(ordered) == 0)
    if len(again):
        query, value = divmod(int(ordered[again[0]]), most)
        raise columns.RowError(what, query, got=str(value))


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
