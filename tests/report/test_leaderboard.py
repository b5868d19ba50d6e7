"""The leaderboard: its content against the record, and the page itself in a real browser."""

import json
import re

import pytest

from evenrank.cli import main
from evenrank.errors import InputError
from evenrank.published import audit, results
from evenrank.report import leaderboard


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    return leaderboard(tmp_path_factory.mktemp("leaderboard") / "page.html")


@pytest.fixture(scope="module")
def content(page_file):
    text = re.search(
        r'<script type="application/json" id="content">(.*?)</script>', page_file.read_text()
    )
    return json.loads(text[1])


@pytest.fixture
def page(browser, page_file):
    opened = browser.page()
    opened.open(page_file)
    yield opened
    assert opened.complaints == []
    opened.close()


def test_the_page_has_the_whole_record_and_is_small(page_file, content):
    record = results(candidates="any")
    columns, texts = content["columns"], content["texts"]
    assert len(columns["printed"]) == len(record)
    for i, (one, adjusted) in enumerate(zip(record, record.adjust().adjusted, strict=True)):
        assert texts["model"][columns["model"][i]] == one.name
        assert texts["where"][columns["where"][i]] == one.where
        assert columns["printed"][i] == one.printed
        if columns["index"][i] is None:
            assert adjusted.index != adjusted.index  # NaN
        else:
            assert columns["index"][i] == pytest.approx(adjusted.index, rel=1e-5)
    assert page_file.stat().st_size < 1.5e6


def test_every_finding_of_the_audit_is_flagged(content):
    flagged = {content["texts"]["finding"][k] for found in content["columns"]["findings"] for k in found}
    assert flagged == {str(finding) for finding in audit().findings}


def test_only_pages_can_be_written(tmp_path, capsys, monkeypatch):
    with pytest.raises(InputError, match=r"an \.html file; got page\.txt"):
        leaderboard(tmp_path / "page.txt")
    out = tmp_path / "page.html"
    monkeypatch.setattr("sys.argv", ["evenrank", "leaderboard", "-o", str(out), "--format", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(out), "bytes": out.stat().st_size}


def rows(page):
    return page.run(
        "[...document.querySelectorAll('#results tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.innerText))"
    )


def test_searching_and_filtering_by_typing(page, page_file):
    page.run("document.getElementById('text').focus()")
    page.type("tucker")
    shown = rows(page)
    assert shown
    assert all("tucker" in f"{row[0]} {row[-1]}".lower() for row in shown)
    page.open(page_file, "#data=wn18rr&metric=mrr&show=index&best=")
    assert page.text("#title") == "mrr on WN18RR"
    index = [float(row[3]) for row in rows(page) if row[3] != "–"]
    assert index == sorted(index, reverse=True)
    assert len(page.requests) == 2  # the page itself, twice


def test_smaller_values_of_a_rank_come_first(page, page_file):
    page.open(page_file, "#data=fb15k237&metric=mr&show=value&best=")
    assert page.text("#title") == "mr on FB15k-237"
    values = [float(row[1].replace(",", "")) for row in rows(page)]
    assert values == sorted(values)


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_nothing_is_wider_than_the_screen(page, width):
    page.resize(width, 900)
    assert page.run("document.documentElement.scrollWidth") <= width
