"""Counting files of ranks by a cluster: each part gives tallies, which are summed in a tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from evenrank._internal.optional import need
from evenrank._internal.progress import Progress
from evenrank.errors import EvenrankError
from evenrank.ranking.cluster._client import check
from evenrank.ranks.streams import (
    Files,
    Question,
    Tallies,
    count,
    cut,
    find,
    is_remote,
    merged,
    of_one_file,
)

PART = 2**23  # rows that a worker counts at a time, in about a tenth of a second
FAN = 8  # tallies that are summed at a time


def tally(
    files: Files,
    client: Any,
    *,
    by: str | Sequence[str] = (),
    average: str | Sequence[str] = "micro",
    candidates: int | None = None,
    skip_damaged: bool = False,
    progress: bool = True,
) -> Tallies:
    """Count files of ranks by the workers of a Dask cluster, with the same result as `er.stream`.

    All workers must find the files under the same paths. If a worker dies, others repeat its work.

    Parameters
    ----------
    files : path, pattern or sequence of these
        Files of ranks, as in `er.stream`.
    client : distributed.Client
        A client of the cluster, as from `er.cluster.connect`.
    by : str or sequence of str, default ()
        Columns to group by.
    average : str or sequence of str, default "micro"
        "micro", or columns for a macro average.
    candidates : int, optional
        Number of candidates, for files without such a column.
    skip_damaged : bool, default False
        Whether to leave out files that cannot be read, instead of raising an error.
    progress : bool, default True
        Whether to show a progress bar if stderr is a terminal.

    Returns
    -------
    Tallies
        A tally per group, to be evaluated by any metrics.

    Raises
    ------
    InputError
        If a file is damaged, or the workers have other versions of the libraries.
    EvenrankError
        If the cluster is lost.
    """
    check(client)
    question = Question.of(by, average, candidates, skip_damaged)
    names = [file if is_remote(file) else os.path.abspath(file) for file in find(files)]
    pieces = [cut(name, PART) for name in names]
    parts = [part for of_file in pieces for part in of_file]
    futures = client.map(count, parts, question=question, pure=False)
    rows = {future.key: part.rows or 0 for future, part in zip(futures, parts, strict=True)}
    waiting = iter(futures)
    of_files = [_tree(client, of_one_file, list(islice(waiting, len(one)))) for one in pieces]
    total = _tree(client, merged, of_files)
    done = need("distributed").as_completed(futures)
    del futures, waiting, of_files  # so that workers free a tally once it is summed
    with Progress("counting", len(parts), unit="ranks", show=progress) as bar:
        for future in done:
            if future.status != "finished":
                break  # the total raises the error
            bar.advance(1, rows[future.key])
    return _result(total).checked()


def _tree(client: Any, add: Callable[[list[Tallies]], Tallies], futures: list[Any]) -> Any:
    """Sum a few at a time, on the workers, until one is left."""
    while len(futures) > 1:
        starts = range(0, len(futures), FAN)
        futures = [client.submit(add, futures[i : i + FAN], pure=False) for i in starts]
    return futures[0]


def _result(total: Any) -> Tallies:
    distributed = need("distributed")
    try:
        counted: Tallies = total.result()
    except distributed.KilledWorker as error:
        raise EvenrankError(
            "workers died repeatedly while counting one part of a file",
            got=str(error).splitlines()[0],
            do="they may be out of memory: give each worker more",
        ) from None
    except distributed.CancelledError as error:
        raise EvenrankError(
            "lost the connection to the Dask scheduler",
            got=str(error).splitlines()[0],
            do="start it, and count again",
        ) from None
    return counted
