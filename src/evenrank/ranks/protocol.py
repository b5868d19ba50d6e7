"""The protocol of a result: on what, against which candidates, and by which rules ranks were computed.

Two numbers compare only if their protocols agree. So ranks carry theirs, files keep it, tables print
what differs from the usual setting, and comparisons refuse to mix protocols.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from evenrank.errors import InputError

SIDES = ("tail", "head", "relation", "pair")  # the order in which sides are written
ADDED = ", targets added"


@dataclass(frozen=True)
class All:
    """All entities (or relations, or pairs) are candidates."""

    sampled: ClassVar[bool] = False

    def __str__(self) -> str:
        """Write it as files have it."""
        return "all"


@dataclass(frozen=True)
class Typed:
    """Candidates are the entities that occur with the relation on the side that is asked for.

    `source` names the splits that were looked at, or the file of type constraints, with its `digest`.
    """

    source: str
    digest: str | None = None
    targets_added: bool = False
    sampled: ClassVar[bool] = False
    pattern: ClassVar = re.compile(r"typed, (?:as seen in (.*?)|from (.*?) \[(\w+)\])(, targets added)?")

    def __str__(self) -> str:
        """Write it as files have it."""
        how = f"as seen in {self.source}" if self.digest is None else f"from {self.source}"
        return f"typed, {how}{_digest(self.digest)}{ADDED * self.targets_added}"

    @classmethod
    def read(cls, splits: str | None, file: str | None, digest: str | None, added: str | None) -> Typed:
        """Take the groups of `pattern`."""
        return cls(splits or file or "", digest, added is not None)


@dataclass(frozen=True)
class Sampled:
    """Candidates are `k` entities drawn for each query.

    Where the targets of a query compete with each other (raw ranking), they stand beside the sample,
    which is then no plain sample of the candidates (`with_targets`).
    """

    k: int
    seed: int
    with_targets: bool = False
    sampled: ClassVar[bool] = True
    pattern: ClassVar = re.compile(r"(\d+) sampled per query, seed (\d+)(, and its other targets)?")

    def __str__(self) -> str:
        """Write it as files have it."""
        beside = ", and its other targets" * self.with_targets
        return f"{self.k} sampled per query, seed {self.seed}{beside}"

    @classmethod
    def read(cls, k: str, seed: str, beside: str | None) -> Sampled:
        """Take the groups of `pattern`."""
        return cls(int(k), int(seed), beside is not None)


@dataclass(frozen=True)
class Listed:
    """Candidates are lists that the user gave, told apart by eight characters of their hash."""

    digest: str | None = None
    targets_added: bool = False
    sampled: ClassVar[bool] = False
    pattern: ClassVar = re.compile(r"given(?: \[(\w+)\])?(, targets added)?")

    def __str__(self) -> str:
        """Write it as files have it."""
        return f"given{_digest(self.digest)}{ADDED * self.targets_added}"

    @classmethod
    def read(cls, digest: str | None, added: str | None) -> Listed:
        """Take the groups of `pattern`."""
        return cls(digest, added is not None)


@dataclass(frozen=True)
class Described:
    """Candidates of another kind, in words: those of other libraries, or of results put together."""

    words: str
    sampled: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """Write it as files have it."""
        return self.words


MIXED = Described("not alike, sampled in some", sampled=True)
Candidates: TypeAlias = All | Typed | Sampled | Listed | Described


def _digest(digest: str | None) -> str:
    return "" if digest is None else f" [{digest}]"


def read_candidates(text: str) -> Candidates:
    """Read candidates as files of ranks have them.

    >>> read_candidates("100 sampled per query, seed 7")
    Sampled(k=100, seed=7, with_targets=False)
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
    """How ranks were computed; what is not known is None.

    Parameters
    ----------
    data : str, optional
        Name of the data set.
    content : str, optional
        Hash of the data set's triples; it decides whether two data sets are the same.
    split : str, optional
        The split that was ranked.
    sides : tuple of str, optional
        What was asked for: "tail", "head", "relation", "pair". Their order does not matter.
    filter : tuple of str, optional
        The splits whose true answers were left out of the candidates; empty for raw ranking.
    candidates : All, Typed, Sampled, Listed or Described, optional
        Which candidates each target was ranked against.
    unseen : str, optional
        What became of entities not seen in training: "keep" or "drop".
    preset : str, optional
        The library whose way of ranking was followed (`evenrank.ranks.presets`).
    model : str, optional
        Name of the model.
    scores : str, optional
        How scores were compared.
    average : str, optional
        What was averaged over: "micro" (targets), "query", "relation" or other keys.
    ties : str, optional
        The tie-breaking rule.
    extra : mapping of str to str
        Anything else that is worth keeping.

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
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put sides in one order, and make `extra` read-only."""
        if self.sides is not None:
            known = {side: i for i, side in enumerate(SIDES)}
            ordered = sorted(self.sides, key=lambda side: (known.get(side, len(SIDES)), side))
            object.__setattr__(self, "sides", tuple(ordered))
        if self.filter is not None:
            object.__setattr__(self, "filter", tuple(self.filter))
        extra = {str(name): str(value) for name, value in self.extra.items()}
        object.__setattr__(self, "extra", MappingProxyType(extra))

    def __hash__(self) -> int:
        """Hash what is compared."""
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes as text: a read-only mapping cannot be pickled."""
        return Protocol.from_dict, (self.to_dict(),)

    @classmethod
    def of(cls, given: Protocol | Mapping[str, Any] | None) -> Protocol:
        """Take a protocol, or a mapping of its entries."""
        return given if isinstance(given, Protocol) else cls.from_dict(cls.entries(given))

    @staticmethod
    def entries(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Check that entries are given; the name of a library alone does not say what was done."""
        if isinstance(given, str):
            raise InputError(
                "a protocol has entries",
                got=repr(given),
                do=f"use graph.task(protocol={given!r}), or for ranks computed elsewhere "
                f"protocol={{'preset': {given!r}}}",
            )
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                "a protocol is a mapping of entries",
                got=type(given).__name__,
                do="e.g. protocol={'data': 'wn18rr', 'model': 'TransE'}",
            )
        return given or {}

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Protocol:
        """Read the entries of `to_dict`; those that are not fields become `extra`.

        Values are text, as in files of ranks, or what the fields hold.

        >>> Protocol.from_dict({"candidates": "all", "learning rate": "0.1"}).extra["learning rate"]
        '0.1'
        """
        known: dict[str, Any] = {}
        extra: dict[str, str] = {}
        for name, value in entries.items():
            name = OLD_NAMES.get(str(name), str(name))
            if value is None:
                continue
            if name not in NAMES:
                extra[name] = str(value)
            elif name in ("sides", "filter"):
                known[name] = _names(value)
            elif name == "candidates":
                known[name] = value if isinstance(value, Candidates) else read_candidates(str(value))
            else:
                known[name] = str(value)
        return cls(**known, extra=extra)

    def to_dict(self) -> dict[str, str]:
        """Give the entries that are known as text: what files of ranks keep.

        >>> Protocol(filter=(), candidates=Sampled(50, seed=1)).to_dict()
        {'filter': 'none', 'candidates': '50 sampled per query, seed 1'}
        """
        entries = {name: getattr(self, name) for name in NAMES}
        return {
            **{name: _written(value) for name, value in entries.items() if value is not None},
            **self.extra,
        }

    def updated(self, entries: Mapping[str, Any]) -> Protocol:
        """Give this protocol with some entries changed; None removes one."""
        return Protocol.from_dict({**self.to_dict(), **entries})

    def only(self, names: Iterable[str]) -> Protocol:
        """Give a protocol with some of the entries."""
        wanted = set(names)
        return Protocol.from_dict({k: v for k, v in self.to_dict().items() if k in wanted})

    def __and__(self, other: Protocol) -> Protocol:
        """Keep what both share; that candidates were sampled in one of them is kept as well."""
        others = other.to_dict()
        shared = Protocol.from_dict({k: v for k, v in self.to_dict().items() if others.get(k) == v})
        if shared.candidates is None and (self.sampled or other.sampled):
            return replace(shared, candidates=MIXED)
        return shared

    @property
    def sampled(self) -> bool:
        """Whether targets were ranked against a sample of the candidates."""
        return self.candidates is not None and self.candidates.sampled

    @property
    def fingerprint(self) -> str:
        """Eight characters that differ when the protocol differs."""
        # written as the first files had it, so that fingerprints stay what they were
        entries = {"protocol" if k == "preset" else k: v for k, v in self.to_dict().items()}
        text = json.dumps(dict(sorted(entries.items())), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def line(self, *, full: bool = False) -> str:
        """Write the line under a table: what differs from the usual setting, and the fingerprint.

        Parameters
        ----------
        full
            Whether to write every entry.

        Returns
        -------
        str
            Entries, separated by semicolons, and the fingerprint in brackets.
        """
        entries = self.to_dict()
        if not full:
            usual = {name: USUAL.get(name, ()) for name in entries}
            entries = {name: text for name, text in entries.items() if text not in usual[name]}
            entries.pop("content", None)
        words = "; ".join(f"{name}: {text}" for name, text in entries.items())
        return f"{words or 'usual protocol'} [{self.fingerprint}]"

    __str__ = line


NAMES = tuple(one.name for one in fields(Protocol) if one.name != "extra")
OLD_NAMES = {"protocol": "preset"}  # as files had it before
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
}


def shared(protocols: Iterable[Protocol]) -> Protocol:
    """Give what all protocols share; the empty protocol if there are none."""
    return reduce(Protocol.__and__, protocols) if (protocols := list(protocols)) else Protocol()


def _names(value: Any) -> tuple[str, ...]:
    """Read names, separated by commas where they are text; `none` is no name."""
    if isinstance(value, str):
        return () if value == "none" else tuple(name.strip() for name in value.split(","))
    return tuple(map(str, value))


def _written(value: Any) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)
