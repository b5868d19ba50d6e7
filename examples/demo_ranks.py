"""Train two small link-prediction models and write their filtered test ranks as Parquet.

Usage: python examples/demo_ranks.py DATASETS_DIR OUT_DIR [names...]

The files have relation, side and a query number as keys, but not the triples.
DATASETS_DIR/{name}/{train,valid,test}.txt.gz contain tab-separated triples (head, relation, tail).
ComplEx and TransE are trained on the train split (softmax cross entropy over all entities, or for
wn18rr over a random sample of them per batch; reciprocal relations) and rank the tail and the head of
every test triple. The candidates are all entities of the three splits except other known true answers.
Each row of OUT_DIR/{name}-{model}.parquet is one target: the number of candidates with a better score,
the number of other candidates with an equal score, and the number of candidates including the target.
Needs torch; runs on one CPU core. `evenrank demo` uses these ranks for the graphs that are too large to
be bundled.
"""

import gzip
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import evenrank as er

SPLITS = ("train", "valid", "test")


class Config(NamedTuple):
    """Hyperparameters, chosen on the validation splits."""

    dim: int
    epochs: int
    lr: float
    penalty: float
    batch: int = 256
    negatives: int = 1_000_000  # random candidates per batch; all entities if there are fewer


class ComplEx(nn.Module):
    """Re<e, r, conj(x)> with complex vectors of size dim / 2, cubed-modulus (N3) penalty."""

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__()
        self.entity = nn.Parameter(1e-2 * torch.randn(entities, dim))
        self.relation = nn.Parameter(1e-2 * torch.randn(relations, dim))

    def query(self, e: Tensor, r: Tensor) -> Tensor:
        (a, b), (c, d) = self.entity[e].chunk(2, 1), self.relation[r].chunk(2, 1)
        return torch.cat((a * c - b * d, a * d + b * c), 1)

    def score(self, query: Tensor, candidates: Tensor) -> Tensor:
        return query @ candidates.T

    def penalty(self, e: Tensor, r: Tensor, x: Tensor) -> Tensor:
        rows = (self.entity[e], self.relation[r], self.entity[x])
        moduli = (torch.stack(row.chunk(2, 1)).square().sum(0) + 1e-12 for row in rows)
        return sum((m.pow(1.5).sum(1).mean() for m in moduli), torch.zeros(()))


class TransE(nn.Module):
    """Minus the Euclidean distance between e + r and x, squared-norm penalty."""

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.randn(entities, dim) / dim**0.5)
        self.relation = nn.Parameter(torch.randn(relations, dim) / dim**0.5)

    def query(self, e: Tensor, r: Tensor) -> Tensor:
        return self.entity[e] + self.relation[r]

    def score(self, query: Tensor, candidates: Tensor) -> Tensor:
        return -torch.cdist(query, candidates)

    def penalty(self, e: Tensor, r: Tensor, x: Tensor) -> Tensor:
        rows = (self.entity[e], self.relation[r], self.entity[x])
        return sum((row.square().sum(1).mean() for row in rows), torch.zeros(()))


MODELS: dict[str, type[ComplEx] | type[TransE]] = {"complex": ComplEx, "transe": TransE}
CONFIGS = {
    ("codexsmall", "complex"): Config(128, 15, 0.1, 0.005, 512),
    ("codexsmall", "transe"): Config(128, 15, 0.1, 0.0, 512),
    ("wn18rr", "complex"): Config(128, 15, 0.1, 0.1, 1000, 2000),
    ("wn18rr", "transe"): Config(128, 15, 0.1, 0.0, 1000, 2000),
}


def read(path: Path) -> list[tuple[str, ...]]:
    """Read a gzipped file of tab-separated triples."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [tuple(f.strip() for f in line.split("\t")) for line in lines if line.strip()]


def as_queries(triples: np.ndarray, relations: int) -> np.ndarray:
    """Rows (entity, relation, answer): first all tails, then all heads (reciprocal relations)."""
    heads = triples[:, ::-1] + np.array([0, relations, 0])
    return np.concatenate((triples, heads))


def train(model: ComplEx | TransE, asked: np.ndarray, config: Config) -> None:
    """Train the model; all queries of a batch share a set of candidates."""
    rows, entities = torch.from_numpy(asked), len(model.entity)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=config.lr)
    for _ in range(config.epochs):
        for batch in rows[torch.randperm(len(rows))].split(config.batch):
            e, r, x = batch.T
            pool = torch.cat((x, torch.randperm(entities)[: config.negatives]))
            pool, index = pool.unique(return_inverse=True)
            scores = model.score(model.query(e, r), model.entity[pool])
            loss = nn.functional.cross_entropy(scores, index[: len(x)])
            loss = loss + config.penalty * model.penalty(e, r, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def rank(model: ComplEx | TransE, asked: np.ndarray, everything: np.ndarray) -> np.ndarray:
    """Count the better, equal and all candidates of each target."""
    answers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for e, r, x in everything.tolist():
        answers[e, r].append(x)
    model, counts = model.double(), []
    for batch in torch.from_numpy(asked).split(128):
        e, r, x = batch.T
        scores = model.score(model.query(e, r), model.entity)
        rival = torch.ones_like(scores, dtype=torch.bool)
        for row, (entity, relation, _) in zip(rival, batch.tolist(), strict=True):
            row[answers[entity, relation]] = False  # including the target
        own = scores.gather(1, x[:, None])
        better, equal = (scores > own) & rival, (scores == own) & rival
        counts.append(torch.stack((better.sum(1), equal.sum(1), rival.sum(1) + 1), 1))
    return torch.cat(counts).numpy()


def main(datasets: Path, out: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    for name in names or dict.fromkeys(name for name, _ in CONFIGS):
        splits = {split: read(datasets / name / f"{split}.txt.gz") for split in SPLITS}
        known = [triple for split in SPLITS for triple in splits[split]]
        entities = {e: i for i, e in enumerate(sorted({e for h, _, t in known for e in (h, t)}))}
        relations = {r: i for i, r in enumerate(sorted({r for _, r, _ in known}))}
        asked = {
            split: as_queries(
                np.array([(entities[h], relations[r], entities[t]) for h, r, t in triples]),
                len(relations),
            )
            for split, triples in splits.items()
        }
        everything = np.concatenate(list(asked.values()))
        for kind, cls in MODELS.items():
            start, config = time.perf_counter(), CONFIGS[name, kind]
            torch.manual_seed(0)
            model = cls(len(entities), 2 * len(relations), config.dim)
            train(model, asked["train"], config)
            counts = rank(model, asked["test"], everything)
            triples = splits["test"]
            queries = [("tail", h, r) for h, r, _ in triples] + [("head", t, r) for _, r, t in triples]
            numbers = {query: i for i, query in enumerate(dict.fromkeys(queries))}
            ranks = er.Ranks(
                *counts.T,
                keys={
                    "relation": [r for _, _, r in queries],
                    "side": [side for side, _, _ in queries],
                    "query": [numbers[query] for query in queries],
                },
                protocol={
                    "data": name,
                    "split": "test",
                    "model": cls.__name__,
                    "filter": "train, valid, test",
                    "candidates": "all entities",
                },
            )
            ranks.save(out / f"{name}-{kind}.parquet")
            result = ranks.evaluate("mrr", "hits@10", "mr")
            print(
                f"{name} {kind}: MRR {result['mrr']:.4f}, hits@10 {result['hits@10']:.4f},"
                f" MR {result['mr']:.2f}, {time.perf_counter() - start:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
