"""What the pages of the explorer and the leaderboard share: style, scripts, and rows of the record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from evenrank.published import Finding, Recorded, audit

SCRIPTS = ("numbers", "chance", "consistency", "record")


def filled(template: str, content: Any) -> str:
    """Return a page with its content, and with the style and the scripts that it names."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = _read(template)
    for name, file in (("style", "pages.css"), *((name, f"{name}.js") for name in SCRIPTS)):
        page = page.replace(f"{{{{{name}}}}}\n", _read(file))
    # "<" is escaped, so that no text can end the script element
    return page.replace("{{content}}", text.replace("<", r"\u003c"))


def _read(name: str) -> str:
    return files("evenrank.report").joinpath(name).read_text(encoding="utf-8")


def encoded(
    rows: Sequence[Recorded],
    findings: Mapping[int, Sequence[str]],
    texts: Iterable[str],
    others: Iterable[str],
) -> dict[str, Any]:
    """Write rows as columns; of texts that repeat, as the numbers of these in a list.

    Parameters
    ----------
    rows : sequence of Recorded
        The rows.
    findings : mapping of int to sequence of str
        What the audit finds, by row.
    texts, others : iterable of str
        The columns with texts that repeat, and the others.

    Returns
    -------
    dict
        The texts, and the columns.
    """
    lists: dict[str, list[str]] = {}
    columns: dict[str, list[Any]] = {}
    for name in texts:
        lists[name], columns[name] = _numbered(getattr(one, name) for one in rows)
    lists["model"], columns["model"] = _numbered(one.name for one in rows)
    lists["findings"] = sorted({text for found in findings.values() for text in found})
    place = {text: i for i, text in enumerate(lists["findings"])}
    columns["findings"] = [[place[text] for text in findings.get(i, ())] for i in range(len(rows))]
    columns["percent"] = [int(one.percent) for one in rows]
    for name in others:
        columns[name] = [getattr(one, name) for one in rows]
    return {"texts": lists, "columns": columns}


def _numbered(given: Iterable[str]) -> tuple[list[str], list[int]]:
    """List the distinct texts, and the number of each text among them."""
    place: dict[str, int] = {}
    numbers = [place.setdefault(text, len(place)) for text in given]
    return [*place], numbers


def findings_by_row(rows: Sequence[Recorded]) -> dict[int, list[str]]:
    """Audit the record, and return what it finds for the rows that it concerns.

    Parameters
    ----------
    rows : sequence of Recorded
        Rows of the record.

    Returns
    -------
    dict of int to list of str
        The findings, by row.
    """
    return {i: list(map(str, found)) for i, found in audited(rows).items()}


def audited(rows: Sequence[Recorded]) -> dict[int, list[Finding]]:
    """Audit the record, as `findings_by_row` does, and return the findings with their kinds."""
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
