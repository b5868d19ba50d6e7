"""Ranks whose files lack the known triples that queries share get them from the data set."""

import numpy as np
import pytest
import shared
from drawn import raises

import evenrank as er
from evenrank.graphs.known import is_estimated, with_atlas, with_graph
from evenrank.ranks.dependence import ESTIMATED
from evenrank.report.document import Report

METRICS = ("z(mrr)", "z(hits@10)", "z(mr)")


@pytest.fixture(scope="module")
def graph():
    return er.load("nations")


@pytest.fixture(scope="module", params=["test", "valid"])
def exact(graph, request):
    """Ranks that keep the shared triples."""
    return er.rank(er.models.load("nations/transe"), graph.task(request.param), progress=False)


def without(ranks, **changed):
    """The same ranks, as a file without the shared triples has them."""
    made = er.Ranks(ranks.better, ranks.equal, ranks.candidates, keys=ranks.keys)
    return made.with_protocol(ranks.protocol).with_protocol(**changed)


def test_z_is_that_of_ranks_that_keep_the_triples(exact, graph):
    lacking = without(exact)
    assert is_estimated(lacking)
    assert ESTIMATED in lacking.evaluate(*METRICS).notes
    for known in (with_atlas(lacking), with_graph(lacking, graph)):
        made = known.evaluate(*METRICS)
        assert made.notes == ()
        assert dict(made) == pytest.approx(dict(exact.evaluate(*METRICS)), rel=1e-12)


def test_groups_are_exact_with_the_graph(exact, graph):
    known = with_graph(without(exact), graph).by("relation").evaluate("z(mrr)")
    want = exact.by("relation").evaluate("z(mrr)")
    assert known["z(mrr)"] == pytest.approx(want["z(mrr)"], nan_ok=True)


def test_ranks_in_another_order_have_the_same_triples(exact, graph):
    turned = without(exact)[::-1]
    assert dict(with_graph(turned, graph).evaluate("z(mrr)")) == pytest.approx(
        dict(exact.evaluate("z(mrr)"))
    )


def test_other_ranks_stay_as_they_are(exact, graph):
    assert with_atlas(exact) is exact
    assert with_graph(exact, graph) is exact
    plain = er.Ranks.of([1, 2], candidates=9)
    assert with_atlas(plain) is plain
    for other in (without(exact, data="unknown"), without(exact)[:9], without(exact, filter=())):
        assert with_atlas(other) is other


def test_ranks_of_another_graph_are_an_error(exact):
    with raises("the ranks are not of the (test|valid) triples of this graph; got kinships"):
        with_graph(without(exact), er.load("kinships"))


def test_reports_take_z_from_the_atlas(exact):
    if exact.protocol.split == "test":
        made, want = Report({"a": without(exact)}), Report({"a": exact})
        assert not any(ESTIMATED in note for note in made.notes())
        assert made.rows()[0]["z(mrr)"] == pytest.approx(want.rows()[0]["z(mrr)"])


@pytest.mark.parametrize("time", ["aware", "agnostic", "overlap"])
def test_the_graph_is_filtered_by_time_as_the_ranks_were(time):
    draw = np.random.default_rng(4)
    rows = np.column_stack([draw.integers(0, n, 200) for n in (9, 2, 9, 2, 3)])
    rows[:, 4] += rows[:, 3]
    rows = draw.permutation(np.unique(rows, axis=0))
    graph = er.Graph.of(rows[:100], rows[100:120], rows[120:], entities=9, name="mine")
    task = graph.task("test", time=time)
    ranks = er.rank(lambda q, c: np.ones((len(q), 9))[:, c], task, progress=False)
    known = with_graph(without(ranks), graph)
    assert known.evaluate("z(mrr)", "z(mr)").notes == ()
    null = er.chance("mr", task)
    assert known.evaluate("z(mr)")["z(mr)"] == pytest.approx(
        float((null.mean() - ranks.evaluate("mr")["mr"]) / null.std()), abs=1e-9
    )
    assert ESTIMATED in without(ranks).evaluate("z(mr)").notes


@shared.needs("benchmarks/temporal")
@pytest.mark.parametrize("time", ["aware", "agnostic"])
def test_the_atlas_has_both_filters_by_time(time):
    graph = er.load(shared.path("benchmarks/temporal/icews14-temp"), name="icews14")
    table = np.random.default_rng(1).normal(size=(len(graph.entities), 2))
    model = er.models.DistMult(entity=table, relation=table[: len(graph.relations)])
    ranks = er.rank(model, graph.task("test", time=time), progress=False)
    assert ESTIMATED in ranks.evaluate(*METRICS).notes
    made = with_atlas(without(ranks)).evaluate(*METRICS)
    assert made.notes == ()
    null = er.chance("mrr", er.atlas("icews14", time=time))
    above = ranks.evaluate("mrr")["mrr"] - float(null.mean())
    assert made["z(mrr)"] == pytest.approx(above / float(null.std()), rel=1e-9)
