"""Ranking by several processes: the same bits as one, for any mesh, and clear errors."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import shared
import strategies
import substitute
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import LONG, together

import evenrank as er
from evenrank.ranking import _rank as engine
from evenrank.ranking.engine._count import count_factored, goals
from evenrank.ranking.engine._native import kernels
from evenrank.ranking.engine.bounds import FORMS
from evenrank.ranking.engine.run import LAUNCHED, Runner
from evenrank.ranks.sampling import sample
from evenrank.ranks.task import Blocks

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed (make peers installs it)"
)
MODEL = Path(er.__file__).parent / "models/bundled/nations-complex.safetensors"


def gpus():
    """How many GPUs torch sees, if it is there."""
    if find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count()


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Blocks of candidates, in one process ---------------------------------------------------------------


@given(strategies.tasks(), st.sampled_from(FORMS), st.integers(0, 10**6), st.lists(st.integers(0, 40)))
@settings(max_examples=150)
def test_counts_of_blocks_add_up(asked, form, seed, cuts):
    """For any blocks of candidates, also empty ones, and any block that contains the target."""
    task, _ = asked
    with Runner(1 << 24, 1, kernels(), total=0, show=False) as runner:
        for part in task.parts:
            rng = np.random.default_rng(seed)
            table, mix = rng.integers(-2, 3, (part.size, 4)), rng.integers(0, 5, (3, 4))
            whole = er.Factored(form, table / 3, lambda queries, mix=mix: (queries @ mix % 5 - 2) / 3)
            goal = goals(whole, part, runner)
            edges = [0, *sorted(min(cut, part.size) for cut in cuts), part.size]
            found = np.zeros((2, len(part.targets)), np.int64)
            for start, stop in pairwise(edges):
                if start == stop:
                    continue
                rows = replace(whole, table=whole.table[start:stop])
                block = replace(part.among(start, stop), goal=goal)
                found += count_factored(rows, block, runner)[:2]
            want = count_factored(whole, part, runner)[:2]
            assert found.tolist() == np.stack(want).tolist()


def test_blocks_use_the_candidate_ids_of_the_whole():
    table = numbers(9, 3)
    table[7] = np.nan
    task = er.Task.of([[0], [1]], targets=[2, 5], size=9)
    model = er.Factored("dot", table[4:], lambda queries: table[queries[:, 0]])
    block = replace(task.parts[0].among(4, 9), goal=np.zeros(2))
    with (
        Runner(1 << 24, 1, kernels(), total=0, show=False) as runner,
        pytest.raises(er.errors.InputError, match=r"NaN \(query \(0\), candidate 7\)"),
    ):
        count_factored(model, block, runner)


# Several processes ----------------------------------------------------------------------------------


class Job:
    """Some processes that each run a function of this file, as torchrun would start them."""

    def __init__(self, function, count, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        here = Path(__file__)
        source = Path(er.__file__).parents[1]
        code = f"import {here.stem} as tests; tests.{function.__name__}(*{arguments!r})"
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(count),
                    "LOCAL_WORLD_SIZE": str(count),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join(
                        [str(here.parent), str(here.parents[1] / "support"), str(source)]
                    ),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(count)
        ]

    def ends(self):
        """Wait for all processes; return exit code and output of each."""
        try:
            said = [process.communicate(timeout=LONG)[0] for process in self.processes]
        finally:
            self.stop()
        return [(process.returncode, text) for process, text in zip(self.processes, said, strict=True)]

    def stop(self):
        """End what is left of it."""
        for process in self.processes:
            process.kill()
            process.wait(LONG)
            process.stdout.close()


def cases(entities):
    """Models and tasks: every form of score, ties, known answers, lists of candidates, or just three."""
    rng = np.random.default_rng(0)
    triples = rng.integers(0, [entities, 3, entities], (5 * entities, 3))
    graph = er.Graph.of(train=triples[:entities], test=triples[entities:])
    n, r = len(graph.entities), len(graph.relations)
    rows = numbers(n, 12)
    rows[1], rows[5] = rows[2], np.nextafter(rows[7], np.float32(9))
    wide, turns = numbers(r, 12, seed=1), numbers(r, 6, seed=2)
    linear = er.models.DistMult(rows, wide)
    tucker = er.models.TuckER(
        rows, turns, numbers(12, 6, 12, seed=3), numbers(2, 12, seed=4), numbers(2, 12, seed=5)
    )
    plain = graph.task()
    yield from ((model, plain) for model in (linear, tucker, er.models.TransE(rows.astype(float), wide)))
    yield er.models.TransE(rows, wide, p=2), graph.task(filter=None)
    yield er.models.RotatE(rows, turns), graph.task(sides="tail")
    yield linear, graph.task(candidates=7)
    yield linear, graph.task(candidates="typed", outside="add")
    yield linear, graph.task(sides="relation", filter=None)


def alike(got, want):
    """Say whether two rankings have the same bits, and say they were made the same way."""
    columns = ("better", "equal", "candidates")
    same = all((getattr(got, name) == getattr(want, name)).all() for name in columns)
    return same and got.protocol == want.protocol


def bits(ranks):
    """Say in a few words what a ranking came to, to the last bit, and how it was made."""
    columns = (ranks.better, ranks.equal, ranks.candidates)
    hashes = [sha256(column.tobytes()).hexdigest() for column in columns]
    return [*hashes, str(ranks.protocol), ranks.work.scores]


@cache
def alone(entities):
    return [bits(er.rank(model, task)) for model, task in cases(entities)]


# on the CPU, so many distinct queries that each process has some; they are cut in whole batches
PLACES = {"cpu": 1_700, "torch:cpu": 100}


def rank_all(meshes):
    return [
        (device, mesh, [bits(er.rank(*case, mesh=mesh, device=device)) for case in cases(entities)])
        for device, entities in PLACES.items()
        for mesh in meshes
    ]


MESHES = {
    1: ("queries", "candidates=1"),
    2: ("queries=2", "candidates"),
    3: ("candidates",),
    4: ("queries", "candidates", "queries=2,candidates", "candidates=2,queries=2"),
}


@needs_torch
@pytest.mark.parametrize("count", MESHES)
def test_any_mesh_has_the_bits_of_one_process(count, tmp_path):
    for process in together(partial(rank_all, MESHES[count]), count, tmp_path):
        for device, mesh, got in process:
            assert got == alone(PLACES[device]), (device, mesh)


def rank_with_kernels_of_triton():
    """By Triton's interpreter, on a few queries of a few dimensions."""
    from evenrank.ranking.engine import _device, _triton

    np.seterr(all="ignore")  # the interpreter computes with NumPy
    for tile in _triton.TILES.values():
        tile.update(ROWS=32, COLUMNS=32, DEPTH=min(tile["DEPTH"], 16))
    graph = er.load("nations")
    rows, wide = numbers(len(graph.entities), 4), numbers(len(graph.relations), 4, seed=1)
    rows[1] = rows[2]
    few = er.Graph.of(train=graph.splits["train"], test=graph.splits["valid"][:40])
    plain = few.task(sides="tail")
    typed = few.task(sides="tail", candidates="typed", outside="add")
    for model, task in (
        (er.models.DistMult(rows, wide), plain),
        (er.models.TransE(rows, wide, p=1), plain),
        (er.models.TransE(rows, wide, p=2), plain),
        (er.models.DistMult(rows, wide), typed),
    ):
        want = er.rank(model, task)
        with mock.patch.object(engine, "_where", return_value=_device.Device("cpu")):
            got = er.rank(model, task, mesh="candidates")
        assert got.work.kernels.startswith("triton")
        assert alike(got, want), model


@needs_torch
def test_kernels_of_devices_count_blocks(monkeypatch):
    if find_spec("triton") is None:
        pytest.skip("triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for code, said in Job(rank_with_kernels_of_triton, 2).ends():
        assert code == 0, said


@needs_torch
@pytest.mark.parametrize("form", FORMS)
def test_devices_score_targets_by_definition(form):
    from evenrank.ranking.engine._device import Device
    from evenrank.ranking.engine._torch import goals_on_device

    table, rng = numbers(50, 6), np.random.default_rng(1)
    model = er.Factored(form, table, lambda queries: table[queries[:, 0]] * 0.7)
    task = er.Task.of(rng.integers(0, 50, (900, 1)), rng.integers(0, 50, 900), size=50)
    with Runner(1 << 24, 1, kernels(), total=0, show=False) as runner:
        want = goals(model, task.parts[0], runner)
    got = goals_on_device(model, task.parts[0], Device("torch:cpu"))
    assert got.tolist() == want.tolist()


def rank_on_gpus(backend, meshes):
    import torch
    from torch import distributed

    from evenrank.ranking.engine._device import Device

    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    distributed.init_process_group(backend)
    for model, task in cases(700):
        want = er.rank(model, task)
        for mesh in meshes:
            for room in (True, False):  # without, blocks of a table on the host go to the devices
                with mock.patch.object(Device, "has_room", lambda *_, room=room: room):
                    got = er.rank(model, task, mesh=mesh, device="cuda")
                assert alike(got, want), (model, task, mesh, room)
    distributed.destroy_process_group()


@needs_torch
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_gpus_have_the_bits_of_one_process(backend, tmp_path):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    # one process to a GPU talks by NCCL; by gloo, several may share one
    count = torch.cuda.device_count() if backend == "nccl" else 2
    together(partial(rank_on_gpus, backend, ("queries", "candidates")), count, tmp_path)


def rank_fb15k237():
    graph = er.load(shared.path(f"datasets/{'fb15k237' if shared.PRESENT else 'made'}"))
    rows, wide = numbers(len(graph.entities), 32), numbers(len(graph.relations), 32, seed=1)
    model, task = er.models.ComplEx(rows, wide), graph.task()
    got = er.rank(model, task, mesh="candidates")
    assert len(got) == (40_932 if shared.PRESENT else 2 * len(substitute.splits("made")["test"]))
    if os.environ["RANK"] == "0":
        assert alike(got, er.rank(model, task))


@needs_torch
def test_fb15k237_by_blocks_of_candidates(tmp_path):
    together(rank_fb15k237, 4, tmp_path)


# Checkpoint folders -------------------------------------------------------------------------------


def rank_with_checkpoint(folder, mesh, after=None):
    """Rank blocks of 40 queries into a folder, and stop after so many if asked to."""
    kept = er.ranking.resume.Checkpoint.keep

    def keep(run, i, ranks):
        # only the first process writes
        if run._folder is not None and len(run.blocks) - len(run.missing) == after:
            raise RuntimeError("the disk is full")
        kept(run, i, ranks)

    model, task = er.models.load(MODEL), er.load("nations").task()
    with (
        mock.patch.object(engine, "_whole", return_value=40),
        mock.patch.object(er.ranking.resume.Checkpoint, "keep", keep),
    ):
        try:
            ranks = er.rank(model, task, mesh=mesh, checkpoint=folder)
        except (RuntimeError, er.errors.EvenrankError) as error:
            return f"{type(error).__name__}: {error}"
    return [*bits(ranks), [ranks.keys[name].tolist() for name in ("head", "side")]]


def rank_with_checkpoint_by_steps(folder, mesh):
    """Stop, go on, and ask for what is there."""
    stopped = rank_with_checkpoint(folder, mesh, after=3)
    parts = sorted(path.name for path in Path(folder, "parts").iterdir())
    return [stopped, parts, rank_with_checkpoint(folder, mesh), rank_with_checkpoint(folder, mesh)]


@needs_torch
@pytest.mark.parametrize("mesh", ["queries", "candidates"])
def test_processes_rank_into_a_checkpoint_folder_and_resume(mesh, tmp_path):
    model, task = er.models.load(MODEL), er.load("nations").task()
    whole = er.rank(model, task)
    whole.save(tmp_path / "alone.parquet")
    *want, scores = bits(whole)
    keys = [whole.keys[name].tolist() for name in ("head", "side")]
    first, second = together(
        partial(rank_with_checkpoint_by_steps, str(tmp_path / "run"), mesh), 2, tmp_path
    )
    assert first[0] == "RuntimeError: the disk is full"  # the one that writes; the other one hears of it
    assert (
        second[0]
        == "EvenrankError: process 0 has failed, and all stop; got RuntimeError: the disk is full"
    )
    assert first[1] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    done = scores - sum(Blocks(task, 40)[i].scores for i in range(3))
    for _, _, rest, again in (first, second):
        assert rest == [*want, done, keys]
        assert again == [*want, 0, keys]
    assert (tmp_path / "run/ranks.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


def go_on_with(folder):
    """Resume a run of one process; another model raises in the process that reads."""
    task, ends = er.load("nations").task(), []
    for kind in ("complex", "transe"):
        model = er.models.load(MODEL.with_name(f"nations-{kind}.safetensors"))
        try:
            ends.append(er.rank(model, task, mesh="queries", checkpoint=folder).work.scores)
        except er.errors.EvenrankError as error:
            ends.append(f"{type(error).__name__}: {error}")
    return ends


@needs_torch
def test_a_run_of_one_process_is_resumed_by_several(tmp_path):
    folder = tmp_path / "run"
    assert rank_with_checkpoint(folder, None, after=2) == "RuntimeError: the disk is full"
    first, second = together(partial(go_on_with, str(folder)), 2, tmp_path)
    task = er.load("nations").task()
    left = task.scores - sum(Blocks(task, 40)[i].scores for i in range(2))
    assert first[0] == second[0] == left
    assert first[1].startswith(
        f"InputError: {folder} is the checkpoint of another ranking; got model ComplEx there"
    )
    assert second[1].startswith(
        f"EvenrankError: process 0 has failed, and all stop; got InputError: {folder}"
    )


# Errors and failures ------------------------------------------------------------

TASK = er.Task.of(np.arange(40)[:, None] % 8, np.arange(40) % 9, size=9)
TABLE = numbers(9, 3)
FACTORED = er.Factored("dot", TABLE, lambda queries: TABLE[queries[:, 0]])


def scorer(queries, candidates):
    return FACTORED.score(queries, candidates)


def raises(*parts, **options):
    """Rank, and expect an error of one line with all of these parts."""
    options = {"scorer": FACTORED, "task": TASK, **options}
    with pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    ):
        er.rank(**options)


def rank_badly():
    from torch import distributed
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    for text in ("rows", "queries=x", "queries=", "queries,queries", ""):
        raises("unknown mesh", f"got '{text}'", "allowed: 'queries'", mesh=text)
    raises("not a mesh", "got int", "a DeviceMesh of torch", mesh=4)
    for text in ("queries=3", "candidates=2,queries=2", "queries,candidates", "queries=0"):
        raises("the mesh does not fit the number of processes", f"'{text}' and 2 processes", mesh=text)
    for names in (None, ("data", "candidates")):
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=names)
        raises("what the processes divide", "allowed: queries and candidates", mesh=mesh)
    alone = DeviceMesh("cpu", [0], mesh_dim_names=("queries",))
    if distributed.get_rank():
        raises("not in the mesh", "got process 1", mesh=alone)
    else:
        assert alike(er.rank(FACTORED, TASK, mesh=alone), er.rank(FACTORED, TASK))
    apart = "only certified float64 scores allow a mesh to divide"
    raises(apart, "got scores: as given", "mesh='queries'", scorer=scorer, mesh="candidates")
    raises(apart, "got scores: float32", exact=False, mesh="candidates")
    table = TABLE.copy()
    table[6] = np.nan  # a target, too, so that both processes hear of it
    lost = er.Factored("dot", table, FACTORED.queries)
    raises("scores contain NaN", "query", "candidate 6", scorer=lost, mesh="candidates")
    own = er.Factored("dot", TABLE + distributed.get_rank(), FACTORED.queries)
    raises("all processes need the same model and task", "process [01]", scorer=own, mesh="queries")
    drawn = sample(TASK, 2, seed=distributed.get_rank())
    raises("the same model and task", "sample with the same seed", task=drawn, mesh="queries")
    small = er.Factored("dot", TABLE[: 9 - distributed.get_rank()], FACTORED.queries)
    with pytest.raises(
        er.errors.EvenrankError, match="the model has 8 candidates on side answer, the task 9"
    ):  # in both, by both
        er.rank(small, TASK, mesh="queries")
    empty = er.Task.of([[0], [1]], [6, 6], size=9, candidates=[[], []], outside="add")
    raises("scores contain NaN", "candidate 6", scorer=lost, task=empty, mesh="candidates")
    with pytest.raises(er.errors.EvenrankError, match=r"NaN \(query"):  # of a target with no candidates
        er.rank(lost, empty, mesh="queries")
    # processes are still in a valid state after errors
    assert alike(er.rank(scorer, TASK, mesh="queries"), er.rank(scorer, TASK))
    assert er.rank(FACTORED, TASK, mesh="queries", exact=False).protocol.scores == "float32"


@needs_torch
def test_invalid_arguments_raise_in_all_processes(tmp_path):
    together(rank_badly, 2, tmp_path)


@needs_torch
def test_a_single_process_has_no_mesh():
    raises("several processes of torch.distributed", "start them with torchrun", mesh="queries")


def test_a_mesh_needs_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    raises("this requires torch", "evenrank\\[torch\\]", mesh="queries")


def rank_and_fail(how):
    """Rank with a scorer that fails, dies or hangs in the second process."""
    from torch import distributed

    def score(queries, candidates):
        if distributed.get_rank() == 1:
            if how == "fail":
                raise RuntimeError("the model broke\nin two lines")
            if how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(2 * LONG)
        return scorer(queries, candidates)

    distributed.init_process_group("gloo", timeout=timedelta(seconds=LONG if how == "die" else 5))
    er.rank(score, TASK, mesh="queries")


@needs_torch
def test_a_failure_in_one_process_ends_all():
    (_, first), (_, second) = Job(rank_and_fail, 2, "fail").ends()
    broke = "the model score raised RuntimeError: the model broke; got queries of shape (4, 1)"
    assert f"EvenrankError: process 1 has failed, and all stop; got InputError: {broke}" in first
    assert f"InputError: {broke}" in second
    assert "in two lines" in second  # the error of the model is its cause


@needs_torch
@pytest.mark.parametrize("how", ["die", "hang"])
def test_a_process_that_dies_ends_all(how):
    job = Job(rank_and_fail, 2, how)
    try:
        said, _ = job.processes[0].communicate(timeout=LONG)
    finally:
        job.stop()
    assert job.processes[0].returncode == 1
    last = said.strip().splitlines()[-1]
    assert "EvenrankError: another process of the mesh has ended or does not answer" in last
    assert "start all processes again" in last


# The command ----------------------------------------------------------------------------------------


def torchrun(count, *arguments, program=("-m", "evenrank"), command="rank"):
    """Run the command as people do."""
    return subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={count}",
            ),
            *(*program, command, *map(str, arguments)),
            *(("--data", "nations") if command == "rank" else ()),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(er.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=LONG,
    )


@needs_torch
def test_only_the_first_process_prints_and_writes(tmp_path):
    out = tmp_path / "ranks.parquet"
    done = torchrun(2, MODEL, "--mesh", "candidates", "-o", out, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"mrr"') == 1
    assert done.stderr.count("comparisons took float64") == 1
    alone = er.rank(er.models.load(MODEL), er.load("nations").task())
    alone.save(tmp_path / "alone.parquet")
    assert out.read_bytes() == (tmp_path / "alone.parquet").read_bytes()


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([MODEL, "--mesh", "rows"], "unknown mesh; got 'rows'"),  # once they would meet
        ([MODEL, "--slip"], "no such option; got --slip"),  # long before
        pytest.param(
            [MODEL, "--device", "cuda"],
            "this device cannot be used; got 'cuda' (",
            marks=pytest.mark.skipif(gpus() > 0, reason="there is a GPU"),
        ),
    ],
)
def test_errors_of_the_command_are_one_line(arguments, said):
    """One for all processes, if all of them end with it."""
    done = torchrun(2, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("evenrank: ") == done.stderr.count(f"evenrank: {said}") == 1
    assert done.stderr.count("exitcode  : 2") >= 1


@needs_torch
def test_each_process_needs_a_gpu(monkeypatch):
    from evenrank.ranking.engine import mesh

    taken = []
    monkeypatch.setattr("torch.cuda.set_device", taken.append)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    mesh._take_gpu(0)
    assert taken == [0]
    with pytest.raises(
        er.errors.InputError, match=r"of its own; got 2 processes, 1 GPU; .*--nproc-per-node 1$"
    ):
        mesh._take_gpu(1)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(
        er.errors.InputError, match=r"got 4 processes, 2 GPUs; start one process per GPU"
    ):
        mesh._take_gpu(0)  # the first process raises the same error
    assert taken == [0]


@needs_torch
def test_other_commands_run_in_the_first_process_only(tmp_path):
    er.rank(er.models.load(MODEL), er.load("nations").task()).save(tmp_path / "ranks.parquet")
    done = torchrun(2, tmp_path / "ranks.parquet", "--format", "json", command="evaluate")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"mrr"') == 1


@needs_torch
@pytest.mark.parametrize("alone", ["0", "1"])
def test_an_error_in_one_process_is_reported(alone, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, sys, evenrank.ranking.engine.mesh as together
from datetime import timedelta
from evenrank.cli import main
together.MOMENT = timedelta(seconds=1)
if os.environ["RANK"] == "{alone}":
    sys.argv[2] = "elsewhere.safetensors"
main()
""")
    done = torchrun(2, MODEL, program=[str(program)])
    assert done.returncode == 1
    assert done.stderr.count("no such file, folder or bundled model; got elsewhere.safetensors") == 1


@needs_torch
def test_without_a_store_every_process_reports_errors(monkeypatch):
    from evenrank.ranking.engine import mesh

    said = []
    monkeypatch.setattr(mesh, "MOMENT", timedelta(seconds=1))
    for process in ("0", "1"):
        for name in LAUNCHED:
            monkeypatch.setenv(name, "2" if name == "WORLD_SIZE" else process)
        for store in ("False", "True"):  # and where there should be one, but it does not answer
            monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", store)
            monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
            mesh.tell_once("no such file", said.append)
    assert said == ["no such file"] * 4


@needs_torch
def test_the_command_ranks_into_a_checkpoint_folder(tmp_path):
    done = torchrun(2, MODEL, "--checkpoint", tmp_path / "run", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"mrr"') == 1
    assert f"ranks in {tmp_path / 'run'}" in done.stderr
    er.rank(er.models.load(MODEL), er.load("nations").task()).save(tmp_path / "alone.parquet")
    assert (tmp_path / "run/ranks.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
