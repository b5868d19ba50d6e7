"""Envelopes: a `T` that is on average never too small for any rank, and one that is never too large.

Let `E_R T >= X(R)` for all R. Then the mean of `T(x)` over targets is on average at least the mean of
`X(R)`, whatever the ranks are, and a margin of error above it is an upper bound with a known level. The
best such T has the least mean plus margin under the counts to be expected,

    minimise   q . T + z sum_j s_j |T(j) - T(j + 1)|     subject to   E_R T >= X(R) for all R

where `q` are the probabilities of the counts and `s_j` the standard error of the share of `x <= j`: the
sum bounds the standard error of the mean of T from above, and is linear. The T found need not be the
best to be right: its constraints alone make it so. But it must not be chosen on the counts it is applied
to, or it would fit their noise; so half of the targets choose for the other half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Function
from evenrank.stats.sampled._design import Design, jumps

STEEP = 20.0  # how far T may step at once, in all that X changes
SAFE = 0.25  # z: the sum is about eight times the standard error, so this is about two of them


def envelope(term: Function, design: Design, q: Floats, n: float) -> tuple[Floats, Floats]:
    """Give T that is never too large, and T that is never too small, with `n` targets in mind."""
    lower = -_upper(lambda r: -term(r), design, q, n)
    return lower[None, :], _upper(term, design, q, n)[None, :]


def _upper(term: Function, design: Design, q: Floats, n: float) -> Floats:
    """Solve the linear program: T is a last value plus steps up and down, each at a price."""
    from scipy.optimize import linprog

    wanted, law, program = _constraints(term, design)
    least, span = wanted.min(), float(np.ptp(wanted)) or 1.0
    steps = np.cumsum(law[program], axis=1)[:, :-1]  # P(x <= the end of a bin), for each rank
    share = np.cumsum(np.add.reduceat(q, design.bins))[:-1]
    price = SAFE * np.sqrt(np.maximum(share * (1.0 - share), 0.0) / n + 1.0 / n**2)
    found = linprog(
        np.concatenate([[1.0], share + price, price - share]),
        A_ub=-np.hstack([np.ones((len(steps), 1)), steps, -steps]),
        b_ub=-(wanted[program] - least) / span,
        bounds=[(-STEEP, STEEP)] + [(0.0, STEEP)] * (2 * len(share)),
        method="highs",
    )
    assert found.x is not None  # a constant T above all X is always possible
    last, up, down = np.split(found.x, [1, 1 + len(share)])
    values = least + span * (last + np.append(np.cumsum((up - down)[::-1])[::-1], 0.0))
    values += max(0.0, float((wanted - law @ values).max()))  # what it lacks between the ranks
    return np.repeat(values, np.diff(np.append(design.bins, design.drawn + 1)))


def _constraints(term: Function, design: Design) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Give the term at the ranks looked at, the law of the bins there, and which make the program."""
    found = []
    for size, (ranks, law, program) in design.grids.items():
        extra = jumps(term, size)
        found += [(ranks, law, program), (extra, design.binned(size, extra), np.ones(len(extra), bool))]
    ranks, law, program = (np.concatenate(part) for part in zip(*found, strict=True))
    return term(ranks.astype(float)), law, program
