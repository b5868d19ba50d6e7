"""The shell: `evenrank rank`, metrics, compare, report, null, adjust, baseline, explore, ...

Results go to stdout, as a table or as JSON, CSV, Markdown or LaTeX. Bad input is one line on stderr and
exit code 2.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from math import exp, isfinite, isnan
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import typer

import evenrank
from evenrank import models
from evenrank.adjusted import Adjusted, Expression
from evenrank.compare import Correction, Method, Test, compare, intervals
from evenrank.data import Unseen, atlas, load, registry, where
from evenrank.data.ask import Candidates
from evenrank.data.graph import SPLITS
from evenrank.data.strata import AVERAGES, STRATA, averages, one_count, strata
from evenrank.engine import rank
from evenrank.errors import EvenrankError, InputError
from evenrank.evaluation import Evaluation, evaluate, shared
from evenrank.grammar import ALIASES, HITS_NAMES, NAMES, null, parse
from evenrank.law import Method as Law
from evenrank.law import read_sizes
from evenrank.metric import Ties
from evenrank.published import adjust, baseline, published
from evenrank.ranks import Ranks, numbers, read_table
from evenrank.report import Report, explorer
from evenrank.report.document import check_ending
from evenrank.table import Shown, Table, as_csv, figure
from evenrank.tally import Histogram, Tally
from evenrank.task import Outside

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Rank-based evaluation on an even footing: exact, chance-adjusted metrics.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Write CSV.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Write a Markdown table.")]
AsLatex = Annotated[bool, typer.Option("--latex", help="Write a LaTeX table (booktabs).")]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", "-m", help="A metric such as mrr, 'z(hits@10)'; repeatable."),
]
By = Annotated[str | None, typer.Option(help="Split by key columns, e.g. relation,side.")]
TiesOption = Annotated[Ties, typer.Option(help="How tied scores are ranked.")]
Average = Annotated[
    str, typer.Option(help="micro, query, or key columns that weigh the same, e.g. relation.")
]
Level = Annotated[float, typer.Option(help="How sure an interval, or a claim, is to be.")]
Unit = Annotated[
    str | None,
    typer.Option(
        help="What is drawn, or flipped, as one: target, triple, query or key columns (triple, where "
        "there are triples)."
    ),
]
Samples = Annotated[int, typer.Option(help="How many bootstrap samples, or flips, are drawn.")]
Seed = Annotated[int, typer.Option(help="The seed of what is drawn.")]
CandidatesOption = Annotated[
    int | None, typer.Option(help="Candidates per target, for files without that column.")
]
SizesOption = Annotated[
    str,
    typer.Option(
        "--sizes",
        help="Candidate counts: '14541x40932' (size x tasks), '100,200,300', or a file: ranks, "
        "a table with columns size[,count[,weight]], or one number per line.",
    ),
]

SplitOption = Annotated[str, typer.Option(help="The split that was ranked.")]
SideOption = Annotated[atlas.Side, typer.Option(help="What was asked for.")]
FilterOption = Annotated[
    Literal["all", "none"],
    typer.Option("--filter", help="Leave known answers of all splits out, or rank raw."),
]
KNOWN: dict[str, atlas.Filter] = {"all": "all", "none": None}


def _format(as_json: bool, as_csv: bool, as_markdown: bool, as_latex: bool) -> str:
    flags = {"json": as_json, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}
    chosen = [name for name, on in flags.items() if on]
    if len(chosen) > 1:
        raise InputError("only one output format at a time", got=", ".join(f"--{c}" for c in chosen))
    return chosen[0] if chosen else "text"


def _show(result: Shown, form: str) -> None:
    if form != "text":
        typer.echo(getattr(result, form)())
        return
    for i, table in enumerate(result.tables()):
        if i:
            typer.echo()
        _print_table(table)


def _print_table(table: Table) -> None:
    """Print with rich on a terminal that is wide enough, plainly into a pipe or a narrow one."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    plain = table.text()
    if not console.is_terminal or max(map(len, plain.splitlines()[:2])) + 4 > console.width:
        typer.echo(plain)
        return
    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, name in enumerate(table.header):
        rich.add_column(Text(name), justify="left" if i < table.labels else "right")
    for row in table.rows:
        rich.add_row(*map(Text, row))
    console.print(rich)
    for note in table.notes:
        console.print(Text(note, style="dim"))


@app.command()
def metrics(
    ranks: Annotated[
        list[Path] | None, typer.Argument(help="Files of ranks (.parquet, .csv, .tsv).")
    ] = None,
    metric: Metrics = None,
    by: By = None,
    ties: TiesOption = "expected",
    average: Average = "micro",
    every_average: Annotated[
        bool,
        typer.Option("--averages", help="Over targets, queries and relations, side by side."),
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
    list_all: Annotated[bool, typer.Option("--list", help="List every metric and stop.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Evaluate ranks: every metric, its chance level, and what is left above chance."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    if list_all:
        _list_metrics(form)
        return
    if not ranks:
        raise InputError("no file of ranks given", do="evenrank metrics FILE..., or evenrank demo")
    wanted: list[str | Expression] = [*(metric or ())]
    if every_average and average != "micro":
        raise InputError("--averages shows all of them", got=f"--average {average} as well")
    if interval is None and (level, unit, samples, seed) != (0.95, None, 10_000, 0):
        what = "--level, --unit, --samples and --seed are of intervals"
        raise InputError(what, do="ask for these with --interval")
    keys = tuple(by.split(",")) if by else ()
    loaded = [Ranks.load(path, candidates=candidates) for path in ranks]
    loaded = _stratified(loaded, (*keys, *average.split(",")), data)
    if interval is not None:
        if every_average:
            raise InputError("intervals are of one average", got="--averages", do="use --average")
        split = [one.by(*keys) if keys else one for one in loaded]
        given = dict(zip(_names(ranks), split, strict=True)) if len(split) > 1 else split[0]
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
        )
        _show(made, form)
    elif len(loaded) > 1:
        shown = AVERAGES if every_average else (average,)
        _show(_several(ranks, loaded, wanted, keys, ties, shown), form)
    elif every_average:
        _show(averages(loaded[0], *wanted, by=keys, ties=ties), form)
    else:
        source = loaded[0].by(*keys) if keys else loaded[0]
        _show(source.evaluate(*wanted, ties=ties, average=average), form)


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


def _several(
    paths: list[Path],
    loaded: list[Ranks],
    wanted: list[str | Expression],
    keys: tuple[str, ...],
    ties: Ties,
    shown: Sequence[str],
) -> Evaluation:
    """One row per file (and group, and average); the protocol is what all of them agree on."""
    several = len(shown) > 1
    tallies: list[Tally] = []
    labels: list[tuple[str, ...]] = []
    for name, ranks in zip(_names(paths), loaded, strict=True):
        for label, part in ranks.by(*keys) if keys else [((), ranks)]:
            tallies += [part.tally(average) for average in shown]
            labels += [(name, *label, average)[: None if several else -1] for average in shown]
    protocol = shared([ranks.protocol for ranks in loaded])
    made = evaluate(
        tallies,
        wanted,
        ties=ties,
        labels=labels,
        label_names=("ranks", *keys, "average")[: None if several else -1],
        protocol=protocol if several else {**protocol, "average": shown[0]},
    )
    return one_count(made, sum(map(len, loaded))) if several else made


def _names(paths: Sequence[Path]) -> list[str]:
    """Name files by their stems, or in full where these are not different."""
    names = [path.stem for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


@app.command("compare")
def compare_command(
    ranks: Annotated[list[Path], typer.Argument(help="Files of ranks, one per model.")],
    metric: Metrics = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare all with this model (a file's name without ending).")
    ] = None,
    test: Annotated[Test, typer.Option(help="The paired test.")] = "permutation",
    correction: Annotated[Correction, typer.Option(help="How p is corrected for many tests.")] = "holm",
    level: Level = 0.95,
    unit: Unit = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Key columns that tell targets apart; or row, where row i is the same in each."
        ),
    ] = None,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Compare models that were ranked in different ways.")
    ] = False,
    samples: Samples = 10_000,
    seed: Seed = 0,
    ties: TiesOption = "expected",
    average: Average = "micro",
    candidates: CandidatesOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Compare models on the same targets: differences, intervals around them, paired tests."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    if len({path.resolve() for path in ranks}) < len(ranks):
        raise InputError("one model twice", got=" ".join(map(str, ranks)), do="give each file once")
    models = [Ranks.load(path, candidates=candidates) for path in ranks]
    result = compare(
        dict(zip(_names(ranks), models, strict=True)),
        metrics=metric or ["mrr"],
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
    _show(result, form)


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
    _print_table(table) if form == "text" else typer.echo(getattr(table, form)())


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


@app.command("null")
def null_command(
    metric: Annotated[str, typer.Argument(help="A metric such as mrr, hits@10, 1/gmr, mean(2).")],
    sizes: SizesOption,
    value: Annotated[
        float | None, typer.Option(help="Also say how likely chance does at least this well.")
    ] = None,
    method: Annotated[Law, typer.Option(help="How the law is computed.")] = "exact",
    samples: Annotated[int, typer.Option(help="Number of samples, with --method sample.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed, with --method sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show the exact law of a metric under chance."""
    law = null(metric, _read_sizes(sizes), method=method, samples=samples, seed=seed)
    mean, std = law.mean(), law.std()
    content: dict[str, object] = {
        "metric": str(law.metric),
        "tasks": law.sizes.n,
        "mean": float(mean),
        "variance": float(law.var()),
        "std": float(std),
        "method": mean.method,
    }
    if mean.error:
        content |= {"mean error": mean.error, "variance error": law.var().error}
    if value is not None:
        log_p = law.logsf(value)
        content |= {"value": value, "p": exp(log_p), "log p": float(log_p), "p method": log_p.method}
    if as_json:
        strict = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in content.items()}
        typer.echo(json.dumps(strict, indent=2, allow_nan=False))
        return
    rows = [
        [k, f"{v:.15g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v)]
        for k, v in content.items()
    ]
    _print_table(Table(["", "under chance"], rows))


@app.command("adjust")
def adjust_command(
    values: Annotated[
        list[str],
        typer.Argument(
            help="Published values: mrr=0.476 'hits@10=57.1'; or a CSV file of results, with columns "
            "model, data, metric, value; or hoyt2022, the source paper's results."
        ),
    ],
    data: Annotated[
        str | None, typer.Option(help="The data set: evenrank atlas list names them.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Candidate counts instead, as `evenrank null` takes them.")
    ] = None,
    split: SplitOption = "test",
    side: SideOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    percent: Annotated[
        bool | None,
        typer.Option("--percent/--fraction", help="The unit of metrics that end at 1 (detected)."),
    ] = None,
    metric: Metrics = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Adjust published values for chance, given the data set or the candidate counts behind them."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    if data is None and sizes is None and len(values) == 1 and "=" not in values[0]:
        results = published(
            values[0],
            *(metric or ()),
            split=split,
            side=side,
            filter=KNOWN[filter_],
            unseen=unseen,
            percent=percent,
        )
        _show(results, form)
        return
    if metric:
        raise InputError("--metric picks from a file of results", got="values")
    _show(
        adjust(
            _values(values),
            None if sizes is None else _read_sizes(sizes),
            data=data,
            split=split,
            side=side,
            filter=KNOWN[filter_],
            unseen=unseen,
            percent=percent,
        ),
        form,
    )


def _values(items: list[str]) -> dict[str, str]:
    """Read metric=value."""
    given: dict[str, str] = {}
    for item in items:
        name, _, value = item.rpartition("=")
        if name in given:
            raise InputError("the same metric twice", got=f"{name} in {' '.join(items)}")
        given[name] = value
        if not name or not value:
            alone = (
                "give a file of results alone: it names its data sets" if Path(item).exists() else None
            )
            raise InputError("a value must look like mrr=0.43", got=repr(item), do=alone)
    return given


@app.command("baseline")
def baseline_command(
    data: Annotated[str, typer.Argument(help="A data set: evenrank atlas list names them.")],
    metric: Metrics = None,
    split: SplitOption = "test",
    side: SideOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Show what needs no model: what chance gets on a data set, and a constant scorer."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    result = baseline(
        data, *(metric or ()), split=split, side=side, filter=KNOWN[filter_], unseen=unseen
    )
    _show(result, form)


@app.command()
def explore(
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the page here (.html).")] = Path(
        "explorer.html"
    ),
    metric: Metrics = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one page to type published values into and read them against chance, offline."""
    from rich.console import Console
    from rich.progress import track

    def bar(laws: Sequence[object]) -> Iterator[object]:
        hidden = quiet or not sys.stderr.isatty()
        console = Console(stderr=True)
        yield from track(laws, "chance laws", console=console, transient=True, disable=hidden)

    path = explorer(out, *(metric or ()), progress=bar)
    size = path.stat().st_size
    if as_json:
        _echo_json({"file": str(path), "bytes": size})
    else:
        typer.echo(f"{path}: {size / 1000:,.0f} kB; open it in a browser")


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
    ties: TiesOption = "expected",
    data: Annotated[
        list[str] | None,
        typer.Option(help=f"A graph that was ranked, to split by {', '.join(STRATA)}; repeatable."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--ranks/--no-ranks", help="Keep the ranks in the page, to be read back.")
    ] = True,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Write one page on models and data sets: words, tables, tests, charts; all it needs is inside."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    paths = out or ([] if form != "text" else [Path("report.html")])
    for path in paths:  # what cannot be written should show before the work, not after it
        check_ending(path)
    graphs = [load(name) for name in data or ()]
    with _busy("reading ranks"):
        report = Report(*ranks, metrics=metric or (), ties=ties, graphs=graphs)
    if form != "text":
        typer.echo(getattr(report, form)())
    for path in paths:
        with _busy(f"working out and writing {path}"):
            report.save(path, keep=keep)
        typer.echo(f"{path}: {path.stat().st_size / 1000:,.0f} kB", err=form != "text")
    if figures is not None:
        with _busy(f"drawing into {figures}"):
            written = report.save_figures(figures)
        typer.echo(f"{figures}: {len(written)} charts", err=form != "text")


def _busy(doing: str) -> AbstractContextManager[object]:
    """Say on a terminal what takes a while, as long as it does."""
    from rich.console import Console
    from rich.text import Text

    return Console(stderr=True).status(Text(doing)) if sys.stderr.isatty() else nullcontext()


def _read_sizes(text: str) -> Histogram:
    path = Path(text)
    if path.is_file():
        return _sizes_from_file(path)
    size: list[int] = []
    count: list[int] = []
    try:
        for part in text.split(","):
            one, _, times = part.strip().partition("x")
            size.append(int(one))
            count.append(int(times or 1))
    except ValueError:
        raise InputError(
            "candidate counts are neither a file nor numbers",
            got=repr(text),
            do="write '14541x40932' (size x tasks), '100,200,300', or the name of a file",
        ) from None
    return read_sizes(size, count)


def _sizes_from_file(path: Path) -> Histogram:
    if path.suffix.lower() == ".txt":
        words = path.read_text(encoding="utf-8", errors="replace").split()
        bad = next((word for word in words if not word.isdigit()), None)
        if bad is not None or not words:
            raise InputError(
                f"{path}: one candidate count per line is needed", got=repr(bad) if bad else "nothing"
            )
        return read_sizes([int(word) for word in words])
    frame, _ = read_table(path)
    have = {
        name: numbers(frame, name, str(path)) for name in ("count", "weight") if name in frame.columns
    }
    for name in ("size", "candidates"):
        if name in frame.columns:
            return read_sizes(numbers(frame, name, str(path)), have.get("count"), have.get("weight"))
    raise InputError(
        f"{path} has no candidate counts",
        got=f"columns {', '.join(frame.columns)}",
        allowed="size[, count[, weight]], or a file of ranks with candidates",
    )


Sides = Literal["both", "tail", "head", "relation", "pair"]


@app.command("rank")
def rank_command(
    model: Annotated[Path, typer.Argument(help="A model saved by evenrank (.safetensors).")],
    data: Annotated[str, typer.Option(help="A folder with a graph, or a name of evenrank data list.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the ranks here (.parquet or .csv).")
    ] = None,
    split: Annotated[str, typer.Option(help="The split whose triples are ranked.")] = "test",
    sides: Annotated[Sides, typer.Option(help="What is asked for; both means tail and head.")] = "both",
    filter_: Annotated[
        str,
        typer.Option(
            "--filter", help="Splits whose answers are left out: all, none, or e.g. train,valid."
        ),
    ] = "all",
    candidates: Annotated[
        str,
        typer.Option(
            help="all; typed (as seen in train); sampled:K; or a type_constrain.txt of OpenKE."
        ),
    ] = "all",
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    outside: Annotated[
        Outside, typer.Option(help="What to do with targets that are not among their candidates.")
    ] = "refuse",
    unseen: Annotated[
        Unseen, typer.Option(help="Keep or drop entities and relations that train never shows.")
    ] = "keep",
    metric: Metrics = None,
    by: By = None,
    ties: TiesOption = "expected",
    average: Average = "micro",
    device: Annotated[str, typer.Option(help="cpu, cuda, auto, or torch:DEVICE.")] = "cpu",
    memory: Annotated[str | None, typer.Option(help="Working space, e.g. 500MB.")] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use (all).")] = None,
    exact: Annotated[
        bool,
        typer.Option(help="Certify every comparison; else compare plain scores as they come."),
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Rank a model on a graph: filtered, both sides; print the table and keep the ranks."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    if out is not None:
        _check_writable(out)
    wanted = [parse(name) for name in metric or ()]  # a slip should show before the work, not after it
    scorer = models.load(model)
    graph = load(data, unseen=unseen)
    splits: list[str] | Literal["all"] | None = [name.strip() for name in filter_.split(",")]
    if filter_ in ("all", "none"):
        splits = "all" if filter_ == "all" else None
    task = graph.task(
        split,
        sides=sides,
        filter=splits,
        candidates=_candidates(candidates),
        seed=seed,
        outside=outside,
    )
    if not quiet:
        for note in graph.notes:
            typer.echo(f"note: {note}", err=True)
    ranks = rank(
        scorer, task, device=device, memory=memory, threads=threads, exact=exact, progress=not quiet
    )
    if out is not None:
        ranks.save(out)
    source = ranks.by(*by.split(",")) if by else ranks
    _show(source.evaluate(*wanted, ties=ties, average=average), form)
    if not quiet and ranks.work is not None:
        work = ranks.work
        typer.echo(
            f"{work.scores:,} scores in {work.seconds:.2f} s: {work.scores / work.seconds / 1e6:,.3g} "
            f"million/s ({work.kernels} kernels; {work.undecided:,} comparisons took float64)"
            + (f"; ranks in {out}" if out else ""),
            err=True,
        )


def _candidates(text: str) -> Candidates:
    kind, _, number = text.partition(":")
    if kind != "sampled":
        if text not in ("all", "typed") and not Path(text).exists():
            raise InputError(
                "unknown candidates",
                got=repr(text),
                allowed="all, typed, sampled:K, or a type_constrain.txt of OpenKE",
            )
        return text
    if not number.isdigit():
        raise InputError("sampled candidates need a number", got=repr(text), do="write sampled:500")
    return int(number)


def _check_writable(path: Path) -> None:
    """Say so before an hour of ranking, not after it."""
    if path.suffix not in (".parquet", ".csv", ".tsv"):
        raise InputError("ranks are written as .parquet, .csv or .tsv", got=path.name)
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        absent = "no permission" if path.parent.exists() else "no such folder"
        why = "a folder" if path.is_dir() else absent
        raise InputError(f"cannot write {path}", got=why, do="choose another place")


data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at graphs.")
app.add_typer(data_app, name="data")
GraphArgument = Annotated[str, typer.Argument(help="A folder with a graph, or a name of data list.")]
UnseenOption = Annotated[Unseen, typer.Option(help="Keep or drop what train never shows.")]


@data_app.command("list")
def data_list(
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """List the benchmarks: how large they are, and where they are now."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    rows: list[Row] = []
    for entry in registry.entries().values():
        row: Row = {"data": entry.name, "where": where(entry)}
        row |= {"entities": entry.entities, "relations": entry.relations}
        row |= {split: entry.splits.get(split) for split in SPLITS}
        rows.append(row | _about(entry) if form in ("json", "csv") else row)
    note = "evenrank data fetch NAME downloads ahead; EVENRANK_DATA names a folder of files you have."
    _show_rows(rows, 2, [note], form)


def _about(entry: registry.Entry) -> Row:
    """Say of a benchmark what is not a number."""
    return {
        "title": entry.title,
        "aliases": ", ".join(entry.aliases),
        "where": where(entry),
        "source": entry.source,
        "reference": entry.reference,
        "licence": entry.licence,
        "layout": entry.layout,
        "counts": entry.counts,
    }


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Benchmarks: evenrank data list names them.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download benchmarks ahead, checked, and say where they are."""
    from evenrank.data._fetch import fetch

    places: dict[str, str] = {}
    for entry in [registry.find(name) for name in names]:  # a slip should show before a download
        place = where(entry)
        have = place in ("bundled", "EVENRANK_DATA")
        places[entry.name] = place if have else str(fetch(entry, progress=not quiet))
        if not as_json:
            typer.echo(f"{entry.name}: {places[entry.name]}")
    if as_json:
        _echo_json(places)


@data_app.command("show")
def data_show(graph: GraphArgument, unseen: UnseenOption = "keep", as_json: AsJson = False) -> None:
    """Show what a graph holds; of a benchmark that is not on this machine, what is published."""
    entry = None if Path(graph).expanduser().exists() else registry.lookup(graph)
    about = {} if entry is None else _about(entry)
    lines = [f"  {label:9}  {text}" for label, text in about.items() if text]
    if entry is not None and about["where"] in ("download", "numbers only"):
        counts = {"entities": entry.entities, "relations": entry.relations}
        content: dict[str, object] = {"name": entry.name, **counts, "splits": entry.splits}
        sizes = [f"  {label:9}  {n:,}" for label, n in {**counts, **entry.splits}.items()]
        text = "\n".join([entry.name, *sizes, *lines])
    else:
        loaded = load(graph, unseen=unseen)
        text = "\n".join([repr(loaded), *lines])
        content = {
            "name": loaded.name,
            "entities": len(loaded.entities),
            "relations": len(loaded.relations),
            "splits": {split: len(triples) for split, triples in loaded.splits.items()},
            "hash": loaded.hash,
            "vocabulary": loaded.vocabulary,
            "notes": list(loaded.notes),
        }
    _echo_json(content | about) if as_json else typer.echo(text)


@data_app.command("check")
def data_check(graph: GraphArgument, unseen: UnseenOption = "keep", as_json: AsJson = False) -> None:
    """Check a graph: duplicates, leaks between splits, what train never shows."""
    findings = load(graph, unseen=unseen).findings()
    if as_json:
        _echo_json([{"severity": severity, "finding": text} for severity, text in findings])
        return
    for severity, text in findings:
        typer.echo(f"{severity:8} {text}")


atlas_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Candidate counts of benchmarks, and what chance gets on them.",
)
app.add_typer(atlas_app, name="atlas")
Row: TypeAlias = dict[str, str | int | float | None]
INCLUDED = "candidates include the ranked answer"


@atlas_app.command("list")
def atlas_list(
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """List the data sets: how large they are, and what chance gets on their test triples."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    rows: list[Row] = []
    for kept in sorted(map(atlas.facts, atlas.names()), key=lambda facts: facts.entities):
        dropped = atlas.facts(kept.data, unseen="drop")
        if kept == dropped:
            rows.append(_of_test(kept, "keep") | {"unseen": "either"})
        else:
            rows += [_of_test(kept, "keep"), _of_test(dropped, "drop")]
    note = f"Mean candidates and chance: test triples, both sides, filtered; {INCLUDED}."
    _show_rows(rows, 2, [note], form)


def _of_test(facts: atlas.Facts, unseen: Unseen) -> Row:
    """Sum up a data set, and what chance gets on its test triples."""
    row: Row = {"data": facts.data, "unseen": unseen}
    row |= {"entities": facts.entities, "relations": facts.relations}
    row |= {split: facts.triples.get(split) for split in SPLITS}
    columns = {"candidates": "mean", "chance(mrr)": "chance(mrr)", "chance(hits@10)": "chance(hits@10)"}
    test = _of_sizes(atlas.atlas(facts.data, unseen=unseen)) if "test" in facts.triples else {}
    return row | {column: test.get(name) for column, name in columns.items()}


@atlas_app.command("show")
def atlas_show(
    data: Annotated[str, typer.Argument(help="A data set: evenrank atlas list names them.")],
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    as_json: AsJson = False,
) -> None:
    """Show the candidate counts of a data set by split and side, and what chance gets."""
    facts = atlas.facts(data, unseen=unseen)
    protocol = {"filter": filter_, "unseen": unseen}
    rows = [
        {"split": split, "side": side}
        | _of_sizes(atlas.atlas(data, split, side, filter=KNOWN[filter_], unseen=unseen))
        for split in facts.triples
        for side in get_args(atlas.Side)
    ]
    if as_json:
        _echo_json(facts._asdict() | protocol | {"rows": rows})
        return
    size = f"{facts.data}: {facts.entities:,} entities, {facts.relations:,} relations"
    words = "; ".join(f"{name}: {value}" for name, value in protocol.items())
    _show_rows(rows, 2, [size, f"{words}; {INCLUDED}"], "text")


def _of_sizes(sizes: Histogram) -> Row:
    """Sum up candidate counts, and what chance gets with them."""
    size, count = sizes["candidates"], sizes.counts
    return {
        "targets": sizes.total,
        "sizes": len(sizes),
        "least": int(size.min()),
        "mean": int((size * count).sum()) / sizes.total,
        "most": int(size.max()),
        **{f"chance({name})": float(null(name, sizes).mean()) for name in ("mrr", "hits@10", "mr")},
    }


@atlas_app.command("build")
def atlas_build(
    folders: Annotated[list[str], typer.Argument(help="Folders with graphs.")],
    name: Annotated[
        list[str] | None, typer.Option(help="A name for each folder, in order (the folder's own).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a file of these alone; else your atlas gets them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the candidates of graphs of your own, for --data NAME."""
    if name and len(name) != len(folders):
        got = f"{len(name)} names for {len(folders)} folders"
        raise InputError("every folder needs a name, or none", got=got)
    names: Sequence[str | None] = name or [None] * len(folders)
    graphs = [load(folder, name=one) for folder, one in zip(folders, names, strict=True)]
    for folder, graph in zip(folders, graphs, strict=True):
        entry = registry.lookup(graph.name)
        if entry is not None:
            registry.check(entry, graph, Path(folder))
    tables = [atlas.build(graph) for graph in graphs]
    if out is None:
        out = atlas.add(tables)
    else:
        atlas.write(tables, out)
    built = [table["data"][0] for table in tables]
    if as_json:
        _echo_json({"data": built, "file": str(out)})
    else:
        typer.echo(f"{', '.join(built)}: now in {out}")


def _show_rows(rows: list[Row], labels: int, notes: list[str], form: str) -> None:
    """Show records as a table of figures, or as JSON or CSV with all digits."""
    if form == "json":
        _echo_json(rows)
    elif form == "csv":
        typer.echo(as_csv(rows))
    else:
        table = Table(list(rows[0]), [list(map(_cell, row.values())) for row in rows], notes, labels)
        _print_table(table) if form == "text" else typer.echo(getattr(table, form)())


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else figure(value)


def _echo_json(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


DEMO = ("mrr", "chance(mrr)", "index(mrr)", "z(mrr)", "hits@10", "chance(hits@10)", "index(hits@10)")


@app.command()
def demo(as_json: AsJson = False, as_markdown: AsMarkdown = False) -> None:
    """Rank twelve bundled models on three graphs, and show why adjustment matters."""
    form = _format(as_json, False, as_markdown, False)
    ranked = sorted(_ranked(), key=lambda ranks: float(ranks.candidates.mean()))
    result = evaluate(
        [ranks.tally() for ranks in ranked],
        DEMO,
        labels=[
            (ranks.protocol["data"], ranks.protocol["model"], figure(float(ranks.candidates.mean())))
            for ranks in ranked
        ],
        label_names=("data", "model", "candidates"),
        protocol={"split": "test", "filter": "train, valid, test"},
    )
    _show(result, form)
    work = [ranks.work for ranks in ranked if ranks.work is not None]
    if form == "text":
        typer.echo(
            f"\nRanked just now: {len(work)} models, {sum(w.scores for w in work):,} scores, in "
            f"{sum(w.seconds for w in work):.2f} s; codexsmall and wn18rr come from files of ranks.\n"
            "The more candidates, the less chance gets, so mrr and hits@10 do not compare across\n"
            "graphs. index puts chance at 0 and a perfect model at 1, on every graph; z counts the\n"
            "standard deviations above chance, and grows with the number of targets too.\n"
            "Next: evenrank rank MODEL --data DIR, evenrank metrics FILE, evenrank --help"
        )


def _ranked() -> Iterator[Ranks]:
    """Rank the bundled models, and read the bundled ranks of larger graphs."""
    folder = files("evenrank").joinpath("data")
    tasks = {name: load(name).task("test") for name in ("nations", "kinships", "umls")}
    for name, task in tasks.items():
        for kind in ("transe", "rotate", "complex", "tucker"):
            with as_file(folder / "models" / f"{name}-{kind}.safetensors") as path:
                yield rank(models.load(path), task, progress=False)
    for file in sorted(folder.joinpath("demo").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".parquet"):
            with as_file(file) as path:
                yield Ranks.load(path)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"evenrank {evenrank.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the shell command; bad input is one line on stderr and exit code 2."""
    warnings.showwarning = _note  # one line, like everything else here
    try:
        code = app(standalone_mode=False)
    except EvenrankError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail(error.format_message().rstrip("."))
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.strerror or error}; got {error.filename or 'a full disk or closed output'}")
    if code == 130:  # Ctrl-C, which typer turns into an exit code
        typer.echo("evenrank: stopped; nothing was written", err=True)
    sys.exit(code if isinstance(code, int) else 0)


def _note(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"note: {message}", err=True)


def _fail(message: str) -> None:
    typer.echo(f"evenrank: {message}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
