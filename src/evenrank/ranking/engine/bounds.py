"""Bounds on the error of float32 scores: the proof that fast counting gives the exact counts.

Write `u = 2^-24` for the unit roundoff of float32 and `tiny = 2^-126` for its smallest normal number:
an operation on float32 errs by at most `u` relatively, or `tiny` absolutely where the result is so
small (which allows for machines that flush such results to zero). Let `q` be a query vector in float64,
`e` a candidate's row, `q'`, `e'` their roundings to float32 (`e' = e` for a float32 table), `s` the
float64 score by definition and `s'` what a kernel computes from `q'` and `e'`. Kernels sum `CHUNK`
dimensions at a time and add up the sums, so a term takes part in at most `a = min(d, CHUNK) + ceil(d /
CHUNK)` additions, and any sum of terms `x_i` errs by at most `a u' sum|x_i|`, where `u' = u / (1 - a
u)` takes care of the products of errors [Higham, Accuracy and Stability of Numerical Algorithms,
section 3.1 and 4.2].

**dot.** `|s' - s| <= (a + 3) u' |q| |e| + tiny (sqrt(d) (|q| + |e|) + 2 d)`: one `u` each for rounding
q, e and the product, Cauchy-Schwarz for the sum; the second term for what underflows. (`|.|` is the
Euclidean norm.)

**L1, modulus.** `D = sum |q_i - e_i| >= 0`, so rounding is relative to D itself: `|D' - D''| <= c u'
D''`, where `D''` is the distance of the rounded vectors and `c = a + 1` (subtraction), or `a + 5 +
2^11` for moduli: `4 u` under the root, halved by it, and at most `2^-13` for the root, as the fastest
kernel takes it from an approximate reciprocal root (error below `2^-14`). By the triangle inequality
`|D'' - D| <= |q - q'|_1 + |e - e'|_1 <= u (|q|_1 + |e|_1) + ...`. Squares below `2^-120` are not
resolved, nor moduli below `2^-60`.

**L2.** `D = sum (q_i - e_i)^2`, ranked by the square. `c = a + 3`, and the triangle inequality holds
for the root: `|sqrt(D'') - sqrt(D)| <= |q - q'| + |e - e'|`.

Everything here is computed in float64 and widened by `SLACK`, which is more than its own rounding. The
float64 score errs too, by about `2^-50` of the same norms: `SLACK` covers that as well. Where float32
could overflow, bounds are infinite: every pair is then undecided and settled in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Floats, Ints

Form = Literal["dot", "l1", "l2", "modulus"]
FORMS: tuple[Form, ...] = ("dot", "l1", "l2", "modulus")
CHUNK = 64  # as in _kernels.c
U = 2.0**-24
TINY = 2.0**-126
SLACK = 1 + 2.0**-10
HUGE = 2.0**100  # far from overflow, whatever a single operation does with it


# (begin and end of the queries, counts to add to) -> number of undecided pairs, first pair that is NaN
Found = tuple[int, tuple[int, int] | None]
Counter = Callable[[int, int, Ints, Ints], Found]


class Bounds(NamedTuple):
    """Scores between `low - slope * weight` and `high + slope * weight` are undecided in float32.

    `low` and `high` are per target, `slope` per query, `weight` per candidate.
    """

    low: Floats
    high: Floats
    slope: Floats
    weight: Floats


def norms(rows: NDArray[Any]) -> Floats:
    """Compute Euclidean norms, also of rows whose squares overflow or underflow."""
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    result = np.sqrt(squares)
    rough = ~((squares > 1e-280) & (squares < 1e280))
    if rough.any():
        some = rows[rough].astype(np.float64)
        largest = np.abs(some).max(axis=1, initial=0)
        scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
        result[rough] = scale * np.sqrt(np.square(some / scale[:, None]).sum(axis=1))
    return np.asarray(result)


def bounds(
    form: Form, d: int, queries: Floats, rows: NDArray[Any], query_of: Ints, score: Floats
) -> Bounds:
    """Bound the errors of the float32 scores of candidates' rows, relative to the target scores."""
    additions = min(d, CHUNK) + -(-d // CHUNK)
    unit = U / (1 - additions * U) * SLACK
    root_d = np.sqrt(d)
    flat = np.zeros(len(queries))
    with np.errstate(over="ignore", invalid="ignore"):
        if form == "dot":
            # beyond HUGE a vector could overflow when rounded to float32
            size, weight = (
                np.where(size < HUGE, size, np.inf) for size in (norms(queries), norms(rows))
            )
            slope = (additions + 3) * unit * size + TINY * root_d
            beside = (TINY * (root_d * size + 2 * d))[query_of] * SLACK
            return Bounds(score - beside, score + beside, slope, weight)
        # the score is minus the distance, so low and high change places
        length = norms if form == "l2" else _lengths
        off = U * length(queries) + TINY * d
        if rows.dtype != np.float32:
            off = off + U * length(rows).max(initial=0) + TINY * d
        off = off[query_of] * SLACK
        terms = {"l1": 1, "l2": 3, "modulus": 5 + 2**11}[form]
        relative = (additions + terms) * unit
        distance = -score
        lost = d * (2.0**-59 if form == "modulus" else TINY) * SLACK
        if form == "l2":
            root = np.sqrt(distance)
            near, far = np.square(np.maximum(root - off, 0)), np.square(root + off)
        else:
            near, far = distance - off, distance + off
        low = -(far / (1 - relative) * SLACK_UP + lost)
        high = -(near * (1 - relative) / SLACK_UP - lost)
    # where entries, or squares under a root, could overflow, nothing is decided
    most = HUGE if form != "modulus" else 2.0**60
    large = np.abs(queries).max(axis=1, initial=0)[query_of]
    beyond = ~((large < most) & (distance < HUGE) & (np.abs(rows).max(initial=0) < most))
    low[beyond], high[beyond] = -np.inf, np.inf
    return Bounds(low, high, flat, np.zeros(len(rows)))


SLACK_UP = 1 + 2.0**-40  # for sums of a few rounded float64 numbers


def _lengths(rows: NDArray[Any]) -> Floats:
    return np.asarray(np.abs(rows).sum(axis=1), dtype=np.float64)
