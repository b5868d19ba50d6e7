"""Confidence intervals and paired tests: coverage, false positive rate, and time of 10,000 samples.

    python benchmarks/compare.py [--quick]

Speed: at the size of FB15k-237, compared with a bootstrap that copies the resampled ranks (the baseline
to beat) and with scipy.stats; both are run with fewer samples and scaled.

Coverage: test sets are drawn from a heavy-tailed distribution of ranks like that of a trained model
(`P(r) ~ (r + 1/2)^-1.25` on 1..14,541) with known MRR and hits@10; reported is how often a 95 % interval
contains them. Fewer than 200 targets, and mean ranks, are reported without a target.

Dependence: the same for triples that share queries, whose answers are correlated, with 30 to 400 queries
of equal or of very different sizes. Proportions: hits@10 near 0 and 1, also of clusters.

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
SHARES = (0.002, 0.01, 0.05, 0.2, 0.5, 0.9, 0.99, 0.998)  # of hits
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


def population(queries: int = 100_000) -> er.Rankings:
    """Generate queries whose numbers of answers and difficulty vary widely."""
    rng = np.random.default_rng(2)
    count = np.minimum(rng.geometric(0.3, queries), 12)
    skill = rng.gamma(1.0, 1.0, queries)
    positions = []
    for m, s in zip(count.tolist(), skill.tolist(), strict=True):
        place = np.unique(np.floor(200 * rng.random(3 * m) ** (1 + 2 * s)).astype(int) + 1)
        positions.append(np.sort(rng.permutation(place)[:m]))
    return er.Rankings.of(positions, candidates=200)


def of_queries(times: int) -> None:
    """Estimate the coverage of intervals of metrics of several answers, per query."""
    whole, metrics = population(), ("map", "ndcg@10", "recall@10", "success@10")
    truth = {metric: float(whole.values(metric).mean()) for metric in metrics}
    print(f"\ncoverage for queries with several answers, {times:,} test sets each; truth", end=" ")
    print(", ".join(f"{k} {v:.4g}" for k, v in truth.items()), end="\n\n")
    print(f"{'queries':>7}  {'method':10}  {'  '.join(f'{m:23}' for m in metrics)}")
    for n in (20, 200, 2000):
        for method in METHODS:
            rng, hits = np.random.default_rng(n), dict.fromkeys(metrics, 0)
            for seed in range(times):
                part = whole[rng.integers(0, len(whole), n)]
                made = er.intervals(part, *metrics, method=method, samples=1000, seed=seed)
                for metric in metrics:
                    hits[metric] += made[metric].low <= truth[metric] <= made[metric].high
            cells = []
            for metric in metrics:
                share = hits[metric] / times
                goal = "" if n < 200 else f"93 to 97 {judged(LOW <= share <= HIGH, times)}"
                cells.append(f"{share:6.1%} {goal:16}")
            print(f"{n:7,}  {method:10}  {'  '.join(cells)}".rstrip())


# Dependence ---------------------------------------------------------------------------------------


def answered(
    triples: int, queries: int, skew: float, rng: np.random.Generator
) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Generate triples that share heads and tails: keys, and the query of each target."""
    share = 1.0 / np.arange(1, queries // 2 + 1) ** skew
    ends = rng.choice(queries // 2, (2, triples), p=share / share.sum())
    head, tail = np.repeat(ends, 2, axis=1)
    side = np.tile(["tail", "head"], triples)
    # numbered by triple in the entity that is not part of a query, so that no triple occurs twice
    keys = {
        "head": head,
        "relation": 0,
        "tail": tail,
        "side": side,
        "triple": np.arange(2 * triples) // 2,
    }
    return keys, np.where(side == "tail", head, queries // 2 + tail)


def hardness(query: NDArray[np.int64], by_query: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Generate the logarithms of ranks: effects of the query, of the triple, and of the target."""
    of_query = rng.normal(0, by_query, query.max() + 1)[query]
    return (
        1.5 + of_query + np.repeat(rng.normal(0, 0.8, len(query) // 2), 2) + rng.normal(0, 1, len(query))
    )


def ranked(log_rank: NDArray[np.float64], keys: dict[str, Any]) -> er.Ranks:
    better = np.minimum(np.exp(np.minimum(log_rank, 10.0)), ENTITIES - 1).astype(np.int64)
    return er.Ranks(better, 0, ENTITIES, keys=keys)


def dependence(times: int) -> None:
    print(f"\ncoverage if triples share queries, {times:,} test sets each\n")
    print(
        f"{'triples':>7} {'queries':>7} {'sizes':8} {'method':10} {'unit':22}  {'mrr':>6} {'hits@10':>8}"
    )
    cases = [
        (300, 150, 0.0, "delta", None), (300, 150, 0.0, "delta", "triple"),
        (300, 150, 0.0, "bootstrap", None), (300, 150, 0.0, "delta", "query"),
        (100, 30, 0.0, "delta", None), (1000, 400, 0.0, "delta", None), (1000, 400, 0.7, "delta", None),
        (1000, 400, 0.7, "delta", "triple"), (1000, 2_000_000, 0.0, "delta", "triple+query"),
    ]  # fmt: skip
    for triples, queries, skew, method, unit in cases:
        by_query = 1.0
        spread = np.sqrt(by_query**2 + 0.8**2 + 1.0)
        log_rank = 1.5 + spread * stats.norm.ppf((np.arange(2_000_000) + 0.5) / 2_000_000)
        truth = ranked(log_rank, {}).evaluate(*METRICS).to_dict()
        rng, hits, name = np.random.default_rng(triples), dict.fromkeys(METRICS, 0), ""
        for seed in range(times):
            keys, query = answered(triples, queries, skew, rng)
            ranks = ranked(hardness(query, by_query, rng), keys)
            made = er.intervals(ranks, *METRICS, method=method, unit=unit, samples=1000, seed=seed)
            name = made.unit
            for metric in METRICS:
                hits[metric] += made[metric].low <= truth[metric] <= made[metric].high
        words = f"{name}{' (default)' * (unit is None)}"
        good = all(LOW <= hits[metric] / times <= HIGH for metric in METRICS)
        goal = f"93 to 97 {judged(good, times)}" if unit in (None, "triple+query") else ""
        sizes = "unequal" if skew else "equal"
        shares = "  ".join(f"{hits[metric] / times:6.1%}" for metric in METRICS)
        print(
            f"{triples:7,} {queries:7,} {sizes:8} {method:10} {words:22}  {shares}  {goal}", flush=True
        )


def proportions(times: int) -> None:
    print(f"\ncoverage of hits@10, by its true value: 93 % or more, {times:,} test sets each\n")
    print(f"{'targets':>7} {'clusters':>8}  " + "  ".join(f"{p:>8.1%}" for p in SHARES))
    for n, size in ((100, 1), (500, 1), (500, 5)):
        cells = []
        for share in SHARES:
            rng, held = np.random.default_rng(n), 0
            for _ in range(times):
                own = rng.random(n) < 0.5  # half of a cluster's targets copy its first one
                each = rng.random((n // size, size)) < share
                hit = np.where(own, each.ravel(), np.repeat(each[:, 0], size))
                keys = {"query": np.arange(n) // size, "answer": np.arange(n)}
                made = er.intervals(er.Ranks(np.where(hit, 0, 50), 0, 100, keys=keys), "hits@10")
                held += made["hits@10"].low <= share <= made["hits@10"].high
            cells.append(f"{held / times:6.1%} {judged(held / times >= LOW, times)}")
        print(f"{n:7,} {n // size:8,}  " + "  ".join(f"{cell:>8}" for cell in cells), flush=True)


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


def rejection_of_dependent(times: int) -> None:
    share, slack = REJECTED
    print(f"\nequal models whose triples share queries, significant at 5 %, of {times:,} pairs\n")
    for triples, queries, skew, unit, metric in (
        (300, 150, 0.0, None, "mrr"), (300, 150, 0.0, None, "gmr"), (300, 150, 0.0, "triple", "mrr"),
        (1000, 400, 0.7, None, "mrr"), (1000, 400, 0.7, "triple", "mrr"),
    ):  # fmt: skip
        rng, count, odd = np.random.default_rng(triples), 0, 0
        for seed in range(times):
            keys, query = answered(triples, queries, skew, rng)
            shared = hardness(query, 1.0, rng)
            one, other = (ranked(shared + hardness(query, 1.0, rng) - 1.5, keys) for _ in range(2))
            made = er.compare(
                a=one, b=other, metrics=metric, unit=unit, on="row", samples=999, seed=seed
            )
            pair = made.pairs[0]
            count += pair.p <= share
            odd += (pair.p <= share) != (not pair.low <= 0 <= pair.high)
        words = f"{made.unit}{' (default)' * (unit is None)}"
        goal = f"5 +- 2 {judged(abs(count / times - share) <= 2 * slack, times)}" if unit is None else ""
        print(
            f"{triples:7,} {queries:5,} {'unequal' if skew else 'equal':8} {words:22} {metric:4} "
            f"{count / times:7.2%} {goal:14} p and interval contradict: {odd}",
            flush=True,
        )


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
    of_queries(times=100 if quick else 1000)
    dependence(times=100 if quick else 1000)
    proportions(times=100 if quick else 1000)
    rejection(times=100 if quick else 4000)
    rejection_of_dependent(times=100 if quick else 1000)


if __name__ == "__main__":
    main()
