"""Time and size of two reports: the case study, and models on data sets of the size of FB15k-237.

    python benchmarks/report.py

The first is a report of the 16 files in examples/case_study/ranks, the second one of eight models on
four data sets. The limits are 2.5 s and 5 s, and 5 MB. The lower bounds are the time to import the
libraries, and that to read the files with polars and to evaluate the ranks. Ranks of the second are
synthetic: each model has its own skill, each relation its own difficulty, and the numbers of candidates
are those of the test triples of FB15k-237.
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
CASE_STUDY = Path(__file__).parents[1] / "examples" / "case_study" / "ranks"
SECONDS = {"case study": 2.5, "FB15k-237's size": 5.0}
MEGABYTES = 5.0
REPEATS = 3
LIBRARIES = "import numpy, polars, rich, scipy.special, threadpoolctl, typer"


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


def run(*words: str) -> tuple[float, float]:
    """Run Python in a process of its own; return wall and processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show(what: str, value: float, unit: str, limit: float | None = None) -> None:
    """Print a measured value, and whether it is within its limit."""
    verdict = "" if limit is None else f"  at most {limit:g}: {'ok' if value <= limit else 'MISSED'}"
    print(f"{what:45} {value:6.2f} {unit:2}{verdict}")


def main() -> None:
    imports = min(run("-c", LIBRARIES) for _ in range(REPEATS))[0]
    show("lower bound: import the libraries", imports, "s")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        cases = {
            "case study": sorted(CASE_STUDY.glob("*.parquet")),
            "FB15k-237's size": make(Path(folder)),
        }
        for name, files in cases.items():
            rows = sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in files)
            print(f"\n{name}: {len(files)} files, {rows:,} ranks; best of {REPEATS}")
            command = ["-m", "evenrank", "report", *map(str, files), "-o", str(page)]
            runs = [run(*command) for _ in range(REPEATS)]
            seconds = min(wall for wall, _ in runs)
            show("evenrank report, as a subprocess", seconds, "s", SECONDS[name])
            show("  relative to importing the libraries", seconds / imports, "x")
            show("  processor time", min(spent for _, spent in runs), "s")
            show("lower bound: read with polars and evaluate", floor(files), "s")
            show("the page", page.stat().st_size / 1e6, "MB", MEGABYTES)
        start = time.perf_counter()
        reload(page).save(Path(folder) / "again.html")
        show("read the page and write it again", time.perf_counter() - start, "s")


if __name__ == "__main__":
    main()
