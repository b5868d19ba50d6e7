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


def page(path: Words, text: str) -> str:
    r"""Turn help into a page: a heading per panel of options.

    >>> print(page(("evenrank", "x"), "Usage: evenrank x\n\n  Does x.\n\nOutput:\n  -o  File."))
    # evenrank x
    <BLANKLINE>
    Does x.
    <BLANKLINE>
    ```text
    Usage: evenrank x
    ```
    <BLANKLINE>
    ## Output
    <BLANKLINE>
    ```text
    -o  File.
    ```
    <BLANKLINE>
    """
    usage, *parts = re.split(r"\n\n(?=\S)|\n\n(?=  \S)", text.strip())
    found = f"# {' '.join(path)}\n\n"
    prose = [part for part in parts if part.startswith("  ")]
    found += "".join(" ".join(part.split()).replace("<", "\\\\<") + "\n\n" for part in prose)
    found += f"```text\n{usage}\n```\n\n"
    for part in parts:
        if part in prose:
            continue
        title, _, rest = part.partition(":\n")
        lines = "\n".join(line.removeprefix("  ") for line in rest.splitlines())
        language = "sh" if title == "Examples" else "text"
        found += f"## {title}\n\n```{language}\n{lines}\n```\n\n"
    return found.strip() + "\n"


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
