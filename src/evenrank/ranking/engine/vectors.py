"""Query vectors: formulas that combine a row of one table with a row of another."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Literal

from evenrank._internal.arrays import Ints, is_tensor, join, wide

Rule = Literal["sum", "difference", "product", "turn", "turn back"]
RULES: tuple[Rule, ...] = ("sum", "difference", "product", "turn", "turn back")

# kernels of the device in use: one launch instead of ten
kernels: ContextVar[Any] = ContextVar("kernels", default=None)


def combined(rule: Rule, left: Any, i: Ints, right: Any, j: Ints) -> Any:
    """Combine rows `i` of one table with rows `j` of another, in float64.

    "turn" multiplies complex numbers (real parts, then imaginary parts); "turn back" multiplies by the
    complex conjugates of the second table's rows.

    >>> import numpy as np
    >>> combined("turn back", np.array([[0.0, 1.0]]), [0], np.array([[0.0, 1.0]]), [0])
    array([[1., 0.]])
    """
    if kernels.get() is not None and is_tensor(left):
        return kernels.get().combined(rule, left, i, right, j)
    x, y = wide(left[i]), wide(right[j])
    if rule == "sum":
        return x + y
    if rule == "difference":
        return x - y
    if rule == "product":
        return x * y
    half = x.shape[1] // 2
    a, b, c, d = x[:, :half], x[:, half:], y[:, :half], y[:, half:]
    if rule == "turn":
        return join(a * c - b * d, a * d + b * c)
    return join(a * c + b * d, b * c - a * d)
