"""Times of own torch modules in `er.rank`, beside a loop over batches in plain torch.

    python benchmarks/scorers.py [--triples 200] [--batch 16] [--threads 2]

The graph has the shape of FB15k-237, and the modules have 200 dimensions: DistMult and TransE, which
broadcast; DistMult for vectors of one length only; and a perceptron with dropout. The loop scores a
batch of triples with all entities at a time, removes the known true answers, and counts, as most code
does. They run alternately, with the same threads of torch, and the best of the rounds counts. Their
counts must be equal, but for scores that differ in the last digits. For comparison, DistMult is also
ranked as a model that factors.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

import evenrank as er
from rank import drawn_graph

DIMENSION, ROUNDS = 200, 3


class DistMult(torch.nn.Module):
    """The product of three vectors."""

    def __init__(self, entities: int, relations: int) -> None:
        super().__init__()
        self.entity = torch.nn.Embedding(entities, DIMENSION)
        self.relation = torch.nn.Embedding(relations, DIMENSION)

    def forward(self, h: Any, r: Any, t: Any) -> Any:
        return (self.entity(h) * self.relation(r) * self.entity(t)).sum(-1)


class OfVectors(DistMult):
    """DistMult for vectors of one length."""

    def forward(self, h: Any, r: Any, t: Any) -> Any:
        return (self.entity(h) * self.relation(r) * self.entity(t)).sum(dim=1)


class TransE(DistMult):
    """The distance of head plus relation from the tail."""

    def forward(self, h: Any, r: Any, t: Any) -> Any:
        return -(self.entity(h) + self.relation(r) - self.entity(t)).norm(p=1, dim=-1)


class Perceptron(DistMult):
    """Two layers on the product."""

    def __init__(self, entities: int, relations: int) -> None:
        super().__init__(entities, relations)
        self.layers = torch.nn.Sequential(
            torch.nn.Dropout(), torch.nn.Linear(DIMENSION, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )

    def forward(self, h: Any, r: Any, t: Any) -> Any:
        return self.layers(self.entity(h) * self.relation(r) * self.entity(t))


def loop(module: Any, graph: er.Graph, batch: int) -> np.ndarray[Any, Any]:
    """Count the better entities of both sides, a batch of triples at a time."""
    known: dict[tuple[int, int, int], list[int]] = {}
    for rows in graph.splits.values():
        for h, r, t in rows.tolist():
            known.setdefault((h, r, -1), []).append(t)
            known.setdefault((-1, r, t), []).append(h)
    every, found = torch.arange(graph.num_entities), []
    module.eval()
    test = torch.tensor(graph.triples("test"))
    flat = isinstance(module, OfVectors)
    with torch.no_grad():
        for side, column in (("tail", 2), ("head", 0)):
            for some in test.split(batch):
                given = [some[:, i, None] for i in range(3)]
                given[column] = every[None]
                if flat:
                    given = [ids.expand(len(some), len(every)).reshape(-1) for ids in given]
                scores = module(*given).reshape(len(some), len(every))
                for row, (h, r, t) in enumerate(some.tolist()):
                    target = (h, r, t)[column]
                    goal = scores[row, target].clone()
                    scores[row, known[(h, r, -1) if side == "tail" else (-1, r, t)]] = -torch.inf
                    found.append(int((scores[row] > goal).sum()))
    module.train()
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--triples", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="triples per batch of the loop")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    whole = drawn_graph()
    splits = {name: rows for name, rows in whole.splits.items() if name != "test"}
    some = np.random.default_rng(0).permutation(whole.triples("test"))[: given.triples]
    graph = er.Graph.of(
        {**splits, "test": some}, entities=whole.num_entities, relations=whole.num_relations
    )
    task = graph.task("test")
    torch.manual_seed(0)
    print(f"{task.scores / 1e6:.1f} million scores; torch {torch.__version__}, {given.threads} threads")
    print(f"{'M scores/s':12} {'loop':>8} {'er.rank':>8} {'ratio':>8}   counts that differ")
    for kind in (DistMult, OfVectors, TransE, Perceptron):
        module = kind(graph.num_entities, graph.num_relations)
        best = [np.inf, np.inf]
        for _ in range(ROUNDS):
            start = time.perf_counter()
            wanted = loop(module, graph, given.batch)
            middle = time.perf_counter()
            ranks = er.rank(module, task, progress=False)
            best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
        rates = [2 * len(some) * graph.num_entities / best[0] / 1e6, task.scores / best[1] / 1e6]
        order = np.argsort(ranks.keys["side"] == "head", kind="stable")
        differ = np.mean(ranks.better[order] != wanted)
        speed = " ".join(f"{rate:8.1f}" for rate in (*rates, rates[1] / rates[0]))
        print(f"{kind.__name__:12} {speed}   {differ:.2%}", flush=True)
        assert differ < 0.05
        assert module.training
    model = er.models.DistMult(module.entity.weight, module.relation.weight)
    start = time.perf_counter()
    er.rank(model, task, progress=False)
    print(f"{'DistMult that factors':21} {task.scores / (time.perf_counter() - start) / 1e6:8.1f}")


if __name__ == "__main__":
    main()
