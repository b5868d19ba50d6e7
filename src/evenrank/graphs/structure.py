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
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenrank.graphs.graph import Graph
from evenrank.metrics.chance import Dependence
from evenrank.ranks.dependence import of_task

FILE = "structure.json.gz"
SPLITS = ("valid", "test")  # training triples are ranked too rarely to be stored
DEGREE = 16
NONE = np.zeros(0, dtype=np.int64)
Stored = dict[str, Any]


def of_graph(
    graph: Graph,
    split: str,
    sides: Literal["head", "tail", "both"],
    filter: Literal["all"] | None,  # noqa: A002  # the field's word
) -> Dependence:
    """Describe which ranks of a graph depend on each other.

    Parameters
    ----------
    graph : Graph
        The graph.
    split, sides, filter
        The split and the sides that are ranked, and the filter, as for `Graph.task`.

    Returns
    -------
    Dependence
        The histograms that variances are computed from.
    """
    return of_task(graph.task(split, sides=sides, filter=filter))


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
    if stored is None:
        return None
    asked = [side for side in ("tail", "head") if sides in (side, "both")]
    size, share = (np.concatenate([_array(stored[side][i]) for side in asked]) for i in (0, 1))
    first, second, mass = map(_array, stored["across"]) if sides == "both" else (NONE, NONE, NONE)
    total = float(stored["targets"] * len(asked))
    return Dependence(total, size, share, first, second, mass.astype(float))


def describe(graph: Graph) -> Stored:
    """Describe a graph for the file.

    Parameters
    ----------
    graph : Graph
        A graph, with or without entities not seen in training.

    Returns
    -------
    dict
        The arrays as text, by split and filter.
    """
    found: Stored = {}
    for split in SPLITS:
        for name, rule in (("all", "all"), ("raw", None)):
            if not len(graph.splits.get(split, ())):
                continue
            one: Stored = {"targets": len(graph.splits[split])}
            for side in ("tail", "head"):
                alone = of_task(graph.task(split, sides=side, filter=rule))
                one[side] = [_text(alone.sizes), _text(alone.shares)]
            both = of_task(graph.task(split, filter=rule)).condensed(DEGREE)
            one["across"] = [_text(column) for column in (both.first, both.second, both.mass)]
            found.setdefault(split, {})[name] = one
    return found


def write(graphs: Iterable[tuple[str, Graph, Graph]], path: Path) -> None:
    """Write the file for graphs by name, with and without entities not seen in training."""
    content: Stored = {}
    for name, kept, dropped in graphs:
        content[name] = {"keep": describe(kept)}
        if dropped.hash != kept.hash:
            content[name]["drop"] = describe(dropped)
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


@cache
def _stored() -> Stored:
    data = (files("evenrank.graphs") / FILE).read_bytes()
    content: Stored = json.loads(gzip.decompress(data))
    return content


def _text(array: NDArray[Any]) -> str:
    """Encode an array; the most significant bytes of all numbers come first, which compresses better."""
    kind = "<f8" if array.dtype.kind == "f" else "<i4"
    raw = np.ascontiguousarray(array, dtype=kind).view(np.uint8).reshape(-1, int(kind[2])).T
    return kind[1] + b64encode(raw.tobytes()).decode("ascii")


def _array(text: str) -> NDArray[Any]:
    width = 8 if text[0] == "f" else 4
    raw = np.frombuffer(b64decode(text[1:]), dtype=np.uint8).reshape(width, -1)
    return np.ascontiguousarray(raw.T).view(f"<{text[0]}{width}").ravel()
