"""Imports of optional libraries, with errors that name the extra to install."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from evenrank.errors import InputError


class Extra(NamedTuple):
    """The extra that installs a library, and the oldest supported version, as in `pyproject.toml`."""

    name: str
    least: str


LIBRARIES = {
    "cryptography": Extra("dask", "42"),
    "distributed": Extra("dask", "2024.8"),
    "fsspec": Extra("remote", "2024.6"),
    "ir_measures": Extra("ir-measures", "0.3"),
    "lightning": Extra("lightning", "2.4"),
    "pandas": Extra("pandas", "2.2.2"),
    "pyarrow": Extra("arrow", "16.1"),
    "pykeen": Extra("pykeen", "1.11"),
    "torch": Extra("torch", "2.6"),
    "torchmetrics": Extra("torchmetrics", "1.6"),
    "xarray": Extra("xarray", "2024.6"),
}


def need(library: str) -> Any:
    """Import an optional library; a missing or old one raises an error that names its extra."""
    extra = LIBRARIES[library]
    install = f"pip install --upgrade 'evenrank[{extra.name}]'"
    try:
        module = import_module(library)
    except ImportError as error:
        raise InputError(f"this requires {library}", got=str(error), do=install) from None
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
    """Look up the version of a library that has no `__version__`."""
    from importlib.metadata import version  # slow to import

    return version(library)


def _parts(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, which sort as versions do."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
