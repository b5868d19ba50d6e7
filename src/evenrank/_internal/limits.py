"""The memory and the processors that this process may use: those of the machine, or of its container.

Containers and batch systems limit processes by control groups (cgroups, version 1 or 2). The limits of a
group hold for all groups below it, so the tightest one on the way up applies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

from evenrank.errors import InputError, Option

PROC = Path("/proc")
SHARE = 0.9  # of the available memory that may be allocated


def cpus() -> int:
    """Return the number of processors that this process may use, at least 1.

    Returns
    -------
    int
        The least of the processors of the machine, those that the process may run on, and its CPU quota.
    """
    able = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if able else os.cpu_count() or 1
    for group in _groups("cpu"):
        quota, period = [*_words(group / "cpu.max"), "", ""][:2]  # version 2
        if not quota:
            quota, period = _word(group / "cpu.cfs_quota_us"), _word(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):  # none is "max", or -1
            cores = min(cores, ceil(int(quota) / int(period)))
    return max(1, cores)


def available_memory() -> int:
    """Return the bytes that this process can still allocate without swapping.

    Returns
    -------
    int
        The least of the free memory of the machine and what the limits of the process leave
        (cgroups, `ulimit -v`); `sys.maxsize` if the system does not tell.
    """
    left = [_of_machine(), _of_address_space()]
    for group in _groups("memory"):
        held = _table(group / "memory.stat")
        names = ("memory.max", "memory.high", "memory.limit_in_bytes")
        limits = [*(_word(group / name) for name in names), held.get("hierarchical_memory_limit", "")]
        used = _word(group / "memory.current") or _word(group / "memory.usage_in_bytes")
        # files in the page cache are dropped when memory is needed
        cached = held.get("total_inactive_file") or held.get("inactive_file") or "0"
        left += [int(limit) - int(used or 0) + int(cached) for limit in limits if limit.isdigit()]
    return max(0, min(left))


def check_fits(
    needed: float, what: str, *, do: str | Sequence[str | Option] | None = None, where: str | None = None
) -> None:
    """Raise an error if something needs more memory than this process can allocate.

    Check before allocating: Linux kills a process that exceeds its limit, and polars aborts.

    Parameters
    ----------
    needed : float
        The number of bytes.
    what : str
        What needs them, as the beginning of a sentence.
    do : str or sequence of str and Option, optional
        What to do instead.
    where : str, optional
        The file.

    Raises
    ------
    InputError
        If they exceed 90 % of the available memory.

    Examples
    --------
    >>> check_fits(1e6, "this table")
    >>> check_fits(1e18, "this table")
    Traceback (most recent call last):
    evenrank.errors.InputError: this table needs more memory than is available; got 1,000,000,000 GB; ...
    """
    available = available_memory()
    if needed > SHARE * available:
        error = InputError(
            f"{what} needs more memory than is available",
            got=_size(needed),
            allowed=f"at most {_size(SHARE * available)} ({_size(available)} available)",
            do=do,
        )
        raise error if where is None else error.at(where)


def _size(count: float) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e11 else f"{count / 1e9:,.2f} GB"


def _of_machine() -> int:
    free = _table(PROC / "meminfo").get("MemAvailable:")
    if free is not None:
        return int(free) * 1024
    try:  # other systems: all of the memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _of_address_space() -> int:
    """Return the address space that `ulimit -v` leaves."""
    pages = _word(PROC / "self" / "statm")
    if not pages:
        return sys.maxsize
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = int(pages) * resource.getpagesize()
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - used


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups of this process, from its own up to the topmost."""
    paths: dict[str, str] = {}
    for line in _lines(PROC / "self" / "cgroup"):
        _, controllers, own = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), own)
    for line in _lines(PROC / "self" / "mountinfo"):
        before, _, after = line.partition(" - ")
        root, place = (_unescaped(word) for word in before.split()[3:5])
        kind, *_, options = after.split()
        if kind == "cgroup" and controller in paths and controller in options.split(","):
            path = paths[controller]
        elif kind == "cgroup2" and "" in paths:  # in version 2 all controllers share the groups
            path = paths[""]
        else:
            continue
        # in a container, the group of the container may be mounted as the topmost one
        inside = os.path.relpath(path, root)
        below = () if inside.startswith("..") else Path(inside).parts
        for depth in range(len(below), -1, -1):
            yield Path(place, *below[:depth])


def _unescaped(word: str) -> str:
    for sign in " \t\n\\":
        word = word.replace(f"\\{ord(sign):03o}", sign)
    return word


def _lines(path: Path) -> list[str]:
    """Read a file of the system; none if it is not there, or not for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _word(path: Path) -> str:
    """Read the first word of a file."""
    return next(iter(_words(path)), "")


def _table(path: Path) -> dict[str, str]:
    """Read a file with a name and a number in each line."""
    rows = (line.split() for line in _lines(path))
    return {row[0]: row[1] for row in rows if len(row) > 1}
