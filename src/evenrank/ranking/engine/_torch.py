"""Ranking with torch: with the Triton kernels on NVIDIA's devices, with plain torch on any other.

Everything is launched before anything is read back, and read back at once. On small graphs launching
takes most of the time (ten microseconds a kernel, some of which run for two), so there are few kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from evenrank._internal.arrays import Floats, Ints, memory
from evenrank.errors import InputError, Option
from evenrank.ranking.engine._count import refuse_nan
from evenrank.ranking.engine._device import Device, Source, Tensor, indexed, vectors
from evenrank.ranking.engine._record import Recorder
from evenrank.ranking.engine.bounds import HUGE, SLACK, TINY, Form, U
from evenrank.ranking.engine.run import Runner, out_of_memory
from evenrank.ranking.scorer import Factored
from evenrank.ranks.lists import Lists
from evenrank.ranks.task import Part

LISTED = 1 << 25  # pairs of listed candidates scored at a time
WIDEST = 4096  # dimensions that a warp can fold; plain torch has no limit
CELLS = 1 << 24  # numbers that plain torch holds at once
FEW_ROWS = 4096  # rows of a table: a block need not be smaller


def limits(
    form: Form, queries: Tensor, rows: Tensor, query_of: Tensor, score: Tensor, d: int
) -> tuple[Tensor, Tensor]:
    """Bound the undecided scores of distances on ordinary cores, as `bounds.bounds`, in float32.

    Dimensions are summed one after the other: `a = d` additions. The errors of tensor cores are bounded
    in `_triton.sharpness`.
    """
    unit = U / (1 - d * U) * SLACK
    off = U * _lengths(queries) + TINY * d
    if rows.dtype != torch.float32:
        off = off + U * _lengths(rows).max() + TINY * d
    off = off[query_of] * SLACK
    relative = (d + {"l1": 1, "modulus": 5 + 2**11}[form]) * unit
    distance = -score
    lost = d * (2.0**-59 if form == "modulus" else TINY) * SLACK
    low = -((distance + off) / (1 - relative) * (1 + 2.0**-40) + lost)
    high = -((distance - off) * (1 - relative) / (1 + 2.0**-40) - lost)
    most = HUGE if form != "modulus" else 2.0**60
    large = queries.abs().amax(1)[query_of]
    fine = (large < most) & (distance < HUGE) & (rows.abs().max() < most)
    low, high = torch.where(fine, low, -torch.inf), torch.where(fine, high, torch.inf)
    margin = 2.0**-20
    return (
        (low - margin * low.abs() - 2.0**-120).float(),
        (high + margin * high.abs() + 2.0**-120).float(),
    )


def _norms(rows: Tensor) -> Tensor:
    sizes = torch.linalg.vector_norm(rows, dim=1)
    most = torch.linalg.vector_norm(rows, torch.inf, dim=1) * rows.shape[1] ** 0.5
    return torch.where(sizes > 1e-140, sizes, most)  # squares may have vanished


def _lengths(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, 1, dim=1, dtype=torch.float64)


class Count:
    """The counts of some queries: launched by the constructor, read by `result`."""

    def __init__(
        self,
        factored: Factored,
        source: Source,
        device: Device,
        part: Part,
        start: int,
        stop: int,
        exact: bool,
    ) -> None:
        self.factored, self.source, self.device, self.part = factored, source, device, part
        self.exact = exact or factored.form != "dot"  # certifying distances takes no more time
        self.start, self.stop = start, stop
        self.kernels: Any = device.kernels if source.d <= WIDEST else None
        self.index = indexed(part, device.device, start, stop)
        if factored.check is not None:
            factored.check(self.index.extremes)
        self.vectors = vectors(factored, self.index, device.device)
        self.starts = source.starts(len(self.index.row_query))
        self._allocate(len(self.index.targets))
        if part.lists is not None:
            self._count_lists(part.lists)
        elif self.kernels is not None:
            self._count_tiles()
        else:
            self._count_dense()
        self.equal -= self.index.own  # a target does not compete with itself
        del self.vectors  # frees memory for the next launches
        self._send()

    def _allocate(self, targets: int) -> None:
        """Allocate all counts as one piece of memory, to be zeroed and read at once."""
        shards = self.kernels.SHARDS if self.kernels is not None else 1
        lists = len(self.starts) * shards
        size = 2 * targets + 2 * (1 + lists)
        self.memory = torch.zeros(size, dtype=torch.int32, device=self.device.device)
        self.better, self.equal, wide = self.memory.split([targets, targets, 2 * (1 + lists)])
        self.counts = self.better, self.equal
        # a pair whose score is NaN, and the lengths of the lists of undecided pairs
        self.lost, full = wide.view(torch.int64).split([1, lists])
        self.full = full.view(-1, shards)

    def _pairs(self, query: Tensor, row: Tensor) -> Tensor:
        """Score single pairs by definition."""
        score = self.kernels.pairs if self.kernels is not None else pairs
        step = max(1, len(row) if self.source.resident is not None else self.source.step // 3)
        scores = [torch.zeros(0, dtype=torch.float64, device=self.device.device)]
        for at in range(0, len(row), step):
            rows, place = self.source.rows(row[at : at + step])
            some = query[at : at + step].contiguous()
            scores.append(score(self.source.form, self.vectors, rows, some, place))
        return scores[1] if len(scores) == 2 else torch.cat(scores)

    def _note_nan(self, scores: Tensor, query: Tensor, row: Tensor) -> None:
        """Record a pair whose score is NaN."""
        if not len(scores):
            return
        code = (query.long() << 32) + row.long() + 1
        found = torch.where(scores.isnan(), code, 0).amax(0, keepdim=True)
        torch.maximum(self.lost, found, out=self.lost)

    def _given_goal(self) -> Tensor | None:
        """Return the target scores, if the part has them."""
        goal = self.part.goal
        return None if goal is None else self.index.there(goal[self.index.where], torch.float64)

    def _goal(self) -> Tensor:
        index, goal = self.index, self._given_goal()
        if goal is None:
            goal = self._pairs(index.query_of, index.targets)
            self._note_nan(goal, index.query_of, index.targets)
        return goal

    def _subtract(self, goal: Tensor, known: Tensor) -> None:
        """Subtract what the known true answers contributed."""
        count = self.kernels.count_lists if self.kernels is not None else count_lists
        count(known, self.index.known.start, self.index.query_of, goal, self.counts, -1)

    def _count_tiles(self) -> None:
        """Count in tiles by the Triton kernels."""
        source, index, kernels, form = self.source, self.index, self.kernels, self.source.form
        queries = kernels.Operand(form, self.vectors, self.exact, index.row_query, source.middle)
        if self.exact:
            square = queries.square if queries.kind == "split" else None
            given = self._given_goal()
            rows, place = (None, None) if given is not None else source.rows(index.targets)
            goal, bound = kernels.goals(form, self.vectors, rows, place, index, square, self.lost, given)
            self._count_blocks(queries, goal, bound)
            known = self._pairs(index.known.owner, index.known.value)
        else:
            if source.resident is None:
                raise InputError(
                    "uncertified scores need a table that fits the device",
                    got=f"{source.size:,} rows",
                    do=["certify the scores: ", Option("exact", True)],
                )
            operand, rows = source.operand(kernels, source.resident, False), len(index.row_query)
            goal, known = (
                kernels.plain(queries, operand, lists, rows, source.d)
                for lists in (index.asked, index.known)
            )
            self._note_nan(goal, index.query_of, index.targets)
            nans = self.full[0]
            kernels.count(
                form, queries, operand, index, goal, (), self.counts, nans, nans, source.size, source.d
            )
        self._subtract(goal, known)

    def _count_blocks(self, queries: Any, goal: Tensor, bound: tuple[Tensor, Tensor]) -> None:
        """Count block by block, and settle the undecided pairs."""
        source, index, kernels, form = self.source, self.index, self.kernels, self.source.form
        listed = torch.empty(2 * source.room, dtype=torch.int32, device=self.device.device)
        for full, (start, rows) in zip(self.full, source.blocks(self.starts), strict=True):
            operand = source.operand(kernels, rows, True)
            if operand.kind != "split":
                bound = limits(form, self.vectors, rows, index.query_of, goal, source.d)
            kernels.count(
                form,
                queries,
                operand,
                index,
                goal,
                bound,
                self.counts,
                listed,
                full,
                len(rows),
                source.d,
            )
            kernels.settle(
                *(form, self.vectors, rows, index, goal, self.counts, listed, full),
                *(self.lost, start, source.d),
            )

    def _count_dense(self) -> None:
        """Count with plain torch: by float64 scores, and by definition where these are too close."""
        goal, index, form = self._goal(), self.index, self.source.form
        per_row = self.vectors.shape[1] if form == "modulus" else 1
        for start, rows in self.source.blocks(self.starts):
            for begin in range(0, len(rows), max(1, CELLS // rows.shape[1])):
                some = rows[begin : begin + max(1, CELLS // rows.shape[1])].double()
                self._compare_all(some, goal, start + begin, max(1, CELLS // (len(some) * per_row)))
        self._subtract(goal, self._pairs(index.known.owner, index.known.value))

    def _compare_all(self, wide: Tensor, goal: Tensor, start: int, step: int) -> None:
        """Compare some rows with all targets, `step` queries at a time."""
        index, form, sizes = self.index, self.source.form, _norms(wide)
        for at in range(0, len(index), step):
            block = self.vectors[at : at + step]
            got, terms = _about(form, block, wide, _norms(block)[:, None], sizes)
            slack = terms * ((wide.shape[1] + 8) * 2.0**-52) + 1e-290
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
            self.full[0] += len(target)

    def _count_lists(self, lists: Lists) -> None:
        """Count against lists of candidates; every pair is scored by definition."""
        self.goal = goal = self._goal()
        index = self.index
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
            counts = self.better[here], self.equal[here]
            count(scores, index.there(mine.first), query_of.contiguous(), goal[here], counts, 1)
        self._subtract(goal, self._pairs(index.known.owner, index.known.value))

    def _send(self) -> None:
        """Start to copy the counts to the host."""
        self.arrived: Any = None
        if self.device.device.type != "cuda":
            self.there = self.memory.cpu()
            return
        self.there = torch.empty_like(self.memory, device="cpu", pin_memory=True)
        self.there.copy_(self.memory, non_blocking=True)
        self.sent()

    def sent(self) -> None:
        """Record the event of the finished copy."""
        self.arrived = torch.cuda.current_stream(self.device.device).record_event()

    def again(self, part: Part, start: int, stop: int) -> Count:
        """Count some queries again, with certified comparisons."""
        return Count(self.factored, self.source, self.device, part, start, stop, True)

    def result(self) -> tuple[Ints, Ints, int] | None:
        """Return the counts, or None if the list had no room for all undecided pairs."""
        if self.arrived is not None:
            self.arrived.synchronize()
        memory, n = self.there.numpy(), len(self.better)
        lost, *full = memory[2 * n :].view(np.int64).tolist()
        if lost:
            query, candidate = divmod(lost - 1, 1 << 32)
            refuse_nan(self.part, self.start + query, candidate)
        if self.kernels is not None and max(full) > (
            self.source.room // self.kernels.SHARDS if self.exact else 0
        ):
            return None  # or, for plain scores, there was a NaN
        return memory[:n].astype(np.int64), memory[n : 2 * n].astype(np.int64), sum(full)


def count_on_device(
    plan: list[tuple[Part, Factored]], device: Device, runner: Runner, exact: bool
) -> Iterator[tuple[Ints, Ints, int]]:
    """Launch the counting of all parts, then read the counts, part by part."""
    sources: dict[Any, Source] = {}
    with device, Recorder(plan, device, exact) as recorder:
        launched = recorder.launch(lambda part, f: list(_launched(part, f, sources, device, exact)))
        for (part, _), counts in zip(plan, launched, strict=True):
            done = [piece for count in counts for piece in _settled(count)]
            runner.advance(part.scores)
            better, equal, undecided = zip(*done, strict=True)
            yield np.concatenate(better), np.concatenate(equal), sum(undecided)


def goals_on_device(factored: Factored, part: Part, device: Device) -> Floats:
    """Compute the target scores of a part by definition: count among no candidates."""
    queries, nothing = len(part.queries), np.zeros(0, np.int64)
    alone = replace(
        part,
        known=Lists(np.zeros(queries + 1, np.int64), nothing),
        lists=Lists(np.zeros(2, np.int64), nothing),
        group=np.zeros(queries, np.int64),
        own=np.zeros(len(part.targets), dtype=bool),
    )
    with device:
        counts = list(_launched(alone, factored, {}, device, True))
        return np.concatenate([count.goal.cpu().numpy() for count in counts])


def _launched(
    part: Part, factored: Factored, sources: dict[Any, Source], device: Device, exact: bool
) -> Iterator[Count]:
    """Count a part, as many queries at a time as fit."""
    same = memory(factored.table)  # both sides have the same table in most models
    if same not in sources:
        sources[same] = Source(factored.form, factored.table, device)
    source, length = sources[same], len(part.queries)
    # float64 vectors, the same split or transposed, and working memory; and no more tiles than can be
    # numbered
    step = device.free() // 8 // (40 * factored.table.shape[1])
    step = max(1, min(step, (1 << 40) // max(1, source.step), length))
    at = 0
    while at < length:
        stop = min(at + step, length)
        try:
            count = Count(factored, source, device, part, at, stop, exact)
        except Exception as error:
            if not out_of_memory(error):
                raise
            step = _smaller(step, source, error)
            continue
        yield count
        at = stop


def _smaller(step: int, source: Source, error: Exception) -> int:
    """Continue with half the queries and half the rows; raise an error if that would be too few."""
    if step == 1 and source.step <= FEW_ROWS:
        raise InputError(
            "out of memory on the device, even in small pieces",
            got=(str(error).splitlines() or [type(error).__name__])[0],
            do=["free some of it, or rank on the CPU: ", Option("device", "cpu")],
        ) from error
    source.step = max(min(FEW_ROWS, source.step), source.step // 2)
    source.forget()
    return max(1, step // 2)


def _settled(count: Count) -> Iterator[tuple[Ints, Ints, int]]:
    """Read counts; if the list had no room for all undecided pairs, count half the queries at a time."""
    result = count.result()
    if result is not None:
        yield result
    elif not count.exact:  # there was a NaN
        yield from _settled(count.again(count.part, count.start, count.stop))
    elif count.stop - count.start == 1:  # almost all scores tie: score all candidates by definition
        everything = Lists(np.array([0, count.source.size]), np.arange(count.source.size))
        part = replace(count.part, lists=everything, group=np.zeros(len(count.part.queries), np.int64))
        yield from _settled(count.again(part, count.start, count.stop))
    else:
        half = (count.start + count.stop) // 2
        yield from _settled(count.again(count.part, count.start, half))
        yield from _settled(count.again(count.part, half, count.stop))


# Plain torch --------------------------------------------------------------------------------------


def fold(terms: Tensor) -> Tensor:
    """Sum the last axis by halves, as `numpy_kernels.fold` does."""
    width = 1 << (terms.shape[-1] - 1).bit_length()
    while width > 1:
        width //= 2
        onto = terms.shape[-1] - width
        terms = torch.cat([terms[..., :onto] + terms[..., width:], terms[..., onto:width]], dim=-1)
    return terms[..., 0]


def score(form: Form, queries: Tensor, rows: Tensor) -> Tensor:
    """Score query vectors against rows (shapes broadcast) by definition."""
    if form == "dot":
        return fold(queries * rows)
    apart = queries - rows
    if form == "l1":
        return -fold(apart.abs())
    if form == "l2":
        return -fold(apart * apart)
    real, imaginary = apart.chunk(2, -1)
    return -fold(_root(real * real + imaginary * imaginary))


def _about(
    form: Form, queries: Tensor, rows: Tensor, lengths: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor]:
    """Score queries against rows in any order of operations; also return the size of the summed terms.

    This size and the number of operations bound the error. `lengths` and `sizes` are the norms of the
    queries and of the rows.
    """
    if form == "modulus":  # torch has no operation for it that does not store every dimension
        return score(form, queries[:, None], rows), torch.zeros_like(lengths)
    if form == "l1":
        apart = torch.cdist(queries, rows, p=1.0)
        return -apart, apart
    product = queries @ rows.T
    if form == "dot":
        return product, lengths * sizes
    squares = (queries * queries).sum(1, keepdim=True) + (rows * rows).sum(1)
    return 2 * product - squares, (lengths + sizes) ** 2


def _root(squares: Tensor) -> Tensor:
    """Compute correctly rounded roots: on CPUs, one in sixty of torch's own is off by a bit."""
    if squares.device.type != "cpu":
        return squares.sqrt()
    return torch.from_numpy(np.sqrt(squares.numpy()))


def pairs(form: Form, vectors: Tensor, table: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """Score single pairs by definition."""
    step = max(1, CELLS // vectors.shape[1])
    parts = [
        score(form, vectors[query[at : at + step].long()], table[row[at : at + step].long()].double())
        for at in range(0, len(query), step)
    ]
    return torch.cat([torch.zeros(0, dtype=torch.float64, device=vectors.device), *parts])


def count_lists(
    scores: Tensor,
    start: Tensor,
    query_of: Tensor,
    goal: Tensor,
    counts: tuple[Tensor, Tensor],
    sign: int,
) -> None:
    """Count in lists of scores, one per query, which are better than and equal to each target score."""
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
        counts[0].index_add_(0, target, sign * (mine > aim).int())
        counts[1].index_add_(0, target, sign * (mine == aim).int())
