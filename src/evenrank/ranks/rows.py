"""Rows with weights, keys and a protocol: what `Ranks` and `Rankings` have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Floats, Ints, memory
from evenrank._internal.export import Framed
from evenrank._internal.table import Table
from evenrank.errors import InputError, Option
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.presets import PRESETS
from evenrank.ranks.protocol import Protocol

TRIPLE = ("head", "relation", "tail")
SCORED = (*TRIPLE, "side")  # keys that tell which targets share scores
NUMBERED = 1_000_000  # rows whose numbered keys are kept
PREVIEW = 10  # rows that a notebook shows


class RowIndexError(InputError, IndexError):
    """An index of a row is out of range."""


class Rows(Framed):
    """A table with a row per target or query, and optional weights, keys and a protocol.

    Attributes
    ----------
    candidates : ndarray of int
        The number of candidates of each row; 0 if it is unknown.
    weights : ndarray of float or None
        Weights of the rows; None if all weigh the same.
    keys : mapping of str to ndarray
        Columns that describe the rows.
    protocol : Protocol
        How the rows were computed.
    """

    candidates: Ints  # 0 if their number is unknown
    weights: Floats | None
    keys: Mapping[str, NDArray[Any]]
    protocol: Protocol
    row_name: ClassVar[str]  # what a row is

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def _select(self, rows: slice | NDArray[Any]) -> Self:
        """Select rows."""

    @abstractmethod
    def _with(self, **changed: Any) -> Self:
        """Return the same rows with other weights, keys or protocol."""

    @classmethod
    @abstractmethod
    def _evaluate_parts(cls, parts: Sequence[tuple[Any, Any]], metrics: Any, **options: Any) -> Any:
        """Evaluate metrics on several parts with an average each, one row for each."""

    @abstractmethod
    def _query(self) -> tuple[Ints, list[NDArray[Any]]]:
        """Number the queries."""

    @property
    def has_candidates(self) -> bool:
        """Whether the number of candidates is known."""
        return not len(self) or bool(self.candidates[0])

    def _part(self, rows: NDArray[Any]) -> Self:
        """Select the rows of a group."""
        return self._select(rows)

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """Raise an error, as NumPy would otherwise treat each row as a sequence."""
        raise InputError("ranks are not an array", got=repr(self), do="pass a column, e.g. ranks.better")

    def __getitem__(self, rows: int | slice | NDArray[Any]) -> Self:
        """Select rows by a slice, a mask or indices; a single index selects one row."""
        if not isinstance(rows, slice):
            index = columns.as_array("rows", rows)
            if index.ndim > 1 or (
                index.dtype.kind not in ("iub" if index.ndim else "iu") and index.size
            ):
                raise InputError("rows must be a slice, a mask or indices", got=columns.described(index))
            rows = np.atleast_1d(index) if index.size else index.astype(np.int64)
        try:
            return self._select(rows)
        except (IndexError, TypeError):
            raise RowIndexError(
                "a row is out of range", got=repr(rows)[:60], allowed=f"0 to {len(self) - 1}"
            ) from None

    @property
    def ties(self) -> Ties:
        """The default tie-breaking rule: that of the preset of the protocol, else "expected"."""
        preset = PRESETS.get(self.protocol.preset or "")
        return preset.ties if preset else "expected"

    def weights_by(self, average: str | Sequence[str] = "micro") -> Floats | None:
        """Compute the weights of rows under an average.

        Parameters
        ----------
        average : str or sequence of str
            As for `tally`.

        Returns
        -------
        ndarray of float or None
            A weight per row; None if all weigh the same.
        """
        if isinstance(average, str) and average == "micro":
            return self.weights
        groups = self.units(average)
        if self.weights is None:
            return np.asarray(1.0 / np.bincount(groups)[groups])
        total = np.bincount(groups, weights=self.weights)[groups]
        return np.divide(self.weights, total, out=np.zeros(len(self)), where=total > 0)

    def units(self, by: str | Sequence[str]) -> Ints:
        """Number the groups of rows that agree in some keys.

        Parameters
        ----------
        by : str or sequence of str
            Names of keys, "query", or "triple", which joins both sides of a triple.

        Returns
        -------
        ndarray of int
            The number of the group of each row.

        Raises
        ------
        InputError
            If there is no such key.

        Examples
        --------
        >>> from evenrank.ranks.ranks import Ranks
        >>> keys = {"head": ["a", "a"], "relation": "r", "tail": ["b", "b"], "side": ["head", "tail"]}
        >>> ranks = Ranks.of([1, 2], candidates=9, keys=keys)
        >>> [ranks.units(by).tolist() for by in ("triple", "query", "relation,side")]
        [[0, 0], [0, 1], [0, 1]]
        """
        names = columns.column_names("keys", by)
        if names == ["triple"] and "triple" not in self.keys:
            names = list(TRIPLE)
        if names == ["query"] and "query" not in self.keys:
            found: Ints = self._once(("queries",), SCORED, self._query)[0]
        else:
            found = self._once(("rows", *names), names, partial(self._codes, names))[0]
        return found.copy() if len(self) <= NUMBERED else found

    def _once(self, what: tuple[str, ...], of: Sequence[str], make: Callable[[], Any]) -> Any:
        """Number key columns once, for all ranks that share them; large ones each time, for memory."""
        used = [self.keys[name] for name in of if name in self.keys]
        if len(self) > NUMBERED:
            return make()
        at = what, *map(memory, used)
        if at not in self._numbered:
            self._numbered[at] = used, make()  # the columns are kept, so that no others take their place
        return self._numbered[at][1]

    @cached_property
    def _numbered(self) -> dict[Any, tuple[list[NDArray[Any]], Any]]:
        """The numbers of key columns and of what they identify; ranks with the same columns share it."""
        return {}

    def _codes(self, names: Sequence[str]) -> tuple[Ints, list[NDArray[Any]]]:
        for name in names:
            if name not in self.keys:
                raise InputError(
                    "no such key column",
                    got=repr(name),
                    allowed=", ".join(self.keys) or "(there are none)",
                )
        return columns.combined(
            [self._once((name,), [name], partial(columns.numbered, self.keys[name])) for name in names]
        )

    def has_targets_of(self, other: Rows) -> bool:
        """Whether rows share keys and weights with others, as `with_targets_of` makes them.

        Parameters
        ----------
        other : Ranks or Rankings
            Other rows.

        Returns
        -------
        bool
            Whether row i is the same target or query, of the same weight, in both.
        """
        return self.keys is other.keys and self.weights is other.weights

    def with_protocol(
        self, protocol: Protocol | Mapping[str, Any] | None = None, /, **entries: Any
    ) -> Self:
        """Return the same rows with another protocol, or with some of its entries changed.

        Parameters
        ----------
        protocol : Protocol or mapping, optional
            The new protocol; a mapping changes entries of the present one.
        **entries : object
            Entries to change; None removes one.

        Returns
        -------
        Ranks or Rankings
            New rows, which share all columns.

        Examples
        --------
        >>> from evenrank.ranks.ranks import Ranks
        >>> Ranks.of([1, 2]).with_protocol(data="nations", model="TransE").protocol.model
        'TransE'
        """
        if not isinstance(protocol, Protocol):
            protocol = self.protocol.updated(Protocol.entries(protocol))
        return self._with(protocol=protocol.updated(entries))

    def with_weights(self, weights: ArrayLike | None) -> Self:
        """Return the same rows with other weights.

        Parameters
        ----------
        weights : array_like of float or None
            A weight per row; None weighs all the same.

        Returns
        -------
        Ranks or Rankings
            New rows, which share all other columns.
        """
        return self._with(weights=None if weights is None else columns.weights(weights, len(self)))

    def by(self, *keys: str) -> Groups:
        """Group the rows by one or more keys.

        Parameters
        ----------
        *keys : str
            Names of key columns.

        Returns
        -------
        Groups
            The groups; iterate over them or evaluate them.

        Raises
        ------
        InputError
            If there is no such key, or there are no rows.

        Examples
        --------
        >>> from evenrank.ranks.ranks import Ranks
        >>> ranks = Ranks.of([1, 2, 10], keys={"relation": ["a", "a", "b"]})
        >>> ranks.by("relation").evaluate("mr")["mr"].tolist()
        [1.5, 10.0]
        """
        if not len(self):
            raise InputError(f"no {self.row_name}s to group")
        if not keys:
            raise InputError("by() requires a key", allowed=", ".join(self.keys) or "(there are none)")
        return Groups(self, columns.column_names("keys", keys))


class Groups:
    """Ranks or rankings grouped by keys; iteration yields labels and rows of each group.

    Parameters
    ----------
    ranks : Ranks or Rankings
        The rows.
    keys : sequence of str
        Names of the keys to group by.
    """

    def __init__(self, ranks: Rows, keys: Sequence[str]) -> None:
        self.ranks, self.names = ranks, tuple(keys)
        self._group, self._distinct = ranks._codes(keys)

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._distinct[0])

    def __repr__(self) -> str:
        """Summarise the groups in one line."""
        some = ", ".join("/".join(label) for label in self.labels[:3]) + ", ..." * (len(self) > 3)
        rows = f"{len(self.ranks):,} {self.ranks.row_name}s"
        return f"Groups({len(self):,} by {', '.join(self.names)}: {some}; {rows})"

    def _repr_html_(self) -> str:
        """Show the first groups with their numbers of rows as an HTML table, in notebooks."""
        counts = np.bincount(self._group)
        rows = [[*label, f"{n:,}"] for label, n in zip(self.labels[:PREVIEW], counts, strict=False)]
        more = [f"{len(self) - PREVIEW:,} more groups"] * (len(self) > PREVIEW)
        notes = [*more, self.ranks.protocol.note()]
        return Table(
            [*self.names, f"{self.ranks.row_name}s"], rows, notes, labels=len(self.names)
        ).html()

    @cached_property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The labels of the groups, sorted."""
        return tuple(zip(*(map(str, column) for column in self._distinct), strict=True))

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Iterate over labels and rows of the groups."""
        order = np.argsort(self._group, kind="stable")
        ends = np.cumsum(np.bincount(self._group, minlength=len(self)))
        for label, rows in zip(self.labels, np.split(order, ends[:-1]), strict=True):
            yield label, self.ranks._part(rows)

    def evaluate(
        self,
        *metrics: Metrics,
        ties: Ties | None = None,
        average: str | Sequence[str] = "micro",
        chance: Chance | None = None,
        **more: Any,
    ) -> Evaluation[Floats]:
        """Evaluate metrics on each group, with its own chance levels.

        Parameters
        ----------
        *metrics, ties, average, chance
            As for `Ranks.evaluate` and `Rankings.evaluate`.
        **more : object
            Of rankings, `empty` as for `Rankings.evaluate`.

        Returns
        -------
        Evaluation
            A mapping from metrics to arrays with a value per group.
        """
        made: Evaluation[Floats] = self.ranks._evaluate_parts(
            [(ranks, average) for _, ranks in self],
            metrics,
            ties=self.ranks.ties if ties is None else ties,
            labels=self.labels,
            label_names=self.names,
            protocol=self.ranks.protocol.updated({"average": average_name(average)}),
            chance=chance,
            **more,
        )
        return made


def evaluate_rows(
    parts: Sequence[tuple[Rows, str | Sequence[str]]],
    metrics: Iterable[Metrics] = (),
    **options: Any,
) -> Evaluation[Any]:
    """Evaluate metrics on ranks, or on rankings, with an average each, one row for each.

    Parameters
    ----------
    parts : sequence of tuple
        Ranks or rankings, and their average.
    metrics : iterable of str or Metric
        The metrics.
    **options : object
        As for `evaluate_ranks` and `evaluate_rankings`.

    Returns
    -------
    Evaluation
        The values.
    """
    made: Evaluation[Any] = type(parts[0][0])._evaluate_parts(parts, metrics, **options)
    return made


def key_columns(keys: Mapping[str, ArrayLike] | None, rows: int) -> dict[str, NDArray[Any]]:
    """Check key columns."""
    given = columns.mapping("keys", keys)
    return {name: columns.key(name, column, rows) for name, column in given.items()}


def one_rule(rules: Iterable[Ties], ties: Ties | None = None) -> Ties:
    """Return the given tie-breaking rule, else the one that all agree on."""
    distinct = sorted(set(rules))
    if ties is None and len(distinct) > 1:
        raise InputError(
            "the protocols of these ranks have different tie-breaking rules",
            got=", ".join(distinct),
            do=["choose one for all with ", Option("ties")],
        )
    return distinct[0] if ties is None else ties


def tie_rule(several: Iterable[Rows], ties: Ties | None = None) -> Ties:
    """Return the given tie-breaking rule, else the one that the protocols of all ranks agree on."""
    return one_rule((ranks.ties for ranks in several), ties)


def average_name(average: str | Sequence[str]) -> str:
    """Format an average as in protocols."""
    return ",".join(columns.column_names("the average", average))
