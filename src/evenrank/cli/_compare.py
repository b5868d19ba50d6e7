"""Comparing models: `evenrank compare`, `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evenrank._internal.progress import Progress
from evenrank.cli._latex import data_and_model, show_latex, with_latex
from evenrank.cli._output import show
from evenrank.cli._shell import (
    Average,
    CandidatesOption,
    ChanceOption,
    ColumnsOption,
    Format,
    FormatOption,
    KindOption,
    Level,
    Metrics,
    OwnTies,
    Samples,
    Seed,
    Unit,
    VerboseOption,
    app,
    check_unused,
    file_names,
    once,
)
from evenrank.errors import InputError
from evenrank.graphs import load
from evenrank.graphs.strata import STRATA
from evenrank.ranks.paper import Style
from evenrank.ranks.protocol import to_agree
from evenrank.ranks.rankings import AnyRanks, load_each
from evenrank.report.document import Report, check_ending
from evenrank.stats import Correction, Test, across_datasets, compare, one_kind

On = Annotated[
    str | None,
    typer.Option(
        help="Key columns that identify a target; or row, if row i is the same target everywhere."
    ),
]


@app.command("compare")
@with_latex
def compare_command(
    context: typer.Context,
    ranks: Annotated[
        list[Path], typer.Argument(help="Files of ranks, one per model (and data set, with --across).")
    ],
    metric: Metrics = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare all models with this one (a file name without suffix).")
    ] = None,
    across_data: Annotated[
        bool,
        typer.Option(
            "--across", help="Compare across data sets: index, z, mean ranks, critical difference."
        ),
    ] = False,
    test: Annotated[Test, typer.Option(help="Paired test.")] = "permutation",
    correction: Annotated[Correction, typer.Option(help="Correction for multiple tests.")] = "holm",
    level: Level = 0.95,
    unit: Unit = None,
    on: On = None,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Allow models that were ranked under different protocols.")
    ] = False,
    samples: Samples = 10_000,
    seed: Seed = 0,
    ties: OwnTies = None,
    average: Average = "micro",
    candidates: CandidatesOption = None,
    kind: KindOption = None,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
    *,
    style: Style,
) -> None:
    """Compare models: differences, intervals, paired tests.

    Examples
    --------
    evenrank compare transe.parquet rotate.parquet
    evenrank compare *.parquet -m mrr,hits@10 --baseline transe -o table.tex
    """
    once(ranks, "model")
    wanted = metric or [""]
    if across_data:
        others = "baseline test correction unit on mixed samples seed"
        check_unused(
            context, others, "--across compares the order of models on each data set, not their targets"
        )
        if len(wanted) > 1:
            got = ", ".join(map(str, wanted))
            raise InputError(
                "--across orders models by one metric", got=got, do="run it once per metric"
            )
    models = load_each(ranks, candidates, rankings=kind == "rankings")
    one_kind(dict(zip(map(str, ranks), models, strict=True)))
    if across_data:
        made = across_datasets(
            _by_data(ranks, models), wanted[0] or None, level=level, ties=ties, average=average
        )
        if form == "latex":
            show_latex(made, style)
            return
        show(made, form, verbose=verbose)
        return
    graphs = dict.fromkeys(one.protocol.data for one in models if one.protocol.data)
    if len(graphs) > 1 and not mixed and "data" in to_agree([one.protocol for one in models]):
        raise InputError(
            "the files are of different data sets", got=", ".join(graphs), do="use --across"
        )
    names = file_names(ranks)
    if form == "latex":  # which prints models, not files
        named = [model for _, model in data_and_model([*map(str, ranks)], [m.protocol for m in models])]
        if len(set(named)) == len(named):
            baseline = named[names.index(baseline)] if baseline in names else baseline
            names = named
    result = compare(
        dict(zip(names, models, strict=True)),
        metrics=metric or None,
        baseline=baseline,
        test=test,
        correction=correction,
        level=level,
        unit=unit,
        on=on,
        mixed=mixed,
        samples=samples,
        seed=seed,
        ties=ties,
        average=average,
    )
    if form == "latex":
        show_latex(result, style)
        return
    show(result, form, verbose=verbose)


def _by_data(paths: Sequence[Path], loaded: Sequence[AnyRanks]) -> dict[str, dict[str, AnyRanks]]:
    """Sort ranks by data set and model."""
    labels = data_and_model([*map(str, paths)], [r.protocol for r in loaded], paths=False)
    found: dict[str, dict[str, AnyRanks]] = {name: {} for name, _ in labels}
    for (name, model), ranks in zip(labels, loaded, strict=True):
        found[name][model] = ranks
    return found


@app.command("report")
@with_latex
def report_command(
    ranks: Annotated[
        list[Path],
        typer.Argument(help="Files of ranks (.parquet, .csv, .tsv), or earlier reports (.html)."),
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: the page (.html), or its tables (.tex, .md, .csv, .json); repeatable. "
            "By default report.html.",
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also save every chart in this folder, as SVG, PNG and PDF.")
    ] = None,
    metric: Metrics = None,
    ties: OwnTies = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help=f"Graph that was ranked, to group by {', '.join(STRATA)}; repeatable."),
    ] = None,
    columns: ColumnsOption = None,
    level: Level = 0.95,
    on: On = None,
    candidates: CandidatesOption = None,
    chance: ChanceOption = None,
    keep: Annotated[
        bool,
        typer.Option("--ranks/--no-ranks", help="Store the ranks in the page, so it can be reopened."),
    ] = True,
    verbose: VerboseOption = False,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Print the tables in this format, instead of writing a page."),
    ] = None,
    *,
    style: Style,
) -> None:
    """Write a report on models and data sets as one HTML page.

    The page has a summary, tables, paired tests and charts, and works offline.

    Examples
    --------
    evenrank report transe.parquet rotate.parquet
    evenrank report *.parquet -m mrr,hits@10 -o report.html -o tables.md
    """
    paths = out or ([] if form else [Path("report.html")])
    for path in paths:  # before the work, not after it
        check_ending(path)
    if columns is not None and not data:
        raise InputError("--columns needs a graph", do="name it with --data NAME_OR_FOLDER")
    graphs = [load(name, columns=columns) for name in data or ()]
    with Progress("reading ranks"):
        report = Report(
            *ranks,
            metrics=metric or (),
            ties=ties,
            graphs=graphs,
            level=level,
            on=on,
            candidates=candidates,
            chance=chance,
        )
    if form == "latex":
        typer.echo(report.to_latex(**style))
    elif form is not None:
        show(report, form, verbose=verbose)
    for path in paths:
        with Progress(f"computing and writing {path}"):
            report.save(path, keep=keep, **style)
        typer.echo(f"{path}: {path.stat().st_size / 1000:,.0f} kB", err=form is not None)
    if figures is not None:
        with Progress(f"drawing {figures}"):
            written = report.save_figures(figures)
        typer.echo(f"{figures}: {len(written)} charts", err=form is not None)
