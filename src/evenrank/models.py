"""Models on plain arrays: TransE, RotatE, DistMult, ComplEx, TuckER, RESCAL, SimplE, CP; files of them.

Each scores a triple `(h, r, t)`, higher is better, and knows how the score factors for each side: query
vector against a table of candidates. Arrays may be NumPy's or torch's (on the CPU: without a copy).
Complex numbers are complex arrays, or real ones that hold all real parts, then all imaginary parts.

**Sides.** Plain models answer `(?, r, t)` with their own formula. Models trained with reciprocal
(inverse) relations answer it as `(t, r', ?)`, with a row of its own for `r'`: `inverse="stacked"` where
the rows are r_0 .. r_R, r'_0 .. r'_R (most libraries), `inverse="interleaved"` where they are r_0,
r'_0, r_1, r'_1, ... (PyKEEN).

**Files.** `save` and `load` use safetensors: no pickle, no code; a small JSON header names the model.

>>> import numpy as np
>>> model = TransE([[0.0], [1.0], [2.0]], [[1.0]])
>>> model.score(np.array([[0, 0, -1]]), slice(0, 3))  # 0 + 1 is nearest to entity 1
array([[-1., -0., -1.]])
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank.engine import _numpy
from evenrank.engine._arrays import array, host, join, memory, place, to, wide
from evenrank.engine._bounds import Form
from evenrank.engine._product import Slices, by_group
from evenrank.engine._vectors import combined
from evenrank.engine.scorer import Candidates, Factored
from evenrank.errors import InputError
from evenrank.files import replacing
from evenrank.sums import Floats, Ints
from evenrank.task import HOLE

if TYPE_CHECKING:
    from evenrank.data.graph import Graph

__all__ = ["CP", "RESCAL", "ComplEx", "DistMult", "Model", "RotatE", "SimplE", "TransE", "TuckER"]

Inverse = Literal["stacked", "interleaved"]
Array: TypeAlias = Any  # NumPy's, or torch's where the model is on a device
METADATA = "evenrank"
KINDS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}  # safetensors' names of NumPy's types
CELLS = 1 << 21  # numbers held at once where scores are worked out triple by triple


class Model(ABC):
    """What all models share: numbering of relations, sides, scoring. Subclasses are frozen values."""

    ARRAYS: ClassVar[tuple[str, ...]] = ("entity", "relation")
    DIRECT: ClassVar[bool] = False  # vectors are worked out from the arrays themselves, in one step
    entity: Any
    relation: Any
    inverse: Inverse | None
    vocabulary: str | None = None  # how rows are numbered: the `vocabulary` of a graph

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
        return type(self).__name__

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
        return {place(getattr(self, name)) for name in _present(self)}

    def on(self, device: Any) -> Self:
        """Give the model with its arrays on a device of torch; those that are there are not copied.

        It is always another object: what was worked out from the arrays must not outlive their being
        trained in place.
        """
        if self._places() == {"cpu" if device is None else str(device)}:
            same = object.__new__(type(self))
            names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # a dataclass
            vars(same).update({name: getattr(self, name) for name in (*names, "vocabulary")})
            return same
        arrays = {name: to(device, getattr(self, name)) for name in _present(self)}
        moved = replace(self, **arrays)  # type: ignore[type-var]  # every subclass is a dataclass
        object.__setattr__(moved, "vocabulary", self.vocabulary)
        return moved

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
        return (self.name, self.form, self.inverse, *formula, *arrays)

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
        """Score queries against candidates in float64, whatever the hole is (see `evenrank.task`)."""
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
                result[at : at + step] = _numpy.score(self.form, vectors, wide(table[some[:, 2]]))
        return result


def _hold(model: Model, **dimensions: int) -> None:
    """Turn arrays into tables of floats and check their dimensions (number of axes of each)."""
    for name, axes in dimensions.items():
        values = getattr(model, name)
        if values is None:
            continue
        table = array(name, values)
        if table.ndim != axes or 0 in table.shape:
            raise InputError(f"{model.name}: {name} must have {axes} axes", got=f"shape {table.shape}")
        object.__setattr__(model, name, table)
    if model.inverse not in (None, "stacked", "interleaved"):
        raise InputError(
            "unknown convention for inverse relations",
            got=repr(model.inverse),
            allowed="None, stacked, interleaved",
        )
    rows = len(model.relation)
    if model.inverse and rows % 2:
        raise InputError(
            f"{model.name}: with inverse relations the table has two rows for each", got=f"{rows} rows"
        )


def _hold_alike(model: Model) -> None:
    """Hold entities and relations of one dimension."""
    _hold(model, entity=2, relation=2)
    widths = ("entity", model.entity.shape[1]), ("relation", model.relation.shape[1])
    _same(model, "dimension", *widths)


def _norm(model: TransE | RotatE) -> None:
    """Check which norm is asked for."""
    if model.p not in (1, 2):
        raise InputError(f"{model.name}: p must be 1 or 2", got=repr(model.p))
    object.__setattr__(model, "p", int(model.p))


def _same(model: Model, what: str, *sizes: tuple[str, int]) -> None:
    """Refuse arrays that do not fit each other."""
    if len({size for _, size in sizes}) > 1:
        got = ", ".join(f"{size} in {name}" for name, size in sizes)
        raise InputError(f"{model.name}: arrays differ in {what}", got=got)


@dataclass(frozen=True, eq=False, repr=False)
class TransE(Model):
    """Translation: `-|e_h + w_r - e_t|_p`, with p = 1 or 2 (Bordes et al. 2013).

    With p = 2 scores are minus the square of the distance, which orders the same.
    """

    entity: Any
    relation: Any
    p: int = 1
    inverse: Inverse | None = None
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        _norm(self)
        _hold_alike(self)

    @property
    def form(self) -> Form:
        """The form of the score."""
        return "l1" if self.p == 1 else "l2"

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("sum", self.entity, e, self.relation, r)

    def _head(self, e: Ints, r: Ints) -> Array:
        return combined("difference", self.entity, e, self.relation, r)

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        return self.relation, lambda h, t: combined("difference", self.entity, t, self.entity, h)


@dataclass(frozen=True, eq=False, repr=False)
class RotatE(Model):
    """Rotation: `-|e_h w_r - e_t|_p`, complex, with `|w_r,i| = 1` (Sun et al. 2019).

    With p = 1, as in the paper and its code, the norm is the sum of moduli; PyKEEN's models have p = 2
    (scores are then minus the square, which orders the same).
    Relations are phases in radians (half as wide as the entities), or complex numbers of modulus 1.
    """

    entity: Any
    relation: Any
    p: int = 1
    inverse: Inverse | None = None

    @property
    def form(self) -> Form:
        """The form of the score."""
        return "modulus" if self.p == 1 else "l2"

    def __post_init__(self) -> None:
        """Check the arrays."""
        _norm(self)
        _hold(self, entity=2, relation=2)
        width = self.entity.shape[1]
        if width % 2 or self.relation.shape[1] not in (width, width // 2):
            raise InputError(
                "RotatE: entities need real and imaginary parts, relations phases or both parts",
                got=f"widths {width} and {self.relation.shape[1]}",
            )
        real, imaginary = self._rotation[:, : width // 2], self._rotation[:, width // 2 :]
        off = float(abs((real * real + imaginary * imaginary) ** 0.5 - 1).max())
        if not off < 1e-3:
            raise InputError(
                "RotatE: relations must have modulus 1", got=f"one that is off by {off:.3g}"
            )

    @cached_property
    def _rotation(self) -> Array:
        """Real and imaginary parts of the relations, worked out once."""
        if self.relation.shape[1] == self.entity.shape[1]:
            return wide(self.relation)
        # on the host, always: another device's sine may have another last bit
        phase = wide(host(self.relation))
        where = getattr(self.relation, "device", None) if self.device != "cpu" else None
        return to(where, join(np.cos(phase), np.sin(phase)))

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("turn", self.entity, e, self._rotation, r)

    def _head(self, e: Ints, r: Ints) -> Array:
        return combined("turn back", self.entity, e, self._rotation, r)


@dataclass(frozen=True, eq=False, repr=False)
class DistMult(Model):
    """`sum_i e_h,i w_r,i e_t,i` (Yang et al. 2015)."""

    entity: Any
    relation: Any
    inverse: Inverse | None = None
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        _hold_alike(self)

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("product", self.entity, e, self.relation, r)

    _head = _tail

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        return self.relation, lambda h, t: combined("product", self.entity, h, self.entity, t)


@dataclass(frozen=True, eq=False, repr=False)
class ComplEx(Model):
    """`Re(sum_i e_h,i w_r,i conj(e_t,i))`, complex (Trouillon et al. 2016)."""

    entity: Any
    relation: Any
    inverse: Inverse | None = None
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        _hold_alike(self)
        if self.entity.shape[1] % 2:
            raise InputError(
                "ComplEx: rows need real and imaginary parts", got=f"width {self.entity.shape[1]}"
            )

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("turn", self.entity, e, self.relation, r)

    def _head(self, e: Ints, r: Ints) -> Array:
        return combined("turn back", self.entity, e, self.relation, r)

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        return self.relation, lambda h, t: combined("turn back", self.entity, t, self.entity, h)


@dataclass(frozen=True, eq=False, repr=False)
class CP(Model):
    """Canonical polyadic: `sum_i a_h,i w_r,i b_t,i`, with one table for heads, one for tails."""

    head: Any
    tail: Any
    relation: Any
    inverse: Inverse | None = None
    ARRAYS: ClassVar[tuple[str, ...]] = ("head", "tail", "relation")
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        _hold(self, head=2, tail=2, relation=2)
        _same(self, "entities", ("head", len(self.head)), ("tail", len(self.tail)))
        _same(self, "dimension", *((name, getattr(self, name).shape[1]) for name in self.ARRAYS))

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("product", self.head, e, self.relation, r)

    def _head(self, e: Ints, r: Ints) -> Array:
        return combined("product", self.tail, e, self.relation, r)

    def _table(self, side: str) -> Array:
        return self.tail if side == "tail" else self.head

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        return self.relation, lambda h, t: combined("product", self.head, h, self.tail, t)


@dataclass(frozen=True, eq=False, repr=False)
class SimplE(Model):
    """`(<a_h, w_r, b_t> + <a_t, w'_r, b_h>) / 2`: two CP models that share their tables (Kazemi 2018).

    `backward` is `w'`, the model's own weights for inverse relations.
    """

    head: Any
    tail: Any
    relation: Any
    backward: Any
    inverse: Inverse | None = None
    ARRAYS: ClassVar[tuple[str, ...]] = ("head", "tail", "relation", "backward")

    def __post_init__(self) -> None:
        """Check the arrays."""
        _hold(self, head=2, tail=2, relation=2, backward=2)
        _same(self, "entities", ("head", len(self.head)), ("tail", len(self.tail)))
        _same(self, "relations", ("relation", len(self.relation)), ("backward", len(self.backward)))
        _same(self, "dimension", *((name, getattr(self, name).shape[1]) for name in self.ARRAYS))

    @cached_property
    def _both(self) -> Any:
        return join(self.tail, self.head)

    def _tail(self, e: Ints, r: Ints) -> Array:
        forward = combined("product", self.head, e, self.relation, r)
        return join(forward, combined("product", self.tail, e, self.backward, r)) * 0.5

    def _head(self, e: Ints, r: Ints) -> Array:
        backward = combined("product", self.head, e, self.backward, r)
        return join(backward, combined("product", self.tail, e, self.relation, r)) * 0.5

    def _table(self, side: str) -> Array:
        del side
        return self._both

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        def vectors(h: Ints, t: Ints) -> Array:
            forward = combined("product", self.head, h, self.tail, t)
            return join(forward, combined("product", self.head, t, self.tail, h)) * 0.5

        return join(self.relation, self.backward), vectors


@dataclass(frozen=True, eq=False, repr=False)
class RESCAL(Model):
    """`e_h' W_r e_t`, with a matrix per relation (Nickel et al. 2011)."""

    entity: Any
    relation: Any
    inverse: Inverse | None = None

    def __post_init__(self) -> None:
        """Check the arrays."""
        _hold(self, entity=2, relation=3)
        _same(
            self,
            "dimension",
            ("entity", self.entity.shape[1]),
            *(("relation", size) for size in self.relation.shape[1:]),
        )

    def _tail(self, e: Ints, r: Ints) -> Array:
        return self._times(e, r, self.relation)

    def _head(self, e: Ints, r: Ints) -> Array:
        return self._times(e, r, self.relation.swapaxes(1, 2))

    def _times(self, e: Ints, r: Ints, matrices: Array) -> Array:
        rows = wide(self.entity[e])
        return by_group(rows, r, lambda some: wide(matrices[some]), len(matrices))

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        def vectors(h: Ints, t: Ints) -> Array:
            outer = wide(self.entity[h])[:, :, None] * wide(self.entity[t])[:, None, :]
            return outer.reshape(len(h), -1)

        return self.relation.reshape(len(self.relation), -1), vectors


@dataclass(frozen=True, eq=False, repr=False)
class TuckER(Model):
    """`sum_ijk W_ijk e_h,i w_r,j e_t,k` (Balazevic et al. 2019).

    `core` is `(entity dimension, relation dimension, entity dimension)`. Batch normalisation, at
    evaluation an affine map, is `norm_in` on the head's vector and `norm_out` on the query vector: each
    an array of two rows, scale and shift.
    """

    entity: Any
    relation: Any
    core: Any
    norm_in: Any = None
    norm_out: Any = None
    inverse: Inverse | None = None
    ARRAYS: ClassVar[tuple[str, ...]] = ("entity", "relation", "core", "norm_in", "norm_out")

    def __post_init__(self) -> None:
        """Check the arrays."""
        _hold(self, entity=2, relation=2, core=3, norm_in=2, norm_out=2)
        i, j, k = self.core.shape
        width = self.entity.shape[1]
        _same(
            self, "entity dimension", ("entity", width), ("core, first axis", i), ("core, third axis", k)
        )
        _same(self, "relation dimension", ("relation", self.relation.shape[1]), ("core, second axis", j))
        for name in ("norm_in", "norm_out"):
            norm = getattr(self, name)
            if norm is not None and norm.shape != (2, width):
                raise InputError(
                    f"TuckER: {name} must be a row of scales and one of shifts",
                    got=f"shape {norm.shape}",
                )

    @cached_property
    def _core(self) -> Slices:
        i, j, k = self.core.shape
        return Slices.of(wide(self.core).swapaxes(0, 1).reshape(j, i * k), axis=0)

    @cached_property
    def _weights(self) -> Slices:
        return Slices.of(wide(self.relation), axis=1)

    def _matrices(self, r: Ints) -> Array:
        """Give `sum_j w_r,j W_ijk` for some relations."""
        i, _, k = self.core.shape
        return (self._weights[r] @ self._core).reshape(len(r), i, k)

    def _tail(self, e: Ints, r: Ints) -> Array:
        rows = _affine(wide(self.entity[e]), self.norm_in)
        mixed = by_group(rows, r, self._matrices, len(self.relation))
        return _affine(mixed, self.norm_out)

    def _head(self, e: Ints, r: Ints) -> Array:
        # the shift after the core adds the same to all heads of a query: it does not change their order
        rows = wide(self.entity[e])
        rows = rows if self.norm_out is None else rows * wide(self.norm_out[0])
        return by_group(rows, r, lambda some: self._matrices(some).swapaxes(1, 2), len(self.relation))

    def _table(self, side: str) -> Array:
        if side == "tail" or self.norm_in is None:
            return self.entity
        return _affine(wide(self.entity), self.norm_in)


def _affine(rows: Array, norm: Array | None) -> Array:
    if norm is None:
        return rows
    scale, shift = wide(norm)
    return rows * scale + shift


# Files --------------------------------------------------------------------------------------------

NAMED: dict[str, type[Model]] = {
    model.__name__: model for model in (TransE, RotatE, DistMult, ComplEx, TuckER, RESCAL, SimplE, CP)
}


def save(model: Model, path: str | os.PathLike[str], *, graph: Graph | None = None) -> None:
    """Write a model as safetensors, whole or not at all; `graph` says how its rows are numbered."""
    from safetensors.numpy import save as serialise

    if not isinstance(model, Model):
        raise InputError(
            "not a model that can be saved", got=type(model).__name__, allowed=", ".join(NAMED)
        )
    if graph is not None and (len(graph.entities), len(graph.relations)) != (
        model.entities,
        model.relations,
    ):
        raise InputError(
            "model and graph differ in size",
            got=f"{model!r} for {len(graph.entities):,} entities, {len(graph.relations):,} relations",
        )
    arrays = {name: np.ascontiguousarray(host(getattr(model, name))) for name in _present(model)}
    options = {
        field.name: getattr(model, field.name)
        for field in fields(model)  # type: ignore[arg-type]  # every subclass is a dataclass
        if field.name not in model.ARRAYS
    }
    header = {
        "format": 1,
        "model": model.name,
        "options": options,
        "shapes": {name: list(table.shape) for name, table in arrays.items()},
        "vocabulary": graph.vocabulary if graph is not None else model.vocabulary,
    }
    with replacing(path) as file:
        file.write_bytes(serialise(arrays, metadata={METADATA: json.dumps(header)}))


def _present(model: Model) -> list[str]:
    return [name for name in model.ARRAYS if getattr(model, name) is not None]


def load(path: str | os.PathLike[str], *, mapped: bool = False) -> Model:
    """Read a model that `save` wrote.

    `mapped` leaves the arrays in the file, read-only: rows are read when they are used, and processes
    that map one file share its memory.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            names = file.keys()
            arrays = _mapped(path) if mapped else {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise InputError("no such file", got=str(path)) from None
    except (OSError, SafetensorError, TypeError, KeyError) as error:
        raise InputError(
            f"cannot read {path}",
            got=str(error).splitlines()[0],
            do="it may be damaged, of another format, or hold bfloat16 (store float32 or float16)",
        ) from None
    return _build(path, metadata.get(METADATA), arrays)


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of a safetensors file: the length of a JSON header, the header, the arrays."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return {
        name: np.memmap(path, KINDS[about["dtype"]], "r", 8 + length + start, tuple(about["shape"]))
        for name, about in header.items()
        if name != "__metadata__"
        for start in about["data_offsets"][:1]
    }


def _build(path: Path, header: str | None, arrays: Mapping[str, NDArray[Any]]) -> Model:
    """Make the model that the header names, if header and arrays agree."""
    if header is None:
        raise InputError(
            f"{path} does not say which model it holds",
            got=f"arrays {', '.join(sorted(arrays)) or '(none)'}",
            do="build the model from its arrays (er.models.TransE(...), ...) and er.models.save it",
        )
    try:
        content = json.loads(header)
        if content["format"] != 1 or content["model"] not in NAMED:
            raise InputError(
                f"{path} holds something else",
                got=f"model {content['model']!r}, format {content['format']}",
                allowed=f"{', '.join(NAMED)}; format 1",
            )
        kind, options, shapes = NAMED[content["model"]], content["options"], content["shapes"]
        vocabulary = content.get("vocabulary")
        found = {name: list(table.shape) for name, table in arrays.items()}
        if found != shapes:
            wrong = sorted(
                name for name in found.keys() | shapes.keys() if found.get(name) != shapes.get(name)
            )
            got = ", ".join(
                f"{name} {found.get(name, 'missing')}, not {shapes.get(name, 'named')}" for name in wrong
            )
            raise InputError(f"{path}: header and arrays do not match", got=got)
        model = kind(**arrays, **options)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} has a header evenrank does not understand", got=f"{type(error).__name__}: {error}"
        ) from None
    object.__setattr__(model, "vocabulary", vocabulary)
    return model
