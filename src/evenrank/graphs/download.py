"""Checked downloads: a file is in the cache complete and as published, or not at all.

pooch checks whether a file exists with the right hash, provides a temporary file beside it, and moves it
in place once the hash is right. Added here: an interrupted download resumes (its bytes are kept in a
`.part` file, which nothing else reads), the next mirror is tried if one fails, archives are unpacked
before hashing, and processes wait for each other. A server can neither fill the disk nor go on for ever.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from evenrank._internal.columns import is_whole
from evenrank._internal.files import expanded, locked
from evenrank._internal.progress import Progress
from evenrank.errors import InputError
from evenrank.graphs.registry import Entry

if TYPE_CHECKING:
    from logging import LogRecord

TRIES = 4  # tries of one mirror, as long as each gets more bytes
SECONDS = 30  # to wait for an answer, or for a further byte
LONGEST = 7200  # seconds for all tries of a file
LARGEST = 2**31  # bytes of an archive, which may hold other files as well
HEADERS = 2**16  # more bytes than a file may be transferred in, for the headers of gzip
BLOCK = 2**13  # most bytes that are lost if a connection breaks
NO_FURTHER_BYTES = 416  # the HTTP status for a range after the end
DAMAGED = (gzip.BadGzipFile, EOFError, KeyError, zlib.error, tarfile.TarError, zipfile.BadZipFile)


def folder(entry: Entry) -> Path:
    """Return the folder of a benchmark in the cache: in EVENRANK_CACHE, else in the system's cache."""
    import pooch

    given = os.environ.get("EVENRANK_CACHE")
    cache = expanded(given or pooch.os_cache("evenrank"))
    if cache.parts[:1] and cache.parts[0].startswith("~"):
        raise InputError("EVENRANK_CACHE names no folder: no such user", got=repr(given))
    return cache / entry.name


def cached(entry: Entry) -> bool:
    """Return whether every file of a benchmark is in the cache, as published."""
    place = folder(entry)
    return bool(entry.files) and all(
        (place / file).is_file() and _digest(place / file) == digest
        for file, digest in entry.files.items()
    )


def fetch(entry: Entry, *, progress: bool = True) -> Path:
    """Return the folder with a benchmark's files; download those that are missing or damaged.

    Parameters
    ----------
    entry : Entry
        The benchmark.
    progress : bool, default True
        Whether to show a progress bar if stderr is a terminal.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If a file cannot be downloaded or written, or is not the published one.
    """
    place = folder(entry)
    if cached(entry):  # nothing is written, so the folder may be read-only
        return place
    if not entry.mirrors:
        raise InputError(
            f"{entry.title} cannot be downloaded; only its sizes are known",
            do=f"get its files from {entry.source}, then {_ways(entry)}",
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        with locked(place), _quiet(place):
            for file in entry.files:
                _fetch(entry, file, progress)
            # parts are kept until now: an archive holds several files; other names are left by pooch,
            # which was killed while it unpacked
            for left in (*place.glob(".*.part"), *place.glob("tmp????????")):
                left.unlink()
    except OSError as error:
        raise InputError(
            f"cannot write to the cache folder {place}",
            got=error.strerror or str(error),
            do=f"set EVENRANK_CACHE to a folder that can be written, or {_ways(entry)}",
        ) from None
    return place


def _fetch(entry: Entry, file: str, progress: bool) -> None:
    """Download a file from the first mirror that has it."""
    import pooch
    import requests

    place, digest, size = folder(entry), entry.files[file], entry.bytes.get(file, LARGEST)
    wrong, failed = "", []
    for url in entry.urls(file):
        download = _Download(file, digest, size, place, progress)
        try:
            pooch.retrieve(url, f"sha256:{digest}", file, place, downloader=download)
            return
        except _WrongContentError as error:
            wrong = wrong or f"{error} from {url}"
        except requests.RequestException as error:
            status = getattr(error.response, "status_code", None)
            what = f"HTTP {status}" if status else type(error).__name__
            failed.append(f"{what} from {urlsplit(url).netloc}")
    if wrong:
        raise InputError(
            f"{entry.title}: the downloaded {file} is not the published one, and was discarded",
            got=wrong,
            allowed=f"sha256 {digest}",
            do=_ways(entry),
        )
    raise InputError(f"{entry.title}: cannot download {file}", got=", ".join(failed), do=_ways(entry))


class _WrongContentError(Exception):
    """A download with another hash, or a damaged archive."""


@dataclass(frozen=True, slots=True)
class _Download:
    """A downloader for pooch: writes one file of one mirror into a temporary file of pooch's."""

    file: str
    digest: str
    size: int
    place: Path
    progress: bool
    deadline: float = field(default_factory=lambda: time.monotonic() + LONGEST)

    def __call__(self, url: str, output: str, pooch: object) -> None:
        location, _, member = url.partition("#")
        part = self.place / f".{sha256(location.encode()).hexdigest()[:16]}.part"
        resumed = part.exists()
        try:
            self._complete(location, part, LARGEST if member else self.size + HEADERS)
        except _WrongContentError:
            part.unlink()
            raise
        try:
            with _unpacked(part, location, member) as source, open(output, "wb") as target:
                fits = _copied(source, target, self.size)
            got = f"sha256 {_digest(Path(output))}" if fits else f"more than {self.size:,} bytes"
        except DAMAGED as error:
            got = f"a damaged archive ({(str(error) or type(error).__name__).splitlines()[0]})"
        if got == f"sha256 {self.digest}":
            shutil.copymode(part, output)  # pooch's temporary files are for their owner only
            return
        part.unlink()
        if not resumed:
            raise _WrongContentError(got)
        self(url, output, pooch)  # the resumed part may be at fault: once more, from the start

    def _complete(self, location: str, part: Path, most: int) -> None:
        """Download all bytes, resuming after each interruption as long as that gets more."""
        import requests

        for left in reversed(range(TRIES)):
            before = _size(part)
            try:
                self._continue(location, part, most)
                return
            except requests.RequestException as error:
                if not left or error.response is not None or _size(part) <= before:
                    raise

    def _continue(self, location: str, part: Path, most: int) -> None:
        """Download the missing bytes, or all from a server that does not support ranges."""
        import requests

        have = _size(part)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(location, headers=headers, stream=True, timeout=SECONDS) as answer:
            if have and answer.status_code == NO_FURTHER_BYTES:
                return
            answer.raise_for_status()
            further = answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            length = answer.headers.get("Content-Length", "")
            total = int(length) if is_whole(length) else None
            with (
                part.open("ab" if further else "wb", buffering=0) as target,
                Progress(self.file, total, unit="bytes", show=self.progress) as bar,
            ):
                size = target.tell()
                for block in answer.iter_content(BLOCK):
                    size += target.write(block)
                    bar.advance(len(block))
                    if size > most:
                        raise _WrongContentError(f"more than {most:,} bytes")
                    if time.monotonic() > self.deadline:
                        raise requests.Timeout


@contextmanager
def _unpacked(part: Path, location: str, member: str) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open the downloaded content: a member of an archive, a gzipped file, or the file itself."""
    if member and zipfile.is_zipfile(part):
        with zipfile.ZipFile(part) as archive, archive.open(member) as inside:
            yield inside
    elif member:
        with tarfile.open(part) as tar:
            names = {name.removeprefix("./"): name for name in tar.getnames()}
            content = tar.extractfile(names[member])
            if content is None:
                raise KeyError(f"{member} is not a file")
            yield content
    else:
        with open(part, "rb") as plain:
            yield gzip.GzipFile(fileobj=plain) if location.endswith(".gz") else plain


def _copied(source: IO[bytes] | gzip.GzipFile, target: IO[bytes], most: int) -> bool:
    """Copy a file; stop and return False if it has more bytes than it should."""
    while block := source.read(BLOCK):
        most -= len(block)
        if most < 0:
            return False
        target.write(block)
    return True


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _digest(file: Path) -> str:
    import pooch

    return str(pooch.file_hash(file))


@contextmanager
def _quiet(place: Path) -> Iterator[None]:
    """Keep pooch from logging these files to stderr; a progress bar or an error is enough."""
    import pooch

    def others(record: LogRecord) -> bool:
        return str(place) not in record.getMessage()

    logger = pooch.get_logger()
    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


def _ways(entry: Entry) -> str:
    """Name the alternatives to a download."""
    ways = [
        f"load your own files by the path of their folder, path/to/{entry.name}",
        f"set EVENRANK_DATA to a folder that contains a folder {entry.name}",
    ]
    if entry.mirrors:
        url = entry.mirrors[0].format(file=f"{{{','.join(entry.files)}}}")
        ways.append(f"download {url} on another machine into {folder(entry)}")
    return ", or ".join(ways)
