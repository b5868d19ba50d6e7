"""Consistency of published metrics: no false alarms, and every contradiction that all ranks exclude."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import evenrank as er
from evenrank.published import Candidates, Contradiction, PublishedValue, contradictions

METRICS = (
    "mrr",
    "hits@1",
    "hits@3",
    "hits@10",
    "mr",
    "gmr",
    "hmr",
    "imr",
    "ndcg",
    "mean(2)",
    "index(mrr)",
)


def among(size, targets=1):
    sizes = er.Ranks.of([1] * targets, candidates=[size] * targets).tally().sizes
    return Candidates(sizes, er.Protocol())


@st.composite
def published(draw, steps=(1,)):
    """Draw metrics of random ranks, rounded as in a paper: size, whether in percent, text by metric."""
    size = draw(st.sampled_from([2, 5, 14, 100, 14_541]))
    step = draw(st.sampled_from(steps))
    most = draw(st.sampled_from([min(size, 4), size]))
    ranks = draw(st.lists(st.integers(step, most * step), min_size=1, max_size=40))
    ranks = er.Ranks.of(np.array(ranks) / step, candidates=size)
    percent = draw(st.booleans())
    places = draw(st.integers(0 if percent else 2, 2 if percent else 4))
    names = draw(st.lists(st.sampled_from(METRICS), min_size=2, unique=True))
    values = ranks.evaluate(*names, ties="realistic").to_dict()
    in_percent = {name: percent and PublishedValue.of(name, 0).ends_at_one for name in values}
    printed = {
        name: f"{100 * value if in_percent[name] else value:.{places}f}"
        for name, value in values.items()
    }
    return size, percent, printed


@settings(max_examples=300, deadline=None)
@given(published())
def test_values_computed_from_ranks_never_contradict_each_other(drawn):
    size, percent, values = drawn
    for candidates in (None, among(size)):
        assert contradictions(values, percent=percent, candidates=candidates) == ()


@settings(max_examples=200, deadline=None)
@given(published(steps=(2,)))
def test_half_ranks_violate_only_what_is_marked_as_for_whole_ranks(drawn):
    size, percent, values = drawn
    for found in contradictions(values, percent=percent, candidates=among(size)):
        assert found.whole_ranks
        assert "unless ties have fractional ranks" in str(found)


def feasible(size, values):
    """Search for shares of the ranks 1..size with these metrics, by linear programming."""
    rank = np.arange(1.0, size + 1)
    terms = {"mrr": 1 / rank, "mr": rank, "ndcg": 1 / np.log2(1 + rank)}
    rows, most = [], []
    for name, text in values.items():
        low, high = PublishedValue.of(name, text).rounded_from
        x = terms[name] if name in terms else (rank <= int(name[5:])) * 1.0
        rows += [x, -x]
        most += [high, -low]
    found = linprog(np.zeros(size), rows, most, np.ones((1, size)), [1.0], method="highs")
    return found.status == 0


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_contradictions_equal_an_infeasible_linear_program(data):
    """One mean, and one or more hits: the bounds are sharp, so that both always agree."""
    size = data.draw(st.sampled_from([12, 50]))
    mean = data.draw(st.sampled_from(["mrr", "mr", "ndcg"]))
    value = data.draw(st.floats(1, size) if mean == "mr" else st.floats(0.05, 1))
    ks = sorted(data.draw(st.sets(st.sampled_from([1, 3, 10]), min_size=1)))
    hits = sorted(data.draw(st.lists(st.floats(0, 1), min_size=len(ks), max_size=len(ks))))
    values = {mean: f"{value:.2f}"} | {f"hits@{k}": f"{h:.2f}" for k, h in zip(ks, hits, strict=True)}
    low, high = PublishedValue.of(mean, values[mean]).rounded_from
    assume(low > 1 if mean == "mr" else low > 0 and high < 1)
    assume(all(0.01 < float(values[f"hits@{k}"]) < 0.99 for k in ks))
    found = contradictions(values, candidates=among(size), percent=False)
    assert bool(found) == (not feasible(size, values)), [str(one) for one in found]


@pytest.mark.parametrize(
    ("values", "relation"),
    [
        ({"hits@1": "0.31", "hits@3": "0.29"}, "hits@1 <= hits@3"),
        ({"hits@1": "0.52", "mrr": "0.48"}, "hits@1 <= mrr"),
        ({"hits@10": "57.1 %", "mrr": "0.05"}, "hits@10 / 10 <= mrr"),
        ({"hits@1": "0.10", "mrr": "0.80"}, "mrr <= hits@1 + (1 - hits@1) / 2"),
        ({"hits@10": "0.50", "mrr": "0.60"}, "mrr <= hits@10 + (1 - hits@10) / 11"),
        (
            {"hits@1": "0.20", "hits@10": "0.50", "mrr": "0.45"},
            "mrr <= hits@1 + (hits@10 - hits@1) / 2 + (1 - hits@10) / 11",
        ),
        ({"hits@10": "0.50", "mr": "3.0"}, "hits@10 + 11 (1 - hits@10) <= mr"),
        ({"mr": "3.0", "mrr": "0.30"}, "1 / mrr <= mr"),
        ({"gmr": "3.0", "mr": "2.0"}, "gmr <= mr"),
        ({"imr": "0.50", "mrr": "0.40"}, "imr <= mrr"),
        ({"hmr": "3.0", "mrr": "0.50"}, "hmr <= 1 / mrr"),
        ({"hits@1": "0.60", "ndcg": "0.50"}, "hits@1 <= ndcg"),
    ],
)
def test_a_contradiction_names_its_inequality(values, relation):
    (found,) = contradictions(values)
    assert found.relation == relation
    assert found.left > found.right
    named = str(found).split(" contradict each other: ")[0]
    assert {str(one.metric) for one in found.given} == values.keys()
    assert all(f"{name}={float(text.rstrip(' %')):g}" in named for name, text in values.items())


def test_the_number_of_candidates_limits_ranks():
    values = {"hits@10": "0.50", "mr": "90.0"}
    assert contradictions(values) == ()
    (found,) = contradictions(values, candidates=among(100))
    assert found.relation == "mr <= 10 hits@10 + 100 (1 - hits@10)"
    (found,) = contradictions({"mrr": "0.90", "mr": "60.0"}, candidates=among(100))
    assert found.relation == "mrr <= 1 - (mr - 1) / 100"


def test_rounding_is_that_of_the_printed_digits():
    assert PublishedValue.of("mrr", "0.48").rounded_from == (0.475, 0.485)
    assert PublishedValue.of("mrr", "0.480").rounded_from == (0.4795, 0.4805)
    assert PublishedValue.of("mrr", 0.48).rounded_from == (0.475, 0.485)
    assert PublishedValue.of("mrr", "48.0 %").rounded_from == (0.4795, 0.4805)
    assert PublishedValue.of("mr", "3340").rounded_from == (3339.5, 3340.5)
    assert PublishedValue.of("mr", 3340.0).rounded_from == (3339.5, 3340.5)
    assert PublishedValue.of("mr", "3e3").rounded_from == (2500.0, 3500.0)
    assert PublishedValue(er.parse("mrr"), 0.48).rounded_from == (0.48, 0.48)
    assert contradictions({"mrr": "0.48", "hits@1": "0.49"}) == ()  # 0.485 and 0.485
    assert len(contradictions({"mrr": "0.480", "hits@1": "0.490"})) == 1


def test_adjusted_values_are_checked_among_their_candidates():
    values = {"index(mrr)": "0.30", "hits@1": "0.60"}
    assert contradictions(values) == ()  # without candidates the MRR is unknown
    assert [one.relation for one in contradictions(values, candidates=among(100))] == ["hits@1 <= mrr"]


def test_metrics_without_a_relation_are_ignored():
    assert contradictions({"median": 3, "max": 1, "min": 9}) == ()
    assert contradictions({"mrr": 0.5}) == ()
    with pytest.raises(er.errors.InputError, match="a mapping from metric to value; got list"):
        contradictions([("mrr", 0.5)])


def test_adjust_warns_of_contradictions():
    result = er.adjust({"mrr": "0.48", "hits@1": "0.52"}, data="wn18rr")
    why = "hits@1 <= mrr, but even with rounding 0.515 > 0.485"
    want = f"hits@1=0.52 and mrr=0.48 contradict each other: {why}"
    assert result.notes == ("read as fractions: mrr, hits@1", f"warning: {want}")
    assert want in str(result)
    assert want in result.to_json()


def test_a_table_of_results_warns_of_contradictions_within_one_model(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        "model,data,mrr,hits@1\nA,wn18rr,0.48,0.52\nB,wn18rr,0.54,0.51\nA,fb15k237,0.53,0.52\n"
    )
    warnings = [note for note in er.published.adjust_table(path).notes if note.startswith("warning")]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"warning: {path}:2: A: hits@1=0.52 and mrr=0.48 contradict")
    rows = [{"model": "A", "data": "wn18rr", "mrr": 0.48, "hits@1": 0.52}]
    assert "warning: row 0: A: hits@1=0.52 and mrr=0.48" in "\n".join(
        er.published.adjust_table(rows).notes
    )


def test_a_contradiction_is_a_value():
    one, other = (contradictions({"mrr": 0.4, "hits@1": "52 %"})[0] for _ in range(2))
    assert one == other
    assert isinstance(one, Contradiction)
    assert "hits@1=52 % and mrr=0.4" in str(one)
