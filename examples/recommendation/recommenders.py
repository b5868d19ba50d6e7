"""Three recommenders in NumPy: popularity, item-kNN, and a matrix factorization.

Each is trained in seconds on MovieLens-100k. The first two are functions of users and items, which is
all that evenrank needs to rank a model; the third has a vector per user and item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from interactions import Interactions
from numpy.typing import NDArray

import evenrank as er

Floats = NDArray[np.float64]

# settings: the best nDCG@10 on a fifth of the training interactions of the random split, see `--tune`
NEIGHBOURS, SHRINK = 200, 10.0
DIMENSION, CONFIDENCE, REGULARIZATION, ROUNDS = 32, 4.0, 40.0, 10


@dataclass(frozen=True, eq=False)
class Table:
    """Scores of all users and items."""

    name: str
    scores: Floats

    def score(self, queries: NDArray[np.int64], candidates: Any) -> Floats:
        """Score users against items: what `er.rank` asks of a model."""
        rows = self.scores[queries[:, 0]]
        if np.ndim(candidates) == 2:
            return np.take_along_axis(rows, candidates, axis=1)
        return rows[:, candidates]


def popularity(train: Interactions) -> Table:
    """Recommend what most users have seen, to everybody."""
    return Table("popularity", np.tile(train.popularity().astype(float), (train.shape[0], 1)))


def item_knn(train: Interactions, neighbours: int = NEIGHBOURS, shrink: float = SHRINK) -> Table:
    """Recommend items with many users in common with those that the user has seen.

    The similarity of two items is the cosine of their columns, shrunk towards 0 for rare items; items
    beyond the most similar ones of each item do not count.
    """
    seen = train.matrix()
    common = seen.T @ seen
    norm = np.sqrt(np.diag(common))
    norm[norm == 0] = 1.0  # items that nobody has seen are like no others
    near = common / (np.outer(norm, norm) + shrink)
    np.fill_diagonal(near, 0.0)
    least = np.sort(near, axis=1)[:, -min(neighbours, len(near)), None]
    return Table("item-kNN", seen @ np.where(near >= least, near, 0.0).T)


def factorization(
    train: Interactions,
    dimension: int = DIMENSION,
    confidence: float = CONFIDENCE,
    regularization: float = REGULARIZATION,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> er.models.DotProduct:
    """Factor the matrix of interactions by alternating least squares (Hu, Koren and Volinsky 2008).

    All pairs of user and item count, an interaction `1 + confidence` times as much as none.
    """
    seen = train.matrix()
    rng = np.random.default_rng(seed)
    items = rng.normal(0.0, 0.1, (train.shape[1], dimension))
    for _ in range(rounds):
        users = solved(seen, items, confidence, regularization)
        items = solved(seen.T, users, confidence, regularization)
    return er.models.DotProduct(users, items)


def solved(seen: Floats, fixed: Floats, confidence: float, regularization: float) -> Floats:
    """Return the vector of each row that fits its interactions best, given the vectors of columns."""
    dimension = fixed.shape[1]
    outer = (fixed[:, :, None] * fixed[:, None, :]).reshape(len(fixed), -1)
    base = fixed.T @ fixed + regularization * np.eye(dimension)
    left = base + confidence * (seen @ outer).reshape(-1, dimension, dimension)
    right = (1.0 + confidence) * (seen @ fixed)
    return np.asarray(np.linalg.solve(left, right[:, :, None])[:, :, 0])
