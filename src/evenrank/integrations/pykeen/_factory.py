"""Triples factories of PyKEEN as graphs of evenrank, and graphs as triples factories."""

from __future__ import annotations

from typing import Any

from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.graphs.graph import SPLITS, Graph, Unseen

NAMES = dict(zip(SPLITS, ("training", "validation", "testing"), strict=True))


def graph(
    training: Any,
    validation: Any = None,
    testing: Any = None,
    *,
    name: str | None = None,
    unseen: Unseen = "keep",
) -> Graph:
    """Take triples factories, or a dataset that has them, as a graph with PyKEEN's own numbering.

    Inverse triples are left aside: PyKEEN makes them while it trains, and a model brings their rows.
    """
    name = name or (type(training).__name__.lower() if hasattr(training, "training") else "graph")
    if hasattr(training, "training"):
        training, validation, testing = (getattr(training, part, None) for part in NAMES.values())
    splits = zip(SPLITS, (training, validation, testing), strict=True)
    given = {split: factory for split, factory in splits if split == "train" or factory is not None}
    for split, factory in given.items():
        if not hasattr(factory, "mapped_triples"):
            raise InputError(
                f"{split} is no triples factory", got=type(factory).__name__, do="give PyKEEN's own"
            )
    return Graph.of(
        {split: factory.mapped_triples.cpu().numpy() for split, factory in given.items()},
        entities=_names(training, "entity", training.num_entities),
        relations=_names(training, "relation", training.real_num_relations),
        name=name,
        unseen=unseen,
    )


def _names(factory: Any, kind: str, count: int) -> int | list[str]:
    """Give names in the order of ids; where there are only ids, how many."""
    names = getattr(factory, f"{kind}_id_to_label", None)
    return count if names is None else [str(names[i]) for i in range(count)]


def factories(graph: Graph, *, inverse: bool = False) -> dict[str, Any]:
    """Give a graph's splits as triples factories: `pipeline(**factories(graph), model="RotatE")`.

    `inverse` has the training split create inverse triples. Ids stay as they are in the graph.
    """
    need("pykeen")
    if not isinstance(graph, Graph):
        raise InputError("not a graph", got=type(graph).__name__, do="er.load(...), or Graph.of(...)")
    import torch
    from pykeen.triples import TriplesFactory

    entity, relation = (
        {str(name): i for i, name in enumerate(names)} for names in (graph.entities, graph.relations)
    )
    return {
        NAMES.get(split, split): TriplesFactory(
            torch.from_numpy(triples.copy()),
            entity_to_id=entity,
            relation_to_id=relation,
            create_inverse_triples=inverse and split == "train",
        )
        for split, triples in graph.splits.items()
    }
