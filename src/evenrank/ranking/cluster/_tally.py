"""Counting files by the workers of a cluster: parts to tallies, tallies added up in a tree."""

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
FAN = 8  # tallies that are added up at a time


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
    """Count files of ranks by the workers of a Dask cluster; the bits are those of `er.stream`.

    All workers must see the files under the same names. A worker that dies changes nothing: others
    count again what it had counted.
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
    del futures, waiting, of_files  # so that a worker forgets a tally once it is added to others
    with Progress("counting", len(parts), unit="ranks", show=progress) as bar:
        for future in done:
            if future.status != "finished":
                break  # the total says why
            bar.advance(1, rows[future.key])
    return _result(total).checked()


def _tree(client: Any, add: Callable[[list[Tallies]], Tallies], futures: list[Any]) -> Any:
    """Add up a few at a time, where they are, until one is left."""
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
            "workers are lost over one part of a file, again and again",
            got=str(error).splitlines()[0],
            do="they may be short of memory: give each more",
        ) from None
    except distributed.CancelledError as error:
        raise EvenrankError(
            "the scheduler is gone", got=str(error).splitlines()[0], do="start it, and ask again"
        ) from None
    return counted
