"""The base class of all models: how relations are numbered, how sides are answered, scoring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats, Ints, array, memory, place, to, wide
from evenrank._internal.checks import check_choice
from evenrank._internal.columns import LARGEST, integers, repeat
from evenrank.errors import InputError, Option
from evenrank.ranking.engine import numpy_kernels
from evenrank.ranking.engine.bounds import Form
from evenrank.ranking.scorer import Candidates, Factored
from evenrank.ranks.task import HOLE

Inverse = Literal["stacked", "interleaved"]
Array: TypeAlias = Any  # NumPy's, or torch's where the model is on a device
CELLS = 1 << 21  # numbers held at once where scores are computed triple by triple
DESCRIPTION = ("vocabulary", "known_as", "notes")


class Model(ABC):
    """Base class of the models: frozen dataclasses of arrays and options.

    Attributes
    ----------
    inverse : {"stacked", "interleaved"} or None
        How the relation table holds inverse relations, if it does.
    vocabulary : str or None
        Digest of the names in the order of the rows, as `Graph.vocabulary`; None if unknown.
    known_as : str or None
        Name of the model in the library that trained it, where it is expressed as another model.
    notes : tuple of str
        What was assumed when the model was read from a checkpoint.
    """

    ARRAYS: ClassVar[tuple[str, ...]] = ("entity", "relation")
    DIRECT: ClassVar[bool] = False  # query vectors are one operation on the arrays themselves
    entity: Any
    relation: Any
    inverse: Inverse | None
    vocabulary: str | None = None
    known_as: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def form(self) -> Form:
        """How scores follow from query vectors and candidate vectors."""
        return "dot"

    @abstractmethod
    def _tail(self, e: Ints, r: Ints) -> Array:
        """Compute query vectors of `(e, r, ?)`; `r` are rows of the relation table."""

    @abstractmethod
    def _head(self, e: Ints, r: Ints) -> Array:
        """Compute query vectors of `(?, r, e)`, for models without inverse relations."""

    def _table(self, side: str) -> Array:
        """Return the candidate vectors for the head or the tail."""
        del side  # the same rows, in most models
        return self.entity

    def _relation(self) -> tuple[Array, Callable[[Ints, Ints], Array]] | None:
        """Return candidate and query vectors of `(h, ?, t)`, if the score factors in the same form."""
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
        """Return name and size."""
        inverse = f", {self.inverse} inverse relations" if self.inverse else ""
        return f"{self.name}({self.entities:,} entities, {self.relations:,} relations{inverse})"

    def _hold(self, **dimensions: int) -> None:
        """Convert arrays to tables of floats and check how many axes each has."""
        for name, axes in dimensions.items():
            values = getattr(self, name)
            if values is None:
                continue
            table = array(name, values)
            if table.ndim != axes or 0 in table.shape:
                what = f"{self.name}: {name} must have {axes} axes, none of them empty"
                raise InputError(what, got=f"shape {tuple(table.shape)}")
            object.__setattr__(self, name, table)
        if self.inverse not in (None, "stacked", "interleaved"):
            raise InputError(
                "unknown layout of inverse relations",
                got=repr(self.inverse),
                allowed="None, stacked, interleaved",
            )
        rows = len(self.relation)
        if self.inverse and rows % 2:
            raise InputError(
                f"{self.name}: a table with inverse relations must have an even number of rows",
                got=f"{rows} rows",
            )

    def _check_same(self, what: str, *sizes: tuple[str, int]) -> None:
        """Check that arrays fit each other."""
        if len({size for _, size in sizes}) > 1:
            got = ", ".join(f"{size} in {name}" for name, size in sizes)
            raise InputError(f"{self.name}: arrays differ in {what}", got=got)

    def _check_width(self) -> None:
        """Check that entities and relations have one dimension."""
        widths = ("entity", self.entity.shape[1]), ("relation", self.relation.shape[1])
        self._check_same("dimension", *widths)

    def _rows(self, r: Ints, *, inverse: bool) -> Ints:
        """Return the rows of relations, or of their inverses."""
        if self.inverse == "interleaved":
            return 2 * r + inverse
        return r + self.relations if inverse else r

    def _plain_rows(self, table: Array) -> Array:
        """Return the rows of the relations themselves, without inverses."""
        return table[::2] if self.inverse == "interleaved" else table[: self.relations]

    def size(self, side: str) -> int:
        """Return the number of candidates on a side.

        Parameters
        ----------
        side : {"head", "relation", "tail", "pair"}
            What queries ask for.

        Returns
        -------
        int
            Number of entities, relations, or pairs of entities.
        """
        check_choice("side", side, ("head", "relation", "tail", "pair"))
        return {"relation": self.relations, "pair": self.entities**2}.get(side, self.entities)

    @property
    def device(self) -> str:
        """Device of the arrays: `cpu`, or a torch device if any of them is on one."""
        return min(self._places() - {"cpu"}, default="cpu")

    def _places(self) -> set[str]:
        return {place(getattr(self, name)) for name in present(self)}

    def on(self, device: Any) -> Self:
        """Return a copy of the model with its arrays on another device.

        Arrays that are already there are shared. Cached intermediate results are not: the arrays may
        have been trained in place since.

        Parameters
        ----------
        device : str, torch.device or None
            A torch device; None for NumPy arrays.

        Returns
        -------
        Model
            Always a new object.
        """
        if self._places() == {"cpu" if device is None else str(device)}:
            same = object.__new__(type(self))
            names = [*(field.name for field in fields(self)), *DESCRIPTION]  # type: ignore[arg-type]
            vars(same).update({name: getattr(self, name) for name in names})
            return same
        return self.with_arrays({name: to(device, getattr(self, name)) for name in present(self)})

    def with_arrays(self, arrays: Mapping[str, Array]) -> Self:
        """Return a copy with some arrays replaced; options and description stay.

        Parameters
        ----------
        arrays : mapping of str to array
            New arrays by name, such as ``entity``.

        Returns
        -------
        Model
            A new model.
        """
        other: Self = replace(self, **arrays)  # type: ignore[type-var]  # every subclass is a dataclass
        return other.described(**{name: getattr(self, name) for name in DESCRIPTION})

    def described(self, **facts: Any) -> Self:
        """Return a copy with another description; arrays are shared.

        Parameters
        ----------
        **facts
            Any of ``vocabulary``, ``known_as`` and ``notes``.

        Returns
        -------
        Model
            A new model.

        Raises
        ------
        InputError
            If a name is not part of the description.

        Examples
        --------
        >>> from evenrank.models import DistMult
        >>> DistMult([[1.0], [2.0]], [[1.0]]).described(known_as="SimplE")
        SimplE(2 entities, 1 relations)
        """
        unknown = facts.keys() - set(DESCRIPTION)
        if unknown:
            raise InputError(
                "not part of a model's description",
                got=", ".join(sorted(unknown)),
                allowed=", ".join(DESCRIPTION),
            )
        other = copy(self)
        vars(other).update(facts)
        return other

    def factored(self, side: str) -> Factored | None:
        """Factor the score into query vectors and candidate vectors.

        Parameters
        ----------
        side : {"head", "relation", "tail"}
            What queries ask for.

        Returns
        -------
        Factored or None
            None if the score of this side does not factor.
        """
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
        """Factor the score by the two columns of a query that are given."""

        def check(batch: Ints) -> None:
            if not 3 <= batch.shape[1] <= 5:  # what follows a triple is its time, which is ignored
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
        """Identify formula and device memory of query vectors; empty if they depend on anything else."""
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
                    f"{what} {unknown[0]} is not in the model",
                    got=f"a model of {size:,}, numbered from 0",
                    do=[
                        "rank on the graph the model was trained on; to leave out entities not seen in "
                        "training, load it with ",
                        Option("unseen", "drop"),
                    ],
                )

    def score(self, queries: Ints, candidates: Candidates) -> Floats:
        """Score queries against candidates in float64.

        Parameters
        ----------
        queries : array of int, shape (n, 3)
            Head, relation, tail; -1 marks what is asked for.
        candidates : slice or array of int
            The same ids for all queries, or a row of ids per query.

        Returns
        -------
        ndarray, shape (n, number of candidates)
            Scores; higher is better.
        """
        if self.device != "cpu":
            return self.on(None).score(queries, candidates)
        hole = np.flatnonzero(queries[0] == HOLE).tolist()
        side = ("head", "relation", "tail")[hole[0]] if len(hole) == 1 else None
        factored = self.factored(side) if side else None
        if factored is not None:
            return factored.score(queries, candidates)
        if hole not in ([1], [0, 2]):
            raise InputError("models cannot answer this query", got=str(queries[0].tolist()))
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
        """Score triples in float64, by the definition of the model.

        Parameters
        ----------
        h, r, t : array-like of int
            Heads, relations and tails.

        Returns
        -------
        ndarray of float64
            A score per triple.

        Raises
        ------
        InputError
            If an id is not in the model, or the columns differ in length.
        """
        if self.device != "cpu":
            return self.on(None).triples(h, r, t)
        heads = integers("heads", h, -LARGEST)
        others = {"relations": r, "tails": t}
        columns = [
            repeat(name, integers(name, ids, -LARGEST), len(heads)) for name, ids in others.items()
        ]
        rows = np.stack([heads, *columns], axis=1)
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
    """List the arrays that a model has; some are optional."""
    return [name for name in model.ARRAYS if getattr(model, name) is not None]
