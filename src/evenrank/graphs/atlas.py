"""The atlas: the number of candidates of each target of a benchmark, counted once and stored.

A candidate count includes the target itself. A query with `k` known true answers among `E` entities
leaves each of its targets `E - k + 1` candidates: the target, and every entity that is not a known
answer. The null distribution of any metric depends on nothing else of a data set, so a histogram of
these counts determines it exactly.

The package holds its counts packed (`evenrank.graphs.packed`). The user's own atlas is a Parquet file
with a row per distinct count:

| column              |                                                                              |
|---------------------|------------------------------------------------------------------------------|
| data                | name of the data set                                                         |
| unseen              | whether entities not seen in training are kept: keep or drop                 |
| entities, relations | the numbers of entities and relations for this value of `unseen`             |
| split, side         | the split whose triples are ranked, and the side that is predicted           |
| candidates, count   | number of candidates, filtered by all splits, and of targets that have it    |

What follows from these rows is not stored: in raw ranking, all entities are candidates of every target;
counts of both sides are the sum of the two; the number of triples of a split is the sum of the counts of
one side.

Data sets that were not counted, but whose sizes are known, are approximated
(`evenrank.graphs.approximate`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import changing, replacing, user_file
from evenrank._internal.reading import read_parquet, translated
from evenrank.errors import InputError, Option
from evenrank.graphs import approximate, registry, structure
from evenrank.graphs.graph import SPLITS, Graph, Unseen, check_unseen
from evenrank.graphs.packed import Counts, Kinds, packaged
from evenrank.metrics.chance import Dependence
from evenrank.metrics.tally import Histogram
from evenrank.ranks import presets

if TYPE_CHECKING:
    import polars as pl

Sides = Literal["head", "tail", "both"]
Filter: TypeAlias = Literal["all"] | None
TimeFilter: TypeAlias = Literal["aware", "agnostic"]
INFERENCE = "-ind"  # after the name of an inductive data set: its inference graph
AGNOSTIC = "-agnostic"  # after the name of a temporal data set whose filter does not look at times
ENDS = {"head": (2, 0), "tail": (0, 2)}  # columns of a triple: the given one, the one asked for
COLUMNS = ("data", "unseen", "entities", "relations", "split", "side", "candidates", "count")
TEXTS = ("data", "unseen", "split", "side")
MOST = 10**15  # triples of a data set, so that sums of counts do not overflow
REBUILD = "delete it, and build its data sets again"
FILE = "atlas.parquet"
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
    time: TimeFilter | None = None,
) -> Dependence | None:
    """Describe which ranks depend on each other; None if the atlas does not know."""
    if not isinstance(data, Graph):
        return structure.of_benchmark(name, split, sides, filter, unseen)
    graph = data.drop_unseen() if unseen == "drop" else data
    return structure.of_graph(graph, split, sides, filter, time if graph.times else None)


def atlas(
    data: str | Graph,
    split: str = "test",
    sides: Sides = "both",
    *,
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    protocol: presets.Name | None = None,
    time: TimeFilter | None = None,
) -> Histogram:
    """Return the numbers of candidates of a data set, which determine its chance levels.

    If a data set was not counted, its numbers of candidates are approximated by its number of entities;
    `bounds` gives their limits. Once its files are in the folder that EVENRANK_DATA names, or in the
    cache, they are counted, and the result is exact.

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
    protocol : str, optional
        The protocol of another library, such as "grail", which ranks among 50 sampled negatives
        (`evenrank.ranks.presets`). It determines `filter` and `unseen`.
    time : {"aware", "agnostic"}, optional
        For temporal data sets: whether to filter known true answers at the time of the query only
        ("aware", the default), or at any time ("agnostic"). The time-agnostic counts also have a name of
        their own, such as "icews14-agnostic".

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
    >>> er.chance("hits@10", er.atlas("wn18rr-v1-ind", protocol="grail")).mean() * 51
    10.0
    """
    check_choice("sides", sides, get_args(Sides))
    if filter is not None and not (isinstance(filter, str) and filter == "all"):
        raise InputError("unknown filter", got=repr(filter), allowed="'all', or None for raw")
    rules = None if protocol is None else presets.preset(protocol)
    if time is not None:
        check_choice("time", time, get_args(TimeFilter))
    data = _at_hand(data)
    if time is not None and isinstance(data, str):
        data = _timed(data, time)
    if rules is not None:
        filter, unseen = "all", rules.unseen  # noqa: A001
    counts = _counts(data, unseen, time or "aware")
    if not isinstance(split, str) or split not in counts.splits:
        raise InputError(
            f"{data.name if isinstance(data, Graph) else data} has no triples in this split",
            got=repr(split),
            allowed=", ".join(counts.splits),
        )
    if rules is not None and isinstance(data, Graph):
        graph = data.drop_unseen() if unseen == "drop" else data
        task = graph.task(split, sides=sides, protocol=rules.name, time=time)
        sizes = Histogram.of(candidates=task.candidates, weight=np.ones(len(task)))
        return sizes if rules.negatives is not None else sizes.knowing(task.dependence)
    rows = [row for side in ENDS if sides in (side, "both") for row in counts.splits[split][side]]
    size, count = np.array(rows, dtype=np.int64).T
    if filter is None:
        size = np.full(len(rows), counts.entities if counts.raw is None else counts.raw)
    if rules is not None:
        _check_protocol(rules, counts, split)
        if rules.negatives is not None:
            _check_negatives(rules, rules.negatives, counts.data, int(size.min()))
            size = np.full(len(rows), rules.negatives + 1)
            return Histogram.of(count, candidates=size, weight=np.ones(len(rows)))
    sizes = Histogram.of(count, candidates=size, weight=np.ones(len(rows)))
    known = partial(_dependence, data, counts.data, split, sides, filter, unseen, time)
    return sizes.knowing(known)


def _check_protocol(rules: presets.Preset, counts: Counts, split: str) -> None:
    """Check that the atlas has the numbers of candidates of a library's protocol."""
    data = counts.data
    entry = registry.lookup(_bare(data).removesuffix(AGNOSTIC))
    if rules.time == "aware" and data.endswith(AGNOSTIC):
        raise InputError(
            f"the protocol {rules.name} filters known answers at the time of the query",
            got=data,
            do=f"name {data.removesuffix(AGNOSTIC)}",
        )
    if rules.known == "given" and (entry is None or entry.candidates is None):
        raise InputError(
            f"the protocol {rules.name} ranks among candidates that come with the data",
            got=data,
            do="pass their numbers as sizes",
        )
    do = "count a graph by graph.task(split, protocol=...).candidates"
    own = rules.filters(split, dict.fromkeys((*SPLITS, *counts.splits)))
    if rules.known == "earlier" and not set(counts.splits) <= set(own):
        raise InputError(
            f"the protocol {rules.name} filters {split} by {', '.join(own)}, the atlas by all splits",
            got=f"split {split} of {data}, which has {', '.join(counts.splits)}",
            do=do,
        )
    if rules.once and entry is not None and entry.duplicates:
        raise InputError(
            f"the protocol {rules.name} ranks duplicate triples once, the atlas each of them",
            got=f"{entry.duplicates} in {data}",
            do=["leave out the protocol, and pass ", Option("unseen", rules.unseen), f"; or {do}"],
        )


def _check_negatives(rules: presets.Preset, negatives: int, data: str, least: int) -> None:
    """Check that each target has as many negatives as the protocol samples.

    Known answers of the training split alone are filtered, so that there may be more negatives than the
    atlas counts. In the inference graphs of GraIL, there always are.
    """
    if least <= negatives and not data.endswith(INFERENCE):
        raise InputError(
            f"the protocol {rules.name} samples {negatives} negatives, and some targets may have fewer",
            got=f"{least - 1} for a target of {data}",
            do="count a graph by graph.task(split, protocol=...).candidates",
        )


def bounds(
    data: str,
    *,
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    protocol: presets.Name | None = None,
) -> approximate.Bounds | None:
    """Bound the numbers of candidates of a data set that are only approximate.

    Parameters
    ----------
    data : str
        The name of a data set.
    filter, unseen, protocol
        As in `atlas`. In raw ranking, and among sampled negatives, the numbers are exact.

    Returns
    -------
    Bounds or None
        The fewest and the most candidates of each target; None if the numbers are exact.

    Examples
    --------
    >>> bounds("YAGO3-10")
    Bounds(least=24638, most=123182)
    >>> bounds("YAGO3-10", filter=None)
    >>> bounds("wn18rr")
    """
    if protocol is not None:
        rules = presets.preset(protocol)
        if rules.negatives is not None:
            return None
        filter, unseen = "all", rules.unseen  # noqa: A001
    found = _at_hand(data)
    if isinstance(found, Graph) or not _counts(found, unseen).data.endswith(approximate.SUFFIX):
        return None
    entry = registry.find(_bare(data))
    exact = filter is None and approximate.has_sizes(entry, unseen)
    return None if exact else approximate.bounds(entry, unseen)


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
    data = _at_hand(data)
    counts = _counts(data, unseen)
    triples = {split: sum(n for _, n in sides["tail"]) for split, sides in counts.splits.items()}
    entry = None if "train" in triples or isinstance(data, Graph) else registry.lookup(_bare(data))
    if entry is not None:  # the training triples are known, but not the candidates of each
        triples = {split: triples.get(split, n) for split, n in entry.splits.items()}
    return Facts(counts.data, counts.entities, counts.relations, triples)


def label(
    data: str,
    *,
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    protocol: presets.Name | None = None,
) -> str:
    """Return the name of a data set, marked where its numbers of candidates are approximated.

    Parameters
    ----------
    data : str
        The name of a data set, in any usual spelling.
    filter, unseen, protocol
        As in `atlas`.

    Returns
    -------
    str
        The name for a protocol.

    Examples
    --------
    >>> label("YAGO3-10"), label("YAGO3-10", filter=None), label("WN18RR")
    ('yago310 (approximate)', 'yago310', 'wn18rr')
    """
    name = facts(data, unseen=unseen).data
    known = bounds(data, filter=filter, unseen=unseen, protocol=protocol)
    return name if known is not None else _bare(name)


def splits(data: str | Graph, *, unseen: Unseen = "keep") -> list[str]:
    """List the splits of a data set whose numbers of candidates are known.

    Parameters
    ----------
    data : str or Graph
        The name of a data set, or a graph.
    unseen : {"keep", "drop"}, default "keep"
        As in `atlas`.

    Returns
    -------
    list of str
        Their names.

    Raises
    ------
    InputError
        If the atlas lacks the data set.

    Examples
    --------
    >>> splits("wn18rr"), splits("fb15k")
    (['train', 'valid', 'test'], ['valid', 'test'])
    """
    return list(_counts(_at_hand(data), unseen).splits)


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
    return [*packaged(), *(_names(_own()) if own_file().exists() else ())]


def approximations() -> list[str]:
    """List the data sets whose numbers of candidates follow from their sizes: exactly, or approximately.

    Returns
    -------
    list of str
        Their names.

    Examples
    --------
    >>> "yago310" in approximations()
    True
    """
    counted = {*map(_key, names())}
    return [
        entry.name
        for entry in registry.entries().values()
        if registry.key(entry.name) not in counted and approximate.counts(entry) is not None
    ]


def _bare(name: str) -> str:
    """Return the name of a data set without the mark of an approximation."""
    return name.removesuffix(approximate.SUFFIX)


def _at_hand(data: str | Graph) -> str | Graph:
    """Return the graph of a data set that was not counted, if its files are at hand; else the name."""
    if not isinstance(data, str):
        return data
    entry = registry.lookup(_bare(data))
    if entry is None or entry.candidates is not None or entry.name in packaged():
        return data
    if _find(entry.name, names()):  # the user's own, which is not read for what the package has
        return data
    from evenrank.graphs import where

    place = where(entry)
    if place not in ("EVENRANK_DATA", "cache"):
        return data
    return _loaded(entry.name, *map(os.environ.get, ("EVENRANK_DATA", "EVENRANK_CACHE")))


@lru_cache(maxsize=2)
def _loaded(name: str, *_folders: str | None) -> Graph:
    """Load a graph once while the folders that are looked through are the same."""
    from evenrank.graphs import load

    return load(name)


def _names(rows: pl.DataFrame) -> list[str]:
    return rows["data"].unique(maintain_order=True).to_list()


def _timed(data: str, time: TimeFilter) -> str:
    """Return the name of a temporal data set with one of the two filters."""
    name = _bare(data).removesuffix(AGNOSTIC)
    if _find(name + AGNOSTIC, packaged()) is None and _find(name + AGNOSTIC, names()) is None:
        raise InputError(
            "the atlas has no counts by time for this data set", got=data, do="leave out time"
        )
    return name + AGNOSTIC * (time == "agnostic")


def _counts(data: str | Graph, unseen: Unseen, time: TimeFilter = "aware") -> Counts:
    """Return the counts of one data set, with or without entities not seen in training."""
    check_unseen(unseen)
    if isinstance(data, Graph):
        graph = data.drop_unseen() if unseen == "drop" else data
        kinds = by_name(_count(graph, graph.name, time)).get(graph.name, {})
        none = Counts(graph.name, len(graph.entities), len(graph.relations), {})
        return next(iter(kinds.values()), none)
    check_type(data, str, "not a data set", allowed="a name, or a Graph")
    data = _bare(data)
    name = _find(data, packaged())
    if name is not None:
        return packaged()[name][unseen]
    if own_file().exists():  # read only for names that the package lacks
        own = by_name(_own())
        name = _find(data, own)
        if name is not None:
            return own[name][unseen]
    entry = registry.lookup(data)
    found = None if entry is None else approximate.counts(entry, unseen)
    if found is None:
        raise _unknown(data)
    return found


def by_name(rows: pl.DataFrame) -> dict[str, Kinds]:
    """Group rows of the atlas by data set and treatment of unseen entities."""
    found: dict[str, Kinds] = {}
    for data, unseen, entities, relations, split, side, candidates, count in rows.iter_rows():
        kinds = found.setdefault(data, {})
        one = kinds.setdefault(unseen, Counts(data, entities, relations, {}))
        one.splits.setdefault(split, {}).setdefault(side, []).append((candidates, count))
    return found


def _unknown(name: str) -> InputError:
    """Build the error for a name that the atlas lacks."""
    entry = registry.lookup(name)
    if entry is not None:
        sizes = Option("sizes", {entry.entities: 1000}, typed=f"{entry.entities}x1000")
        return InputError(
            "only the number of entities of this data set is known",
            got=f"{entry.title}, with {entry.entities:,} entities",
            do=[
                "adjust and chance take ",
                sizes,
                " for that many candidates of each of 1,000 targets; for exact numbers, get the files "
                f"from {entry.source} and count them by `evenrank atlas build FOLDER`",
            ],
        )
    known = {registry.key(name): name for name in names()}
    close = [known[key] for key in get_close_matches(registry.key(name), known, 3, 0.5)]
    do: list[str | Option] = [f"add your own graph by `evenrank atlas build {name}`"]
    if not name or not os.path.isdir(name):
        first = f"did you mean {' or '.join(close)}? Or" if close else "see `evenrank atlas list`, or"
        do = [
            f"{first} count the files of a graph by `evenrank atlas build FOLDER`; adjust and chance "
            "also take numbers of candidates, as in ",
            Option("sizes", {14541: 40932}, typed="14541x40932"),
        ]
    return InputError("the atlas has no such data set", got=repr(name), do=do)


def _find(name: str, names: Iterable[str]) -> str | None:
    """Find a data set by its name, in any usual spelling."""
    return next((known for known in names if _key(known) == _key(name)), None)


def _key(name: str) -> str:
    entry = registry.lookup(name)
    if entry is None and registry.key(name).endswith(registry.key(AGNOSTIC)):
        bare = registry.key(name).removesuffix(registry.key(AGNOSTIC))
        entry = registry.lookup(bare)
        return registry.key((entry.name if entry else bare) + AGNOSTIC)
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
        If the graph was loaded with ``unseen="drop"``.

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
    called = entry.name if entry else called
    rules = (graph, graph.drop_unseen())
    tables = [_count(one, called) for one in rules]
    if graph.times:
        tables += [_count(one, called + AGNOSTIC, "agnostic") for one in rules]
    return pl.concat(tables)


def _count(graph: Graph, name: str, time: TimeFilter = "aware") -> pl.DataFrame:
    """Count the candidates of every target of a graph; in a temporal one, with this filter by time."""
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
            for split, candidates in _candidates(graph, side, time).items()
        ]
    )


def _candidates(graph: Graph, side: str, time: TimeFilter = "aware") -> dict[str, Ints]:
    """Count the candidates of each triple on a side, by split."""
    given, asked = ENDS[side]
    entities, triples = len(graph.entities), np.concatenate(list(graph.splits.values()))
    queries = triples[:, 1] * entities + triples[:, given]
    if graph.times and time == "aware":  # queries at different times are different ones
        times = np.concatenate([graph.times[split] for split in graph.splits])
        queries = np.unique(np.column_stack([queries, times]), axis=0, return_inverse=True)[1].ravel()
    # numbered, so that the next product cannot overflow
    _, query = np.unique(queries, return_inverse=True)
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
        if _find(name, packaged()):
            what = "the atlas of the package has a data set of this name"
            raise InputError(what, got=repr(name), do="choose another name")
    with changing(path, FOLDER):
        kept = _own()
        for name in names:
            kept = kept.filter(pl.col("data") != (_find(name, _names(kept)) or name))
        write([kept, *tables], path)
    return path


def own_file() -> Path:
    """Return the path of the user's own atlas: in EVENRANK_ATLAS, else in the user's data folder.

    Returns
    -------
    Path
        The file, which may not exist.
    """
    return user_file(FOLDER, FILE)


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
