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
from evenrank._internal.arrays import Floats, Ints, read_only
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import as_path, replacing
from evenrank._internal.table import Table
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.answers.tally import QueryTally
from evenrank.metrics.answers.values import Answers, AnswerTies, check_ties, values
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.ties import Ties
from evenrank.ranks.answers import checked, flat_lists, joined, per_query
from evenrank.ranks.evaluation import Evaluation, bare, evaluate, usual_metrics
from evenrank.ranks.files import (
    METADATA,
    QUERIES,
    ROWS,
    KeyColumns,
    read_table,
    says_rankings,
)
from evenrank.ranks.lists import offsets
from evenrank.ranks.presets import PRESETS
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks, Work, load
from evenrank.ranks.rows import PREVIEW, Rows, average_name, key_columns
from evenrank.ranks.scores import of_answers
from evenrank.ranks.tables import answer_columns, by_answer, by_query, columns_of

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
        ahead = per_query("better", better)
        first = offsets([len(one) for one in ahead])
        made = type(self).flat(
            first,
            np.concatenate([[], *ahead]),
            flat_lists("equal", equal, first),
            candidates,
            flat_lists("gains", gains, first),
            flat_lists("answers", answers, first),
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
        given, names = checked(first, better, equal, candidates, gains, answers)
        weight = None if weights is None else columns.weights(weights, len(given))
        return cls._made(
            given.first,
            given.better,
            given.equal,
            given.gain,
            given.candidates,
            names,
            weight,
            key_columns(keys, len(given)),
            Protocol.of(protocol),
            work,
        )

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
        each = [columns.integers("positions", one, 1) for one in per_query("positions", positions)]
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
        first, better, equal, candidates, gains = of_answers(scores, relevant, known)
        return cls.flat(first, better, equal, candidates, gains, None, weights, keys, protocol)

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
        first, better, equal, candidates, gain, names, keys = joined(ranks, gains)
        return cls.flat(first, better, equal, candidates, gain, names, None, keys, ranks.protocol)

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
        return cls.flat(**columns_of(frame, where, candidates), protocol=protocol)

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
                body = by_answer(self).write_csv(separator="\t" if kind == ".tsv" else ",")
                file.write_text(f"# {METADATA} {protocol}\n{body}", encoding="utf-8")
            else:
                self.to_polars().write_parquet(file, metadata={METADATA: protocol})

    def _columns(self) -> dict[str, NDArray[Any]]:
        known = {"candidates": self.candidates} if self.has_candidates else {}
        weight = {} if self.weights is None else {"weight": self.weights}
        lists = {}
        for name, column in answer_columns(self).items():
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
        return by_query(self)

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


def _unadjusted(metric: str | Expression) -> QueryMetric:
    expression = parse(metric)
    if isinstance(expression, Adjusted):
        raise InputError(
            "a metric without adjustment is required", got=str(expression), do=f"use {expression.metric}"
        )
    return for_answers(expression)
