"""Running: how much memory, how many threads, how far along; stopping and running out of memory."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np

from evenrank._internal.progress import Progress
from evenrank.errors import InputError
from evenrank.ranking.engine._native import Kernels

T = TypeVar("T")
R = TypeVar("R")
MOST = 512 * 2**20
LEAST = 2**20
BATCH = 1024  # queries a scorer is asked at a time, at most
# what torchrun tells a process: its number, how many there are, where to meet; how many on this machine
LAUNCHED, NEIGHBOURS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), "LOCAL_WORLD_SIZE"
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Runner:
    """Working space, threads and progress of one call of `rank`."""

    def __init__(
        self,
        memory: int,
        threads: int,
        kernels: Kernels,
        *,
        total: int,
        show: bool,
        on_device: bool = False,
    ) -> None:
        """Set up; threads start when they are needed."""
        self.memory, self.threads, self.kernels = memory, threads, kernels
        self.batch = BATCH
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and not on_device else None
        self._bar = Progress("ranking", total, unit="scores", show=show)

    def __enter__(self) -> Self:
        """Start."""
        if self._pool:
            # our threads share the cores out; BLAS's own, on top, would get in each other's way
            _blas.hold()
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, whatever happened: wait for what is running, drop what is not."""
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
            _blas.release()
        self._bar.__exit__()

    def run(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Apply a function to items in threads and collect the results, in any order.

        The first error, or Ctrl-C, drops what has not begun.
        """
        if self._pool is None:
            return [function(item) for item in items]
        waiting = {self._pool.submit(function, item) for item in items}
        results: list[R] = []
        try:
            while waiting:
                # in short waits, so that Ctrl-C is heard
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                results += [future.result() for future in done]
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)
        return results

    def advance(self, scores: int) -> None:
        """Report scores as done."""
        self._bar.advance(scores)

    def halve(self, error: Exception) -> None:
        """Go on with half the working space; give up where that is next to nothing."""
        if self.memory == LEAST and self.batch == 1:
            raise InputError(
                "out of memory, even in small pieces", got=str(error) or type(error).__name__
            ) from error
        self.memory, self.batch = max(LEAST, self.memory // 2), max(1, self.batch // 2)
        warnings.warn(
            f"out of memory; going on with half the working space, {self.memory / 2**20:,.0f} MiB",
            RuntimeWarning,
            stacklevel=4,
        )


class _Blas:
    """BLAS held to one thread while anybody ranks; the first one holds it, the last one lets go."""

    def __init__(self) -> None:
        self._lock, self._holders = Lock(), 0
        self._limits: Any = None
        self._found: Any = None
        self._modules = 0

    def hold(self) -> None:
        from threadpoolctl import ThreadpoolController

        with self._lock:
            self._holders += 1
            if self._holders == 1:
                if self._modules != len(
                    sys.modules
                ):  # looking through what is loaded takes milliseconds
                    self._found, self._modules = ThreadpoolController(), len(sys.modules)
                self._limits = self._found.limit(limits=1, user_api="blas")

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders and self._limits is not None:
                self._limits.restore_original_limits()


_blas = _Blas()


def out_of_memory(error: Exception) -> bool:
    """Say whether an error means that memory ran out: NumPy's, or torch's by its name."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def memory_limit(memory: int | str | None) -> int:
    """Give the working space in bytes.

    >>> memory_limit("1.5 MB"), memory_limit("64MiB"), memory_limit(10**9)
    (1500000, 67108864, 1000000000)
    """
    if memory is None:
        return min(MOST, _free() // 4)
    text = str(memory).strip().upper()
    number = text.rstrip("BKMGI ")
    unit = text[len(number) :].strip()
    try:
        size = float(number) * UNITS[unit]
    except (ValueError, KeyError):
        size = 0
    if not size >= LEAST or size > 2**62:
        raise InputError(
            "memory must be a size of at least 1 MiB",
            got=repr(memory),
            allowed="a number of bytes, '500MB', '2GiB'",
        )
    return int(size)


def thread_count(threads: int | None) -> int:
    """Give the number of threads: the cores this process may use, unless told."""
    if threads is None:
        able = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if able else os.cpu_count() or 1
        return max(1, cores // int(os.environ.get(NEIGHBOURS, 1)))
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise InputError("threads must be a whole number from 1", got=repr(threads))
    return int(threads)


def launched() -> int | None:
    """Give the number of a process that torchrun, or what does the same, has started beside others."""
    return int(os.environ[LAUNCHED[0]]) if all(name in os.environ for name in LAUNCHED) else None


def _free() -> int:
    """Bytes of memory that can be had without swapping; where the system does not say, 2 GB."""
    system = Path("/proc/meminfo")
    lines = system.read_text(encoding="ascii").splitlines() if system.exists() else []
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return free[0] if free else 2 * 10**9
