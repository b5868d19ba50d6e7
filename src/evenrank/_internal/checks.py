"""Checks of the type of an argument, and of options with a few values."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any

from evenrank.errors import InputError


def check_type(
    given: object, kind: type[Any] | UnionType, what: str, *, allowed: str | None = None, do: Any = None
) -> None:
    """Raise `InputError` with the message `what`, and the type that was given, if it is another."""
    if not isinstance(given, kind):
        raise InputError(what, got=type(given).__name__, allowed=allowed, do=do)


def check_choice(what: str, given: object, allowed: Iterable[str]) -> None:
    """Raise `InputError` unless an option is one of those there are."""
    names = list(allowed)
    if not isinstance(given, str) or given not in names:
        words = (repr(name) if " " in name else name for name in names)
        raise InputError(f"unknown {what}", got=repr(given)[:40], allowed=", ".join(words))
