"""A provider of ir_measures that computes its measures with evenrank, and measure names both ways.

    evaluator(measures, qrels)   an evaluator of ir_measures
    register()                   put evenrank first in the pipeline of ir_measures
    to_measure("map@10")         AP@10
    to_metric(AP@10)             map@10

Values are those of trec_eval unless told otherwise: equal scores are ordered by name, and documents that
are not in the run are never retrieved.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from evenrank._internal.checks import check_type
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.integrations import trec
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.grammar import parse_metric
from evenrank.ranks.rankings import Rankings

library: Any = need("ir_measures")  # before it is used: says what to install
providers: Any = library.providers
MISSING, ANY = providers.base.NOT_PROVIDED, providers.base.Any()

__all__ = ["Provider", "evaluator", "register", "to_measure", "to_metric"]

CUT = {"AP": "map", "P": "precision", "R": "recall", "RR": "mrr", "Success": "success", "ERR": "err"}
PARAMETERS = ("rel", "judged_only", "gains")  # of measures, for answers and lists, not for the metric


def to_metric(measure: Any) -> QueryMetric:
    """Return the metric of a measure of ir_measures.

    Parameters
    ----------
    measure : ir_measures.Measure or str
        The measure, or its name. Its parameters `rel`, `gains` and `judged_only` describe which
        documents count, and are no part of the metric.

    Returns
    -------
    QueryMetric
        The metric.

    Raises
    ------
    InputError
        If evenrank has no such metric.

    Examples
    --------
    >>> print(*map(to_metric, ["AP@10", "nDCG(dcg='exp-log2')@5", "R@20", "RR", "RBP(p=0.9,rel=1)"]))
    map@10 ndcg_exp@5 recall@20 mrr rbp(0.9)
    """
    if isinstance(measure, str):
        try:
            measure = library.parse_measure(measure)
        except (NameError, ValueError, SyntaxError, AssertionError, TypeError, KeyError):
            raise InputError("not a measure of ir_measures", got=repr(measure)[:60]) from None
    check_type(measure, library.Measure, "only measures of ir_measures can be converted")
    name = measure.NAME
    stem = CUT.get(name)
    if name == "Rprec":
        stem = "r_precision"
    elif name == "nDCG":
        stem = "ndcg_exp" if measure["dcg"] == "exp-log2" else "ndcg"
    elif name == "RBP" and measure["rel"] is not MISSING:
        stem = f"rbp({measure['p']!r})"
    if stem is None:
        raise InputError(
            "evenrank has no metric for this measure",
            got=str(measure),
            allowed=f"{', '.join(CUT)}, nDCG, Rprec, and RBP with rel",
        )
    k = measure.params.get("cutoff", MISSING)
    return for_answers(parse_metric(stem if k is MISSING else f"{stem}@{k}"))


def to_measure(metric: str | Expression) -> Any:
    """Return the measure of ir_measures for a metric.

    Parameters
    ----------
    metric : str or Metric
        The metric.

    Returns
    -------
    ir_measures.Measure
        The measure.

    Raises
    ------
    InputError
        If ir_measures has no such measure.

    Examples
    --------
    >>> [to_measure(name) for name in ("map@10", "ndcg_exp@5", "recall@20", "mrr", "rbp(0.8)")]
    [AP@10, nDCG(dcg='exp-log2')@5, R@20, RR, RBP(rel=1)]
    """
    wanted = for_answers(parse_metric(metric))  # type: ignore[arg-type]  # checked there
    stem, _, k = str(wanted).partition("@")
    measures = {ours: getattr(library, theirs) for theirs, ours in CUT.items()}
    measures |= {"r_precision": library.Rprec, "ndcg": library.nDCG}
    measures["ndcg_exp"] = library.nDCG(dcg="exp-log2")
    persistence = re.fullmatch(r"rbp\((.*)\)", stem)
    if persistence:
        measures[stem] = library.RBP(p=float(persistence[1]), rel=1)
    if stem not in measures:
        raise InputError("ir_measures has no measure for this metric", got=str(wanted))
    found = measures[stem]
    return found @ int(k) if k else found


class Evaluator(providers.Evaluator):  # type: ignore[misc]  # untyped where ir_measures is absent
    """Computes measures for runs with the same judgements; made by `Provider.evaluator`.

    Parameters
    ----------
    measures : iterable of ir_measures.Measure
        The measures.
    qrels : object
        Judgements in any format of ir_measures.
    rules : dict
        Options of `evenrank.integrations.trec.rankings`.
    """

    def __init__(self, measures: Iterable[Any], qrels: Any, rules: dict[str, Any]) -> None:
        self.qrels = library.util.QrelsConverter(qrels).as_dict_of_dict()
        super().__init__(list(measures), list(self.qrels))
        self.rules = rules
        self._metrics = {measure: to_metric(measure) for measure in self.measures}

    def rankings(self, measure: Any, run: Mapping[str, Mapping[str, float]]) -> Rankings | None:
        """Rank the documents that count for a measure.

        Parameters
        ----------
        measure : ir_measures.Measure
            The measure.
        run : mapping
            The run, as a mapping of mappings.

        Returns
        -------
        Rankings or None
            The rankings; None if no query of the run has a relevant document.
        """
        values = measure.params
        worth, least = values.get("gains", {}), values.get("rel", 1)
        shared = [query for query in self.qrels if run.get(query)]
        judged = {
            query: {doc: worth.get(gain, gain) for doc, gain in self.qrels[query].items()}
            for query in shared
        }
        lists = {query: run[query] for query in shared}
        if values.get("judged_only", False):
            lists = {
                query: {doc: score for doc, score in each.items() if judged[query].get(doc, -1) >= 0}
                for query, each in lists.items()
            }
        if not any(gain >= least for each in judged.values() for gain in each.values()):
            return None
        options = {"queries": "judged", "unretrieved": "never", **self.rules}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # lists that are empty now
            return trec.rankings(lists, judged, relevant=least, **options)

    def _iter_calc(self, run: Any) -> Iterator[Any]:
        lists = library.util.RunConverter(run).as_dict_of_dict()
        groups: dict[str, list[Any]] = {}
        for measure in self.measures:
            key = repr([(name, measure.params.get(name)) for name in PARAMETERS])
            groups.setdefault(key, []).append(measure)
        for measures in groups.values():
            ranked = self.rankings(measures[0], lists)
            if ranked is None:
                continue
            names = ranked.keys["query"].tolist()
            for measure in measures:
                values = np.nan_to_num(ranked.values(self._metrics[measure]), nan=0.0)
                for query, value in zip(names, values.tolist(), strict=True):
                    yield library.Metric(query_id=query, measure=measure, value=value)


class Provider(providers.Provider):  # type: ignore[misc]  # untyped where ir_measures is absent
    """A provider of ir_measures.

    Parameters
    ----------
    **rules
        Options of `evenrank.integrations.trec.rankings`: `ties` (by default "trec_eval"), `candidates`,
        `unretrieved` and `order`.

    Examples
    --------
    >>> import ir_measures
    >>> qrels, run = {"q": {"a": 1, "b": 0, "c": 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 0.5}}
    >>> Provider().calc_aggregate([ir_measures.AP], qrels, run)
    {AP: 0.5833333333333333}
    >>> Provider(ties="expected").calc_aggregate([ir_measures.AP], qrels, run)
    {AP: 0.7083333333333333}
    """

    NAME = "evenrank"
    SUPPORTED_MEASURES = (
        library.AP(cutoff=ANY, rel=ANY, judged_only=ANY),
        library.ERR(cutoff=ANY),
        library.P(cutoff=ANY, rel=ANY, judged_only=ANY),
        library.R(cutoff=ANY, rel=ANY, judged_only=ANY),
        library.RBP(cutoff=ANY, p=ANY, rel=providers.base.Any(required=True)),
        library.RR(cutoff=ANY, rel=ANY, judged_only=ANY),
        library.Rprec(rel=ANY, judged_only=ANY),
        library.Success(cutoff=ANY, rel=ANY, judged_only=ANY),
        library.nDCG(cutoff=ANY, dcg=ANY, gains=ANY, judged_only=ANY),
    )

    def __init__(self, **rules: Any) -> None:
        super().__init__()
        self.rules = {"ties": "trec_eval", **rules}

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Evaluator:
        return Evaluator(measures, qrels, self.rules)


def evaluator(measures: Iterable[Any], qrels: Any, **rules: Any) -> Evaluator:
    """Make an evaluator of ir_measures that computes measures with evenrank.

    Parameters
    ----------
    measures : iterable of ir_measures.Measure
        The measures.
    qrels : iterable of Qrel, DataFrame or mapping
        Judgements in any format of ir_measures.
    **rules
        As for `Provider`.

    Returns
    -------
    Evaluator
        Its methods `iter_calc`, `calc_aggregate` and `calc` take a run.

    Examples
    --------
    >>> import ir_measures
    >>> qrels, run = {"q": {"a": 1, "c": 1}}, {"q": {"b": 2.0, "a": 1.0}}
    >>> evaluator([ir_measures.AP, ir_measures.P @ 2], qrels).calc_aggregate(run)
    {AP: 0.25, P@2: 0.5}
    """
    return Provider(**rules).evaluator(measures, qrels)  # type: ignore[no-any-return]


def register(**rules: Any) -> Provider:
    """Have ir_measures compute with evenrank what evenrank can: `ir_measures.evaluator` and others.

    Parameters
    ----------
    **rules
        As for `Provider`.

    Returns
    -------
    Provider
        The provider, first in `ir_measures.DefaultPipeline`, in the place of one registered before.
    """
    provider = Provider(**rules)
    pipeline = library.DefaultPipeline.providers
    pipeline[:] = [provider, *(one for one in pipeline if one.NAME != Provider.NAME)]
    providers.register(provider)
    return provider
