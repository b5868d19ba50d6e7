"""Without ranks: `evenrank chance`, `adjust`, `baseline`, `explore`."""

from __future__ import annotations

import json
from math import exp, isfinite
from pathlib import Path
from typing import Annotated

import typer

from evenrank._internal.columns import said_of
from evenrank._internal.table import Table
from evenrank.cli._shell import (
    KNOWN,
    AsCsv,
    AsJson,
    AsLatex,
    AsMarkdown,
    DataOption,
    FilterOption,
    Metrics,
    SideOption,
    SizesOption,
    SplitOption,
    UnseenOption,
    app,
    chosen_form,
    echo_json,
    print_table,
    show,
)
from evenrank.errors import InputError
from evenrank.graphs import atlas
from evenrank.metrics.chance import Method as Law
from evenrank.metrics.chance import chance as null_distribution
from evenrank.metrics.chance import read_sizes
from evenrank.metrics.tally import Histogram
from evenrank.published import adjust, baseline, published
from evenrank.ranks.files import numbers, read_table
from evenrank.report import explore


@app.command("chance")
def chance_command(
    metric: Annotated[str, typer.Argument(help="A metric such as mrr, hits@10, 1/gmr, mean(2).")],
    data: DataOption = None,
    sizes: SizesOption = None,
    split: SplitOption = "test",
    side: SideOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    value: Annotated[
        float | None,
        typer.Option(help="Also give the probability that a random ranking does at least this well."),
    ] = None,
    method: Annotated[Law, typer.Option(help="How the distribution is computed.")] = "exact",
    samples: Annotated[int, typer.Option(help="Number of samples, with --method sample.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed, with --method sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show the null distribution of a metric: its mean and standard deviation under random ranking."""
    if (data is None) == (sizes is None):
        raise InputError(
            "a chance level needs a data set, or numbers of candidates",
            got="both" if data else "neither",
            do="--data wn18rr, or --sizes 14541x40932",
        )
    if sizes is not None:
        candidates = _read_sizes(sizes)
    else:
        candidates = atlas.atlas(str(data), split, side, filter=KNOWN[filter_], unseen=unseen)
    law = null_distribution(metric, candidates, method=method, samples=samples, seed=seed)
    mean, std = law.mean(), law.std()
    content: dict[str, object] = {
        "metric": str(law.metric),
        "tasks": law.sizes.n,
        "mean": float(mean),
        "variance": float(law.var()),
        "std": float(std),
        "method": mean.method,
    }
    if mean.error:
        content |= {"mean error": mean.error, "variance error": law.var().error}
    if value is not None:
        log_p = law.logsf(value)
        content |= {"value": value, "p": exp(log_p), "log p": float(log_p), "p method": log_p.method}
    if as_json:
        strict = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in content.items()}
        typer.echo(json.dumps(strict, indent=2, allow_nan=False))
        return
    rows = [
        [k, f"{v:.15g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v)]
        for k, v in content.items()
    ]
    print_table(Table(["", "under chance"], rows))


@app.command("adjust")
def adjust_command(
    values: Annotated[
        list[str],
        typer.Argument(
            help="Published values: mrr=0.476 'hits@10=57.1'; or a CSV file of results, with columns "
            "model, data, metric, value; or hoyt2022, the source paper's results."
        ),
    ],
    data: DataOption = None,
    sizes: SizesOption = None,
    split: SplitOption = "test",
    side: SideOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    percent: Annotated[
        bool | None,
        typer.Option("--percent/--fraction", help="The unit of metrics that end at 1 (detected)."),
    ] = None,
    metric: Metrics = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Adjust published values for chance, given the data set or the candidate counts behind them."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    if data is None and sizes is None and len(values) == 1 and "=" not in values[0]:
        results = published(
            values[0],
            *(metric or ()),
            split=split,
            side=side,
            filter=KNOWN[filter_],
            unseen=unseen,
            percent=percent,
        )
        show(results, form)
        return
    if metric:
        raise InputError("--metric picks from a file of results", got="values")
    show(
        adjust(
            _values(values),
            None if sizes is None else _read_sizes(sizes),
            data=data,
            split=split,
            side=side,
            filter=KNOWN[filter_],
            unseen=unseen,
            percent=percent,
        ),
        form,
    )


def _values(items: list[str]) -> dict[str, str]:
    """Read metric=value."""
    given: dict[str, str] = {}
    for item in items:
        name, _, value = item.rpartition("=")
        if name in given:
            raise InputError("the same metric twice", got=f"{name} in {' '.join(items)}")
        given[name] = value
        if not name or not value:
            alone = (
                "give a file of results alone: it names its data sets" if Path(item).exists() else None
            )
            raise InputError("a value must look like mrr=0.43", got=repr(item), do=alone)
    return given


@app.command("baseline")
def baseline_command(
    data: Annotated[str, typer.Argument(help="A data set: evenrank atlas list names them.")],
    metric: Metrics = None,
    split: SplitOption = "test",
    side: SideOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    as_latex: AsLatex = False,
) -> None:
    """Show what needs no model: what chance gets on a data set, and a constant scorer."""
    form = chosen_form(as_json, as_csv, as_markdown, as_latex)
    result = baseline(
        data, *(metric or ()), split=split, side=side, filter=KNOWN[filter_], unseen=unseen
    )
    show(result, form)


@app.command("explore")
def explore_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the page here (.html).")] = Path(
        "explorer.html"
    ),
    metric: Metrics = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one page to type published values into and read them against chance, offline."""
    path = explore(out, *(metric or ()), progress=not quiet)
    size = path.stat().st_size
    if as_json:
        echo_json({"file": str(path), "bytes": size})
    else:
        typer.echo(f"{path}: {size / 1000:,.0f} kB; open it in a browser")


def _read_sizes(text: str) -> Histogram:
    path = Path(text)
    if path.is_file():
        return _sizes_from_file(path)
    size: list[int] = []
    count: list[int] = []
    try:
        for part in text.split(","):
            one, _, times = part.strip().partition("x")
            size.append(int(one))
            count.append(int(times or 1))
    except ValueError:
        raise InputError(
            "candidate counts are neither a file nor numbers",
            got=repr(text),
            do="write '14541x40932' (size x tasks), '100,200,300', or the name of a file",
        ) from None
    return read_sizes(size, count)


def _sizes_from_file(path: Path) -> Histogram:
    if path.suffix.lower() == ".txt":
        words = path.read_text(encoding="utf-8", errors="replace").split()
        bad = next((word for word in words if not word.isdigit()), None)
        if bad is not None or not words:
            raise InputError(
                f"{path}: one candidate count per line is needed", got=repr(bad) if bad else "nothing"
            )
        return read_sizes([int(word) for word in words])
    frame, _ = read_table(path)
    with said_of(str(path)):
        have = {name: numbers(frame, name) for name in ("count", "weight") if name in frame.columns}
        for name in ("size", "candidates"):
            if name in frame.columns:
                return read_sizes(numbers(frame, name), have.get("count"), have.get("weight"))
    raise InputError(
        f"{path} has no candidate counts",
        got=f"columns {', '.join(frame.columns)}",
        allowed="size[, count[, weight]], or a file of ranks with candidates",
    )
