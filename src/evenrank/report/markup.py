"""HTML of a page: tables that can be sorted and searched, charts, lists, and colours.

All text is escaped here and nowhere else: names from files are text, never markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import isnan, nan
from typing import Any

from evenrank._internal.table import defined, figure
from evenrank.report.charts import COLOURS, Chart, swatch
from evenrank.stats import Interval

UNBROKEN = re.compile(r"\bp [<=≤≥] ")  # no line break between p and its value
MANY_ROWS = 24  # longer tables scroll, and are printed over several pages
MANY_COLUMNS = 12  # wider tables are printed in landscape
MANY_MODELS = 6  # larger matrices are set in small type
LONG = 18  # letters of a name that needs room
SHORT = 12  # letters of a name that fits into the header of a matrix


@dataclass(frozen=True)
class Column:
    """The header of a column.

    `increasing` is the direction of better values, which sort first. A pinned column stays in view when
    the table scrolls sideways, and names the rows; a wide one is left out on phones; a long one has long
    texts.
    """

    title: str
    increasing: bool | None = None
    label: bool = False
    pin: bool = False
    wide: bool = False
    long: bool = False

    @property
    def kinds(self) -> list[str]:
        """The classes of its cells."""
        return [kind for kind in ("label", "pin", "wide", "long") if getattr(self, kind)]

    def html(self) -> str:
        """Return the header as a button that sorts the table."""
        first = {
            True: "descending",
            False: "ascending",
            None: "ascending" if self.label else "descending",
        }
        by = f'aria-sort="none" data-first="{first[self.increasing]}"'
        return (
            f'<th scope="col"{classes(self.kinds)} {by}>'
            f'<button type="button">{escape(self.title).replace(chr(10), "<br>")}</button></th>'
        )


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the value it is sorted by, and optional lines below.

    `phone` is what a column says that is left out on phones.
    """

    text: str
    value: float | None = None
    below: str = ""
    best: bool = False
    phone: str = ""

    def html(self, column: Column) -> str:
        """Return the cell as HTML; the pinned cell of a row is its header."""
        tag = 'th scope="row"' if column.pin else "td"
        value = nan if self.value is None else self.value
        by = "" if isnan(value) else f' data-v="{value:.7g}"'
        text = f"<b>{escape(self.text)}</b>" if self.best else escape(self.text)
        text += f"<small>{escape(self.below)}</small>" if self.below else ""
        text += f'<small class="phone">{escape(self.phone)}</small>' if self.phone else ""
        return f"<{tag}{classes([*column.kinds, *['best'] * self.best])}{by}>{text}</{tag.split()[0]}>"


def classes(names: Sequence[str]) -> str:
    """Return classes as an attribute."""
    return f' class="{" ".join(names)}"' if names else ""


def table(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table that can be sorted, searched and scrolled by keyboard."""
    rows = list(rows)
    columns = [
        replace(column, long=column.pin and any(len(row[i].text) > LONG for row in rows))
        for i, column in enumerate(columns)
    ]
    head = "".join(column.html() for column in columns)
    lines = [
        f"<tr>{''.join(c.html(column) for c, column in zip(row, columns, strict=True))}</tr>"
        for row in rows
    ]
    length = "tall" if len(lines) > MANY_ROWS else "short"
    kinds = ["scroll", length, *["turned"] * (len(columns) > MANY_COLUMNS)]
    return _scrolling(name, caption, kinds, head, "".join(lines))


def _scrolling(name: str, caption: str, kinds: Sequence[str], head: str, body: str) -> str:
    label = escape(caption, quote=True)
    # a paragraph, not a caption, so that it does not scroll sideways with the table
    return (
        f'<p class="caption" id="{name}-says">{escape(caption)}</p>'
        f'<div{classes(kinds)} tabindex="0" role="region" aria-label="{label}">'
        f'<table id="{name}" aria-describedby="{name}-says"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


@dataclass(frozen=True)
class Duel:
    """A cell of a matrix: the difference of two models, the line below, and who is better."""

    text: str
    below: str
    verdict: str  # "won", "lost", or "undecided"
    tells: str

    def html(self) -> str:
        """Return the cell as HTML."""
        mark = {"won": "▲ ", "lost": "▼ "}.get(self.verdict, "")
        return (
            f'<td class="{self.verdict}" title="{escape(self.tells, quote=True)}">{escape(self.text)}'
            f"<small>{mark}{escape(self.below)}</small></td>"
        )


def matrix(
    name: str, caption: str, models: Sequence[str], cells: Sequence[Sequence[Duel | None]]
) -> str:
    """Return a table of every model against every other; long names are numbered in its header."""
    numbered = max(map(len, models)) > SHORT
    named = ["label", "pin", *["long"] * (max(map(len, models)) > LONG)]
    heads = [
        f'<th scope="col" title="{escape(model, quote=True)}">{i if numbered else escape(model)}</th>'
        for i, model in enumerate(models, 1)
    ]
    lines = [
        f'<tr><th scope="row"{classes(named)}>{f"{i} " * numbered}{escape(model)}</th>'
        f"{''.join('<td>–</td>' if cell is None else cell.html() for cell in row)}</tr>"
        for i, (model, row) in enumerate(zip(models, cells, strict=True), 1)
    ]
    kinds = ["scroll", "matrix", *["compact"] * (len(models) > MANY_MODELS)]
    return _scrolling(name, caption, kinds, f'<td class="pin"></td>{"".join(heads)}', "".join(lines))


def drawing(name: str, chart: Chart, caption: str) -> str:
    """Return a chart as a legend and panels, which take the colours and the font of the page."""
    label = escape(caption, quote=True)
    entries = "".join(
        f'<li><svg viewBox="0 -6 {28 if chart.lines else 12} 12" aria-hidden="true">'
        f"{swatch(look, chart.lines)}</svg>{escape(model)}</li>"
        for model, look in chart.legend.items()
    )
    panels = "".join(panel.svg() for panel in chart.panels)
    return (
        f'<figure id="{name}"><ul class="legend">{entries}</ul>'
        f'<div class="scroll panels of-{chart.columns}" tabindex="0" role="region" aria-label="{label}">'
        f"{panels}</div><figcaption>{escape(caption)}</figcaption></figure>"
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
