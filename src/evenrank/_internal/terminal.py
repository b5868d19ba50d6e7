"""Text in a terminal: the columns it takes, where its lines may break, and tables that fit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, zip_longest
from shutil import get_terminal_size
from unicodedata import category, east_asian_width

from evenrank.errors import visible

GAP = "  "  # between columns
INDENT = 2  # of the second and further lines of a cell
# lines break after a space, after a mark inside a name (but not inside a number), and between ideographs
_IDEOGRAPH = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_BREAK = re.compile(
    rf"(?<=\s)(?=\S)|(?<=\w[/_.,:;|-])(?=[^\W\d_]|[/(\[])|(?<=[{_IDEOGRAPH}])(?=[{_IDEOGRAPH}])"
)
_FIGURE = re.compile(r"[-+]?[\d\[]")  # the begin of a number or an interval
_SPACE = re.compile(r"(?<=\s)(?=\S)")


def clean(text: str) -> str:
    r"""Write a text on one line, control characters as escapes.

    >>> print(clean("a name\non two lines \x1b[2J"))
    a name on two lines \x1b[2J
    """
    return visible(text.replace("\n", " "))


def plain_title(title: str) -> str:
    """Return the title of a column on one line, without its arrow."""
    return title.replace("\n", "").rstrip(" ↑↓")


@cache
def _columns_of(letter: str) -> int:
    """Count the columns of a letter: two if it is wide, none for accents and invisible marks."""
    if category(letter) in ("Mn", "Mc", "Me", "Cf") or "\u1160" <= letter <= "\u11ff":  # parts of Hangul
        return 0
    return 1 + (east_asian_width(letter) in "WF")


def columns_of(text: str) -> int:
    """Count the terminal columns of a text: two for each wide letter.

    >>> columns_of("mrr"), columns_of("日本")
    (3, 4)
    """
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def pieces(text: str, *, names: bool = True) -> list[str]:
    """Split a text where a line may break: at spaces, and inside names after `/`, `_`, `-` and the like.

    >>> pieces("/people/person/place of birth"), pieces("+0.5 to -1.2e-04")
    (['/people/', 'person/', 'place ', 'of ', 'birth'], ['+0.5 ', 'to ', '-1.2e-04'])
    """
    return (_BREAK if names else _SPACE).split(text)


def wrapped(text: str, width: int, *, indent: str = "", names: bool = True) -> list[str]:
    """Break a text into lines of some width; a word that is wider has a line of its own.

    >>> wrapped("/people/person/nationality", 15, indent="  ")
    ['/people/person/', '  nationality']
    """
    if columns_of(text) <= width:
        return [text]
    lines = [""]
    for piece in pieces(text, names=names):
        if lines[-1].strip() and columns_of((lines[-1] + piece).rstrip()) > width:
            lines.append(indent)
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def least_width(texts: Sequence[str]) -> int:
    """Return the smallest width of lines that hold some texts without breaking a word."""
    split = [pieces(text) for text in texts]
    return max(
        (columns_of(one.rstrip()) + INDENT * (i > 0) for some in split for i, one in enumerate(some)),
        default=0,
    )


def terminal_width() -> int | None:
    """Return the width that printed text should fit.

    Returns
    -------
    int or None
        The environment variable COLUMNS, or the width of the terminal that is stdout. None if stdout is
        no terminal: files and other programs get lines of any length.
    """
    if os.environ.get("COLUMNS", "").isdecimal() and int(os.environ["COLUMNS"]):
        return int(os.environ["COLUMNS"])
    isatty = getattr(sys.stdout, "isatty", None)  # stdout may be closed, or an object with only write
    if isatty is None or not isatty():
        return None
    return get_terminal_size().columns


@dataclass(frozen=True)
class Layout:
    """A table as lines: those of the header, those of the rows, and the columns that are left out."""

    header: list[str]
    rows: list[str]
    left_out: list[str]


def layout(
    header: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    *,
    labels: int,
    groups: Sequence[str],
    optional: Sequence[str],
    width: int | None,
) -> Layout:
    """Lay out a table; the parameters are those of `Table`, with the lines of each title."""
    kept, widths, left_out = _fitted(header, rows, labels, groups, optional, width)

    def line(cells: Sequence[str]) -> str:
        parts = []
        for j, room, cell in zip(kept, widths, cells, strict=True):
            space = " " * (room - columns_of(cell))
            parts.append(cell + space if j < labels else space + cell)
        return GAP.join(parts).rstrip()

    body = []
    for row in rows:
        cells = [wrapped(row[j], w, indent=" " * INDENT) for j, w in zip(kept, widths, strict=True)]
        body += [line(some) for some in zip_longest(*cells, fillvalue="")]
    titles = [line(some) for some in zip(*_bottom([header[j] for j in kept]), strict=True)]
    rule = GAP.join("-" * room for room in widths)
    return Layout([*_group_lines(groups, kept, widths), *titles, rule], body, left_out)


def _bottom(titles: Sequence[Sequence[str]]) -> list[list[str]]:
    """Fill titles with empty lines above, to the same height."""
    height = max(map(len, titles), default=0)
    return [[""] * (height - len(title)) + [*title] for title in titles]


def _spans(groups: Sequence[str], kept: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Return the titles above the columns, and which of the kept columns each spans."""
    runs = groupby(range(len(kept)), key=lambda i: groups[kept[i]]) if groups else ()
    return [(name, list(columns)) for name, columns in runs]


def _group_lines(groups: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> list[str]:
    """Write the titles above the columns, each centred above a rule."""
    spans = [(name, _joint([widths[i] for i in at])) for name, at in _spans(groups, kept)]
    titles = _bottom([wrapped(name, room) for name, room in spans])
    lines = []
    for texts in zip(*titles, strict=True):
        parts = []
        for text, (_, room) in zip(texts, spans, strict=True):
            left = (room - columns_of(text)) // 2
            parts.append(" " * left + text + " " * (room - columns_of(text) - left))
        lines.append(GAP.join(parts).rstrip())
    rule = GAP.join(("-" if name else " ") * room for name, room in spans)
    return [*lines, rule] if lines else []


def _joint(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _widened(groups: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> list[int]:
    """Return the widths of the kept columns, with room for the words of the titles above them."""
    found = [widths[j] for j in kept]
    for name, at in _spans(groups, kept):
        found[at[-1]] += max(0, least_width([name]) - _joint([found[i] for i in at]))
    return found


def _fitted(
    header: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    labels: int,
    groups: Sequence[str],
    optional: Sequence[str],
    width: int | None,
) -> tuple[list[int], list[int], list[str]]:
    """Choose columns and their widths; return also the names of the columns left out.

    Long names first break into lines of no less than a third of the width; then columns are left out;
    then names break further.
    """
    columns = [[row[j] for row in rows] for j in range(len(header))]
    titles = [max(map(columns_of, title)) for title in header]
    whole = [max(one, *map(columns_of, cells), 0) for one, cells in zip(titles, columns, strict=True)]
    kept = list(range(len(header)))

    def total(widths: Sequence[int]) -> int:
        return _joint(_widened(groups, kept, widths))

    if width is None or total(whole) <= width:
        return kept, _widened(groups, kept, whole), []
    text = [j for j in kept if j < labels or not any(map(_FIGURE.match, columns[j]))]
    least = [max(titles[j], least_width(columns[j])) if j in text else whole[j] for j in kept]
    narrow = [min(w, max(low, width // 3, 20)) for w, low in zip(whole, least, strict=True)]
    narrow = [narrow[j] if j in text else whole[j] for j in kept]
    left_out: list[str] = []
    for name in optional:
        if total(narrow) <= width:
            break
        names = {j: (plain_title("".join(header[j])), *groups[j : j + 1]) for j in kept}
        if any(name in names[j] for j in kept):
            kept = [j for j in kept if name not in names[j]]
            left_out.append(name)
    if total(narrow) > width:
        narrow = least
    for _ in range(width - total(narrow)):  # the narrowest first, so that columns share what is left
        if broken := [j for j in kept if narrow[j] < whole[j]]:
            narrow[min(broken, key=lambda j: narrow[j])] += 1
    return kept, _widened(groups, kept, narrow), left_out
