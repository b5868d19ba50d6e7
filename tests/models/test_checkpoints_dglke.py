"""Checkpoints of DGL-KE: tables in a folder, and what it, or its formulas, say of a triple."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from checkpoints import (
    GAMMA,
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
)

import evenrank as er
from evenrank.errors import InputError
from evenrank.models import load
from evenrank.models.readers import read
from evenrank.models.readers.checkpoint import renumbered


def dglke_folder(path, kind, **changes):
    wide = {"ComplEx": (2, 2), "RotatE": (2, 1), "SimplE": (2, 2), "RESCAL": (1, D)}.get(kind, (1, 1))
    entity, relation = rows(N, D * wide[0]), rows(R, D * wide[1])
    config = {"dataset": "toy", "model": kind, "emb_size": D, "gamma": GAMMA, "double_ent": False}
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config | changes))
    np.save(path / f"toy_{kind}_entity.npy", entity)
    np.save(path / f"toy_{kind}_relation.npy", relation)
    if kind == "TransR":
        np.save(path / f"toy_{kind}projection.npy", rows(R, D * D))
    return entity, relation


def simple(h, r, t):
    (h1, h2), (r1, r2), (t1, t2) = (np.split(np.asarray(row, np.float64), 2) for row in (h, r, t))
    return float((h1 * r1 * t2 + t1 * r2 * h2).sum() / 2)


DGLKE = {
    "TransE": (lambda h, r, t: GAMMA - distance(2)(h, r, t), lambda s: GAMMA - np.sqrt(-s)),
    "TransE_l1": (lambda h, r, t: GAMMA - distance(1)(h, r, t), lambda s: GAMMA + s),
    "TransE_l2": (lambda h, r, t: GAMMA - distance(2)(h, r, t), lambda s: GAMMA - np.sqrt(-s)),
    "DistMult": (product, lambda s: s),
    "ComplEx": (hermitian, lambda s: s),
    "RESCAL": (bilinear, lambda s: s),
    "RotatE": (
        lambda h, r, t: GAMMA - turned(h, r / ((GAMMA + 2) / D / np.pi), t).sum(),
        lambda s: GAMMA + s,
    ),
    "SimplE": (simple, lambda s: s),
}


@pytest.mark.parametrize("name", DGLKE)
def test_models_of_dglke(tmp_path, name):
    entity, relation = dglke_folder(tmp_path / "run", name)
    score, value = DGLKE[name]
    agree(load(tmp_path / "run"), every(score, entity, relation, entity), value)


@pytest.mark.parametrize("name", ["TransE_l1", "TransE_l2", "RotatE", "DistMult"])
def test_distances_of_dglke_keep_their_gamma(tmp_path, name):
    """It decides how far ahead a known answer must be to count in DGL-KE's own protocol."""
    entity, relation = dglke_folder(tmp_path / "run", name, emap_file="entities.tsv", rmap_file="r.tsv")
    order = np.roll(np.arange(N), 2)  # row i is of the entity of this name
    lines = [f"{row}\t{name}\n" for row, name in enumerate(order)]
    (tmp_path / "run/entities.tsv").write_text("".join(lines))
    (tmp_path / "run/r.tsv").write_text("".join(f"{row}\t{row}\n" for row in range(R)))
    theirs = every(DGLKE[name][0], entity, relation, entity)
    rows_of = np.argsort(order)
    theirs = theirs[np.ix_(rows_of, np.arange(R), rows_of)].astype(np.float32)
    everything = np.array([(h, r, t) for h in range(N) for r in range(R) for t in range(N)])
    task = er.Graph.of(everything[::2], test=everything[1::4]).task(protocol="dgl-ke")

    def scores(queries, candidates):
        h, r, t = queries.T
        found = [theirs[a, b] if c == -1 else theirs[:, b, c] for a, b, c in zip(h, r, t, strict=True)]
        return np.array(found)[:, candidates]

    model = load(tmp_path / "run", er.Graph.of(everything))
    er.models.save(model, tmp_path / "again.safetensors")
    want = er.rank(scores, task, progress=False)
    for one in (model, er.models.load(tmp_path / "again.safetensors")):
        ranks = er.rank(one, task, progress=False)
        margin = "" if name == "DistMult" else f" (of {GAMMA:g} - distance)"  # a product has none
        assert ranks.protocol.scores == f"float32, log-sigmoid{margin}, known answers lose 1"
        assert ranks.better.tolist() == want.better.tolist()
        assert ranks.equal.tolist() == want.equal.tolist()


def test_transr_of_dglke_is_a_black_box_with_a_note(tmp_path):
    entity, relation = dglke_folder(tmp_path / "run", "TransR")
    matrix = np.load(tmp_path / "run/toy_TransRprojection.npy").reshape(R, D, D)

    def score(h, r, t):
        return GAMMA - distance(1)(entity[h] @ matrix[r], relation[r], entity[t] @ matrix[r])

    model = load(tmp_path / "run")
    agree(model, every(score, range(N), range(R), range(N)))
    task = er.Graph.of([[0, 0, 1]], entities=N, relations=R, test=[[0, 1, 2]]).task(protocol="dgl-ke")
    assert er.rank(model, task).protocol.scores.startswith("float32, log-sigmoid (of 9 - distance)")
    assert model.gamma == renumbered(model, np.roll(np.arange(N), 1), None).gamma == GAMMA
    assert model.notes == (
        "tails are ranked by h + r, as triples are scored; DGL-KE ranks them by h - r",
        "TransR does not factor: scored as a black box, in float64",
    )
    queries = np.array([[0, -1, 1], [2, -1, 3]])  # relations too
    theirs = [[score(h, r, t) for r in range(R)] for h, _, t in queries]
    assert model.score(queries, slice(0, R)) == pytest.approx(np.array(theirs), rel=1e-5)
    for query, message in {
        (-1, 0, -1): r"cannot answer this query.*\[-1, 0, -1\]",
        (0, R, -1): r"relation 3 is not in the model; got a model of 3",
        (-1, 0, N): r"entity 7 is not in the model; got a model of 7",
    }.items():
        with pytest.raises(InputError, match=message):
            model.score(np.array([query]), slice(0, N))


@pytest.mark.parametrize("name", [name for name in DGLKE if name != "SimplE"])
def test_dglke_itself(tmp_path, name):
    """Its score functions need torch alone; the rest of the library needs an old DGL."""
    torch = need("torch")
    try:
        file = distribution("dglke").locate_file("dglke/models/pytorch/score_fun.py")
    except PackageNotFoundError:
        pytest.skip("not installed (extra: peers)")
    spec = spec_from_file_location("score_fun", file)
    library = module_from_spec(spec)
    spec.loader.exec_module(library)
    functions = {
        "TransE": lambda: library.TransEScore(GAMMA, "l2"),
        "TransE_l1": lambda: library.TransEScore(GAMMA, "l1"),
        "TransE_l2": lambda: library.TransEScore(GAMMA, "l2"),
        "DistMult": library.DistMultScore,
        "ComplEx": library.ComplExScore,
        "RESCAL": lambda: library.RESCALScore(D, D),
        "RotatE": lambda: library.RotatEScore(GAMMA, (GAMMA + 2) / D),
    }
    tables = (torch.from_numpy(table) for table in dglke_folder(tmp_path / "run", name))
    entity, relation = tables
    theirs = functions[name]().infer(entity, relation, entity).numpy()
    agree(load(tmp_path / "run"), theirs, DGLKE[name][1])


def test_names_and_bad_folders_of_dglke(tmp_path):
    path = tmp_path / "run"
    dglke_folder(path, "DistMult", emap_file="entities.tsv", rmap_file="raw/relations.tsv")
    (path / "entities.tsv").write_text("".join(f"{i}\te{i}\n" for i in range(N)))
    (path / "relations.tsv").write_text("1\tb\n0\ta\n2\tc\n")
    checkpoint = read(path)
    assert (checkpoint.entities[3], checkpoint.relations) == ("e3", ["a", "b", "c"])
    (path / "relations.tsv").unlink()
    with pytest.raises(
        InputError, match=r"incomplete checkpoint .*: missing relations.tsv; got only entities.tsv"
    ):
        load(path)
    dglke_folder(path, "DistMult", gamma="abc")
    with pytest.raises(InputError, match=r'config.json: gamma must be a number; got "abc"'):
        load(path)
    dglke_folder(path, "DistMult")
    (path / "toy_DistMult_relation.npy").unlink()
    with pytest.raises(InputError, match=r"incomplete checkpoint .*: missing toy_DistMult_relation.npy"):
        load(path)
    (path / "config.json").unlink()
    with pytest.raises(
        InputError, match=r"incomplete checkpoint .*: missing config.json.*toy_DistMult_entity.npy"
    ):
        load(path)
    dglke_folder(tmp_path / "odd", "RESCAL")
    np.save(tmp_path / "odd/toy_RESCAL_relation.npy", rows(R, D * D + 1))
    with pytest.raises(InputError, match=r"rows cannot be split into 6 parts.*\(3, 37\)"):
        load(tmp_path / "odd")
    np.save(tmp_path / "odd/toy_RESCAL_relation.npy", rows(R))
    with pytest.raises(InputError, match=r"toy_RESCAL_relation.npy must be a table.*\(3,\)"):
        load(tmp_path / "odd")
    dglke_folder(tmp_path / "phases", "RotatE", emb_size=D + 1)
    with pytest.raises(
        InputError, match=r"the tables do not match; got relations of shape \(3, 6\), emb_size 7"
    ):
        load(tmp_path / "phases")
    dglke_folder(tmp_path / "projected", "TransR")
    np.save(tmp_path / "projected/toy_TransRprojection.npy", rows(R, D * 2))
    with pytest.raises(InputError, match=r"differ in dimension; got shapes \(7, 2\) and \(3, 6\)"):
        load(tmp_path / "projected")
    np.save(tmp_path / "projected/toy_TransRprojection.npy", rows(R - 1, D * D))
    with pytest.raises(InputError, match=r"cannot read .*projected; got IndexError"):
        load(tmp_path / "projected")
    dglke_folder(tmp_path / "other", "DistMult", model="RotH")
    with pytest.raises(
        InputError, match=r"DGL-KE model is not supported; got 'RotH'.*TransE_l1.*calls DGL-KE"
    ):
        load(tmp_path / "other")
