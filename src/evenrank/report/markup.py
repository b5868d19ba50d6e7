"""HTML of a page: tables that can be sorted and searched, charts, lists, and colours.

All text is escaped here and nowhere else: names from files are text, never markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan, nan
from typing import Any

from evenrank._internal.table import defined, figure
from evenrank.report.charts import COLOURS, Chart, svg
from evenrank.stats import Interval

UNBROKEN = re.compile(r"\bp [<=≤≥] ")  # no line break between p and its value
MANY_ROWS = 24  # longer tables scroll


@dataclass(frozen=True)
class Column:
    """The header of a column; `increasing` is the direction of better values, which sort first."""

    title: str
    increasing: bool | None = None
    label: bool = False

    def html(self) -> str:
        """Return the header as a button that sorts the table."""
        first = {
            True: "descending",
            False: "ascending",
            None: "ascending" if self.label else "descending",
        }
        kind = ' class="label"' * self.label
        return (
            f'<th scope="col"{kind} aria-sort="none" data-first="{first[self.increasing]}">'
            f'<button type="button">{escape(self.title).replace(chr(10), "<br>")}</button></th>'
        )


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the value it is sorted by, and an optional line below."""

    text: str
    value: float | None = None
    below: str = ""
    best: bool = False

    def html(self, column: Column, first: bool) -> str:
        """Return the cell as HTML; the first cell of a row is its header."""
        tag = 'th scope="row"' if first else "td"
        kinds = [name for name, on in (("label", column.label), ("best", self.best)) if on]
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        value = nan if self.value is None else self.value
        by = "" if isnan(value) else f' data-v="{value:.7g}"'
        text = f"<b>{escape(self.text)}</b>" if self.best else escape(self.text)
        below = f"<small>{escape(self.below)}</small>" if self.below else ""
        return f"<{tag}{kind}{by}>{text}{below}</{tag.split()[0]}>"


def table(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table that can be sorted, searched and scrolled by keyboard."""
    head = "".join(column.html() for column in columns)
    body = "".join(
        "<tr>" + "".join(c.html(columns[i], not i) for i, c in enumerate(row)) + "</tr>" for row in rows
    )
    label = escape(caption, quote=True)
    tall = " tall" * (body.count("<tr>") > MANY_ROWS)
    # a paragraph, not a caption, so that it does not scroll sideways with the table
    return (
        f'<p class="caption" id="{name}-says">{escape(caption)}</p>'
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-label="{label}">'
        f'<table id="{name}" aria-describedby="{name}-says"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def drawing(name: str, chart: Chart, caption: str) -> str:
    """Return a chart as SVG in the colours of the page, with a text alternative."""
    shape = svg(chart, "page")
    label = escape(caption, quote=True)
    shape = shape.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return (
        f'<figure id="{name}"><div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"{shape}</div><figcaption>{escape(caption)}</figcaption></figure>"
    )


def between(interval: Interval) -> str:
    """Write the ends of an interval, or an empty text."""
    if isnan(interval.low):
        return ""
    low, high = figure(interval.low), figure(interval.high)
    return f"{low} to {high}" if interval.low < 0 else f"{low}–{high}"


def _whole(found: re.Match[str]) -> str:
    return found[0].replace(" ", "\u00a0")


def listed(lines: Iterable[str]) -> str:
    """Return lines of text as a list."""
    items = "".join(f"<li>{escape(UNBROKEN.sub(_whole, line))}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def colours(dark: bool) -> str:
    """Return the colours of the charts as CSS variables."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLOURS.items())


def embedded(content: Any) -> str:
    """Return JSON for a script element, with every < escaped."""
    text = json.dumps(defined(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c")
