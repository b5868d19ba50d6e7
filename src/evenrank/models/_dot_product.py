"""Recommenders that factor: the dot product of a user's vector and an item's, plus a bias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenrank._internal.arrays import Floats, Ints, array, is_tensor, join, place, to, wide
from evenrank.errors import InputError
from evenrank.ranking.scorer import Candidates, Factored


@dataclass(frozen=True, eq=False, repr=False)
class DotProduct:
    """Matrix factorization: ``<p_u, q_i> + b_i`` for user u and item i.

    The bias of a user and the mean of all ratings are the same for all items, so they do not change a
    rank and are not part of the model.

    Parameters
    ----------
    users : array-like, shape (users, dimension)
        A vector per user, of NumPy or torch.
    items : array-like, shape (items, dimension)
        A vector per item.
    item_bias : array-like, shape (items,), optional
        A bias per item.

    Examples
    --------
    >>> model = DotProduct([[1.0, 0.0], [0.0, 1.0]], [[3.0, 0.0], [1.0, 5.0]], item_bias=[0.5, 0.0])
    >>> model
    DotProduct(2 users, 2 items)
    >>> model.score([[0], [1]], slice(0, 2))
    array([[3.5, 1. ],
           [0.5, 5. ]])
    """

    users: Any
    items: Any
    item_bias: Any = None

    def __post_init__(self) -> None:
        """Check the arrays."""
        for name, axes in (("users", 2), ("items", 2), ("item_bias", 1)):
            if getattr(self, name) is None and axes == 1:
                continue
            table = array(name, getattr(self, name))
            if table.ndim != axes or 0 in table.shape:
                what = f"{self.name}: {name} must have {axes} axes, none of them empty"
                raise InputError(what, got=f"shape {tuple(table.shape)}")
            object.__setattr__(self, name, table)
        sizes = [("dimension", "users", self.users.shape[1], self.items.shape[1])]
        if self.item_bias is not None:
            sizes.append(("number of items", "item_bias", len(self.item_bias), len(self.items)))
        for what, name, mine, size in sizes:
            if mine != size:
                got = f"{mine} in {name}, {size} in items"
                raise InputError(f"{self.name}: arrays differ in {what}", got=got)

    @property
    def name(self) -> str:
        """The model's name."""
        return "DotProduct"

    def __repr__(self) -> str:
        """Return name and size."""
        return f"{self.name}({len(self.users):,} users, {len(self.items):,} items)"

    def size(self, side: str) -> int:
        """Return the number of items.

        Parameters
        ----------
        side : str
            What queries ask for: items, whatever the task calls them.

        Returns
        -------
        int
            The number of items.
        """
        del side
        return len(self.items)

    @property
    def device(self) -> str:
        """Device of the arrays: `cpu`, or a torch device if any of them is on one."""
        return min({place(values) for values in self._arrays().values()} - {"cpu"}, default="cpu")

    def _arrays(self) -> dict[str, Any]:
        arrays = {"users": self.users, "items": self.items, "item_bias": self.item_bias}
        return {name: values for name, values in arrays.items() if values is not None}

    def on(self, device: Any) -> DotProduct:
        """Return a copy of the model with its arrays on another device.

        Parameters
        ----------
        device : str, torch.device or None
            A torch device; None for NumPy arrays.

        Returns
        -------
        DotProduct
            A new object; arrays that are already there are shared.
        """
        return replace(self, **{name: to(device, values) for name, values in self._arrays().items()})

    def factored(self, side: str) -> Factored:
        """Factor the score: the bias is one more dimension, in which every user has a 1.

        Parameters
        ----------
        side : str
            What queries ask for: items, whatever the task calls them.

        Returns
        -------
        Factored
            Vectors of users, and a table of items.
        """
        del side

        def vectors(queries: Any) -> Any:
            rows = wide(self.users[queries[:, 0]])
            if self.item_bias is None:
                return rows
            one = rows[:, :1]
            return join(rows, one.new_ones(one.shape) if is_tensor(one) else np.ones_like(one))

        table = self.items if self.item_bias is None else join(self.items, self.item_bias[:, None])
        return Factored("dot", table, vectors, self._check)

    def _check(self, queries: Ints) -> None:
        if queries.ndim != 2 or queries.shape[1] != 1:
            raise InputError(
                f"{self.name} needs queries of one column, the user", got=f"shape {queries.shape}"
            )
        unknown = queries[(queries < 0) | (queries >= len(self.users))]
        if len(unknown):
            raise InputError(
                f"user {unknown[0]} is not in the model",
                got=f"a model of {len(self.users):,} users, numbered from 0",
            )

    def score(self, queries: Ints, candidates: Candidates) -> Floats:
        """Score users against items in float64.

        Parameters
        ----------
        queries : array of int, shape (n, 1)
            Users.
        candidates : slice or array of int
            The same items for all users, or a row of items per user.

        Returns
        -------
        ndarray, shape (n, number of items)
            Scores; higher is better.
        """
        here = self if self.device == "cpu" else self.on(None)
        return here.factored("item").score(np.asarray(queries), candidates)
