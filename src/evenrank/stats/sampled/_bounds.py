"""Envelopes: a `T` whose expectation is never too small for any rank, and one that is never too large.

Let `E_R T >= X(R)` for all R. Then the expected mean of `T(x)` over targets is at least the mean of
`X(R)`, for every distribution of ranks, and a margin of error above it is an upper confidence bound.
The best such T has the smallest mean plus margin under the expected counts,

    minimise   q . T + z sum_j s_j |T(j) - T(j + 1)|     subject to   E_R T >= X(R) for all R

where `q` are the probabilities of the counts and `s_j` the standard error of the share of `x <= j`: the
sum bounds the standard error of the mean of T from above, and is linear. The bound is valid for every T
that satisfies the constraints, also if it is not the best. But T must not be chosen on the counts it is
applied to, or it would overfit; so it is chosen on one half of the targets and applied to the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Function
from evenrank.stats.sampled._design import Design, jumps

STEEP = 20.0  # the largest step of T, in units of the range of X
SAFE = 0.25  # z: the sum is about eight times the standard error, so this is about two of them


def envelope(term: Function, design: Design, q: Floats, n: float) -> tuple[Floats, Floats]:
    """Compute T that is never too large, and T that is never too small, for `n` targets."""
    lower = -_upper(lambda r: -term(r), design, q, n)
    return lower[None, :], _upper(term, design, q, n)[None, :]


def _upper(term: Function, design: Design, q: Floats, n: float) -> Floats:
    """Solve the linear program: T is its last value plus steps up and down, each with a cost."""
    from scipy.optimize import linprog

    wanted, p, program = _constraints(term, design)
    least, span = wanted.min(), float(np.ptp(wanted)) or 1.0
    steps = np.cumsum(p[program], axis=1)[:, :-1]  # P(x <= the end of a bin), for each rank
    share = np.cumsum(np.add.reduceat(q, design.bins))[:-1]
    price = SAFE * np.sqrt(np.maximum(share * (1.0 - share), 0.0) / n + 1.0 / n**2)
    found = linprog(
        np.concatenate([[1.0], share + price, price - share]),
        A_ub=-np.hstack([np.ones((len(steps), 1)), steps, -steps]),
        b_ub=-(wanted[program] - least) / span,
        bounds=[(-STEEP, STEEP)] + [(0.0, STEEP)] * (2 * len(share)),
        method="highs",
    )
    assert found.x is not None  # a constant T above all X is always feasible
    last, up, down = np.split(found.x, [1, 1 + len(share)])
    values = least + span * (last + np.append(np.cumsum((up - down)[::-1])[::-1], 0.0))
    values += max(0.0, float((wanted - p @ values).max()))  # for the ranks between those of the program
    return np.repeat(values, np.diff(np.append(design.bins, design.drawn + 1)))


def _constraints(term: Function, design: Design) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Compute the term and the distribution of the bins at some ranks; mark those of the program."""
    found = []
    for size, (ranks, p, program) in design.grids.items():
        extra = jumps(term, size)
        found += [(ranks, p, program), (extra, design.binned(size, extra), np.ones(len(extra), bool))]
    ranks, p, program = (np.concatenate(part) for part in zip(*found, strict=True))
    return term(ranks.astype(float)), p, program
