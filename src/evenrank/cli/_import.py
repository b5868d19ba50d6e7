"""Importing ranks and predictions of other libraries: `evenrank import`."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from evenrank.cli._output import show
from evenrank.cli._shell import (
    Average,
    By,
    FormatOption,
    Metrics,
    OwnTies,
    QuietOption,
    SplitOption,
    SplitsOption,
    UnseenOption,
    app,
    check_writable,
    file_names,
    once,
    splits,
)
from evenrank.errors import InputError
from evenrank.graphs import Graph, load
from evenrank.integrations import dumps, ogb, topk, trec
from evenrank.integrations.listed import Order
from evenrank.integrations.trec import Targets
from evenrank.metrics.grammar import parse
from evenrank.models.readers.checkpoint import reason, torch_file
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task

Source = Literal["ampligraph", "anyburl", "libkge", "lists", "ogb", "pykeen", "trec", "wikikg90m"]
FILES: dict[Source, str] = {
    "ampligraph": "the array of ranks (.npy)",
    "anyburl": "a file of predictions",
    "libkge": "trace.yaml, or its folder",
    "lists": "JSON lines",
    "ogb": "arrays y_pred_pos and y_pred_neg (.npz, .pt)",
    "pykeen": "arrays tail.optimistic, ... (.npz)",
    "trec": "a run and its judgements",
    "wikikg90m": "t_pred_top10 (.npz) and the answers (.npy)",
}
LISTS: set[Source] = {"anyburl", "lists", "trec", "wikikg90m"}
GRAPHS: set[Source] = {"ampligraph", "anyburl", "libkge", "lists", "pykeen"}
# the sources that each option applies to
USES: dict[str, set[Source]] = {
    "data": GRAPHS,
    "split": GRAPHS,
    "sides": GRAPHS,
    "filter": GRAPHS,
    "unseen": GRAPHS,
    "candidates": {"ampligraph", "libkge", "trec", "wikikg90m"},
    "names": {"libkge"},
    "order": LISTS - {"wikikg90m"},
    "targets": {"trec"},
    "relevant": {"trec"},
    "settled": {"ampligraph"},
    "lenient": LISTS,
    "trust-pickle": {"ampligraph", "ogb", "pykeen", "wikikg90m"},
}
NAME_IT = "name the graph with --data NAME_OR_FOLDER"
PREDICTED = ("t_pred_top10", "t_correct_index", "t")


@dataclass(frozen=True)
class Arguments:
    """The arguments of the command."""

    files: list[Path]
    graph: Graph | None
    split: str
    asked: Callable[[Graph], Task]
    candidates: int | None
    names: Path | None
    order: Order
    targets: Targets
    relevant: int
    settled: str
    lenient: bool
    trust_pickle: bool
    model: str

    @property
    def file(self) -> Path:
        """The single file; raises `InputError` if there are several."""
        if len(self.files) > 1:
            raise InputError("this source is read from one file", got=" ".join(map(str, self.files)))
        return self.files[0]

    @property
    def data(self) -> Graph:
        """The graph."""
        if self.graph is None:
            raise InputError("the names of entities need a graph", do=NAME_IT)
        return self.graph

    @property
    def task(self) -> Task | int:
        """The task that was ranked, or the number of candidates."""
        if self.graph is not None:
            return self.asked(self.graph)
        if self.candidates is None:
            raise InputError(
                "the number of candidates is not known",
                do="name the graph that was ranked with --data, or the number with --candidates",
            )
        return self.candidates


def _lists(given: Arguments, read: Callable[..., Ranks]) -> Ranks:
    return read(
        given.file,
        given.data,
        given.asked(given.data),
        order=given.order,
        lenient=given.lenient,
        model=given.model,
    )


def _ogb(given: Arguments) -> Ranks:
    once(given.files, "file of predictions")
    parts = [
        ogb.ranks(_arrays(file, given.trust_pickle), protocol={"model": given.model})
        for file in given.files
    ]
    if len(parts) == 1:
        return parts[0]
    named = zip(file_names(given.files), parts, strict=True)
    return reduce(add, (part.with_keys(file=name) for name, part in named))


def _trec(given: Arguments) -> Ranks:
    if len(given.files) != 2:
        got = " ".join(map(str, given.files))
        raise InputError("trec needs two files, a run and its judgements", got=got)
    if given.candidates is None:
        raise InputError(
            "the number of candidates is not known",
            do="pass the number of documents in the collection with --candidates",
        )
    return trec.ranks(
        *given.files,
        candidates=given.candidates,
        relevant=given.relevant,
        targets=given.targets,
        order=given.order,
        lenient=given.lenient,
        model=given.model,
    )


def _wikikg90m(given: Arguments) -> Ranks:
    found: dict[str, Any] = {}
    for file in given.files:
        for name, values in _arrays(file, given.trust_pickle).items():
            # OGB names them val_t.npy and val_t_correct_index.npy
            known = next((known for known in PREDICTED if f"_{name}".endswith(f"_{known}")), None)
            if known is None:
                allowed = ", ".join(PREDICTED)
                raise InputError(f"{file}: unknown array", got=name, allowed=allowed)
            found[known] = values
    return topk.wikikg90m(
        {topk.TAILS: found}, candidates=given.candidates, lenient=given.lenient, model=given.model
    )


READERS: dict[Source, Callable[[Arguments], Ranks]] = {
    "ampligraph": lambda given: dumps.ampligraph(
        _only(given.file, given.trust_pickle), given.task, settled=given.settled, model=given.model
    ),
    "anyburl": lambda given: _lists(given, topk.anyburl),
    "libkge": lambda given: dumps.libkge(
        given.file, given.task, names=given.names, split=given.split, model=given.model
    ),
    "lists": lambda given: _lists(given, topk.jsonl),
    "ogb": _ogb,
    "pykeen": lambda given: dumps.pykeen(
        _arrays(given.file, given.trust_pickle),
        None if given.graph is None else given.asked(given.graph),
        model=given.model,
    ),
    "trec": _trec,
    "wikikg90m": _wikikg90m,
}


def _arrays(file: Path, trust_pickle: bool) -> dict[str, Any]:
    """Read arrays by name; a single array is named like its file."""
    if not file.exists():
        raise InputError("no such file", got=str(file))
    if file.suffix in (".pt", ".pth"):
        content = torch_file(file, trust_pickle=trust_pickle)
    else:
        content = _numpy(file)
    named = content if isinstance(content, dict) else {file.stem: content}
    return {str(name): values for name, values in named.items()}


def _numpy(file: Path) -> Any:
    try:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        got = reason(error)
        raise InputError(f"cannot read {file}", got=got, allowed=".npy, .npz, .pt") from None


def _only(file: Path, trust_pickle: bool) -> Any:
    arrays = _arrays(file, trust_pickle)
    if len(arrays) != 1:
        raise InputError(f"{file} has more than one array", got=", ".join(arrays))
    return next(iter(arrays.values()))


@app.command("import")
def import_command(
    context: typer.Context,
    source: Annotated[Source, typer.Argument(metavar="SOURCE", help="Kind of the files.")],
    files: Annotated[
        list[Path], typer.Argument(help="; ".join(f"{name}: {what}" for name, what in FILES.items()))
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write the ranks to (.parquet, .csv).")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Graph: a folder, or a name from evenrank data list.")
    ] = None,
    split: SplitOption = "test",
    sides: Annotated[
        Literal["both", "tail", "head", "relation"], typer.Option(help="The sides that were predicted.")
    ] = "both",
    filter_: SplitsOption = "all",
    unseen: UnseenOption = "keep",
    candidates: Annotated[
        int | None, typer.Option(help="Number of candidates per target, if there is no --data.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="LibKGE: data folder with the names of entities.")
    ] = None,
    order: Annotated[
        Order, typer.Option(help="Rank lists by their scores, or in the order of the file.")
    ] = "scores",
    targets: Annotated[
        Targets, typer.Option(help="TREC: rank every relevant document, or the first of each query.")
    ] = "every",
    relevant: Annotated[int, typer.Option(help="TREC: least judgement that counts as relevant.")] = 1,
    settled: Annotated[
        Literal["worst", "middle", "best"], typer.Option(help="AmpliGraph: the ranking_strategy used.")
    ] = "worst",
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient", help="Skip unknown answers, and count repeated ones at their best rank."
        ),
    ] = False,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Unpickle .pt files; pickles can run any code.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Name of the model. By default that of the first file.")
    ] = None,
    metric: Metrics = None,
    by: By = None,
    ties: OwnTies = None,
    average: Average = "micro",
    quiet: QuietOption = False,
    form: FormatOption = "table",
) -> None:
    """Import ranks or predictions of other libraries.

    Prints the metrics and, with --out, saves the ranks.
    """
    if out is not None:
        check_writable(out)
    wanted = [parse(name) for name in metric or ()]  # before the work
    given = {
        option.opts[0].removeprefix("--")
        for option in context.command.params
        if context.params[str(option.name)] != option.default
    }
    for option, sources in USES.items():
        if option in given and source not in sources:
            raise InputError(
                f"--{option} does not apply to {source}", allowed=", ".join(sorted(sources))
            )
    for option in ("sides", "filter", "unseen"):
        if option in given and data is None:
            raise InputError(f"--{option} needs a graph", do=NAME_IT)
    if data is not None and candidates is not None:
        raise InputError("--data excludes --candidates", do="leave one of them out")
    arguments = Arguments(
        files,
        None if data is None else load(data, unseen=unseen),
        split,
        lambda graph: graph.task(split, sides=sides, filter=splits(filter_)),
        candidates,
        names,
        order,
        targets,
        relevant,
        settled,
        lenient,
        trust_pickle,
        model or files[0].stem,
    )
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        ranks = READERS[source](arguments)
    if not quiet and ranks.protocol.scores:
        typer.echo(f"note: {ranks.protocol.scores}", err=True)
    if out is not None:
        ranks.save(out)
    grouped = ranks.by(*by.split(",")) if by else ranks
    show(grouped.evaluate(*wanted, ties=ties, average=average), form)
