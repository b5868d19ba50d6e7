"""Build the documentation site: `python docs/site SOURCE OUT`, which `make docs` runs."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from links import Site
from sphinx.cmd.build import main as sphinx
from stage import stage


def build(source: Path, out: Path) -> int:
    """Stage and generate the pages, build them, and check all links; return an exit code."""
    start = time.perf_counter()
    shutil.rmtree(out, ignore_errors=True)
    stage(source)
    cache = ["-d", str(source.parent / "doctrees"), "-c", str(Path(__file__).parent)]
    code = sphinx(
        ["-q", "-W", "--keep-going", "-n", "-j", "2", "-b", "html", *cache, str(source), str(out)]
    )
    if code:
        return code
    site = Site(out)
    broken = site.broken()
    print(*broken, sep="\n", end="\n" * bool(broken))
    took = time.perf_counter() - start
    print(
        f"{out}/index.html: {len(site.pages)} pages, {site.checked} links, {len(broken)} broken, {took:.0f} s"
    )
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(build(*map(Path, sys.argv[1:])))
