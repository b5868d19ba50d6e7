"""Interactions of users and items: read a file, split it, and draw negative items."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank.errors import InputError

Ints = NDArray[np.int64]
TEST = 0.2  # of the interactions of each user, in the random split
SPLITS = ("last", "random")
HEADER = "user_id", "item_id", "timestamp"
COLUMNS = "user, item, rating and timestamp"


class Interactions(NamedTuple):
    """Who interacted with what, and when: users and items are numbered from 0."""

    users: Ints
    items: Ints
    time: Ints
    shape: tuple[int, int]

    @property
    def pairs(self) -> Ints:
        """Rows of user and item."""
        return np.stack([self.users, self.items], axis=1)

    def where(self, rows: NDArray[np.bool_]) -> Interactions:
        """Return some of the interactions."""
        return Interactions(self.users[rows], self.items[rows], self.time[rows], self.shape)

    def matrix(self) -> NDArray[np.float64]:
        """Return a matrix of users and items, 1 for an interaction."""
        made = np.zeros(self.shape)
        made[self.users, self.items] = 1.0
        return made

    def popularity(self) -> Ints:
        """Count the users of each item."""
        return np.bincount(self.items, minlength=self.shape[1])


def read(path: str | Path) -> Interactions:
    """Read MovieLens-100k as its authors publish it (u.data) or as RecBole does (.inter), or gzipped.

    Every rating is an interaction, whatever its value: the user chose to see the film.
    """
    path = Path(path)
    try:
        file = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()  # noqa: SIM115
        with file as lines:
            rows = [line.split() for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise InputError(f"{path} cannot be read as text", got=str(error)) from None
    columns = [0, 1, 3]
    if rows and ":" in rows[0][0]:
        names = [name.partition(":")[0] for name in rows.pop(0)]
        if missing := [name for name in HEADER if name not in names]:
            raise InputError(f"{path} has no column {missing[0]}", got=", ".join(names))
        columns = [names.index(name) for name in HEADER]
    if not rows:
        raise InputError(f"{path} has no interactions")
    for number, row in enumerate(rows, 1):
        if len(row) <= max(columns):
            raise InputError(f"{path}: line {number} has too few columns", got=" ".join(row), do=COLUMNS)
    user, item, time = ([row[column] for row in rows] for column in columns)
    users, who = np.unique(user, return_inverse=True)
    items, what = np.unique(item, return_inverse=True)
    try:
        when = np.array(time, dtype=float).astype(np.int64)
    except ValueError as error:
        raise InputError(f"{path}: timestamps must be numbers", got=str(error)) from None
    found = Interactions(who, what, when, (len(users), len(items)))
    first = np.unique(found.pairs, axis=0, return_index=True)[1]
    return found.where(np.isin(np.arange(len(rows)), first))


def split(data: Interactions, how: str, seed: int = 0) -> tuple[Interactions, Interactions]:
    """Return training and test interactions; both splits are made for each user.

    "last" takes the last interaction of each user (leave-last-out), "random" a fifth of them. Users with
    one interaction keep it for training. Interactions at the same time are in random order.
    """
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(data.users))
    by = (data.time if how == "last" else np.zeros_like(data.time))[shuffled]
    order = shuffled[np.lexsort((by, data.users[shuffled]))]  # stable: equal times stay shuffled
    count = np.bincount(data.users, minlength=data.shape[0])
    held = np.where(count > 1, 1 if how == "last" else np.maximum(1, np.rint(TEST * count)), 0)
    left = np.cumsum(count)[data.users[order]] - np.arange(len(order))  # 1 for the last of a user
    test = np.zeros(len(order), dtype=bool)
    test[order] = left <= held[data.users[order]]
    return data.where(~test), data.where(test)


def negatives(train: Interactions, test: Interactions, count: int, seed: int) -> list[Ints]:
    """Return the test items of each user, and random items that the user has not seen."""
    rng = np.random.default_rng(seed)
    wanted, seen = test.matrix() > 0, train.matrix() > 0
    drawn = []
    for answers, known in zip(wanted, seen, strict=True):
        unseen = np.flatnonzero(~(answers | known))
        some = rng.choice(unseen, min(count, len(unseen)), replace=False)
        drawn.append(np.sort(np.concatenate([np.flatnonzero(answers), some])))
    return drawn
