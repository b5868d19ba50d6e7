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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.export import Framed
from evenrank._internal.files import replacing
from evenrank._internal.table import Table
from evenrank.errors import InputError
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.files import METADATA, key_array, numbers, read_table
from evenrank.ranks.presets import PRESETS
from evenrank.ranks.protocol import Protocol

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr

TRIPLE = ("head", "relation", "tail")
PREVIEW = 10  # rows that a notebook shows


@dataclass(frozen=True)
class Work:
    """What ranking took: scores, seconds, pairs that needed float64, and which kernels did it."""

    scores: int
    seconds: float
    undecided: int
    kernels: str


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Ranks(Framed):
    """Ranked targets, in columns: a frozen value.

    Parameters
    ----------
    better : array_like of int
        For each target, how many candidates have a better score.
    equal : array_like of int
        How many other candidates have the same score. The rank is then one of
        ``better + 1, ..., better + equal + 1``; the tie-breaking rule decides.
    candidates : array_like of int, optional
        How many candidates there are, the target included. Without it there are no chance levels.
    weights : array_like of float, optional
        Weights of the targets; by default all count the same.
    keys : mapping of str to array_like, optional
        Columns that describe the targets (head, relation, tail, side, ...), to group by and to join on.
    protocol : Protocol or mapping, optional
        How the ranks were computed.

    Attributes
    ----------
    work : Work or None
        What ranking took, where `evenrank.rank` made the ranks.

    See Also
    --------
    Ranks.of : Ranks from the numbers that most tools report.
    Ranks.load : Ranks from a file.

    Notes
    -----
    A single number in place of a column is repeated. Columns are read-only views, without a copy.

    Examples
    --------
    >>> ranks = Ranks.of([1, 2.5, 10], candidates=100, keys={"relation": ["a", "a", "b"]})
    >>> ranks.equal.tolist(), ranks.evaluate("mr", "hits@3").to_dict()
    ([0, 1, 0], {'mr': 4.5, 'hits@3': 0.6666666666666666})
    >>> ranks.by("relation").evaluate("mr")["mr"].tolist()
    [1.75, 10.0]
    """

    _along = "target"

    better: Ints
    equal: Ints
    candidates: Ints  # 0 where their number is unknown
    weights: Floats | None
    keys: Mapping[str, NDArray[Any]]
    protocol: Protocol
    work: Work | None

    def __init__(
        self,
        better: ArrayLike,
        equal: ArrayLike,
        candidates: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> None:
        counts = columns.checked(better, equal, candidates, weights)
        rows = len(counts[0])
        named = {name: columns.key(name, column, rows) for name, column in (keys or {}).items()}
        self._hold(*counts, named, Protocol.of(protocol))

    def _hold(
        self,
        better: Ints,
        equal: Ints,
        candidates: Ints,
        weights: Floats | None,
        keys: Mapping[str, NDArray[Any]],
        protocol: Protocol,
        work: Work | None = None,
    ) -> None:
        """Hold columns that are known to be right, read-only."""
        for name, column in zip(columns.COUNTS, (better, equal, candidates), strict=True):
            object.__setattr__(self, name, _read_only(column))
        object.__setattr__(self, "weights", None if weights is None else _read_only(weights))
        read_only = {str(name): _read_only(column) for name, column in keys.items()}
        object.__setattr__(self, "keys", MappingProxyType(read_only))
        object.__setattr__(self, "protocol", protocol)
        object.__setattr__(self, "work", work)

    @classmethod
    def counted(
        cls,
        better: Ints,
        equal: Ints,
        candidates: Ints,
        keys: Mapping[str, NDArray[Any]],
        protocol: Protocol,
        work: Work,
    ) -> Self:
        """Hold what `rank` counted; it needs no check, which would take a tenth of ranking on a GPU."""
        return cls._made(better, equal, candidates, None, keys, protocol, work)

    @classmethod
    def _made(cls, *held: Any) -> Self:
        ranks = object.__new__(cls)
        ranks._hold(*held)
        return ranks

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes, and stay read-only: a read-only mapping cannot be pickled."""
        counts = self.better, self.equal, self.candidates, self.weights
        return Ranks._made, (*counts, dict(self.keys), self.protocol, self.work)

    @classmethod
    def of(
        cls,
        rank: ArrayLike,
        candidates: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Self:
        """Take ranks as most tools report them.

        Parameters
        ----------
        rank : array_like
            Ranks from 1; a half-integer is the mean rank of a tie of two.
        candidates : array_like of int, optional
            How many candidates each target was ranked among, the target included. Without it, metrics
            can be computed, but not their chance levels.
        weights, keys, protocol
            As for `Ranks`.

        Returns
        -------
        Ranks
            The ranks, as counts of better and equal candidates.

        Raises
        ------
        InputError
            If a rank is below 1, above its number of candidates, or not a multiple of one half.

        Examples
        --------
        >>> print(Ranks.of([1, 2, 3]).evaluate("mrr")["mrr"])
        0.611111111111111
        """
        better, equal = columns.from_ranks(rank)
        return cls(better, equal, candidates, weights=weights, keys=keys, protocol=protocol)

    @classmethod
    def between(
        cls,
        optimistic: ArrayLike,
        pessimistic: ArrayLike,
        candidates: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Self:
        """Take the best and the worst rank that ties allow.

        Parameters
        ----------
        optimistic, pessimistic : array_like of int
            The rank if the target is placed before, or after, all candidates with the same score.
        candidates, weights, keys, protocol
            As for `Ranks`.

        Returns
        -------
        Ranks
            The ranks, as counts of better and equal candidates.

        Raises
        ------
        InputError
            If a pessimistic rank is below its optimistic one.
        """
        low = columns.integers("optimistic ranks", optimistic, 1)
        high = columns.repeat(
            "pessimistic ranks", columns.integers("pessimistic ranks", pessimistic, 1), len(low)
        )
        columns.refuse(high < low, high, "a pessimistic rank is below its optimistic one")
        return cls(low - 1, high - low, candidates, weights=weights, keys=keys, protocol=protocol)

    @classmethod
    def from_scores(
        cls,
        scores: ArrayLike,
        target: ArrayLike,
        known: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
    ) -> Self:
        """Rank each row's target in a dense matrix of scores, for small cases.

        Parameters
        ----------
        scores : array_like
            A row per query and a column per candidate; higher is better.
        target : array_like of int
            The column of each row's target.
        known : array_like of bool, optional
            Marks other known answers, which are left out; the target itself always stays.
        weights, keys, protocol
            As for `Ranks`.

        Returns
        -------
        Ranks
            A rank per row.

        Raises
        ------
        InputError
            If scores contain NaN, or a target is no column.

        Examples
        --------
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
            weights=weights,
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
        protocol: Protocol | Mapping[str, Any] | None = None,
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
        protocol: Protocol | Mapping[str, Any] | None,
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
        if names is None:
            raise _columns_missing(where, frame.columns)
        taken = {*names, "candidates", "weight"}
        return builders[names](
            *(numbers(frame, name) for name in names),
            candidates,
            weights=numbers(frame, "weight") if "weight" in have else None,
            keys={name: key_array(frame[name]) for name in frame.columns if name not in taken},
            protocol=protocol,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file (or CSV, by the name's ending): whole, or not at all."""
        kind = Path(path).suffix
        protocol = json.dumps(self.protocol.to_dict(), ensure_ascii=False)
        with replacing(path) as file:
            if kind in (".csv", ".tsv"):
                body = self.to_polars().write_csv(separator="\t" if kind == ".tsv" else ",")
                file.write_text(f"# {METADATA} {protocol}\n{body}", encoding="utf-8")
            else:
                self.to_polars().write_parquet(file, metadata={METADATA: protocol})

    def _columns(self) -> dict[str, NDArray[Any]]:
        known = columns.COUNTS if self.has_candidates else columns.COUNTS[:-1]
        counts = {name: getattr(self, name) for name in known}
        weight = {} if self.weights is None else {"weight": self.weights}
        return {**self.keys, **counts, **weight}

    def to_xarray(self) -> xr.Dataset:
        """Give an xarray data set along `target`, with the keys as coordinates (needs xarray)."""
        return super().to_xarray().set_coords([*self.keys]).assign_attrs(self.protocol.to_dict())

    # What is made of them ----------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of ranked targets."""
        return len(self.better)

    def __repr__(self) -> str:
        """Say how much it holds, of what."""
        about = [f"{len(self):,} targets"]
        about += [f"keys: {', '.join(self.keys)}"] * bool(self.keys)
        about += ["weighted"] * (self.weights is not None)
        about += [str(self.protocol)] * (self.protocol != Protocol())
        return f"Ranks({'; '.join(about)})"

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        shown = {name: column[:PREVIEW].tolist() for name, column in self._columns().items()}
        rows = [[str(value) for value in row] for row in zip(*shown.values(), strict=True)]
        more = [f"{len(self) - PREVIEW:,} more targets"] * (len(self) > PREVIEW)
        return Table([*shown], rows, [*more, str(self.protocol)], labels=len(self.keys)).html()

    def __getitem__(self, rows: int | slice | NDArray[Any]) -> Ranks:
        """Select rows by slice, mask or index array; a single index gives a single row."""
        if isinstance(rows, int | np.integer):
            rows = np.array([rows])
        return Ranks._made(
            *(getattr(self, name)[rows] for name in columns.COUNTS),
            None if self.weights is None else self.weights[rows],
            {name: column[rows] for name, column in self.keys.items()},
            self.protocol,
        )

    def with_keys(self, keys: Mapping[str, ArrayLike] | None = None, /, **more: ArrayLike) -> Ranks:
        """Give the same ranks with some key columns added or replaced.

        Parameters
        ----------
        keys, **more
            Columns by name, with a value per target; a single value is repeated.

        Returns
        -------
        Ranks
            Ranks that share the other columns.

        Examples
        --------
        >>> Ranks.of([1, 2]).with_keys(side=["head", "tail"])
        Ranks(2 targets; keys: side)
        """
        new = {name: columns.key(name, c, len(self)) for name, c in {**(keys or {}), **more}.items()}
        counts = self.better, self.equal, self.candidates, self.weights
        return Ranks._made(*counts, {**self.keys, **new}, self.protocol, self.work)

    def with_only_keys(self, keys: Mapping[str, NDArray[Any]]) -> Ranks:
        """Give the same ranks with these key columns and no others."""
        counts = self.better, self.equal, self.candidates, self.weights
        return Ranks._made(*counts, keys, self.protocol, self.work)

    def with_protocol(
        self, protocol: Protocol | Mapping[str, Any] | None = None, /, **entries: Any
    ) -> Ranks:
        """Give the same ranks with another protocol, or with some of its entries changed.

        Parameters
        ----------
        protocol
            The new protocol; a mapping changes entries of the present one.
        **entries
            Entries to change; None removes one.

        Returns
        -------
        Ranks
            Ranks that share all columns.

        Examples
        --------
        >>> Ranks.of([1, 2]).with_protocol(data="nations", model="TransE").protocol.model
        'TransE'
        """
        if isinstance(protocol, Protocol):
            base = protocol
        else:
            base = self.protocol.updated(Protocol.entries(protocol))
        counts = self.better, self.equal, self.candidates, self.weights
        return Ranks._made(*counts, self.keys, base.updated(entries), self.work)

    def with_weights(self, weights: ArrayLike | None) -> Ranks:
        """Give the same ranks with other weights.

        Parameters
        ----------
        weights
            A weight per target; None weighs all the same.

        Returns
        -------
        Ranks
            Ranks that share all other columns.
        """
        given = None if weights is None else columns.weights(weights, len(self))
        counts = self.better, self.equal, self.candidates
        return Ranks._made(*counts, given, self.keys, self.protocol, self.work)

    def __add__(self, other: Ranks) -> Ranks:
        """Put the rows of both together: same columns needed; what the protocols share is kept."""
        if not isinstance(other, Ranks):
            return NotImplemented
        mine, others = self._columns(), other._columns()
        if mine.keys() != others.keys():
            raise InputError(
                "ranks with different columns cannot be put together",
                got=f"{', '.join(mine)} and {', '.join(others)}",
            )
        if self.ties != other.ties:
            raise InputError(
                "ranks with different tie-breaking rules cannot be put together",
                got=f"{self.ties} and {other.ties}",
            )
        both = {name: np.concatenate([column, others[name]]) for name, column in mine.items()}
        return Ranks(
            *(both.pop(name) for name in columns.COUNTS if name in both),
            weights=both.pop("weight", None),
            keys=both,
            protocol=self.protocol & other.protocol,
        )

    @property
    def has_candidates(self) -> bool:
        """Whether the number of candidates is known."""
        return not len(self) or bool(self.candidates[0])

    @property
    def tie_rate(self) -> float:
        """Share of targets that tie with another candidate."""
        return self.tally().tie_rate

    @property
    def ties(self) -> Ties:
        """The tie rule of the library whose protocol the ranks were made with; else `expected`."""
        preset = PRESETS.get(self.protocol.preset or "")
        return preset.ties if preset else "expected"

    def tally(self, average: str | Sequence[str] = "micro") -> Tally:
        """Count the rows into a tally, weighted as the average asks.

        `micro` weighs targets equally (or by their weight); `query`, `relation` or any key or keys
        weigh each group equally, however many targets it has, so that hubs do not dominate.
        """
        return Tally.of_checked(self.better, self.equal, self.candidates, self.weights_by(average))

    def weights_by(self, average: str | Sequence[str] = "micro") -> Floats | None:
        """Give the weight of each target under an average; None where all weigh the same."""
        if average == "micro":
            return self.weights
        groups = self.units(average)
        if self.weights is None:
            return np.asarray(1.0 / np.bincount(groups)[groups])
        total = np.bincount(groups, weights=self.weights)[groups]
        return np.divide(self.weights, total, out=np.zeros(len(self)), where=total > 0)

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
        *metrics: Metrics,
        ties: Ties | None = None,
        average: str | Sequence[str] = "micro",
    ) -> Evaluation[float]:
        """Evaluate metrics: named ones, or the default table with chance level, index and z.

        `ties`: `expected` by default, or as the library does whose protocol the ranks were made with.

        >>> print(Ranks.of([1, 2, 40], candidates=50).evaluate("mrr", "index(mrr)", "z(mrr)"))
        metric   value   index       z
        ------  ------  ------  ------
        mrr ↑   0.5083  0.4597  +4.638
        3 targets, 0.0% tied
        usual protocol [788eeea3]
        """
        protocol = self.protocol.updated({"average": average_name(average)})
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

    def __repr__(self) -> str:
        """Say how many groups there are, and of what."""
        some = ", ".join("/".join(label) for label in self.labels[:3]) + ", ..." * (len(self) > 3)
        return f"Groups({len(self):,} by {', '.join(self.names)}: {some}; {len(self.ranks):,} targets)"

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
        *metrics: Metrics,
        ties: Ties | None = None,
        average: str | Sequence[str] = "micro",
    ) -> Evaluation[Floats]:
        """Evaluate each group, with its own chance level."""
        return evaluate(
            [ranks.tally(average) for _, ranks in self],
            metrics,
            ties=ties or self.ranks.ties,
            labels=self.labels,
            label_names=self.names,
            protocol=self.ranks.protocol.updated({"average": average_name(average)}),
        )


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    view = column.view()
    view.flags.writeable = False
    return view


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
