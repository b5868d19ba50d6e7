"""Devices of torch, and what is kept on them: the index of the task and the table of the model.

A part of a task is copied to the device once and kept as long as the task (`Index`). The table stays
on the model's device; a table on the host that is too large for the device is streamed in blocks, each
copied while the block before is counted (`Source`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, Self, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints, array
from evenrank.errors import InputError
from evenrank.ranking.engine.bounds import Form
from evenrank.ranking.engine.vectors import kernels as vector_kernels
from evenrank.ranking.scorer import Factored
from evenrank.ranks.lists import Lists
from evenrank.ranks.task import Part

Tensor: TypeAlias = Any  # of torch, which is not installed where types are checked
TARGETS = 8  # targets of a query that are compared in one row of a tile; more take more rows
ROOM = 1 << 25  # most undecided pairs of one block of queries and one of rows
STAGED = 1 << 26  # bytes of a table that are copied at a time: measured on an H200
SAMPLED = 4096  # rows whose mean is taken for the middle of the table
KEPT = 16  # indices of a part that are kept on devices


def kernels_for(device: torch.device, *, plain_torch: bool) -> Any:
    """Return the Triton kernels if they run on the device, or None for plain torch."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's interpreter runs anywhere
    if plain_torch or (device.type != "cuda" and not interpreted):
        return None
    try:
        from evenrank.ranking.engine import _triton
    except ImportError:
        return None
    return _triton


def cuda_is_there() -> bool:
    """Return whether a GPU is available."""
    return bool(torch.cuda.is_available())


class Device:
    """A device to rank on, by its name, and its kernels.

    The name is `cuda`, `cuda:1`, ..., or `torch:` and any device, for plain torch without Triton.
    """

    def __init__(self, text: str) -> None:
        plain_torch = text.startswith("torch:")
        try:
            # the complete name of the device, and a check that it has float64
            self.device = torch.zeros(1, device=text.removeprefix("torch:"), dtype=torch.float64).device
            if self.device.type == "meta":
                raise TypeError("it holds no numbers")
        except (RuntimeError, AssertionError, TypeError) as error:
            raise InputError(
                "this device cannot be used",
                got=f"{text!r} ({str(error).splitlines()[0].partition('. ')[0]})",
                allowed="cpu, auto, cuda, or torch:DEVICE for any device of torch that has float64",
            ) from None
        self.kernels = kernels_for(self.device, plain_torch=plain_torch)
        self.name = f"{'triton' if self.kernels else 'torch'}, {self.device}"

    def free(self) -> int:
        """Return the bytes of memory that are free."""
        if self.device.type != "cuda":
            return 1 << 30
        free, total = torch.cuda.mem_get_info(self.device)
        if 2 * free < total:  # memory cached by torch is free too, but asking takes a millisecond
            free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(free)

    def has_room(self, model: Any) -> bool:
        """Return whether a model's arrays and their copies fit, or are on the device already."""
        if getattr(model, "device", None) == str(self.device):
            return True
        arrays = (getattr(model, name) for name in getattr(model, "ARRAYS", ()))
        return bool(4 * sum(array.nbytes for array in arrays if array is not None) < self.free())

    def __enter__(self) -> Self:
        """Launch kernels on this device."""
        self._context = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        self._context.__enter__()
        self._before = vector_kernels.set(self.kernels)
        return self

    def __exit__(self, *why: object) -> None:
        """Restore the previous device."""
        vector_kernels.reset(self._before)
        self._context.__exit__(*why)


class Index:
    """Some queries of a part on a device: targets, known true answers, and their rows of tiles."""

    def __init__(self, part: Part, device: torch.device, start: int, stop: int) -> None:
        def there(values: NDArray[Any], kind: torch.dtype = torch.int32) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(values)).to(device, kind)

        # (without a reference to the part, which would keep it alive)
        self.start, self.stop = start, stop
        first = part.first[start : stop + 1]
        self.where = slice(int(first[0]), int(first[-1]))
        self.queries = there(part.queries[start:stop], torch.int64)
        self.host_queries = part.queries[start:stop]
        # the smallest and the largest id in each column: a model that has these has all
        self.extremes = np.stack([self.host_queries.min(0), self.host_queries.max(0)])
        lengths = np.diff(first)
        # rows of tiles: a query with up to TARGETS of its targets, those with the most targets first
        pieces = -(-lengths // TARGETS)
        query = np.repeat(np.arange(stop - start), pieces)
        begin = (first[:-1] - first[0])[query] + TARGETS * (
            np.arange(len(query)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        )
        end = np.minimum(begin + TARGETS, (first[1:] - first[0])[query])
        order = np.argsort(begin - end, kind="stable")
        self.row_query, self.row_first, self.row_end = (there(x[order]) for x in (query, begin, end))
        self._row_of = np.empty(stop - start, dtype=np.int64)  # some row of each query
        self._row_of[query[order]] = np.arange(len(order))
        self.row_of = there(self._row_of)
        self.first = there(first - first[0])
        self.targets = there(part.targets[self.where])
        self.query_of = there(np.repeat(np.arange(stop - start), lengths))
        self.own = there(part.own[self.where])
        self.there = there
        self.known = DeviceLists(part.known.select(np.arange(start, stop)), self)
        self.asked = DeviceLists(Lists(first - first[0], part.targets[self.where]), self)

    def row(self, query: Ints) -> Ints:
        """Return, on the host, a row of tiles for each of some queries."""
        return self._row_of[query]

    def __len__(self) -> int:
        """Number of queries."""
        return self.stop - self.start


class DeviceLists:
    """Lists of candidates, one per query, on a device."""

    def __init__(self, lists: Lists, index: Index) -> None:
        self._lists, self._index = lists, index
        self.start, self.value, self.owner = map(index.there, (lists.first, lists.values, lists.owner))
        self._blocks: dict[tuple[int, int], tuple[Tensor, ...]] = {}

    def in_blocks(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        """Divide the entries into pieces of at most `columns` whose queries lie in one block of `rows`.

        Return the block and the start of each piece, then, in this order, the row, the value and the
        original position of each entry.
        """
        if (rows, columns) not in self._blocks:
            row = self._index.row(self._lists.owner)
            entry = np.argsort(row, kind="stable")
            edges = np.searchsorted(row[entry], np.arange(0, row.max(initial=0) + rows + 1, rows))
            starts = [np.arange(a, b, columns) for a, b in pairwise(edges.tolist())]
            block = np.repeat(np.arange(len(starts)), [len(one) for one in starts])
            there = self._index.there
            self._blocks[rows, columns] = (
                there(block),
                there(np.concatenate([*starts, [len(entry)]])),
                there(row[entry]),
                there(self._lists.values[entry]),
                there(entry, torch.int64),
            )
        return self._blocks[rows, columns]


def vectors(factored: Factored, index: Index, device: torch.device) -> Tensor:
    """Compute the query vectors of a model in float64, on the device."""
    there = isinstance(factored.table, torch.Tensor)
    given = array("query vectors", factored.queries(index.queries if there else index.host_queries))
    if not isinstance(given, torch.Tensor):
        given = torch.as_tensor(_writeable(given))
    expected = (len(index), factored.table.shape[1])
    if given.shape != expected:
        raise InputError(
            "query vectors have the wrong shape", got=str(tuple(given.shape)), allowed=f"{expected}"
        )
    return given.to(device, torch.float64).contiguous()


_kept: WeakKeyDictionary[Part, dict[tuple[Any, ...], Index]] = WeakKeyDictionary()


def indexed(part: Part, device: torch.device, start: int, stop: int) -> Index:
    """Return the index of some queries, built once for each part and device."""
    mine = _kept.setdefault(part, {})
    key = (device, start, stop)
    if key not in mine:
        if len(mine) >= KEPT:  # blocks from when there was more or less memory
            mine.clear()
        mine[key] = Index(part, device, start, stop)
    return mine[key]


class Source:
    """A table of candidates, on the device if there is room, else streamed from the host."""

    def __init__(self, form: Form, table: Any, device: Device) -> None:
        self.form, self.table, self.device, self.room = form, table, device.device, ROOM
        self.d = table.shape[1] // (2 if self.form == "modulus" else 1)
        self.size = len(table)
        # the table, its copy split or transposed, and norms: about ten bytes a number
        room = device.free() // 2 // (10 * table.shape[1] + 32)
        self.step = max(1, min(self.size, room))
        self.resident: Tensor | None = None
        if isinstance(table, torch.Tensor):
            self.resident = table.to(self.device)
        elif self.step == self.size:
            self.resident = torch.as_tensor(_writeable(table)).to(self.device)
        if self.resident is not None and self.resident.dtype not in (torch.float32, torch.float64):
            self.resident = self.resident.float()
        if self.resident is not None:
            self.resident = self.resident.contiguous()
        self._operands: dict[Any, Any] = {}

    @cached_property
    def middle(self) -> Tensor | None:
        """A point amid the rows, from which Euclidean distances are computed."""
        if self.form != "l2":
            return None
        every = max(1, self.size // SAMPLED)
        if self.resident is not None:
            some = self.resident[::every]
        else:
            some = torch.as_tensor(_writeable(self.table[::every]))
        return some.to(self.device, torch.float64).mean(0).nan_to_num_(0, 0, 0)

    def operand(self, kernels: Any, rows: Tensor, exact: bool) -> Any:
        """Convert rows for the tiles; those of a whole table are kept for the other side."""
        if rows is not self.resident:
            return kernels.Operand(self.form, rows, exact, middle=self.middle)
        if exact not in self._operands:
            self._operands[exact] = kernels.Operand(self.form, rows, exact, middle=self.middle)
        return self._operands[exact]

    def forget(self) -> None:
        """Free the converted rows and the memory cached by torch."""
        self._operands.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def rows(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and the positions of the ids among them: the whole table, or those rows alone."""
        if self.resident is not None:
            return self.resident, ids
        distinct, place = torch.unique(ids, return_inverse=True)
        rows = self.table[distinct.cpu().numpy()]
        return self._converted(torch.as_tensor(rows).to(self.device)), place.int()

    def starts(self, queries: int) -> range:
        """Return the first rows of the blocks of the table."""
        # small enough that the list holds one undecided pair in five hundred
        step = min(self.step, max(4096, 500 * self.room // max(1, queries)))
        step = min(step, max(32, (1 << 40) // max(1, queries)))  # and the tiles can be numbered
        if self.resident is None:
            row = self.table.itemsize * self.table.shape[1]
            step = max(1, min(step // 3, STAGED // row))
        return range(0, self.size, step)

    def blocks(self, starts: range) -> Iterator[tuple[int, Tensor]]:
        """Yield the table block by block; from the host, each is copied while the last one is used."""
        if self.resident is not None and len(starts) == 1:
            yield 0, self.resident
            return
        if self.resident is not None:
            for start in starts:
                yield start, self.resident[start : start + starts.step]
            return
        copier = _Copier(self.table, starts.step, self.device)
        following = copier.copy(starts[0])
        for start, after in zip_longest(starts, starts[1:]):
            coming = following
            if after is not None:
                following = copier.copy(after)
            yield start, self._converted(copier.arrived(*coming))
            copier.used()

    def _converted(self, rows: Tensor) -> Tensor:
        return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


class _Copier:
    """Copies blocks of a host table to a device: one is copied while the one before is used."""

    def __init__(self, table: NDArray[Any], step: int, device: torch.device) -> None:
        self.table, self.step, self.device, self.turn = table, step, device, 0
        if device.type == "cuda":
            kind = torch.as_tensor(np.empty(0, table.dtype)).dtype
            # page-locked, so that copies run in the background; allocated once, as that is slow
            self.staging = [
                torch.empty((step, table.shape[1]), dtype=kind, pin_memory=True) for _ in "12"
            ]
            self.stream = torch.cuda.Stream(device)
            self.copied: list[Any] = [None, None]
            self.done: list[Any] = []

    def copy(self, start: int) -> tuple[Tensor, Any]:
        host = torch.as_tensor(_writeable(np.asarray(self.table[start : start + self.step])))
        if self.device.type != "cuda":
            return host.to(self.device), None
        turn, self.turn = self.turn, 1 - self.turn
        if self.copied[turn] is not None:
            self.copied[turn].synchronize()  # the staging buffer is free again
        if len(self.done) > 1:
            self.done[-2].synchronize()  # and so is the device's memory
        staged = self.staging[turn][: len(host)].copy_(host)
        with torch.cuda.stream(self.stream):
            block = staged.to(self.device, non_blocking=True)
            self.copied[turn] = self.stream.record_event()
        return block, self.copied[turn]

    def arrived(self, block: Tensor, copied: Any) -> Tensor:
        if copied is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(copied)
            block.record_stream(current)
        return block

    def used(self) -> None:
        if self.device.type == "cuda":
            self.done.append(torch.cuda.current_stream(self.device).record_event())


def _writeable(values: NDArray[Any]) -> NDArray[Any]:
    """Copy what torch does not accept: it warns of read-only memory, and has no negative strides."""
    return values if values.flags.writeable and min(values.strides, default=0) >= 0 else np.array(values)
