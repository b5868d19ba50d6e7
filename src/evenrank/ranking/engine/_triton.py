"""Kernels for NVIDIA's GPUs: score a tile and count it in registers; settle the undecided in float64.

The plan is that of `_kernels.c`. Inner products run on tensor cores: each number is the sum of two of
bfloat16, `x = h + l`, and three of their products are added, `h h + h l + l h`. Euclidean distances run
there too, as `q e - |e|^2 / 2`, with both vectors relative to the middle of the table. Other distances
run on the ordinary cores, one dimension at a time. A candidate whose score differs from the target score
by more than the bound (`sharpness`, `_torch.limits`) is counted; the others are written to a list, and
the next kernel scores them by definition: float64, summed by halves, no product fused into a sum, the
bits of the CPU.

Queries are sorted by their number of targets, so that the rows of a tile need about the same number of
comparisons. Each distinct query is scored once. Loops whose length is known only on the device are
`while` loops, which Triton's interpreter (TRITON_INTERPRET=1, which tests use without a GPU) can run.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from evenrank.ranking.engine.bounds import FORMS, HUGE, SLACK, TINY, Form, U
from evenrank.ranking.engine.vectors import RULES, Rule

Tensor: TypeAlias = Any  # of torch, which is not installed where types are checked

# rows and columns of a tile, dimensions at a time, and its schedule: measured on an H200
TILES: dict[str, dict[str, int]] = {
    "split": {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 3},
    "plain": {"ROWS": 128, "COLUMNS": 256, "DEPTH": 32, "num_warps": 8, "num_stages": 3},
    "l1": {"ROWS": 32, "COLUMNS": 64, "DEPTH": 4, "num_warps": 1, "num_stages": 1, "maxnreg": 128},
    "modulus": {"ROWS": 32, "COLUMNS": 32, "DEPTH": 4, "num_warps": 1, "num_stages": 1, "maxnreg": 96},
}
SHARDS = 128  # parts of the list of undecided pairs
PAIRS = 512  # numbers that a warp folds at a time
GROUP = 8  # tiles with the same columns that run at the same time


# fmt: off
@triton.jit
def _bfloat16(x):
    # round float32 to bfloat16 and leave it in float32; bit by bit, as the interpreter has no bfloat16
    bits = x.to(tl.int32, bitcast=True)
    return ((bits + 32767 + ((bits >> 16) & 1)) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def _combine(left, i, right, j, out, wide_left, wide_i, wide_right, wide_j, RULE: tl.constexpr,
             D: tl.constexpr, BLOCK: tl.constexpr):
    # `vectors.combined`, row by row; to be compiled without fusing
    row = tl.program_id(0).to(tl.int64)
    left += tl.load(i + row * wide_i).to(tl.int64) * wide_left
    right += tl.load(j + row * wide_j).to(tl.int64) * wide_right
    k = tl.arange(0, BLOCK)
    real = k < D
    a = tl.load(left + k, mask=real, other=0.0).to(tl.float64)
    c = tl.load(right + k, mask=real, other=0.0).to(tl.float64)
    if RULE < 3:
        x = a + c if RULE == 0 else a - c if RULE == 1 else a * c
        tl.store(out + row * D + k, x, mask=real)
    else:
        b = tl.load(left + D + k, mask=real, other=0.0).to(tl.float64)
        d = tl.load(right + D + k, mask=real, other=0.0).to(tl.float64)
        x = a * c - b * d if RULE == 3 else a * c + b * d
        y = a * d + b * c if RULE == 3 else b * c - a * d
        tl.store(out + row * 2 * D + k, x, mask=real)
        tl.store(out + row * 2 * D + D + k, y, mask=real)


@triton.jit
def _split(rows, pick, middle, high, low, size, square, first, second, least, most, PICK: tl.constexpr,
           MOVE: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
           DEPTH: tl.constexpr):
    # a row in two parts of bfloat16, its squared length, and its length as the bound weighs it
    row = tl.program_id(0).to(tl.int64)
    source = tl.load(pick + row).to(tl.int64) if PICK else row
    k = tl.arange(0, BLOCK)
    x = tl.load(rows + source * D + k, mask=k < D, other=0.0).to(tl.float64)
    if MOVE:
        x -= tl.load(middle + k, mask=k < D, other=0.0)
    part = _bfloat16(x.to(tl.float32))
    tl.store(high + row * WIDTH + k, part.to(high.dtype.element_ty), mask=k < WIDTH)
    part = _bfloat16((x - part.to(tl.float64)).to(tl.float32))
    tl.store(low + row * WIDTH + k, part.to(low.dtype.element_ty), mask=k < WIDTH)
    steps: tl.constexpr = (D + DEPTH - 1) // DEPTH
    whole = tl.sum(x * x, axis=0)
    weighed = tl.sum(x * x * (first + second * (steps - k // DEPTH).to(tl.float64) / steps), axis=0)
    # if the squares underflow, the largest entry bounds the length
    largest = tl.max(tl.abs(x), axis=0)
    length = tl.where(whole > 1e-280, tl.sqrt(weighed), largest * tl.sqrt((first + second) * D))
    fine = tl.where(whole > 1e-280, tl.sqrt(whole), largest) < most
    tl.store(size + row, tl.where(fine, length * 1.000001 + least, float("inf")).to(tl.float32))
    tl.store(square + row, whole)


@triton.jit
def _tile(a, b, al, bl, row, column, n, m, FORM: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
          COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    # scores of rows of a against rows of b; for distances these are transposed, a row per dimension, and
    # for moduli there is a second part, imaginary
    acc = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    if FORM == 0:
        k = tl.arange(0, DEPTH)
        at = row.to(tl.int64)[:, None] * D + k[None, :]
        bt = column.to(tl.int64)[None, :] * D + k[:, None]
        for start in range(0, D, DEPTH):
            if D % DEPTH == 0:
                x = tl.load(a + at + start)
                y = tl.load(b + bt + start)
            else:
                x = tl.load(a + at + start, mask=(start + k < D)[None, :], other=0.0)
                y = tl.load(b + bt + start, mask=(start + k < D)[:, None], other=0.0)
            acc = tl.dot(x, y, acc, input_precision="tf32")
    else:
        pa = a + row[:, None]
        pb = b + column[None, :]
        if FORM == 3:
            ra = al + row[:, None]
            rb = bl + column[None, :]
        for start in range(0, D, DEPTH):
            for j in tl.static_range(DEPTH):
                if D % DEPTH == 0:
                    u = tl.load(pa) - tl.load(pb)
                else:
                    u = tl.load(pa, mask=start + j < D, other=0.0)
                    u -= tl.load(pb, mask=start + j < D, other=0.0)
                if FORM == 1:
                    acc -= tl.abs(u)
                else:
                    if D % DEPTH == 0:
                        v = tl.load(ra) - tl.load(rb)
                    else:
                        v = tl.load(ra, mask=start + j < D, other=0.0)
                        v -= tl.load(rb, mask=start + j < D, other=0.0)
                    s = u * u + (v * v + 1e-36)  # never 0
                    acc -= s * tl.rsqrt(s)  # cheaper than a root
                    ra += n
                    rb += m
                pa += n  # step by step: 32 bits would not hold the distance from the start
                pb += m
    return acc


@triton.jit
def _split_tile(a, b, al, bl, row, column, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                DEPTH: tl.constexpr):
    # the same for numbers split in two; the copy engine loads tiles, with zeros beyond the edges
    acc = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, D, DEPTH):
        x = a.load([row, start])
        y = b.load([column, start]).T
        acc = tl.dot(al.load([row, start]), y, acc)
        acc = tl.dot(x, bl.load([column, start]).T, acc)
        acc = tl.dot(x, y, acc)
    return acc


@triton.jit
def _count(a, b, al, bl, row_first, row_end, goal, low, high, length, weight, square, better, equal,
           listed, full, n, m, wide_n, wide_m, room, FORM: tl.constexpr, SPLIT: tl.constexpr,
           EXACT: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
           DEPTH: tl.constexpr, GROUP: tl.constexpr, SHARDS: tl.constexpr):
    program = tl.program_id(0)
    wide = GROUP * ((m + COLUMNS - 1) // COLUMNS)
    start = program // wide * GROUP
    size = tl.minimum((n + ROWS - 1) // ROWS - start, GROUP)
    row = (start + program % wide % size) * ROWS
    left = program % wide // size * COLUMNS
    place = row + tl.arange(0, ROWS)
    column = left + tl.arange(0, COLUMNS)
    rows = place < n
    columns = column < m
    if SPLIT:
        acc = _split_tile(a, b, al, bl, row, left, D, ROWS, COLUMNS, DEPTH)
    elif FORM == 0:
        acc = _tile(a, b, al, bl, tl.where(rows, place, 0), tl.where(columns, column, 0), wide_n, wide_m,
                    FORM, D, ROWS, COLUMNS, DEPTH)
    else:  # transposed, and padded with zeros to whole tiles
        acc = _tile(a, b, al, bl, place, column, wide_n, wide_m, FORM, D, ROWS, COLUMNS, DEPTH)
    acc = tl.where(columns[None, :], acc, -float("inf"))
    target = tl.load(row_first + place, mask=rows, other=0)
    end = tl.load(row_end + place, mask=rows, other=0)
    most = tl.max(end - target, axis=0)
    if EXACT:
        more = tl.zeros((ROWS,), dtype=tl.float32)
        if SPLIT:
            more = tl.load(length + place, mask=rows, other=0.0)
            more = more * tl.max(tl.load(weight + column, mask=columns, other=0.0), axis=0)
            if FORM == 2:
                half = (tl.load(square + column, mask=columns, other=0.0) * 0.5).to(tl.float32)
                acc -= half[None, :]
                more += tl.max(half, axis=0) * 1.4e-7  # 2.3 units, for half and for subtracting it
        shard = program % SHARDS  # the list has parts, so that not all programs wait for one counter
    while most > 0:
        real = target < end
        if EXACT:
            top = tl.load(high + target, mask=real, other=0.0) + more
            bottom = tl.load(low + target, mask=real, other=0.0) - more
            sure = (more < 1e30) & (bottom > -float("inf"))  # otherwise float32 could overflow
            top = tl.where(sure, top, float("inf"))
            bottom = tl.where(sure, bottom, -float("inf"))
            found = tl.sum((acc > top[:, None]).to(tl.int32), axis=1)
            # undecided: neither above nor below, or NaN; their number and the sum of their columns
            open_ = ((acc > top[:, None]) == (acc < bottom[:, None])) & columns[None, :]
            packed = tl.sum(tl.where(open_, 65536 + column[None, :] - left, 0), axis=1)
            count = tl.where(real, packed >> 16, 0)
            if tl.max(count, axis=0) > 0:
                counter = full + shard + tl.zeros((ROWS,), dtype=tl.int32)
                spot = tl.atomic_add(counter, count.to(tl.int64), mask=count > 0, sem="relaxed")
                # most rows have at most one, whose column is that sum
                at = (shard.to(tl.int64) * room + spot) * 2
                tl.store(listed + at, target, mask=(count == 1) & (spot < room))
                tl.store(listed + at + 1, left + (packed & 65535), mask=(count == 1) & (spot < room))
                remaining = tl.max(tl.where(count > 1, count, 0), axis=0)
                last = tl.full((ROWS,), -1, dtype=tl.int32)
                while remaining > 0:
                    there = ((acc > top[:, None]) == (acc < bottom[:, None])) & columns[None, :]
                    there = there & (column > last[:, None])
                    last = tl.min(tl.where(there, column[None, :], 2147483647), axis=1)
                    keep = (count > 1) & (last < 2147483647) & (spot < room)
                    at = (shard.to(tl.int64) * room + spot) * 2
                    tl.store(listed + at, target, mask=keep)
                    tl.store(listed + at + 1, last, mask=keep)
                    spot += 1
                    remaining -= 1
        else:
            mine = tl.load(goal + target, mask=real, other=0.0)[:, None]
            nans = tl.sum((acc != acc).to(tl.int32), axis=1)
            tl.atomic_add(full + tl.zeros((ROWS,), dtype=tl.int32), nans.to(tl.int64),
                          mask=real & (nans > 0), sem="relaxed")
            same = tl.sum((columns[None, :] & (acc == mine)).to(tl.int32), axis=1)
            tl.atomic_add(equal + target, same, mask=real & (same > 0), sem="relaxed")
            found = tl.sum((columns[None, :] & (acc > mine)).to(tl.int32), axis=1)
        tl.atomic_add(better + target, found, mask=real & (found > 0), sem="relaxed")
        target += 1
        most -= 1


@triton.jit
def _listed(a, b, al, bl, block, starts, owner, value, out, n, wide_n, wide_m,
            D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    # inner products of listed pairs, with the same bits as in the tiles of `_count`
    place = tl.load(block + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)
    entry = tl.load(starts + tl.program_id(0)) + tl.arange(0, COLUMNS)
    columns = entry < tl.load(starts + tl.program_id(0) + 1)
    column = tl.load(value + entry, mask=columns, other=0)
    row = tl.where(place < n, place, 0)
    acc = _tile(a, b, al, bl, row, column, wide_n, wide_m, 0, D, ROWS, COLUMNS, DEPTH)
    hit = tl.load(owner + entry, mask=columns, other=-1)[None, :] == place[:, None]
    tl.store(out + entry, tl.sum(tl.where(hit, acc, 0.0), axis=0), mask=columns)


@triton.jit
def _plus(x, y):
    return x + y


@triton.jit
def _exact(q, e, query, row, real, FORM: tl.constexpr, D: tl.constexpr, BATCH: tl.constexpr,
           LOG: tl.constexpr):
    # the definition; to be compiled without fusing
    k = tl.arange(0, 1 << LOG)
    mask = real[:, None] & (k < D)[None, :]
    length = 2 * D if FORM == 3 else D
    pq = q + query.to(tl.int64)[:, None] * length + k[None, :]
    pe = e + row.to(tl.int64)[:, None] * length + k[None, :]
    x = tl.load(pq, mask=mask, other=0.0)
    y = tl.load(pe, mask=mask, other=0.0).to(tl.float64)
    if FORM == 0:
        x = x * y
    elif FORM == 1:
        x = tl.abs(x - y)
    elif FORM == 2:
        x = (x - y) * (x - y)
    else:
        u = x - y
        v = tl.load(pq + D, mask=mask, other=0.0)
        v -= tl.load(pe + D, mask=mask, other=0.0).to(tl.float64)
        x = tl.sqrt(u * u + v * v)
    for level in tl.static_range(LOG):
        x = tl.reduce(tl.reshape(x, (BATCH, 2, 1 << (LOG - 1 - level))), 1, _plus)
    x = tl.reshape(x, (BATCH,))
    if FORM > 0:
        x = -x
    return x


@triton.jit
def _pairs(q, e, query, row, out, count, FORM: tl.constexpr, D: tl.constexpr, BATCH: tl.constexpr,
           LOG: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BATCH
    while at < count:
        i = at + tl.arange(0, BATCH)
        real = i < count
        one, other = tl.load(query + i, mask=real, other=0), tl.load(row + i, mask=real, other=0)
        x = _exact(q, e, one, other, real, FORM, D, BATCH, LOG)
        tl.store(out + i, x, mask=real)
        at += tl.num_programs(0) * BATCH


@triton.jit
def _goals(q, e, query_of, place, target, row_of, square, goal, low, high, lost, count, least, root,
           FORM: tl.constexpr, GIVEN: tl.constexpr, SPLIT: tl.constexpr, D: tl.constexpr,
           BATCH: tl.constexpr, LOG: tl.constexpr):
    # the target scores and, for tensor cores, the bounds between which nothing is decided
    at = tl.program_id(0).to(tl.int64) * BATCH
    while at < count:
        i = at + tl.arange(0, BATCH)
        real = i < count
        query = tl.load(query_of + i, mask=real, other=0)
        if GIVEN:
            x = tl.load(goal + i, mask=real, other=0.0)
        else:
            x = _exact(q, e, query, tl.load(place + i, mask=real, other=0), real, FORM, D, BATCH, LOG)
            tl.store(goal + i, x, mask=real)
            _note_nan(lost, x, query, tl.load(target + i, mask=real, other=0), real, BATCH)
        if SPLIT:
            whole = tl.load(square + tl.load(row_of + query, mask=real, other=0), mask=real, other=0.0)
            beside = least * (root * tl.sqrt(whole) + 2 * D)  # underflow
            if FORM == 2:
                beside += (whole + tl.abs(x)) * 1e-12  # rounding in the next line
                x = (x + whole) * 0.5
            beside += tl.abs(x) * 9.5e-7 + 1e-36  # rounding to float32
            tl.store(low + i, (x - beside).to(tl.float32), mask=real)
            tl.store(high + i, (x + beside).to(tl.float32), mask=real)
        at += tl.num_programs(0) * BATCH


@triton.jit
def _note_nan(lost, x, query, row, real, BATCH: tl.constexpr):
    pair = query.to(tl.int64) * (1 << 32) + row + 1
    nan = real & (x != x)
    tl.atomic_max(lost + tl.zeros((BATCH,), dtype=tl.int32), pair, mask=nan, sem="relaxed")


@triton.jit
def _settle(q, e, listed, full, room, query_of, goal, better, equal, lost, offset, FORM: tl.constexpr,
            D: tl.constexpr, BATCH: tl.constexpr, LOG: tl.constexpr,
            SHARDS: tl.constexpr):
    shard = tl.program_id(0) % SHARDS
    count = tl.minimum(tl.load(full + shard), room)
    at = (tl.program_id(0) // SHARDS).to(tl.int64) * BATCH
    while at < count:
        i = at + tl.arange(0, BATCH)
        real = i < count
        i += shard.to(tl.int64) * room
        target = tl.load(listed + 2 * i, mask=real, other=0)
        row = tl.load(listed + 2 * i + 1, mask=real, other=0)
        query = tl.load(query_of + target, mask=real, other=0)
        x = _exact(q, e, query, row, real, FORM, D, BATCH, LOG)
        mine = tl.load(goal + target, mask=real, other=0.0)
        tl.atomic_add(better + target, 1, mask=real & (x > mine), sem="relaxed")
        tl.atomic_add(equal + target, 1, mask=real & (x == mine), sem="relaxed")
        _note_nan(lost, x, query, row + offset, real, BATCH)
        at += tl.num_programs(0) // SHARDS * BATCH


@triton.jit
def _lists(scores, start, query_of, goal, better, equal, SIGN: tl.constexpr, BLOCK: tl.constexpr):
    target = tl.program_id(0).to(tl.int64)
    query = tl.load(query_of + target)
    mine = tl.load(goal + target)
    at = tl.load(start + query)
    end = tl.load(start + query + 1)
    over = tl.zeros((BLOCK,), dtype=tl.int32)
    same = tl.zeros((BLOCK,), dtype=tl.int32)
    while at < end:
        i = at + tl.arange(0, BLOCK)
        x = tl.load(scores + i, mask=i < end, other=0.0)
        over += ((i < end) & (x > mine)).to(tl.int32)
        same += ((i < end) & (x == mine)).to(tl.int32)
        at += BLOCK
    tl.store(better + target, tl.load(better + target) + SIGN * tl.sum(over, axis=0))
    tl.store(equal + target, tl.load(equal + target) + SIGN * tl.sum(same, axis=0))
# fmt: on


# Launching ----------------------------------------------------------------------------------------


@cache
def sharpness(form: Form, d: int, device: torch.device) -> tuple[float, float]:
    """Bound the error of split inner products relative to `|q| |e|`: the constant and the growing part.

    Numbers are split in two, `x = h + l + r` with `|r| <= 2^-18 |x|`, and `l l` is omitted: `3 2^-18`.
    Subtracting `|e|^2 / 2` for Euclidean distances rounds once more. Tensor cores multiply exactly,
    align some products and the partial sum to the largest of them, and truncate what lies some bits
    below its last place (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor cores"). From Hopper
    on, these are 16 products and two bits: `17 2^-25`, and `2^-23` for the result. Before Hopper, twice
    8 products and one bit: `2 (9 2^-24 + 2^-23)`. All of that is relative to the absolute partial sum.

    That sum is at most `|q_1..j| |e_1..j|` after j dimensions. By Cauchy and Schwarz, the error of all
    steps together is at most a product of two lengths, in which a dimension is weighted by the number of
    steps that it takes part in; with the constant part, by the sum of both. `_split` computes these
    lengths.
    """
    hopper = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9
    cut = 2.0**-20.3 if hopper else 2.0**-19.5
    constant = 3.1 * 2.0**-18 + (1.1 * U if form == "l2" else 0)
    return constant * SLACK, 3 * -(-d // 16) * cut * SLACK


class Operand:
    """Rows of float32 or float64, converted for the tiles: split for tensor cores, or transposed.

    All rows, or those that are picked; split ones are taken relative to the middle of the table.
    """

    def __init__(
        self,
        form: Form,
        rows: Tensor,
        exact: bool,
        pick: Tensor | None = None,
        middle: Tensor | None = None,
    ) -> None:
        if exact and form in ("dot", "l2"):
            self.kind = "split"
            self._split(form, rows, pick, middle)
            return
        self.kind = "plain" if form == "dot" else form
        rows = rows if pick is None else rows[pick]
        rows = rows.to(torch.float32)
        if form != "dot":
            tile = TILES[self.kind]
            whole = torch.nn.functional.pad(
                rows, (0, 0, 0, -len(rows) % max(tile["ROWS"], tile["COLUMNS"]))
            )
            rows = whole.T.contiguous()
        self.high, self.low = rows.chunk(2) if form == "modulus" else (rows, rows)
        self.size = self.square = rows  # placeholders
        self.stride = rows.shape[1]

    def _split(self, form: Form, rows: Tensor, pick: Tensor | None, middle: Tensor | None) -> None:
        n, d = len(rows) if pick is None else len(pick), rows.shape[1]
        self.stride = d + -d % 8  # the copy engine needs whole units of 16 bytes
        # the interpreter cannot multiply bfloat16; the values are the same
        kind = torch.bfloat16 if rows.is_cuda else torch.float32
        self.high, self.low = (rows.new_empty((n, self.stride), dtype=kind) for _ in "hl")
        self.size, self.square = (rows.new_empty(n, dtype=t) for t in (torch.float32, torch.float64))
        first, second = sharpness(form, d, rows.device)
        least = 2.1 * TINY * (d / first) ** 0.5  # so that underflow is bounded too
        most = HUGE if form == "dot" else 2.0**60  # its square must not overflow either
        block = triton.next_power_of_2(self.stride)
        _split[(n,)](
            rows, rows if pick is None else pick, rows if middle is None else middle, self.high,
            self.low, self.size, self.square, first, second, least, most, PICK=pick is not None,
            MOVE=middle is not None, D=d, WIDTH=self.stride, BLOCK=block, DEPTH=TILES["split"]["DEPTH"],
            num_warps=max(1, min(8, block // 512)),
        )  # fmt: skip

    def parts(self, rows: int) -> tuple[Any, Any]:
        """Return both parts for the kernels, in tiles of some rows."""
        if self.kind != "split":
            return self.high, self.low
        block = [rows, TILES["split"]["DEPTH"]]
        return TensorDescriptor.from_tensor(self.high, block), TensorDescriptor.from_tensor(
            self.low, block
        )


def combined(rule: Rule, left: Tensor, i: Tensor, right: Tensor, j: Tensor) -> Tensor:
    """Combine rows of two tables, as `vectors.combined`."""
    left, right = (table if table.stride(1) == 1 else table.contiguous() for table in (left, right))
    out = torch.empty((len(i), left.shape[1]), dtype=torch.float64, device=left.device)
    d = left.shape[1] // (2 if rule in ("turn", "turn back") else 1)
    block = triton.next_power_of_2(d)
    _combine[(len(i),)](
        left, i, right, j, out, left.stride(0), i.stride(0), right.stride(0), j.stride(0),
        RULE=RULES.index(rule), D=d, BLOCK=block, num_warps=max(1, min(8, block // 256)),
        enable_fp_fusion=False,
    )  # fmt: skip
    return out


def count(
    form: Form,
    queries: Operand,
    rows: Operand,
    index: Any,
    goal: Tensor,
    limits: tuple[Tensor, ...],
    counts: tuple[Tensor, Tensor],
    listed: Tensor,
    full: Tensor,
    size: int,
    d: int,
) -> None:
    """Count `size` rows for all targets, and list the undecided pairs, as far as there is room.

    Without limits, plain scores are compared with plain target scores.
    """
    n, tile = len(index.row_query), TILES[queries.kind]
    programs = triton.cdiv(n, tile["ROWS"]) * triton.cdiv(size, tile["COLUMNS"])
    (a, al), (b, bl) = queries.parts(tile["ROWS"]), rows.parts(tile["COLUMNS"])
    _count[(programs,)](
        a, b, al, bl, index.row_first, index.row_end, goal, *(limits or (goal, goal)), queries.size,
        rows.size, rows.square, *counts, listed, full, n, size, queries.stride, rows.stride,
        len(listed) // 2 // SHARDS,
        FORM=FORMS.index(form), SPLIT=queries.kind == "split", EXACT=bool(limits), D=d, GROUP=GROUP,
        SHARDS=SHARDS, **tile,
    )  # fmt: skip


def goals(
    form: Form,
    vectors: Tensor,
    rows: Tensor | None,
    place: Tensor | None,
    index: Any,
    square: Tensor | None,
    lost: Tensor,
    given: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Compute the target scores by definition, unless they are given, and the bounds of the undecided.

    The bounds need the squared lengths of the queries.
    """
    n, d = len(index.targets), _dimensions(form, vectors)
    goal = torch.empty(n, dtype=torch.float64, device=vectors.device) if given is None else given
    low, high = torch.empty((2, n), dtype=torch.float32, device=vectors.device)
    _goals[(_programs(vectors.device),)](
        vectors, rows, index.query_of, place, index.targets, index.row_of,
        goal if square is None else square, goal, low, high, lost, n, 2 * TINY, d**0.5,
        GIVEN=given is not None, SPLIT=square is not None, **_exactly(form, d),
    )  # fmt: skip
    return goal, (low, high)


def settle(
    form: Form,
    vectors: Tensor,
    rows: Tensor,
    index: Any,
    goal: Tensor,
    counts: tuple[Tensor, Tensor],
    listed: Tensor,
    full: Tensor,
    lost: Tensor,
    offset: int,
    d: int,
) -> None:
    """Score the undecided pairs by definition, and count them."""
    _settle[(_programs(vectors.device),)](
        vectors, rows, listed, full, len(listed) // 2 // SHARDS, index.query_of, goal, *counts, lost,
        offset, SHARDS=SHARDS, **_exactly(form, d),
    )  # fmt: skip


def pairs(form: Form, vectors: Tensor, table: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """Score single pairs by definition."""
    d = _dimensions(form, vectors)
    out = torch.empty(len(query), dtype=torch.float64, device=vectors.device)
    _pairs[(_programs(vectors.device),)](
        vectors, table, query, row, out, len(query), **_exactly(form, d)
    )
    return out


def _dimensions(form: Form, vectors: Tensor) -> int:
    return int(vectors.shape[1]) // (2 if form == "modulus" else 1)


def _exactly(form: Form, d: int) -> dict[str, Any]:
    log = (d - 1).bit_length()
    # a warp folds in its own registers; several would have to communicate
    shape = {"FORM": FORMS.index(form), "D": d, "BATCH": max(1, PAIRS >> log), "LOG": log}
    return {**shape, "num_warps": 1, "enable_fp_fusion": False}


def plain(queries: Operand, rows: Operand, lists: Any, n: int, d: int) -> Tensor:
    """Score listed pairs with the same bits as in the tiles."""
    tile = TILES[queries.kind]
    block, starts, owner, value, entry = lists.in_blocks(tile["ROWS"], tile["COLUMNS"])
    out = torch.empty(len(value), dtype=torch.float32, device=value.device)
    if not len(value):
        return out
    _listed[(len(block),)](
        queries.high, rows.high, queries.low, rows.low, block, starts, owner, value, out, n,
        queries.stride, rows.stride,
        D=d, **tile,
    )  # fmt: skip
    return torch.empty_like(out).index_copy_(0, entry, out)


def count_lists(
    scores: Tensor,
    start: Tensor,
    query_of: Tensor,
    goal: Tensor,
    counts: tuple[Tensor, Tensor],
    sign: int,
) -> None:
    """Count in lists of scores, one per query, which are better than and equal to each target score."""
    _lists[(len(goal),)](scores, start, query_of, goal, *counts, SIGN=sign, BLOCK=128, num_warps=1)


@cache
def _programs(device: torch.device) -> int:
    """Return a number of programs that fills the device several times, each taking many pairs."""
    if device.type != "cuda":
        return SHARDS
    return SHARDS * int(torch.cuda.get_device_properties(device).multi_processor_count)
