"""Files that are damaged at random are read rightly, or refused in one line (see fuzz.py)."""

import sys
from collections import Counter

import pytest
from fuzz_mutations import mutate
from fuzz_seeds import READERS

from fuzz import GOOD, Worker, classify, fuzz

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does")
COUNT = 25  # of each format; `make fuzz` tries more


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_rightly_or_refused_in_one_line(name, worker):
    kinds = Counter()
    for _, outcome, found in fuzz([name], 0, 0, COUNT, None, worker):
        assert found is None, f"file {found.number}: {outcome.kind}: {outcome.said}"
        kinds[outcome.kind] += 1
    assert kinds.total() == COUNT
    assert set(kinds) <= set(GOOD)


def test_damage_can_be_repeated_and_is_damage():
    from random import Random

    content = b"head,relation,tail\na,r,b\nc,r,d\n"
    changed = [mutate("train.csv", content, Random(seed)) for seed in range(50)]
    assert changed == [mutate("train.csv", content, Random(seed)) for seed in range(50)]
    assert sum(one != content for one in changed) > 40


@pytest.fixture(scope="module")
def worker():
    running = Worker()
    yield running
    running.close()


FAULTS = {
    "traceback": "raise RuntimeError",
    "crash": "import os; os.abort()",
    "hang": "import time; time.sleep(60)",
    "memory": "calls.append(1); len(calls) > 1 and calls.append(b'x' * 3 * 10**8)",
    "several lines": "import sys; sys.stderr.write('evenrank: one\\ntwo\\n'); sys.exit(2)",
}


@pytest.mark.parametrize(("kind", "code"), FAULTS.items(), ids=FAULTS)
def test_the_harness_notices_faults(kind, code, worker, monkeypatch, tmp_path):
    """Have the shell itself misbehave, by a module that is imported at the start of the worker."""
    (tmp_path / "sitecustomize.py").write_text(
        f"calls = []\ndef main():\n    {code}\n"
        "import sys, importlib.abc, importlib.machinery\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'evenrank.cli':\n"
        "            from types import ModuleType\n"
        "            sys.modules[name] = module = ModuleType(name)\n"
        "            module.main = main\n"
        "            return importlib.machinery.ModuleSpec(name, Loader())\n"
        "class Loader(importlib.abc.Loader):\n"
        "    def create_module(self, spec): return sys.modules[spec.name]\n"
        "    def exec_module(self, module): pass\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if kind == "hang":
        monkeypatch.setattr("fuzz.SECONDS", 1)
    monkeypatch.setattr("fuzz.MEMORY", 10**7)
    if kind == "memory":
        len(b"x" * 10**9)  # what this process once took does not count
    faulty = Worker()
    try:
        if kind == "memory":  # what it takes is compared with the first time
            faulty.ask(["evenrank"], {})
        assert classify(faulty.ask(["evenrank"], {}), "").kind == kind
    finally:
        faulty.close()
