"""What all commands share: the options they have in common, and how results are shown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from evenrank._internal.table import Shown, Table, as_csv, figure
from evenrank.errors import InputError
from evenrank.graphs import Unseen, atlas
from evenrank.metrics.ties import Ties

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
OwnTies = Annotated[
    Ties | None, typer.Option(help="How tied scores are ranked (expected, or as the protocol does).")
]
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
DataOption = Annotated[str | None, typer.Option(help="The data set: evenrank atlas list names them.")]
SizesOption = Annotated[
    str | None,
    typer.Option(
        "--sizes",
        help="Candidate counts: '14541x40932' (size x tasks), '100,200,300', or a file: ranks, "
        "a table with columns size[,count[,weight]], or one number per line.",
    ),
]
SplitsOption = Annotated[
    str,
    typer.Option("--filter", help="Splits whose answers are left out: all, none, or e.g. train,valid."),
]
SplitOption = Annotated[str, typer.Option(help="The split that was ranked.")]
SideOption = Annotated[atlas.Side, typer.Option(help="What was asked for.")]
FilterOption = Annotated[
    Literal["all", "none"],
    typer.Option("--filter", help="Leave known answers of all splits out, or rank raw."),
]
UnseenOption = Annotated[Unseen, typer.Option(help="Keep or drop what train never shows.")]
FEW_ROWS = 24  # that are read one by one; more are looked through, though lines may wrap
KNOWN: dict[str, atlas.Filter] = {"all": "all", "none": None}
ENDINGS = (".parquet", ".csv", ".tsv")  # that ranks are written with
Row: TypeAlias = dict[str, str | int | float | None]


def chosen_form(as_json: bool, as_csv: bool, as_markdown: bool, as_latex: bool) -> str:
    """Name the output format that was asked for; refuse two."""
    flags = {"json": as_json, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}
    chosen = [name for name, on in flags.items() if on]
    if len(chosen) > 1:
        raise InputError("only one output format at a time", got=", ".join(f"--{c}" for c in chosen))
    return chosen[0] if chosen else "text"


def refuse(context: typer.Context, options: str, what: str, do: str | None = None) -> None:
    """Refuse those options that were written in the command, because they would say nothing there."""
    written = [
        option.opts[0]
        for option in context.command.params
        if option.name in options.split()
        and getattr(context.get_parameter_source(option.name), "name", "") == "COMMANDLINE"
    ]
    if written:
        raise InputError(what, got=", ".join(written), do=do)


def in_shell(text: str) -> str:
    """Name options as the shell does, not as Python does.

    >>> in_shell("or let targets join: outside='add'")
    'or let targets join: --outside add'
    """
    return re.sub(r"\b(mesh|outside|unseen)='(\w+)'", r"--\1 \2", text)


def show(result: Shown, form: str) -> None:
    """Write a result to stdout, in the format that was asked for."""
    if form != "text":
        typer.echo(getattr(result, f"to_{form}")())
        return
    for i, table in enumerate(result.tables()):
        if i:
            typer.echo()
        print_table(table)


def print_table(table: Table) -> None:
    """Print with rich on a terminal that is wide enough, a few rows one by one on a narrow one."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    plain = table.text()
    width = max(map(len, plain.splitlines()[:2]))
    if not console.is_terminal or width + 4 > console.width:
        stacked = console.is_terminal and width > console.width and len(table.rows) <= FEW_ROWS
        typer.echo(table.stacked() if stacked else plain)
        return
    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, name in enumerate(table.header):
        rich.add_column(Text(name), justify="left" if i < table.labels else "right")
    for row in table.rows:
        rich.add_row(*map(Text, row))
    console.print(rich)
    for note in table.notes:
        console.print(Text(note, style="dim"))


def splits(text: str) -> list[str] | Literal["all"] | None:
    """Read the splits whose answers are left out."""
    if text == "all":
        return "all"
    return None if text == "none" else [name.strip() for name in text.split(",")]


def file_names(paths: Sequence[Path]) -> list[str]:
    """Name files by their stems, or in full where these are not different."""
    names = [path.stem for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def once(paths: Sequence[Path], what: str) -> None:
    """Refuse a file that stands in the command twice."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError(f"one {what} twice", got=" ".join(map(str, paths)), do="give each file once")


def check_writable(path: Path) -> None:
    """Say so before an hour of ranking, not after it."""
    if path.suffix not in ENDINGS:
        raise InputError("ranks are written as .parquet, .csv or .tsv", got=path.name)
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        absent = "no permission" if path.parent.exists() else "no such folder"
        why = "a folder" if path.is_dir() else absent
        raise InputError(f"cannot write {path}", got=why, do="choose another place")


def show_rows(rows: list[Row], labels: int, notes: list[str], form: str) -> None:
    """Show records as a table of figures, or as JSON or CSV with all digits."""
    if form == "json":
        echo_json(rows)
    elif form == "csv":
        typer.echo(as_csv(rows))
    else:
        table = Table(list(rows[0]), [list(map(shown, row.values())) for row in rows], notes, labels)
        print_table(table) if form == "text" else typer.echo(getattr(table, form)())


def shown(value: str | int | float | None) -> str:
    """Write one cell of such a table."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else figure(value)


def echo_json(content: object) -> None:
    """Write JSON to stdout."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
