"""Micro and macro averages side by side: over targets, over queries, and over relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenrank.errors import InputError, Option
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.rankings import AnyRanks, Rankings
from evenrank.ranks.ranks import evaluate_ranks
from evenrank.ranks.rows import tie_rule
from evenrank.stats._join import check_ranks
from evenrank.stats._units import names_of

AVERAGES = ("micro", "query", "relation")


def averages(
    ranks: AnyRanks, *metrics: Metrics, by: str | Sequence[str] = (), ties: Ties | None = None
) -> Evaluation[Any]:
    """Compute the micro average and the macro averages over queries and relations, side by side.

    In the micro average all targets have the same weight, so that frequent relations and hubs dominate;
    in a macro average all queries, or relations, have the same weight. Each average has its own chance
    level.

    Parameters
    ----------
    ranks : Ranks
        The ranks, with the keys head, relation, tail and side (or query and relation); no rankings of
        queries, whose macro averages are `average=` of `Rankings.evaluate`.
    *metrics : str, Metric or list of these
        The metrics; by default a table of common ones.
    by : str or sequence of str, optional
        Key columns to group by.
    ties : str, optional
        The tie-breaking rule; by default that of the protocol.

    Returns
    -------
    Evaluation
        A row per average (of each group).

    Raises
    ------
    InputError
        If the ranks have no queries or relations.

    Examples
    --------
    >>> from evenrank import Ranks
    >>> keys = {"relation": ["a", "a", "a", "b"], "query": [0, 0, 1, 2]}
    >>> averages(Ranks.of([1, 1, 2, 4], 9, keys=keys), "mrr")["mrr"].round(3).tolist()
    [0.688, 0.583, 0.542]
    """
    if isinstance(ranks, Rankings):
        raise not_averaged()
    check_ranks("the first argument", ranks, do="e.g. er.averages(ranks)")
    keys = () if isinstance(by, Sequence) and not by else names_of("by", by).split(",")
    groups = ranks.by(*keys) if keys else [((), ranks)]
    parts = [(label, part, average) for label, part in groups for average in AVERAGES]
    made = evaluate_ranks(
        [(part, average) for _, part, average in parts],
        metrics,
        ties=tie_rule([ranks], ties),
        labels=[(*label, average) for label, _, average in parts],
        label_names=(*keys, "average"),
        protocol=ranks.protocol,
    )
    return one_count(made)


def not_averaged() -> InputError:
    """Build the error for rankings, whose micro average is that over queries."""
    return InputError(
        "averages over targets and over queries are of ranks of single targets",
        got="rankings of queries with several answers",
        do=["use ", Option("average"), " for the macro average over a key"],
    )


def one_count(made: Evaluation[Any]) -> Evaluation[Any]:
    """Note the number of targets once, instead of their sum over the averages."""
    targets = sum(made.counts) // len(AVERAGES)
    count = f"{targets:,} target{'s' * (targets != 1)}"
    return replace(made, counts=(), tie_rates=(), notes=(*made.notes, count))
