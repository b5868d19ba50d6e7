"""Pickles read as records: tensors become arrays, objects what they hold, and no foreign code runs.

A file of torch is a zip archive: `data.pkl`, which says what there is, and the raw numbers of each
tensor. The pickle can name any function of any library to be called, which is why files of strangers
are not unpickled. Here every name stands for an empty class of that name, except for those few that
tensors and containers are made of. That needs neither torch nor PyKEEN, works across their versions,
and cannot do harm; what can be told from such records needs no trust. Nor can a small file claim much
memory: nothing is laid out, copied or unpacked that is larger than the bytes which stand for it.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenrank.models.readers.checkpoint import archived, damaged

PARTS = ("_parameters", "_buffers", "_modules")  # where a module of torch keeps its attributes
DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",
    "ComplexFloatStorage": "<c8",
    "ComplexDoubleStorage": "<c16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


class Unreadable(Exception):  # noqa: N818  # it is no error: the file is read another way
    """Says why a pickle cannot be read as records."""


class Record(dict[Any, Any]):
    """An object of a pickle: its attributes, and what was put into it if it is a container.

    None of its attributes is one that Python or NumPy would act on, as on `__array_interface__`, which
    tells where in memory numbers are.
    """

    _state: Any = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        """Do nothing with what a constructor would have got."""

    def __getattr__(self, name: str) -> Any:
        """Find attributes, parameters, buffers and inner modules as torch does."""
        for part in (self._state, *(self._state[part] for part in PARTS if part in self._state)):
            if name in part and not name.startswith("__"):
                return part[name]
        raise AttributeError(f"{type(self).__name__} has no {name}")


def records(path: Path) -> Any:
    """Read a file that `torch.save` wrote as records."""
    if not archived(path):
        raise Unreadable("no archive: a file of torch before 1.6")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > path.stat().st_size:
                raise Unreadable("an archive that holds more than it is long")
            return _Reader(archive).load()
    except Unreadable:
        raise
    except (zipfile.BadZipFile, OSError, KeyError) as error:
        raise damaged(path, error) from None
    except Exception as error:  # a pickle is a program, and can fail in every way
        raise Unreadable(f"{type(error).__name__}: {error}") from None


class _Reader(pickle._Unpickler):
    """Gives records for every class but those of tensors and plain containers.

    It is Python's own reader written in Python, since the one in C makes room for as many remembered
    things as a file says there are, and lets a file set attributes of whatever was named in it.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        names = archive.namelist()
        content = next((name for name in names if name.endswith("data.pkl")), "data.pkl")
        folder = content.removesuffix("data.pkl")
        super().__init__(BytesIO(archive.read(content)))
        if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
            raise Unreadable("numbers in another order of bytes")
        self._numbers = cache(lambda key, kind: _numbers(archive.read(f"{folder}data/{key}"), kind))

    def find_class(self, module: str, name: str) -> Any:
        return KNOWN.get((module, name)) or _record(module, name)

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        _, kind, key, *_ = pid
        if not isinstance(key, str):
            raise Unreadable("numbers without a name")
        if kind.__name__ not in DTYPES:
            raise Unreadable(f"numbers of a kind unknown here, {kind.__name__}")
        return self._numbers(key, kind.__name__)

    def _build(self) -> None:
        """Keep the attributes of a record; nothing else has any."""
        state = self.stack.pop()  # type: ignore[attr-defined]  # of the class in Python
        if isinstance(self.stack[-1], Record) and isinstance(state, dict):  # type: ignore[attr-defined]
            self.stack[-1]._state = state  # type: ignore[attr-defined]

    def _refuse(self) -> None:
        raise Unreadable("bytes that torch does not write")

    dispatch: ClassVar[dict[int, Callable[..., None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BUILD[0]: _build,
        pickle.BYTEARRAY8[0]: _refuse,
    }


def _numbers(content: bytes, kind: str) -> NDArray[Any]:
    numbers = np.frombuffer(content, DTYPES[kind])
    if kind == "BFloat16Storage":  # the upper half of a float32
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers


@cache
def _record(module: str, name: str) -> type[Record]:
    return type(name, (Record,), {"__module__": module})


def _tensor(
    numbers: NDArray[Any],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    _grad: Any = None,
    _hooks: Any = None,
    pending: Any = None,
) -> NDArray[Any]:
    """Lay numbers out as a tensor; never beyond their end, whatever the file says."""
    if not (isinstance(numbers, np.ndarray) and numbers.flags.c_contiguous):
        raise Unreadable("a tensor of something else than numbers")
    if pending:
        raise Unreadable("a tensor still to be conjugated or negated")
    if 0 in shape:
        return np.empty(shape, numbers.dtype)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if min(offset, *strides, *shape, 0) < 0 or max(last + 1, prod(shape)) > len(numbers):
        raise Unreadable("a tensor that is larger than its numbers")
    steps = [step * numbers.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False)


def _first(thing: Any, *_: Any) -> Any:
    return thing


def _empty() -> dict[Any, Any]:
    return {}


KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): _empty,
    ("torch", "Size"): _first,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _first,
}
