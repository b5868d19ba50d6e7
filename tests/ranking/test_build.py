"""The build of the kernels: any way to name a compiler, and ranking without one."""

import ctypes
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
import hatch_build  # noqa: E402  # found by the path above

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

    def build(cc):
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
        library = folder / "_kernels.so"
        made = library.is_file() and ctypes.CDLL(str(library)).count_rows_wide_base is not None
        return made, messages, data.get("tag", "")

    return build


@needs_compiler
@pytest.mark.parametrize("cc", [None, "", compiler, f"env {compiler}", f"env A='b c' {compiler} -g0"])
def test_kernels_are_compiled_whatever_names_the_compiler(build, cc):
    made, messages, tag = build(cc)
    assert made
    assert messages == []
    assert tag.startswith("py3-none-")


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
