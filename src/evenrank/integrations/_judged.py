"""Rankings from scored lists of documents and judgements of documents: files, tables or mappings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints, nan_error
from evenrank.errors import InputError, Option
from evenrank.integrations._lines import blocks
from evenrank.integrations._together import Groups, Unretrieved, described, place_unlisted
from evenrank.integrations.listed import WORDS
from evenrank.ranks.lists import offsets
from evenrank.ranks.rankings import Rankings

if TYPE_CHECKING:
    import polars as pl

ListTies = Literal["expected", "trec_eval", "trec_eval_10"]
Queries = Literal["run", "judged"]

RUN = "query Q0 document rank score tag"
JUDGEMENTS = "query 0 document relevance"
FIELD, GAP = r"([^ \t\r\v\f]+)", r"[ \t\r\v\f]+"
SKIPPED = FIELD.strip("()")
PATTERNS = {  # of a line; after the tag of a run, anything may follow, as in trec_eval
    RUN: rf"^[ \t]*{FIELD}{GAP}{SKIPPED}{GAP}{FIELD}{GAP}{SKIPPED}{GAP}{FIELD}{GAP}{FIELD}",
    JUDGEMENTS: rf"^[ \t]*{FIELD}{GAP}{SKIPPED}{GAP}{FIELD}{GAP}{FIELD}[ \t\r\v\f]*$",
}
NAMES = {
    "query": ("query", "query_id", "qid", "q_id", "user", "user_id", "userID"),
    "document": ("document", "doc_id", "docno", "docid", "item", "item_id", "itemID"),
    "score": ("score", "prediction"),
    "relevance": ("relevance", "label", "rating", "gain"),
}


@dataclass(frozen=True)
class Lines:
    """A column of queries, of documents and of numbers, and the place of each row."""

    frame: pl.DataFrame  # query, document, number, line
    where: Callable[[int], str]  # the place of a line
    name: str
    tag: str | None = None

    def place(self, row: int) -> str:
        """Return the place of a row of the table."""
        return self.where(int(self.frame["line"][row]))


def read(given: Any, kind: Literal["score", "relevance"]) -> Lines:
    """Read a run (scores) or judgements (relevance) from a file, a table or a mapping of mappings."""
    import polars as pl

    if isinstance(given, str | os.PathLike):
        return _file(given, RUN if kind == "score" else JUDGEMENTS)
    name = "run" if kind == "score" else "judgements"
    if isinstance(given, Mapping) and all(isinstance(one, Mapping) for one in given.values()):
        pairs = [(str(q), str(d), n) for q, each in given.items() for d, n in each.items()]
        columns: list[Any] = [list(column) for column in zip(*pairs, strict=True)] or [[], [], []]
    else:
        columns = [_column(given, one, name) for one in ("query", "document", kind)]
    try:
        frame = pl.DataFrame(
            {
                "query": pl.Series(columns[0], strict=False).cast(pl.String),
                "document": pl.Series(columns[1], strict=False).cast(pl.String),
                "number": pl.Series(columns[2], strict=False),
            }
        )
        numbers = frame["number"].cast(pl.Float64)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise InputError(
            f"{name}: {kind}s must be numbers",
            got=repr(columns[2])[:60],
            do="pass a number for each document",
        ) from None
    frame = frame.with_columns(numbers.alias("number"), pl.int_range(pl.len()).alias("line"))
    read = Lines(frame, lambda line: f"{name}, row {line}", name)
    return _checked(read, kind)


def _column(given: Any, wanted: str, name: str) -> Any:
    """Return a column of a table, under one of its usual names."""
    try:
        have = list(given.keys() if isinstance(given, Mapping) else given.columns)
        found = [one for one in NAMES[wanted] if one in have]
        column = given[found[0]] if found else None
        column = getattr(column, "to_list", lambda: column)()
    except (AttributeError, TypeError):
        raise InputError(
            f"{name} must be a file, a table or a mapping of mappings",
            got=type(given).__name__,
            allowed="a path, columns query, document and a number, or {query: {document: number}}",
        ) from None
    if column is None:
        raise InputError(
            f"{name}: no column {wanted}",
            got=f"columns {', '.join(map(str, have))}",
            allowed=", ".join(NAMES[wanted]),
        )
    return column


def _file(path: str | os.PathLike[str], line: str) -> Lines:
    """Read a file in the format of TREC; fields are separated by blanks, and `#` begins a comment."""
    import polars as pl

    parts, tag = [], None
    names = ["query", "document", "text", "tag"][: 4 if line == RUN else 3]
    for first, texts in blocks(path):
        table = pl.DataFrame({"text": texts}).with_columns(
            pl.int_range(first, first + pl.len()).alias("line"),
            pl.col("text").str.extract_groups(PATTERNS[line]).struct.rename_fields(names).alias("found"),
        )
        blank = table["text"].str.contains(r"^\s*(#.*)?$")
        wrong = table["found"].struct.field("query").is_null() & ~blank
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise InputError(
                f"{path}:{first + row}: not a line in TREC format",
                got=repr(texts[row].strip()[:60]),
                allowed=line,
            )
        part = table.filter(~blank).select("line", pl.col("found").struct.unnest())
        number = part["text"].cast(pl.Float64, strict=False)
        if number.null_count():
            row = int(number.is_null().arg_true()[0])
            raise InputError(f"{path}:{part['line'][row]}: not a number", got=repr(part["text"][row]))
        if len(part) and "tag" in names:
            tag = str(part["tag"][-1])
        parts.append(part.select("query", "document", number.alias("number"), "line"))
    schema = {"query": pl.String, "document": pl.String, "number": pl.Float64, "line": pl.Int64}
    empty = pl.DataFrame(schema=schema)
    frame = pl.concat([empty, *parts], how="vertical_relaxed")
    lines = Lines(frame, lambda number: f"{path}:{number}", f"{path}", tag)
    return _checked(lines, "score" if line == RUN else "relevance")


def _checked(lines: Lines, kind: str) -> Lines:
    """Check that there are no missing or undefined numbers."""
    frame = lines.frame
    for name in ("query", "document", "number"):
        if frame[name].null_count():
            row = int(frame[name].is_null().arg_true()[0])
            raise InputError(f"{lines.place(row)}: no {name.replace('number', kind)}", do="correct it")
    bad = frame["number"].is_nan()
    if bad.any():
        row = int(bad.arg_true()[0])
        where = f"{lines.place(row)}, candidate {frame['document'][row]}"
        if kind == "score":
            raise nan_error(where, do="check the list")
        raise InputError("relevance is NaN", got=where, do="correct the judgements")
    return lines


@dataclass(frozen=True)
class Rules:
    """How lists become rankings: see `evenrank.integrations.trec.rankings`."""

    candidates: int | None
    ties: ListTies
    unretrieved: Unretrieved
    queries: Queries
    relevant: float
    by_score: bool = True
    lenient: bool = False

    @property
    def order(self) -> str:
        """How documents are ordered, in words."""
        if not self.by_score or self.ties == "expected":
            return WORDS["scores" if self.by_score else "listed"]
        digits = "single" if self.ties == "trec_eval" else "double"
        return f"by score in {digits} precision, equal ones by name descending (trec_eval)"


def rankings(run: Lines, judged: Lines, rules: Rules, protocol: Mapping[str, Any]) -> Rankings:
    """Rank the relevant documents of each query in its list of documents."""
    import polars as pl

    answers, names = _answers(judged, rules)
    left_out: dict[str, int] = {}
    listed = run.frame.join(names, on="query", how="left", maintain_order="left")
    unknown = listed["number_of_query"].is_null()
    if unknown.any():
        left_out["queries of the run that are not judged"] = listed.filter(unknown)["query"].n_unique()
        listed = listed.filter(~unknown)
    if not len(listed):
        raise _nothing_shared(run, judged)
    listed, repeated = _distinct(listed, run, rules)
    if repeated:
        left_out["repeated documents"] = repeated
    before, tied = _positions(listed, rules)
    positions = listed.select("number_of_query", "document").with_columns(
        pl.Series("better", before), pl.Series("equal", tied)
    )
    owner = listed["number_of_query"].to_numpy().astype(np.int64)
    length = np.bincount(owner, minlength=len(names))
    kept = np.ones(len(names), dtype=bool)
    if rules.queries == "run":
        kept = length > 0
        if not kept.all():
            left_out["judged queries that are not in the run"] = int((~kept).sum())
    elif not (length > 0).all():
        why = {"tied": "may rank anywhere", "never": "count as never retrieved"}[rules.unretrieved]
        warnings.warn(
            f"{(length == 0).sum():,} judged queries are not in the run: their answers {why}",
            stacklevel=4,
        )
    for what, number in left_out.items():
        warnings.warn(f"{number:,} {what}: left out", stacklevel=4)
    found = answers.join(
        positions, on=["number_of_query", "document"], how="left", maintain_order="left"
    )
    of = found["number_of_query"].to_numpy().astype(np.int64)
    rows = kept[of]
    number = (np.cumsum(kept) - 1)[of[rows]]
    better = found["better"].fill_null(-1).to_numpy()[rows]
    equal = found["equal"].fill_null(0).to_numpy()[rows]
    topics = names["query"].to_numpy()[kept].astype(object)
    many = None if rules.candidates is None else np.full(len(topics), rules.candidates)
    placed = place_unlisted(number, better, equal, length[kept], many, rules.unretrieved, topics)
    return Rankings.flat(
        offsets(np.bincount(number, minlength=len(topics))),
        *placed,
        many,
        found["number"].to_numpy()[rows],
        found["document"].to_numpy()[rows].astype(object),
        None,
        {"query": topics},
        {**protocol, "scores": described(rules.order, better < 0, rules.unretrieved)},
    )


def _answers(judged: Lines, rules: Rules) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the relevant documents by query, and the queries, in the order of the judgements."""
    import polars as pl

    frame = judged.frame
    again = ~frame.select(pl.struct("query", "document").is_first_distinct()).to_series()
    if again.any():
        row = int(again.arg_true()[0])
        raise InputError(
            f"{judged.place(row)}: a document is judged twice",
            got=f"{frame['document'][row]} for query {frame['query'][row]}",
            do="keep one of the judgements",
        )
    names = frame.select(pl.col("query").unique(maintain_order=True)).with_row_index("number_of_query")
    answers = frame.filter(pl.col("number") >= rules.relevant)
    if not len(answers):
        raise InputError(f"{judged.name}: no document is judged {rules.relevant:g} or more")
    answers = answers.join(names, on="query", how="left", maintain_order="left")
    return answers.sort("number_of_query", maintain_order=True), names


def _nothing_shared(run: Lines, judged: Lines) -> InputError:
    def some(lines: Lines) -> str:
        return ", ".join(lines.frame["query"].unique(maintain_order=True)[:3].to_list()) or "none"

    return InputError(
        "the run and the judgements share no query",
        got=f"queries {some(run)} in {run.name}, and {some(judged)} in {judged.name}",
        do="check that both are for the same queries",
    )


def _distinct(listed: pl.DataFrame, run: Lines, rules: Rules) -> tuple[pl.DataFrame, int]:
    """Check that no document is listed twice; if lenient, keep its better place."""
    import polars as pl

    pair = ["number_of_query", "document"]
    again = ~listed.select(pl.struct(pair).is_first_distinct()).to_series()
    if not again.any():
        return listed, 0
    if not rules.lenient:
        row = int(again.arg_true()[0])
        raise InputError(
            f"{run.where(int(listed['line'][row]))}: a document is listed twice",
            got=f"{listed['document'][row]} for query {listed['query'][row]}",
            do=["correct the run, or use the better place with ", Option("lenient", True)],
        )
    if rules.by_score:
        listed = listed.sort("number", descending=True, maintain_order=True)
    return listed.unique(pair, keep="first", maintain_order=True), int(again.sum())


def _positions(listed: pl.DataFrame, rules: Rules) -> tuple[Ints, Ints]:
    """Count better and equal documents of the list, for each of its documents."""
    owner = listed["number_of_query"].to_numpy().astype(np.int64)
    score: NDArray[Any] = listed["number"].to_numpy()
    if not rules.by_score:
        score = -listed["line"].to_numpy().astype(float)
    elif rules.ties == "trec_eval":
        with np.errstate(over="ignore"):
            score = score.astype(np.float32)
    groups = Groups.of(owner, score)
    if rules.ties == "expected" or not rules.by_score:
        return groups.counts()
    group = np.repeat(np.arange(len(groups.size)), groups.size)
    tied = np.flatnonzero(groups.size[group] > 1)
    order = groups.order.copy()
    order[tied] = _by_name(listed, order[tied], group[tied])
    return groups.numbered(order)


def _by_name(listed: pl.DataFrame, rows: Ints, group: Ints) -> Ints:
    """Sort rows of each group by document, descending in the order of bytes, as strcmp compares."""
    import polars as pl

    table = pl.DataFrame({"group": group, "row": rows, "document": listed["document"][rows]})
    ordered = table.sort("group", "document", descending=[False, True])
    return ordered["row"].to_numpy()
