"""Runs: ranking into a folder, block by block, so that what was killed goes on where it was.

    manifest.json         what is ranked: model, task, protocol, version; and how the task is cut
    parts/00007.parquet   the ranks of a finished block, a file of ranks like any other
    ranks.parquet         all ranks in the order asked, once no block is missing; the parts then go
    .lock                 held by whoever writes here

A file is written under another name and then renamed, so one that is there is finished, and a run may
be killed at any moment: what is lost is the block it was at. A part names its run, by the hash of
the manifest; one of another run, or one that cannot be read, counts as missing. The result is, byte for
byte, the file that ranking in one go would have saved, so it cannot name its run: the manifest names it,
by its hash. Files of others are left alone.
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.columns import COUNTS
from evenrank._internal.files import locked, replacing
from evenrank.errors import InputError
from evenrank.ranks.files import METADATA
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks, Work
from evenrank.ranks.task import Blocks, Lists, Task

FORMAT = 1
MOST = 64  # blocks to aim at, so that little is lost and nobody waits long for the last one
RESULT = "ranks_hash"  # in the manifest, once there is a result
RUN = "evenrank.run"  # the metadata key under which a part names its run
ABANDONED = (".manifest.json.*.part", ".ranks.parquet.*.part", "parts/.*.parquet.*.part")
STEP = 1 << 26  # bytes that are hashed at a time


class Book:
    """The blocks of a task, of so many queries each: which are missing, and what the others came to."""

    def __init__(self, task: Task, queries: int, protocol: Protocol) -> None:
        """Begin with nothing."""
        self.task, self.queries, self.protocol = task, queries, protocol
        self.blocks = Blocks(task, queries)
        self.missing = [*range(len(self.blocks))]
        self.counts = {name: np.zeros(len(task), np.int64) for name in COUNTS}
        self._start, self._work = time.perf_counter(), list[Work]()

    @property
    def scores(self) -> int:
        """How many scores the missing blocks take."""
        return sum(self.blocks[i].scores for i in self.missing)

    def keep(self, i: int, ranks: Ranks) -> None:
        """Take in the ranks of a block, which is then finished."""
        self._take(i, {name: getattr(ranks, name) for name in COUNTS})
        self.missing.remove(i)
        if ranks.work is not None:
            self._work.append(ranks.work)

    def finish(self) -> Ranks:
        """Give all ranks; of the work, tell what was done now."""
        work = Work(
            scores=sum(work.scores for work in self._work),
            seconds=time.perf_counter() - self._start,
            undecided=sum(work.undecided for work in self._work),
            kernels=" and ".join(sorted({work.kernels for work in self._work})) or "no",
        )
        return Ranks.counted(**self.counts, keys=self.task.keys, protocol=self.protocol, work=work)

    def _take(self, i: int, counts: Mapping[str, NDArray[Any]]) -> None:
        rows = self.blocks.rows(i)
        for name, column in counts.items():
            self.counts[name][rows] = column


class Run(Book):
    """A folder that ranks are written into, a block at a time; `resumed` opens one."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], task: Task) -> None:
        """Take in what is finished."""
        super().__init__(task, manifest["queries"], Protocol.from_dict(manifest["protocol"]))
        self._begun = {name: value for name, value in manifest.items() if name != RESULT}
        self._name = content_hash([("manifest", self._begun)])
        self._folder, self._whole, self._parts = folder, folder / "ranks.parquet", folder / "parts"
        self._is_whole = self._take_whole(manifest.get(RESULT))
        self.missing = [] if self._is_whole else [i for i in self.missing if not self._take_part(i)]

    def keep(self, i: int, ranks: Ranks) -> None:
        """Write the ranks of a block, which is then finished."""
        with replacing(self._part(i)) as file:
            self._parts.mkdir(exist_ok=True)
            metadata = {METADATA: _json(self.protocol.to_dict()), RUN: self._block_name(i)}
            ranks.to_polars().write_parquet(file, metadata=metadata)
        super().keep(i, ranks)

    def finish(self) -> Ranks:
        """Give all ranks, and see that they are in one file."""
        ranks = super().finish()
        if not self._is_whole:
            ranks.save(self._whole)
            _write(self._folder, {**self._begun, RESULT: _file_hash(self._whole)})
        if self._parts.is_dir():
            for i in range(len(self.blocks)):
                self._part(i).unlink(missing_ok=True)
            if not any(self._parts.iterdir()):
                self._parts.rmdir()
        return ranks

    def _part(self, i: int) -> Path:
        return self._parts / f"{i:05}.parquet"

    def _block_name(self, i: int) -> str:
        return f"{self._name}, block {i}"

    def _take_whole(self, known_by: str | None) -> bool:
        """Read the result, if it is there and this run's."""
        if known_by is None or not self._whole.is_file() or _file_hash(self._whole) != known_by:
            return False
        ranks = Ranks.load(self._whole)
        self.counts = {name: getattr(ranks, name) for name in COUNTS}
        return True

    def _take_part(self, i: int) -> bool:
        """Read a finished block, if it is there and this run's."""
        import polars as pl

        try:
            if pl.read_parquet_metadata(self._part(i)).get(RUN) != self._block_name(i):
                return False
            counts = pl.read_parquet(self._part(i), columns=list(COUNTS))
            self._take(i, {name: counts[name].to_numpy() for name in COUNTS})
        except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return False
        return True


@contextmanager
def resumed(
    folder: str | os.PathLike[str],
    task: Task,
    identity: Mapping[str, str],
    protocol: Protocol,
    whole: int,
) -> Iterator[Run]:
    """Open a folder to rank a task into, alone: a new one, or one where this very ranking was begun.

    `identity` says what the ranks depend on beside the task. Blocks are of so many queries that there
    are about `MOST`, in multiples of `whole`.
    """
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
            manifest = {**asked, "queries": whole * max(1, round(queries / whole / MOST))}
            _write(folder, manifest)
        _check_same(folder, manifest, asked)
        for abandoned in chain.from_iterable(map(folder.glob, ABANDONED)):
            abandoned.unlink()
        yield Run(folder, manifest, task)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be; the system lets it go when a process dies."""
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
    """Refuse a folder in which somebody keeps other things, before anything is written there."""
    names = {path.name for path in folder.iterdir()}
    others = sorted(name for name in names if name != ".lock" and not name.startswith(".manifest.json."))
    if others and "manifest.json" not in names:
        raise InputError(
            "ranks are written into a folder of their own",
            got=f"{folder}, which has {others[0]} in it and no manifest.json",
            do="choose an empty folder, or one that does not exist yet",
        )


def _write(folder: Path, manifest: Mapping[str, Any]) -> None:
    with replacing(folder / "manifest.json") as file:
        file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")


def _read(path: Path) -> dict[str, Any] | None:
    """Read the manifest; None where nothing was begun yet."""
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if type(manifest["queries"]) is not int or manifest["queries"] < 1:
            raise TypeError
        if not isinstance(manifest["protocol"], dict):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{path} is not a manifest of evenrank", do="choose another folder, or delete this one"
        ) from None
    return dict(manifest)


def _check_same(folder: Path, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse to go on with another ranking, and say what differs."""
    mine, others = (
        {**Protocol.from_dict(run["protocol"]).to_dict(), **run, "protocol": None}
        for run in (asked, there)
    )
    beside = {"queries", RESULT}
    if mine["task_hash"] != others.get("task_hash"):
        beside.add("model_hash")  # that of the model for the queries of the task
    differs = [
        f"{name.replace('_', ' ')} {others.get(name, '(none)')} there, {mine.get(name, '(none)')} here"
        for name in {**mine, **others}
        if name not in beside and mine.get(name) != others.get(name)
    ]
    if differs:
        raise InputError(
            f"{folder} holds another run",
            got="; ".join(differs),
            do="choose another folder, or delete this one",
        )


# Hashes -------------------------------------------------------------------------------------------


def task_hash(task: Task) -> str:
    """Hash all that is asked: queries, targets, candidates, known answers, and the keys beside them.

    >>> task_hash(Task.of([[0]], targets=[1], size=3)) == task_hash(Task.of([[0]], targets=[2], size=3))
    False
    """
    return content_hash(
        (field.name, getattr(part, field.name)) for part in task.parts for field in fields(part)
    )


def content_hash(values: Iterable[tuple[str, Any]]) -> str:
    """Hash named values: numbers, texts, arrays, lists, and mappings of these.

    >>> content_hash([("form", "dot"), ("table", np.eye(2))])
    'cb3f7ffcccca10c7'
    """
    total = sha256()
    for name, value in values:
        for piece in _pieces(name, value):
            total.update(piece)
    return total.hexdigest()[:16]


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:16]


def _pieces(name: str, value: Any) -> Iterator[Any]:
    """Write a value as bytes, so that no two write the same."""
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
