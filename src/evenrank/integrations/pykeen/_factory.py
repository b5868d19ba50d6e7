"""Converts PyKEEN's triples factories to graphs, and graphs to triples factories."""

from __future__ import annotations

from typing import Any

from evenrank._internal.checks import check_type
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
    """Convert triples factories, or a PyKEEN dataset, to a graph with PyKEEN's numbering.

    Inverse triples are left out: PyKEEN creates them in training, and models include their rows.

    Parameters
    ----------
    training : TriplesFactory or Dataset
        The training triples, or a dataset of all splits.
    validation, testing : TriplesFactory, optional
        The other splits.
    name : str, optional
        Name of the graph; by default that of the dataset's class, or "graph".
    unseen : {"keep", "drop"}, default "keep"
        Whether to keep evaluation triples with entities not seen in training.

    Returns
    -------
    Graph
        The graph, with PyKEEN's numbering.

    Raises
    ------
    InputError
        If a split is not a triples factory.
    """
    name = name or (type(training).__name__.lower() if hasattr(training, "training") else "graph")
    if hasattr(training, "training"):
        training, validation, testing = (getattr(training, part, None) for part in NAMES.values())
    splits = zip(SPLITS, (training, validation, testing), strict=True)
    given = {split: factory for split, factory in splits if split == "train" or factory is not None}
    for split, factory in given.items():
        if not hasattr(factory, "mapped_triples"):
            raise InputError(f"{split} must be a triples factory of PyKEEN", got=type(factory).__name__)
    return Graph.of(
        {split: factory.mapped_triples.cpu().numpy() for split, factory in given.items()},
        entities=_names(training, "entity", training.num_entities),
        relations=_names(training, "relation", training.real_num_relations),
        name=name,
        unseen=unseen,
    )


def _names(factory: Any, kind: str, count: int) -> int | list[str]:
    """Return names in the order of ids, or their number if there are only ids."""
    names = getattr(factory, f"{kind}_id_to_label", None)
    return count if names is None else [str(names[i]) for i in range(count)]


def factories(graph: Graph, *, inverse: bool = False) -> dict[str, Any]:
    """Convert a graph to triples factories: ``pipeline(**factories(graph), model="RotatE")``.

    Parameters
    ----------
    graph : Graph
        The graph; ids stay the same.
    inverse : bool, default False
        Whether the training split creates inverse triples.

    Returns
    -------
    dict of str to TriplesFactory
        ``training``, ``validation`` and ``testing``.

    Raises
    ------
    InputError
        If `graph` is not a graph.
    """
    need("pykeen")
    check_type(graph, Graph, "graph must be a Graph", do="er.load(...)")
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
            metadata={"name": graph.name},
        )
        for split, triples in graph.splits.items()
    }
