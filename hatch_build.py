"""Build hooks: compile the C kernels, and give the README of the package links that work anywhere.

The kernels are compiled for every instruction set, if there is a C compiler.

The package also works without them; evenrank then uses NumPy, which is slower.

CC names another compiler. With EVENRANK_PLATFORM, a platform tag such as win_amd64, it is a cross
compiler, and the wheel is for that platform (`make wheels`).
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# no contraction: fused multiply-add would change the last bits of float64 scores
FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno"]
# what `kernel_level` of the kernels asks the processor for
AVX2 = ["-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mlzcnt", "-mpopcnt"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"]
LEVELS = {"base": [], "avx2": AVX2, "avx512": AVX512}
MACHINES = ("x86_64", "amd64", "aarch64", "arm64")  # at the end of platform tags


def library_name(tag: str) -> str:
    """Return the file name of the compiled kernels on a platform, as `_native.py` looks for it."""
    return "_kernels.dll" if tag.startswith("win") else "_kernels.so"


def link_flags(tag: str) -> list[str]:
    """Return how a library is linked on a platform."""
    if tag.startswith("win"):
        return []
    # musl has the file name of its system's own; Python has loaded it already
    return ["-nostdlib"] if tag.startswith("musllinux") else ["-lm"]


def compile_kernels(source: Path, library: Path, compiler: list[str], tag: str, machine: str) -> None:
    """Compile each variant that a machine can have, and link them into one shared library."""
    x86 = machine.lower() in ("x86_64", "amd64")
    code = [] if tag.startswith("win") else ["-fPIC"]
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for level, flags in LEVELS.items():
            if level != "base" and not x86:
                continue
            objects.append(str(Path(folder) / f"{level}.o"))
            define = [f"-DISA=_{level}", f"-DBASE={int(level == 'base')}", f"-DX86={int(x86)}"]
            subprocess.run(
                [*compiler, *FLAGS, *code, *flags, *define, "-c", str(source), "-o", objects[-1]],
                check=True,
            )
        made = Path(folder) / library.name
        # in its folder, as a library can hold the path that the linker was given
        subprocess.run(
            [*compiler, "-shared", *map(os.path.basename, objects), "-o", made.name, *link_flags(tag)],
            check=True,
            cwd=folder,
        )
        shutil.copyfile(made, library)


def absolute(text: str, repository: str, tag: str) -> str:
    """Lead the relative links and pictures of a page to the files of a repository at a tag."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}[{match[2]}]({repository}/{kind}/{tag}/{match[3]})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)", link, text)


class ReadmeHook(MetadataHookInterface):
    """The README as package indexes show it, which have no other files of the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README; its links become absolute once `[project.urls]` has `Repository`."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = Path(self.root, "src", "evenrank", "__init__.py").read_text(encoding="utf-8")
        version = re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)
        repository = metadata.get("urls", {}).get("Repository")
        if repository and version:
            text = absolute(text, repository.rstrip("/"), f"v{version[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class KernelHook(BuildHookInterface):
    """Compile the kernels, and tag the wheel for the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels before the files of the wheel are collected."""
        target = os.environ.get("EVENRANK_PLATFORM", "")
        if target and not os.environ.get("CC"):
            raise ValueError(f"EVENRANK_PLATFORM is {target}: set CC to a compiler for that platform")
        tag = target or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        machine = next((name for name in MACHINES if target.endswith(name)), platform.machine())
        # CC may have several words, such as "ccache gcc"
        # gcc is left out on Windows: it stores wide registers at addresses that are not aligned
        names = ("clang",) if tag.startswith("win") else ("cc", "gcc", "clang")
        found = map(shutil.which, names)
        compiler = shlex.split(os.environ.get("CC", "")) or [path for path in found if path][:1]
        folder = Path(self.root, "src", "evenrank", "ranking", "engine")
        for name in {library_name("win"), library_name("")}:  # of another platform, too
            (folder / name).unlink(missing_ok=True)
        if not compiler:
            self.app.display_warning("no C compiler found: evenrank will use NumPy, which is slower")
            return
        try:
            compile_kernels(folder / "_kernels.c", folder / library_name(tag), compiler, tag, machine)
        except (OSError, subprocess.CalledProcessError) as error:
            if target:
                raise  # who builds for a platform wants its kernels
            self.app.display_warning(
                f"kernels not compiled: evenrank will use NumPy, which is slower: {error}"
            )
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
