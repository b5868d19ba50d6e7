"""Reports on rankings of queries with several answers."""

import json
import re

import numpy as np
import pytest
from shell import called

import evenrank as er
from evenrank import Rankings
from evenrank.errors import InputError
from evenrank.report.document import Report


def drawn(seed, model, data="news", queries=80, help_=1.0):
    task = np.random.default_rng(len(data))
    gains = (task.random((queries, 20)) < 0.15) * task.integers(1, 4, (queries, 20))
    gains[:4] = 0
    scores = np.random.default_rng(seed).normal(size=gains.shape).round(1) + help_ * (gains > 0)
    number = np.arange(queries)
    keys = {"query": number, "kind": np.where(number % 3, "a", "b"), "user": number // 2}
    return Rankings.from_scores(scores, gains, keys=keys, protocol={"model": model, "data": data})


@pytest.fixture(scope="module")
def models():
    """Three models on one data set."""
    return [drawn(1, "good", help_=2.0), drawn(2, "fair"), drawn(3, "poor", help_=0.1)]


@pytest.fixture(scope="module")
def report(models):
    """The report on them."""
    return Report(*models)


def test_values_intervals_and_tests_are_those_of_the_statistics(report, models):
    rows = {row["model"]: row for row in report.rows()}
    named = {one.protocol.model: one for one in models}
    for name, rankings in named.items():
        expected = rankings.evaluate("map", "mrr", "ndcg@10", "z(map)")
        assert {metric: rows[name][metric] for metric in expected} == expected.to_dict()
        _, low, high, *_ = er.intervals(rankings, "map")["map"]
        assert (rows[name]["map low"], rows[name]["map high"]) == pytest.approx((low, high))
        assert rows[name]["count"] == (rankings.answer_counts > 0).sum()
    tests = report.content()["tests"]["news"]
    for found, pair in zip(tests, er.compare(named).pairs, strict=True):
        assert (found["p"], found["wins"]) == (pair.p, pair.wins)
    assert report.summary[0].startswith("On news, good is best, with map")


def test_groups_have_their_own_chance_levels(report, models):
    groups = report.content()["groups"]
    assert {row["key"] for row in groups} == {"kind"}
    for row in groups:
        parts = [one[one.keys["kind"] == row["value"]] for one in models]
        assert row["chance(map)"] == pytest.approx(parts[0].evaluate("chance(map)")["chance(map)"])
        for part in parts:
            model = part.protocol.model
            found = er.intervals(part, "index(map)")["index(map)"]
            assert row["index(map)"][model] == pytest.approx(found.value)
            assert row["low of index(map)"][model] == pytest.approx(found.low)
            assert row["high of index(map)"][model] == pytest.approx(found.high)
        assert row["count"] == (parts[0].answer_counts > 0).sum()


def test_the_curves_are_those_of_recall(report, models):
    rows = [row for row in report.findings.curves() if row["model"] == "good"]
    for row in rows:
        assert row["share"] == pytest.approx(
            models[0].evaluate(f"recall@{row['rank']}").to_dict().popitem()[1], abs=1e-5
        )
    chance = {row["rank"]: row["share"] for row in report.findings.curves() if row["model"] == ""}
    assert chance[5] == pytest.approx(er.chance("recall@5", models[0]).mean(), abs=1e-5)


def test_the_page_names_queries_and_can_be_read_again(report, models, tmp_path):
    path = tmp_path / "page.html"
    report.save(path)
    text = re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for words in ("queries", "Recall at k", "Kinds of queries", "over queries"):
        assert words in text
    assert "targets" not in text
    again = Report(path)
    assert json.dumps(again.content()) == json.dumps(report.content())
    more = Report(path, {"new": drawn(9, "x")})
    assert list(more.ranks["news"]) == ["good", "fair", "poor", "new"]
    kept = again.ranks["news"]["fair"]
    assert kept.values("ndcg").tolist() == pytest.approx(models[1].values("ndcg").tolist(), nan_ok=True)


def test_several_data_sets_are_compared(models):
    others = [drawn(s, m, "books", help_=h) for s, m, h in ((4, "good", 2.0), (5, "fair", 1.0))]
    report = Report(*models, *others)
    assert [one.model for one in report.findings.across.average_ranks] == ["good", "fair"]
    assert len(report.tables()[0].rows) == 5


def test_mrr_leads_a_report_as_that_of_the_first_answer(models):
    report = Report(*models, metrics=["mrr", "index(mrr)", "count"])
    assert report.rows()[0]["mrr"] == models[0].evaluate("mrr")["mrr"]
    assert "mrr" in report.html()


def test_tables_for_papers_have_the_usual_metrics(models):
    text = er.latex(*models)
    assert "MAP & MRR & nDCG@10 & Recall@10" in text
    assert r"\textbf" in text


def test_the_shell_writes_reports_on_rankings(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for one in models:
        one.save(f"{one.protocol.model}.parquet")
    names = [f"{one.protocol.model}.parquet" for one in models]
    code, out, _ = called(
        ["evenrank", "report", *names, "-o", "page.html", "-o", "table.csv"], monkeypatch
    )
    assert not code
    assert "page.html" in out
    assert "ndcg@10" in (tmp_path / "table.csv").read_text()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Report(*m, {"r": m[0].ranks()}), "do not mix"),
        (lambda m: Report(*m, chance="independent"), "leave out chance="),
        (lambda m: Report(*m, graphs=er.load("nations")), "no ranks are of this graph"),
        (lambda m: Report(m[0], metrics="hits@10"), "use success@10"),
        (lambda m: Report(m[0].ranks(), metrics="map"), "use mrr"),
        (lambda m: Report(m[0], m[1][:50]), "the models have different queries"),
        (lambda m: Report(m[0], metrics="z(map)"), "add one, such as map or ndcg@10"),
    ],
)
def test_bad_input_gets_one_clear_error(models, call, message):
    with pytest.raises(InputError, match=message):
        call(models)


def test_rankings_without_keys_are_reported_without_tests():
    bare = [Rankings.of([[1, 3], [2]], 9, protocol={"model": m, "data": "x"}) for m in "ab"]
    notes = " ".join(Report(*bare).notes())
    assert "no key columns identify the queries" in notes
    assert Report(*bare, on="row").content()["tests"]["x"]
