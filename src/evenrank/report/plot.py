"""Panels: axes, lines and marks as SVG text.

A panel is a drawing of its own, so that a page can put panels side by side or below each other. Colours
are CSS variables in attributes, such as `fill="var(--ink)"`; text of users is escaped, so that it cannot
look like one. Reports draw hundreds of marks at most: writing them takes milliseconds, where a charting
library takes a second to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, cos, floor, inf, log1p, log10, radians, sin
from typing import final
from unicodedata import east_asian_width

WIDTH, HEIGHT = 340.0, 250.0
SIZE = 12.0  # of text
TITLE = 14.0
TILT = radians(35.0)  # of names that do not fit side by side
LONGEST = 150.0  # a longer name is cut, and shown in full by a tooltip
NARROW, BROAD = frozenset("fijlrtI.,:;'|!()[]/ -"), frozenset("mwMW@%")
ALIKE = 1e-9  # relative; values closer than this are drawn as one
DASHES = "4 3"
PATHS = {  # of marks, around 0
    "circle": "M3.8,0A3.8,3.8,0,1,1,-3.8,0A3.8,3.8,0,1,1,3.8,0Z",
    "square": "M-3.4,-3.4H3.4V3.4H-3.4Z",
    "triangle-up": "M0,-4.4L4.4,3.3H-4.4Z",
    "diamond": "M0,-5L3.6,0L0,5L-3.6,0Z",
    "cross": "M-4.5,-1.5H-1.5V-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5Z",
    "triangle-down": "M0,4.4L4.4,-3.3H-4.4Z",
    "triangle-right": "M4.4,0L-3.3,4.4V-4.4Z",
}


@dataclass(frozen=True)
class Look:
    """The colour, shape and dashes of a model or data set."""

    colour: str
    shape: str = "circle"
    dash: str = ""

    def stroke(self, width: float, opacity: float = 1.0) -> str:
        """Return the attributes of a line."""
        dash = f' stroke-dasharray="{self.dash}"' if self.dash else ""
        faint = f' opacity="{opacity:g}"' if opacity < 1 else ""
        return f'fill="none" stroke="var(--{self.colour})" stroke-width="{width:g}"{dash}{faint}'

    def fill(self, filled: bool) -> str:
        """Return the attributes of a mark."""
        inside = f"var(--{self.colour})" if filled else "none"
        return f'fill="{inside}" stroke="var(--{self.colour})" stroke-width="1.5"'


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high`, evenly spaced after `warp`, with labelled ticks."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    warp: Callable[[float], float] = float
    bands: bool = False  # names, each of width 1

    def at(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        low, high = self.warp(self.low), self.warp(self.high)
        return (self.warp(value) - low) / (high - low)


def linear(
    values: Iterable[float],
    *,
    low: float | None = None,
    high: float | None = None,
    most: float = inf,
    title: str = "",
) -> Axis:
    """Return a linear axis with round ends, or with those given; it ends at `most` at the latest.

    >>> axis = linear([0.12, 0.87], low=0, most=1)
    >>> axis.high, [name for _, name in axis.ticks]
    (1.0, ['0', '0.2', '0.4', '0.6', '0.8', '1'])
    """
    values = list(values)
    first = min(values) if low is None else low
    last = max(values) if high is None else high
    last = last if last - first > ALIKE * max(1.0, abs(first), abs(last)) else first + 1.0
    step = round_step((last - first) / 5)
    if low is None:
        first = floor(first / step + 1e-9) * step
    if high is None:
        last = ceil(last / step - 1e-9) * step
        last = min(last, most)
    numbers = range(ceil(first / step - 1e-9), floor(last / step + 1e-9) + 1)
    ticks = [i * step for i in numbers]
    if ticks[-1] < last - 0.4 * step:  # an end that was given
        ticks.append(last)
    return Axis(float(first), float(last), tuple((tick, short(tick)) for tick in ticks), title)


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is at least this.

    >>> [round_step(x) for x in (0.174, 0.9, 22)]
    [0.2, 1.0, 25.0]
    """
    power = 10.0 ** floor(log10(least))
    return next(x for x in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if x >= least * 0.999)


def logarithmic(values: Iterable[float], first: Sequence[int] = (1,), title: str = "") -> Axis:
    """Return a logarithmic axis with ticks at these leading digits.

    >>> [name for _, name in logarithmic([1, 3000]).ticks]
    ['1', '10', '100', '1k']
    """
    values = list(values)
    low, high = min(values), max(values)
    high = high if high > low else low * 10
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [(digit * 10.0**power) for power in powers for digit in first]
    shown = tuple((tick, short(tick)) for tick in ticks if low * 0.999 <= tick <= high * 1.001)
    return Axis(low, high, shown, title, log10)


def signed_log(values: Iterable[float], title: str = "") -> Axis:
    """Return an axis that is linear around 0 and logarithmic far from it, on both sides."""
    values = list(values)
    low, high = 1.2 * min(0.0, *values), 1.2 * max(1.0, *values)
    return Axis(low, high, tuple((x, short(x)) for x in decades((low, high))), title, _symlog)


def _symlog(value: float) -> float:
    return log1p(value) if value >= 0 else -log1p(-value)


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


def names(given: Sequence[str], title: str = "") -> Axis:
    """Return an axis of names, each in a band of width 1."""
    ticks = tuple((i + 0.5, name) for i, name in enumerate(given))
    return Axis(0.0, float(len(given)), ticks, title, bands=True)


def short(value: float) -> str:
    """Write the number of a tick.

    >>> [short(x) for x in (0, 0.25, -10, 20_000, 1e6, 0.30000000000000004, 1e-6)]
    ['0', '0.25', '−10', '20k', '1M', '0.3', '1e−06']
    """
    size, letter = next(
        ((size, letter) for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= size),
        (1.0, ""),
    )
    return f"{value / size:.12g}{letter}".replace("-", "−")


def breadth(text: str, size: float = SIZE) -> float:
    """Estimate the width of a text in pixels, in a wide sans-serif font."""
    return size * sum(
        0.36
        if letter in NARROW
        else 0.95
        if letter in BROAD
        else 1.0
        if east_asian_width(letter) in "WF"
        else 0.7
        if letter.isupper()
        else 0.61
        for letter in text
    )


def cut(text: str, room: float, size: float = SIZE) -> str:
    """Shorten a text to a width, in its middle, since names of relations often differ at the end.

    >>> cut("/people/person/place_of_birth", 150)
    '/people/per…ce_of_birth'
    """
    if breadth(text, size) <= room:
        return text
    kept = len(text)
    while kept > 1 and breadth(_ends(text, kept), size) > room:
        kept -= 1
    return _ends(text, kept)


def _ends(text: str, kept: int) -> str:
    """Return some letters of a text, half of them from its end."""
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def words(
    x: float,
    y: float,
    text: str,
    *,
    room: float = 1e9,
    size: float = SIZE,
    colour: str = "muted",
    anchor: str = "start",
    turn: float = 0.0,
    bold: bool = False,
) -> str:
    """Return a text, cut to a width; a tooltip shows what was cut."""
    shown = cut(text, room, size)
    whole = f"<title>{escape(text)}</title>" if shown != text else ""
    how = f' text-anchor="{anchor}"' if anchor != "start" else ""
    how += f' transform="rotate({turn:g} {x:.1f} {y:.1f})"' if turn else ""
    how += ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="var(--{colour})"{how}>'
        f"{escape(shown)}{whole}</text>"
    )


@final
class Panel:
    """A drawing with a title, two axes, and marks at values of these axes."""

    def __init__(
        self,
        title: str,
        x: Axis,
        y: Axis,
        *,
        width: float = WIDTH,
        height: float = HEIGHT,
        rows: bool = False,
    ) -> None:
        """Lay out the axes; grid lines are vertical if `rows`, otherwise horizontal."""
        self.title, self.x, self.y, self.width = title, x, y, width
        self._rows = rows
        room = LONGEST if y.bands else 60.0
        self._room = min(room, max((breadth(name) for _, name in y.ticks), default=0.0) + 2)
        self._left = self._room + 8 + (18 if y.title else 0)
        self._right = width - max(12.0, 0 if x.bands or not x.ticks else breadth(x.ticks[-1][1]) / 2 + 2)
        band = (self._right - self._left) / max(1.0, x.high) if x.bands else 0.0
        longest = min(LONGEST, max((breadth(name) for _, name in x.ticks), default=0.0))
        self._tilted = x.bands and longest > band - 4
        if self._tilted:  # the first name must not begin outside
            self._left = max(self._left, cos(TILT) * breadth(x.ticks[0][1]) - band / 2)
        below = sin(TILT) * longest + 18 if self._tilted else 22
        self._top, self._bottom = 30.0, 30.0 + height
        self.height = self._bottom + below + (18 if x.title else 0)
        self._marks: list[str] = []

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of values in the drawing."""
        return (
            self._left + self.x.at(x) * (self._right - self._left),
            self._bottom - self.y.at(y) * (self._bottom - self._top),
        )

    # Marks ------------------------------------------------------------------------------------------

    def line(
        self,
        points: Iterable[tuple[float, float]],
        look: Look,
        width: float = 2.0,
        *,
        opacity: float = 1.0,
        tells: str = "",
    ) -> None:
        """Draw a line through points; `tells` is its tooltip."""
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in (self.place(*point) for point in points))
        tip = f' aria-roledescription="line mark" aria-label="{escape(tells)}"' if tells else ""
        self._marks.append(f'<path d="M{path}" {look.stroke(width, opacity)}{tip}/>')

    def level(self, value: float, look: Look, width: float = 1.5) -> None:
        """Draw a line across the panel: vertical if the grid is."""
        ends = (
            [(value, self.y.low), (value, self.y.high)]
            if self._rows
            else [(self.x.low, value), (self.x.high, value)]
        )
        self.line(ends, look, width)

    def point(self, x: float, y: float, look: Look, *, filled: bool = True, tells: str) -> None:
        """Draw a mark; `tells` is its tooltip."""
        x, y = self.place(x, y)
        self._marks.append(
            f'<path transform="translate({x:.2f},{y:.2f})" d="{PATHS[look.shape]}" {look.fill(filled)} '
            f'role="img" aria-roledescription="point" aria-label="{escape(tells)}"/>'
        )

    # The drawing ------------------------------------------------------------------------------------

    def inner(self) -> str:
        """Return everything that is in the panel."""
        title = words(2, 15, self.title, room=self.width - 4, size=TITLE, colour="ink", bold=True)
        return "".join([title, *self._horizontal(), *self._vertical(), *self._marks])

    def _horizontal(self) -> list[str]:
        parts, axis = [self._line(self._left, self._bottom, self._right, self._bottom)], self.x
        for value, name in axis.ticks:
            x, _ = self.place(value, self.y.low)
            if self._rows:
                parts.append(self._line(x, self._top, x, self._bottom))
            if self._tilted:
                turn = -TILT * 57.29578
                at = (x + 4, self._bottom + 14)
                parts.append(words(*at, name, room=LONGEST, anchor="end", turn=turn))
            else:
                parts.append(words(x, self._bottom + 17, name, anchor="middle"))
        if axis.bands:  # between data sets
            inside = (self.place(i, self.y.low)[0] for i in range(1, int(axis.high)))
            parts += [self._line(x, self._top, x, self._bottom) for x in inside]
        middle = (self._left + self._right) / 2
        if axis.title:
            parts.append(words(middle, self.height - 5, axis.title, anchor="middle"))
        return parts

    def _vertical(self) -> list[str]:
        parts, axis = [], self.y
        for value, name in axis.ticks:
            _, y = self.place(self.x.low, value)
            if not self._rows:
                parts.append(self._line(self._left, y, self._right, y))
            parts.append(words(self._left - 6, y + 4, name, room=self._room, anchor="end"))
        if axis.bands:
            inside = (self.place(self.x.low, i)[1] for i in range(1, int(axis.high)))
            parts += [self._line(self._left, y, self._right, y) for y in inside]
        if axis.title:
            middle = (self._top + self._bottom) / 2
            parts.append(words(11, middle, axis.title, anchor="middle", turn=-90))
        return parts

    def _line(self, x: float, y: float, x2: float, y2: float) -> str:
        return f'<path d="M{x:.1f},{y:.1f}L{x2:.1f},{y2:.1f}" stroke="var(--rule)"/>'

    def svg(self) -> str:
        """Return the panel as a drawing of its own."""
        return (
            f'<svg viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            f'style="--width:{self.width:.0f}px">{self.inner()}</svg>'
        )
