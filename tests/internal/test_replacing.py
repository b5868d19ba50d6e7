"""Atomic writes: whole or nothing, nothing planted is followed, nothing is left behind."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenrank._internal import files
from evenrank._internal.files import locked, replacing
from evenrank.errors import InputError

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX systems")
KILLED = """
import os, sys
from evenrank._internal.files import replacing
with replacing(sys.argv[1]) as file:
    file.write_bytes(b"half")
    os._exit(9)
"""


def write(path, content="new", then=lambda: None):
    """Write to a path, and do something before it gets its name."""
    with replacing(path) as file:
        file.write_text(content)
        then()


def unfinished(folder):
    return [path for path in folder.iterdir() if path.name.endswith(files.UNFINISHED)]


def test_a_file_is_replaced_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with replacing(path) as file:
        file.write_text("new")
        assert path.read_text() == "old"
        assert file.parent == tmp_path
    assert path.read_text() == "new"
    assert not unfinished(tmp_path)


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write(path, "half", lambda: 1 / 0)
    assert path.read_text() == "old"
    assert not unfinished(tmp_path)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_replaced_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_mode_that_the_user_set_for_new_files(tmp_path, mask):
    before = os.umask(mask)
    try:
        with replacing(tmp_path / "out.csv") as file:
            assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
        assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o666 & ~mask
    finally:
        os.umask(before)


@posix
def test_a_planted_link_is_an_error_and_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))  # if the name could be guessed
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".out.csv.{bytes(8).hex()}{files.UNFINISHED}").symlink_to(victim)
    with (
        pytest.raises(InputError, match=r"cannot write .*out.csv; got File exists"),
        replacing(tmp_path / "out.csv"),
    ):
        pass
    assert victim.read_text() == "mine"


def test_names_of_temporary_files_differ(tmp_path):
    with replacing(tmp_path / "out.csv") as first, replacing(tmp_path / "out.csv") as second:
        assert first != second


@posix
def test_a_link_given_by_the_user_keeps_pointing_to_the_replaced_file(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    with replacing(tmp_path / "link.csv") as file:
        file.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


@posix
def test_a_folder_that_was_exchanged_meanwhile_gets_no_file(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "other").mkdir()

    def exchange():
        (tmp_path / "out").rename(tmp_path / "gone")
        (tmp_path / "out").symlink_to(tmp_path / "other")

    with pytest.raises(InputError, match=r"cannot write .*; got No such file or directory"):
        write(tmp_path / "out" / "a.csv", then=exchange)
    assert not [*(tmp_path / "other").iterdir()]
    assert not [*(tmp_path / "gone").iterdir()]


def test_names_as_long_as_the_system_allows_can_be_written(tmp_path):
    for name in ("a" * 251 + ".csv", "名" * 83 + ".csv"):
        with replacing(tmp_path / name) as file:
            file.write_text("new")
        assert (tmp_path / name).read_text() == "new"


def test_the_file_of_a_killed_writer_is_removed_by_the_next_one(tmp_path):
    path = tmp_path / "out.csv"
    assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode == 9
    (left,) = unfinished(tmp_path)
    other = tmp_path / f".mine.{'0' * 16}{files.UNFINISHED}"
    other.write_text("of another file")
    write(path)
    assert left in unfinished(tmp_path)  # it may belong to a writer that has only just begun
    for path_left in (left, other):
        os.utime(path_left, (0, time.time() - 2 * files.DAY))
    write(path)
    assert unfinished(tmp_path) == [other]


@posix
def test_the_file_of_a_slow_writer_is_left_alone(tmp_path):
    path = tmp_path / "out.csv"
    with replacing(path) as slow:
        slow.write_text("slow")
        os.utime(slow, (0, time.time() - 2 * files.DAY))
        with replacing(path) as fast:
            fast.write_text("fast")
        assert slow.read_text() == "slow"
    assert path.read_text() == "slow"


@posix
def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "run", wait=False):
        pass
    assert victim.read_text() == "mine"


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="got not a file"), replacing(tmp_path / "folder"):
        pass
    with pytest.raises(InputError, match="No such file or directory"), replacing(Path("/none/a/b.csv")):
        pass
