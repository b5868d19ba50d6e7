"""From numbers to claims: `evenrank compare`, `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evenrank._internal.progress import Progress
from evenrank.cli._shell import (
    AsCsv,
    AsJson,
    AsLatex,
    AsMarkdown,
    Average,
    CandidatesOption,
    Level,
    Metrics,
    OwnTies,
    Samples,
    Seed,
    Unit,
    app,
    chosen_form,
    file_names,
    once,
    refuse,
    show,
)
from evenrank.errors import InputError
from evenrank.graphs import load
from evenrank.graphs.strata import STRATA
from evenrank.ranks.ranks import Ranks
from evenrank.report import Report
from evenrank.report.document import check_ending
from evenrank.stats import Correction, Test, across_datasets, compare

On = Annotated[
    str | None,
    typer.Option(help="Key columns that tell targets apart; or row, where row i is the same in each."),
]


@app.command("compare")
def compare_command(
    context: typer.Context,
    ranks: Annotated[
        list[Path],
        typer.Argument(help="Files of ranks, one per model (and data set, with --across)."),
    ],
    metric: Metrics = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare all with this model (a file's name without ending).")
    ] = None,
    across_data: Annotated[
        bool,
        typer.Option(
            "--across", help="Compare across data sets: index, z, average ranks, critical difference."
        ),
    ] = False,
    test: Annotated[Test, typer.Option(help="The paired test.")] = "permutation",
    correction: Annotated[Correction, typer.Option(help="How p is corrected for many tests.")] = "holm",
    level: Level = 0.95,
    unit: Unit = None,
    on: On = None,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Compare models that were ranked in different ways.")
    ] = False,
    samples: Samples = 10_000,
    seed: Seed = 0,
    ties: OwnTies = None,
    average: Average = "micro",
    candidates: CandidatesOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Compare models on the same targets: differences, intervals around them, paired tests."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    once(ranks, "model")
    wanted = metric or ["mrr"]
    if across_data:
        others = "baseline test correction unit on mixed samples seed"
        refuse(context, others, "--across tests the order of models on each data set, not their targets")
        if len(wanted) > 1:
            got = ", ".join(wanted)
            raise InputError("--across orders models by one metric", got=got, do="ask once for each")
    models = [Ranks.load(path, candidates=candidates) for path in ranks]
    if across_data:
        made = across_datasets(
            _by_data(ranks, models), wanted[0], level=level, ties=ties, average=average
        )
        show(made, form)
        return
    result = compare(
        dict(zip(file_names(ranks), models, strict=True)),
        metrics=wanted,
        baseline=baseline,
        test=test,
        correction=correction,
        level=level,
        by=unit,
        on=on,
        mixed=mixed,
        samples=samples,
        seed=seed,
        ties=ties,
        average=average,
    )
    show(result, form)


def _by_data(paths: Sequence[Path], loaded: Sequence[Ranks]) -> dict[str, dict[str, Ranks]]:
    """Sort files by data set and model, as their protocols name these; else by folder and file name.

    Where two models on one data set have the same name, as variants of one have, files name them all.
    """
    both = list(zip(paths, loaded, strict=True))
    data = [ranks.protocol.data or path.resolve().parent.name for path, ranks in both]
    models = [ranks.protocol.model or path.stem for path, ranks in both]
    if len(set(zip(data, models, strict=True))) < len(both):
        models = [path.stem for path in paths]
    found: dict[str, dict[str, Ranks]] = {name: {} for name in data}
    for name, model, ranks in zip(data, models, loaded, strict=True):
        if model in found[name]:
            raise InputError(
                "one model twice on a data set",
                got=f"{model} on {name}",
                do="give one file of each; seeds are for evenrank evaluate --runs",
            )
        found[name][model] = ranks
    return found


@app.command("report")
def report_command(
    ranks: Annotated[
        list[Path], typer.Argument(help="Files of ranks (.parquet, .csv, .tsv), or reports (.html).")
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            help="Write this: .html, the page (report.html), or .tex, .md, .csv, .json, its tables; "
            "repeatable.",
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write every chart into this folder, as SVG, PNG and PDF.")
    ] = None,
    metric: Metrics = None,
    ties: OwnTies = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help=f"A graph that was ranked, to split by {', '.join(STRATA)}; repeatable."),
    ] = None,
    level: Level = 0.95,
    on: On = None,
    candidates: CandidatesOption = None,
    keep: Annotated[
        bool, typer.Option("--ranks/--no-ranks", help="Keep the ranks in the page, to be read back.")
    ] = True,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Write one page on models and data sets: words, tables, tests, charts; all it needs is inside."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    paths = out or ([] if form != "text" else [Path("report.html")])
    for path in paths:  # what cannot be written should show before the work, not after it
        check_ending(path)
    graphs = [load(name) for name in data or ()]
    with Progress("reading ranks"):
        report = Report(
            *ranks,
            metrics=metric or (),
            ties=ties,
            graphs=graphs,
            level=level,
            on=on,
            candidates=candidates,
        )
    if form != "text":
        typer.echo(getattr(report, form)())
    for path in paths:
        with Progress(f"working out and writing {path}"):
            report.save(path, keep=keep)
        typer.echo(f"{path}: {path.stat().st_size / 1000:,.0f} kB", err=form != "text")
    if figures is not None:
        with Progress(f"drawing into {figures}"):
            written = report.save_figures(figures)
        typer.echo(f"{figures}: {len(written)} charts", err=form != "text")
