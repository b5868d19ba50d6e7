"""Joining models: the same targets, in the same order, ranked in the same way; or a reason why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.errors import InputError
from evenrank.ranks.ranks import TRIPLE, Ranks

# what may differ between models; everything else in a protocol must agree
OWN = ("model", "scores")
TARGETS = (TRIPLE, ("source", "target"), ("query", "answer"))
ROWS = "row"
ALIKE = "rank them alike, or say mixed=True (--mixed) to compare them all the same"
On = str | Sequence[str] | None


def check_ranks(name: str, given: Any, do: str) -> None:
    """Refuse what is not ranks."""
    if not isinstance(given, Ranks):
        raise InputError(f"{name} must be ranks", got=type(given).__name__, do=do)


def check_protocols(models: Mapping[str, Ranks], do: str = ALIKE) -> tuple[str, ...]:
    """Refuse models that were ranked in different ways; give notes on what only some of them say."""
    apart = differing(models)
    if apart:
        raise InputError("the models were not ranked in the same way", got="; ".join(apart), do=do)
    said = [ranks.protocol.to_dict() for ranks in models.values()]
    silent = [k for k in _entries(models) if any(k not in entries for entries in said)]
    return (f"not every model says its {', '.join(silent)}",) if silent else ()


def differing(models: Mapping[str, Ranks]) -> list[str]:
    """Say in what the protocols of models differ."""
    found = []
    entries = {name: ranks.protocol.to_dict() for name, ranks in models.items()}
    for entry in _entries(models):
        said = {name: own[entry] for name, own in entries.items() if entry in own}
        values = list(dict.fromkeys(said.values()))
        if len(values) > 1:
            first, other = (next(n for n, v in said.items() if v == value) for value in values[:2])
            found.append(f"{entry}: {said[first]} ({first}) and {said[other]} ({other})")
    return found


def _entries(models: Mapping[str, Ranks]) -> list[str]:
    """Give the entries of protocols that must agree.

    The content hash decides about the data: where it is the same, data sets may have any name.
    """
    entries = dict.fromkeys(k for r in models.values() for k in r.protocol.to_dict() if k not in OWN)
    contents = {ranks.protocol.content for ranks in models.values()}
    if len(contents) == 1 and None not in contents:
        entries.pop("data", None)
    return list(entries)


def spans(ranks: Ranks) -> str:
    """Write among how many candidates targets were ranked."""
    low, high = int(ranks.candidates.min()), int(ranks.candidates.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


class Named(NamedTuple):
    """A model and its ranks."""

    name: str
    ranks: Ranks


def joined(models: Mapping[str, Ranks], on: On, *, mixed: bool, do: str = ALIKE) -> dict[str, Ranks]:
    """Put the targets of all models into the order of the first, refusing different targets.

    They all get its keys, too, so that units and averages are those of the first in each of them, even
    where one file has numbers and another the same numbers as text.
    """
    if on == ROWS and mixed:
        raise InputError(
            "rows can only be trusted to be the same targets under one protocol",
            got="mixed as well",
            do="join by keys",
        )
    first, *others = (Named(name, ranks) for name, ranks in models.items())
    keys = _keys(models, on)
    found = {first.name: first.ranks}
    for other in others:
        if on == ROWS:
            _check_rows(keys, first, other)
        else:
            other = Named(other.name, other.ranks[_order(keys, first, other)])
        found[other.name] = other.ranks.with_keys(first.ranks.keys)
    if on != ROWS:
        _check_twins(keys, found)
    for other in map(Named, found, found.values()):
        _check_alike(keys, first, other, mixed=mixed, do=do)
    return found


def _keys(models: Mapping[str, Ranks], on: On) -> list[str]:
    """Choose the key columns that tell targets apart."""
    shared = [k for k in next(iter(models.values())).keys if all(k in r.keys for r in models.values())]
    if on == ROWS:
        return shared
    if on is not None:
        wanted = on.split(",") if isinstance(on, str) else list(on)
        absent = [name for name in wanted if name not in shared]
        if absent:
            allowed = ", ".join(shared) or "(they share none)"
            raise InputError("no such key in all models", got=absent[0], allowed=allowed)
        return wanted
    found = target_keys(shared)
    if found:
        return found
    raise InputError(
        "nothing tells which ranks are of the same target",
        got=f"keys {', '.join(shared)}" if shared else "no keys that all models have",
        allowed="head, relation, tail (and side); source, target; query, answer",
        do='name the keys with on=, or say on="row" (--on row) if row i is the same target in each',
    )


def target_keys(keys: Sequence[str]) -> list[str]:
    """Give those keys that tell targets apart in the tasks there are; none, if they do not."""
    for names in TARGETS:
        if set(names) <= set(keys):
            return [*names, *(["side"] if "side" in keys else [])]
    return []


def _columns(key: str, first: Named, other: Named) -> list[NDArray[Any]]:
    """Give a key column of both; numbers are texts where the other file has texts."""
    both = [first.ranks.keys[key], other.ranks.keys[key]]
    if "O" in {column.dtype.kind for column in both}:
        return [np.array([*map(str, column.tolist()), None], dtype=object)[:-1] for column in both]
    return both


def _order(keys: list[str], first: Named, other: Named) -> Ints:
    """Find the row of `other` for each row of `first`; targets that occur twice are joined in turn."""
    pairs = [_columns(key, first, other) for key in keys]
    if all(np.array_equal(mine, theirs) for mine, theirs in pairs):
        return np.arange(len(first.ranks))
    code, distinct = columns.encode([np.concatenate(pair) for pair in pairs])
    mine, theirs = np.split(code, [len(first.ranks)])
    excess = np.bincount(mine, minlength=len(code)) - np.bincount(theirs, minlength=len(code))
    if excess.any():
        at = int(np.flatnonzero(excess)[0])
        more, fewer = int(excess.clip(0).sum()), int((-excess).clip(0).sum())
        example = _target(keys, [column[at] for column in distinct])
        raise InputError(
            "the models were not tested on the same targets",
            got=f"{more:,} only in {first.name} and {fewer:,} only in {other.name}, such as {example} "
            f"in {first.name if excess[at] > 0 else other.name}",
        )
    place = np.empty(len(mine), dtype=np.int64)
    place[np.argsort(mine, kind="stable")] = np.argsort(theirs, kind="stable")
    return place


def _check_twins(keys: list[str], models: Mapping[str, Ranks]) -> None:
    """Refuse targets that share their keys, unless each model ranks them alike, as a triple twice."""
    code, distinct = columns.encode([next(iter(models.values())).keys[key] for key in keys])
    if len(distinct[0]) == len(code):
        return
    _, first = np.unique(code, return_index=True)
    apart = np.zeros(len(code), dtype=bool)
    for r in models.values():
        for column in (r.better, r.equal, r.candidates, np.broadcast_to(_weight(r), len(r))):
            apart |= column != column[first][code]
    if apart.any():
        twins = np.isin(code, code[apart])
        at = int(np.flatnonzero(twins)[0])
        raise InputError(
            "targets that share their keys cannot be told apart",
            got=f"{int(twins.sum()):,} such, e.g. {_target(keys, [c[code[at]] for c in distinct])}",
            do='name more keys with on= (--on), or say on="row" (--on row) if row i is the same in each',
        )


def _check_rows(keys: list[str], first: Named, other: Named) -> None:
    """Refuse to join rows that cannot be of the same target."""
    if len(first.ranks) != len(other.ranks):
        got = f"{len(first.ranks):,} in {first.name} and {len(other.ranks):,} in {other.name}"
        raise InputError("rows can only be joined one to one", got=got)
    for key in keys:
        mine, theirs = _columns(key, first, other)
        apart = np.flatnonzero(mine != theirs)
        if len(apart):
            at = int(apart[0])
            raise InputError(
                f"row {at} is not the same target in each",
                got=f"{key} {mine[at]} in {first.name} and {theirs[at]} in {other.name}",
            )


def _check_alike(keys: list[str], first: Named, other: Named, *, mixed: bool, do: str) -> None:
    """Refuse targets that were ranked among other candidates, or weigh something else."""
    sizes, theirs = first.ranks.candidates, other.ranks.candidates
    apart = np.flatnonzero(sizes != theirs)
    if len(apart) and not mixed:
        at = int(apart[0])
        target = _target(keys, [first.ranks.keys[key][at] for key in keys]) if keys else f"row {at}"
        raise InputError(
            "the models were ranked among different candidates",
            got=f"{len(apart):,} such targets: {target} has {sizes[at]:,} in {first.name} and "
            f"{theirs[at]:,} in {other.name}",
            do=do,
        )
    if np.any(_weight(first.ranks) != _weight(other.ranks)):
        got = f"{first.name} and {other.name}"
        raise InputError("the models weigh their targets differently", got=got)


def _weight(ranks: Ranks) -> Floats | int:
    return 1 if ranks.weights is None else ranks.weights


def _target(keys: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
