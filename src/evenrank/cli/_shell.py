"""Shared by all commands: common options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from evenrank.cli._command import App, check_place
from evenrank.errors import InputError
from evenrank.graphs import Order, Unseen, atlas, registry
from evenrank.metrics.chance import Chance
from evenrank.metrics.ties import Ties
from evenrank.ranks.presets import Name as PresetName


def split_metrics(texts: list[str] | None) -> list[str] | None:
    """Split lists of metrics at the commas outside parentheses, as in `mrr,mean(2, ndcg)`."""
    if texts is None:
        return None
    names: list[str] = []
    for text in texts:
        start = depth = 0
        for at, sign in enumerate(f"{text},"):
            depth += (sign == "(") - (sign == ")")
            if sign == "," and (depth == 0 or at == len(text)):
                names.append(text[start:at].strip())
                start = at + 1
    return names


def complete_metric(incomplete: str) -> list[str]:
    """Complete the last metric of a list."""
    from evenrank.metrics.grammar import ALIASES, NAMES

    before, comma, _ = incomplete.rpartition(",")
    adjusted = [f"{form}({name})" for form in ("index", "z") for name in ("mrr", "hits@10")]
    return [f"{before}{comma}{name}" for name in (*NAMES, "hits@1", "hits@10", *adjusted, *ALIASES)]


def complete_graph() -> list[str]:
    """List the benchmarks."""
    return [entry.name for entry in registry.entries().values()]


app = App()
Format = Literal["table", "json", "csv", "spreadsheet", "markdown", "latex"]
FORMAT = typer.Option("--format", help="Output format; a table unless told otherwise.")
FormatOption = Annotated[Format, FORMAT]
TableOrJson = Annotated[Literal["table", "json"], FORMAT]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        callback=split_metrics,
        autocompletion=complete_metric,
        help="Metrics such as mrr,hits@10 or 'z(mrr)'; repeatable. See evenrank evaluate --list.",
    ),
]
By = Annotated[str | None, typer.Option(help="Group by key columns, e.g. relation,side.")]
OwnTies = Annotated[
    Ties | None,
    typer.Option(help="Tie-breaking rule. By default that of the protocol, otherwise expected."),
]
ChanceOption = Annotated[
    Chance | None,
    typer.Option(
        "--chance",
        help="Null distribution of z-scores: scorer, of a random scorer, whose ranks depend on each "
        "other; or independent. By default as the protocol says, else scorer, if keys name triples.",
    ),
]
Average = Annotated[
    str, typer.Option(help="micro, or a macro average: over query, or key columns such as relation.")
]
Level = Annotated[float, typer.Option(help="Confidence level.")]
Unit = Annotated[
    str | None,
    typer.Option(
        help="Resampling unit: target, triple, query, key columns, or two that cross, as triple+query. "
        "By default triple+query if triples share queries, else triple, query or target."
    ),
]
Samples = Annotated[int, typer.Option(help="Number of bootstrap samples or permutations.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
KindOption = Annotated[
    Literal["ranks", "rankings"] | None,
    typer.Option(
        "--kind",
        help="What the files hold: ranks of single targets, or rankings of queries with several answers "
        "(needed for text files of others with a row per answer). By default as they say.",
    ),
]
CandidatesOption = Annotated[
    int | None,
    typer.Option(min=1, help="Number of candidates per target, for files without that column."),
]
ATLAS = "Data set, one of evenrank atlas list."
DataOption = Annotated[str | None, typer.Option(autocompletion=complete_graph, help=ATLAS)]
AtlasArgument = Annotated[str, typer.Argument(autocompletion=complete_graph, help=ATLAS)]
GRAPH = "Graph: a folder, or a name from evenrank data list."
SizesOption = Annotated[
    str | None,
    typer.Option(
        "--sizes",
        help="Numbers of candidates: '14541x40932' (candidates x tasks), '100,200,300', or a file: "
        "ranks, a table with columns size[,count[,weight]], or one number per line.",
    ),
]
AnswersOption = Annotated[
    int | None,
    typer.Option("--answers", help="Number of answers of each query, for metrics such as map."),
]
SplitsOption = Annotated[
    str,
    typer.Option(
        "--filter",
        help="Splits whose triples are filtered as known true answers: all, none, or e.g. train,valid.",
    ),
]
SplitOption = Annotated[str, typer.Option(help="The split that was ranked.")]
SidesOption = Annotated[atlas.Sides, typer.Option("--sides", help="The sides that were predicted.")]
FilterOption = Annotated[
    Literal["all", "none"],
    typer.Option("--filter", help="Filtered by the known true answers of all splits, or raw (none)."),
]
ProtocolOption = Annotated[
    PresetName | None,
    typer.Option(
        "--protocol",
        help="Rank as this library does, e.g. grail: among 50 sampled negatives. It determines --filter "
        "and --unseen.",
    ),
]
UnseenOption = Annotated[
    Unseen, typer.Option(help="Keep or drop entities and relations not seen in training.")
]
ColumnsOption = Annotated[
    Order | None,
    typer.Option(
        "--columns",
        help="Order of the columns of triples: h head, r relation, t tail. By default by the names.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars, no notes.")]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Show the whole protocol below a table, not only what is unusual."
    ),
]
KNOWN: dict[str, atlas.Filter] = {"all": "all", "none": None}
ENDINGS = (".parquet", ".csv", ".tsv")  # of files of ranks
Row: TypeAlias = dict[str, Any]


def check_unused(context: typer.Context, options: str, what: str, do: str | None = None) -> None:
    """Raise `InputError` if any of these options was given: they have no effect in this command."""
    written = [
        option.opts[0]
        for option in context.command.params
        if option.name in options.split()
        and getattr(context.get_parameter_source(option.name), "name", "") == "COMMANDLINE"
    ]
    if written:
        raise InputError(what, got=", ".join(written), do=do)


def splits(text: str) -> list[str] | Literal["all"] | None:
    """Parse the value of --filter."""
    if text == "all":
        return "all"
    return None if text == "none" else [name.strip() for name in text.split(",")]


def file_names(paths: Sequence[Path]) -> list[str]:
    """Name files by their stems, or by their full paths if stems repeat."""
    names = [path.stem for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def once(paths: Sequence[Path], what: str) -> None:
    """Raise `InputError` if a file is given twice."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError(
            f"the same {what} twice", got=" ".join(map(str, paths)), do="name each file once"
        )


def check_writable(path: Path) -> None:
    """Check before the work, not after it, that ranks can be written to a path."""
    if path.suffix not in ENDINGS:
        raise InputError("files of ranks end in .parquet, .csv or .tsv", got=path.name)
    check_place(path)
