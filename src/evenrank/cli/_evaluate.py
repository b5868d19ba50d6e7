"""From ranks to numbers: `evenrank evaluate`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from evenrank._internal.table import Shown, Table
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
    Samples,
    Seed,
    Unit,
    app,
    chosen_form,
    file_names,
    once,
    print_table,
    refuse,
    show,
)
from evenrank.errors import InputError
from evenrank.graphs import load
from evenrank.graphs.strata import STRATA, strata
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import ALIASES, HITS_NAMES, NAMES, parse
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ties
from evenrank.ranking import cluster
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.protocol import shared
from evenrank.ranks.ranks import Ranks, tie_rule
from evenrank.ranks.streams import Tallies, is_several, side_by_side, stream
from evenrank.stats import Method, intervals, summarize_runs
from evenrank.stats.averages import AVERAGES, averages, one_count


@app.command("evaluate")
def metrics(
    context: typer.Context,
    ranks: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files of ranks (.parquet, .csv, .tsv), a row each; or folders, quoted patterns "
            "('ranks/*.parquet') and URLs, whose files count as one."
        ),
    ] = None,
    metric: Metrics = None,
    by: By = None,
    ties: OwnTies = None,
    average: Average = "micro",
    every_average: Annotated[
        bool,
        typer.Option("--averages", help="Over targets, queries and relations, side by side."),
    ] = False,
    runs: Annotated[
        bool,
        typer.Option(
            "--runs", help="Sum up the runs (seeds, folds) of each model the files name: mean, sd, n."
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(help=f"The graph that was ranked, to split by {', '.join(STRATA)}."),
    ] = None,
    interval: Annotated[
        Method | None, typer.Option(help="Give intervals too: by the delta method or the bootstrap.")
    ] = None,
    level: Level = 0.95,
    unit: Unit = None,
    samples: Samples = 10_000,
    seed: Seed = 0,
    candidates: CandidatesOption = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Count by the workers of a Dask scheduler: its address, or local."),
    ] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave files that cannot be read out, and say so.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List every metric and stop.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Evaluate ranks: every metric, its chance level, and what is left above chance."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    if list_all:
        _list_metrics(form)
        return
    if not ranks:
        raise InputError("no file of ranks given", do="evenrank evaluate FILE..., or evenrank demo")
    wanted: list[str | Expression] = [*(metric or ())]
    if every_average and average != "micro":
        raise InputError("--averages shows all of them", got=f"--average {average} as well")
    if runs:
        others = "by every_average interval level unit samples seed dask skip_damaged"
        refuse(context, others, "--runs gives the mean, sd and number of whole files")
    if interval is None:
        what = "--level, --unit, --samples and --seed are of intervals"
        refuse(context, "level unit samples seed", what, do="ask for these with --interval")
    keys = tuple(by.split(",")) if by else ()
    # a tally has no rows to draw from, to join with a graph, or to weigh by what comes later
    whole = not dask and not skip_damaged and not any(map(is_several, ranks))
    told = not set(STRATA).isdisjoint([*keys, *average.split(",")])  # a stream has them as columns
    needs_rows = {
        "--runs": runs,
        "--interval": interval is not None,
        "--averages": every_average,
        "--data": data is not None or (whole and told),
    }
    if not any(needs_rows.values()) and (average == "micro" or not whole):
        question = {"by": keys, "average": average, "candidates": candidates}
        counted = _streamed(ranks, dask, **question, skip_damaged=skip_damaged, progress=not quiet)
        show(_evaluated(ranks, counted, wanted, ties), form)
        return
    if not whole:
        option = next(option for option, asked in needs_rows.items() if asked)
        raise InputError(
            f"{option} needs all ranks at once, which a stream never has",
            got="several files, a URL, --dask or --skip-damaged",
            do="give one file for each model",
        )
    paths = list(map(Path, ranks))
    loaded = [Ranks.load(path, candidates=candidates) for path in paths]
    loaded = _stratified(loaded, (*keys, *average.split(",")), data)
    ties = tie_rule(loaded, ties)
    made: Shown
    if runs:
        made = summarize_runs(_runs(paths, loaded), *wanted, ties=ties, average=average)
    elif interval is not None:
        split = [one.by(*keys) if keys else one for one in loaded]
        given = dict(zip(file_names(paths), split, strict=True)) if len(split) > 1 else split[0]
        made = intervals(
            given,
            *wanted,
            level=level,
            method=interval,
            by=unit,
            samples=samples,
            seed=seed,
            ties=ties,
            average=average,
            averages=every_average,
        )
    elif len(loaded) > 1:
        shown = AVERAGES if every_average else (average,)
        made = rows_per_file(paths, loaded, wanted, keys, ties, shown)
    elif every_average:
        made = averages(loaded[0], *wanted, by=keys, ties=ties)
    else:
        source = loaded[0].by(*keys) if keys else loaded[0]
        made = source.evaluate(*wanted, ties=ties, average=average)
    show(made, form)


def _streamed(ranks: Sequence[str], dask: str | None, **question: Any) -> list[Tallies]:
    """Count what each argument names: here, or by the workers of a cluster."""
    if dask is None:
        return [stream(one, **question) for one in ranks]
    with cluster.connect(dask) as client:
        return [cluster.tally(one, client, **question) for one in ranks]


def _evaluated(
    ranks: Sequence[str], counted: list[Tallies], wanted: Sequence[str | Expression], ties: Ties | None
) -> Evaluation[Any]:
    """One table of a single argument; else a row for each (and each group)."""
    if len(counted) == 1:
        return counted[0].evaluate(*wanted, ties=ties)
    names = list(ranks) if any(map(is_several, ranks)) else file_names([Path(one) for one in ranks])
    return side_by_side(list(zip(names, counted, strict=True)), wanted, ties=ties)


def _stratified(loaded: list[Ranks], keys: Sequence[str], data: str | None) -> list[Ranks]:
    """Add the strata that are asked for and not there yet."""
    needed = [name for name in STRATA if name in keys and any(name not in r.keys for r in loaded)]
    if data is None:
        if needed:
            raise InputError(
                f"{needed[0]} is told from the training triples",
                do="name the graph that was ranked: --data NAME_OR_FOLDER",
            )
        return loaded
    if not needed:
        raise InputError("--data is there to split by a stratum", allowed=f"--by {', '.join(STRATA)}")
    graph = load(data)
    return [strata(ranks, graph, *needed) for ranks in loaded]


def rows_per_file(
    paths: Sequence[Path],
    loaded: Sequence[Ranks],
    wanted: Sequence[str | Expression],
    keys: tuple[str, ...],
    ties: Ties,
    shown: Sequence[str],
    what: str = "ranks",
) -> Evaluation[Any]:
    """One row per file (and group, and average); the protocol is what all of them agree on."""
    several = len(shown) > 1
    tallies: list[Tally] = []
    labels: list[tuple[str, ...]] = []
    for name, ranks in zip(file_names(paths), loaded, strict=True):
        for label, part in ranks.by(*keys) if keys else [((), ranks)]:
            tallies += [part.tally(average) for average in shown]
            labels += [(name, *label, average)[: None if several else -1] for average in shown]
    protocol = shared(ranks.protocol for ranks in loaded)
    made = evaluate(
        tallies,
        wanted,
        ties=ties,
        labels=labels,
        label_names=(what, *keys, "average")[: None if several else -1],
        protocol=protocol if several else replace(protocol, average=shown[0]),
    )
    return one_count(made) if several else made


def _runs(paths: Sequence[Path], loaded: Sequence[Ranks]) -> dict[str, list[Ranks]]:
    """Put the runs of each model together, by the names in their protocols; without, all are of one."""
    once(paths, "run")
    models = [ranks.protocol.model or "" for ranks in loaded]
    if any(models) and not all(models):
        raise InputError(
            "not every file says which model it is a run of",
            got=f"none in {paths[models.index('')]}",
            do="name it in the protocol (model), or sum these up apart",
        )
    found: dict[str, list[Ranks]] = {}
    for model, ranks in zip(models, loaded, strict=True):
        found.setdefault(model, []).append(ranks)
    return found


def _list_metrics(form: str) -> None:
    examples = "hits@10 mean(2) quantile(0.9) chance(mrr) phi(mrr) index(hits@10) z(hits@10)"
    everything = [*NAMES.values(), *map(parse, examples.split()), *ALIASES.values()]
    shown = sorted(dict.fromkeys(everything), key=lambda e: isinstance(e, Adjusted))
    header = ["metric", "formula", "better", "range", "optimum", "reference"]
    rows = [_describe(expression) for expression in shown]
    aliases = {str(expression): _aliases(expression) for expression in shown}
    if form == "json":
        entries = [dict(zip(header, r, strict=True)) | {"aliases": aliases[r[0]]} for r in rows]
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    if form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([[*header, "aliases"], *([*r, " ".join(aliases[r[0]])] for r in rows)])
        typer.echo(text.getvalue().rstrip())
        return
    notes = [
        "hits@k for any k >= 1; mean(p) for any p, also of a transform: mean(2, ndcg); 1/... inverts.",
        "chance, ratio, index, z and phi adjust any metric that has a direction.",
        "",
        "Aliases:",
        *(f"  {name}: {', '.join(names)}" for name, names in aliases.items() if names),
    ]
    table = Table(header, rows, notes, labels=len(header))
    print_table(table) if form == "text" else typer.echo(getattr(table, form)())


def _aliases(expression: Expression) -> list[str]:
    forms = {"hits@10": None, "index(hits@10)": "index", "z(hits@10)": "z"}
    names = [alias for alias, target in ALIASES.items() if target == expression]
    if str(expression) in forms:
        names += [f"{k}@10" for k, form in HITS_NAMES.items() if form == forms[str(expression)]]
    return [name for name in names if name != str(expression)]


def _describe(expression: Expression) -> list[str]:
    low, high = expression.range
    best = expression.best
    direction = {True: "larger", False: "smaller", None: "neither"}[expression.increasing]
    return [
        str(expression),
        expression.formula,
        direction,
        f"{low:g} to {high:g}",
        "by size" if best is None else "none" if isnan(best) else f"{best:g}",
        expression.reference,
    ]
