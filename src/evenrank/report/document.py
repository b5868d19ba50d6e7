"""Reports: a page with a summary, tables and charts, made from ranks, and tables for papers.

A page stores the ranks it was made from: it can be read again (`reload`), extended by more files, and
written anew, with all intervals and tests recomputed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack, get_args

import numpy as np

from evenrank._internal.checks import check_choice
from evenrank._internal.columns import as_list
from evenrank._internal.files import as_path, replacing
from evenrank._internal.table import Shown, Table
from evenrank.errors import InputError, Option
from evenrank.graphs import Graph
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import Metrics, listed
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, cell
from evenrank.ranks.evaluation import title as column_title
from evenrank.ranks.files import KeyColumns
from evenrank.ranks.paper import ANSWERS, DEFAULT, Style
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.selection import rows_of
from evenrank.report import charts, page
from evenrank.report.benchmark import Source, align, read, with_strata
from evenrank.report.findings import LEVEL, Findings, Group, best
from evenrank.report.markup import between
from evenrank.report.summary import probability, summary, title
from evenrank.stats import On, paper, signed

One: TypeAlias = AnyRanks | str | os.PathLike[str]
Given: TypeAlias = One | Mapping[str, One] | Iterable[One | Mapping[str, One]]
FORMS = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
}
SHOWN_RELATIONS = 12  # in a chart: the best half and the worst half
ENOUGH = 5  # targets of a relation shown in a chart


def reload(path: str | os.PathLike[str]) -> Report:
    """Read a page: its ranks, and thereby the whole report."""
    return Report(path)


class Report(Shown):
    """Models side by side on the data sets they were ranked on; prints as tables.

    The parameters are those of `evenrank.report`; `of_paper` has the usual metrics of papers.
    """

    def __init__(
        self,
        *ranks: Given,
        metrics: Metrics = (),
        ties: Ties | None = None,
        graphs: Graph | Iterable[Graph] = (),
        level: float = LEVEL,
        on: On = None,
        candidates: int | None = None,
        chance: Chance | None = None,
        of_paper: bool = False,
    ) -> None:
        keys = KeyColumns()
        sources = [source for given in ranks for source in _sources(given, candidates, keys)]
        if chance is not None:
            check_choice("chance", chance, get_args(Chance))
            if any(isinstance(source.ranks, Rankings) for source in sources):
                raise InputError(
                    "queries share no scores: their ranks are independent by chance",
                    got=f"chance={chance!r} for rankings",
                    do=["leave out ", Option("chance")],
                )
            sources = [replace(s, ranks=s.ranks.with_protocol(chance=chance)) for s in sources]
        self.benchmarks = align(sources, on)
        for graph in _graphs(graphs):
            self.benchmarks = with_strata(self.benchmarks, graph)
        wanted = listed([metrics])
        if of_paper and not wanted:
            rankings = isinstance(self.benchmarks[0].first, Rankings)
            wanted = [*(ANSWERS if rankings else DEFAULT)]
        self.findings = Findings(self.benchmarks, wanted, ties, level)

    @property
    def ranks(self) -> dict[str, dict[str, AnyRanks]]:
        """The ranks, by data set and model."""
        return {benchmark.data: dict(benchmark.models) for benchmark in self.benchmarks}

    @property
    def evaluation(self) -> Evaluation[Any]:
        """The value of every metric, by data set and model."""
        return self.findings.evaluation

    @property
    def rows_are(self) -> str:
        """What the benchmarks consist of: targets or queries."""
        return rows_of(self.benchmarks[0].row_name)

    @cached_property
    def title(self) -> str:
        """The title: models and data sets."""
        return title(self.benchmarks)

    @cached_property
    def summary(self) -> list[str]:
        """The summary, in sentences."""
        return summary(self.findings)

    # As tables --------------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """Return the results, best values in bold, and the paired tests as tables."""
        return [self._results(), *self._tests()]

    def _results(self) -> Table:
        made, findings = self.evaluation, self.findings
        width = f"{findings.percent} interval"
        lead = findings.metrics.index(findings.lead)
        header = ["data", "model", self.rows_are, *map(column_title, made.expressions)]
        header.insert(4 + lead, width)
        rows = []
        order = self.order()
        for i in order:
            values = made.values_by_group[i].tolist()
            row = [
                *made.labels[i],
                f"{made.counts[i]:,}",
                *(cell(e, v) for e, v in zip(made.expressions, values, strict=True)),
            ]
            row.insert(4 + lead, between(findings.interval(findings.lead, *made.labels[i])))
            rows.append(row)
        bold = {
            (order.index(i), column + 3 + (column > lead))
            for column, at in enumerate(self.best())
            for i in at
        }
        optional = [str(e) for e in reversed(made.expressions) if e != findings.lead]
        optional = [self.rows_are, *optional, width]
        return Table(header, rows, self.notes(), labels=2, bold=bold, optional=optional)

    def order(self) -> list[int]:
        """Return the rows of the evaluation by data set and score, the best model first."""
        labels = self.evaluation.labels
        return [
            labels.index((benchmark.data, model))
            for benchmark in self.benchmarks
            for model in self.findings.ordered(benchmark)
        ]

    def best(self) -> list[set[int]]:
        """Return the rows that are best on their data set, for each metric; none for single models."""
        made = self.evaluation
        found: list[set[int]] = []
        for column, expression in enumerate(made.expressions):
            rows: set[int] = set()
            for benchmark in self.benchmarks:
                mine = [i for i, (data, _) in enumerate(made.labels) if data == benchmark.data]
                values = [float(made.values_by_group[i, column]) for i in mine]
                if len(mine) > 1:
                    rows |= {mine[i] for i in best(values, increasing=expression.increasing)}
            found.append(rows)
        return found

    @property
    def undefined(self) -> list[str]:
        """Reasons for undefined values, missing intervals and missing tests."""
        return [*self.evaluation.notes, *self.findings.notes]

    def notes(self) -> list[str]:
        """Return reasons for undefined values, and the protocol of each data set."""
        protocols = (
            replace(c.protocol, ties=self.findings.ties).note({"data": c.data}, prefix=f"{c.data}: ")
            for c in self.benchmarks
        )
        return [*self.undefined, *protocols]

    def _tests(self) -> list[Table]:
        header = ["data", "first", "second", "difference", "interval", "wins/ties/losses"]
        header += ["corrected p", "better"]
        rows = [
            [
                *(data, pair.first, pair.second, signed(pair.difference)),
                "–" if np.isnan(pair.low) else f"[{signed(pair.low)}, {signed(pair.high)}]",
                f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}",
                *(probability(pair.p_corrected), pair.better(made.level) or "undecided"),
            ]
            for data, made in self.findings.comparisons.items()
            for pair in made.pairs
        ]
        return (
            [
                Table(
                    header,
                    rows,
                    [f"{self.findings.percent} confidence intervals; {self.findings.tested}"],
                    labels=3,
                    optional=("wins/ties/losses", "interval"),
                )
            ]
            if rows
            else []
        )

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write the results as a table for a paper, in LaTeX, and the tests as another.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label.

        Returns
        -------
        str
            LaTeX text; more tests than fit a page are left out.
        """
        made = self.findings.comparisons
        tables = [paper.marked(self.evaluation, made, style), paper.pair_table(made, style)]
        return "\n\n".join(filter(None, tables))

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per data set and model, with every value and its interval."""
        found = []
        for row in self.evaluation.rows():
            for expression in self.evaluation:
                _, low, high, *_ = self.findings.interval(expression, row["data"], row["model"])
                row |= {f"{expression} low": low, f"{expression} high": high}
            found.append(row)
        return found

    def content(self, *, groups: bool = True) -> dict[str, Any]:
        """Return all values, tests and texts, and optionally the groups."""
        content = {
            "title": self.title,
            "summary": self.summary,
            "level": self.findings.level,
            "results": self.rows(),
            "tests": {name: made.rows() for name, made in self.findings.comparisons.items()},
            "across": self.findings.across and self.findings.across.content(),
            "protocols": {one.data: one.protocol.to_dict() for one in self.benchmarks},
            "notes": self.notes(),
        }
        return content | ({"groups": self._group_rows()} if groups else {})

    def _group_rows(self) -> list[dict[str, Any]]:
        lead = self.findings.lead
        return [
            {"data": benchmark.data, "key": key, "value": group.value, "count": group.count}
            | {f"chance({lead})": group.chance}
            | {f"index({lead})": dict(zip(benchmark.models, group.index, strict=True))}
            | {
                f"{end} of index({lead})": {
                    model: getattr(interval, end)
                    for model, interval in zip(benchmark.models, group.intervals, strict=True)
                }
                for end in ("low", "high")
            }
            for benchmark in self.benchmarks
            for key, groups in self.findings.groups[benchmark.data].items()
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
        for benchmark in self.benchmarks:
            groups = [
                g
                for g in self.findings.groups[benchmark.data].get("relation", [])
                if not np.isnan(g.index).any()
            ]
            for group in _extremes([g for g in groups if g.count >= ENOUGH] or groups):
                about = {"data": benchmark.data, "relation": group.value, "count": group.count}
                rows += [
                    about | {"model": model, "value": value}
                    for model, value in zip(benchmark.models, group.index, strict=True)
                ]
        found = [len(groups.get("relation", ())) for groups in self.findings.groups.values()]
        half = SHOWN_RELATIONS // 2
        note = f"Shown: the {half} best and the {half} worst relations on average."
        note *= max(found) > SHOWN_RELATIONS
        return charts.relations(rows, f"index({self.findings.lead})", note) if rows else None

    def _calibration(self) -> charts.Chart | None:
        rows = self.findings.calibration
        return charts.calibration(rows) if rows else None

    # As files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, keep: bool = True, **style: Unpack[Style]) -> Path:
        """Write the page, or its tables, atomically.

        Parameters
        ----------
        path : path-like
            File to write; the suffix selects the format (.html, .json, .csv, .md, .tex).
        keep : bool, default True
            Whether to store the ranks in the page.
        **style : Style
            Options of `evenrank.latex`, for tables in LaTeX.

        Returns
        -------
        Path
            The path of the file.
        """
        path = as_path(path)
        form = check_ending(path)
        with replacing(path) as file:
            file.touch()  # fail before the work, not after it
            if form == "html":
                text = self.html(keep=keep)
            else:
                write = (
                    partial(self.to_latex, **style) if form == "latex" else getattr(self, f"to_{form}")
                )
                text = f"{write()}\n"
            file.write_text(text, encoding="utf-8")
        return path

    def save_figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Save every chart as SVG, PNG and PDF in a folder, and return the paths."""
        folder = as_path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot create the folder {folder}", got=error.strerror) from None
        return [
            charts.save(chart, folder / f"{name}{ending}")
            for name, chart in self.figures.items()
            for ending in charts.FORMATS
        ]

    def html(self, *, keep: bool = True) -> str:
        """Return the page as one self-contained HTML document."""
        self.findings.start()
        return page.write(self, keep=keep)


def check_ending(path: Path) -> str:
    """Return the format of a path; raise `InputError` if it cannot be written."""
    form = FORMS.get(path.suffix.lower())
    if path.is_dir():
        raise InputError(
            f"cannot write {path}", got="a folder", do=f"name a file, e.g. {path}/report.html"
        )
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}", got=f"no folder {path.parent}", do="create it first")
    if form is None:
        raise InputError("unknown format of a report", got=path.name, allowed=", ".join(FORMS))
    return form


def _graphs(given: Graph | Iterable[Graph]) -> list[Graph]:
    """Return graphs as a list, after checking them."""
    graphs = (
        [given] if isinstance(given, Graph | str) or not isinstance(given, Iterable) else list(given)
    )
    for graph in graphs:
        if not isinstance(graph, Graph):
            raise InputError(
                "graphs must be Graph objects", got=repr(graph), do="use evenrank.load(...)"
            )
    return graphs


def _sources(given: Any, candidates: int | None, keys: KeyColumns) -> list[Source]:
    """Read ranks, a file, a report, or a collection of these."""
    if isinstance(given, Ranks | Rankings):
        if not (given.protocol.model or "").strip():
            raise InputError(
                "ranks without the name of a model",
                got=repr(given),
                do='pass {"TransE": ranks}, or name it: ranks.with_protocol(model="TransE")',
            )
        return [Source(given.protocol.model or "", given, "")]
    if isinstance(given, str | os.PathLike):
        return read(Path(given), candidates, keys)
    if isinstance(given, Mapping):
        return [_named(str(name), one, candidates, keys) for name, one in given.items()]
    if (several := as_list(given)) is not None:
        return [source for one in several for source in _sources(one, candidates, keys)]
    raise InputError(
        "not ranks", got=repr(given)[:40], allowed="Ranks, Rankings, files of these, reports"
    )


def _named(model: str, given: Any, candidates: int | None, keys: KeyColumns) -> Source:
    """Read the ranks of a single model and name it."""
    if isinstance(given, Ranks | Rankings):
        return Source(model, given.with_protocol(model=model), model)
    sources = _sources(given, candidates, keys)
    if len(sources) != 1:
        raise InputError(f"{given} has {len(sources)} models, but only one name", got=repr(model))
    return replace(sources[0], ranks=sources[0].ranks.with_protocol(model=model))


def _extremes(groups: Sequence[Group]) -> list[Group]:
    """Return groups by decreasing mean index; of many groups only the best and the worst."""
    ordered = sorted(groups, key=lambda group: -float(np.mean(group.index)))
    half = SHOWN_RELATIONS // 2
    return ordered if len(ordered) <= SHOWN_RELATIONS else [*ordered[:half], *ordered[-half:]]
