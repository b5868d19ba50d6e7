"""The base of `Intervals` and `FullEstimate`: a cell for each group and metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evenrank._internal.table import Shown
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import Evaluation, labelled

Cell = TypeVar("Cell", bound=tuple[Any, ...])  # a named tuple


@dataclass(frozen=True, eq=False, repr=False)
class Cells(Shown, Generic[Cell]):
    """An evaluation with a cell for each value."""

    evaluation: Evaluation[Any]
    cells: tuple[tuple[Cell, ...], ...]

    def __getitem__(self, metric: str | Expression) -> Any:
        """Look up the cell of a metric, or a list with one per group."""
        self.evaluation[metric]  # raises an error that lists the metrics
        column = self.evaluation.expressions.index(parse(metric))
        found = [row[column] for row in self.cells]
        return found if self.evaluation.label_names else found[0]

    def each(self) -> Iterator[tuple[tuple[str, ...], Expression, Cell]]:
        """Iterate over the cells, with the labels of their group and their metric."""
        for label, row in zip(self.evaluation.labels, self.cells, strict=True):
            for expression, cell in zip(self.evaluation.expressions, row, strict=True):
                yield label, expression, cell

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per group and metric: labels, metric, and the fields of the cell."""
        names = self.evaluation.label_names
        return [
            labelled(names, label, {"metric": str(expression), **cell._asdict()})  # type: ignore[attr-defined]
            for label, expression, cell in self.each()
        ]
