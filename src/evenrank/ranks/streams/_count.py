"""From the rows of a part to its histograms, in three ways that give the same.

- Whole numbers without keys and weights, all that the default table needs, are counted in place while
  polars decodes the next rows: not much slower than a file can be read.
- Other columns of the file schema are grouped by polars.
- Files of others (text, `rank`, `optimistic` and `pessimistic`) become `Ranks`, some rows at a time; so
  does what looks wrong, because `Ranks` can name the row.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank._internal.columns import COUNTS, LARGEST, TEXT, said_of
from evenrank.errors import InputError
from evenrank.metrics.tally import Histogram
from evenrank.ranks.files import METADATA, check_protocol, numbers, read_table, unreadable
from evenrank.ranks.ranks import TRIPLE, Groups, Ranks
from evenrank.ranks.streams._files import Part, cut, local, scan
from evenrank.ranks.streams._tallies import (
    COUNT,
    RANKS,
    Origin,
    Question,
    Tallies,
    added,
    merged,
    weighed,
)

if TYPE_CHECKING:
    import polars as pl

    Frames = tuple[pl.DataFrame, pl.DataFrame]

DENSE = 2**24  # candidates up to which ranks are counted in place, in two tables of 128 MB
SLICE = 2**20  # rows that become `Ranks` at a time
# columns of ours, beside keys of the user's: of a query without a key `query`, and of a group
GIVEN, WORST = "entity given", "worst rank"


class DamagedError(InputError):
    """A file that cannot be read, or that holds what ranks cannot be."""


def count(part: Part, question: Question) -> Tallies:
    """Count a part of a file; damage is an error or, if the question says so, noted."""
    try:
        with local(part.file) as path:
            pieces = [part] if part.rows is not None else cut(str(path))
            return added((_count(path, piece, part.file, question) for piece in pieces), merged)
    except DamagedError as damage:
        if not question.skip_damaged:
            raise
        return Tallies(question, left_out={part.file: str(damage)})


def _count(path: Path, part: Part, where: str, question: Question) -> Tallies:
    with _reading(where, path):
        frame, protocol = _open(path, part)
        none = frame.head(0).collect()
        protocol = None if protocol is None else check_protocol(protocol, where)
    # ranks without rows know what columns are missing
    empty = Ranks.from_frame(none, candidates=question.candidates, protocol=protocol, where=where)
    with said_of(where):
        if question.by:
            Groups(empty, question.by)
        units = _units(empty, question.average)
    with _reading(where, path):
        counted = None
        if _in_schema(none, (*question.by, *units), question.candidates):
            counted = _whole(frame, empty, units, question)
        counted = counted or _by_rows(frame, units, question, part.start, where)
    origin = Origin(empty.protocol, empty.ties, weighted=empty.weights is not None)
    return Tallies(question, *counted, () if protocol is None else (origin,))


@contextmanager
def _reading(where: str, path: Path) -> Iterator[None]:
    """Say of what polars cannot read, or Ranks refuse, that the file is damaged."""
    import polars as pl

    try:
        yield
    except FileNotFoundError:
        raise InputError("no such file", got=where, do="it must be seen by all that count") from None
    except InputError as error:
        text = str(error)
        raise DamagedError(text if where in text else text.replace(str(path), where)) from None
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DamagedError(str(unreadable(where, error))) from None


def _open(path: Path, part: Part) -> tuple[pl.LazyFrame, dict[str, str] | None]:
    """Look at the rows of a part; the protocol is read with the first."""
    import polars as pl

    if path.suffix.lower() in TEXT:
        table, protocol = read_table(path)
        return table.lazy(), protocol
    frame = scan(path) if part.rows is None else scan(path).slice(part.start, part.rows)
    metadata = None if part.start else pl.read_parquet_metadata(path)
    return frame, None if metadata is None else json.loads(metadata.get(METADATA, "{}"))


def _units(empty: Ranks, average: str) -> tuple[str, ...]:
    """Name the columns whose groups an average weighs alike."""
    if average == "micro":
        return ()
    empty.units(average)  # refuses what it does not know
    names = tuple(average.split(","))
    if names == ("query",) and "query" not in empty.keys:
        return ("side", "relation", GIVEN)
    return TRIPLE if names == ("triple",) and "triple" not in empty.keys else names


def _in_schema(none: pl.DataFrame, keys: Sequence[str], candidates: int | None) -> bool:
    """Whether a file has the columns of evenrank's own, of whole numbers, and keys that polars groups.

    Dates, times and the like are written by `Ranks`, and differently by polars.
    """
    import polars as pl

    named = [none.schema[name] for name in keys if name != GIVEN]
    plain = (pl.Boolean, pl.String, pl.Categorical, pl.Enum)
    if not all(kind.is_numeric() or kind in plain for kind in named):
        return False
    wanted = COUNTS if candidates is None else COUNTS[:2]
    return all(name in none.columns and none.schema[name].is_integer() for name in wanted)


def _whole(frame: pl.LazyFrame, empty: Ranks, units: Sequence[str], question: Question) -> Frames | None:
    """Count rows of the file schema; None where something looks wrong."""
    import polars as pl

    keys = list(dict.fromkeys([*question.by, *units]))
    weighted = empty.weights is not None
    weight = [pl.col("weight").cast(pl.Float64, strict=False)] if weighted else []
    schema = frame.collect_schema()
    # a cast costs a fifth of reading, even if it has nothing to do
    counts = [
        pl.col(name) if schema.get(name) == pl.Int64 else pl.col(name).cast(pl.Int64, strict=False)
        for name in COUNTS
    ]
    if question.candidates is not None:
        counts[2] = pl.lit(question.candidates, pl.Int64).alias(COUNTS[2])
    frame = frame.select(*_columns(frame, keys), *weight, *counts)
    counted = None if keys or weighted else _in_place(frame)
    # in half the memory; what does not fit is no rank, and becomes an empty cell
    narrow = frame.cast(dict.fromkeys(COUNTS, pl.Int32), strict=False)
    counted = counted or _grouped(narrow, keys, weighted)
    if counted and GIVEN in keys and not counted[0]["side"].is_in(["head", "tail"]).all():
        return None
    return counted


def _columns(frame: pl.LazyFrame, keys: Sequence[str]) -> list[pl.Expr]:
    """Give keys as `Ranks` has them: numbers as they are, everything else as text."""
    import polars as pl

    schema = frame.collect_schema()

    def key(name: str) -> pl.Expr:
        if schema[name].is_float():
            return pl.col(name).fill_nan(None)  # as one: both are NaN in `Ranks`
        kept = schema[name].is_numeric() or schema[name] == pl.Boolean
        return pl.col(name) if kept else pl.col(name).cast(pl.String).fill_null("")

    def given() -> pl.Expr:
        return pl.when(pl.col("side") == "tail").then(key("head")).otherwise(key("tail")).alias(GIVEN)

    return [given() if name == GIVEN else key(name) for name in keys]


def _in_place(frame: pl.LazyFrame) -> Frames | None:
    """Count into two tables, a place for each number; None where there is no place for one.

    Rows that tie are few, as a rule: all are counted as untied, then those that are not move over.
    """
    ranks, sizes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    ties: list[tuple[Ints, Ints]] = []
    for batch in frame.collect_batches(maintain_order=False):
        if not len(batch):
            continue
        better, equal, candidates = (batch[name].to_numpy() for name in COUNTS)
        rows = np.flatnonzero(equal != 0)  # of booleans it takes half the time
        most, tied = int(candidates.max()), (better[rows], equal[rows])
        if (
            any(batch.null_count().row(0))
            or most > DENSE
            or better.min() < 0
            or (better >= candidates).any()
            or len(rows) > len(batch) // 2
            or not _fit(*tied, candidates[rows])
        ):
            return None
        ranks, sizes = _room(ranks, most), _room(sizes, most)
        np.add.at(ranks, better, 1)
        np.add.at(sizes, candidates, 1)
        ties.append(tied)
    columns = [np.concatenate(column) for column in zip(*ties, strict=True)] or [ranks[:0]] * 2
    apart = Histogram.of(better=columns[0], equal=columns[1])
    np.subtract.at(ranks, apart["better"], apart.counts)
    (untied,), (present,) = np.nonzero(ranks), np.nonzero(sizes)
    better = np.concatenate([untied, apart["better"]])
    equal = np.concatenate([np.zeros_like(untied), apart["equal"]])
    return (
        _histogram(better=better, equal=equal, count=np.concatenate([ranks[untied], apart.counts])),
        _histogram(candidates=present, count=sizes[present]),
    )


def _fit(better: Ints, equal: Ints, candidates: Ints) -> bool:
    """Whether tied ranks can be so; a sum that overflows is not asked for."""
    return bool(((equal > 0) & (equal < candidates - better)).all())


def _room(table: Ints, most: int) -> Ints:
    """Give a table that has a place for every number up to `most`."""
    more = most + 1 - len(table)
    # by half more than needed, so that a file whose numbers grow is not copied at every batch
    return table if more <= 0 else np.concatenate([table, np.zeros(more + most // 2, dtype=np.int64)])


def _histogram(*, count: Ints, **columns: Ints) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({**columns, COUNT: count})


def _grouped(frame: pl.LazyFrame, keys: Sequence[str], weighted: bool) -> Frames | None:
    """Have polars group the rows; None where something looks wrong."""
    import polars as pl

    weight = ["weight"] if weighted else []
    many, worst = pl.len().cast(pl.Int64).alias(COUNT), pl.col("better") + pl.col("equal")
    ranks, sizes = pl.collect_all(
        [
            frame.group_by(*keys, "better", "equal", *weight).agg(many),
            frame.group_by(*keys, "candidates", *weight).agg(many, worst.max().alias(WORST)),
        ],
        engine="streaming",
    )
    return (ranks, sizes.drop(WORST)) if _plausible(weighed(ranks), sizes) else None


def _plausible(ranks: pl.DataFrame, sizes: pl.DataFrame) -> bool:
    """Whether ranks can be so: no empty cell, nothing below its least, above its most or not finite."""
    import polars as pl

    if any(ranks[name].null_count() for name in RANKS) or sizes["candidates"].null_count():
        return False
    candidates, weight = pl.col("candidates"), pl.col("weight")
    wrong = [
        ranks.select((pl.col("better", "equal") < 0) | (pl.col("better", "equal") > LARGEST)),
        ranks.select(~weight.is_finite() | (weight < 0)),
        sizes.select((candidates < 1) | (candidates > LARGEST) | (pl.col(WORST) >= candidates)),
    ]
    return not any(column.any() for frame in wrong for column in frame)


def _by_rows(
    frame: pl.LazyFrame, units: Sequence[str], question: Question, start: int, where: str
) -> Frames:
    """Count rows that are not in the file schema, or that are wrong, which is then said of the row."""
    keys = list(dict.fromkeys([*question.by, *units]))
    counted = [Tallies(question)]
    for at in itertools.count(0, SLICE):
        rows = frame.slice(at, SLICE).collect()
        if at and not len(rows):
            break
        with said_of(where, start + at):
            # a file may weigh nothing for a while, ranks may not
            nothing = "weight" in rows.columns and not numbers(rows, "weight").any()
            rows = rows.drop("weight") if nothing else rows
            ranks = Ranks.from_frame(rows, candidates=question.candidates, where=where)
            if units:
                ranks.units(question.average)
        table = ranks.to_polars().lazy()
        if not ranks.has_candidates:
            table = table.with_columns(candidates=pl.lit(0, pl.Int64))
        if nothing:
            table = table.with_columns(weight=pl.lit(0.0))
        table = table.select(*_columns(table, keys), "^(better|equal|candidates|weight)$")
        frames = _grouped(table, keys, nothing or ranks.weights is not None)
        assert frames is not None  # Ranks checked them
        counted = [merged([*counted, Tallies(question, *frames)])]
    assert counted[0].ranks is not None
    assert counted[0].sizes is not None
    return counted[0].ranks, counted[0].sizes
