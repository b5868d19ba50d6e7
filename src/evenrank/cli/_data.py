"""Graphs and their candidate counts: `evenrank data`, `evenrank atlas`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from evenrank._internal.files import expanded
from evenrank._internal.terminal import terminal_width, wrapped
from evenrank.cli._command import App
from evenrank.cli._output import echo_json, show_rows
from evenrank.cli._shell import (
    GRAPH,
    KNOWN,
    AtlasArgument,
    ColumnsOption,
    FilterOption,
    FormatOption,
    QuietOption,
    Row,
    TableOrJson,
    UnseenOption,
    app,
    complete_graph,
)
from evenrank.errors import InputError, for_shell
from evenrank.graphs import Unseen, atlas, load, registry, where
from evenrank.graphs.approximate import SUFFIX
from evenrank.graphs.graph import SPLITS, described
from evenrank.metrics.chance import chance
from evenrank.metrics.tally import Histogram

data_app = App(
    help="""Benchmark graphs: list, download, inspect.

    Examples
    --------
    evenrank data list
    evenrank data show nations
    """
)
app.add_typer(data_app, name="data")
GraphArgument = Annotated[str, typer.Argument(autocompletion=complete_graph, help=GRAPH)]


@data_app.command("list")
def data_list(form: FormatOption = "table") -> None:
    """List the benchmarks: sizes, and whether they are downloaded.

    Examples
    --------
    evenrank data list
    evenrank data list -o benchmarks.csv
    """
    rows: list[Row] = []
    for entry in registry.entries().values():
        row: Row = {"data": entry.name, "where": where(entry)}
        row |= {"entities": entry.entities, "relations": entry.relations}
        row |= {split: entry.splits.get(split) for split in SPLITS}
        rows.append(row | _about(entry) if form in ("json", "csv", "spreadsheet") else row)
    note = "evenrank data fetch NAME downloads a data set; EVENRANK_DATA is a folder of local data sets."
    show_rows(rows, 2, [note], form, optional=("valid", "test", "relations", "train"))


def _about(entry: registry.Entry) -> Row:
    """Describe a benchmark: title, source, licence and so on."""
    return {
        "title": entry.title,
        "aliases": ", ".join(entry.aliases),
        "where": where(entry),
        "source": entry.source,
        "reference": entry.reference,
        "licence": entry.licence,
        "layout": entry.layout,
        "counts": entry.counts,
    }


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Benchmarks, from evenrank data list.")],
    quiet: QuietOption = False,
    form: TableOrJson = "table",
) -> None:
    """Download and verify benchmarks.

    Examples
    --------
    evenrank data fetch wn18rr
    evenrank data fetch fb15k237 codexsmall --quiet
    """
    from evenrank.graphs.download import fetch

    places: dict[str, str] = {}
    for entry in [registry.find(name) for name in names]:  # check names before any download
        place = where(entry)
        have = place in ("bundled", "EVENRANK_DATA")
        places[entry.name] = place if have else str(fetch(entry, progress=not quiet))
        if form == "table":
            typer.echo(f"{entry.name}: {places[entry.name]}")
    if form == "json":
        echo_json(places)


@data_app.command("show")
def data_show(
    graph: GraphArgument,
    unseen: UnseenOption = "keep",
    columns: ColumnsOption = None,
    form: TableOrJson = "table",
) -> None:
    """Show the contents of a graph.

    Shows published facts if a benchmark is not on this machine.

    Examples
    --------
    evenrank data show nations
    evenrank data show wn18rr --format json
    """
    entry = None if expanded(graph).exists() else registry.lookup(graph)
    about = {} if entry is None else _about(entry)
    width = terminal_width() or sys.maxsize
    lines = [
        line
        for label, text in about.items()
        if text
        for line in wrapped(f"  {label:9}  {text}", width, indent=" " * 13, names=False)
    ]
    if entry is not None and about["where"] in ("download", "numbers only"):
        counts = {"entities": entry.entities, "relations": entry.relations}
        content: dict[str, object] = {"name": entry.name, **counts, "splits": entry.splits}
        sizes = [f"  {label:9}  {n:,}" for label, n in {**counts, **entry.splits}.items()]
        text = "\n".join([entry.name, *sizes, *lines])
    else:
        loaded = load(graph, unseen=unseen, columns=columns)
        text = "\n".join([described(loaded, terminal_width() or 100, for_shell), *lines])
        content = {
            "name": loaded.name,
            "entities": len(loaded.entities),
            "relations": len(loaded.relations),
            "splits": {split: len(triples) for split, triples in loaded.splits.items()},
            "hash": loaded.hash,
            "vocabulary": loaded.vocabulary,
            "notes": [for_shell(note) for note in loaded.notes],
        }
    echo_json(content | about) if form == "json" else typer.echo(text)


@data_app.command("check")
def data_check(
    graph: GraphArgument,
    unseen: UnseenOption = "keep",
    columns: ColumnsOption = None,
    form: TableOrJson = "table",
) -> None:
    """Check a graph for duplicates, leaks and unseen entities.

    Examples
    --------
    evenrank data check nations
    evenrank data check FOLDER -o findings.json
    """
    findings = load(graph, unseen=unseen, columns=columns).findings()
    if form == "json":
        echo_json([{"severity": kind, "finding": for_shell(text)} for kind, text in findings])
        return
    width = terminal_width() or sys.maxsize
    for severity, text in findings:
        shown = wrapped(f"{severity:8} {for_shell(text)}", width, indent=" " * 9, names=False)
        typer.echo("\n".join(shown))


atlas_app = App(
    help="""Numbers of candidates and chance levels of benchmarks.

    Examples
    --------
    evenrank atlas list
    evenrank atlas show wn18rr
    """
)
app.add_typer(atlas_app, name="atlas")
INCLUDED = "candidates include the target"


@atlas_app.command("list")
def atlas_list(form: FormatOption = "table") -> None:
    """List the data sets: sizes, and chance levels on their test triples.

    Examples
    --------
    evenrank atlas list
    evenrank atlas list -o atlas.csv
    """
    rows: list[Row] = []
    every = [*atlas.names(), *atlas.approximations()]
    for kept in sorted(map(atlas.facts, every), key=lambda facts: facts.entities):
        dropped = atlas.facts(kept.data, unseen="drop")
        if kept == dropped:
            rows.append(_of_test(kept, "keep") | {"unseen": _treatment(kept.data)})
        else:
            rows += [_of_test(kept, "keep"), _of_test(dropped, "drop")]
    notes = [
        f"Mean number of candidates and chance levels: test triples, both sides, filtered; {INCLUDED}.",
        "Approximate: known answers were not counted; all entities are taken as candidates, with (keep) "
        "or without (drop) those not seen in training.",
    ]
    optional = ("valid", "relations", "train", "test", "entities", "chance(hits@10)")
    show_rows(rows, 2, notes, form, optional=optional)


def _treatment(data: str) -> str:
    """Say whether the sizes of a data set count entities not seen in training: "either" if all are."""
    name = data.removesuffix(SUFFIX)
    return "either" if name == data else registry.find(name).unseen


def _of_test(facts: atlas.Facts, unseen: Unseen) -> Row:
    """Summarize a data set, with the chance levels on its test triples."""
    row: Row = {"data": facts.data, "unseen": unseen}
    row |= {"entities": facts.entities, "relations": facts.relations}
    row |= {split: facts.triples.get(split) for split in SPLITS}
    columns = {"candidates": "mean", "chance(mrr)": "chance(mrr)", "chance(hits@10)": "chance(hits@10)"}
    test = _of_sizes(atlas.atlas(facts.data, unseen=unseen)) if "test" in facts.triples else {}
    return row | {column: test.get(name) for column, name in columns.items()}


@atlas_app.command("show")
def atlas_show(
    data: AtlasArgument,
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    form: TableOrJson = "table",
) -> None:
    """Show numbers of candidates and chance levels of a data set.

    Examples
    --------
    evenrank atlas show wn18rr
    evenrank atlas show fb15k237 --filter none --format json
    """
    facts = atlas.facts(data, unseen=unseen)
    protocol = {"filter": filter_, "unseen": unseen}
    rows = [
        {"split": split, "side": side}
        | _of_sizes(atlas.atlas(data, split, side, filter=KNOWN[filter_], unseen=unseen))
        for split in atlas.splits(data, unseen=unseen)
        for side in get_args(atlas.Sides)
    ]
    limits = atlas.bounds(data, filter=KNOWN[filter_], unseen=unseen)
    name = atlas.label(data, filter=KNOWN[filter_], unseen=unseen)
    if form == "json":
        more = {} if limits is None else {"bounds": limits._asdict()}
        echo_json(facts._asdict() | {"data": name} | protocol | more | {"rows": rows})
        return
    size = f"{name}: {facts.entities:,} entities, {facts.relations:,} relations"
    words = "; ".join(f"{name}: {value}" for name, value in protocol.items())
    optional = ("sizes", "least", "most", "chance(mr)")
    notes = [size, f"{words}; {INCLUDED}"]
    if limits is not None:
        span = f"{limits.least:,} to {limits.most:,} candidates"
        notes.append(f"approximate: known answers were not counted; targets have {span}")
    left_out = [split for split in facts.triples if split not in atlas.splits(data, unseen=unseen)]
    if left_out:
        notes.append(f"not known for the split {', '.join(left_out)}")
    show_rows(rows, 2, notes, form, optional=optional, more="--format json")


def _of_sizes(sizes: Histogram) -> Row:
    """Summarize numbers of candidates, with the chance levels that follow."""
    size, count = sizes["candidates"], sizes.counts
    return {
        "targets": sizes.total,
        "sizes": len(sizes),
        "least": int(size.min()),
        "mean": int((size * count).sum()) / sizes.total,
        "most": int(size.max()),
        **{f"chance({name})": float(chance(name, sizes).mean()) for name in ("mrr", "hits@10", "mr")},
    }


@atlas_app.command("build")
def atlas_build(
    folders: Annotated[list[str], typer.Argument(help="Folders of graphs.")],
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name for each folder, in order. By default the folder's name."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write. By default your own atlas.")
    ] = None,
    columns: ColumnsOption = None,
    form: TableOrJson = "table",
) -> None:
    """Count the candidates of your own graphs.

    Afterwards, --data NAME finds them.

    Examples
    --------
    evenrank atlas build FOLDER --name mine
    evenrank atlas build FOLDER --out atlas.parquet
    """
    if name and len(name) != len(folders):
        got = f"{len(name)} names for {len(folders)} folders"
        raise InputError("names and folders do not match", got=got)
    names: Sequence[str | None] = name or [None] * len(folders)
    graphs = [
        load(folder, name=one, columns=columns) for folder, one in zip(folders, names, strict=True)
    ]
    for folder, graph in zip(folders, graphs, strict=True):
        entry = registry.lookup(graph.name)
        if entry is not None:
            registry.check(entry, graph, Path(folder))
    tables = [atlas.build(graph) for graph in graphs]
    if out is None:
        out = atlas.add(tables)
    else:
        atlas.write(tables, out)
    built = [table["data"][0] for table in tables]
    if form == "json":
        echo_json({"data": built, "file": str(out)})
    else:
        typer.echo(f"{', '.join(built)}: saved in {out}")
