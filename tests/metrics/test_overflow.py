"""Weights and counts that cannot be added are errors; those at the limits give the right numbers."""

import numpy as np
import polars as pl
import pytest

import evenrank as er
from evenrank._internal.columns import HEAVIEST
from evenrank.errors import InputError
from evenrank.metrics.tally import Histogram, Tally

METRICS = (
    "mrr",
    "mr",
    "gmr",
    "hits@3",
    "median",
    "quantile(0.9)",
    "std",
    "index(mrr)",
    "z(mrr)",
    "z(hits@10)",
)
RANKS = np.random.default_rng(0).integers(1, 50, 300)
WEIGHTS = np.random.default_rng(1).exponential(size=300) + 0.1


@pytest.mark.parametrize(
    "scale", [2.0**160, 2.0**-160, HEAVIEST / WEIGHTS.max(), 1 / HEAVIEST / WEIGHTS.max() * 1.1]
)
def test_metrics_and_their_chance_levels_do_not_depend_on_the_scale_of_weights(scale):
    one, other = (er.Ranks.of(RANKS, 50, weights=w) for w in (WEIGHTS, WEIGHTS * scale))
    assert other.evaluate(*METRICS).to_dict() == pytest.approx(
        one.evaluate(*METRICS).to_dict(), rel=1e-9
    )
    for metric in ("mrr", "hits@3"):
        nulls = [er.chance(metric, np.full(300, 50), weights=w) for w in (WEIGHTS, WEIGHTS * scale)]
        found = [[null.mean(), null.std(), null.sf(0.12), null.logsf(0.15)] for null in nulls]
        assert found[1] == pytest.approx(found[0], rel=1e-9)
    first, second = (er.intervals(ranks, "mrr", unit="target") for ranks in (one, other))
    assert str(first) == str(second)


@pytest.mark.parametrize("largest", [1e308, 1.7e308, 2e50, 1e-51, 5e-324])
def test_weights_that_cannot_be_added_are_refused(largest, tmp_path):
    size = "large" if largest > 1 else "small"
    message = (
        f"weights are too {size} to be added; got a largest weight of .*; divide them by their largest"
    )
    calls = [
        lambda: er.Ranks.of([1, 2, 3], weights=[largest, largest, largest / 2]),
        lambda: er.Ranks.of([1, 2, 3]).with_weights([largest, 0, 0]),
        lambda: er.chance("mrr", [3, 4], weights=[largest, largest]),
        lambda: Tally.of([0, 1], [0, 0], weights=[largest, largest]),
    ]
    frame = pl.DataFrame(
        {"better": [0, 1], "equal": [0, 0], "candidates": [9, 9], "weight": [largest] * 2}
    )
    frame.write_parquet(tmp_path / "r.parquet")
    frame.write_csv(tmp_path / "r.csv")
    for name in ("r.parquet", "r.csv"):
        calls += [
            lambda name=name: er.Ranks.load(tmp_path / name),
            lambda name=name: er.stream(tmp_path / name),
        ]
    for call in calls:
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_tiny_weights_beside_others_are_fine():
    weights = np.array([1.0, 1e-300, 5e-324, 2.0])
    ranks = er.Ranks.of([1, 5, 7, 2], 9, weights=weights)
    assert ranks.evaluate("mr")["mr"] == (1 + 2 * 2) / 3
    assert ranks.evaluate("median")["median"] == 2


BIG = 2**52


def test_counts_are_exact_up_to_the_limit_and_refused_above():
    once = Histogram.of([BIG], size=[3])
    assert (once + once).total == 2**53
    assert er.chance("mr", {3: 2**53}).mean() == 2
    for call in (
        lambda: once + once + Histogram.of([1], size=[3]),
        lambda: Histogram.of([2**62, 2**62], size=[3, 3]),
        lambda: Histogram.of([2**62, 2**62, 2**62, 2**62], size=[3, 4, 5, 6]),
        lambda: Histogram.of(np.array([2**64 - 1], dtype=np.uint64), size=[3]),
        lambda: Histogram.of([-1, 2], size=[3, 3]),
        lambda: Histogram.of([1.5], size=[3]),
        lambda: er.chance("mr", {3: 2**53, 4: 1}),
        lambda: er.chance("mr", [3, 4], counts=[2**62, 2**62]),
        lambda: Tally(once, once) + Tally(once, once) + Tally(once, once),
    ):
        with pytest.raises(InputError, match=r"impossible number of targets|^counts must be") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_counts_are_added_as_whole_numbers():
    """Against Python's integers."""
    counts = [int(n) for n in np.random.default_rng(2).integers(0, 2**40, 999)]
    sizes = np.random.default_rng(3).integers(0, 7, 999)
    found = Histogram.of(counts, size=sizes)
    wanted = {
        int(size): sum(n for n, s in zip(counts, sizes, strict=True) if s == size) for size in {*sizes}
    }
    assert dict(zip(found["size"].tolist(), found.counts.tolist(), strict=True)) == wanted
