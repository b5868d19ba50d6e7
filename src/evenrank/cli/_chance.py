"""Commands that need no ranks: `evenrank chance`, `adjust`, `baseline`, `explore`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evenrank._internal.columns import errors_name_file, is_whole
from evenrank._internal.names import COUNTS, folded
from evenrank._internal.reading import as_utf8, content
from evenrank._internal.table import Table, defined
from evenrank.cli._command import check_place
from evenrank.cli._output import echo_json, print_table, show
from evenrank.cli._shell import (
    KNOWN,
    AnswersOption,
    AtlasArgument,
    ChanceOption,
    DataOption,
    FilterOption,
    FormatOption,
    Metrics,
    ProtocolOption,
    QuietOption,
    SidesOption,
    SizesOption,
    SplitOption,
    TableOrJson,
    UnseenOption,
    VerboseOption,
    app,
)
from evenrank.errors import InputError
from evenrank.graphs import atlas, load
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.chance import Chance, Method, read_sizes
from evenrank.metrics.chance import chance as null_distribution
from evenrank.metrics.metric import Metric
from evenrank.metrics.tally import Histogram
from evenrank.published import adjust, adjust_table, approximate_notes, baseline
from evenrank.ranks.files import numbers, of_rankings, read_table
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.task import Task

# columns of a file of sizes, beside those of ranks
SIZES = {"size": "size", "sizes": "size", "count": "count", "counts": "count"}
# 14,541x40,932 reads like two numbers, but as a list it would be three
GROUPED = re.compile(r"\d{1,3}(,\d{3})+x\d{1,3}(,\d{3})*|\d+x\d{1,3}(,\d{3})+")
PAPER = "hoyt2022"


@app.command("chance")
def chance_command(
    metric: Annotated[str, typer.Argument(help="A metric such as mrr, hits@10, 1/gmr, mean(2).")],
    data: DataOption = None,
    sizes: SizesOption = None,
    answers: AnswersOption = None,
    split: SplitOption = "test",
    sides: SidesOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    protocol: ProtocolOption = None,
    value: Annotated[
        float | None,
        typer.Option(help="Also show the probability that a random ranking reaches this value."),
    ] = None,
    chance: ChanceOption = None,
    method: Annotated[Method, typer.Option(help="How the distribution is computed.")] = "exact",
    samples: Annotated[
        int, typer.Option(help="Number of samples, for --method sample and simulate.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed, for --method sample and simulate.")] = 0,
    form: TableOrJson = "table",
) -> None:
    """Show the null distribution of a metric.

    Its mean is the chance level, the expected value under random ranking. Needs --data or --sizes.

    Examples
    --------
    evenrank chance mrr --data wn18rr
    evenrank chance map --sizes 1000x50 --answers 3 --value 0.05
    """
    _check_one("the null distribution needs", data, sizes)
    candidates: Histogram | Rankings | Task
    _known(chance, sizes)
    if answers is not None and sizes is None:
        raise InputError("--answers needs --sizes: the tasks of a graph have one answer each")
    check_protocol(protocol, data, filter_, unseen)
    if protocol is not None and method == "simulate":
        raise InputError(
            "--method simulate ranks by no library's protocol", got=f"--protocol {protocol}"
        )
    if sizes is not None:
        candidates = _read_sizes(sizes)
    elif method == "simulate":
        candidates = load(str(data), unseen=unseen).task(split, sides=sides, filter=KNOWN[filter_])
    else:
        candidates = atlas.atlas(
            str(data), split, sides, filter=KNOWN[filter_], unseen=unseen, protocol=protocol
        )
    null = null_distribution(
        metric, candidates, answers=answers, chance=chance, method=method, samples=samples, seed=seed
    )
    mean, std = null.mean(), null.std()
    content: dict[str, object] = {
        "metric": str(null.metric),
        "queries" if isinstance(null, QueryNull) else "tasks": null.count,
        "mean": float(mean),
        "variance": float(null.var()),
        "std": float(std),
        "chance": null.chance,
        "method": mean.method if null.std().method in (mean.method, "quadrature") else null.std().method,
    }
    limits = None
    if data is not None:
        limits = atlas.bounds(data, filter=KNOWN[filter_], unseen=unseen, protocol=protocol)
    if limits is not None:
        content |= {"candidates": f"approximate: {limits.least:,} to {limits.most:,}"}
        ends = sorted(float(end.mean()) for end in limits.nulls(str(null.metric), null.count))
        content |= {"mean from": ends[0], "mean to": ends[1]}
    if mean.error:
        content |= {"mean error": mean.error, "variance error": null.var().error}
    if value is not None:
        log_p, p = null.logsf(value), null.sf(value)
        content |= {"value": value, "p": float(p)}
        content |= {"p error": p.error} if p.method == "normal" else {}
        content |= {"log p": float(log_p)}
        content |= {"p method": log_p.method, "log p error": log_p.error}
    if form == "json":
        echo_json(defined({name.replace(" ", "_"): x for name, x in content.items()}))
        return
    rows = [
        [k, f"{v:.15g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v)]
        for k, v in content.items()
    ]
    if rows[-1] == ["log p error", "inf"]:
        rows[-1][1] = "unknown"
    print_table(Table(["", "value"], rows))


@app.command("adjust")
def adjust_command(
    values: Annotated[
        list[str],
        typer.Argument(
            help="Published values such as mrr=0.476 'hits@10=57.1'; or a CSV file with columns model, "
            "data, metric, value; or hoyt2022, the bundled results of Hoyt et al. (2022)."
        ),
    ],
    data: DataOption = None,
    sizes: SizesOption = None,
    split: SplitOption = "test",
    sides: SidesOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    protocol: ProtocolOption = None,
    percent: Annotated[
        bool | None,
        typer.Option("--percent/--fraction", help="Unit of metrics in [0, 1]. By default detected."),
    ] = None,
    metric: Metrics = None,
    chance: ChanceOption = None,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
) -> None:
    """Adjust published values for chance.

    Needs the data set (--data), or the numbers of candidates (--sizes), behind the values.

    Examples
    --------
    evenrank adjust mrr=0.476 'hits@10=57.1' --data wn18rr
    evenrank adjust hoyt2022 -m mrr -o adjusted.csv
    """
    if data is None and sizes is None and len(values) == 1 and "=" not in values[0]:
        if protocol is not None:
            do = "adjust the values of one data set, with --data"
            raise InputError("--protocol is for single values", got=values[0], do=do)
        results = adjust_table(
            values[0],
            *(metric or ()),
            split=split,
            sides=sides,
            filter=KNOWN[filter_],
            unseen=unseen,
            percent=percent,
            chance=chance or "scorer",
        )
        show(results, form, verbose=verbose)
        return
    if metric:
        raise InputError(
            "--metric selects from a file of results", got="single values", do="leave it out"
        )
    given = _values(values)
    _check_one("published values need", data, sizes)
    check_protocol(protocol, data, filter_, unseen)
    ranked = None if sizes is None else _of_targets(_read_sizes(sizes), sizes)
    if protocol is not None:
        ranked = atlas.atlas(str(data), split, sides, protocol=protocol)
    made = adjust(
        given,
        ranked,
        data=data if ranked is None else None,
        split=split,
        sides=sides,
        filter=KNOWN[filter_],
        unseen=unseen,
        percent=percent,
        chance=_known(chance, sizes),
    )
    if protocol is not None:
        about = {"data": atlas.label(str(data), protocol=protocol), "split": split, "preset": protocol}
        single = {metric: made[metric] for metric in made.expressions if isinstance(metric, Metric)}
        total = 0 if ranked is None else ranked.total
        notes = approximate_notes(str(data), single, total, protocol=protocol)
        made = replace(made, protocol=made.protocol.updated(about), notes=(*made.notes, *notes))
    if chance == "scorer" and made.protocol.chance != "scorer":
        raise InputError(
            "the atlas does not tell which ranks of a random scorer depend on each other",
            got=f"--split {split} of {data}",
            do="leave out --chance, or rank the valid or test split",
        )
    show(made, form, verbose=verbose)


def check_protocol(protocol: str | None, data: str | None, filter_: str, unseen: str) -> None:
    """Check that a protocol is asked for with a data set, and nothing else determines the candidates."""
    if protocol is None:
        return
    if data is None:
        do = "name the data set with --data"
        raise InputError("--protocol needs a data set", got=f"--protocol {protocol}", do=do)
    other = " ".join(
        f"--{name} {value}"
        for name, value, usual in (("filter", filter_, "all"), ("unseen", unseen, "keep"))
        if value != usual
    )
    if other:
        what = f"the protocol {protocol} determines the filter, and which entities are kept"
        raise InputError(what, got=other, do="leave it out")


def _known(chance: Chance | None, sizes: str | None) -> Chance:
    """Check that a random scorer was not asked for where only numbers of candidates are known."""
    if chance == "scorer" and sizes is not None:
        raise InputError(
            "numbers of candidates do not tell which ranks of a random scorer depend on each other",
            got="--chance scorer with --sizes",
            do="name the data set with --data, or leave out --chance",
        )
    return chance or "scorer"


def _check_one(what: str, data: str | None, sizes: str | None) -> None:
    if (data is None) == (sizes is None):
        raise InputError(
            f"{what} either a data set or numbers of candidates",
            got="both" if data else "neither",
            do="use --data, e.g. --data wn18rr, or --sizes, e.g. --sizes 14541x40932",
        )


def _values(items: list[str]) -> dict[str, str]:
    """Parse metric=value."""
    given: dict[str, str] = {}
    for item in items:
        name, _, value = item.rpartition("=")
        if name in given:
            raise InputError("the same metric twice", got=f"{name} in {' '.join(items)}")
        given[name] = value
        do = None
        if not name and (Path(item).exists() or item == PAPER):
            do = "name the file of results as the only argument, without --data: it names its data sets"
        elif "=" in name or value.endswith(","):
            do = "separate several values by spaces, without commas: mrr=0.43 hits@10=0.57"
        if do or not name or not value:
            raise InputError("a value must look like mrr=0.43", got=repr(item), do=do)
    return given


@app.command("baseline")
def baseline_command(
    data: AtlasArgument,
    metric: Metrics = None,
    split: SplitOption = "test",
    sides: SidesOption = "both",
    filter_: FilterOption = "all",
    unseen: UnseenOption = "keep",
    chance: ChanceOption = None,
    verbose: VerboseOption = False,
    form: FormatOption = "table",
) -> None:
    """Show the results of random ranking and of a constant scorer.

    Examples
    --------
    evenrank baseline fb15k237
    evenrank baseline wn18rr --unseen drop -m mrr,hits@10 --format markdown
    """
    result = baseline(
        data,
        *(metric or ()),
        split=split,
        sides=sides,
        filter=KNOWN[filter_],
        unseen=unseen,
        chance=chance or "scorer",
    )
    show(result, form, verbose=verbose)


@app.command("explore")
def explore_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (.html).")] = Path(
        "explorer.html"
    ),
    metric: Metrics = None,
    quiet: QuietOption = False,
    form: TableOrJson = "table",
) -> None:
    """Write an HTML page that adjusts published values for chance.

    Examples
    --------
    evenrank explore
    evenrank explore -o explorer.html -m mrr,hits@10
    """
    from evenrank.report import explore

    check_place(out)
    path = explore(out, *(metric or ()), progress=not quiet)
    size = path.stat().st_size
    if form == "json":
        echo_json({"file": str(path), "bytes": size})
    else:
        typer.echo(f"{path}: {size / 1000:,.0f} kB; open it in a browser")


def _of_targets(candidates: Histogram | Rankings, sizes: str) -> Histogram:
    """Check that these are numbers of candidates of single targets."""
    if isinstance(candidates, Rankings):
        raise InputError(
            "published values are adjusted for queries with one answer each",
            got=f"{sizes}, a file of rankings",
            do="evenrank chance METRIC --sizes FILE prints chance level and standard deviation",
        )
    return candidates


def _read_sizes(text: str) -> Histogram | Rankings:
    if os.path.isfile(text):  # false for lists that are longer than names may be
        return _sizes_from_file(Path(text))
    size: list[int] = []
    count: list[int] = []
    if GROUPED.fullmatch(text):
        raise InputError(
            "a comma in --sizes separates numbers of candidates, and groups no digits",
            got=repr(text),
            do=f"write {text.replace(',', '')!r}, or repeat the tasks, as in '100x10,200x10'",
        )
    for part in text.split(","):
        one, by, times = (word.strip() for word in part.partition("x"))
        if not is_whole(one.removeprefix("-")) or (by and not is_whole(times)):
            which = "" if part == text else f" in {text!r}"
            raise InputError(
                "--sizes is neither a file nor numbers of candidates",
                got=f"{part.strip()!r}{which}",
                do="write '14541x40932' (candidates x tasks), '100,200,300', or the name of a file",
            )
        size.append(int(one))
        count.append(int(times or 1))
    return read_sizes(size, count)


def _sizes_from_file(path: Path) -> Histogram | Rankings:
    if path.suffix.lower() == ".txt":
        words = as_utf8(content(path), path).decode().split()
        bad = next((word for word in words if not is_whole(word)), None)
        if bad is not None or not words:
            raise InputError(
                f"{path}: every line must be a number of candidates", got=repr(bad) if bad else "nothing"
            )
        return read_sizes([int(word) for word in words])
    frame, protocol = read_table(path)
    if of_rankings(frame.schema, protocol):
        return Rankings.load(path)
    with errors_name_file(str(path)):
        have: dict[str, str] = {}
        for column in frame.columns:
            name = SIZES.get(folded(column)) or COUNTS.get(folded(column))
            if name in have:
                got = f"{have[name]!r} and {column!r}"
                raise InputError(f"two columns mean {name}", got=got, do="rename or remove one")
            have |= {name: column} if name else {}
        given = {name: numbers(frame, have[name]) for name in ("count", "weight") if name in have}
        for name in ("size", "candidates"):
            if name in have:
                return read_sizes(numbers(frame, have[name]), given.get("count"), given.get("weight"))
    raise InputError(
        f"{path} has no column of candidates",
        got=f"columns {', '.join(frame.columns)}",
        allowed="size[, count[, weight]], or a file of ranks with candidates",
    )


@app.command("leaderboard")
def leaderboard_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (.html).")] = Path(
        "leaderboard.html"
    ),
    form: TableOrJson = "table",
) -> None:
    """Write an HTML page of published results, adjusted for chance.

    The page has the record of published results: by data set and across data sets, as printed and
    adjusted for chance, with the source of every value.

    Examples
    --------
    evenrank leaderboard
    evenrank leaderboard -o page.html
    """
    from evenrank.report import leaderboard

    check_place(out)
    path = leaderboard(out)
    size = path.stat().st_size
    if form == "json":
        echo_json({"file": str(path), "bytes": size})
    else:
        typer.echo(f"{path}: {size / 1000:,.0f} kB; open it in a browser")
