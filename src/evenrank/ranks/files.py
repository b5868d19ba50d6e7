"""Reading and writing of files of ranks: Parquet or CSV tables with a protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns, reading
from evenrank._internal.names import meanings
from evenrank.errors import InputError
from evenrank.ranks.text import read_text

if TYPE_CHECKING:
    import polars as pl

Frame = TypeVar("Frame", "pl.DataFrame", "pl.LazyFrame")
METADATA = "evenrank"
ROWS, QUERIES = "rows", "queries"  # by which text files of rankings say that they are none of ranks
FORMATS = "it may be damaged, truncated or of another format than .parquet, .csv and .tsv"
WIDE = ("Int128", "UInt128")  # types of polars that NumPy lacks
# bytes that a row takes beside its columns while it is checked, joined, resampled: measured, 80 at most
EXTRA = 80
STREAM = "er.stream and evenrank evaluate, without --interval, read files of any size"
REMEMBERED = 4  # different columns of one name
SHARED = "evenrank.shared_triples"  # known triples that queries share (`evenrank.ranks.dependence`)


def of_rankings(schema: Mapping[str, Any], protocol: Mapping[str, Any] | None = None) -> bool:
    """Whether a table is of rankings: lists of answers in each row, or a protocol that says so.

    Parameters
    ----------
    schema : mapping of str to polars.DataType
        The columns.
    protocol : mapping, optional
        What the file says of itself.

    Returns
    -------
    bool
        Whether rows, or the rows of each query together, are queries with several answers.
    """
    import polars as pl

    return isinstance(schema.get("better"), pl.List) or (protocol or {}).get(ROWS) == QUERIES


def not_ranks(path: str | os.PathLike[str]) -> InputError:
    """Build the error for a file of rankings where ranks are required.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    InputError
        The error.
    """
    return InputError(
        "a file of rankings of queries with several answers, not of ranks of single targets",
        got=os.fspath(path),
        do="er.Rankings.load reads it; in Python, rankings.ranks() ranks each answer by itself",
    )


def says_rankings(path: Path) -> bool:
    """Whether a file says that it is of rankings, without reading more than its schema or first line.

    Parameters
    ----------
    path : Path
        The file; what cannot be read says nothing.

    Returns
    -------
    bool
        Whether it is.
    """
    import polars as pl

    try:
        if path.suffix.lower() not in columns.TEXT:
            return of_rankings(pl.read_parquet_schema(path))
        with path.open("rb") as file:
            mark, said = file.readline(2**20).decode("utf-8-sig").split(f"# {METADATA} ", 1)
        return not mark and of_rankings({}, read_protocol(said, path))
    except (OSError, ValueError, InputError, pl.exceptions.PolarsError):
        return False  # which reading it in full explains


def read_table(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """Read a Parquet or CSV file and its protocol; cells of a CSV file stay text."""
    import polars as pl

    if path.is_dir():
        raise InputError(
            "a folder is not a file of ranks",
            got=str(path),
            do=f"pass a file, or read all with er.stream('{path}')",
        )
    if path.suffix.lower() in columns.TEXT:
        frame, protocol = read_text(reading.content(path), path, METADATA, FORMATS)
        with columns.errors_name_file(str(path)):
            for column in frame:  # an empty text is written as ""
                _check_null(column, f"empty cell in column {column.name}, or a line cut short")
        return frame, read_protocol(protocol, path)
    check_kind(path)
    frame = reading.read_parquet(path, path, extra=EXTRA, do=FORMATS, instead=STREAM)
    with reading.translated(path, do=FORMATS):
        stated = pl.read_parquet_metadata(path).get(METADATA, "{}")
    return frame, read_protocol(stated, path)


def check_kind(path: Path) -> None:
    """Check that a file is Parquet by its name, or by its first bytes if it has another name."""
    reading.check_regular(path)
    if path.suffix.lower() == ".parquet":
        return
    with reading.translated(path, do=FORMATS), path.open("rb") as file:
        if file.read(4) != b"PAR1":
            raise InputError("not a file of ranks", got=str(path), allowed=".parquet, .csv, .tsv")


def as_polars(table: Any, what: str, convert: str) -> pl.DataFrame:
    """Convert a table of any library, or a mapping; the method `convert` reads a pandas column."""
    import polars as pl

    if isinstance(table, pl.DataFrame):
        return table
    # column by column, because polars requires pyarrow to convert a pandas frame
    content = (
        {str(name): getattr(table[name], convert)() for name in table.columns}
        if type(table).__module__.startswith("pandas") and getattr(table, "ndim", 0) == 2
        else table
    )
    try:
        return pl.DataFrame(content, strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise InputError(
            f"not a table of {what}",
            got=type(table).__name__,
            do="pass a polars, pandas or Arrow table, or columns of one length",
        ) from None


def with_our_names(frame: Frame, *given: str) -> Frame:
    """Rename the columns of a table whose names mean those of ranks; `given` are not missing."""
    import polars as pl

    def are_numbers(name: str) -> bool:
        kind = frame.collect_schema()[name]
        if kind != pl.String:
            return kind.is_numeric()
        cells = frame.lazy().select(pl.col(name).str.strip_chars().cast(pl.Float64, strict=False))
        return bool(cells.select((pl.len() > 0) & pl.first().is_not_null().all()).collect().item())

    named = meanings(frame.collect_schema().names(), are_numbers, given)
    return frame.rename(named) if named else frame


def read_shared_triples(path: Path) -> str | None:
    """Read what a Parquet file of ranks says of the triples that its queries share."""
    import polars as pl

    return None if path.suffix.lower() in columns.TEXT else pl.read_parquet_metadata(path).get(SHARED)


def read_protocol(text: str | bytes, path: str | Path) -> dict[str, Any]:
    """Read the protocol of a file: a JSON object of texts."""
    protocol = reading.parse_json(text, f"the protocol in {path}")
    if not isinstance(protocol, dict):
        raise InputError(f"the protocol in {path} must be a JSON object", got=type(protocol).__name__)
    for name, value in protocol.items():
        if isinstance(value, dict | list):
            raise InputError(f"{path}: {name} of the protocol must be a text", got=json.dumps(value))
    return protocol


def numbers(frame: pl.DataFrame, name: str) -> NDArray[Any]:
    """Return a column of numbers; other text and empty cells raise an error."""
    import polars as pl

    column = frame[name]
    _check_null(column, f"empty cell in column {name}")
    if column.dtype == pl.String:
        column = column.cast(pl.Float64, strict=False)
        _check_null(column, f"a cell that is not a number in column {name}", frame[name])
    elif not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise InputError(f"column {name} must be numbers", got=f"type {column.dtype}")
    elif str(column.dtype) in WIDE:
        column = column.cast(pl.Int64, strict=False)
        _check_null(column, f"a number of more than 64 bits in column {name}", frame[name])
    elif column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    return np.asarray(column.to_numpy())


def key_array(column: pl.Series) -> NDArray[Any]:
    """Return a key column; whole numbers become text if there are empty cells."""
    import polars as pl

    kind = column.dtype
    if kind in (pl.Struct, pl.Array, pl.Object):
        raise InputError(f"key {column.name} must be texts or numbers", got=f"type {kind}")
    as_text = str(kind) in WIDE or (kind.is_integer() and column.null_count())
    return np.asarray((column.cast(pl.String) if as_text else column).to_numpy())


class KeyColumns:
    """Key columns of tables, of which equal ones are converted once.

    Files of several models on one data set have the same keys, and most of the time that reading them
    takes goes to their texts.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[pl.Series, NDArray[Any]]]] = {}

    def array(self, column: pl.Series) -> NDArray[Any]:
        """Convert a column, and check it as a key of ranks; an equal one before it is returned again."""
        known = self._known.setdefault(column.name, [])
        for before, array in known:
            if before.dtype == column.dtype and before.equals(column):
                return array
        array = columns.key(column.name, key_array(column), len(column))
        known.append((column, array))
        del known[:-REMEMBERED]
        return array


def _check_null(column: pl.Series, what: str, written: pl.Series | None = None) -> None:
    """Raise an error that names the first empty row, and the text it was read from."""
    if column.null_count():
        row = int(column.is_null().arg_true()[0])
        raise columns.RowError(what, row, got="" if written is None else repr(written[row]))
