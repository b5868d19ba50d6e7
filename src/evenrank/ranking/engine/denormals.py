"""Numbers closest to zero, which a processor can be told to round to zero: their scores would tie.

`torch.set_flush_denormal(True)` does this for the calling thread and those that it starts; some
libraries do so when they are loaded. Ranks must not depend on it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


def flushed() -> bool:
    """Return whether this thread rounds denormal numbers to zero."""
    return bool((np.full(1, np.finfo(np.float64).smallest_subnormal) * 1.0 == 0)[0])


@contextmanager
def kept() -> Iterator[None]:
    """Compute with denormal numbers until the `with` block ends; warn if that cannot be arranged."""
    torch = sys.modules.get("torch") if flushed() else None
    if torch is not None:
        torch.set_flush_denormal(False)
    if flushed():
        warnings.warn(
            f"this thread rounds numbers below {np.finfo(np.float64).tiny:.0e} to zero, so scores that "
            "small will tie; find the library that sets this mode when it is imported",
            RuntimeWarning,
            stacklevel=4,
        )
    try:
        yield
    finally:
        if torch is not None:
            torch.set_flush_denormal(True)
