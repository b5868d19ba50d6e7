"""Ranks: conversion from and to other forms, groups and averages."""

import json

import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as own
from hypothesis import given
from hypothesis import strategies as st

import evenrank as er

KEYS = {
    "head": ["a", "b", "a", "c", "b", "ü"],
    "relation": ["r", "r", "s", "s", "r", "r"],
    "tail": ["x", "x", "y", "x", "z", "x"],
    "side": ["tail", "tail", "tail", "head", "head", "head"],
}


@pytest.fixture
def ranks():
    return er.Ranks(
        [0, 3, 9, 1, 0, 2],
        [0, 1, 0, 0, 4, 0],
        [10, 20, 10, 30, 10, 10],
        keys=KEYS,
        protocol={"data": "toy", "filter": "all"},
    )


def same(a: er.Ranks, b: er.Ranks) -> bool:
    return (
        all(np.array_equal(getattr(a, c), getattr(b, c)) for c in ("better", "equal", "candidates"))
        and list(a.keys) == list(b.keys)
        and all(a.keys[k].tolist() == b.keys[k].tolist() for k in a.keys)
    )


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.tsv"])
def test_files_round_trip_with_their_protocol(ranks, tmp_path, name):
    ranks.save(tmp_path / name)
    again = er.Ranks.load(tmp_path / name)
    assert same(ranks, again)
    assert again.protocol.to_dict() == {"data": "toy", "filter": "all"}
    assert list(tmp_path.iterdir()) == [tmp_path / name]  # no temporary file is left


def test_csv_keeps_every_row_and_every_name(tmp_path):
    """A name that starts with # is no comment, and 01 is not 1."""
    ranks = er.Ranks.of(
        [1, 2, 3], candidates=9, keys={"relation": ["#a", "01", "1"]}, protocol={"n": "#"}
    )
    ranks.save(tmp_path / "r.csv")
    assert er.Ranks.load(tmp_path / "r.csv").keys["relation"].tolist() == ["#a", "01", "1"]


def test_adding_ranks_concatenates_rows(ranks):
    other = er.Ranks.of([1], candidates=3, keys={k: ["q"] for k in KEYS}, protocol={"data": "toy"})
    both = ranks + other
    assert len(both) == 7
    assert both.keys["head"][-1] == "q"
    assert both.protocol.to_dict() == {"data": "toy"}
    assert both.tally() == ranks.tally() + other.tally()
    assert len(ranks[0]) == 1


def test_keys_of_mixed_types_become_text():
    import datetime

    keys = {"k": [None, "a", "a"], "d": [datetime.date(2022, 3, 14)] * 3, "m": [1, "x", 2.5]}
    ranks = er.Ranks.of([1, 2, 3], candidates=9, keys=keys)
    assert ranks.to_arrow()["k"].to_pylist() == ["", "a", "a"]
    assert ranks.by("k", "d").labels == (("", "2022-03-14"), ("a", "2022-03-14"))


def test_many_keys_do_not_collide():
    n = 3000
    keys = {f"k{j}": np.random.default_rng(j).permutation(n) for j in range(7)}
    groups = er.Ranks.of([1] * n, candidates=9, keys=keys).by(*keys)
    assert set(groups.labels) == set(zip(*(map(str, column) for column in keys.values()), strict=True))


def test_small_integer_types_do_not_wrap():
    assert er.Ranks.of(np.array([200], np.uint8), 255).better.tolist() == [199]
    assert er.Ranks.of(np.array([100], np.int8), 127).evaluate("mr")["mr"] == 100


def test_many_wide_ties_are_cut_into_parts():
    rng = np.random.default_rng(0)
    better, equal = rng.integers(0, 100, 20_000), rng.integers(10**4, 10**6, 20_000)
    value = er.Ranks(better, equal, 2 * 10**6).evaluate("hits@10")["hits@10"]
    want = np.clip(10 - better, 0, equal + 1) / (equal + 1)
    assert value == pytest.approx(want.mean(), rel=1e-12)


def test_a_group_of_weight_zero_is_left_out():
    ranks = er.Ranks.of([1, 2, 3], candidates=9, weights=[0, 0, 1.0], keys={"k": ["a", "a", "b"]})
    assert ranks.evaluate("mr", average="k")["mr"] == 3
    groups = ranks.by("k").evaluate("mr")
    assert groups.labels == (("b",),)
    assert "1 group of weight zero left out: a" in str(groups)


def test_rows_of_weight_zero_do_not_count():
    with_zero = er.Ranks.of([1, 5, 7, 9], candidates=10, weights=[1, 1, 1, 0])
    without = er.Ranks.of([1, 5, 7], candidates=10)
    for name in ("quantile(0.9)", "count", "max", "mrr", "index(median)"):
        assert with_zero.evaluate(name)[name] == without.evaluate(name)[name]


def test_weights_round_trip(tmp_path):
    ranks = er.Ranks.of([1, 2], candidates=5, weights=[0.25, 3])
    ranks.save(tmp_path / "w.parquet")
    assert er.Ranks.load(tmp_path / "w.parquet").weights.tolist() == [0.25, 3.0]


def test_the_documented_schema_is_what_is_written(ranks, tmp_path):
    ranks.save(tmp_path / "r.parquet")
    frame = pl.read_parquet(tmp_path / "r.parquet")
    assert frame.columns == ["head", "relation", "tail", "side", "better", "equal", "candidates"]
    assert json.loads(pl.read_parquet_metadata(tmp_path / "r.parquet")["evenrank"])["data"] == "toy"
    ranks.save(tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().startswith('# evenrank {"data": "toy"')


def test_frames_round_trip(ranks):
    for frame in (ranks.to_polars(), ranks.to_pandas(), ranks.to_arrow()):
        assert same(er.Ranks.from_frame(frame), ranks)
    assert isinstance(ranks.to_pandas(), pd.DataFrame)
    assert isinstance(ranks.to_arrow(), pa.Table)
    assert pl.DataFrame(ranks).height == 6  # through the Arrow interface


def test_frames_of_other_libraries():
    table = pd.DataFrame({"rank": [1.0, 2.5], "candidates": [9, 9], "model": ["m", "m"]})
    assert er.Ranks.from_frame(table).equal.tolist() == [0, 1]
    both = pl.DataFrame({"optimistic": [1, 2], "pessimistic": [3, 2], "candidates": [5, 5]})
    assert er.Ranks.from_frame(both).equal.tolist() == [2, 0]
    bare = pl.DataFrame({"rank": [1, 4]})
    assert er.Ranks.from_frame(bare, candidates=10).candidates.tolist() == [10, 10]


@given(own.rows())
def test_pairs_of_ranks_and_mean_ranks_are_read_back(table):
    better, equal, candidates, _ = (np.array(c) for c in zip(*table, strict=True))
    pairs = er.Ranks.between(better + 1, better + equal + 1, candidates)
    assert pairs.equal.tolist() == equal.tolist()
    mean = er.Ranks.of(better + 1 + equal / 2, candidates)
    for name in ("mr", "mrr", "hits@3", "gmr"):
        value = er.parse(name)
        realistic = value(pairs.tally(), "realistic")
        assert value(mean.tally(), "realistic") == pytest.approx(realistic, rel=1e-14)


@given(st.data(), st.integers(1, 6), st.integers(1, 8))
def test_scores_are_counted_like_the_oracle(data, queries, width):
    score = st.sampled_from([0.0, 1.0, 1.0 + 2**-52, -np.inf, np.inf, 0.5, 1e-300])
    scores = [[data.draw(score) for _ in range(width)] for _ in range(queries)]
    target = [data.draw(st.integers(0, width - 1)) for _ in range(queries)]
    known = [[data.draw(st.booleans()) for _ in range(width)] for _ in range(queries)]
    got = er.Ranks.from_scores(scores, target, known)
    want = [oracle.count(s, t, k) for s, t, k in zip(scores, target, known, strict=True)]
    assert list(zip(got.better, got.equal, got.candidates, strict=True)) == want


def test_by_groups_and_keeps_every_row(ranks):
    groups = ranks.by("relation", "side")
    assert groups.labels == (("r", "head"), ("r", "tail"), ("s", "head"), ("s", "tail"))
    assert sum(len(part) for _, part in groups) == len(ranks)
    result = groups.evaluate("mr", "chance(mr)")
    for (label, part), mr, chance in zip(groups, result["mr"], result["chance(mr)"], strict=True):
        alone = part.evaluate("mr", "chance(mr)")
        assert (alone["mr"], alone["chance(mr)"]) == (mr, chance), label
    assert result.rows()[0]["relation"] == "r"


def test_groups_that_are_undefined_get_a_note(ranks):
    result = er.Ranks.of([1, 2], candidates=[1, 9], keys={"k": [0, 1]}).by("k").evaluate("index(mrr)")
    assert np.isnan(result["index(mrr)"][0])
    assert not np.isnan(result["index(mrr)"][1])
    assert "(in 1 of 2 groups)" in str(result)


@pytest.mark.parametrize("average", ["relation", "side", ("relation", "side"), "relation,side", "query"])
@pytest.mark.parametrize("name", ["mr", "mrr", "hits@3"])
def test_macro_averages_are_means_of_group_means(ranks, average, name):
    if average == "query":
        names = [f"{s}{h if s == 'tail' else t}{r}" for h, r, t, s in zip(*KEYS.values(), strict=True)]
        keyed = er.Ranks(ranks.better, ranks.equal, ranks.candidates, keys={"query": names})
        groups = keyed.by("query")
        assert keyed.evaluate(name, average="query")[name] == ranks.evaluate(name, average="query")[name]
    else:
        groups = ranks.by(*(average.split(",") if isinstance(average, str) else average))
    means = groups.evaluate(name)[name]
    assert ranks.evaluate(name, average=average)[name] == pytest.approx(means.mean(), rel=1e-12)
    # and chance, by enumeration with the same weights
    tally = ranks.tally(average)
    sizes = tally.sizes
    null = er.chance(name, sizes)
    w = np.repeat(sizes["weight"], sizes.counts)
    n = np.repeat(sizes["candidates"], sizes.counts)
    each = er.chance(name, [10]).mean
    assert each() > 0
    expected = (
        sum(wi * float(er.chance(name, [int(ni)]).mean()) for wi, ni in zip(w, n, strict=True)) / w.sum()
    )
    variance = (
        sum(wi**2 * float(er.chance(name, [int(ni)]).var()) for wi, ni in zip(w, n, strict=True))
        / w.sum() ** 2
    )
    assert null.mean() == pytest.approx(expected, rel=1e-12)
    assert null.var() == pytest.approx(variance, rel=1e-12)


def test_inverse_frequency_weights_multiply_given_weights():
    ranks = er.Ranks.of([1, 2, 7], candidates=10, weights=[1, 3, 5], keys={"g": ["a", "a", "b"]})
    want = ((1 * 1 + 3 * 2) / 4 + 7) / 2
    assert ranks.evaluate("mr", average="g")["mr"] == pytest.approx(want)


def test_tie_rate_and_band_are_reported(ranks):
    result = ranks.evaluate("mrr", "mr")
    assert result.tie_rates == (2 / 6,)
    assert ranks.tie_rate == pytest.approx(2 / 6)
    assert result.optimistic[0, 0] > result["mrr"] > result.pessimistic[0, 0]
    text = str(result)
    assert "optimistic" in text
    assert "33.3% tied" in text
    clear = er.Ranks.of([1, 2], candidates=5).evaluate("mrr")
    assert clear.optimistic is None
    assert "optimistic" not in str(clear)


def test_evaluations_have_their_protocol(ranks):
    a = ranks.evaluate("mrr")
    b = ranks.evaluate("mrr", ties="realistic")
    assert a.protocol.to_dict() == {
        "data": "toy",
        "filter": "all",
        "average": "micro",
        "ties": "expected",
    }
    assert a.fingerprint != b.fingerprint
    assert a.fingerprint == ranks.evaluate("hits@1").fingerprint
    assert a.fingerprint in str(a)


def test_evaluations_are_read_and_written(ranks):
    result = ranks.evaluate("mrr", "index(mrr)", "count")
    assert result.to_dict() == {str(e): result[e] for e in result.expressions}
    content = json.loads(result.to_json())
    assert content["rows"][0]["values"]["mrr"] == result["mrr"]
    assert content["rows"][0]["optimistic"]["mrr"] > result["mrr"]
    frame = pl.read_csv(result.to_csv().encode())
    assert frame["index(mrr)"][0] == result["index(mrr)"]
    assert "mrr" in result
    assert "gmr" not in result
    assert [str(e) for e in result] == ["mrr", "index(mrr)", "count"]
    assert len(result) == 3
    assert result.to_markdown().splitlines()[1].startswith("| --- | ---:")
    latex = ranks.by("relation").evaluate("mrr", "hits@1").to_latex()
    assert r"\toprule" in latex
    assert r"MRR & H@1 \\" in latex
    assert "<table>" in result._repr_html_()
    with pytest.raises(er.errors.InputError, match="was not evaluated"):
        result["gmr"]


def test_no_name_breaks_a_table_of_text():
    """Wide characters take two columns and accents none; what a terminal would obey is an escape."""
    names = ["two\nlines", "bell\a\0", "日本", "e\u0301", "\x1b[31mred"]
    table = er.Ranks.of([1] * 5, candidates=5, keys={"k\a": names}).by("k\a").evaluate("mr")
    assert str(table).splitlines()[:7] == [
        r"k\x07         mr ↓",
        "-----------  -----",
        r"\x1b[31mred  1.000",
        r"bell\x07     1.000",
        "e\u0301            1.000",
        "two lines    1.000",
        "日本         1.000",
    ]


def test_latex_escapes_names():
    ranks = er.Ranks.of([1], candidates=5, keys={"relation": ["a_b & 50%"]})
    assert r"a\_b \& 50\%" in ranks.by("relation").evaluate("mrr").to_latex()


def test_selecting_rows(ranks):
    assert len(ranks[ranks.keys["side"] == "head"]) == 3
    assert len(ranks[:2]) == 2
    assert repr(ranks) == (
        "Ranks(6 targets; keys: head, relation, tail, side; data: toy; filter: all [8a7ec364])"
    )


def test_large_counts_are_exact():
    ranks = er.Ranks([10**9 - 1, 0], [0, 10**9 - 1], 10**9)
    assert ranks.evaluate("mr", ties="pessimistic")["mr"] == 10**9
    assert ranks.evaluate("mr")["mr"] == pytest.approx((10**9 + (10**9 + 1) / 2) / 2, rel=1e-15)


def test_empty_ranks_are_valid_but_have_no_metrics():
    empty = er.Ranks([], [], [])
    assert len(empty) == 0
    assert empty.tally() == er.Tally()
    with pytest.raises(er.errors.InputError, match="metrics need at least one rank"):
        empty.evaluate("mrr")
