"""Evaluate three recommenders on MovieLens-100k: chance levels, smaller catalogues, sampled negatives.

    python examples/recommendation DATA [--split last random] [--draws 20] [--figure FILE ...]
    python examples/recommendation DATA --tune

DATA is MovieLens-100k, which does not come with evenrank: `u.data` as its authors publish it
(https://grouplens.org/datasets/movielens/100k/), or RecBole's `ml-100k.inter`; both may be gzipped.
Popularity, item-kNN and a matrix factorization are trained in seconds, and rank all items that a user
has not seen. `--tune` prints how the settings of the models were chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from interactions import SPLITS, Interactions, Ints, negatives, read, split
from recommenders import factorization, item_knn, popularity

import evenrank as er
from evenrank._internal.table import Table, figure

METRICS = ("ndcg@10", "recall@20")
CATALOGUES = (1000, 300, 100)
NEGATIVES = 100
REPEATS = 10  # random catalogues of each size
NAMES = {"last": "leave-last-out", "random": "random split, a fifth of each user"}
KNN, ALS, WEAK = "item-kNN", "ALS", "ALS, weak"  # the last one is regularized too little
GRID_KNN = [(k, s) for k in (20, 50, 100, 200) for s in (10.0, 50.0)]
GRID_ALS = [(d, c, r) for d in (16, 32) for c in (1.0, 4.0, 10.0) for r in (4.0, 16.0, 40.0)]
Models = Mapping[str, Any]
Rankings = dict[str, er.Rankings]


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test interactions, and the models trained on the former."""

    name: str
    train: Interactions
    test: Interactions
    models: Models

    @classmethod
    def of(cls, data: Interactions, name: str, seed: int) -> Split:
        train, test = split(data, name, seed)
        models = {
            "popularity": popularity(train),
            KNN: item_knn(train),
            ALS: factorization(train, seed=seed),
            WEAK: factorization(train, confidence=10.0, regularization=4.0, seed=seed),
        }
        return cls(name, train, test, models)

    @property
    def three(self) -> Models:
        """The models of the first tables."""
        return {name: model for name, model in self.models.items() if name != WEAK}

    def full(self) -> er.Task:
        """Rank the test items of each user among all items not seen in training."""
        users, items = self.train.shape
        return er.Task.recommendation(
            self.test.pairs, train=self.train.pairs, items=items, users=users, protocol=ABOUT
        )

    def within(self, catalogue: Ints) -> er.Task:
        """Rank the test items in a part of the catalogue among the items of that part."""
        test = self.test.where(np.isin(self.test.items, catalogue))
        if not len(test.users):
            raise er.errors.InputError(f"no test item is among {len(catalogue):,} items")
        return self._listed(test, [catalogue], np.zeros(len(test.users), np.int64))

    def sampled(self, seed: int) -> er.Task:
        """Rank the test items of each user among themselves and random items new to the user."""
        drawn = negatives(self.train, self.test, NEGATIVES, seed)
        return self._listed(self.test, drawn, self.test.users)

    def _listed(self, test: Interactions, candidates: Sequence[Ints], group: Ints) -> er.Task:
        both = np.concatenate([self.train.pairs, test.pairs])
        return er.Task.of(
            test.users[:, None],
            test.items,
            size=self.train.shape[1],
            known=(both[:, :1], both[:, 1]),
            candidates=candidates,
            group=group,
            side="item",
            keys={"user": test.users},
            protocol=ABOUT,
        )


ABOUT = {"data": "ml-100k", "task": "recommendation"}


def ranked(models: Models, task: er.Task) -> Rankings:
    """Rank all test items of a user together, by each model."""
    return {
        name: er.rank(model, task, answers="together", progress=False) for name, model in models.items()
    }


# Tables ------------------------------------------------------------------------------------------


def overview(rankings: Rankings) -> Table:
    """Metrics with confidence intervals, chance levels, adjusted indices and z-scores."""
    rows = []
    for name, one in rankings.items():
        for metric in METRICS:
            found = er.intervals(one, metric)[metric]
            kinds = one.evaluate(f"chance({metric})", f"index({metric})", f"z({metric})")
            chance, index, z = kinds.to_dict().values()
            limits = f"{figure(found.low)} to {figure(found.high)}"
            cells = [figure(found.value), limits, figure(chance), figure(index), f"{z:+.1f}"]
            rows.append([name, metric, *cells])
    header = ["model", "metric", "value", "95 % interval", "chance", "index", "z"]
    return Table(header, rows, labels=2)


def paired(rankings: Rankings) -> Table:
    """Differences of two models on the same users, with corrected p-values."""
    found = er.compare(rankings, metrics=METRICS)
    rows = [
        [
            f"{pair.first} - {pair.second}",
            str(pair.metric),
            f"{pair.difference:+.4f}",
            f"{pair.low:+.4f} to {pair.high:+.4f}",
            f"{pair.p_corrected:.4f}",
        ]
        for pair in found.pairs
    ]
    header = ["models", "metric", "difference", "95 % interval", "p"]
    return Table(header, rows, ["p: sign flips of users, corrected by Holm's method"], labels=2)


def catalogues(part: Split, seed: int) -> Iterator[tuple[str, list[Rankings]]]:
    """Yield rankings among all items, the most popular ones, and random ones, of the same sizes."""
    yield f"all {part.train.shape[1]:,}", [ranked(part.three, part.full())]
    popular = np.argsort(-part.train.popularity(), kind="stable")
    sizes = [size for size in CATALOGUES if size < len(popular)]
    for size in sizes:
        yield f"{size:,} popular", [ranked(part.three, part.within(np.sort(popular[:size])))]
    for size in sizes:
        chosen = [
            np.sort(np.random.default_rng([seed, i]).permutation(len(popular))[:size])
            for i in range(REPEATS)
        ]
        yield f"{size:,} random", [ranked(part.three, part.within(one)) for one in chosen]


def shrinking(found: Sequence[tuple[str, list[Rankings]]]) -> Table:
    """Metrics for smaller and smaller catalogues; those of random ones are means."""
    wanted = ("ndcg@10", "chance(ndcg@10)", "index(ndcg@10)")
    wanted += ("recall@20", "chance(recall@20)", "index(recall@20)")
    rows = []
    for label, several in found:
        for name in several[0]:
            values = [[*one[name].evaluate(*wanted).to_dict().values()] for one in several]
            rows.append([label, name, *map(figure, np.mean(values, axis=0).tolist())])
    header = ["items", "model", "ndcg@10", "chance", "index", "recall@20", "chance", "index"]
    return Table(header, rows, [f"random: the mean of {REPEATS} random catalogues"], labels=2)


def against(full: Rankings, draws: Sequence[Rankings]) -> tuple[Table, Table]:
    """Full ranking beside rankings of sampled negatives; and the order of each two models in both."""
    metric = METRICS[0]
    values = {name: [draw[name].evaluate(metric)[metric] for draw in draws] for name in full}
    rows = []
    for name, one in full.items():
        sampled = np.array(values[name])
        index = np.mean([draw[name].evaluate(f"index({metric})")[f"index({metric})"] for draw in draws])
        rows.append(
            [
                name,
                *map(figure, one.evaluate(metric, f"index({metric})").to_dict().values()),
                *map(figure, (sampled.mean(), sampled.min(), sampled.max(), float(index))),
            ]
        )
    header = ["model", "all items", "index", "sampled", "lowest", "highest", "index"]
    first = Table(header, rows, [f"{metric}; {NEGATIVES} sampled negatives, {len(draws)} draws"])
    compared = er.compare(full, metrics=metric)
    rows = []
    for a, b in combinations(full, 2):
        pair = compared.pair(a, b, metric)
        ahead = sum(x > y for x, y in zip(values[a], values[b], strict=True))
        rows.append(
            [
                f"{a} - {b}",
                f"{pair.difference:+.4f}",
                f"{pair.p_corrected:.4f}",
                f"{np.mean(values[a]) - np.mean(values[b]):+.4f}",
                f"{ahead} of {len(draws)}",
            ]
        )
    header = ["models", "all items", "p", "sampled", "first ahead in draws"]
    return first, Table(header, rows)


def estimated(part: Split) -> Table:
    """What one draw of negatives says about all items, where each user has one test item."""
    many = part.full()
    count = dict(zip(many.keys["user"].tolist(), many.candidates.tolist(), strict=True))
    rows = []
    for name, model in part.models.items():
        ranks, full = (er.rank(model, task, progress=False) for task in (part.sampled(0), many))
        complete = [count[user] for user in ranks.keys["user"].tolist()]
        for metric in (METRICS[0], "mr"):
            found = er.estimate_full(ranks, metric, full=complete)[metric]
            values = full.evaluate(metric)[metric], found.sampled, found.value, found.low, found.high
            rows.append([name, metric, *map(figure, values), found.kind])
    header = ["model", "metric", "all items", "sampled", "estimate", "low", "high", "kind"]
    return Table(header, rows, labels=2)


def tuned(data: Interactions, seed: int) -> Table:
    """Try settings on a fifth of the training interactions of the random split."""
    train, _ = split(data, "random", seed)
    inner, valid = split(train, "random", seed + 1)
    part = Split("valid", inner, valid, {})
    task = part.full()
    models: dict[tuple[str, str], Any] = {
        (KNN, f"neighbours {k}, shrink {s:g}"): item_knn(inner, k, s) for k, s in GRID_KNN
    }
    for d, c, r in GRID_ALS:
        setting = f"dimension {d}, confidence {c:g}, regularization {r:g}"
        models[ALS, setting] = factorization(inner, d, c, r, seed=seed)
    rows = [
        [*label, *map(figure, ranked({"": model}, task)[""].evaluate(*METRICS).to_dict().values())]
        for label, model in models.items()
    ]
    return Table(["model", "settings", *METRICS], rows, labels=2)


# The figure ----------------------------------------------------------------------------------------


def points(found: Sequence[tuple[str, list[Rankings]]]) -> Iterator[dict[str, Any]]:
    """Yield the points of the figure: each model on each catalogue."""
    for label, several in found:
        if "random" in label:
            continue
        for name, one in several[0].items():
            for metric in METRICS:
                chance = one.evaluate(f"chance({metric})")[f"chance({metric})"]
                for shown in (metric, f"index({metric})"):
                    interval = er.intervals(one, shown)[shown]
                    yield {
                        "data": label.removesuffix(" popular"),
                        "model": name,
                        "metric": shown,
                        "value": interval.value,
                        "low": interval.low,
                        "high": interval.high,
                        "chance": chance if shown == metric else None,
                    }


# Command line --------------------------------------------------------------------------------------


def show(title: str, *tables: Table) -> None:
    print(f"\n{title}\n")
    for table in tables:
        print(table.text(80), end="\n\n" if table is not tables[-1] else "\n")


def evaluate(part: Split, options: argparse.Namespace) -> list[tuple[str, list[Rankings]]]:
    """Print the tables of one split; return the rankings of the figure."""
    full = ranked(part.models, part.full())
    three = {name: full[name] for name in part.three}
    count = f"{len(part.train.users):,} training and {len(part.test.users):,} test interactions"
    print(f"{NAMES[part.name]}\n{count} of {len(three[KNN]):,} users")
    show("All items that a user has not seen in training", overview(three))
    show("Paired comparison", paired(three))
    found = [*catalogues(part, options.seed)]
    show("Smaller catalogues", shrinking(found))
    draws = [ranked(part.models, part.sampled(seed)) for seed in range(options.draws)]
    show(f"All items against {NEGATIVES} sampled negatives", *against(full, draws))
    if part.name == "last":
        show("What the first draw says about all items", estimated(part))
    return found


def parser() -> argparse.ArgumentParser:
    usage, _, _ = (__doc__ or "").partition("\n")
    made = argparse.ArgumentParser("recommendation", description=usage)
    made.add_argument("data", type=Path, help="MovieLens-100k: u.data or ml-100k.inter, or gzipped")
    made.add_argument("--split", nargs="+", choices=SPLITS, default=SPLITS, help="default: both")
    made.add_argument("--draws", type=int, default=20, help="of sampled negatives (default: 20)")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--figure", nargs="+", type=Path, default=[], help="draw smaller catalogues")
    made.add_argument("--tune", action="store_true", help="try settings of the models, and stop")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    try:
        if options.draws < 1 or options.seed < 0:
            raise er.errors.InputError("--draws must be at least 1, --seed at least 0")
        data = read(options.data)
        users, items = data.shape
        print(f"{users:,} users, {items:,} items, {len(data.users):,} interactions")
        if options.tune:
            show("Settings, tried on a part of the training interactions", tuned(data, options.seed))
            return
        for name in options.split:
            print()
            found = evaluate(Split.of(data, name, options.seed), options)
        if options.figure:
            from evenrank.report import charts

            shown = [kind for metric in METRICS for kind in (metric, f"index({metric})")]
            chart = charts.panels(points(found), shown)
            for file in options.figure:
                print(charts.save(chart, file))
    except er.errors.InputError as error:
        raise SystemExit(f"recommendation: {error}") from None


if __name__ == "__main__":
    main()
