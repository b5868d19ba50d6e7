"""Corrections `T(x)`: unbiased ones, and those under an assumed distribution of ranks.

An estimator is a table of T with a column for each count x, and one row in all or per size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.metrics.metric import RANK, Metric
from evenrank.stats.sampled._design import Design

ROUNDS = 200  # of the EM algorithm


def unbiased(metric: Metric, design: Design) -> Floats | None:
    """Compute the unbiased T of a power of the rank; None for other metrics.

    With Stirling numbers of the second kind S, `R^p = sum_j S(p + 1, j + 1) (R - 1)_j`, and falling
    factorials of hypergeometric counts have the expectation `E (x)_j = (k)_j (R - 1)_j / (N - 1)_j`, so

        T(x) = sum_j S(p + 1, j + 1) (N - 1)_j / (k)_j (x)_j,      for p <= k

    which for `p = 1` is `T(x) = 1 + (N - 1) x / k`, the Horvitz-Thompson estimator. With replacement,
    counts are binomial, `E (x)_j = (k)_j ((R - 1) / (N - 1))^j`, and the binomial theorem replaces S.
    """
    x = np.arange(design.drawn + 1.0)
    power = int(metric.p) if metric.f == RANK and metric.p > 0 and metric.p % 1 == 0 else 0
    if not 0 < power <= min(design.drawn, 3):  # above the third power, the variance of T is too large
        return None
    others = design.sizes - 1.0
    total, part = np.ones((len(others), len(x))), np.ones((len(others), len(x)))
    for j in range(power):
        left = others if design.replace else others - j
        part = part * (x - j) * (left / (design.drawn - j))[:, None]
        total = total + (comb(power, j + 1) if design.replace else STIRLING[power][j]) * part
    return total


# S(p + 1, j + 1) for j = 1..p
STIRLING = {1: (1,), 2: (3, 1), 3: (7, 6, 1)}


def plain(term: Function, design: Design) -> Floats:
    """Compute `T(x) = X(1 + x)`, which is exact if all candidates were drawn."""
    return term(np.arange(1.0, design.drawn + 2.0))[None, :]


def bias_variance(term: Function, design: Design, ranks: Ints, gamma: float) -> Floats:
    """Minimise squared bias plus gamma times variance under a uniform distribution of ranks.

    Krichene and Rendle 2020 (On sampled metrics for item recommendation): with P the distribution of the
    counts and D the uniform weights of ranks, `((1 - gamma) P'DP + gamma diag(P'D1)) T = P'D X`.
    """
    p, share, x = _uniform(design, ranks, term)
    gram = (1.0 - gamma) * (p.T * share) @ p + gamma * np.diag(share @ p)
    return np.asarray(np.linalg.solve(gram, p.T @ (share * x)), dtype=np.float64)[None, :]


def constrained(term: Function, design: Design, ranks: Ints) -> Floats:
    """Minimise squared bias under a uniform distribution of ranks, with T in the range of X.

    Krichene and Rendle 2020, constrained least squares.
    """
    from scipy.optimize import lsq_linear

    p, share, x = _uniform(design, ranks, term)
    root = np.sqrt(share)
    found = lsq_linear(p * root[:, None], x * root, (x.min(), x.max()), tol=1e-8)
    return np.asarray(found.x)[None, :]


def _uniform(design: Design, ranks: Ints, term: Function) -> tuple[Floats, Floats, Floats]:
    """Compute the distribution of counts at some ranks, the share each represents, and the term."""
    at = ranks[ranks <= design.typical]
    share = np.diff(_edges(at)) / design.typical
    return design.distribution(design.typical, at), share, term(at.astype(float))


def _edges(ranks: Ints) -> Floats:
    """Compute the edges of the intervals of ranks that some ranks represent."""
    return np.concatenate([[0.5], (ranks[1:] + ranks[:-1]) / 2.0, [ranks[-1] + 0.5]])


@dataclass(frozen=True, eq=False)
class Fit:
    """A distribution of ranks that fits the counts: `mass` at each of `ranks`.

    Many distributions have the same likelihood: where the sample cannot distinguish ranks, the fit keeps
    the shape of its starting point, which is uniform in the logarithm of the rank. Stopping before the
    maximum keeps it smooth. (Starting from a uniform distribution of ranks would put most of what looks
    like rank 1 far from it: measured in docs/sampled.md.)
    """

    ranks: Ints
    mass: Floats

    @classmethod
    def of(cls, designs: Sequence[Design], weight: Floats, ranks: Ints, rounds: int = ROUNDS) -> Fit:
        """Fit by the EM algorithm."""
        mass = np.diff(np.log(_edges(ranks)))
        mass /= mass.sum()
        counted = [(cls(ranks, mass).distribution(design), design.counted(weight)) for design in designs]
        seen = [(p[:, n > 0], n[n > 0]) for p, n in counted]
        total = sum(float(n.sum()) for _, n in seen)
        for _ in range(rounds if total else 0):
            mass = mass * sum(p @ (n / (mass @ p)) for p, n in seen) / total
        return cls(ranks, mass)

    def distribution(self, design: Design) -> Floats:
        """Compute the distribution of the counts at each rank, at most the number of candidates."""
        return design.distribution(design.typical, np.minimum(self.ranks, design.typical))

    def expected(self, values: Floats, design: Design) -> Floats:
        """Compute the posterior mean of a function of the rank, for each count x."""
        joint = self.mass[:, None] * self.distribution(design)
        return np.asarray(values @ joint / np.maximum(joint.sum(axis=0), 1e-300))

    def counts(self, design: Design) -> Floats:
        """Compute the probability of each count x."""
        return np.asarray(self.mass @ self.distribution(design))


def posterior(term: Function, design: Design, fit: Fit) -> Floats:
    """Compute the posterior mean of the term for each count x, under a fitted distribution of ranks."""
    ranks = np.minimum(fit.ranks, design.typical)
    return fit.expected(term(ranks.astype(float)), design)[None, :]
