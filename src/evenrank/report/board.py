"""The leaderboard: a page with the record of published results, adjusted for chance.

All values and chance levels are computed here; the page selects, sorts and draws them. Columns are
written as lists of numbers, with texts in lists of their own, which keeps the page small.
"""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path
from typing import Any

import evenrank
from evenrank._internal.files import as_path, replacing
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.metrics.grammar import parse
from evenrank.published import Record, results
from evenrank.report.templates import encoded, filled, known_findings

# columns of texts that repeat, which are written as numbers of a list
TEXTS = (
    *("data", "metric", "source", "where", "origin"),
    *("candidates", "filter", "sides", "split", "ties", "unseen"),
)
OTHERS = ("printed", "year", "note")
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
    content = encoded(rows, known_findings(rows), TEXTS, OTHERS)
    columns, texts = content["columns"], content["texts"]
    columns["approximate"] = [int(one.approximate) for one in made.adjusted]
    for name in ("chance", "index", "z"):
        columns[name] = [_rounded(getattr(one, name)) for one in made.adjusted]
    titles = registry.entries()
    return {
        "version": evenrank.__version__,
        **content,
        "titles": [titles[name].title if name in titles else name for name in texts["data"]],
        "increasing": [parse(name).increasing for name in texts["metric"]],
    }


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
