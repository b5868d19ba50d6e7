"""Joint consistency of the published metrics of one model.

Each check is an inequality that holds for all ranks r >= 1, such as `hits@1 <= mrr`. A printed value
stands for all values that are rounded to it, and an inequality is reported only if all of these violate
it. So values that were computed from ranks and rounded never contradict each other.

With the shares of targets in bins of ranks, `hits@1`, `hits@10 - hits@1`, `1 - hits@10`, a mean of a
monotone function of the rank lies between the means of its values at both ends of the bins. The bounds
are sharp: no others hold for all ranks with these hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product
from math import inf, isfinite
from operator import itemgetter
from typing import Any

from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.metric import RANK, Metric
from evenrank.published._setting import Candidates
from evenrank.published._value import SLACK, PublishedValue, decide_percent

SINGLE = 1e-6  # relative: many programs compute metrics in single precision
HALF = 0.5  # ties at their mean rank have ranks such as 1.5


@dataclass(frozen=True)
class Contradiction:
    """An inequality between metrics that the published values violate.

    Parameters
    ----------
    relation : str
        The inequality, such as "hits@1 <= mrr".
    given : tuple of PublishedValue
        The values in it.
    left, right : float
        The smallest value of the left side, and the largest of the right side, that are rounded to these
        values.
    whole_ranks : bool
        Whether the inequality only holds for whole ranks: ties at their mean rank, such as 1.5, may
        violate it.
    micro : bool
        Whether it only holds for micro averages: a metric that is not the mean of a function of the
        rank, such as the GMR, may violate it if it is averaged over groups of ranks.

    Examples
    --------
    >>> print(*contradictions({"mrr": "0.48", "hits@1": "52.0 %"}))
    hits@1=52.0 % and mrr=0.48 contradict each other: hits@1 <= mrr, but even with rounding
    0.5195 > 0.485
    """

    relation: str
    given: tuple[PublishedValue, ...]
    left: float
    right: float
    whole_ranks: bool = False
    micro: bool = False

    def __str__(self) -> str:
        """Name the values, the inequality and both sides of it."""
        values = [one.printed for one in self.given]
        named = f"{', '.join(values[:-1])} and {values[-1]}"
        unless = ", unless ties have fractional ranks" * self.whole_ranks
        sides = f"{self.left:.6g} > {self.right:.6g}"
        return f"{named} contradict each other: {self.relation}, but even with rounding {sides}{unless}"


def contradictions(
    values: Mapping[str, Any], *, percent: bool | None = None, candidates: Candidates | None = None
) -> tuple[Contradiction, ...]:
    """Check whether the published metrics of one model can belong to the same ranks.

    Parameters
    ----------
    values : mapping of str to str or float
        The values by metric, best as printed: "0.480" stands for 0.4795 to 0.4805, 0.48 for 0.475 to
        0.485.
    percent : bool, optional
        Whether metrics with maximum 1 are in percent. By default a percent sign or a value above 1
        decides.
    candidates : Candidates, optional
        The candidates. With these, ranks have a maximum, and adjusted metrics are checked as well.

    Returns
    -------
    tuple of Contradiction
        The inequalities that are violated in spite of rounding; empty if there are none.

    Raises
    ------
    InputError
        If a value is not a number, or its unit is ambiguous.

    Examples
    --------
    >>> contradictions({"mrr": 0.476, "hits@1": 0.428, "hits@10": 0.571, "mr": 3340})
    ()
    >>> [found.relation for found in contradictions({"hits@1": "30 %", "hits@3": "20 %", "mrr": 0.8})]
    ['hits@1 <= hits@3', 'mrr <= hits@1 + (1 - hits@1) / 2']
    """
    if not isinstance(values, Mapping):
        raise InputError("values must be a mapping from metric to value", got=type(values).__name__)
    given = [PublishedValue.of(name, value) for name, value in values.items()]
    return find_contradictions(decide_percent(given, list(map(str, given)), percent), candidates)


def find_contradictions(
    given: Iterable[PublishedValue], candidates: Candidates | None = None, most: float | None = None
) -> tuple[Contradiction, ...]:
    """Check values whose units are known; `most` is the largest number of candidates, if not theirs."""
    known = [range_ for one in given for range_ in ranges(one, candidates)]
    if most is None:
        most = inf if candidates is None else float(candidates.sizes["candidates"].max())
    of_k = ((one.metric.f.k, one) for one in known if one.metric.p == 1)
    hits = [(k, one.to_power(1)) for k, one in of_k if k is not None]
    hits.sort(key=itemgetter(0))
    means = [one for one in known if one.metric.f.k is None]
    found = [*_same(known), *_power_means([one for one in means if one.metric.f == RANK], most)]
    for (j, a), (k, b) in combinations(hits, 2):
        if j < k:
            found += _violated(f"{a} <= {b}", [a, b], a.low, b.high)
    for mean in means:
        if abs(mean.metric.p) == 1:
            for at_best in (False, True):
                found += _bins(mean.to_power(mean.metric.p), hits, most, at_best)
    return tuple(found)


@dataclass(frozen=True)
class Range:
    """All values of a metric that are rounded to the published one."""

    name: str
    metric: Metric
    given: PublishedValue
    low: float
    high: float

    def __str__(self) -> str:
        return self.name

    def to_power(self, q: float) -> Range:
        """Convert to a metric of outer power q, which is 1 or -1, if necessary by inversion."""
        if self.metric.q == q:
            return self
        name = self.name.removeprefix("1/") if self.name.startswith("1/") else f"1 / {self.name}"
        low, high = 1 / self.high if self.high else inf, 1 / self.low if self.low else inf
        return Range(name, 1 / self.metric, self.given, low, high)


def ranges(given: PublishedValue, candidates: Candidates | None) -> Iterator[Range]:
    """Compute the values a published one stands for; none for statistics, and if they are unknown."""
    metric = given.metric
    if not isinstance(metric, Metric) or not isfinite(metric.p):
        return
    ends = given.rounded_from
    if isinstance(given.expression, Adjusted):
        if candidates is None:
            return
        back, error = candidates.back(given.expression), SINGLE * abs(given.fraction)
        ends = back(min(ends[0], given.fraction - error)), back(max(ends[1], given.fraction + error))
    (low, high), (least, most) = sorted(ends), metric.range
    middle, error = (low + high) / 2, SINGLE * max(abs(low), abs(high))
    low, high = max(min(low, middle - error), least), min(max(high, middle + error), most)
    if not (isfinite(low) and low <= high):
        return
    yield Range(str(metric), metric, given, low, high)


def _violated(
    relation: str,
    of: Sequence[Range],
    left: float,
    right: float,
    whole_ranks: bool = False,
    *,
    micro: bool = False,
) -> Iterator[Contradiction]:
    if left > right * (1 + SLACK) + SLACK:
        yield Contradiction(relation, tuple(one.given for one in of), left, right, whole_ranks, micro)


def _same(known: Sequence[Range]) -> Iterator[Contradiction]:
    """Check that values of the same metric, raw and adjusted, are equal."""
    for a, b in permutations(known, 2):
        if a.metric == b.metric:
            yield from _violated(f"{_origin(a)} <= {_origin(b)}", [a, b], a.low, b.high)


def _origin(one: Range) -> str:
    expression = one.given.expression
    return one.name if expression == one.metric else f"{one.name} from {expression}"


def _power_means(means: Sequence[Range], most: float) -> Iterator[Contradiction]:
    """Check that power means of the ranks grow with their exponent, and MRR against MR.

    1/r is convex, so that on 1..N it lies below the line through both ends, `1 - (r - 1) / N`.
    """
    for a, b in combinations(sorted(means, key=lambda one: one.metric.p), 2):
        if a.metric == b.metric:
            continue
        yield from _in_order(a, b)
        if a.metric.p == b.metric.p:
            yield from _in_order(b, a)
        if (a.metric.p, b.metric.p) == (-1, 1) and isfinite(most):
            mrr, mr = a.to_power(-1), b.to_power(1)
            relation, bound = f"{mrr} <= 1 - ({mr} - 1) / {most:.0f}", 1 - (mr.low - 1) / most
            micro = not (_is_mean(a.metric) and _is_mean(b.metric))
            yield from _violated(relation, [a, b], mrr.low, bound, micro=micro)


def _in_order(a: Range, b: Range) -> Iterator[Contradiction]:
    """Check that one mean of the ranks is at most another; if both are inverted, at least.

    Averaged over groups, the larger mean must not be the inverse of an average of inverses.
    """
    micro = (a.metric.q, b.metric.q) not in ((1, 1), (-1, -1), (-1, 1))
    if a.metric.q == b.metric.q == -1:
        a, b = b, a
    else:
        a, b = a.to_power(1), b.to_power(1)
    yield from _violated(f"{a} <= {b}", [a, b], a.low, b.high, micro=micro)


def _is_mean(metric: Metric) -> bool:
    """Whether a metric is the mean of a function of the rank; so is its average over groups of ranks."""
    return metric.p == metric.q


def _bins(
    mean: Range, hits: Sequence[tuple[int, Range]], most: float, at_best: bool
) -> Iterator[Contradiction]:
    """Check a mean against hits: against each k alone, then against all k together."""
    ways = [[one] for one in hits] + ([list(hits)] if len(hits) > 1 else [])
    for way, end in product(ways, dict.fromkeys([inf, most])):
        found = list(_bin(mean, way, end, at_best, step=1.0))
        if found and at_best and not list(_bin(mean, way, end, at_best, step=HALF)):
            found = list(_bin(mean, way, end, at_best, step=1.0, whole_ranks=True))
        if found:
            yield from found
            return


def _bin(
    mean: Range,
    hits: Sequence[tuple[int, Range]],
    most: float,
    at_best: bool,
    step: float,
    whole_ranks: bool = False,
) -> Iterator[Contradiction]:
    """Check a mean against its value if all ranks are at the best, or the worst, ends of their bins."""
    ks = [k for k, _ in hits]
    ranks = [1.0, *(k + step for k in ks)] if at_best else [*map(float, ks), most]
    ranks = [min(rank, most) for rank in ranks]
    power = mean.metric.p

    def term(rank: float) -> float:
        if isfinite(rank):
            return float(mean.metric.f.at(rank) ** power)
        return float(mean.metric.f.limit**power) if mean.metric.f.limit or power > 0 else inf

    terms = list(map(term, ranks))
    if not all(map(isfinite, terms)):
        return
    share = pairwise([0.0, *((one.high if at_best else one.low) for _, one in hits), 1.0])
    bound = sum(x * (b - a) for x, (a, b) in zip(terms, share, strict=True))
    text = _sum_text([str(one) for _, one in hits], ranks, terms, mean.metric)
    of = [*(one for _, one in hits), mean]
    micro = not all(_is_mean(one.given.metric) for one in of)  # type: ignore[arg-type]
    falling = mean.metric.f.falling == (power > 0)
    if at_best == falling:  # the mean is at most this
        yield from _violated(f"{mean} <= {text}", of, mean.low, bound, whole_ranks, micro=micro)
    else:
        yield from _violated(f"{text} <= {mean}", of, bound, mean.high, whole_ranks, micro=micro)


def _sum_text(
    names: Sequence[str], ranks: Sequence[float], terms: Sequence[float], metric: Metric
) -> str:
    """Write the sum of the terms of each bin, times its share of the targets."""
    steps = [f"({b} - {a})" for a, b in pairwise(names)]
    shares = [names[0], *steps, f"(1 - {names[-1]})"]
    write: Callable[[str, float, float], str] = _weighted
    if metric.f == RANK and metric.p == -1:
        write = _divided
    parts = zip(shares, ranks, terms, strict=True)
    return " + ".join(write(*part) for part in parts if part[2])


def _divided(share: str, rank: float, _: float) -> str:
    return share if rank == 1 else f"{share} / {rank:g}"


def _weighted(share: str, _: float, term: float) -> str:
    return share if term == 1 else f"{term:.4g} {share}"
