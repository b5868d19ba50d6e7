"""Ranking by several processes of torch.distributed, which divide queries, candidates, or both.

The processes form a mesh, whose dimensions name what is divided. Along `queries`, each process ranks
some of the queries. Along `candidates`, each process counts one block of the table and needs only this
block on its device; the process that holds a target's row computes the target score and sends its bits
to the others. Counts are integers, so they are summed in any order. Only 8 bytes per target for its
score and 16 for its counts are sent, however many entities and dimensions there are. Every process
gets the whole result, which has the same bits for any mesh.

All processes take each step together. If one raises an error, it sends the message to the others and
all stop. If one dies, the others notice at the next step: at once, or, if it hangs, after the timeout
of the process group.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh

from evenrank._internal.arrays import Floats, Ints, host
from evenrank._internal.checks import check_type
from evenrank._internal.columns import is_whole
from evenrank.errors import EvenrankError, InputError
from evenrank.ranking.engine._count import batch, refuse_nan
from evenrank.ranking.engine._device import Device, cuda_is_there
from evenrank.ranking.engine.run import NEIGHBOURS, launched
from evenrank.ranking.resume import Checkpoint
from evenrank.ranking.scorer import Factored
from evenrank.ranks.lists import offsets
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.task import Part, Task

T = TypeVar("T")
Plan = list[tuple[Part, Factored | None]]
Counted = tuple[Ints, Ints, int]

DIVIDED = ("queries", "candidates")
ALLOWED = "'queries', 'candidates', both with a number as in 'queries=2,candidates=4'"
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
SAMPLED = 16  # rows of a table that are hashed to compare it with those of other processes
PATIENCE = timedelta(minutes=30)  # how long to wait for a process that neither answers nor ends
# the store that torchrun keeps for its processes, the key of the first one's error message in it, and
# how long the others wait for that message
STORE, LAST_WORDS, MOMENT = "TORCHELASTIC_USE_AGENT_STORE", "evenrank/{}", timedelta(seconds=10)


class Share(NamedTuple):
    """A process's share of a part: its queries and candidates, their rows, and its targets."""

    part: Part
    factored: Factored | None
    targets: slice

    @property
    def empty(self) -> bool:
        """Whether there is nothing to count; lists may be empty and their target scores still be NaN."""
        return not (len(self.part.queries) and self.part.size)


class ProcessGroup:
    """The processes that rank together, seen from one of them."""

    def __init__(self, mesh: DeviceMesh) -> None:
        names = mesh.mesh_dim_names or ()
        if not names or not set(names) <= set(DIVIDED):
            raise InputError(
                "the dimensions of a mesh must be named after what the processes divide",
                got=", ".join(names) or "no names",
                allowed=" and ".join(DIVIDED),
                do="init_device_mesh('cpu', (2, 2), mesh_dim_names=('queries', 'candidates'))",
            )
        if mesh.get_coordinate() is None:
            raise InputError("this process is not in the mesh", got=f"process {distributed.get_rank()}")
        self.groups = {name: mesh.get_group(name) for name in names}
        self.size = mesh.size()
        self.device = mesh.device_type
        self.first = not any(mesh.get_coordinate())

    @classmethod
    def of(cls, mesh: Any, device: str) -> ProcessGroup:
        """Join a DeviceMesh of torch, or a mesh that a text describes, with one device per process."""
        if isinstance(mesh, DeviceMesh):
            return cls(mesh)
        check_type(mesh, str, "not a mesh", allowed=f"{ALLOWED}, or a DeviceMesh of torch")
        cuda = "cuda" in device or (device == "auto" and cuda_is_there())
        if cuda and not cuda_is_there():
            Device(device)  # raises an error that says why it cannot be used
        return cls(_described(mesh, "cuda" if cuda else "cpu"))

    def counted(
        self,
        plan: Plan,
        count: Callable[[Plan], Iterable[Counted]],
        score: Callable[[Factored, Part], Floats],
    ) -> list[Counted]:
        """Count a plan together.

        `count` counts the share of this process, and `score` computes the target scores of a part.
        """
        self._check_same(plan)
        shares = [self._share(part, factored) for part, factored in plan]
        if self.divides("candidates"):
            shares = self._with_goals(shares, score)

        def mine() -> Iterator[Ints]:
            for share in shares:
                _refuse_nan(share.part)
            some = iter(count([(share.part, share.factored) for share in shares if not share.empty]))
            for (part, _), share in zip(plan, shares, strict=True):
                counts, undecided = np.zeros((2, len(part.targets)), np.int64), 0
                if not share.empty:
                    counts[0, share.targets], counts[1, share.targets], undecided = next(some)
                yield np.append(counts, undecided)

        summed = self._summed(self.agreed(lambda: [*mine()]), DIVIDED)
        halves = (np.split(counts[:-1], 2) for counts in summed)
        return [
            (better, equal, int(counts[-1]))
            for (better, equal), counts in zip(halves, summed, strict=True)
        ]

    def checkpoint(self, task: Task, plan: Plan, opened: Callable[[], Checkpoint]) -> Checkpoint:
        """Open a checkpoint in the first process; the others get a copy that writes nothing."""
        self._check_same(plan)
        mine = self.agreed(lambda: opened() if self.first else None)
        words = json.dumps([mine.queries, mine.missing, mine.protocol.to_dict()]) if mine else ""
        queries, missing, protocol = json.loads("".join(self._gathered(words).values()))
        same = mine or Checkpoint(task, queries, Protocol.from_dict(protocol))
        same.missing = missing
        same.counts = dict(zip(same.counts, self._summed([*same.counts.values()], DIVIDED), strict=True))
        return same

    def _share(self, part: Part, factored: Factored | None) -> Share:
        """Return what this process counts of a part."""
        # query vectors are computed in the same batches as by a single process
        unit, queries = batch(factored.table.shape[1]) if factored else 1, len(part.queries)
        begin, end = (min(unit * i, queries) for i in self._range("queries", -(-queries // unit)))
        targets = slice(int(part.first[begin]), int(part.first[end]))
        if self.divides("queries"):
            _, part = part.between(begin, end)
        if self.divides("candidates"):
            start, stop = self._range("candidates", part.size)
            part = part.among(start, stop)
            if factored is not None and start < stop:
                factored = replace(factored, table=factored.table[start:stop], reads=())
        return Share(part, factored, targets)

    def _with_goals(self, shares: list[Share], score: Callable[[Factored, Part], Floats]) -> list[Share]:
        """Compute the target scores whose rows are in this process, and get the others."""

        def mine(part: Part, factored: Factored | None) -> Ints:
            inside = (part.targets >= 0) & (part.targets < part.size)
            if factored is None or not inside.any():
                return np.zeros(len(part.targets), np.int64)
            goal = score(factored, replace(part, targets=np.where(inside, part.targets, 0)))
            return np.where(inside, goal.view(np.int64), 0)  # the bits, which add up to themselves

        goals = self.agreed(lambda: [mine(share.part, share.factored) for share in shares])
        summed = self._summed(goals, ("candidates",))
        return [
            share._replace(part=replace(share.part, goal=bits.view(np.float64)))
            for share, bits in zip(shares, summed, strict=True)
        ]

    def divides(self, name: str) -> bool:
        """Return whether the processes divide the queries, or the candidates."""
        return name in self.groups and self.groups[name].size() > 1

    def _range(self, name: str, size: int) -> tuple[int, int]:
        """Return the range of this process among `size` queries or candidates."""
        if name not in self.groups:
            return 0, size
        group = self.groups[name]
        return size * group.rank() // group.size(), size * (group.rank() + 1) // group.size()

    # Communication --------------------------------------------------------------------------------

    def agreed(self, step: Callable[[], T]) -> T:
        """Run a step; if it fails in one process, all raise an error with that message."""
        try:
            result = step()
        except Exception as error:
            with suppress(EvenrankError):  # a process that does not answer has stopped already
                self._gathered(f"{type(error).__name__}: {error}")
            raise
        for process, failed in self._gathered("").items():
            if failed:
                raise EvenrankError(
                    f"process {process} has failed, and all stop", got=failed.splitlines()[0]
                )
        return result

    def _check_same(self, plan: Plan) -> None:
        """Check that all processes have the same task and, by a sample of its rows, the same model."""
        digest = sha256()
        for part, factored in plan:
            lists = [part.known] if part.lists is None else [part.known, part.lists]
            given = [array for some in lists for array in (some.first, some.values)]
            for seen in (part.queries, part.first, part.targets, part.group, *given):
                digest.update(np.ascontiguousarray(seen).data)
            if factored is not None:
                rows = host(factored.table[:: max(1, part.size // SAMPLED)])
                digest.update(np.ascontiguousarray(rows).data)
        mine = digest.hexdigest()
        for process, theirs in self._gathered(mine).items():
            if theirs != mine:
                raise InputError(
                    "all processes need the same model and task",
                    got=f"different ones in process {process} and process {distributed.get_rank()}",
                    do="load them from the same files in every process, and sample with the same seed",
                )

    def _gathered(self, text: str) -> dict[int, str]:
        """All-gather a text from each process."""
        gathered = {distributed.get_rank(): text}
        with _connected():
            for group in self.groups.values():
                texts: list[dict[int, str]] = [{}] * group.size()
                distributed.all_gather_object(texts, gathered, group)
                gathered = {process: text for some in texts for process, text in some.items()}
        return gathered

    def _summed(self, arrays: list[Ints], names: tuple[str, ...]) -> list[Ints]:
        """Sum arrays over all processes along some dimensions, in one all-reduce each."""
        tensor = torch.from_numpy(np.concatenate(arrays)).to(self.device)
        with _connected():
            for name in names:
                if self.divides(name):
                    distributed.all_reduce(tensor, group=self.groups[name])
        return np.split(tensor.cpu().numpy(), offsets([len(array) for array in arrays])[1:-1])


@contextmanager
def _connected() -> Iterator[None]:
    """Turn torch's error about a lost process into one line."""
    try:
        yield
    except RuntimeError as error:
        raise EvenrankError(
            "another process of the mesh has ended or does not answer",
            got=str(error).strip().splitlines()[0].partition(". ")[0],  # what follows is advice
            do="see its last messages, and start all processes again",
        ) from error


def _described(text: str, device: str) -> DeviceMesh:
    """Arrange all processes as described; a dimension without a number takes all that are left."""
    items = [item.strip().partition("=") for item in text.split(",")]
    names = tuple(name for name, _, _ in items)
    fine = all(name in DIVIDED and (is_whole(number) or not sign) for name, sign, number in items)
    if not fine or len(set(names)) < len(names):
        raise InputError("unknown mesh", got=repr(text), allowed=ALLOWED)
    _join(device)
    processes = distributed.get_world_size()
    try:
        places = torch.arange(processes).view([int(number or -1) for _, _, number in items])
    except RuntimeError:
        raise InputError(
            "the mesh does not fit the number of processes", got=f"{text!r} and {processes} processes"
        ) from None
    return DeviceMesh(device, places, mesh_dim_names=names)


def _join(device: str) -> None:
    """Initialize the process group of torch, unless that was done."""
    if distributed.is_initialized():
        return
    if launched() is None:
        raise InputError(
            "a mesh needs several processes of torch.distributed",
            got="one process without a process group",
            do="start them with torchrun, or call torch.distributed.init_process_group",
        )
    if device == "cuda":
        _take_gpu(int(os.environ.get("LOCAL_RANK", 0)))
    with _connected():
        distributed.init_process_group(BACKENDS[device], timeout=PATIENCE)
    atexit.register(distributed.destroy_process_group)


def _take_gpu(number: int) -> None:
    """Select this process's own GPU; processes that share one cannot communicate by NCCL."""
    processes = max(number + 1, int(os.environ.get(NEIGHBOURS, 1)))
    gpus = torch.cuda.device_count()
    if processes > gpus:
        raise InputError(
            "each process needs a GPU of its own",
            got=f"{processes} processes, {gpus} GPU{'s' * (gpus != 1)}",
            do=f"start one process per GPU: torchrun --nproc-per-node {gpus}",
        )
    torch.cuda.set_device(number)


def tell_once(words: str, tell: Callable[[str], None]) -> None:
    """Report why this process ends, once for all processes of torchrun that end with the same message.

    The first process reports and then informs the others: torchrun stops all when one has ended.
    """
    process, store = launched(), _store()
    key = LAST_WORDS.format(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if process and store is not None:
        with suppress(RuntimeError):  # raised if the first process reports nothing
            if store.get(key) == words.encode():
                return
    tell(words)
    if process == 0 and store is not None:
        with suppress(RuntimeError):  # no process is left to read it
            store.set(key, words)


def _store() -> distributed.TCPStore | None:
    """Connect to the store of torchrun, if there is one."""
    if os.environ.get(STORE) != "True":
        return None
    try:
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return distributed.TCPStore(*where, is_master=False, timeout=MOMENT)
    except RuntimeError:
        return None


def _refuse_nan(part: Part) -> None:
    """Raise an error for a target score that is NaN; counting takes target scores for numbers."""
    goal = np.zeros(0) if part.goal is None else part.goal
    for target in np.flatnonzero(np.isnan(goal)):
        refuse_nan(part, int(part.query_of[target]), int(part.targets[target]))
