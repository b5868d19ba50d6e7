"""Adjust published values for chance, and compare them with those on other data sets.

A published value comes without its ranks, but the data set, split, sides and filter determine the
numbers of candidates, and these determine the exact null distribution of the metric.

- `_value`        published values and their units
- `_setting`      evaluation settings: the candidates, and the null distribution of each metric
- `_approximate`  limits for data sets that were not counted
- `_consistency`  inequalities between the values of one model
- `_joint`        whether one set of ranks can have all values of a model, by linear programming
- `_models`       names of models
- `_read`         tables of results in files
- `_results`      results within and across data sets
- `_record`       values of the record of published results, and their adjustment
- `_rows`         the files of the record: reading, building, adding
- `_select`       selection from the record
- `_audit`        the audit of published results
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.checks import check_choice
from evenrank.errors import InputError, NullDistributionError
from evenrank.graphs import Graph, Unseen
from evenrank.graphs.atlas import Filter, Sides
from evenrank.metrics.adjusted import Adjusted, Affine, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.chance import Chance, Dependent, NullDistribution, SizesLike, read_sizes
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import TIES
from evenrank.published._approximate import approximate_notes
from evenrank.published._audit import Audit, Finding, audit, with_findings
from evenrank.published._consistency import Contradiction, contradictions
from evenrank.published._joint import Limit, warnings
from evenrank.published._models import ModelName, model_name
from evenrank.published._read import lines as read_lines
from evenrank.published._record import Chances, Record, Recorded
from evenrank.published._results import MeanIndex, Published, Result
from evenrank.published._rows import add, own_file
from evenrank.published._rows import build as build_record
from evenrank.published._rows import read as read_record
from evenrank.published._select import results
from evenrank.published._setting import Candidates, Setting
from evenrank.published._value import PublishedValue, adjustable, decide_percent, units_note
from evenrank.ranks.evaluation import Evaluation, bare, default_expressions
from evenrank.ranks.protocol import Protocol

__all__ = [
    "Audit",
    "Candidates",
    "Chances",
    "Contradiction",
    "Finding",
    "Limit",
    "MeanIndex",
    "ModelName",
    "Published",
    "PublishedValue",
    "Record",
    "Recorded",
    "Result",
    "Setting",
    "add",
    "adjust",
    "adjust_table",
    "adjustable",
    "approximate_notes",
    "audit",
    "baseline",
    "build_record",
    "contradictions",
    "model_name",
    "own_file",
    "read_lines",
    "read_record",
    "results",
    "with_findings",
]


def adjust(
    values: Mapping[str, float | str],
    sizes: SizesLike | None = None,
    *,
    data: str | Graph | None = None,
    split: str = "test",
    sides: Sides = "both",
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    counts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    percent: bool | None = None,
    chance: Chance = "scorer",
) -> Evaluation[Any]:
    """Adjust published values for chance, given the data set or the numbers of candidates.

    Parameters
    ----------
    values : mapping of str to float or str
        The published values by metric, such as ``{"mrr": 0.476, "hits@10": "57.1 %"}``. Adjusted values
        are converted back to raw ones first.
    sizes : SizesLike, optional
        The numbers of candidates, as `evenrank.chance` takes them.
    data : str or Graph, optional
        The data set: the name of one in the atlas, or a graph.
    split : str, default "test"
        The split that was ranked.
    sides : {"both", "tail", "head"}, default "both"
        The sides that were predicted.
    filter : {"all", None}, default "all"
        Filtered by the known true answers of all splits, or raw.
    unseen : {"keep", "drop"}, default "keep"
        Whether entities not seen in training were kept.
    counts, weights : array_like, optional
        How often each number in `sizes` occurs, and the weights of the targets.
    percent : bool, optional
        Whether metrics with maximum 1 are in percent. By default a percent sign or a value above 1
        decides.
    chance : {"scorer", "independent"}, default "scorer"
        The null distribution of z-scores. "scorer" accounts for the dependence between the ranks of a
        random scorer, where the atlas has it; "independent" treats ranks as independent, as Hoyt et al.
        (2022) and PyKEEN do.

    Returns
    -------
    Evaluation
        The metrics with chance level, ratio, index, z and phi. Notes say which values were read as
        percent and which as fractions, and warn of values that contradict each other.

    Raises
    ------
    InputError
        If a value is impossible among these candidates, or its unit is ambiguous.
    NullDistributionError
        If a metric cannot be adjusted.

    Examples
    --------
    >>> print(adjust({"mrr": 0.476, "hits@10": 57.1}, data="wn18rr"))
    metric      value    chance  ratio   index       z    phi
    ---------  ------  --------  -----  ------  ------  -----
    mrr ↑      0.4760  2.74e-04  1,740  0.4759  +4,381  1.000
    hits@10 ↑  0.5710  2.44e-04  2,337  0.5709  +2,141  1.000
    read as fractions: mrr; as percent: hits@10
    data: wn18rr; tasks: 6,268; sizes: 40,434 to 40,943 [...]
    >>> adjust({"z(mr)": 56.1}, sizes={14_541: 40_932})["mr"]
    6107.04...
    """
    check_choice("chance", chance, get_args(Chance))
    given: Any = values
    if not isinstance(given, Mapping) or not given:
        got = None if given is None or isinstance(given, Mapping) else type(given).__name__
        raise InputError("nothing to adjust", got=got, do='pass values such as {"mrr": 0.35}')
    if sizes is not None and data is None:
        known = None
        if chance == "scorer" and isinstance(sizes, Dependent) and counts is None:
            known = sizes.dependence(weights=weights)
        candidates = Candidates(read_sizes(sizes, counts, weights), Protocol(), known)
    elif data is not None and sizes is counts is weights is None:
        candidates = Setting.of(data, split, sides, filter, unseen, chance).candidates()
    else:
        options = {"data": data, "sizes": sizes, "counts": counts, "weights": weights}
        raise InputError(
            "published values need the data set or the numbers of candidates",
            got=" and ".join(name for name, given in options.items() if given is not None) or "neither",
            allowed="data, or sizes (with counts and weights)",
        )
    given = [PublishedValue.of(name, value) for name, value in values.items()]
    given = decide_percent(given, list(map(str, given)), percent)
    before: dict[Metric | Statistic, PublishedValue] = {}
    expressions: list[Expression] = []
    row: list[float] = []
    for one in given:
        if one.metric in before:
            raise InputError("the same metric twice", got=f"{before[one.metric]} and {one}")
        before[one.metric] = one
        raw = candidates.raw(one)
        adjusted = candidates.adjusted(one.metric, raw)
        expressions += [one.metric, *adjusted]
        row += [raw, *adjusted.values()]
    notes = (*units_note(given), *(f"warning: {one}" for one in warnings(given, candidates)))
    if isinstance(data, str):
        single = {
            metric: raw
            for metric, raw in zip(expressions, row, strict=True)
            if isinstance(metric, Metric)
        }
        total = candidates.sizes.total
        notes += approximate_notes(data, single, total, filter=filter, unseen=unseen)
    return Evaluation(tuple(expressions), np.array([row]), protocol=candidates.protocol, notes=notes)


def adjust_table(
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *metrics: Metrics,
    split: str = "test",
    sides: Sides = "both",
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    percent: bool | None = None,
    chance: Chance = "scorer",
) -> Published:
    """Adjust a table of published results for chance, and rank models within and across data sets.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        A CSV file (also with semicolons or tabs), rows in memory, or "hoyt2022", the results of the case
        study of Hoyt et al. (2022). The columns are model, data, metric, value; or model, data and one
        per metric, with empty cells for missing results. Optional columns are source, and split, sides,
        filter, unseen, which override the arguments.
    *metrics : str, Metric or list of these
        Select these metrics; by default all.
    split : str, default "test"
        The split that was ranked.
    sides : {"both", "tail", "head"}, default "both"
        The sides that were predicted.
    filter : {"all", None}, default "all"
        Filtered by the known true answers of all splits, or raw.
    unseen : {"keep", "drop"}, default "keep"
        Whether entities not seen in training were kept.
    percent : bool, optional
        Whether metrics with maximum 1 are in percent. By default a percent sign or a value above 1
        decides, for all values of a metric together.
    chance : {"scorer", "independent"}, default "scorer"
        The null distribution of z-scores. "scorer" accounts for the dependence between the ranks of a
        random scorer, where the atlas has it; "independent" treats ranks as independent, as Hoyt et al.
        (2022) and PyKEEN do.

    Returns
    -------
    Published
        The adjusted values, and the ranks of models.

    Raises
    ------
    InputError
        If a line cannot be read, or its value is impossible; the message names the line.

    Examples
    --------
    >>> rows = [
    ...     {"model": "A", "data": "wn18rr", "mrr": 0.476, "hits@10": 57.1},
    ...     {"model": "B", "data": "wn18rr", "mrr": 0.452, "hits@10": 53.0},
    ...     {"model": "B", "data": "nations", "mrr": 0.452, "hits@10": 96.0},
    ... ]
    >>> print(adjust_table(rows, "mrr"))
    data     metric  model   value    chance  ratio   index       z  rank
    -------  ------  -----  ------  --------  -----  ------  ------  ----
    wn18rr   mrr ↑   A      0.4760  2.74e-04  1,740  0.4759  +4,381     1
    wn18rr   mrr ↑   B      0.4520  2.74e-04  1,652  0.4519  +4,160     2
    nations  mrr ↑   B      0.4520    0.3844  1.176  0.1098  +3.764     1
    read as fractions: mrr
    usual protocol [...]
    <BLANKLINE>
    across           metric  model  mean index    rank
    ---------------  ------  -----  ----------  ------
    wn18rr, nations  mrr ↑   B          0.2808  1 of 1
    mean index: over exactly these data sets; ranks are among the models with results on all
    """
    check_choice("chance", chance, get_args(Chance))
    lines = list(read_lines(source, Setting("", split, sides, filter, unseen, chance)))
    read = decide_percent(
        [line.given for line in lines], [f"{line.given} ({line.where})" for line in lines], percent
    )
    lines = [line._replace(given=given) for line, given in zip(lines, read, strict=True)]
    wanted = {bare(parse(name)) for name in listed(metrics)}
    there = dict.fromkeys(line.given.metric for line in lines)
    if not wanted <= there.keys():
        absent = next(m for m in wanted if m not in there)
        raise InputError("no such results", got=str(absent), allowed=", ".join(map(str, there)))
    lines = [line for line in lines if not wanted or line.given.metric in wanted]
    return Published.of(lines)


def baseline(
    data: str | Graph,
    *metrics: Metrics,
    split: str = "test",
    sides: Sides = "both",
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    chance: Chance = "scorer",
) -> Evaluation[Any]:
    """Compute baselines that need no model: random ranking, and a constant scorer.

    The rows are the mean and the standard deviation under random ranking, and a scorer that gives all
    candidates the same score, under each tie-breaking rule. A constant scorer has no information, so its
    metrics should equal the chance level, as they do under `expected`; under `optimistic` it is perfect.

    Parameters
    ----------
    data : str or Graph
        The data set: the name of one in the atlas, or a graph.
    *metrics : str, Metric or list of these
        The metrics; by default all common ones.
    split : str, default "test"
        The split that was ranked.
    sides : {"both", "tail", "head"}, default "both"
        The sides that were predicted.
    filter : {"all", None}, default "all"
        Filtered by the known true answers of all splits, or raw.
    unseen : {"keep", "drop"}, default "keep"
        Whether entities not seen in training were kept.
    chance : {"scorer", "independent"}, default "scorer"
        The null distribution of z-scores. "scorer" accounts for the dependence between the ranks of a
        random scorer, where the atlas has it; "independent" treats ranks as independent, as Hoyt et al.
        (2022) and PyKEEN do.

    Returns
    -------
    Evaluation
        A row per baseline.

    Raises
    ------
    InputError
        If the data set or an option is unknown.
    NullDistributionError
        If the null distribution of a metric has no exact mean or standard deviation.

    Examples
    --------
    >>> print(baseline("nations", "mrr", "hits@10", "mr"))
    baseline                     mrr ↑  hits@10 ↑    mr ↓
    --------------------------  ------  ---------  ------
    chance                      0.3844     0.9469   4.478
    chance, std                 0.0179     0.0116  0.1653
    constant, ties expected     0.3844     0.9469   4.478
    constant, ties realistic    0.2727      1.000   4.478
    constant, ties optimistic    1.000      1.000   1.000
    constant, ties pessimistic  0.1671     0.7189   7.955
    data: nations; tasks: 402; sizes: 2 to 14 [...]
    """
    check_choice("chance", chance, get_args(Chance))
    candidates = Setting.of(data, split, sides, filter, unseen, chance).candidates()
    wanted = list(dict.fromkeys(map(parse, listed(metrics))))
    wanted = wanted or [e for e in default_expressions(wide=False) if not isinstance(e, Adjusted)]
    for expression in wanted:
        if isinstance(metric := bare(expression), QueryMetric):
            raise metric.not_of_ranks()
    constant = candidates.constant()
    rows = [_column(expression, candidates.null(bare(expression)), constant) for expression in wanted]
    return Evaluation(
        tuple(wanted),
        np.array(rows).T,
        labels=(("chance",), ("chance, std",), *((f"constant, ties {ties}",) for ties in TIES)),
        label_names=("baseline",),
        protocol=candidates.protocol,
    )


def _column(expression: Expression, null: NullDistribution, constant: Tally) -> list[float]:
    """Compute mean and standard deviation under random ranking, then the constant scorer by tie rule."""
    metric = null.metric
    line = expression.map(null) if isinstance(expression, Adjusted) else Affine(1.0)
    if not isinstance(line, Affine):
        raise NullDistributionError(
            f"{expression} has no exact mean under random ranking: it is not affine in {metric}",
            do=f"use z({metric})",
        )
    by_chance = [line(float(null.mean())), abs(line.scale) * float(null.std())]
    return [*by_chance, *(line(metric(constant, ties)) for ties in TIES)]
