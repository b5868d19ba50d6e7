"""The explorer: a page that adjusts published values for chance in any browser, offline.

All expected values, standard deviations and bounds on the page are computed here, from the exact null
distributions, and stored in the page as JSON, with floats in their shortest exact form, so that the page
computes with the same bits. The page itself only applies linear adjustments (ratio, index, z) and
formats numbers like `evenrank._internal.table.figure`. Data sets, splits, sides and protocols with the
same numbers of candidates share one entry.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, get_args

import evenrank
from evenrank._internal.files import as_path, replacing
from evenrank._internal.progress import Progress
from evenrank.errors import InputError, NullDistributionError
from evenrank.graphs import Unseen, registry
from evenrank.graphs.atlas import Filter, Sides, names, splits
from evenrank.graphs.packed import packaged
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.chance import Null, chance
from evenrank.metrics.grammar import Metrics, listed
from evenrank.metrics.metric import Metric, Statistic
from evenrank.published import Candidates, PublishedValue, Setting, adjust_table, adjustable

HITS = (1, 3, 5, 10, 20, 50, 100)
METRICS = ("mrr", *(f"hits@{k}" for k in HITS), "ndcg", "igmr", "imr", "hmr", "gmr", "mr", "mean(2)")
FILTERS: tuple[Filter, ...] = ("all", None)
PAPER = "hoyt2022"
STORED = "explorer.json.gz"
ATLAS = ("atlas.json.gz", "structure.json.gz")
TASKS = (1, 100, 10_000)
SIZES = sorted({*range(1, 11), *HITS, *(round(10 ** (step / 12)) for step in range(12, 73))})


def write(path: str | os.PathLike[str], *metrics: Metrics, progress: bool = True) -> Path:
    """Write the page, as `evenrank.explore` documents."""
    path = as_path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("the explorer is an .html file", got=path.name)
    with replacing(path) as file:
        file.touch()  # fail before the work, not after it
        content = {"version": evenrank.__version__, **compute(listed(metrics) or METRICS, progress)}
        file.write_text(filled("explorer.html", content), encoding="utf-8")
    return path


def filled(template: str, content: Any) -> str:
    """Return a page with its content, and with the style and the functions that pages share."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = _read(template)
    for name, part in (("style", _read("pages.css")), ("numbers", _read("numbers.js"))):
        page = page.replace(f"{{{{{name}}}}}\n", part)
    # "<" is escaped, so that no text can end the script element
    return page.replace("{{content}}", text.replace("<", r"\u003c"))


def _read(name: str) -> str:
    return files("evenrank.report").joinpath(name).read_text(encoding="utf-8")


def compute(metrics: Sequence[str | Expression], progress: bool) -> dict[str, Any]:
    """Return the content of the page: null distributions, the sweep, and published results."""
    plain = [PublishedValue(adjustable(name), 0.0) for name in metrics]
    wanted = list(dict.fromkeys(given.metric for given in plain))
    stored = _stored() if list(map(str, wanted)) == list(METRICS) else None
    if stored is not None:  # data sets of one's own are added to those of the package
        there = {one["name"] for one in stored["data"]}
        own = [name for name in names() if name not in there]
        data, levels = _levels_of(own, wanted, progress, first=len(stored["levels"]))
        data, levels, curves = [*stored["data"], *data], [*stored["levels"], *levels], stored["sweep"]
    else:
        data, levels = _levels_of(names(), wanted, progress)
        curves = sweep(wanted)
    return {
        "metrics": [_describe(metric) for metric in wanted],
        "data": data,
        "levels": levels,
        "published": _results(wanted),
        "sweep": curves,
    }


def store(path: Path, *, progress: bool = False) -> None:
    """Write what the page says of the data sets of the package, which takes half a minute to compute."""
    wanted = [adjustable(name) for name in METRICS]
    metrics = [metric for metric in wanted if isinstance(metric, Metric)]
    data, levels = _levels_of([*packaged()], metrics, progress)
    content = {"of": _atlas(), "data": data, "levels": levels, "sweep": sweep(metrics)}
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    with replacing(path) as file:
        file.write_bytes(gzip.compress(text.encode(), mtime=0))


def _stored() -> dict[str, Any] | None:
    """Read what `store` wrote; None if the atlas has changed since."""
    place = files("evenrank.report").joinpath(STORED)
    if not place.is_file():
        return None
    content: dict[str, Any] = json.loads(gzip.decompress(place.read_bytes()))
    return content if content["of"] == _atlas() else None


def _atlas() -> str:
    """Return the hash of the files of the atlas."""
    folder = files("evenrank.graphs")
    contents = (folder.joinpath(name).read_bytes() for name in ATLAS)
    return hashlib.sha256(b"".join(contents)).hexdigest()[:16]


def _levels_of(
    names: Sequence[str], wanted: Sequence[Metric | Statistic], progress: bool, first: int = 0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compute chance levels of data sets; equal ones are computed once, and numbered from `first`."""
    known: dict[bytes, int] = {}
    several: list[Candidates] = []
    data = []
    for name in names:
        rows = {}
        for setting in settings(name):
            candidates = setting.candidates()
            known_pairs = candidates.null(wanted[0]).dependence
            same = candidates.sizes["candidates"].tobytes() + candidates.sizes.counts.tobytes()
            if known_pairs is not None:
                same += known_pairs.shares.tobytes() + known_pairs.mass.tobytes()
            if same not in known:
                known[same] = first + len(several)
                several.append(candidates)
            rows[key(setting)] = known[same]
        data.append({"name": name, **_about(name), "levels": rows})
    found = []
    with Progress("chance levels", len(several), show=progress) as bar:
        for candidates in several:
            found.append(_levels(candidates, wanted))
            bar.advance()
    return data, found


def settings(name: str) -> Iterator[Setting]:
    """Yield all evaluation settings of a data set: split, sides, filter and unseen.

    Training triples are left out, as nobody publishes results on them.
    """
    for unseen in get_args(Unseen):
        counted = splits(name, unseen=unseen)
        for split in [one for one in counted if one != "train"] or counted:
            for sides, filtered in product(get_args(Sides), FILTERS):
                yield Setting(name, split, sides, filtered, unseen)


def key(setting: Setting) -> str:
    """Return the key of an evaluation setting in the page.

    The split comes last: it is the only part that may contain spaces.

    >>> key(Setting("wn18rr"))
    'both all keep test'
    """
    return f"{setting.sides} {setting.filter or 'none'} {setting.unseen} {setting.split}"


def _about(name: str) -> dict[str, Any]:
    """Return title, reference and source of a data set; the user's own have none."""
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
        "percent": PublishedValue(metric, 0.0).ends_at_one,
    }


def _levels(candidates: Candidates, metrics: Sequence[Metric | Statistic]) -> dict[str, Any]:
    """Return mean, standard deviation and worst value of each metric, or why they do not exist."""
    sizes, counts = candidates.sizes["candidates"], candidates.sizes.counts
    chance: list[tuple[float, float, float] | str] = []
    for metric in metrics:
        low, high = candidates.range(metric)
        try:
            mean, std = moments(candidates.null(metric))
        except NullDistributionError as error:
            chance.append(str(error))
        else:
            chance.append((mean, std, low if metric.increasing else high))
    return {
        "tasks": candidates.sizes.total,
        "low": int(sizes.min()),
        "high": int(sizes.max()),
        "mean": int((sizes * counts).sum()) / candidates.sizes.total,
        "chance": chance,
    }


def moments(null: Null) -> tuple[float, float]:
    """Return mean and standard deviation."""
    return float(null.mean()), float(null.std())


def _results(metrics: Sequence[Metric | Statistic]) -> list[dict[str, Any]]:
    """Return the bundled published results in these metrics, which the page adjusts."""
    return [
        {
            "data": result.setting.data,
            "key": key(result.setting),
            "metric": str(result.given.metric),
            "model": result.model,
            "value": result.value,
            "source": result.source,
        }
        for result in adjust_table(PAPER).results
        if result.given.metric in metrics
    ]


def sweep(metrics: Sequence[Metric | Statistic]) -> dict[str, Any]:
    """Return mean and standard deviation of each metric for `n` tasks of equal size, by size and `n`."""

    def curve(metric: Metric | Statistic, n: int) -> list[tuple[float, float] | None]:
        try:
            return [moments(chance(metric, {size: n})) for size in SIZES]
        except NullDistributionError:
            return [None] * len(SIZES)

    curves = [[curve(metric, n) for metric in metrics] for n in TASKS]
    return {"sizes": SIZES, "tasks": TASKS, "chance": curves}
