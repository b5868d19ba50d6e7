"""From models to ranks: `evenrank rank`, `demo`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evenrank import models
from evenrank._internal.table import figure
from evenrank.cli._evaluate import rows_per_file
from evenrank.cli._shell import (
    ENDINGS,
    AsCsv,
    AsJson,
    AsLatex,
    AsMarkdown,
    Average,
    By,
    Metrics,
    OwnTies,
    SplitsOption,
    app,
    check_writable,
    chosen_form,
    file_names,
    in_shell,
    show,
    splits,
)
from evenrank.errors import InputError
from evenrank.graphs import Unseen, load
from evenrank.graphs.make_task import Candidates
from evenrank.metrics.grammar import parse
from evenrank.models import load as read_model
from evenrank.models.readers import READERS
from evenrank.ranking import cluster, rank
from evenrank.ranking.engine.run import launched
from evenrank.ranks.evaluation import evaluate
from evenrank.ranks.presets import Name, preset
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Outside, Task

Sides = Literal["both", "tail", "head", "relation", "pair"]


@app.command("rank")
def rank_command(
    model: Annotated[
        list[Path],
        typer.Argument(
            help="Models saved by evenrank (.safetensors) or checkpoints of other libraries."
        ),
    ],
    data: Annotated[str, typer.Option(help="A folder with a graph, or a name of evenrank data list.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Write the ranks here (.parquet or .csv); of several models, a folder."
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"What kind of checkpoint it is: auto, {', '.join(READERS)}.")
    ] = "auto",
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Unpickle a checkpoint, which may run code in it.")
    ] = False,
    split: Annotated[str, typer.Option(help="The split whose triples are ranked.")] = "test",
    sides: Annotated[Sides, typer.Option(help="What is asked for; both means tail and head.")] = "both",
    filter_: SplitsOption = "all",
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
        Unseen | None,
        typer.Option(help="Keep or drop what train never shows (keep, or as the protocol does)."),
    ] = None,
    protocol: Annotated[
        Name | None, typer.Option(help="Filter, compare scores and rank ties as this library does.")
    ] = None,
    metric: Metrics = None,
    by: By = None,
    ties: OwnTies = None,
    average: Average = "micro",
    device: Annotated[str, typer.Option(help="cpu, cuda, auto, or torch:DEVICE.")] = "cpu",
    memory: Annotated[str | None, typer.Option(help="Working space, e.g. 500MB.")] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use (all).")] = None,
    exact: Annotated[
        bool,
        typer.Option(help="Certify every comparison; else compare plain scores as they come."),
    ] = True,
    mesh: Annotated[
        str | None,
        typer.Option(
            help="What the processes of torchrun share out: queries (unless told), candidates, or both, "
            "e.g. queries=2,candidates=4."
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Write blocks into this folder as they are finished; what was killed goes on there."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Rank by the workers of a Dask scheduler: its address, or local (with --into)."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Rank models on a graph: filtered, both sides; print the table and keep the ranks."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    process = launched()
    if process is not None:
        mesh = mesh or "queries"
    if process:  # the first one, 0, speaks and writes for all
        quiet, out = True, None
    files, folders = _places(model, out), _folders(model, into)
    wanted = [parse(name) for name in metric or ()]  # a slip should show before the work, not after it
    graph = load(data, unseen=unseen or (preset(protocol).unseen if protocol else "keep"))
    task = graph.task(
        split,
        sides=sides,
        filter=splits(filter_),
        candidates=_candidates(candidates),
        seed=seed,
        outside=outside,
        protocol=protocol,
    )
    if not quiet:
        for note in graph.notes:
            typer.echo(f"note: {in_shell(note)}", err=True)
    ranked = []
    with _ranker(dask, into, threads=threads, exact=exact, mesh=mesh) as ranker:
        for path, file, folder in zip(model, files, folders, strict=True):
            # workers map the file too; else nobody should mind if it is written anew meanwhile
            mapped = dask is not None
            scorer = read_model(path, graph, format=format_, trust_pickle=trust_pickle, mapped=mapped)
            if not quiet:
                for note in getattr(scorer, "notes", ()):
                    typer.echo(f"note: {path.name}: {note}", err=True)
            ranks = ranker(scorer, task, device=device, memory=memory, progress=not quiet, into=folder)
            if file is not None:
                ranks.save(file)
            ranked.append(ranks)
    if process:
        return
    keys = tuple(by.split(",")) if by else ()
    if len(ranked) > 1:
        ties = ties or ranked[0].ties
        show(rows_per_file(model, ranked, wanted, keys, ties, (average,), what="model"), form)
    else:
        source = ranked[0].by(*keys) if keys else ranked[0]
        show(source.evaluate(*wanted, ties=ties, average=average), form)
    if not quiet:
        for ranks, file, folder in zip(ranked, files, folders, strict=True):
            typer.echo(_work(ranks, task, file or folder), err=True)


def _places(models: list[Path], out: Path | None) -> list[Path | None]:
    """Say where the ranks of each model go, and see that they can be written before the work begins."""
    if out is None:
        return [None] * len(models)
    if len(models) == 1:
        check_writable(out)
        return [out]
    if out.is_file() or out.suffix in ENDINGS:
        raise InputError(
            "the ranks of several models need a folder", got=str(out), do="name one, or rank one model"
        )
    places = [place.with_name(f"{place.name}.parquet") for place in _apart(models, out)]
    out.mkdir(parents=True, exist_ok=True)
    for place in places:
        check_writable(place)
    return [*places]


def _folders(models: list[Path], into: Path | None) -> list[Path | None]:
    """Say into which folder each model is ranked; several have one each."""
    if into is None or len(models) == 1:
        return [into] * len(models)
    return [*_apart(models, into)]


def _apart(models: list[Path], folder: Path) -> list[Path]:
    """Give each model a place in a folder, by its name, which must be its own."""
    places = [folder / Path(name).name for name in file_names(models)]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise InputError(
            "two models would write to the same place", got=str(twice), do="rename one, or rank it apart"
        )
    return places


@contextmanager
def _ranker(dask: str | None, into: Path | None, **options: Any) -> Iterator[Callable[..., Ranks]]:
    """Say who ranks: this process, with others that torchrun started, or the workers of a cluster."""
    if dask is None:
        yield partial(rank, **options)
        return
    if into is None:
        raise InputError("a cluster ranks into a folder", got="--dask without --into", do="name one")
    if options != {"threads": None, "exact": True, "mesh": None}:
        raise InputError(
            "the workers of a cluster rank exactly, each thread a block of its own",
            got="--dask with --threads, --no-exact or --mesh",
        )
    with cluster.connect(dask) as client:
        yield partial(cluster.rank, client=client)


def _work(ranks: Ranks, task: Task, place: Path | None) -> str:
    """Say what ranking took, this time."""
    work = ranks.work
    assert work is not None  # they were ranked just now
    words = []
    if work.scores:
        words.append(
            f"{work.scores:,} scores in {work.seconds:.2f} s: {work.scores / work.seconds / 1e6:,.3g} "
            f"million/s ({work.kernels} kernels; {work.undecided:,} comparisons took float64)"
        )
    if work.scores < task.scores:
        words.append(f"{task.scores - work.scores:,} scores were there already")
    if place is not None:
        words.append(f"ranks in {place}")
    return "; ".join(words)


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


DEMO = ("mrr", "chance(mrr)", "index(mrr)", "z(mrr)", "hits@10", "chance(hits@10)", "index(hits@10)")


@app.command("demo")
def demo(as_json: AsJson = False, as_markdown: AsMarkdown = False) -> None:
    """Rank twelve bundled models on three graphs, and show why adjustment matters."""
    form = chosen_form(as_json, False, as_markdown, False)
    ranked = sorted(_ranked(), key=lambda ranks: float(ranks.candidates.mean()))
    result = evaluate(
        [ranks.tally() for ranks in ranked],
        DEMO,
        labels=[
            (
                ranks.protocol.data or "",
                ranks.protocol.model or "",
                figure(float(ranks.candidates.mean())),
            )
            for ranks in ranked
        ],
        label_names=("data", "model", "candidates"),
        protocol=Protocol.from_dict({"split": "test", "filter": "train, valid, test"}),
    )
    show(result, form)
    work = [ranks.work for ranks in ranked if ranks.work is not None]
    if form == "text":
        typer.echo(
            f"\nRanked just now: {len(work)} models, {sum(w.scores for w in work):,} scores, in "
            f"{sum(w.seconds for w in work):.2f} s; codexsmall and wn18rr come from files of ranks.\n"
            "The more candidates, the less chance gets, so mrr and hits@10 do not compare across\n"
            "graphs. index puts chance at 0 and a perfect model at 1, on every graph; z counts the\n"
            "standard deviations above chance, and grows with the number of targets too.\n"
            "Next: evenrank rank MODEL --data DIR, evenrank evaluate FILE, evenrank --help"
        )


def _ranked() -> Iterator[Ranks]:
    """Rank the bundled models, and read the bundled ranks of larger graphs."""
    folder = files("evenrank.cli").joinpath("demo")
    tasks = {name: load(name).task("test") for name in ("nations", "kinships", "umls")}
    for name, task in tasks.items():
        for kind in ("transe", "rotate", "complex", "tucker"):
            yield rank(models.load(f"{name}/{kind}"), task, progress=False)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".parquet"):
            with as_file(file) as path:
                yield Ranks.load(path)
