"""Models that know only what is seen in training, as PyKEEN's do, and the graphs they are ranked on."""

import json
import subprocess
import sys

import numpy as np
import pytest
from shell import run

import evenrank as er
from evenrank.models import load_pair
from evenrank.models.readers.checkpoint import Checkpoint, fit, lacks_unseen, pair

TRAIN = [("b", "r", "c"), ("c", "s", "d"), ("d", "r", "e"), ("e", "s", "b"), ("b", "s", "e")]
VALID = [("b", "r", "d"), ("b", "r", "A")]
TEST = [("c", "r", "e"), ("z", "s", "b"), ("d", "s", "c"), ("c", "new", "d")]
ENTITIES, RELATIONS = ["A", "b", "c", "d", "e", "z"], ["new", "r", "s"]
SEEN = ["b", "c", "d", "e"], ["r", "s"]
NOTE = (
    "knows only what is seen in training (4 entities, 2 relations); left out, as by PyKEEN: "
    "2 entities and 1 relations, 1 of 2 valid triples, 2 of 4 test triples"
)
HINT = "note: --unseen keep ranks all entities, and raises an error for models without them\n"


def made(entities=ENTITIES, relations=RELATIONS, **options):
    """Make the graph, with names in any order."""
    ids = {
        split: [(entities.index(h), relations.index(r), entities.index(t)) for h, r, t in triples]
        for split, triples in (("train", TRAIN), ("valid", VALID), ("test", TEST))
    }
    return er.Graph.of(ids, entities=entities, relations=relations, name="toy", **options)


GRAPH = made()


def model(entities=4, relations=2, seed=0):
    rng = np.random.default_rng(seed)
    return er.models.TransE(rng.normal(size=(entities, 3)), rng.normal(size=(relations, 3)))


def error_of(call, *args, **kwargs):
    with pytest.raises(er.errors.InputError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_a_graph_without_unseen_entities_is_made_once():
    seen = GRAPH.drop_unseen()
    loaded = made(unseen="drop")
    assert (seen.hash, seen.vocabulary, seen.notes) == (loaded.hash, loaded.vocabulary, loaded.notes)
    assert (seen.entities, seen.relations) == (tuple(SEEN[0]), tuple(SEEN[1]))
    assert GRAPH.drop_unseen() is seen is seen.drop_unseen()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
@pytest.mark.parametrize("leaves_out", [True, False])
def test_names_decide_in_any_order_and_for_any_library(order, leaves_out):
    """Each triple of names has the score that it has in the checkpoint."""
    own = model()
    names = [SEEN[0][i] for i in order]
    found, graph = pair(Checkpoint(own, names, SEEN[1][::-1], (), leaves_out), GRAPH, None, "m.pkl")
    assert graph is GRAPH.drop_unseen()
    assert found.notes == (NOTE,)
    for h, r, t in TRAIN:
        mine = names.index(h), SEEN[1][::-1].index(r), names.index(t)
        theirs = graph.entities.index(h), graph.relations.index(r), graph.entities.index(t)
        assert found.triples(*([i] for i in theirs)) == own.triples(*([i] for i in mine))
    assert len(er.rank(found, graph.task("test"), progress=False)) == 4


def test_without_names_only_the_numbers_of_a_pykeen_model_decide():
    found, graph = pair(Checkpoint(model(), leaves_out=True), GRAPH, None, "m.pkl")
    assert graph is GRAPH.drop_unseen()
    assert found.notes[0] == NOTE
    assert found.notes[1].startswith("assumed to be numbered as the graph: the checkpoint has no names")
    for own in (
        Checkpoint(model()),  # of another library
        Checkpoint(model(4, 3), leaves_out=True),  # with a relation that training does not show
        Checkpoint(model(5, 2), leaves_out=True),
    ):
        line = str(error_of(pair, own, GRAPH, None, "m.pkl"))
        assert line.startswith(f"model and graph differ in entities; got {own.model.entities} in m.pkl")


@pytest.mark.parametrize(
    ("entities", "relations", "lost"),
    [
        (["A", "b", "c", "d"], SEEN[1], "entities; got 4 in m.pkl, 6 in the graph (not in the model: e"),
        (["w", "x", "y", "q"], SEEN[1], "entities; got 4 in m.pkl, 6 in the graph (not in the model: A"),
        (SEEN[0], ["r", "new"], "entities; got 4 in m.pkl, 6 in the graph (not in the model: A, z)"),
    ],
)
def test_equal_numbers_of_other_names_are_an_error(entities, relations, lost):
    own = Checkpoint(model(), entities, relations, (), leaves_out=True)
    assert not lacks_unseen(own, GRAPH)
    assert lost in str(error_of(pair, own, GRAPH, None, "m.pkl"))


def test_models_with_all_entities_keep_the_graph(monkeypatch):
    """Also if the library is one that leaves out others; nothing is dropped to find out."""
    monkeypatch.setattr(er.Graph, "drop_unseen", lambda _: pytest.fail("dropped"))
    for names in ((None, None), (ENTITIES, RELATIONS), (ENTITIES[::-1], RELATIONS[::-1])):
        for leaves_out in (True, False):
            own = Checkpoint(model(6, 3), *names, (), leaves_out)
            found, graph = pair(own, GRAPH, None, "m.pkl")
            assert graph is GRAPH
            assert not any("seen in training" in note for note in found.notes)


def test_the_error_names_the_option():
    own = Checkpoint(model(), *SEEN)
    error = error_of(fit, own, GRAPH, "m.pkl")
    line = (
        "the model has only the entities and relations seen in training; got 4 of 6 entities and 2 of 3 "
        "relations in m.pkl; to leave out the others, as PyKEEN does, load the graph with "
    )
    assert (str(error), error.in_shell()) == (f"{line}unseen='drop'", f"{line}--unseen drop")
    assert str(error_of(pair, own, GRAPH, "keep", "m.pkl")) == str(error)
    assert fit(own, made(unseen="drop"), "m.pkl").notes == ()


def test_a_given_rule_overrides():
    own = Checkpoint(model(), *SEEN)
    for given in (GRAPH, GRAPH.drop_unseen()):
        found, graph = pair(own, given, "drop", "m.pkl")
        assert graph is GRAPH.drop_unseen()
        assert found.notes == ()
    whole = Checkpoint(model(6, 3), ENTITIES, RELATIONS)
    assert pair(whole, GRAPH, "keep", "m.pkl")[1] is GRAPH
    line = str(error_of(pair, whole, GRAPH, "drop", "m.pkl"))
    assert line.endswith("; to keep what is not seen in training, load it with unseen='keep'")
    assert "unknown value of unseen" in str(error_of(pair, own, GRAPH, "skip", "m.pkl"))
    assert "graph must be a Graph" in str(error_of(load_pair, "nations/complex", "nations"))


def test_saved_models_are_recognised_by_their_numbering(tmp_path):
    file = tmp_path / "model.safetensors"
    er.models.save(model(), file, graph=GRAPH.drop_unseen())
    found, graph = load_pair(file, GRAPH)
    assert graph is GRAPH.drop_unseen()
    assert found.notes == (NOTE,)
    assert "seen in training" in str(error_of(er.models.load, file, GRAPH))
    other = made(["z", "e", "d", "c", "b", "A"])  # the same names, numbered differently
    found, graph = load_pair(file, other)
    assert graph is other
    line = str(error_of(er.rank, found, graph.task("test")))
    assert line.startswith("model and graph number entities and relations differently")


def test_graphs_without_names():
    """Ids count as names."""
    triples = {"train": [[0, 0, 2], [2, 0, 3]], "test": [[0, 0, 3], [0, 0, 1]]}
    bare = er.Graph.of(triples, entities=4, relations=1)
    own = Checkpoint(model(3, 1), ["3", "0", "2"], ["0"])
    found, graph = pair(own, bare, None, "m.pkl")
    assert graph.entities == ("0", "2", "3")
    assert np.array_equal(found.entity, own.model.entity[[1, 2, 0]])
    names = Checkpoint(model(3, 1), ["x", "y", "z"], ["0"], (), leaves_out=True)
    assert not lacks_unseen(names, bare)  # nothing says which of its rows is which id


# In the shell -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """The graph as files, and a model of each kind."""
    place = tmp_path / "toy"
    place.mkdir()
    for split, triples in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        (place / f"{split}.txt").write_text("".join("\t".join(triple) + "\n" for triple in triples))
    graph = er.load(place)
    er.models.save(model(), tmp_path / "seen.safetensors", graph=graph.drop_unseen())
    er.models.save(model(6, 3), tmp_path / "whole.safetensors", graph=graph)
    return tmp_path


def called(*arguments):
    command = [sys.executable, "-m", "evenrank", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def test_the_shell_leaves_out_what_the_model_does_not_know(folder):
    command = ["rank", folder / "seen.safetensors", "--data", folder / "toy", "--format", "json"]
    done = called(*command)
    assert f"note: seen.safetensors: {NOTE}\n{HINT}" in done.stderr
    assert "have an entity or relation not seen" not in done.stderr  # the model's note counts them
    assert json.loads(done.stdout)["protocol"]["unseen"] == "drop"
    assert run(*command, "--unseen", "drop", "-q") == done.stdout
    quiet = called(*command, "-q")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")
    line = run(*command, "--unseen", "keep", "-q", code=2)
    assert line.startswith("the model has only the entities and relations seen in training; got 4 of 6")
    assert line.endswith("load the graph with --unseen drop")


def test_each_model_decides(folder):
    models = [folder / f"{name}.safetensors" for name in ("whole", "seen")]
    command = ["--data", folder / "toy", "-m", "mrr", "--format", "json"]
    done = called("rank", *models, *command, "-o", folder / "ranks")
    rows = json.loads(done.stdout)["rows"]
    assert [row["count"] for row in rows] == [8, 4]
    for file, row in zip(models, rows, strict=True):
        alone = json.loads(run("rank", file, *command, "-q"))
        assert alone["rows"][0]["values"] == row["values"]
    assert done.stderr.count(HINT) == 1
    assert "others with them; their rows cannot be compared\n" in done.stderr
    line = run("compare", *sorted((folder / "ranks").iterdir()), code=2)
    assert "unseen: drop (seen) and keep (whole)" in line
    same = called("rank", folder / "whole.safetensors", *command)
    assert HINT not in same.stderr
    assert "drop them with --unseen drop" in same.stderr


def test_the_protocol_of_a_library_decides_first(folder):
    command = ["rank", folder / "seen.safetensors", "--data", folder / "toy", "-q", "--protocol"]
    assert "pykeen" in run(*command, "pykeen")
    assert "got 4 of 6 entities" in run(*command, "libkge", code=2)


NUMBERED = ["00000012", "00000700", "00003004", "00400000"]  # as of WordNet


def numbered(names, wanted=NUMBERED, unseen="0000099"):
    graph = er.Graph.of(
        {"train": [(0, 0, 1), (1, 0, 2), (2, 0, 3)], "test": [(0, 0, 3), (0, 0, 4)]},
        entities=[*wanted, unseen],
        relations=["r"],
        name="numbered",
    )
    return Checkpoint(model(4, 1), entities=names, relations=["r"]), graph


def test_numbers_without_leading_zeros_match_as_pykeens_cache_saves_them():
    order = [2, 0, 3, 1]
    full, short = ([form(NUMBERED[i]) for i in order] for form in (str, lambda name: str(int(name))))
    (expected, _), (found, left) = (pair(*numbered(names), None, "f") for names in (full, short))
    assert np.array_equal(found.entity, expected.entity)
    assert found.vocabulary == expected.vocabulary == left.vocabulary
    assert "without their leading zeros" in " ".join(found.notes)
    assert "leading zeros" not in " ".join(expected.notes)


@pytest.mark.parametrize(
    ("names", "wanted", "unseen"),
    [
        (["12", "700", "3004", "5"], NUMBERED, "0000099"),  # another entity
        (["12", "700", "3004", "400000"], NUMBERED, "0012"),  # two entities with one number
        (["12", "700", "3004", "x"], NUMBERED, "0000099"),
    ],
)
def test_other_numbers_do_not_match(names, wanted, unseen):
    assert "differ in entities" in str(error_of(pair, *numbered(names, wanted, unseen), None, "f"))
