"""Charts: values and chance levels as panels in one style, for the page and for papers.

Every function takes rows (dictionaries) and returns a `Chart`. A model has the same colour and shape in
every chart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evenrank._internal.files import replacing
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import arrow
from evenrank.report.plot import (
    DASHES,
    PATHS,
    SIZE,
    WIDTH,
    Axis,
    Look,
    Panel,
    breadth,
    cut,
    linear,
    logarithmic,
    names,
    signed_log,
    words,
)

Row: TypeAlias = Mapping[str, Any]
Theme = Literal["light", "dark"]
FORMATS = (".svg", ".png", ".pdf")
PAPER = ("mrr", "index(mrr)", "z(mrr)")
# name: light, dark
COLOURS = {
    "card": ("#fefefe", "#1a1d23"),
    "ink": ("#1b1d22", "#e9eaee"),
    "muted": ("#5a5f6b", "#a6acb8"),
    "rule": ("#dddfe3", "#31353e"),
    "chance": ("#9a4f00", "#f2ad57"),
    "model-1": ("#0a55c4", "#86b6ff"),
    "model-2": ("#c2271e", "#ff8f87"),
    "model-3": ("#00806b", "#4fd1b8"),
    "model-4": ("#a3218e", "#f495e4"),
    "model-5": ("#5d7300", "#b9d154"),
    "model-6": ("#0a86b8", "#5cc8f5"),
    "model-7": ("#475569", "#b6c2d3"),
    "model-8": ("#6b3fc4", "#c0a4ff"),
}
HUES = [name for name in COLOURS if name.startswith("model-")]
SHAPES = tuple(PATHS)  # seven shapes and eight hues distinguish fifty-six models
STROKES = ("", "9 3", "2 2", "9 3 2 3")
CHANCE = Look("chance", dash=DASHES)
LEVEL = Look("chance")
UNDRAWABLE = re.compile("[\\x00-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")
VARIABLE = re.compile(r'"var\(--([\w-]+)\)"')
TWO_DECADES = 100  # shorter axes are labelled at 2 and 5 as well
ROOM = 4.6  # pixels for each model of a data set; with less, panels become wider
FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"  # of files; pages use their own
GAP, EDGE = 18.0, 10.0  # between panels, and around them


@dataclass(frozen=True)
class Chart:
    """Panels with a legend and a note.

    Parameters
    ----------
    panels : tuple of Panel
        The drawings.
    legend : dict of str to Look
        The look of each model or data set.
    note : str
        What lines and bars mean.
    lines : bool
        Whether the legend shows lines, not marks.
    """

    panels: tuple[Panel, ...]
    legend: Mapping[str, Look]
    note: str
    lines: bool = False

    @property
    def columns(self) -> int:
        """The number of panels side by side, where there is room."""
        count = len(self.panels)
        return min(count, 2 if count == 4 else 3)

    def _repr_svg_(self) -> str:
        """Show the chart in a notebook."""
        return svg(self)


def panels(rows: Iterable[Row], metrics: Sequence[str] = PAPER) -> Chart:
    """Draw a panel per metric, with data sets side by side and a point per model.

    A row has `data`, `model`, `metric` and `value`; optionally `low` and `high` (an interval), `chance`
    (the chance level of a plain metric) and `published` (true: drawn hollow). Data sets and models keep
    the order of the rows.
    """
    rows = drawable(rows)
    found = [metric for metric in metrics if any(row["metric"] == metric for row in rows)]
    if not found:
        raise InputError("no rows to draw", got=f"none of {', '.join(metrics)}")
    looks = of_models(distinct(rows, "model"))
    notes = {
        "Filled: exact. Hollow: as published.": any(row.get("published") for row in rows),
        "Horizontal bars and dashes: chance level.": any(row.get("chance") is not None for row in rows)
        or any(isinstance(parse(metric), Adjusted) for metric in found),
        "Vertical bars: confidence intervals.": any(row.get("low") is not None for row in rows),
    }
    return Chart(
        tuple(_metric(metric, rows, looks) for metric in found),
        looks,
        " ".join(note for note, so in notes.items() if so),
    )


def _metric(metric: str, every: Sequence[Row], looks: Mapping[str, Look]) -> Panel:
    rows = [row for row in every if row["metric"] == metric]
    data, models = distinct(every, "data"), list(looks)
    values = [
        row[name]
        for row in rows
        for name in ("value", "low", "high", "chance")
        if row.get(name) is not None
    ]
    expression = parse(metric)
    x = names(data)
    width = max(WIDTH, 70 + ROOM * len(data) * (len(models) + 1))
    panel = Panel(f"{metric} {arrow(expression)}", x, scale(expression, values), width=width)
    if isinstance(expression, Adjusted):
        panel.level(0.0, CHANCE)
    for row in rows:
        band = data.index(row["data"])
        look = looks[row["model"]]
        at = band + (models.index(row["model"]) + 1) / (len(models) + 1)
        if (chance := row.get("chance")) is not None:
            panel.line([(band + 0.05, chance), (band + 0.95, chance)], LEVEL)
        if row.get("low") is not None and row.get("high") is not None:
            panel.line([(at, row["low"]), (at, row["high"])], look, 1.5)
        tells = f"data: {row['data']}; value: {row['value']:.6g}; model: {row['model']}"
        panel.point(at, row["value"], look, filled=not row.get("published"), tells=tells)
    return panel


def scale(expression: Expression, values: Sequence[float], title: str = "") -> Axis:
    """Return the axis of a metric: an index ends at 1, other metrics where their range does."""
    if isinstance(expression, Adjusted):
        if expression.adjustment == "z":
            return signed_log(values, title)
        if expression.adjustment == "index":
            low = None if min(values) < 0 else 0.0
            return linear([*values, 1.0], low=low, high=1.0, title=title)
        return linear([0.0, *values], title=title)
    return linear([0.0, *values], most=expression.range[1], title=title)


def distribution(rows: Iterable[Row]) -> Chart:
    """Draw the cumulative distribution of ranks for each data set, with that of random ranking.

    A row has `data`, `model` (empty for random ranking), `rank` and `share`.
    """
    rows = drawable(rows)
    looks = of_models([model for model in distinct(rows, "model") if model], lines=True)
    shares = Axis(0.0, 1.0, tuple((i / 5, f"{20 * i}%") for i in range(6)))

    def one(data: str) -> Panel:
        mine = [row for row in rows if row["data"] == data]
        ranks = [row["rank"] for row in mine]
        digits = (1, 2, 5) if max(ranks) < TWO_DECADES else (1,)
        panel = Panel(data, logarithmic(ranks, digits, "rank k"), shares)
        for model in distinct(mine, "model"):
            points = [(row["rank"], row["share"]) for row in mine if row["model"] == model]
            panel.line(points, looks.get(model, CHANCE), tells=f"model: {model or 'random ranking'}")
        return panel

    drawn = tuple(map(one, distinct(rows, "data")))
    note = "Share of targets with rank at most k. Short dashes: random ranking."
    return Chart(drawn, looks, note, lines=True)


def relations(rows: Iterable[Row], metric: str, note: str = "") -> Chart:
    """Draw the index of every model by relation, for each data set; chance level is at 0.

    A row has `data`, `relation`, `model`, `value` and `count`; relations keep their order. `note` tells
    which relations are shown, if not all are.
    """
    rows = drawable(rows)
    looks = of_models(distinct(rows, "model"))
    expression = parse(metric)

    def one(data: str) -> Panel:
        mine = [row for row in rows if row["data"] == data]
        kinds, models = distinct(mine, "relation"), distinct(mine, "model")
        x = scale(expression, [row["value"] for row in mine], f"{metric} {arrow(expression)}")
        y = names(kinds[::-1])  # the first is on top
        height = max(22.0, 4.2 * (len(models) + 1)) * len(kinds)
        panel = Panel(data, x, y, height=height, rows=True)
        panel.level(0.0, CHANCE)
        for row in mine:
            top = len(kinds) - kinds.index(row["relation"])
            at = top - (models.index(row["model"]) + 1) / (len(models) + 1)
            tells = (
                f"relation: {row['relation']}; model: {row['model']}; value: {row['value']:.6g}; "
                f"count: {row['count']:,}"
            )
            panel.point(row["value"], at, looks[row["model"]], tells=tells)
        return panel

    drawn = tuple(map(one, distinct(rows, "data")))
    return Chart(drawn, looks, f"Dashed: chance level. {note}".rstrip())


def calibration(rows: Iterable[Row]) -> Chart:
    """Draw the exact tail probabilities of z divided by those of a normal distribution, by metric.

    A row has `data`, `metric`, `z` and `ratio`.
    """
    rows = [row for row in drawable(rows) if row["ratio"] > 0]  # others have no logarithm
    looks = {data: Look("ink", SHAPES[i % len(SHAPES)]) for i, data in enumerate(distinct(rows, "data"))}

    def one(metric: str) -> Panel:
        mine = [row for row in rows if row["metric"] == metric]
        steps = [row["z"] for row in mine]
        ticks = tuple((float(z), f"{z:g}") for z in dict.fromkeys(steps))
        x = Axis(min(steps) - 0.2, max(steps) + 0.2, ticks, "z")
        ratios = [row["ratio"] for row in mine]
        low, high = min(0.5, *ratios) / 1.2, max(2.0, *ratios) * 1.2
        digits = (1, 2, 5) if high / low < TWO_DECADES else (1,)
        panel = Panel(f"z({metric})", x, logarithmic([low, high], digits, "exact / normal"))
        panel.level(1.0, CHANCE)
        for data, look in looks.items():  # a line per data set, since z grows along it
            line = [(row["z"], row["ratio"]) for row in mine if row["data"] == data]
            if line:
                panel.line(line, Look("muted"), 1, opacity=0.6)
            for z, ratio in line:
                panel.point(z, ratio, look, tells=f"data: {data}; z: {z:g}; ratio: {ratio:.6g}")
        return panel

    drawn = tuple(map(one, distinct(rows, "metric")))
    return Chart(drawn, looks, "Dashed: normal distribution.")


# Drawing ------------------------------------------------------------------------------------------


def svg(chart: Chart, theme: Theme = "light") -> str:
    """Return a chart as one SVG: its note, its legend, and its panels in rows."""
    columns = chart.columns
    wide = max(panel.width for panel in chart.panels)
    width = 2 * EDGE + columns * wide + (columns - 1) * GAP
    parts = [words(EDGE, EDGE + SIZE, chart.note, room=width - 2 * EDGE)]
    entries, y = _legend(chart, width - EDGE, EDGE + 2 * SIZE + 8)
    parts += entries
    for start in range(0, len(chart.panels), columns):
        row = chart.panels[start : start + columns]
        for i, panel in enumerate(row):
            x = EDGE + i * (wide + GAP)
            parts.append(f'<g transform="translate({x:.1f}, {y:.1f})">{panel.inner()}</g>')
        y += max(panel.height for panel in row) + GAP
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{y:.0f}" '
        f'viewBox="0 0 {width:.0f} {y:.0f}" font-family="{FONT}">'
        f'<rect width="100%" height="100%" fill="var(--card)"/>{"".join(parts)}</svg>'
    )
    # attributes only: quotes in names are escaped, so that no name looks like one
    return VARIABLE.sub(lambda found: f'"{COLOURS[found[1]][theme == "dark"]}"', drawing)


def _legend(chart: Chart, right: float, y: float) -> tuple[list[str], float]:
    """Return the entries of a legend in as many lines as they need, and where it ends."""
    parts, x = [], EDGE
    for name, look in chart.legend.items():
        sample = 30.0 if chart.lines else 14.0
        label = cut(name, 240)
        if x > EDGE and x + sample + breadth(label) > right:
            x, y = EDGE, y + 18
        parts.append(f'<g transform="translate({x:.1f}, {y:.1f})">{swatch(look, chart.lines)}</g>')
        parts.append(words(x + sample + 4, y + 4, name, room=240))
        x += sample + breadth(label) + 22
    return parts, y + 16 if parts else y


def swatch(look: Look, line: bool) -> str:
    """Return the sample of a legend, at the height 0 from 0 on."""
    if line:
        return f'<path d="M0,0H28" {look.stroke(2)}/>'
    return f'<path transform="translate(6,0)" d="{PATHS[look.shape]}" {look.fill(True)}/>'


def save(chart: Chart, path: str | os.PathLike[str], theme: Theme = "light") -> Path:
    """Save a chart as SVG, PNG or PDF, by the suffix of the path."""
    path = Path(path)
    convert = converter(path)
    with replacing(path) as file:
        file.write_bytes(convert(svg(chart, theme)))
    return path


def converter(path: Path) -> Callable[[str], bytes]:
    """Return what turns SVG into the format of a path."""
    form = path.suffix.lower()
    if form not in FORMATS:
        raise InputError("unknown format of a chart", got=path.name, allowed=", ".join(FORMATS))
    if form == ".svg":
        return str.encode
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise InputError(
            "PNG and PDF need vl-convert-python", got=path.name, do="install evenrank[report]"
        ) from None
    if form == ".pdf":
        return lambda drawing: bytes(vl_convert.svg_to_pdf(drawing))
    return lambda drawing: bytes(vl_convert.svg_to_png(drawing, scale=2))


# Shared by all charts -------------------------------------------------------------------------------


def of_models(models: Sequence[str], lines: bool = False) -> dict[str, Look]:
    """Return the look of each model; lines, which have no shapes, differ in their dashes."""
    return {
        model: Look(
            HUES[i % len(HUES)],
            SHAPES[i % len(SHAPES)],
            STROKES[i // len(HUES) % len(STROKES)] if lines else "",
        )
        for i, model in enumerate(models)
    }


def drawable(rows: Iterable[Row]) -> list[Row]:
    r"""Replace characters that SVG cannot hold.

    >>> drawable([{"model": "a\x01b", "value": 0.5}]) == [{"model": "a\ufffdb", "value": 0.5}]
    True
    """
    return [
        {k: UNDRAWABLE.sub("\ufffd", v) if isinstance(v, str) else v for k, v in row.items()}
        for row in rows
    ]


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Return the distinct values of a column, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows))
