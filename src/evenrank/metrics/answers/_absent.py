"""The probability that the first positions of a random ranking hold no answer."""

from __future__ import annotations

import numpy as np

from evenrank._internal.arrays import Floats

STIRLING = 16.0  # from here on, four terms of Stirling's series have full precision


def log_absent(n: Floats, m: Floats, x: Floats) -> Floats:
    """Compute log P(no answer in the first x positions), `C(N - x, m) / C(N, m)`.

    x need not be whole; where fewer than m positions are left, the result is -inf. Few answers make a
    product. Otherwise, Stirling's formula is arranged so that its leading terms do not cancel; it needs
    N - m - x to be large, so that x is lowered first.

    >>> float(np.exp(log_absent(np.array([10.0]), np.array([3.0]), np.array([2.0])))[0]) * 15
    7.0...
    """
    n, m, x = np.broadcast_arrays(n, m, x)
    possible = n - m - x >= 0
    if not possible.all():
        out = np.full(n.shape, -np.inf)
        out[possible] = log_absent(n[possible], m[possible], x[possible])
        return out
    # symmetric in m and x: a few positions make a product as well
    swap = (m > STIRLING) & (x <= STIRLING) & (x == np.floor(x))
    m, x = np.where(swap, x, m), np.where(swap, m, x)
    few = m <= STIRLING
    out = np.zeros(n.shape)
    for j in range(int(m[few].max(initial=0.0))):
        on = few & (j < m)
        out[on] += np.log1p(-x[on] / (n[on] - j))
    if few.all():
        return out
    n, m, x = n[~few], m[~few], x[~few]
    lowered = np.ceil(np.maximum(STIRLING - (n - m - x), 0.0))
    y = x - lowered
    left = n - m - y
    # log(z! (z' + ..)! ..) by sum (z + 1/2) log z - z + c(z), grouped so that each part is small
    log = (left + 0.5) * np.log1p(m * y / (left * n)) + m * np.log1p(-y / n) + y * np.log1p(-m / n)
    log += _stirling(n - y) + _stirling(n - m) - _stirling(left) - _stirling(n)
    for i in range(int(lowered.max())):
        on = i < lowered
        log[on] += np.log((left[on] - i) / (n[on] - y[on] - i))
    out[~few] = log
    return out


def _stirling(z: Floats) -> Floats:
    y = 1.0 / (z * z)
    return np.asarray((1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / z)
