"""Values of metrics of several answers, against their definitions on every order of tied candidates."""

from itertools import pairwise, permutations
from math import inf, log2

import numpy as np
import pytest

import evenrank as er
from evenrank.errors import InputError
from evenrank.metrics.answers._absent import log_absent
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.values import Answers, floats, position_chances, stop_means, values
from evenrank.ranks.rankings import Rankings

METRICS = [
    *("map", "map@1", "map@3", "map@50", "map_min@2", "map_min@5", "mrr", "mrr@1", "mrr@3"),
    *("ndcg", "ndcg@2", "ndcg@4", "ndcg_exp", "ndcg_exp@3", "ndcg_bin@3", "dcg", "dcg@2", "dcg_exp"),
    *("precision@1", "precision@3", "precision@50", "recall@1", "recall@3", "success@1", "success@3"),
    *("f1@2", "f1@4", "r_precision", "rbp(0.8)", "rbp(0.3)", "auc", "err", "err(3)@2", "err(3)@4"),
    *("ndcg(half)", "ndcg(half)@2", "dcg(half)@3", "first(half)"),
]


@pytest.fixture(scope="module", autouse=True)
def half():
    er.define("half", lambda r: 0.5**r)


def defined(name, gains):
    """Compute a metric of one order of candidates, given by their gains, by its definition."""
    metric = er.parse(name)
    k = metric.k if isinstance(metric, QueryMetric) else (metric.f.cut or (None, None))[1]
    relevant = [g > 0 for g in gains]
    m, n = sum(relevant), len(gains)
    k = m if k == "answers" else inf if k is None else k
    stem = name.split("@")[0]
    hits = sum(r for i, r in enumerate(relevant, 1) if i <= k)
    if stem in ("map", "map_min"):
        total = sum(sum(relevant[:i]) / i for i, r in enumerate(relevant, 1) if r and i <= k)
        return total / (m if stem == "map" else min(m, k))
    if stem in ("mrr", "success", "first(half)"):
        first = relevant.index(True) + 1
        return {"mrr": 1 / first, "success": 1, "first(half)": 0.5**first}[stem] if first <= k else 0.0
    if stem in ("precision", "recall", "r_precision", "f1"):
        return hits / {"precision": k, "recall": m, "r_precision": m, "f1": (m + k) / 2}[stem]
    if stem.startswith("rbp"):
        p = float(stem[4:-1])
        return sum((1 - p) * p ** (i - 1) for i, r in enumerate(relevant, 1) if r)
    if stem == "auc":
        if m == n:
            return float("nan")
        pairs = [(i, j) for i in range(n) for j in range(n) if relevant[i] and not relevant[j]]
        return sum(i < j for i, j in pairs) / len(pairs)
    if stem.startswith("err"):
        largest, total, left = (3 if "(" in stem else 4), 0.0, 1.0
        for i, g in enumerate(gains, 1):
            satisfied = (2**g - 1) / 2**largest
            total += left * satisfied / i if i <= k else 0.0
            left *= 1 - satisfied
        return total
    worth = {"_exp": lambda g: 2**g - 1, "_bin": lambda g: float(g > 0)}.get(stem[-4:], lambda g: g)

    def gained(order):
        discount = (lambda i: 0.5**i) if "half" in stem else (lambda i: 1 / log2(i + 1))
        return sum(worth(g) * discount(i) for i, g in enumerate(order, 1) if i <= k)

    ideal = gained(sorted(gains, reverse=True)) if stem.startswith("ndcg") else 1.0
    return gained(gains) / ideal


def orders(scores, gains):
    """Return the gains in every order of the candidates that agrees with their scores."""
    every = permutations(range(len(scores)))
    kept = (o for o in every if all(scores[a] >= scores[b] for a, b in pairwise(o)))
    return {tuple((gains[i], i) for i in o) for o in kept}


def drawn(seed):
    """Draw scores with ties, and gains."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    scores = rng.integers(0, rng.integers(1, 5), n)
    gains = rng.integers(0, 4, n) * (rng.random(n) < rng.choice([0.4, 0.8, 1.0]))
    gains[rng.integers(n)] = rng.integers(1, 4)
    return scores.tolist(), gains.tolist()


@pytest.mark.parametrize("name", METRICS)
def test_expected_ties_average_the_metric_over_all_orders_and_the_others_bound_it(name):
    for seed in range(60):
        scores, gains = drawn(seed)
        rankings = Rankings.from_scores([scores], [gains])
        every = [defined(name, [g for g, _ in order]) for order in orders(scores, gains)]
        found = [rankings.values(name, ties)[0] for ties in ("expected", "optimistic", "pessimistic")]
        assert found == pytest.approx([np.mean(every), max(every), min(every)], abs=1e-13, nan_ok=True)


@pytest.mark.parametrize("name", METRICS)
def test_queries_are_computed_at_once_as_alone(name):
    cases = [drawn(seed) for seed in range(100)]
    alone = [Rankings.from_scores([scores], [gains]) for scores, gains in cases]
    joined = alone[0]
    for one in alone[1:]:
        joined = joined + one
    for ties in ("expected", "optimistic", "pessimistic"):
        each = [one.values(name, ties)[0] for one in alone]
        assert joined.values(name, ties).tolist() == pytest.approx(each, abs=1e-15, nan_ok=True)


def test_with_one_answer_per_query_metrics_are_those_of_ranks():
    rng = np.random.default_rng(0)
    better, equal = rng.integers(0, 40, 300), rng.integers(0, 3, 300)
    rankings = Rankings.flat(np.arange(301), better, equal, 50)
    ranks = er.Ranks(better, equal, 50)
    for ties in ("expected", "optimistic", "pessimistic"):
        value = {str(m): m(ranks.tally(), ties) for m in map(er.parse, ["mrr", "hits@5", "ndcg", "mr"])}
        value |= {m: er.parse(m)(ranks.tally(), ties) for m in ("mrr@7", "ndcg@7")}
        same = {
            "map": "mrr",
            "mrr": "mrr",
            "ndcg": "ndcg",
            "recall@5": "hits@5",
            "success@5": "hits@5",
            "mrr@7": "mrr@7",
            "ndcg@7": "ndcg@7",
            "map@7": "mrr@7",
            "ndcg_bin": "ndcg",
        }
        for name, other in same.items():
            assert np.mean(rankings.values(name, ties)) == pytest.approx(value[other], abs=1e-14), name
        assert np.mean(rankings.values("precision@5", ties)) == pytest.approx(value["hits@5"] / 5)
        assert np.mean(rankings.values("auc", ties)) == pytest.approx((50 - value["mr"]) / 49)


@pytest.mark.parametrize("name", ["map", "mrr", "ndcg", "ndcg@10", "recall@10", "success@100", "map@10"])
def test_a_constant_scorer_of_many_candidates_has_the_value_of_random_ranking(name):
    n, m = 3000, 7
    rankings = Rankings.flat([0, m], np.zeros(m, int), n - 1, n)
    rng = np.random.default_rng(0)
    drawn = np.stack([np.sort(rng.choice(n, m, replace=False)) for _ in range(20_000)])
    first = np.arange(len(drawn) + 1) * m
    many = Rankings.flat(first, drawn.ravel(), 0, n).values(name)
    error = many.std() / np.sqrt(len(many))
    assert rankings.values(name)[0] == pytest.approx(many.mean(), abs=4 * error)


def test_wide_ties_below_other_candidates_are_summed_exactly():
    b, t, a = 1000, 200_000, 3
    rankings = Rankings.flat([0, a], np.full(a, b), t - 1, b + t)
    j = np.arange(1, t - a + 2.0)
    chance = np.exp(log_absent(*floats(t, a, j - 1))) * a / (t - j + 1)
    assert chance.sum() == pytest.approx(1.0, rel=1e-12)
    assert rankings.values("mrr")[0] == pytest.approx(float((chance / (b + j)).sum()), rel=1e-12)
    every = np.arange(1.0, t + 1)
    precision = a / t * ((1 + (every - 1) * (a - 1) / (t - 1)) / (b + every)).sum() / a
    assert rankings.values("map")[0] == pytest.approx(float(precision), rel=1e-12)


def test_the_chance_of_no_answer_among_the_first_is_exact():
    from math import comb

    for n in (1, 2, 5, 40, 300):
        for m in {1, 2, n // 3, n // 2, n - 1, n} & set(range(1, n + 1)):
            for x in {0, 1, 2, n // 4, n // 2, n - m, n}:
                exact = comb(n - x, m) / comb(n, m) if n - x >= m else 0.0
                assert np.exp(log_absent(*floats(n, m, x))) == pytest.approx(
                    exact, rel=1e-12, abs=1e-300
                )


def test_chances_of_positions_and_stops_add_up_to_one():
    chances = position_chances(9, 4, 9)
    assert chances.sum(axis=1) == pytest.approx(np.ones(4))
    satisfied = np.array([0.2, 0.9, 0.5])
    assert stop_means(satisfied).sum() == pytest.approx(1 - np.prod(1 - satisfied))
    each = [[o[0], o[1] * (1 - o[0]), o[2] * (1 - o[0]) * (1 - o[1])] for o in permutations(satisfied)]
    assert stop_means(satisfied) == pytest.approx(np.mean(each, axis=0))


def test_answers_that_were_not_retrieved_add_nothing_but_count():
    rankings = Rankings.flat([0, 3], [0, 2, -1], 0, 100, gains=[1, 3, 2])
    assert rankings.values("map")[0] == pytest.approx((1 + 2 / 3) / 3)
    assert rankings.values("recall@10")[0] == pytest.approx(2 / 3)
    assert rankings.values("ndcg")[0] == pytest.approx(
        (1 + 3 / log2(4)) / (3 + 2 / log2(3) + 1 / log2(4))
    )
    with pytest.raises(InputError, match="auc requires the position of every answer; got 1 answers"):
        rankings.values("auc")


def test_metrics_of_single_targets_are_not_those_of_several_answers():
    with pytest.raises(InputError, match=r"use success@10 \(any answer\) or recall@10"):
        for_answers(er.parse("hits@10"))
    with pytest.raises(InputError, match="mr is a metric of single targets"):
        for_answers(er.MR)
    with pytest.raises(InputError, match=r"use ndcg\(half\), dcg\(half\) or first\(half\)"):
        for_answers(er.parse("half"))


@pytest.mark.parametrize(
    ("name", "do"),
    [
        ("map", "average precision is 1/rank; use mrr"),
        ("recall@5", "this is hits@5"),
        ("precision@5", "use hits@5"),
        ("auc", r"use index\(mr\)"),
        ("ndcg_exp@7", "use ndcg or ndcg@7"),
        ("err", "use mrr, ndcg or er.define"),
    ],
)
def test_metrics_of_several_answers_are_not_those_of_ranks(name, do):
    ranks = er.Ranks.of([1, 2], candidates=9)
    for evaluated in (name, f"index({name})", f"z({name})"):
        with pytest.raises(InputError, match=do):
            ranks.evaluate(evaluated)
    with pytest.raises(InputError, match=do):
        er.parse(name)(ranks)


@pytest.mark.parametrize(
    ("better", "equal", "candidates", "message"),
    [
        ([0, 0], [0, 0], 5, "more answers tie than candidates do"),
        ([0, 0], [1, 2], 5, "tied answers differ in the number of equal candidates"),
        ([0, 1], [3, 0], 5, "answers that do not tie overlap"),
        ([5], [0], 5, "a position is above the number of candidates"),
        ([3], [1], 4, "position 5 of 4"),
        ([-2], [0], 5, "better must be at least -1"),
        ([0, 1, 2], [0, 0, 0], 2, "a query has more answers than candidates"),
    ],
)
def test_counts_that_are_no_ranking_are_errors(better, equal, candidates, message):
    with pytest.raises(InputError, match=message):
        Rankings([better], [equal], candidates)


def test_sorted_answers_are_not_sorted_again():
    answers = Answers(np.array([0, 2]), np.array([0, 3]), np.zeros(2, int), None, np.array([9]))
    assert answers.order is None
    assert values(er.parse("map"), answers).tolist() == [0.75]


@pytest.mark.parametrize("most", [5, 10**9])
@pytest.mark.parametrize("graded", [False, True])
def test_answers_are_ordered_by_rank_and_gain(most, graded):
    rng = np.random.default_rng(most)
    for _ in range(100):
        first = np.concatenate([[0], np.cumsum(rng.integers(0, 5, rng.integers(1, 6)))])
        better = rng.integers(-1, most, first[-1])
        gain = rng.choice([1.0, 2.0], first[-1]) if graded else None
        candidates = np.zeros(len(first) - 1, np.int64)
        answers = Answers(first, better, np.zeros_like(better), gain, candidates)
        last = [b if b >= 0 else 2 * most for b in better.tolist()]
        worth = [0.0] * len(last) if gain is None else (-gain).tolist()
        rows = zip(answers.owner.tolist(), last, worth, range(len(last)), strict=True)
        want = [row[-1] for row in sorted(rows)]
        got = answers.order
        assert want == ([*range(len(last))] if got is None else got.tolist())
