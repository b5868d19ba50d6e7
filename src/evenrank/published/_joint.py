"""Whether printed values of several metrics can belong to one set of ranks, by linear programming.

Ranks are a distribution over 1..N, and the mean of any function of the rank is linear in it. So rounded
values are consistent if and only if a linear program has a solution: a distribution whose means lie in
the intervals that are rounded to these values. This finds contradictions that no inequality between two
metrics shows, such as an MRR that hits@1, hits@10 and MR together exclude.

The program is a relaxation, so that values that were computed from ranks always have a solution:

- Large ranks are in bins, and a function has any value between those at both ends of its bin.
- Ranks may be fractional, such as 1.5 for ties at their mean rank, unless the rule is known.
- A macro average is a mean over the same ranks with other weights, and thus a distribution as well. Only
  an outer function needs care: the mean of the GMR over relations is not the GMR of any ranks, but at
  least that of the weighted ranks, as the exponential function is convex. One bound remains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from math import ceil, exp, inf, isfinite, log
from typing import NamedTuple

import numpy as np

from evenrank._internal.arrays import Floats
from evenrank.metrics.metric import Metric
from evenrank.published._consistency import HALF, Contradiction, Range, find_contradictions, ranges
from evenrank.published._setting import Candidates
from evenrank.published._value import PublishedValue

EXACT = 12  # up to this rank, and beside the k of every hits@k, each rank is a bin
GROWTH = 1.05  # ratio of the ends of larger bins
FARTHEST = 1e7  # where the last bin begins, if the number of candidates is unknown
LAST_DIGIT = "; it would fit if the last digits were off by one"
TOLERANCE = 1e-6  # relative; that of the solver is 1e-7


@dataclass(frozen=True)
class Limit:
    """A value outside the range that the other values of its model imply.

    Parameters
    ----------
    given : PublishedValue
        The value that does not fit.
    others : tuple of PublishedValue
        The values that exclude it; empty if the number of candidates does.
    least, most : float
        The smallest and the largest value that the others allow.
    low, high : float
        The smallest and the largest value that is rounded to the given one.
    candidates : float
        The largest number of candidates; infinite if unknown.
    data : str
        The data set, if the limit is that of a micro average over all of its targets.

    Examples
    --------
    >>> values = {"hits@1": "0.20", "hits@10": "0.50", "mr": "8.0", "mrr": "0.245"}
    >>> print(*misfits([PublishedValue.of(*one) for one in values.items()], most=100))
    hits@1=0.20 and mr=8.0 imply mrr >= 0.277... among at most 100 candidates, but mrr=0.245 is at
    most 0.2455
    """

    given: PublishedValue
    others: tuple[PublishedValue, ...]
    least: float
    most: float
    low: float
    high: float
    candidates: float
    data: str = ""

    def __str__(self) -> str:
        """Name the values, and the bound that one of them violates."""
        metric = self.given.metric
        low = self.low > self.most
        bound = f"{metric} {'<=' if low else '>='} {self.most if low else self.least:.6g}"
        sides = f"{'at least' if low else 'at most'} {self.low if low else self.high:.6g}"
        among = f"among at most {self.candidates:,.0f} candidates"
        if not self.others:
            where = among if isfinite(self.candidates) else "for all ranks"
            where = f"among the candidates of {self.data}" if self.data else where
            unless = ", unless it is a macro average" if self.data else ""
            said = f"{self.given.printed} is impossible: {bound} {where}"
            return f"{said}, but even with rounding it is {sides}{unless}"
        named = listed_in_words([one.printed for one in self.others])
        where = f" {among}" if isfinite(self.candidates) else ""
        verb = "implies" if len(self.others) == 1 else "imply"
        return f"{named} {verb} {bound}{where}, but {self.given.printed} is {sides}"


def misfits(
    given: Iterable[PublishedValue],
    candidates: Candidates | None = None,
    *,
    most: float | None = None,
    whole: bool = False,
) -> tuple[Contradiction | Limit, ...]:
    """Explain why values cannot belong to one set of ranks.

    Parameters
    ----------
    given : iterable of PublishedValue
        The values of one model, in known units.
    candidates : Candidates, optional
        The candidates, by which chance-adjusted values are converted back.
    most : float, optional
        The largest number of candidates. By default that of the candidates, otherwise unknown.
    whole : bool, default False
        Whether all ranks are known to be whole numbers.

    Returns
    -------
    tuple of Contradiction or Limit
        Inequalities that are violated; empty if and only if some ranks have these values.
    """
    given = list(given)
    if most is None:
        most = inf if candidates is None else float(candidates.sizes["candidates"].max())
    alone = (_alone(one, candidates, most) for one in given)
    impossible = [one for one in alone if one is not None]
    if impossible:
        return tuple(impossible)
    known = [one for value in given for one in ranges(value, candidates)]
    violated = find_contradictions(given, candidates, most)
    means = [one.metric for one in known if one.metric.f.k is None]
    if not violated and len(means) <= 1 and all(abs(mean.p) == 1 for mean in means):
        return ()  # for hits and one mean, these inequalities are sharp
    program = _Program([_moment(one) for one in known], most, 1.0 if whole else HALF)
    certain = [one for one in violated if not one.micro and (whole or not one.whole_ranks)]
    if not certain and program.feasible(range(len(known))):
        return ()
    place = {id(one.given): i for i, one in enumerate(known)}
    found: list[Contradiction] = []
    for one in sorted(violated, key=lambda one: len(one.given)):
        parts = {id(value) for value in one.given}
        if any(parts >= {id(value) for value in other.given} for other in found):
            continue  # a part of it is enough
        if one in certain or not program.feasible([place[part] for part in parts]):
            found.append(replace(one, whole_ranks=False))
    return tuple(found) or (_explained(known, program),)


def warnings(given: Sequence[PublishedValue], candidates: Candidates) -> Iterator[str]:
    """Say which values of a model contradict each other.

    Unlike in `misfits`, inequalities for whole ranks are named as well, with their condition.

    Parameters
    ----------
    given : sequence of PublishedValue
        The values of one model, in known units.
    candidates : Candidates
        The candidates.

    Yields
    ------
    str
        The values, and the inequality that they violate.
    """
    for one in find_contradictions(given, candidates) or misfits(given, candidates):
        values = values_of(one)
        cut = misfits(values, candidates) and not misfits(cut_off(values), candidates)
        yield f"{one}{LAST_DIGIT if cut else ''}"


def values_of(found: Contradiction | Limit) -> tuple[PublishedValue, ...]:
    """Return the values that exclude each other."""
    return (*found.others, found.given) if isinstance(found, Limit) else found.given


def cut_off(given: Iterable[PublishedValue]) -> list[PublishedValue]:
    """Read values as if further digits were cut off instead of rounded."""
    return [replace(one, units=1.0) for one in given]


def _alone(given: PublishedValue, candidates: Candidates | None, most: float) -> Limit | None:
    """Check a value by itself: an MRR above 1, an MR above the number of candidates, hits among few."""
    metric = given.metric
    if not isinstance(metric, Metric) or not isfinite(metric.p):
        return None
    low, high = given.rounded_from
    least, best = metric.range
    if given.expression != metric:
        if candidates is None:
            return None
        back = candidates.back(given.expression)  # type: ignore[arg-type]
        low, high = sorted((back(low), back(high)))
    if isfinite(most):
        least, best = _ends(metric, int(most))
    slack = TOLERANCE * max(1.0, abs(low), abs(high))
    if low > best + slack or high < least - slack:
        bounded = (
            most if isfinite(most) and not (low > metric.range[1] or high < metric.range[0]) else inf
        )
        return Limit(given, (), least, best, low, high, bounded)
    if candidates is not None and candidates.protocol.data:
        least, best = candidates.range(metric)
        if low > best + slack or high < least - slack:
            return Limit(given, (), least, best, low, high, inf, candidates.protocol.data)
    return None


@cache
def _ends(metric: Metric, most: int) -> tuple[float, float]:
    """Compute the smallest and the largest value of a metric of ranks up to `most`."""
    least, best = sorted((metric([1]), metric([most])))
    return least, best


class _Moment(NamedTuple):
    """The mean of a function of the rank, in an interval."""

    metric: Metric
    low: float
    high: float

    def at(self, ranks: Floats) -> Floats:
        """Evaluate the function."""
        values = np.asarray(self.metric.f.function(ranks), dtype=float)
        return np.log(values) if self.metric.p == 0 else values**self.metric.p

    @property
    def limit(self) -> float:
        """Its limit for large ranks."""
        end, power = self.metric.f.limit, self.metric.p
        if power == 0:
            return log(end) if 0 < end < inf else inf if end else -inf
        return end**power if power > 0 or end else inf

    def of(self, mean: float) -> float:
        """Compute the metric from the mean."""
        power, outer = self.metric.p, self.metric.q
        if power == 0:
            return exp(outer * mean)
        if mean == 0:
            return 0.0 if outer / power > 0 else inf
        return float(mean ** (outer / power))


def _moment(one: Range) -> _Moment:
    """Convert the interval of a metric to one of the mean inside it."""
    metric = one.metric
    power, outer = metric.p, metric.q

    def mean(value: float) -> float:
        if power == 0:
            return outer * (log(value) if 0 < value < inf else inf if value else -inf)
        exponent = power / outer
        if value in (0.0, inf):
            return 0.0 if (value == 0) == (exponent > 0) else inf
        return float(value**exponent)

    ends = [mean(one.low), mean(one.high)]
    low, high = min(ends), max(ends)
    exponent = inf if power == 0 else outer / power
    if exponent == 1:
        return _Moment(metric, low, high)
    # a macro average has the outer function inside it; where that is convex, it is at least the
    # function of the mean, which is thus limited from that side only
    convex = exponent > 1 or exponent < 0 or power == 0
    end, rising = ends[1 if convex else 0], (outer > 0 if power == 0 else exponent > 0)
    return _Moment(metric, -inf, end) if convex == rising else _Moment(metric, end, inf)


class _Program:
    """The linear program of some moments, over bins of ranks."""

    def __init__(self, moments: Sequence[_Moment], most: float, step: float) -> None:
        self.moments, self._most, self._step = moments, most, step

    @cached_property
    def _bins(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each moment in each bin."""
        ks = [one.metric.f.k for one in self.moments if one.metric.f.k is not None]
        edges: set[float] = set()
        last = self._most if isfinite(self._most) else FARTHEST
        exact = np.arange(1.0, min(EXACT, last) + self._step, self._step)
        edges |= {float(rank) for rank in exact if rank <= last}
        edges |= {rank for k in ks for rank in (float(k), k + self._step) if rank <= last}
        rank = float(EXACT)
        while rank < last:  # all edges are ranks, so that none is between two that are a step apart
            rank = min(ceil(rank * GROWTH / self._step) * self._step, last)
            edges.add(rank)
        points = np.array(sorted(edges))
        gaps = [pair for pair in pairwise(points) if pair[1] - pair[0] > self._step]
        ends = np.array([*((rank, rank) for rank in points), *gaps])
        values = np.array([[one.at(ends[:, 0]), one.at(ends[:, 1])] for one in self.moments])
        low, high = values.min(axis=1), values.max(axis=1)
        if not isfinite(self._most):
            final = np.array([[one.at(points[-1:])[0], one.limit] for one in self.moments])
            low = np.column_stack([low, final.min(axis=1)])
            high = np.column_stack([high, final.max(axis=1)])
        return low, high

    def feasible(self, which: Iterable[int]) -> bool:
        """Check whether some distribution has these moments."""
        return self._solve(list(which)) <= TOLERANCE

    def _solve(self, which: Sequence[int]) -> float:
        """Return the smallest relative violation that every distribution has."""
        from scipy.optimize import linprog

        rows, limits = self._rows(which, relax=True)
        if not rows:
            return 0.0
        bins = len(rows[0]) - 1
        cost = np.append(np.zeros(bins), 1.0)
        total = np.append(np.ones(bins), 0.0)[None]
        found = linprog(cost, np.array(rows), np.array(limits), total, [1.0], method="highs")
        # where the solver gives up, nothing is claimed
        return 0.0 if found.status != 0 or found.fun is None else float(found.fun)

    def _rows(self, which: Sequence[int], *, relax: bool) -> tuple[list[Floats], list[float]]:
        """Return the inequalities of these moments; with a column for their violation, if relaxed."""
        low, high = self._bins
        rows: list[Floats] = []
        limits: list[float] = []
        for i in which:
            one = self.moments[i]
            sizes = [abs(end) for end in (one.low, one.high) if isfinite(end)]
            scale = max([*sizes, 1e-9])
            extra = [-1.0] if relax else []
            if isfinite(one.high) and np.isfinite(low[i]).all():
                rows.append(np.append(low[i] / scale, extra))
                limits.append(one.high / scale)
            if isfinite(one.low) and np.isfinite(high[i]).all():
                rows.append(np.append(-high[i] / scale, extra))
                limits.append(-one.low / scale)
        return rows, limits

    def span(self, which: int, others: Sequence[int]) -> tuple[float, float]:
        """Bound a moment by others."""
        from scipy.optimize import linprog

        low, high = self._bins
        rows, limits = self._rows(others, relax=False)
        total = np.ones((1, low.shape[1]))
        found = []
        for values, sign in ((low[which], 1.0), (high[which], -1.0)):
            bound = sign * -inf
            if np.isfinite(values).all():
                one = linprog(
                    sign * values,
                    np.array(rows) if rows else None,
                    np.array(limits) if rows else None,
                    total,
                    np.ones(1),
                    method="highs",
                )
                bound = bound if one.fun is None else sign * float(one.fun)
            found.append(bound)
        return found[0], found[1]


def _explained(known: Sequence[Range], program: _Program) -> Limit:
    """Find values that exclude each other, no part of which does, and the bound that they violate."""
    needed = list(range(len(known)))
    for i in range(len(known)):
        rest = [j for j in needed if j != i]
        if not program.feasible(rest):
            needed = rest
    # MRR or MR are bounded by hits, and read better than the other way round
    target = max(needed, key=lambda i: (known[i].metric.f.k is None, known[i].metric.p == -1, -i))
    others = [i for i in needed if i != target]
    one, moment = known[target], program.moments[target]
    ends = [moment.of(end) for end in program.span(target, others)]
    named = tuple(known[i].given for i in others)
    return Limit(one.given, named, min(ends), max(ends), one.low, one.high, program._most)


def listed_in_words(names: Sequence[str]) -> str:
    """Join names as in a sentence.

    >>> listed_in_words(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
