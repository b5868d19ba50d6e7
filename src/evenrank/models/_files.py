"""Model files: safetensors with a small JSON header that names the model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import host
from evenrank._internal.checks import check_type
from evenrank._internal.files import replacing
from evenrank._internal.limits import check_fits
from evenrank._internal.mapped import check_unchanged
from evenrank._internal.reading import check_regular, parse_json, translated
from evenrank.errors import InputError
from evenrank.models._model import Model, present
from evenrank.models._named import NAMED

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph

METADATA = "evenrank"
OTHERWISE = "it may be damaged, of another format, or hold bfloat16 (store float32 or float16)"
KINDS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}  # safetensors' names of NumPy's types


def save(model: Model, path: str | os.PathLike[str], *, graph: Graph | None = None) -> None:
    """Write a model to a safetensors file.

    The file is written completely or not at all, and holds no pickled code.

    Parameters
    ----------
    model : Model
        One of the models of `evenrank.models`.
    path : path-like
        File to write, ``.safetensors``.
    graph : Graph, optional
        Graph whose numbering the rows follow; by default that which the model knows, if any. Ranking
        the model on a graph with other numbering then raises an error.

    Raises
    ------
    InputError
        If the model is of another kind, differs from the graph in size, or the file cannot be written.
    """
    from safetensors.numpy import save as serialise

    check_type(model, Model, "this model cannot be saved", allowed=", ".join(NAMED))
    if graph is not None and (len(graph.entities), len(graph.relations)) != (
        model.entities,
        model.relations,
    ):
        raise InputError(
            "model and graph differ in size",
            got=f"{model!r} for {len(graph.entities):,} entities, {len(graph.relations):,} relations",
        )
    arrays = {name: np.ascontiguousarray(host(getattr(model, name))) for name in present(model)}
    options = {
        field.name: getattr(model, field.name)
        for field in fields(model)  # type: ignore[arg-type]  # every subclass is a dataclass
        if field.name not in model.ARRAYS
    }
    header = {
        "format": 1,
        "model": type(model).__name__,
        "options": options,
        "shapes": {name: list(table.shape) for name, table in arrays.items()},
        "vocabulary": graph.vocabulary if graph is not None else model.vocabulary,
        "known_as": model.known_as,
    }
    with replacing(path) as file:
        file.write_bytes(serialise(arrays, metadata={METADATA: json.dumps(header)}))


def read(path: str | os.PathLike[str], *, mapped: bool = False) -> Model:
    """Read a model that `save` wrote, memory-mapped on request."""
    from safetensors import safe_open

    path = Path(path)
    size = check_regular(path).st_size
    if not mapped:
        check_fits(size, "this model", where=str(path))
    with translated(path, do=OTHERWISE), safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        names = file.keys()
        arrays = _mapped(path) if mapped else {name: file.get_tensor(name) for name in names}
    return _build(path, metadata.get(METADATA), arrays)


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of a safetensors file: the length of a JSON header, the header, the arrays."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    arrays = {
        name: np.memmap(path, KINDS[about["dtype"]], "r", 8 + length + start, tuple(about["shape"]))
        for name, about in header.items()
        if name != "__metadata__"
        for start in about["data_offsets"][:1]
    }
    check_unchanged(*arrays.values())  # from now on
    return {**arrays}


def _build(path: Path, header: str | None, arrays: Mapping[str, NDArray[Any]]) -> Model:
    """Build the model that the header names, if header and arrays agree."""
    if header is None:
        raise InputError(
            f"{path} does not name its model",
            got=f"arrays {', '.join(sorted(arrays)) or '(none)'}",
            do="build the model from its arrays (er.models.TransE(...), ...) and write it with "
            "er.models.save",
        )
    content = parse_json(header, f"the header of {path}")
    try:
        if content["format"] != 1 or content["model"] not in NAMED:
            raise InputError(
                f"{path} holds an unknown model or format",
                got=f"model {content['model']!r}, format {content['format']}",
                allowed=f"{', '.join(NAMED)}; format 1",
            )
        kind, options, shapes = NAMED[content["model"]], content["options"], content["shapes"]
        found = {name: list(table.shape) for name, table in arrays.items()}
        if found != shapes:
            wrong = sorted(
                name for name in found.keys() | shapes.keys() if found.get(name) != shapes.get(name)
            )
            got = ", ".join(
                f"{name} {found.get(name, 'missing')}, not {shapes.get(name, 'named')}" for name in wrong
            )
            raise InputError(f"{path}: header and arrays do not match", got=got)
        model = kind(**arrays, **options)
        return model.described(vocabulary=content.get("vocabulary"), known_as=content.get("known_as"))
    except InputError:
        raise
    except Exception as error:  # a header can hold anything
        raise InputError(
            f"{path} has a damaged header", got=f"{type(error).__name__}: {error}"
        ) from None
