"""Importing ranks and predictions of other libraries: `evenrank import`.

A function per source reads its files with its own options. The decorator `source` adds those that the
sources share: the question to a graph (`_asked`), and what is done with the ranks (`_finish`).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import typer

from evenrank._internal.reading import check_regular, load_arrays
from evenrank.cli._command import App, tell
from evenrank.cli._output import show
from evenrank.cli._shell import (
    GRAPH,
    Average,
    By,
    ColumnsOption,
    FormatOption,
    Metrics,
    OwnTies,
    QuietOption,
    SplitOption,
    SplitsOption,
    UnseenOption,
    VerboseOption,
    app,
    check_writable,
    complete_graph,
    file_names,
    once,
    splits,
)
from evenrank.errors import InputError
from evenrank.graphs import Graph, load
from evenrank.integrations import dumps, ogb, topk, trec
from evenrank.integrations.listed import Order
from evenrank.integrations.trec import ListTies, Queries, Unretrieved
from evenrank.metrics.grammar import parse
from evenrank.models.readers.checkpoint import torch_file
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task

NAME_IT = "name the graph with --data NAME_OR_FOLDER"
PREDICTED = ("t_pred_top10", "t_correct_index", "t")
import_app = App(
    help="""Import ranks or predictions of other libraries.

    Prints the metrics and, with --out, saves the ranks.

    Examples
    --------
    evenrank import pykeen ranks.npz --data nations -o ranks.parquet
    evenrank import trec run.txt --qrels qrels.txt --candidates 60
    """
)
app.add_typer(import_app, name="import")
Counted = Annotated[
    int | None, typer.Option(min=1, help="Number of candidates per target, if there is no --data.")
]
OrderOption = Annotated[
    Order, typer.Option(help="Rank lists by their scores, or in the order of the file (listed).")
]
Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Skip unknown answers, and count repeated ones at their best rank."),
]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Unpickle .pt files; pickles can run any code.")
]


class Asked(NamedTuple):
    """The graph, the task that was ranked on it, its split, and the name of the model."""

    graph: Graph | None
    task: Task | None
    split: str
    model: str

    def task_or(self, candidates: int | None) -> Task | int:
        """Return the task, or the number of candidates if there is no graph."""
        if self.task is not None and candidates is not None:
            raise InputError("--data excludes --candidates", do="leave one of them out")
        known = self.task or candidates
        if known is None:
            raise InputError(
                "the number of candidates is not known",
                do="name the graph that was ranked with --data, or the number with --candidates",
            )
        return known


def _asked(
    *,
    data: Annotated[str | None, typer.Option(autocompletion=complete_graph, help=GRAPH)] = None,
    columns: ColumnsOption = None,
    split: SplitOption = "test",
    sides: Annotated[
        Literal["both", "tail", "head", "relation"], typer.Option(help="The sides that were predicted.")
    ] = "both",
    filter_: SplitsOption = "all",
    unseen: UnseenOption = "keep",
    model: Annotated[
        str | None, typer.Option(help="Name of the model. By default that of the first file.")
    ] = None,
) -> Asked:
    """Load the graph, if there is one, and ask it for the task."""
    if data is None:
        given = {
            "columns": columns is not None,
            "sides": sides != "both",
            "filter": filter_ != "all",
            "unseen": unseen != "keep",
        }
        for option in (option for option, changed in given.items() if changed):
            raise InputError(f"--{option} needs a graph", do=NAME_IT)
        return Asked(None, None, split, model or "")
    graph = load(data, unseen=unseen, columns=columns)
    return Asked(graph, graph.task(split, sides=sides, filter=splits(filter_)), split, model or "")


def _finish(
    ranks: Ranks | Rankings,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write the ranks to (.parquet, .csv).")
    ] = None,
    metric: Metrics = None,
    by: By = None,
    ties: OwnTies = None,
    average: Average = "micro",
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
) -> None:
    """Save the ranks and print their metrics."""
    if not quiet and ranks.protocol.scores:
        tell(f"note: {ranks.protocol.scores}")
    if out is not None:
        ranks.save(out)
    grouped: Any = ranks.by(*by.split(",")) if by else ranks
    show(grouped.evaluate(*metric or (), ties=ties, average=average), form, verbose=verbose)


Reader: TypeAlias = Callable[..., Ranks | Rankings]


def source(name: str, *, graph: bool = False) -> Callable[[Reader], Reader]:
    """Register `evenrank import NAME`, for a function that reads ranks from options of its own.

    An own option takes the place of a shared one of the same name.
    """
    question = _options(_asked) if graph else _options(_asked)[-1:]

    def register(read: Reader) -> Reader:
        own = _options(read)
        shared = [one for one in _options(_finish) if one.name not in {mine.name for mine in own}]

        def command(**options: Any) -> None:
            def taken(those: list[inspect.Parameter]) -> dict[str, Any]:
                return {one.name: options.pop(one.name) for one in those}

            if options["out"] is not None:  # before the work, as the metrics
                check_writable(options["out"])
            options["metric"] = [parse(one) for one in options["metric"] or ()]
            files = options[own[0].name]
            options["model"] = options["model"] or (files[0] if isinstance(files, list) else files).stem
            with warnings.catch_warnings():
                if options["quiet"]:
                    warnings.simplefilter("ignore")
                ranks = read(_asked(**taken(question)), **taken(own))
            _finish(ranks, **options)

        command.__doc__ = read.__doc__
        signature = inspect.Signature([*own, *question, *shared])
        command.__signature__ = signature  # type: ignore[attr-defined]
        import_app.command(name)(command)
        return read

    return register


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the keyword-only parameters of a function, which are options in the shell."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [one for one in parameters if one.kind == inspect.Parameter.KEYWORD_ONLY]


# Sources ------------------------------------------------------------------------------------------


@source("pykeen", graph=True)
def _pykeen(
    asked: Asked,
    *,
    file: Annotated[Path, typer.Argument(help="Arrays tail.optimistic and so on (.npz).")],
    trust_pickle: TrustPickle = False,
) -> Ranks:
    """Import the ranks of PyKEEN's evaluator.

    Examples
    --------
    evenrank import pykeen ranks.npz --data nations -o ranks.parquet
    evenrank import pykeen ranks.npz --data nations --unseen drop -m mrr,hits@10
    """
    return dumps.pykeen(_arrays(file, trust_pickle), asked.task, model=asked.model)


@source("libkge", graph=True)
def _libkge(
    asked: Asked,
    *,
    file: Annotated[Path, typer.Argument(help="trace.yaml, or its folder.")],
    names: Annotated[
        Path | None, typer.Option(help="Data folder of LibKGE, with the names of entities.")
    ] = None,
    candidates: Counted = None,
) -> Ranks:
    """Import the ranks of examples in LibKGE's trace.

    Examples
    --------
    evenrank import libkge trace.yaml --candidates 14 -o ranks.parquet
    evenrank import libkge run --data nations --names ids -m mrr,hits@10
    """
    task = asked.task_or(candidates)
    return dumps.libkge(file, task, names=names, split=asked.split, model=asked.model)


@source("ampligraph", graph=True)
def _ampligraph(
    asked: Asked,
    *,
    file: Annotated[Path, typer.Argument(help="The array of ranks (.npy).")],
    settled: Annotated[
        Literal["worst", "middle", "best"], typer.Option(help="The ranking_strategy that was used.")
    ] = "worst",
    candidates: Counted = None,
    trust_pickle: TrustPickle = False,
) -> Ranks:
    """Import the array of ranks that AmpliGraph returns.

    Examples
    --------
    evenrank import ampligraph ranks.npy --candidates 14 -o ranks.parquet
    evenrank import ampligraph ranks.npy --data nations --settled middle
    """
    task, arrays = asked.task_or(candidates), _arrays(file, trust_pickle)
    if len(arrays) != 1:
        raise InputError(f"{file} has more than one array", got=", ".join(arrays))
    [ranks] = arrays.values()
    return dumps.ampligraph(ranks, task, settled=settled, model=asked.model)


@source("anyburl", graph=True)
def _anyburl(
    asked: Asked,
    *,
    file: Annotated[Path, typer.Argument(help="The file of predictions.")],
    order: OrderOption = "scores",
    lenient: Lenient = False,
) -> Ranks:
    """Import the predictions of AnyBURL or PyClause.

    Examples
    --------
    evenrank import anyburl predictions --data nations -o ranks.parquet
    evenrank import anyburl predictions --data nations --order listed --by side
    """
    return _lists(topk.anyburl, asked, file, order, lenient)


@source("lists", graph=True)
def _jsonl(
    asked: Asked,
    *,
    file: Annotated[Path, typer.Argument(help="JSON lines: a query and its answers on each.")],
    order: OrderOption = "scores",
    lenient: Lenient = False,
) -> Ranks:
    """Import lists of names, such as the answers of a language model.

    Examples
    --------
    evenrank import lists answers.jsonl --data nations -o ranks.parquet
    evenrank import lists answers.jsonl --data nations --sides tail --lenient
    """
    return _lists(topk.jsonl, asked, file, order, lenient)


def _lists(read: Callable[..., Ranks], asked: Asked, file: Path, order: Order, lenient: bool) -> Ranks:
    if asked.graph is None:
        raise InputError("the names of entities need a graph", do=NAME_IT)
    return read(file, asked.graph, asked.task, order=order, lenient=lenient, model=asked.model)


@source("ogb")
def _ogb(
    asked: Asked,
    *,
    files: Annotated[
        list[Path], typer.Argument(help="Files of arrays y_pred_pos and y_pred_neg (.npz, .pt).")
    ],
    trust_pickle: TrustPickle = False,
) -> Ranks:
    """Import scores as the evaluators of OGB take them.

    Examples
    --------
    evenrank import ogb scores.npz -o ranks.parquet
    evenrank import ogb head.npz tail.npz --by file -m mrr,hits@10
    """
    once(files, "file of predictions")
    protocol = {"model": asked.model}
    parts = [ogb.ranks(_arrays(file, trust_pickle), protocol=protocol) for file in files]
    if len(parts) == 1:
        return parts[0]
    named = zip(file_names(files), parts, strict=True)
    return reduce(add, (part.with_keys(file=name) for name, part in named))


@source("trec")
def _trec(
    asked: Asked,
    *,
    run: Annotated[Path, typer.Argument(help="The run: query, Q0, document, rank, score, name.")],
    qrels: Annotated[Path, typer.Option(help="File of judgements: query, 0, document, judgement.")],
    candidates: Annotated[
        int | None, typer.Option(min=1, help="Number of documents in the collection.")
    ] = None,
    answers: Annotated[
        Literal["together", "apart"],
        typer.Option(
            help="Rank the relevant documents of a query together, for metrics such as map and ndcg@10, "
            "or each without the others."
        ),
    ] = "together",
    ties: Annotated[
        ListTies, typer.Option(help="Equal scores tie, or are ordered by name as in trec_eval.")
    ] = "expected",
    unretrieved: Annotated[
        Unretrieved | None,
        typer.Option(
            help="Relevant documents that are not in the run tie with all others that are not, or are "
            "never retrieved. By default tied, with --candidates and without the ties of trec_eval."
        ),
    ] = None,
    queries: Annotated[
        Queries,
        typer.Option(help="Average over the judged queries of the run, or all judged (trec_eval -c)."),
    ] = "run",
    order: OrderOption = "scores",
    relevant: Annotated[float, typer.Option(help="Least judgement that counts as relevant.")] = 1,
    lenient: Lenient = False,
) -> Ranks | Rankings:
    """Import a TREC run and its judgements.

    Examples
    --------
    evenrank import trec run.txt --qrels qrels.txt --ties trec_eval -o run.parquet
    evenrank import trec run.txt --qrels qrels.txt --candidates 60 -m map,ndcg@10
    """
    shared: dict[str, Any] = {
        "relevant": relevant,
        "order": order,
        "lenient": lenient,
        "model": asked.model if asked.model != run.stem else None,
    }
    if answers == "together":
        return trec.rankings(
            run,
            qrels,
            candidates=candidates,
            ties=ties,
            unretrieved=unretrieved,
            queries=queries,
            **shared,
        )
    for option, changed in {
        "ties": ties != "expected",
        "unretrieved": unretrieved is not None,
        "queries": queries != "run",
    }.items():
        if changed:
            raise InputError(
                f"--{option} is for documents that are ranked together", do="leave --answers apart out"
            )
    if candidates is None:
        raise InputError(
            "the number of candidates is not known",
            do="pass the number of documents in the collection with --candidates",
        )
    return trec.ranks(run, qrels, candidates=candidates, **shared)


@source("wikikg90m")
def _wikikg90m(
    asked: Asked,
    *,
    files: Annotated[
        list[Path], typer.Argument(help="Files of t_pred_top10 and of the answers (.npz, .npy).")
    ],
    candidates: Annotated[
        int | None, typer.Option(help="Number of candidates. By default that of the benchmark.")
    ] = None,
    lenient: Lenient = False,
    trust_pickle: TrustPickle = False,
) -> Ranks:
    """Import the ten best tails of WikiKG90M.

    Examples
    --------
    evenrank import wikikg90m t_pred.npz val_t_correct_index.npy -m mrr
    evenrank import wikikg90m t_pred.npz val_t.npy -o ranks.parquet
    """
    found: dict[str, Any] = {}
    for file in files:
        for name, values in _arrays(file, trust_pickle).items():
            # OGB names them val_t.npy and val_t_correct_index.npy
            known = next((known for known in PREDICTED if f"_{name}".endswith(f"_{known}")), None)
            if known is None:
                allowed = ", ".join(PREDICTED)
                raise InputError(f"{file}: unknown array", got=name, allowed=allowed)
            found[known] = values
    return topk.wikikg90m({topk.TAILS: found}, candidates=candidates, lenient=lenient, model=asked.model)


def _arrays(file: Path, trust_pickle: bool) -> dict[str, Any]:
    """Read arrays by name; a single array is named like its file."""
    check_regular(file)
    if file.suffix in (".pt", ".pth"):
        content = torch_file(file, trust_pickle=trust_pickle)
    else:
        content = load_arrays(file)
    named = content if isinstance(content, dict) else {file.stem: content}
    return {str(name): values for name, values in named.items()}
