"""From PyKEEN to ranks with names: those of pipelines, and of saved models where entities are unseen."""

import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import shared
from keen import DATA, GRAPH, error_of, made, results, torch
from shell import run

import evenrank as er

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import DistMult
    from pykeen.pipeline import pipeline
    from pykeen.triples import TriplesFactory

from evenrank.integrations.pykeen import EvenRankEvaluator, factories, graph, ranks
from evenrank.models import load_pair

pytestmark = pytest.mark.filterwarnings("ignore:::(pykeen|torch|class_resolver|docdata|more_click)")
PAGE = (Path(__file__).parents[2] / "docs" / "pykeen.md").read_text(encoding="utf-8")


def train(evaluator=EvenRankEvaluator, **options):
    """Run a short pipeline."""
    given = {} if "training" in options else {"dataset": DATA[False]}
    return pipeline(
        **given,
        model="DistMult",
        model_kwargs={"embedding_dim": 4},
        training_kwargs={"num_epochs": 2, "use_tqdm": False},
        evaluator=evaluator,
        evaluation_kwargs={"use_tqdm": False, **options.pop("evaluation_kwargs", {})},
        random_seed=0,
        device="cpu",
        **options,
    )


def by_target(found):
    """Return better and equal candidates by the names of the target."""
    names = zip(*(found.keys[key].tolist() for key in ("head", "relation", "tail", "side")), strict=True)
    counts = zip(found.better.tolist(), found.equal.tolist(), strict=True)
    return dict(zip(names, counts, strict=True))


def same(one, other):
    """Compare ranks as `er.compare` joins them: by the names of their targets."""
    assert by_target(one) == by_target(other)
    difference = er.compare({"one": one, "other": other}, metrics="mrr")
    assert "one and other have the same ranks" in str(difference)
    return difference


@pytest.fixture(scope="module")
def trained():
    return train()


def test_the_ranks_of_a_pipeline_are_those_of_its_saved_model(trained, tmp_path):
    found = ranks(trained)
    assert list(found.keys) == ["head", "relation", "tail", "side"]
    assert set(found.keys["relation"]) <= set(GRAPH.relations)
    assert found.protocol.to_dict() == {
        "data": "nations",
        "content": GRAPH.hash,
        "split": "test",
        "sides": "tail, head",
        "filter": "train, valid, test",
        "candidates": "all",
        "unseen": "drop",
        "model": "DistMult",
        "scores": "float64, certified",
    }
    trained.save_to_directory(tmp_path / "saved")
    for unseen in ("keep", "drop"):
        nations = er.load("nations", unseen=unseen)
        direct = er.rank(load_pair(tmp_path / "saved", nations)[0], nations.task("test"), progress=False)
        same(found, direct)
        grouped = [one.by("relation").evaluate("mrr").to_dict() for one in (found, direct)]
        assert grouped[0] == grouped[1]
    page = er.report(tmp_path / "report.html", found, direct.with_protocol(model="again"))
    text = page.read_text(encoding="utf-8")
    assert "nations" in text
    assert "intergovorgs3" in text


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    """Its first lines of Python, and its command, in the folder of the reader."""
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:2]
    command = re.search(r"^evenrank (rank complex/ --data nations .*)$", PAGE, re.MULTILINE)[1]
    variables = {}
    exec(first, variables)
    printed = capsys.readouterr().out
    assert "intergovorgs3" in printed
    assert "data: nations" in printed
    variables["result"].save_to_directory("complex/")
    exec(second, variables)
    assert "pipeline and saved have the same ranks" in capsys.readouterr().out
    by_relation = run(*command.split())
    assert "intergovorgs3" in by_relation
    same(er.Ranks.load("complex.parquet"), er.Ranks.load("ranks.parquet"))
    assert "ComplEx" in Path("report.html").read_text(encoding="utf-8")


def test_values_are_those_of_pykeen_with_and_without_names():
    expected = results(RankBasedEvaluator(), made("TransE"))
    plain, named = (
        results(EvenRankEvaluator(**options), made("TransE"))
        for options in ({}, {"dataset": DATA[False]})
    )
    assert named == plain
    assert list(plain) == list(expected)
    assert plain == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_an_evaluator_with_a_data_set_names_every_evaluation(trained):
    for given in (DATA[False], GRAPH):
        evaluator = EvenRankEvaluator(dataset=given)
        result = train(
            evaluator,
            stopper="early",
            stopper_kwargs={"frequency": 1, "patience": 5},
        )
        assert ranks(result) is evaluator.ranked
        same(ranks(result), ranks(trained))
        assert ranks(result, name="other").protocol.data == "other"
        data = DATA[False]
        found = evaluator.evaluate(
            result.model,
            data.validation.mapped_triples,
            additional_filter_triples=data.training.mapped_triples,
            use_tqdm=False,
        )
        assert found.ranked is evaluator.ranked
        assert (found.ranked.protocol.split, found.ranked.protocol.filter) == (
            "valid",
            ("train", "valid"),
        )
        task = GRAPH.task("valid", filter=("train", "valid"))
        same(found.ranked, er.rank(er.integrations.pykeen.scorer(result.model), task, progress=False))


def test_raw_and_restricted_ranks_have_names_as_well(trained):
    raw = EvenRankEvaluator(dataset=DATA[False], filtered=False)
    results(raw, trained.model)
    direct = GRAPH.task("test", filter=None)
    same(raw.ranked, er.rank(er.integrations.pykeen.scorer(trained.model), direct, progress=False))
    few = EvenRankEvaluator(dataset=DATA[False])
    results(few, trained.model, restrict_relations_to=range(20), pre_filtered_triples=False)
    assert set(few.ranked.keys["relation"]) <= set(GRAPH.relations[:20])
    assert few.ranked.protocol.split is None  # it is a part of the test split


def test_what_a_pipeline_does_not_record_is_left_open(trained):
    """Which split was ranked, and the data set, unless it is given."""
    options = {"use_testing_data": False}
    validated = train(**options)
    found = ranks(validated)
    assert (found.protocol.split, found.protocol.content, found.protocol.filter) == (
        None,
        None,
        ("given",),
    )
    assert found.keys["relation"][0] in GRAPH.relations
    task = GRAPH.task("valid", filter=("train", "valid"))
    direct = er.rank(er.integrations.pykeen.scorer(validated.model), task, progress=False)
    same(ranks(validated, DATA[False]), direct)
    stopped = train(stopper="early", stopper_kwargs={"frequency": 1}, **options)
    assert (ranks(stopped).protocol.split, ranks(stopped).protocol.content) == ("valid", None)
    unfiltered = ranks(train(filter_validation_when_testing=False), GRAPH)
    assert (unfiltered.protocol.split, unfiltered.protocol.filter) == ("test", ("train", "test"))


def test_names_of_data_sets(trained, tmp_path):
    assert ranks(trained, name="mine").protocol.data == "mine"
    made_by_us = train(**factories(er.load("nations", name="own")))
    assert ranks(made_by_us).protocol.data == "own"
    direct = er.rank(er.integrations.pykeen.scorer(made_by_us.model), GRAPH.task("test"), progress=False)
    same(ranks(made_by_us), direct)
    folder = toy(tmp_path)
    parts = read(folder)
    found = ranks(train(**parts))
    assert found.protocol.data == "toy"
    assert found.protocol.content == er.load(folder, unseen="drop").hash
    bare = {split: factory.to_core_triples_factory() for split, factory in parts.items()}
    found = ranks(train(**bare))
    assert found.keys["head"].dtype.kind == "i"  # there are no names


def test_pipelines_with_another_evaluator_rank_a_given_data_set(trained):
    other = train(RankBasedEvaluator)
    assert error_of(ranks, other) == (
        "this pipeline has no ranks; got evaluator RankBasedEvaluator; run it with "
        "evaluator=EvenRankEvaluator, or pass the data set to rank its test triples"
    )
    same(ranks(other, DATA[False]), ranks(trained))


def test_other_data_sets_raise(trained, tmp_path):
    order = [*GRAPH.entities[1:], GRAPH.entities[0]]
    place = np.array([order.index(name) for name in GRAPH.entities])
    renumbered = er.Graph.of(
        {s: np.stack([place[t[:, 0]], t[:, 1], place[t[:, 2]]], 1) for s, t in GRAPH.splits.items()},
        entities=order,
        relations=GRAPH.relations,
    )
    assert renumbered.hash == GRAPH.hash
    line = error_of(ranks, trained, renumbered)
    assert line.startswith("the evaluated triples are not of the data set graph; got ")
    assert line.endswith("; pass the data set that the model was trained on, with its numbering")
    with pytest.raises(er.errors.InputError, match="the evaluated triples are not of the data set"):
        results(EvenRankEvaluator(dataset=renumbered), trained.model)
    umls = EvenRankEvaluator(dataset=er.load("umls"))
    assert "got 14 and 135" in error_of(results, umls, trained.model)
    assert "not a data set; got str" in error_of(EvenRankEvaluator, dataset="nations")
    assert "not the result of a PyKEEN pipeline" in error_of(ranks, trained.model)


def test_results_can_be_pickled(trained):
    again = pickle.loads(pickle.dumps(trained.metric_results))
    assert again.to_flat_dict() == trained.metric_results.to_flat_dict()
    assert np.array_equal(again.ranked.better, trained.metric_results.ranked.better)


# Saved models of graphs with entities not seen in training ---------------------------------------------


def toy(folder):
    """Write a graph whose unseen entities sort before, between and after the others."""
    rng = np.random.default_rng(3)
    seen, relations = [f"e{i}" for i in range(1, 20, 2)], ["r", "s"]
    folder = folder / "toy"
    folder.mkdir()
    for split, names, count in (
        ("train", seen, 60),
        ("valid", [*seen, "a", "e4"], 20),
        ("test", [*seen, "e2", "z"], 40),
    ):
        rows = {(rng.choice(names), rng.choice(relations), rng.choice(names)) for _ in range(count)}
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in sorted(rows)))
    return folder


def read(folder, gzipped=""):
    """Read the triples as PyKEEN does, which leaves out what the training triples do not show."""
    training = TriplesFactory.from_path(f"{folder}/train.txt{gzipped}")
    others = {
        name: TriplesFactory.from_path(
            f"{folder}/{split}.txt{gzipped}",
            entity_to_id=training.entity_to_id,
            relation_to_id=training.relation_to_id,
        )
        for name, split in (("validation", "valid"), ("testing", "test"))
    }
    return {"training": training, **others}


def save(parts, folder, seed=1):
    """Save a model of small whole numbers, whose scores are exact in float32, as a pipeline does."""
    model = DistMult(triples_factory=parts["training"], embedding_dim=8, random_seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-99, 100, parameter.shape))
    folder.mkdir()
    torch.save(model, folder / "trained_model.pkl")
    parts["training"].to_path_binary(folder / "training_triples")
    return model


def theirs(model, parts, triples):
    """Rank triples by PyKEEN's evaluator; return the names of each target and its rank."""
    evaluator = RankBasedEvaluator(clear_on_finalize=False)
    known = [factory.mapped_triples for factory in parts.values()]
    evaluator.evaluate(model, triples, additional_filter_triples=known, use_tqdm=False, batch_size=64)
    found = {}
    for side in ("head", "tail"):
        values = np.concatenate(evaluator.ranks[side, "realistic"]).tolist()
        names = parts["training"].label_triples(triples).tolist()
        found |= {(*row, side): rank for row, rank in zip(names, values, strict=True)}
    return found


def check(found, expected):
    """Compare with PyKEEN's ranks."""
    mine = by_target(found)
    assert {names: 1 + mine[names][0] + mine[names][1] / 2 for names in expected} == expected


@pytest.fixture
def place(tmp_path):
    folder = toy(tmp_path)
    return tmp_path, folder, read(folder)


@pytest.mark.parametrize("alone", [False, True])
def test_a_saved_model_ranks_without_options(place, alone):
    """The folder of a pipeline, and the pickle alone, as PyKEEN ranks."""
    tmp_path, folder, parts = place
    model = save(parts, tmp_path / "saved")
    source = tmp_path / "saved"
    if alone:
        source = (source / "trained_model.pkl").rename(tmp_path / "alone.pkl")
    out = tmp_path / "ranks.parquet"
    printed = json.loads(run("rank", source, "--data", folder, "--format", "json", "-o", out))
    assert printed["protocol"]["unseen"] == "drop"
    expected = theirs(model, parts, parts["testing"].mapped_triples)
    assert len(er.Ranks.load(out)) == 2 * parts["testing"].num_triples
    check(er.Ranks.load(out), expected)
    assert "got 10 of 14 entities" in run("rank", source, "--data", folder, "--unseen", "keep", code=2)


def test_names_in_another_order_are_matched(place):
    """A model of triples that were numbered in reverse order."""
    tmp_path, folder, parts = place
    names = sorted(parts["training"].entity_to_id, reverse=True)
    numbers = {name: i for i, name in enumerate(names)}
    relations = {"s": 0, "r": 1}
    given = {"entity_to_id": numbers, "relation_to_id": relations}
    files = (("training", "train"), ("validation", "valid"), ("testing", "test"))
    turned = {part: TriplesFactory.from_path(f"{folder}/{split}.txt", **given) for part, split in files}
    model = save(turned, tmp_path / "turned")
    loaded, seen = load_pair(tmp_path / "turned", er.load(folder))
    assert len(loaded.notes) == 1
    found = er.rank(loaded, seen.task("test"), progress=False)
    check(found, theirs(model, turned, turned["testing"].mapped_triples))
    other = er.Graph.of({s: t[:, ::-1] * 0 for s, t in seen.splits.items()}, entities=["x", *names[1:]])
    assert "(not in the model: x)" in error_of(er.models.load, tmp_path / "turned", other)


def test_equal_numbers_of_other_entities_are_not_aligned(place):
    tmp_path, folder, parts = place
    save(parts, tmp_path / "saved")
    text = (folder / "train.txt").read_text()
    (folder / "train.txt").write_text(text.replace("e11\t", "f11\t").replace("\te11\n", "\tf11\n"))
    line = run("rank", tmp_path / "saved", "--data", folder, code=2)
    assert line.startswith("model and graph differ in entities; got 10 in saved, 15 in the graph")


@shared.needs("datasets/wn18rr", "datasets/fb15k237")
@pytest.mark.parametrize(
    ("name", "entities", "triples"), [("wn18rr", 40_559, 2_924), ("fb15k237", 14_505, 20_438)]
)
def test_benchmarks_rank_as_pykeen_ranks(name, entities, triples, tmp_path):
    """The first test triples by PyKEEN's own evaluator, and the hash of all triples."""
    folder = shared.path(f"datasets/{name}")
    parts = read(folder, ".gz")
    model = save(parts, tmp_path / "saved")
    loaded, seen = load_pair(tmp_path / "saved", er.load(folder))
    assert (len(seen.entities), len(seen.splits["test"])) == (entities, triples)
    assert seen.hash == graph(*parts.values()).hash
    found = er.rank(loaded, seen.task("test"), progress=False)
    check(found, theirs(model, parts, parts["testing"].mapped_triples[:50]))
