"""Time from arrays of ranks to the default table, compared with NumPy lower bounds and with PyKEEN.

    python benchmarks/metrics.py [--rows 10000000]

The lower bounds are the least that any implementation must do: read the three columns once (sums), or
count them (`bincount`). PyKEEN evaluates all its default metrics of the realistic ranks of one side, as
its evaluator does, on a million of the same rows; its time is scaled linearly to all rows.
"""

from __future__ import annotations

import argparse
import resource
import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evenrank as er
from null import best

ENTITIES, QUERIES = 14_541, 40_932
PYKEEN_ROWS = 1_000_000


def example(rows: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Generate ranks like those of a trained model: most are good, one in twenty is tied.

    Numbers of candidates are drawn for as many queries as FB15k-237 has; about 1,200 are distinct.
    """
    rng = np.random.default_rng(seed)
    known = np.minimum(rng.pareto(0.8, QUERIES) * 5.0, ENTITIES - 500).astype(np.int64)
    candidates = (ENTITIES - known)[rng.integers(0, QUERIES, rows)]
    better = ((candidates - 10) * rng.random(rows) ** 4).astype(np.int64)
    equal = np.where(rng.random(rows) < 0.05, rng.integers(1, 10, rows), 0)
    return better, equal, candidates


def peak_gb() -> float:
    """Return the peak memory of the process so far, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts kilobytes, macOS bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def pykeen_seconds(
    better: NDArray[np.int64], equal: NDArray[np.int64], candidates: NDArray[np.int64]
) -> tuple[float, int] | None:
    """Time PyKEEN's default metrics on these rows; None if PyKEEN is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pykeen: Any = import_module("pykeen.evaluation.rank_based_evaluator")
        except ImportError:
            return None
    metrics = pykeen.RankBasedEvaluator().metrics
    pack = pykeen.RankPack("both", "realistic", better + 1 + equal / 2, candidates, None)
    seconds, _ = best(lambda: pykeen.RankBasedMetricResults.from_ranks(metrics, [pack]))
    return seconds, len(metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    arrays = example(rows)
    better, _, candidates = arrays
    before = peak_gb()

    sums, _ = best(lambda: [column.sum() for column in arrays])
    counts, _ = best(lambda: (np.bincount(better), np.bincount(candidates)))
    construct, ranks = best(lambda: er.Ranks(*arrays))
    tally, counted = best(ranks.tally)
    table, evaluation = best(ranks.evaluate)
    held = peak_gb()

    # evaluate() makes its own tally, so construction and table are all the work
    whole = construct + table
    distinct = (
        f"{len(counted.sizes):,} distinct numbers of candidates, {len(counted.ranks):,} distinct ranks"
    )
    print(f"{rows:,} ranks, {evaluation.tie_rates[0]:.1%} tied; {distinct}\n")
    print(f"{'':34} {'s':>8} {'ns/rank':>8} {'x sums':>7} {'x counts':>8}")
    for name, seconds in (
        ("bound: sum of three columns", sums),
        ("bound: bincount of two columns", counts),
        ("Ranks(better, equal, candidates)", construct),
        ("ranks.tally()", tally),
        ("ranks.evaluate(), tally included", table),
        ("total: Ranks(...).evaluate()", whole),
    ):
        ratios = f"{seconds / sums:7.1f} {seconds / counts:8.1f}"
        print(f"{name:34} {seconds:8.3f} {seconds / rows * 1e9:8.1f} {ratios}")
    print(
        f"\npeak memory: {before:.2f} GB with the input arrays ({3 * better.nbytes / 1e9:.2f} GB), "
        f"{held:.2f} GB at the end"
    )

    few = min(rows, PYKEEN_ROWS)
    theirs = pykeen_seconds(*(column[:few] for column in arrays))
    if theirs is None:
        print("PyKEEN is not installed: only evenrank is measured")
        return
    seconds, metrics = theirs
    scaled = seconds * rows / few
    print(
        f"PyKEEN: {metrics} values of {few:,} ranks in {seconds:.3f} s; scaled linearly, {scaled:.2f} s "
        f"for {rows:,}.\nOurs: {len(evaluation.expressions)} values (each with bounds under ties) in "
        f"{whole:.2f} s, validation included: {scaled / whole:.1f} times as fast."
    )


if __name__ == "__main__":
    main()
