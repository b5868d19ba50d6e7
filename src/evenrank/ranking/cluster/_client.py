"""Who does the work: a cluster that runs somewhere, or one of this machine's cores."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evenrank._internal.optional import need
from evenrank.errors import InputError

PATIENCE = 30  # seconds to wait for a scheduler, and for its first worker
FAILURES = 10  # workers that may die at the same piece of work, of a cluster of our own
# what has to be alike everywhere: Dask's own messages, and what gives the numbers
ALIKE = ("python", "dask", "distributed", "evenrank", "polars")
OF_SCHEDULER = ("python", "dask", "distributed")


@contextmanager
def connect(address: str, *, patience: float = PATIENCE) -> Iterator[Any]:
    """Give a client of the Dask scheduler at an address; `local` starts workers on this machine's cores.

    A cluster of our own ends with the block; one that runs already goes on without us.
    """
    distributed = need("distributed")
    with warnings.catch_warnings():
        # `check` says the same in one line, and as an error
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        workers = _own(distributed) if address == "local" else _running(distributed, address, patience)
        with workers as client:
            yield client


@contextmanager
def _own(distributed: Any) -> Iterator[Any]:
    import dask

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": FAILURES}),
        distributed.LocalCluster(
            n_workers=cores,
            threads_per_worker=1,
            dashboard_address=":0",  # any port that is free
            silence_logs=logging.CRITICAL,
            env={"POLARS_MAX_THREADS": "1"},  # a worker has one core; more threads only get in the way
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def _running(distributed: Any, address: str, patience: float) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=patience)
    except (OSError, ValueError, MemoryError) as error:
        # Dask has ValueError for an address that is none, and MemoryError for a web page (of its
        # dashboard, say), whose first letters it takes for the length of a message
        other = isinstance(error, MemoryError)
        why = "something else does" if other else str(error).splitlines()[0]
        raise InputError(
            "no Dask scheduler answers",
            got=f"{address} ({why})",
            do="start one (dask scheduler), check address and network; or use --dask local",
        ) from None
    with client:
        yield client


def check(client: Any, *, patience: float = PATIENCE) -> None:
    """Refuse a cluster that has no workers, or whose Python or libraries are not ours."""
    distributed = need("distributed")
    if not isinstance(client, distributed.Client):
        raise InputError(
            "a Dask client is needed", got=type(client).__name__, do="distributed.Client(ADDRESS)"
        )
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        raise InputError(
            "the Dask scheduler has no workers",
            got=f"none in {patience:g} s",
            do="start some: dask worker ADDRESS",
        ) from None
    versions = client.get_versions(packages=["evenrank", "polars"])
    ours = _versions(versions["client"])
    others = {"the scheduler": versions["scheduler"], **versions["workers"]}
    for name, theirs in others.items():
        for package in OF_SCHEDULER if name == "the scheduler" else ALIKE:
            found = _versions(theirs).get(package)
            if found != ours.get(package):
                where = name if name == "the scheduler" else f"worker {name}"
                raise InputError(
                    f"{where} has another {package}",
                    got=f"{found or 'none'}, and {ours.get(package) or 'none'} here",
                    do="install the same versions everywhere",
                )


def _versions(node: Any) -> dict[str, str | None]:
    packages: dict[str, str | None] = dict(node["packages"])
    python = packages.get("python")
    # 3.11.4 and 3.11.9 understand each other
    return packages | {"python": None if python is None else ".".join(python.split(".")[:2])}
