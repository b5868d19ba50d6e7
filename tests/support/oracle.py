"""Reference implementation of the core in plain Python: one line per definition, without NumPy."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

Rows = Sequence[tuple[int, int]]  # (better, equal) per target


def ranks_of(row: tuple[int, int], ties: str) -> list[float]:
    """The equally likely ranks of a row."""
    better, equal = row
    low, high = better + 1, better + equal + 1
    return {
        "optimistic": [float(low)],
        "pessimistic": [float(high)],
        "realistic": [(low + high) / 2],
        "expected": [float(r) for r in range(low, high + 1)],
    }[ties]


def power_mean(f, p: float, q: int, rows: Rows, weights: Sequence[float], ties: str) -> float:  # type: ignore[no-untyped-def]
    """(sum w f^p / sum w)^(q/p), averaging f^p over tied ranks."""
    options = [[f(r) for r in ranks_of(row, ties)] for row in rows]
    used = [(values, w) for values, w in zip(options, weights, strict=True) if w > 0]
    if p == math.inf:
        mean = max(max(values) for values, _ in used)
    elif p == -math.inf:
        mean = min(min(values) for values, _ in used)
    elif p <= 0 and any(v == 0 for values, _ in used for v in values):
        mean = 0.0
    else:
        total = math.fsum(w for _, w in used)
        term = math.log if p == 0 else lambda v: v**p
        sums = math.fsum(w * math.fsum(map(term, values)) / len(values) for values, w in used) / total
        mean = math.exp(sums) if p == 0 else sums ** (1 / p)
    return mean if q == 1 else (1 / mean if mean else math.inf)


def chance(value, sizes: Sequence[int]) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Mean and variance of value(ranks) over every outcome."""
    outcomes = [value(ranks) for ranks in itertools.product(*(range(1, n + 1) for n in sizes))]
    mean = math.fsum(outcomes) / len(outcomes)
    return mean, math.fsum((x - mean) ** 2 for x in outcomes) / len(outcomes)


def exact_mrr_chance(sizes: Sequence[int]) -> tuple[Fraction, Fraction]:
    """Mean and variance of MRR in exact rational arithmetic."""
    means = [sum((Fraction(1, j) for j in range(1, n + 1)), Fraction()) / n for n in sizes]
    squares = [sum((Fraction(1, j * j) for j in range(1, n + 1)), Fraction()) / n for n in sizes]
    count = len(sizes)
    variances = [s - m * m for s, m in zip(squares, means, strict=True)]
    return sum(means, Fraction()) / count, sum(variances, Fraction()) / count**2


def median(rows: Rows, ties: str) -> float:
    """The median of the ranks; of an even number, the mean of the middle two."""
    rule = "realistic" if ties == "expected" else ties
    return statistics.median(ranks_of(row, rule)[0] for row in rows)


def count(scores: Sequence[float], target: int, known: Sequence[bool]) -> tuple[int, int, int]:
    """Better, equal and candidates of one target."""
    others = [s for i, s in enumerate(scores) if i != target and not known[i]]
    goal = scores[target]
    return sum(s > goal for s in others), sum(s == goal for s in others), len(others) + 1


# Ranking ------------------------------------------------------------------------------------------


def rank(
    score: Callable[[tuple[int, ...], int], float],
    query: tuple[int, ...],
    target: int,
    known: Iterable[int],
    candidates: Iterable[int],
) -> tuple[int, int, int]:
    """Better, equal and candidates of one target: loop over the candidates and compare."""
    others = set(candidates) - set(known) - {target}
    goal = score(query, target)
    better = sum(score(query, other) > goal for other in others)
    equal = sum(score(query, other) == goal for other in others)
    return better, equal, len(others) + 1


def by_halves(terms: Sequence[float]) -> float:
    """Add the second half of a power of two of terms onto the first, until one is left."""
    width = 1
    while width < len(terms):
        width *= 2
    terms = [*terms, *[0.0] * (width - len(terms))]
    while len(terms) > 1:
        half = len(terms) // 2
        terms = [x + y for x, y in zip(terms[:half], terms[half:], strict=True)]
    return terms[0]


def definition(form: str, query: Sequence[float], row: Sequence[float]) -> float:
    """A score in Python's floats, which are float64."""
    if form == "dot":
        return by_halves([q * e for q, e in zip(query, row, strict=True)])
    apart = [q - e for q, e in zip(query, row, strict=True)]
    if form == "l1":
        return -by_halves([abs(x) for x in apart])
    if form == "l2":
        return -by_halves([x * x for x in apart])
    real, imaginary = apart[: len(apart) // 2], apart[len(apart) // 2 :]
    return -by_halves([math.sqrt(x * x + y * y) for x, y in zip(real, imaginary, strict=True)])
