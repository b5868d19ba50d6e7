"""Readers of checkpoints, one module for each library, imported when it is first used.

A reader has two functions: `recognises(path)` tells whether a file or folder looks like one of its
library, and `read(path, ...)` returns a `Checkpoint`. `READERS` lists them in the order they are tried.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from evenrank.errors import InputError, Option
from evenrank.models.readers.checkpoint import Checkpoint, damaged

__all__ = ["READERS", "Checkpoint", "read"]

# the name of a format and the module that reads it; the most specific recognisers come first
READERS: dict[str, str] = {
    "evenrank": "_own",
    "rotate": "rotate",
    "dgl-ke": "dglke",
    "libkge": "libkge",
    "openke": "openke",
    "torchkge": "torchkge",
    "pyg": "pyg",
    "pykeen": "pykeen",
}
# formats whose files do not name their model: `format` can, as in "openke:TransE(p=2)"
UNNAMED = ("openke", "torchkge", "pyg")


def read(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002  # as the shell option
    trust_pickle: bool = False,
    mapped: bool = False,
) -> Checkpoint:
    """Read a checkpoint: the model in its own numbering, the names of its rows, and notes."""
    path = Path(path)
    if not path.exists():
        raise InputError("no such file", got=str(path))
    name, _, model = format.partition(":")
    reader, options = _reader(path, name), _options(name, model)
    if mapped and reader is _module(READERS["evenrank"]):
        options["mapped"] = True
    try:
        checkpoint: Checkpoint = reader.read(path, trust_pickle=trust_pickle, **options)
    except InputError:
        raise
    except Exception as error:  # a foreign file can hold anything
        raise damaged(path, error) from error
    return checkpoint


def _options(name: str, model: str) -> dict[str, Any]:
    """Return the model and its options that a format names, as in "openke:TransE(p=2)"."""
    if not model:
        return {}
    if name not in UNNAMED:
        raise InputError(
            f"only the formats {', '.join(UNNAMED)} take the name of a model", got=f"{name}:{model}"
        )
    from evenrank.models.readers._state import parse_model

    kind, options = parse_model(model)
    return {"model": kind, **options}


def _reader(path: Path, name: str) -> Any:
    """Find the module that reads a file or folder."""
    if name == "auto":
        found = _recogniser(path)
        if found is not None:
            return found
        inside = sorted(path.iterdir()) if path.is_dir() else []
        known = next((file for file in inside if file.is_file() and _recogniser(file)), None)
        raise InputError(
            "the format of this checkpoint is not recognised",
            got=str(path),
            allowed=", ".join(READERS),
            do=f"use the file itself: {known}"
            if known
            else [
                "set ",
                Option("format", flag="model-format"),
                ", or build the model from its arrays (er.models.TransE(...), ...)",
            ],
        )
    if name not in READERS:
        raise InputError("unknown format", got=repr(name), allowed=f"auto, {', '.join(READERS)}")
    return _module(READERS[name])


def _recogniser(path: Path) -> Any:
    """Find the first module that recognises a file or folder."""
    return next((reader for reader in map(_module, READERS.values()) if reader.recognises(path)), None)


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
