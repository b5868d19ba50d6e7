"""Rankings and ranks from TREC runs and relevance judgements (qrels).

    rankings(run, qrels)      all relevant documents of a query together: map, ndcg@10, recall@100, mrr
    ranks(run, qrels)         each relevant document by itself, without the others as its competitors

A line of a run is `query Q0 document rank score tag`, and one of the judgements is `query 0 document
relevance`. As in trec_eval, documents are ordered by score, not by the column `rank`; but equal
scores tie, where trec_eval orders them by name. Documents that are not listed may rank anywhere below
the run; trec_eval counts them as never retrieved. Both rules of trec_eval can be chosen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from evenrank._internal import columns
from evenrank._internal.checks import check_choice
from evenrank._internal.files import as_path
from evenrank.errors import InputError
from evenrank.integrations import _judged
from evenrank.integrations._judged import ListTies, Queries
from evenrank.integrations._together import Unretrieved
from evenrank.integrations.listed import Order, check_order
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks

__all__ = ["ListTies", "Queries", "Unretrieved", "rankings", "ranks"]

Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Mapping[str, float]] | Any


def rankings(
    run: Source,
    qrels: Source,
    *,
    candidates: int | None = None,
    ties: ListTies = "expected",
    unretrieved: Unretrieved | None = None,
    queries: Queries = "run",
    relevant: float = 1,
    order: Order = "scores",
    lenient: bool = False,
    model: str | None = None,
) -> Rankings:
    """Rank all relevant documents of each query in a TREC run together.

    Parameters
    ----------
    run : path-like, DataFrame or mapping
        A file of lines ``query Q0 document rank score tag``; a table with the columns `query`,
        `document` and `score`; or ``{query: {document: score}}``. Tables may have the names of
        ir_measures, PyTerrier, ranx and Microsoft recommenders (`userID`, `itemID`, `prediction`).
    qrels : path-like, DataFrame or mapping
        Relevance judgements: a file of lines ``query 0 document relevance``, a table with the columns
        `query`, `document` and `relevance` (or `rating`), or ``{query: {document: relevance}}``.
    candidates : int, optional
        Number of documents in the collection, which chance levels require.
    ties : {"expected", "trec_eval", "trec_eval_10"}, default "expected"
        Documents with equal scores tie; or are ordered by name, descending, as in trec_eval: up to
        version 9, and in pytrec_eval, scores are compared in single precision, from version 10 on in
        double precision.
    unretrieved : {"tied", "never"}, optional
        Relevant documents that are not in the run tie with all other documents that are not; or they
        are never retrieved, and add nothing to any metric. By default "never" with the ties of
        trec_eval or without `candidates`, else "tied".
    queries : {"run", "judged"}, default "run"
        Judged queries that are not in the run are left out, as in trec_eval; or they count, as with its
        option -c. Queries without a relevant document have no answers: ``evaluate(empty="zero")`` counts
        them as 0, as trec_eval does.
    relevant : float, default 1
        Least relevance of a relevant document; its relevance is its gain.
    order : {"scores", "listed"}, default "scores"
        Rank by score, or by the order in the file.
    lenient : bool, default False
        Use the better place of a document that is listed twice, instead of raising an error.
    model : str, optional
        Name of the model, for the protocol; by default the run's tag.

    Returns
    -------
    Rankings
        A row per query, in the order of the judgements.

    Raises
    ------
    InputError
        If a line cannot be read, the files share no query, or there are fewer candidates than documents.

    Examples
    --------
    >>> run = {"q1": {"a": 3.0, "b": 2.0, "c": 2.0}, "q2": {"a": 1.0, "d": 0.5}}
    >>> qrels = {"q1": {"b": 1, "e": 2}, "q2": {"d": 1, "a": 0}}
    >>> found = rankings(run, qrels, candidates=100)
    >>> found.better.tolist(), found.equal.tolist()
    ([1, 3, 1], [1, 96, 0])
    >>> rankings(run, qrels, ties="trec_eval").evaluate("map", "mrr").to_dict()
    {'map': 0.3333333333333333, 'mrr': 0.41666666666666663}
    """
    return _together(
        run,
        qrels,
        candidates=candidates,
        ties=ties,
        unretrieved=unretrieved,
        queries=queries,
        relevant=relevant,
        order=order,
        lenient=lenient,
        model=model,
    )


def ranks(
    run: Source,
    qrels: Source,
    *,
    candidates: int,
    relevant: float = 1,
    order: Order = "scores",
    lenient: bool = False,
    model: str | None = None,
) -> Ranks:
    """Rank each relevant document of a TREC run by itself.

    It is ranked without the other relevant documents as its competitors, so that the null distribution
    is that of a single target. Metrics of queries, such as the reciprocal rank of the first relevant
    document, are computed from `rankings`.

    Parameters
    ----------
    run, qrels : path-like, DataFrame or mapping
        As for `rankings`.
    candidates : int
        Number of documents in the collection.
    relevant : float, default 1
        Least relevance of a relevant document.
    order : {"scores", "listed"}, default "scores"
        Rank by score, where equal scores tie, or by the order in the file.
    lenient : bool, default False
        Use the better place of a document that is listed twice, instead of raising an error.
    model : str, optional
        Name of the model, for the protocol; by default the run's tag, or the name of its file.

    Returns
    -------
    Ranks
        A row per relevant document, of all judged queries. Optimistic and pessimistic ranks bound what
        is not listed.

    Raises
    ------
    InputError
        If a line cannot be read, or there are fewer candidates than documents.
    """
    together = _together(
        run,
        qrels,
        candidates=columns.integer("candidates", candidates, 1),
        ties="expected",
        unretrieved="tied",
        queries="judged",
        relevant=relevant,
        order=order,
        lenient=lenient,
        model=model,
    )
    found = together.ranks()
    return found.with_protocol(found.protocol.updated({"targets": "every relevant document"}))


def _together(
    run: Source,
    qrels: Source,
    *,
    candidates: int | None,
    ties: ListTies,
    unretrieved: Unretrieved | None,
    queries: Queries,
    relevant: float,
    order: Order,
    lenient: bool,
    model: str | None,
) -> Rankings:
    """Check the arguments of `rankings`, and rank; notes are given where the caller was called."""
    check_order(order)
    check_choice("ties of a run", ties, get_args(ListTies))
    check_choice("value of queries", queries, get_args(Queries))
    if not isinstance(relevant, int | float) or not 0 < relevant < float("inf"):
        raise InputError(
            "relevant must be a number above 0, as the relevance of a document is its gain",
            got=repr(relevant),
        )
    if candidates is not None:
        candidates = columns.integer("candidates", candidates, 1)
    if unretrieved is None:
        unretrieved = "tied" if ties == "expected" and candidates is not None else "never"
    check_choice("value of unretrieved", unretrieved, get_args(Unretrieved))
    rules = _judged.Rules(candidates, ties, unretrieved, queries, relevant, order == "scores", lenient)
    scored, judged = _judged.read(run, "score"), _judged.read(qrels, "relevance")
    name = as_path(run).name if isinstance(run, str | os.PathLike) else None
    entries = {
        "task": "retrieval",
        "relevant": f"judged {relevant:g} or more",
        "targets": "all relevant documents of a query",
        "model": model or scored.tag or name,
    }
    if candidates is not None:
        entries["candidates"] = f"{candidates:,} documents"
    if queries == "judged":
        entries["queries"] = "all judged queries"
    given = {entry: value for entry, value in entries.items() if value is not None}
    return _judged.rankings(scored, judged, rules, given)
