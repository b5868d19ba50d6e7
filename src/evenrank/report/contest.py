"""Contests: which models ranked the same targets, in rows that stand side by side.

Files of ranks say in their protocol what was asked (data set, split, sides, filter, candidates). Those
that say the same meet in one contest, and must have ranked the same targets among as many candidates;
those that differ in it are different contests, told apart by name. A contest is kept in a page as one
Parquet table: what the models share once, and two columns of counts for each.
"""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.graphs import Graph
from evenrank.graphs.strata import STRATA, strata
from evenrank.metrics.tally import Histogram, Tally
from evenrank.ranks.protocol import Protocol, shared
from evenrank.ranks.ranks import TRIPLE, Ranks
from evenrank.stats import On, joined, target_keys

ASKED = ("data", "content", "split", "sides", "filter", "candidates", "unseen", "preset")
UNNAMED = "unnamed data"
UNTOLD = "nothing tells which ranks are of the same target"
PLACE = re.compile(r'<script type="application/json" id="kept-ranks">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Ranks, and where they come from."""

    where: str
    ranks: Ranks
    fallback: str  # the model's name, where the protocol has none
    on: str = ""  # what told the targets apart in the page that kept these

    @property
    def data(self) -> str:
        """The name of the data set."""
        return _line(self.ranks.protocol.data or "") or UNNAMED

    @property
    def model(self) -> str:
        """The name of the model."""
        return _line(self.ranks.protocol.model or "") or self.fallback

    @property
    def asked(self) -> dict[str, str]:
        """What was asked of the model, as far as its protocol says."""
        return self.ranks.protocol.only(ASKED).to_dict()


@dataclass(frozen=True, eq=False)
class Contest:
    """Models that ranked the same targets; row i is the same target in each.

    `on` names the keys that say so, or is `row`; it is empty where nothing does, and nothing is tested.
    """

    data: str
    models: Mapping[str, Ranks]
    on: str

    @cached_property
    def first(self) -> Ranks:
        """The ranks of the first model: its keys, candidates and weights are everybody's."""
        return next(iter(self.models.values()))

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.first)

    @cached_property
    def sizes(self) -> Histogram:
        """The candidate counts, which are all that chance depends on."""
        return self.first.tally().sizes

    @property
    def candidates(self) -> float:
        """Mean number of candidates."""
        return float(self.first.candidates.mean())

    @property
    def protocol(self) -> Protocol:
        """What all models' protocols agree on."""
        return shared(ranks.protocol for ranks in self.models.values())

    @cached_property
    def alike(self) -> dict[str, Ranks]:
        """The models under the protocol they share, each target told only by the unit it belongs to.

        Rows that stand side by side can be compared as such, and triples are numbered once, not once
        for every model and pair.
        """
        units = {} if self.unit == "target" else {self.unit: self.units}
        return {
            model: ranks.with_only_keys(units).with_protocol(self.protocol)
            for model, ranks in self.models.items()
        }

    @property
    def unit(self) -> str:
        """What varies as one: the triple, asked for from both sides, where triples are named."""
        return "triple" if set(TRIPLE) <= self.first.keys.keys() else "target"

    @cached_property
    def units(self) -> Ints:
        """The number of the unit that each target belongs to."""
        return np.arange(len(self)) if self.unit == "target" else self.first.units(self.unit)

    @property
    def untestable(self) -> str:
        """Say why models cannot be tested against each other; nothing, where they can."""
        weight = self.first.weights
        units = self.units if weight is None else self.units[weight > 0]
        if not self.on:
            return (
                f"{UNTOLD}; say so with on= (--on): key columns, or row where row i is the same in each"
            )
        return "" if (units != units[:1]).any() else f"one {self.unit} alone cannot tell models apart"

    def split(self, key: str) -> Iterator[tuple[str, Ints]]:
        """Give each value of a key and its rows, in sorted order."""
        group, (values,) = columns.encode([self.first.keys[key]])
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(values)))
        yield from zip(map(str, values), np.split(order, ends[:-1]), strict=True)

    def tallies(self, rows: Ints) -> list[Tally]:
        """Count some rows of every model; their candidate counts are counted once."""
        first = self.first[rows]
        sizes = first.tally().sizes
        weight = np.ones(len(rows)) if first.weights is None else first.weights
        weighs = weight > 0
        return [
            Tally(
                Histogram.of(
                    better=ranks.better[rows][weighs],
                    equal=ranks.equal[rows][weighs],
                    weights=weight[weighs],
                ),
                sizes,
            )
            for ranks in self.models.values()
        ]


def read(path: Path, candidates: int | None = None) -> list[Source]:
    """Read a file of ranks, or all that a report has kept."""
    from polars.exceptions import PolarsError

    if path.suffix.lower() not in (".html", ".htm"):
        return [Source(str(path), Ranks.load(path, candidates=candidates), path.stem)]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", got=getattr(error, "strerror", None) or error) from None
    found = PLACE.search(text)
    if found is None:
        raise InputError(f"{path} is no report of evenrank", got="a page without ranks")
    try:
        kept = [source for contest in json.loads(found[1]) for source in _unpack(contest, str(path))]
    except (ValueError, KeyError, TypeError, AttributeError, PolarsError) as error:
        what = str(error).partition("\n")[0]
        raise InputError(f"{path} is damaged", got=what or type(error).__name__) from None
    if not kept:
        raise InputError(f"{path} keeps no ranks", do="make it again from files, without --no-ranks")
    return kept


def gather(sources: Sequence[Source], on: On = None) -> tuple[Contest, ...]:
    """Let models meet that were asked the same, by ascending number of candidates."""
    if not sources:
        raise InputError("no ranks to report", do="give files of ranks (.parquet, .csv), or Ranks")
    for source in sources:
        if not len(source.ranks):
            raise InputError(f"{source.where} has no ranks", do="rank at least one target")
    groups: dict[tuple[tuple[str, str], ...], list[Source]] = {}
    for source in sources:
        groups.setdefault(tuple(source.asked.items()), []).append(source)
    names = _names([(group[0].data, dict(asked)) for asked, group in groups.items()])
    contests = [_meet(name, group, on) for name, group in zip(names, groups.values(), strict=True)]
    return tuple(sorted(contests, key=lambda contest: contest.candidates))


def told(contests: Sequence[Contest], graph: Graph) -> tuple[Contest, ...]:
    """Add what a graph's training triples tell of the targets to the contests on that graph."""
    mine = [
        contest
        for contest in contests
        if contest.protocol.content == graph.hash or contest.protocol.data == graph.name
    ]
    if not mine:
        have = ", ".join(contest.data for contest in contests)
        raise InputError("no ranks are of this graph", got=f"{graph.name} [{graph.hash}]", allowed=have)
    return tuple(_stratified(c, graph) if c in mine else c for c in contests)


def _stratified(contest: Contest, graph: Graph) -> Contest:
    every = {"head", "tail", "side"} <= contest.first.keys.keys()
    keys = strata(contest.first, graph, *(STRATA if every else STRATA[:2])).keys
    models = {model: ranks.with_only_keys(keys) for model, ranks in contest.models.items()}
    return Contest(contest.data, models, contest.on)


def _line(name: str) -> str:
    """Put a name on one line, as tables and sentences need it."""
    return " ".join(name.split())


def _names(asked: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Name each contest by its data set, and where that stands twice, by what else was asked.

    >>> _names([("nations", {"split": "test"}), ("nations", {"split": "valid"}), ("umls", {})])
    ['nations (split: test)', 'nations (split: valid)', 'umls']
    """
    names = []
    for data, mine in asked:
        others = [facts for name, facts in asked if name == data]
        differ = [k for k in ASKED if len({facts.get(k) for facts in others}) > 1]
        words = ", ".join(f"{k}: {mine.get(k, 'not said')}" for k in differ)
        names.append(f"{data} ({words})" if words else data)
    return names


def _meet(data: str, group: Sequence[Source], on: On) -> Contest:
    """Put the rows of all models in the order of the first; refuse what was ranked differently."""
    found = _models(data, group)
    first, *others = group
    kept = first.on if all(source.on == first.on for source in others) else ""
    shared = [key for key in first.ranks.keys if all(key in source.ranks.keys for source in others)]
    told = on if isinstance(on, str) else ",".join(on or ()) or kept or ",".join(target_keys(shared))
    # by the name of the file, not of the model, since a file is what one can mend
    rows = {source.where: source.ranks for source in group}
    try:
        if others:
            rows = joined(rows, on=told or "row", mixed=False, do="rank them alike")
    except InputError as error:
        raise InputError(
            f"the models on {data} cannot stand side by side: {error}",
            do="where these are different data, name them apart in the protocol (data)",
        ) from None
    models = {  # with one copy of the keys that all share
        model: rows[source.where].with_only_keys(first.ranks.keys) for model, source in found.items()
    }
    return Contest(data, models, told)


def _models(data: str, group: Sequence[Source]) -> dict[str, Source]:
    """Name models as their protocols do, and those that share a name, as seeds of one do, by file."""
    models = [source.model for source in group]
    for name in ("model", "fallback", "where"):
        names = [
            getattr(source, name) or source.model if models.count(source.model) > 1 else source.model
            for source in group
        ]
        if len(set(names)) == len(names):
            return dict(zip(names, group, strict=True))
    twice = next(model for model in models if models.count(model) > 1)
    raise InputError(
        f"the model {twice} stands twice on {data}",
        got=" and ".join(source.where for source in group if source.model == twice),
        do="leave one out, or name them apart in the protocol (model)",
    )


# Kept in a page -----------------------------------------------------------------------------------


def pack(contest: Contest) -> dict[str, Any]:
    """Put a contest into something JSON can hold."""
    import polars as pl

    first = contest.first
    table = {f"key {name}": column for name, column in first.keys.items()}
    table |= {"candidates": first.candidates} | (
        {} if first.weights is None else {"weight": first.weights}
    )
    for i, ranks in enumerate(contest.models.values()):
        table |= {f"better {i}": ranks.better, f"equal {i}": ranks.equal}
    file = io.BytesIO()
    pl.DataFrame(table).write_parquet(file, compression="zstd", compression_level=15, statistics=False)
    return {
        "data": contest.data,
        "on": contest.on,
        "models": [{"model": m, "protocol": r.protocol.to_dict()} for m, r in contest.models.items()],
        "parquet": b64encode(file.getvalue()).decode(),
    }


def _unpack(kept: Mapping[str, Any], where: str) -> Iterable[Source]:
    import polars as pl

    frame = pl.read_parquet(io.BytesIO(b64decode(kept["parquet"])))
    column = {name: frame[name].to_numpy() for name in frame.columns}
    keys = {name.removeprefix("key "): c for name, c in column.items() if name.startswith("key ")}
    for i, model in enumerate(kept["models"]):
        ranks = Ranks(
            column[f"better {i}"],
            column[f"equal {i}"],
            column["candidates"],
            weights=column.get("weight"),
            keys=keys,
            protocol=model["protocol"],
        )
        name = str(model["model"])
        yield Source(f"{name} in {where}", ranks, name, str(kept.get("on", "")))
