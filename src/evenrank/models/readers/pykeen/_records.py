"""Reads torch pickles as records: tensors become arrays, objects their attributes; no foreign code runs.

A torch file is a zip archive of `data.pkl`, which describes the objects, and the raw numbers of each
tensor. A pickle can call any function of any library, which is why untrusted files must not be
unpickled. Here every name becomes an empty class of that name, except for the few that tensors and
containers consist of. That needs neither torch nor PyKEEN, works across their versions, and is safe for
untrusted files. Nor can a small file claim much memory: nothing is allocated that is larger than the
bytes it is read from.
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

from evenrank.errors import InputError
from evenrank.models.readers._pickles import check_pickle
from evenrank.models.readers.checkpoint import archived, damaged

PARTS = ("_parameters", "_buffers", "_modules")  # where a torch module keeps its attributes
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


class Unreadable(Exception):  # noqa: N818  # not an error: the file is unpickled if it is trusted
    """Why a pickle cannot be read as records."""


class Record(dict[Any, Any]):
    """An object of a pickle: its attributes, and its items if it is a container.

    Names with two leading underscores are not attributes: Python and NumPy act on some of them, such as
    `__array_interface__`, which points to memory.
    """

    _state: Any = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        """Ignore the arguments of the constructor."""

    def __getattr__(self, name: str) -> Any:
        """Look up attributes, parameters, buffers and inner modules as torch does."""
        for part in (self._state, *(self._state[part] for part in PARTS if part in self._state)):
            if name in part and not name.startswith("__"):
                return part[name]
        raise AttributeError(f"{type(self).__name__} has no {name}")


def records(path: Path) -> Any:
    """Read a file that `torch.save` wrote as records."""
    if not archived(path):
        raise Unreadable("written by torch before 1.6")
    try:
        check_pickle(path)
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive).load()
    except (Unreadable, InputError):
        raise
    except (zipfile.BadZipFile, OSError, KeyError) as error:
        raise damaged(path, error) from None
    except Exception as error:  # a pickle is a program: it can raise anything
        said = "".join(part for part in error.args[:1] if isinstance(part, str))
        raise Unreadable(f"{type(error).__name__}: {said}") from None


class _Reader(pickle._Unpickler):
    """Unpickler that turns every class but those of tensors and plain containers into a record.

    It extends the unpickler written in Python: the one in C allocates as much memory for its memo as a
    file asks for, and lets a file set attributes of anything it names.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        names = archive.namelist()
        content = next((name for name in names if name.endswith("data.pkl")), "data.pkl")
        folder = content.removesuffix("data.pkl")
        super().__init__(BytesIO(archive.read(content)))
        if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
            raise Unreadable("big-endian numbers")
        self._numbers = cache(lambda key, kind: _numbers(archive.read(f"{folder}data/{key}"), kind))

    def find_class(self, module: str, name: str) -> Any:
        return KNOWN.get((module, name)) or _record(module, name)

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        _, kind, key, *_ = pid
        if not isinstance(key, str):
            raise Unreadable("a storage without a key")
        if kind.__name__ not in DTYPES:
            raise Unreadable(f"unsupported storage, {kind.__name__}")
        return self._numbers(key, kind.__name__)

    def _build(self) -> None:
        """Set the attributes of a record; nothing else may have any."""
        state = self.stack.pop()  # type: ignore[attr-defined]  # of the class in Python
        if isinstance(self.stack[-1], Record) and isinstance(state, dict):  # type: ignore[attr-defined]
            self.stack[-1]._state = state  # type: ignore[attr-defined]

    def _reject(self) -> None:
        raise Unreadable("an opcode that torch does not write")

    dispatch: ClassVar[dict[int, Callable[..., None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BUILD[0]: _build,
        pickle.BYTEARRAY8[0]: _reject,
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
    """Build a tensor from its storage, never beyond the end of the storage."""
    if not (isinstance(numbers, np.ndarray) and numbers.flags.c_contiguous):
        raise Unreadable("a tensor without numbers")
    if pending:
        raise Unreadable("a lazily conjugated or negated tensor")
    if not all(isinstance(n, int) and abs(n) < 1 << 60 for n in (offset, *shape, *strides)):
        raise Unreadable("a tensor whose shape is not of whole numbers")
    if 0 in shape:
        return np.empty(shape, numbers.dtype)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if min(offset, *strides, *shape, 0) < 0 or max(last + 1, prod(shape)) > len(numbers):
        raise Unreadable("a tensor larger than its storage")
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
