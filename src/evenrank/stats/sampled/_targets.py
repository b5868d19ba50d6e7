"""The targets of a sample: how many candidates they have in all, what they share, and what fits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.errors import InputError
from evenrank.metrics.ties import Ties
from evenrank.ranks.protocol import All, Sampled
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import DRAW, FULL
from evenrank.stats._sample import Sample
from evenrank.stats.sampled._corrections import Fit, plain
from evenrank.stats.sampled._design import designs, nodes
from evenrank.stats.sampled._variance import spread

ROW = "row"  # the key that says which rows are the same target, where several samples are pooled


def pooled(several: Sequence[Ranks], full: ArrayLike | None) -> Ranks:
    """Put samples of the same targets together, with the full sizes, and what was drawn as one."""
    if not several or not len(several[0]):
        raise InputError("no ranks to estimate from", do="rank at least one target")
    _check_seeds(several)
    first, rows = several[0], len(several[0])
    parts = []
    for i, ranks in enumerate(several):
        _check_alike(first, ranks)
        sizes = _full(ranks, full)
        own = ranks.keys.get(DRAW, np.arange(rows))
        draw = columns.encode([own])[0] + i * rows
        keys = {**ranks.keys, FULL: sizes, DRAW: draw, ROW: np.arange(rows)}
        counts = ranks.better, ranks.equal, ranks.candidates
        parts.append(Ranks(*counts, weights=ranks.weights, keys=keys, protocol=ranks.protocol))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _check_seeds(several: Sequence[Ranks]) -> None:
    """Refuse to take candidates that were drawn once, or some of them, for two samples."""
    kinds = [ranks.protocol.candidates for ranks in several]
    seeds = [str(kind.seed) for kind in kinds if isinstance(kind, Sampled)]
    if len(set(seeds)) < len(seeds):
        raise InputError(
            "samples to be pooled need seeds of their own",
            got=f"seed {', '.join(seeds)}",
            do="rank again with another seed= (--seed)",
        )


def _check_alike(first: Ranks, other: Ranks) -> None:
    """Refuse to pool what are not samples of the same task by the same model."""
    mine, others = _identity(first), _identity(other)
    if len(first) != len(other) or any(
        name not in others or not np.array_equal(column, others[name]) for name, column in mine.items()
    ):
        raise InputError(
            "samples to be pooled must rank the same targets in one order",
            got=f"{len(first):,} and {len(other):,} targets",
        )
    theirs = other.protocol.to_dict()
    for name, value in first.protocol.to_dict().items():
        if name != "candidates" and theirs.get(name) != value:
            raise InputError(
                f"samples to be pooled differ in {name}", got=f"{value} and {theirs.get(name)}"
            )


def _identity(ranks: Ranks) -> dict[str, NDArray[Any]]:
    """Give the columns that tell targets apart, and what they weigh."""
    return dict(ranks.keys) if ranks.weights is None else {**ranks.keys, "weight": ranks.weights}


def _full(ranks: Ranks, full: ArrayLike | None) -> Ints:
    kind = ranks.protocol.candidates
    if isinstance(kind, Sampled) and kind.with_targets:
        raise InputError(
            "no plain sample of the candidates, as the targets of a query compete with each other",
            got=f"candidates: {kind}",
            do="rank with a filter that leaves the others out, such as all",
        )
    if full is None and isinstance(kind, All):
        raise InputError(
            "these ranks are not sampled: there is nothing to estimate",
            do="evaluate them (evenrank evaluate)",
        )
    if full is None and FULL not in ranks.keys:
        raise InputError(
            "these ranks do not say how many candidates there are in all",
            do="say it: full=14541 (--full 14541), or rank among candidates=100, filtered",
        )
    sizes = columns.integers("full", _numbers(ranks.keys[FULL]) if full is None else full, 1)
    sizes = columns.repeat("full", sizes, len(ranks))
    columns.refuse(sizes < ranks.candidates, sizes, "full is below the candidates that were ranked")
    nobody = (ranks.candidates == 1) & (sizes > 1)
    columns.refuse(nobody, ranks.candidates, "a target was ranked against nobody: candidates")
    return np.asarray(sizes)


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    """Read a key that a CSV file gives as text; what is no number is refused later."""
    try:
        return column.astype(float)
    except ValueError:
        return column


class Targets:
    """The targets of a sample by design, and the distributions of ranks fitted to them."""

    def __init__(self, sample: Sample, ties: Ties, samples: int) -> None:
        """Read the counts x that ties allow; the targets stand there once for each of the samples."""
        ranks = sample.ranks
        if ties in ("realistic", "rounded") and ranks.equal.any():
            raise InputError(
                "the mean rank of a tie cannot be estimated from a sample",
                got=f"ties={ties!r}",
                allowed="expected, optimistic, pessimistic",
            )
        low = ranks.better + (ranks.equal if ties == "pessimistic" else 0)
        high = ranks.better + (ranks.equal if ties != "optimistic" else 0)
        self.sample, self.weight, self.samples = sample, sample.weight, samples
        self.drawn, self.full = ranks.candidates - 1, np.asarray(ranks.keys[FULL])
        self.draw = columns.encode([ranks.keys[DRAW]])[0]
        self.own_draw = columns.encode([self.draw, sample.unit])[0]  # had each unit its own
        self.shared = bool(self.own_draw.max() > self.draw.max())
        self.designs = designs(self.drawn, self.full, low, high)
        self.ranks = nodes(max(int(self.drawn.max()), 1), int(self.full.max()), 1)
        self.fit = cache(self._fit)

    def _fit(self, fold: int | None) -> Fit:
        """Fit a distribution of ranks to all targets, or to one half of the draws."""
        weight = self.weight if fold is None else np.where(self.draw % 2 == fold, self.weight, 0.0)
        return Fit.of(self.designs, weight, self.ranks)

    def possible(self, term: Function) -> tuple[float, float]:
        """Give the least and the largest mean term that the counts allow: `1 + x <= R <= N - k + x`."""
        best = self.apply([plain(term, d) for d in self.designs])
        others = (np.add.outer(d.sizes - d.drawn, np.arange(d.drawn + 1.0)) for d in self.designs)
        worst = self.apply([term(ranks) for ranks in others])
        least, most = sorted((self.sample.mean(best), self.sample.mean(worst)))
        return least, most

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
