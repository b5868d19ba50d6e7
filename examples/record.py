"""Print the tables of docs/record.md and docs/audit.md, from the record of published results.

Usage: python examples/record.py order|findings

`order` ranks the results of the record, on all data sets whose numbers of candidates are exact, by a
metric as printed, and by its adjusted index, and prints those whose position changes most. `findings`
prints what the audit finds.
"""

import sys
from collections.abc import Iterator
from math import isfinite

import evenrank as er
from evenrank.published import Recorded

METRICS = ("mrr", "hits@1", "hits@3", "hits@10")


def positions(values: list[float]) -> list[int]:
    """Return the position of each value, the largest first; ties share the first position."""
    ordered = sorted(values, reverse=True)
    return [ordered.index(value) + 1 for value in values]


def moves(metric: str) -> Iterator[tuple[int, int, int, Recorded, float]]:
    """Compare the positions of the best own value of each model on each data set."""
    made = er.published.results(
        metric=metric, split="test", sides="both", filter="all", own=True
    ).adjust()
    best: dict[tuple[str, str], tuple[Recorded, float]] = {}
    for one, adjusted in zip(made, made.adjusted, strict=True):
        key = (one.data, one.model)
        exact = isfinite(adjusted.index) and not adjusted.approximate
        if exact and (key not in best or one.value > best[key][0].value):
            best[key] = (one, adjusted.index)
    rows = list(best.values())
    raw, index = positions([one.value for one, _ in rows]), positions([index for _, index in rows])
    for (one, value), before, after in zip(rows, raw, index, strict=True):
        yield before, after, len(rows), one, value


def order() -> None:
    """Print the ten largest changes of position, over all metrics."""
    print("\n".join(order_lines()))


def order_lines() -> list[str]:
    """Write the ten largest changes of position as the lines of a table."""
    found = sorted(
        (
            (before, after, many, one, index)
            for m in METRICS
            for before, after, many, one, index in moves(m)
        ),
        key=lambda row: -abs(row[0] - row[1]),
    )
    lines = ["| metric | data set | model | value | index | position by value | by index | of |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for before, after, many, one, index in found[:10]:
        cells = (
            one.metric,
            one.data,
            one.model,
            f"{one.value:.3f}",
            f"{index:.3f}",
            before,
            after,
            many,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def findings() -> None:
    """Print what the audit finds."""
    print(er.published.audit().to_markdown())


if __name__ == "__main__":
    {"order": order, "findings": findings}[sys.argv[1]]()
