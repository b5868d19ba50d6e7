"""The explorer: a page that adjusts published values for chance in any browser, offline.

All expected values, standard deviations and bounds of data sets are computed here, from the exact null
distributions, and stored in the page as JSON, with floats in their shortest exact form, so that the page
computes with the same bits. Data sets, splits, sides and protocols with the same numbers of candidates
share one entry. For tasks with equal numbers of candidates, as one types them, the page computes the
chance levels itself (`chance.js`). It applies linear adjustments (ratio, index, z), checks whether the
values of one model contradict each other (`consistency.js`), and formats numbers like
`evenrank._internal.table.figure`.

What can be said of the data sets and the record of the package takes half a minute to compute. It is
stored in a file (`store`, called by `make atlas`), which is ignored if the atlas or the record is newer.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any, get_args

import evenrank
from evenrank._internal.files import as_path, replacing
from evenrank._internal.progress import Progress
from evenrank.errors import InputError, NullDistributionError
from evenrank.graphs import Unseen, approximate, registry
from evenrank.graphs.atlas import Filter, Sides, names, splits
from evenrank.graphs.packed import packaged
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.chance import Null, chance
from evenrank.metrics.grammar import ALIASES, Metrics, listed
from evenrank.metrics.metric import NDCG, RANK, Metric, Statistic
from evenrank.published import (
    Candidates,
    PublishedValue,
    Recorded,
    Setting,
    adjustable,
    own_file,
    read_lines,
    results,
)
from evenrank.ranks.evaluation import bare
from evenrank.report.templates import encoded, filled, findings_by_row

HITS = (1, 3, 5, 10, 20, 50, 100)
METRICS = ("mrr", *(f"hits@{k}" for k in HITS), "ndcg", "igmr", "imr", "hmr", "gmr", "mr", "mean(2)")
FILTERS: tuple[Filter, ...] = ("all", None)
PAPER = "hoyt2022"
PLACE = Path(__file__).with_name("explorer.json.gz")
SOURCES = {"graphs": ("atlas.json.gz", "structure.json.gz"), "published": ("record.parquet",)}
TASKS = (1, 100, 10_000)
SIZES = sorted({*range(1, 11), *HITS, *(round(10 ** (step / 12)) for step in range(12, 73))})
# columns of the published results: texts that repeat, and others
TEXTS = (
    *("data", "metric", "source", "where", "origin"),
    *("candidates", "filter", "sides", "split", "unseen", "ties"),
)
OTHERS = ("printed", "year", "run")


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


def compute(metrics: Sequence[str | Expression], progress: bool) -> dict[str, Any]:
    """Return the content of the page: null distributions, the sweep, and published results."""
    plain = [PublishedValue(adjustable(name), 0.0) for name in metrics]
    wanted = list(dict.fromkeys(given.metric for given in plain))
    found = _stored()
    stored = found if list(map(str, wanted)) == list(METRICS) else None
    if stored is not None:  # data sets of one's own are added to those of the package
        there = {one["name"] for one in stored["data"]}
        own = [name for name in names() if name not in there]
        data, levels = _levels_of(own, wanted, progress, first=len(stored["levels"]))
        data, levels, curves = [*stored["data"], *data], [*stored["levels"], *levels], stored["sweep"]
    else:
        data, levels = _levels_of(names(), wanted, progress)
        curves = sweep(wanted)
    findings = None if found is None or own_file().exists() else found["findings"]
    return {
        "metrics": [_describe(metric) for metric in wanted],
        "data": [*data, *_approximate({one["name"] for one in data})],
        "levels": levels,
        "published": _results(wanted, findings),
        "sweep": curves,
    }


def store(path: Path, *, progress: bool = False) -> None:
    """Write what the page says of the data sets and the record of the package.

    Parameters
    ----------
    path : Path
        The file.
    progress : bool, default False
        Whether to show a progress bar.
    """
    wanted = [adjustable(name) for name in METRICS]
    metrics = [metric for metric in wanted if isinstance(metric, Metric)]
    data, levels = _levels_of([*packaged()], metrics, progress)
    found = findings_by_row(tuple(results(candidates="any")))
    content = {
        "of": _sources(),
        "data": data,
        "levels": levels,
        "sweep": sweep(metrics),
        "findings": sorted(found.items()),
    }
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    with replacing(path) as file:
        file.write_bytes(gzip.compress(text.encode(), mtime=0))


def _stored() -> dict[str, Any] | None:
    """Read what `store` wrote; None if the atlas or the record has changed since."""
    if not PLACE.is_file():
        return None
    content: dict[str, Any] = json.loads(gzip.decompress(PLACE.read_bytes()))
    return content if content["of"] == _sources() else None


def _sources() -> str:
    """Return the hash of the files of the atlas and the record."""
    places = (files(f"evenrank.{package}") / name for package, each in SOURCES.items() for name in each)
    return hashlib.sha256(b"".join(place.read_bytes() for place in places)).hexdigest()[:16]


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


def _approximate(there: Collection[str]) -> list[dict[str, Any]]:
    """Describe data sets of which only sizes are known; the page computes their chance levels."""
    found = []
    for name, entry in registry.entries().items():
        counted = None if name in there else approximate.counts(entry)
        if counted is None:
            continue
        splits = {split: sides["tail"][0] for split, sides in counted.splits.items()}
        about = {"exact": entry.candidates is not None, "splits": splits}
        found.append({"name": name, **_about(name), "equal": about})
    return found


def _describe(metric: Metric | Statistic) -> dict[str, Any]:
    least, most = metric.range
    return {
        "name": str(metric),
        "formula": metric.formula,
        "increasing": metric.increasing,
        "best": metric.best,
        "range": [least, most if isfinite(most) else None],
        "percent": PublishedValue(metric, 0.0).ends_at_one,
        "shape": _shape(metric),
        "aliases": _aliases(metric),
    }


def _aliases(metric: Metric | Statistic) -> dict[str, list[str]]:
    """List the names of a metric, and those of its adjusted forms, in lower case without underscores."""
    found: dict[str, list[str]] = {"value": [str(metric)], "index": [], "z": [], "ratio": []}
    for alias, target in ALIASES.items():
        if bare(target) == metric:
            form = target.adjustment if isinstance(target, Adjusted) else "value"
            found[form].append(alias.replace("_", ""))
    return found


def _shape(metric: Metric | Statistic) -> dict[str, Any] | None:
    """Describe a metric whose chance levels the page can compute: `mean_p(f(rank))^q`."""
    if not (isinstance(metric, Metric) and isfinite(metric.p)):
        return None
    if metric.f.k is not None:
        name = "hits"
    elif metric.f in (RANK, NDCG.f):
        name = "rank" if metric.f == RANK else "discount"
    else:
        return None
    return {"f": name, "k": metric.f.k, "p": metric.p, "q": metric.q}


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


def _results(
    metrics: Sequence[Metric | Statistic], findings: Iterable[tuple[int, list[str]]] | None
) -> dict[str, Any]:
    """Return the published results in these metrics: those of the record, and of the case study."""
    rows = list(results(candidates="any"))
    found = findings_by_row(rows) if findings is None else dict(findings)
    rows += _of_paper(max(one.run for one in rows) + 1)
    names = set(map(str, metrics))
    chosen = [i for i, row in enumerate(rows) if row.metric in names]
    flagged = {at: found[i] for at, i in enumerate(chosen) if i in found}
    return encoded([rows[i] for i in chosen], flagged, TEXTS, OTHERS)


def _of_paper(first: int) -> Iterator[Recorded]:
    """Yield the results of the case study of Hoyt et al. (2022) as rows of the record."""
    runs: dict[tuple[str, str], int] = {}
    for line in read_lines(PAPER, Setting("", unseen="drop")):
        setting = line.setting
        assert isinstance(setting.data, str)  # in a file, data sets are names
        yield Recorded(
            data=setting.data,
            model=line.model,
            variant="",
            metric=str(line.given.expression),
            printed=repr(line.given.value),
            percent=line.given.percent,
            split=setting.split,
            sides=setting.sides,
            filter=setting.filter or "none",
            candidates="all",
            ties="realistic",
            unseen=setting.unseen,
            source="Hoyt et al. 2022",
            year=2022,
            where=line.source,
            origin="own",
            run=runs.setdefault((setting.data, line.model), first + len(runs)),
            note="",
            called=line.model,
        )


def sweep(metrics: Sequence[Metric | Statistic]) -> dict[str, Any]:
    """Return mean and standard deviation of each metric for `n` tasks of equal size, by size and `n`."""

    def curve(metric: Metric | Statistic, n: int) -> list[tuple[float, float] | None]:
        try:
            return [moments(chance(metric, {size: n})) for size in SIZES]
        except NullDistributionError:
            return [None] * len(SIZES)

    curves = [[curve(metric, n) for metric in metrics] for n in TASKS]
    return {"sizes": SIZES, "tasks": TASKS, "chance": curves}
