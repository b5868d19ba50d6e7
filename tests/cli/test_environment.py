"""The shell in unusual surroundings: variables, encodings, closed streams, interruptions."""

import os
import subprocess
import sys

import pytest

from evenrank.cli import PLAIN
from evenrank.errors import MESSAGE, InputError, visible

RANK = ("rank", "nations/transe", "--data", "nations", "-m", "mrr")
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29511"}


def run(*arguments, **environment):
    """Run the command in a process of its own; return the exit code and what it wrote."""
    known = {name: value for name, value in os.environ.items() if name not in ALONE}
    command = [sys.executable, "-m", "evenrank", *arguments]
    surroundings = known | {"PYTHONUTF8": "0"} | environment
    done = subprocess.run(command, capture_output=True, env=surroundings, timeout=120)
    return done.returncode, done.stdout, done.stderr.decode("latin-1")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (ALONE | {"RANK": "abc"}, "RANK must be a whole number of at least 0; got 'abc'"),
        (ALONE | {"RANK": "-1"}, "RANK must be a whole number of at least 0; got '-1'"),
        (ALONE | {"RANK": "²"}, "RANK must be a whole number of at least 0"),
        (ALONE | {"RANK": "1"}, "RANK must be smaller than WORLD_SIZE; got 1 of 1; start the"),
        (ALONE | {"WORLD_SIZE": "0"}, "WORLD_SIZE must be a whole number of at least 1; got '0'"),
        (ALONE | {"MASTER_PORT": "http"}, "MASTER_PORT must be a whole number of at least 0"),
        ({"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE must be a whole number of at least 1; got '0'"),
        ({"LOCAL_WORLD_SIZE": "two"}, "LOCAL_WORLD_SIZE must be a whole number of at least 1"),
        ({"EVENRANK_KERNELS": "mmx"}, "EVENRANK_KERNELS names kernels that are not available; got mmx"),
    ],
)
def test_environment_variables_that_make_no_sense(environment, message):
    code, out, err = run(*RANK, **environment)
    assert code == 2
    assert out == b""
    assert message in err
    assert err.count("\n") == 1
    assert err.startswith("evenrank: ")


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("EVENRANK_DATA", "EVENRANK_DATA must name a folder; got '~nobody-of-that-name'"),
        ("EVENRANK_CACHE", "EVENRANK_CACHE names no folder: no such user; got '~nobody-of-that-name'"),
    ],
)
def test_home_folders_of_unknown_users(variable, message, tmp_path):
    surroundings = {"EVENRANK_DATA": "", "EVENRANK_CACHE": str(tmp_path)}
    code, _, err = run("data", "fetch", "wn18rr", **surroundings | {variable: "~nobody-of-that-name"})
    assert (code, err) == (2, f"evenrank: {message}\n")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_output_in_other_encodings_has_plain_arrows_and_aligned_columns(encoding):
    code, out, err = run(*RANK, "-q", PYTHONIOENCODING=encoding)
    assert (code, err) == (0, "")
    arrow = "↑" if encoding == "utf-8" else "^"
    head, rule, row, *_ = out.decode(encoding).splitlines()
    assert row.startswith(f"mrr {arrow}")
    assert len(head) == len(rule) == len(row)


def test_the_letters_for_other_encodings_are_ascii():
    assert "".join(map(chr, PLAIN.values())).isascii()


@pytest.mark.skipif(sys.platform == "win32", reason="closes streams by a POSIX shell")
@pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), ("2>&- >&-", 0), (">&-", 0)])
def test_closed_streams(closed, code):
    command = " ".join([sys.executable, "-m", "evenrank", *RANK])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, timeout=120)
    assert done.returncode == code
    assert (b"mrr" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))
    assert b"Traceback" not in done.stderr


INTERRUPTED = """
import sys

module = sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, *_):
        if name == module:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from evenrank.cli import main
main()
"""


@pytest.mark.parametrize(
    "module", ["typer", "evenrank.cli._help", "evenrank.cli._rank", "numpy", "evenrank.models"]
)
def test_ctrl_c_while_modules_are_imported(module):
    command = [sys.executable, "-c", INTERRUPTED, module, *RANK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
    assert done.stderr.startswith("evenrank: interrupted")
    assert done.stderr.count("\n") == 1


def test_lists_of_sizes_may_be_longer_than_names_of_files():
    short, long = (
        run("chance", "mrr", "--sizes", sizes)[:2] for sizes in ("100x5000", ",".join(["100"] * 5000))
    )
    assert short == long
    assert short[0] == 0


def test_messages_show_control_characters_and_have_a_limit():
    nasty = "a\x1b[2J\u202e\x9b\u2028\ud800b"
    message = str(InputError(f"unknown name {nasty}", got=nasty * 1000, do=nasty))
    assert message.isprintable()
    assert message.count(r"\x1b[2J") > 2
    assert len(message) < 6 * MESSAGE
    assert "…" in message
    message.encode()


def test_joiners_stay_in_names():
    for name in ("نمی‌خواهم", "👩‍🔬", "naïve", "名前"):
        assert visible(name) == name
