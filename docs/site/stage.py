"""Copy the pages of the repository to the folder that Sphinx reads, with links that fit there."""

from __future__ import annotations

import os.path
import re
import shutil
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
# pages outside docs/ that are pages of the site, and files that pages link to
OUTSIDE = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md"),
    *("CITATION.cff", "examples/rank_while_training.py"),
)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
FILE_NAME = re.compile(r"\[[\w-]+\.md\](?=\(([\w-]+\.md)(?:#[\w-]+)?\))")


def place(path: str) -> str:
    """Return where a file of the repository lies on the site: docs/ is its root.

    >>> place("docs/metrics.md"), place("CHANGELOG.md")
    ('metrics.md', 'CHANGELOG.md')
    """
    return path.removeprefix("docs/")


def moved(text: str, path: str) -> str:
    """Rewrite the relative links of a page for the places that pages have on the site.

    >>> moved("[a](../CHANGELOG.md#x) [b](files.md) [c](#y)", "docs/ranking.md")
    '[a](CHANGELOG.md#x) [b](files.md) [c](#y)'
    >>> moved("[a](docs/ranking.md) [b](https://example.org/)", "CHANGELOG.md")
    '[a](ranking.md) [b](https://example.org/)'
    """
    here = str(PurePosixPath(place(path)).parent)

    def link(match: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(path).parent / match[1])
        return os.path.relpath(place(target), here)

    return LINK.sub(link, text)


def titled(text: str, folder: Path) -> str:
    r"""Name linked pages by their titles, where the text of a link is the name of the file.

    >>> titled("see [chance.md](chance.md#tails) and [ranks](files.md)", ROOT / "docs")
    'see [The null distribution of a metric](chance.md#tails) and [ranks](files.md)'
    """

    def title(match: re.Match[str]) -> str:
        first = (folder / match[1]).read_text(encoding="utf-8").partition("\n")[0]
        return f"[{first.removeprefix('# ')}]"

    return FILE_NAME.sub(title, text)


def trimmed(text: str) -> str:
    r"""Remove the empty line before the end of a block of code, which doctest needs and readers do not.

    >>> trimmed("```python\n>>> 1\n1\n\n```\n\n```\nx\n```\n")
    '```python\n>>> 1\n1\n```\n\n```\nx\n```\n'
    """
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.startswith("```"):
            while inside and lines[-1] == "":
                lines.pop()
            inside = not inside
        lines.append(line)
    return "\n".join(lines)


def stage(out: Path) -> None:
    """Copy all pages, figures and linked files.

    Parameters
    ----------
    out : Path
        The folder that Sphinx reads; it is emptied first.
    """
    shutil.rmtree(out, ignore_errors=True)
    inside = (path for path in sorted((ROOT / "docs").rglob("*")) if path.is_file())
    for path in (*inside, *(ROOT / name for name in OUTSIDE)):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("docs/site/"):
            continue
        target = out / place(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = trimmed(moved(titled(path.read_text(encoding="utf-8"), path.parent), name))
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(path, target)
