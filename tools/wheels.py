"""Build the source distribution and a wheel per platform, with cross-compiled kernels, and check them.

Run with: python tools/wheels.py FOLDER

The kernels are plain C that Python loads with ctypes, so a wheel serves every version of Python. Zig
compiles them for all platforms on one machine. Builds of the same commit give the same bytes:
SOURCE_DATE_EPOCH is the time of the commit, unless it is set.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
# tag of the platform, and what Zig calls it: the oldest C library and system that the kernels then need
PLATFORMS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """Run a command and return what it prints; end with that where it fails."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} failed")
    return done.stdout


def commit_time() -> str:
    """Return the time of the commit; a source distribution has none, and the build's own is kept."""
    git = ["git", "log", "-1", "--format=%ct"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    return listed.stdout.strip() or "1580601600"  # hatchling's


def build(folder: Path) -> None:
    """Build the source distribution, and each wheel from it."""
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", folder)
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or commit_time()
    run(*hatchling, "--target", "sdist", SOURCE_DATE_EPOCH=epoch)
    (archive,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        for tag, target in PLATFORMS.items():
            start = perf_counter()
            run(
                *(*hatchling, "--target", "wheel"),
                folder=source,
                CC=f"'{sys.executable}' -m ziglang cc -target {target} -s",
                EVENRANK_PLATFORM=tag,
                SOURCE_DATE_EPOCH=epoch,
            )
            print(f"built {target} in {perf_counter() - start:.1f} s", flush=True)


def check(wheel: Path, files: set[str]) -> str:
    """Check the tag of a wheel, its files and its kernels; return what it was found to need."""
    tag = wheel.stem.split("-", 4)[4]
    library = f"evenrank/ranking/engine/_kernels.{'dll' if tag.startswith('win') else 'so'}"
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        kernels = [name for name in names if "/_kernels." in name]
        if lost := sorted(files.difference(names)):
            sys.exit(f"{wheel.name} lacks {', '.join(lost[:20])}")
        if sorted(kernels) != sorted([library, "evenrank/ranking/engine/_kernels.c"]):
            sys.exit(f"{wheel.name} has the kernels {', '.join(kernels)}, not {library}")
    if not tag.startswith(("manylinux", "musllinux")):
        return ""
    if sys.platform != "linux":
        return "not checked by auditwheel, which needs Linux"
    shown = run(sys.executable, "-m", "auditwheel", "show", wheel)
    found = re.search(r'following platform tag:\s+"([^"]+)"', shown)
    if not found or found[1] not in tag.split("."):
        sys.exit(f"{shown}\n{wheel.name} is not what its tag says")
    return f"auditwheel: {found[1]}"


def main(folder: Path) -> None:
    """Build and check everything."""
    shutil.rmtree(folder, ignore_errors=True)
    build(folder)
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != len(PLATFORMS):
        sys.exit(f"{len(wheels)} wheels were built, not {len(PLATFORMS)}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        inside = [Path(member.name).parts[1:] for member in packed.getmembers() if member.isfile()]
    files = {"/".join(parts[1:]) for parts in inside if parts[0] == "src"}
    notes = {wheel: check(wheel, files) for wheel in wheels}
    print(run(sys.executable, "-m", "check_wheel_contents", *wheels).strip())
    print(run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir())).strip())
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size / 1e6:6.2f} MB  {file.name}  {notes.get(file, '')}".rstrip())


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
