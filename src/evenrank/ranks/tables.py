"""Rankings as tables: with a row per query, whose answers are lists, or with a row per answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.ranks.files import as_polars, key_array, numbers, of_rankings
from evenrank.ranks.lists import offsets

if TYPE_CHECKING:
    import polars as pl

    from evenrank.ranks.rankings import Rankings

LISTS = ("better", "equal", "gain", "answer")


def columns_of(table: Any, where: str, candidates: ArrayLike | None) -> dict[str, Any]:
    """Read a table of either kind: the arguments of `Rankings.flat`."""
    import polars as pl

    frame = as_polars(table, "rankings", "to_list")
    have = frame.columns
    if not {"better", "equal"} <= set(have):
        raise InputError(
            f"{where} has no columns of rankings",
            got=f"columns {', '.join(have) or '(none)'}",
            allowed="better and equal, as lists for each query, or with the key query",
        )
    if not of_rankings(frame.schema):
        frame = _nested(frame, where)
    lists = [name for name in LISTS if name in frame.columns]
    for name in lists:
        if not isinstance(frame.schema[name], pl.List):
            raise InputError(f"{where}: column {name} must be lists", got=f"type {frame.schema[name]}")
    length = frame["better"].list.len()
    if length.null_count():
        raise InputError(f"{where}: an empty cell in column better", do="write an empty list")
    for name in lists[1:]:
        if not length.equals(frame[name].list.len()):
            raise InputError(f"{where}: the lists of a row differ in length", got=f"better and {name}")
    some = frame.filter(length > 0)
    flat = {name: some[name].explode() for name in lists}
    if candidates is None and "candidates" in frame.columns:
        candidates = numbers(frame, "candidates")
    values = {name: numbers(flat[name].to_frame(), name) for name in lists if name != "answer"}
    return {
        "first": offsets(length.to_numpy()),
        "better": values["better"],
        "equal": values["equal"],
        "candidates": candidates,
        "gains": values.get("gain"),
        "answers": key_array(flat["answer"]) if "answer" in flat else None,
        "weights": numbers(frame, "weight") if "weight" in frame.columns else None,
        "keys": {
            name: key_array(frame[name])
            for name in frame.columns
            if name not in (*LISTS, "candidates", "weight")
        },
    }


def _nested(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Gather the rows of each query, in the order of the queries."""
    import polars as pl

    if "query" not in frame.columns:
        raise InputError(
            f"{where}: rankings with a row per answer require the key query",
            got=f"columns {', '.join(frame.columns)}",
            do="name the query of each answer in a column query",
        )
    lists = [name for name in LISTS if name in frame.columns]
    others = [name for name in frame.columns if name not in (*lists, "query")]
    grouped = frame.group_by("query", maintain_order=True)
    varying = grouped.agg(pl.col(others).n_unique()).select(pl.col(others).max()) if others else None
    for name in others:
        if varying is not None and varying[name][0] > 1:
            raise InputError(f"{where}: answers of one query differ in column {name}", do="correct it")
    return grouped.agg(*(pl.col(name) for name in lists), *(pl.col(name).first() for name in others))


def by_query(rankings: Rankings) -> pl.DataFrame:
    """Return a table with a row per query."""
    import polars as pl

    known = {"candidates": rankings.candidates} if rankings.has_candidates else {}
    weight = {} if rankings.weights is None else {"weight": rankings.weights}
    columns = answer_columns(rankings)
    row = {"_row": np.arange(len(rankings))}
    frame = pl.DataFrame({**row, **rankings.keys, **known, **weight}, strict=False)
    flat = pl.DataFrame({"_row": _owner(rankings), **columns}, strict=False)
    lists = flat.group_by("_row", maintain_order=True).agg(pl.all())
    joined = frame.join(lists, on="_row", how="left", maintain_order="left")
    filled = [pl.col(name).fill_null(pl.lit([], lists.schema[name])) for name in columns]
    return joined.with_columns(filled).drop("_row")


def by_answer(rankings: Rankings) -> pl.DataFrame:
    """Return a table with a row per answer; queries without answers raise an error."""
    if (lost := int((np.diff(rankings.first) == 0).sum())) > 0:
        raise InputError(
            "text files have a row per answer, and cannot hold queries without answers",
            got=f"{lost:,} queries without answers",
            do="save as .parquet",
        )
    keys = {"query": np.arange(len(rankings))} | dict(rankings.keys)
    if "query" in rankings.keys and len(np.unique(rankings.units("query"))) < len(rankings):
        raise InputError(
            "text files have a row per answer, and cannot hold queries with the same key query",
            do="save as .parquet",
        )
    import polars as pl

    owner = _owner(rankings)
    columns_of = {name: column[owner] for name, column in keys.items()}
    if rankings.has_candidates:
        columns_of["candidates"] = rankings.candidates[owner]
    if rankings.weights is not None:
        columns_of["weight"] = rankings.weights[owner]
    return pl.DataFrame(columns_of | answer_columns(rankings), strict=False)


def answer_columns(rankings: Rankings) -> dict[str, NDArray[Any]]:
    """Return the columns with a row per answer."""
    held: dict[str, NDArray[Any]] = {"better": rankings.better, "equal": rankings.equal}
    held |= {} if rankings.gains is None else {"gain": rankings.gains}
    return held | ({} if rankings.answers is None else {"answer": rankings.answers})


def _owner(rankings: Rankings) -> Ints:
    """Return the number of the query of each answer."""
    return np.repeat(np.arange(len(rankings)), rankings.answer_counts)
