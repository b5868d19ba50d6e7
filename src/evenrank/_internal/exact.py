"""Sums of floats without rounding: integers that add up to the same bits in any order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from evenrank._internal.arrays import Floats, Ints

UNIT = 1074  # every float is a whole number of 2^-1074
BITS = 53
LOW = 26  # bits of the lower half of a mantissa
CHUNK = 1 << 25  # halves of as many mantissas add up exactly as floats


class ExactSum:
    """The sum of floats, as a whole number of 2^-1074.

    Parameters
    ----------
    units : int
        The sum times 2^1074.

    Examples
    --------
    >>> a, b = ExactSum.of(np.array([0.1, 1e20, 0.2])), ExactSum.of(np.array([-1e20]))
    >>> (a + b).over(ExactSum.of(np.ones(1))), ((a + b).units == (b + a).units)
    (0.30000000000000004, True)
    """

    __slots__ = ("units",)

    def __init__(self, units: int = 0) -> None:
        self.units = units

    @classmethod
    def of(cls, values: Floats) -> ExactSum:
        """Add up finite floats."""
        units = 0
        for start in range(0, len(values), CHUNK):
            fraction, exponent = np.frexp(values[start : start + CHUNK])
            mantissa = np.ldexp(fraction, BITS).astype(np.int64)
            least = int(exponent.min())
            place = exponent - least
            high = np.bincount(place, weights=mantissa >> LOW)
            low = np.bincount(place, weights=mantissa & ((1 << LOW) - 1))
            shift = least - BITS + UNIT
            for i in np.flatnonzero((high != 0) | (low != 0)).tolist():
                part = (int(high[i]) << LOW) + int(low[i])
                by = shift + i
                units += part << by if by >= 0 else part >> -by  # denormals end in zeros
        return cls(units)

    @classmethod
    def of_count(cls, count: int) -> ExactSum:
        """Return a whole number.

        >>> ExactSum.of_count(3) == ExactSum.of(np.ones(3))
        True
        """
        return cls(count << UNIT)

    def words(self) -> Ints:
        """Return the sum as 64-bit words, lowest first; the sign is that of the last word.

        >>> ExactSum.of_words(ExactSum.of(np.array([-0.1, 3.0])).words())
        ExactSum(2.9)
        """
        size = self.units.bit_length() // 64 + 1
        return np.frombuffer(self.units.to_bytes(8 * size, "little", signed=True), dtype="<i8")

    @classmethod
    def of_words(cls, words: Ints) -> ExactSum:
        """Read the sum from its words."""
        return cls(int.from_bytes(words.astype("<i8").tobytes(), "little", signed=True))

    def __add__(self, other: ExactSum) -> ExactSum:
        """Add without rounding."""
        return ExactSum(self.units + other.units)

    def __eq__(self, other: object) -> bool:
        """Compare exactly."""
        return isinstance(other, ExactSum) and self.units == other.units

    def __hash__(self) -> int:
        """Hash the sum."""
        return hash(self.units)

    def __repr__(self) -> str:
        """Show the sum as a float."""
        return f"ExactSum({float(self)!r})"

    def __float__(self) -> float:
        """Round to the nearest float."""
        return float(Fraction(self.units, 1 << UNIT))

    def over(self, other: ExactSum) -> float:
        """Divide by another sum and round once."""
        return float(Fraction(self.units, other.units))
