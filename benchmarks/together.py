"""All answers of a query ranked together, beside the bare matrix product.

    python benchmarks/together.py [--quick] [--threads N]

A factored recommender (float32, random) ranks about ten test items for each of 100,000 users among
10,000 items, with 20 training items filtered. The lower bound is one tiled `np.matmul` of the users with
the items, whose scores are discarded. Both are run alternately, in as many threads; the best of the
rounds counts. In one thread, processor time is taken, which other load on the machine changes least; in
several, the clock, and BLAS then suffers most from other load, as it waits for its slowest thread.

The ranks of a few users are checked against rows of float64 scores that are sorted.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import evenrank as er
from evenrank._internal.limits import cpus
from evenrank.ranking.engine._native import kernels
from null import best
from rank import TILE, verdict

USERS, ITEMS, ANSWERS, SEEN = 100_000, 10_000, 10, 20
QUICK = 2_000  # users of a smoke test
CHECKED = 20
WIDTHS, MOST_FLOORS = (64, 128), 1.5

Pairs: TypeAlias = NDArray[np.int64]


def drawn(users: int, width: int) -> tuple[er.models.DotProduct, Pairs, Pairs]:
    """Draw a model, test and training items; the numbers of test items are Poisson, and at least 1."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((users, width), dtype=np.float32)
    table = rng.standard_normal((ITEMS, width), dtype=np.float32)
    many = np.maximum(rng.poisson(ANSWERS, users), 1)
    test, train = (
        np.stack([np.repeat(np.arange(users), count), rng.integers(0, ITEMS, count.sum())], axis=1)
        for count in (many, np.full(users, SEEN))
    )
    return er.models.DotProduct(vectors, table), test, train


def built(test: Pairs, train: Pairs) -> er.Task:
    """Build the task, and the one in which answers compete, which it keeps."""
    task = er.Task.recommendation(test, train=train, items=ITEMS)
    task.together()
    return task


def product(users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
    scores = np.empty((TILE, TILE), dtype=np.float32)
    for i in range(0, len(users), TILE):
        some = users[i : i + TILE]
        for j in range(0, len(items), TILE):
            tile = items[j : j + TILE]
            np.matmul(some, tile.T, out=scores[: len(some), : len(tile)])


def check(model: er.models.DotProduct, task: er.Task, got: er.Rankings) -> None:
    """Compare the rankings of a few users with sorted scores."""
    part = task.together().parts[0]
    for user in range(0, len(got), len(got) // CHECKED):
        query = int(got.keys["user"][user])
        scores = model.score(np.array([[query]]), slice(0, ITEMS))[0]
        row = int(np.flatnonzero(part.queries[:, 0] == query)[0])
        left = np.sort(np.delete(scores, part.known[row]))
        mine = slice(got.first[user], got.first[user + 1])
        assert got.answers is not None
        ahead = len(left) - np.searchsorted(left, scores[got.answers[mine]], "right")
        assert (np.abs(ahead - got.better[mine]) <= 1).all(), user  # BLAS sums in another order


def measure(users: int, width: int, rounds: int, threads: int) -> tuple[float, float, float]:
    """Return the seconds that building the task, ranking and the matrix product take."""
    model, test, train = drawn(users, width)
    building, task = best(lambda: built(test, train), times=1)
    work: dict[str, Callable[[], Any]] = {
        "bound": lambda: product(model.users, model.items),
        "ours": lambda: er.rank(model, task, answers="together", threads=threads, progress=False),
    }
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds = {what: float("inf") for what in work}
    with threadpool_limits(threads):
        for _ in range(rounds):
            for what, run in work.items():
                start = clock()
                result = run()
                seconds[what] = min(seconds[what], clock() - start)
    check(model, task, result)
    return building, seconds["ours"], seconds["bound"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smoke test: few users and one round")
    parser.add_argument("--rounds", type=int, default=4, help="number of rounds (4)")
    parser.add_argument("--threads", type=int, default=cpus(), help="number of threads (all cores)")
    options = parser.parse_args()
    users, rounds = (QUICK, 1) if options.quick else (USERS, options.rounds)
    print(
        f"{users:,} users x {ITEMS:,} items, about {ANSWERS} answers per user, {SEEN} training items; "
        f"{options.threads} threads (load {os.getloadavg()[0]:.1f} before), kernels {kernels().name}; "
        f"best of {rounds}\n\n"
        f"{'':6} {'task':>7} {'rank':>7} {'GEMM':>7} {'ours /':>7}\n"
        f"{'d':>6} {'s':>7} {'s':>7} {'s':>7} {'bound':>7}  target"
    )
    for width in WIDTHS:
        building, ours, bound = measure(users, width, rounds, options.threads)
        times = ours / bound
        print(
            f"{width:6} {building:7.2f} {ours:7.2f} {bound:7.2f} {times:7.2f}  "
            f"<= {MOST_FLOORS} {verdict(times <= MOST_FLOORS)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
