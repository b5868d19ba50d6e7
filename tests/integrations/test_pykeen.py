"""Models and triples of PyKEEN in evenrank: the same scores for every interaction."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from keen import DATA, GRAPH, TASK, composed, error_of, made, models, results, torch

import evenrank as er

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.nn.modules import (
        ClampedInteraction,
        DistMultInteraction,
        MonotonicAffineTransformationInteraction,
        TransEInteraction,
    )
    from pykeen.triples import CoreTriplesFactory
    from torch.nn.functional import normalize

from evenrank.integrations.pykeen import BlackBox, factories, graph, scorer
from evenrank.models import load

pytestmark = pytest.mark.filterwarnings("ignore:::(pykeen|torch|class_resolver|docdata|more_click)")


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
    assert type(found).__name__ == kind
    assert found.inverse == ("interleaved" if inverse else None)
    interaction = name.split(",")[0]
    assert found.notes == (() if interaction == kind else (f"{interaction}, written as {kind}",))
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (found, box))
    assert np.array_equal(ours.better, theirs.better)
    assert np.array_equal(ours.equal, theirs.equal)
    assert ours.protocol.scores == "float64, certified"
    assert (ours.protocol.model, theirs.protocol.model) == (interaction, type(model).__name__)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", ["ComplEx", "DistMult", "RESCAL", "AutoSF", "QuatE", "MuRE", "HolE"])
def test_factors_reproduce_the_scores(name, inverse):
    """Not only their order: up to single precision, scores are PyKEEN's."""
    model = FACTORED[name][1](inverse)
    found, box = scorer(model), BlackBox(model)
    for part in TASK.parts:
        ours, theirs = (one.score(part.queries, slice(0, 14)) for one in (found, box))
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FACTORED)
def test_factors_are_computed_on_the_device_of_the_model(name, monkeypatch):
    """On a device rows stay torch's tensors: the same steps, taken by torch, give the same model."""
    model = FACTORED[name][1](True)
    expected = scorer(model)

    def tensor(_, values):
        return torch.cat([values.real, values.imag], -1) if values.is_complex() else values

    monkeypatch.setattr("evenrank.models.readers.pykeen._factors.array", tensor)
    monkeypatch.setattr("evenrank.models.readers.pykeen._factors.place", lambda _: "cpu")
    found = scorer(model)
    for array in expected.ARRAYS:
        if getattr(expected, array) is not None:
            assert np.allclose(getattr(found, array), getattr(expected, array), rtol=1e-12), array


@pytest.mark.parametrize("name", BOXED)
def test_other_models_are_black_boxes_with_a_note(name):
    options = {"ConvE": {"embedding_dim": 32}, "FixedModel": {}}.get(name, {"embedding_dim": 8})
    model = getattr(models, name)(triples_factory=DATA[True].training, random_seed=7, **options)
    box = scorer(model)
    assert isinstance(box, BlackBox)
    assert box.notes == (f"falls back to black box, slower: {BOXED[name]}",)
    assert (box.name, box.entities, box.relations) == (name, 14, 55)
    ranks = er.rank(box, TASK, progress=False)
    assert ranks.protocol.scores == "as given"
    theirs = results(RankBasedEvaluator(), model)
    assert theirs["both.realistic.inverse_harmonic_mean_rank"] == pytest.approx(
        ranks.evaluate("mrr", ties="realistic")["mrr"], rel=1e-6
    )


@pytest.mark.parametrize("inverse", [False, True])
def test_a_black_box_scores_every_side(inverse):
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
    assert "PyKEEN models cannot answer this query; got [-1, 0, -1]" in error_of(
        box.score, pair, slice(0, 9)
    )


def test_a_black_box_scores_in_batches(monkeypatch):
    """Queries in steps and candidates in slices change nothing."""
    box, part = BlackBox(made("TransE")), TASK.parts[0]
    whole = box.score(part.queries, slice(0, 14))
    for cells in (1, 8 * 14 * 3):
        monkeypatch.setattr("evenrank.models.readers.pykeen._scorer.CELLS", cells)
        assert np.allclose(box.score(part.queries, slice(0, 14)), whole)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("float64", "double"), ("float32", "float"), ("float32", "bfloat16")]
)
def test_a_black_box_keeps_full_precision(ours, theirs):
    box = BlackBox(getattr(made("DistMA"), theirs)())
    assert box.score(TASK.parts[0].queries, slice(0, 14)).dtype == ours


def test_rows_are_those_of_the_forward_pass(tmp_path):
    """A normaliser acts when rows are used: a live model is asked, a file does not suffice."""
    model = models.DistMult(triples_factory=DATA[False].training, embedding_dim=8, random_seed=7)
    model.entity_representations[0].normalizer = normalize  # along axis 1: another for single rows
    assert scorer(model).notes[0].endswith("its rows depend on how many are requested at once")
    model.entity_representations[0].normalizer = partial(normalize, dim=-1)
    found = scorer(model)
    assert np.allclose(np.linalg.norm(found.entity, axis=1), 1)
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (found, BlackBox(model)))
    assert np.array_equal(ours.better, theirs.better)
    torch.save(model, tmp_path / "model.pkl")
    assert "got its rows are normalised at every use; if you trust" in error_of(
        load, tmp_path / "model.pkl"
    )
    again = load(tmp_path / "model.pkl", GRAPH, trust_pickle=True)
    assert np.array_equal(er.rank(again, TASK, progress=False).better, ours.better)


def test_embeddings_on_the_cpu_are_not_copied():
    model = made("DistMult")
    weight = model.entity_representations[0]._embeddings.weight
    assert np.shares_memory(scorer(model).entity, weight.detach().numpy())


class Mine(models.DistMult):
    """A model that overrides how PyKEEN scores."""

    def score_t(self, *args, **kwargs):
        return -super().score_t(*args, **kwargs)


class MyInteraction(DistMultInteraction):
    """An interaction by another author."""


def stretched(model):
    with torch.no_grad():
        model.relation_representations[0]._embeddings.weight.mul_(2.0)
    return model


def lengthened(model):
    model.interaction.coefficients = [*model.interaction.coefficients] * 100
    return model


def test_models_without_factors_have_a_reason():
    distmult = DistMultInteraction()
    for model, why in (
        (made("DistMult", predict_with_sigmoid=True), "predict_with_sigmoid makes large scores equal"),
        (made("TransE", scoring_fct_norm=3), "TransE with p = 3"),
        (made("MuRE", power_norm=False), "MuRE factors with the squared norm only"),
        (composed(MyInteraction(), 1), "MyInteraction is not an interaction of PyKEEN"),
        (
            composed(ClampedInteraction(distmult, clamp_score=1.0), 1),
            "Clamped is not among the interactions that are known to factor",
        ),
        (stretched(made("RotatE")), "RotatE: relations must have modulus 1"),
        (lengthened(made("AutoSF")), "a sum of 600 products"),
        (composed("ComplEx", 1), "its rows are real, unlike those of its own model"),
        (
            composed("TransE", 1, p=1, dtype=torch.cfloat),
            "its rows are complex, unlike those of its own",
        ),
        (
            Mine(triples_factory=DATA[False].training, embedding_dim=8, random_seed=7),
            "Mine overrides how PyKEEN scores",
        ),
    ):
        assert why in scorer(model).notes[0]


@pytest.mark.parametrize(("name", "dtype"), [("ComplEx", None), ("DistMult", torch.cfloat)])
def test_rows_of_another_kind_in_a_file(name, dtype, tmp_path):
    """ComplEx of real rows is another function of them; so is DistMult of complex ones."""
    torch.save(composed(name, 1, dtype=dtype), tmp_path / "model.pkl")
    assert f"its rows are {'complex' if dtype else 'real'}, unlike" in error_of(
        load, tmp_path / "model.pkl"
    )


def test_wrappers_that_keep_the_order_are_seen_through():
    model = composed(MonotonicAffineTransformationInteraction(TransEInteraction(p=1)), 1)
    assert scorer(model).name == "TransE"
    assert scorer(composed(ClampedInteraction(DistMultInteraction()), 1)).name == "DistMult"


def test_models_keep_the_names_they_have_in_pykeen(tmp_path):
    """Also those that differ from another in their representations only; through files too."""
    graphed = models.RGCN(triples_factory=DATA[False].training, embedding_dim=8, random_seed=7)
    found = scorer(graphed)
    assert (found.name, found.notes) == ("RGCN", ("RGCN, written as DistMult",))
    er.models.save(scorer(made("SimplE")), tmp_path / "simple.safetensors")
    again = load(tmp_path / "simple.safetensors", GRAPH)
    assert (type(again).__name__, again.name) == ("DistMult", "SimplE")
    ranks = er.rank(again, TASK, device="torch:cpu", progress=False)
    assert ranks.protocol.model == "SimplE"


def test_simple_is_symmetric_in_pykeen():
    """Heads and tails of PyKEEN's SimplE come from the same tables in the same order."""
    model = made("SimplE")
    there, back = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[2, 1, 0], [5, 4, 3]])
    assert torch.allclose(model.predict_hrt(there), model.predict_hrt(back))


def test_objects_that_are_not_models_raise():
    assert error_of(scorer, 3) == "model must be a PyKEEN model; got int"


def test_an_old_version_of_pykeen_raises(monkeypatch):
    monkeypatch.setattr("evenrank._internal.optional._installed", lambda _: "1.10.2")
    assert error_of(scorer, made("TransE")) == (
        "this version of pykeen is too old; got 1.10.2; allowed: 1.11 or newer; "
        "pip install --upgrade 'evenrank[pykeen]'"
    )


# Triples --------------------------------------------------------------------------------------------


def test_triples_round_trip():
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
    assert error_of(graph, [[0, 1, 2]]) == "train must be a triples factory of PyKEEN; got list"
    assert error_of(graph, None) == "train must be a triples factory of PyKEEN; got NoneType"
    assert error_of(factories, "x") == "graph must be a Graph; got str; er.load(...)"


# Files ----------------------------------------------------------------------------------------------


def test_models_that_must_be_unpickled(tmp_path):
    model = models.ConvE(triples_factory=DATA[True].training, embedding_dim=32, random_seed=7)
    torch.save(model, tmp_path / "model.pkl")
    line = error_of(load, tmp_path / "model.pkl", GRAPH)
    assert "means to unpickle it, which can run code" in line
    assert line.endswith("use trust_pickle=True")
    box = load(tmp_path / "model.pkl", GRAPH, trust_pickle=True)
    assert box.notes[0].startswith("falls back to black box, slower: ConvE is not among")
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (box, scorer(model)))
    assert np.array_equal(ours.better, theirs.better)


@pytest.mark.parametrize("name", ["TransE", "UM"])
def test_files_that_cannot_be_read_without_unpickling(name, tmp_path):
    """Those of torch before 1.6 are no archives, and those of UM do not tell how many relations."""
    model = made(name)
    torch.save(model, tmp_path / "model.pkl", _use_new_zipfile_serialization=name == "UM")
    why = "UM has no relation embeddings" if name == "UM" else "written by torch before 1.6;"
    assert why in error_of(load, tmp_path / "model.pkl", GRAPH)
    again = load(tmp_path / "model.pkl", GRAPH, trust_pickle=True)
    ours, theirs = (er.rank(one, TASK, progress=False) for one in (again, scorer(model)))
    assert np.array_equal(ours.better, theirs.better)


def test_models_the_installed_version_cannot_use(tmp_path):
    """A model that lacks what newer code expects raises when it is loaded, not during ranking."""
    model = models.ConvE(triples_factory=DATA[True].training, embedding_dim=32, random_seed=7)
    del model.interaction.shape_info  # as before version 1.11
    torch.save(model, tmp_path / "model.pkl")
    line = error_of(load, tmp_path / "model.pkl", trust_pickle=True)
    assert line.startswith("the installed PyKEEN cannot use the model in ")
    assert (
        "AttributeError: 'ConvEInteraction' object has no attribute 'shape_info'; install the version"
        in line
    )


def test_pickles_that_torch_did_not_write(tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(made("TransE")))
    for trust_pickle in (False, True):
        line = error_of(load, tmp_path / "model.pkl", trust_pickle=trust_pickle)
        assert line.startswith(
            f"{tmp_path / 'model.pkl'} was not written by torch.save; got a file that start"
        )
        assert "save it with torch.save(..., path)" in line


def test_pickles_of_something_else(tmp_path):
    torch.save({"pykeen.": made("TransE").state_dict()}, tmp_path / "state.pt")
    line = error_of(load, tmp_path / "state.pt")
    assert line.startswith(f"{tmp_path / 'state.pt'} does not hold a PyKEEN model; got dict; use the ")
    torch.save(DATA[False].training, tmp_path / "triples.pt")
    line = error_of(load, tmp_path / "triples.pt", trust_pickle=True)
    assert "does not hold a PyKEEN model; got TriplesFactory; " in line
