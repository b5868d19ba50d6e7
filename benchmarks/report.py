"""Time and size of a report: eight models on four data sets of the size of FB15k-237.

    python benchmarks/report.py

The lower bound is the time to read the files with polars and to evaluate the ranks. The limits are 20 s
and 5 MB. Ranks are synthetic: each model has its own skill, each relation its own difficulty, and the
numbers of candidates are those of the test triples of FB15k-237.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import evenrank as er
from evenrank.report.document import reload

MODELS, DATA, RELATIONS = 8, 4, 237
SECONDS, MEGABYTES = 20.0, 5.0


def make(folder: Path) -> list[Path]:
    """Write files of ranks like those of `evenrank rank`."""
    rng = np.random.default_rng(0)
    sizes = er.atlas("fb15k237")
    numbers = rng.choice(16**5, 14_541, replace=False)
    entities = np.array([f"/m/{number:05x}" for number in numbers], dtype=object)
    often = 1.0 / np.arange(1, RELATIONS + 1)
    files = []
    for d in range(DATA):
        candidates = rng.permutation(np.repeat(sizes["candidates"], sizes.counts))
        triples = len(candidates) // 2
        kind = rng.choice(RELATIONS, triples, p=often / often.sum())
        pairs = rng.choice(len(entities) ** 2, triples, replace=False)  # no triple twice
        head, tail = (entities[ids] for ids in divmod(pairs, len(entities)))
        names = np.array([f"/domain{i % 30}/topic/property_{i}" for i in range(RELATIONS)], dtype=object)
        keys = {"head": head, "relation": names[kind], "tail": tail}
        keys = {name: np.concatenate([column, column]) for name, column in keys.items()}
        keys["side"] = np.repeat(["tail", "head"], triples)
        hard = np.tile(rng.normal(0, 1.5, triples) + rng.normal(0, 1, RELATIONS)[kind], 2)
        for m in range(MODELS):
            skill = rng.normal(2.5, 0.4)
            guess = np.exp(skill + hard + rng.normal(0, 1.5, 2 * triples)).astype(np.int64)
            better = np.minimum(guess, candidates - 1)
            protocol = {"data": f"made-up-{d + 1}", "split": "test", "model": f"Model {m + 1}"}
            path = folder / f"data{d}-model{m}.parquet"
            er.Ranks(better, 0, candidates, keys=keys, protocol=protocol).save(path)
            files.append(path)
    return files


def floor(files: list[Path]) -> float:
    """Time reading the files and evaluating them."""
    start = time.perf_counter()
    for path in files:
        frame = pl.read_parquet(path)
        counts = (frame[name].to_numpy() for name in ("better", "equal", "candidates"))
        er.Ranks(*counts).evaluate("mrr", "hits@10", "index(mrr)", "z(mrr)")
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        page = Path(folder) / "report.html"
        least = floor(files)
        start = time.perf_counter()
        command = [sys.executable, "-m", "evenrank.cli", "report", *map(str, files), "-o", str(page)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = page.stat().st_size / 1e6
        rows = sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in files)
        again = Path(folder) / "again.html"
        start = time.perf_counter()
        reload(page).save(again)
        reloaded = time.perf_counter() - start
    print(f"{len(files)} files, {rows:,} ranks")
    for what, value, limit, unit in (
        ("evenrank report, as a subprocess", seconds, SECONDS, "s"),
        ("the page", size, MEGABYTES, "MB"),
    ):
        verdict = "ok" if value <= limit else "MISSED"
        print(f"{what:45} {value:6.1f} {unit:2}  at most {limit:.0f}: {verdict}")
    print(f"{'  CPU time':45} {spent.ru_utime + spent.ru_stime:6.1f} s")
    print(f"{'lower bound: read with polars and evaluate':45} {least:6.1f} s")
    print(f"{'read the page and write it again':45} {reloaded:6.1f} s")


if __name__ == "__main__":
    main()
