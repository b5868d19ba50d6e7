"""The candidate counts of the package, packed: a compact JSON file that is read without polars.

For each data set and treatment of unseen entities, the file `atlas.json.gz` holds
`[entities, relations, splits]`, and for each split and side two lists of whole numbers: how much each
distinct number of candidates is below the next larger one (the largest: below the number of entities),
and how many targets have it. Data sets without unseen entities hold "keep" alone. A fourth entry is the
number of candidates in raw ranking where that is not the number of entities, as in entity alignment.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

FILE = "atlas.json.gz"
KEEP, DROP = "keep", "drop"


class Counts(NamedTuple):
    """The counts of one data set: candidates and count, by split and side.

    Parameters
    ----------
    data : str
        Name of the data set.
    entities, relations : int
        Their numbers.
    splits : dict
        For each split, and each side in it, pairs of a number of candidates and how many targets have
        it, by increasing number of candidates.
    raw : int, optional
        The number of candidates in raw ranking. By default that of entities.
    """

    data: str
    entities: int
    relations: int
    splits: dict[str, dict[str, list[tuple[int, int]]]]
    raw: int | None = None


Kinds = dict[str, Counts]


def pack(data: Mapping[str, Kinds]) -> bytes:
    """Pack the counts of data sets.

    Parameters
    ----------
    data : mapping of str to dict of str to Counts
        For each data set, its counts with ("keep") and without ("drop") unseen entities.

    Returns
    -------
    bytes
        The content of the file.
    """
    content = {
        name: {
            unseen: _packed(one) for unseen, one in kinds.items() if unseen == KEEP or one != kinds[KEEP]
        }
        for name, kinds in data.items()
    }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), 9, mtime=0)


def unpack(content: bytes) -> dict[str, Kinds]:
    """Unpack what `pack` packed.

    Parameters
    ----------
    content : bytes
        The content of the file.

    Returns
    -------
    dict
        As the argument of `pack`.
    """
    packed: dict[str, dict[str, Any]] = json.loads(gzip.decompress(content))
    found: dict[str, Kinds] = {}
    for name, kinds in packed.items():
        known = {unseen: _unpacked(name, *one) for unseen, one in kinds.items()}
        found[name] = {KEEP: known[KEEP], DROP: known.get(DROP, known[KEEP])}
    return found


@cache
def packaged() -> dict[str, Kinds]:
    """Return the counts of the package.

    Returns
    -------
    dict
        By data set and treatment of unseen entities.
    """
    return unpack((files("evenrank.graphs") / FILE).read_bytes())


def write(data: Mapping[str, Kinds], folder: Path) -> None:
    """Write the file of the package, data sets in the order of their names."""
    (folder / FILE).write_bytes(pack(dict(sorted(data.items()))))


def _packed(one: Counts) -> list[Any]:
    splits = {
        split: {side: _falls(one.entities, rows) for side, rows in sides.items()}
        for split, sides in one.splits.items()
    }
    return [one.entities, one.relations, splits, *([] if one.raw is None else [one.raw])]


def _falls(most: int, rows: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Turn numbers of candidates, in increasing order, into falls from the largest possible.

    >>> _falls(10, [(4, 7), (9, 2)])
    [[1, 5], [2, 7]]
    """
    largest_first = list(rows)[::-1]
    sizes = [size for size, _ in largest_first]
    before = [most, *sizes]
    return [[a - b for a, b in zip(before, sizes, strict=False)], [n for _, n in largest_first]]


def _unpacked(
    name: str, entities: int, relations: int, splits: dict[str, Any], raw: int | None = None
) -> Counts:
    known = {
        split: {side: _rows(entities, *two) for side, two in sides.items()}
        for split, sides in splits.items()
    }
    return Counts(name, entities, relations, known, raw)


def _rows(most: int, falls: list[int], counts: list[int]) -> list[tuple[int, int]]:
    """Undo `_falls`.

    >>> _rows(10, [1, 5], [2, 7])
    [(4, 7), (9, 2)]
    """
    sizes = accumulate(falls, lambda size, fall: size - fall, initial=most)
    return list(zip(list(sizes)[1:], counts, strict=True))[::-1]
