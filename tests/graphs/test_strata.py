"""Strata: every label against plain loops over the training triples; averages against plain means."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import shared
import substitute
from shell import NATIONS, run

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs.strata import STRATA, cardinality
from evenrank.stats.averages import AVERAGES


@pytest.fixture(scope="module")
def graph():
    return er.load("nations")


@pytest.fixture(scope="module")
def ranks(graph):
    return er.rank(er.models.load(NATIONS), graph.task("test"), progress=False)


def tens(count):
    if not count:
        return "0"
    digits = len(str(count))
    return f"1{'0' * (digits - 1)}-{'9' * digits}"


def slow_cardinality(triples, relation):
    """By definition (Bordes et al. 2013): average the sizes of the sets, and compare with 1.5."""
    heads, tails = defaultdict(set), defaultdict(set)
    for h, r, t in triples:
        if r == relation:
            heads[t].add(h)
            tails[h].add(t)
    if not heads:
        return "unseen"
    means = [Fraction(sum(map(len, sets.values())), len(sets)) for sets in (heads, tails)]
    return "-".join("n" if mean >= Fraction(3, 2) else "1" for mean in means)


def test_every_label_agrees_with_loops_over_the_training_triples(graph, ranks):
    told = er.strata(ranks, graph)
    names = [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in {*map(tuple, graph.splits["train"].tolist())}
    ]
    frequency = Counter(r for _, r, _ in names)
    degree = Counter(e for h, _, t in names for e in {h, t})
    columns = ("head", "relation", "tail", "side")
    for row in zip(*(told.keys[name] for name in (*columns, *STRATA)), strict=True):
        head, relation, tail, side, kind, often, given, asked = row
        one, other = (head, tail) if side == "tail" else (tail, head)
        assert kind == slow_cardinality(names, relation)
        assert (often, given, asked) == (
            tens(frequency[relation]),
            tens(degree[one]),
            tens(degree[other]),
        )
    assert {*ranks.keys} == {*columns}  # the ranks given are as they were
    assert set(told.keys["cardinality"]) == {"1-1", "1-n", "n-1", "n-n"}


def test_cardinality_of_random_graphs():
    draw = np.random.default_rng(3)
    for relations in (1, 3, 8):
        triples = np.unique(draw.integers(0, [9, relations, 9], (25, 3)), axis=0)
        labels = cardinality(triples, relations + 1)
        assert labels.tolist() == [slow_cardinality(triples.tolist(), r) for r in range(relations + 1)]


def test_cardinality_of_a_benchmark():
    graph = er.load(shared.path(f"datasets/{'wn18rr' if shared.PRESENT else 'made'}"))
    triples = graph.splits["train"]
    labels = cardinality(np.unique(triples, axis=0), len(graph.relations))
    assert labels.tolist() == [
        slow_cardinality(triples.tolist(), r) for r in range(len(graph.relations))
    ]
    counts = Counter(labels[graph.splits["test"][:, 1]].tolist())
    if shared.PRESENT:
        assert counts == {"1-1": 42, "1-n": 475, "n-1": 1487, "n-n": 1130}
    else:  # relations are called what they are, and one never occurs in train
        named = Counter(r for _, r, _ in substitute.splits("made")["test"])
        named["unseen"] = named.pop("never")
        assert counts == named


def test_each_group_has_its_own_chance_level_and_count(graph, ranks):
    told = er.strata(ranks, graph)
    result = told.by("cardinality", "side").evaluate("count", "mrr", "chance(mrr)", "index(mrr)")
    assert result.label_names == ("cardinality", "side")
    assert sum(result["count"]) == len(ranks)
    for label, row in zip(result.labels, result.rows(), strict=True):
        rows = (told.keys["cardinality"] == label[0]) & (told.keys["side"] == label[1])
        r, size = told.better[rows] + 1, told.candidates[rows]
        mrr, chance = (1 / r).mean(), np.mean([sum(1 / j for j in range(1, n + 1)) / n for n in size])
        assert row["count"] == rows.sum()
        expected = [mrr, chance, (mrr - chance) / (1 - chance)]
        assert [row[k] for k in ("mrr", "chance(mrr)", "index(mrr)")] == pytest.approx(expected)


def test_labels_of_tens_sort_as_numbers_do():
    counts = [0, 3, 10, 999, 1000, 12_345, 1_000_000]
    labels = list(dict.fromkeys(map(tens, counts)))
    assert labels == sorted(labels)


def test_quantiles_split_the_targets_evenly(graph, ranks):
    told = er.strata(ranks, graph, "frequency", "given_degree", bins=4)
    assert set(told.keys) == {*ranks.keys, "frequency", "given_degree"}
    frequency = Counter(graph.splits["train"][:, 1].tolist())
    place = {name: i for i, name in enumerate(graph.relations)}
    spans = defaultdict(set)
    for relation, label in zip(ranks.keys["relation"], told.keys["frequency"], strict=True):
        spans[label].add(frequency[place[relation]])
    labels = sorted(spans)
    assert [label.split()[0] for label in labels] == ["q1", "q2", "q3", "q4"]
    for label in labels:
        low, high = map(int, label.split()[1].split("-"))
        assert (low, high) == (min(spans[label]), max(spans[label]))
    ends = [(min(spans[label]), max(spans[label])) for label in labels]
    assert all(high < low for (_, high), (low, _) in pairwise(ends))
    shares = np.array(list(Counter(told.keys["frequency"]).values())) / len(ranks)
    assert shares.min() > 0.15


def test_equal_counts_are_one_quantile():
    graph = er.Graph.of([[0, 0, 1], [2, 0, 3]], test=[[0, 0, 3]])
    ranks = er.Ranks.of([1, 2], 4, keys={"head": [0, 0], "relation": 0, "tail": [3, 3], "side": "tail"})
    assert er.strata(ranks, graph, "frequency", bins=3).keys["frequency"].tolist() == ["q1 2"] * 2


def test_ids_names_and_text_get_the_same_strata():
    graph = er.Graph.of([[0, 0, 1], [0, 0, 2], [1, 1, 1], [0, 0, 1]], test=[[2, 1, 0]])
    keys = {"head": [2, 2], "relation": [1, 1], "tail": [0, 0], "side": ["tail", "head"]}
    texts = {name: list(map(str, column)) for name, column in keys.items()}
    for given in (keys, texts):
        told = er.strata(er.Ranks.of([1, 2], 3, keys=given), graph)
        assert told.keys["cardinality"].tolist() == ["1-1", "1-1"]
        assert told.keys["given_degree"].tolist() == ["1-9", "1-9"]


def test_entities_and_relations_not_seen_in_training_are_labelled_unseen():
    graph = er.Graph.of([[0, 0, 1]], test=[[3, 1, 0]])
    keys = {"head": [3], "relation": [1], "tail": [0], "side": ["tail"]}
    told = er.strata(er.Ranks.of([1], 4, keys=keys), graph)
    assert [told.keys[name][0] for name in STRATA] == ["unseen", "0", "0", "1-9"]


def test_empty_ranks_have_empty_strata(graph, ranks):
    told = er.strata(ranks[:0], graph, bins=3)
    assert len(told) == 0
    assert set(STRATA) <= set(told.keys)


@pytest.mark.parametrize(
    ("keys", "names", "options", "message"),
    [
        ({"relation": "embassy"}, ["colour"], {}, "unknown stratum; got 'colour'; allowed: cardinality"),
        (
            {},
            ["cardinality"],
            {},
            "the ranks have no key relation; got no keys; rank with er.rank",
        ),
        (
            {"relation": "embassy"},
            [],
            {},
            "the ranks have no key side; got keys relation; rank with er.rank",
        ),
        ({"relation": "é<b>"}, ["frequency"], {}, "nations lacks relations of the ranks; "),
        (
            {"head": ["usa", "atlantis"], "relation": "embassy", "tail": "uk", "side": "tail"},
            [],
            {},
            "nations lacks entities of the ranks; got head 'atlantis'; load the graph that",
        ),
        (
            {"head": ["a", "b"], "relation": "embassy", "tail": "uk", "side": "tail"},
            [],
            {},
            "got head 'a' and 1 more",
        ),
        (
            {"head": "usa", "relation": "embassy", "tail": "uk", "side": "relation"},
            ["given_degree"],
            {},
            "degrees need queries for heads or tails; got 'relation'; allowed: tail",
        ),
        (
            {"relation": "embassy"},
            ["frequency"],
            {"bins": 10},
            "unknown bins; got 10; allowed: 'tens', or",
        ),
        ({"relation": "embassy"}, ["frequency"], {"bins": "log"}, "unknown bins; got 'log'"),
    ],
)
def test_errors(graph, keys, names, options, message):
    with pytest.raises(InputError) as error:
        er.strata(er.Ranks.of([1, 2], 14, keys=keys), graph, *names, **options)
    assert message in str(error.value)


# Averages -----------------------------------------------------------------------------------------


def test_averages_agree_with_means_of_means(ranks):
    result = er.averages(ranks, "mrr", "chance(mrr)", "z(mrr)")
    assert result.labels == tuple((name,) for name in AVERAGES)
    queries = [
        (side, relation, head if side == "tail" else tail)
        for side, relation, head, tail in zip(
            *(ranks.keys[name] for name in ("side", "relation", "head", "tail")), strict=True
        )
    ]
    groups = {"micro": range(len(ranks)), "query": queries, "relation": ranks.keys["relation"].tolist()}
    reciprocal = 1 / (ranks.better + 1)
    chance = np.array([np.mean(1 / np.arange(1, n + 1)) for n in ranks.candidates])
    for row, group in zip(result.rows(), groups.values(), strict=True):
        members = defaultdict(list)
        for i, one in enumerate(group):
            members[one].append(i)
        means = [
            np.mean([values[rows].mean() for rows in members.values()])
            for values in (reciprocal, chance)
        ]
        assert [row["mrr"], row["chance(mrr)"]] == pytest.approx(means)
    assert len({row["z(mrr)"] for row in result.rows()}) == 3


def test_averages_within_groups(ranks):
    result = er.averages(ranks, "mrr", by=("side",))
    assert result.label_names == ("side", "average")
    assert [label[0] for label in result.labels] == ["head"] * 3 + ["tail"] * 3
    tails = ranks[ranks.keys["side"] == "tail"]
    assert result["mrr"][3:].tolist() == er.averages(tails, "mrr")["mrr"].tolist()
    assert result.protocol.average is None
    assert "402 targets" in result.notes


def test_averages_need_queries_and_relations():
    with pytest.raises(
        InputError, match="a macro average over queries requires keys that identify queries"
    ):
        er.averages(er.Ranks.of([1], 3))


# The shell ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(ranks, tmp_path_factory):
    path = tmp_path_factory.mktemp("strata") / "transe.parquet"
    ranks.save(path)
    return path


def test_shell_groups_by_strata(file, ranks, graph, tmp_path):
    text = run("evaluate", file, "--by", "cardinality,side", "--data", "nations")
    assert text == f"{er.strata(ranks, graph, 'cardinality').by('cardinality', 'side').evaluate()}\n"
    ranks.save(tmp_path / "other.parquet")
    words = ("--by", "frequency", "--data", "nations", "-m", "mr", "--format", "csv")
    both = run("evaluate", file, tmp_path / "other.parquet", *words)
    header, *rows = both.splitlines()
    assert "transe" in header
    assert "other" in header
    assert len(rows) == 3


def test_targets_of_weight_zero_are_not_counted():
    keys = {"relation": ["a", "a", "b"], "query": [0, 1, 2]}
    ranks = er.Ranks.of([1, 2, 4], 9, keys=keys, weights=[1, 0, 1])
    assert "\n2 targets\n" in str(er.averages(ranks, "mrr"))
    assert "\n2 targets\n" in str(er.intervals(ranks, "mrr", averages=True))
    assert "2 targets" in str(ranks.evaluate("mrr"))


def test_shell_shows_averages_side_by_side(file, ranks):
    assert run("evaluate", file, "--averages") == f"{er.averages(ranks)}\n"
    lines = run(
        "evaluate", file, file, "--averages", "--by", "side", "-m", "mrr", "--format", "csv"
    ).splitlines()
    assert lines[0] == "ranks,side,average,mrr"
    assert len(lines) == 1 + 2 * 2 * 3
    assert (
        "cardinality" not in run("evaluate", file, "--average", "cardinality", "--data", "nations")[:9]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--by", "cardinality"],
            "cardinality is computed from the training triples; name the graph that",
        ),
        (["--by", "side", "--data", "nations"], "--data has no effect without a stratum; allowed: --by"),
        (["--by", "frequency", "--data", "umls"], "umls lacks relations of the ranks; got"),
        (["--averages", "--average", "query"], "--averages excludes --average; got --average query"),
    ],
)
def test_shell_errors(file, arguments, message):
    assert message in run("evaluate", file, *arguments, code=2)
