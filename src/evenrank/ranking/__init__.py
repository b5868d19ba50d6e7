"""Rank models: `rank(model, task)`, the interfaces of models, and checkpoints of rankings.

- `scorer`   `Scorer`, `Factoring`, `Factored`: what can be ranked
- `adapters` own models: torch modules and functions that score triples
- `conventions`  how own models are called, by the names of parameters
- `modules`  torch modules in evaluation mode
- `engine`   how candidates are scored and counted: on CPUs, on GPUs, by several processes
- `resume`   checkpoint folders, by which an interrupted ranking resumes
- `cluster`  the same work by the workers of a Dask cluster
"""

from evenrank.ranking._rank import open_checkpoint, rank
from evenrank.ranking.adapters import QueryScorer, TripleScorer
from evenrank.ranking.conventions import adapted
from evenrank.ranking.engine.run import launched, memory_limit, thread_count
from evenrank.ranking.modules import evaluating
from evenrank.ranking.scorer import Candidates, Factored, Factoring, Movable, Scorer

__all__ = [
    "Candidates",
    "Factored",
    "Factoring",
    "Movable",
    "QueryScorer",
    "Scorer",
    "TripleScorer",
    "adapted",
    "evaluating",
    "launched",
    "memory_limit",
    "open_checkpoint",
    "rank",
    "thread_count",
]
