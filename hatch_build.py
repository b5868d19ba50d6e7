"""Build hook: compile the C kernels for every instruction set, if there is a C compiler.

The package also works without them; evenrank then uses NumPy, which is slower.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# no contraction: fused multiply-add would change the last bits of float64 scores
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-ffp-contract=off", "-fno-math-errno"]
LEVELS = {"base": [], "avx2": ["-march=x86-64-v3"], "avx512": ["-march=x86-64-v4"]}


def compile_kernels(source: Path, library: Path, compiler: list[str]) -> None:
    """Compile each variant and link them into one shared library."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for level, flags in LEVELS.items():
            if level != "base" and not x86:
                continue
            objects.append(str(Path(folder) / f"{level}.o"))
            define = [f"-DISA=_{level}", f"-DBASE={int(level == 'base')}", f"-DX86={int(x86)}"]
            subprocess.run(
                [*compiler, *FLAGS, *flags, *define, "-c", str(source), "-o", objects[-1]], check=True
            )
        made = Path(folder) / library.name
        subprocess.run([*compiler, "-shared", *objects, "-o", str(made), "-lm"], check=True)
        shutil.copyfile(made, library)


class KernelHook(BuildHookInterface):
    """Compile the kernels, and tag the wheel for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels before the files of the wheel are collected."""
        # CC may have several words, such as "ccache gcc"
        found = map(shutil.which, ("cc", "gcc", "clang"))
        compiler = shlex.split(os.environ.get("CC", "")) or [path for path in found if path][:1]
        folder = Path(self.root, "src", "evenrank", "ranking", "engine")
        library = folder / "_kernels.so"
        library.unlink(missing_ok=True)
        if not compiler or os.name != "posix":
            self.app.display_warning("no C compiler found: evenrank will use NumPy, which is slower")
            return
        try:
            compile_kernels(folder / "_kernels.c", library, compiler)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(
                f"kernels not compiled: evenrank will use NumPy, which is slower: {error}"
            )
            return
        build_data["pure_python"] = False
        tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{tag}"
