"""Ranking by the workers of a cluster: blocks of queries to whoever is free, ranks into a folder."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from evenrank._internal.optional import need
from evenrank._internal.progress import Progress
from evenrank.errors import EvenrankError
from evenrank.ranking import begun
from evenrank.ranking import rank as rank_here
from evenrank.ranking.cluster._client import PATIENCE, check
from evenrank.ranking.cluster._parcel import Parcel
from evenrank.ranking.resume import Run
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task

AHEAD = 2  # blocks for each thread of a worker: one that it ranks, and one to go on with
TRIES = 5  # how often workers may be lost over a block while no other is finished


def rank(
    model: Any,
    task: Task,
    client: Any,
    *,
    into: str | os.PathLike[str],
    device: str = "cpu",
    memory: int | str | None = None,
    progress: bool = True,
) -> Ranks:
    """Rank the targets of a task by the workers of a Dask cluster, into a folder.

    The model goes to each worker once; tables mapped from files (`er.models.load(path, mapped=True)`,
    `np.load(path, mmap_mode="r")`) do not go at all, and are mapped there. Each thread of a worker ranks
    a block of queries at a time, with the `device` and `memory` of `er.rank`. What it counts comes here
    and is written, so that workers need not see the folder. Whatever dies, ask again: finished blocks
    are kept, `er.rank(..., into=)` goes on with them as well, and the bits are the same.
    """
    check(client)
    with begun(model, task, into) as run:
        with Progress("ranking", run.scores, unit="scores", show=progress) as bar:
            ranking = _Ranking(client, Parcel(model), {"device": device, "memory": memory})
            for i, ranks in ranking.over(run):
                run.keep(i, ranks)
                bar.advance(run.blocks[i].scores)
        return run.finish()


def _rank_block(parcel: Parcel, block: Task, options: dict[str, Any]) -> Ranks:
    """Rank a block; runs on a worker, in one of its threads."""
    return rank_here(parcel.scorer, block, threads=1, progress=False, **options)


class _Ranking:
    """A model at the workers of a cluster."""

    def __init__(self, client: Any, parcel: Parcel, options: dict[str, Any]) -> None:
        self.client, self.parcel, self.options = client, parcel, options
        self.sent: Any = None

    def over(self, run: Run) -> Iterator[tuple[int, Ranks]]:
        """Have the missing blocks of a run ranked, and give each as it is finished."""
        distributed = need("distributed")
        waiting, tries = deque(run.missing), Counter[int]()
        flying: dict[Any, int] = {}
        done = distributed.as_completed()
        try:
            while waiting or flying:
                while waiting and len(flying) < AHEAD * self._threads():
                    future = self._submit(run.blocks[waiting[0]])
                    flying[future] = waiting.popleft()
                    done.add(future)
                future = next(done)
                i = flying.pop(future)
                try:
                    ranks = future.result()
                except (distributed.KilledWorker, distributed.CancelledError, OSError) as error:
                    self._check_connected()
                    tries[i] += 1
                    if tries[i] > TRIES:
                        raise _hopeless(error) from None
                    waiting.append(i)
                else:
                    tries.clear()
                    yield i, ranks
        finally:
            if self.client.status == "running":
                self.client.cancel([*flying])

    def _submit(self, block: Task) -> Any:
        """Send a block to whoever is free, and the model first, if nobody has it any more."""
        import dask

        while self.sent is None or self.sent.status != "finished":
            self._check_connected()
            self.sent = self._send()
        # a block is data, and known to be
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"}):
            return self.client.submit(_rank_block, self.sent, block, self.options, pure=False)

    def _send(self) -> Any:
        """Send the model to a worker, from which others get it; None: that one died meanwhile."""
        try:
            return self.client.scatter(self.parcel, hash=False, timeout=PATIENCE)
        except TimeoutError:
            raise EvenrankError(
                "the cluster has lost its workers",
                got=f"none in {PATIENCE} s",
                do="finished blocks are kept: start some, and ask again to go on",
            ) from None
        except OSError:
            return None

    def _threads(self) -> int:
        """Count the threads of all workers, of which there may be none for a moment."""
        self._check_connected()
        try:
            threads: dict[str, int] = self.client.nthreads()
        except OSError as error:
            raise _gone(error) from None
        return max(1, sum(threads.values()))

    def _check_connected(self) -> None:
        if self.client.status != "running":
            raise _gone(f"a client that is {self.client.status}")


def _gone(got: object) -> EvenrankError:
    return EvenrankError(
        "the scheduler is gone", got=got, do="finished blocks are kept: ask again to go on"
    )


def _hopeless(error: Exception) -> EvenrankError:
    return EvenrankError(
        "workers are lost over one block of queries, again and again",
        got=str(error),
        do="they may be short of memory: give each more, or less to do (memory=, --memory)",
    )
