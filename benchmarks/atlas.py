"""Counting the candidates of a data set, and adjusting a published value with bundled counts.

    python benchmarks/atlas.py [FOLDER]

FB15k-237 is read from FOLDER or found like in the tests, otherwise a graph of the same shape is
generated.

Build: every split, both sides, with and without entities not seen in training. The lower bound is one
sort of all triples per side and rule, with keys made before; counting known true answers takes at least
that. PyKEEN's `get_candidate_set_size` returns both sides of one split under one rule; all three splits
are timed. Its counts must be ours minus one, since it leaves the target out.

Adjust: in a new process, from after `import evenrank` to the result; the best of several, with files in
the page cache. Its steps are timed in separate processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import evenrank as er
from evenrank.graphs import atlas
from evenrank.metrics.chance import read_sizes
from null import best
from rank import folder, load, verdict

MOST_BUILD_S, MOST_ADJUST_S = 2.0, 0.2
PROCESSES = 7
ADJUST = 'er.adjust({"mrr": 0.476, "hits@10": 0.571}, data="wn18rr")'
STEPS = {
    "polars imported": "import polars",
    "name looked up": 'from evenrank.graphs import registry; registry.lookup("wn18rr")',
    "counts read": 'er.atlas("wn18rr")',
    "adjusted": ADJUST,
}


def floor(graph: er.Graph) -> Callable[[], object]:
    """Return the lower bound: sorts of all triples, one per side and rule for unseen entities."""
    h, r, t = np.concatenate(list(graph.splits.values())).T
    entities, relations = len(graph.entities), len(graph.relations)
    keys = [(h * relations + r) * entities + t, (t * relations + r) * entities + h] * 2
    return lambda: [np.sort(key) for key in keys]


def load_pykeen() -> Any:
    """Import the module with PyKEEN's helper; None if PyKEEN is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("pykeen.evaluation.evaluator")
    except ImportError:
        return None


def theirs(pykeen: Any, graph: er.Graph) -> tuple[float, bool]:
    """Time PyKEEN's counts of all splits; return whether they are ours minus one."""
    torch = import_module("torch")
    splits = {split: torch.as_tensor(triples.copy()) for split, triples in graph.splits.items()}

    def count() -> dict[str, Any]:
        return {
            split: pykeen.get_candidate_set_size(
                mapped_triples=triples,
                additional_filter_triples=[other for s, other in splits.items() if s != split],
                num_entities=len(graph.entities),
            )
            for split, triples in splits.items()
        }

    seconds, frames = best(count, times=3)
    same = all(
        read_sizes(frame[f"{side}_candidates"].to_numpy() + 1) == er.atlas(graph, split, side)
        for split, frame in frames.items()
        for side in ("head", "tail")
    )
    return seconds, same


def fresh(*steps: str) -> list[float]:
    """Time consecutive steps in a new process; return the best of several processes for each."""
    lines = ["import evenrank as er", "from time import perf_counter as now", "times = [now()]"]
    for step in steps:
        lines += [step, "times.append(now())"]
    lines.append("print(*(b - a for a, b in zip(times, times[1:])))")
    command = [sys.executable, "-c", "\n".join(lines)]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(PROCESSES)
    ]
    return np.array([run.stdout.split() for run in runs], dtype=float).min(axis=0).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder of FB15k-237")
    data = folder(parser.parse_args().folder)
    print(
        f"evenrank {er.__version__}, numpy {version('numpy')}, polars {version('polars')}; "
        f"load {os.getloadavg()[0]:.1f}\n"
    )
    reading, graph = best(lambda: load(data, quick=False), times=3)
    building, rows = best(lambda: atlas.build(graph))
    sorting, _ = best(floor(graph))
    triples = sum(map(len, graph.splits.values()))
    print(f"{graph.name}: {len(rows):,} rows, from {triples:,} triples")
    print(f"build      {building:7.3f} s   <= {MOST_BUILD_S:g} {verdict(building <= MOST_BUILD_S)}")
    total = reading + building
    print(f"and read   {total:7.3f} s   <= {MOST_BUILD_S:g} {verdict(total <= MOST_BUILD_S)}")
    print(f"read       {reading:7.3f} s   build / read {building / reading:.2f}")
    print(f"four sorts {sorting:7.3f} s   build / sorts {building / sorting:.2f}")
    pykeen = load_pykeen()
    if pykeen is None:
        print("PyKEEN is not installed")
    else:
        seconds, same = theirs(pykeen, graph)
        counts = "its counts are ours minus one" if same else "ITS COUNTS DIFFER"
        print(f"PyKEEN     {seconds:7.3f} s   PyKEEN / build {seconds / building:.2f}; {counts}")

    (whole,) = fresh(ADJUST)
    parts = fresh(*STEPS.values())
    print(f"\nadjust in a new process, after import: best of {PROCESSES}")
    print(f"total      {whole:7.3f} s   <= {MOST_ADJUST_S:g} {verdict(whole <= MOST_ADJUST_S)}")
    for name, seconds in zip(STEPS, parts, strict=True):
        print(f"  {name:16} {seconds * 1e3:7.1f} ms")


if __name__ == "__main__":
    main()
