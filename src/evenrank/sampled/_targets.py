"""The targets of a sample: how many candidates they have in all, what they share, and what fits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from evenrank import columns
from evenrank.compare._sample import Sample
from evenrank.errors import InputError
from evenrank.metric import Ties
from evenrank.ranks import Ranks
from evenrank.sampled._corrections import Fit
from evenrank.sampled._design import designs, nodes
from evenrank.sampled._variance import spread
from evenrank.sums import Floats, Ints
from evenrank.task import DRAW, FULL

ROW = "row"  # the key that says which rows are the same target, where several samples are pooled


def pooled(several: Sequence[Ranks], full: ArrayLike | None) -> Ranks:
    """Put samples of the same targets together, with the full sizes, and what was drawn as one."""
    if not several or not len(several[0]):
        raise InputError("no ranks to estimate from", do="rank at least one target")
    first, rows = several[0], len(several[0])
    parts = []
    for i, ranks in enumerate(several):
        _check_alike(first, ranks)
        sizes = _full(ranks, full)
        own = ranks.keys.get(DRAW, np.arange(rows))
        draw = columns.encode([own])[0] + i * rows
        keys = {**ranks.keys, FULL: sizes, DRAW: draw, ROW: np.arange(rows)}
        counts = ranks.better, ranks.equal, ranks.candidates
        parts.append(Ranks(*counts, weight=ranks.weight, keys=keys, protocol=ranks.protocol))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _check_alike(first: Ranks, other: Ranks) -> None:
    """Refuse to pool what are not samples of the same task by the same model."""
    if len(first) != len(other) or any(
        name not in other.keys or not np.array_equal(column, other.keys[name])
        for name, column in first.keys.items()
    ):
        raise InputError(
            "samples to be pooled must rank the same targets in one order",
            got=f"{len(first):,} and {len(other):,} targets",
        )
    for name, value in first.protocol.items():
        if name != "candidates" and other.protocol.get(name) != value:
            raise InputError(
                f"samples to be pooled differ in {name}", got=f"{value} and {other.protocol.get(name)}"
            )


def _full(ranks: Ranks, full: ArrayLike | None) -> Ints:
    if full is None and FULL not in ranks.keys:
        raise InputError(
            "these ranks do not say how many candidates there are in all",
            do="say it: full=14541 (--full 14541), or rank among candidates=100, filtered",
        )
    sizes = columns.integers("full", ranks.keys[FULL] if full is None else full, 1)
    sizes = columns.repeat("full", sizes, len(ranks))
    columns.refuse(sizes < ranks.candidates, sizes, "full is below the candidates that were ranked")
    nobody = (ranks.candidates == 1) & (sizes > 1)
    columns.refuse(nobody, ranks.candidates, "a target was ranked against nobody: candidates")
    return np.asarray(sizes)


class Targets:
    """The targets of a sample by design, and the distributions of ranks fitted to them."""

    def __init__(self, sample: Sample, ties: Ties) -> None:
        """Read the counts x that ties allow."""
        ranks = sample.ranks
        if ties in ("realistic", "rounded") and ranks.equal.any():
            raise InputError(
                "the mean rank of a tie cannot be estimated from a sample",
                got=f"ties={ties!r}",
                allowed="expected, optimistic, pessimistic",
            )
        low = ranks.better + (ranks.equal if ties == "pessimistic" else 0)
        high = ranks.better + (ranks.equal if ties != "optimistic" else 0)
        self.sample, self.weight = sample, sample.weight
        self.drawn, self.full = ranks.candidates - 1, np.asarray(ranks.keys[FULL])
        self.draw = columns.encode([ranks.keys[DRAW]])[0]
        self.designs = designs(self.drawn, self.full, low, high)
        self.ranks = nodes(max(int(self.drawn.max()), 1), int(self.full.max()), 1)
        self.fit = cache(self._fit)

    def _fit(self, fold: int | None) -> Fit:
        """Fit a distribution of ranks to all targets, or to one half of the draws."""
        weight = self.weight if fold is None else np.where(self.draw % 2 == fold, self.weight, 0.0)
        return Fit.of(self.designs, weight, self.ranks)

    def apply(self, tables: Sequence[Floats]) -> Floats:
        """Give T of each target from a table for each design."""
        return self._gather(design.look_up(t) for design, t in zip(self.designs, tables, strict=True))

    def spread(self, tables: Sequence[Floats]) -> Floats:
        """Give the variance of T over candidates for each target."""
        fit = self.fit(None)
        pairs = zip(self.designs, tables, strict=True)
        return self._gather(spread(table, design, fit) for design, table in pairs)

    def _gather(self, parts: Iterable[Floats]) -> Floats:
        values = np.zeros(len(self.weight))
        for design, part in zip(self.designs, parts, strict=True):
            values[design.targets] = part
        return values
