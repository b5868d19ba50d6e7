"""Models side by side: a row per group, and columns per model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from evenrank._internal.arrays import Floats, Ints, read_only
from evenrank._internal.table import Shown, Table, figure
from evenrank._internal.terminal import plain_title
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import (
    COUNT,
    Evaluation,
    NotEvaluatedError,
    cell,
    dispensable,
    labelled,
    title,
)
from evenrank.ranks.paper import Style
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.selection import best_first, frequent, rows_of

DIFFERENCE = "difference"
# of the default metrics, what a narrow terminal may do without, the most dispensable first
OPTIONAL = ("index(mr)", "mr", "hits@1", "index(hits@10)", "z(mrr)", "index(mrr)", "hits@10")


@dataclass(frozen=True, eq=False, repr=False)
class Pivot(Shown):
    """Groups of several models side by side; prints as a table with a row per group.

    Of two models, the difference (the first minus the second) is shown as well. Values are undefined
    where a model has no such group. `Evaluation.pivot` creates it.

    Attributes
    ----------
    expressions : tuple of Metric
        The metrics.
    labels, label_names : tuple
        Labels of the groups, and the names of the columns they come from.
    models : tuple of str
        Names of the models.
    values : ndarray
        Values by group, model and metric.
    counts, tie_rates : ndarray
        The number of targets by group and model, and the share of them that tie.
    counted : bool
        Whether the number of targets is one of the columns.
    optional : tuple of str
        Metrics that a narrow terminal may do without, the most dispensable first.
    protocol : Protocol
        What the protocols of all models share.
    notes : tuple of str
        Remarks.
    sorted_by : tuple of str
        The metric that gave the groups their order, if any, and its model: tables always show them.
    undefined : mapping of str to frozenset of tuple
        Reasons for undefined values, and the models and groups that have them.
    row_name : str
        What is counted: targets or queries.

    Examples
    --------
    >>> import evenrank as er
    >>> first = er.Ranks.of([1, 2, 8], keys={"relation": ["likes", "knows", "knows"]})
    >>> second = er.Ranks.of([4, 2, 1], keys={"relation": ["likes", "knows", "knows"]})
    >>> groups = {"first": first.by("relation"), "second": second.by("relation")}
    >>> er.evaluate(groups, "mrr").pivot("model").sort("mrr")
              first   second  difference
              ------  ------  ----------
    relation   mrr ↑   mrr ↑       mrr ↑
    --------  ------  ------  ----------
    likes      1.000  0.2500     +0.7500
    knows     0.3125  0.7500     -0.4375
    3 targets of each model, 0.0% tied
    no protocol recorded [788eeea3]
    """

    expressions: tuple[Expression, ...]
    labels: tuple[tuple[str, ...], ...]
    label_names: tuple[str, ...]
    models: tuple[str, ...]
    values: Floats
    counts: Ints
    tie_rates: Floats
    counted: bool
    optional: tuple[str, ...]
    protocol: Protocol
    notes: tuple[str, ...] = ()
    sorted_by: tuple[str, str] = ("", "")
    undefined: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)
    row_name: str = "target"

    @classmethod
    def of(cls, made: Evaluation[Any], name: str) -> Pivot:
        """Put the groups of an evaluation side by side.

        Parameters
        ----------
        made : Evaluation
            Values by model and group.
        name : str
            The label whose values become columns, such as "model".

        Returns
        -------
        Pivot
            The values, with a row for each combination of the other labels.

        Raises
        ------
        InputError
            If there is no such label, or no other one.
        """
        names = made.label_names
        if name not in names:
            allowed = ", ".join(names) or "(there are none)"
            raise InputError("no such label", got=repr(name), allowed=allowed)
        if len(names) < 2:
            raise InputError("side by side are the groups of several models", got=f"only {name}")
        if not made.counts:
            raise InputError("several averages cannot be put side by side")
        at = names.index(name)
        rest = [(*label[:at], *label[at + 1 :]) for label in made.labels]
        groups = {group: i for i, group in enumerate(dict.fromkeys(rest))}
        models = {model: i for i, model in enumerate(dict.fromkeys(label[at] for label in made.labels))}
        rows = np.array([groups[group] for group in rest])
        columns = np.array([models[label[at]] for label in made.labels])
        if len(set(made.labels)) < len(made.labels):
            twice = next(one for one, times in Counter(made.labels).items() if times > 1)
            raise InputError(f"two columns would have the same {name}", got=repr(twice[at]))
        kept = [i for i, expression in enumerate(made.expressions) if expression != COUNT]
        values = np.full((len(groups), len(models), len(kept)), np.nan)
        values[rows, columns] = made.values_by_group[:, kept]
        counts = np.zeros(values.shape[:2], dtype=np.int64)
        counts[rows, columns] = made.counts
        tie_rates = np.zeros(values.shape[:2])
        tie_rates[rows, columns] = made.tie_rates
        return cls(
            tuple(made.expressions[i] for i in kept),
            tuple(groups),
            (*names[:at], *names[at + 1 :]),
            tuple(models),
            read_only(values),
            read_only(counts),
            read_only(tie_rates),
            len(kept) < len(made.expressions),
            OPTIONAL if made.by_default else (),
            made.protocol,
            made.notes,
            undefined={
                why: frozenset((label[at], *label[:at], *label[at + 1 :]) for label in labels)
                for why, labels in made.undefined.items()
            },
            row_name=made.row_name,
        )

    def __getitem__(self, metric: str | Expression) -> Floats:
        """Return the values of a metric, with a row per group and a column per model."""
        return self.values[:, :, self._at(metric)]

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.labels)

    def _at(self, metric: str | Expression) -> int:
        expression = parse(metric)
        if expression not in self.expressions:
            allowed = ", ".join(map(str, self.expressions))
            do = "pass it to evaluate"
            raise NotEvaluatedError(f"{expression} was not evaluated", allowed=allowed, do=do)
        return self.expressions.index(expression)

    @property
    def differences(self) -> Floats | None:
        """The first model's values minus the second's, by group and metric; None unless two models."""
        return self.values[:, 0] - self.values[:, 1] if len(self.models) == 2 else None

    def sort(self, metric: str | Expression, of: str | None = None, *, reverse: bool = False) -> Pivot:
        """Order the groups by a metric of a model, best first; undefined values come last.

        Parameters
        ----------
        metric : str or Metric
            The metric; "count" orders by the number of targets, the most first.
        of : str, optional
            The model, by default the first one; "difference" orders by how much better the first of two
            models is.
        reverse : bool
            Whether the worst come first.

        Returns
        -------
        Pivot
            The groups in another order.
        """
        if parse(metric) == COUNT:
            most = self.counts.max(axis=1).astype(float)
            made = self._take(best_first(most, increasing=None, reverse=reverse))
            return replace(made, counted=True, sorted_by=(str(COUNT), ""))
        at, differences = self._at(metric), self.differences
        if of == DIFFERENCE and differences is not None and of not in self.models:
            values = differences[:, at]
        elif of is None or of in self.models:
            values = self.values[:, self.models.index(of) if of else 0, at]
        else:
            others = [DIFFERENCE] * (differences is not None)
            raise InputError("no such model", got=repr(of), allowed=", ".join([*self.models, *others]))
        increasing = self.expressions[at].increasing
        made = self._take(best_first(values, increasing=increasing, reverse=reverse))
        return replace(made, sorted_by=(str(self.expressions[at]), of or ""))

    def filter(self, *, min_count: int) -> Pivot:
        """Keep the groups in which some model has enough targets; a note says how many were left out.

        Parameters
        ----------
        min_count : int
            The smallest number of targets.

        Returns
        -------
        Pivot
            The larger groups.
        """
        rows, notes = frequent(
            self.counts.max(axis=1).tolist(), min_count, self.label_names, self.row_name
        )
        kept, each = self._take(rows), self.melt()
        some = [i for i, (_, *group) in enumerate(each.labels) if tuple(group) in kept.labels]
        return replace(kept, notes=(*each.take(some).notes, *notes))

    def melt(self) -> Evaluation[Any]:
        """Put the models below each other again, with their groups in this order.

        Returns
        -------
        Evaluation
            A row for each model and group.
        """
        where = [
            (group, model)
            for model in range(len(self.models))
            for group in range(len(self.labels))
            if self.counts[group, model]
        ]
        return Evaluation(
            self.expressions,
            np.array([self.values[at] for at in where]).reshape(len(where), -1),
            tuple((self.models[model], *self.labels[group]) for group, model in where),
            ("model", *self.label_names),
            tuple(int(self.counts[at]) for at in where),
            tuple(float(self.tie_rates[at]) for at in where),
            protocol=self.protocol,
            notes=self.notes,
            undefined=self.undefined,
            row_name=self.row_name,
        )

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write the values as a table for a paper, in LaTeX.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label.

        Returns
        -------
        str
            LaTeX text; groups are rows if they are more than the models.
        """
        return self.melt().to_latex(**style)

    def _take(self, rows: Ints | Sequence[int]) -> Pivot:
        at = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            labels=tuple(self.labels[i] for i in at),
            values=read_only(self.values[at]),
            counts=read_only(self.counts[at]),
            tie_rates=read_only(self.tie_rates[at]),
        )

    def _alike(self) -> bool:
        """Whether all models have the same numbers of targets, where they have any."""
        most = self.counts.max(axis=1, keepdims=True)
        return bool(((self.counts == most) | (self.counts == 0)).all())

    def _blocks(self) -> Iterator[tuple[str, Floats]]:
        """Iterate over the models, and the difference of two, with their values."""
        yield from zip(self.models, self.values.swapaxes(0, 1), strict=True)
        if self.differences is not None and DIFFERENCE not in self.models:
            yield DIFFERENCE, self.differences

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per group: labels, numbers of targets, and the values of each model.

        Returns
        -------
        list of dict
            The groups, in order; keys are those of the columns, such as "transe mrr".
        """
        found = []
        for i, label in enumerate(self.labels):
            if self._alike():
                row: dict[str, Any] = {"count": int(self.counts[i].max())}
            else:
                counts = zip(self.models, self.counts[i].tolist(), strict=True)
                row = {f"{model} count": n for model, n in counts}
            for name, values in self._blocks():
                pairs = zip(self.expressions, values[i].tolist(), strict=True)
                row |= {f"{name} {expression}": value for expression, value in pairs}
            found.append(labelled(self.label_names, label, row))
        return found

    def content(self) -> dict[str, Any]:
        """Return the whole result, protocol and notes included, as nested dictionaries.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        rows: list[dict[str, Any]] = [
            dict(zip(self.label_names, label, strict=True)) for label in self.labels
        ]
        names = [str(expression) for expression in self.expressions]
        counts = dict(zip(self.models, self.counts.T.tolist(), strict=True))
        for name, values in self._blocks():
            for i, row in enumerate(rows):
                count: dict[str, Any] = {"count": counts[name][i]} if name in counts else {}
                row[name] = count | dict(zip(names, values[i].tolist(), strict=True))
        return {
            "protocol": self.protocol.to_dict(),
            "fingerprint": self.protocol.fingerprint,
            "rows": rows,
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Lay out the values: a row per group, and a group of columns per model.

        Returns
        -------
        list of Table
            One table.
        """
        titles = [*map(title, self.expressions)]
        alike = self._alike()
        once, each = self.counted and alike, self.counted and not alike
        header, groups = [*self.label_names], [""] * len(self.label_names)
        if once:
            header, groups = [*header, "count"], [*groups, ""]
        columns: list[list[str]] = [[*map("{:,}".format, self.counts.max(axis=1))]] * once
        for name, values in self._blocks():
            counted = each and name in self.models
            header += ["count"] * counted + titles
            groups += [name] * (counted + len(titles))
            if counted:
                columns.append([f"{n:,}" for n in self.counts[:, self.models.index(name)]])
            write = cell if name in self.models else signed
            columns += [
                [write(e, float(v)) for v in column]
                for e, column in zip(self.expressions, values.T, strict=True)
            ]
        cells = zip(*columns, strict=True)
        rows = [[*label, *row] for label, row in zip(self.labels, cells, strict=True)]
        metric, model = self.sorted_by
        metrics = dispensable([plain_title(text) for text in titles], metric, self.optional)
        models = [*reversed(self.models[2:]), DIFFERENCE, *self.models[1:2]]
        total = self.counts.sum(axis=0)
        tied = float((self.counts * self.tie_rates).sum() / max(total.sum(), 1))
        many = " to ".join(dict.fromkeys(f"{n:,}" for n in (total.min(), total.max())))
        ranked = f"{many} {rows_of(self.row_name)} of each model, {tied:.1%} tied"
        notes = [*self.notes, ranked, self.protocol.note()]
        others = [name for name in [*models, "count"] if name not in (metric, model)]
        optional = [*metrics, *others]
        return [Table(header, rows, notes, len(self.label_names), groups=groups, optional=optional)]


def signed(_: Expression, value: float) -> str:
    """Format a difference with its sign."""
    return f"+{figure(value)}" if value > 0 else figure(value)
