"""Checkpoints of the RotatE code: tables in a folder, and what its formulas say of a triple."""

import json
import re

import numpy as np
import pytest
from checkpoints import (
    GAMMA,
    D,
    N,
    R,
    agree,
    distance,
    every,
    hermitian,
    product,
    rng,
    rotate_folder,
    same_numbers_in_any_order,  # noqa: F401  # a fixture
    turned,
)

import evenrank as er
from evenrank.errors import InputError
from evenrank.models import load
from evenrank.models.readers import read

UNIT = np.float32((GAMMA + 2) / D) / 3.14159262358979323846
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
    model = load(tmp_path / "run")
    agree(model, every(score, entity, relation, entity), value, tolerance=1e-4)
    assert model.name == name
    assert model.notes == (("pRotatE, written as RotatE",) if name == "pRotatE" else ())


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
    (tmp_path / "run/relations.dict").write_text("0\ta\n1\tb\n2\tc\n")
    checkpoint = read(tmp_path / "run")
    assert checkpoint.entities == [f"e{i}" for i in range(N)]
    assert checkpoint.relations == ["a", "b", "c"]


def test_without_names_the_counts_must_be_the_graph_s(tmp_path):
    rotate_folder(tmp_path / "run")
    graph = er.Graph.of([[0, 0, 1]], entities=N, relations=R)
    assert "numbered as the graph" in load(tmp_path / "run", graph).notes[0]
    with pytest.raises(InputError, match=rf"entities.*{N} in run, 9 in the graph"):
        load(tmp_path / "run", er.Graph.of([[0, 0, 1]], entities=9, relations=R))
    with pytest.raises(InputError, match=rf"relations.*{R} in run, 5 in the graph"):
        load(tmp_path / "run", er.Graph.of([[0, 0, 1]], entities=N, relations=5))


@pytest.mark.parametrize("lost", ["config.json", "entity_embedding.npy", "relation_embedding.npy"])
def test_an_incomplete_folder_of_the_rotate_code(tmp_path, lost):
    rotate_folder(tmp_path / "run")
    (tmp_path / "run" / lost).unlink()
    with pytest.raises(
        InputError, match=f"incomplete checkpoint .*: missing {lost}.*copy the missing files"
    ):
        load(tmp_path / "run")


@pytest.mark.parametrize("there", ["entities.dict", "relations.dict"])
def test_one_dictionary_without_the_other(tmp_path, there):
    """The rows it numbers would be right, and the others wrong without a word."""
    rotate_folder(tmp_path / "run")
    (tmp_path / "run" / there).write_text("0\ta\n")
    (lost,) = {"entities.dict", "relations.dict"} - {there}
    with pytest.raises(
        InputError, match=rf"incomplete checkpoint .*run: missing {lost}; got only {there}"
    ):
        load(tmp_path / "run")


def test_bad_folders_of_the_rotate_code(tmp_path):
    path = tmp_path / "run"
    rotate_folder(path, hidden_dim=D + 1)
    with pytest.raises(
        InputError, match=r"the tables do not match; .*\(7, 12\) and \(3, 6\), widths \(14, 7\)"
    ):
        load(path)
    rotate_folder(path, "TransE", model="HAKE")
    with pytest.raises(
        InputError, match=r"unknown model of the RotatE code; got 'HAKE'.*TransE, DistMult"
    ):
        load(path)
    rotate_folder(path)
    (path / "relations.dict").write_text("0\ta\n1\tb\n2\tc\n")
    (path / "entities.dict").write_text("0\ta\n1\tb\n")
    with pytest.raises(InputError, match=r"entities.dict is not the dictionary.*2 entities for 7 rows"):
        load(path)
    (path / "entities.dict").unlink()
    (path / "entity_embedding.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(
        InputError, match=r"cannot read .*entity_embedding.npy; got .*; it may be damaged"
    ):
        load(path)
    (path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config.json is not valid JSON"):
        load(path)
    (path / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"config.json has no model, .*, gamma, hidden_dim"):
        load(path)
    (path / "config.json").write_text('{"model": "RotatE"}')
    with pytest.raises(InputError, match=r"config.json has no double_.*, gamma, hidden_dim"):
        load(path)


@pytest.mark.parametrize(
    "changes",
    [{"gamma": None}, {"gamma": "abc"}, {"hidden_dim": None}, {"hidden_dim": [1] * D}],
)
def test_settings_of_another_kind(tmp_path, changes):
    rotate_folder(tmp_path / "run", **changes)
    ((key, value),) = changes.items()
    message = re.escape(f"config.json: {key} must be a number; got {json.dumps(value)}")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "run")
    rotate_folder(tmp_path / "run", data_path=5)
    with pytest.raises(InputError, match=r"cannot read .*run; got TypeError.*damaged"):
        load(tmp_path / "run")


def test_a_file_where_a_folder_is_needed(tmp_path):
    rotate_folder(tmp_path / "run")
    for name in ("rotate", "dgl-ke"):
        with pytest.raises(
            InputError, match=r"checkpoint must be a folder.*config.json.*use its folder"
        ):
            load(tmp_path / "run/config.json", format=name)


def test_pickled_tables_raise(tmp_path):
    rotate_folder(tmp_path / "run")
    np.save(tmp_path / "run/entity_embedding.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "run")
