"""Axes, marks and charts as SVG: where they are, and what they show."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenrank.metrics.grammar import parse
from evenrank.report import charts
from evenrank.report.plot import Axis, Look, Panel, cut, linear, logarithmic, names, signed_log

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_linear_axes_have_round_ends_and_hold_all_values(values):
    axis = linear(values)
    near = 1e-8 * max(1.0, *map(abs, values))
    assert axis.low <= min(values) + near
    assert axis.high >= max(values) - near
    ticks = [tick for tick, _ in axis.ticks]
    assert 2 <= len(ticks) <= 8
    np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-6)
    assert len({name for _, name in axis.ticks}) == len(ticks)


@pytest.mark.parametrize("values", [[0.02], [0.3, 0.81], [0.999], [1.0], [-0.4, 0.2], [-7.0, 0.9]])
def test_axes_of_an_index_end_at_1(values):
    axis = charts.scale(parse("index(mrr)"), values)
    assert axis.high == axis.ticks[-1][0] == 1.0
    assert axis.low <= min(0.0, *values)
    assert axis.low == 0 or min(values) < 0


@pytest.mark.parametrize("value", [0.03, 0.45, 0.97, 1.0])
def test_axes_of_a_metric_start_at_0_and_end_where_its_range_does(value):
    axis = charts.scale(parse("mrr"), [value])
    assert axis.low == 0
    assert value <= axis.high <= 1
    assert charts.scale(parse("mr"), [1000 * value]).high >= 1000 * value


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_signed_logarithmic_axes_keep_order_and_are_odd(values):
    axis = signed_log(values)
    places = [axis.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert -1e-12 <= places[0] <= places[-1] <= 1
    mirrored = signed_log([-value for value in values])
    assert axis.warp(3.0) == -mirrored.warp(-3.0)


def test_logarithmic_axes_place_powers_evenly():
    axis = logarithmic([1, 1000])
    assert [axis.at(10.0**i) for i in range(4)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert [name for _, name in logarithmic([1, 60], (1, 2, 5)).ticks] == [
        "1",
        "2",
        "5",
        "10",
        "20",
        "50",
    ]


@given(st.text(max_size=60), st.floats(20, 200))
def test_cut_texts_keep_both_ends(text, room):
    short = cut(text, room)
    if short != text:
        head, tail = short.split("…") if text.count("…") == 0 else (short[:1], short[-1:])
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(short) <= len(text)


def test_marks_are_where_the_axes_say():
    panel = Panel("title", linear([0, 10]), linear([0, 1]))
    for value in (0.0, 2.5, 10.0):
        panel.point(value, value / 10, Look("ink"), tells=str(value))
    root = ET.fromstring(panel.svg())
    points = [e for e in root if e.get("aria-roledescription") == "point"]
    spots = [tuple(map(float, re.findall(r"[\d.]+", e.get("transform")))) for e in points]
    np.testing.assert_allclose(spots, [panel.place(v, v / 10) for v in (0.0, 2.5, 10.0)], atol=0.01)
    (x0, y0), (x1, y1), (x2, y2) = spots
    assert (x1 - x0) / (x2 - x0) == pytest.approx(0.25, abs=1e-4)
    assert y0 > y1 > y2  # larger values are higher


@pytest.mark.parametrize("count", [2, 12])
def test_names_that_do_not_fit_are_tilted(count):
    x = names([f"data set {i}" for i in range(count)])
    drawn = Panel("title", x, linear([0, 1])).svg()
    assert ("rotate(-35" in drawn) == (count == 12)
    root = ET.fromstring(drawn)
    width = float(root.get("viewBox").split()[2])
    assert all(0 <= float(e.get("x")) <= width for e in root if e.tag == "text")


def test_many_models_get_wider_panels():
    def width(models):
        rows = [
            {"data": f"d{d}", "model": f"m{m}", "metric": "mrr", "value": 0.5}
            for d in range(4)
            for m in range(models)
        ]
        (panel,) = charts.panels(rows).panels
        root = ET.fromstring(panel.svg())
        at = [e.get("transform") for e in root if e.get("aria-roledescription") == "point"]
        x = sorted(float(re.findall(r"[\d.]+", where)[0]) for where in at)
        assert min(b - a for a, b in pairwise(x)) > 4
        return panel.width

    assert width(3) < width(30)


def test_data_sets_are_not_joined_by_lines():
    rows = [
        {"data": d, "model": m, "metric": metric, "value": v, "low": v - 0.1, "high": v + 0.1}
        for metric in charts.PAPER
        for d, v in (("a", 0.3), ("b", 0.6))
        for m in ("m", "n")
    ]
    drawn = charts.svg(charts.panels(rows))
    for path in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}path"):
        if (path.get("stroke") or "") in [colour for colour, _ in charts.COLOURS.values()][5:]:
            ends = re.fullmatch(r"M([\d.]+),[\d.]+L([\d.]+),[\d.]+", path.get("d"))
            assert ends is None or ends[1] == ends[2]  # the bar of an interval is vertical


def test_one_value_has_an_axis():
    assert isinstance(linear([0.0]), Axis)
    assert linear([3.0]).at(3.0) == 0
    chart = charts.calibration([{"data": "d", "metric": "mrr", "z": 1, "ratio": r} for r in (1.0, 0.0)])
    assert charts.svg(chart).count('aria-roledescription="point"') == 1  # 0 has no logarithm
