"""The base of `Intervals` and `FullEstimate`: a cell for each group and metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from evenrank._internal.table import Shown
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import Evaluation, labelled
from evenrank.ranks.selection import frequent

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

    def take(self, rows: Iterable[int]) -> Self:
        """Select groups by position.

        Parameters
        ----------
        rows : iterable of int
            Positions of the groups, in the order wanted.

        Returns
        -------
        Cells
            These groups.
        """
        at = [*rows]
        return replace(self, evaluation=self.evaluation.take(at), cells=tuple(self.cells[i] for i in at))

    def sort(self, metric: str | Expression, *, reverse: bool = False) -> Self:
        """Order the groups by a metric, best first; undefined values come last.

        Parameters
        ----------
        metric, reverse
            As for `Evaluation.sort`.

        Returns
        -------
        Cells
            The groups in another order.
        """
        numbered = replace(self.evaluation, labels=tuple((str(i),) for i in range(len(self.cells))))
        ordered = numbered.sort(metric, reverse=reverse)
        made = self.take(int(label) for (label,) in ordered.labels)
        return replace(made, evaluation=replace(made.evaluation, sorted_by=ordered.sorted_by))

    def filter(self, *, min_count: int) -> Self:
        """Keep the groups with enough targets; a note says how many were left out.

        Parameters
        ----------
        min_count : int
            The smallest number of targets.

        Returns
        -------
        Cells
            The larger groups.
        """
        made = self.evaluation
        rows, notes = frequent(made.counts, min_count, made.label_names, made.row_name)
        kept = self.take(rows)
        evaluation = replace(kept.evaluation, notes=(*kept.evaluation.notes, *notes))
        return replace(kept, evaluation=evaluation)

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per group and metric: labels, metric, and the fields of the cell."""
        names = self.evaluation.label_names
        return [
            labelled(names, label, {"metric": str(expression), **cell._asdict()})  # type: ignore[attr-defined]
            for label, expression, cell in self.each()
        ]
