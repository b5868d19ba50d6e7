"""Results side by side: what each value is worth, and how models rank within and across data sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, NamedTuple, Self

from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.metric import Metric, Statistic
from evenrank.published._footing import Board, Footing
from evenrank.published._read import Line, said
from evenrank.published._value import Given
from evenrank.ranks.evaluation import arrow, cell


@dataclass(frozen=True)
class Result:
    """What one published value is worth; `rank` is among the models with this metric on this board."""

    model: str
    board: Board
    given: Given
    value: float
    chance: float
    ratio: float
    index: float
    z: float
    rank: int
    source: str


class Standing(NamedTuple):
    """The mean index of a model over some boards, and its rank among all models that have them all."""

    metric: Metric | Statistic
    boards: tuple[Board, ...]
    model: str
    mean_index: float
    rank: int
    models: int


@dataclass(frozen=True, eq=False, repr=False)
class Published(Shown):
    """Published results with what each is worth against chance; prints as tables.

    `results` has one entry per value, in the order given. `standings` compares models across data sets:
    for every set of boards that some model has a metric on, the models that have all of them, by the
    mean of their indices over exactly these boards. `boards` gives the protocol of each.
    """

    results: tuple[Result, ...]
    standings: tuple[Standing, ...]
    boards: Mapping[Board, Mapping[str, str]]  # the entries of their protocols
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, lines: Sequence[Line]) -> Self:
        """Adjust every value, and compare the models."""
        footings: dict[Board, Footing] = {}
        results = _ranked(_results(lines, footings))
        boards = {board: footing.protocol.to_dict() for board, footing in footings.items()}
        return cls(tuple(results), tuple(_standings(results, boards)), boards, _notes(lines))

    def __len__(self) -> int:
        """Number of published values."""
        return len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """Give one dictionary per value: what was given, what it is worth, and the model's ranks.

        `mean_index` and `rank_across` are over all `data_sets` that this model has the metric on.
        """
        own: dict[tuple[Metric | Statistic, str], Standing] = {}
        for standing in self.standings:  # larger sets first, and none is larger than the model's own
            own.setdefault((standing.metric, standing.model), standing)
        rows = []
        for result in self.results:
            metric, board = result.given.metric, result.board
            standing = own[metric, result.model]
            rows.append(
                {
                    "model": result.model,
                    "data": self.boards[board]["data"],
                    "split": board.split,
                    "side": board.side,
                    "filter": board.filter or "none",
                    "unseen": self.boards[board]["unseen"],
                    "given": f"{result.given}{'%' * result.given.percent}",
                    "metric": str(metric),
                    "value": result.value,
                    "chance": result.chance,
                    "ratio": result.ratio,
                    "index": result.index,
                    "z": result.z,
                    "rank": result.rank,
                    "data_sets": len(standing.boards),
                    "mean_index": standing.mean_index,
                    "rank_across": standing.rank,
                    "source": result.source,
                }
            )
        return rows

    def content(self) -> dict[str, Any]:
        """Give everything there is to say, notes included."""
        across = [
            {
                "data": [self._label(board) for board in s.boards],
                "metric": str(s.metric),
                "model": s.model,
                "mean_index": s.mean_index,
                "rank": s.rank,
                "models": s.models,
            }
            for s in self.standings
        ]
        return {
            "boards": [dict(words) for words in self.boards.values()],
            "rows": self.rows(),
            "across": across,
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Lay it out: the values by data set and metric, best first; then models across data sets."""
        return [self._within(), *self._across()]

    @property
    def _differing(self) -> list[str]:
        """The facts in which boards differ, beside the data set."""
        names = ("split", "sides", "filter", "unseen")
        return [k for k in names if len({words[k] for words in self.boards.values()}) > 1]

    def _label(self, board: Board) -> str:
        words = self.boards[board]
        facts = "; ".join(words[name] for name in self._differing)
        return f"{words['data']} ({facts})" if facts else words["data"]

    def _within(self) -> Table:
        boards = list(self.boards)
        metrics = list(dict.fromkeys(result.given.metric for result in self.results))
        header = ["data", *self._differing, "metric", "model"]
        rows = [
            [
                *(self.boards[r.board][name] for name in ("data", *self._differing)),
                f"{r.given.metric} {arrow(r.given.metric)}",
                r.model,
                *(figure(x) for x in (r.value, r.chance, r.ratio, r.index)),
                cell(Adjusted("z", r.given.metric), r.z),
                str(r.rank),
            ]
            for r in sorted(
                self.results,
                key=lambda r: (boards.index(r.board), metrics.index(r.given.metric), r.rank),
            )
        ]
        first = self.boards[boards[0]]
        shared = [k for k in ("split", "sides", "filter", "unseen") if k not in self._differing]
        facts = "; ".join(f"{name}: {first[name]}" for name in shared)
        sources = dict.fromkeys(f"source: {r.source}" for r in self.results if r.source)
        columns = ["value", "chance", "ratio", "index", "z", "rank"]
        return Table([*header, *columns], rows, [*self.notes, facts, *sources], labels=len(header))

    def _across(self) -> Iterator[Table]:
        rows = [
            [
                ", ".join(map(self._label, s.boards)),
                f"{s.metric} {arrow(s.metric)}",
                s.model,
                figure(s.mean_index),
                f"{s.rank} of {s.models}",
            ]
            for s in self.standings
            if len(s.boards) > 1
        ]
        note = "mean index: over exactly the data sets named; ranked is every model that has them all"
        if rows:
            yield Table(["across", "metric", "model", "mean index", "rank"], rows, [note], labels=3)


def _results(lines: Iterable[Line], footings: dict[Board, Footing]) -> Iterator[Result]:
    """Adjust every value; `footings` keeps what was looked up."""
    before: dict[object, Line] = {}
    for line in lines:
        metric, key = line.given.metric, (line.model, line.board, line.given.metric)
        with said(line.where):
            if key in before:
                raise InputError(
                    f"{metric} of {line.model} is there already",
                    got=f"{line.given} after {before[key].given} ({before[key].where})",
                    do="keep one of the two, or tell the models apart by name",
                )
            before[key] = line
            if line.board not in footings:
                footings[line.board] = line.board.footing()
            raw = footings[line.board].raw(line.given)
            worth = footings[line.board].worth(metric, raw)
        forms = {form.adjustment: value for form, value in worth.items() if form.adjustment != "phi"}
        yield Result(line.model, line.board, line.given, raw, **forms, rank=0, source=line.source)


def _ranked(results: Iterable[Result]) -> list[Result]:
    """Rank the models of each board and metric."""
    found = list(results)
    indices: dict[tuple[Board, Metric | Statistic], list[float]] = {}
    for result in found:
        indices.setdefault((result.board, result.given.metric), []).append(result.index)
    rank = {key: _ranks(values) for key, values in indices.items()}
    return [replace(r, rank=rank[r.board, r.given.metric][r.index]) for r in found]


def _ranks(values: Iterable[float]) -> dict[float, int]:
    """Rank values, the largest first; equals share a rank, and the ranks behind them stay free."""
    ordered = sorted(values, reverse=True)
    return {value: len(ordered) - i for i, value in enumerate(reversed(ordered))}


def _standings(results: Iterable[Result], boards: Collection[Board]) -> Iterator[Standing]:
    """Compare models across boards, for every set of boards that some model has; larger sets first."""
    metrics: dict[Metric | Statistic, dict[str, dict[Board, float]]] = {}
    for r in results:
        metrics.setdefault(r.given.metric, {}).setdefault(r.model, {})[r.board] = r.index
    for metric, models in metrics.items():
        sets = dict.fromkeys(tuple(b for b in boards if b in has) for has in models.values())
        for common in sorted(sets, key=len, reverse=True):
            means = {
                model: fsum(has[board] for board in common) / len(common)
                for model, has in models.items()
                if has.keys() >= set(common)
            }
            rank = _ranks(means.values())
            for model, mean in sorted(means.items(), key=lambda item: rank[item[1]]):
                yield Standing(metric, common, model, mean, rank[mean], len(means))


def _notes(lines: Sequence[Line]) -> tuple[str, ...]:
    """Say which metrics were read in which unit."""
    units: dict[str, dict[str, None]] = {}
    for given in (line.given for line in lines if line.given.ends_at_one):
        units.setdefault("percent" if given.percent else "fractions", {})[str(given.expression)] = None
    said = "; ".join(f"as {unit}: {', '.join(names)}" for unit, names in units.items())
    return (f"read {said}",) if said else ()
