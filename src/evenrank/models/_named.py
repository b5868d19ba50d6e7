"""The models: their arrays and options, and how query vectors follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from evenrank._internal.arrays import Ints, host, join, to, wide
from evenrank.errors import InputError
from evenrank.models._model import Array, Inverse, Model
from evenrank.ranking.engine.bounds import Form
from evenrank.ranking.engine.exact_product import Slices, by_group
from evenrank.ranking.engine.vectors import combined


@dataclass(frozen=True, eq=False, repr=False)
class _Distance(Model):
    """Models whose score is minus a norm of differences."""

    entity: Any
    relation: Any
    p: int = 1
    inverse: Inverse | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        """Check the norm, the margin and the arrays."""
        if self.p not in (1, 2):
            raise InputError(f"{self.name}: p must be 1 or 2", got=repr(self.p))
        object.__setattr__(self, "p", int(self.p))
        number = isinstance(self.gamma, int | float) and isfinite(self.gamma)
        if self.gamma is not None and not number:
            raise InputError(f"{self.name}: gamma must be a finite number", got=repr(self.gamma))
        self._hold(entity=2, relation=2)


@dataclass(frozen=True, eq=False, repr=False)
class TransE(_Distance):
    """TransE: ``-|e_h + w_r - e_t|_p`` (Bordes et al. 2013).

    Parameters
    ----------
    entity : array-like, shape (entities, dimension)
        Entity embeddings.
    relation : array-like, shape (relations, dimension)
        Relation embeddings.
    p : {1, 2}, default 1
        The norm. With p = 2 scores are minus the squared distance, which gives the same order.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    gamma : float, optional
        Margin that the training library adds to minus the distance. It is not part of the scores here;
        it matters where scores are compared as DGL-KE does (``preset="dgl-ke"``).

    Examples
    --------
    >>> import numpy as np
    >>> model = TransE([[0.0], [1.0], [2.0]], [[1.0]])
    >>> model.score(np.array([[0, 0, -1]]), slice(0, 3))  # 0 + 1 is nearest to entity 1
    array([[-1., -0., -1.]])
    """

    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        super().__post_init__()
        self._check_width()

    @property
    def form(self) -> Form:
        """How scores follow from query vectors and candidate vectors."""
        return "l1" if self.p == 1 else "l2"

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("sum", self.entity, e, self.relation, r)

    def _head(self, e: Ints, r: Ints) -> Array:
        return combined("difference", self.entity, e, self.relation, r)

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        return self.relation, lambda h, t: combined("difference", self.entity, t, self.entity, h)


@dataclass(frozen=True, eq=False, repr=False)
class RotatE(_Distance):
    """RotatE: ``-|e_h w_r - e_t|_p``, complex, with ``|w_r,i| = 1`` (Sun et al. 2019).

    Parameters
    ----------
    entity : array-like, shape (entities, dimension)
        Complex entity embeddings.
    relation : array-like, shape (relations, dimension)
        Phases in radians, or complex numbers of modulus 1.
    p : {1, 2}, default 1
        The norm. With p = 1, as in the paper and its code, it is the sum of moduli; PyKEEN's models
        have p = 2. Scores are then minus the squared distance, which gives the same order.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    gamma : float, optional
        Margin, as in `TransE`.
    """

    @property
    def form(self) -> Form:
        """How scores follow from query vectors and candidate vectors."""
        return "modulus" if self.p == 1 else "l2"

    def __post_init__(self) -> None:
        """Check the arrays."""
        super().__post_init__()
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
                "RotatE: relations must have modulus 1", got=f"a modulus that is off by {off:.3g}"
            )

    @cached_property
    def _rotation(self) -> Array:
        """Real and imaginary parts of the relations."""
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
    """DistMult: ``sum_i e_h,i w_r,i e_t,i`` (Yang et al. 2015).

    Parameters
    ----------
    entity : array-like, shape (entities, dimension)
        Entity embeddings.
    relation : array-like, shape (relations, dimension)
        Relation embeddings.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    """

    entity: Any
    relation: Any
    inverse: Inverse | None = None
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        self._hold(entity=2, relation=2)
        self._check_width()

    def _tail(self, e: Ints, r: Ints) -> Array:
        return combined("product", self.entity, e, self.relation, r)

    _head = _tail

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]]:
        return self.relation, lambda h, t: combined("product", self.entity, h, self.entity, t)


@dataclass(frozen=True, eq=False, repr=False)
class ComplEx(Model):
    """ComplEx: ``Re(sum_i e_h,i w_r,i conj(e_t,i))`` (Trouillon et al. 2016).

    Parameters
    ----------
    entity : array-like, shape (entities, dimension)
        Complex entity embeddings.
    relation : array-like, shape (relations, dimension)
        Complex relation embeddings.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    """

    entity: Any
    relation: Any
    inverse: Inverse | None = None
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        self._hold(entity=2, relation=2)
        self._check_width()
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
    """Canonical polyadic decomposition: ``sum_i a_h,i w_r,i b_t,i``.

    Parameters
    ----------
    head, tail : array-like, shape (entities, dimension)
        Embeddings of entities as heads and as tails.
    relation : array-like, shape (relations, dimension)
        Relation embeddings.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    """

    head: Any
    tail: Any
    relation: Any
    inverse: Inverse | None = None
    ARRAYS: ClassVar[tuple[str, ...]] = ("head", "tail", "relation")
    DIRECT: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the arrays."""
        self._hold(head=2, tail=2, relation=2)
        self._check_same("entities", ("head", len(self.head)), ("tail", len(self.tail)))
        self._check_same("dimension", *((name, getattr(self, name).shape[1]) for name in self.ARRAYS))

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
    """SimplE: ``(<a_h, w_r, b_t> + <a_t, w'_r, b_h>) / 2`` (Kazemi and Poole 2018).

    Parameters
    ----------
    head, tail : array-like, shape (entities, dimension)
        Embeddings of entities as heads and as tails.
    relation : array-like, shape (relations, dimension)
        Relation embeddings.
    backward : array-like, shape (relations, dimension)
        ``w'``, the model's own embeddings of inverse relations.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    """

    head: Any
    tail: Any
    relation: Any
    backward: Any
    inverse: Inverse | None = None
    ARRAYS: ClassVar[tuple[str, ...]] = ("head", "tail", "relation", "backward")

    def __post_init__(self) -> None:
        """Check the arrays."""
        self._hold(head=2, tail=2, relation=2, backward=2)
        self._check_same("entities", ("head", len(self.head)), ("tail", len(self.tail)))
        self._check_same("relations", ("relation", len(self.relation)), ("backward", len(self.backward)))
        self._check_same("dimension", *((name, getattr(self, name).shape[1]) for name in self.ARRAYS))

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
    """RESCAL: ``e_h' W_r e_t``, with a matrix per relation (Nickel et al. 2011).

    Parameters
    ----------
    entity : array-like, shape (entities, dimension)
        Entity embeddings.
    relation : array-like, shape (relations, dimension, dimension)
        A matrix per relation.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
    """

    entity: Any
    relation: Any
    inverse: Inverse | None = None

    def __post_init__(self) -> None:
        """Check the arrays."""
        self._hold(entity=2, relation=3)
        self._check_same(
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
    """TuckER: ``sum_ijk W_ijk e_h,i w_r,j e_t,k`` (Balazevic et al. 2019).

    Parameters
    ----------
    entity : array-like, shape (entities, dimension)
        Entity embeddings.
    relation : array-like, shape (relations, relation dimension)
        Relation embeddings.
    core : array-like, shape (dimension, relation dimension, dimension)
        The core tensor.
    norm_in, norm_out : array-like, shape (2, dimension), optional
        Scale and shift of batch normalisation, an affine map at evaluation, of the head's vector and
        of the query vector.
    inverse : {"stacked", "interleaved"}, optional
        How `relation` holds inverse relations; by default it holds none.
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
        self._hold(entity=2, relation=2, core=3, norm_in=2, norm_out=2)
        i, j, k = self.core.shape
        width = self.entity.shape[1]
        self._check_same(
            "entity dimension", ("entity", width), ("core, first axis", i), ("core, third axis", k)
        )
        self._check_same(
            "relation dimension", ("relation", self.relation.shape[1]), ("core, second axis", j)
        )
        for name in ("norm_in", "norm_out"):
            norm = getattr(self, name)
            if norm is not None and norm.shape != (2, width):
                raise InputError(
                    f"TuckER: {name} must have two rows, scale and shift", got=f"shape {norm.shape}"
                )

    @cached_property
    def _core(self) -> Slices:
        i, j, k = self.core.shape
        return Slices.of(wide(self.core).swapaxes(0, 1).reshape(j, i * k), axis=0)

    @cached_property
    def _weights(self) -> Slices:
        return Slices.of(wide(self.relation), axis=1)

    def _matrices(self, r: Ints) -> Array:
        """Compute `sum_j w_r,j W_ijk` for some relations."""
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
        # the shift adds the same to all heads of a query: it gets a column of its own
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
