"""Filtered ranking of both sides, compared with PyKEEN's evaluator and with the bare matrix product.

    python benchmarks/rank.py [FOLDER] [--quick]

FB15k-237 is read from FOLDER or found like in the tests, otherwise a graph of the same shape is
generated. The models are random float32 tables, the same in both libraries. For each model, the lower
bound, evenrank and PyKEEN are run alternately, since other processes may share the machine; the best of
the rounds counts. The lower bound suffers most from other load: trust its ratio only on an idle machine.

evenrank: `er.rank` of a prepared task; and in total, with loading the graph and indexing the task.

Lower bound for dot products: one tiled `np.matmul` over the distinct queries on all cores, whose scores
are discarded.

PyKEEN: `RankBasedEvaluator.evaluate` on two slices of the test triples, filtered by all triples. Their
difference gives the seconds per triple, so that set-up is not scaled; loading is left out, also when
compared with our total. The faster of its default batch size on CPUs (32) and a larger one is taken. Its
ranks must equal ours up to float32 rounding. Its RotatE has p = 2; ours is timed with the paper's p = 1,
which is slower, and compared with p = 2.

Memory is the peak of a separate process.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import evenrank as er
from evenrank._internal.limits import cpus
from metrics import peak_gb
from null import best

SHAPE = {"train": 272_115, "valid": 17_535, "test": 20_466}  # of FB15k-237
ENTITIES, RELATIONS = 14_541, 237
TILE = 1024
FEW = OWN_BATCH = 32  # PyKEEN's smaller slice, and its default batch size on a CPU
QUICK_TRIPLES, QUICK_PART = 2_048, 8  # for a smoke test: test triples, and divisor of PyKEEN's slices
MOST_FLOORS, MOST_GB, MOST_FIRST_S = 1.3, 1.0, 3.0
FLAT, FLAT_MEMORY = (10**4, 10**5, 10**6), 64


class Case(NamedTuple):
    """A model: the least speed-up over PyKEEN; PyKEEN's larger slice and batch size."""

    least: float
    many: int = 320
    batch: int = 128
    floored: bool = False  # whether there is a target for the ratio to the lower bound


CASES = {
    "DistMult": Case(100, floored=True),
    "ComplEx": Case(100, floored=True),
    "TransE L1": Case(60),
    "TransE L2": Case(60),
    "RotatE": Case(80, many=96, batch=64),  # eight times as slow in PyKEEN
    "TuckER d64": Case(60),
}


# Graph and models --------------------------------------------------------------------------------


def folder(given: Path | None) -> Path | None:
    """Return the folder of FB15k-237, or None."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    shared = Path(os.environ.get("EVENRANK_SHARED") or beside) / "datasets" / "fb15k237"
    return given or (shared if shared.is_dir() else None)


def drawn_graph() -> er.Graph:
    """Generate a graph of FB15k-237's size, also with hubs."""
    rng = np.random.default_rng(0)

    def skewed(n: int, power: float) -> NDArray[np.int64]:
        weight = (np.arange(n) + 10.0) ** -power
        return rng.choice(n, 2 * total, p=weight / weight.sum())

    total = sum(SHAPE.values())
    columns = (skewed(ENTITIES, 0.8), skewed(RELATIONS, 1.0), skewed(ENTITIES, 0.8))
    triples = rng.permutation(np.unique(np.stack(columns, axis=1), axis=0))[:total]
    splits = np.split(triples, np.cumsum(list(SHAPE.values()))[:-1])
    named = dict(zip(SHAPE, splits, strict=True))
    return er.Graph.of(named, entities=ENTITIES, relations=RELATIONS, name="drawn")


def load(data: Path | None, quick: bool) -> er.Graph:
    graph = er.load(data) if data else drawn_graph()
    if not quick:
        return graph
    return replace(graph, splits={**graph.splits, "test": graph.splits["test"][:QUICK_TRIPLES].copy()})


def drawn_model(name: str, graph: er.Graph) -> er.models.Model:
    rng = np.random.default_rng(0)
    n, k = len(graph.entities), len(graph.relations)

    def table(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    match name.split():
        case ["DistMult"]:
            return er.models.DistMult(table(n, 256), table(k, 256))
        case ["ComplEx"]:
            return er.models.ComplEx(table(n, 512), table(k, 512))
        case ["TransE", norm]:
            return er.models.TransE(table(n, 256), table(k, 256), p=int(norm[1]))
        case ["RotatE", *norm]:  # with the paper's norm, p = 1, unless another is given
            phase = rng.uniform(-np.pi, np.pi, (k, 256))
            turn = np.concatenate([np.cos(phase), np.sin(phase)], axis=1).astype(np.float32)
            return er.models.RotatE(table(n, 512), turn, p=int(norm[0][1]) if norm else 1)
        case _:
            return er.models.TuckER(table(n, 64), table(k, 64), table(64, 64, 64))


# Compared with -----------------------------------------------------------------------------------


def floor(model: er.models.Model, task: er.Task) -> Callable[[], None] | None:
    """Return a product of one vector per distinct query with the table; None if the form is not dot."""
    if model.form != "dot":
        return None
    table = model.entity
    rows = sum(len(part.queries) for part in task.parts)
    vectors = np.random.default_rng(1).standard_normal((rows, table.shape[1]), dtype=np.float32)
    scores = np.empty((TILE, TILE), dtype=np.float32)

    def work() -> None:
        for i in range(0, rows, TILE):
            some = vectors[i : i + TILE]
            for j in range(0, len(table), TILE):
                tile = table[j : j + TILE]
                np.matmul(some, tile.T, out=scores[: len(some), : len(tile)])

    return work


class PyKEEN:
    """PyKEEN's evaluator with a copy of one of our models."""

    def __init__(self, model: er.models.Model, graph: er.Graph) -> None:
        """Copy the tables; PyKEEN applies constraints only in training."""
        self.torch = import_module("torch")
        self.evaluation: Any = import_module("pykeen.evaluation")
        for name in ("pykeen", "torch_max_mem"):  # both warn about CPUs in every call
            logging.getLogger(name).setLevel(logging.ERROR)
        self.triples = [self.torch.tensor(triples) for triples in graph.splits.values()]
        self.test = np.random.default_rng(2).permutation(len(graph.splits["test"]))
        factory = import_module("pykeen.triples").CoreTriplesFactory(
            self.triples[0], num_entities=len(graph.entities), num_relations=len(graph.relations)
        )
        parts = 2 if model.name in ("ComplEx", "RotatE") else 1
        options: dict[str, dict[str, Any]] = {
            "TransE": {"scoring_fct_norm": getattr(model, "p", None)},
            "TuckER": {"relation_dim": model.relation.shape[1], "apply_batch_normalization": False},
        }
        self.model = getattr(import_module("pykeen.models"), model.name)(
            triples_factory=factory,
            embedding_dim=model.entity.shape[1] // parts,
            random_seed=0,
            **options.get(model.name, {}),
        )
        representations = self.model.entity_representations[0], self.model.relation_representations[0]
        for representation, table in zip(representations, (model.entity, model.relation), strict=True):
            # PyKEEN interleaves real and imaginary parts
            pairs = np.stack(np.split(table, parts, axis=1), axis=-1).reshape(table.shape)
            representation._embeddings.weight.data = self.torch.tensor(pairs)
        if isinstance(model, er.models.TuckER):
            self.model.interaction.core_tensor.data = self.torch.tensor(model.core)

    def evaluate(self, count: int, batch: int | None) -> Any:
        """Evaluate on some of the test triples."""
        evaluator = self.evaluation.RankBasedEvaluator(filtered=True, clear_on_finalize=False)
        evaluator.evaluate(
            self.model,
            self.triples[-1][self.test[:count]],
            batch_size=batch,
            additional_filter_triples=self.triples,
            use_tqdm=False,
        )
        return evaluator

    def differences(self, evaluator: Any, ranks: er.Ranks) -> NDArray[np.int64]:
        """Return absolute differences of its optimistic and pessimistic ranks from ours."""
        found = []
        for side, start in (("tail", 0), ("head", len(self.test))):
            count = sum(map(len, evaluator.num_candidates[side]))
            rows = start + self.test[:count]
            assert np.array_equal(
                np.concatenate(evaluator.num_candidates[side]), ranks.candidates[rows]
            ), "different numbers of candidates"
            for ties, extra in (("optimistic", 0), ("pessimistic", ranks.equal[rows])):
                theirs = np.concatenate(evaluator.ranks[side, ties])
                found.append(np.abs(theirs - (ranks.better[rows] + extra + 1)))
        return np.concatenate(found).astype(np.int64)


# Separate processes ------------------------------------------------------------------------------


def child(kind: str, data: Path | None, quick: bool) -> list[Any]:
    """Measure in a new process: peak memory for a model or a table size, or time of the first call."""
    before = peak_gb()
    if kind == "first":
        graph = er.load("nations")
        model, task = drawn_model("DistMult", graph), graph.task("test")
        (first, ranks), (second, _) = (best(lambda: er.rank(model, task), times=1) for _ in "12")
        return [first, second, ranks.work.kernels]
    if kind in CASES:
        graph = load(data, quick)
        er.rank(drawn_model(kind, graph), graph.task("test"), progress=False)
        return [before, peak_gb()]
    size = int(kind)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((size, 32), dtype=np.float32)
    queries = np.stack([rng.permutation(10_000)[:2000], np.zeros(2000, int), np.full(2000, -1)], axis=1)
    task = er.Task.of(queries, rng.integers(0, size, 2000), size=size, side="tail")
    er.rank(er.models.DistMult(table, table[:1].copy()), task, memory=f"{FLAT_MEMORY}MB", progress=False)
    return [before, peak_gb() - table.nbytes / 1e9]


def in_child(kind: object, data: Path | None, quick: bool) -> list[Any]:
    arguments = [*([str(data)] if data else []), *(["--quick"] if quick else []), "--child", str(kind)]
    command = [sys.executable, __file__, *arguments]
    return list(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


# The report --------------------------------------------------------------------------------------


def verdict(holds: bool) -> str:
    return "ok" if holds else "MISSED"


def speed(
    name: str, graph: er.Graph, task: er.Task, before: float, peer: bool, quick: bool, rounds: int
) -> str:
    """Run lower bound, evenrank and PyKEEN alternately; return a line of the table."""
    case, model = CASES[name], drawn_model(name, graph)
    product = floor(model, task)
    work: dict[str, Callable[[], Any]] = {"ours": lambda: er.rank(model, task, progress=False)}
    if product is not None:
        work = {"floor": product, **work}
    if peer:
        triples = len(graph.splits["test"])
        few, many, larger = (n // (QUICK_PART if quick else 1) for n in (FEW, case.many, case.batch))
        theirs = PyKEEN(model, graph)
        theirs.evaluate(1, None)  # warm-up
        tried = {size: best(lambda b=size: theirs.evaluate(larger, b), 1)[0] for size in (None, larger)}
        batch = min(tried, key=lambda size: tried[size])
        work["few"] = lambda: theirs.evaluate(few, batch)
        work["many"] = lambda: theirs.evaluate(many, batch)
    turns = [{what: best(run, 1) for what, run in work.items()} for _ in range(rounds)]
    seconds = {what: min(turn[what][0] for turn in turns) for what in work}
    ours, last = seconds["ours"], turns[-1]

    line = f"{name:10} {ours:6.2f} {ours + before:6.2f}"
    if product is None:
        line += f" {'-':>7} {'-':>5} {'':>13}"
    else:
        times = ours / seconds["floor"]
        goal = f"<= {MOST_FLOORS} {verdict(times <= MOST_FLOORS)}" if case.floored else ""
        line += f" {seconds['floor']:7.2f} {times:5.2f} {goal:13}"
    if not peer:
        return line
    whole = seconds["few"] + (seconds["many"] - seconds["few"]) / (many - few) * (triples - few)
    goal = f">= {case.least:g} {verdict(whole / ours >= case.least)}"
    ranks = last["ours"][1]
    if isinstance(model, er.models.RotatE):
        ranks = er.rank(replace(model, p=2), task, progress=False)
    off = theirs.differences(last["many"][1], ranks)
    return (
        f"{line} {whole:7.0f} {batch or OWN_BATCH:5} {whole / ours:5.0f} {goal:13} "
        f"{whole / (ours + before):5.0f} {len(off):7,} {np.count_nonzero(off):6} {off.max():4}"
    )


def memory(data: Path | None, quick: bool) -> None:
    """Print the peaks of new processes, and how they grow with the table."""
    print("\npeak memory, GB: a process that loads the graph and ranks, including Python and imports")
    for name in CASES:
        before, peak = in_child(name, data, quick)
        goal = f"< {MOST_GB:g} {verdict(peak < MOST_GB)}"
        print(f"{name:10} {peak:6.2f}  {goal}  ({before:.2f} before)", flush=True)
    print(f"\npeak memory without the table, MB: d = 32, 2,000 queries, memory='{FLAT_MEMORY}MB'")
    peaks = []
    for size in FLAT:
        before, peak = in_child(size, data, quick)
        peaks.append(peak)
        print(f"{size:10,} entities {peak * 1e3:6.0f}  ({before * 1e3:.0f} before)", flush=True)
    growth = (peaks[-1] - peaks[0]) * 1e3
    print(f"growth {growth:.0f}  <= {FLAT_MEMORY} {verdict(growth <= FLAT_MEMORY)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="folder of FB15k-237")
    parser.add_argument("--quick", action="store_true", help="smoke test: few triples and one round")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (3)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # warnings of PyKEEN and its dependencies
    data, quick, rounds = folder(options.data), options.quick, 1 if options.quick else options.rounds
    if options.child:
        print(json.dumps(child(options.child, data, quick)))
        return
    peer = find_spec("pykeen") is not None
    libraries = ("evenrank", "numpy", *(("pykeen", "torch") if peer else ()))
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    # first, while this process is small: on Linux a child's peak includes that of its parent
    first, second, kernels = in_child("first", data, quick)
    late = first - second
    print(
        f"{', '.join(f'{name} {version(name)}' for name in libraries)}; {cpus()} cores "
        f"(load {os.getloadavg()[0]:.1f} before), kernels {kernels}, BLAS {blas}; best of {rounds}\n\n"
        f"first call in a process (nations): {first * 1e3:.0f} ms, second {second * 1e3:.0f} ms, "
        f"slower by {late:.2f} s  <= {MOST_FIRST_S:g} {verdict(late <= MOST_FIRST_S)}"
    )
    memory(data, quick)

    loading, graph = best(lambda: load(data, quick), rounds)
    indexing, task = best(lambda: graph.task("test"), rounds)
    ranks, queries, scores = (
        sum(counts)
        for counts in zip(*((len(p.targets), len(p.queries), p.scores) for p in task.parts), strict=True)
    )
    print(
        f"\n{'FB15k-237' if data else 'FB15k-237 not found: a generated graph of its shape'}: "
        f"{len(graph.entities):,} entities, {len(graph.relations)} relations, "
        f"{len(graph.splits['test']):,} test triples{' (quick: ratios are rough)' if quick else ''}; "
        f"loaded in {loading:.2f} s\n{ranks:,} ranks of {queries:,} distinct queries, "
        f"{scores / 1e6:,.0f} million scores; indexed in {indexing:.2f} s"
    )
    if not peer:
        print("PyKEEN is not installed: only evenrank and the lower bounds are measured")
    print(
        f"\n{'':10} {'evenrank, s':^13} {'GEMM':>7} {'ours /':>5} {'':12} {'PyKEEN':>7} {'':5} "
        f"{'times as fast':19} {'total':>5}   PyKEEN's ranks\n"
        f"{'':10} {'rank':>6} {'total':>6} {'s':>7} {'bound':>5} {'target':13} {'s':>7} {'batch':>5} "
        f"{'':5} {'target':13} {'':>5} {'checked':>7} {'differ':>6} {'max':>4}"
    )
    for name in CASES:
        print(speed(name, graph, task, loading + indexing, peer, quick, rounds), flush=True)


if __name__ == "__main__":
    main()
