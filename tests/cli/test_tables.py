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
