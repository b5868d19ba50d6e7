"""Tables in LaTeX, compiled by pdfLaTeX: no errors, and no line wider than the page."""

import numpy as np
import pytest
from tex import compiled

import evenrank as er
from evenrank._internal.latex import LATIN, LETTERS, escape
from evenrank._internal.table import Table
from evenrank.report.document import Report

NASTY = [
    r"50% of x_1^2 & \more#{}~",
    'a -- b --- `c\' "d" <e> |f|',
    "[not an option]",
    "ends in a backslash \\",
    "two\nlines\x1b[31m",
    "Müller, Łukasz, Ångström, Dvořák",
    "σ² ≤ α₁ – β → ∞ “q” …",
    "*starred",
]


def benchmarks(models, data, targets=30, metrics=("mrr", "hits@1", "hits@10")):
    """A report of made-up ranks."""
    rng = np.random.default_rng(1)
    made = {}
    for i, name in enumerate(data):
        keys = {"head": [f"h{j}" for j in range(targets)], "relation": ["r"] * targets}
        keys |= {"tail": ["t"] * targets, "side": ["tail"] * targets}
        for j, model in enumerate(models):
            ranks = er.Ranks.of(rng.integers(1, 20 + 5 * j, targets), candidates=99 + i, keys=keys)
            made[name, model] = ranks.with_protocol(data=name, model=model)
    return Report(*made.values(), metrics=metrics)


@pytest.fixture(scope="module")
def four():
    return benchmarks(
        ["transe", "rotate", "complex", "tucker"], ["nations", "umls", "fb15k237", "wn18rr"]
    )


@pytest.mark.parametrize("layout", [None, "models", "data", "long"])
@pytest.mark.parametrize("percent", [None, "all"])
def test_tables_of_four_models_on_four_data_sets_fit_a_page(four, layout, percent, tmp_path):
    table = four.to_latex(
        layout=layout, percent=percent, label="tab:a", caption=r"A \emph{caption} of 5%"
    )
    assert compiled([table], tmp_path) == []


def test_every_kind_of_result_compiles(nations, tmp_path):
    one = nations["transe"].with_protocol(model=None)
    unnamed = {name: ranks.with_protocol(content=None) for name, ranks in nations.items()}
    runs = {"TransE": [one[:134], one[134:268], one[268:]], "RotatE": [nations["rotate"]]}
    tables = [
        one.evaluate().to_latex(),
        one.by("side").evaluate("mrr", "mr", "z(mrr)").to_latex(),
        one.by("relation").evaluate("mrr", "hits@10").to_latex(),
        er.compare(nations, metrics=["mrr", "hits@1"]).to_latex(digits=2),
        er.compare(nations, metrics=["mrr", "mr"], baseline="transe").to_latex(),
        er.summarize_runs(runs, "mrr", "hits@1", "mr").to_latex(),
        er.latex(nations, metrics=["mrr", "amri"], percent="all", hits="Hits@k"),
        er.intervals(nations["transe"], "mrr", "z(mrr)").to_latex(),
        er.adjust({"mrr": 0.35}, data="fb15k237").to_latex(),
        er.published.adjust_table("hoyt2022", "mrr", "hits@10").to_latex(digits=2),
        er.across_datasets(dict.fromkeys(("a_b", "c", "d", "e"), unnamed)).to_latex(),
    ]
    assert compiled(tables, tmp_path) == []


def test_no_name_breaks_a_document(tmp_path):
    made = benchmarks(NASTY[:4], NASTY[4:], metrics=["mrr"])
    tables = [made.to_latex(layout=layout) for layout in ("models", "data", "long")]
    tables += [Table(NASTY, [NASTY], NASTY).latex().replace("tabular}{", "tabular}{@{}")]
    problems = compiled(tables[:3], tmp_path)
    assert [line for line in problems if not line.startswith("Overfull")] == []
    assert [line for line in compiled(tables, tmp_path) if line.startswith("!")] == []


def test_letters_that_are_said_to_print_do(tmp_path):
    """All letters that need no other engine, and all those that are replaced."""
    letters = "".join(sorted(LATIN)) + "".join(map(chr, LETTERS))
    table = (
        er.Ranks.of([1], candidates=5, keys={"letter": [letters]})
        .by("letter")
        .evaluate("mrr")
        .to_latex()
    )
    assert r"% and \usepackage[T1]{fontenc}" in table
    assert "XeLaTeX" not in table
    assert [line for line in compiled([table], tmp_path) if not line.startswith("Overfull")] == []


@pytest.mark.parametrize("name", ["维基", "Ŧ", "имя", "😀"])
def test_letters_that_pdflatex_lacks_are_named(name, tmp_path):
    table = er.latex({name: er.Ranks.of([1, 2], candidates=5)}, metrics="mrr")
    assert f"pdfLaTeX cannot print {name[0]}" in table
    assert "XeLaTeX or LuaLaTeX" in table
    assert any(
        "Unicode character" in line or "unavailable" in line for line in compiled([table], tmp_path)
    )


def test_text_is_escaped():
    assert escape("a_b & 50%$#{}") == r"a\_b \& 50\%\$\#\{\}"
    assert escape("x\\y^2~z") == r"x\textbackslash{}y\textasciicircum{}2\textasciitilde{}z"
    assert escape("a---b\nc") == "a-{}-{}-b c"
    assert escape("e\u0301") == "é"


def test_tables_are_narrowed_step_by_step():
    sizes = [
        benchmarks("ab", [f"d{i}" for i in range(n)]).to_latex(layout="models").split("\n\n")[0]
        for n in range(1, 8)
    ]
    order = ["", "tabcolsep}{4pt", "small\\set", "footnotesize", "scriptsize", "too wide"]
    found = [max(i for i, word in enumerate(order) if word in table) for table in sizes]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, 5)
    assert all("table*" in table for table, step in zip(sizes, found, strict=True) if step == 5)


def test_estimated_widths_are_those_of_latex(four, tmp_path):
    """Too narrow a guess would let a table stick out of the page."""
    tables = [
        benchmarks(["m" * n, "M" * n], ["i" * n], metrics=["mrr"]).to_latex() for n in (1, 20, 40, 60)
    ]
    tables += [
        benchmarks("ab", [f"data set {i}" for i in range(n)]).to_latex(layout="models")
        for n in (1, 2, 3, 4, 6)
    ]
    tables = [table.split("\n\n")[0] for table in tables]
    fits = [table for table in tables if "too wide" not in table]
    assert len(fits) >= 6
    assert compiled(fits, tmp_path) == []
    widest = max(tables, key=len)
    assert "too wide" in widest
    assert "Overfull" in "".join(compiled([widest], tmp_path))


def test_latex_of_python_and_of_a_report_agree(nations, tmp_path):
    path = er.report(tmp_path / "a.tex", nations, metrics=["mrr", "hits@1"])
    assert path.read_text() == er.latex(nations, metrics=["mrr", "hits@1"]) + "\n"
    assert "MRR & H@1 & H@3 & H@10" in er.latex(nations)
