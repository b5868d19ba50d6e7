"""Data sets whose files are not at hand: what their sizes tell about numbers of candidates.

The registry knows the numbers of entities and triples of data sets that nobody counted here. A target
among `E` entities has at most `E` candidates: those of raw ranking. How many of them are known true
answers, which are filtered, is in the training file. Sizes alone hardly limit it: a query could have all
entities as answers. No query of a data set that was counted has that; see `MOST_ANSWERS`. So the
approximation ranks raw, and its bounds are

- `E` candidates for every target: nothing is filtered,
- `E - K + 1` candidates for every target, where `K` answers are known: four fifths of the entities, or
  all triples if there are fewer.

Chance levels rise or fall with the number of candidates, so those of the two bounds enclose the true
one. In raw ranking, all `E` entities are candidates, which is exact. Where candidates come with the data
set (OGB), or are the entities of the test links (alignment), their number is exact, too.

Sizes are published with entities not seen in training or without them, seldom both (`Entry.unseen`,
`Entry.dropped`). If only the others are known, they are taken.
"""

from __future__ import annotations

from typing import NamedTuple

from evenrank.graphs.graph import Unseen
from evenrank.graphs.packed import Counts
from evenrank.graphs.registry import Entry
from evenrank.metrics.chance import Null, chance
from evenrank.metrics.metric import Metric, Statistic

# No query of any data set of the atlas with at least a thousand entities has more of them as answers
# (a test checks this); the largest share is 78 %, for the gender "male" in FB13.
MOST_ANSWERS = 0.8
SUFFIX = " (approximate)"
SIDES = ("head", "tail")


class Bounds(NamedTuple):
    """The fewest and the most candidates that a target of a data set has.

    Parameters
    ----------
    least, most : int
        The numbers of candidates.

    Examples
    --------
    >>> least, most = Bounds(24638, 123182).nulls("mrr")
    >>> round(float(least.mean()), 6), round(float(most.mean()), 6)
    (0.000434, 0.0001)
    """

    least: int
    most: int

    def nulls(self, metric: str | Metric | Statistic, targets: int = 1) -> tuple[Null, Null]:
        """Return the null distributions of a metric where all targets have the fewest or the most.

        Parameters
        ----------
        metric : str or Metric
            The metric.
        targets : int, default 1
            The number of targets, on which the expected value of a geometric mean depends, but not that
            of an arithmetic one.

        Returns
        -------
        tuple of Null
            With the fewest candidates, and with the most.
        """
        return chance(metric, {self.least: targets}), chance(metric, {self.most: targets})


def bounds(entry: Entry, unseen: Unseen = "keep") -> Bounds:
    """Bound the number of candidates of every target of a data set by its sizes.

    Parameters
    ----------
    entry : Entry
        A data set, as from `registry.find`.
    unseen : {"keep", "drop"}, default "keep"
        Whether entities not seen in training are kept.

    Returns
    -------
    Bounds
        The fewest candidates, if the most are filtered, and the most, if none are.

    Examples
    --------
    >>> from evenrank.graphs import registry
    >>> bounds(registry.find("YAGO3-10"))
    Bounds(least=24638, most=123182)
    """
    if entry.candidates is not None:
        return Bounds(entry.candidates, entry.candidates)
    entities, splits = _sizes(entry, unseen)
    answers = min(int(MOST_ANSWERS * entities), sum(splits.values()))
    return Bounds(entities - answers + 1, entities)


def has_sizes(entry: Entry, unseen: Unseen) -> bool:
    """Whether the sizes of a data set are known with, or without, entities not seen in training.

    Parameters
    ----------
    entry : Entry
        A data set.
    unseen : {"keep", "drop"}
        Whether these entities are kept.

    Returns
    -------
    bool
        Whether they are.
    """
    return entry.unseen == unseen or bool(entry.dropped)


def _sizes(entry: Entry, unseen: Unseen) -> tuple[int, dict[str, int]]:
    """Return the number of entities, and that of the triples of each split."""
    other = entry.dropped if unseen == "drop" else {}
    splits = {split: other.get(split, triples) for split, triples in entry.splits.items()}
    return other.get("entities", entry.entities), splits


def counts(entry: Entry, unseen: Unseen = "keep") -> Counts | None:
    """Approximate the candidate counts of a data set by the number of its entities.

    Parameters
    ----------
    entry : Entry
        A data set.
    unseen : {"keep", "drop"}, default "keep"
        Whether entities not seen in training are kept.

    Returns
    -------
    Counts or None
        The same number of candidates for every target of every split but train; None if the sizes of
        its splits are unknown.
    """
    most, (entities, triples) = bounds(entry, unseen).most, _sizes(entry, unseen)
    splits = {
        split: {side: [(most, n)] for side in SIDES} for split, n in triples.items() if split != "train"
    }
    exact = entry.candidates is not None
    name = entry.name if exact else entry.name + SUFFIX
    return Counts(name, entities, entry.relations, splits, most) if splits else None
