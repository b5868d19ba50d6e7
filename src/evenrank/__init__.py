"""Rank-based evaluation on an even footing: exact, chance-adjusted metrics.

>>> import evenrank as er
>>> ranks = er.Ranks.of([1, 3, 1, 12], candidates=14_541)
>>> ranks.evaluate("mrr", "index(mrr)").flat()
{'mrr': 0.604166..., 'index(mrr)': 0.60388...}
>>> er.null("1/gmr", sizes=[14_541] * 40_932).mean()
0.000186867...
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from evenrank import models
from evenrank.errors import DegenerateError, EvenrankError, InputError, NoLawError, UnknownMetricError
from evenrank.graphs import Graph, load
from evenrank.graphs.atlas import atlas
from evenrank.graphs.strata import strata
from evenrank.metrics.adjusted import Adjusted, Affine, index, ratio, z
from evenrank.metrics.chance import Null
from evenrank.metrics.desiderata import desiderata
from evenrank.metrics.grammar import define, null, parse
from evenrank.metrics.metric import (
    GMR,
    HITS,
    HMR,
    IGMR,
    IMR,
    MEDIAN,
    MR,
    MRR,
    NDCG,
    Metric,
    Statistic,
    Transform,
)
from evenrank.metrics.tally import Tally
from evenrank.published import Published, adjust, baseline, published
from evenrank.ranking import Factored, Scorer, rank
from evenrank.ranks import presets as protocols
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task
from evenrank.stats import Across, Comparison, Intervals, Seeds, across, compare, intervals, seeds
from evenrank.stats.averages import averages

if _TYPE_CHECKING:
    from evenrank import integrations
    from evenrank.ranking import cluster
    from evenrank.ranks.streams import Tallies, stream
    from evenrank.stats.sampled import Estimate, estimate

__version__ = "0.1.0"

__all__ = [
    "GMR",
    "HITS",
    "HMR",
    "IGMR",
    "IMR",
    "MEDIAN",
    "MR",
    "MRR",
    "NDCG",
    "Across",
    "Adjusted",
    "Affine",
    "Comparison",
    "DegenerateError",
    "Estimate",
    "Evaluation",
    "EvenrankError",
    "Factored",
    "Graph",
    "InputError",
    "Intervals",
    "Metric",
    "NoLawError",
    "Null",
    "Published",
    "Ranks",
    "Scorer",
    "Seeds",
    "Statistic",
    "Tallies",
    "Tally",
    "Task",
    "Transform",
    "UnknownMetricError",
    "across",
    "adjust",
    "atlas",
    "averages",
    "baseline",
    "cluster",
    "compare",
    "define",
    "desiderata",
    "estimate",
    "index",
    "integrations",
    "intervals",
    "load",
    "models",
    "null",
    "parse",
    "protocols",
    "published",
    "rank",
    "ratio",
    "seeds",
    "strata",
    "stream",
    "z",
]

# loaded when first used: most programs need none of them
_LATER = {
    "Estimate": "evenrank.stats.sampled",
    "Tallies": "evenrank.ranks.streams",
    "cluster": "evenrank.ranking.cluster",
    "estimate": "evenrank.stats.sampled",
    "integrations": "evenrank.integrations",
    "stream": "evenrank.ranks.streams",
}


def __getattr__(name: str) -> _Any:
    """Import what is loaded when first used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(_LATER[name])
    return module if _LATER[name].endswith(f".{name}") and name != "stream" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
