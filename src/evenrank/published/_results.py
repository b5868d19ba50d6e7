"""Published results: adjusted values, and ranks of models within and across data sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, nan
from typing import Any, NamedTuple, Self, Unpack

import numpy as np

from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, AdjustmentName
from evenrank.metrics.metric import Metric, Statistic
from evenrank.published._joint import warnings
from evenrank.published._read import Line, located
from evenrank.published._setting import Candidates, Setting
from evenrank.published._value import PublishedValue, units_note
from evenrank.ranks.evaluation import Evaluation, arrow, cell
from evenrank.ranks.paper import Style, paper
from evenrank.ranks.protocol import Protocol, shared

ADJUSTED: tuple[AdjustmentName, ...] = ("chance", "index", "z")  # columns of a table for a paper


@dataclass(frozen=True)
class Result:
    """One published value and its adjusted forms.

    Parameters
    ----------
    model : str
        The model.
    setting : Setting
        The evaluation setting.
    given : PublishedValue
        The value as published.
    value : float
        The raw metric.
    chance, ratio, index, z : float
        The chance level and the adjusted values.
    rank : int
        The rank among the models with this metric in the same setting.
    source : str
        Where the value was published.
    """

    model: str
    setting: Setting
    given: PublishedValue
    value: float
    chance: float
    ratio: float
    index: float
    z: float
    rank: int
    source: str


class MeanIndex(NamedTuple):
    """The mean index of a model over some settings.

    Parameters
    ----------
    metric : Metric
        The metric.
    settings : tuple of Setting
        The settings.
    model : str
        The model.
    mean_index : float
        The mean of its index over exactly these settings.
    rank : int
        The rank among the models with results in all of them.
    models : int
        The number of these models.
    """

    metric: Metric | Statistic
    settings: tuple[Setting, ...]
    model: str
    mean_index: float
    rank: int
    models: int


@dataclass(frozen=True, eq=False, repr=False)
class Published(Shown):
    """Published results, adjusted for chance; prints as tables.

    Parameters
    ----------
    results : tuple of Result
        One entry per value, in the order of the table.
    mean_indices : tuple of MeanIndex
        The comparison across data sets: for every set of settings on which some model has a metric, the
        models that have all of them, by the mean of their indices over exactly these settings.
    settings : mapping of Setting to mapping
        The protocol of each setting.
    notes : tuple of str
        Remarks, such as the detected units.
    """

    results: tuple[Result, ...]
    mean_indices: tuple[MeanIndex, ...]
    settings: Mapping[Setting, Mapping[str, str]]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, lines: Sequence[Line]) -> Self:
        """Adjust every value, and compare the models.

        Parameters
        ----------
        lines : sequence of Line
            The values.

        Returns
        -------
        Published
            The adjusted values.
        """
        known: dict[Setting, Candidates] = {}
        results = _ranked(_results(lines, known))
        settings = {setting: found.protocol.to_dict() for setting, found in known.items()}
        notes = (*units_note(line.given for line in lines), *_contradictions(lines, known))
        return cls(tuple(results), tuple(_mean_indices(results, settings)), settings, notes)

    def __len__(self) -> int:
        """Number of published values."""
        return len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per value: as published, adjusted, and the ranks of its model.

        `mean_index` and `rank_across` are over all `data_sets` on which the model has the metric.
        """
        own: dict[tuple[Metric | Statistic, str], MeanIndex] = {}
        for mean in self.mean_indices:  # larger sets first, and none is larger than the model's own
            own.setdefault((mean.metric, mean.model), mean)
        rows = []
        for result in self.results:
            metric, setting = result.given.metric, result.setting
            mean = own[metric, result.model]
            rows.append(
                {
                    "model": result.model,
                    "data": self.settings[setting]["data"],
                    "split": setting.split,
                    "sides": setting.sides,
                    "filter": setting.filter or "none",
                    "unseen": self.settings[setting]["unseen"],
                    "given": f"{result.given}{'%' * result.given.percent}",
                    "metric": str(metric),
                    "value": result.value,
                    "chance": result.chance,
                    "ratio": result.ratio,
                    "index": result.index,
                    "z": result.z,
                    "rank": result.rank,
                    "data_sets": len(mean.settings),
                    "mean_index": mean.mean_index,
                    "rank_across": mean.rank,
                    "source": result.source,
                }
            )
        return rows

    def content(self) -> dict[str, Any]:
        """Collect all results, with notes."""
        across = [
            {
                "data": [self._label(setting) for setting in s.settings],
                "metric": str(s.metric),
                "model": s.model,
                "mean_index": s.mean_index,
                "rank": s.rank,
                "models": s.models,
            }
            for s in self.mean_indices
        ]
        return {
            "settings": [dict(words) for words in self.settings.values()],
            "rows": self.rows(),
            "across": across,
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Build the tables: values by data set and metric, best first; models across data sets."""
        return [self._within(), *self._across()]

    def to_latex(self, **style: Unpack[Style]) -> str:
        """Write a table for a paper for each metric, in LaTeX, and one of the mean indices.

        Parameters
        ----------
        **style : Style
            Options of `evenrank.latex`: layout, digits, percent, hits, names, caption, label. A caption
            or a label is for one metric only.

        Returns
        -------
        str
            LaTeX text; the best values are bold, the second best of three or more are underlined.

        Raises
        ------
        InputError
            If several metrics have a table each, but only one caption or label.
        """
        metrics = list(dict.fromkeys(result.given.metric for result in self.results))
        one_only = next((name for name in ("caption", "label") if style.get(name) is not None), None)
        if len(metrics) > 1 and one_only is not None:
            got = f"{len(metrics)} metrics"
            raise InputError(f"each metric has its own table, and {one_only} is for one", got=got)
        made = [paper(self._evaluation(metric), style) for metric in metrics]
        means = self._means()
        if means is not None:
            own: Any = {name: style[name] for name in ("digits", "hits", "names") if name in style}
            own["caption"] = f"Mean adjusted index over all {len(self.settings)} data sets."
            made.append(paper(means, own))
        return "\n\n".join(made)

    def _evaluation(self, metric: Metric | Statistic) -> Evaluation[Any]:
        """Return a metric of all models, with its chance level, index and z."""
        some = [result for result in self.results if result.given.metric == metric]
        return Evaluation(
            (metric, *(Adjusted(form, metric) for form in ADJUSTED)),
            np.array([(r.value, r.chance, r.index, r.z) for r in some]),
            tuple((self._label(r.setting), r.model) for r in some),
            ("data", "model"),
            protocol=shared(map(Protocol.from_dict, self.settings.values())),
            notes=self.notes,
        )

    def _means(self) -> Evaluation[Any] | None:
        """Return the mean index of the models that have results in all settings, by metric."""
        whole = [one for one in self.mean_indices if 1 < len(one.settings) == len(self.settings)]
        metrics = list(dict.fromkeys(one.metric for one in whole))
        models = list(dict.fromkeys(one.model for one in whole))
        found = {(one.model, one.metric): one.mean_index for one in whole}
        if not whole:
            return None
        return Evaluation(
            tuple(Adjusted("index", metric) for metric in metrics),
            np.array([[found.get((model, metric), nan) for metric in metrics] for model in models]),
            tuple((model,) for model in models),
            ("model",),
            protocol=shared(map(Protocol.from_dict, self.settings.values())),
        )

    @property
    def _differing(self) -> list[str]:
        """The entries in which settings differ, apart from the data set."""
        names = ("split", "sides", "filter", "unseen")
        return [k for k in names if len({words[k] for words in self.settings.values()}) > 1]

    def _label(self, setting: Setting) -> str:
        words = self.settings[setting]
        facts = "; ".join(words[name] for name in self._differing)
        return f"{words['data']} ({facts})" if facts else words["data"]

    def _within(self) -> Table:
        settings = list(self.settings)
        metrics = list(dict.fromkeys(result.given.metric for result in self.results))
        header = ["data", *self._differing, "metric", "model"]
        rows = [
            [
                *(self.settings[r.setting][name] for name in ("data", *self._differing)),
                f"{r.given.metric} {arrow(r.given.metric)}",
                r.model,
                *(figure(x) for x in (r.value, r.chance, r.ratio, r.index)),
                cell(Adjusted("z", r.given.metric), r.z),
                str(r.rank),
            ]
            for r in sorted(
                self.results,
                key=lambda r: (settings.index(r.setting), metrics.index(r.given.metric), r.rank),
            )
        ]
        protocol = shared(map(Protocol.from_dict, self.settings.values()))
        sources = dict.fromkeys(f"source: {r.source}" for r in self.results if r.source)
        columns = ["value", "chance", "ratio", "index", "z", "rank"]
        return Table(
            [*header, *columns],
            rows,
            [*self.notes, protocol.note(), *sources],
            labels=len(header),
            optional=("ratio", "chance", "z", "rank"),
        )

    def _across(self) -> Iterator[Table]:
        rows = [
            [
                ", ".join(map(self._label, s.settings)),
                f"{s.metric} {arrow(s.metric)}",
                s.model,
                figure(s.mean_index),
                f"{s.rank} of {s.models}",
            ]
            for s in self.mean_indices
            if len(s.settings) > 1
        ]
        note = "mean index: over exactly these data sets; ranks are among the models with results on all"
        if rows:
            yield Table(["across", "metric", "model", "mean index", "rank"], rows, [note], labels=3)


def _results(lines: Iterable[Line], known: dict[Setting, Candidates]) -> Iterator[Result]:
    """Adjust every value; `known` caches the candidates of each setting."""
    before: dict[object, Line] = {}
    for line in lines:
        metric, key = line.given.metric, (line.model, line.setting, line.given.metric)
        with located(line.where):
            if key in before:
                raise InputError(
                    f"{metric} of {line.model} occurs twice",
                    got=f"{line.given} after {before[key].given} ({before[key].where})",
                    do="delete one of them, or give the models different names",
                )
            before[key] = line
            if line.setting not in known:
                known[line.setting] = line.setting.candidates()
            raw = known[line.setting].raw(line.given)
            adjusted = known[line.setting].adjusted(metric, raw)
        forms = {form.adjustment: value for form, value in adjusted.items() if form.adjustment != "phi"}
        yield Result(line.model, line.setting, line.given, raw, **forms, rank=0, source=line.source)


def _ranked(results: Iterable[Result]) -> list[Result]:
    """Rank the models of each setting and metric."""
    found = list(results)
    indices: dict[tuple[Setting, Metric | Statistic], list[float]] = {}
    for result in found:
        indices.setdefault((result.setting, result.given.metric), []).append(result.index)
    rank = {key: _ranks(values) for key, values in indices.items()}
    return [replace(r, rank=rank[r.setting, r.given.metric][r.index]) for r in found]


def _ranks(values: Iterable[float]) -> dict[float, int]:
    """Rank values, the largest first; ties share the smallest rank (competition ranking)."""
    ordered = sorted(values, reverse=True)
    return {value: len(ordered) - i for i, value in enumerate(reversed(ordered))}


def _mean_indices(results: Iterable[Result], settings: Collection[Setting]) -> Iterator[MeanIndex]:
    """Compare models over every set of settings that some model has; larger sets first."""
    metrics: dict[Metric | Statistic, dict[str, dict[Setting, float]]] = {}
    for r in results:
        metrics.setdefault(r.given.metric, {}).setdefault(r.model, {})[r.setting] = r.index
    for metric, models in metrics.items():
        sets = dict.fromkeys(tuple(b for b in settings if b in has) for has in models.values())
        for common in sorted(sets, key=len, reverse=True):
            means = {
                model: fsum(has[setting] for setting in common) / len(common)
                for model, has in models.items()
                if has.keys() >= set(common)
            }
            rank = _ranks(means.values())
            for model, mean in sorted(means.items(), key=lambda item: rank[item[1]]):
                yield MeanIndex(metric, common, model, mean, rank[mean], len(means))


def _contradictions(lines: Iterable[Line], known: Mapping[Setting, Candidates]) -> Iterator[str]:
    """Warn of values of one model in one setting that contradict each other."""
    models: dict[tuple[str, Setting], list[Line]] = {}
    for line in lines:
        models.setdefault((line.model, line.setting), []).append(line)
    for (model, setting), own in models.items():
        given, candidates = [line.given for line in own], known[setting]
        for one in warnings(given, candidates):
            yield f"warning: {own[0].where}: {model}: {one}"
