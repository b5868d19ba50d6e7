"""Readers of checkpoints, one module for each library, imported when it is first used.

A reader has two functions: `recognises(path)` tells whether a file or folder looks like one of its
library, and `read(path, ...)` returns a `Checkpoint`. `READERS` lists them in the order they are tried.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from evenrank.errors import InputError
from evenrank.models.readers.checkpoint import Checkpoint, damaged

__all__ = ["READERS", "Checkpoint", "read"]

# the name of a format, and the module that reads it; those that look closest are asked first
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
# formats whose files do not say which model they hold: `format` may, as in "openke:TransE(p=2)"
UNSAID = ("openke", "torchkge", "pyg")


def read(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002  # the word of the command line
    trust_pickle: bool = False,
    mapped: bool = False,
) -> Checkpoint:
    """Read a checkpoint: the model in its own numbering, the names of its rows, and what to know."""
    path = Path(path)
    if not path.exists():
        raise InputError("no such file", got=str(path))
    name, _, model = format.partition(":")
    reader, said = _reader(path, name), _said(name, model)
    if mapped and reader is _module(READERS["evenrank"]):
        said["mapped"] = True
    try:
        checkpoint: Checkpoint = reader.read(path, trust_pickle=trust_pickle, **said)
    except InputError:
        raise
    except Exception as error:  # a file of others can hold anything
        raise damaged(path, error) from error
    return checkpoint


def _said(name: str, model: str) -> dict[str, Any]:
    """Give what a format says of the model beside its own name."""
    if not model:
        return {}
    if name not in UNSAID:
        raise InputError(
            f"which model it is can only be said with {', '.join(UNSAID)}", got=f"{name}:{model}"
        )
    from evenrank.models.readers._state import spoken

    kind, options = spoken(model)
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
            "no reader knows this checkpoint",
            got=str(path),
            allowed=f"those of {', '.join(READERS)}",
            do=f"name the file itself: {known}"
            if known
            else "name its format (--format, format=), or build the model from its arrays "
            "(er.models.TransE(...), ...)",
        )
    if name not in READERS:
        raise InputError("unknown format", got=repr(name), allowed=f"auto, {', '.join(READERS)}")
    return _module(READERS[name])


def _recogniser(path: Path) -> Any:
    """Find the first module that knows a file or folder when it sees it."""
    return next((reader for reader in map(_module, READERS.values()) if reader.recognises(path)), None)


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
