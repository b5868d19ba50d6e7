"""PyKEEN's rank-based evaluator with the ranking done by evenrank: the same keys, the same numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pykeen.evaluation import RankBasedEvaluator, RankBasedMetricResults, evaluator_resolver
from pykeen.evaluation.rank_based_evaluator import _iter_ranks

from evenrank.engine import rank
from evenrank.integrations.pykeen._metrics import Metrics
from evenrank.integrations.pykeen._scorer import scorer
from evenrank.ranks import Ranks
from evenrank.sums import Ints
from evenrank.task import HOLE, Task

COLUMN = {"head": 0, "tail": 2}
LIMITS = ("restrict_entities_to", "restrict_relations_to")


class EvenRankEvaluator(RankBasedEvaluator):  # type: ignore[misc]  # PyKEEN is not there when types are checked
    """A `RankBasedEvaluator` for pipelines and early stoppers, faster and in bounded memory.

    It takes the options of PyKEEN's evaluator, and `memory`, `threads` and `exact` of `er.rank`. Ranks
    are counted by evenrank, on the model's device; metrics, their keys and conventions are PyKEEN's. Two
    things differ: scores that are not a number are refused, and `filtered=False` works. What is prepared
    for an evaluation is kept for the next one of the same triples, so an early stopper pays for it once.
    `ranked` holds the ranks of the last evaluation for all that evenrank makes of them.
    """

    def __init__(
        self,
        *args: Any,
        memory: int | str | None = None,
        threads: int | None = None,
        exact: bool = True,
        **kwargs: Any,
    ) -> None:
        """Take the options of both."""
        super().__init__(*args, **kwargs)
        self._options: dict[str, Any] = {"memory": memory, "threads": threads, "exact": exact}
        self._prepared = _Prepared()
        self.ranked: Ranks | None = None

    def evaluate(
        self, model: Any, mapped_triples: Any, *args: Any, **given: Any
    ) -> RankBasedMetricResults:
        """Evaluate as PyKEEN does without sorting all known triples, which takes it the longest."""
        known, targets = given.get("additional_filter_triples"), given.get("targets", tuple(COLUMN))
        limited = self.mode or any(given.get(limit) is not None for limit in LIMITS)
        if args or limited or known is None or not self.filtered or not set(targets) <= COLUMN.keys():
            return super().evaluate(model, mapped_triples, *args, **given)
        return self._evaluate_on_device(
            model,
            mapped_triples=mapped_triples,
            all_pos_triples=[*(known if isinstance(known, list) else [known]), mapped_triples],
            targets=targets,
            restrict_entities_to=None,
            device=given.get("device") or model.device,
            tqdm_kwargs={"disable": not given.get("use_tqdm", True), **(given.get("tqdm_kwargs") or {})},
        )

    def _evaluate_on_device(self, model: Any, **given: Any) -> RankBasedMetricResults:
        """Rank by evenrank where PyKEEN would go through batches."""
        if self.mode:  # inductive: each mode has entities of its own
            return super()._evaluate_on_device(model=model, **given)
        known = given["all_pos_triples"]
        known = known if known is None or isinstance(known, list) else [known]
        self._prepared.take(
            _rows(given["mapped_triples"]),
            None if known is None else [_rows(triples) for triples in known],
            tuple(given["targets"]),
            model.num_entities,
            given["restrict_entities_to"],
        )
        shown = not given["tqdm_kwargs"].get("disable", False)
        model = scorer(model.to(given["device"]))
        self.ranked = rank(model, self._prepared.task, progress=shown, **self._options)
        self.clear()
        self.num_entities = model.entities
        for (side,), ranks in self.ranked.by("side"):
            optimistic = ranks.better + 1
            pessimistic = optimistic + ranks.equal
            self.ranks[side, "optimistic"].append(optimistic)
            # in single precision, as PyKEEN has it: its means then have the same digits
            self.ranks[side, "realistic"].append(((optimistic + pessimistic) / 2).astype(np.float32))
            self.ranks[side, "pessimistic"].append(pessimistic)
            self.num_candidates[side].append(ranks.candidates)
        results = self._prepared.metrics.of(self.metrics, _iter_ranks(self.ranks, self.num_candidates))
        if self.clear_on_finalize:
            self.clear()
        return results


evaluator_resolver.register(EvenRankEvaluator)  # searches write down its name, and look it up again


class _Prepared:
    """What an evaluation needs of triples alone, kept while these stay the same."""

    task: Task
    metrics: Metrics

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._words: tuple[Any, ...] = ()

    def take(self, triples: Ints, known: list[Ints] | None, *words: Any) -> None:
        """Prepare for triples, unless they are those of the last time."""
        rows, words = [triples, *(known or [])], (known is None, *words)
        same = words == self._words and len(rows) == len(self._rows)
        if same and all(map(np.array_equal, rows, self._rows)):
            return
        self.task = _task(triples, None if known is None else np.concatenate(known), *words[1:])
        self.metrics = Metrics()
        self._rows, self._words = [some.copy() for some in rows], words


def _rows(triples: Any) -> Ints:
    found: Ints = triples.cpu().numpy()
    return found


def _task(
    triples: Ints,
    known: Ints | None,
    targets: Collection[str],
    size: int,
    among: Collection[int] | None,
) -> Task:
    """Ask for the heads and tails of triples, among all entities or some."""
    lists: dict[str, Any] = {}
    if among is not None:
        lists = {"candidates": [_ids(among)], "group": np.zeros(len(triples), dtype=np.int64)}
    parts = [
        Task.of(
            _asked(triples, side),
            triples[:, COLUMN[side]],
            size=size,
            known=None if known is None else (_asked(known, side), known[:, COLUMN[side]]),
            side=side,
            outside="add",
            keys=dict(zip(("head", "relation", "tail"), triples.T, strict=True)) | {"side": side},
            **lists,
        )
        for side in targets
    ]
    words = {"filter": "none" if known is None else "given", "sides": ", ".join(targets)}
    return Task.join(parts, {**words, "candidates": "all" if among is None else "given"})


def _asked(triples: Ints, side: str) -> Ints:
    rows = triples.copy()
    rows[:, COLUMN[side]] = HOLE
    return rows


def _ids(among: Collection[int]) -> NDArray[Any]:
    return np.unique(np.fromiter((int(one) for one in among), dtype=np.int64))
