"""The question and the answer: tasks, protocols, ranks and evaluations.

- `task`        `Task`: queries, targets, candidates and known answers
- `protocol`    `Protocol`: how ranks were computed
- `presets`     how other libraries rank by default
- `ranks`       `Ranks`: a row per ranked target
- `files`       files of ranks
- `evaluation`  `Evaluation`: values of metrics, and how they are shown
- `streams`     files of ranks that are larger than memory
"""

from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Groups, Ranks
from evenrank.ranks.task import Task

__all__ = ["Evaluation", "Groups", "Protocol", "Ranks", "Task"]
