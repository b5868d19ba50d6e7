"""Files of rankings in the shell: evaluate, compare, and the list of metrics."""

import json

import numpy as np
import pytest
from shell import called

import evenrank as er
from evenrank import Rankings


def drawn(seed, model, queries=60):
    task = np.random.default_rng(9)
    gains = (task.random((queries, 20)) < 0.15) * task.integers(1, 4, (queries, 20))
    gains[:4] = 0
    scores = np.random.default_rng(seed).normal(size=gains.shape).round(1) + (gains > 0)
    number = np.arange(queries)
    keys = {"query": number, "user": number // 3, "kind": np.where(number % 3, "a", "b")}
    return Rankings.from_scores(scores, gains, keys=keys, protocol={"model": model})


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Two models of the same queries, in the current folder."""
    monkeypatch.chdir(tmp_path)
    found = {"first": drawn(1, "A"), "second": drawn(2, "B")}
    for name, rankings in found.items():
        rankings.save(f"{name}.parquet")
    found["first"].ranks().save("ranks.parquet")
    return found


@pytest.fixture
def shell(monkeypatch):
    """Run the command in this process; return its output, or on failure its one line of error."""

    def run(*words, code=0):
        done, out, err = called(["evenrank", *words], monkeypatch)
        assert (done or 0) == code, err
        assert not (code and out)
        return err.removeprefix("evenrank: ").strip() if code else out

    return run


def test_a_file_of_rankings_is_recognised_and_evaluated(models, shell):
    first = models["first"]
    metrics = "map,ndcg@10,index(map),z(recall@3)"
    (row,) = json.loads(shell("evaluate", "first.parquet", "-m", metrics, "--format", "json"))["rows"]
    expected = first.evaluate("map", "ndcg@10", "index(map)", "z(recall@3)")
    assert row["values"] == expected.to_dict()
    assert row["count"] == 52
    text = shell("evaluate", "first.parquet")
    for part in (
        "map ↑",
        "ndcg@10 ↑",
        "success@10 ↑",
        "index",
        "z",
        "8 queries without answers: left out",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("options", "evaluated"),
    [
        (["--ties", "pessimistic"], lambda r: r.evaluate("map", ties="pessimistic")),
        (["--empty", "zero"], lambda r: r.evaluate("map", empty="zero")),
        (["--average", "kind"], lambda r: r.evaluate("map", average="kind")),
        (
            ["--average", "kind", "--empty", "zero"],
            lambda r: r.evaluate("map", average="kind", empty="zero"),
        ),
        (["--by", "kind"], lambda r: r.by("kind").evaluate("map")),
        (["--by", "kind", "--average", "user"], lambda r: r.by("kind").evaluate("map", average="user")),
        (["--by", "kind", "--empty", "zero"], lambda r: r.by("kind").evaluate("map", empty="zero")),
    ],
)
def test_options_are_those_of_python(models, shell, options, evaluated):
    rows = json.loads(shell("evaluate", "first.parquet", "-m", "map", *options, "--format", "json"))[
        "rows"
    ]
    found = evaluated(models["first"])
    assert [row["values"]["map"] for row in rows] == found.values_by_group[:, 0].tolist()


def test_several_files_are_several_models(models, shell):
    rows = json.loads(shell("evaluate", "first.parquet", "second.parquet", "--format", "json"))["rows"]
    assert [row["rankings"] for row in rows] == ["first", "second"]
    assert rows[1]["values"]["z(map)"] == models["second"].evaluate("z(map)")["z(map)"]
    text = shell("evaluate", "first.parquet", "second.parquet", "--by", "kind", "-m", "map")
    assert "difference" in text
    assert "52 queries of each model" in text
    few = shell("evaluate", "first.parquet", "--by", "kind", "-m", "map", "--min-count", "30")
    assert "1 of 2 groups left out: fewer than 30 queries" in few


def test_folders_and_patterns_are_one_set_of_queries(models, shell):
    both = models["first"] + models["second"]
    (row,) = json.loads(shell("evaluate", "*d.parquet", "-m", "map", "--format", "json"))["rows"]
    assert row["values"]["map"] == models["second"].evaluate("map")["map"]
    names = "[fs]*.parquet"
    (row,) = json.loads(shell("evaluate", names, "-m", "map,auc", "--format", "json"))["rows"]
    assert row["values"] == both.evaluate("map", "auc").to_dict()


def test_text_files_are_recognised_or_named(models, shell, tmp_path):
    some = models["first"][models["first"].answer_counts > 0]
    some.save("some.csv")
    (row,) = json.loads(shell("evaluate", "some.csv", "-m", "map", "--format", "json"))["rows"]
    assert row["values"] == some.evaluate("map").to_dict()
    (tmp_path / "plain.csv").write_text("query,better,equal,candidates\na,0,0,9\na,2,0,9\nb,1,0,9\n")
    assert "hits@10" in shell("evaluate", "plain.csv")
    rankings = ["plain.csv", "--kind", "rankings", "-m", "map"]
    assert "0.6667" in shell("evaluate", *rankings)
    assert "0.6667" in shell("evaluate", *rankings, "--interval", "delta")
    other = shell("compare", "plain.csv", "plain.csv", "--kind", "rankings", code=2)
    assert other.startswith("the same model twice")


def test_intervals_runs_and_comparisons_are_those_of_python(models, shell):
    options = ["--interval", "percentile", "--unit", "user", "--format", "json"]
    made = json.loads(shell("evaluate", "first.parquet", "-m", "map", *options))
    expected = er.intervals(models["first"], "map", method="percentile", unit="user")["map"]
    assert (made["rows"][0]["low"], made["rows"][0]["high"]) == (expected.low, expected.high)
    names = ["first.parquet", "second.parquet"]
    assert "n" in shell("evaluate", *names, "--runs", "-m", "map")
    made = json.loads(shell("compare", *names, "-m", "map,ndcg@10", "--test", "t", "--format", "json"))
    pair = er.compare(models, metrics=["map", "ndcg@10"], test="t").pairs[1]
    assert (made["pairs"][1]["p"], made["pairs"][1]["metric"]) == (pair.p, "ndcg@10")
    assert made["notes"][0] == "8 queries without answers: left out"
    assert "map ↑" in shell("compare", *names)
    latex = shell("compare", *names, "-m", "map,ndcg@10,index(recall@5)", "--format", "latex")
    assert "MAP & nDCG@10 & index(Recall@5)" in latex
    assert "MAP & MRR & nDCG@10 & Recall@10" in shell("evaluate", *names, "--format", "latex")


def test_the_list_of_metrics_has_a_section_for_several_answers(shell):
    text = shell("evaluate", "--list")
    _, _, several = text.partition("Rankings of queries with several answers:")
    for name in ("map_min@10", "r_precision", "ndcg_exp@10", "rbp(0.8)", "err@10", "auc", "hit_rate"):
        assert name in several
    rows = json.loads(shell("evaluate", "--list", "--format", "json"))
    assert {row["of"] for row in rows} == {"targets", "queries"}
    for row in rows:
        er.parse(row["metric"])
        for alias in row["aliases"] if row["of"] == "queries" else ():
            assert str(er.parse(alias)) == row["metric"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate first.parquet -m hits@10", "use success@10 (any answer) or recall@10"),
        ("evaluate first.parquet -m mr", "mr is a metric of single targets"),
        ("evaluate ranks.parquet -m map", "average precision is 1/rank; use mrr"),
        ("evaluate ranks.parquet -m recall@5", "recall@5 is computed from rankings"),
        ("evaluate ranks.parquet --empty zero", "have queries without any; got --empty"),
        ("evaluate first.parquet --chance independent", "queries share no scores"),
        ("evaluate first.parquet --averages", "only ranks of single targets have this option"),
        ("evaluate first.parquet --data nations", "only ranks of single targets have this option"),
        ("evaluate first.parquet --dask local", "only ranks of single targets are counted on a cluster"),
        ("evaluate first.parquet --by zz", "no such key column; got 'zz'; allowed: query, user, kind"),
        ("evaluate first.parquet --ties realistic", "allowed: expected, optimistic, pessimistic"),
        (
            "evaluate first.parquet --interval delta --empty zero",
            "--runs and --interval leave out queries without answers; got --empty",
        ),
        ("evaluate first.parquet --interval delta --unit target", "use query"),
        ("evaluate first.parquet ranks.parquet", "do not mix; got rankings in first.parquet"),
        ("compare first.parquet ranks.parquet", "do not mix; got rankings in first.parquet"),
        ("evaluate . -m map", "which does not say that it is of rankings"),
        ("evaluate [fs]*.parquet --average kind", "--average needs all rankings in memory"),
        ("evaluate first.parquet --kind ranks", "not of ranks of single targets; got first.parquet"),
        ("evaluate first.parquet --kind list", "allowed: ranks, rankings"),
        ("estimate first.parquet", "not of ranks of single targets; got first.parquet"),
        ("compare first.parquet second.parquet -m hits@10", "use success@10"),
        ("evaluate first.parquet -m map@0", "map@k needs a whole number k >= 1"),
    ],
)
@pytest.mark.usefixtures("models")
def test_mistakes_get_one_line(shell, words, message):
    error = shell(*words.split(), code=2)
    assert message in error
    assert "\n" not in error
