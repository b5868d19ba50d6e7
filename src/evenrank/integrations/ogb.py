"""Ranks from OGB predictions (`y_pred_pos`, `y_pred_neg`), and results in the format of its evaluator.

Where OGB uses MRR (ogbl-wikikg2, ogbl-biokg, ogbl-citation2), each positive has its own negatives, a
row of `y_pred_neg`; where it uses hits@K or ROC-AUC (ogbl-ppa, ogbl-collab, ogbl-vessel), all positives
share one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal.arrays import Ints, array, host, nan_error
from evenrank._internal.checks import check_type
from evenrank.errors import InputError, Option
from evenrank.metrics.grammar import parse
from evenrank.metrics.metric import MRR
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks

__all__ = ["ranks", "result"]

POSITIVE, NEGATIVE = "y_pred_pos", "y_pred_neg"
AT = (1, 3, 10)  # the k of the hits@k lists beside mrr_list
SCORES_AT_ONCE = 2**22


def ranks(
    predictions: Mapping[str, Any],
    *,
    keys: Mapping[str, ArrayLike] | None = None,
    protocol: Protocol | Mapping[str, Any] | None = None,
) -> Ranks:
    """Rank each positive among its negatives.

    Parameters
    ----------
    predictions : mapping
        The dictionary of OGB's evaluator: ``y_pred_pos`` of shape (n,), and ``y_pred_neg`` of shape
        (n, k), or (k,) for all positives. NumPy arrays or torch tensors on any device.
    keys, protocol : optional
        As for `Ranks`.

    Returns
    -------
    Ranks
        A rank per positive score.

    Raises
    ------
    InputError
        If arrays are missing or differ in shape, or scores contain NaN, which OGB counts as the best
        score.

    Examples
    --------
    >>> given = {"y_pred_pos": [0.5, 0.9], "y_pred_neg": [[0.5, 0.7, 0.1], [0.2, 0.3, 0.1]]}
    >>> found = ranks(given)
    >>> found.better.tolist(), found.equal.tolist(), found.candidates.tolist()
    ([1, 0], [1, 0], [4, 4])
    >>> {name: values.tolist() for name, values in result(found).items()}["mrr_list"]
    [0.4000000059604645, 1.0]
    """
    check_type(
        predictions, Mapping, "predictions must be a dictionary", allowed=f"{POSITIVE} and {NEGATIVE}"
    )
    missing = [name for name in (POSITIVE, NEGATIVE) if name not in predictions]
    if missing:
        raise InputError(f"no {missing[0]}", got=", ".join(map(str, predictions)) or "nothing")
    positive, negative = (
        host(array(name, predictions[name], real=True)) for name in (POSITIVE, NEGATIVE)
    )
    own = negative.ndim == 2
    if positive.ndim != 1 or negative.ndim not in (1, 2) or (own and len(positive) != len(negative)):
        raise InputError(
            "positives and negatives differ in shape",
            got=f"shapes {positive.shape} and {negative.shape}",
            allowed=f"{POSITIVE} of shape (n,) with {NEGATIVE} of shape (n, k), or (k,) for all",
        )
    for name, values in ((POSITIVE, positive), (NEGATIVE, negative)):
        _reject_nan(name, values)
    better, equal = (_beside if own else _shared)(positive, negative)
    count = negative.shape[-1]
    return Ranks(
        better,
        equal,
        count + 1,
        keys=keys,
        protocol={
            "candidates": f"{count:,} given {'per target' if own else 'for all'}",
            **Protocol.of(protocol).to_dict(),
        },
    )


def _reject_nan(name: str, values: NDArray[Any]) -> None:
    if np.isnan(values).any():
        place = ", ".join(map(str, np.argwhere(np.isnan(values))[0]))
        raise nan_error(f"{name}[{place}]")


def _beside(positive: NDArray[Any], negative: NDArray[Any]) -> tuple[Ints, Ints]:
    """Compare each positive with its own negatives, a few million scores at a time."""
    better, equal = np.zeros((2, len(positive)), np.int64)
    step = max(1, SCORES_AT_ONCE // max(1, negative.shape[1]))
    for first in range(0, len(positive), step):
        rows = slice(first, first + step)
        goal = positive[rows, None]
        better[rows] = (negative[rows] > goal).sum(axis=1)
        equal[rows] = (negative[rows] == goal).sum(axis=1)
    return better, equal


def _shared(positive: NDArray[Any], negative: NDArray[Any]) -> tuple[Ints, Ints]:
    """Compare all positives with one sorted list of negatives."""
    ordered = np.sort(negative)
    low, high = (np.searchsorted(ordered, positive, side) for side in ("left", "right"))
    return len(ordered) - high, high - low


def result(ranked: Ranks, metric: str = "mrr") -> dict[str, Any]:
    """Return results with the names and the tie-breaking rules of OGB's evaluator.

    Parameters
    ----------
    ranked : Ranks
        The ranks.
    metric : str, default "mrr"
        ``"mrr"`` returns values per target, from mean ranks: ``hits@1_list``, ``hits@3_list``,
        ``hits@10_list`` and ``mrr_list``. ``"hits@50"``, or another k, returns one value, from
        pessimistic ranks; ``"rocauc"`` one value, where ties count half.

    Returns
    -------
    dict
        Values by OGB's names.

    Raises
    ------
    InputError
        If OGB does not report the metric, or ``"rocauc"`` lacks the numbers of candidates.

    Examples
    --------
    >>> result(Ranks([0, 2], [0, 1], 5), "hits@3"), result(Ranks([0, 2], [0, 1], 5), "rocauc")
    ({'hits@3': 0.5}, {'rocauc': 0.6875})
    """
    # read: snap-stanford/ogb, ogb/linkproppred/evaluate.py
    check_type(ranked, Ranks, "ranked must be Ranks")
    mean = ranked.better + ranked.equal / 2 + 1
    if metric == "rocauc":
        if not ranked.has_candidates:
            raise InputError("rocauc needs the numbers of candidates", do=["set ", Option("candidates")])
        return {metric: float((1 - (mean - 1) / (ranked.candidates - 1)).mean())}
    expression = parse(metric)
    if expression == MRR:
        lists = {f"hits@{k}_list": (mean <= k).astype(np.float32) for k in AT}
        return {**lists, "mrr_list": 1 / mean.astype(np.float32)}
    if not str(expression).startswith("hits@"):
        raise InputError("not a metric of OGB", got=metric, allowed="mrr, hits@k, rocauc")
    return {str(expression): ranked.evaluate(expression, ties="pessimistic")[expression]}
