"""Scaling: evaluation of a billion ranks, killed Dask workers, numbers of tasks and entities.

    python benchmarks/scale.py [--ranks 1000000000] [--grouped 1000000000] [--folder FOLDER] [--kills 20]

Ranks are distributed like those of a trained model with 14,541 entities, and saved by `Ranks.save`,
ten million per file; FOLDER keeps them for the next run (3 GB for 10^9, 4 GB with relations). The
lower bound is a scan by polars of the same columns, decoded and summed. Each measurement is a
subprocess on a warm page cache, so that peaks of memory are its own. CPU seconds, unlike wall time,
hardly depend on other processes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenrank as er
from evenrank._internal.columns import COUNTS
from evenrank._internal.limits import cpus
from metrics import example, peak_gb
from rank import verdict

EACH = 10_000_000
RELATIONS = 237
RATIO, GROUPED, MEMORY = 2.0, 6.0, 4.0
DIMENSION = 64


def make(folder: Path, ranks: int, by: bool) -> str:
    """Write the files that are missing, and return their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{'by' if by else 'ranks'}-{i:03}.parquet" for i in range(-(-ranks // EACH))]
    for i, path in enumerate(paths):
        if not path.exists():
            rows = min(EACH, ranks - i * EACH)
            of_row = np.random.default_rng(i).integers(0, RELATIONS, rows)
            er.Ranks(*example(rows, i), keys={"relation": of_row} if by else None).save(path)
    return str(folder / ("by-*.parquet" if by else "ranks-*.parquet"))


def first_of(files: str) -> str:
    return min(glob(files))


WORK: dict[str, Callable[[str], Any]] = {
    "scan by polars": lambda files: (
        pl.scan_parquet(files).select(pl.col(*COUNTS).sum()).collect(engine="streaming").rows()
    ),
    "scan by polars, with keys": lambda files: (
        pl.scan_parquet(files)
        .select(pl.col(*COUNTS, "relation").sum())
        .collect(engine="streaming")
        .rows()
    ),
    "default table": lambda files: er.stream(files).evaluate().to_json(),
    "mrr by relation": lambda files: er.stream(files, by="relation").evaluate("mrr").to_json(),
}


def in_child(what: str, files: str) -> dict[str, float]:
    """Run some work twice in a subprocess; return the seconds of the second run, and the peak memory."""
    command = [sys.executable, __file__, "--child", what, "--folder", files]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def child(what: str, files: str) -> None:
    WORK[what](first_of(files))  # imports and warm-up
    wall, cpu = time.perf_counter(), time.process_time()
    WORK[what](files)
    measured = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak_gb()}
    print(json.dumps(measured))


def against_polars(files: str, ranks: int, floor: str, ours: str, limit: float) -> None:
    """Compare with the scan by polars."""
    print(f"\n{ranks:,} ranks: {ours}\n{'':26} {'wall s':>8} {'CPU s':>8} {'M/s':>6} {'peak GB':>8}")
    measured = {what: in_child(what, files) for what in (floor, ours)}
    for what, m in measured.items():
        rate = ranks / m["wall"] / 1e6
        print(f"{what:26} {m['wall']:8.2f} {m['cpu']:8.2f} {rate:6.0f} {m['peak']:8.2f}", flush=True)
    ratios = [measured[ours][kind] / measured[floor][kind] for kind in ("wall", "cpu")]
    holds = f"  <= {limit:g} {verdict(max(ratios) <= limit)}"
    memory = verdict(measured[ours]["peak"] < MEMORY)
    print(f"ratio {ratios[0]:.2f} wall, {ratios[1]:.2f} CPU{holds}; memory < {MEMORY:g} GB {memory}")


def by_workers(files: str, ranks: int, kills: int) -> None:
    """Time 1, 2 and 4 workers, and kill some; results must be bitwise those of one process."""
    import dask
    import distributed

    wanted = er.stream(files).evaluate().to_json()
    print(f"\n{ranks:,} ranks on a local Dask cluster ({cpus()} cores)")
    with dask.config.set({"distributed.scheduler.allowed-failures": 1000}):
        for workers in (1, 2, 4):
            with (
                distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                    env={"POLARS_MAX_THREADS": "1"},
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                client.run(er.stream, first_of(files))  # imports and warm-up
                start = time.perf_counter()
                same = er.cluster.tally(files, client).evaluate().to_json() == wanted
                print(
                    f"{workers} workers  {time.perf_counter() - start:8.2f} s  same bits {verdict(same)}"
                )
                if workers == 4 and kills:
                    _killed(cluster, client, files, wanted, kills)


def _killed(cluster: Any, client: Any, files: str, wanted: str, kills: int) -> None:
    rng, killed = random.Random(0), 0

    def kill() -> None:
        nonlocal killed
        while killed < kills:
            time.sleep(rng.uniform(0.1, 1.0))
            alive = [nanny.pid for nanny in [*cluster.workers.values()] if nanny.is_alive()]
            if alive:
                os.kill(rng.choice(alive), signal.SIGKILL)
                killed += 1

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    same, runs, start = True, 0, time.perf_counter()
    while killer.is_alive():
        same &= er.cluster.tally(files, client).evaluate().to_json() == wanted
        runs += 1
    seconds = time.perf_counter() - start
    print(f"{killed} SIGKILLs in {runs} runs of {seconds:.1f} s  same bits {verdict(same)}")


def by_tasks_and_entities() -> None:
    """Time ranking by numbers of queries and entities; the rate must not fall."""
    rng = np.random.default_rng(0)
    print(f"\nranking DistMult with {DIMENSION} dimensions")
    print(f"{'entities':>10} {'targets':>8} {'s':>8} {'G scores/s':>11}")
    for entities in (10_000, 100_000, 1_000_000):
        table = rng.standard_normal((entities, DIMENSION), dtype=np.float32)
        model = er.models.DistMult(table, rng.standard_normal((9, DIMENSION), dtype=np.float32))
        for triples in (500, 2_000):
            drawn = np.stack([rng.integers(0, n, triples) for n in (entities, 9, entities)], axis=1)
            graph = er.Graph.of({"train": drawn[:1], "test": drawn}, entities=entities, relations=9)
            task = graph.task("test")
            start = time.perf_counter()
            ranks = er.rank(model, task, progress=False)
            seconds = time.perf_counter() - start
            rate = task.scores / seconds / 1e9
            print(f"{entities:10,} {len(ranks):8,} {seconds:8.2f} {rate:11.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=100_000_000)
    parser.add_argument("--grouped", type=int, help="ranks to group by relation (default: a tenth)")
    parser.add_argument("--folder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        few = given.grouped or max(1, given.ranks // 10)
        files, keyed = make(folder, given.ranks, by=False), make(folder, few, by=True)
        against_polars(files, given.ranks, "scan by polars", "default table", RATIO)
        against_polars(keyed, few, "scan by polars, with keys", "mrr by relation", GROUPED)
        by_workers(files.replace("*", "00*"), min(given.ranks, 10 * EACH), given.kills)
    by_tasks_and_entities()


if __name__ == "__main__":
    main()
