"""Evaluation settings: the candidates behind a published value, and their null distributions."""

from __future__ import annotations

from functools import cache, partial
from math import isfinite
from typing import NamedTuple

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.graphs import Graph, Unseen
from evenrank.graphs.atlas import Filter, Sides, atlas, facts, label
from evenrank.metrics.adjusted import Adjusted, Affine
from evenrank.metrics.chance import Chance, Dependence, NullDistribution
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram, Tally
from evenrank.published._value import SLACK, PublishedValue
from evenrank.ranks.evaluation import FORMS
from evenrank.ranks.protocol import Protocol

SIDES: dict[str, tuple[str, ...]] = {"both": ("tail", "head"), "tail": ("tail",), "head": ("head",)}


class Candidates:
    """The candidates behind a published value, and the null distribution of each metric.

    Parameters
    ----------
    sizes : Histogram
        The numbers of candidates.
    protocol : Protocol
        Where they come from.
    dependence : Dependence, optional
        Which ranks depend on each other; without it, ranks are taken as independent.

    Attributes
    ----------
    null : callable
        The null distribution of a metric, computed once.
    range : callable
        The smallest and the largest value of a metric, computed once.
    """

    def __init__(
        self, sizes: Histogram, protocol: Protocol, dependence: Dependence | None = None
    ) -> None:
        self.sizes = sizes
        low, high = int(sizes["candidates"].min()), int(sizes["candidates"].max())
        span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        chance = "independent" if dependence is None else "scorer"
        about = {"tasks": f"{sizes.total:,}", "sizes": span, "chance": chance}
        self.protocol = protocol.updated(about)
        self.null = cache(partial(NullDistribution, sizes=sizes, dependence=dependence))
        self.range = cache(self._range)

    def __repr__(self) -> str:
        return f"Candidates({self.sizes.total:,} tasks: {self.protocol})"

    def raw(self, given: PublishedValue) -> float:
        """Convert a published value back to the raw metric.

        Parameters
        ----------
        given : PublishedValue
            The published value.

        Returns
        -------
        float
            The raw value.

        Raises
        ------
        InputError
            If no ranks among these candidates have this value.
        """
        raw = given.fraction
        if isinstance(given.expression, Adjusted):
            raw = self.back(given.expression)(raw)
        low, high = self.range(given.metric)
        slack = SLACK * max(1.0, abs(raw))
        if not (isfinite(raw) and low - slack <= raw <= high + slack):
            same = not given.percent and given.expression == given.metric
            whose = f"the candidates of {self.protocol.data}" if self.protocol.data else ""
            raise InputError(
                f"impossible value of {given.metric}",
                got=str(given) if same else f"{given}, which is {given.metric}={raw:g}",
                allowed=f"{low:.6g} to {high:.6g} among {whose or 'these candidates'}"
                + (", or that in percent" if given.ends_at_one and same else ""),
            )
        return raw

    def back(self, expression: Adjusted) -> Affine:
        """Get the map from adjusted to raw values.

        Parameters
        ----------
        expression : Adjusted
            The adjusted metric.

        Returns
        -------
        Affine
            The map.
        """
        line = expression.map(self.null(expression.metric))
        assert isinstance(line, Affine)  # `adjustable` rejects the others
        return ~line

    def _range(self, metric: Metric | Statistic) -> tuple[float, float]:
        """Compute the range of a metric, from all targets ranked last to all ranked first."""
        last = self._tally(self.sizes["candidates"] - 1, np.zeros(len(self.sizes), dtype=np.int64))
        low, high = sorted((metric.best, metric(last)))
        return low, high

    def adjusted(self, metric: Metric | Statistic, raw: float) -> dict[Adjusted, float]:
        """Compute all adjusted forms of a raw value.

        Parameters
        ----------
        metric : Metric or Statistic
            The metric.
        raw : float
            Its value.

        Returns
        -------
        dict of Adjusted to float
            The adjusted values.
        """
        forms = [Adjusted(form, metric) for form in FORMS]
        return {form: form.map(self.null(metric))(raw) for form in forms}

    def constant(self) -> Tally:
        """Tally the ranks of a scorer that gives every candidate the same score."""
        candidates = self.sizes["candidates"]
        return self._tally(np.zeros(len(candidates), dtype=np.int64), candidates - 1)

    def _tally(self, better: Ints, equal: Ints) -> Tally:
        columns = {"better": better, "equal": equal, "weight": self.sizes["weight"]}
        return Tally(Histogram.of(self.sizes.counts, **columns), self.sizes)


class Setting(NamedTuple):
    """An evaluation setting, in which results are directly comparable.

    Parameters
    ----------
    data : str or Graph
        The data set.
    split : str
        The split that was ranked.
    sides : {"both", "tail", "head"}
        The sides that were predicted.
    filter : {"all", None}
        Filtered by the known true answers of all splits, or raw.
    unseen : {"keep", "drop"}
        Whether entities not seen in training were kept.
    chance : {"scorer", "independent"}
        The null distribution of z-scores: with the dependence between the ranks of a random scorer,
        where the atlas has it, or with independent ranks.
    """

    data: str | Graph
    split: str = "test"
    sides: Sides = "both"
    filter: Filter = "all"
    unseen: Unseen = "keep"
    chance: Chance = "scorer"

    @classmethod
    def of(
        cls,
        data: str | Graph,
        split: str = "test",
        sides: Sides = "both",
        filter: Filter = "all",  # noqa: A002  # the field's word
        unseen: Unseen = "keep",
        chance: Chance = "scorer",
    ) -> Setting:
        """Look up a data set by any of its names.

        Parameters
        ----------
        data, split, sides, filter, unseen, chance
            As for `Setting`.

        Returns
        -------
        Setting
            The setting, with the canonical name of the data set.
        """
        name = data if isinstance(data, Graph) else label(data, filter=filter, unseen=unseen)
        return cls(name, split, sides, filter, unseen, chance)

    @property
    def protocol(self) -> Protocol:
        """The protocol of a ranking in this setting."""
        data = self.data
        splits = data.splits if isinstance(data, Graph) else facts(data, unseen=self.unseen).triples
        return Protocol(
            data=data.name if isinstance(data, Graph) else data,
            split=self.split,
            sides=SIDES[self.sides],
            filter=tuple(splits) if self.filter == "all" else (),
            unseen=data.unseen if isinstance(data, Graph) and self.unseen == "keep" else self.unseen,
        )

    def candidates(self) -> Candidates:
        """Look up the numbers of candidates."""
        sizes = atlas(self.data, self.split, self.sides, filter=self.filter, unseen=self.unseen)
        known = sizes.dependence() if self.chance == "scorer" else None
        return Candidates(sizes, self.protocol, known)
