"""One test, all metrics: properties that all metrics of the family have."""

import math
import pickle

import numpy as np
import oracle
import pytest
import strategies as own
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.metrics.metric import Statistic
from evenrank.metrics.ties import TIES

close = pytest.approx


@given(own.expressions)
def test_parse_reads_what_str_writes(expression):
    assert er.parse(str(expression)) == expression


@given(own.expressions)
def test_expressions_are_values(expression):
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression
    assert hash(again) == hash(expression)
    assert {expression: 1}[again] == 1


@given(own.metrics)
def test_inverting_twice_is_no_change(metric):
    assert 1 / (1 / metric) == metric


@given(own.metrics, own.rows(), st.sampled_from(TIES))
def test_metric_agrees_with_the_oracle(metric, table, ties):
    got = metric(own.tally(table, weighted=True), ties)
    weights = [row[3] for row in table]

    def f(r: float) -> float:
        return float(metric.f(np.array([r]))[0])

    want = oracle.power_mean(f, metric.p, metric.q, [row[:2] for row in table], weights, ties)
    assert got == close(want, rel=1e-12)


@given(own.rows(), st.sampled_from(TIES))
def test_median_agrees_with_the_oracle(table, ties):
    assert er.MEDIAN(own.tally(table), ties) == oracle.median([row[:2] for row in table], ties)


@given(own.rows(ties=False), st.floats(0, 1))
def test_statistics_agree_with_numpy(table, at):
    ranks = np.array([row[0] + 1.0 for row in table])
    tally = own.tally(table)
    assert Statistic("quantile", at)(tally) == close(np.quantile(ranks, at), rel=1e-11)
    assert er.parse("var")(tally) == close(ranks.var(), rel=1e-12, abs=1e-12)
    assert er.parse("std")(tally) == close(ranks.std(), rel=1e-12, abs=1e-6)
    mad = np.median(np.abs(ranks - np.median(ranks))) / 0.6744897501960817
    assert er.parse("mad")(tally) == close(mad, rel=1e-12)
    assert er.parse("count")(tally) == len(table)


@given(own.rows(), st.floats(0.01, 0.99))
def test_weighted_quantiles_repeat_rows(table, at):
    """A row of weight two is a row twice (up to the averaging at jumps)."""
    twice = [row for row in table for _ in range(2 if row[3] == 2.0 else 1)]
    weights = [2.0 if row[3] == 2.0 else 1.0 for row in table]
    better, equal, candidates, _ = zip(*table, strict=True)
    assume(len(set(weights)) > 1)
    weighted = Statistic("quantile", at)(er.Tally.of(better, equal, candidates, weights))
    ranks = [row[0] + 1 + row[1] / 2 for row in twice]
    assert weighted == close(np.quantile(ranks, at, method="averaged_inverted_cdf"))


@given(own.metrics, own.rows())
def test_best_when_every_rank_is_one(metric, table):
    perfect = er.Tally.of([0] * len(table), [0] * len(table), [row[2] for row in table])
    best, value = metric.best, metric(own.tally(table))
    assert metric(perfect) == close(best, rel=1e-12)
    low, high = metric.range
    assert low - 1e-9 <= value <= high * (1 + 1e-9)
    slack = 1e-9 * (1 + abs(best))
    assert value <= best + slack if metric.increasing else value >= best - slack


@given(own.plain, own.rows())
def test_ties_are_ordered(metric, table):
    """optimistic is best, pessimistic worst, and the other two lie between."""
    assume(metric.increasing is not None)
    tally = own.tally(table)
    sign = 1 if metric.increasing else -1
    values = {ties: sign * metric(tally, ties) for ties in TIES}
    slack = 1e-9 * (1 + abs(values["optimistic"])) if math.isfinite(values["optimistic"]) else 0
    for middle in ("expected", "realistic"):
        assert values["pessimistic"] - slack <= values[middle] <= values["optimistic"] + slack


@given(own.metrics, own.rows(ties=False), st.data())
def test_a_worse_rank_is_never_better(metric, table, data):
    i = data.draw(st.integers(0, len(table) - 1))
    better, _, candidates, weight = table[i]
    assume(better + 1 < candidates)
    worse = [*table[:i], (better + 1, 0, candidates, weight), *table[i + 1 :]]
    before, after = metric(own.tally(table)), metric(own.tally(worse))
    slack = 1e-12 * abs(before) if math.isfinite(before) else 0
    assert after <= before + slack if metric.increasing else after >= before - slack


@given(own.rows(), st.permutations(range(12)), st.integers(1, 5))
def test_tallies_add_bit_by_bit_for_any_sharding(table, order, shards):
    whole = own.tally(table, weighted=True)
    shuffled = [table[i] for i in order if i < len(table)]
    parts = [own.tally(shuffled[i::shards], weighted=True) for i in range(shards) if shuffled[i::shards]]
    merged = sum(parts, er.Tally())
    assert merged == whole
    streamed = er.Tally()
    for better, equal, candidates, weight in shuffled:
        streamed.update([better], [equal], [candidates], [weight])
    assert streamed == whole
    for name in ("mr", "mrr", "gmr", "mean(2)", "ndcg", "median", "std"):
        assert er.parse(name)(merged) == er.parse(name)(whole)  # bit for bit


@given(own.rows(), own.rows(), own.rows())
def test_adding_is_associative_and_commutative_with_identity(a, b, c):
    x, y, z = own.tally(a), own.tally(b), own.tally(c)
    assert (x + y) + z == x + (y + z)
    assert x + y == y + x
    assert x + er.Tally() == er.Tally() + x == x


@settings(deadline=None)
@given(own.sizes)
def test_index_of_a_constant_scorer_is_zero(sizes):
    """Every candidate ties: under `expected` ties an additive metric gets exactly its chance level."""
    assume(max(sizes) > 1)
    constant = er.Tally.of([0] * len(sizes), [n - 1 for n in sizes], sizes)
    for name in ("mr", "mrr", "ndcg"):
        assert er.parse(f"index({name})")(constant) == close(0, abs=1e-12)
        assert er.parse(f"z({name})")(constant) == close(0, abs=1e-9)
        assert er.parse(f"ratio({name})")(constant) == close(1, rel=1e-12)


def test_large_histograms_do_not_depend_on_the_grouping_algorithm():
    """Dense counting, sorting and the row-wise fallback group alike."""
    rng = np.random.default_rng(0)
    better = rng.integers(0, 5 * 10**8, 500)
    equal = rng.integers(0, 4 * 10**8, 500) * (rng.random(500) < 0.5)
    candidates = np.full(500, 10**9)
    weight = rng.random(500)
    whole = er.Tally.of(better, equal, candidates, weight)
    halves = er.Tally.of(better[:250], equal[:250], candidates[:250], weight[:250]) + er.Tally.of(
        better[250:], equal[250:], candidates[250:], weight[250:]
    )
    assert whole == halves
    assert whole.count == 500
    few_ties = er.Tally.of(better % 50, (better % 7 == 0) * 3, candidates % 91 + 100)
    slow = sum(
        (
            er.Tally.of([b % 50], [(b % 7 == 0) * 3], [c % 91 + 100])
            for b, c in zip(better, candidates, strict=True)
        ),
        er.Tally(),
    )
    assert few_ties == slow
