"""Hash the model, so that a ranking resumes only with the model that began it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from evenrank._internal.arrays import array, host, memory
from evenrank.ranking.adapters import Called
from evenrank.ranking.engine._count import batch
from evenrank.ranking.resume import content_hash
from evenrank.ranking.scorer import Factored
from evenrank.ranks.task import Part

QUERIES, CANDIDATES = 16, 1 << 18  # size of the sample of scores by which functions are told apart

Plan = Iterable[tuple[Part, Factored | Called]]


def model_hash(plan: Plan) -> str:
    """Hash all that the scores depend on.

    For a model that factors, these are its table and the query vectors; its arrays must be on the host.
    For any other model, a sample of its scores is hashed, and the arrays of a dataclass.
    """
    return content_hash(_content(plan))


def _content(plan: Plan) -> Iterator[tuple[str, Any]]:
    seen = set()
    for part, scorer in plan:
        if not isinstance(scorer, Factored):
            yield from _arrays(scorer.scorer)
            yield from (
                ("scores", host(array("scores", some, real=True))) for some in _sample(part, scorer)
            )
            continue
        yield "form", scorer.form
        if memory(scorer.table) not in seen:  # most models have one table for heads and tails
            yield "table", scorer.table
        seen.add(memory(scorer.table))
        step = batch(scorer.table.shape[1])
        for start in range(0, len(part.queries), step):
            yield "vectors", scorer.vectors(part.queries[start : start + step])


def model_arrays(model: Any) -> list[Any]:
    """Return the NumPy arrays of a model that is a dataclass."""
    return [values for _, values in _arrays(model)]


def _arrays(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a dataclass, and of the dataclasses among its fields."""
    if not is_dataclass(owner) or isinstance(owner, type):
        return
    for field in fields(owner):
        value = getattr(owner, field.name)
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            yield field.name, np.atleast_1d(value)
        else:
            yield from _arrays(value)


def _sample(part: Part, function: Called) -> Iterator[Any]:
    """Compute a sample of scores, by the same calls as ranking makes."""
    some = np.unique(np.linspace(0, len(part.queries) - 1, QUERIES).astype(np.int64))
    if part.lists is None:
        yield function(part.queries[some], slice(0, min(part.size, CANDIDATES)))
        return
    for i in some:
        yield function(part.queries[i : i + 1], part.lists[part.group[i]][None])
