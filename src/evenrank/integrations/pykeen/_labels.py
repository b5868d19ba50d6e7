"""What a data set tells about ranks of numbered triples: names, split, filter."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.graphs.graph import PARTS, Graph
from evenrank.integrations.pykeen._factory import graph as converted
from evenrank.ranks.ranks import Ranks


def as_graph(dataset: Any, name: str | None = None) -> Graph:
    """Convert a PyKEEN dataset to a graph; graphs stay as they are."""
    if isinstance(dataset, Graph):
        return dataset
    if not hasattr(dataset, "training"):
        raise InputError("not a data set", got=type(dataset).__name__, allowed="a Dataset, or a Graph")
    return without_unseen(converted(dataset, name=name))


def without_unseen(graph: Graph) -> Graph:
    """Mark a graph as one from which PyKEEN dropped what is not seen in training, if nothing is left."""
    seen = graph.drop_unseen()
    return graph if seen.dropped else seen


def names(graph: Graph, triples: Ints) -> dict[str, Any]:
    """Return the names of the heads, relations and tails of triples as columns of keys."""
    entity, relation = (
        np.arange(len(own)) if isinstance(own, range) else np.array(own, dtype=object)
        for own in (graph.entities, graph.relations)
    )
    h, r, t = triples.T
    return dict(zip(PARTS, (entity[h], relation[r], entity[t]), strict=True))


def facts(graph: Graph, triples: Ints, known: Ints | None) -> dict[str, Any]:
    """Return the entries of the protocol that follow from a graph: data, split and filter.

    The split is the one whose triples were ranked. The filter is named if the known triples, which
    include those that were ranked, are the triples of some splits.
    """
    entries: dict[str, Any] = {"data": graph.name, "content": graph.hash, "unseen": graph.unseen}
    same = (split for split, rows in graph.splits.items() if np.array_equal(rows, triples))
    entries["split"] = next(same, None)
    parts = [triples, triples if known is None else known, *graph.splits.values()]
    code, distinct = columns.encode(list(np.concatenate(parts).T))
    ends = np.cumsum([len(part) for part in parts])[:-1]
    marks = np.zeros((len(parts), len(distinct[0])), dtype=bool)
    for mark, own in zip(marks, np.split(code, ends), strict=True):
        mark[own] = True
    asked, given, *splits = marks
    strange = int((asked & ~np.any(splits, axis=0)).sum())
    if strange:
        raise InputError(
            f"the evaluated triples are not of the data set {graph.name}",
            got=f"{strange:,} of {int(asked.sum()):,} that it does not have",
            do="pass the data set that the model was trained on, with its numbering",
        )
    inside = [split for split, mark in zip(graph.splits, splits, strict=True) if (mark <= given).all()]
    covered = np.any([mark for mark in splits if (mark <= given).all()], axis=0)
    if known is not None and inside and np.array_equal(covered, given):
        entries["filter"] = tuple(inside)
    return entries


def labelled(ranks: Ranks, graph: Graph, triples: Ints, known: Ints | None) -> Ranks:
    """Return ranks of numbered triples with names, and with the facts of their data set."""
    numbered = np.stack([ranks.keys[part] for part in PARTS], axis=1)
    return ranks.with_keys(names(graph, numbered)).with_protocol(facts(graph, triples, known))
