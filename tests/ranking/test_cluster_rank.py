"""Ranking by the workers of a cluster: the same bits as one process, also if workers die."""

import logging
import os
import random
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from unittest import mock

import numpy as np
import pytest

import evenrank as er
from evenrank.ranking.cluster import _rank
from evenrank.ranking.cluster._parcel import Parcel
from evenrank.ranking.resume import Checkpoint

distributed = pytest.importorskip("distributed")
ENGINE = import_module("evenrank.ranking._rank")
MODELS = Path(er.__file__).parent / "models" / "bundled"
PATIENCE = 120  # seconds after which what should have ended has hung
KILLS = int(os.environ.get("EVENRANK_KILLS", "5"))  # 20 for a storm


@pytest.fixture(autouse=True)
def small_blocks():
    with mock.patch.object(ENGINE, "_whole", return_value=24):
        yield


def workers(count):
    """Workers, processes of their own, that are started again when they die."""
    options = {"n_workers": count, "threads_per_worker": 1, "silence_logs": logging.CRITICAL}
    try:
        return distributed.LocalCluster(dashboard_address=":0", **options)
    except AssertionError:  # its event loop has ten seconds to start, too few on a very busy machine
        return distributed.LocalCluster(dashboard_address=":0", **options)


@pytest.fixture(scope="module")
def local():
    with workers(4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(local):
    with distributed.Client(local) as client:
        yield client


@pytest.fixture(scope="module")
def kinships():
    return er.load("kinships").task("test")


def whole(scorer, task, folder):
    """The file that ranking in one go, here, gives."""
    er.rank(scorer, task, progress=False).save(folder / "whole.parquet")
    return (folder / "whole.parquet").read_bytes()


def slow(seconds):
    """A scorer whose scores are whole numbers, and which takes its time."""

    def by_hash(queries, candidates):
        import numpy as np  # on a worker

        time.sleep(seconds)
        ids = np.arange(candidates.start, candidates.stop)
        return ((queries @ np.array([3, 4, 5]))[:, None] * 31 + ids * 17) % 1009.0

    return by_hash


def raises(*parts, kind=er.errors.InputError):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(kind, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts))


@pytest.mark.parametrize(("name", "mapped"), [("complex", False), ("tucker", True), ("rotate", True)])
def test_the_bits_of_one_process(client, kinships, name, mapped, tmp_path):
    model = er.models.load(MODELS / f"kinships-{name}.safetensors", mapped=mapped)
    ranks = er.cluster.rank(model, kinships, client, checkpoint=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole(model, kinships, tmp_path)
    assert ranks.work.scores == kinships.scores
    again = er.cluster.rank(model, kinships, client, checkpoint=tmp_path / "run", progress=False)
    assert again.work.scores == 0


def test_answers_ranked_together(client, kinships, tmp_path):
    model = er.models.load(MODELS / "kinships-complex.safetensors")
    want = er.rank(model, kinships, answers="together", progress=False)
    options = {"checkpoint": tmp_path / "run", "progress": False, "answers": "together"}
    got = er.cluster.rank(model, kinships, client, **options)
    for name in ("first", "better", "equal", "candidates", "answers"):
        assert np.array_equal(getattr(got, name), getattr(want, name))
    assert got.protocol == want.protocol
    with raises("unknown value of answers"):
        er.cluster.rank(model, kinships, client, **options | {"answers": "both"})


def test_one_process_resumes_runs_of_a_cluster_and_vice_versa(client, kinships, tmp_path):
    model = er.models.load(MODELS / "kinships-complex.safetensors")
    keep = Checkpoint.keep

    def kept(run, i, ranks, until):
        if len(run.blocks) - len(run.missing) == until:
            raise KeyboardInterrupt
        keep(run, i, ranks)

    for rank, until in ((er.cluster.rank, 20), (er.rank, 40)):
        arguments = (client,) if rank is er.cluster.rank else ()
        with (
            mock.patch.object(Checkpoint, "keep", lambda *given, until=until: kept(*given, until)),
            pytest.raises(KeyboardInterrupt),
        ):
            rank(model, kinships, *arguments, checkpoint=tmp_path / "run", progress=False)
        assert len(list((tmp_path / "run" / "parts").iterdir())) == until
    er.cluster.rank(model, kinships, client, checkpoint=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole(model, kinships, tmp_path)


def test_workers_killed_at_random(kinships, tmp_path):
    """Some alone, some all at once, with the model that only they have; at work, or being started."""
    chance, keep, killed = random.Random(3), Checkpoint.keep, []

    def started():
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        options = ["--no-nanny", "--no-dashboard", "--nthreads", "1"]
        return subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def keep_and_kill(run, i, ranks):
        keep(run, i, ranks)
        if len(killed) < KILLS and chance.random() < 0.5:
            for at in chance.choice([[0], [1], [2], [3], range(4)]):
                time.sleep(chance.uniform(0, 0.02))
                end(processes[at])
                killed.append(at)
                processes[at] = started()

    with workers(0) as cluster, distributed.Client(cluster) as client:
        processes = [started() for _ in range(4)]
        try:
            with mock.patch.object(Checkpoint, "keep", keep_and_kill):
                er.cluster.rank(
                    slow(0.02), kinships, client, checkpoint=tmp_path / "run", progress=False
                )
        finally:
            for process in processes:
                end(process)
    assert len(killed) >= KILLS
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole(slow(0), kinships, tmp_path)


def end(process):
    process.kill()
    process.wait(timeout=PATIENCE)


CLIENT = dedent("""
    import sys, time
    from importlib import import_module
    import distributed
    import evenrank as er

    def by_hash(queries, candidates):
        import numpy as np
        time.sleep(0.02)
        ids = np.arange(candidates.start, candidates.stop)
        return ((queries @ np.array([3, 4, 5]))[:, None] * 31 + ids * 17) % 1009.0

    import_module("evenrank.ranking._rank")._whole = lambda *_: 24
    with distributed.Client(sys.argv[1]) as client:
        task = er.load("kinships").task("test")
        er.cluster.rank(by_hash, task, client, checkpoint=sys.argv[2], progress=False)
""")


def test_whole_runs_killed_at_random(local, client, kinships, tmp_path):
    chance, folder, kept = random.Random(5), tmp_path / "run", {}
    command = [sys.executable, "-c", CLIENT, local.scheduler_address, str(folder)]
    for _ in range(KILLS // 2):
        process = subprocess.Popen(command)
        try:
            wanted, patience = len(kept) + chance.randrange(1, 9), time.monotonic() + PATIENCE
            while len(finished(folder)) < wanted and time.monotonic() < patience and not process.poll():
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.05))
        finally:
            process.kill()
            process.wait(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
        now = finished(folder)
        assert kept.items() <= now.items()  # what was finished has not been written again
        kept = now
    assert subprocess.run(command, timeout=PATIENCE).returncode == 0
    assert (folder / "ranks.parquet").read_bytes() == whole(slow(0), kinships, tmp_path)


def finished(folder):
    """The finished parts, and which file each is."""
    return {path.name: path.stat().st_ino for path in (folder / "parts").glob("[0-9]*.parquet")}


# Errors ----------------------------------------------------------------------------------


def test_nan_scores_of_workers_are_named(client, kinships, tmp_path):
    def lost(queries, candidates):
        import numpy as np

        return np.full((len(queries), candidates.stop - candidates.start), np.nan)

    with raises(r"scores contain NaN \(query"):
        er.cluster.rank(lost, kinships, client, checkpoint=tmp_path, progress=False)


def test_a_block_that_kills_its_workers_is_not_retried_forever(client, kinships, tmp_path):
    def deadly(queries, candidates):
        import os
        import signal

        if queries[0, 1] == 24:  # one relation
            os.kill(os.getpid(), signal.SIGKILL)
        import numpy as np

        return np.zeros((len(queries), candidates.stop - candidates.start))

    failing = mock.patch.object(_rank, "TRIES", 0)
    here = mock.patch.object(ENGINE, "model_hash", return_value="deadly")  # not to be asked here
    with (
        failing,
        here,
        raises(
            "workers died repeatedly while ranking one block", "memory", kind=er.errors.EvenrankError
        ),
    ):
        er.cluster.rank(deadly, kinships, client, checkpoint=tmp_path, progress=False)
    client.wait_for_workers(1, timeout=PATIENCE)


def test_no_cluster(kinships, tmp_path):
    model = er.models.load(MODELS / "kinships-complex.safetensors")
    with raises("not a Dask client; got str"):
        er.cluster.rank(model, kinships, "local", checkpoint=tmp_path)


# Parcels ------------------------------------------------------------------------------------------


def test_arrays_are_sent_without_copies_and_files_by_path(tmp_path):
    table = np.arange(60_000, dtype=np.float32).reshape(-1, 6)
    np.save(tmp_path / "table.npy", table)
    in_memory = Parcel(er.models.TransE(table, table[:9]))
    assert sum(buffer.nbytes for buffer in in_memory.buffers) >= table.nbytes
    assert len(in_memory.content) < 2_000
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    parcel = Parcel(er.models.TransE(mapped, mapped[1000:2000]))
    assert (len(parcel.buffers), len(parcel.content) < 2_000) == (0, True)
    for one in (in_memory, parcel):
        assert (one.scorer.entity == table).all()
        assert one.scorer is one.scorer
    assert (parcel.scorer.relation == table[1000:2000]).all()
    # rows that do not lie together, and what may be written to, go by value
    for part in (mapped[:, :3], mapped[::2], np.load(tmp_path / "table.npy", mmap_mode="c")):
        assert (Parcel([part]).scorer[0] == part).all()
        assert b"table.npy" not in Parcel([part]).content


def test_files_missing_on_workers_raise(tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, np.eye(6))
    parcel = Parcel([np.load(path, mmap_mode="r")])
    path.rename(tmp_path / "elsewhere.npy")
    with raises("a worker cannot map the file of the model", "table.npy", "No such file", "all workers"):
        _ = parcel.scorer
    np.save(path, np.eye(6) * 2)
    with raises("a worker has another model at this path; got .*table.npy"):
        _ = parcel.scorer
    with raises("this model cannot be sent to workers; got .*lock"):
        Parcel(__import__("threading").Lock())


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (
            lambda cluster: cluster.close(),
            "lost the connection to the Dask scheduler; .*rank again with the same checkpoint",
        ),
        (
            lambda cluster: cluster.scale(0),
            "the cluster has lost its workers; got none in 1 s; start workers",
        ),
    ],
)
def test_a_cluster_that_ends_too_early(kinships, end, message, tmp_path):
    keep = Checkpoint.keep

    def keep_and_end(run, i, ranks):
        keep(run, i, ranks)
        if i == 3:
            end(cluster)

    with (
        workers(1) as cluster,
        distributed.Client(cluster) as client,
        mock.patch.object(Checkpoint, "keep", keep_and_end),
        mock.patch.object(_rank, "PATIENCE", 1),
        raises(message, kind=er.errors.EvenrankError),
    ):
        er.cluster.rank(slow(0.01), kinships, client, checkpoint=tmp_path / "run", progress=False)
    assert finished(tmp_path / "run")
    er.rank(slow(0), kinships, checkpoint=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole(slow(0), kinships, tmp_path)
