"""Rank-based evaluation on an even footing: exact, chance-adjusted metrics.

>>> import evenrank as er
>>> ranks = er.Ranks.of([1, 3, 1, 12], candidates=14_541)
>>> ranks.evaluate("mrr", "index(mrr)").flat()
{'mrr': 0.604166..., 'index(mrr)': 0.60388...}
>>> er.null("1/gmr", sizes=[14_541] * 40_932).mean()
0.000186867...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenrank import models, protocols
from evenrank.adjusted import Adjusted, Affine, index, ratio, z
from evenrank.compare import Across, Comparison, Intervals, Seeds, across, compare, intervals, seeds
from evenrank.data import Graph, load
from evenrank.data.atlas import atlas
from evenrank.data.strata import averages, strata
from evenrank.engine import Factored, Scorer, rank
from evenrank.errors import (
    DegenerateError,
    EvenrankError,
    InputError,
    NoLawError,
    UnknownMetricError,
)
from evenrank.evaluation import Evaluation
from evenrank.grammar import define, null, parse
from evenrank.law import Null
from evenrank.metric import (
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
from evenrank.properties import desiderata
from evenrank.published import Published, adjust, baseline, published
from evenrank.ranks import Ranks
from evenrank.tally import Tally
from evenrank.task import Task

if TYPE_CHECKING:
    from evenrank import cluster, integrations
    from evenrank.sampled import Estimate, estimate
    from evenrank.streams import Tallies, stream

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

# rooms that most programs never enter; imported when first asked for
LATER = {
    "Estimate": "sampled",
    "Tallies": "streams",
    "cluster": "cluster",
    "estimate": "sampled",
    "integrations": "integrations",
    "stream": "streams",
}


def __getattr__(name: str) -> Any:
    """Enter a room when something in it is first asked for."""
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = import_module(f"{__name__}.{LATER[name]}")
    return room if name == LATER[name] else getattr(room, name)
