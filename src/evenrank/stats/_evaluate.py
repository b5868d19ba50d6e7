"""Evaluations of several models: a row for each, and for each of their groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenrank.metrics.grammar import Metrics
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.evaluation import evaluate as evaluate_tallies
from evenrank.ranks.rankings import Rankings, evaluate_rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import tie_rule
from evenrank.stats._intervals import Several, parts_of
from evenrank.stats._units import names_of


def evaluate(
    ranks: Several,
    *metrics: Metrics,
    ties: Ties | None = None,
    average: str | Sequence[str] = "micro",
) -> Evaluation[Any]:
    """Evaluate metrics on ranks or rankings of several models, with a row for each model and group.

    Parameters
    ----------
    ranks : Ranks, Rankings, Groups, mapping of str to these, or sequence of them
        The models, by name; groups as `Ranks.by` makes them.
    *metrics : str or Metric, or list of them
        The metrics; by default a selection with adjusted indices and z-scores.
    ties : str, optional
        The tie-breaking rule; by default that of the protocols.
    average : str or sequence of str, default "micro"
        "micro", or a macro average: "query", or key columns such as "relation".

    Returns
    -------
    Evaluation
        The values. Its method `pivot` puts the models side by side, with a row per group.

    Raises
    ------
    InputError
        If there are no ranks, or models are grouped by different keys.

    Examples
    --------
    >>> from evenrank import Ranks
    >>> models = {"first": Ranks.of([1, 2, 8], 9), "second": Ranks.of([4, 2, 1], 9)}
    >>> evaluate(models, "mrr", "index(mrr)")
                      index
    model    mrr ↑  (mrr) ↑
    ------  ------  -------
    first   0.5417   0.3316
    second  0.5833   0.3923
    6 targets, 0.0% tied
    no protocol recorded [788eeea3]
    """
    names, labels, parts, protocol, notes = parts_of(ranks)
    name = names_of("average", average)
    options: dict[str, Any] = {
        "ties": tie_rule(parts, ties),
        "labels": labels,
        "label_names": names,
        "protocol": replace(protocol, average=name),
    }
    rankings = [(part, average) for part in parts if isinstance(part, Rankings)]
    if rankings:
        made = evaluate_rankings(rankings, metrics, **options)
    else:
        tallies = [part.tally(average) for part in parts if isinstance(part, Ranks)]
        made = evaluate_tallies(tallies, metrics, **options)
    return replace(made, notes=(*made.notes, *notes))
