"""Strata: properties of the training triples, as keys to group ranks by.

- `cardinality`   of the relation, 1-1, 1-n, n-1 or n-n: a side is n if the training split has at least
                  1.5 heads per (relation, tail), or tails per (head, relation), on average (Bordes et
                  al. 2013, Translating Embeddings for Modeling Multi-relational Data, section 4.3)
- `frequency`     number of training triples with the relation
- `given_degree`  number of training triples with the entity that the query gives
- `asked_degree`  number of training triples with the entity that the query asks for

Numbers are binned by powers of ten, whose labels sort as text in the order of the numbers, or by
quantiles of the ranked targets. Duplicate training triples count once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_type
from evenrank.errors import InputError
from evenrank.graphs.graph import Graph, Names
from evenrank.ranks.ranks import Ranks

Stratum = Literal["cardinality", "frequency", "given_degree", "asked_degree"]
STRATA: tuple[Stratum, ...] = get_args(Stratum)
Bins: TypeAlias = Literal["tens"] | int

MANY = 1.5
UNSEEN = "unseen"
MOST_QUANTILES = 9  # q10 would sort before q2
# for each side, the part of a triple that the query gives, and the one that it asks for
PARTS = {"tail": ("head", "tail"), "head": ("tail", "head")}


def strata(ranks: Ranks, graph: Graph, *names: Stratum, bins: Bins = "tens") -> Ranks:
    """Add keys to ranks that describe their triples by the training split of a graph.

    Parameters
    ----------
    ranks : Ranks
        Ranks with the keys head, relation, tail and side, as `er.rank` writes them.
    graph : Graph
        The graph that was ranked.
    *names : {"cardinality", "frequency", "given_degree", "asked_degree"}
        The keys to add. By default all of them.
    bins : "tens" or int, default "tens"
        Bins of the numbers: powers of ten (0, 1-9, 10-99, ...), or a number of quantiles from 2 to 9,
        with about the same number of targets each.

    Returns
    -------
    Ranks
        The ranks with the keys added.

    Raises
    ------
    InputError
        If the ranks lack a key, or the graph lacks an entity or relation of the ranks.

    Examples
    --------
    >>> from evenrank.graphs import load
    >>> graph = load("nations")
    >>> triple = {"head": "usa", "relation": "embassy", "tail": "uk", "side": "tail"}
    >>> ranks = strata(Ranks.of([3], 14, keys=triple), graph)
    >>> [ranks.keys[name][0] for name in STRATA]
    ['n-n', '100-999', '100-999', '100-999']
    """
    check_type(ranks, Ranks, "strata are added to Ranks")
    check_type(graph, Graph, "strata need the Graph that was ranked", do="use er.load")
    unknown = [name for name in names if not isinstance(name, str) or name not in STRATA]
    if unknown:
        raise InputError("unknown stratum", got=repr(unknown[0]), allowed=", ".join(STRATA))
    if not (
        (isinstance(bins, str) and bins == "tens")
        or (isinstance(bins, int) and 2 <= bins <= MOST_QUANTILES)
    ):
        raise InputError("unknown bins", got=repr(bins), allowed=f"'tens', or 2 to {MOST_QUANTILES}")
    train = np.unique(np.concatenate([graph.splits[split] for split in graph.training]), axis=0)
    degree = np.bincount(train[:, ::2].ravel(), minlength=len(graph.entities))
    degree -= np.bincount(train[train[:, 0] == train[:, 2], 0], minlength=len(degree))  # loops: once

    def of_relation(values: NDArray[Any]) -> NDArray[Any]:
        return values[_ids(ranks, "relation", graph.relations, graph.name)]

    def of_entity(which: int) -> Ints:
        return np.asarray(degree[_entity(ranks, graph, which)])

    make: dict[Stratum, Callable[[], NDArray[Any]]] = {
        "cardinality": lambda: of_relation(cardinality(train, len(graph.relations))),
        "frequency": lambda: _binned(
            of_relation(np.bincount(train[:, 1], minlength=len(graph.relations))), bins
        ),
        "given_degree": lambda: _binned(of_entity(0), bins),
        "asked_degree": lambda: _binned(of_entity(1), bins),
    }
    return ranks.with_keys({name: make[name]() for name in names or STRATA})


def cardinality(triples: Ints, relations: int) -> NDArray[Any]:
    """Classify each relation by whether its triples have one or many heads and tails.

    Parameters
    ----------
    triples : array of int
        Distinct triples (head, relation, tail).
    relations : int
        Number of relations.

    Returns
    -------
    array of str
        For each relation "1-1", "1-n", "n-1", "n-n", or "unseen" if it has no triples.

    Examples
    --------
    >>> fathers = [[0, 0, 1], [0, 0, 2], [3, 0, 4]]  # two children, and one: 1.5 tails per head
    >>> cardinality(np.array(fathers), 2).tolist()
    ['1-n', 'unseen']
    """
    count = np.bincount(triples[:, 1], minlength=relations)
    words = []
    for given in (2, 0):  # heads per (relation, tail), then tails per (head, relation)
        pairs = np.unique(triples[:, [1, given]], axis=0)
        distinct = np.bincount(pairs[:, 0], minlength=relations)
        words.append(np.where(count >= MANY * distinct, "n", "1"))
    labels = np.char.add(np.char.add(words[0], "-"), words[1]).astype(object)
    labels[count == 0] = UNSEEN
    return np.asarray(labels)


def _entity(ranks: Ranks, graph: Graph, which: int) -> Ints:
    """Return the ids of the entities that the queries give (0) or ask for (1)."""
    side = _column(ranks, "side")
    other = set(side.tolist()) - PARTS.keys()
    if other:
        raise InputError(
            "degrees need queries for heads or tails",
            got=repr(min(other, key=str)),
            allowed=", ".join(PARTS),
        )
    heads, tails = (_ids(ranks, part, graph.entities, graph.name) for part in ("head", "tail"))
    of_head = np.array([PARTS[name][which] == "head" for name in side.tolist()], dtype=bool)
    return np.where(of_head, heads, tails)


def _column(ranks: Ranks, name: str) -> NDArray[Any]:
    if name not in ranks.keys:
        raise InputError(
            f"the ranks have no key {name}",
            got=f"keys {', '.join(ranks.keys)}" if ranks.keys else "no keys",
            do="rank with er.rank, or add the keys head, relation, tail and side",
        )
    return ranks.keys[name]


def _ids(ranks: Ranks, part: str, names: Names, graph: str) -> Ints:
    """Return the ids of the names in a key, for a graph with names or with ids only."""
    column = _column(ranks, part)
    if not len(column):
        return np.zeros(0, dtype=np.int64)
    rows, (distinct,) = columns.encode([column])
    place = {str(name): i for i, name in enumerate(names)}
    found = np.array([place.get(str(name), -1) for name in distinct.tolist()], dtype=np.int64)
    if (found < 0).any():
        missing = distinct[found < 0]
        kind = "relations" if part == "relation" else "entities"
        raise InputError(
            f"{graph} lacks {kind} of the ranks",
            got=f"{part} {str(missing[0])!r}" + (f" and {len(missing) - 1:,} more" * (len(missing) > 1)),
            do="load the graph that was ranked",
        )
    return np.asarray(found[rows])


def _binned(counts: Ints, bins: Bins) -> NDArray[Any]:
    """Label counts by their bins.

    >>> _binned(np.array([0, 7, 10, 12345]), "tens").tolist()
    ['0', '1-9', '10-99', '10000-99999']
    >>> _binned(np.array([1, 2, 3, 40]), 2).tolist()
    ['q1 1-2', 'q1 1-2', 'q2 3-40', 'q2 3-40']
    """
    if bins == "tens":
        place = np.array([len(str(count)) if count else 0 for count in counts.tolist()], dtype=np.int64)
        names = ["0", *(f"{10**i}-{10 ** (i + 1) - 1}" for i in range(int(place.max(initial=0))))]
        return np.array(names, dtype=object)[place]
    if not len(counts):
        return np.zeros(0, dtype=object)
    # the upper ends of all bins but the last; equal ones are merged, so that bins stay distinct
    ends = np.unique(np.quantile(counts, np.arange(1, bins) / bins, method="inverted_cdf"))
    place = np.searchsorted(ends, counts)
    labels = np.empty(len(counts), dtype=object)
    for number, one in enumerate(np.unique(place), start=1):
        inside = counts[place == one]
        low, high = int(inside.min()), int(inside.max())
        labels[place == one] = f"q{number} {low}" + (f"-{high}" * (high > low))
    return labels
