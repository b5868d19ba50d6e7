"""Estimating full-ranking metrics from sampled ranks: `evenrank estimate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenrank._internal.progress import Progress
from evenrank.cli._output import show
from evenrank.cli._shell import (
    Average,
    By,
    CandidatesOption,
    FormatOption,
    Level,
    Metrics,
    OwnTies,
    Unit,
    VerboseOption,
    app,
)
from evenrank.metrics.grammar import parse
from evenrank.ranks.ranks import load_several
from evenrank.stats.sampled import Estimator, Vary, estimate_full


@app.command("estimate")
def estimate_command(
    ranks: Annotated[
        list[Path],
        typer.Argument(help="Files of sampled ranks; several files are samples of the same task."),
    ],
    metric: Metrics = None,
    by: By = None,
    full: Annotated[
        int | None, typer.Option(help="Number of candidates of the full ranking, for files without it.")
    ] = None,
    replace: Annotated[
        bool | None,
        typer.Option(
            "--replace/--no-replace",
            help="Candidates were drawn with or without replacement. By default as the protocol says, "
            "else without.",
        ),
    ] = None,
    estimator: Annotated[Estimator, typer.Option(help="Point estimator between the bounds.")] = "em",
    gamma: Annotated[
        float, typer.Option(help="Weight of the variance against the bias, for bv.")
    ] = 0.01,
    vary: Annotated[
        Vary, typer.Option(help="Source of uncertainty: the sampled candidates, or the targets as well.")
    ] = "candidates",
    level: Level = 0.95,
    unit: Unit = None,
    ties: OwnTies = None,
    average: Average = "micro",
    candidates: CandidatesOption = None,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
) -> None:
    """Estimate full-ranking metrics from sampled candidates.

    Shows point estimates, bounds and confidence intervals.

    Examples
    --------
    evenrank estimate sampled.parquet
    evenrank estimate sampled.parquet -m mrr,hits@10 --by side --vary targets
    """
    wanted = [parse(name) for name in metric or ()]
    loaded = load_several(ranks, candidates)
    with Progress("computing bounds"):
        made = estimate_full(
            [one.by(*by.split(",")) for one in loaded] if by else loaded,
            *wanted,
            full=full,
            estimator=estimator,
            gamma=gamma,
            vary=vary,
            level=level,
            unit=unit,
            ties=ties,
            average=average,
            replace=replace,
        )
    show(made, form, verbose=verbose)
