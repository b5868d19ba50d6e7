"""Rankings: queries with all of their answers, ranked together.

A row is a query. Its answers have three numbers each: `better`, the number of candidates with a better
score than the answer, other answers included; `equal`, the number of other candidates with the same
score; and a gain, 1 unless relevance is graded. `candidates` is the number of candidates of the query,
answers included. An answer that was not retrieved has `better` -1: it counts as an answer, but adds
nothing to any metric.

File schema: Parquet with a row per query, the integer column `candidates`, list columns `better`,
`equal`, optionally `gain` and `answer` (names), and optional float `weight`; all other columns are keys.
CSV and TSV files have a row per answer, and the key `query`. The protocol is stored as for ranks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints, nan_error, read_only
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import as_path, replacing
from evenrank._internal.table import Table
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.answers.tally import QueryTally
from evenrank.metrics.answers.values import UNRANKED, Answers, AnswerTies, check_ties, values
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import ANSWERS, ANSWERS_WIDE, Evaluation, bare, evaluate
from evenrank.ranks.files import (
    METADATA,
    QUERIES,
    ROWS,
    KeyColumns,
    key_array,
    numbers,
    of_rankings,
    read_table,
    says_rankings,
)
from evenrank.ranks.lists import offsets
from evenrank.ranks.presets import PRESETS
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks, Work, load
from evenrank.ranks.rows import PREVIEW, Rows, average_name, key_columns, one_rule

if TYPE_CHECKING:
    import polars as pl

LISTS = ("better", "equal", "gain", "answer")
Empty = Literal["skip", "zero"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Rankings(Rows):
    """Queries with all of their answers: an immutable table from which metrics are computed.

    Parameters
    ----------
    better : sequence of array_like of int
        For each query, the number of candidates with a better score than each of its answers, other
        answers included; -1 for an answer that was not retrieved.
    equal : sequence of array_like of int, or int
        The number of other candidates with the same score as each answer.
    candidates : array_like of int, optional
        The number of candidates of each query, answers included. Chance-adjusted metrics require it.
    gains : sequence of array_like of float, optional
        The gain of each answer; by default 1. Candidates of gain 0 are no answers, and are left out.
    answers : sequence of sequence of str, optional
        Names of the answers.
    weights : array_like of float, optional
        Weights of the queries; by default all weigh the same.
    keys : mapping of str to array_like, optional
        Columns that describe the queries (user, structure, ...), to group by and to join on.
    protocol : Protocol or mapping, optional
        How the rankings were computed.

    Attributes
    ----------
    first : ndarray of int
        Offsets: the answers of query `i` are ``first[i]:first[i + 1]`` of the columns.
    work : Work or None
        The cost of ranking, if `evenrank.rank` computed the rankings.

    Raises
    ------
    InputError
        If the columns are no ranking of the candidates.

    See Also
    --------
    Rankings.of : Rankings from positions.
    Rankings.from_scores : Rankings from a matrix of scores.
    Rankings.from_ranks : Rankings from ranks of single answers.
    Rankings.load : Rankings from a file.

    Examples
    --------
    >>> rankings = Rankings.of([[1, 4], [2]], candidates=[10, 8], keys={"user": ["ann", "bob"]})
    >>> rankings
    Rankings(2 queries with 3 answers; keys: user)
    >>> rankings.evaluate("map", "mrr", "recall@3").to_dict()
    {'map': 0.625, 'mrr': 0.75, 'recall@3': 0.75}
    """

    row_name = "query"

    first: Ints
    better: Ints
    equal: Ints
    gains: Floats | None
    candidates: Ints  # 0 if their number is unknown
    answers: NDArray[Any] | None
    weights: Floats | None
    keys: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    protocol: Protocol = field(default_factory=Protocol)
    work: Work | None = None

    def __init__(
        self,
        better: Sequence[ArrayLike],
        equal: Sequence[ArrayLike] | int = 0,
        candidates: ArrayLike | None = None,
        *,
        gains: Sequence[ArrayLike] | None = None,
        answers: Sequence[Sequence[str]] | None = None,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> None:
        ahead = _each("better", better)
        first = offsets([len(one) for one in ahead])
        made = type(self).flat(
            first,
            np.concatenate([[], *ahead]),
            _flat("equal", equal, first),
            candidates,
            _flat("gains", gains, first),
            _flat("answers", answers, first),
            weights,
            keys,
            protocol,
        )
        self._set(*(getattr(made, one.name) for one in fields(self)))

    @classmethod
    def flat(
        cls,
        first: ArrayLike,
        better: ArrayLike,
        equal: ArrayLike,
        candidates: ArrayLike | None = None,
        gains: ArrayLike | None = None,
        answers: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
        work: Work | None = None,
    ) -> Self:
        """Create rankings from columns with a row per answer, as arrays.

        Parameters
        ----------
        first : array_like of int
            Offsets: the answers of query `i` are ``first[i]:first[i + 1]``.
        better, equal : array_like of int
            As for `Rankings`, concatenated.
        candidates : array_like of int, optional
            As for `Rankings`.
        gains, answers : array_like, optional
            As for `Rankings`, concatenated.
        weights, keys, protocol
            As for `Rankings`.
        work : Work, optional
            The cost of ranking.

        Returns
        -------
        Rankings
            The rankings; the answers of a query are in the order of their ranks.

        Raises
        ------
        InputError
            If the columns are no ranking of the candidates.

        Examples
        --------
        >>> Rankings.flat([0, 2, 3], better=[0, 3, 1], equal=0, candidates=9)
        Rankings(2 queries with 3 answers)
        """
        start = columns.integers("first", first, 0)
        if not len(start) or start[0] or (np.diff(start) < 0).any():
            raise InputError("first must start at 0 and not fall", got=columns.described(start[:9]))
        rows, total = len(start) - 1, int(start[-1])
        ahead = columns.repeat("better", columns.integers("better", better, UNRANKED), total)
        same = columns.repeat("equal", columns.integers("equal", equal, 0), total)
        gain = None if gains is None else _gains(gains, total)
        names = None if answers is None else columns.key("answers", answers, total)
        many = np.zeros(rows, np.int64)
        if candidates is not None:
            many = columns.integers("candidates", candidates, 1)
            many = columns.repeat("candidates", many, rows)
        if gain is not None and not gain.all():
            worth = gain > 0
            start = offsets(worth)[start]
            ahead, same, gain = ahead[worth], same[worth], gain[worth]
            names = None if names is None else names[worth]
        if gain is not None and (gain == 1.0).all():
            gain = None
        given = Answers(start, ahead, same, gain, many)
        order = given.order
        if order is not None:
            given, names = given.taken(order), None if names is None else names[order]
        given.check()
        _check_names(given, names)
        weight = None if weights is None else columns.weights(weights, rows)
        described = key_columns(keys, rows), Protocol.of(protocol), work
        return cls._made(start, given.better, given.equal, given.gain, many, names, weight, *described)

    @classmethod
    def _made(cls, *held: Any) -> Self:
        made = object.__new__(cls)
        made._set(*held)
        return made

    def _set(self, *held: Any) -> None:
        """Set columns that were checked, as read-only views."""
        for one, value in zip(fields(self), held, strict=True):
            if isinstance(value, np.ndarray):
                value = read_only(value)
            elif one.name == "keys" and not isinstance(value, MappingProxyType):
                value = MappingProxyType({str(k): read_only(v) for k, v in value.items()})
            object.__setattr__(self, one.name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as read-only columns; read-only mappings cannot be pickled."""
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        return Rankings._made, (*(held | {"keys": dict(self.keys)}).values(),)

    @classmethod
    def of(
        cls,
        positions: Sequence[ArrayLike],
        candidates: ArrayLike | None = None,
        *,
        gains: Sequence[ArrayLike] | None = None,
        answers: Sequence[Sequence[str]] | None = None,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Self:
        """Create rankings from the positions of the answers of each query, without ties.

        Parameters
        ----------
        positions : sequence of array_like of int
            For each query, the positions of its answers among all candidates, from 1.
        candidates, gains, answers, weights, keys, protocol
            As for `Rankings`.

        Returns
        -------
        Rankings
            The rankings.

        Raises
        ------
        InputError
            If two answers have the same position, or a position is above the number of candidates.

        Examples
        --------
        >>> Rankings.of([[3, 1], [2]], candidates=100).evaluate("map")["map"]
        0.6666666666666666
        """
        each = [columns.integers("positions", one, 1) for one in _each("positions", positions)]
        ahead = [one - 1 for one in each]
        return cls(
            ahead,
            0,
            candidates,
            gains=gains,
            answers=answers,
            weights=weights,
            keys=keys,
            protocol=protocol,
        )

    @classmethod
    def from_scores(
        cls,
        scores: ArrayLike,
        relevant: ArrayLike,
        known: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Self:
        """Rank the relevant candidates of each row of a matrix of scores.

        Parameters
        ----------
        scores : array_like
            A row per query and a column per candidate; higher is better.
        relevant : array_like
            The gain of each candidate, or whether it is an answer; 0 and False are no answers.
        known : array_like of bool, optional
            True for candidates that are filtered, such as items seen in training; answers stay.
        weights, keys, protocol
            As for `Rankings`.

        Returns
        -------
        Rankings
            The answers of each row.

        Raises
        ------
        InputError
            If scores contain NaN, or gains are negative or NaN.

        Examples
        --------
        >>> rankings = Rankings.from_scores([[0.9, 0.5, 0.5, 0.1]], [[0, 1, 0, 1]])
        >>> rankings.better.tolist(), rankings.equal.tolist(), rankings.candidates.tolist()
        ([1, 3], [1, 0], [4])
        """
        matrix = columns.as_array("scores", scores)
        if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
            raise InputError(
                "scores must be a matrix of numbers, a row per query and a column per candidate",
                got=f"shape {matrix.shape} of {matrix.dtype}",
            )
        if np.isnan(matrix).any():
            row, column = np.argwhere(np.isnan(matrix))[0]
            raise nan_error(f"query {row}, candidate {column}")
        worth = columns.as_array("relevant", relevant)
        if worth.shape != matrix.shape or worth.dtype.kind not in "biuf":
            raise InputError(
                "relevant must have the shape of scores", got=f"{worth.shape} and {matrix.shape}"
            )
        wrong = ~np.isfinite(worth) | (worth < 0)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(
                "gains must be finite and not negative",
                got=f"{worth[row, column]} (query {row}, candidate {column})",
            )
        gain = worth.astype(float)
        there = np.ones(matrix.shape, dtype=bool)
        if known is not None:
            mask = columns.as_array("known", known)
            if mask.shape != matrix.shape or (
                mask.dtype.kind != "b" and not np.isin(mask, (0, 1)).all()
            ):
                raise InputError("known must be true or false, in the shape of scores", got=mask.shape)
            there = ~mask.astype(bool) | (gain > 0)
        query, at = np.nonzero(gain)
        better, equal = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
        for i in range(len(matrix)):
            mine = query == i if len(matrix) < 64 else slice(*np.searchsorted(query, [i, i + 1]))
            ordered = np.sort(matrix[i, there[i]])
            own = matrix[i, at[mine]]
            low, high = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
            better[mine], equal[mine] = len(ordered) - high, high - low - 1
        first = np.searchsorted(query, np.arange(len(matrix) + 1))
        return cls.flat(
            first, better, equal, there.sum(axis=1), gain[query, at], None, weights, keys, protocol
        )

    @classmethod
    def from_ranks(cls, ranks: Ranks, gains: ArrayLike | None = None) -> Self:
        """Join ranks of single answers, whose other answers were filtered, to rankings of queries.

        Parameters
        ----------
        ranks : Ranks
            Ranks with keys that identify the query of each target, each ranked without the other
            answers of its query (as in filtered ranking).
        gains : array_like of float, optional
            The gain of each target; by default 1.

        Returns
        -------
        Rankings
            A row per query. A target with fewer candidates above it than another one stands above it,
            so that the positions follow exactly; only the order of answers with nothing between them is
            unknown, which matters if they differ in gain: they are then tied.

        Raises
        ------
        InputError
            If there are no keys for queries, ranks are weighted, or answers of one query have different
            numbers of candidates.

        Examples
        --------
        >>> ranks = Ranks.of([1, 3, 2], candidates=9, keys={"query": ["a", "a", "b"]})
        >>> rankings = Rankings.from_ranks(ranks)
        >>> (rankings.better + 1).tolist(), rankings.candidates.tolist()
        ([1, 4, 2], [10, 9])
        """
        check_type(ranks, Ranks, "only ranks can be joined to rankings")
        if ranks.weights is not None:
            raise InputError("weighted ranks cannot be joined to rankings", do="use with_weights(None)")
        query = ranks.units("query")
        worth = np.ones(len(ranks)) if gains is None else _gains(gains, len(ranks))
        order = np.lexsort((ranks.equal, ranks.better, query))
        query, better, equal = query[order], ranks.better[order], ranks.equal[order]
        first = np.searchsorted(query, np.arange(int(query.max(initial=-1)) + 2))
        candidates = ranks.candidates[order][first[:-1]]
        mixed = candidates[query] != ranks.candidates[order]
        if mixed.any():
            row = int(order[np.flatnonzero(mixed)[0]])
            raise InputError(
                "answers of one query have different numbers of candidates",
                got=f"{ranks.candidates[row]:,} in row {row}",
                do='rank all answers together: er.rank(model, task, answers="together")',
            )
        # answers that share both counts, and untied ones with nothing between them, tie with each other
        # as far as ranks tell; those above have fewer others above or, with as many, no ties
        new = np.diff(query, prepend=-1) != 0
        new[1:] |= (np.diff(better) != 0) | (np.diff(equal) != 0)
        start = np.flatnonzero(new)
        size = np.diff(start, append=len(query))
        group = np.repeat(np.arange(len(start)), size)
        earlier = (start - first[query[start]])[group]
        tied = (equal > 0) | (worth.min(initial=1.0) != worth.max(initial=1.0))
        within = np.arange(len(query)) - start[group]
        ahead = better + earlier + np.where(tied, 0, within)
        same = equal + np.where(tied, size[group] - 1, 0)
        many = None if not ranks.has_candidates else candidates + np.diff(first) - 1
        answers = first[:-1]
        names = ranks.keys.get("answer")
        keys = {
            name: column[order][answers]
            for name, column in ranks.keys.items()
            if name != "answer" and _constant(column[order], first)
        }
        return cls.flat(
            first,
            ahead,
            same,
            many,
            worth[order],
            None if names is None else names[order],
            None,
            keys,
            ranks.protocol,
        )

    # Files and frames --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        candidates: ArrayLike | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
        where: str = "table",
    ) -> Self:
        """Create rankings from a table with a row per query, or a row per answer.

        Parameters
        ----------
        frame : polars.DataFrame, pandas.DataFrame, pyarrow.Table or mapping
            With a row per query, `better` and `equal` are lists; with a row per answer, the key `query`
            names its query. Columns are named as in files of rankings.
        candidates : array_like of int, optional
            Numbers of candidates, for tables without them: one number, or one per query.
        protocol : Protocol or mapping, optional
            How the rankings were computed.
        where : str
            What error messages call the table.

        Returns
        -------
        Rankings
            The rankings.

        Raises
        ------
        InputError
            If the columns are not those of rankings.

        Examples
        --------
        >>> table = {"query": ["a", "a", "b"], "better": [0, 3, 1], "equal": [0, 0, 0]}
        >>> Rankings.from_frame(table, candidates=9)
        Rankings(2 queries with 3 answers; keys: query)
        """
        import polars as pl

        if not isinstance(frame, pl.DataFrame):
            content = (
                {str(name): frame[name].to_list() for name in frame.columns}
                if type(frame).__module__.startswith("pandas") and getattr(frame, "ndim", 0) == 2
                else frame
            )
            try:
                frame = pl.DataFrame(content, strict=False)
            except (TypeError, ValueError, pl.exceptions.PolarsError):
                raise InputError(
                    "not a table of rankings",
                    got=type(frame).__name__,
                    do="pass a polars, pandas or Arrow table, or columns of one length",
                ) from None
        have = frame.columns
        if not {"better", "equal"} <= set(have):
            raise InputError(
                f"{where} has no columns of rankings",
                got=f"columns {', '.join(have) or '(none)'}",
                allowed="better and equal, as lists for each query, or with the key query",
            )
        if not of_rankings(frame.schema):
            frame = _nested(frame, where)
        return cls._from_nested(frame, where, candidates, protocol)

    @classmethod
    def _from_nested(
        cls,
        frame: pl.DataFrame,
        where: str,
        candidates: ArrayLike | None,
        protocol: Protocol | Mapping[str, Any] | None,
    ) -> Self:
        """Create rankings from a table whose columns `better` and `equal` are lists."""
        import polars as pl

        lists = [name for name in LISTS if name in frame.columns]
        for name in lists:
            if not isinstance(frame.schema[name], pl.List):
                raise InputError(
                    f"{where}: column {name} must be lists", got=f"type {frame.schema[name]}"
                )
        length = frame["better"].list.len()
        if length.null_count():
            raise InputError(f"{where}: an empty cell in column better", do="write an empty list")
        for name in lists[1:]:
            if not length.equals(frame[name].list.len()):
                raise InputError(
                    f"{where}: the lists of a row differ in length", got=f"better and {name}"
                )
        some = frame.filter(length > 0)
        flat = {name: some[name].explode() for name in lists}
        if candidates is None and "candidates" in frame.columns:
            candidates = numbers(frame, "candidates")
        values = {name: numbers(flat[name].to_frame(), name) for name in lists if name != "answer"}
        return cls.flat(
            offsets(length.to_numpy()),
            values["better"],
            values["equal"],
            candidates,
            values.get("gain"),
            key_array(flat["answer"]) if "answer" in flat else None,
            numbers(frame, "weight") if "weight" in frame.columns else None,
            {
                name: key_array(frame[name])
                for name in frame.columns
                if name not in (*LISTS, "candidates", "weight")
            },
            protocol,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, candidates: ArrayLike | None = None) -> Self:
        """Read rankings from a Parquet or CSV file.

        Parameters
        ----------
        path : str or PathLike
            A Parquet file with a row per query, or a table with a row per answer and the key `query`.
        candidates : array_like of int, optional
            Numbers of candidates, for files without them.

        Returns
        -------
        Rankings
            The rankings, with the protocol of the file.

        Raises
        ------
        InputError
            If the file cannot be read or is no file of rankings.
        """
        path = as_path(path)
        return cls.read(*read_table(path), str(path), candidates)

    @classmethod
    def read(
        cls,
        frame: pl.DataFrame,
        protocol: Mapping[str, Any] | None,
        where: str,
        candidates: ArrayLike | None = None,
    ) -> Self:
        """Create rankings from the table and the protocol of a file.

        Parameters
        ----------
        frame : polars.DataFrame
            The table.
        protocol : mapping or None
            What the file says of itself.
        where : str
            The name of the file, for error messages.
        candidates : array_like of int, optional
            Numbers of candidates, for files without them.

        Returns
        -------
        Rankings
            The rankings.
        """
        known = {name: entry for name, entry in (protocol or {}).items() if name != ROWS}
        with columns.errors_name_file(where):
            return cls.from_frame(frame, candidates=candidates, protocol=known, where=where)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rankings and their protocol to a file, atomically.

        Parameters
        ----------
        path : str or PathLike
            The file; names that end in .csv and .tsv are written as text, with a row per answer, all
            others as Parquet with a row per query.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        path = as_path(path)
        kind = path.suffix
        entries = self.protocol.to_dict()
        protocol = json.dumps(entries, ensure_ascii=False)
        with replacing(path) as file:
            if kind in (".csv", ".tsv"):
                protocol = json.dumps({**entries, ROWS: QUERIES}, ensure_ascii=False)
                body = self._long().write_csv(separator="\t" if kind == ".tsv" else ",")
                file.write_text(f"# {METADATA} {protocol}\n{body}", encoding="utf-8")
            else:
                self.to_polars().write_parquet(file, metadata={METADATA: protocol})

    def _long(self) -> pl.DataFrame:
        """Return a table with a row per answer; queries without answers are lost."""
        if (lost := int((np.diff(self.first) == 0).sum())) > 0:
            raise InputError(
                "text files have a row per answer, and cannot hold queries without answers",
                got=f"{lost:,} queries without answers",
                do="save as .parquet",
            )
        keys = {"query": np.arange(len(self))} | dict(self.keys)
        if "query" in self.keys and len(np.unique(self.units("query"))) < len(self):
            raise InputError(
                "text files have a row per answer, and cannot hold queries with the same key query",
                do="save as .parquet",
            )
        import polars as pl

        owner = self._answers.owner
        columns_of = {name: column[owner] for name, column in keys.items()}
        if self.has_candidates:
            columns_of["candidates"] = self.candidates[owner]
        if self.weights is not None:
            columns_of["weight"] = self.weights[owner]
        return pl.DataFrame(columns_of | self._by_answer, strict=False)

    @property
    def _by_answer(self) -> dict[str, NDArray[Any]]:
        """The columns with a row per answer."""
        held: dict[str, NDArray[Any]] = {"better": self.better, "equal": self.equal}
        held |= {} if self.gains is None else {"gain": self.gains}
        return held | ({} if self.answers is None else {"answer": self.answers})

    def _columns(self) -> dict[str, NDArray[Any]]:
        known = {"candidates": self.candidates} if self.has_candidates else {}
        weight = {} if self.weights is None else {"weight": self.weights}
        lists = {}
        for name, column in self._by_answer.items():
            parts = np.split(column, self.first[1:-1])
            lists[name] = np.array([*parts, None], dtype=object)[:-1]
        return {**self.keys, **known, **lists, **weight}

    def to_polars(self) -> pl.DataFrame:
        """Convert to a polars data frame with a row per query.

        Returns
        -------
        polars.DataFrame
            `better`, `equal`, `gain` and `answer` are columns of lists.
        """
        import polars as pl

        known = {"candidates": self.candidates} if self.has_candidates else {}
        weight = {} if self.weights is None else {"weight": self.weights}
        row = {"_row": np.arange(len(self))}
        frame = pl.DataFrame({**row, **self.keys, **known, **weight}, strict=False)
        flat = pl.DataFrame({"_row": self._answers.owner, **self._by_answer}, strict=False)
        lists = flat.group_by("_row", maintain_order=True).agg(pl.all())
        joined = frame.join(lists, on="_row", how="left", maintain_order="left")
        filled = [pl.col(name).fill_null(pl.lit([], lists.schema[name])) for name in self._by_answer]
        return joined.with_columns(filled).drop("_row")

    # Rows, copies and results ----------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.first) - 1

    def __repr__(self) -> str:
        """Summarise the rankings in one line."""
        queries = f"{len(self):,} {'query' if len(self) == 1 else 'queries'}"
        about = [f"{queries} with {len(self.better):,} answer{'s' * (len(self.better) != 1)}"]
        about += [f"keys: {', '.join(self.keys)}"] * bool(self.keys)
        about += ["graded"] * (self.gains is not None)
        about += ["weighted"] * (self.weights is not None)
        about += ["candidates unknown"] * (not self.has_candidates)
        about += [str(self.protocol)] * (self.protocol != Protocol())
        return f"Rankings({'; '.join(about)})"

    def _repr_html_(self) -> str:
        """Show the first queries as an HTML table, in notebooks."""
        shown = {name: column[:PREVIEW].tolist() for name, column in self.keys.items()}
        if self.has_candidates:
            shown["candidates"] = self.candidates[:PREVIEW].tolist()
        some = self._answers.select(np.arange(min(PREVIEW, len(self))))
        rank = [
            "–" if b < 0 else f"{b + 1 + e / 2:.1f}".removesuffix(".0")
            for b, e in zip(some.better.tolist(), some.equal.tolist(), strict=True)
        ]
        shown["ranks of answers"] = [
            ", ".join([*rank[i:j][:PREVIEW], *["..."] * (j - i > PREVIEW)])
            for i, j in pairwise(some.first.tolist())
        ]
        rows = [[str(value) for value in row] for row in zip(*shown.values(), strict=True)]
        more = [f"{len(self) - PREVIEW:,} more queries"] * (len(self) > PREVIEW)
        return Table([*shown], rows, [*more, self.protocol.note()], labels=len(self.keys)).html()

    def _select(self, rows: slice | NDArray[Any]) -> Self:
        at = np.arange(len(self))[rows]
        part = self._answers.select(at)
        names = self.answers
        if names is not None:
            count = part.count
            names = names[
                np.arange(len(part.better)) + np.repeat(self.first[at] - part.first[:-1], count)
            ]
        return self._made(
            part.first,
            part.better,
            part.equal,
            part.gain,
            part.candidates,
            names,
            None if self.weights is None else self.weights[at],
            {name: column[at] for name, column in self.keys.items()},
            self.protocol,
            None,
        )

    def _with(self, **changed: Any) -> Self:
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        return self._made(*(held | changed).values())

    def with_keys(self, keys: Mapping[str, ArrayLike] | None = None, /, **more: ArrayLike) -> Self:
        """Return the same rankings with key columns added or replaced.

        Parameters
        ----------
        keys : mapping of str to array_like, optional
            Columns with a value per query; a single value is repeated.
        **more : array_like
            Further columns.

        Returns
        -------
        Rankings
            New rankings, which share the other columns.
        """
        new = key_columns({**columns.mapping("keys", keys), **more}, len(self))
        return self._with(keys={**self.keys, **new})

    def with_targets_of(self, other: Rankings) -> Rankings:
        """Return the same rankings with the keys of rankings of the same queries, in the same order.

        Parameters
        ----------
        other : Rankings
            Rankings of the same queries.

        Returns
        -------
        Rankings
            New rankings, which share the keys of the others, and their weights if they are equal.
        """
        if len(self) != len(other):
            got = f"{len(self):,} and {len(other):,}"
            raise InputError("rankings of the same queries have equally many rows", got=got)
        mine, theirs = self.weights, other.weights
        alike = (theirs is None) if mine is None else theirs is not None and np.array_equal(mine, theirs)
        made = self._with(keys=other.keys, weights=theirs if alike else mine)
        vars(made)["_numbered"] = other._numbered
        return made

    def __add__(self, other: Rankings) -> Rankings:
        """Concatenate the queries of both, which must have the same keys; keep the common protocol."""
        check_type(other, Rankings, "only rankings can be added to rankings")
        if self.keys.keys() != other.keys.keys():
            raise InputError(
                "rankings with different keys cannot be concatenated",
                got=f"{', '.join(self.keys)} and {', '.join(other.keys)}",
            )
        if self.has_candidates != other.has_candidates:
            raise InputError("only one of these rankings has numbers of candidates")

        def both(a: Any, b: Any, fill: Any) -> Any:
            if a is None and b is None:
                return None
            parts = (fill(one) if column is None else column for one, column in ((self, a), (other, b)))
            return np.concatenate([*parts])

        def ones(one: Rankings) -> Floats:
            return np.ones(len(one.better))

        names = None
        if self.answers is not None and other.answers is not None:
            names = np.concatenate([self.answers, other.answers])
        return self._made(
            np.concatenate([self.first, self.first[-1] + other.first[1:]]),
            np.concatenate([self.better, other.better]),
            np.concatenate([self.equal, other.equal]),
            both(self.gains, other.gains, ones),
            np.concatenate([self.candidates, other.candidates]),
            names,
            both(self.weights, other.weights, lambda one: np.ones(len(one))),
            {name: np.concatenate([column, other.keys[name]]) for name, column in self.keys.items()},
            self.protocol & other.protocol,
            None,
        )

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.first, self.better, self.equal, self.gains, self.candidates)

    @property
    def has_candidates(self) -> bool:
        """Whether the number of candidates is known."""
        return not len(self) or bool(self.candidates[0])

    @property
    def ties(self) -> Ties:
        """The default tie-breaking rule, "expected"."""
        preset = PRESETS.get(self.protocol.preset or "")
        given = preset.ties if preset else "expected"
        return given if given in ("optimistic", "pessimistic") else "expected"

    def _query(self) -> tuple[Ints, list[NDArray[Any]]]:
        rows = np.arange(len(self))
        return rows, [rows]

    def values(self, metric: str | Expression, ties: AnswerTies | None = None) -> Floats:
        """Compute the value of a metric for each query.

        Parameters
        ----------
        metric : str or Metric
            A metric without adjustment.
        ties : {"expected", "optimistic", "pessimistic"}, optional
            The tie-breaking rule.

        Returns
        -------
        ndarray of float
            A value per query; NaN for queries without answers.

        Examples
        --------
        >>> Rankings.of([[1, 4], [2]], candidates=9).values("map").tolist()
        [0.75, 0.5]
        """
        return values(_unadjusted(metric), self._answers, self._rule(ties))

    def _rule(self, ties: str | None) -> AnswerTies:
        rule = self.ties if ties is None else ties
        check_ties(rule)
        return rule  # type: ignore[return-value]  # checked

    @property
    def answer_counts(self) -> Ints:
        """The number of answers of each query."""
        return np.diff(self.first)

    def weights_of_answered(self, average: str | Sequence[str] = "micro") -> Floats | None:
        """Compute the weights of queries under an average over those with answers.

        Parameters
        ----------
        average : str or sequence of str
            As for `evaluate`.

        Returns
        -------
        ndarray of float or None
            A weight per query, 0 for queries without answers; None if all weigh the same.
        """
        some = self.answer_counts > 0
        if some.all():
            return self.weights_by(average)
        found = np.zeros(len(self))
        weights = self[some].weights_by(average)
        found[some] = 1.0 if weights is None else weights
        return found

    def tally(
        self, *metrics: Metrics, average: str | Sequence[str] = "micro", empty: Empty = "skip"
    ) -> QueryTally:
        """Add up metrics over queries.

        Parameters
        ----------
        *metrics : str or Metric, or list of them
            Metrics without adjustment.
        average : str or sequence of str
            As for `evaluate`.
        empty : {"skip", "zero"}
            Whether queries without answers have a share in the weight of their group.

        Returns
        -------
        QueryTally
            Exact sums, which add up over disjoint sets of queries.
        """
        wanted = [_unadjusted(metric) for metric in listed(metrics)]
        weights = self.weights_by(average)
        if empty == "skip" and weights is not None:
            answered = self.weights_of_answered(average)
            assert answered is not None
            weights = np.where(self.answer_counts > 0, answered, weights)
        return QueryTally.of(wanted, self._answers, weights)

    def shapes(self, average: str | Sequence[str] = "micro") -> Shapes:
        """Count the queries by number of candidates, number of answers and gains.

        Parameters
        ----------
        average : str or sequence of str
            As for `evaluate`.

        Returns
        -------
        Shapes
            What null distributions depend on; queries without answers are left out.
        """
        return self.tally(average=average).shapes

    def mean_of(self, metric: QueryMetric, ties: str = "expected") -> float:
        """Compute the mean of a metric over the queries with answers.

        Parameters
        ----------
        metric : QueryMetric
            The metric.
        ties : str
            The tie-breaking rule.

        Returns
        -------
        float
            The mean.
        """
        return self.tally(metric).value(metric, self._rule(ties))

    def ranks(self) -> Ranks:
        """Rank each answer by itself, without the other answers of its query.

        Returns
        -------
        Ranks
            A row per answer, with the key `query` and, if known, `answer`. Answers that were not
            retrieved are left out. There is no choice of the best answer of each query alone: it is the
            best of several, whose chance level is that of `mrr` or `success@k` of rankings.

        Examples
        --------
        >>> Rankings.of([[1, 4], [2]], candidates=9).ranks().better.tolist()
        [0, 2, 1]
        """
        listed_, groups = self._answers.listed, self._answers.groups
        answers = groups.answers
        better = np.repeat(groups.before - groups.earlier, answers)
        equal = np.repeat(groups.size - answers, answers)
        owner = listed_.owner
        many = self.candidates[owner] - self._answers.count[owner] + 1
        keys = {"query": np.arange(len(self))} | dict(self.keys)
        found = {name: column[owner] for name, column in keys.items()}
        if self.answers is not None:
            found["answer"] = self.answers[self.better >= 0]
        weights = None if self.weights is None else self.weights[owner]
        return Ranks(
            better,
            equal,
            many if self.has_candidates else None,
            weights=weights,
            keys=found,
            protocol=self.protocol,
        )

    @classmethod
    def _evaluate_parts(cls, parts: Sequence[tuple[Any, Any]], metrics: Any, **options: Any) -> Any:
        return evaluate_rankings(parts, metrics, **options)

    def evaluate(
        self,
        *metrics: Metrics,
        ties: AnswerTies | None = None,
        average: str | Sequence[str] = "micro",
        empty: Empty = "skip",
    ) -> Evaluation[float]:
        """Evaluate metrics.

        Parameters
        ----------
        *metrics : str or Metric, or list of them
            The metrics; by default a selection with chance levels, adjusted indices and z-scores.
        ties : {"expected", "optimistic", "pessimistic"}, optional
            The tie-breaking rule; "expected" averages each metric over all orders of tied candidates.
        average : str or sequence of str
            "micro" averages over queries; names of keys are macro averages, in which every group of
            queries has the same weight.
        empty : {"skip", "zero"}
            Whether queries without answers are left out, or have the value 0. Chance-adjusted metrics
            are the same either way.

        Returns
        -------
        Evaluation
            A mapping from metrics to values, which prints as a table.

        Raises
        ------
        UnknownMetricError
            If a metric is unknown.
        NullDistributionError
            If a chance-adjusted metric is requested, but the numbers of candidates are unknown.

        Examples
        --------
        >>> print(Rankings.of([[1, 4], [2], [3]], candidates=20).evaluate("map", "index(map)", "mrr"))
        metric   value   index
        ------  ------  ------
        map ↑   0.5278  0.4139
        mrr ↑   0.6111
        3 queries, 0.0% tied
        no protocol recorded [788eeea3]
        """
        protocol = self.protocol.updated({"average": average_name(average)})
        return evaluate_rankings(
            [(self, average)], metrics, ties=self._rule(ties), protocol=protocol, empty=empty
        )


AnyRanks: TypeAlias = Ranks | Rankings


def evaluate_rankings(
    parts: Sequence[tuple[Rankings, str | Sequence[str]]],
    metrics: Iterable[Metrics] = (),
    *,
    chance: Chance | None = None,  # noqa: ARG001  # groups of ranks have it
    empty: Empty = "skip",
    default: Iterable[str] = (),
    labels: Sequence[tuple[str, ...]] = ((),),
    **options: Any,
) -> Evaluation[Any]:
    """Evaluate metrics on rankings with an average each, one row for each.

    Parameters
    ----------
    parts : sequence of tuple
        Rankings and their average.
    metrics : iterable of str or Metric
        The metrics.
    chance : None
        Not used: different queries share no scores, so that their ranks are independent under chance.
    empty : {"skip", "zero"}
        As for `Rankings.evaluate`.
    default : iterable of str, optional
        The metrics if none are given, instead of those of `Rankings.evaluate`.
    labels : sequence of tuple
        A label for each part.
    **options : object
        Ties, labels and protocol, as for `evenrank.ranks.evaluation.evaluate`.

    Returns
    -------
    Evaluation
        The values.
    """
    check_choice("value of empty", empty, get_args(Empty))
    known = all(one.has_candidates for one, _ in parts)
    default = [*default] or usual_metrics(wide=bool(options.get("label_names")))
    wanted: list[Expression] = [parse(m) for m in listed(metrics)]
    chosen = wanted or [e for e in map(parse, default) if known or not isinstance(e, Adjusted)]
    bases = list(dict.fromkeys(_unadjusted(bare(e)) for e in chosen if str(e) != "count"))
    tallies = [one.tally(*bases, average=average, empty=empty) for one, average in parts]
    return evaluate(tallies, wanted, default=default, labels=labels, zero=empty == "zero", **options)


def load_each(
    paths: Iterable[Path], candidates: ArrayLike | None = None, *, rankings: bool = False
) -> list[AnyRanks]:
    """Read several files of ranks, or of rankings.

    Parameters
    ----------
    paths : iterable of Path
        The files.
    candidates : array_like of int, optional
        Numbers of candidates, for files without them.
    rankings : bool
        Whether tables with a row per answer are rankings, even if they do not say so.

    Returns
    -------
    list of Ranks or Rankings
        The content of each file.
    """
    keys = KeyColumns()
    return [
        Rankings.load(path, candidates=candidates)
        if rankings or says_rankings(path)
        else load(path, candidates, keys)
        for path in paths
    ]


def usual_metrics(*, wide: bool) -> list[str]:
    """Return the names of the metrics that are evaluated if none are given.

    Parameters
    ----------
    wide : bool
        Whether there is a row for each of several groups or models.

    Returns
    -------
    list of str
        The names.
    """
    return ANSWERS_WIDE if wide else ANSWERS


def _unadjusted(metric: str | Expression) -> QueryMetric:
    expression = parse(metric)
    if isinstance(expression, Adjusted):
        raise InputError(
            "a metric without adjustment is required", got=str(expression), do=f"use {expression.metric}"
        )
    return for_answers(expression)


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


def _each(name: str, given: Any) -> list[NDArray[Any]]:
    """Read a list of columns, one per query."""
    several = columns.as_list(given)
    if several is None or any(np.ndim(one) != 1 for one in several):
        raise InputError(f"{name} must be a list for each query", got=repr(given)[:40])
    return [columns.as_array(name, one) for one in several]


def _flat(name: str, given: Any, first: Ints) -> Any:
    """Concatenate lists of the lengths of the queries; single numbers and None stay."""
    if columns.as_list(given) is None:
        return given
    each = _each(name, given)
    if [len(one) for one in each] != np.diff(first).tolist():
        raise InputError(f"{name} must have as many values as there are answers", got=repr(given)[:40])
    return (
        np.concatenate([[], *each]) if name != "answers" else [v for one in each for v in one.tolist()]
    )


def _gains(values: ArrayLike, total: int) -> Floats:
    gain = columns.as_array("gains", values)
    if gain.ndim != 1 or (gain.dtype.kind not in "biuf" and gain.size):
        raise InputError("gains must be numbers", got=columns.described(gain))
    worth: Floats = np.broadcast_to(gain, total).astype(float) if len(gain) == 1 else gain.astype(float)
    if len(worth) != total:
        raise InputError("columns differ in length", got=f"{total} answers, but {len(worth)} gains")
    columns.reject(~np.isfinite(worth) | (worth < 0), worth, "gains must be finite and not negative")
    return worth


def _constant(column: NDArray[Any], first: Ints) -> bool:
    """Whether all answers of each query agree in a key."""
    whole = column[first[:-1]]
    return bool((np.repeat(whole, np.diff(first)) == column).all())


def _check_names(answers: Answers, names: NDArray[Any] | None) -> None:
    """Check that no query has an answer twice."""
    if names is None:
        return
    # sorting pairs of small numbers is six times as fast as numbering them
    small = (
        names.dtype.kind == "i" and names.min(initial=0) >= 0 and names.max(initial=0) < columns.LARGEST
    )
    code = names if small else columns.numbered(names)[0]
    pair = answers.owner * (code.max(initial=0) + 1) + code
    ordered = np.sort(pair)
    if (ordered[1:] == ordered[:-1]).any():
        _, at = np.unique(pair, return_index=True)
        row = int(np.setdiff1d(np.arange(len(pair)), at)[0])
        raise columns.RowError(
            "a query has an answer twice", int(answers.owner[row]), got=repr(names[row])
        )


def evaluate_rows(
    parts: Sequence[tuple[AnyRanks, str | Sequence[str]]],
    metrics: Iterable[Metrics] = (),
    **options: Any,
) -> Evaluation[Any]:
    """Evaluate metrics on ranks, or on rankings, with an average each, one row for each.

    Parameters
    ----------
    parts : sequence of tuple
        Ranks or rankings, and their average.
    metrics : iterable of str or Metric
        The metrics.
    **options : object
        As for `evaluate_ranks` and `evaluate_rankings`.

    Returns
    -------
    Evaluation
        The values.
    """
    made: Evaluation[Any] = type(parts[0][0])._evaluate_parts(parts, metrics, **options)
    return made


def rankings_rule(several: Iterable[Rankings], ties: AnswerTies | None = None) -> Ties:
    """Return the given tie-breaking rule, else the one that the protocols of all rankings agree on."""
    return one_rule((one.ties for one in several), ties)
