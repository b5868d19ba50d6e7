"""Ranking inside Lightning's loop, in one process or several."""

from pathlib import Path

import pytest
from processes import together

import evenrank as er
from evenrank import integrations

# warnings of the libraries are ignored
pytestmark = pytest.mark.filterwarnings("ignore:::(lightning|torch|torchmetrics)")


def library(name):
    """Import a library of an extra, or skip the test."""
    return pytest.importorskip(name, reason=f"{name} is not installed (make peers installs it)")


@pytest.fixture(scope="module")
def graph():
    return er.load("nations")


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

        def validation_step(self, rows, index, dataloader_idx=0):
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
    wanted = ranks.evaluate(*integrations.lightning.DEFAULT).to_dict("valid/", plain=True)
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
    assert ranking.ranks.protocol.scores == "as given"


def test_callback_ranks_as_often_as_there_is_validation(graph, tmp_path):
    callbacks = library("lightning.pytorch.callbacks")
    asked = []

    def scorer(module):
        asked.append(module.current_epoch)
        return distmult(module)

    ranking = ranking_callback("mrr", valid=graph.task("valid"), scorer=scorer)
    monitored = {"monitor": "valid/mrr", "mode": "max"}
    best = callbacks.ModelCheckpoint(tmp_path, save_top_k=-1, **monitored)
    stopping = callbacks.EarlyStopping(patience=3, **monitored)
    trainer, module, rows = training(
        graph, tmp_path, [stopping, best, ranking], max_epochs=7, check_val_every_n_epoch=3
    )
    assert asked == [2, 5]
    assert len(best.best_k_models) == 2
    assert trainer.current_epoch == 7  # epochs without validation do not count as without progress
    trainer.validate(module, [rows("valid")] * 2, verbose=False)
    assert len(asked) == 3


def test_callbacks_with_a_prefix_each(graph, tmp_path):
    def ranking(split, **options):
        return ranking_callback("mrr", valid=graph.task(split), scorer=distmult, **options)

    valid, train = ranking("valid"), ranking("train", prefix="fit/")
    trainer, *_ = training(graph, tmp_path, [valid, train], max_epochs=1)
    for name, one in {"valid/mrr": valid, "fit/valid/mrr": train}.items():
        assert trainer.callback_metrics[name].item() == one.ranks.evaluate("mrr")["mrr"]
    message = r"two callbacks log the same names; got valid/...; set the prefix= of one"
    with pytest.raises(er.errors.InputError, match=message):
        training(graph, tmp_path, [valid, ranking("train")])


def test_callback_ranks_half_precision(graph, tmp_path):
    ranking = ranking_callback("mrr", valid=graph.task("valid"), scorer=distmult)
    _, module, _ = training(graph, tmp_path, [ranking], precision="bf16-true", max_epochs=1)
    widened = er.models.DistMult(module.entity.float(), module.relation.float())
    assert ranking.ranks.better.tolist() == er.rank(widened, graph.task("valid")).better.tolist()


def test_callback_raises_for_invalid_arguments():
    with pytest.raises(er.errors.InputError, match="nothing to rank; set valid="):
        ranking_callback("mrr")
    with pytest.raises(er.errors.UnknownMetricError, match="unknown metric; got 'mmr'"):
        ranking_callback("mmr", valid=er.load("nations").task("valid"))


def test_callback_raises_for_a_module_without_scores_before_training(tmp_path):
    torch, lightning = library("torch"), library("lightning.pytorch")

    class Silent(lightning.LightningModule):
        def training_step(self, batch):
            raise AssertionError("trained")

        def configure_optimizers(self):
            return None

    ranking = ranking_callback("mrr", valid=er.load("nations").task("valid"))
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, callbacks=[ranking], default_root_dir=tmp_path, max_epochs=1
    )
    message = r"^the module has no forward\(h, r, t\) or score\(.*got Silent; .*scorer=lambda"
    with pytest.raises(er.errors.InputError, match=message):
        trainer.fit(Silent(), torch.utils.data.DataLoader([0.0]))


def training_process():
    """Train among processes; tell what this one logged, and whether it ranked."""
    import logging

    logging.disable()
    graph = er.load("nations")
    ranking = ranking_callback("mrr", "hits@3", valid=graph.task("valid"), scorer=distmult)
    trainer, module, _ = training(graph, ".", [ranking], devices=2, strategy="ddp", max_epochs=2)
    logged = {name: trainer.callback_metrics[f"valid/{name}"].item() for name in ("mrr", "hits_at_3")}
    mine = er.rank(distmult(module), graph.task("valid"), progress=False).evaluate("mrr")["mrr"]
    return {"logged": logged, "mine": mine, "ranked": ranking.ranks is not None}


def test_callback_ranks_once_for_all_processes(tmp_path):
    library("lightning.pytorch")
    first, second = together(training_process, 2, tmp_path)
    assert first["logged"] == second["logged"]
    assert first["logged"]["mrr"] == first["mine"] == second["mine"]
    assert (first["ranked"], second["ranked"]) == (True, False)
