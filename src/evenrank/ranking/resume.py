"""Checkpoint folders: ranks are written block by block, so that an interrupted ranking can resume.

    manifest.json         what is ranked: model, task, protocol, version; the size of the blocks; the
                          hashes of all files below, and of the manifest itself
    parts/00007.parquet   the ranks of a finished block, a file of ranks like any other
    ranks.parquet         all ranks in the order of the task, in place of the parts, once it is complete
    .lock                 held by the process that writes here

A file is written under another name and then renamed, so an existing file is complete, and a run may be
killed at any moment: only the current block is lost. A file counts as missing if its hash is not in the
manifest, because it is damaged or of another run. Other files in the folder are left alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from hashlib import file_digest, sha256
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.columns import COUNTS
from evenrank._internal.files import locked, replacing
from evenrank._internal.reading import content, parse_json
from evenrank.errors import InputError
from evenrank.ranks.dependence import Crossings
from evenrank.ranks.files import METADATA
from evenrank.ranks.lists import Lists
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks, Work
from evenrank.ranks.task import Blocks, Task

Counts: TypeAlias = dict[str, NDArray[Any]]  # the columns `COUNTS` of ranks

FORMAT = 2
MOST = 64  # blocks of a task, about, so that little is lost and the last one does not take long
# keys of the manifest: the hashes of the result, of the parts by their numbers, and of the manifest
RESULT, PARTS, OWN = HASHES = ("ranks_hash", "part_hashes", "manifest_hash")
ABANDONED = (".manifest.json.*.part", ".ranks.parquet.*.part", "parts/.*.parquet.*.part")
STEP = 1 << 26  # bytes that are hashed at a time


class Checkpoint:
    """The blocks of queries of a task: which are missing, and the counts of the finished ones.

    With a folder, finished blocks are read from it and written to it.
    """

    def __init__(
        self, task: Task, queries: int, protocol: Protocol, folder: _Folder | None = None
    ) -> None:
        self.task, self.queries, self.protocol = task, queries, protocol
        self.blocks = Blocks(task, queries)
        self.missing = [*range(len(self.blocks))]
        self.counts = {name: np.zeros(len(task), np.int64) for name in COUNTS}
        self._start, self._work, self._folder = time.perf_counter(), list[Work](), folder
        if folder is None:
            return
        whole = folder.read_result()
        if whole is not None:
            self.counts, self.missing = whole, []
        else:
            self.missing = [i for i in self.missing if not self._restore(folder, i)]

    @property
    def scores(self) -> int:
        """Number of scores that the missing blocks take."""
        return sum(self.blocks[i].scores for i in self.missing)

    def keep(self, i: int, ranks: Ranks) -> None:
        """Add the ranks of a finished block, and write them to the folder."""
        if self._folder is not None:
            self._folder.write_block(i, ranks, self.protocol)
        self._add(i, columns(ranks))
        self.missing.remove(i)
        if ranks.work is not None:
            self._work.append(ranks.work)

    def finish(self) -> Ranks:
        """Return all ranks, and write them to one file; their `work` is that of this call alone."""
        work = Work(
            scores=sum(work.scores for work in self._work),
            seconds=time.perf_counter() - self._start,
            undecided=sum(work.undecided for work in self._work),
            kernels=" and ".join(sorted({work.kernels for work in self._work})) or "no",
        )
        ranks = Ranks.counted(
            **self.counts,
            keys=self.task.keys,
            protocol=self.protocol,
            work=work,
            crossings=Crossings(self.task),
        )
        if self._folder is not None:
            self._folder.write_result(ranks, len(self.blocks))
        return ranks

    def _restore(self, folder: _Folder, i: int) -> bool:
        """Read a finished block from the folder, if it is there."""
        counts = folder.read_block(i)
        if counts is not None:
            self._add(i, counts)
        return counts is not None

    def _add(self, i: int, counts: Counts) -> None:
        rows = self.blocks.rows(i)
        for name, column in counts.items():
            self.counts[name][rows] = column


def columns(ranks: Ranks) -> Counts:
    """Return the columns of ranks that a checkpoint restores.

    >>> {name: column.tolist() for name, column in columns(Ranks.of([1, 3], candidates=9)).items()}
    {'better': [0, 2], 'equal': [0, 0], 'candidates': [9, 9]}
    """
    return {name: getattr(ranks, name) for name in COUNTS}


class _Folder:
    """The files of one run in a checkpoint folder, which `open_folder` has locked."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self._manifest = manifest
        self._folder, self._result, self._parts = folder, folder / "ranks.parquet", folder / "parts"
        self._complete = False

    def read_result(self) -> Counts | None:
        """Read the counts of all ranks, if the result is there and as it was written."""
        self._complete = _as_written(self._result, self._manifest.get(RESULT))
        return columns(Ranks.load(self._result)) if self._complete else None

    def write_result(self, ranks: Ranks, blocks: int) -> None:
        """Write all ranks to one file, unless they are there, and delete the files of the blocks."""
        if not self._complete:
            ranks.save(self._result)
            self._manifest |= {RESULT: _file_hash(self._result), PARTS: {}}
            _write(self._folder, self._manifest)
        if self._parts.is_dir():
            for i in range(blocks):
                self._part(i).unlink(missing_ok=True)
            if not any(self._parts.iterdir()):
                self._parts.rmdir()

    def read_block(self, i: int) -> Counts | None:
        """Read the counts of a finished block, if its file is there and as it was written."""
        if not _as_written(self._part(i), self._manifest[PARTS].get(str(i))):
            return None
        return columns(Ranks.load(self._part(i)))

    def write_block(self, i: int, ranks: Ranks, protocol: Protocol) -> None:
        """Write the ranks of a finished block."""
        with replacing(self._part(i), parent=True) as file:
            ranks.to_polars().write_parquet(file, metadata={METADATA: _json(protocol.to_dict())})
        self._manifest[PARTS][str(i)] = _file_hash(self._part(i))
        _write(self._folder, self._manifest)

    def _part(self, i: int) -> Path:
        return self._parts / f"{i:05}.parquet"


@contextmanager
def open_folder(
    folder: str | os.PathLike[str],
    task: Task,
    identity: Mapping[str, str],
    protocol: Protocol,
    whole: int,
) -> Iterator[Checkpoint]:
    """Open and lock a checkpoint folder for a task: a new one, or one where the same ranking was begun.

    `identity` names what the ranks depend on beside the task. The task is cut into about `MOST` blocks,
    whose numbers of queries are multiples of `whole`.
    """
    if not isinstance(folder, str | os.PathLike):
        raise InputError("checkpoint must be the path of a folder", got=repr(folder))
    folder = Path(folder)
    asked = {
        "format": FORMAT,
        "evenrank": _version(),
        **identity,
        "task_hash": task_hash(task),
        "protocol": protocol.to_dict(),
    }
    with _alone(folder):
        manifest = _read(folder / "manifest.json")
        if manifest is None:
            queries = sum(len(part.queries) for part in task.parts)
            blocks = whole * max(1, round(queries / whole / MOST))
            manifest = {**asked, "queries": blocks, PARTS: {}}
            _write(folder, manifest)
        _check_same(folder, manifest, asked)
        for abandoned in chain.from_iterable(map(folder.glob, ABANDONED)):
            abandoned.unlink()
        protocol = Protocol.from_dict(manifest["protocol"])
        yield Checkpoint(task, manifest["queries"], protocol, _Folder(folder, manifest))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Create a folder if necessary, and hold its lock; the system releases it when a process dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_own(folder)
        lock = locked(folder, wait=False)
    except TimeoutError:
        raise InputError(
            "another run is writing into this folder",
            got=str(folder),
            do="wait for it, stop it, or choose another folder",
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot write into {folder}", got=error.strerror or str(error), do="choose another folder"
        ) from None
    with lock:
        yield


def _check_own(folder: Path) -> None:
    """Check that the folder is empty or a checkpoint, before anything is written there."""
    names = {path.name for path in folder.iterdir()}
    others = sorted(name for name in names if name != ".lock" and not name.startswith(".manifest.json."))
    if others and "manifest.json" not in names:
        raise InputError(
            "not a checkpoint folder",
            got=f"{folder}, which contains {others[0]} and no manifest.json",
            do="choose an empty folder, or one that does not exist yet",
        )
    if (folder / "parts").is_symlink():
        raise InputError(
            f"{folder / 'parts'} is a link", do="replace it by a folder, or choose another folder"
        )


def _write(folder: Path, manifest: Mapping[str, Any]) -> None:
    content = {**manifest, OWN: content_hash([("", manifest)])}
    with replacing(folder / "manifest.json") as file:
        file.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")


def _read(path: Path) -> dict[str, Any] | None:
    """Read the manifest, or return None if there is none yet."""
    if not path.exists():
        return None
    try:
        manifest = parse_json(content(path), str(path))
        own = manifest.pop(OWN, None)
        if type(manifest["queries"]) is not int or manifest["queries"] < 1:
            raise TypeError
        if not isinstance(manifest["protocol"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path} is not a manifest of evenrank", do="choose another folder, or delete this one"
        ) from None
    # `_check_same` names other formats
    if manifest.get("format") == FORMAT and own != content_hash([("", manifest)]):
        raise InputError(f"{path} is damaged", do="choose another folder, or delete this one")
    return dict(manifest)


def _check_same(folder: Path, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Check that the folder holds the same ranking, or raise an error that names the differences."""
    mine, others = (
        {**Protocol.from_dict(run["protocol"]).to_dict(), **run, "protocol": None}
        for run in (asked, there)
    )
    beside = {"queries", *HASHES}
    if mine["task_hash"] != others.get("task_hash"):
        beside.add("model_hash")  # depends on the queries of the task
    differs = [
        f"{name.replace('_', ' ')} {others.get(name, '(none)')} there, {mine.get(name, '(none)')} here"
        for name in {**mine, **others}
        if name not in beside and mine.get(name) != others.get(name)
    ]
    if differs:
        raise InputError(
            f"{folder} is the checkpoint of another ranking",
            got="; ".join(differs),
            do="choose another folder, or delete this one",
        )


# Hashes -------------------------------------------------------------------------------------------


def task_hash(task: Task) -> str:
    """Hash a task: queries, targets, candidates, known true answers, and the keys of its rows.

    >>> task_hash(Task.of([[0]], targets=[1], size=3)) == task_hash(Task.of([[0]], targets=[2], size=3))
    False
    """
    return content_hash(
        (field.name, getattr(part, field.name)) for part in task.parts for field in fields(part)
    )


def content_hash(values: Iterable[tuple[str, Any]]) -> str:
    """Hash named values: numbers, texts, arrays, `Lists`, and mappings of these.

    >>> content_hash([("form", "dot"), ("table", np.eye(2))])
    'cb3f7ffcccca10c7'
    """
    total = sha256()
    for name, value in values:
        for piece in _pieces(name, value):
            total.update(piece)
    return total.hexdigest()[:16]


def _as_written(path: Path, wanted: str | None) -> bool:
    """Whether a file has the hash that it had when it was written."""
    return wanted is not None and path.is_file() and _file_hash(path) == wanted


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:16]


def _pieces(name: str, value: Any) -> Iterator[Any]:
    """Yield the bytes of a value; different values have different bytes."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _pieces(f"{name}.{key}", value[key])
    elif isinstance(value, Lists):
        yield from _pieces(f"{name}.first", value.first)
        yield from _pieces(f"{name}.values", value.values)
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        yield f"{name} {value.dtype.str} {value.shape}\n".encode()
        step = max(1, STEP * len(value) // max(1, value.nbytes))
        for at in range(0, len(value), step):
            yield value[at : at + step].tobytes()
    else:  # a column of texts is hashed as JSON
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        yield f"{name} {_json(plain)}\n".encode()


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


def _version() -> str:
    from evenrank import __version__

    return __version__
