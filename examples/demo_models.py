"""Train TransE, RotatE, ComplEx and TuckER on the bundled graphs and write them as safetensors.

Usage: python examples/demo_models.py OUT_DIR [names...]

Each model is small and has reciprocal relations: the query `(?, r, t)` becomes `(t, r + R, ?)`. It is
trained by softmax cross entropy over all entities, with a fixed seed, and its weights are written to
OUT_DIR/{graph}-{model}.safetensors. The filtered MRR on the test split is computed twice, from dense
scores here and by `evenrank.rank`, and both must agree. `names` select by graph (`umls`), model
(`complex`) or both (`umls-complex`); the default is all twelve.
Needs torch, and two minutes of one CPU core. The bundled models were made by this script.
"""

import sys
import time
from math import pi
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

import evenrank as er

SEED = 0


class Config(NamedTuple):
    """Hyperparameters, chosen on the validation splits (except p = 2 on nations, for variety)."""

    dim: int  # numbers per entity
    epochs: int
    lr: float = 0.1
    penalty: float = 0.0
    dropout: float = 0.0
    batch: int = 256
    p: int = 1  # the norm of TransE


class TransE(nn.Module):
    """Minus the p-norm of e + r - x."""

    def __init__(self, entities: int, relations: int, config: Config) -> None:
        super().__init__()
        self.p, scale = config.p, config.dim ** (-1 / config.p)
        self.entity = nn.Parameter(scale * torch.randn(entities, config.dim))
        self.relation = nn.Parameter(scale * torch.randn(relations, config.dim))

    def query(self, e: Tensor, r: Tensor) -> Tensor:
        return e + self.relation[r]

    def score(self, query: Tensor) -> Tensor:
        return -torch.cdist(query, self.entity, self.p, "donot_use_mm_for_euclid_dist")

    def penalty(self, e: Tensor, r: Tensor, x: Tensor) -> Tensor:
        return sum(row.square().sum(1).mean() for row in (e, self.relation[r], x))


class RotatE(nn.Module):
    """Minus the sum of the moduli of e * exp(i r) - x."""

    def __init__(self, entities: int, relations: int, config: Config) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.randn(entities, config.dim) / config.dim)
        self.relation = nn.Parameter(pi * (2 * torch.rand(relations, config.dim // 2) - 1))

    def query(self, e: Tensor, r: Tensor) -> Tensor:
        phase = self.relation[r]
        return product(e, torch.cat((phase.cos(), phase.sin()), 1))

    def score(self, query: Tensor) -> Tensor:
        (a, b), (c, d) = query[:, None].chunk(2, 2), self.entity.chunk(2, 1)
        return -torch.hypot(a - c + 1e-30, b - d).sum(2)  # not differentiable at 0

    def penalty(self, e: Tensor, _: Tensor, x: Tensor) -> Tensor:
        return sum(row.square().sum(1).mean() for row in (e, x))


class ComplEx(nn.Module):
    """The real part of the sum of e * r * conj(x), with a penalty on cubed moduli (N3)."""

    def __init__(self, entities: int, relations: int, config: Config) -> None:
        super().__init__()
        self.entity = nn.Parameter(1e-2 * torch.randn(entities, config.dim))
        self.relation = nn.Parameter(1e-2 * torch.randn(relations, config.dim))

    def query(self, e: Tensor, r: Tensor) -> Tensor:
        return product(e, self.relation[r])

    def score(self, query: Tensor) -> Tensor:
        return query @ self.entity.T

    def penalty(self, e: Tensor, r: Tensor, x: Tensor) -> Tensor:
        squares = (torch.stack(row.chunk(2, 1)).square().sum(0) for row in (e, self.relation[r], x))
        return sum((square + 1e-12).pow(1.5).sum(1).mean() for square in squares)


class TuckER(nn.Module):
    """The sum of core[i, j, k] * e[i] * r[j] * x[k]; regularised by dropout only."""

    def __init__(self, entities: int, relations: int, config: Config) -> None:
        super().__init__()
        d, scale = config.dim, config.dim**-0.5
        self.entity = nn.Parameter(scale * torch.randn(entities, d))
        self.relation = nn.Parameter(scale * torch.randn(relations, d))
        self.core = nn.Parameter(scale * torch.randn(d, d, d))

    def query(self, e: Tensor, r: Tensor) -> Tensor:
        return torch.einsum("bi,bj,ijk->bk", e, self.relation[r], self.core)

    def score(self, query: Tensor) -> Tensor:
        return query @ self.entity.T


Model = TransE | RotatE | ComplEx | TuckER
MODELS = {cls.__name__.lower(): cls for cls in (TransE, RotatE, ComplEx, TuckER)}
CONFIGS = {
    "nations-transe": Config(64, 20, penalty=0.03, p=2),
    "nations-rotate": Config(64, 50, lr=0.2, penalty=0.01, batch=128),
    "nations-complex": Config(128, 60, penalty=0.003, dropout=0.2),
    "nations-tucker": Config(24, 40),
    "kinships-transe": Config(96, 40, penalty=0.01),
    "kinships-rotate": Config(96, 30, lr=0.2, penalty=0.03, batch=128),
    "kinships-complex": Config(128, 60, penalty=0.01, dropout=0.2),
    "kinships-tucker": Config(32, 40, dropout=0.1),
    "umls-transe": Config(64, 20, lr=0.03, penalty=0.03),
    "umls-rotate": Config(64, 25, lr=0.2, penalty=0.01, batch=128),
    "umls-complex": Config(128, 50, penalty=0.01),
    "umls-tucker": Config(24, 20),
}


def product(x: Tensor, y: Tensor) -> Tensor:
    """Multiply complex rows, stored as real parts, then imaginary parts."""
    (a, b), (c, d) = x.chunk(2, 1), y.chunk(2, 1)
    return torch.cat((a * c - b * d, a * d + b * c), 1)


def as_queries(triples: np.ndarray, relations: int) -> Tensor:
    """Rows (entity, relation, answer): first all tails, then all heads (reciprocal relations)."""
    heads = triples[:, ::-1] + np.array([0, relations, 0])
    return torch.from_numpy(np.concatenate((triples, heads)))


def train(model: Model, asked: Tensor, config: Config) -> None:
    """Train the model with all entities as candidates of each query."""
    optimizer = torch.optim.Adagrad(model.parameters(), lr=config.lr)
    for _ in range(config.epochs):
        for batch in asked[torch.randperm(len(asked))].split(config.batch):
            e, r, x = batch.T
            entity = model.entity[e]
            query = model.query(dropout(entity, config.dropout), r)
            loss = cross_entropy(model.score(dropout(query, config.dropout)), x)
            if config.penalty:
                loss = loss + config.penalty * model.penalty(entity, r, model.entity[x])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def mrr(model: Model, asked: Tensor, everything: Tensor) -> float:
    """Compute the filtered mean reciprocal rank from the scores of all entities, in float64."""
    model, (e, r, x) = model.double(), asked.T
    known = torch.zeros(len(model.relation), *2 * [len(model.entity)], dtype=torch.bool)
    known[everything[:, 1], everything[:, 0], everything[:, 2]] = True
    queries = model.query(model.entity[e], r)
    scores = torch.cat([model.score(batch) for batch in queries.split(128)])
    if not scores.isfinite().all():
        raise ArithmeticError("training diverged: some scores are not finite")
    own = scores.gather(1, x[:, None])
    better = ((scores > own) & ~known[r, e]).sum(1)  # trained models have no ties
    return float((1 / (1 + better.double())).mean())


def main(out: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    for label, config in CONFIGS.items():
        name, kind = label.split("-")
        if names and not {label, name, kind} & set(names):
            continue
        start, graph, cls = time.perf_counter(), er.load(name), MODELS[kind]
        relations = len(graph.relations)
        asked = {split: as_queries(triples, relations) for split, triples in graph.splits.items()}
        torch.manual_seed(SEED)
        model = cls(len(graph.entities), 2 * relations, config)
        train(model, asked["train"], config)
        arrays = (weights.detach().numpy().copy() for weights in model.parameters())
        options = {"p": config.p} if kind == "transe" else {}
        stored = getattr(er.models, cls.__name__)(*arrays, inverse="stacked", **options)
        path = out / f"{label}.safetensors"
        er.models.save(stored, path, graph=graph)
        everything = torch.cat(list(asked.values()))
        valid, test = (mrr(model, asked[split], everything) for split in ("valid", "test"))
        result = er.rank(er.models.load(path), graph.task("test")).evaluate("mrr", "hits@10")
        print(
            f"{label:16}  valid MRR {valid:.4f}  test MRR {test:.4f}, by er.rank {result['mrr']:.4f}"
            f"  hits@10 {result['hits@10']:.4f}  {path.stat().st_size:7,} bytes"
            f"  {time.perf_counter() - start:3.0f} s",
            flush=True,
        )
        if abs(test - result["mrr"]) > 1e-12:
            raise ArithmeticError(f"{label}: {test} here, {result['mrr']} by er.rank")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
