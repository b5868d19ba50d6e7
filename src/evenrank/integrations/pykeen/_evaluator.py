"""PyKEEN's rank-based evaluator with ranking by evenrank: the same keys and numbers."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from pykeen.evaluation import RankBasedEvaluator, RankBasedMetricResults, evaluator_resolver
from pykeen.evaluation.rank_based_evaluator import _iter_ranks
from torch import is_tensor

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.graphs.graph import PARTS, Graph
from evenrank.integrations.pykeen._labels import as_graph, facts, names
from evenrank.integrations.pykeen._metrics import Metrics
from evenrank.models.readers.pykeen import BlackBox, scorer
from evenrank.ranking import rank
from evenrank.ranking.engine.run import memory_limit, thread_count
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import HOLE, Task

COLUMN = {"head": 0, "tail": 2}
EVALUATE = signature(RankBasedEvaluator.evaluate)


class EvenRankEvaluator(RankBasedEvaluator):  # type: ignore[misc]  # PyKEEN is not there when types are checked
    """A faster `RankBasedEvaluator` in bounded memory, for pipelines and early stoppers.

    evenrank computes ranks, on the model's device; metrics, their keys and conventions are PyKEEN's. Two
    things differ: scores that contain NaN raise an error, and ``filtered=False`` works. Preparations are
    kept for the next evaluation of the same triples, so an early stopper needs them once. The attribute
    `ranked` holds the ranks of the last evaluation.

    PyKEEN evaluates numbered triples, without names. The ranks have the names of entities and relations,
    the data set, its split and the filter if `dataset` is given; `evenrank.integrations.pykeen.ranks`
    adds them to the ranks of a pipeline afterwards.

    Parameters
    ----------
    *args
        As for PyKEEN's evaluator.
    dataset : Dataset or Graph, optional
        The data set of the triples that will be evaluated.
    memory : int or str, optional
        Memory limit, as for `evenrank.rank`.
    threads : int, optional
        Number of threads, as for `evenrank.rank`.
    exact : bool, default True
        Whether ranks are exact, as for `evenrank.rank`.
    **kwargs
        As for PyKEEN's evaluator.
    """

    def __init__(
        self,
        *args: Any,
        dataset: Any = None,
        memory: int | str | None = None,
        threads: int | None = None,
        exact: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        memory_limit(memory), thread_count(threads)  # raise errors before training
        self._options: dict[str, Any] = {"memory": memory, "threads": threads, "exact": exact}
        self._prepared = _Prepared(None if dataset is None else as_graph(dataset))
        self._told = False
        self.ranked: Ranks | None = None

    @wraps(RankBasedEvaluator.evaluate)
    def evaluate(self, *args: Any, **kwargs: Any) -> RankBasedMetricResults:
        """Evaluate as PyKEEN does, without its slowest step: sorting all known triples."""
        bound = EVALUATE.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        _check(given["mapped_triples"], given["targets"])
        known = given["additional_filter_triples"]
        limited = given["restrict_entities_to"] is not None or given["restrict_relations_to"] is not None
        self.ranked = None
        if limited or self.mode or known is None or not self.filtered or "relation" in given["targets"]:
            found = super().evaluate(*args, **kwargs)
        else:
            quiet = {} if given["use_tqdm"] else {"disable": True}
            found = self._evaluate_on_device(
                given["model"],
                mapped_triples=given["mapped_triples"],
                all_pos_triples=[*([known] if is_tensor(known) else known), given["mapped_triples"]],
                targets=given["targets"],
                restrict_entities_to=None,
                device=given["device"] or given["model"].device,
                tqdm_kwargs={**(given["tqdm_kwargs"] or {}), **quiet},
            )
        if isinstance(found, Results) and self.filtered:
            found.known = [] if known is None else [known] if is_tensor(known) else list(known)
        return found

    def _evaluate_on_device(self, model: Any, **given: Any) -> RankBasedMetricResults:
        """Rank by evenrank instead of PyKEEN's batches."""
        if self.mode:  # inductive: each mode has its own entities
            return super()._evaluate_on_device(model=model, **given)
        known, among = given["all_pos_triples"], given["restrict_entities_to"]
        known = [known] if is_tensor(known) else known
        graph = self._prepared.graph
        if graph is not None and len(graph.entities) != model.num_entities:
            raise InputError(
                "the model has other entities than the data set of the evaluator",
                got=f"{model.num_entities:,} and {len(graph.entities):,}",
                do="pass the data set the model is trained on",
            )
        self._prepared.take(
            _rows(given["mapped_triples"]),
            None if known is None else [_rows(triples) for triples in known],
            tuple(given["targets"]),
            model.num_entities,
            None if among is None else tuple(sorted({int(one) for one in among})),
        )
        shown = not given["tqdm_kwargs"].get("disable", False)
        model = scorer(model.to(given["device"]))
        if isinstance(model, BlackBox) and not self._told:
            self._told = True
            warnings.warn(f"{model.name} {model.notes[0]}", RuntimeWarning, stacklevel=3)
        self.ranked = rank(model, self._prepared.task, progress=shown, **self._options)
        self.clear()
        self.num_entities = model.entities
        for (side,), ranks in self.ranked.by("side"):
            optimistic = ranks.better + 1
            pessimistic = optimistic + ranks.equal
            self.ranks[side, "optimistic"].append(optimistic)
            # in single precision as in PyKEEN, so that means have the same digits
            self.ranks[side, "realistic"].append(((optimistic + pessimistic) / 2).astype(np.float32))
            self.ranks[side, "pessimistic"].append(pessimistic)
            self.num_candidates[side].append(ranks.candidates)
        packs = _iter_ranks(self.ranks, self.num_candidates)
        results = Results(self._prepared.metrics.of(self.metrics, packs).data)
        results.ranked, results.triples = self.ranked, given["mapped_triples"]
        results.labelled = graph is not None
        if self.clear_on_finalize:
            self.clear()
        return results


evaluator_resolver.register(
    EvenRankEvaluator
)  # hyperparameter searches store its name and look it up again


class Results(RankBasedMetricResults):  # type: ignore[misc]
    """PyKEEN's results, and the ranks that they are of.

    Attributes
    ----------
    ranked : Ranks
        The ranks.
    labelled : bool
        Whether the ranks have the names of a data set.
    triples : LongTensor
        The evaluated triples.
    known : list of LongTensor or None
        Further known triples, as given to the evaluator; None if they were not filtered out.
    """

    ranked: Ranks
    labelled: bool
    triples: Any
    known: Any = None


class _Prepared:
    """Preparations that depend on triples alone, kept while these stay the same."""

    task: Task
    metrics: Metrics

    def __init__(self, graph: Graph | None) -> None:
        self.graph = graph
        self._rows: list[Ints] = []
        self._words: tuple[Any, ...] = ()

    def take(self, triples: Ints, known: list[Ints] | None, *words: Any) -> None:
        """Prepare for triples, unless they are those of the last evaluation."""
        rows, words = [triples, *(known or [])], (known is None, *words)
        same = words == self._words and len(rows) == len(self._rows)
        if same and all(map(np.array_equal, rows, self._rows)):
            return
        every = None if known is None else np.concatenate(known)
        self.task = _task(triples, every, self.graph, *words[1:])
        self.metrics = Metrics()
        self._rows, self._words = [some.copy() for some in rows], words


def _check(triples: Any, targets: Any) -> None:
    """Check arguments that would raise obscure errors in PyKEEN."""
    if not is_tensor(triples):
        raise InputError(
            "triples must be a tensor of ids",
            got=type(triples).__name__,
            do="use the mapped_triples of a triples factory",
        )
    if isinstance(targets, str) or not set(targets) <= {*COLUMN, "relation"}:
        raise InputError("unknown targets", got=repr(targets), allowed="a list of head, tail, or both")


def _rows(triples: Any) -> Ints:
    found: Ints = triples.cpu().numpy()
    return found


def _task(
    triples: Ints,
    known: Ints | None,
    graph: Graph | None,
    targets: Collection[str],
    size: int,
    among: tuple[int, ...] | None,
) -> Task:
    """Make a task of the heads and tails of triples, among all entities or some."""
    lists: dict[str, Any] = {}
    if among is not None:
        lists = {"candidates": [among], "group": np.zeros(len(triples), dtype=np.int64)}
    words: dict[str, Any] = {"filter": "none" if known is None else "given"}
    words |= {"sides": ", ".join(targets), "candidates": "all" if among is None else "given"}
    keys: dict[str, Any] = dict(zip(PARTS, triples.T, strict=True))
    if graph is not None:
        words |= facts(graph, triples, known)
        keys = names(graph, triples)
    parts = [
        Task.of(
            _asked(triples, side),
            triples[:, COLUMN[side]],
            size=size,
            known=None if known is None else (_asked(known, side), known[:, COLUMN[side]]),
            side=side,
            outside="add",
            keys=keys | {"side": side},
            **lists,
        )
        for side in targets
    ]
    return Task.join(parts, words)


def _asked(triples: Ints, side: str) -> Ints:
    rows = triples.copy()
    rows[:, COLUMN[side]] = HOLE
    return rows
