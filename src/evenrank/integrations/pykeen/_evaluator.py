"""PyKEEN's rank-based evaluator with the ranking done by evenrank: the same keys, the same numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pykeen.evaluation import RankBasedEvaluator, RankBasedMetricResults, evaluator_resolver

from evenrank.engine import rank
from evenrank.integrations.pykeen._scorer import scorer
from evenrank.ranks import Ranks
from evenrank.sums import Ints
from evenrank.task import HOLE, Task

COLUMN = {"head": 0, "tail": 2}


class EvenRankEvaluator(RankBasedEvaluator):  # type: ignore[misc]  # PyKEEN is not there when types are checked
    """A `RankBasedEvaluator` for pipelines and early stoppers, faster and in bounded memory.

    It takes the options of PyKEEN's evaluator, and `memory`, `threads` and `exact` of `er.rank`. Ranks
    are counted by evenrank, on the model's device; metrics are computed from them by PyKEEN, so its keys
    and its conventions are the same. Two things differ: scores that are not a number are refused,
    and `filtered=False` works. `ranked` holds the ranks of the last evaluation for all that evenrank
    makes of them.
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
        self.ranked: Ranks | None = None

    def _evaluate_on_device(self, model: Any, **given: Any) -> RankBasedMetricResults:
        """Rank by evenrank where PyKEEN would go through batches; the rest of `evaluate` is PyKEEN's."""
        if self.mode is not None:  # inductive: each mode has entities of its own
            return super()._evaluate_on_device(model=model, **given)
        known = given["all_pos_triples"]
        task = _task(
            given["mapped_triples"].cpu().numpy(),
            None if known is None else known.cpu().numpy(),
            given["targets"],
            model.num_entities,
            given["restrict_entities_to"],
        )
        shown = not given["tqdm_kwargs"].get("disable", False)
        self.ranked = rank(scorer(model.to(given["device"])), task, progress=shown, **self._options)
        self.clear()
        self.num_entities = model.num_entities
        for (side,), ranks in self.ranked.by("side"):
            optimistic = ranks.better + 1
            pessimistic = optimistic + ranks.equal
            self.ranks[side, "optimistic"].append(optimistic)
            # in single precision, as PyKEEN has it: its means then have the same digits
            self.ranks[side, "realistic"].append(((optimistic + pessimistic) / 2).astype(np.float32))
            self.ranks[side, "pessimistic"].append(pessimistic)
            self.num_candidates[side].append(ranks.candidates)
        return self.finalize()


evaluator_resolver.register(EvenRankEvaluator)  # searches write down its name, and look it up again


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
