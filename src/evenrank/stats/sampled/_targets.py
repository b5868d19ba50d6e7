"""The targets of a sample: their full numbers of candidates, shared draws, and fitted distributions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.errors import InputError, Option
from evenrank.metrics.ties import Ties
from evenrank.ranks.protocol import All, Sampled
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.sampling import DRAW, FULL
from evenrank.stats._sample import Sample
from evenrank.stats.sampled._corrections import Fit
from evenrank.stats.sampled._design import designs, nodes, thinned
from evenrank.stats.sampled._variance import spread

ROW = "row"  # the key that identifies a target in several pooled samples


def pooled(several: Sequence[Ranks], full: ArrayLike | None, replace: bool) -> Ranks:
    """Pool samples of the same targets; add full numbers of candidates, and draws, as keys."""
    if not several or not len(several[0]):
        raise InputError("no ranks to estimate from", do="rank at least one target")
    _check_seeds(several)
    first, rows = several[0], len(several[0])
    parts = []
    for i, ranks in enumerate(several):
        _check_same_task(first, ranks)
        sizes = _full(ranks, full, replace)
        own = ranks.keys.get(DRAW, np.arange(rows))
        draw = columns.encode([own])[0] + i * rows
        keys = {**ranks.keys, FULL: sizes, DRAW: draw, ROW: np.arange(rows)}
        counts = ranks.better, ranks.equal, ranks.candidates
        parts.append(Ranks(*counts, weights=ranks.weights, keys=keys, protocol=ranks.protocol))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    if not replace:
        _check_possible(parts)
    return total


def with_replacement(several: Sequence[Ranks], replace: bool | None) -> bool:
    """Decide whether candidates were drawn with replacement: as given, or as the protocols say."""
    if not isinstance(replace, bool | np.bool_ | None):
        raise InputError("replace must be True, False or None", got=repr(replace))
    kinds = [ranks.protocol.candidates for ranks in several]
    recorded = {kind.replace for kind in kinds if isinstance(kind, Sampled)}
    if len(recorded) > 1:
        raise InputError("samples to be pooled differ: some were drawn with replacement")
    if replace is not None and recorded - {bool(replace)}:
        raise InputError(
            "the protocol of the ranks says otherwise than replace",
            got=f"candidates: {kinds[0]}",
            do=["leave out ", Option("replace", bool(replace)), ", or correct the protocol"],
        )
    return bool(replace) if replace is not None else recorded == {True}


def _check_possible(samples: Sequence[Ranks]) -> None:
    """Check that several samples without replacement are possible for one full ranking.

    A target of rank R has at most R - 1 better candidates in any sample, and at most N - R others. So
    the numbers of better and of worse candidates, each in the sample where it is largest, add up to at
    most N - 1.
    """
    better = np.max([ranks.better for ranks in samples], axis=0)
    worse = np.max([ranks.candidates - 1 - ranks.better - ranks.equal for ranks in samples], axis=0)
    beyond = np.flatnonzero(better + worse > np.asarray(samples[0].keys[FULL]) - 1)
    if len(beyond):
        i = int(beyond[0])
        others = int(np.asarray(samples[0].keys[FULL])[i]) - 1
        raise InputError(
            "these samples cannot have been drawn without replacement",
            got=f"{better[i]:,} better candidates in one sample and {worse[i]:,} worse ones in another, "
            f"of {others:,} others (row {i})",
            do=["use ", Option("replace", True), ", or check the full number of candidates"],
        )


def _check_seeds(several: Sequence[Ranks]) -> None:
    """Check that samples were drawn with different seeds."""
    kinds = [ranks.protocol.candidates for ranks in several]
    seeds = [str(kind.seed) for kind in kinds if isinstance(kind, Sampled)]
    if len(set(seeds)) < len(seeds):
        raise InputError(
            "samples to be pooled must have different seeds",
            got=f"seed {', '.join(seeds)}",
            do=["rank again with another ", Option("seed")],
        )


def _check_same_task(first: Ranks, other: Ranks) -> None:
    """Check that samples are of the same task and the same model."""
    mine, others = _identity(first), _identity(other)
    if len(first) != len(other) or any(
        name not in others or not np.array_equal(column, others[name]) for name, column in mine.items()
    ):
        raise InputError(
            "samples to be pooled must rank the same targets in the same order",
            got=f"{len(first):,} and {len(other):,} targets",
        )
    theirs = other.protocol.to_dict()
    for name, value in first.protocol.to_dict().items():
        if name != "candidates" and theirs.get(name) != value:
            raise InputError(
                f"samples to be pooled differ in {name}", got=f"{value} and {theirs.get(name)}"
            )


def _identity(ranks: Ranks) -> dict[str, NDArray[Any]]:
    """Collect the keys and weights of the targets."""
    return dict(ranks.keys) if ranks.weights is None else {**ranks.keys, "weight": ranks.weights}


def _full(ranks: Ranks, full: ArrayLike | None, replace: bool) -> Ints:
    kind = ranks.protocol.candidates
    if isinstance(kind, Sampled) and kind.with_targets:
        raise InputError(
            "not a simple random sample: the other targets of a query are candidates, too",
            got=f"candidates: {kind}",
            do=["filter the other targets out, e.g. by ranking with ", Option("filter", "all")],
        )
    if full is None and isinstance(kind, All):
        raise InputError(
            "these ranks are among all candidates, so that there is nothing to estimate",
            do="evaluate them",
        )
    if full is None and FULL not in ranks.keys:
        raise InputError(
            "the full number of candidates is unknown", do=["pass it, e.g. ", Option("full", 14541)]
        )
    sizes = columns.integers("full", _numbers(ranks.keys[FULL]) if full is None else full, 1)
    sizes = columns.repeat("full", sizes, len(ranks))
    if not replace and (sizes < ranks.candidates).any():
        i = int(np.flatnonzero(sizes < ranks.candidates)[0])
        drawn, others = int(ranks.candidates[i]) - 1, int(sizes[i]) - 1
        raise InputError(
            "more candidates were drawn than there are",
            got=f"{drawn:,} drawn of {others:,} others (full={others + 1:,}) in row {i}",
            do=["if they were drawn with replacement, use ", Option("replace", True)],
        )
    alone = replace & (sizes == 1) & (ranks.candidates > 1)
    columns.reject(alone, sizes, "a target without other candidates has a sample of them: full")
    nobody = (ranks.candidates == 1) & (sizes > 1)
    columns.reject(nobody, ranks.candidates, "a target has no other candidates: candidates")
    return np.asarray(sizes)


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    """Convert a key that a CSV file holds as text; others than numbers are rejected later."""
    try:
        return column.astype(float)
    except ValueError:
        return column


class Targets:
    """The targets of one or more samples, grouped by design, and the distributions fitted to them."""

    def __init__(self, sample: Sample, ties: Ties, samples: int, replace: bool = False) -> None:
        ranks = sample.ranks
        if ties in ("realistic", "rounded") and ranks.equal.any():
            raise InputError(
                "the mean rank of a tie cannot be estimated from a sample",
                got=f"ties={ties!r}",
                allowed="expected, optimistic, pessimistic",
            )
        low = ranks.better + (ranks.equal if ties == "pessimistic" else 0)
        high = ranks.better + (ranks.equal if ties != "optimistic" else 0)
        self.sample, self.weight, self.samples, self.replace = sample, sample.weight, samples, replace
        self.full = np.asarray(ranks.keys[FULL])
        self.draw = columns.encode([ranks.keys[DRAW]])[0]
        # if each unit had its own draw; where units cross, a draw of one query is its own
        self.own_draw = columns.encode([self.draw, sample.ways[-1].unit])[0]
        self.shared = bool(self.own_draw.max() > self.draw.max())
        self._set(ranks.candidates - 1, low, high)

    def _set(self, drawn: Ints, low: Ints, high: Ints) -> None:
        """Set the counts."""
        self.drawn = drawn
        self.counts = low, high
        self.designs = designs(drawn, self.full, low, high, self.replace)
        self.ranks = nodes(max(int(drawn.max()), 1), int(self.full.max()), 1)
        self.fit = cache(self._fit)

    @cached_property
    def thinned(self) -> Targets:
        """The same targets with fewer candidates, if so many take too long."""
        drawn, low, high = thinned(self.drawn, self.full, *self.counts, self.replace)
        if np.array_equal(drawn, self.drawn):
            return self
        fewer = copy(self)
        fewer._set(drawn, low, high)
        return fewer

    def _fit(self, fold: int | None) -> Fit:
        """Fit a distribution of ranks to all targets, or to one half of the draws."""
        weight = self.weight if fold is None else np.where(self.draw % 2 == fold, self.weight, 0.0)
        return Fit.of(self.designs, weight, self.ranks)

    def possible(self, term: Function) -> tuple[float, float]:
        """Compute the range of mean terms that the counts allow."""
        ends = zip(*(design.possible() for design in self.designs), strict=True)
        best, worst = (self.apply([term(ranks) for ranks in one]) for one in ends)
        least, most = sorted((self.sample.mean(best), self.sample.mean(worst)))
        return least, most

    def apply(self, tables: Sequence[Floats]) -> Floats:
        """Look up T of each target, in a table for each design."""
        return self._gather(design.look_up(t) for design, t in zip(self.designs, tables, strict=True))

    def spread(self, tables: Sequence[Floats]) -> Floats:
        """Compute the variance of T over candidates for each target."""
        fit = self.fit(None)
        pairs = zip(self.designs, tables, strict=True)
        return self._gather(spread(table, design, fit) for design, table in pairs)

    def _gather(self, parts: Iterable[Floats]) -> Floats:
        values = np.zeros(len(self.weight))
        for design, part in zip(self.designs, parts, strict=True):
            values[design.targets] = part
        return values
