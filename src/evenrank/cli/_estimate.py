"""From sampled ranks to what a full ranking would have given: `evenrank estimate`."""

from __future__ import annotations

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
    By,
    CandidatesOption,
    Level,
    Metrics,
    OwnTies,
    Unit,
    app,
    chosen_form,
    show,
)
from evenrank.metrics.grammar import parse
from evenrank.ranks.ranks import Ranks
from evenrank.stats.sampled import Estimator, Vary, estimate_full


@app.command("estimate")
def estimate_command(
    ranks: Annotated[
        list[Path],
        typer.Argument(help="Ranks among sampled candidates; several files are samples of one task."),
    ],
    metric: Metrics = None,
    by: By = None,
    full: Annotated[
        int | None,
        typer.Option(help="Candidates of the full ranking, for files that do not say."),
    ] = None,
    estimator: Annotated[
        Estimator, typer.Option(help="The guess between bounds: em, bv or cls.")
    ] = "em",
    gamma: Annotated[float, typer.Option(help="What variance counts beside bias, in bv.")] = 0.01,
    vary: Annotated[
        Vary,
        typer.Option(help="What might have come out otherwise: the candidates drawn, or targets too."),
    ] = "candidates",
    level: Level = 0.95,
    unit: Unit = None,
    ties: OwnTies = None,
    average: Average = "micro",
    candidates: CandidatesOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Estimate a full ranking from sampled candidates: what can be said, and how surely."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    wanted = [parse(name) for name in metric or ()]
    loaded = [Ranks.load(path, candidates=candidates) for path in ranks]
    with Progress("finding bounds"):
        made = estimate_full(
            [one.by(*by.split(",")) for one in loaded] if by else loaded,
            *wanted,
            full=full,
            estimator=estimator,
            gamma=gamma,
            vary=vary,
            level=level,
            by=unit,
            ties=ties,
            average=average,
        )
    show(made, form)
