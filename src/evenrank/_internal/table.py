"""Tables of text in plain text, Markdown, LaTeX and HTML, and the base class of results."""

from __future__ import annotations

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan
from typing import Any
from unicodedata import combining, east_asian_width

from evenrank._internal import latex
from evenrank._internal.export import Framed
from evenrank._internal.latex import CONTROL as _CONTROL


def figure(x: float) -> str:
    """Format a number with about four significant figures.

    >>> [figure(x) for x in (0.35062, 1.0, 12345.6, 0.000698, -3.14159, float("nan"))]
    ['0.3506', '1.000', '12,346', '6.98e-04', '-3.142', '–']
    """
    size = abs(x)
    if isnan(x):
        return "–"
    if size >= 1e9 or (0 < size < 1e-3):
        return f"{x:.2e}"
    for least, style in ((1000, ",.0f"), (100, ".1f"), (10, ".2f"), (1, ".3f")):
        if size >= least:
            return format(x, style)
    return f"{x:.4f}"


# names may contain what Markdown reads as a tag or as the end of a cell
_MARKDOWN = str.maketrans({"\\": r"\\", "|": r"\|", "<": r"\<", "\n": " "})


def _width(text: str) -> int:
    """Count the terminal columns of a text: two for a wide character, none for an accent."""
    return sum(0 if combining(one) else 1 + (east_asian_width(one) in "WF") for one in text)


@dataclass(frozen=True)
class Table:
    """A table of text with notes below it.

    Parameters
    ----------
    header : sequence of str
        Titles of the columns; line breaks in them are kept in plain text.
    rows : sequence of sequence of str
        The cells.
    notes : sequence of str
        Lines below the table.
    labels : int
        How many columns at the left are left-aligned; all others are right-aligned.
    bold : set of (int, int)
        Rows and columns of cells to print in bold, in formats that have it.

    Examples
    --------
    >>> print(Table(["metric", "value"], [["mrr", "0.35"]], ["402 targets"]).text())
    metric  value
    ------  -----
    mrr      0.35
    402 targets
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    labels: int = 1
    bold: Set[tuple[int, int]] = frozenset()

    def _written(self, write: Callable[[str], str], strong: tuple[str, str]) -> list[list[str]]:
        """Format the cells of all rows, the bold ones between two marks."""
        before, after = strong
        return [
            [
                f"{before}{write(text)}{after}" if (i, j) in self.bold else write(text)
                for j, text in enumerate(row)
            ]
            for i, row in enumerate(self.rows)
        ]

    def text(self) -> str:
        """Format as plain text, for a terminal."""
        height = max(title.count("\n") for title in self.header) + 1
        titles = [title.split("\n") for title in self.header]
        head = [list(line) for line in zip(*([""] * (height - len(t)) + t for t in titles), strict=True)]
        lines = [[_CONTROL.sub(" ", cell) for cell in row] for row in (*head, *self.rows)]
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]

        def line(cells: Sequence[str]) -> str:
            spaces = [" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
            parts = [
                cell + space if i < self.labels else space + cell
                for i, (cell, space) in enumerate(zip(cells, spaces, strict=True))
            ]
            return "  ".join(parts).rstrip()

        rule = ["-" * width for width in widths]
        notes = (_CONTROL.sub(" ", note) for note in self.notes)
        return "\n".join([*map(line, [*lines[:height], rule, *lines[height:]]), *notes])

    def stacked(self) -> str:
        """Format for a narrow terminal: row by row, with each cell on its own line.

        >>> print(Table(["first", "p"], [["rotate", "0.0001"]], ["3 tests"]).stacked())
        first  rotate
        p      0.0001
        <BLANKLINE>
        3 tests
        """
        width = max(map(len, self._flat_header))
        names = [name.ljust(width) for name in self._flat_header]
        blocks = [[f"{n}  {cell}" for n, cell in zip(names, row, strict=True)] for row in self.rows]
        return "\n\n".join(
            "\n".join(_CONTROL.sub(" ", line) for line in lines) for lines in (*blocks, self.notes)
        )

    @property
    def _flat_header(self) -> list[str]:
        return [title.replace("\n", "") for title in self.header]

    def markdown(self) -> str:
        """Format as Markdown."""

        def cell(text: str) -> str:
            return text.translate(_MARKDOWN)

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cells) + " |"

        sides = ["---" if i < self.labels else "---:" for i in range(len(self.header))]
        header, rows = map(cell, self._flat_header), self._written(cell, ("**", "**"))
        body = [*map(line, [[*header], sides, *rows])]
        return "\n".join([*body, *(f"\n{cell(note)}" for note in self.notes)])

    def latex(self) -> str:
        """Format as a LaTeX tabular with booktabs rules."""
        rows = self._written(latex.cell, (r"\textbf{", "}"))
        body = latex.Grid([[*map(latex.cell, self._flat_header)]], rows, self.labels).tabular()
        return "\n".join([*latex.preamble("".join(body)), *body, *latex.comments(self.notes)])

    def html(self) -> str:
        """Format as an HTML table, for notebooks."""

        def line(cells: Sequence[str], tag: str) -> str:
            parts = [
                f'<{tag} style="text-align:{"left" if i < self.labels else "right"}">{cell}</{tag}>'
                for i, cell in enumerate(cells)
            ]
            return f"<tr>{''.join(parts)}</tr>"

        head = line([*map(escape, self._flat_header)], "th")
        body = "".join(line(row, "td") for row in self._written(escape, ("<b>", "</b>")))
        notes = "<br>".join(map(escape, self.notes))
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><small>{notes}</small>"


class Shown(Framed):
    """Base class of results: they print as tables and export to text formats and data frames."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """Return the tables to print.

        Returns
        -------
        sequence of Table
            The tables, from top to bottom.
        """

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return the rows in full precision.

        Returns
        -------
        list of dict
            A flat dictionary per row.
        """

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return the whole result, protocol and notes included, as nested dictionaries.

        Returns
        -------
        dict
            What `to_json` writes.
        """

    def _columns(self) -> dict[str, list[Any]]:
        rows = self.rows()
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def to_json(self) -> str:
        """Write the whole result as JSON; undefined values become null.

        Returns
        -------
        str
            JSON text.
        """
        content = defined(self.content())
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)

    def to_csv(self) -> str:
        """Write the rows in full precision as CSV.

        Returns
        -------
        str
            CSV text with a header.
        """
        return as_csv(self.rows())

    def text(self) -> str:
        """Write the tables as plain text.

        Returns
        -------
        str
            What `print` shows.
        """
        return "\n\n".join(table.text() for table in self.tables())

    def to_markdown(self) -> str:
        """Write the tables as Markdown.

        Returns
        -------
        str
            Markdown text.
        """
        return "\n\n".join(table.markdown() for table in self.tables())

    def to_latex(self) -> str:
        """Write the tables as LaTeX tabulars; they need the package booktabs.

        Returns
        -------
        str
            LaTeX text.
        """
        return "\n\n".join(table.latex() for table in self.tables())

    __str__ = text

    def __repr__(self) -> str:
        """Return the printed tables."""
        return self.text()

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write records as CSV; undefined values become empty cells.

    >>> print(as_csv([{"model": "a", "mrr": 0.5}, {"model": "b", "mrr": float("nan")}]))
    model,mrr
    a,0.5
    b,
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: "" if isinstance(v, float) and isnan(v) else v for k, v in row.items()} for row in rows
    )
    return text.getvalue().rstrip("\n")


def defined(content: Any) -> Any:
    """Replace numbers that JSON cannot represent by None."""
    if isinstance(content, Mapping):
        return {name: defined(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [defined(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content
