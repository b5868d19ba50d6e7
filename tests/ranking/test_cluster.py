"""Clusters: the same bits as one process, for any distribution of work and killed workers."""

import json
import logging
import os
import random
import signal
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from typer.testing import CliRunner

import evenrank as er
from evenrank.cli import app
from evenrank.errors import EvenrankError, InputError
from evenrank.ranking.cluster import _client, _tally, connect, tally
from evenrank.ranks import streams

distributed = pytest.importorskip("distributed")
FILES, ROWS, KILLS = 3, 4000, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of ranks with ties and a key."""
    folder = tmp_path_factory.mktemp("ranks")
    for seed in range(FILES):
        rng = np.random.default_rng(seed)
        better, equal = rng.integers(0, 40, ROWS), rng.integers(0, 20, ROWS) // 15
        keys = {"relation": rng.choice(["r", "s", "t"], ROWS).astype(object)}
        facts = {"data": "toy", "file": str(seed)}
        ranks = er.Ranks(better, equal, rng.integers(50, 60, ROWS), keys=keys, protocol=facts)
        ranks.save(folder / f"{seed}.parquet")
    return folder


@pytest.fixture(scope="module")
def local():
    """Four processes on this machine, which may die more often than Dask expects."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 100}),
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(local):
    with distributed.Client(local, timeout=60) as client:
        yield client


@pytest.mark.parametrize("question", [{}, {"by": "relation"}, {"average": "relation"}])
def test_four_processes_have_the_bits_of_one(folder, client, monkeypatch, question):
    monkeypatch.setattr(_tally, "PART", 100)  # so that there is a tree to add up
    ours, theirs = er.stream(folder, **question), tally(folder, client, **question)
    assert theirs.tally == ours.tally
    assert theirs.labels == ours.labels
    assert theirs.evaluate().to_json() == ours.evaluate().to_json()
    assert theirs.protocol.to_dict() == {"data": "toy"}


def test_killed_workers_change_nothing(folder, local, client, monkeypatch):
    """Workers die by SIGKILL, at random, all the while; every number is as it was."""
    monkeypatch.setattr(_tally, "PART", 50)
    wanted = er.stream(folder, by="relation").evaluate().to_json()
    rng, killed, over = random.Random(0), [], threading.Event()

    def kill():
        while len(killed) < KILLS and not over.wait(rng.uniform(0.1, 0.6)):
            alive = [nanny.pid for nanny in [*local.workers.values()] if nanny.is_alive()]
            if alive:
                killed.append(rng.choice(alive))
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    deadline = time.monotonic() + 120
    while killer.is_alive() and time.monotonic() < deadline:
        assert tally(folder, client, by="relation").evaluate().to_json() == wanted
    over.set()
    killer.join(timeout=30)
    assert len(killed) == KILLS


def test_damaged_files_raise_or_are_skipped(folder, client, monkeypatch, tmp_path):
    """A file that is damaged in one part is left out with all of them."""
    monkeypatch.setattr(_tally, "PART", 100)
    for path in folder.iterdir():
        content = path.read_bytes()
        start = len(content) // 3 if path.name == "1.parquet" else len(content)
        damaged = content[:start] + bytes(100) + content[start + 100 :]
        (tmp_path / path.name).write_bytes(damaged if start < len(content) else content)
    with pytest.raises(InputError, match=r"cannot read .*1.parquet; got .*; it may be damaged"):
        tally(tmp_path, client)
    rest = tally(tmp_path, client, skip_damaged=True)
    assert rest.tally == er.stream([folder / "0.parquet", folder / "2.parquet"]).tally
    assert list(rest.left_out) == [str(tmp_path / "1.parquet")]


def test_errors_of_workers_read_like_local_ones(folder, client):
    with pytest.raises(InputError, match="no such key column; got 'colour'; allowed: relation"):
        tally(folder, client, by="colour")


def test_names_are_those_of_this_process(folder, client, monkeypatch):
    """A worker may be in another folder."""
    monkeypatch.chdir(folder)
    assert tally("0.parquet", client).tally == er.stream("0.parquet").tally


def test_files_missing_on_workers_are_named(folder, client):
    """As on another machine: here it is gone before it is counted."""
    part = streams.Part(str(folder / "gone.parquet"), 0, 9)
    future = client.submit(streams.count, part, streams.Question(), pure=False)
    with pytest.raises(
        InputError, match=r"no such file; got .*gone.parquet; .*all workers must be able to read it"
    ):
        future.result(timeout=60)


def test_a_running_scheduler_is_used(folder, local):
    shown = CliRunner().invoke(
        app, ["evaluate", str(folder), "--dask", local.scheduler_address, "--format", "json"]
    )
    assert json.loads(shown.stdout) == json.loads(er.stream(folder).evaluate().to_json())


def test_local_workers_start_and_end(folder):
    shown = CliRunner().invoke(
        app, ["evaluate", str(folder), "--dask", "local", "--format", "json", "--by", "relation"]
    )
    assert json.loads(shown.stdout) == json.loads(er.stream(folder, by="relation").evaluate().to_json())


def test_schedulers_that_do_not_answer_are_named():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"tcp://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(InputError) as error, connect(address, patience=1):
            pass
    assert f"no Dask scheduler answers; got {address} (" in str(error.value)
    assert "start one by `dask scheduler`, check address and network, or use the address 'local'" in str(
        error.value
    )
    with (
        pytest.raises(InputError, match="no Dask scheduler answers; got nonsense://x"),
        connect("nonsense://x"),
    ):
        pass


def test_a_web_server_is_not_a_scheduler():
    """As when the port is that of the dashboard."""
    refuse = {"handle": lambda self: self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")}
    web = type("Web", (BaseHTTPRequestHandler,), refuse)
    with ThreadingHTTPServer(("127.0.0.1", 0), web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        with (
            pytest.raises(InputError, match=rf"answers; got {address} \(another service does\)"),
            connect(address, patience=5),
        ):
            pass
        server.shutdown()


def test_a_cluster_without_workers_raises(folder):
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        distributed.Client(empty, timeout=60) as client,
        pytest.raises(
            InputError, match=r"no workers; got none in 0.1 s; start some by `dask worker ADDRESS`"
        ),
    ):
        _client.check(client, patience=0.1)


def test_objects_that_are_not_clients_raise(folder):
    with pytest.raises(InputError, match=r"not a Dask client; got str; use er.cluster.connect"):
        tally(folder, "tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("node", "package", "version", "message"),
    [
        (
            "workers",
            "evenrank",
            "0.0.9",
            "worker .* has another version of evenrank; got 0.0.9 there, .* here",
        ),
        (
            "workers",
            "evenrank",
            None,
            "worker .* has another version of evenrank; got none there, .* here",
        ),
        ("workers", "polars", "0.1", "worker .* has another version of polars; got 0.1 there, .* here"),
        (
            "scheduler",
            "distributed",
            "1.0",
            "the scheduler has another version of distributed; got 1.0 there,",
        ),
        (
            "scheduler",
            "python",
            "3.8.1.final.0",
            "the scheduler has another version of python; got 3.8 there,",
        ),
    ],
)
def test_incompatible_versions_raise(folder, client, monkeypatch, node, package, version, message):
    found = client.get_versions(packages=["evenrank", "polars"])
    nodes = [found["scheduler"]] if node == "scheduler" else list(found["workers"].values())
    nodes[-1]["packages"][package] = version
    monkeypatch.setattr(client, "get_versions", lambda packages: found)
    with pytest.raises(InputError, match=f"{message}.*install the same versions everywhere"):
        tally(folder, client)


def test_compatible_versions_are_accepted(client, monkeypatch):
    found = client.get_versions(packages=["evenrank", "polars"])
    found["scheduler"]["packages"] |= {"polars": None, "evenrank": None}  # it reads no ranks
    python = found["scheduler"]["packages"]["python"].split(".")
    found["scheduler"]["packages"]["python"] = ".".join([*python[:2], "99", "final", "0"])
    monkeypatch.setattr(client, "get_versions", lambda packages: found)
    _client.check(client)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            distributed.KilledWorker("count-1", SimpleNamespace(address="tcp://1"), 4),
            "workers died repeatedly while counting one part of a file; got .*count-1.*give each",
        ),
        (
            distributed.CancelledError("total"),
            "lost the connection to the Dask scheduler; got total; start it, and count again",
        ),
    ],
)
def test_tasks_that_dask_gives_up_raise_one_line(error, message):
    def result():
        raise error

    with pytest.raises(EvenrankError, match=message):
        _tally._result(SimpleNamespace(result=result))


def listening(process):
    """The addresses and ports on which a process of Linux listens."""
    inodes = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):
            inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:  # the state "listening"
                found.add(tuple(words[1].split(":")))
    return found


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="ports are listed on Linux only")
def test_a_local_cluster_listens_on_the_loopback_interface_and_answers_its_own_key_only():
    before = listening(os.getpid())
    with connect("local") as client:
        processes = client.run(os.getpid).values()
        ports = set().union(listening(os.getpid()) - before, *map(listening, processes))
        assert {address for address, _ in ports} == {"0100007F"}  # 127.0.0.1
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        stranger = distributed.security.Security.temporary()
        for scheme, security in [("tls", stranger), ("tcp", None)]:
            with pytest.raises(OSError, match=r"(?i)timed out|certificate|closed"):
                distributed.Client(address.replace("tls", scheme), security=security, timeout=2)
