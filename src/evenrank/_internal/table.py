"""Small tables of text, written as plain text, Markdown, LaTeX or HTML; and results shown as such."""

from __future__ import annotations

import csv
import io
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan
from typing import Any
from unicodedata import combining, east_asian_width

from evenrank._internal.export import Framed


def figure(x: float) -> str:
    """Write a number with about four figures, plainly where that is readable.

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


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "–": "--",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\n": " ",
    }
)

# with a sign or a power of ten: 12,346 and 0.35 are text in LaTeX, too
_NUMBER = re.compile(
    r"(?<![\w.-])(?=[+-]|\d[\d.]*e[+-])([+-]?\d+(?:,\d{3})*(?:\.\d+)?)(?:e([+-]\d+))?(?![\w.])"
)
# a name is not a tag, nor the end of a cell or a line
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # what a terminal obeys, or breaks a line at
_MARKDOWN = str.maketrans({"\\": r"\\", "|": r"\|", "<": r"\<", "\n": " "})


def _width(text: str) -> int:
    """Give the columns of a terminal that a text takes: two for a wide character, none for an accent."""
    return sum(0 if combining(one) else 1 + (east_asian_width(one) in "WF") for one in text)


def _maths(number: re.Match[str]) -> str:
    """Write a number as LaTeX does."""
    digits, power = number.groups()
    times = "" if power is None else rf" \times 10^{{{int(power)}}}"
    return f"${digits.replace(',', '{,}')}{times}$"


@dataclass(frozen=True)
class Table:
    """Header, rows of text, and notes below; the first `labels` columns are left-aligned.

    The cells whose (row, column) is among `bold` are bold where the format can be.

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
        """Write the cells of all rows, the bold ones between two marks."""
        before, after = strong
        return [
            [
                f"{before}{write(text)}{after}" if (i, j) in self.bold else write(text)
                for j, text in enumerate(row)
            ]
            for i, row in enumerate(self.rows)
        ]

    def text(self) -> str:
        """Write it for a terminal."""
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
        """Write it for a narrow terminal: row by row, a cell on each line.

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
        """Write it for a README."""

        def cell(text: str) -> str:
            return text.translate(_MARKDOWN)

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cells) + " |"

        sides = ["---" if i < self.labels else "---:" for i in range(len(self.header))]
        header, rows = map(cell, self._flat_header), self._written(cell, ("**", "**"))
        body = [*map(line, [[*header], sides, *rows])]
        return "\n".join([*body, *(f"\n{cell(note)}" for note in self.notes)])

    def latex(self) -> str:
        """Write it for a paper, with booktabs rules."""

        def cell(text: str) -> str:
            escaped = _NUMBER.sub(_maths, text.translate(_LATEX))  # a minus sign, not a hyphen
            return f"{{{escaped}}}" if escaped.startswith("[") else escaped  # not an option of \\\\

        def line(cells: Sequence[str]) -> str:
            return "  " + " & ".join(cells) + r" \\"

        columns = "l" * self.labels + "r" * (len(self.header) - self.labels)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{columns}}}",
                r"  \toprule",
                line([*map(cell, self._flat_header)]),
                r"  \midrule",
                *map(line, self._written(cell, (r"\textbf{", "}"))),
                r"  \bottomrule",
                r"\end{tabular}",
                *(f"% {note}".replace("\n", " ") for note in self.notes),
            ]
        )

    def html(self) -> str:
        """Write it for a notebook."""

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
    """A result to be read: prints as tables, and writes itself for papers, sheets and programs."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """Lay it out."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Give one flat dictionary per row, in full precision."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Give everything there is to say, protocol and notes included."""

    def _columns(self) -> dict[str, list[Any]]:
        rows = self.rows()
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def to_json(self) -> str:
        """Write everything as JSON (undefined values as null)."""
        content = defined(self.content())
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)

    def to_csv(self) -> str:
        """Write the rows, in full precision, as CSV."""
        return as_csv(self.rows())

    def text(self) -> str:
        """Write tables for the terminal."""
        return "\n\n".join(table.text() for table in self.tables())

    def to_markdown(self) -> str:
        """Write tables for a README."""
        return "\n\n".join(table.markdown() for table in self.tables())

    def to_latex(self) -> str:
        """Write tables for a paper (booktabs)."""
        return "\n\n".join(table.latex() for table in self.tables())

    __str__ = text

    def __repr__(self) -> str:
        """Show the tables: a result is there to be read."""
        return self.text()

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write records as CSV, what is undefined as an empty cell.

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
    """Put None for every number that JSON cannot write."""
    if isinstance(content, Mapping):
        return {name: defined(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [defined(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content
