"""Files that are written whole or not at all, and folders that one process writes to at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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
    except Exception as error:
        said = _said_by_system(error)
        if said is None:
            raise
        raise InputError(f"cannot write {path}", got=said, do="choose another place") from None
    finally:
        if temporary.exists():
            temporary.unlink()


def locked(folder: Path, *, wait: bool = True) -> AbstractContextManager[object]:
    """Hold the lock of a folder, `.lock`, until the `with` statement ends or the process dies.

    Without `wait`, a lock that another process holds is a TimeoutError.
    """
    from filelock import FileLock

    return FileLock(folder / ".lock", timeout=-1 if wait else 0).acquire()


def _said_by_system(error: Exception) -> str | None:
    """Find what the system said, also where polars or safetensors tell it in errors of their own."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    found = re.search(r"([^:]*\S) \(os error \d+\)", str(error))
    return found and found[1].strip()
