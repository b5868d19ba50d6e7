"""Counts the rows of a part of a file into histograms, in one of three ways with equal results.

- Whole numbers without weights, in not too many groups, are counted in tables while polars decodes the
  next rows, nearly as fast as a file can be read.
- Other columns of the file schema are grouped by polars.
- Files of other tools (text, `rank`, `optimistic` and `pessimistic`) are converted to `Ranks`, some rows
  at a time; so are invalid files, because the errors of `Ranks` name the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from evenrank._internal.columns import COUNTS, HEAVIEST, LARGEST, TEXT, errors_name_file
from evenrank._internal.reading import check_rows, translated
from evenrank.errors import InputError, Option
from evenrank.ranks.files import (
    FORMATS,
    METADATA,
    WIDE,
    check_kind,
    numbers,
    of_rankings,
    read_protocol,
    read_table,
    with_our_names,
)
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import TRIPLE, Groups
from evenrank.ranks.streams._dense import COUNT, Dense, count_in_tables
from evenrank.ranks.streams._files import Part, cut, local, scan
from evenrank.ranks.streams._tallies import (
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

SLICE = 2**20  # rows converted to `Ranks` at a time
# additional columns, with names that no key has: the given entity of a query, the worst rank of a group
GIVEN, WORST = "entity given", "worst rank"

_grouping = Lock()  # polars groups one part at a time, which takes much memory, in all its threads


class RankingsError(InputError):
    """A file is of rankings, not of ranks."""


class DamagedError(InputError):
    """A file cannot be read, or contains invalid ranks."""


def count(part: Part, question: Question) -> Tallies:
    """Count a part of a file; damage raises an error, or is noted if the question says so."""
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
        nested = of_rankings(frame.collect_schema(), protocol)
    if nested:
        raise RankingsError(
            "a file of rankings of queries with several answers, not of ranks of single targets",
            got=where,
            do=["leave out ", Option("kind"), "; only ranks are counted on a cluster"],
        )
    with _reading(where, path):
        with errors_name_file(where):
            frame = with_our_names(frame, *["candidates"] * (question.candidates is not None))
        none = frame.head(0).collect()
    with errors_name_file(where):
        # ranks without rows check the columns
        empty = Ranks.from_named(none, where, question.candidates, protocol)
        if question.by:
            Groups(empty, question.by)
        units = _units(empty, question.average)
    with _reading(where, path):
        counted: Dense | Frames | None = None
        if _in_schema(none, (*question.by, *units), question.candidates):
            counted = _whole(frame, empty, units, question)
        if isinstance(counted, Dense):
            tallies = Tallies(question, dense=counted)
        else:
            frames = counted or _by_rows(frame, units, question, part.start, where)
            tallies = Tallies(question, *frames)
        if part.rows is not None:
            check_rows(tallies.count, part.rows)
    origin = Origin(empty.protocol, empty.ties, weighted=empty.weights is not None)
    return replace(tallies, origins=() if protocol is None else (origin,))


@contextmanager
def _reading(where: str, path: Path) -> Iterator[None]:
    """Raise `DamagedError` for files that polars cannot read, or that contain invalid ranks."""
    if not path.exists():
        raise InputError("no such file", got=where, do="all workers must be able to read it")
    try:
        with translated(where, do=FORMATS):
            yield
    except InputError as error:
        text = str(error)
        raise DamagedError(text if where in text else text.replace(str(path), where)) from None


def _open(path: Path, part: Part) -> tuple[pl.LazyFrame, dict[str, str] | None]:
    """Scan the rows of a part; read the protocol with the first part of a file."""
    import polars as pl

    if path.suffix.lower() in TEXT:
        table, protocol = read_table(path)
        return table.lazy(), protocol
    check_kind(path)
    frame = scan(path) if part.rows is None else scan(path).slice(part.start, part.rows)
    metadata = None if part.start else pl.read_parquet_metadata(path)
    return frame, None if metadata is None else read_protocol(metadata.get(METADATA, "{}"), path)


def _units(empty: Ranks, average: str) -> tuple[str, ...]:
    """Return the columns that define the groups of a macro average."""
    if average == "micro":
        return ()
    empty.units(average)  # raises for unknown keys
    names = tuple(average.split(","))
    if names == ("query",) and "query" not in empty.keys:
        return ("side", "relation", GIVEN)
    return TRIPLE if names == ("triple",) and "triple" not in empty.keys else names


def _in_schema(none: pl.DataFrame, keys: Sequence[str], candidates: int | None) -> bool:
    """Whether a file has the file schema with whole numbers, and keys that polars groups like `Ranks`.

    Dates and times, for example, are formatted differently.
    """
    import polars as pl

    named = [none.schema[name] for name in keys if name != GIVEN]
    plain = (pl.Boolean, pl.String, pl.Categorical, pl.Enum)
    if not all(kind.is_numeric() or kind in plain for kind in named):
        return False
    wanted = COUNTS if candidates is None else COUNTS[:2]
    return all(name in none.columns and none.schema[name].is_integer() for name in wanted)


def _whole(
    frame: pl.LazyFrame, empty: Ranks, units: Sequence[str], question: Question
) -> Dense | Frames | None:
    """Count rows of the file schema; None if something is invalid."""
    import polars as pl

    keys = list(dict.fromkeys([*question.by, *units]))
    weighted = empty.weights is not None
    weight = [pl.col("weight").cast(pl.Float64, strict=False)] if weighted else []
    schema = frame.collect_schema()
    # even a cast without effect takes a fifth of the time of reading
    counts = [
        pl.col(name) if schema.get(name) == pl.Int64 else pl.col(name).cast(pl.Int64, strict=False)
        for name in COUNTS
    ]
    if question.candidates is not None:
        counts[2] = pl.lit(question.candidates, pl.Int64).alias(COUNTS[2])
    frame = frame.select(*_columns(frame, keys), *weight, *counts)
    dense = None if weighted else count_in_tables(frame, keys)
    if dense is not None and question.by and not units and dense.is_worth_its_space:
        return dense
    counted = None if dense is None else dense.frames()
    # in half the memory; invalid numbers become empty cells
    narrow = frame.cast(dict.fromkeys(COUNTS, pl.Int32), strict=False)
    if not counted:
        ranks, sizes = _grouped(narrow, keys, weighted)
        counted = (ranks, sizes.drop(WORST)) if _valid(weighed(ranks), sizes) else None
    if counted and GIVEN in keys and not counted[0]["side"].is_in(["head", "tail"]).all():
        return None
    return counted


def _columns(frame: pl.LazyFrame, keys: Sequence[str]) -> list[pl.Expr]:
    """Convert keys as `Ranks` does: numbers stay numbers, everything else becomes text."""
    import polars as pl

    schema = frame.collect_schema()

    def key(name: str) -> pl.Expr:
        if schema[name].is_float():
            return pl.col(name).fill_nan(None)  # both are NaN in `Ranks`
        whole = schema[name].is_integer() and str(schema[name]) not in WIDE
        kept = whole or schema[name] == pl.Boolean
        return pl.col(name) if kept else pl.col(name).cast(pl.String).fill_null("")

    def given() -> pl.Expr:
        return pl.when(pl.col("side") == "tail").then(key("head")).otherwise(key("tail")).alias(GIVEN)

    return [given() if name == GIVEN else key(name) for name in keys]


def _grouped(frame: pl.LazyFrame, keys: Sequence[str], weighted: bool) -> Frames:
    """Group the rows by polars; note the worst rank for each number of candidates."""
    import polars as pl

    weight = ["weight"] if weighted else []
    many, worst = pl.len().cast(pl.Int64).alias(COUNT), pl.col("better") + pl.col("equal")
    with _grouping:
        ranks, sizes = pl.collect_all(
            [
                frame.group_by(*keys, "better", "equal", *weight).agg(many),
                frame.group_by(*keys, "candidates", *weight).agg(many, worst.max().alias(WORST)),
            ],
            engine="streaming",
        )
    return ranks, sizes


def _valid(ranks: pl.DataFrame, sizes: pl.DataFrame) -> bool:
    """Whether ranks are valid: no empty cells, all numbers finite and in their range."""
    import polars as pl

    if any(ranks[name].null_count() for name in RANKS) or sizes["candidates"].null_count():
        return False
    candidates, weight = pl.col("candidates"), pl.col("weight")
    wrong = [
        ranks.select((pl.col("better", "equal") < 0) | (pl.col("better", "equal") > LARGEST)),
        ranks.select(~weight.is_finite() | (weight < 0) | (weight > HEAVIEST)),
        sizes.select((candidates < 1) | (candidates > LARGEST) | (pl.col(WORST) >= candidates)),
    ]
    return not any(column.any() for frame in wrong for column in frame)


def _by_rows(
    frame: pl.LazyFrame, units: Sequence[str], question: Question, start: int, where: str
) -> Frames:
    """Count rows that are not in the file schema; invalid ones raise an error that names the row."""
    import polars as pl

    keys = list(dict.fromkeys([*question.by, *units]))
    counted = [Tallies(question)]
    for at in itertools.count(0, SLICE):
        rows = frame.slice(at, SLICE).collect()
        if at and not len(rows):
            break
        with errors_name_file(where, start + at):
            # `Ranks` need a positive weight, slices of a file do not
            weightless = "weight" in rows.columns and not numbers(rows, "weight").any()
            rows = rows.drop("weight") if weightless else rows
            ranks = Ranks.from_named(rows, where, question.candidates, None)
            if units:
                ranks.units(question.average)
        table = ranks.to_polars().lazy()
        if not ranks.has_candidates:
            table = table.with_columns(candidates=pl.lit(0, pl.Int64))
        if weightless:
            table = table.with_columns(weight=pl.lit(0.0))
        table = table.select(*_columns(table, keys), "^(better|equal|candidates|weight)$")
        frequencies, sizes = _grouped(table, keys, weightless or ranks.weights is not None)
        counted = [merged([*counted, Tallies(question, frequencies, sizes.drop(WORST))])]
    assert counted[0].ranks is not None
    assert counted[0].sizes is not None
    return counted[0].ranks, counted[0].sizes
