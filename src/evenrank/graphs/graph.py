"""`Graph`: triples of ids in splits, and the names of the ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import sha256
from html import escape
from itertools import combinations, compress
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Ints
from evenrank._internal.columns import LARGEST
from evenrank._internal.terminal import wrapped
from evenrank.errors import Advice, InputError, Option
from evenrank.graphs.instants import Time, check_times
from evenrank.graphs.make_task import Candidates, Given, Sides, ask, triples_of, types
from evenrank.ranks import presets as protocols
from evenrank.ranks.task import Outside, Task

Names: TypeAlias = Sequence[str] | range
Mask: TypeAlias = NDArray[np.bool_]
Unseen = Literal["keep", "drop"]
Finding: TypeAlias = tuple[Literal["ok", "note", "warning"], str]

SPLITS = ("train", "valid", "test")
PARTS = ("head", "relation", "tail")
FACTS = "facts"  # known triples that belong to training, but are not learned from, as in Neural LP
Order: TypeAlias = Literal["hrt", "htr", "rht", "thr", "trh", "rth"]


@dataclass(frozen=True, repr=False, eq=False)
class Graph:
    """A knowledge graph: a row (head, relation, tail) of ids per triple, in splits.

    Build one by `Graph.of`, which checks its arguments, or by `er.load`. The arrays are read-only.
    Duplicate triples are kept.

    Parameters
    ----------
    name : str
        Name of the graph.
    entities, relations : sequence of str or range
        Names in the order of their ids, or a range if there are only ids.
    splits : dict of str to array of int
        The triples of each split, of shape (n, 3). Those of a split `facts` count as seen in training.
    unseen : {"keep", "drop"}, default "keep"
        Whether entities and relations not seen in training were kept.
    dropped : tuple of str, default ()
        What `unseen="drop"` left out, in words.
    remarks : tuple of str, default ()
        What the reader of the files found, in words.
    times : dict of str to array of int, default {}
        In a temporal graph, the ids of the first and the last time of each triple, of shape (n, 2). They
        are equal if the triple holds at a single time.
    instants : sequence of str or range, default range(0)
        The names of the times in their order, or a range if there are only ids.

    Examples
    --------
    >>> Graph.of([[0, 0, 1], [1, 0, 2], [2, 0, 0]], test=[[0, 0, 2], [0, 0, 3]], name="toy")
    toy
      entities   4
      relations  1
      train      3
      test       2
      hash       799b2f11f23e1a4e
      note       test: 1 of 2 triples have an entity or relation not seen in training (1 entity, 0
                 relations); drop them with unseen='drop'
    """

    name: str
    entities: Names
    relations: Names
    splits: dict[str, Ints]
    unseen: Unseen = "keep"
    dropped: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    times: dict[str, Ints] = field(default_factory=dict)
    instants: Names = range(0)

    def __post_init__(self) -> None:
        """Make the arrays read-only, so that the hash stays true."""
        given: Any = self.splits
        if not isinstance(given, dict) or not all(isinstance(one, np.ndarray) for one in given.values()):
            raise InputError(
                "splits must be arrays of triples by name",
                got=repr(given)[:40],
                do="create graphs with Graph.of",
            )
        for triples in (*self.splits.values(), *self.times.values()):
            triples.flags.writeable = False

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Pickle through the constructor, since unpickled arrays are writeable."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def of(
        cls,
        train: ArrayLike | Mapping[str, ArrayLike],
        valid: ArrayLike | None = None,
        test: ArrayLike | None = None,
        *,
        entities: int | range | Iterable[str] | None = None,
        relations: int | range | Iterable[str] | None = None,
        name: str = "graph",
        unseen: Unseen = "keep",
        columns: Order = "hrt",
    ) -> Self:
        """Build a graph from arrays of ids.

        Parameters
        ----------
        train : array_like or mapping of str to array_like
            The training triples, a row (head, relation, tail) of ids each; or all splits by their names.
            Rows of a temporal graph have the id of a time as well, or those of the first and the last.
        valid, test : array_like, optional
            The triples of the other splits.
        entities, relations : int, range or iterable of str, optional
            Names in the order of their ids, or their number. By default the largest id determines it.
        name : str, default "graph"
            Name of the graph.
        unseen : {"keep", "drop"}, default "keep"
            "drop" follows PyKEEN's protocol: entities and relations not seen in training leave the
            vocabulary, their triples leave the other splits, and the rest is renumbered in the same
            order. If there were only ids, the previous ids become the names.
        columns : {"hrt", "htr", "rht", "thr", "trh", "rth"}, default "hrt"
            The order of the columns of the arrays: h head, r relation, t tail.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        InputError
            If the arrays are not ids of triples, or names and ids do not match.

        Examples
        --------
        >>> graph = Graph.of({"train": [[0, 0, 2]], "test": [[0, 0, 1]]}, unseen="drop")
        >>> graph.entities, graph.splits["train"].tolist(), len(graph.splits["test"])
        (('0', '2'), [[0, 0, 1]], 0)
        """
        check_unseen(unseen)
        if not isinstance(name, str):
            raise InputError("the name of a graph must be a text", got=repr(name))
        given = dict(train) if isinstance(train, Mapping) else {"train": train}
        given |= {split: v for split, v in (("valid", valid), ("test", test)) if v is not None}
        if not all(isinstance(split, str) for split in given):
            raise InputError("the names of splits must be texts", got=", ".join(map(repr, given)))
        if "train" not in given:
            raise InputError("a graph needs a train split", got=", ".join(given) or "no splits")
        order = [*(split for split in SPLITS if split in given), *(s for s in given if s not in SPLITS)]
        check_order(columns)
        taken = [columns.index(letter) for letter in "hrt"]
        facts = {split: as_triples(split, given[split], times=2) for split in order}
        times = _times(facts)
        arrays = {split: rows[:, taken] for split, rows in facts.items()}
        if not len(arrays["train"]):
            raise InputError("the train split has no triples", do="add at least one")
        named, kinds = _names("entities", entities), _names("relations", relations)
        splits = {s: ids(array, named, kinds, f"{s} row {{}}".format) for s, array in arrays.items()}
        rows = np.concatenate(list(splits.values()))
        graph = cls(
            name,
            named or range(int(rows[:, ::2].max()) + 1),
            kinds or range(int(rows[:, 1].max()) + 1),
            splits,
            times=times,
            instants=range(max((int(part.max(initial=-1)) for part in times.values()), default=-1) + 1),
        )
        return graph if unseen == "keep" else graph.drop_unseen()

    def drop_unseen(self) -> Self:
        """Leave out entities and relations not seen in training, as PyKEEN does.

        Returns
        -------
        Graph
            The graph as `Graph.of` builds it with ``unseen="drop"``; the same object at every call.

        Examples
        --------
        >>> Graph.of([[0, 0, 1]], test=[[0, 0, 1], [0, 0, 2]]).drop_unseen().notes[-1]
        '1 entities and 0 relations not seen in training were removed'
        """
        return self if self.unseen == "drop" else self._seen

    @cached_property
    def _seen(self) -> Self:
        """The graph without entities and relations not seen in training."""
        seen = self._present(*self.training)
        entity, relation = (np.cumsum(mask) - 1 for mask in seen)
        lost = {split: (rows, text) for split, rows, text in self._unseen()}
        kept = {s: t[~lost[s][0]] if s in lost else t for s, t in self.splits.items()}
        times = {s: t[~lost[s][0]] if s in lost else t for s, t in self.times.items()}
        notes = [f"{text}; left out (unseen: drop)" for _, text in lost.values()]
        gone = [int((~mask).sum()) for mask in seen]
        if any(gone):
            notes.append(
                f"{gone[0]:,} entities and {gone[1]:,} relations not seen in training were removed"
            )
        return type(self)(
            self.name,
            _compress(self.entities, seen[0]),
            _compress(self.relations, seen[1]),
            {split: _numbered(triples, entity, relation) for split, triples in kept.items()},
            "drop",
            tuple(notes),
            self.remarks,
            times,
            self.instants,
        )

    @property
    def training(self) -> tuple[str, ...]:
        """The splits that show a model its entities and relations: train, and facts if there are any."""
        return ("train", FACTS) if FACTS in self.splits else ("train",)

    def _present(self, *splits: str) -> tuple[Mask, Mask]:
        """Mark the entities and the relations that occur in some splits."""
        entities = np.zeros(len(self.entities), dtype=bool)
        relations = np.zeros(len(self.relations), dtype=bool)
        for split in splits:
            entities[self.splits[split][:, ::2]] = True
            relations[self.splits[split][:, 1]] = True
        return entities, relations

    def _unseen(self) -> Iterator[tuple[str, Mask, str]]:
        """Yield each split with something not seen in training, a mask of its triples, and a note."""
        entities, relations = self._present(*self.training)
        for split, triples in self.splits.items():
            rows = ~(entities[triples[:, ::2]].all(axis=1) & relations[triples[:, 1]])
            if rows.any():
                new = self._present(split)
                counts = (
                    f"{_counted((new[0] & ~entities).sum(), 'entity', 'entities')}, "
                    f"{_counted((new[1] & ~relations).sum(), 'relation', 'relations')}"
                )
                what = f"have an entity or relation not seen in training ({counts})"
                yield split, rows, self._share(split, rows.sum(), what)

    def task(
        self,
        split: str = "test",
        *,
        sides: Sides = "both",
        filter: Sequence[str] | Literal["all"] | None = "all",  # noqa: A002  # the field's word
        candidates: Candidates = "all",
        seed: int = 0,
        outside: Outside = "raise",
        protocol: protocols.Name | None = None,
        time: Time | None = None,
    ) -> Task:
        """Build the ranking task of a split: by default tails, then heads, filtered.

        Parameters
        ----------
        split : str, default "test"
            The split whose triples are ranked.
        sides : str or sequence of str, default "both"
            What the queries ask for: "tail" `(h, r, ?)`, "head" `(?, r, t)`, "relation" `(h, ?, t)`,
            "pair" `(?, r, ?)`, "both" (tail and head), or several of them.
        filter : "all", sequence of str or None, default "all"
            The splits whose known true answers are filtered out. None ranks raw.
        candidates : str, int, path or mapping, default "all"
            "all" entities (or relations); "typed", the heads and tails seen with the relation in
            training; the path of a `type_constrain.txt`; a number, sampled per query; or, per side, a
            mapping from relations to lists of ids, or a list of ids per triple.
        seed : int, default 0
            Seed of the sample.
        outside : {"raise", "add"}, default "raise"
            What to do if a target is not among its candidates: raise an error, or add it for itself
            alone.
        protocol : str, optional
            Filter, compare scores and break ties as another library does (`evenrank.ranks.presets`).
        time : {"aware", "overlap", "agnostic"}, optional
            In a temporal graph, which known triples are filtered: those with the same time as the query
            ("aware", the default; an interval is the same if both ends are), those that hold at one of
            its times ("overlap"), or all ("agnostic"). Queries end with their time: the id of a time, or
            two if there are intervals.

        Returns
        -------
        Task
            The queries with their targets, candidates and known true answers.

        Raises
        ------
        InputError
            If the split does not exist, or an argument is invalid.

        Examples
        --------
        >>> from evenrank.graphs import load
        >>> load("nations").task("test")
        Task(402 targets of 288 distinct queries among 2 to 14 candidates)
        >>> load("nations").task("test", sides="relation", filter=None)
        Task(201 targets of 116 distinct queries among 55 candidates)
        """
        return ask(self, split, sides, filter, candidates, seed, outside, protocol, time)

    @property
    def temporal(self) -> bool:
        """Whether triples have times."""
        return bool(self.times)

    @cached_property
    def intervals(self) -> bool:
        """Whether some triple holds at more than a single time."""
        return any((part[:, 0] != part[:, 1]).any() for part in self.times.values())

    @property
    def num_entities(self) -> int:
        """Number of entities."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """Number of relations."""
        return len(self.relations)

    def triples(self, split: str) -> Ints:
        """Return the triples of a split.

        Parameters
        ----------
        split : str
            Name of the split, such as "train".

        Returns
        -------
        ndarray of int, shape (n, 3)
            Rows of head, relation and tail.

        Raises
        ------
        InputError
            If there is no such split.

        Examples
        --------
        >>> Graph.of([[0, 0, 1]], test=[[1, 0, 2]]).triples("test")
        array([[1, 0, 2]])
        """
        return triples_of(self, split)

    def types(self, *splits: str) -> Given:
        """Return the heads and the tails that occur with each relation, as candidates for `task`.

        Parameters
        ----------
        *splits : str
            The splits to look at. By default those of `training`.

        Returns
        -------
        dict
            For "head" and "tail", a mapping from relations to arrays of ids.

        Raises
        ------
        InputError
            If there is no such split.

        Examples
        --------
        >>> Graph.of([[0, 0, 1], [2, 0, 1]]).types()["head"][0].tolist()
        [0, 2]
        """
        return types(self, splits or self.training)

    @cached_property
    def hash(self) -> str:
        """Hash of the content, independent of file format, order of rows and numbering."""
        entity, entities = _canonical(self.entities)
        relation, relations = _canonical(self.relations)
        named = [entities, relations]
        if self.times:
            named.append(len(self.instants) if isinstance(self.instants, range) else [*self.instants])
        digest = sha256(json.dumps(named).encode())
        for split, triples in sorted(self.splits.items()):
            rows = _numbered(triples, entity, relation)
            if self.times:
                rows = np.concatenate([rows, self.times[split]], axis=1)
            digest.update(json.dumps([split, len(rows)]).encode())
            digest.update(rows[np.lexsort(rows.T[::-1])].astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def vocabulary(self) -> str:
        """Hash of the names in the order of their ids; graphs with equal ones have equal numbering."""
        names = [len(n) if isinstance(n, range) else list(n) for n in (self.entities, self.relations)]
        return sha256(json.dumps(names).encode()).hexdigest()[:16]

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """The findings that are notes or warnings."""
        return tuple(text for severity, text in self.findings() if severity != "ok")

    def findings(self) -> list[Finding]:
        """Check the graph: its sizes, duplicates, leakage, and what is not seen in training.

        Returns
        -------
        list of (str, str)
            Severity ("ok", "note" or "warning") and text of each finding.

        Examples
        --------
        >>> Graph.of([[0, 0, 1], [0, 0, 1]], test=[[0, 0, 1]]).findings()[3:5]
        [('note', 'train: 1 of 2 triples are duplicates'),
         ('warning', 'test: 1 of 1 triples are also in train')]
        """
        found: list[Finding] = [
            ("ok", f"{len(self.entities):,} entities, {len(self.relations):,} relations"),
            *(("ok", f"{split}: {len(triples):,} triples") for split, triples in self.splits.items()),
        ]

        def judge(severity: Literal["note", "warning"], texts: Iterable[str], fine: str) -> None:
            found.extend([(severity, text) for text in texts if text] or [("ok", fine)])

        if self.times:
            kind = "intervals" if self.intervals else "time points"
            found.append(("ok", f"{_times_of(self):,} times; triples hold at {kind}"))
            ill = sum(int((part[:, 0] > part[:, 1]).sum()) for part in self.times.values())
            if ill:
                found.append(
                    (
                        "note",
                        "1 triple ends before it begins"
                        if ill == 1
                        else f"{ill:,} triples end before they begin",
                    )
                )
        found += [("note", remark) for remark in self.remarks]
        keys = self._keys()
        repeats = (self._share(s, (k[1:] == k[:-1]).sum(), "are duplicates") for s, k in keys.items())
        judge("note", repeats, "no duplicate triples within a split")
        shared = (
            self._share(b, _common(keys[a], keys[b]), f"are also in {a}")
            for a, b in combinations(keys, 2)
        )
        judge("warning", shared, "no triple is in two splits")
        drop = Option("unseen", "drop")
        unseen = (Advice(f"{text}; drop them with ", drop) for _, _, text in self._unseen())
        judge("note", [*self.dropped, *unseen], "all entities and relations are seen in training")
        unused = [int((~mask).sum()) for mask in self._present(*self.splits)]
        judge(
            "note",
            [f"{unused[0]:,} entities and {unused[1]:,} relations are in no triple"] * any(unused),
            "every entity and relation is in a triple",
        )
        loops = sum(int((triples[:, 0] == triples[:, 2]).sum()) for triples in self.splits.values())
        found.append(("ok", f"{loops:,} triples have the same head and tail"))
        if _misnumbered(self.entities):
            note = "entities are named 0, 1, 2, ... but have other ids (as text, 10 sorts before 2)"
            found.append(("note", f"{note}; to keep ids, store whole numbers as .npy or Parquet"))
        return found

    def _share(self, split: str, n: int | np.integer[Any], what: str) -> str:
        """Describe how many triples of a split have a property, or return an empty text if none has."""
        return f"{split}: {n:,} of {len(self.splits[split]):,} triples {what}" if n else ""

    def _keys(self) -> dict[str, Ints]:
        """Number the triples, equal ones by equal numbers; return those of each split, sorted."""
        h, r, t = np.concatenate(list(self.splits.values())).T
        entities, relations = len(self.entities), len(self.relations)
        keys = h * relations + r  # there are at most 10^9 of each, so this cannot overflow
        if entities**2 * relations > np.iinfo(np.int64).max:
            keys = np.unique(keys, return_inverse=True)[1]  # but the next product could
        keys = keys * entities + t
        if self.times:
            both = np.concatenate([self.times[split] for split in self.splits])
            keys = np.unique(np.column_stack([keys, both]), axis=0, return_inverse=True)[1].ravel()
        ends = np.cumsum([len(triples) for triples in self.splits.values()])
        parts = np.split(keys, ends[:-1])
        return {split: np.sort(part) for split, part in zip(self.splits, parts, strict=True)}

    def __repr__(self) -> str:
        """Show sizes, hash and notes in aligned lines."""
        return described(self)

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        return f"<pre>{escape(repr(self))}</pre>"


def ids(
    triples: NDArray[Any], entities: Names | None, relations: Names | None, at: Callable[[int], str]
) -> Ints:
    """Return a copy of an array of ids; raise an error that names the place of the first invalid row."""
    limits = np.array([LARGEST if names is None else len(names) for names in (entities, relations)])
    limits = limits[[0, 1, 0]]
    good = (triples >= 0) & (triples < limits) & (triples == np.floor(triples))  # a NaN is never good
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise InputError(
            f"{at(int(row))}: not the id of a {PARTS[column]}",
            got=triples[row, column],
            allowed=f"whole numbers from 0 to {limits[column] - 1:,}",
        )
    return np.array(triples, dtype=np.int64, order="C")


def check_order(order: Any) -> None:
    """Check an order of columns."""
    if not isinstance(order, str) or order not in get_args(Order):
        allowed = f"{', '.join(get_args(Order))} (h head, r relation, t tail)"
        raise InputError("unknown order of columns", got=repr(order), allowed=allowed)


def check_unseen(unseen: Any) -> None:
    """Check a rule for entities and relations not seen in training."""
    if not isinstance(unseen, str) or unseen not in get_args(Unseen):
        allowed = ", ".join(map(repr, get_args(Unseen)))
        raise InputError("unknown value of unseen", got=repr(unseen), allowed=allowed)


def as_triples(split: str, values: ArrayLike, *, times: int = 0) -> NDArray[Any]:
    """Check that an array has the shape and the type of ids of triples, and perhaps of times."""
    try:
        array = np.asarray(values)
    except ValueError:
        got = "rows of different lengths"
        raise InputError(f"{split} is not an array of ids", got=got) from None
    except (TypeError, RuntimeError):  # a tensor on another device
        got = f"a {type(values).__name__} on device {getattr(values, 'device', None)}"
        raise InputError(f"{split} is not an array of ids", got=got, do="move it to the CPU") from None
    if array.shape == (0,):
        array = np.empty((0, 3), dtype=np.int64)
    if array.ndim != 2 or not 3 <= array.shape[1] <= 3 + times or array.dtype.kind not in "iuf":
        raise InputError(
            f"{split} must be an array of ids, a row per triple",
            got=f"shape {array.shape} of {array.dtype}",
            allowed="whole numbers of shape (n, 3): head, relation, tail",
        )
    return array


def _times(facts: Mapping[str, NDArray[Any]]) -> dict[str, Ints]:
    """Return the times of the triples of each split; none if there are three columns."""
    widths = {split: rows.shape[1] for split, rows in facts.items() if len(rows)}
    if len({*widths.values()}) > 1:
        got = ", ".join(f"{split} {width}" for split, width in widths.items())
        raise InputError("the splits have different numbers of columns", got=got)
    if 3 in widths.values() or not widths:
        return {}
    empty = np.zeros((0, 2), dtype=np.int64)
    return {s: check_times(s, rows[:, 3:]) if len(rows) else empty for s, rows in facts.items()}


def _names(what: str, names: int | range | Iterable[str] | None) -> Names | None:
    if names is None:
        return None
    if isinstance(names, range):
        names = len(names)
    if isinstance(names, int | np.integer):
        if not 1 <= names <= LARGEST:
            raise InputError(f"impossible number of {what}", got=names, allowed=f"1 to {LARGEST:,}")
        return range(int(names))
    given = list(names) if isinstance(names, Iterable) else []
    if isinstance(names, str) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(f"{what} must be a number or a list of names", got=repr(names)[:60])
    name, times = Counter(given).most_common(1)[0]
    if times > 1:
        raise InputError(f"the names of {what} must be distinct", got=f"{name!r} {times} times")
    return tuple(map(str, given))


def _compress(names: Names, mask: Mask) -> Names:
    if isinstance(names, range) and mask[: mask.sum()].all():
        return range(int(mask.sum()))
    return tuple(map(str, compress(names, mask.tolist())))


def _numbered(triples: Ints, entity: Ints, relation: Ints) -> Ints:
    """Renumber triples."""
    h, r, t = triples.T
    return np.stack([entity[h], relation[r], entity[t]], axis=1)


def _canonical(names: Names) -> tuple[Ints, int | list[str]]:
    """Return the position of each id among the sorted names, and these; without names, the ids."""
    if isinstance(names, range):
        return np.arange(len(names)), len(names)
    order = sorted(range(len(names)), key=names.__getitem__)
    places = np.empty(len(names), dtype=np.int64)
    places[order] = np.arange(len(names))
    return places, [names[i] for i in order]


def _common(keys: Ints, others: Ints) -> int:
    """Count how many of the others are among the sorted keys (`np.isin` sorts again: 140 ms, not 1)."""
    places = np.searchsorted(keys, others)
    return int((keys[np.minimum(places, len(keys) - 1)] == others).sum()) if len(keys) else 0


def _misnumbered(names: Names) -> bool:
    if isinstance(names, range):
        return False
    numbers = list(map(str, range(len(names))))
    return list(names) != numbers and set(names) == set(numbers)


def described(graph: Graph, columns: int = 100, note: Callable[[str], str] = str) -> str:
    """Write sizes, hash and notes in aligned lines of so many columns; `note` words each note."""
    counts = {"entities": len(graph.entities), "relations": len(graph.relations)}
    counts |= {"times": _times_of(graph)} if graph.times else {}
    counts |= {split: len(triples) for split, triples in graph.splits.items()}
    width = max(map(len, counts))
    figures = max(len(f"{count:,}") for count in counts.values())
    lines = [f"  {label:{width}}  {count:>{figures},}" for label, count in counts.items()]
    lines.append(f"  {'hash':{width}}  {graph.hash}")
    for kind, text in graph.findings():
        if kind != "ok":
            begin, indent = f"  {kind:{width}}  ", " " * (width + 4)
            lines += wrapped(begin + note(text), columns, indent=indent, names=False)
    return "\n".join([graph.name, *lines])


def _times_of(graph: Graph) -> int:
    """Count the times that occur; ids may leave some out, such as hours of daily events."""
    return len(np.unique(np.concatenate(list(graph.times.values()))))


def _counted(n: int | np.integer[Any], one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"
