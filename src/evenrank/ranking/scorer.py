"""The interfaces of models: `Scorer`, `Factoring`, `Movable`; and `Factored`, a score by its factors.

Any `Scorer` can be ranked. A model whose score factors is ranked faster, with certified comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats, Ints, array, host, place
from evenrank._internal.checks import check_choice
from evenrank.errors import InputError
from evenrank.ranking.engine import numpy_kernels
from evenrank.ranking.engine.bounds import FORMS, Form

Candidates = slice | Ints


@runtime_checkable
class Scorer(Protocol):
    """An object with a method that scores queries against candidates.

    `er.rank` also accepts a plain function of the same two arguments.

    Examples
    --------
    >>> class Constant:
    ...     def score(self, queries, candidates):
    ...         return np.ones((len(queries), len(np.arange(9)[candidates])))
    >>> isinstance(Constant(), Scorer)
    True
    """

    def score(self, queries: Ints, candidates: Candidates) -> ArrayLike:
        """Score a batch of queries against candidates; higher is better.

        Parameters
        ----------
        queries : array of int
            A row per query, such as (head, relation, -1) for the tails of a graph.
        candidates : slice or array of int
            A slice or a vector of ids for all queries, or a matrix with a row of ids per query.

        Returns
        -------
        array
            Scores, a row per query and a column per candidate.
        """
        ...


@runtime_checkable
class Factoring(Protocol):
    """A model whose score factors into query vectors and a table of candidates, on some or all sides."""

    def factored(self, side: str) -> Factored | None:
        """Return the factors for queries on a side ("tail", "head", "relation", ...), or None.

        None means that the score does not factor on this side; the model is then ranked by its scores.
        """
        ...

    def size(self, side: str) -> int:
        """Return the number of candidates on a side."""
        ...


@runtime_checkable
class Movable(Protocol):
    """A model whose arrays can be moved between the host and devices of torch."""

    @property
    def device(self) -> str:
        """The device that the arrays are on: "cpu", or a device of torch."""
        ...

    def on(self, device: Any) -> Any:
        """Return the model with its arrays on a device of torch, or with NumPy arrays for None."""
        ...


@dataclass(frozen=True, eq=False)
class Factored:
    """A score that depends on a query vector and on the candidate's row in a table.

    Parameters
    ----------
    form : {"dot", "l1", "l2", "modulus"}
        How vector and row give the score. "dot": their inner product. "l1", "l2": minus their distance
        (for l2 squared, which gives the same order). "modulus": minus the sum of the complex moduli of
        their differences, where rows hold the real parts, then the imaginary parts.
    table : array or tensor
        A row per candidate, of NumPy or torch.
    queries : callable
        Turns an array of queries, a row each, into their vectors. It should compute each row by
        itself, in float64, so that results do not depend on batches; several threads may call it. If
        the table is a tensor on a GPU, the queries come as a tensor on that GPU.
    check : callable, optional
        Raises an error for invalid queries; called on the host.
    reads : tuple, optional
        Identifies the formula and the memory that `queries` reads: equal values promise equal vectors.

    Examples
    --------
    >>> table = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> model = Factored("dot", table, lambda queries: table[queries[:, 0]])
    >>> model.score(np.array([[2]]), slice(0, 3))
    array([[ 3.,  3., 18.]])
    """

    form: Form
    table: Any
    queries: Callable[[Any], Any]
    check: Callable[[Ints], None] | None = None
    reads: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Check the table."""
        check_choice("form of score", self.form, FORMS)
        if not callable(self.queries):
            raise InputError("queries must be a function of arrays", got=type(self.queries).__name__)
        rows = array("the table of candidates", self.table)
        if rows.ndim != 2 or 0 in rows.shape or (self.form == "modulus" and rows.shape[1] % 2):
            raise InputError(
                "the table of candidates must have a row of numbers per candidate"
                + (", real parts and imaginary parts" if self.form == "modulus" else ""),
                got=f"shape {rows.shape}",
            )
        object.__setattr__(self, "table", rows)

    @property
    def device(self) -> str:
        """The device that the table is on: "cpu", or a device of torch."""
        return place(self.table)

    def on(self, device: Any) -> Factored:
        """Return the same score, on the host if the device is None; other devices take either table.

        Parameters
        ----------
        device : str, torch.device or None
            A device of torch, or None for NumPy.

        Returns
        -------
        Factored
            The score itself, or a copy with the table on the host.
        """
        return (
            self if device is not None or self.device == "cpu" else replace(self, table=host(self.table))
        )

    def vectors(self, queries: Ints) -> Floats:
        """Compute the query vectors and check their shape.

        Parameters
        ----------
        queries : array of int
            A row per query.

        Returns
        -------
        array of float64
            A row per query, as long as the rows of the table.

        Raises
        ------
        InputError
            If a query is invalid or the vectors have the wrong shape.
        """
        if self.check is not None:
            self.check(queries)
        given = host(array("query vectors", self.queries(queries)))
        vectors = np.ascontiguousarray(given, dtype=np.float64)
        if vectors.shape != (len(queries), self.table.shape[1]):
            raise InputError(
                "query vectors have the wrong shape",
                got=str(vectors.shape),
                allowed=f"{(len(queries), self.table.shape[1])}: per query a row as long as the table's",
            )
        return vectors

    def score(self, queries: Ints, candidates: Candidates) -> Floats:
        """Compute scores in float64; to rank, `evenrank.rank` is a hundred times faster.

        Parameters
        ----------
        queries : array of int
            A row per query.
        candidates : slice or array of int
            As in `Scorer.score`.

        Returns
        -------
        array of float64
            Scores, a row per query and a column per candidate.
        """
        vectors = self.vectors(queries)
        rows = self.table[candidates].astype(np.float64, copy=False)
        if rows.ndim == 2 and self.form == "dot":
            return np.asarray(vectors @ rows.T)
        if rows.ndim == 3:
            return numpy_kernels.score(self.form, vectors[:, None], rows)
        return np.stack([numpy_kernels.score(self.form, vector, rows) for vector in vectors])
