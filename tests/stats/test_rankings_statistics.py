"""Intervals, paired tests and summaries of rankings, against formulas, SciPy, enumeration and ranks."""

from itertools import product

import numpy as np
import pytest
import scipy.stats
from drawn import scipy_seed

import evenrank as er
from evenrank import Rankings
from evenrank.errors import InputError

METRICS = ["map", "mrr", "ndcg@5", "recall@3", "auc", "precision@5", "f1@5", "rbp(0.8)"]


def drawn(seed=0, queries=90, help_=0.8, empty=0.0, model=None):
    """Rank random scores of the same graded answers for every seed."""
    task = np.random.default_rng(9)
    gains = (task.random((queries, 20)) < 0.15) * task.integers(1, 4, (queries, 20))
    gains[gains.sum(axis=1) == 0, 0] = 1
    gains[task.random(queries) < empty] = 0
    scores = np.random.default_rng(seed).normal(size=gains.shape).round(1) + help_ * (gains > 0)
    number = np.arange(queries)
    keys = {"query": number, "user": number // 3, "kind": np.where(number % 3, "a", "b")}
    return Rankings.from_scores(scores, gains, keys=keys, protocol={"model": model} if model else None)


# Intervals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_the_delta_interval_of_a_mean_over_queries_is_that_of_student(metric):
    rankings = drawn()
    x = rankings.values(metric)
    found = er.intervals(rankings, metric, level=0.9)[metric]
    low, high = scipy.stats.t.interval(0.9, len(x) - 1, x.mean(), scipy.stats.sem(x))
    assert found == pytest.approx((x.mean(), low, high, scipy.stats.sem(x), len(x)))


def test_the_interval_of_an_adjusted_metric_is_that_of_the_metric_on_its_scale():
    rankings = drawn(empty=0.1)
    made = er.intervals(rankings, "ndcg@5", "index(ndcg@5)", "z(ndcg@5)", "chance(ndcg@5)")
    plain, index, z, chance = (made[m] for m in made.evaluation)
    level = rankings.evaluate("chance(ndcg@5)")["chance(ndcg@5)"]
    assert index.low == pytest.approx((plain.low - level) / (1 - level))
    assert index.standard_error == pytest.approx(plain.standard_error / (1 - level))
    assert (z.value - z.low) / (z.high - z.low) == pytest.approx(0.5)
    assert chance.value == level
    assert np.isnan(chance.low)


def test_a_share_of_queries_has_the_interval_of_a_proportion():
    rankings = Rankings.of([[1, 9], [3, 4], [2], [8], [1, 2], [7, 9]], candidates=10)
    found = er.intervals(rankings, "success@3")["success@3"]
    exact = scipy.stats.binomtest(4, 6).proportion_ci(0.95, "exact")
    assert found[:3] == pytest.approx((4 / 6, exact.low, exact.high))


@pytest.mark.parametrize(("method", "name"), [("percentile", "percentile"), ("bootstrap", "BCa")])
def test_bootstrap_intervals_agree_with_those_of_scipy(method, name):
    rankings = drawn()
    found = er.intervals(rankings, "map", method=method, seed=3)["map"]
    theirs = scipy.stats.bootstrap(
        [rankings.values("map")], np.mean, n_resamples=10_000, method=name, **scipy_seed(4)
    )
    width = found.high - found.low
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=0.05 * width)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=0.05 * width)
    assert found.standard_error == pytest.approx(theirs.standard_error, rel=0.05)


def test_queries_of_one_user_are_resampled_together():
    rankings = drawn()
    x, user = rankings.values("map"), rankings.keys["user"]
    influence = np.bincount(user, x - x.mean()) / len(x)
    count = len(influence)
    error = np.sqrt(count / (count - 1) * (influence**2).sum())
    found = er.intervals(rankings, "map", unit="user")["map"]
    assert (found.standard_error, found.n) == (pytest.approx(error), count)
    again = er.intervals(rankings, "map", unit="user", method="percentile")["map"]
    assert again.standard_error == pytest.approx(error, rel=0.1)


def test_queries_without_answers_are_as_if_they_were_not_there():
    rankings = drawn(empty=0.3)
    some = rankings[rankings.answer_counts > 0]
    assert 0 < len(some) < len(rankings)
    for options in ({}, {"average": "kind"}, {"unit": "user"}, {"method": "percentile"}):
        a, b = (
            er.intervals(one, "map", "index(ndcg@5)", "z(map)", **options) for one in (rankings, some)
        )
        for metric in a.evaluation:
            assert a[metric] == pytest.approx(b[metric])
        assert any("without answers: left out" in line for line in a.tables()[0].notes)
        assert not any("without answers" in line for line in b.tables()[0].notes)


def test_a_macro_average_over_kinds_is_the_mean_of_theirs():
    rankings = drawn(empty=0.2)
    found = er.intervals(rankings, "map", average="kind")["map"]
    x, kind = rankings.values("map"), rankings.keys["kind"]
    each = [x[(kind == k) & ~np.isnan(x)] for k in "ab"]
    assert found.value == pytest.approx(np.mean([one.mean() for one in each]))
    assert found.standard_error == pytest.approx(
        np.sqrt(sum(one.var(ddof=1) / len(one) for one in each)) / 2
    )
    assert rankings.evaluate("map", average="kind")["map"] == pytest.approx(found.value)


def test_queries_whose_candidates_are_all_answers_have_no_share_in_the_auc_alone():
    whole = Rankings([[0, 1], [0]], 0, [2, 1], keys={"query": [90, 91], "user": [9, 9], "kind": "a"})
    rankings = drawn().with_keys(kind="a") + whole
    for method in ("delta", "percentile"):
        made = er.intervals(rankings, "auc", "map", method=method)
        x = rankings.values("auc")[:-2]
        assert made["auc"].value == pytest.approx(x.mean())
        assert made["auc"].standard_error == pytest.approx(scipy.stats.sem(x), rel=0.05)
        assert (made["auc"].n, made["map"].n) == (92, 92)
        alone = er.intervals(rankings, "map", method=method)["map"]
        assert made["map"] == alone
    other = drawn(1).with_keys(kind="a") + whole
    made = er.compare(rankings, other, metrics=["auc", "map"], test="t")
    t = scipy.stats.ttest_rel(rankings.values("auc")[:-2], other.values("auc")[:-2])
    assert made.pair("model 1", "model 2", "auc").p == pytest.approx(t.pvalue)
    assert "auc: 2 queries left out, as all candidates are answers" in made.notes
    for test in ("permutation", "wilcoxon"):
        assert len(er.compare(rankings, other, metrics=["auc", "map"], test=test).pairs) == 2


def test_with_one_answer_per_query_intervals_and_tests_are_those_of_ranks():
    rng = np.random.default_rng(5)
    keys = {"query": np.arange(50), "answer": np.arange(50)}
    first, second = (er.Ranks.of(rng.integers(1, 30, 50), candidates=30, keys=keys) for _ in range(2))
    several = [Rankings.from_ranks(one) for one in (first, second)]
    for metric, twin in {"mrr": "map", "hits@10": "recall@10", "ndcg": "ndcg"}.items():
        for wrap in ("{}", "index({})", "z({})"):
            m, n = wrap.format(metric), wrap.format(twin)
            a, b = er.intervals(first, m, unit="query")[m], er.intervals(several[0], n)[n]
            if metric != "hits@10":  # which is a proportion
                assert a == pytest.approx(b, rel=1e-9), m
            p = er.compare(first, second, metrics=m, unit="query", seed=1).pairs[0]
            q = er.compare(*several, metrics=n, seed=1).pairs[0]
            assert (p.p, p.wins, p.ties, p.losses) == (q.p, q.wins, q.ties, q.losses)
            assert (p.low, p.high, p.effect) == pytest.approx((q.low, q.high, q.effect), rel=1e-9)


def test_models_and_groups_have_a_row_each():
    models = {"a": drawn(1), "b": drawn(2, help_=0.1)}
    made = er.intervals(models, "map", "chance(map)")
    assert [label for label, *_ in made.evaluation.labels] == ["a", "b"]
    assert made["map"][1] == er.intervals(models["b"], "map")["map"]
    grouped = er.intervals({name: one.by("kind") for name, one in models.items()}, "map")
    assert grouped.evaluation.labels[1] == ("a", "b")
    part = models["a"][models["a"].keys["kind"] == "b"]
    assert grouped["map"][1] == er.intervals(part, "map")["map"]
    values = er.evaluate(models, "map", "z(map)")
    assert values["z(map)"][0] == models["a"].evaluate("z(map)")["z(map)"]
    assert values.counts == (90, 90)
    assert "map" in er.intervals(drawn()).evaluation


def population(queries=20_000):
    """Values of queries whose number of answers and difficulty vary widely."""
    rng = np.random.default_rng(2)
    count = np.minimum(rng.geometric(0.3, queries), 12)
    skill = rng.gamma(1.0, 1.0, queries)
    positions = []
    for m, s in zip(count.tolist(), skill.tolist(), strict=True):
        place = np.unique(np.floor(200 * rng.random(3 * m) ** (1 + 2 * s)).astype(int) + 1)
        positions.append(np.sort(rng.permutation(place)[:m]))
    return Rankings.of(positions, candidates=200)


def test_intervals_cover_the_truth_in_93_to_97_percent_of_test_sets():
    whole, metrics, times, size = population(), ["map", "ndcg@10", "recall@10"], 500, 150
    truth = {metric: whole.values(metric).mean() for metric in metrics}
    rng = np.random.default_rng(0)
    hits = {(method, metric): 0 for method in ("delta", "percentile") for metric in metrics}
    for i in range(times):
        part = whole[rng.integers(0, len(whole), size)]
        for method in ("delta", "percentile"):
            made = er.intervals(part, *metrics, method=method, samples=400, seed=i)
            for metric in metrics:
                _, low, high, *_ = made[metric]
                hits[method, metric] += low <= truth[metric] <= high
    share = {key: count / times for key, count in hits.items()}
    assert all(0.93 <= one <= 0.97 for one in share.values()), share


# Comparisons --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_the_paired_t_test_is_that_of_scipy(metric):
    a, b = drawn(1), drawn(2)
    pair = er.compare(a=a, b=b, metrics=metric, test="t").pair("a", "b")
    x, y = a.values(metric), b.values(metric)
    theirs = scipy.stats.ttest_rel(x, y)
    assert pair.p == pytest.approx(theirs.pvalue)
    assert pair.difference == pytest.approx((x - y).mean())
    low, high = theirs.confidence_interval()
    assert (pair.low, pair.high) == pytest.approx((low, high))
    d = x - y
    assert pair.effect == pytest.approx(d.mean() / d.std(ddof=1))
    wins, ties = int((d > 1e-12).sum()), int((abs(d) <= 1e-12).sum())
    assert (pair.wins, pair.ties, pair.losses) == (wins, ties, len(d) - wins - ties)


def test_the_signed_rank_test_is_that_of_scipy():
    a, b = drawn(1), drawn(2)
    pair = er.compare(a=a, b=b, metrics="ndcg@5", test="wilcoxon").pair("a", "b")
    d = np.round(a.values("ndcg@5") - b.values("ndcg@5"), 12)
    assert pair.p == pytest.approx(scipy.stats.wilcoxon(d[d != 0]).pvalue)


def test_sign_flips_of_few_queries_are_enumerated():
    a, b = drawn(1, queries=10, help_=1.5), drawn(2, queries=10, help_=0.0)
    d = a.values("map") - b.values("map")
    d = d[abs(d) > 1e-12]
    sums = np.array([np.dot(signs, d) for signs in product([-1, 1], repeat=len(d))])
    exact = (abs(sums) >= abs(d.sum()) - 1e-12).mean()
    for metric in ("map", "index(map)"):
        assert er.compare(a=a, b=b, metrics=metric).pair("a", "b").p == pytest.approx(exact)


def test_users_flip_the_signs_of_their_queries_together():
    a, b = drawn(1, queries=24), drawn(2, queries=24)
    d = np.bincount(a.keys["user"], a.values("map") - b.values("map"))
    sums = np.array([np.dot(signs, d) for signs in product([-1, 1], repeat=len(d))])
    exact = (abs(sums) >= abs(d.sum()) - 1e-12).mean()
    assert er.compare(a=a, b=b, unit="user").pair("a", "b").p == pytest.approx(exact)


def test_queries_are_joined_by_their_key_in_any_order():
    a, b = drawn(1, empty=0.1), drawn(2, empty=0.1)
    expected = er.compare(a=a, b=b).pair("a", "b")
    order = np.random.default_rng(0).permutation(len(b))
    assert er.compare(a=a, b=b[order]).pair("a", "b") == expected
    text = b[order].with_keys(query=[str(q) for q in b.keys["query"][order]])
    assert er.compare(a=a, b=text).pair("a", "b") == expected
    assert er.compare(a=a, b=b, on="row").pair("a", "b") == expected
    one, other = (drawn(seed).with_keys(number=drawn().keys["query"]) for seed in (1, 2))
    one, other = (r._with(keys={k: v for k, v in r.keys.items() if k != "query"}) for r in (one, other))
    joined = er.compare(a=one, b=other[order]).pair("a", "b")  # by all keys
    assert joined == er.compare(a=drawn(1), b=drawn(2)).pair("a", "b")
    assert er.compare(a=one, b=other[order], on="number").pair("a", "b") == joined


def test_three_models_are_corrected_for_three_tests():
    models = {"a": drawn(1, help_=1.5), "b": drawn(2), "c": drawn(3, help_=0.2)}
    made = er.compare(models, metrics=["map", "ndcg@5"], test="t")
    p = np.array([pair.p for pair in made.pairs])
    order = np.argsort(p)
    holm = np.maximum.accumulate(p[order] * np.arange(6, 0, -1)).clip(max=1)
    assert np.array([pair.p_corrected for pair in made.pairs])[order] == pytest.approx(holm)
    assert made.unit == "query"
    assert made.pair("a", "c", "map").better(0.95) == "a"
    assert "map" in str(made)
    assert r"\begin{tabular}" in made.to_latex()


def test_equal_models_differ_significantly_in_about_5_percent_of_test_sets():
    rng, times = np.random.default_rng(1), 400
    found = dict.fromkeys(["permutation", "t"], 0)
    for i in range(times):
        count = rng.integers(1, 5, 40)
        a, b = (
            Rankings.of([rng.permutation(30)[:m] + 1 for m in count], 30, keys={"query": np.arange(40)})
            for _ in range(2)
        )
        for test in found:
            found[test] += er.compare(a=a, b=b, test=test, samples=500, seed=i).pairs[0].p <= 0.05
    assert all(0.025 <= one / times <= 0.08 for one in found.values()), found


# Several runs, several data sets ------------------------------------------------------------------


def test_runs_are_summarized_by_mean_and_standard_deviation():
    runs = [drawn(seed) for seed in range(4)]
    row = er.summarize_runs(runs, "map", "index(map)").rows()[0]
    x = np.array([run.values("map").mean() for run in runs])
    assert (row["mean"], row["sd"], row["n"]) == (
        pytest.approx(x.mean()),
        pytest.approx(x.std(ddof=1)),
        4,
    )
    assert str(er.summarize_runs(runs).spreads[0].metric) == "map"


def test_models_are_ordered_across_data_sets_by_index():
    data = {
        name: {"good": drawn(s, help_=2.0), "poor": drawn(s + 9, help_=0.0)}
        for s, name in enumerate("xyz")
    }
    made = er.across_datasets(data)
    assert str(made.metric) == "map"
    assert [one.model for one in made.average_ranks] == ["good", "poor"]
    first = made.results[0]
    assert first.z == data["x"]["good"].evaluate("z(map)")["z(map)"]
    fewer = {"x": data["x"], "y": {"good": drawn(1), "poor": drawn(2)[:50]}}
    with pytest.raises(InputError, match=r"numbers of candidates|numbers of answers"):
        er.across_datasets(fewer)


# Errors -------------------------------------------------------------------------------------------

NO_KEYS = Rankings.of([[1], [2]], 9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: er.averages(drawn()), "got rankings of queries with several answers; use average="),
        (lambda: er.intervals(drawn(), averages=True), "got rankings of queries with several answers"),
        (lambda: er.estimate_full(drawn()), "every sample must be ranks of single targets"),
        (lambda: er.estimate_full(drawn().by("kind")), "every sample must be ranks of single targets"),
        (lambda: er.intervals(drawn(), unit="target"), "use query"),
        (lambda: er.intervals(drawn(), "hits@10"), "use success@10"),
        (lambda: er.intervals(drawn(), "median"), "median is a metric of single targets"),
        (lambda: er.compare(drawn(), drawn(1), metrics="count"), "not a mean over queries"),
        (lambda: er.compare(drawn(), drawn(1), metrics="chance(map)"), "does not depend on the ranks"),
        (lambda: er.intervals(drawn().ranks(), "map"), "use mrr"),
        (lambda: er.compare(drawn(), drawn(1).ranks()), "do not mix; got rankings in model 1"),
        (lambda: er.intervals([drawn(), drawn(1).ranks()]), "do not mix"),
        (lambda: er.summarize_runs([drawn(), drawn(1).ranks()]), "do not mix"),
        (
            lambda: er.compare(drawn(), drawn(1)[:50]),
            "the models have different queries; got 40 only in",
        ),
        (lambda: er.compare(NO_KEYS, NO_KEYS), "no key identifies the queries"),
        (
            lambda: er.compare(*[NO_KEYS.with_keys(query=0)] * 2),
            "got keys query, in which queries agree",
        ),
        (
            lambda: er.compare(*[NO_KEYS.with_keys(user=0)] * 2, on="user"),
            "different queries have the same keys; got 2 such, e.g. user 0",
        ),
        (
            lambda: er.compare(NO_KEYS, Rankings.of([[1], [2, 3]], 9), on="row"),
            "different numbers of answers; got 1 of 2 queries: row 1 has 1 in model 1 and 2 in model 2",
        ),
        (
            lambda: er.compare(NO_KEYS, Rankings.of([[1], [2]], 9, gains=[[1], [2]]), on="row"),
            "different gains; got row 1",
        ),
        (
            lambda: er.compare(NO_KEYS, Rankings.of([[1], [2]], 8), on="row"),
            "different numbers of candidates",
        ),
        (lambda: er.compare(NO_KEYS[:1], NO_KEYS[:1], on="row"), "got 1 query of one query"),
    ],
)
def test_bad_input_gets_one_clear_error(call, message):
    with pytest.raises(InputError, match=message):
        call()
