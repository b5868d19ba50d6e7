"""Ranks: a row per ranked target, from which metrics are computed.

A row has three integers: `better`, the number of candidates with a better score than the target;
`equal`, the number of other candidates with the same score; and `candidates`, the number of candidates,
the target included. The rank is one of `better + 1 .. better + equal + 1`. Rows may have a weight and
any number of keys (head, relation, tail, side, ...).

File schema (Parquet or CSV): integer columns `better`, `equal`, `candidates`; optional float `weight`;
all other columns are keys. Files of other tools may have `rank` (half-integers are mean ranks of ties)
or `optimistic` and `pessimistic` instead, and may lack `candidates`. The protocol is JSON: in Parquet
files under the metadata key `evenrank`, in CSV files in a first line that starts with `# evenrank`.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints, memory, read_only
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.files import as_path, replacing
from evenrank._internal.names import near
from evenrank._internal.table import Table
from evenrank.errors import InputError
from evenrank.metrics.chance import Chance, Dependence
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.dependence import TIMED, Coded, Crossings, of_codes
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.files import (
    METADATA,
    SHARED,
    KeyColumns,
    as_polars,
    not_ranks,
    numbers,
    of_rankings,
    read_shared_triples,
    read_table,
    with_our_names,
)
from evenrank.ranks.presets import chance_of
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.rows import PREVIEW, SCORED, TRIPLE, Rows, average_name, key_columns
from evenrank.ranks.scores import of_targets

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr

REMEMBERED = 4  # sets of targets that are compared with others, to describe equal ones once


@dataclass(frozen=True)
class Work:
    """The cost of ranking.

    Parameters
    ----------
    scores : int
        The number of scores.
    seconds : float
        Wall-clock time.
    undecided : int
        Pairs of scores that were compared again in float64.
    kernels : str
        The kernels that compared scores.
    """

    scores: int
    seconds: float
    undecided: int
    kernels: str


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Ranks(Rows):
    """Ranks of targets: an immutable table from which metrics are computed.

    Parameters
    ----------
    better : array_like of int
        For each target, the number of candidates with a better score.
    equal : array_like of int
        The number of other candidates with the same score. The rank is one of
        ``better + 1, ..., better + equal + 1``, by the tie-breaking rule.
    candidates : array_like of int, optional
        The number of candidates, the target included. Chance-adjusted metrics require it.
    weights : array_like of float, optional
        Weights of the targets; by default all weigh the same.
    keys : mapping of str to array_like, optional
        Columns that describe the targets (head, relation, tail, side, ...), to group by and to join on.
    protocol : Protocol or mapping, optional
        How the ranks were computed.

    Attributes
    ----------
    work : Work or None
        The cost of ranking, if `evenrank.rank` computed the ranks.
    crossings : Crossings or None
        The known triples that several queries share, if `evenrank.rank` computed the ranks.

    Raises
    ------
    InputError
        If a column is invalid.

    See Also
    --------
    Ranks.of : Ranks from plain ranks, as most tools report them.
    Ranks.load : Ranks from a file.

    Notes
    -----
    A single number in place of a column is repeated. Columns are read-only views of the arguments.

    Examples
    --------
    >>> ranks = Ranks.of([1, 2.5, 10], candidates=100, keys={"relation": ["a", "a", "b"]})
    >>> ranks.equal.tolist(), ranks.evaluate("mr", "hits@3").to_dict()
    ([0, 1, 0], {'mr': 4.5, 'hits@3': 0.6666666666666666})
    >>> ranks.by("relation").evaluate("mr")["mr"].tolist()
    [1.75, 10.0]
    """

    _along = row_name = "target"

    better: Ints
    equal: Ints
    candidates: Ints  # 0 if their number is unknown
    weights: Floats | None
    keys: Mapping[str, NDArray[Any]]
    protocol: Protocol
    work: Work | None
    crossings: Crossings | None
    if TYPE_CHECKING:
        _counts: tuple[Ints, Ints, Ints]  # an attribute, not a field

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
        self._set(*counts, key_columns(keys, rows), Protocol.of(protocol))

    def _set(
        self,
        better: Ints,
        equal: Ints,
        candidates: Ints,
        weights: Floats | None,
        keys: Mapping[str, NDArray[Any]],
        protocol: Protocol,
        work: Work | None = None,
        crossings: Crossings | None = None,
    ) -> None:
        """Set columns that were checked, as read-only views.

        The counts themselves are kept as well, because `numpy.bincount` copies what is read-only.
        """
        object.__setattr__(self, "_counts", (better, equal, candidates))
        for name, column in zip(columns.COUNTS, self._counts, strict=True):
            object.__setattr__(self, name, read_only(column))
        object.__setattr__(self, "weights", None if weights is None else read_only(weights))
        if not isinstance(keys, MappingProxyType):  # that of other ranks is kept as it is
            keys = MappingProxyType({str(name): read_only(column) for name, column in keys.items()})
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "protocol", protocol)
        object.__setattr__(self, "work", work)
        object.__setattr__(self, "crossings", crossings)

    @classmethod
    def counted(
        cls,
        better: Ints,
        equal: Ints,
        candidates: Ints,
        keys: Mapping[str, NDArray[Any]],
        protocol: Protocol,
        work: Work,
        crossings: Crossings | None = None,
    ) -> Self:
        """Create ranks without checks, which would take a tenth of the time of ranking on a GPU.

        Parameters
        ----------
        better, equal, candidates, keys, protocol, work, crossings
            Valid columns of the same length, and the attributes of `Ranks`.

        Returns
        -------
        Ranks
            The ranks.
        """
        return cls._made(better, equal, candidates, None, keys, protocol, work, crossings)

    @classmethod
    def _made(cls, *columns: Any) -> Self:
        ranks = object.__new__(cls)
        ranks._set(*columns)
        return ranks

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as read-only columns; read-only mappings cannot be pickled."""
        counts = self.better, self.equal, self.candidates, self.weights
        held = dict(self.keys), self.protocol, self.work, self.crossings
        return Ranks._made, (*counts, *held)

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
        """Create ranks from plain ranks, as most tools report them.

        Parameters
        ----------
        rank : array_like
            Ranks from 1; a half-integer is the mean rank of a tie of two.
        candidates : array_like of int, optional
            The number of candidates of each target, the target included. Chance-adjusted metrics
            require it.
        weights, keys, protocol
            As for `Ranks`.

        Returns
        -------
        Ranks
            The ranks.

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
        """Create ranks from the best and the worst possible rank of each target.

        Parameters
        ----------
        optimistic, pessimistic : array_like of int
            The rank if the target precedes, or follows, all other candidates with the same score.
        candidates, weights, keys, protocol
            As for `Ranks`.

        Returns
        -------
        Ranks
            The ranks.

        Raises
        ------
        InputError
            If a pessimistic rank is below the optimistic one.
        """
        low = columns.integers("optimistic ranks", optimistic, 1)
        high = columns.repeat(
            "pessimistic ranks", columns.integers("pessimistic ranks", pessimistic, 1), len(low)
        )
        columns.reject(high < low, high, "a pessimistic rank is below its optimistic one")
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
        """Rank a target in each row of a matrix of scores.

        Parameters
        ----------
        scores : array_like
            A row per query and a column per candidate; higher is better.
        target : array_like of int
            The column of each row's target.
        known : array_like of bool, optional
            True for known true answers, which are filtered; the target itself is always kept.
        weights, keys, protocol
            As for `Ranks`.

        Returns
        -------
        Ranks
            The rank of the target of each row.

        Raises
        ------
        InputError
            If scores contain NaN, or a target is not a column.

        Examples
        --------
        >>> r = Ranks.from_scores([[0.1, 0.9, 0.9]], [1], known=[[True, False, False]])
        >>> r.better.tolist(), r.equal.tolist(), r.candidates.tolist()
        ([0], [1], [2])
        """
        counts = of_targets(scores, target, known)
        return cls(*counts, weights=weights, keys=keys, protocol=protocol)

    # Files and frames --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        candidates: ArrayLike | None = None,
        protocol: Protocol | Mapping[str, Any] | None = None,
        where: str = "table",
    ) -> Ranks:
        """Create ranks from a polars, pandas or Arrow table with the columns of the file schema.

        Parameters
        ----------
        frame : polars.DataFrame, pandas.DataFrame, pyarrow.Table or mapping
            The table; columns are named as in files of ranks.
        candidates : array_like of int, optional
            Numbers of candidates, for tables without them.
        protocol : Protocol or mapping, optional
            How the ranks were computed.
        where : str
            What error messages call the table.

        Returns
        -------
        Ranks
            The ranks.

        Raises
        ------
        InputError
            If the columns are not those of ranks.

        Examples
        --------
        >>> Ranks.from_frame({"rank": [1, 2.5], "relation": ["a", "b"]})
        Ranks(2 targets; keys: relation; candidates unknown)
        """
        frame = as_polars(frame, "ranks", "to_numpy")
        frame = with_our_names(frame, *["candidates"] * (candidates is not None))
        return cls.from_named(frame, where, candidates, protocol)

    @staticmethod
    def load(path: str | os.PathLike[str], *, candidates: ArrayLike | None = None) -> Ranks:
        """Read ranks from a Parquet or CSV file.

        Parameters
        ----------
        path : str or PathLike
            A file with the columns `better` and `equal`, or `rank`, or `optimistic` and `pessimistic`;
            optionally `candidates` and `weight`. All other columns are keys.
        candidates : array_like of int, optional
            Numbers of candidates, for files without them.

        Returns
        -------
        Ranks
            The ranks, with the protocol of the file.

        Raises
        ------
        InputError
            If the file cannot be read or is no file of ranks.
        """
        return load(as_path(path), candidates)

    @classmethod
    def from_named(
        cls,
        frame: pl.DataFrame,
        where: str,
        candidates: ArrayLike | None,
        protocol: Protocol | Mapping[str, Any] | None,
        keys: KeyColumns | None = None,
    ) -> Ranks:
        """Create ranks from a table whose columns have the names of the file schema, without aliases.

        Parameters
        ----------
        frame, where, candidates, protocol
            As for `from_frame`.
        keys : KeyColumns, optional
            The keys of tables that were read before.

        Returns
        -------
        Ranks
            The ranks.
        """
        have = set(frame.columns)
        if candidates is None and "candidates" in have:
            candidates = numbers(frame, "candidates")
        builders: dict[tuple[str, ...], Callable[..., Ranks]] = {
            ("better", "equal"): cls,
            ("optimistic", "pessimistic"): cls.between,
            ("rank",): cls.of,
        }
        keys = KeyColumns() if keys is None else keys
        names = next((names for names in builders if have.issuperset(names)), None)
        if names is None:
            raise _columns_missing(where, frame.columns)
        taken = {*names, "candidates", "weight"}
        return builders[names](
            *(numbers(frame, name) for name in names),
            candidates,
            weights=numbers(frame, "weight") if "weight" in have else None,
            protocol=protocol,
        )._with(keys={n: keys.array(frame[n]) for n in frame.columns if n not in taken})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranks and their protocol to a file, atomically.

        Parameters
        ----------
        path : str or PathLike
            The file; names that end in .csv and .tsv are written as text, all others as Parquet.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        path = as_path(path)
        kind = path.suffix
        protocol = json.dumps(self.protocol.to_dict(), ensure_ascii=False)
        with replacing(path) as file:
            if kind in (".csv", ".tsv"):
                body = self.to_polars().write_csv(separator="\t" if kind == ".tsv" else ",")
                file.write_text(f"# {METADATA} {protocol}\n{body}", encoding="utf-8")
            else:
                shared = self.shared_triples()
                metadata = {METADATA: protocol} | ({} if shared is None else {SHARED: shared})
                self.to_polars().write_parquet(file, metadata=metadata)

    def _columns(self) -> dict[str, NDArray[Any]]:
        known = columns.COUNTS if self.has_candidates else columns.COUNTS[:-1]
        counts = {name: getattr(self, name) for name in known}
        weight = {} if self.weights is None else {"weight": self.weights}
        return {**self.keys, **counts, **weight}

    def to_xarray(self) -> xr.Dataset:
        """Convert to an xarray data set (requires xarray).

        Returns
        -------
        xarray.Dataset
            A variable per column along the dimension `target`; keys are coordinates.
        """
        return super().to_xarray().set_coords([*self.keys]).assign_attrs(self.protocol.to_dict())

    # Rows, copies and results ----------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of targets."""
        return len(self.better)

    def __repr__(self) -> str:
        """Summarise the ranks in one line."""
        about = [f"{len(self):,} target{'s' * (len(self) != 1)}"]
        about += [f"keys: {', '.join(self.keys)}"] * bool(self.keys)
        about += ["weighted"] * (self.weights is not None)
        about += ["candidates unknown"] * (not self.has_candidates)
        about += [str(self.protocol)] * (self.protocol != Protocol())
        return f"Ranks({'; '.join(about)})"

    def _repr_html_(self) -> str:
        """Show the first rows and their ranks (the mean rank of ties) as an HTML table, in notebooks."""
        shown = {name: column[:PREVIEW].tolist() for name, column in self._columns().items()}
        counts = zip(shown["better"], shown["equal"], strict=True)
        shown["rank"] = [f"{better + 1 + equal / 2:.1f}".removesuffix(".0") for better, equal in counts]
        rows = [[str(value) for value in row] for row in zip(*shown.values(), strict=True)]
        more = [f"{len(self) - PREVIEW:,} more targets"] * (len(self) > PREVIEW)
        return Table([*shown], rows, [*more, self.protocol.note()], labels=len(self.keys)).html()

    def _part(self, rows: NDArray[Any]) -> Ranks:
        part = self._select(rows)
        vars(part)["_whole"] = self, rows
        return part

    @classmethod
    def _evaluate_parts(cls, parts: Sequence[tuple[Any, Any]], metrics: Any, **options: Any) -> Any:
        return evaluate_ranks(parts, metrics, **options)

    def _select(self, rows: slice | NDArray[Any]) -> Ranks:
        return Ranks._made(
            *(column[rows] for column in self._counts),
            None if self.weights is None else self.weights[rows],
            {name: column[rows] for name, column in self.keys.items()},
            self.protocol,
            None,
            self.crossings,
        )

    def with_keys(self, keys: Mapping[str, ArrayLike] | None = None, /, **more: ArrayLike) -> Ranks:
        """Return the same ranks with key columns added or replaced.

        Parameters
        ----------
        keys : mapping of str to array_like, optional
            Columns with a value per target; a single value is repeated.
        **more : array_like
            Further columns.

        Returns
        -------
        Ranks
            New ranks, which share the other columns.

        Examples
        --------
        >>> Ranks.of([1, 2], candidates=9).with_keys(side=["head", "tail"])
        Ranks(2 targets; keys: side)
        """
        new = key_columns({**columns.mapping("keys", keys), **more}, len(self))
        return self._with(keys={**self.keys, **new}, crossings=self._crossings_of(new))

    def with_only_keys(self, keys: Mapping[str, ArrayLike]) -> Ranks:
        """Return the same ranks with these key columns and no others.

        Parameters
        ----------
        keys : mapping of str to array_like
            Columns with a value per target; a single value is repeated.

        Returns
        -------
        Ranks
            New ranks, which share the other columns.
        """
        given = columns.mapping("keys", keys)
        new = {k: v for k, v in given.items() if k not in self.keys or v is not self.keys[k]}
        made = key_columns(new, len(self))
        return self._with(keys={**given, **made}, crossings=self._crossings_of(made))

    def _crossings_of(self, changed: Mapping[str, NDArray[Any]]) -> Crossings | None:
        """Return the shared triples, unless entities or relations have other names now."""
        renamed = (
            name
            for name, column in changed.items()
            if name in TRIPLE and not np.array_equal(column, self.keys.get(name, ()))
        )
        return None if any(True for _ in renamed) else self.crossings

    def with_targets_of(self, other: Ranks) -> Ranks:
        """Return the same ranks with the keys of ranks of the same targets, in the same order.

        What is computed from the targets alone is then computed once for all these ranks.

        Parameters
        ----------
        other : Ranks
            Ranks of the same targets.

        Returns
        -------
        Ranks
            New ranks, which share the keys of the others, and all equal columns but the counts of
            better and equal candidates.
        """
        if len(self) != len(other):
            got = f"{len(self):,} and {len(other):,}"
            raise InputError("ranks of the same targets have equally many rows", got=got)
        mine, theirs = self.weights, other.weights
        alike = (theirs is None) if mine is None else theirs is not None and np.array_equal(mine, theirs)
        crossings = self._crossings_of(other.keys)
        made = self._with(keys=other.keys, weights=theirs if alike else mine, crossings=crossings)
        vars(made)["_numbered"] = other._numbered
        equal = alike and np.array_equal(self.candidates, other.candidates)
        if equal and Crossings.equal(crossings, other.crossings):
            vars(made)["_described"] = other._described
        return made

    def _with(self, **changed: Any) -> Ranks:
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        held |= zip(columns.COUNTS, self._counts, strict=True)
        made = Ranks._made(*(held | changed).values())
        mine, theirs = ([memory(r.keys[k]) for k in SCORED if k in r.keys] for r in (self, made))
        vars(made)["_numbered"] = self._numbered
        if mine == theirs and made.crossings is self.crossings and "weights" not in changed:
            vars(made)["_described"] = self._described
            vars(made)["_whole"] = vars(self).get("_whole")
        return made

    def shared_triples(self) -> str | None:
        """Write the known triples that several queries share as text, for files.

        Returns
        -------
        str or None
            The text, whose meaning depends on the rows and their keys; None if they are not known, or
            more than 50,000.
        """
        return None if self.crossings is None else self.crossings.to_text(self.keys)

    def with_shared_triples(self, text: str, where: str) -> Ranks:
        """Return the same ranks with the known triples that several queries share.

        Parameters
        ----------
        text : str
            What `shared_triples` wrote for these rows.
        where : str
            What error messages call the source of the text.

        Returns
        -------
        Ranks
            New ranks, which share all columns.
        """
        try:
            return self._with(crossings=Crossings.of_text(text, self.keys))
        except (ValueError, KeyError, TypeError, zlib.error):
            raise InputError(
                f"the metadata {SHARED!r} of {where} are damaged", do="rank again, or remove them"
            ) from None

    def __add__(self, other: Ranks) -> Ranks:
        """Concatenate the rows of both, which must have the same columns; keep the common protocol."""
        check_type(other, Ranks, "only ranks can be added to ranks")
        mine, others = self._columns(), other._columns()
        if mine.keys() != others.keys():
            raise InputError(
                "ranks with different columns cannot be concatenated",
                got=f"{', '.join(mine)} and {', '.join(others)}",
            )
        if self.ties != other.ties:
            raise InputError(
                "ranks with different tie-breaking rules cannot be concatenated",
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
    def tie_rate(self) -> float:
        """The share of targets that tie with another candidate."""
        return self.tally().tie_rate

    def tally(self, average: str | Sequence[str] = "micro") -> Tally:
        """Convert to a tally, with the weights of an average.

        Parameters
        ----------
        average : str or sequence of str
            "micro" averages over targets; "query", "relation" or other keys are macro averages, in which
            every group has the same weight, whatever its number of targets.

        Returns
        -------
        Tally
            The counts.
        """
        return Tally.of_checked(*self._counts, self.weights_by(average))

    def _query(self) -> tuple[Ints, list[NDArray[Any]]]:
        """Number the queries by side, relation and given entity."""
        missing = [name for name in ("head", "relation", "tail", "side") if name not in self.keys]
        if missing:
            raise InputError(
                "a macro average over queries requires keys that identify queries",
                got=f"no key {', '.join(missing)}",
                do="add the key query, or head, relation, tail and side",
            )
        side = self.keys["side"]
        other = set(side.tolist()) - {"head", "tail"}
        if other:
            raise InputError(
                "unknown side", got=repr(other.pop()), allowed="head, tail (the predicted side)"
            )
        either = np.where(side == "tail", self.keys["head"], self.keys["tail"])
        given = columns.key("given", either, len(self))  # text if either of them is
        return columns.encode([side, self.keys["relation"], given])

    def dependence(
        self, average: str | Sequence[str] = "micro", *, weights: ArrayLike | None = None
    ) -> Dependence | None:
        """Describe which ranks depend on each other under a random scorer, as far as keys tell.

        Parameters
        ----------
        average : str or sequence of str
            As for `tally`.
        weights : array_like of float, optional
            Weights of the targets, instead of those of the average.

        Returns
        -------
        Dependence or None
            What the variances of `evenrank.chance` are computed from; None without the keys head,
            relation, tail and side.
        """
        if not self.has_candidates:
            return None
        known = self.protocol
        about = known.filter, known.candidates, known.split
        alike = weights is None and average == "micro"
        if alike and about in self._described:  # also if it was given, and keys do not tell
            found: Dependence = self._described[about]
            return found
        if self._coded is None:
            return None
        if alike:
            made = self._described[about] = of_codes(self._coded, self.candidates, self.weights, known)
            return made
        given = self.weights_by(average) if weights is None else columns.weights(weights, len(self))
        return of_codes(self._coded, self.candidates, given, self.protocol)

    def with_dependence(self, dependence: Dependence) -> Ranks:
        """Return the same ranks with what is known otherwise of which of them depend on each other.

        Parameters
        ----------
        dependence : Dependence
            The dependence of these targets, which all weigh the same, as from `Task.dependence`. Files
            of ranks do not hold it.

        Returns
        -------
        Ranks
            New ranks, which share all columns.
        """
        made, known = self._with(), self.protocol
        vars(made)["_described"] = {
            "coded": self._coded,
            (known.filter, known.candidates, known.split): dependence,
        }
        return made

    def with_crossings(self, crossings: Crossings) -> Ranks:
        """Return the same ranks with the known triples that their queries share.

        Parameters
        ----------
        crossings : Crossings
            The triples.

        Returns
        -------
        Ranks
            New ranks, which share all columns.
        """
        return self._with(crossings=crossings)

    @cached_property
    def _described(self) -> dict[Any, Any]:
        """The dependence by protocol, and the coded triples; ranks of the same targets share it."""
        return {}

    @property
    def _coded(self) -> Coded | None:
        """The triples of the targets as whole numbers; None if the keys do not identify them."""
        if "coded" not in self._described:
            self._described["coded"] = self._code()
        found: Coded | None = self._described["coded"]
        return found

    def _code(self) -> Coded | None:
        whole = vars(self).get("_whole")
        if whole is not None:  # rows of other ranks, whose triples were numbered at once
            ranks, rows = whole
            return None if ranks._coded is None else ranks._coded.select(rows)
        known = None if self.crossings is None else self.crossings.known
        return Coded.of(self.keys, known, timed=TIMED in self.protocol.extra)

    @property
    def chance(self) -> Chance:
        """How z-scores treat random ranks: as the protocol says, else as its preset, else "scorer"."""
        return chance_of(self.protocol)

    def evaluate(
        self,
        *metrics: Metrics,
        ties: Ties | None = None,
        average: str | Sequence[str] = "micro",
        chance: Chance | None = None,
    ) -> Evaluation[float]:
        """Evaluate metrics.

        Parameters
        ----------
        *metrics : str or Metric, or list of them
            The metrics; by default a selection with chance levels, adjusted indices and z-scores.
        ties : str, optional
            The tie-breaking rule; by default that of the preset of the protocol, else "expected".
        average : str or sequence of str
            "micro" averages over targets; "query", "relation" or other keys are macro averages.
        chance : {"scorer", "independent"}, optional
            Whether z-scores take random ranks as those of a random scorer, which depend on each other,
            or as independent; by default as the protocol says, else "scorer", if the keys head,
            relation, tail and side are known.

        Returns
        -------
        Evaluation
            A mapping from metrics to values, which prints as a table.

        Raises
        ------
        UnknownMetricError
            If a metric is unknown.
        NullDistributionError
            If a chance-adjusted metric is requested, but the numbers of candidates are unknown.

        Examples
        --------
        >>> print(Ranks.of([1, 2, 40], candidates=50).evaluate("mrr", "index(mrr)", "z(mrr)"))
        metric   value   index       z
        ------  ------  ------  ------
        mrr ↑   0.5083  0.4597  +4.638
        z: ranks are taken as independent, as there are no keys head, relation, tail and side
        3 targets, 0.0% tied
        chance: independent [788eeea3]
        """
        protocol = self.protocol.updated({"average": average_name(average)})
        ties = self.ties if ties is None else ties
        return evaluate_ranks([(self, average)], metrics, ties=ties, protocol=protocol, chance=chance)


def load(path: Path, candidates: ArrayLike | None = None, keys: KeyColumns | None = None) -> Ranks:
    """Read ranks as `Ranks.load` does; key columns that are equal to those read before are shared."""
    frame, protocol = read_table(path)
    if of_rankings(frame.schema, protocol):
        raise not_ranks(path)
    with columns.errors_name_file(str(path)):
        frame = with_our_names(frame, *["candidates"] * (candidates is not None))
        ranks = Ranks.from_named(frame, str(path), candidates, protocol, keys)
    shared = read_shared_triples(path)
    return ranks if shared is None else ranks.with_shared_triples(shared, str(path))


def load_several(paths: Iterable[Path], candidates: ArrayLike | None = None) -> list[Ranks]:
    """Read several files of ranks; equal key columns are converted once.

    Parameters
    ----------
    paths : iterable of Path
        The files.
    candidates : array_like of int, optional
        Numbers of candidates, for files without them.

    Returns
    -------
    list of Ranks
        The ranks of each file.
    """
    keys = KeyColumns()
    return [load(path, candidates, keys) for path in paths]


def evaluate_ranks(
    parts: Sequence[tuple[Ranks, str | Sequence[str]]],
    metrics: Iterable[Metrics] = (),
    *,
    chance: Chance | None = None,
    **options: Any,
) -> Evaluation[Any]:
    """Evaluate metrics on ranks with an average each, one row for each.

    Parameters
    ----------
    parts : sequence of tuple
        Ranks and their average.
    metrics : iterable of str or Metric
        The metrics.
    chance : {"scorer", "independent"}, optional
        As for `Ranks.evaluate`.
    **options : object
        Ties, labels and protocol, as for `evenrank.ranks.evaluation.evaluate`.

    Returns
    -------
    Evaluation
        The values.
    """
    return evaluate(
        [ranks.tally(average) for ranks, average in parts],
        metrics,
        dependences=dependences_of(parts),
        chance=chance_rule((ranks for ranks, _ in parts), chance),
        **options,
    )


def dependences_of(
    parts: Sequence[tuple[Ranks, str | Sequence[str]]],
) -> list[Callable[[], Dependence | None]]:
    """Describe which ranks depend on each other, once for models that ranked the same targets.

    Parameters
    ----------
    parts : sequence of tuple
        Ranks and their average.

    Returns
    -------
    list of callable
        Returns the description of each part, when it is needed.
    """
    seen: list[tuple[Ranks, str | Sequence[str], Callable[[], Dependence | None]]] = []
    found = []
    for ranks, average in parts:
        recent = seen[-REMEMBERED:]
        known = (d for r, a, d in recent if a == average and _same_targets(r, ranks, average))
        described = next(known, None)
        if described is None:
            described = cache(partial(ranks.dependence, average))
            seen.append((ranks, average, described))
        found.append(described)
    return found


def _same_targets(a: Ranks, b: Ranks, average: str | Sequence[str]) -> bool:
    """Whether ranks are of the same targets, in the same order and under the same protocol."""
    if len(a) != len(b) or a.protocol.updated({"model": None}) != b.protocol.updated({"model": None}):
        return False
    if a._described is b._described and a.has_targets_of(b):
        return True
    if a.weights is not None or b.weights is not None:
        return False
    if (a.crossings is None) != (b.crossings is None) or not np.array_equal(a.candidates, b.candidates):
        return False
    weighed = {*SCORED, "query", *columns.column_names("the average", average)}
    return all(
        name in a.keys and name in b.keys and np.array_equal(a.keys[name], b.keys[name])
        for name in {*SCORED, *(weighed & (a.keys.keys() | b.keys.keys()))}
    )


def chance_rule(several: Iterable[Ranks], chance: Chance | None = None) -> Chance:
    """Return how z-scores treat random ranks: as given, else as the protocols of all ranks agree on."""
    if chance is not None:
        check_choice("chance", chance, get_args(Chance))
        return chance
    return "independent" if any(ranks.chance == "independent" for ranks in several) else "scorer"


def _columns_missing(where: str, have: Sequence[str]) -> InputError:
    return InputError(
        f"{where} has no columns of ranks",
        got=f"columns {', '.join(have) or '(none)'}",
        allowed="better and equal, rank, or optimistic and pessimistic",
        do=near(have) or "rename the columns",
    )
