"""Stand-ins for large optional libraries, so that the classes that extend theirs can be documented.

The reference looks the same whether torch, PyKEEN and the others are installed or not. Nothing is run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LIBRARIES = ("torch", "lightning", "torchmetrics", "pykeen", "ir_measures")


def _nothing(self: Any, *_: Any, **__: Any) -> None:
    """Take any arguments."""


def _attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Kind(name, (), {"__init__": _nothing}) if name[0].isupper() else _Stub()


class _Kind(type):
    """The type of classes that have every attribute."""

    def __getattr__(cls, name: str) -> Any:
        return _attribute(name)


class _Stub:
    """A function, also as a decorator, or a module that has every attribute."""

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if args and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        return _attribute(name)


class _Module(ModuleType):
    """A module that has every class."""

    __path__: Sequence[str] = ()
    __version__ = "9999"  # new enough

    def __getattr__(self, name: str) -> Any:
        """Make a class of this name."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Kind(name, (), {"__module__": self.__name__, "__init__": _nothing})
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    """Find these libraries before others do."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where a module comes from, if it is of these libraries."""
        del path, target
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in LIBRARIES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the module."""
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete."""


@contextmanager
def standins() -> Iterator[None]:
    """Let imports of these libraries find stand-ins."""
    loaded = [name for name in sys.modules if name.split(".")[0] in LIBRARIES]
    if loaded:
        raise RuntimeError(f"stand-ins come too late: {', '.join(loaded)} are imported")
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
