"""Significance marks in tables for papers."""

import numpy as np
import pytest
from tex import cells, flat

import evenrank as er
from evenrank.report.document import Report
from evenrank.stats.paper import MOST, daggers


def marked(table):
    """Names of models with a dagger, by column."""
    return [
        [row[0] for row in cells(table) if r"\dagger" in row[i]] for i in range(1, len(cells(table)[0]))
    ]


@pytest.mark.parametrize("metrics", [["mrr"], ["mr", "mrr", "hits@1", "index(mrr)"]])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999999])
def test_daggers_are_where_the_best_model_wins_its_test_against_the_second(nations, metrics, level):
    made = er.compare(nations, metrics=metrics, level=level, samples=500)
    want = []
    for metric in metrics:
        rows = [row for row in made.rows() if row["metric"] == metric]
        values = {row[end]: row[f"{end}_value"] for row in rows for end in ("first", "second")}
        best, second, _ = sorted(values, key=values.get, reverse=metric != "mr")
        (row,) = (row for row in rows if {row["first"], row["second"]} == {best, second})
        want.append([best] if row["p_corrected"] <= 1 - level else [])
    names = {"TransE": "transe", "RotatE": "rotate", "ComplEx": "complex"}
    assert [[names[name] for name in column] for column in marked(made.to_latex())] == want
    if level == 0.9999999:
        assert not any(want)
        assert "No best values are significantly better than the second best (paired" in flat(
            made.to_latex()
        )


def test_with_a_baseline_every_better_model_has_a_dagger(nations):
    made = er.compare(nations, metrics=["mrr", "hits@10"], baseline="rotate", test="t", correction="bh")
    better = [
        [p.first for p in made.pairs if str(p.metric) == m and p.better(0.95) == p.first]
        for m in made.values.evaluation
    ]
    assert [[name.lower() for name in column] for column in marked(made.to_latex())] == better
    assert better[0] == ["complex"]
    note = "values that are significantly better than those of RotatE (paired t-test over triples "
    assert f"A dagger ($^\\dagger$) marks {note}crossed with queries, Benjamini-Hochberg" in flat(
        made.to_latex()
    )


def test_equal_models_have_no_dagger(nations):
    made = er.compare(a=nations["transe"], b=nations["complex"], c=nations["complex"])
    assert daggers(made) == set()
    assert "% b and c have the same ranks" in made.to_latex()
    assert [row[1] for row in cells(made.to_latex())] == [r"\underline{0.522}", *[r"\textbf{0.771}"] * 2]


def test_a_second_best_pair_must_lose_on_both():
    """The best is compared with every model that is second best."""
    rng = np.random.default_rng(0)
    first = rng.integers(1, 30, 400)
    keys = {
        "head": [f"h{i}" for i in range(400)],
        "relation": ["r"] * 400,
        "tail": ["t"] * 400,
        "side": ["tail"] * 400,
    }
    best, second = (er.Ranks.of(ranks, candidates=99, keys=keys) for ranks in (first, first + 20))
    made = er.compare(best=best, b=second, c=second[np.arange(400)])
    assert {model for model, _ in daggers(made)} == {"best"}


def test_tests_are_a_table_of_their_own(nations):
    made = er.compare(nations, metrics=["mrr", "hits@1"])
    _, tests = made.to_latex(digits=4).split("\n\n")
    rows = cells(tests)
    assert len(rows) == len(made.pairs) == 6
    assert [row[0] for row in rows] == ["MRR", "", "", "H@1", "", ""]
    for row, pair in zip(rows, made.pairs, strict=True):
        assert float(row[3].strip("$")) == round(pair.difference, 4)
        assert [float(x) for x in row[4].strip("{[]}").replace("$", "").split(", ")] == [
            round(pair.low, 4),
            round(pair.high, 4),
        ]
        assert row[5] == (f"{pair.p_corrected:.3f}" if pair.p_corrected >= 0.001 else "$<0.001$")


def test_differences_are_printed_as_their_metrics(nations):
    made = er.compare(nations, metrics=["hits@1", "mr"], baseline="rotate")
    _, tests = made.to_latex(percent="hits").split("\n\n")
    pairs = {(pair.first, str(pair.metric)): pair for pair in made.pairs}
    rows = cells(tests)
    assert float(rows[0][3].strip("$")) == round(100 * pairs["transe", "hits@1"].difference, 1)
    assert float(rows[3][3].strip("$")) == round(pairs["complex", "mr"].difference, 3)
    assert "H@1 in percent." in flat(tests)


def test_a_report_marks_its_first_metric_and_leaves_out_tests_that_fill_more_than_a_page(nations):
    umls = {
        kind: er.rank(er.models.load(f"umls/{kind}"), er.load("umls").task("test"), progress=False)
        for kind in ("transe", "rotate")
    }
    table, tests = Report(nations, umls, metrics=["hits@1", "mrr"]).to_latex(layout="long").split("\n\n")
    assert "marks best H@1 values that are significantly better" in flat(table)
    assert "Holm-corrected within each data set" in flat(table)
    dagger = [[r"\dagger" in cell for cell in row[2:]] for row in cells(table)]
    assert dagger == [[False] * 2, [False] * 2, [True, False], [False] * 2, [True, False]]
    assert [row[0] for row in cells(tests)] == ["Nations", "", "", "UMLS"]
    many = {f"m{i}": nations["transe"] for i in range(9)}
    assert MOST < 9 * 8 / 2
    assert "\n\n" not in Report(many, metrics="mrr").to_latex()


def test_untested_ranks_have_no_note():
    ranks = {name: er.Ranks.of([1, 2, i], candidates=9) for i, name in enumerate("ab", 1)}
    assert "signif" not in Report(ranks, metrics="mrr").to_latex()
