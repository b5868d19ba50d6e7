"""Streams: files of ranks larger than memory, counted part by part into tallies.

A tally is two histograms of integers, and they add. So files are never held: polars decodes some rows at
a time, these are counted and forgotten, and the counts of all parts are added up. No bit of a result
depends on how the files are cut, or on who counts which part in what order.

    _files      what is meant by a file, a folder, a pattern or a URL; how files are cut into parts
    _count      from the rows of a part to its histograms
    _tallies    histograms that add, and what is evaluated from them
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice

from evenrank._internal.progress import Progress
from evenrank.ranks.streams._count import count
from evenrank.ranks.streams._files import Files, Part, cut, find, is_remote, is_several
from evenrank.ranks.streams._tallies import Question, Tallies, added, merged, of_one_file, side_by_side

__all__ = [
    "Files",
    "Part",
    "Question",
    "Tallies",
    "count",
    "cut",
    "find",
    "is_remote",
    "is_several",
    "merged",
    "of_one_file",
    "side_by_side",
    "stream",
]


def stream(
    files: Files,
    *,
    by: str | Sequence[str] = (),
    average: str | Sequence[str] = "micro",
    candidates: int | None = None,
    skip_damaged: bool = False,
    progress: bool = True,
) -> Tallies:
    """Count files of ranks, of any size, into tallies; `evaluate` them as if they were one file.

    `files` is a file, a folder, a pattern (`ranks/*.parquet`), a URL of anything fsspec knows, or
    several of these. `by`, `average` and `candidates` are those of `Ranks`. A damaged file is an error,
    unless `skip_damaged` asks to leave it out, all of it; the result then says so.

    >>> import tempfile, evenrank as er
    >>> folder = tempfile.mkdtemp()
    >>> for name, ranks in {"a": [1, 3], "b": [2.5]}.items():
    ...     er.Ranks.of(ranks, candidates=9).save(f"{folder}/{name}.parquet")
    >>> stream(f"{folder}/*.parquet").evaluate("mr", "hits@2").flat()
    {'mr': 2.1666666666666665, 'hits@2': 0.5}
    """
    question = Question.of(by, average, candidates, skip_damaged)
    pieces = [cut(file) for file in find(files)]
    with Progress("counting", sum(map(len, pieces)), unit="ranks", show=progress) as bar:

        def counted() -> Iterator[Tallies]:
            for one in _ahead(
                partial(count, question=question), chain(*pieces), 1 if question.by else 2
            ):
                bar.advance(1, one.count)
                yield one

        each = counted()
        total = added((added(islice(each, len(parts)), of_one_file) for parts in pieces), merged)
    return total.checked()


def _ahead(function: Callable[[Part], Tallies], parts: Iterable[Part], many: int) -> Iterator[Tallies]:
    """Apply a function to so many parts at a time, in threads; give what it returns in their order.

    Two let polars decode one file while NumPy counts another; groups take memory, and keep polars busy.
    """
    with ThreadPoolExecutor(many) as pool:
        begun: deque[Future[Tallies]] = deque()
        for part in parts:
            begun.append(pool.submit(function, part))
            if len(begun) > many:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
