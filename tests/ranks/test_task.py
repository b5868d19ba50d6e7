"""Tasks: queries and candidates by brute force, and ranks against the oracle."""

import pickle
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import evenrank as er
from evenrank.ranks.lists import Lists
from evenrank.ranks.sampling import sample
from evenrank.ranks.task import Task


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def score(query, candidate):
    """Seven scores, tied often."""
    return hash((*query, candidate, 5)) % 7


def scorer(queries, candidates):
    ids = np.arange(candidates.start, candidates.stop) if isinstance(candidates, slice) else candidates
    ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
    return np.array(
        [[score(q, c) for c in some] for q, some in zip(queries.tolist(), ids.tolist(), strict=True)]
    )


def check(task, rows, keys=None):
    """Compare a task, and its ranks, with rows of (query, target, known, candidates)."""
    want = [oracle.rank(score, *row) for row in rows]
    assert task.candidates.tolist() == [n for _, _, n in want]
    assert len(task) == len(rows)
    ranks = er.rank(scorer, task, progress=False)
    got = list(zip(ranks.better.tolist(), ranks.equal.tolist(), ranks.candidates.tolist(), strict=True))
    assert got == want
    for name, column in (keys or {}).items():
        assert ranks.keys[name].tolist() == column


# Task.of ------------------------------------------------------------------------------------------


@st.composite
def asked(draw):
    """Rows of queries of any width with targets, known answers, and perhaps lists of candidates."""
    width, size = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    number = st.sampled_from(draw(st.sampled_from([[-1, 0, 1], [0, 5], [-1, 0, 2**61, 2**62]])))
    answer = st.integers(0, size - 1)
    query = st.tuples(*[number] * width)
    rows = draw(st.lists(st.tuples(query, answer), min_size=1, max_size=12))
    known = draw(st.lists(st.tuples(query, answer), max_size=15))
    lists = draw(st.lists(st.lists(answer, min_size=1, max_size=8), min_size=1, max_size=4))
    group = [draw(st.integers(0, len(lists) - 1)) for _ in rows]
    return size, rows, known, lists, group


@given(asked(), st.sampled_from(["all", "grouped", "listed"]))
@settings(max_examples=200)
def test_task_of(case, kind):
    """Known answers, lists, and each distinct query once."""
    size, rows, known, lists, group = case
    queries, targets = zip(*rows, strict=True)
    others = {q: {a for p, a in known if p == q} for q in queries}
    mine = [set(lists[g]) for g in group]
    options = {
        "all": {},
        "grouped": {"candidates": lists, "group": group},
        "listed": {"candidates": [lists[g] for g in group]},
    }[kind]
    given_known = tuple(zip(*known, strict=True)) if known else None
    task = Task.of(queries, targets, size=size, known=given_known, outside="add", **options)
    everything = set(range(size))
    among = [everything] * len(rows) if kind == "all" else mine
    check(task, [(q, t, others[q], c) for (q, t), c in zip(rows, among, strict=True)])
    (part,) = task.parts
    held = {"all": queries, "grouped": list(zip(queries, group, strict=True))}
    if kind in held:
        assert len(part.queries) == len(set(held[kind]))
    assert set(map(tuple, part.queries.tolist())) == set(queries)
    if kind == "all":
        assert part.scores == len(set(queries)) * size
    inside = kind == "all" or all(t in c for (_, t), c in zip(rows, mine, strict=True))
    if inside:
        default = Task.of(queries, targets, size=size, known=given_known, **options)
        assert default.candidates.tolist() == task.candidates.tolist()
    else:
        with raises("a target is not among the candidates of its query", "outside='add'"):
            Task.of(queries, targets, size=size, known=given_known, **options)


def test_a_single_query_column_may_be_a_vector():
    task = Task.of([3, 3, 1], targets=[0, 1, 0], size=4)
    assert task.parts[0].queries.tolist() == [[1], [3]]


@given(strategies.tasks())
@settings(max_examples=150)
def test_tasks_of_graphs_have_each_distinct_query_once(case):
    """Heads, tails, relations and pairs: candidates by brute force, before anything is scored."""
    task, rows = case
    assert task.candidates.tolist() == [len(r.candidates - r.known - {r.target}) + 1 for r in rows]
    for part in task.parts:
        queries = [tuple(query) for query in part.queries.tolist()]
        mine = {row.query for row in rows if row.side == part.side}
        assert set(queries) == mine
        if part.lists is None:
            assert len(queries) == len(mine)
    assert len(task) == len(rows)


def test_keys_follow_the_targets():
    """Rows come back in the order they were asked in, not in that of the distinct queries."""
    triples = [[2, 0, 1], [0, 1, 2], [2, 0, 0], [0, 1, 1]]
    graph = er.Graph.of([[0, 0, 0]], test=triples, entities=list("abc"), relations=list("rs"))
    ranks = er.rank(scorer, graph.task(), progress=False)
    assert ranks.keys["head"].tolist() == ["c", "a", "c", "a"] * 2
    assert ranks.keys["relation"].tolist() == ["r", "s", "r", "s"] * 2
    assert ranks.keys["tail"].tolist() == ["b", "c", "a", "b"] * 2
    assert ranks.keys["side"].tolist() == ["tail"] * 4 + ["head"] * 4
    assert ranks.protocol.data == "graph"
    assert ranks.protocol.filter == ("train", "test")
    assert ranks.protocol.content == graph.hash


# Kinds of tasks ------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(PAIRS, st.none() | PAIRS)
def test_alignment(pairs, known):
    task = Task.alignment(pairs, size=6, known=known)
    every = set(pairs) | set(known or [])
    rows = [((s,), t, {b for a, b in every if a == s}, range(6)) for s, t in pairs]
    check(task, rows, {"source": [s for s, _ in pairs], "target": [t for _, t in pairs]})
    assert task.protocol.extra["task"] == "entity alignment"
    assert len(task.parts[0].queries) == len({s for s, _ in pairs})


@given(PAIRS, st.none() | PAIRS, st.booleans())
def test_links(edges, known, directed):
    task = Task.links(edges, size=6, known=known, directed=directed)
    every = set(edges) | set(known or [])
    if not directed:
        every |= {(t, s) for s, t in every}
    targets = [((s, -1), t, {b for a, b in every if a == s}, range(6)) for s, t in edges]
    sources = [((-1, t), s, {a for a, b in every if b == t}, range(6)) for s, t in edges]
    check(task, targets + sources, {"side": ["target"] * len(edges) + ["source"] * len(edges)})


ANSWERS = st.lists(st.integers(0, 6), max_size=5)


@given(
    st.lists(st.tuples(ANSWERS, ANSWERS), min_size=1, max_size=5).filter(lambda x: any(a for a, _ in x))
)
def test_answers(case):
    answers, known = map(list, zip(*case, strict=True))
    queries = [(9, i) for i in range(len(case))]
    for given_known in (None, known):
        task = Task.answers(queries, answers, size=7, known=given_known)
        rows = [
            (q, t, {*mine, *(easy if given_known else ())}, range(7))
            for q, mine, easy in zip(queries, answers, known, strict=True)
            for t in mine
        ]
        check(task, rows, {"query": [q[1] for q, *_ in rows], "answer": [t for _, t, *_ in rows]})


def test_relation_prediction_and_pair_ranking():
    """Two triples by hand."""
    graph = er.Graph.of([[0, 1, 2], [2, 0, 1]], test=[[0, 0, 2], [2, 0, 2]], entities=3, relations=2)
    relation = graph.task(sides="relation")
    check(relation, [((0, -1, 2), 0, {0, 1}, range(2)), ((2, -1, 2), 0, {0}, range(2))])
    assert relation.candidates.tolist() == [1, 2]
    pair = graph.task(sides="pair")
    known = {0 * 3 + 2, 2 * 3 + 2, 2 * 3 + 1}
    check(pair, [((-1, 0, -1), 2, known, range(9)), ((-1, 0, -1), 8, known, range(9))])
    assert pair.candidates.tolist() == [7, 7]
    assert len(pair.parts[0].queries) == 1


def test_tasks_join_and_pickle():
    graph = er.load("nations")
    for task in (
        graph.task("test"),
        graph.task("valid", sides=["relation", "pair"], filter=["train"]),
        graph.task("test", candidates=5, seed=3),
        graph.task("test", candidates="typed", outside="add"),
    ):
        again = pickle.loads(pickle.dumps(task))
        assert repr(again) == repr(task)
        assert (again.protocol, again.vocabulary) == (task.protocol, task.vocabulary)
        ours, theirs = (er.rank(scorer, one, progress=False) for one in (task, again))
        for name in ("better", "equal", "candidates"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert ours.keys["tail"].tolist() == theirs.keys["tail"].tolist()
    joined = Task.join([graph.task("valid"), graph.task("test")], {"split": "both"})
    parts = [er.rank(scorer, graph.task(split), progress=False) for split in ("valid", "test")]
    both = er.rank(scorer, joined, progress=False)
    assert both.better.tolist() == [*parts[0].better, *parts[1].better]
    assert both.protocol.split == "both"


# Lists of candidates ------------------------------------------------------------------------------

GRAPH = er.Graph.of(
    [[0, 0, 1], [1, 0, 2], [3, 1, 0], [4, 1, 1]], test=[[0, 0, 2], [1, 0, 3], [4, 1, 0]], entities=5
)


def test_typed_candidates():
    """Types are the entities seen with a relation in train; targets outside raise, or are added."""
    with raises("a target is not among the candidates", "got head 1, relation 0, tail 3, side tail;"):
        GRAPH.task(candidates="typed")
    task = GRAPH.task(candidates="typed", outside="add", filter=None)
    tails, heads = {0: {1, 2}, 1: {0, 1}}, {0: {0, 1}, 1: {3, 4}}
    triples = [(0, 0, 2), (1, 0, 3), (4, 1, 0)]
    rows = [((h, r, -1), t, (), tails[r]) for h, r, t in triples]
    check(task, rows + [((-1, r, t), h, (), heads[r]) for h, r, t in triples])
    assert task.candidates.tolist() == [2, 3, 2, 2, 2, 2]
    assert str(task.protocol.candidates) == "typed, as seen in train, targets added"
    assert {s: {r: set(ids.tolist()) for r, ids in m.items()} for s, m in GRAPH.types().items()} == {
        "tail": tails,
        "head": heads,
    }
    assert set(GRAPH.types("train", "test")["tail"][0].tolist()) == {1, 2, 3}


def test_fixed_lists():
    """A list per triple, as ogbl and others give them; an id listed twice counts once."""
    tails = [[2, 4, 4, 0], [3], [1, 0, 2]]
    task = GRAPH.task(sides="tail", candidates={"tail": tails})
    queries = [((0, 0, -1), 2, {1, 2}), ((1, 0, -1), 3, {2, 3}), ((4, 1, -1), 0, {0, 1})]
    check(task, [(*row, mine) for row, mine in zip(queries, tails, strict=True)])
    assert task.candidates.tolist() == [3, 1, 2]
    assert str(task.protocol.candidates).startswith("given [")
    matrix = np.array([[2, 4], [3, 1], [0, 2]])
    assert GRAPH.task(sides="tail", candidates={"tail": matrix}).candidates.tolist() == [2, 2, 2]


def write(path, text):
    path.write_text(text)
    return path


CONSTRAINTS = "2\n0 2 0 1\n0 3 1 2 3\n1\t2\t3\t4\n1 2 0 1\n"


def test_type_constraints_are_read(tmp_path):
    path = write(tmp_path / "type_constrain.txt", CONSTRAINTS)
    heads, tails = {0: [0, 1], 1: [3, 4]}, {0: [1, 2, 3], 1: [0, 1]}
    want = GRAPH.task(candidates={"head": heads, "tail": tails})
    for given_path in (path, str(path)):
        task = GRAPH.task(candidates=given_path)
        assert task.candidates.tolist() == want.candidates.tolist() == [2, 2, 1, 1, 2, 1]
        assert str(task.protocol.candidates).startswith("typed, from type_constrain.txt [")
        ours, theirs = (er.rank(scorer, one, progress=False) for one in (task, want))
        assert ours.better.tolist() == theirs.better.tolist()


BAD_CONSTRAINTS = [
    ("", ["is not a file of type constraints"]),
    ("two\n0 1 0\n", ["is not a file of type constraints", "two"]),
    ("2\n0 1 x\n", ["is not a file of type constraints", "x"]),
    (
        CONSTRAINTS.replace("2\n0", "3\n0", 1),
        ["the first line is not the number of relations", "4 further lines"],
    ),
    (
        CONSTRAINTS.replace("0 2 0 1", "0 3 0 1"),
        [":2: not a line of type constraints", "relation 0, 2 ids"],
    ),
    (CONSTRAINTS.replace("0 3 1 2 3", "0"), [":3: not a line of type constraints"]),
    (CONSTRAINTS.replace("1 2 0 1\n", "0 1 1\n"), [":5: not a line of type constraints", "heads first"]),
    (CONSTRAINTS.replace("0 2 0 1", "0 2 0 5"), [":2: an id that the graph lacks", "relation 0"]),
    (CONSTRAINTS.replace("0 2 0 1", "7 2 0 1"), [":2: an id that the graph lacks", "relation 7"]),
    ("2\n0 2 0 1\n1 2 3 4\n0 3 1 2 3\n0 0\n", [":5: not a line of type constraints"]),
    ("2\n0 2 0 1\n0 1 1\n1 2 3 4\n1 1 1\n", ["a target is not among the candidates"]),
    ("1\n0 2 0 1\n0 3 1 2 3\n", ["relation 1 has no candidates on side tail"]),
]


@pytest.mark.parametrize(("text", "parts"), BAD_CONSTRAINTS, ids=range(len(BAD_CONSTRAINTS)))
def test_bad_type_constraints(text, parts, tmp_path):
    with raises(*parts):
        GRAPH.task(candidates=write(tmp_path / "types.txt", text))


def test_type_constraints_that_cannot_be_read(tmp_path):
    with raises("no such file", "absent.txt"):
        GRAPH.task(candidates=tmp_path / "absent.txt")
    with raises("unknown candidates", "absent.txt", "type_constrain.txt"):
        GRAPH.task(candidates=str(tmp_path / "absent.txt"))
    with raises("cannot read"):
        GRAPH.task(candidates=tmp_path)


# Samples ------------------------------------------------------------------------------------------


def drawn(task, k, seed=0):
    """Give, for each query, what was drawn beside its targets."""
    (part,) = sample(task, k, seed).parts
    targets = Lists(part.first, part.targets)
    return {
        tuple(query): set(part.lists[i].tolist()) - set(targets[i].tolist())
        for i, query in enumerate(part.queries.tolist())
    }


@given(asked(), st.integers(1, 10), st.integers(0, 5))
@settings(max_examples=150)
def test_samples_hold_k_that_are_neither_known_nor_targets(case, k, seed):
    size, rows, known, *_ = case
    queries, targets = zip(*rows, strict=True)
    task = Task.of(queries, targets, size=size, known=tuple(zip(*known, strict=True)) if known else None)
    for query, got in drawn(task, k, seed).items():
        taken = {a for q, a in (*known, *rows) if q == query}
        assert not got & taken
        assert got <= set(range(size))
        assert len(got) == min(k, size - len(taken))
    # targets are candidates too, and filtered against each other where they are known
    sampled = sample(task, k, seed)
    for (query, target), count in zip(rows, sampled.candidates.tolist(), strict=True):
        listed = drawn(task, k, seed)[query] | {t for q, t in rows if q == query}
        out = {a for q, a in known if q == query} - {target}
        assert count == len(listed - out)


def test_samples_depend_on_seed_and_query_alone():
    rng = np.random.default_rng(0)
    queries = np.stack([np.arange(300) // 20, np.arange(300) % 20, np.full(300, -1)], axis=1)
    targets = rng.integers(1000, size=300)
    whole = drawn(Task.of(queries, targets, size=1000), 20, seed=4)
    order = rng.permutation(300)
    assert drawn(Task.of(queries[order], targets[order], size=1000), 20, seed=4) == whole
    some = drawn(Task.of(queries[7:9], targets[7:9], size=1000), 20, seed=4)
    assert some == {tuple(q): whole[tuple(q)] for q in queries[7:9].tolist()}
    assert drawn(Task.of(queries, targets, size=1000), 20, seed=4) == whole
    assert len({frozenset(ids) for ids in whole.values()}) == 300  # and on every column of the query
    other = drawn(Task.of(queries, targets, size=1000), 20, seed=5)
    assert all(other[q] != whole[q] for q in whole)
    graph = er.load("nations")
    tasks = [graph.task("test", candidates=3, seed=seed) for seed in (1, 1, 2)]
    lists = [[part.lists.values.tolist() for part in task.parts] for task in tasks]
    assert lists[0] == lists[1] != lists[2]
    assert str(tasks[0].protocol.candidates) == "3 sampled per query, seed 1"


def test_samples_are_uniform():
    """Every free id, and every pair of them, as often as another."""
    queries = 20_000
    targets = np.zeros(queries, int)
    known = (np.arange(queries), np.ones(queries, int))
    lists = drawn(Task.of(np.arange(queries), targets, size=8, known=known), 2, seed=0).values()
    pairs = Counter(tuple(sorted(ids)) for ids in lists)
    assert set(pairs) == set(combinations(range(2, 8), 2))
    seen = np.array(list(pairs.values()))
    statistic = ((seen - queries / 15) ** 2 / (queries / 15)).sum()
    assert chi2.ppf(1e-3, 14) < statistic < chi2.isf(1e-3, 14)
    lists = drawn(Task.of(np.arange(queries), targets, size=101), 7, seed=1).values()
    seen = np.bincount([i for ids in lists for i in ids], minlength=101)[1:]
    expected = queries * 7 / 100
    # without repetition, so that counts vary less
    statistic = ((seen - expected) ** 2 / expected).sum() / (1 - 7 / 100)
    assert chi2.ppf(1e-3, 99) < statistic < chi2.isf(1e-3, 99)


def test_neighbouring_seeds_and_queries_draw_unlike_samples():
    """Two samples of 50 among 999 share 2.5 ids by chance."""
    task = Task.of(np.arange(200), np.zeros(200, int), size=1000)
    one, two = (list(drawn(task, 50, seed).values()) for seed in (0, 1))
    by_seed = np.mean([len(a & b) for a, b in zip(one, two, strict=True)])
    by_query = np.mean([len(a & b) for a, b in pairwise(one)])
    assert 2 < by_seed < 3
    assert 2 < by_query < 3


def test_bad_samples():
    with raises("the number of sampled candidates must be at least 1", "got 0"):
        GRAPH.task(candidates=0)
    with raises("seed must be at least 0"):
        GRAPH.task(candidates=2, seed=-1)
    with raises("lists of candidates cannot be sampled"):
        sample(Task.of([0], targets=[0], size=3, candidates=[[0, 1]]), 2)
    assert GRAPH.task(candidates=np.int64(2)).candidates.tolist() == [3, 3, 3, 3, 3, 3]


# Bad input ----------------------------------------------------------------------------------------

BAD_TASKS = [
    (dict(queries=[[0]], targets=[3], size=3), ["a target is not below the size, 3", "got 3 in row 0"]),
    (dict(queries=[[0]], targets=[-1], size=3), ["targets must be at least 0"]),
    (dict(queries=[[0]], targets=["a"], size=3), ["targets must be a column of whole numbers"]),
    (dict(queries=[[-2]], targets=[0], size=3), ["queries must be at least -1"]),
    (dict(queries=[[0.5]], targets=[0], size=3), ["queries must be whole", "0.5"]),
    (dict(queries=[[[0]]], targets=[0], size=3), ["queries must be rows of whole numbers"]),
    (dict(queries=[[0], [1]], targets=[0], size=3), ["queries and targets differ in length", "2 and 1"]),
    (dict(queries=np.zeros((0, 1)), targets=[], size=3), ["a task requires at least one target"]),
    (dict(queries=[[0]], targets=[0], size=0), ["size must be at least 1"]),
    (dict(queries=[[0]], targets=[0], size=10**10), ["size must be at most 1,000,000,000"]),
    (
        dict(queries=[[0]], targets=[0], size=3, known=([[0]], [3])),
        ["a known answer is not below the size, 3", "got 3"],
    ),
    (
        dict(queries=[[0]], targets=[0], size=3, known=([[0]], [1, 2])),
        ["known answers do not fit the queries", "1 rows of 1 columns with 2 answers"],
    ),
    (
        dict(queries=[[0]], targets=[0], size=3, known=([[0, 1]], [1])),
        ["known answers do not fit the queries", "rows of 1 columns"],
    ),
    (
        dict(queries=[[0]], targets=[0], size=3, candidates=[[0, 3]]),
        ["a candidate is not below the size"],
    ),
    (dict(queries=[[0]], targets=[0], size=3, candidates=[[0, -1]]), ["candidates must be at least 0"]),
    (
        dict(queries=[[4]], targets=[0], size=3, candidates=[[]]),
        ["a query has no candidates", r"an empty list for \[4\]"],
    ),
    (
        dict(queries=[[0], [1]], targets=[0, 1], size=3, candidates=[[0]]),
        ["each query requires a list of candidates", "1 lists for 2 queries"],
    ),
    (
        dict(queries=[[0]], targets=[0], size=3, candidates=[[0]], group=[1]),
        ["each query requires a list of candidates"],
    ),
    (
        dict(queries=[[4], [5]], targets=[0, 2], size=3, candidates=[[1], [1]]),
        ["a target is not among", r"target 0 of query \[4\], and 1 more", "outside='add'"],
    ),
    (
        dict(queries=[[0]], targets=[0], size=3, candidates=[[1]], outside="allow"),
        ["outside", "allow", "raise, add"],
    ),
    (dict(queries=[[0]], targets=[0], size=3, keys={"a": [1, 2]}), ["columns differ in length"]),
]


@pytest.mark.parametrize(("arguments", "parts"), BAD_TASKS, ids=range(len(BAD_TASKS)))
def test_bad_tasks(arguments, parts):
    with raises(*parts):
        Task.of(**arguments)


BAD_QUESTIONS = [
    (dict(split="dev"), ["graph has no such split", "'dev'", "train, test"]),
    (dict(filter=["train", "dev"]), ["graph has no such split", "'dev'"]),
    (dict(sides="subject"), ["unknown side", "'subject'", "both, tail, head, relation, pair"]),
    (dict(sides=["tail", "x"]), ["unknown side", "'x'"]),
    (dict(sides=[]), ["a task needs at least one side"]),
    (dict(candidates="some"), ["unknown candidates", "'some'", "typed"]),
    (dict(candidates=True), ["unknown candidates", "bool"]),
    (dict(candidates=[[0]]), ["unknown candidates", "list", "lists per side"]),
    (dict(candidates={"tail": {}}), ["relation 0 has no candidates on side tail"]),
    (dict(candidates={"tail": [[0]]}), ["a list per triple", "1 lists for 3 triples"]),
    (dict(candidates={"head": {0: [0, 1], 1: [4]}}), ["no candidates for side tail", "got head"]),
    (dict(sides="relation", candidates="typed"), ["no candidates for side relation"]),
    (dict(candidates={"tail": {0: [7], 1: [1]}}), ["a candidate is not below the size, 5"]),
    (dict(outside="allow"), ["outside", "allow", "raise, add"]),
]


@pytest.mark.parametrize(("arguments", "parts"), BAD_QUESTIONS, ids=range(len(BAD_QUESTIONS)))
def test_bad_queries(arguments, parts):
    with raises(*parts):
        GRAPH.task(**arguments)


def test_empty_splits_and_lists():
    graph = er.Graph.of([[0, 0, 1]], test=np.zeros((0, 3), int), name="toy")
    with raises("split test of toy has no triples"):
        graph.task("test")
    with raises("each query requires a list of answers", "1 lists for 2 queries"):
        Task.answers([[0], [1]], [[1]], size=3)
    with raises("each query requires a list of answers", "1 lists for 2 queries"):
        Task.answers([[0], [1]], [[1], [2]], size=3, known=[[0]])
    with raises("pairs must have 2 columns"):
        Task.alignment([[0, 1, 2]], size=3)
    with raises("edges must have 2 columns"):
        Task.links([[0, 1, 2]], size=3)
    with raises("a target is not below the size, 3"):
        Task.alignment([[0, 3]], size=3)


def test_targets_may_be_their_only_candidates():
    """With outside="add" an empty list leaves the target alone with itself, for every kind of scorer."""
    task = er.Task.of([[4], [5]], targets=[0, 1], size=3, candidates=[[], [2]], outside="add")
    assert task.candidates.tolist() == [1, 2]
    table = np.array([[1.0], [2.0], [3.0]])
    factored = er.Factored("dot", table, lambda queries: np.ones((len(queries), 1)))
    for scorer in (
        factored,
        lambda queries, candidates: np.ones((len(queries), 1)) * table[candidates, 0],
    ):
        ranks = er.rank(scorer, task, progress=False)
        assert (ranks.better.tolist(), ranks.equal.tolist()) == ([0, 1], [0, 0])
