"""The explorer: one page that reads published numbers against chance, in any browser, offline.

Every expectation, deviation and limit on the page is worked out here, by the same exact laws as
everywhere in evenrank, and put into the page as JSON: floats in their shortest exact form, so that the
page's arithmetic starts from the same bits. The page itself draws straight lines through them (ratio,
index, z) and writes numbers as `evenrank._internal.table.figure` does. Data sets, splits, sides and
protocols with the same candidate counts share one entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, get_args

import evenrank
from evenrank._internal.files import replacing
from evenrank._internal.progress import Progress
from evenrank.errors import InputError, NullDistributionError
from evenrank.graphs import Unseen, registry
from evenrank.graphs.atlas import Filter, Side, facts, names
from evenrank.metrics.chance import NullDistribution, chance
from evenrank.metrics.metric import Metric, Statistic
from evenrank.published import Board, Footing, Given, adjustable, published

HITS = (1, 3, 5, 10, 20, 50, 100)
METRICS = ("mrr", *(f"hits@{k}" for k in HITS), "ndcg", "igmr", "imr", "hmr", "gmr", "mr", "mean(2)")
FILTERS: tuple[Filter, ...] = ("all", None)
PAPER = "hoyt2022"
TASKS = (1, 100, 10_000)
SIZES = sorted({*range(1, 11), *HITS, *(round(10 ** (step / 12)) for step in range(12, 73))})
PLACE = "{{atlas}}"


def explore(path: str | os.PathLike[str], *metrics: str, progress: bool = True) -> Path:
    """Write a page to choose a data set and a metric, type a published value, and see what it is worth.

    The page holds all data sets of the atlas, the user's own included, and needs no network. `metrics`
    replaces the usual ones; any that has an exact law will do. The median and quantiles are not among
    the usual ones because their laws take longer than all others together: ask for them. `progress`
    shows a bar if stderr is a terminal.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("the explorer is written as .html", got=path.name)
    template = files("evenrank.report").joinpath("explorer.html").read_text(encoding="utf-8")
    with replacing(path) as file:
        file.touch()  # what cannot be written should show before the work, not after it
        content = {"version": evenrank.__version__, **gather(metrics or METRICS, progress)}
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # "<" as an escape, so that no text can end the script element that holds it
        file.write_text(template.replace(PLACE, text.replace("<", r"\u003c")), encoding="utf-8")
    return path


def gather(metrics: Sequence[str], progress: bool) -> dict[str, Any]:
    """Work out all that the page shows: laws of every data set, the sweep, and the paper's results."""
    plain = [Given(adjustable(name), 0.0) for name in metrics]
    wanted = list(dict.fromkeys(given.metric for given in plain))
    laws: dict[bytes, int] = {}
    footings: list[Footing] = []
    data = []
    for name in names():
        rows = {}
        for board in boards(name):
            footing = board.footing()
            same = footing.sizes["candidates"].tobytes() + footing.sizes.counts.tobytes()
            if same not in laws:
                laws[same] = len(footings)
                footings.append(footing)
            rows[key(board)] = laws[same]
        data.append({"name": name, **_about(name), "laws": rows})
    found = []
    with Progress("chance levels", len(footings), show=progress) as bar:
        for footing in footings:
            found.append(_law(footing, wanted))
            bar.advance()
    return {
        "metrics": [_describe(metric) for metric in wanted],
        "data": data,
        "laws": found,
        "published": _results(wanted),
        "sweep": sweep(wanted),
    }


def boards(name: str) -> Iterator[Board]:
    """Give every way to ask a data set: split, side, filter, and what becomes of the unseen."""
    for unseen in get_args(Unseen):
        for split in facts(name, unseen=unseen).triples:
            for side, filtered in product(get_args(Side), FILTERS):
                yield Board(name, split, side, filtered, unseen)


def key(board: Board) -> str:
    """Name a way to ask as the page does.

    The split comes last: it is the only one of these words that may have spaces in it.

    >>> key(Board("wn18rr"))
    'both all keep test'
    """
    return f"{board.side} {board.filter or 'none'} {board.unseen} {board.split}"


def _about(name: str) -> dict[str, Any]:
    """Say what the registry knows of a data set; nothing, for the user's own."""
    entry = registry.entries().get(name)
    if entry is None:
        return {"title": name, "reference": "your own", "source": ""}
    return {"title": entry.title, "reference": entry.reference, "source": entry.source}


def _describe(metric: Metric | Statistic) -> dict[str, Any]:
    return {
        "name": str(metric),
        "formula": metric.formula,
        "increasing": metric.increasing,
        "best": metric.best,
        "percent": Given(metric, 0.0).ends_at_one,
    }


def _law(footing: Footing, metrics: Sequence[Metric | Statistic]) -> dict[str, Any]:
    """Give the chance law of each metric: expectation, deviation and worst value, or why it has none."""
    sizes, counts = footing.sizes["candidates"], footing.sizes.counts
    chance: list[tuple[float, float, float] | str] = []
    for metric in metrics:
        low, high = footing.range(metric)
        try:
            mean, std = moments(footing.law(metric))
        except NullDistributionError as error:
            chance.append(str(error))
        else:
            chance.append((mean, std, low if metric.increasing else high))
    return {
        "tasks": footing.sizes.total,
        "low": int(sizes.min()),
        "high": int(sizes.max()),
        "mean": int((sizes * counts).sum()) / footing.sizes.total,
        "chance": chance,
    }


def moments(law: NullDistribution) -> tuple[float, float]:
    """Give expectation and standard deviation."""
    return float(law.mean()), float(law.std())


def _results(metrics: Sequence[Metric | Statistic]) -> list[dict[str, Any]]:
    """Give the paper's results in these metrics; the page adjusts them with the laws of their boards."""
    return [
        {
            "data": result.board.data,
            "key": key(result.board),
            "metric": str(result.given.metric),
            "model": result.model,
            "value": result.value,
            "source": result.source,
        }
        for result in published(PAPER).results
        if result.given.metric in metrics
    ]


def sweep(metrics: Sequence[Metric | Statistic]) -> dict[str, Any]:
    """Give expectation and deviation of each metric for `n` tasks of equal size, over sizes and `n`."""

    def curve(metric: Metric | Statistic, n: int) -> list[tuple[float, float] | None]:
        try:
            return [moments(chance(metric, {size: n})) for size in SIZES]
        except NullDistributionError:
            return [None] * len(SIZES)

    curves = [[curve(metric, n) for metric in metrics] for n in TASKS]
    return {"sizes": SIZES, "tasks": TASKS, "chance": curves}
