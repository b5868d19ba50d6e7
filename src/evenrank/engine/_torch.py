"""Ranking with torch: with Triton's kernels on NVIDIA's devices, with torch alone on any other.

A part of a task is copied to the device once and kept there with the task (`Index`). The table stays
where the model has it; one that is on the host and too large for the device streams through in blocks,
copied while the block before is counted. Nothing is read back before everything is counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Any, Self, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from evenrank.engine._arrays import array
from evenrank.engine._bounds import HUGE, SLACK, TINY, Form, U
from evenrank.engine._run import Runner
from evenrank.engine.scorer import Factored
from evenrank.errors import InputError
from evenrank.sums import Ints
from evenrank.task import Lists, Part

Tensor: TypeAlias = Any  # torch's; it is not there where types are checked
TARGETS = 8  # of a query that are compared in one row of a tile; more take more rows
ROOM = 1 << 25  # undecided pairs that fit the list, of one block of queries and one of rows
STAGED = 1 << 29  # bytes of a table that are copied at a time
LISTED = 1 << 25  # pairs of listed candidates scored at a time
KEPT = 16  # indices of a part that stay on devices
WIDEST = 4096  # dimensions a warp can fold; torch alone does more
CELLS = 1 << 24  # numbers held at once by torch alone


def kernels_for(device: torch.device, *, plain_torch: bool) -> Any:
    """Give Triton's kernels where they run, else None: torch does it alone."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own way to run anywhere
    if plain_torch or (device.type != "cuda" and not interpreted):
        return None
    try:
        from evenrank.engine import _triton
    except ImportError:
        return None
    return _triton


def cuda_is_there() -> bool:
    """Say whether there is a GPU to rank on."""
    return bool(torch.cuda.is_available())


class Device:
    """A device that ranks: what it is, and which kernels it has."""

    def __init__(self, text: str) -> None:
        """Read `cuda`, `cuda:1`, `torch:cuda` (without Triton), `torch:cpu`, ..."""
        plain_torch = text.startswith("torch:")
        try:
            self.device = torch.device(text.removeprefix("torch:"))
            torch.zeros(1, device=self.device, dtype=torch.float64)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise InputError(
                "this device cannot be used",
                got=f"{text} ({str(error).splitlines()[0]})",
                allowed="cpu, auto, cuda, or torch:DEVICE for any device of torch that has float64",
            ) from None
        self.kernels = kernels_for(self.device, plain_torch=plain_torch)
        self.name = f"{'triton' if self.kernels else 'torch'}, {self.device}"

    def free(self) -> int:
        """Bytes that may be used at once."""
        if self.device.type != "cuda":
            return 1 << 30
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0] + kept)

    def has_room(self, model: Any) -> bool:
        """Say whether a model's arrays, and what is made of them, fit."""
        arrays = (getattr(model, name) for name in getattr(model, "ARRAYS", ()))
        return bool(4 * sum(array.nbytes for array in arrays if array is not None) < self.free())

    def __enter__(self) -> Self:
        """Make this the device that kernels are launched on."""
        self._context = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        self._context.__enter__()
        return self

    def __exit__(self, *why: object) -> None:
        """Go back to the device before."""
        self._context.__exit__(*why)


class Index:
    """Some queries of a part on a device: targets, known answers, and the order to take them in."""

    def __init__(self, part: Part, device: torch.device, start: int, stop: int) -> None:
        """Copy to the device."""

        def there(values: NDArray[Any], kind: torch.dtype = torch.int32) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(values)).to(device, kind)

        # (without the part itself, which must be free to go when nobody else needs it)
        self.start, self.stop = start, stop
        first = part.first[start : stop + 1]
        self.where = slice(int(first[0]), int(first[-1]))
        self.queries = there(part.queries[start:stop], torch.int64)
        self.host_queries = part.queries[start:stop]
        lengths = np.diff(first)
        # rows of tiles: a query with up to TARGETS of its targets, those with the most first
        pieces = -(-lengths // TARGETS)
        query = np.repeat(np.arange(stop - start), pieces)
        begin = (first[:-1] - first[0])[query] + TARGETS * (
            np.arange(len(query)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        )
        end = np.minimum(begin + TARGETS, (first[1:] - first[0])[query])
        order = np.argsort(begin - end, kind="stable")
        self.row_query, self.row_first, self.row_end = (there(x[order]) for x in (query, begin, end))
        self.row_of = np.empty(stop - start, dtype=np.int64)  # some row of each query
        self.row_of[query[order]] = np.arange(len(order))
        self.first = there(first - first[0])
        self.targets = there(part.targets[self.where])
        self.query_of = there(np.repeat(np.arange(stop - start), lengths))
        self.own = there(part.own[self.where])
        self.there = there
        self.known = DeviceLists(part.known.select(np.arange(start, stop)), self)
        self.asked = DeviceLists(Lists(first - first[0], part.targets[self.where]), self)

    def __len__(self) -> int:
        """Number of queries."""
        return self.stop - self.start


class DeviceLists:
    """Lists of candidates, one per query, on a device."""

    def __init__(self, lists: Lists, index: Index) -> None:
        """Copy to the device."""
        self._lists, self._index = lists, index
        self.start, self.value, self.owner = map(index.there, (lists.first, lists.values, lists.owner))
        self._blocks: dict[tuple[int, int], tuple[Tensor, ...]] = {}

    def in_blocks(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        """Cut into pieces of at most `columns` entries whose queries share a block of `rows`.

        Give each piece's block and where it starts, then, in their order, the entries' rows and values
        and which entries they are.
        """
        if (rows, columns) not in self._blocks:
            row = self._index.row_of[self._lists.owner]
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


_kept: WeakKeyDictionary[Part, dict[tuple[Any, ...], Index]] = WeakKeyDictionary()


def indexed(part: Part, device: torch.device, start: int, stop: int) -> Index:
    """Give the index of some queries, made once for each part and device."""
    mine = _kept.setdefault(part, {})
    key = (device, start, stop)
    if key not in mine:
        if len(mine) >= KEPT:  # cuts that were made when there was more or less memory
            mine.clear()
        mine[key] = Index(part, device, start, stop)
    return mine[key]


# Bounds -------------------------------------------------------------------------------------------


def limits(
    form: Form, queries: Tensor, rows: Tensor, query_of: Tensor, score: Tensor, d: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give what `_bounds.bounds` gives, for the arithmetic of the device's kernels, in float32.

    Distances are summed one dimension after the other: `a = d` additions. Inner products are of
    numbers split in two, `x = h + l + r` with `|r| <= 2^-18 |x|`, of which `l l` is left out: `3 2^-18`
    of `|q| |e|`. For what tensor cores cut off, see `_cut`.
    """
    if form == "dot":
        relative = (3.1 * 2.0**-18 + 3 * -(-d // 16) * _cut(queries.device)) * SLACK
        size, weight = (_huge(_norms(x), HUGE) for x in (queries, rows))
        slope = (relative * size + 2 * TINY * d**0.5) * SLACK
        beside = 2 * TINY * (d**0.5 * size + 2 * d)[query_of]
        low, high = score - beside, score + beside
    else:
        unit = U / (1 - d * U) * SLACK
        length = _norms if form == "l2" else _lengths
        off = U * length(queries) + TINY * d
        if rows.dtype != torch.float32:
            off = off + U * length(rows).max() + TINY * d
        off = off[query_of] * SLACK
        relative = (d + {"l1": 1, "l2": 3, "modulus": 5 + 2**11}[form]) * unit
        distance = -score
        lost = d * (2.0**-59 if form == "modulus" else TINY) * SLACK
        if form == "l2":
            root = distance.sqrt()
            near, far = (root - off).clamp_min(0).square(), (root + off).square()
        else:
            near, far = distance - off, distance + off
        low = -(far / (1 - relative) * (1 + 2.0**-40) + lost)
        high = -(near * (1 - relative) / (1 + 2.0**-40) - lost)
        most = HUGE if form != "modulus" else 2.0**60
        large = queries.abs().amax(1)[query_of]
        fine = (large < most) & (distance < HUGE) & (rows.abs().max() < most)
        low, high = torch.where(fine, low, -torch.inf), torch.where(fine, high, torch.inf)
        slope, weight = torch.zeros(len(queries), device=low.device), torch.zeros(1, device=low.device)
    margin = 2.0**-20
    return (
        (low - margin * low.abs() - 2.0**-120).float(),
        (high + margin * high.abs() + 2.0**-120).float(),
        (slope * (1 + margin)).float(),
        (weight * (1 + margin)).float(),
    )


def _cut(device: torch.device) -> float:
    """Bound what tensor cores lose on each 16 products, relative to the absolute sum.

    They multiply exactly, align some products and the sum so far to the largest of them, and cut off
    what lies some bits below its last place (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor
    cores"). From Hopper on, 16 products and two bits: `17 2^-25`, and `2^-23` for the result. Before it,
    twice 8 products and one bit: `2 (9 2^-24 + 2^-23)`.
    """
    hopper = bool(device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9)
    return float(2.0**-20.3 if hopper else 2.0**-19.5)


def _huge(sizes: Tensor, most: float) -> Tensor:
    return torch.where(sizes < most, sizes, torch.inf)


def _norms(rows: Tensor) -> Tensor:
    sizes = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    if rows.dtype == torch.float32:  # float64 holds the squares of float32
        return sizes
    most = torch.linalg.vector_norm(rows, torch.inf, dim=1) * rows.shape[1] ** 0.5
    return torch.where(sizes > 1e-140, sizes, most)  # squares may have vanished


def _lengths(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, 1, dim=1, dtype=torch.float64)


# Counting -----------------------------------------------------------------------------------------


class Source:
    """The table and the query vectors of a model, as a device gets at them."""

    def __init__(self, factored: Factored, device: Device) -> None:
        """Keep the table where it is, if the device has it or has room for it."""
        self.factored, self.device, self.form = factored, device.device, factored.form
        table = factored.table
        self.d = table.shape[1] // (2 if self.form == "modulus" else 1)
        self.size = len(table)
        # the table, the same split or turned, and norms: about ten bytes a number
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

    def vectors(self, index: Index) -> Tensor:
        """Give the query vectors in float64."""
        there = isinstance(self.factored.table, torch.Tensor)
        vectors = array(
            "query vectors", self.factored.queries(index.queries if there else index.host_queries)
        )
        if not isinstance(vectors, torch.Tensor):
            vectors = torch.as_tensor(_writeable(vectors))
        return vectors.to(self.device, torch.float64).contiguous()

    def rows(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Give rows, and where the ids are among them: the whole table, or those rows alone."""
        if self.resident is not None:
            return self.resident, ids
        distinct, place = torch.unique(ids, return_inverse=True)
        rows = self.factored.table[distinct.cpu().numpy()]
        return self._converted(torch.as_tensor(rows).to(self.device)), place.int()

    def blocks(self, queries: int) -> Iterator[tuple[int, Tensor]]:
        """Give the table block by block; from the host, one is copied while the last one is used."""
        # so that some pairs in five hundred may be undecided and still fit the list
        step = min(self.step, max(4096, 500 * ROOM // max(1, queries)))
        step = min(step, max(32, (1 << 40) // max(1, queries)))  # and tiles can be numbered
        if self.resident is not None:
            for start in range(0, self.size, step):
                yield start, self.resident[start : start + step]
            return
        step = max(
            1, min(step // 3, STAGED // (self.factored.table.itemsize * self.factored.table.shape[1]))
        )
        starts = range(0, self.size, step)
        copier = _Copier(self.factored.table, step, self.device)
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
    """Copies blocks of a host table to a device, two in flight: one is used while the next one comes."""

    def __init__(self, table: NDArray[Any], step: int, device: torch.device) -> None:
        self.table, self.step, self.device, self.turn = table, step, device, 0
        if device.type == "cuda":
            kind = torch.as_tensor(np.empty(0, table.dtype)).dtype
            # page-locked, so that the device fetches while the host goes on; made once, as that is slow
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
    """Copy what torch will not take: it warns of read-only memory, and has no negative strides."""
    return values if values.flags.writeable and min(values.strides, default=0) >= 0 else np.array(values)


class Count:
    """The counts of some queries: launched at once, read once everything is launched."""

    def __init__(
        self, source: Source, device: Device, part: Part, start: int, stop: int, exact: bool
    ) -> None:
        """Launch."""
        self.source, self.device, self.part, self.exact = source, device, part, exact
        self.start, self.stop = start, stop
        self.kernels: Any = device.kernels if source.d <= WIDEST else None
        self.index = indexed(part, device.device, start, stop)
        if source.factored.check is not None:
            source.factored.check(self.index.host_queries)
        self.vectors = source.vectors(self.index)
        expected = (len(self.index), source.factored.table.shape[1])
        if self.vectors.shape != expected:
            raise InputError(
                "query vectors have the wrong shape",
                got=str(tuple(self.vectors.shape)),
                allowed=f"{expected}",
            )
        self.better, self.equal = (self._zeros(len(self.index.targets)) for _ in "be")
        self.undecided, self.lost, self.overflow = (self._zeros(1, torch.int64) for _ in "ulo")
        if part.lists is not None:
            self._count_lists(part.lists)
        elif self.kernels is not None:
            self._count_tiles()
        else:
            self._count_dense()
        del self.vectors  # room for what is launched next

    def _zeros(self, size: int, kind: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(size, dtype=kind, device=self.device.device)

    def _pairs(self, query: Tensor, row: Tensor) -> Tensor:
        """Score single pairs, by definition."""
        score = self.kernels.pairs if self.kernels is not None else pairs
        step = max(1, len(row) if self.source.resident is not None else self.source.step // 3)
        scores = [torch.zeros(0, dtype=torch.float64, device=self.device.device)]
        for at in range(0, len(row), step):
            rows, place = self.source.rows(row[at : at + step])
            some = query[at : at + step].contiguous()
            scores.append(score(self.source.form, self.vectors, rows, some, place))
        return scores[1] if len(scores) == 2 else torch.cat(scores)

    def _note_nan(self, scores: Tensor, query: Tensor, row: Tensor) -> None:
        """Remember a pair whose score is not a number."""
        code = (query.long() << 32) + row.long() + 1
        self.lost = torch.maximum(self.lost, torch.where(scores.isnan(), code, 0).amax(0, keepdim=True))

    def _goal(self) -> Tensor:
        index = self.index
        goal = self._pairs(index.query_of, index.targets)
        self._note_nan(goal, index.query_of, index.targets)
        return goal

    def _subtract(self, goal: Tensor, known: Tensor) -> None:
        """Take off what known answers contributed, and the target itself."""
        count = self.kernels.count_lists if self.kernels is not None else count_lists
        lists, index = self.index.known, self.index
        better, equal = count(known, lists.start, index.query_of, goal)
        self.better -= better
        self.equal -= equal + index.own

    def _count_tiles(self) -> None:
        """Count in tiles by Triton's kernels."""
        source, index, kernels = self.source, self.index, self.kernels
        form, d, counts = source.form, source.d, (self.better, self.equal)
        queries = kernels.Operand(form, self.vectors[index.row_query.long()], self.exact)
        if self.exact:
            goal, known = self._goal(), self._pairs(index.known.owner, index.known.value)
            listed = torch.empty(2 * ROOM, dtype=torch.int32, device=self.device.device)
            for start, rows in source.blocks(len(index.row_query)):
                operand = kernels.Operand(form, rows, True)
                full = self._zeros(kernels.SHARDS, torch.int64)
                bound = limits(form, self.vectors, rows, index.query_of, goal, d)
                kernels.count(
                    form, queries, operand, index, goal, bound, counts, listed, full, len(rows), d
                )
                kernels.settle(
                    form, self.vectors, rows, index, goal, counts, listed, full, self.lost, start, d
                )
                self.undecided += full.sum()
                self.overflow += full.max() > ROOM // kernels.SHARDS
        else:
            if source.resident is None:
                raise InputError(
                    "exact=False needs a table that fits the device", got=f"{source.size:,} rows"
                )
            operand, size = kernels.Operand(form, source.resident, False), source.size
            goal, known = (
                kernels.plain(form, queries, operand, lists, len(index.row_query), size, d)
                for lists in (index.asked, index.known)
            )
            self._note_nan(goal, index.query_of, index.targets)
            nans = self._zeros(kernels.SHARDS, torch.int64)
            kernels.count(form, queries, operand, index, goal, (), counts, nans, nans, size, d)
            self.overflow += nans.sum()  # NaN: counted again, exactly, which names it
        self._subtract(goal, known)

    def _count_dense(self) -> None:
        """Count by torch alone: float64 scores, and the definition where they are too close."""
        goal, index, form = self._goal(), self.index, self.source.form
        per_row = 1 if form == "dot" else self.vectors.shape[1]
        for start, rows in self.source.blocks(len(index)):
            for begin in range(0, len(rows), max(1, CELLS // rows.shape[1])):
                some = rows[begin : begin + max(1, CELLS // rows.shape[1])].double()
                self._compare_all(some, goal, start + begin, max(1, CELLS // (len(some) * per_row)))
        self._subtract(goal, self._pairs(index.known.owner, index.known.value))

    def _compare_all(self, wide: Tensor, goal: Tensor, start: int, step: int) -> None:
        """Compare some rows with all targets, `step` queries at a time."""
        index, form, sizes = self.index, self.source.form, _norms(wide)
        for at in range(0, len(index), step):
            block = self.vectors[at : at + step]
            if form == "dot":
                got = block @ wide.T
                slack = _norms(block)[:, None] * sizes * ((wide.shape[1] + 8) * 2.0**-52) + 1e-290
            else:
                got, slack = score(form, block[:, None], wide), torch.zeros_like(block[:, :1])
            begin, end = index.first[at], index.first[min(at + step, len(index))]
            self._compare(got, slack, goal, wide, start, at, int(begin), int(end))

    def _compare(
        self,
        got: Tensor,
        slack: Tensor,
        goal: Tensor,
        wide: Tensor,
        start: int,
        at: int,
        begin: int,
        end: int,
    ) -> None:
        several = max(1, CELLS // got.shape[1])
        for first in range(begin, end, several):
            targets = slice(first, min(first + several, end))
            query = self.index.query_of[targets].long()
            mine, room, aim = got[query - at], slack[query - at], goal[targets][:, None]
            over = mine > aim + room
            near = ~(over | (mine < aim - room)) | ~mine.isfinite()
            target, row = torch.nonzero(near, as_tuple=True)
            exact = pairs(self.source.form, self.vectors, wide, query[target], row)
            if len(exact):
                self._note_nan(exact, query[target], row + start)
            over[target, row] = exact > aim[target, 0]
            near[target, row] = exact == aim[target, 0]
            self.better[targets] += over.sum(1).int()
            self.equal[targets] += near.sum(1).int()
            self.undecided += len(target)

    def _count_lists(self, lists: Lists) -> None:
        """Count against lists of candidates, gathered; every pair is scored by definition."""
        goal, index = self._goal(), self.index
        count = self.kernels.count_lists if self.kernels is not None else count_lists
        group = self.part.group[self.start : self.stop]
        ends = np.cumsum(lists.lengths[group])
        cuts = [0, *(np.flatnonzero(np.diff(ends // LISTED)) + 1).tolist(), len(group)]
        for a, b in pairwise(cuts):
            mine = lists.select(group[a:b])
            owner, value = index.there(mine.owner + a), index.there(mine.values)
            scores = self._pairs(owner, value)
            self._note_nan(scores, owner, value)
            targets = slice(int(self.part.first[self.start + a]), int(self.part.first[self.start + b]))
            here = slice(targets.start - index.where.start, targets.stop - index.where.start)
            query_of = index.query_of[here] - a
            better, equal = count(scores, index.there(mine.first), query_of.contiguous(), goal[here])
            self.better[here], self.equal[here] = better, equal
        self._subtract(goal, self._pairs(index.known.owner, index.known.value))

    def result(self) -> tuple[Ints, Ints, int] | None:
        """Read the counts; None if there was no room for all that was undecided."""
        state = torch.cat([self.lost, self.overflow, self.undecided])
        counts = torch.stack([self.better, self.equal]).cpu().numpy().astype(np.int64)
        lost, overflow, undecided = state.tolist()
        if lost:
            query, candidate = divmod(lost - 1, 1 << 32)
            asked = self.part.queries[self.start + query].tolist()
            raise InputError(
                "a score is not a number",
                got=f"NaN for query {asked} and candidate {candidate}",
                do="mend the model; a NaN has no rank",
            )
        return None if overflow else (counts[0], counts[1], undecided)


def count_on_device(
    plan: list[tuple[Part, Factored]], device: Device, runner: Runner, exact: bool
) -> list[tuple[Ints, Ints, int]]:
    """Count all parts: first everything is launched, then everything is read."""
    with device:
        return _count_on(plan, device, runner, exact)


def _count_on(
    plan: list[tuple[Part, Factored]], device: Device, runner: Runner, exact: bool
) -> list[tuple[Ints, Ints, int]]:
    launched: list[list[Count]] = []
    for part, factored in plan:
        source = Source(factored, device)
        # float64 vectors, the same split or turned, and room to work them out; and no more tiles than
        # can be numbered
        step = device.free() // 8 // (40 * factored.table.shape[1])
        step = max(1, min(step, (1 << 40) // max(1, source.step)))
        starts = range(0, len(part.queries), step)
        launched.append(
            [Count(source, device, part, at, min(at + step, len(part.queries)), exact) for at in starts]
        )
    results = []
    for (part, _), counts in zip(plan, launched, strict=True):
        done = [piece for count in counts for piece in _settled(count)]
        results.append(
            (
                np.concatenate([better for better, _, _ in done]),
                np.concatenate([equal for _, equal, _ in done]),
                sum(undecided for _, _, undecided in done),
            )
        )
        runner.advance(part.scores)
    return results


def _settled(count: Count) -> Iterator[tuple[Ints, Ints, int]]:
    """Read a count; where the undecided did not fit the list, count half the queries at a time."""
    result = count.result()
    if result is not None:
        yield result
        return
    if not count.exact:  # there was a NaN
        yield from _settled(Count(count.source, count.device, count.part, count.start, count.stop, True))
        return
    if count.stop - count.start == 1:  # almost everything ties: score it all by definition
        everything = Lists(np.array([0, count.source.size]), np.arange(count.source.size))
        part = replace(count.part, lists=everything, group=np.zeros(len(count.part.queries), np.int64))
        yield from _settled(Count(count.source, count.device, part, count.start, count.stop, True))
        return
    half = (count.start + count.stop) // 2
    for start, stop in ((count.start, half), (half, count.stop)):
        yield from _settled(Count(count.source, count.device, count.part, start, stop, count.exact))


# The same with torch alone ------------------------------------------------------------------------


def fold(terms: Tensor) -> Tensor:
    """Add up the last axis by halves, as `_numpy.fold` does."""
    width = 1 << (terms.shape[-1] - 1).bit_length()
    while width > 1:
        width //= 2
        onto = terms.shape[-1] - width
        terms = torch.cat([terms[..., :onto] + terms[..., width:], terms[..., onto:width]], dim=-1)
    return terms[..., 0]


def score(form: Form, queries: Tensor, rows: Tensor) -> Tensor:
    """Score query vectors against rows (shapes broadcast), by definition."""
    if form == "dot":
        return fold(queries * rows)
    apart = queries - rows
    if form == "l1":
        return -fold(apart.abs())
    if form == "l2":
        return -fold(apart * apart)
    real, imaginary = apart.chunk(2, -1)
    return -fold((real * real + imaginary * imaginary).sqrt())


def pairs(form: Form, vectors: Tensor, table: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """Score single pairs, by definition."""
    step = max(1, CELLS // vectors.shape[1])
    parts = [
        score(form, vectors[query[at : at + step].long()], table[row[at : at + step].long()].double())
        for at in range(0, len(query), step)
    ]
    return torch.cat([torch.zeros(0, dtype=torch.float64, device=vectors.device), *parts])


def count_lists(scores: Tensor, start: Tensor, query_of: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
    """Count in lists of scores, one per query, what is better than and equal to each target's."""
    better, equal = (torch.zeros(len(goal), dtype=torch.int32, device=goal.device) for _ in "be")
    begin = start[query_of.long()].long()
    lengths = start[query_of.long() + 1].long() - begin
    ends = lengths.cumsum(0).cpu().numpy()
    cuts = [0, *(np.flatnonzero(np.diff(ends // CELLS)) + 1).tolist(), len(goal)]
    for a, b in pairwise(cuts):
        many = lengths[a:b]
        target = torch.repeat_interleave(torch.arange(a, b, device=goal.device), many)
        within = torch.arange(len(target), device=goal.device)
        within -= torch.repeat_interleave(many.cumsum(0) - many, many)
        mine, aim = scores[begin[target] + within], goal[target]
        better.index_add_(0, target, (mine > aim).int())
        equal.index_add_(0, target, (mine == aim).int())
    return better, equal
