"""Checkpoints of other libraries: detection, alignment with a graph, and ranking in the shell."""

import json
import pickle
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from zipfile import ZipFile

import numpy as np
import pytest
import shared

import evenrank as er
from evenrank.integrations import pykeen
from evenrank.models import load
from evenrank.models.readers import READERS, Checkpoint
from evenrank.models.readers import checkpoint as _checkpoint
from evenrank.models.readers.checkpoint import fit, renumbered


def error_of(call, *args, **kwargs):
    """Return the one line of the error that a call raises."""
    with pytest.raises(er.errors.InputError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# Finding a reader -----------------------------------------------------------------------------------


def test_modules_are_imported_when_first_used():
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
    assert (found.name, found.notes) == ("DistMult", ())  # the file names the numbering of its rows
    er.models.save(model, tmp_path / "unnumbered.safetensors")
    assert load(tmp_path / "unnumbered.safetensors", graph).notes == (
        "assumed to be numbered as the graph: the checkpoint has no names of entities and relations",
    )


def test_unknown_formats_and_names(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"nonsense")
    line = error_of(load, tmp_path / "model.bin")
    assert line.startswith(
        f"the format of this checkpoint is not recognised; got {tmp_path / 'model.bin'}; allowed"
    )
    assert all(name in line for name in READERS)
    assert "; set format=, or build the model from its arrays" in line
    line = error_of(load, tmp_path / "nothing")
    assert line.startswith(
        f"no such file, folder or bundled model; got {tmp_path / 'nothing'}; allowed: "
    )
    assert all(name in line for name in (*READERS, *er.models.bundled()))
    assert error_of(load, "Nations/ComplX").endswith("did you mean nations/complex?")
    assert "unknown format; got 'nonsense'; allowed: auto, evenrank, " in error_of(
        load, tmp_path / "model.bin", format="nonsense"
    )


def test_bundled_models_have_names_in_any_case():
    for name in er.models.bundled():
        data, model = name.split("/")
        found = load(name.title(), er.load(data))
        assert found.name.lower() == model
        assert found.vocabulary == er.load(data).vocabulary
    assert np.array_equal(load("nations/complex", mapped=True).entity, load("nations/complex").entity)
    assert "was not written by torch.save" in error_of(load, "nations/complex", format="pykeen")


def test_a_file_takes_precedence_over_a_bundled_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nations").mkdir()
    er.models.save(er.models.TransE(np.ones((2, 3)), np.ones((1, 3))), "nations/complex")
    assert "not recognised; got nations/complex" in error_of(load, "nations/complex")
    assert repr(load("nations/complex", format="evenrank")) == "TransE(2 entities, 1 relations)"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None,), {}, "path must be a path, or the name of a bundled model; got NoneType; models in"),
        ((er.models.load("nations/transe"),), {}, "path must be .*; got TransE; .* er.rank"),
        ((b"nations/transe",), {}, "path must be .*; got bytes"),
        (("nations/transe", "nations"), {}, "graph must be a Graph; got str; er.load"),
        (("nations/transe",), {"format": None}, "format must be a string; got NoneType"),
        (("nations/transe",), {"format": "pykeen:TransE"}, "only the formats openke, .* got pykeen:Tra"),
    ],
)
def test_arguments_of_wrong_types(arguments, options, message):
    assert re.match(message, error_of(load, *arguments, **options))


# Aligning a checkpoint with a graph --------------------------------------------------------------------

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
    """Every triple of names has the same score as in the checkpoint."""
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
    notes: tuple[str, ...] = ()

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
def test_black_boxes_score_in_their_own_numbering(names, sides):
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
    for found in (
        fit(Checkpoint(model, ENTITIES, RELATIONS), GRAPH, "file"),
        fit(Checkpoint(model, notes=("a note",)), None, "file"),
    ):
        assert found.entity is model.entity
        assert found.relation is model.relation
    assert (found.notes, model.notes, model.vocabulary) == (("a note",), (), None)  # it is not changed


def test_names_and_counts_that_do_not_fit():
    model = next(models(None))
    line = error_of(fit, Checkpoint(model), er.load("umls"), "model.pkl")
    assert line.startswith("model and graph differ in entities; got 4 in model.pkl, 135 in the")
    assert line.endswith("load the graph with unseen='drop'")
    line = error_of(fit, Checkpoint(model, ENTITIES, ("r", "s", "u")), GRAPH, "model.pkl")
    assert (
        "differ in relations; got 3 in model.pkl, 3 in the graph (not in the model: t); rank on" in line
    )
    line = error_of(fit, Checkpoint(model, "wxyz", RELATIONS), GRAPH, "model.pkl")
    assert "(not in the model: a, b, c, ...)" in line


def test_graphs_without_names():
    """Ids are names; if the checkpoint has other names, only the counts can be compared."""
    model = next(models(None))
    bare = er.Graph.of([[0, 0, 1], [2, 1, 3]], entities=4, relations=3)
    assert fit(Checkpoint(model, ["3", "2", "1", "0"], ["0", "1", "2"]), bare, "file").notes == ()
    assert fit(Checkpoint(model, ENTITIES, RELATIONS), bare, "file").notes == (
        "assumed to be numbered as the graph: the checkpoint has no names of entities and relations",
    )


# Files of torch -------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """An archive, as torch writes them."""
    with ZipFile(tmp_path / "file.pt", "w"):
        return tmp_path / "file.pt"


def torch(load):
    """Stand-in for torch, which need not be installed."""
    return SimpleNamespace(
        load=load, serialization=SimpleNamespace(safe_globals=lambda _: nullcontext())
    )


def test_files_of_torch_are_unpickled_only_if_trusted(monkeypatch, file):
    """First without running code, then only if trusted."""
    asked = []

    def read(path, map_location, weights_only):
        asked.append(weights_only)
        if weights_only:
            raise pickle.UnpicklingError("Weights only load failed.\nmore")
        return "content"

    monkeypatch.setattr(_checkpoint, "need", lambda name: torch(read))
    line = error_of(_checkpoint.torch_file, file, trust_pickle=False)
    assert line == (
        f"reading {file} could run code that is pickled in it; got Weights only load failed.; "
        "if you trust its source, use trust_pickle=True"
    )
    assert asked == [True]
    assert _checkpoint.torch_file(file, trust_pickle=True) == "content"
    assert asked == [True, True, False]


@pytest.mark.parametrize("trusted", [False, True])
def test_damaged_files_of_torch(monkeypatch, file, trusted):
    def read(path, map_location, weights_only):
        raise RuntimeError("") if weights_only and not trusted else pickle.UnpicklingError("broken")

    monkeypatch.setattr(_checkpoint, "need", lambda name: torch(read))
    line = error_of(_checkpoint.torch_file, file, trust_pickle=trusted)
    reason = "UnpicklingError: broken" if trusted else "RuntimeError: RuntimeError"
    assert line == (
        f"cannot read {file}; got {reason}; the file may be damaged, or written by another "
        "version of its library"
    )


# The shell ------------------------------------------------------------------------------------------


def run(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "evenrank", "rank", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    return done


def nations_models(tmp_path):
    """Two models without the numbering of their rows: the paper's, or bundled ones."""
    names = ("complex", "transe")
    if shared.PRESENT:
        found = [shared.path(f"paper/models/nations-{name}.pykeen.pkl") for name in names]
        return found, ("0.4304", "0.4026")
    found, values, task = [], [], er.load("nations").task("test")
    for name in names:
        model = er.models.load(f"nations/{name}").described(vocabulary=None)
        found.append(tmp_path / f"nations-{name}.pykeen.safetensors")
        er.models.save(model, found[-1])
        mrr = er.rank(model, task, progress=False).evaluate("mrr")["mrr"]
        values.append(str(mrr)[:6])  # as many digits as are compared
    return found, values


def test_several_models_in_one_table(tmp_path):
    """Each gets a row, a file of ranks, and its notes."""
    files, (complex_, transe) = nations_models(tmp_path)
    done = run(
        *files, "--data", "nations", "--trust-pickle", "-m", "mrr", "--format", "csv", "-o", tmp_path
    )
    assert re.findall(r"nations-(\w+)\.pykeen.*,(0\.\d{4})", done.stdout) == [
        ("complex", complex_),
        ("transe", transe),
    ]
    assert done.stderr.count("assumed to be numbered as the graph") == 2
    assert len(er.Ranks.load(tmp_path / "nations-transe.pykeen.parquet")) == 402
    line = run(*files, "--data", "nations", "-o", tmp_path / "one.parquet", code=2).stderr
    assert "the ranks of several models need a folder" in line


def test_the_ranks_of_one_model_are_saved_in_a_folder_as_well(tmp_path):
    (tmp_path / "v1.0").mkdir()
    for folder in ("all/", "v1.0"):
        run("nations/transe", "--data", "nations", "-m", "mrr", "-o", f"{tmp_path}/{folder}")
        assert len(er.Ranks.load(tmp_path / folder / "transe.parquet")) == 402
    (tmp_path / "taken").write_text("")
    line = run("nations/transe", "--data", "nations", "-o", tmp_path / "taken", code=2).stderr
    assert "files of ranks end in .parquet, .csv or .tsv; got taken" in line


def test_a_quoted_pattern_names_bundled_models_or_files(tmp_path):
    done = run("nations/*", "--data", "nations", "-m", "mrr", "--format", "json")
    own = [name for name in er.models.bundled() if name.startswith("nations/")]
    assert len(own) > 1
    assert [row["model"] for row in json.loads(done.stdout)["rows"]] == [
        name.removeprefix("nations/") for name in own
    ]
    values = {row["model"]: row["values"] for row in json.loads(done.stdout)["rows"]}
    for name in ("complex", "transe"):
        er.models.save(er.models.load(f"nations/{name}"), tmp_path / f"{name}.safetensors")
    rows = json.loads(
        run(tmp_path / "*.safetensors", "--data", "nations", "-m", "mrr", "--format", "json").stdout
    )["rows"]
    assert {row["model"]: row["values"] for row in rows} == {
        name: values[name] for name in ("complex", "transe")
    }
    line = run("nations/z*", "--data", "nations", code=2).stderr
    assert "no such file, folder or bundled model; got nations/z*" in line


def test_a_checkpoint_of_another_graph(tmp_path):
    file = tmp_path / "model.safetensors"
    er.models.save(next(models(None)), file)
    line = run(file, "--data", "nations", code=2).stderr
    assert "model and graph differ in entities; got 4 in model.safetensors, 14 in the" in line
