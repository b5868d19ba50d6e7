"""The benchmarks known by name: how large each is, where it is published, and how its files are known.

The entries stand in `registry.toml`. Their numbers are those of the published files, as `Graph` counts
them with unseen entities kept; who takes a file for a benchmark can have that checked with `check`.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from evenrank.errors import InputError

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph

__all__ = ["Entry", "check", "entries", "find", "key", "lookup", "near"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One benchmark, as its authors publish it.

    >>> entry = find("FB15K_237")
    >>> entry.name, entry.title, entry.entities, entry.splits["test"]
    ('fb15k237', 'FB15k-237', 14541, 20466)
    >>> entry.urls("train.txt")[0]
    'https://raw.githubusercontent.com/DeepGraphLearning/KnowledgeGraphEmbedding/master/data/FB15k-237/train.txt'
    """

    name: str
    title: str
    entities: int
    relations: int
    splits: Mapping[str, int]
    counts: str  # where the numbers come from
    source: str  # where its authors, or those who keep its files, publish it
    reference: str
    aliases: Sequence[str] = ()
    licence: str | None = None
    layout: str | None = None  # of the files: see `evenrank.graphs.layouts`
    hash: str | None = None  # that of the graph
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of each, unpacked
    mirrors: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it goes by."""
        return (self.name, self.title, *self.aliases)

    def urls(self, file: str) -> list[str]:
        """Give where a file can be had; what follows a # is a member of an archive."""
        return [mirror.format(file=file) for mirror in self.mirrors]


@cache
def entries() -> Mapping[str, Entry]:
    """Give every benchmark by its name.

    >>> ", ".join(entries())
    'nations, kinships, umls, countries-s1, countries-s2, ..., ogbl-wikikg2, ogbl-biokg, wikikg90m-v2'
    """
    import tomllib

    text = files(__package__).joinpath("registry.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: Entry(name, **about) for name, about in tomllib.loads(text).items()})


def key(name: str) -> str:
    """Leave letters and digits: case and punctuation tell no two benchmarks apart.

    A slash stays: `./wn18rr` is a folder, and one that is missing must not become a download.
    """
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == "/")


@cache
def _keys() -> dict[str, Entry]:
    return {key(name): entry for entry in entries().values() for name in entry.names}


def lookup(name: str) -> Entry | None:
    """Give the benchmark of a name, in any usual spelling, or nothing."""
    return _keys().get(key(name))


def find(name: str) -> Entry:
    """Give the benchmark of a name, in any usual spelling.

    >>> find("FB15k-237") is find("fb15k237")
    True
    >>> find("fb15k273")
    Traceback (most recent call last):
    evenrank.errors.InputError: no such data set; got 'fb15k273'; did you mean fb15k237 or ...
    """
    entry = lookup(name)
    if entry is None:
        raise InputError("no such data set", got=repr(name), do=near(name))
    return entry


def near(name: str) -> str:
    """Say which names a wrong one may stand for."""
    close = get_close_matches(key(name), list(_keys()), 3, 0.7)
    known = dict.fromkeys(_keys()[spelling].name for spelling in close)
    return f"did you mean {' or '.join(known)}?" if known else "see `evenrank data list`"


def check(entry: Entry, graph: Graph, folder: Path) -> None:
    """Refuse a graph that is not the benchmark: other sizes, or other triples in the same numbers.

    This is an error, not a warning, because results carry the name: numbers of another graph would be
    compared with published ones. The hash of the graph decides, not the bytes of the files, so that
    line endings, the order of rows and the layout are free.
    """
    sizes = {"entities": len(graph.entities), "relations": len(graph.relations)}
    sizes |= {split: len(triples) for split, triples in graph.splits.items()}
    published = {"entities": entry.entities, "relations": entry.relations, **entry.splits}
    other = [f"{what} {sizes.get(what, 0):,}" for what, n in published.items() if sizes.get(what) != n]
    allowed = ", ".join(f"{what} {n:,}" for what, n in published.items())
    if not other and entry.hash not in (None, graph.hash):
        found = {name: _digest(folder / name) for name in entry.files}
        bad = [name for name, digest in found.items() if digest not in (None, entry.files[name])]
        other, allowed = [f"other triples in {', '.join(bad) or 'it'}"], f"hash {entry.hash}"
    if other:
        raise InputError(
            f"{folder} is not {entry.title} as published",
            got=", ".join(other),
            allowed=allowed,
            do=f"put the files of {entry.source} there, or load it by its path: a graph of its own",
        )


def _digest(file: Path) -> str | None:
    """Hash what a file holds, gzipped or not; nothing where there is no such file."""
    found = [path for path in (file, file.with_name(f"{file.name}.gz")) if path.exists()]
    if not found:
        return None
    raw = found[0].read_bytes()
    return sha256(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).hexdigest()
