"""Null distributions of a random scorer: how long they take, and whether they are right.

On FB15k-237 (test split, both sides), the standard deviations of MR, MRR and hits@1, 3, 10 together
are timed from the task and from the atlas, beside those for independent ranks and beside 1,000 simulated
scorers. On Nations, Kinships and UMLS, simulated scorers are compared with the null distributions.

    python benchmarks/chance.py [--scorers 100000,10000,10000] [--draws 20]

FB15k-237 is looked for as `er.load("fb15k237")` does; without it, this part is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import evenrank as er
from evenrank.ranks import simulation

TIMED = ("mr", "mrr", "hits@1", "hits@3", "hits@10")
CHECKED = (*TIMED, "gmr", "hmr", "median")


def seconds(call: Callable[[], object], times: int = 3) -> float:
    """Return the shortest of several times."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def speed(draws: int) -> None:
    """Time the standard deviations on FB15k-237."""
    try:
        graph = er.load("fb15k237")
    except er.errors.EvenrankError as error:
        print(f"FB15k-237 left out: {error}")
        return
    task = graph.task("test")

    def all_of(source: object, **options: str) -> list[float]:
        return [er.chance(metric, source, **options).std() for metric in TIMED]

    def fresh() -> list[float]:
        dependence = task.dependence()
        nulls = [er.chance(metric, task.candidates) for metric in TIMED]
        return [(null.var() + dependence.excess(null.metric)) ** 0.5 for null in nulls]

    alone = seconds(lambda: all_of(task.candidates))
    times = {
        "random scorer, from the task": seconds(fresh),
        "random scorer, from the atlas": seconds(lambda: all_of(er.atlas("fb15k237"))),
        "independent ranks": alone,
    }
    start = time.perf_counter()
    queries = sum(len(part.queries) for part in task.parts)
    rng = np.random.default_rng(0)
    for _ in range(draws):  # the scores alone: no comparison, no filter
        for _ in range(0, queries, 1024):
            rng.random((1024, len(graph.entities)))
    times[f"1,000 simulated scorers (their scores alone, from {draws})"] = (
        (time.perf_counter() - start) * 1000 / draws
    )
    print(f"{', '.join(TIMED)} on FB15k-237, both sides")
    for name, value in times.items():
        print(f"  {name:<60}{value:>12.4f} s {value / alone:>12.1f} x")
    if not np.allclose(fresh(), all_of(er.atlas("fb15k237")), rtol=1e-11):
        raise SystemExit("the task and the atlas disagree")


def accuracy(name: str, scorers: int) -> None:
    """Compare null distributions with simulated scorers, for micro and relation averages."""
    task = er.load(name).task("test")
    keys = {key: task.keys[key] for key in ("head", "relation", "tail", "side")}
    ranks = er.Ranks.of(np.ones(len(task)), candidates=task.candidates, keys=keys)
    macro = ranks.weights_by("relation")
    share = macro / macro.sum()
    metrics = [er.parse(metric) for metric in CHECKED]
    found: dict[str, list[list[np.ndarray]]] = {"micro": [], "relation": []}
    equal = np.full(len(task), 1 / len(task))
    additive = [m for m in metrics if isinstance(m, er.Metric)]
    for drawn in simulation.ranks_of(task, scorers, seed=1):
        found["micro"].append([simulation.evaluate_rows(m, drawn, equal) for m in metrics])
        found["relation"].append([simulation.evaluate_rows(m, drawn, share) for m in additive])
    print(f"{name}: {scorers:,} scorers; deviation of the standard deviation in standard errors")
    for average, wanted in (("micro", metrics), ("relation", additive)):
        weights = None if average == "micro" else macro
        cells = []
        for i, metric in enumerate(wanted):
            values = np.concatenate([batch[i] for batch in found[average]])
            variance = values.var()
            error = ((values - values.mean()) ** 2).std() / len(values) ** 0.5
            exact = er.chance(metric, task, weights=weights)
            alone = er.chance(metric, task, weights=weights, chance="independent")
            z = (values - exact.mean()) / exact.std()
            cells.append(
                f"  {average:<9} {metric!s:<8} {(exact.var() - variance) / error:+6.2f}"
                f"   std of z: {z.std():.3f}, independent {z.std() * exact.std() / alone.std():.3f}"
            )
        print("\n".join(cells))


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scorers", default="100000,10000,10000")
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    speed(options.draws)
    for name, scorers in zip(("nations", "kinships", "umls"), options.scorers.split(","), strict=True):
        accuracy(name, int(scorers))


if __name__ == "__main__":
    main()
