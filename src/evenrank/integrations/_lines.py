"""Reads text files of any size line by line, gzipped or not."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator

from evenrank._internal.files import as_path
from evenrank._internal.reading import check_regular
from evenrank.errors import InputError

LONGEST = 2**26  # bytes of a line: a list of millions of names


def lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Yield the place of each line (`file:number`) and its text, without empty lines."""
    path = as_path(path)
    check_regular(path)
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
                where = f"{path}:{number}"
                if len(line) > LONGEST:
                    raise InputError(
                        f"{where}: a line of more than {LONGEST:,} bytes", do="write one list per line"
                    )
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise InputError(f"{where}: not UTF-8", do="save it as UTF-8") from None
                if text.strip():
                    yield where, text
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}", got=why, do="it may be damaged or truncated") from None
