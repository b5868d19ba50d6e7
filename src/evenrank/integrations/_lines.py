"""Reads text files of any size line by line, or by blocks of lines, gzipped or not."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from evenrank._internal.files import as_path
from evenrank._internal.reading import check_regular
from evenrank.errors import InputError

LONGEST = 2**26  # bytes of a line: a list of millions of names
BLOCK = 2**22  # bytes of a block, several times faster to read than its lines one by one


def lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Yield the place of each line (`file:number`) and its text, without empty lines."""
    path = as_path(path)
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
            where = f"{path}:{number}"
            if len(line) > LONGEST:
                raise _too_long(where)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise _not_utf8(where) from None
            if text.strip():
                yield where, text


def blocks(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield lists of successive lines, with the number of the first one; empty lines are kept."""
    path = as_path(path)
    with _opened(path) as file:
        number, rest, part = 1, b"", b" "
        while part:
            part = file.read(BLOCK)
            whole, end, rest = (rest + part).rpartition(b"\n")
            if not part:
                whole, end, rest = rest, rest, b""
            if end:
                try:
                    text = whole.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    before = whole.count(b"\n", 0, error.start)
                    raise _not_utf8(f"{path}:{number + before}") from None
                texts = text.split("\n")
                yield number, texts
                number += len(texts)
            if len(rest) > LONGEST:
                raise _too_long(f"{path}:{number}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, gzipped or not."""
    check_regular(path)
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}", got=why, do="it may be damaged or truncated") from None


def _too_long(where: str) -> InputError:
    return InputError(f"{where}: a line of more than {LONGEST:,} bytes", do="write one list per line")


def _not_utf8(where: str) -> InputError:
    return InputError(f"{where}: not UTF-8", do="save it as UTF-8")
