"""Queries with several answers: what their chance levels cost.

    python benchmarks/answers.py [--queries 1000000]

Numbers of candidates are uniform on 200 to 100,000 and numbers of answers geometric with mean 10, so
that most queries have a shape of their own, which is the worst case: costs are per distinct shape. Times
are shown beside a lower bound from the same run: to find the distinct pairs (candidates, answers) with
NumPy once, and to add up a column of as many floats for each metric.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import evenrank as er
from evenrank.metrics.answers.shapes import Shapes

BINARY = (
    *("map", "map@10", "mrr", "mrr@10", "success@10", "precision@10", "recall@20", "r_precision"),
    *("ndcg_bin@10", "rbp(0.8)", "auc"),
)
GRADED = ("ndcg", "ndcg@10", "ndcg_exp@10")
MOST_SECONDS = 2.0  # of all metrics of binary gains, on one core of an idle machine


def best(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Time a function; return the least seconds and its result."""
    seconds = []
    for _ in range(times):
        start = perf_counter()
        result = work()
        seconds.append(perf_counter() - start)
    return min(seconds), result


def chance_levels(queries: int) -> None:
    """Time mean and variance of metrics under random ranking."""
    rng = np.random.default_rng(0)
    answers = np.minimum(rng.geometric(0.1, queries), 100)
    candidates = rng.integers(200, 100_000, queries)
    first = np.concatenate([[0], np.cumsum(answers)])
    gain = rng.integers(1, 5, first[-1]).astype(float)

    pairs, distinct = best(lambda: np.unique(candidates * 128 + answers, return_counts=True)[0])
    column = distinct.astype(float)
    read, _ = best(column.sum)
    print(f"{queries:,} queries, {len(distinct):,} distinct pairs (candidates, answers)")
    print(f"lower bound: {pairs:.3f} s to find the pairs, {read * 1e3:.2f} ms per metric to read them")
    for name, metrics, gains in (("binary", BINARY, None), ("graded", GRADED, gain)):
        counted, shapes = best(lambda gains=gains: Shapes.of(candidates, first, gains))
        print(f"\n{name} gains: {len(shapes):,} distinct shapes, counted in {counted:.3f} s")
        total = 0.0
        for metric in metrics:
            seconds, moments = best(lambda metric=metric, of=shapes: _moments(metric, of))
            total += seconds
            print(f"  {metric:14} {seconds:7.3f} s   mean {moments[0]:.6g}   std {moments[1]:.3g}")
        least = pairs + len(metrics) * read
        print(f"  all            {total:7.3f} s   {total / least:.0f} times the lower bound")
        if gains is None and total > MOST_SECONDS:
            print(f"  slower than the {MOST_SECONDS:g} s of an idle machine")


def _moments(metric: str, shapes: Shapes) -> tuple[float, float]:
    null = er.chance(metric, shapes)
    return float(null.mean()), float(null.std())


def cascades() -> None:
    """Time the expected reciprocal rank, whose recursions take a step per position."""
    print("\nerr, per distinct pair of (candidates, answers)")
    for metric, size, answers in (
        ("err@20", 1_000_000, 20),
        ("err", 1000, 10),
        ("err", 10_000, 100),
        ("err", 100_000, 10),
    ):
        shapes = Shapes.of_counts(size, answers)
        seconds, _ = best(lambda metric=metric, of=shapes: _moments(metric, of), times=1)
        print(f"  {metric:7} {size:9,} candidates, {answers:3} answers: {seconds * 1e3:8.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, default=1_000_000)
    chosen = parser.parse_args()
    chance_levels(chosen.queries)
    cascades()


if __name__ == "__main__":
    main()
