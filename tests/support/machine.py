"""The compiled kernels of other machines, emulated: AArch64 in QEMU, Windows in Wine.

A `Machine` stands in for the `ctypes` library of the kernels. It sends the arguments of each call to a
process, `machine.c`, and copies the arrays that come back into those of the caller.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "evenrank" / "ranking" / "engine" / "_kernels.c"
HERE = Path(__file__).with_suffix(".c")


class Machine:
    """A process that calls the kernels it was built with; a context manager."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment}
        )
        self._turn = threading.Lock()

    def __getattr__(self, name: str) -> Function:
        return Function(self, name)

    __getitem__ = __getattr__

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input is the end of the process

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        """Call a function; a pointer stands for the whole array that it was made from."""
        message = [struct.pack("<32sq", name.encode(), len(arguments))]
        arrays, before = [], []
        for argument in arguments:
            if isinstance(argument, ctypes.c_void_p):
                arrays.append(argument._arr)  # NumPy keeps it there, so that it stays alive
                before.append(argument._arr.tobytes())
                message += [struct.pack("<q", len(before[-1])), before[-1]]
            else:
                message.append(struct.pack("<qq", -1, getattr(argument, "value", argument)))
        with self._turn:
            self._process.stdin.write(b"".join(message))
            self._process.stdin.flush()
            (result,) = struct.unpack("<q", self._read(8))
            after = [self._read(len(sent)) for sent in before]
        for array, sent, got in zip(arrays, before, after, strict=True):
            if sent != got:
                # only what the kernel changed, as other threads work on the rest of the array
                bits = np.dtype(f"i{array.itemsize}")
                changed = np.frombuffer(sent, bits) != np.frombuffer(got, bits)
                flat = array.reshape(-1)
                assert np.shares_memory(flat, array)
                flat[changed] = np.frombuffer(got, array.dtype)[changed]
        return result

    def _read(self, size: int) -> bytes:
        got = self._process.stdout.read(size)
        assert len(got) == size, "the process ended; it says why on stderr"
        return got


class Function:
    """A function of a machine, as `ctypes` has it."""

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine, self._name = machine, name
        self.restype: Any = ctypes.c_int

    def __call__(self, *arguments: Any) -> int:
        return self.restype(self._machine.call(self._name, arguments)).value


def _absent(reason: str) -> None:
    if os.environ.get("EVENRANK_NEED_MACHINES"):
        pytest.fail(reason)
    pytest.skip(reason)


def compiler(target: str) -> list[str]:
    """Return the cross compiler, or skip; where EVENRANK_NEED_MACHINES is set, its absence fails."""
    if find_spec("ziglang") is None:
        _absent("the cross compiler is absent (pip install 'evenrank[release]')")
    return [sys.executable, "-m", "ziglang", "cc", "-target", target, "-s"]


def aarch64(folder: Path, flags: list[str]) -> Machine:
    """Start the kernels for AArch64."""
    qemu = shutil.which("qemu-aarch64")
    if qemu is None:
        _absent("QEMU is absent (the package qemu-user of Debian)")
    program = folder / "machine"
    variant = ["-DISA=_base", "-DBASE=1", "-DX86=0"]
    subprocess.run(
        [
            *(*compiler("aarch64-linux-musl"), *flags, "-Wno-deprecated-non-prototype", *variant),
            *("-static", str(SOURCE), str(HERE), "-o", str(program)),
        ],
        check=True,
    )
    return Machine([str(qemu), str(program)])


def windows(folder: Path, compile_kernels: Callable[..., None]) -> Machine:
    """Start the kernels for Windows: all variants, of which the processor has some, as on Windows."""
    wine = shutil.which("wine")
    if wine is None:
        pytest.skip("Wine is absent (the packages wine and wine64 of Debian)")
    zig = compiler("x86_64-windows-gnu")
    program, library = folder / "machine.exe", folder / "_kernels.dll"
    compile_kernels(SOURCE, library, zig, "win_amd64", "amd64")
    subprocess.run([*zig, "-O2", str(HERE), "-o", str(program)], check=True)
    return Machine([wine, str(program), str(library)], WINEPREFIX=str(folder / "wine"), WINEDEBUG="-all")
