"""The benchmarks known by name: their sizes, where they are published, and the hashes of their files.

The entries are in `registry.toml`. Their numbers are those of the published files, including entities
not seen in training. `check` checks that a graph is a benchmark as published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from evenrank._internal.checks import check_type
from evenrank._internal.reading import content
from evenrank.errors import InputError

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph

__all__ = ["Entry", "check", "entries", "find", "key", "lookup", "near"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A benchmark as published.

    Parameters
    ----------
    name, title : str
        The name for `er.load`, and the usual spelling.
    entities, relations : int
        Their numbers.
    splits : mapping of str to int
        Number of triples of each split.
    counts : str
        Source of the numbers.
    source : str
        Where its authors, or those who maintain its files, publish it.
    reference : str
        The paper.
    aliases : sequence of str, default ()
        Other names.
    licence : str, optional
        Licence of the data.
    layout : str, optional
        Layout of the files (see `evenrank.graphs.layouts`).
    hash : str, optional
        Hash of the graph.
    files : mapping of str to str
        SHA-256 of each file, unpacked.
    bytes : mapping of str to int
        Size of each file, unpacked.
    mirrors : sequence of str, default ()
        Patterns of the addresses of the files.
    candidates : int, optional
        Number of candidates of every target, where results are not ranked among all entities: negatives
        that come with the data set, and the target; or the entities of the test links, in alignment.
    unseen : {"keep", "drop"}, default "keep"
        Whether the numbers count entities not seen in training.
    dropped : mapping of str to int
        The numbers that differ without entities not seen in training (entities, valid, test), if they
        are published as well.
    duplicates : int, default 0
        How many triples of the test split, without entities not seen in training, repeat an earlier one.

    Examples
    --------
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
    counts: str
    source: str
    reference: str
    aliases: Sequence[str] = ()
    licence: str | None = None
    layout: str | None = None
    hash: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    mirrors: Sequence[str] = ()
    candidates: int | None = None
    unseen: Literal["keep", "drop"] = "keep"
    dropped: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """All its names."""
        return (self.name, self.title, *self.aliases)

    def urls(self, file: str) -> list[str]:
        """Return the addresses of a file; what follows a # is a member of an archive.

        Parameters
        ----------
        file : str
            Name of the file.

        Returns
        -------
        list of str
            Addresses, in the order in which they are tried.
        """
        return [mirror.format(file=file) for mirror in self.mirrors]


@cache
def entries() -> Mapping[str, Entry]:
    """Return all benchmarks by their names.

    Returns
    -------
    mapping of str to Entry
        In the order of `registry.toml`.

    Examples
    --------
    >>> ", ".join(entries())
    'nations, kinships, umls, countries-s1, countries-s2, ..., globi, primekg, pharmebinet'
    """
    import tomllib

    text = files(__package__).joinpath("registry.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: Entry(name, **about) for name, about in tomllib.loads(text).items()})


def key(name: str) -> str:
    """Reduce a name to letters and digits, since case and punctuation do not distinguish benchmarks.

    Slashes are kept: `./wn18rr` is a folder, and a missing folder must not become a download.

    Parameters
    ----------
    name : str
        A name in any spelling.

    Returns
    -------
    str
        The same for all usual spellings.
    """
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == "/")


@cache
def _keys() -> dict[str, Entry]:
    return {key(name): entry for entry in entries().values() for name in entry.names}


def lookup(name: str) -> Entry | None:
    """Return the benchmark of a name in any usual spelling, or None.

    Parameters
    ----------
    name : str
        A name.

    Returns
    -------
    Entry or None
        The benchmark.
    """
    return _keys().get(key(name))


def find(name: str) -> Entry:
    """Return the benchmark of a name in any usual spelling.

    Parameters
    ----------
    name : str
        A name.

    Returns
    -------
    Entry
        The benchmark.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> find("FB15k-237") is find("fb15k237")
    True
    >>> find("fb15k273")
    Traceback (most recent call last):
    evenrank.errors.InputError: no such data set; got 'fb15k273'; did you mean fb15k237 or ...
    """
    check_type(name, str, "not the name of a data set")
    entry = lookup(name)
    if entry is None:
        raise InputError("no such data set", got=repr(name), do=near(name))
    return entry


def near(name: str) -> str:
    """Suggest names that are similar to an unknown one.

    Parameters
    ----------
    name : str
        An unknown name.

    Returns
    -------
    str
        A hint for an error message.
    """
    close = get_close_matches(key(name), list(_keys()), 3, 0.7)
    known = dict.fromkeys(_keys()[spelling].name for spelling in close)
    return f"did you mean {' or '.join(known)}?" if known else "see `evenrank data list`"


def check(entry: Entry, graph: Graph, folder: Path) -> None:
    """Check that a graph is a benchmark as published: its sizes, and the hash of its triples.

    A difference is an error, not a warning, because results carry the name of the benchmark and would be
    compared with published ones. The hash of the graph decides, not the bytes of the files, so line
    endings, the order of rows and the layout do not matter.

    Parameters
    ----------
    entry : Entry
        The benchmark.
    graph : Graph
        The graph.
    folder : Path
        Its files, for the message.

    Raises
    ------
    InputError
        If the graph differs.
    """
    if entry.unseen == "drop":
        graph = graph.drop_unseen()
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
            do=f"put the files of {entry.source} there, or load it as another graph by its path",
        )


def _digest(file: Path) -> str | None:
    """Hash the content of a file, gzipped or not; return None if there is no such file."""
    found = [path for path in (file, file.with_name(f"{file.name}.gz")) if path.exists()]
    if not found:
        return None
    return sha256(content(found[0])).hexdigest()
