"""The footing a published value stands on: its candidates, and the chance law of each metric."""

from __future__ import annotations

from functools import cache, partial
from math import isfinite
from typing import NamedTuple

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.graphs import Graph, Unseen
from evenrank.graphs.atlas import Filter, Side, atlas, facts
from evenrank.metrics.adjusted import Adjusted, Affine
from evenrank.metrics.chance import NullDistribution
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram, Tally
from evenrank.published._value import SLACK, Given
from evenrank.ranks.evaluation import FORMS
from evenrank.ranks.protocol import Protocol

SIDES = {"both": ("tail", "head"), "tail": ("tail",), "head": ("head",)}


class Footing:
    """The candidates a number was made with, and the chance law of each metric, worked out once."""

    def __init__(self, sizes: Histogram, protocol: Protocol) -> None:
        """Hold candidate counts, and where they come from in words."""
        self.sizes = sizes
        low, high = int(sizes["candidates"].min()), int(sizes["candidates"].max())
        span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        self.protocol = protocol.updated({"tasks": f"{sizes.total:,}", "sizes": span})
        self.law = cache(partial(NullDistribution, sizes=sizes))
        self.range = cache(self._range)

    def raw(self, given: Given) -> float:
        """Take a published value back to the raw one, and refuse what no ranks can give."""
        raw = given.fraction
        if isinstance(given.expression, Adjusted):
            line = given.expression.map(self.law(given.metric))
            assert isinstance(line, Affine)  # `adjustable` let it pass
            raw = (~line)(raw)
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

    def _range(self, metric: Metric | Statistic) -> tuple[float, float]:
        """Give the values of a metric when every target comes last, and when every one comes first."""
        last = self._tally(self.sizes["candidates"] - 1, np.zeros(len(self.sizes), dtype=np.int64))
        low, high = sorted((metric.best, metric(last)))
        return low, high

    def worth(self, metric: Metric | Statistic, raw: float) -> dict[Adjusted, float]:
        """Adjust a raw value in every way there is."""
        forms = [Adjusted(form, metric) for form in FORMS]
        return {form: form.map(self.law(metric))(raw) for form in forms}

    def constant(self) -> Tally:
        """Tally what a scorer gets that gives every candidate the same score."""
        candidates = self.sizes["candidates"]
        return self._tally(np.zeros(len(candidates), dtype=np.int64), candidates - 1)

    def _tally(self, better: Ints, equal: Ints) -> Tally:
        columns = {"better": better, "equal": equal, "weight": self.sizes["weight"]}
        return Tally(Histogram.of(self.sizes.counts, **columns), self.sizes)


class Board(NamedTuple):
    """Where results compare directly: one data set, asked in one way."""

    data: str | Graph
    split: str = "test"
    side: Side = "both"
    filter: Filter = "all"
    unseen: Unseen = "keep"

    @classmethod
    def of(cls, data: str | Graph, split: str, side: Side, filter: Filter, unseen: Unseen) -> Board:  # noqa: A002
        """Find a data set by any of its names."""
        name = data if isinstance(data, Graph) else facts(data, unseen=unseen).data
        return cls(name, split, side, filter, unseen)

    @property
    def protocol(self) -> Protocol:
        """The protocol of a ranking that was done in this way."""
        data = self.data
        splits = data.splits if isinstance(data, Graph) else facts(data, unseen=self.unseen).triples
        return Protocol(
            data=data.name if isinstance(data, Graph) else data,
            split=self.split,
            sides=SIDES[self.side],
            filter=tuple(splits) if self.filter == "all" else (),
            unseen=data.unseen if isinstance(data, Graph) and self.unseen == "keep" else self.unseen,
        )

    def footing(self) -> Footing:
        """Look the candidates up."""
        sizes = atlas(self.data, self.split, self.side, filter=self.filter, unseen=self.unseen)
        return Footing(sizes, self.protocol)
