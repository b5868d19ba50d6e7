"""The protocol of ranks: the data, the candidates and the rules by which ranks were computed.

Results are comparable only if their protocols agree. Ranks therefore carry their protocol, files store
it, tables print what differs from the usual setting, and comparisons check it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from evenrank._internal.columns import column_names, mapping
from evenrank._internal.table import Note
from evenrank.errors import InputError

SIDES = ("tail", "head", "relation", "pair")  # the order in which sides are written
ADDED = ", targets added"


@dataclass(frozen=True)
class All:
    """All entities (or relations, or pairs) are candidates."""

    sampled: ClassVar[bool] = False

    def __str__(self) -> str:
        """Return the text used in files."""
        return "all"


@dataclass(frozen=True)
class Typed:
    """Candidates are the entities that occur with the relation on the predicted side.

    Parameters
    ----------
    source : str
        The splits that define the types, or the name of a file of type constraints.
    digest : str, optional
        Hash of that file.
    targets_added : bool
        Whether targets outside their type were added.
    """

    source: str
    digest: str | None = None
    targets_added: bool = False
    sampled: ClassVar[bool] = False
    pattern: ClassVar = re.compile(r"typed, (?:as seen in (.*?)|from (.*?) \[(\w+)\])(, targets added)?")

    def __str__(self) -> str:
        """Return the text used in files."""
        how = f"as seen in {self.source}" if self.digest is None else f"from {self.source}"
        return f"typed, {how}{_digest(self.digest)}{ADDED * self.targets_added}"

    @classmethod
    def read(cls, splits: str | None, file: str | None, digest: str | None, added: str | None) -> Typed:
        """Create from the groups of `pattern`."""
        return cls(splits or file or "", digest, added is not None)


@dataclass(frozen=True)
class Sampled:
    """Candidates are sampled for each query.

    Parameters
    ----------
    k : int
        The number of sampled candidates.
    seed : int
        The seed of the sample.
    with_targets : bool
        Whether other targets of the query are candidates, too, as in raw ranking.
    replace : bool
        Whether the same candidate may be drawn several times, as by some other programs.
    """

    k: int
    seed: int
    with_targets: bool = False
    replace: bool = False
    sampled: ClassVar[bool] = True
    pattern: ClassVar = re.compile(
        r"(\d{1,18}) sampled per query( with replacement)?, seed (\d{1,99})(, and its other targets)?"
    )

    def __str__(self) -> str:
        """Return the text used in files."""
        beside, again = ", and its other targets" * self.with_targets, " with replacement" * self.replace
        return f"{self.k} sampled per query{again}, seed {self.seed}{beside}"

    @classmethod
    def read(cls, k: str, again: str | None, seed: str, beside: str | None) -> Sampled:
        """Create from the groups of `pattern`."""
        return cls(int(k), int(seed), beside is not None, again is not None)


@dataclass(frozen=True)
class Listed:
    """Candidates are lists that the user passed.

    Parameters
    ----------
    digest : str, optional
        Eight characters of the hash of the lists.
    targets_added : bool
        Whether targets outside their list were added.
    """

    digest: str | None = None
    targets_added: bool = False
    sampled: ClassVar[bool] = False
    pattern: ClassVar = re.compile(r"given(?: \[(\w+)\])?(, targets added)?")

    def __str__(self) -> str:
        """Return the text used in files."""
        return f"given{_digest(self.digest)}{ADDED * self.targets_added}"

    @classmethod
    def read(cls, digest: str | None, added: str | None) -> Listed:
        """Create from the groups of `pattern`."""
        return cls(digest, added is not None)


@dataclass(frozen=True)
class Described:
    """Candidates of another kind, described in words.

    Parameters
    ----------
    words : str
        The description.
    sampled : bool
        Whether they are a sample.
    """

    words: str
    sampled: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """Return the text used in files."""
        return self.words


MIXED = Described("not alike, sampled in some", sampled=True)
Candidates: TypeAlias = All | Typed | Sampled | Listed | Described


def _digest(digest: str | None) -> str:
    return "" if digest is None else f" [{digest}]"


def read_candidates(text: str) -> Candidates:
    """Parse the text for candidates in files of ranks.

    >>> read_candidates("100 sampled per query, seed 7")
    Sampled(k=100, seed=7, with_targets=False, replace=False)
    """
    if text == str(All()):
        return All()
    for kind in (Typed, Sampled, Listed):
        found = kind.pattern.fullmatch(text)
        if found:
            return kind.read(*found.groups())
    return MIXED if text == str(MIXED) else Described(text, "sampled" in text)


@dataclass(frozen=True)
class Protocol:
    """How ranks were computed; unknown entries are None.

    Parameters
    ----------
    data : str, optional
        Name of the data set.
    content : str, optional
        Hash of the triples, which identifies the data set.
    split : str, optional
        The split that was ranked.
    sides : tuple of str, optional
        The predicted sides: "tail", "head", "relation", "pair", in any order.
    filter : tuple of str, optional
        The splits whose known true answers were filtered from the candidates; empty for raw ranking.
    candidates : All, Typed, Sampled, Listed or Described, optional
        The candidates that each target was ranked against.
    unseen : str, optional
        How entities not seen in training are treated: "keep" or "drop".
    preset : str, optional
        The library whose protocol was followed (`evenrank.ranks.presets`).
    model : str, optional
        Name of the model.
    scores : str, optional
        How scores are compared.
    average : str, optional
        The kind of average: "micro" (over targets), "query", "relation" or other keys.
    ties : str, optional
        The tie-breaking rule.
    chance : str, optional
        How z-scores treat random ranks: "scorer", as those of a random scorer, or "independent".
    extra : mapping of str to str
        Other entries.

    Examples
    --------
    >>> protocol = Protocol(data="wn18rr", split="test", sides=("head", "tail"), candidates=All())
    >>> protocol == Protocol(data="wn18rr", split="test", sides=("tail", "head"), candidates=All())
    True
    >>> print(protocol)
    data: wn18rr [e02bde67]
    >>> protocol.to_dict()
    {'data': 'wn18rr', 'split': 'test', 'sides': 'tail, head', 'candidates': 'all'}
    """

    data: str | None = None
    content: str | None = None
    split: str | None = None
    sides: tuple[str, ...] | None = None
    filter: tuple[str, ...] | None = None
    candidates: Candidates | None = None
    unseen: str | None = None
    preset: str | None = None
    model: str | None = None
    scores: str | None = None
    average: str | None = None
    ties: str | None = None
    chance: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the entries, sort sides, and make `extra` read-only."""
        if self.sides is not None:
            known = {side: i for i, side in enumerate(SIDES)}
            sides = _names("sides", self.sides)
            ordered = sorted(sides, key=lambda side: (known.get(side, len(SIDES)), side))
            object.__setattr__(self, "sides", tuple(ordered))
        if self.filter is not None:
            object.__setattr__(self, "filter", _names("filter", self.filter))
        given: Any = self.candidates
        if not isinstance(given, Candidates | None):
            object.__setattr__(self, "candidates", read_candidates(str(given)))
        given = mapping("extra entries of a protocol", self.extra)
        extra = {str(name): str(value) for name, value in given.items()}
        if taken := [name for name in extra if name in (*NAMES, *OLD_NAMES)]:
            field = OLD_NAMES.get(taken[0], taken[0])
            raise InputError(
                "an extra entry has the name of a field", got=repr(taken[0]), do=f"pass {field}="
            )
        object.__setattr__(self, "extra", MappingProxyType(extra))
        for name in TEXTS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, str(value))

    def __repr__(self) -> str:
        """Show the entries that are known."""
        known = ((name, getattr(self, name)) for name in NAMES)
        entries = [f"{name}={value!r}" for name, value in known if value is not None]
        entries += [f"extra={dict(self.extra)!r}"] * bool(self.extra)
        return f"Protocol({', '.join(entries)})"

    def __hash__(self) -> int:
        """Hash the fingerprint."""
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the entries as text, as read-only mappings cannot be pickled."""
        return Protocol.from_dict, (self.to_dict(),)

    @classmethod
    def of(cls, given: Protocol | Mapping[str, Any] | None) -> Protocol:
        """Convert a mapping of entries to a protocol.

        Parameters
        ----------
        given : Protocol, mapping or None
            A protocol, which is returned as it is, or its entries.

        Returns
        -------
        Protocol
            The protocol.

        Raises
        ------
        InputError
            If it is neither.
        """
        return given if isinstance(given, Protocol) else cls.from_dict(cls.entries(given))

    @staticmethod
    def entries(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Check entries; the name of a library alone is not sufficient.

        Parameters
        ----------
        given : mapping or None
            Entries of a protocol.

        Returns
        -------
        mapping
            The entries.
        """
        if isinstance(given, str):
            raise InputError(
                "a protocol must be a mapping of entries",
                got=repr(given)[:40],
                do=f"use graph.task(protocol={given!r}), or for ranks computed elsewhere "
                f"protocol={{'preset': {given!r}}}",
            )
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                "a protocol must be a mapping of entries",
                got=repr(given)[:40],
                do="e.g. protocol={'data': 'wn18rr', 'model': 'TransE'}",
            )
        return given or {}

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Protocol:
        """Create a protocol from the entries of `to_dict`.

        Parameters
        ----------
        entries : mapping
            Values are texts, as in files of ranks, or values of the fields. Entries that are no fields
            become `extra`.

        Returns
        -------
        Protocol
            The protocol.

        Examples
        --------
        >>> Protocol.from_dict({"candidates": "all", "learning rate": "0.1"}).extra["learning rate"]
        '0.1'
        """
        known: dict[str, Any] = {}
        extra: dict[str, str] = {}
        for name, value in cls.entries(entries).items():
            name = OLD_NAMES.get(str(name), str(name))
            if value is None:
                continue
            if name not in NAMES:
                extra[name] = str(value)
            else:  # the others are checked in __post_init__
                known[name] = value
        return cls(**known, extra=extra)

    def to_dict(self) -> dict[str, str]:
        """Return the known entries as text, as files of ranks store them.

        Returns
        -------
        dict of str to str
            Entries; those of `extra` come last.

        Examples
        --------
        >>> Protocol(filter=(), candidates=Sampled(50, seed=1)).to_dict()
        {'filter': 'none', 'candidates': '50 sampled per query, seed 1'}
        """
        entries = {name: getattr(self, name) for name in NAMES}
        return {
            **{name: _written(value) for name, value in entries.items() if value is not None},
            **self.extra,
        }

    def updated(self, entries: Mapping[str, Any]) -> Protocol:
        """Return a copy with some entries changed.

        Parameters
        ----------
        entries : mapping
            New values; None removes an entry.

        Returns
        -------
        Protocol
            The new protocol.
        """
        return Protocol.from_dict({**self.to_dict(), **self.entries(entries)})

    def only(self, names: Iterable[str]) -> Protocol:
        """Return a copy with some of the entries.

        Parameters
        ----------
        names : iterable of str
            Names of the entries to keep.

        Returns
        -------
        Protocol
            The new protocol.
        """
        wanted = set(_names("entries", [*names] if isinstance(names, Mapping) else names))
        return Protocol.from_dict({k: v for k, v in self.to_dict().items() if k in wanted})

    def __and__(self, other: Protocol) -> Protocol:
        """Return the entries that both share, and whether candidates are sampled in either."""
        if not isinstance(other, Protocol):
            return NotImplemented
        others = other.to_dict()
        shared = Protocol.from_dict({k: v for k, v in self.to_dict().items() if others.get(k) == v})
        if shared.candidates is None and (self.sampled or other.sampled):
            return replace(shared, candidates=MIXED)
        return shared

    @property
    def sampled(self) -> bool:
        """Whether candidates are sampled."""
        return self.candidates is not None and self.candidates.sampled

    @property
    def fingerprint(self) -> str:
        """Eight characters of a hash of all entries."""
        # with the former name of preset, and without what was the only treatment of random ranks before
        # it became an entry, which keeps fingerprints stable
        entries = {"protocol" if k == "preset" else k: v for k, v in self.to_dict().items()}
        if entries.get("chance") == "independent":
            del entries["chance"]
        text = json.dumps(dict(sorted(entries.items())), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def line(self, *, full: bool = False, usual: Mapping[str, str] | None = None) -> str:
        """Format as the line below a table: what differs from the usual setting, and the fingerprint.

        Parameters
        ----------
        full : bool
            Whether to include all entries.
        usual : mapping of str to str, optional
            Further entries with their usual values.

        Returns
        -------
        str
            Entries, separated by semicolons, and the fingerprint in brackets.
        """
        entries = self.to_dict()
        if not full:
            expected = {**USUAL, **{name: (text,) for name, text in (usual or {}).items()}}
            entries = {k: text for k, text in entries.items() if text not in expected.get(k, ())}
            entries.pop("content", None)
        words = "; ".join(f"{name}: {text}" for name, text in entries.items())
        ranked = any(getattr(self, name) is not None for name in TASK)
        usual_one = "usual protocol" if ranked else "no protocol recorded"
        return f"{words or usual_one} [{self.fingerprint}]"

    __str__ = line

    def note(self, usual: Mapping[str, str] | None = None, prefix: str = "") -> Note:
        """Format as the line below a table, in short and in full.

        Parameters
        ----------
        usual : mapping of str to str, optional
            Further entries with their usual values.
        prefix : str
            Text before the line.

        Returns
        -------
        Note
            The line, with all entries in its attribute `full`.
        """
        return Note(prefix + self.line(usual=usual), prefix + self.line(full=True))


NAMES = tuple(one.name for one in fields(Protocol) if one.name != "extra")
TEXTS = tuple(name for name in NAMES if name not in ("sides", "filter", "candidates"))
TASK = (
    "data",
    "content",
    "split",
    "sides",
    "filter",
    "candidates",
    "unseen",
    "preset",
)  # what was ranked
OWN = ("model", "scores")  # may differ between models that are compared; all others must agree
NAMED = 3  # values listed in a note
OLD_NAMES = {"protocol": "preset"}  # in older files
# what a table does not mention: filtered ranking of the test split, both sides, all candidates
USUAL: dict[str, tuple[str, ...]] = {
    "split": ("test",),
    "sides": ("tail, head",),
    "filter": ("train, valid, test",),
    "candidates": ("all",),
    "unseen": ("keep",),
    "scores": ("float64, certified",),
    "average": ("micro",),
    "ties": ("expected",),
    "chance": ("scorer",),
}


def shared(protocols: Iterable[Protocol]) -> Protocol:
    """Return the entries that all protocols share; the empty protocol if there are none."""
    return reduce(Protocol.__and__, protocols) if (protocols := list(protocols)) else Protocol()


def to_agree(protocols: Sequence[Protocol]) -> list[str]:
    """List the entries that must agree if models are compared.

    If the content hashes of the data are the same, the names of the data sets may differ, and so may the
    rule for entities not seen in training, as it made no difference.
    """
    entries = dict.fromkeys(name for one in protocols for name in one.to_dict() if name not in OWN)
    contents = {one.content for one in protocols}
    if len(contents) == 1 and None not in contents:
        entries.pop("data", None)
        entries.pop("unseen", None)
    return list(entries)


def differences(
    protocols: Iterable[Protocol], what: str = "models", ignored: Iterable[str] = ()
) -> tuple[str, ...]:
    """Note the entries in which protocols differ although their results are in one table.

    >>> differences([Protocol(filter=()), Protocol(filter=("train", "test"), split="test")])
    ('the models differ in filter (none; train, test)', 'some of the models record no split')
    """
    distinct = list(dict.fromkeys(protocols))
    every = [one.to_dict() for one in distinct]
    apart, silent = [], []
    for name in to_agree(distinct):
        if name in ("ties", "average", *ignored):  # chosen for the whole table, or columns of it
            continue
        values = list(dict.fromkeys(entries[name] for entries in every if name in entries))
        if len(values) > 1:
            more = ["..."] if len(values) > NAMED else []
            apart.append((name, f"{name} ({'; '.join(values[:NAMED] + more)})"))
        if any(name not in entries for entries in every):
            silent.append(name)
    if "data" in dict(apart):
        apart = [(name, text) for name, text in apart if name != "content"]
    notes = [f"the {what} differ in {', '.join(text for _, text in apart)}"] if apart else []
    if "data" in silent and "content" in silent:
        silent.remove("content")
    return (*notes, *([f"some of the {what} record no {', '.join(silent)}"] if silent else []))


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Read names: text, in which commas separate them, or several texts; `none` means no names."""
    if isinstance(value, Sequence) and not value:
        return ()
    found = [one.strip() for text in column_names(name, value) for one in text.split(",")]
    return () if found == ["none"] else tuple(found)


def _written(value: Any) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)
