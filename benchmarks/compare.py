"""Confidence intervals and paired tests: coverage, false positive rate, and time of 10,000 samples.

    python benchmarks/compare.py [--quick]

Speed: at the size of FB15k-237, compared with a bootstrap that copies the resampled ranks (the baseline
to beat) and with scipy.stats; both are run with fewer samples and scaled.

Coverage: test sets are drawn from a heavy-tailed distribution of ranks like that of a trained model
(`P(r) ~ (r + 1/2)^-1.25` on 1..14,541) with known MRR and hits@10; reported is how often a 95 % interval
contains them. Fewer than 200 targets, and mean ranks, are reported without a target.

Rejection: two models that are equally good by construction are compared; a test at 5 % should find a
significant difference in 5 % of the cases. The differences of both sides of a triple are correlated, as
for real models, so that flipping sides independently rejects too often.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import evenrank as er
from null import best
from rank import verdict

ENTITIES, TRIPLES = 14_541, 20_466
METRICS = ("mrr", "hits@10")
METHODS = ("delta", "percentile", "bootstrap")
LOW, HIGH = 0.93, 0.97
REJECTED = 0.05, 0.01
ENOUGH = 1000  # with fewer test sets, a share is not compared with its target
SAMPLES = 10_000
MOST_S, LEAST_RATIO = 10.0, 2.0


# Coverage -----------------------------------------------------------------------------------------

RANKS = np.arange(1, ENTITIES + 1)
PROBABILITY = (RANKS + 0.5) ** -1.25
PROBABILITY /= PROBABILITY.sum()
TRUTH = {
    "mrr": float(PROBABILITY @ (1 / RANKS)),
    "hits@10": float(PROBABILITY[:10].sum()),
    "mr": float(PROBABILITY @ RANKS),
}


def cover(n: int, method: str, metrics: tuple[str, ...], times: int) -> dict[str, float]:
    """Estimate the coverage of intervals."""
    rng, cumulated = np.random.default_rng(n), np.cumsum(PROBABILITY)
    hits = dict.fromkeys(metrics, 0)
    for seed in range(times):
        rank = np.minimum(np.searchsorted(cumulated, rng.random(n)), ENTITIES - 1) + 1
        ranks = er.Ranks.of(rank, candidates=ENTITIES)
        made = er.intervals(ranks, *metrics, method=method, samples=1000, seed=seed)
        for metric in metrics:
            hits[metric] += made[metric].low <= TRUTH[metric] <= made[metric].high
    return {metric: count / times for metric, count in hits.items()}


def judged(holds: bool, times: int) -> str:
    return verdict(holds) if times >= ENOUGH else "?"


def coverage(times: int) -> None:
    print("coverage of 95 % intervals, truth " + ", ".join(f"{k} {v:.4g}" for k, v in TRUTH.items()))
    print(f"{times:,} test sets each: a share is known to +- {196 * sqrt(0.05 * 0.95 / times):.1f} %\n")
    print(f"{'targets':>7}  {'method':10}  {'mrr':>6} {'':16}  {'hits@10':>7} {'':16}  {'mr':>6}")
    for n in (20, 200, 2000):
        for method in METHODS:
            shares = cover(n, method, (*METRICS, "mr"), times)
            cells = []
            for metric in METRICS:
                share = shares[metric]
                goal = "" if n < 200 else f"93 to 97 {judged(LOW <= share <= HIGH, times)}"
                cells.append(f"{share:6.1%} {goal:16}")
            print(f"{n:7,}  {method:10}  {'  '.join(cells)}  {shares['mr']:6.1%}")
    print("mean ranks: rare large ranks dominate, and intervals of samples without them are too short")


# Rejection under the null -------------------------------------------------------------------------


def equal_models(triples: int, rng: np.random.Generator) -> Iterator[er.Ranks]:
    """Generate ranks of two equally good models; both sides of a triple share part of the noise."""
    hard = np.repeat(rng.normal(2.0, 1.8, triples), 2)
    name = np.repeat(np.arange(triples), 2)
    keys = {"head": name, "relation": 0, "tail": name, "side": np.tile([0, 1], triples)}
    for _ in range(2):
        own = np.repeat(rng.normal(0, 1.0, triples), 2) + rng.normal(0, 0.7, 2 * triples)
        better = np.minimum(np.exp(hard + own), ENTITIES - 1).astype(np.int64)
        yield er.Ranks(better, 0, ENTITIES, keys=keys)


def rejection(times: int) -> None:
    share, slack = REJECTED
    error = 196 * sqrt(0.05 * 0.95 / times)
    print(f"\nequal models, significant at 5 %, of {times:,} pairs (known to +- {error:.1f} %)\n")
    print(f"{'triples':>7}  {'test':12} {'unit':7} {'metric':10} {'rejected':>8}")
    for triples, test, unit, metric in (
        (200, "permutation", "triple", "mrr"),
        (200, "permutation", "triple", "hits@10"),
        (2000, "permutation", "triple", "hits@10"),
        (200, "permutation", "triple", "gmr"),
        (200, "t", "triple", "mrr"),
        (200, "wilcoxon", "triple", "mrr"),
        (20, "permutation", "triple", "mrr"),
        (200, "permutation", "target", "mrr"),
    ):
        rng, count = np.random.default_rng(triples), 0
        for seed in range(times):
            one, other = equal_models(triples, rng)
            options: dict[str, Any] = {"metrics": metric, "test": test, "unit": unit}
            result = er.compare(a=one, b=other, samples=999, seed=seed, **options)
            count += result.pairs[0].p <= share
        got = count / times
        goal = f"5 +- 1 {judged(abs(got - share) <= slack, times)}"
        words = goal if unit == "triple" else "(sides flipped independently)"
        print(f"{triples:7,}  {test:12} {unit:7} {metric:10} {got:8.2%} {words}")
    print("a sum of few hits has few distinct values, and an exact test is then conservative")


# Speed --------------------------------------------------------------------------------------------


def example(seed: int) -> er.Ranks:
    """Draw ranks like those of a trained model, with the numbers of candidates of FB15k-237."""
    rng = np.random.default_rng(seed)
    sizes = er.atlas("fb15k237")
    candidates = np.repeat(sizes["candidates"], sizes.counts)
    better = np.minimum(np.exp(rng.normal(2.5, 2.6, len(candidates))), candidates - 1).astype(np.int64)
    name = np.arange(len(candidates)) // 2
    keys = {"head": name, "relation": 0, "tail": name, "side": np.arange(len(candidates)) % 2}
    return er.Ranks(better, 0, candidates, keys=keys)


def copied(rank: NDArray[np.float64], samples: int) -> list[tuple[float, float]]:
    """Compute a naive bootstrap: copy the resampled ranks, and evaluate them."""
    rng, n = np.random.default_rng(0), len(rank)
    made = []
    for _ in range(samples):
        again = rank[rng.integers(0, n, n)]
        made.append((float((1 / again).mean()), float((again <= 10).mean())))
    return made


def flipped(d: NDArray[np.float64], samples: int) -> list[float]:
    """Compute a naive permutation test: a row of signs for every sample."""
    rng = np.random.default_rng(0)
    return [float((rng.choice([-1.0, 1.0], len(d)) * d).mean()) for _ in range(samples)]


def timed(work: Callable[[], Any]) -> float:
    return best(work, times=3)[0]


def line(name: str, seconds: float, ours: float | None = None) -> None:
    if ours is None:
        print(f"{name:48} {seconds:8.2f} s   <= {MOST_S:g} {verdict(seconds <= MOST_S)}")
    else:
        ratio = seconds / ours
        print(f"{name:48} {seconds:8.2f} s   x {ratio:5.1f} of ours, >= {LEAST_RATIO:g} "
              f"{verdict(ratio >= LEAST_RATIO)}")  # fmt: skip


def speed(few: int) -> None:
    one, other = example(1), example(2)
    rank = one.better + 1.0
    scale = SAMPLES / few
    print(
        f"\n{SAMPLES:,} samples at FB15k-237's size: {len(one):,} targets of {TRIPLES:,} triples, ",
        end="",
    )
    print(f"{len(one.tally().ranks):,} distinct ranks; mrr and hits@10\n")
    for unit in ("target", "triple"):
        ours = {
            method: best(
                lambda m=method, unit=unit: er.intervals(one, *METRICS, method=m, unit=unit), times=2
            )[0]
            for method in METHODS
        }
        for method, seconds in ours.items():
            line(f"{method}, by {unit}", seconds)
        if unit == "target":
            naive = timed(lambda: copied(rank, few)) * scale
            line("copy and index, percentiles (scaled)", naive, ours["percentile"])
            theirs = sum(
                timed(
                    lambda x=x: stats.bootstrap(
                        (x,), np.mean, n_resamples=few, batch=50, method="percentile"
                    )
                )
                for x in (1 / rank, (rank <= 10).astype(float))
            )
            line("scipy.stats.bootstrap, percentiles (scaled)", theirs * scale, ours["percentile"])
    d = (1 / rank - 1 / (other.better + 1.0)).reshape(-1, 2).sum(axis=1)
    ours_s = timed(lambda: er.compare(one=one, other=other))
    line("compare: sign flips by triple, mrr", ours_s)
    line("a row of signs per sample (scaled)", timed(lambda: flipped(d, few)) * scale, ours_s)
    theirs = timed(
        lambda: stats.permutation_test(
            (d,), np.mean, permutation_type="samples", n_resamples=few, batch=50, vectorized=True
        )
    )
    line("scipy.stats.permutation_test (scaled)", theirs * scale, ours_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer test sets: rough shares, in seconds")
    quick = parser.parse_args().quick
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    print(f"evenrank {er.__version__}, {packages}; load {os.getloadavg()[0]:.1f}\n")
    speed(few=50 if quick else 200)
    print()
    coverage(times=100 if quick else 2000)
    rejection(times=100 if quick else 4000)


if __name__ == "__main__":
    main()
