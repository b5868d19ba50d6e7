"""What can be ranked: anything that scores, and, faster and exactly, anything that factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats, Ints, array, host, place
from evenrank.errors import InputError
from evenrank.ranking.engine import numpy_kernels
from evenrank.ranking.engine.bounds import FORMS, Form

Candidates = slice | Ints


@runtime_checkable
class Scorer(Protocol):
    """An object that scores; a plain function of the same two arguments will do as well."""

    def score(self, queries: Ints, candidates: Candidates) -> ArrayLike:
        """Score a batch of queries, a row each, against candidates; higher is better.

        `candidates` is a slice, or a vector of ids, the same for all queries, or a matrix with a row of
        ids per query. The result has a row per query and a column per candidate.
        """
        ...


@runtime_checkable
class Factoring(Protocol):
    """A model that can say, for the side that is asked for, how its score factors; None: it does not.

    It may also have `device`, where its arrays are, and `on(device)`, itself with its arrays there.
    """

    def factored(self, side: str) -> Factored | None:
        """Give the factors for queries that ask for the tail, the head, the relation, ..."""
        ...

    def size(self, side: str) -> int:
        """Give the number of candidates for such queries."""
        ...


@dataclass(frozen=True, eq=False)
class Factored:
    """A score that depends on a query vector and a candidate's row of a table, by one of four forms.

    `dot`: inner product. `l1`, `l2`: minus the distance (l2: squared, which orders the same). `modulus`:
    minus the sum of complex moduli of the differences; rows hold real parts, then imaginary parts.
    `queries` turns rows of queries into vectors; it should work out each row by itself, in float64,
    so that results do not depend on batches, and may be called from several threads. Where the table is
    a tensor on a GPU, it gets the rows as a tensor there.

    >>> table = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> model = Factored("dot", table, lambda queries: table[queries[:, 0]])
    >>> model.score(np.array([[2]]), slice(0, 3))
    array([[ 3.,  3., 18.]])
    """

    form: Form
    table: Any
    queries: Callable[[Any], Any]
    check: Callable[[Ints], None] | None = None  # refuses queries that make no sense, on the host
    # which formula on which memory `queries` is, if it is nothing else: equal ones give equal vectors
    reads: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Check the table."""
        if self.form not in FORMS:
            raise InputError("unknown form of score", got=repr(self.form), allowed=", ".join(FORMS))
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
        """Where the table is: `cpu`, or a device of torch."""
        return place(self.table)

    def on(self, device: Any) -> Factored:
        """Give this with a NumPy table where the device is None; torch's devices take either."""
        return (
            self if device is not None or self.device == "cpu" else replace(self, table=host(self.table))
        )

    def vectors(self, queries: Ints) -> Floats:
        """Give the query vectors, checked."""
        if self.check is not None:
            self.check(queries)
        given = host(array("query vectors", self.queries(queries)))
        vectors = np.ascontiguousarray(given, dtype=np.float64)
        if vectors.shape != (len(queries), self.table.shape[1]):
            raise InputError(
                "query vectors have the wrong shape",
                got=str(vectors.shape),
                allowed=f"{(len(queries), self.table.shape[1])}: as many rows, as long as the table's",
            )
        return vectors

    def score(self, queries: Ints, candidates: Candidates) -> Floats:
        """Score in float64; to rank, `evenrank.rank` is a hundred times faster."""
        vectors = self.vectors(queries)
        rows = self.table[candidates].astype(np.float64, copy=False)
        if rows.ndim == 2 and self.form == "dot":
            return np.asarray(vectors @ rows.T)
        if rows.ndim == 3:
            return numpy_kernels.score(self.form, vectors[:, None], rows)
        return np.stack([numpy_kernels.score(self.form, vector, rows) for vector in vectors])
