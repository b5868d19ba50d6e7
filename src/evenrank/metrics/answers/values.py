"""The answers of queries, and the value of a metric for each query, under a tie-breaking rule.

An answer has three numbers: `better` and `equal`, how many other candidates of the query (answers
included) have a better and the same score, and a gain. Answers with the same `better` tie with each
other, in a tie group of `T = equal + 1` candidates, `a` of them answers, at positions `b + 1 .. b + T`.
Under the rule "expected", the value of a query is the mean over all orders of its tie groups (McSherry
and Najork 2008). Orders of different groups are independent, and the position of an answer is uniform in
its group, so

    sum         each discount is replaced by its mean over the group
    first       only the first group with an answer matters: sum_j d(b + j) P(X = j) with
                P(X > j) = C(T - j, a) / C(T, a)
    precision   after A answers of earlier groups, a group adds
                a/T sum_j (A + 1 + (j - 1) (a - 1)/(T - 1)) / (b + j)
    cascade     sum_s E[1/(b + X_s)] E[V_s] over the s-th answers of the group: positions and the order
                of gains are independent
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.checks import check_choice
from evenrank._internal.quadrature import DIRECT, Rule
from evenrank.errors import InputError, Option
from evenrank.metrics.answers._absent import log_absent
from evenrank.metrics.answers.metric import ONE, RECIPROCAL, QueryMetric
from evenrank.metrics.ties import Ranges

AnswerTies = Literal["expected", "optimistic", "pessimistic"]
TIES: tuple[AnswerTies, ...] = get_args(AnswerTies)
UNRANKED = -1  # `better` of an answer that was not retrieved: it has no position
MOST_TERMS = 100_000_000


def check_ties(ties: str) -> None:
    """Check the name of a tie-breaking rule for several answers."""
    check_choice("tie-breaking rule for several answers", ties, TIES)


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of queries in columns: those of query `i` are `first[i]:first[i + 1]`, best first.

    Parameters
    ----------
    first : ndarray of int
        Offsets, one more than there are queries.
    better, equal : ndarray of int
        How many candidates of the query have a better, and the same, score; `better` is -1 for an
        answer that was not retrieved.
    gain : ndarray of float or None
        Gains; None if all are 1.
    candidates : ndarray of int
        The number of candidates of each query; 0 if unknown.
    """

    first: Ints
    better: Ints
    equal: Ints
    gain: Floats | None
    candidates: Ints

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.first) - 1

    @cached_property
    def count(self) -> Ints:
        """The number of answers of each query."""
        return np.diff(self.first)

    @cached_property
    def owner(self) -> Ints:
        """The number of the query of each answer."""
        return np.repeat(np.arange(len(self)), self.count)

    @cached_property
    def gains(self) -> Floats:
        """The gain of each answer."""
        return np.ones(len(self.better)) if self.gain is None else self.gain

    @cached_property
    def tied(self) -> Ints:
        """The queries with an answer that ties with another candidate."""
        return np.unique(self.owner[(self.equal > 0) & (self.better >= 0)])

    def select(self, rows: Ints) -> Answers:
        """Select queries."""
        count = self.count[rows]
        first = np.concatenate([[0], np.cumsum(count)])
        at = np.arange(first[-1]) + np.repeat(self.first[rows] - first[:-1], count)
        gain = None if self.gain is None else self.gain[at]
        return Answers(first, self.better[at], self.equal[at], gain, self.candidates[rows])

    def part(self, start: int, stop: int) -> Answers:
        """Return the queries from `start` to before `stop`, which share the columns."""
        first = self.first[start : stop + 1]
        rows = slice(first[0], first[-1])
        gain = None if self.gain is None else self.gain[rows]
        many = self.candidates[start:stop]
        return Answers(first - first[0], self.better[rows], self.equal[rows], gain, many)

    @property
    def order(self) -> Ints | None:
        """The order of the answers of each query: best first, and of tied ones the largest gain first.

        None if they are in order.
        """
        better = np.where(self.better < 0, columns.LARGEST + 1, self.better)
        same = np.diff(self.owner) == 0
        step = np.diff(better)
        ordered = (step > 0) | ~same
        if self.gain is not None:
            ordered |= (step == 0) & (np.diff(self.gain) <= 0)
        else:
            ordered |= step == 0
        if ordered.all():
            return None
        if self.gain is not None:
            return np.lexsort((-self.gain, better, self.owner))
        # one number per answer, in the order of which it comes; sorted five times as fast as two keys
        better = np.where(self.better < 0, self.better.max() + 1, self.better)
        span, longest = int(better.max()) + 1, int(self.count.max())
        if len(self) * span * longest >= 2**62:
            return np.lexsort((better, self.owner))
        start = self.first[self.owner]
        number = (self.owner * span + better) * longest + np.arange(len(better)) - start
        return np.asarray(start + np.sort(number) % longest)

    def taken(self, order: Ints) -> Answers:
        """Put the answers in another order within each query."""
        gain = None if self.gain is None else self.gain[order]
        return Answers(self.first, self.better[order], self.equal[order], gain, self.candidates)

    def check(self) -> None:
        """Check that the counts of each query describe a ranking of its candidates."""
        listed = self.better >= 0
        if (self.better < UNRANKED).any() or (self.equal < 0).any():
            row = int(np.flatnonzero((self.better < UNRANKED) | (self.equal < 0))[0])
            raise columns.RowError(
                "better and equal must not be negative",
                int(self.owner[row]),
                got=f"{self.better[row]} and {self.equal[row]}",
                allowed="0 or more; better is -1 for an answer that was not retrieved",
            )
        known = self.candidates > 0
        over = known & (self.count > self.candidates)
        if over.any():
            row = int(np.flatnonzero(over)[0])
            raise columns.RowError(
                "a query has more answers than candidates",
                row,
                got=f"{self.count[row]} answers of {self.candidates[row]} candidates",
            )
        last = self.better + self.equal
        over = listed & known[self.owner] & (last >= self.candidates[self.owner])
        if over.any():
            row = int(np.flatnonzero(over)[0])
            raise columns.RowError(
                "a position is above the number of candidates",
                int(self.owner[row]),
                got=f"position {last[row] + 1} of {self.candidates[self.owner[row]]}",
                allowed="1 to candidates, where candidates counts all answers",
            )
        if not listed.any():
            return
        if not self.equal.any() and ((np.diff(self.better) > 0) | (np.diff(self.owner) > 0)).all():
            return  # no ties, all apart: the common case, which needs no groups
        groups = self.groups
        mixed = np.maximum.reduceat(self.equal[listed], groups.start) != groups.size - 1
        crowded = groups.answers > groups.size
        after = np.diff(groups.before) < groups.size[:-1]
        overlap = np.concatenate([after & (np.diff(groups.owner) == 0), [False]])
        for wrong, what, do in (
            (mixed, "tied answers differ in the number of equal candidates", None),
            (crowded, "more answers tie than candidates do", "count the other answers in `equal`"),
            (overlap, "answers that do not tie overlap", "count the other answers in `better`"),
        ):
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                b, t, a = int(groups.before[i]), int(groups.size[i]), int(groups.answers[i])
                raise InputError(
                    what,
                    got=f"{a} answers with better {b} and equal {t - 1} in row {groups.owner[i]}",
                    do=do,
                )

    @cached_property
    def groups(self) -> TieGroups:
        """The tie groups of answers that were retrieved."""
        return TieGroups.of(self)

    @property
    def listed(self) -> Answers:
        """The answers that were retrieved."""
        # a cached reference to itself would keep all columns until garbage is collected
        return self if self._listed is None else self._listed

    @cached_property
    def _listed(self) -> Answers | None:
        keep = self.better >= 0
        if keep.all():
            return None
        first = np.concatenate([[0], np.cumsum(keep)])[self.first]
        gain = None if self.gain is None else self.gain[keep]
        return Answers(first, self.better[keep], self.equal[keep], gain, self.candidates)

    def resolved(self, ties: AnswerTies) -> Answers:
        """Break ties: answers come first in their tie group, the best of them first, or last."""
        check_ties(ties)
        if ties == "expected" or not len(self.tied):
            return self
        listed, groups = self.listed, self.groups
        within = np.arange(len(listed.better)) - np.repeat(groups.start, groups.answers)
        b, t, a = (np.repeat(c, groups.answers) for c in (groups.before, groups.size, groups.answers))
        gain = listed.gain
        if ties == "optimistic":
            better = b + within
        else:  # the largest gain last; positions ascend, so the gains of a group are turned round
            better = b + t - a + within
            if gain is not None:
                turned = np.repeat(groups.start, groups.answers) + a - 1 - within
                gain = gain[turned]
        keep = self.better >= 0
        whole, gains = np.full(len(self.better), UNRANKED), None
        whole[keep] = better
        if self.gain is not None and gain is not None:
            gains = self.gain.copy()
            gains[keep] = gain
        return Answers(self.first, whole, np.zeros_like(whole), gains, self.candidates)


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Answers of a query that have the same score: `size` candidates after `before` better ones.

    `start` is the first of the group's answers among those retrieved, `earlier` the number of answers of
    the query before it, `owner` the query.
    """

    start: Ints
    before: Ints
    size: Ints
    answers: Ints
    earlier: Ints
    owner: Ints

    @classmethod
    def of(cls, all_answers: Answers) -> TieGroups:
        """Find the groups of answers that are in order."""
        answers = all_answers.listed
        new = np.ones(len(answers.better), dtype=bool)
        new[1:] = (np.diff(answers.better) != 0) | (np.diff(answers.owner) != 0)
        start = np.flatnonzero(new)
        owner = answers.owner[start]
        return cls(
            start,
            answers.better[start],
            answers.equal[start] + 1,
            np.diff(start, append=len(new)),
            start - answers.first[owner],
            owner,
        )

    def select(self, rows: Ints) -> TieGroups:
        """Select groups."""
        return TieGroups(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def cutoff(metric: QueryMetric, count: Ints) -> Ints | None:
    """Return the last position that counts for each query; None if all do."""
    if metric.k is None:
        return None
    return count if metric.k == "answers" else np.full(len(count), metric.k)


def values(metric: QueryMetric, answers: Answers, ties: AnswerTies = "expected") -> Floats:
    """Compute the value of a metric for each query; NaN where it is undefined.

    Parameters
    ----------
    metric : QueryMetric
        The metric.
    answers : Answers
        The answers, in order.
    ties : {"expected", "optimistic", "pessimistic"}
        The tie-breaking rule; "expected" averages the metric over all orders of tied candidates.

    Returns
    -------
    ndarray of float
        A value per query. Queries without answers have none, and the AUC is undefined if all
        candidates are answers.
    """
    if metric.kind == "auc":
        return _auc(answers, ties)
    resolved = answers.resolved(ties)
    found = _KINDS[metric.kind](metric, resolved)
    found[answers.count == 0] = np.nan
    return found


def _added(owner: Ints, terms: Floats, answers: Answers) -> Floats:
    """Sum terms for each query, in their order."""
    total: Floats = np.bincount(owner, weights=terms, minlength=len(answers)).astype(float, copy=False)
    return total


def _sum(metric: QueryMetric, answers: Answers) -> Floats:
    listed, k = answers.listed, cutoff(metric, answers.count)
    low, size = listed.better + 1, listed.equal + 1
    within = None if k is None else k[listed.owner]
    rows = slice(None) if within is None else np.flatnonzero(low <= within)
    low, size, owner = low[rows], size[rows], listed.owner[rows]
    high = low + size - 1
    if within is not None:
        high = np.minimum(high, within[rows])
    term = np.ones(len(low))
    if metric.discount != ONE and not len(answers.tied):
        term = metric.discount(low.astype(float))
    elif metric.discount != ONE:
        term = Ranges(low.astype(float), high.astype(float), term).mean(metric.discount)
    if len(answers.tied):
        term = term * ((high - low + 1) / size)
    if metric.gain != "binary":
        term = term * metric.worth(listed.gains[rows])
    total = _added(owner, term, answers)
    return np.asarray(total / norm_of(metric, answers))


def norm_of(metric: QueryMetric, answers: Answers) -> Floats:
    """Compute what a sum is divided by for each query."""
    count = np.maximum(answers.count, 1).astype(float)
    k = float(metric.k) if isinstance(metric.k, int) else 0.0
    match metric.norm:
        case "one":
            return np.ones(len(answers))
        case "k":
            return np.full(len(answers), k)
        case "answers":
            return count
        case "least":
            return np.asarray(np.minimum(count, k))
        case "mean":
            return np.asarray((count + k) / 2.0)
    if answers.gain is None or metric.gain == "binary":  # the ideal order of m answers of gain 1
        limit = cutoff(metric, answers.count)
        last = answers.count if limit is None else np.minimum(answers.count, limit)
        ideals = np.cumsum(metric.discount(np.arange(1.0, int(last.max(initial=1)) + 1.0)))
        return np.asarray(ideals[np.maximum(last, 1) - 1])
    gain = metric.worth(answers.gains)
    owner = answers.owner
    if len(gain) and gain.min() != gain.max():
        gain = gain[np.lexsort((-gain, owner))]
    place = np.arange(1, len(gain) + 1) - answers.first[owner]
    limit = cutoff(metric, answers.count)
    if limit is not None:
        rows = np.flatnonzero(place <= limit[owner])
        place, gain, owner = place[rows], gain[rows], owner[rows]
    table = metric.discount(np.arange(1.0, int(place.max(initial=1)) + 1.0))
    ideal = _added(owner, table[place - 1] * gain, answers)
    return np.asarray(np.where(ideal > 0, ideal, 1.0))


def _first(metric: QueryMetric, answers: Answers) -> Floats:
    groups, found = answers.groups, np.zeros(len(answers))
    first = groups.select(np.flatnonzero(groups.earlier == 0))
    limit = np.inf if metric.k is None else float(metric.k) if isinstance(metric.k, int) else None
    assert limit is not None  # the first answer is never cut off at the number of answers
    alone = (first.size == 1) | (first.before >= limit)
    position = first.before[alone] + 1.0
    found[first.owner[alone]] = np.where(position <= limit, metric.discount(position), 0.0)
    if not alone.all():
        tied = first.select(np.flatnonzero(~alone))
        found[tied.owner] = _first_of_tie(metric, tied, limit)
    return found


def _first_of_tie(metric: QueryMetric, tied: TieGroups, limit: float) -> Floats:
    """Average the discount of the first answer over the orders of its tie group."""
    shape, (before, size, answers) = columns.encode([tied.before, tied.size, tied.answers])
    last = np.minimum(size - answers + 1, limit - before).astype(np.int64)
    if metric.discount == ONE:
        return -np.expm1(log_absent(*floats(size, answers, np.minimum(last, size))))[shape]
    mean = np.empty(len(size))
    top = (before == 0) & (metric.discount == RECIPROCAL) & (limit == np.inf)
    if top.any():
        t, a = size[top], answers[top]
        mean[top] = a * harmonic_between(a - 1, t) / (t - a + 1)
    for i in np.flatnonzero(~top).tolist():
        mean[i] = _first_of_one(metric, int(before[i]), int(size[i]), int(answers[i]), int(last[i]))
    return mean[shape]


def _first_of_one(metric: QueryMetric, b: int, t: int, a: int, last: int) -> float:
    """Sum `d(b + j) P(X = j)` for j up to `last`; X is the first of a answers among t positions."""

    def term(position: Floats) -> Floats:
        j = position - b
        chance = np.exp(log_absent(*floats(t, a, j - 1.0)))
        return np.asarray(metric.discount(position) * chance * a / (t - j + 1.0))

    if last <= DIRECT:
        return float(term(np.arange(b + 1.0, b + last + 1.0)).sum())
    # beyond `wide`, all answers stand with a probability below e^-60
    wide = min(last, int(60 * t / a) + 60)
    rule = Rule([b + 1], [b + wide], term, tolerance=1e-12, floor=float(term(np.array([b + 1.0]))[0]))
    return float(rule.sum(term(rule.points))[0])


def floats(*numbers: ArrayLike) -> tuple[Floats, ...]:
    """Convert numbers to arrays of floats."""
    return tuple(np.asarray(one, dtype=float) for one in numbers)


def harmonic_between(low: Ints, high: Ints) -> Floats:
    """Compute the sum of 1/i for low < i <= high.

    >>> harmonic_between(np.array([0, 2]), np.array([3, 4])).round(12).tolist()
    [1.833333333333, 0.583333333333]
    """
    empty = high <= low
    rule = Rule(np.where(empty, 1, low + 1), np.where(empty, 1, high), lambda r: 1.0 / r)
    return np.where(empty, 0.0, rule.sum(1.0 / rule.points))


def _precision(metric: QueryMetric, answers: Answers) -> Floats:
    listed, k = answers.listed, cutoff(metric, answers.count)
    position = listed.better + 1.0
    place = np.arange(1.0, len(position) + 1.0) - listed.first[listed.owner]
    apart = listed.equal == 0
    counts = apart if k is None else apart & (position <= k[listed.owner])
    rows = np.flatnonzero(counts)
    total = _added(listed.owner[rows], place[rows] / position[rows], answers)
    if not len(answers.tied):
        return np.asarray(total / norm_of(metric, answers))
    groups = answers.groups
    limit = np.full(len(groups.size), np.inf) if k is None else k[groups.owner].astype(float)
    tied = np.flatnonzero((groups.size > 1) & (groups.before < limit))
    if len(tied):
        part = groups.select(tied)
        share = _precision_of_ties(part, limit[tied])
        total += _added(part.owner, share, answers)
    return np.asarray(total / norm_of(metric, answers))


def _precision_of_ties(tied: TieGroups, limit: Floats) -> Floats:
    """Sum the expected precision at the answers of tie groups."""
    last = np.minimum(tied.before + tied.size, limit).astype(np.int64)
    rule = Rule(tied.before + 1, last, lambda r: 1.0 / r)
    owner = rule.owner
    others = np.maximum(tied.size - 1, 1)
    inside = (rule.points - tied.before[owner] - 1.0) * ((tied.answers - 1) / others)[owner]
    total = rule.sum((tied.earlier[owner] + 1.0 + inside) / rule.points)
    return np.asarray(total * tied.answers / tied.size)


def _cascade(metric: QueryMetric, answers: Answers) -> Floats:
    listed, k = answers.listed, cutoff(metric, answers.count)
    satisfied = metric.worth(listed.gains)
    limit = np.full(len(answers), np.inf) if k is None else k.astype(float)
    groups = answers.groups
    total, left = np.zeros(len(answers)), np.ones(len(answers))
    rank_of_group = _numbered(groups.owner)
    by_number = np.argsort(rank_of_group, kind="stable")
    ends = np.searchsorted(rank_of_group[by_number], np.arange(int(rank_of_group.max(initial=-1)) + 2))
    for start, stop in pairwise(ends.tolist()):  # the s-th group of each query at once
        part = groups.select(by_number[start:stop])
        of = part.owner
        alone = part.size == 1
        position, r = part.before + 1.0, satisfied[part.start]
        add = np.where(position <= limit[of], left[of] * r / position, 0.0)
        stay = 1.0 - r
        for i in np.flatnonzero(~alone).tolist():
            mine = satisfied[part.start[i] : part.start[i] + part.answers[i]]
            inside = _cascade_of_tie(mine, int(part.before[i]), int(part.size[i]), float(limit[of[i]]))
            add[i], stay[i] = left[of[i]] * inside, float(np.prod(1.0 - mine))
        total[of] += add
        left[of] *= stay
    return total


def _numbered(owner: Ints) -> Ints:
    """Number the rows of each owner from 0; equal owners are neighbours."""
    new = np.flatnonzero(np.diff(owner, prepend=-1) != 0)
    return np.arange(len(owner)) - np.repeat(new, np.diff(new, append=len(owner)))


def _cascade_of_tie(satisfied: Floats, b: int, size: int, limit: float) -> float:
    """Average `sum_s V_s / (b + X_s)` over the orders of a tie group."""
    a, last = len(satisfied), int(min(size, limit - b))
    if last < 1:
        return 0.0
    if last * a > MOST_TERMS:
        raise InputError(
            "too many tied candidates for the expected ERR",
            got=f"{size:,} with {a:,} answers",
            do=["use ", Option("ties", "optimistic"), " and ", Option("ties", "pessimistic")],
        )
    chance = position_chances(size, a, last)
    return float((chance / (b + np.arange(1.0, last + 1.0))).sum(axis=1) @ stop_means(satisfied))


def position_chances(size: int, answers: int, last: int) -> Floats:
    """Compute P(X_s = j): the s-th of random answers is at position j, for j up to `last`.

    >>> position_chances(3, 2, 3).round(3).tolist()
    [[0.667, 0.333, 0.0], [0.0, 0.333, 0.667]]
    """
    # found[s] = P(s answers among the first j); an answer follows with chance (a - s)/(n - j)
    found, out = np.zeros(answers + 1), np.zeros((answers, last))
    found[0] = 1.0
    left = answers - np.arange(answers + 1.0)
    for j in range(last):
        moved = found * (left / (size - j))
        out[:, j] = moved[:-1]
        found = found - moved
        found[1:] += moved[:-1]
    return out


def stop_means(satisfied: Floats) -> Floats:
    """Compute E[V_s] over the orders of answers: that the s-th is the first to satisfy.

    With e_s the mean product of s of the chances to go on, this is `e_(s-1) - e_s`.

    >>> stop_means(np.array([0.5, 1.0])).tolist()
    [0.75, 0.25]
    """
    go_on = 1.0 - satisfied
    mean = np.zeros(len(go_on) + 1)  # e_s times C(n, s), divided as it is built
    mean[0] = 1.0
    for n, factor in enumerate(go_on, start=1):
        s = np.arange(1, n + 1)
        # of the subsets of s out of n, the share s/n contains the last one
        mean[1 : n + 1] = mean[1 : n + 1] * (n - s) / n + mean[:n] * factor * s / n
    return np.asarray(mean[:-1] - mean[1:])


def _auc(answers: Answers, ties: AnswerTies) -> Floats:
    check_ties(ties)
    if (answers.candidates == 0).any():
        raise InputError(
            "auc requires the number of candidates, which is unknown",
            do=["pass ", Option("candidates")],
        )
    unranked = answers.better < 0
    if unranked.any():
        raise InputError(
            "auc requires the position of every answer",
            got=f"{unranked.sum():,} answers that were not retrieved",
            do="rank all candidates, or use map",
        )
    groups = answers.groups
    share = {"expected": 0.5, "optimistic": 0.0, "pessimistic": 1.0}[ties]
    ahead = groups.before - groups.earlier + share * (groups.size - groups.answers)
    wrong = _added(groups.owner, ahead * groups.answers, answers)
    pairs = answers.count * (answers.candidates - answers.count).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pairs > 0, 1.0 - wrong / pairs, np.nan)


_KINDS = {"sum": _sum, "first": _first, "precision": _precision, "cascade": _cascade}
