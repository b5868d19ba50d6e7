"""evenrank inside PyKEEN, and PyKEEN's models inside evenrank: the same numbers, key by key."""

import runpy
import warnings
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import evenrank as er

with warnings.catch_warnings():
    # what PyKEEN and its dependencies warn of while they load is theirs to mend
    warnings.simplefilter("ignore")
    _reason = "PyKEEN is not installed (the extra `peers` brings it)"
    pytest.importorskip("pykeen", reason=_reason)
    torch = pytest.importorskip("torch", reason=_reason)
    from pykeen import models
    from pykeen.datasets import Nations
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.nn import Embedding
    from pykeen.nn.modules import (
        ClampedInteraction,
        DistMultInteraction,
        MonotonicAffineTransformationInteraction,
        TransEInteraction,
    )
    from pykeen.pipeline import pipeline
    from pykeen.stoppers import EarlyStopper
    from pykeen.triples import CoreTriplesFactory
    from torch.nn.functional import normalize

from evenrank.integrations import load
from evenrank.integrations.pykeen import BlackBox, EvenRankEvaluator, factories, graph, scorer

pytestmark = pytest.mark.filterwarnings("ignore:::(pykeen|torch|class_resolver|docdata|more_click)")

DATA = {inverse: Nations(create_inverse_triples=inverse) for inverse in (False, True)}
GRAPH = graph(DATA[False])
TASK = GRAPH.task("test")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made(name, inverse=False, **options):
    """Make a model whose parameters are all over the place, batch normalisation too."""
    model = getattr(models, name)(
        triples_factory=DATA[inverse].training, random_seed=7, **{"embedding_dim": 8, **options}
    )
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    return model


def composed(interaction, relations, inverse=False, entities=1, **options):
    """Make a model of an interaction that has no class of its own."""
    return models.ERModel(
        triples_factory=DATA[inverse].training,
        random_seed=7,
        interaction=interaction,
        interaction_kwargs=options,
        entity_representations=[Embedding] * entities,
        entity_representations_kwargs=[{"shape": 8}] * entities,
        relation_representations=[Embedding] * relations,
        relation_representations_kwargs=[{"shape": 8}] * relations,
    )


def refused(call, *args, **kwargs):
    with pytest.raises(er.InputError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# Models ---------------------------------------------------------------------------------------------

FACTORED = {
    "TransE, p = 1": ("TransE", lambda i: made("TransE", i)),
    "TransE, p = 2": ("TransE", lambda i: made("TransE", i, scoring_fct_norm=2)),
    "RotatE": ("RotatE", lambda i: made("RotatE", i)),
    "ComplEx": ("ComplEx", lambda i: made("ComplEx", i)),
    "DistMult": ("DistMult", lambda i: made("DistMult", i)),
    "TuckER": ("TuckER", lambda i: made("TuckER", i)),
    "TuckER, plain": ("TuckER", lambda i: made("TuckER", i, apply_batch_normalization=False)),
    "RESCAL": ("RESCAL", lambda i: made("RESCAL", i)),
    "CP": ("CP", lambda i: made("CP", i, rank=3)),
    "SimplE": ("DistMult", lambda i: made("SimplE", i)),
    "HolE": ("ComplEx", lambda i: made("HolE", i)),
    "HolE, odd": ("ComplEx", lambda i: made("HolE", i, embedding_dim=7)),
    "UM": ("TransE", lambda i: made("UM", i)),
    "AutoSF": ("CP", lambda i: made("AutoSF", i)),
    "QuatE": ("CP", lambda i: made("QuatE", i)),
    "DistMA": ("CP", lambda i: made("DistMA", i)),
    "TransF": ("CP", lambda i: made("TransF", i)),
    "MuRE": ("CP", lambda i: made("MuRE", i)),
    "PairRE, p = 2": ("CP", lambda i: made("PairRE", i, p=2)),
    "LineaRE, p = 2": ("CP", lambda i: composed("LineaRE", 3, i, p=2)),
    "TripleRE, p = 2": ("CP", lambda i: composed("TripleRE", 3, i, p=2, u=0.5)),
    "TripleRE, u unset": ("CP", lambda i: composed("TripleRE", 3, i, p=2, u=None)),
}
BOXED = {
    "ConvE": "ConvE is not among the interactions that are known to factor",
    "TransH": "TransH is not among the interactions that are known to factor",
    "PairRE": "PairRE scales candidates by relation, which factors with p = 2 only",
    "FixedModel": "FixedModel does not consist of interaction and representations",
}


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", FACTORED)
def test_factors_rank_as_the_model_scores(name, inverse):
    """The factored model and PyKEEN's own scores put every target at the same place."""
    kind, make = FACTORED[name]
    model = make(inverse)
    found, box = scorer(model), BlackBox(model)
    assert found.name == kind
    assert found.inverse == ("interleaved" if inverse else None)
    interaction = name.split(",")[0]
    assert found.notes == (() if interaction == kind else (f"{interaction}, written as {kind}",))
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (found, box))
    assert np.array_equal(ours.better, theirs.better)
    assert np.array_equal(ours.equal, theirs.equal)
    assert ours.protocol["scores"] == "float64, certified"


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", ["ComplEx", "DistMult", "RESCAL", "AutoSF", "QuatE", "MuRE", "HolE"])
def test_factors_give_the_very_scores(name, inverse):
    """Not only their order: up to single precision, scores are PyKEEN's."""
    model = FACTORED[name][1](inverse)
    found, box = scorer(model), BlackBox(model)
    for part in TASK.parts:
        ours, theirs = (one.score(part.queries, slice(0, 14)) for one in (found, box))
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FACTORED)
def test_factors_are_worked_out_where_the_model_is(name, monkeypatch):
    """On a device rows stay torch's tensors: the same steps, taken by torch, give the same model."""
    model = FACTORED[name][1](True)
    expected = scorer(model)

    def tensor(_, values):
        return torch.cat([values.real, values.imag], -1) if values.is_complex() else values

    monkeypatch.setattr("evenrank.integrations.pykeen._factors.array", tensor)
    monkeypatch.setattr("evenrank.integrations.pykeen._factors.place", lambda _: "cpu")
    found = scorer(model)
    for array in expected.ARRAYS:
        if getattr(expected, array) is not None:
            assert np.allclose(getattr(found, array), getattr(expected, array), rtol=1e-12), array


@pytest.mark.parametrize("name", BOXED)
def test_other_models_are_black_boxes_and_say_so(name):
    options = {"ConvE": {"embedding_dim": 32}, "FixedModel": {}}.get(name, {"embedding_dim": 8})
    model = getattr(models, name)(triples_factory=DATA[True].training, random_seed=7, **options)
    box = scorer(model)
    assert isinstance(box, BlackBox)
    assert box.notes == (f"falls back to black box, slower: {BOXED[name]}",)
    assert (box.name, box.entities, box.relations) == (name, 14, 55)
    ranks = er.rank(box, TASK, progress=False)
    assert ranks.protocol["scores"] == "as given"
    theirs = results(RankBasedEvaluator(), model)
    assert theirs["both.realistic.inverse_harmonic_mean_rank"] == pytest.approx(
        ranks.evaluate("mrr", ties="realistic")["mrr"], rel=1e-6
    )


@pytest.mark.parametrize("inverse", [False, True])
def test_a_black_box_asks_every_side(inverse):
    """Tails, heads and relations; all, some, or some for each query."""
    model = made("TransE", inverse)
    box = BlackBox(model)
    rows = np.array([[0, 3, 5], [4, 0, 2], [9, 54, 13]])
    some, each = np.array([1, 2, 7]), np.array([[0, 1], [5, 6], [13, 2]])
    for column, name in enumerate(("head", "relation", "tail")):
        asked = rows.copy()
        asked[:, column] = -1
        everything = box.score(asked, slice(0, 55 if name == "relation" else 14))
        triples = np.repeat(rows[:, None], everything.shape[1], axis=1)
        triples[:, :, column] = np.arange(everything.shape[1])
        flat = torch.from_numpy(triples.reshape(-1, 3))
        if inverse and name == "head":
            doubled = flat.clone()
            doubled[:, 1] *= 2
            direct = model.score_hrt_inverse(doubled)
        else:
            direct = model.predict_hrt(flat)
        assert np.allclose(everything, direct.detach().numpy().reshape(everything.shape), atol=1e-6)
        assert np.allclose(box.score(asked, some), everything[:, some])
        assert np.allclose(box.score(asked, each), np.take_along_axis(everything, each, axis=1))
    pair = np.array([[-1, 0, -1]])
    assert "a PyKEEN model cannot answer this query; got [-1, 0, -1]" in refused(
        box.score, pair, slice(0, 9)
    )


def test_a_black_box_lays_out_little_at_a_time(monkeypatch):
    """Queries in steps and candidates in slices change nothing."""
    box, part = BlackBox(made("TransE")), TASK.parts[0]
    whole = box.score(part.queries, slice(0, 14))
    for cells in (1, 8 * 14 * 3):
        monkeypatch.setattr("evenrank.integrations.pykeen._scorer.CELLS", cells)
        assert np.allclose(box.score(part.queries, slice(0, 14)), whole)


def test_rows_are_taken_as_the_forward_pass_gives_them(tmp_path):
    """A normaliser acts when rows are used: a live model is asked, a file does not suffice."""
    model = models.DistMult(triples_factory=DATA[False].training, embedding_dim=8, random_seed=7)
    model.entity_representations[0].normalizer = normalize  # along axis 1: another for single rows
    assert scorer(model).notes[0].endswith("its rows depend on how many are asked for")
    model.entity_representations[0].normalizer = partial(normalize, dim=-1)
    found = scorer(model)
    assert np.allclose(np.linalg.norm(found.entity, axis=1), 1)
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (found, BlackBox(model)))
    assert np.array_equal(ours.better, theirs.better)
    torch.save(model, tmp_path / "model.pkl")
    assert "got its rows are normalised whenever they are used; if you trust" in refused(
        load, tmp_path / "model.pkl"
    )
    again = load(tmp_path / "model.pkl", GRAPH, trust_pickle=True)
    assert np.array_equal(er.rank(again, TASK, progress=False).better, ours.better)


def test_embeddings_on_the_cpu_are_not_copied():
    model = made("DistMult")
    weight = model.entity_representations[0]._embeddings.weight
    assert np.shares_memory(scorer(model).entity, weight.detach().numpy())


class Mine(models.DistMult):
    """A model that scores in a way of its own."""

    def score_t(self, *args, **kwargs):
        return -super().score_t(*args, **kwargs)


class MyInteraction(DistMultInteraction):
    """An interaction by another author."""


def stretched(model):
    with torch.no_grad():
        model.relation_representations[0]._embeddings.weight.mul_(2.0)
    return model


def test_what_does_not_factor_says_why():
    distmult = DistMultInteraction()
    for model, why in (
        (made("DistMult", predict_with_sigmoid=True), "predict_with_sigmoid makes large scores equal"),
        (made("TransE", scoring_fct_norm=3), "TransE with p = 3"),
        (made("MuRE", power_norm=False), "MuRE factors with the squared norm only"),
        (composed(MyInteraction(), 1), "MyInteraction is no interaction of PyKEEN's own"),
        (
            composed(ClampedInteraction(distmult, clamp_score=1.0), 1),
            "Clamped is not among the interactions that are known to factor",
        ),
        (stretched(made("RotatE")), "RotatE: relations must have modulus 1"),
        (
            Mine(triples_factory=DATA[False].training, embedding_dim=8, random_seed=7),
            "Mine scores in a way of its own",
        ),
    ):
        assert why in scorer(model).notes[0]


def test_wrappers_that_keep_the_order_are_seen_through():
    model = composed(MonotonicAffineTransformationInteraction(TransEInteraction(p=1)), 1)
    assert scorer(model).name == "TransE"
    assert scorer(composed(ClampedInteraction(DistMultInteraction()), 1)).name == "DistMult"


def test_simple_is_symmetric_in_pykeen():
    """Heads and tails of PyKEEN's SimplE come from the same tables in the same order."""
    model = made("SimplE")
    there, back = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[2, 1, 0], [5, 4, 3]])
    assert torch.allclose(model.predict_hrt(there), model.predict_hrt(back))


def test_what_is_no_model():
    assert refused(scorer, 3) == "not a model of PyKEEN's; got int"


def test_a_pykeen_that_is_too_old(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(
        "evenrank.extras.version", lambda name: "1.10.2" if name == "pykeen" else real(name)
    )
    assert refused(scorer, made("TransE")) == (
        "this version of pykeen is too old; got 1.10.2; allowed: 1.11 or newer; "
        "pip install --upgrade 'evenrank[pykeen]'"
    )


# Triples --------------------------------------------------------------------------------------------


def test_triples_there_and_back():
    """PyKEEN's Nations is the one that evenrank ships; factories give the same graph again."""
    assert GRAPH.name == "nations"
    assert GRAPH.hash == graph(DATA[True]).hash == er.load("nations").hash
    made = factories(GRAPH, inverse=True)
    assert list(made) == ["training", "validation", "testing"]
    assert (made["training"].num_relations, made["testing"].num_relations) == (110, 55)
    assert graph(**made).hash == GRAPH.hash
    assert graph(**made).vocabulary == GRAPH.vocabulary
    for name, factory in made.items():
        assert torch.equal(factory.mapped_triples, getattr(DATA[False], name).mapped_triples)


def test_factories_without_names():
    bare = CoreTriplesFactory.create(DATA[True].training.mapped_triples, create_inverse_triples=True)
    found = graph(bare, name="bare")
    assert (found.name, found.entities, found.relations) == ("bare", range(14), range(55))
    assert list(factories(found)["training"].entity_to_id) == [str(i) for i in range(14)]
    assert refused(graph, [[0, 1, 2]]) == "train is no triples factory; got list; give PyKEEN's own"


# Files ----------------------------------------------------------------------------------------------


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
            training_kwargs={"num_epochs": 12, "use_tqdm": False},
            evaluation_kwargs={"use_tqdm": False},
            random_seed=0,
        )
        for evaluator in (RankBasedEvaluator, EvenRankEvaluator)
    }


def test_what_a_pipeline_saves_is_ranked(trained, tmp_path):
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


def test_models_that_must_be_unpickled(tmp_path):
    model = models.ConvE(triples_factory=DATA[True].training, embedding_dim=32, random_seed=7)
    torch.save(model, tmp_path / "model.pkl")
    line = refused(load, tmp_path / "model.pkl", GRAPH)
    assert "can only be read by unpickling it" in line
    assert "--trust-pickle" in line
    box = load(tmp_path / "model.pkl", GRAPH, trust_pickle=True)
    assert box.notes[0].startswith("falls back to black box, slower: ConvE is not among")
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (box, scorer(model)))
    assert np.array_equal(ours.better, theirs.better)


def test_models_the_installed_version_cannot_use(tmp_path):
    """A model that lacks what newer code expects says so when it is loaded, not while it is ranked."""
    model = models.ConvE(triples_factory=DATA[True].training, embedding_dim=32, random_seed=7)
    del model.interaction.shape_info  # as before version 1.11
    torch.save(model, tmp_path / "model.pkl")
    line = refused(load, tmp_path / "model.pkl", trust_pickle=True)
    assert line.startswith("the PyKEEN that is installed cannot use the model in ")
    assert "AttributeError: 'ConvEInteraction' object has no attribute 'shape_info'; score with" in line


def test_pickles_of_something_else(tmp_path):
    torch.save({"pykeen.": made("TransE").state_dict()}, tmp_path / "state.pt")
    line = refused(load, tmp_path / "state.pt")
    assert line.startswith(f"{tmp_path / 'state.pt'} holds no model of PyKEEN's; got dict; take the ")
    torch.save(DATA[False].training, tmp_path / "triples.pt")
    line = refused(load, tmp_path / "triples.pt", trust_pickle=True)
    assert "holds no model of PyKEEN's; got TriplesFactory; " in line


# The evaluator --------------------------------------------------------------------------------------


def results(evaluator, model, **options):
    """Evaluate on Nations as a pipeline does."""
    data = DATA[model.use_inverse_triples]
    found = evaluator.evaluate(
        model,
        options.pop("mapped_triples", data.testing.mapped_triples),
        additional_filter_triples=[data.training.mapped_triples, data.validation.mapped_triples],
        use_tqdm=False,
        batch_size=64,
        **options,
    )
    return found.to_flat_dict()


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


def test_ties_are_told_apart():
    """A model in which everything ties: each rule gives PyKEEN's value."""
    model = made("DistMult")
    with torch.no_grad():
        model.entity_representations[0]._embeddings.weight.fill_(1.0)
    expected, found = (results(kind(), model) for kind in (RankBasedEvaluator, EvenRankEvaluator))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    key = "both.{}.arithmetic_mean_rank"
    assert found[key.format("optimistic")] == 1 < found[key.format("realistic")]


def test_the_ranks_are_kept():
    """What PyKEEN has no word for can be asked of the ranks."""
    evaluator = EvenRankEvaluator()
    found = results(evaluator, made("TransE"))
    ranks = evaluator.ranked
    assert ranks.evaluate("index(mrr)", ties="realistic")["index(mrr)"] == pytest.approx(
        found["both.realistic.adjusted_inverse_harmonic_mean_rank"], rel=1e-6
    )
    assert len(ranks.by("relation")) == len(np.unique(GRAPH.splits["test"][:, 1]))
    assert (ranks.protocol["filter"], ranks.protocol["model"]) == ("given", "TransE")


def test_raw_ranking_works():
    """PyKEEN's evaluator refuses it."""
    model = made("TransE")
    with pytest.raises(ValueError, match="needs the true scores"):
        results(RankBasedEvaluator(filtered=False), model)
    found = results(EvenRankEvaluator(filtered=False), model)
    raw = er.rank(scorer(model), GRAPH.task("test", filter=None), progress=False)
    expected = raw.evaluate("mrr", ties="realistic")["mrr"]
    assert found["both.realistic.inverse_harmonic_mean_rank"] == pytest.approx(expected, rel=1e-6)


def test_a_diverged_model_is_refused():
    """PyKEEN would call it perfect: its MRR is 2 when every score is NaN."""
    model = made("TransE")
    with torch.no_grad():
        model.entity_representations[0]._embeddings.weight.fill_(float("nan"))
    theirs = results(RankBasedEvaluator(metrics=["mrr"], add_defaults=False), model)
    assert theirs["both.realistic.inverse_harmonic_mean_rank"] == 2
    assert "NaN" in refused(results, EvenRankEvaluator(), model)


def test_inductive_modes_are_left_to_pykeen():
    """Each has entities of its own; a model without any is refused by PyKEEN itself."""
    with pytest.raises(ValueError, match="TransE does not support inductive mode: validation"):
        results(EvenRankEvaluator(mode="validation"), made("TransE"))


def test_options_of_both():
    evaluator = EvenRankEvaluator(
        metrics=["mrr"], add_defaults=False, memory="2MB", threads=1, exact=False
    )
    assert len(results(evaluator, made("TransE"))) == 9
    assert evaluator.ranked.protocol["scores"] == "float32"


def test_the_example_runs(capsys):
    example = Path(__file__).parents[1] / "examples" / "pykeen_pipeline.py"
    runpy.run_path(str(example))["main"](5)
    assert "PyKEEN's key: mrr 0." in capsys.readouterr().out
