"""Ranks whose files lack the known triples that queries share: what the data set tells instead.

`evenrank.rank` keeps these triples with the ranks. Ranks of other tools, and of files written before,
lack them, and the variance of z-scores is estimated from numbers of candidates. The graph has the
triples; for benchmarks, the atlas has what follows from them.
"""

from __future__ import annotations

import numpy as np

from evenrank._internal import columns
from evenrank.errors import InputError
from evenrank.graphs.atlas import Filter, Sides, atlas
from evenrank.graphs.graph import Graph
from evenrank.graphs.instants import KINDS, Time
from evenrank.ranks.dependence import ESTIMATED, TIMED, Crossings
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import SCORED
from evenrank.ranks.task import Task


def is_estimated(ranks: Ranks) -> bool:
    """Whether the number of known triples that queries share is estimated."""
    if ranks.crossings is not None or not {*SCORED} <= ranks.keys.keys():
        return False
    found = ranks.dependence()
    return found is not None and ESTIMATED in found.gaps


def with_atlas(ranks: Ranks) -> Ranks:
    """Take which ranks depend on each other from the atlas, if it has their data set.

    Parameters
    ----------
    ranks : Ranks
        The ranks.

    Returns
    -------
    Ranks
        The ranks; unchanged if they know the shared triples, or have other numbers of candidates than
        the atlas.
    """
    protocol = ranks.protocol
    filter_ = _filter(protocol)
    if protocol.data is None or filter_ is None or ranks.weights is not None or not is_estimated(ranks):
        return ranks
    sides: Sides = "both" if len(set(ranks.keys["side"].tolist())) > 1 else str(ranks.keys["side"][0])  # type: ignore[assignment]
    split, time = protocol.split or "test", _time(protocol)
    for unseen in ("keep", "drop"):
        try:
            sizes = atlas(
                protocol.data,
                split,
                sides,
                filter=filter_,
                unseen=unseen,
                time="agnostic" if time == "agnostic" else None,
            )
        except InputError:
            return ranks
        if sizes == ranks.tally().sizes and (found := sizes.dependence()) is not None:
            return ranks.with_dependence(found)
    return ranks


def with_graph(ranks: Ranks, graph: Graph) -> Ranks:
    """Take the known triples that queries share from the graph that was ranked.

    Parameters
    ----------
    ranks : Ranks
        The ranks, whose keys are names of the graph.
    graph : Graph
        The graph.

    Returns
    -------
    Ranks
        The ranks; unchanged if they know the shared triples.

    Raises
    ------
    InputError
        If the targets or their numbers of candidates are not those of the graph.
    """
    if not is_estimated(ranks):
        return ranks
    split = ranks.protocol.split or "test"
    sides = tuple(dict.fromkeys(ranks.keys["side"].tolist()))
    for one in (graph, graph.drop_unseen()):
        if split in one.splits:
            time = _time(ranks.protocol) if one.times else None
            task = one.task(split, sides=sides, filter=ranks.protocol.filter or "all", time=time)
            if _same(ranks, task):
                if one.times:  # shared triples do not tell at which time they are shared
                    found = task.dependence() if ranks.weights is None else None
                    return ranks if found is None else ranks.with_dependence(found)
                return ranks.with_crossings(Crossings(task))
    raise InputError(
        f"the ranks are not of the {split} triples of this graph",
        got=f"{graph.name}",
        do="name the graph that was ranked, in the same order of columns",
    )


def _filter(protocol: Protocol) -> Filter:
    """Return the filter as the atlas names it; None if it is not known to be that of all splits."""
    known = protocol.filter or ()
    return "all" if "all" in known or {"train", "valid", "test"} <= {*known} else None


def _time(protocol: Protocol) -> Time | None:
    """Return the filter by time of ranks of a temporal graph; None if it is not known."""
    kind = str(protocol.extra.get(TIMED, "")).removesuffix(" filter")
    return next((one for one in KINDS if one == kind), None)


def _same(ranks: Ranks, task: Task) -> bool:
    """Whether a task has the same targets, with the same numbers of candidates."""
    if len(ranks) != len(task):
        return False
    both = [
        np.concatenate([columns.as_texts(np.asarray(of.keys[name])) for of in (ranks, task)])
        for name in SCORED
    ]
    code, _ = columns.encode([*both, np.concatenate([ranks.candidates, task.candidates])])
    mine, theirs = np.split(code, [len(ranks)])
    return bool(np.array_equal(np.sort(mine), np.sort(theirs)))
