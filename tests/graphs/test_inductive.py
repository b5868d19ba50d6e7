"""Files beside train, valid and test: known triples, and inference graphs with entities of their own."""

import numpy as np
import pytest
import shared

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs import Graph
from evenrank.graphs.strata import strata

TRAIN = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")]
NEW = [("x", "r", "y"), ("y", "s", "z"), ("z", "t", "x")]
VALID, TEST = [("x", "s", "z")], [("x", "r", "z"), ("y", "t", "x")]


def write(folder, **files):
    folder.mkdir(exist_ok=True, parents=True)
    for name, rows in files.items():
        path = folder / name.replace("__", ".")
        (path if path.suffix else path.with_suffix(".txt")).write_text(
            "".join("\t".join(r) + "\n" for r in rows)
        )
    return folder


def named(graph, split):
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.splits[split]
    ]


# Known triples ------------------------------------------------------------------------------------


def test_facts_are_known_answers_and_count_as_seen(tmp_path):
    facts = [("a", "r", "d"), ("d", "u", "a")]
    folder = write(
        tmp_path, train=TRAIN, facts=facts, test=[("a", "r", "c"), ("a", "u", "d"), ("e", "r", "a")]
    )
    graph = er.load(folder)
    assert list(graph.splits) == ["train", "test", "facts"]
    assert named(graph, "facts") == facts
    assert graph.training == ("train", "facts")
    assert graph.entities == ("a", "b", "c", "d", "e")  # those seen in training first
    assert graph.remarks == (
        "facts: 2 more known triples, which are filtered and count as seen in training",
    )
    # (a, r, ?) has the answers b, c and d: two of them are filtered
    task = graph.task("test", sides="tail")
    assert task.candidates.tolist() == [5 - 2, 5, 5]
    assert graph.task("test", sides="tail", filter=["train", "test"]).candidates.tolist() == [4, 5, 5]
    assert task.protocol.filter == ("train", "test", "facts")
    dropped = er.load(folder, unseen="drop")
    assert dropped.entities == ("a", "b", "c", "d")
    assert len(dropped.splits["test"]) == 2
    assert dropped.remarks == graph.remarks
    assert [note for note in dropped.notes if "not seen" in note]
    assert {name: ids.tolist() for name, ids in graph.types()["tail"].items()}[0] == [0, 1, 3]
    made = Graph.of({split: graph.splits[split] for split in graph.splits}, unseen="drop")
    assert len(made.entities) == 4


def test_strata_count_facts_as_training_triples(tmp_path):
    facts = [("a", "r", "d"), ("d", "u", "a")]
    graph = er.load(write(tmp_path, train=TRAIN, facts=facts, test=[("a", "r", "c")]))
    keys = {"head": "a", "relation": "r", "tail": "c", "side": "tail"}
    ranks = strata(er.Ranks.of([1], keys=keys), graph, "frequency")
    assert ranks.keys["frequency"].tolist() == ["1-9"]
    both = Graph.of(
        np.concatenate([graph.splits["train"], graph.splits["facts"]]),
        entities=graph.entities,
        relations=graph.relations,
    )
    many = er.Ranks.of([1] * 2, keys={**keys, "tail": ["c", "d"], "side": ["tail", "head"]})
    for name in ("cardinality", "frequency", "given_degree", "asked_degree"):
        of_both = [strata(many, one, name, bins=2).keys[name].tolist() for one in (graph, both)]
        assert of_both[0] == of_both[1]


# Inference graphs ---------------------------------------------------------------------------------

INFERENCE = {
    "ILPC": dict(train=TRAIN, inference=NEW, inference_validation=VALID, inference_test=TEST),
    "ILPC, other names": dict(train=TRAIN, inference=NEW, inference_dev=VALID, inference_test=TEST),
    "InGram": dict(train=TRAIN, msg=NEW, valid=VALID, test=TEST),
    "tables": dict(training__tsv=TRAIN, inference__tsv=NEW, val__tsv=VALID, testing__tsv=TEST),
}


@pytest.mark.parametrize("layout", INFERENCE)
def test_inference_graphs_are_ranked_with_the_relations_of_training(layout, tmp_path):
    graph = er.load(write(tmp_path, **INFERENCE[layout]))
    assert graph.entities == ("x", "y", "z")
    assert graph.relations == ("r", "s", "t")  # t is not in the training graph
    assert [named(graph, split) for split in ("train", "valid", "test")] == [NEW, VALID, TEST]
    assert list(graph.splits) == ["train", "valid", "test"]
    assert graph.remarks == (
        "the split train is the inference graph, 3 triples; relations are numbered as in the training "
        "graph, whose 3 triples and 3 entities are left out",
    )
    # (x, r, ?) has the answers y and z, (y, t, ?) one: among the entities of the inference graph alone
    assert graph.task("test", sides="tail").candidates.tolist() == [2, 3]


def test_relations_have_the_numbers_of_the_training_graph(tmp_path):
    new = [("x", "b", "y"), ("y", "new", "x")]
    graph = er.load(
        write(tmp_path, train=[("p", "z", "q"), ("q", "b", "p")], msg=new, test=[("x", "z", "y")])
    )
    assert graph.relations == ("b", "z", "new")
    assert named(graph, "train") == new


def test_splits_of_the_training_graph_are_left_out_with_a_note(tmp_path):
    files = dict(train=TRAIN, msg=NEW, valid=[("a", "s", "b")], test=TEST)
    graph = er.load(write(tmp_path / "mixed", **files))
    assert list(graph.splits) == ["train", "test"]
    assert "valid is left out: its entities are those of the training graph" in graph.remarks
    files = INFERENCE["ILPC"] | dict(valid=[("a", "s", "b")])
    graph = er.load(write(tmp_path / "both", **files))
    assert named(graph, "valid") == VALID
    assert "valid of the training graph is left out" in graph.remarks


def test_triples_of_the_training_graph_among_these_entities_are_filtered(tmp_path):
    train = [*TRAIN, ("x", "r", "x")]
    graph = er.load(write(tmp_path, train=train, inference=NEW, inference_test=TEST))
    assert list(graph.splits) == ["train", "test", "training"]
    assert named(graph, "training") == [("x", "r", "x")]
    assert (
        "split training holds the triples of the training graph between entities of the inference "
        "graph, which are filtered: 1" in graph.remarks
    )
    assert graph.task("test", sides="tail").candidates.tolist() == [1, 3]


def test_an_inference_graph_without_its_training_graph_is_a_graph(tmp_path):
    graph = er.load(write(tmp_path, inference=NEW, inference_test=TEST))
    assert list(graph.splits) == ["train", "test"]
    assert graph.remarks == ("the split train is the inference graph, 3 triples",)


def test_an_inference_graph_needs_names(tmp_path):
    (tmp_path / "train.del").write_text("0 0 1\n")
    (tmp_path / "inference.del").write_text("0 0 1\n")
    with pytest.raises(
        InputError, match="an inference graph needs names; got ids of entities; store names"
    ):
        er.load(tmp_path)
    (tmp_path / "inference.del").unlink()
    (tmp_path / "train.del").unlink()
    write(tmp_path, **INFERENCE["ILPC"])
    (tmp_path / "entities.dict").write_text("".join(f"{i}\t{e}\n" for i, e in enumerate("abcxyz")))
    with pytest.raises(InputError, match="an inference graph needs names"):
        er.load(tmp_path)


def test_pairs_of_folders_say_what_they_are(tmp_path):
    training = er.load(write(tmp_path / "fb_v1", train=TRAIN, test=[("a", "s", "b")]))
    assert training.remarks == ()
    alone = er.load(write(tmp_path / "nell_v1_ind", train=NEW))
    assert alone.remarks == ()
    inference = er.load(write(tmp_path / "fb_v1_ind", train=[*NEW, ("a", "r", "x")], test=TEST))
    assert inference.remarks == (
        "the inference graph of fb_v1, beside it: 3 of its 4 entities are new, and 2 of 2 relations in "
        "training are used",
    )
    assert er.load(tmp_path / "fb_v1").remarks == (
        "fb_v1_ind, beside it, is its inference graph: load that to rank there",
    )
    assert er.load(tmp_path / "fb_v1").hash == training.hash


@shared.needs("benchmarks/family", "benchmarks/ilpc2022-small", "benchmarks/grail")
def test_published_files_beside_the_splits_are_found():
    family = er.load(shared.path("benchmarks/family"))
    assert {split: len(rows) for split, rows in family.splits.items()} == {
        "train": 5868,
        "valid": 2038,
        "test": 2835,
        "facts": 17615,
    }
    ilpc = er.load(shared.path("benchmarks/ilpc2022-small"))
    assert (len(ilpc.entities), len(ilpc.relations)) == (6653, 48)
    assert [len(rows) for rows in ilpc.splits.values()] == [20960, 2908, 2902]
    pair = er.load(shared.path("benchmarks/grail/fb237_v2_ind"))
    assert pair.remarks == (
        "the inference graph of fb237_v2, beside it: 1,660 of its 1,660 entities are new, and 172 of "
        "200 relations in training are used",
    )


# Pairs of folders ---------------------------------------------------------------------------------


def test_a_pair_of_folders_is_loaded_as_its_inference_graph(tmp_path):
    train = write(tmp_path / "v1", train=[("p", "z", "q"), ("q", "b", "p")], test=[("p", "b", "q")])
    files = dict(
        train=[("x", "b", "y"), ("y", "new", "x")], valid=[("x", "b", "x")], test=[("x", "z", "y")]
    )
    inference = write(tmp_path / "v1_ind", **files)
    graph = er.load(train, inference=inference)
    assert (graph.name, graph.entities) == ("v1_ind", ("x", "y"))
    assert graph.relations == ("b", "z", "new")  # as in training, then the others
    assert er.load(inference).relations == ("b", "new", "z")
    assert [named(graph, split) for split in ("train", "valid", "test")] == list(files.values())
    assert graph.remarks == (  # and not that there is an inference graph beside the training graph
        "the split train is the inference graph, 2 triples; relations are numbered as in the training "
        "graph, whose 2 triples and 2 entities are left out",
    )
    assert graph.task("test", sides="tail").candidates.tolist() == [2]
    named_ = er.load(train, inference=inference, name="pair", unseen="drop")
    assert named_.name == "pair"
    other = write(tmp_path / "other", inference=[("c", "b", "d")], inference_test=[("d", "z", "c")])
    assert named(er.load(train, inference=other), "test") == [("d", "z", "c")]


def test_relations_of_a_pair_have_the_numbers_of_the_training_graph_alone(tmp_path):
    """A model of the training graph scores the inference graph by these numbers."""
    train = write(tmp_path / "v1", train=TRAIN)
    inference = write(tmp_path / "v1_ind", train=NEW, test=TEST)
    alone, pair = er.load(train), er.load(train, inference=inference)
    assert pair.relations[: len(alone.relations)] == alone.relations


def test_graphs_that_do_not_belong_together(tmp_path):
    train = write(tmp_path / "v1", train=TRAIN)
    other = write(tmp_path / "other", train=[("x", "u", "y"), ("y", "v", "x")])
    message = (
        "the inference graph shares no relation with training; got relations such as 'u', and 'r' in "
        "training; load graphs that belong together"
    )
    with pytest.raises(InputError, match=message):
        er.load(train, inference=other)
    with pytest.raises(InputError, match=message):
        er.load(write(tmp_path / "one", train=TRAIN, msg=[("x", "u", "y"), ("y", "v", "x")]))
    with pytest.raises(InputError, match=r"no such folder or benchmark; got 'nowhere'"):
        er.load(train, inference="nowhere")
    with pytest.raises(InputError, match=r"not the path of an inference graph; got int"):
        er.load(train, inference=3)
    with pytest.raises(InputError, match=r"kinships\.parquet: the inference graph shares no relation"):
        er.load("nations", inference="kinships")  # which come with the package
    (tmp_path / "ids").mkdir()
    (tmp_path / "ids" / "train.del").write_text("0 0 1\n")
    (tmp_path / "ids" / "entity_ids.del").write_text("0\ta\n1\tb\n")
    with pytest.raises(
        InputError, match="an inductive pair needs two folders with train files of names"
    ):
        er.load(tmp_path / "ids", inference=other)


@shared.needs("datasets/inductive", "benchmarks/grail")
def test_published_pairs_have_the_counts_of_their_inference_graph():
    for version, root in (("WN18RR_v1", "datasets/inductive"), ("nell_v2", "benchmarks/grail")):
        folder = shared.path(f"{root}/{version}")
        pair = er.load(folder, inference=folder.with_name(f"{version}_ind"))
        assert er.atlas(pair) == er.atlas(f"{version}_ind")
        assert er.atlas(pair, "valid", "head") == er.atlas(f"{version}_ind", "valid", "head")
