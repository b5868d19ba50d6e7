"""The transcript of a new user's first hour: every command is run, in a terminal of 80 columns."""

import gzip
from pathlib import Path

import pytest
from shared import FOLDER, needs
from transcript import blocks, commands, in_terminal, matches

PAGE = Path(__file__).parents[1] / "docs" / "first-hour.md"


def test_lines_of_a_transcript_match_up_to_numbers():
    shown = ["metric  value", "------  -----", "mrr ↑    0.35", "...", "last"]
    assert matches(shown, ["metric   value", "------   ------", "mrr ↑    0.4123", "other", "last"])
    assert matches(shown, ["metric value", "--- ---", "mrr ↑ 1e-5", "last"])
    assert not matches(shown, ["metric value", "--- ---", "mr ↓ 12", "last"])
    assert not matches(shown, ["metric value", "--- ---", "mrr ↑ 12", "last", "and more"])
    assert matches(["some long note"], ["some long", "note"])
    assert matches(["0.7 s: 817.5 million/s"], ["0.1 s: 1.3", "billion/s"])
    assert matches(["1.5 s (avx512 kernels)"], ["27 s (numpy", "kernels)"])
    assert matches(["a 1", "b 2"], ["b 3", "a 1"], ordered=False)
    assert not matches(["a 1", "b 2"], ["b 3", "b 1"], ordered=False)
    assert not matches(["all"], ["all", "and more"])
    assert not matches(["all", "of it"], ["all"])
    assert not matches(["a", "...", "b", "...", "c"], ["a", "c"])


def test_blocks_are_split_into_commands():
    page = "Text.\n\n```console\n$ one \\\n>   two\nout\n$ three\n```\n\n```python a.py\nx = 1\n```\n"
    [(_, console), (name, code)] = blocks(page)
    first, second = commands(console)
    assert (first.text, first.shown, second.text) == ("one \\\n  two", ["out"], "three")
    assert (name, code) == ("python a.py", "x = 1\n")


@needs("datasets/wn18rr")
def test_first_hour(tmp_path):
    pytest.importorskip("pykeen", reason="the transcript trains models with PyKEEN")
    # the data set where PyKEEN looks for it, as there may be no network
    cache = tmp_path / "cache" / "pykeen" / "datasets" / "wn18rr"
    cache.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        with gzip.open(FOLDER / "datasets" / "wn18rr" / f"{split}.txt.gz", "rb") as packed:
            (cache / f"{split}.txt").write_bytes(packed.read())
    environment = {"PYSTOW_HOME": str(tmp_path / "cache"), "EVENRANK_DATA": str(FOLDER / "datasets")}
    environment["OMP_NUM_THREADS"] = "1"  # training by two threads is ten times slower on a busy machine
    folder = tmp_path / "hour"
    folder.mkdir()
    for kind, body in blocks(PAGE.read_text(encoding="utf-8")):
        if kind != "console":
            (folder / kind.split()[1]).write_text(body, encoding="utf-8")
            continue
        for command in commands(body):
            code, printed = in_terminal(command.text, folder, **environment)
            assert code == 0, "\n".join(printed)
            assert max(map(len, printed), default=0) <= 80, command.text
            ordered = "--sort" not in command.text
            assert matches(command.shown, printed, ordered=ordered), "\n".join(
                [f"$ {command.text}", *printed]
            )
