"""Reading and writing of files of ranks: Parquet or CSV tables with a protocol."""

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
    """Read a Parquet or CSV file and its protocol; cells of a CSV file stay text."""
    import polars as pl

    if path.is_dir():
        raise InputError(
            "a folder is not a file of ranks",
            got=str(path),
            do=f"pass a file, or read all with er.stream('{path}')",
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
    if kind in columns.TEXT:  # an empty text is written as ""
        with columns.errors_name_file(str(path)):
            for column in frame:
                _check_null(column, f"empty cell in column {column.name}, or a line cut short")
    return frame, check_protocol(protocol, path)


def unreadable(path: str | Path, error: BaseException) -> InputError:
    """Build the error for a file that cannot be read."""
    return InputError(
        f"cannot read {path}",
        got=str(error).splitlines()[0],
        do="it may be damaged, truncated or of another format than .parquet, .csv and .tsv",
    )


def check_protocol(protocol: Any, path: str | Path) -> dict[str, str]:
    """Check that the protocol of a file is a JSON object."""
    if not isinstance(protocol, dict):
        raise InputError(f"the protocol in {path} must be a JSON object", got=type(protocol).__name__)
    return protocol


def numbers(frame: pl.DataFrame, name: str) -> NDArray[Any]:
    """Return a column of numbers; other text and empty cells raise an error."""
    import polars as pl

    column = frame[name]
    _check_null(column, f"empty cell in column {name}")
    if column.dtype == pl.String:
        column = column.cast(pl.Float64, strict=False)
        _check_null(column, f"a cell that is not a number in column {name}", frame[name])
    return np.asarray(column.to_numpy())


def key_array(column: pl.Series) -> NDArray[Any]:
    """Return a key column; whole numbers become text if there are empty cells."""
    import polars as pl

    as_text = column.dtype.is_integer() and column.null_count()
    return np.asarray((column.cast(pl.String) if as_text else column).to_numpy())


def _check_null(column: pl.Series, what: str, written: pl.Series | None = None) -> None:
    """Raise an error that names the first empty row, and the text it was read from."""
    if column.null_count():
        row = int(column.is_null().arg_true()[0])
        raise columns.RowError(what, row, got="" if written is None else repr(written[row]))
