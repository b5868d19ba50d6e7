"""Count data sets for the package: a folder per data set, named by one of its names in the registry.

`make atlas` calls `write_package`. A folder without a training split may hold `candidates.tsv`: how many
targets of each split and side have each number of candidates.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evenrank._internal.reading import content
from evenrank.graphs import Graph, atlas, load, packed, registry
from evenrank.graphs.alignment import Alignment, is_alignment
from evenrank.graphs.instants import Time
from evenrank.graphs.packed import Counts, Kinds
from evenrank.graphs.structure import Stored, describe, write
from evenrank.ranks.task import Task

COUNTED = "candidates.tsv"
SIDES: dict[str, Literal["target", "source", "both"]] = {
    "tail": "target",
    "head": "source",
    "both": "both",
}


def counts(folder: Path) -> dict[str, Kinds]:
    """Count the candidates of a data set.

    Parameters
    ----------
    folder : Path
        Its folder.

    Returns
    -------
    dict
        The counts by name: a temporal data set has two, for two filters.
    """
    entry = registry.find(folder.name)
    table = next(iter(folder.glob(f"{COUNTED}*")), None)
    if table is not None:
        one = counted(entry, content(table).decode())
        return {entry.name: {"keep": one, "drop": one}}
    if is_alignment(folder):
        one = _aligned(Alignment.load(folder, name=entry.name), entry)
        return {entry.name: {"keep": one, "drop": one}}
    return atlas.by_name(atlas.build(_graph(folder, entry)))


def dependences(folder: Path) -> dict[str, dict[str, Stored]]:
    """Describe which ranks of a data set depend on each other.

    Parameters
    ----------
    folder : Path
        Its folder.

    Returns
    -------
    dict
        The descriptions by name and treatment of unseen entities; none if that is unknown.
    """
    entry = registry.find(folder.name)
    if next(iter(folder.glob(f"{COUNTED}*")), None) is not None:
        return {}
    if is_alignment(folder):
        data = Alignment.load(folder, name=entry.name)
        return {entry.name: {"keep": describe(partial(_links, data), ["test"])}}
    graph = _graph(folder, entry)
    kept = graph.drop_unseen()
    rules = {"keep": graph} if kept.hash == graph.hash else {"keep": graph, "drop": kept}
    times: dict[str, Time | None] = {entry.name: None}
    if graph.times:
        times = {entry.name: "aware", entry.name + atlas.AGNOSTIC: "agnostic"}
    return {
        name: {
            unseen: describe(
                partial(_ask, one, time), [s for s, rows in one.splits.items() if len(rows)]
            )
            for unseen, one in rules.items()
        }
        for name, time in times.items()
    }


def _graph(folder: Path, entry: registry.Entry) -> Graph:
    graph = load(folder, name=entry.name)
    registry.check(entry, graph, folder)
    return graph


def _ask(graph: Graph, time: Time | None, split: str, side: Any, rule: Literal["all"] | None) -> Task:
    return graph.task(split, sides=side, filter=rule, time=time)


def _links(data: Alignment, split: str, side: str, _rule: Literal["all"] | None) -> Task:
    """Build the task of an alignment; its links are one-to-one, so that there is nothing to filter."""
    return data.task(split, sides=SIDES[side])


def _aligned(data: Alignment, entry: registry.Entry) -> Counts:
    """Count the candidates of test links: the entities of the links on the other side."""
    rows = {}
    for side in atlas.ENDS:
        sizes, targets = np.unique(_links(data, "test", side, "all").candidates, return_counts=True)
        rows[side] = list(zip(sizes.tolist(), targets.tolist(), strict=True))
    raw = len(np.unique(data.links["test"][:, 1]))
    return Counts(entry.name, entry.entities, entry.relations, {"test": rows}, raw)


def counted(entry: registry.Entry, text: str) -> Counts:
    """Read a table of split, side, candidates and count, with a header.

    Parameters
    ----------
    entry : Entry
        The data set.
    text : str
        The table, separated by tabs.

    Returns
    -------
    Counts
        Its counts.
    """
    splits: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for line in text.splitlines()[1:]:
        split, side, candidates, targets = line.split("\t")
        rows = splits.setdefault(split, {"head": [], "tail": []})[side]
        rows.append((int(candidates), int(targets)))
    ordered = {
        split: {side: sorted(rows) for side, rows in splits[split].items()}
        for split in entry.splits
        if split in splits
    }
    return Counts(entry.name, entry.entities, entry.relations, ordered)


def write_package(folders: Sequence[str | os.PathLike[str]], out: Path | None = None) -> None:
    """Count data sets, and write the files of the package.

    Parameters
    ----------
    folders : sequence of path or str
        A folder per data set.
    out : Path, optional
        Where to write. By default in the package.
    """
    place = Path(packed.__file__).parent if out is None else out
    data: dict[str, Kinds] = {}
    known: dict[str, dict[str, Stored]] = {}
    for folder in map(Path, folders):
        data |= counts(folder)
        known |= dependences(folder)
    packed.write(data, place)
    write(known, place)
