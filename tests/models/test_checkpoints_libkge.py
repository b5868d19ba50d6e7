"""Checkpoints of LibKGE, written as its training job does, and what its formulas say of a triple."""

import sys
import types

import numpy as np
import pytest
from checkpoints import (
    D,
    N,
    R,
    agree,
    bilinear,
    distance,
    every,
    hermitian,
    need,
    product,
    rows,
    same_numbers_in_any_order,  # noqa: F401  # a fixture
    turned,
    unit,
)

from evenrank.errors import InputError
from evenrank.models import load
from evenrank.models.readers import read


class Config:
    """Pickled as LibKGE's own, which is not there when the file is read."""

    def __init__(self, options):
        self.options, self.folder, self.log_folder = options, "local/experiments/x", None


@pytest.fixture
def libkge_file(monkeypatch):
    """Write checkpoints as a training job of LibKGE's does."""
    torch = need("torch")
    monkeypatch.setattr(Config, "__module__", "kge.config")

    def write(path, options, tables, **more):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "kge", types.ModuleType("kge"))
            patch.setitem(sys.modules, "kge.config", types.SimpleNamespace(Config=Config))
            state = {name: torch.from_numpy(table) for name, table in tables.items()}
            content = {
                "type": "train",
                "epoch": 3,
                "valid_trace": [{"mean_reciprocal_rank_filtered": np.float64(0.3), "job": "x"}],
                "model": (state, {}),
                "optimizer_state_dict": {"state": {0: {"sum": torch.ones(2)}}, "param_groups": []},
                "config": Config(options),
            }
            torch.save(content | more, path)

    return write


def embedders(entity, relation, prefix=""):
    return {
        f"{prefix}_entity_embedder._embeddings.weight": entity,
        f"{prefix}_relation_embedder._embeddings.weight": relation,
    }


def cp(h, r, t):
    return product(h[: D // 2], r, t[D // 2 :])


def simple_of_libkge(h, r, t):
    (h1, h2), (r1, r2), (t1, t2) = (np.split(np.asarray(row, np.float64), 2) for row in (h, r, t))
    return float((h1 * r1 * t2).sum() + (h2 * r2 * t1).sum()) / 2


def trans_h(h, r, t):
    shift, normal = np.split(np.asarray(r, np.float64), 2)
    normal = unit(normal)
    return -np.abs((h - (h @ normal) * normal) + shift - (t - (t @ normal) * normal)).sum()


LIBKGE = {  # class in LibKGE, width of relations, l_norm, score, what to make of ours
    "transe": ("TransE", D, 1.0, lambda h, r, t: -distance(1)(h, r, t), lambda s: s),
    "transe-l2": ("TransE", D, 2.0, lambda h, r, t: -distance(2)(h, r, t), lambda s: -np.sqrt(-s)),
    "distmult": ("DistMult", D, None, product, lambda s: s),
    "complex": ("ComplEx", D, None, hermitian, lambda s: s),
    "rescal": ("Rescal", D * D, None, bilinear, lambda s: s),
    "rotate": ("RotatE", D // 2, 1.0, lambda h, r, t: -turned(h, r, t).sum(), lambda s: s),
    "rotate-l2": (
        "RotatE",
        D // 2,
        2.0,
        lambda h, r, t: -np.linalg.norm(turned(h, r, t)),
        lambda s: -np.sqrt(-s),
    ),
    "cp": ("CP", D // 2, None, cp, lambda s: s),
    "simple": ("SimplE", D, None, simple_of_libkge, lambda s: s),
    "transh": ("TransH", 2 * D, 1.0, trans_h, lambda s: s),
}


def libkge_options(name, reciprocal=False):
    kind, _, norm, _, _ = LIBKGE[name]
    model = {"class_name": kind} | ({} if norm is None else {"l_norm": norm})
    if not reciprocal:
        return {"model": "m", "m": model}
    outer = {"class_name": "ReciprocalRelationsModel", "base_model": {"type": "m"}}
    return {"model": "reciprocal_relations_model", "reciprocal_relations_model": outer, "m": model}


@pytest.mark.parametrize("name", LIBKGE)
def test_models_of_libkge(tmp_path, libkge_file, name):
    _, width, _, score, value = LIBKGE[name]
    entity, relation = rows(N, D), rows(R, width)
    libkge_file(tmp_path / "checkpoint_best.pt", libkge_options(name), embedders(entity, relation))
    assert "kge" not in sys.modules
    model = load(tmp_path / "checkpoint_best.pt")  # not trusted: no code of LibKGE's is needed
    agree(model, every(score, entity, relation, entity), value)
    assert ("black box" in str(model.notes)) == (name == "transh")


@pytest.mark.parametrize("name", ["complex", "transe-l2", "rescal", "simple", "cp"])
def test_reciprocal_models_of_libkge(tmp_path, libkge_file, name):
    _, width, _, score, value = LIBKGE[name]
    entity, relation = rows(N, D), rows(2 * R, width)
    tables = embedders(entity, relation) | embedders(entity, relation, "_base_model.")
    libkge_file(tmp_path / "checkpoint_00010.pt", libkge_options(name, reciprocal=True), tables)
    model = load(tmp_path)  # the folder: its only checkpoint
    assert (model.inverse, model.relations) == ("stacked", R)
    heads = every(score, entity, relation[R:], entity).transpose(2, 1, 0)
    agree(model, every(score, entity, relation[:R], entity), value, heads)


def test_norm_set_for_the_base_model_of_libkge(tmp_path, libkge_file):
    options = libkge_options("transe", reciprocal=True)
    options["reciprocal_relations_model"]["base_model"]["l_norm"] = 2.0
    libkge_file(tmp_path / "a.pt", options, embedders(rows(N, D), rows(2 * R, D)))
    assert load(tmp_path / "a.pt").p == 2


def test_relational_tucker_of_libkge(tmp_path, libkge_file):
    entity, short, matrix = rows(N, D), rows(R, 4), rows(D * D, 4)
    tables = {
        "_entity_embedder.embeddings.weight": entity,  # as it was called until 2020
        "_relation_embedder.base_embedder._embeddings.weight": short,
        "_relation_embedder.projection.weight": matrix,
    }
    options = {"model": "m", "m": {"class_name": "RelationalTucker3"}}
    libkge_file(tmp_path / "a.pt", options, tables)
    model = load(tmp_path / "a.pt")
    agree(model, every(bilinear, entity, short @ matrix.T, entity))
    assert (model.name, model.notes) == (
        "RelationalTucker3",
        ("RelationalTucker3, written as TuckER",),
    )
    libkge_file(tmp_path / "b.pt", options, embedders(entity, short))
    with pytest.raises(
        InputError, match=r"Relational Tucker3 without '_relation_embedder.base_embedder"
    ):
        load(tmp_path / "b.pt")


def test_names_of_libkge(tmp_path, libkge_file):
    tables = embedders(rows(N, D), rows(R, D))
    names = {"entity_ids": [f"e{i}" for i in range(N)], "relation_ids": ["a", "b", "c"]}
    packaged = {"num_entities": N, "num_relations": R, "meta": names}
    libkge_file(tmp_path / "packaged.pt", libkge_options("complex"), tables, dataset=packaged)
    assert read(tmp_path / "packaged.pt").relations == ["a", "b", "c"]
    names["entity_ids"].pop()
    libkge_file(tmp_path / "short.pt", libkge_options("complex"), tables, dataset=packaged)
    with pytest.raises(
        InputError, match=r"short.pt is not the dictionary of this model; got 6 entities for 7 rows"
    ):
        load(tmp_path / "short.pt")
    libkge_file(tmp_path / "checkpoint_best.pt", libkge_options("complex"), tables)
    libkge_file(tmp_path / "checkpoint_00020.pt", libkge_options("transe"), tables)
    (tmp_path / "entity_ids.del").write_text("".join(f"{i}\te{i}\n" for i in range(N)))
    with pytest.raises(
        InputError,
        match=r"incomplete checkpoint .*: missing relation_ids.del; got only entity_ids.del; copy the",
    ):
        read(tmp_path)
    assert read(tmp_path / "packaged.pt").relations == ["a", "b", "c"]  # which brings its own
    (tmp_path / "relation_ids.del").write_text("0\ta\n1\tb\n2\tc\n")
    checkpoint = read(tmp_path)
    assert (checkpoint.model.name, checkpoint.entities[-1]) == ("ComplEx", "e6")
    assert checkpoint.relations == ["a", "b", "c"]


def test_bad_checkpoints_of_libkge(tmp_path, libkge_file):
    torch = need("torch")
    tables = embedders(rows(N, D), rows(R, D))
    options = {"model": "conve", "conve": {"class_name": "ConvE"}}
    libkge_file(tmp_path / "a.pt", options, tables | {"_scorer.convolution.weight": rows(2, 2)})
    with pytest.raises(
        InputError, match=r"LibKGE model is not supported; got ConvE, with.*TransE, RotatE.*score_sp"
    ):
        load(tmp_path / "a.pt")
    libkge_file(tmp_path / "b.pt", libkge_options("transh", reciprocal=True), tables)
    with pytest.raises(InputError, match="TransH with reciprocal relations is not supported"):
        load(tmp_path / "b.pt")
    torch.save({"_entity_embedder.": 1}, tmp_path / "c.pt")
    with pytest.raises(InputError, match="is not a checkpoint of LibKGE"):
        load(tmp_path / "c.pt")
    torch.save({"model": ({}, {}), "config": "_entity_embedder."}, tmp_path / "d.pt")
    with pytest.raises(
        InputError, match=r"cannot read .*d.pt; got AttributeError.*no attribute 'options"
    ):
        load(tmp_path / "d.pt")
    options = {"model": "m", "m": {"class_name": "RotatE", "l_norm": 3.0}}
    libkge_file(tmp_path / "e.pt", options, embedders(rows(N, D), rows(R, D // 2)))
    with pytest.raises(
        InputError, match=r"e.pt: RotatE does not factor; got l_norm 3.0; give er.rank a function"
    ):
        load(tmp_path / "e.pt")


@pytest.mark.parametrize("beside", ["trace.yaml", "kge.log", "entity_ids.del"])
def test_an_incomplete_folder_of_libkge(tmp_path, beside):
    (tmp_path / "config.yaml").touch()
    with pytest.raises(InputError, match="not recognised"):  # any tool may call its settings so
        load(tmp_path)
    (tmp_path / beside).touch()
    with pytest.raises(InputError, match=r"incomplete checkpoint .*: missing checkpoint_best.pt"):
        load(tmp_path)
