"""Join models: put the same targets into the same order, and check that protocols agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints, memory
from evenrank.errors import InputError, Option
from evenrank.ranks.protocol import to_agree
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import TRIPLE
from evenrank.stats._sample import names_of

TARGETS = (TRIPLE, ("source", "target"), ("query", "answer"))
ROWS = "row"
Advice = str | Sequence[str | Option]
ONE_PROTOCOL = (
    "rank them under one protocol, or pass ",
    Option("mixed", True),
    " to compare them anyway",
)
BY_ROW = (Option("on", ROWS), " if row i is the same target in each")
On = str | Sequence[str] | None


def named_models(
    positional: Iterable[Any],
    named: Mapping[str, Any],
    *,
    what: str = "ranks",
    kinds: tuple[type, ...] = (Ranks,),
) -> dict[str, Any]:
    """Name models that are given one by one, as a list, as a mapping, or by keyword.

    Those without a name are called by the model of their protocol, if that is unique; otherwise
    "model 1", "model 2", ...

    >>> a, b = Ranks.of([1], protocol={"model": "transe"}), Ranks.of([2])
    >>> [*named_models([a, b], {})], [*named_models([[a, a]], {}), *named_models([{"x": a}], {"y": b})]
    (['transe', 'model 2'], ['model 1', 'model 2', 'x', 'y'])
    """
    pairs: list[tuple[str | None, Any]] = []
    for one in positional:
        if isinstance(one, Mapping):
            pairs += [(str(name), ranks) for name, ranks in one.items()]
        elif isinstance(one, list | tuple):
            pairs += [(None, ranks) for ranks in one]
        else:
            pairs.append((None, one))
    pairs += named.items()
    for i, (name, ranks) in enumerate(pairs, 1):
        check_ranks(name or f"model {i}", ranks, what=what, kinds=kinds)
    own = [name or getattr(ranks, "ranks", ranks).protocol.model for name, ranks in pairs]
    found: dict[str, Any] = {}
    for i, (mine, (name, ranks)) in enumerate(zip(own, pairs, strict=True), 1):
        label = name or (mine if mine and own.count(mine) == 1 else f"model {i}")
        if label in found:
            raise InputError("two models of the same name", got=label, do="give each model its own name")
        found[label] = ranks
    return found


def check_ranks(
    name: str,
    given: Any,
    do: str | None = None,
    *,
    what: str = "ranks",
    kinds: tuple[type, ...] = (Ranks,),
) -> None:
    """Raise `InputError` unless an argument is `Ranks`."""
    if not isinstance(given, kinds):
        default = 'e.g. {"a": ranks_a, "b": ranks_b}; er.Ranks.of([1, 2, 3]) makes ranks of numbers'
        if isinstance(given, str) and what == "ranks":
            default = "er.Ranks.load reads files; pass the names of metrics by keyword: metrics="
        do = do or default
        raise InputError(f"{name} must be {what}", got=type(given).__name__, do=do)


def check_protocols(models: Mapping[str, Ranks], do: Advice = ONE_PROTOCOL) -> tuple[str, ...]:
    """Check that the protocols of models agree; return a note on entries that some of them lack."""
    apart = differing(models)
    if apart:
        raise InputError("the models were ranked under different protocols", got="; ".join(apart), do=do)
    given = [ranks.protocol.to_dict() for ranks in models.values()]
    silent = [k for k in _entries(models) if any(k not in entries for entries in given)]
    return (f"some protocols lack {', '.join(silent)}",) if silent else ()


def differing(models: Mapping[str, Ranks]) -> list[str]:
    """List the differences between the protocols of models."""
    found = []
    entries = {name: ranks.protocol.to_dict() for name, ranks in models.items()}
    for entry in _entries(models):
        given = {name: own[entry] for name, own in entries.items() if entry in own}
        values = list(dict.fromkeys(given.values()))
        if len(values) > 1:
            first, other = (next(n for n, v in given.items() if v == value) for value in values[:2])
            found.append(f"{entry}: {given[first]} ({first}) and {given[other]} ({other})")
    return found


def _entries(models: Mapping[str, Ranks]) -> list[str]:
    """List the entries of protocols that must agree."""
    return to_agree([ranks.protocol for ranks in models.values()])


def candidate_range(ranks: Ranks) -> str:
    """Format the smallest and the largest number of candidates.

    Parameters
    ----------
    ranks : Ranks
        The ranks.

    Returns
    -------
    str
        One number, or a range.

    Examples
    --------
    >>> candidate_range(Ranks.of([1, 1], candidates=[9, 1000]))
    '9 to 1,000'
    """
    low, high = int(ranks.candidates.min()), int(ranks.candidates.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


class Named(NamedTuple):
    """A model and its ranks."""

    name: str
    ranks: Ranks


def joined(
    models: Mapping[str, Ranks], on: On, *, mixed: bool, do: Advice = ONE_PROTOCOL
) -> dict[str, Ranks]:
    """Put the targets of all models into the order of the first model.

    All models get its keys, so that units and averages are the same for each, even if one file has
    numbers and another the same numbers as text.

    Parameters
    ----------
    models : mapping of str to Ranks
        The models.
    on : str, sequence of str or None
        The keys that identify a target; "row" takes row i of each.
    mixed : bool
        Whether the protocols may differ.
    do : str or sequence of str and Option, optional
        What an error about different candidates advises.

    Returns
    -------
    dict of str to Ranks
        The models, row by row the same targets.

    Raises
    ------
    InputError
        If the targets, their weights or (unless `mixed`) their candidates differ.
    """
    if on == ROWS and mixed:
        raise InputError("joining by row needs one protocol", got="mixed=True", do="join by keys")
    first, *others = (Named(name, ranks) for name, ranks in models.items())
    keys = _keys(models, on)
    found = {first.name: first.ranks}
    for other in others:
        if on == ROWS:
            _check_rows(keys, first, other)
        else:
            other = Named(other.name, other.ranks[_order(keys, first, other)])
        found[other.name] = other.ranks.with_targets_of(first.ranks)
    if on != ROWS:
        _check_twins(keys, found)
    for other in map(Named, found, found.values()):
        _check_candidates(keys, first, other, mixed=mixed, do=do)
    return found


def _keys(models: Mapping[str, Ranks], on: On) -> list[str]:
    """Choose the key columns that identify a target."""
    shared = [k for k in next(iter(models.values())).keys if all(k in r.keys for r in models.values())]
    if on == ROWS:
        return shared
    if on is not None:
        wanted = names_of("on", on).split(",")
        absent = [name for name in wanted if name not in shared]
        if absent:
            allowed = ", ".join(shared) or "(they share none)"
            raise InputError("no such key in all models", got=absent[0], allowed=allowed)
        return wanted
    found = target_keys(shared)
    if found:
        return found
    raise InputError(
        "no key identifies the targets",
        got=f"keys {', '.join(shared)}" if shared else "no key that all models have",
        allowed="head, relation, tail (and side); source, target; query, answer",
        do=["name the keys with ", Option("on"), ", or pass ", *BY_ROW],
    )


def target_keys(keys: Sequence[str]) -> list[str]:
    """Find the keys that identify a target: head, relation, tail and side, or those of other tasks.

    Parameters
    ----------
    keys : sequence of str
        The names of the key columns.

    Returns
    -------
    list of str
        Those that identify a target; empty if they do not.
    """
    for names in TARGETS:
        if set(names) <= set(keys):
            return [*names, *(["side"] if "side" in keys else [])]
    return []


def _columns(key: str, first: Named, other: Named) -> list[NDArray[Any]]:
    """Get a key column of both; numbers become text if the other file has text."""
    both = [first.ranks.keys[key], other.ranks.keys[key]]
    if len({column.dtype.kind == "O" for column in both}) > 1:
        return list(map(columns.as_texts, both))
    return both


def _order(keys: list[str], first: Named, other: Named) -> Ints:
    """Find the row of `other` for each row of `first`; repeated targets are joined in order."""
    pairs = [_columns(key, first, other) for key in keys]
    if all(memory(mine) == memory(theirs) or np.array_equal(mine, theirs) for mine, theirs in pairs):
        return np.arange(len(first.ranks))
    code, distinct = columns.encode([np.concatenate(pair) for pair in pairs])
    mine, theirs = np.split(code, [len(first.ranks)])
    excess = np.bincount(mine, minlength=len(code)) - np.bincount(theirs, minlength=len(code))
    if excess.any():
        at = int(np.flatnonzero(excess)[0])
        more, fewer = int(excess.clip(0).sum()), int((-excess).clip(0).sum())
        example = _target(keys, [column[at] for column in distinct])
        raise InputError(
            "the models have different targets",
            got=f"{more:,} only in {first.name} and {fewer:,} only in {other.name}, such as {example} "
            f"in {first.name if excess[at] > 0 else other.name}",
        )
    place = np.empty(len(mine), dtype=np.int64)
    place[np.argsort(mine, kind="stable")] = np.argsort(theirs, kind="stable")
    return place


def _check_twins(keys: list[str], models: Mapping[str, Ranks]) -> None:
    """Check that targets with equal keys have equal ranks in each model, as a repeated triple has."""
    ranks = next(iter(models.values()))
    if not len(ranks) or int(ranks.units(keys).max()) + 1 == len(ranks):
        return
    code, distinct = columns.encode([ranks.keys[key] for key in keys])
    _, first = np.unique(code, return_index=True)
    apart = np.zeros(len(code), dtype=bool)
    for r in models.values():
        for column in (r.better, r.equal, r.candidates, np.broadcast_to(_weight(r), len(r))):
            apart |= column != column[first][code]
    if apart.any():
        twins = np.isin(code, code[apart])
        at = int(np.flatnonzero(twins)[0])
        raise InputError(
            "different targets have the same keys",
            got=f"{int(twins.sum()):,} such, e.g. {_target(keys, [c[code[at]] for c in distinct])}",
            do=["name more keys with ", Option("on"), ", or pass ", *BY_ROW],
        )


def _check_rows(keys: list[str], first: Named, other: Named) -> None:
    """Check that joined rows can be the same target."""
    if len(first.ranks) != len(other.ranks):
        got = f"{len(first.ranks):,} in {first.name} and {len(other.ranks):,} in {other.name}"
        raise InputError("joining by row needs equal numbers of targets", got=got)
    for key in keys:
        mine, theirs = _columns(key, first, other)
        apart = np.flatnonzero(mine != theirs)
        if len(apart):
            at = int(apart[0])
            raise InputError(
                f"row {at} is not the same target in each",
                got=f"{key} {mine[at]} in {first.name} and {theirs[at]} in {other.name}",
            )


def _check_candidates(keys: list[str], first: Named, other: Named, *, mixed: bool, do: Advice) -> None:
    """Check that targets have the same numbers of candidates and the same weights."""
    sizes, theirs = first.ranks.candidates, other.ranks.candidates
    apart = np.flatnonzero(sizes != theirs)
    if len(apart) and not mixed:
        at = int(apart[0])
        target = _target(keys, [first.ranks.keys[key][at] for key in keys]) if keys else f"row {at}"
        raise InputError(
            "the models have different numbers of candidates",
            got=f"{len(apart):,} such targets: {target} has {sizes[at]:,} in {first.name} and "
            f"{theirs[at]:,} in {other.name}",
            do=do,
        )
    if np.any(_weight(first.ranks) != _weight(other.ranks)):
        got = f"{first.name} and {other.name}"
        raise InputError("the models have different weights", got=got)


def _weight(ranks: Ranks) -> Floats | int:
    return 1 if ranks.weights is None else ranks.weights


def _target(keys: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
