"""What the explorer and the leaderboard share: style, scripts, and rows of the record."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from evenrank.published import Finding, Recorded, audit, own_file

SCRIPTS = ("numbers", "chance", "consistency", "record")
PLACE = Path(__file__).with_name("explorer.json.gz")
SOURCES = {"graphs": ("atlas.json.gz", "structure.json.gz"), "published": ("record.parquet",)}


class Found(NamedTuple):
    """A finding of the audit: its kind, and a sentence."""

    kind: str
    text: str


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
    findings: Mapping[int, Iterable[Found]],
    texts: Iterable[str],
    others: Iterable[str],
) -> dict[str, Any]:
    """Write rows as columns; of texts that repeat, as the numbers of these in a list.

    Parameters
    ----------
    rows : sequence of Recorded
        The rows.
    findings : mapping of int to iterable of Found
        What the audit finds, by row.
    texts, others : iterable of str
        The columns with texts that repeat, and the others.

    Returns
    -------
    dict
        The texts, the kinds of findings, the links to the places of values, and the columns.
    """
    lists: dict[str, list[str]] = {}
    columns: dict[str, list[Any]] = {}
    for name in texts:
        lists[name], columns[name] = _numbered(getattr(one, name) for one in rows)
    lists["model"], columns["model"] = _numbered(one.name for one in rows)
    found = {i: [Found(*one) for one in several] for i, several in findings.items()}
    every = sorted({(one.text, one.kind) for several in found.values() for one in several})
    lists["findings"] = [text for text, _ in every]
    place = {text: i for i, (text, _) in enumerate(every)}
    columns["findings"] = [[place[one.text] for one in found.get(i, ())] for i in range(len(rows))]
    columns["percent"] = [int(one.percent) for one in rows]
    for name in others:
        columns[name] = [getattr(one, name) for one in rows]
    links = {one.where: one.link for one in rows}
    return {
        "texts": lists,
        "kinds": [kind for _, kind in every],
        "links": [links[where] for where in lists["where"]],
        "columns": columns,
    }


def _numbered(given: Iterable[str]) -> tuple[list[str], list[int]]:
    """List the distinct texts, and the number of each text among them."""
    place: dict[str, int] = {}
    numbers = [place.setdefault(text, len(place)) for text in given]
    return [*place], numbers


# What takes long to compute -----------------------------------------------------------------------


def stored() -> dict[str, Any] | None:
    """Read what `explorer.store` wrote; None if the atlas or the record has changed since."""
    if not PLACE.is_file():
        return None
    content: dict[str, Any] = json.loads(gzip.decompress(PLACE.read_bytes()))
    return content if content["of"] == sources() else None


def sources() -> str:
    """Return the hash of the files of the atlas and the record."""
    places = (files(f"evenrank.{package}") / name for package, each in SOURCES.items() for name in each)
    return hashlib.sha256(b"".join(place.read_bytes() for place in places)).hexdigest()[:16]


def known_findings(rows: Sequence[Recorded]) -> dict[int, list[Found]]:
    """Return what the audit finds for rows of the record: stored, if the user has added none."""
    known = None if own_file().exists() else stored()
    if known is None:
        return findings_by_row(rows)
    return {row: [Found(*one) for one in found] for row, found in known["findings"]}


def findings_by_row(rows: Sequence[Recorded]) -> dict[int, list[Found]]:
    """Audit the record, and return what it finds for the rows that it concerns.

    Parameters
    ----------
    rows : sequence of Recorded
        All rows of the record.

    Returns
    -------
    dict of int to list of Found
        The findings, by row.
    """
    by_place: dict[tuple[str, str, str], list[int]] = {}
    for i, one in enumerate(rows):
        by_place.setdefault((one.data, one.name, one.where), []).append(i)
    found: dict[int, list[Found]] = {}
    for finding in audit().findings:
        for i in by_place.get((finding.data, finding.model, finding.where), ()):
            if _concerns(finding, rows[i]):
                found.setdefault(i, []).append(Found(finding.kind, str(finding)))
    return found


def _concerns(finding: Finding, row: Recorded) -> bool:
    return row.given in finding.given and finding.source in ("", row.source)
