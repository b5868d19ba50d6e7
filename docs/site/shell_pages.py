"""Write the reference of the shell: a page per command, from the help that the command prints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from evenrank.cli import app

WIDTH = "88"
Words = tuple[str, ...]


def commands(command: Any, path: Words = ("evenrank",)) -> Iterator[tuple[Words, Any]]:
    """Yield a command and those below it, with the words that call them."""
    command = command.load() if hasattr(command, "load") else command  # its module is imported now
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


def help_of(path: Words, command: Any) -> str:
    """Return the help as a terminal shows it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        return str(command.get_help(typer.Context(command, info_name=" ".join(path))))
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def options(lines: list[str]) -> str:
    r"""Turn the lines of a panel into a table, which phones can show.

    >>> lines = ["-o, --out FILE  File", "                to write.", "--long-name TEXT", "    Text|s."]
    >>> print(options(lines))
    | | |
    | --- | --- |
    | `-o, --out FILE` | File to write. |
    | `--long-name TEXT` | Text\|s. |
    <BLANKLINE>
    """
    rows: list[tuple[str, list[str]]] = []
    for line in lines:
        name, _, text = line.partition("  ")
        if name:
            rows.append((name, text.split()))
        else:
            rows[-1][1].extend(line.split())
    cells = ((name, re.sub(r"([\\`*_<>|\[\]{}$#])", r"\\\1", " ".join(words))) for name, words in rows)
    return "| | |\n| --- | --- |\n" + "".join(f"| `{name}` | {text} |\n" for name, text in cells)


def page(path: Words, text: str) -> str:
    r"""Turn help into a page: the examples first, then a table per panel of options.

    >>> print(page(("evenrank", "x"), "Usage: evenrank x\n\n  Does x.\n\nExamples:\n  evenrank x"))
    # evenrank x
    <BLANKLINE>
    Does x.
    <BLANKLINE>
    ```sh
    evenrank x
    ```
    <BLANKLINE>
    ```text
    Usage: evenrank x
    ```
    <BLANKLINE>
    """
    usage, *parts = re.split(r"\n\n(?=\S)|\n\n(?=  \S)", text.strip())
    prose = [part for part in parts if part.startswith("  ")]
    found = [f"# {' '.join(path)}", *(" ".join(part.split()) for part in prose)]
    examples, tables = [], []
    for part in parts:
        if part in prose:
            continue
        title, _, rest = part.partition(":\n")
        lines = [line.removeprefix("  ") for line in rest.splitlines()]
        if title == "Examples":
            examples.append("\n".join(["```sh", *lines, "```"]))
        else:
            tables += [f"## {title}", options(lines).strip()]
    return "\n\n".join([*found, *examples, f"```text\n{usage}\n```", *tables]) + "\n"


def write(out: Path) -> None:
    """Write all pages and their index.

    Parameters
    ----------
    out : Path
        The folder of the pages.
    """
    out.mkdir(parents=True)
    rows, pages = "", ""
    for path, command in commands(typer.main.get_command(app)):
        text = help_of(path, command)
        name = "-".join(path)
        (out / f"{name}.md").write_text(page(path, text), encoding="utf-8")
        summary = str(command.help or "").partition("\n")[0]
        rows += f"| [{' '.join(path)}]({name}.md) | {summary} |\n"
        pages += f"{name}\n"
    (out / "index.md").write_text(
        "# Shell reference\n\nWhat `evenrank COMMAND --help` prints, for every command.\n\n"
        f"| command | |\n| --- | --- |\n{rows}\n```{{toctree}}\n:hidden:\n\n{pages}```\n",
        encoding="utf-8",
    )
