"""The shell: `evenrank rank`, `metrics`, `null`, `adjust`, `data`, `demo`.

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
from collections.abc import Iterator
from importlib.resources import as_file, files
from math import exp, isfinite, isnan
from pathlib import Path
from typing import Annotated, Literal

import typer

import evenrank
from evenrank import models
from evenrank.adjusted import Adjusted, Expression
from evenrank.data import Unseen, load
from evenrank.data.ask import Candidates
from evenrank.engine import rank
from evenrank.errors import EvenrankError, InputError
from evenrank.evaluation import Evaluation, adjust, evaluate
from evenrank.grammar import ALIASES, HITS_NAMES, NAMES, null, parse
from evenrank.law import Method, read_sizes
from evenrank.metric import Ties
from evenrank.ranks import Ranks, numbers, read_table
from evenrank.table import Table, figure
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
SizesOption = Annotated[
    str,
    typer.Option(
        "--sizes",
        help="Candidate counts: '14541x40932' (size x tasks), '100,200,300', or a file: ranks, "
        "a table with columns size[,count[,weight]], or one number per line.",
    ),
]


def _format(as_json: bool, as_csv: bool, as_markdown: bool, as_latex: bool) -> str:
    flags = {"json": as_json, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}
    chosen = [name for name, on in flags.items() if on]
    if len(chosen) > 1:
        raise InputError("only one output format at a time", got=", ".join(f"--{c}" for c in chosen))
    return chosen[0] if chosen else "text"


def _show(result: Evaluation, form: str) -> None:
    if form == "text":
        _print_table(result.table())
    else:
        typer.echo(getattr(result, form)())


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
    candidates: Annotated[
        int | None, typer.Option(help="Candidates per target, for files without that column.")
    ] = None,
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
    loaded = [Ranks.load(path, candidates=candidates) for path in ranks]
    if len(loaded) == 1:
        source = loaded[0].by(*by.split(",")) if by else loaded[0]
        _show(source.evaluate(*wanted, ties=ties, average=average), form)
        return
    _show(_several(ranks, loaded, wanted, by, ties, average), form)


def _several(
    paths: list[Path],
    loaded: list[Ranks],
    wanted: list[str | Expression],
    by: str | None,
    ties: Ties,
    average: str,
) -> Evaluation:
    """One row per file (and group); only what all protocols agree on is the protocol."""
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    keys = tuple(by.split(",")) if by else ()
    tallies: list[Tally] = []
    labels: list[tuple[str, ...]] = []
    for name, ranks in zip(names, loaded, strict=True):
        for label, part in ranks.by(*keys) if keys else [((), ranks)]:
            tallies.append(part.tally(average))
            labels.append((name, *label))
    common = set.intersection(*(set(ranks.protocol.items()) for ranks in loaded))
    protocol = {k: v for k, v in loaded[0].protocol.items() if (k, v) in common}
    return evaluate(
        tallies,
        wanted,
        ties=ties,
        labels=labels,
        label_names=("ranks", *keys),
        protocol={**protocol, "average": average},
    )


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
    method: Annotated[Method, typer.Option(help="How the law is computed.")] = "exact",
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
    values: Annotated[list[str], typer.Argument(help="Published values: mrr=0.43 'hits@10=0.51'.")],
    sizes: SizesOption,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Adjust published values for chance, given the candidate counts behind them."""
    form = _format(as_json, as_csv, as_markdown, as_latex)
    given: dict[str, float] = {}
    for item in values:
        name, equals, number = item.rpartition("=")
        if name in given:
            raise InputError("the same metric twice", got=f"{name} in {' '.join(values)}")
        try:
            given[name] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InputError("a value must look like mrr=0.43", got=repr(item))
    _show(adjust(given, _read_sizes(sizes)), form)


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
    data: Annotated[str, typer.Option(help="A folder with a graph, or nations, kinships, umls.")],
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
GraphArgument = Annotated[str, typer.Argument(help="A folder with a graph, or nations, kinships, umls.")]
UnseenOption = Annotated[Unseen, typer.Option(help="Keep or drop what train never shows.")]


@data_app.command("show")
def data_show(graph: GraphArgument, unseen: UnseenOption = "keep", as_json: AsJson = False) -> None:
    """Show what a graph holds."""
    loaded = load(graph, unseen=unseen)
    if not as_json:
        typer.echo(repr(loaded))
        return
    _echo_json(
        {
            "name": loaded.name,
            "entities": len(loaded.entities),
            "relations": len(loaded.relations),
            "splits": {split: len(triples) for split, triples in loaded.splits.items()},
            "hash": loaded.hash,
            "vocabulary": loaded.vocabulary,
            "notes": list(loaded.notes),
        }
    )


@data_app.command("check")
def data_check(graph: GraphArgument, unseen: UnseenOption = "keep", as_json: AsJson = False) -> None:
    """Check a graph: duplicates, leaks between splits, what train never shows."""
    findings = load(graph, unseen=unseen).findings()
    if as_json:
        _echo_json([{"severity": severity, "finding": text} for severity, text in findings])
        return
    for severity, text in findings:
        typer.echo(f"{severity:8} {text}")


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
