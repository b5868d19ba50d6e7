"""PyKEEN's rank-based metrics, to the last digit, without repeated work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pykeen.evaluation import RankBasedMetricResults
from pykeen.evaluation.rank_based_evaluator import RankBasedMetricKey
from pykeen.metrics import ranking

NORMAL = 0.6744897501960817  # upper quartile of the normal distribution, PyKEEN's scale


def _geometric(ranks: NDArray[Any]) -> Any:
    return np.exp(np.mean(np.log(ranks)))


def _harmonic(ranks: NDArray[Any]) -> Any:
    return 1.0 / np.mean(1.0 / ranks)


# PyKEEN leaves these to SciPy, which takes longer to check its arguments than to add them up
STEPS: dict[type, Callable[[NDArray[Any]], Any]] = {
    ranking.GeometricMeanRank: _geometric,
    ranking.InverseGeometricMeanRank: lambda ranks: np.reciprocal(_geometric(ranks)),
    ranking.HarmonicMeanRank: _harmonic,
    ranking.InverseHarmonicMeanRank: lambda ranks: np.reciprocal(_harmonic(ranks)),
    ranking.MedianAbsoluteDeviation: lambda ranks: np.median(np.abs(ranks - np.median(ranks))) / NORMAL,
}


class Metrics:
    """Metrics for targets whose numbers of candidates stay the same between evaluations.

    An adjusted metric of PyKEEN scales and shifts its base metric by coefficients of these numbers.
    """

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._affine: dict[tuple[str, Any], tuple[float, float]] = {}

    def of(self, metrics: Iterable[Any], packs: Iterable[Any]) -> RankBasedMetricResults:
        """Compute all metrics of PyKEEN's packs of ranks, by its keys and in its order."""
        each: list[tuple[Any, dict[Any, float]]] = [(pack, {}) for pack in packs]
        return RankBasedMetricResults(
            {
                RankBasedMetricKey(pack.target, pack.rank_type, metric.key): self._value(
                    metric, pack, done
                )
                for metric in metrics
                for pack, done in each
            }
        )

    def _value(self, metric: Any, pack: Any, done: dict[Any, float]) -> float:
        if _is_affine(metric):
            if (pack.target, metric) not in self._affine:
                self._affine[pack.target, metric] = metric.get_coefficients(pack.num_candidates)
            scale, offset = self._affine[pack.target, metric]
            return scale * self._value(metric.base, pack, done) + offset
        one = type(metric), repr(vars(metric))  # hits@k for each k
        if one not in done:
            steps = STEPS.get(type(metric))
            done[one] = steps(pack.ranks).item() if steps else metric(pack.ranks, pack.num_candidates)
        return done[one]


def _is_affine(metric: Any) -> bool:
    """Whether a metric is an affine function of its base metric, as all adjusted ones of PyKEEN."""
    derived = ranking.DerivedRankBasedMetric
    kind = type(metric)
    return isinstance(metric, derived) and (kind.__call__, kind.adjust) == (
        derived.__call__,
        derived.adjust,
    )
