"""Tallies of queries with several answers: exact sums of the values of some metrics.

Ranks of single targets are counted once for all metrics (`evenrank.metrics.tally`). The answers of a
query have too many different positions for that, so a tally of queries is one of given metrics: the sum
of their values over queries, without any rounding. Sums of disjoint sets of queries add up, and neither
their order nor the batches or shards of the queries change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.exact import ExactSum
from evenrank.errors import InputError
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.answers.values import TIES, Answers, AnswerTies, check_ties, values
from evenrank.metrics.tally import Histogram

QUERIES = 1 << 15  # whose values are computed at once: their columns fit into the cache


class QueryTally:
    """Sums of the values of metrics over queries, under each tie-breaking rule.

    Parameters
    ----------
    metrics : iterable of QueryMetric
        The metrics.

    Attributes
    ----------
    shapes : Shapes
        Numbers of candidates and answers, on which null distributions depend.
    count, tied, empty : int
        The number of queries with answers, of those with ties, and of those without answers.

    Examples
    --------
    >>> from evenrank.metrics.grammar import parse
    >>> first = np.array([0, 2, 3])
    >>> answers = Answers(first, np.array([0, 3, 1]), np.zeros(3, int), None, np.array([9, 9]))
    >>> tally = QueryTally.of([parse("map")], answers)
    >>> tally.value(parse("map")), (tally + tally).count
    (0.625, 4)
    """

    def __init__(self, metrics: Iterable[QueryMetric] = ()) -> None:
        self.metrics = tuple(dict.fromkeys(metrics))
        self.shapes = Shapes()
        self.count = self.tied = self.empty = 0
        self._sums = {(m, rule): (ExactSum(), ExactSum(), 0) for m in self.metrics for rule in TIES}
        self._weights = (ExactSum(), ExactSum())  # of queries with, and without, answers

    @classmethod
    def of(
        cls, metrics: Iterable[QueryMetric], answers: Answers, weights: Floats | None = None
    ) -> QueryTally:
        """Add up the values of metrics.

        Parameters
        ----------
        metrics : iterable of QueryMetric
            The metrics.
        answers : Answers
            The answers of queries, in order.
        weights : ndarray of float, optional
            A weight per query; queries of weight zero do not count.

        Returns
        -------
        QueryTally
            The sums.
        """
        tally = cls(metrics)
        weight = np.ones(len(answers)) if weights is None else weights
        if not (weight > 0).all():
            keep = np.flatnonzero(weight > 0)
            answers, weight = answers.select(keep), weight[keep]
        some = np.flatnonzero(answers.count > 0)
        tally.empty = len(answers) - len(some)
        if tally.empty:
            without = ExactSum.of(weight[answers.count == 0])
            answers, weight = answers.select(some), weight[some]
        else:
            without = ExactSum()
        tally.count = len(answers)
        tally._weights = ExactSum.of(weight), without
        if tally.count:
            given = None if weights is None else weight
            tally.shapes = Shapes.of(answers.candidates, answers.first, answers.gain, given)
        for start in range(0, tally.count, QUERIES):
            part = answers.part(start, min(start + QUERIES, tally.count))
            mass = None if weights is None else weight[start : start + QUERIES]
            tally.tied += len(part.tied)
            for metric in tally.metrics:
                for rule in TIES:
                    if rule == TIES[0] or len(part.tied):
                        found = _summed(values(metric, part, rule), mass)
                    total, weighed, undefined = tally._sums[metric, rule]
                    tally._sums[metric, rule] = (
                        total + found[0],
                        weighed + found[1],
                        undefined + found[2],
                    )
        return tally

    @property
    def has_candidates(self) -> bool:
        """Whether the numbers of candidates of all queries are known."""
        return not self.count or self.shapes.known

    @property
    def tie_rate(self) -> float:
        """The share of queries with an answer that ties with another candidate."""
        self._check_not_empty()
        return self.tied / self.count

    @property
    def answered(self) -> float:
        """The share of the weight of queries with answers."""
        some, without = self._weights
        return some.over(some + without)

    def undefined(self, metric: QueryMetric) -> int:
        """Return the number of queries for which a metric is undefined.

        Parameters
        ----------
        metric : QueryMetric
            A metric of the tally.

        Returns
        -------
        int
            The number of queries.
        """
        return self._sums[metric, TIES[0]][2]

    def value(self, metric: QueryMetric, ties: AnswerTies = "expected") -> float:
        """Compute the mean of a metric over the queries with answers.

        Parameters
        ----------
        metric : QueryMetric
            A metric of the tally.
        ties : {"expected", "optimistic", "pessimistic"}
            The tie-breaking rule.

        Returns
        -------
        float
            The mean, rounded once; NaN if the metric is defined for no query.

        Raises
        ------
        InputError
            If there are no queries with answers, or the metric is none of the tally.
        """
        check_ties(ties)
        if metric not in self.metrics:
            raise InputError(
                f"{metric} was not added up", allowed=", ".join(map(str, self.metrics)) or "(nothing)"
            )
        self._check_not_empty()
        total, weight, _ = self._sums[metric, ties]
        return total.over(weight) if weight.units else float("nan")

    def _check_not_empty(self) -> None:
        if not self.count:
            raise InputError("metrics need at least one query with an answer", got="none")

    def __add__(self, other: QueryTally) -> QueryTally:
        """Add the sums of two tallies of the same metrics."""
        if not isinstance(other, QueryTally):
            return NotImplemented
        if self.metrics != other.metrics:
            raise InputError(
                "tallies of different metrics cannot be added",
                got=f"{', '.join(map(str, self.metrics))} and {', '.join(map(str, other.metrics))}",
            )
        both = QueryTally(self.metrics)
        both.shapes = self.shapes + other.shapes
        both.count, both.tied = self.count + other.count, self.tied + other.tied
        both.empty = self.empty + other.empty
        (a, b), (c, d) = self._weights, other._weights
        both._weights = a + c, b + d
        for key, (total, weight, undefined) in self._sums.items():
            more, heavier, others = other._sums[key]
            both._sums[key] = total + more, weight + heavier, undefined + others
        return both

    def to_integers(self) -> Ints:
        """Write the tally as a vector of whole numbers, for processes that exchange arrays.

        Returns
        -------
        ndarray of int64
            All sums, counts and shapes; weights and gains by their bits. Vectors may be concatenated.
        """
        sums = [*self._weights]
        undefined = []
        for total, weight, without in self._sums.values():
            sums += [total, weight]
            undefined.append(without)
        parts: list[ArrayLike] = [[self.count, self.tied, self.empty], undefined]
        for one in sums:
            words = one.words()
            parts += [[len(words)], words]
        rows = self.shapes.rows
        parts += [[len(rows)], *(bits(column) for column in (*rows.columns.values(), rows.counts))]
        for answers, profile in self.shapes.profiles.items():
            parts += [[answers, len(profile)], bits(profile.ravel())]
        flat = np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
        return np.concatenate([[len(flat)], flat])

    @classmethod
    def of_integers(cls, metrics: Iterable[QueryMetric], vector: Ints) -> QueryTally:
        """Read tallies that `to_integers` wrote, and add them up.

        Parameters
        ----------
        metrics : iterable of QueryMetric
            The metrics of the tallies.
        vector : ndarray of int64
            Vectors of any number of tallies, one after the other.

        Returns
        -------
        QueryTally
            Their sum.

        Examples
        --------
        >>> from evenrank.metrics.grammar import parse
        >>> answers = Answers(np.array([0, 1]), np.array([2]), np.zeros(1, int), None, np.array([9]))
        >>> tally = QueryTally.of([parse("map")], answers)
        >>> twice = np.concatenate([tally.to_integers()] * 2)
        >>> QueryTally.of_integers([parse("map")], twice) == tally + tally
        True
        """
        total, at = cls(metrics), 0
        while at < len(vector):
            stop = at + 1 + int(vector[at])
            total += cls._read(total.metrics, vector[at + 1 : stop])
            at = stop
        return total

    @classmethod
    def _read(cls, metrics: Iterable[QueryMetric], vector: Ints) -> QueryTally:
        """Read the tally of one vector, without its length."""
        tally, rest = cls(metrics), vector

        def take(size: int) -> Ints:
            nonlocal rest
            found, rest = rest[:size], rest[size:]
            return found

        def exact() -> ExactSum:
            return ExactSum.of_words(take(int(take(1)[0])))

        tally.count, tally.tied, tally.empty = take(3).tolist()
        undefined = take(len(tally._sums)).tolist()
        tally._weights = exact(), exact()
        tally._sums = {
            key: (exact(), exact(), without) for key, without in zip(tally._sums, undefined, strict=True)
        }
        size = int(take(1)[0])
        candidates, answers, weight, profile, counts = (take(size) for _ in range(5))
        rows = Histogram.of(
            counts,
            candidates=candidates,
            answers=answers,
            weight=weight.view(np.float64),
            profile=profile,
        )
        profiles = {}
        while len(rest):
            m, number = take(2).tolist()
            profiles[m] = take(m * number).view(np.float64).reshape(number, m)
        tally.shapes = Shapes(rows, profiles)
        return tally

    def __eq__(self, other: object) -> bool:
        """Compare all sums exactly."""
        if not isinstance(other, QueryTally):
            return NotImplemented
        return self._state == other._state and self.shapes == other.shapes

    __hash__ = None  # type: ignore[assignment]  # holds arrays: equal by value, not hashable

    @property
    def _state(self) -> tuple[object, ...]:
        return self.metrics, self._sums, self._weights, self.count, self.tied, self.empty

    def __repr__(self) -> str:
        """Summarise the tally."""
        return f"QueryTally({self.count:,} queries; {', '.join(map(str, self.metrics))})"


def bits(column: NDArray[Any]) -> Ints:
    """Return whole numbers as they are, and floats by their bits."""
    column = np.ascontiguousarray(column)
    return column.view(np.int64) if column.dtype.kind == "f" else column.astype(np.int64)


def _summed(found: Floats, weight: Floats | None) -> tuple[ExactSum, ExactSum, int]:
    """Add up weighted values and weights of the queries for which a metric is defined."""
    defined = ~np.isnan(found)
    lost = len(found) - int(defined.sum())
    if lost:
        found, weight = found[defined], None if weight is None else weight[defined]
    if weight is None:
        return ExactSum.of(found), ExactSum.of_count(len(found)), lost
    return ExactSum.of(found * weight), ExactSum.of(weight), lost
