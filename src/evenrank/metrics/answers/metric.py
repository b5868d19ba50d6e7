"""Metrics of queries with several answers: average precision, nDCG, recall@k, AUC and others.

Such a metric is the mean over queries of a function of the positions of all relevant answers. With
positions `r_i` from 1, gains `g_i` and a discount `d`, which is cut off after position k, it is one of

    sum         sum_i d(r_i) G(g_i) / norm         precision@k, recall@k, f1@k, DCG, nDCG, RBP
    first       d(min_i r_i)                       MRR, success@k
    precision   sum_i precision at r_i / norm      average precision (MAP)
    cascade     sum_s V_s / r_(s)                  expected reciprocal rank (ERR)
    auc         share of (answer, other candidate) pairs in the right order

where `V_s` is the probability that a user who reads from the top is satisfied by the s-th answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank._internal.checks import check_choice
from evenrank.errors import InputError
from evenrank.metrics._advice import single_answer
from evenrank.metrics.metric import GAIN, MRR, NDCG, Metric, Statistic, Transform, check_cutoff

Kind = Literal["sum", "first", "precision", "cascade", "auc"]
Gain = Literal["binary", "linear", "exponential"]
Norm = Literal["one", "k", "answers", "least", "mean", "ideal"]
MOST_GAIN = 1000.0  # of exponential gains, 2^g - 1: their squares must not overflow


@dataclass(frozen=True)
class _Geometric:
    """`(1 - p) p^(r - 1)`: a class instead of a closure, to compare and to pickle."""

    p: float

    def __call__(self, rank: Floats) -> Floats:
        return np.asarray((1.0 - self.p) * self.p ** (rank - 1.0))


def _one(rank: Floats) -> Floats:
    return np.ones_like(rank)


def _reciprocal(rank: Floats) -> Floats:
    return np.asarray(1.0 / rank)


def geometric(p: float) -> Transform:
    """Return the discount of rank-biased precision, with a persistence between 0 and 1."""
    if not 0 < p < 1:
        raise InputError("rbp(p) needs a persistence between 0 and 1", got=f"{p:g}", do="e.g. rbp(0.8)")
    return Transform(f"rbp({p:g})", _Geometric(p), f"{1 - p:g} {p:g}^(r-1)", "Moffat & Zobel 2008")


def check_largest(value: float) -> float:
    """Check the largest gain of the expected reciprocal rank."""
    if not 0 < value <= MOST_GAIN:
        raise InputError(
            "err(g) needs the largest gain of the data set", got=f"{value:g}", do="e.g. err(4)"
        )
    return value


ONE = Transform("one", _one, "1", limit=1.0)
RECIPROCAL = Transform("reciprocal", _reciprocal, "1/r")


@runtime_checkable
class Answered(Protocol):
    """An object with the answers of queries, such as `Rankings`."""

    def mean_of(self, metric: QueryMetric, ties: str) -> float:
        """Compute the mean of a metric over queries."""


@dataclass(frozen=True)
class QueryMetric:
    """A metric of the positions of all answers of a query, averaged over queries.

    Use `evenrank.parse`: ``er.parse("map")``, ``er.parse("recall@20")``.

    Parameters
    ----------
    kind : {"sum", "first", "precision", "cascade", "auc"}
        What is computed for each query.
    discount : Transform
        The weight of a position.
    k : int, "answers" or None
        The last position that counts; "answers" is the number of answers of each query.
    gain : {"binary", "linear", "exponential"}
        What an answer of gain g adds: 1, g, or ``2^g - 1``.
    norm : {"one", "k", "answers", "least", "mean", "ideal"}
        What a sum is divided by: 1, k, the number of answers m, min(m, k), (m + k)/2, or the sum of the
        best possible order.
    largest : float, optional
        The largest gain, for ``kind="cascade"``.

    Examples
    --------
    >>> from evenrank.metrics.grammar import parse
    >>> parse("map@10"), parse("recall@20").norm, parse("ndcg_exp").gain
    (QueryMetric('map@10'), 'answers', 'exponential')
    """

    kind: Kind
    discount: Transform = ONE
    k: int | Literal["answers"] | None = None
    gain: Gain = "binary"
    norm: Norm = "one"
    largest: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_choice("kind of metric", self.kind, get_args(Kind))
        check_choice("gain", self.gain, get_args(Gain))
        check_choice("norm", self.norm, get_args(Norm))
        if self.k is not None and self.k != "answers":
            check_cutoff(self.kind, self.k)
        if not self.discount.falling and self.discount != ONE:
            raise InputError(
                "a discount must fall with the rank",
                got=f"{self.discount.name}, which rises",
                do="e.g. er.define('half', lambda r: 0.5 ** r)",
            )

    @property
    def p(self) -> float:
        """The power of the mean over queries, 1 as for `Metric`."""
        return 1.0

    @property
    def q(self) -> float:
        """The power of the value, 1 as for `Metric`."""
        return 1.0

    @property
    def increasing(self) -> bool:
        """Whether larger values are better, which holds for all of these metrics."""
        return True

    @property
    def additive(self) -> bool:
        """Whether the metric is a plain mean, which holds for all of these metrics."""
        return True

    @property
    def is_share(self) -> bool:
        """Whether the value is the share of queries with a success, which is 0 or 1 for each of them."""
        return self.kind == "first" and self.discount == ONE

    @property
    def graded(self) -> bool:
        """Whether the value depends on gains, not only on which candidates are answers."""
        return self.gain != "binary" or self.kind == "cascade"

    def worth(self, gains: Floats) -> Floats:
        """Compute what answers of these gains add; for ERR, the probability that they satisfy a user.

        Parameters
        ----------
        gains : ndarray of float
            The gains.

        Returns
        -------
        ndarray of float
            1, the gain, or ``2^gain - 1``.

        Raises
        ------
        InputError
            If a gain is too large.
        """
        largest = float(gains.max(initial=0.0))
        if self.kind == "cascade":
            most = self.largest or 1.0
            if largest > most:
                raise InputError(
                    f"{self} requires gains up to {most:g}",
                    got=f"{largest:g}",
                    do=f"name the largest gain, e.g. err({largest:g})",
                )
            return np.asarray((2.0**gains - 1.0) / 2.0**most)
        if self.gain == "exponential":
            if largest > MOST_GAIN:
                raise InputError(
                    f"{self} requires gains up to {MOST_GAIN:g}, as it adds 2^gain - 1",
                    got=f"{largest:g}",
                    do="use linear gains, as ndcg does",
                )
            return np.asarray(2.0**gains - 1.0)
        return np.ones_like(gains) if self.gain == "binary" else gains

    @property
    def bounded(self) -> bool:
        """Whether the best ranking of every query has the value 1."""
        if self.kind == "sum":
            return self.norm == "ideal" or (self.k in (None, "answers") and self.norm == "answers")
        if self.kind == "precision":
            return self.k is None or self.norm == "least"
        return self.kind == "auc" or (self.discount.at(1) == 1.0 and self.kind == "first")

    @property
    def best(self) -> float:
        """The supremum over all queries and rankings."""
        return self.range[1]

    @property
    def range(self) -> tuple[float, float]:
        """Infimum and supremum over all queries and rankings."""
        if self.kind == "first":
            return 0.0, self.discount.at(1)
        unbounded = (
            self.kind == "sum"
            and self.norm == "one"
            and not isinstance(self.discount.function, _Geometric)
        )
        return 0.0, float("inf") if unbounded else 1.0

    @property
    def formula(self) -> str:
        """The formula as plain text, without the mean over queries."""
        k = "" if self.k is None else ", r <= m" if self.k == "answers" else f", r <= {self.k}"
        d = self.discount.formula
        if self.kind == "auc":
            return "share of pairs (answer, other) in order"
        if self.kind == "first":
            return f"{d}, r = first answer{k}"
        if self.kind == "cascade":
            return f"sum V_s/r_(s){k}"
        what = {"binary": "", "linear": "g ", "exponential": "(2^g - 1) "}[self.gain]
        term = "precision at r" if self.kind == "precision" else f"{what}{d}".removesuffix(" 1")
        norm = {
            "one": "",
            "k": f" / {self.k}",
            "answers": " / m",
            "least": f" / min(m, {self.k})",
            "mean": f" / ((m + {self.k})/2)",
            "ideal": " / ideal sum",
        }[self.norm]
        return f"sum({term}{k}){norm}"

    @property
    def reference(self) -> str:
        """The publication that introduced the metric."""
        return _REFERENCES.get(self._stem, self.discount.reference)

    @property
    def _stem(self) -> str:
        """The name without cutoff and parameters."""
        match self.kind:
            case "auc":
                return "auc"
            case "cascade":
                return "err"
            case "precision":
                return "map_min" if self.norm == "least" else "map"
            case "first":
                return {ONE: "success", RECIPROCAL: "mrr"}.get(self.discount, "first")
        if self.discount == ONE:
            if self.k == "answers":
                return "r_precision"
            return {"k": "precision", "answers": "recall", "mean": "f1"}.get(self.norm, "dcg")
        if isinstance(self.discount.function, _Geometric):
            return "rbp"
        stem = "ndcg" if self.norm == "ideal" else "dcg"
        return stem if self.gain == "linear" else f"{stem}_{_GAINS[self.gain]}"

    def __call__(self, rankings: Any, ties: str = "expected") -> float:
        """Compute the metric.

        Parameters
        ----------
        rankings : Rankings
            Queries with their answers.
        ties : {"expected", "optimistic", "pessimistic"}
            The tie-breaking rule.

        Returns
        -------
        float
            The mean over queries.

        Raises
        ------
        InputError
            If these are ranks of single targets.
        """
        if not isinstance(rankings, Answered):
            raise self.not_of_ranks()
        return rankings.mean_of(self, ties)

    def not_of_ranks(self) -> InputError:
        """Build the error for ranks of single targets.

        Returns
        -------
        InputError
            The error, with the metric to use instead.
        """
        return InputError(
            f"{self} is computed from rankings of all answers of a query, not from ranks of single ones",
            do=single_answer(self._stem, self.k if isinstance(self.k, int) else 10),
        )

    def __str__(self) -> str:
        """Return the metric expression."""
        stem, function = self._stem, self.discount.function
        if isinstance(function, _Geometric):
            stem = f"rbp({function.p:g})"
        elif stem == "err" and self.largest != DEFAULT_LARGEST:
            stem = f"err({self.largest:g})"
        elif stem not in _PLAIN_STEMS and self.discount not in (GAIN, RECIPROCAL):
            stem = f"{stem}({self.discount.name})"
        return f"{stem}@{self.k}" if isinstance(self.k, int) else stem

    def __repr__(self) -> str:
        """Return the metric expression with the name of the class."""
        return f"QueryMetric({str(self)!r})"


DEFAULT_LARGEST = 4.0
_GAINS = {"binary": "bin", "exponential": "exp"}
_PLAIN_STEMS = (
    "auc",
    "err",
    "map",
    "map_min",
    "success",
    "mrr",
    "r_precision",
    "precision",
    "recall",
    "f1",
)
_REFERENCES = {
    "map": "Buckley & Voorhees 2000",
    "map_min": "Buckley & Voorhees 2000",
    "mrr": "Voorhees 1999 (TREC-8)",
    "success": "Craswell & Hawking 2003",
    "precision": "van Rijsbergen 1979",
    "recall": "van Rijsbergen 1979",
    "f1": "van Rijsbergen 1979",
    "r_precision": "Buckley & Voorhees 2000",
    "rbp": "Moffat & Zobel 2008",
    "err": "Chapelle et al. 2009",
    "auc": "Hanley & McNeil 1982",
    "ndcg": "Järvelin & Kekäläinen 2002",
    "ndcg_bin": "Järvelin & Kekäläinen 2002",
    "dcg": "Järvelin & Kekäläinen 2002",
    "dcg_bin": "Järvelin & Kekäläinen 2002",
    "ndcg_exp": "Burges et al. 2005",
    "dcg_exp": "Burges et al. 2005",
}


def for_answers(metric: Metric | Statistic | QueryMetric) -> QueryMetric:
    """Return the metric of several answers that a name stands for: mrr is that of the first answer.

    >>> from evenrank.metrics.metric import MRR, NDCG
    >>> for_answers(MRR), for_answers(NDCG).norm
    (QueryMetric('mrr'), 'ideal')
    """
    if isinstance(metric, QueryMetric):
        return metric
    if isinstance(metric, Metric):
        if metric == MRR:
            return QueryMetric("first", RECIPROCAL)
        if metric == NDCG:
            return QueryMetric("sum", GAIN, gain="linear", norm="ideal")
        if metric.f.cut is not None and metric.additive:
            of, k = metric.f.cut
            return replace(for_answers(MRR if of == "mrr" else NDCG), k=k)
    name = str(metric)
    hits = isinstance(metric, Metric) and metric.f.k is not None
    defined = isinstance(metric, Metric) and metric.f.reference == "user-defined" and metric.additive
    raise InputError(
        f"{name} is a metric of single targets, and these queries have several answers",
        do=f"use success@{metric.f.k} (any answer) or recall@{metric.f.k} (share of answers)"
        if hits and isinstance(metric, Metric)
        else f"use ndcg({name}), dcg({name}) or first({name})"
        if defined
        else "use e.g. map, mrr, ndcg@10 or recall@10; or rank each answer by itself: rankings.ranks()",
    )
