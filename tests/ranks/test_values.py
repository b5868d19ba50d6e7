"""Ranks are frozen values, also without numbers of candidates, and show themselves."""

import dataclasses
import pickle

import numpy as np
import pytest

import evenrank as er
from evenrank.ranks import Protocol, Task

KEYS = {"relation": ["a", "b", "a", "a"], "side": "tail"}


@pytest.fixture
def ranks():
    return er.Ranks.of(
        [1, 2.5, 10, 4], 20, weights=[1, 2, 3, 4], keys=KEYS, protocol={"data": "toy", "model": "A"}
    )


def columns(ranks):
    counts = [ranks.better, ranks.equal, ranks.candidates, *ranks.keys.values()]
    return counts if ranks.weights is None else [*counts, ranks.weights]


def alike(a, b):
    return (
        [column.tolist() for column in columns(a)] == [column.tolist() for column in columns(b)]
        and [*a.keys] == [*b.keys]
        and (a.protocol, a.work) == (b.protocol, b.work)
    )


# Frozen -------------------------------------------------------------------------------------------


def made(ranks, tmp_path):
    """Every way to get ranks from others."""
    ranks.save(tmp_path / "r.parquet")
    yield ranks
    yield er.Ranks.load(tmp_path / "r.parquet")
    yield pickle.loads(pickle.dumps(ranks))
    yield ranks[1:3]
    yield ranks[np.array([True, False, True, True])]
    yield ranks[2]
    yield ranks + ranks
    yield ranks.with_keys(x=[1, 2, 3, 4])
    yield ranks.with_only_keys({"x": 1})
    yield ranks.with_weights([1, 1, 1, 2])
    yield ranks.with_protocol(model="B")
    yield from (group for _, group in ranks.by("relation"))


def test_ranks_cannot_be_changed(ranks, tmp_path):
    for one in made(ranks, tmp_path):
        for name in [*(each.name for each in dataclasses.fields(one)), "other"]:
            with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
                setattr(one, name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            del one.better
        for column in columns(one):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = column[0]
        with pytest.raises(TypeError):
            one.keys["relation"] = column
        with pytest.raises(TypeError):
            one.protocol.extra["x"] = "y"
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.protocol.data = "other"


def test_arguments_stay_writable_and_are_not_copied():
    better, key = np.arange(3), np.arange(3)
    ranks = er.Ranks(better, 0, 9, keys={"k": key})
    assert np.shares_memory(better, ranks.better)
    assert better.flags.writeable
    assert key.flags.writeable


def test_slices_copy_nothing_and_change_nothing(ranks):
    before = pickle.dumps(ranks)
    part = ranks[:2]
    assert np.shares_memory(part.better, ranks.better)
    assert part.with_protocol(model="B").protocol.model == "B"
    assert part.with_keys(relation="z").keys["relation"].tolist() == ["z", "z"]
    assert pickle.dumps(ranks) == before


def test_rows_are_selected_in_the_order_of_indices(ranks):
    assert ranks[[2, 0]].better.tolist() == [9, 0]
    assert ranks[-1].better.tolist() == ranks[np.int8(3)].better.tolist() == [3]
    assert len(ranks[[]]) == len(ranks[ranks.better > 99]) == 0
    assert [len(one) for one in ranks] == [1, 1, 1, 1]
    with pytest.raises(IndexError, match="a row is out of range; got array"):
        ranks[4]


def test_copies_with_changes_leave_the_original_as_it_is(ranks):
    before = pickle.dumps(ranks)
    keyed = ranks.with_keys({"x": [4, 3, 2, 1]}, relation="r")
    assert [*keyed.keys] == ["relation", "side", "x"]
    assert keyed.keys["relation"].tolist() == ["r"] * 4
    assert [*ranks.with_only_keys({"x": 1}).keys] == ["x"]
    assert ranks.with_only_keys(ranks.keys).keys["side"].tolist() == ["tail"] * 4
    assert ranks.with_weights(None).weights is None
    assert ranks.with_weights([0, 0, 0, 1]).evaluate("mr")["mr"] == 4
    other = ranks.with_protocol({"model": "B"}, split="valid", data=None)
    assert other.protocol == Protocol(model="B", split="valid")
    assert ranks.with_protocol(Protocol(data="x"), model="C").protocol == Protocol(data="x", model="C")
    for one in (keyed, ranks.with_weights(None), other):
        assert np.shares_memory(one.better, ranks.better)
    assert pickle.dumps(ranks) == before


def test_pickles_keep_everything():
    graph = er.load("nations")
    model = er.models.load("nations/rotate")
    ranks = er.rank(model, graph.task("test"), progress=False)
    assert ranks.work.scores > 0
    again = pickle.loads(pickle.dumps(ranks))
    assert alike(ranks, again)
    assert not alike(ranks, again.with_protocol(split="valid"))


# Without numbers of candidates --------------------------------------------------------------------


@pytest.fixture
def plain():
    return er.Ranks.of([1, 2.5, 10, 4], keys=KEYS)


def test_metrics_need_no_candidates(plain, ranks):
    names = ["mrr", "hits@3", "gmr", "median", "count"]
    assert dict(plain.evaluate(names)) == dict(ranks.with_weights(None).evaluate(names))
    grouped = plain.by("relation").evaluate("mr")
    assert grouped["mr"].tolist() == [5.0, 2.5]
    assert plain.evaluate("mr", average="relation")["mr"] == pytest.approx(3.75)


@pytest.mark.parametrize("name", ["index(mrr)", "z(hits@1)", "chance(mr)", "ratio(mr)", "phi(median)"])
def test_adjusted_metrics_name_what_is_missing(plain, name):
    message = f"the chance level of {er.parse(name).metric} requires the number of candidates, which is"
    with pytest.raises(er.errors.NullDistributionError, match="number of candidates") as error:
        plain.evaluate("mr", name)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith("pass candidates=")
    assert error.value.in_shell().endswith("pass --candidates")
    grouped = plain.by("relation").evaluate("mr", name)
    assert np.isnan(grouped[name]).all()
    assert any(message in note for note in grouped.notes)


def test_the_default_table_has_no_chance_levels_and_a_note(plain):
    for result in (plain.evaluate(), plain.by("relation").evaluate()):
        assert not [one for one in result.expressions if "(" in str(one)]
        assert result.notes == ("no chance levels: the number of candidates is unknown",)
        assert result.notes[0] in str(result)


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.tsv"])
def test_files_need_no_candidates(plain, tmp_path, name):
    plain.save(tmp_path / name)
    again = er.Ranks.load(tmp_path / name)
    assert alike(plain, again)
    assert not again.has_candidates
    assert er.Ranks.load(tmp_path / name, candidates=20).candidates.tolist() == [20] * 4
    streamed = er.stream(tmp_path / name, by="relation")
    assert streamed.tally == plain.tally()
    wanted = plain.by("relation").evaluate()
    assert np.array_equal(streamed.evaluate().values_by_group, wanted.values_by_group)
    assert streamed.evaluate().expressions == wanted.expressions
    with pytest.raises(er.errors.NullDistributionError, match="number of candidates"):
        er.stream(tmp_path / name).evaluate("index(mr)")


def test_candidates_are_unknown_for_all_or_none(plain, ranks, tmp_path):
    both = plain + plain
    assert not both.has_candidates
    assert both.evaluate("mr")["mr"] == plain.evaluate("mr")["mr"]
    with pytest.raises(er.errors.InputError, match="different columns cannot be concatenated"):
        plain + ranks.with_weights(None)
    plain.save(tmp_path / "a.parquet")
    ranks.with_weights(None).save(tmp_path / "b.parquet")
    mixed = er.stream(tmp_path).evaluate()
    assert mixed.notes[0] == "no chance levels: the number of candidates is unknown"
    assert mixed["mr"] == plain.evaluate("mr")["mr"]


def test_exports_leave_unknown_candidates_out(plain, ranks):
    assert plain.to_polars().columns == ["relation", "side", "better", "equal"]
    assert alike(er.Ranks.from_frame(plain.to_polars()), plain)
    assert "candidates" in ranks.to_polars().columns
    assert "candidates" not in plain._repr_html_()


# Evaluations ---------------------------------------------------------------------------------------


def test_an_evaluation_is_a_mapping(ranks):
    result = ranks.evaluate("mrr", "hits@3", "index(mr)")
    assert [*result] == [*result.keys()] == ["mrr", "hits@3", "index(mr)"]
    assert dict(result) == dict(result.items()) == result.to_dict()
    assert [*result.values()] == [result[name] for name in result]
    assert result["amri"] == result["index(mr)"] == result[er.parse("amri")]
    assert "AMRI" in result
    assert er.MRR in result
    for absent in ("mr", er.MR, "no metric", None, 3, ("mrr",)):
        assert absent not in result
    assert result.get("mr") is None
    assert result.get("mr", 0.5) == 0.5
    assert result == dict(result)
    assert result == ranks.evaluate(["mrr", "hits@3", "index(mr)"])
    assert result != ranks[:2].evaluate("mrr", "hits@3", "index(mr)")
    for kind in (er.errors.InputError, KeyError):
        with pytest.raises(kind, match=r"^gmr was not evaluated; allowed: mrr, hits@3, index\(mr\);"):
            result["gmr"]
    with pytest.raises(er.errors.UnknownMetricError, match="unknown metric; got 'mmr'"):
        result["mmr"]


def test_evaluations_are_frozen_and_equal_by_value(ranks):
    for made in (ranks, ranks.by("relation")):
        one, two = (made.evaluate("mrr", "index(mrr)") for _ in range(2))
        assert one == two == pickle.loads(pickle.dumps(one))
        assert one == dict(two)
        for other in (made.evaluate("mrr"), made.evaluate("mrr", "index(mr)"), {"mrr": 0.0}, {}, 1):
            assert one != other
        for values in (one.values_by_group, one.optimistic, one.pessimistic):
            with pytest.raises(ValueError, match="read-only"):
                values[0, 0] = 9
    grouped = ranks.by("relation").evaluate("mrr")
    assert grouped != ranks.by("side").evaluate("mrr")
    with pytest.raises(ValueError, match="read-only"):
        grouped["mrr"][0] = 9
    undefined = er.Ranks.of([1, 1], 1, keys={"k": [1, 2]}).by("k").evaluate("index(mrr)")
    assert np.isnan(undefined["index(mrr)"]).all()
    assert undefined == pickle.loads(pickle.dumps(undefined))


def test_ranks_in_place_of_a_column_are_an_error(ranks):
    for take in (er.Ranks.of, lambda given: er.Ranks(given, 0), lambda given: er.Ranks.of([1], given)):
        with pytest.raises(er.errors.InputError, match=r"ranks are not an array; .*pass a column"):
            take(ranks)


@pytest.mark.parametrize("form", [list, tuple, lambda names: (er.parse(n) for n in names)])
def test_metrics_are_given_one_by_one_or_as_a_list(ranks, tmp_path, form):
    names = ["mrr", "hits@3"]
    ranks.save(tmp_path / "r.parquet")
    for take in (
        ranks.evaluate,
        ranks.by("relation").evaluate,
        er.stream(tmp_path, progress=False).evaluate,
        er.desiderata,
    ):
        assert repr(take(form(names))) == repr(take(*names))
    assert [*er.desiderata(form(["mr"]))] == [*er.desiderata("mr")]


def test_metrics_are_called_on_ranks_of_any_form(ranks):
    assert er.MRR([1, 2, 3]) == er.MRR(er.Ranks.of([1, 2, 3])) == pytest.approx(11 / 18)
    assert er.MRR(np.array([1.5])) == er.MRR(er.Tally.of([0], [1])) == 0.75
    assert er.MEDIAN([1, 5, 3]) == 3
    assert er.HITS(3)(ranks) == ranks.evaluate("hits@3")["hits@3"]
    assert er.parse("index(mr)")(ranks) == ranks.evaluate("index(mr)")["index(mr)"]
    assert er.MRR([2.5, 2.5], "optimistic") == 0.5
    with pytest.raises(er.errors.NullDistributionError, match="number of candidates"):
        er.parse("z(mr)")([1, 2])


# How objects show themselves ----------------------------------------------------------------------


def test_every_public_object_has_a_useful_repr(ranks, tmp_path):
    ranks.save(tmp_path / "r.parquet")
    task = Task.of([[0], [0], [1]], [1, 2, 3], size=9)
    for thing, text in (
        (er.MRR, "Metric('mrr')"),
        (er.MEDIAN, "Statistic('median')"),
        (er.parse("amri"), "Adjusted('index(mr)')"),
        (ranks.tally(), "Tally(4 targets; 4 distinct numbers of candidates)"),
        (er.chance("mrr", {9: 5, 3: 1}), "NullDistribution(mrr; 6 targets; 3 to 9 candidates)"),
        (er.chance("mrr", [9]), "NullDistribution(mrr; 1 target; 9 candidates)"),
        (er.Ranks.of([1]), "Ranks(1 target; candidates unknown)"),
        (
            ranks,
            f"Ranks(4 targets; keys: relation, side; weighted; data: toy; model: A "
            f"[{ranks.protocol.fingerprint}])",
        ),
        (ranks.by("relation"), "Groups(2 by relation: a, b; 4 targets)"),
        (task, "Task(3 targets of 2 distinct queries among 9 candidates)"),
        (er.stream(tmp_path), "Tallies(4 targets)"),
        (er.stream(tmp_path, by="relation"), "Tallies(4 targets; 2 groups by relation)"),
    ):
        assert repr(thing) == text
    assert repr(Protocol(data="toy")) == "Protocol(data='toy')"
    result = ranks.evaluate("mrr")
    assert repr(result) == str(result) == result.text()
    assert repr(result).startswith("metric")


def test_notebooks_show_tables_and_previews(ranks):
    for thing in (ranks.evaluate(), ranks.by("side").evaluate(), er.desiderata("mrr"), ranks):
        assert thing._repr_html_().startswith("<table>")
    html = ranks._repr_html_()
    assert html.count("<tr>") == 1 + 4
    assert "toy" in html
    many = er.Ranks.of(np.arange(1, 31), keys={"k": np.arange(30)})
    assert many._repr_html_().count("<tr>") == 1 + 10
    assert "20 more targets" in many._repr_html_()
    tied = er.Ranks.of([2.5, 12_345_678])._repr_html_()
    assert ">2.5</td>" in tied
    assert ">12345678</td>" in tied
    groups = ranks.by("relation")._repr_html_()
    assert groups.count("<tr>") == 1 + 2
    assert ">a</td>" in groups
    assert ">3</td>" in groups  # targets of a
    assert "20 more groups" in many.by("k")._repr_html_()
