"""Ranking: `rank(scorer, task) -> Ranks`, quickly, in bounded memory, with the same bits every time.

What is counted
---------------
A target's rank needs three integers: how many candidates score better, how many score the same, how
many there are. So no score is kept. Each *distinct* query is scored once and serves all of its
targets. All candidates are counted, known answers too, and what the known answers contributed is
subtracted again: there are few of them (FB15k-237: 300,000, against 330 million scores), and the score
matrix needs no mask. `candidates` comes from the task alone; no score, infinite or not, changes it.
NaN is an error that names query and candidate.

What is compared
----------------
Summing in float32 gives another last bit with another tile, thread count or machine, and a last bit is
enough to move a rank or to break a tie. For models that factor (`Factored`) the score is therefore
*defined*: query vector and row as float64, terms worked out one by one, summed by halves
(`_numpy.fold`). Fast kernels must reach that definition. They score in float32, with a proven bound on
the error (`_bounds.py`): a candidate further from the target's score than the bound is decided; the
others, about one in a thousand or fewer, are scored again by definition. Thus `better`, `equal` and
`candidates` are the same for any `memory`, tile, number of threads, order of queries and instruction
set, for NumPy alone, and for tables of float32 and float64 that hold the same values. `exact=False`
leaves the last step out: plain scores, compared as they come.

Any other scorer is a function of queries and candidates, and its scores are compared as given. So are
plain float32 scores where the task asks for the protocol of a library that compares in some other way
(`evenrank.protocols`), and then as that library does.

What is tiled
-------------
Queries come in blocks that fit `memory`, the table in blocks too. Within them the compiled kernel
(`_kernels.c`, through ctypes) packs rows into panels, scores 12 x 32 pairs in registers, compares and
counts there: scores never reach memory. It does what a matrix product does and counts besides, and is
as fast as the matrix product of BLAS; distances take the same route, where others materialise queries
x entities x dimensions. Threads take blocks of queries; counts are integers, so it does not matter who
adds them first. Without a compiler at installation, NumPy does the same work with BLAS in float64
(`_numpy.py`).

Restricted candidates are scored restricted: lists shared by many queries (types) by gathering their
rows once, lists of single queries (samples) pair by pair.

Where things are
----------------
`scorer` says what can be ranked, `_arrays` what its arrays may be, `_product` multiplies them with the
same bits everywhere. `_count` cuts a task into blocks and counts; `_run` has its memory, threads and
progress. The definition of a score, and counting by NumPy, are in `_numpy`; the proofs in `_bounds`; the
kernels in `_kernels.c`, called by `_native`. `_torch` does all of this on devices, with the kernels of
`_triton` and what `_device` has put there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrank.engine._arrays import array, host
from evenrank.engine._count import Function, count_factored, count_scores, plain
from evenrank.engine._native import kernels
from evenrank.engine._run import Runner, memory_limit, thread_count
from evenrank.engine.scorer import Candidates, Factored, Factoring, Scorer
from evenrank.errors import InputError
from evenrank.protocols import Yardstick, remembered
from evenrank.ranks import Ranks, Work
from evenrank.sums import Ints
from evenrank.task import Part, Task, in_place

if TYPE_CHECKING:
    from evenrank.engine._device import Device

__all__ = ["Candidates", "Factored", "Scorer", "rank"]

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
) -> Ranks:
    """Rank the targets of a task by a model's scores.

    `scorer` is a model of `evenrank.models`, a `Factored`, an object with `score(queries, candidates)`,
    or such a function. `memory` limits working space, in bytes or as "500MB" (default: a quarter of
    what is free, 512 MB at most); `threads` is the number of cores to use (default: all). The result is
    the same for any of these. `device` is "cpu", "cuda", "auto" (a GPU if there is one), or "torch:" and
    any device of torch; by default, where the model is. `progress` shows a bar if stderr is a terminal.

    >>> from evenrank.task import Task
    >>> task = Task.of([[0], [1]], targets=[2, 0], size=3)
    >>> ranks = rank(lambda queries, candidates: np.array([[0.1, 0.9, 0.5]] * len(queries)), task)
    >>> ranks.better.tolist(), ranks.candidates.tolist()
    ([1, 2], [3, 3])
    """
    if not isinstance(task, Task):
        raise InputError(
            "a task is needed", got=type(task).__name__, do="graph.task('test'), or Task.of(...)"
        )
    if not task.parts:
        raise InputError("a task needs at least one side", got="none")
    _check_vocabulary(scorer, task)
    start = time.perf_counter()
    where = _where(device, scorer)
    yardstick = _yardstick(scorer, task)
    if yardstick or (where and any(_factored(scorer, part) is None for part in task.parts)):
        where = None  # scorers that do not factor compute where they like, and are counted here
    if hasattr(scorer, "on"):  # a table too large for the device stays on the host, and streams
        scorer = scorer.on(where.device if where and where.has_room(scorer) else None)
    plan = [(part, _factored(scorer, part)) for part in task.parts]
    with Runner(
        0 if where and memory is None else memory_limit(memory),  # of the host; a device has its own
        thread_count(threads),
        kernels(),
        total=sum(part.scores for part in task.parts),
        show=progress,
        on_device=where is not None,
    ) as runner:
        # a part is put in place while a device counts the next
        counted = [
            (in_place(part, better), in_place(part, equal), undecided)
            for (part, _), (better, equal, undecided) in zip(
                plan, _counted(scorer, plan, runner, where, exact, yardstick), strict=True
            )
        ]
    kinds = {
        "as given" if factored is None else PRECISION[exact or _certified(where, part)]
        for part, factored in plan
    }
    candidates = task.candidates
    if yardstick is not None:
        kinds = {yardstick.words}
        if yardstick.handicap < inf:
            candidates = task.everything
    better, equal = (np.concatenate([counts[i] for counts in counted]) for i in (0, 1))
    protocol = {**task.protocol, "model": _name(scorer), "scores": " and ".join(sorted(kinds))}
    work = Work(
        scores=sum(part.scores for part in task.parts),
        seconds=time.perf_counter() - start,
        undecided=sum(undecided for _, _, undecided in counted),
        kernels=where.name if where else runner.kernels.name,
    )
    return Ranks.counted(better, equal, candidates, task.keys, protocol, work)


def _counted(
    scorer: Any,
    plan: list[tuple[Part, Factored | None]],
    runner: Runner,
    where: Device | None,
    exact: bool,
    yardstick: Yardstick | None,
) -> Iterator[tuple[Ints, Ints, int]]:
    """Count each part where and as it can be counted."""
    if where is not None and all(factored is not None for _, factored in plan):
        from evenrank.engine._torch import count_on_device

        yield from count_on_device([(p, f) for p, f in plan if f is not None], where, runner, exact)
        return
    for part, factored in plan:
        if factored is not None and exact and yardstick is None:
            yield count_factored(factored, part, runner)
        else:
            function = plain(factored, runner) if factored else _function(scorer)
            if yardstick is not None:
                function = _compared(function, factored, yardstick)
            yield count_scores(function, part, runner, yardstick)


def _yardstick(scorer: Any, task: Task) -> Yardstick | None:
    """Find how the library compares whose protocol is asked for, if it does not simply compare."""
    preset = remembered(task.protocol)
    found = preset.yardstick if preset else None
    if found is None or not found.margin:
        return found
    return replace(found, margin=float(getattr(scorer, "gamma", found.margin)))


def _compared(function: Function, factored: Factored | None, yardstick: Yardstick) -> Function:
    """Give what a library compares in place of scores, which must then be as large as its own."""

    def keys(queries: Ints, candidates: Candidates) -> Any:
        scores = host(array("scores", function(queries, candidates)))
        if factored is not None and factored.form == "l2":
            scores = -np.sqrt(-scores)  # a distance, which is squared here
        if factored is not None and factored.form != "dot":
            scores = scores + scores.dtype.type(yardstick.margin)
        return yardstick.keys(scores)

    return keys


def _where(device: Any, scorer: Any) -> Device | None:
    """Find the device of torch to rank on; None: the CPU, without torch."""
    text = "" if device is None else str(device)
    if not text:  # where the model is
        text = (
            str(getattr(scorer, "device", "cpu")) if isinstance(scorer, Factored | Factoring) else "cpu"
        )
    if text == "cpu":
        return None
    if find_spec("torch") is None:
        if text == "auto":
            return None
        raise InputError(
            "ranking on a device needs torch", got=f"device {text!r}", do="pip install 'evenrank[torch]'"
        )
    from evenrank.engine._device import Device, cuda_is_there

    if text == "auto":
        return Device("cuda") if cuda_is_there() else None
    return Device(text)


def _certified(where: Device | None, part: Part) -> bool:
    """Say whether a device certifies anyway: torch alone does, and lists are scored by definition."""
    return where is not None and (where.kernels is None or part.lists is not None)


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
            "test show: er.load(..., unseen='drop')",
        )
    return factored


def _function(scorer: Any) -> Any:
    if isinstance(scorer, Scorer):
        return scorer.score
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
