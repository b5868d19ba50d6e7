"""Transcripts in documentation: commands and their output, as a terminal of 80 columns shows them.

A page has blocks of two kinds. Those fenced as `console` hold commands, on lines that start with `$ `,
and their output below; a line `...` stands for any lines. Those fenced as `python NAME.py` are files
that the commands use. `python tests/support/transcript.py PAGE FOLDER` runs the commands in a folder
and writes their output into the page, except where the page has `...`.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```(?P<kind>console|python \S+\.py)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[+-]?\d[\d,.]*(?:e[+-]?\d+)?(?:\s*[kM]B)?")


@dataclass
class Command:
    """A command of a page, and the output that the page shows."""

    text: str
    shown: list[str] = field(default_factory=list)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the content of each block."""
    for block in FENCE.finditer(page):
        yield block["kind"], block["body"]


def commands(body: str) -> list[Command]:
    """Split a console block into commands; a command goes on after a backslash."""
    found: list[Command] = []
    continues = False
    for line in body.splitlines():
        if continues:
            found[-1].text += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            found.append(Command(line[2:]))
        else:
            found[-1].shown.append(line)
        continues = (continues or line.startswith("$ ")) and line.endswith("\\")
    return found


def in_terminal(command: str, folder: Path, **environment: str) -> tuple[int, list[str]]:
    """Run a shell command in a terminal of 80 columns; return its exit code and what it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    settings = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    # a terminal that only prints: no colours, no progress bars
    settings |= {"TERM": "dumb", **environment}
    settings["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), settings["PATH"]])
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=settings,
        start_new_session=True,
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux reports the end of a terminal as an error
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    text = b"".join(parts).decode().replace("\r\n", "\n")
    return process.wait(), [line.rstrip() for line in text.strip("\n").split("\n")]


def words(lines: list[str]) -> list[str]:
    """Return the words of lines, without what depends on the machine: digits, widths, line breaks."""
    text = re.sub(r"\w+\s+kernels", "kernels", "\n".join(lines))
    text = re.sub(r"[\d.,]+\s+(\w+)?/s", "0/s", text)  # million or billion
    return re.sub(r"[\s─-]+", " ", NUMBER.sub("0", text)).split()


def matches(shown: list[str], printed: list[str], *, ordered: bool = True) -> bool:
    """Whether words are as shown, up to numbers; a line `...` stands for any lines.

    Rows that are sorted by a result of training may come in another order: then they are not `ordered`.
    """
    found = words(printed)
    if not ordered:
        return sorted(found) == sorted(words(shown))
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line == "...":
            pieces.append([])
        else:
            pieces[-1] += words([line])
    first, *rest = pieces
    if found[: len(first)] != first or (not rest and len(found) != len(first)):
        return False
    at = len(first)
    for piece in rest[:-1]:
        starts = range(at, len(found) - len(piece) + 1)
        at = next(
            (start + len(piece) for start in starts if found[start : start + len(piece)] == piece), -1
        )
        if at < 0:
            return False
    last = rest[-1] if rest else []
    return len(found) - len(last) >= at and found[len(found) - len(last) :] == last


def written(page: str, folder: Path, **environment: str) -> str:
    """Run the commands of a page, and return the page with what they printed."""

    def again(block: re.Match[str]) -> str:
        kind, body = block["kind"], block["body"]
        if kind != "console":
            (folder / kind.split()[1]).write_text(body)
            return block[0]
        lines = []
        for command in commands(body):
            code, printed = in_terminal(command.text, folder, **environment)
            print(f"$ {command.text}", *printed, f"[exit code {code}]", sep="\n", flush=True)
            keep = "..." in command.shown
            text = command.text.replace("\n", "\n> ")
            lines += [f"$ {text}", *(command.shown if keep else printed)]
        return "```console\n" + "\n".join(lines) + "\n```"

    return FENCE.sub(again, page)


if __name__ == "__main__":
    path, place = Path(sys.argv[1]), Path(sys.argv[2])
    path.write_text(written(path.read_text(), place))
