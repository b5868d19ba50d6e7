"""The ranks of a finished pipeline, with the names and the data set that its evaluator is not given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_type
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.graphs.graph import Graph
from evenrank.integrations.pykeen._factory import graph
from evenrank.integrations.pykeen._labels import as_graph, labelled, without_unseen
from evenrank.models.readers.pykeen import scorer
from evenrank.ranking import rank
from evenrank.ranks.ranks import Ranks

USER_DEFINED = "<user defined>"  # how PyKEEN names triples that are not of one of its datasets


def ranks(result: Any, dataset: Any = None, *, name: str | None = None) -> Ranks:
    """Return the ranks of a pipeline, with names of entities and relations, data set and split.

    Parameters
    ----------
    result : PipelineResult
        What PyKEEN's `pipeline` returned. If its evaluator was an `EvenRankEvaluator`, these are the
        ranks of the final evaluation; otherwise the model ranks the test triples of `dataset` now.
    dataset : Dataset or Graph, optional
        The data set. By default, names come from the training triples, and the splits from what the
        evaluator was given: the training, validation and test triples, unless the pipeline was told to
        evaluate on, or to filter, others.
    name : str, optional
        Name of the data set. By default that of PyKEEN's dataset, or of the folder of the triples.

    Returns
    -------
    Ranks
        Ranks like those of the saved model by `evenrank.rank`; they can be compared.

    Raises
    ------
    InputError
        If the pipeline has no ranks and there is no `dataset`, or the data set is another one.
    """
    need("pykeen")
    from pykeen.pipeline import PipelineResult

    from evenrank.integrations.pykeen._evaluator import Results

    check_type(result, PipelineResult, "not the result of a PyKEEN pipeline", do="ranks(pipeline(...))")
    metrics = result.metric_results
    found = metrics.ranked if isinstance(metrics, Results) else None
    if dataset is None and found is None:
        raise InputError(
            "this pipeline has no ranks",
            got=f"evaluator {result.configuration.get('evaluator')}",
            do="run it with evaluator=EvenRankEvaluator, or pass the data set to rank its test triples",
        )
    if found is None:
        return rank(scorer(result.model), as_graph(dataset, name).task("test"))
    triples = metrics.triples.cpu().numpy()
    known = None
    if metrics.known is not None:
        known = np.concatenate([triples, *(some.cpu().numpy() for some in metrics.known)])
    if dataset is not None:
        return labelled(found, as_graph(dataset, name), triples, known)
    if metrics.labelled:
        return found if name is None else found.with_protocol(data=name)
    return _described(result, found, triples, known, name or _name(result))


def _described(result: Any, found: Ranks, triples: Ints, known: Ints | None, name: str) -> Ranks:
    """Describe ranks by the training triples, and by what the pipeline recorded about its evaluation."""
    metrics, stopper = result.metric_results, result.stopper
    train = graph(result.training, name=name)
    splits = {"train": train.splits["train"], "test": triples}
    recorded = result.configuration.get("evaluation_kwargs", {}).get("additional_filter_triples", {})
    complete = "validation" in recorded  # only test triples are filtered by validation triples
    validation = getattr(stopper, "evaluation_triples_factory", None)  # of an early stopper
    if complete:
        splits["valid"] = metrics.known[-1].cpu().numpy()
    elif validation is not None and np.array_equal(validation.mapped_triples.cpu().numpy(), triples):
        splits["valid"] = splits.pop("test")
    whole = Graph.of(splits, entities=train.entities, relations=train.relations, name=name)
    found = labelled(found, without_unseen(whole), triples, known)
    if complete:
        return found
    unsure = {} if validation is not None else {"split": None, "filter": "given"}
    return found.with_protocol(content=None, **unsure)


def _name(result: Any) -> str:
    """Return the name of PyKEEN's dataset, or the name or folder of its training triples."""
    known = result.configuration.get("dataset")
    if known and known != USER_DEFINED:
        entry = registry.lookup(known)
        return entry.name if entry else str(known)
    about: Mapping[str, Any] = result.training.metadata or {}
    if "path" in about:
        return Path(about["path"]).resolve().parent.name
    return str(about.get("name", "graph"))
