"""Models that evenrank itself saved, so that `load` reads them like any other."""

from __future__ import annotations

from pathlib import Path

from evenrank.models import _files
from evenrank.models.readers.checkpoint import Checkpoint


def recognises(path: Path) -> bool:
    """Know evenrank's files by their name."""
    return path.suffix == ".safetensors"


def read(path: Path, *, trust_pickle: bool = False, mapped: bool = False) -> Checkpoint:
    """Read a model that `evenrank.models.save` wrote; nothing in it is pickled."""
    del trust_pickle
    return Checkpoint(_files.read(path, mapped=mapped))
