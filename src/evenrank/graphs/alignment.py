"""Entity alignment: links between the entities of two graphs, and the task to find them.

The layouts are those of DBP15K (JAPE, GCN-Align) and of OpenEA:

| files                                  |                                                             |
|----------------------------------------|-------------------------------------------------------------|
| `ent_ids_1`, `ent_ids_2`               | id, tab, name of the entities of the two graphs             |
| `triples_1`, `triples_2`               | head, relation, tail ids                                    |
| `sup_ent_ids`, `ref_ent_ids`           | links for training and for testing, pairs of ids            |
| `ref_ent_ids` alone, or `ill_ent_ids`  | all links: the share `train` is drawn for training          |
| `rel_triples_1`, `rel_triples_2`       | OpenEA: head, relation, tail names                          |
| `train_links`, `valid_links`, `test_links`, or `ent_links` alone | OpenEA: pairs of names            |

Each may be gzipped. Results are usually ranked among the entities of the test links alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import expanded
from evenrank._internal.reading import content, translated
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.graphs.text import Table, read_text
from evenrank.ranks.lists import Lists
from evenrank.ranks.protocol import All, Described, Protocol
from evenrank.ranks.task import HOLE, Task

Sides: TypeAlias = Literal["both", "target", "source"]
Among: TypeAlias = Literal["links", "all"]
IDS = ("ent_ids_1", "ent_ids_2")
TRIPLES = (("triples_1", "triples_2"), ("rel_triples_1", "rel_triples_2"))
LINKS = {
    "sup_ent_ids": "train",
    "sup_pairs": "train",
    "train_links": "train",
    "valid_links": "valid",
    "test_links": "test",
    "ref_ent_ids": "test",
    "ref_pairs": "test",
}
ALL_LINKS = ("ill_ent_ids", "ent_links")
SHARE = 0.3


@final
@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """Two graphs, and links between their entities.

    Build one by `Alignment.of`, or read files by `Alignment.load`.

    Parameters
    ----------
    name : str
        Name of the data set.
    source, target : tuple of str
        Names of the entities of the two graphs.
    links : dict of str to array of int
        For each split, pairs of equivalent entities: the positions of a source and a target.
    relations : int, optional
        Number of relations of both graphs, if it is known.
    remarks : tuple of str, default ()
        Notes on the files, such as the number of entities with several links.

    Examples
    --------
    >>> links = {"train": [[0, 0]], "test": [[1, 1], [2, 2]]}
    >>> data = Alignment.of(links, source=["Rom", "Bonn", "Ulm"], target=["Rome", "Bonn", "Ulm", "Oslo"])
    >>> data
    alignment: 3 and 4 entities; links: train 1, test 2
    >>> data.task().candidates.tolist()
    [2, 2, 2, 2]
    """

    name: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    links: dict[str, Ints] = field(default_factory=dict)
    relations: int | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        links: Mapping[str, ArrayLike],
        *,
        source: int | list[str] | tuple[str, ...],
        target: int | list[str] | tuple[str, ...],
        name: str = "alignment",
        relations: int | None = None,
    ) -> Self:
        """Build an alignment from arrays of links.

        Parameters
        ----------
        links : mapping of str to array_like of int
            For each split, rows of the positions of a source and its target.
        source, target : int or list of str
            The entities of the two graphs: their names, or their number.
        name : str, default "alignment"
            Name of the data set.
        relations : int, optional
            Number of relations of both graphs.

        Returns
        -------
        Alignment
            The alignment. `remarks` say how many entities have several links.

        Raises
        ------
        InputError
            If the links are not pairs of positions.
        """
        check_type(links, Mapping, "links are arrays by the names of splits")
        first, second = (
            tuple(map(str, range(given))) if isinstance(given, int) else tuple(given)
            for given in (source, target)
        )
        checked = {
            str(split): _pairs(str(split), pairs, [first, second]) for split, pairs in links.items()
        }
        if not any(len(pairs) for pairs in checked.values()):
            raise InputError("an alignment needs links", got=", ".join(checked) or "no splits")
        return cls(name, first, second, checked, relations, _several(checked))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        train: float = SHARE,
        seed: int = 0,
        name: str | None = None,
    ) -> Self:
        """Read an alignment from a folder.

        Parameters
        ----------
        path : path or str
            A folder in the layout of DBP15K or OpenEA (see `evenrank.graphs.alignment`), or the name of
            a benchmark whose folder is in that of EVENRANK_DATA.
        train : float, default 0.3
            Where the links are not split, the share that is drawn for training.
        seed : int, default 0
            Seed of the draw.
        name : str, optional
            Name of the data set. By default that of the folder.

        Returns
        -------
        Alignment
            The alignment.

        Raises
        ------
        InputError
            If files are missing, or a link has an unknown entity; the message names the line.
        """
        check_type(path, str | os.PathLike, "not the path of an alignment")
        folder = _folder(path)
        columns.integer("seed", seed, 0)
        if not isinstance(train, int | float) or not 0 < train < 1:
            raise InputError("train must be a share of the links between 0 and 1", got=repr(train))
        files = {file.name.removesuffix(".gz"): file for file in sorted(folder.iterdir())}
        numbers, names, relations = _entities(folder, files)
        tables = {split: files[stem] for stem, split in LINKS.items() if stem in files}
        whole = next((files[stem] for stem in ALL_LINKS if stem in files), None)
        if whole is None and set(tables) == {"test"}:
            whole = tables.pop("test")
        remarks: list[str] = []
        if whole is not None and not {"train", "test"} <= tables.keys():
            links, note = _drawn(_read_links(whole, numbers), train, seed)
            remarks.append(f"{whole.name}: {note}")
        elif "test" in tables:
            links = {split: _read_links(file, numbers) for split, file in tables.items()}
        else:
            raise InputError(
                f"{folder}: no links between the graphs",
                got=", ".join(files) or "an empty folder",
                allowed=", ".join((*LINKS, *ALL_LINKS)),
            )
        order = [split for split in ("train", "valid", "test") if split in links]
        found = cls.of(
            {split: links[split] for split in order},
            source=names[0],
            target=names[1],
            name=name or folder.resolve().name,
            relations=relations,
        )
        return replace(found, remarks=(*remarks, *found.remarks))

    def task(self, split: str = "test", *, sides: Sides = "both", candidates: Among = "links") -> Task:
        """Build the task to find the other end of each link: targets first, then sources.

        An entity with several links has several answers; each is ranked, and the others are filtered.

        Parameters
        ----------
        split : str, default "test"
            The split whose links are ranked.
        sides : {"both", "target", "source"}, default "both"
            What is predicted: the target of a source, the source of a target, or both.
        candidates : {"links", "all"}, default "links"
            Rank among the entities of the links of this split, as most papers do, or among all entities
            of the other graph; those known from links of other splits are then filtered.

        Returns
        -------
        Task
            The queries with their targets, candidates and known true answers.

        Raises
        ------
        InputError
            If the split does not exist, or an argument is invalid.
        """
        check_choice("sides", sides, get_args(Sides))
        check_choice("candidates", candidates, get_args(Among))
        if not isinstance(split, str) or split not in self.links or not len(self.links[split]):
            got, known = repr(split), ", ".join(s for s, rows in self.links.items() if len(rows))
            raise InputError(f"{self.name} has no links in this split", got=got, allowed=known)
        asked = ("target", "source") if sides == "both" else (sides,)
        return Task.join([self._side(split, side, candidates) for side in asked])

    def _side(self, split: str, side: str, among: Among) -> Task:
        given, answer = (0, 1) if side == "target" else (1, 0)
        pairs = self.links[split]
        every = np.concatenate(list(self.links.values()))
        lists = Lists.of([np.unique(pairs[:, answer])]) if among == "links" else None
        queries, known = (np.full((len(rows), 2), HOLE) for rows in (pairs, every))
        queries[:, given], known[:, given] = pairs[:, given], every[:, given]
        kind = Described(f"entities of the {split} links") if among == "links" else All()
        names = np.array(self.source, dtype=object), np.array(self.target, dtype=object)
        return Task.of(
            queries,
            pairs[:, answer],
            size=len((self.source, self.target)[answer]),
            known=(known, every[:, answer]),
            candidates=lists,
            group=None if lists is None else np.zeros(len(pairs), dtype=np.int64),
            side=side,
            keys={
                "source": names[0][pairs[:, 0]],
                "target": names[1][pairs[:, 1]],
                "side": np.full(len(pairs), side, dtype=object),
            },
            protocol=Protocol(
                data=self.name,
                split=split,
                sides=(side,),
                filter=tuple(self.links),
                candidates=kind,
                extra={"task": "entity alignment"},
            ),
        )

    def __repr__(self) -> str:
        """Summarise the alignment in a line."""
        counts = ", ".join(f"{split} {len(pairs):,}" for split, pairs in self.links.items())
        return f"{self.name}: {len(self.source):,} and {len(self.target):,} entities; links: {counts}"


def _folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of an alignment, or of a benchmark in EVENRANK_DATA."""
    folder = expanded(path)
    if folder.is_dir():
        return folder
    entry = registry.lookup(path) if isinstance(path, str) else None
    if entry is None or entry.candidates is None:
        raise InputError(
            "no such folder of an alignment",
            got=repr(str(path)),
            do="pass the folder with ent_ids_1, ent_ids_2 and the links, or with rel_triples_1, ...",
        )
    from evenrank.graphs import own_folder

    own = own_folder(entry)
    if own is None:
        raise InputError(
            f"evenrank cannot download {entry.title}",
            do=f"get its files from {entry.source}, and pass their folder",
        )
    return own


def is_alignment(folder: Path) -> bool:
    """Whether a folder has the files of an alignment."""
    present = {file.name.removesuffix(".gz") for file in folder.iterdir()}
    return set(IDS) <= present or any(set(pair) <= present for pair in TRIPLES)


def _pairs(split: str, pairs: ArrayLike, names: list[tuple[str, ...]]) -> Ints:
    """Check links: rows of two positions."""
    array = columns.as_array(f"links of {split}", pairs)
    if array.shape == (0,):
        array = np.zeros((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(
            f"links of {split} must be pairs of a source and a target", got=columns.described(array)
        )
    flat = columns.integers(f"links of {split}", array.ravel(), 0).reshape(array.shape)
    for column, (what, known) in enumerate(zip(("source", "target"), names, strict=True)):
        bad = flat[:, column] >= len(known)
        columns.reject(
            bad, flat[:, column], f"links of {split}: there are {len(known):,} entities of {what}"
        )
    flat.flags.writeable = False
    return flat


def _several(links: Mapping[str, Ints]) -> tuple[str, ...]:
    """Describe entities with several links."""
    every = np.unique(np.concatenate(list(links.values())), axis=0)
    counts = [int((np.unique(column, return_counts=True)[1] > 1).sum()) for column in every.T]
    words = " and ".join(
        f"{n:,} {what}{'s' * (n > 1)}" for n, what in zip(counts, ("source", "target"), strict=True) if n
    )
    have = "has" if sum(counts) == 1 else "have"
    text = f"{words} {have} several links: each answer is ranked, and the others are filtered"
    return (text,) if words else ()


def _entities(
    folder: Path, files: Mapping[str, Path]
) -> tuple[list[dict[str, int]], list[list[str]], int | None]:
    """Read the entities of both graphs: the position of each id, and their names."""
    triples = next((pair for pair in TRIPLES if set(pair) <= files.keys()), None)
    tables = None if triples is None else [_table(files[name], PARTS) for name in triples]
    relations = None
    if tables is not None:
        relations = len({r for table in tables for r in table.frame["relation"].to_list()})
    if set(IDS) <= files.keys():
        dictionaries = [_table(files[name], ("id", "name")) for name in IDS]
        for table in dictionaries:
            table.refuse(~table.frame["id"].is_first_distinct(), "duplicate id", "id")
        ids = [table.frame["id"].to_list() for table in dictionaries]
        names = [table.frame["name"].to_list() for table in dictionaries]
    elif tables is not None:
        ids = [
            sorted({*table.frame["head"].to_list(), *table.frame["tail"].to_list()}) for table in tables
        ]
        names = ids
    else:
        raise InputError(
            f"{folder}: no entities of two graphs",
            got=", ".join(files) or "an empty folder",
            allowed="ent_ids_1 and ent_ids_2, or rel_triples_1 and rel_triples_2",
        )
    return [{one: i for i, one in enumerate(known)} for known in ids], names, relations


PARTS = ("head", "relation", "tail")


def _table(file: Path, names: tuple[str, ...]) -> Table:
    raw = content(file)
    with translated(file):
        table = read_text(raw, file, names, "\t ", counted=False)
    for name in names:
        table.refuse(table.frame[name].is_null(), f"no {name}", name)
    return table


def _read_links(file: Path, numbers: list[dict[str, int]]) -> Ints:
    """Read pairs of ids or names as positions; the graphs may be swapped, if all lines are."""
    table = _table(file, ("source", "target"))
    texts = [table.frame[name].to_list() for name in ("source", "target")]
    for swapped in (False, True):
        order = texts[::-1] if swapped else texts
        if all(text in known for text, known in zip((order[0][0], order[1][0]), numbers, strict=True)):
            texts = order
            break
    found = []
    for side, (known, column) in enumerate(zip(numbers, texts, strict=True)):
        rows = [known.get(text, -1) for text in column]
        if min(rows) < 0:
            row = rows.index(-1)
            raise InputError(
                f"{table.at(row)}: not an entity of graph {side + 1}", got=repr(column[row])
            )
        found.append(rows)
    return np.array(found, dtype=np.int64).T


def _drawn(links: Ints, train: float, seed: int) -> tuple[dict[str, Ints], str]:
    """Draw links for training, as papers do where the files hold all links."""
    cut = int(len(links) * train)
    if not 0 < cut < len(links):
        raise InputError("too few links to split", got=f"{len(links)} links, train={train:g}")
    order = np.random.default_rng(seed).permutation(len(links))
    parts = {"train": links[np.sort(order[:cut])], "test": links[np.sort(order[cut:])]}
    note = f"{cut:,} of {len(links):,} links are drawn for training (seed {seed})"
    return parts, note
