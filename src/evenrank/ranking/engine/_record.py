"""Record kernel launches once and replay them: on graphs of usual size launching takes most of the time.

Counting FB15k-237 keeps an H200 busy for less time than Python takes to launch the kernels. The first
time that a model is ranked on a task, everything is launched as usual; the second time, the launches
are recorded (a CUDA graph); from then on they are replayed, with the current values of the parameters.
The kernels, and so the bits, are the same.

A task has at most one recording: another model, or another table of the same model, replaces it. It
keeps its working memory and the parameters alive; hence only small work is recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from threading import Lock
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch

from evenrank.ranking.engine._device import Device
from evenrank.ranking.scorer import Factored
from evenrank.ranks.task import Part

Plan = list[tuple[Part, Factored]]
SMALL = 1 << 31  # most bytes that a recording may take
SHARE = 16  # and most of a device's memory: a 16th


@dataclass
class Recording:
    """The launches for a plan: noted the first time, then recorded, one CUDA graph per part."""

    key: Any
    recordable: bool = True
    graphs: list[Any] = field(default_factory=list)
    counts: list[list[Any]] = field(default_factory=list)


_recordings: WeakKeyDictionary[Part, Recording] = WeakKeyDictionary()
_one_at_a_time = Lock()  # torch records on one stream for all threads


class Recorder:
    """Launches the kernels for a plan, or replays a recording, which no other thread uses meanwhile."""

    def __init__(self, plan: Plan, device: Device, exact: bool) -> None:
        self.plan, self.key = plan, _key(plan, device, exact)
        self.recording: Recording | None = None

    def __enter__(self) -> Self:
        """Take the recording of the task, if there is one."""
        if self.key is not None:
            self.recording = _recordings.pop(self.plan[0][0], None)
        return self

    def __exit__(self, kind: object, *why: object) -> None:
        """Keep the recording for the next call, once everything has been read."""
        if self.recording is not None and kind is None:
            for count in chain.from_iterable(self.recording.counts):
                count.part = None  # a recording must not keep its task alive
            _recordings[self.plan[0][0]] = self.recording

    def launch(self, launched: Callable[[Part, Factored], list[Any]]) -> list[list[Any]]:
        """Launch or replay everything, and return the pending counts of each part."""
        if self.recording is None or self.recording.key != self.key:
            self.recording = None if self.key is None else Recording(self.key)
        elif self.recording.recordable and not self.recording.graphs:
            self.recording = self._recorded(launched)
        if self.recording is None or not self.recording.graphs:
            return [launched(part, factored) for part, factored in self.plan]
        for (part, _), graph, counts in zip(
            self.plan, self.recording.graphs, self.recording.counts, strict=True
        ):
            graph.replay()
            for count in counts:
                count.part = part
                count.sent()
        return self.recording.counts

    def _recorded(self, launched: Callable[[Part, Factored], list[Any]]) -> Recording:
        """Record the launches; if that is impossible, note it, so that they are launched every time."""
        made = Recording(self.key)
        try:
            for part, factored in self.plan:
                graph = torch.cuda.CUDAGraph()
                pool = made.graphs[0].pool() if made.graphs else None
                with _one_at_a_time, warnings.catch_warnings():
                    # of launches that cannot be recorded; they are launched as usual instead
                    warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                    # relaxed: other threads may use the device meanwhile
                    with torch.cuda.graph(graph, pool, capture_error_mode="relaxed"):
                        made.counts.append(launched(part, factored))
                made.graphs.append(graph)
        except RuntimeError:
            return Recording(self.key, recordable=False)
        return made


def _key(plan: Plan, device: Device, exact: bool) -> Any:
    """Return all that a recording depends on, or None if the plan is not to be recorded."""
    if device.device.type != "cuda" or device.kernels is None:
        return None
    queries = sum(len(part.queries) for part, _ in plan)
    table = plan[0][1].table
    most = min(SMALL, torch.cuda.get_device_properties(device.device).total_memory // SHARE)
    # vectors of float64, the same split, and working memory
    if (queries + len(table)) * table.shape[1] * 40 > most:
        return None
    if any(part.lists is not None or part.goal is not None or not f.reads for part, f in plan):
        return None
    return exact, str(device.device), tuple((id(part), factored.reads) for part, factored in plan)
