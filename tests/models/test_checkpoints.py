"""Checkpoints of other libraries: tests that apply to all formats.

Scores of each library are reproduced from its files in a test file for each. If a library is installed,
its own modules score; otherwise files are written in its documented layout, and scores are computed with
the formulas of its source, triple by triple.
"""

import json
import pickle
import sys
import zipfile

import numpy as np
import pytest
from checkpoints import (
    D,
    N,
    R,
    agree,
    every,
    need,
    openke_file,
    product,
    rng,
    rotate_folder,
    rows,
    same_numbers_in_any_order,  # noqa: F401  # a fixture
)

import evenrank as er
from evenrank.errors import InputError
from evenrank.models import load
from evenrank.models.readers import read
from evenrank.models.readers._alike import holographic


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
    with pytest.raises(InputError, match=r"^reading .*a.pt could run code.*trust_pickle=True$"):
        load(tmp_path / "a.pt")
    assert not (tmp_path / "ran").exists()


def test_files_of_torch_need_torch(tmp_path, monkeypatch):
    for name, word in {"a.ckpt": "ent_embeddings.weight", "b.pt": "_entity_embedder."}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("archive/data.pkl", word)
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(InputError, match=r"this requires torch.*evenrank\[torch\]"):
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


@pytest.mark.parametrize("trust_pickle", [False, True])
def test_files_not_written_by_torch_raise(tmp_path, trust_pickle):
    """To trust them would not help: they are damaged, or were not written by torch."""
    need("torch")
    tables = {"ent_embeddings": rows(N, D), "rel_embeddings": rows(R, D)}
    path = openke_file(tmp_path / "transe.ckpt", tables)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"transe.ckpt; got EOFError: an end before all was read; the"):
        load(path, trust_pickle=trust_pickle)
    path.write_bytes(pickle.dumps({"ent_embeddings.weight": rows(N, D)}))
    with pytest.raises(InputError, match=r"transe.ckpt was not written by torch.save; .*save it with"):
        load(path, trust_pickle=trust_pickle)
    path.unlink()
    path.mkdir()
    with pytest.raises(
        InputError, match=r"cannot read .*transe.ckpt; got a folder; pass a regular file"
    ):
        load(path, trust_pickle=trust_pickle, format="openke")


def test_unknown_files_raise(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "notes.txt", tmp_path / "empty"):
        with pytest.raises(
            InputError, match=r"format of this checkpoint is not recogn.*rotate, dgl-ke, libkge"
        ):
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
    with pytest.raises(InputError, match=r"those of no known model of pyg; got 0;"):
        load(tmp_path / "a.pt", format="pyg")


def test_modules_that_are_not_models_raise(tmp_path):
    torch = need("torch")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.pt")
    for library in ("openke", "torchkge", "pyg"):
        with pytest.raises(InputError, match=r"could run code.*GLOBAL torch.nn.modules.linear.Linear"):
            load(tmp_path / "a.pt", format=library)
        with pytest.raises(InputError, match=r"cannot read .*a.pt; got AttributeError: 'Linear' object"):
            load(tmp_path / "a.pt", format=library, trust_pickle=True)


def test_files_that_are_not_state_dictionaries_raise(tmp_path):
    torch = need("torch")
    torch.save([torch.ones(2), "node_emb.weight"], tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"not a state dictionary; got list"):
        load(tmp_path / "a.pt")


def test_equal_rows_tie_after_a_fourier_transform():
    entity = np.repeat(rows(40, 10), 2, axis=0)[rng.permutation(80)]
    model = holographic(entity, rows(1, 10))
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
        app, ["rank", str(path), "--data", "nations", "--metric", "mrr", "--format", "json"]
    )
    assert result.exit_code == 0
    ranks = er.rank(load(path, nations), nations.task("test"), progress=False)
    assert json.loads(result.stdout)["rows"][0]["values"] == ranks.evaluate("mrr").to_dict()
    assert "run: assumed to be numbered as the graph" in result.stderr
