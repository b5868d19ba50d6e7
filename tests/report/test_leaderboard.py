"""The leaderboard: its content against the record, and the page itself in a real browser."""

import json
import re

import pytest

from evenrank.cli import main
from evenrank.errors import InputError
from evenrank.published import ModelName, audit, results
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
        assert content["links"][columns["where"][i]] == one.link != ""
        assert bool(columns["approximate"][i]) == adjusted.approximate
        if columns["index"][i] is None:
            assert adjusted.index != adjusted.index  # NaN
        else:
            assert columns["index"][i] == pytest.approx(adjusted.index, rel=1e-5)
    assert page_file.stat().st_size < 1.5e6


def test_every_finding_of_the_audit_is_flagged(content):
    flagged = {
        content["texts"]["findings"][k] for found in content["columns"]["findings"] for k in found
    }
    found = audit().findings
    assert flagged == {str(finding) for finding in found}
    kinds = dict(zip(content["texts"]["findings"], content["kinds"], strict=True))
    assert kinds == {str(finding): finding.kind for finding in found}


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


def test_the_years_are_those_of_the_results(page, page_file):
    page.open(page_file, "#data=countries-s1&metric=mrr")
    (year,) = {row[5] for row in rows(page)}
    assert f"results of {year}; " in page.text("#years-say")
    page.open(page_file, "#data=wn18rr&metric=mrr")
    assert "results from 2016 to 2" in page.text("#years-say")


USUAL = {"split": "test", "sides": "both", "filter": "all"}


def links(page, selector):
    return page.run(f"[...document.querySelectorAll('{selector}')].map(a => a.getAttribute('href'))")


def test_every_number_links_to_its_source(page, page_file):
    page.open(page_file, "#data=wn18rr&metric=mrr&best=")
    page.run("document.getElementById('more').click()")
    want = [one.link for one in results(data="wn18rr", metric="mrr", **USUAL)]
    assert sorted(links(page, "#results tbody td:nth-child(2) a")) == sorted(want)
    assert sorted(links(page, "#results details a")) == sorted(want)
    assert len(links(page, "#years a")) == len(want)
    cells = "[...document.querySelectorAll('#matrix tbody td:not(:last-child)')]"
    numbers = page.run(f"{cells}.filter(cell => cell.innerText).length")
    assert numbers == len(links(page, "#matrix a")) > 50
    # the documentation shows the page in a frame, in which other sites do not open
    assert page.run("[...document.querySelectorAll('main a')].every(a => a.getAttribute('target'))")


def test_a_protocol_is_selected_and_others_are_not_mixed_with_it(page, page_file):
    page.open(page_file, "#data=wn18rr&metric=mrr&best=")
    assert page.text("#says").startswith(f"{len(results(data='wn18rr', metric='mrr', **USUAL))} results")
    raw = len(results(data="wn18rr", metric="mrr", split="test", sides="both", filter=None))
    page.run("document.getElementById('protocol').focus()")
    page.type("test, both sides, raw")
    assert page.run("document.getElementById('protocol').value") == "test, both sides, raw"
    assert page.text("#says").startswith(f"{raw} results")
    page.open(page_file, "#data=wn18rr&metric=mrr&best=&protocol=any")
    assert page.text("#says").startswith(f"{len(results(data='wn18rr', metric='mrr'))} results")


def test_a_data_set_of_sampled_negatives_offers_them_beside_their_chance_level(page, page_file):
    page.open(page_file, "#data=fb237-v1-ind")
    assert page.text("#says").startswith("0 of 0 results")
    page.run("document.getElementById('instead').focus()")
    page.press("Enter")
    assert page.text("#title") == "hits@10 on FB15k-237 v1 (inference graph)"
    shown = rows(page)
    assert [row[0] for row in shown] == ["NodePiece (CompGCN)", "NBFNet"]
    assert {row[2] for row in shown} == {f"{10 / 51:.4f}"}
    assert page.run("document.getElementById('instead').hidden")


def test_quoted_approximate_and_doubtful_values_are_marked(page, page_file):
    page.open(page_file, "#data=wn18rr&metric=hits@10&best=&text=conve")
    sources = [row[-1] for row in rows(page)]
    assert any("quoted ≠" in text for text in sources)
    assert any(
        "⚑" in row[-1] and row[0] == "ComplEx-N3 (rank 8)" for row in everything(page, "wn18rr", "mrr")
    )
    assert all(row[2].startswith("≈ ") for row in everything(page, "yago310", "mrr"))
    assert not any(row[2].startswith("≈") for row in everything(page, "wn18rr", "mrr"))


def everything(page, data, metric):
    page.run(
        f"fill({{ text: '', data: '{data}', metric: '{metric}' }}); changed(); byId('more').click()"
    )
    return rows(page)


def test_the_matrix_has_the_best_value_of_each_model_and_data_set(page):
    header = page.run("[...document.querySelectorAll('#matrix thead th')].map(cell => cell.innerText)")
    cells = page.run(
        "[...document.querySelectorAll('#matrix tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.innerText))"
    )
    best = {}
    for row in results(metric="mrr", **USUAL).adjust().rows():
        place = row["data"], str(ModelName(row["model"], row["variant"]))
        if row["index"] == row["index"]:
            best[place] = max(best.get(place, -1.0), row["index"])
    for title, data in (("WN18RR", "wn18rr"), ("FB15k-237", "fb15k237"), ("Kinships", "kinships")):
        column = header.index(title)
        for row in cells:
            want = best.get((data, row[0]))
            assert row[column] == ("" if want is None else f"{want:.4f}")


def test_the_keyboard_reaches_and_opens_a_source(page):
    page.run("document.getElementById('text').focus()")
    page.type("simkgc")
    page.run("document.querySelector('#results summary').focus()")
    page.press("Enter")
    assert page.run("document.querySelector('#results details').open")
    page.press("Tab")
    assert page.run("document.activeElement.href").startswith("https://github.com/intfloat/SimKGC/blob/")


def test_on_paper_nothing_is_cut_off(page):
    page.media(print_=True)
    assert "2019" in page.text("#results tbody tr:first-child td:last-child")
    cut = (
        "[...document.querySelectorAll('.scroll')].some(one => one.scrollHeight > one.clientHeight + 1)"
    )
    assert not page.run(cut)


def test_smaller_values_of_a_rank_come_first(page, page_file):
    page.open(page_file, "#data=fb15k237&metric=mr&show=value&best=")
    assert page.text("#title") == "mr on FB15k-237"
    values = [float(row[1].replace(",", "")) for row in rows(page)]
    assert values == sorted(values)


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_nothing_is_wider_than_the_screen(page, width):
    page.resize(width, 900)
    assert page.run("document.documentElement.scrollWidth") <= width
    table = "document.getElementById('results')"
    assert page.run(f"{table}.scrollWidth - {table}.parentNode.clientWidth") <= 0
