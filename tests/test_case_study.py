"""The case study: the paper's settings, the bundled ranks, and the commands from training to figure."""

import csv
import json
import re
import sys
import tomllib
import warnings
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import shared
from scipy.stats import spearmanr

import evenrank as er
from evenrank.metrics.chance import read_sizes

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "case_study"
PAGE = (ROOT / "docs" / "case-study.md").read_text(encoding="utf-8")


def load(name):
    spec = spec_from_file_location(f"case_study_{name}", FOLDER / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # NamedTuples look themselves up there
    spec.loader.exec_module(module)
    return module


study = load("__main__")
RUNS = [(data, model) for data in study.DATA for model in study.MODELS]


def settings(name):
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def evaluated(data, model):
    return er.Ranks.load(FOLDER / "ranks" / f"{data}-{model}.parquet").evaluate(
        *study.PANELS, chance="independent"
    )


# The paper --------------------------------------------------------------------


@shared.needs("paper/case_study_hyperparameters.json")
@pytest.mark.parametrize("data", study.SMALL)
@pytest.mark.parametrize("model", study.MODELS)
def test_settings_equal_those_of_the_paper(data, model):
    """Settings not in `paper.toml` are in its header, and the same for all models."""
    theirs = json.loads(shared.path("paper/case_study_hyperparameters.json").read_text())
    theirs = theirs[f"{data}/{model}"]
    said = {
        "dataset": data,
        "dataset_kwargs": {"create_inverse_triples": True},
        "evaluator": "rankbased",
        "evaluator_kwargs": {"filtered": True},
        "model": model,
        "regularizer": "no",
    }
    ours = settings("paper.toml")[model]
    ours["optimizer_kwargs"]["weight_decay"] = 0.0
    assert theirs == {**said, **ours}


@shared.needs("paper/case_study_results.tsv")
def test_published_values_equal_those_of_the_paper():
    columns = {
        "mrr": "inverse_harmonic_mean_rank",
        "index(mrr)": "adjusted_inverse_harmonic_mean_rank",
        "z(mrr)": "z_inverse_harmonic_mean_rank",
    }
    results = shared.table("paper/case_study_results.tsv")
    ours = study.published()
    assert sorted(ours) == sorted(RUNS)
    for (data, model), row in ours.items():
        theirs = results.filter(pl.col("dataset") == data, pl.col("model") == model).row(0, named=True)
        assert row == {name: theirs[column] for name, column in columns.items()}


# Bundled files --------------------------------------------------------------------


@pytest.mark.parametrize(("data", "model"), RUNS)
def test_shipped_ranks(data, model):
    """Every run has its protocol, the candidates of the atlas, both sides of every test triple."""
    ranks = er.Ranks.load(FOLDER / "ranks" / f"{data}-{model}.parquet")
    asked = {"data": data, "split": "test", "sides": "tail, head", "filter": "train, valid, test"}
    asked |= {"candidates": "all", "unseen": "drop", "model": study.MODELS[model]}
    assert asked.items() <= ranks.protocol.to_dict().items()
    assert list(ranks.keys) == ["head", "relation", "tail", "side"]
    assert read_sizes(ranks.candidates) == er.atlas(data, unseen="drop")
    triples = [
        np.stack([part.keys[key] for key in ("head", "relation", "tail")])
        for _, part in ranks.by("side")
    ]
    assert (triples[0] == triples[1]).all()


def test_shipped_files_are_small():
    assert sum(file.stat().st_size for file in (FOLDER / "ranks").iterdir()) < 3e6


@pytest.mark.parametrize(("data", "model"), [run for run in RUNS if run[0] in study.LARGE])
def test_large_runs_reach_the_papers_mrr(data, model):
    """Comments of the recipes have the values reached."""
    ours, theirs = evaluated(data, model)["mrr"], study.published()[data, model]["mrr"]
    assert ours >= theirs
    text = (FOLDER / "recipes.toml").read_text(encoding="utf-8")
    assert f"[{data}.{model}] # MRR {ours:.3f}, paper {theirs:.3f}" in text.splitlines()


def test_recipes_cover_the_large_data_sets():
    recipes = [(data, model) for data, models in settings("recipes.toml").items() for model in models]
    assert recipes == [run for run in RUNS if run[0] in study.LARGE]


def test_both_evaluators_agreed():
    """Where PyKEEN trained, its evaluator's metrics were ours, and it took longer."""
    runs = {(run["data"], run["model"]): run for run in study.rows(FOLDER / "ranks" / study.RUNS)}
    for data, model in RUNS:
        if data in study.SMALL:
            run = runs[data, model]
            assert float(run["deviation"]) <= 1e-6
            assert float(run["pykeen_s"]) > float(run["evenrank_s"])


# The docs -----------------------------------------------------------------------------


def test_the_docs_have_the_table(capsys):
    study.main(["table", "--markdown"])
    assert capsys.readouterr().out.strip() in PAGE


def test_table_corrects_the_published_values(capsys):
    """The middle column is the paper's, the last one its MRR adjusted exactly."""
    study.main(["table"])
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("Nations    ComplEx"))
    exact = er.adjust({"mrr": 0.4304182897159709}, data="nations", unseen="drop", chance="independent")
    assert line.split()[5:7] == ["0.1884", f"{exact['index(mrr)']:.4f}"]
    assert line.split()[8:] == ["-0.7145", f"{exact['z(mrr)']:.3f}"]


def test_the_docs_have_the_correlations_with_size():
    """Spearman's rank correlation of each metric with the number of entities, over the 16 runs."""
    size = [list(study.DATA).index(data) for data, _ in RUNS]  # sorted by size
    tables = {
        "ours, exact": {run: evaluated(*run) for run in RUNS},
        "paper, as published": study.published(),
        "paper, exact": study.corrected(),
    }
    for name, values in tables.items():
        found = [
            spearmanr(size, [values[run][metric] for run in RUNS]).statistic for metric in study.PANELS
        ]
        assert f"| {name} | " + " | ".join(f"{x:+.2f}" for x in found) + " |" in PAGE


@pytest.mark.parametrize("model", ["complex", "tucker"])
def test_the_docs_compare_nations_and_wn18rr(model):
    """The numbers of the second and the third observation."""
    for data in ("nations", "wn18rr"):
        tables = evaluated(data, model), study.published()[data, model], study.corrected()[data, model]
        cells = [" / ".join(study.figure(table[metric]) for table in tables) for metric in study.PANELS]
        assert f"| {study.MODELS[model]} | {study.DATA[data]} | " + " | ".join(cells) + " |" in PAGE


# Commands -----------------------------------------------------------------------------------


def test_a_folder_without_ranks(tmp_path):
    with pytest.raises(SystemExit, match=f"no ranks in {re.escape(str(tmp_path))}; run `train -o"):
        study.main(["table", "--ranks", str(tmp_path)])


def test_training_without_pykeen(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, "paper", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails, whether it is there or not
    with pytest.raises(SystemExit, match=r"training needs torch; pip install 'evenrank\[peers\]'"):
        study.main(["train", "--models", "complex", "-o", str(tmp_path)])


def test_figure(tmp_path):
    pytest.importorskip("vl_convert", reason="the extra `report` brings vl-convert-python")
    files = [tmp_path / "figure.png", tmp_path / "figure.svg"]
    study.main(["figure", "-o", *map(str, files)])
    assert files[0].read_bytes().startswith(b"\x89PNG")
    text = files[1].read_text(encoding="utf-8")
    assert all(name in text for name in [*study.DATA.values(), *study.MODELS.values(), "index(mrr)"])


def test_figure_shows_every_run_and_the_published_values():
    points = list(study.points(FOLDER / "ranks"))
    assert len(points) == 2 * len(RUNS) * len(study.PANELS)
    assert sum("published" in point for point in points) == len(points) // 2
    assert list(dict.fromkeys(point["model"] for point in points)) == list(study.MODELS.values())


@pytest.mark.filterwarnings("ignore:::(pykeen|torch|class_resolver|docdata)")
def test_from_training_to_table(tmp_path, monkeypatch, capsys):
    """Two epochs of PyKEEN on Nations: both evaluators agree, files are written, the table is drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pykeen", reason="PyKEEN is not installed (extra: peers)")
    monkeypatch.syspath_prepend(FOLDER)
    options = [
        "--data",
        "nations",
        "--models",
        "complex",
        "tucker",
        "--epochs",
        "2",
        "-o",
        str(tmp_path),
    ]
    study.main(["train", *options])
    assert "their metrics differ by" in capsys.readouterr().out
    runs = study.rows(tmp_path / study.RUNS)
    assert [(run["data"], run["model"]) for run in runs] == [
        ("nations", "complex"),
        ("nations", "tucker"),
    ]
    for run in runs:
        assert float(run["deviation"]) <= 1e-6
        assert min(float(run["pykeen_s"]), float(run["evenrank_s"]), float(run["training_s"])) > 0
        stem = f"{run['data']}-{run['model']}"
        graph = er.load("nations", unseen="drop")
        again = er.rank(
            er.models.load(tmp_path / f"{stem}.safetensors"), graph.task("test"), progress=False
        )
        assert (again.better == er.Ranks.load(tmp_path / f"{stem}.parquet").better).all()
    study.main(["table", "--ranks", str(tmp_path)])
    assert len(capsys.readouterr().out.splitlines()) == 3 + 2


@pytest.mark.skipif(find_spec("torch") is None, reason="training needs torch")
@pytest.mark.parametrize("model", study.MODELS)
def test_training_against_all_entities(model):
    """The validation MRR rises, the stored model has the same ranks, and training stops in time."""
    large = load("train")
    graph = er.load("umls")
    recipe = settings("recipes.toml")["wn18rr"][model]
    epochs = {"tucker": 15, "transe": 10}.get(model, 3)  # dropout and small steps take their time
    recipe = {**recipe, "model": {**recipe["model"], "dimension": 16}, "batch": 64, "epochs": epochs}
    recipe["rate"] = max(recipe["rate"], 0.005)
    told = list(large.train(graph, model, recipe, every=0))
    assert [one.epoch for one in told] == list(range(1, epochs + 1))
    assert told[-1].mrr > max(told[0].mrr, 1.5 * er.chance("mrr", graph.task("valid").candidates).mean())
    best = max(told, key=lambda one: one.mrr)
    kept = er.rank(best.better, graph.task("valid"), progress=False).evaluate("mrr")["mrr"]
    assert kept == pytest.approx(best.mrr, rel=0.02)  # half precision
    assert [one.epoch for one in large.train(graph, model, recipe, seconds=1e-9)] == [1]


@pytest.mark.skipif(find_spec("torch") is None, reason="training needs torch")
def test_answers_share_the_probability():
    """All answers of a distinct query get the same share, for any batch."""
    torch = pytest.importorskip("torch")
    large = load("train")
    rows = torch.tensor([[0, 0, 2], [1, 0, 3], [0, 0, 1], [0, 1, 2], [0, 0, 3]])
    queries = large.Queries(rows, 0.0)
    shares = queries.shares(torch.tensor([2, 0]), torch.zeros(2, 4))
    asked = [(int(queries.e[i]), int(queries.r[i])) for i in (2, 0)]
    expected = {(0, 0): [0, 1 / 3, 1 / 3, 1 / 3], (0, 1): [0, 0, 1, 0], (1, 0): [0, 0, 0, 1]}
    assert shares.tolist() == pytest.approx(np.array([expected[pair] for pair in asked]))


@pytest.mark.skipif(find_spec("torch") is None, reason="training needs torch")
def test_entities_of_queries_are_excluded_for_symmetric_relations():
    """The loss by definition: entity by entity, and a softmax over the others."""
    torch = pytest.importorskip("torch")
    large = load("train")
    rows = torch.tensor([[0, 0, 1], [1, 0, 0], [2, 0, 3], [3, 0, 2], [0, 1, 2], [0, 1, 3]])
    queries = large.LogisticAndSoftmax(rows, 0.0)
    assert queries.symmetric.tolist() == [True, False]
    scores = -torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    some = torch.tensor([0, 1, 2])  # of (0, 0), (0, 1) and (1, 0)
    assert [(int(queries.e[i]), int(queries.r[i])) for i in some] == [(0, 0), (0, 1), (1, 0)]
    expected = 0.0
    for row, asks, answers in ((0, 0, [1]), (1, None, [2, 3]), (2, 1, [0])):
        weight = large.FIRST[0] if asks is not None else large.FIRST[1]
        others = [i for i in range(4) if i != asks]
        expected += sum(
            np.log1p(np.exp(-s if i in answers else s)) for i in others for s in [float(scores[row, i])]
        )
        total = np.log(sum(np.exp(float(scores[row, i])) for i in others))
        expected += weight * sum(total - float(scores[row, i]) for i in answers) / len(answers)
    loss = queries.loss(lambda e, r: scores, some, 0.0)
    assert float(loss) == pytest.approx(expected / 3, rel=1e-5)


def test_a_run_replaces_the_record_of_an_earlier_one(tmp_path):
    path = tmp_path / study.RUNS
    for seconds in (1.0, 2.0):
        study.record(path, {"data": "wn18rr", "model": "rotate", "training_s": seconds})
        study.record(path, {"data": "nations", "model": "tucker", "training_s": 3.0})
    with path.open(encoding="utf-8", newline="") as file:
        runs = [(run["data"], run["training_s"]) for run in csv.DictReader(file)]
    assert runs == [("nations", "3"), ("wn18rr", "2")]
