"""Graphs and their candidate counts: `evenrank data`, `evenrank atlas`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from evenrank.cli._shell import (
    KNOWN,
    AsCsv,
    AsJson,
    AsLatex,
    AsMarkdown,
    FilterOption,
    Row,
    UnseenOption,
    app,
    chosen_form,
    echo_json,
    show_rows,
)
from evenrank.errors import InputError
from evenrank.graphs import Unseen, atlas, load, registry, where
from evenrank.graphs.graph import SPLITS
from evenrank.metrics.chance import chance
from evenrank.metrics.tally import Histogram

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at graphs.")
app.add_typer(data_app, name="data")
GraphArgument = Annotated[str, typer.Argument(help="A folder with a graph, or a name of data list.")]


@data_app.command("list")
def data_list(
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """List the benchmarks: how large they are, and where they are now."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    rows: list[Row] = []
    for entry in registry.entries().values():
        row: Row = {"data": entry.name, "where": where(entry)}
        row |= {"entities": entry.entities, "relations": entry.relations}
        row |= {split: entry.splits.get(split) for split in SPLITS}
        rows.append(row | _about(entry) if form in ("json", "csv") else row)
    note = "evenrank data fetch NAME downloads ahead; EVENRANK_DATA names a folder of files you have."
    show_rows(rows, 2, [note], form)


def _about(entry: registry.Entry) -> Row:
    """Say of a benchmark what is not a number."""
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
    names: Annotated[list[str], typer.Argument(help="Benchmarks: evenrank data list names them.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download benchmarks ahead, checked, and say where they are."""
    from evenrank.graphs.download import fetch

    places: dict[str, str] = {}
    for entry in [registry.find(name) for name in names]:  # a slip should show before a download
        place = where(entry)
        have = place in ("bundled", "EVENRANK_DATA")
        places[entry.name] = place if have else str(fetch(entry, progress=not quiet))
        if not as_json:
            typer.echo(f"{entry.name}: {places[entry.name]}")
    if as_json:
        echo_json(places)


@data_app.command("show")
def data_show(graph: GraphArgument, unseen: UnseenOption = "keep", as_json: AsJson = False) -> None:
    """Show what a graph holds; of a benchmark that is not on this machine, what is published."""
    entry = None if Path(graph).expanduser().exists() else registry.lookup(graph)
    about = {} if entry is None else _about(entry)
    lines = [f"  {label:9}  {text}" for label, text in about.items() if text]
    if entry is not None and about["where"] in ("download", "numbers only"):
        counts = {"entities": entry.entities, "relations": entry.relations}
        content: dict[str, object] = {"name": entry.name, **counts, "splits": entry.splits}
        sizes = [f"  {label:9}  {n:,}" for label, n in {**counts, **entry.splits}.items()]
        text = "\n".join([entry.name, *sizes, *lines])
    else:
        loaded = load(graph, unseen=unseen)
        text = "\n".join([repr(loaded), *lines])
        content = {
            "name": loaded.name,
            "entities": len(loaded.entities),
            "relations": len(loaded.relations),
            "splits": {split: len(triples) for split, triples in loaded.splits.items()},
            "hash": loaded.hash,
            "vocabulary": loaded.vocabulary,
            "notes": list(loaded.notes),
        }
    echo_json(content | about) if as_json else typer.echo(text)


@data_app.command("check")
def data_check(graph: GraphArgument, unseen: UnseenOption = "keep", as_json: AsJson = False) -> None:
    """Check a graph: duplicates, leaks between splits, what train never shows."""
    findings = load(graph, unseen=unseen).findings()
    if as_json:
        echo_json([{"severity": severity, "finding": text} for severity, text in findings])
        return
    for severity, text in findings:
        typer.echo(f"{severity:8} {text}")


atlas_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Candidate counts of benchmarks, and what chance gets on them.",
)
app.add_typer(atlas_app, name="atlas")
INCLUDED = "candidates include the ranked answer"


@atlas_app.command("list")
def atlas_list(
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """List the data sets: how large they are, and what chance gets on their test triples."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    rows: list[Row] = []
    for kept in sorted(map(atlas.facts, atlas.names()), key=lambda facts: facts.entities):
        dropped = atlas.facts(kept.data, unseen="drop")
        if kept == dropped:
            rows.append(_of_test(kept, "keep") | {"unseen": "either"})
        else:
            rows += [_of_test(kept, "keep"), _of_test(dropped, "drop")]
    note = f"Mean candidates and chance: test triples, both sides, filtered; {INCLUDED}."
    show_rows(rows, 2, [note], form)


def _of_test(facts: atlas.Facts, unseen: Unseen) -> Row:
    """Sum up a data set, and what chance gets on its test triples."""
    row: Row = {"data": facts.data, "unseen": unseen}
    row |= {"entities": facts.entities, "relations": facts.relations}
    row |= {split: facts.triples.get(split) for split in SPLITS}
    columns = {"candidates": "mean", "chance(mrr)": "chance(mrr)", "chance(hits@10)": "chance(hits@10)"}
    test = _of_sizes(atlas.atlas(facts.data, unseen=unseen)) if "test" in facts.triples else {}
    return row | {column: test.get(name) for column, name in columns.items()}


@atlas_app.command("show")
def atlas_show(
    data: Annotated[str, typer.Argument(help="A data set: evenrank atlas list names them.")],
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    as_json: AsJson = False,
) -> None:
    """Show the candidate counts of a data set by split and side, and what chance gets."""
    facts = atlas.facts(data, unseen=unseen)
    protocol = {"filter": filter_, "unseen": unseen}
    rows = [
        {"split": split, "side": side}
        | _of_sizes(atlas.atlas(data, split, side, filter=KNOWN[filter_], unseen=unseen))
        for split in facts.triples
        for side in get_args(atlas.Side)
    ]
    if as_json:
        echo_json(facts._asdict() | protocol | {"rows": rows})
        return
    size = f"{facts.data}: {facts.entities:,} entities, {facts.relations:,} relations"
    words = "; ".join(f"{name}: {value}" for name, value in protocol.items())
    show_rows(rows, 2, [size, f"{words}; {INCLUDED}"], "text")


def _of_sizes(sizes: Histogram) -> Row:
    """Sum up candidate counts, and what chance gets with them."""
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
    folders: Annotated[list[str], typer.Argument(help="Folders with graphs.")],
    name: Annotated[
        list[str] | None, typer.Option(help="A name for each folder, in order (the folder's own).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a file of these alone; else your atlas gets them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the candidates of graphs of your own, for --data NAME."""
    if name and len(name) != len(folders):
        got = f"{len(name)} names for {len(folders)} folders"
        raise InputError("every folder needs a name, or none", got=got)
    names: Sequence[str | None] = name or [None] * len(folders)
    graphs = [load(folder, name=one) for folder, one in zip(folders, names, strict=True)]
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
    if as_json:
        echo_json({"data": built, "file": str(out)})
    else:
        typer.echo(f"{', '.join(built)}: now in {out}")
