"""Files of ranks: Parquet or CSV tables with a protocol beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank.errors import InputError

if TYPE_CHECKING:
    import polars as pl

METADATA = "evenrank"


def read_table(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """Read a Parquet or CSV file and its protocol; the cells of a CSV stay text."""
    import polars as pl

    if path.is_dir():
        raise InputError(
            "a folder is no file of ranks",
            got=str(path),
            do=f"name the files in it: {path / '*.parquet'}",
        )
    mark, kind = f"# {METADATA} ", path.suffix.lower()
    try:
        if kind in columns.TEXT:
            with path.open(encoding="utf-8") as file:
                first = file.readline()
            own = first.startswith(mark)
            frame = pl.read_csv(
                path, separator="," if kind == ".csv" else "\t", skip_lines=int(own), infer_schema=False
            )
            protocol = json.loads(first.removeprefix(mark)) if own else {}
        else:
            frame = pl.read_parquet(path)
            protocol = json.loads(pl.read_parquet_metadata(path).get(METADATA, "{}"))
    except FileNotFoundError:
        raise InputError("no such file", got=str(path)) from None
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise unreadable(path, error) from None
    if kind in columns.TEXT:  # where an empty name is written as ""
        with columns.said_of(str(path)):
            for column in frame:
                _refuse_null(column, f"empty cell in column {column.name}, or a line cut short")
    return frame, check_protocol(protocol, path)


def unreadable(path: str | Path, error: BaseException) -> InputError:
    """Say of a file that it cannot be read, and why."""
    return InputError(
        f"cannot read {path}",
        got=str(error).splitlines()[0],
        do="it may be damaged, truncated or of another format (read are .parquet, .csv, .tsv)",
    )


def check_protocol(protocol: Any, path: str | Path) -> dict[str, str]:
    """Give what a file has as its protocol, if it is one."""
    if not isinstance(protocol, dict):
        raise InputError(f"the protocol in {path} must be a JSON object", got=type(protocol).__name__)
    return protocol


def numbers(frame: pl.DataFrame, name: str) -> NDArray[Any]:
    """Give a column of numbers; text that is not one, or an empty cell, is an error."""
    import polars as pl

    column = frame[name]
    _refuse_null(column, f"empty cell in column {name}")
    if column.dtype == pl.String:
        column = column.cast(pl.Float64, strict=False)
        _refuse_null(column, f"a cell that is not a number in column {name}", frame[name])
    return np.asarray(column.to_numpy())


def key_array(column: pl.Series) -> NDArray[Any]:
    """Give a key column; whole numbers become text where there are empty cells, which have no number."""
    import polars as pl

    as_text = column.dtype.is_integer() and column.null_count()
    return np.asarray((column.cast(pl.String) if as_text else column).to_numpy())


def _refuse_null(column: pl.Series, what: str, written: pl.Series | None = None) -> None:
    """Raise an error that names the first row that is empty, and what was written there."""
    if column.null_count():
        row = int(column.is_null().arg_true()[0])
        raise columns.RowError(what, row, got="" if written is None else repr(written[row]))
