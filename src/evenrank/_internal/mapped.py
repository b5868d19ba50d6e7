"""Arrays mapped from files: their files must not change while they are used.

An array that is mapped from a file shows what is in the file now. If another process overwrites the
file, results would mix two contents; if it shortens the file, the system kills the process that reads
beyond the end. So arrays are read if they fit into memory, and the files of mapped ones are checked.
"""

from __future__ import annotations

import os
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.limits import available_memory
from evenrank._internal.reading import check_header, check_regular, read_array, translated
from evenrank.errors import InputError

SHARE = 0.5  # of the available memory that an array may take to be read instead of mapped


class State(NamedTuple):
    """What tells whether a file was changed."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> State | None:
        """Return the state of a file; None if it is not there."""
        try:
            about = os.stat(path)
        except OSError:
            return None
        return cls(about.st_ino, about.st_size, about.st_mtime_ns)


# the states that files had when they were first seen, for as long as they are mapped
_seen: WeakKeyDictionary[mmap, State | None] = WeakKeyDictionary()


def load_array(file: Path) -> NDArray[Any]:
    """Read an array that NumPy saved; map it if it takes more than half of the available memory."""
    check_regular(file)
    before = State.of(file)
    with translated(file), file.open("rb") as stream:
        if before is not None and before.size > SHARE * available_memory():
            check_header(stream, before.size)
            array = np.load(file, mmap_mode="r", allow_pickle=False)
            check_unchanged(array)
        else:
            array = read_array(stream, os.fstat(stream.fileno()).st_size)
            if State.of(file) != before:
                raise _changed(file)
    return np.asarray(array)


def check_unchanged(*arrays: Any) -> None:
    """Raise an error if the file of a mapped array has changed since this was first called for it."""
    for array in arrays:
        mapped = mapped_array(array)
        if mapped is None or mapped.filename is None:
            continue
        held: Any = mapped.base
        now = State.of(mapped.filename)
        if _seen.setdefault(held, now) != now:
            raise _changed(mapped.filename)


def mapped_array(array: Any) -> np.memmap[Any, Any] | None:
    """Return the array mapped from a file whose memory an array shares, if there is one."""
    while isinstance(array, np.ndarray) and not isinstance(array.base, mmap):
        array = array.base
    return array if isinstance(array, np.memmap) else None


def _changed(file: Any) -> InputError:
    return InputError(
        f"{file} was changed while it was in use",
        do="rank a copy that nobody writes to, or wait until the file is complete",
    )
