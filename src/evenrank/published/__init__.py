"""What published numbers mean: against chance, and beside the numbers of other data sets.

A published value has lost its ranks, but not its candidates: data set, split, side and filter tell how
many there were, and with them the exact law of the metric under chance.

- `_value`    values as they were published, percent or not
- `_footing`  the candidates behind them, and the chance law of each metric
- `_read`     tables of results in files
- `_results`  results side by side, within and across data sets
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenrank.errors import InputError, NullDistributionError
from evenrank.graphs import Graph, Unseen
from evenrank.graphs.atlas import Filter, Side
from evenrank.metrics.adjusted import Adjusted, Affine, Expression
from evenrank.metrics.chance import NullDistribution, SizesLike, read_sizes
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import Metric, Statistic
from evenrank.metrics.tally import Tally
from evenrank.metrics.ties import TIES
from evenrank.published._footing import Board, Footing
from evenrank.published._read import lines as read_lines
from evenrank.published._results import Published
from evenrank.published._value import Given, adjustable, decide_percent
from evenrank.ranks.evaluation import Evaluation, bare, default_expressions
from evenrank.ranks.protocol import Protocol

__all__ = ["Board", "Footing", "Given", "Published", "adjust", "adjustable", "baseline", "published"]


def adjust(
    values: Mapping[str, float | str],
    sizes: SizesLike | None = None,
    *,
    data: str | Graph | None = None,
    split: str = "test",
    side: Side = "both",
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    counts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    percent: bool | None = None,
) -> Evaluation[Any]:
    """Say what published numbers mean against chance, given the data set or the candidate counts.

    `data` is a name the atlas knows, or a graph; `sizes` are candidate counts as `evenrank.null` takes
    them. Adjusted values are taken back to the raw ones first. A metric that ends at 1 may be given in
    percent: a value above 1 tells, or "57.1 %", or `percent=True`.

    >>> print(adjust({"mrr": 0.476, "hits@10": 57.1}, data="wn18rr"))
    metric      value    chance  ratio   index       z    phi
    ---------  ------  --------  -----  ------  ------  -----
    mrr ↑      0.4760  2.74e-04  1,740  0.4759  +5,947  1.000
    hits@10 ↑  0.5710  2.44e-04  2,337  0.5709  +2,891  1.000
    hits@10=57.1 is read as 57.1 %
    data: wn18rr; split: test; sides: tail, head; filter: train, valid, test; unseen: keep; tasks: 6,268;
    sizes: 40,434 to 40,943 [...]
    >>> adjust({"z(mr)": 56.1}, sizes={14_541: 40_932})["mr"]
    6107.04...
    """
    if not values or not isinstance(values, Mapping):
        got = type(values).__name__ if values else None
        raise InputError("nothing to adjust", got=got, do='give values such as {"mrr": 0.35}')
    if sizes is not None and data is None:
        footing = Footing(read_sizes(sizes, counts, weights), Protocol())
    elif data is not None and sizes is counts is weights is None:
        footing = Board.of(data, split, side, filter, unseen).footing()
    else:
        options = {"data": data, "sizes": sizes, "counts": counts, "weights": weights}
        raise InputError(
            "published numbers need the candidates they were made with",
            got=" and ".join(name for name, given in options.items() if given is not None) or "neither",
            allowed="data, or sizes (with counts and weights)",
        )
    given = [Given.of(name, value) for name, value in values.items()]
    given = decide_percent(given, list(map(str, given)), percent)
    before: dict[Metric | Statistic, Given] = {}
    expressions: list[Expression] = []
    row: list[float] = []
    for one in given:
        if one.metric in before:
            raise InputError("the same metric twice", got=f"{before[one.metric]} and {one}")
        before[one.metric] = one
        raw = footing.raw(one)
        worth = footing.worth(one.metric, raw)
        expressions += [one.metric, *worth]
        row += [raw, *worth.values()]
    notes = tuple(f"{one} is read as {one.value:g} %" for one in given if one.percent)
    return Evaluation(tuple(expressions), np.array([row]), protocol=footing.protocol, notes=notes)


def published(
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *metrics: str | Expression,
    split: str = "test",
    side: Side = "both",
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    percent: bool | None = None,
) -> Published:
    """Say what a table of published results means: against chance, within and across data sets.

    `source` is a CSV file (also with semicolons or tabs), rows as mappings, or the name of a table that
    comes with evenrank (hoyt2022). Columns: model, data, metric, value; or model, data and a column per
    metric, with an empty cell where there is no result; also source, and split, side, filter, unseen
    instead of the arguments. `metrics` picks some. A metric is in percent throughout, or not at all.

    >>> rows = [
    ...     {"model": "A", "data": "wn18rr", "mrr": 0.476, "hits@10": 57.1},
    ...     {"model": "B", "data": "wn18rr", "mrr": 0.452, "hits@10": 53.0},
    ...     {"model": "B", "data": "nations", "mrr": 0.452, "hits@10": 96.0},
    ... ]
    >>> print(published(rows, "mrr"))
    data     metric  model   value    chance  ratio   index       z  rank
    -------  ------  -----  ------  --------  -----  ------  ------  ----
    wn18rr   mrr ↑   A      0.4760  2.74e-04  1,740  0.4759  +5,947     1
    wn18rr   mrr ↑   B      0.4520  2.74e-04  1,652  0.4519  +5,647     2
    nations  mrr ↑   B      0.4520    0.3844  1.176  0.1098  +5.019     1
    read as fractions: mrr
    split: test; sides: tail, head; filter: train, valid, test; unseen: keep
    <BLANKLINE>
    across           metric  model  mean index    rank
    ---------------  ------  -----  ----------  ------
    wn18rr, nations  mrr ↑   B          0.2808  1 of 1
    mean index: over exactly the data sets named; ranked is every model that has them all
    """
    lines = list(read_lines(source, Board("", split, side, filter, unseen)))
    read = decide_percent(
        [line.given for line in lines], [f"{line.given} ({line.where})" for line in lines], percent
    )
    lines = [line._replace(given=given) for line, given in zip(lines, read, strict=True)]
    wanted = {bare(parse(name)) for name in metrics}
    there = dict.fromkeys(line.given.metric for line in lines)
    if not wanted <= there.keys():
        absent = next(m for m in wanted if m not in there)
        raise InputError("no such results", got=str(absent), allowed=", ".join(map(str, there)))
    lines = [line for line in lines if not wanted or line.given.metric in wanted]
    return Published.of(lines)


def baseline(
    data: str | Graph,
    *metrics: str | Expression,
    split: str = "test",
    side: Side = "both",
    filter: Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
) -> Evaluation[Any]:
    """Give what needs no model: what chance gets, and a scorer that scores everything alike.

    A row for the expectation under chance, one for its standard deviation, and one for the constant
    scorer under each tie rule. Only `expected` tells that scorer that it is chance; `optimistic` calls
    it perfect.

    >>> print(baseline("nations", "mrr", "hits@10", "mr"))
    baseline                     mrr ↑  hits@10 ↑    mr ↓
    --------------------------  ------  ---------  ------
    chance                      0.3844     0.9469   4.478
    chance, std                 0.0135     0.0102  0.1242
    constant, ties expected     0.3844     0.9469   4.478
    constant, ties realistic    0.2727      1.000   4.478
    constant, ties optimistic    1.000      1.000   1.000
    constant, ties pessimistic  0.1671     0.7189   7.955
    data: nations; split: test; sides: tail, head; filter: train, valid, test; unseen: keep; tasks: 402;
    sizes: 2 to 14 [...]
    """
    footing = Board.of(data, split, side, filter, unseen).footing()
    wanted = list(dict.fromkeys(map(parse, metrics)))
    wanted = wanted or [e for e in default_expressions(wide=False) if not isinstance(e, Adjusted)]
    constant = footing.constant()
    rows = [_floor(expression, footing.law(bare(expression)), constant) for expression in wanted]
    return Evaluation(
        tuple(wanted),
        np.array(rows).T,
        labels=(("chance",), ("chance, std",), *((f"constant, ties {ties}",) for ties in TIES)),
        label_names=("baseline",),
        protocol=footing.protocol,
    )


def _floor(expression: Expression, law: NullDistribution, constant: Tally) -> list[float]:
    """Give expectation and deviation under chance, then the constant scorer under each tie rule."""
    metric = law.metric
    line = expression.map(law) if isinstance(expression, Adjusted) else Affine(1.0)
    if not isinstance(line, Affine):
        raise NullDistributionError(
            f"what chance gets of {expression} has no exact law: it is no line of {metric}",
            do=f"use z({metric})",
        )
    by_chance = [line(float(law.mean())), abs(line.scale) * float(law.std())]
    return [*by_chance, *(line(metric(constant, ties)) for ties in TIES)]
