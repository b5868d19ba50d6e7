"""What is known of a full ranking's metrics, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from evenrank._internal.table import Shown, Table
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import Evaluation, arrow, cell, labelled
from evenrank.ranks.protocol import Protocol
from evenrank.stats._intervals import percent, plural

Estimator = Literal["em", "bv", "cls"]
Vary = Literal["candidates", "targets"]
Kind = Literal["interval", "bounds", "unknown"]
WORDS = {
    "em": "a smooth distribution of ranks, fitted to the sample (EM)",
    "bv": "all ranks to be equally likely (least squared bias and variance)",
    "cls": "all ranks to be equally likely (least squares within the range)",
}


class Estimated(NamedTuple):
    """A metric among the sampled candidates, and what is known of it among all of them.

    Of kind "interval", `value` has no bias and `low` to `high` holds the truth at the level asked for.
    Of kind "bounds" they hold it at that level or more, and `value` is a guess that supposes how ranks
    are distributed. Of kind "unknown", which only one of several groups can be, they are NaN.
    """

    sampled: float
    value: float
    low: float
    high: float
    kind: Kind
    standard_error: float


@dataclass(frozen=True, eq=False, repr=False)
class FullEstimate(Shown):
    """Metrics of a full ranking, estimated from ranks among sampled candidates; prints as a table.

    Index it with a metric: `result["mrr"]` is an `Estimated`, or a list with one per group.
    """

    evaluation: Evaluation[Any]
    cells: tuple[tuple[Estimated, ...], ...]
    estimator: Estimator
    vary: Vary
    level: float
    unit: str
    drawn: tuple[int, int]
    full: tuple[int, int]
    samples: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, metric: str | Expression) -> Any:
        """Give what is known of a metric (or of each group)."""
        self.evaluation[metric]  # says what is there, if this is not
        column = self.evaluation.expressions.index(parse(metric))
        found = [row[column] for row in self.cells]
        return found if self.evaluation.label_names else found[0]

    def _lines(self) -> Iterator[tuple[tuple[str, ...], Expression, Estimated]]:
        """Give the labels of a group, a metric, and what is known of it."""
        for label, row in zip(self.evaluation.labels, self.cells, strict=True):
            for expression, found in zip(self.evaluation.expressions, row, strict=True):
                yield label, expression, found

    @property
    def protocol(self) -> Protocol:
        """How the ranks and the estimates were computed."""
        own = {"estimate": self.estimator, "level": percent(self.level), "varied": self.vary}
        return self.evaluation.protocol.updated(own)

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per group and metric."""
        names = self.evaluation.label_names
        return [
            labelled(names, label, {"metric": str(expression), **found._asdict()})
            for label, expression, found in self._lines()
        ]

    def content(self) -> dict[str, Any]:
        """Give everything there is to say, protocol and notes included."""
        return {
            "protocol": self.protocol.to_dict(),
            "level": self.level,
            "drawn": list(self.drawn),
            "full": list(self.full),
            "samples": self.samples,
            "rows": self.rows(),
            "notes": [*self._words(), *self.notes],
        }

    def tables(self) -> list[Table]:
        """Lay it out, a metric of a group per line."""
        rows = [
            [
                *label,
                f"{expression} {arrow(expression)}".rstrip(),
                *(cell(expression, x) for x in (found.sampled, found.value, found.low, found.high)),
                found.kind,
            ]
            for label, expression, found in self._lines()
        ]
        names = self.evaluation.label_names
        header = [*names, "metric", "sampled", "estimate", "low", "high", "kind"]
        notes = [*self._words(), *self.notes, *self.evaluation.footer()]
        return [Table(header, rows, notes, labels=len(names) + 1)]

    def _words(self) -> list[str]:
        """Say what was drawn, and what the kinds promise."""
        of = "these targets" if self.vary == "candidates" else f"other {plural(self.unit, 2)} like these"
        kinds = {found.kind for row in self.cells for found in row}
        others = tuple(n - 1 for n in self.full)
        times = f", {self.samples} times" if self.samples > 1 else ""
        words = [
            f"{_span(self.drawn)} of {_span(others)} other candidates drawn{times}; "
            f"low to high holds the full ranking of {of}"
        ]
        if "interval" in kinds:
            words.append(f"interval: at {percent(self.level)}; the estimate has no bias")
        if "bounds" in kinds:
            words += [
                f"bounds: at {percent(self.level)} or more, however ranks are distributed;",
                f"  the estimate within is a guess: it supposes {WORDS[self.estimator]}",
            ]
        return words


def _span(ends: tuple[int, ...]) -> str:
    return " to ".join(dict.fromkeys(f"{end:,}" for end in ends))
