"""Read tables of published results: a CSV file, rows in memory, or a bundled table.

There are two layouts: model, data, metric, value; or model, data, and a column for each metric.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from evenrank._internal.files import as_path, expanded
from evenrank._internal.reading import content
from evenrank.errors import EvenrankError, InputError, NullDistributionError, UnknownMetricError
from evenrank.graphs import Graph
from evenrank.graphs.atlas import Filter
from evenrank.metrics.adjusted import Expression
from evenrank.published._setting import Setting
from evenrank.published._value import PublishedValue, adjustable

NEEDED, ASKED = ("model", "data"), ("split", "sides", "filter", "unseen")
LONG, OPTIONAL = (*NEEDED, "metric", "value"), (*ASKED, "source")
MISSING = ("", "-", "–", "—")


class Line(NamedTuple):
    """One value of a table of results, and its place in the file."""

    where: str
    model: str
    setting: Setting
    given: PublishedValue
    source: str
    stated: frozenset[str] = frozenset()  # what of the setting the line itself states


class Unknown(NamedTuple):
    """Names in a table that are not known, once each."""

    data: dict[str, None]
    metrics: dict[str, None]

    def check(self, name: str) -> None:
        """Raise an error that lists them, if there are several; for one, its line has an error."""
        if self.data and self.metrics:
            what = f"{name}: unknown data sets and metrics"
            raise InputError(
                what,
                got=", ".join((*self.data, *self.metrics)),
                do="see `evenrank atlas list` and `evenrank evaluate --list`",
            )
        if len(self.data) > 1:
            what = f"{name}: the atlas has no such data sets"
            raise InputError(what, got=", ".join(self.data), do="see `evenrank atlas list`")
        if len(self.metrics) > 1:
            what = f"{name}: unknown metrics"
            raise UnknownMetricError(
                what, got=", ".join(self.metrics), do="see `evenrank evaluate --list`"
            )


def lines(source: Any, default: Setting, skipped: Unknown | None = None) -> Iterator[Line]:
    """Read each value of a table of results, in either layout.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        What `evenrank.published.adjust_table` takes.
    default : Setting
        The evaluation setting, where a row does not state it.
    skipped : Unknown, optional
        Where to list unknown metrics, which are left out, and unknown data sets, which are kept. Without
        it, they raise an error that lists all of them once.

    Yields
    ------
    Line
        A value, and its place in the table.
    """
    name, columns, rows = table_of(source)
    find = cache(Setting.of)
    with located(name):
        wide = _wide(columns, skipped)
        if not rows:
            raise InputError("no results", got="a header without rows")
    unknown = _unknown(rows, default, find, wide, tolerant=skipped is not None)
    if skipped is None:
        unknown.check(name)
    else:
        skipped.data.update(unknown.data)
        skipped.metrics.update(unknown.metrics)
    for where, row in rows:
        with located(where):
            for column in NEEDED:
                if row[column] == "":
                    raise InputError(f"no {column}", do="fill in the cell, or delete the line")
            asked = {name: row[name] for name in ASKED if row.get(name)}
            if "filter" in asked:
                asked["filter"] = _filter(asked["filter"])
            stated = frozenset(asked)
            asked_for = default._replace(data=row["data"], **asked)
            known = skipped is None or row["data"] not in skipped.data
            setting = find(*asked_for) if known else asked_for
            values = [(column, row[column]) for column in wide if row[column] not in MISSING]
            if not wide and row["value"] not in MISSING:
                values = [(row["metric"], row["value"])]
            if not values:
                raise InputError("no result in this line", do="fill in a cell, or delete the line")
            for metric, value in values:
                if skipped is not None and metric in skipped.metrics:
                    continue
                given = PublishedValue.of(wide.get(metric, metric), value)
                yield Line(where, row["model"], setting, given, row.get("source", ""), stated)


def _filter(word: str) -> Filter:
    if word not in ("all", "none"):
        raise InputError("unknown filter", got=repr(word), allowed="all, or none for raw")
    return "all" if word == "all" else None


Rows = list[tuple[str, dict[str, Any]]]  # the place of each row, and its cells by column


def _unknown(
    rows: Rows,
    default: Setting,
    find: Callable[..., Setting],
    wide: Mapping[str, Expression],
    *,
    tolerant: bool,
) -> Unknown:
    """Find the data sets and metrics of a table that are not known; or not adjustable, if tolerant."""
    unknown = Unknown({}, {})
    for data in dict.fromkeys(row["data"] for _, row in rows if isinstance(row["data"], str)):
        try:
            if data:
                find(*default._replace(data=data))
        except InputError:
            unknown.data[data] = None
    for metric in dict.fromkeys(row["metric"] for _, row in rows if not wide):
        try:
            known = not metric or _metric(metric) is not None
        except NullDistributionError:  # its line has an error that says why
            known = not tolerant
        if not known:
            unknown.metrics[metric] = None
    return unknown


def table_of(source: Any) -> tuple[str, list[str], Rows]:
    """Get the name, the columns and the rows of a table."""
    if isinstance(source, str | os.PathLike):
        return _file(source)
    if not isinstance(source, Iterable):
        got = type(source).__name__
        raise InputError("not a table of results", got=got, allowed="a CSV file, or rows as mappings")
    return _memory(list(source))


def _memory(rows: list[Any]) -> tuple[str, list[str], Rows]:
    odd = [row for row in rows if not isinstance(row, Mapping)]
    if odd:
        raise InputError(
            "rows of results must be mappings", got=type(odd[0]).__name__, do="pass dictionaries"
        )
    cells = [{_fold(str(name)): _text(value) for name, value in row.items()} for row in rows]
    columns = list(dict.fromkeys(column for row in cells for column in row))
    blank = dict.fromkeys(columns, "")
    return "rows", columns, [(f"row {i}", blank | row) for i, row in enumerate(cells)]


def _file(source: str | os.PathLike[str]) -> tuple[str, list[str], Rows]:
    text = _read(source)
    header_line = next(filter(str.strip, text.splitlines()), "")
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=max(",;\t", key=header_line.count),
        skipinitialspace=True,
        strict=True,
    )
    filled = _filled(reader, str(source))
    start, header = next(filled, (str(source), []))
    columns = [_fold(column) for column in header]
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise InputError(f"{start}: the same column twice", got=repr(twice))
    rows: Rows = []
    for where, cells in filled:
        if len(cells) != len(columns):
            raise InputError(f"{where}: {len(cells)} cells", allowed=f"{len(columns)}, as in the header")
        rows.append((where, dict(zip(columns, map(_text, cells), strict=True))))
    return start, columns, rows


def _filled(reader: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the nonblank lines of a CSV file, with file name and line number."""
    while True:
        try:
            line = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{name}:{reader.line_num}: invalid CSV", got=str(error)) from None
        if line is None:
            return
        if any(map(str.strip, line)):
            yield f"{name}:{reader.line_num}", line


def _read(source: str | os.PathLike[str]) -> str:
    folder = files("evenrank.published") / "data"
    path = expanded(as_path(source))
    bundled = sorted(file.name.removesuffix(".csv") for file in folder.iterdir() if ".csv" in file.name)
    file = folder / f"{source}.csv" if str(source) in bundled and not path.exists() else path
    if isinstance(file, Path) and not file.exists():
        allowed = f"a CSV file, or {', '.join(bundled)}"
        raise InputError("no such file of results", got=str(source), allowed=allowed)
    try:
        raw = content(file, pipe=True) if isinstance(file, Path) else file.read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"cannot read {source}", got="bytes that are not UTF-8", do="save it as CSV in UTF-8"
        ) from None


def _fold(column: str) -> str:
    plain = column.strip()
    return plain.lower() if plain.lower() in (*LONG, *OPTIONAL) else plain


def _text(value: Any) -> Any:
    """Convert a cell to one line of text, NaN to none.

    Graphs stay as they are, and whole floats lose their `.0`.
    """
    if isinstance(value, Graph):
        return value
    if isinstance(value, float) and isnan(value):  # pandas writes missing values like this
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return "" if value is None else " ".join(str(value).split())


def _wide(columns: Collection[str], skipped: Unknown | None = None) -> dict[str, Expression]:
    """Find the columns that are metrics; none, if each row names its metric.

    With `skipped`, columns that are no metrics are listed there.
    """
    long = "metric" in columns or "value" in columns
    lacking = [column for column in (LONG if long else NEEDED) if column not in columns]
    others = [column for column in columns if column not in (*LONG, *OPTIONAL)]
    allowed = f"{', '.join(LONG)}[, {', '.join(OPTIONAL)}], or metrics instead of metric and value"
    if lacking or not (long or others):
        missing = ", ".join(lacking) or "metric"
        names = {column.lower(): column for column in others}
        near = get_close_matches(missing, names, 1)
        do = f"rename {names[near[0]]} to {missing}" if near else None
        got = ", ".join(columns) or "nothing"
        raise InputError(f"no column {missing}", got=got, allowed=allowed, do=do)
    metrics: dict[str, Expression] = {}
    for column in others:
        try:
            metric = None if long else _metric(column)
        except NullDistributionError:
            if skipped is None:
                raise
            metric = None
        if metric is None and skipped is not None:
            skipped.metrics[column] = None
            continue
        if metric is None:
            near = get_close_matches(column.lower(), [*LONG, *OPTIONAL, "mrr", "hits@10"], 1)
            do = f"did you mean {near[0]}?" if near else None
            raise InputError("unknown column", got=repr(column), allowed=allowed, do=do)
        metrics[column] = metric
    return metrics


def _metric(column: str) -> Expression | None:
    try:
        return adjustable(column)
    except UnknownMetricError:
        return None


@contextmanager
def located(where: str) -> Iterator[None]:
    """Prefix the messages of errors with their place in the table."""
    try:
        yield
    except EvenrankError as error:
        raise error.at(where) from None
