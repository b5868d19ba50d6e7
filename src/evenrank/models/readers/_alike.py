"""Models that equal another model after a change of coordinates, so that their scores factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrank._internal.arrays import array, join, wide
from evenrank.errors import InputError
from evenrank.models import ComplEx, Inverse, RotatE

TINY = 1e-12  # torch's `normalize` divides by no less


def unit(rows: Any, p: float = 2) -> Any:
    """Normalise rows to length 1."""
    rows = wide(array("rows", rows))
    return rows / np.maximum(np.linalg.norm(rows, ord=p, axis=-1, keepdims=True), TINY)


def halves(rows: Any) -> tuple[Any, Any]:
    """Split rows in the middle, where a library stores two vectors in one row."""
    both = folded(rows, 2)
    return both[:, 0], both[:, 1]


def folded(rows: Any, height: int) -> Any:
    """Reshape each row to a matrix of so many rows."""
    if rows.shape[1] % height:
        raise InputError(
            f"rows cannot be split into {height} parts", got=f"a table of shape {rows.shape}"
        )
    return rows.reshape(len(rows), height, -1)


def paired(real: Any, imaginary: Any) -> Any:
    """Put two tables side by side: all real parts, then all imaginary parts."""
    if real.shape != imaginary.shape:
        raise InputError(
            "real and imaginary parts differ in shape", got=f"{real.shape} and {imaginary.shape}"
        )
    return join(real, imaginary)


def of_parts(entity: Any, entity_im: Any, relation: Any, relation_im: Any) -> ComplEx:
    """ComplEx with real and imaginary parts in separate tables."""
    return ComplEx(paired(entity, entity_im), paired(relation, relation_im))


def holographic(entity: Any, relation: Any, inverse: Inverse | None = None) -> ComplEx:
    """HolE, `sum_k w_k sum_i e_h,i e_t,i+k`, which is ComplEx after a Fourier transform.

    The transform of a circular correlation is `conj(E_h) E_t`, and by Parseval's theorem the score is
    `Re(sum_f E_h W conj(E_t)) / d` (Hayashi and Shimbo 2017). For real numbers half of the frequencies
    suffice: all but the first and, for even d, the last count twice.
    """
    d = entity.shape[1]
    twice = np.full(d // 2 + 1, 2.0)
    twice[0] = 1
    if d % 2 == 0:
        twice[-1] = 1
    spectrum, weights = np.fft.rfft(wide(entity)), np.fft.rfft(wide(relation)) * twice / d
    return ComplEx(spectrum, weights, inverse=inverse)


def analogy(entity: tuple[Any, Any, Any], relation: tuple[Any, Any, Any]) -> ComplEx:
    """ANALOGY: DistMult on some dimensions, ComplEx on others; so ComplEx with some real dimensions.

    Both tables are given as scalars, real parts, imaginary parts.
    """

    def numbers(scalar: Any, real: Any, imaginary: Any) -> Any:
        return paired(join(scalar, real), join(np.zeros_like(scalar), imaginary))

    return ComplEx(numbers(*entity), numbers(*relation))


def on_circles(entity: Any, relation: Any, p: int) -> RotatE:
    """RotatE with entities of modulus 1, from angles in radians.

    `|exp(ia) - exp(ib)|` is `2 |sin((a - b) / 2)|`; its square is `2 - 2 cos(a - b)`.
    """
    angle = wide(entity)
    return RotatE(join(np.cos(angle), np.sin(angle)), relation, p=p)
