"""Import of top-k lists: a file of AnyBURL for the test split of FB15k-237, with k answers per list.

    EVENRANK_DATA=FOLDER python benchmarks/lists.py [K]

The answers are synthetic; names, triples and known true answers are those of FB15k-237. Two values of K
show that memory does not grow with the file. The lower bound is the time to split the lines, look up the
names and parse the confidences.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import evenrank as er
from evenrank.integrations import topk


def make(graph: er.Graph, path: Path, k: int) -> None:
    """Write a block per triple: k random entities; half of the lists have the target near the top."""
    rng = np.random.default_rng(0)
    names = np.array(graph.entities, dtype=object)
    confidence = [f"{c:.4f}" for c in np.linspace(1, 0.01, k)]
    with path.open("w") as file:
        for h, r, t in graph.splits["test"]:
            file.write(f"{names[h]} {graph.relations[r]} {names[t]}\n")
            for word, right in (("Heads", h), ("Tails", t)):
                listed = rng.choice(len(names), k, replace=False, shuffle=False)
                if rng.random() < 0.5 and right not in listed:
                    listed[min(int(rng.exponential(5)), k - 1)] = right
                pairs = (f"{n}\t{c}\t" for n, c in zip(names[listed], confidence, strict=True))
                file.write(f"{word}: {''.join(pairs)}\n")


def floor(graph: er.Graph, path: Path) -> float:
    """Time the least work per answer."""
    number = {name: i for i, name in enumerate(graph.entities)}
    start = time.perf_counter()
    with path.open() as file:
        for line in file:
            fields = line[7:].split("\t")
            if len(fields) > 3:
                ids = [number[name] for name in fields[:-1:2]]
                scores = [float(field) for field in fields[1::2]]
                assert len(ids) == len(scores)
    return time.perf_counter() - start


def main() -> None:
    k = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    graph = er.load("fb15k237")
    task = graph.task("test")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions"
        make(graph, path, k)
        least = floor(graph, path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        ranks = topk.anyburl(path, graph, task)
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answers = len(task) * k
        print(f"{path.stat().st_size / 1e6:,.0f} MB, {len(task):,} lists of {k} answers")
        print(f"imported in {seconds:.1f} s: {answers / seconds / 1e6:.2f} million answers/s")
        print(f"lower bound (split, look up, parse): {least:.1f} s; ratio {seconds / least:.1f}")
        print(f"memory: {before / 1e3:,.0f} MB before, {after / 1e3:,.0f} MB peak")
        print(ranks.protocol.scores)


if __name__ == "__main__":
    main()
