"""Rank the validation split against all entities after every training epoch, on the model's device.

Usage: python examples/rank_while_training.py [GRAPH] [EPOCHS]

The task is created once; its index moves to the device with the first ranking and stays there. The
model's own parameters are used, without a copy. Filtered ranking against all entities is fast enough
(compare the two printed times) that candidates need not be sampled. Needs torch.
"""

import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import evenrank as er


class ComplEx(nn.Module):
    """Re<e, r, conj(x)>; rows hold real parts, then imaginary parts; and a row per inverse relation."""

    def __init__(self, entities: int, relations: int, dimension: int) -> None:
        super().__init__()
        self.entity = nn.Parameter(1e-2 * torch.randn(entities, 2 * dimension))
        self.relation = nn.Parameter(1e-2 * torch.randn(2 * relations, 2 * dimension))

    def forward(self, e: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        (a, b), (c, d) = self.entity[e].chunk(2, 1), self.relation[r].chunk(2, 1)
        return torch.cat([a * c - b * d, a * d + b * c], 1) @ self.entity.T


def main(name: str = "umls", epochs: int = 15) -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graph = er.load(name)
    task = graph.task("valid")
    model = ComplEx(len(graph.entities), len(graph.relations), 64).to(device)
    ranked = er.models.ComplEx(model.entity, model.relation, inverse="stacked")  # the same memory
    h, r, t = torch.as_tensor(graph.splits["train"].copy(), device=device).T
    rows = torch.cat([torch.stack([h, r, t], 1), torch.stack([t, r + len(graph.relations), h], 1)])
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        for batch in rows[torch.randperm(len(rows), device=device)].split(512):
            loss = cross_entropy(model(batch[:, 0], batch[:, 1]), batch[:, 2])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trained = time.perf_counter()
        result = er.rank(ranked, task, progress=False).evaluate("mrr", "index(mrr)")
        took = time.perf_counter() - trained
        print(
            f"epoch {epoch:3}: MRR {result['mrr']:.4f}, adjusted index {result['index(mrr)']:.4f}; "
            f"trained in {1e3 * (trained - start):.0f} ms, ranked in {1e3 * took:.0f} ms"
        )


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
