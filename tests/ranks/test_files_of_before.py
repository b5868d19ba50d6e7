"""Files of an earlier version are read and have the same values.

`fixtures/v0` has the files, the script that wrote them, and the results of that version.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import evenrank as er
from evenrank.report.document import Report

FOLDER = Path(__file__).parents[1] / "fixtures" / "v0"
SAID = json.loads((FOLDER / "values.json").read_text(encoding="utf-8"))
FILES = [name for name in SAID if name.endswith((".parquet", ".csv", ".tsv"))]


def protocol(ranks):
    """A protocol as entries of text, and under the names that files had: a preset was a protocol."""
    given = ranks.protocol
    entries = dict(given) if isinstance(given, Mapping) else given.to_dict()
    return {"protocol" if name == "preset" else name: value for name, value in entries.items()}


def meant(entries):
    """Entries with sides in any order."""
    sides = {"sides": {*entries["sides"].split(", ")}} if "sides" in entries else {}
    return {**entries, **sides}


def weights(ranks):
    found = ranks._columns().get("weight")
    return None if found is None else found.tolist()


def close(values):
    return pytest.approx(values, rel=1e-12, abs=1e-12)


def check(ranks, said):
    """Everything that was said of ranks then."""
    for name in ("better", "equal", "candidates"):
        assert getattr(ranks, name).tolist() == said[name], name
    assert weights(ranks) == said["weight"]
    assert [*ranks.keys] == [*said["keys"]]
    for name, digest in said["keys"].items():
        text = "\n".join(map(str, ranks.keys[name].tolist()))
        assert hashlib.sha256(text.encode()).hexdigest() == digest, name
    assert meant(protocol(ranks)) == meant(said["protocol"])
    assert ranks.ties == said["ties"]
    metrics = [*said["values"]]
    # ranks were taken as independent
    whole = ranks.evaluate(*metrics, chance="independent")
    halves = ranks.by("side").evaluate(*metrics, chance="independent")
    assert {name: float(whole[name]) for name in metrics} == close(said["values"])
    assert whole.fingerprint == said["fingerprint"]
    assert {label for (label,) in halves.labels} == {*said["sides"]}
    for i, (label,) in enumerate(halves.labels):
        assert {name: float(halves[name][i]) for name in metrics} == close(said["sides"][label]), label
    for unit, value in said["average"].items():
        assert float(ranks.evaluate("mrr", average=unit)["mrr"]) == close(value), unit


@pytest.mark.parametrize("file", FILES)
def test_old_files_of_ranks_have_the_same_values(file):
    check(er.Ranks.load(FOLDER / file), SAID[file])


@pytest.mark.parametrize("file", FILES)
def test_old_files_written_again_have_the_same_values(file, tmp_path):
    er.Ranks.load(FOLDER / file).save(tmp_path / file)
    check(er.Ranks.load(tmp_path / file), SAID[file])


def test_old_files_cover_all_features():
    """So that what is compared above has something in it."""
    rounded, mine = SAID["libkge.parquet"], SAID["weighted.csv"]
    assert (rounded["protocol"]["protocol"], rounded["ties"]) == ("libkge", "rounded")
    assert max(rounded["equal"]) > 0
    assert SAID["sampled.parquet"]["protocol"]["candidates"] == "5 sampled per query, seed 3"
    assert max(SAID["sampled.parquet"]["candidates"]) == 6
    assert SAID["typed.parquet"]["protocol"]["candidates"].startswith("typed, as seen in train")
    assert (SAID["raw.parquet"]["protocol"]["filter"], {*SAID["raw.parquet"]["candidates"]}) == (
        "none",
        {14},
    )
    assert len({*mine["weight"]}) > 1
    assert mine["protocol"]["learning rate"] == "0.1"
    for name in FILES:  # nothing is said twice: each file has a protocol of its own
        same = [other for other in FILES if SAID[other]["fingerprint"] == SAID[name]["fingerprint"]]
        assert {other.split(".")[0] for other in same} == {name.split(".")[0]}


def test_ranking_again_reproduces_the_file():
    """Keys in the order of the split, tails first; the counts of then."""
    graph = er.load("nations")
    folder = next(Path(er.__file__).parent.rglob("nations-rotate.safetensors"))
    model = er.models.load(folder)
    for name, task in {
        "plain": graph.task("test"),
        "sampled": graph.task("test", candidates=5, seed=3),
        "libkge": graph.task("test", protocol="libkge"),
        "typed": graph.task("test", candidates="typed", outside="add"),
        "raw": graph.task("valid", sides="tail", filter=None),
    }.items():
        now, then = er.rank(model, task, progress=False), er.Ranks.load(FOLDER / f"{name}.parquet")
        for column in ("better", "equal", "candidates"):
            assert np.array_equal(getattr(now, column), getattr(then, column)), (name, column)
        for key in ("head", "relation", "tail", "side"):
            assert now.keys[key].tolist() == then.keys[key].tolist(), (name, key)
        assert meant(protocol(now)) == meant(protocol(then)), name


def test_an_old_model_file_has_the_same_ranks():
    said, graph = SAID["model.safetensors"], er.load("nations")
    model = er.models.load(FOLDER / "model.safetensors")
    assert (type(model).__name__, model.name) == (said["kind"], said["name"])
    assert (model.entities, model.relations, model.inverse) == (
        said["entities"],
        said["relations"],
        said["inverse"],
    )
    assert model.vocabulary == said["vocabulary"] == graph.vocabulary
    assert float(np.abs(model.entity.astype(np.float64)).sum()) == close(said["sum"])
    ranks = er.rank(model, graph.task("test"), progress=False)
    assert float(ranks.evaluate("mrr")["mrr"]) == close(said["mrr"])


def test_an_old_report_returns_its_ranks():
    ranks = Report(FOLDER / "report.html").ranks
    said = SAID["report.html"]
    assert {data: [*models] for data, models in ranks.items()} == {
        data: [*models] for data, models in said.items()
    }
    for data, models in said.items():
        for name, one in models.items():
            check(ranks[data][name], one)
