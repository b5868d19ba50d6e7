"""Commands that are killed, or that the system fails, write whole files or none (see faults.py)."""

import errno

import pytest
from faults import Bench, attempts


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("faults"))
    if made.library is None:
        pytest.skip("faults are injected on Linux, and need a C compiler")
    return made


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "failing"])
def test_files_are_whole_or_as_they_were(kill, bench):
    for name, what, wrong in attempts(bench, 0, 4, kill=kill):
        assert wrong is None, f"{name}, {what}: {wrong}"


def test_the_layer_injects_faults(bench, tmp_path):
    bench.prepare("chance")
    operations = bench.operations["chance"]
    assert operations[0] == "open"
    assert {"write", "fsync", "rename"} <= {*operations}
    for at, operation in enumerate(operations, 1):
        if operation in ("write", "rename"):
            done = bench.run("chance", tmp_path, at=at, error=errno.ENOSPC)
            assert (done.code, done.content) == (2, None), operation
            assert done.said.endswith("got No space left on device; choose another place\n")
