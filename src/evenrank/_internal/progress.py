"""The progress bar that every long computation shows: on stderr, and on a terminal only."""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any, Self

WORDS = {"billion": 10**9, "million": 10**6}


class Progress:
    """A progress bar for use in a `with` statement; it disappears at the end.

    Parameters
    ----------
    doing
        What takes a while, such as "ranking".
    total
        The number of steps, where it is known.
    unit
        What `advance` counts, such as "scores"; the bar then shows how many, and how many per second.
    show
        False shows nothing, as does a stderr that is not a terminal.
    """

    def __init__(
        self, doing: str, total: int | None = None, *, unit: str = "", show: bool = True
    ) -> None:
        """Lay out the bar; `with` shows it."""
        self._bar: Any = None
        if not (show and sys.stderr and sys.stderr.isatty()):  # a closed stderr is None
            return
        from rich import progress
        from rich.console import Console

        known = total is not None
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            *([progress.TaskProgressColumn()] if known else []),
            progress.TextColumn("{task.fields[counted]}"),
            progress.TimeRemainingColumn() if known else progress.TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.add_task(doing, total=total, counted="")
        self._unit, self._counted, self._lock = unit, 0, Lock()

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        if self._bar:
            self._bar.stop()

    def advance(self, steps: int = 1, counted: int | None = None) -> None:
        """Report steps as done, and what they counted: the steps themselves, unless told otherwise."""
        if not self._bar:
            return
        [task] = self._bar.tasks
        with self._lock:
            self._counted += steps if counted is None else counted
            rate = self._counted / max(task.elapsed or 0.0, 1e-9)
        text = f"{short(self._counted)} {self._unit}, {short(rate)}/s" if self._unit else ""
        self._bar.update(task.id, advance=steps, counted=text)


def short(number: float) -> str:
    """Write a large number in short, as people do.

    >>> short(950), short(41_280), short(41_280_000), short(2.06e9)
    ('950', '41,280', '41.3 million', '2.1 billion')
    """
    for word, size in WORDS.items():
        if number >= size:
            return f"{number / size:,.1f} {word}"
    return f"{number:,.0f}"
