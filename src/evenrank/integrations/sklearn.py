"""Classifiers judged as rankers: scorers for `cross_validate`, `GridSearchCV` and the rest.

A classifier scores every class; the right one has a rank among them. Nothing of scikit-learn is
imported: anything with `classes_` and `decision_function` or `predict_proba` will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank.errors import InputError
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import parse
from evenrank.metrics.ties import Ties, check_ties
from evenrank.ranks.ranks import Ranks

__all__ = ["RankingScorer", "ranks", "scorer"]


@dataclass(frozen=True)
class RankingScorer:
    """What `scoring=` takes: called with a fitted classifier, inputs and classes; higher is better."""

    metrics: tuple[Expression, ...]
    ties: Ties = "expected"

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float | dict[str, float]:  # noqa: N803
        """Give the value, or one per name; negated where less is better, and named `neg_` then."""
        values = ranks(estimator, X, y).evaluate(*self.metrics, ties=self.ties).to_dict(plain=True)
        for metric, name in zip(self.metrics, [*values], strict=True):
            if metric.increasing is False:
                values[f"neg_{name}"] = -values.pop(name)
        return values if len(values) > 1 else values.popitem()[1]


def scorer(*metrics: str | Expression, ties: Ties = "expected") -> RankingScorer:
    """Make a scorer of one metric, or of several for `cross_validate`, which names them.

    >>> scorer("index(mrr)"), scorer("mrr", "mr").metrics
    (RankingScorer(metrics=(Adjusted('index(mrr)'),), ties='expected'), (Metric('mrr'), Metric('mr')))
    """
    if not metrics:
        raise InputError("a scorer needs a metric", do="e.g. scorer('index(mrr)')")
    check_ties(ties)
    return RankingScorer(tuple(dict.fromkeys(map(parse, metrics))), ties)


def ranks(estimator: Any, X: Any, y: ArrayLike) -> Ranks:  # noqa: N803  # scikit-learn's names
    """Rank the right class of each row of `X` by a classifier's scores.

    `y` holds a class per row, or a column per class that marks all that are right: then each is ranked,
    the others of its row left out.
    """
    scores, classes = _scores(estimator, X)
    right = y.toarray() if hasattr(y, "toarray") else np.asarray(y)  # marks are often sparse
    protocol = {"model": type(estimator).__name__, "candidates": "classes"}
    if right.ndim == 2:
        if right.shape != scores.shape:
            raise InputError(
                "scores and right answers differ in shape", got=f"{scores.shape} and {right.shape}"
            )
        row, column = np.nonzero(right)
        keys = {"row": row, "class": classes[column]}
        return Ranks.from_scores(scores[row], column, right[row] != 0, keys=keys, protocol=protocol)
    place = {name: i for i, name in enumerate(classes.tolist())}
    unseen = [name for name in dict.fromkeys(right.tolist()) if name not in place]
    if unseen:
        raise InputError(
            "a class that was not seen in training has no rank",
            got=repr(unseen[0]),
            allowed=f"the {len(place):,} classes of the fitted {type(estimator).__name__}",
            do="keep every class in each training fold (StratifiedKFold)",
        )
    target = np.array([place[name] for name in right.tolist()])
    return Ranks.from_scores(scores, target, keys={"class": right}, protocol=protocol)


def _scores(estimator: Any, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: N803
    """Give scores by row and class, and the classes."""
    # decision values first: probabilities may have run into 0 and 1, and tie there
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            given = getattr(estimator, name)(X)
            classes = getattr(estimator, "classes_", ())
            if np.ndim(classes[:1]) > 1:  # several outputs, each with classes of its own
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
