"""LaTeX documents around tables, compiled by pdfLaTeX, and tables read back from their code."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BAD = re.compile(r"^(?:!|Overfull|Underfull|LaTeX Warning: (?!Label)|Missing character).*", re.MULTILINE)


def executable() -> str:
    """Find pdfLaTeX, or skip; where EVENRANK_NEED_LATEX is set, its absence is a failure."""
    found = shutil.which("pdflatex")
    if found is None:
        reason = "pdflatex is absent (Debian: texlive-latex-base, texlive-latex-recommended)"
        if os.environ.get("EVENRANK_NEED_LATEX"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def compiled(tables: list[str], folder: Path) -> list[str]:
    """Compile a document with these tables; return its errors and warnings, overfull lines included.

    The preamble has what the comments of the tables ask for.
    """
    packages = dict.fromkeys(re.findall(r"^% (?:in .*|and )(\\usepackage\S+)", "\n".join(tables), re.M))
    body = "\n\\clearpage\n".join(tables)
    lines = [r"\documentclass{article}", *packages, r"\begin{document}", body, r"\end{document}"]
    (folder / "paper.tex").write_text("\n".join(lines), encoding="utf-8")
    command = [executable(), "-interaction=nonstopmode", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    printed = done.stdout.decode(errors="replace")
    assert (folder / "paper.pdf").is_file(), printed
    return BAD.findall(printed)


def flat(table: str) -> str:
    """Return the source with its captions on one line."""
    return " ".join(table.split())


def cells(table: str) -> list[list[str]]:
    """Return the rows below the last line of titles of the first table."""
    body = table.partition("\\end{tabular}")[0].partition("\\midrule")[2]
    lines = [line.removesuffix("\\\\") for line in body.splitlines() if line.endswith("\\\\")]
    return [[cell.strip() for cell in line.split(" & ")] for line in lines]


def number(cell: str) -> float:
    """Read the number of a cell, whatever marks it."""
    text = re.sub(r"\\(?:textbf|underline)|\\rlap\{.*?\}$|[{}$]", "", cell).replace("\\infty", "inf")
    text = text.replace(" \\times 10^", "e")
    return float(text) if text != "--" else float("nan")
