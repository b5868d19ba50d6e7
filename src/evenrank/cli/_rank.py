"""Ranking with models: `evenrank rank`, `demo`."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from glob import glob
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evenrank import models
from evenrank._internal.columns import is_whole
from evenrank._internal.progress import short
from evenrank._internal.table import figure
from evenrank._internal.terminal import terminal_width, wrapped
from evenrank.cli._command import tell
from evenrank.cli._evaluate import rows_per_file
from evenrank.cli._output import show
from evenrank.cli._shell import (
    ENDINGS,
    GRAPH,
    Average,
    By,
    ColumnsOption,
    FormatOption,
    Metrics,
    OwnTies,
    QuietOption,
    SplitsOption,
    VerboseOption,
    app,
    check_writable,
    complete_graph,
    file_names,
    splits,
)
from evenrank.errors import InputError, Option, for_shell
from evenrank.graphs import Graph, Unseen, atlas, load
from evenrank.graphs.instants import Time
from evenrank.graphs.make_task import Candidates
from evenrank.metrics.chance import Dependence
from evenrank.metrics.grammar import parse
from evenrank.models import bundled, load_pair
from evenrank.models.readers import READERS
from evenrank.ranking import cluster, rank
from evenrank.ranking.engine.run import launched
from evenrank.ranks.evaluation import evaluate
from evenrank.ranks.presets import Name, preset
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Outside, Task

Sides = Literal["both", "tail", "head", "relation", "pair"]


@app.command("rank")
def rank_command(
    model: Annotated[
        list[Path],
        typer.Argument(
            help="Models saved by evenrank (.safetensors), or checkpoints of other libraries."
        ),
    ],
    data: Annotated[str, typer.Option(autocompletion=complete_graph, help=GRAPH)],
    columns: ColumnsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write the ranks to (.parquet, .csv); or a folder, with a file for each model.",
        ),
    ] = None,
    model_format: Annotated[
        str, typer.Option(help=f"Library that saved the checkpoint: auto, {', '.join(READERS)}.")
    ] = "auto",
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Unpickle the checkpoint; pickles can run any code.")
    ] = False,
    split: Annotated[str, typer.Option(help="Split to rank.")] = "test",
    sides: Annotated[Sides, typer.Option(help="Sides to predict; both means tail and head.")] = "both",
    filter_: SplitsOption = "all",
    time: Annotated[
        Time | None,
        typer.Option(
            help="Temporal graphs: filter known answers at the time of the query (aware, the default), "
            "at overlapping times, or at any time (agnostic)."
        ),
    ] = None,
    candidates: Annotated[
        str,
        typer.Option(
            help="all; typed (seen in training); sampled:K; or a type_constrain.txt of OpenKE."
        ),
    ] = "all",
    seed: Annotated[
        int, typer.Option(rich_help_panel="Protocol", help="Seed for --candidates sampled:K.")
    ] = 0,
    outside: Annotated[
        Outside, typer.Option(help="How to treat targets that are not among their candidates.")
    ] = "raise",
    unseen: Annotated[
        Unseen | None,
        typer.Option(
            help="Keep or drop entities and relations not seen in training. By default as --protocol "
            "does; otherwise keep, but drop for models that know only what is seen in training, such as "
            "PyKEEN's."
        ),
    ] = None,
    answers: Annotated[
        Literal["apart", "together"],
        typer.Option(
            help="Rank each answer of a query without the others, or all together, for metrics such as "
            "map and ndcg@10; --out then has a row per query."
        ),
    ] = "apart",
    protocol: Annotated[
        Name | None, typer.Option(help="Filter, compare scores and break ties as this library does.")
    ] = None,
    metric: Metrics = None,
    by: By = None,
    ties: OwnTies = None,
    average: Average = "micro",
    device: Annotated[str, typer.Option(help="cpu, cuda, auto, or torch:DEVICE.")] = "cpu",
    memory: Annotated[str | None, typer.Option(help="Limit of working memory, e.g. 500MB.")] = None,
    threads: Annotated[int | None, typer.Option(help="Number of threads. By default all cores.")] = None,
    exact: Annotated[
        bool, typer.Option(help="Certify every comparison of scores, or compare plain float32 scores.")
    ] = True,
    mesh: Annotated[
        str | None,
        typer.Option(
            help="Process mesh under torchrun: distribute queries (default), candidates, or both, e.g. "
            "queries=2,candidates=4."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint folder: finished blocks are saved there, and running the same command "
            "again resumes."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Rank on Dask workers: the address of a scheduler, or local. Needs --checkpoint."
        ),
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
) -> None:
    """Rank the test triples of a graph by trained models.

    Prints the metrics and, with --out, saves the ranks.

    Examples
    --------
    evenrank rank nations/transe --data nations -o ranks.parquet
    evenrank rank model.safetensors --data FOLDER --sides tail -m mrr,hits@10
    """
    process = launched()
    if process is not None:
        mesh = mesh or "queries"
    if process:  # only process 0 prints and writes
        quiet, out = True, None
    model = _expanded(model)
    files, folders = _places(model, out), _folders(model, checkpoint)
    wanted = [parse(name) for name in metric or ()]  # before the work
    rule = unseen or (preset(protocol).unseen if protocol else None)
    graph = load(data, unseen=rule or "keep", columns=columns)

    @cache
    def ask(graph: Graph) -> Task:
        return graph.task(
            split,
            sides=sides,
            filter=splits(filter_),
            candidates=_candidates(candidates),
            seed=seed,
            outside=outside,
            protocol=protocol,
            time=time,
        )

    if rule is not None:  # the graph is known, so that errors in options come before the work
        ask(graph)
    ranked: list[Any] = []
    graphs: list[Graph] = []
    with _ranker(dask, checkpoint, threads=threads, exact=exact, mesh=mesh) as ranker:
        for path, file, folder in zip(model, files, folders, strict=True):
            # workers map the file as well; otherwise it may be overwritten meanwhile
            mapped = dask is not None
            scorer, own = load_pair(
                path,
                graph,
                unseen=rule,
                format=model_format,
                trust_pickle=trust_pickle,
                mapped=mapped,
            )
            task = ask(own)
            if not quiet:
                _tell(path, scorer, graph, own, first=own not in graphs)
            graphs.append(own)
            options = {"device": device, "memory": memory, "progress": not quiet, "checkpoint": folder}
            ranks = ranker(scorer, task, answers=answers, **options)
            if file is not None:
                ranks.save(file)
            ranked.append(ranks)
    if process:
        return
    keys = tuple(by.split(",")) if by else ()
    if len(set(graphs)) > 1 and not quiet:
        tell(
            "note: some models are ranked without entities not seen in training, others with them; "
            "their rows cannot be compared"
        )
    if len(ranked) > 1:
        ties = ties or ranked[0].ties
        made = rows_per_file(model, ranked, wanted, keys, ties, (average,), what="model")
        show(made.pivot("model") if keys else made, form, verbose=verbose)
    else:
        source = ranked[0].by(*keys) if keys else ranked[0]
        show(source.evaluate(*wanted, ties=ties, average=average), form, verbose=verbose)
    if not quiet:
        for ranks, own, file, folder in zip(ranked, graphs, files, folders, strict=True):
            tell(_work(ranks, ask(own), file or folder))


def _tell(path: Path, scorer: Any, graph: Graph, own: Graph, *, first: bool) -> None:
    """Print the notes of the graph that a model is ranked on, if it is the `first`, and the model's."""
    decided = own is not graph  # by the model, whose notes then say what was left out
    notes = [note for note in own.notes if not decided or note not in own.dropped] if first else []
    notes += [f"{path.name}: {note}" for note in getattr(scorer, "notes", ())]
    if first and decided:
        notes.append("--unseen keep ranks all entities, and raises an error for models without them")
    for note in notes:
        tell(f"note: {for_shell(note)}")


def _expanded(models: list[Path]) -> list[Path]:
    """Expand patterns that the shell left, as of bundled models, which are no files: nations/*."""
    found = list[Path]()
    for model in models:
        text = str(model)
        names = [] if model.exists() else sorted(glob(text)) or fnmatch.filter(bundled(), text)
        found += map(Path, names or [text])
    return found


def _places(models: list[Path], out: Path | None) -> list[Path | None]:
    """Return the file for the ranks of each model, after checking that it can be written."""
    if out is None:
        return [None] * len(models)
    if len(models) == 1 and (out.is_file() or (out.suffix and not out.is_dir())):
        check_writable(out)
        return [out]
    if out.is_file() or (out.suffix in ENDINGS and not out.is_dir()):
        raise InputError(
            "the ranks of several models need a folder",
            got=str(out),
            do="name a folder, or rank one model",
        )
    places = [place.with_name(f"{place.name}.parquet") for place in _apart(models, out)]
    out.mkdir(parents=True, exist_ok=True)
    for place in places:
        check_writable(place)
    return [*places]


def _folders(models: list[Path], checkpoint: Path | None) -> list[Path | None]:
    """Return the checkpoint folder of each model; several models have a folder each."""
    if checkpoint is None or len(models) == 1:
        return [checkpoint] * len(models)
    return [*_apart(models, checkpoint)]


def _apart(models: list[Path], folder: Path) -> list[Path]:
    """Return a path in a folder for each model, by file name."""
    places = [folder / Path(name).name for name in file_names(models)]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise InputError(
            "two models would write to the same place",
            got=str(twice),
            do="rename one, or rank it separately",
        )
    return places


@contextmanager
def _ranker(
    dask: str | None, checkpoint: Path | None, **options: Any
) -> Iterator[Callable[..., Ranks | Rankings]]:
    """Yield the function that ranks: in this process (and others of torchrun), or on a cluster."""
    if dask is None:
        yield partial(rank, **options)
        return
    if checkpoint is None:
        raise InputError(
            "a cluster needs a checkpoint folder",
            got="--dask without --checkpoint",
            do=["name one by ", Option("checkpoint", "FOLDER")],
        )
    if options != {"threads": None, "exact": True, "mesh": None}:
        raise InputError(
            "--dask excludes --threads, --no-exact and --mesh",
            do="leave them out: workers rank exactly, one block per thread",
        )
    with cluster.connect(dask) as client:
        yield partial(cluster.rank, client=client)


def _work(ranks: Ranks | Rankings, task: Task, place: Path | None) -> str:
    """Describe the work of this run."""
    work = ranks.work
    assert work is not None  # they were ranked just now
    words = []
    if work.scores:
        words.append(
            f"{work.scores:,} scores in {work.seconds:.2f} s: {short(work.scores / work.seconds)}/s "
            f"({work.kernels} kernels; {work.undecided:,} comparisons took float64)"
        )
    if work.scores < task.scores:
        words.append(f"{task.scores - work.scores:,} scores were resumed from the checkpoint")
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
    if not is_whole(number):
        raise InputError("sampled candidates need a number", got=repr(text), do="write e.g. sampled:500")
    return int(number)


DEMO = ("mrr", "chance(mrr)", "index(mrr)", "z(mrr)", "hits@10", "chance(hits@10)", "index(hits@10)")


@app.command("demo")
def demo(verbose: VerboseOption = False, form: FormatOption = "table") -> None:
    """Rank bundled models and show why chance adjustment matters.

    Examples
    --------
    evenrank demo
    evenrank demo -o demo.json
    """
    ranked = sorted(_ranked(), key=lambda ranks: float(ranks.candidates.mean()))
    known = ("data", "model", "candidates")[: 2 if form == "latex" else 3]
    result = evaluate(
        [ranks.tally() for ranks in ranked],
        DEMO,
        dependences=[partial(_dependence, ranks) for ranks in ranked],
        labels=[
            (
                ranks.protocol.data or "",
                ranks.protocol.model or "",
                figure(float(ranks.candidates.mean())),
            )[: len(known)]
            for ranks in ranked
        ],
        label_names=known,
        protocol=Protocol.from_dict({"split": "test", "filter": "train, valid, test"}),
    )
    optional = ("chance(hits@10)", "candidates", "z(mrr)", "index(hits@10)", "hits@10", "chance(mrr)")
    show(result, form, verbose=verbose, optional=optional)
    work = [ranks.work for ranks in ranked if ranks.work is not None]
    if form == "table":
        scores, seconds = sum(w.scores for w in work), sum(w.seconds for w in work)
        for text in (
            "",
            f"Ranked {len(work)} models: {scores:,} scores in {seconds:.2f} s; codexsmall and wn18rr "
            "come from files of ranks.",
            "The chance level falls with the number of candidates, so mrr and hits@10 cannot be "
            "compared across graphs. The index is 0 at chance level and 1 for a perfect model, on every "
            "graph; z counts standard deviations above chance, and grows with the number of targets as "
            "well.",
            "Next: evenrank rank MODEL --data DIR, evenrank evaluate FILE, evenrank --help",
        ):
            typer.echo("\n".join(wrapped(text, terminal_width() or 80, names=False)))


def _dependence(ranks: Ranks) -> Dependence | None:
    """Describe which ranks depend on each other; ranks without keys are those of their benchmark."""
    known = ranks.dependence()
    benchmark = atlas.atlas(str(ranks.protocol.data))
    return benchmark.dependence() if known is None and benchmark == ranks.tally().sizes else known


def _ranked() -> Iterator[Ranks]:
    """Rank the bundled models, and load the bundled ranks of larger graphs."""
    folder = files("evenrank.cli").joinpath("demo")
    tasks = {name: load(name).task("test") for name in ("nations", "kinships", "umls")}
    for name, task in tasks.items():
        for kind in ("transe", "rotate", "complex", "tucker"):
            yield rank(models.load(f"{name}/{kind}"), task, progress=False)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".parquet"):
            with as_file(file) as path:
                yield Ranks.load(path)
