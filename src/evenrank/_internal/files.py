"""Atomic writes of files, and locks of folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from evenrank.errors import InputError


def as_path(path: Any) -> Path:
    """Return a path; raise `InputError` for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise InputError("not a path", got=repr(path)[:40])
    if "\0" in os.fspath(path):
        raise InputError("a path must not contain null characters", got=repr(path)[:40])
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` atomically at the end of the `with` block."""
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
        reason = _system_message(error)
        if reason is None:
            raise
        raise InputError(f"cannot write {path}", got=reason, do="choose another place") from None
    finally:
        if temporary.exists():
            temporary.unlink()


def locked(folder: Path, *, wait: bool = True) -> AbstractContextManager[object]:
    """Lock a folder, by its file `.lock`, until the `with` block ends or the process dies.

    Without `wait`, raise TimeoutError if another process holds the lock.
    """
    from filelock import FileLock

    return FileLock(folder / ".lock", timeout=-1 if wait else 0).acquire()


def _system_message(error: Exception) -> str | None:
    """Find the message of the operating system, also inside errors of polars and safetensors."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    found = re.search(r"([^:]*\S) \(os error \d+\)", str(error))
    return found and found[1].strip()
