"""Ranking with a checkpoint folder: the result is the same for killed and resumed runs."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import strategies
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import evenrank as er
from evenrank.cli import app
from evenrank.ranking import resume as runs
from evenrank.ranking.engine._count import batch
from evenrank.ranks.lists import Lists
from evenrank.ranks.task import Blocks

ENGINE = import_module("evenrank.ranking._rank")
MODELS = Path(er.__file__).parent / "models" / "bundled"
PATIENCE = 120  # seconds after which a process that should have ended has hung
KILLS = int(os.environ.get("EVENRANK_KILLS", "5"))  # 20 for a storm


def small(queries=24):
    """Cut tasks into blocks of so many queries, where there are enough of them."""
    return mock.patch.object(ENGINE, "_whole", return_value=queries)


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock")


@pytest.fixture(scope="module")
def kinships():
    return er.load("kinships").task("test")


@pytest.fixture(scope="module")
def model():
    return er.models.load(MODELS / "kinships-complex.safetensors")


@pytest.fixture(scope="module")
def whole(kinships, model, tmp_path_factory):
    """The file that ranking in one go gives."""
    path = tmp_path_factory.mktemp("whole") / "ranks.parquet"
    er.rank(model, kinships, progress=False).save(path)
    return path.read_bytes()


# Blocks -------------------------------------------------------------------------------------------


def by_hash(queries, candidates):
    """Score anything, with many ties."""
    ids = np.arange(candidates.start, candidates.stop) if isinstance(candidates, slice) else candidates
    mixed = (queries @ np.arange(3, 3 + queries.shape[1]))[:, None] * 31 + ids * 17
    return mixed % 5.0


@given(strategies.tasks(), st.integers(1, 9))
@settings(max_examples=100)
def test_blocks_add_up_to_the_task(asked, queries):
    task, _ = asked
    blocks, want = Blocks(task, queries), er.rank(by_hash, task, progress=False)
    seen = np.zeros(len(task), int)
    for i in range(len(blocks)):
        rows, block = blocks.rows(i), blocks[i]
        got = er.rank(by_hash, block, progress=False)
        seen[rows] += 1
        assert sum(len(part.queries) for part in block.parts) <= queries
        assert got.keys.keys() == want.keys.keys()
        for name, column in got._columns().items():
            assert column.tolist() == want._columns()[name][rows].tolist()
        assert block.everything.tolist() == task.everything[rows].tolist()
    assert seen.tolist() == [1] * len(task)
    assert task.scores == sum(blocks[i].scores for i in range(len(blocks)))


def test_blocks_are_whole_batches_of_query_vectors():
    for length in range(1, 20_000, 7):
        plan = [(None, SimpleNamespace(table=np.broadcast_to(0.0, (1, length))))]
        for threads in (1, 12, 13, 64):
            queries = ENGINE._whole(plan, threads)
            assert queries % batch(length) == 0
            assert queries >= 240 * threads
    assert [ENGINE._whole([(None, None)], threads) for threads in (1, 12, 13)] == [960, 2880, 3840]


def test_blocks_have_the_keys_that_all_sides_have():
    one = er.Task.of([[0], [1]], targets=[1, 2], size=3, keys={"query": [7, 8], "color": ["a", "b"]})
    other = er.Task.of([[2]], targets=[0], size=3, keys={"query": [9]})
    blocks = Blocks(er.Task.join([one, other]), 1)
    assert [list(blocks[i].keys) for i in range(3)] == [["query"]] * 3
    assert [blocks.rows(i).tolist() for i in range(3)] == [[0], [1], [2]]


# Checkpoint folders ------------------------------------------------------------------------------------


def test_the_file_is_that_of_ranking_in_one_go(kinships, model, whole, tmp_path):
    with small():
        ranks = er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    assert names(tmp_path / "run") == ["manifest.json", "ranks.parquet"]
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole
    assert ranks.work.scores == kinships.scores
    with mock.patch.object(ENGINE._Ranking, "ranks", side_effect=AssertionError):
        again = er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    assert again.work.scores == 0
    for name, column in ranks._columns().items():
        assert again._columns()[name].tolist() == column.tolist()
    assert again.protocol == ranks.protocol


@pytest.mark.parametrize(
    "options",
    [
        {"sides": ("head", "relation")},
        {"candidates": "typed", "outside": "add"},
        {"candidates": 7, "sides": ("tail", "relation")},
    ],
)
def test_lists_of_candidates_and_scorers_that_do_not_factor(options, tmp_path):
    task = er.load("nations").task("test", **options)
    with small(20):
        got = er.rank(by_hash, task, checkpoint=tmp_path, progress=False)
    want = er.rank(by_hash, task, progress=False)
    for name in ("better", "equal", "candidates"):
        assert getattr(got, name).tolist() == getattr(want, name).tolist()


class Stop(BaseException):
    """A run that ends before its time."""


def interrupted(model, task, folder, after, **options):
    """Rank some blocks, and stop."""
    kept = runs.Checkpoint.keep

    def keep(run, i, ranks):
        if len(run.missing) <= len(run.blocks) - after:
            raise Stop
        kept(run, i, ranks)

    with small(), mock.patch.object(runs.Checkpoint, "keep", keep), pytest.raises(Stop):
        er.rank(model, task, checkpoint=folder, progress=False, **options)


def test_finished_blocks_are_not_ranked_again(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path, after=5)
    parts = sorted((tmp_path / "parts").iterdir())
    assert [path.name for path in parts] == [f"0000{i}.parquet" for i in range(5)]
    first = er.Ranks.load(parts[0])  # a file of ranks like any other
    assert first.protocol == er.rank(model, kinships, progress=False).protocol
    with small(7):  # a run keeps the blocks it began with
        ranks = er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    assert ranks.work.scores == kinships.scores - 5 * 24 * 104
    assert (tmp_path / "ranks.parquet").read_bytes() == whole


def test_damaged_parts_and_parts_of_other_runs_are_ranked_again(kinships, model, whole, tmp_path):
    other = er.models.load(MODELS / "kinships-transe.safetensors")
    interrupted(other, kinships, tmp_path / "other", after=4)
    interrupted(model, kinships, tmp_path / "run", after=4)
    parts = tmp_path / "run" / "parts"
    (parts / "00000.parquet").write_bytes(b"")
    (parts / "00001.parquet").write_bytes((parts / "00001.parquet").read_bytes()[:-9])
    (parts / "00002.parquet").write_bytes((tmp_path / "other/parts/00002.parquet").read_bytes())
    (parts / ".00005.parquet.77.part").write_bytes(b"half")
    ranks = er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    assert ranks.work.scores == kinships.scores - 24 * 104
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole
    assert names(tmp_path / "run") == ["manifest.json", "ranks.parquet"]
    (tmp_path / "run" / "ranks.parquet").write_bytes(whole[:100])
    er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole


def flipped(path, bit):
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    path.write_bytes(content)


def test_parts_with_a_flipped_bit_are_ranked_again(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path / "run", after=8)
    chance = random.Random(0)
    for i in range(6):
        folder = tmp_path / f"run{i}"
        shutil.copytree(tmp_path / "run", folder)
        for part in (folder / "parts").iterdir():
            flipped(part, chance.randrange(1 << 40))
        ranks = er.rank(model, kinships, checkpoint=folder, progress=False)
        assert ranks.work.scores == kinships.scores  # no damaged part was read, not even by polars
        assert (folder / "ranks.parquet").read_bytes() == whole


def test_a_flipped_bit_of_the_manifest_or_the_result_is_found(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path / "run", after=3)
    manifest = (tmp_path / "run" / "manifest.json").read_bytes()
    chance = random.Random(0)
    for i in range(40):
        folder = tmp_path / f"run{i}"
        shutil.copytree(tmp_path / "run", folder)
        flipped(folder / "manifest.json", chance.randrange(8 * len(manifest)))
        with raises("manifest|another ranking"):
            er.rank(model, kinships, checkpoint=folder, progress=False)
    er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    flipped(tmp_path / "run" / "ranks.parquet", 8 * 1000)
    er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole


def test_a_folder_of_parts_that_is_a_link_is_not_followed(kinships, model, tmp_path):
    interrupted(model, kinships, tmp_path / "run", after=0)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "parts").symlink_to(tmp_path / "elsewhere")
    with raises("parts is a link; replace it by a folder"):
        er.rank(model, kinships, checkpoint=tmp_path / "run", progress=False)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_part_under_the_name_of_another_is_ranked_again(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path, after=4)
    parts = tmp_path / "parts"
    (parts / "00000.parquet").write_bytes((parts / "00001.parquet").read_bytes())
    er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    assert (tmp_path / "ranks.parquet").read_bytes() == whole


def test_a_result_of_another_model_is_not_accepted(kinships, model, whole, tmp_path):
    er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    other = er.rank(changed(model, entity=slice(None), by=1), kinships, progress=False)
    other.save(tmp_path / "ranks.parquet")  # a fine file, with the same words of protocol
    assert (tmp_path / "ranks.parquet").read_bytes() != whole
    ranks = er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    assert ranks.work.scores == kinships.scores
    assert (tmp_path / "ranks.parquet").read_bytes() == whole


def test_other_files_in_a_checkpoint_folder_are_kept(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path, after=2)
    mine = [tmp_path / "notes.txt", tmp_path / ".movie.part", tmp_path / "parts" / "notes.txt"]
    for path in mine:
        path.write_text("mine")
    for _ in range(2):
        er.rank(model, kinships, checkpoint=tmp_path, progress=False)
        assert [path.read_text() for path in mine] == ["mine"] * 3
        assert [path.name for path in (tmp_path / "parts").iterdir()] == ["notes.txt"]
    assert (tmp_path / "ranks.parquet").read_bytes() == whole


# Runs that cannot be resumed ----------------------------------------------------------------------


def changed(model, by=None, **arrays):
    """Return the model with a number of the rows named changed: by so much, or in its last bit."""
    copies = {name: getattr(model, name).copy() for name in arrays}
    for name, row in arrays.items():
        old = copies[name][row, 0]
        copies[name][row, 0] = np.nextafter(old, np.float32(9)) if by is None else old + by
    return replace(model, **copies)


def test_another_model_raises(kinships, model, tmp_path):
    interrupted(model, kinships, tmp_path, after=2)
    other = er.models.load(MODELS / "kinships-transe.safetensors")
    with raises(
        f"{tmp_path} is the checkpoint of another ranking",
        "model ComplEx there, TransE here",
        "choose another",
    ):
        er.rank(other, kinships, checkpoint=tmp_path, progress=False)
    for part in ({"entity": 103}, {"relation": 24}):  # the last bit of one number is another model
        with raises(
            "is the checkpoint of another ranking; got model hash [0-9a-f]{16} there, [0-9a-f]{16} here"
        ):
            er.rank(changed(model, **part), kinships, checkpoint=tmp_path, progress=False)
    with raises("model hash"):
        er.rank(
            er.Factored("dot", model.entity, lambda q: model.entity[q[:, 0]]),
            kinships,
            checkpoint=tmp_path,
        )


def test_another_function_raises(tmp_path):
    task = er.load("nations").task("test")
    er.rank(by_hash, task, checkpoint=tmp_path, progress=False)

    def by_hash_of(queries, candidates):
        return by_hash(queries, candidates) + 1

    by_hash_of.__name__ = by_hash.__name__
    with raises("is the checkpoint of another ranking; got model hash"):
        er.rank(by_hash_of, task, checkpoint=tmp_path, progress=False)


def test_another_black_box_raises(tmp_path):
    task = er.load("kinships").task("test", sides="relation")
    model = er.models.load(MODELS / "kinships-rotate.safetensors")
    assert model.factored("relation") is None
    er.rank(model, task, checkpoint=tmp_path, progress=False)
    for row in range(0, 104, 13):  # most are not among the queries whose scores are compared
        with raises("is the checkpoint of another ranking; got model hash"):
            er.rank(changed(model, entity=row), task, checkpoint=tmp_path, progress=False)
    assert er.rank(model, task, checkpoint=tmp_path, progress=False).work.scores == 0


def test_another_task_raises(kinships, model, tmp_path):
    interrupted(model, kinships, tmp_path, after=2)
    graph = er.load("kinships")
    # of the model nothing can be said: its hash is that for the queries of the task
    with raises("split test there, valid here; task hash [0-9a-f]{16} there, [0-9a-f]{16} here; choose"):
        er.rank(model, graph.task("valid"), checkpoint=tmp_path, progress=False)
    with raises("preset \\(none\\) there, rotate here"):
        er.rank(model, graph.task("test", protocol="rotate"), checkpoint=tmp_path, progress=False)
    with raises("filter train, valid, test there, none here"):
        er.rank(model, graph.task("test", filter=None), checkpoint=tmp_path, progress=False)
    part = kinships.parts[0]
    keys = {**part.keys, "side": np.array(["tale"] * len(part.targets), dtype=object)}
    other = replace(kinships, parts=(replace(part, keys=keys), *kinships.parts[1:]))
    with raises("got task hash [0-9a-f]{16} there, [0-9a-f]{16} here; choose"):
        er.rank(model, other, checkpoint=tmp_path, progress=False)


def test_another_version_raises(kinships, model, tmp_path):
    interrupted(model, kinships, tmp_path, after=2)
    with mock.patch.object(er, "__version__", "0.0.9"), raises("evenrank 0.1.0 there, 0.0.9 here"):
        er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    with mock.patch.object(runs, "FORMAT", 3), raises("format 2 there, 3 here"):
        er.rank(model, kinships, checkpoint=tmp_path, progress=False)


def test_uncertified_runs_resume_only_with_the_same_kernels(kinships, model, tmp_path):
    interrupted(model, kinships, tmp_path / "plain", after=2, exact=False)
    interrupted(model, kinships, tmp_path / "exact", after=2)
    with mock.patch.dict(os.environ, {"EVENRANK_KERNELS": "numpy"}):
        er.rank(model, kinships, checkpoint=tmp_path / "exact", progress=False)
        with raises("got kernels [a-z0-9]+ there, numpy here"):
            er.rank(model, kinships, checkpoint=tmp_path / "plain", exact=False, progress=False)
    with raises("scores float32 there, float64, certified here"):
        er.rank(model, kinships, checkpoint=tmp_path / "plain", progress=False)


def test_only_one_run_writes_into_a_folder(kinships, model, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with (
        FileLock(folder / ".lock"),
        raises(f"another run is writing into this folder; got {folder}; wait for it"),
    ):
        er.rank(model, kinships, checkpoint=folder, progress=False)
    er.rank(model, kinships, checkpoint=folder, progress=False)


def test_other_folders_are_left_unchanged(kinships, model, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with raises("not a checkpoint folder", "contains notes.txt and no manifest.json", "empty folder"):
        er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    with raises("cannot write into .*notes.txt; got File exists; choose another folder"):
        er.rank(model, kinships, checkpoint=tmp_path / "notes.txt", progress=False)


def test_nothing_is_written_to_other_folders(kinships, model, tmp_path):
    (tmp_path / "films").mkdir()
    mine = [tmp_path / ".lock", tmp_path / ".movie.part", tmp_path / "films" / ".movie.part"]
    for path in mine:
        path.write_text("mine")
    with raises("not a checkpoint folder", "contains .movie.part"):
        er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    assert [path.read_text() for path in mine] == ["mine"] * 3


@pytest.mark.parametrize("queries", ["1.5", "true", '"x"', "0"])
def test_damaged_numbers_in_a_manifest(kinships, model, queries, tmp_path):
    check_damaged(f'{{"queries": {queries}, "protocol": {{}}}}', kinships, model, tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"queries": 1, "protocol": 2}', "[" * 100_000, None])
def test_damaged_manifests(kinships, model, text, tmp_path):
    check_damaged(text, kinships, model, tmp_path)


def check_damaged(text, task, model, folder):
    if text is None:
        (folder / "manifest.json").mkdir()
    else:
        (folder / "manifest.json").write_text(text)
    with raises("manifest.json is not a manifest of evenrank; choose another folder"):
        er.rank(model, task, checkpoint=folder, progress=False)


def test_parts_that_cannot_be_written(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path, after=0)
    (tmp_path / "parts").write_text("")
    with raises("cannot write .*00000.parquet; got File exists; choose another place"):
        er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    (tmp_path / "parts").unlink()
    er.rank(model, kinships, checkpoint=tmp_path, progress=False)
    assert (tmp_path / "ranks.parquet").read_bytes() == whole


def test_the_content_hash_distinguishes_all_types():
    lists = Lists
    contents = [
        None,
        0,
        "0",
        np.zeros(2),
        np.zeros((2, 1)),
        np.zeros(2, np.float32),
        np.array(["a", "b"], dtype=object),
        np.array(["ab"], dtype=object),
        lists.of([[1, 2], []]),
        lists.of([[1], [2]]),
        {"a": np.zeros(2)},
        {"b": np.zeros(2)},
    ]
    hashes = [runs.content_hash([("x", content)]) for content in contents]
    assert len(set(hashes)) == len(contents)
    table = np.arange(60.0).reshape(20, 3)
    with mock.patch.object(runs, "STEP", 50):  # in pieces
        assert runs.content_hash([("x", table)]) == runs.content_hash([("x", table.T.copy().T)])
    assert runs.content_hash([("x", table)]) == runs.content_hash([("x", np.asfortranarray(table))])


# Killed -------------------------------------------------------------------------------------------

RANK = """
    import sys, time
    from importlib import import_module
    from pathlib import Path
    import numpy as np
    import evenrank as er

    import_module("evenrank.ranking._rank")._whole = lambda *_: int(sys.argv[2])

    def rank(folder):
        task = er.load("kinships").task("test")
        model = er.models.load(Path(er.__file__).parent / "models/bundled/kinships-complex.safetensors")
        er.rank(model, task, checkpoint=folder, progress=False, threads=1)
"""


def script(text):
    return dedent(RANK) + dedent(text)


# forks as often as there are file operations in the folder, and kills each child at another one
AT_EVERY_STEP = script("""
    import os, signal

    EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}

    def run(folder, steps):
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        left = [steps]

        def count(event, arguments):
            if event in EVENTS and "run-" in str(arguments[0]):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        if steps:
            sys.addaudithook(count)
        rank(folder)
        os._exit(0)

    want, steps, code = None, 0, None
    while code != 0:
        steps += 1
        folder = Path(sys.argv[1]) / f"run-{steps}"
        code = run(folder, steps)
        assert code in (0, -signal.SIGKILL), code
        assert run(folder, 0) == 0
        got = (folder / "ranks.parquet").read_bytes()
        left = {path.name for path in folder.iterdir()} - {".lock"}
        assert left == {"manifest.json", "ranks.parquet"}, left
        assert want in (None, got)
        want = got
    print(steps)
""")


def python(code, *arguments):
    """A command that runs some code."""
    return [sys.executable, "-c", code, *map(str, arguments)]


def ended(command):
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_killed_at_any_step(tmp_path, whole):
    assert int(ended(python(AT_EVERY_STEP, tmp_path, 900))) > 20  # steps there were
    assert (tmp_path / "run-1" / "ranks.parquet").read_bytes() == whole


# a limit on the size of files fails in the middle of writing, as a full disk does
FULL = script("""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
    try:
        rank(sys.argv[1])
    except er.errors.InputError as error:
        print(error)
""")


def test_a_full_disk(tmp_path, kinships, model, whole):
    folder = tmp_path / "run"
    said = ended(python(FULL, folder, 24))
    assert (
        said == f"cannot write {folder}/parts/00000.parquet; got File too large; choose another place\n"
    )
    assert names(folder) == ["manifest.json", "parts"]
    er.rank(model, kinships, checkpoint=folder, progress=False)
    assert (folder / "ranks.parquet").read_bytes() == whole


SLOWLY = script("""
    keep = er.ranking.resume.Checkpoint.keep

    def slowly(run, i, ranks):
        time.sleep(0.01)
        keep(run, i, ranks)

    er.ranking.resume.Checkpoint.keep = slowly
    rank(sys.argv[1])
""")


def test_killed_at_random(tmp_path, whole):
    chance, folder, kept = random.Random(1), tmp_path / "run", {}
    for _ in range(KILLS):
        process = subprocess.Popen(python(SLOWLY, folder, 8))
        try:
            wanted = len(kept) + chance.randrange(4)
            patience = time.monotonic() + PATIENCE
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
    assert len(kept) >= KILLS
    ended(python(SLOWLY, folder, 8))
    assert (folder / "ranks.parquet").read_bytes() == whole


def finished(folder):
    """The parts that the manifest names as finished, and which file each is."""
    manifest = folder / "manifest.json"
    parts = json.loads(manifest.read_text())["part_hashes"] if manifest.exists() else {}
    return {part: (folder / "parts" / f"{int(part):05}.parquet").stat().st_ino for part in parts}


# The shell ----------------------------------------------------------------------------------------


def shell(*arguments):
    command = [sys.executable, "-m", "evenrank", "rank", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_the_shell_resumes_a_run(kinships, model, whole, tmp_path):
    interrupted(model, kinships, tmp_path / "run", after=5)
    arguments = (MODELS / "kinships-complex.safetensors", "--data", "kinships", "-m", "mrr")
    first = shell(*arguments, "--checkpoint", tmp_path / "run")
    assert (tmp_path / "run" / "ranks.parquet").read_bytes() == whole
    resumed = f"scores were resumed from the checkpoint; ranks in {tmp_path / 'run'}"
    assert f"{5 * 24 * 104:,} {resumed}" in first.stderr
    again = shell(*arguments, "--checkpoint", tmp_path / "run")
    assert again.stdout == first.stdout == shell(*arguments).stdout
    assert again.stderr == f"{kinships.scores:,} {resumed}\n"
    refused = shell(*arguments, "--checkpoint", tmp_path / "run", "--split", "valid")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is the checkpoint of another ranking; got split test there, valid here" in refused.stderr


def test_the_shell_maps_models_only_for_workers(tmp_path):
    """A file that is rewritten during ranking would change a mapped model, or end the process."""
    path, graph = MODELS / "nations-transe.safetensors", er.load("nations")
    assert er.models.load(path, graph).entity.flags.writeable
    mapped = er.models.load(path, graph, mapped=True).entity
    assert not mapped.flags.writeable
    assert (mapped == er.models.load(path, graph).entity).all()
    runner, seen = CliRunner(), []
    with mock.patch("evenrank.cli._rank.load_pair", lambda *_, **given: seen.append(given["mapped"])):
        runner.invoke(app, ["rank", str(path), "--data", "nations"])
        runner.invoke(
            app, ["rank", str(path), "--data", "nations", "--checkpoint", str(tmp_path / "run")]
        )
        with mock.patch("evenrank.ranking.cluster.connect"):
            runner.invoke(
                app,
                [
                    "rank",
                    str(path),
                    "--data",
                    "nations",
                    "--checkpoint",
                    str(tmp_path),
                    "--dask",
                    "local",
                ],
            )
    assert seen == [False, False, True]


def test_the_shell_ranks_several_models_into_a_folder_each(tmp_path):
    models = [MODELS / f"nations-{name}.safetensors" for name in ("complex", "transe")]
    done = shell(*models, "--data", "nations", "--checkpoint", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.parent.name for path in tmp_path.glob("*/ranks.parquet")} == {m.stem for m in models}


def test_the_shell_creates_a_folder_for_ranks_of_several_models(tmp_path):
    models = [MODELS / f"nations-{name}.safetensors" for name in ("complex", "transe")]
    done = shell(*models, "--data", "nations", "-o", tmp_path / "new" / "ranks")
    assert done.returncode == 0, done.stderr
    assert names(tmp_path / "new") == ["ranks", *(f"ranks/{m.stem}.parquet" for m in models)]
    for out in (tmp_path / "one.parquet", MODELS / "README.md"):
        refused = shell(*models, "--data", "nations", "-o", out)
        assert f"the ranks of several models need a folder; got {out}; name a folder" in refused.stderr


@pytest.mark.parametrize("option", ["--checkpoint", "-o"])
def test_models_of_the_same_name_raise_before_ranking(option, tmp_path):
    models = [tmp_path / folder / "m.safetensors" for folder in "ab"]  # which are not there to be read
    done = shell(*models, "--data", "nations", option, tmp_path / "new")
    place = tmp_path / "new" / "m.safetensors"
    assert f"two models would write to the same place; got {place}; rename one, or rank" in done.stderr
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--dask", "local"],
            "a cluster needs a checkpoint folder; got --dask without --checkpoint; name one",
        ),
        (
            ["--dask", "local", "--checkpoint", "run", "--threads", "2"],
            "--dask excludes --threads, --no-exact",
        ),
        (["--dask", "local", "--checkpoint", "run", "--no-exact"], "rank exactly, one block per thread"),
    ],
)
def test_invalid_shell_arguments_raise(options, message):
    done = shell(MODELS / "nations-transe.safetensors", "--data", "nations", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not Path("run").exists()
