"""The kernels of other machines, emulated, pass the tests of the kernels of this machine."""

import ctypes
import sys

import machine
import numpy as np
import pytest
import test_engine

from evenrank.ranking.engine import _native, numpy_kernels
from evenrank.ranking.engine.bounds import FORMS

if not (machine.ROOT / "hatch_build.py").is_file():
    pytest.skip("the build hook is only in the source tree", allow_module_level=True)
pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed")
sys.path.insert(0, str(machine.ROOT))
import hatch_build  # found by the path above


@pytest.fixture(scope="module", params=["AArch64", "Windows"])
def emulated(request, tmp_path_factory):
    """The kernels of a machine."""
    folder = tmp_path_factory.mktemp("machine")
    if request.param == "AArch64":
        started = machine.aarch64(folder, hatch_build.FLAGS)
    else:
        started = machine.windows(folder, hatch_build.compile_kernels)
    with started as running:
        yield running


@pytest.fixture
def here(emulated, monkeypatch):
    """Rank with the kernels of that machine; the variants that it has."""
    variants = _native.VARIANTS[: emulated.kernel_level() + 1]
    monkeypatch.setattr(_native, "_library", lambda: emulated)
    monkeypatch.setattr(_native, "available", lambda: variants)
    monkeypatch.setattr(_native, "_variant", lambda name: _native.Native(emulated, name))
    monkeypatch.setattr(test_engine, "KERNELS", variants)
    return variants


@pytest.mark.parametrize("form", FORMS)
def test_ties_and_near_ties_are_counted_as_here(here, form):
    for variant in here:
        test_engine.test_kernels_and_types_do_not_matter(form, variant)
        test_engine.test_lists_of_all_candidates_are_all_candidates(form, variant)


def test_hostile_numbers_are_counted_as_by_the_oracle(here):
    test_engine.test_hostile_numbers_against_the_oracle()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_bounds_hold_and_decide(here, form, dtype):
    for variant in here:
        if form != "modulus":  # which is rounded otherwise where it is counted
            test_engine.test_bounds_hold_where_errors_add_up(form, variant, dtype)
        test_engine.test_bounds_leave_few_pairs_undecided(form, variant, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_is_found(here, dtype):
    for variant in here:
        test_engine.test_nan_is_named(variant, dtype)


def bits(kernels, form):
    """Bits of the scores by definition, of many magnitudes, by one kernel."""
    rng = np.random.default_rng(0)
    found = []
    for d in (1, 2, 7, 64, 65, 130):
        width = 2 * d if form == "modulus" else d
        queries = rng.standard_normal((50, width)) * 10.0 ** rng.integers(-160, 160, (50, 1))
        table = rng.standard_normal((70, width)) * 10.0 ** rng.integers(-160, 160, (70, 1))
        query, row = rng.integers(50, size=500), rng.integers(70, size=500)
        near = rng.standard_normal((50, width))
        for vectors, rows in ((queries, table), (near, near[:1] + table.clip(-1, 1))):
            for held in (rows, np.clip(rows, -3e38, 3e38).astype(np.float32)):
                with np.errstate(all="ignore"):
                    found.append(kernels.pairs(form, vectors, held, query, row))
    scores = np.concatenate(found)
    scores[np.isnan(scores)] = np.nan  # which has many bits
    return scores.view(np.int64)


@pytest.mark.parametrize("form", FORMS)
def test_scores_by_definition_have_the_same_bits(here, form):
    want = bits(numpy_kernels, form)
    for variant in here:
        assert np.array_equal(bits(_native._variant(variant), form), want)


def test_given_scores_are_counted_as_by_numpy(here):
    rng = np.random.default_rng(1)
    first = np.sort(rng.integers(0, 60, 21))
    first[0], first[-1] = 0, 60
    for dtype in (np.float32, np.float64):
        scores = rng.integers(-3, 4, (20, 333)).astype(dtype)
        scores[rng.random(scores.shape) < 0.05] = -np.inf
        goal = rng.integers(-3, 4, 60).astype(dtype)
        start = np.arange(21) * 333
        for variant in here:
            rows, lists = [], []
            for kernels in (_native._variant(variant), numpy_kernels):
                better, equal = np.ones(60, np.int64), np.ones(60, np.int64)
                kernels.count_rows(scores, first, goal, better, equal)
                rows.append([better, equal])
                lists.append(kernels.count_lists(scores.ravel(), start, first, goal))
            assert np.array_equal(*rows)
            assert np.array_equal(*lists)


def test_fused_sums_would_be_noticed(tmp_path):
    """Without -ffp-contract=off, AArch64 rounds the sums of scores differently."""
    flags = [flag for flag in hatch_build.FLAGS if not flag.startswith("-ffp-contract")]
    with machine.aarch64(tmp_path, [*flags, "-ffp-contract=fast"]) as fused:
        kernels = _native.Native(fused, "base")
        assert not np.array_equal(bits(kernels, "modulus"), bits(numpy_kernels, "modulus"))


def test_a_call_that_fails_on_the_machine_is_an_error_here(tmp_path):
    with machine.aarch64(tmp_path, hatch_build.FLAGS) as running, pytest.raises(AssertionError):
        running.no_such_kernel(ctypes.c_int64(1))
