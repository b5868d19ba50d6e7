"""What a reader of foreign checkpoints gives, and how its rows come to be numbered as a graph's are."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.models._model import Model
from evenrank.ranking.scorer import Candidates
from evenrank.ranks.task import HOLE

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph, Names

# the arrays of a model that have a row per entity, and those that have one per relation
OF_ENTITIES = ("entity", "head", "tail")
OF_RELATIONS = ("relation", "backward")


@dataclass(frozen=True)
class Checkpoint:
    """A model of another library: what scores, the names of its rows where it has them, what to know.

    `model` is a model of `evenrank.models`, or a scorer, a black box, which has a `name`, and `entities`
    and `relations`: how many it knows of each.
    """

    model: Any
    entities: Sequence[str] | None = None
    relations: Sequence[str] | None = None
    notes: tuple[str, ...] = ()


def called(name: str, model: Any) -> tuple[str, ...]:
    """Let a model keep the name it has in its library, and say as which other one it is written."""
    if not isinstance(model, Model) or name == model.name:
        return ()
    object.__setattr__(model, "known_as", name)
    return (f"{name}, written as {type(model).__name__}",)


def fit(checkpoint: Checkpoint, graph: Graph | None, source: str) -> Any:
    """Give the model with its rows numbered as a graph's, and with what to know as `notes`."""
    model, notes = checkpoint.model, checkpoint.notes
    # where the model itself says how its rows are numbered, that is compared when it is ranked
    if graph is not None and not getattr(model, "vocabulary", None):
        entity = _rows("entities", checkpoint.entities, model.entities, graph.entities, source)
        relation = _rows("relations", checkpoint.relations, model.relations, graph.relations, source)
        missing = [w for w, rows in (("entities", entity), ("relations", relation)) if rows is None]
        if missing:
            notes += (
                f"taken to be numbered as the graph is: there are no names of {' and '.join(missing)} "
                "to compare",
            )
        model = renumbered(model, entity, relation)
        if not missing and isinstance(model, Model):
            object.__setattr__(model, "vocabulary", graph.vocabulary)
    object.__setattr__(model, "notes", notes)
    return model


def _rows(what: str, names: Sequence[str] | None, count: int, wanted: Names, source: str) -> Ints | None:
    """Give the model's row of each of the graph's names; None: there are no names to compare."""
    own = names is not None and dict(zip(names, range(count), strict=True))
    known = [str(name) for name in wanted]
    comparable = own and not (isinstance(wanted, range) and own.keys().isdisjoint(known))
    lost = [name for name in known if name not in own] if own and comparable else []
    if count != len(wanted) or lost:
        unknown = f" (not in the model: {', '.join(lost[:3])}{', ...' * (len(lost) > 3)})" * bool(lost)
        raise InputError(
            f"model and graph do not have the same {what}",
            got=f"{count:,} in {source}, {len(wanted):,} in the graph{unknown}",
            do="rank on the graph the model was trained on; whether it knows what train never shows is "
            "unseen='keep' or 'drop' (--unseen)",
        )
    return np.array([own[name] for name in known]) if own and comparable else None


def renumbered(model: Any, entity: Ints | None, relation: Ints | None) -> Any:
    """Give a model, or a scorer, for other numbers: `entity[i]` is the old number of entity `i`."""
    entity, relation = (None if rows is None or _is_range(rows) else rows for rows in (entity, relation))
    if entity is None and relation is None:
        return model
    if not isinstance(model, Model):
        return Renumbered(model, entity, relation)
    arrays = {
        name: getattr(model, name)[rows]
        for names, rows in ((OF_ENTITIES, entity), (OF_RELATIONS, _with_inverses(model, relation)))
        for name in names
        if rows is not None and name in model.ARRAYS
    }
    return model.with_arrays(arrays)


def _with_inverses(model: Model, relation: Ints | None) -> Ints | None:
    """Give the rows of relations and, where the table has them, of their inverses."""
    if relation is None or model.inverse is None:
        return relation
    if model.inverse == "stacked":
        return np.concatenate([relation, relation + len(relation)])
    return np.stack([2 * relation, 2 * relation + 1], axis=1).ravel()


def _is_range(rows: Ints) -> bool:
    return bool((rows == np.arange(len(rows))).all())


@dataclass(frozen=True)
class Renumbered:
    """A scorer that is asked in other numbers than its own."""

    scorer: Any
    entity: Ints | None
    relation: Ints | None

    @property
    def name(self) -> str:
        """The scorer's own name."""
        return str(self.scorer.name)

    @property
    def gamma(self) -> float | None:
        """What its library adds to minus a distance, if it does."""
        return getattr(self.scorer, "gamma", None)

    def score(self, queries: Ints, candidates: Candidates) -> NDArray[Any]:
        """Put queries and candidates in the scorer's numbers, and let it score them."""
        asked = queries.copy()
        for column, rows in ((0, self.entity), (1, self.relation), (2, self.entity)):
            if rows is not None:
                asked[:, column] = np.where(queries[:, column] == HOLE, HOLE, rows[queries[:, column]])
        return np.asarray(self.scorer.score(asked, self._own(queries[0] == HOLE, candidates)))

    def _own(self, hole: NDArray[np.bool_], candidates: Candidates) -> Candidates:
        """Give the scorer's numbers of candidates: relations, entities, or pairs of them."""
        rows = self.relation if hole[1] else self.entity
        if rows is None or not (hole[0] and hole[2]):
            return candidates if rows is None else rows[candidates]
        ids = np.arange(len(rows) ** 2)[candidates] if isinstance(candidates, slice) else candidates
        head, tail = np.divmod(ids, len(rows))
        return np.asarray(rows[head] * len(rows) + rows[tail])


# how torch before 1.6 starts its files: a pickled number
BEFORE_ARCHIVES = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)


class Unread:
    """What stands in for NumPy's numbers (metrics, mostly) beside the tensors: none of its code runs."""

    def __init__(self, *_: Any) -> None:
        """Take what it is made of, and forget it."""

    def __setstate__(self, _: Any) -> None:
        """Take what it holds, and forget it."""


# how NumPy pickles a number, today and before version 2
NUMBERS = dict.fromkeys(
    ("numpy.dtype", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"), Unread
)


def archived(path: Path) -> bool:
    """Say whether a file of torch's is an archive, as since 1.6; refuse what torch did not write."""
    if is_zipfile(path):
        return True
    try:
        with path.open("rb") as file:
            start = file.read(len(BEFORE_ARCHIVES))
    except OSError as error:
        raise damaged(path, error) from None
    if start.startswith(b"PK"):
        raise damaged(path, EOFError("an archive without its end"))
    if start != BEFORE_ARCHIVES:
        raise InputError(
            f"torch.save did not write {path}",
            got=f"a file that starts with {start[:4]!r}",
            do="save it with torch.save(..., path): pickle.dump does not do for tensors",
        )
    return False


def torch_file(path: Path, *, trust_pickle: bool, records: Mapping[str, type] | None = None) -> Any:
    """Read a file of torch's as tensors and containers, which runs no code; else only if trusted.

    `records` are classes that stand in for those that are pickled, by the names of these.
    """
    torch = need("torch")
    archived(path)
    stand_ins = [(kind, name) for name, kind in {**NUMBERS, **(records or {})}.items()]
    try:
        with torch.serialization.safe_globals(stand_ins):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if not trust_pickle:
            raise InputError(
                f"{path} is a pickle that could run code when it is read",
                got=reason(error),
                do="if you trust where it comes from: --trust-pickle, or trust_pickle=True",
            ) from None
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        raise damaged(path, error) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # whatever the code in a pickle raises
        raise damaged(path, error) from None


def reason(error: Exception) -> str:
    """Give what an error says in one line; of torch's many, the one that matters."""
    said = str(error).partition("WeightsUnpickler error:")[2] or str(error)
    return (said.strip().splitlines() or [type(error).__name__])[0].partition(". Please use")[0]


def damaged(path: Path, error: Exception) -> InputError:
    """Say that a file is not what its library writes."""
    return InputError(
        f"cannot read {path}",
        got=f"{type(error).__name__}: {reason(error)}",
        do="it may be damaged, or of another version of its library",
    )
