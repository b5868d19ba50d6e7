"""What damaged files say, found without evenrank: a result must not say anything else."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np


def objection(folder: Path, case: Any, result: Any) -> str | None:
    """Say why a result is wrong; None if it is right, or cannot be judged."""
    for name in case.mutated:
        path = folder / name.partition("#")[0]
        raw = path.read_bytes()
        if zipfile.is_zipfile(path) and path.suffix in (".npz", ".pt", ".pkl"):
            bad = _bad_member(path)
            if bad:
                return f"{name}: the checksum of {bad} is wrong"
        if raw.startswith(b"\x1f\x8b"):
            try:
                gzip.decompress(raw)
            except Exception as error:
                return f"{name}: {error}"
    [first] = [*case.mutated, None][:1]
    path = folder / str(first).partition("#")[0]
    if case.command[0] == "evaluate":
        return _ranks(path, result, weighted="--by" not in case.command)
    return None


def _bad_member(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            if not any(one.CRC for one in archive.infolist()):
                return None  # written without checksums
            return archive.testzip()
    except Exception as error:
        return str(error)


def _ranks(path: Path, result: Any, *, weighted: bool) -> str | None:
    """Compare the mean rank with that of the table, read by other libraries."""
    if not weighted:
        return None
    try:
        table = _table(path)
    except Exception as error:
        if path.suffix == ".parquet":  # damage that polars passes over, and another library does not
            return None
        return f"another library cannot read it: {error}"
    columns = [name for name in ("better", "optimistic", "rank") if name in table]
    if "better" in columns and "equal" in table:
        mean = table["better"] + table["equal"] / 2 + 1
    elif "optimistic" in table and "pessimistic" in table:
        mean = (table["optimistic"] + table["pessimistic"]) / 2
    else:
        mean = table["rank"]
    weights = table.get("weight", np.ones(len(mean)))
    wanted = float((mean * weights).sum() / weights.sum())
    rows = result["rows"] if isinstance(result, dict) and "rows" in result else [result]
    found = _mean_rank(rows)
    if found is None or not np.isclose(found, wanted, rtol=1e-9):
        return f"the mean rank is {wanted}, not {found}"
    return None


def _mean_rank(rows: Any) -> float | None:
    for row in rows:
        if isinstance(row, dict):
            for name in ("mr", "values"):
                value = row.get(name)
                if isinstance(value, dict):
                    value = value.get("mr")
                if isinstance(value, int | float):
                    return float(value)
            if row.get("metric") == "mr" and isinstance(row.get("value"), int | float):
                return float(row["value"])
    return None


def _table(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        frame = pq.read_table(path)
        columns = {name: frame[name].to_pylist() for name in frame.column_names}
    else:
        text = path.read_bytes().decode("utf-8-sig")
        text = text if "\n" in text else text.replace("\r", "\n")
        first, _, rest = text.partition("\n")
        text = rest if first.startswith("# evenrank ") else text
        # as a spreadsheet does: the separator that there is most of in the header
        delimiter = max(",\t; ", key=text.partition("\n")[0].count)
        header, *lines = [
            line for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if line
        ]
        header = ["".join(filter(str.isalpha, name.lower())) for name in header]
        if any(len(line) != len(header) for line in lines):
            raise ValueError("lines of different lengths")
        columns = {name: [line[i] for line in lines] for i, name in enumerate(header)}
    wanted = ("better", "equal", "rank", "optimistic", "pessimistic", "weight")
    return {
        name: np.array([float(cell) for cell in column])
        for name, column in columns.items()
        if name in wanted
    }
