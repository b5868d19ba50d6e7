"""Mean and variance of a metric of several answers under random ranking, in closed form.

The positions of the m answers are a uniform m-subset of 1..N, and gains are permuted uniformly. All
functions work on rows of shapes at once. Differences are computed without cancellation: a variance
keeps its digits if N is large, and if nearly all candidates are answers.

    sum         Var sum d_r g_r = Var(g) (sum d^2 - (sum d)^2 / N) N / (N - 1)
    first       P(X > x) = C(N - x, m) / C(N, m) for the position X of the first answer
    precision   moments of sum_k (1/k) x_k (1 + sum_{j<k} x_j), x_k the indicator of an answer at k, from
                the probabilities p_j = m (m - 1) .. / N (N - 1) .. of answers at j given positions
    cascade     recursions over positions and over answers, in `_cascade`
    auc         (N + 1) / (12 m (N - m)), that of Mann and Whitney's U
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.quadrature import DIRECT, Rule, gauss_panels
from evenrank.errors import NullDistributionError, Option
from evenrank.metrics.answers._absent import log_absent
from evenrank.metrics.answers._cascade import reached, reciprocals, stops
from evenrank.metrics.answers.metric import ONE, RECIPROCAL, QueryMetric
from evenrank.metrics.answers.shapes import ONES, Shapes
from evenrank.metrics.chance._power import harmonic
from evenrank.metrics.chance._sum import CHUNK, uniform_moments
from evenrank.metrics.metric import Transform

MOST_STEPS = 2_000_000_000  # of the recursions of a cascade, which take 20 seconds
ONE_STEP = 3000  # is at least as long as that many elements
NEAR = 512  # positions: a product for each takes less time than Stirling's formula at fewer points


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of shapes under a metric, with N, m and the last position K that counts as floats.

    Rows without answers are treated as if they had one; their value is set to 0 in the end.
    """

    metric: QueryMetric
    shapes: Shapes

    @cached_property
    def size(self) -> Floats:
        """The numbers of candidates N."""
        return self.shapes.rows["candidates"].astype(float)

    @cached_property
    def answers(self) -> Floats:
        """The numbers of answers m."""
        return np.asarray(np.maximum(self.shapes.rows["answers"], 1), dtype=float)

    @cached_property
    def limit(self) -> Floats:
        """The cutoff k of each row; infinite without one."""
        k = self.metric.k
        if k == "answers":
            return self.answers
        return np.full(len(self.size), np.inf if k is None else float(k))

    @property
    def last(self) -> Floats:
        """The last position that counts, at most N."""
        return np.minimum(self.limit, self.size)

    @property
    def spare(self) -> Floats:
        """The number of candidates that are no answers, N - m."""
        return self.size - self.answers

    @cached_property
    def norm(self) -> Floats:
        """What the sum over the answers of a query is divided by."""
        m, k = self.answers, self.limit
        match self.metric.norm:
            case "one":
                return np.ones_like(m)
            case "k":
                return k
            case "answers":
                return m
            case "least":
                return np.minimum(m, k)
            case "mean":
                return np.asarray((m + k) / 2.0)
        ideal = self.ideal
        return np.asarray(np.where(ideal > 0, ideal, 1.0))  # gains of zero add nothing

    @cached_property
    def ideal(self) -> Floats:
        """The sum of the best possible order."""
        first = np.minimum(self.answers, self.limit)
        one = float(self.metric.worth(np.ones(1))[0])
        k = self.metric.k

        def of_gains(gains: Floats) -> Floats:
            counted = gains[:, : k if isinstance(k, int) else None]
            d = self.metric.discount(np.arange(1.0, counted.shape[1] + 1.0))
            return np.asarray((self.metric.worth(counted) * d).sum(axis=1))

        plain = one * first * _discount(self.metric.discount, first)[0]
        return self.shapes.per_row(plain, of_gains)

    @cached_property
    def certain(self) -> NDArray[np.bool_]:
        """Whether every ranking of the query has the same value."""
        kind, all_answers = self.metric.kind, self.spare == 0
        alike = np.ones(len(self.size), dtype=bool)
        if self.metric.graded:
            alike = self.shapes.per_row(np.ones(len(self.size)), _alike) > 0
        sure = all_answers & alike
        if self.metric.discount == ONE and kind == "sum":
            sure |= self.last == self.size
        elif kind == "first":
            sure = all_answers | (self.metric.discount == ONE) & (self.limit > self.spare)
        return np.asarray(sure | (self.shapes.rows["answers"] == 0))


def _alike(gains: Floats) -> Floats:
    return np.asarray(gains[:, 0] == gains[:, -1], dtype=float)


Moments = tuple[Floats, Floats]


def moments(metric: QueryMetric, shapes: Shapes) -> Moments:
    """Compute mean and variance for each row of shapes."""
    rows = Rows(metric, shapes)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, variance = _KINDS[metric.kind](rows)
    none = shapes.rows["answers"] == 0
    return np.where(none, 0.0, mean), np.where(rows.certain, 0.0, np.maximum(variance, 0.0))


def best(metric: QueryMetric, shapes: Shapes) -> Floats:
    """Compute the largest possible value for each row of shapes."""
    rows = Rows(metric, shapes)
    match metric.kind:
        case "sum":
            value = np.where(rows.ideal > 0, rows.ideal, 0.0) / rows.norm
        case "first":
            value = np.full(len(shapes), metric.discount.at(1))
        case "precision":
            value = np.minimum(rows.answers, rows.limit) / rows.norm
        case "cascade":
            value = _best_cascade(rows)
        case "auc":
            value = np.ones(len(shapes))
    return np.where(shapes.rows["answers"] == 0, 0.0, value)


# Sums over answers --------------------------------------------------------------------------------


def _discount(discount: Transform, last: Floats) -> Moments:
    """Compute mean and variance of the discount of a random position up to `last`."""
    if discount == ONE:
        return np.ones_like(last), np.zeros_like(last)
    distinct, row = np.unique(last.astype(np.int64), return_inverse=True)
    mean, variance = uniform_moments(discount, distinct)
    return mean[row], variance[row]


def _sum(rows: Rows) -> Moments:
    n, m, last = rows.size, rows.answers, rows.last
    level, spread = _discount(rows.metric.discount, last)
    # sum of squares of the discounts about their mean over all N positions; 0 beyond the cutoff
    discounts = last * spread + level**2 * last * ((n - last) / n)
    one = float(rows.metric.worth(np.ones(1))[0])

    def within(gains: Floats) -> Floats:
        g = rows.metric.worth(gains)
        return np.asarray(((g - g.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))

    mean = rows.shapes.per_row(
        np.full(len(n), one), lambda gains: np.asarray(rows.metric.worth(gains).mean(axis=1))
    )
    scatter = rows.shapes.per_row(np.zeros(len(n)), within) + m * mean**2 * (rows.spare / n)
    variance = discounts * scatter / np.maximum(n - 1.0, 1.0)
    return m * mean / n * (last * level) / rows.norm, variance / rows.norm**2


# The first answer ---------------------------------------------------------------------------------


def _first(rows: Rows) -> Moments:
    n, m, discount = rows.size, rows.answers, rows.metric.discount
    # the first answer is at N - m + 1 at the latest
    last = np.minimum(rows.limit, rows.spare + 1.0)
    if discount == ONE:
        return _success(n, m, last)
    mean, variance = np.empty(len(n)), np.empty(len(n))
    # if most candidates are answers, the mean square and the squared mean nearly cancel
    closed = (discount == RECIPROCAL) & (rows.limit > rows.spare) & (2.0 * m <= n)
    mean[closed], variance[closed] = _reciprocal(n[closed], m[closed])
    steps = np.where(2.0 * m > n, np.minimum(last, DIRECT), last)  # P(X > 128) < 2^-128
    short = ~closed & (steps <= NEAR)
    mean[short], variance[short] = _near(discount, n[short], m[short], steps[short])
    rest = np.flatnonzero(~closed & ~short)
    order = rest[np.argsort(last[rest], kind="stable")]
    ends = np.flatnonzero(np.diff(last[order])) + 1
    for part in np.split(order, ends) if len(order) else ():
        mean[part], variance[part] = _far(discount, n[part], m[part], int(last[part[0]]))
    return mean, variance


def _success(n: Floats, m: Floats, last: Floats) -> Moments:
    """Compute moments of [an answer is among the first `last`], which is symmetric in both numbers."""
    k = np.minimum(last, n)
    fewer, more = np.minimum(m, k), np.maximum(m, k)
    found, absent = np.ones(len(n)), np.zeros(len(n))
    open_ = m + k <= n
    near = open_ & (fewer <= DIRECT)
    for part in _chunks(np.flatnonzero(near), DIRECT):
        at, absent[part] = _positions(n[part], more[part], fewer[part])
        found[part] = at.sum(axis=1)
    far = open_ & ~near
    log = log_absent(n[far], m[far], k[far])
    found[far], absent[far] = -np.expm1(log), np.exp(log)
    return found, found * absent


def _positions(n: Floats, m: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Compute P(X = x) of the first of m answers, for x up to `last` in columns, and P(X > last)."""
    before = np.arange(last.max())
    left = np.maximum(n[:, None] - before, 1.0)
    go_on = np.maximum(left - m[:, None], 0.0) / left
    absent = np.cumprod(np.concatenate([np.ones((len(n), 1)), go_on], axis=1), axis=1)
    at = absent[:, :-1] * m[:, None] / left
    at[before >= last[:, None]] = 0.0
    return at, absent[np.arange(len(n)), last.astype(np.int64)]


def _near(discount: Transform, n: Floats, m: Floats, last: Floats) -> Moments:
    """Sum over the positions of the first answer one by one."""
    mean, variance = np.empty(len(n)), np.empty(len(n))
    for part in _chunks(np.arange(len(n)), int(last.max(initial=0.0))):
        at, absent = _positions(n[part], m[part], last[part])
        value = discount(np.arange(1.0, at.shape[1] + 1.0))
        mean[part], variance[part] = _of_values(at, value, absent)
    return mean, variance


def _far(discount: Transform, n: Floats, m: Floats, last: int) -> Moments:
    """Sum over many positions of the first answer; its probabilities are smooth."""
    rule = Rule([1], [last], discount)
    mean, variance = np.empty(len(n)), np.empty(len(n))
    for part in _chunks(np.arange(len(n)), len(rule.points)):
        size, answers = n[part][:, None], m[part][:, None]
        before = np.exp(log_absent(size, answers, rule.points - 1.0))
        at = before * answers / (size - rule.points + 1.0) * rule.flat_weights
        absent = np.exp(log_absent(n[part], m[part], np.minimum(last, n[part] - m[part])))
        absent[n[part] - m[part] < last] = 0.0
        mean[part], variance[part] = _of_values(at, discount(rule.points), absent)
    return mean, variance


def _of_values(chance: Floats, value: Floats, zero: Floats) -> Moments:
    """Compute moments of a variable from its values and the probability that it is 0."""
    mean = np.asarray(chance @ value)
    return mean, (chance * (value - mean[:, None]) ** 2).sum(axis=1) + zero * mean**2


def _reciprocal(n: Floats, m: Floats) -> Moments:
    """Compute moments of 1/X in closed form, for m <= N/2.

    E 1/X = m (H_N - H_(m-1)) / (N - m + 1), and E 1/X^2 is the same with the sum of (H_N - H_(N-i)) / i
    over i <= N - m + 1 in place of the difference. Over i <= N, that sum is H_N^(2); the terms that are
    too many, with j = N - i < m - 1, are added up and subtracted.
    """
    h, h2 = harmonic(n)
    share = m / (n - m + 1.0)
    mean = share * (h - np.where(m > 1, harmonic(m - 1.0)[0], 0.0))
    order = np.argsort(-m, kind="stable")
    over = np.empty(len(n))
    over[order] = _sum_over_answers(n[order], m[order], h[order])
    return mean, share * (h2 - over) - mean**2


def _sum_over_answers(n: Floats, m: Floats, h: Floats) -> Floats:
    """Sum (H_N - H_j) / (N - j) over j < m - 1 for descending m.

    Terms are added up one by one until `DIRECT`, and beyond on panels within a factor of two.
    """
    out, terms = np.zeros(len(n)), m - 1.0
    direct = np.where(terms < 1.5 * DIRECT, terms, DIRECT)  # so that no panel is short
    table = np.append(0.0, np.cumsum(1.0 / np.arange(1.0, 2.0 * DIRECT)))
    for j in range(int(direct.max(initial=0.0))):
        more = int(np.searchsorted(-direct, -float(j)))
        out[:more] += (h[:more] - table[j]) / (n[:more] - j)
    long = np.flatnonzero(terms >= 1.5 * DIRECT)
    ratio = terms[long] / DIRECT
    pieces = np.ceil(np.log2(ratio))
    for i in range(int(pieces.max(initial=0.0))):
        on = pieces > i
        row, step = long[on], ratio[on] ** (1.0 / pieces[on])
        start, stop = np.rint(DIRECT * step**i), np.rint(DIRECT * step ** (i + 1))
        for part in _chunks(np.arange(len(row)), 64):
            points, weights = gauss_panels(start[part], stop[part] - start[part])
            size, total = n[row[part]][:, None], h[row[part]][:, None]
            terms_at = (total - harmonic(points)[0]) / (size - points)
            out[row[part]] += (terms_at * weights).sum(axis=1)
    return out


def _chunks(rows: Ints, width: int) -> list[Ints]:
    step = max(1, 4 * CHUNK // max(1, width))
    return [rows[i : i + step] for i in range(0, len(rows), step)]


# Average precision --------------------------------------------------------------------------------


def _precision(rows: Rows) -> Moments:
    n, m, last, spare = rows.size, rows.answers, rows.last, rows.spare
    h, h2 = harmonic(last)
    pairs = last - h  # sum of (k - 1)/k
    below, mixed = h - h2, (h * h - h2) / 2.0  # of (k - 1)/k^2, and of 1/(j k) over j < k
    lower = last - 3.0 * h + 2.0 * h2  # of (k - 1)(k - 2)/k^2
    shared = 2.0 * pairs - (h * h - h2)  # of 2 (i - 1)/(i k) over i < k, twice
    p1 = m / n
    p2 = p1 * _over(m - 1.0, n - 1.0)
    p3 = p2 * _over(m - 2.0, n - 2.0)
    of_one = p1 * (spare / n) * (h2 - _over(h * h - h2, n - 1.0))
    rest = p2 * spare  # a factor of all that follows: nothing cancels if nearly all are answers
    covariance = _over(rest, n - 2.0) * (below + mixed - 2.0 * h * pairs / n)
    square = -_over(rest * (4.0 * n * m - 6.0 * (n + m) + 6.0), (n - 2.0) * (n - 3.0)) / (n * (n - 1.0))
    of_pairs = (
        square * pairs**2
        + _over(rest * (n + m - 5.0), (n - 2.0) * (n - 3.0)) * below
        + _over(p3 * spare, n - 3.0) * (lower + 2.0 * shared)
    )
    # among three candidates there are no four positions
    of_pairs = np.where(n == 3.0, p2 * below - (p2 * pairs) ** 2, of_pairs)
    variance = of_one + 2.0 * covariance + of_pairs
    return (p1 * h + p2 * pairs) / rows.norm, variance / rows.norm**2


def _over(x: Floats, y: Floats) -> Floats:
    """Divide, with 0 for x / 0: such terms are empty, as there are too few candidates."""
    return np.asarray(np.divide(x, y, out=np.zeros(len(x)), where=y > 0))


def _auc(rows: Rows) -> Moments:
    n, m = rows.size, rows.answers
    return np.full(len(n), 0.5), (n + 1.0) / (12.0 * m * rows.spare)


# Expected reciprocal rank --------------------------------------------------------------------------


def _cascade(rows: Rows) -> Moments:
    mean, square = np.zeros(len(rows.size)), np.zeros(len(rows.size))
    profile, last = rows.shapes.rows["profile"], rows.last.astype(np.int64)
    # queries with the same numbers of answers and of positions that count go together
    answers = rows.answers.astype(np.int64)
    order = np.lexsort((last, answers))
    new = (np.diff(answers[order]) != 0) | (np.diff(last[order]) != 0)
    parts = np.split(order, np.flatnonzero(new) + 1)
    _check_work(rows, parts)
    for part in parts:
        m, k = int(answers[part[0]]), int(last[part[0]])
        steps = min(m, k)
        sizes, size = np.unique(rows.size[part], return_inverse=True)
        gains = rows.shapes.profiles.get(m, np.zeros((0, m)))
        used, code = np.unique(profile[part], return_inverse=True)
        table = np.concatenate([np.ones((1, m)), gains])[used - ONES]  # the first is that of all ones
        stop, stop_both = stops(rows.metric.worth(table), steps)
        for chunk in _chunks(np.arange(len(sizes)), 4 * steps**2):
            one, both = reciprocals(sizes[chunk], m, k, steps)
            mine = np.flatnonzero((size >= chunk[0]) & (size <= chunk[-1]))
            for some in _chunks(mine, steps**2):
                at, of = size[some] - chunk[0], code[some]
                mean[part[some]] = (one[at] * stop[of]).sum(axis=1)
                square[part[some]] = (both[at] * stop_both[of]).sum(axis=(1, 2))
    return mean, square - mean**2


def _check_work(rows: Rows, parts: list[Ints]) -> None:
    work = 0.0
    for part in parts:
        m, k = float(rows.answers[part[0]]), float(rows.last[part[0]])
        steps = min(m, k)
        work += k * max(ONE_STEP, len(part) * steps**2) + m * max(ONE_STEP, 5.0 * steps**2)
    if work > MOST_STEPS:
        raise NullDistributionError(
            f"the chance level of {rows.metric} is a sum over too many positions",
            got=f"up to {int(rows.last.max()):,} positions and {int(rows.answers.max()):,} answers",
            do=[
                f"use {rows.metric}@20, or " if rows.metric.k is None else "use ",
                Option("method", "sample"),
            ],
        )


def _best_cascade(rows: Rows) -> Floats:
    k = rows.metric.k

    def of_gains(gains: Floats) -> Floats:
        r = rows.metric.worth(gains[:, : k if isinstance(k, int) else None])
        return np.asarray((reached(r) * r / np.arange(1.0, r.shape[1] + 1.0)).sum(axis=1))

    first = np.minimum(rows.answers, rows.limit).astype(np.int64)
    one = rows.metric.worth(np.ones((1, int(first.max()))))
    table = np.cumsum(reached(one) * one / np.arange(1.0, one.shape[1] + 1.0))
    return rows.shapes.per_row(table[first - 1], of_gains)


_KINDS: dict[str, Callable[[Rows], Moments]] = {
    "sum": _sum,
    "first": _first,
    "precision": _precision,
    "cascade": _cascade,
    "auc": _auc,
}
