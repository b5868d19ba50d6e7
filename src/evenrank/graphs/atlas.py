"""The atlas: the number of candidates of each target of a benchmark, counted once and stored.

A candidate count includes the target itself. A query with `k` known true answers among `E` entities
leaves each of its targets `E - k + 1` candidates: the target, and every entity that is not a known
answer. The null distribution of any metric depends on nothing else of a data set, so a histogram of
these counts determines it exactly.

The file of the package, and the user's own, hold a row per distinct count:

| column              |                                                                              |
|---------------------|------------------------------------------------------------------------------|
| data                | name of the data set                                                         |
| unseen              | whether entities not seen in training are kept: keep or drop                 |
| entities, relations | their numbers under that rule                                                |
| split, side         | the split whose triples are ranked, and the side that is asked for           |
| candidates, count   | number of candidates, filtered by all splits, and of targets that have it    |

What follows from these rows is not stored: raw, every target has all entities as candidates; both sides
are the sum of the two; the number of triples of a split is the sum of the counts of one side. The
package has the same counts as JSON as well, which is read without polars, whose import takes a while.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache, partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import expanded, locked, replacing
from evenrank._internal.reading import read_parquet, translated
from evenrank.errors import InputError, Option
from evenrank.graphs import registry, structure
from evenrank.graphs.graph import Graph, Unseen, check_unseen
from evenrank.metrics.chance import Dependence
from evenrank.metrics.tally import Histogram

if TYPE_CHECKING:
    import polars as pl

Sides = Literal["head", "tail", "both"]
Filter: TypeAlias = Literal["all"] | None
ENDS = {"head": (2, 0), "tail": (0, 2)}  # columns of a triple: the given one, the one asked for
COLUMNS = ("data", "unseen", "entities", "relations", "split", "side", "candidates", "count")
TEXTS = ("data", "unseen", "split", "side")
MOST = 10**15  # triples of a data set, so that sums of counts do not overflow
REBUILD = "delete it, and build its data sets again"
FILE = "atlas.parquet"
LIGHT = "atlas.json.gz"
FOLDER = "EVENRANK_ATLAS"


class Facts(NamedTuple):
    """The sizes of a data set.

    Parameters
    ----------
    data : str
        Name of the data set.
    entities, relations : int
        Their numbers.
    triples : dict of str to int
        Number of triples of each split.
    """

    data: str
    entities: int
    relations: int
    triples: dict[str, int]


def _dependence(
    data: str | Graph,
    name: str,
    split: str,
    sides: Sides,
    filter: Filter,  # noqa: A002  # the field's word
    unseen: Unseen,
) -> Dependence | None:
    """Describe which ranks depend on each other; None if the atlas does not know."""
    if not isinstance(data, Graph):
        return structure.of_benchmark(name, split, sides, filter, unseen)
    graph = _drop(data) if unseen == "drop" else data
    return structure.of_graph(graph, split, sides, filter)


def atlas(
    data: str | Graph,
    split: str = "test",
    sides: Sides = "both",
    *,
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
) -> Histogram:
    """Return the numbers of candidates of a data set's targets, which determine its chance levels.

    Parameters
    ----------
    data : str or Graph
        The name of a data set of the atlas (`evenrank atlas list`), or a graph, which is counted now.
    split : str, default "test"
        The split whose triples are ranked.
    sides : {"head", "tail", "both"}, default "both"
        The sides that are predicted.
    filter : {"all", None}, default "all"
        "all" filters out the known true answers of all splits; None ranks raw.
    unseen : {"keep", "drop"}, default "keep"
        "drop" leaves out entities and relations not seen in training, as PyKEEN does.

    Returns
    -------
    Histogram
        The distinct numbers of candidates and how many targets have each, for `er.chance`.

    Raises
    ------
    InputError
        If the atlas lacks the data set, or an argument is invalid.

    Examples
    --------
    >>> import evenrank as er
    >>> er.atlas("WN18RR")
    Histogram(candidates, weight: 107 distinct of 6,268)
    >>> er.chance("mrr", er.atlas("WN18RR")).mean()
    0.000273...
    """
    check_choice("sides", sides, get_args(Sides))
    if filter is not None and not (isinstance(filter, str) and filter == "all"):
        raise InputError("unknown filter", got=repr(filter), allowed="'all', or None for raw")
    counts = _counts(data, unseen)
    if not isinstance(split, str) or split not in counts.splits:
        raise InputError(
            f"{data.name if isinstance(data, Graph) else data} has no triples in this split",
            got=repr(split),
            allowed=", ".join(counts.splits),
        )
    rows = [row for side in ENDS if sides in (side, "both") for row in counts.splits[split][side]]
    size, count = np.array(rows, dtype=np.int64).T
    if filter is None:
        size = np.full(len(rows), counts.entities)
    sizes = Histogram.of(count, candidates=size, weight=np.ones(len(rows)))
    known = partial(_dependence, data, counts.data, split, sides, filter, unseen)
    return sizes.knowing(known)


def facts(data: str | Graph, *, unseen: Unseen = "keep") -> Facts:
    """Return the sizes of a data set.

    Parameters
    ----------
    data : str or Graph
        The name of a data set of the atlas, or a graph.
    unseen : {"keep", "drop"}, default "keep"
        As in `atlas`.

    Returns
    -------
    Facts
        The numbers of entities and relations, and of the triples of each split.

    Raises
    ------
    InputError
        If the atlas lacks the data set.

    Examples
    --------
    >>> facts("wn18rr", unseen="drop")
    Facts(data='wn18rr', entities=40559, relations=11,
          triples={'train': 86835, 'valid': 2824, 'test': 2924})
    """
    counts = _counts(data, unseen)
    triples = {split: sum(n for _, n in sides["tail"]) for split, sides in counts.splits.items()}
    return Facts(counts.data, counts.entities, counts.relations, triples)


def names() -> list[str]:
    """List the data sets of the atlas: those of the package, then the user's own.

    Returns
    -------
    list of str
        Their names.

    Examples
    --------
    >>> "wn18rr" in names()
    True
    """
    return [*_light(), *(_names(_own()) if own_file().exists() else ())]


def _names(rows: pl.DataFrame) -> list[str]:
    return rows["data"].unique(maintain_order=True).to_list()


class _Counts(NamedTuple):
    """The rows of one data set: candidates and count, by split and side."""

    data: str
    entities: int
    relations: int
    splits: dict[str, dict[str, list[tuple[int, int]]]]


def _counts(data: str | Graph, unseen: Unseen) -> _Counts:
    """Return the counts of one data set, with or without entities not seen in training."""
    check_unseen(unseen)
    if isinstance(data, Graph):
        graph = _drop(data) if unseen == "drop" else data
        kinds = _by_name(_count(graph, graph.name)).get(graph.name, {})
        none = _Counts(graph.name, len(graph.entities), len(graph.relations), {})
        return next(iter(kinds.values()), none)
    check_type(data, str, "not a data set", allowed="a name, or a Graph")
    name = _find(data, _light())
    if name is not None:
        return _light()[name][unseen]
    if own_file().exists():  # read only for names that the package lacks
        own = _by_name(_own())
        name = _find(data, own)
        if name is not None:
            return own[name][unseen]
    raise _unknown(data)


def _by_name(rows: pl.DataFrame) -> dict[str, dict[str, _Counts]]:
    """Group rows of the atlas by data set and treatment of unseen entities."""
    found: dict[str, dict[str, _Counts]] = {}
    for data, unseen, entities, relations, split, side, candidates, count in rows.iter_rows():
        kinds = found.setdefault(data, {})
        one = kinds.setdefault(unseen, _Counts(data, entities, relations, {}))
        one.splits.setdefault(split, {}).setdefault(side, []).append((candidates, count))
    return found


def _unknown(name: str) -> InputError:
    """Build the error for a name that the atlas lacks."""
    entry = registry.lookup(name)
    if entry is not None:
        do = f"add them by `evenrank atlas build FOLDER --name {entry.name}`"
        return InputError("the atlas has no candidate counts of this data set", got=entry.title, do=do)
    known = {registry.key(name): name for name in names()}
    close = [known[key] for key in get_close_matches(registry.key(name), known, 3, 0.5)]
    do = f"did you mean {' or '.join(close)}?" if close else "see `evenrank atlas list`"
    if name and os.path.isdir(name):
        do = f"add your own graph by `evenrank atlas build {name}`"
    return InputError("the atlas has no such data set", got=repr(name), do=do)


def _find(name: str, names: Iterable[str]) -> str | None:
    """Find a data set by its name, in any usual spelling."""
    return next((known for known in names if _key(known) == _key(name)), None)


def _key(name: str) -> str:
    entry = registry.lookup(name)
    return registry.key(entry.name if entry else name)


# Counting -----------------------------------------------------------------------------------------


def build(graph: Graph, name: str | None = None) -> pl.DataFrame:
    """Count the candidates of every target of a graph, with and without entities not seen in training.

    Parameters
    ----------
    graph : Graph
        A graph with `unseen="keep"`.
    name : str, optional
        Name of the data set. By default that of the graph.

    Returns
    -------
    polars.DataFrame
        Rows of the atlas.

    Raises
    ------
    InputError
        If the graph has dropped entities.

    Examples
    --------
    >>> graph = Graph.of([[0, 0, 1], [0, 0, 2]], test=[[1, 0, 2]])
    >>> rows = build(graph, "toy").filter(unseen="keep", split="train")
    >>> rows.select("side", "candidates", "count").rows()
    [('head', 2, 1), ('head', 3, 1), ('tail', 2, 2)]
    """
    import polars as pl

    check_type(graph, Graph, "the atlas is built from Graphs", do="use er.load")
    if graph.unseen == "drop":
        raise InputError(
            "the atlas counts candidates with and without entities not seen in training",
            got="a graph without them",
            do=["load it with ", Option("unseen", "keep")],
        )
    called = graph.name if name is None else name
    entry = registry.lookup(called)
    rules = (graph, _drop(graph))
    return pl.concat([_count(one, entry.name if entry else called) for one in rules])


def _drop(graph: Graph) -> Graph:
    return Graph.of(
        graph.splits, entities=graph.entities, relations=graph.relations, name=graph.name, unseen="drop"
    )


def _count(graph: Graph, name: str) -> pl.DataFrame:
    """Count the candidates of every target of a graph."""
    import polars as pl

    def rows(side: str, split: str, candidates: Ints) -> pl.DataFrame:
        sizes = Histogram.of(candidates=candidates)
        values: dict[str, Any] = {
            "data": name,
            "unseen": graph.unseen,
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "split": split,
            "side": side,
            "candidates": sizes["candidates"],
            "count": sizes.counts,
        }
        return pl.DataFrame(values, schema=_schema())

    return pl.concat(
        [
            rows(side, split, candidates)
            for side in ENDS
            for split, candidates in _candidates(graph, side).items()
        ]
    )


def _candidates(graph: Graph, side: str) -> dict[str, Ints]:
    """Count the candidates of each triple on a side, by split."""
    given, asked = ENDS[side]
    entities, triples = len(graph.entities), np.concatenate(list(graph.splits.values()))
    # numbered, so that the next product cannot overflow
    _, query = np.unique(triples[:, 1] * entities + triples[:, given], return_inverse=True)
    answers = np.sort(query * entities + triples[:, asked])  # np.unique hashes: 140 ms, not 15
    # a duplicate triple is one known answer
    known = np.bincount(answers[np.diff(answers, prepend=-1) > 0] // entities)
    ends = np.cumsum([len(part) for part in graph.splits.values()])
    return dict(zip(graph.splits, np.split(entities - known[query] + 1, ends[:-1]), strict=True))


# Files --------------------------------------------------------------------------------------------


def write(tables: Sequence[pl.DataFrame], path: Path) -> None:
    """Write a file of the atlas atomically, data sets in the order of their names."""
    import polars as pl

    keys: dict[str, str] = {}
    for name in (name for rows in tables for name in _names(rows)):
        if not _key(name):
            raise InputError("a data set needs a name", got=repr(name), allowed="letters and digits")
        if _key(name) in keys:
            raise InputError("two data sets have the same name", got=f"{keys[_key(name)]}, {name}")
        keys[_key(name)] = name
    rows = pl.concat(tables).sort("data", maintain_order=True)
    with replacing(path) as file:
        rows.write_parquet(file, compression="zstd", compression_level=19)


def add(tables: Sequence[pl.DataFrame]) -> Path:
    """Add data sets to the user's own atlas; they replace those of the same name.

    Parameters
    ----------
    tables : sequence of polars.DataFrame
        Rows of the data sets, as from `build`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If a name is taken by the atlas of the package, or the file cannot be written.
    """
    import polars as pl

    names, path = [name for rows in tables for name in _names(rows)], own_file()
    for name in names:
        if _find(name, _light()):
            what = "the atlas of the package has a data set of this name"
            raise InputError(what, got=repr(name), do="choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):  # no other process may write between reading and writing
            kept = _own()
            for name in names:
                kept = kept.filter(pl.col("data") != (_find(name, _names(kept)) or name))
            write([kept, *tables], path)
    except OSError as error:
        raise InputError(
            f"cannot write to {path.parent}", got=error.strerror, do=f"set {FOLDER} to another folder"
        ) from None
    return path


def own_file() -> Path:
    """Return the path of the user's own atlas: in EVENRANK_ATLAS, else in the user's data folder.

    Returns
    -------
    Path
        The file, which may not exist.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        return expanded(folder) / FILE
    from platformdirs import user_data_path

    return user_data_path("evenrank", appauthor=False) / FILE


@cache
def _light() -> dict[str, dict[str, _Counts]]:
    content = json.loads(gzip.decompress((files("evenrank.graphs") / LIGHT).read_bytes()))
    return {
        data: {unseen: _Counts(*one) for unseen, one in kinds.items()} for data, kinds in content.items()
    }


def write_structure(graphs: Sequence[Graph]) -> None:
    """Write which ranks depend on each other, for the data sets of the package."""
    entries = [(registry.lookup(graph.name), graph) for graph in graphs]
    named = [(entry.name if entry else graph.name, graph, _drop(graph)) for entry, graph in entries]
    with as_file(files("evenrank.graphs") / FILE) as path:
        structure.write(named, path.with_name(structure.FILE))


def write_light() -> None:
    """Write the counts of the package as JSON, after its Parquet file was built."""
    with as_file(files("evenrank.graphs") / FILE) as path:
        text = json.dumps(_by_name(_read(path)), separators=(",", ":"))
        path.with_name(LIGHT).write_bytes(gzip.compress(text.encode(), mtime=0))


def _own() -> pl.DataFrame:
    import polars as pl

    path = own_file()
    return _read(path) if path.exists() else pl.DataFrame(schema=_schema())


def _read(path: Path) -> pl.DataFrame:
    """Read a file of the atlas, and check it."""
    import polars as pl

    rows = read_parquet(path, path, do=REBUILD)
    with translated(path, do=REBUILD):
        if dict(rows.schema) != _schema():
            raise ValueError(f"columns {', '.join(rows.columns)}")
        sound = {
            "impossible counts": pl.col("candidates").is_between(1, pl.col("entities"))
            & pl.col("count").is_between(1, MOST)
            & pl.col("relations").is_between(1, MOST),
            "unknown words": pl.col("unseen").is_in(get_args(Unseen)) & pl.col("side").is_in(list(ENDS)),
            "names without letters": pl.col("data").str.contains(r"\w")
            & pl.col("split").str.contains(r"\w"),
            "data sets without one of the treatments of unseen entities": pl.col("unseen")
            .n_unique()
            .over("data")
            == len(get_args(Unseen)),
            "splits without one of the sides": pl.col("side").n_unique().over("data", "unseen", "split")
            == len(ENDS),
            "different sizes of a data set": pl.struct("entities", "relations")
            .n_unique()
            .over("data", "unseen")
            == 1,
        }
        for what, holds in sound.items():
            if not rows.select(holds.fill_null(False).all()).item():
                raise ValueError(what)
    return rows


def _schema() -> dict[str, type[pl.DataType]]:
    import polars as pl

    return {name: pl.String if name in TEXTS else pl.Int64 for name in COLUMNS}
