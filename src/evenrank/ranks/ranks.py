"""Ranks: one row per ranked target, in columns; everything else is computed from them.

A row holds three integers: `better`, how many candidates scored better than the target; `equal`, how
many others scored the same; `candidates`, how many there were, the target included. The rank is then
somewhere in `better + 1 .. better + equal + 1`. A weight and any number of key columns (head,
relation, tail, side, ...) may stand beside them.

File schema (Parquet or CSV): integer columns `better`, `equal`, `candidates`; optional float `weight`;
every other column is a key. Files of others may instead give `rank` (half-integers are mean ranks of
ties) or `optimistic` and `pessimistic`. The protocol is JSON: in Parquet under the metadata key
`evenrank`, in CSV in a first line that starts with `# evenrank`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.export import Framed
from evenrank._internal.files import replacing
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.files import METADATA, key_array, numbers, read_table
from evenrank.ranks.presets import entries, remembered

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr

TRIPLE = ("head", "relation", "tail")


@dataclass(frozen=True)
class Work:
    """What ranking took: scores, seconds, pairs that needed float64, and which kernels did it."""

    scores: int
    seconds: float
    undecided: int
    kernels: str


class Ranks(Framed):
    """Ranked targets, in columns.

    >>> ranks = Ranks.of([1, 2.5, 10], candidates=100, keys={"relation": ["a", "a", "b"]})
    >>> ranks.equal.tolist(), ranks.evaluate("mr", "hits@3").flat()
    ([0, 1, 0], {'mr': 4.5, 'hits@3': 0.6666666666666666})
    >>> ranks.by("relation").evaluate("mr")["mr"].tolist()
    [1.75, 10.0]
    """

    _along = "target"

    def __init__(
        self,
        better: ArrayLike,
        equal: ArrayLike,
        candidates: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Mapping[str, str] | None = None,
    ) -> None:
        """Check and hold the columns; a single number is repeated."""
        self.better, self.equal, self.candidates, self.weight = columns.checked(
            better, equal, candidates, weight
        )
        rows = len(self.better)
        self.keys = {name: columns.key(name, column, rows) for name, column in (keys or {}).items()}
        self.protocol = entries(protocol)
        self.work: Work | None = None  # set by `rank`

    @classmethod
    def counted(
        cls,
        better: Ints,
        equal: Ints,
        candidates: Ints,
        keys: Mapping[str, NDArray[Any]],
        protocol: Mapping[str, str],
        work: Work,
    ) -> Self:
        """Hold what `rank` counted; it needs no check, which would take a tenth of ranking on a GPU."""
        ranks = object.__new__(cls)
        ranks.better, ranks.equal, ranks.candidates, ranks.weight = better, equal, candidates, None
        ranks.keys, ranks.protocol, ranks.work = dict(keys), dict(protocol), work
        return ranks

    @classmethod
    def of(
        cls,
        rank: ArrayLike,
        candidates: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Mapping[str, str] | None = None,
    ) -> Self:
        """Take ranks as most tools report them; a half-integer is the mean rank of a tie of two."""
        values = np.atleast_1d(np.asarray(rank))
        if values.dtype.kind not in "iuf":
            raise InputError("ranks must be numbers", got=f"type {values.dtype}")
        whole = values.dtype.kind != "f"
        values = values.astype(np.int64 if whole else float)
        if not whole:
            columns.refuse(~np.isfinite(values), values, "ranks must be finite")
            columns.refuse(
                2 * values != np.floor(2 * values), values, "ranks must be whole numbers or halves"
            )
        columns.refuse(values < 1, values, "ranks start at 1")
        columns.refuse(values > columns.LARGEST, values, f"ranks must be at most {columns.LARGEST:,}")
        better = np.floor(values).astype(np.int64) - 1
        equal = (2 * values).astype(np.int64) - 2 * better - 2  # 1 where the rank is a half-integer
        return cls(better, equal, candidates, weight=weight, keys=keys, protocol=protocol)

    @classmethod
    def between(
        cls,
        optimistic: ArrayLike,
        pessimistic: ArrayLike,
        candidates: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Mapping[str, str] | None = None,
    ) -> Self:
        """Take the best and the worst rank that ties allow."""
        low = columns.integers("optimistic ranks", optimistic, 1)
        high = columns.repeat(
            "pessimistic ranks", columns.integers("pessimistic ranks", pessimistic, 1), len(low)
        )
        columns.refuse(high < low, high, "a pessimistic rank is below its optimistic one")
        return cls(low - 1, high - low, candidates, weight=weight, keys=keys, protocol=protocol)

    @classmethod
    def from_scores(
        cls,
        scores: ArrayLike,
        target: ArrayLike,
        known: ArrayLike | None = None,
        *,
        weight: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Mapping[str, str] | None = None,
    ) -> Self:
        """Rank each row's target in a dense matrix of scores (higher is better), for small cases.

        `known` marks other right answers to leave out; the target itself always stays.

        >>> r = Ranks.from_scores([[0.1, 0.9, 0.9]], [1], known=[[True, False, False]])
        >>> r.better.tolist(), r.equal.tolist(), r.candidates.tolist()
        ([0], [1], [2])
        """
        matrix = np.asarray(scores)
        if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
            raise InputError(
                "scores must be a matrix of numbers, a row per query and a column per candidate",
                got=f"shape {matrix.shape} of {matrix.dtype}",
            )
        if np.isnan(matrix).any():
            row, column = np.argwhere(np.isnan(matrix))[0]
            raise InputError(
                "a score is not a number",
                got=f"NaN for query {row}, candidate {column}",
                do="mend the model; a NaN has no rank",
            )
        at = columns.repeat("target", columns.integers("target", target, 0), len(matrix))
        columns.refuse(at >= matrix.shape[1], at, "a target is not among the candidates (columns)")
        others = np.ones(matrix.shape, dtype=bool)
        if known is not None:
            mask = np.asarray(known, dtype=bool)
            if mask.shape != matrix.shape:
                raise InputError(
                    "known and scores differ in shape", got=f"{mask.shape} and {matrix.shape}"
                )
            others = ~mask
        rows = np.arange(len(matrix))
        others[rows, at] = False
        goal = matrix[rows, at][:, None]
        return cls(
            ((matrix > goal) & others).sum(axis=1),
            ((matrix == goal) & others).sum(axis=1),
            others.sum(axis=1) + 1,
            weight=weight,
            keys=keys,
            protocol=protocol,
        )

    # Files and frames --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        candidates: ArrayLike | None = None,
        protocol: Mapping[str, str] | None = None,
        where: str = "table",
    ) -> Self:
        """Take a polars, pandas or Arrow table with the columns of the file schema.

        Errors name it as `where` does.
        """
        import polars as pl

        if not isinstance(frame, pl.DataFrame):
            # column by column, because polars would need pyarrow to take a pandas frame whole
            content = (
                {str(name): frame[name].to_numpy() for name in frame.columns}
                if type(frame).__module__.startswith("pandas")
                else frame
            )
            try:
                frame = pl.DataFrame(content)
            except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
                raise InputError(
                    "not a table of ranks", got=type(frame).__name__, do=f"({error})"
                ) from None
        return cls._from_polars(frame, where, candidates, protocol)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, candidates: ArrayLike | None = None) -> Self:
        """Read a Parquet or CSV file of the schema above.

        `candidates` serves files that lack that column.
        """
        path = Path(path)
        frame, protocol = read_table(path)
        with columns.said_of(str(path)):
            return cls._from_polars(frame, str(path), candidates, protocol)

    @classmethod
    def _from_polars(
        cls,
        frame: pl.DataFrame,
        where: str,
        candidates: ArrayLike | None,
        protocol: Mapping[str, str] | None,
    ) -> Self:
        have = set(frame.columns)
        if candidates is None and "candidates" in have:
            candidates = numbers(frame, "candidates")
        builders: dict[tuple[str, ...], Callable[..., Self]] = {
            ("better", "equal"): cls,
            ("optimistic", "pessimistic"): cls.between,
            ("rank",): cls.of,
        }
        names = next((names for names in builders if have.issuperset(names)), None)
        if names is None or candidates is None:
            raise _columns_missing(where, frame.columns)
        taken = {*names, "candidates", "weight"}
        return builders[names](
            *(numbers(frame, name) for name in names),
            candidates,
            weight=numbers(frame, "weight") if "weight" in have else None,
            keys={name: key_array(frame[name]) for name in frame.columns if name not in taken},
            protocol=protocol,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file (or CSV, by the name's ending): whole, or not at all."""
        kind = Path(path).suffix
        protocol = json.dumps(self.protocol, ensure_ascii=False)
        with replacing(path) as file:
            if kind in (".csv", ".tsv"):
                body = self.to_polars().write_csv(separator="\t" if kind == ".tsv" else ",")
                file.write_text(f"# {METADATA} {protocol}\n{body}", encoding="utf-8")
            else:
                self.to_polars().write_parquet(file, metadata={METADATA: protocol})

    def _columns(self) -> dict[str, NDArray[Any]]:
        counts = {name: getattr(self, name) for name in columns.COUNTS}
        weight = {} if self.weight is None else {"weight": self.weight}
        return {**self.keys, **counts, **weight}

    def to_xarray(self) -> xr.Dataset:
        """Give an xarray data set along `target`, with the keys as coordinates (needs xarray)."""
        return super().to_xarray().set_coords([*self.keys]).assign_attrs(self.protocol)

    # What is made of them ----------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of ranked targets."""
        return len(self.better)

    def __repr__(self) -> str:
        """Say how much it holds."""
        keys = f", by {', '.join(self.keys)}" if self.keys else ""
        return f"Ranks({len(self):,} targets{keys})"

    def __getitem__(self, rows: int | slice | NDArray[Any]) -> Ranks:
        """Select rows by slice, mask or index array; a single index gives a single row."""
        if isinstance(rows, int | np.integer):
            rows = np.array([rows])
        part = object.__new__(Ranks)
        part.work = None
        part.better, part.equal = self.better[rows], self.equal[rows]
        part.candidates, part.protocol = self.candidates[rows], self.protocol
        part.weight = None if self.weight is None else self.weight[rows]
        part.keys = {name: column[rows] for name, column in self.keys.items()}
        return part

    def __add__(self, other: Ranks) -> Ranks:
        """Put the rows of both together: same columns needed; what the protocols share is kept."""
        mine, others = self._columns(), other._columns()
        if mine.keys() != others.keys():
            raise InputError(
                "ranks with different columns cannot be put together",
                got=f"{', '.join(mine)} and {', '.join(others)}",
            )
        if self.ties != other.ties:
            raise InputError(
                "ranks by protocols that rank ties differently cannot be put together",
                got=f"{self.ties} and {other.ties}",
            )
        both = {name: np.concatenate([column, others[name]]) for name, column in mine.items()}
        shared = self.protocol.items() & other.protocol.items()
        return Ranks(
            *(both.pop(name) for name in columns.COUNTS),
            weight=both.pop("weight", None),
            keys=both,
            protocol={k: v for k, v in self.protocol.items() if (k, v) in shared},
        )

    @property
    def tie_rate(self) -> float:
        """Share of targets that tie with another candidate."""
        return self.tally().tie_rate

    @property
    def ties(self) -> Ties:
        """The tie rule of the library whose protocol the ranks were made with; else `expected`."""
        preset = remembered(self.protocol)
        return preset.ties if preset else "expected"

    def tally(self, average: str | Sequence[str] = "micro") -> Tally:
        """Count the rows into a tally, weighted as the average asks.

        `micro` weighs targets equally (or by their weight); `query`, `relation` or any key or keys
        weigh each group equally, however many targets it has, so that hubs do not dominate.
        """
        return Tally.of_checked(self.better, self.equal, self.candidates, self.weights(average))

    def weights(self, average: str | Sequence[str] = "micro") -> Floats | None:
        """Give the weight of each target under an average; None where all weigh the same."""
        if average == "micro":
            return self.weight
        groups = self.units(average)
        if self.weight is None:
            return np.asarray(1.0 / np.bincount(groups)[groups])
        total = np.bincount(groups, weights=self.weight)[groups]
        return np.divide(self.weight, total, out=np.zeros(len(self)), where=total > 0)

    def units(self, by: str | Sequence[str]) -> Ints:
        """Number what belongs together: the targets of a query, or those alike in all keys named.

        `triple` joins all that was asked about one triple, both sides.

        >>> keys = {"head": ["a", "a"], "relation": "r", "tail": ["b", "b"], "side": ["head", "tail"]}
        >>> ranks = Ranks.of([1, 2], candidates=9, keys=keys)
        >>> [ranks.units(by).tolist() for by in ("triple", "query", "relation,side")]
        [[0, 0], [0, 1], [0, 1]]
        """
        names = by.split(",") if isinstance(by, str) else list(by)
        if names == ["triple"] and "triple" not in self.keys:
            names = list(TRIPLE)
        return (self._query() if names == ["query"] else self._codes(names))[0]

    def _query(self) -> tuple[Ints, list[NDArray[Any]]]:
        """Number the queries: a `query` key, or the known parts of head, relation, tail by side."""
        if "query" in self.keys:
            return self._codes(["query"])
        missing = [name for name in ("head", "relation", "tail", "side") if name not in self.keys]
        if missing:
            raise InputError(
                "averaging by query needs to know the queries",
                got=f"no key {', '.join(missing)}",
                do="add a `query` key, or head, relation, tail and side",
            )
        side = self.keys["side"]
        other = set(side.tolist()) - {"head", "tail"}
        if other:
            raise InputError(
                "unknown side", got=repr(other.pop()), allowed="head, tail (what was asked for)"
            )
        either = np.where(side == "tail", self.keys["head"], self.keys["tail"])
        given = columns.key("given", either, len(self))  # text, if either of them is
        return columns.encode([side, self.keys["relation"], given])

    def _codes(self, names: Sequence[str]) -> tuple[Ints, list[NDArray[Any]]]:
        for name in names:
            if name not in self.keys:
                raise InputError(
                    "no such key column",
                    got=repr(name),
                    allowed=", ".join(self.keys) or "(there are none)",
                )
        return columns.encode([self.keys[name] for name in names])

    def by(self, *keys: str) -> Groups:
        """Split by one or more keys."""
        if not len(self):
            raise InputError("no ranks to split", do="rank at least one target")
        if not keys:
            raise InputError("by() needs a key", allowed=", ".join(self.keys) or "(there are none)")
        return Groups(self, keys)

    def evaluate(
        self,
        *metrics: str | Expression,
        ties: Ties | None = None,
        average: str | Sequence[str] = "micro",
    ) -> Evaluation:
        """Evaluate metrics: named ones, or the default table with chance level, index and z.

        `ties`: `expected` by default, or as the library does whose protocol the ranks were made with.

        >>> print(Ranks.of([1, 2, 40], candidates=50).evaluate("mrr", "index(mrr)", "z(mrr)"))
        metric   value   index       z
        ------  ------  ------  ------
        mrr ↑   0.5083  0.4597  +4.638
        3 targets, 0.0% tied
        average: micro; ties: expected [788eeea3]
        """
        protocol = {**self.protocol, "average": average_name(average)}
        return evaluate([self.tally(average)], metrics, ties=ties or self.ties, protocol=protocol)


class Groups:
    """Ranks split by keys; iterate over (labels, ranks), or evaluate each."""

    def __init__(self, ranks: Ranks, keys: Sequence[str]) -> None:
        """Number the groups; rows stay where they are."""
        self.ranks, self.names = ranks, tuple(keys)
        self._group, self._distinct = ranks._codes(keys)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._distinct[0])

    @cached_property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the groups, sorted."""
        return tuple(zip(*(map(str, column) for column in self._distinct), strict=True))

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Ranks]]:
        """Give each group's labels and ranks."""
        order = np.argsort(self._group, kind="stable")
        ends = np.cumsum(np.bincount(self._group, minlength=len(self)))
        for label, rows in zip(self.labels, np.split(order, ends[:-1]), strict=True):
            yield label, self.ranks[rows]

    def evaluate(
        self,
        *metrics: str | Expression,
        ties: Ties | None = None,
        average: str | Sequence[str] = "micro",
    ) -> Evaluation:
        """Evaluate each group, with its own chance level."""
        return evaluate(
            [ranks.tally(average) for _, ranks in self],
            metrics,
            ties=ties or self.ranks.ties,
            labels=self.labels,
            label_names=self.names,
            protocol={**self.ranks.protocol, "average": average_name(average)},
        )


def tie_rule(several: Iterable[Ranks], ties: Ties | None = None) -> Ties:
    """Give the tie rule that is asked for; else the one of the protocols that all were ranked by."""
    return one_rule((ranks.ties for ranks in several), ties)


def one_rule(rules: Iterable[Ties], ties: Ties | None = None) -> Ties:
    """Give the tie rule that is asked for; else the one that all agree on."""
    distinct = sorted(set(rules))
    if ties is None and len(distinct) > 1:
        raise InputError(
            "these were ranked by protocols that rank ties differently",
            got=", ".join(distinct),
            do="choose one rule for all: ties= (--ties)",
        )
    return ties or distinct[0]


def average_name(average: str | Sequence[str]) -> str:
    """Write an average as the protocol has it."""
    return average if isinstance(average, str) else ",".join(average)


def _columns_missing(where: str, have: Sequence[str]) -> InputError:
    return InputError(
        f"{where} has no ranks evenrank can read",
        got=f"columns {', '.join(have) or '(none)'}",
        allowed="better + equal, rank, or optimistic + pessimistic; each with candidates",
        do="rename the columns, or pass candidates= (--candidates) if only that one is missing",
    )
