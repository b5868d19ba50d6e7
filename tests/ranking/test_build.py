"""The build of the kernels: any way to name a compiler, and ranking without one."""

import ctypes
import platform
import shutil
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from evenrank.ranking.engine import _native, numpy_kernels

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "evenrank" / "ranking" / "engine" / "_kernels.c"
pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed")
if not (ROOT / "hatch_build.py").is_file():
    pytest.skip("the build hook is only in the source tree", allow_module_level=True)
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tools"))
import hatch_build  # noqa: E402  # found by the path above
import machine  # noqa: E402

import wheels  # noqa: E402

compiler = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(compiler is None, reason="no C compiler")


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Run the hook in a copy of the source tree; return the messages, and the tag of the wheel."""
    folder = tmp_path / "src" / "evenrank" / "ranking" / "engine"
    folder.mkdir(parents=True)
    shutil.copy(SOURCE, folder)
    # one variant, not optimised, so that the tests take seconds
    monkeypatch.setattr(hatch_build, "FLAGS", [flag for flag in hatch_build.FLAGS if flag != "-O3"])
    monkeypatch.setattr(hatch_build, "LEVELS", {"base": []})

    def build(cc, load=True):
        if cc is None:
            monkeypatch.delenv("CC", raising=False)
        else:
            monkeypatch.setenv("CC", cc)
        messages, data = [], {}
        hook = hatch_build.KernelHook.__new__(hatch_build.KernelHook)
        monkeypatch.setattr(hatch_build.KernelHook, "root", str(tmp_path))
        monkeypatch.setattr(
            hatch_build.KernelHook, "app", SimpleNamespace(display_warning=messages.append)
        )
        hook.initialize("standard", data)
        tag = data.get("tag", "")
        library = folder / hatch_build.library_name(tag.removeprefix("py3-none-"))
        made = library.is_file()
        if made and load:
            assert ctypes.CDLL(str(library)).count_rows_wide_base is not None
        return made, messages, tag

    build.folder = folder
    return build


@needs_compiler
@pytest.mark.parametrize("cc", [None, "", compiler, f"env {compiler}", f"env A='b c' {compiler} -g0"])
def test_kernels_are_compiled_whatever_names_the_compiler(build, cc):
    made, messages, tag = build(cc)
    assert made
    assert messages == []
    assert tag.startswith("py3-none-")


HEADS = {"macosx": b"\xcf\xfa\xed\xfe", "win": b"MZ"}  # of the files that a system loads
ARCHITECTURES = {  # position and bytes of the processor in these files
    ("elf", "x86_64"): (18, b"\x3e\x00"),
    ("elf", "aarch64"): (18, b"\xb7\x00"),
    ("macosx", "x86_64"): (4, b"\x07\x00\x00\x01"),
    ("macosx", "aarch64"): (4, b"\x0c\x00\x00\x01"),
}


@pytest.mark.parametrize("tag", wheels.PLATFORMS)
def test_the_kernels_of_another_platform_are_for_its_system_and_processor(build, tag, monkeypatch):
    target = wheels.PLATFORMS[tag]
    cc = " ".join(machine.compiler(target))
    monkeypatch.setenv("EVENRANK_PLATFORM", tag)
    assert build(cc, load=False) == (True, [], f"py3-none-{tag}")
    library = build.folder.joinpath(hatch_build.library_name(tag)).read_bytes()
    for name in (*_native.FUNCTIONS, "room_for"):  # symbols are stripped: what is left is exported
        assert f"{name}_base\0".encode() in library
    assert b"kernel_level\0" in library
    head = library[:64]
    system = next((name for name in HEADS if tag.startswith(name)), "elf")
    assert head.startswith(HEADS.get(system, b"\x7fELF"))
    if system != "win":  # whose files name the processor elsewhere
        at, want = ARCHITECTURES[system, target.split("-")[0]]
        assert head[at : at + len(want)] == want


def test_a_build_for_a_platform_fails_where_it_cannot_be_compiled(build, monkeypatch):
    """A wheel without kernels is not for one platform; it must not be published as such."""
    monkeypatch.setenv("EVENRANK_PLATFORM", "win_amd64")
    with pytest.raises(OSError, match="no/such/compiler"):
        build("/no/such/compiler")
    with pytest.raises(ValueError, match="EVENRANK_PLATFORM is win_amd64: set CC to a compiler"):
        build(None)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not Path("/proc/cpuinfo").is_file(),
    reason="Linux on x86 lists what the processor can do",
)
def test_the_variants_are_those_whose_instructions_linux_lists():
    if not _native.available():
        pytest.skip("the kernels are not compiled")
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    able = set(text.split("\nflags", 1)[1].split("\n", 1)[0].split())
    names = {"bmi": "bmi1", "lzcnt": "abm"}
    want = ["base"]
    for level in ("avx2", "avx512"):
        needed = {flag.removeprefix("-m") for flag in hatch_build.LEVELS[level]}
        if {names.get(name, name) for name in needed} <= able:
            want.append(level)
    assert list(_native.available()) == want


def test_a_build_without_a_compiler_says_so_and_goes_on(build, monkeypatch):
    made, [message], tag = build("/no/such/compiler")
    assert not made
    assert message.startswith("kernels not compiled: evenrank will use NumPy, which is slower: ")
    assert tag == ""  # a wheel for any machine
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert build(None)[:2] == (
        False,
        ["no C compiler found: evenrank will use NumPy, which is slower"],
    )


def test_ranking_without_kernels_warns_once(monkeypatch):
    monkeypatch.delenv("EVENRANK_KERNELS", raising=False)
    monkeypatch.setattr(_native, "available", lambda: ())
    _native._warn_of_slowness.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"without its compiled kernels.*install a C compiler and"):
        assert _native.kernels() is numpy_kernels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _native.kernels() is numpy_kernels
        _native._warn_of_slowness.cache_clear()
        monkeypatch.setenv("EVENRANK_KERNELS", "numpy")  # who chooses NumPy needs no advice
        assert _native.kernels() is numpy_kernels
