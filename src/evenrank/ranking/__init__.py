"""Rank models: `rank(model, task)`, the interfaces of models, and checkpoints of rankings.

- `scorer`   `Scorer`, `Factoring`, `Factored`: what can be ranked
- `engine`   how candidates are scored and counted: on CPUs, on GPUs, by several processes
- `resume`   checkpoint folders, by which an interrupted ranking resumes
- `cluster`  the same work by the workers of a Dask cluster
"""

from evenrank.ranking._rank import open_checkpoint, rank
from evenrank.ranking.engine.run import launched, memory_limit, thread_count
from evenrank.ranking.scorer import Candidates, Factored, Factoring, Movable, Scorer

__all__ = [
    "Candidates",
    "Factored",
    "Factoring",
    "Movable",
    "Scorer",
    "launched",
    "memory_limit",
    "open_checkpoint",
    "rank",
    "thread_count",
]
