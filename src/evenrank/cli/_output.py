"""Output of results: tables that fit the terminal, and files for other programs."""

from __future__ import annotations

import json

import typer

from evenrank._internal.table import Shown, Table, as_csv, figure
from evenrank.cli._shell import Format, Row

FEW_ROWS = 24  # a table too wide for the terminal is printed row by row only if it is this short


def show(result: Shown, form: Format) -> None:
    """Write a result to stdout."""
    if form != "table":
        typer.echo(getattr(result, f"to_{form}")())
        return
    for i, table in enumerate(result.tables()):
        if i:
            typer.echo()
        print_table(table)


def print_table(table: Table) -> None:
    """Print with rich if the terminal is wide enough; on a narrow one, print short tables row by row."""
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


def show_rows(rows: list[Row], labels: int, notes: list[str], form: Format) -> None:
    """Write records as a table, or as JSON or CSV in full precision."""
    if form == "json":
        echo_json(rows)
    elif form == "csv":
        typer.echo(as_csv(rows))
    else:
        table = Table(list(rows[0]), [list(map(shown, row.values())) for row in rows], notes, labels)
        print_table(table) if form == "table" else typer.echo(getattr(table, form)())


def shown(value: str | int | float | None) -> str:
    """Write one cell of a table."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else figure(value)


def echo_json(content: object) -> None:
    """Write JSON to stdout."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
