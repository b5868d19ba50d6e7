"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenrank.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file beside `path`, which takes its place once it is written."""
    path = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}", got="not a file", do="choose another place")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())  # the content before the name, in case the power fails
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}", got=error.strerror or str(error), do="choose another place"
        ) from None
    finally:
        if temporary.exists():
            temporary.unlink()
