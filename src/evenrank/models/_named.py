"""The models themselves: what they are made of, and their query vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from evenrank._internal.arrays import Ints, array, host, join, to, wide
from evenrank.errors import InputError
from evenrank.models._model import Array, Inverse, Model
from evenrank.ranking.engine.bounds import Form
from evenrank.ranking.engine.exact_product import Slices, by_group
from evenrank.ranking.engine.vectors import combined


def _hold(model: Model, **dimensions: int) -> None:
    """Turn arrays into tables of floats and check their dimensions (number of axes of each)."""
    for name, axes in dimensions.items():
        values = getattr(model, name)
        if values is None:
            continue
        table = array(name, values)
        if table.ndim != axes or 0 in table.shape:
            what = f"{model.name}: {name} must have {axes} axes, none of them empty"
            raise InputError(what, got=f"shape {tuple(table.shape)}")
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


def _distance(model: TransE | RotatE) -> None:
    """Check which norm is asked for, and the margin."""
    if model.p not in (1, 2):
        raise InputError(f"{model.name}: p must be 1 or 2", got=repr(model.p))
    object.__setattr__(model, "p", int(model.p))
    if model.gamma is not None and not (isinstance(model.gamma, int | float) and isfinite(model.gamma)):
        raise InputError(f"{model.name}: gamma must be a finite number", got=repr(model.gamma))


def _same(model: Model, what: str, *sizes: tuple[str, int]) -> None:
    """Refuse arrays that do not fit each other."""
    if len({size for _, size in sizes}) > 1:
        got = ", ".join(f"{size} in {name}" for name, size in sizes)
        raise InputError(f"{model.name}: arrays differ in {what}", got=got)


@dataclass(frozen=True, eq=False, repr=False)
class TransE(Model):
    """Translation: `-|e_h + w_r - e_t|_p`, with p = 1 or 2 (Bordes et al. 2013).

    With p = 2 scores are minus the square of the distance, which orders the same. `gamma` is what the
    library that trained the model adds to minus the distance: no part of scores here, it counts where
    they are compared as by DGL-KE (`evenrank.ranks.presets`).
    """

    entity: Any
    relation: Any
    p: int = 1
    inverse: Inverse | None = None
    gamma: float | None = None
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        _distance(self)
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
    `gamma` is as in `TransE`.
    """

    entity: Any
    relation: Any
    p: int = 1
    inverse: Inverse | None = None
    gamma: float | None = None

    @property
    def form(self) -> Form:
        """The form of the score."""
        return "modulus" if self.p == 1 else "l2"

    def __post_init__(self) -> None:
        """Check the arrays."""
        _distance(self)
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
        rows = wide(self.entity[e])
        scale, shift = (1.0, None) if self.norm_out is None else wide(self.norm_out)
        mixed = by_group(
            rows * scale, r, lambda some: self._matrices(some).swapaxes(1, 2), len(self.relation)
        )
        if shift is None:
            return mixed
        # what the shift adds is the same for all heads of a query: it has a column of its own
        return join(mixed, Slices.of(rows, axis=1) @ Slices.of(shift[:, None], axis=0))

    def _table(self, side: str) -> Array:
        if side == "tail":
            return self.entity
        rows = self.entity if self.norm_in is None else _affine(wide(self.entity), self.norm_in)
        return rows if self.norm_out is None else join(rows, rows[:, :1] ** 0)  # ones, even for NaN


def _affine(rows: Array, norm: Array | None) -> Array:
    if norm is None:
        return rows
    scale, shift = wide(norm)
    return rows * scale + shift


NAMED: dict[str, type[Model]] = {
    model.__name__: model for model in (TransE, RotatE, DistMult, ComplEx, TuckER, RESCAL, SimplE, CP)
}
