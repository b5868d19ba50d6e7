"""Ranking on a GPU, compared with ranks of the CPU, PyKEEN on the same GPU, and lower bounds.

    PYTHONPATH=src python benchmarks/gpu.py [FOLDER] [--only SECTION ...] [--out RESULTS.md]

FB15k-237 is found like in `rank.py` (a folder of train.npy, valid.npy and test.npy needs no polars),
otherwise a graph of the same shape is generated. Times are warm: kernels compiled, the task's index on
the device. evenrank: wall time of `er.rank`, from parameters on the device to integers on the host; the
best of several calls counts. Single kernels are timed by CUDA events.

PyKEEN: all of `RankBasedEvaluator.evaluate` for all test triples, model and triples on the device, with
its default batch size, and with batches of 1,024 if that is faster. Its metrics are part of `evaluate`;
their time, on the host, is shown too. Its RotatE has p = 2, as ours in the row "RotatE L2"; the row
"RotatE" has the paper's p = 1, a sum of roots, which PyKEEN does not offer.

Sections: fb15k237; floors, lower bounds for ComplEx's shape; wikikg2, a random table of its shape on the
device; wikikg90m, one in half precision on the host, streamed; trained, a ComplEx trained here and
ranked after every epoch; torch-only, without Triton. If a section fails, its traceback is printed and
the others are run; the exit code is 1 if one failed, or if any rank differs from the CPU's.
"""

from __future__ import annotations

import argparse
import gc
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import isnan, nan
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import evenrank as er
from null import best
from rank import QUICK_TRIPLES, PyKEEN, drawn_model, folder, load, verdict

if find_spec("torch") is None:
    print("skipped: torch is not installed")
    sys.exit()

import torch

from evenrank._internal.limits import available_memory, cpus
from evenrank.ranking.engine import _device

Tensor = torch.Tensor
COLUMNS = ("better", "equal", "candidates")
BATCHES = (None, 1024)  # of PyKEEN; None: its default
PEER_S = 80.0  # time limit for PyKEEN in total
MOST_FUSED, LEAST_RATE, MOST_PROJECTED_S = 2.0, 250.0, 15.0
MOST_MAKING_S = 30.0  # time limit for creating a large table on the host, and for one pass over it
TEST_QUERIES = 1_200_000  # of ogbl-wikikg2, both sides
WIDE = {
    "COLUMNS": 256,
    "num_warps": 8,
}  # tiles to try in bfloat16, besides those of the uncertified kernel
BF16_TILES = (
    {"ROWS": 128, "DEPTH": 64, "num_stages": 3, **WIDE},
    {"ROWS": 128, "DEPTH": 64, "num_stages": 3, **WIDE, "COLUMNS": 128},
)


class Case(NamedTuple):
    """A model: the most milliseconds, and the least speed-up over PyKEEN."""

    most: float = nan
    least: float = nan


CASES = {
    "ComplEx": Case(10, 200),
    "DistMult": Case(),
    "TransE L1": Case(40, 40),
    "TransE L2": Case(),
    "RotatE": Case(60),
    "RotatE L2": Case(60, 40),
    "TuckER d64": Case(),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of all measurements; a smoke test has small ones."""

    rounds: int = 25
    batches: tuple[int | None, ...] = BATCHES
    gemm: int = 4096
    wikikg2: tuple[int, int, int] = (2_500_604, 256, 65_536)  # entities, dimension, queries
    wikikg90m: tuple[int, int, int] = (91_230_610, 200, 1_000)
    block: int = 1_000_000  # rows drawn at random; the others are scaled copies
    copied: int = 1 << 30  # bytes to measure copies with
    checked: int = 64
    train_s: float = 60.0


TINY = Sizes(1, (8, None), 16, (3_000, 16, 200), (5_000, 8, 64), 1_000, 1 << 16, 8, 2.0)


# The report --------------------------------------------------------------------------------------


@dataclass
class Table:
    """A table that is printed row by row, and written as Markdown."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        print(f"\n{self.title}\n")
        self._print("", *self.columns)

    def add(self, name: str, *cells: str) -> None:
        self.rows.append([name, *cells, *[""] * (len(self.columns) - len(cells))])
        self._print(name, *cells)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(text, flush=True)

    def _print(self, name: str, *cells: str) -> None:
        padded = (f"{cell:>{max(10, len(c))}}" for cell, c in zip(cells, self.columns, strict=False))
        print(f"{name:28}", *padded, sep="  ", flush=True)

    def markdown(self) -> str:
        lines = [["", *self.columns], ["---", *["---:"] * len(self.columns)], *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"### {self.title}", table, *self.notes])


def number(value: float, digits: int = 2) -> str:
    return "-" if isnan(value) else f"{value:,.{digits}f}"


def limit(value: float, *, most: float = nan, least: float = nan) -> str:
    """Format a limit and whether it was met."""
    if isnan(value) or (isnan(most) and isnan(least)):
        return ""
    if isnan(least):
        return f"<= {most:g} {verdict(value <= most)}"
    return f">= {least:g} {verdict(value >= least)}"


class Bench:
    """Device, sizes and data of the measurements, and the results so far."""

    def __init__(self, device: str, data: Path | None, tiny: bool) -> None:
        self.name = device
        self.device = torch.device(device.removeprefix("torch:"))
        self.cuda = self.device.type == "cuda"
        self.sizes = TINY if tiny else Sizes()
        self.graph = er.load("nations") if tiny and data is None else load(data, tiny)
        self.task = self.graph.task("test")
        self.tables: list[Table] = []
        self.problems: list[str] = []
        self.peak_gb = self.peer_s = 0.0

    def table(self, title: str, columns: str) -> Table:
        self.tables.append(Table(title, columns.split(" | ")))
        return self.tables[-1]

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def forget(self) -> None:
        """Free unused memory, and reset the peak memory of the device."""
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def rank(self, scorer: Any, task: er.Task, device: str | None = None, **options: Any) -> er.Ranks:
        ranks = er.rank(scorer, task, device=device or self.name, progress=False, **options)
        self.read_peak()
        return ranks

    def read_peak(self) -> None:
        if self.cuda:
            self.peak_gb = max(self.peak_gb, torch.cuda.max_memory_allocated(self.device) / 1e9)

    def ms(self, work: Callable[[], Any], rounds: int | None = None) -> tuple[float, Any]:
        """Measure warm wall time, the best of some rounds; return it with the result."""

        def whole() -> Any:
            result = work()
            self.sync()
            return result

        whole()
        seconds, result = best(whole, rounds or self.sizes.rounds)
        return seconds * 1e3, result

    def kernel_ms(self, work: Callable[[], Any], repeats: int = 5) -> float:
        """Measure the time on the device by CUDA events: the best round of several calls."""
        if not self.cuda:
            return self.ms(work)[0]

        def clocked() -> float:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in "se")
            start.record()
            for _ in range(repeats):
                work()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / repeats

        self.ms(work, 1)
        self.read_peak()
        return min(clocked() for _ in range(self.sizes.rounds))

    def bits(self, what: str, ranks: er.Ranks, reference: er.Ranks) -> str:
        """Compare all three columns of all targets with those of the CPU."""
        return self.same(
            what, *(np.concatenate([getattr(r, c) for c in COLUMNS]) for r in (ranks, reference))
        )

    def same(self, what: str, ours: NDArray[np.int64], reference: NDArray[np.int64]) -> str:
        off = np.count_nonzero(ours != reference)
        if not off:
            return "equal"
        self.problems.append(f"{what}: {off:,} numbers differ")
        return f"{off:,} DIFFER"


def undecided(ranks: er.Ranks) -> str:
    return f"{ranks.work.undecided / ranks.work.scores:.4%}"


# fb15k237 ----------------------------------------------------------------------------------------


def peer_problem() -> str | None:
    """Return why PyKEEN cannot be used, or None."""
    try:
        import_module("pykeen.evaluation")
        import_module("pykeen.models")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def pykeen(bench: Bench, name: str, ours_ms: float, ranks: er.Ranks) -> list[str]:
    """Evaluate a copy of the model with PyKEEN and several batch sizes; return cells of the table."""
    start = perf_counter()
    model = drawn_model(name, bench.graph)
    if isinstance(model, er.models.RotatE):
        ranks = bench.rank(replace(model, p=2), bench.task)
    theirs = PyKEEN(model, bench.graph)
    theirs.model.to(bench.device)
    theirs.triples = [triples.to(bench.device) for triples in theirs.triples]
    count = len(theirs.test)
    theirs.evaluate(min(64, count), 32)  # warm-up
    tried = {}
    for batch in bench.sizes.batches:
        if not tried or bench.peer_s + perf_counter() - start < PEER_S:
            tried[batch] = best(lambda b=batch: theirs.evaluate(count, b), 1)
    batch = min(tried, key=lambda size: tried[size][0])
    own, fastest = tried[None][0], tried[batch][0]
    metrics, _ = best(tried[batch][1].finalize, 1)
    bench.peer_s += perf_counter() - start
    off = theirs.differences(tried[batch][1], ranks)
    ratio = own * 1e3 / ours_ms
    return [
        *(number(own * 1e3, 0), number(ratio, 0), limit(ratio, least=CASES[name].least)),
        *(number(fastest * 1e3, 0), str(batch or "default"), number(fastest * 1e3 / ours_ms, 0)),
        *(number(metrics * 1e3, 0), f"{np.count_nonzero(off):,} of {len(off):,}"),
    ]


def random_model(bench: Bench, name: str, table: Table, peer: bool) -> None:
    """Measure one model with random parameters."""
    model, task = drawn_model(name, bench.graph), bench.task
    there = model.on(bench.device)
    certified, ranks = bench.ms(lambda: bench.rank(there, task))
    plain, _ = bench.ms(lambda: bench.rank(there, task, exact=False))
    cpu, reference = best(lambda: bench.rank(model, task, "cpu"), 1)
    cells = [
        *(number(certified), limit(certified, most=CASES[name].most), number(plain), undecided(ranks)),
        *(number(cpu * 1e3, 0), bench.bits(name, ranks, reference)),
    ]
    if peer and bench.peer_s < PEER_S:
        try:
            cells += pykeen(bench, name, certified, ranks)
        except Exception:
            traceback.print_exc()
            bench.problems.append(f"{name}: PyKEEN failed")
        bench.forget()  # PyKEEN uses all available memory, which torch caches
    table.add(name, *cells)


def fb15k237(bench: Bench) -> None:
    graph = bench.graph
    table = bench.table(
        f"{graph.name}, both sides: {len(bench.task):,} ranks of "
        f"{sum(len(part.queries) for part in bench.task.parts):,} distinct queries among "
        f"{len(graph.entities):,} entities, random float32 tables; ms",
        "certified | target      | exact=False | undecided | CPU | ranks as CPU | PyKEEN | ratio | "
        "target        | its best | batch size | ratio | its metrics | its ranks differ",
    )
    problem = peer_problem()
    if problem:
        table.note(f"PyKEEN cannot be used: {problem}")
    for name in CASES:
        random_model(bench, name, table, peer=not problem)
    ranks = bench.rank(drawn_model("DistMult", graph), bench.task)
    table.note(
        f"Time of our default metrics of these ranks, on the host: {bench.ms(ranks.evaluate)[0]:.0f} ms."
    )


# floors ------------------------------------------------------------------------------------------


class Stage:
    """Arguments of the kernels for one part of a task."""

    def __init__(self, where: Any, factored: er.Factored, part: Any) -> None:
        self.kernels, self.device = where.kernels, where.device
        self.source = _device.Source(factored.form, factored.table, where)
        self.index = _device.indexed(part, where.device, 0, len(part.queries))
        self.vectors, self.rows = (
            _device.vectors(factored, self.index, self.device),
            self.source.resident,
        )
        self.form, self.d = self.source.form, self.source.d

    def zeros(self, size: int, kind: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(size, dtype=kind, device=self.device)

    def counts(self) -> tuple[Tensor, Tensor]:
        size = len(self.index.targets)
        return self.zeros(size), self.zeros(size)

    def operands(self, exact: bool, kind: torch.dtype | None = None) -> tuple[Any, Any]:
        operand = self.kernels.Operand
        queries = operand(self.form, self.vectors, exact, self.index.row_query)
        table = operand(self.form, self.rows, exact)
        if kind is not None:
            for each in (queries, table):
                each.high = each.low = each.high.to(kind)
        return queries, table

    def uncertified(self, kind: torch.dtype | None = None) -> Callable[[], None]:
        """Return a function that counts by uncertified scores, in tf32 or the given type."""
        (queries, table), index, size = self.operands(False, kind), self.index, len(self.rows)
        goal = self.kernels.plain(queries, table, index.asked, len(index.row_query), self.d)
        counts, nothing = self.counts(), self.zeros(2)
        return lambda: self.kernels.count(
            self.form, queries, table, index, goal, (), counts, nothing, nothing, size, self.d
        )

    def certified(self) -> dict[str, Callable[[], Any]]:
        """Return functions for the certified count and for each step around it."""
        kernels, index, form, d = self.kernels, self.index, self.form, self.d
        queries, table = self.operands(True)
        counts, lost = self.counts(), self.zeros(1, torch.int64)
        listed, full = self.zeros(2 * self.source.room), self.zeros(kernels.SHARDS, torch.int64)

        def goals() -> tuple[Tensor, tuple[Tensor, Tensor]]:
            place = index.targets
            return kernels.goals(form, self.vectors, self.rows, place, index, queries.square, lost)

        goal, bound = goals()

        def count() -> None:
            full.zero_()
            kernels.count(
                form, queries, table, index, goal, bound, counts, listed, full, len(self.rows), d
            )

        def settle() -> None:
            kernels.settle(form, self.vectors, self.rows, index, goal, counts, listed, full, lost, 0, d)

        def subtract() -> None:
            known = kernels.pairs(form, self.vectors, self.rows, index.known.owner, index.known.value)
            kernels.count_lists(known, index.known.start, index.query_of, goal, counts, -1)

        return {
            "count, certified": count,
            "settle": settle,
            "split operands": lambda: self.operands(True),
            "targets and bounds": goals,
            "known true answers": subtract,
        }


def together(works: list[Callable[[], Any]]) -> Callable[[], None]:
    def work() -> None:
        for one in works:
            one()

    return work


def products(bench: Bench, vectors: list[Tensor], rows: Tensor) -> Iterator[tuple[str, float]]:
    """Time the bare matrix product, in tiles over the distinct queries; scores are discarded."""
    kinds = {"GEMM float32": ("highest", torch.float32), "GEMM tf32": ("high", torch.float32)}
    for name, (precision, kind) in {**kinds, "GEMM bfloat16": ("high", torch.bfloat16)}.items():
        table, tiles = rows.to(kind).T, [t for v in vectors for t in v.to(kind).split(bench.sizes.gemm)]
        out = torch.empty(bench.sizes.gemm, len(rows), dtype=kind, device=bench.device)
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            work = [lambda t=t, m=table, o=out: torch.mm(t, m, out=o[: len(t)]) for t in tiles]
            yield name, bench.kernel_ms(together(work))
        finally:
            torch.set_float32_matmul_precision(before)


def fused_bf16(bench: Bench, stages: list[Stage], table: Table) -> float:
    """Time the uncertified count in bfloat16 with the best of some tiles: the lower bound."""
    tiles, found = stages[0].kernels.TILES, {}
    for tile in (tiles["plain"], *BF16_TILES):
        shape = "x".join(str(tile[key]) for key in ("ROWS", "COLUMNS", "DEPTH"))
        with patch.dict(tiles, {"plain": tile}):
            try:
                works = [stage.uncertified(torch.bfloat16) for stage in stages]
                found[shape] = bench.kernel_ms(together(works))
            except Exception as error:
                table.note(
                    f"fused bf16 with tiles {shape} does not run: {type(error).__name__}: "
                    f"{(str(error).splitlines() or [''])[0][:200]}"
                )
    if not found:
        return nan
    shape = min(found, key=lambda key: found[key])
    table.add("fused count, bf16 (bound)", number(found[shape]), "1.00", "", f"tiles {shape}")
    return found[shape]


def floors(bench: Bench) -> None:
    where = _device.Device(bench.name)
    model = drawn_model("ComplEx", bench.graph).on(bench.device)
    stages = [Stage(where, model.factored(part.side), part) for part in bench.task.parts]
    table = bench.table(
        """Count better candidates by float64 products on the device, exact for random scores."""
        f"{len(stages[0].rows):,} entities x {stages[0].vectors.shape[1]}; by CUDA events",
        "ms | x fused bf16 | target       | remark",
    )
    for name, ms in products(bench, [stage.vectors for stage in stages], stages[0].rows):
        table.add(name, number(ms))
    if where.kernels is None:
        table.note("No Triton kernels on this device: the other rows are omitted.")
        return
    floor = fused_bf16(bench, stages, table)
    plain = bench.kernel_ms(together([stage.uncertified() for stage in stages]))
    times = plain / floor
    table.add("fused count, tf32", number(plain), number(times), limit(times, most=MOST_FUSED))
    parts = [stage.certified() for stage in stages]
    for name in parts[0]:
        ms = bench.kernel_ms(together([part[name] for part in parts]))
        table.add(name, number(ms), number(ms / floor))


# wikikg2 -----------------------------------------------------------------------------------------


def one_target_each(size: int, queries: int) -> er.Task:
    targets = np.random.default_rng(1).integers(0, size, queries)
    return er.Task.of(np.arange(queries), targets, size=size)


def large(bench: Bench, table: Table, scorer: er.Factored, queries: int) -> None:
    """Rank some queries among all rows of a large table."""
    size = len(scorer.table)
    task = one_target_each(size, queries)
    ms, ranks = bench.ms(lambda: bench.rank(scorer, task), 2)
    rate = ranks.work.scores / ms / 1e6
    whole = TEST_QUERIES * size / rate / 1e9
    table.add(
        f"{queries:,} queries",
        *(number(ms, 0), number(rate, 0), limit(rate, least=LEAST_RATE), undecided(ranks)),
        *(f"{ranks.work.undecided:,}", number(whole, 1), limit(whole, most=MOST_PROJECTED_S)),
    )


def wikikg2(bench: Bench) -> None:
    size, d, queries = bench.sizes.wikikg2
    generator = torch.Generator(bench.device).manual_seed(0)
    entities, vectors = (
        torch.randn(n, d, device=bench.device, generator=generator) for n in (size, queries)
    )
    scorer = er.Factored("dot", entities, lambda q: vectors[q[:, 0]])
    table = bench.table(
        f"ogbl-wikikg2's shape: {size:,} entities x {d}, float32 on the device, one target per query",
        "ms | G scores/s | target        | undecided | pairs      | 1.2 M queries, s | target       | "
        "ranks as CPU",
    )
    for some in (queries, queries // 4):
        large(bench, table, scorer, some)
    few = one_target_each(size, bench.sizes.checked)
    rows, asked = entities.cpu().numpy(), vectors[: len(few)].cpu().numpy()
    reference = bench.rank(er.Factored("dot", rows, lambda q: asked[q[:, 0]]), few, "cpu")
    bits = bench.bits("wikikg2", bench.rank(scorer, few), reference)
    table.add(f"{len(few)} queries", *[""] * 7, bits)
    table.note(f"Where over {_device.ROOM:,} pairs are undecided, they are counted again in two halves.")


# wikikg90m ---------------------------------------------------------------------------------------


def host_table(size: int, d: int, block: int) -> NDArray[np.float16]:
    """Draw a float16 block and repeat it, slightly scaled; fewer rows if that takes too long."""
    start, done = perf_counter(), 0
    drawn = torch.randn(block, d, generator=torch.Generator().manual_seed(0)).half()
    table = torch.empty(size, d, dtype=torch.float16)
    for i, part in enumerate(table.split(block)):
        torch.mul(drawn[: len(part)], 1 + i / 256, out=part)
        done += len(part)
        if perf_counter() - start > MOST_MAKING_S:
            break
    return np.asarray(table[:done].numpy())


def counted_in_float64(
    bench: Bench, table: NDArray[Any], vectors: NDArray[Any], targets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count better candidates by float64 products on the device, exact for random scores."""
    queries, aims = (torch.as_tensor(x).to(bench.device).double() for x in (vectors, table[targets]))
    aim, target = (queries * aims).sum(1), torch.as_tensor(targets).to(bench.device)
    better = torch.zeros_like(target)
    for start in range(0, len(table), bench.sizes.block):
        rows = torch.from_numpy(table[start : start + bench.sizes.block]).to(bench.device).double()
        scores = queries @ rows.T
        mine = ((target >= start) & (target < start + len(rows))).nonzero()[:, 0]
        scores[mine, target[mine] - start] = -torch.inf
        better += (scores > aim[:, None]).sum(1)
    return np.asarray(better.cpu().numpy())


def host_copies(bench: Bench, rows: NDArray[Any], table: Table) -> None:
    """Measure lower bounds: copies into pinned memory, and from there to the device."""
    pageable = torch.from_numpy(rows.reshape(-1).view(np.uint8))[: bench.sizes.copied]

    def pin() -> Tensor:
        return pageable.pin_memory() if bench.cuda else pageable.clone()

    pinned = pin()
    there = torch.empty_like(pinned, device=bench.device)
    copies: dict[str, Callable[[], Any]] = {
        "bound: pinned to device": lambda: there.copy_(pinned, non_blocking=True),
        "not pinned to device": lambda: there.copy_(pageable),
        "host into pinned": lambda: pinned.copy_(pageable),
        "tensor.pin_memory()": pin,
    }
    for name, work in copies.items():
        table.add(name, "", "", number(len(pinned) / bench.ms(work, 3)[0] / 1e6, 1))


def streamed(bench: Bench, table: Table, scorer: er.Factored, task: er.Task) -> er.Ranks:
    """Rank twice, unless the first run is slow; only the first run allocates pinned buffers."""
    for name in ("er.rank, first run", "er.rank, second run"):
        seconds, ranks = best(lambda: bench.rank(scorer, task), 1)
        rate, moved = (x / seconds / 1e9 for x in (ranks.work.scores, scorer.table.nbytes))
        table.add(name, number(seconds), number(rate, 1), number(moved, 1), undecided(ranks))
        if seconds > MOST_MAKING_S:
            break
    return ranks


def wikikg90m(bench: Bench) -> None:
    asked, d, queries = bench.sizes.wikikg90m
    probe = er.Factored("dot", np.ones((1, 2), np.float16), np.asarray)
    held = 2 if probe.table.dtype == np.float16 else 6  # bytes per number: float16, or also float32
    free = available_memory() / 1e9
    most = int(free * 1e9 * 0.7 / (held * d))  # the rest is for pinned buffers
    vectors = np.random.default_rng(2).standard_normal((queries, d), dtype=np.float32)
    making, rows = best(lambda: host_table(min(asked, most), d, bench.sizes.block), 1)
    keeping, scorer = best(lambda: er.Factored("dot", rows, lambda q: vectors[q[:, 0]]), 1)
    rows = scorer.table
    table = bench.table(
        f"WikiKG90M's shape: {len(rows):,} entities x {d}, {rows.dtype} on the host, "
        f"{rows.nbytes / 1e9:.1f} GB, streamed for {queries:,} queries",
        "s | G scores/s | GB/s | undecided | counts as in float64",
    )
    if len(rows) < asked:
        table.note(f"Fewer entities than WikiKG90M's {asked:,}: {free:.0f} GB of host memory are free.")
    table.note(f"Created in {making:.1f} s; er.Factored stored {rows.dtype}: {keeping:.1f} s.")
    host_copies(bench, rows, table)
    few = er.Factored("dot", rows[: bench.sizes.block], scorer.queries)
    bench.rank(few, one_target_each(len(few.table), queries))  # compiles
    task = one_target_each(len(rows), queries)
    ranks = streamed(bench, table, scorer, task)
    some = slice(bench.sizes.checked)
    counted = counted_in_float64(bench, rows, vectors[some], task.parts[0].targets[some])
    table.add(f"{len(counted)} queries", *[""] * 4, bench.same("wikikg90m", ranks.better[some], counted))


# trained -----------------------------------------------------------------------------------------


class Trainer:
    """ComplEx, 1-vs-all, reciprocal relations, Adagrad and N3 (Lacroix et al. 2018)."""

    def __init__(self, bench: Bench, d: int = 128, n3: float = 0.05, batch: int = 1024) -> None:
        torch.manual_seed(0)
        graph, device = bench.graph, bench.device
        relations = len(graph.relations)
        h, r, t = torch.tensor(graph.splits["train"], device=device).T
        self.triples = torch.cat([torch.stack(x, 1) for x in ((h, r, t), (t, r + relations, h))])
        self.entity, self.relation = (
            (1e-3 * torch.randn(rows, 2 * d, device=device)).requires_grad_()
            for rows in (len(graph.entities), 2 * relations)
        )
        self.optimizer = torch.optim.Adagrad([self.entity, self.relation], lr=0.1)
        self.n3, self.batch, self.bench = n3, batch, bench

    @property
    def model(self) -> er.models.ComplEx:
        """The current model, with the same memory."""
        return er.models.ComplEx(self.entity, self.relation, inverse="stacked")

    def loss(self, triples: Tensor) -> Tensor:
        h, r, t = self.entity[triples[:, 0]], self.relation[triples[:, 1]], self.entity[triples[:, 2]]
        (a, b), (c, d) = h.chunk(2, 1), r.chunk(2, 1)
        scores = torch.cat([a * c - b * d, a * d + b * c], 1) @ self.entity.T
        cubes = sum(x.square().reshape(len(x), 2, -1).sum(1).pow(1.5).sum() for x in (h, r, t))
        return torch.nn.functional.cross_entropy(scores, triples[:, 2]) + self.n3 * cubes / len(triples)

    def epoch(self) -> None:
        order = torch.randperm(len(self.triples), device=self.bench.device)
        for some in order.split(self.batch):
            self.optimizer.zero_grad()
            self.loss(self.triples[some]).backward()
            self.optimizer.step()
        self.bench.sync()


def trained(bench: Bench) -> None:
    trainer, valid = Trainer(bench), bench.graph.task("valid")
    table = bench.table(
        f"A trained ComplEx, 128 complex dimensions, {len(trainer.triples):,} triples with reciprocals",
        "certified, ms | exact=False | certifying | undecided | filtered MRR | ranks as CPU",
    )
    epochs, ranking, curve = [], [], []
    start = perf_counter()
    torch.set_float32_matmul_precision("high")
    while not epochs or perf_counter() - start < bench.sizes.train_s:
        epochs.append(best(trainer.epoch, 1)[0])
        seconds, ranks = best(lambda: bench.rank(trainer.model, valid), 1)
        ranking.append(seconds)
        curve.append(mrr(ranks))
    torch.set_float32_matmul_precision("highest")
    model = trainer.model
    certified, ranks = bench.ms(lambda: bench.rank(model, bench.task))
    plain, _ = bench.ms(lambda: bench.rank(model, bench.task, exact=False))
    reference = bench.rank(model.on(None), bench.task, "cpu")
    table.add(
        "test, both sides",
        *(number(certified), number(plain), f"{max(0.0, 1 - plain / certified):.0%}"),
        *(undecided(ranks), number(mrr(ranks), 4), bench.bits("trained", ranks, reference)),
    )
    epoch, each = median(epochs), median(ranking)
    table.note(
        f"{len(epochs)} epochs, {epoch:.2f} s each. After each epoch, the validation split was "
        f"ranked, both sides: {each * 1e3:.1f} ms (first run, with the index, {ranking[0]:.1f} s), "
        f"{each / (epoch + each):.2%} of the time. Validation MRR: {curve[0]:.3f} after one epoch, "
        f"{curve[len(curve) // 2]:.3f} half-way, {curve[-1]:.3f} at the end."
    )


def mrr(ranks: er.Ranks) -> float:
    return float(ranks.evaluate("mrr")["mrr"])


# torch-only --------------------------------------------------------------------------------------


def torch_only(bench: Bench) -> None:
    splits = {**bench.graph.splits, "test": bench.graph.splits["test"][:QUICK_TRIPLES].copy()}
    graph = replace(bench.graph, splits=splits)
    task, device = graph.task("test"), f"torch:{bench.device}"
    table = bench.table(
        f"torch without Triton (device={device!r}): {len(splits['test']):,} test triples, both sides",
        "ms | undecided | ranks as CPU | kernels",
    )
    for name in ("ComplEx", "TransE L1", "TransE L2", "RotatE"):
        model = drawn_model(name, graph)
        there = model.on(bench.device)
        ms, ranks = bench.ms(lambda m=there: bench.rank(m, task, device), 1)
        bits = bench.bits(f"torch-only {name}", ranks, bench.rank(model, task, "cpu"))
        table.add(name, number(ms, 0), undecided(ranks), bits, ranks.work.kernels)


# All sections ------------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[Bench], None]] = {
    "fb15k237": fb15k237,
    "floors": floors,
    "wikikg2": wikikg2,
    "wikikg90m": wikikg90m,
    "trained": trained,
    "torch-only": torch_only,
}


def versions(bench: Bench) -> str:
    """Describe the machine and the versions of libraries."""

    def installed(name: str) -> str:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            return f"no {name}"

    name = torch.cuda.get_device_name(bench.device) if bench.cuda else "no GPU"
    return (
        f"{name} (device {bench.name}), {cpus()} cores, "
        f"{available_memory() / 1e9:.0f} GB of host memory free; evenrank {er.__version__}, "
        f"torch {torch.__version__}, {installed('triton')}, CUDA {torch.version.cuda}, "
        f"{installed('pykeen')}, NumPy {np.__version__}, "
        f"Python {sys.version.split()[0]}"
    )


def written(bench: Bench, about: str) -> str:
    """Return all tables so far as Markdown."""
    call = "python benchmarks/gpu.py FOLDER --out FILE"
    head = f"## On a GPU, {date.today().isoformat()}", f"{about}.", f"Command: `{call}`"
    return "\n\n".join([*head, *(table.markdown() for table in bench.tables)]) + "\n"


def run(bench: Bench, name: str) -> None:
    """Run a section; report a failure without raising."""
    start, before = perf_counter(), len(bench.tables)
    bench.forget()
    bench.peak_gb = 0.0
    end = ""
    try:
        SECTIONS[name](bench)
    except Exception as error:
        traceback.print_exc()
        end = f" FAILED: {type(error).__name__}."
        bench.problems.append(f"{name} failed")
    took = perf_counter() - start
    end = f"{name}: {took:.0f} s in total; peak device memory {bench.peak_gb:.1f} GB.{end}"
    if len(bench.tables) > before:
        bench.tables[-1].note(end)
    else:
        print(f"\n{end}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="folder of FB15k-237")
    parser.add_argument("--device", default="cuda", help="device, as in er.rank (cuda)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--out", type=Path, help="also write the tables to this file, as Markdown")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "cuda" in options.device and not torch.cuda.is_available():
        print("skipped: no GPU")
        return 0
    warnings.simplefilter("ignore")  # warnings of PyKEEN and its dependencies
    start = perf_counter()
    data = options.data if options.tiny else folder(options.data)
    bench = Bench(options.device, data, options.tiny)
    about = versions(bench)
    print(about, flush=True)
    for name in options.only:
        run(bench, name)
        if options.out:
            options.out.write_text(written(bench, about), encoding="utf-8")
    print(f"\n{perf_counter() - start:.0f} s; problems: {'; '.join(bench.problems) or 'none'}")
    return int(bool(bench.problems))


if __name__ == "__main__":
    sys.exit(main())
