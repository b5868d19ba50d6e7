"""The result of `estimate_full`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from evenrank._internal.table import Table
from evenrank.ranks.evaluation import arrow, cell
from evenrank.ranks.protocol import Protocol
from evenrank.stats._cells import Cells
from evenrank.stats._intervals import percent, plural

Estimator = Literal["em", "bv", "cls"]
Vary = Literal["candidates", "targets"]
Kind = Literal["interval", "bounds", "unknown"]
WORDS = {
    "em": "a smooth distribution of ranks, fitted to the sample (EM)",
    "bv": "a uniform distribution of ranks (least squared bias plus variance)",
    "cls": "a uniform distribution of ranks (constrained least squares)",
}


class Estimated(NamedTuple):
    """A metric among sampled candidates, and its estimate for the full ranking.

    Parameters
    ----------
    sampled : float
        The metric among the sampled candidates.
    value : float
        The estimate: unbiased for an interval; for bounds, under an assumed distribution of ranks.
    low, high : float
        The confidence interval, or bounds with at least this confidence level.
    kind : {"interval", "bounds", "unknown"}
        What `low` and `high` are; "unknown" is for groups without an estimate, whose values are NaN.
    standard_error : float
        The standard error of an unbiased estimate; otherwise NaN.
    """

    sampled: float
    value: float
    low: float
    high: float
    kind: Kind
    standard_error: float


@dataclass(frozen=True, eq=False, repr=False)
class FullEstimate(Cells[Estimated]):
    """Metrics of a full ranking, estimated from ranks among sampled candidates; prints as a table.

    `result["mrr"]` is the `Estimated` value of a metric, or a list with one per group.

    Parameters
    ----------
    evaluation : Evaluation
        The metrics among the sampled candidates.
    cells : tuple of tuple of Estimated
        An estimate per group and metric.
    estimator : {"em", "bv", "cls"}
        The point estimate between bounds.
    vary : {"candidates", "targets"}
        What is considered random.
    level : float
        The confidence level.
    unit : str
        The resampling unit.
    drawn, full : tuple of int
        The smallest and largest number of sampled candidates (without the target), and of all
        candidates.
    samples : int
        The number of samples.
    replace : bool
        Whether candidates were drawn with replacement.
    notes : tuple of str
        Remarks, such as metrics that cannot be estimated.
    """

    estimator: Estimator
    vary: Vary
    level: float
    unit: str
    drawn: tuple[int, int]
    full: tuple[int, int]
    samples: int
    replace: bool = False
    notes: tuple[str, ...] = ()

    @property
    def protocol(self) -> Protocol:
        """How the ranks and the estimates were computed."""
        own = {"estimate": self.estimator, "level": percent(self.level), "varied": self.vary}
        return self.evaluation.protocol.updated(
            own | ({"drawn": "with replacement"} if self.replace else {})
        )

    def content(self) -> dict[str, Any]:
        """Collect all results, with protocol and notes."""
        return {
            "protocol": self.protocol.to_dict(),
            "level": self.level,
            "drawn": list(self.drawn),
            "full": list(self.full),
            "samples": self.samples,
            "replace": self.replace,
            "rows": self.rows(),
            "notes": [*self._words(), *self.notes],
        }

    def tables(self) -> list[Table]:
        """Build the table: a row per metric of each group."""
        rows = [
            [
                *label,
                f"{expression} {arrow(expression)}".rstrip(),
                *(cell(expression, x) for x in (found.sampled, found.value, found.low, found.high)),
                found.kind,
            ]
            for label, expression, found in self.each()
        ]
        names = self.evaluation.label_names
        header = [*names, "metric", "sampled", "estimate", "low", "high", "kind"]
        *counted, _ = self.evaluation.footer()
        usual = {"estimate": "em", "level": percent(0.95), "varied": "candidates"}
        notes = [*self._words(), *self.notes, *counted, self.protocol.note(usual)]
        optional = ("kind", "sampled", "high", "low")
        return [Table(header, rows, notes, labels=len(names) + 1, optional=optional)]

    def _words(self) -> list[str]:
        """Describe the sample, and the guarantees of intervals and bounds."""
        of = "these targets" if self.vary == "candidates" else f"other {plural(self.unit, 2)} like these"
        kinds = {found.kind for row in self.cells for found in row}
        others = tuple(n - 1 for n in self.full)
        times = f", {self.samples} times" if self.samples > 1 else ""
        again = " with replacement" * self.replace
        words = [
            f"{_span(self.drawn)} of {_span(others)} other candidates drawn{again}{times}; "
            f"low to high is for the full ranking of {of}"
        ]
        if "interval" in kinds:
            words.append(
                f"interval: {percent(self.level)} confidence interval; the estimate is unbiased"
            )
        if "bounds" in kinds:
            words += [
                f"bounds: at least {percent(self.level)} confidence for every distribution of ranks;",
                f"  the estimate between them assumes {WORDS[self.estimator]}",
            ]
        return words


def _span(ends: tuple[int, ...]) -> str:
    return " to ".join(dict.fromkeys(f"{end:,}" for end in ends))
