"""Atomic writes of files, locks of folders, and the user's own files."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from evenrank.errors import InputError

UNFINISHED = ".part"  # how names of temporary files end
SHORT = 60  # letters of a file's name in that of its temporary file: names may have at most 255 bytes
MINUTE, DAY = 60, 86_400  # seconds


def as_path(path: Any) -> Path:
    """Return a path; raise `InputError` for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise InputError("not a path", got=repr(path)[:40])
    if "\0" in os.fspath(path):
        raise InputError("a path must not contain null characters", got=repr(path)[:40])
    return Path(path)


def expanded(path: str | os.PathLike[str]) -> Path:
    """Replace ~ and ~user by the home folder, if there is one: Path.expanduser raises otherwise."""
    return Path(os.path.expanduser(path))


@contextmanager
def replacing(path: str | os.PathLike[str], *, parent: bool = False) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` atomically at the end of the `with` block.

    The temporary file has a random name in the same folder, and is created there: existing files and
    links are neither opened nor followed. A file that is replaced keeps its mode. Temporary files of
    writers that died are removed. With `parent`, create the folder if necessary.
    """
    path = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}", got="not a file", do="choose another place")
    try:
        if parent:
            path.parent.mkdir(exist_ok=True)
        remove_abandoned(path.parent, path.name)
        with _created(path) as (temporary, folder):
            yield temporary
            if path.exists():
                temporary.chmod(path.stat().st_mode & 0o777)
            with temporary.open("r+b") as file:
                os.fsync(file.fileno())  # the content before the name, in case the power fails
            if folder is None:
                temporary.replace(path)
            else:  # in the folder that was opened, even if another one has its name by now
                os.rename(temporary.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except Exception as error:
        reason = _system_message(error)
        if reason is None:
            raise
        raise InputError(f"cannot write {path}", got=reason, do="choose another place") from None


@contextmanager
def _created(path: Path) -> Iterator[tuple[Path, int | None]]:
    """Create an empty file beside `path`, locked until the block ends, and removed if it is still there.

    Also yields a descriptor of its folder, on systems that have those.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    # names of files have at most 255 bytes
    temporary = path.with_name(f".{path.name[:SHORT]}.{os.urandom(8).hex()}{UNFINISHED}")
    if sys.platform == "win32":  # an open file could not be renamed
        os.close(os.open(temporary, flags))
        try:
            yield temporary, None
        finally:
            temporary.unlink(missing_ok=True)
        return
    with ExitStack() as stack:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        file = os.open(temporary.name, flags, 0o666, dir_fd=folder)
        stack.callback(os.close, file)
        stack.callback(_unlink, temporary.name, folder)
        _lock(file)
        yield temporary, folder


def remove_abandoned(folder: Path, name: str) -> None:
    """Remove the temporary files that writers of a file left when they were killed."""
    unfinished = re.compile(rf"\.{re.escape(name[:SHORT])}\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}")
    for path in folder.iterdir():
        if unfinished.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            with suppress(OSError):
                if _abandoned(path):
                    path.unlink()


def _abandoned(path: Path) -> bool:
    """Whether nobody writes to a temporary file: it was not changed lately, and its lock is free."""
    unchanged = time.time() - path.stat().st_mtime
    if sys.platform == "win32":
        return unchanged > DAY
    with path.open("rb") as file:
        return unchanged > MINUTE and _lock(file.fileno())


def _lock(file: int) -> bool:
    """Lock an open file if nobody else has; return whether that succeeded."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):  # held by another one, or a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def locked(folder: Path, *, wait: bool = True) -> AbstractContextManager[object]:
    """Lock a folder, by its file `.lock`, until the `with` block ends or the process dies.

    Without `wait`, raise TimeoutError if another process holds the lock.
    """
    from filelock import FileLock

    return FileLock(folder / ".lock", timeout=-1 if wait else 0).acquire()


def user_file(variable: str, name: str) -> Path:
    """Return the path of a file of the user: in the folder that a variable names, or that of data."""
    folder = os.environ.get(variable)
    if folder:
        return expanded(folder) / name
    from platformdirs import user_data_path

    return user_data_path("evenrank", appauthor=False) / name


@contextmanager
def changing(path: Path, variable: str) -> Iterator[None]:
    """Let no other process write between reading and writing a file of the user."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            yield
    except OSError as error:
        raise InputError(
            f"cannot write to {path.parent}", got=error.strerror, do=f"set {variable} to another folder"
        ) from None


def _system_message(error: Exception) -> str | None:
    """Find the message of the operating system, also inside errors of polars and safetensors."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    found = re.search(r"([^:]*\S) \(os error \d+\)", str(error))
    if found is None:
        return str(error) if isinstance(error, OSError) else None
    return found[1].strip()
