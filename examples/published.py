"""Adjust the results of Hoyt et al. 2022 from their base metrics, and compare with its own columns.

Usage: python examples/published.py case_study_results.tsv

The file is the result table of the case study of Hoyt et al. 2022: four models on four data sets, a
column per metric, adjusted ones included. Numbers of candidates come from the atlas. Prints the two
tables of docs/published.md.
"""

import csv
import sys
from collections.abc import Callable
from functools import cache
from math import log
from pathlib import Path

import evenrank as er
from evenrank._internal.table import Table, figure
from evenrank.metrics.chance import NullDistribution

Row = dict[str, str]

DATA = ("nations", "kinships", "fb15k237", "wn18rr")
MODELS = {"complex": "ComplEx", "rotate": "RotatE", "transe": "TransE", "tucker": "TuckER"}
HITS = ("hits_at_1", "hits_at_3", "hits_at_5", "hits_at_10")
BASE = ("arithmetic_mean_rank", "inverse_harmonic_mean_rank", "geometric_mean_rank", *HITS)
COLUMNS = (
    "adjusted_arithmetic_mean_rank",
    "adjusted_arithmetic_mean_rank_index",
    *(f"adjusted_{name}" for name in HITS),
    "adjusted_inverse_harmonic_mean_rank",
    "adjusted_geometric_mean_rank_index",
    *(f"z_{name}" for name in BASE),
)
MIRRORED = "z_arithmetic_mean_rank"  # published as (x - E) / sigma, negative for good models
SIDE_BY_SIDE = {
    "index(mrr)": "adjusted_inverse_harmonic_mean_rank",
    "z(mrr)": "z_inverse_harmonic_mean_rank",
    "z(hits@10)": "z_hits_at_10",
    "z(mr)": MIRRORED,
}
# tolerances: expected mean ranks were summed in single precision, all else in double precision
SINGLE, DOUBLE = 2.0**-22, 1e-9


@cache
def null_distribution(metric: er.Metric, data: str, missing: int) -> NullDistribution:
    """Return the null distribution of a metric with `missing` candidates too few in every set."""
    sizes = er.atlas(data, unseen="drop")
    return er.chance(metric, sizes["candidates"] - missing, counts=sizes.counts)


def exact(row: Row) -> er.Evaluation:
    """Adjust the base metrics of a row, with independent ranks as in the publication."""
    values = {name: float(row[name]) for name in BASE}
    return er.adjust(values, data=row["dataset"], unseen="drop", chance="independent")


def too_small(row: Row, column: str) -> float:
    """Adjust with one candidate too few: the target is not counted."""
    adjusted = er.parse(column)
    raw = next(float(row[name]) for name in BASE if er.parse(name) == adjusted.metric)
    return adjusted.map(null_distribution(adjusted.metric, row["dataset"], 1))(raw)


def continuous(row: Row, column: str) -> float:
    """Adjust the MRR by the mean of 1/x over a continuous rank, at the mean candidate count."""
    del column
    sizes = er.atlas(row["dataset"], unseen="drop")
    mean = float(sizes["candidates"] @ sizes.counts) / sizes.total
    chance, raw = log(mean) / (mean - 1), float(row["inverse_harmonic_mean_rank"])
    return (raw - chance) / (1 - chance)


def recipe(column: str) -> tuple[str, Callable[[Row, str], float]] | None:
    """Return how an inexact column was computed, in words and as a function."""
    if column == "adjusted_inverse_harmonic_mean_rank":
        return "expected MRR taken as ln C/(C-1), at the mean number of candidates C", continuous
    if column.startswith("z_") or "geometric" in column:
        return "candidates one too few" + ", sign not changed" * (column == MIRRORED), too_small
    return None


def published(row: Row, column: str) -> float:
    """Return the paper's value, negated where lower is better."""
    return (-1 if column == MIRRORED else 1) * float(row[column])


def deviation(theirs: float, ours: float) -> float:
    """Return the deviation of two values, relative above 1."""
    return abs(theirs - ours) / max(1.0, abs(ours))


def written(apart: float) -> str:
    """Format a deviation; those of double precision differ between machines."""
    return f"{apart:.0e}" if apart > DOUBLE else "≤ 1e-09"


def verdicts(rows: list[Row], ours: list[er.Evaluation]) -> Table:
    """Confirm or correct each adjusted column, with the largest deviation on each data set."""
    lines = []
    for column in COLUMNS:
        worst = dict.fromkeys(DATA, 0.0)
        for row, adjusted in zip(rows, ours, strict=True):
            apart = deviation(published(row, column), adjusted[column])
            worst[row["dataset"]] = max(worst[row["dataset"]], apart)
        slip = recipe(column)
        within = max(worst.values()) <= (SINGLE if "arithmetic" in column and not slip else DOUBLE)
        assert within == (slip is None), column
        made = max(deviation(published(r, column), slip[1](r, column)) for r in rows) if slip else None
        lines.append(
            [
                f"`{column}`",
                str(er.parse(column)),
                "confirmed" if within else f"corrected: {slip[0] if slip else ''}",
                *map(written, worst.values()),
                "" if made is None else written(made),
            ]
        )
    header = ["published column", "is", "verdict", *DATA, "with this error"]
    return Table(header, lines, labels=3)


def side_by_side(rows: list[Row], ours: list[er.Evaluation]) -> Table:
    """Compare published values with exact ones, for all rows."""
    pairs = list(zip(rows, ours, strict=True))
    lines = [
        [row["dataset"], MODELS[row["model"]]]
        + [
            f"{figure(published(row, column))} / {figure(adjusted[column])}"
            for column in SIDE_BY_SIDE.values()
        ]
        for row, adjusted in sorted(pairs, key=lambda pair: DATA.index(pair[0]["dataset"]))
    ]
    return Table(
        ["data", "model", *(f"{name}: paper / exact" for name in SIDE_BY_SIDE)], lines, labels=2
    )


def main(path: Path) -> None:
    """Print both tables as Markdown."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    ours = [exact(row) for row in rows]
    print(verdicts(rows, ours).markdown(), side_by_side(rows, ours).markdown(), sep="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
