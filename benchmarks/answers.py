"""Queries with several answers: what their chance levels and their metrics cost.

    python benchmarks/answers.py [--queries 1000000]

Numbers of candidates are uniform on 200 to 100,000 and numbers of answers geometric with mean 10, so
that most queries have a shape of their own, which is the worst case: costs are per distinct shape. Times
are shown beside a lower bound from the same run: to find the distinct pairs (candidates, answers) with
NumPy once, and to add up a column of as many floats for each metric.

Metrics are computed from lists of 20 of 1,000 documents per query, one to ten of them relevant, beside
pytrec_eval and ranx if they are installed. They get their own objects ready made, of a sample of the
queries; their times are scaled to all queries, and their values must agree to 1e-9.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

import evenrank as er
from evenrank.integrations import topk
from evenrank.metrics.answers.shapes import Shapes

Lists: TypeAlias = dict[str, dict[str, Any]]

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


METRICS = {"map": "map", "ndcg@10": "ndcg_cut_10", "recall@10": "recall_10", "mrr": "recip_rank"}
METRICS["precision@10"] = "P_10"
LISTED, DOCUMENTS, SAMPLE = 20, 1_000, 20_000
LEAST_FACTOR = 10.0  # by which metrics from ranked answers are to be faster than those of peers


def values_of_lists(queries: int) -> None:
    """Time metrics from ranked answers, and from lists of documents, beside other libraries."""
    rng = np.random.default_rng(0)
    steps = rng.integers(1, DOCUMENTS // LISTED, (queries, LISTED))
    ids = rng.permuted(np.cumsum(steps, axis=1, dtype=np.int64), axis=1)
    # a relevant document is in the list or, as one in three, one that no list has
    many = rng.integers(1, 11, queries)
    picked = rng.random((queries, LISTED)).argpartition(10, axis=1)[:, :10]
    documents = np.take_along_axis(ids, picked, axis=1)
    documents = np.where(rng.random(documents.shape) < 1 / 3, DOCUMENTS + picked, documents)
    relevant = np.arange(10) < many[:, None]
    pairs = np.nonzero(relevant)[0], documents[relevant]

    ranking, rankings = best(lambda: topk.rankings(ids, pairs=pairs, unretrieved="never"), 2)
    metrics, result = best(lambda: rankings.evaluate(*METRICS))
    print(f"\n{', '.join(METRICS)} of {queries:,} queries, {LISTED} documents each")
    print(f"  {'evenrank, from ranked answers':40} {metrics:8.2f} s")
    print(f"  {'evenrank, from lists of documents':40} {ranking + metrics:8.2f} s")

    some = min(SAMPLE, queries)
    part = rankings[:some].evaluate(*METRICS)
    score = np.arange(LISTED, 0, -1.0).tolist()
    names = [f"d{i:04}" for i in range(DOCUMENTS + LISTED)]
    run = {
        f"q{i:07}": dict(zip([names[d] for d in row], score, strict=True))
        for i, row in enumerate(ids[:some].tolist())
    }
    judged = {
        f"q{i:07}": {names[d]: 1 for d in row[:m]}
        for i, (row, m) in enumerate(zip(documents[:some].tolist(), many.tolist(), strict=False))
    }
    for peer, times in (("pytrec_eval", _pytrec_eval), ("ranx", _ranx)):
        try:
            seconds, found = times(run, judged)
        except ImportError:
            print(f"  {peer} is not installed")
            continue
        for metric, value in found.items():
            assert abs(value - part[metric]) < 1e-9, (peer, metric, value, part[metric])
        scaled = seconds * queries / some
        note = f"measured on {some:,} queries" if some < queries else ""
        factors = f"{scaled / metrics:.0f} and {scaled / (ranking + metrics):.1f} times as long"
        print(f"  {peer:40} {scaled:8.2f} s   {factors}   {note}")
        if scaled / metrics < LEAST_FACTOR:
            print(f"  less than {LEAST_FACTOR:g} times as fast as {peer}")
    print(f"  {result}".replace("\n", "\n  "))


def _pytrec_eval(run: Lists, judged: Lists) -> tuple[float, dict[str, float]]:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(METRICS.values()))
    seconds, rows = best(lambda: evaluator.evaluate(run))
    found = {ours: np.mean([row[name] for row in rows.values()]) for ours, name in METRICS.items()}
    return seconds, found


def _ranx(run: Lists, judged: Lists) -> tuple[float, dict[str, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ranx

        lists, right = ranx.Run(run), ranx.Qrels(judged)
        ranx.evaluate(right, lists, list(METRICS))  # compiles
        seconds, found = best(lambda: ranx.evaluate(right, lists, list(METRICS)))
    return seconds, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, default=1_000_000)
    chosen = parser.parse_args()
    chance_levels(chosen.queries)
    cascades()
    values_of_lists(chosen.queries)


if __name__ == "__main__":
    main()
