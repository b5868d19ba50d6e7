"""Modules of torch behind a scorer: found without importing torch, and kept in evaluation mode."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock
from types import FunctionType, MethodType, ModuleType
from typing import Any

DEPTH = (
    4  # how far modules are looked for: the function of an object, its closure, an object in there, ...
)
ITEMS = 64  # items of a container, or attributes of an object, that are looked at


def is_module(thing: Any) -> bool:
    """Return whether an object is a module of torch; without torch imported, nothing is."""
    kind = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return kind is not None and isinstance(thing, kind)


def unwrapped(module: Any) -> Any:
    """Return the module that torch.compile, DataParallel and the like wrap; other objects unchanged."""
    while is_module(module):
        inner = getattr(module, "_orig_mod", getattr(module, "module", None))
        if not is_module(inner) or not type(module).__module__.startswith("torch."):
            break
        module = inner
    return module


def modules_of(scorer: Any) -> list[Any]:
    """Find the modules that a scorer is, holds or refers to, in attributes, closures and globals."""
    if "torch" not in sys.modules:
        return []
    found: list[Any] = []
    seen: dict[int, Any] = {}

    def look(thing: Any, depth: int) -> None:
        if id(thing) in seen:
            return
        seen[id(thing)] = thing
        if is_module(thing):
            found.append(thing)
        elif depth:
            for part in islice(_parts(thing), ITEMS):
                look(part, depth - 1)

    look(scorer, DEPTH)
    return found


def _parts(thing: Any) -> Iterator[Any]:
    """Yield what an object refers to by name."""
    if isinstance(thing, partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, FunctionType):
        yield from (cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell))
        yield from (thing.__globals__.get(name) for name in thing.__code__.co_names)
        yield from (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values())
    elif isinstance(thing, list | tuple):
        yield from thing
    elif isinstance(thing, Mapping):
        yield from thing.values()
    elif not isinstance(thing, type | ModuleType):
        yield from getattr(thing, "__dict__", {}).values()


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # an empty cell raises
    except ValueError:
        return False
    return True


@dataclass
class _Held:
    """A part of a module, its mode before it was held, and how many callers hold it."""

    part: Any
    training: bool
    holders: int = 0


class _Modes:
    """The modes of modules that are held in evaluation mode, by any number of callers at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: dict[int, _Held] = {}

    def hold(self, module: Any) -> None:
        with self._lock:
            parts = list(module.modules())
            for part in parts:
                self._held.setdefault(id(part), _Held(part, part.training)).holders += 1
            if any(part.training for part in parts):
                module.eval()

    def release(self, module: Any) -> None:
        with self._lock:
            modes = []
            for part in module.modules():
                held = self._held[id(part)]
                held.holders -= 1
                if not held.holders:
                    del self._held[id(part)]
                modes.append((part, held.training and not held.holders))
            for part, mode in modes:
                if part.training != mode:
                    part.train(mode)  # it may do more than set its flag, and sets those of its parts
            for part, mode in modes:
                if part.training != mode:
                    part.training = mode


_modes = _Modes()


@contextmanager
def evaluating(scorer: Any) -> Iterator[None]:
    """Keep the modules behind a scorer in evaluation mode, without gradients.

    Afterwards each part of each module is back in its own mode, also after an error.

    Parameters
    ----------
    scorer : object
        A module of torch, or any scorer that holds or refers to some.
    """
    torch: Any = sys.modules.get("torch")
    no_grad: Callable[[], Any] = getattr(torch, "no_grad", nullcontext)
    held: list[Any] = []
    try:
        for module in modules_of(scorer):
            _modes.hold(module)
            held.append(module)
        with no_grad():
            yield
    finally:
        for module in reversed(held):
            _modes.release(module)
