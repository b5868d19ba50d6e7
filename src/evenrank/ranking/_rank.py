"""`rank(model, task)`: rank the targets of a task by a model's scores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from math import ceil, lcm
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.ranking.engine._count import BATCH, CHUNK, batch, count_factored, goals
from evenrank.ranking.engine._given import compared, count_scores, plain
from evenrank.ranking.engine._identity import model_hash
from evenrank.ranking.engine._native import kernels
from evenrank.ranking.engine.run import Runner, memory_limit, thread_count
from evenrank.ranking.resume import Book, Run, resumed
from evenrank.ranking.scorer import Candidates, Factored, Factoring, Scorer
from evenrank.ranks.presets import PRESETS, Yardstick
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks, Work
from evenrank.ranks.task import Part, Task, in_place

if TYPE_CHECKING:
    from evenrank.ranking.engine._device import Device
    from evenrank.ranking.engine.mesh import Crew

__all__ = ["Candidates", "Factored", "Scorer", "rank"]

T = TypeVar("T")
Plan: TypeAlias = list[tuple[Part, Factored | None]]
THREADS = 12  # for which a block of a run has work, at least; as much makes streaming to a device pay
PRECISION = {True: "float64, certified", False: "float32"}


def rank(
    scorer: Scorer | Factored | Factoring | Any,
    task: Task,
    *,
    device: Any = None,
    memory: int | str | None = None,
    exact: bool = True,
    progress: bool = True,
    threads: int | None = None,
    into: str | os.PathLike[str] | None = None,
    mesh: Any = None,
) -> Ranks:
    """Rank the targets of a task by a model's scores.

    `scorer` is a model of `evenrank.models`, a `Factored`, an object with `score(queries, candidates)`,
    or such a function. `memory` limits working space, in bytes or as "500MB" (default: a quarter of
    what is free, 512 MB at most); `threads` is the number of cores to use (default: all). The result is
    the same for any of these. `device` is "cpu", "cuda", "auto" (a GPU if there is one), or "torch:" and
    any device of torch; by default, where the model is. `progress` shows a bar if stderr is a terminal.
    `into` is a folder to which blocks are written as they are finished: a ranking that was killed goes
    on from there when it is asked for again (`evenrank.ranking.resume`). `mesh` says what processes of
    torch.distributed share out when all of them call this: "queries", "candidates" (each counts its
    block of the table), "queries=2,candidates=4", or a DeviceMesh of torch with such dimensions; every
    process gets all ranks, and the first alone writes `into` a folder.

    >>> from evenrank.ranks.task import Task
    >>> task = Task.of([[0], [1]], targets=[2, 0], size=3)
    >>> ranks = rank(lambda queries, candidates: np.array([[0.1, 0.9, 0.5]] * len(queries)), task)
    >>> ranks.better.tolist(), ranks.candidates.tolist()
    ([1, 2], [3, 3])
    """
    crew = None if mesh is None else _crew(mesh, device, scorer)
    start = time.perf_counter()
    ranking = _agreed(crew, partial(_Ranking.of, scorer, task, device, exact, crew))
    runner = partial(
        Runner,
        0 if ranking.where and memory is None else memory_limit(memory),  # of the host, not the device
        thread_count(threads),
        kernels(),
        show=progress and (crew is None or crew.first),
        on_device=ranking.where is not None,
    )
    processes = crew.size if crew else 1
    if into is None:
        with runner(total=task.scores // processes) as running:
            return ranking.ranks(task, running, start)
    with ranking.book(task, into, processes * max(THREADS, thread_count(threads))) as book:
        with runner(total=book.scores // processes) as running:
            for i in tuple(book.missing):
                ranks = ranking.ranks(book.blocks[i], running, time.perf_counter())
                _agreed(crew, partial(book.keep, i, ranks))
        return _agreed(crew, book.finish)


def begun(scorer: Any, task: Task, into: str | os.PathLike[str]) -> AbstractContextManager[Run]:
    """Open a folder to rank into, for those who have others rank the blocks, each in one thread."""
    return _Ranking.of(scorer, task, "cpu", exact=True).begun(task, into, threads=1)


@dataclass(frozen=True)
class _Ranking:
    """A scorer, put where it is to be ranked, and how its scores are compared."""

    scorer: Any
    where: Device | None
    exact: bool
    yardstick: Yardstick | None
    crew: Crew | None

    @classmethod
    def of(cls, scorer: Any, task: Task, device: Any, exact: bool, crew: Crew | None = None) -> _Ranking:
        """Check that the model fits the task, and put it on the device, if there is room."""
        if not isinstance(task, Task):
            raise InputError(
                "a task is needed", got=type(task).__name__, do="graph.task('test'), or Task.of(...)"
            )
        if not task.parts:
            raise InputError("a task needs at least one side", got="none")
        if not isinstance(exact, bool | np.bool_):
            raise InputError("exact must be True or False", got=repr(exact))
        _check_vocabulary(scorer, task)
        where = _where(device, scorer)
        yardstick = _yardstick(scorer, task)
        if yardstick or (where and any(_factored(scorer, part) is None for part in task.parts)):
            where = None  # scorers that do not factor compute where they like, and are counted here
        if hasattr(scorer, "on"):  # a table too large for the device stays on the host, and streams
            scorer = scorer.on(where.device if where and where.has_room(scorer) else None)
        return cls(scorer, where, exact, yardstick, crew)

    def ranks(self, task: Task, runner: Runner, start: float) -> Ranks:
        """Rank a task, or a block of it."""
        plan = _agreed(self.crew, partial(_plan, self.scorer, task))
        # a part is put in place while a device counts the next
        counted = [
            (in_place(part, better), in_place(part, equal), undecided)
            for (part, _), (better, equal, undecided) in zip(
                plan, self._counted(plan, runner), strict=True
            )
        ]
        better, equal = (np.concatenate([counts[i] for counts in counted]) for i in (0, 1))
        candidates = task.candidates
        if self.yardstick is not None and self.yardstick.keeps_known:
            candidates = task.everything
        work = Work(
            scores=task.scores,
            seconds=time.perf_counter() - start,
            undecided=sum(undecided for _, _, undecided in counted),
            kernels=self.where.name if self.where else runner.kernels.name,
        )
        return Ranks.counted(better, equal, candidates, task.keys, self._protocol(task, plan), work)

    def _counted(self, plan: Plan, runner: Runner) -> Iterable[tuple[Ints, Ints, int]]:
        """Count each part, alone or with others."""

        def count(plan: Plan) -> Iterator[tuple[Ints, Ints, int]]:
            return _counted(self.scorer, plan, runner, self.where, self.exact, self.yardstick)

        if self.crew is None:
            return count(plan)
        by_definition = self.exact and self.yardstick is None and all(factored for _, factored in plan)
        if not by_definition and self.crew.shares("candidates"):
            raise InputError(
                "candidates are shared out only where scores have a definition, the same everywhere",
                got=f"scores: {self._words(plan)}",
                do="share out queries: mesh='queries'",
            )
        return self.crew.counted(plan, count, partial(_goals, runner=runner, where=self.where))

    def _protocol(self, task: Task, plan: Plan) -> Protocol:
        """Say how the ranks of a task are made."""
        return replace(task.protocol, model=_name(self.scorer), scores=self._words(plan))

    def _words(self, plan: Plan) -> str:
        """Say how scores are compared."""
        if self.yardstick is not None:
            given = getattr(self.scorer, "gamma", None) is not None  # a black box of distances says so
            distances = any(given if f is None else f.form != "dot" for _, f in plan)
            return self.yardstick.said(distances)
        kinds = {
            "as given"
            if factored is None
            else PRECISION[self.exact or _certified(self.where, part, factored)]
            for part, factored in plan
        }
        return " and ".join(sorted(kinds))

    @contextmanager
    def book(self, task: Task, into: str | os.PathLike[str], threads: int) -> Iterator[Book]:
        """Keep book of a ranking into a folder; of several processes the first one opens that."""
        with ExitStack() as opened:

            def run() -> Run:
                return opened.enter_context(self.begun(task, into, threads))

            yield run() if self.crew is None else self.crew.book(task, _plan(self.scorer, task), run)

    def begun(
        self, task: Task, into: str | os.PathLike[str], threads: int
    ) -> AbstractContextManager[Run]:
        """Open a folder to rank into, in which only this ranking goes on."""
        scorer = self.scorer.on(None) if hasattr(self.scorer, "on") else self.scorer
        plan = _plan(scorer, task)
        by_definition = self.exact and self.yardstick is None
        plain_scores = not by_definition and any(factored for _, factored in plan)
        name = self.where.name if self.where else kernels().name
        identity = {
            "model_hash": model_hash((part, factored or _function(scorer)) for part, factored in plan),
            "kernels": name if plain_scores else "any",  # of which the last bits of plain scores are
        }
        return resumed(into, task, identity, self._protocol(task, plan), _whole(plan, threads))


def _plan(scorer: Any, task: Task) -> Plan:
    """Say of each part how the model factors, if it does."""
    return [(part, _factored(scorer, part)) for part in task.parts]


def _whole(plan: Plan, threads: int) -> int:
    """Say how many queries are work for some threads, and whole batches of query vectors."""
    batches = lcm(BATCH, *(batch(factored.table.shape[1]) for _, factored in plan if factored))
    return batches * ceil(threads * CHUNK / batches)


def _goals(factored: Factored, part: Part, runner: Runner, where: Device | None) -> Floats:
    """Score the targets of a part where the rows are."""
    if where is None or isinstance(factored.table, np.ndarray):
        return goals(factored, part, runner)
    from evenrank.ranking.engine._torch import goals_on_device

    return goals_on_device(factored, part, where)


def _counted(
    scorer: Any,
    plan: Plan,
    runner: Runner,
    where: Device | None,
    exact: bool,
    yardstick: Yardstick | None,
) -> Iterator[tuple[Ints, Ints, int]]:
    """Count each part where and as it can be counted."""
    if where is not None and all(factored is not None for _, factored in plan):
        from evenrank.ranking.engine._torch import count_on_device

        yield from count_on_device([(p, f) for p, f in plan if f is not None], where, runner, exact)
        return
    for part, factored in plan:
        if factored is not None and exact and yardstick is None:
            yield count_factored(factored, part, runner)
        else:
            function = plain(factored, runner) if factored else _function(scorer)
            if yardstick is not None:
                function = compared(function, factored, yardstick)
            yield count_scores(function, part, runner, yardstick)


def _yardstick(scorer: Any, task: Task) -> Yardstick | None:
    """Find how the library compares whose protocol is asked for, if it does not simply compare."""
    preset = PRESETS.get(task.protocol.preset or "")
    found = preset.yardstick if preset else None
    if found is None or not found.margin:
        return found
    gamma = getattr(scorer, "gamma", None)
    return found if gamma is None else replace(found, margin=float(gamma))


def _named(device: Any, scorer: Any) -> str:
    """Name the device to rank on: what is asked for, or where the model is."""
    if device is not None and str(device):
        return str(device)
    return str(getattr(scorer, "device", "cpu")) if isinstance(scorer, Factored | Factoring) else "cpu"


def _crew(mesh: Any, device: Any, scorer: Any) -> Crew:
    """Meet the processes to rank with."""
    need("torch")
    from evenrank.ranking.engine.mesh import Crew

    return Crew.of(mesh, _named(device, scorer))


def _agreed(crew: Crew | None, step: Callable[[], T]) -> T:
    """Take a step; with others, none goes on where one has failed."""
    return step() if crew is None else crew.agreed(step)


def _where(device: Any, scorer: Any) -> Device | None:
    """Find the device of torch to rank on; None: the CPU, without torch."""
    text = _named(device, scorer)
    if text == "cpu":
        return None
    if find_spec("torch") is None:
        if text == "auto":
            return None
        raise InputError(
            "ranking on a device needs torch", got=f"device {text!r}", do="pip install 'evenrank[torch]'"
        )
    from evenrank.ranking.engine._device import Device, cuda_is_there

    if text == "auto":
        return Device("cuda") if cuda_is_there() else None
    return Device(text)


def _certified(where: Device | None, part: Part, factored: Factored) -> bool:
    """Say whether a device certifies anyway: distances, lists, and whatever torch counts alone."""
    return where is not None and (
        where.kernels is None or part.lists is not None or factored.form != "dot"
    )


def _factored(scorer: Any, part: Part) -> Factored | None:
    """Find how the model factors for what is asked, if it does, and check that it fits the task."""
    factored, size = None, part.size
    if isinstance(scorer, Factored):
        factored, size = scorer, len(scorer.table)
    elif isinstance(scorer, Factoring):
        factored, size = scorer.factored(part.side), scorer.size(part.side)
    if size != part.size:
        raise InputError(
            f"model and task do not have the same candidates on side {part.side}",
            got=f"{size:,} in the model, {part.size:,} in the task",
            do="rank on the graph the model was trained on; a model does not know what only valid or "
            "test show: load the graph with unseen='drop'",
        )
    return factored


def _function(scorer: Any) -> Any:
    if isinstance(scorer, Scorer):
        return scorer.score
    if hasattr(scorer, "forward"):  # a module of torch, which can be called, but with what it trains on
        raise InputError(
            "a module is ranked by its method score(queries, candidates)",
            got=f"{type(scorer).__name__} without one",
            do="give it that method, or rank a function of queries and candidates that asks it",
        )
    if callable(scorer):
        return scorer
    raise InputError(
        "this cannot be ranked",
        got=type(scorer).__name__,
        allowed="a model of evenrank.models, a Factored, an object with score(queries, candidates), "
        "or a function of queries and candidates",
    )


def _check_vocabulary(scorer: Any, task: Task) -> None:
    """A model that says how its rows are numbered must agree with the graph."""
    mine = getattr(scorer, "vocabulary", None)
    if mine and task.vocabulary and mine != task.vocabulary:
        raise InputError(
            "model and graph do not number entities and relations alike",
            got=f"vocabulary {mine} in the model, {task.vocabulary} in the graph",
            do="load the graph the model was saved with, with the same unseen=",
        )


def _name(scorer: Any) -> str:
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", None)
    return name if isinstance(name, str) else type(scorer).__name__
