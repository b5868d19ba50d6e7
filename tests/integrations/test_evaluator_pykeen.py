"""evenrank as evaluator of PyKEEN's pipelines, early stoppers and searches: the same values."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from keen import DATA, GRAPH, error_of, made, results, torch

import evenrank as er

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pykeen.evaluation import RankBasedEvaluator, RankBasedMetricResults, evaluator_resolver
    from pykeen.evaluation.rank_based_evaluator import RankPack
    from pykeen.metrics import ranking
    from pykeen.pipeline import pipeline
    from pykeen.stoppers import EarlyStopper

from evenrank.integrations.pykeen import EvenRankEvaluator, scorer
from evenrank.integrations.pykeen._metrics import Metrics
from evenrank.models import load

pytestmark = pytest.mark.filterwarnings("ignore:::(pykeen|torch|class_resolver|docdata|more_click)")


@pytest.fixture(scope="module")
def trained():
    """Train a little, by both evaluators."""
    return {
        evaluator: pipeline(
            dataset=DATA[True],
            model="RotatE",
            model_kwargs={"embedding_dim": 16},
            evaluator=evaluator,
            stopper="early",
            stopper_kwargs={"frequency": 1, "patience": 2, "relative_delta": 0.002},
            training_kwargs={"num_epochs": 6, "use_tqdm": False},
            evaluation_kwargs={"use_tqdm": False},
            random_seed=0,
        )
        for evaluator in (RankBasedEvaluator, EvenRankEvaluator)
    }


def test_saved_pipelines_can_be_ranked(trained, tmp_path):
    """With its names, in whatever order the graph has them, and with the pipeline's own numbers."""
    result = trained[EvenRankEvaluator]
    result.save_to_directory(tmp_path)
    order = np.random.default_rng(0).permutation(14)
    place = np.argsort(order)
    shuffled = er.Graph.of(
        {s: np.stack([place[t[:, 0]], t[:, 1], place[t[:, 2]]], 1) for s, t in GRAPH.splits.items()},
        entities=[GRAPH.entities[i] for i in order],
        relations=list(GRAPH.relations),
    )
    assert shuffled.hash == GRAPH.hash
    theirs = result.metric_results.get_metric("mrr")
    for one in (GRAPH, shuffled):
        model = load(tmp_path, one)
        assert (model.name, model.notes) == ("RotatE", ())
        ranks = er.rank(model, one.task("test"), progress=False)
        assert ranks.evaluate("mrr", ties="realistic")["mrr"] == pytest.approx(theirs, rel=1e-6)


def test_a_pipeline_has_the_same_results(trained):
    """All keys: sides, rules for ties, metrics; and the early stopper stops at the same epoch."""
    theirs, ours = (trained[kind] for kind in (RankBasedEvaluator, EvenRankEvaluator))
    expected, found = (one.metric_results.to_flat_dict() for one in (theirs, ours))
    assert list(found) == list(expected)
    assert len(found) == 225
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-6), key
    assert isinstance(ours.stopper, EarlyStopper)
    assert len(ours.stopper.results) > 2
    assert ours.stopper.results == pytest.approx(theirs.stopper.results, rel=1e-6)
    assert ours.stopper.best_epoch == theirs.stopper.best_epoch
    assert ours.configuration["evaluator"] == "EvenRankEvaluator"


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"targets": ["tail"]},
        {"restrict_entities_to": set(range(2, 14)), "pre_filtered_triples": False},
        {"restrict_relations_to": set(range(20)), "pre_filtered_triples": False},
    ],
    ids=["all", "tails", "entities", "relations"],
)
def test_options_mean_the_same(options, inverse):
    model = made("ComplEx", inverse)
    if "restrict_entities_to" in options:  # which PyKEEN wants as a list in the end
        options = {**options, "restrict_entities_to": sorted(options["restrict_entities_to"])}
    expected, found = (
        results(kind(), model, **options) for kind in (RankBasedEvaluator, EvenRankEvaluator)
    )
    assert list(found) == list(expected)
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-6, nan_ok=True), key


class Squared(ranking.ZArithmeticMeanRank):
    """A metric that is no shifted and scaled other one."""

    def adjust(self, base_metric_result, num_candidates, weights=None):
        return base_metric_result**2


def test_metrics_have_all_digits_of_pykeen():
    """Of ranks in single and double precision, at first and again."""
    rng = np.random.default_rng(0)
    metrics = [*RankBasedEvaluator().metrics, Squared()]
    for size in (1, 2, 3, 1000, 20_001):
        candidates, ours = rng.integers(1, 15_000, size), Metrics()
        for kind in (np.int64, np.float32):
            ranks = 1 + (candidates * rng.random(size) ** 3).astype(kind)
            packs = [RankPack("head", "realistic", ranks, candidates, None)]
            expected = RankBasedMetricResults.from_ranks(metrics, packs).data
            found = ours.of(metrics, packs).data
            assert list(found) == list(expected)
            np.testing.assert_array_equal(list(found.values()), list(expected.values()))


def test_a_second_evaluation_of_the_same_triples_reuses_the_task():
    """Other triples, written over the old ones or not, are seen."""
    evaluator, model = EvenRankEvaluator(), made("DistMult")
    triples = DATA[False].testing.mapped_triples.clone()
    first = results(evaluator, model, mapped_triples=triples)
    task = evaluator._prepared.task
    assert results(evaluator, model, mapped_triples=triples.clone()) == first
    assert evaluator._prepared.task is task
    for options in (
        {"mapped_triples": triples[:-1]},
        {"targets": ["head"]},
        {"restrict_entities_to": None},
    ):
        given = {"mapped_triples": triples, **options}
        assert results(evaluator, model, **given) == results(EvenRankEvaluator(), model, **given)
    triples[3] = triples[5]
    found = results(evaluator, model, mapped_triples=triples)
    assert found == results(EvenRankEvaluator(), model, mapped_triples=triples) != first


def test_arguments_as_pykeen_takes_them():
    """By position, known triples in one tensor or several, entities in whatever holds numbers."""
    model, data = made("DistMult"), DATA[False]
    known = data.training.mapped_triples, data.validation.mapped_triples
    test = data.testing.mapped_triples
    options = {"additional_filter_triples": torch.cat(known), "use_tqdm": False}
    ways = (
        EvenRankEvaluator().evaluate(model, test, **options),
        EvenRankEvaluator().evaluate(model, test, 64, None, None, **options),
        EvenRankEvaluator().evaluate(model, test, **{**options, "additional_filter_triples": known}),
    )
    assert all(way.to_flat_dict() == results(EvenRankEvaluator(), model) for way in ways)
    inside = test[(test[:, [0, 2]] < 10).all(dim=1)]
    evaluator, among = EvenRankEvaluator(), list(range(10))
    few = {"mapped_triples": inside, "restrict_entities_to": among}
    expected = results(RankBasedEvaluator(), model, **few)
    for same in (among, np.arange(10), np.arange(10)):
        found = results(evaluator, model, mapped_triples=inside, restrict_entities_to=same)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)
    among += [11, 12]
    assert results(evaluator, model, **few) == results(EvenRankEvaluator(), model, **few)


def test_unsupported_arguments_raise():
    model, test = made("DistMult"), DATA[False].testing.mapped_triples
    with pytest.raises(NotImplementedError):
        results(EvenRankEvaluator(), model, targets=["relation"])
    with pytest.raises(TypeError, match="restrict_entites_to"):
        results(EvenRankEvaluator(), model, restrict_entites_to=[0, 1])
    for targets in ("tail", ["tial"]):
        assert f"got {targets!r}" in error_of(results, EvenRankEvaluator(), model, targets=targets)
    for other in (test.numpy(), DATA[False].testing):
        said = error_of(results, EvenRankEvaluator(), model, mapped_triples=other)
        assert f"got {type(other).__name__}" in said
    assert "memory" in error_of(EvenRankEvaluator, memory="much")
    assert "threads" in error_of(EvenRankEvaluator, threads=0)


def test_a_black_box_is_noted_once():
    evaluator, model = EvenRankEvaluator(), made("ERMLP")
    with pytest.warns(RuntimeWarning, match="ERMLP falls back to black box"):
        first = results(evaluator, model)
    assert results(evaluator, model) == first  # where a warning would be an error


def test_tie_breaking_rules_are_distinguished():
    """A model in which everything ties: each rule gives PyKEEN's value."""
    model = made("DistMult")
    with torch.no_grad():
        model.entity_representations[0]._embeddings.weight.fill_(1.0)
    expected, found = (results(kind(), model) for kind in (RankBasedEvaluator, EvenRankEvaluator))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    key = "both.{}.arithmetic_mean_rank"
    assert found[key.format("optimistic")] == 1 < found[key.format("realistic")]


def test_ranks_are_available_after_evaluation():
    """Metrics that PyKEEN lacks can be computed from the ranks."""
    evaluator = EvenRankEvaluator()
    found = results(evaluator, made("TransE"))
    ranks = evaluator.ranked
    assert ranks.evaluate("index(mrr)", ties="realistic")["index(mrr)"] == pytest.approx(
        found["both.realistic.adjusted_inverse_harmonic_mean_rank"], rel=1e-6
    )
    assert len(ranks.by("relation")) == len(np.unique(GRAPH.splits["test"][:, 1]))
    assert (ranks.protocol.filter, ranks.protocol.model) == (("given",), "TransE")


def test_raw_ranking_works():
    """PyKEEN's evaluator does not support it."""
    model = made("TransE")
    with pytest.raises(ValueError, match="needs the true scores"):
        results(RankBasedEvaluator(filtered=False), model)
    found = results(EvenRankEvaluator(filtered=False), model)
    raw = er.rank(scorer(model), GRAPH.task("test", filter=None), progress=False)
    expected = raw.evaluate("mrr", ties="realistic")["mrr"]
    assert found["both.realistic.inverse_harmonic_mean_rank"] == pytest.approx(expected, rel=1e-6)


def test_a_diverged_model_raises():
    """PyKEEN's MRR is 2 if every score is NaN."""
    model = made("TransE")
    with torch.no_grad():
        model.entity_representations[0]._embeddings.weight.fill_(float("nan"))
    theirs = results(RankBasedEvaluator(metrics=["mrr"], add_defaults=False), model)
    assert theirs["both.realistic.inverse_harmonic_mean_rank"] == 2
    evaluator = EvenRankEvaluator()
    results(evaluator, made("TransE"))
    assert "NaN" in error_of(results, evaluator, model)
    assert evaluator.ranked is None


def test_inductive_modes_are_left_to_pykeen():
    """Inductive models have separate entities; PyKEEN raises for models without any."""
    with pytest.raises(ValueError, match="TransE does not support inductive mode: validation"):
        results(EvenRankEvaluator(mode="validation"), made("TransE"))


def test_options_of_both():
    evaluator = EvenRankEvaluator(
        metrics=["mrr"], add_defaults=False, memory="2MB", threads=1, exact=False
    )
    assert len(results(evaluator, made("TransE"))) == 9
    assert evaluator.ranked.protocol.scores == "float32"


def test_searches_find_it_by_its_name():
    """They write down the names of what they tried, and look these up to do it again."""
    assert evaluator_resolver.lookup(EvenRankEvaluator.get_normalized_name()) is EvenRankEvaluator


def test_the_example_runs(capsys):
    example = Path(__file__).parents[2] / "examples" / "pykeen_pipeline.py"
    runpy.run_path(str(example))["main"](5)
    assert "PyKEEN's key: mrr 0." in capsys.readouterr().out
