"""Averages: over targets, over queries, and over relations, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evenrank.metrics.adjusted import Expression
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.ranks import Ranks

AVERAGES = ("micro", "query", "relation")


def averages(
    ranks: Ranks, *metrics: str | Expression, by: tuple[str, ...] = (), ties: Ties | None = None
) -> Evaluation[Any]:
    """Evaluate three averages side by side: over targets, over queries, and over relations.

    `micro` weighs every target alike, so that frequent relations and hubs decide; `query` and
    `relation` weigh every query or relation alike, however many targets it has. Each has the chance
    level of its own weights.

    >>> keys = {"relation": ["a", "a", "a", "b"], "query": [0, 0, 1, 2]}
    >>> averages(Ranks.of([1, 1, 2, 4], 9, keys=keys), "mrr")["mrr"].round(3).tolist()
    [0.688, 0.583, 0.542]
    """
    groups = ranks.by(*by) if by else [((), ranks)]
    parts = [(label, part, average) for label, part in groups for average in AVERAGES]
    made = evaluate(
        [part.tally(average) for _, part, average in parts],
        metrics,
        ties=ties or ranks.ties,
        labels=[(*label, average) for label, _, average in parts],
        label_names=(*by, "average"),
        protocol=ranks.protocol,
    )
    return one_count(made)


def one_count(made: Evaluation) -> Evaluation[Any]:
    """Say once how many targets there are, instead of adding them up over the averages."""
    targets = sum(made.counts) // len(AVERAGES)
    said = f"{targets:,} target{'s' * (targets != 1)}"
    return replace(made, counts=(), tie_rates=(), notes=(*made.notes, said))
