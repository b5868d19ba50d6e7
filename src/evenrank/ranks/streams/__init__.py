"""Streaming: evaluation of files of ranks that are larger than memory.

A tally is two histograms of integers, which add up. Files are therefore read in parts: polars decodes
some rows at a time, these are counted, and the counts of all parts are added up. Every bit of a result
is independent of how files are split into parts and of the order in which these are counted.

    _files      finds files by folder, pattern or URL, and splits them into parts
    _count      counts the rows of a part into histograms
    _tallies    adds and evaluates histograms
    _rankings   adds up metrics over files of rankings
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Literal, TypeAlias, get_args

from evenrank._internal.checks import check_choice
from evenrank._internal.progress import Progress
from evenrank.metrics.grammar import Metrics, listed
from evenrank.ranks.streams._count import RankingsError, count
from evenrank.ranks.streams._files import Files, Part, cut, find, is_remote, is_several
from evenrank.ranks.streams._rankings import QueryTallies, side_by_side_rankings
from evenrank.ranks.streams._tallies import Question, Tallies, added, merged, of_one_file, side_by_side

__all__ = [
    "Files",
    "Part",
    "QueryTallies",
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
    "side_by_side_rankings",
    "stream",
]
Kind: TypeAlias = Literal["ranks", "rankings"]


def stream(
    files: Files,
    *,
    by: str | Sequence[str] = (),
    average: str | Sequence[str] = "micro",
    candidates: int | None = None,
    skip_damaged: bool = False,
    progress: bool = True,
    metrics: Metrics = (),
    kind: Kind | None = None,
) -> Tallies | QueryTallies:
    """Read files of ranks or rankings of any size, to evaluate them as if they were one in memory.

    Parameters
    ----------
    files : str, PathLike or sequence of them
        Files, folders, patterns (``"ranks/*.parquet"``) or URLs that fsspec supports.
    by : str or sequence of str
        Names of keys to group by.
    average : str or sequence of str
        As for `Ranks.evaluate`.
    candidates : int, optional
        The number of candidates, for files without it.
    skip_damaged : bool
        Whether damaged files are left out with a note instead of raising an error.
    progress : bool
        Whether to show a progress bar on a terminal.
    metrics : str, Metric or list of them, optional
        The metrics to add up as files of rankings are read; others that are evaluated later require to
        read the files again. Ranks are counted for all metrics at once.
    kind : {"ranks", "rankings"}, optional
        What the files hold. By default Parquet files with lists of answers, and text files that evenrank
        wrote, are recognised as rankings; a text file of others may have a row per answer.

    Returns
    -------
    Tallies or QueryTallies
        The counts or sums, with a method `evaluate`.

    Raises
    ------
    InputError
        If a file is missing or damaged, or lacks a key.

    Examples
    --------
    >>> import tempfile, evenrank as er
    >>> folder = tempfile.mkdtemp()
    >>> for name, ranks in {"a": [1, 3], "b": [2.5]}.items():
    ...     er.Ranks.of(ranks, candidates=9).save(f"{folder}/{name}.parquet")
    >>> stream(f"{folder}/*.parquet").evaluate("mr", "hits@2").to_dict()
    {'mr': 2.1666666666666665, 'hits@2': 0.5}
    """
    question = Question.of(by, average, candidates, skip_damaged)
    if kind is not None:
        check_choice("kind", kind, get_args(Kind))
    names = find(files)
    if kind != "rankings":
        try:
            return _counted(names, question, progress)
        except RankingsError:
            if kind == "ranks":
                raise
    return QueryTallies(names, question, listed([metrics]), progress, kind == "rankings")


def _counted(names: Sequence[str], question: Question, progress: bool) -> Tallies:
    """Count files of ranks."""
    pieces = [cut(file) for file in names]
    with Progress("counting", sum(map(len, pieces)), unit="ranks", show=progress) as bar:

        def counted() -> Iterator[Tallies]:
            for one in _ahead(partial(count, question=question), chain(*pieces)):
                bar.advance(1, one.count)
                yield one

        each = counted()
        total = added((added(islice(each, len(parts)), of_one_file) for parts in pieces), merged)
    return total.checked()


def _ahead(function: Callable[[Part], Tallies], parts: Iterable[Part]) -> Iterator[Tallies]:
    """Apply a function to two parts at a time, in threads; yield the results in order.

    With two threads, polars decodes one file while NumPy counts another.
    """
    with ThreadPoolExecutor(2) as pool:
        begun: deque[Future[Tallies]] = deque()
        for part in parts:
            begun.append(pool.submit(function, part))
            if len(begun) > 2:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
