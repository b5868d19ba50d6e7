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
one. Where candidates come with the data set (OGB), or are the entities of the test links (alignment),
their number is exact.
"""

from __future__ import annotations

from typing import NamedTuple

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


def bounds(entry: Entry) -> Bounds:
    """Bound the number of candidates of every target of a data set by its sizes.

    Parameters
    ----------
    entry : Entry
        A data set, as from `registry.find`.

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
    answers = min(int(MOST_ANSWERS * entry.entities), sum(entry.splits.values()))
    return Bounds(entry.entities - answers + 1, entry.entities)


def counts(entry: Entry) -> Counts | None:
    """Approximate the candidate counts of a data set by the number of its entities.

    Parameters
    ----------
    entry : Entry
        A data set.

    Returns
    -------
    Counts or None
        The same number of candidates for every target of every split but train; None if the sizes of
        its splits are unknown.
    """
    most = bounds(entry).most
    splits = {
        split: {side: [(most, triples)] for side in SIDES}
        for split, triples in entry.splits.items()
        if split != "train"
    }
    exact = entry.candidates is not None
    name = entry.name if exact else entry.name + SUFFIX
    return Counts(name, entry.entities, entry.relations, splits, most) if splits else None
