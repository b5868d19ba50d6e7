"""Adds up metrics over files of rankings, some queries at a time.

The answers of a query have too many different positions for histograms, so the metrics are added up as
the files are read, without rounding (`evenrank.metrics.answers.tally`). Other metrics that are asked for
later are added up by reading the files again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenrank._internal import columns
from evenrank._internal.columns import TEXT, errors_name_file
from evenrank._internal.progress import Progress
from evenrank._internal.reading import check_rows, parquet_rows, translated
from evenrank.errors import InputError, Option
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.tally import QueryTally
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import ANSWERS, COUNT, Evaluation, bare, evaluate, usual_metrics
from evenrank.ranks.files import (
    FORMATS,
    METADATA,
    check_kind,
    numbers,
    of_rankings,
    read_protocol,
    read_table,
)
from evenrank.ranks.protocol import Protocol, differences, shared
from evenrank.ranks.rankings import Empty, Rankings
from evenrank.ranks.rows import one_rule
from evenrank.ranks.streams._files import local, scan
from evenrank.ranks.streams._tallies import Origin, Question, notes_on_files

if TYPE_CHECKING:
    import polars as pl

LOOKED_AT = 1000  # queries from which the number of answers is estimated
MOST_ANSWERS = 2**19  # read at a time
FEWEST, MOST_QUERIES = 2**8, 2**16  # queries read at a time


class Total(NamedTuple):
    """What was added up over files: a tally per group, where it came from, and damaged files."""

    tallies: dict[tuple[Any, ...], QueryTally]
    origins: dict[str, Origin]
    left_out: dict[str, str]


class QueryTallies:
    """Metrics added up over files of rankings of any size; iteration yields labels and tallies.

    Parameters
    ----------
    files : sequence of str
        The files.
    question : Question
        Keys to group by, candidates, and treatment of damaged files.
    metrics : iterable of str or Metric
        The metrics to add up; others are added up when they are evaluated, by reading the files again.
    progress : bool
        Whether to show a progress bar on a terminal.
    any_table : bool
        Whether tables with a row per answer are rankings, even if they do not say so.
    """

    def __init__(
        self,
        files: Sequence[str],
        question: Question,
        metrics: Iterable[Metrics],
        progress: bool,
        any_table: bool,
    ) -> None:
        if question.average != "micro":
            raise InputError(
                "macro averages of rankings cannot be streamed",
                got=f"average {question.average}",
                do="load the file with er.Rankings.load, or use the micro average",
            )
        self.files, self.question = tuple(files), question
        self._progress, self._any_table = progress, any_table
        self._total = self._read(_bases(listed(metrics) or ANSWERS))

    def __repr__(self) -> str:
        """Summarise the queries in one line."""
        by = (
            f"; {len(self.labels):,} groups by {', '.join(self.question.by)}" if self.question.by else ""
        )
        return f"QueryTallies({self.count:,} queries{by})"

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], QueryTally]]:
        """Iterate over labels and tallies of the groups."""
        tallies = self._total.tallies
        yield from zip(self.labels, (tallies[key] for key in self._sorted[0]), strict=True)

    @property
    def count(self) -> int:
        """The number of queries with answers."""
        return sum(tally.count for tally in self._total.tallies.values())

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The distinct protocols of the files."""
        return tuple(self._total.origins.values())

    @property
    def protocol(self) -> Protocol:
        """The common protocol of all files."""
        return shared(origin.protocol for origin in self.origins)

    @property
    def left_out(self) -> dict[str, str]:
        """Damaged files that were left out, and the reason."""
        return self._total.left_out

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The labels of the groups, sorted."""
        return self._sorted[1]

    @property
    def _sorted(self) -> tuple[list[tuple[Any, ...]], tuple[tuple[str, ...], ...]]:
        """The groups in the order that they have in memory: of numbers, or of texts."""
        keys = [*self._total.tallies]
        if not self.question.by:
            return keys, ((),) * len(keys)
        arrays = [
            columns.key(name, list(column), len(keys))
            for name, column in zip(self.question.by, zip(*keys, strict=True), strict=True)
        ]
        numbers, distinct = columns.encode(arrays)
        labels = tuple(zip(*(map(str, column) for column in distinct), strict=True))
        return [keys[i] for i in np.argsort(numbers).tolist()], labels

    @property
    def notes(self) -> list[str]:
        """Remarks on files that differ, and on those that were left out."""
        return notes_on_files(self.origins, self.left_out)

    def evaluate(
        self,
        *metrics: Metrics,
        ties: Ties | None = None,
        chance: Chance | None = None,
        empty: Empty = "skip",
    ) -> Evaluation[Any]:
        """Evaluate metrics, as `Rankings.evaluate` and `Groups.evaluate` do, to the same bit.

        Parameters
        ----------
        *metrics : str or Metric, or list of them
            The metrics; by default a selection with chance levels, adjusted indices and z-scores.
        ties : {"expected", "optimistic", "pessimistic"}, optional
            The tie-breaking rule.
        chance : None
            Not used: different queries share no scores.
        empty : {"skip", "zero"}
            Whether queries without answers are left out, or have the value 0.

        Returns
        -------
        Evaluation
            Values, by group if there are groups.
        """
        del chance
        return side_by_side_rankings([("", self)], metrics, ties=ties, empty=empty)

    def add(self, metrics: Iterable[Metrics]) -> None:
        """Add up metrics that were not yet, by reading the files again.

        Parameters
        ----------
        metrics : iterable of str or Metric
            The metrics.
        """
        wanted = _bases(metrics)
        known = next(iter(self._total.tallies.values())).metrics
        if not set(wanted) <= set(known):
            self._total = self._read(list(dict.fromkeys([*known, *wanted])))

    def _read(self, metrics: Sequence[QueryMetric]) -> Total:
        """Add up metrics over all files."""
        total = Total({}, {}, {})
        with Progress("reading", len(self.files), unit="files", show=self._progress) as bar:
            for file in self.files:
                try:
                    tallies, origin = _of_file(file, self.question, metrics, self._any_table)
                except DamagedRankingsError as damage:
                    if not self.question.skip_damaged:
                        raise
                    total.left_out[file] = str(damage)
                    continue
                total.origins[str(origin)] = origin
                for key, tally in tallies.items():
                    before = total.tallies.get(key)
                    total.tallies[key] = tally if before is None else before + tally
                bar.advance()
        if not total.origins:
            raise InputError("every file is damaged", got=next(iter(total.left_out.values())))
        if not total.tallies:
            raise InputError("no queries" if not self.question.by else "no queries to group")
        return total


class DamagedRankingsError(InputError):
    """A file cannot be read, or contains invalid rankings."""


def side_by_side_rankings(
    named: Sequence[tuple[str, QueryTallies]],
    metrics: Sequence[Metrics] = (),
    *,
    ties: Ties | None = None,
    empty: Empty = "skip",
    what: str = "rankings",
) -> Evaluation[Any]:
    """Evaluate several sets of files, with a row for each and for each of its groups.

    Parameters
    ----------
    named : sequence of tuple
        Names, and what was added up; a single one without a name has no label.
    metrics : sequence of str or Metric
        The metrics.
    ties, empty
        As for `QueryTallies.evaluate`.
    what : str
        The name of the column of names.

    Returns
    -------
    Evaluation
        The values.
    """
    alone = len(named) == 1 and not named[0][0]
    by = named[0][1].question.by
    label_names = by if alone else (what, *by)
    every = [origin for _, one in named for origin in one.origins]
    default = usual_metrics(wide=bool(label_names))
    for _, one in named:
        one.add(listed(metrics) or default)
    rows = [(label if alone else (name, *label), tally) for name, one in named for label, tally in one]
    made = evaluate(
        [tally for _, tally in rows],
        metrics,
        default=default,
        ties=one_rule((origin.ties for origin in every), ties),
        labels=[label for label, _ in rows],
        label_names=label_names,
        protocol=replace(shared(origin.protocol for origin in every), average="micro"),
        zero=empty == "zero",
    )
    notes = [note if alone else f"{name}: {note}" for name, one in named for note in one.notes]
    apart = [] if alone else differences((origin.protocol for origin in every), "files", label_names)
    return replace(made, notes=(*made.notes, *apart, *notes))


def _bases(metrics: Iterable[Any]) -> list[QueryMetric]:
    """Return the metrics to add up, without adjustments."""
    plain = dict.fromkeys(bare(parse(one)) for one in metrics)
    return list(dict.fromkeys(for_answers(one) for one in plain if one != COUNT))


def _of_file(
    file: str, question: Question, metrics: Sequence[QueryMetric], any_table: bool
) -> tuple[dict[tuple[Any, ...], QueryTally], Origin]:
    """Add up the metrics of a file, by group."""
    with local(file) as path:
        if not path.exists():
            raise InputError("no such file", got=file)
        try:
            with translated(file, do=FORMATS):
                return _added(path, file, question, metrics, any_table)
        except OtherFileError:
            raise
        except InputError as error:
            text = str(error)
            text = text if file in text else text.replace(str(path), file)
            raise DamagedRankingsError(text) from None


class OtherFileError(InputError):
    """A file lacks a key to group by, or is none of rankings."""


def _added(
    path: Path, where: str, question: Question, metrics: Sequence[QueryMetric], any_table: bool
) -> tuple[dict[tuple[Any, ...], QueryTally], Origin]:
    """Add up the metrics of a local file, by group."""
    import polars as pl

    if path.suffix.lower() in TEXT:
        table, protocol = read_table(path)
        batches, stated = iter([table]), len(table)
    else:
        check_kind(path)
        protocol = read_protocol(pl.read_parquet_metadata(path).get(METADATA, "{}"), path)
        stated = parquet_rows(path)
        batches = _batches(scan(path), stated)
        table = scan(path).head(0).collect()
    if not any_table and not of_rankings(table.schema, protocol):
        raise OtherFileError(
            "files of ranks and of rankings do not mix",
            got=f"{where}, which does not say that it is of rankings",
            do=["read them separately, or pass ", Option("kind", "rankings")],
        )
    found: dict[tuple[Any, ...], QueryTally] = {}
    rows, origin = 0, None
    for batch in batches:
        rankings = _read(batch, protocol, where, question, rows)
        if origin is None:
            absent = [key for key in question.by if key not in rankings.keys]
            if absent:
                allowed = ", ".join(rankings.keys) or "(there are none)"
                raise OtherFileError(
                    f"{where}: no such key column", got=repr(absent[0]), allowed=allowed
                )
            origin = Origin(rankings.protocol, rankings.ties, rankings.weights is not None)
        rows += len(batch)
        for key, part in _groups(rankings, question.by):
            tally = part.tally(*metrics)
            found[key] = found[key] + tally if key in found else tally
    if path.suffix.lower() not in TEXT:
        check_rows(rows, stated)
    assert origin is not None  # an empty file has a batch without rows
    return found, origin


def _batches(frame: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Read some queries at a time, with not too many answers; at least one batch, if without rows."""
    import polars as pl

    head = frame.head(LOOKED_AT).select(pl.col("better")).collect()["better"]
    mean = (head.list.len().mean() or 1.0) if isinstance(head.dtype, pl.List) else 1.0
    size = int(min(max(MOST_ANSWERS / max(float(mean), 1.0), FEWEST), MOST_QUERIES))  # type: ignore[arg-type]  # a mean of numbers
    # slices take half the memory of `collect_batches`, which decodes ahead
    for start in range(0, max(rows, 1), size):
        yield frame.slice(start, size).collect()


def _read(
    batch: pl.DataFrame, protocol: dict[str, str], where: str, question: Question, before: int
) -> Rankings:
    """Create rankings of some rows; errors count rows in the whole file."""
    weightless = "weight" in batch.columns and len(batch) and not numbers(batch, "weight").any()
    some = batch.drop("weight") if weightless else batch
    with errors_name_file(where, before):
        rankings = Rankings.read(some, protocol, where, question.candidates)
    # `Rankings` need a positive weight, some rows of a file do not
    return rankings[:0] if weightless else rankings


def _groups(rankings: Rankings, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Rankings]]:
    """Split rankings by the values of keys."""
    if not by:
        yield (), rankings
        return
    if not len(rankings):
        return
    code, distinct = columns.encode([rankings.keys[name] for name in by])
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code))
    keys = zip(*(column.tolist() for column in distinct), strict=True)
    for key, rows in zip(keys, np.split(order, ends[:-1]), strict=True):
        yield tuple(key), rankings[rows]
