"""Benchmarks: the models that ranked the same task, with their rows aligned.

Ranks whose protocols agree on the task (data set, split, sides, filter, candidates) form one benchmark;
they must have the same targets and numbers of candidates. Ranks of different tasks form different
benchmarks with different names. A page stores a benchmark as one Parquet table: the keys and numbers of
candidates once, and two columns of counts for each model.
"""

from __future__ import annotations

import io
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrank._internal import columns, reading
from evenrank._internal.arrays import Ints
from evenrank.errors import InputError, NullDistributionError
from evenrank.graphs import Graph
from evenrank.graphs.known import with_atlas
from evenrank.graphs.strata import STRATA, strata
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance import Null, NullDistribution
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Histogram
from evenrank.ranks.evaluation import COUNT
from evenrank.ranks.files import KeyColumns, says_rankings
from evenrank.ranks.protocol import TASK, Protocol, shared
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import Ranks, load
from evenrank.ranks.rows import SCORED
from evenrank.ranks.selection import rows_of
from evenrank.stats import (
    On,
    joined,
    names_of,
    one_kind,
    query_keys,
    target_keys,
    unit_name,
    with_targets,
)

if TYPE_CHECKING:
    import polars as pl

UNNAMED = "unnamed data"
SAME = "rank them with the same protocol"
PLACE = re.compile(r'<script type="application/json" id="kept-ranks">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Ranks, and where they were read from."""

    where: str
    ranks: AnyRanks
    fallback: str  # the name of the model if the protocol has none
    on: str = ""  # the key columns that aligned them in the page they were read from

    @property
    def data(self) -> str:
        """The name of the data set."""
        return _line(self.ranks.protocol.data or "") or UNNAMED

    @property
    def model(self) -> str:
        """The name of the model."""
        return _line(self.ranks.protocol.model or "") or self.fallback

    @property
    def task(self) -> dict[str, str]:
        """The entries of the protocol that define the task."""
        return self.ranks.protocol.only(TASK).to_dict()


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Models that ranked the same targets; row i is the same target for every model.

    `on` names the key columns that identify the targets, or is "row". If it is empty, the rows cannot be
    matched and no paired tests are run.
    """

    data: str
    models: Mapping[str, AnyRanks]
    on: str

    @cached_property
    def first(self) -> AnyRanks:
        """The ranks of the first model; all models share its keys, candidates and weights."""
        return next(iter(self.models.values()))

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.first)

    @property
    def row_name(self) -> str:
        """What a row is: a target or a query."""
        return self.first.row_name

    @cached_property
    def sizes(self) -> Histogram | Shapes:
        """What determines the null distribution: numbers of candidates, and of answers."""
        return self.first.shapes() if isinstance(self.first, Rankings) else self.first.tally().sizes

    @property
    def count(self) -> int:
        """The number of targets, or of queries with answers."""
        return self.sizes.total

    def null(self, metric: Metric | Statistic | QueryMetric) -> Null:
        """Return the null distribution of a metric, of independent ranks."""
        return null_of(metric, self.sizes)

    @property
    def candidates(self) -> float:
        """Mean number of candidates."""
        return float(self.first.candidates.mean())

    @property
    def protocol(self) -> Protocol:
        """The entries that the protocols of all models share."""
        return shared(ranks.protocol for ranks in self.models.values())

    @cached_property
    def aligned(self) -> dict[str, AnyRanks]:
        """The models with their shared protocol, and as keys only triples and the resampling unit.

        Aligned rows can be compared directly, and the units are numbered once instead of for every
        model and pair.
        """
        if isinstance(self.first, Rankings):
            return {model: r.with_protocol(self.protocol) for model, r in self.models.items()}
        names = () if self.unit == "target" else self.unit.split("+")
        units = {name: self.first.units(name) for name in names}
        kept = {name: self.first.keys[name] for name in SCORED if name in self.first.keys}
        first = self.first.with_only_keys({**kept, **units}).with_protocol(self.protocol)
        return {
            model: with_targets(ranks, first).with_protocol(self.protocol)
            for model, ranks in self.models.items()
        }

    @cached_property
    def unit(self) -> str:
        """The resampling unit, that of `evenrank.intervals`."""
        return unit_name([self.first], None)

    @cached_property
    def units(self) -> Ints:
        """The number of the resampling unit of each target; of the first one, if units cross."""
        first = self.unit.split("+")[0]
        return np.arange(len(self)) if first == "target" else self.first.units(first)

    @property
    def untestable(self) -> str:
        """The reason why there are no paired tests, or an empty text."""
        first = self.first
        weight = first.weights_of_answered() if isinstance(first, Rankings) else first.weights
        units = self.units if weight is None else self.units[weight > 0]
        if not self.on:
            return (
                f"no key columns identify the {rows_of(self.row_name)}; name them with on= (--on in the "
                f"shell), or pass row if row i is the same {self.row_name} everywhere"
            )
        return "" if (units != units[:1]).any() else f"a single {self.unit} is too few for a test"

    def group_by(self, key: str) -> Iterator[tuple[str, Ints]]:
        """Yield each value of a key with its rows, sorted by value."""
        group, (values,) = columns.encode([self.first.keys[key]])
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(values)))
        yield from zip(map(str, values), np.split(order, ends[:-1]), strict=True)

    def sizes_by_group(self, group: Ints, count: int) -> list[Histogram] | list[Shapes]:
        """Count the numbers of candidates in each group of rows; rows are sorted once for all groups."""
        first = self.first
        if isinstance(first, Rankings):
            ends = np.cumsum(np.bincount(group, minlength=count))
            parts = np.split(np.argsort(group, kind="stable"), ends[:-1])
            return [first[rows].shapes() for rows in parts]
        weight = np.ones(len(self)) if first.weights is None else first.weights
        weighs = weight > 0
        every = Histogram.of(
            group=group[weighs], candidates=first.candidates[weighs], weight=weight[weighs]
        )
        ends = np.searchsorted(every["group"], np.arange(count + 1))
        return [
            Histogram(
                {name: every[name][start:stop] for name in ("candidates", "weight")},
                every.counts[start:stop],
            )
            for start, stop in pairwise(ends.tolist())
        ]


def null_of(metric: Metric | Statistic | QueryMetric, sizes: Histogram | Shapes) -> Null:
    """Return the null distribution of a metric, of independent ranks."""
    if isinstance(sizes, Shapes):
        if metric == COUNT:
            raise NullDistributionError("the number of queries has no null distribution")
        return QueryNull(for_answers(metric), sizes)
    if isinstance(metric, QueryMetric):
        raise metric.not_of_ranks()
    return NullDistribution(metric, sizes)


def read(path: Path, candidates: int | None = None, keys: KeyColumns | None = None) -> list[Source]:
    """Read a file of ranks, or all ranks that are stored in a report."""
    if path.suffix.lower() not in (".html", ".htm"):
        if says_rankings(path):
            return [Source(str(path), Rankings.load(path, candidates=candidates), path.stem)]
        return [Source(str(path), load(path, candidates, keys), path.stem)]
    raw = reading.content(path)
    with reading.translated(path):
        text = raw.decode()
    found = PLACE.search(text)
    if found is None:
        raise InputError(f"{path} is not a report of evenrank", got="a page without ranks")
    benchmarks = reading.parse_json(found[1], f"the data in {path}")
    with reading.translated(path), columns.errors_name_file(str(path)):
        kept = [source for benchmark in benchmarks for source in _unpack(benchmark, str(path))]
    if not kept:
        raise InputError(
            f"{path} has no ranks stored in it", do="write it again from files, and keep the ranks"
        )
    return kept


def align(sources: Sequence[Source], on: On = None) -> tuple[Benchmark, ...]:
    """Group ranks by task and align the rows of each; sort by mean number of candidates."""
    if not sources:
        raise InputError("no ranks to report", do="pass Ranks or files of ranks (.parquet, .csv)")
    for source in sources:
        if not len(source.ranks):
            raise InputError(f"{source.where} has no ranks", do="a report needs at least one target")
    one_kind({source.where: source.ranks for source in sources})
    groups: dict[tuple[tuple[str, str], ...], list[Source]] = {}
    for source in sources:
        task = source.task
        if "content" in task:  # the rule for unseen entities made no difference if that is the same
            task.pop("unseen", None)
        groups.setdefault(tuple(task.items()), []).append(source)
    names = _names([(group[0].data, group[0].task) for group in groups.values()])
    benchmarks = [_align(name, group, on) for name, group in zip(names, groups.values(), strict=True)]
    return tuple(sorted(benchmarks, key=lambda benchmark: benchmark.candidates))


def with_strata(benchmarks: Sequence[Benchmark], graph: Graph) -> tuple[Benchmark, ...]:
    """Add the strata of a graph (`evenrank.strata`) to the benchmarks on that graph."""
    mine = [
        benchmark
        for benchmark in benchmarks
        if benchmark.protocol.content == graph.hash or benchmark.protocol.data == graph.name
    ]
    if not mine:
        have = ", ".join(benchmark.data for benchmark in benchmarks)
        raise InputError("no ranks are of this graph", got=f"{graph.name} [{graph.hash}]", allowed=have)
    return tuple(_stratified(c, graph) if c in mine else c for c in benchmarks)


def _stratified(benchmark: Benchmark, graph: Graph) -> Benchmark:
    if isinstance(benchmark.first, Rankings):
        raise InputError(
            "graphs group ranks of single targets",
            got="rankings of queries with several answers",
            do="leave out the graph; a key with few values is grouped by itself",
        )
    every = {"head", "tail", "side"} <= benchmark.first.keys.keys()
    keys = strata(benchmark.first, graph, *(STRATA if every else STRATA[:2])).keys
    first = benchmark.first.with_only_keys(keys)
    models = {model: with_targets(ranks, first) for model, ranks in benchmark.models.items()}
    return Benchmark(benchmark.data, models, benchmark.on)


def _line(name: str) -> str:
    """Write a name on one line."""
    return " ".join(name.split())


def _names(tasks: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Name benchmarks by their data sets, and if these repeat, by what else differs in the task.

    >>> _names([("nations", {"split": "test"}), ("nations", {"split": "valid"}), ("umls", {})])
    ['nations (split: test)', 'nations (split: valid)', 'umls']
    """
    names = []
    for data, mine in tasks:
        others = [facts for name, facts in tasks if name == data]
        differ = [k for k in TASK if len({facts.get(k) for facts in others}) > 1]
        words = ", ".join(f"{k}: {mine.get(k, 'unknown')}" for k in differ)
        names.append(f"{data} ({words})" if words else data)
    return names


def _align(data: str, group: Sequence[Source], on: On) -> Benchmark:
    """Order the rows of all models like the first; raise `InputError` if the targets differ."""
    found = _models(data, group)
    first, *others = group
    kept = first.on if all(source.on == first.on for source in others) else ""
    shared = [key for key in first.ranks.keys if all(key in source.ranks.keys for source in others)]
    usual = query_keys(first.ranks, shared) if isinstance(first.ranks, Rankings) else target_keys(shared)
    keys = names_of("on", on) if on else kept or ",".join(usual)
    # errors name files, not models
    rows = {source.where: source.ranks for source in group}
    try:
        if others:
            rows = joined(rows, on=keys or "row", mixed=False, do=SAME)
    except InputError as error:
        where = f"the models whose protocols name the data set {data} cannot be compared"
        raise error.at(where) from None
    known = first.ranks if isinstance(first.ranks, Rankings) else with_atlas(first.ranks)
    models = {model: with_targets(rows[source.where], known) for model, source in found.items()}
    return Benchmark(data, models, keys)


def _models(data: str, group: Sequence[Source]) -> dict[str, Source]:
    """Name models by their protocols; models of the same name, such as seeds, by their files."""
    models = [source.model for source in group]
    for name in ("model", "fallback", "where"):
        names = [
            getattr(source, name) or source.model if models.count(source.model) > 1 else source.model
            for source in group
        ]
        if len(set(names)) == len(names):
            return dict(zip(names, group, strict=True))
    twice = next(model for model in models if models.count(model) > 1)
    raise InputError(
        f"the model {twice} is given twice on {data}",
        got=" and ".join(source.where for source in group if source.model == twice),
        do="leave one out, or give them different names in the protocol (model)",
    )


# Stored in a page ---------------------------------------------------------------------------------


def pack(benchmark: Benchmark) -> dict[str, Any]:
    """Return a benchmark as content for JSON."""
    import polars as pl

    first = benchmark.first
    table: dict[str, Any] = {f"key {name}": column for name, column in first.keys.items()}
    table |= {"candidates": first.candidates} if first.has_candidates else {}
    table |= {} if first.weights is None else {"weight": first.weights}
    for i, ranks in enumerate(benchmark.models.values()):
        if isinstance(ranks, Rankings):
            lists = ranks.to_polars().select("better", "equal", "^gain$")
            table |= {f"{name} {i}": lists[name] for name in lists.columns}
        else:
            table |= {f"better {i}": ranks.better, f"equal {i}": ranks.equal}
    file = io.BytesIO()
    pl.DataFrame(table).write_parquet(file, compression="zstd", compression_level=15, statistics=False)
    return {
        "data": benchmark.data,
        "on": benchmark.on,
        "models": [{"model": m, "protocol": r.protocol.to_dict()} for m, r in benchmark.models.items()],
        "parquet": b64encode(file.getvalue()).decode(),
        "shared_triples": None if isinstance(first, Rankings) else first.shared_triples(),
    }


def _unpack_rankings(kept: Mapping[str, Any], frame: pl.DataFrame, where: str) -> Iterator[Source]:
    """Read the rankings that are stored in a page."""
    import polars as pl

    shared = frame.select("^key .*$", "^candidates$", "^weight$")
    for i, model in enumerate(kept["models"]):
        lists = frame.select(pl.col(f"^(better|equal|gain) {i}$").name.replace(f" {i}$", ""))
        table = pl.concat([shared, lists], how="horizontal")
        named = table.rename(lambda column: column.removeprefix("key "))
        name = str(model["model"])
        rankings = Rankings.from_frame(named, protocol=model["protocol"], where=where)
        yield Source(f"{name} in {where}", rankings, name, str(kept.get("on", "")))


def _unpack(kept: Mapping[str, Any], where: str) -> Iterable[Source]:
    import polars as pl

    frame = reading.read_parquet(b64decode(kept["parquet"]), where)
    if isinstance(frame.schema.get("better 0"), pl.List):
        yield from _unpack_rankings(kept, frame, where)
        return
    column = {name: frame[name].to_numpy() for name in frame.columns}
    keys = {name.removeprefix("key "): c for name, c in column.items() if name.startswith("key ")}
    first: Ranks | None = None
    for i, model in enumerate(kept["models"]):
        ranks = Ranks(
            column[f"better {i}"],
            column[f"equal {i}"],
            column.get("candidates"),
            weights=column.get("weight"),
            keys=keys if first is None else None,
            protocol=model["protocol"],
        )
        ranks = ranks if first is None else ranks.with_targets_of(first)
        if kept.get("shared_triples") is not None:
            ranks = ranks.with_shared_triples(kept["shared_triples"], where)
        first = first or ranks
        name = str(model["model"])
        yield Source(f"{name} in {where}", ranks, name, str(kept.get("on", "")))
