"""Rank-based evaluation on an even footing: exact, chance-adjusted metrics.

>>> import evenrank as er
>>> ranks = er.Ranks.of([1, 3, 1, 12], candidates=14_541)
>>> ranks.evaluate("mrr", "index(mrr)").flat()
{'mrr': 0.604166..., 'index(mrr)': 0.60388...}
>>> er.null("1/gmr", sizes=[14_541] * 40_932).mean()
0.000186867...
"""

from evenrank.adjusted import Adjusted, Affine, index, ratio, z
from evenrank.errors import (
    DegenerateError,
    EvenrankError,
    InputError,
    NoLawError,
    UnknownMetricError,
)
from evenrank.evaluation import Evaluation, adjust
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
from evenrank.ranks import Ranks
from evenrank.tally import Tally

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
    "Adjusted",
    "Affine",
    "DegenerateError",
    "Evaluation",
    "EvenrankError",
    "InputError",
    "Metric",
    "NoLawError",
    "Null",
    "Ranks",
    "Statistic",
    "Tally",
    "Transform",
    "UnknownMetricError",
    "adjust",
    "define",
    "desiderata",
    "index",
    "null",
    "parse",
    "ratio",
    "z",
]
