"""Checkpoints of OpenKE: its state dictionaries, and what its formulas say of a triple."""

import numpy as np
import pytest
from checkpoints import (
    D,
    N,
    R,
    agree,
    bilinear,
    correlation,
    distance,
    every,
    hermitian,
    need,
    openke_file,
    product,
    rows,
    same_numbers_in_any_order,  # noqa: F401  # a fixture
    turned,
    unit,
)

import evenrank as er
from evenrank.errors import InputError
from evenrank.models import load
from evenrank.models.readers import read


def openke_trans(p, norm, project=lambda e, e_index, r: e):
    def score(tables, h, r, t):
        entity, relation = tables["ent_embeddings"], tables["rel_embeddings"][r]
        head, tail = (project(entity[e].astype(np.float64), e, r) for e in (h, t))
        if norm:
            head, relation, tail = map(unit, (head, relation, tail))
        return -distance(p)(head, relation, tail)

    return score


OPENKE_TABLES = {
    "ent_embeddings": rows(N, D),
    "rel_embeddings": rows(R, D),
    "norm_vector": rows(R, D),
    "transfer_matrix": rows(R, D * D),
    "ent_transfer": rows(N, D),
    "rel_transfer": rows(R, D),
}


def onto_plane(e, _, r):
    normal = unit(OPENKE_TABLES["norm_vector"][r])
    return e - (e @ normal) * normal


def by_matrix(e, _, r):
    return e @ OPENKE_TABLES["transfer_matrix"][r].reshape(D, D)


def by_vectors(e, index, r):
    return unit(e + (e @ OPENKE_TABLES["ent_transfer"][index]) * OPENKE_TABLES["rel_transfer"][r])


OPENKE = {  # format, tables, score, transformation of our scores
    "TransE": ([], openke_trans(1, True), lambda s: s),
    "TransE(p=2)": ([], openke_trans(2, True), lambda s: -np.sqrt(-s)),
    "TransE(norm=False)": ([], openke_trans(1, False), lambda s: s),
    "TransH": (["norm_vector"], openke_trans(1, True, onto_plane), lambda s: s),
    "TransH(p=2, norm=False)": (
        ["norm_vector"],
        openke_trans(2, False, onto_plane),
        lambda s: -np.sqrt(-s),
    ),
    "TransR": (["transfer_matrix"], openke_trans(1, True, by_matrix), lambda s: s),
    "TransD": (["ent_transfer", "rel_transfer"], openke_trans(1, True, by_vectors), lambda s: s),
    "TransD(norm=False)": (
        ["ent_transfer", "rel_transfer"],
        openke_trans(1, False, by_vectors),
        lambda s: s,
    ),
}


@pytest.mark.parametrize("said", OPENKE)
def test_translations_of_openke(tmp_path, said):
    extra, score, value = OPENKE[said]
    tables = {name: OPENKE_TABLES[name] for name in ("ent_embeddings", "rel_embeddings", *extra)}
    path = openke_file(tmp_path / "a.ckpt", tables, wrapped="p=2" in said)
    theirs = every(lambda h, r, t: score(tables, h, r, t), range(N), range(R), range(N))
    agree(load(path, format=f"openke:{said}"), theirs, value)


def test_other_models_of_openke(tmp_path):
    entity, relation = OPENKE_TABLES["ent_embeddings"], OPENKE_TABLES["rel_embeddings"]
    two = {"ent_embeddings": entity, "rel_embeddings": relation}
    agree(load(openke_file(tmp_path / "distmult.ckpt", two)), every(product, entity, relation, entity))
    model = load(openke_file(tmp_path / "fb15k-hole.ckpt", two))
    agree(model, every(correlation, entity, relation, entity))
    assert model.notes == ("assumed to be HolE, by the name of the file", "HolE, written as ComplEx")
    # only the forward relations are asked when it is tested
    tested = load(openke_file(tmp_path / "s.ckpt", two | {"rel_inv_embeddings": rows(R, D)}))
    agree(tested, every(product, entity, relation, entity))
    assert (tested.name, tested.notes) == ("SimplE", ("SimplE, written as DistMult",))
    matrix = rows(R, D * D)
    rescal = {"ent_embeddings": entity, "rel_matrices": matrix}
    model = load(openke_file(tmp_path / "r.ckpt", rescal))
    agree(model, every(bilinear, entity, matrix, entity))
    assert "OpenKE's tester ranks low ones" in model.notes[0]
    phases, span = rows(R, D // 2), np.array([1.3], np.float32)
    rotate = {"ent_embeddings": entity, "rel_embeddings": phases, "rel_embedding_range": span}
    path = openke_file(tmp_path / "t.ckpt", rotate | {"margin": np.array([6.0])})
    theirs = every(
        lambda h, r, t: -turned(h, r / (span / np.float32(np.pi)), t).sum(), entity, phases, entity
    )
    agree(load(path), theirs)


def test_complex_models_of_openke(tmp_path):
    parts = ("ent_re", "ent_im", "rel_re", "rel_im")
    tables = {f"{part}_embeddings": rows(N if "ent" in part else R, D) for part in parts}
    entity, relation = (
        np.hstack([tables[f"{kind}_{part}_embeddings"] for part in ("re", "im")])
        for kind in ("ent", "rel")
    )
    theirs = every(hermitian, entity, relation, entity)
    agree(load(openke_file(tmp_path / "c.ckpt", tables)), theirs)
    narrow = {name: table[:, : D - 2] if "im" in name else table for name, table in tables.items()}
    with pytest.raises(
        InputError, match=r"real and imaginary parts differ in shape; got \(7, 6\) and \(7, 4\)"
    ):
        load(openke_file(tmp_path / "c.ckpt", narrow))
    scalars = {"ent_embeddings": rows(N, 2 * D), "rel_embeddings": rows(R, 2 * D)}
    more = every(
        product, scalars["ent_embeddings"], scalars["rel_embeddings"], scalars["ent_embeddings"]
    )
    agree(load(openke_file(tmp_path / "a.ckpt", tables | scalars)), -theirs - more)


def test_options_missing_in_files_of_openke(tmp_path):
    tables = {name: OPENKE_TABLES[name] for name in ("ent_embeddings", "rel_embeddings")}
    path = openke_file(tmp_path / "best.ckpt", tables)
    with pytest.raises(
        InputError, match=r"does not name its model.*TransE, DistMult, HolE.*set format=.openke:TransE"
    ):
        load(path)
    path = openke_file(tmp_path / "whole.ckpt", tables)  # which is not HolE
    with pytest.raises(InputError, match=r"whole.ckpt does not name its.*TransE, DistMult, HolE"):
        load(path)
    assert load(openke_file(tmp_path / "FB15K_TransE2.ckpt", tables)).name == "TransE"
    assumed = "the file does not hold the options of TransE: assumed p=1, norm=True"
    assert load(path, format="openke:TransE").notes == (assumed,)
    assert load(path, format="openke:transe(p=2, norm=False)").notes == ()
    for said, message in {
        "openke:TransX": "cannot be read from its tables; got 'TransX'.*TransE, DistMult",
        "openke:TransE(q=2)": "openke's TransE has no option q.*p, norm",
        "openke:DistMult(p=2)": "has no option p.*none",
        "openke:TransE(2)": r"not the name of a model.*TransE\(p=2\)",
        "openke:TransE(": "not the name of a model",
        "openke:TransE(p=f())": "not the name of a model",
        "openke:TransH": "not a checkpoint of openke's TransH: missing norm_vector.*ent_embeddings",
        "openke:TransE(p=3)": "p must be 1 or 2.*3",
        "rotate:TransE": "only the formats openke, torchkge, pyg take.*rotate:TransE",
    }.items():
        with pytest.raises(InputError, match=message):
            load(path, format=said)
    odd = openke_file(tmp_path / "odd.ckpt", tables | {"gate": rows(R, D)})
    with pytest.raises(
        InputError, match=r"those of no known model of openke.*gate.*openke.convert\(model\)"
    ):
        load(odd)
    norm = openke_file(tmp_path / "h.ckpt", tables | {"norm_vector": rows(R, D)})
    with pytest.raises(InputError, match=r"TransH: p must be 1 or 2.*3"):
        load(norm, format="openke:TransH(p=3)")


def test_names_of_openke(tmp_path):
    tables = {name: OPENKE_TABLES[name] for name in ("ent_embeddings", "rel_embeddings")}
    path = openke_file(tmp_path / "transe.ckpt", tables)
    (tmp_path / "entity2id.txt").write_text(f"{N}\n" + "".join(f"e{i}\t{N - 1 - i}\n" for i in range(N)))
    with pytest.raises(
        InputError, match=r"incomplete checkpoint .*: missing relation2id.txt; got only entity2id.txt"
    ):
        read(path)
    (tmp_path / "relation2id.txt").write_text("3\nr0\t0\nr1\t1\nr2\t2\n")
    assert read(path).entities == [f"e{i}" for i in reversed(range(N))]
    with pytest.raises(InputError, match=r"not recognised.*use the file itself: .*transe.ckpt$"):
        read(tmp_path)
    (tmp_path / "relation2id.txt").write_text("1\nr0\t0\n")
    with pytest.raises(
        InputError, match=r"relation2id.txt is not the dictionary of.*1 relations for 3 rows"
    ):
        read(path)


def test_black_boxes_are_numbered_by_names_too(tmp_path):
    tables = {name: OPENKE_TABLES[name] for name in ("ent_embeddings", "rel_embeddings", "norm_vector")}
    path = openke_file(tmp_path / "transh.ckpt", tables)
    score = openke_trans(1, True, onto_plane)
    theirs = every(lambda h, r, t: score(tables, h, r, t), range(N), range(R), range(N))
    (tmp_path / "entity2id.txt").write_text(f"{N}\n" + "".join(f"e{i}\t{N - 1 - i}\n" for i in range(N)))
    (tmp_path / "relation2id.txt").write_text("3\nr0\t1\nr1\t2\nr2\t0\n")
    names = {"entities": [f"e{i}" for i in range(N)], "relations": ["r0", "r1", "r2"]}
    graph = er.Graph.of([[0, 0, 1]], test=[[0, 1, 2], [3, 2, 1], [6, 0, 6]], **names)
    ranks = er.rank(load(path, graph), graph.task("test", filter=None), progress=False)
    rows = [(N - 1 - h, (1, 2, 0)[r], N - 1 - t) for h, r, t in graph.splits["test"]]
    tails = [int((theirs[h, r] > theirs[h, r, t]).sum()) for h, r, t in rows]
    heads = [int((theirs[:, r, t] > theirs[h, r, t]).sum()) for h, r, t in rows]
    assert ranks.better.tolist() == tails + heads


def test_live_modules_of_openke():
    """As far as its interface goes: the library itself does not install."""
    torch = need("torch")
    convert = er.integrations.openke.convert

    class TransE(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.ent_tot, self.rel_tot, self.p_norm, self.norm_flag = N, R, 2, False
            self.ent_embeddings = torch.nn.Embedding(N, D)
            self.rel_embeddings = torch.nn.Embedding(R, D)

        def predict(self, data):
            h, t = (self.ent_embeddings(data[f"batch_{side}"]) for side in "ht")
            return (h + self.rel_embeddings(data["batch_r"]) - t).norm(dim=-1).detach().numpy()

    module = TransE()
    entity, relation = (
        module.get_parameter(f"{k}_embeddings.weight").detach().numpy() for k in ("ent", "rel")
    )
    theirs = every(lambda h, r, t: -distance(2)(h, r, t), entity, relation, entity)
    box = convert(module)
    agree(box, theirs)
    assert "black box" in box.notes[0]
    TransE.__module__ = "openke.module.model.TransE"
    model = convert(module)
    assert (model.name, model.notes) == ("TransE", ())
    agree(model, theirs, lambda s: -np.sqrt(-s))
    module.p_norm = 3
    assert "black box" in str(convert(module).notes)
