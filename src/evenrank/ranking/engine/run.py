"""The resources of a call of `rank`: memory, threads, progress; interruption and lack of memory."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np

from evenrank._internal.limits import available_memory, cpus
from evenrank._internal.progress import Progress
from evenrank.errors import InputError
from evenrank.ranking.engine._native import Kernels
from evenrank.ranking.engine.denormals import kept

T = TypeVar("T")
R = TypeVar("R")
MOST = 512 * 2**20
LEAST = 2**20
BATCH = 1024  # most queries that a scorer gets at a time
# the environment variables of torchrun: rank, number of processes, address; number on this machine
LAUNCHED, NEIGHBOURS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), "LOCAL_WORLD_SIZE"
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Runner:
    """Working memory, threads and progress of one call of `rank`."""

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
        self.memory, self.threads, self.kernels = memory, threads, kernels
        self.batch = BATCH
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and not on_device else None
        self._bar = Progress("ranking", total, unit="scores", show=show)

    def __enter__(self) -> Self:
        """Start."""
        if self._pool:
            # these threads use all cores; threads of BLAS on top of them would slow each other down
            _blas.hold()
        self._kept = kept()
        self._kept.__enter__()
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the running threads and drop the waiting work."""
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
            _blas.release()
        self._kept.__exit__(None, None, None)
        self._bar.__exit__()

    def run(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Apply a function to items in threads and collect the results, in any order.

        After the first error, or Ctrl-C, no further items are started.
        """
        if self._pool is None:
            return [function(item) for item in items]
        waiting = {self._pool.submit(function, item) for item in items}
        results: list[R] = []
        try:
            while waiting:
                # in short waits, so that Ctrl-C is noticed
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                results += [future.result() for future in done]
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)
        return results

    def advance(self, scores: int) -> None:
        """Report a number of scores as done."""
        self._bar.advance(scores)

    def halve(self, error: Exception) -> None:
        """Continue with half the working memory; raise an error if that would be too little."""
        if self.memory == LEAST and self.batch == 1:
            raise InputError(
                "out of memory, even in small pieces", got=str(error) or type(error).__name__
            ) from error
        self.memory, self.batch = max(LEAST, self.memory // 2), max(1, self.batch // 2)
        warnings.warn(
            f"out of memory; continuing with half the working memory, {self.memory / 2**20:,.0f} MiB",
            RuntimeWarning,
            stacklevel=4,
        )


class _Blas:
    """Limits BLAS to one thread while any call of `rank` is running."""

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
    """Return whether an error means that memory ran out: NumPy's, or torch's by its name."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def memory_limit(memory: int | str | None) -> int:
    """Return the working memory in bytes: by default a quarter of the free memory, at most 512 MiB.

    Parameters
    ----------
    memory : int or str, optional
        A number of bytes, or a text such as "500MB" or "2GiB".

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    InputError
        If the size is not understood or below 1 MiB.

    Examples
    --------
    >>> memory_limit("1.5 MB"), memory_limit("64MiB"), memory_limit(10**9)
    (1500000, 67108864, 1000000000)
    """
    if memory is None:
        return max(LEAST, min(MOST, available_memory() // 4))
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
            allowed="a number of bytes, or a text such as '500MB' or '2GiB'",
        )
    return int(size)


def thread_count(threads: int | None) -> int:
    """Return the number of threads: by default that of the processors this process may use.

    Parameters
    ----------
    threads : int, optional
        The number asked for.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InputError
        If `threads` is not a positive integer.
    """
    if threads is None:
        return max(1, cpus() // from_environment(NEIGHBOURS, least=1))
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise InputError("threads must be a positive integer", got=repr(threads))
    return int(threads)


def launched() -> int | None:
    """Return the rank of this process among those that torchrun started, or None if it did not."""
    if not all(name in os.environ for name in LAUNCHED):
        return None
    rank, processes, _, port = LAUNCHED
    from_environment(port, least=0)
    if from_environment(rank, least=0) >= from_environment(processes, least=1):
        raise InputError(
            f"{rank} must be smaller than {processes}",
            got=f"{os.environ[rank]} of {os.environ[processes]}",
            do="start the processes by torchrun, or unset these environment variables",
        )
    return from_environment(rank, least=0)


def from_environment(name: str, *, least: int) -> int:
    """Return a number that an environment variable holds, or `least` if it is not set."""
    text = os.environ.get(name, str(least))
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise InputError(
            f"the environment variable {name} must be a whole number of at least {least}",
            got=repr(text),
            do="correct or unset it",
        )
    return int(text)
