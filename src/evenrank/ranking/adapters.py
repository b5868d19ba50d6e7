"""Adapters for your own models: `TripleScorer` and `QueryScorer`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from math import isqrt
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints, complex_error, dense, is_tensor, place, to
from evenrank._internal.checks import check_type
from evenrank._internal.columns import integer
from evenrank.errors import EvenrankError, InputError
from evenrank.ranking.engine.run import MOST, out_of_memory
from evenrank.ranking.modules import evaluating, is_module, unwrapped
from evenrank.ranking.scorer import Candidates
from evenrank.ranks.task import HOLE

PARTS = "hrt"
SIDES = (0,), (1,), (2,), (0, 2)  # columns that a query may ask for
LONG = {"h": "heads", "r": "relations", "t": "tails"}

# a model makes a few arrays with a vector per triple; on a core, DistMult of 200 dimensions scored 39
# million triples a second in arrays of 4 MiB, and 3 million in arrays of 64 MiB
COPIES, CACHED = 4, 4 * 2**20
WIDTH = 256  # numbers per triple of a function, whose parameters are not known
ROWS = 16  # queries that share a gathered block of candidates
PROBED = 3, 5  # queries and candidates by which the two ways to call a model are compared
COARSE, FINE = 1e-2, 1e-5  # how far the scores of two ways may differ: half precision, others
EXPLAINED = (
    "candidates are a slice, a vector of ids, or a matrix with a row of ids per query, as in "
    "table[candidates]; er.models.QueryScorer(model, slices=False) passes no slices"
)


@dataclass(frozen=True, eq=False)
class TripleScorer:
    """A model that scores triples: a torch module or a function of heads, relations and tails.

    The arguments are integer indices: tensors on the module's device, or NumPy arrays for a function
    without a module. They broadcast: for the tails of three queries among five candidates, `h` and `r`
    have the shape (3, 1), `t` has the shape (1, 5), and the scores have the shape (3, 5), or (3, 5, 1).
    A model that does not broadcast, or computes other scores then, gets three equally long vectors
    instead, which takes longer; a few triples scored both ways decide. Modules are called in evaluation
    mode, without gradients.

    Parameters
    ----------
    function : torch.nn.Module or callable
        Scores triples; higher is better. The method of a module gets tensors, like the module.
    module : torch.nn.Module, optional
        The module behind a function, which then gets tensors.
    columns : str, default "hrt"
        The order of the arguments: heads, relations, tails.
    batch_size : int, optional
        The most triples per call. By default, arrays with a row of the widest parameter per triple
        fit the memory limit (on the CPU, they fit the cache).
    name : str, optional
        The name of the model in the protocol; by default that of the module's class, or the function's.
    entities, relations : int, optional
        Numbers of entities and relations, if known.
    notes : tuple of str
        Remarks for the user.

    Examples
    --------
    >>> entity, relation = np.eye(4), np.ones((2, 4))
    >>> model = TripleScorer(lambda h, r, t: (entity[h] * relation[r] * entity[t]).sum(-1))
    >>> model.score(np.array([[3, 0, -1]]), slice(0, 4))
    array([[0., 0., 0., 1.]])
    """

    function: Callable[..., Any]
    module: Any = None
    columns: str = PARTS
    batch_size: int | None = None
    name: str = ""
    entities: int | None = None
    relations: int | None = None
    notes: tuple[str, ...] = ()
    _broadcasts: dict[Any, bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the arguments, and find the module."""
        if not callable(self.function) or isinstance(self.function, type):
            raise InputError(
                "a TripleScorer needs a torch module or a function of heads, relations and tails",
                got=described(self.function),
            )
        if self.module is not None and not is_module(self.module):
            raise InputError("module must be a torch module", got=type(self.module).__name__)
        if not isinstance(self.columns, str) or sorted(self.columns) != sorted(PARTS):
            raise InputError(
                "columns must be an order of h, r and t", got=repr(self.columns), allowed="such as 'htr'"
            )
        if self.batch_size is not None:
            integer("batch_size", self.batch_size, 1)
        for one in (self.function, getattr(self.function, "__self__", None)):
            if self.module is None and is_module(one):
                object.__setattr__(self, "module", one)
        if not self.name:
            owner = self.function if self.module is None else unwrapped(self.module)
            object.__setattr__(self, "name", name_of(owner))

    @property
    def device(self) -> str:
        """The device of the module, "cpu" for functions."""
        if self.module is None:
            return "cpu"
        first = next(chain(self.module.parameters(), self.module.buffers()), None)
        return "cpu" if first is None else place(first)

    def score(
        self, queries: Ints, candidates: Candidates, memory: int = MOST, size: int | None = None
    ) -> NDArray[Any]:
        """Score queries of triples.

        Parameters
        ----------
        queries : array of int, shape (n, 3)
            Head, relation, tail; -1 marks what is asked for: head, relation, tail, or head and tail.
        candidates : slice or array of int
            The same ids for all queries, or a row of ids per query.
        memory : int
            Limit of the working memory, in bytes.
        size : int, optional
            The number of all candidates; required for pairs if `entities` is not set.

        Returns
        -------
        ndarray, shape (n, number of candidates)
            Scores; higher is better.

        Raises
        ------
        InputError
            If the queries are no triples, or the model raises an error or returns something else.
        """
        asked = self._asked(queries)
        if isinstance(candidates, slice):
            candidates = np.arange(candidates.start or 0, candidates.stop, candidates.step)
        ids = candidates if candidates.ndim == 2 else candidates[None]
        entities = self.entities or isqrt(size or 0)
        if len(asked) == 2 and not entities:
            raise InputError("scoring pairs requires the number of entities", do="set entities=")
        rows = queries.shape[0], ids.shape[1]

        def some(start: int, stop: int, left: int, right: int) -> list[Ints]:
            given = [queries[start:stop, column, None] for column in range(3)]
            block = ids[start:stop, left:right] if len(ids) > 1 else ids[:, left:right]
            for column, values in zip(asked, _split(block, len(asked), entities), strict=True):
                given[column] = values
            return given

        with evaluating(self):
            flat = not self._can_broadcast(asked, queries, ids, entities)
            most = self.batch_size or self._fitting(memory)
            wide = min(rows[1], max(1, most // ROWS))
            high = max(1, most // wide)
            result: NDArray[Any] | None = None
            for start in range(0, rows[0], high):
                for left in range(0, rows[1], wide):
                    piece, _ = self._call(some(start, start + high, left, left + wide), flat)
                    kind = piece.dtype if result is None else np.result_type(result, piece)
                    result = np.empty(rows, kind) if result is None else result.astype(kind, copy=False)
                    result[start : start + high, left : left + wide] = piece
        return np.empty(rows) if result is None else result

    def _asked(self, queries: Ints) -> tuple[int, ...]:
        """Return the columns that are asked for."""
        unknown = queries == HOLE
        holes = tuple(np.flatnonzero(unknown[0]).tolist())
        if queries.shape[1] != 3 or holes not in SIDES or (unknown != unknown[0]).any():
            raise InputError(
                f"{self.name} scores triples, and cannot answer this query",
                got=str(queries[0].tolist()),
                allowed="[h, r, -1], [-1, r, t], [h, -1, t] or [-1, r, -1]",
                do="pass a function of queries and candidates",
            )
        for column, (what, size) in enumerate(
            (("entity", self.entities), ("relation", self.relations), ("entity", self.entities))
        ):
            largest = int(queries[:, column].max())
            if size is not None and largest >= size:
                raise InputError(f"{what} {largest} is not in the model", got=f"a model of {size:,}")
        return holes

    def _fitting(self, memory: int) -> int:
        """Return how many triples a call may score."""
        if self.module is None:
            return max(1, min(CACHED, memory // COPIES) // (8 * WIDTH))
        sizes = (p[0].numel() * p.element_size() for p in self.module.parameters() if p.ndim and len(p))
        room = memory // COPIES if self.device != "cpu" else min(CACHED, memory // COPIES)
        return max(1, room // max(sizes, default=4 * WIDTH))

    def _can_broadcast(self, asked: tuple[int, ...], queries: Ints, ids: Ints, entities: int) -> bool:
        """Score a few triples both ways: broadcast, and as vectors, which is how models are trained."""
        key = asked, len(ids) > 1
        if key not in self._broadcasts:
            row = np.arange(PROBED[0]) % len(queries)
            column = np.linspace(0, ids.shape[1] - 1, PROBED[1]).astype(np.int64)
            given = [queries[row, i, None] for i in range(3)]
            block = ids[row][:, column] if len(ids) > 1 else ids[:, column]
            for i, values in zip(asked, _split(block, len(asked), entities), strict=True):
                given[i] = values
            self._broadcasts[key] = self._same_both_ways(given)
        return self._broadcasts[key]

    def _same_both_ways(self, given: list[Ints]) -> bool:
        """Whether a model computes the same scores from broadcast indices as from vectors."""
        tried: list[tuple[NDArray[Any], float] | Exception] = []
        for flat in (True, False):
            try:
                with warnings.catch_warnings():
                    if not flat:
                        warnings.simplefilter("ignore")
                    tried.append(self._call(given, flat))
            except Exception as error:
                if out_of_memory(error):
                    raise
                tried.append(error)
        alone, together = tried
        if isinstance(alone, Exception):
            if isinstance(together, Exception):
                raise alone
            return True
        if isinstance(together, Exception):
            return False
        return _close(alone[0], together[0], max(alone[1], together[1]))

    def _call(self, given: list[Ints], flat: bool) -> tuple[NDArray[Any], float]:
        """Call the model; return a matrix of scores, and how precise they are."""
        shape = np.broadcast_shapes(*(ids.shape for ids in given))
        if flat:
            given = [np.broadcast_to(ids, shape).ravel() for ids in given]
        arguments: list[Any] = [given[PARTS.index(column)] for column in self.columns]
        if self.module is not None:
            arguments = [to(self.device, np.array(ids)) for ids in arguments]
        try:
            scores = self.function(*arguments)
        except Exception as error:
            do = "TripleScorer(function, module=module) passes tensors" if self.module is None else None
            raise_from_model(error, self.name, _shapes(given), do)
        values, precision = self._values(scores, given)
        want = (shape[0] * shape[1],) if flat else shape
        if values.shape not in (want, (*want, 1)):
            raise InputError(
                f"{self.name} returned scores of the wrong shape",
                got=f"{values.shape} for {_shapes(given)}",
                allowed=f"{want} or {(*want, 1)}",
            )
        return values.reshape(shape), precision

    def _values(self, scores: Any, given: list[Ints]) -> tuple[NDArray[Any], float]:
        half = COARSE if getattr(getattr(scores, "dtype", None), "itemsize", 8) == 2 else FINE
        if is_tensor(scores):
            scores = dense(f"the scores of {self.name}", scores).cpu().numpy()
        try:
            values = None if isinstance(scores, dict | tuple) else np.asarray(scores)
        except ValueError:  # ragged rows
            values = None
        if values is not None and values.dtype.kind == "c":
            raise complex_error(f"the scores of {self.name}")
        if values is None or values.dtype.kind not in "iufb":
            raise InputError(
                f"{self.name} must return an array of scores",
                got=f"{type(scores).__name__} for {_shapes(given)}",
            )
        return values, half


@dataclass(frozen=True, eq=False)
class QueryScorer:
    """A function of queries and candidates, as described in `Scorer.score`.

    Parameters
    ----------
    function : callable
        Scores queries (a row each) against candidates; higher is better.
    slices : bool, default True
        Whether the function understands slices of candidates. Otherwise it gets arrays of ids only.
    name : str, optional
        The name of the model in the protocol.

    Examples
    --------
    >>> model = QueryScorer(lambda queries, ids: np.ones((len(queries), 1)) * ids, slices=False)
    >>> model.score(np.array([[3, 0, -1]]), slice(0, 4))
    array([[0., 1., 2., 3.]])
    """

    function: Callable[[Ints, Candidates], Any]
    slices: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not callable(self.function) or isinstance(self.function, type):
            raise InputError(
                "a QueryScorer needs a function of queries and candidates", got=described(self.function)
            )
        check_type(self.slices, bool, "slices must be True or False")
        if not self.name:
            object.__setattr__(self, "name", name_of(self.function))

    def score(self, queries: Ints, candidates: Candidates) -> Any:
        """Call the function.

        Parameters
        ----------
        queries : array of int
            A row per query.
        candidates : slice or array of int
            As in `Scorer.score`.

        Returns
        -------
        array
            What the function returns.
        """
        if isinstance(candidates, slice) and not self.slices:
            candidates = np.arange(candidates.start or 0, candidates.stop, candidates.step)
        with evaluating(self.function):
            return self.function(queries, candidates)


@dataclass(frozen=True)
class Called:
    """The function of a scorer that does not factor; what it raises is explained."""

    scorer: Any
    function: Callable[[Ints, Candidates], Any]

    def __call__(self, queries: Ints, candidates: Candidates) -> Any:
        """Call the function."""
        try:
            return self.function(queries, candidates)
        except Exception as error:
            which = (
                f"of shape {candidates.shape}" if isinstance(candidates, np.ndarray) else "as a slice"
            )
            given = f"queries of shape {queries.shape} and candidates {which}"
            raise_from_model(error, name_of(self.scorer), given, EXPLAINED)


def raise_from_model(error: Exception, name: str, given: str, do: str | None = None) -> NoReturn:
    """Raise an error of a user's model with an explanation; its traceback stays attached."""
    if isinstance(error, EvenrankError) or out_of_memory(error):
        raise error
    first = next(iter(str(error).splitlines()), "")
    raise InputError(
        f"the model {name} raised {type(error).__name__}" + (f": {first}" if first else ""),
        got=given,
        do=do,
    ) from error


def name_of(scorer: Any) -> str:
    """Return the name of a model: its own, that of the function, or that of its class."""
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", None)
    return name if isinstance(name, str) else type(scorer).__name__


def described(thing: Any) -> str:
    """Describe what is no model."""
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__


def _split(ids: Ints, asked: int, entities: int) -> tuple[Ints, ...]:
    """Return candidates as values of the columns asked for; pairs are numbered h * entities + t."""
    return (ids,) if asked == 1 else np.divmod(ids, entities)


def _shapes(given: list[Ints]) -> str:
    """Describe the arguments of a call."""
    return ", ".join(
        f"{name} of shape {ids.shape} up to {ids.max(initial=0)}"
        for name, ids in zip(LONG.values(), given, strict=True)
    )


def _close(first: NDArray[Any], second: NDArray[Any], tolerance: float) -> bool:
    """Whether scores agree up to rounding, by their largest size."""
    one, other = first.astype(np.float64), second.astype(np.float64)
    sizes = np.abs(one[np.isfinite(one)])
    return np.allclose(one, other, 0, tolerance * sizes.max(initial=0), equal_nan=True)
