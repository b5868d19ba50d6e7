"""Connect to a running cluster, or start one on the cores of this machine."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evenrank._internal.checks import check_type
from evenrank._internal.limits import cpus
from evenrank._internal.optional import need
from evenrank.errors import InputError

PATIENCE = 30  # seconds to wait for a scheduler, and for its first worker
FAILURES = 10  # workers of a local cluster that may die over the same piece of work
# packages whose versions must be the same everywhere: for Dask's messages, and for the numbers
ALIKE = ("python", "dask", "distributed", "evenrank", "polars")
OF_SCHEDULER = ("python", "dask", "distributed")


@contextmanager
def connect(address: str, *, patience: float = PATIENCE) -> Iterator[Any]:
    """Connect to a Dask scheduler, or start a local cluster, for the length of a `with` statement.

    Parameters
    ----------
    address : str
        Address of a running scheduler, such as "tcp://scheduler:8786"; or "local" to start a worker on
        each core of this machine. A local cluster is closed at the end, and others cannot connect to
        it; a running one is left alone.
    patience : float, default 30
        Seconds to wait for the scheduler.

    Yields
    ------
    distributed.Client
        The client, for `er.cluster.rank` and `er.cluster.tally`.

    Raises
    ------
    InputError
        If no scheduler answers.
    """
    check_type(
        address,
        str,
        "the address of a Dask scheduler must be a text",
        allowed="'local', or an address such as 'tcp://scheduler:8786'",
    )
    distributed = need("distributed")
    with warnings.catch_warnings():
        # `check` raises an error of one line instead
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        workers = _own(distributed) if address == "local" else _running(distributed, address, patience)
        with workers as client:
            yield client


@contextmanager
def _own(distributed: Any) -> Iterator[Any]:
    """Start a cluster that only this process and its workers can speak to.

    What Dask sends is pickled, so whoever reaches its ports can run code: they are on the loopback
    interface, and TLS with a key made for this cluster keeps other users of the machine out.
    """
    import dask

    need("cryptography")  # for the key
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": FAILURES}),
        distributed.LocalCluster(
            n_workers=cpus(),
            threads_per_worker=1,
            host="127.0.0.1",
            protocol="tls://",
            security=True,
            dashboard_address=None,
            worker_dashboard_address=None,
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
        # Dask raises ValueError for an invalid address, and MemoryError for a web page (of its
        # dashboard, say), whose first letters it takes for the length of a message
        other = isinstance(error, MemoryError)
        why = "another service does" if other else str(error).splitlines()[0]
        raise InputError(
            "no Dask scheduler answers",
            got=f"{address} ({why})",
            do="start one by `dask scheduler`, check address and network, or use the address 'local'",
        ) from None
    with client:
        yield client


def check(client: Any, *, patience: float = PATIENCE) -> None:
    """Check that a cluster has workers, with the same versions of Python and the libraries."""
    distributed = need("distributed")
    check_type(client, distributed.Client, "not a Dask client", do="use er.cluster.connect(address)")
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        raise InputError(
            "the Dask scheduler has no workers",
            got=f"none in {patience:g} s",
            do="start some by `dask worker ADDRESS`",
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
                    f"{where} has another version of {package}",
                    got=f"{found or 'none'} there, {ours.get(package) or 'none'} here",
                    do="install the same versions everywhere",
                )


def _versions(node: Any) -> dict[str, str | None]:
    packages: dict[str, str | None] = dict(node["packages"])
    python = packages.get("python")
    # 3.11.4 and 3.11.9 are compatible
    return packages | {"python": None if python is None else ".".join(python.split(".")[:2])}
