"""The order of the columns of triples is found by evidence, or asked for: triples are never misread."""

import gzip
import random
from itertools import permutations

import numpy as np
import pytest
import shared
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs import Graph

ORDERS = ("hrt", "htr", "rht")  # heads before tails: nothing in a file shows their direction
WHICH = "which column is the relation"


def permuted(rows, order):
    return ["\t".join(str(row["hrt".index(letter)]) for letter in order) for row in rows]


def write(folder, order="hrt", ending="txt", **splits):
    folder.mkdir(exist_ok=True, parents=True)
    for split, rows in splits.items():
        (folder / f"{split}.{ending}").write_text(
            "\n".join(permuted(rows, order)) + "\n", encoding="utf-8"
        )
    return folder


def read(graph):
    return {
        split: sorted((graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in rows)
        for split, rows in graph.splits.items()
    }


def drawn(seed, entities=60, relations=5, triples=300, kind="{}"):
    """Random triples in which most entities are heads and tails."""
    draw = random.Random(seed)
    return [
        (
            kind.format(f"e{draw.randrange(entities)}"),
            f"r{draw.randrange(relations)}",
            kind.format(f"e{draw.randrange(entities)}"),
        )
        for _ in range(triples)
    ]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ending", ["txt", "tsv", "triples"])
def test_orders_are_found_and_noted(order, ending, tmp_path):
    rows, test = drawn(0), drawn(1)[:30]
    graph = er.load(write(tmp_path, order, ending, train=rows, test=test))
    assert read(graph) == {"train": sorted(rows), "test": sorted(test)}
    assert graph.hash == er.load(write(tmp_path / "plain", train=rows, test=test)).hash
    words = {"h": "head", "r": "relation", "t": "tail"}
    said = f"the columns are {', '.join(words[letter] for letter in order)}, as their names show"
    assert [remark.startswith(said) for remark in graph.remarks] == [True] * (order != "hrt")
    assert graph.notes[: len(graph.remarks)] == graph.remarks
    assert all(remark.endswith("name another order with columns='hrt'") for remark in graph.remarks)


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("hrt")])
def test_every_order_can_be_named(order, tmp_path):
    rows, test = drawn(0), drawn(1)[:30]
    folder = write(tmp_path, order, train=rows, test=test)
    graph = er.load(folder, columns=order)
    assert read(graph) == {"train": sorted(rows), "test": sorted(test)}
    assert graph.remarks == ()
    ids = np.random.default_rng(0).integers(0, 9, (20, 3))
    columns = ids[:, ["hrt".index(letter) for letter in order]]
    assert (Graph.of(columns, columns=order).splits["train"] == ids).all()
    np.save(folder / "train.npy", columns)
    for file in folder.glob("*.txt"):
        file.unlink()
    assert (er.load(folder, columns=order).splits["train"] == ids).all()


@pytest.mark.parametrize("order", ORDERS)
def test_ids_are_found_by_their_numbers(order, tmp_path):
    draw = np.random.default_rng(0)
    rows = np.stack([draw.integers(0, most, 400) for most in (80, 6, 80)], axis=1)
    columns = rows[:, ["hrt".index(letter) for letter in order]]
    np.save(tmp_path / "train.npy", columns)
    assert (er.load(tmp_path).splits["train"] == rows).all()
    (tmp_path / "train.npy").unlink()
    text = "\n".join(" ".join(map(str, row)) for row in columns.tolist())
    (tmp_path / "train.del").write_text(text)
    assert (er.load(tmp_path).splits["train"] == rows).all()
    (tmp_path / "train.del").unlink()
    (tmp_path / "train2id.txt").write_text(f"{len(rows)}\n{text}\n")  # usually h t r
    graph = er.load(tmp_path)
    assert (graph.splits["train"] == rows).all()
    assert len(graph.remarks) == (order != "htr")


ASKED = {
    "as many relations as entities": ([("a", "b", "R"), ("b", "c", "S"), ("c", "a", "T")], "htr"),
    "few triples": ([("a", "b", "R"), ("b", "a", "R")], "htr"),
    "relations that are entities": ([("a", "b", "a"), ("b", "a", "b"), ("c", "c", "c")], "hrt"),
    "no entity is a head and a tail": (
        [(f"u{i}", f"v{i % 40}", f"{i % 3} stars") for i in range(90)],
        "htr",
    ),
    "the same, relations first": ([(f"{i % 3}*", f"u{i}", f"v{i % 40}") for i in range(90)], "rht"),
}


@pytest.mark.parametrize("case", ASKED)
def test_in_doubt_there_is_a_question_and_an_answer(case, tmp_path):
    rows, answer = ASKED[case]
    (tmp_path / "train.tsv").write_text("\n".join(map("\t".join, rows)))
    with pytest.raises(InputError, match=WHICH) as caught:
        er.load(tmp_path)
    assert f"h head, r relation, t tail, as in columns='{answer}'" in str(caught.value)
    assert caught.value.in_shell().endswith(f"as in --columns {answer}")
    assert "\n" not in str(caught.value)
    for order in ORDERS:
        assert len(er.load(tmp_path, columns=order).splits["train"]) == len(rows)


KEPT = {
    "one triple": [("a", "likes", "b")],
    "more relations than entities": [(f"e{i % 4}", f"r{i}", f"e{(i + 1) % 4}") for i in range(40)],
    "no entity is a head and a tail": [(f"u{i}", f"{i % 3} stars", f"v{i % 40}") for i in range(90)],
    "attributes": [(f"u{i}", f"has {i % 6}", ("yes", "no")[i % 2]) for i in range(90)],
    "one relation is an entity": [
        *((f"e{i}", "is" if i % 9 else "e1", f"e{i // 2}") for i in range(90)),
    ],
    "loops": [("a", "r", "a"), ("b", "r", "b")],
}


@pytest.mark.parametrize("case", KEPT)
def test_nothing_against_the_usual_order_keeps_it(case, tmp_path):
    rows = KEPT[case]
    graph = er.load(write(tmp_path, train=rows))
    assert read(graph) == {"train": sorted(rows)}
    assert graph.remarks == ()


def test_splits_in_different_orders_are_refused(tmp_path):
    rows, test = drawn(0), drawn(1)[:30]
    for order in ("htr", "rht"):
        write(write(tmp_path, train=rows), order, test=test)
        with pytest.raises(InputError, match=r"test.txt: its columns are in another order .* columns="):
            er.load(tmp_path)
    (tmp_path / "test.txt").write_text("head\ttail\trelation\n" + "\n".join(permuted(test, "htr")))
    graph = er.load(tmp_path)
    assert read(graph) == {"train": sorted(rows), "test": sorted(test)}


def test_a_header_decides_and_cannot_be_overruled(tmp_path):
    rows = drawn(0)
    (tmp_path / "train.csv").write_text(
        "relation,tail,head\n" + "\n".join(permuted(rows, "rth")).replace("\t", ",")
    )
    assert read(er.load(tmp_path)) == {"train": sorted(rows)}
    with pytest.raises(
        InputError, match=r"the files name their columns; got columns 'hrt'; leave out col"
    ):
        er.load(tmp_path, columns="hrt")
    with pytest.raises(InputError, match="the files name their columns"):
        er.load("nations", columns="hrt")


@pytest.mark.parametrize("wrong", ["head", "", "hr", "HRT", 3, ("h", "r", "t"), "hrr"])
def test_unknown_orders(wrong, tmp_path):
    for call in (lambda: er.load(tmp_path, columns=wrong), lambda: Graph.of([[0, 0, 1]], columns=wrong)):
        with pytest.raises(
            InputError, match=r"unknown order of columns; got .*; allowed: hrt, htr, rht"
        ):
            call()


def read_or_asked(folder, order):
    """Load a graph; None if the reader asks for the order, which it may not do for the usual one."""
    try:
        return er.load(folder)
    except InputError as error:
        if WHICH not in str(error) or order == "hrt":
            raise
        return None


entity = st.integers(0, 12).map("e{}".format)
relation = st.integers(0, 12).map("r{}".format)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(
    rows=st.lists(st.tuples(entity, relation, entity), min_size=1, max_size=40),
    order=st.sampled_from(ORDERS),
)
def test_graphs_of_names_are_read_rightly_or_not_at_all(rows, order, tmp_path):
    """Whatever their sizes: one entity that is a head and a tail suffices."""
    assume({h for h, _, _ in rows} & {t for _, _, t in rows})
    graph = read_or_asked(write(tmp_path, order, train=rows), order)
    if graph is not None:
        assert read(graph) == {"train": sorted(rows)}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 15), st.integers(0, 4), st.integers(0, 15)), min_size=20, max_size=60
    ),
    order=st.sampled_from(ORDERS),
)
def test_graphs_of_ids_are_read_rightly_or_not_at_all(rows, order, tmp_path):
    """Ids of relations are ids of entities, too: they must be fewer, and entities on both sides."""
    heads, relations, tails = map(set, zip(*rows, strict=True))
    assume(2 * len(relations) <= min(len(heads), len(tails)))
    assume(len(heads & tails) * 2 > len(heads | tails))
    graph = read_or_asked(write(tmp_path, order, ending="del", train=rows), order)
    if graph is not None:
        assert graph.splits["train"].tolist() == [list(row) for row in rows]


PUBLISHED = {
    **dict.fromkeys(
        ("benchmarks/dbpedia50", "benchmarks/nell23k", "benchmarks/wdsinger", "benchmarks/fb15k237-10"),
        "htr",
    ),
    "benchmarks/conceptnet-100k": "rht",
}
FOLDERS = sorted(
    {
        file.parent.relative_to(shared.FOLDER).as_posix()
        for part in ("datasets", "benchmarks")
        for file in (shared.FOLDER / part).rglob("train*.gz")
        if "temporal" not in file.parts
    }
)


@pytest.mark.skipif(not FOLDERS, reason="not part of the repository: published graphs")
def test_there_are_published_graphs_in_three_orders():
    assert {*PUBLISHED} < {*FOLDERS}
    assert len(FOLDERS) >= 49


@pytest.mark.parametrize("folder", FOLDERS)
def test_published_graphs_are_read_in_their_order(folder):
    """Against plain Python: the relations are the names of the column that we know to be theirs."""
    graph = er.load(shared.FOLDER / folder)
    file = next((shared.FOLDER / folder).glob("train*.gz"))
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    order = "htr" if "2id" in file.name else PUBLISHED.get(folder, "hrt")
    rows = [
        line.split("," if "wd50k" in folder else None if "2id" in file.name else "\t") for line in lines
    ]
    rows = [row for row in rows if len(row) == 3]
    column = {row[order.index("r")].strip() for row in rows}
    if "2id" in file.name:
        assert len(column) <= len(graph.relations)
    else:
        assert column <= {*graph.relations}
        assert column.isdisjoint(graph.entities)
    noted = any("the columns are" in remark for remark in graph.remarks)
    assert noted == (folder in PUBLISHED)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("order", ORDERS)
def test_published_graphs_in_other_orders_are_read_rightly_or_not_at_all(folder, order, tmp_path):
    graph = er.load(shared.FOLDER / folder)
    wanted = {split: rows[:: max(1, len(rows) // 3000)] for split, rows in graph.splits.items()}
    named = {
        split: [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in rows]
        for split, rows in wanted.items()
    }
    found = read_or_asked(write(tmp_path, order, train=named["train"], test=named["test"]), order)
    if found is not None:
        assert read(found) == {split: sorted(named[split]) for split in ("train", "test")}
