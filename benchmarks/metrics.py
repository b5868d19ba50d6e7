"""From arrays of ranks to the whole default table, beside NumPy's floors and PyKEEN's metrics.

    python benchmarks/metrics.py [--rows 10000000]

The floors are what any way must at least do: read the three columns once (sums), or count them
(`bincount`). PyKEEN runs the loop of its evaluator, every default metric on realistic ranks of one
side, on a million of the same rows; its time is scaled linearly to all rows.
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
    """Make ranks like those of a trained model: most are good, one in twenty ties, sizes differ.

    Sizes come from as many queries as FB15k-237 has, which makes some 1,200 distinct ones.
    """
    rng = np.random.default_rng(seed)
    known = np.minimum(rng.pareto(0.8, QUERIES) * 5.0, ENTITIES - 500).astype(np.int64)
    candidates = (ENTITIES - known)[rng.integers(0, QUERIES, rows)]
    better = ((candidates - 10) * rng.random(rows) ** 4).astype(np.int64)
    equal = np.where(rng.random(rows) < 0.05, rng.integers(1, 10, rows), 0)
    return better, equal, candidates


def peak_gb() -> float:
    """Give the most memory the process has held so far, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts kilobytes, macOS bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def pykeen_seconds(
    better: NDArray[np.int64], equal: NDArray[np.int64], candidates: NDArray[np.int64]
) -> tuple[float, int] | None:
    """Time PyKEEN's default metrics on these rows; None where PyKEEN is not installed."""
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

    # the table is evaluated from a tally it makes itself, so construction and table are the whole way
    whole = construct + table
    distinct = f"{len(counted.sizes):,} distinct sizes, {len(counted.ranks):,} distinct ranks"
    print(f"{rows:,} ranks, {evaluation.tie_rates[0]:.1%} tied; {distinct}\n")
    print(f"{'':34} {'s':>8} {'ns/rank':>8} {'x sums':>7} {'x counts':>8}")
    for name, seconds in (
        ("floor: sum of three columns", sums),
        ("floor: bincount of two columns", counts),
        ("Ranks(better, equal, candidates)", construct),
        ("ranks.tally()", tally),
        ("ranks.evaluate(), tally included", table),
        ("all: Ranks(...).evaluate()", whole),
    ):
        ratios = f"{seconds / sums:7.1f} {seconds / counts:8.1f}"
        print(f"{name:34} {seconds:8.3f} {seconds / rows * 1e9:8.1f} {ratios}")
    print(
        f"\npeak memory: {before:.2f} GB with the arrays made ({3 * better.nbytes / 1e9:.2f} GB of "
        f"columns), {held:.2f} GB after everything"
    )

    few = min(rows, PYKEEN_ROWS)
    theirs = pykeen_seconds(*(column[:few] for column in arrays))
    if theirs is None:
        print("PyKEEN is not installed: only our side is shown")
        return
    seconds, metrics = theirs
    scaled = seconds * rows / few
    print(
        f"PyKEEN: {metrics} values of {few:,} ranks in {seconds:.3f} s; scaled linearly, {scaled:.2f} s "
        f"for {rows:,}.\nOurs: {len(evaluation.expressions)} values (each with its band under ties) in "
        f"{whole:.2f} s, checks included: {scaled / whole:.1f} times as fast."
    )


if __name__ == "__main__":
    main()
