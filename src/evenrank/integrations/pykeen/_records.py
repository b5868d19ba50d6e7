"""Pickles read as records: tensors become arrays, objects what they hold, and no foreign code runs.

A file of torch is a zip archive: `data.pkl`, which says what there is, and the raw numbers of each
tensor. The pickle can name any function of any library to be called, which is why files of strangers
are not unpickled. Here every name stands for an empty class of that name, except for those few that
tensors and containers are made of. That needs neither torch nor PyKEEN, works across their versions,
and cannot do harm; what can be told from such records needs no trust.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank.errors import InputError

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
    """An object of a pickle: its attributes, and what was put into it if it is a container."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Do nothing with what a constructor would have got."""

    def __setstate__(self, state: Any) -> None:
        """Keep the attributes."""
        for part in state if isinstance(state, tuple) else (state,):  # two where a class has slots
            if isinstance(part, dict):
                vars(self).update(part)

    def __getattr__(self, name: str) -> Any:
        """Find parameters, buffers and inner modules as torch does."""
        for part in PARTS:
            if name in vars(self).get(part, ()):
                return vars(self)[part][name]
        raise AttributeError(f"{type(self).__name__} has no {name}")


def records(path: Path) -> Any:
    """Read a file that `torch.save` wrote as records."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive).load()
    except Unreadable:
        raise
    except (zipfile.BadZipFile, OSError, KeyError) as error:
        raise InputError(
            f"cannot read {path}", got=str(error) or type(error).__name__, do="it may be damaged"
        ) from None
    except Exception as error:  # a pickle is a program, and can fail in every way
        raise Unreadable(f"{type(error).__name__}: {error}") from None


class _Reader(pickle.Unpickler):
    """Gives records for every class but those of tensors and plain containers."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        content = next((name for name in archive.namelist() if name.endswith("data.pkl")), "data.pkl")
        super().__init__(BytesIO(archive.read(content)))
        folder = content.removesuffix("data.pkl")
        self._numbers = cache(lambda key: archive.read(f"{folder}data/{key}"))

    def find_class(self, module: str, name: str) -> Any:
        return KNOWN.get((module, name)) or _record(module, name)

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        _, kind, key, *_ = pid
        if kind.__name__ not in DTYPES:
            raise Unreadable(f"numbers of a kind unknown here, {kind.__name__}")
        numbers = np.frombuffer(self._numbers(str(key)), DTYPES[kind.__name__])
        if kind.__name__ == "BFloat16Storage":  # the upper half of a float32
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        return numbers


@cache
def _record(module: str, name: str) -> type[Record]:
    return type(name, (Record,), {"__module__": module})


def _tensor(numbers: NDArray[Any], offset: int, shape: Any, strides: Any, *_: Any) -> NDArray[Any]:
    """Lay numbers out as a tensor; never beyond their end, whatever the file says."""
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.empty(shape, numbers.dtype)
    if min(offset, *strides, *shape, 0) < 0 or last >= len(numbers):
        raise Unreadable("a tensor that is larger than its numbers")
    steps = [step * numbers.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False)


def _parameter(tensor: NDArray[Any], *_: Any) -> NDArray[Any]:
    return tensor


KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "set"): set,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}
