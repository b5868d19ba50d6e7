"""Reads the files that `evenrank.models.save` writes."""

from __future__ import annotations

from pathlib import Path

from evenrank.models import _files
from evenrank.models.readers.checkpoint import Checkpoint


def recognises(path: Path) -> bool:
    """Recognise files by their suffix."""
    return path.suffix == ".safetensors"


def read(path: Path, *, trust_pickle: bool = False, mapped: bool = False) -> Checkpoint:
    """Read a model that `evenrank.models.save` wrote; there is no pickle in it."""
    del trust_pickle
    return Checkpoint(_files.read(path, mapped=mapped))
