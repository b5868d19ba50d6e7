"""The ranking engine: counts equal those of an oracle, with the same bits for all options."""

import os
import threading
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from unittest import mock

import numpy as np
import oracle
import pytest
import shared
import strategies
from hypothesis import example, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.ranking.engine._native import available
from evenrank.ranking.engine._native import kernels as native_kernels
from evenrank.ranking.engine.bounds import FORMS, bounds

KERNELS = ("numpy", *available())
COUNT, RUN, NUMPY = (
    import_module(f"evenrank.ranking.engine.{name}") for name in ("_count", "run", "numpy_kernels")
)
CONVENTIONS = (None, "stacked", "interleaved")


def counts(ranks):
    return np.stack([ranks.better, ranks.equal, ranks.candidates])


def rank(scorer, task, *, kernels=None, **options):
    """Rank without a bar, with the kernels asked for."""
    with mock.patch.dict(os.environ, {"EVENRANK_KERNELS": kernels} if kernels else {}):
        return er.rank(scorer, task, progress=False, **options)


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


# The oracle ---------------------------------------------------------------------------------------

SCORES = st.lists(
    st.sampled_from([-np.inf, np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0]), min_size=1, max_size=7
)


@contextmanager
def ways(draw):
    """Draw how queries are cut up; none of it may matter."""
    chunk = draw(st.sampled_from([12, 240]))
    sizes = {"CHUNK": chunk, "BATCH": chunk * draw(st.integers(1, 4)), "SHARED": draw(st.integers(1, 8))}
    rows = draw(st.sampled_from([1, 3, 1024]))
    with mock.patch.multiple(COUNT, **sizes), mock.patch.object(RUN, "BATCH", rows):
        yield


@given(strategies.tasks(), SCORES, st.integers(0, 10**6), st.sampled_from(KERNELS), st.data())
@settings(max_examples=200)
def test_any_scorer_against_the_oracle(asked, values, seed, kernels, data):
    """Few distinct scores, infinite ones among them, so that ties abound."""
    task, rows = asked

    def score(query, candidate):
        return values[hash((seed, *query, candidate)) % len(values)]

    def scorer(queries, candidates):
        ids = (
            np.arange(candidates.start, candidates.stop) if isinstance(candidates, slice) else candidates
        )
        ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
        return [
            [score(q, c) for c in one] for q, one in zip(queries.tolist(), ids.tolist(), strict=True)
        ]

    with ways(data.draw):
        got = counts(rank(scorer, task, kernels=kernels)).T.tolist()
    assert got == [list(oracle.rank(score, *row[1:])) for row in rows]


class Small:
    """Factors of small integers, for each side; exact ties abound."""

    def __init__(self, form, task, width, seed, dtype, scale):
        rng = np.random.default_rng(seed)
        self.form, self.mix = form, rng.integers(0, 5, (3, width))
        self.tables = {
            part.side: (rng.integers(-2, 3, (part.size, width)) * scale).astype(dtype)
            for part in task.parts
        }
        self.scale = scale

    def vectors(self, queries):
        return ((queries @ self.mix) % 5 - 2) * self.scale

    def factored(self, side):
        return er.Factored(self.form, self.tables[side], self.vectors)

    def score(self, side):
        def score(query, candidate):
            vector = self.vectors(np.array([query]))[0].tolist()
            return oracle.definition(self.form, vector, self.tables[side][candidate].tolist())

        return score


@given(
    strategies.tasks(),
    st.sampled_from(FORMS),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1.0, 2.0**-100, 1 / 3]),
    st.sampled_from(KERNELS),
    st.data(),
)
@settings(max_examples=250)
def test_factored_scores_against_the_oracle(asked, form, d, seed, dtype, scale, kernels, data):
    """Scores by definition, in Python's floats, decide; a third is not a float, so that sums round."""
    task, rows = asked
    model = Small(form, task, 2 * d if form == "modulus" else d, seed, dtype, scale)
    got = []
    for part in task.parts:
        with ways(data.draw):
            threads = data.draw(st.sampled_from([1, 3]))
            factors = model.factored(part.side)
            ranks = rank(factors, replace(task, parts=(part,)), kernels=kernels, threads=threads)
        got += counts(ranks).T.tolist()
        assert ranks.protocol.scores == "float64, certified"
    assert got == [list(oracle.rank(model.score(row.side), *row[1:])) for row in rows]


# The same bits ------------------------------------------------------------------------------------

WIDTH = 72  # more than a kernel sums at a time, and no multiple of it


def clustered(rng, rows, width):
    """Rows like those of a trained model: few directions, norms from small to large, some twice."""
    table = rng.standard_normal((11, width))[rng.integers(11, size=rows)]
    table += 0.1 * rng.standard_normal(table.shape)
    table *= rng.choice([1e-3, 1, 1, 1, 30], (rows, 1))
    table = table.astype(np.float32)
    table[rows // 2 : rows // 2 + rows // 10] = table[: rows // 10]
    return table


@cache
def planted(form):
    """A table, query vectors and a task whose targets tie, or miss a tie by a last bit.

    Neighbouring entries of a query are the same, so that a row with two neighbours exchanged has the
    same score, but for rounding.
    """
    rng = np.random.default_rng(1)
    table = clustered(rng, 1103, WIDTH)
    vectors = np.repeat(rng.standard_normal((1000, WIDTH // 2)), 2, axis=1)
    targets = rng.integers(0, 110, (1000, 2))
    first = slice(0, 110)  # exchange the first two entries (of both parts) and store beside the original
    swapped = table[first].copy()
    for at in (0, WIDTH // 2):
        swapped[:, [at, at + 1]] = swapped[:, [at + 1, at]]
    table[-110:] = swapped
    if form != "dot":  # near the targets, where distances are small
        near = np.repeat(table[targets[:, 0], ::2], 2, axis=1)
        vectors = near + 1e-3 * vectors
    known = rng.integers(0, [1000, 1103], (3000, 2))
    task = er.Task.of(
        np.repeat(np.arange(1000), 2), targets.ravel(), size=1103, known=(known[:, :1], known[:, 1])
    )
    return table, vectors, task


def factored(form, table=None):
    mine, vectors, _ = planted(form)
    return er.Factored(form, mine if table is None else table, lambda queries: vectors[queries[:, 0]])


@cache
def reference(form):
    return counts(rank(factored(form), planted(form)[2], kernels="numpy"))


@pytest.mark.parametrize("form", FORMS)
def test_reference_is_the_oracles(form):
    table, vectors, task = planted(form)
    part = task.parts[0]
    for query in range(0, 1000, 125):
        vector = vectors[query].tolist()
        scores = [oracle.definition(form, vector, row) for row in table.astype(float).tolist()]
        for at in (2 * query, 2 * query + 1):
            want = oracle.rank(
                lambda _, c, scores=scores: scores[c],
                (query,),
                int(part.targets[np.flatnonzero(part.place == at)[0]]),
                part.known[query].tolist(),
                range(1103),
            )
            assert tuple(reference(form)[:, at]) == want


@pytest.mark.parametrize("form", FORMS)
def test_examples_contain_ties_and_near_ties(form):
    """Otherwise the tests below would prove little."""
    table, vectors, task = planted(form)
    part = task.parts[0]
    _, equal, _ = reference(form)
    assert (equal > 0).mean() > 0.5
    narrow, wide = table.astype(np.float32), table.astype(float)
    apart, lost = 0, 0
    for query in range(0, 1000, 20):
        mine = slice(part.first[query], part.first[query + 1])
        exact = NUMPY.score(form, vectors[query], wide)
        plain = NUMPY.score(form, vectors[query].astype(np.float32), narrow)
        assert plain.dtype == np.float32
        others = np.setdiff1d(np.arange(1103), part.known[query])
        for target in part.targets[mine]:
            goal = exact[target]
            apart += ((exact != goal) & (np.abs(exact - goal) <= 4 * np.spacing(abs(goal)))).sum()
            lost += (exact[others] > goal).sum() != (plain[others] > plain[target]).sum()
    assert apart > 10  # scores a few units in the last place of float64 from a target's
    assert lost > 10  # ranks that plain float32 gets wrong


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", KERNELS)
def test_kernels_and_types_do_not_matter(form, kernels):
    """Every instruction set, float32 or float64, rows or columns side by side."""
    table, _, task = planted(form)
    kinds = [table.astype(float), np.asfortranarray(table), np.repeat(table, 2, axis=0)[::2], table]
    for held in kinds[: 1 if kernels == "numpy" else 4]:  # NumPy's own are the reference
        ranks = rank(factored(form, held), task, kernels=kernels)
        assert np.array_equal(counts(ranks), reference(form))
        assert ranks.work.kernels == kernels
        assert ranks.work.scores == 1000 * 1103


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [5, 95, 96, 97, 383, 384, 385, 800])
@pytest.mark.parametrize("width", [6, 700])
def test_many_answers_of_a_query(form, size, width):
    """Spans of several panels, whole and cut, are counted at once; a wide table has shorter ones."""
    rng = np.random.default_rng(size)
    table = clustered(rng, size, width)
    if size % 2:
        table[rng.integers(size)] *= np.float32(1e33)  # float32 could overflow in its span
    vectors = table[rng.integers(size, size=30)].astype(float)
    query = np.repeat(np.arange(30), rng.integers(1, 60, 30))
    known = rng.integers(0, [30, size], (200, 2))
    task = er.Task.of(
        query[:, None],
        rng.integers(size, size=len(query)),
        size=size,
        known=(known[:, :1], known[:, 1]),
    ).together()
    model = er.Factored(form, table, lambda queries: vectors[queries[:, 0]])
    want = counts(rank(model, task, kernels="numpy"))
    for kernels in available():
        assert np.array_equal(counts(rank(model, task, kernels=kernels)), want)
    part = task.parts[0]
    scores = [oracle.definition(form, vectors[0].tolist(), row) for row in table.astype(float).tolist()]
    for at in range(part.first[1]):
        row = oracle.rank(
            lambda _, c: scores[c],
            (0,),
            int(part.targets[at]),
            part.known[0].tolist(),
            range(size),
        )
        assert tuple(want[:, part.place[at]]) == row


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("memory", ["1MiB", "3MiB", "64MiB", None])
def test_memory_and_threads_do_not_matter(form, threads, memory):
    ranks = rank(factored(form), planted(form)[2], memory=memory, threads=threads)
    assert np.array_equal(counts(ranks), reference(form))


@pytest.mark.parametrize("form", FORMS)
def test_numpy_in_small_pieces(form):
    with mock.patch.object(NUMPY, "CELLS", 50_000):
        ranks = rank(factored(form), planted(form)[2], kernels="numpy", memory="1MiB", threads=5)
    assert np.array_equal(counts(ranks), reference(form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", KERNELS)
def test_lists_of_all_candidates_are_all_candidates(form, kernels):
    """The same counts by way of a shared list (rows gathered once) and of single ones (pair by pair)."""
    _, _, task = planted(form)
    part = task.parts[0]
    few = slice(0, part.first[100])
    for group, size in ((np.zeros(100, int), 1), (np.arange(100), 100)):
        listed = er.Task.of(
            part.queries[:100][part.query_of[few]],
            part.targets[few],
            size=1103,
            known=(part.queries[part.known.owner], part.known.values),
            candidates=[np.arange(1103)[::-1]] * size,
            group=group[part.query_of[few]],
        )
        for memory in ("1MiB", None):
            got = counts(rank(factored(form), listed, kernels=kernels, memory=memory))
            assert np.array_equal(got, reference(form)[:, part.place[few]])


def arrays(name, relations, rng):
    """Return a model's arrays, float32, clustered, with duplicate entities."""
    entities, d = 500, 20 if name in ("TuckER", "RESCAL") else 70
    entity = clustered(rng, entities, d)
    relation = rng.standard_normal((relations, d)).astype(np.float32)
    tail = entity[:, ::-1] * np.float32(0.5)
    return {
        "TransE": {"entity": entity, "relation": relation},
        "RotatE": {"entity": entity, "relation": relation[:, : d // 2]},
        "DistMult": {"entity": entity, "relation": relation},
        "ComplEx": {"entity": entity, "relation": relation},
        "TuckER": {
            "entity": entity,
            "relation": relation[:, :13],
            "core": rng.standard_normal((d, 13, d)).astype(np.float32),
            "norm_in": rng.standard_normal((2, d)).astype(np.float32),
            "norm_out": rng.standard_normal((2, d)).astype(np.float32),
        },
        "RESCAL": {
            "entity": entity,
            "relation": rng.standard_normal((relations, d, d)).astype(np.float32),
        },
        "SimplE": {"head": entity, "tail": tail, "relation": relation, "backward": relation[::-1] * 2},
        "CP": {"head": entity, "tail": tail, "relation": relation},
    }[name]


@pytest.mark.parametrize("inverse", CONVENTIONS)
@pytest.mark.parametrize("name", er.models.NAMED)
def test_models_have_the_same_bits_too(name, inverse):
    """Query vectors, too, are the same for any batch, order of queries, memory and type."""
    rng = np.random.default_rng(2)
    triples = rng.integers(0, [500, 4, 500], (600, 3))
    triples[:, 2] %= 60  # duplicate entities
    order = rng.permutation(600)
    tasks = [
        er.Graph.of({"train": triples[:5], "test": test}, entities=500, relations=4).task(
            sides=["tail", "head", "relation"]
        )
        for test in (triples, triples[order])
    ]
    held = arrays(name, 8 if inverse else 4, rng)
    options = {"p": 2} if (name, inverse) == ("TransE", "stacked") else {}
    kind = er.models.NAMED[name]
    model = kind(**held, inverse=inverse, **options)
    wide = kind(**{k: v.astype(float) for k, v in held.items()}, inverse=inverse, **options)
    fortran = kind(**{k: np.asfortranarray(v) for k, v in held.items()}, inverse=inverse, **options)
    want = counts(rank(model, tasks[0], kernels="numpy"))
    assert (want[1] > 0).sum() > 300  # ties, as planted
    places = np.concatenate([order, 600 + order, 1200 + order])
    assert np.array_equal(counts(rank(model, tasks[1], threads=5)), want[:, places])
    for kernels in available():
        assert np.array_equal(counts(rank(model, tasks[0], kernels=kernels)), want)
    assert np.array_equal(counts(rank(wide, tasks[0], memory="1MiB", threads=1)), want)
    assert np.array_equal(counts(rank(fortran, tasks[0], memory="3MiB")), want)
    with mock.patch.multiple(COUNT, CHUNK=12, BATCH=24):
        assert np.array_equal(counts(rank(model, tasks[0], threads=2)), want)


# Bounds -------------------------------------------------------------------------------------------

SCALES = {
    np.float32: [1e-45, 1e-42, 1e-38, 1e-30, 1e-10, 1, 1e10, 1e20, 1e30, 1e37, 3e38],
    np.float64: [1e-320, 1e-200, 1e-150, 1e-42, 1e-38, 1e-30, 1, 1e20, 1e30, 1e37, 1e40, 1e150, 1e300],
}


@st.composite
def hostile(draw):
    """Tables and queries that float32 cannot resolve, of scales at which it overflows and underflows."""
    form, dtype = draw(st.sampled_from(FORMS)), draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, queries, d = (
        draw(st.integers(1, 70)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from([1, 2, 7, 66])),
    )
    width = 2 * d if form == "modulus" else d
    scales = SCALES[dtype]
    table, vectors = rng.standard_normal((rows, width)), rng.standard_normal((queries, width))
    shape = draw(st.sampled_from([(1, 1), (rows, 1), (rows, width)]))
    kind = draw(st.sampled_from(["plain", "whole", "clustered", "cancelling"]))
    with np.errstate(all="ignore"):
        if kind == "whole":
            table, vectors = np.rint(table), np.rint(vectors)
        if kind == "clustered":  # a last bit or two of float32 apart
            table = table[rng.integers(min(3, rows), size=rows)]
            table *= 1 + 2.0**-23 * rng.integers(-2, 3, table.shape)
        table *= rng.choice(scales, shape)
        table[rng.random(table.shape) < draw(st.sampled_from([0, 0.3]))] = 0
        if kind == "cancelling":  # the second half takes back what the first half adds
            table[:, width // 2 :] = -table[:, : width - width // 2]
        vectors *= rng.choice(
            SCALES[np.float64], draw(st.sampled_from([(1, 1), (queries, 1), vectors.shape]))
        )
        if kind == "cancelling":
            vectors[:, width // 2 :] = vectors[:, : width - width // 2] * (1 + 1e-12)
        table = table.astype(dtype)
        if draw(st.booleans()):  # next to a candidate
            vectors = table[rng.integers(rows, size=queries)] * (1 + 1e-8 * vectors.clip(-1, 1))
    if draw(st.booleans()):  # twice
        table[rng.integers(rows, size=rows // 3)] = table[rng.integers(rows)]
    if not draw(st.integers(0, 3)):  # infinite; legal where no score is NaN
        table[rng.random(table.shape) < 0.02] = draw(st.sampled_from([np.inf, -np.inf]))
    targets = rng.integers(rows, size=(queries, 3))
    return form, table, np.asarray(vectors, dtype=float), targets


BEYOND = [  # what float32 cannot hold, but products and moduli can
    ("dot", np.array([[1e-30], [2e-30]], np.float32), np.array([[1e40]]), np.array([[0, 1]])),
    ("dot", np.array([[1e40], [2e40]]), np.array([[1e-30]]), np.array([[0, 1]])),
    ("modulus", np.array([[1e20, 0], [3e20, 0]], np.float32), np.array([[0.0, 0]]), np.array([[0, 1]])),
]


@given(hostile())
@settings(max_examples=400)
@example(BEYOND[0])
@example(BEYOND[1])
@example(BEYOND[2])
def test_hostile_numbers_against_the_oracle(case):
    """Overflow, underflow, cancellation, infinity: every kernel agrees with Python's floats."""
    form, table, vectors, targets = case
    task = er.Task.of(
        np.repeat(np.arange(len(vectors)), targets.shape[1]), targets.ravel(), size=len(table)
    )
    scores = [[oracle.definition(form, q, e) for e in table.tolist()] for q in vectors.tolist()]
    model = er.Factored(form, table, lambda queries: vectors[queries[:, 0]])
    if np.isnan(scores).any():
        for kernels in KERNELS:
            with raises(r"scores contain NaN \(query"):
                rank(model, task, kernels=kernels, threads=1)
        return
    want = [
        list(oracle.rank(lambda query, c: scores[query[0]][c], (q,), int(t), (), range(len(table))))
        for q, mine in enumerate(targets)
        for t in mine
    ]
    for kernels in KERNELS:
        got = counts(rank(model, task, kernels=kernels, threads=1)).T.tolist()
        assert got == want, kernels


def errors(form, kernels, vectors, table):
    """Return how far float32 scores are from the exact ones, as a share of what the bounds allow."""
    queries, rows, d = len(vectors), len(table), table.shape[1] // (2 if form == "modulus" else 1)
    exact = np.array([NUMPY.score(form, vector, table.astype(float)) for vector in vectors])
    owner = np.repeat(np.arange(queries), rows)
    limits = bounds(form, d, vectors, table, owner, exact.ravel())
    low, high = limits.low.reshape(exact.shape), limits.high.reshape(exact.shape)
    more = limits.slope[:, None] * limits.weight
    with mock.patch.dict(os.environ, {"EVENRANK_KERNELS": kernels}):
        apart = native_kernels().dense(form, vectors, table).astype(float) - exact
    return np.where(apart > 0, apart / (high + more - exact), apart / (low - more - exact))


@pytest.mark.parametrize(
    "form", ["dot", "l1", "l2"]
)  # moduli are rounded otherwise where they are counted
@pytest.mark.parametrize("kernels", available())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_hold_where_errors_add_up(form, kernels, dtype):
    """Rounding that always goes the same way: inputs just off a float32, and sums that lose the most."""
    rng = np.random.default_rng(0)
    small = rng.standard_normal((200, 130)).astype(dtype)
    assert errors(form, kernels, rng.standard_normal((50, 130)), small).max() < 1
    worst = 0
    for bits in range(14, 25):
        # 1 + a bit less than half a unit of the sum so far, which is lost when it is added
        term = 1 + 2.0**-bits * (1 - 2.0 ** (bits - 25))
        row = np.full((1, 128), np.sqrt(term) if form == "l2" else term).astype(dtype)
        vector = np.full((1, 128), 1 + 0.49 * 2.0**-23) if form == "dot" else np.zeros((1, 128))
        share = errors(form, kernels, vector, row).item()
        assert share < 1
        worst = max(worst, share)
    assert worst > 0.1  # the bounds are not much larger than they must be


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_leave_few_pairs_undecided(form, kernels, dtype):
    """Bounds that decided nothing would be right, and useless."""
    rng = np.random.default_rng(4)
    table, vectors = rng.standard_normal((2000, 100)).astype(dtype), rng.standard_normal((200, 100))
    task = er.Task.of(np.arange(200), rng.integers(2000, size=200), size=2000)
    work = rank(
        er.Factored(form, table, lambda queries: vectors[queries[:, 0]]), task, kernels=kernels
    ).work
    assert work.scores == 200 * 2000
    assert 200 <= work.undecided < 0.01 * work.scores  # targets equal themselves, so there are some


# Known answers and numbers of candidates ----------------------------------------------------------


@pytest.mark.parametrize("filters", ["all", ["train"], None])
def test_known_answers_on_a_larger_graph(filters):
    """Hubs, repeated triples and popular relations, against a dense mask and dense scores."""
    rng = np.random.default_rng(5)
    entities, relations = 400, 12
    weight = 1 / np.arange(1, entities + 1)

    def triples(count):
        h, t = (rng.choice(entities, count, p=weight / weight.sum()) for _ in "ht")
        return np.stack([h, rng.choice(relations, count), t], axis=1)

    splits = {"train": triples(9000), "valid": triples(500), "test": triples(800)}
    graph = er.Graph.of(splits, entities=entities, relations=relations)
    cube = np.zeros((entities, relations, entities), dtype=bool)
    for name in splits if filters == "all" else filters or ():
        cube[tuple(splits[name].T)] = True
    scores = rng.integers(0, 30, (entities, relations, entities)).astype(float)

    def scorer(queries, candidates):
        h, r, t = queries.T
        return scores[h, r][:, candidates] if h[0] >= 0 else scores[:, r, t].T[:, candidates]

    h, r, t = splits["test"].T
    want = er.Ranks.from_scores(
        np.concatenate([scores[h, r], scores[:, r, t].T]),
        np.concatenate([t, h]),
        np.concatenate([cube[h, r], cube[:, r, t].T]),
    )
    task = graph.task(filter=filters)
    for kernels in KERNELS:
        assert np.array_equal(counts(rank(scorer, task, kernels=kernels, memory="1MiB")), counts(want))
    assert np.array_equal(task.candidates, want.candidates)
    assert task.parts[0].scores < 0.9 * 800 * entities  # distinct queries are scored once


@pytest.mark.parametrize("dataset", ["nations", "kinships", "fb15k237", "wn18rr"])
def test_candidates_give_the_published_expected_mean_rank(dataset):
    """MR / AMR of the source paper is the mean rank by chance, and that is (candidates + 1) / 2."""
    task = er.load(shared.path(f"datasets/{dataset}"), unseen="drop").task("test")
    tail, head = np.split(task.candidates, 2)
    sides = {"tail": tail, "head": head, "both": task.candidates}
    told = shared.expected_mean_ranks(dataset)
    assert {side for side, _, _ in told} == {*sides}
    for side, count, chance in told:
        assert chance == pytest.approx((sides[side].mean() + 1) / 2, rel=2.0**-22)
        assert count == len(sides[side])


# Any scorer ---------------------------------------------------------------------------------------


def remainder(queries, candidates):
    """Whole scores with ties; queries of one column."""
    ids = np.arange(candidates.start, candidates.stop) if isinstance(candidates, slice) else candidates
    return (queries[:, :1] * 31 + ids * 17) % 11


class Held:
    def score(self, queries, candidates):
        return remainder(queries, candidates)


class Tensor:
    """What is needed of a torch tensor."""

    def __init__(self, values, dtype="torch.float32", steps=""):
        self._values, self.dtype, self._steps = values, dtype, steps

    def detach(self):
        return Tensor(self._values, self.dtype, "detached")

    def float(self):
        return Tensor(self._values, "torch.float32", self._steps)

    def cpu(self):
        return Tensor(self._values, self.dtype, self._steps + " here")

    def numpy(self):
        assert (self._steps, self.dtype) == ("detached here", "torch.float32")
        return np.asarray(self._values, dtype=np.float32)


TASK = er.Task.of(
    np.arange(50) % 40, np.arange(50) % 23, size=30, known=(np.arange(40), np.arange(40) % 7)
)
KINDS = {
    "object": Held(),
    "function": remainder,
    "lists": lambda q, c: remainder(q, c).tolist(),
    "tensor": lambda q, c: Tensor(remainder(q, c)),
    "bfloat16": lambda q, c: Tensor(remainder(q, c), "torch.bfloat16"),
    "fortran": lambda q, c: np.asfortranarray(remainder(q, c)),
    "wide": lambda q, c: remainder(q, c).astype(np.longdouble),
    **{
        name: lambda q, c, name=name: remainder(q, c).astype(name)
        for name in ("f2", "f4", "f8", ">f4", ">f8", "i1", "u1", "i4", "u8")
    },
}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_scorers_and_scores(kind, kernels):
    want = [
        oracle.rank(lambda q, c: (q[0] * 31 + c * 17) % 11, (i % 40,), i % 23, (i % 40 % 7,), range(30))
        for i in range(50)
    ]
    ranks = rank(KINDS[kind], TASK, kernels=kernels)
    assert list(map(tuple, counts(ranks).T.tolist())) == want
    assert ranks.protocol.scores == "as given"
    assert ranks.work.undecided == 0


def test_booleans_are_scores():
    ranks = rank(lambda q, c: remainder(q, c) > 4, TASK)
    want = rank(lambda q, c: (remainder(q, c) > 4) * 1.0, TASK)
    assert np.array_equal(counts(ranks), counts(want))
    assert want.equal.max() > 0


def test_large_integer_scores_are_compared_as_integers():
    """2^53 + 1 is no float64."""
    ranks = rank(lambda q, c: np.array([[2**53, 2**53 + 1, 0]]), er.Task.of([0, 0], [0, 1], size=3))
    assert (ranks.better.tolist(), ranks.equal.tolist()) == ([1, 0], [0, 0])


@pytest.mark.parametrize("kernels", KERNELS)
def test_pieces_of_a_row_may_have_different_types(kernels):
    """Whole numbers in one piece, fractions in the next, as lists may hold them."""
    size, targets = 200_000, [3, 150_001, 70_000]

    pieces = {}

    def scorer(queries, candidates):
        scores = remainder(queries, candidates) + 0.25 * (
            np.arange(candidates.start, candidates.stop) % 3
        )
        kind = (np.int64, np.float32, np.float64)[candidates.start // 65_536 % 3]
        pieces[candidates.start] = scores.astype(kind)
        return pieces[candidates.start]

    ranks = rank(scorer, er.Task.of([0] * 3, targets, size=size), memory="1MiB", kernels=kernels)
    assert len({piece.dtype for piece in pieces.values()}) == 3
    row = np.concatenate([pieces[start][0] for start in sorted(pieces)])
    assert len(row) == size
    assert ranks.better.tolist() == [(row > row[t]).sum() for t in targets]
    assert ranks.equal.tolist() == [(row == row[t]).sum() - 1 for t in targets]


def test_scorers_get_slices_vectors_or_matrices_of_candidates():
    """All candidates: slices. Shared lists: vectors. Lists of their own: matrices. Nothing more."""
    calls = []

    def scorer(queries, candidates):
        calls.append((queries[:, 0].tolist(), candidates))
        return remainder(queries, candidates)

    def asked():
        got = [(q, ids.tolist() if isinstance(ids, np.ndarray) else ids) for q, ids in calls]
        calls.clear()
        return got

    rank(scorer, er.Task.of([3, 4, 3], [0, 1, 2], size=9))
    assert asked() == [([3, 4], slice(0, 9))]
    rank(
        scorer, er.Task.of([3, 4, 5], [0, 1, 2], size=9, candidates=[[2, 1, 0], [8, 2]], group=[0, 0, 1])
    )
    assert asked() == [([3, 4], [0, 1, 2]), ([5], [[2, 8]])]
    rank(scorer, er.Task.of([3, 4, 5], [0, 1, 2], size=9, candidates=[[0, 7], [1, 8], [2, 3, 4]]))
    assert asked() == [([3, 4], [[0, 7], [1, 8]]), ([5], [[2, 3, 4]])]
    # a target outside its list is asked for beside it
    rank(scorer, er.Task.of([3, 4], [6, 0], size=9, candidates=[[0, 1]], group=[0, 0], outside="add"))
    assert asked() == [([3, 4], [0, 1, 6])]


@given(strategies.tasks(kinds=("typed", "relation", "triple", "sampled")))
def test_restricted_tasks_score_only_their_candidates(asked):
    task, rows = asked
    allowed = {}  # per query its lists, and the targets of all who share one of these
    for row in rows:
        sharing = {o.target for o in rows if (o.side, o.candidates) == (row.side, row.candidates)}
        allowed.setdefault((row.side, row.query), set()).update(row.candidates | sharing)

    def scorer(side):
        def score(queries, candidates):
            assert isinstance(candidates, np.ndarray)
            ids = np.broadcast_to(candidates, (len(queries), candidates.shape[-1]))
            for query, some in zip(queries.tolist(), ids.tolist(), strict=True):
                assert set(some) <= allowed[side, tuple(query)]
                assert len(set(some)) == len(some)
            return np.zeros(ids.shape)

        return score

    for part in task.parts:
        ranks = rank(scorer(part.side), er.Task((part,)))
        assert (ranks.equal == ranks.candidates - 1).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", KERNELS)
def test_inexact_ranking(form, kernels):
    """Plain scores, compared as they come: the same where no sum rounds."""
    rng = np.random.default_rng(6)
    table, vectors = rng.integers(-3, 4, (60, 8)).astype(np.float32), rng.integers(-3, 4, (40, 8)) * 1.0
    if form == "modulus":  # whole moduli
        table[:, 4:], vectors[:, 4:] = 0, 0
    model = er.Factored(form, table, lambda queries: vectors[queries[:, 0]])
    targets = rng.integers(60, size=40)
    for candidates in (None, [[*range(0, 60, 2), t] for t in targets]):
        task = er.Task.of(np.arange(40), targets, size=60, candidates=candidates)
        plain, exact = (rank(model, task, kernels=kernels, exact=exact) for exact in (False, True))
        assert np.array_equal(counts(plain), counts(exact))
        assert exact.equal.any()
        assert (plain.protocol.scores, plain.work.undecided) == ("float32", 0)


# Bad input ----------------------------------------------------------------------------------------


def broken(result):
    return lambda queries, candidates: result


LISTED = er.Task.of([7, 8], [0, 1], size=3, candidates=[[0, 1], [1, 2]])
PLAIN = er.Task.of([[7], [8]], [0, 1], size=3)
GRAPH = er.Graph.of([[0, 0, 1], [1, 1, 2]], test=[[0, 0, 2], [1, 1, 0]])
DIST = er.models.DistMult
BAD_CALLS = [
    (
        lambda: rank(lambda q, c: np.ones((len(q), 3), dtype=complex), GRAPH.task()),
        ["scores must be real numbers; got complex numbers"],
    ),
    (
        lambda: rank(
            er.models.TripleScorer(lambda h, r, t: (h + r + t) * (1 + 0j), name="me"), GRAPH.task()
        ),
        ["the scores of me must be real numbers; got complex numbers, which have no order; pass their"],
    ),
    (
        lambda: rank(lambda q, c: np.ones((len(q), 3), dtype=complex), GRAPH.task(protocol="dgl-ke")),
        ["scores must be real numbers; got complex numbers"],
    ),
    (
        lambda: rank(broken(np.zeros((2, 2))), PLAIN),
        ["wrong shape", r"\(2, 2\)", r"\(2, 3\): a row per"],
    ),
    (lambda: rank(broken(np.zeros(3)), PLAIN), ["a scorer returned the wrong shape", r"\(3,\)"]),
    (lambda: rank(broken(None), PLAIN), ["a scorer returned the wrong shape"]),
    (lambda: rank(broken([["a"] * 3] * 2), PLAIN), ["a scorer must return numbers", "<U1"]),
    (lambda: rank(broken([[1j] * 3] * 2), PLAIN), ["scores must be real numbers", "complex"]),
    (lambda: rank(broken([[None] * 3] * 2), PLAIN), ["a scorer must return numbers", "object"]),
    (lambda: rank(broken(np.zeros((2, 3))), LISTED), ["a scorer returned the wrong shape", r"\(2, 2\)"]),
    (lambda: rank(remainder, "test"), ["rank needs a Task", "got str", "graph.task"]),
    (
        lambda: rank(3, PLAIN),
        ["not a model", "got int", "a function of queries and candidates"],
    ),
    (lambda: rank(remainder, PLAIN, exact="no"), ["exact must be True or False; got 'no'"]),
    (lambda: rank(remainder, PLAIN, device="tpu"), ["device", "'tpu'"]),
    (lambda: rank(remainder, PLAIN, kernels="mmx"), ["EVENRANK_KERNELS", "mmx", "numpy"]),
    (lambda: rank(remainder, er.Task(())), ["a task needs at least one side"]),
    *[
        (
            lambda memory=memory: rank(remainder, PLAIN, memory=memory),
            ["memory must be a size", "1 MiB", "500MB"],
        )
        for memory in ("lots", "10 PB", "", "-3GB", 0, 1000, "nanMB", float("inf"), True)
    ],
    *[
        (
            lambda threads=threads: rank(remainder, PLAIN, threads=threads),
            ["threads must be a positive integer"],
        )
        for threads in (0, -1, 1.5, "2", True)
    ],
    (
        lambda: er.Factored("cosine", np.ones((3, 2)), remainder),
        ["unknown form", "'cosine'", "dot, l1, l2"],
    ),
    (lambda: er.Factored("dot", np.ones(3), remainder), ["a row of numbers per candidate", r"\(3,\)"]),
    (lambda: er.Factored("dot", np.ones((0, 3)), remainder), ["a row of numbers per candidate"]),
    (
        lambda: er.Factored("modulus", np.ones((3, 5)), remainder),
        ["real parts and imaginary", r"\(3, 5\)"],
    ),
    (lambda: er.Factored("dot", [["a"]], remainder), ["the table of candidates must be numbers"]),
    (
        lambda: rank(er.Factored("dot", np.ones((3, 2)), lambda q: np.ones((len(q), 3))), PLAIN),
        ["query vectors have the wrong shape", r"\(2, 3\)", r"\(2, 2\)"],
    ),
    (
        lambda: rank(er.Factored("dot", np.ones((3, 2)), lambda q: [["a", "b"]] * len(q)), PLAIN),
        ["query vectors must be numbers"],
    ),
    (
        lambda: rank(er.Factored("dot", np.ones((4, 2)), remainder), PLAIN),
        ["the model has 4 candidates on side answer, the task 3"],
    ),
    (
        lambda: rank(DIST(np.ones((2, 2)), np.ones((2, 2))), GRAPH.task()),
        ["the model has 2 candidates on side tail, the task 3", "unseen='drop'"],
    ),
    (
        lambda: rank(DIST(np.ones((2, 2)), np.ones((2, 2))), GRAPH.task(), exact=False),
        ["the model has 2 candidates on side tail, the task 3"],
    ),
    (
        lambda: rank(DIST(np.ones((5, 2)), np.ones((2, 2))), GRAPH.task(sides="pair")),
        ["the model has 25 candidates on side pair, the task 9"],
    ),
    (
        lambda: rank(DIST(np.ones((3, 2)), np.ones((1, 2))), GRAPH.task()),
        ["relation 1 is not in the model", "a model of 1, numbered from 0"],
    ),
    (
        lambda: rank(DIST(np.ones((3, 2)), np.ones((1, 2))), GRAPH.task(sides="relation")),
        ["the model has 1 candidates on side relation, the task 2"],
    ),
    (
        lambda: rank(
            DIST(np.ones((3, 2)), np.ones((1, 2))), er.Task.of([[5, 0, -1]], [0], size=3, side="tail")
        ),
        ["entity 5 is not in the model"],
    ),
    (
        lambda: rank(
            DIST(np.ones((3, 2)), np.ones((1, 2))), er.Task.of([[-1, 0, -1]], [0], size=3, side="tail")
        ),
        ["entity -1 is not in the model"],
    ),
    (
        lambda: rank(
            DIST(np.ones((3, 2)), np.ones((1, 2))), er.Task.of([[0, 0]], [0], size=3, side="tail")
        ),
        ["three columns"],
    ),
]


@pytest.mark.parametrize(("call", "parts"), BAD_CALLS, ids=range(len(BAD_CALLS)))
def test_bad_calls(call, parts):
    with raises(*parts):
        call()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_is_named(kernels, dtype):
    """A NaN raises for any position and any kernel."""
    queries = np.arange(40)
    named = [r"scores contain NaN \(query \(33\), candidate 51\)", "check the model's parameters"]

    def scorer(queries, candidates):
        ids = (
            np.arange(candidates.start, candidates.stop) if isinstance(candidates, slice) else candidates
        )
        bad = (queries[:, :1] == 33) & (ids == 51)
        return np.where(bad, np.nan, remainder(queries, candidates)).astype(dtype)

    shared_list, own = np.arange(45, 60), [np.arange(45, 60 + i % 2) for i in queries]
    for targets in (np.full(40, 51), np.full(40, 50)):
        tasks = (
            er.Task.of(queries, targets, size=70),
            er.Task.of(queries, targets, size=70, known=(queries, np.full(40, 51))),
            er.Task.of(queries, targets, size=70, candidates=[shared_list], group=np.zeros(40, int)),
            er.Task.of(queries, targets, size=70, candidates=own),
        )
        for task in tasks:
            with raises(*named):
                rank(scorer, task, kernels=kernels)
            for form in FORMS:
                # only query 33 is finite where candidate 51 is not: 0 x inf, or inf - inf
                table = np.ones((70, 70), dtype)
                table[51, :] = np.inf
                vectors = np.ones((40, 70))
                vectors[33, 5] = 0 if form == "dot" else np.inf
                model = er.Factored(form, table, lambda q, vectors=vectors: vectors[q[:, 0]])
                with raises(*named):
                    rank(model, task, kernels=kernels)


def test_nan_in_parameters():
    """A diverged model raises on every side."""
    for name in er.models.NAMED:
        held = {k: v.copy() for k, v in arrays(name, 4, np.random.default_rng(0)).items()}
        table = "head" if name in ("CP", "SimplE") else "entity"
        held[table][7] = np.nan
        model = er.models.NAMED[name](**held)
        graph = er.Graph.of([[0, 0, 1]], test=[[3, 1, 4]], entities=500, relations=4)
        side = "head" if name in ("CP", "SimplE") else "tail"
        with raises("scores contain NaN", "candidate 7"):
            rank(model, graph.task(sides=side))
        with raises("scores contain NaN"):
            rank(model, graph.task(sides=side), exact=False)


def test_infinite_scores_count_as_candidates():
    """Elsewhere they are lost."""
    scores = np.array([[np.inf, 1, -np.inf, np.inf, -np.inf]])
    ranks = rank(lambda q, c: scores, er.Task.of([0] * 3, [1, 0, 2], size=5))
    assert counts(ranks).T.tolist() == [[2, 0, 5], [0, 1, 5], [3, 1, 5]]


# Out of memory, interrupts -------------------------------------------------------------------


class OutOfMemoryError(RuntimeError):
    """As torch has it."""


@pytest.mark.parametrize("error", [MemoryError, OutOfMemoryError])
@pytest.mark.parametrize("size", [14, 3000])
def test_out_of_memory_halves_the_batch(error, size):
    queries = np.arange(700)
    task = er.Task.of(queries, queries % size, size=size)
    want = counts(rank(remainder, task))
    largest = []

    def scorer(queries, candidates):
        if len(queries) > 100:
            raise error("no room")
        largest.append(len(queries))
        return remainder(queries, candidates)

    with pytest.warns(RuntimeWarning, match="out of memory; continuing with half"):
        ranks = rank(scorer, task)
    assert np.array_equal(counts(ranks), want)
    assert 50 < max(largest) <= 100  # halved until it fits, no further


def test_out_of_memory_in_query_vectors():
    """Also where several threads are at work; what was counted before is not counted twice."""
    form = "dot"
    table, vectors, task = planted(form)
    calls = iter(range(1000))

    def queries(batch):
        if next(calls) in (1, 2):
            raise MemoryError
        return vectors[batch[:, 0]]

    with pytest.warns(RuntimeWarning, match="out of memory"):
        ranks = rank(er.Factored(form, table, queries), task, threads=2)
    assert np.array_equal(counts(ranks), reference(form))


def full(queries, candidates=None):
    raise MemoryError("no room at all")


@pytest.mark.filterwarnings("ignore:out of memory")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "scorer", [full, er.Factored("dot", np.ones((3, 2)), full)], ids=["any", "factored"]
)
def test_out_of_memory_with_single_queries_raises(scorer, threads):
    with raises("out of memory, even in small pieces", "no room at all"):
        rank(scorer, PLAIN, threads=threads)


def test_other_errors_pass_through_or_are_the_cause():
    def scorer(queries, candidates):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        rank(er.Factored("dot", np.ones((3, 2)), lambda q: scorer(q, None)), PLAIN, threads=2)
    with raises("the model scorer raised ZeroDivisionError: mine", r"shape \(2, 1\)", "slice") as caught:
        rank(scorer, PLAIN, threads=2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("threads", [1, 4])
def test_interrupts_pass_through_and_leave_no_threads(threads):
    def stop(queries, candidates=None):
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    task = er.Task.of(np.arange(5000), np.zeros(5000, int), size=3)
    for scorer in (stop, er.Factored("dot", np.ones((3, 2)), stop)):
        with pytest.raises(KeyboardInterrupt):
            rank(scorer, task, threads=threads)
        assert set(threading.enumerate()) == before
    assert len(rank(remainder, task, threads=threads)) == 5000  # and nothing is broken
    assert set(threading.enumerate()) == before


# Memory -------------------------------------------------------------------------------------------


def peak(scorer, task, **options):
    """Return the most memory held at a time, in bytes, beyond what was there before."""
    tracemalloc.start()
    try:
        rank(scorer, task, memory="32MB", **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["dot", "l1", "any", "numpy"])
def test_memory_does_not_grow_with_the_entities(kind):
    """A hundred times the candidates, in the same working space."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((200, 8))
    peaks = []
    for size in (10**4, 10**6):
        table = rng.standard_normal((size, 8)).astype(np.float32)
        task = er.Task.of(np.arange(200), rng.integers(size, size=200), size=size)
        form = "l1" if kind == "l1" else "dot"
        model = er.Factored(form, table, lambda queries: vectors[queries[:, 0]])
        if kind == "any":
            model = lambda q, c, table=table: vectors[q[:, 0]].astype(np.float32) @ table[c].T  # noqa: E731
        peaks.append(peak(model, task, kernels="numpy" if kind == "numpy" else None))
    assert peaks[1] < 64e6
    assert peaks[1] - peaks[0] < 40e6


WRONG = [None, 3.5, [], [None], {}, {1: 2}, object(), b"x", (), "nope", np.zeros((2, 2)), -1]


@pytest.mark.parametrize(
    ("call", "fine"),
    [
        (lambda x: er.rank(x, PLAIN), ()),
        (lambda x: er.rank(remainder, x), ()),
        (lambda x: er.rank(remainder, PLAIN, device=x), (None,)),
        (lambda x: er.rank(remainder, PLAIN, memory=x), (None,)),
        (lambda x: er.rank(remainder, PLAIN, threads=x), (None,)),
        (lambda x: er.rank(remainder, PLAIN, exact=x), ()),
        (lambda x: er.rank(remainder, PLAIN, checkpoint=x), (None, "nope")),
        (lambda x: er.Factored(x, np.eye(2), remainder), ()),
        (lambda x: er.Factored("dot", x, remainder), (WRONG[-2],)),
        (lambda x: er.Factored("dot", np.eye(2), x), ()),
    ],
)
def test_arguments_of_the_wrong_type(call, fine):
    """An InputError of one line, not a TypeError from internal code."""
    for x in WRONG:
        if not any(x is value for value in fine):
            with pytest.raises(er.errors.InputError, match=r"^[^\n]+$"):
                call(x)
