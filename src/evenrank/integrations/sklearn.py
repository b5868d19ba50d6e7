"""Ranking metrics for scikit-learn: scorers for `cross_validate`, `GridSearchCV` and others.

A classifier scores every class, and the true class has a rank among them. scikit-learn is not imported:
any object with `classes_` and `decision_function` or `predict_proba` works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.ties import Ties, check_ties
from evenrank.ranks.ranks import Ranks

__all__ = ["RankingScorer", "ranks", "scorer"]


@dataclass(frozen=True)
class RankingScorer:
    """A scorer for the ``scoring`` parameter of scikit-learn; made by `scorer`.

    Parameters
    ----------
    metrics : tuple of expressions
        The parsed metrics.
    ties : str, default "expected"
        The tie-breaking rule.
    """

    metrics: tuple[Expression, ...]
    ties: Ties = "expected"

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float | dict[str, float]:  # noqa: N803
        """Evaluate a fitted classifier.

        Parameters
        ----------
        estimator : object
            The classifier.
        X : array-like
            Inputs.
        y : array-like
            True classes.

        Returns
        -------
        float or dict of str to float
            One value, or several by name. Where lower is better, values are negated, and names start
            with ``neg_``.
        """
        values = ranks(estimator, X, y).evaluate(*self.metrics, ties=self.ties).to_dict(plain=True)
        for metric, name in zip(self.metrics, [*values], strict=True):
            if metric.increasing is False:
                values[f"neg_{name}"] = -values.pop(name)
        return values if len(values) > 1 else values.popitem()[1]


def scorer(*metrics: Metrics, ties: Ties = "expected") -> RankingScorer:
    """Make a scorer of one metric, or of several metrics for `cross_validate`.

    Parameters
    ----------
    *metrics : str, Metric or list of these
        The metrics.
    ties : str, default "expected"
        The tie-breaking rule.

    Returns
    -------
    RankingScorer
        Higher is better for every value.

    Raises
    ------
    InputError
        If there is no metric, or the tie-breaking rule is unknown.

    Examples
    --------
    >>> scorer("index(mrr)"), scorer("mrr", "mr").metrics
    (RankingScorer(metrics=(Adjusted('index(mrr)'),), ties='expected'), (Metric('mrr'), Metric('mr')))
    """
    parsed = tuple(dict.fromkeys(map(parse, listed(metrics))))
    if not parsed:
        raise InputError("a scorer needs a metric", do="e.g. scorer('index(mrr)')")
    check_ties(ties)
    return RankingScorer(parsed, ties)


def ranks(estimator: Any, X: Any, y: ArrayLike) -> Ranks:  # noqa: N803  # scikit-learn's names
    """Rank the true class of each row by a classifier's scores.

    Parameters
    ----------
    estimator : object
        A fitted classifier.
    X : array-like
        Inputs.
    y : array-like
        A class per row, or for several labels an indicator matrix with a column per class: then each
        true class is ranked without the other true classes of its row.

    Returns
    -------
    Ranks
        With the key ``class``.

    Raises
    ------
    InputError
        If the estimator does not score classes, or a class was not seen in training.
    """
    scores, classes = _scores(estimator, X)
    right = y.toarray() if hasattr(y, "toarray") else columns.as_array("y", y)  # may be sparse
    protocol = {"model": type(estimator).__name__, "candidates": "classes"}
    if right.ndim == 2:
        if right.shape != scores.shape:
            raise InputError("scores and y differ in shape", got=f"{scores.shape} and {right.shape}")
        row, column = np.nonzero(right)
        keys = {"row": row, "class": classes[column]}
        return Ranks.from_scores(scores[row], column, right[row] != 0, keys=keys, protocol=protocol)
    place = {name: i for i, name in enumerate(classes.tolist())}
    unseen = [name for name in dict.fromkeys(right.tolist()) if name not in place]
    if unseen:
        raise InputError(
            "y has a class that was not seen in training",
            got=repr(unseen[0]),
            allowed=f"the {len(place):,} classes of the fitted {type(estimator).__name__}",
            do="keep every class in each training fold (StratifiedKFold)",
        )
    target = np.array([place[name] for name in right.tolist()])
    return Ranks.from_scores(scores, target, keys={"class": right}, protocol=protocol)


def _scores(estimator: Any, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: N803
    """Return scores by row and class, and the classes."""
    # decision values first: probabilities may saturate at 0 and 1, and tie there
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            given = getattr(estimator, name)(X)
            classes = getattr(estimator, "classes_", ())
            if np.ndim(classes[:1]) > 1:  # several outputs, each with its own classes
                break
            scores = np.asarray(given)
            if scores.ndim == 1:  # of the second of two classes
                scores = np.stack([-scores, scores], axis=1)
            elif name == "decision_function" and _of_pairs(estimator):
                continue
            if scores.shape == (len(scores), len(classes)):
                return scores, np.asarray(classes)
    raise InputError(
        "this estimator does not score its classes",
        got=type(estimator).__name__,
        allowed="decision_function or predict_proba with a column per class",
    )


def _of_pairs(estimator: Any) -> bool:
    """Whether it decides between pairs of classes (`ovo`): three classes have as many pairs."""
    options = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return any(name.endswith("decision_function_shape") and options[name] == "ovo" for name in options)
