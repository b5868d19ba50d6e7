"""Ranking tasks, protocols, ranks and evaluations.

- `task`        `Task`: queries, targets, candidates and known true answers
- `protocol`    `Protocol`: how ranks were computed
- `presets`     the ranking protocols of other libraries
- `ranks`       `Ranks`: a row per ranked target
- `rankings`    `Rankings`: queries with all of their answers
- `answers`     answers of rankings: checked and in order, or joined from ranks of single answers
- `tables`      rankings as tables, with a row per query or per answer
- `scores`      better and equal candidates, counted in matrices of scores
- `rows`        what ranks and rankings have in common: weights, keys, groups and a protocol
- `files`       files of ranks
- `evaluation`  `Evaluation`: values of metrics, and their tables
- `selection`   groups in the order of a metric, and those with enough targets
- `pivot`       `Pivot`: models side by side, with a row per group
- `streams`     evaluation of files of ranks larger than memory
"""

from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.pivot import Pivot
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.rankings import Rankings
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.rows import Groups
from evenrank.ranks.task import Task

__all__ = ["Evaluation", "Groups", "Pivot", "Protocol", "Rankings", "Ranks", "Task"]
