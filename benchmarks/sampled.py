"""Estimates from sampled candidates: coverage and width of confidence intervals and bounds.

    python benchmarks/sampled.py [--quick]

Coverage: candidates are sampled repeatedly for the full ranks of trained models
(examples/case_study/ranks): a target of rank R among N has Hypergeometric(N - 1, R - 1, k) better
candidates in a sample of k. Reported is how often the 95 % confidence interval (mr) or the bounds (mrr,
hits@10) contain the value of the full ranking. With `candidates`, that is the value of these targets;
with `targets`, the triples are resampled as well, with replacement from the file, whose value is the
truth.

Bounds have a confidence of 95 % or more for any distribution of ranks, so that 100 % is expected; an
interval should have 93 to 97 %. Shared draws: bundled models are ranked among sampled candidates by the
engine itself, where all targets of a query share their candidates.

Hard cases for the mean rank: targets that rank nearly last or nearly first, few draws, draws that
targets share, and samples with replacement, also of more candidates than there are.

Time: bounds where the full ranking is so large that linear programs may take very long.

Point estimates: the error of the estimators that assume a distribution, and the sampled metric itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import evenrank as er
from evenrank.stats.sampled import Estimated
from rank import verdict

RANKS = Path(__file__).parent.parent / "examples/case_study/ranks"
METRICS = ("mr", "mrr", "hits@10")
LOW, HIGH = 0.93, 0.97
ENOUGH = 1000  # with fewer samples, a share is not compared with its goal
COVERED = ("nations-rotate", "kinships-transe", "wn18rr-transe", "wn18rr-complex", "fb15k237-complex")
HEADER = f"{'mr: interval':24} {'mrr: bounds':24} hits@10: bounds"


def laid_out(cells: list[str], width: int) -> str:
    return " ".join(f"{cell:{width}}" for cell in cells).rstrip()


def drawn(full: er.Ranks, k: int, rng: np.random.Generator) -> er.Ranks:
    """Rank among k sampled candidates, or all if there are fewer."""
    k_of = np.minimum(k, full.candidates - 1)
    better = rng.hypergeometric(full.better, full.candidates - 1 - full.better, k_of)
    keys = {name: full.keys[name] for name in full.keys if name == "triple"}
    return er.Ranks(better, 0, k_of + 1, keys={**keys, "full_candidates": full.candidates})


def triples(full: er.Ranks, rng: np.random.Generator) -> er.Ranks:
    """Resample triples with both sides; each resampled triple gets a new name."""
    unit = full.units("triple")
    rows = np.argsort(unit, kind="stable")
    first = np.searchsorted(unit[rows], np.arange(unit.max() + 2))
    chosen = rng.integers(0, unit.max() + 1, unit.max() + 1)
    length = np.diff(first)[chosen]
    start = np.repeat(first[chosen] - np.cumsum(length) + length, length)
    picked = full[rows[start + np.arange(length.sum())]]
    return er.Ranks(
        picked.better, 0, picked.candidates, keys={"triple": np.repeat(np.arange(len(chosen)), length)}
    )


def covered(full: er.Ranks, k: int, vary: str, times: int, metrics: tuple[str, ...]) -> Iterator[str]:
    """Compute coverage and mean width for each metric."""
    truth = full.evaluate(*metrics).to_dict()
    rng = np.random.default_rng(k)
    held, width = dict.fromkeys(metrics, 0), dict.fromkeys(metrics, 0.0)
    for _ in range(times):
        of = full if vary == "candidates" else triples(full, rng)
        unit = None if vary == "candidates" else "triple"
        made = er.estimate_full(drawn(of, k, rng), *metrics, vary=vary, unit=unit)
        for metric in metrics:
            found = made[metric]
            held[metric] += found.low <= truth[metric] <= found.high
            width[metric] += (found.high - found.low) / times
    for metric in metrics:
        share = held[metric] / times
        good = LOW <= share <= HIGH if made[metric].kind == "interval" else share >= LOW
        met = verdict(good) if times >= ENOUGH or metric != "mr" else "?"
        yield f"{share:6.1%} {met:5} +- {width[metric] / 2:<8.3g}"


def coverage(times: int, few: int) -> None:
    error = 196 * sqrt(0.05 * 0.95 / times)
    print(f"coverage at 95 %: mr of {times:,} samples (+- {error:.1f} %), mrr and hits@10 of {few:,},")
    print("of fb15k237 a third of these; after it, half the mean width\n")
    print(f"{'ranks':18} {'k':>4} {'varied':10}  {HEADER}")
    for name in COVERED:
        full = er.Ranks.load(RANKS / f"{name}.parquet")
        share = 1 if len(full) < 10_000 else 3
        for k in (5,) if len(full) < 1000 else (20, 50) if len(full) < 4000 else (100, 500):
            for vary in ("candidates", "targets"):
                cells = [
                    *covered(full, k, vary, times // share, METRICS[:1]),
                    *covered(full, k, vary, few // share, METRICS[1:]),
                ]
                print(f"{name:18} {k:4} {vary:10}  {laid_out(cells, 24)}", flush=True)


def shared_draws(times: int) -> None:
    print(f"\nranked by the engine, a sample per query, {times} seeds; bounds: every tenth\n")
    print(f"{'model':18} {'k':>4}  {HEADER}")
    for name, k in (("kinships/complex", 20), ("umls/rotate", 30)):
        graph, model = er.load(name.split("/")[0]), er.models.load(name)
        truth = er.rank(model, graph.task("test"), progress=False).evaluate(*METRICS).to_dict()
        found: dict[str, list[Estimated]] = {metric: [] for metric in METRICS}
        for seed in range(times):
            ranks = er.rank(model, graph.task("test", candidates=k, seed=seed), progress=False)
            wanted = METRICS[: None if seed % 10 == 0 else 1]
            made = er.estimate_full(ranks, *wanted)
            for metric in wanted:
                found[metric].append(made[metric])
        cells = []
        for metric, all_made in found.items():
            share = np.mean([one.low <= truth[metric] <= one.high for one in all_made])
            width = np.mean([one.high - one.low for one in all_made])
            cells.append(f"{share:6.1%} +- {width / 2:<8.3g}")
        print(f"{name:18} {k:4}  {laid_out(cells, 24)}", flush=True)


def near(kind: str, n: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Generate ranks near one or both ends, or in between."""
    off = rng.integers(0, 5, n)
    first = {"first": n, "last": 0, "half last": n // 2, "tenth last": n - n // 10}
    if kind in first:
        return np.where(np.arange(n) < first[kind], 1 + off, size - off)
    return np.exp(rng.random(n) * np.log(size)).astype(np.int64)


def hard(times: int) -> None:
    print(f"\nmean rank in hard cases, of {times:,} samples: 93 % or more; few counts cover more\n")
    print(f"{'replaced':9} {'full':>6} {'k':>4} {'targets':>7} {'of a draw':>9}  coverage by ranks")
    for replace, size, k in ((False, 1000, 20), (False, 1000, 100), (True, 1000, 100), (True, 61, 150)):
        for n, share in ((50, 1), (200, 4)):
            cells = []
            for kind in ("first", "last", "half last", "tenth last", "log-uniform"):
                rng = np.random.default_rng(n)
                rank, draw, held = near(kind, n, size, rng), np.arange(n) // share, 0
                for _ in range(times):
                    queries = draw[-1] + 1
                    if replace:
                        each = rng.integers(1, size, (queries, k))
                    else:
                        each = 1 + rng.random((queries, size - 1)).argpartition(k, axis=1)[:, :k]
                    better = (each[draw] < rank[:, None]).sum(axis=1)
                    ranks = er.Ranks(better, 0, k + 1, keys={"draw": draw})
                    found = er.estimate_full(ranks, "mr", full=size, replace=replace)["mr"]
                    held += found.low <= rank.mean() <= found.high
                coverage = held / times
                met = verdict(coverage >= LOW) if times >= ENOUGH else ""
                cells.append(f"{kind} {coverage:.1%} {met}")
            print(f"{replace!s:9} {size:6,} {k:4} {n:7} {share:9}  {laid_out(cells, 20)}", flush=True)


def large() -> None:
    print("\ntime of the bounds of mrr and hits@1, and of the mean rank: 20,000 targets\n")
    for size, k in ((2_500_604, 1000), (86_000_000, 1000), (2_500_604, 20_000)):
        for kind in ("geometric", "log-uniform"):
            rng = np.random.default_rng(0)
            rank = near(kind, 20_000, size, rng)
            if kind == "geometric":
                rank = rng.geometric(0.05, 20_000)
            ranks = er.Ranks(rng.hypergeometric(rank - 1, size - rank, k), 0, k + 1)
            start = time.perf_counter()
            made = er.estimate_full(ranks, "mrr", "hits@1", "mr", full=size)
            seconds = time.perf_counter() - start
            print(
                f"{k:6,} of {size:10,}, {kind:12} {seconds:5.1f} s  {'; '.join(made.notes)}", flush=True
            )


def point_estimates() -> None:
    print("\npoint estimates under an assumed distribution, one sample each: mrr, and hits@10\n")
    titles = ["full", "sampled", "em", "bv", "cls"]
    print(f"{'ranks':18} {'k':>4}  {laid_out(titles, 13)}  seconds (em)")
    for name in ("fb15k237-complex", "fb15k237-transe", "wn18rr-complex", "wn18rr-transe"):
        full = er.Ranks.load(RANKS / f"{name}.parquet")
        truth = full.evaluate(*METRICS[1:]).to_dict()
        for k in (100, 500):
            ranks = drawn(full, k, np.random.default_rng(k))
            start = time.perf_counter()
            made = {"em": er.estimate_full(ranks, *METRICS[1:])}
            seconds = time.perf_counter() - start
            made |= {e: er.estimate_full(ranks, *METRICS[1:], estimator=e) for e in ("bv", "cls")}
            columns = [
                [truth[m] for m in METRICS[1:]],
                [made["em"][m].sampled for m in METRICS[1:]],
                *([one[m].value for m in METRICS[1:]] for one in made.values()),
            ]
            cells = [", ".join(f"{x:.3f}" for x in column) for column in columns]
            print(f"{name:18} {k:4}  {laid_out(cells, 13)}  {seconds:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    quick = parser.parse_args().quick
    coverage(*((100, 3) if quick else (1000, 30)))
    shared_draws(10 if quick else 200)
    hard(100 if quick else 1000)
    large()
    point_estimates()


if __name__ == "__main__":
    main()
