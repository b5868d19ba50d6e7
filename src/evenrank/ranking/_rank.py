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
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

import numpy as np

from evenrank._internal.arrays import Floats, Ints
from evenrank._internal.checks import check_type
from evenrank._internal.mapped import check_unchanged
from evenrank._internal.optional import need
from evenrank.errors import InputError, Option
from evenrank.ranking.adapters import Called, TripleScorer, name_of
from evenrank.ranking.conventions import adapted
from evenrank.ranking.engine._count import BATCH, CHUNK, batch, count_factored, goals
from evenrank.ranking.engine._given import compared, count_scores, plain
from evenrank.ranking.engine._identity import model_arrays, model_hash
from evenrank.ranking.engine._native import kernels
from evenrank.ranking.engine.run import MOST, Runner, memory_limit, thread_count
from evenrank.ranking.modules import evaluating
from evenrank.ranking.resume import Checkpoint, open_folder
from evenrank.ranking.scorer import Factored, Factoring, Movable, Scorer
from evenrank.ranks.dependence import Crossings
from evenrank.ranks.presets import PRESETS, Yardstick
from evenrank.ranks.protocol import SIDES
from evenrank.ranks.protocol import Protocol as Facts
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks, Work
from evenrank.ranks.task import Part, Task, in_place
from evenrank.ranks.together import asked, rankings

if TYPE_CHECKING:
    from evenrank.ranking.engine._device import Device
    from evenrank.ranking.engine.mesh import ProcessGroup

T = TypeVar("T")
Plan: TypeAlias = list[tuple[Part, Factored | None]]
# threads that a block of a checkpoint keeps busy, at least; as much work makes streaming to a device pay
THREADS = 12
PRECISION = {True: "float64, certified", False: "float32"}


@overload
def rank(
    scorer: Scorer | Factored | Factoring | Any,
    task: Task,
    *,
    device: Any = None,
    memory: int | str | None = None,
    exact: bool = True,
    progress: bool = True,
    threads: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    mesh: Any = None,
    answers: Literal["apart"] = "apart",
) -> Ranks: ...


@overload
def rank(
    scorer: Scorer | Factored | Factoring | Any,
    task: Task,
    *,
    device: Any = None,
    memory: int | str | None = None,
    exact: bool = True,
    progress: bool = True,
    threads: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    mesh: Any = None,
    answers: Literal["together"],
) -> Rankings: ...


def rank(
    scorer: Scorer | Factored | Factoring | Any,
    task: Task,
    *,
    device: Any = None,
    memory: int | str | None = None,
    exact: bool = True,
    progress: bool = True,
    threads: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    mesh: Any = None,
    answers: Literal["apart", "together"] = "apart",
) -> Ranks | Rankings:
    """Rank the targets of a task by a model's scores.

    The ranks of models that factor are certified (`exact=True`): they are the same for any `device`,
    `memory`, `threads`, `checkpoint` and `mesh`. Those of other scorers follow from the scores they
    return. If the last bits of a score depend on what else is scored in the same call, as with matrix
    products, then ranks of nearly tied candidates may depend on `memory`, `threads` and `checkpoint`,
    which determine the calls; the protocol says "scores: as given".

    Parameters
    ----------
    scorer : model, torch.nn.Module, Factored, Scorer or callable
        A model of `evenrank.models`; a torch module with `forward(h, r, t)` or a function of these
        (see `evenrank.models.TripleScorer`); an object with a method `score(queries, candidates)` or a
        function of these (see `Scorer`); a `Factored`. Torch modules are ranked in evaluation mode,
        and are afterwards in the mode they were in.
    task : Task
        The queries, their targets, candidates and known true answers, as from `Graph.task`.
    device : str or torch.device, optional
        "cpu", "cuda", "auto" (a GPU if there is one), or "torch:" followed by any device of torch. By
        default, the device that the model is on.
    memory : int or str, optional
        Limit of the working memory, in bytes or as "500MB". By default a quarter of the free memory,
        at most 512 MB.
    exact : bool, default True
        Whether to certify every comparison by the float64 scores; otherwise plain float32 scores are
        compared.
    progress : bool, default True
        Whether to show a progress bar if stderr is a terminal.
    threads : int, optional
        Number of threads. By default the number of available cores.
    checkpoint : path, optional
        Checkpoint folder. Blocks of queries are written there as they are finished, and the same call
        resumes an interrupted ranking (see `evenrank.ranking.resume`).
    mesh : str or torch.distributed.device_mesh.DeviceMesh, optional
        What the processes of torch.distributed divide among themselves when all of them make this
        call: "queries", "candidates" (each counts its block of the table), "queries=2,candidates=4",
        or a DeviceMesh with such dimensions. Every process returns all ranks; only the first one writes
        to `checkpoint`.
    answers : {"apart", "together"}
        How the answers of a query are ranked: each without the others, which are filtered; or all
        together, as in retrieval and recommendation (see `Task.together`). A checkpoint holds a row per
        answer in either case.

    Returns
    -------
    Ranks or Rankings
        Ranks have a row per target, in the order of the task. Rankings, of answers ranked together, have
        a row per query, with the gains of its answers if the task has the key `gain`.

    Raises
    ------
    InputError
        If the model does not fit the task, a score is NaN, or an argument is invalid.

    Examples
    --------
    >>> from evenrank.ranks.task import Task
    >>> task = Task.of([[0], [1]], targets=[2, 0], size=3)
    >>> ranks = rank(lambda queries, candidates: np.array([[0.1, 0.9, 0.5]] * len(queries)), task)
    >>> ranks.better.tolist(), ranks.candidates.tolist()
    ([1, 2], [3, 3])
    """
    if answers != "apart":
        whole = asked(task, answers)
        ranks = rank(
            scorer,
            whole,
            device=device,
            memory=memory,
            exact=exact,
            progress=progress,
            threads=threads,
            checkpoint=checkpoint,
            mesh=mesh,
        )
        return rankings(whole, ranks)
    group = None if mesh is None else _process_group(mesh, device, scorer)
    start = time.perf_counter()
    with evaluating(scorer):
        ranking = _agreed(group, partial(_Ranking.of, scorer, task, device, exact, group))
        runner = partial(
            Runner,
            0 if ranking.where and memory is None else memory_limit(memory),  # of the host
            thread_count(threads),
            kernels(),
            show=progress and (group is None or group.first),
            on_device=ranking.where is not None,
        )
        processes = group.size if group else 1
        if checkpoint is None:
            with runner(total=task.scores // processes) as running:
                return ranking.ranks(task, running, start)
        with ranking.open(task, checkpoint, processes * max(THREADS, thread_count(threads))) as opened:
            with runner(total=opened.scores // processes) as running:
                for i in tuple(opened.missing):
                    ranks = ranking.ranks(opened.blocks[i], running, time.perf_counter())
                    _agreed(group, partial(opened.keep, i, ranks))
            return _agreed(group, opened.finish)


@contextmanager
def open_checkpoint(scorer: Any, task: Task, folder: str | os.PathLike[str]) -> Iterator[Checkpoint]:
    """Open a checkpoint folder for callers that have the blocks ranked elsewhere, in one thread each."""
    with evaluating(scorer):
        ranking = _Ranking.of(scorer, task, "cpu", exact=True)
        with ranking.open_folder(task, folder, threads=1) as opened:
            yield opened


@dataclass(frozen=True)
class _Ranking:
    """A scorer on the device where it is ranked, and how its scores are compared."""

    scorer: Any
    where: Device | None
    exact: bool
    yardstick: Yardstick | None
    group: ProcessGroup | None

    @classmethod
    def of(
        cls, scorer: Any, task: Task, device: Any, exact: bool, group: ProcessGroup | None = None
    ) -> _Ranking:
        """Check that the model fits the task, and move it to the device, if there is room."""
        check_type(task, Task, "rank needs a Task", do="build one by graph.task('test') or Task.of(...)")
        if not task.parts:
            raise InputError("a task needs at least one side", got="none")
        if not isinstance(exact, bool | np.bool_):
            raise InputError("exact must be True or False", got=repr(exact))
        scorer = adapted(scorer)
        _check_vocabulary(scorer, task)
        _check_device(scorer, device)
        where = _where(device, scorer)
        yardstick = _yardstick(scorer, task)
        if yardstick or (where and any(_factored(scorer, part) is None for part in task.parts)):
            where = None  # scorers that do not factor compute where they like, and are counted here
        if isinstance(scorer, Movable):  # a table too large for the device is streamed from the host
            scorer = scorer.on(where.device if where and where.has_room(scorer) else None)
        return cls(scorer, where, exact, yardstick, group)

    def ranks(self, task: Task, runner: Runner, start: float) -> Ranks:
        """Rank a task, or a block of it."""
        plan = _agreed(self.group, partial(_plan, self.scorer, task))
        tables = [*model_arrays(self.scorer), *(factored.table for _, factored in plan if factored)]
        _agreed(self.group, partial(check_unchanged, *tables))
        # the counts of a part are put in order while a device counts the next part
        counted = [
            (in_place(part, better), in_place(part, equal), undecided)
            for (part, _), (better, equal, undecided) in zip(
                plan, self._counted(plan, runner), strict=True
            )
        ]
        _agreed(self.group, partial(check_unchanged, *tables))
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
        protocol, crossings = self._protocol(task, plan), Crossings(task)
        return Ranks.counted(better, equal, candidates, task.keys, protocol, work, crossings)

    def _counted(self, plan: Plan, runner: Runner) -> Iterable[tuple[Ints, Ints, int]]:
        """Count each part, alone or with the other processes of the group."""

        def count(plan: Plan) -> Iterator[tuple[Ints, Ints, int]]:
            return _counted(self.scorer, plan, runner, self.where, self.exact, self.yardstick)

        if self.group is None:
            return count(plan)
        by_definition = self.exact and self.yardstick is None and all(factored for _, factored in plan)
        if not by_definition and self.group.divides("candidates"):
            raise InputError(
                "only certified float64 scores allow a mesh to divide the candidates",
                got=f"scores: {self._comparison(plan)}",
                do=["divide the queries: ", Option("mesh", "queries")],
            )
        return self.group.counted(plan, count, partial(_goals, runner=runner, where=self.where))

    def _protocol(self, task: Task, plan: Plan) -> Facts:
        """Describe how the ranks of a task are computed."""
        return replace(task.protocol, model=name_of(self.scorer), scores=self._comparison(plan))

    def _comparison(self, plan: Plan) -> str:
        """Describe how scores are compared."""
        if self.yardstick is not None:
            given = getattr(self.scorer, "gamma", None) is not None  # only models of distances have one
            distances = any(given if f is None else f.form != "dot" for _, f in plan)
            return self.yardstick.describe(distances)
        kinds = {
            "as given"
            if factored is None
            else PRECISION[self.exact or _certified(self.where, part, factored)]
            for part, factored in plan
        }
        return " and ".join(sorted(kinds))

    @contextmanager
    def open(self, task: Task, folder: str | os.PathLike[str], threads: int) -> Iterator[Checkpoint]:
        """Open a checkpoint folder; in a group, the first process opens it for all."""
        with ExitStack() as stack:

            def first() -> Checkpoint:
                return stack.enter_context(self.open_folder(task, folder, threads))

            if self.group is None:
                yield first()
            else:
                yield self.group.checkpoint(task, _plan(self.scorer, task), first)

    def open_folder(
        self, task: Task, folder: str | os.PathLike[str], threads: int
    ) -> AbstractContextManager[Checkpoint]:
        """Open and lock a checkpoint folder for this ranking."""
        scorer = self.scorer.on(None) if isinstance(self.scorer, Movable) else self.scorer
        plan = _plan(scorer, task)
        by_definition = self.exact and self.yardstick is None
        plain_scores = not by_definition and any(factored for _, factored in plan)
        name = self.where.name if self.where else kernels().name
        identity = {
            "model_hash": model_hash(
                (part, factored or _function(scorer, part)) for part, factored in plan
            ),
            "kernels": name if plain_scores else "any",  # the last bits of plain scores depend on them
        }
        return open_folder(folder, task, identity, self._protocol(task, plan), _whole(plan, threads))


def _plan(scorer: Any, task: Task) -> Plan:
    """Pair each part with its factors, if the model factors there."""
    return [(part, _factored(scorer, part)) for part in task.parts]


def _whole(plan: Plan, threads: int) -> int:
    """Return a number of queries that keeps some threads busy and makes whole batches of vectors."""
    batches = lcm(BATCH, *(batch(factored.table.shape[1]) for _, factored in plan if factored))
    return batches * ceil(threads * CHUNK / batches)


def _goals(factored: Factored, part: Part, runner: Runner, where: Device | None) -> Floats:
    """Score the targets of a part on the device that holds their rows."""
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
    """Count each part: on the device, by compiled kernels, or from the scores of a function."""
    if where is not None and all(factored is not None for _, factored in plan):
        from evenrank.ranking.engine._torch import count_on_device

        yield from count_on_device([(p, f) for p, f in plan if f is not None], where, runner, exact)
        return
    for part, factored in plan:
        if factored is not None and exact and yardstick is None:
            yield count_factored(factored, part, runner)
        else:
            function = plain(factored, runner) if factored else _function(scorer, part, runner)
            if yardstick is not None:
                function = compared(function, factored, yardstick)
            yield count_scores(function, part, runner, yardstick)


def _yardstick(scorer: Any, task: Task) -> Yardstick | None:
    """Return how the library of the task's preset compares scores, unless it compares them plainly."""
    preset = PRESETS.get(task.protocol.preset or "")
    found = preset.yardstick if preset else None
    if found is None or not found.margin:
        return found
    gamma = getattr(scorer, "gamma", None)
    return found if gamma is None else replace(found, margin=float(gamma))


def _named(device: Any, scorer: Any) -> str:
    """Name the device to rank on: the one asked for, or the model's."""
    if device is not None and str(device):
        return str(device)
    return scorer.device if isinstance(scorer, Movable) else "cpu"


def _process_group(mesh: Any, device: Any, scorer: Any) -> ProcessGroup:
    """Join the processes of a mesh."""
    need("torch")
    from evenrank.ranking.engine.mesh import ProcessGroup

    return ProcessGroup.of(mesh, _named(device, scorer))


def _agreed(group: ProcessGroup | None, step: Callable[[], T]) -> T:
    """Run a step; if it fails in one process of the group, it fails in all."""
    return step() if group is None else group.agreed(step)


def _where(device: Any, scorer: Any) -> Device | None:
    """Return the device of torch to rank on, or None for the CPU without torch."""
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
    """Return whether a device certifies in any case: distances, lists, plain torch."""
    return where is not None and (
        where.kernels is None or part.lists is not None or factored.form != "dot"
    )


def _factored(scorer: Any, part: Part) -> Factored | None:
    """Return the model's factors for a part, if it factors there, and check that it fits the task."""
    factored, size = None, part.size
    if isinstance(scorer, Factored):
        factored, size = scorer, len(scorer.table)
    elif isinstance(scorer, Factoring):
        factored, size = scorer.factored(part.side), scorer.size(part.side)
    if size != part.size:
        of_graph = part.side in SIDES
        raise InputError(
            f"the model has {size:,} candidates on side {part.side}, the task {part.size:,}",
            do=[
                "rank on the graph the model was trained on; if it only knows the entities of the "
                "training split, load the graph with ",
                Option("unseen", "drop"),
            ]
            if of_graph
            else "number the candidates of the task as those of the model",
        )
    return factored


def _function(scorer: Any, part: Part, runner: Runner | None = None) -> Called:
    """Return the function that scores the queries of a part."""
    if isinstance(scorer, TripleScorer):
        memory = partial(getattr, runner, "memory", MOST)  # which is halved when it runs out
        return Called(scorer, lambda asked, ids: scorer.score(asked, ids, memory(), part.size))
    return Called(scorer, scorer.score)


def _check_vocabulary(scorer: Any, task: Task) -> None:
    """Check that model and graph have the same vocabulary, if the model states its own."""
    mine = getattr(scorer, "vocabulary", None)
    if isinstance(mine, str) and mine and task.vocabulary and mine != task.vocabulary:
        raise InputError(
            "model and graph number entities and relations differently",
            got=f"vocabulary {mine} in the model, {task.vocabulary} in the graph",
            do=["load the graph the model was saved with, with the same ", Option("unseen")],
        )


def _check_device(scorer: Any, device: Any) -> None:
    """Check that a torch module is on the device asked for: it is scored where it is."""
    if not isinstance(scorer, TripleScorer) or scorer.module is None or device is None:
        return
    asked, there = str(device).removeprefix("torch:"), scorer.device
    if asked not in ("auto", "cpu", there, there.partition(":")[0]):
        raise InputError(
            f"the module is on {there}, where it is scored",
            got=f"device {asked!r}",
            do=f"move it by module.to({asked!r}), or leave out device=",
        )
