"""Metrics inside the loops of others: torchmetrics, Lightning, scikit-learn; one process or several.

Run as a program, this file is one process of the tests of several: see `several_processes`.
"""

import json
import os
import pickle
import socket
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import evenrank as er
from evenrank import integrations

# what the libraries warn of is theirs to mend
pytestmark = pytest.mark.filterwarnings("ignore:::(lightning|torch|torchmetrics)")


def library(name):
    """A library of an extra; without it, the test is skipped."""
    return pytest.importorskip(name, reason=f"{name} is not installed (make peers installs it)")


@pytest.fixture(scope="module")
def graph():
    return er.load("nations")


@pytest.fixture(scope="module")
def ranks(graph):
    model = er.models.load(files("evenrank") / "data/models/nations-complex.safetensors")
    return er.rank(model, graph.task("test"), progress=False)


# Torchmetrics -------------------------------------------------------------------------------------

METRICS = ("mrr", "index(mrr)", "z(hits@3)", "gmr", "1/median", "ndcg")
BATCHES = 12


def batch(i, device="cpu"):
    """Scores with ties, targets, known answers and weights without short binary fractions."""
    import torch

    generator = torch.Generator().manual_seed(i)
    scores = torch.randn(7, 40, generator=generator).round(decimals=1)
    target = torch.randint(0, 40, (7,), generator=generator)
    known = torch.rand(7, 40, generator=generator) < 0.1 * (i % 3)
    weight = torch.rand(7, generator=generator, dtype=torch.float64) + 0.1
    return tuple(part.to(device) for part in (scores, target, known, weight))


def expected(weighted, which=range(BATCHES)):
    """The same from NumPy, all at once."""
    scores, target, known, weight = map(np.concatenate, zip(*map(batch, which), strict=True))
    ranks = er.Ranks.from_scores(scores, target, known, weight=weight if weighted else None)
    return ranks.evaluate(*METRICS).flat(plain=True)


def ranking_metric(*metrics, **options):
    library("torchmetrics")
    return integrations.torchmetrics.RankingMetric(*(metrics or METRICS), **options)


def exact(values):
    return {name: value.item() for name, value in values.items()}


@pytest.mark.parametrize("weighted", [False, True])
def test_metric_gives_what_ranks_give(weighted):
    metric = ranking_metric()
    for i in reversed(range(BATCHES)):
        metric.update(*batch(i)[: 4 if weighted else 3])
    assert exact(metric.compute()) == expected(weighted)


def test_metric_forwards_merges_copies_and_resets():
    metric, other = ranking_metric(), ranking_metric()
    for i in range(6):
        assert exact(metric(*batch(i))) == expected(True, [i])
    for i in range(6, BATCHES):
        other.update(*batch(i))
    metric.merge_state(other)
    assert exact(metric.compute()) == expected(True)
    assert exact(pickle.loads(pickle.dumps(metric.clone())).compute()) == expected(True)
    metric.reset()
    assert metric.tally == er.Tally()
    assert metric.half().tally == er.Tally()


def test_metric_takes_ranks_as_they_are(ranks):
    metric = ranking_metric("index(mrr)", "mr")
    for _, half in ranks.by("side"):
        metric.update(half)
    assert exact(metric.compute()) == ranks.evaluate("index(mrr)", "mr").flat(plain=True)
    assert metric.tally == ranks.tally()


def test_metric_of_one_is_a_scalar_and_says_its_direction():
    metric = ranking_metric("mr", ties="optimistic")
    metric.update(*batch(0)[:2])
    assert metric.compute().ndim == 0
    assert metric.higher_is_better is False
    assert ranking_metric("index(mr)").higher_is_better is True
    assert ranking_metric().higher_is_better is None


def test_metric_without_names_gives_the_default_table(ranks):
    library("torchmetrics")
    metric = integrations.torchmetrics.RankingMetric()
    metric.update(ranks)
    assert exact(metric.compute()) == ranks.evaluate().flat(plain=True)
    metric.reset()
    metric.update(er.Ranks.of([1, 1], candidates=1))  # chance leaves no room: undefined, no error
    assert metric.compute()["index_mrr"].isnan()


def test_metric_agrees_with_torchmetrics_where_it_is_right():
    """Of positive scores without ties; a target of score 0 or less is a miss to RetrievalMRR."""
    torch = library("torch")
    metric, theirs = ranking_metric("mrr"), library("torchmetrics").retrieval.RetrievalMRR()
    scores = torch.rand(30, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    target = torch.arange(30)
    metric.update(scores, target)
    theirs.update(
        scores.ravel(),
        torch.nn.functional.one_hot(target, 50).ravel(),
        indexes=torch.arange(30).repeat_interleave(50),
    )
    assert metric.compute().item() == pytest.approx(theirs.compute().item(), rel=1e-6)


def test_metric_goes_into_collections_and_trackers():
    torchmetrics = library("torchmetrics")
    both = torchmetrics.MetricCollection({"a": ranking_metric("mrr"), "b": ranking_metric("hits@3")})
    tracker = torchmetrics.MetricTracker(ranking_metric("mr"), maximize=None)
    for i in range(3):
        both.update(*batch(i))
        tracker.increment()
        tracker.update(*batch(i)[:3])
    found = both.compute()
    assert found["a"] != found["b"]
    worst_first = [ranking_metric("mr") for _ in range(3)]
    for i, metric in enumerate(worst_first):
        metric.update(*batch(i)[:3])
    values = [metric.compute().item() for metric in worst_first]
    assert tracker.best_metric(return_step=True) == (min(values), values.index(min(values)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, t: (s, None), "scores need their targets; update"),
        (lambda s, t: (s[0], t), "scores must be a matrix"),
        (lambda s, t: (s, t + 40), "a target is not among the candidates"),
        (lambda s, t: (s, t - 50), "target must be at least 0"),
        (lambda s, t: (s, t[:3]), "columns differ in length; got 7 rows, but 3 in target"),
        (lambda s, t: (s, t, s[:, 1:] > 0), r"known and scores differ in shape; got \(7, 39\)"),
        (lambda s, t: (s.clone().fill_diagonal_(np.nan), t), "not a number; got NaN for query 0"),
    ],
)
def test_metric_refuses(change, message):
    library("torch")
    with pytest.raises(er.InputError, match=message):
        ranking_metric().update(*change(*batch(0)[:2]))


def test_metric_refuses_unknown_ties():
    with pytest.raises(er.InputError, match="unknown tie rule; got 'lucky'"):
        ranking_metric(ties="lucky")


# Several processes --------------------------------------------------------------------------------


def several_processes(tmp_path, job, count):
    """Run this file as some processes that know of each other; give what each wrote."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "WORLD_SIZE": str(count),
        "MEETING": f"file://{tmp_path}/meeting",
    }
    started = [
        subprocess.Popen(
            [sys.executable, __file__, job],
            env=environment | {"RANK": str(i), "LOCAL_RANK": str(i)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        for i in range(count)
    ]
    try:
        told = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:  # one that waits for another that failed would wait for long
            process.kill()
    for process, (_, errors) in zip(started, told, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(out.splitlines()[-1]) for out, _ in told]


def metric_process():
    """Among 1, 2 and 4 processes of one world, share the batches; the last of four gets none."""
    import torch.distributed as dist

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=os.environ["MEETING"], rank=rank, world_size=world)
    found = {}
    for size in (1, 2, world):
        group = dist.new_group(range(size))
        if rank < size:
            metric = ranking_metric(process_group=group)
            share = range(rank, BATCHES, size) if size < world else np.array_split(range(BATCHES), 3)
            for i in share if size < world else share[rank] if rank < 3 else ():
                metric.update(*batch(int(i)))
            own = metric.tally
            found[size] = {name: value.hex() for name, value in exact(metric.compute()).items()}
            assert metric.tally == own  # what others counted is given back
    dist.destroy_process_group()
    print(json.dumps(found))


def test_one_two_and_four_processes_give_the_same_bits(tmp_path):
    library("torchmetrics")
    bits = {name: value.hex() for name, value in expected(True).items()}
    first, second, third, last = several_processes(tmp_path, "metric", 4)
    assert first == {"1": bits, "2": bits, "4": bits}
    assert second == {"2": bits, "4": bits}
    assert third == last == {"4": bits}


# Lightning ----------------------------------------------------------------------------------------


def distmult(module):
    return er.models.DistMult(module.entity, module.relation)


def training(graph, tmp_path, callbacks, *, validation=True, **options):
    """A small DistMult, its trainer and its data."""
    torch, lightning = library("torch"), library("lightning.pytorch")
    torch.manual_seed(0)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.entity = torch.nn.Parameter(torch.randn(len(graph.entities), 16))
            self.relation = torch.nn.Parameter(torch.randn(len(graph.relations), 16))
            self.dropout, self.frozen = torch.nn.Dropout(), torch.nn.Dropout().eval()

        def forward(self, h, r):
            return (self.dropout(self.entity[h]) * self.relation[r]) @ self.entity.T

        def score(self, queries, candidates):
            """Tails only, as a black box."""
            h, r, _ = torch.as_tensor(queries).T
            return self(h, r)[:, candidates].numpy()

        def training_step(self, rows):
            return torch.nn.functional.cross_entropy(self(rows[:, 0], rows[:, 1]), rows[:, 2])

        def validation_step(self, rows):
            self.log("valid/loss", self.training_step(rows))

        def test_step(self, rows):
            pass

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.05)

    def rows(split):
        return torch.utils.data.DataLoader(torch.as_tensor(graph.splits[split].copy()), 512)

    trainer = lightning.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "max_epochs": 3,
            "logger": False,
            "enable_checkpointing": any("Checkpoint" in type(c).__name__ for c in callbacks),
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "default_root_dir": tmp_path,
            "callbacks": callbacks,
            **options,
        }
    )
    module = Module()
    trainer.fit(module, rows("train"), rows("valid") if validation else None)
    return trainer, module, rows


def ranking_callback(*metrics, **options):
    library("lightning.pytorch")
    return integrations.lightning.RankingCallback(*metrics, **options)


@pytest.mark.parametrize("validation", [True, False])
def test_callback_logs_what_is_monitored(graph, tmp_path, validation):
    callbacks = library("lightning.pytorch.callbacks")
    ranking = ranking_callback(valid=graph.task("valid"), test=graph.task("test"), scorer=distmult)
    monitored = {"monitor": "valid/index_mrr", "mode": "max"}
    best = callbacks.ModelCheckpoint(tmp_path, save_top_k=1, **monitored)
    stopping = callbacks.EarlyStopping(check_on_train_epoch_end=not validation, **monitored)
    trainer, module, rows = training(graph, tmp_path, [ranking, best, stopping], validation=validation)
    ranks = er.rank(distmult(module), graph.task("valid"), progress=False)
    wanted = ranks.evaluate(*integrations.lightning.DEFAULT).flat("valid/", plain=True)
    assert {k: trainer.callback_metrics[k].item() for k in wanted} == wanted
    assert ranking.ranks.better.tolist() == ranks.better.tolist()
    assert stopping.best_score >= wanted["valid/index_mrr"]
    assert Path(best.best_model_path).exists()
    assert best.best_model_score == stopping.best_score
    assert module.dropout.training
    assert not module.frozen.training
    trainer.test(module, rows("test"), verbose=False)
    tested = er.rank(distmult(module), graph.task("test"), progress=False).evaluate("mrr")["mrr"]
    assert trainer.callback_metrics["test/mrr"].item() == tested


def test_callback_ranks_the_module_itself_without_dropout(graph, tmp_path):
    task = graph.task("valid", sides="tail")
    ranking = ranking_callback("mrr", valid=task, threads=1)
    _, module, _ = training(graph, tmp_path, [ranking], validation=False)
    factored = er.rank(distmult(module), task, progress=False).evaluate("mrr")["mrr"]
    assert ranking.ranks.evaluate("mrr")["mrr"] == pytest.approx(factored, abs=1e-6)
    assert ranking.ranks.protocol["scores"] == "as given"


def test_callback_ranks_every_so_many_epochs(graph, tmp_path):
    class Counting(er.models.DistMult):
        asked = 0

    def scorer(module):
        Counting.asked += 1
        return distmult(module)

    ranking = ranking_callback("mrr", valid=graph.task("valid"), scorer=scorer, every=2)
    trainer, module, rows = training(graph, tmp_path, [ranking], max_epochs=5)
    assert Counting.asked == 2
    trainer.validate(module, rows("valid"), verbose=False)  # asked for, so due in any epoch
    assert Counting.asked == 3


def test_callback_refuses():
    with pytest.raises(er.InputError, match="nothing to rank; give valid="):
        ranking_callback("mrr")
    with pytest.raises(er.InputError, match="every must be at least 1 epoch; got 0"):
        ranking_callback(valid=er.load("nations").task("valid"), every=0)


def training_process():
    """Train among processes; tell what this one logged, and whether it ranked."""
    import logging

    logging.disable()
    graph = er.load("nations")
    ranking = ranking_callback("mrr", "hits@3", valid=graph.task("valid"), scorer=distmult)
    count = int(os.environ["WORLD_SIZE"])
    trainer, module, _ = training(graph, ".", [ranking], devices=count, strategy="ddp", max_epochs=2)
    logged = {name: trainer.callback_metrics[f"valid/{name}"].item() for name in ("mrr", "hits_at_3")}
    mine = er.rank(distmult(module), graph.task("valid"), progress=False).evaluate("mrr")["mrr"]
    print(json.dumps({"logged": logged, "mine": mine, "ranked": ranking.ranks is not None}))


def test_callback_ranks_once_for_all_processes(tmp_path, monkeypatch):
    library("lightning")
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    first, second = several_processes(tmp_path, "training", 2)
    assert first["logged"] == second["logged"]
    assert first["logged"]["mrr"] == first["mine"] == second["mine"]
    assert (first["ranked"], second["ranked"]) == (True, False)


# scikit-learn -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    library("sklearn")
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    inputs, y = load_digits(return_X_y=True)
    names = y.astype(str)
    model = LogisticRegression(C=1e-3, max_iter=300).fit(inputs[:800] / 16, names[:800])
    return model, inputs[800:] / 16, names[800:]


def test_scorer_agrees_with_scikit_learn(digits):
    from sklearn.metrics import label_ranking_average_precision_score, top_k_accuracy_score
    from sklearn.preprocessing import label_binarize

    model, inputs, y = digits
    scores = model.decision_function(inputs)
    scorer = integrations.sklearn.scorer
    for k in (1, 2, 5):
        theirs = top_k_accuracy_score(y, scores, k=k, labels=model.classes_)
        assert scorer(f"hits@{k}")(model, inputs, y) == pytest.approx(theirs, abs=1e-12)
    right = label_binarize(y, classes=model.classes_)
    theirs = label_ranking_average_precision_score(right, scores)  # one right answer: the MRR
    assert scorer("mrr")(model, inputs, y) == pytest.approx(theirs, abs=1e-12)


def test_scorer_is_higher_where_better(digits):
    model, inputs, y = digits
    result = integrations.sklearn.ranks(model, inputs, y).evaluate("mr", "index(mr)")
    values = integrations.sklearn.scorer("mr", "index(mr)")(model, inputs, y)
    assert values == {"neg_mr": -result["mr"], "index_mr": result["index(mr)"]}
    assert integrations.sklearn.scorer("mr")(model, inputs, y) == -result["mr"]


def test_scorer_serves_searches_and_cross_validation(digits):
    from sklearn.model_selection import GridSearchCV, cross_validate
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier

    _, inputs, y = digits
    scorer = integrations.sklearn.scorer
    found = cross_validate(GaussianNB(), inputs, y, cv=3, scoring=scorer("mrr", "mr", "z(hits@3)"))
    assert {"test_mrr", "test_neg_mr", "test_z_hits_at_3"} <= found.keys()
    assert np.isfinite(found["test_z_hits_at_3"]).all()
    sent = pickle.loads(pickle.dumps(scorer("index(mrr)")))  # as to the processes of n_jobs
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 50]}, scoring=sent, cv=3)
    best = search.fit(inputs, y)
    by_hand = cross_validate(best.best_estimator_, inputs, y, cv=3, scoring=scorer("index(mrr)"))
    assert best.best_score_ == pytest.approx(by_hand["test_score"].mean())


def test_two_classes_and_several_right_answers():
    rank = integrations.sklearn.ranks
    two = SimpleNamespace(classes_=["no", "yes"], decision_function=lambda inputs: np.array(inputs))
    assert rank(two, [1.0, -2.0, 0.0], ["yes", "yes", "no"]).better.tolist() == [0, 1, 0]
    assert rank(two, [1.0, -2.0, 0.0], ["yes", "yes", "no"]).equal.tolist() == [0, 0, 1]
    many = SimpleNamespace(classes_=np.arange(4), predict_proba=lambda inputs: np.array(inputs))
    found = rank(many, [[0.9, 0.1, 0.5, 0.2], [0.0, 0.1, 0.2, 0.3]], [[0, 1, 1, 0], [0, 0, 0, 0]])
    assert found.better.tolist() == [2, 1]  # the other right answer does not compete
    assert found.candidates.tolist() == [3, 3]
    assert found.keys["class"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (SimpleNamespace(), ["a"], "does not score its classes; got SimpleNamespace; allowed: decision"),
        (
            SimpleNamespace(classes_=["a"], decision_function=lambda inputs: [[1, 2]]),
            ["a"],
            "does not score",
        ),
        (
            SimpleNamespace(classes_=["a", "b"], predict_proba=lambda inputs: [[1, 2]]),
            ["c"],
            "not seen in training has no rank; got 'c'; allowed: the 2 classes .*StratifiedKFold",
        ),
        (
            SimpleNamespace(classes_=["a", "b"], predict_proba=lambda inputs: [[1, 2]]),
            [[1, 0, 1]],
            r"differ in shape; got \(1, 2\) and \(1, 3\)",
        ),
    ],
)
def test_scorer_refuses(estimator, y, message):
    with pytest.raises(er.InputError, match=message):
        integrations.sklearn.ranks(estimator, [[0]], y)


def test_scorer_needs_a_metric():
    with pytest.raises(er.InputError, match="a scorer needs a metric"):
        integrations.sklearn.scorer()


if __name__ == "__main__":
    {"metric": metric_process, "training": training_process}[sys.argv[1]]()
