"""What a checkpoint reader returns, and how rows are reordered to match a graph."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import reading
from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_type
from evenrank._internal.limits import check_fits
from evenrank._internal.optional import need
from evenrank._internal.reading import STEP, check_regular
from evenrank.errors import InputError, Option
from evenrank.graphs.graph import Graph, Unseen, check_unseen
from evenrank.models._model import Model
from evenrank.models.readers._pickles import check_pickle
from evenrank.ranking.scorer import Candidates
from evenrank.ranks.task import HOLE

if TYPE_CHECKING:
    from evenrank.graphs.graph import Names

TRUST = ("if you trust its source, use ", Option("trust_pickle", True))

# the arrays of a model that have a row per entity, and those that have one per relation
OF_ENTITIES = ("entity", "head", "tail")
OF_RELATIONS = ("relation", "backward")


@dataclass(frozen=True)
class Checkpoint:
    """A model as it was read: the model, the names of its rows where it has them, notes for the user.

    `model` is a model of `evenrank.models`, or a black-box scorer: a dataclass with `name`, `notes`, and
    `entities` and `relations`, the number of each. `leaves_out` says whether its library leaves out
    entities not seen in training: of a model without names, their number then tells that it did.
    """

    model: Any
    entities: Sequence[str] | None = None
    relations: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    leaves_out: bool = False


def called(name: str, model: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a model under its library's name, and a note if it is expressed as another one."""
    if not isinstance(model, Model) or name == model.name:
        return model, ()
    return model.described(known_as=name), (f"{name}, written as {type(model).__name__}",)


def noted(model: Any, notes: tuple[str, ...]) -> Any:
    """Return a model, or a black-box scorer, with notes."""
    return model.described(notes=notes) if isinstance(model, Model) else replace(model, notes=notes)


def spelled_as(checkpoint: Checkpoint, graph: Graph) -> Checkpoint:
    """Spell numbers in a checkpoint's names as the graph does: PyKEEN's cache drops leading zeros."""
    entities = _with_zeros(checkpoint.entities, graph.entities)
    relations = _with_zeros(checkpoint.relations, graph.relations)
    if entities is checkpoint.entities and relations is checkpoint.relations:
        return checkpoint
    note = (
        "names are numbers without their leading zeros, as PyKEEN's cache saves them; matched as numbers"
    )
    return replace(checkpoint, entities=entities, relations=relations, notes=(note, *checkpoint.notes))


def _with_zeros(names: Sequence[str] | None, wanted: Names) -> Sequence[str] | None:
    """Add the leading zeros of the wanted names, if all names are numbers and this is unambiguous."""
    known = {name for name in map(str, wanted) if name.isdecimal()}
    padded = {name.lstrip("0") or "0": name for name in known}
    if names is None or len(padded) < len(known) or known.issuperset(names) or isinstance(wanted, range):
        return names
    return [padded[name] for name in names] if padded.keys() >= set(names) else names


def lacks_unseen(checkpoint: Checkpoint, graph: Graph) -> bool:
    """Whether a model has exactly the entities and relations seen in training, and the graph has more.

    Names decide where the checkpoint has them, or the digest of its numbering; otherwise the numbers of
    entities and relations, if its library is known to leave out the others.
    """
    model = checkpoint.model
    sizes = model.entities, model.relations
    if graph.unseen == "drop" or sizes == (len(graph.entities), len(graph.relations)):
        return False
    seen = graph.drop_unseen()
    if sizes != (len(seen.entities), len(seen.relations)):
        return False
    vocabulary = getattr(model, "vocabulary", None)
    if vocabulary:
        return bool(vocabulary == seen.vocabulary)
    both = ((checkpoint.entities, seen.entities), (checkpoint.relations, seen.relations))
    if any(names is not None and set(names) != set(map(str, wanted)) for names, wanted in both):
        return False
    return checkpoint.entities is not None or checkpoint.leaves_out


def pair(checkpoint: Checkpoint, graph: Graph, unseen: Unseen | None, source: str) -> tuple[Any, Graph]:
    """Return the model and the graph it can be ranked on, without entities that only the graph has."""
    check_type(graph, Graph, "graph must be a Graph", do="er.load(...)")
    checkpoint = spelled_as(checkpoint, graph)
    if unseen is not None:
        check_unseen(unseen)
        graph = graph.drop_unseen() if unseen == "drop" else graph
    elif lacks_unseen(checkpoint, graph):
        whole, graph = graph, graph.drop_unseen()
        gone = {
            what: len(names) - len(left)
            for what, names, left in (
                ("entities", whole.entities, graph.entities),
                ("relations", whole.relations, graph.relations),
            )
        }
        others = " and ".join(f"{n:,} {what}" for what, n in gone.items() if n)
        lost = [
            f"{len(triples) - len(graph.splits[split]):,} of {len(triples):,} {split} triples"
            for split, triples in whole.splits.items()
            if len(triples) > len(graph.splits[split])
        ]
        note = (
            f"knows only what is seen in training ({len(graph.entities):,} entities, "
            f"{len(graph.relations):,} relations); left out, as by PyKEEN: {', '.join([others, *lost])}"
        )
        checkpoint = replace(checkpoint, notes=(note, *checkpoint.notes))
    return fit(checkpoint, graph, source), graph


def fit(checkpoint: Checkpoint, graph: Graph | None, source: str) -> Any:
    """Return the model with its rows in the order of a graph, and with its notes."""
    check_type(graph, Graph | None, "graph must be a Graph", do="er.load(...)")
    if graph is not None:
        checkpoint = spelled_as(checkpoint, graph)
    model, notes = checkpoint.model, checkpoint.notes
    if graph is not None and lacks_unseen(checkpoint, graph):
        raise InputError(
            "the model has only the entities and relations seen in training",
            got=f"{model.entities:,} of {len(graph.entities):,} entities and {model.relations:,} of "
            f"{len(graph.relations):,} relations in {source}",
            do=[
                "to leave out the others, as PyKEEN does, load the graph with ",
                Option("unseen", "drop"),
            ],
        )
    # a model that knows its numbering is checked when it is ranked
    if graph is not None and not getattr(model, "vocabulary", None):
        advice = _advice(graph)
        entity = _rows("entities", checkpoint.entities, model.entities, graph.entities, source, advice)
        relation = _rows(
            "relations", checkpoint.relations, model.relations, graph.relations, source, advice
        )
        missing = [w for w, rows in (("entities", entity), ("relations", relation)) if rows is None]
        if missing:
            notes += (
                f"assumed to be numbered as the graph: the checkpoint has no names of "
                f"{' and '.join(missing)}",
            )
        model = renumbered(model, entity, relation)
        if not missing and isinstance(model, Model):
            model = model.described(vocabulary=graph.vocabulary)
    return noted(model, notes)


def _advice(graph: Graph) -> list[str | Option]:
    """Advise what to do if a model and a graph differ."""
    start = "rank on the graph the model was trained on"
    if graph.dropped:
        return [
            f"{start}; to keep what is not seen in training, load it with ",
            Option("unseen", "keep"),
        ]
    return [
        f"{start}; if its library leaves out entities not seen in training, load the graph with ",
        Option("unseen", "drop"),
    ]


def _rows(
    what: str,
    names: Sequence[str] | None,
    count: int,
    wanted: Names,
    source: str,
    advice: Sequence[str | Option],
) -> Ints | None:
    """Return the model's row of each of the graph's names, or None if there are no names to compare."""
    own = names is not None and dict(zip(names, range(count), strict=True))
    known = [str(name) for name in wanted]
    comparable = own and not (isinstance(wanted, range) and own.keys().isdisjoint(known))
    lost = [name for name in known if name not in own] if own and comparable else []
    if count != len(wanted) or lost:
        unknown = f" (not in the model: {', '.join(lost[:3])}{', ...' * (len(lost) > 3)})" * bool(lost)
        raise InputError(
            f"model and graph differ in {what}",
            got=f"{count:,} in {source}, {len(wanted):,} in the graph{unknown}",
            do=advice,
        )
    return np.array([own[name] for name in known]) if own and comparable else None


def renumbered(model: Any, entity: Ints | None, relation: Ints | None) -> Any:
    """Return a model, or a scorer, in a new numbering: `entity[i]` is the old number of entity `i`."""
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
    """Return the rows of relations and, where the table has them, of their inverses."""
    if relation is None or model.inverse is None:
        return relation
    if model.inverse == "stacked":
        return np.concatenate([relation, relation + len(relation)])
    return np.stack([2 * relation, 2 * relation + 1], axis=1).ravel()


def _is_range(rows: Ints) -> bool:
    return bool((rows == np.arange(len(rows))).all())


@dataclass(frozen=True)
class Renumbered:
    """A scorer whose entities and relations are renumbered."""

    scorer: Any
    entity: Ints | None
    relation: Ints | None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The scorer's own name."""
        return str(self.scorer.name)

    @property
    def gamma(self) -> float | None:
        """Margin that its library adds to minus a distance, if any."""
        return getattr(self.scorer, "gamma", None)

    def score(self, queries: Ints, candidates: Candidates) -> NDArray[Any]:
        """Translate queries and candidates to the scorer's own numbers, and score them."""
        asked = queries.copy()
        for column, rows in ((0, self.entity), (1, self.relation), (2, self.entity)):
            if rows is not None:
                asked[:, column] = np.where(queries[:, column] == HOLE, HOLE, rows[queries[:, column]])
        return np.asarray(self.scorer.score(asked, self._own(queries[0] == HOLE, candidates)))

    def _own(self, hole: NDArray[np.bool_], candidates: Candidates) -> Candidates:
        """Return the scorer's numbers of candidates: relations, entities, or pairs of entities."""
        rows = self.relation if hole[1] else self.entity
        if rows is None or not (hole[0] and hole[2]):
            return candidates if rows is None else rows[candidates]
        ids = np.arange(len(rows) ** 2)[candidates] if isinstance(candidates, slice) else candidates
        head, tail = np.divmod(ids, len(rows))
        return np.asarray(rows[head] * len(rows) + rows[tail])


# how torch before 1.6 starts its files: a pickled number
BEFORE_ARCHIVES = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)


class Unread:
    """Stand-in for NumPy scalars (mostly metrics) beside the tensors: no foreign code runs."""

    def __init__(self, *_: Any) -> None:
        """Ignore the arguments."""

    def __setstate__(self, _: Any) -> None:
        """Ignore the state."""


# how NumPy pickles a scalar, today and before version 2
NUMBERS = dict.fromkeys(
    ("numpy.dtype", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"), Unread
)


def archived(path: Path) -> bool:
    """Whether a torch file is a zip archive, as since 1.6; raises if torch did not write it."""
    if is_zipfile(path):
        return True
    try:
        with path.open("rb") as file:
            start = file.read(len(BEFORE_ARCHIVES))
    except OSError as error:
        raise damaged(path, error) from None
    if start.startswith(b"PK"):
        raise damaged(path, EOFError())
    if start != BEFORE_ARCHIVES:
        raise InputError(
            f"{path} was not written by torch.save",
            got=f"a file that starts with {start[:4]!r}",
            do="save it with torch.save(..., path), not pickle.dump",
        )
    return False


def torch_file(path: Path, *, trust_pickle: bool, records: Mapping[str, type] | None = None) -> Any:
    """Read a torch file as tensors and containers, which runs no code; other pickles only if trusted.

    `records` are stand-ins for pickled classes, by the names of these.
    """
    torch = need("torch")
    check_fits(check_regular(path).st_size, "this checkpoint", where=str(path))
    if archived(path):
        _check_sums(path)
    stand_ins = [(kind, name) for name, kind in {**NUMBERS, **(records or {})}.items()]
    try:
        if not trust_pickle:
            check_pickle(path)
        with torch.serialization.safe_globals(stand_ins):
            content = torch.load(path, map_location="cpu", weights_only=True)
        _check_tensors(content)
        return content
    except pickle.UnpicklingError as error:
        if not trust_pickle:
            raise InputError(
                f"reading {path} could run code that is pickled in it", got=reason(error), do=TRUST
            ) from None
    except InputError:
        raise
    except Exception as error:  # a file can hold anything
        raise damaged(path, error) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # the code in a pickle can raise anything
        raise damaged(path, error) from None


def _check_sums(path: Path) -> None:
    """Check the checksums of an archive: torch does not, and would read damaged numbers as others."""
    try:
        with ZipFile(path) as archive:
            for part in archive.infolist():
                if not part.CRC:  # written without checksums, or empty
                    continue
                with archive.open(part) as stream:
                    while stream.read(STEP):
                        pass
    except Exception as error:  # odd names, versions, encryption, ...
        raise damaged(path, error) from None


def _check_tensors(content: Any) -> None:
    """Check that no tensor repeats its numbers: a small file could claim any memory."""
    if hasattr(content, "untyped_storage"):
        if (
            "strided" in str(content.layout)
            and content.numel() * content.element_size() > content.untyped_storage().nbytes()
        ):
            raise ValueError(f"a tensor of shape {tuple(content.shape)} in fewer bytes")
    elif isinstance(content, Mapping | list | tuple):
        for part in content.values() if isinstance(content, Mapping) else content:
            _check_tensors(part)


def reason(error: Exception) -> str:
    """Return the message of an error as one line; of torch's many lines, the one that matters."""
    said = str(error).partition("WeightsUnpickler error:")[2].strip() or reading.reason(error)
    return said.splitlines()[0].partition(". Please use")[0]


def damaged(path: Path, error: Exception) -> InputError:
    """Build the error for a file that its library cannot have written."""
    return InputError(
        f"cannot read {path}",
        got=f"{type(error).__name__}: {reason(error)}",
        do="the file may be damaged, or written by another version of its library",
    )
