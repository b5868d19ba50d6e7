"""All answers of a query ranked together: against dense matrices, and the same bits always."""

from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from unittest import mock

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import together

import evenrank as er
from evenrank.ranking.engine._native import available
from evenrank.ranking.resume import Checkpoint

ENGINE = import_module("evenrank.ranking._rank")
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed (make peers installs it)"
)


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def rank(scorer, task, **options):
    return er.rank(scorer, task, progress=False, answers="together", **options)


def columns(rankings):
    return [getattr(rankings, name).tolist() for name in ("first", "better", "equal", "candidates")]


# The dense matrix ------------------------------------------------------------------------------------


class Whole:
    """Scores that are small whole numbers, by a model that factors or by a function."""

    def __init__(self, size, seed, factors):
        rng = np.random.default_rng(seed)
        self.table, self.mix = rng.integers(-2, 3, (size, 2)).astype(float), rng.integers(0, 5, (3, 2))
        self.factors = factors

    def vectors(self, queries):
        return (queries @ self.mix) % 5 - 2.0

    def scorer(self):
        if self.factors:
            return er.Factored("dot", self.table, self.vectors)
        return self.score

    def score(self, queries, ids):
        rows = self.table[ids]
        if rows.ndim == 3:  # a list of candidates for each query
            return (self.vectors(queries)[:, None] * rows).sum(axis=-1)
        return self.vectors(queries) @ rows.T


@given(strategies.tasks(("all", "typed", "sampled")), st.integers(0, 10**6), st.booleans())
@settings(max_examples=150)
def test_any_task_against_the_dense_matrix(asked, seed, factors):
    task, rows = asked
    for number, side in enumerate(dict.fromkeys(row.side for row in rows)):
        part = er.Task((task.parts[number],), task.protocol)
        model = Whole(part.parts[0].size, seed, factors)
        queries = list(dict.fromkeys(row.query for row in rows if row.side == side))
        relevant, filtered = np.zeros((2, len(queries), part.parts[0].size), dtype=bool)
        filtered[:] = True
        for row in rows:
            if row.side == side:
                at = queries.index(row.query)
                relevant[at, row.target] = True
                filtered[at, list(row.candidates)] = False
        for row in rows:
            if row.side == side:
                filtered[queries.index(row.query), list(row.known)] = True
        scores = model.vectors(np.array(queries)) @ model.table.T
        want = er.Rankings.from_scores(scores, relevant, filtered)
        got = rank(model.scorer(), part)
        assert columns(got) == columns(want)
        assert got.work.scores == part.together().scores
        assert got.protocol.extra["answers"] == "together"
        assert got.protocol.scores == ("float64, certified" if factors else "as given")


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_recommendations_against_the_dense_matrix(seed):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(-2, 3, (6, 3)), rng.integers(-2, 3, (12, 3))
    bias = rng.integers(-2, 3, 12)
    gains = rng.choice([0, 0, 1, 2.5], (6, 12))
    gains[rng.integers(6), rng.integers(12)] = 4
    train = rng.random((6, 12)) < 0.3
    pairs = np.argwhere(gains)
    task = er.Task.recommendation(
        np.column_stack([pairs, gains[tuple(pairs.T)]]), train=np.argwhere(train), items=12
    )
    got = rank(er.models.DotProduct(users, items, item_bias=bias), task)
    some = gains.any(axis=1)
    want = er.Rankings.from_scores((users @ items.T + bias)[some], gains[some], train[some])
    assert columns(got) == columns(want)
    assert got.keys["user"].tolist() == np.flatnonzero(some).tolist()
    assert [*got.keys] == ["user"]
    for metric in ("map", "ndcg@3", "recall@2", "auc"):
        assert got.evaluate(metric)[metric] == want.evaluate(metric)[metric]
    each = gains[got.keys["user"][np.repeat(np.arange(len(got)), np.diff(got.first))], got.answers]
    assert (np.ones(len(each)) if got.gains is None else got.gains).tolist() == each.tolist()


def test_one_answer_per_query_is_the_rank_of_a_target():
    rng = np.random.default_rng(0)
    table = rng.integers(-3, 4, (30, 3)).astype(float)
    task = er.Task.of(np.arange(20)[:, None], rng.integers(0, 30, 20), size=30)
    model = er.Factored("dot", table, lambda queries: table[queries[:, 0]])
    apart, whole = er.rank(model, task, progress=False), rank(model, task)
    assert apart.better.tolist() == whole.better.tolist()
    assert apart.equal.tolist() == whole.equal.tolist()
    assert apart.evaluate("mrr")["mrr"] == pytest.approx(whole.evaluate("map")["map"], rel=1e-14)


def test_answers_ranked_apart_and_together_differ_by_the_answers_ahead():
    """The second way to `Rankings.from_ranks`, which adds the answers ahead to filtered ranks."""
    graph, model = er.load("nations"), er.models.load("nations/complex")
    for side in ("tail", "relation"):
        task = graph.task("test", sides=side)
        named = er.rank(model, task, progress=False)
        asked = {"tail": ("head", "relation"), "relation": ("head", "tail")}[side]
        query = [" ".join(row) for row in zip(*(named.keys[name] for name in asked), strict=True)]
        joined = er.Rankings.from_ranks(named.with_only_keys({"query": query}))
        whole = rank(model, task)
        mine = [" ".join(row) for row in zip(*(whole.keys[name] for name in asked), strict=True)]
        lists = [
            dict(zip(names, np.split(one.better, one.first[1:-1]), strict=True))
            for names, one in ((joined.keys["query"].tolist(), joined), (mine, whole))
        ]
        assert lists[0].keys() == lists[1].keys()
        assert all(lists[0][name].tolist() == lists[1][name].tolist() for name in mine)


# Keys ------------------------------------------------------------------------------------------------


def test_keys_name_the_query_and_the_part_that_is_asked_for_names_the_answers():
    graph, model = er.load("nations"), er.models.load("nations/transe")
    both = rank(model, graph.task("test"))
    tails, heads = both[both.keys["side"] == "tail"], both[both.keys["side"] == "head"]
    assert set(tails.keys["tail"]) == set(heads.keys["head"]) == {"?"}
    named = [np.array(graph.entities, dtype=object), np.array(graph.relations, dtype=object)]
    test = {(named[0][h], named[1][r], named[0][t]) for h, r, t in graph.splits["test"]}
    owner = np.repeat(np.arange(len(both)), np.diff(both.first))
    found = set()
    for query, answer in zip(owner, both.answers, strict=True):
        h, r, t = (both.keys[name][query] for name in ("head", "relation", "tail"))
        found.add((answer, r, t) if h == "?" else (h, r, answer))
    assert found == test
    assert [*rank(model, graph.task("test", sides="tail")).keys] == ["head", "relation", "side"]
    pairs = rank(model, graph.task("test", sides="pair"))
    assert [*pairs.keys] == ["relation", "side"]
    relation, answer = pairs.keys["relation"][0], pairs.answers[0]
    assert (answer.split(", ")[0], relation, answer.split(", ")[1]) in test


def test_numbered_entities_leave_minus_one():
    graph = er.Graph.of({"train": [[0, 0, 1]], "test": [[0, 0, 2], [0, 0, 3]]}, entities=4, relations=1)
    got = rank(lambda queries, ids: np.zeros((len(queries), 4))[:, ids], graph.task("test"))
    assert got.keys["tail"].tolist() == [-1, 2, 3]
    assert got.keys["head"].tolist() == [0, -1, -1]
    assert got.answers.tolist() == [2, 3, 0, 0]


def test_query_answering_by_structure():
    task = er.Task.answers([[5, 1], [6, 2]], [[2, 3], [0]], size=6, known=[[1], []])
    labelled = er.Task.of(
        [[5, 1], [5, 1], [6, 2]],
        [2, 3, 0],
        size=6,
        known=([[5, 1]] * 3 + [[6, 2]], [1, 2, 3, 0]),
        keys={"structure": ["2i", "2i", "1p"], "hops": [1, 2, 1]},
    )
    scores = np.array([[0.0, 9, 1, 3, 2, 8], [5, 1, 2, 3, 4, 5]])
    model = lambda queries, ids: scores[queries[:, 1] - 1][:, ids]  # noqa: E731
    one, other = rank(model, task), rank(model, labelled)
    assert columns(one) == columns(other) == [[0, 2, 3], [1, 3, 0], [0, 0, 1], [5, 6]]
    assert one.keys["query"].tolist() == [0, 1]
    assert [*other.keys] == ["structure"]  # hops differ between the answers of a query
    assert other.by("structure").evaluate("mrr")["mrr"].tolist() == [3 / 4, 1 / 2]  # 1p, 2i


# The same bits ---------------------------------------------------------------------------------------


def case(kind="task"):
    """A task of both sides with thousands of queries, a recommender, or lists; ties and near ties."""
    rng = np.random.default_rng(4)
    triples = rng.integers(0, [300, 2, 300], (3000, 3))
    rows = rng.standard_normal((300, 12)).astype(np.float32)
    rows[7], rows[9] = rows[8], np.nextafter(rows[10], np.float32(9))
    if kind == "users":
        test, train = rng.integers(0, [900, 300], (2, 5000, 2))
        users = rng.standard_normal((900, 12)).astype(np.float32)
        bias = rng.standard_normal(300).astype(np.float32)
        task = er.Task.recommendation(test, train=train, items=300, users=900)
        return er.models.DotProduct(users, rows, item_bias=bias), task
    graph = er.Graph.of({"train": triples[:500], "test": triples[500:]}, entities=300, relations=2)
    model = er.models.ComplEx(rows, rows[:2])
    if kind == "typed":
        return model, graph.task("test", candidates="typed", outside="add")
    return model, graph.task("test")


KINDS = ("task", "users", "typed")


def bits(rankings):
    kept = [rankings.first, rankings.better, rankings.equal, rankings.candidates]
    hashes = [sha256(np.ascontiguousarray(column).tobytes()).hexdigest() for column in kept]
    return [*hashes, str(rankings.protocol), str(rankings.answers.tolist()), [*rankings.keys]]


@pytest.mark.parametrize("kind", KINDS)
def test_memory_threads_and_kernels_do_not_matter(kind, monkeypatch):
    model, task = case(kind)
    want = bits(rank(model, task))
    for options in ({"memory": "1MiB"}, {"threads": 1}, {"threads": 3, "memory": "2MiB"}):
        assert bits(rank(model, task, **options)) == want
    for name in ("numpy", *available()):
        monkeypatch.setenv("EVENRANK_KERNELS", name)
        assert bits(rank(model, task)) == want


@needs_torch
@pytest.mark.parametrize("kind", KINDS)
def test_devices_do_not_matter(kind):
    model, task = case(kind)
    assert bits(rank(model, task, device="torch:cpu")) == bits(rank(model, task))


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_resume(kind, tmp_path):
    model, task = case(kind)
    keep, want = Checkpoint.keep, bits(rank(model, task))

    def kept(run, i, ranks):
        if len(run.blocks) - len(run.missing) == 2:
            raise KeyboardInterrupt
        keep(run, i, ranks)

    with mock.patch.object(ENGINE, "_whole", return_value=120):
        with mock.patch.object(Checkpoint, "keep", kept), pytest.raises(KeyboardInterrupt):
            rank(model, task, checkpoint=tmp_path)
        resumed = rank(model, task, checkpoint=tmp_path)
        assert bits(resumed) == want
        assert 0 < resumed.work.scores < task.together().scores
        assert bits(rank(model, task, checkpoint=tmp_path)) == want
        assert len(er.Ranks.load(tmp_path / "ranks.parquet")) == len(task.together())  # a row per answer
        with raises("another ranking", "answers together there"):
            er.rank(model, task, checkpoint=tmp_path, progress=False)


def by_processes(meshes):
    return [[bits(rank(*case(kind), mesh=mesh)) for kind in KINDS] for mesh in meshes]


@needs_torch
def test_meshes_do_not_matter(tmp_path):
    want = [bits(rank(*case(kind))) for kind in KINDS]
    for process in together(partial(by_processes, ("queries", "candidates")), 2, tmp_path):
        assert process == [want, want]


# Mistakes --------------------------------------------------------------------------------------------


def test_mistakes():
    model, task = case()
    with raises("unknown value of answers", "'all'", "apart, together"):
        er.rank(model, task, answers="all")
    with raises("rank needs a Task", "graph.task"):
        er.rank(model, [1, 2], answers="together")
    with raises("each answer without the others", "protocol libkge"):
        rank(er.models.load("nations/transe"), er.load("nations").task("test", protocol="libkge"))
    bad = er.Task.of([[0], [1]], [1, 2], size=3, keys={"gain": [1.0, -1.0]})
    with raises("gain"):
        rank(lambda queries, ids: np.zeros((len(queries), 3))[:, ids], bad)
