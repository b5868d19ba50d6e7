"""Ranks from TREC runs and relevance judgements (qrels): per relevant document, or per query.

A line of a run is `query Q0 document rank score tag`, and one of the judgements is `query 0 document
relevance`. As in trec_eval, documents are ordered by score, not by the column `rank`; but equal
scores tie, where trec_eval orders them by name. Documents that are not listed may rank anywhere below
the run (see `evenrank.integrations.listed`); trec_eval counts them as never retrieved.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_choice
from evenrank._internal.files import as_path
from evenrank.errors import InputError, Option
from evenrank.integrations._lines import lines
from evenrank.integrations.listed import Batch, Listed, Order, check_order
from evenrank.ranks.lists import Lists, offsets
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task

__all__ = ["ranks"]

Targets = Literal["every", "first"]
RUN = "query Q0 document rank score tag"
JUDGEMENTS = "query 0 document relevance"


def ranks(
    run: str | os.PathLike[str],
    judgements: str | os.PathLike[str],
    *,
    candidates: int,
    relevant: int = 1,
    targets: Targets = "every",
    order: Order = "scores",
    lenient: bool = False,
    model: str | None = None,
) -> Ranks:
    """Rank the relevant documents of each query in a TREC run.

    Each relevant document is ranked without the others as its competitors, so that the null
    distribution is exact.

    Parameters
    ----------
    run : path-like
        Lines ``query Q0 document rank score tag``; those of a query must be adjacent.
    judgements : path-like
        Relevance judgements (qrels): lines ``query 0 document relevance``.
    candidates : int
        Number of documents in the collection.
    relevant : int, default 1
        Least relevance of a relevant document.
    targets : {"every", "first"}, default "every"
        Keep every relevant document, or the best of each query. With ``"first"``, ``mrr`` is
        trec_eval's ``recip_rank`` and ``hits@k`` its ``success``, but the chance level is too low for
        queries with several relevant documents.
    order : {"scores", "listed"}, default "scores"
        Rank by score, where equal scores tie, or by the order in the file.
    lenient : bool, default False
        Use the better place of a document that is listed twice, instead of raising an error.
    model : str, optional
        Name of the model, for the protocol; by default the run's tag, or the name of its file.

    Returns
    -------
    Ranks
        Optimistic and pessimistic ranks bound what is not listed.

    Raises
    ------
    InputError
        If a line cannot be read, or there are fewer candidates than documents.
    """
    check_order(order)
    check_choice("targets", targets, ("every", "first"))
    candidates = columns.integer("candidates", candidates, 1)
    if not isinstance(relevant, int | float):
        raise InputError("relevant must be a number", got=repr(relevant))
    name = as_path(run).name
    judged = _judged(judgements, relevant)
    answers = {query: documents for query, documents in judged.items() if documents}
    if not answers:
        raise InputError(f"{judgements}: no document is judged {relevant} or more")
    listed = Listed(_task(answers, candidates, relevant, targets), lenient=lenient)
    if len(answers) < len(judged):
        listed.left_out["queries without a relevant document"] = len(judged) - len(answers)
    part = listed.task.parts[0]
    number = {query: i for i, query in enumerate(answers)}
    tag = ""
    for query, result in _results(run):
        tag = tag or result.tag
        if query not in judged:
            listed.left_out["queries of the run that are not judged"] += 1
        elif query in answers:
            at = np.arange(*part.first[number[query] : number[query] + 2])
            listed.add(0, _batch(result, answers[query], at, candidates, order))
    best_of = "query" if targets == "first" else None
    return listed.ranks(model or tag or name, order, best_of=best_of)


class _Result:
    """The list of a query in a run."""

    def __init__(self, where: str, tag: str) -> None:
        self.where, self.tag = where, tag
        self.documents: list[str] = []
        self.scores: list[float] = []


def _judged(path: str | os.PathLike[str], relevant: int) -> dict[str, list[str]]:
    """Read the relevant documents of each judged query."""
    judged: dict[str, list[str]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for where, line in lines(path):
        query, _, document, relevance = _fields(where, line, JUDGEMENTS)
        if (query, document) in seen:
            raise InputError(f"{where}: a document is judged twice", got=f"{document} for query {query}")
        seen.add((query, document))
        judged[query] += [document] if _number(where, relevance) >= relevant else []
    return judged


def _results(path: str | os.PathLike[str]) -> Iterator[tuple[str, _Result]]:
    """Yield the list of each query in a run."""
    seen: set[str] = set()
    current, result = "", _Result("", "")
    for where, line in lines(path):
        query, _, document, _, score, tag = _fields(where, line, RUN)
        if query != current or not seen:
            if query in seen:
                raise InputError(
                    f"{where}: the lines of a query must be adjacent",
                    got=f"query {query} again",
                    do="sort the run: sort -s -k1,1 RUN",
                )
            if seen:
                yield current, result
            seen.add(query)
            current, result = query, _Result(where, tag)
        result.documents.append(document)
        result.scores.append(_number(where, score))
    if seen:
        yield current, result


def _fields(where: str, line: str, columns: str) -> list[str]:
    fields = line.split()
    if len(fields) != len(columns.split()):
        raise InputError(f"{where}: not a line in TREC format", got=repr(line[:60]), allowed=columns)
    return fields


def _number(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: not a number", got=repr(text)) from None


def _task(
    answers: Mapping[str, Sequence[str]], candidates: int, relevant: int, targets: Targets
) -> Task:
    """Make a task of all relevant documents; those of a query are numbered from 0 as judged."""
    lengths = [len(documents) for documents in answers.values()]
    owner = np.repeat(np.arange(len(answers)), lengths)
    numbers = np.arange(len(owner)) - offsets(lengths)[owner]
    if max(lengths) > candidates:
        raise InputError(
            "there are fewer candidates than relevant documents",
            got=f"{candidates:,} and {max(lengths):,}",
            do=["set ", Option("candidates"), " to the number of documents in the collection"],
        )
    names = list(answers)
    return Task.of(
        owner,
        numbers,
        size=candidates,
        known=(owner, numbers),
        keys={
            "query": np.array([names[i] for i in owner], dtype=object),
            "answer": np.array(
                [name for documents in answers.values() for name in documents], dtype=object
            ),
        },
        protocol={
            "task": "retrieval",
            "candidates": f"{candidates:,} documents",
            "relevant": f"judged {relevant} or more",
            "targets": {"every": "every relevant document", "first": "the first relevant document"}[
                targets
            ],
        },
    )


def _batch(result: _Result, relevant: Sequence[str], at: Ints, candidates: int, order: Order) -> Batch:
    """Number the documents of a list: the relevant ones as in the task, then all others."""
    numbers = {document: i for i, document in enumerate(relevant)}
    values = np.array([numbers.setdefault(name, len(numbers)) for name in result.documents])
    if len(numbers) > candidates:
        raise InputError(
            f"{result.where}: more documents than candidates",
            got=f"{len(numbers):,} and {candidates:,}",
            do=["set ", Option("candidates"), " to the number of documents in the collection"],
        )
    names = list(numbers)
    return Batch(
        at,
        Lists(offsets(np.full(len(at), len(values))), np.tile(values, len(at))),
        np.tile(np.array(result.scores), len(at)) if order == "scores" else None,
        where=lambda _: result.where,
        name=names.__getitem__,
    )
