"""What stands beside a model's weights: settings, tables, dictionaries; or half of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from evenrank.errors import InputError
from evenrank.graphs.layouts import dictionary

SETTINGS = "config.json"
LOOK = 1 << 20  # bytes at the start of a file that tell what it is
COPY = "copy the missing files from where the model was trained"


def mentions(file: Path, *words: bytes) -> bool:
    """Say whether a file speaks of any of these; a pickle is searched, never unpickled."""
    start = _start(file) if file.is_file() else b""
    return any(word in start for word in words)


def _start(file: Path) -> bytes:
    with suppress(BadZipFile):  # a damaged one is searched like any other file
        if is_zipfile(file):  # torch since 1.6: a pickle beside the bytes of the tensors
            with ZipFile(file) as archive:
                pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
                return b"".join(archive.open(name).read(LOOK) for name in pickles[:1])
    with file.open("rb") as stream:
        return stream.read(LOOK)


def require(folder: Path, *files: str) -> None:
    """Refuse a folder that lacks some of the files which make a checkpoint."""
    if not folder.is_dir():
        raise InputError("such a checkpoint is a folder", got=str(folder), do="name the folder")
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        present = sorted(file.name for file in folder.iterdir())[:9]
        raise InputError(
            f"{folder} is half a checkpoint: no {', '.join(missing)}",
            got=", ".join(present) or "an empty folder",
            allowed=", ".join(files),
            do=COPY,
        )


def settings(folder: Path, *needed: str, numbers: Sequence[str]) -> dict[str, Any]:
    """Read the settings a model was trained with, those that are needed among them, some as numbers."""
    file = folder / SETTINGS
    try:
        content = json.loads(file.read_bytes())
    except ValueError as error:
        raise InputError(f"cannot read {file}", got=str(error), do="it may be damaged") from None
    said = content if isinstance(content, dict) else {}
    missing = [key for key in (*needed, *numbers) if key not in said]
    if missing:
        raise InputError(f"{file} does not say {', '.join(missing)}", got=f"keys {', '.join(said)}")
    for key in numbers:
        if not isinstance(said[key], int | float):
            raise InputError(f"{file}: {key} must be a number", got=json.dumps(said[key]))
    return said


def table(file: Path) -> NDArray[Any]:
    """Map a table of NumPy's into memory."""
    try:
        rows = np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        got = str(error).splitlines()[0]
        raise InputError(f"cannot read {file}", got=got, do="it may be damaged or truncated") from None
    if rows.ndim != 2:
        raise InputError(f"{file} is no table", got=f"shape {rows.shape}", allowed="a row per name")
    return rows


def numbered(path: Path) -> Sequence[str]:
    """Read names by `id, tab, name`; in OpenKE's `...2id.txt` a count, then `name, tab, id`."""
    return dictionary(path, "OpenKE" if path.name.endswith("2id.txt") else "text") or ()


def named(
    model: Any,
    folders: Sequence[Path],
    files: tuple[str, str],
    read: Callable[[Path], Sequence[str]] = numbered,
) -> tuple[list[str] | None, list[str] | None]:
    """Read the names of a model's rows, each kind from the first folder with its dictionary.

    There need not be any; but where only one is lost, ranks would be wrong without a word.
    """
    entity, relation = (
        next((path for folder in folders if (path := folder / file).is_file()), None) for file in files
    )
    if entity and relation:
        return (
            fitting(read(entity), model.entities, "entities", entity),
            fitting(read(relation), model.relations, "relations", relation),
        )
    found = entity or relation
    if found:
        raise InputError(
            f"{found.parent} is half a checkpoint: no {files[1] if entity else files[0]}",
            got=f"{found.name} alone",
            do=COPY,
        )
    return None, None


def fitting(names: Sequence[str], rows: int, what: str, source: Path | None) -> list[str]:
    """Refuse names that are not as many as a model's rows."""
    if len(names) != rows:
        raise InputError(
            f"{source} does not have the names of this model",
            got=f"{len(names):,} {what}, and {rows:,} rows in the model",
            do="put the dictionary beside it that the model was trained with",
        )
    return list(names)
