"""Tables of commands in terminals of several widths."""

import csv
import io
import json

import pytest
from shell import NATIONS, called, run
from transcript import in_terminal

import evenrank as er
from evenrank._internal.terminal import columns_of

COMMANDS = [
    "demo",
    "evaluate transe.parquet",
    "evaluate transe.parquet rotate.parquet complex.parquet -q",
    "evaluate transe.parquet rotate.parquet --by relation -q",
    "evaluate transe.parquet rotate.parquet --by relation,side --sort mrr --min-count 5 -q",
    "evaluate transe.parquet --by relation,side --interval delta",
    "evaluate transe.parquet --averages",
    "evaluate --list",
    "compare transe.parquet rotate.parquet complex.parquet -m mrr,hits@10",
    "report transe.parquet rotate.parquet --format table",
    "estimate sampled.parquet -m mrr,hits@10 --by side",
    "adjust mrr=0.476 hits@10=57.1 --data wn18rr",
    "adjust hoyt2022 -m mrr",
    "baseline wn18rr",
    "chance mrr --data wn18rr --value 0.2",
    "atlas list",
    "atlas show wn18rr",
    "data list",
]


@pytest.fixture(scope="module")
def folder(nations, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    for name, ranks in nations.items():
        ranks.save(folder / f"{name}.parquet")
    sampled = er.load("nations").task("test", candidates=5)
    er.rank(er.models.load(NATIONS), sampled, progress=False).save(folder / "sampled.parquet")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_fit_the_terminal(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        code, out, _ = called(["evenrank", *command.split()], monkeypatch)
        assert code == 0
        assert max(map(columns_of, out.splitlines())) <= width
        assert "----" in out  # still a table


def test_a_terminal_tells_the_width(folder):
    code, lines = in_terminal("evenrank compare transe.parquet rotate.parquet", folder)
    assert code == 0
    assert max(map(len, lines)) <= 80
    assert "left out at 80 columns: wins/ties/losses, effect, p (all: --format csv)" in lines
    assert "data: nations [" in lines[-1]


def test_pipes_and_files_get_every_column(folder, monkeypatch):
    monkeypatch.chdir(folder)
    whole = run("compare", "transe.parquet", "rotate.parquet")
    assert "wins/ties/losses" in whole.splitlines()[5]
    assert "left out" not in whole
    monkeypatch.setenv("COLUMNS", "40")
    code, _, _ = called(
        ["evenrank", "compare", "transe.parquet", "rotate.parquet", "-o", "a.txt"], monkeypatch
    )
    assert code == 0
    table, piped = (folder / "a.txt").read_text().splitlines(), whole.splitlines()
    assert table[:-1] == piped[:-1]
    fingerprint = piped[-1].partition("[")[2]
    assert table[-1].endswith(f"[{fingerprint}")
    assert "correction: holm" in table[-1]


@pytest.mark.parametrize("form", ["json", "csv", "markdown", "latex"])
def test_formats_for_programs_and_papers_leave_nothing_out(form, folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["evenrank", "atlas", "list", "--format", form]
    monkeypatch.setenv("COLUMNS", "40")
    narrow = called(words, monkeypatch)
    monkeypatch.delenv("COLUMNS")
    assert narrow == called(words, monkeypatch)
    if form == "json":
        assert len(json.loads(narrow[1])[0]) == 10
    if form == "csv":
        assert len(next(csv.reader(io.StringIO(narrow[1])))) == 10


def test_verbose_shows_the_whole_protocol(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["evenrank", "evaluate", "transe.parquet", "-m", "mrr", "-q"]
    short = called(words, monkeypatch)[1].splitlines()
    full = called([*words, "--verbose"], monkeypatch)[1].splitlines()
    protocol = er.Ranks.load("transe.parquet").evaluate("mrr").protocol
    assert short[-1] == f"data: nations; model: TransE [{protocol.fingerprint}]"
    assert full[:-1] == short[:-1]
    for name, text in protocol.to_dict().items():
        assert f"{name}: {text}" in full[-1]


def test_wide_letters_align_in_a_terminal(folder):
    keys = {"relation": ["出生地"] * 2 + ["né à"] + ["born in"]}
    er.Ranks.of([1, 3, 2, 1], candidates=9, keys=keys).save(folder / "wide.parquet")
    command = "evenrank evaluate wide.parquet --by relation -m mrr,mr -q"
    _, lines = in_terminal(command, folder, LANG="C.UTF-8", PYTHONUTF8="1")
    at = next(i for i, line in enumerate(lines) if line.startswith("---"))
    assert [columns_of(line) for line in lines[at : at + 4]] == [columns_of(lines[at])] * 4


def test_groups_are_sorted_filtered_and_put_side_by_side_as_in_python(folder, nations, monkeypatch):
    monkeypatch.chdir(folder)
    base = ["evenrank", "evaluate", "-q", "--by", "relation", "-m", "mrr,mr", "--min-count", "5"]
    one = nations["transe"].by("relation").evaluate("mrr", "mr").filter(min_count=5)
    words = [*base, "transe.parquet", "--sort", "mr", "--reverse"]
    assert called(words, monkeypatch)[1] == f"{one.sort('mr', reverse=True)}\n"
    groups = {name: nations[name].by("relation") for name in ("transe", "rotate")}
    both = er.evaluate(groups, "mrr", "mr").pivot("model").filter(min_count=5)
    for option, sort in (
        ("mrr", ("mrr",)),
        ("rotate:mr", ("mr", "rotate")),
        ("difference:mrr", ("mrr", "difference")),
    ):
        words = [*base, "transe.parquet", "rotate.parquet", "--sort", option]
        assert called(words, monkeypatch)[1] == f"{both.sort(*sort)}\n"
        assert called([*words, "--format", "csv"], monkeypatch)[1] == f"{both.sort(*sort).to_csv()}\n"
    files = ["transe.parquet", "rotate.parquet", "complex.parquet"]
    csv_ = called(
        ["evenrank", "evaluate", "-q", *files, "-m", "mrr", "--sort", "mrr", "--format", "csv"],
        monkeypatch,
    )
    assert [line.split(",")[0] for line in csv_[1].splitlines()] == [
        "ranks",
        "complex",
        "rotate",
        "transe",
    ]
    spread = ["--interval", "delta", "--sort", "mrr"]
    made = er.intervals(nations["transe"].by("relation"), "mrr", "mr").filter(min_count=5).sort("mrr")
    assert called([*base, "transe.parquet", *spread], monkeypatch)[1] == f"{made}\n"


def test_several_ranked_models_are_shown_side_by_side():
    text = run(
        "rank",
        "nations/transe",
        "nations/rotate",
        "--data",
        "nations",
        "--by",
        "side",
        "-m",
        "mrr",
        "-q",
    )
    above, _, titles, _, head, tail, *_ = text.splitlines()
    assert titles.split() == ["side", *["mrr", "↑"] * 3]
    assert above.split()[-1] == "difference"
    assert [head.split()[0], tail.split()[0]] == ["head", "tail"]


def test_files_of_different_protocols_in_one_table_are_noted(folder, nations, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph, model = er.load("nations"), er.models.load(NATIONS)
    for name, options in {
        "filtered": {},
        "raw": {"filter": ()},
        "tail": {"sides": "tail"},
    }.items():
        ranks = er.rank(model, graph.task("test", **options), progress=False)
        ranks.save(f"{name}.parquet")
    (tmp_path / "bare.csv").write_text("rank\n1\n2\n")
    differ = "the files differ in filter (train, valid, test; none)"
    for more in ([], ["--chance", "independent"], ["--averages"], ["--by", "relation"]):
        text = run("evaluate", "filtered.parquet", "raw.parquet", "-m", "mrr", *more)
        assert text.count(differ) == 1
    spread = run("evaluate", "filtered.parquet", "raw.parquet", "-m", "mrr", "--interval", "delta")
    assert differ.replace("files", "models") in spread
    paper = run("evaluate", "filtered.parquet", "raw.parquet", "-m", "mrr", "--format", "latex")
    assert f"% {differ}" in paper
    sides = run("evaluate", "filtered.parquet", "tail.parquet", "-m", "mrr")
    assert "the files differ in sides (tail, head; tail)" in sides
    bare = run("evaluate", "filtered.parquet", "bare.csv", "-m", "mrr")
    assert "some of the files record no data, split, sides, filter, candidates" in bare
    alike = run("evaluate", *(str(folder / f"{name}.parquet") for name in ("transe", "rotate")))
    assert "differ" not in alike
    assert "record no" not in alike
    python = er.evaluate({"a": er.Ranks.load("filtered.parquet"), "b": er.Ranks.load("raw.parquet")})
    assert differ.replace("files", "models") in python.notes


@pytest.mark.parametrize("more", [[], ["--by", "relation"], ["--interval", "delta"]])
@pytest.mark.parametrize("key", ["mr", "hits@1", "index(mr)", "mrr"])
def test_the_metric_of_the_order_is_shown_in_every_width(key, more, folder, monkeypatch):
    monkeypatch.chdir(folder)
    metrics = "mrr,hits@10,hits@3,index(mrr),hits@1,index(mr),mr"
    given = ["-m", metrics] if more else []
    words = ["evaluate", "transe.parquet", "rotate.parquet", *more, *given, "--sort", key]
    whole = run(*words)
    assert "left out" not in whole
    monkeypatch.setenv("COLUMNS", "70")
    lines = run(*words).splitlines()
    notes = " ".join(lines[next(i for i, line in enumerate(lines) if "left out at" in line) :])
    left_out = notes.partition("columns: ")[2].partition(" (all")[0].split(", ")
    assert left_out
    assert key not in left_out
    assert key.removeprefix("index") in " ".join(lines[:6])


def test_the_number_of_targets_is_shown_if_it_gives_the_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "60")
    for files in (["transe.parquet"], ["transe.parquet", "rotate.parquet"]):
        text = run("evaluate", *files, "--by", "relation", "--sort", "count", "-m", "mrr")
        rows = [line.split() for line in text.splitlines() if "." in line and "%" not in line]
        counts = [int(row[1]) for row in rows]
        expected = er.Ranks.load("transe.parquet").by("relation").evaluate("mrr").counts
        assert counts == sorted(expected, reverse=True)


def test_models_of_the_order_stay_in_a_narrow_table(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "40")
    files = ["transe.parquet", "rotate.parquet", "complex.parquet"]
    words = ["evaluate", *files, "--by", "relation", "-m", "mrr", "--sort"]
    assert "left out at 40 columns: complex (all" in run(*words, "transe:mrr")
    assert "left out at 40 columns: rotate (all" in run(*words, "complex:mrr")


def test_without_correction_the_p_value_is_shown(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    words = ["compare", "transe.parquet", "rotate.parquet", "complex.parquet"]
    shown = {c: run(*words, "--correction", c).partition("left out at")[::2] for c in ("none", "holm")}
    table, left_out = shown["none"]
    assert " p  " in table
    assert "p corrected" not in table
    assert "p corrected" in left_out
    table, left_out = shown["holm"]
    assert "p corrected" in table
    assert "effect, p" in left_out


def test_models_of_several_data_sets_are_compared_across_them(folder, nations, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = {"data": "other", "content": "0" * 16}
    for name in ("transe", "rotate"):
        nations[name].save(f"{name}.parquet")
        changed = nations[name].protocol.updated(entries)
        nations[name].with_protocol(changed).save(f"{name}-other.parquet")
    words = ["evenrank", "compare", *sorted(path.name for path in tmp_path.iterdir())]
    code, out, err = called(words, monkeypatch)
    assert (code, out) == (2, "")
    assert err == "evenrank: the files are of different data sets; got other, nations; use --across\n"
    assert called([*words, "--across"], monkeypatch)[0] == 0
    assert called([*words, "--mixed"], monkeypatch)[0] == 0
