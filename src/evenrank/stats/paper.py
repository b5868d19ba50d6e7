"""Comparisons in tables for papers: daggers at significantly best values, and tables of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

from evenrank._internal.latex import Grid, cell, escape
from evenrank._internal.spelling import data_name
from evenrank.metrics.adjusted import Expression
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.paper import Options, Style, called, metric_name, numbers, paper, percent_note
from evenrank.stats._intervals import plural
from evenrank.stats._paired import CORRECTED, HOW, Comparison

MOST = 30  # tests in a table that fits a page; more are in the other formats


def baseline(made: Comparison) -> str | None:
    """Return the model that all others were compared with, if not every pair was compared."""
    seconds = {pair.second for pair in made.pairs}
    models = made.values.evaluation.labels
    return seconds.pop() if len(seconds) == 1 and len(models) > 2 else None


def daggers(made: Comparison) -> set[tuple[str, Expression]]:
    """Return models and metrics that are significantly better than the second best, or the baseline."""
    better = {(p.metric, frozenset((p.first, p.second))): p.better(made.level) for p in made.pairs}
    if baseline(made) is not None:
        return {(p.first, p.metric) for p in made.pairs if p.better(made.level) == p.first}
    evaluation, found = made.values.evaluation, set()
    for column, metric in enumerate(evaluation.expressions):
        sign = 1.0 if metric.increasing else -1.0
        scores = [
            (sign * float(row[column]), model)
            for row, (model,) in zip(evaluation.values_by_group, evaluation.labels, strict=True)
        ]
        (best, first), (next_best, _), *_ = sorted(scores, reverse=True)
        seconds = [model for score, model in scores if score == next_best and model != first]
        if best > next_best and all(better[metric, frozenset((first, s))] == first for s in seconds):
            found.add((first, metric))
    return found


def note(made: Sequence[Comparison], given: Options, *, whole: bool = True) -> str:
    """Say in LaTeX what the dagger means: test, unit, correction and level.

    `whole` is whether every metric of the table was tested.
    """
    one = made[0]
    marked = any(map(daggers, made))
    against = baseline(one)
    metrics = dict.fromkeys(metric for c in made for metric in c.values.evaluation.expressions)
    which = "" if whole else f"{' or '.join(escape(metric_name(m, given.hits)) for m in metrics)} "
    if against is None:
        values, than = f"best {which}values", "the second best"
    else:
        names = called([model for (model,) in one.values.evaluation.labels], given)
        values, than = f"{which}values", f"those of {names[against]}"
    marks = rf"A dagger ($^\dagger$) marks {values} that are" if marked else f"No {values} are"
    text = f"{marks} significantly better than {than}"
    return f"{text} ({_how(made)})."


def _how(made: Sequence[Comparison]) -> str:
    """Name the test, the units, the correction and the level."""
    one = made[0]
    units = " or ".join(dict.fromkeys(plural(c.unit, 2) for c in made))
    tests = len(one.pairs)
    if len(made) > 1:
        family = f"{CORRECTED[one.correction]} within each data set"
    elif tests > 1:
        family = f"{CORRECTED[one.correction]} for {tests} tests"
    else:
        family = "one test"
    paired = HOW[one.test] if "paired" in HOW[one.test] else f"paired {HOW[one.test]}"
    return escape(f"{paired} over {units}, {family}, significance level {1.0 - one.level:.6g}")


def marked(evaluation: Evaluation[Any], made: Mapping[str, Comparison], style: Style) -> str:
    """Write a table of models with daggers; `made` maps data sets to their comparisons."""
    at = {e: i for i, e in enumerate(evaluation.expressions)}
    found = {(data, *mark) for data, c in made.items() for mark in daggers(c)}
    marks = {
        (row, column)
        for row, label in enumerate(evaluation.labels)
        for e, column in at.items()
        if (label[0] if len(label) > 1 else "", label[-1], e) in found
    }
    comparisons = [*made.values()]
    whole = all({*at} <= {*c.values.evaluation.expressions} for c in comparisons)
    text = note(comparisons, Options(**style), whole=whole) if comparisons else ""
    remarks = (remark for c in comparisons for remark in c.notes)
    return paper(replace(evaluation, notes=(*evaluation.notes, *remarks)), style, marks, text)


def pair_table(made: Mapping[str, Comparison], style: Style) -> str:
    """Write the tests as a table: differences, intervals, p-values; nothing if they are too many."""
    pairs = [(data, pair) for data, c in made.items() for pair in c.pairs]
    if not 0 < len(pairs) <= MOST:
        return ""
    own: Any = {name: style[name] for name in ("digits", "hits", "names", "percent") if name in style}
    given, one = Options(**own), next(iter(made.values()))
    names = {data: called([r[0] for r in c.values.evaluation.labels], given) for data, c in made.items()}
    data_names = called(made, given, data_name)
    metrics = list(dict.fromkeys(pair.metric for _, pair in pairs))
    header = ["First", "Second", "Difference", rf"{100 * one.level:.6g}\,\% interval", "$p$"]
    rows: list[list[str]] = []
    blocks: list[int] = []
    lead = [("Data set", len(made) > 1), ("Metric", len(metrics) > 1)]
    before = None
    for data, pair in pairs:
        labels = [data_names[data] if data else "", escape(metric_name(pair.metric, given.hits))]
        shown = [label for label, (_, wanted) in zip(labels, lead, strict=True) if wanted]
        blocks += [len(rows)] * (before is not None and shown != before)
        titles = ["" if shown == before else label for label in shown]
        before = shown
        values = [pair.difference, pair.low, pair.high]
        texts = numbers(pair.metric, values, given)
        difference, low, high = ("+" * (x > 0) + text for x, text in zip(values, texts, strict=True))
        interval = "--" if isnan(pair.low) else cell(f"[{low}, {high}]")
        both = (names[data][pair.first], names[data][pair.second])
        rows.append([*titles, *both, cell(difference), interval, _p(pair.p_corrected)])
    left = [title for title, wanted in lead if wanted]
    what = escape(metric_name(metrics[0], given.hits)) if len(metrics) == 1 else "metrics"
    caption = f"Differences in {what}, confidence intervals and $p$-values ({_how([*made.values()])})."
    blocks = blocks if len(blocks) + 1 < len(rows) else []
    grid = Grid([[*left, *header]], rows, len(left) + 2, blocks)
    return grid.float(" ".join([caption, *percent_note(metrics, given)]))


def _p(p: float) -> str:
    """Write a p-value with three decimals.

    >>> _p(0.0341), _p(0.00002)
    ('0.034', '$<0.001$')
    """
    return f"{p:.3f}" if p >= 0.001 else "$<0.001$"
