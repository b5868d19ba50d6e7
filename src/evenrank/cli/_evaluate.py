"""Evaluating ranks: `evenrank evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from evenrank._internal.table import Shown
from evenrank.cli._latex import by_model, show_latex, with_latex
from evenrank.cli._output import show, show_rows
from evenrank.cli._shell import (
    Average,
    By,
    CandidatesOption,
    ChanceOption,
    ColumnsOption,
    Format,
    FormatOption,
    KindOption,
    Level,
    Metrics,
    OwnTies,
    QuietOption,
    Row,
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
from evenrank.graphs import Order, load
from evenrank.graphs.known import is_estimated, with_atlas, with_graph
from evenrank.graphs.strata import STRATA, strata
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import for_answers
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import ALIASES, HITS_NAMES, NAMES, QUERY_ALIASES, parse
from evenrank.metrics.ties import Ties
from evenrank.ranking import cluster
from evenrank.ranks.evaluation import Evaluation, NotEvaluatedError, bare
from evenrank.ranks.files import says_rankings
from evenrank.ranks.paper import ANSWERS, DEFAULT, Style
from evenrank.ranks.pivot import Pivot
from evenrank.ranks.protocol import differences, shared
from evenrank.ranks.rankings import AnyRanks, Empty, Rankings, load_each
from evenrank.ranks.ranks import Ranks, load_several
from evenrank.ranks.rows import evaluate_rows, tie_rule
from evenrank.ranks.streams import (
    QueryTallies,
    Tallies,
    find,
    is_remote,
    is_several,
    side_by_side,
    side_by_side_rankings,
    stream,
)
from evenrank.stats import Intervals, Method, intervals, one_kind, summarize_runs
from evenrank.stats.averages import AVERAGES, averages, one_count

OF_ANSWERS = (
    *("map", "map@10", "map_min@10", "precision@10", "recall@10", "f1@10", "success@10", "mrr@10"),
    *("r_precision", "ndcg", "ndcg@10", "ndcg_exp@10", "ndcg_bin@10", "dcg@10", "rbp(0.8)", "err@10"),
    "auc",
)
SMALL = 20_000_000  # bytes of files of ranks that are loaded to find the targets that share scores


@app.command("evaluate")
@with_latex
def evaluate_command(
    context: typer.Context,
    ranks: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files of ranks (.parquet, .csv, .tsv), one row per file; or folders, quoted patterns "
            "('ranks/*.parquet') and URLs, whose files are evaluated together."
        ),
    ] = None,
    metric: Metrics = None,
    by: By = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="METRIC",
            help="Sort groups (or files) by a metric or count, best first. Of several files, by the "
            "first, by FILE:METRIC, or by difference:METRIC of two.",
        ),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Sort with the worst first.")] = False,
    min_count: Annotated[
        int | None, typer.Option(min=1, help="Leave out groups with fewer targets, with a note.")
    ] = None,
    ties: OwnTies = None,
    average: Average = "micro",
    empty: Annotated[
        Empty, typer.Option(help="Queries without answers: leave them out, or give them the value 0.")
    ] = "skip",
    chance: ChanceOption = None,
    every_average: Annotated[
        bool, typer.Option("--averages", help="Show averages over targets, queries and relations.")
    ] = False,
    runs: Annotated[
        bool,
        typer.Option(
            "--runs",
            help="Summarize the runs (seeds, folds) of each model: mean, standard deviation, n.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help=f"Graph that was ranked, to group by {', '.join(STRATA)}, and for exact z-scores."
        ),
    ] = None,
    columns: ColumnsOption = None,
    interval: Annotated[
        Method | None, typer.Option(help="Add confidence intervals: delta method or bootstrap.")
    ] = None,
    level: Level = 0.95,
    unit: Unit = None,
    samples: Samples = 10_000,
    seed: Seed = 0,
    candidates: CandidatesOption = None,
    kind: KindOption = None,
    dask: Annotated[
        str | None, typer.Option(help="Count on Dask workers: the address of a scheduler, or local.")
    ] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Skip unreadable files, with a warning.")
    ] = False,
    quiet: QuietOption = False,
    list_all: Annotated[bool, typer.Option("--list", help="List all metrics and exit.")] = False,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
    *,
    style: Style,
) -> None:
    """Evaluate ranks: metrics, chance-adjusted metrics, intervals.

    Files of rankings of queries with several answers have metrics such as map, ndcg@10 and recall@20.

    Examples
    --------
    evenrank evaluate ranks.parquet -m 'mrr,z(mrr)' --by relation --sort mrr
    evenrank evaluate *.parquet --interval delta -o table.csv
    """
    if list_all:
        _list_metrics(form)
        return
    if not ranks:
        raise InputError("no file of ranks", do="run evenrank evaluate FILE, or try evenrank demo")
    rankings = kind == "rankings" or (kind is None and _say_rankings(ranks))
    _check_options(context, rankings=rankings, values=not runs and interval is None)
    of_paper = (ANSWERS if rankings else DEFAULT) if form == "latex" and not runs else ()
    wanted: list[str | Expression] = [*(metric or of_paper)]
    if every_average and average != "micro":
        raise InputError("--averages excludes --average", got=f"--average {average}")
    if runs:
        others = "by every_average interval level unit samples seed dask skip_damaged sort min_count"
        check_unused(context, others, "--runs summarizes whole files")
    if interval is None:
        what = "--level, --unit, --samples and --seed need --interval"
        check_unused(context, "level unit samples seed", what, do="add --interval delta or bootstrap")
    if sort is not None:
        of, _, key = sort.rpartition(":")
        parse(key)  # before the work
        if of and not by:
            what = "only groups of several files are sorted by one of the files"
            raise InputError(what, got=f"--sort {sort}", do=f"add --by KEY, or pass --sort {key}")
    else:
        check_unused(context, "reverse", "--reverse needs --sort", do="add --sort METRIC")
    if every_average:
        check_unused(context, "sort min_count", "--averages shows averages in a fixed order")
    if not by:
        check_unused(context, "min_count", "--min-count counts the targets of groups", do="add --by KEY")
        if len(ranks) == 1:
            check_unused(context, "sort", "--sort orders groups, or several files", do="add --by KEY")
    keys = tuple(by.split(",")) if by else ()
    arrange = partial(_arranged, keys=keys, sort=sort, reverse=reverse, min_count=min_count)
    # streams are tallied: single rows cannot be resampled, joined with a graph or reweighted
    whole = not dask and not skip_damaged and not any(map(is_several, ranks))
    stratified = not set(STRATA).isdisjoint([*keys, *average.split(",")])  # columns of a stream
    needs_rows = {
        "--chance scorer": chance == "scorer"
        or (chance is None and whole and not rankings and _spread(ranks, wanted)),
        "--runs": runs,
        "--interval": interval is not None,
        "--averages": every_average,
        "--data": data is not None or columns is not None or (whole and stratified and not rankings),
        "--average": rankings and average != "micro",
    }
    if not any(needs_rows.values()) and (average == "micro" or not whole):
        question: dict[str, Any] = {"by": keys, "average": average, "candidates": candidates}
        if dask is None:
            question |= {"metrics": wanted, "kind": kind}
        counted = _streamed(ranks, dask, **question, skip_damaged=skip_damaged, progress=not quiet)
        arranged = arrange(_evaluated(ranks, counted, wanted, ties, chance, empty))
        if form == "latex":
            protocols = [tallies.protocol for tallies in counted]
            show_latex(by_model(arranged, _names(ranks), ranks, protocols), style)
            return
        show(arranged, form, verbose=verbose)
        return
    if not whole:
        option = next(option for option, asked in needs_rows.items() if asked)
        raise InputError(
            f"{option} needs all {'rankings' if rankings else 'ranks'} in memory",
            got="several files, a URL, --dask or --skip-damaged",
            do="name one file per model",
        )
    paths = list(map(Path, ranks))
    loaded: Sequence[AnyRanks]
    if rankings:
        loaded = load_each(paths, candidates, rankings=kind == "rankings")
        one_kind(dict(zip(map(str, paths), loaded, strict=True)))
    else:
        strata_of = (*keys, *average.split(","))
        loaded = _loaded(paths, candidates, chance, strata_of, data, columns)
    ties = tie_rule(loaded, ties)
    of_empty = {"empty": empty} if rankings else {}
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
            unit=unit,
            samples=samples,
            seed=seed,
            ties=ties,
            average=average,
            averages=every_average,
        )
    elif len(loaded) > 1:
        shown = AVERAGES if every_average else (average,)
        made = rows_per_file(paths, loaded, wanted, keys, ties, shown, **of_empty)
    elif every_average:
        made = averages(loaded[0], *wanted, by=keys, ties=ties)
    else:
        source: Any = loaded[0].by(*keys) if keys else loaded[0]
        made = source.evaluate(*wanted, ties=ties, average=average, **of_empty)
    made = arrange(made)
    if form == "latex":
        show_latex(by_model(made, file_names(paths), ranks, [one.protocol for one in loaded]), style)
        return
    show(made, form, verbose=verbose)


def _loaded(
    paths: Sequence[Path],
    candidates: int | None,
    chance: Chance | None,
    keys: Sequence[str],
    data: str | None,
    columns: Order | None,
) -> list[Ranks]:
    """Load ranks, with what their z-scores and groups require."""
    loaded = load_several(paths, candidates)
    if data is None:
        loaded = list(map(with_atlas, loaded))
    if chance is not None:
        loaded = [one.with_protocol(chance=chance) for one in loaded]
    unknown = [
        str(path)
        for path, one in zip(paths, loaded, strict=True)
        if chance == "scorer" and one.dependence() is None
    ]
    if unknown:
        raise InputError(
            "which ranks of a random scorer depend on each other is unknown",
            got=f"{unknown[0]} without the keys head, relation, tail and side",
            do="leave out --chance",
        )
    return _stratified(loaded, keys, data, columns)


def _say_rankings(ranks: Sequence[str]) -> bool:
    """Whether the first file is of rankings; a URL is asked when it is read."""
    if is_remote(ranks[0]):
        return False
    return says_rankings(Path(find(ranks[0])[0]))


def _check_options(context: typer.Context, *, rankings: bool, values: bool) -> None:
    """Check that options are for ranks, or for rankings, whichever these are."""
    if not rankings:
        what = "only rankings of queries with several answers have queries without any"
        check_unused(context, "empty", what)
        return
    check_unused(context, "chance", "queries share no scores: their ranks are independent by chance")
    check_unused(context, "data columns every_average", "only ranks of single targets have this option")
    check_unused(context, "dask", "only ranks of single targets are counted on a cluster")
    if not values:
        check_unused(context, "empty", "--runs and --interval leave out queries without answers")


def _spread(ranks: Sequence[str], wanted: Sequence[str | Expression]) -> bool:
    """Whether z-scores are wanted, of files small enough to find the targets that share scores."""
    small = sum(Path(one).stat().st_size for one in ranks if Path(one).is_file()) <= SMALL
    asked = [parse(one) for one in wanted]
    return small and (
        not asked or any(isinstance(e, Adjusted) and e.adjustment in ("z", "phi") for e in asked)
    )


def _arranged(
    made: Shown,
    *,
    keys: Sequence[str],
    sort: str | None,
    reverse: bool,
    min_count: int | None,
) -> Shown:
    """Put several files side by side, leave out small groups, and sort the others."""
    if isinstance(made, Evaluation) and keys and made.counts:
        others = [name for name in made.label_names if name not in keys]
        made = made.pivot(others[0]) if others else made
    if not isinstance(made, Evaluation | Pivot | Intervals):  # a summary of runs
        return made
    if min_count is not None:
        made = made.filter(min_count=min_count)
    if sort is None:
        return made
    of, _, metric = sort.rpartition(":")
    try:
        if isinstance(made, Pivot):
            return made.sort(metric, of or None, reverse=reverse)
        return made.sort(sort, reverse=reverse)
    except NotEvaluatedError as error:
        raise InputError(error.what, do="add it to --metric") from None


def _streamed(
    ranks: Sequence[str], dask: str | None, **question: Any
) -> list[Tallies] | list[QueryTallies]:
    """Tally the files of each argument, here or on a cluster."""
    if dask is None:
        every = [stream(one, **question) for one in ranks]
        counted = [one for one in every if isinstance(one, Tallies)]
        added = [one for one in every if isinstance(one, QueryTallies)]
        if counted and added:
            at = [isinstance(one, QueryTallies) for one in every]
            raise InputError(
                "ranks of single targets and rankings of queries with several answers do not mix",
                got=f"rankings in {ranks[at.index(True)]}, ranks in {ranks[at.index(False)]}",
                do="evaluate them separately",
            )
        return added or counted
    with cluster.connect(dask) as client:
        return [cluster.tally(one, client, **question) for one in ranks]


def _evaluated(
    ranks: Sequence[str],
    counted: list[Tallies] | list[QueryTallies],
    wanted: Sequence[str | Expression],
    ties: Ties | None,
    chance: Chance | None,
    empty: Empty,
) -> Evaluation[Any]:
    """Evaluate a single argument, or several with one row each (and per group)."""
    added = [one for one in counted if isinstance(one, QueryTallies)]
    if added:
        names = _names(ranks) if len(added) > 1 else [""]
        return side_by_side_rankings(
            list(zip(names, added, strict=True)), wanted, ties=ties, empty=empty
        )
    counted = [one for one in counted if isinstance(one, Tallies)]
    if len(counted) == 1:
        return counted[0].evaluate(*wanted, ties=ties, chance=chance)
    named = list(zip(_names(ranks), counted, strict=True))
    return side_by_side(named, wanted, ties=ties, chance=chance)


def _names(ranks: Sequence[str]) -> list[str]:
    return list(ranks) if any(map(is_several, ranks)) else file_names([Path(one) for one in ranks])


def _stratified(
    loaded: list[Ranks], keys: Sequence[str], data: str | None, columns: Order | None
) -> list[Ranks]:
    """Add the requested strata that the ranks do not have yet."""
    needed = [name for name in STRATA if name in keys and any(name not in r.keys for r in loaded)]
    if columns is not None and data is None:
        raise InputError("--columns needs a graph", do="name it with --data NAME_OR_FOLDER")
    if data is None:
        if needed:
            raise InputError(
                f"{needed[0]} is computed from the training triples",
                do="name the graph that was ranked with --data NAME_OR_FOLDER",
            )
        return loaded
    if not needed and not any(map(is_estimated, loaded)):
        raise InputError("--data has no effect without a stratum", allowed=f"--by {', '.join(STRATA)}")
    graph = load(data, columns=columns)
    loaded = [with_graph(ranks, graph) for ranks in loaded]
    return [strata(ranks, graph, *needed) for ranks in loaded] if needed else loaded


def rows_per_file(
    paths: Sequence[Path],
    loaded: Sequence[AnyRanks],
    wanted: Sequence[str | Expression],
    keys: tuple[str, ...],
    ties: Ties,
    shown: Sequence[str],
    what: str = "",
    **more: Any,
) -> Evaluation[Any]:
    """Evaluate each file (by group and average), with the protocol that all of them share."""
    several = len(shown) > 1
    parts: list[Any] = []
    labels: list[tuple[str, ...]] = []
    what = what or ("rankings" if isinstance(loaded[0], Rankings) else "ranks")
    for name, ranks in zip(file_names(paths), loaded, strict=True):
        for label, part in ranks.by(*keys) if keys else [((), ranks)]:
            parts += [(part, average) for average in shown]
            labels += [(name, *label, average)[: None if several else -1] for average in shown]
    protocol = shared(ranks.protocol for ranks in loaded)
    made = evaluate_rows(
        parts,
        wanted,
        **more,
        ties=ties,
        labels=labels,
        label_names=(what, *keys, "average")[: None if several else -1],
        protocol=protocol if several else replace(protocol, average=shown[0]),
    )
    apart = differences((ranks.protocol for ranks in loaded), "files", made.label_names)
    made = replace(made, notes=(*made.notes, *apart))
    return one_count(made) if several else made


def _runs(paths: Sequence[Path], loaded: Sequence[AnyRanks]) -> dict[str, list[AnyRanks]]:
    """Group runs by the model that their protocols name; unnamed runs are all of one model."""
    once(paths, "run")
    models = [ranks.protocol.model or "" for ranks in loaded]
    if any(models) and not all(models):
        raise InputError(
            "some files of runs name no model",
            got=str(paths[models.index("")]),
            do="name the model in the protocol, or summarize these files separately",
        )
    found: dict[str, list[AnyRanks]] = {}
    for model, ranks in zip(models, loaded, strict=True):
        found.setdefault(model, []).append(ranks)
    return found


def _list_metrics(form: Format) -> None:
    examples = "hits@10 mean(2) quantile(0.9) chance(mrr) phi(mrr) index(hits@10) z(hits@10)"
    everything = [*NAMES.values(), *map(parse, examples.split()), *ALIASES.values()]
    shown = sorted(dict.fromkeys(everything), key=lambda e: isinstance(e, Adjusted))
    several = [for_answers(bare(parse(name))) for name in OF_ANSWERS]
    rows, more = ([_describe(one) for one in listed] for listed in (shown, several))
    aliases = {str(one): _aliases(one) for one in shown}
    aliases_of_answers = {str(one): _aliases_of_answers(str(one)) for one in several}
    if form in ("json", "csv", "spreadsheet"):
        every = zip((*rows, *more), (*aliases.values(), *aliases_of_answers.values()), strict=True)
        for i, (row, names) in enumerate(every):
            row["aliases"] = names if form == "json" else " ".join(names)
            row["of"] = "targets" if i < len(rows) else "queries"
        show_rows([*rows, *more], len(rows[0]), [], form)
        return
    optional = ("reference", "optimum", "range")
    notes = [
        "hits@k for any k >= 1; mean(p) for any p, also of a transform: mean(2, ndcg); 1/... inverts.",
        "chance, ratio, index, z and phi adjust any metric that has a direction.",
        *_of_aliases(aliases),
    ]
    show_rows(rows, len(rows[0]), notes, form, optional=optional)
    typer.echo(f"\n{'% ' * (form == 'latex')}Rankings of queries with several answers:\n")
    notes = [
        "m: number of answers; g: gain; V_s: probability that the s-th answer satisfies the user.",
        "@k for any k >= 1: after map, map_min, ndcg, dcg and err, k is optional.",
        "ndcg and dcg have linear gains; ndcg_exp 2^g - 1, ndcg_bin none.",
        "chance, ratio, index, z and phi adjust all of them.",
        *_of_aliases(aliases_of_answers),
    ]
    show_rows(more, len(more[0]), notes, form, optional=optional)


def _of_aliases(aliases: Mapping[str, Sequence[str]]) -> list[str]:
    some = {name: names for name, names in aliases.items() if names}
    return ["", "Aliases:", *(f"  {name}: {', '.join(names)}" for name, names in some.items())]


def _aliases(expression: Expression) -> list[str]:
    forms = {"hits@10": None, "index(hits@10)": "index", "z(hits@10)": "z"}
    names = [alias for alias, target in ALIASES.items() if target == expression]
    if str(expression) in forms:
        names += [f"{k}@10" for k, form in HITS_NAMES.items() if form == forms[str(expression)]]
    return [name for name in names if name != str(expression)]


def _aliases_of_answers(name: str) -> list[str]:
    """List other names of a metric of several answers; of map@10 only map_cut@10."""
    stem, at, cutoff = name.partition("@")
    return [
        f"{alias}{at}{cutoff}"
        for alias, of in QUERY_ALIASES.items()
        if of == stem and alias.endswith("_cut") == (bool(at) and stem in OF_ANSWERS)
    ]


def _describe(expression: Expression) -> Row:
    low, high = expression.range
    best = expression.best
    return {
        "metric": str(expression),
        "formula": expression.formula,
        "better": {True: "larger", False: "smaller", None: "neither"}[expression.increasing],
        "range": expression.span if isinstance(expression, Adjusted) else f"{low:g} to {high:g}",
        "optimum": "by size" if best is None else "none" if isnan(best) else f"{best:g}",
        "reference": expression.reference,
    }
