"""Published values: adjusted, converted back, read from tables and ranked, each checked in two ways."""

import csv
import io
import json
import math
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import shared

import evenrank as er
from evenrank._internal.table import figure
from evenrank.graphs import atlas
from evenrank.metrics.adjusted import index
from evenrank.metrics.chance import NullDistribution
from evenrank.published import Candidates, PublishedValue, Setting, _setting

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "published.md"
FORMS = ("chance", "ratio", "index", "z")


def raises(message, error=er.errors.EvenrankError):
    return pytest.raises(error, match=message)


def run(*arguments, code=0, folder=None):
    """Run the command; on failure, return the line on stderr."""
    command = [sys.executable, "-m", "evenrank", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == code, done.stderr
    if code:
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.stderr
    return done.stdout


def constant(queries, candidates):
    """A scorer without information."""
    return np.zeros((len(queries), candidates.stop - candidates.start))


@pytest.fixture(scope="module")
def nations():
    return er.load("nations")


@pytest.fixture(scope="module")
def ranked(nations):
    """Ranks of a constant scorer on Nations: the numbers of candidates come from the engine."""
    return er.rank(constant, nations.task("test"), progress=False)


# Values by data set -------------------------------------------------------------------------------


def test_a_data_set_is_equivalent_to_its_numbers_of_candidates(ranked, nations):
    """By name, by graph, and by the numbers of candidates of a ranking: the same bits."""
    values = {"mrr": 0.476, "hits@10": 0.96, "mr": 3.5, "igmr": 0.4, "median": 2.0}
    by_name, by_graph = (er.adjust(values, data=data) for data in ("nations", nations))
    by_sizes = er.adjust(values, sizes=ranked)
    assert by_name.to_dict() == by_graph.to_dict() == by_sizes.to_dict()
    assert by_name.protocol == by_graph.protocol
    assert by_name["index(mrr)"] == index(er.chance("mrr", ranked))(0.476)


@pytest.mark.parametrize("sides", ["head", "tail", "both"])
@pytest.mark.parametrize("known", ["all", None])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_split_sides_and_filter_equal_those_of_a_ranking(nations, split, sides, known):
    task = nations.task(split, sides=sides, filter=known)
    ranks = er.rank(constant, task, progress=False)
    result = er.adjust({"mrr": 0.5}, data="nations", split=split, sides=sides, filter=known)
    assert result.to_dict() == pytest.approx(er.adjust({"mrr": 0.5}, sizes=ranks).to_dict(), rel=1e-13)
    words = task.protocol.to_dict()
    words = {k: v for k, v in words.items() if k not in ("content", "candidates")}
    assert result.protocol.to_dict().items() >= words.items()
    assert result.protocol.extra["tasks"] == str(len(ranks))


def test_settings_have_different_fingerprints(nations):
    asked = [{}, {"split": "valid"}, {"sides": "head"}, {"filter": None}, {"unseen": "drop"}]
    prints = [
        er.adjust({"mrr": 0.5}, data="wn18rr", **options).protocol.fingerprint for options in asked
    ]
    assert len(set(prints)) == len(prints)
    assert er.adjust({"mrr": 0.5}, data="WN18RR").protocol.data == "wn18rr"
    toy = er.Graph.of([[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]], name="toy", unseen="drop")
    assert er.adjust({"mrr": 0.9}, data=toy).protocol.unseen == "drop"
    assert er.adjust({"mrr": 0.9}, data=toy).protocol.data == "toy"


def test_adjusted_values_are_converted_back():
    raw = er.adjust({"mrr": 0.35, "mr": 470.0, "hits@10": 0.5}, data="fb15k237")
    for form in ("ratio", "index", "z"):
        names = [f"{form}({metric})" for metric in ("mrr", "mr", "hits@10")]
        back = er.adjust({name: raw[name] for name in names}, data="fb15k237")
        assert back.to_dict() == pytest.approx(raw.to_dict(), rel=1e-9)


@pytest.mark.parametrize("data", ["nations", "kinships", "wn18rr"])
@pytest.mark.parametrize("name", ["mrr", "mr", "gmr", "hmr", "hits@3", "ndcg"])
def test_the_optimum_and_the_chance_level_are_converted_without_rounding(name, data):
    candidates = Setting.of(data).candidates()
    metric = er.parse(name)
    mean, best = float(candidates.null(metric).mean()), metric.best
    for form, adjusted, raw in (
        ("index", 1, best),
        ("index", 0, mean),
        ("z", 0, mean),
        ("ratio", 1, mean),
    ):
        assert er.adjust({f"{form}({name})": adjusted}, data=data)[name] == raw
        assert er.adjust({name: raw}, data=data)[f"{form}({name})"] == adjusted
    line = index(candidates.null(metric))
    assert line(np.array([mean, best])).tolist() == [0.0, 1.0]
    assert (~line)(np.array([0.0, 1.0])).tolist() == [mean, best]


def test_weights_of_sizes():
    sizes, weights = [5, 9], [3.0, 1.0]
    result = er.adjust({"mr": 2.0}, sizes=sizes, weights=weights)
    assert result["chance(mr)"] == pytest.approx((3 * 3 + 5) / 4)
    assert er.adjust({"mr": 2.0}, sizes=[5, 9], counts=[3, 1])["chance(mr)"] == (3 * 3 + 5) / 4


# Percent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mrr", "hits@10", "igmr", "imr", "ndcg", "1/median", "index(mr)"])
def test_percent_is_detected_and_noted(name):
    percent, fraction = (er.adjust({name: x}, sizes={100: 9}) for x in (57.1, 0.571))
    assert percent.to_dict() == fraction.to_dict()
    assert percent.notes == (f"read as percent: {er.parse(name)}",)
    assert fraction.notes == (f"read as fractions: {er.parse(name)}",)
    assert f"read as percent: {er.parse(name)}" in str(percent)
    assert "read as percent" in percent.to_json()


@pytest.mark.parametrize(("name", "value"), [("mr", 57.1), ("z(mrr)", 3.0), ("ratio(mrr)", 2.5)])
def test_metrics_without_maximum_one_are_never_percent(name, value):
    result = er.adjust({name: value}, sizes={100: 9}, percent=True)
    assert result[name] == pytest.approx(value)
    assert result.notes == ()


def test_percent_can_be_marked():
    marked = er.adjust({"hits@10": "57.1 %", "mrr": "0.476"}, data="wn18rr")
    assert marked["hits@10"] == 0.571  # to the last bit: converted in decimal
    assert marked.notes == ("read as percent: hits@10; as fractions: mrr",)
    small = er.adjust({"hits@1": "0.8%", "hits@10": "57.1%"}, data="wn18rr")
    assert (small["hits@1"], small["hits@10"]) == (0.008, 0.571)
    assert er.adjust({"hits@1": "0.8%"}, data="wn18rr", percent=False)["hits@1"] == 0.008
    with raises("values of hits@k may be percent or fractions; got hits@1=0.8 beside hits@10=57.1"):
        er.adjust({"hits@1": 0.8, "hits@10": "57.1%"}, data="wn18rr")
    with raises("mr cannot be in percent: its maximum is not 1; got 5%", er.errors.InputError):
        er.adjust({"mr": "5%"}, data="wn18rr")


def test_percent_can_be_passed():
    assert er.adjust({"hits@1": 0.8}, sizes={500: 9}, percent=True)["hits@1"] == 0.008
    assert er.adjust({"hits@1": 0.8}, sizes={500: 9}, percent=False)["hits@1"] == 0.8
    assert er.adjust({"hits@1": 0.8}, sizes={500: 9})["hits@1"] == 0.8
    assert er.adjust({"mrr": 1.0, "hits@1": 100.0}, sizes={500: 9})["hits@1"] == 1.0
    mixed = {"mrr": 0.476, "hits@1": 42.8, "hits@10": 57.1}  # different units for MRR and hits
    assert er.adjust(mixed, data="wn18rr")["mrr"] == 0.476
    zero = er.adjust({"hits@1": 0.0, "hits@10": 57.1}, data="wn18rr")  # zero is zero in any unit
    assert zero["hits@1"] == 0.0
    with raises(
        "values of hits@k may be percent or fractions; got hits@1=0.8 beside hits@10=57.1; use one unit"
    ):
        er.adjust({"hits@1": 0.8, "hits@10": 57.1}, data="wn18rr")
    assert er.adjust({"hits@1": 0.8, "hits@10": 57.1}, data="wn18rr", percent=True)["hits@1"] == 0.008


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"phi(mrr)": 0.9},
            "phi.mrr. cannot be converted back to mrr: it is 1 to all digits from z = 9 on",
        ),
        ({"chance(mrr)": 0.1}, "cannot be converted back to mrr: it is the same for every model"),
        ({"count": 402}, "count does not depend on the ranks: there is no chance level"),
        ({"std": 3.0}, "std cannot be adjusted: neither large nor small values are better"),
        ({"variance": 3.0}, "var cannot be adjusted: neither large nor small"),
        (
            {"macro mrr": 0.3},
            "a published macro average cannot be adjusted: the weights of its groups are",
        ),
        (
            {"MRR_macro": 0.3},
            "a published macro average cannot .* got 'MRR_macro'; adjust the micro average",
        ),
        ({"mmr": 0.3}, "unknown metric; got 'mmr'; did you mean"),
        ({"mrr": 0.09}, "got mrr=0.09; allowed: 0.167127 to 1 among the candidates of nations, or that"),
        ({"mrr": 9.0}, "got mrr=9, which is mrr=0.09; allowed: 0.167127 to 1 among the candidates of"),
        ({"hits@10": 101}, "impossible value of hits@10; got hits@10=101; allowed: 0.718905 to 1"),
        ({"mr": 14.5}, "impossible value of mr; got mr=14.5; allowed: 1 to 7.95522"),
        ({"mr": 0.9}, "impossible value of mr"),
        ({"mr": math.inf}, "impossible value of mr; got mr=inf"),
        ({"mrr": math.nan}, "impossible value of mrr; got mrr=nan"),
        ({"index(mr)": -2}, "got index.mr.=-2, which is mr=11.4[0-9]*; allowed: 1 to 7.95522"),
        ({"mrr": "high"}, "a value must be a number; got 'high'; write it as 0.571"),
        ({"mrr": None}, "a value must be a number; got None"),
        ({"mrr": True}, "a value must be a number; got True"),
        ({"mrr": np.False_}, "a value must be a number; got np.False_"),
        ({"mr": 3.0, "AMRI": 0.4}, "the same metric twice; got mr=3 and index.mr.=0.4"),
        ({"mr": 10**400}, "a value must be a number; got 10000"),
        ({}, "nothing to adjust"),
        (None, "nothing to adjust"),
        ("mrr", "nothing to adjust; got str"),
        ({"mrr": [0.4]}, "a value must be a number; got .0.4."),
        ({"mrr": {}}, "a value must be a number; got {}"),
        ({3: 0.4}, "metrics must be texts such as 'mrr', or Metric objects; got 3"),
        ([("mrr", 0.4)], "nothing to adjust; got list; pass values such as"),
    ],
)
def test_values_that_cannot_be_adjusted(values, message):
    with raises(message):
        er.adjust(values, data="nations")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "need the data set or the numbers of candidates; got neither; allowed: data, or sizes"),
        ({"data": "nations", "sizes": [5]}, "got data and sizes"),
        ({"data": "nations", "weights": [5]}, "got data and weights"),
        ({"counts": [5]}, "got counts"),
        ({"data": "wn18r"}, "no such data set; got 'wn18r'; did you mean wn18"),
        ({"data": "nations", "split": "dev"}, "got 'dev'; allowed: train, valid, test"),
        ({"data": "nations", "split": 3}, "has no triples in this split; got 3; allowed: train"),
        ({"data": "nations", "sides": "middle"}, "unknown sides; got 'middle'"),
        ({"data": "nations", "filter": "train"}, "unknown filter; got 'train'"),
        ({"data": "nations", "unseen": "hide"}, "unknown value of unseen; got 'hide'"),
        ({"data": 7}, "not a data set; got int"),
        ({"data": ["nations"]}, "not a data set; got list"),
        ({"data": "nations", "sides": ["head"]}, "unknown sides; got .'head'."),
        ({"data": "nations", "sides": None}, "unknown sides; got None"),
        ({"data": "nations", "filter": ["all"]}, "unknown filter; got .'all'."),
        ({"data": "nations", "unseen": []}, "unknown value of unseen; got .."),
        ({"data": "nations", "split": None}, "has no triples in this split; got None"),
        ({"sizes": "many"}, "numbers of candidates must be a column of whole numbers"),
        ({"data": "nations", "percent": "yes"}, "percent must be True, False or None; got 'yes'"),
        ({"data": "nations", "percent": 1}, "percent must be True, False or None; got 1"),
    ],
)
def test_bad_options_are_errors(options, message):
    with raises(message):
        er.adjust({"mrr": 0.5}, **options)


def test_degenerate_null_distributions_are_errors():
    with raises("index.hits@10. is undefined: every ranking has the value 1", er.errors.DegenerateError):
        er.adjust({"hits@10": 1.0}, sizes=[10, 7])
    with raises("infinite", er.errors.NullDistributionError):
        er.adjust({"1/hits@10": 3.0}, data="wn18rr")


# Baselines ----------------------------------------------------------------------------------------


def test_baseline_equals_ranking_a_constant_scorer(ranked):
    """The constant rows equal ranks of the engine, the chance rows `er.chance`."""
    result = er.baseline("nations")
    labels = [label for (label,) in result.labels]
    for row, ties in enumerate(("expected", "realistic", "optimistic", "pessimistic"), start=2):
        assert labels[row] == f"constant, ties {ties}"
        want = ranked.evaluate(*result.expressions, ties=ties)
        for metric in result:
            assert result[metric][row] == want[metric]
    assert labels[:2] == ["chance", "chance, std"]
    for metric in result.expressions:
        null = er.chance(metric, ranked)
        assert result[metric][:2].tolist() == pytest.approx([null.mean(), null.std()], rel=1e-12)
        assert result[metric][4] == metric.best  # a constant scorer is perfect under optimistic ties


def test_a_constant_scorer_is_at_chance_level_under_expected_ties():
    result = er.baseline("wn18rr", "mrr", "hits@10", "mr", "ndcg", "index(mrr)", "z(mr)")
    chance, expected, realistic = (
        result.values_by_group[0],
        result.values_by_group[2],
        result.values_by_group[3],
    )
    assert expected == pytest.approx(chance, rel=1e-9, abs=1e-9)
    assert realistic[0] < 0.2 * chance[0]
    assert result["index(mrr)"][0] == pytest.approx(0, abs=1e-15)
    assert result["z(mr)"][1] == pytest.approx(1, rel=1e-12)
    null = er.chance("mrr", er.atlas("wn18rr"))
    assert result["index(mrr)"][1] == pytest.approx(null.std() / (1 - null.mean()))


@pytest.mark.parametrize("name", atlas.names())
def test_baseline_of_every_data_set(name):
    """The median too, whose null distribution is the hardest: against its large-sample deviation."""
    result, sizes = er.baseline(name, chance="independent"), er.atlas(name)
    assert np.isfinite(result.values_by_group).all()
    middle, size, count = result["median"][0], sizes["candidates"], sizes.counts
    if (size > middle).all():  # otherwise the distribution is far from normal
        deviation = math.sqrt(count @ (middle / size * (1 - middle / size))) / (count / size).sum()
        assert result["median"][1] == pytest.approx(deviation, rel=0.05)


def test_baseline_by_sampling():
    result = er.baseline("nations", "mrr", "imr", "median", chance="independent")
    sizes = er.atlas("nations")
    for metric in result:
        sampled = er.chance(metric, sizes, method="sample", samples=4000)
        assert result[metric][0] == pytest.approx(sampled.mean(), abs=5 * sampled.mean().error)
        assert result[metric][1] == pytest.approx(sampled.std(), abs=5 * sampled.std().error)


def test_baseline_takes_the_protocol_and_a_graph(nations):
    raw = er.baseline(nations, "mr", split="valid", sides="head", filter=None)
    assert raw["mr"][0] == 7.5  # among all 14
    assert raw.protocol.filter == ()
    assert raw.protocol.sides == ("head",)
    by_graph, by_name = (er.baseline(data, "mr") for data in (nations, "nations"))
    assert by_graph.values_by_group.tolist() == by_name.values_by_group.tolist()


def test_baselines_are_written_and_errors_raised():
    result = er.baseline("nations", "mrr", "mr")
    assert [row["baseline"] for row in result.rows()][:2] == ["chance", "chance, std"]
    assert "constant, ties optimistic" in str(result)
    assert len(json.loads(result.to_json())["rows"]) == 6
    for message, metric in [
        ("count has no chance level", "count"),
        ("no exact null distribution", "std"),
        ("phi.mrr. has no exact mean under random ranking", "phi(mrr)"),
        ("unknown metric", "mmr"),
        ("map is computed from rankings of all answers", "index(map)"),
    ]:
        with raises(message):
            er.baseline("nations", metric)


# Tables of results --------------------------------------------------------------------------------

LONG = """model,data,metric,value
A,wn18rr,mrr,0.45
B,wn18rr,mrr,0.40
C,wn18rr,mrr,0.45
A,nations,mrr,0.50
B,nations,mrr,0.60
A,fb15k237,mr,200
A,wn18rr,hits@10,55
"""
WIDE = """model,data,mrr,mr,hits@10
A,wn18rr,0.45,,55
B,wn18rr,0.40,-,
C,wn18rr,0.45,,–
A,nations,0.50,,
B,nations,0.60,,
A,fb15k237,,200,
"""


@pytest.fixture
def table(tmp_path):
    def write(text, name="results.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def found(results):
    return {(r["model"], r["data"], r["metric"]): r for r in results.rows()}


def test_a_table_is_adjusted_row_by_row(table):
    results = er.published.adjust_table(table(LONG))
    assert [row["model"] for row in results.rows()] == list("ABCABAA")  # the order of the file
    assert len(results) == 7
    for (_, data, metric), row in found(results).items():
        alone = er.adjust({metric: row["value"]}, data=data)
        assert [row[form] for form in FORMS] == [alone[f"{form}({metric})"] for form in FORMS]
    assert found(results)["A", "wn18rr", "hits@10"]["given"] == "hits@10=55%"


def test_both_layouts_are_equivalent(table):
    long, wide = er.published.adjust_table(table(LONG)), er.published.adjust_table(table(WIDE))
    assert found(long) == found(wide)
    memory = [dict(row) for row in csv.DictReader(io.StringIO(WIDE))]
    assert found(er.published.adjust_table(memory)) == found(wide)
    numbers = [{"model": "A", "data": "wn18rr", "mrr": 0.45, "hits@10": None}]
    assert er.published.adjust_table(numbers).rows()[0]["value"] == 0.45


def test_ranks_within_a_data_set(table):
    rows = found(er.published.adjust_table(table(LONG)))
    assert [rows[m, "wn18rr", "mrr"]["rank"] for m in "ABC"] == [1, 3, 1]  # ties share a rank
    assert [rows[m, "nations", "mrr"]["rank"] for m in "AB"] == [2, 1]
    worse = [{"model": m, "data": "wn18rr", "mr": x} for m, x in (("A", 900), ("B", 800), ("C", 1000))]
    assert [row["rank"] for row in er.published.adjust_table(worse).rows()] == [
        2,
        1,
        3,
    ]  # small values are better


def test_ranks_across_data_sets_compare_the_same_data_sets(table):
    """A and B have both data sets, C has one: C's set ranks all three, the other only A and B."""
    results = er.published.adjust_table(table(LONG), "mrr")
    index = {key[:2]: row["index"] for key, row in found(results).items()}
    both = {m: (index[m, "wn18rr"] + index[m, "nations"]) / 2 for m in "AB"}
    sets = [([b.data for b in s.settings], s.model, s.rank, s.models) for s in results.mean_indices]
    assert sets == [
        (["wn18rr", "nations"], "B", 1, 2),
        (["wn18rr", "nations"], "A", 2, 2),
        (["wn18rr"], "A", 1, 3),
        (["wn18rr"], "C", 1, 3),
        (["wn18rr"], "B", 3, 3),
    ]
    for mean in results.mean_indices[:2]:
        assert mean.mean_index == pytest.approx(both[mean.model], rel=1e-14)
    for (model, data, _), row in found(results).items():
        own = both.get(model, index[model, "wn18rr"])
        assert row["mean_index"] == pytest.approx(own, rel=1e-14), (model, data)
        assert row["data_sets"] == (1 if model == "C" else 2)
        assert row["rank_across"] == {"A": 2, "B": 1, "C": 1}[model]


@pytest.mark.parametrize("seed", range(5))
def test_mean_indices_by_brute_force(seed):
    """Models are compared over sets that one of them has in full, and by no other mean."""
    rng, names = np.random.default_rng(seed), ("nations", "kinships", "umls")
    chosen = {m: [d for d in names if rng.random() < 0.6] or ["umls"] for m in "ABCDE"}
    rows = [
        {"model": m, "data": d, "mrr": rng.choice([0.5, 0.6, 0.7])}
        for m, ds in chosen.items()
        for d in ds
    ]
    results = er.published.adjust_table(rows)
    index = {(r["model"], r["data"]): r["index"] for r in results.rows()}
    want = set()
    for common in {frozenset(ds) for ds in chosen.values()}:
        means = {m: np.mean([index[m, d] for d in common]) for m in chosen if common <= set(chosen[m])}
        for model, mean in means.items():
            better = sum(other > mean + 1e-12 for other in means.values())
            want.add((common, model, round(mean, 12), 1 + better, len(means)))
    found = [
        (frozenset(b.data for b in s.settings), s.model, round(s.mean_index, 12), s.rank, s.models)
        for s in results.mean_indices
    ]
    assert len(found) == len(set(found))
    assert set(found) == want


def test_settings_are_compared_separately():
    rows = [
        {"model": "A", "data": "wn18rr", "unseen": "keep", "mrr": 0.45},
        {"model": "A", "data": "WN18RR", "unseen": "drop", "mrr": 0.48},
        {"model": "B", "data": "WN18-RR", "unseen": "", "mrr": 0.46, "sides": "both", "filter": "all"},
        {
            "model": "B",
            "data": "wn18rr",
            "unseen": "keep",
            "mrr": 0.3,
            "filter": "none",
            "sides": "tail",
        },
    ]
    results = er.published.adjust_table(rows)
    assert [row["rank"] for row in results.rows()] == [2, 1, 1, 1]
    assert {row["data"] for row in results.rows()} == {"wn18rr"}
    assert len(results.settings) == 3
    assert "sides       filter" in str(results)
    assert (
        "wn18rr (tail, head; train, valid, test; keep), wn18rr (tail, head; train, valid, test; drop)"
        in (str(results))
    )
    defaults = er.published.adjust_table(
        [{"model": "A", "data": "wn18rr", "mrr": 0.48}], unseen="drop", sides="tail"
    )
    assert defaults.rows()[0]["unseen"] == "drop"
    assert defaults.rows()[0]["sides"] == "tail"


def test_null_distributions_are_computed_once(monkeypatch):
    made = Counter()

    class Counted(NullDistribution):
        def __init__(self, metric, sizes, dependence):
            made[str(metric), sizes.total] += 1
            super().__init__(metric, sizes, dependence=dependence)

    monkeypatch.setattr(_setting, "NullDistribution", Counted)
    er.published.adjust_table("hoyt2022", "mrr", "median")
    assert len(made) == 8
    assert set(made.values()) == {1}


def test_results_are_written_in_every_format(table):
    lines = LONG.split()
    text = "\n".join([f"{lines[0]},source", f"{lines[1]},Paper & Co", *(f"{x}," for x in lines[2:])])
    results = er.published.adjust_table(table(text))
    text = str(results)
    assert repr(results) == results.text() == text
    assert "read as fractions: mrr; as percent: hits@10" in text
    assert "source: Paper & Co" in text
    assert text.count("\n\n") == 1
    frame = pl.read_csv(results.to_csv().encode())
    assert frame["index"].to_list() == [row["index"] for row in results.rows()]
    content = json.loads(results.to_json())
    assert content["rows"] == results.rows()
    assert content["across"][0] == {
        "data": ["wn18rr", "nations"],
        "metric": "mrr",
        "model": "B",
        "mean_index": results.mean_indices[0].mean_index,
        "rank": 1,
        "models": 2,
    }
    assert content["settings"][0]["tasks"] == "6,268"
    assert results.to_markdown().count("\n| --- |") == 2
    assert results.to_latex().count(r"\begin{tabular}") == 3  # two metrics, and the mean indices
    assert results._repr_html_().count("<table>") == 2
    alone = er.published.adjust_table([{"model": "A", "data": "wn18rr", "mr": 400}])
    assert len(alone.tables()) == 1  # no comparison across data sets, and no note on percent
    assert "read as" not in str(alone)


def test_corner_cases_of_csv(table):
    plain = found(er.published.adjust_table(table(LONG)))
    for name, text, encoding in [
        ("bom.csv", LONG, "utf-8-sig"),
        ("crlf.csv", LONG.replace("\n", "\r\n"), "utf-8"),
        ("blank.csv", "\n" + LONG.replace("\nB", "\n\n , ,,\n\nB") + "\n\n", "utf-8"),
        ("spaces.csv", LONG.replace(",", " , "), "utf-8"),
        ("quoted.csv", "".join(f'"{x}"\n' for x in LONG.replace(",", '","').split()), "utf-8"),
        ("tabs.tsv", LONG.replace(",", "\t"), "utf-8"),
        ("tabs.csv", LONG.replace(",", "\t"), "utf-8"),
        ("semicolons.csv", "\n" + LONG.replace(",", ";"), "utf-8-sig"),
        ("case.csv", LONG.replace("model,data,metric,value", "Model,DATA,Metric,Value"), "utf-8"),
        ("names.csv", LONG.replace("mrr", "Mean Reciprocal Rank").replace("wn18rr", "WN18RR"), "utf-8"),
    ]:
        assert found(er.published.adjust_table(table(text, name, encoding))) == plain, name
    comma = er.published.adjust_table(table('model,data,mrr\n"Müller, A. ""β""",wn18rr,0.4\n'))
    assert comma.rows()[0]["model"] == 'Müller, A. "β"'
    lines = er.published.adjust_table(table('model,data,mrr\n"of two\nlines",wn18rr,0.4\n'))
    assert lines.rows()[0]["model"] == "of two lines"
    assert lines.to_markdown().count("\n|") == 2


HEAD = "model,data,metric,value\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "results.csv: no column model, data; got nothing; allowed: model, data, metric, value"),
        ("\n\n", "results.csv: no column model, data; got nothing"),
        (HEAD, "results.csv:1: no results; got a header without rows"),
        ("model,data\nA,wn18rr\n", ":1: no column metric; got model, data; allowed"),
        ("model,mrr\nA,0.4\n", ":1: no column data; got model, mrr"),
        ("model,data,value\nA,wn18rr,0.4\n", ":1: no column metric; got model, data, value"),
        ("model|data|mrr\nA|wn18rr|0.4\n", ":1: no column model, data; got model|data|mrr"),
        ("model,dataset,mrr\nA,wn18rr,0.4\n", ":1: no column data; .*; rename dataset to data"),
        ("model,Dataset,mrr\nA,wn18rr,0.4\n", ":1: no column data; .*; rename Dataset to data"),
        ("model,data,metric,value,note\nA,wn18rr,mrr,0.4,x\n", ":1: unknown column; got 'note'"),
        ("model,dataset,data,mrr\nA,B,wn18rr,0.4\n", "got 'dataset'; .* did you mean data?"),
        ("model,data,mmr\nA,wn18rr,0.4\n", "unknown column; got 'mmr'; allowed: .* did you mean mrr?"),
        ("model,data,std\nA,wn18rr,0.4\n", ":1: std cannot be adjusted: neither"),
        ("model,data,mrr,mrr\nA,wn18rr,0.4,0.4\n", ":1: the same column twice; got 'mrr'"),
        (HEAD + "A,wn18rr,mrr,0.4\nB,wn18rr,mrr\n", ":3: 3 cells; allowed: 4, as in the header"),
        (HEAD + "\nA,wn18rr,mrr,0.4,9\n", "results.csv:3: 5 cells"),
        (HEAD + "A,wn18rr,mrr,\n", ":2: no result in this line; fill in a cell, or delete the line"),
        (HEAD + "A,wn18rr,mr,57.1 %\n", ":2: mr cannot be in percent: its maximum is not 1; got 57.1 %"),
        (HEAD + "A,wn18rr,mrr,%\n", ":2: a value must be a number; got ''"),
        (
            "model;data;mrr\nA;wn18rr;0,4,1\n",
            ":2: a value must be a number; got '0,4,1'; write it as 0.571",
        ),
        (
            HEAD + 'A,wn18rr,mr,"1,234"\n',
            ":2: the comma in a value of mr may be a decimal or a thousands separator",
        ),
        (HEAD + "A,wn18rr,mrr,nan\n", ":2: impossible value of mrr; got mrr=nan; allowed: 2.44"),
        (HEAD + "A,wn18rr,mr,inf\n", ":2: impossible value of mr; got mr=inf"),
        (HEAD + "A,wn18rr,mr,0.5\n", ":2: impossible value of mr; got mr=0.5; allowed: 1 to 40928"),
        (HEAD + "A,wn18rr,mrr,0.4\n,wn18rr,mrr,0.4\n", ":3: no model; fill in the cell"),
        (HEAD + "A,,mrr,0.4\n", ":2: no data"),
        (HEAD + "A,wn18rr,,0.4\n", ":2: unknown metric; got ''"),
        ("model,data,mrr\nA,wn18rr,-\n", ":2: no result in this line"),
        (HEAD + "A,wn18,mrr,0.4\nA,wn18r,mrr,0.4\n", ":3: .*got 'wn18r'; did you mean wn18"),
        (HEAD + "A,wn18rr,mmr,0.4\n", ":2: unknown metric; got 'mmr'; did you mean"),
        (HEAD + "A,wn18rr,count,6268\n", ":2: count does not depend on the ranks"),
        (HEAD + "A,wn18rr,phi(mrr),0.9\n", ":2: phi.mrr. cannot be converted back"),
        (HEAD + "A,wn18rr,macro_mrr,0.4\n", ":2: a published macro average cannot be adjusted"),
        ("model,data,split,mrr\nA,wn18rr,dev,0.4\n", ":2: .*got 'dev'; allowed: train, valid, test"),
        ("model,data,sides,mrr\nA,wn18rr,left,0.4\n", ":2: unknown sides; got 'left'"),
        ("model,data,filter,mrr\nA,wn18rr,raw,0.4\n", ":2: unknown filter; got 'raw'; allowed: all"),
        (
            HEAD + "A,wn18rr,mrr,0.4\nB,wn18rr,mrr,0.3\nA,WN18RR,mrr,0.4\n",
            r":4: mrr of A occurs twice; got mrr=0.4 after mrr=0.4 \(.*:2\); delete one of them",
        ),
        ("model,data,mr,amri\nA,wn18rr,900,0.9\n", r":2: mr of A .* got index.mr.=0.9 after mr=900"),
        (
            HEAD + "A,wn18rr,hits@1,0.8\nA,wn18rr,hits@10,57.1\n",
            r"hits@k may be percent or fractions; got hits@1=0.8 \(.*:2\) beside hits@10=57.1 \(.*:3\)",
        ),
        (HEAD + 'A,"wn18rr,mrr,0.4\n', ":2: invalid CSV; got unexpected end of data"),
    ],
)
def test_an_error_names_the_line(table, text, message):
    path = table(text)
    with raises(message) as error:
        er.published.adjust_table(path)
    assert "results.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_percent_within_a_table(table):
    mixed = table(HEAD + "A,wn18rr,hits@1,0.8\nA,wn18rr,hits@10,57.1\nA,wn18rr,mrr,0.2\n")
    rows = er.published.adjust_table(mixed, percent=True).rows()
    assert [row["value"] for row in rows] == pytest.approx([0.008, 0.571, 0.002])
    with raises("results.csv:3: impossible value of hits@10; got hits@10=57.1"):
        er.published.adjust_table(mixed, percent=False)


def test_other_sources(table, tmp_path):
    with raises("no such file of results; got nowhere.csv; allowed: a CSV file, or hoyt2022"):
        er.published.adjust_table("nowhere.csv")
    with raises("cannot read .*; got a folder; pass a regular file"):
        er.published.adjust_table(tmp_path)
    with raises("cannot read .*; got bytes that are not UTF-8"):
        er.published.adjust_table(table(LONG.replace("A,", "ä,"), encoding="latin-1"))
    with raises("rows of results must be mappings; got str; pass dictionaries"):
        er.published.adjust_table(["mrr"])
    with raises("rows of results must be mappings; got NoneType; pass dictionaries"):
        er.published.adjust_table([None])
    with raises("not a table of results; got NoneType"):
        er.published.adjust_table(None)
    with raises("metrics must be texts such as 'mrr', or Metric objects; got None"):
        er.published.adjust_table(table(LONG), None)
    assert str(er.published.adjust_table(table(LONG), ["mrr", "mr"])) == str(
        er.published.adjust_table(table(LONG), "mrr", "mr")
    )
    with raises("not a table of results; got int; allowed: a CSV file, or rows as mappings"):
        er.published.adjust_table(5)
    with raises("rows: no column model, data; got nothing"):
        er.published.adjust_table([])
    with raises("row 1: no data"):
        er.published.adjust_table(
            [{"model": "A", "data": "wn18rr", "mrr": 0.4}, {"model": "B", "mrr": 0.4}]
        )
    with raises("no such results; got hits@3; allowed: mrr, mr, hits@10"):
        er.published.adjust_table(table(LONG), "mrr", "hits@3")
    toy = er.Graph.of([[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]], name="toy")
    row = er.published.adjust_table([{"model": "A", "data": toy, "mrr": 0.9}]).rows()[0]
    assert (row["data"], row["index"]) == ("toy", er.adjust({"mrr": 0.9}, data=toy)["index(mrr)"])


# The source paper's results -----------------------------------------------------------------------

BUNDLED = Path(er.__file__).parent / "published" / "data" / "hoyt2022.csv"
MODELS = {"complex": "ComplEx", "rotate": "RotatE", "transe": "TransE", "tucker": "TuckER"}
FACTS = ("model", "data", "unseen", "source")
MEANS = ("arithmetic_mean_rank", "geometric_mean_rank", "harmonic_mean_rank", "median_rank")
BASE = [*MEANS, *(f"inverse_{name}" for name in MEANS), *(f"hits_at_{k}" for k in (1, 3, 5, 10))]


def test_bundled_results():
    results = er.published.adjust_table("hoyt2022")
    rows = found(results)
    assert len(results) == 16 * 12
    assert {row["unseen"] for row in results.rows()} == {"drop"}
    assert {row["source"] for row in results.rows()} == {"Hoyt et al. 2022, case study"}
    assert round(rows["ComplEx", "nations", "mrr"]["index"], 3) == 0.075
    assert round(rows["TransE", "nations", "mrr"]["z"], 2) == 1.02
    alone = found(er.published.adjust_table("hoyt2022", "mrr", chance="independent"))
    assert round(alone["TransE", "nations", "mrr"]["z"], 2) == 1.35
    assert {s.models for s in results.mean_indices} == {4}
    assert results.notes[0].startswith("read as fractions: mrr, hits@1")


@shared.needs("paper/case_study_results.tsv")
def test_bundled_results_equal_the_published_ones():
    """Every base metric of the published table, digit by digit, and as many tasks as the atlas has."""
    names = {er.parse(name): name for name in BASE}
    with BUNDLED.open(encoding="utf-8") as file:
        bundled = {(row["model"], row["data"]): row for row in csv.DictReader(file)}
    with shared.path("paper/case_study_results.tsv").open(encoding="utf-8") as file:
        theirs = list(csv.DictReader(file, delimiter="\t"))
    assert len(bundled) == len(theirs) == 16
    for row in theirs:
        mine = bundled[MODELS[row["model"]], row["dataset"]]
        given = {er.parse(name): mine[name] for name in mine if name not in FACTS}
        assert given == {metric: row[name] for metric, name in names.items()}
        assert er.atlas(row["dataset"], unseen="drop").total == float(row["count"])


def test_sizes_one_too_small_would_make_a_published_value_impossible():
    """TransE's hits@1 on Nations: without the ranked answer, 29 targets have one candidate."""
    hits = found(er.published.adjust_table("hoyt2022"))["TransE", "nations", "hits@1"]["value"]
    sizes = er.atlas("nations", unseen="drop")
    assert hits == pytest.approx(28 / 402)
    with raises("impossible value of hits@1; got hits@1=0.0696517412935; allowed: 0.0721393 to 1"):
        er.adjust({"hits@1": hits}, sizes=sizes["candidates"] - 1, counts=sizes.counts)


@shared.needs("paper/case_study_results.tsv")
def test_the_docs_tables_are_what_the_example_prints():
    script = ROOT / "examples" / "published.py"
    command = [sys.executable, script, shared.path("paper/case_study_results.tsv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    tables = done.stdout.strip().split("\n\n")
    assert [table.count("\n") for table in tables] == [16, 17]
    assert done.stdout.count("confirmed") == 6
    assert done.stdout.count("corrected") == 9
    for table in tables:
        assert f"\n\n{table}\n" in DOCS.read_text(encoding="utf-8")


# The shell ----------------------------------------------------------------------------------------


def test_the_commands_in_the_docs_print_their_output(tmp_path):
    """Every `$ evenrank ...` of the docs, run in a folder with their CSV file."""
    text = DOCS.read_text(encoding="utf-8")
    (tmp_path / "results.csv").write_text(re.search(r"```csv\n(.*?)```", text, re.DOTALL)[1])
    commands = re.findall(r"```\n\$ evenrank (.*?)\n(.*?)```", text, re.DOTALL)
    assert len(commands) == 6
    for command, output in commands:
        failed = output.startswith("evenrank: ")
        assert run(*shlex.split(command), code=2 if failed else 0, folder=tmp_path) == output, command


def test_adjust_by_data_set():
    text = run("adjust", "mrr=0.476", "hits@10=57.1", "--data", "WN18RR", "--unseen", "drop")
    want = er.adjust({"mrr": 0.476, "hits@10": 57.1}, data="wn18rr", unseen="drop")
    assert text == f"{want}\n"
    options = ("--split", "valid", "--sides", "head", "--filter", "none")
    content = json.loads(run("adjust", "mrr=0.476", "--data", "wn18rr", *options, "--format", "json"))
    want = er.adjust({"mrr": 0.476}, data="wn18rr", split="valid", sides="head", filter=None)
    assert content["rows"][0]["values"]["z(mrr)"] == want["z(mrr)"]
    assert content["protocol"] == want.protocol.to_dict()
    said = run("adjust", "hits@1=0.8", "--sizes", "500x9", "--percent", "--format", "csv")
    assert "0.008," in said
    assert run("adjust", "hits@1=0.8%", "--sizes", "500x9", "--format", "csv") == said


def test_adjust_a_file(table):
    path = table(LONG)
    assert run("adjust", path) == f"{er.published.adjust_table(path)}\n"
    assert (
        run("adjust", path, "-m", "mrr", "--format", "csv")
        == f"{er.published.adjust_table(path, 'mrr').to_csv()}\n"
    )
    assert (
        run("adjust", path, "--format", "json", "--unseen", "drop")
        == er.published.adjust_table(path, unseen="drop").to_json() + "\n"
    )
    assert run("adjust", path, "--format", "markdown").startswith("| data | metric | model |")
    assert run("adjust", path, "--format", "latex").count(r"\end{tabular}") == 3
    assert "name the file of results as the only argument" in run(
        "adjust", path, "--data", "wn18rr", code=2
    )
    assert run("adjust", "hoyt2022", "-m", "mrr") == f"{er.published.adjust_table('hoyt2022', 'mrr')}\n"


def test_baseline_in_the_shell():
    assert run("baseline", "nations") == f"{er.baseline('nations')}\n"
    text = run(
        "baseline", "wn18rr", "-m", "mrr", "--filter", "none", "--split", "valid", "--format", "csv"
    )
    assert text == er.baseline("wn18rr", "mrr", filter=None, split="valid").to_csv() + "\n"
    assert json.loads(run("baseline", "nations", "--format", "json"))["protocol"]["data"] == "nations"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["adjust", "mrr=0.4"], "need either a data set or numbers of candidates; got neither; use"),
        (["adjust", "mrr=0.4", "--data", "nations", "--sizes", "5x5"], "got both; use --data"),
        (["adjust", "mrr=0.4", "--data", ""], "no such data set; got ''; see `evenrank atlas list`"),
        (["adjust", "mrr=x", "--data", "nations"], "a value must be a number; got 'x'"),
        (["adjust", "mrr=", "--data", "nations"], "must look like mrr=0.43; got 'mrr='"),
        (["adjust", "mrr=0.4", "--data", "natoins"], "got 'natoins'; did you mean nations"),
        (["adjust", "mrr=0.4", "--data", "nations", "--split", "dev"], "got 'dev'; allowed: train"),
        (["adjust", "mrr=0.4", "--data", "nations", "-m", "mrr"], "--metric selects from a file"),
        (["adjust", "mrr", "--data", "nations"], "must look like mrr=0.43; got 'mrr'"),
        (["adjust", "no.csv"], "no such file of results; got no.csv; allowed: a CSV file, or hoyt2022"),
        (["adjust", "no.csv", "mrr=3"], "must look like mrr=0.43; got 'no.csv'"),
        (
            ["adjust", "hits@1=0.8", "hits@10=57", "--data", "wn18rr"],
            "use one unit, or pass --percent if all",
        ),
        (["adjust", "hits@10=57", "--data", "wn18rr", "--fraction"], "impossible value of hits@10"),
        (["adjust", "hoyt2022", "-m", "ndcg"], "no such results; got ndcg; allowed: mrr, hits@1"),
        (["baseline", "natoins"], "did you mean nations"),
        (["baseline", "nations", "--sides", "up"], "unknown value of --sides; got 'up'; allowed: head"),
        (["baseline"], "DATA is missing: data set, one of"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    assert message in run(*arguments, code=2)


# Helpers ------------------------------------------------------------------------------------------


def test_the_range_of_a_metric():
    """By evaluating ranks that are all last, and all first."""
    sizes = [3, 3, 8]
    candidates = Candidates(er.Ranks.of([1, 1, 1], candidates=sizes).tally().sizes, er.Protocol())
    for name in ("mrr", "mr", "gmr", "hits@3", "median", "1/median", "max"):
        ends = [er.Ranks.of(r, candidates=sizes).evaluate(name)[name] for r in ([1, 1, 1], sizes)]
        assert candidates.range(er.parse(name)) == pytest.approx(tuple(sorted(ends)))
    assert candidates.protocol.to_dict() == {
        "chance": "independent",
        "tasks": "3",
        "sizes": "3 to 8",
    }


def test_values_are_formatted_as_published():
    assert str(PublishedValue(er.parse("amri"), 93.0, percent=True)) == "index(mr)=93"
    assert PublishedValue(er.parse("hits@3"), 1.0).kind == "hits@k"
    assert PublishedValue(er.parse("h@10"), 1.0).kind == "hits@k"
    assert PublishedValue(er.parse("ah@3"), 1.0).kind == "index(hits@k)"
    setting = Setting.of("FB15K_237")
    assert setting.data == "fb15k237"
    assert figure(setting.candidates().null(er.MR).mean()) == "7,153"


def test_latex_has_a_table_for_each_metric_and_the_mean_indices():
    made = er.published.adjust_table("hoyt2022", "mrr", "hits@10")
    *metrics, means = made.to_latex(digits=2).split("\n\n")
    assert [r"Model & MRR & chance(MRR) & AMRR & ZMRR" in text for text in metrics] == [True, False]
    assert "Model & AMRR & AH@10" in means
    assert r"Mean adjusted index over all 4 data sets" in means
    assert r"TuckER & \textbf{0.57}" in means
    with raises("each metric has its own table, and label is for one; got 2 metrics"):
        made.to_latex(label="tab:a")
    assert r"\label{tab:a}" in er.published.adjust_table("hoyt2022", "mrr").to_latex(label="tab:a")
