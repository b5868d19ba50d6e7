"""Matrix products with the same bits in every batch, thread count and BLAS, and on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp
from typing import Any, TypeAlias

import numpy as np

from evenrank._internal.arrays import Floats, Ints, is_tensor

Array: TypeAlias = Any  # of NumPy, or of torch on a device

CELLS = 1 << 21  # numbers of matrices held at once
CELLS_THERE = 1 << 22  # the same on a device, where few large steps are faster
BLOCK = 64  # rows on a device that share one copy of a matrix
EXPONENT = 0x7FF << 52  # the bits of a float64 that hold its exponent


def by_group(rows: Array, r: Array, matrices: Callable[[Any], Array], relations: int) -> Array:
    """Multiply each row by the matrix of its relation, one of `relations`."""
    if is_tensor(rows):
        return _by_block(rows, r, matrices, relations)
    return _by_relation(rows, r, matrices)


def _by_relation(rows: Floats, r: Ints, matrices: Callable[[Ints], Floats]) -> Floats:
    """Multiply all rows of a relation at once, which is the least work."""
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


def _by_block(rows: Array, r: Array, matrices: Callable[[Array], Array], relations: int) -> Array:
    """Multiply blocks of rows that share a relation, many at once, which takes the fewest launches.

    The last block of a relation is padded by repeating its last row, and spare blocks by repeating the
    last row of all: the same result is then written several times. The largest possible number of
    blocks is known on the host; the actual number would have to be read back from the device, which
    would wait for everything launched before.
    """
    import torch

    n, d = rows.shape
    blocks = n // BLOCK + min(n, relations)
    numbers = torch.arange(max(n, blocks + 2, BLOCK), device=r.device)
    order = torch.argsort(r)
    ordered = r[order]
    within = numbers[:n] - torch.searchsorted(ordered, ordered)
    block = (within % BLOCK == 0).cumsum(0)  # of each row, in that order, numbered from 1
    begin = torch.searchsorted(block, numbers[1 : blocks + 2])[:, None]
    mine = order[torch.minimum(begin[:-1] + numbers[:BLOCK], begin[1:] - 1)]
    result = torch.empty_like(rows)
    step = max(1, CELLS_THERE // (d * max(d, BLOCK)))
    for at in range(0, blocks, step):
        some = mine[at : at + step]
        # rows above the columns they are multiplied by, so that both are sliced at once
        both = torch.cat([rows[some], matrices(r[some[:, 0]]).mT], dim=1)
        cut = Slices.of(both, axis=2)
        result[some] = cut[:, :BLOCK] @ cut[:, BLOCK:].T
    return result


@dataclass(frozen=True)
class Slices:
    """A matrix as the sum of three matrices of few bits each, whose products need no rounding.

    Libraries may add in any order, so the results of their matrix products depend on threads, batches,
    machines and devices, unless no addition rounds. Rows (or columns) are divided by a power of two, so
    that the largest entry is between 1 and 2, and entries are cut into slices of b bits with
    `2 b + log2(length) <= 53`. Products of slices are then sums of integers below 2^53, times a power
    of two far from overflow and underflow, which any float64 arithmetic computes exactly, tensor cores
    included. The six largest products, added in a fixed order, give the true product within about 2^-66
    of those largest entries (Ozaki et al. 2012). A value that is not finite makes its whole row (or
    column) of the product NaN.

    >>> a = np.array([[0.1, 0.2, 0.7]])
    >>> float((Slices.of(a, axis=1) @ Slices.of(a.T, axis=0))[0, 0])
    0.5399999999999999
    """

    parts: tuple[Array, Array, Array]
    scale: Array

    @classmethod
    def of(cls, matrix: Array, axis: int) -> Slices:
        """Slice a float64 matrix, or several; `axis` is the one that the product sums over."""
        bits = (53 - frexp(matrix.shape[axis])[1]) // 2
        scale = _scale(matrix, axis)
        rest = matrix / scale
        first = _rounded(rest, 1 - bits)
        rest = rest - first
        second = _rounded(rest, 1 - 2 * bits)
        return cls((first, second, _rounded(rest - second, 1 - 3 * bits)), scale)

    def __getitem__(self, which: Any) -> Slices:
        """Select rows of a matrix that was sliced by rows."""
        first, second, third = (part[which] for part in self.parts)
        return Slices((first, second, third), self.scale[which])

    @property
    def T(self) -> Slices:  # noqa: N802  # as NumPy and torch call it
        """The transpose, or the transposes of several matrices."""
        first, second, third = (part.swapaxes(-1, -2) for part in self.parts)
        return Slices((first, second, third), self.scale.swapaxes(-1, -2))

    def __matmul__(self, other: Slices) -> Array:
        """Multiply, adding the smallest products first."""
        (a, b, c), (x, y, z) = self.parts, other.parts
        return (((c @ x + a @ z) + b @ y) + (b @ x + a @ y) + a @ x) * self.scale * other.scale


def _rounded(numbers: Array, exponent: int) -> Array:
    """Round to multiples of 2^exponent, ties to even; the multiples must be below 2^51.

    Adding a number between 2^52 and 2^53 times as large drops all smaller digits.
    """
    large = 1.5 * 2.0 ** (52 + exponent)
    return (numbers + large) - large


def _scale(matrix: Array, axis: int) -> Array:
    """Return the largest power of two in the largest entry of each row (or column).

    It is the largest entry without the bits of its fraction, clipped so that neither it nor a division
    by it can overflow.
    """
    if is_tensor(matrix):
        import torch

        largest = torch.linalg.vector_norm(matrix, torch.inf, axis, keepdim=True)
        bits = largest.view(torch.int64) & EXPONENT
        return bits.view(torch.float64).clip(2.0**-1000, 2.0**1023)
    bits = np.abs(matrix).max(axis=axis, keepdims=True).view(np.int64) & EXPONENT
    return bits.view(np.float64).clip(2.0**-1000, 2.0**1023)
