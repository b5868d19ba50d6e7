"""Optional libraries: imported when needed; where one is absent or too old, its extra is named."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from evenrank.errors import InputError


class Extra(NamedTuple):
    """How a library is asked for, and the oldest version that will do, as `pyproject.toml` has them."""

    name: str
    least: str


LIBRARIES = {
    "distributed": Extra("dask", "2024.8"),
    "fsspec": Extra("remote", "2024.6"),
    "lightning": Extra("lightning", "2.4"),
    "pandas": Extra("pandas", "2.2"),
    "pyarrow": Extra("arrow", "16"),
    "pykeen": Extra("pykeen", "1.11"),
    "torch": Extra("torch", "2.6"),
    "torchmetrics": Extra("torchmetrics", "1.6"),
    "xarray": Extra("xarray", "2024.6"),
}


def need(library: str) -> Any:
    """Import an optional library, or say which extra brings one that will do."""
    extra = LIBRARIES[library]
    install = f"pip install --upgrade 'evenrank[{extra.name}]'"
    try:
        module = import_module(library)
    except ImportError as error:
        raise InputError(f"this needs {library}", got=str(error), do=install) from None
    found = getattr(module, "__version__", None) or _installed(library)
    if _parts(found) < _parts(extra.least):
        raise InputError(
            f"this version of {library} is too old",
            got=found,
            allowed=f"{extra.least} or newer",
            do=install,
        )
    return module


@cache
def _installed(library: str) -> str:
    """Give the version of a library that does not say it itself."""
    from importlib.metadata import version  # slow to import

    return version(library)


def _parts(version: str) -> tuple[int, ...]:
    """Give the leading numbers of a version, which order as versions do."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
