"""The files of the record of published results: reading, checking, building, and adding rows.

`record.parquet` has the rows of the package; `record.csv` in the user's data folder has the user's own,
in the same columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.resources import as_file, files
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from evenrank._internal.files import changing, replacing, user_file
from evenrank._internal.reading import read_parquet
from evenrank._internal.table import as_csv
from evenrank.errors import InputError, UnknownMetricError
from evenrank.graphs import atlas, registry
from evenrank.published._models import model_name
from evenrank.published._read import located, table_of
from evenrank.published._record import Chances, Recorded
from evenrank.published._value import PublishedValue, adjustable, decide_percent

FILE = "record.parquet"
FOLDER = "EVENRANK_RECORD"
OWN_FILE = "record.csv"
DERIVED = ("link", *(field.name for field in fields(Chances)))  # of exports, computed again when read
NEEDED = ("data", "model", "metric", "source")
FILTERS = ("all", "none", "train, valid", "unknown")
UNSEEN = ("keep", "drop", "unknown")
ORIGINS = ("own", "computed", "copied", "quoted")
CANDIDATES = re.compile(r"all|sampled|[1-9]\d* sampled|top [1-9]\d*")

# spellings of columns and of words in files that others wrote
COLUMNS = {
    "as_printed": "printed",
    "side": "sides",
    "filtered": "filter",
    "where_found": "where",
    "own_or_quoted": "origin",
}
WORDS = {
    "filter": {
        "filtered": "all",
        "raw": "none",
        "filtered (train, valid)": "train, valid",
        "filtered?": "unknown",
        "": "all",
    },
    "ties": {"realistic (PyKEEN)": "realistic", "": "unknown"},
    "unseen": {"": "unknown"},
    "candidates": {"": "all"},
    "split": {"": "test"},
    "sides": {"": "both"},
    "origin": {
        "own (PyKEEN team)": "own",
        "computed from published ranks": "computed",
        "copied by PyKEEN from the paper": "copied",
        "quoted from the paper, protocol not stated": "quoted",
        "quoted from papers": "quoted",
        "": "own",
    },
}
# filters that say how candidates were chosen as well
CHOSEN = {
    "filtered, 500 sampled negatives a side": ("all", "500 sampled"),
    "filtered, 50 sampled negatives": ("all", "50 sampled"),
    "filtered, top-100 lists": ("all", "top 100"),
    "filtered, all entities, tails only, top-10 lists": ("all", "top 10"),
    "sampled candidates (DGL-KE script)": ("unknown", "sampled"),
}


@cache
def bundled() -> tuple[Recorded, ...]:
    """Read the record of the package."""
    with as_file(files("evenrank.published") / FILE) as path:
        return tuple(Recorded(**row) for row in read_parquet(path, path).iter_rows(named=True))


def own_rows() -> tuple[Recorded, ...]:
    """Read the user's own record; its runs are numbered after those of the package."""
    path = own_file()
    if not path.exists():
        return ()
    start = max(one.run for one in bundled()) + 1
    return tuple(replace(one, run=one.run + start) for one in read(path))


def own_file() -> Path:
    """Return the path of the user's own record: in EVENRANK_RECORD, else in the user's data folder.

    Returns
    -------
    Path
        The file, which may not exist.
    """
    return user_file(FOLDER, OWN_FILE)


# Reading ------------------------------------------------------------------------------------------


def is_record(columns: Iterable[str]) -> bool:
    """Check whether a table has columns that only the record has."""
    own = {"printed", "candidates", "origin", *COLUMNS}
    return bool(own & {column.strip().lower() for column in columns})


def read(
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]], *, sourced: bool = True
) -> list[Recorded]:
    """Read and check rows in the columns of the record.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        A CSV file, or rows in memory. Needed are data, model, metric, source, and printed or value.
        Other columns have defaults: the test split, both sides, filtered, all entities, an own result.
    sourced : bool, default True
        Whether every row must name its source.

    Returns
    -------
    list of Recorded
        The rows; models and data sets in the spelling of the record.

    Raises
    ------
    InputError
        If a row is incomplete or has an unknown value; the message names the line. Unknown metrics are
        listed once each.

    Examples
    --------
    >>> row = {"data": "WN18RR", "model": "complex n3", "metric": "MRR", "printed": "47,8 %"}
    >>> one, = read([row | {"source": "me"}])
    >>> one.data, one.model, one.metric, one.printed, one.percent, one.value
    ('wn18rr', 'ComplEx-N3', 'mrr', '47,8', True, 0.478)
    """
    name, columns, rows = table_of(source)
    folded = [COLUMNS.get(column.strip().lower(), column.strip().lower()) for column in columns]
    with located(name):
        for needed in NEEDED if sourced else NEEDED[:-1]:
            if needed not in folded:
                got = ", ".join(columns) or "nothing"
                raise InputError(f"no column {needed}", got=got, allowed=", ".join(_names()))
        if "printed" not in folded and "value" not in folded:
            raise InputError(
                "no column printed", got=", ".join(columns), do="add it: the value as printed"
            )
        odd = next((c for c in folded if c not in (*_names(), "value", *DERIVED)), None)
        if odd is not None:
            raise InputError("unknown column", got=repr(odd), allowed=", ".join(_names()))
    cells = [
        (where, {fold: str(row[column]) for fold, column in zip(folded, columns, strict=True)})
        for where, row in rows
    ]
    _check_metrics(name, [row["metric"] for _, row in cells])
    made = []
    for where, row in cells:
        with located(where):
            made.append(_recorded(row, NEEDED if sourced else NEEDED[:-1]))
    units = _units(cells, made)
    return _numbered([replace(one, percent=unit) for one, unit in zip(made, units, strict=True)])


def _names() -> list[str]:
    return [field.name for field in fields(Recorded)]


def _check_metrics(name: str, metrics: Iterable[str]) -> None:
    """List the metrics that are unknown, once each."""
    unknown = []
    for metric in dict.fromkeys(metrics):
        try:
            adjustable(metric)
        except UnknownMetricError as error:
            unknown.append(metric)
            alone = error
    if len(unknown) == 1:
        raise alone.at(name)
    if unknown:
        raise UnknownMetricError(
            f"{name}: unknown metrics", got=", ".join(unknown), do="see `evenrank evaluate --list`"
        )


def _recorded(row: Mapping[str, str], needed: Sequence[str]) -> Recorded:
    """Check one row."""
    words = {"note": "", "where": "", "year": "", "called": "", "variant": "", "run": "0"} | dict(row)
    words |= {name: words.get(name, "") for name in WORDS}
    words.setdefault("source", "")
    for name in needed:
        if not words[name]:
            raise InputError(f"no {name}", do="fill in the cell, or delete the line")
    filter_, chosen = CHOSEN.get(words["filter"], (words["filter"], words["candidates"]))
    words |= {"filter": filter_, "candidates": chosen}
    for name, known in WORDS.items():
        words[name] = known.get(words[name], words[name])
    _check_word("sides", words["sides"], get_args(atlas.Sides))
    _check_word("filter", words["filter"], FILTERS)
    _check_word("unseen", words["unseen"], UNSEEN)
    _check_word("origin", words["origin"], ORIGINS)
    if not CANDIDATES.fullmatch(words["candidates"]):
        allowed = "all, sampled, '50 sampled', 'top 10'"
        raise InputError("unknown candidates", got=repr(words["candidates"]), allowed=allowed)
    year = words["year"]
    if year and not (year.isdecimal() and 1900 <= int(year) <= 2100):
        raise InputError("a year must have four digits", got=repr(year))
    printed = words.get("printed") or words.get("value", "")
    if not printed:
        raise InputError("no value", do="fill in the cell, or delete the line")
    given = PublishedValue.of(words["metric"], printed)
    if not isfinite(given.value):
        raise InputError("a value must be finite", got=str(given))
    model, variant = model_name(words["model"])
    return Recorded(
        data=data_name(words["data"]),
        model=model,
        variant=words["variant"] or variant,
        metric=str(given.expression),
        printed=printed.rstrip(" %"),
        percent=given.percent,
        split=words["split"],
        sides=words["sides"],
        filter=words["filter"],
        candidates=words["candidates"],
        ties=words["ties"],
        unseen=words["unseen"],
        source=words["source"],
        year=int(year) if year else None,
        where=words["where"],
        origin=words["origin"],
        run=0,
        note=words["note"],
        called=words["called"] or words["model"],
    )


def _check_word(name: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise InputError(f"unknown value in column {name}", got=repr(word), allowed=", ".join(known))


def _units(cells: Sequence[tuple[str, Mapping[str, str]]], made: Sequence[Recorded]) -> list[bool]:
    """Decide which values are in percent: as the file says, as its column value shows, or by detection.

    The values of one source have one unit for each kind of metric.
    """
    units: dict[int, bool] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for i, ((where, row), one) in enumerate(zip(cells, made, strict=True)):
        said = row.get("percent", "").lower()
        if said:
            with located(where):
                _check_word("percent", said, ("true", "false"))
            units[i] = said == "true"
        elif one.percent:
            units[i] = True
        elif row.get("printed") and row.get("value"):
            with located(where):
                units[i] = _in_percent(one.given, PublishedValue.of(one.metric, row["value"]))
        else:
            groups.setdefault((one.source, one.where), []).append(i)
    for group in groups.values():
        named = [f"{made[i].given} ({cells[i][0]})" for i in group]
        read = decide_percent([made[i].given for i in group], named, None)
        units |= {i: given.percent for i, given in zip(group, read, strict=True)}
    return [units[i] for i in range(len(made))]


def _in_percent(printed: PublishedValue, value: PublishedValue) -> bool:
    """Compare a printed value with the number beside it."""
    for percent in (False, True):
        if abs(replace(printed, percent=percent).fraction - value.fraction) <= 1e-9:
            return percent
    raise InputError("printed and value differ", got=f"{printed.value:g} and {value.value:g}")


def _numbered(rows: Iterable[Recorded]) -> list[Recorded]:
    """Number the evaluations: a metric that occurs again begins another one."""
    latest: dict[tuple[Any, ...], tuple[int, set[str]]] = {}
    made, following = [], 0
    for one in rows:
        about = (one.name, *one.protocol, one.ties, one.source, one.where, one.note, one.called)
        run, metrics = latest.get(about, (-1, set[str]()))
        if run < 0 or one.metric in metrics:
            run, metrics, following = following, set[str](), following + 1
        latest[about] = (run, {*metrics, one.metric})
        made.append(replace(one, run=run))
    return made


def data_name(name: str) -> str:
    """Find the name of a data set in the list of benchmarks or the atlas.

    Parameters
    ----------
    name : str
        A name in any usual spelling; an unknown one is kept.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> data_name("FB15k-237"), data_name("my graph")
    ('fb15k237', 'my graph')
    """
    entry = registry.lookup(name)
    if entry is not None:
        return entry.name
    known = {registry.key(one): one for one in atlas.names()}
    return known.get(registry.key(name), name)


# Writing ------------------------------------------------------------------------------------------


def build(source: str | os.PathLike[str] | Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write the record of the package.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        Rows, as `read` takes them.
    path : Path
        The Parquet file.

    Returns
    -------
    int
        The number of rows.
    """
    import polars as pl

    rows = read(source)
    schema = {"percent": pl.Boolean, "year": pl.Int16, "run": pl.Int32}
    columns = {name: [getattr(one, name) for one in rows] for name in _names()}
    typed = {name: schema.get(name, pl.String) for name in columns}
    with replacing(path) as file:
        pl.DataFrame(columns, schema=typed).write_parquet(file, compression="zstd", compression_level=19)
    return len(rows)


def add(source: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> Path:
    """Add rows to your own record, which `results` reads beside that of the package.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        Rows, as `read` takes them. All are checked before any is written.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If a row is invalid or already there, or the file cannot be written.
    """
    new, path = read(source), own_file()
    with changing(path, FOLDER):
        kept = read(path) if path.exists() else []
        there = {replace(one, run=0) for one in kept}
        again = next((one for one in new if replace(one, run=0) in there), None)
        if again is not None:
            got = f"{again.metric}={again.printed} of {again.name} on {again.data}, {again.source}"
            raise InputError("your record has this row already", got=got, do="remove it from the file")
        with replacing(path) as file:
            file.write_text(as_csv([_plain(one) for one in (*kept, *new)]) + "\n", encoding="utf-8")
    return path


def _plain(one: Recorded) -> dict[str, Any]:
    """Write a row as text; runs are numbered again when it is read."""
    row = {name: getattr(one, name) for name in _names() if name != "run"}
    return row | {"percent": str(one.percent).lower(), "year": "" if one.year is None else one.year}
