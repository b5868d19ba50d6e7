"""Resampling units: which one by default, and which targets belong together.

Targets may be dependent in two ways: both sides of a triple, and all answers of a query. Units may cross
for this, as in "triple+query"; rankings of queries with several answers have queries as units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.rows import TRIPLE

Unit = str | Sequence[str] | None
CROSSED = "triple+query"
SHARED = 0.05  # the share of targets with shared queries from which on these matter


def unit_name(ranks: Iterable[AnyRanks], unit: Unit) -> str:
    """Name the resampling unit.

    By default the query, if these are rankings of queries; for ranks of targets the triple, if all have
    triples, crossed with the query, if triples share queries; else the query, if targets share queries;
    else the target.
    """
    if unit is not None:
        return names_of("unit", unit)
    several = _distinct(ranks)
    if any(isinstance(one, Rankings) for one in several):
        return "query"
    if all(set(TRIPLE) <= one.keys.keys() for one in several):
        return CROSSED if any(shared_queries(one) >= SHARED for one in several) else "triple"
    alike = all("query" in one.keys for one in several) and several
    return "query" if alike and any(shared_queries(one) >= SHARED for one in several) else "target"


def shared_queries(ranks: AnyRanks) -> float:
    """Compute the share of targets whose query has other triples (or targets); 0 without queries."""
    if isinstance(ranks, Rankings):
        return 0.0
    names = ranks.keys.keys()
    sides = set(ranks.keys["side"].tolist()) if "side" in names else {None}
    if not len(ranks) or (
        "query" not in names and not (set(TRIPLE) <= names and sides <= {"head", "tail"})
    ):
        return 0.0
    query = ranks.units("query")
    other = ranks.units("triple") if set(TRIPLE) <= names else np.arange(len(ranks))
    (_, (of, _)) = columns.encode([query, other])
    return float((np.bincount(of)[query] > 1).mean())


def _distinct(ranks: Iterable[AnyRanks]) -> list[AnyRanks]:
    """List ranks, but only the first of those that share their targets."""
    found: list[AnyRanks] = []
    for one in ranks:
        if not (found and one.has_targets_of(found[-1])):
            found.append(one)
    return found


def unit_note(ranks: Iterable[AnyRanks], unit: str) -> tuple[str, ...]:
    """Note that targets of one query are dependent, if the unit does not join them."""
    if unit not in ("target", "triple"):
        return ()
    share = max((shared_queries(one) for one in _distinct(ranks)), default=0.0)
    if share < SHARED:
        return ()
    return (
        f"{100 * share:.0f} % of the targets share their query with others, which unit {unit} takes as "
        f"independent: intervals may be too short, and p-values too small; use {CROSSED}",
    )


def names_of(what: str, given: str | Sequence[str]) -> str:
    """Join names by commas; check that they are names."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str) for n in names):
        raise InputError(f"{what} must be a name, or a list of names", got=repr(given))
    return ",".join(names)


def units_of(ranks: AnyRanks, unit: str | Ints) -> list[Ints]:
    """Number the units of each target; if two units cross, also the second ones, and pairs of both."""
    if not isinstance(unit, str):
        return [unit]
    names = unit.split("+")
    if len(names) > 2:
        raise InputError("at most two units can cross", got=repr(unit), do=f"e.g. {CROSSED}")
    if isinstance(ranks, Rankings) and "target" in names:
        raise InputError(
            "the targets of rankings are queries with several answers", got="unit target", do="use query"
        )
    each = [np.arange(len(ranks)) if name == "target" else ranks.units(name) for name in names]
    return each if len(each) == 1 else [*each, columns.encode(each)[0]]
