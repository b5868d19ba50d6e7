"""Files beside the weights of a model: settings, tables, dictionaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from numpy.typing import NDArray

from evenrank._internal import reading
from evenrank._internal.mapped import load_array
from evenrank._internal.reading import parse_json
from evenrank.errors import InputError
from evenrank.graphs.layouts import dictionary

SETTINGS = "config.json"
LOOK = 1 << 20  # bytes at the start of a file by which it is recognised
COPY = "copy the missing files from where the model was trained"


def mentions(file: Path, *words: bytes) -> bool:
    """Whether a file contains any of these words; pickles are searched, never unpickled."""
    start = _start(file) if file.is_file() else b""
    return any(word in start for word in words)


def _start(file: Path) -> bytes:
    with suppress(Exception):  # archives damaged in any way are searched like other files
        if is_zipfile(file):  # torch since 1.6: a pickle beside the bytes of the tensors
            with ZipFile(file) as archive:
                pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
                return b"".join(archive.open(name).read(LOOK) for name in pickles[:1])
    with file.open("rb") as stream:
        return stream.read(LOOK)


def require(folder: Path, *files: str) -> None:
    """Check that a folder has all files of a checkpoint."""
    if not folder.is_dir():
        raise InputError("this checkpoint must be a folder", got=str(folder), do="use its folder")
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        present = sorted(file.name for file in folder.iterdir())[:9]
        raise InputError(
            f"incomplete checkpoint {folder}: missing {', '.join(missing)}",
            got=", ".join(present) or "an empty folder",
            allowed=", ".join(files),
            do=COPY,
        )


def settings(folder: Path, *needed: str, numbers: Sequence[str]) -> dict[str, Any]:
    """Read training settings, and check that `needed` and `numbers` are among them."""
    file = folder / SETTINGS
    content = parse_json(reading.content(file), str(file))
    found = content if isinstance(content, dict) else {}
    missing = [key for key in (*needed, *numbers) if key not in found]
    if missing:
        raise InputError(f"{file} has no {', '.join(missing)}", got=f"keys {', '.join(found)}")
    for key in numbers:
        if not isinstance(found[key], int | float):
            raise InputError(f"{file}: {key} must be a number", got=json.dumps(found[key]))
    return found


def table(file: Path) -> NDArray[Any]:
    """Read a table that NumPy saved; one that takes much of the memory is mapped."""
    rows = load_array(file)
    if rows.ndim != 2:
        raise InputError(f"{file} must be a table", got=f"shape {rows.shape}", allowed="a row per name")
    return rows


def numbered(path: Path) -> Sequence[str]:
    """Read lines `id, tab, name`; in OpenKE's `...2id.txt` a count, then `name, tab, id`."""
    return dictionary(path, "OpenKE" if path.name.endswith("2id.txt") else "text") or ()


def named(
    model: Any,
    folders: Sequence[Path],
    files: tuple[str, str],
    read: Callable[[Path], Sequence[str]] = numbered,
) -> tuple[list[str] | None, list[str] | None]:
    """Read the names of a model's rows, each kind from the first folder with its dictionary.

    Both may be missing, but not one alone: ranks would be wrong without any warning.
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
            f"incomplete checkpoint {found.parent}: missing {files[1] if entity else files[0]}",
            got=f"only {found.name}",
            do=COPY,
        )
    return None, None


def fitting(names: Sequence[str], rows: int, what: str, source: Path | None) -> list[str]:
    """Check that there are as many names as rows in a model."""
    if len(names) != rows:
        raise InputError(
            f"{source} is not the dictionary of this model",
            got=f"{len(names):,} {what} for {rows:,} rows in the model",
            do="copy the dictionary that the model was trained with",
        )
    return list(names)
