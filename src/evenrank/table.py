"""One small table of text, written as plain text, Markdown, LaTeX or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isnan


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
    }
)


@dataclass(frozen=True)
class Table:
    """Header, rows of text, and notes below; the first `labels` columns are left-aligned.

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

    def text(self) -> str:
        """Write it for a terminal."""
        height = max(title.count("\n") for title in self.header) + 1
        titles = [title.split("\n") for title in self.header]
        head = [list(line) for line in zip(*([""] * (height - len(t)) + t for t in titles), strict=True)]
        widths = [max(map(len, column)) for column in zip(*head, *self.rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            parts = [
                cell.ljust(width) if i < self.labels else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            return "  ".join(parts).rstrip()

        rule = ["-" * width for width in widths]
        return "\n".join([*map(line, [*head, rule, *self.rows]), *self.notes])

    @property
    def _flat_header(self) -> list[str]:
        return [title.replace("\n", "") for title in self.header]

    def markdown(self) -> str:
        """Write it for a README."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

        sides = ["---" if i < self.labels else "---:" for i in range(len(self.header))]
        body = [*map(line, [self._flat_header, sides, *self.rows])]
        return "\n".join([*body, *(f"\n{note}" for note in self.notes)])

    def latex(self) -> str:
        """Write it for a paper, with booktabs rules."""

        def cell(text: str) -> str:
            if text[:1] == "-" and text[1:2].isdigit():  # a minus sign, not a hyphen
                return f"${text}$"
            escaped = text.translate(_LATEX)
            return f"{{{escaped}}}" if escaped.startswith("[") else escaped  # not an option of \\\\

        def line(cells: Sequence[str]) -> str:
            return "  " + " & ".join(map(cell, cells)) + r" \\"

        columns = "l" * self.labels + "r" * (len(self.header) - self.labels)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{columns}}}",
                r"  \toprule",
                line(self._flat_header),
                r"  \midrule",
                *map(line, self.rows),
                r"  \bottomrule",
                r"\end{tabular}",
                *(f"% {note}" for note in self.notes),
            ]
        )

    def html(self) -> str:
        """Write it for a notebook."""

        def line(cells: Sequence[str], tag: str) -> str:
            parts = [
                f'<{tag} style="text-align:{"left" if i < self.labels else "right"}">'
                f"{escape(cell)}</{tag}>"
                for i, cell in enumerate(cells)
            ]
            return f"<tr>{''.join(parts)}</tr>"

        head, body = line(self._flat_header, "th"), "".join(line(row, "td") for row in self.rows)
        notes = "<br>".join(map(escape, self.notes))
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><small>{notes}</small>"
