"""Ranking by several processes of torch.distributed: each takes some queries, some candidates, or both.

The processes form a mesh, and its dimensions say what is shared out. Along `queries`, each process ranks
some of them. Along `candidates`, each counts a block of the table, and needs no more of it on its
device; whoever has a target's row works out its score, and tells the others, bit for bit. Counts are
integers, and add up. So all that travels is 8 bytes a target for its score and 16 for its counts,
however many entities and dimensions there are, and the result, which every process gets, has the same
bits for any mesh.

Processes go from step to step together. One that fails tells the others why, and all stop. One that
dies is missed at the next step: at once, or where it hangs, after the timeout of its process group.
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
from evenrank.errors import EvenrankError, InputError
from evenrank.ranking.engine._count import batch, refuse_nan
from evenrank.ranking.engine._device import Device, cuda_is_there
from evenrank.ranking.engine.run import NEIGHBOURS, launched
from evenrank.ranking.resume import Book, Run
from evenrank.ranking.scorer import Factored
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.task import Part, Task, offsets

T = TypeVar("T")
Plan = list[tuple[Part, Factored | None]]
Counted = tuple[Ints, Ints, int]

SHARED = ("queries", "candidates")
ALLOWED = "'queries', 'candidates', both with a number as in 'queries=2,candidates=4'"
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
GLANCE = 16  # rows of a table by which it is told from others
PATIENCE = timedelta(minutes=30)  # how long to wait for a process that neither answers nor ends
# torchrun keeps a store for its processes, which is there before they meet; how long to wait there for
# the last words of the first one
STORE, LAST_WORDS, MOMENT = "TORCHELASTIC_USE_AGENT_STORE", "evenrank/{}", timedelta(seconds=10)


class Share(NamedTuple):
    """What one process has of a part: queries and candidates, their rows, and where its targets are."""

    part: Part
    factored: Factored | None
    targets: slice

    @property
    def empty(self) -> bool:
        """Say whether there is nothing to count; lists may be empty and their targets still NaN."""
        return not (len(self.part.queries) and self.part.size)


class Crew:
    """The processes that rank together, as one of them sees them."""

    def __init__(self, mesh: DeviceMesh) -> None:
        """Take a place in a mesh."""
        names = mesh.mesh_dim_names or ()
        if not names or not set(names) <= set(SHARED):
            raise InputError(
                "the dimensions of a mesh say what processes share out",
                got=", ".join(names) or "no names",
                allowed=" and ".join(SHARED),
                do="init_device_mesh('cpu', (2, 2), mesh_dim_names=('queries', 'candidates'))",
            )
        if mesh.get_coordinate() is None:
            raise InputError("this process is not in the mesh", got=f"process {distributed.get_rank()}")
        self.groups = {name: mesh.get_group(name) for name in names}
        self.size = mesh.size()
        self.device = mesh.device_type
        self.first = not any(mesh.get_coordinate())

    @classmethod
    def of(cls, mesh: Any, device: str) -> Crew:
        """Take a place in a mesh of torch, or in one that a text describes, with such a device each."""
        if isinstance(mesh, DeviceMesh):
            return cls(mesh)
        if not isinstance(mesh, str):
            raise InputError(
                "this is no mesh",
                got=type(mesh).__name__,
                allowed=f"{ALLOWED}, or a DeviceMesh of torch",
            )
        cuda = "cuda" in device or (device == "auto" and cuda_is_there())
        if cuda and not cuda_is_there():
            Device(device)  # says why it cannot be used
        return cls(_described(mesh, "cuda" if cuda else "cpu"))

    def counted(
        self,
        plan: Plan,
        count: Callable[[Plan], Iterable[Counted]],
        score: Callable[[Factored, Part], Floats],
    ) -> list[Counted]:
        """Count a plan together; `count` counts one alone, and `score` scores the targets of a part."""
        self._refuse_others(plan)
        shares = [self._share(part, factored) for part, factored in plan]
        if self.shares("candidates"):
            shares = self._told(shares, score)

        def mine() -> Iterator[Ints]:
            for share in shares:
                _refuse_nan(share.part)
            some = iter(count([(share.part, share.factored) for share in shares if not share.empty]))
            for (part, _), share in zip(plan, shares, strict=True):
                counts, undecided = np.zeros((2, len(part.targets)), np.int64), 0
                if not share.empty:
                    counts[0, share.targets], counts[1, share.targets], undecided = next(some)
                yield np.append(counts, undecided)

        summed = self._summed(self.agreed(lambda: [*mine()]), SHARED)
        halves = (np.split(counts[:-1], 2) for counts in summed)
        return [
            (better, equal, int(counts[-1]))
            for (better, equal), counts in zip(halves, summed, strict=True)
        ]

    def book(self, task: Task, plan: Plan, run: Callable[[], Run]) -> Book:
        """Give the run that the first process opens; to the others, a book that says the same."""
        self._refuse_others(plan)
        mine = self.agreed(lambda: run() if self.first else None)
        words = json.dumps([mine.queries, mine.missing, mine.protocol.to_dict()]) if mine else ""
        queries, missing, protocol = json.loads("".join(self._gathered(words).values()))
        book = mine or Book(task, queries, Protocol.from_dict(protocol))
        book.missing = missing
        book.counts = dict(zip(book.counts, self._summed([*book.counts.values()], SHARED), strict=True))
        return book

    def _share(self, part: Part, factored: Factored | None) -> Share:
        """Cut out what this process counts."""
        # query vectors are worked out in batches, and in the same ones as by one process
        unit, queries = batch(factored.table.shape[1]) if factored else 1, len(part.queries)
        begin, end = (min(unit * i, queries) for i in self._range("queries", -(-queries // unit)))
        targets = slice(int(part.first[begin]), int(part.first[end]))
        if self.shares("queries"):
            _, part = part.between(begin, end)
        if self.shares("candidates"):
            start, stop = self._range("candidates", part.size)
            part = part.among(start, stop)
            if factored is not None and start < stop:
                factored = replace(factored, table=factored.table[start:stop], reads=())
        return Share(part, factored, targets)

    def _told(self, shares: list[Share], score: Callable[[Factored, Part], Floats]) -> list[Share]:
        """Score the targets whose rows are here, and hear the scores of the others."""

        def mine(part: Part, factored: Factored | None) -> Ints:
            inside = (part.targets >= 0) & (part.targets < part.size)
            if factored is None or not inside.any():
                return np.zeros(len(part.targets), np.int64)
            goal = score(factored, replace(part, targets=np.where(inside, part.targets, 0)))
            return np.where(inside, goal.view(np.int64), 0)  # the bits, which add up to themselves

        goals = self.agreed(lambda: [mine(share.part, share.factored) for share in shares])
        told = self._summed(goals, ("candidates",))
        return [
            share._replace(part=replace(share.part, goal=bits.view(np.float64)))
            for share, bits in zip(shares, told, strict=True)
        ]

    def shares(self, name: str) -> bool:
        """Say whether queries, or candidates, are shared out."""
        return name in self.groups and self.groups[name].size() > 1

    def _range(self, name: str, size: int) -> tuple[int, int]:
        """Say which of some things in a row are for this process."""
        if name not in self.groups:
            return 0, size
        group = self.groups[name]
        return size * group.rank() // group.size(), size * (group.rank() + 1) // group.size()

    # Talking to each other ------------------------------------------------------------------------

    def agreed(self, step: Callable[[], T]) -> T:
        """Take a step; where it fails in one process, it fails in all, and they say why."""
        try:
            result = step()
        except Exception as error:
            with suppress(EvenrankError):  # who does not hear this has stopped
                self._gathered(f"{type(error).__name__}: {error}")
            raise
        for process, failed in self._gathered("").items():
            if failed:
                raise EvenrankError(
                    f"process {process} has failed, and all stop", got=failed.splitlines()[0]
                )
        return result

    def _refuse_others(self, plan: Plan) -> None:
        """Refuse to rank together what is not the same, as far as a glance tells."""
        glance = sha256()
        for part, factored in plan:
            lists = [part.known] if part.lists is None else [part.known, part.lists]
            given = [array for some in lists for array in (some.first, some.values)]
            for seen in (part.queries, part.first, part.targets, part.group, *given):
                glance.update(np.ascontiguousarray(seen).data)
            if factored is not None:
                rows = host(factored.table[:: max(1, part.size // GLANCE)])
                glance.update(np.ascontiguousarray(rows).data)
        mine = glance.hexdigest()
        for process, theirs in self._gathered(mine).items():
            if theirs != mine:
                raise InputError(
                    "processes that rank together need the same model and task",
                    got=f"others in process {process} than in process {distributed.get_rank()}",
                    do="load them from the same files in all of them; draw nothing without a seed",
                )

    def _gathered(self, word: str) -> dict[int, str]:
        """Hear a word from each process."""
        heard = {distributed.get_rank(): word}
        with _heard():
            for group in self.groups.values():
                words: list[dict[int, str]] = [{}] * group.size()
                distributed.all_gather_object(words, heard, group)
                heard = {process: word for some in words for process, word in some.items()}
        return heard

    def _summed(self, arrays: list[Ints], names: tuple[str, ...]) -> list[Ints]:
        """Add up arrays of all processes along some dimensions, all in one go."""
        tensor = torch.from_numpy(np.concatenate(arrays)).to(self.device)
        with _heard():
            for name in names:
                if self.shares(name):
                    distributed.all_reduce(tensor, group=self.groups[name])
        return np.split(tensor.cpu().numpy(), offsets([len(array) for array in arrays])[1:-1])


@contextmanager
def _heard() -> Iterator[None]:
    """Say in one line that others cannot be heard."""
    try:
        yield
    except RuntimeError as error:
        raise EvenrankError(
            "a process that ranks with this one is gone, or does not answer",
            got=str(error).strip().splitlines()[0].partition(". ")[0],  # what follows is advice
            do="see what it said last, and start all of them again",
        ) from error


def _described(text: str, device: str) -> DeviceMesh:
    """Arrange all processes as a text says; a dimension without a number has all that are left."""
    items = [item.strip().partition("=") for item in text.split(",")]
    names = tuple(name for name, _, _ in items)
    fine = all(name in SHARED and (number.isdigit() or not sign) for name, sign, number in items)
    if not fine or len(set(names)) < len(names):
        raise InputError("this describes no mesh", got=repr(text), allowed=ALLOWED)
    _meet(device)
    processes = distributed.get_world_size()
    try:
        places = torch.arange(processes).view([int(number or -1) for _, _, number in items])
    except RuntimeError:
        raise InputError(
            "a mesh has a place for each process", got=f"{text!r} and {processes} processes"
        ) from None
    return DeviceMesh(device, places, mesh_dim_names=names)


def _meet(device: str) -> None:
    """Meet the other processes, unless that was done."""
    if distributed.is_initialized():
        return
    if launched() is None:
        raise InputError(
            "a mesh needs processes that know of each other",
            got="this one alone",
            do="start them with torchrun, or call torch.distributed.init_process_group",
        )
    if device == "cuda":
        _take_gpu(int(os.environ.get("LOCAL_RANK", 0)))
    with _heard():
        distributed.init_process_group(BACKENDS[device], timeout=PATIENCE)
    atexit.register(distributed.destroy_process_group)


def _take_gpu(number: int) -> None:
    """Have a GPU of one's own; processes that share one cannot talk by NCCL."""
    processes = max(number + 1, int(os.environ.get(NEIGHBOURS, 1)))
    gpus = torch.cuda.device_count()
    if processes > gpus:
        raise InputError(
            "each process needs a GPU of its own",
            got=f"{processes} processes, {gpus} GPU{'s' * (gpus != 1)}",
            do=f"start one for each: --nproc-per-node {gpus}",
        )
    torch.cuda.set_device(number)


def tell_once(words: str, tell: Callable[[str], None]) -> None:
    """Tell why this process ends, unless it is one of torchrun's and the first ends with the same words.

    That one tells first and then lets the others know: torchrun stops all when one has ended.
    """
    process, store = launched(), _store()
    key = LAST_WORDS.format(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if process and store is not None:
        with suppress(RuntimeError):  # which is raised where the first one says nothing
            if store.get(key) == words.encode():
                return
    tell(words)
    if process == 0 and store is not None:
        with suppress(RuntimeError):  # nobody is left to hear it
            store.set(key, words)


def _store() -> distributed.TCPStore | None:
    """Open the store that torchrun keeps, if it does."""
    if os.environ.get(STORE) != "True":
        return None
    try:
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return distributed.TCPStore(*where, is_master=False, timeout=MOMENT)
    except RuntimeError:
        return None


def _refuse_nan(part: Part) -> None:
    """Name a target whose score has no rank; whoever counts takes what it is told for numbers."""
    told = np.zeros(0) if part.goal is None else part.goal
    for target in np.flatnonzero(np.isnan(told)):
        refuse_nan(part, int(part.query_of[target]), int(part.targets[target]))
