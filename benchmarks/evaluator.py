"""Times of PyKEEN's evaluator and of `EvenRankEvaluator`, and equality of their metrics.

    python benchmarks/evaluator.py [FOLDER] [--quick] [--device cuda]

Each evaluator is called as in a pipeline: models of PyKEEN with random weights, filtered by all
triples, both sides, 225 metrics. `EvenRankEvaluator` is also called again with the same triples, as
in early stopping. FB15k-237 is read from FOLDER or found like in the tests, otherwise a graph of
the same shape is generated. Without a GPU, PyKEEN is timed there on two slices of triples, whose
difference gives its seconds per triple, and `EvenRankEvaluator` on all triples. The best of three
runs counts, since other processes may share the machine. Both must have equal metrics on the
triples that PyKEEN ranked: to 1e-6 on Nations, and up to the order of float32 scores on FB15k-237.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import evenrank as er
from rank import drawn_graph, folder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pykeen import models
    from pykeen.evaluation import RankBasedEvaluator

    from evenrank.integrations.pykeen import EvenRankEvaluator, factories

MODELS = {"DistMult": 256, "ComplEx": 128, "TransE": 256, "RotatE": 128}  # with dimensions
FEW, MANY, TURNS = 32, 160, 3
KEY = "both.realistic.inverse_harmonic_mean_rank"


def evaluated(
    evaluator: Any, model: Any, triples: Any, made: dict[str, Any]
) -> tuple[float, dict[str, float]]:
    """Evaluate once; return seconds and metrics."""
    others = [factory.mapped_triples for factory in made.values()]
    start = time.perf_counter()
    results = evaluator.evaluate(model, triples, additional_filter_triples=others, use_tqdm=False)
    return time.perf_counter() - start, results.to_flat_dict()


def best(kind: Any, *args: Any) -> tuple[float, dict[str, float]]:
    """Return the fastest of several runs, each with a new evaluator."""
    return min((evaluated(kind(), *args) for _ in range(TURNS)), key=lambda run: run[0])


def compare(name: str, dimension: int, graph: er.Graph, few: int, many: int | None, device: str) -> None:
    made = factories(graph, inverse=True)
    model = getattr(models, name)(
        triples_factory=made["training"], embedding_dim=dimension, random_seed=0
    ).to(device)
    test = made["testing"].mapped_triples
    test = test[torch.from_numpy(np.random.default_rng(0).permutation(len(test)))]
    some = test[:many]
    theirs, expected = best(RankBasedEvaluator, model, some, made)
    if len(some) < len(test):
        start, _ = best(RankBasedEvaluator, model, test[:few], made)
        theirs = start + (theirs - start) / (len(some) - few) * (len(test) - few)
    first, _ = best(EvenRankEvaluator, model, test, made)
    evaluator = EvenRankEvaluator()
    again = min(evaluated(evaluator, model, test, made)[0] for _ in range(2 + TURNS))
    _, found = evaluated(EvenRankEvaluator(), model, some, made)
    assert list(found) == list(expected)
    off = max(abs(found[key] - value) / max(1.0, abs(value)) for key, value in expected.items())
    assert off < 1e-6 or graph.name != "nations"
    assert abs(found[KEY] / expected[KEY] - 1) < 1e-3
    print(
        f"{graph.name:10} {name:9} {theirs:9.3f} {first:9.4f} {theirs / first:7.1f} x"
        f" {again:9.4f} {theirs / again:7.1f} x   {off:.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--quick", action="store_true", help="two models, smaller slices")
    parser.add_argument("--device", default="cpu", help="device of the models")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    path = folder(given.folder)
    large = er.load(path, unseen="drop") if path else drawn_graph()
    names = list(MODELS)[:2] if given.quick else list(MODELS)
    versions = f"pykeen {version('pykeen')}, torch {torch.__version__}"
    print(f"evenrank {er.__version__}, {versions}; {given.device}")
    heads = f"{'first':>9} {'faster':>9} {'again':>9} {'faster':>9}   largest difference"
    print(f"seconds{'PyKEEN':>23} {heads}")
    few, many = (16, 48) if given.quick else (FEW, MANY)
    for graph in (er.load("nations"), large):
        whole = graph is not large or given.device != "cpu"
        for name in names:
            compare(name, MODELS[name], graph, few, None if whole else many, given.device)


if __name__ == "__main__":
    main()
