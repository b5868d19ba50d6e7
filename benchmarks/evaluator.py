"""PyKEEN's own evaluation beside the same with `EvenRankEvaluator`: times, and the same numbers.

    python benchmarks/evaluator.py [FOLDER] [--quick]

Each evaluator is called as a pipeline calls it: models of PyKEEN with random weights, filtered by all
triples, both sides, 225 metrics. Nations is ranked whole; there most of the time goes into the metrics,
which are PyKEEN's in both. FB15k-237 is taken from FOLDER or from where the tests find it, else drawn
in its shape; on it PyKEEN is timed on two slices of the test triples, whose difference gives its seconds
per triple, and ours on all of them, from triples to metrics. The better of two runs counts, since other
processes may share the machine. On the larger slice both must give the same values: to 1e-6 on Nations,
and as far as float32 orders scores on FB15k-237.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
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

MODELS = {"DistMult": 256, "ComplEx": 128, "TransE": 256, "RotatE": 128}  # and their dimensions
FEW, MANY, TURNS = 32, 160, 2
KEY = "both.realistic.inverse_harmonic_mean_rank"


def evaluated(
    kind: Any, model: Any, triples: Any, made: dict[str, Any]
) -> tuple[float, dict[str, float]]:
    """Evaluate once, with an evaluator of its own; give seconds and metrics."""
    others = [factory.mapped_triples for factory in made.values()]
    start = time.perf_counter()
    results = kind().evaluate(model, triples, additional_filter_triples=others, use_tqdm=False)
    return time.perf_counter() - start, results.to_flat_dict()


def best(kind: Any, *args: Any) -> tuple[float, dict[str, float]]:
    return min((evaluated(kind, *args) for _ in range(TURNS)), key=lambda run: run[0])


def compare(name: str, dimension: int, graph: er.Graph, few: int, many: int) -> None:
    made = factories(graph, inverse=True)
    model = getattr(models, name)(
        triples_factory=made["training"], embedding_dim=dimension, random_seed=0
    )
    test = made["testing"].mapped_triples
    test = test[torch.from_numpy(np.random.default_rng(0).permutation(len(test)))]
    many = min(many, len(test))
    theirs, expected = best(RankBasedEvaluator, model, test[:many], made)
    if many < len(test):
        start, _ = best(RankBasedEvaluator, model, test[:few], made)
        theirs = start + (theirs - start) / (many - few) * (len(test) - few)
    ours, _ = best(EvenRankEvaluator, model, test, made)
    _, found = evaluated(EvenRankEvaluator, model, test[:many], made)
    assert list(found) == list(expected)
    off = max(abs(found[key] - value) / max(1.0, abs(value)) for key, value in expected.items())
    assert off < 1e-6 or graph.name != "nations"
    assert abs(found[KEY] / expected[KEY] - 1) < 1e-3
    print(
        f"{graph.name:10} {name:9} {theirs:9.2f} s {ours:8.3f} s {theirs / ours:8.1f} x   {off:.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--quick", action="store_true", help="two models, smaller slices")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    path = folder(given.folder)
    large = er.load(path, unseen="drop") if path else drawn_graph()
    names = list(MODELS)[:2] if given.quick else list(MODELS)
    print(
        f"{'graph':10} {'model':9} {'PyKEEN':>11} {'evenrank':>10} {'faster':>10}   largest difference"
    )
    few, many = (16, 48) if given.quick else (FEW, MANY)
    for graph in (er.load("nations"), large):
        for name in names:
            compare(
                name, MODELS[name], graph, few, len(graph.splits["test"]) if graph is not large else many
            )


if __name__ == "__main__":
    main()
