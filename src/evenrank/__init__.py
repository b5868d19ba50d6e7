"""Rank-based evaluation of link prediction, recommendation, retrieval and other ranking tasks.

evenrank ranks the targets of knowledge graph embedding models and other scorers among their candidates,
exactly and with ties broken by explicit rules, and evaluates ranks from any source. It computes
rank-based metrics (MR, MRR, hits@k, ...), their exact null distributions under random ranking and
chance-adjusted indices and z-scores, which are comparable across data sets with different numbers of
candidates; confidence intervals and paired tests; and reports.

>>> import evenrank as er
>>> ranks = er.Ranks.of([1, 3, 1, 12], candidates=14_541)
>>> ranks.evaluate("mrr", "index(mrr)").to_dict()
{'mrr': 0.604166..., 'index(mrr)': 0.60388...}
>>> er.chance("1/gmr", sizes=[14_541] * 40_932).mean()
0.000186867...
"""

import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from evenrank import errors, integrations, models, published
    from evenrank.graphs import Graph, load
    from evenrank.graphs.atlas import atlas
    from evenrank.graphs.strata import strata
    from evenrank.metrics.chance import chance
    from evenrank.metrics.desiderata import desiderata
    from evenrank.metrics.grammar import define, parse
    from evenrank.metrics.metric import GMR, HITS, HMR, IGMR, IMR, MEDIAN, MR, MRR, NDCG, Metric
    from evenrank.metrics.tally import Tally
    from evenrank.published import adjust, baseline
    from evenrank.ranking import Factored, Scorer, cluster, rank
    from evenrank.ranks import Evaluation, Protocol, Rankings, Ranks, Task
    from evenrank.ranks.streams import stream
    from evenrank.report import explore, latex, leaderboard, report
    from evenrank.stats import across_datasets, averages, compare, evaluate, intervals, summarize_runs
    from evenrank.stats.sampled import estimate_full

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022  # grouped by subject
    # metrics
    "Metric",
    "MR",
    "MRR",
    "HITS",
    "GMR",
    "HMR",
    "IMR",
    "IGMR",
    "NDCG",
    "MEDIAN",
    "parse",
    "define",
    "chance",
    "desiderata",
    # ranks
    "Ranks",
    "Rankings",
    "Tally",
    "Protocol",
    "Evaluation",
    "stream",
    # ranking models
    "load",
    "Graph",
    "Task",
    "rank",
    "Factored",
    "Scorer",
    # statistics
    "evaluate",
    "intervals",
    "compare",
    "across_datasets",
    "summarize_runs",
    "averages",
    "strata",
    "estimate_full",
    # published numbers
    "adjust",
    "atlas",
    "baseline",
    # reports
    "report",
    "latex",
    "explore",
    "leaderboard",
    # modules
    "models",
    "published",
    "integrations",
    "cluster",
    "errors",
]

# every name is imported on first use, so that the shell starts without NumPy where it can
_NAMES = {
    "graphs": "Graph load",
    "graphs.atlas": "atlas",
    "graphs.strata": "strata",
    "metrics.chance": "chance",
    "metrics.desiderata": "desiderata",
    "metrics.grammar": "define parse",
    "metrics.metric": "GMR HITS HMR IGMR IMR MEDIAN MR MRR NDCG Metric",
    "metrics.tally": "Tally",
    "published": "adjust baseline",
    "ranking": "Factored Scorer rank",
    "ranks": "Evaluation Protocol Rankings Ranks Task",
    "ranks.streams": "stream",
    "report": "explore latex leaderboard report",
    "stats": "across_datasets averages compare evaluate intervals summarize_runs",
    "stats.sampled": "estimate_full",
}
_PACKAGES = (
    *("errors", "graphs", "integrations", "metrics", "models", "published", "ranking", "ranks", "stats"),
)
_LATER = {name: (module, name) for module, names in _NAMES.items() for name in names.split()}
_LATER |= {name: (name, "") for name in _PACKAGES} | {"cluster": ("ranking.cluster", "")}


class _Package(_ModuleType):
    """The type of this module: loading the package `report` keeps its function."""

    def __setattr__(self, name: str, value: _Any) -> None:
        """Set an attribute, as the import system does for a package that it has loaded."""
        if not (name == "report" and isinstance(value, _ModuleType)):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> _Any:
    """Import names on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LATER[name]
    found = _import_module(f"{__name__}.{module}")
    globals()[name] = found = getattr(found, attribute) if attribute else found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
