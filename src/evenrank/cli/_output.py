"""Output of results: tables that fit the terminal, and files for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace

import typer

from evenrank._internal.table import Shown, Table, as_csv, as_json, figure
from evenrank._internal.terminal import terminal_width
from evenrank.cli._shell import Format, Row

FORMULAS = "spreadsheet"  # the format of CSV in which names are no formulas
TO_FILE = ContextVar("TO_FILE", default=False)  # whether stdout is collected for --out


def show(result: Shown, form: Format, *, verbose: bool = False, optional: Sequence[str] = ()) -> None:
    """Write a result to stdout; tables in files say everything, as if `verbose`.

    `optional` are columns that a narrow terminal may do without, in place of those that the table names.
    """
    verbose = verbose or TO_FILE.get()
    if form == "markdown":
        typer.echo(result.to_markdown(verbose=verbose))
    elif form == FORMULAS:
        typer.echo(result.to_csv(spreadsheet=True))
    elif form != "table":
        typer.echo(getattr(result, f"to_{form}")())
    else:
        for i, table in enumerate(result.tables()):
            if i:
                typer.echo()
            table = table.in_full() if verbose else table
            print_table(replace(table, optional=optional) if optional else table)


def print_table(table: Table, more: str = "--format csv") -> None:
    """Print a table that fits the terminal; files and other programs get all columns."""
    header, rows, notes = table.lines(None if TO_FILE.get() else terminal_width(), more)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if colour:
        header = [typer.style(line, bold=True) for line in header]
        notes = [typer.style(line, dim=True) for line in notes]
    for line in (*header, *rows, *notes):
        typer.echo(line)


def show_rows(
    rows: list[Row],
    labels: int,
    notes: list[str],
    form: Format,
    *,
    optional: Sequence[str] = (),
    more: str = "--format csv",
) -> None:
    """Write records as a table, or as JSON or CSV in full precision."""
    if form == "json":
        echo_json(rows)
    elif form in ("csv", FORMULAS):
        typer.echo(as_csv(rows, spreadsheet=form == FORMULAS))
    else:
        cells = [list(map(shown, row.values())) for row in rows]
        table = Table(list(rows[0]), cells, notes, labels, optional=optional)
        print_table(table, more) if form == "table" else typer.echo(getattr(table, form)())


def shown(value: str | int | float | None) -> str:
    """Write one cell of a table."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else figure(value)


def echo_json(content: object) -> None:
    """Write JSON to stdout."""
    typer.echo(as_json(content))
