"""Entity alignment: files in the layouts of DBP15K and OpenEA, and tasks against loops."""

import numpy as np
import pytest
import shared
from hypothesis import given
from hypothesis import strategies as st

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs import atlas
from evenrank.graphs.alignment import Alignment

FILES = {
    "ent_ids_1": "0\tzh:Bonn\n1\tzh:Ulm\n2\tzh:Rom\n3\tzh:Oslo\n",
    "ent_ids_2": "10\ten:Bonn\n11\ten:Ulm\n12\ten:Rome\n13\ten:Oslo\n14\ten:Bern\n",
    "triples_1": "0\t0\t1\n2\t1\t3\n",
    "triples_2": "10\t5\t11\n12\t6\t13\n",
    "sup_ent_ids": "0\t10\n",
    "ref_ent_ids": "1\t11\n2\t12\n3\t13\n",
}


def raises(message):
    return pytest.raises(InputError, match=message)


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


links = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=8)


@given(train=links, test=links, among=st.sampled_from(("links", "all")))
def test_candidates_agree_with_loops_in_both_directions(train, test, among):
    """With any number of links per entity: every answer is ranked, the others are filtered."""
    data = Alignment.of({"train": train, "test": test}, source=5, target=6)
    known = {*train, *test}
    wanted = []
    for given_, asked, size in ((0, 1, 6), (1, 0, 5)):
        among_these = {link[asked] for link in test} if among == "links" else set(range(size))
        for link in test:
            other = {
                pair[asked]
                for pair in known
                if pair[given_] == link[given_] and pair[asked] != link[asked]
            }
            wanted.append(len(among_these - other))
    task = data.task(candidates=among)
    assert task.candidates.tolist() == wanted
    first = data.task(sides="target", candidates=among).candidates.tolist()
    second = data.task(sides="source", candidates=among).candidates.tolist()
    assert first + second == wanted


def test_ranks_of_an_alignment():
    """Sources and targets whose vectors are equal are found; the query leaves the other end open."""
    vectors = np.eye(4)
    data = Alignment.of({"test": [[0, 3], [1, 2], [2, 1]]}, source=4, target=4)

    def score(queries, candidates):
        columns = np.arange(4)[candidates]
        given_ = np.where(queries[:, 0] < 0, 3 - queries[:, 1], 3 - queries[:, 0])
        return vectors[given_][:, columns] if columns.ndim == 1 else vectors[given_[:, None], columns]

    ranks = er.rank(score, data.task(), progress=False)
    assert ranks.evaluate("mrr")["mrr"] == 1
    assert ranks.keys["side"].tolist() == ["target"] * 3 + ["source"] * 3


def test_z_scores_know_that_both_directions_share_scores():
    """If the task tells which ranks depend on each other; the names of entities do not."""
    data = Alignment.of({"test": [[i, i] for i in range(30)]}, source=30, target=30)
    task = data.task()
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(30, 30))  # of sources and targets, the same in both directions

    def score(queries, candidates):
        rows = np.where(queries[:, :1] < 0, scores.T[queries[:, 1]], scores[queries[:, 0]])
        return (
            rows[:, candidates] if np.ndim(candidates) < 2 else np.take_along_axis(rows, candidates, 1)
        )

    ranks = er.rank(score, task, progress=False)
    (note,) = (note for note in ranks.evaluate("z(mr)").notes if note.startswith("z: "))
    assert note.startswith("z: ranks are taken as independent")
    known = ranks.with_dependence(task.dependence())
    assert not [note for note in known.evaluate("z(mr)").notes if note.startswith("z: ")]
    null = er.chance("mr", task)
    assert known.evaluate("z(mr)")["z(mr)"] == pytest.approx(
        float((null.mean() - ranks.evaluate("mr")["mr"]) / null.std()), rel=1e-9
    )
    assert float(null.std()) == pytest.approx(task.simulated(er.MR, 20_000, 0).std(), rel=0.03)
    assert abs(known.evaluate("z(mr)")["z(mr)"]) < abs(ranks.evaluate("z(mr)")["z(mr)"])


def test_the_layout_of_dbp15k(tmp_path):
    data = Alignment.load(write(tmp_path / "zh_en", FILES))
    assert str(data) == "zh_en: 4 and 5 entities; links: train 1, test 3"
    assert data.relations == 4
    task = data.task()
    assert task.candidates.tolist() == [3] * 6  # the entities of the three test links
    assert task.keys["target"].tolist() == ["en:Ulm", "en:Rome", "en:Oslo"] * 2
    assert str(task.protocol.candidates) == "entities of the test links"
    # the target of the training link is filtered from no query but its own
    assert data.task(candidates="all").candidates.tolist() == [5] * 3 + [4] * 3


def test_links_that_are_not_split_are_drawn(tmp_path):
    files = {name: text for name, text in FILES.items() if name != "sup_ent_ids"}
    folder = write(tmp_path, files)
    data = Alignment.load(folder, train=0.34)
    assert {split: len(pairs) for split, pairs in data.links.items()} == {"train": 1, "test": 2}
    assert data.remarks == ("ref_ent_ids: 1 of 3 links are drawn for training (seed 0)",)
    assert Alignment.load(folder, train=0.34).links["test"].tolist() == data.links["test"].tolist()
    seeds = {tuple(Alignment.load(folder, train=0.34, seed=s).links["train"][0]) for s in range(20)}
    assert len(seeds) == 3
    with raises(r"too few links to split; got 3 links, train=0.1"):
        Alignment.load(folder, train=0.1)
    for wrong in (30, "0.3", None):
        with raises(f"train must be a share of the links between 0 and 1; got {wrong!r}"):
            Alignment.load(folder, train=wrong)


def test_the_layout_of_openea(tmp_path):
    files = {
        "rel_triples_1": "a\tr\tb\nb\tr\tc\n",
        "rel_triples_2": "A\ts\tB\nC\ts\tB\n",
        "train_links": "a\tA\n",
        "valid_links": "b\tB\n",
        "test_links": "c\tC\n",
    }
    data = Alignment.load(write(tmp_path / "split", files))
    assert (data.source, data.target, data.relations) == (("a", "b", "c"), ("A", "B", "C"), 2)
    assert {split: pairs.tolist() for split, pairs in data.links.items()} == {
        "train": [[0, 0]],
        "valid": [[1, 1]],
        "test": [[2, 2]],
    }
    whole = {name: text for name, text in files.items() if "links" not in name}
    whole["ent_links"] = "a\tA\nb\tB\nc\tC\n"
    data = Alignment.load(write(tmp_path / "whole", whole), train=0.4)
    assert len(data.links["test"]) == 2


def test_several_links_of_an_entity_are_said():
    data = Alignment.of({"train": [[0, 0]], "test": [[0, 1], [1, 2], [2, 2]]}, source=3, target=3)
    assert data.remarks == (
        "1 source and 1 target have several links: each answer is ranked, and the others are filtered",
    )
    one = Alignment.of({"test": [[0, 1], [0, 2]]}, source=3, target=3)
    assert one.remarks[0].startswith("1 source has several links: ")
    assert Alignment.of({"test": [[0, 1], [1, 2]]}, source=3, target=3).remarks == ()


def test_files_that_are_damaged_or_missing(tmp_path):
    bad = {
        "a": ({"ref_ent_ids": "1\t11\n2\t99\n"}, r"ref_ent_ids:2: not an entity of graph 2; got '99'"),
        "b": ({"ref_ent_ids": "1\t11\n2\n"}, r"ref_ent_ids:2: expected 2 fields; got 1 field"),
        "c": ({"ent_ids_1": "0\tBonn\n0\tUlm\n"}, r"ent_ids_1:2: duplicate id; got '0'"),
        "d": ({"triples_2": "10\t5\n"}, r"triples_2:1: expected 3 fields; got 2 fields"),
    }
    for name, (files, message) in bad.items():
        with raises(message):
            Alignment.load(write(tmp_path / name, FILES | files))
    with raises(r"links: no links between the graphs; got ent_ids_1, .*; allowed: sup_ent_ids, "):
        Alignment.load(
            write(tmp_path / "links", {k: v for k, v in FILES.items() if not k.endswith("nt_ids")})
        )
    with raises(
        r"none: no entities of two graphs; got ref_ent_ids; allowed: ent_ids_1 and ent_ids_2, or"
    ):
        Alignment.load(write(tmp_path / "none", {"ref_ent_ids": "0\t1\n"}))
    with raises(r"no such folder of an alignment; got 'nowhere'; pass the folder with ent_ids_1"):
        Alignment.load("nowhere")
    with raises(r"no such folder of an alignment; got 'nations'"):
        Alignment.load("nations")  # a graph
    with raises("not the path of an alignment; got int"):
        Alignment.load(3)
    with raises(r"holds two graphs to align; got links between their entities; load it with evenrank"):
        er.load(write(tmp_path / "graph", FILES))


def test_benchmarks_are_found_by_name(tmp_path, monkeypatch):
    write(tmp_path / "DBP15K_zh_en", FILES)
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path))
    assert (
        str(Alignment.load("dbp15k-zh-en")) == "DBP15K_zh_en: 4 and 5 entities; links: train 1, test 3"
    )
    with raises(
        r"evenrank cannot download DBP15K \(ja-en\); get its files from https://.*, and pass their"
    ):
        Alignment.load("dbp15k-ja-en")


def test_arguments_that_cannot_be_used():
    with raises("links of test: there are 2 entities of target; got 2"):
        Alignment.of({"test": [[0, 2]]}, source=2, target=2)
    with raises("links of test must be pairs of a source and a target; got"):
        Alignment.of({"test": [0, 1]}, source=2, target=2)
    with raises("an alignment needs links; got test"):
        Alignment.of({"test": []}, source=2, target=2)
    data = Alignment.of({"test": [[0, 1]]}, source=2, target=2)
    with raises("alignment has no links in this split; got 'train'; allowed: test"):
        data.task("train")
    with raises("unknown sides; got 'tail'; allowed: both, target, source"):
        data.task(sides="tail")


@shared.needs("benchmarks/alignment")
def test_dbp15k_as_published():
    data = Alignment.load(shared.path("benchmarks/alignment/dbp15k-zh-en"))
    assert (len(data.source), len(data.target), data.relations) == (19_388, 19_572, 3_024)
    assert set(data.task().candidates.tolist()) == {10_500}
    assert er.atlas("DBP15K zh-en") == er.atlas("dbp15k_zh_en")
    sizes = er.atlas("dbp15k-zh-en")
    assert (sizes["candidates"].tolist(), sizes.counts.tolist()) == ([10_500], [21_000])
    # the other two have as many links, and their numbers of candidates follow without their files
    assert er.atlas("dbp15k-ja-en") == er.atlas("dbp15k-fr-en") == sizes
    assert atlas.bounds("dbp15k-ja-en") is None
