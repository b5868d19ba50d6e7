"""Checkpoints of other libraries: what they say of a triple, said again from their files.

Where a library installs, its own modules score; else files are written to its documented layout, and the
scores come from the formulas in its source, written down once more, triple by triple.
"""

import importlib
import json
import pickle
import sys
import types
import warnings
import zipfile
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest

import evenrank as er
from evenrank.errors import InputError
from evenrank.integrations import load, read

pytestmark = pytest.mark.filterwarnings("ignore:::(torchkge|torch_geometric|tqdm)")

N, R, D = 7, 3, 6  # entities, relations, dimensions
rng = np.random.default_rng(7)
START = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers_in_any_order():
    """A test draws what it draws, whichever were run before it."""
    rng.bit_generator.state = START


def rows(*shape):
    return rng.normal(size=shape).astype(np.float32)


def need(name):
    """Import a library that only `make peers` brings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of while it loads is its own to mend
        return pytest.importorskip(name, reason="the extra `peers` brings it")


def every(score, heads, relations, tails):
    """Score all triples: an array by head, relation, tail."""
    return np.array([[[score(h, r, t) for t in tails] for r in relations] for h in heads])


def agree(model, theirs, value=lambda score: score, heads=None, tolerance=2e-5):
    """Compare a model's scores, put as `value` says, with a library's, asked for tails and for heads.

    `heads` are the scores by which heads are ranked, where these are others.
    """
    tails = np.array([[h, r, -1] for h in range(N) for r in range(R)])
    close = pytest.approx(theirs.reshape(-1, N), rel=tolerance, abs=tolerance)
    assert value(model.score(tails, slice(0, N))) == close
    asked = np.array([[-1, r, t] for r in range(R) for t in range(N)])
    wanted = (theirs if heads is None else heads).transpose(1, 2, 0).reshape(-1, N)
    assert value(model.score(asked, slice(0, N))) == pytest.approx(wanted, rel=tolerance, abs=tolerance)
    pairs = np.stack([rng.permutation(N)[:4] for _ in asked])  # a row of candidates for each query
    some = np.take_along_axis(wanted, pairs, axis=1)
    assert value(model.score(asked, pairs)) == pytest.approx(some, rel=tolerance, abs=tolerance)


def z(row):
    """Read a row as all real parts, then all imaginary parts."""
    real, imaginary = np.split(np.asarray(row, np.float64), 2)
    return real + 1j * imaginary


def unit(row):
    return row / np.linalg.norm(row)


def distance(p):
    return lambda h, r, t: np.linalg.norm(np.asarray(h + r - t, np.float64), ord=p)


def product(h, r, t):
    return float((np.asarray(h, np.float64) * r * t).sum())


def hermitian(h, r, t):
    return float((z(h) * z(r) * z(t).conj()).sum().real)


def bilinear(h, r, t):
    return float(np.asarray(h, np.float64) @ r.reshape(len(h), len(t)) @ t)


def turned(h, phase, t):
    """Give the moduli of the differences after a rotation."""
    return np.abs(z(h) * np.exp(1j * np.asarray(phase, np.float64)) - z(t))


def correlation(h, r, t):
    """HolE as it is defined, without a Fourier transform."""
    d = len(h)
    return sum(float(r[k]) * sum(float(h[i]) * t[(i + k) % d] for i in range(d)) for k in range(d))


# The RotatE code ------------------------------------------------------------------------------------

GAMMA = 9.0
UNIT = np.float32((GAMMA + 2) / D) / 3.14159262358979323846


def rotate_folder(path, kind="RotatE", **changes):
    double = {"ComplEx": (2, 2), "RotatE": (2, 1)}.get(kind, (1, 1))
    entity, relation = rows(N, D * double[0]), rows(R, D * double[1])
    config = {
        "model": kind,
        "gamma": GAMMA,
        "hidden_dim": D,
        "double_entity_embedding": double[0] == 2,
        "double_relation_embedding": double[1] == 2,
        "data_path": "data/FB15k",
    }
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config | changes))
    np.save(path / "entity_embedding.npy", entity)
    np.save(path / "relation_embedding.npy", relation)
    return entity, relation


ROTATE = {
    "TransE": (lambda h, r, t: GAMMA - distance(1)(h, r, t), lambda s: GAMMA + s),
    "DistMult": (product, lambda s: s),
    "ComplEx": (hermitian, lambda s: s),
    "RotatE": (lambda h, r, t: GAMMA - turned(h, r / UNIT, t).sum(), lambda s: GAMMA + s),
    # the modulus is half the range unless it is trained; it scales all distances alike
    "pRotatE": (
        lambda h, r, t: GAMMA - np.abs(np.sin((h + r - t) / UNIT)).sum() * 0.5 * UNIT,
        lambda s: GAMMA + s / 2 * 0.5 * UNIT,
    ),
}


@pytest.mark.parametrize("name", ROTATE)
def test_models_of_the_rotate_code(tmp_path, name):
    entity, relation = rotate_folder(tmp_path / "run", name)
    score, value = ROTATE[name]
    agree(load(tmp_path / "run"), every(score, entity, relation, entity), value, tolerance=1e-4)


def test_rows_of_the_rotate_code_are_numbered_by_its_dictionaries(tmp_path):
    entity, relation = rotate_folder(tmp_path / "run", "DistMult")
    theirs = every(product, entity, relation, entity)
    order = rng.permutation(N)
    lines = "".join(f"{i}\te{name}\n" for i, name in enumerate(order))
    (tmp_path / "run/entities.dict").write_text(lines)
    (tmp_path / "run/relations.dict").write_text("0\tr2\n1\tr0\n2\tr1\n")
    names = {"entities": [f"e{i}" for i in range(N)], "relations": ["r0", "r1", "r2"]}
    graph = er.Graph.of([[0, 0, 1]], test=[[0, 1, 2], [3, 2, 1], [6, 0, 6]], **names)
    model = load(tmp_path / "run", graph)
    assert model.notes == ()
    row = {int(name): i for i, name in enumerate(order)}
    ranks = er.rank(model, graph.task("test", sides="tail", filter=None), progress=False)
    expected = []
    for h, r, t in graph.splits["test"]:
        scores = theirs[row[h], {2: 0, 0: 1, 1: 2}[r]]
        expected.append(int((scores > scores[row[t]]).sum()))
    assert ranks.better.tolist() == expected


def test_data_path_leads_to_the_dictionaries(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/entities.dict").write_text("".join(f"{i}\te{i}\n" for i in range(N)))
    rotate_folder(tmp_path / "run", data_path=str(tmp_path / "data"))
    checkpoint = read(tmp_path / "run")
    assert checkpoint.entities == [f"e{i}" for i in range(N)]
    assert checkpoint.relations is None


def test_without_names_the_counts_must_be_the_graph_s(tmp_path):
    rotate_folder(tmp_path / "run")
    graph = er.Graph.of([[0, 0, 1]], entities=N, relations=R)
    assert "numbered as the graph" in load(tmp_path / "run", graph).notes[0]
    with pytest.raises(InputError, match=rf"entities.*{N} in run, 9 in the graph"):
        load(tmp_path / "run", er.Graph.of([[0, 0, 1]], entities=9, relations=R))
    with pytest.raises(InputError, match=rf"relations.*{R} in run, 5 in the graph"):
        load(tmp_path / "run", er.Graph.of([[0, 0, 1]], entities=N, relations=5))


@pytest.mark.parametrize("lost", ["config.json", "entity_embedding.npy", "relation_embedding.npy"])
def test_half_a_folder_of_the_rotate_code(tmp_path, lost):
    rotate_folder(tmp_path / "run")
    (tmp_path / "run" / lost).unlink()
    with pytest.raises(InputError, match=f"half a checkpoint: no {lost}.*copy the missing files"):
        load(tmp_path / "run")


def test_bad_folders_of_the_rotate_code(tmp_path):
    path = tmp_path / "run"
    rotate_folder(path, hidden_dim=D + 1)
    with pytest.raises(InputError, match=r"not of one model.*\(7, 12\) and \(3, 6\), widths \(14, 7\)"):
        load(path)
    rotate_folder(path, "TransE", model="HAKE")
    with pytest.raises(InputError, match=r"does not have.*'HAKE'.*TransE, DistMult"):
        load(path)
    rotate_folder(path)
    (path / "entities.dict").write_text("0\ta\n1\tb\n")
    with pytest.raises(
        InputError, match=r"entities.dict does not have the names.*2 entities, and 7 rows"
    ):
        load(path)
    (path / "entities.dict").unlink()
    (path / "entity_embedding.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(InputError, match=r"cannot read .*entity_embedding.npy.*damaged or truncated"):
        load(path)
    (path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*config.json"):
        load(path)
    (path / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"config.json does not say model, gamma"):
        load(path)
    (path / "config.json").write_text('{"model": "RotatE"}')
    with pytest.raises(InputError, match=r"config.json does not say gamma, hidden_dim"):
        load(path)


@pytest.mark.parametrize(
    "changes",
    [{"gamma": None}, {"gamma": "9"}, {"hidden_dim": None}, {"data_path": 5}, {"hidden_dim": [1] * D}],
)
def test_settings_of_another_kind(tmp_path, changes):
    rotate_folder(tmp_path / "run", **changes)
    with pytest.raises(InputError, match=r"cannot read .*run; got TypeError.*damaged|not of one model"):
        load(tmp_path / "run")


def test_a_file_where_a_folder_is_needed(tmp_path):
    rotate_folder(tmp_path / "run")
    for name in ("rotate", "dgl-ke"):
        with pytest.raises(InputError, match=r"a checkpoint is a folder.*config.json.*name the folder"):
            load(tmp_path / "run/config.json", format=name)


def test_pickled_tables_are_refused(tmp_path):
    rotate_folder(tmp_path / "run")
    np.save(tmp_path / "run/entity_embedding.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "run")


# DGL-KE ---------------------------------------------------------------------------------------------


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
def test_models_of_dglke_keep_their_gamma(tmp_path, name):
    """It decides how far ahead a known answer must be to count in DGL-KE's own protocol."""
    entity, relation = dglke_folder(tmp_path / "run", name, emap_file="entities.tsv")
    order = np.roll(np.arange(N), 2)  # row i is of the entity of this name
    lines = [f"{row}\t{name}\n" for row, name in enumerate(order)]
    (tmp_path / "run/entities.tsv").write_text("".join(lines))
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
    ranks, want = (er.rank(one, task, progress=False) for one in (model, scores))
    assert ranks.protocol["scores"].startswith(f"float32, log-sigmoid (of {GAMMA:g} - distance)")
    assert ranks.better.tolist() == want.better.tolist()
    assert ranks.equal.tolist() == want.equal.tolist()


def test_transr_of_dglke_is_a_black_box_and_says_so(tmp_path):
    entity, relation = dglke_folder(tmp_path / "run", "TransR")
    matrix = np.load(tmp_path / "run/toy_TransRprojection.npy").reshape(R, D, D)

    def score(h, r, t):
        return GAMMA - distance(1)(entity[h] @ matrix[r], relation[r], entity[t] @ matrix[r])

    model = load(tmp_path / "run")
    agree(model, every(score, range(N), range(R), range(N)))
    assert model.notes == (
        "tails are ranked by h + r, as triples are scored; DGL-KE ranks them by h - r",
        "TransR does not factor: scored as a black box, in float64",
    )
    queries = np.array([[0, -1, 1], [2, -1, 3]])  # relations too
    theirs = [[score(h, r, t) for r in range(R)] for h, _, t in queries]
    assert model.score(queries, slice(0, R)) == pytest.approx(np.array(theirs), rel=1e-5)
    for query, message in {
        (-1, 0, -1): r"cannot answer this query.*\[-1, 0, -1\]",
        (0, R, -1): r"does not know relation 3.*3 of that kind",
        (-1, 0, N): r"does not know entity 7.*7 of that kind",
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
        pytest.skip("the extra `peers` brings it")
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
    (path / "toy_DistMult_relation.npy").unlink()
    with pytest.raises(InputError, match=r"half a checkpoint: no toy_DistMult_relation.npy"):
        load(path)
    (path / "config.json").unlink()
    with pytest.raises(InputError, match=r"half a checkpoint: no config.json.*toy_DistMult_entity.npy"):
        load(path)
    dglke_folder(tmp_path / "odd", "RESCAL")
    np.save(tmp_path / "odd/toy_RESCAL_relation.npy", rows(R, D * D + 1))
    with pytest.raises(InputError, match=r"rows cannot be cut into 6 parts.*\(3, 37\)"):
        load(tmp_path / "odd")
    np.save(tmp_path / "odd/toy_RESCAL_relation.npy", rows(R))
    with pytest.raises(InputError, match=r"toy_RESCAL_relation.npy is no table.*\(3,\)"):
        load(tmp_path / "odd")
    dglke_folder(tmp_path / "phases", "RotatE", emb_size=D + 1)
    with pytest.raises(InputError, match=r"not of one model.*relations of shape \(3, 6\), emb_size 7"):
        load(tmp_path / "phases")
    dglke_folder(tmp_path / "projected", "TransR")
    np.save(tmp_path / "projected/toy_TransRprojection.npy", rows(R, D * 2))
    with pytest.raises(InputError, match=r"not projected to where.*shape \(7, 2\), and.*\(3, 6\)"):
        load(tmp_path / "projected")
    np.save(tmp_path / "projected/toy_TransRprojection.npy", rows(R - 1, D * D))
    with pytest.raises(InputError, match=r"cannot read .*projected; got IndexError"):
        load(tmp_path / "projected")
    dglke_folder(tmp_path / "other", "DistMult", model="RotH")
    with pytest.raises(InputError, match=r"does not read.*'RotH'.*TransE_l1.*asks DGL-KE for scores"):
        load(tmp_path / "other")


# LibKGE ---------------------------------------------------------------------------------------------


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
    agree(load(tmp_path / "a.pt"), every(bilinear, entity, short @ matrix.T, entity))
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
    with pytest.raises(InputError, match=r"short.pt does not have the names.*6 entities, and 7 rows"):
        load(tmp_path / "short.pt")
    libkge_file(tmp_path / "checkpoint_best.pt", libkge_options("complex"), tables)
    libkge_file(tmp_path / "checkpoint_00020.pt", libkge_options("transe"), tables)
    (tmp_path / "entity_ids.del").write_text("".join(f"{i}\te{i}\n" for i in range(N)))
    checkpoint = read(tmp_path)
    assert (checkpoint.model.name, checkpoint.entities[-1], checkpoint.relations) == (
        "ComplEx",
        "e6",
        None,
    )


def test_bad_checkpoints_of_libkge(tmp_path, libkge_file):
    torch = need("torch")
    tables = embedders(rows(N, D), rows(R, D))
    options = {"model": "conve", "conve": {"class_name": "ConvE"}}
    libkge_file(tmp_path / "a.pt", options, tables | {"_scorer.convolution.weight": rows(2, 2)})
    with pytest.raises(InputError, match=r"does not read.*ConvE, with.*TransE, RotatE.*score_sp"):
        load(tmp_path / "a.pt")
    libkge_file(tmp_path / "b.pt", libkge_options("transh", reciprocal=True), tables)
    with pytest.raises(InputError, match="TransH with reciprocal relations is not read"):
        load(tmp_path / "b.pt")
    torch.save({"_entity_embedder.": 1}, tmp_path / "c.pt")
    with pytest.raises(InputError, match="no checkpoint of LibKGE"):
        load(tmp_path / "c.pt")
    torch.save({"model": ({}, {}), "config": "_entity_embedder."}, tmp_path / "d.pt")
    with pytest.raises(
        InputError, match=r"cannot read .*d.pt; got AttributeError.*no attribute 'options"
    ):
        load(tmp_path / "d.pt")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").touch()
    (run / "trace.yaml").touch()
    with pytest.raises(InputError, match=r"half a checkpoint: no checkpoint_best.pt"):
        load(run)


# OpenKE ---------------------------------------------------------------------------------------------


def openke_file(path, tables, wrapped=False):
    torch = need("torch")
    tables = {"zero_const": np.zeros(1), "pi_const": np.array([np.pi], np.float32)} | tables
    state = {
        ("model." * wrapped) + name + ".weight" * (table.ndim == 2): torch.from_numpy(table)
        for name, table in tables.items()
    }
    torch.save(state, path)
    return path


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


OPENKE = {  # what must be said of it, tables, score, what to make of ours
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
    assert model.notes == ("taken to be HolE, as its file is called",)
    # only the forward relations are asked when it is tested
    tested = load(openke_file(tmp_path / "s.ckpt", two | {"rel_inv_embeddings": rows(R, D)}))
    agree(tested, every(product, entity, relation, entity))
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
    with pytest.raises(InputError, match=r"an imaginary part for each real.*\(7, 6\) and \(7, 4\)"):
        load(openke_file(tmp_path / "c.ckpt", narrow))
    scalars = {"ent_embeddings": rows(N, 2 * D), "rel_embeddings": rows(R, 2 * D)}
    more = every(
        product, scalars["ent_embeddings"], scalars["rel_embeddings"], scalars["ent_embeddings"]
    )
    agree(load(openke_file(tmp_path / "a.ckpt", tables | scalars)), -theirs - more)


def test_what_openke_does_not_say(tmp_path):
    tables = {name: OPENKE_TABLES[name] for name in ("ent_embeddings", "rel_embeddings")}
    path = openke_file(tmp_path / "best.ckpt", tables)
    with pytest.raises(InputError, match=r"does not say which.*TransE, DistMult, HolE.*openke:TransE"):
        load(path)
    path = openke_file(tmp_path / "whole.ckpt", tables)  # which is not HolE
    with pytest.raises(InputError, match=r"whole.ckpt does not say which.*TransE, DistMult, HolE"):
        load(path)
    assert load(openke_file(tmp_path / "FB15K_TransE2.ckpt", tables)).name == "TransE"
    assumed = "the file does not tell the options of TransE: assumed p=1, norm=True"
    assert load(path, format="openke:TransE").notes == (assumed,)
    assert load(path, format="openke:transe(p=2, norm=False)").notes == ()
    for said, message in {
        "openke:TransX": "does not read this model of openke.*'TransX'.*TransE, DistMult",
        "openke:TransE(q=2)": "openke's TransE has no option q.*p, norm",
        "openke:DistMult(p=2)": "has no option p.*none",
        "openke:TransE(2)": r"not the name of a model.*TransE\(p=2\)",
        "openke:TransE(": "not the name of a model",
        "openke:TransE(p=f())": "not the name of a model",
        "openke:TransH": "not a checkpoint of openke's TransH: no norm_vector.*ent_embeddings",
        "openke:TransE(p=3)": "p must be 1 or 2.*3",
        "rotate:TransE": "can only be said with openke, torchkge, pyg.*rotate:TransE",
    }.items():
        with pytest.raises(InputError, match=message):
            load(path, format=said)
    odd = openke_file(tmp_path / "odd.ckpt", tables | {"gate": rows(R, D)})
    with pytest.raises(InputError, match=r"no model of openke.*gate.*openke.convert\(module\)"):
        load(odd)
    norm = openke_file(tmp_path / "h.ckpt", tables | {"norm_vector": rows(R, D)})
    with pytest.raises(InputError, match=r"TransH: p must be 1 or 2.*3"):
        load(norm, format="openke:TransH(p=3)")


def test_names_of_openke(tmp_path):
    tables = {name: OPENKE_TABLES[name] for name in ("ent_embeddings", "rel_embeddings")}
    path = openke_file(tmp_path / "transe.ckpt", tables)
    (tmp_path / "entity2id.txt").write_text(f"{N}\n" + "".join(f"e{i}\t{N - 1 - i}\n" for i in range(N)))
    assert read(path).entities == [f"e{i}" for i in reversed(range(N))]
    (tmp_path / "relation2id.txt").write_text("1\nr0\t0\n")
    with pytest.raises(InputError, match=r"relation2id.txt does not have.*1 relations, and 3 rows"):
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


# TorchKGE -------------------------------------------------------------------------------------------


def torchkge_modules():
    models = need("torchkge.models")
    torch = importlib.import_module("torch")
    torch.manual_seed(3)
    made = {
        "TransE": models.TransEModel(D, N, R, "L2"),
        "TransE-l1": models.TransEModel(D, N, R, "L1"),
        "TransE-torus_L1": models.TransEModel(D, N, R, "torus_L1"),
        "TransH": models.TransHModel(D, N, R),
        "TransR": models.TransRModel(D, 4, N, R),
        "TransD": models.TransDModel(D, 4, N, R),
        "TorusE-torus_eL2": models.TorusEModel(D, N, R, "torus_eL2"),
        "TorusE-torus_L1": models.TorusEModel(D, N, R, "torus_L1"),
        "TorusE-torus_L2": models.TorusEModel(D, N, R, "torus_L2"),
        "TorusE-L1": models.TorusEModel(D, N, R, "L1"),
        "RESCAL": models.RESCALModel(D, N, R),
        "DistMult": models.DistMultModel(D, N, R),
        "HolE": models.HolEModel(D, N, R),
        "HolE-odd": models.HolEModel(D - 1, N, R),
        "ComplEx": models.ComplExModel(D, N, R),
        "Analogy": models.AnalogyModel(D, N, R, 0.5),
        "ConvKB": models.ConvKBModel(D, 2, N, R),
    }
    with torch.no_grad():
        for module in made.values():
            for parameter in module.parameters():
                if parameter.ndim == 2:  # not of length 1: who normalises must be seen
                    parameter.mul_(torch.rand(len(parameter), 1) + 0.5)
    return made


def torchkge_scores(module):
    import torch

    h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
    with torch.no_grad():
        return module.scoring_function(h, t, r).reshape(N, R, N).numpy()


TORCHKGE = {
    "TransE-l1": "TransE(p=1)",
    "TransE": "TransE(p=2)",
    "TorusE-L1": "TorusE(dissimilarity='L1')",
    "TorusE-torus_eL2": "TorusE",
    "HolE-odd": "HolE",
}
BOXED = ("TransE-torus_L1", "TorusE-torus_L1", "TorusE-torus_L2", "ConvKB")


def test_models_of_torchkge(tmp_path):
    torch = need("torch")
    for name, module in torchkge_modules().items():
        theirs = torchkge_scores(module)
        # a quarter of the square of the chord
        value = (lambda s: s / 4) if name == "TorusE-torus_eL2" else (lambda s: s)
        live = er.integrations.torchkge.convert(module)
        agree(live, theirs, value)
        boxed = name in (*BOXED, "TransH", "TransR", "TransD")
        assert ("black box" in str(live.notes)) == boxed
        assert isinstance(live, er.models.Model) == (not boxed)
        torch.save(module, tmp_path / "whole.pt")
        with pytest.raises(InputError, match=r"pickle that could run code.*--trust-pickle"):
            load(tmp_path / "whole.pt")
        agree(load(tmp_path / "whole.pt", trust_pickle=True), theirs, value)
        if name not in BOXED:
            torch.save(module.state_dict(), tmp_path / "state.pt")
            agree(
                load(tmp_path / "state.pt", format=f"torchkge:{TORCHKGE.get(name, name)}"), theirs, value
            )


def test_files_of_torchkge(tmp_path):
    torch = need("torch")
    modules = torchkge_modules()
    torch.save(modules["ComplEx"].state_dict(), tmp_path / "model.pt")
    assert load(tmp_path / "model.pt").name == "ComplEx"  # its tables say so
    torch.save({"epoch": 3, "model_state_dict": modules["TransE"].state_dict()}, tmp_path / "transe.pt")
    assert "taken to be TransE" in load(tmp_path / "transe.pt").notes[0]
    torch.save(modules["TransE"].state_dict(), tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"which model.*TransE, DistMult, HolE, TorusE"):
        load(tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"does not factor.*'torus_L1'.*torchkge.convert\(module\)"):
        load(tmp_path / "model.pt", format="torchkge:TorusE(dissimilarity='torus_L1')")
    torch.save(modules["ConvKB"].state_dict(), tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"no model of torchkge.*output.0.*torchkge.convert\(module\)"):
        load(tmp_path / "model.pt")
    modules["ConvKB"].train()
    er.integrations.torchkge.convert(modules["ConvKB"]).score(np.array([[0, 0, -1]]), slice(0, N))
    assert modules["ConvKB"].training  # as it was


def test_ranks_of_torchkge_models_are_its_own():
    """The whole way, from a module to ranks, beside TorchKGE's own evaluator."""
    need("torchkge")
    from torchkge.data_structures import KnowledgeGraph
    from torchkge.evaluation import LinkPredictionEvaluator
    from torchkge.models import ComplExModel

    nations = er.load("nations")
    torch = importlib.import_module("torch")
    test = torch.from_numpy(nations.splits["test"].copy())
    every_triple = np.concatenate(list(nations.splits.values()))
    known = {part: defaultdict(set) for part in ("heads", "tails", "relations")}
    for h, r, t in every_triple.tolist():
        known["heads"][t, r].add(h)
        known["tails"][h, r].add(t)
        known["relations"][h, t].add(r)
    graph = KnowledgeGraph(
        kg={"heads": test[:, 0], "tails": test[:, 2], "relations": test[:, 1]},
        ent2ix={str(name): i for i, name in enumerate(nations.entities)},
        rel2ix={str(name): i for i, name in enumerate(nations.relations)},
        dict_of_heads=known["heads"],
        dict_of_tails=known["tails"],
        dict_of_rels=known["relations"],
    )
    torch.manual_seed(1)
    module = ComplExModel(16, len(nations.entities), len(nations.relations))
    evaluator = LinkPredictionEvaluator(module, graph)
    evaluator.evaluate(b_size=64, verbose=False)
    ranks = er.rank(
        er.integrations.torchkge.convert(module, nations), nations.task("test"), progress=False
    )
    theirs = torch.cat([evaluator.filt_rank_true_tails, evaluator.filt_rank_true_heads]).numpy()
    assert (ranks.better + 1).tolist() == theirs.tolist()


# PyTorch Geometric ----------------------------------------------------------------------------------


def pyg_modules():
    kge = need("torch_geometric.nn.kge")
    importlib.import_module("torch").manual_seed(5)
    return {
        "TransE": kge.TransE(N, R, D),
        "TransE(p=2)": kge.TransE(N, R, D, p_norm=2.0),
        "DistMult": kge.DistMult(N, R, D),
        "ComplEx": kge.ComplEx(N, R, D),
        "RotatE": kge.RotatE(N, R, D, margin=4.0),
    }


def test_models_of_pyg(tmp_path):
    torch = need("torch")
    for said, module in pyg_modules().items():
        h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
        with torch.no_grad():
            theirs = module(h, r, t).reshape(N, R, N).numpy()
        value = {"TransE(p=2)": lambda s: -np.sqrt(-s), "RotatE": lambda s: 4 - np.sqrt(-s)}.get(
            said, lambda s: s
        )
        live = er.integrations.pyg.convert(module)
        agree(live, theirs, value)
        assert live.notes == ()
        torch.save(module.state_dict(), tmp_path / "state.pt")
        agree(load(tmp_path / "state.pt", format=f"pyg:{said}"), theirs, value)
        torch.save(module, tmp_path / "whole.pt")
        with pytest.raises(InputError, match=r"pickle that could run code.*trust_pickle=True"):
            load(tmp_path / "whole.pt")
        agree(load(tmp_path / "whole.pt", trust_pickle=True), theirs, value)


def test_a_model_of_your_own_on_pyg_is_a_black_box():
    kge, torch = need("torch_geometric.nn.kge"), need("torch")

    class Odd(kge.KGEModel):
        def forward(self, h, r, t):
            return (self.node_emb(h) * self.rel_emb(r) * self.node_emb(t)).sin().sum(-1)

    module = Odd(N, R, D)
    h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
    with torch.no_grad():
        theirs = module(h, r, t).reshape(N, R, N).numpy()
    box = er.integrations.pyg.convert(module)
    agree(box, theirs)
    assert box.notes == ("how Odd factors is not known: scored as a black box, triple by triple",)
    graph = er.Graph.of([[0, 0, 1]], test=[[2, 1, 3]], entities=N, relations=R)
    ranks = er.rank(er.integrations.pyg.convert(module, graph), graph.task("test"), progress=False)
    assert ranks.better.tolist() == [
        int((theirs[2, 1] > theirs[2, 1, 3]).sum()),
        int((theirs[:, 1, 3] > theirs[2, 1, 3]).sum()),
    ]
    with pytest.raises(InputError, match=r"7 in Odd, 9 in the graph"):
        er.integrations.pyg.convert(module, er.Graph.of([[0, 0, 1]], entities=9, relations=R))


def test_norms_that_do_not_factor_are_black_boxes():
    kge, torch = need("torch_geometric.nn.kge"), need("torch")
    module = kge.TransE(N, R, D, p_norm=3.0)
    h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
    with torch.no_grad():
        theirs = module(h, r, t).reshape(N, R, N).numpy()
    box = er.integrations.pyg.convert(module)
    agree(box, theirs)
    assert "black box" in str(box.notes)


def test_pyg_ranks_its_tails_the_same():
    """Its `test` ranks tails, unfiltered and from 0."""
    torch = need("torch")
    module = pyg_modules()["RotatE"]
    test = np.array([[0, 0, 1], [2, 1, 3], [6, 2, 5], [4, 1, 4]])
    graph = er.Graph.of(test, test=test, entities=N, relations=R)
    model = er.integrations.pyg.convert(module, graph)
    ranks = er.rank(model, graph.task("test", sides="tail", filter=None), progress=False)
    h, r, t = torch.from_numpy(test.T.copy())
    mean, mrr, _ = module.test(h, r, t, batch_size=4, log=False)
    ours = ranks.evaluate("mr", "mrr")
    assert (ours["mr"] - 1, ours["mrr"]) == pytest.approx((mean, mrr))


# Any file -------------------------------------------------------------------------------------------


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize(
    "word", ["ent_embeddings.weight", "node_emb.weight", "ent_emb.weight", "_entity_embedder."]
)
def test_no_pickle_runs_unless_trusted(tmp_path, word):
    torch = need("torch")
    torch.save({word: Bomb(tmp_path / "ran")}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"pickle that could run code.*--trust-pickle"):
        load(tmp_path / "a.pt")
    assert not (tmp_path / "ran").exists()


def test_files_of_torch_need_torch(tmp_path, monkeypatch):
    for name, word in {"a.ckpt": "ent_embeddings.weight", "b.pt": "_entity_embedder."}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("archive/data.pkl", word)
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(InputError, match=r"this needs torch.*evenrank\[torch\]"):
            load(tmp_path / name)


def test_damaged_files(tmp_path):
    path = openke_file(
        tmp_path / "transe.ckpt", {"ent_embeddings": rows(N, D), "rel_embeddings": rows(R, D)}
    )
    whole = path.read_bytes()
    at = whole.index(b"ent_embeddings")
    for damaged in (whole[:-200], whole[: at - 4] + b"xxxx" + whole[at:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"cannot read .*transe.ckpt|could run code"):
            load(path)


def test_files_nobody_knows(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "notes.txt", tmp_path / "empty"):
        with pytest.raises(InputError, match=r"no reader knows this checkpoint.*rotate, dgl-ke, libkge"):
            load(path)


def test_tensors_of_other_types_and_numbers_beside_them(tmp_path):
    """Metrics of NumPy's are pickled; they are passed over, and none of their code runs."""
    torch = need("torch")
    entity, relation = torch.from_numpy(rows(N, D)), torch.from_numpy(rows(R, D))
    tables = {"node_emb.weight": entity.bfloat16(), "rel_emb.weight": relation.half()}
    torch.save({"state_dict": tables, "mrr": np.float64(0.3)}, tmp_path / "distmult.pt")
    entity, relation = (table.float().numpy() for table in tables.values())
    agree(load(tmp_path / "distmult.pt"), every(product, entity, relation, entity))
    torch.save({0: torch.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"no model of pyg.*got 0;"):
        load(tmp_path / "a.pt", format="pyg")


def test_another_module_than_a_model(tmp_path):
    torch = need("torch")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.pt")
    for library in ("openke", "torchkge", "pyg"):
        with pytest.raises(InputError, match=r"could run code.*GLOBAL torch.nn.modules.linear.Linear"):
            load(tmp_path / "a.pt", format=library)
        with pytest.raises(InputError, match=r"cannot read .*a.pt; got AttributeError: 'Linear' object"):
            load(tmp_path / "a.pt", format=library, trust_pickle=True)


def test_something_else_than_a_state_dictionary(tmp_path):
    torch = need("torch")
    torch.save([torch.ones(2), "node_emb.weight"], tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a state dictionary is needed.*list"):
        load(tmp_path / "a.pt")


def test_rows_that_are_the_same_tie_after_a_fourier_transform():
    entity = np.repeat(rows(40, 10), 2, axis=0)[rng.permutation(80)]
    model = er.integrations._alike.holographic(entity, rows(1, 10))
    assert len(np.unique(model.entity, axis=0)) == 40


def test_checkpoints_are_values_that_can_be_pickled(tmp_path):
    rotate_folder(tmp_path / "run")
    assert pickle.loads(pickle.dumps(read(tmp_path / "run").model)).entities == N


def test_data_sets_of_libkge(tmp_path):
    """Its folder holds the text it was made of too; the numbers are those of its own files."""
    files = {
        "dataset.yaml": "dataset:\n  name: toy\n",
        "train.txt": "b\tlikes\ta\n",
        "train.del": "0\t0\t1\n1\t0\t2\n",
        "test.del": "2\t0\t0\n",
        "entity_ids.del": "0\tb\n1\ta\n2\tc d\n",
        "relation_ids.del": "0\tlikes\n",
        "valid_without_unseen.del": "0\t0\t0\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    graph = er.load(tmp_path)
    assert (list(graph.entities), list(graph.relations)) == (["b", "a", "c d"], ["likes"])
    assert {split: rows.tolist() for split, rows in graph.splits.items()} == {
        "train": [[0, 0, 1], [1, 0, 2]],
        "test": [[2, 0, 0]],
    }
    (tmp_path / "test.del").write_text("2\tlikes\t0\n")
    with pytest.raises(InputError, match=r"test.del:1: relation must be a whole number.*'likes'"):
        er.load(tmp_path)


def test_the_shell(tmp_path):
    """From a folder to a table, notes on stderr; and one line where it cannot be."""
    from typer.testing import CliRunner

    from evenrank.cli import app

    nations = er.load("nations")
    size = len(nations.entities), len(nations.relations)
    path = tmp_path / "run"
    rotate_folder(path, "DistMult")
    np.save(path / "entity_embedding.npy", rows(size[0], D))
    np.save(path / "relation_embedding.npy", rows(size[1], D))
    result = CliRunner().invoke(
        app, ["rank", str(path), "--data", "nations", "--metric", "mrr", "--json"]
    )
    assert result.exit_code == 0
    ranks = er.rank(load(path, nations), nations.task("test"), progress=False)
    assert json.loads(result.stdout)["rows"][0]["values"] == ranks.evaluate("mrr").flat()
    assert "run: taken to be numbered as the graph is" in result.stderr
