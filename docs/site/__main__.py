"""Build the documentation site: `python docs/site SOURCE OUT`, which `make docs` runs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx

import evenrank as er
import metric_pages
import python_pages
import searching
import shell_pages
from links import Site
from stage import stage
from standins import standins

EXPLORER = """# Explorer: adjust a published value

Enter a published value and see it adjusted for chance, beside the [record](record.md) of published
results and the equivalent value on every other data set. Enter further values of the same model to see
whether they contradict each other ([audit](audit.md)), or choose "your own candidates" to enter numbers
of candidates and tasks. `evenrank explore -o explorer.html` writes this page as one file that needs no
network. <a href="_static/explorer.html">Open it in full</a>.

<iframe class="whole" src="_static/explorer.html" title="Explorer"></iframe>
"""


LEADERBOARD = """# Leaderboard of published results

Find results of papers by data set, model and metric, as printed and adjusted for chance
([how to read it](leaderboard.md)). `evenrank leaderboard -o page.html` writes this page as one file that
needs no network. <a href="_static/leaderboard.html">Open it in full</a>.

<iframe class="whole" src="_static/leaderboard.html" title="Leaderboard"></iframe>
"""


def generate(source: Path) -> None:
    """Write the pages that are made from the package: metrics, commands, and one around the explorer."""
    metric_pages.write(source / "metrics")
    shell_pages.write(source / "shell")
    (source / "explorer.md").write_text(EXPLORER, encoding="utf-8")
    (source / "leaderboard-page.md").write_text(LEADERBOARD, encoding="utf-8")


def quiet(folder: Path) -> None:
    """Run notebooks without the configuration of the user, and without warnings of the kernel itself."""
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    profile.joinpath("ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
    os.environ["IPYTHONDIR"] = str(folder.resolve())


def build(source: Path, out: Path) -> int:
    """Stage and generate the pages, build them, and check all links; return an exit code."""
    start = time.perf_counter()
    shutil.rmtree(out, ignore_errors=True)
    stage(source)
    generate(source)
    quiet(source.parent / "ipython")
    settings = ["-d", str(source.parent / "doctrees"), "-c", str(Path(__file__).parent)]
    strict = ["-q", "-W", "--keep-going", "-n", "-j", "auto", "-b", "html"]
    with standins():
        python_pages.write(source / "reference")
        code = sphinx([*strict, *settings, str(source), str(out)])
    if code:
        return code
    er.explore(out / "_static" / "explorer.html", progress=False)
    er.leaderboard(out / "_static" / "leaderboard.html")
    site = Site(out)
    broken = [*site.broken(), *searching.missing(out)]
    print(*broken, sep="\n", end="\n" * bool(broken))
    took = time.perf_counter() - start
    pages, links = len(site.pages), site.checked
    print(f"{out}/index.html: {pages} pages, {links} links, {len(broken)} errors, {took:.0f} s")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(build(*map(Path, sys.argv[1:])))
