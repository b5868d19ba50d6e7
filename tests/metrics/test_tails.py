"""Tail probabilities against exact convolutions, brackets on grids, enumeration and simulation."""

import math
from itertools import pairwise

import numpy as np
import pytest
import strategies as own
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import evenrank as er
from evenrank.metrics.chance import _tails
from evenrank.metrics.chance._sum import Sizes
from evenrank.metrics.chance._wave import Wave
from evenrank.metrics.metric import Transform

inf = math.inf


def better(null, z):
    """A value z standard deviations better than the mean."""
    sign = 1.0 if null.metric.increasing else -1.0
    return float(null.mean()) + sign * z * float(null.std())


def agrees(null, value, truth, unsure=0.0):
    """Whether log sf(value) is within its stated error of log(truth)."""
    got = null.logsf(value)
    assert got.error < inf
    return abs(float(got) - truth) <= got.error + unsure + 1e-10


def simulated(f, sizes, counts, weights, value, samples, seed=0):
    """Estimate P(sum w f(r) >= value) and its standard error by simulation."""
    rng, weights = np.random.default_rng(seed), np.asarray(weights, dtype=float)
    weights = weights / (weights * counts).sum()
    hits = done = 0
    while done < samples:
        rows = min(samples - done, 4000)
        total = np.zeros(rows)
        for size, count, weight in zip(sizes, counts, weights, strict=True):
            total += weight * f(rng.integers(1, size + 1, (rows, count)).astype(float)).sum(axis=1)
        hits += int((total >= value - 1e-12).sum())
        done += rows
    share = hits / samples
    return share, math.sqrt(share * (1.0 - share) / samples)


def lattice_tail(table, times, wanted):
    """P(sum of `times` whole numbers >= wanted) by plain convolution; table[v] = P(v)."""
    total = np.ones(1)
    for _ in range(times):
        total = np.convolve(total, table)
    return math.log(math.fsum(total[wanted:]))


def grid_bounds(f, size, n, value, theta, steps):
    """Bounds on log P(mean f >= value) by convolution on a grid with floor and ceiling."""
    values = f(np.arange(1.0, size + 1.0)) / n
    step = values.max() / steps
    tilt = np.exp(theta * (values - values.max()))
    log_mgf = n * (math.log(tilt.sum() / size) + theta * values.max())
    bounds = []
    for rounded in (np.floor(values / step), np.ceil(values / step)):
        mass = np.bincount(rounded.astype(int), tilt / tilt.sum(), steps + 1)
        length = n * steps + 1
        total = np.maximum(np.fft.irfft(np.fft.rfft(mass, length) ** n, length), 0.0)
        at = np.arange(length) * step
        shift = n * step * (1.0 if rounded[0] <= values[0] / step and not bounds else -1.0)
        with np.errstate(divide="ignore"):
            logs = np.log(total[at >= value]) - theta * (at[at >= value] + shift)
        bounds.append(log_mgf + float(np.logaddexp.reduce(logs)))
    return bounds


# The cases that a skewed or weighted sum makes hard --------------------------------------------------


def test_two_relations_of_very_different_size_agree_with_simulation():
    sizes, counts, weights = [14_541, 14_541], [1, 200], [200.0, 1.0]
    null = er.chance("mrr", sizes, counts=counts, weights=weights)
    for value in (0.0004, float(null.mean()), 0.0015, 0.004):
        share, error = simulated(np.reciprocal, sizes, counts, weights, value, 40_000)
        assert null.sf(value) == pytest.approx(share, abs=4 * error)
    assert null.sf(null.mean()) == pytest.approx(0.1637, abs=0.001)


def test_a_thousand_targets_agree_with_simulation_on_both_sides_of_the_mean():
    null = er.chance("mrr", {14_541: 1000})
    for z in (-0.8, 0.0, 1.5, 3.0):
        share, error = simulated(np.reciprocal, [14_541], [1000], [1.0], better(null, z), 20_000)
        assert null.sf(better(null, z)) == pytest.approx(share, abs=4 * error)
    assert null.sf(better(null, 1.5)) == pytest.approx(0.0855, abs=0.0002)


@pytest.mark.parametrize("name", ["mrr", "hmr", "gmr", "imr", "ndcg", "mean(2)", "hits@10", "mr"])
@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 30.0]], ids=["equal", "unequal"])
def test_every_metric_agrees_with_simulation(name, weights):
    sizes, counts = [3000, 500], [300, 20]
    null = er.chance(name, sizes, counts=counts, weights=weights)
    sample = er.chance(
        name, sizes, counts=counts, weights=weights, method="sample", samples=20_000, seed=4
    )
    for z in (-1.0, 0.0, 1.0, 2.0):
        want = sample.sf(better(null, z))
        assert null.sf(better(null, z)) == pytest.approx(want, abs=4 * want.error)


def test_nothing_jumps_where_the_skewness_passes_two():
    """From 200 to 2,000 targets the skewness falls from 9 to 3, and on; the tail changes smoothly."""
    logs = []
    for n in np.unique(np.geomspace(200, 20_000, 25).astype(int)).tolist():
        null = er.chance("mrr", {14_541: n})
        logs.append(float(null.logsf(better(null, 1.5))))
    steps = np.diff(logs)
    assert np.abs(steps).max() < 0.25
    assert min(logs) > math.log(0.01)


# Exact convolutions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 50, 800])
@pytest.mark.parametrize("size", [3, 4, 10])
def test_mrr_of_few_candidates_agrees_with_convolution(n, size):
    """1/r is a multiple of 1/2520: an error of the lattice would grow with n."""
    whole = math.lcm(*range(1, size + 1))
    table = np.zeros(whole + 1)
    table[[whole // r for r in range(1, size + 1)]] = 1.0 / size
    null = er.chance("mrr", {size: n})
    for z in (-2.0, -0.5, 0.0, 1.0, 4.0, 12.0):
        wanted = min(n * whole, math.ceil(better(null, z) * n * whole - 1e-9))
        if n * whole > 200_000 and z not in (0.0, 4.0):
            continue
        total = np.ones(1)  # by squaring
        for digit in f"{n:b}":
            total = np.convolve(total, total) if len(total) < 3000 else _product(total, total)
            total = _product(total, table) if digit == "1" else total
        truth = math.fsum(total[wanted:])
        if truth > 1e-6:
            value = wanted / whole / n
            assert null.sf(value) == pytest.approx(truth, rel=1e-7)
            assert null.logsf(value).error < 2e-3


def _product(a, b):
    length = len(a) + len(b) - 1
    return np.fft.irfft(np.fft.rfft(a, length) * np.fft.rfft(b, length), length)


def test_mean_rank_agrees_with_convolution_from_certain_to_e_to_the_minus_300():
    size, n = 20, 120
    null = er.chance("mr", {size: n})
    table = np.full(size, 1.0 / size)  # of size - rank
    for total in (n + 1, n + 20, 400, 800, 1259, 1260, 1261, 1500, 2390):
        truth = lattice_tail(table, n, n * size - total)
        assert null.logsf(total / n) == pytest.approx(truth, rel=1e-10, abs=1e-10)
        assert null.logsf(total / n).method == "convolution"
        assert null.logsf((total + 0.5) / n) == pytest.approx(truth, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("weights", [(200.0, 1.0), (1.0, math.sqrt(2.0)), (1.0, 0.37)])
def test_weighted_hits_agree_with_binomials(weights):
    """Two counts of hits: every pair of them is an outcome."""
    sizes, counts = (14_541, 3000), (7, 200)
    null = er.chance("hits@10", sizes, counts=counts, weights=weights)
    w = np.array(weights) / np.dot(weights, counts)
    hits = [np.arange(c + 1) for c in counts]
    logs = [stats.binom.logpmf(h, c, 10 / s) for h, c, s in zip(hits, counts, sizes, strict=True)]
    values = np.add.outer(w[0] * hits[0], w[1] * hits[1])
    joint = np.add.outer(logs[0], logs[1])
    attained = np.unique(values.round(15))
    for value in attained[:: len(attained) // 40]:
        truth = float(np.logaddexp.reduce(joint[values >= value - 1e-12]))
        assert agrees(null, value, truth, 1e-8 + 1e-10 * abs(truth))
        assert null.logsf(value).error < 1e-6


def test_a_step_function_agrees_with_the_count_of_hits_far_out():
    """The inversion knows nothing of counts, which are computed in another way."""
    step = er.Metric(Transform("step", lambda r: (r <= 10) * 1.0))
    for n in (50, 5000, 200_000):
        hits, null = er.chance("hits@10", {1000: n}), er.chance(step, {1000: n})
        for share in (0.004, 0.0105, 0.02, 0.2, 0.9):
            wanted = math.ceil(share * n)
            value = (wanted - 0.5) / n
            assert agrees(null, value, float(hits.logsf(wanted / n)))
            assert null.logsf(value).error <= max(1e-2, 1e-4 * abs(null.logsf(value)))


@pytest.mark.parametrize(
    ("n", "value", "theta", "steps"),
    [
        (3, 0.0005, 0.0, 400_000),
        (3, 0.35, 10.0, 400_000),
        (8, 0.002, 0.0, 200_000),
        (8, 0.3, 55.0, 200_000),
    ],
)
def test_few_targets_of_many_candidates_agree_with_bounds_on_a_grid(n, value, theta, steps):
    low, high = grid_bounds(np.reciprocal, 14_541, n, value, theta, steps)
    got = er.chance("mrr", {14_541: n}).logsf(value)
    assert low - got.error - 1e-6 <= float(got) <= high + got.error + 1e-6
    assert high - low < 0.1
    assert got.error < 5e-3


# What must hold for any tail -------------------------------------------------------------------------

POWERS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


@settings(max_examples=30)
@given(
    metric=st.builds(er.Metric, own.transforms, st.sampled_from(POWERS), st.sampled_from((1, -1))),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    weights=st.lists(st.sampled_from((1.0, 1 / 3, 2.0, 0.1, math.pi)), min_size=5, max_size=5),
    inversion=st.booleans(),
)
def test_tails_are_within_their_error_of_enumeration(metric, sizes, weights, inversion):
    null = er.chance(metric, sizes, weights=weights[: len(sizes)])
    every = er.chance(metric, sizes, weights=weights[: len(sizes)], method="enumerate")
    values = np.unique(every._enumeration.values)
    values = values[np.isfinite(values)]
    assume(len(values) > 1)
    between = [math.sqrt(a * b) for a, b in pairwise(values) if b > a * (1 + 1e-6) > 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenrank.metrics.chance.FEW_OUTCOMES", 0)
        if inversion:  # without the exact ways
            patch.setattr(_tails, "log_tail_of_few", lambda *_: None)
            patch.setattr(_tails, "lattice_step", lambda *_: 0.0)
            patch.setattr(_tails, "MOST_FREQUENCIES", 1 << 14)
        for value in [*values[:: max(1, len(values) // 3)], *between[:: max(1, len(between) // 3)]]:
            got, want = null.logsf(value), every.logsf(value)
            assert abs(got - want) <= got.error + 1e-9 or got == want
            assert 0.0 <= null.sf(value) <= 1.0


@pytest.mark.parametrize("name", ["mrr", "mr", "gmr", "hmr", "ndcg", "hits@10", "mean(2)", "imr"])
@pytest.mark.parametrize("n", [3, 60, 4000])
def test_tails_never_rise(name, n):
    null = er.chance(name, [14_541, 700], counts=[n, 2], weights=[1.0, 20.0])
    values = [better(null, z) for z in (-1.5, -0.5, -0.01, 0.0, 0.01, 0.3, 0.7, 1.5, 3, 6, 20)]
    logs = [null.logsf(v) for v in values if v > 0]
    assert all(a >= b - a.error - b.error for a, b in pairwise(logs))
    assert all(log <= 0.0 and log.error < 0.05 for log in logs)
    assert float(logs[0]) > float(logs[-1])


def test_far_tails_have_a_logarithm():
    null = er.chance("gmr", {14_541: 200_000})
    log_p = null.logsf(60.0)
    assert log_p < -500_000
    assert log_p.error < 1e-6 * abs(log_p)
    assert null.sf(60.0) == 0.0


def test_tails_pass_on_their_error():
    null = er.chance("mrr", {14_541: 300})
    p, log_p = null.sf(0.001), null.logsf(0.001)
    assert p.method == log_p.method == "inversion"
    assert p.error == pytest.approx(p * math.expm1(log_p.error))
    sample = er.chance("mrr", {14_541: 300}, method="sample", samples=2000)
    assert sample.sf(0.001).error == pytest.approx(math.sqrt(p * (1 - p) / 2000), rel=0.2)
    assert sample.sf(0.9) == 0.0
    assert sample.sf(0.9).error > 0


def test_interpolated_characteristic_functions_agree_with_all_pairs():
    rng = np.random.default_rng(0)
    size, weight = rng.integers(500, 1000, 3000), 1.0 + rng.random(3000)
    sizes = Sizes(size, weight, np.ones(3000, dtype=np.int64))
    theta = 3000.0
    wave = Wave(np.reciprocal, sizes, theta)
    assert wave.pairs < 1000
    step, last = 400.0, 600
    got = wave(step, last, 0.001)
    for j in (0, 1, 10, 100, 250, 600):
        total = 0.0
        for n, w in zip(sizes.size, sizes.weight, strict=True):
            values = w / np.arange(1.0, n + 1)
            tilt = np.exp(theta * (values - values.max()))
            total += np.log((tilt * np.exp(1j * step * j * values)).sum() / tilt.sum())
        assert got[j] == pytest.approx(np.exp(total - 1j * step * j * 0.001), abs=1e-9)
