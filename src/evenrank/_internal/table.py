"""Tables of text in plain text, Markdown, LaTeX and HTML, and the base class of results."""

from __future__ import annotations

import csv
import io
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, zip_longest
from math import isfinite, isnan
from typing import Any, ClassVar, Self

from evenrank._internal import latex
from evenrank._internal.export import Framed
from evenrank._internal.terminal import clean, layout, plain_title, terminal_width, wrapped


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


# characters that JSON allows in texts, but that a terminal obeys or that change the order of others
_OBEYED = re.compile("[\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_PLAIN = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?", re.IGNORECASE)  # numbers are no formulas
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how cells begin that spreadsheets calculate
# what Markdown turns into links and images: the end of their text, addresses and e-mail addresses
_LINK = re.compile(
    r"(?P<text>\])(?=[(\[:])|(?P<scheme>\b(?:https?|ftp|mailto|xmpp))(?=:)|(?P<host>\bwww)(?=\.)"
    r"|(?P<user>[\w.+-])(?=@[\w-]+\.)",
    re.IGNORECASE,
)
# names may contain what Markdown reads as a tag or as the end of a cell
_MARKDOWN = str.maketrans({"\\": r"\\", "|": r"\|", "<": r"\<", "\n": " "})


class Note(str):
    """A line below a table that says only what is unusual; `full` says everything."""

    __slots__ = ("full",)
    full: str

    def __new__(cls, text: str, full: str) -> Self:
        """Create from both texts."""
        note = super().__new__(cls, text)
        note.full = full
        return note


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
    groups : sequence of str
        A title above each column; neighbours with the same title share it. Empty: no such titles.
    optional : sequence of str
        The columns that a narrow terminal may do without, the most dispensable first, by title (without
        arrow) or by group. By default all but the labels and the first value, from right to left.

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
    groups: Sequence[str] = ()
    optional: Sequence[str] = ()

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

    def text(self, width: int | None = None, more: str = ".text()") -> str:
        """Format as plain text, for a terminal.

        Parameters
        ----------
        width : int, optional
            The width to fit: long names break between words, then the least important columns are left
            out, with a line that lists them. By default, lines are as long as they need to be.
        more : str
            What that line names as the way to see all columns.

        Returns
        -------
        str
            The lines.

        Examples
        --------
        >>> table = Table(["model", "mrr ↑", "mr ↓"], [["transe", "0.35", "128.2"]])
        >>> print(table.text(width=18, more="--format csv"))
        model   mrr ↑
        ------  -----
        transe   0.35
        left out at 18
        columns: mr (all:
        --format csv)
        """
        return "\n".join(line for lines in self.lines(width, more) for line in lines)

    def lines(self, width: int | None, more: str) -> tuple[list[str], list[str], list[str]]:
        """Lay out for a terminal.

        Parameters
        ----------
        width, more
            As for `text`.

        Returns
        -------
        tuple of list of str
            The lines of the header, of the rows, and of the notes.
        """
        laid = layout(
            [[clean(line) for line in title.split("\n")] for title in self.header],
            [[clean(cell) for cell in row] for row in self.rows],
            labels=self.labels,
            groups=[clean(group) for group in self.groups],
            optional=self.optional or self._from_the_right(),
            width=width,
        )
        notes = [clean(note) for note in self.notes]
        if laid.left_out:
            notes.insert(0, f"left out at {width} columns: {', '.join(laid.left_out)} (all: {more})")
        if width is not None:
            begins = [note[: len(note) - len(note.lstrip())] for note in notes]
            notes = [
                line
                for note, begin in zip(notes, begins, strict=True)
                for line in wrapped(note, width, indent=begin, names=False)
            ]
        return laid.header, laid.rows, notes

    def _from_the_right(self) -> list[str]:
        """Return the names of the columns after the first value, the last one first; then the groups."""
        titles = list(dict.fromkeys(map(plain_title, self.header[self.labels :])))
        groups = list(dict.fromkeys(name for name in self.groups if name))
        return [*reversed(titles[1:]), *reversed(groups[1:])]

    def in_full(self) -> Table:
        """Return the table with notes that say everything.

        Returns
        -------
        Table
            The same cells.
        """
        return replace(
            self, notes=[note.full if isinstance(note, Note) else note for note in self.notes]
        )

    @property
    def _flat_header(self) -> list[str]:
        titles = [title.replace("\n", "") for title in self.header]
        return [
            f"{group} {title}".lstrip()
            for group, title in zip_longest(self.groups, titles, fillvalue="")
        ]

    def markdown(self) -> str:
        """Format as Markdown."""

        def cell(text: str) -> str:
            return _unlinked(clean(text).translate(_MARKDOWN))

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
        if self.groups:
            spans = ((name, len(list(columns))) for name, columns in groupby(self.groups))
            above = (f'<th colspan="{many}">{escape(name)}</th>' for name, many in spans)
            titles = [escape(title.replace("\n", "")) for title in self.header]
            head = f"<tr>{''.join(above)}</tr>{line(titles, 'th')}"
        body = "".join(line(row, "td") for row in self._written(escape, ("<b>", "</b>")))
        notes = "<br>".join(map(escape, self.notes))
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><small>{notes}</small>"


class Shown(Framed):
    """Base class of results: they print as tables and export to text formats and data frames.

    Printed in a terminal, tables fit it: columns that are left out are listed below, and `text()` has
    all. In files, pipes and notebooks nothing is left out, unless COLUMNS (in the environment) is set.
    """

    _names: ClassVar[tuple[str, ...]] = ()  # of columns, in results that may have no rows

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
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else self._names)}

    def to_json(self) -> str:
        """Write the whole result as JSON; undefined values become null.

        Returns
        -------
        str
            JSON text.
        """
        content = defined(self.content())
        return as_json(content)

    def to_csv(self, *, spreadsheet: bool = False) -> str:
        """Write the rows in full precision as CSV.

        Parameters
        ----------
        spreadsheet : bool, default False
            Whether to write an apostrophe before names that spreadsheets take for formulas: those that
            begin with =, +, - or @. By default names are exact, so that they can be read back.

        Returns
        -------
        str
            CSV text with a header.
        """
        return as_csv(self.rows(), self._names, spreadsheet=spreadsheet)

    def text(self, width: int | None = None, *, verbose: bool = False) -> str:
        """Write the tables as plain text.

        Parameters
        ----------
        width : int, optional
            The width to fit, by leaving out columns and breaking names between words. By default,
            everything is written, in lines as long as they need to be.
        verbose : bool
            Whether the line below a table has the whole protocol, not only what is unusual.

        Returns
        -------
        str
            The tables, from top to bottom.
        """
        tables = (table.in_full() if verbose else table for table in self.tables())
        return "\n\n".join(table.text(width) for table in tables)

    def to_markdown(self, *, verbose: bool = False) -> str:
        """Write the tables as Markdown.

        Parameters
        ----------
        verbose : bool
            Whether the line below a table has the whole protocol, not only what is unusual.

        Returns
        -------
        str
            Markdown text.
        """
        tables = (table.in_full() if verbose else table for table in self.tables())
        return "\n\n".join(table.markdown() for table in tables)

    def to_latex(self) -> str:
        """Write the tables as LaTeX tabulars; they need the package booktabs.

        Returns
        -------
        str
            LaTeX text.
        """
        return "\n\n".join(table.latex() for table in self.tables())

    def __str__(self) -> str:
        """Return the tables, in the width of the terminal."""
        return self.text(terminal_width())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def _unlinked(text: str) -> str:
    r"""Escape what Markdown would turn into a link or an image.

    >>> print(_unlinked("![x](http://a.b) of me@a.b, see www.a.b; hits@10 [e02bde67]"))
    ![x\](http\://a.b) of me\@a.b, see www\.a.b; hits@10 [e02bde67]
    """
    return _LINK.sub(lambda found: f"\\{found[0]}" if found["text"] else f"{found[0]}\\", text)


def as_json(content: Any) -> str:
    r"""Write JSON; characters that a terminal obeys are escaped, which does not change the content.

    >>> print(as_json(["é\x9b\u202e"]))
    [
      "é\u009b\u202e"
    ]
    """
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_csv(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), *, spreadsheet: bool = False
) -> str:
    """Write records as CSV; undefined values become empty cells. Without records, name the columns.

    >>> print(as_csv([{"model": "a", "mrr": 0.5}, {"model": "b", "mrr": float("nan")}]))
    model,mrr
    a,0.5
    b,
    """
    guard = _guarded if spreadsheet else lambda value: value
    names = list(rows[0] if rows else columns)
    lines = [_line(map(guard, names))]
    for row in rows:
        cells = (row[name] for name in names)
        lines.append(_line("" if isinstance(one, float) and isnan(one) else guard(one) for one in cells))
    return "\n".join(lines)


def _line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    # before Python 3.13, only the characters of the line's end are quoted: all of them must be
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n")


def _guarded(value: Any) -> Any:
    """Write an apostrophe before a text that a spreadsheet takes for a formula.

    >>> [_guarded(value) for value in ("=1+1", "-x", "-0.5", -0.5, "a=b")]
    ["'=1+1", "'-x", '-0.5', -0.5, 'a=b']
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA) or _PLAIN.fullmatch(value):
        return value
    return f"'{value}"


def defined(content: Any) -> Any:
    """Replace numbers that JSON cannot represent by None."""
    if isinstance(content, Mapping):
        return {name: defined(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [defined(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content
