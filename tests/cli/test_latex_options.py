"""Options of tables for papers in the shell."""

import pytest
from shell import called
from tex import cells, number

import evenrank as er


@pytest.fixture
def files(nations, tmp_path):
    umls = er.rank(er.models.load("umls/transe"), er.load("umls").task("test"), progress=False)
    paths = {}
    for name, ranks in {**nations, "umls-transe": umls}.items():
        paths[name] = tmp_path / f"{name}.parquet"
        ranks.save(paths[name])
    return paths


@pytest.fixture
def latex(monkeypatch):
    def run(*words):
        code, out, err = called(["evenrank", *words, "--format", "latex"], monkeypatch)
        assert code in (0, None), err
        return out.rstrip("\n")

    return run


def test_files_are_named_by_their_data_sets_and_models(files, latex, nations):
    table = latex("evaluate", *files.values(), "--percent", "hits")
    assert "Results on Nations and UMLS." in table
    assert [row[0] for row in cells(table)] == ["TransE", "RotatE", "ComplEx"]
    assert cells(table)[1][5:] == ["--"] * 4
    want = nations["rotate"].evaluate("mrr", "hits@1", "hits@3", "hits@10")
    hits = [100 * want[f"hits@{k}"] for k in (1, 3, 10)]
    printed = [number(cell) for cell in cells(table)[1][1:5]]
    assert printed == [round(want["mrr"], 3), *(round(value, 1) for value in hits)]


def test_commands_write_what_python_does(files, latex, nations, tmp_path):
    three = list(files.values())[:3]
    metrics = ("-m", "mrr,hits@1")
    made = er.compare(*nations.values(), metrics=["mrr", "hits@1"])
    assert latex("compare", *three, *metrics, "--digits", "2") == made.to_latex(digits=2)
    assert latex("report", *three, *metrics) == er.latex(*nations.values(), metrics=["mrr", "hits@1"])
    one = nations["transe"].evaluate("mrr", "hits@1").to_latex(hits="Hits@k", layout="metrics")
    assert latex("evaluate", three[0], *metrics, "--hits", "Hits@k", "--layout", "metrics") == one
    grouped = latex("evaluate", three[0], "--by", "side", *metrics)
    assert grouped == nations["transe"].by("side").evaluate("mrr", "hits@1").to_latex()
    runs = er.summarize_runs({"TransE": [nations["transe"]], "RotatE": [nations["rotate"]]}, "mrr")
    assert latex("evaluate", *three[:2], "--runs", "-m", "mrr") == runs.to_latex()
    baseline = latex("compare", *three, "--baseline", "transe")
    assert baseline == er.compare(*nations.values(), baseline="TransE").to_latex()


def test_groups_are_sorted_and_filtered_as_in_other_tables(files, latex, nations):
    three = list(files.values())[:3]
    table = latex(
        "evaluate", *three, "--by", "relation", "--sort", "rotate:mrr", "--min-count", 12, "-m", "mrr"
    )
    groups = nations["rotate"].by("relation").evaluate("mrr").sort("mrr").filter(min_count=12)
    assert [row[0] for row in cells(table)] == [label for (label,) in groups.labels]
    assert [number(row[2]) for row in cells(table)] == [round(x, 3) for x in groups["mrr"].tolist()]
    assert "Relation & TransE & RotatE & ComplEx" in table
    every = len(nations["rotate"].by("relation").evaluate("mrr").labels)
    assert f"% {every - len(groups.labels)} of {every} groups left out: fewer than 12 targets" in table
    made = er.evaluate({name: ranks.by("relation") for name, ranks in nations.items()}, "mrr")
    assert cells(made.pivot("model").sort("mrr", "rotate").filter(min_count=12).to_latex()) == cells(
        table
    )


def test_the_options_reach_files(files, monkeypatch, tmp_path):
    out = tmp_path / "table.tex"
    words = [
        "--caption",
        "Mine",
        "--label",
        "tab:x",
        "--name",
        "TransE=Ours",
        "--layout",
        "long",
        "-o",
        out,
    ]
    for command in ("evaluate", "compare", "report"):
        code, _, err = called(["evenrank", command, *list(files.values())[:3], *words], monkeypatch)
        assert code in (0, None), err
        assert r"\caption{Mine." in out.read_text()
        assert r"\label{tab:x}" in out.read_text()
        assert cells(out.read_text())[0][0] == "Ours"


def test_models_of_one_name_are_named_by_their_files(nations, latex, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        nations["transe"].save(tmp_path / folder / "first.parquet")
        nations["transe"].save(tmp_path / folder / "second.parquet")
    first, second = tmp_path / "a" / "first.parquet", tmp_path / "a" / "second.parquet"
    assert [row[0] for row in cells(latex("evaluate", first, second))] == ["first", "second"]
    same = latex("evaluate", first, tmp_path / "b" / "first.parquet")
    assert [row[0] for row in cells(same)] == [
        str(tmp_path / x / "first.parquet").replace("_", r"\_") for x in "ab"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layout", "data"], "--layout is for LaTeX; add --format latex or -o TABLE.tex"),
        (["--name", "a=b"], "--name is for LaTeX; add --format latex or -o TABLE.tex"),
        (
            ["--format", "latex", "--name", "a"],
            "--name must be OLD=NEW; got 'a'; e.g. --name transe=TransE",
        ),
        (
            ["--format", "latex", "--layout", "wide"],
            "unknown value of --layout; got 'wide'; allowed: models, ",
        ),
        (["--format", "latex", "--digits", "12"], "digits must be a whole number from 0 to 9; got 12"),
        (
            ["--format", "latex", "--label", "a b"],
            "a label has letters, digits and signs such as : and - only",
        ),
        (
            ["--format", "latex", "--caption", "{"],
            "the braces or dollar signs of the caption do not match",
        ),
        (
            ["--interval", "delta", "--format", "latex", "--digits", "2"],
            "tables of intervals have a fixed layout; got --digits",
        ),
    ],
)
def test_mistakes_are_one_line(files, words, message, monkeypatch):
    code, out, err = called(["evenrank", "evaluate", files["transe"], *words], monkeypatch)
    assert (code, out) == (2, "")
    assert err.startswith(f"evenrank: {message}")
    assert err.count("\n") == 1
