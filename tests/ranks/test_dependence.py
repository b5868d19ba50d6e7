"""Which ranks depend on each other under a random scorer: against all orders of the scores."""

import pickle
from functools import cache
from itertools import combinations, pairwise, permutations
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.metrics.chance.dependence import Dependence, Summand, panels
from evenrank.metrics.metric import GMR, HITS, MR, MRR, NDCG
from evenrank.ranks.crossings import REPEATED, VARIED
from evenrank.ranks.dependence import LISTED, UNFILTERED, of_task
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task
from support.strategies import graphs, tasks

METRICS = (MR, MRR, HITS(1), HITS(2), NDCG, GMR)
NONE = np.zeros(0, dtype=np.int64)


@cache
def orders(cells):
    """All rankings of some cells, a row each."""
    return np.array(list(permutations(range(cells))), dtype=np.int8)


@cache
def joint(mine, theirs, cells):
    """The distribution of two ranks; a target is the first of its cells."""
    order = orders(cells)
    ranks = [1 + (order[:, some[1:]] < order[:, some[:1]]).sum(axis=1) for some in (mine, theirs)]
    counts = np.zeros((len(mine), len(theirs)))
    np.add.at(counts, (ranks[0] - 1, ranks[1] - 1), 1)
    return counts / len(order)


def covariance(x, mine, theirs):
    """Cov X(R) X(R') for two targets with their candidates, by enumeration."""
    number = {cell: i for i, cell in enumerate(dict.fromkeys((*mine, *theirs)))}
    assume(len(number) <= 8)
    places = [[number[cell] for cell in some] for some in (mine, theirs)]
    p = joint(tuple(places[0]), tuple(places[1]), len(number))
    f, g = (x(np.arange(1.0, n + 1)) for n in p.shape)
    return float(f @ p @ g - f.mean() * g.mean())


def cells(row, entities):
    """The triples that a target is ranked among, the target first."""

    def filled(answer):
        if row.side == "pair":
            return (answer // entities, row.query[1], answer % entities)
        return tuple(answer if part == -1 else part for part in row.query)

    others = sorted(row.candidates - row.known - {row.target})
    return (filled(row.target), *map(filled, others))


def brute(x, ranked, weight):
    """The covariances' part of Var S."""
    total = 0.0
    for i, j in combinations(range(len(ranked)), 2):
        if not set(ranked[i]).isdisjoint(ranked[j]):
            total += 2 * weight[i] * weight[j] * covariance(x, ranked[i], ranked[j])
    return total / sum(weight) ** 2


def summand(metric):
    return metric.term(1.0, 9.0)[0]


# Against enumeration ------------------------------------------------------------------------------


@settings(max_examples=200)
@given(tasks(largest=4, triples=6), st.data())
def test_covariances_of_tasks_agree_with_all_orders_of_the_scores(case, data):
    task, rows = case
    sides = {row.side for row in rows}
    assume("pair" not in sides or len(sides) == 1)
    entities = task.parts[0].size if "pair" not in sides else round(task.parts[0].size ** 0.5)
    ranked = [cells(row, entities) for row in rows]
    weight = data.draw(
        st.lists(st.sampled_from((1.0, 0.5, 2.0, 0.0)), min_size=len(rows), max_size=len(rows))
    )
    assume(sum(weight) > 0)
    found = of_task(task, np.array(weight))
    assume(VARIED not in found.gaps)  # what different lists of one query share is left out
    for metric in METRICS:
        assert found.excess(metric) == pytest.approx(brute(summand(metric), ranked, weight), abs=1e-12)


def test_a_covariance_left_out_would_be_noticed():
    """The comparison above can fail: on this task every kind of pair occurs."""
    graph = er.Graph.of([[0, 0, 0]], test=[[0, 0, 1], [0, 0, 2], [1, 0, 1]], entities=3)
    task = graph.task("test")
    every = task.dependence()
    for left_out in (
        Dependence(every.total, NONE, NONE * 1.0, every.first, every.second, every.mass),
        Dependence(every.total, every.sizes, every.shares, NONE, NONE, NONE * 1.0),
    ):
        assert abs(left_out.excess(MRR) - every.excess(MRR)) > 1e-4


@pytest.mark.parametrize(("n", "m"), [(2, 3), (5, 5), (40, 7), (60, 300), (255, 400)])
@pytest.mark.parametrize("closed", [True, False])
def test_the_covariance_of_a_shared_target_is_a_sum_of_beta_functions(n, m, closed):
    def exact(f):
        joined = 0.0
        for i in range(n):
            for j in range(m):
                if f(i + 1) and f(j + 1):
                    beta = factorial(i + j) * factorial(n + m - 2 - i - j) / factorial(n + m - 1)
                    ways = comb(n - 1, i) * comb(m - 1, j)
                    joined += f(i + 1) * f(j + 1) * ways * beta
        return joined - sum(map(f, range(1, n + 1))) / n * sum(map(f, range(1, m + 1))) / m

    for metric, f in ((MR, float), (MRR, lambda r: 1 / r), (HITS(2), lambda r: float(r <= 2))):
        x = Summand(metric, max(n, m), closed=closed)
        u, v, weight = panels(max(n, m), x.splits(np.array([min(n, m), max(n, m)])))
        a, b = (x.given(np.array([size]), u, v)[0] for size in (n, m))
        found = ((a - a @ weight) * (b - b @ weight)) @ weight
        if metric == MR:
            assert found == pytest.approx((n - 1) * (m - 1) / 12, rel=1e-12)
        elif n + m <= 150:  # larger factorials overflow floats
            assert found == pytest.approx(exact(f), abs=1e-13)


@pytest.mark.parametrize("metric", [MR, MRR, HITS(1), HITS(10), HITS(300), GMR, NDCG])
def test_few_numbers_of_candidates_stand_for_many(metric):
    """Interpolation in the number of candidates, and closed forms, change nothing but rounding."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(1000, 1400, (2, 90))
    many = Dependence(90.0, NONE, NONE * 1.0, first, second, rng.random(90))
    direct = 0.0
    x = Summand(metric, 1400, closed=False)
    u, v, weight = panels(1400, 2)
    for n, m, mass in zip(first, second, many.mass, strict=True):
        a, b = x.given(np.array([n, m]), u, v)
        direct += mass * float(((a - a @ weight) * (b - b @ weight)) @ weight)
    assert many.excess(metric, 1400) * 90**2 == pytest.approx(direct, rel=1e-10)
    assert many.condensed().excess(metric, 1400) * 90**2 == pytest.approx(direct, rel=1e-10)
    assert many.condensed(16).excess(metric, 1400) * 90**2 == pytest.approx(direct, rel=1e-6)


def test_parts_without_common_queries_add_up():
    triples = [[0, 0, 1], [0, 0, 2], [1, 0, 1], [2, 1, 0], [0, 1, 2]]
    graph = er.Graph.of([[3, 0, 3], [3, 1, 3]], test=triples)
    task = graph.task("test")
    relation = task.keys["relation"]
    halves = [of_task(task, (relation == r).astype(float)) for r in (0, 1)]
    for metric in METRICS:
        whole = task.dependence().excess(metric) * task.dependence().total ** 2
        assert (halves[0] + halves[1]).excess(metric) * 10.0**2 == pytest.approx(whole, abs=1e-12)


# Ranks and files ----------------------------------------------------------------------------------


def constant(queries, candidates):
    many = candidates.stop - candidates.start if isinstance(candidates, slice) else len(candidates)
    return np.zeros((len(queries), many))


def ranked(task):
    return er.rank(constant, task)


@settings(max_examples=25, deadline=None)
@given(graphs(largest=5, triples=8), st.sampled_from(("all", None)), st.booleans())
def test_ranks_know_what_their_task_knows(graph, known, relations):
    sides = ("tail", "head", "relation") if relations else ("tail", "head")
    task = graph.task("test", filter=known, sides=sides)
    ranks = ranked(task)
    weights = np.arange(1.0, len(task) + 1)
    again = pickle.loads(pickle.dumps(ranks))
    for metric in METRICS:
        exact = task.dependence(weights=weights).excess(metric)
        for one in (ranks, ranks[:], again):
            assert one.dependence(weights=weights).excess(metric) == pytest.approx(exact, abs=1e-12)


def test_files_of_ranks_know_what_their_task_knows(tmp_path):
    task = er.load("nations").task("test")
    ranks = ranked(task)
    ranks.save(tmp_path / "r.parquet")
    ranks.save(tmp_path / "r.csv")
    exact = task.dependence().excess(MRR)
    assert er.Ranks.load(tmp_path / "r.parquet").dependence().excess(MRR) == pytest.approx(exact)
    text = er.Ranks.load(tmp_path / "r.csv").dependence()  # the number of shared triples is estimated
    assert text.gaps
    assert text.excess(MRR) == pytest.approx(exact, rel=0.05)


def test_a_damaged_record_of_shared_triples_is_an_error(tmp_path):

    frame = ranked(er.load("nations").task("test")).to_polars()
    for text in ("?", "AAAA", ""):
        frame.write_parquet(tmp_path / "r.parquet", metadata={"evenrank.shared_triples": text})
        with pytest.raises(er.errors.InputError, match=r"shared_triples' of .* are damaged"):
            er.Ranks.load(tmp_path / "r.parquet")


@pytest.mark.parametrize("name", ["nations", "kinships", "umls"])
def test_the_atlas_knows_what_the_task_knows(name):
    graph = er.load(name)
    for options in ({}, {"filter": None}, {"sides": "tail"}, {"split": "valid", "sides": "head"}):
        task = graph.task(**{"split": "test"} | options)
        for metric in ("mr", "mrr", "hits@1", "hits@10", "gmr"):
            stored = er.chance(metric, er.atlas(name, **options)).std()
            assert stored == pytest.approx(er.chance(metric, task).std(), rel=1e-12)


# Null distributions -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nations():
    return er.load("nations").task("test")


@pytest.mark.parametrize(
    "metric", ["mr", "mrr", "hits@1", "hits@3", "hits@10", "gmr", "hmr", "median", "ndcg", "1/mr"]
)
def test_simulated_scorers_agree(nations, metric):
    drawn = er.chance(metric, nations, method="simulate", samples=6000, seed=3)
    exact = er.chance(metric, nations)
    assert abs(drawn.var() - exact.var()) <= 4 * drawn.var().error
    if exact.metric.__class__ is er.Metric and exact.metric.p == exact.metric.q:
        assert abs(drawn.mean() - exact.mean()) <= 4 * drawn.mean().error
    alone = er.chance(metric, nations, chance="independent").std()
    assert exact.std() > 1.1 * alone  # so that the comparison can fail


def test_macro_averages_of_simulated_scorers_agree(nations):
    ranks = ranked(nations)
    weights = ranks.weights_by("relation")
    drawn = er.chance("mrr", nations, weights=weights, method="simulate", samples=6000)
    assert abs(drawn.var() - er.chance("mrr", nations, weights=weights).var()) <= 4 * drawn.var().error


def test_z_scores_of_random_scorers_have_standard_deviation_one(nations):
    rng = np.random.default_rng(0)
    scores = {"scorer": [], "independent": []}
    size = len(er.load("nations").entities)
    for _ in range(300):
        table = rng.random((size, 55, size))

        def score(queries, candidates, table=table):
            heads, relations, tails = (queries[:, i, None] for i in range(3))
            entity = np.arange(size)[candidates][None]
            return table[
                np.where(heads < 0, entity, heads), relations, np.where(tails < 0, entity, tails)
            ]

        ranks = er.rank(score, nations)
        for chance, found in scores.items():
            found.append(ranks.evaluate("z(mrr)", chance=chance)["z(mrr)"])
    assert np.std(scores["scorer"]) == pytest.approx(1.0, abs=4 / np.sqrt(600))
    assert np.std(scores["independent"]) > 1.2


@pytest.mark.parametrize("metric", ["mr", "mrr", "hits@10", "gmr", "median"])
def test_chance_levels_and_indices_are_those_of_independent_ranks(nations, metric):
    ranks = ranked(nations)
    forms = [f"{form}({metric})" for form in ("chance", "ratio", "index")]
    both = [ranks.evaluate(*forms, chance=chance).to_dict() for chance in ("scorer", "independent")]
    assert both[0] == both[1]


def test_tails_fall_and_are_probabilities(nations):
    null = er.chance("mrr", nations)
    drawn = er.chance("mrr", nations, method="simulate", samples=20_000, seed=8)
    points = null.mean() + null.std() * np.linspace(-3, 4, 15)
    tails = [null.sf(x) for x in points]
    assert all(1 >= a >= b >= 0 for a, b in pairwise(tails))
    for x, tail in zip(points, tails, strict=True):
        assert abs(tail - drawn.sf(x)) <= 0.01
    assert null.sf(0.4).method.startswith("scaled ")


# What is known, and what is said of it ------------------------------------------------------------


def test_the_protocol_says_how_random_ranks_are_treated(nations):
    ranks = ranked(nations)
    assert ranks.evaluate("mrr").protocol.chance is None
    assert ranks.evaluate("z(mrr)").protocol.chance == "scorer"
    alone = ranks.evaluate("z(mrr)", chance="independent")
    assert alone.protocol.chance == "independent"
    assert "chance: independent" in str(alone)
    assert alone.fingerprint != ranks.evaluate("z(mrr)").fingerprint
    kept = ranks.with_protocol(chance="independent")
    assert kept.evaluate("z(mrr)")["z(mrr)"] == alone["z(mrr)"]
    assert er.chance("mrr", kept).std() == er.chance("mrr", ranks, chance="independent").std()


def test_pykeens_protocol_takes_ranks_as_independent():
    graph = er.load("nations", unseen="drop")
    task = graph.task("test", protocol="pykeen")
    ranks = ranked(task)
    assert ranks.evaluate("z(mrr)").protocol.chance == "independent"
    assert er.chance("mrr", task).std() == er.chance("mrr", task.candidates).std()


def test_without_triples_ranks_are_independent_and_the_table_says_so():
    made = Ranks.of([1, 2, 3], candidates=9).evaluate("z(mrr)")
    assert made.protocol.chance == "independent"
    assert made.notes == (
        "z: ranks are taken as independent, as there are no keys head, relation, tail and side",
    )


def keyed(rows, **options):
    """Ranks with one candidate number; rows are head, relation, tail and side."""
    keys = dict(zip(("head", "relation", "tail", "side"), zip(*rows, strict=True), strict=True))
    return Ranks.of([1.0] * len(rows), candidates=6, keys=keys, **options)


BOTH = [("a", "r", "b", "tail"), ("a", "r", "b", "head")]


@pytest.mark.parametrize(
    ("ranks", "note"),
    [
        (keyed(BOTH), UNFILTERED),
        (keyed(BOTH + BOTH[:1]), REPEATED),
        (keyed(BOTH, protocol={"candidates": "50 sampled per query, seed 1"}), LISTED),
    ],
)
def test_notes_say_what_is_only_known_in_part(ranks, note):
    assert note in ranks.evaluate("z(mrr)").notes


def test_odd_keys_are_no_error():
    assert keyed([("a", "r", "b", "left")]).dependence() is None
    assert keyed(BOTH[:1]).dependence().excess(MRR) == 0.0
    assert keyed([("a", "r", "b", "tail"), ("a", "r", "c", "tail")]).dependence().excess(MRR) > 0
    one = Ranks.of([1, 1], candidates=1, keys={k: keyed(BOTH).keys[k] for k in keyed(BOTH).keys})
    assert one.dependence().excess(MRR) == 0.0
    mixed = Ranks.of(
        [1, 1],
        candidates=6,
        weights=[1.0, 0.25],
        keys={k: keyed(BOTH).keys[k] for k in keyed(BOTH).keys},
    )
    assert mixed.dependence().excess(MR) == pytest.approx(2 * 0.25 * 25 / 12 / 1.25**2)


def test_where_everything_is_known_nothing_is_random():
    graph = er.Graph.of([[0, 0, 0], [1, 0, 1], [1, 0, 0]], test=[[0, 0, 1]])
    task = graph.task("test")
    assert task.candidates.tolist() == [1, 1]
    assert task.dependence().excess(MRR) == 0.0
    with pytest.raises(er.errors.DegenerateError, match="every ranking has the value 1"):
        ranked(task).evaluate("z(mrr)")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: er.chance("mrr", [9, 9], chance="scorer"),
            "which ranks depend on each other is unknown",
        ),
        (lambda t: er.chance("mrr", t, chance="scorer", method="sample"), "use method='exact' or"),
        (lambda t: er.chance("mrr", t, chance="both"), "chance"),
        (
            lambda t: er.chance("mrr", [9, 9], method="simulate").mean(),
            "random scorers can only be drawn",
        ),
        (lambda t: er.adjust({"mrr": 0.4}, data="nations", chance="both"), "chance"),
        (lambda t: ranked(t).evaluate("z(mrr)", chance="none"), "chance"),
    ],
)
def test_wrong_arguments_are_one_clear_error(nations, call, message):
    with pytest.raises(er.errors.EvenrankError, match=message):
        call(nations)


def test_a_task_that_is_too_large_is_not_simulated(nations, monkeypatch):
    monkeypatch.setattr("evenrank.ranks.simulation.MOST_PAIRS", 1000)
    with pytest.raises(er.errors.InputError, match=r"too large to simulate; got 2,796 pairs .* 1,000"):
        er.chance("mrr", nations, method="simulate").mean()


# Neighbours of cases that went wrong ----------------------------------------------------------------


def factor(source, metric="mrr"):
    return er.chance(metric, source).std() / er.chance(metric, source, chance="independent").std()


def test_a_filter_without_a_split_is_no_raw_ranking(nations):
    ranks = ranked(nations)
    assert factor(ranks.with_protocol(split=None)) == pytest.approx(factor(nations))
    keys = {name: ranks.keys[name] for name in ("head", "relation", "tail", "side")}
    for known in ("all", "train, valid, test"):
        made = Ranks.of(
            [1] * len(ranks), candidates=ranks.candidates, keys=keys, protocol={"filter": known}
        )
        assert factor(made) == pytest.approx(factor(nations), rel=0.01)
    both = [er.load("umls").task(split) for split in ("valid", "test")]
    joined = er.rank(constant, Task.join(both))
    assert factor(joined) == pytest.approx(factor(Task.join(both)))
    assert factor(ranked(both[0]) + ranked(both[1])) == pytest.approx(factor(joined), rel=0.01)


@pytest.mark.parametrize("known", [("train", "valid"), ("train",), ("test",), None])
def test_ranks_of_any_filter_know_what_their_task_knows(known):
    task = er.load("nations").task("test", filter=known)
    assert factor(ranked(task)) == pytest.approx(factor(task), rel=1e-12)


def test_groups_and_selections_know_what_their_task_knows(nations):
    ranks, relation = ranked(nations), nations.keys["relation"]
    for (label,), group in ranks.by("relation"):
        exact = nations.dependence(weights=(relation == label).astype(float)).excess(MRR)
        assert group.dependence().excess(MRR) == pytest.approx(exact, abs=1e-14)
    rng = np.random.default_rng(0)
    for _ in range(20):
        some = rng.random(len(ranks)) < 0.2
        exact = nations.dependence(weights=some.astype(float)).excess(MRR)
        assert ranks[some].dependence().excess(MRR) == pytest.approx(exact, abs=1e-14)


def test_renamed_entities_lose_what_was_known_of_their_triples():
    graph = er.load("nations")
    ids = er.Graph.of(graph.splits, entities=14, relations=55)
    ranks, names = ranked(ids.task("test")), np.array(graph.entities, dtype=object)
    named = ranks.with_keys(head=names[ranks.keys["head"]], tail=names[ranks.keys["tail"]])
    assert factor(named) == pytest.approx(factor(ranks), rel=0.01)
    assert named.dependence().gaps
    assert not ranks.with_keys(fold=0).dependence().gaps
    assert not ranks.with_only_keys(ranks.keys).dependence().gaps


def test_lists_of_single_targets_share_nothing_that_is_known(tmp_path):
    test = [[0, 0, i] for i in range(1, 11)]
    graph, rng = er.Graph.of([[30, 0, 30]], test=test, entities=40), np.random.default_rng(0)
    lists = {"tail": [rng.choice(np.arange(11, 40), 9, replace=False) for _ in test]}
    task = graph.task("test", sides="tail", candidates=lists, protocol="ogb")
    ranks = er.rank(lambda queries, candidates: rng.random(np.shape(candidates)), task)
    assert factor(ranks) == factor(task) == 1.0
    assert VARIED in ranks.evaluate("z(mrr)").notes
    ranks.save(tmp_path / "r.parquet")
    assert factor(er.Ranks.load(tmp_path / "r.parquet")) == 1.0


def test_typed_candidates_of_joined_tasks_are_the_same_lists():
    parts = [
        er.load("nations").task(split, candidates="typed", outside="add") for split in ("valid", "test")
    ]
    joined = Task.join(parts)
    drawn = er.chance("mrr", joined, method="simulate", samples=4000)
    assert not joined.dependence().gaps
    assert abs(drawn.var() - er.chance("mrr", joined).var()) <= 4 * drawn.var().error


def test_tasks_of_several_graphs_or_forms_share_nothing():
    one = er.Graph.of([[2, 0, 2]], test=[[0, 0, 1]], entities=["x", "y", "z"], relations=["r"])
    two = er.Graph.of([[2, 0, 2]], test=[[0, 0, 1]], entities=["a", "b", "c"], relations=["s"])
    several = Task.join([one.task("test", sides="tail"), two.task("test", sides="head")])
    assert several.dependence() is None
    assert er.chance("mrr", several).chance == "independent"
    pairs = [[0, 0], [1, 1], [2, 2]]
    assert factor(Task.join([Task.alignment(pairs, size=4), Task.alignment(pairs, size=4)])) == 1.0
    widths = Task.join([Task.of([[0]], [1], size=5), Task.of([[0, 1]], [1], size=5)])
    assert factor(widths) == 1.0


def test_what_is_certain_has_no_deviation_and_sharp_tails():
    for n in (5, 7, 10, 300):
        task = Task.of([[0]] * n, list(range(n)), size=n)  # the targets have all ranks
        null = er.chance("mr", task)
        assert null.std() == 0.0
        assert null.sf((n + 1) / 2) == 1.0
        assert null.sf((n + 1) / 2 - 0.1) == 0.0
    single = er.chance("hits@1", er.Graph.of([[3, 0, 3]], test=[[0, 0, 1]], entities=6).task("test"))
    assert [single.sf(x) for x in (-1.0, 0.0, 1.05)] == [1.0, 1.0, 0.0]


def test_repeated_candidates_are_not_simulated():
    lists = [[0, 1, 2, 2, 2, 2], [1, 2, 3, 3]]
    task = Task.of([[0, 0, -1], [1, 0, -1]], [0, 1], size=6, candidates=lists, repeats=True)
    assert LISTED in task.dependence().gaps
    with pytest.raises(er.errors.InputError, match="candidates that occur several times"):
        er.chance("mr", task, method="simulate").mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counts": 2}, "counts= cannot be combined"),
        ({"chance": "independent", "method": "simulate"}, "use method='sample'"),
    ],
)
def test_options_that_exclude_each_other_are_an_error(nations, options, message):
    with pytest.raises(er.errors.InputError, match=message):
        er.chance("mrr", nations, **options)
