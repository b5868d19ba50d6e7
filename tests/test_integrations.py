"""Checkpoints of other libraries: how one is found and fitted to a graph; PyKEEN's, without PyKEEN."""

import gzip
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import evenrank as er
import shared
from evenrank.integrations import READERS, Checkpoint, _checkpoint, load, pykeen
from evenrank.integrations._checkpoint import fit, renumbered
from evenrank.integrations.pykeen._records import Record, Unreadable, records

REFERENCE = Path(__file__).parent / "reference" / "pykeen_models.tar.xz"
QUERIES = np.array([(entity, relation) for entity in range(6) for relation in range(3)])


def refused(call, *args, **kwargs):
    """Give the one line that says why a call is refused."""
    with pytest.raises(er.InputError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# Finding a reader -----------------------------------------------------------------------------------


def test_modules_come_when_they_are_asked_for():
    assert er.integrations.pykeen is pykeen
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = er.integrations.nonsense
    with pytest.raises(AttributeError, match="no attribute '_private'"):
        _ = er.integrations._private


def test_reading_pickles_imports_neither_torch_nor_pykeen():
    code = "import sys, evenrank.integrations.pykeen; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "pykeen", "polars"}.isdisjoint(run.stdout.split())


def test_own_models_are_read_like_others(tmp_path):
    graph = er.load("nations")
    rng = np.random.default_rng(0)
    model = er.models.DistMult(rng.normal(size=(14, 4)), rng.normal(size=(55, 4)))
    er.models.save(model, tmp_path / "model.safetensors", graph=graph)
    found = load(tmp_path / "model.safetensors", graph)
    assert (found.name, found.notes) == ("DistMult", ())  # it says how its rows are numbered
    er.models.save(model, tmp_path / "unsaid.safetensors")
    assert load(tmp_path / "unsaid.safetensors", graph).notes == (
        "taken to be numbered as the graph is: there are no names of entities and relations to compare",
    )


def test_what_no_reader_knows(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"nonsense")
    line = refused(load, tmp_path / "model.bin")
    assert line.startswith(
        f"no reader knows this checkpoint; got {tmp_path / 'model.bin'}; allowed: those"
    )
    assert all(name in line for name in READERS)
    assert refused(load, tmp_path / "nothing") == f"no such file; got {tmp_path / 'nothing'}"
    assert "unknown format; got 'nonsense'; allowed: auto, evenrank, " in refused(
        load, tmp_path / "model.bin", format="nonsense"
    )


# Fitting a checkpoint to a graph --------------------------------------------------------------------

ENTITIES, RELATIONS = ("a", "b", "c", "d"), ("r", "s", "t")
GRAPH = er.Graph.of(
    [[0, 0, 1], [1, 1, 2], [2, 2, 3]], test=[[3, 0, 0]], entities=ENTITIES, relations=RELATIONS
)


def models(inverse):
    rng = np.random.default_rng(1)
    rows = 3 if inverse is None else 6
    e, f, r, s = (rng.normal(size=(n, 4)) for n in (4, 4, rows, rows))
    yield er.models.TransE(e, r, inverse=inverse)
    yield er.models.CP(e, f, r, inverse=inverse)
    yield er.models.SimplE(e, f, r, s, inverse=inverse)
    yield er.models.RESCAL(e, rng.normal(size=(rows, 4, 4)), inverse=inverse)
    yield er.models.TuckER(e, r, rng.normal(size=(4, 4, 4)), inverse=inverse)


def holes(rows, *columns):
    rows = np.array(rows)
    rows[:, columns] = -1
    return rows


@pytest.mark.parametrize("inverse", [None, "stacked", "interleaved"])
def test_rows_are_put_in_the_order_of_the_graph(inverse):
    """Every score of every triple is the one the checkpoint gives to the same names."""
    old_entities, old_relations = ("c", "a", "d", "b"), ("t", "r", "s")
    entity = [old_entities.index(name) for name in ENTITIES]
    relation = [old_relations.index(name) for name in RELATIONS]
    every = np.array([(h, r, t) for h in range(4) for r in range(3) for t in range(4)])
    old = np.stack([np.take(rows, every[:, i]) for i, rows in enumerate((entity, relation, entity))], 1)
    for model in models(inverse):
        found = fit(Checkpoint(model, old_entities, old_relations), GRAPH, "file")
        assert (found.notes, found.vocabulary) == ((), GRAPH.vocabulary)
        for hole in (0, 2):
            ours, theirs = (
                found.score(holes(every, hole), slice(0, 4)),
                model.score(holes(old, hole), np.array(entity)),
            )
            assert np.array_equal(ours, theirs), (model, hole)


@dataclass(frozen=True)
class Box:
    """A model as a black box."""

    model: er.models.Model
    name: str = "Box"

    @property
    def entities(self):
        return self.model.entities

    @property
    def relations(self):
        return self.model.relations

    def score(self, queries, candidates):
        return self.model.score(queries, candidates)


@pytest.mark.parametrize("names", [(("c", "a", "d", "b"), RELATIONS), (ENTITIES, ("t", "r", "s"))])
@pytest.mark.parametrize("sides", ["tail", "head", "relation", "pair"])
def test_black_boxes_are_asked_in_their_own_numbers(names, sides):
    model = next(models(None))
    box = fit(Checkpoint(Box(model), *names, notes=("a note",)), GRAPH, "file")
    plain = fit(Checkpoint(model, *names), GRAPH, "file")
    assert (box.name, box.notes) == ("Box", ("a note",))
    for candidates in ("all", 2):
        if candidates == 2 and sides == "relation":
            continue  # there are only three
        task = GRAPH.task("test", sides=sides, candidates=candidates)
        one, other = (er.rank(scorer, task, progress=False) for scorer in (box, plain))
        assert np.array_equal(one.better, other.better)


def test_rows_in_order_are_not_copied():
    model = next(models(None))
    assert renumbered(model, np.arange(4), np.arange(3)) is model
    assert fit(Checkpoint(model, ENTITIES, RELATIONS), GRAPH, "file") is model
    assert fit(Checkpoint(model), None, "file") is model


def test_names_and_counts_that_do_not_fit():
    model = next(models(None))
    line = refused(fit, Checkpoint(model), er.load("umls"), "model.pkl")
    assert line.startswith(
        "model and graph do not have the same entities; got 4 in model.pkl, 135 in the"
    )
    assert "--unseen" in line
    line = refused(fit, Checkpoint(model, ENTITIES, ("r", "s", "u")), GRAPH, "model.pkl")
    assert "same relations; got 3 in model.pkl, 3 in the graph (not in the model: t); rank on" in line
    line = refused(fit, Checkpoint(model, "wxyz", RELATIONS), GRAPH, "model.pkl")
    assert "(not in the model: a, b, c, ...)" in line


def test_graphs_without_names():
    """Ids are names of their own; where the checkpoint has other names, only counts can be compared."""
    model = next(models(None))
    bare = er.Graph.of([[0, 0, 1], [2, 1, 3]], entities=4, relations=3)
    assert fit(Checkpoint(model, ["3", "2", "1", "0"], ["0", "1", "2"]), bare, "file").notes == ()
    assert fit(Checkpoint(model, ENTITIES, RELATIONS), bare, "file").notes == (
        "taken to be numbered as the graph is: there are no names of entities and relations to compare",
    )


# Files of torch -------------------------------------------------------------------------------------


def test_files_of_torch_are_unpickled_only_if_trusted(monkeypatch, tmp_path):
    """First without running code, then not at all, unless told."""
    asked = []

    def read(path, map_location, weights_only):
        asked.append(weights_only)
        if weights_only:
            raise pickle.UnpicklingError("Weights only load failed.\nmore")
        return "content"

    monkeypatch.setattr(_checkpoint, "need", lambda name: SimpleNamespace(load=read))
    path = tmp_path / "file.pt"
    line = refused(_checkpoint.torch_file, path, trust_pickle=False)
    assert line == (
        f"{path} is a pickle that could run code when it is read; got Weights only load failed.; "
        "if you trust where it comes from: --trust-pickle, or trust_pickle=True"
    )
    assert asked == [True]
    assert _checkpoint.torch_file(path, trust_pickle=True) == "content"
    assert asked == [True, True, False]


@pytest.mark.parametrize("trusted", [False, True])
def test_damaged_files_of_torch(monkeypatch, trusted):
    def read(path, map_location, weights_only):
        raise RuntimeError("") if weights_only and not trusted else pickle.UnpicklingError("broken")

    monkeypatch.setattr(_checkpoint, "need", lambda name: SimpleNamespace(load=read))
    line = refused(_checkpoint.torch_file, Path("file.pt"), trust_pickle=trusted)
    reason = "UnpicklingError: broken" if trusted else "RuntimeError: RuntimeError"
    assert (
        line
        == f"cannot read file.pt; got {reason}; it may be damaged, or of another version of its library"
    )


# PyKEEN's pickles, read as records ------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Give a folder of pickles by several versions of PyKEEN (see tests/reference/pykeen_models.py)."""
    folder = tmp_path_factory.mktemp("pykeen")
    with tarfile.open(REFERENCE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def in_order(scores):
    return np.argsort(scores, axis=1, kind="stable")


@pytest.mark.parametrize("version", ["1.6.0", "1.8.2", "1.10.2", "1.11.1"])
@pytest.mark.parametrize(
    "name",
    ["TransE", "RotatE", "ComplEx", "DistMult", "TuckER", "RESCAL", "HolE", "SimplE", "CP", "MuRE"],
)
def test_old_pickles_score_as_the_version_that_wrote_them(old, version, name):
    """Without PyKEEN, without torch, without trust: every layout since 1.6."""
    file = old / version / f"{name}.pkl"
    if (version, name) == ("1.6.0", "CP"):
        assert not file.exists()  # there was none
        return
    if (version, name) == ("1.6.0", "SimplE"):
        assert "--trust-pickle" in refused(load, file)
        return
    model, theirs = load(file), json.loads(file.with_suffix(".json").read_text())
    assert (model.entities, model.relations, model.inverse) == (6, 3, "interleaved")
    assert model.notes == (() if model.name == name else (f"{name}, written as {model.name}",))
    entity, relation = QUERIES.T
    nothing = np.full(len(QUERIES), -1)
    for side, columns in (("tail", (entity, relation, nothing)), ("head", (nothing, relation, entity))):
        ours, given = model.score(np.stack(columns, axis=1), slice(0, 6)), np.array(theirs[side])
        assert np.array_equal(in_order(ours), in_order(given)), side
        if name == "RotatE":  # the squared distance orders the same
            ours = -np.sqrt(-ours)
        assert np.allclose(ours, given, atol=1e-5), side


@pytest.mark.parametrize("model", ["complex", "rotate", "transe", "tucker"])
@shared.needed
def test_the_papers_models_give_the_papers_numbers(model):
    """`evenrank rank nations-*.pkl` of 2022: head, tail and both, by every rule for ties."""
    graph = er.load("nations")
    scorer = load(shared.path(f"paper/models/nations-{model}.pykeen.pkl"), graph)
    ranks = er.rank(scorer, graph.task("test"), progress=False)
    published = shared.content("paper/case_study_metrics_by_side.json.gz")[f"nations/{model}"]["metrics"]
    parts = {"both": ranks, **{side: part for (side,), part in ranks.by("side")}}
    for side, rules in published.items():
        for rule, metrics in rules.items():
            plain = [name for name in metrics if not name.startswith(("adjusted_", "z_"))]
            ours = parts[side].evaluate(*plain, ties=rule)
            for name in plain:
                assert ours[name] == pytest.approx(metrics[name], rel=1e-6), (side, rule, name)


def test_a_pipelines_folder_brings_its_names(old, tmp_path):
    """Names beside the model put its rows in the order of any graph."""
    folder = saved(old, tmp_path)
    graph = er.Graph.of([[0, 0, 1], [2, 1, 3], [4, 2, 5]], entities=[*"fedcba"], relations=[*"zyx"])
    for path in (folder, folder / "trained_model.pkl"):
        found = load(path, graph)
        assert (found.notes, found.vocabulary) == ((), graph.vocabulary)
        assert np.array_equal(found.entity[::-1], load(old / "1.11.1" / "TransE.pkl").entity)


def saved(old, tmp_path, entities="abcdef"):
    folder = tmp_path / "saved"
    (folder / "training_triples").mkdir(parents=True)
    (folder / "trained_model.pkl").write_bytes((old / "1.11.1" / "TransE.pkl").read_bytes())
    for kind, names in (("entity", entities), ("relation", "xyz")):
        rows = "".join(f"{i}\t{name}\n" for i, name in enumerate(names))
        with gzip.open(folder / "training_triples" / f"{kind}_to_id.tsv.gz", "wt") as file:
            file.write(f"id\tlabel\n{rows}")
    return folder


def test_half_a_folder(old, tmp_path):
    folder = saved(old, tmp_path, entities="abcde")
    names = folder / "training_triples" / "entity_to_id.tsv.gz"
    line = refused(load, folder)
    assert line.startswith(f"{names} does not have the names of this model; got 5 entities, and 6 rows")
    names.write_bytes(names.read_bytes()[:-9])
    assert refused(load, folder).startswith(f"cannot read {names}; got ")
    names.unlink()
    assert load(folder, None).notes == ()
    (folder / "trained_model.pkl").unlink()
    line = refused(load, folder, format="pykeen")
    assert line.startswith(f"{folder} is half a checkpoint: no trained_model.pkl; got training_triples")


def test_a_damaged_pickle(old, tmp_path):
    content, damaged = (old / "1.11.1" / "TransE.pkl").read_bytes(), tmp_path / "model.pkl"
    damaged.write_bytes(content[: len(content) // 2])
    line = refused(load, damaged, format="pykeen")
    assert line == f"cannot read {damaged}; got File is not a zip file; it may be damaged"
    damaged.write_bytes(content.replace(b"entity_representations", b"entity_representationz"))
    assert "got Bad CRC-32 for file" in refused(load, damaged)


# What a pickle could try ----------------------------------------------------------------------------


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


class Storage:
    """Stands for the numbers of a tensor."""

    def __init__(self, kind="FloatStorage"):
        self.kind = kind


class Tensor:
    """A tensor as torch pickles it."""

    def __init__(self, shape, strides, offset=0, storage=None):
        self.args = (storage or Storage(), offset, shape, strides, False, {})

    def __reduce__(self):
        return named("torch._utils", "_rebuild_tensor_v2"), self.args


def named(module, name):
    """Give a function that is pickled as a name of another library."""
    return type(name, (), {"__module__": module, "__qualname__": name})


class Writer(pickle._Pickler):
    """Pickles stand-ins by the names of what they stand for."""

    def persistent_id(self, thing):
        if isinstance(thing, Storage):
            return "storage", named("torch", thing.kind), "0", "cpu", 4
        return None

    def save_global(self, thing, name=None):
        self.save(thing.__module__)
        self.save(name or thing.__qualname__)
        self.write(pickle.STACK_GLOBAL)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, type: save_global}


NUMBERS = np.arange(4, dtype="<f4")


def written(path, thing, numbers=NUMBERS):
    content = io.BytesIO()
    Writer(content, protocol=4).dump(thing)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content.getvalue())
        archive.writestr("archive/data/0", numbers.tobytes())
    return path


def test_nothing_in_a_pickle_runs(tmp_path):
    target = tmp_path / "made"
    path = written(tmp_path / "model.pkl", thing("pykeen.models", "Model", loss=Attack(target)))
    assert isinstance(records(path).loss, Record)
    line = refused(load, path)
    assert line.startswith(f"{path} can only be read by unpickling it, which may run code in it; got ")
    assert line.endswith("if you trust where it comes from: --trust-pickle, or trust_pickle=True")
    assert not target.exists()


def test_tensors_are_laid_out_as_torch_does(tmp_path):
    def read(*args, **kwargs):
        return records(written(tmp_path / "file", Tensor(*args, **kwargs)))

    assert read((2, 2), (2, 1)).tolist() == [[0, 1], [2, 3]]
    assert read((2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]]
    assert read((2,), (1,), offset=2).tolist() == [2, 3]
    assert read((), ()).tolist() == 0
    assert read((0, 3), (3, 1)).shape == (0, 3)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"), [((5,), (1,), 0), ((2,), (9,), 0), ((1,), (1,), 4), ((2,), (-1,), 1)]
)
def test_tensors_never_reach_beyond_their_numbers(tmp_path, shape, strides, offset):
    path = written(tmp_path / "file", Tensor(shape, strides, offset))
    with pytest.raises(Unreadable, match="a tensor that is larger than its numbers"):
        records(path)


def test_kinds_of_numbers(tmp_path):
    values = np.array([1.5, -2.0, 3.25, 0.0], dtype="<f4")
    half = (values.view("<u4") >> 16).astype("<u2")
    brain = Tensor((4,), (1,), storage=Storage("BFloat16Storage"))
    assert records(written(tmp_path / "file", brain, half)).tolist() == values.tolist()
    unknown = Tensor((4,), (1,), storage=Storage("QInt8Storage"))
    with pytest.raises(Unreadable, match="numbers of a kind unknown here, QInt8Storage"):
        records(written(tmp_path / "file", unknown))


def test_models_that_cannot_be_told_from_their_records(tmp_path):
    """Each says why, and how to go on."""
    module = {"_parameters": {}, "_buffers": {}, "_modules": {}}
    for content, why in (
        (thing("pykeen.models.unimodal.trans_e", "TransE"), "TransE has no predict_with_sigmoid"),
        (thing("my.models", "Mine", predict_with_sigmoid=False), "Mine does not consist of interaction"),
        (thing("pykeen.models", "Mine", predict_with_sigmoid=True), "makes large scores equal"),
        (
            thing(
                "my.models", "Mine", predict_with_sigmoid=False, interaction=1, entity_representations=1
            ),
            "Mine is no model of PyKEEN's own",
        ),
        (
            thing(
                "pykeen.models.nbase",
                "ERModel",
                predict_with_sigmoid=False,
                interaction=thing("my.models", "MyInteraction"),
                entity_representations=thing("torch.nn", "ModuleList", **module),
            ),
            "MyInteraction is no interaction of PyKEEN's own",
        ),
        (
            thing(
                "pykeen.models.unimodal.simple",
                "SimplE",
                predict_with_sigmoid=False,
                entity_embeddings=1,
            ),
            "SimplE of a PyKEEN before 1.9 is not known here",
        ),
    ):
        line = refused(load, written(tmp_path / "model.pkl", content), format="pykeen")
        assert why in line, line
        assert "--trust-pickle" in line


def thing(module, name, **attributes):
    """Make an object of a class that is elsewhere."""
    made = named(module, name)()
    vars(made).update(attributes)
    return made


# The shell ------------------------------------------------------------------------------------------


def run(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "evenrank.cli", "rank", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    return done


@shared.needed
def test_several_models_in_one_table(tmp_path):
    """Each gets a row, a file of ranks, and its notes."""
    files = [shared.path(f"paper/models/nations-{name}.pykeen.pkl") for name in ("complex", "transe")]
    done = run(*files, "--data", "nations", "--trust-pickle", "-m", "mrr", "--csv", "-o", tmp_path)
    assert re.findall(r"nations-(\w+)\.pykeen.*,(0\.\d{4})", done.stdout) == [
        ("complex", "0.4304"),
        ("transe", "0.4026"),
    ]
    assert done.stderr.count("taken to be numbered as the graph is") == 2
    assert len(er.Ranks.load(tmp_path / "nations-transe.pykeen.parquet")) == 402
    line = run(*files, "--data", "nations", "-o", tmp_path / "one.parquet", code=2).stderr
    assert "the ranks of several models need a folder" in line


def test_a_checkpoint_of_another_graph(old):
    line = run(old / "1.11.1" / "TransE.pkl", "--data", "nations", code=2).stderr
    assert "model and graph do not have the same entities; got 6 in TransE.pkl, 14 in the graph" in line
