"""Which ranks of a benchmark depend on each other under a random scorer, counted once and stored.

The file `structure.json.gz` holds, for each data set, treatment of unseen entities, split (valid and
test) and filter, what `evenrank.metrics.chance.dependence` needs: pairs of targets within tail and
within head queries by number of candidates, and pairs across both by two numbers of candidates. The
latter are condensed to 16 numbers per factor of two, which changes standard deviations by rounding
errors only.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenrank.graphs.graph import Graph
from evenrank.graphs.instants import Time
from evenrank.metrics.chance import Dependence
from evenrank.ranks.dependence import of_task
from evenrank.ranks.task import Task

FILE = "structure.json.gz"
SPLITS = ("valid", "test")  # training triples are ranked too rarely to be stored
DEGREE = 16
NONE = np.zeros(0, dtype=np.int64)
Stored = dict[str, Any]
Ask: TypeAlias = Callable[[str, Any, Literal["all"] | None], Task]


def of_graph(
    graph: Graph,
    split: str,
    sides: Literal["head", "tail", "both"],
    filter: Literal["all"] | None,  # noqa: A002  # the field's word
    time: Time | None = None,
) -> Dependence:
    """Describe which ranks of a graph depend on each other.

    Parameters
    ----------
    graph : Graph
        The graph.
    split, sides, filter, time
        The split and the sides that are ranked, and the filter, as for `Graph.task`.

    Returns
    -------
    Dependence
        The histograms that variances are computed from.
    """
    return of_task(graph.task(split, sides=sides, filter=filter, time=time))


def of_benchmark(
    name: str,
    split: str,
    sides: Literal["head", "tail", "both"],
    filter: str | None,  # noqa: A002
    unseen: str,
) -> Dependence | None:
    """Look up which ranks of a benchmark depend on each other.

    Parameters
    ----------
    name, split, sides, filter, unseen
        The name of a data set of the atlas, and the arguments of `evenrank.atlas`.

    Returns
    -------
    Dependence or None
        The histograms that variances are computed from; None if they are not stored.
    """
    kinds = _stored().get(name, {})
    stored = kinds.get(unseen, kinds.get("keep", {})).get(split, {}).get(filter or "raw")
    return None if stored is None else of_stored(stored, sides)


def of_stored(stored: Stored, sides: Literal["head", "tail", "both"]) -> Dependence:
    """Read what `describe` wrote for a split and a filter.

    Parameters
    ----------
    stored : dict
        The arrays as text.
    sides : {"head", "tail", "both"}
        The sides that are ranked.

    Returns
    -------
    Dependence
        The histograms that variances are computed from.
    """
    asked = [side for side in ("tail", "head") if sides in (side, "both")]
    size = np.concatenate([_array(stored[side][0]) for side in asked])
    share = np.concatenate([_shares(*stored[side]) for side in asked])
    first, second, mass = map(_array, stored["across"]) if sides == "both" else (NONE, NONE, NONE)
    total = float(stored["targets"] * len(asked))
    return Dependence(total, size, share, first, second, mass.astype(float))


def describe(ask: Ask, splits: Iterable[str]) -> Stored:
    """Describe a data set for the file.

    Parameters
    ----------
    ask : callable
        Builds the task for a split, a side ("tail", "head" or "both") and a filter ("all" or None).
    splits : iterable of str
        Its splits.

    Returns
    -------
    dict
        The arrays as text, by split and filter.
    """
    found: Stored = {}
    for split in (split for split in SPLITS if split in splits):
        rules: tuple[tuple[str, Literal["all"] | None], ...] = (("all", "all"), ("raw", None))
        for name, rule in rules:
            one: Stored = {}
            for side in ("tail", "head"):
                task = ask(split, side, rule)
                alone = of_task(task)
                one["targets"] = len(task)
                one[side] = [_text(alone.sizes), _pairs(alone.sizes, alone.shares)]
            both = of_task(ask(split, "both", rule)).condensed(DEGREE)
            one["across"] = [_text(column) for column in (both.first, both.second, both.mass)]
            found.setdefault(split, {})[name] = one
    return found


def write(stored: Mapping[str, Mapping[str, Stored]], folder: Path) -> None:
    """Write the file for data sets by name and treatment of unseen entities."""
    text = json.dumps(stored, separators=(",", ":"), sort_keys=True)
    (folder / FILE).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


@cache
def _stored() -> Stored:
    data = (files("evenrank.graphs") / FILE).read_bytes()
    content: Stored = json.loads(gzip.decompress(data))
    return content


def _pairs(sizes: NDArray[Any], shares: NDArray[Any]) -> str:
    """Encode shares: as numbers of pairs of targets if the targets are filtered from each other.

    Each pair then has the share 1 / (n + 1), if there are n candidates. Whole numbers compress better.
    """
    pairs = np.rint(shares * (sizes + 1))
    whole = np.allclose(pairs / (sizes + 1), shares, rtol=1e-12, atol=0)
    return _text(pairs.astype(np.int64) if whole and (pairs < 2**31).all() else shares)


def _shares(sizes: str, shares: str) -> NDArray[Any]:
    """Undo `_pairs`."""
    found = _array(shares)
    return found if shares[0] == "f" else found / (_array(sizes) + 1)


def _text(array: NDArray[Any]) -> str:
    """Encode an array; the most significant bytes of all numbers come first, which compresses better."""
    kind = "<f8" if array.dtype.kind == "f" else "<i4"
    raw = np.ascontiguousarray(array, dtype=kind).view(np.uint8).reshape(-1, int(kind[2])).T
    return kind[1] + b64encode(raw.tobytes()).decode("ascii")


def _array(text: str) -> NDArray[Any]:
    width = 8 if text[0] == "f" else 4
    raw = np.frombuffer(b64decode(text[1:]), dtype=np.uint8).reshape(width, -1)
    return np.ascontiguousarray(raw.T).view(f"<{text[0]}{width}").ravel()
