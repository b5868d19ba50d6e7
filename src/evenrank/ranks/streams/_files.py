"""What is meant by a file, a folder, a pattern or a URL; how files are cut into parts."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from evenrank._internal.columns import TEXT
from evenrank._internal.optional import need
from evenrank.errors import InputError

Files: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

ENDINGS = (".parquet", *TEXT[:2])  # what of a folder is read
EMPTY, UNMATCHED = f"no file of ranks in this folder ({', '.join(ENDINGS)})", "no file matches"
PART = 2**25  # rows, enough that adding counts up costs little


class Part(NamedTuple):
    """Some rows of a file; all of them where `rows` is None, which is so for text and for URLs."""

    file: str
    start: int = 0
    rows: int | None = None


def find(files: Files) -> list[str]:
    """List the files that are meant, in sorted order: of a folder those in it, of a pattern all matches.

    >>> find("no/such/*.parquet")
    Traceback (most recent call last):
    evenrank.errors.InputError: no file matches; got no/such/*.parquet
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not given:
        raise InputError("no file of ranks given")
    found = [file for one in given for file in _expanded(_unquoted(os.fspath(one)))]
    twice = {file for file in found if found.count(file) > 1} if len(set(found)) < len(found) else ()
    if twice:
        raise InputError("a file of ranks is given twice", got=min(twice), do="give each file once")
    return found


def is_remote(file: str) -> bool:
    """Whether a name is a URL, which fsspec reads."""
    return "://" in file


def is_several(file: str) -> bool:
    """Whether a name may stand for more than one file."""
    return is_remote(file) or os.path.isdir(file) or (glob.has_magic(file) and not os.path.exists(file))


def _unquoted(name: str) -> str:
    """Give the path of a file:// URL, which is a file like any other."""
    return unquote(name.removeprefix("file://")) if name.startswith("file://") else name


def _expanded(name: str) -> list[str]:
    if is_remote(name):
        return _expanded_url(name)
    if os.path.isdir(name):
        inside = [path for path in Path(name).iterdir() if path.suffix.lower() in ENDINGS]
        begun = Path(name, "parts")
        do = f"what a run has finished so far is in {begun}" if begun.is_dir() else None
        return _some(map(str, inside), EMPTY, name, do)
    if os.path.exists(name):  # also a name with a * in it
        return [name]
    if glob.has_magic(name):
        return _some(filter(os.path.isfile, glob.iglob(name, recursive=True)), UNMATCHED, name)
    raise InputError("no such file", got=name)


def _expanded_url(url: str) -> list[str]:
    with _remote(url) as (system, path):
        if system.isdir(path):
            inside = [name for name in system.ls(path, detail=False) if name.lower().endswith(ENDINGS)]
            return _some(map(system.unstrip_protocol, inside), EMPTY, url)
        if {*path} & {*"*["}:  # what follows a ? is a query
            return _some(map(system.unstrip_protocol, system.glob(path)), UNMATCHED, url)
    return [url]


def _some(found: Iterable[str], otherwise: str, name: str, do: str | None = None) -> list[str]:
    files = sorted(found)
    if not files:
        raise InputError(otherwise, got=name, do=do)
    return files


@contextmanager
def _remote(url: str) -> Iterator[tuple[Any, str]]:
    """Give the file system of a URL and the path in it; what goes wrong there is one line."""
    fsspec = need("fsspec")
    try:
        yield fsspec.core.url_to_fs(url)
    except FileNotFoundError:
        raise InputError("no such file", got=url) from None
    except InputError:
        raise
    except (OSError, ImportError, ValueError) as error:  # the last one: no such protocol
        absent = isinstance(error, ImportError)
        raise InputError(
            "this URL needs another library" if absent else "cannot reach this URL",
            got=f"{url} ({(str(error) or type(error).__name__).splitlines()[0]})",
            do="install what it needs" if absent else "check address, network and permission",
        ) from None


@contextmanager
def local(file: str) -> Iterator[Path]:
    """Give the file on this machine; one of a URL is fetched, and goes again when it is counted."""
    if not is_remote(file):
        yield Path(file)
        return
    with tempfile.TemporaryDirectory(prefix="evenrank-") as folder:
        with _remote(file) as (system, path):
            # only the ending matters, and a signed address is longer than a name may be
            place = Path(folder) / f"ranks{Path(urlsplit(path).path).suffix}"
            system.get_file(path, str(place))
        yield place


def cut(file: str, rows: int = PART) -> list[Part]:
    """Cut a file into parts that are counted one by one.

    Text, and what is elsewhere, stays whole; so does what cannot be opened, for counting to complain of.
    """
    import polars as pl

    if is_remote(file) or file.lower().endswith(TEXT):
        return [Part(file)]
    try:
        length = scan(Path(file)).select(pl.len()).collect().item()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return [Part(file)]
    return [Part(file, start, min(rows, length - start)) for start in range(0, length, rows)] or [
        Part(file)
    ]


def scan(path: Path) -> Any:
    """Look at a Parquet file; what is in its name is no pattern."""
    import polars as pl

    return pl.scan_parquet(path, glob=False, hive_partitioning=False)
