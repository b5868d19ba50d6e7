"""Reports: values against the library, files, errors, and the page in a real browser."""

import base64
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from html import escape
from math import isnan
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm
from shell import MODELS, run

import evenrank as er
from evenrank._internal.table import figure
from evenrank.errors import InputError
from evenrank.metrics.adjusted import index
from evenrank.report import charts, report
from evenrank.report.document import Report, reload
from evenrank.report.findings import STEPS
from evenrank.report.summary import summary

KINDS = ("transe", "rotate", "complex")
EVIL = "</script><script>window.hacked = 1</script>"
IMAGE = '<img src="x" onerror="window.hacked = 1">'
LATEX = r"50%_of $x^2$ & \more#{}~"


def keys(n):
    names = [f"e{i}" for i in range(7)]
    relation = np.array(["parent", "<script>window.hacked = 1</script>", "größer_als", LATEX])
    return {
        "head": np.array(names)[np.arange(n) % 7],
        "relation": relation[(np.arange(n) // 2) % 4],
        "tail": np.array([f"t{i // 2}" for i in range(n)]),
        "side": np.array(["tail", "head"])[np.arange(n) % 2],
    }


def made_up(model, skill, *, data="made up", seed=0, n=120, **options):
    """Ranks of the same targets for all models; a smaller skill is better."""
    sizes = np.random.default_rng(1).integers(20, 60, n)
    draw = np.random.default_rng(seed)
    better = np.minimum(draw.exponential(skill, n).astype(int), sizes - 1)
    options = {"keys": keys(n), **options}
    return er.Ranks(better, 0, sizes, protocol={"data": data, "model": model}, **options)


def guesses(model, seed):
    """Random ranks."""
    draw = np.random.default_rng(seed)
    sizes = np.full(400, 50)
    protocol = {"data": "guessed", "model": model}
    return er.Ranks(draw.integers(0, 50, 400), 0, sizes, keys=keys(400), protocol=protocol)


@pytest.fixture(scope="module")
def ranked():
    """Three bundled models, ranked for real."""
    task = er.load("nations").task("test")
    paths = [next(p for p in MODELS if p.stem == f"nations-{kind}") for kind in KINDS]
    return [er.rank(er.models.load(path), task, progress=False) for path in paths]


@pytest.fixture(scope="module")
def full(ranked):
    """A report with real and with hostile names."""
    return Report(*ranked, made_up(IMAGE, 3, data=EVIL), made_up("{{sections}}", 9, data=EVIL, seed=2))


@pytest.fixture(scope="module")
def page_file(full, tmp_path_factory):
    return full.save(tmp_path_factory.mktemp("report") / "report.html")


# Numbers ------------------------------------------------------------------------------------------


def test_values_are_those_of_the_ranks(full, ranked):
    for ranks in ranked:
        alone = ranks.evaluate(*full.evaluation.expressions)
        at = full.evaluation.labels.index(("nations", ranks.protocol.model))
        assert full.evaluation.values_by_group[at].tolist() == alone.values_by_group[0].tolist()
    assert full.evaluation.labels[-1] == (EVIL, "{{sections}}")


def test_intervals_and_tests_are_those_of_compare(full, ranked):
    models = {ranks.protocol.model: ranks for ranks in ranked}
    apart = er.intervals(models, "mrr", "z(mrr)")
    assert {unit: made.unit for unit, made in full.findings.comparisons.items()} == {
        "nations": "triple+query",
        EVIL: "triple+query",
    }
    for row in apart.rows():
        mine = full.findings.interval(row["metric"], "nations", row["model"])
        assert list(mine) == [row[name] for name in mine._fields]
    assert full.findings.comparisons["nations"].rows() == er.compare(models).rows()


def test_groups_agree_with_ranks_split_by_key(full, ranked):
    for key in ("relation", "side"):
        groups = full.findings.groups["nations"][key]
        for i, ranks in enumerate(ranked):
            split = ranks.by(key).evaluate("count", "chance(mrr)", "index(mrr)")
            assert [group.value for group in groups] == [label[0] for label in split.labels]
            assert [g.count for g in groups] == split["count"].tolist()
            assert [g.chance for g in groups] == split["chance(mrr)"].tolist()
            mine = [g.index[i] for g in groups]
            np.testing.assert_allclose(mine, split["index(mrr)"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("metric", ["mrr", "hits@10", "mr", "gmr", "hmr"])
@pytest.mark.parametrize("ties", ["expected", "optimistic"])
def test_groups_have_the_intervals_of_compare(metric, ties, ranked):
    weight = np.linspace(0, 3, 120) * (np.arange(120) % 8 > 1)  # "parent" weighs nothing
    tied = np.random.default_rng(3).integers(0, 3, 120)
    some = made_up("a", 3)
    heavy = er.Ranks(
        *(np.minimum(some.better, 10), tied, some.candidates),
        weights=weight,
        keys=keys(120),
        protocol=some.protocol,
    )
    made = Report(*ranked, heavy, metrics=[metric], ties=ties).findings
    assert [group.value for group in made.groups["made up"]["relation"]] == sorted(
        set(heavy.keys["relation"].tolist()) - {"parent"}
    )
    for data, models in (("nations", ranked), ("made up", [heavy])):
        for key, groups in made.groups[data].items():
            for i, ranks in enumerate(models):
                apart = er.intervals(ranks.by(key), f"index({metric})", ties=ties)
                mine = [group.intervals[i] for group in groups]
                np.testing.assert_allclose(mine, apart[f"index({metric})"], rtol=1e-9, atol=1e-12)


def test_groups_without_spread_have_no_interval():
    kinds = {"relation": ["same", "same", "one", "two", "two"]}
    ranks = er.Ranks([2, 2, 1, 0, 4], 0, 30, keys=kinds, protocol={"data": "d", "model": "m"})
    found = {g.value: isnan(g.intervals[0].low) for g in Report(ranks).findings.groups["d"]["relation"]}
    assert found == {"same": True, "one": True, "two": False}
    groups = Report(ranks, metrics=["median"]).findings.groups["d"]["relation"]
    assert [isnan(group.intervals[0].low) for group in groups] == [True] * 3
    split = ranks.by("relation").evaluate("index(median)")
    assert [group.index[0] for group in groups] == split["index(median)"].tolist()


def test_graphs_add_strata(ranked, tmp_path):
    graph = er.load("nations")
    made = Report(*ranked, made_up("a", 3), graphs=[graph])
    kinds = made.findings.groups["nations"]
    assert {"cardinality", "frequency", "side"} <= set(kinds)
    split = er.strata(ranked[0], graph).by("cardinality").evaluate("index(mrr)")["index(mrr)"]
    mine = [group.index[0] for group in kinds["cardinality"]]
    np.testing.assert_allclose(mine, split, rtol=1e-12)
    assert "cardinality" not in made.findings.groups["made up"]
    assert "cardinality" in reload(made.save(tmp_path / "r.html")).findings.groups["nations"]
    with pytest.raises(InputError, match=r"no ranks are of this graph; got umls .*; allowed: made up"):
        Report(made_up("a", 3), graphs=[er.load("umls")])
    keys = {"relation": ["embassy", "treaties"]}
    bare = er.Ranks([1, 2], 0, 14, keys=keys, protocol={"data": "nations", "model": "m"})
    assert set(Report(bare, graphs=[graph]).benchmarks[0].first.keys) == {
        "relation",
        "cardinality",
        "frequency",
    }


def test_averages_agree_with_the_librarys(full, ranked):
    for ranks in ranked:
        found = full.findings.averages["nations"][ranks.protocol.model]
        assert list(found.values()) == er.averages(ranks, "index(mrr)")["index(mrr)"].tolist()


def test_curves_agree_with_counting(full, ranked):
    rows = [row for row in full.findings.curves() if row["data"] == "nations"]
    for ranks in ranked:
        for row in (row for row in rows if row["model"] == ranks.protocol.model):
            assert row["share"] == pytest.approx((ranks.better < row["rank"]).mean(), abs=1e-5)
    for row in (row for row in rows if not row["model"]):
        assert row["share"] == pytest.approx(
            np.minimum(1, row["rank"] / ranks.candidates).mean(), abs=1e-5
        )
    assert rows[0]["rank"] == 1
    assert rows[-1]["share"] == 1


def test_ties_count_in_part_in_curves():
    ranks = er.Ranks([0, 4], [3, 0], 10, protocol={"model": "m"})
    made = Report(ranks)
    found = {row["rank"]: row["share"] for row in made.findings.curves() if row["model"]}
    assert [found[k] for k in (1, 2, 4, 5)] == [1 / 8, 2 / 8, 4 / 8, 1.0]


def test_calibration_agrees_with_the_null_distribution_and_samples(full):
    rows = [
        row
        for row in full.findings.calibration
        if (row["data"], row["metric"]) == ("nations", "hits@10")
    ]
    assert [row["z"] for row in rows] == list(STEPS)
    null = er.chance("hits@10", full.benchmarks[0].sizes)
    for row in rows:
        assert row["exact"] == pytest.approx(
            float(null.sf(null.mean() + row["z"] * null.std())), rel=1e-9
        )
        assert row["normal"] == norm.sf(row["z"])
    sizes = full.ranks["nations"]["TransE"].candidates
    drawn = np.random.default_rng(0).random((4000, len(sizes))) * sizes
    z = ((drawn < 10).mean(axis=1) - null.mean()) / null.std()
    assert (z >= STEPS[0]).mean() == pytest.approx(rows[0]["exact"], abs=0.02)


def test_the_page_says_that_tail_probabilities_are_those_of_independent_ranks(full):
    page = full.html()
    assert "under random ranking, computed for independent ranks, divided by" in page
    assert "with probability" in page
    assert "computed for independent ranks, a normal distribution with" in page


def test_rows_are_joined_whatever_their_order(ranked):
    mixed = ranked[1][np.random.default_rng(0).permutation(len(ranked[1]))]
    assert Report(ranked[0], mixed).content() == Report(*ranked[:2]).content()


def test_ranks_given_stay_as_they_were(ranked):
    told = er.strata(ranked[1], er.load("nations"), "cardinality")
    before = dict(told.keys), told.protocol
    Report(ranked[0], told).html()
    assert (told.keys, told.protocol) == before


def test_another_metric_may_lead(ranked):
    made = Report(*ranked, metrics=["hits@3", "mr", "index(hits@3)"])
    assert str(made.findings.lead) == "hits@3"
    assert "is best, with hits@3" in made.summary[0]
    assert made.findings.comparisons["nations"].pairs[0].metric == er.HITS(3)
    median = Report(*ranked, metrics=["median"])
    assert median.findings.comparisons == {}
    assert "RotatE and ComplEx are tied for the best result, with median 1.000" in median.summary[0]


# Words --------------------------------------------------------------------------------------------


def test_summary_names_the_best_model_and_significant_differences(full):
    compared = full.findings.comparisons["nations"]
    text = next(line for line in full.summary if line.startswith("On nations"))
    values = {model: full.findings.value("", "nations", model) for model in full.ranks["nations"]}
    top = max(values, key=values.get)
    low, high = full.findings.interval("mrr", "nations", top)[1:3]
    assert f"{top} is best, with mrr {figure(values[top])}" in text
    assert f"(95% confidence interval {figure(low)} to {figure(high)})" in text
    assert f"index {figure(full.findings.value('index', 'nations', top))}" in text
    assert all(pair.better(0.95) == top for pair in compared.pairs if top in (pair.first, pair.second))
    assert "It is significantly better than TransE and RotatE (corrected p ≤ 0.0003)." in text
    tested = "permutation tests of mrr over triples crossed with queries, Holm-corrected"
    assert f"Corrected p-values are from paired, two-sided {tested}" in full.summary[-1]
    assert "All p-values" not in full.summary[-1]
    assert "undecided means that the corrected p-value exceeds 0.05" in full.summary[-1]


def test_summary_does_not_claim_undecided_differences():
    same = made_up("a", 3), made_up("b", 3, seed=5)
    text = Report(*same).summary[0]
    p = Report(*same).findings.comparisons["made up"].pairs[0].p_corrected
    assert p > 0.05
    assert "is significantly better" not in text
    assert "is best" not in text
    first, second = "ab" if "a comes first" in text else "ba"
    assert f"On made up, {first} comes first" in text
    assert f"Its lead over {second} is undecided (corrected p = {p:.2g})." in text


def test_summary_notes_results_close_to_chance_level():
    made = Report(guesses("luck", 0), guesses("fate", 1))
    text = made.summary[0]
    assert "No model is far above chance level (index 0)." in text
    p = {m: made.findings.p_value(made.benchmarks[0], m) for m in ("luck", "fate")}
    lucky = [name for name, one in p.items() if one > 0.05]
    assert f"{' and '.join(lucky)} are not significantly better than random ranking (p = " in text
    alone = Report(guesses("luck", 0)).summary
    assert len(alone) == 1
    assert "luck has mrr" in alone[0]
    assert "That is not far above chance level" in alone[0]


def test_summary_notes_results_below_chance_level():
    bad = [er.Ranks([n] * 50, 0, 5, protocol={"data": "d", "model": f"m{n}"}) for n in (3, 4)]
    text = Report(*bad).summary[0]
    assert "index -0.3" in text
    assert "No model is above chance level (index 0)." in text
    found = "(p = 1 from the null distribution, not corrected)."
    assert f"m3 and m4 are not significantly better than random ranking {found}" in text


def test_bound_of_cantelli_is_only_used_where_it_decides(full):
    for benchmark in full.benchmarks:
        for model, ranks in benchmark.models.items():
            z, p = (
                full.findings.value("z", benchmark.data, model),
                full.findings.p_value(benchmark, model),
            )
            exact = float(er.chance("mrr", ranks).sf(ranks.evaluate("mrr")["mrr"]))
            assert p == exact if z * z <= 19 else exact <= p < 0.05


def test_summary_omits_chance_without_a_null_distribution():
    uneven = made_up("a", 3, weights=np.linspace(1, 2, 120))  # no exact null distribution
    assert "hance" not in Report(uneven, metrics=["median"]).summary[0]


def test_summary_compares_across_data_sets_by_index():
    few = er.Ranks([0, 0, 1, 1] * 20, 0, 3, protocol={"data": "few", "model": "m"})
    many = er.Ranks([0, 0, 1, 2] * 20, 0, 900, protocol={"data": "many", "model": "m"})
    made = Report(few, many)
    assert [benchmark.data for benchmark in made.benchmarks] == ["few", "many"]
    assert "m on few (0.7500) has the best mrr; after chance adjustment, m on many" in " ".join(
        made.summary
    )
    assert "has the best mrr and, after chance adjustment, the best index as well" in " ".join(
        Report(many, er.Ranks([2] * 9, 0, 3, protocol={"data": "few", "model": "m"})).summary
    )


def test_summary_names_all_best_models_across_data_sets():
    perfect = [er.Ranks([0] * 9, 0, n, protocol={"data": f"d{n}", "model": "m"}) for n in (9, 30)]
    text = "m on d9 and m on d30 (1.000) have the best mrr and, after chance adjustment, the best"
    assert text in " ".join(Report(*perfect).summary)


def test_summary_warns_of_ties():
    tied = er.Ranks([0, 5] * 30, [9, 0] * 30, 50, protocol={"data": "d", "model": "flat"})
    assert "50% of flat's targets tie with another candidate: its mrr is 0.1333 to 0.5833" in " ".join(
        Report(tied).summary
    )


def test_equal_models_are_tied():
    one = made_up("one", 3)
    two = made_up("two", 3)
    assert "one and two are tied for the best result, with mrr" in Report(one, two).summary[0]
    three, four = made_up("three", 20, seed=1), made_up("four", 4, seed=9)
    said = Report(one, two, three, four).summary[0]
    assert re.search(r"They are significantly better than three \(corrected p [<≤] 0\.\d+\)\.", said)
    assert re.search(r"Their lead over four is undecided \(corrected p = \d", said)
    assert summary(Report(one, two).findings) == Report(one, two).summary


def test_summary_counts_the_data_sets_each_model_wins():
    def ranks(skills, data):
        seeds = {"TuckER": 0, "RotatE": 5, "TransE": 9}
        return [made_up(m, s, data=data, seed=seeds[m], n=400) for m, s in skills.items()]

    first = ranks({"TuckER": 1, "RotatE": 6, "TransE": 12}, "one")
    second = ranks({"TuckER": 1, "RotatE": 6, "TransE": 12}, "two")
    third = ranks({"TuckER": 12, "RotatE": 1, "TransE": 6}, "three")
    open_ = ranks({"TuckER": 3, "RotatE": 3.01, "TransE": 12}, "four")
    every = Report(*first, *second, *third, *open_)
    words = every.summary[0]
    assert words.startswith("TuckER is best on 2 of 4 data sets (")
    assert "one" in words
    assert "two" in words
    assert "), RotatE on three; four is undecided between RotatE and TuckER." in words
    for benchmark in every.benchmarks:
        rivals = every.findings.contenders(benchmark)
        tests = er.compare(dict(benchmark.models)).pairs
        lost = {
            p.second if better == p.first else p.first
            for p in tests
            if rivals[0] in (p.first, p.second) and (better := p.better(0.95))
        }
        assert set(rivals) == set(benchmark.models) - (lost - {rivals[0]})
    assert Report(*first, *second).summary[0] == "TuckER is best on both data sets."
    assert Report(*first, *second, *ranks({"TuckER": 1, "RotatE": 6, "TransE": 9}, "more")).summary[
        0
    ] == ("TuckER is best on all 3 data sets.")
    assert (
        Report(*open_, *ranks({"TuckER": 3, "RotatE": 3.01, "TransE": 3.02}, "five"))
        .summary[0]
        .startswith("No model is best on any of the 2 data sets; ")
    )


def test_summary_has_the_test_across_data_sets(full):
    data = [f"data {i}" for i in range(6)]
    skills = {"good": 1, "fair": 5, "poor": 14}
    ranked = [
        made_up(model, skill, data=name, seed=i)
        for name in data
        for i, (model, skill) in enumerate(skills.items())
    ]
    made = Report(*ranked)
    alone = er.across_datasets(made.ranks)
    assert made.findings.across.content() == alone.content()
    assert made.content()["across"] == alone.content()
    assert alone.p < 0.05
    assert (
        f"Over all data sets, the models differ (Friedman test, p = {alone.p:.2g}); good has the best "
        "average rank (1 of 3). It is significantly better than poor (Nemenyi test). Its lead over fair "
        "is undecided."
    ) in made.summary
    twins = [made_up(m, s, data=d, seed=1) for d in data for m, s in (("a", 1), ("b", 1), ("c", 9))]
    assert "; a and b have the best average rank (1.5 of 3). They are" in Report(*twins).summary[1]
    few = Report(*ranked[:6]).summary
    assert "the order of the models is undecided (Friedman test, p = " in few[1]
    assert "; 2 data sets are few for this test)." in few[1]
    assert full.findings.across is None  # no model has ranks on both data sets
    assert "– no test across data sets: there are no two models that have ranks on every data set" in (
        full.notes()
    )


# Files --------------------------------------------------------------------------------------------


def test_page_is_self_contained(page_file):
    text = page_file.read_text()
    code = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!data:|#)', re.sub("&lt;.*?&gt;", "", code))
    assert set(re.findall(r"https?://[^\s\"]+", code)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in code
    assert page_file.stat().st_size < 700_000
    for name in COLOUR_NAMES:
        assert f"--{name}:" in text


COLOUR_NAMES = ("ink", "card", "chance", "model-1")


def test_page_can_be_read_again(full, page_file, tmp_path):
    back = reload(page_file)
    assert back.content() == full.content()
    for data, models in full.ranks.items():
        for model, ranks in models.items():
            mine = back.ranks[data][model]
            assert mine.protocol == ranks.protocol
            assert mine.to_polars().equals(ranks.to_polars())
    again = report(tmp_path / "again.html", page_file)
    assert again.read_bytes() == page_file.read_bytes()


def test_page_is_joined_with_more_files(page_file, tmp_path):
    made_up("newcomer", 2, data=EVIL, seed=9).save(tmp_path / "new.parquet")
    made = Report(page_file, tmp_path / "new.parquet")
    assert list(made.ranks[EVIL]) == [IMAGE, "{{sections}}", "newcomer"]


def test_weights_survive(tmp_path):
    weight = np.linspace(0, 2, 120)
    path = report(tmp_path / "w.html", made_up("a", 3, weights=weight), made_up("b", 5, weights=weight))
    back = reload(path)
    assert back.ranks["made up"]["a"].weights.tolist() == weight.tolist()
    alone = made_up("a", 3, weights=weight).evaluate("mrr")["mrr"]
    assert back.findings.value("", "made up", "a") == alone


def test_tables_in_every_format(full, tmp_path):
    frame = pl.read_csv(full.save(tmp_path / "t.csv"))
    assert frame["model"].to_list() == [label[1] for label in full.evaluation.labels]
    assert frame["mrr"].to_list() == full.evaluation["mrr"].tolist()
    assert frame["mrr low"][0] == full.findings.interval("mrr", *full.evaluation.labels[0]).low
    content = json.loads(full.save(tmp_path / "t.json").read_text())
    assert content["results"][0]["mrr"] == full.evaluation["mrr"][0]
    assert {group["key"] for group in content["groups"]} == {"relation", "side"}
    assert content["tests"]["nations"][0]["p_corrected"] <= 1
    best = max(full.findings.value("", "nations", m) for m in full.ranks["nations"])
    assert f"**{figure(best)}**" in full.save(tmp_path / "t.md").read_text()
    tex = full.save(tmp_path / "t.tex").read_text()
    assert rf"\textbf{{{best:.3f}}}" in tex
    assert r"MRR\,$\uparrow$" in tex
    assert r"\toprule" in tex
    assert "[" + full.text().rsplit("[", 1)[1][:8] in full.text()
    assert "<b>" in full._repr_html_()


def test_latex_and_markdown_escape_names():
    made = Report(made_up(LATEX, 3, data="<b>|x"))
    assert (
        r"50\%\_of \$x\textasciicircum{}2\$ \& \textbackslash{}more\#\{\}\textasciitilde{}"
        in made.to_latex()
    )
    assert r"\<b>\|x" in made.to_markdown()


def test_figures_have_legends_and_notes(full):
    drawn = {name: charts.svg(chart) for name, chart in full.figures.items()}
    assert (
        "Horizontal bars and dashes: chance level. Vertical bars: confidence intervals."
        in drawn["metrics"]
    )
    assert (
        "Dashed: chance level. Shown: the 6 best and the 6 worst relations on average."
        in drawn["relations"]
    )
    few = charts.svg(Report(made_up("a", 3)).figures["relations"])
    assert "Dashed: chance level.<" in few
    assert all(f">{rank}<" in drawn["ranks"] for rank in (1, 2, 5, 10, 20, 50))  # of 60 candidates
    many = [{"data": "d", "model": m, "rank": r, "share": 0.5} for m in ("", "m") for r in (1, 1000)]
    assert ">20<" not in charts.svg(charts.distribution(many))


def test_figures_as_files(full, tmp_path):
    written = full.save_figures(tmp_path / "new" / "folder")
    names = {"metrics", "ranks", "relations", "calibration"}
    assert {path.stem for path in written} == names
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for path in written:
        assert path.read_bytes().startswith(starts[path.suffix])
    dark = charts.save(full.figures["metrics"], tmp_path / "dark.svg", "dark").read_text()
    light = (tmp_path / "new" / "folder" / "metrics.svg").read_text()
    in_page = "".join(panel.svg() for panel in full.figures["metrics"].panels)
    for name, (day, night) in charts.COLOURS.items():
        assert (day in light) == (night in dark) == (f"var(--{name})" in in_page or name == "card")
        assert day not in dark
    assert "var(" not in light


def test_models_look_different():
    models = [f"m{i}" for i in range(20)]
    rows = [{"data": "d", "model": m, "metric": "mrr", "value": i / 20} for i, m in enumerate(models)]
    root = ET.fromstring(charts.svg(charts.panels(rows)))
    points = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
    assert len(points) == len({(point.get("fill"), point.get("d")) for point in points}) == 20


def test_lines_of_one_hue_differ_in_their_strokes():
    rows = [
        {"data": "d", "model": f"m{i}", "rank": rank, "share": (i + rank) / 20}
        for i in range(12)
        for rank in (1, 2)
    ]
    root = ET.fromstring(charts.svg(charts.distribution(rows)))
    lines = [e for e in root.iter() if e.get("aria-roledescription") == "line mark"]
    assert len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == 12


def places(svg):
    """Return the position of every text of a drawing."""
    found = {}

    def walk(element, x, y):
        moved = re.match(r"translate\(([-\d.]+),\s*([-\d.]+)\)", element.get("transform", ""))
        x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        if element.text and element.text.strip():
            found.setdefault(element.text, (x, y))
        for part in element:
            walk(part, x, y)

    walk(ET.fromstring(svg), 0.0, 0.0)
    return found


@pytest.mark.parametrize("most", [1.0, 0.63, 0.087])
def test_titles_of_panels_are_aligned(most):
    names = "mrr", "index(mrr)", "z(mrr)"
    values = (most / 2, most, 300 * most)
    rows = [
        {"data": "d", "model": "m", "metric": metric, "value": value}
        for metric, value in zip(names, values, strict=True)
    ]
    found = places(charts.svg(charts.panels(rows)))
    assert len({found[f"{name} ↑"][1] for name in names}) == 1


def test_points_are_drawn_where_their_values_are(full):
    root = ET.fromstring(charts.svg(full.figures["metrics"]))
    points = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
    told = [re.fullmatch(r"data: (.*); value: (.*); model: (.*)", p.get("aria-label")) for p in points]
    values = {
        (data, model): [full.findings.value(form, data, model) for form in ("", "index", "z")]
        for data, model in full.evaluation.labels
    }
    assert len(points) == 3 * len(values)
    for (data, model), forms in values.items():
        mine = [found for found in told if (found[1], found[3]) == (data, model)]
        assert [float(found[2].replace("−", "-")) for found in mine] == pytest.approx(forms, rel=1e-5)
    height = [float(re.search(r",([-\d.]+)\)", p.get("transform"))[1]) for p in points[: len(values)]]
    raw = [forms[0] for forms in values.values()]
    line = np.polyfit(raw, height, 1)
    assert line[0] < 0  # better is higher
    np.testing.assert_allclose(np.polyval(line, raw), height, atol=0.01)


def test_published_values_are_hollow():
    rows = [
        {"data": "d", "model": "m", "metric": "mrr", "value": v, "published": v < 0.5}
        for v in (0.4, 0.6)
    ]
    root = ET.fromstring(charts.svg(charts.panels(rows)))
    points = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
    hue = charts.COLOURS[charts.HUES[0]][0]
    assert sorted(point.get("fill") == hue for point in points) == [False, True]
    assert {point.get("stroke") for point in points} == {hue}
    assert "Hollow: as published." in "".join(root.itertext())


def test_text_in_drawings_is_text(full):
    for chart in full.figures.values():
        root = ET.fromstring(charts.svg(chart))
        assert not [element for element in root.iter() if element.tag.endswith(("script", "img"))]


# Errors -------------------------------------------------------------------------------------------


def test_single_triple_has_no_interval(tmp_path):
    keys = {n: [n] for n in ("head", "relation", "tail", "side")}
    ranks = er.Ranks.of([3], 9, keys=keys, protocol={"data": "one", "model": "m"})
    made = Report(ranks)
    assert isnan(made.findings.interval("mrr", "one", "m").low)
    assert any("no interval for mrr" in note for note in made.undefined)
    assert any("a single triple has no variance" in note for note in made.undefined)
    assert "interval" not in made.summary[0]
    assert "a single triple has no variance" in made.save(tmp_path / "one.html").read_text()


def test_models_on_a_single_triple_are_not_tested(tmp_path):
    names = {n: [n] for n in ("head", "relation", "tail", "side")}
    both = [er.Ranks([n], 0, 9, keys=names, protocol={"data": "d", "model": f"m{n}"}) for n in (1, 4)]
    made = Report(*both)
    assert made.findings.comparisons == {}
    assert "is significantly better" not in made.summary[0]
    assert "a single triple is too few for a test" in made.save(tmp_path / "r.html").read_text()
    weighed = [made_up(name, 3, weights=np.eye(120)[0]) for name in "ab"]
    assert Report(*weighed).findings.comparisons == {}


def test_extremes_lead_without_tests(tmp_path):
    made = Report(made_up("a", 3), made_up("b", 9), metrics=["max"])
    assert made.findings.comparisons == {}
    assert "a comes first, with max" in made.summary[0]
    assert "– no tests: max is not a mean over targets" in made.notes()
    median = Report(made_up("a", 3), made_up("b", 9), metrics=["median"])
    text = median.save(tmp_path / "r.html").read_text()
    assert "no tests: median is not a mean over targets" in text
    assert "method=" not in text
    assert median.findings.unaveraged
    assert escape(median.findings.unaveraged[0]) in text  # why there is no index over queries


def test_names_with_control_characters_can_be_drawn(tmp_path):
    protocol = {"data": "two\nlines", "model": "a\x02b"}
    ranks = er.Ranks([1, 2], 0, 9, keys={"relation": ["\x01", "\x00\x1b[31m"]}, protocol=protocol)
    made = Report(ranks)
    assert made.evaluation.labels == (("two lines", "a\x02b"),)
    made.save_figures(tmp_path)
    assert "a\ufffdb" in (tmp_path / "metrics.svg").read_text()
    made.save(tmp_path / "r.html")
    assert reload(tmp_path / "r.html").to_json() == made.to_json()


def test_names_are_not_recoloured():
    named = Report(made_up('"var(--ink)" model', 3))
    drawn = charts.svg(named.figures["metrics"])
    assert ">&quot;var(--ink)&quot; model<" in drawn
    assert "ink)" not in drawn.replace("&quot;var(--ink)&quot; model", "")


def test_differences_without_spread_have_no_interval():
    same = [er.Ranks([1] * 5, 0, 9, protocol={"data": "d", "model": name}) for name in ("m1", "other")]
    made = Report(*same, on="row")
    assert "nan" not in made.html()
    assert made.tables()[1].rows[0][4] in ("–", "[0.0000, 0.0000]")


def test_groups_of_single_candidates_are_undefined_not_wrong(tmp_path):
    sizes = np.array([1, 1, 30, 30])
    kinds = {"relation": ["only", "only", "some", "some"]}
    ranks = er.Ranks([0, 0, 3, 5], 0, sizes, keys=kinds, protocol={"data": "d", "model": "m"})
    only, some = Report(ranks).findings.groups["d"]["relation"]
    assert isnan(only.index[0])
    assert only.chance == 1.0
    assert not isnan(some.index[0])
    every = Report(ranks[:2])
    assert "Random ranking always has the best value there" in every.summary[0]
    assert any("index(mrr) is undefined" in note for note in every.undefined)
    text = every.save(tmp_path / "every.html").read_text()
    assert "index(mrr) is undefined" in text
    assert "calibration" not in every.figures


def test_other_splits_are_other_benchmarks():
    valid = made_up("m", 3).with_protocol(split="valid")
    test = made_up("m", 4, seed=3).with_protocol(split="test")
    assert {c.data for c in Report(valid, test).benchmarks} == {
        "made up (split: valid)",
        "made up (split: test)",
    }


def test_files_without_a_protocol_are_named_by_their_files(tmp_path):
    for name in ("first", "second"):
        pl.DataFrame({"rank": [1, 2, 5], "candidates": [9, 9, 9]}).write_csv(tmp_path / f"{name}.csv")
    made = Report(tmp_path / "first.csv", tmp_path / "second.csv")
    assert list(made.ranks["unnamed data"]) == ["first", "second"]


def test_models_are_only_tested_if_keys_identify_the_targets(tmp_path):
    files = [tmp_path / f"{name}.csv" for name in ("first", "second")]
    for file, ranks in zip(files, ([1, 2, 5, 1], [3, 2, 6, 2]), strict=True):
        pl.DataFrame({"rank": ranks, "candidates": 9}).write_csv(file)
    unmatched = Report(*files)
    assert unmatched.findings.comparisons == {}
    assert "is significantly better" not in unmatched.summary[0]
    told = "no tests: no key columns identify the targets; name them with on= (--on in the shell)"
    assert any(told in note for note in unmatched.notes())
    matched = Report(*files, on="row")
    assert "over targets" in matched.summary[-1]
    again = reload(matched.save(tmp_path / "r.html"))  # the page stores the option
    assert again.to_json() == matched.to_json()
    assert reload(unmatched.save(tmp_path / "u.html")).findings.comparisons == {}
    keyed = [made_up(name, skill) for name, skill in (("a", 3), ("b", 4))]
    with pytest.raises(InputError, match="no such key in all models; got sex"):
        Report(*keyed, on="sex")
    with pytest.raises(InputError, match="different targets have the same keys"):
        Report(*keyed, on=["relation", "side"])


def test_other_tasks_are_joined_by_their_keys():
    keys = {"query": np.arange(9) // 3, "answer": np.arange(9)}
    a, b = (
        er.Ranks(np.arange(9) % n, 0, 9, keys=keys, protocol={"data": "d", "model": f"m{n}"})
        for n in (2, 4)
    )
    made, turned = Report(a, b), Report(a, b[::-1])
    assert made.findings.comparisons["d"].pairs == turned.findings.comparisons["d"].pairs


def test_models_that_share_a_name_are_named_by_their_files(tmp_path):
    one, two = (saved(tmp_path, f"{n}.parquet", made_up("TransE", n)) for n in (3, 4))
    other = made_up("RotatE", 5)
    made = Report(one, two, other)
    assert list(made.ranks["made up"]) == ["3", "4", "RotatE"]
    assert reload(made.save(tmp_path / "r.html")).content() == made.content()
    folder = tmp_path / "seed"
    folder.mkdir()
    twin = saved(folder, "3.parquet", made_up("TransE", 6))
    assert list(Report(one, twin).ranks["made up"]) == [str(one), str(twin)]


def test_level_applies_to_all_values_and_texts(tmp_path):
    both = [made_up("a", 3), made_up("b", 3.5, seed=4)]
    made = Report(*both, level=0.9)
    assert "(90% confidence interval" in made.summary[0]
    assert made.content()["level"] == 0.9
    want = er.compare(a=both[0], b=both[1], level=0.9)
    assert made.findings.comparisons["made up"].pairs[0].low == want.pairs[0].low
    side, _ = made.findings.groups["made up"]["side"]
    part = er.intervals(both[0].by("side"), "index(mrr)", level=0.9)["index(mrr)"][0]
    assert np.allclose(side.intervals[0][:4], part[:4])
    text = made.save(tmp_path / "r.html").read_text()
    assert "95%" not in text
    assert "90% confidence intervals" in text
    with pytest.raises(InputError, match="the confidence level must be between 0 and 1"):
        Report(*both, level=95)


def test_groups_have_intervals_within_their_range():
    keys = {"relation": ["r", "r", "s", "s"]}
    ranks = er.Ranks.of([1, 9, 1, 9], 9, keys=keys, protocol={"data": "d", "model": "m"})
    (group, _) = Report(ranks).findings.groups["d"]["relation"]
    line = index(er.chance("mrr", [9, 9]))
    assert (group.intervals[0].low, group.intervals[0].high) == (line(0.0), 1.0)


def test_files_without_candidates_can_be_given_them(tmp_path):
    pl.DataFrame({"rank": [1, 2, 5]}).write_csv(tmp_path / "r.csv")
    assert Report(tmp_path / "r.csv", candidates=9).benchmarks[0].candidates == 9
    assert run("report", tmp_path / "r.csv", "--candidates", "9", "--format", "csv", "--level", "0.9")


def test_ranks_without_candidates_have_no_chance_levels(tmp_path):
    keys = {"relation": ["r", "r", "s"]}
    models = {
        name: er.Ranks.of(ranks, keys=keys) for name, ranks in (("a", [1, 2, 5]), ("b", [2, 2, 9]))
    }
    made = Report(models, on="row")
    assert made.findings.value("", "unnamed data", "a") == pytest.approx(17 / 30)
    assert isnan(made.findings.value("index", "unnamed data", "a"))
    rows = made.findings.curves()
    assert {row["model"] for row in rows} == {"a", "b"}
    assert max(row["rank"] for row in rows) == 9
    text = made.save(tmp_path / "r.html").read_text()
    assert "3 targets among an unknown number of candidates; a and b." in text
    assert reload(tmp_path / "r.html").to_json() == made.to_json()


def test_singular_forms(tmp_path):
    keys = {"head": "h", "relation": "r", "tail": "t", "side": "tail"}
    one = er.Ranks.of([1], 1, keys=keys, protocol={"data": "d", "model": "m"})
    text = Report(one).save(tmp_path / "r.html").read_text()
    assert "1 target among 1 candidate; m." in text
    assert "The one relation" in text


def test_weightless_targets_are_not_counted_in_the_protocol(tmp_path):
    weight = np.ones(120)
    weight[:2] = 0
    made = Report(made_up("a", 3, weights=weight))
    assert "118 targets among" in made.save(tmp_path / "r.html").read_text()
    assert made.evaluation.counts == (118,)


def saved(folder, name, ranks):
    ranks.save(folder / name)
    return folder / name


def test_mappings_lists_and_files_can_be_mixed(tmp_path):
    a, b, c = made_up("x", 3), made_up("y", 4), saved(tmp_path, "c.parquet", made_up("c", 5))
    want = Report(a.with_protocol(model="a"), b.with_protocol(model="b"), c).to_json()
    assert Report({"a": a, "b": b}, c).to_json() == want
    assert Report([{"a": a}, {"b": b}, c]).to_json() == want
    assert Report({"a": a, "b": b, "c": c}).to_json() == want
    assert er.report(tmp_path / "r.json", {"a": a, "b": b}, [c]).read_text() == f"{want}\n"
    nameless = er.Ranks.of([1, 2, 2], 3)
    assert list(Report({"m": nameless}).ranks["unnamed data"]) == ["m"]
    page = er.report(tmp_path / "r.html", {"a": a, "b": b})
    with pytest.raises(InputError, match=r"r.html has 2 models, but only one name; got 'z'"):
        Report({"z": page})


def test_wrong_types(tmp_path):
    ranks = made_up("a", 3)
    for path in (5, None, [tmp_path / "r.md"]):
        with pytest.raises(InputError, match="not a path"):
            er.report(path, ranks)
        with pytest.raises(InputError, match="not a path"):
            er.explore(path)
    for given in (5, None, b"x", [3], {"a": 3}, er):
        with pytest.raises(InputError, match="not ranks; got"):
            er.report(tmp_path / "r.md", given)
    for wrong in (
        {"metrics": 5},
        {"metrics": [5]},
        {"ties": 5},
        {"ties": "x"},
        {"graphs": "nations"},
        {"graphs": 5},
        {"graphs": [5]},
        {"level": "x"},
        {"level": None},
        {"on": 5},
        {"on": [5]},
    ):
        with pytest.raises(InputError):
            er.report(tmp_path / "r.md", ranks, made_up("b", 4), **wrong)
    file = tmp_path / "bare.csv"
    pl.DataFrame({"rank": [1, 2, 5]}).write_csv(file)
    for candidates in ("x", [], 2.5, object()):
        with pytest.raises(InputError):
            er.report(tmp_path / "r.md", file, candidates=candidates)
    assert not (tmp_path / "r.md").exists()


def test_one_graph_and_one_metric_need_no_list(ranked):
    graph = er.load("nations")
    made = Report(*ranked, graphs=graph, metrics="hits@3")
    assert made.to_json() == Report(*ranked, graphs=[graph], metrics=["hits@3"]).to_json()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: [], "no ranks to report; pass Ranks or files of ranks"),
        (lambda f: [made_up("a", 3)[:0]], "has no ranks; a report needs at least one target"),
        (lambda f: [er.Ranks.of([1], 3)], "ranks without the name of a model; got Ranks(1 target)"),
        (lambda f: [made_up(" ", 3)], "ranks without the name of a model; got Ranks(120 targets"),
        (
            lambda f: [saved(f, "x.parquet", made_up("a", 3))] * 2,
            "the model a is given twice on made up; got {f}/x.parquet and {f}/x.parquet; leave one out",
        ),
        (
            lambda f: [
                saved(f, "x.parquet", made_up("a", 3)),
                saved(f, "y.parquet", made_up("b", 3, n=90)),
            ],
            "the models whose protocols name the data set made up cannot be compared: the models have "
            "different targets; got 30 only in {f}/x.parquet and 0 only in {f}/y.parquet",
        ),
        (
            lambda f: [made_up("a", 3), er.Ranks([0] * 120, 0, 9, keys=keys(120), protocol=MADE_UP)],
            "in a and 9 in b; rank them with the same protocol",
        ),
        (
            lambda f: [made_up("a", 3), made_up("b", 3, weights=np.ones(120) * 2)],
            "the models have different weights; got a and b",
        ),
        (lambda f: [f / "absent.parquet"], "no such file"),
        (lambda f: [f / "absent.html"], "no such file; got {f}/absent.html"),
    ],
)
def test_errors(make, message, tmp_path):
    with pytest.raises(InputError) as error:
        Report(*make(tmp_path))
    assert message.format(f=tmp_path) in str(error.value)


MADE_UP = {"data": "made up", "model": "b"}


def test_errors_of_metrics_and_paths(full, tmp_path):
    with pytest.raises(InputError, match=r"needs a plain metric \(not .*\); got index\(mrr\)"):
        Report(made_up("a", 3), metrics=["index(mrr)"])
    with pytest.raises(InputError, match=r"got a folder; name a file, e.g. .*report.html"):
        full.save(tmp_path)
    with pytest.raises(
        InputError, match=r"unknown format of a report; got r.docx; allowed: .html, .htm, .json"
    ):
        full.save("r.docx")
    with pytest.raises(InputError, match=r"cannot write .*absent.*; got no folder .*; create it first"):
        full.save(tmp_path / "absent" / "r.html")
    unread = Report(made_up("a", 3))
    with pytest.raises(InputError, match=r"cannot write /proc/r.html; got .*; choose another place"):
        unread.save("/proc/r.html")
    assert "_intervals" not in vars(unread.findings)  # it shows before the work
    with pytest.raises(
        InputError, match=r"unknown format of a chart; got c.gif; allowed: .svg, .png, .pdf"
    ):
        charts.save(full.figures["metrics"], tmp_path / "c.gif")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot create the folder"):
        full.save_figures(tmp_path / "file")
    with pytest.raises(InputError, match="no rows to draw; got none of mrr"):
        charts.panels([], ["mrr"])


def test_pages_that_cannot_be_read_back(full, tmp_path):
    bare = full.save(tmp_path / "bare.html", keep=False)
    assert bare.stat().st_size < 500_000
    with pytest.raises(InputError, match=r"no ranks stored in it; write it again from files, and keep"):
        reload(bare)
    broken = tmp_path / "broken.html"
    whole = full.save(tmp_path / "whole.html").read_text()
    for old, new in (
        ('"parquet":"', '"parquet":"AAAA'),
        ('"parquet"', '"park"'),
        ('"protocol":{', '"protocol":5,"old":{'),
    ):
        text = whole.replace(old, new)
        broken.write_text(text)
        with pytest.raises(InputError, match=r"broken.html(;|:| is)"):
            reload(broken)
    other = tmp_path / "other.html"
    other.write_text("<p>hello")
    with pytest.raises(InputError, match=r"is not a report of evenrank; got a page without ranks"):
        reload(other)


def test_only_png_and_pdf_need_a_library(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    made = Report(made_up("a", 3))
    assert "<svg viewBox" in made.save(tmp_path / "r.html").read_text()
    chart = made.figures["metrics"]
    assert charts.save(chart, tmp_path / "c.svg").read_text().startswith("<svg")
    for name in ("c.png", "c.pdf"):
        with pytest.raises(
            InputError, match=rf"PNG and PDF need vl-convert-python; got {name}; install"
        ):
            charts.save(chart, tmp_path / name)
        assert not (tmp_path / name).exists()


# The shell ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("shell")
    for name, skill in (("a", 3), ("b", 8)):
        made_up(name, skill).save(where / f"{name}.parquet")
    return where


def test_shell_writes_page_tables_and_figures(folder):
    out = [word for ending in ("html", "tex", "md", "json") for word in ("-o", folder / f"r.{ending}")]
    said = run(
        "report", folder / "a.parquet", folder / "b.parquet", *out, "--figures", folder / "figures"
    )
    assert said.count("kB") == 4
    assert "12 charts" in said
    made = Report(folder / "a.parquet", folder / "b.parquet")
    assert (folder / "r.tex").read_text() == f"{made.to_latex()}\n"
    assert reload(folder / "r.html").content() == made.content()
    again = folder / "again.html"
    run("report", folder / "r.html", "-o", again)
    assert again.read_bytes() == (folder / "r.html").read_bytes()


def test_shell_prints_tables(folder):
    made = Report(folder / "a.parquet", folder / "b.parquet", metrics=["mr"], ties="realistic")
    options = ["-m", "mr", "--ties", "realistic"]
    assert (
        run("report", folder / "a.parquet", folder / "b.parquet", "--format", "csv", *options)
        == f"{made.to_csv()}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "FOLDER"], "cannot write FOLDER; got a folder; name a file, e.g. FOLDER/report.html"),
        (["-o", "x.doc"], "unknown format of a report; got x.doc"),
        (["FOLDER/a.parquet"], "the model a is given twice on made up"),
        (["--format", "xml"], "unknown value of --format; got 'xml'; allowed: table"),
    ],
)
def test_shell_errors(folder, arguments, message):
    arguments = [str(argument).replace("FOLDER", str(folder)) for argument in arguments]
    assert message.replace("FOLDER", str(folder)) in run(
        "report", folder / "a.parquet", *arguments, code=2
    )


# The page in a browser ----------------------------------------------------------------------------


@pytest.fixture
def page(browser, page_file):
    opened = browser.page()
    opened.open(page_file)
    yield opened
    assert opened.complaints == []
    assert opened.requests == [page_file.resolve().as_uri()]
    assert opened.run("window.hacked") is None
    opened.close()


def column(page, table, at):
    rows = f"[...document.querySelectorAll('#{table} tbody tr')].filter(row => !row.hidden)"
    return page.run(f"{rows}.map(row => row.cells[{at}].firstChild.textContent)")


def test_page_opens_and_draws(page, full):
    assert page.text("h1") == full.title
    items = page.run("[...document.querySelectorAll('header li')].map(item => item.textContent)")
    assert [item.replace("\u00a0", " ") for item in items] == full.summary
    drawn = "[...document.querySelectorAll('.panels > svg')]"
    sizes = page.run(f"{drawn}.map(s => s.getBoundingClientRect().height)")
    assert len(sizes) == 3 + 2 + 2 + 2
    assert min(sizes) > 100
    font = "getComputedStyle(document.{}).fontFamily"
    assert page.run(font.format("body")) == page.run(font.format("querySelector('.panels text')"))
    points = page.run("document.querySelectorAll('#metrics svg [aria-roledescription=point]').length")
    assert points == 3 * len(full.evaluation.labels)
    assert page.run("document.querySelector('#metrics .panels').getAttribute('aria-label')")
    ordered = [model for benchmark in full.benchmarks for model in full.findings.ordered(benchmark)]
    assert column(page, "results-table", 1) == ordered
    links = "[...document.querySelectorAll('nav a')]"
    assert page.run(f"{links}.map(a => a.textContent)") == page.run(
        f"{links}.map(a => document.querySelector(a.hash + ' > h2').textContent)"
    )
    assert page.run(f"{links}.length") == page.run("document.querySelectorAll('h2').length")


def test_best_values_are_bold(page, full):
    bold = page.run("[...document.querySelectorAll('#results-table td.best b')].map(b => b.textContent)")
    assert figure(max(full.findings.value("", "nations", m) for m in full.ranks["nations"])) in bold
    assert len(bold) >= 2 * len(full.evaluation)


def test_tables_sort_by_keyboard(page, full):
    page.run("document.querySelector('#results-table thead th:nth-child(4) button').focus()")
    values = sorted(full.evaluation["mrr"].tolist())
    state = "document.querySelector('#results-table thead th:nth-child(4)').getAttribute('aria-sort')"
    page.press("Enter")
    assert column(page, "results-table", 3) == [figure(v) for v in reversed(values)]
    assert page.run(state) == "descending"
    page.press(" ")
    assert column(page, "results-table", 3) == [figure(v) for v in values]
    assert page.run(state) == "ascending"
    page.press(
        "Tab", "Tab", "Tab"
    )  # hits@1, hits@10, mr: of which the smallest is best, and comes first
    page.press("Enter")
    assert column(page, "results-table", 6) == [
        figure(v) for v in sorted(full.evaluation["mr"].tolist())
    ]
    page.run("document.querySelector('#results-table thead th:nth-child(2) button').focus()")
    page.press("Enter")
    names = [name for name in column(page, "results-table", 1) if name.isalpha()]
    assert names == ["ComplEx", "RotatE", "TransE"]


def test_undefined_cells_are_sorted_last(browser, tmp_path):
    sizes = np.array([1, 1, 30, 30, 30, 30])
    kinds = {"relation": ["only", "only", "some", "some", "more", "more"]}
    ranks = er.Ranks([0, 0, 3, 5, 0, 1], 0, sizes, keys=kinds, protocol={"data": "d", "model": "m"})
    opened = browser.page()
    opened.open(report(tmp_path / "r.html", ranks))
    opened.run("document.querySelector('#relations details').open = true")
    opened.run("document.querySelector('#by-relation-table thead th:nth-child(5) button').focus()")
    for _ in range(2):
        opened.press("Enter")
        assert column(opened, "by-relation-table", 1)[-1] == "only"
    opened.close()


def test_tables_are_searched_by_keyboard(page, full):
    page.run("document.getElementById('find').focus()")
    page.type("größer")
    shown = column(page, "by-relation-table", 1)
    assert shown == ["größer_als"]
    assert page.run("document.querySelector('#relations details').open")
    assert page.text("#found") == "1 row"
    page.press(*["Backspace"] * 6)
    page.type("nations rotate")
    assert column(page, "results-table", 1) == ["RotatE"]
    assert len(column(page, "by-side-table", 1)) == 2  # of nations; models are its columns
    page.press(*["Backspace"] * 14)
    page.type("rotate")
    assert len(column(page, "by-side-table", 1)) == 4  # left alone
    assert page.text("#found").endswith("rows")
    page.press(*["Backspace"] * 6)
    assert len(column(page, "results-table", 1)) == len(full.evaluation.labels)
    assert page.run("document.getElementById('found').textContent") == ""


def test_everything_is_reached_by_tab(page):
    page.run("document.activeElement.blur()")
    seen = set()
    for _ in range(80):
        page.press("Tab")
        where = "document.activeElement.closest('section')?.id ?? ''"
        seen.add(page.run(f"document.activeElement.tagName + ' ' + ({where})"))
    assert {"A ", "INPUT ", "BUTTON results", "SUMMARY results", "DIV results", "DIV tests"} <= seen


def test_pointing_at_a_mark_tells_what_it_is(page):
    page.run("document.querySelector('#metrics').scrollIntoView({block: 'center'})")
    box = page.run(
        "(() => { const b = document.querySelector('#metrics [aria-roledescription=point]')"
        ".getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    assert re.fullmatch(r"data: nations; value: [\d.]+; model: \w+", page.text("#tip"))
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert page.run("document.getElementById('tip').hidden")


def test_dark_mode_reaches_the_charts(page):
    script = "getComputedStyle(document.querySelector('#metrics svg [aria-roledescription=point]')).fill"
    rgb = [
        f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for c in charts.COLOURS["model-1"]
    ]
    assert page.run(script) == rgb[0]
    page.media(dark=True)
    assert page.run(script) == rgb[1]
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 20, 24)"
    page.media(dark=True, print_=True)  # paper is white
    assert page.run(script) == rgb[0]


def test_print_leaves_out_what_only_a_screen_needs(page):
    page.media(print_=True)
    hidden = "getComputedStyle(document.querySelector('{}')).display"
    assert page.run(hidden.format("nav")) == "none"
    assert page.run("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"
    assert page.run(hidden.format("svg")) == "block"
    page.resize(703, 1000)  # the width of A4 between its margins
    box = "document.getElementById('results-table').{}"
    assert page.run(box.format("scrollWidth")) <= page.run(box.format("parentNode.clientWidth"))
    pdf = page.send("Page.printToPDF", printBackground=False)["data"]
    assert len(pdf) > 50_000


def test_phone_does_not_scroll_sideways(browser, page_file):
    opened = browser.page(390, 844)
    opened.open(page_file)
    assert opened.run("document.documentElement.scrollWidth") <= 390
    opened.close()


def test_screenshots_show_something(page, tmp_path):
    assert len(page.screenshot(Path(tmp_path / "page.png"))) > 20_000


def many(data=("FB15k-237", "WN18RR")):
    """Fourteen models with names of 35 letters."""
    return [
        made_up(f"Relational-Graph-Attention-Netw-{i:03}", 1 + i, data=name, seed=i)
        for name in data
        for i in range(14)
    ]


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory):
    return report(tmp_path_factory.mktemp("wide") / "wide.html", *many())


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_many_models_with_long_names_fit(browser, wide_file, width):
    opened = browser.page(width, 900)
    opened.open(wide_file)
    assert opened.run("document.documentElement.scrollWidth") <= width
    # the first column stays in view when the table scrolls sideways
    for name in ("results-table", "tests-1"):
        box = f"document.getElementById('{name}')"
        opened.run(f"{box}.parentNode.scrollLeft = 1e6")
        left = f"{box}.tBodies[0].rows[2].querySelector('th').getBoundingClientRect().left"
        if width < 1400:
            assert opened.run(f"{box}.parentNode.scrollLeft") > 0
            assert opened.run(f"{left} - {box}.parentNode.getBoundingClientRect().left") <= 1
    texts = "[...document.querySelectorAll('#metrics text')].filter(t => t.textContent === 'WN18RR')"
    assert opened.run(f"{texts}.length") == 3
    tall = "document.querySelector('#results-table tbody tr').getBoundingClientRect().height"
    assert opened.run(tall) < 140
    assert opened.complaints == []
    opened.close()


def test_phone_stacks_charts_and_names_data_sets_below_models(browser, page_file, full):
    opened = browser.page(390, 844)
    opened.open(page_file)
    edges = opened.run(
        "[...document.querySelectorAll('#metrics svg[style]')].map(s => s.getBoundingClientRect().top)"
    )
    assert edges == sorted(set(edges))
    heights = (
        "[...document.querySelectorAll('#metrics .panels text')].map(t => t.getBoundingClientRect())"
    )
    assert opened.run(f"Math.min(...{heights}.map(box => box.height))") > 9  # pixels: legible
    row = "document.querySelector('#results-table tbody tr')"
    assert opened.run(f"getComputedStyle({row}.cells[0]).display") == "none"
    assert opened.run(f"{row}.cells[1].innerText").split("\n") == [
        full.findings.ordered(full.benchmarks[0])[0],
        full.benchmarks[0].data,
    ]
    opened.close()


def test_matrix_shows_every_pair_in_both_orders(page, full):
    duels = full.findings.duels["nations"]
    models = full.findings.ordered(full.benchmarks[0])
    cells = page.run(
        "[...document.querySelectorAll('#tests-1 tbody tr')].map(r => [...r.cells].map("
        "c => [c.className, c.innerText.split('\\n')]))"
    )
    assert [row[0][1][0] for row in cells] == models
    for first, row in zip(models, cells, strict=True):
        for second, (kind, lines) in zip(models, row[1:], strict=True):
            if first == second:
                assert lines == ["–"]
                continue
            pair = duels[first, second]
            values = {m: full.findings.value("", "nations", m) for m in models}
            assert pair.difference == pytest.approx(values[first] - values[second], abs=1e-12)
            winner = pair.better(0.95)
            assert kind == ("undecided" if winner is None else "won" if winner == first else "lost")
            assert float(lines[0]) == pytest.approx(pair.difference, abs=1e-4)
            assert lines[1].startswith({"won": "▲", "lost": "▼"}.get(kind, ""))
            assert (
                page.run(f"document.querySelector('#tests-1 td.{kind}').title").count("corrected p") == 1
            )


def test_copy_buttons_copy_the_tables(page, full):
    page.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    for form in ("latex", "markdown"):
        page.run(f"document.querySelector('[data-copy=as-{form}]').click()")
        status = "document.querySelector('.tools [role=status]')"
        page.run(f"new Promise(done => setTimeout(() => done({status}.textContent), 300))")
        assert page.run(f"{status}.textContent") == "Copied."
        area = f"document.getElementById('as-{form}').value"
        assert page.run(area) == getattr(full, f"to_{form}")()
    page.run("navigator.clipboard.writeText = () => Promise.reject()")  # as where it is not allowed
    page.run("document.querySelector('[data-copy=as-latex]').click()")
    page.run("new Promise(done => setTimeout(done, 300))")
    assert page.run("document.activeElement.id") == "as-latex"
    assert page.run("document.getElementById('as-latex').selectionEnd") == len(full.to_latex())


def test_print_repeats_the_headers_of_tables(browser, wide_file, tmp_path):
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("pdftotext is absent (Debian: poppler-utils)")
    opened = browser.page()
    opened.open(wide_file)
    pdf = opened.send("Page.printToPDF", preferCSSPageSize=True)["data"]
    opened.close()
    (tmp_path / "page.pdf").write_bytes(base64.b64decode(pdf))
    said = subprocess.run(
        [reader, "-layout", tmp_path / "page.pdf", "-"], capture_output=True, check=True
    )
    sheets = said.stdout.decode().split("\f")
    rows = [sheet for sheet in sheets if re.search(r"(FB15k-237|WN18RR) +Relational.* 120 ", sheet)]
    assert len(rows) > 1
    assert all("mr ↓" in sheet for sheet in rows)


def test_random_ranks_are_treated_as_asked_for(ranked, tmp_path):
    ours = ranked[0]
    for chance in ("scorer", "independent"):
        page = tmp_path / f"{chance}.html"
        er.report(page, ours, chance=chance)
        z = Report(page).findings.value("z", ours.protocol.data, ours.protocol.model)
        assert z == pytest.approx(ours.evaluate("z(mrr)", chance=chance)["z(mrr)"], rel=1e-12)
        assert ("Here, z is based on a random scorer" in page.read_text()) == (chance == "scorer")
    with pytest.raises(er.errors.InputError, match="chance"):
        er.report(tmp_path / "r.html", ours, chance="none")
