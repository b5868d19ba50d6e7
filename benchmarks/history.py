"""Measure a few ratios to lower bounds, and append them to history.csv, to see a change between commits.

    python benchmarks/history.py [--out FILE] [--rounds 15]

Every ratio is of two processor times, of this process and those it starts, measured in turn on one
thread; the least of the rounds counts. Waiting for a busy processor does not count, but sharing its
caches does: leave the machine alone. Ratios can be compared between commits on the same kind of machine
(the column `machine`), but not between machines.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import process_time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is imported

import numpy as np

import evenrank as er

HISTORY = Path(__file__).with_suffix(".csv")
COLUMNS = ("date", "commit", "version", "machine", "ratio", "value")
QUERIES, ENTITIES, WIDTH, RANKS = 1_000, 14_541, 128, 1_000_000
TILE = 1024  # candidates of a product that stays in the cache


def clock() -> float:
    """Return the processor time in seconds of this process, and of those it started that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + ended.ru_utime + ended.ru_stime


def least(rounds: int, *calls: Callable[[], Any]) -> list[float]:
    """Time calls in turn; return the least processor time of each."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for mine, call in zip(times, calls, strict=True):
            start = clock()
            call()
            mine.append(clock() - start)
    return [min(mine) for mine in times]


def process(code: str) -> Callable[[], Any]:
    """Run Python code in a fresh process."""
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def ratios(rounds: int) -> dict[str, float]:
    """Measure all ratios, by name; smaller is better."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ENTITIES, WIDTH)).astype(np.float32)
    vectors = rng.standard_normal((QUERIES, WIDTH))
    narrow = vectors.astype(np.float32)
    task = er.Task.of(np.arange(QUERIES), rng.integers(ENTITIES, size=QUERIES), size=ENTITIES)
    model = er.Factored("dot", table, lambda queries: vectors[queries[:, 0]])
    distance = er.Factored("l1", table, lambda queries: vectors[queries[:, 0]])
    ranked, far, product = least(
        rounds,
        lambda: er.rank(model, task, threads=1, progress=False),
        lambda: er.rank(distance, task, threads=1, progress=False),
        lambda: [narrow @ table[at : at + TILE].T for at in range(0, ENTITIES, TILE)],
    )
    better = (ENTITIES * rng.random(RANKS) ** 4).astype(np.int64)
    counted, floor = least(
        rounds,
        lambda: er.Ranks.of(better + 1, candidates=ENTITIES).evaluate("mrr", "z(mrr)"),
        lambda: np.bincount(better, minlength=ENTITIES),
    )
    ours, numpy = least(rounds, process("from evenrank import Ranks"), process("import numpy"))
    return {
        "rank, dot product / matrix product in float32": ranked / product,
        "rank, L1 distance / matrix product in float32": far / product,
        "evaluate a million ranks / bincount": counted / floor,
        "import Ranks / import numpy": ours / numpy,
    }


def commit() -> str:
    """Return the commit, with a plus sign where files differ from it; empty outside a repository."""
    here = Path(__file__).parent
    git = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.run(git, cwd=here, capture_output=True, text=True).stdout.strip()


def machine() -> str:
    """Return the processor and the kernels that it runs."""
    from evenrank.ranking.engine._native import kernels

    listed = Path("/proc/cpuinfo")
    names = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    name = next((line.split(":")[1].strip() for line in names if line.startswith("model name")), "")
    return f"{name or platform.processor() or platform.machine()}, {kernels().name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HISTORY)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    about = (f"{datetime.now(UTC):%Y-%m-%d}", commit(), er.__version__, machine())
    fresh = not given.out.is_file()
    with given.out.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        if fresh:
            rows.writerow(COLUMNS)
        for name, value in ratios(given.rounds).items():
            rows.writerow([*about, name, f"{value:.2f}"])
            print(f"{name:48} {value:8.2f}")


if __name__ == "__main__":
    main()
