"""Names that would steer terminals, Markdown or spreadsheets are shown as they are written."""

import csv
import io
import json

import pytest
from shell import called

import evenrank as er
from evenrank._internal.table import as_csv

NASTY = "a\x1b[2J\x9b31m\u202eb\u2028c\nd"


@pytest.fixture
def evaluated(tmp_path):
    keys = {"relation": [NASTY, "=1+1", "![x](http://a.b)", "plain"]}
    protocol = {"model": NASTY, "note": "see www.a.b or [x][y]; [z]: http://a.b"}
    ranks = er.Ranks.of([1, 2, 3, 4], candidates=9, keys=keys, protocol=protocol)
    ranks.save(tmp_path / "r.parquet")
    return ranks.by("relation").evaluate("mr"), tmp_path / "r.parquet"


def hidden(text):
    """Characters of a text that are not printed, line ends aside."""
    return {one for one in text if not one.isprintable()} - {"\n"}


@pytest.mark.parametrize("form", ["text", "to_json", "to_markdown", "to_latex"])
def test_control_characters_of_names_are_shown_as_escapes(form, evaluated):
    text = getattr(evaluated[0], form)()
    assert not hidden(text)
    assert r"\x1b[2J" in text.replace(r"\textbackslash{}", "\\").replace("\\\\", "\\") or "001b" in text


@pytest.mark.parametrize("form", ["table", "json", "markdown", "latex"])
def test_control_characters_of_names_do_not_reach_the_terminal(form, evaluated, monkeypatch):
    words = ["evenrank", "evaluate", evaluated[1], "--by", "relation", "--format", form]
    code, out, err = called(words, monkeypatch)
    assert code == 0
    assert not hidden(out + err)


def test_json_and_csv_keep_names_exactly(evaluated):
    assert json.loads(evaluated[0].to_json())["protocol"]["model"] == NASTY
    read = csv.DictReader(io.StringIO(evaluated[0].to_csv(), newline=""))
    assert {row["relation"] for row in read} == {NASTY, "=1+1", "![x](http://a.b)", "plain"}


def test_markdown_has_no_links_and_images(evaluated):
    text = evaluated[0].to_markdown()
    for link in ("](", "][", "]: ", "http://", "www.a"):
        assert link not in text.replace(r"\]", "?"), link
    assert r"![x\](http\://a.b)" in text


@pytest.mark.parametrize("name", ["=1+1", "+1+1", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_for_spreadsheets_has_no_formulas(name):
    rows = [{"model": name, "=x": -0.5, "share": "-0.5"}]
    assert next(csv.reader(io.StringIO(as_csv(rows), newline=""))) == ["model", "=x", "share"]
    header, row = csv.reader(io.StringIO(as_csv(rows, spreadsheet=True), newline=""))
    assert header == ["model", "'=x", "share"]
    assert row == [f"'{name}", "-0.5", "-0.5"]


def test_the_format_for_spreadsheets(evaluated, monkeypatch, tmp_path):
    words = ["evenrank", "evaluate", evaluated[1], "--by", "relation", "-m", "mr"]
    code, plain, _ = called([*words, "--format", "csv"], monkeypatch)
    assert code == 0
    code, guarded, _ = called([*words, "--format", "spreadsheet"], monkeypatch)
    assert code == 0
    assert guarded == plain.replace("\n=1+1,", "\n'=1+1,")
    assert guarded != plain
    code, _, _ = called([*words, "--format", "spreadsheet", "-o", tmp_path / "t.csv"], monkeypatch)
    assert code == 0
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == guarded
