"""Evaluations: values of metrics with their protocol, and their tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

import numpy as np

from evenrank._internal.arrays import Floats, read_only
from evenrank._internal.optional import need
from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import DegenerateError, EvenrankError, InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted, AdjustmentName, Expression
from evenrank.metrics.answers.metric import QueryMetric, for_answers
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.answers.tally import QueryTally
from evenrank.metrics.chance import Chance, Dependence, Null, NullDistribution
from evenrank.metrics.grammar import Metrics, listed, parse, parse_metric
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import Ties, check_ties
from evenrank.ranks.paper import Style, paper
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.selection import best_first, counted, frequent

if TYPE_CHECKING:
    import xarray as xr

    from evenrank.ranks.pivot import Pivot

V = TypeVar("V", covariant=True)  # float for one group, an array for several

DEFAULT = ["mrr", "igmr", "imr", "hits@1", "hits@3", "hits@10", "hmr", "gmr", "mr", "median"]
DEFAULT_WIDE = [
    "count",
    "mrr",
    "hits@1",
    "hits@10",
    "mr",
    "index(mrr)",
    "index(hits@10)",
    "index(mr)",
    "z(mrr)",
]
ANSWERS = [
    *("map", "mrr", "ndcg@10", "recall@10", "precision@10", "success@10"),
    *("chance(map)", "chance(mrr)", "chance(ndcg@10)", "chance(recall@10)", "chance(precision@10)"),
    *("chance(success@10)", "index(map)", "index(mrr)", "index(ndcg@10)", "index(recall@10)"),
    *("index(precision@10)", "index(success@10)", "z(map)", "z(mrr)", "z(ndcg@10)", "z(recall@10)"),
    *("z(precision@10)", "z(success@10)"),
]
ANSWERS_WIDE = ["count", "map", "mrr", "ndcg@10", "recall@10", "index(map)", "index(ndcg@10)", "z(map)"]
COUNT = Statistic("count")
# of these, what a narrow terminal may do without, the most dispensable first
OPTIONAL = ("index(mr)", "mr", "hits@1", "index(hits@10)", "z(mrr)", "count", "hits@10", "index(mrr)")
SAMPLED = (
    "sampled candidates: values and chance levels are among these; "
    "`evenrank estimate` estimates those among all"
)
NO_CANDIDATES = "no chance levels: the number of candidates is unknown"
INDEPENDENT = "z: ranks are taken as independent, as {}"
NO_TRIPLES = "there are no keys head, relation, tail and side"
Dependences: TypeAlias = Callable[[], Dependence | None]
FORMS: tuple[AdjustmentName, ...] = ("chance", "ratio", "index", "z", "phi")


class NotEvaluatedError(InputError, KeyError):
    """A metric is not part of an evaluation."""

    __str__ = Exception.__str__  # KeyError would print its repr


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown, Mapping[str, V]):
    """Values of metrics: a mapping from metrics to values, which prints as a table.

    For a single group of ranks, ``result["index(mrr)"]`` is a float; for several groups it is an array
    with a value per group. Keys may be any spelling of a metric; iteration yields canonical names.

    Attributes
    ----------
    expressions : tuple of Metric
        The metrics.
    values_by_group : ndarray
        A row per group and a column per metric.
    labels, label_names : tuple
        Labels of the groups, and the names of the columns they come from.
    counts, tie_rates : tuple
        The number of targets of each group, and the share of them that tie.
    optimistic, pessimistic : ndarray or None
        Values under these tie-breaking rules, if there are ties.
    protocol : Protocol
        How the ranks were computed and averaged.
    notes : tuple of str
        Remarks below the table, such as why a value is undefined.
    sorted_by : str
        The metric that gave the groups their order, if any: tables always show it.
    row_name : str
        What is counted: targets or queries.
    undefined : mapping of str to frozenset of tuple
        Reasons for undefined values, and the labels of the groups that have them.

    Examples
    --------
    >>> from evenrank import Ranks
    >>> result = Ranks.of([1, 2, 4], candidates=9).evaluate("mrr", "hits@1")
    >>> dict(result)
    {'mrr': 0.5833333333333334, 'hits@1': 0.3333333333333333}
    >>> result["mean_reciprocal_rank"] == result["mrr"]
    True
    """

    expressions: tuple[Expression, ...]
    values_by_group: Floats
    labels: tuple[tuple[str, ...], ...] = ((),)
    label_names: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    tie_rates: tuple[float, ...] = ()
    optimistic: Floats | None = None
    pessimistic: Floats | None = None
    protocol: Protocol = field(default_factory=Protocol)
    notes: tuple[str, ...] = ()
    sorted_by: str = ""
    row_name: str = "target"
    undefined: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold the arrays as read-only views."""
        for name in ("values_by_group", "optimistic", "pessimistic"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(values))

    def __eq__(self, other: object) -> bool:
        """Compare groups, metrics and values with another evaluation or mapping; NaN equals NaN."""
        if isinstance(other, Evaluation):
            mine, theirs = ((e.label_names, e.labels, tuple(e)) for e in (self, other))
            same = np.array_equal(self.values_by_group, other.values_by_group, equal_nan=True)
            return mine == theirs and same
        if not isinstance(other, Mapping):
            return NotImplemented
        own: Mapping[str, Any] = self
        return own.keys() == other.keys() and all(np.array_equal(v, other[k]) for k, v in own.items())

    __hash__ = None  # type: ignore[assignment]  # a mapping that holds arrays

    def __getitem__(self, metric: str | Expression) -> V:
        """Return the value of a metric, or an array with a value per group."""
        column = self.values_by_group[:, self.position(metric)]
        return float(column[0]) if self._single else column  # type: ignore[return-value]  # V is either

    def position(self, metric: str | Expression) -> int:
        """Return the position of a metric among those that were evaluated.

        Parameters
        ----------
        metric : str or Metric
            The metric, in any spelling; mrr is also that of the first of several answers.

        Returns
        -------
        int
            Its position.

        Raises
        ------
        NotEvaluatedError
            If it was not evaluated.
        """
        expression = parse(metric)
        if expression in self.expressions:
            return self.expressions.index(expression)
        names = [*self]
        if str(expression) in names:
            return names.index(str(expression))
        raise NotEvaluatedError(
            f"{expression} was not evaluated", allowed=", ".join(names), do="pass it to evaluate"
        )

    def __contains__(self, metric: object) -> bool:
        """Whether the evaluation has a metric."""
        try:
            self.position(metric)  # type: ignore[arg-type]  # parse raises for other types
        except EvenrankError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the metrics."""
        return map(str, self.expressions)

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self.expressions)

    @property
    def _single(self) -> bool:
        return len(self.values_by_group) == 1 and not self.label_names

    @property
    def by_default(self) -> bool:
        """Whether the metrics are those of a table by groups for which none were requested."""
        usual = [default_expressions(wide=True, chance=chance) for chance in (True, False)]
        return [*self.expressions] in usual

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the protocol, eight characters."""
        return self.protocol.fingerprint

    def take(self, rows: Iterable[int]) -> Evaluation[V]:
        """Select groups by position.

        Parameters
        ----------
        rows : iterable of int
            Positions of the groups, in the order wanted.

        Returns
        -------
        Evaluation
            These groups.
        """
        at = [int(i) for i in rows]
        bands = (self.optimistic, self.pessimistic)
        optimistic, pessimistic = (band if band is None else band[at] for band in bands)
        labels = tuple(self.labels[i] for i in at)
        all_, some = (
            undefined_notes(self.undefined, of, self.label_names) for of in (self.labels, labels)
        )
        return replace(
            self,
            values_by_group=self.values_by_group[at],
            labels=labels,
            notes=(*some, *(note for note in self.notes if note not in all_)),
            counts=tuple(self.counts[i] for i in at if self.counts),
            tie_rates=tuple(self.tie_rates[i] for i in at if self.tie_rates),
            optimistic=optimistic,
            pessimistic=pessimistic,
        )

    def sort(self, metric: str | Expression, *, reverse: bool = False) -> Evaluation[V]:
        """Order the groups by a metric, best first; undefined values come last.

        Parameters
        ----------
        metric : str or Metric
            The metric; "count" orders by the number of targets, the most first.
        reverse : bool
            Whether the worst come first.

        Returns
        -------
        Evaluation
            The groups in another order.

        Raises
        ------
        NotEvaluatedError
            If the metric was not evaluated.

        Examples
        --------
        >>> from evenrank import Ranks
        >>> ranks = Ranks.of([9, 1, 1, 4], keys={"relation": ["likes", "knows", "knows", "owns"]})
        >>> ranks.by("relation").evaluate("mrr").sort("mrr").filter(min_count=2)
        relation  mrr ↑
        --------  -----
        knows     1.000
        2 of 3 groups left out: fewer than 2 targets
        2 targets, 0.0% tied
        no protocol recorded [788eeea3]
        """
        expression = parse(metric)
        if expression == COUNT and self.counts:
            values = np.array(self.counts, dtype=float)
        else:
            self[expression]  # raises an error that lists the metrics
            values = self.values_by_group[:, self.expressions.index(expression)]
        made = self.take(best_first(values, increasing=expression.increasing, reverse=reverse))
        return replace(made, sorted_by=str(expression))

    def filter(self, *, min_count: int) -> Evaluation[V]:
        """Keep the groups with enough targets; a note says how many were left out.

        Parameters
        ----------
        min_count : int
            The smallest number of targets.

        Returns
        -------
        Evaluation
            The larger groups.

        Raises
        ------
        InputError
            If no group is large enough.
        """
        rows, notes = frequent(self.counts, min_count, self.label_names, self.row_name)
        kept = self.take(rows)
        return replace(kept, notes=(*kept.notes, *notes))

    def pivot(self, label: str) -> Pivot:
        """Put models (or the values of another label) side by side.

        Parameters
        ----------
        label : str
            The label whose values become columns, such as "model".

        Returns
        -------
        Pivot
            A row for each combination of the other labels.

        Raises
        ------
        InputError
            If there is no such label, or no other one.
        """
        from evenrank.ranks.pivot import Pivot

        return Pivot.of(self, label)

    def to_dict(self, prefix: str = "", *, plain: bool = False) -> dict[str, float]:
        """Return all values with short, stable keys, for experiment trackers and logs.

        Parameters
        ----------
        prefix : str
            Text before every key.
        plain : bool
            Whether keys have only letters, digits, ``_``, ``-`` and ``.``, which every tracker accepts.

        Returns
        -------
        dict of str to float
            Values by metric; labels of groups precede the metric.

        Raises
        ------
        InputError
            If two values would have the same key.

        Examples
        --------
        >>> from evenrank import Ranks
        >>> ranks = Ranks.of([1, 3], candidates=9, keys={"side": ["head", "tail"]})
        >>> ranks.evaluate("hits@1", "index(mr)").to_dict("test/", plain=True)
        {'test/hits_at_1': 0.5, 'test/index_mr': 0.75}
        >>> ranks.by("side").evaluate("hits@1").to_dict()
        {'head/hits@1': 1.0, 'tail/hits@1': 0.0}
        """
        names = [plain_metric(e) if plain else str(e) for e in self.expressions]
        labels = [[plain_label(text) if plain else text for text in label] for label in self.labels]
        keys = [f"{prefix}{'/'.join([*label, name])}" for label in labels for name in names]
        flat = dict(zip(keys, self.values_by_group.ravel().tolist(), strict=True))
        if len(flat) < len(keys):
            twice = next(key for key, times in Counter(keys).items() if times > 1)
            raise InputError(
                "two values would have the same key", got=repr(twice), do="use rows(), or rename a label"
            )
        return flat

    def _row(self, row: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return labels, number of targets, tie rate and values of a group."""
        ranked = {"count": self.counts[row], "tie_rate": self.tie_rates[row]} if self.counts else {}
        return labelled(self.label_names, self.labels[row], {**ranked, **values})

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per group: labels, number of targets, tie rate and values.

        Returns
        -------
        list of dict
            The groups, in the order of the labels.
        """
        names = [str(expression) for expression in self.expressions]
        return [
            self._row(i, dict(zip(names, values.tolist(), strict=True)))
            for i, values in enumerate(self.values_by_group)
        ]

    def to_xarray(self) -> xr.Dataset:
        """Convert to an xarray data set (requires xarray).

        Returns
        -------
        xarray.Dataset
            A variable per metric, a dimension per label; NaN for combinations of labels without a group.
        """
        kind = need("xarray").Dataset
        if self.label_names:
            dataset: xr.Dataset = kind.from_dataframe(self.to_pandas().set_index([*self.label_names]))
        else:
            dataset = kind(self.rows()[0])
        return dataset.assign_attrs(self.protocol.to_dict())

    def content(self) -> dict[str, Any]:
        """Return the whole result, protocol and notes included, as nested dictionaries.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        layers = {
            "values": self.values_by_group,
            "optimistic": self.optimistic,
            "pessimistic": self.pessimistic,
        }
        names = [str(expression) for expression in self.expressions]
        rows = [
            self._row(
                i,
                {
                    layer: dict(zip(names, v[i].tolist(), strict=True))
                    for layer, v in layers.items()
                    if v is not None
                },
            )
            for i in range(len(self.values_by_group))
        ]
        return {
            "protocol": self.protocol.to_dict(),
            "fingerprint": self.fingerprint,
            "rows": rows,
            "notes": list(self.notes),
        }

    def table(self) -> Table:
        """Lay out the values as a table.

        Returns
        -------
        Table
            For one group, a row per metric and a column per adjustment; else a row per group.
        """
        return self._tall() if self._single else self._wide()

    def tables(self) -> list[Table]:
        """Return the table in a list.

        Returns
        -------
        list of Table
            The table of `table`.
        """
        return [self.table()]

    def _tall(self) -> Table:
        cells = dict(zip(self.expressions, self.values_by_group[0], strict=True))
        bases = list(dict.fromkeys(bare(e) for e in self.expressions))
        forms = [f for f in FORMS if any(isinstance(e, Adjusted) and e.adjustment == f for e in cells)]
        plain = any(not isinstance(e, Adjusted) for e in cells)
        banded = plain and self.optimistic is not None and self.pessimistic is not None
        header = ["metric", *(["value"] if plain else []), *forms]
        rows = []
        for base in bases:
            row = [f"{base} {arrow(base)}".rstrip()]
            if plain:
                row.append(cell(base, cells[base]) if base in cells else "")
            for form in forms:
                adjusted = next(
                    (
                        e
                        for e in cells
                        if isinstance(e, Adjusted) and (e.adjustment, e.metric) == (form, base)
                    ),
                    None,
                )
                row.append(cell(adjusted, cells[adjusted]) if adjusted else "")
            if banded:
                assert self.optimistic is not None
                assert self.pessimistic is not None
                at = self.expressions.index(base) if base in cells else None
                row += [
                    "" if at is None else figure(float(band[0, at]))
                    for band in (self.optimistic, self.pessimistic)
                ]
            rows.append(row)
        if banded:
            header += ["optimistic", "pessimistic"]
        return Table(header, rows, self.footer())

    def _wide(self) -> Table:
        counted = self.sorted_by == str(COUNT) and COUNT not in self.expressions
        header = [*self.label_names, *[str(COUNT)] * counted, *map(title, self.expressions)]
        rows = [
            [
                *label,
                *(f"{n:,}" for n in self.counts[i : i + 1] if counted),
                *(cell(e, v) for e, v in zip(self.expressions, self.values_by_group[i], strict=True)),
            ]
            for i, label in enumerate(self.labels)
        ]
        optional = dispensable([*self], self.sorted_by, OPTIONAL if self.by_default else ())
        return Table(header, rows, self.footer(), labels=len(self.label_names), optional=optional)

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write the values as a table for a paper, in LaTeX.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label.

        Returns
        -------
        str
            LaTeX text: the best values are bold, the second best of three or more are underlined.
        """
        return paper(self, style)

    def footer(self) -> list[str]:
        """Return the lines below the table: notes, number of targets, tie rate and protocol.

        Returns
        -------
        list of str
            The lines.
        """
        lines = list(self.notes)
        if self.counts:
            total = sum(self.counts)
            tied = sum(n * r for n, r in zip(self.counts, self.tie_rates, strict=True)) / total
            lines.append(f"{counted(total, self.row_name)}, {tied:.1%} tied")
        return [*lines, self.protocol.note()]


def labelled(names: Sequence[str], label: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Join labels and values of a group to a row; names must not occur twice.

    >>> labelled(["side"], ["head"], {"mrr": 0.5})
    {'side': 'head', 'mrr': 0.5}
    """
    labels = list(zip(names, label, strict=True))
    row = {**dict(labels), **values}
    lost = [name for name, text in labels if row[name] != text]
    if lost:
        raise InputError(
            "two columns would have the same name", got=repr(lost[0]), do="rename the key column"
        )
    return row


def dispensable(names: Sequence[str], sorted_by: str, usual: Sequence[str] = ()) -> list[str]:
    """List columns that a narrow terminal may do without: those given or the last first, not the order.

    >>> dispensable(["mrr", "hits@1", "mr"], ""), dispensable(["mrr", "hits@1", "mr"], "mr")
    (['mr', 'hits@1'], ['hits@1', 'mrr'])
    """
    usual = usual or [*reversed(names[1:]), *(names[:1] if sorted_by else ())]
    return [name for name in usual if name != sorted_by]


def within(some: int, rows: int, names: tuple[str, ...]) -> str:
    """Phrase how many of several rows are concerned; empty for one row.

    >>> within(2, 3, ("relation",)), within(1, 2, ("model",)), within(1, 1, ())
    (' (in 2 of 3 groups)', ' (in 1 of 2 models)', '')
    """
    what = "models" if names[-1:] == ("model",) else "groups"
    return f" (in {some} of {rows} {what})" if rows > 1 else ""


def undefined_notes(
    undefined: Mapping[str, Collection[tuple[str, ...]]],
    labels: Sequence[tuple[str, ...]],
    names: tuple[str, ...],
) -> list[str]:
    """Note why values are undefined, and in how many of some groups."""
    found = {what: sum(label in groups for label in labels) for what, groups in undefined.items()}
    return [f"– {what}{within(some, len(labels), names)}" for what, some in found.items() if some]


def bare(expression: Expression) -> Metric | Statistic | QueryMetric:
    """Return the metric without its adjustment."""
    return expression.metric if isinstance(expression, Adjusted) else expression


def arrow(expression: Expression) -> str:
    """Return an arrow: up if larger values are better, down if smaller ones are."""
    increasing = expression.increasing
    return "" if increasing is None else "↑" if increasing else "↓"


def title(expression: Expression) -> str:
    """Return the title of a column, with the adjustment above the metric to save width."""
    name = str(expression)
    if isinstance(expression, Adjusted):
        name = f"{expression.adjustment}\n({expression.metric})"
    return f"{name} {arrow(expression)}".rstrip()


def cell(expression: Expression, value: float) -> str:
    """Format a value of a metric for a table."""
    if expression == Statistic("count"):
        return f"{value:,.0f}"
    signed = isinstance(expression, Adjusted) and expression.adjustment == "z" and value > 0
    return f"+{figure(value)}" if signed else figure(value)


def plain_metric(expression: Expression) -> str:
    """Spell a metric as a name that every experiment tracker accepts.

    >>> [plain_metric(parse(m)) for m in ("hits@10", "z(1/median)", "mean(-0.5)", "quantile(0.9)")]
    ['hits_at_10', 'z_inverse_median', 'mean_-0.5', 'quantile_0.9']
    """
    return plain_label(str(expression).replace("1/", "inverse_").replace("@", "_at_"))


def plain_label(text: str) -> str:
    """Replace characters other than letters, digits, `_`, `-` and `.` by `_`.

    >>> plain_label("/people/person/place of birth")
    'people_person_place_of_birth'
    """
    return re.sub(r"[^\w.-]+", "_", text).strip("_.") or "_"


def usual_metrics(*, wide: bool) -> list[str]:
    """Return the names of the metrics that are evaluated if none are given.

    Parameters
    ----------
    wide : bool
        Whether there is a row for each of several groups or models.

    Returns
    -------
    list of str
        The names.
    """
    return ANSWERS_WIDE if wide else ANSWERS


def default_expressions(*, wide: bool, chance: bool = True) -> list[Expression]:
    """Return the default metrics, with chance-adjusted ones if candidates are known."""
    if wide:
        every = [parse(name) for name in DEFAULT_WIDE]
        return [e for e in every if chance or not isinstance(e, Adjusted)]
    bases = [parse_metric(name) for name in DEFAULT]
    if not chance:
        return [*bases]
    return [*bases, *(Adjusted(form, m) for form in ("chance", "index", "z") for m in bases)]


class _Nulls:
    """The null distributions of metrics for one group of ranks."""

    def __init__(
        self, tally: Tally | QueryTally, dependences: Dependences | None, chance: Chance | None, why: str
    ) -> None:
        self.tally, self._dependences, self.chance, self.why = tally, dependences, chance, why
        self._cache: dict[tuple[Metric | Statistic | QueryMetric, bool], Null] = {}
        self._not_exact: set[str] = set()

    @cached_property
    def dependence(self) -> Dependence | None:
        """Which ranks depend on each other; None if ranks are taken as independent."""
        if self.chance == "independent" or self._dependences is None:
            return None
        return self._dependences()

    def value(self, metric: Metric | Statistic | QueryMetric, rule: Ties) -> float:
        """Compute a metric under a tie-breaking rule."""
        if not isinstance(self.tally, QueryTally):
            return metric(self.tally, rule)
        if metric == COUNT:
            return float(self.tally.count)
        query_metric = for_answers(metric)
        value = self.tally.value(query_metric, rule)  # type: ignore[arg-type]  # checked by the tally
        if value != value:
            raise DegenerateError(f"{metric} is undefined: all candidates are answers")
        return value

    def of(self, expression: Adjusted) -> Null:
        """Return the null distribution that an adjustment needs; only z-scores depend on variances."""
        spread = expression.adjustment in ("z", "phi")
        key = expression.metric, spread
        if key not in self._cache:
            dependence = self.dependence if spread else None
            if isinstance(self.tally, QueryTally):
                null: Null = QueryNull(for_answers(expression.metric), self.tally.shapes)
            elif isinstance(expression.metric, QueryMetric):
                raise expression.metric.not_of_ranks()
            else:
                null = NullDistribution(expression.metric, self.tally.sizes, dependence=dependence)
            self._cache[key] = null
            if dependence is not None and null.var().method == "independent":
                self._not_exact.add(
                    INDEPENDENT.format(f"the variance of {expression.metric} is not known otherwise")
                )
        return self._cache[key]

    @property
    def notes(self) -> set[str]:
        """What the z-scores are only approximations of."""
        if self.chance == "independent" or isinstance(self.tally, QueryTally):
            return set()
        if self.dependence is None:
            return {INDEPENDENT.format(self.why)}
        return {*self._not_exact, *self.dependence.gaps}


def evaluate(
    tallies: Sequence[Tally | QueryTally],
    metrics: Iterable[Metrics] = (),
    *,
    default: Iterable[str] = (),
    ties: Ties = "expected",
    labels: Sequence[tuple[str, ...]] = ((),),
    label_names: tuple[str, ...] = (),
    protocol: Protocol | None = None,
    dependences: Sequence[Dependences] = (),
    chance: Chance | None = None,
    independent: str = NO_TRIPLES,
    zero: bool = False,
) -> Evaluation[Any]:
    """Evaluate metrics on tallies, one row each.

    For z-scores, `dependences` describe which ranks of each tally depend on each other; without them, or
    if `chance` is "independent", ranks are taken as independent; `independent` says why.

    Tallies of queries have the metrics that are evaluated; with `zero`, queries without answers have the
    value 0 instead of being left out.

    Values that are undefined for a group, or in the default table, become NaN with a note. For ranks
    without labels, an undefined metric that was requested by name raises an error.
    """
    check_ties(ties)
    positive = [i for i, tally in enumerate(tallies) if tally.count]
    left_out = [", ".join(labels[i]) for i, tally in enumerate(tallies) if positive and not tally.count]
    if left_out:
        tallies, labels = [tallies[i] for i in positive], [labels[i] for i in positive]
    protocol = protocol or Protocol()
    wanted = [parse(m) for m in listed(metrics)]
    chosen = bool(wanted)
    strict = chosen and not label_names
    unknown = any(not tally.has_candidates for tally in tallies)
    wanted = (
        list(dict.fromkeys(wanted))
        or [e for e in map(parse, default) if not unknown or not isinstance(e, Adjusted)]
        or default_expressions(wide=bool(label_names), chance=not unknown)
    )
    values = np.full((3, len(tallies), len(wanted)), np.nan)
    tied = any(tally.tie_rate > 0 for tally in tallies)
    rules: tuple[Ties, ...] = (ties, "optimistic", "pessimistic") if tied else (ties,)
    failures: dict[str, set[int]] = {}
    nulls_by_row: list[_Nulls] = []
    for row, tally in enumerate(tallies):
        nulls = _Nulls(tally, dependences[row] if dependences else None, chance, independent)
        nulls_by_row.append(nulls)
        raw = cache(nulls.value)
        answered = tally.answered if zero and isinstance(tally, QueryTally) else 1.0
        for column, expression in enumerate(wanted):
            metric = bare(expression)
            for layer, rule in enumerate(rules):
                try:
                    value = raw(metric, rule)
                    if isinstance(expression, Adjusted):
                        value = expression.map(nulls.of(expression))(value)
                    if not isinstance(expression, Adjusted) or expression.adjustment == "chance":
                        value *= answered
                    values[layer, row, column] = value
                except (DegenerateError, NullDistributionError) as error:
                    if strict:
                        raise
                    if not layer:
                        failures.setdefault(error.what, set()).add(row)
    undefined = {what: frozenset(labels[row] for row in rows) for what, rows in failures.items()}
    notes = []
    if unknown and not chosen:
        notes.append(NO_CANDIDATES)
    if protocol.sampled:
        notes.append(SAMPLED)
    if nulls_by_row and any(isinstance(e, Adjusted) and e.adjustment in ("z", "phi") for e in wanted):
        some = {note for nulls in nulls_by_row for note in nulls.notes}
        notes += sorted(some)
        if not isinstance(tallies[0], QueryTally):  # different queries share no scores
            alone = any(nulls.dependence is None for nulls in nulls_by_row)
            protocol = replace(protocol, chance="independent" if alone else "scorer")
    notes += _notes_of_queries(tallies, wanted, zero)
    if left_out:
        without = "without answers" if isinstance(tallies[0], QueryTally) else "of weight zero"
        named = "; ".join([*left_out[:3], *(["..."] if len(left_out) > 3 else [])])
        notes.append(f"{counted(len(left_out), 'group')} {without} left out: {named}")
    return Evaluation(
        tuple(wanted),
        values[0],
        tuple(labels),
        label_names,
        tuple(tally.count for tally in tallies),
        tuple(tally.tie_rate for tally in tallies),
        values[1] if tied else None,
        values[2] if tied else None,
        replace(protocol, ties=ties),
        (*undefined_notes(undefined, labels, label_names), *notes),
        undefined=undefined,
        row_name="query" if tallies and isinstance(tallies[0], QueryTally) else "target",
    )


def _notes_of_queries(
    tallies: Sequence[Tally | QueryTally], wanted: Sequence[Expression], zero: bool
) -> list[str]:
    """Say which queries were left out, or have the value 0."""
    found = [tally for tally in tallies if isinstance(tally, QueryTally)]
    notes = []
    if empty := sum(tally.empty for tally in found):
        how = "have the value 0" if zero else "left out"
        notes.append(f"{counted(empty, 'query')} without answers: {how}")
    for metric in {for_answers(bare(e)) for e in wanted if bare(e) != COUNT} if found else ():
        if undefined := sum(tally.undefined(metric) for tally in found):
            only = "all candidates are answers"
            notes.append(f"{metric}: {counted(undefined, 'query')} left out, as {only}")
    return sorted(notes)
