"""Query answering: answers against logic in plain Python, draws, and the files of BetaE."""

import itertools
import pickle
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs.queries import BETAE, STRUCTURES, Queries, answers, steps

LENGTHS = {"1p": 2, "2p": 3, "3p": 4, "2i": 4, "3i": 6, "ip": 5, "pi": 5, "2u": 4, "up": 5}
FORMULAS = {  # whether x answers query q, where `has` looks up triples
    "1p": lambda has, all_of, q, x: has(q[0], q[1], x),
    "2p": lambda has, all_of, q, x: any(has(q[0], q[1], y) and has(y, q[2], x) for y in all_of),
    "3p": lambda has, all_of, q, x: any(
        has(q[0], q[1], y) and has(y, q[2], z) and has(z, q[3], x) for y in all_of for z in all_of
    ),
    "2i": lambda has, all_of, q, x: has(q[0], q[1], x) and has(q[2], q[3], x),
    "3i": lambda has, all_of, q, x: has(q[0], q[1], x) and has(q[2], q[3], x) and has(q[4], q[5], x),
    "ip": lambda has, all_of, q, x: any(
        has(q[0], q[1], y) and has(q[2], q[3], y) and has(y, q[4], x) for y in all_of
    ),
    "pi": lambda has, all_of, q, x: (
        any(has(q[0], q[1], y) and has(y, q[2], x) for y in all_of) and has(q[3], q[4], x)
    ),
    "2u": lambda has, all_of, q, x: has(q[0], q[1], x) or has(q[2], q[3], x),
    "up": lambda has, all_of, q, x: any(
        (has(q[0], q[1], y) or has(q[2], q[3], y)) and has(y, q[4], x) for y in all_of
    ),
}


def raises(message):
    return pytest.raises(InputError, match=message)


def by_logic(structure, query, triples, entities):
    every = {tuple(triple) for triple in triples}
    return {
        x
        for x in range(entities)
        if FORMULAS[structure](lambda h, r, t: (h, r, t) in every, range(entities), query, x)
    }


triples = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 4)), min_size=1)


@given(triples=triples, structure=st.sampled_from(sorted(STRUCTURES)), data=st.data())
def test_answers_agree_with_logic(triples, structure, data):
    entity, relation = st.integers(0, 4), st.integers(0, 1)
    kinds = {"1p": "er", "2p": "err", "3p": "errr", "2i": "erer", "3i": "ererer", "ip": "ererr"}
    kinds |= {"pi": "errer", "2u": "erer", "up": "ererr"}
    query = [data.draw(entity if kind == "e" else relation) for kind in kinds[structure]]
    found = answers(structure, query, steps(np.array(triples)))
    assert found == by_logic(structure, query, triples, 5)


@pytest.mark.parametrize("split", ["test", "valid"])
def test_drawn_queries_have_the_easy_and_the_hard_answers_of_their_definition(split):
    graph = er.load("nations")
    queries = Queries.draw(graph, count=4, split=split, seed=7)
    before = ("train", "valid") if split == "test" else ("train",)
    old = np.concatenate([graph.splits[name] for name in before])
    new = np.concatenate([old, graph.splits[split]])
    assert list(queries.structures) == list(STRUCTURES)
    for structure, asked in queries.structures.items():
        assert asked.rows.shape == (4, LENGTHS[structure])
        assert len({*map(tuple, asked.rows.tolist())}) == 4
        for query, easy, hard in zip(asked.rows.tolist(), asked.easy, asked.hard, strict=True):
            assert set(easy.tolist()) == by_logic(structure, query, old.tolist(), 14)
            assert {*easy.tolist(), *hard.tolist()} == by_logic(structure, query, new.tolist(), 14)
            assert len(hard)


def test_hard_answers_are_ranked_without_the_other_answers():
    queries = Queries.draw(er.load("nations"), "2i", "up", count=6)
    task = queries.task()
    wanted = [
        14 - len(easy) - (len(hard) - 1)
        for asked in queries.structures.values()
        for easy, hard in zip(asked.easy, asked.hard, strict=True)
        for _ in hard
    ]
    assert task.candidates.tolist() == wanted
    assert sorted(set(task.keys["structure"].tolist())) == ["2i", "up"]
    assert len(queries.task("2i")) == (task.keys["structure"] == "2i").sum()
    ranks = er.rank(lambda q, c: np.ones((len(q), 14))[:, c], task, progress=False)
    # all are tied: the mean over the answers of each query, then over queries
    expected = [np.mean(1 / np.arange(1, n + 1)) for n in wanted]
    query = task.keys["query"]
    means = [
        np.mean([e for e, q in zip(expected, query, strict=True) if q == one]) for one in set(query)
    ]
    assert ranks.evaluate("mrr", average="query")["mrr"] == pytest.approx(np.mean(means), rel=1e-12)
    again = Queries.draw(er.load("nations"), "2i", "up", count=6)
    assert all(
        again.structures[one].rows.tolist() == queries.structures[one].rows.tolist()
        for one in queries.structures
    )


def nested(structure, row):
    """A query as BetaE's files write it."""
    numbers = iter(row)

    def fill(node):
        if isinstance(node, tuple):
            return tuple(fill(part) for part in node)
        return {"u": -1, "n": -2}.get(node) if node in "un" else next(numbers)

    return fill(structure)


def test_the_files_of_betae(tmp_path):
    drawn = Queries.draw(er.load("nations"), count=5)
    files = [defaultdict(set) for _ in range(3)]
    for structure, name in BETAE.items():
        if name in drawn.structures:
            asked = drawn.structures[name]
            for row, easy, hard in zip(asked.rows.tolist(), asked.easy, asked.hard, strict=True):
                query = nested(structure, row)
                files[0][structure].add(query)
                files[1][query], files[2][query] = set(easy.tolist()), set(hard.tolist())
        else:  # with negation: the entries of the query alone are checked
            query = nested(structure, itertools.cycle((3, 1)))
            files[0][structure].add(query)
            files[2][query] = {0}
    for name, content in zip(("queries", "easy-answers", "hard-answers"), files, strict=True):
        (tmp_path / f"test-{name}.pkl").write_bytes(pickle.dumps(content))
    read = Queries.load(tmp_path, entities=14)
    assert set(read.structures) == set(BETAE.values())
    for name, asked in drawn.structures.items():
        order = sorted(range(5), key=lambda i, asked=asked: asked.rows[i].tolist())
        assert read.structures[name].rows.tolist() == asked.rows[order].tolist()
        assert [one.tolist() for one in read.structures[name].hard] == [
            asked.hard[i].tolist() for i in order
        ]
    some = ("1p", "2u", "up")
    assert sorted(read.task(*some).candidates) == sorted(drawn.task(*some).candidates)
    with raises(r"1p: a query has an entity that does not exist; got query \[.*\]; allowed: 0 to 3"):
        Queries.load(tmp_path, entities=4)
    with raises(r"has no file valid-queries.pkl; got .*; allowed: valid-queries.pkl, valid-easy"):
        Queries.load(tmp_path, entities=14, split="valid")


class Evil:
    def __reduce__(self):
        return print, ("run",)


def test_pickles_run_no_code(tmp_path, capsys):
    for name in ("queries", "easy-answers", "hard-answers"):
        (tmp_path / f"test-{name}.pkl").write_bytes(pickle.dumps({("e", ("r",)): Evil()}))
    with raises(r"cannot read .*test-queries.pkl; got builtins.print"):
        Queries.load(tmp_path, entities=3)
    assert capsys.readouterr().out == ""
    (tmp_path / "test-queries.pkl").write_bytes(pickle.dumps([1]))
    with raises(r"cannot read .*test-queries.pkl; got a list"):
        Queries.load(tmp_path, entities=3)


def test_arguments_that_cannot_be_used():
    graph = er.load("nations")
    with raises("unknown structure of queries; got '4p'; allowed: 1p, 2p"):
        Queries.draw(graph, "4p")
    with raises("^count must be at least 1; got 0$"):
        Queries.draw(graph, "1p", count=0)
    small = er.Graph.of([[0, 0, 1]], test=[[1, 0, 2]])
    with raises("few queries of structure 1p with a hard answer; got 1 in 600 draws; ask for at most 1"):
        Queries.draw(small, "1p", count=2)
    with raises("structure 3i with a hard answer; got 0 in 300 draws; leave the structure out"):
        Queries.draw(small, "3i", count=1)
    with raises(r"2i: an answer is easy and hard; got answer 5 of query \[0, 0, 1, 0\]"):
        Queries.of({"2i": ([[0, 0, 1, 0]], [[5]], [[5, 7]])}, entities=10)
    with raises(r"1p: a query has no hard answer; got query \[0, 0\]"):
        Queries.of({"1p": ([[0, 0]], [[5]], [[]])}, entities=10)
    with raises(
        "queries 1p need two lists of answers each; got 1 queries, 0 lists of easy and 1 of hard"
    ):
        Queries.of({"1p": ([[0, 0]], [], [[1]])}, entities=10)
    with raises(
        "queries 1p must be rows, their easy answers and their hard answers; got .*; allowed: three"
    ):
        Queries.of({"1p": [[0, 0]]}, entities=10)
    with raises("1p: hard answers must be a column of whole numbers; got .*'a'"):
        Queries.of({"1p": ([[0, 0]], [[]], [["a"]])}, entities=10)
    with raises("1p: one of the easy answers is not an entity; got 12; allowed: 0 to 9"):
        Queries.of({"1p": ([[0, 0]], [[12]], [[1]])}, entities=10)
    with raises("1p: easy answers must be whole; got 0.5"):  # and is not taken for 0
        Queries.of({"1p": ([[0, 0]], [[0.5]], [[1]])}, entities=10)
    with raises("1p: hard answers must be a list of ids for each query; got 1"):
        Queries.of({"1p": ([[0, 0]], [[]], [1])}, entities=10)
    with raises(
        r"2i: a query has an entity that does not exist; got query \[0, 0, 10, 11\]; allowed: 0 to 9"
    ):
        Queries.of({"2i": ([[0, 11, 3, 12], [0, 0, 10, 11]], [[], []], [[1], [1]])}, entities=10)
    with raises(r"queries up have 5 entries: entities and relations in order; got 4 in \[0, 0, 1, 0\]"):
        Queries.of({"up": ([[0, 0, 1, 0]], [[]], [[1]])}, entities=10)
    with raises("there are no queries of this structure; got 'pi'; allowed: 1p"):
        Queries.of({"1p": ([[0, 0]], [[]], [[1]])}, entities=10).task("pi")
