"""Charts: values and chance levels as altair charts in one style, for the page and for papers.

Every function takes rows (dictionaries) and returns an altair chart. Charts are drawn in the light
colours; for a dark theme, or for the style sheet of a page, the colours in the SVG are replaced. A model
has the same colour and shape in every chart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evenrank._internal.files import replacing
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import arrow

if TYPE_CHECKING:
    from altair import ConcatChart, HConcatChart

Row: TypeAlias = Mapping[str, Any]
Chart: TypeAlias = "ConcatChart | HConcatChart"
Part: TypeAlias = Any  # of a chart; altair is imported when first used, too late for its types
Theme = Literal["light", "dark", "page"]
FORMATS = (".svg", ".png", ".pdf")
PAPER = ("mrr", "index(mrr)", "z(mrr)")

# name: light, dark; every colour once, since colours are replaced as text
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
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
HUES = [colour for name, colour in LIGHT.items() if name.startswith("model-")]
# seven shapes and eight hues distinguish fifty-six models
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right"]
CHANCE = {"color": LIGHT["chance"], "strokeDash": [4, 3], "strokeWidth": 1.5}
UNDRAWABLE = re.compile("[\\x00-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")
TWO_DECADES = 100  # shorter axes are labelled at 2 and 5 as well
STROKES = [[1, 0], [9, 3], [2, 2], [9, 3, 2, 3]]
FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"  # same widths in browsers as in vl-convert


def panels(rows: Iterable[Row], metrics: Sequence[str] = PAPER) -> Chart:
    """Draw a panel per metric, with data sets side by side and a point per model.

    A row has `data`, `model`, `metric` and `value`; optionally `low` and `high` (an interval), `chance`
    (the chance level of a plain metric) and `published` (true: drawn hollow). Data sets and models keep
    the order of the rows.
    """
    rows = [dict(row, published=bool(row.get("published"))) for row in drawable(rows)]
    found = [metric for metric in metrics if any(row["metric"] == metric for row in rows)]
    if not found:
        raise InputError("no rows to draw", got=f"none of {', '.join(metrics)}")
    alt = altair()
    chart = alt.hconcat(
        *(_panel([row for row in rows if row["metric"] == metric], metric, rows) for metric in found)
    )
    notes = {
        "Filled: exact. Hollow: as published.": any(row["published"] for row in rows),
        "Horizontal bars and dashes: chance level.": any("chance" in row for row in rows)
        or len(found) > 1,
        "Vertical bars: confidence intervals.": any("low" in row for row in rows),
    }
    return finish(chart, " ".join(note for note, so in notes.items() if so))


def _panel(rows: list[Row], metric: str, every: Sequence[Row]) -> Part:
    alt = altair()
    data, models = distinct(every, "data"), distinct(every, "model")
    values = [
        row[name] for row in rows for name in ("value", "low", "high") if row.get(name) is not None
    ]
    expression = parse(metric)
    z = isinstance(expression, Adjusted) and expression.adjustment == "z"
    scale = (
        alt.Scale(type="symlog", constant=1, nice=False, domainMax=1.2 * max(1.0, *values))
        if z
        else alt.Scale(domainMin=min(0.0, *values), nice=True)
    )
    short = "format(datum.value, '~s')"  # a symlog axis would write 10 as 0k next to 1k
    ticks = {"values": decades(values), "labelExpr": short} if z else {"tickCount": 6, "format": "~g"}
    axis = alt.Axis(grid=True, **ticks)
    base = alt.Chart(alt.Data(values=rows), width=322, height=260)
    x = alt.X("data:N", sort=data, title=None, axis=alt.Axis(labelAngle=-30 if len(data) > 3 else 0))
    offset = alt.XOffset("model:N", sort=models)
    y = alt.Y("value:Q", title=None, scale=scale, axis=axis)
    colour, shape = of_models(models)
    shown = [f"{name}:{kind}" for name, kind in (("data", "N"), ("model", "N"), ("value", "Q"))]
    layers = [
        base.mark_rule(**CHANCE).encode(y=alt.YDatum(0, title=None, scale=scale, axis=axis)),
        base.transform_filter("datum.chance != null")
        .mark_tick(
            color=LIGHT["chance"], thickness=2, orient="horizontal", opacity=1, width={"band": 0.9}
        )
        .encode(x=x, y=alt.Y("chance:Q", title=None), tooltip=["data:N", "chance:Q"]),
        base.transform_filter("!datum.published")
        .mark_line(strokeWidth=1, opacity=0.4)
        .encode(x=x, xOffset=offset, y=y, color=colour, detail="model:N"),
        base.transform_filter("datum.low != null")
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, xOffset=offset, y=alt.Y("low:Q", title=None), y2="high:Q", color=colour),
        *(
            base.transform_filter(f"datum.published == {str(published).lower()}")
            .mark_point(size=45, strokeWidth=1.5, opacity=1, filled=not published)
            .encode(x=x, xOffset=offset, y=y, color=colour, shape=shape, tooltip=shown)
            for published in distinct(rows, "published")
        ),
    ]
    plain = not isinstance(expression, Adjusted)
    # an invisible mark keeps the titles of all panels at the same height
    unseen = alt.Chart(alt.Data(values=[{}])).mark_rule(opacity=0)
    lift = unseen.encode(x=alt.value(0), y=alt.value(-9), y2=alt.value(0))
    return alt.layer(lift, *layers[plain:], title=f"{metric} {arrow(expression)}")


def distribution(rows: Iterable[Row], columns: int = 2) -> Chart:
    """Draw the cumulative distribution of ranks for each data set, with that of random ranking.

    A row has `data`, `model` (empty for random ranking), `rank` and `share`.
    """
    alt = altair()
    rows = drawable(rows)
    models = [model for model in distinct(rows, "model") if model]
    legend = alt.Legend(columns=8, symbolSize=400)
    looks = {"color": of_models(models, legend)[0]}
    if len(models) > len(HUES):  # lines have no shapes to distinguish models of one hue
        strokes = [STROKES[i // len(HUES) % len(STROKES)] for i in range(len(models))]
        scale = alt.Scale(domain=models, range=strokes)
        looks["strokeDash"] = alt.StrokeDash(
            "model:N", sort=models, scale=scale, title=None, legend=legend
        )

    def one(data: str) -> Part:
        base = alt.Chart(alt.Data(values=[r for r in rows if r["data"] == data]), width=475, height=260)
        few = max(r["rank"] for r in rows if r["data"] == data) < TWO_DECADES
        axis = powers((1, 2, 5) if few else (1,))
        x = alt.X("rank:Q", scale=alt.Scale(type="log", nice=False), title="rank k", axis=axis)
        y = alt.Y("share:Q", scale=alt.Scale(domain=[0, 1]), title="share of targets with rank ≤ k")
        y.axis = alt.Axis(format=".0%", tickCount=5)
        return alt.layer(
            base.transform_filter("datum.model == ''")
            .mark_line(**CHANCE | {"strokeWidth": 2})
            .encode(x=x, y=y),
            base.transform_filter("datum.model != ''")
            .mark_line(strokeWidth=2)
            .encode(x=x, y=y, **looks),
            title=data,
        )

    return finish(
        alt.concat(*map(one, distinct(rows, "data")), columns=columns), "Short dashes: random ranking."
    )


def relations(rows: Iterable[Row], metric: str, note: str = "", columns: int = 2) -> Chart:
    """Draw the index of every model by relation, for each data set; chance level is at 0.

    A row has `data`, `relation`, `model`, `value` and `count`; relations keep their order. `note` tells
    which relations are shown, if not all are.
    """
    alt = altair()
    rows = drawable(rows)
    models = distinct(rows, "model")
    colour, shape = of_models(models)

    def one(data: str) -> Part:
        mine = [row for row in rows if row["data"] == data]
        # models are offset, so that equal values do not overlap
        step = {"step": max(24, 4 * len(models)), "for": "position"}
        base = alt.Chart(alt.Data(values=mine), width=405, height=step)
        names = alt.Axis(labelLimit=150, ticks=False, grid=True)
        y = alt.Y("relation:N", sort=distinct(mine, "relation"), title=None, axis=names)
        y.scale = alt.Scale(paddingInner=0.4, paddingOuter=0.2)
        x = alt.X("value:Q", title=f"{metric} {arrow(parse(metric))}", scale=alt.Scale(padding=8))
        x.axis = alt.Axis(tickCount=6, format="~g")
        return alt.layer(
            base.mark_rule(**CHANCE).encode(x=alt.datum(0)),
            base.mark_point(filled=True, size=45, opacity=0.9).encode(
                y=y,
                yOffset=alt.YOffset("model:N", sort=distinct(mine, "model")),
                x=x,
                color=colour,
                shape=shape,
                tooltip=["relation:N", "model:N", "value:Q", "count:Q"],
            ),
            title=data,
        )

    chart = alt.concat(*map(one, distinct(rows, "data")), columns=columns)
    return finish(chart, f"Dashed: chance level. {note}".rstrip())


def calibration(rows: Iterable[Row], columns: int = 3) -> Chart:
    """Draw the exact tail probabilities of z divided by those of a normal distribution, by metric.

    A row has `data`, `metric`, `z` and `ratio`.
    """
    alt = altair()
    rows = drawable(rows)
    data = distinct(rows, "data")

    def one(metric: str) -> Part:
        base = alt.Chart(
            alt.Data(values=[r for r in rows if r["metric"] == metric]), width=295, height=220
        )
        x = alt.X("z:Q", title="z", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(padding=8))
        y = alt.Y("ratio:Q", title="exact / normal", scale=alt.Scale(type="log"), axis=powers())
        kind = alt.Shape(
            "data:N", sort=data, scale=alt.Scale(domain=data, range=cycle(SHAPES, len(data))), title=None
        )
        return alt.layer(
            base.mark_rule(**CHANCE).encode(y=alt.datum(1)),
            base.mark_line(color=LIGHT["muted"], strokeWidth=1, opacity=0.6).encode(
                x=x, y=y, detail="data:N"
            ),
            base.mark_point(color=LIGHT["ink"], size=45, strokeWidth=1.5).encode(
                x=x, y=y, shape=kind, tooltip=["data:N", "z:Q", "ratio:Q"]
            ),
            title=f"z({metric})",
        )

    chart = alt.concat(*map(one, distinct(rows, "metric")), columns=columns)
    return finish(chart, "Dashed: normal distribution.")


# Drawing ------------------------------------------------------------------------------------------


def svg(chart: Chart, theme: Theme = "light") -> str:
    """Return a chart as SVG; for a page, colours are CSS variables such as var(--ink)."""
    import vl_convert

    # validation, done in the tests, would take as long as drawing
    drawing = str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))
    for name, (light, dark) in COLOURS.items():
        colour = {"light": light, "dark": dark, "page": f"var(--{name})"}[theme]
        drawing = drawing.replace(f'"{light}"', f'"{colour}"')  # attributes only, not names
    return drawing


def save(chart: Chart, path: str | os.PathLike[str], theme: Theme = "light") -> Path:
    """Save a chart as SVG, PNG or PDF, by the suffix of the path."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError("unknown format of a chart", got=path.name, allowed=", ".join(FORMATS))
    drawing = svg(chart, theme)
    with replacing(path) as file:
        file.write_bytes(_convert(drawing, path.suffix.lower()))
    return path


def _convert(drawing: str, form: str) -> bytes:
    import vl_convert

    if form == ".svg":
        return drawing.encode()
    return bytes(
        vl_convert.svg_to_png(drawing, scale=2) if form == ".png" else vl_convert.svg_to_pdf(drawing)
    )


@cache
def altair() -> Any:
    """Import altair; raise `InputError` if it is not installed."""
    try:
        import altair
        import vl_convert  # noqa: F401  # renders charts of altair
    except ModuleNotFoundError:
        raise InputError(
            "charts need altair and vl-convert-python", do="install evenrank[report]"
        ) from None
    return altair


# Shared by all charts -------------------------------------------------------------------------------


def finish(chart: Part, note: str = "") -> Chart:
    """Apply the common style to a chart, with a note above it."""
    muted, ink = LIGHT["muted"], LIGHT["ink"]
    text = {"labelColor": muted, "titleColor": muted, "labelFontSize": 12, "titleFontSize": 12}
    config = {
        "background": LIGHT["card"],
        "padding": {"left": 5, "top": 5, "right": 12, "bottom": 5},  # room for the last label
        "font": FONT,
        "axis": text
        | {
            "titleFontWeight": "normal",
            "gridColor": LIGHT["rule"],
            "domainColor": LIGHT["rule"],
            "tickColor": LIGHT["rule"],
        },
        "axisX": {"grid": False},
        "legend": text
        | {"orient": "top", "symbolOpacity": 1, "symbolStrokeWidth": 2, "labelLimit": 240},
        "title": {"color": ink, "fontSize": 14, "anchor": "start", "frame": "group", "limit": 420},
        "view": {"stroke": None},
    }
    if note:
        quiet = {"fontSize": 12, "fontWeight": "normal", "color": muted, "offset": 12, "limit": 900}
        chart = chart.properties(title={"text": note, **quiet})
    common = dict.fromkeys(("color", "shape", "strokeDash"), "shared")
    separate = dict.fromkeys(("x", "xOffset", "yOffset"), "independent")
    shared = chart.resolve_scale(**common, **separate)
    return shared.configure(**config)  # type: ignore[no-any-return]


def of_models(models: Sequence[str], legend: Part = None) -> tuple[Part, Part]:
    """Return the colour and shape encodings of models, with one legend."""
    alt = altair()
    colours = alt.Scale(domain=list(models), range=cycle(HUES, len(models)))
    shapes = alt.Scale(domain=list(models), range=cycle(SHAPES, len(models)))
    legend = legend or alt.Legend(columns=8)
    return (
        alt.Color("model:N", sort=list(models), scale=colours, title=None, legend=legend),
        alt.Shape("model:N", sort=list(models), scale=shapes, title=None, legend=legend),
    )


def powers(first: Sequence[int] = (1,)) -> Part:
    """Return a logarithmic axis that labels only ticks with these leading digits: 1, 10, 100, 1k."""
    alt = altair()
    digit = "round(1e6 * datum.value / pow(10, floor(log(datum.value)/LN10 + 1e-9))) / 1e6"
    return alt.Axis(
        labelExpr=f"indexof({list(first)}, {digit}) >= 0 "
        "? format(datum.value, datum.value < 1 ? '~g' : '~s') : ''",
        grid=False,
    )


def decades(values: Sequence[float]) -> list[float]:
    """Return 0 and the powers of ten, of both signs, in the range of the values.

    >>> decades([-3, 250])
    [-1.0, 0.0, 1.0, 10.0, 100.0]
    """

    def up_to(limit: float) -> list[float]:
        return [10.0**i for i in range(floor(log10(limit)) + 1)] if limit >= 1 else []

    down = [-power for power in reversed(up_to(-min(values)))]
    ticks = [*down, 0.0, *up_to(max(values))]
    return ticks[:: ceil(len(ticks) / 12)]


def drawable(rows: Iterable[Row]) -> list[Row]:
    r"""Replace characters that SVG cannot hold, which would crash the drawing library.

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


def cycle(values: Sequence[str], n: int) -> list[str]:
    """Repeat values until there are n."""
    return [values[i % len(values)] for i in range(n)]
