"""PyKEEN: rank its models, replace its evaluator, and convert its triples.

    model = er.integrations.pykeen.scorer(pipeline_result.model)   # for er.rank
    graph = er.integrations.pykeen.graph(dataset)                  # from its triples factories
    result = pipeline(..., evaluator=er.integrations.pykeen.EvenRankEvaluator)
    ranks = er.integrations.pykeen.ranks(result)           # with names, for er.compare and er.report

`er.models.load("trained_model.pkl", graph)` reads the models that its pipeline saves.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from evenrank._internal.optional import need
from evenrank.integrations.pykeen._factory import factories, graph
from evenrank.integrations.pykeen._pipeline import ranks
from evenrank.models.readers.pykeen import BlackBox, scorer

__all__ = ["BlackBox", "EvenRankEvaluator", "factories", "graph", "ranks", "scorer"]


def __getattr__(name: str) -> Any:
    """Import the evaluator, and PyKEEN with it, when it is first used."""
    if name != "EvenRankEvaluator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need("pykeen")
    return import_module(f"{__name__}._evaluator").EvenRankEvaluator
