"""Envelopes: a `T` whose expectation is never too small for any rank, and one that is never too large.

Let `E_R T >= X(R)` for all R. Then the expected mean of `T(x)` over targets is at least the mean of
`X(R)`, for every distribution of ranks, and a margin of error above it is an upper confidence bound.
The best such T has the smallest mean plus margin under the expected counts,

    minimise   q . T + z sum_j s_j |T(j) - T(j + 1)|     subject to   E_R T >= X(R) for all R

where `q` are the probabilities of the counts and `s_j` the standard error of the share of `x <= j`: the
sum bounds the standard error of the mean of T from above, and is linear. The bound is valid for every T
that satisfies the constraints, also if it is not the best. But T must not be chosen on the counts it is
applied to, or it would overfit; so it is chosen on one half of the targets and applied to the other.

Where N is much larger than k, rank 1 and rank 10 can hardly be distinguished, and the simplex method may
take millions of steps. So the program is solved to the accuracy that matters, with a limit on the steps:
first by the dual simplex method, then by an interior point method. A constant T, the largest X, always
satisfies the constraints. It is used if both methods fail, or if it is better.
"""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Function
from evenrank.stats.sampled._design import Design, jumps

STEEP = 20.0  # the largest step of T, in units of the range of X
SAFE = 0.25  # z: the sum is about eight times the standard error, so this is about two of them


Solver = Literal["highs-ds", "highs-ipm"]
SOLVERS: dict[Solver, int] = {
    "highs-ds": 5000,
    "highs-ipm": 200,
}  # in their order; the most steps of each
ACCURACY = 1e-5  # of the constraints, and of T, in units of the range of X


class Envelope(NamedTuple):
    """T that is never too large, and T that is never too small; whether both programs were solved."""

    lower: Floats
    upper: Floats
    solved: bool


def envelope(term: Function, design: Design, q: Floats, n: float) -> Envelope:
    """Compute T that is never too large, and T that is never too small, for `n` targets."""
    lower, one = _upper(lambda r: -term(r), design, q, n)
    upper, other = _upper(term, design, q, n)
    return Envelope(-lower[None, :], upper[None, :], one and other)


def _upper(term: Function, design: Design, q: Floats, n: float) -> tuple[Floats, bool]:
    """Solve the linear program: T is its last value plus steps up and down, each with a cost."""
    wanted, p, program = _constraints(term, design)
    least, span = wanted.min(), float(np.ptp(wanted)) or 1.0
    steps = np.cumsum(p[program], axis=1)[:, :-1]  # P(x <= the end of a bin), for each rank
    share = np.cumsum(np.add.reduceat(q, design.bins))[:-1]
    price = SAFE * np.sqrt(np.maximum(share * (1.0 - share), 0.0) / n + 1.0 / n**2)
    cost = np.concatenate([[1.0], share + price, price - share])
    found = _solved(
        cost, np.hstack([np.ones((len(steps), 1)), steps, -steps]), (wanted[program] - least) / span
    )
    constant = np.zeros(len(cost))
    constant[0] = 1.0
    values, costs = [], []
    for x in (constant,) if found is None else (constant, found):
        last, up, down = np.split(x, [1, 1 + len(share)])
        t = last + np.append(np.cumsum((up - down)[::-1])[::-1], 0.0)
        # for the ranks between those of the program, and for its accuracy
        short = max(0.0, float(((wanted - least) / span - p @ t).max()))
        values.append(t + short)
        costs.append(cost @ x + short)
    best = least + span * values[int(np.argmin(costs))]
    return np.repeat(best, np.diff(np.append(design.bins, design.drawn + 1))), found is not None


def _solved(cost: Floats, steps: Floats, least: Floats) -> Floats | None:
    """Minimise the cost of x, with `steps @ x >= least`; None if no method succeeds within its limit."""
    from scipy.optimize import OptimizeWarning, linprog

    for method, limit in SOLVERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)
            found = linprog(
                cost,
                A_ub=-steps,
                b_ub=-least,
                bounds=[(-STEEP, STEEP)] + [(0.0, STEEP)] * (len(cost) - 1),
                method=method,
                options={
                    "maxiter": limit,
                    "primal_feasibility_tolerance": ACCURACY,
                    "dual_feasibility_tolerance": ACCURACY,
                },
            )
        if found.status == 0:
            return np.asarray(found.x)
    return None


def _constraints(term: Function, design: Design) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Compute the term and the distribution of the bins at some ranks; mark those of the program."""
    found = []
    for size, (ranks, p, program) in design.grids.items():
        extra = jumps(term, size)
        found += [(ranks, p, program), (extra, design.binned(size, extra), np.ones(len(extra), bool))]
    ranks, p, program = (np.concatenate(part) for part in zip(*found, strict=True))
    return term(ranks.astype(float)), p, program
