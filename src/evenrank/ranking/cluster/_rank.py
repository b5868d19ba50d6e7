"""Ranking by a cluster: its workers rank blocks of queries, this process writes the checkpoint."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Literal

from evenrank._internal.optional import need
from evenrank._internal.progress import Progress
from evenrank.errors import EvenrankError, Option
from evenrank.ranking import open_checkpoint
from evenrank.ranking import rank as rank_here
from evenrank.ranking.cluster._client import PATIENCE, check
from evenrank.ranking.cluster._parcel import Parcel
from evenrank.ranking.resume import Checkpoint
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task
from evenrank.ranks.together import asked, rankings

AHEAD = 2  # blocks per thread of a worker: one that it ranks, and the next one
TRIES = 5  # times that workers may die over a block while no other block is finished


def rank(
    model: Any,
    task: Task,
    client: Any,
    *,
    checkpoint: str | os.PathLike[str],
    device: str = "cpu",
    memory: int | str | None = None,
    progress: bool = True,
    answers: Literal["apart", "together"] = "apart",
) -> Ranks | Rankings:
    """Rank the targets of a task by the workers of a Dask cluster.

    The model is sent to each worker once. Tables mapped from files (`er.models.load(path, mapped=True)`,
    `np.load(path, mmap_mode="r")`) are not sent; workers map the same files. Each thread of a worker
    ranks a block of queries at a time. The ranks are the same as those of `er.rank`.

    Parameters
    ----------
    model : model, Factored, Scorer or callable
        As in `er.rank`.
    task : Task
        The queries, their targets, candidates and known true answers.
    client : distributed.Client
        A client of the cluster, as from `er.cluster.connect`.
    checkpoint : path
        Checkpoint folder. Only the calling process writes there, so workers need no access to it. After
        an interruption, the same call, or `er.rank` with the same folder, resumes.
    device : str, default "cpu"
        The device that workers rank on, as in `er.rank`.
    memory : int or str, optional
        Limit of the working memory of each thread, as in `er.rank`.
    progress : bool, default True
        Whether to show a progress bar if stderr is a terminal.
    answers : {"apart", "together"}
        Whether the answers of a query are ranked without each other, or all together, as in `er.rank`.

    Returns
    -------
    Ranks or Rankings
        Ranks have a row per target, in the order of the task; rankings, of answers ranked together, have
        a row per query.

    Raises
    ------
    InputError
        If the model does not fit the task, or the workers have other versions of the libraries.
    EvenrankError
        If the cluster is lost; finished blocks are kept.
    """
    check(client)
    task = asked(task, answers)
    with open_checkpoint(model, task, checkpoint) as opened:
        with Progress("ranking", opened.scores, unit="scores", show=progress) as bar:
            ranking = _Ranking(client, Parcel(model), {"device": device, "memory": memory})
            for i, ranks in ranking.over(opened):
                opened.keep(i, ranks)
                bar.advance(opened.blocks[i].scores)
        finished = opened.finish()
    return finished if answers == "apart" else rankings(task, finished)


def _rank_block(parcel: Parcel, block: Task, options: dict[str, Any]) -> Ranks:
    """Rank a block; runs in a thread of a worker."""
    ranks: Ranks = rank_here(parcel.scorer, block, threads=1, progress=False, **options)
    return ranks


class _Ranking:
    """A model that the workers of a cluster rank."""

    def __init__(self, client: Any, parcel: Parcel, options: dict[str, Any]) -> None:
        self.client, self.parcel, self.options = client, parcel, options
        self.sent: Any = None

    def over(self, opened: Checkpoint) -> Iterator[tuple[int, Ranks]]:
        """Have the missing blocks ranked, and yield each as it is finished."""
        distributed = need("distributed")
        waiting, tries = deque(opened.missing), Counter[int]()
        flying: dict[Any, int] = {}
        done = distributed.as_completed()
        try:
            while waiting or flying:
                while waiting and len(flying) < AHEAD * self._threads():
                    future = self._submit(opened.blocks[waiting[0]])
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
                        raise _died(error) from None
                    waiting.append(i)
                else:
                    tries.clear()
                    yield i, ranks
        finally:
            if self.client.status == "running":
                self.client.cancel([*flying])

    def _submit(self, block: Task) -> Any:
        """Send a block to a free worker, and the model first, if no worker has it any more."""
        import dask

        while self.sent is None or self.sent.status != "finished":
            self._check_connected()
            self.sent = self._send()
        # a block holds data, so Dask's warning about large graphs does not apply
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"}):
            return self.client.submit(_rank_block, self.sent, block, self.options, pure=False)

    def _send(self) -> Any:
        """Send the model to a worker, from which the others get it; None if that worker has died."""
        try:
            return self.client.scatter(self.parcel, hash=False, timeout=PATIENCE)
        except TimeoutError:
            raise EvenrankError(
                "the cluster has lost its workers",
                got=f"none in {PATIENCE} s",
                do="start workers and rank again with the same checkpoint; finished blocks are kept",
            ) from None
        except OSError:
            return None

    def _threads(self) -> int:
        """Return the number of threads of all workers; 1 while there is no worker for a moment."""
        self._check_connected()
        try:
            threads: dict[str, int] = self.client.nthreads()
        except OSError as error:
            raise _lost(error) from None
        return max(1, sum(threads.values()))

    def _check_connected(self) -> None:
        if self.client.status != "running":
            raise _lost(f"client status {self.client.status}")


def _lost(got: object) -> EvenrankError:
    return EvenrankError(
        "lost the connection to the Dask scheduler",
        got=got,
        do="rank again with the same checkpoint; finished blocks are kept",
    )


def _died(error: Exception) -> EvenrankError:
    return EvenrankError(
        "workers died repeatedly while ranking one block of queries",
        got=str(error),
        do=["they may be out of memory: give each worker more, or set a lower ", Option("memory")],
    )
