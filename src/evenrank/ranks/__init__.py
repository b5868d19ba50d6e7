"""Ranking tasks, protocols, ranks and evaluations.

- `task`        `Task`: queries, targets, candidates and known true answers
- `protocol`    `Protocol`: how ranks were computed
- `presets`     the ranking protocols of other libraries
- `ranks`       `Ranks`: a row per ranked target
- `files`       files of ranks
- `evaluation`  `Evaluation`: values of metrics, and their tables
- `selection`   groups in the order of a metric, and those with enough targets
- `pivot`       `Pivot`: models side by side, with a row per group
- `streams`     evaluation of files of ranks larger than memory
"""

from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.pivot import Pivot
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Groups, Ranks
from evenrank.ranks.task import Task

__all__ = ["Evaluation", "Groups", "Pivot", "Protocol", "Ranks", "Task"]
