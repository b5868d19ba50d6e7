"""Approximate numbers of candidates of data sets whose files are not at hand, from their sizes.

The registry knows the numbers of entities and triples of data sets that were not counted. A target among
`E` entities has at most `E` candidates, as in raw ranking. How many known true answers are filtered is
known only from the training file. Sizes alone hardly limit it: all entities could be answers of a query.
In the larger data sets that were counted, no query has more than four fifths; see `MOST_ANSWERS`. So the
candidates are approximated by those of raw ranking, and the bounds are

- `E` candidates for every target: nothing is filtered,
- `E - K + 1` candidates for every target, where `K` answers are known: four fifths of the entities, or
  all triples if there are fewer.

Chance levels rise or fall with the number of candidates, so those of the two bounds enclose the true
one. In raw ranking, all `E` entities are candidates, which is exact. Where candidates come with the data
set (OGB), or are the entities of the test links (alignment), their number is exact as well.

Published sizes either include entities not seen in training or leave them out; few data sets have both
(`Entry.unseen`, `Entry.dropped`). If only one of the two is known, it is used.
"""

from __future__ import annotations

from typing import NamedTuple

from evenrank.graphs.graph import Unseen
from evenrank.graphs.packed import Counts
from evenrank.graphs.registry import Entry
from evenrank.metrics.chance import Null, chance
from evenrank.metrics.metric import Metric, Statistic

# In data sets of the atlas with at least a thousand entities, no query has a larger share of them as
# answers (a test checks this); the largest is 78 %, for the gender "male" in FB13.
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
        The fewest candidates, if as many answers as possible are filtered, and the most, if none are.

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
