"""What all models share: numbering of relations, sides, scoring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats, Ints, memory, place, to, wide
from evenrank.errors import InputError
from evenrank.ranking.engine import numpy_kernels
from evenrank.ranking.engine.bounds import Form
from evenrank.ranking.scorer import Candidates, Factored
from evenrank.ranks.task import HOLE

Inverse = Literal["stacked", "interleaved"]
Array: TypeAlias = Any  # NumPy's, or torch's where the model is on a device
CELLS = 1 << 21  # numbers held at once where scores are worked out triple by triple
BESIDE = ("vocabulary", "known_as")  # what is known of a model beside its arrays and options


class Model(ABC):
    """What all models share: numbering of relations, sides, scoring. Subclasses are frozen values."""

    ARRAYS: ClassVar[tuple[str, ...]] = ("entity", "relation")
    DIRECT: ClassVar[bool] = False  # vectors are worked out from the arrays themselves, in one step
    entity: Any
    relation: Any
    inverse: Inverse | None
    vocabulary: str | None = None  # how rows are numbered: the `vocabulary` of a graph
    known_as: str | None = None  # what its library calls it, where it is written as another model

    @property
    def form(self) -> Form:
        """The form of the score."""
        return "dot"

    @abstractmethod
    def _tail(self, e: Ints, r: Ints) -> Array:
        """Query vectors of `(e, r, ?)`; `r` are rows of the relation table."""

    @abstractmethod
    def _head(self, e: Ints, r: Ints) -> Array:
        """Query vectors of `(?, r, e)`, for plain models."""

    def _table(self, side: str) -> Array:
        """Rows of the candidates for the head or the tail."""
        del side  # the same rows, in most models
        return self.entity

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]] | None:
        """Table and query vectors of `(h, ?, t)`, where that factors in the same form."""
        return None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.known_as or type(self).__name__

    @property
    def entities(self) -> int:
        """Number of entities."""
        return len(self._table("tail"))

    @property
    def relations(self) -> int:
        """Number of relations, inverse ones not counted."""
        return len(self.relation) // (2 if self.inverse else 1)

    def __repr__(self) -> str:
        """Say what and how large."""
        inverse = f", {self.inverse} inverse relations" if self.inverse else ""
        return f"{self.name}({self.entities:,} entities, {self.relations:,} relations{inverse})"

    def _rows(self, r: Ints, *, inverse: bool) -> Ints:
        """Give the rows of relations, or of their inverses."""
        if self.inverse == "interleaved":
            return 2 * r + inverse
        return r + self.relations if inverse else r

    def _plain_rows(self, table: Array) -> Array:
        """Give the rows of the relations themselves, without inverses."""
        return table[::2] if self.inverse == "interleaved" else table[: self.relations]

    def size(self, side: str) -> int:
        """Give the number of candidates on a side."""
        return {"relation": self.relations, "pair": self.entities**2}.get(side, self.entities)

    @property
    def device(self) -> str:
        """Where the arrays are: `cpu`, or a device of torch, if any of them is on one."""
        return min(self._places() - {"cpu"}, default="cpu")

    def _places(self) -> set[str]:
        return {place(getattr(self, name)) for name in present(self)}

    def on(self, device: Any) -> Self:
        """Give the model with its arrays on a device of torch; those that are there are not copied.

        It is always another object: what was worked out from the arrays must not outlive their being
        trained in place.
        """
        if self._places() == {"cpu" if device is None else str(device)}:
            same = object.__new__(type(self))
            names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # a dataclass
            vars(same).update({name: getattr(self, name) for name in (*names, *BESIDE)})
            return same
        return self.with_arrays({name: to(device, getattr(self, name)) for name in present(self)})

    def with_arrays(self, arrays: Mapping[str, Array]) -> Self:
        """Give the model with other arrays for some of its own; what is known of it stays."""
        other = replace(self, **arrays)  # type: ignore[type-var]  # every subclass is a dataclass
        for name in BESIDE:
            object.__setattr__(other, name, getattr(self, name))
        return other

    def factored(self, side: str) -> Factored | None:
        """Say how the score factors where the tail, head or relation is asked for; None: it does not."""
        if side == "relation":
            found = self._relation()
            if found is None:
                return None
            table, vectors = found
            return self._factored(self._plain_rows(table), 0, 2, vectors)
        if side == "tail":
            return self._factored(self._table("tail"), 0, 1, self._tail)
        if side == "head" and self.inverse:
            return self._factored(self._table("tail"), 2, 1, self._tail, inverse=True)
        if side == "head":
            return self._factored(self._table("head"), 2, 1, self._head)
        return None

    def _factored(
        self,
        table: Array,
        first: int,
        second: int,
        vectors: Callable[[Ints, Ints], Array],
        inverse: bool = False,
    ) -> Factored:
        """Take two columns of queries, check that the model knows them, and give their vectors."""

        def check(batch: Ints) -> None:
            if batch.shape[1] != 3:
                raise InputError(
                    "a model needs queries of three columns: head, relation, tail",
                    got=f"{batch.shape[1]} columns",
                )
            self._know(batch, first, second)

        def queries(batch: Array) -> Array:
            a, b = batch[:, first], batch[:, second]
            with np.errstate(all="ignore"):
                return vectors(a, self._rows(b, inverse=inverse) if second == 1 else b)

        return Factored(self.form, table, queries, check, self._reads(first, second, inverse))

    def _reads(self, *formula: Any) -> tuple[Any, ...]:
        """Say which formula on which memory of a device query vectors are; nothing, if there is more."""
        if not self.DIRECT or self.device == "cpu":
            return ()
        arrays = (memory(getattr(self, name)) for name in self.ARRAYS)
        return (type(self), self.form, self.inverse, *formula, *arrays)

    def _know(self, batch: Ints, *columns: int) -> None:
        for column in columns:
            what, size = ("relation", self.relations) if column == 1 else ("entity", self.entities)
            unknown = batch[(batch[:, column] < 0) | (batch[:, column] >= size), column]
            if len(unknown):
                raise InputError(
                    f"the model does not know {what} {unknown[0]}",
                    got=f"{size:,} of that kind, numbered from 0",
                    do="rank on the graph the model was trained on; what train never shows is left out "
                    "by er.load(..., unseen='drop')",
                )

    def score(self, queries: Ints, candidates: Candidates) -> Floats:
        """Score queries against candidates in float64, whatever the hole is (see `evenrank.ranks.task`)."""
        if self.device != "cpu":
            return self.on(None).score(queries, candidates)
        hole = np.flatnonzero(queries[0] == HOLE).tolist()
        side = ("head", "relation", "tail")[hole[0]] if len(hole) == 1 else None
        factored = self.factored(side) if side else None
        if factored is not None:
            return factored.score(queries, candidates)
        if hole not in ([1], [0, 2]):
            raise InputError("a model cannot answer this query", got=str(queries[0].tolist()))
        part = "relation" if hole == [1] else "pair"
        ids = (
            np.arange(*candidates.indices(self.size(part)))
            if isinstance(candidates, slice)
            else candidates
        )
        ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
        result = np.empty(ids.shape)
        step = max(1, CELLS // 16)
        for row, (query, mine) in enumerate(zip(queries, ids, strict=True)):
            for at in range(0, len(mine), step):
                some = mine[at : at + step]
                h, r, t = (np.full(len(some), column) for column in query)
                if hole == [1]:
                    r = some
                else:  # pairs are numbered row by row: h * entities + t
                    h, t = np.divmod(some, self.entities)
                result[row, at : at + step] = self.triples(h, r, t)
        return result

    def triples(self, h: ArrayLike, r: ArrayLike, t: ArrayLike) -> Floats:
        """Score triples, in float64, by definition."""
        if self.device != "cpu":
            return self.on(None).triples(h, r, t)
        rows = np.stack([np.asarray(column, dtype=np.int64) for column in (h, r, t)], axis=1)
        self._know(rows, 0, 1, 2)
        table = self._table("tail")
        step = max(1, CELLS // table.shape[1])
        result = np.empty(len(rows))
        with np.errstate(all="ignore"):
            for at in range(0, len(rows), step):
                some = rows[at : at + step]
                vectors = self._tail(some[:, 0], self._rows(some[:, 1], inverse=False))
                result[at : at + step] = numpy_kernels.score(self.form, vectors, wide(table[some[:, 2]]))
        return result


def present(model: Model) -> list[str]:
    """Name the arrays that a model has; some are optional."""
    return [name for name in model.ARRAYS if getattr(model, name) is not None]
