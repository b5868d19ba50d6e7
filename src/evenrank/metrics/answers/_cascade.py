"""Moments of the expected reciprocal rank, `sum_s V_s / X_s` over the answers from the top.

X_s is the position of the s-th answer, and `V_s = R_(s) prod_{j<s} (1 - R_(j))` the probability that it
is the first to satisfy the user. Under random ranking, positions and the order of gains are independent:

    E ERR   = sum_s E[1/X_s] E[V_s]
    E ERR^2 = sum_{s,t} E[1/(X_s X_t)] E[V_s V_t]

Both factors are computed by recursions whose terms are all positive: over positions, with the number of
answers so far as state, and over the answers, with the number of factors of each kind.
"""

from __future__ import annotations

import numpy as np

from evenrank._internal.arrays import Floats


def reciprocals(n: Floats, m: int, last: int, steps: int) -> tuple[Floats, Floats]:
    """Compute E[1/X_s] and E[1/(X_s X_t)] for s, t up to `steps`, for each number of candidates.

    Positions beyond `last` count as infinite. `steps` is at most m and `last`.

    >>> one, two = reciprocals(np.array([3.0]), 2, 3, 2)  # {1, 2}, {1, 3} or {2, 3}
    >>> (one * 36).round(9).tolist(), (two * 108).round(9).tolist()
    ([[30.0, 14.0]], [[[81.0, 36.0], [36.0, 17.0]]])
    """
    rows, left = len(n), np.maximum(m - np.arange(float(steps)), 0.0)
    found = np.zeros((rows, steps))  # P(s answers so far)
    found[:, 0] = 1.0
    # E[1/X_s; t answers so far] at (s - 1, t), with t = s in the first column that is not zero
    open_ = np.zeros((rows, steps, steps))
    one, two = np.zeros((rows, steps)), np.zeros((rows, steps, steps))
    s = np.arange(steps)
    for x in range(1, last + 1):
        spare = n - x + 1.0
        follows = np.where(spare[:, None] > 0, left / np.maximum(spare, 1.0)[:, None], 0.0)
        follows = np.minimum(follows, 1.0)
        at = found * follows  # P(the (s+1)-th answer is at x)
        one += at / x
        two[:, s, s] += at / x**2
        moved = open_ * follows[:, None, :]
        two += moved / x
        open_ -= moved
        open_[:, :, 1:] += moved[:, :, :-1]
        open_[:, s[:-1], s[1:]] += at[:, :-1] / x
        found -= at
        found[:, 1:] += at[:, :-1]
    upper = np.triu(two, 1)
    return one, two + upper.transpose(0, 2, 1)


def reached(satisfied: Floats) -> Floats:
    """Compute the probability that the user gets to each answer, in order."""
    go_on = np.cumprod(1.0 - satisfied, axis=1)
    return np.concatenate([np.ones((len(go_on), 1)), go_on[:, :-1]], axis=1)


def stops(satisfied: Floats, steps: int) -> tuple[Floats, Floats]:
    """Compute E[V_s] and E[V_s V_t] for s, t up to `steps` over the orders of the answers of each row.

    For s < t, `V_s V_t` is a product of s - 1 squares u^2, one R u, t - s - 1 factors u and one R, with
    u = 1 - R, each of another answer: its mean is built up answer by answer.

    >>> first, both = stops(np.array([[0.5, 1.0]]), 2)
    >>> first.tolist(), both.tolist()
    ([[0.75, 0.25]], [[[0.625, 0.125], [0.125, 0.125]]])
    """
    rows, m = satisfied.shape
    # by squares and plain factors, after the answers so far: without R, with R u, with R, with both; R^2
    mean = np.zeros((rows, 5, steps, steps))
    mean[:, 0, 0, 0] = 1.0
    squares, plain = np.arange(float(steps))[:, None], np.arange(float(steps))
    extra = np.array([0.0, 1.0, 1.0, 2.0, 1.0])[:, None, None]
    for i in range(m):
        r = satisfied[:, i][:, None, None]
        u, seen = 1.0 - r, i + 1.0
        # the i-th answer has one of the places with equal chances, or none of them
        new = mean * np.maximum(seen - squares - plain - extra, 0.0)
        new[:, :, 1:] += u[..., None] ** 2 * squares[1:] * mean[:, :, :-1]
        new[..., 1:] += u[..., None] * plain[1:] * mean[..., :-1]
        new[:, 1] += r * u * mean[:, 0]
        new[:, 2] += r * mean[:, 0]
        new[:, 3] += r * mean[:, 1] + r * u * mean[:, 2]
        new[:, 4] += r**2 * mean[:, 0]
        mean = new / seen
    s = np.arange(steps)
    before, after = np.minimum(s[:, None], s), np.maximum(s[:, None], s)
    both = mean[:, 3, before, np.maximum(after - before - 1, 0)]
    both[:, s, s] = mean[:, 4, s, 0]
    return mean[:, 2, 0, :], both
