"""Train ComplEx, RotatE, TransE and TuckER with all entities as candidates, for larger graphs.

Every entity is a candidate of every query, and head queries use inverse relations, so a step is a
matrix product and a softmax. Every few seconds, `er.rank` ranks the whole validation split on the
model's device; the best parameters are kept. Settings are in `recipes.toml`. Needs torch, and for these
graphs a GPU.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from math import pi
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, softplus

import evenrank as er
from evenrank.ranking.scorer import Factored

LAST = 0.02  # final learning rate as a share of the initial one; the decrease is linear
BOTH_WAYS = 0.5  # least share of reversed triples for a relation to count as symmetric
FIRST = 20.0, 0.5  # weight of the softmax loss: for symmetric relations, for others
NEVER = -1e4  # the score of an excluded candidate
CLOSE = 1e-6  # lower bound of squared distances: the root is not differentiable at 0


class Network(nn.Module):
    """Base class: a row per entity, one per relation and one per inverse relation."""

    form = "dot"

    def __init__(self, graph: er.Graph, entity: int, relation: int, scale: float) -> None:
        super().__init__()
        self.relations = len(graph.relations)
        self.entity = nn.Parameter(scale * torch.randn(len(graph.entities), entity))
        self.relation = nn.Parameter(scale * torch.randn(2 * self.relations, relation))

    @abstractmethod
    def vectors(self, e: Tensor, r: Tensor) -> Tensor:
        """Return the query vectors of `(e, r, ?)`."""

    def table(self) -> Tensor:
        """Return the rows of the candidates."""
        return self.entity

    @abstractmethod
    def kept(self) -> er.models.Model:
        """Return a copy of the current model."""

    def cubes(self, e: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Compute the N3 penalty of a batch: the sum of cubed moduli."""
        rows = torch.cat([self.entity[e], self.relation[r], self.entity[t]])
        return (rows.abs() ** 3).sum()

    def forward(self, e: Tensor, r: Tensor) -> Tensor:
        """Score all entities."""
        return self.vectors(e, r) @ self.table().T

    # what er.rank needs to use the network directly, on its device

    @property
    def device(self) -> str:
        return str(self.entity.device)

    def size(self, side: str) -> int:
        del side  # all entities for both sides
        return len(self.entity)

    def factored(self, side: str) -> Factored:
        return Factored(self.form, self.table().detach(), partial(self._queries, side))

    @torch.no_grad()
    def _queries(self, side: str, batch: Any) -> Tensor:
        h, r, t = torch.as_tensor(batch, device=self.entity.device).T
        return (self.vectors(h, r) if side == "tail" else self.vectors(t, r + self.relations)).double()


class ComplEx(Network):
    """Re<e, r, conj(x)>; rows hold real parts, then imaginary parts."""

    def __init__(self, graph: er.Graph, dimension: int) -> None:
        super().__init__(graph, 2 * dimension, 2 * dimension, 0.01)

    def vectors(self, e: Tensor, r: Tensor) -> Tensor:
        return product(self.entity[e], *self.relation[r].chunk(2, 1))

    def cubes(self, e: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return modulus(torch.cat([self.entity[e], self.relation[r], self.entity[t]])).pow(3).sum()

    def kept(self) -> er.models.Model:
        return er.models.ComplEx(*half(self.entity, self.relation), inverse="stacked")


class Distance(Network):
    """Minus the Euclidean distance of query vector and entity, or its square."""

    form = "l2"

    def __init__(self, graph: er.Graph, entity: int, relation: int, scale: float, squared: bool) -> None:
        super().__init__(graph, entity, relation, scale)
        self.squared = squared

    def forward(self, e: Tensor, r: Tensor) -> Tensor:
        q, x = self.vectors(e, r), self.table()
        # |q|^2 + |x|^2 - 2qx, a matrix product; |q|^2 is the same for all entities
        squares = torch.addmm(x.square().sum(1), q, x.T, alpha=-2)
        if self.squared:
            return -squares
        return -(squares + q.square().sum(1, keepdim=True)).clamp_min(CLOSE).sqrt()


class RotatE(Distance):
    """Relations are phases; rows of entities hold real parts, then imaginary parts."""

    def __init__(self, graph: er.Graph, dimension: int) -> None:
        super().__init__(graph, 2 * dimension, dimension, 0.1, squared=True)
        nn.init.uniform_(self.relation, -pi, pi)

    def vectors(self, e: Tensor, r: Tensor) -> Tensor:
        phase = self.relation[r]
        return product(self.entity[e], phase.cos(), phase.sin())

    def cubes(self, e: Tensor, r: Tensor, t: Tensor) -> Tensor:
        del r  # of modulus 1
        return modulus(torch.cat([self.entity[e], self.entity[t]])).pow(3).sum()

    def kept(self) -> er.models.Model:
        phase = self.relation.detach().cpu().numpy()  # not in half precision, so that moduli stay 1
        return er.models.RotatE(*half(self.entity), phase, p=2, inverse="stacked")


class TransE(Distance):
    """Relations are translations."""

    def __init__(self, graph: er.Graph, dimension: int, squared: bool, scale: float) -> None:
        super().__init__(graph, dimension, dimension, scale, squared)

    def vectors(self, e: Tensor, r: Tensor) -> Tensor:
        return self.entity[e] + self.relation[r]

    def kept(self) -> er.models.Model:
        return er.models.TransE(*half(self.entity, self.relation), p=2, inverse="stacked")


class TransEOnSphere(Distance):
    """Entities on the unit sphere, as in Bordes et al. (2013); inverses are negated relations."""

    def __init__(self, graph: er.Graph, dimension: int, sharpness: float) -> None:
        super().__init__(graph, dimension, dimension, 0.1, squared=False)
        self.relation = nn.Parameter(self.relation[: self.relations].detach())
        self.sharpness = sharpness  # factor of distances, which are at most 2 between entities

    def table(self) -> Tensor:
        return normalize(self.entity)

    def vectors(self, e: Tensor, r: Tensor) -> Tensor:
        return self.table()[e] + torch.cat([self.relation, -self.relation])[r]

    def forward(self, e: Tensor, r: Tensor) -> Tensor:
        return self.sharpness * super().forward(e, r)

    def kept(self) -> er.models.Model:
        return er.models.TransE(*half(self.table(), self.relation), p=2)


class TuckER(Network):
    """A core tensor; batch normalisation and dropout of inputs and outputs, dropout of its matrices."""

    def __init__(
        self, graph: er.Graph, dimension: int, relation: int, dropouts: tuple[float, float, float]
    ) -> None:
        super().__init__(graph, dimension, relation, 0.1)
        self.core = nn.Parameter(torch.empty(relation, dimension * dimension).uniform_(-1, 1))
        self.norm_in, self.norm_out = nn.BatchNorm1d(dimension), nn.BatchNorm1d(dimension)
        self.drop_in, self.drop_core, self.drop_out = map(nn.Dropout, dropouts)

    def vectors(self, e: Tensor, r: Tensor) -> Tensor:
        head = self.drop_in(self.norm_in(self.entity[e]))
        width = head.shape[1]
        matrices = self.drop_core((self.relation[r] @ self.core).view(-1, width, width))
        return self.drop_out(self.norm_out(torch.bmm(head[:, None], matrices)[:, 0]))

    def kept(self) -> er.models.Model:
        width = self.entity.shape[1]
        core = self.core.view(-1, width, width).transpose(0, 1)
        norms = affine(self.norm_in), affine(self.norm_out)
        return er.models.TuckER(*half(self.entity, self.relation, core), *norms, inverse="stacked")


NETWORKS = {
    "complex": ComplEx,
    "rotate": RotatE,
    "transe": TransE,
    "transe on a sphere": TransEOnSphere,
    "tucker": TuckER,
}


def product(rows: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Multiply complex rows by complex numbers."""
    a, b = rows.chunk(2, 1)
    return torch.cat([a * real - b * imaginary, a * imaginary + b * real], 1)


def modulus(rows: Tensor) -> Tensor:
    """Return the moduli of complex rows; the small constant keeps gradients finite at 0."""
    real, imaginary = rows.chunk(2, 1)
    return (real.square() + imaginary.square() + 1e-12).sqrt()


def half(*tables: Tensor) -> list[Any]:
    """Round tables to half precision for small files; test ranks are those of the rounded model."""
    return [table.detach().half().cpu().numpy() for table in tables]


def affine(norm: nn.BatchNorm1d) -> Any:
    """Return scales and shifts of a batch normalisation in evaluation mode."""
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return torch.stack([scale, norm.bias - norm.running_mean * scale]).detach().cpu().numpy()


# Queries and losses ------------------------------------------------------------------------------


class Triples:
    """A softmax over all entities for each triple, with one answer."""

    def __init__(self, rows: Tensor, smoothing: float) -> None:
        self.rows, self.smoothing = rows, smoothing

    def __len__(self) -> int:
        return len(self.rows)

    def loss(self, network: Network, some: Tensor, penalty: float) -> Tensor:
        e, r, t = self.rows[some].T
        loss = cross_entropy(network(e, r), t, label_smoothing=self.smoothing)
        return loss + penalty * network.cubes(e, r, t) / len(some) if penalty else loss


class Queries:
    """A softmax over all entities for each distinct query; its answers share the probability."""

    def __init__(self, rows: Tensor, smoothing: float) -> None:
        queries, which = torch.unique(rows[:, :2], dim=0, return_inverse=True)
        self.e, self.r = queries.T
        self.answers = rows[torch.argsort(which), 2]
        self.count = torch.bincount(which)
        self.start = self.count.cumsum(0) - self.count
        self.smoothing = smoothing

    def __len__(self) -> int:
        return len(self.e)

    def loss(self, network: Network, some: Tensor, penalty: float) -> Tensor:
        del penalty  # only for triples; TuckER is regularised by dropout
        scores = network(self.e[some], self.r[some])
        return cross_entropy(scores, self.shares(some, scores), label_smoothing=self.smoothing)

    def given(self, some: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the answers of some queries: row of the query, entity, and share of the probability."""
        count = self.count[some]
        row = torch.repeat_interleave(torch.arange(len(some), device=some.device), count)
        within = torch.arange(len(row), device=some.device) - (count.cumsum(0) - count)[row]
        return row, self.answers[self.start[some][row] + within], 1 / count[row]

    def shares(self, some: Tensor, scores: Tensor) -> Tensor:
        """Return target distributions: the answers of each query have equal shares."""
        row, answer, share = self.given(some)
        return torch.zeros_like(scores).index_put_((row, answer), share)


class LogisticAndSoftmax(Queries):
    """Two losses for each distinct query: a logistic loss per entity, and a softmax over all entities.

    The logistic loss sets the scale of distances, which one-to-many relations need; the softmax orders
    the nearest entities. For symmetric relations the entity of the query is not a candidate: their
    translation should be near zero, so that the nearest entity is always that of the query itself. A
    loss that includes it would learn a translation in the direction of the training triples, while the
    test triples have the opposite direction.
    """

    def __init__(self, rows: Tensor, smoothing: float) -> None:
        super().__init__(rows, smoothing)
        e, r, t = rows.T
        entities, relations = int(rows[:, ::2].max()) + 1, int(r.max()) + 1
        there, back = ((a * relations + r) * entities + b for a, b in ((e, t), (t, e)))
        returns = torch.bincount(r[torch.isin(there, back)], minlength=relations)
        self.symmetric = returns > BOTH_WAYS * torch.bincount(r)

    def loss(self, network: Network, some: Tensor, penalty: float) -> Tensor:
        del penalty
        e, r = self.e[some], self.r[some]
        scores = network(e, r)
        row, answer, share = self.given(some)
        right = scores[row, answer]
        alone = torch.nonzero(self.symmetric[r])[:, 0]
        others = scores.index_put((alone, e[alone]), scores.new_tensor(NEVER))
        logistic = softplus(others).sum() - right.sum()
        weight = torch.where(self.symmetric[r], *FIRST)
        first = (weight * others.logsumexp(1)).sum() - (weight[row] * share * right).sum()
        return (logistic + first) / len(some)


LOSSES = {"triples": Triples, "queries": Queries, "logistic and softmax": LogisticAndSoftmax}
OPTIMIZERS = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}


def with_inverses(triples: Any, relations: int, device: str) -> Tensor:
    """Return each triple, and each reversed triple with its inverse relation."""
    h, r, t = torch.as_tensor(np.array(triples), device=device).T
    return torch.cat([torch.stack([h, r, t], 1), torch.stack([t, r + relations, h], 1)])


# Training ----------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """Progress of training, and the model if its validation MRR is the best so far."""

    epoch: int
    seconds: float
    loss: float
    mrr: float
    better: er.models.Model | None

    def __str__(self) -> str:
        mark = " *" if self.better else ""
        done = f"{self.seconds:6.1f} s, epoch {self.epoch:4}"
        return f"{done}: loss {self.loss:8.4f}, validation MRR {self.mrr:.4f}{mark}"


def train(
    graph: er.Graph,
    model: str,
    recipe: Mapping[str, Any],
    *,
    seconds: float = 600,
    every: float = 15,
    seed: int = 0,
) -> Iterator[Progress]:
    """Train for the recipe's epochs or until the time is over; yield progress every few seconds."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")  # tensor cores
    network = NETWORKS[recipe.get("network", model)](graph, **recipe["model"]).to(device)
    rows = with_inverses(graph.splits["train"], len(graph.relations), device)
    questions = LOSSES[recipe["loss"]](rows, recipe.get("smoothing", 0.0))
    optimizer = OPTIMIZERS[recipe["optimizer"]](network.parameters(), lr=recipe["rate"])
    task = graph.task("valid")
    epochs, best, told, start = recipe["epochs"], -1.0, 0.0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        batches = torch.randperm(len(questions), device=device).split(recipe["batch"])
        for step, some in enumerate(batches):
            by_clock = (time.perf_counter() - start) / seconds
            left = 1 - min(1.0, max((epoch - 1 + step / len(batches)) / epochs, by_clock))
            for group in optimizer.param_groups:
                group["lr"] = recipe["rate"] * (LAST + (1 - LAST) * left)
            loss = questions.loss(network, some, recipe.get("penalty", 0.0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not left:
                break
        last = loss.item()  # synchronizes with the device, before the time is read
        passed = time.perf_counter() - start
        over = epoch == epochs or passed >= seconds
        if over or passed - told >= every:
            network.eval()
            mrr = er.rank(network, task, progress=False).evaluate("mrr")["mrr"]
            told = time.perf_counter() - start
            yield Progress(epoch, told, last, mrr, network.kept() if mrr > best else None)
            best = max(best, mrr)
            network.train()
        if over:
            return
