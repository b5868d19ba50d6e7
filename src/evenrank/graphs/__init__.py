"""Knowledge graphs: read from files, bundled, or downloaded by the name of a benchmark.

- `graph`      `Graph`: triples of ids in splits
- `instants`   the times of triples in temporal graphs, and filters by time
- `alignment`  `Alignment`: links between the entities of two graphs
- `queries`    `Queries`: queries of several steps, with easy and hard answers
- `layouts`    files of triples: which files there are, and what they are for
- `text`       lines of text
- `times`      their columns of times: numbers and dates
- `orders`     the order of their columns
- `registry`   the benchmarks known by name
- `download`   checked downloads
- `make_task`  the ranking task of a split
- `strata`     keys that group ranks by properties of the training triples
- `atlas`      candidate counts of benchmarks
- `known`      what a graph tells of ranks whose files lack it
- `packed`, `structure`, `sources`  its files in the package, and how they are made
- `approximate`  bounds for benchmarks that were not counted
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, TypeAlias

from evenrank._internal.checks import check_type
from evenrank._internal.files import expanded
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.graphs.alignment import is_alignment
from evenrank.graphs.graph import Finding, Graph, Order, Unseen, check_unseen
from evenrank.graphs.layouts import holds_splits, read
from evenrank.graphs.registry import Entry

__all__ = ["Finding", "Graph", "Order", "Place", "Unseen", "load", "where"]

Place: TypeAlias = Literal["bundled", "EVENRANK_DATA", "cache", "download", "numbers only"]


def load(
    path: str | os.PathLike[str],
    *,
    unseen: Unseen = "keep",
    name: str | None = None,
    columns: Order | None = None,
    inference: str | os.PathLike[str] | None = None,
) -> Graph:
    """Load a graph from a folder, from a Parquet file, or a benchmark by its name.

    A benchmark (`evenrank data list`) is looked for in the package, in the folder that the environment
    variable EVENRANK_DATA names, and in the cache. If it is in none of them, it is downloaded into the
    cache and checked.

    Parameters
    ----------
    path : path or str
        A folder in any of the usual layouts (see `evenrank.graphs.layouts`), one Parquet file with a
        column `split`, or the name of a benchmark. Unless the files number the names, they are numbered
        in sorted order, those of the training split first.
    unseen : {"keep", "drop"}, default "keep"
        Whether to keep entities and relations not seen in training, as in `Graph.of`.
    name : str, optional
        Name of the graph. By default the name of the folder, file or benchmark.
    columns : {"hrt", "htr", "rht", "thr", "trh", "rth"}, optional
        The order of the columns in files that do not name them: h head, r relation, t tail. By default
        it is found by the names in them; if they leave a doubt, an error asks for it.
    inference : path or str, optional
        For inductive link prediction: the folder of the inference graph, whose splits are ranked, where
        `path` is that of the training graph. The result is the inference graph; its relations are
        numbered as in training.

    Returns
    -------
    Graph
        The graph.

    Raises
    ------
    InputError
        If there is no such file or benchmark, or a file is damaged.

    Examples
    --------
    >>> load("nations")
    nations
      entities      14
      relations     55
      train      1,592
      valid        199
      test         201
      hash       50109268b93315c3
    """
    check_type(path, str | os.PathLike, "not a path", do="Graph.of takes arrays")
    if name is not None and not isinstance(name, str):
        raise InputError("the name of a graph must be a text", got=repr(name))
    check_unseen(unseen)
    if inference is not None:
        return _pair(path, inference, name, unseen, columns)
    folder = expanded(path)
    entry = registry.lookup(path) if isinstance(path, str) else None
    there = path and os.path.exists(folder)  # Path("") is the folder one is in
    if there and (entry is None or holds_splits(folder) or is_alignment(folder)):
        return _load(folder, name or folder.resolve().name.removesuffix(".parquet"), unseen, columns)
    if entry is None:
        allowed = "a folder, a Parquet file, or a benchmark such as fb15k237 or nations"
        near = registry.near(str(path))
        raise InputError("no such folder or benchmark", got=repr(str(path)), allowed=allowed, do=near)
    name = name or entry.name
    bundled = _bundled(entry)
    if bundled.is_file():
        with as_file(bundled) as file:
            return _load(file, name, unseen, columns)
    own = own_folder(entry)
    if own is not None:
        return _load(own, name, unseen, columns, entry)
    from evenrank.graphs.download import fetch

    return _load(fetch(entry), name, unseen, columns)


def where(entry: Entry) -> Place:
    """Return where `load` would find a benchmark now.

    The user's own folder comes before the cache.

    Parameters
    ----------
    entry : Entry
        A benchmark, as from `registry.find`.

    Returns
    -------
    {"bundled", "EVENRANK_DATA", "cache", "download", "numbers only"}
        "download": it would be downloaded; "numbers only": its size is known, its files are not.

    Examples
    --------
    >>> where(registry.find("nations")), where(registry.find("WikiKG90Mv2"))
    ('bundled', 'numbers only')
    """
    from evenrank.graphs.download import cached

    if _bundled(entry).is_file():
        return "bundled"
    if own_folder(entry) is not None:
        return "EVENRANK_DATA"
    if cached(entry):
        return "cache"
    return "download" if entry.mirrors else "numbers only"


def _pair(
    training: str | os.PathLike[str],
    inference: str | os.PathLike[str],
    name: str | None,
    unseen: Unseen,
    columns: Order | None,
) -> Graph:
    """Load the inference graph of an inductive pair; each is a folder or the name of a benchmark."""
    check_type(inference, str | os.PathLike, "not the path of an inference graph")
    with ExitStack() as opened:
        first, second = (_place(path, opened) for path in (training, inference))
        name = name or second.resolve().name.removesuffix(".parquet")
        return _load(first, name, unseen, columns, inference=second)


def _place(path: str | os.PathLike[str], opened: ExitStack) -> Path:
    """Return the folder or file of a graph, or of a benchmark."""
    folder = expanded(path)
    if path and os.path.exists(folder):
        return folder
    entry = registry.lookup(path) if isinstance(path, str) else None
    if entry is None:
        do = registry.near(str(path))
        raise InputError("no such folder or benchmark", got=repr(str(path)), do=do)
    bundled = _bundled(entry)
    if bundled.is_file():
        return opened.enter_context(as_file(bundled))
    from evenrank.graphs.download import fetch

    return own_folder(entry) or fetch(entry)


def _load(
    path: Path,
    name: str,
    unseen: Unseen,
    columns: Order | None,
    entry: Entry | None = None,
    inference: Path | None = None,
) -> Graph:
    """Read a graph and, for a benchmark, check that it is the published one."""
    if path.is_dir() and is_alignment(path):
        raise InputError(
            f"{path} holds two graphs to align",
            got="links between their entities",
            do="load it with evenrank.graphs.alignment.Alignment.load",
        )
    found = read(path, columns, inference)
    graph = Graph.of(found.splits, entities=found.entities, relations=found.relations, name=name)
    times = {split: found.times[split] for split in graph.splits if split in found.times}
    graph = replace(graph, remarks=found.remarks, times=times, instants=found.instants)
    if entry is not None:
        registry.check(entry, graph, path)
    return graph if unseen == "keep" else graph.drop_unseen()


def _bundled(entry: Entry) -> Traversable:
    return files(__name__) / "bundled" / f"{entry.name}.parquet"


def own_folder(entry: Entry) -> Path | None:
    """Find the folder of a benchmark under EVENRANK_DATA, by any of its names."""
    given = os.environ.get("EVENRANK_DATA")
    if not given:
        return None
    root = expanded(given)
    if not root.is_dir():
        raise InputError("EVENRANK_DATA must name a folder", got=repr(given))
    keys = set(map(registry.key, entry.names))
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    found = [path for path in folders if registry.key(path.name) in keys]
    found += [root / alias for alias in entry.aliases if "/" in alias and (root / alias).is_dir()]
    if len(found) > 1:
        got = " and ".join(path.relative_to(root).as_posix() for path in found)
        raise InputError(f"{root}: several folders for {entry.title}", got=got, do="keep one of them")
    return found[0] if found else None
