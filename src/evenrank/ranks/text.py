"""Tables of ranks in text: CSV as evenrank writes it, and as spreadsheets and other tools do.

In files of others the separator is detected (comma, semicolon, tab or space), cells are trimmed, and
numbers may have decimal commas where these do not separate columns.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evenrank._internal import reading
from evenrank._internal.names import COUNTS, KEYS, RANK_WORDS, folded
from evenrank.errors import InputError

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = ",\t; "
LOOKED_AT = 20  # lines from which the separator is found
HINT = b"sep="  # the first line of files of Excel may name the separator
# a number with a decimal comma; one that could have a comma between thousands; one that could not
DECIMAL = r"^[+-]?\d*,\d+$"
THOUSANDS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+$"
NUMBER = r"^[+-]?\d+$"


def read_text(raw: bytes, path: Path, mark: str, do: str) -> tuple[pl.DataFrame, bytes]:
    """Split a table of text into columns of text; return also its protocol, as JSON."""
    import polars as pl

    raw = reading.as_utf8(raw, path)
    protocol, rest = _protocol(raw, mark)
    own = rest is not None
    body = raw if rest is None else rest
    separator = None
    if not own:
        body, separator = _start(body)
    kind = "," if path.suffix.lower() == ".csv" else "\t"
    separator = separator or _separator(body, kind)
    head, _, rows = body.partition(b"\n")
    if not head.strip():
        raise InputError(f"{path}: an empty file", do="add a header and ranks")
    names = _cells(head, separator)
    names = names if own else [name.strip().removeprefix("#").strip() for name in names]
    if not own and all(map(_is_number, names)):
        if len(names) > 1:
            raise InputError(
                f"{path}: no header names the columns",
                got=head.strip().decode()[:60],
                do="add a first line such as rank,candidates",
            )
        names, rows = ["rank"], body
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: two columns have the same name", got=repr(twice), do="rename one")
    schema = dict.fromkeys(names, pl.String)
    if not rows.strip(b"\r\n"):
        return pl.DataFrame(schema=schema), protocol
    with reading.translated(path, do=do):
        try:
            # the mark, else polars takes names like "x\x01" for compressed data
            frame = pl.read_csv(
                codecs.BOM_UTF8 + rows, separator=separator, has_header=False, schema=schema
            )
        except pl.exceptions.PolarsError:
            _check_width(rows, separator, len(names), path)
            raise
    return (frame if own else _tidied(frame, separator, path)), protocol


def _protocol(raw: bytes, mark: str) -> tuple[bytes, bytes | None]:
    """Split off the first line of evenrank's files; None as the rest if there is none."""
    line, _, rest = raw.partition(b"\n")
    text = line.strip(b"\r")
    if text.startswith(f"# {mark} ".encode()):
        return text[len(mark) + 3 :], rest
    if text.startswith(f'"# {mark} '.encode()):  # a spreadsheet made cells of it
        for separator in ",;\t":
            joined = ",".join(_cells(text, separator)).rstrip(",")
            if joined.endswith("}"):
                return joined[len(mark) + 3 :].encode(), rest
    return b"{}", None


def _start(raw: bytes) -> tuple[bytes, str | None]:
    """Skip empty lines and comments before the header, and read a hint of Excel."""
    separator = None
    while raw:
        line, _, rest = raw.partition(b"\n")
        bare = line.strip()
        if bare.lower().startswith(HINT) and len(bare) == len(HINT) + 1:
            separator = bare[-1:].decode(errors="replace")
        elif bare.startswith(b"#"):
            # "#rank,candidates" is a header, "# ranks of TransE" a comment
            every = {one: _known(line, one) for one in SEPARATORS}
            if any(n and (n == len(_cells(line, one)) or bare[1:2] != b" ") for one, n in every.items()):
                break
        elif bare:
            break
        raw = rest
    return raw.rstrip(b"\r\n") + b"\n" * bool(raw), separator


def _separator(body: bytes, usual: str) -> str:
    """Find the separator: it splits the first lines alike, and the header into columns that we know."""
    lines = [line for line in _lines(body) if line.strip()][:LOOKED_AT]
    best, found = (0, 0, False), usual
    for separator in SEPARATORS:
        width, *others = {len(_cells(line, separator)) for line in lines} or {0}
        score = (_known(lines[0], separator) if lines else 0, width, separator == usual)
        if not others and width > 1 and score > best:
            best, found = score, separator
    return found


def _lines(body: bytes) -> Iterator[bytes]:
    return (line for line, _ in zip(io.BytesIO(body), range(2 * LOOKED_AT), strict=False))


def _cells(line: bytes, separator: str) -> list[str]:
    text = line.decode(errors="replace").rstrip("\r\n")
    with suppress(csv.Error, StopIteration):
        return next(csv.reader([text], delimiter=separator))
    return [text]


def _known(line: bytes, separator: str) -> int:
    """Count the columns of a header that we know."""
    words = map(folded, _cells(line, separator))
    return sum(word in COUNTS or word in KEYS or word in RANK_WORDS for word in words)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def _check_width(rows: bytes, separator: str, width: int, path: Path) -> None:
    """Raise an error that names the first row with more cells than the header."""
    text = io.StringIO(rows.decode(errors="replace"), newline="")
    with suppress(csv.Error):
        for number, row in enumerate(csv.reader(text, delimiter=separator), 1):
            if len(row) > width:
                got = f"{len(row)} cells in row {number:,} below the header"
                raise InputError(f"{path}: more cells than columns", got=got, allowed=str(width))


def _tidied(frame: pl.DataFrame, separator: str, path: Path) -> pl.DataFrame:
    """Trim cells, drop the row numbers that pandas writes, and read decimal commas."""
    import polars as pl

    frame = frame.select(pl.all().str.strip_chars())
    if "" in frame.columns:
        numbers = frame[""].cast(pl.Int64, strict=False)
        first = numbers[0] if len(frame) else 0
        if (
            first not in (0, 1)
            or not (numbers == pl.int_range(first, first + len(frame), eager=True)).all()
        ):
            raise InputError(f"{path}: a column has no name", do="name it, or remove it")
        frame = frame.drop("")
    if separator == ",":
        return frame
    commas = [
        _with_points(column, path) for column in frame if folded(column.name) in (*COUNTS, *RANK_WORDS)
    ]
    return frame.with_columns(commas) if commas else frame


def _with_points(column: pl.Series, path: Path) -> pl.Series:
    """Write numbers with a decimal comma with a point, if no comma can be one between thousands."""
    commas = column.filter(column.str.contains(",", literal=True))
    if not len(commas) or not commas.str.contains(DECIMAL).all():
        return column  # the cells that are no numbers are errors later
    if commas.str.contains(THOUSANDS).all() or column.str.contains(".", literal=True).any():
        raise InputError(
            f"{path}: a decimal comma, or one between thousands, in column {column.name}?",
            got=repr(commas[0]),
            do="write numbers with a point, and without separators of thousands",
        )
    return column.str.replace(",", ".", literal=True)
