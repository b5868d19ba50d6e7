"""Join models: put the same targets into the same order, and check that protocols agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints, memory
from evenrank.errors import InputError, Option
from evenrank.ranks.protocol import to_agree
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import TRIPLE, Groups
from evenrank.stats._units import names_of

TARGETS = (TRIPLE, ("source", "target"), ("query", "answer"))
ROWS = "row"
Advice = str | Sequence[str | Option]
ONE_PROTOCOL = (
    "rank them under one protocol, or pass ",
    Option("mixed", True),
    " to compare them anyway",
)
BY_ROW = (Option("on", ROWS), " if row i is the same target in each")
OR_BY_ROW = (Option("on"), ", or pass ", Option("on", ROWS), " if row i is the same query in each")
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
    rows = [given.ranks if isinstance(given, Groups) else given for _, given in pairs]
    own = [name or one.protocol.model for (name, _), one in zip(pairs, rows, strict=True)]
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
    """Raise `InputError` unless an argument is `Ranks`, or of another of these kinds."""
    if not isinstance(given, kinds):
        if isinstance(given, Rankings):
            raise InputError(
                f"{name} must be ranks of single targets",
                got="rankings of queries with several answers",
                do="rankings.ranks() ranks each answer by itself",
            )
        default = 'e.g. {"a": ranks_a, "b": ranks_b}; er.Ranks.of([1, 2, 3]) makes ranks of numbers'
        if isinstance(given, str) and what == "ranks":
            default = "er.Ranks.load reads files; pass the names of metrics by keyword: metrics="
        do = do or default
        raise InputError(f"{name} must be {what}", got=type(given).__name__, do=do)


def one_kind(several: Mapping[str, AnyRanks]) -> None:
    """Check that all are ranks of targets, or all are rankings of queries."""
    kinds = {isinstance(one, Rankings): name for name, one in several.items()}
    if len(kinds) > 1:
        raise InputError(
            "ranks of single targets and rankings of queries with several answers do not mix",
            got=f"rankings in {kinds[True]}, ranks in {kinds[False]}",
            do="rankings.ranks() ranks each answer by itself",
        )


def check_protocols(models: Mapping[str, AnyRanks], do: Advice = ONE_PROTOCOL) -> tuple[str, ...]:
    """Check that the protocols of models agree; return a note on entries that some of them lack."""
    apart = differing(models)
    if apart:
        raise InputError("the models were ranked under different protocols", got="; ".join(apart), do=do)
    given = [ranks.protocol.to_dict() for ranks in models.values()]
    silent = [k for k in _entries(models) if any(k not in entries for entries in given)]
    return (f"some protocols lack {', '.join(silent)}",) if silent else ()


def differing(models: Mapping[str, AnyRanks]) -> list[str]:
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


def _entries(models: Mapping[str, AnyRanks]) -> list[str]:
    """List the entries of protocols that must agree."""
    return to_agree([ranks.protocol for ranks in models.values()])


def candidate_range(ranks: AnyRanks) -> str:
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
    ranks: AnyRanks

    @property
    def rows(self) -> str:
        """What the rows are: targets or queries."""
        return "queries" if isinstance(self.ranks, Rankings) else "targets"


def joined(
    models: Mapping[str, AnyRanks], on: On, *, mixed: bool, do: Advice = ONE_PROTOCOL
) -> dict[str, AnyRanks]:
    """Put the targets of all models into the order of the first model.

    All models get its keys, so that units and averages are the same for each, even if one file has
    numbers and another the same numbers as text.

    Parameters
    ----------
    models : mapping of str to Ranks or Rankings
        The models.
    on : str, sequence of str or None
        The keys that identify a target; "row" takes row i of each.
    mixed : bool
        Whether the protocols may differ.
    do : str or sequence of str and Option, optional
        What an error about different candidates advises.

    Returns
    -------
    dict of str to Ranks or Rankings
        The models, row by row the same targets.

    Raises
    ------
    InputError
        If the targets, their weights or (unless `mixed`) their candidates or numbers of answers differ.
    """
    one_kind(models)
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
        found[other.name] = with_targets(other.ranks, first.ranks)
    if on != ROWS:
        _check_twins(keys, found)
    for other in map(Named, found, found.values()):
        _check_candidates(keys, first, other, mixed=mixed, do=do)
    return found


def with_targets(ranks: AnyRanks, first: AnyRanks) -> AnyRanks:
    """Share keys and weights with ranks of the same targets, or with rankings of the same queries.

    Parameters
    ----------
    ranks, first : Ranks or Rankings
        Ranks of the same targets, in the same order; the keys and weights are those of the first.

    Returns
    -------
    Ranks or Rankings
        The ranks.
    """
    if isinstance(ranks, Rankings):
        assert isinstance(first, Rankings)
        return ranks.with_targets_of(first)
    assert isinstance(first, Ranks)
    return ranks.with_targets_of(first)


def _keys(models: Mapping[str, AnyRanks], on: On) -> list[str]:
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
    first = next(iter(models.values()))
    if isinstance(first, Rankings):
        if found := query_keys(first, shared):
            return found
        found_keys = f"keys {', '.join(shared)}, in which queries agree"
        raise InputError(
            "no key identifies the queries",
            got=found_keys if shared else "no key that all models have",
            do=["name the queries in a key query, or other keys with ", *OR_BY_ROW],
        )
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


def query_keys(rankings: Rankings, keys: Sequence[str]) -> list[str]:
    """Find the keys that identify a query: the key `query`, or all of them.

    Parameters
    ----------
    rankings : Rankings
        The queries.
    keys : sequence of str
        The names of the key columns.

    Returns
    -------
    list of str
        Those that identify a query; empty if two queries agree in all of them.
    """
    for names in (["query"] if "query" in keys else [], [*keys]):
        if names and len(np.unique(rankings.units(names))) == len(rankings):
            return names
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
            f"the models have different {first.rows}",
            got=f"{more:,} only in {first.name} and {fewer:,} only in {other.name}, such as {example} "
            f"in {first.name if excess[at] > 0 else other.name}",
        )
    place = np.empty(len(mine), dtype=np.int64)
    place[np.argsort(mine, kind="stable")] = np.argsort(theirs, kind="stable")
    return place


def _check_twins(keys: list[str], models: Mapping[str, AnyRanks]) -> None:
    """Check that targets with equal keys have equal ranks in each model, as a repeated triple has."""
    ranks = next(iter(models.values()))
    if not len(ranks) or int(ranks.units(keys).max()) + 1 == len(ranks):
        return
    code, distinct = columns.encode([ranks.keys[key] for key in keys])
    if isinstance(ranks, Rankings):
        twins = np.bincount(code)[code] > 1
        at = int(np.flatnonzero(twins)[0])
        raise InputError(
            "different queries have the same keys",
            got=f"{int(twins.sum()):,} such, e.g. {_target(keys, [c[code[at]] for c in distinct])}",
            do=["name more keys with ", *OR_BY_ROW],
        )
    _, first = np.unique(code, return_index=True)
    apart = np.zeros(len(code), dtype=bool)
    for r in models.values():
        assert isinstance(r, Ranks)
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
        raise InputError(f"joining by row needs equal numbers of {first.rows}", got=got)
    for key in keys:
        mine, theirs = _columns(key, first, other)
        apart = np.flatnonzero(mine != theirs)
        if len(apart):
            at = int(apart[0])
            raise InputError(
                f"row {at} is not the same {first.ranks.row_name} in each",
                got=f"{key} {mine[at]} in {first.name} and {theirs[at]} in {other.name}",
            )


def _check_candidates(keys: list[str], first: Named, other: Named, *, mixed: bool, do: Advice) -> None:
    """Check that targets have the same numbers of candidates, answers and weights."""
    sizes, theirs = first.ranks.candidates, other.ranks.candidates
    apart = np.flatnonzero(sizes != theirs)

    def named(at: int) -> str:
        return _target(keys, [first.ranks.keys[key][at] for key in keys]) if keys else f"row {at}"

    if isinstance(first.ranks, Rankings) and isinstance(other.ranks, Rankings):
        _check_answers(first.ranks, other.ranks, (first.name, other.name), named)
    if len(apart) and not mixed:
        at = int(apart[0])
        target = named(at)
        raise InputError(
            "the models have different numbers of candidates",
            got=f"{len(apart):,} such {first.rows}: {target} has {sizes[at]:,} in {first.name} and "
            f"{theirs[at]:,} in {other.name}",
            do=do,
        )
    if np.any(_weight(first.ranks) != _weight(other.ranks)):
        got = f"{first.name} and {other.name}"
        raise InputError("the models have different weights", got=got)


def _check_answers(
    mine: Rankings, theirs: Rankings, names: tuple[str, str], named: Callable[[int], str]
) -> None:
    """Check that queries have as many answers in both, of the same gains."""
    apart = np.flatnonzero(mine.answer_counts != theirs.answer_counts)
    if len(apart):
        at = int(apart[0])
        a, b = (
            f"{int(one.answer_counts[at]):,} in {name}"
            for one, name in zip((mine, theirs), names, strict=True)
        )
        raise InputError(
            "the models have different numbers of answers",
            got=f"{len(apart):,} of {len(mine):,} queries: {named(at)} has {a} and {b}",
            do="rank the same answers with both",
        )
    gains = []
    for one in (mine, theirs):
        gain = np.ones(len(one.better)) if one.gains is None else one.gains
        owner = np.repeat(np.arange(len(one)), one.answer_counts)
        gains.append(gain[np.lexsort((gain, owner))])
    if (gains[0] != gains[1]).any():
        at = int(owner[np.flatnonzero(gains[0] != gains[1])[0]])
        raise InputError(
            "the answers of the models have different gains",
            got=f"{named(at)} in {' and '.join(names)}",
            do="grade the same answers alike",
        )


def _weight(ranks: AnyRanks) -> Floats | int:
    return 1 if ranks.weights is None else ranks.weights


def _target(keys: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
