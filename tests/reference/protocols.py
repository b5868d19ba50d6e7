"""Ranks of a small problem by the code of eight libraries; stored in protocols.json.

    python tests/reference/protocols.py NAME ...     # with that library and torch installed

runs libraries and stores their ranks; `problem` returns the problem. Tests also run PyKEEN,
TorchKGE, OGB and DGL-KE if they are installed. Notes on the others:

- dgl-ke: the released package 0.1.2, `KEModel.forward_test`. Its sampler, which marks known edges (-1
  where an edge is in the graph, the ranked one included), needs a DGL of 2020; it is reimplemented here.
- ampligraph: the released package 2.2.0 with tensorflow 2.15, from `evaluate` on.

LibKGE, the RotatE code and OpenKE are not packages. The functions named here were typed over from the
files of their repositories, by hand and without what does not count (comments, logs, other metrics), and
put where this script imports them. A checkout should do as well; that has not been tried.

- libkge: `EntityRankingJob._evaluate` and what it calls, from kge/job/eval_entity_ranking.py (04d0fba)
  and util.py (0416387) of uma-pi1/kge. Tolerances and splits are the defaults of
  kge/config-default.yaml (ef895f3). The folder is on PYTHONPATH.
- rotate: `KGEModel.test_step` and `TestDataset`, from codes/model.py (617062a) and codes/dataloader.py
  (2e440e0) of DeepGraphLearning/KnowledgeGraphEmbedding; the folder is on PYTHONPATH.
- openke: `testHead`, `testTail`, `_find` and the readers of files, from openke/base/Test.h, Corrupt.h
  (3b7f0b1) and Reader.h (37786b8) of thunlp/OpenKE, compiled (g++ -shared -fPIC Base.cpp -o Base.so);
  the library is named in OPENKE.

The scores are a table of float32 with ties, near-ties, and known true answers with much better scores;
one entity occurs in test only. Ranks are in the order of the split.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".json")
SIDES = ("tail", "head")


@dataclass(frozen=True)
class Problem:
    """Splits of triples, scores[relation, head, tail], and a row of negatives per test triple."""

    splits: dict[str, Any]
    scores: Any
    negatives: dict[str, Any]

    @property
    def entities(self) -> int:
        """Number of entities."""
        return self.scores.shape[1]

    def row(self, side: str, triple: Any) -> Any:
        """Scores of all candidates for one side of a triple."""
        h, r, t = triple
        return self.scores[r, h] if side == "tail" else self.scores[r, :, t]

    def known(self) -> set[tuple[int, ...]]:
        """All triples."""
        return {tuple(row) for rows in self.splits.values() for row in rows.tolist()}


def read() -> dict[str, Any]:
    """Return what is kept."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def problem(kept: dict[str, Any] | None = None, name: str = "problem") -> Problem:
    """Return a problem that is kept."""
    held = (kept or read())[name]
    return Problem(
        {split: np.array(rows) for split, rows in held["splits"].items()},
        np.array(held["scores"], dtype=np.float32),
        {side: np.array(rows) for side, rows in held["negatives"].items()},
    )


def make(seed: int, entities: int, sizes: tuple[int, int, int], negatives: int = 7) -> dict[str, Any]:
    """Draw a problem; the last entity occurs in test only."""
    rng = np.random.default_rng(seed)
    relations = 2
    every = np.array(
        [(h, r, t) for h in range(entities) for r in range(relations) for t in range(entities)]
    )
    seen = rng.permutation(every[(every[:, ::2] < entities - 1).all(axis=1)])
    new = rng.permutation(every[(every[:, ::2] == entities - 1).any(axis=1)])[:2]
    ends = np.cumsum(sizes)
    splits = dict(zip(("train", "valid", "test"), np.split(seen[: ends[-1]], ends[:-1]), strict=True))
    splits["test"] = rng.permutation(np.concatenate([splits["test"], new]))
    shape = (relations, entities, entities)
    scores = rng.integers(-6, 7, shape) * 0.75 + rng.choice([0, 0, 3e-6, 4e-4, 0.25], shape)
    return {
        "splits": {split: rows.tolist() for split, rows in splits.items()},
        "scores": scores.astype(np.float32).tolist(),
        "negatives": {
            side: rng.integers(0, entities, (len(splits["test"]), negatives)).tolist() for side in SIDES
        },
    }


# The libraries ------------------------------------------------------------------------------------


def pykeen(p: Problem, split: str = "test") -> dict[str, list[float]]:
    """Evaluate as PyKEEN's pipeline (test) and early stopper (valid) do; keep the realistic ranks."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import Model
    from pykeen.triples import TriplesFactory

    labels = {name: rows.astype(str) for name, rows in p.splits.items()}
    train = TriplesFactory.from_labeled_triples(labels["train"])
    others = {
        name: TriplesFactory.from_labeled_triples(
            labels[name], entity_to_id=train.entity_to_id, relation_to_id=train.relation_to_id
        )
        for name in ("valid", "test")
    }
    entity = [int(label) for _, label in sorted(train.entity_id_to_label.items())]
    relation = [int(label) for _, label in sorted(train.relation_id_to_label.items())]
    table = torch.as_tensor(p.scores[np.ix_(relation, entity, entity)])

    class Table(Model):
        def __init__(self) -> None:
            super().__init__(triples_factory=train)
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def _reset_parameters_(self) -> None: ...
        def _get_entity_len(self, mode: Any) -> int:
            return len(entity)

        def collect_regularization_term(self) -> float:
            return 0.0

        def score_hrt(self, hrt_batch: Any, **_: Any) -> Any:
            return table[hrt_batch[:, 1], hrt_batch[:, 0], hrt_batch[:, 2]][:, None]

        def score_t(self, hr_batch: Any, **_: Any) -> Any:
            return table[hr_batch[:, 1], hr_batch[:, 0]]

        def score_h(self, rt_batch: Any, **_: Any) -> Any:
            return table[rt_batch[:, 0], :, rt_batch[:, 1]]

        def score_r(self, ht_batch: Any, **_: Any) -> Any:
            return table[:, ht_batch[:, 0], ht_batch[:, 1]].T

    found: dict[str, list[float]] = {side: [] for side in SIDES}

    class Evaluator(RankBasedEvaluator):
        def process_scores_(self, *args: Any, **kwargs: Any) -> None:
            super().process_scores_(*args, **kwargs)
            side = kwargs["target"]
            found[side].extend(self.ranks[side, "realistic"][-1].tolist())

    filters = [train.mapped_triples] + ([others["valid"].mapped_triples] if split == "test" else [])
    Evaluator().evaluate(
        Table(),
        others[split].mapped_triples,
        additional_filter_triples=filters,
        batch_size=4,
        use_tqdm=False,
    )
    # its factories sort the triples
    ranked = [(entity[h], relation[r], entity[t]) for h, r, t in others[split].mapped_triples.tolist()]
    places = {triple: place for place, triple in enumerate(ranked)}
    order = [places[triple] for triple in map(tuple, p.splits[split].tolist()) if triple in places]
    return {side: [ranks[place] for place in order] for side, ranks in found.items()}


def torchkge(p: Problem, split: str = "test") -> dict[str, list[float]]:
    """Evaluate a split of one knowledge graph."""
    import pandas as pd
    import torch
    from torchkge.data_structures import KnowledgeGraph
    from torchkge.evaluation import LinkPredictionEvaluator

    rows = np.concatenate(list(p.splits.values()))
    frame = pd.DataFrame({"from": rows[:, 0], "rel": rows[:, 1], "to": rows[:, 2]})
    numbered = {i: i for i in range(p.entities)}
    graph = KnowledgeGraph(df=frame, ent2ix=numbered, rel2ix=dict(enumerate(range(len(p.scores)))))
    sizes = tuple(len(rows) for rows in p.splits.values())
    parts = dict(zip(p.splits, graph.split_kg(sizes=sizes, validation=True), strict=True))
    table = torch.as_tensor(p.scores)

    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def inference_prepare_candidates(self, h: Any, t: Any, r: Any, entities: bool) -> Any:
            assert entities
            return h, t, r, None

        def inference_scoring_function(self, h: Any, t: Any, r: Any) -> Any:
            return table[r, h] if t is None else table[r, :, t]

    evaluator = LinkPredictionEvaluator(Table(), parts[split])
    evaluator.evaluate(b_size=4, verbose=False)
    return {
        "tail": evaluator.filt_rank_true_tails.tolist(),
        "head": evaluator.filt_rank_true_heads.tolist(),
    }


def ogb(p: Problem) -> dict[str, list[float]]:
    """Rank each triple's score among those of its own negatives."""
    import torch
    from ogb.linkproppred import Evaluator

    found = {}
    for side in SIDES:
        rows = [p.row(side, triple) for triple in p.splits["test"]]
        answers = p.splits["test"][:, {"tail": 2, "head": 0}[side]]
        pairs = zip(rows, answers, p.negatives[side], strict=True)
        positive, negative = zip(*((row[a], row[n]) for row, a, n in pairs), strict=True)
        said = Evaluator(name="ogbl-wikikg2").eval(
            {
                "y_pred_pos": torch.as_tensor(np.array(positive)),
                "y_pred_neg": torch.as_tensor(np.array(negative)),
            }
        )
        found[side] = [round(2 / value) / 2 for value in said["mrr_list"].tolist()]
    return found


def libkge(p: Problem, split: str = "test") -> dict[str, list[float]]:
    """Run the evaluation job with its default options; keep the filtered ranks it traces."""
    import torch
    from kge.job import EntityRankingJob

    def index(name: str) -> dict[tuple[int, int], Any]:
        of, _, kind = name.partition("_")
        found: dict[tuple[int, int], list[int]] = {}
        for h, r, t in p.splits[of].tolist():
            key, value = ((h, r), t) if kind == "sp_to_o" else ((r, t), h)
            found.setdefault(key, []).append(value)
        return {key: torch.tensor(values) for key, values in found.items()}

    table = torch.as_tensor(p.scores)
    job = object.__new__(EntityRankingJob)
    traced: list[dict[str, Any]] = []
    vars(job).update(
        tie_handling="rounded_mean_rank",
        tie_atol=1e-5,
        tie_rtol=1e-4,
        filter_splits=["train", "valid"] + ([split] if split not in ("train", "valid") else []),
        filter_with_test=True,
        eval_split=split,
        triples=torch.tensor(p.splits[split]),
        hits_at_k_s=[1, 3, 10],
        head_and_tail=False,
        device="cpu",
        epoch=0,
        trace_examples=True,
        trace_batch=False,
        current_trace={},
        hist_hooks=[sys.modules[EntityRankingJob.__module__].hist_all],
        pre_epoch_hooks=[],
        pre_batch_hooks=[],
        post_batch_hooks=[],
        trace=lambda **entry: traced.append(entry),
        config=types.SimpleNamespace(
            get={"entity_ranking.chunk_size": 5, "job.device": "cpu"}.__getitem__,
            print=lambda *_, **__: None,
        ),
        dataset=types.SimpleNamespace(num_entities=lambda: p.entities, index=index),
        model=types.SimpleNamespace(
            score_sp=lambda s, r, some, eval: table[r, s][:, some],  # noqa: A006
            score_po=lambda r, o, some, eval: table[r, :, o][:, some],  # noqa: A006
            score_sp_po=lambda s, r, o, some, eval: torch.cat(  # noqa: A006
                [table[r, s][:, some], table[r, :, o][:, some]], dim=1
            ),
        ),
    )
    job.loader = torch.utils.data.DataLoader(job.triples, collate_fn=job._collate, batch_size=4)
    job._evaluate()
    return {
        side: [entry["rank_filtered"] for entry in traced if entry["task"] == task]
        for side, task in (("tail", "sp"), ("head", "po"))
    }


def rotate(p: Problem) -> dict[str, list[float]]:
    """Run the test step on each triple by itself."""
    import torch
    from model import KGEModel

    table = torch.as_tensor(p.scores)

    class Table(KGEModel):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)

        def forward(self, sample: Any, mode: str = "single") -> Any:
            triples, some = sample
            h, r, t = triples.T[:, :, None]
            return table[r, some, t] if mode == "head-batch" else table[r, h, some]

    arguments = types.SimpleNamespace(
        countries=False,
        cuda=False,
        nentity=p.entities,
        nrelation=len(p.scores),
        test_batch_size=4,
        cpu_num=1,
        test_log_steps=1000,
    )
    logs: list[float] = []
    sums: Any = sum
    # the step gives means alone: what it adds up are the ranks, heads first
    sys.modules[KGEModel.__module__].sum = lambda values: logs.extend(values) or sums(values)
    KGEModel.test_step(
        Table(), [tuple(row) for row in p.splits["test"].tolist()], list(p.known()), arguments
    )
    n = len(p.splits["test"])
    ranks = logs[2 + n * 2 : 2 + n * 4]  # batches of two loaders; reciprocals; ranks
    return {"head": ranks[:n], "tail": ranks[n:]}


def openke(p: Problem, types: tuple[str, ...] = ()) -> dict[str, list[float]]:
    """Call the compiled tests as its Tester does, with minus the score as distance.

    Types are the entities of a relation in some splits; its own files (n-n.py) are made from all three.
    """
    library = ctypes.CDLL(os.environ["OPENKE"])
    order = np.lexsort(p.splits["test"].T[[2, 0, 1]])  # as the library sorts
    suffix = "_constrain" if types else ""
    totals = {
        side: ctypes.c_float.in_dll(library, f"{letter}_filter_rank{suffix}")
        for side, letter in (("head", "l"), ("tail", "r"))
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, count in (("entity", p.entities), ("relation", len(p.scores))):
            folder.joinpath(f"{what}2id.txt").write_text(f"{count}\n")
        for split, rows in p.splits.items():
            lines = [str(len(rows)), *(f"{h} {t} {r}" for h, r, t in rows.tolist())]
            folder.joinpath(f"{split}2id.txt").write_text("\n".join(lines) + "\n")
        folder.joinpath("type_constrain.txt").write_text(type_constrain(p, types))
        library.setInPath(ctypes.create_string_buffer(f"{folder}/".encode()))
        library.importTestFiles()
        library.importTypeFiles()
        library.initTest()
        found: dict[str, list[float]] = {side: [0.0] * len(order) for side in SIDES}
        for i, place in enumerate(order.tolist()):
            for side, test in (("head", library.testHead), ("tail", library.testTail)):
                distance = np.ascontiguousarray(-p.row(side, p.splits["test"][place]))
                before = totals[side].value
                test(
                    ctypes.c_void_p(distance.ctypes.data), ctypes.c_int64(i), ctypes.c_int64(bool(types))
                )
                found[side][place] = totals[side].value - before
    return found


def type_constrain(p: Problem, splits: tuple[str, ...]) -> str:
    """Write the heads and tails of each relation in some splits, in OpenKE's format."""
    lines = [str(len(p.scores))]
    shown = np.concatenate([np.zeros((0, 3), int), *(p.splits[split] for split in splits)])
    for relation in range(len(p.scores)):
        rows = shown[shown[:, 1] == relation]
        for column in (0, 2):
            ids = np.unique(rows[:, column]).tolist()
            lines.append("\t".join(map(str, [relation, len(ids), *ids])))
    return "\n".join(lines) + "\n"


@contextmanager
def without_dgl() -> Iterator[Any]:
    """Import DGL-KE's model without DGL, of which it only needs names for torch functions.

    The package itself is entered without its own first lines, which look for an old setuptools.
    """
    import torch

    dgl, backend, dglke = map(types.ModuleType, ("dgl", "dgl.backend", "dglke"))
    vars(backend).update(sum=torch.sum, asnumpy=torch.Tensor.numpy)
    vars(dgl).update(backend=backend)
    vars(dglke).update(__path__=find_spec("dglke").submodule_search_locations)
    before = {name: module for name, module in sys.modules.items() if name.startswith("dgl")}
    for name in before:
        del sys.modules[name]
    sys.modules.update({"dgl": dgl, "dgl.backend": backend, "dglke": dglke})
    try:
        from dglke.models.general_models import KEModel

        yield KEModel
    finally:
        for name in [name for name in sys.modules if name.startswith("dgl")]:
            del sys.modules[name]
        sys.modules.update(before)


def dgl_ke(p: Problem) -> dict[str, list[float]]:
    """Run the test step on the test triples, with their known edges marked as the sampler does."""
    import torch

    known, rows = p.known(), p.splits["test"]
    found = {}
    for side in SIDES:
        column = {"tail": 2, "head": 0}[side]
        scores = torch.as_tensor(np.array([p.row(side, triple) for triple in rows]))
        positive = scores[torch.arange(len(rows)), torch.as_tensor(rows[:, column])]
        bias = [
            [
                -float((*triple[:column], candidate, *triple[column + 1 :]) in known)
                for candidate in range(p.entities)
            ]
            for triple in rows.tolist()
        ]
        with without_dgl() as KEModel:  # noqa: N806  # a class
            model = object.__new__(KEModel)
            vars(model).update(
                args=types.SimpleNamespace(eval_filter=True, neg_deg_sample_eval=False),
                entity_emb=lambda *_: None,
                relation_emb=lambda *_: None,
                score_func=types.SimpleNamespace(prepare=lambda *_: None),
                predict_score=lambda _, positive=positive: positive,
                predict_neg_score=lambda *_, scores=scores, **__: scores,
            )
            asked = types.SimpleNamespace(
                ndata={"id": None}, edata={"id": None}, number_of_edges=rows.__len__
            )
            logs: list[dict[str, float]] = []
            edges = types.SimpleNamespace(edata={"bias": torch.tensor(bias)})
            model.forward_test(asked, edges, logs)
        found[side] = [log["MR"] for log in logs]
    return found


def ampligraph(p: Problem) -> dict[str, list[float]]:
    """Evaluate a model whose embeddings are the numbers of entities, looked up in the table."""
    import tensorflow as tf
    from ampligraph.latent_features import ScoringBasedEmbeddingModel
    from ampligraph.latent_features.layers.scoring.AbstractScoringLayer import (
        AbstractScoringLayer,
        register_layer,
    )

    table = tf.constant(p.scores)

    def look_up(r: Any, h: Any, t: Any) -> Any:
        # negative only while it is fitted, before the numbers are put in
        numbers = [tf.maximum(tf.cast(tf.round(x), tf.int32), 0) for x in (r, h, t)]
        shape = tf.broadcast_dynamic_shape(
            tf.broadcast_dynamic_shape(tf.shape(r), tf.shape(h)), tf.shape(t)
        )
        return tf.gather_nd(table, tf.stack([tf.broadcast_to(x, shape) for x in numbers], axis=-1))

    @register_layer("Table")
    class Table(AbstractScoringLayer):
        def _compute_scores(self, triples: Any) -> Any:
            h, r, t = (part[:, 0] for part in triples)
            # a gradient of zero, so that it can be fitted
            return look_up(r, h, t) + 0.0 * (h + r + t)

        def _get_object_corruption_scores(self, triples: Any, entities: Any) -> Any:
            h, r, _ = (part[:, :1] for part in triples)
            return look_up(r, h, entities[None, :, 0])

        def _get_subject_corruption_scores(self, triples: Any, entities: Any) -> Any:
            _, r, t = (part[:, :1] for part in triples)
            return look_up(r, entities[None, :, 0], t)

    labels = {split: rows.astype(str).astype(object) for split, rows in p.splits.items()}
    model = ScoringBasedEmbeddingModel(eta=1, k=1, scoring_type="Table")
    model.compile(optimizer=tf.keras.optimizers.SGD(0.0), loss="pairwise")
    model.fit(labels["train"], batch_size=len(labels["train"]), epochs=1, verbose=False)
    for kind, variable, names in (
        ("e", model.encoding_layer.ent_emb, np.unique(p.splits["train"][:, ::2])),
        ("r", model.encoding_layer.rel_emb, np.unique(p.splits["train"][:, 1])),
    ):
        places = model.data_indexer.get_indexes(names.astype(str).astype(object), type_of=kind)
        values = np.zeros(variable.shape, dtype=np.float32)
        values[np.asarray(places), 0] = names
        variable.assign(values)
    ranks = model.evaluate(labels["test"], batch_size=4, use_filter=labels, verbose=False)
    return {"head": ranks[:, 0].tolist(), "tail": ranks[:, 1].tolist()}


def rotate_mean(p: Problem) -> dict[str, list[float]]:
    """Average reciprocal ranks over all numberings of the entities."""
    sums = {side: np.zeros(len(p.splits["test"])) for side in SIDES}
    numberings = list(permutations(range(p.entities)))
    for numbering in numberings:
        new = np.array(numbering)
        old = np.argsort(new)
        splits = {
            split: np.stack([new[rows[:, 0]], rows[:, 1], new[rows[:, 2]]], axis=1)
            for split, rows in p.splits.items()
        }
        said = rotate(Problem(splits, p.scores[:, old][:, :, old], p.negatives))
        for side in SIDES:
            sums[side] += 1 / np.array(said[side])
    return {side: (total / len(numberings)).tolist() for side, total in sums.items()}


def run(name: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Run one library and return all that is stored of it."""
    p = problem(kept)
    if name in ("pykeen", "libkge", "torchkge"):
        return {split: globals()[name](p, split) for split in ("test", "valid")}
    if name == "openke":
        return {"test": openke(p), "typed": openke(p, (*p.splits,)), "narrow": openke(p, ("train",))}
    if name == "rotate":
        return {"test": rotate(p), "mean": rotate_mean(problem(kept, "small"))}
    return {"test": globals()[name.replace("-", "_")](p)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    names = sys.argv[1:]
    kept = read() if FILE.exists() else {}
    if "problem" in names:
        kept = {"problem": make(7, 12, (40, 10, 14)), "small": make(3, 5, (9, 3, 5))}
        names.remove("problem")
    for name in names:
        kept[name] = run(name, kept)
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
