"""The order of the columns of triples: head, relation, tail, or another one that their names show.

Entities are heads of some triples and tails of others; relations are neither, and they are few. So the
two columns that share their names are the entities, and the third is the relation. Files in an order
other than that of their layout are read as they are only if both signs agree; if a sign contradicts the
layout, reading them would make entities of relations, and the user is asked. Heads come before tails:
nothing in a file shows their direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from evenrank.errors import Advice, InputError, Option
from evenrank.graphs.graph import Order
from evenrank.graphs.text import Table

if TYPE_CHECKING:
    import polars as pl

LETTERS = {"h": "head", "r": "relation", "t": "tail"}
PAIRS = ((1, 2), (0, 2), (0, 1))  # the entities, if the relation is in column 0, 1, 2
RELATION_AT: tuple[Order, ...] = ("rht", "hrt", "htr")
NTH = ("first", "second", "third")
ENOUGH = 10  # shared names that are no coincidence
CLEAR = 4  # times as many: a clear difference
FAINT = 0.02  # share of common names that is no sign; 0.07 is the least in 49 published graphs
MANY = 0.2  # share of common names that outweighs a large number of relations


def parts(order: str) -> list[str]:
    """Name the columns of an order."""
    return [LETTERS[letter] for letter in order]


def arranged(
    tables: Mapping[str, Table], order: Order | None, usual: Order, where: str
) -> tuple[dict[str, Table], list[str]]:
    """Name the columns of tables that do not name them, by the order given or found; note it.

    Columns are named as in the usual order so far.
    """
    unnamed = [split for split, table in tables.items() if not table.named]
    if not unnamed:
        if order is not None:
            what, got = f"{where}: the files name their columns", f"columns {order!r}"
            raise InputError(what, got=got, do=["leave out ", Option("columns")])
        return dict(tables), []
    found, notes = order or usual, list[str]()
    first = "train" if "train" in tables else unnamed[0]
    if order is None and first in unnamed:
        found = _found(tables[first].frame.select(parts(usual)), usual, where)
        if found != usual:
            told = ", ".join(parts(found))
            notes = [
                Advice(
                    f"the columns are {told}, as their names show; name another order with ",
                    Option("columns", usual),
                )
            ]
    rename = dict(zip(parts(usual), parts(found), strict=True))
    result = {
        split: t._replace(frame=t.frame.rename(rename)) if split in unnamed else t
        for split, t in tables.items()
    }
    if order is None:
        relations = result[first].frame["relation"].unique()
        for split in unnamed:
            if split != first:
                _check_split(result[split], result[first], relations)
    return result, notes


class _Signs(NamedTuple):
    """What the columns of a table show about their order."""

    distinct: list[int]  # names in each column
    shared: list[int]  # names that the other two columns have in common
    alike: list[float]  # the share of these among the names of the other two
    numbers: bool  # whether all names are whole numbers: they coincide by chance


def _signs(frame: pl.DataFrame) -> _Signs:
    import polars as pl

    columns = [column.rename("").unique() for column in frame]
    distinct = [len(column) for column in columns]
    both = [pl.concat([columns[i], columns[j]]).n_unique() for i, j in PAIRS]
    shared = [distinct[i] + distinct[j] - n for (i, j), n in zip(PAIRS, both, strict=True)]
    alike = [one / n for one, n in zip(shared, both, strict=True)]
    numbers = all(map(_are_numbers, columns))
    return _Signs(distinct, shared, alike, numbers)


def _are_numbers(column: pl.Series) -> bool:
    if column.dtype.is_numeric():
        return True
    return bool(column.drop_nulls().str.contains(r"^\d+$").all())


def _found(frame: pl.DataFrame, usual: Order, where: str) -> Order:
    """Find the order of columns, or ask the user; a graph without signs has the usual order."""
    signs = _signs(frame)
    distinct, shared, alike, numbers = signs
    expected = usual.index("r")
    best = max(range(3), key=lambda i: (alike[i], i == expected))
    rest = [alike[i] for i in range(3) if i != best]
    clear = alike[best] >= FAINT and alike[best] > CLEAR * max(rest)
    fewest = next((i for i in range(3) if _is_fewest(distinct, i, 2)), None)
    doubt = _is_rich(distinct, expected)
    if clear and best == expected:  # the usual order, unless the names in common are few
        if alike[best] >= MANY or not doubt:
            return usual
    elif clear and best == fewest and shared[best] >= ENOUGH:  # both signs agree on another order
        return usual if best == expected else RELATION_AT[best]
    elif not any(shared):  # no entity is both head and tail
        if not doubt:
            return usual
    elif numbers:  # those of relations are those of entities, too
        chance = shared[best] < CLEAR and distinct[expected] <= distinct[best]
        if expected in (fewest, best) or chance:
            return usual
    elif not clear:  # some names are names of entities and of relations
        strict = best == expected and alike[best] > max(rest) and not doubt
        if strict or (alike[best] < FAINT and _is_fewest(distinct, expected, CLEAR)):
            return usual
    raise _asked(signs, best if alike[best] else fewest, usual, where)


def _is_fewest(distinct: list[int], column: int, times: int) -> bool:
    """Whether a column has fewer names than each other one, by this factor."""
    return all(times * distinct[column] <= distinct[i] for i in range(3) if i != column)


def _is_rich(distinct: list[int], column: int) -> bool:
    """Whether a column has so many names, compared with another one, that it is hardly the relation."""
    return distinct[column] > max(ENOUGH, 2 * min(distinct))


def _asked(signs: _Signs, guess: int | None, usual: Order, where: str) -> InputError:
    counts = ", ".join(f"{n:,} in the {nth}" for n, nth in zip(signs.distinct, NTH, strict=True))
    (i, j), most = max(zip(PAIRS, signs.shared, strict=True), key=lambda pair: pair[1])
    common = f"; the {NTH[i]} and the {NTH[j]} share {most:,}" if most else ""
    other = usual if guess in (None, usual.index("r")) else RELATION_AT[guess or 0]
    return InputError(
        f"{where}: which column is the relation?",
        got=f"distinct names: {counts} column{common}",
        do=["name their order: h head, r relation, t tail, as in ", Option("columns", other)],
    )


def _check_split(table: Table, train: Table, relations: pl.Series) -> None:
    """Check that the relations of a split are relations in training, rather than entities."""
    import polars as pl

    own = table.frame["relation"].unique()
    unseen = own.filter(~own.is_in(relations.implode())) if own.dtype == relations.dtype else own.clear()
    if not len(unseen):
        return
    entities = pl.concat([train.frame["head"], train.frame["tail"].rename("head")]).unique()
    wrong = int(unseen.is_in(entities.implode()).sum())
    known = len(own) - len(unseen)
    if wrong > (max(known, CLEAR) if _are_numbers(own) else known):
        raise InputError(
            f"{table.where.rstrip(':')}: its columns are in another order than those of train",
            got=f"{wrong:,} of {len(own):,} relations are entities in training",
            do=["give all files one order, or headers, or name it by ", Option("columns")],
        )
