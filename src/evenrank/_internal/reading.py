"""Reads files that others wrote: within bounds, and with errors in the user's words.

Such a file can hold anything: it can be cut short, damaged, of another format, or made to exhaust the
memory. Every reader goes through this module, which

- opens regular files only, as a pipe may never end and a device never does;
- compares what a file needs with the available memory before it is read;
- turns whatever a library raises into an `InputError` of one line.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from evenrank._internal.limits import SHARE, available_memory, check_fits
from evenrank.errors import EvenrankError, InputError, Option, shortened

if TYPE_CHECKING:
    import polars as pl

KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}
DAMAGED = "it may be damaged, truncated or of another format"
ARRAYS = "it may be damaged, or of another format than .npy and .npz"
STEP = 1 << 24  # bytes that are unpacked at a time
COPIES = 6  # of a text in memory while it is split, about, the columns included
# the longest first: UTF-32 starts like UTF-16
ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
VERSIONS = (b"\1\0", b"\2\0", b"\3\0")  # of NumPy's format
CELL = 16  # bytes of a text in a column of polars, and of a number of more than 8 bytes
REASON = 200  # most letters of what a library says
# what stands for a sentence of a library that would not help
REASONS = {
    "MemoryError": "more memory than is available",
    "RecursionError": "brackets nested too deep",
    "UnicodeDecodeError": "bytes that are not UTF-8",
    "PanicException": "damaged content",
    "EOFError": "an end before all was read",
    "BadGzipFile": "no gzipped file, or a damaged one",
}


def check_regular(path: str | os.PathLike[str]) -> os.stat_result:
    """Check that a path names a regular file, or a link to one, and return its state."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        raise InputError("no such file", got=os.fspath(path)) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    kind = next((name for test, name in KINDS.items() if test(about.st_mode)), None)
    if kind is not None:
        raise InputError(f"cannot read {path}", got=kind, do="pass a regular file")
    return about


@contextmanager
def translated(
    path: str | os.PathLike[str], *, do: str | Sequence[str | Option] = DAMAGED
) -> Iterator[None]:
    """Raise an `InputError` that names the file for whatever a library raises about it."""
    try:
        with _native_messages_held():
            yield
    except EvenrankError:
        raise
    except Exception as error:  # a foreign file can make a library raise anything
        raise unreadable(path, error, do=do) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of polars, which derives it from BaseException
            raise
        raise unreadable(path, error, do=do) from None


def unreadable(
    path: str | os.PathLike[str], error: BaseException, *, do: str | Sequence[str | Option] = DAMAGED
) -> InputError:
    """Build the error for a file that a library cannot read."""
    if isinstance(error, FileNotFoundError):
        return InputError("no such file", got=os.fspath(path))
    return InputError(f"cannot read {path}", got=reason(error), do=do)


def reason(error: BaseException) -> str:
    """Say in a few words what a library found wrong.

    >>> reason(RecursionError("maximum recursion depth exceeded")), reason(OSError(28, "No space left"))
    ('brackets nested too deep', 'No space left')
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    for kind in type(error).__mro__:
        if kind.__name__ in REASONS:
            return REASONS[kind.__name__]
    text = str(error)
    if "set_int_max_str_digits" in text:
        return "a number of thousands of digits"
    if "out of specification" in text.lower():  # what polars says of files that are not Parquet
        return "no Parquet file, or a damaged one"
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return shortened(first, REASON)


# Bytes --------------------------------------------------------------------------------------------


def content(path: str | os.PathLike[str], *, copies: float = COPIES, pipe: bool = False) -> bytes:
    """Read a file, unzipped if it is gzipped, unless it is larger than the memory allows.

    `copies` is how many times its size takes the work on it. With `pipe`, a pipe that the shell opened,
    as by `<(command)`, is read to its end.
    """
    path = Path(path)
    if not (pipe and path.is_fifo() and str(path).startswith(("/dev/", "/proc/"))):
        check_fits(copies * check_regular(path).st_size, "this file", where=str(path))
    with translated(path), path.open("rb") as file:
        raw = _bounded(file, path, copies)
        if path.suffix.lower() == ".gz" or raw.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as unpacked:
                return _bounded(unpacked, path, copies)
        return raw


def _bounded(file: IO[bytes] | gzip.GzipFile, path: Path, copies: float) -> bytes:
    """Read a stream to its end, or to the limit of the memory."""
    most = SHARE * available_memory()
    pieces, size = list[bytes](), 0
    while piece := file.read(STEP):
        pieces.append(piece)
        size += len(piece)
        if copies * size > most:  # the end may be far
            check_fits(copies * size, "what this file unpacks to", where=str(path))
    return b"".join(pieces)


def as_utf8(raw: bytes, path: str | os.PathLike[str]) -> bytes:
    """Return text in UTF-8, without a mark of byte order, with lines that end in a line feed."""
    encoding = next((name for mark, name in ENCODINGS.items() if raw.startswith(mark)), "utf-8")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    if encoding == "utf-8" and b"\0" in raw:
        raise InputError(f"{path}: a binary file, not text", do="save it as UTF-8 text")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line, byte = raw.count(b"\n", 0, error.start) + 1, raw[error.start]
        what = "not UTF-8" if encoding == "utf-8" else f"not {encoding.upper()}, as its first bytes say"
        raise InputError(
            f"{path}:{line}: {what}", got=f"byte 0x{byte:02x}", do="save it as UTF-8"
        ) from None
    if encoding != "utf-8":
        raw = text.encode()
    return raw.replace(b"\r", b"\n") if b"\n" not in raw else raw  # as old Macs ended lines


# JSON ---------------------------------------------------------------------------------------------


def parse_json(text: str | bytes, what: str) -> Any:
    """Parse JSON; `what` begins the message of errors, such as "the protocol in a.csv"."""
    try:
        found = json.loads(text)
        # half of a surrogate pair can be written in JSON, but nowhere else
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        got = REASONS["RecursionError"]
    except UnicodeEncodeError:
        got = "half of a surrogate pair, which is no letter"
    except UnicodeDecodeError:
        got = REASONS["UnicodeDecodeError"]
    except ValueError as error:
        got = reason(error)
    else:
        return found
    raise InputError(f"{what} is not valid JSON", got=got)


# Arrays of NumPy ----------------------------------------------------------------------------------


def load_arrays(path: str | os.PathLike[str]) -> Any:
    """Read an array (.npy), or a dictionary of arrays (.npz), without unpickling anything."""
    size = check_regular(path).st_size
    with translated(path, do=ARRAYS), open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            check_fits(size, "this array", where=os.fspath(path))
            file.seek(0)
            return read_array(file, size)
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            check_fits(sum(one.file_size for one in members), "this archive", where=os.fspath(path))
            arrays: dict[str, NDArray[Any]] = {}
            for one in members:
                with archive.open(one) as member:
                    # `ZipFile` checks the size and the checksum only at the end of a member
                    raw = io.BytesIO(member.read(one.file_size + 1))
                arrays[one.filename.removesuffix(".npy")] = read_array(raw, one.file_size)
            return arrays


def read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Read an array of NumPy's format from a stream of `size` bytes."""
    check_header(file, size)
    file.seek(0)
    return np.asarray(np.load(file, allow_pickle=False))


def check_header(file: IO[bytes], size: int) -> None:
    """Check that the header of an array describes numbers or texts, and no more than there are."""
    start = file.read(npy.MAGIC_LEN)
    if start[:-2] != npy.MAGIC_PREFIX or start[-2:] not in VERSIONS:
        raise ValueError("no array that NumPy saved")
    # version 3 differs from 2 only in names of fields, which numbers do not have
    first = start[-2:] == VERSIONS[0]
    try:
        shape, _, kind = (npy.read_array_header_1_0 if first else npy.read_array_header_2_0)(file)
    except Exception:  # it is parsed as Python
        raise ValueError("a damaged header of an array") from None
    if kind.kind not in "biufcUS" or not kind.itemsize:
        raise ValueError(f"an array of type {kind}, neither numbers nor text")
    there = size - file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize > there:
        raise ValueError(
            f"a header for an array of shape {shape} ({math.prod(shape) * kind.itemsize:,} bytes), "
            f"above {there:,} bytes"
        )


# Parquet ------------------------------------------------------------------------------------------


def read_parquet(
    source: Path | bytes,
    where: str | os.PathLike[str],
    *,
    extra: int = 0,
    do: str = DAMAGED,
    instead: str | None = None,
) -> pl.DataFrame:
    """Read a table completely: raise an error if it has other rows than its footer says.

    `extra` is how many bytes the caller needs for each row, beside the table; `instead` says what to do
    if there is not enough memory.
    """
    import polars as pl

    if isinstance(source, Path):
        check_regular(source)
    with translated(where, do=do):
        rows = parquet_rows(source)
        names = pl.read_parquet_schema(_seekable(source))
        each = extra + sum(map(_width, names.values()))
        check_fits(rows * each, f"this table of {rows:,} rows", do=instead, where=os.fspath(where))
        # its name is no pattern, and folders above it hold no columns
        frame = pl.read_parquet(_seekable(source), glob=False, hive_partitioning=False)
        check_rows(len(frame), rows)
    return frame


def parquet_rows(source: Path | bytes) -> int:
    """Return the number of rows that the footer of a Parquet file states."""
    import polars as pl

    lazy = pl.scan_parquet(_seekable(source), glob=False, hive_partitioning=False)
    return int(lazy.select(pl.len()).collect().item())


def check_rows(found: int, stated: int) -> None:
    """Raise an error if a table has other rows than stated: libraries skipped damaged pages silently."""
    if found != stated:
        raise InputError(f"{found:,} of {stated:,} rows could be read")


def _seekable(source: Path | bytes) -> Any:
    return source if isinstance(source, Path) else io.BytesIO(source)


def _width(kind: pl.DataType) -> int:
    """Return the bytes that a cell takes, about."""
    return 8 if kind.is_numeric() or kind.is_temporal() else CELL


# Messages of native code --------------------------------------------------------------------------

_holding = Lock()
_held = 0  # blocks that hold messages, in any thread
_real = -1  # the real stderr meanwhile
_failed = False  # whether one of these blocks has raised an error


@contextmanager
def _native_messages_held() -> Iterator[None]:
    """Drop what native code writes to stderr if the block raises an error; otherwise show it.

    Rust writes a backtrace before polars raises the error. This needs `sys.stderr` to be on another
    descriptor, as in the shell: elsewhere messages of other threads could be lost.
    """
    global _held, _real, _failed
    if not _separate():
        yield
        return
    with _holding:
        if not _held:
            _real = os.dup(2)
            held = tempfile.TemporaryFile()  # noqa: SIM115  # until the last block ends
            os.dup2(held.fileno(), 2)
            held.close()
            _failed = False
        _held += 1
    try:
        yield
    except BaseException:
        _failed = True
        raise
    finally:
        with _holding:
            _held -= 1
            if not _held:
                written = b"" if _failed else os.pread(2, os.fstat(2).st_size, 0)
                os.dup2(_real, 2)
                os.close(_real)
                os.write(2, written)


def _separate() -> bool:
    try:
        os.fstat(2)
        return sys.stderr is not None and sys.stderr.fileno() > 2
    except (OSError, ValueError, AttributeError):  # closed, or without a descriptor, as in notebooks
        return False
