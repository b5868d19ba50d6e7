"""Reports: from files of ranks to one page with words, tables and charts, and to files for papers.

A report is made of ranks alone, and keeps them: a page can be read back (`reload`), joined with more
files, and written anew, with every interval and test computed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal.files import replacing
from evenrank._internal.table import Shown, Table
from evenrank.errors import InputError
from evenrank.graphs import Graph
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, arrow, cell
from evenrank.ranks.ranks import Ranks
from evenrank.report import charts, page
from evenrank.report.contest import Source, gather, read, told
from evenrank.report.findings import LEVEL, Findings, Group, best
from evenrank.report.pieces import between
from evenrank.report.words import probability, summary, title
from evenrank.stats import On, signed

Given = Ranks | str | os.PathLike[str]
FORMS = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
}
SHOWN_RELATIONS = 12  # in a chart: half of them the best, half the worst
ENOUGH = 5  # targets that a relation needs to be shown in a chart


def report(
    path: str | os.PathLike[str],
    *ranks: Given,
    metrics: Sequence[str | Expression] = (),
    ties: Ties | None = None,
    graphs: Sequence[Graph] = (),
    level: float = LEVEL,
    on: On = None,
    candidates: int | None = None,
    keep: bool = True,
) -> Path:
    """Write a report of ranks: a page (.html), or its tables (.tex, .md, .csv, .json).

    `ranks` are files, `Ranks`, or reports to be taken up again. Their protocols name data set (`data`)
    and model (`model`); a file without them is named by its file name. The first plain metric leads.
    `graphs` that were ranked tell what kind each target is (`evenrank.strata`), to break results down.
    `level` is that of intervals and tests, `on` what tells targets apart, as in `evenrank.stats`, and
    `candidates` serves files that lack them.
    `keep=False` leaves the ranks out of the page, which then cannot be read back.
    """
    made = Report(
        *ranks, metrics=metrics, ties=ties, graphs=graphs, level=level, on=on, candidates=candidates
    )
    return made.save(path, keep=keep)


def reload(path: str | os.PathLike[str]) -> Report:
    """Read a report's page back: its ranks, and with them everything else."""
    return Report(path)


class Report(Shown):
    """Models beside each other on the data sets they were ranked on; prints as tables."""

    def __init__(
        self,
        *ranks: Given,
        metrics: Sequence[str | Expression] = (),
        ties: Ties | None = None,
        graphs: Sequence[Graph] = (),
        level: float = LEVEL,
        on: On = None,
        candidates: int | None = None,
    ) -> None:
        """Read, join and evaluate."""
        sources = [source for given in ranks for source in _sources(given, candidates)]
        self.contests = gather(sources, on)
        for graph in graphs:
            self.contests = told(self.contests, graph)
        self.findings = Findings(self.contests, metrics, ties, level)

    @property
    def ranks(self) -> dict[str, dict[str, Ranks]]:
        """The ranks, by data set and model."""
        return {contest.data: dict(contest.models) for contest in self.contests}

    @property
    def evaluation(self) -> Evaluation[Any]:
        """The value of every metric, a row per data set and model."""
        return self.findings.evaluation

    @cached_property
    def title(self) -> str:
        """What is compared, in words."""
        return title(self.contests)

    @cached_property
    def summary(self) -> list[str]:
        """What the report shows, in sentences."""
        return summary(self.findings)

    # As tables --------------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """Lay out the results, best in bold, and the paired tests."""
        return [self._results(), *self._tests()]

    def _results(self) -> Table:
        made, findings = self.evaluation, self.findings
        width = f"{findings.sure} interval"
        lead = findings.metrics.index(findings.lead)
        header = ["data", "model", "targets", *(f"{e} {arrow(e)}".rstrip() for e in made.expressions)]
        header.insert(4 + lead, width)
        rows = []
        for label, count, values in zip(
            made.labels, made.counts, made.values_by_group.tolist(), strict=True
        ):
            row = [
                *label,
                f"{count:,}",
                *(cell(e, v) for e, v in zip(made.expressions, values, strict=True)),
            ]
            row.insert(4 + lead, between(findings.interval(findings.lead, *label)))
            rows.append(row)
        bold = {
            (row, column + 3 + (column > lead)) for column, at in enumerate(self.best()) for row in at
        }
        return Table(header, rows, self.notes(), labels=2, bold=bold)

    def best(self) -> list[set[int]]:
        """Of each metric, the rows that are best on their data set, where there is somebody to beat."""
        made = self.evaluation
        found: list[set[int]] = []
        for column, expression in enumerate(made.expressions):
            rows: set[int] = set()
            for contest in self.contests:
                mine = [i for i, (data, _) in enumerate(made.labels) if data == contest.data]
                values = [float(made.values_by_group[i, column]) for i in mine]
                if len(mine) > 1:
                    rows |= {mine[i] for i in best(values, increasing=expression.increasing)}
            found.append(rows)
        return found

    @property
    def undefined(self) -> list[str]:
        """Say which values and intervals there are none of, and why."""
        return [*self.evaluation.notes, *self.findings.notes]

    def notes(self) -> list[str]:
        """Say what is undefined, and how each data set was ranked."""
        protocols = (f"{c.data}: {replace(c.protocol, ties=self.findings.ties)}" for c in self.contests)
        return [*self.undefined, *protocols]

    def _tests(self) -> list[Table]:
        header = ["data", "first", "second", "difference", "interval", "wins/ties/losses", "p", "better"]
        rows = [
            [
                *(data, pair.first, pair.second, signed(pair.difference)),
                "–" if np.isnan(pair.low) else f"[{signed(pair.low)}, {signed(pair.high)}]",
                f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}",
                *(probability(pair.p_corrected), pair.better(made.level) or "–"),
            ]
            for data, made in self.findings.comparisons.items()
            for pair in made.pairs
        ]
        return (
            [Table(header, rows, [f"{self.findings.sure} intervals; {self.findings.tested}"], labels=3)]
            if rows
            else []
        )

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per data set and model: every value with its interval."""
        found = []
        for row in self.evaluation.rows():
            for expression in self.evaluation:
                _, low, high, *_ = self.findings.interval(expression, row["data"], row["model"])
                row |= {f"{expression} low": low, f"{expression} high": high}
            found.append(row)
        return found

    def content(self, *, groups: bool = True) -> dict[str, Any]:
        """Give all values, tests, words and, if asked, breakdowns."""
        content = {
            "title": self.title,
            "summary": self.summary,
            "level": self.findings.level,
            "results": self.rows(),
            "tests": {name: made.rows() for name, made in self.findings.comparisons.items()},
            "protocols": {contest.data: contest.protocol for contest in self.contests},
            "notes": self.notes(),
        }
        return content | ({"groups": self._group_rows()} if groups else {})

    def _group_rows(self) -> list[dict[str, Any]]:
        lead = self.findings.lead
        return [
            {"data": contest.data, "key": key, "value": group.value, "count": group.count}
            | {f"chance({lead})": group.chance}
            | {f"index({lead})": dict(zip(contest.models, group.index, strict=True))}
            | {
                f"{end} of index({lead})": {
                    model: getattr(interval, end)
                    for model, interval in zip(contest.models, group.intervals, strict=True)
                }
                for end in ("low", "high")
            }
            for contest in self.contests
            for key, groups in self.findings.groups[contest.data].items()
            for group in groups
        ]

    # As charts --------------------------------------------------------------------------------

    @cached_property
    def figures(self) -> dict[str, charts.Chart]:
        """The charts, by name."""
        drawn: dict[str, Callable[[], charts.Chart | None]] = {
            "metrics": self._panels,
            "ranks": lambda: charts.distribution(self.findings.curves()),
            "relations": self._relations,
            "calibration": self._calibration,
        }
        return {name: chart for name, draw in drawn.items() if (chart := draw()) is not None}

    def _panels(self) -> charts.Chart | None:
        paper, lead = self.findings.paper, self.findings.lead
        forms = [
            e for e in paper.expressions if not (isinstance(e, Adjusted) and e.adjustment == "chance")
        ]
        rows: list[dict[str, Any]] = []
        for data, model in paper.labels:
            for expression in forms:
                value, low, high, *_ = self.findings.interval(expression, data, model)
                row = {"data": data, "model": model, "metric": str(expression), "value": value}
                row |= {} if np.isnan(low) else {"low": low, "high": high}
                if expression == lead:
                    row["chance"] = self.findings.value("chance", data, model)
                rows.append(row)
        rows = [row for row in rows if not np.isnan(row["value"])]
        return charts.panels(rows, [str(e) for e in forms]) if rows else None

    def _relations(self) -> charts.Chart | None:
        rows = []
        for contest in self.contests:
            groups = [
                g
                for g in self.findings.groups[contest.data].get("relation", [])
                if not np.isnan(g.index).any()
            ]
            for group in _extremes([g for g in groups if g.count >= ENOUGH] or groups):
                about = {"data": contest.data, "relation": group.value, "count": group.count}
                rows += [
                    about | {"model": model, "value": value}
                    for model, value in zip(contest.models, group.index, strict=True)
                ]
        found = [len(groups.get("relation", ())) for groups in self.findings.groups.values()]
        half = SHOWN_RELATIONS // 2
        note = f"Of many relations, the {half} best and the {half} worst on average."
        note *= max(found) > SHOWN_RELATIONS
        return charts.relations(rows, f"index({self.findings.lead})", note) if rows else None

    def _calibration(self) -> charts.Chart | None:
        rows = self.findings.calibration
        return charts.calibration(rows) if rows else None

    # As files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, keep: bool = True) -> Path:
        """Write the page, or the tables, by the name's ending: whole, or not at all."""
        path = Path(path)
        form = check_ending(path)
        with replacing(path) as file:
            file.touch()  # what cannot be written should show before the work, not after it
            text = self.html(keep=keep) if form == "html" else f"{getattr(self, form)()}\n"
            file.write_text(text, encoding="utf-8")
        return path

    def save_figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every chart as SVG, PNG and PDF into a folder, which is made if need be."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}", got=error.strerror) from None
        return [
            charts.save(chart, folder / f"{name}{ending}")
            for name, chart in self.figures.items()
            for ending in charts.FORMATS
        ]

    def html(self, *, keep: bool = True) -> str:
        """Write the page: one file that needs nothing else."""
        charts.altair()  # if it is missing, that should show before the work
        return page.write(self, keep=keep)


def check_ending(path: Path) -> str:
    """Give the form that a file's name asks for."""
    form = FORMS.get(path.suffix.lower())
    if path.is_dir():
        raise InputError(
            f"cannot write {path}", got="a folder", do=f"name a file, e.g. {path}/report.html"
        )
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}", got=f"no folder {path.parent}", do="make it first")
    if form is None:
        raise InputError("a report is written by its ending", got=path.name, allowed=", ".join(FORMS))
    return form


def _sources(given: Given, candidates: int | None) -> list[Source]:
    """Read what was given; ranks that are no file must say who ranked."""
    if not isinstance(given, Ranks):
        return read(Path(given), candidates)
    if not (given.protocol.model or "").strip():
        raise InputError(
            "ranks without a name for their model",
            got=f"{given!r}",
            do='name it: ranks.with_protocol(model="TransE", data="wn18rr")',
        )
    return [Source(f"{given.protocol.model} ({given!r})", given, "")]


def _extremes(groups: Sequence[Group]) -> list[Group]:
    """Give the groups by falling mean index: all, or where they are many, the best and the worst."""
    ordered = sorted(groups, key=lambda group: -float(np.mean(group.index)))
    half = SHOWN_RELATIONS // 2
    return ordered if len(ordered) <= SHOWN_RELATIONS else [*ordered[:half], *ordered[-half:]]
