"""Null distributions compared with PyKEEN's: mean and variance of every metric at the size of FB15k-237.

    python benchmarks/null.py [--data FOLDER] [--samples 1000]

Without `--data`, numbers of candidates are drawn from a heavy-tailed distribution with a fixed seed;
with a folder of FB15k-237's train.txt.gz, valid.txt.gz and test.txt.gz, they are those of filtered
ranking.

Both libraries get the same array of numbers of candidates, one per task. Times are warm, the best of
five with new objects; metrics that PyKEEN can only sample are timed once. Its `expected_value` and
`variance` each draw their own sample; the ratio if both were computed from one sample is shown as well.

Errors: PyKEEN's are its deviations from our values. Ours are measured in two ways that are independent
of the formulas: against enumeration of all outcomes of six small tasks, and at full size against a
sample, in standard errors of that sample.
"""

from __future__ import annotations

import argparse
import gzip
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import evenrank as er

ENTITIES, TASKS = 14_541, 40_932
FEW = [2, 3, 5, 7, 11, 13]
METRICS = (
    *("mr", "mrr", "gmr", "igmr", "hmr", "imr", "hits@1", "hits@3", "hits@10"),
    *("mean(2)", "1/mean(2)", "ndcg", "min", "max"),
)
MOST_MS, LEAST_RATIO, MOST_MEDIAN_S = 50.0, 50.0, 2.0

Moments = tuple[float, float]
Sizes = NDArray[np.int64]


def drawn_sizes() -> Sizes:
    """Subtract a heavy-tailed number of other known answers from the number of entities."""
    known = np.random.default_rng(0).pareto(0.8, TASKS) * 5.0
    return ENTITIES - np.minimum(known, ENTITIES - 500).astype(np.int64)


def true_sizes(folder: Path) -> Sizes:
    """Count all entities but the other known answers, for both sides of every test triple."""
    entities: set[str] = set()
    triples: set[tuple[str, ...]] = set()
    for split in ("train", "valid", "test"):
        with gzip.open(folder / f"{split}.txt.gz", "rt", encoding="utf-8") as lines:
            part = [tuple(line.rstrip("\n").split("\t")) for line in lines]
        triples.update(part)
        entities.update(*zip(*((head, tail) for head, _, tail in part), strict=True))
    tails = Counter((head, relation) for head, relation, _ in triples)
    heads = Counter((relation, tail) for _, relation, tail in triples)
    known = [n for h, r, t in part for n in (tails[h, r], heads[r, t])]
    return len(entities) - np.array(known) + 1


def best(work: Callable[[], Any], times: int = 5) -> tuple[float, Any]:
    """Time a function; return the least seconds and its result."""
    seconds = []
    for _ in range(times):
        start = perf_counter()
        result = work()
        seconds.append(perf_counter() - start)
    return min(seconds), result


def ours(metric: str, sizes: Sizes) -> tuple[float, Moments]:
    def work() -> Moments:
        null = er.chance(metric, sizes)
        return float(null.mean()), float(null.var())

    return best(work)


def load_pykeen() -> Any | None:
    """Import PyKEEN's ranking metrics; None if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return import_module("pykeen.metrics.ranking")
        except ImportError:
            return None


def their_metric(pykeen: Any | None, name: str) -> Any | None:
    """Return PyKEEN's metric of our name, or None if it has none."""
    if pykeen is None:
        return None
    if name.startswith("hits@"):
        return pykeen.HitsAtK(k=int(name.removeprefix("hits@")))
    # PyKEEN's resolver knows iamr but not imr
    classes = {"imr": "InverseArithmeticMeanRank", "median": "MedianRank"}
    resolver = pykeen.rank_based_metric_resolver
    try:
        return resolver.make(classes.get(name, name))
    except KeyError:
        return None


class Theirs(NamedTuple):
    seconds: float
    one_sample: float  # seconds if mean and variance were computed from one sample
    moments: Moments
    way: str


def theirs(metric: Any, sizes: Sizes, samples: int) -> Theirs:
    """Time PyKEEN's own functions: closed forms if it has both, otherwise sampling."""
    if metric.closed_expectation and metric.closed_variance:
        seconds, moments = best(lambda: (metric.expected_value(sizes), metric.variance(sizes)))
        return Theirs(seconds, seconds, moments, "formula")
    drawn = {"num_samples": samples, "generator": np.random.default_rng(0)}
    first, mean = best(lambda: metric.expected_value(sizes, **drawn), times=1)
    second, variance = best(lambda: metric.variance(sizes, **drawn), times=1)
    return Theirs(first + second, first, (mean, variance), "sampled")


def listing_error(metric: str) -> float:
    """Return our relative error against enumeration of all outcomes of a few small tasks."""
    exact, listed = er.chance(metric, FEW), er.chance(metric, FEW, method="enumerate")
    return max(abs(exact.mean() / listed.mean() - 1), abs(exact.var() / listed.var() - 1))


def standard_errors(metric: str, moments: Moments, sizes: Sizes, samples: int) -> Moments:
    """Return our deviations from a sample's mean and variance, in its standard errors."""
    null = er.chance(metric, sizes, method="sample", samples=samples, seed=1)
    pairs = zip(moments, (null.mean(), null.var()), strict=True)
    first, second = ((exact - drawn) / (drawn.error or np.inf) for exact, drawn in pairs)
    return first, second


def off(value: float, truth: float) -> str:
    return f"{abs(value / truth - 1):.0e}"


def verdict(holds: bool) -> str:
    return "yes" if holds else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with FB15k-237's {train,valid,test}.txt.gz")
    parser.add_argument("--samples", type=int, default=1_000, help="number of samples of PyKEEN")
    parser.add_argument(
        "--checks", type=int, default=200, help="number of samples to check our values with"
    )
    options = parser.parse_args()
    sizes = true_sizes(options.data) if options.data else drawn_sizes()
    pykeen = load_pykeen()
    print(
        f"{len(sizes):,} tasks, {len(np.unique(sizes)):,} distinct numbers of candidates, "
        f"{sizes.min():,} to {sizes.max():,} candidates ({'FB15k-237' if options.data else 'drawn'})"
    )
    if pykeen is None:
        print("PyKEEN is not installed: only evenrank is measured")
    print(
        f"\n{'':10} {'evenrank':>9} {'PyKEEN':>9} {'':8} {'':>7}   {'PyKEEN error':15}   "
        f"{'evenrank error':>15}\n"
        f"{'metric':10} {'ms':>9} {'ms':>9} {'method':8} {'ratio':>7}   {'mean':>7} {'var':>7}   "
        f"{'enum.':>7} {'mean':>6} {'var':>6} s.e."
    )
    slowest = our_total = their_total = one_sample_total = 0.0
    for name in METRICS:
        seconds, moments = ours(name, sizes)
        slowest = max(slowest, seconds)
        cells = f"{'-':>9} {'-':8} {'-':>7}   {'-':>7} {'-':>7}"
        metric = their_metric(pykeen, name)
        if metric is not None:
            other = theirs(metric, sizes, options.samples)
            our_total += seconds
            their_total += other.seconds
            one_sample_total += other.one_sample
            offs = [off(*pair) for pair in zip(other.moments, moments, strict=True)]
            cells = (
                f"{other.seconds * 1e3:9.2f} {other.way:8} {other.seconds / seconds:7.1f}   "
                f"{offs[0]:>7} {offs[1]:>7}"
            )
        errors = standard_errors(name, moments, sizes, options.checks)
        print(
            f"{name:10} {seconds * 1e3:9.2f} {cells}   {listing_error(name):7.0e} "
            f"{errors[0]:+6.1f} {errors[1]:+6.1f}",
            flush=True,
        )
    ratio, one_sample_ratio = (
        t / our_total if our_total else 0.0 for t in (their_total, one_sample_total)
    )
    if pykeen is not None:
        print(f"{'in both':10} {our_total * 1e3:9.2f} {their_total * 1e3:9.2f} {'':8} {ratio:7.1f}")

    seconds, moments = ours("median", sizes)
    errors = standard_errors("median", moments, sizes, options.checks)
    print(
        f"\n{'median':10} {seconds * 1e3:9.2f} {'':42}   {listing_error('median'):7.0e} "
        f"{errors[0]:+6.1f} {errors[1]:+6.1f}"
    )
    metric = their_metric(pykeen, "median")
    if metric is not None:
        few = 20
        drawn = theirs(metric, sizes, few).seconds
        scaled = drawn * options.samples / few
        print(
            f"PyKEEN has no closed form for the median, so no exact value to compare.\n"
            f"{few} samples took {drawn * 1e3:.0f} ms; scaled linearly, {options.samples:,} take "
            f"{scaled:.1f} s ({scaled / seconds:.0f} times ours), for a variance with an error of "
            f"{np.sqrt(2 / options.samples):.0%}."
        )

    fast = slowest * 1e3 <= MOST_MS
    print(f"\neach non-median metric <= {MOST_MS:g} ms: {verdict(fast)} (max {slowest * 1e3:.1f} ms)")
    faster = (
        "not measured (PyKEEN is not installed)"
        if pykeen is None
        else f"{verdict(ratio >= LEAST_RATIO)} ({ratio:.0f}x; "
        f"{one_sample_ratio:.0f}x with one sample for both moments)"
    )
    print(f"total >= {LEAST_RATIO:g}x PyKEEN: {faster}")
    print(f"median <= {MOST_MEDIAN_S:g} s: {verdict(seconds <= MOST_MEDIAN_S)} ({seconds:.3f} s)")


if __name__ == "__main__":
    main()
