"""Matrix products with the same bits in every batch, thread count and BLAS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp

import numpy as np

from evenrank.sums import Floats, Ints

CELLS = 1 << 21  # numbers of matrices held at once


def by_group(rows: Floats, r: Ints, matrices: Callable[[Ints], Floats]) -> Floats:
    """Multiply each row with the matrix of its relation."""
    result = np.empty_like(rows)
    order = np.argsort(r, kind="stable")
    used, begin = np.unique(r[order], return_index=True)
    step = max(1, CELLS // rows.shape[1] ** 2)
    parts = np.split(order, begin[1:])
    for at in range(0, len(used), step):
        several = matrices(used[at : at + step])
        for mine, matrix in zip(parts[at : at + step], several, strict=True):
            result[mine] = Slices.of(rows[mine], axis=1) @ Slices.of(matrix, axis=0)
    return result


@dataclass(frozen=True)
class Slices:
    """A matrix cut into three of few bits, so that BLAS multiplies without rounding.

    BLAS may add in any order, so its result depends on threads, batches and machines; but not where no
    addition rounds. Entries are cut, relative to the largest of their row (or column), into slices of
    b bits with `2 b + log2(length) <= 53`: products of slices are sums of integers below 2^53, times a
    power of two. The six largest products add up, in one order, to the true product within about
    2^-66 of those largest entries (Ozaki et al. 2012).

    >>> a = np.array([[0.1, 0.2, 0.7]])
    >>> float((Slices.of(a, axis=1) @ Slices.of(a.T, axis=0))[0, 0])
    0.5399999999999999
    """

    parts: tuple[Floats, Floats, Floats]

    @classmethod
    def of(cls, matrix: Floats, axis: int) -> Slices:
        """Cut a matrix; `axis` is the one that the product sums over."""
        bits = (53 - frexp(matrix.shape[axis])[1]) // 2
        largest = np.abs(matrix).max(axis=axis, keepdims=True)
        _, exponent = np.frexp(np.where(np.isfinite(largest), largest, np.nan))
        parts = []
        rest = matrix
        for number in (1, 2, 3):
            unit = np.ldexp(1.0, np.clip(exponent - number * bits, -1000, 1000))
            part = np.rint(rest / unit) * unit
            parts.append(part)
            rest = rest - part
        return cls((parts[0], parts[1], parts[2]))

    def __matmul__(self, other: Slices) -> Floats:
        """Multiply, the smallest products first."""
        (a, b, c), (x, y, z) = self.parts, other.parts
        return np.asarray(((c @ x + a @ z) + b @ y) + (b @ x + a @ y) + a @ x)
