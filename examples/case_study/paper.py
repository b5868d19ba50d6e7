"""Train a model with PyKEEN and the paper's settings; rank it with evenrank and PyKEEN's evaluator.

Needs PyKEEN, an extra of the project (`pip install 'evenrank[peers]'`).
"""

from __future__ import annotations

import logging
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

import evenrank as er

with warnings.catch_warnings():
    # importing PyKEEN and its dependencies emits warnings
    warnings.simplefilter("ignore")
    import torch
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.pipeline import pipeline
    from pykeen.triples import TriplesFactory

T = TypeVar("T")

SETTINGS = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
# Metrics of both libraries, without adjusted hits, of which PyKEEN keeps only the last k, and without
# z-scores, which amplify the rounding of PyKEEN's single-precision ranks.
SHARED = (
    "arithmetic_mean_rank",
    "geometric_mean_rank",
    "harmonic_mean_rank",
    "median_rank",
    "inverse_harmonic_mean_rank",
    "hits_at_1",
    "hits_at_3",
    "hits_at_10",
    "adjusted_arithmetic_mean_rank",
    "adjusted_arithmetic_mean_rank_index",
    "adjusted_inverse_harmonic_mean_rank",
)
PART = 64  # sub-batch whose negatives fit into the cache: same gradient, several times as fast
AGREE = 1e-6  # PyKEEN keeps ranks in single precision


class Trained(NamedTuple):
    """A model, its ranks, and times in seconds."""

    model: er.models.Model
    ranks: er.Ranks
    training: float
    evenrank: float
    pykeen: float
    deviation: float  # largest difference of the two libraries' metrics, relative above 1


def train(graph: er.Graph, name: str, *, epochs: int | None = None, seed: int = 0) -> Trained:
    """Train a model of a graph with the paper's settings (fewer epochs, if asked) and rank it."""
    settings = SETTINGS[name]
    training = settings["training_kwargs"] | {"use_tqdm": False}
    if epochs is not None:
        training["num_epochs"] = epochs
    if settings["training_loop"] == "slcwa":
        training["sub_batch_size"] = PART
    splits = factories(graph)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pipeline(
            training=splits["train"],
            validation=splits["valid"],
            testing=splits["test"],
            model=name,
            random_seed=seed,
            device="cpu",
            use_tqdm=False,
            evaluation_kwargs={"use_tqdm": False},
            **settings | {"training_kwargs": training},
        )
    took = time.perf_counter() - start
    model, task = converted(name, result.model), graph.task("test")
    ours, ranks = best(lambda: er.rank(model, task, progress=False))
    theirs, _ = best(lambda: evaluated(result.model, splits))
    # a few ranks differ with its single-precision scores, none with double precision
    metrics = evaluated(result.model.double(), splits)
    return Trained(model, ranks, took, ours, theirs, deviation(ranks, metrics))


def factories(graph: er.Graph) -> dict[str, TriplesFactory]:
    """Make PyKEEN's factories with the same ids; only the training split has inverse triples."""
    ids = [{name: i for i, name in enumerate(names)} for names in (graph.entities, graph.relations)]
    return {
        split: TriplesFactory(
            torch.as_tensor(np.array(rows)), *ids, create_inverse_triples=split == "train"
        )
        for split, rows in graph.splits.items()
    }


def evaluated(model: Any, splits: Mapping[str, TriplesFactory]) -> dict[str, float]:
    """Rank by PyKEEN's evaluator: filtered, both sides, all entities, realistic ties."""
    results = RankBasedEvaluator(filtered=True).evaluate(
        model,
        splits["test"].mapped_triples,
        additional_filter_triples=[splits["train"].mapped_triples, splits["valid"].mapped_triples],
        use_tqdm=False,
    )
    return {name: results.get_metric(f"both.realistic.{name}") for name in SHARED}


def deviation(ranks: er.Ranks, metrics: Mapping[str, float]) -> float:
    """Return the largest deviation of PyKEEN's metrics from ours; exit if it exceeds rounding errors."""
    ours = ranks.evaluate(*metrics, ties="realistic")
    far = {name: abs(ours[name] - value) / max(1.0, abs(value)) for name, value in metrics.items()}
    name = max(far, key=lambda name: far[name])
    if not far[name] <= AGREE:
        raise SystemExit(f"{name}: evenrank has {ours[name]}, PyKEEN has {metrics[name]}")
    return float(far[name])


def converted(name: str, trained: Any) -> er.models.Model:
    """Convert a trained PyKEEN model to one of evenrank; inverse relations are interleaved."""
    trained.eval()
    with torch.no_grad():
        entity, relation = (
            tables[0](indices=None).numpy().copy()
            for tables in (trained.entity_representations, trained.relation_representations)
        )
    match name:
        case "complex":
            return er.models.ComplEx(entity, relation, inverse="interleaved")
        case "rotate":
            return er.models.RotatE(entity, relation, p=2, inverse="interleaved")
        case "transe":
            return er.models.TransE(entity, relation, p=1, inverse="interleaved")
        case _:
            inner = trained.interaction
            norms = affine(inner.head_batch_norm), affine(inner.head_relation_batch_norm)
            core = inner.core_tensor.detach().numpy().copy()
            return er.models.TuckER(entity, relation, core, *norms, inverse="interleaved")


def affine(norm: torch.nn.BatchNorm1d) -> Any:
    """Return scales and shifts of a batch normalisation in evaluation mode."""
    state = {name: tensor.double().numpy() for name, tensor in norm.state_dict().items()}
    scale = state["weight"] / np.sqrt(state["running_var"] + norm.eps)
    return np.stack([scale, state["bias"] - state["running_mean"] * scale])


def best(work: Callable[[], T], turns: int = 3) -> tuple[float, T]:
    """Return the least time of several calls, and the result."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


for _library in ("pykeen", "torch_max_mem"):  # they log in every run
    logging.getLogger(_library).setLevel(logging.ERROR)
