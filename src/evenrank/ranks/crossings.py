"""Queries as lines in the array of all triples, and what targets on lines that cross have in common.

A query with an unknown part is a line: (h, r, ?) runs along the tails, and (?, r, t) along the heads.
Two lines in different directions cross in one triple at most. Pairs of targets are counted per line and
per crossing, never one by one:

- targets of one line, which are ranked against the same negatives;
- crossings that are a target on both lines, a target on one and a negative on the other, or a negative
  on both. Most crossings are of the last kind; their number is a product of two histograms per relation,
  less the crossings that are known triples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank.metrics.chance.dependence import Dependence, added
from evenrank.ranks.lists import Lists, in_sorted

Bools = NDArray[np.bool_]
NONE = np.zeros(0, dtype=np.int64)

REPEATED = "z: some targets occur more than once; they are taken to have the same score"
VARIED = "z: targets of one query have different candidates; what these share is left out"
SEVERAL = "z: dependence between these sides is unknown and left out: {}"


@dataclass(frozen=True, eq=False)
class Lines:
    """Queries in one direction, and their targets.

    Parameters
    ----------
    hole : int
        The unknown column of the queries; -1 if they do not name it.
    rows : ndarray of int
        The distinct queries.
    free : ndarray of int
        For each query, the number of candidates that are not filtered.
    line, value : ndarray of int
        For each target, its query and itself.
    rival : ndarray of bool
        For each target, whether it is a candidate of the other targets of its query.
    weight : ndarray of float
        For each target, its weight.
    known : tuple of ndarray of int
        Filtered answers: their queries and values. They may include targets that are no rivals.
    lists : Lists or None
        Lists of candidates, if not all are candidates.
    group : ndarray of int
        For each query, its list.
    apart : bool
        Whether what the candidates of different targets share is unknown.
    share : ndarray of float or None
        For each query, the estimated share of crossings with unknown status that are negatives.
    """

    hole: int
    rows: Ints
    free: Ints
    line: Ints
    value: Ints
    rival: Bools
    weight: Floats
    known: tuple[Ints, Ints]
    lists: Lists | None = None
    group: Ints = field(default_factory=lambda: NONE)
    apart: bool = False
    share: Floats | None = None

    @property
    def candidates(self) -> Ints:
        """The number of candidates of each target, the target included."""
        return np.asarray(self.free[self.line] + ~self.rival)

    def negative(self, line: Ints, value: Ints) -> Bools:
        """Whether answers to queries are candidates that are not filtered."""
        if not len(line):
            return np.zeros(0, dtype=bool)
        most = int(max(value.max(), self.known[1].max(initial=0))) + 1
        filtered = in_sorted(line * most + value, np.sort(self.known[0] * most + self.known[1]))
        listed = True if self.lists is None else self.lists.contains(self.group[line], value)
        return np.asarray(~filtered & listed)

    @cached_property
    def varied(self) -> bool:
        """Whether a query is asked with several lists of candidates."""
        if self.apart or not len(self.rows):
            return self.apart
        _, (distinct, *_) = columns.encode([*self.rows.T])
        return len(distinct) < len(self.rows)

    def merged(self) -> tuple[Lines, Ints, Floats]:
        """Merge targets that occur twice; return sizes and shares of these pairs as well."""
        span = int(self.value.max(initial=0)) + 1
        code, first, of = np.unique(
            self.line * span + self.value, return_index=True, return_inverse=True
        )
        if len(code) == len(self.line):
            return self, NONE, NONE.astype(float)
        weight = added(of, self.weight)
        pairs = weight**2 - added(of, self.weight**2)
        twice = np.flatnonzero(np.bincount(of) > 1)
        kept = replace(
            self, line=self.line[first], value=self.value[first], rival=self.rival[first], weight=weight
        )
        return kept, kept.candidates[twice], pairs[twice]


def dependence_of(sides: Sequence[Lines], names: Sequence[str]) -> Dependence:
    """Count the pairs of targets that depend on each other, for named sides."""
    total = float(sum(side.weight.sum() for side in sides))
    sizes, shares, gaps = [], [], []
    merged = []
    for side in sides:
        one, size, share = side.merged()
        if len(size):
            gaps.append(REPEATED)
        if one.varied:
            gaps.append(VARIED)
        merged.append(one)
        inside = [] if one.apart else _within(one)
        sizes += [size, *(s for s, _ in inside)]
        shares += [share, *(s for _, s in inside)]
    across = []
    for p, q in combinations(range(len(merged)), 2):
        unlike = merged[p].rows.shape[1] != merged[q].rows.shape[1]
        if merged[p].hole < 0 or merged[q].hole < 0 or unlike:
            gaps.append(SEVERAL.format(f"{names[p]}, {names[q]}"))
        else:
            across += _across(merged[p], merged[q])
    size, share = np.concatenate([NONE, *sizes]), np.concatenate([NONE.astype(float), *shares])
    keep = (share != 0) & (size > 1)
    size, place = np.unique(size[keep], return_inverse=True)
    first, second, mass = (
        np.concatenate([NONE.astype(kind), *(one[i] for one in across)])
        for i, kind in enumerate((np.int64, np.int64, float))
    )
    random = (mass != 0) & (first > 1) & (second > 1)  # a rank among one candidate is certain
    return Dependence(
        total,
        size,
        added(place, share[keep], len(size)),
        first[random],
        second[random],
        mass[random],
        tuple(dict.fromkeys(gaps)),
    )


def _within(side: Lines) -> list[tuple[Ints, Floats]]:
    """Return numbers of candidates and shares of pairs of targets of one query."""
    found = []
    for rival in (False, True):
        some = side.rival == rival
        line, w = side.line[some], side.weight[some]
        pairs = added(line, w, len(side.rows)) ** 2 - added(line, w * w, len(side.rows))
        alone = np.bincount(line, minlength=len(side.rows)) < 2
        pairs[alone] = 0.0
        n = side.free + (not rival)
        found.append((n, pairs / -np.maximum(n - 1.0, 1.0) if rival else pairs / (n + 1.0)))
    return found


Masses = tuple[Ints, Ints, Floats]


def _across(p: Lines, q: Lines) -> list[Masses]:
    """Return pairs of numbers of candidates, with masses, of targets of crossing queries."""
    rest = [c for c in range(p.rows.shape[1]) if c not in (p.hole, q.hole)]
    group = np.zeros(len(p.rows) + len(q.rows), dtype=np.int64)
    if rest:
        group = columns.encode([np.concatenate([p.rows[:, c], q.rows[:, c]]) for c in rest])[0]
    grid = _Grid(p, q, group[: len(p.rows)], group[len(p.rows) :])
    same = grid.targets()
    return same if p.varied or q.varied else same + grid.beside() + grid.negatives()


class _Grid:
    """The crossings of queries in two directions.

    A crossing is a query of `p`, a query of `q`, and the answers to both: `x` is the answer to the query
    of p, which the query of q has in that column, and `y` is the converse.
    """

    def __init__(self, p: Lines, q: Lines, group_p: Ints, group_q: Ints) -> None:
        self.p, self.q = p, q
        self.group_p, self.group_q = group_p, group_q
        self.y, self.x = p.rows[:, q.hole], q.rows[:, p.hole]
        entries = [self.y, self.x, p.value, q.value, p.known[1], q.known[1]]
        entries += [lines.lists.values for lines in (p, q) if lines.lists is not None]
        self.span = max(int(one.max(initial=0)) for one in entries) + 1
        self._code_p, self._code_q = group_p * self.span + self.y, group_q * self.span + self.x
        self._order_p, self._order_q = np.argsort(self._code_p), np.argsort(self._code_q)

    def find_q(self, line: Ints, value: Ints) -> tuple[Ints, Bools]:
        """Find the query of q that crosses queries of p at their answers, if it is asked."""
        return _find(self.group_p[line] * self.span + value, self._code_q, self._order_q)

    def find_p(self, line: Ints, value: Ints) -> tuple[Ints, Bools]:
        """Find the query of p that crosses queries of q at their answers, if it is asked."""
        return _find(self.group_q[line] * self.span + value, self._code_p, self._order_p)

    def targets(self) -> list[Masses]:
        """Count crossings that are a target of both queries."""
        p, q = self.p, self.q
        triple_p = (self.group_p[p.line] * self.span + p.value) * self.span + self.y[p.line]
        triple_q = (self.group_q[q.line] * self.span + self.x[q.line]) * self.span + q.value
        mate, both = _find(triple_p, triple_q, np.argsort(triple_q))
        mass = 2.0 * p.weight[both] * q.weight[mate[both]]
        return [(p.candidates[both], q.candidates[mate[both]], mass)]

    def beside(self) -> list[Masses]:
        """Count crossings that are a target of one query and a negative of the other."""
        p, q = self.p, self.q
        other, asked = self.find_q(p.line, p.value)
        back, asked_q = self.find_p(q.line, q.value)
        turned = _beside(q, p, back, asked_q, self.x[q.line], self.span)
        return [
            *_beside(p, q, other, asked, self.y[p.line], self.span),
            *((n, m, mass) for m, n, mass in turned),
        ]

    def negatives(self) -> list[Masses]:
        """Count crossings that are a negative of both queries."""
        p, q = self.p, self.q
        line_p, line_q = self._excluded()
        # targets that are rivals: no negatives of their own ranking
        row, asked = self.find_q(p.line, p.value)
        cross = np.flatnonzero(asked & p.rival)
        there = self._common(p.line[cross], row[cross])
        cross = cross[there]
        mate, both = _find(
            row[cross] * self.span + self.y[p.line[cross]],
            q.line * self.span + q.value,
            _sorted(q, self.span),
        )
        back, asked_q = self.find_p(q.line, q.value)
        single = np.flatnonzero(asked_q & q.rival)
        single = single[self._common(back[single], q.line[single])]
        found: list[Masses] = []
        for rival_p, rival_q in product((False, True), repeat=2):
            a, b = _per_negative(p, rival_p), _per_negative(q, rival_q)
            if not a.any() or not b.any():
                continue
            n, m = p.free + (not rival_p), q.free + (not rival_q)
            found += self._products(a, b, n, m)
            found.append((n[line_p], m[line_q], -2.0 * a[line_p] * b[line_q]))
            if rival_p:  # p's target is the crossing
                r, c = p.line[cross], row[cross]
                mine = p.weight[cross] / np.maximum(n[r] - 1.0, 1.0)
                theirs = b[c]
                found.append((n[r], m[c], -2.0 * mine * theirs))
                if rival_q:  # and q's as well: counted twice
                    again = q.weight[mate[both]] / np.maximum(m[c[both]] - 1.0, 1.0)
                    found.append((n[r[both]], m[c[both]], 2.0 * mine[both] * again))
            if rival_q:
                r, c = back[single], q.line[single]
                mine = q.weight[single] / np.maximum(m[c] - 1.0, 1.0)
                found.append((n[r], m[c], -2.0 * a[r] * mine))
        return found

    def _common(self, line_p: Ints, line_q: Ints) -> Bools:
        """Whether crossings are unfiltered candidates of both queries."""
        return np.asarray(
            self.p.negative(line_p, self.x[line_q]) & self.q.negative(line_q, self.y[line_p])
        )

    def _excluded(self) -> tuple[Ints, Ints]:
        """Return the crossings that are filtered, and candidates otherwise."""
        (lp, xp), (lq, yq) = self.p.known, self.q.known
        cross_q, there = self.find_q(lp, xp)
        cross_p, back = self.find_p(lq, yq)
        code = np.unique(
            np.r_[
                lp[there] * len(self.q.rows) + cross_q[there],
                cross_p[back] * len(self.q.rows) + lq[back],
            ]
        )
        line_p, line_q = np.divmod(code, len(self.q.rows))
        inside = self._listed(line_p, line_q)
        return line_p[inside], line_q[inside]

    def _listed(self, line_p: Ints, line_q: Ints) -> Bools:
        inside = np.ones(len(line_p), dtype=bool)
        if self.p.lists is not None:
            inside &= self.p.lists.contains(self.p.group[line_p], self.x[line_q])
        if self.q.lists is not None:
            inside &= self.q.lists.contains(self.q.group[line_q], self.y[line_p])
        return inside

    def _products(self, a: Floats, b: Floats, n: Ints, m: Ints) -> list[Masses]:
        """Sum a[row] b[column] over all crossings that are candidates, filtered ones included."""
        from scipy import sparse

        p, q = self.p, self.q
        alike = [
            lines.lists is None or _one_list(lines.group, group)
            for lines, group in ((p, self.group_p), (q, self.group_q))
        ]
        if not all(alike):
            return self._joined(a, b, n, m, by_p=not alike[0])
        groups = int(max(self.group_p.max(), self.group_q.max())) + 1
        a = np.where(_in_list(q, self.group_q, self.group_p, self.y, groups), a, 0.0)
        b = np.where(_in_list(p, self.group_p, self.group_q, self.x, groups), b, 0.0)
        size_p, at_p = np.unique(n, return_inverse=True)
        size_q, at_q = np.unique(m, return_inverse=True)
        rows = sparse.csr_array((a, (at_p, self.group_p)), shape=(len(size_p), groups))
        sides = sparse.csr_array((b, (self.group_q, at_q)), shape=(groups, len(size_q)))
        mass = (rows @ sides).tocoo()
        return [(size_p[mass.row], size_q[mass.col], 2.0 * mass.data)]

    def _joined(self, a: Floats, b: Floats, n: Ints, m: Ints, *, by_p: bool) -> list[Masses]:
        """Sum over the candidates in the lists, one by one."""
        lines, find = (self.p, self.find_q) if by_p else (self.q, self.find_p)
        assert lines.lists is not None
        found: list[Masses] = []
        lengths = lines.lists.lengths[lines.group]
        cuts = np.searchsorted(
            np.cumsum(lengths), np.arange(1, lengths.sum() // 4_000_000 + 1) * 4_000_000
        )
        for some in np.split(np.arange(len(lengths)), cuts):
            own = np.repeat(some, lengths[some])
            other, there = find(own, lines.lists.select(lines.group[some]).values)
            r, c = (own[there], other[there]) if by_p else (other[there], own[there])
            inside = self._listed(r, c)
            r, c = r[inside], c[inside]
            found.append((n[r], m[c], 2.0 * a[r] * b[c]))
        return found


def _sorted(lines: Lines, span: int) -> Ints:
    return np.argsort(lines.line * span + lines.value)


def _find(wanted: Ints, codes: Ints, order: Ints) -> tuple[Ints, Bools]:
    """Find codes among distinct others; return their places and whether they are there."""
    if not len(codes):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    at = order[np.minimum(np.searchsorted(codes, wanted, sorter=order), len(codes) - 1)]
    return at, np.asarray(codes[at] == wanted)


def _per_negative(side: Lines, rival: bool) -> Floats:
    """Return the weight of a query's targets of one kind, divided by the number of negatives."""
    some = side.rival == rival
    weight = added(side.line[some], side.weight[some], len(side.rows))
    negatives = side.free - rival
    result = np.where(negatives > 0, weight / np.maximum(negatives, 1), 0.0)
    return result if side.share is None else result * side.share


def _beside(p: Lines, q: Lines, other: Ints, asked: Bools, answer: Ints, span: int) -> list[Masses]:
    """Count targets of p that are negatives in rankings of the crossing query of q."""
    some = np.flatnonzero(asked)
    some = some[q.negative(other[some], answer[some])]
    n = p.candidates
    mate, both = _find(other * span + answer, q.line * span + q.value, _sorted(q, span))
    found: list[Masses] = []
    for rival in (False, True):
        m = q.free[other[some]] + (not rival)
        per = _per_negative(replace(q, share=None), rival)[other[some]]
        if rival:  # a target is no negative of its own ranking
            same = both[some] & q.rival[mate[some]]
            itself = q.weight[mate[some]] / np.maximum(m - 1, 1)
            per = per - np.where(same, itself, 0.0)
        found.append((n[some], m, -2.0 * p.weight[some] * per))
    return found


def _in_list(crossing: Lines, groups: Ints, group: Ints, entry: Ints, number: int) -> Bools:
    """Whether the entry of a query is a candidate of the queries that cross it."""
    if crossing.lists is None:
        return np.ones(len(group), dtype=bool)
    of_group = np.full(number, -1)
    of_group[groups] = crossing.group
    lists = of_group[group]
    return np.asarray((lists >= 0) & crossing.lists.contains(np.maximum(lists, 0), entry))


def _one_list(lists: Ints, group: Ints) -> bool:
    """Whether all queries of a group have the same list of candidates."""
    most = np.zeros(int(group.max(initial=0)) + 1, dtype=np.int64)
    most[group] = lists
    return bool((most[group] == lists).all())
