"""Functions of heads, relations and tails, and how the arguments of a model are told apart."""

import functools
import traceback
from types import SimpleNamespace

import numpy as np
import pytest
from loops import ENTITIES, ENTITY, GRAPH, RELATION, RELATIONS, SIDES, by_hand, counts, raises, rank

import evenrank as er
from evenrank.models import QueryScorer, TripleScorer


def broadcasting(h, r, t):
    return (ENTITY[h] * RELATION[r] * np.roll(ENTITY, -1, axis=1)[t]).sum(-1)


def of_vectors(h, r, t):
    """Needs vectors of one length."""
    assert h.ndim == r.ndim == t.ndim == 1
    return np.einsum("nd,nd,nd->n", ENTITY[h], RELATION[r], np.roll(ENTITY, -1, axis=1)[t])


def along_the_second_axis(h, r, t):
    """Right for vectors; for broadcast indices, another axis is summed over."""
    return (ENTITY[h] * RELATION[r] * np.roll(ENTITY, -1, axis=1)[t]).sum(axis=1)


def silently_wrong(h, r, t):
    """Right for vectors; for broadcast indices, other numbers of the right shape."""
    head = ENTITY[h]
    head = head - head.min(axis=1, keepdims=True) + head.min(axis=-1, keepdims=True)
    return (head * RELATION[r] * np.roll(ENTITY, -1, axis=1)[t]).sum(-1)


def of_matrices(h, r, t):
    """Needs broadcast indices."""
    h, r, t = np.broadcast_arrays(h, r, t)
    rows, columns = h.shape
    return broadcasting(h, r, t).reshape(rows, columns)


FUNCTIONS = {
    "broadcasting": broadcasting,
    "vectors": of_vectors,
    "second axis": along_the_second_axis,
    "silently wrong": silently_wrong,
    "matrices": of_matrices,
    "an axis more": lambda h, r, t: broadcasting(h, r, t)[..., None],
    "lists": lambda h, r, t: broadcasting(h, r, t).tolist(),
    "tails first": lambda t, rel, h: broadcasting(h, rel, t),
    "options": lambda h, r, t, scale=1: scale * broadcasting(h, r, t),
    "partial": functools.partial(lambda h, r, t, *, scale: scale * broadcasting(h, r, t), scale=2),
    "method": SimpleNamespace(
        score=lambda heads, relations, tails: broadcasting(heads, relations, tails)
    ),
    "declared": TripleScorer(lambda a, b, c: broadcasting(a, c, b), columns="htr"),
    "one at a time": TripleScorer(broadcasting, batch_size=1),
    "seven at a time": TripleScorer(of_vectors, batch_size=7),
}


@pytest.mark.parametrize("sides", SIDES, ids="-".join)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_of_triples_against_loops(kind, sides):
    ranks = rank(FUNCTIONS[kind], GRAPH.task("test", sides=sides))
    assert counts(ranks) == by_hand(sides)
    assert ranks.equal.any()
    assert ranks.protocol.scores == "as given"


@pytest.mark.parametrize("candidates", ["typed", 5])
def test_lists_of_candidates_are_scored_as_by_a_function_of_queries(candidates):
    def by_queries(queries, candidates):
        ids = np.arange(ENTITIES)[candidates] if isinstance(candidates, slice) else candidates
        ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
        tails = queries[:, 2] == -1
        h = np.where(tails[:, None], queries[:, :1], ids)
        t = np.where(tails[:, None], ids, queries[:, 2:])
        return broadcasting(h, queries[:, 1:2], t)

    task = GRAPH.task(
        "test", candidates=candidates, **({"outside": "add"} if candidates == "typed" else {"seed": 1})
    )
    for function in (broadcasting, of_vectors):
        assert counts(rank(function, task)) == counts(rank(by_queries, task))


@pytest.mark.parametrize("function", [broadcasting, of_vectors])
def test_calls_stay_within_the_batch_size_and_the_memory(function):
    calls = []

    def scorer(h, r, t):
        calls.append(np.broadcast(h, r, t).size)
        return function(h, r, t)

    task = GRAPH.task("test")
    rank(TripleScorer(scorer, batch_size=40), task)
    assert 20 < max(calls) <= 40
    calls.clear()
    rank(scorer, task, memory="1MiB")
    assert max(calls) * 256 * 8 <= 2**20 // 4


def test_a_model_that_broadcasts_is_called_with_few_indices():
    shapes = set()

    def scorer(h, r, t):
        shapes.add((h.ndim, h.shape == t.shape))
        return broadcasting(h, r, t)

    rank(scorer, GRAPH.task("test"))
    assert shapes == {(1, True), (2, False)}  # both are tried, and then indices broadcast


def test_scorers_that_want_ids_get_no_slices():
    def scorer(queries, ids):
        assert isinstance(ids, np.ndarray)
        return np.ones((len(queries), 1)) * ids

    task = er.Task.of([[7], [8]], [0, 1], size=3)
    ranks = rank(QueryScorer(scorer, slices=False), task)
    assert ranks.better.tolist() == [2, 1]
    with raises("the model scorer raised AssertionError", "table.candidates.", "slices=False"):
        rank(scorer, task)


def test_names_of_models_are_theirs():
    def mine(h, r, t):
        return broadcasting(h, r, t)

    named = TripleScorer(mine, name="yours"), mine, QueryScorer(lambda q, c: 0, name="his")
    assert [er.ranking.adapters.name_of(one) for one in named] == ["yours", "mine", "his"]
    assert rank(mine, GRAPH.task("test")).protocol.model == "mine"


def test_a_ranking_by_triples_resumes_from_a_checkpoint(tmp_path):
    task = GRAPH.task("test")
    whole = rank(broadcasting, task, checkpoint=tmp_path / "a")
    calls = []

    def counted(h, r, t):
        calls.append(1)
        return broadcasting(h, r, t)

    again = rank(TripleScorer(counted, name="broadcasting"), task, checkpoint=tmp_path / "a")
    assert counts(again) == counts(whole) == by_hand(("tail", "head"))
    with raises("model"):
        rank(
            TripleScorer(lambda h, r, t: -broadcasting(h, r, t), name="broadcasting"),
            task,
            checkpoint=tmp_path / "a",
        )


def unknown(h, r, t):
    return ENTITY[h + ENTITIES][..., 0] * r * t


def broken(result):
    return lambda h, r, t: result


TASK = GRAPH.task("test")
BAD = {
    "order unknown": (
        lambda a, b, c: a,
        ["do not tell how to call it", r"lambda>\(a, b, c\)", "TripleScorer", "QueryScorer"],
    ),
    "any": (lambda *args: 0, [r"\(\*args\)", "TripleScorer"]),
    "one": (lambda triples: 0, [r"\(triples\)", "TripleScorer"]),
    "two parts": (lambda h, r: 0, [r"\(h, r\)", "TripleScorer"]),
    "four": (lambda h, r, t, time: 0, [r"\(h, r, t, time\)"]),
    "keyword": (lambda h, r, t, *, time: 0, ["do not tell"]),
    "built in": (min, ["min, whose parameters are not known"]),
    "class": (SimpleNamespace, ["not a model; got the class SimpleNamespace"]),
    "scores": (np.zeros((2, 3)), ["not a model; got ndarray", "er.Rankings.from_scores ranks a matrix"]),
    "number": (3, ["not a model; got int", r"forward\(h, r, t\)"]),
    "unknown id": (
        unknown,
        ["the model unknown raised IndexError: index", "heads of shape", "up to", "passes tensors"],
    ),
    "too few": (
        broken(np.zeros(3)),
        ["wrong shape", r"got \(3,\) for heads of shape", r"allowed: \(15,\) or \(15, 1\)"],
    ),
    "too many": (lambda h, r, t: np.zeros((*h.shape, 6)), [r"got \(15, 6\) for heads"]),
    "text": (broken("much"), ["must return an array of scores; got str"]),
    "nothing": (broken(None), ["must return an array of scores; got NoneType"]),
    "two results": (broken((1, 2)), ["must return an array of scores; got tuple"]),
    "ragged": (broken([[1], [1, 2]]), ["must return an array of scores; got list"]),
    "complex": (lambda h, r, t: h * 1j, ["the scores of <lambda> must be real numbers; got complex"]),
    "NaN": (
        lambda h, r, t: broadcasting(h, r, t) / np.where(t == 3, np.nan, 1),
        [r"scores contain NaN \(query \(.*\), candidate 3\)"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_models(case):
    scorer, parts = BAD[case]
    with raises(*parts):
        rank(scorer, TASK)


def test_an_error_of_the_model_is_the_cause():
    with raises("the model unknown raised IndexError") as caught:
        rank(unknown, TASK)
    assert isinstance(caught.value.__cause__, IndexError)
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)
    assert frames[-1].name == "unknown"  # where a debugger stops


def test_bad_adapters():
    for make, parts in (
        (lambda: TripleScorer(3), ["torch module or a function", "got int"]),
        (lambda: TripleScorer(SimpleNamespace), ["got the class SimpleNamespace"]),
        (
            lambda: TripleScorer(broadcasting, columns="hr"),
            ["columns must be an order of h, r and t; got 'hr'"],
        ),
        (lambda: TripleScorer(broadcasting, module=3), ["module must be a torch module; got int"]),
        (lambda: TripleScorer(broadcasting, batch_size=0), ["batch_size"]),
        (lambda: QueryScorer(3), ["a function of queries and candidates; got int"]),
        (lambda: QueryScorer(broadcasting, slices="no"), ["slices must be True or False"]),
    ):
        with raises(*parts):
            make()


def test_bad_queries_of_triple_scorers():
    sized = TripleScorer(broadcasting, entities=5, relations=RELATIONS)
    pairs = TripleScorer(broadcasting)
    for call, parts in (
        (
            lambda: rank(broadcasting, er.Task.of([[0]], [1], size=3)),
            ["broadcasting scores triples", r"got \[0\]"],
        ),
        (lambda: rank(sized, TASK), ["entity 2. is not in the model; got a model of 5"]),
        (
            lambda: pairs.score(np.array([[-1, 0, -1]]), slice(0, 4)),
            ["the number of entities", "entities="],
        ),
        (
            lambda: pairs.score(np.array([[-1, 0, 1], [1, 0, -1]]), slice(0, 4)),
            ["cannot answer this query"],
        ),
    ):
        with raises(*parts):
            call()
    assert pairs.score(np.array([[-1, 0, -1]]), slice(0, 4), size=ENTITIES**2).shape == (1, 4)
