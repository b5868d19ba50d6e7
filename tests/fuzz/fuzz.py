"""Damages good files of every format at random, and watches what the shell makes of them.

    python tests/fuzz/fuzz.py --seed 1 --count 1000            all readers
    python tests/fuzz/fuzz.py --reader "graph of NumPy"        one of them

Each damaged file is read by a worker process whose memory is limited and whose time is watched. What
may happen: the file is read, and the result is the same or another one that the file really says; or an
error of one line, with exit code 2. A traceback, a crash, a hang or a failed allocation is a fault of
evenrank; such files are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

MEMORY = 2 << 30  # bytes that reading may take, beside what the process has after its imports
SECONDS = 60  # until a file counts as one that hangs
LONGEST = 13_000  # letters of an error: escapes are longer than what they stand for
GOOD = ("equal", "different", "error")
OUTCOMES = (*GOOD, "misread", "several lines", "traceback", "crash", "hang", "memory")
FOREIGN = ("Traceback", "allow_pickle", "weights_only", "set_int_max", "file an issue", "RUST_BACKTRACE")


class Outcome(NamedTuple):
    """What came of reading a damaged file: a kind, and what was said."""

    kind: str
    said: str = ""
    memory: int = 0


class Found(NamedTuple):
    """A fault: the reader, the number of the damaged file, the outcome, and where the file is kept."""

    reader: str
    number: int
    outcome: Outcome
    kept: Path | None


# The worker ---------------------------------------------------------------------------------------


def work() -> None:
    """Run commands of the shell, one for each line of stdin, and write what came of each."""
    import resource

    import numpy as np
    import polars as pl

    answers = os.fdopen(os.dup(1), "w")
    pl.DataFrame({"a": [1]}).lazy().group_by("a").len().collect(engine="streaming")  # starts its threads
    np.ones((9, 9)) @ np.ones((9, 9))
    with contextlib.suppress(ImportError):
        import torch

        torch.zeros(3).sum()
    from evenrank._internal import limits

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MEMORY, size + 2 * MEMORY))
    # address space is more than memory: allocators reserve it; so the limit that is told is the smaller
    limits.available_memory.__globals__["_of_address_space"] = lambda: MEMORY
    for line in sys.stdin:
        words, environment = json.loads(line)
        os.environ.update(environment)
        answers.write(json.dumps(_run(words)) + "\n")
        answers.flush()


def _run(words: list[str]) -> dict[str, Any]:
    from evenrank.cli import main

    with tempfile.TemporaryFile("w+b") as native, tempfile.TemporaryFile("w+b") as own:
        os.dup2(native.fileno(), 2)
        stdout, sys.argv = io.StringIO(), words
        stderr = sys.stderr = io.TextIOWrapper(own, encoding="utf-8", write_through=True)
        code: Any = 0
        crashed = ""
        with contextlib.redirect_stdout(stdout), warnings.catch_warnings():
            try:
                main()
            except SystemExit as end:
                code = end.code
            except BaseException:
                crashed = traceback.format_exc()
        stderr.flush()
        own.seek(0)
        native.seek(0)
        said = own.read().decode("utf-8", "replace") + native.read().decode("utf-8", "replace")
        stderr.detach()
    # ru_maxrss would not do: it starts from the peak of the process that started this one
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return {"code": code, "out": stdout.getvalue(), "err": said, "crashed": crashed, "peak": peak}


# The watch ----------------------------------------------------------------------------------------


class Worker:
    """A worker process; it is started again if it dies or hangs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._start = 0

    def ask(self, words: list[str], environment: dict[str, str]) -> dict[str, Any] | Outcome:
        """Have a command run; return what came of it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--work"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ
                | {"EVENRANK_DATA": "", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
            )
            self._start = 0
        process = self._process
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps([words, environment]) + "\n")
        process.stdin.flush()
        limit = SECONDS if self._start else 5 * SECONDS  # the first one waits for the imports
        ready, _, _ = select.select([process.stdout], [], [], limit)
        line = process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            self._start = self._start or answer["peak"]
            grown = answer["peak"] - self._start
            if grown > MEMORY:
                self.close()
                return Outcome("memory", f"{grown / 1e9:.1f} GB")
            return answer | {"peak": grown}
        self.close()
        return Outcome("hang") if not ready else Outcome("crash", f"signal {-process.returncode}")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill() if self._process.poll() is None else None
            self._process.communicate()
            self._process = None


def classify(answer: dict[str, Any] | Outcome, expected: str | None) -> Outcome:
    """Judge what the shell did."""
    if isinstance(answer, Outcome):
        return answer
    out, err, peak = answer["out"], answer["err"], answer["peak"]
    if answer["crashed"]:
        return Outcome("traceback", answer["crashed"], peak)
    if answer["code"] == 0:
        if any(word in err for word in FOREIGN):
            return Outcome("several lines", err, peak)
        return Outcome("equal" if out == expected else "different", out, peak)
    text = err.removesuffix("\n")
    plain = text.startswith("evenrank: ") and len(text) <= LONGEST and text.isprintable()
    if answer["code"] != 2 or out or not plain or any(word in text for word in FOREIGN):
        return Outcome("several lines", f"code {answer['code']}\n{out[:300]}\n{err}", peak)
    return Outcome("error", text, peak)


def told(folder: Path, case: Any, outcome: Outcome) -> str | None:
    """Whether a result is what the files say, by other means; else why not."""
    import fuzz_truth

    return fuzz_truth.objection(folder, case, json.loads(outcome.said))


def fuzz(
    names: list[str], seed: int, first: int, count: int, keep: Path | None, worker: Worker
) -> Iterator[tuple[str, Outcome, Found | None]]:
    """Damage files of each reader `count` times; yield the outcomes."""
    from fuzz_mutations import mutate
    from fuzz_seeds import READERS

    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        for name in names:
            good = Path(place, "good")
            good.mkdir()
            case = READERS[name].write(good)

            def ask(folder: Path, case: Any = case) -> dict[str, Any] | Outcome:
                made = folder / "out.json"
                made.unlink(missing_ok=True)
                words = ["evenrank", *(word.replace("{0}", str(folder)) for word in case.command)]
                there = {key: value.replace("{0}", str(folder)) for key, value in case.environment}
                answer = worker.ask(words, there)
                if isinstance(answer, dict) and made.exists():
                    answer["out"] = made.read_text(encoding="utf-8")
                if isinstance(answer, dict):  # names of folders differ
                    answer["out"] = answer["out"].replace(str(folder), "{0}")
                return answer

            work = Path(place, "work")
            shutil.copytree(good, work)
            answer = ask(work)
            if isinstance(answer, Outcome) or answer["code"] or answer["crashed"]:
                raise AssertionError(f"{name}: the good file cannot be read: {answer}")
            expected = answer["out"]
            for number in range(first, first + count):
                draw = Random(f"{seed} {name} {number}")
                shutil.rmtree(work)
                shutil.copytree(good, work)
                file = draw.choice(case.mutated)
                path = work / file.partition("#")[0]
                path.write_bytes(mutate(file, path.read_bytes(), draw))
                kept = Path(place, "kept")
                shutil.copytree(work, kept)
                outcome = classify(ask(work), expected)
                if outcome.kind == "different":
                    why = "another result" if READERS[name].strict else told(kept, case, outcome)
                    outcome = Outcome("misread", f"{why}\n{outcome.said}") if why else outcome
                found = None
                if outcome.kind not in GOOD:
                    there = keep and keep / f"{seed}-{name.replace(' ', '-').replace('/', '-')}-{number}"
                    if there:
                        shutil.rmtree(there, ignore_errors=True)
                        shutil.copytree(kept, there)
                        words = [word.replace("{0}", str(there)) for word in case.command]
                        (there / "COMMAND").write_text(f"{words}\n{outcome.said}")
                    found = Found(name, number, outcome, there)
                shutil.rmtree(kept)
                yield name, outcome, found
            shutil.rmtree(work)
            shutil.rmtree(good)


def main() -> None:
    """Fuzz, and print the counts of outcomes as a table."""
    from fuzz_seeds import READERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="damaged files per reader")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--reader", action="append", help="a part of the name of a reader; repeatable")
    parser.add_argument("--keep", type=Path, help="folder for files that show faults")
    asked = parser.parse_args()
    names = [name for name in READERS if not asked.reader or any(one in name for one in asked.reader)]
    start, counts, most = time.monotonic(), {name: Counter[str]() for name in names}, 0
    faults, worker = [], Worker()
    for name, outcome, found in fuzz(names, asked.seed, asked.first, asked.count, asked.keep, worker):
        counts[name][outcome.kind] += 1
        most = max(most, outcome.memory)
        if found:
            faults.append(found)
            print(f"{found.reader} {found.number}: {outcome.kind}: {outcome.said[-1500:]}", flush=True)
    worker.close()
    total = sum(counts.values(), Counter())
    shown = [kind for kind in OUTCOMES if kind in GOOD or total[kind]]
    print("| reader | " + " | ".join(shown) + " |")
    print("|---|" + "---:|" * len(shown))
    for name, count in (*counts.items(), ("all", total)):
        print(f"| {name} | " + " | ".join(str(count[kind]) for kind in shown) + " |")
    print(f"seed {asked.seed}: {total.total():,} files in {time.monotonic() - start:.0f} s, "
          f"at most {most / 1e6:.0f} MB each; {len(faults)} faults")  # fmt: skip
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    work() if "--work" in sys.argv else main()
