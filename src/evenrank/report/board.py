"""The leaderboard: a page with the record of published results, read against chance, offline.

All values and chance levels are computed here; the page selects, sorts and draws them. Columns are
written as lists of numbers, with texts in lists of their own, which keeps the page small.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

import evenrank
from evenrank._internal.files import as_path, replacing
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.metrics.grammar import parse
from evenrank.published import Finding, Record, Recorded, audit, results
from evenrank.report.explorer import filled

# columns of texts that repeat, which are written as numbers of a list
TEXTS = (
    *("data", "metric", "source", "where", "origin"),
    *("candidates", "filter", "sides", "split", "ties", "unseen"),
)
DIGITS = 6  # of chance levels, indices and z-scores; the page shows four


def write(path: str | os.PathLike[str]) -> Path:
    """Write the page, as `evenrank.leaderboard` documents."""
    path = as_path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("the leaderboard is an .html file", got=path.name)
    with replacing(path) as file:
        file.touch()  # fail before the work, not after it
        file.write_text(filled("leaderboard.html", compute(results(candidates="any"))), encoding="utf-8")
    return path


def compute(record: Record) -> dict[str, Any]:
    """Return the content of the page.

    Parameters
    ----------
    record : Record
        The published results.

    Returns
    -------
    dict
        Texts, and columns with a value per result.
    """
    made = record.adjust()
    rows = list(made)
    texts: dict[str, list[str]] = {}
    columns: dict[str, list[Any]] = {}
    for name in TEXTS:
        texts[name], columns[name] = _numbered(getattr(one, name) for one in rows)
    texts["model"], columns["model"] = _numbered(one.name for one in rows)
    links = {one.where: one.link for one in rows}
    findings = _findings(rows)
    every = sorted({(str(one), one.kind) for found in findings.values() for one in found})
    texts["finding"] = [text for text, _ in every]
    place = {text: i for i, text in enumerate(texts["finding"])}
    columns["findings"] = [[place[str(one)] for one in findings.get(i, ())] for i in range(len(rows))]
    columns["printed"] = [one.printed for one in rows]
    columns["percent"] = [int(one.percent) for one in rows]
    columns["year"] = [one.year for one in rows]
    columns["note"] = [one.note for one in rows]
    columns["approximate"] = [int(one.approximate) for one in made.adjusted]
    for name in ("chance", "index", "z"):
        columns[name] = [_rounded(getattr(one, name)) for one in made.adjusted]
    titles = registry.entries()
    return {
        "version": evenrank.__version__,
        "texts": texts,
        "titles": [titles[name].title if name in titles else name for name in texts["data"]],
        "links": [links[where] for where in texts["where"]],
        "kinds": [kind for _, kind in every],
        "increasing": [parse(name).increasing for name in texts["metric"]],
        "columns": columns,
    }


def _numbered(given: Iterable[str]) -> tuple[list[str], list[int]]:
    """List the distinct texts, and the number of each text among them."""
    place: dict[str, int] = {}
    numbers = [place.setdefault(text, len(place)) for text in given]
    return [*place], numbers


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None


def _findings(rows: list[Recorded]) -> dict[int, list[Finding]]:
    """Return what the audit finds, for the rows that it concerns."""
    by_place: dict[tuple[str, str, str], list[int]] = {}
    for i, one in enumerate(rows):
        by_place.setdefault((one.data, one.name, one.where), []).append(i)
    found: dict[int, list[Finding]] = {}
    for finding in audit().findings:
        for i in by_place.get((finding.data, finding.model, finding.where), ()):
            if _concerns(finding, rows[i]):
                found.setdefault(i, []).append(finding)
    return found


def _concerns(finding: Finding, row: Recorded) -> bool:
    return row.given in finding.given and finding.source in ("", row.source)
