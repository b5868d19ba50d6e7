"""Graphs: read from the files people have, or bundled."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path

from evenrank.data._read import read
from evenrank.data.graph import Finding, Graph, Unseen
from evenrank.errors import InputError

__all__ = ["Finding", "Graph", "Unseen", "load"]


def load(path: str | os.PathLike[str], *, unseen: Unseen = "keep", name: str | None = None) -> Graph:
    """Load a graph from a folder in any usual layout, from one Parquet file, or a bundled one by name.

    What the layouts are stands in `evenrank.data._read`; the files tell which one it is. Names are
    numbered in sorted order, those of train first, unless the files number them. For `unseen`, see
    `Graph.of`.

    >>> load("nations")
    nations
      entities      14
      relations     55
      train      1,592
      valid        199
      test         201
      hash       50109268b93315c3
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError("not a path", got=type(path).__name__, do="Graph.of takes arrays")
    folder = Path(path).expanduser()
    if not folder.exists():
        graphs = files(__name__) / "graphs"
        stored = sorted(file.name for file in graphs.iterdir())
        bundled = [file.removesuffix(".parquet") for file in stored if file.endswith(".parquet")]
        if path not in bundled:
            allowed = f"a folder, a Parquet file, or {', '.join(bundled)}"
            raise InputError("no such folder or graph", got=repr(str(path)), allowed=allowed)
        with as_file(graphs / f"{path}.parquet") as file:
            return load(file, unseen=unseen, name=name)
    splits, entities, relations = read(folder)
    name = folder.resolve().name.removesuffix(".parquet") if name is None else name
    return Graph.of(splits, entities=entities, relations=relations, name=name, unseen=unseen)
