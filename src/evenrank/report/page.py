"""The page of a report: its sections, inserted into the template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from importlib.resources import files
from math import isnan, nan
from string import ascii_lowercase
from typing import TYPE_CHECKING

import evenrank
from evenrank._internal.table import figure
from evenrank.ranks.evaluation import bare, cell
from evenrank.ranks.evaluation import title as heading
from evenrank.ranks.selection import counted
from evenrank.report.benchmark import Benchmark, pack
from evenrank.report.findings import Findings, best
from evenrank.report.markup import (
    Cell,
    Column,
    Duel,
    between,
    colours,
    drawing,
    embedded,
    listed,
    matrix,
    table,
)
from evenrank.report.summary import equals, join, probability
from evenrank.stats import AcrossDatasets, Pair, candidate_range, plural, signed

if TYPE_CHECKING:
    from evenrank.report.document import Report

PLACE = re.compile(r"\{\{(\w+)\}\}")
NAMED = (Column("data", label=True, wide=True), Column("model", label=True, pin=True))
PAPER = {"latex": "LaTeX", "markdown": "Markdown"}
KEPT = "The ranks are stored in this page: <code>evenrank report</code> reads it like a file of ranks."


def write(report: Report, *, keep: bool) -> str:
    """Return the page of a report, with or without its ranks."""
    sections = [(name, head, "".join(body)) for name, head, body in _sections(report)]
    parts = {
        "version": evenrank.__version__,
        "title": escape(report.title),
        "light": colours(dark=False),
        "dark": colours(dark=True),
        "summary": listed(report.summary),
        "links": " ".join(f'<a href="#{name}">{escape(head)}</a>' for name, head, _ in sections),
        "sections": "\n".join(
            f'<section id="{name}"><h2>{escape(head)}</h2>{body}</section>'
            for name, head, body in sections
        ),
        "kept": KEPT if keep else "",
        "values": embedded(report.content(groups=False)),  # groups are in the tables already
        "ranks": embedded([pack(benchmark) for benchmark in report.benchmarks] if keep else []),
    }
    template = files("evenrank.report").joinpath("report.html").read_text(encoding="utf-8")
    # in one pass, so that placeholders in names, even {{ranks}}, are not replaced
    return PLACE.sub(lambda place: parts[place[1]], template)


def _sections(report: Report) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the id, heading and parts of each section that is not empty."""
    yield "results", "Results", _results(report)
    if report.findings.across:
        yield "across", "Across data sets", _across(report, report.findings.across)
    if report.findings.comparisons:
        yield "tests", "Paired tests", _tests(report)
    yield "ranks", "Recall" if report.findings.rankings else "Ranks", _curves(report)
    if any("relation" in keys for keys in report.findings.groups.values()):
        yield "relations", "Relations", _relations(report)
    kinds = _kinds(report)
    if kinds:
        yield "kinds", f"Kinds of {report.rows_are}", kinds
    if any(len(found) > 1 for made in report.findings.averages.values() for found in made.values()):
        yield "averages", "Averages", _averages(report)
    if report.findings.calibration:
        yield "calibration", "Null distribution", _calibration(report)
    yield "protocol", "Protocol", _protocol(report)


def card(*parts: str) -> str:
    """Return parts on a card."""
    return f'<div class="card">{"".join(parts)}</div>'


def text(words: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(words)}</p>"


def folded(head: str, *parts: str) -> str:
    """Return parts that open on demand."""
    return f"<details><summary>{escape(head)}</summary>{''.join(parts)}</details>"


# Sections -----------------------------------------------------------------------------------------


def _results(report: Report) -> list[str]:
    findings = report.findings
    lead = findings.lead
    parts = [
        text(
            f"{lead}, its adjusted index (0 at chance level, 1 if perfect; comparable across data sets) "
            "and its z (standard deviations above chance level; grows with the number of "
            f"{report.rows_are})."
            + " Queries are treated as independent, as they share no scores."
            * findings.rankings
        )
    ]
    if "metrics" in report.figures:
        caption = (
            f"{lead}, index({lead}) and z({lead}) by data set, from few to many candidates. "
            f"Vertical bars: {findings.percent} confidence intervals; horizontal bars and dashes: chance"
            " levels."
        )
        parts.append(card(drawing("metrics", report.figures["metrics"], caption)))
    copied = "".join(
        f'<button type="button" class="copy" data-copy="as-{form}">Copy as {name}</button>'
        for form, name in PAPER.items()
    )
    paper = folded(
        "Show the LaTeX and Markdown",
        *(
            f'<p><label for="as-{form}">{name}</label>'
            f'<textarea id="as-{form}" readonly spellcheck="false">'
            f"{escape(getattr(report, f'to_{form}')())}</textarea></p>"
            for form, name in PAPER.items()
        ),
    )
    return [
        *parts,
        card(
            _results_table(report),
            listed(note.removeprefix("– ") for note in report.undefined),
            f'<p class="tools">{copied}<span class="small quiet" role="status"></span></p>',
            paper,
        ),
    ]


def _results_table(report: Report) -> str:
    made, findings = report.evaluation, report.findings
    columns = [*NAMED, Column(report.rows_are)]
    columns += [Column(heading(e), e.increasing) for e in made.expressions]
    tops = report.best()
    rows = []
    for i in report.order():
        label, count = made.labels[i], made.counts[i]
        row = [Cell(label[0]), Cell(label[1], phone=label[0]), Cell(f"{count:,}", count)]
        for j, e in enumerate(made.expressions):
            value = float(made.values_by_group[i, j])
            below = between(findings.interval(e, *label))
            row.append(Cell(cell(e, value), value, below, i in tops[j]))
        rows.append(row)
    several = len(made.labels) > len(report.benchmarks)
    caption = f"Values with {findings.percent} confidence intervals" + (
        f"; on each data set the best value in bold, and rows in the order of {findings.lead}" * several
    )
    return table("results-table", caption, columns, rows)


def _across(report: Report, across: AcrossDatasets) -> list[str]:
    findings = report.findings
    won = [findings.contenders(benchmark) for benchmark in report.benchmarks]
    columns = [
        *(Column("model", label=True, pin=True), Column("average\nrank", increasing=False)),
        *(Column("group", label=True), Column(f"mean index\n({findings.lead})", increasing=True)),
        Column("best on", increasing=True),
    ]
    rows = []
    for one in across.average_ranks:
        wins = sum(models == [one.model] for models in won)
        groups = zip(ascii_lowercase, across.undecided, strict=False)
        letters = " ".join(letter for letter, models in groups if one.model in models)
        row = [Cell(one.model), Cell(f"{one.rank:.2f}", one.rank), Cell(letters or "–")]
        row += [Cell(figure(one.mean_index), one.mean_index), Cell(str(wins), wins)]
        rows.append(row)
    words = (
        f"The average rank of each model by {findings.lead} over the {len(report.benchmarks)} data sets "
        "(1 is best). The Friedman test of the hypothesis that all models are equal has "
        f"p {equals(across.p)}. Two models differ significantly if their average ranks differ by "
        f"{across.critical_difference:.2f} or more (Nemenyi test at {findings.percent}); between models "
        "that share a letter in the column group, the order is undecided."
    )
    caption = (
        "Average rank and mean index; best on: number of data sets on which the model is significantly "
        "better than all others"
    )
    made = table("across-table", caption, columns, rows)
    return [text(words), card(made, listed(across.notes))]


def _tests(report: Report) -> list[str]:
    findings = report.findings
    notes = dict.fromkeys(note for made in findings.comparisons.values() for note in made.notes)
    tested = [c for c in report.benchmarks if c.data in findings.comparisons]
    widest = max(len(benchmark.models) for benchmark in tested)
    matrices = "".join(
        f"<div>{_matrix(report, benchmark, i)}</div>" for i, benchmark in enumerate(tested, 1)
    )
    count = sum(len(made.pairs) for made in findings.comparisons.values())
    every = "The one pair in detail" if count == 1 else f"All {count:,} pairs in detail"
    return [
        text(
            f"Difference of {findings.lead}, row minus column, on the same {report.rows_are}; below it "
            "the corrected p. ▲: the row is significantly better. ▼: it is significantly worse. No "
            f"mark: undecided. The p-values are from {findings.tested}."
        ),
        card(
            f'<div class="matrices" style="--need: {8 + 4.7 * widest:g}rem">{matrices}</div>',
            listed(notes),
            folded(every, _pairs(report)),
        ),
    ]


def _matrix(report: Report, benchmark: Benchmark, number: int) -> str:
    """Return the tests of a data set, every model against every other."""
    findings = report.findings
    models, duels = findings.ordered(benchmark), findings.duels[benchmark.data]
    cells = [
        [_duel(pair, findings) if (pair := duels.get((row, column))) else None for column in models]
        for row in models
    ]
    return matrix(f"tests-{number}", benchmark.data, models, cells)


def _duel(pair: Pair, findings: Findings) -> Duel:
    better = pair.better(findings.level)
    verdict = "undecided" if better is None else "won" if better == pair.first else "lost"
    interval = f"{findings.percent} confidence interval {reach}, " if (reach := _reach(pair)) else ""
    tells = (
        f"{pair.first} minus {pair.second}: {signed(pair.difference)}, {interval}corrected "
        f"p {equals(pair.p_corrected)}; {better + ' is better' if better else 'undecided'}"
    )
    return Duel(signed(pair.difference), probability(pair.p_corrected), verdict, tells)


def _pairs(report: Report) -> str:
    """Return a table of all tests with intervals and counts."""
    columns = [Column("data", label=True, wide=True), Column("first", label=True, pin=True)]
    columns += [Column("second", label=True)]
    columns += [Column(name) for name in ("difference", "wins", "ties", "losses")]
    columns += [Column("corrected p", increasing=False), Column("better", label=True)]
    rows = [
        [
            Cell(data),
            Cell(pair.first, phone=data),
            Cell(pair.second),
            Cell(signed(pair.difference), pair.difference, _reach(pair)),
            *(Cell(f"{n:,}", n) for n in (pair.wins, pair.ties, pair.losses)),
            Cell(probability(pair.p_corrected), pair.p_corrected),
            Cell(pair.better(made.level) or "undecided"),
        ]
        for data, made in report.findings.comparisons.items()
        for pair in made.pairs
    ]
    caption = (
        f"First minus second, with {report.findings.percent} confidence intervals; wins, ties and "
        f"losses of the first, by {report.benchmarks[0].row_name}"
    )
    return table("tests-table", caption, columns, rows)


def _reach(pair: Pair) -> str:
    """Write the interval of a difference, or an empty text."""
    return "" if isnan(pair.low) else f"{signed(pair.low)} to {signed(pair.high)}"


def _curves(report: Report) -> list[str]:
    what = "Share of targets with rank at most k"
    if report.findings.rankings:
        what = "Recall at k: share of the answers of a query with rank at most k, averaged over queries"
    caption = (
        f"{what}, for each model (higher is better; ties count in part). Short dashes: random "
        "ranking of the same candidates."
    )
    return [card(drawing("curves", report.figures["ranks"], caption))]


def _relations(report: Report) -> list[str]:
    lead = report.findings.lead
    parts = []
    if "relations" in report.figures:
        caption = (
            f"index({lead}) by relation; if there are many, those with the best and the worst mean over "
            "the models. Each relation has its own chance level, at index 0."
        )
        parts.append(drawing("by-relation", report.figures["relations"], caption))
    count = sum(len(groups.get("relation", ())) for groups in report.findings.groups.values())
    every = "The one relation" if count == 1 else f"All {count:,} relations"
    return [card(*parts, folded(every, _groups(report, "relation")))]


def _kinds(report: Report) -> list[str]:
    keys = dict.fromkeys(key for groups in report.findings.groups.values() for key in groups)
    return [card(_groups(report, key)) for key in keys if key != "relation"]


def _groups(report: Report, key: str) -> str:
    """Return a table of groups by a key, with a column per model."""
    models = list(dict.fromkeys(model for benchmark in report.benchmarks for model in benchmark.models))
    columns = [Column("data", label=True, wide=True), Column(key, label=True, pin=True)]
    columns += [Column(report.rows_are), Column(f"chance\n({report.findings.lead})")]
    columns += [Column(model, increasing=True) for model in models]
    rows = []
    for benchmark in report.benchmarks:
        for group in report.findings.groups[benchmark.data].get(key, ()):
            found = dict(zip(benchmark.models, group.index, strict=True))
            values = [found.get(model, nan) for model in models]
            ends = dict(zip(benchmark.models, map(between, group.intervals), strict=True))
            below = [ends.get(model, "") for model in models]
            tops = best(values, increasing=True) if len(found) > 1 else set()
            rows.append(
                [
                    *(Cell(benchmark.data), Cell(group.value, phone=benchmark.data)),
                    Cell(f"{group.count:,}", group.count),
                    Cell(figure(group.chance), group.chance),
                    *(Cell(figure(v), v, below[i], i in tops) for i, v in enumerate(values)),
                ]
            )
    caption = (
        f"index({report.findings.lead}) by {key}, with {report.findings.percent} confidence intervals; "
        "each group has its own chance level"
    )
    return table(f"by-{slug(key)}-table", caption, columns, rows)


def _averages(report: Report) -> list[str]:
    lead = report.findings.lead
    names = list(
        dict.fromkeys(a for made in report.findings.averages.values() for f in made.values() for a in f)
    )
    columns = [*NAMED]
    columns += [Column({"micro": "targets"}.get(name, name), increasing=True) for name in names]
    rows = [
        [
            Cell(benchmark.data),
            Cell(model, phone=benchmark.data),
            *(Cell(figure(v), v) for v in (found.get(name, nan) for name in names)),
        ]
        for benchmark in report.benchmarks
        for model in report.findings.ordered(benchmark)
        if (found := report.findings.averages[benchmark.data].get(model))
    ]
    words = (
        "The micro average over targets is dominated by frequent relations and entities; the macro "
        "averages give every query, or every relation, the same weight. The chance level uses the same "
        "weights."
    )
    made = table("averages-table", f"index({lead}), averaged over", columns, rows)
    return [text(words), card(made, listed(report.findings.unaveraged))]


def _calibration(report: Report) -> list[str]:
    worst = max(report.findings.calibration, key=lambda row: row["ratio"])
    words = (
        "A z-score corresponds to a p-value only as far as the null distribution is normal. Compared "
        f"with a normal distribution, its tail is heaviest on {worst['data']}: random ranking reaches "
        f"z({worst['metric']}) = {worst['z']} with probability {worst['exact']:.1e}, computed for "
        f"independent ranks, a normal distribution with {worst['normal']:.1e}."
    )
    spreads = report.findings.spreads.values()
    if any(spread > 1.0 for spread in spreads):
        low, high = f"{min(spreads):.2f}", f"{max(spreads):.2f}"
        words += (
            f" Here, z is based on a random scorer: as targets share scores, the standard deviation of "
            f"{report.findings.lead} is {low if low == high else f'{low} to {high}'} times that of "
            "independent ranks."
        )
    caption = (
        "Tail probability of z under random ranking, computed for independent ranks, divided by that "
        "of a normal distribution. For a random scorer, whose ranks depend on each other, it is an "
        "approximation."
    )
    return [text(words), card(drawing("calibrated", report.figures["calibration"], caption))]


def _protocol(report: Report) -> list[str]:
    entries = []
    for benchmark in report.benchmarks:
        sizes = benchmark.first.candidates
        span = f"{candidate_range(benchmark.first)} {plural('candidate', int(sizes.max()))}"
        if not benchmark.first.has_candidates:
            span = "an unknown number of candidates"
        elif sizes.min() < sizes.max():
            span += f", on average {figure(benchmark.candidates)}"
        words = replace(benchmark.protocol, ties=report.findings.ties).line(full=True)
        rows = counted(benchmark.count, benchmark.row_name)
        about = f"{rows} among {span}; {join(list(benchmark.models))}."
        chances = _chances(report, benchmark)
        levels = f"Chance levels: {join(chances)}." if chances else "No metric has a chance level."
        lines = (about, levels, words)
        described = "".join(f"<dd>{escape(line)}</dd>" for line in lines)
        entries.append(f"<dt>{escape(benchmark.data)}</dt>{described}")
    words = (
        "How the ranks were computed, as recorded in their files. The eight characters in brackets are "
        "the fingerprint of the protocol: equal protocols have equal fingerprints."
    )
    return [text(words), card(f"<dl>{''.join(entries)}</dl>")]


def _chances(report: Report, benchmark: Benchmark) -> list[str]:
    """Return the chance levels of all metrics that have one."""
    plain = dict.fromkeys(bare(e) for e in report.findings.metrics)
    found = {metric: report.findings.chance(benchmark, metric) for metric in plain}
    return [f"{metric} {figure(value)}" for metric, value in found.items() if not isnan(value)]


def slug(name: str) -> str:
    """Return a name as an HTML id.

    >>> slug("given_degree <1>")
    'given-degree-1'
    """
    return re.sub(r"\W+|_", "-", name.lower()).strip("-")
