"""Train with PyKEEN, stop early and evaluate with evenrank, and adjust the results for chance.

Usage: python examples/pykeen_pipeline.py [EPOCHS]

The pipeline is PyKEEN's own except for one argument, the evaluator; its results have the same keys and
values. The ranks give further metrics. Needs evenrank[pykeen].
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pykeen.pipeline import pipeline

import evenrank as er
from evenrank.integrations.pykeen import EvenRankEvaluator, factories


def main(epochs: int = 60) -> None:
    graph = er.load("nations")
    result = pipeline(
        **factories(graph, inverse=True),
        model="ComplEx",
        model_kwargs={"embedding_dim": 32},
        evaluator=EvenRankEvaluator,
        stopper="early",
        stopper_kwargs={"frequency": 5, "patience": 3, "relative_delta": 0.002, "metric": "mrr"},
        training_loop="lcwa",
        loss="crossentropy",
        optimizer="adagrad",
        optimizer_kwargs={"lr": 0.1},
        training_kwargs={"num_epochs": epochs, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
    )
    print(f"PyKEEN's key: mrr {result.get_metric('both.realistic.mrr'):.4f}")
    # the model in memory
    ranks = er.rank(er.integrations.pykeen.scorer(result.model), graph.task("test"))
    print(ranks.evaluate("mrr", "index(mrr)", "z(mrr)", "hits@10", "index(hits@10)"))
    # the model in a file, which is read without unpickling it
    with TemporaryDirectory() as folder:
        result.save_to_directory(folder)
        again = er.rank(er.models.load(Path(folder), graph), graph.task("test"))
    assert (again.better == ranks.better).all()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
