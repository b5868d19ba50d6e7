"""The record of published results and its audit: `evenrank published`, `audit`, `record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from evenrank._internal.terminal import terminal_width
from evenrank.cli._command import App
from evenrank.cli._output import TO_FILE, echo_json, show
from evenrank.cli._shell import (
    KNOWN,
    FilterOption,
    Format,
    FormatOption,
    Metrics,
    SidesOption,
    SplitOption,
    TableOrJson,
    app,
    complete_graph,
)
from evenrank.errors import InputError
from evenrank.published import Audit, add, audit, build_record, read_record, results, with_findings

Names: TypeAlias = list[str] | None


@app.command("published")
def published_command(
    data: Annotated[
        Names, typer.Option(autocompletion=complete_graph, help="Data sets; repeatable.")
    ] = None,
    model: Annotated[
        Names, typer.Option(help="Models, such as ComplEx or 'ComplEx-N3 (rank 100)'; repeatable.")
    ] = None,
    metric: Metrics = None,
    year: Annotated[str | None, typer.Option(help="Year of publication: 2019, or 2018-2020.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Part of the name of the source, or of its file.")
    ] = None,
    own: Annotated[
        bool | None,
        typer.Option("--own/--quoted", help="Only a source's own results, or only quoted ones."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="The split that was ranked. By default any.")] = None,
    sides: Annotated[
        Literal["both", "tail", "head"] | None,
        typer.Option("--sides", help="The sides that were predicted. By default any."),
    ] = None,
    filter_: Annotated[
        Literal["any", "all", "none", "train, valid", "unknown"],
        typer.Option(
            "--filter",
            help="Known true answers that were filtered; none is raw, and 'train, valid' keeps those of "
            "the test split.",
        ),
    ] = "any",
    candidates: Annotated[
        Literal["all", "sampled", "top", "any"],
        typer.Option(help="Ranked among all entities, among sampled ones, or in top-k lists."),
    ] = "all",
    sort: Annotated[
        Literal["index", "z", "value", "year"] | None,
        typer.Option(help="Sort by this, largest first. By default in the order of the record."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of rows of a table.")] = 30,
    form: FormatOption = "table",
) -> None:
    """Look up published results, adjusted for chance.

    The record has several thousand values from papers and their repositories, each with its protocol and
    its source. Your own rows are included (see evenrank record).

    Examples
    --------
    evenrank published --data nations
    evenrank published --data wn18rr --own -m mrr --sort index --limit 10
    """
    found = results(
        data=data,
        model=model,
        metric=metric,
        year=_years(year),
        split=split,
        sides=sides,
        filter=filter_,
        candidates=candidates,
        own=own,
        source=source,
    )
    if not found:
        raise InputError("the record has no such results", do="leave out an option")
    made = found.adjust()
    made = made if sort is None else made.sort(sort)
    most = None if TO_FILE.get() or form in ("csv", "json") else limit  # these have all rows
    show(with_findings(made, most).with_shown(most), form)


def _years(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, dash, last = (word.strip() for word in text.partition("-"))
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise InputError("--year must be a year, or two", got=repr(text), do="write 2019, or 2018-2020")
    return int(first), int(last or first)


@app.command("audit")
def audit_command(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV file of results: model, data, metric, value; or model, data and a column for "
            "each metric; or the columns of the record. By default the whole record."
        ),
    ] = None,
    split: SplitOption = "test",
    sides: SidesOption = "both",
    filter_: FilterOption = "all",
    unseen: Annotated[
        Literal["keep", "drop"] | None,
        typer.Option(
            help="Entities not seen in training: ranked as any other (keep), or without their triples "
            "(drop). By default either is possible.",
        ),
    ] = None,
    percent: Annotated[
        bool | None,
        typer.Option("--percent/--fraction", help="Unit of metrics in [0, 1]. By default detected."),
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Check whether published values are possible and consistent.

    Values are read as printed: 0.48 stands for 0.475 to 0.485. A finding means that no set of ranks has
    these values, whatever the tie-breaking rule.

    Examples
    --------
    evenrank audit
    evenrank audit results.csv -o findings.csv
    """
    found = audit(file, split=split, sides=sides, filter=KNOWN[filter_], unseen=unseen, percent=percent)
    _show_audit(found, form)


def _show_audit(found: Audit, form: Format) -> None:
    """Write findings as paragraphs, or in another format."""
    if form == "table":
        typer.echo(found.text(None if TO_FILE.get() else terminal_width()))
    else:
        show(found, form)


record_app = App(
    help="""Check published results, and add them to your own record.

    Examples
    --------
    evenrank record check rows.csv
    evenrank record add rows.csv
    """
)
app.add_typer(record_app, name="record")
RowsArgument = Annotated[
    Path,
    typer.Argument(
        help="A CSV file with columns data, model, metric, printed, source, and others of the record."
    ),
]


@record_app.command("check")
def record_check(file: RowsArgument, form: TableOrJson = "table") -> None:
    """Check rows for the record, and whether their values are possible and consistent.

    Examples
    --------
    evenrank record check rows.csv
    evenrank record check rows.csv --format json
    """
    rows = read_record(file)
    found = audit(file)
    if form == "json":
        echo_json({"rows": len(rows), **found.content()})
        return
    typer.echo(f"{file}: {len(rows):,} row{'s' * (len(rows) != 1)}, all complete")
    _show_audit(found, "table")


@record_app.command("add")
def record_add(file: RowsArgument, form: TableOrJson = "table") -> None:
    """Add rows to your own record, which evenrank published reads as well.

    Examples
    --------
    evenrank record add rows.csv
    evenrank record add more-rows.csv --format json
    """
    path = add(file)
    content = {"rows": len(read_record(path)), "file": str(path)}
    if form == "json":
        echo_json(content)
    else:
        typer.echo(f"{path}: {content['rows']:,} rows")


@record_app.command("build")
def record_build(
    file: RowsArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (.parquet).")],
    form: TableOrJson = "table",
) -> None:
    """Write rows as the Parquet file of the package's record.

    Examples
    --------
    evenrank record build rows.csv -o record.parquet
    evenrank record build rows.csv -o record.parquet --format json
    """
    rows = build_record(file, out)
    if form == "json":
        echo_json({"rows": rows, "file": str(out)})
    else:
        typer.echo(f"{out}: {rows:,} rows, {out.stat().st_size / 1000:,.1f} kB")
