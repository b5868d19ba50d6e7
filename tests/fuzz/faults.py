"""Kills commands that write, and has the system fail them: what is written is whole, or was not touched.

    python tests/fuzz/faults.py --seed 1 --count 200

Of `count` kills, half come at an operation on the folder (open, write, fsync, rename, ...) and half at
any time. Of `count` faults, each has one such operation fail (no space, input/output error, ...). Each
command runs where nothing is yet, or where an older file is. Afterwards

- the file is what it was before, or what the command writes if nothing happens, to the last byte;
- an error is one line with exit code 2, and leaves no temporary file;
- the same command, run again, writes the same bytes; so does a ranking that was interrupted.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

SOURCE = Path(__file__).with_name("faults.c")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES)
OLD = b"what was there before\n"


class Command(NamedTuple):
    """A command of the shell, and the file that it writes, below the folder {1}; {0} has its input."""

    words: tuple[str, ...]
    written: str


def command(line: str, written: str) -> Command:
    return Command(tuple(line.split()), written)


RANK = "rank {0}/m.safetensors --data {0}/g"
TREC = "import trec {0}/run.txt --qrels {0}/qrels.txt --candidates 60"
COMMANDS = {
    "rank -o parquet": command(f"{RANK} -o {{1}}/r.parquet", "r.parquet"),
    "rank -o csv": command(f"{RANK} -o {{1}}/r.csv", "r.csv"),
    "rank --checkpoint": command(f"{RANK} --checkpoint {{1}}/run", "run/ranks.parquet"),
    "import trec": command(f"{TREC} -o {{1}}/r.parquet", "r.parquet"),
    "evaluate": command("evaluate {0}/r.parquet -o {1}/t.csv", "t.csv"),
    "compare": command("compare {0}/r.parquet {0}/s.parquet -m mrr --on row -o {1}/t.json", "t.json"),
    "report html": command("report {0}/r.parquet -m mrr -o {1}/t.html", "t.html"),
    "report md": command("report {0}/r.parquet -m mrr -o {1}/t.md", "t.md"),
    "chance": command("chance mrr --sizes 14x20 -o {1}/t.json", "t.json"),
    "adjust": command("adjust {0}/p.csv -o {1}/t.md", "t.md"),
    "baseline": command("baseline nations -o {1}/t.csv", "t.csv"),
    "data list": command("data list -o {1}/t.csv", "t.csv"),
    "atlas build": command("atlas build {0}/g --name toy -o {1}/a.parquet", "a.parquet"),
    "own atlas": command("atlas build {0}/g --name toy", "atlas.parquet"),
}


class Result(NamedTuple):
    """What a command did: exit code (negative: killed by that signal), stderr, and its file."""

    code: int
    said: str
    content: bytes | None


def library(folder: Path) -> Path | None:
    """Compile the layer that injects faults; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        return None
    path = folder / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", path, SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True)
    return path if done.returncode == 0 else None


def inputs(folder: Path) -> None:
    """Write what the commands read."""
    import fuzz_seeds as seeds

    seeds.graph(folder / "g")
    seeds.model(folder / "m.safetensors")
    seeds.ranks(60).save(folder / "r.parquet")
    seeds.ranks(60).with_protocol({"model": "other"}).save(folder / "s.parquet")
    seeds.import_trec(folder)
    seeds.published("long", folder)


class Bench:
    """Runs commands in folders of their own, with faults."""

    def __init__(self, place: Path) -> None:
        self.place, self.given = place, place / "given"
        self.given.mkdir()
        inputs(self.given)
        self.library = library(place)
        self.good: dict[str, bytes] = {}
        self.operations: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}

    def prepare(self, name: str) -> None:
        """Run a command undisturbed: what it writes, by which operations, and how long it takes."""
        folder, log = self.place / "first", self.place / "log"
        folder.mkdir()
        log.write_text("")
        start = time.monotonic()
        done = self.run(name, folder, log=log)
        self.seconds[name] = time.monotonic() - start
        assert done.code == 0, done.said
        assert done.content
        self.good[name], self.operations[name] = done.content, log.read_text().split()
        shutil.rmtree(folder)

    def run(
        self, name: str, folder: Path, *, at: int = 0, error: int = 0, log: Path | None = None,
        kill: float | None = None,
    ) -> Result:  # fmt: skip
        """Run a command; let its operation `at` fail or kill it, or kill it after some seconds."""
        command = COMMANDS[name]
        places = {"{0}": self.given, "{1}": folder}
        words = list(command.words)
        for sign, place in places.items():
            words = [word.replace(sign, str(place)) for word in words]
        surroundings = os.environ | {"EVENRANK_ATLAS": str(folder), "EVENRANK_DATA": ""}
        surroundings |= {"FAULT_FOLDER": str(folder), "FAULT_AT": str(at), "FAULT_ERROR": str(error)}
        if self.library:
            surroundings["LD_PRELOAD"] = str(self.library)
        if log:
            surroundings["FAULT_LOG"] = str(log)
        process = subprocess.Popen(
            [sys.executable, "-m", "evenrank", *words],
            env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=600 if kill is None else kill)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        path = folder / command.written
        return Result(process.returncode, said, path.read_bytes() if path.is_file() else None)

    def attempt(self, name: str, draw: Random, *, kill: bool) -> tuple[str, str | None]:
        """Disturb a command once; return what was done, and what is wrong with what it left."""
        if name not in self.good:
            self.prepare(name)
        folder = self.place / "out"
        folder.mkdir()
        target, good = folder / COMMANDS[name].written, self.good[name]
        older = draw.random() < 0.5 and name not in ("rank --checkpoint", "own atlas")
        if older:
            target.write_bytes(OLD)
            target.chmod(0o600)
        operations = self.operations[name]
        if kill and draw.random() < 0.5:
            seconds = draw.uniform(0.2, 1.1) * self.seconds[name]
            what, done = f"killed after {seconds:.2f} s", self.run(name, folder, kill=seconds)
        else:
            at, error = draw.randrange(1, len(operations) + 1), 0 if kill else draw.choice(ERRORS)
            what = f"{errno.errorcode[error] if error else 'killed'} at {at} ({operations[at - 1]})"
            done = self.run(name, folder, at=at, error=error)
        wrong = self._judge(name, done, OLD if older else None, what, folder)
        if wrong is None and (not older or draw.random() < 0.2):
            again = self.run(name, folder)
            if again.code != 0 or again.content != good:
                wrong = f"run again: code {again.code}, {again.said}"
            if older and target.stat().st_mode & 0o777 != 0o600:
                wrong = "the mode of the file changed"
        shutil.rmtree(folder)
        return what, wrong

    def _judge(
        self, name: str, done: Result, before: bytes | None, what: str, folder: Path
    ) -> str | None:
        good = self.good[name]
        if done.content not in (before, good):
            return f"half a file: {len(done.content or b'')} of {len(good)} bytes"
        if done.code == -signal.SIGKILL:
            return None
        if done.code == 0:
            return None if done.content == good else "success without the file"
        lines = [line for line in done.said.splitlines() if not line.startswith("note: ")]
        if done.code != 2 or len(lines) != 1 or not lines[0].startswith("evenrank: "):
            return f"code {done.code}: {done.said[-1500:]}"
        left = [path.name for path in folder.rglob(".*.part")]
        return f"left {left}" if left and "unlink" not in what else None


def attempts(
    bench: Bench, seed: int, count: int, *, kill: bool
) -> Iterator[tuple[str, str, str | None]]:
    """Disturb commands `count` times, each in turn."""
    for i in range(count):
        draw = Random(f"{seed} {kill} {i}")
        name = [*COMMANDS][i % len(COMMANDS)]
        yield (name, *bench.attempt(name, draw, kill=kill))


def main() -> None:
    """Disturb all commands, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="kills, and faults")
    parser.add_argument("--only", choices=("kills", "faults"))
    asked = parser.parse_args()
    wrongs = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        bench = Bench(Path(place))
        if bench.library is None:
            raise SystemExit("faults are injected on Linux, and need a C compiler")
        for kill in (True, False):
            if asked.only == ("faults" if kill else "kills"):
                continue
            tried, held = Counter[str](), Counter[str]()
            for name, what, wrong in attempts(bench, asked.seed, asked.count, kill=kill):
                tried[name] += 1
                held[name] += wrong is None
                if wrong:
                    print(f"{name}, {what}: {wrong}", flush=True)
            print(f"| command | {'kills' if kill else 'faults'} | held |\n|---|---:|---:|")
            for name in tried:
                print(f"| {name} | {tried[name]} | {held[name]} |")
            print(f"| all | {tried.total()} | {held.total()} |", flush=True)
            wrongs += tried.total() - held.total()
    sys.exit(1 if wrongs else 0)


if __name__ == "__main__":
    main()
