"""The page of a report: its sections, put into the template in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from importlib.resources import files
from math import isnan, nan
from typing import TYPE_CHECKING

import evenrank
from evenrank._internal.table import figure
from evenrank.ranks.evaluation import bare, cell
from evenrank.ranks.evaluation import title as heading
from evenrank.report.contest import Contest, pack
from evenrank.report.findings import best
from evenrank.report.pieces import Cell, Column, between, colours, drawing, embedded, listed, table
from evenrank.report.words import join, probability
from evenrank.stats import Pair, plural, signed
from evenrank.stats._join import spans

if TYPE_CHECKING:
    from evenrank.report.document import Report

PLACE = re.compile(r"\{\{(\w+)\}\}")
KEPT = "The ranks are inside: <code>evenrank report</code> takes this page up again, as it does files."


def write(report: Report, *, keep: bool) -> str:
    """Write the page of a report, with its ranks inside or without."""
    sections = [(name, head, "".join(body)) for name, head, body in _sections(report)]
    parts = {
        "version": evenrank.__version__,
        "title": escape(report.title),
        "light": colours(dark=False),
        "dark": colours(dark=True),
        "summary": listed(report.summary),
        "links": " ".join(f'<a href="#{name}">{name.capitalize()}</a>' for name, _, _ in sections),
        "sections": "\n".join(
            f'<section id="{name}"><h2>{head}</h2>{body}</section>' for name, head, body in sections
        ),
        "kept": KEPT if keep else "",
        "values": embedded(report.content(groups=False)),  # these would double the page's tables
        "ranks": embedded([pack(contest) for contest in report.contests] if keep else []),
    }
    template = files("evenrank.report").joinpath("report.html").read_text(encoding="utf-8")
    # one pass: what stands in a name, even {{ranks}}, is never looked at again
    return PLACE.sub(lambda place: parts[place[1]], template)


def _sections(report: Report) -> Iterator[tuple[str, str, list[str]]]:
    """Give the id, the heading and the parts of each section that has something to show."""
    yield "results", "Results", _results(report)
    if report.findings.comparisons:
        yield "tests", "Who beats whom", _tests(report)
    yield "ranks", "Ranks against chance", _curves(report)
    if any("relation" in keys for keys in report.findings.groups.values()):
        yield "relations", "By relation", _relations(report)
    kinds = _kinds(report)
    if kinds:
        yield "kinds", "By kind of target", kinds
    if any(len(found) > 1 for made in report.findings.averages.values() for found in made.values()):
        yield "averages", "By average", _averages(report)
    if report.findings.calibration:
        yield "calibration", "Is z normal?", _calibration(report)
    yield "protocol", "Protocol", _protocol(report)


def card(*parts: str) -> str:
    """Put parts on a card."""
    return f'<div class="card">{"".join(parts)}</div>'


def text(words: str) -> str:
    """Write a paragraph."""
    return f"<p>{escape(words)}</p>"


def folded(head: str, *parts: str) -> str:
    """Write parts that open on demand."""
    return f"<details><summary>{escape(head)}</summary>{''.join(parts)}</details>"


# Sections -----------------------------------------------------------------------------------------


def _results(report: Report) -> list[str]:
    findings = report.findings
    lead = findings.lead
    parts = [
        text(
            f"{lead} as it is, as index (0 is chance, 1 is perfect; it compares across data sets) and "
            "as z (standard deviations better than chance; it grows with the number of targets)."
        )
    ]
    if "metrics" in report.figures:
        caption = (
            f"{lead}, index({lead}) and z({lead}) by data set, from few candidates to many. "
            f"Upright bars are {findings.sure} intervals; level bars and dashes are chance."
        )
        parts.append(card(drawing("metrics", report.figures["metrics"], caption)))
    paper = folded(
        "This table for a paper",
        *(
            f'<p><label for="as-{form}">{name}</label>'
            f'<textarea id="as-{form}" readonly spellcheck="false">'
            f"{escape(getattr(report, form)())}</textarea></p>"
            for form, name in (("latex", "LaTeX"), ("markdown", "Markdown"))
        ),
    )
    return [
        *parts,
        card(
            _results_table(report), listed(note.removeprefix("– ") for note in report.undefined), paper
        ),
    ]


def _results_table(report: Report) -> str:
    made, findings = report.evaluation, report.findings
    columns = [Column("data", label=True), Column("model", label=True), Column("targets")]
    columns += [Column(heading(e), e.increasing) for e in made.expressions]
    tops = report.best()
    rows = []
    for i, (label, count) in enumerate(zip(made.labels, made.counts, strict=True)):
        row = [Cell(label[0]), Cell(label[1]), Cell(f"{count:,}", count)]
        for j, e in enumerate(made.expressions):
            value = float(made.values_by_group[i, j])
            below = between(findings.interval(e, *label))
            row.append(Cell(cell(e, value), value, below, i in tops[j]))
        rows.append(row)
    several = len(made.labels) > len(report.contests)
    caption = f"Values with {findings.sure} intervals" + (
        ", the best of each data set in bold." * several
    )
    return table("results-table", caption, columns, rows)


def _tests(report: Report) -> list[str]:
    columns = [Column(name, label=True) for name in ("data", "first", "second")]
    columns += [Column(name) for name in ("difference", "wins", "ties", "losses")]
    columns += [Column("p", increasing=False), Column("better", label=True)]
    rows = [
        [
            Cell(data),
            Cell(pair.first),
            Cell(pair.second),
            Cell(signed(pair.difference), pair.difference, _reach(pair)),
            *(Cell(f"{n:,}", n) for n in (pair.wins, pair.ties, pair.losses)),
            Cell(probability(pair.p_corrected), pair.p_corrected),
            Cell(pair.better(made.level) or "not shown"),
        ]
        for data, made in report.findings.comparisons.items()
        for pair in made.pairs
    ]
    findings = report.findings
    notes = dict.fromkeys(note for made in findings.comparisons.values() for note in made.notes)
    return [
        text(f"Differences on the same targets, with {findings.sure} intervals: {findings.tested}."),
        card(
            table("tests-table", "Paired comparisons, first minus second", columns, rows), listed(notes)
        ),
    ]


def _reach(pair: Pair) -> str:
    """Write the interval of a difference; nothing, where there is none."""
    return "" if isnan(pair.low) else f"{signed(pair.low)} to {signed(pair.high)}"


def _curves(report: Report) -> list[str]:
    caption = (
        "Share of targets whose rank is at most the one on the axis, for each model; short dashes are "
        "what chance gets with the same candidates. The higher, the better; ties count in part."
    )
    return [card(drawing("curves", report.figures["ranks"], caption))]


def _relations(report: Report) -> list[str]:
    lead = report.findings.lead
    parts = []
    if "relations" in report.figures:
        caption = (
            f"index({lead}) on single relations: where there are many, those with the best and the "
            "worst mean over the models. Each relation has its own chance level, at 0."
        )
        parts.append(drawing("by-relation", report.figures["relations"], caption))
    count = sum(len(groups.get("relation", ())) for groups in report.findings.groups.values())
    every = "The one relation" if count == 1 else f"All {count:,} relations"
    return [card(*parts, folded(every, _groups(report, "relation")))]


def _kinds(report: Report) -> list[str]:
    keys = dict.fromkeys(key for groups in report.findings.groups.values() for key in groups)
    return [card(_groups(report, key)) for key in keys if key != "relation"]


def _groups(report: Report, key: str) -> str:
    """Break every data set down by a key, with a column per model."""
    models = list(dict.fromkeys(model for contest in report.contests for model in contest.models))
    columns = [Column("data", label=True), Column(key, label=True), Column("targets")]
    columns += [Column(f"chance\n({report.findings.lead})")]
    columns += [Column(model, increasing=True) for model in models]
    rows = []
    for contest in report.contests:
        for group in report.findings.groups[contest.data].get(key, ()):
            found = dict(zip(contest.models, group.index, strict=True))
            values = [found.get(model, nan) for model in models]
            ends = dict(zip(contest.models, map(between, group.intervals), strict=True))
            below = [ends.get(model, "") for model in models]
            tops = best(values, increasing=True) if len(found) > 1 else set()
            rows.append(
                [
                    *(Cell(contest.data), Cell(group.value), Cell(f"{group.count:,}", group.count)),
                    Cell(figure(group.chance), group.chance),
                    *(Cell(figure(v), v, below[i], i in tops) for i, v in enumerate(values)),
                ]
            )
    caption = (
        f"index({report.findings.lead}) by {key}, with {report.findings.sure} intervals; each group has "
        "its own chance level."
    )
    return table(f"by-{slug(key)}-table", caption, columns, rows)


def _averages(report: Report) -> list[str]:
    lead = report.findings.lead
    names = list(
        dict.fromkeys(a for made in report.findings.averages.values() for f in made.values() for a in f)
    )
    columns = [Column("data", label=True), Column("model", label=True)]
    columns += [Column({"micro": "targets"}.get(name, name), increasing=True) for name in names]
    rows = [
        [
            Cell(data),
            Cell(model),
            *(Cell(figure(v), v) for v in (found.get(name, nan) for name in names)),
        ]
        for data, made in report.findings.averages.items()
        for model, found in made.items()
    ]
    words = (
        "Over targets, frequent relations and hubs decide; over queries or relations, each counts "
        "alike, however many targets it has. Chance is that of the same weights."
    )
    made = table("averages-table", f"index({lead}), averaged over", columns, rows)
    return [text(words), card(made, listed(report.findings.unaveraged))]


def _calibration(report: Report) -> list[str]:
    worst = max(report.findings.calibration, key=lambda row: row["ratio"])
    words = (
        "z counts standard deviations, exactly; to read it as a probability one would need chance to be "
        f"normal. It is not quite: on {worst['data']}, chance reaches z({worst['metric']}) = "
        f"{worst['z']} with probability {worst['exact']:.1e}, a normal law would with "
        f"{worst['normal']:.1e}."
    )
    caption = "How many times as often as a normal law chance reaches a z, exactly, for each data set."
    return [text(words), card(drawing("calibrated", report.figures["calibration"], caption))]


def _protocol(report: Report) -> list[str]:
    entries = []
    for contest in report.contests:
        sizes = contest.first.candidates
        span = f"{spans(contest.first)} {plural('candidate', int(sizes.max()))}"
        if sizes.min() < sizes.max():
            span += f", on average {figure(contest.candidates)}"
        words = replace(contest.protocol, ties=report.findings.ties).line(full=True)
        n = contest.sizes.total
        about = f"{n:,} {plural('target', n)} among {span}; {join(list(contest.models))}."
        lines = (about, f"Chance gets {join(_chances(report, contest))}.", words)
        said = "".join(f"<dd>{escape(line)}</dd>" for line in lines)
        entries.append(f"<dt>{escape(contest.data)}</dt>{said}")
    words = (
        "What was asked, and how, as the files of ranks say; the eight characters tell protocols apart."
    )
    return [text(words), card(f"<dl>{''.join(entries)}</dl>")]


def _chances(report: Report, contest: Contest) -> list[str]:
    """Say what chance gets, in every metric that has a chance level."""
    plain = dict.fromkeys(bare(e) for e in report.findings.metrics)
    found = {metric: report.findings.chance(contest, metric) for metric in plain}
    return [f"{metric} {figure(value)}" for metric, value in found.items() if not isnan(value)] or [
        "nothing"
    ]


def slug(name: str) -> str:
    """Make an id of a name.

    >>> slug("given_degree <1>")
    'given-degree-1'
    """
    return re.sub(r"\W+|_", "-", name.lower()).strip("-")
