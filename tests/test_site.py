"""The documentation site: every page has its place, and what is generated agrees with the package."""

import doctest
import importlib
import re
import sys
from math import isclose
from pathlib import Path

import pytest
from transcript import blocks, commands, in_terminal

import evenrank as er
from evenrank.cli import COMMANDS
from evenrank.metrics.grammar import ALIASES, NAMES, QUERY_ALIASES, QUERY_NAMES, parse

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = {"reference/index", "metrics/index", "shell/index", "explorer", "leaderboard-page"}


@pytest.fixture(scope="module", autouse=True)
def _scripts():
    """The scripts of the site are modules beside each other, not a package."""
    sys.path.insert(0, str(DOCS / "site"))
    yield
    sys.path.remove(str(DOCS / "site"))


def listed() -> set[str]:
    """The pages in the toctrees of all pages, by their place on the site."""
    found = set()
    for path in DOCS.rglob("*.md"):
        folder = path.parent.relative_to(DOCS)
        for tree in TOCTREE.findall(path.read_text(encoding="utf-8")):
            lines = [line for line in tree.splitlines() if line and not line.startswith(":")]
            names = [re.sub(r".* <(.+)>", r"\1", line) for line in lines]  # Title <page>
            found |= {(folder / name).as_posix() for name in names}
    return found


def test_every_page_is_in_a_table_of_contents():
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert pages - listed() - {"index"} == set(), "add a line to a toctree, e.g. in docs/how-to.md"
    stage = importlib.import_module("stage")
    outside = {stage.place(name).removesuffix(".md") for name in stage.OUTSIDE if name.endswith(".md")}
    assert listed() - pages - GENERATED - outside == set()


@pytest.mark.parametrize("name", ["stage", "metric_pages", "shell_pages", "python_pages", "searching"])
def test_examples_in_the_scripts(name):
    if name == "searching":
        pytest.importorskip("sphinx", reason="the search stems words as Sphinx does")
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.failed == 0
    assert tried.attempted


def test_relative_links_lead_to_files_of_the_repository():
    stage = importlib.import_module("stage")
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"))
        for target in stage.LINK.findall(re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.S))
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_the_check_of_links_finds_missing_files_anchors_and_what_needs_a_network(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top"><a href="#top">x</a><a href="#none">x</a><a href="b.html">x</a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org/">x</a></h1>'
    )
    site = importlib.import_module("links").Site(tmp_path)
    assert site.broken() == [
        "a.html: #none: no such anchor",
        "a.html: b.html: no such file",
        "a.html: https://example.org/x.js: is loaded from a network",
    ]
    assert site.checked == 3


# Metrics ------------------------------------------------------------------------------------------


def test_every_metric_has_a_page_with_a_title_and_a_definition():
    pages = importlib.import_module("metric_pages")
    every = set(pages.everything())
    assert every >= {*NAMES.values(), *ALIASES.values(), *QUERY_NAMES.values()}
    assert every >= {parse(f"{name}@10") for name in set(QUERY_ALIASES.values()) - set(QUERY_NAMES)}
    assert len({pages.slug(one) for one in every}) == len(every)
    assert {str(one) for one in every} == set(pages.TEXTS) - {"kinds"}


def test_closed_forms_of_chance_levels_agree_with_enumeration():
    pages = importlib.import_module("metric_pages")
    for name, (_, function) in pages.CLOSED.items():
        exact = er.chance(name, [3, 12, 4], method="enumerate").mean()
        assert isclose(function([3, 12, 4]), exact, rel_tol=1e-12), name
    for name in (*pages.CLOSED, *pages.ANSWERS):
        assert pages.checked(parse(name))


def test_pages_of_metrics_tell_both_standard_deviations_apart():
    pages = importlib.import_module("metric_pages")
    text = pages.page(er.MRR)
    # independent ranks: 0.0135 in the case study; a random scorer: 1.333 times as much
    assert "| nations | 0.3844 | 0.0179 | 0.0135 |" in text
    assert "no formula" not in text
    assert "| nations | " in pages.page(parse("max"))
    assert "both standard deviations are those of independent ranks" in pages.page(parse("max"))
    [z] = re.findall(r"\| nations \| 0\.3844 \| 0\.0179 \| ([\d.]+) \|", pages.page(parse("zmrr")))
    assert isclose(float(z), (0.4 - 0.3844) / 0.0179, rel_tol=0.01)


def test_a_wrong_closed_form_is_an_error(monkeypatch):
    pages = importlib.import_module("metric_pages")
    monkeypatch.setitem(pages.CLOSED, "mrr", ("x", lambda sizes: 1 / sizes[0]))
    with pytest.raises(ValueError, match="closed form"):
        pages.checked(er.MRR)


def test_a_metric_without_a_text_has_a_page_too():
    pages = importlib.import_module("metric_pages")
    text = pages.page(parse("mean(3)"))
    assert text.startswith("# mean(3)\n")
    assert "mean(r^3)^(1/3)" in text


# Reference ----------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference():
    reference = importlib.import_module("python_pages")
    grouped = [name for names in reference.groups().values() for name in names]
    assert sorted(grouped) == sorted(er.__all__)


def test_every_command_has_a_page_with_its_options(tmp_path):
    pages = importlib.import_module("shell_pages")
    pages.write(tmp_path / "shell")
    names = {path.stem for path in (tmp_path / "shell").iterdir()}
    assert names >= {f"evenrank-{name}" for group in COMMANDS.values() for name in group}
    assert {"evenrank", "evenrank-data-fetch", "evenrank-atlas-build"} <= names
    text = (tmp_path / "shell" / "evenrank-rank.md").read_text(encoding="utf-8")
    assert "## Protocol" in text
    assert "| `--unseen CHOICE` | Keep or drop entities" in text


# The README ---------------------------------------------------------------------------------------


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len(readme().split()) <= 720


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_the_commands_of_the_readme_print_what_it_shows(page, tmp_path):
    [(_, body)] = blocks((ROOT / page).read_text(encoding="utf-8"))
    for command in commands(body):
        code, printed = in_terminal(command.text, tmp_path)
        assert code == 0, "\n".join(printed)
        assert max(map(len, printed), default=0) <= 80, command.text
        assert command.shown == printed, "\n".join([f"$ {command.text}", *printed])


def test_the_times_of_the_readme_are_those_of_the_benchmarks():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+)[^|]* \| ([\d.]+) \| ([\d,]+) \| (\d+) \|$", readme(), re.MULTILINE)
    assert len(rows) == 4
    for model, ours, theirs, ratio in rows:
        pattern = rf"^{model}\b.*\b{ours} .* {theirs.replace(',', '')} .*\b{ratio} >="
        assert re.search(pattern, results, re.MULTILINE), model
