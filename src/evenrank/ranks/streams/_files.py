"""Finds files by folder, pattern or URL, and splits them into parts."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from evenrank._internal.columns import TEXT, as_list
from evenrank._internal.files import as_path
from evenrank._internal.optional import need
from evenrank._internal.reading import check_regular, parquet_rows, translated
from evenrank.errors import InputError

Files: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

ENDINGS = (".parquet", *TEXT[:2])  # files of a folder that are read
EMPTY, UNMATCHED = f"no file of ranks in this folder ({', '.join(ENDINGS)})", "no file matches"
PART = 2**25  # rows per part, so many that adding counts takes little time


class Part(NamedTuple):
    """Some rows of a file; `rows` is None for all, as for text files and URLs."""

    file: str
    start: int = 0
    rows: int | None = None


def find(files: Files) -> list[str]:
    """List files, the files in folders and the matches of patterns, sorted.

    >>> find("no/such/*.parquet")
    Traceback (most recent call last):
    evenrank.errors.InputError: no file matches; got no/such/*.parquet
    """
    several = None if isinstance(files, os.PathLike) else as_list(files)
    given: list[Any] = [files] if several is None else several
    if not given:
        raise InputError("no file of ranks")
    for one in given:
        as_path(one)
    found = [file for one in given for file in _expanded(_unquoted(os.fspath(one)))]
    twice = {file for file in found if found.count(file) > 1} if len(set(found)) < len(found) else ()
    if twice:
        raise InputError("a file of ranks occurs twice", got=min(twice), do="pass each file once")
    return found


def is_remote(file: str) -> bool:
    """Whether a name is a URL, to be read by fsspec."""
    return "://" in file


def is_several(file: str) -> bool:
    """Whether a name may refer to more than one file."""
    return is_remote(file) or os.path.isdir(file) or (glob.has_magic(file) and not os.path.exists(file))


def _unquoted(name: str) -> str:
    """Return the path of a file:// URL."""
    return unquote(name.removeprefix("file://")) if name.startswith("file://") else name


def _expanded(name: str) -> list[str]:
    if is_remote(name):
        return _expanded_url(name)
    if os.path.isdir(name):
        inside = [path for path in Path(name).iterdir() if path.suffix.lower() in ENDINGS]
        begun = Path(name, "parts")
        do = f"finished parts of an incomplete run are in {begun}" if begun.is_dir() else None
        return _some(map(str, inside), EMPTY, name, do)
    if os.path.exists(name):  # also if its name contains a *
        return [name]
    if glob.has_magic(name):
        return _some(filter(os.path.isfile, glob.iglob(name, recursive=True)), UNMATCHED, name)
    raise InputError("no such file", got=name)


def _expanded_url(url: str) -> list[str]:
    with _remote(url) as (system, path):
        if system.isdir(path):
            inside = [name for name in system.ls(path, detail=False) if name.lower().endswith(ENDINGS)]
            return _some(map(system.unstrip_protocol, inside), EMPTY, url)
        if {*path} & {*"*["}:  # a ? starts the query of a URL
            return _some(map(system.unstrip_protocol, system.glob(path)), UNMATCHED, url)
    return [url]


def _some(found: Iterable[str], otherwise: str, name: str, do: str | None = None) -> list[str]:
    files = sorted(found)
    if not files:
        raise InputError(otherwise, got=name, do=do)
    return files


@contextmanager
def _remote(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL and the path in it; convert errors to `InputError`."""
    fsspec = need("fsspec")
    try:
        yield fsspec.core.url_to_fs(url)
    except FileNotFoundError:
        raise InputError("no such file", got=url) from None
    except InputError:
        raise
    except (OSError, ImportError, ValueError) as error:  # ValueError: unknown protocol
        absent = isinstance(error, ImportError)
        raise InputError(
            "this URL requires another library" if absent else "cannot reach this URL",
            got=f"{url} ({(str(error) or type(error).__name__).splitlines()[0]})",
            do="install it" if absent else "check address, network and permissions",
        ) from None


@contextmanager
def local(file: str) -> Iterator[Path]:
    """Yield the path of a file; files of URLs are downloaded for the duration of the `with` block."""
    if not is_remote(file):
        yield Path(file)
        return
    with tempfile.TemporaryDirectory(prefix="evenrank-") as folder:
        with _remote(file) as (system, path):
            # only the suffix is kept, because signed URLs may exceed the limit of file names
            place = Path(folder) / f"ranks{Path(urlsplit(path).path).suffix}"
            system.get_file(path, str(place))
        yield place


def cut(file: str, rows: int = PART) -> list[Part]:
    """Split a file into parts that are counted separately.

    Text files and URLs stay whole, and so do files that cannot be opened, which raise when counted.
    """
    if is_remote(file) or file.lower().endswith(TEXT):
        return [Part(file)]
    try:
        with translated(file):
            check_regular(file)
            length = parquet_rows(Path(file))
    except InputError:
        return [Part(file)]
    return [Part(file, start, min(rows, length - start)) for start in range(0, length, rows)] or [
        Part(file)
    ]


def scan(path: Path) -> Any:
    """Scan a Parquet file, without interpreting its name as a pattern."""
    import polars as pl

    return pl.scan_parquet(path, glob=False, hive_partitioning=False)
