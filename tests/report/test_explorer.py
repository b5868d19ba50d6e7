"""The explorer: its figures against the library's, and the page itself in a real browser."""

import json
import math
import random
import re
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import shared
from browser import executable

import evenrank as er
from evenrank._internal.table import figure
from evenrank.cli import main
from evenrank.errors import InputError
from evenrank.graphs import atlas
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.chance import read_sizes
from evenrank.metrics.grammar import parse
from evenrank.published import Candidates, PublishedValue, Setting
from evenrank.ranks.evaluation import bare
from evenrank.report import explore, explorer, templates
from evenrank.report.explorer import METRICS, SIZES, TASKS

FORMS = ("value", "index", "z", "ratio")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """The page as everyone gets it: without data sets of one's own."""
    folder = tmp_path_factory.mktemp("explorer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENRANK_ATLAS", str(folder))
        return explore(folder / "explorer.html")


@pytest.fixture(scope="module")
def content(page_file):
    return content_of(page_file)


def content_of(path):
    found = re.search(r'<script type="application/json" id="atlas">(.*?)</script>', path.read_text())
    return json.loads(found[1])


@pytest.fixture
def page(browser, page_file):
    opened = browser.page()
    opened.open(page_file)
    yield opened
    assert opened.complaints == []
    opened.close()


def rows_of(content):
    """Every data set asked in every way, with what the page has for it."""
    for data in content["data"]:
        for key, at in data.get("levels", {}).items():
            sides, known, unseen, split = key.split(" ", 3)
            asked = {"split": split, "sides": sides, "unseen": unseen}
            yield (
                data["name"],
                asked | {"filter": None if known == "none" else known},
                content["levels"][at],
            )


# What the page holds ------------------------------------------------------------------------------


def test_page_is_one_small_file_without_requests(page_file):
    text = page_file.read_text()
    assert page_file.stat().st_size < 1_600_000
    assert "{{" not in text
    code = text.replace(re.search(r'id="atlas">(.*?)</script>', text)[1], "")
    assert not re.search(r'(src|href)="(?!data:)', code)
    assert re.findall(r"https?://[^\s\"]+", code) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in code


def test_page_has_every_data_set_asked_in_every_way(content):
    counted_sets = [data for data in content["data"] if "levels" in data]
    assert [data["name"] for data in counted_sets] == atlas.names()
    for data in counted_sets:
        asked = {"keep": 0, "drop": 0}
        for unseen in asked:
            counted = atlas.splits(data["name"], unseen=unseen)
            asked[unseen] = len([split for split in counted if split != "train"] or counted)
        assert len(data["levels"]) == sum(asked.values()) * 3 * 2
        assert data["title"]
    assert len(content["levels"]) < 0.75 * sum(len(data["levels"]) for data in counted_sets)  # shared
    assert [metric["name"] for metric in content["metrics"]] == list(METRICS)


def test_textbook_formulas_agree_on_every_row(content):
    at = {metric["name"]: i for i, metric in enumerate(content["metrics"])}
    for name, asked, null in rows_of(content):
        sizes = er.atlas(name, **asked)
        size, count = sizes["candidates"].astype(float), sizes.counts
        n = count.sum()
        grown = {  # variances of a random scorer are larger
            metric: er.chance(metric, sizes).std() / (alone or 1.0)
            for metric in ("mr", "hits@1", "hits@3", "hits@10", "hits@100")
            for alone in [er.chance(metric, sizes, chance="independent").std()]
        }
        assert (null["tasks"], null["low"], null["high"]) == (n, size.min(), size.max())
        assert null["mean"] == pytest.approx((size * count).sum() / n, rel=1e-14)
        expected = {"mr": ((size + 1) / 2, (size**2 - 1) / 12, size)}
        for k in (1, 3, 10, 100):
            p = np.minimum(1, k / size)
            expected[f"hits@{k}"] = (p, p * (1 - p), size <= k)
        for metric, (mean, variance, worst) in expected.items():
            std = np.sqrt((variance * count).sum()) / n * grown[metric]
            numbers = ((mean * count).sum() / n, std)
            last = (worst * count).sum() / n
            assert null["chance"][at[metric]] == pytest.approx((*numbers, last), rel=1e-12, abs=1e-300)


def test_null_distributions_are_bitwise_those_of_the_library(content):
    draw = random.Random(5)
    rows = list(rows_of(content))
    for name, asked, null in draw.sample(rows, 40):
        for metric, chance in draw.sample(list(zip(METRICS, null["chance"], strict=True)), 4):
            null = er.chance(metric, er.atlas(name, **asked))
            assert chance[:2] == [float(null.mean()), float(null.std())]


def test_metrics_know_their_best_value_and_direction(content):
    for metric in content["metrics"]:
        expression = parse(metric["name"])
        assert (metric["best"], metric["increasing"]) == (expression.best, expression.increasing)
        assert metric["percent"] == (expression.range[1] <= 1)


def rows_in(content):
    """The published results, decoded."""
    texts, columns = content["published"]["texts"], content["published"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for name in set(texts) - {"findings"}:
        for row in rows:
            row[name] = texts[name][row[name]]
    for row in rows:
        row["findings"] = [texts["findings"][i] for i in row["findings"]]
    return rows


def of_paper(content):
    return [row for row in rows_in(content) if row["source"] == "Hoyt et al. 2022"]


def test_the_papers_results_are_included(content):
    rows = of_paper(content)
    assert len({row["run"] for row in rows}) == len({(row["data"], row["model"]) for row in rows}) == 16
    protocol = {tuple(row[name] for name in ("sides", "filter", "unseen", "split")) for row in rows}
    assert protocol == {("both", "all", "drop", "test")}
    by = {
        (r.setting.data, r.model, str(r.given.metric)): r.value
        for r in er.published.adjust_table("hoyt2022").results
    }
    for row in rows:
        assert float(row["printed"]) == by[row["data"], row["model"], row["metric"]]


@shared.needs("paper/case_study_results.tsv")
def test_paper_agrees_with_its_own_table(content):
    columns = {
        "mrr": "inverse_harmonic_mean_rank",
        "hits@10": "hits_at_10",
        "mr": "arithmetic_mean_rank",
    }
    table = shared.table("paper/case_study_results.tsv").to_dicts()
    theirs = {(row["dataset"], row["model"]): row for row in table}
    rows = [row for row in of_paper(content) if row["metric"] in columns]
    assert len(rows) == 48
    for row in rows:
        line = theirs[row["data"], row["model"].lower()]
        assert float(row["printed"]) == pytest.approx(line[columns[row["metric"]]], rel=1e-12)


@pytest.fixture(scope="module")
def record(page_file):
    """The values of the record that are on the page, in its order."""
    found = er.published.results(candidates="any")
    return replace(found, values=tuple(one for one in found if one.metric in METRICS))


def test_the_whole_record_is_on_the_page(content, record):
    names = ("data", "metric", "printed", "split", "sides", "filter", "candidates", "where", "run")
    shown = [tuple(row[name] for name in names) for row in rows_in(content)]
    assert shown[: len(record)] == [tuple(getattr(one, name) for name in names) for one in record]
    assert len(shown) == len(record) + len(of_paper(content))
    assert len(record) > 6300


def test_stored_content_is_up_to_date(content):
    stored = templates.stored()
    assert stored is not None, "make atlas writes it"
    found = templates.findings_by_row(tuple(er.published.results(candidates="any")))
    assert {
        row: [templates.Found(*one) for one in several] for row, several in stored["findings"]
    } == found
    assert [row["findings"] for row in rows_in(content) if row["findings"]] == [
        [one.text for one in found[row]] for row in sorted(found)
    ]


def test_values_of_ones_own_record_are_audited(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENRANK_RECORD", str(tmp_path))
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    rows = [
        {"data": "nations", "model": "Mine", "metric": name, "printed": value, "source": "me", "run": 1}
        for name, value in (("hits@1", "0.8"), ("mrr", "0.5"))
    ]
    er.published.add(rows)
    own = [row for row in rows_in(content_of(explore(tmp_path / "page.html"))) if row["source"] == "me"]
    assert [row["printed"] for row in own] == ["0.8", "0.5"]
    assert all("hits@1 <= mrr" in text for row in own for text in row["findings"])
    assert all(row["findings"] for row in own)


@pytest.mark.parametrize("write", [explore, er.leaderboard])
def test_decimal_commas_of_ones_own_record_are_read(tmp_path, monkeypatch, browser, write):
    monkeypatch.setenv("EVENRANK_RECORD", str(tmp_path))
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    values = {"mrr": "0,478", "hits@10": "57,1 %", "mr": "12,345.6", "gmr": "1,234,567"}
    row = {"data": "wn18rr", "model": "Mine", "source": "me"}
    er.published.add([row | {"metric": name, "printed": value} for name, value in values.items()])
    opened = browser.page()
    opened.open(write(tmp_path / "page.html"))
    listed = "published" if write is explore else "rows"
    got = opened.run(
        f"{listed}.filter(row => row.model === 'Mine').map(row => [numberOf(row), shown(row)])"
    )
    assert got == [
        [0.478, "0,478"],
        [57.1, "57,1 %"],
        [12345.6, "12,345.6"],
        [1234567, figure(1234567.0)],
    ]
    assert opened.run(f"{listed}.every(row => Number.isFinite(row.value ?? numberOf(row)))")
    opened.close()


def test_sweep_is_exact(content):
    sweep = content["sweep"]
    assert (tuple(sweep["tasks"]), sweep["sizes"]) == (TASKS, SIZES)
    draw = random.Random(7)
    for _ in range(60):
        n, size, metric = draw.choice(TASKS), draw.choice(SIZES), draw.choice(METRICS)
        null = er.chance(metric, [size], counts=[n])
        shown = sweep["chance"][TASKS.index(n)][METRICS.index(metric)][SIZES.index(size)]
        assert shown == [float(null.mean()), float(null.std())]


@shared.needs("paper/candidate_size_sweep.tsv")
def test_sweep_goes_through_the_papers(content):
    names = {"arithmetic_mean_rank": "mr", "hits_at_1": "hits@1", "hits_at_10": "hits@10"}
    names["hits_at_100"] = "hits@100"
    met = 0
    for row in shared.table("paper/candidate_size_sweep.tsv").iter_rows(named=True):
        name = names.get(row["metric"])
        if row["inverted"] and row["metric"] == "arithmetic_mean_rank":
            name = None
        if name and row["candidate"] in SIZES:
            curve = content["sweep"]["chance"][0][METRICS.index(name)]
            assert curve[SIZES.index(row["candidate"])][0] == pytest.approx(row["expectation"], rel=1e-9)
            met += 1
    assert met > 30


def test_reason_for_a_missing_null_distribution(tmp_path, monkeypatch, browser):
    monkeypatch.setattr(explorer, "names", lambda: ["nations"])
    monkeypatch.setattr(explorer, "TASKS", (1,))

    def refuse(null):
        if str(null.metric) == "mr":
            raise er.errors.NullDistributionError("no exact null distribution", do="ask another")
        return 0.5, 0.25

    monkeypatch.setattr(explorer, "moments", refuse)
    path = explore(tmp_path / "one.html", "mrr", "mr")
    found = content_of(path)
    assert {null["chance"][1] for null in found["levels"]} == {"no exact null distribution; ask another"}
    assert found["sweep"]["chance"][0][1] == [None] * len(SIZES)
    page = browser.page()
    page.open(path, "#data=nations&metric=mr&x=3")
    assert page.text("#note") == "no exact null distribution; ask another"
    assert set(shown(page).values()) == {"–"}
    assert page.text("#published-says").startswith("5 values of mr on Nations")
    assert page.complaints == []
    page.close()


def test_user_data_sets_are_on_the_page(tmp_path, monkeypatch, browser):
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    splits = {"train": [[0, 0, 1], [0, 0, 2], [1, 0, 2]], "test": [[2, 0, 1]], "held out": [[2, 0, 0]]}
    graph = er.Graph.of(splits)
    name = "</script><b>mine"
    atlas.add([atlas.build(graph, name)])
    path = explore(tmp_path / "mine.html", "mrr")
    found = {data["name"]: data for data in content_of(path)["data"]}[name]
    sizes = er.atlas(name)
    null = content_of(path)["levels"][found["levels"]["both all keep test"]]
    assert null["chance"][0][:2] == [
        float(er.chance("mrr", sizes).mean()),
        float(er.chance("mrr", sizes).std()),
    ]
    page = browser.page()
    page.open(path, "#data=%3C%2Fscript%3E%3Cb%3Emine&x=0.9")
    assert page.text("#asked").startswith(f"mrr on {name}")
    assert page.text("#as-value dd") == "0.9000"
    assert page.run("document.querySelector('b')") is None
    page.run("document.querySelector('input[name=split][value=\"held out\"]').click()")
    assert " · held out · " in page.text("#asked")
    assert shown(page) == expected("mrr", "value", 0.9, data=name, split="held out")
    assert page.complaints == []
    page.close()


@pytest.mark.parametrize(
    ("name", "metrics", "message"),
    [
        ("page.txt", (), "the explorer is an .html file; got page.txt"),
        ("absent/page.html", ("mrr",), "cannot write"),
        ("page.html", ("std",), "std cannot be adjusted"),
        ("page.html", ("nonsense",), "nonsense"),
    ],
)
def test_pages_that_cannot_be_written_raise(tmp_path, monkeypatch, name, metrics, message):
    monkeypatch.setattr(explorer, "names", lambda: ["nations"])
    with pytest.raises(er.errors.EvenrankError, match=re.escape(message)):
        explore(tmp_path / name, *metrics)
    assert list(tmp_path.iterdir()) == []


def test_shell_writes_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(explorer, "names", lambda: ["nations"])
    out = tmp_path / "page.html"
    monkeypatch.setattr("sys.argv", ["evenrank", "explore", "-o", str(out), "-m", "mrr"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"{out}: ")
    assert [metric["name"] for metric in content_of(out)["metrics"]] == ["mrr"]
    monkeypatch.setattr(
        "sys.argv", ["evenrank", "explore", "-o", str(out), "-m", "mrr", "--format", "json"]
    )
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out) == {"file": str(out), "bytes": out.stat().st_size}


# The page in a browser ----------------------------------------------------------------------------


def fragment(**state):
    state = {"data": "wn18rr", "metric": "mrr"} | state
    return "#" + "&".join(f"{name}={value}".replace("@", "%40") for name, value in state.items())


def shown(page):
    return {form: page.text(f"#as-{form} dd") for form in FORMS}


def expected(metric, have, value, **asked):
    """Values of the library, formatted as in its tables."""
    name = metric if have == "value" else f"{have}({metric})"
    result = er.adjust({name: value}, **asked)
    values = {"value": result[metric]} | {form: result[f"{form}({metric})"] for form in FORMS[1:]}
    return {form: "+" * (form == "z" and x > 0) + figure(x) for form, x in values.items()}


def cells(page, table):
    """The body of a table, as shown."""
    rows = f"[...document.querySelectorAll('{table} tbody tr')]"
    return page.run(f"{rows}.map(row => [...row.cells].map(cell => cell.innerText))")


def enter(page, text):
    """Replace the content of the field."""
    page.run("document.getElementById('x').select(), document.getElementById('x').focus()")
    page.press("Backspace")
    page.type(text)


def test_without_a_browser_these_tests_skip_unless_one_is_needed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("EVENRANK_BROWSER", raising=False)
    monkeypatch.delenv("EVENRANK_NEED_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="Chromium is absent"):
        executable()
    monkeypatch.setenv("EVENRANK_NEED_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="Chromium is absent"):
        executable()


def test_opens_without_messages_or_requests(page, page_file):
    assert page.requests == [page_file.resolve().as_uri()]
    assert shown(page) == expected("hits@10", "value", 0.97, data="nations")
    index = er.adjust({"hits@10": 0.97}, data="nations")["index(hits@10)"]
    assert page.text("#meaning").startswith(f"0.9700 is {index:.1%} of the way".replace("%", " %"))
    assert page.run("document.title") == "evenrank explorer"


def test_writes_numbers_as_the_library_does(page):
    draw = random.Random(1)
    values = [draw.choice((-1, 1)) * 10 ** draw.uniform(-14, 14) for _ in range(20_000)]
    # exact halves of the last digit, where rounding rules differ
    values += [
        m + odd / 2**bits for bits in range(1, 7) for odd in range(1, 64, 2) for m in (0, 1, 12, 345)
    ]
    values += [1000 + n / 2 for n in range(40)] + [1e9 + n * 5e6 for n in range(40)]
    values += [base * 10.0**power for base in (9.995, 9.9995, 9.9985, 99.95) for power in range(-6, 12)]
    values += [
        0.0,
        -0.0,
        1.0,
        0.001,
        1000.0,
        999.95,
        99.995,
        9.9995,
        0.99995,
        1e9,
        math.nextafter(1e9, 0),
    ]
    values += [float(f"{k}e{e}") for k in (1, 2, 5, 9, 125, 375) for e in range(-9, 12)]
    got = page.run(f"{json.dumps(values)}.map(figure)")
    assert got[: len(values)] == [figure(x) for x in values]
    assert page.run(
        "[Object.is(figure(-0), '-0.0000'), figure(NaN), signed(2), signed(-2), signed(0)]"
    ) == [
        *(figure(-0.0) == "-0.0000", "–", "+2.000", "-2.000", "0.0000"),
    ]


CASES = [
    ({}, "mrr", "value", "0.476"),
    ({"data": "wn18rr", "unseen": "drop"}, "hits@10", "value", "57.1"),
    ({"data": "fb15k237"}, "mr", "value", "150.8994598388672"),
    ({"data": "fb15k237", "sides": "head"}, "gmr", "value", "12.67"),
    ({"data": "nations", "unseen": "drop"}, "mrr", "value", "0.81"),
    ({"data": "nations"}, "hits@10", "value", "0.8"),
    ({"data": "kinships", "filter": "none"}, "hits@3", "value", "0.0"),
    ({"data": "umls", "split": "valid", "sides": "tail"}, "ndcg", "value", "0.9"),
    ({"data": "codexmedium", "split": "valid"}, "imr", "value", "0.004"),
    ({"data": "countries-s3"}, "hmr", "value", "2"),
    ({"data": "wd50k"}, "igmr", "value", "3.5"),
    ({"data": "wn18rr"}, "mrr", "index", "0.4759"),
    ({"data": "wn18rr"}, "mr", "index", "97"),
    ({"data": "wn18rr"}, "mr", "z", "56.1"),
    ({"data": "nations"}, "mean(2)", "z", "-3"),
    ({"data": "kinships"}, "hits@1", "ratio", "50"),
    ({"data": "fb15k237"}, "mr", "ratio", "0.0307"),
]


@pytest.mark.parametrize(("asked", "metric", "have", "text"), CASES)
def test_typing_a_value_shows_the_librarys_figures(page, page_file, asked, metric, have, text):
    page.open(page_file, fragment(metric=metric, have=have, x="", **asked))
    assert set(shown(page).values()) == {"–"}
    enter(page, text)
    known = {"filter": None} if asked.get("filter") == "none" else {}
    want = expected(metric, have, float(text), **{"data": "wn18rr"} | asked | known)
    assert shown(page) == want
    percent = have in ("value", "index") and float(text) > 1 and metric not in ("mr", "gmr", "hmr")
    percent = percent or (have == "index" and float(text) > 1)
    assert page.text("#note") == (f"{text} is read as a percentage." if percent else "")
    said = page.run("document.getElementById('spoken').textContent")
    assert all(f"{form} {want[form]}" in said for form in FORMS)


@pytest.mark.parametrize(
    ("metric", "have", "text", "message"),
    [
        (
            "mrr",
            "value",
            "150",
            "Impossible: with these numbers of candidates, mrr is between 2.44e-05 and 1.000.",
        ),
        ("mrr", "value", "-0.1", "Impossible"),
        ("mrr", "value", "0", "Impossible"),
        (
            "mr",
            "value",
            "0.5",
            "Impossible: with these numbers of candidates, mr is between 1.000 and 40,928.",
        ),
        ("mr", "value", "199,999.5", "Impossible"),
        (
            "mr",
            "value",
            "99,999",
            "The comma may be a decimal or a thousands separator. Write 99999",
        ),
        (
            "mrr",
            "index",
            "-0.5",
            "Impossible: with these numbers of candidates, index(mrr) is between -2.",
        ),
        (
            "mrr",
            "z",
            "99999",
            "Impossible: with these numbers of candidates, z(mrr) is between -2.294 and +9,206.",
        ),
        ("mr", "value", "5 %", "mr is not a fraction, so it cannot be given in percent"),
        ("mrr", "z", "5%", "z(mrr) is not a fraction, so it cannot be given in percent"),
        ("mrr", "value", "0,476,1", "Not a number"),
        ("mrr", "value", "abc", "Not a number"),
        ("mrr", "value", "1e999", "Not a number"),
    ],
)
def test_impossible_values_get_a_message_and_no_number(page, page_file, metric, have, text, message):
    page.open(page_file, fragment(metric=metric, have=have, x=""))
    enter(page, text)
    assert page.text("#note").startswith(message)
    assert set(shown(page).values()) == {"–"}
    assert page.run("document.getElementById('x').getAttribute('aria-invalid')") == "true"
    assert page.run("document.getElementById('spoken').textContent") == page.text("#note")
    if message.startswith("Impossible"):
        name = metric if have == "value" else f"{have}({metric})"
        with pytest.raises(InputError, match="impossible value"):
            er.adjust({name: float(text.replace(",", ""))}, data="wn18rr")


def test_percent_is_the_fraction_to_the_last_bit(page):
    values = [n / 1000 for n in range(1001, 100_001, 7)]
    want = [PublishedValue(parse("mrr"), x, percent=True).fraction for x in values]
    assert page.run(f"{json.dumps(values)}.map(hundredth)") == want
    assert page.run("[1e-7, 5e-324, 1e22].map(hundredth)") == [1e-9, 0, 1e20]


def test_numbers_may_be_written_as_people_write_them(page, page_file):
    page.open(page_file, fragment())
    for text, value in (
        ("47.6%", "0.4760"),
        (" 47.6 % ", "0.4760"),
        (".476", "0.4760"),
        ("4.76e-1", "0.4760"),
        ("0,476", "0.4760"),
        ("47,6", "0.4760"),
    ):
        enter(page, text)
        assert page.text("#as-value dd") == value


def test_a_perfect_chance_level_has_no_adjusted_values(page, page_file):
    page.open(page_file, fragment(data="nations", metric="hits@20", x="1"))
    assert shown(page) == {"value": "1.000", "index": "–", "z": "–", "ratio": "1.000"}
    assert page.text("#note") == "No index, no z: every ranking has the best value, 1.000."
    with pytest.raises(er.errors.DegenerateError):
        er.adjust({"hits@20": 1}, data="nations")


@pytest.mark.parametrize("metric", METRICS)
def test_chance_levels_of_own_candidates_are_the_librarys(page, content, metric):
    draw = random.Random(metric)
    sizes = [1, 2, 3, 14, 51, 501, 1023, 1024, 1025, 14_541, 123_182, 4_594_485]
    cases = [(draw.choice(sizes), draw.choice((1, 2, 30, 6268, 40_932))) for _ in range(12)]
    at = list(METRICS).index(metric)
    got = page.run(f"{json.dumps(cases)}.map(([size, n]) => nullOf(atlas.metrics[{at}], size, n))")
    for (size, n), (mean, std, worst) in zip(cases, got, strict=True):
        null = er.chance(metric, [size], counts=[n])
        assert mean == pytest.approx(float(null.mean()), rel=1e-12)
        assert std == pytest.approx(float(null.std()), rel=1e-7, abs=1e-300)
        assert worst == pytest.approx(parse(metric)([size]), rel=1e-15)


def test_a_metric_that_the_page_cannot_compute_names_the_command(tmp_path, monkeypatch, browser):
    monkeypatch.setattr(explorer, "names", lambda: ["nations"])
    monkeypatch.setattr(explorer, "TASKS", (1,))
    page = browser.page()
    page.open(explore(tmp_path / "one.html", "mean(3)"), "#data=own&metric=mean(3)&x=3&size=100&tasks=7")
    assert page.text("#note").endswith('evenrank chance "mean(3)" --sizes 100x7')
    assert page.complaints == []
    page.close()


def test_typing_ones_own_candidates(page, page_file):
    page.open(page_file, fragment(data="own", metric="hits@10", x="0.5"))
    for field, text in (("size", "51"), ("tasks", "2,000")):
        page.run(f"document.getElementById('{field}').focus(), document.activeElement.select()")
        page.press("Backspace")
        page.type(text)
    result = er.adjust({"hits@10": 0.5}, sizes={51: 2000})
    assert shown(page)["index"] == figure(result["index(hits@10)"])
    assert shown(page)["z"] == "+" + figure(result["z(hits@10)"])
    assert "for 2,000 targets with 51 candidates." in page.text("#chance")
    assert page.run("document.getElementById('record').hidden")
    page.run("document.getElementById('size').focus(), document.activeElement.select()")
    page.type("many")
    assert page.text("#own-note").startswith("The number of candidates, the target included, is a whole")
    assert set(shown(page).values()) == {"–"}


def test_an_approximated_data_set_says_so(page, page_file):
    page.open(page_file, fragment(data="yago310", x="0.54"))
    assert shown(page)["index"] == figure(er.adjust({"mrr": 0.54}, data="yago310")["index(mrr)"])
    assert "approximate" in page.text("#chance")


def test_every_published_value_is_adjusted_as_by_the_library(page, content, record):
    made = record.adjust()
    metrics = {metric["name"]: i for i, metric in enumerate(content["metrics"])}
    got = page.run("""published.map(row => {
        const at = atlas.metrics.findIndex(metric => metric.name === row.metric);
        const level = levelOfRow(row), chance = level && chanceOf(level, at);
        if (!chance || typeof chance === "string") return null;
        const raw = row.percent ? hundredth(Number(row.printed)) : Number(row.printed);
        const theirs = lines(atlas.metrics[at], chance);
        const z = level.countless ? null : theirs.z && theirs.z.at(raw);
        return [chance[0], theirs.index && theirs.index.at(raw), z];
    })""")
    assert len(metrics) == len(METRICS)
    adjusted = 0
    for one, known, theirs in zip(made.values, made.adjusted, got, strict=False):
        assert (theirs is None) == math.isnan(known.chance), one
        if theirs is not None:
            got_numbers = [math.nan if x is None else x for x in theirs]
            ours = [known.chance, known.index, known.z]
            assert got_numbers == pytest.approx(ours, rel=1e-9, abs=1e-12, nan_ok=True), one
            adjusted += 1
    assert adjusted > 5000


@pytest.mark.parametrize(
    ("data", "metric"), [("wn18rr", "mrr"), ("nations", "hits@10"), ("fb15k237", "gmr")]
)
def test_published_results_stand_beside(page, page_file, content, data, metric):
    page.open(page_file, fragment(data=data, metric=metric, x=""))
    if not page.run("document.getElementById('more').hidden"):
        page.run("document.getElementById('more').click()")
    rows = cells(page, "#published")
    there = [row for row in rows_in(content) if (row["data"], row["metric"]) == (data, metric)]
    there = [row for row in there if row["candidates"] == "all"]
    assert len(rows) == len(there)
    assert page.text("#published-says").startswith(f"{len(there):,} values of {metric}")
    values = [
        float(row[1].removesuffix(" %").replace(",", "")) / (100 if "%" in row[1] else 1) for row in rows
    ]
    assert values == sorted(values, reverse=parse(metric).increasing)
    results = er.published.adjust_table("hoyt2022", metric).results
    for r in (r for r in results if r.setting.data == data):
        z = "+" * (r.z > 0) + figure(r.z)
        own = [r.model, figure(r.value), figure(r.chance), figure(r.index), z, "2022"]
        assert [*own, "Hoyt et al. 2022"] in rows


def test_an_entered_value_is_ranked_among_published_ones(page):
    models = "[...document.querySelectorAll('#published tbody th')].map(cell => cell.innerText)"
    assert page.run(models) == ["ConvE", "TuckER", "RotatE", "TransE", "yours", "ComplEx"]
    enter(page, "0.98")
    assert page.run(models)[2] == "yours"


def test_selecting_a_model_fills_in_all_its_values_and_its_protocol(page):
    page.run(
        "[...document.querySelectorAll('#published button')].find(b => b.innerText === 'TuckER').focus()"
    )
    page.press("Enter")
    assert page.text("#asked") == "hits@10 on Nations · test · both sides · filtered · unseen dropped"
    assert shown(page)["value"] == "0.9900"
    names = [row[0] for row in cells(page, "#values")]
    assert names[0] == "hits@10"
    assert set(names) == set(METRICS) & {*names, "mrr", "hits@1", "mr"}
    assert page.text("#audit") == "These values do not contradict each other."
    assert page.text("#others-note") == ""


def test_sampled_candidates_stand_apart(page, page_file):
    page.open(page_file, fragment(data="fb237-v1-ind", metric="hits@10", x=""))
    assert "50 sampled" in page.text("#published-says")
    assert {row[2] for row in cells(page, "#published")} == {figure(10 / 51)}


def test_selecting_a_sampled_result_adjusts_it_among_its_own_candidates(page, page_file):
    page.open(page_file, fragment(data="fb237-v1-ind", metric="hits@10", x=""))
    row = next(row for row in cells(page, "#published") if row[1] == "0.834")
    page.run(
        "[...document.querySelectorAll('#published tbody tr')]"
        ".find(row => row.innerText.includes('0.834')).querySelector('button').click()"
    )
    assert [shown(page)[form] for form in ("value", "index", "z")] == ["0.8340", *row[3:5]]
    assert "for 410 targets with 51 candidates." in page.text("#chance")
    page.open(page_file, fragment(data="ogbl-wikikg2", metric="mrr", x=""))
    some = "row => row.data === 'ogbl-wikikg2' && row.candidates"
    models = f"published.filter({some} === '500 sampled').length"
    assert page.run(models) > 0
    page.run(f"take(published.find({some} === '500 sampled'))")  # the data set has these very candidates
    assert page.text("#asked").startswith("mrr on ogbl-wikikg2")
    unknown = page.run(f"published.filter({some} === 'sampled').map(row => typeof fillable(row))")
    assert set(unknown) == {"string"}


def test_a_table_without_values_is_hidden(page, page_file):
    page.open(page_file, fragment(data="nations", metric="hits@10", x="0.97", others="hits@3=88"))
    assert "Use one unit" in page.text("#others-note")
    assert page.run("document.getElementById('together').hidden")


def test_values_that_contradict_each_other_are_found_while_typing(page, page_file):
    page.open(page_file, fragment(x="0.48"))
    page.run("document.getElementById('others').focus()")
    page.type("H@1=52.0% MR: 3340 AMRI=0.84 bogus=3 mean")
    found = er.published.contradictions({"mrr": "0.48", "hits@1": "52.0%"})
    assert str(found[0]) in page.text("#audit").replace("\n", " ").replace("  ", " ")
    assert page.text("#audit").startswith("As printed, these values cannot come from one set of ranks")
    assert (
        page.text("#others-note")
        == "Cannot read: mean. Write each value as in mrr=0.82. bogus is not a metric of this page."
    )
    assert [row[0] for row in cells(page, "#values")] == ["mrr", "hits@1", "mr", "mr"]
    page.open(page_file, fragment(x="0.48", others="hits@1=0.43 hits@10=57"))
    assert "may be a fraction or a percentage" in page.text("#others-note")


def test_contradictions_are_those_of_the_library(page, page_file):
    """On values near the bounds, with any rounding, of consistent and inconsistent ranks."""
    draw = random.Random(11)
    np_draw = np.random.default_rng(11)
    names = ["mrr", "mr", "hits@1", "hits@3", "hits@10", "gmr", "hmr", "imr", "igmr", "ndcg", "mean(2)"]
    cases = []
    for _ in range(400):
        size = draw.choice((14, 100, 1000))
        ranks = np.minimum(np_draw.geometric(draw.choice((0.5, 0.1, 0.02)), 30), size)
        chosen = draw.sample(names, draw.randint(2, 5))
        values = {}
        for name in chosen:
            value = parse(name)(ranks) * draw.choice((1, 1, 1, 0.97, 1.03))
            if parse(name).range[1] <= 1:
                value = min(value, 1.0)
            values[name] = f"{value:.{draw.randint(1, 4)}f}"
        cases.append((values, size))
    got = page.run(
        f"""{json.dumps(cases)}.map(([values, size]) => {{
        const level = equal(size, 100), given = Object.entries(values).map(([name, text]) => {{
            const metric = atlas.metrics.find(one => one.name === name);
            return {{ have: "value", metric, typed: typed(text), percent: false, adjust: null }};
        }});
        return audit(given, level);
    }})"""
    )
    wrong = 0
    for (values, size), theirs in zip(cases, got, strict=True):
        candidates = Candidates(read_sizes([size], [100]), er.Protocol())
        found = er.published.contradictions(values, percent=False, candidates=candidates)
        ours = [str(one) for one in found]
        assert theirs == ours, values
        wrong += bool(ours)
    assert 30 < wrong < 370


def test_adjusted_values_are_converted_back_before_they_are_compared(page, page_file):
    page.open(page_file, fragment(x="0.48", others="AMRI=0.5 hits@10=0.999"))
    found = er.adjust({"mrr": "0.48", "index(mr)": "0.5", "hits@10": "0.999"}, data="wn18rr")
    warned = [note.removeprefix("warning: ") for note in found.notes if note.startswith("warning")]
    text = page.text("#audit")
    assert warned
    assert [one for one in warned if one in text] == warned


@pytest.mark.parametrize(("error", "wrong"), [(9e-7, False), (9e-6, True)])
def test_adjusted_values_may_be_in_single_precision(page, page_file, error, wrong):
    index = er.adjust({"mr": 3340}, data="wn18rr")["index(mr)"]
    text = f"{index * (1 + error):.12f}"
    found = er.published.contradictions(
        {"mr": "3340.000", "index(mr)": text}, candidates=Setting("wn18rr").candidates()
    )
    page.open(page_file, fragment(metric="mr", x="3340.000", others=f"AMRI={text}"))
    assert bool(found) == wrong
    assert ("contradict each other:" in page.text("#audit")) == wrong
    assert all(str(one) in page.text("#audit") for one in found)


@pytest.mark.parametrize(
    "name",
    [
        *METRICS,
        *("H@10", "Hits@3", "hits_at_10", "ah@10", "MeanRank", "mean_reciprocal_rank"),
        *("AMRI", "AMR", "ZMR", "zmrr", "index(MRR)", "ratio(mr)"),
    ],
)
def test_metrics_are_named_in_the_usual_ways(page, name):
    got = page.run(f"(({{ have, at }}) => [have, atlas.metrics[at].name])(named({json.dumps(name)}))")
    expression = parse(name)
    form = expression.adjustment if isinstance(expression, Adjusted) else "value"
    assert got == [form, str(bare(expression))]


def test_numbers_are_read_as_by_the_library(page):
    texts = [
        "0.48",
        ".480",
        "48",
        "48.0",
        "47,6",
        "1,234.5",
        "3e2",
        "4.76e-1",
        "12.50 %",
        "0,05",
        "-0.1",
    ]
    got = page.run(
        f"{json.dumps(texts)}.map(text => typed(text, 1)).map(one => [one.number, one.places])"
    )
    want = [PublishedValue.of("mrr", text) for text in texts]
    assert got == [[one.value, one.places] for one in want]
    ends = page.run(f"{json.dumps(texts)}.map(text => roundedFrom(typed(text, 1)))")
    assert ends == [list(one.rounded_from) for one in want]


def test_the_same_index_on_other_data_sets(page, page_file):
    page.open(page_file, fragment(metric="mr", x="3000"))
    rows = cells(page, "#elsewhere")
    assert len(rows) > len(atlas.names())  # and those of which only the sizes are known
    index = er.adjust({"mr": 3000}, data="wn18rr")["index(mr)"]
    titles = {data["title"]: data["name"] for data in content_of(page_file)["data"]}
    for title, size, chance, same, _ in rows:
        sizes = er.atlas(titles[title])
        mean = (sizes["candidates"] * sizes.counts).sum() / sizes.total
        there = er.adjust({"index(mr)": index}, data=titles[title])
        assert (size, chance) == (figure(mean), figure(float(er.chance("mr", sizes).mean())))
        assert same == figure(there["mr"])


def test_keyboard_alone_is_enough(page, page_file):
    page.open(page_file, fragment(x="0.476"))
    focus = "document.activeElement.id || document.activeElement.name"
    node = "document.activeElement"
    outlined = f"({node}.type === 'radio' ? {node}.nextElementSibling : {node})"
    outline = f"getComputedStyle({outlined}).outlineStyle"
    order = ["data", "metric", "have", "x", "others", None, "split", "sides", "filter", "unseen"]
    for name in order:
        page.press("Tab")
        if name:
            assert page.run(focus) == name
        assert page.run(outline) == "solid"
    for _ in order[1:]:
        page.press("Tab", shift=True)
    page.type("Nat")
    page.press("Tab")
    page.type("mr =")
    page.press("Tab", "ArrowRight", "Tab")
    page.type("0.5")
    page.press("Tab", "Tab", "Tab", "ArrowLeft")
    assert page.text("#asked") == "mr on Nations · valid · both sides · filtered · unseen kept"
    assert shown(page) == expected("mr", "index", 0.5, data="nations", split="valid")


def test_details_open_and_close_by_key(page, page_file):
    page.open(page_file, fragment())
    page.run("document.querySelector('#protocol summary').focus()")
    page.press("Enter")
    assert page.run("document.getElementById('protocol').open") is False
    page.run("document.querySelector('main > section details summary').focus()")
    page.press(" ")
    assert (
        page.text("#sweep-table caption")
        == "mrr under random ranking, 10,000 targets with the same number of candidates"
    )


def test_view_is_kept_in_the_address(page, page_file, browser):
    page.open(page_file, fragment(data="kinships", metric="hits@3"))
    enter(page, "0.9")
    page.run("document.querySelector('input[name=unseen][value=drop]').click()")
    address = page.run("location.hash")
    other = browser.page()
    other.open(page_file, address)
    for selector in ("#asked", "#result", "#published", "#elsewhere"):
        assert other.text(selector) == page.text(selector)
    other.run("location.hash = 'data=umls&metric=mr&x=5'")
    other.run("new Promise(resolve => setTimeout(resolve, 50))")
    assert other.text("#asked").startswith("mr on UMLS")
    assert other.complaints == []
    other.close()


def test_invalid_addresses_are_ignored(page, page_file):
    page.open(page_file, "#data=nothing&metric=%00&sides=left&have=constructor&n=7&nodeName=1&x=%3Cb%3E")
    assert page.text("#asked") == "hits@10 on Nations · test · both sides · filtered · unseen kept"
    assert page.text("#note").startswith("Not a number")


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"data": "nations", "metric": "mr", "have": "z", "x": "20", "n": "1"},
        {"data": "fb15k237", "metric": "igmr", "x": "1e-9"},
        {"data": "nell-v1-ind", "metric": "mean(2)", "x": "90"},
        {"data": "own", "metric": "mrr", "x": "0.5", "others": "hits@1=0.6 mr=30"},
    ],
)
def test_phone_needs_no_sideways_scrolling(browser, page_file, state):
    page = browser.page(360, 740)
    page.open(page_file, fragment(**state))
    page.run("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    assert page.run("document.documentElement.scrollWidth") == 360
    boxes = "[...document.querySelectorAll('.scroll, .card, .choices')]"
    wide = f"{boxes}.filter(node => node.scrollWidth > node.clientWidth)"
    assert page.run(f"{wide}.map(n => n.innerText)") == []
    small = """[...document.querySelectorAll('select, input, button, summary')].filter(node => {
        const box = node.getBoundingClientRect(); return box.height && box.height < 32; })"""
    assert page.run(f"{small}.map(n => n.outerHTML)") == []
    page.close()


CONTRAST = """(() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = colour => channels(colour).slice(0, 3).map(c => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0.05);
  const behind = node => {
    const colour = getComputedStyle(node).backgroundColor;
    return channels(colour)[3] === 0 ? behind(node.parentElement) : colour;
  };
  const written = node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  const seen = node => node.getClientRects().length && !node.closest('script, option');
  return [...document.querySelectorAll('body *')].filter(written).filter(seen).map(node => {
    const colour = getComputedStyle(node)[node.closest('svg') ? 'fill' : 'color'];
    const both = [light(colour), light(behind(node))];
    return [node.textContent.slice(0, 40), Math.max(...both) / Math.min(...both)];
  });
})()"""


def test_dark_mode_changes_colours_and_keeps_contrast(page, page_file):
    colours = {}
    for dark in (False, True):
        page.media(dark=dark)
        page.open(page_file, fragment(others="hits@1=0.45"))
        colours[dark] = page.run("getComputedStyle(document.body).backgroundColor")
        for state in ("0.476", "500"):
            enter(page, state)
            contrast = page.run(CONTRAST)
            assert len(contrast) > 100
            assert [text for text, ratio in contrast if ratio < 4.5] == []
    assert colours == {False: "rgb(247, 247, 245)", True: "rgb(18, 20, 24)"}


def test_print_leaves_the_controls_out(page):
    page.media(print_=True)
    assert page.run("getComputedStyle(document.getElementById('form')).display") == "none"
    assert page.text("#asked").startswith("hits@10 on Nations")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("n", TASKS)
def test_plots_draw_every_metric(page, page_file, content, n):
    page.open(page_file, fragment(metric="hits@10", n=n))
    for plot in ("mean", "std"):
        curves = page.run(
            f"[...document.querySelectorAll('#sweep-{plot} .curve')].map(p => p.getAttribute('d'))"
        )
        box = page.run(f"document.getElementById('sweep-{plot}').viewBox.baseVal.height")
        assert len(curves) == len(METRICS)
        for curve in curves:
            assert re.fullmatch(r"M[\d.]+ [\d.]+(L[\d.]+ [\d.]+)+", curve)
            assert max(float(y) for y in re.findall(r" ([\d.]+)", curve)) <= box
        labels = page.run(
            f"[...document.querySelectorAll('#sweep-{plot} text')].map(t => t.textContent)"
        )
        assert set(METRICS) <= set(labels)
        assert f"WN18RR: {figure(mean_size('wn18rr'))}" in labels
        label = page.run(f"document.getElementById('sweep-{plot}').getAttribute('aria-label')")
        assert "every metric under random ranking" in label
    page.run("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    rows = cells(page, "#sweep-table")
    curve = content["sweep"]["chance"][TASKS.index(n)][METRICS.index("hits@10")]
    assert rows == [[f"{size:,}", *map(figure, point)] for size, point in zip(SIZES, curve, strict=True)]


def mean_size(name):
    sizes = er.atlas(name)
    return float((sizes["candidates"] * sizes.counts).sum() / sizes.total)


@pytest.mark.parametrize(
    ("metric", "x", "worst"),
    [("mr", "3", lambda size: size), ("mrr", "0.5", lambda size: 1 / size)],
)
def test_scale_shows_chance_and_value_between_worst_and_best(page, page_file, metric, x, worst):
    page.open(page_file, fragment(data="nations", metric=metric, x=x))
    sizes = er.atlas("nations")
    null = er.chance(metric, sizes)
    last = float((worst(sizes["candidates"]) * sizes.counts).sum() / sizes.total)
    texts = page.run("[...document.querySelectorAll('#scale text')].map(text => text.textContent)")
    assert set(texts) == {
        f"chance level {figure(float(null.mean()))} ± {figure(float(null.std()))}",
        figure(float(x)),
        f"worst {figure(last)}",
        "best 1.000",
    }
    box = "document.querySelector('#scale {}').getBoundingClientRect()"
    chance, value = (page.run(f"{box.format(q)}.x") for q in ("line:last-of-type", "circle"))
    left, right = (
        page.run(f"document.getElementById('scale').getBoundingClientRect().{e}")
        for e in ("left", "right")
    )
    assert left < chance < value < right  # better than chance is further right
    assert figure(float(x)) in page.run("document.getElementById('scale').getAttribute('aria-label')")


def test_screenshot_shows_something(page, tmp_path):
    picture = page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes() == picture
    width, height, colours = pixels(picture)
    assert (width, height) == (1200, 900)
    assert len(colours) > 200


def pixels(picture):
    """Width, height and the distinct filtered values of a PNG: a blank one has a handful."""
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    packed, at = b"", 8
    while at < len(picture):
        (length,), kind = struct.unpack(">I", picture[at : at + 4]), picture[at + 4 : at + 8]
        packed += picture[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    return width, height, set(zlib.decompress(packed))
