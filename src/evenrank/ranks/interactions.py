"""Recommendation tasks, from rows of user, item and gain, or from sparse matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.task import Task

WITHOUT = "users without test items"  # the entry of the protocol that counts those left out


class Interactions(NamedTuple):
    """Distinct pairs of user and item, sorted, each with its gain."""

    users: Ints
    items: Ints
    gains: Floats | None
    shape: tuple[int, int] | None  # users and items of a matrix


def recommendation(
    test: Any, train: Any, items: int | None, users: int | None, protocol: Protocol
) -> Task:
    """Create the task of `Task.recommendation`."""
    asked, seen = read("test", test), read("train", () if train is None else train)
    shapes = [one.shape for one in (asked, seen) if one.shape is not None]
    if len({shape[1] for shape in shapes}) > 1:
        raise InputError(
            "test and train must have the same items", got=" and ".join(f"{s[1]:,}" for s in shapes)
        )
    if items is None and not shapes:
        raise InputError("the number of items is required", do="pass it as items=")
    many = shapes[0][1] if items is None else columns.integer("items", items, 1)
    for name, one in (("test", asked), ("train", seen)):
        wrong = f"an item of {name} is not below the number of items, {many:,}"
        columns.reject(one.items >= many, one.items, wrong)
    occur = np.unique(np.concatenate([asked.users, seen.users]))
    if users is not None:
        users = columns.integer("users", users, 1)
        columns.reject(occur >= users, occur, f"a user is not below the number of users, {users:,}")
    count = users or max((shape[0] for shape in shapes), default=len(occur))
    if without := count - len(np.unique(asked.users)):
        protocol = replace(protocol, extra={**protocol.extra, WITHOUT: f"{without:,}"})
    keys: dict[str, NDArray[Any]] = {"user": asked.users, "item": asked.items}
    if asked.gains is not None:
        keys["gain"] = asked.gains
    return Task.of(
        asked.users[:, None],
        asked.items,
        size=many,
        known=(
            np.concatenate([asked.users, seen.users])[:, None],
            np.concatenate([asked.items, seen.items]),
        ),
        side="item",
        keys=keys,
        protocol=protocol,
    )


def read(name: str, given: Any) -> Interactions:
    """Read rows `(user, item)` or `(user, item, gain)`, or a sparse matrix of users and items.

    A gain of zero says that an item is not relevant, so the pair is left out.
    """
    if hasattr(given, "tocoo"):
        matrix = given.tocoo(copy=True)
        matrix.sum_duplicates()
        users, items, gains, shape = matrix.row, matrix.col, matrix.data, matrix.shape
    else:
        table = columns.as_array(name, given)
        if not table.size:
            table = np.zeros((0, 2), np.int64)
        if table.ndim != 2 or table.shape[1] not in (2, 3):
            raise InputError(
                f"{name} must be rows of user and item, or user, item and gain, or a sparse matrix",
                got=columns.described(table),
            )
        if any(isinstance(value, str) for value in table[:1].ravel().tolist()):
            raise InputError(
                f"users and items of {name} must be whole numbers from 0",
                got=columns.described(table[0]),
                do="number the names: np.unique(names, return_inverse=True)",
            )
        users, items, shape = table[:, 0], table[:, 1], None
        gains = table[:, 2] if table.shape[1] == 3 else None
    user = columns.integers(f"users of {name}", users, 0)
    item = columns.integers(f"items of {name}", items, 0)
    gain = None if gains is None else _checked(name, gains)
    if gain is not None:
        there = gain > 0
        user, item, gain = user[there], item[there], gain[there]
    span = int(item.max(initial=0)) + 1
    pair = user * span + item
    if gain is None:
        pair = np.sort(pair)  # np.unique takes five times as long
        user, item = np.divmod(pair[np.diff(pair, prepend=-1) > 0], span)
        return Interactions(user, item, None, shape)
    order = np.argsort(pair, kind="stable")
    pair, gain = pair[order], gain[order]
    again = np.diff(pair, prepend=-1) == 0
    differs = np.flatnonzero(again[1:] & (np.diff(gain) != 0))
    if len(differs):
        at = int(differs[0])
        raise InputError(
            f"a pair of user and item has several gains in {name}",
            got=f"{gain[at]:g} and {gain[at + 1]:g} for user {pair[at] // span}, item {pair[at] % span}",
            do="keep one of them, or their sum",
        )
    user, item = np.divmod(pair[~again], span)
    return Interactions(user, item, gain[~again], shape)


def _checked(name: str, gains: Any) -> Floats:
    """Check that gains are numbers that can be added; TRUE counts as 1."""
    values = np.asarray(gains)
    if values.dtype.kind not in "iufb":
        raise InputError(f"gains of {name} must be numbers", got=columns.described(values))
    values = values.astype(float)
    columns.reject(~np.isfinite(values) | (values < 0), values, f"gains of {name} must not be negative")
    return values
