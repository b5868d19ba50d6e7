"""Lines of text, split into columns of names: separators, headers, and what is no part of a name.

Spaces around names, empty lines and comments are left out and counted, so that "a" and "a " are never
two entities. polars splits the lines; what is not regular is tidied line by line before. A malformed
line is an error that names the line.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from evenrank._internal.reading import as_utf8
from evenrank.errors import InputError

if TYPE_CHECKING:
    import polars as pl

BLANK = b" \t\r\v\f"
# how the spaces of Unicode beyond ASCII begin in UTF-8
WIDE_SPACES = (
    *(b"\xc2\x85", b"\xc2\xa0", b"\xe1\x9a\x80", b"\xe2\x80", b"\xe2\x81\x9f", b"\xe3\x80\x80"),
    codecs.BOM_UTF8,
)
MARK = "\ufeff"  # also at the start of a later line, where files were concatenated
LIKELY = 4  # letters of a word that is rarely a name and a word of a header
HEADERS = {
    word: part
    for part, words in {
        "head": "head h subject subj s source src from head_id h_id head_entity subject_id",
        "relation": "relation r predicate pred p rel relation_id r_id type predicate_id",
        "tail": "tail t object obj o target dst to tail_id t_id tail_entity object_id",
        "time": "time timestamp date year",
        "since": "since start begin start_time valid_from",
        "until": "until end end_time valid_to",
    }.items()
    for word in words.split()
}
LOOKED_AT = 50  # lines: the first of them may have a time that is none
MOST_COLUMNS = 5  # of a triple, and the first and the last time at which it holds


class Table(NamedTuple):
    """Rows of a file, and their place in it."""

    frame: pl.DataFrame
    where: str
    first: int = 0
    lines: Sequence[int] | None = None  # of the rows, if lines were left out
    named: bool = True  # whether the file names its columns
    notes: tuple[str, ...] = ()

    def refuse(self, bad: pl.Series, what: str, column: str) -> None:
        """Raise an error that names the first bad row."""
        if bad.any():
            row = int(bad.arg_true()[0])
            raise InputError(f"{self.at(row)}: {what}", got=repr(self.frame[column][row]))

    def at(self, row: int) -> str:
        """Name the place of a row."""
        return f"{self.where}{row + self.first if self.lines is None else self.lines[row]}"


def read_text(
    raw: bytes, file: Path, columns: Sequence[str], separators: str, *, counted: bool
) -> Table:
    """Split lines into columns of text; a header names the columns, a count of lines is checked."""
    import polars as pl

    raw, width = as_utf8(raw, file), len(columns)
    first, count = 1, b""
    if counted:
        count, _, raw = raw.partition(b"\n")
        first = 2
    if not raw.strip(BLANK + b"\n"):
        raise InputError(f"{file}: an empty file", do="add triples or remove the file")
    schema = dict.fromkeys(columns, pl.String)
    quoted = _csv_separator(raw, separators, width) if b'"' in raw else None
    lines: Sequence[int] | None
    separator = quoted or ""
    if quoted:
        rows, lines, left_out = _quoted(raw, quoted, width, file, first)
        frame = pl.DataFrame(rows, schema=schema, orient="row")
    else:
        raw, separator, lines, left_out = _regular(raw, separators, width, file, first)
        # otherwise polars takes names like "x\x01" or "xچ" for compressed data
        marked = codecs.BOM_UTF8 + raw
        frame = pl.read_csv(
            marked, separator=separator, has_header=False, quote_char=None, schema=schema
        )
    if counted and count.strip(BLANK) != str(len(frame)).encode():
        got = f"{count.strip()[:40].decode()!r} before {len(frame):,} lines"
        raise InputError(f"{file}:1: wrong count of lines", got=got)
    if not len(frame):
        raise InputError(f"{file}: an empty file", do="add triples or remove the file")
    frame, trimmed = _trimmed(frame) if quoted or _may_have_spaces(raw, separator) else (frame, 0)
    named, words = _header(frame, columns, file, first if lines is None else lines[0])
    if named:
        frame = frame[1:].rename(dict(zip(columns, words, strict=True)))
        first, lines = first + 1, None if lines is None else lines[1:]
    if not len(frame):
        raise InputError(f"{file}: no triples, only a header", do="add triples or remove the file")
    if trimmed:
        left_out.insert(0, f"the spaces around {trimmed:,} name{'s' * (trimmed > 1)}")
    notes = (f"{file.name}: left out {' and '.join(left_out)}",) if left_out else ()
    return Table(frame, f"{file}:", first, lines, named, notes)


def width_of(raw: bytes, separators: str) -> int:
    """Return the number of columns: 4 or 5 if one of the first lines ends with times, else 3."""
    plain = "\t" if b"\t" in raw else separators
    if any(_fits(raw, mark, 3) for mark in plain):
        return 3
    lines = (line.strip(BLANK).lstrip(b"# ") for line in io.BytesIO(raw) if line.strip(BLANK))
    first = list(itertools.islice(lines, LOOKED_AT))
    for mark in plain:
        rows = [line.split(mark.encode()) for line in first]
        if rows and len(rows[0]) == 3:
            return 3
    for mark in plain:
        rows = [line.split(mark.encode()) for line in first]
        width = len(rows[0]) if rows else 0
        if 4 <= width <= MOST_COLUMNS and any(_dated(row) for row in rows if len(row) == width):
            return width
    return 3


def _dated(row: list[bytes]) -> bool:
    """Whether something that follows a triple in a line may be a time, or names a column of times."""
    ends = [cell.decode(errors="replace") for cell in row[3:]]
    words = {"time", "since", "until"}
    return any(
        any(c.isdigit() or c == "#" for c in cell) or HEADERS.get(_word(cell)) in words for cell in ends
    )


Lines: TypeAlias = tuple[bytes, Sequence[int] | None, list[str]]  # text, line numbers, what was left out


def _regular(
    raw: bytes, separators: str, width: int, file: Path, first: int
) -> tuple[bytes, str, Sequence[int] | None, list[str]]:
    """Find the separator that splits every line into as many fields; tidy the lines for it."""
    # a file with tabs is separated by tabs, whatever else its names contain
    plain = "\t" if b"\t" in raw else separators
    every: dict[str, Lines] = {s: (raw, None, []) for s in plain}
    options = {s: one for s, one in every.items() if _fits(raw, s, width)}
    if not options:
        every = {s: _tidied(raw, s, width, first) for s in separators}
        options = {s: one for s, one in every.items() if _fits(one[0], s, width)}
    if not options:
        raise _ragged(raw, every, width, file, first)
    separator = next(iter(options))
    if separator != "\t":
        if {",", ";"} <= options.keys():
            got, do = "commas or semicolons", "use tabs"
            raise InputError(f"{file}: cannot tell what separates the columns", got=got, do=do)
        _check_comments(options[separator], separator, file, first)
    text, lines, left_out = options[separator]
    return text, separator, lines, left_out


def _check_comments(lines: Lines, separator: str, file: Path, first: int) -> None:
    """Refuse lines that may be comments, as "# made today", unless they name the columns."""
    text, numbers, _ = lines
    at = 0 if text.startswith(b"# ") else text.find(b"\n# ") + 1
    if not text.startswith(b"# ", at):
        return
    line = text[at:].partition(b"\n")[0].decode()
    if at or not all(_words(line, separator)):
        row = text.count(b"\n", 0, at)
        number = row + first if numbers is None else numbers[row]
        do = "remove the line, or separate names by tabs"
        raise InputError(f"{file}:{number}: a comment or a triple?", got=repr(line[:60]), do=do)


def _fits(raw: bytes, separator: str, width: int) -> bool:
    """Whether each line has the same number of fields: polars would pad or truncate it silently."""
    mark = separator.encode()
    # without all other bytes, every good line is the same; four times faster than a loop
    marks = raw.translate(None, bytes({*range(256)} - {*mark, *b"\n"}))
    marks += b"\n" * (not raw.endswith(b"\n"))
    return marks == (mark * (width - 1) + b"\n") * (len(marks) // width)


def _tidied(
    raw: bytes, separator: str, width: int, first: int
) -> tuple[bytes, Sequence[int], list[str]]:
    """Leave out empty lines and comments, and blanks at both ends of lines; note how many."""
    mark, kept, numbers = separator.encode(), list[bytes](), list[int]()
    empty = comments = 0
    lines = raw.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, first):
        bare = line.strip(BLANK)
        if separator == " ":
            bare = b" ".join(filter(None, bare.split(b" ")))
            if bare.startswith(b"# ") and all(_words(bare[2:].decode(), " ")):
                bare = bare[2:]
        if not bare:
            empty += 1
        elif bare.startswith(b"#") and bare.count(mark) != width - 1:
            comments += 1
        else:
            # a name may be missing at an end: blanks are left out only if there are too many fields
            kept.append(line if line.count(mark) == width - 1 else bare)
            numbers.append(number)
    return b"\n".join(kept), numbers, _counts(empty, comments)


def _counts(empty: int, comments: int) -> list[str]:
    several = {"empty line": empty, "comment": comments}
    return [f"{many:,} {what}{'s' * (many > 1)}" for what, many in several.items() if many]


def _csv_separator(raw: bytes, separators: str, width: int) -> str | None:
    """Return the separator of a CSV file with quotes, from its first line; None if there is none."""
    head = next(line for line in io.BytesIO(raw) if line.strip()).rstrip(b"\r\n").decode()
    plain = "\t" in head or any(_fits(raw, s, width) for s in separators if s not in ",;")
    marks = [s for s in separators if s in ",;" and len(_fields(head, s)) == width]
    return marks[0] if marks and not plain else None


def _quoted(
    raw: bytes, separator: str, width: int, file: Path, first: int
) -> tuple[list[list[str | None]], list[int], list[str]]:
    """Split the rows of a CSV file with quotes."""
    reader = csv.reader(io.StringIO(raw.decode(), newline=""), strict=True, delimiter=separator)
    rows: list[list[str | None]] = []
    lines: list[int] = []
    empty = comments = 0
    try:
        for row in reader:
            if not "".join(row).strip() and len(row) < 2:
                empty += 1
                continue
            if row[0].startswith("#") and len(row) != width:
                comments += 1
                continue
            if len(row) != width:
                raise _not_width(file, reader.line_num + first - 1, len(row), width)
            rows.append([cell or None for cell in row])
            lines.append(reader.line_num + first - 1)
    except csv.Error as error:
        raise InputError(f"{file}:{reader.line_num}: not CSV", got=str(error)) from None
    return rows, lines, _counts(empty, comments)


def _may_have_spaces(raw: bytes, separator: str) -> bool:
    """Whether there are spaces other than separators: in a tenth of the time of `_trimmed`."""
    blanks = [bytes([blank]) for blank in BLANK if chr(blank) not in (separator, "\r")]
    return any(blank in raw for blank in (*blanks, *(() if raw.isascii() else WIDE_SPACES)))


def _trimmed(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Remove spaces around names, and count how many had some."""
    import polars as pl

    bare = frame.select(pl.all().str.strip_chars().str.strip_prefix(MARK).str.strip_chars())
    changed = sum(int((bare[name] != frame[name]).sum()) for name in frame.columns)
    return bare.with_columns(pl.all().replace("", None)) if changed else frame, changed


def _header(
    frame: pl.DataFrame, columns: Sequence[str], file: Path, line: int
) -> tuple[bool, list[str]]:
    """Whether the first row names the columns, and the columns that it names."""
    cells = [cell or "" for cell in frame.row(0)]
    words = [HEADERS.get(_word(cell), "") for cell in cells]
    if sorted(words) == sorted(columns):
        return True, words
    # two words of a header that occur only once: perhaps the third is one that we do not know
    known = {word for cell, word in zip(cells, words, strict=True) if len(cell) >= LIKELY} - {""}
    once = ((frame[name] == cell).sum() == 1 for name, cell in zip(frame.columns, cells, strict=True))
    if len(columns) == 3 and len(known) == 2 and words.count("") == 1 and all(once):
        raise InputError(
            f"{file}:{line}: the names of columns, or a triple?",
            got=", ".join(cells),
            do="name the columns head, relation, tail, or remove the line",
        )
    return False, words


def _word(cell: str) -> str:
    return cell.lstrip("# ").strip().lower()


def _words(line: str, separator: str) -> list[str]:
    """Return the parts of a triple that a line names."""
    return [HEADERS.get(_word(cell), "") for cell in _fields(line, separator)]


def _fields(line: str, separator: str) -> list[str]:
    with suppress(csv.Error):  # a line that is not CSV may still be split at spaces
        return (
            next(csv.reader([line], delimiter=separator)) if separator in ",;" else line.split(separator)
        )
    return [line]


def _ragged(raw: bytes, every: Mapping[str, Lines], width: int, file: Path, first: int) -> InputError:
    """Build the error for the first line with another number of fields."""
    head = next((line for line in raw.split(b"\n") if line.strip(BLANK + b"#")), b"")
    text = head.strip(BLANK).decode()
    counts = {s: len(_fields(text, s)) for s in every}
    separator = next((s for s, n in counts.items() if n == width), max(counts, key=counts.__getitem__))
    tidied, numbers, _ = every[separator]
    if not tidied:
        return InputError(f"{file}: an empty file", got="only comments", do="add triples")
    mark = separator.encode()
    each = zip(numbers or itertools.count(first), tidied.split(b"\n"), strict=False)
    number, fields = next((n, c) for n, row in each if (c := row.count(mark) + 1) != width)
    return _not_width(file, number, fields, width)


def _not_width(file: Path, line: int, fields: int, width: int) -> InputError:
    got = f"{fields} fields" if fields > 1 else "1 field"
    return InputError(f"{file}:{line}: expected {width} fields", got=got, do="fix or remove the line")
