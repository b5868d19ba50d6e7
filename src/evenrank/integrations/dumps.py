"""Ranks that other libraries computed, with the candidates and keys of the task.

    ampligraph(ranks, task)             the array that `evaluate` and `evaluate_performance` return
    pykeen(evaluator, task, triples)    the ranks of a `RankBasedEvaluator(clear_on_finalize=False)`
    libkge(path, task)                  the ranks of examples in `trace.yaml`

`task` is the task that was ranked, such as `graph.task("test")`; for AmpliGraph and LibKGE also just
the number of candidates. These two write one rank per target, so ties are already broken by their rule
(`settled` in the protocol), and the other tie-breaking rules cannot be recovered.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_type
from evenrank._internal.files import as_path
from evenrank.errors import InputError, Option
from evenrank.graphs.graph import PARTS
from evenrank.graphs.layouts import dictionary
from evenrank.integrations._lines import lines
from evenrank.ranks.protocol import Protocol
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task, in_place

__all__ = ["ampligraph", "libkge", "pykeen"]

Keys: TypeAlias = Mapping[str, NDArray[Any]]
SIDES = ("tail", "head")  # in the order of a task that asks both
AMPLIGRAPH = {"head": 0, "tail": 1}  # the columns of both sides: subject, object
LIBKGE = {"sp": "tail", "po": "head"}
FIELD = re.compile(
    r"\b(split|data|task|s|p|o|rank|rank_filtered|rank_filtered_with_test|epoch|job_id): ([^,}\s]+)"
)
FILTERS = re.compile(r"\bfilter_splits: \[([^\]]*)\]")


def ampligraph(
    ranks: ArrayLike, task: Task | int, *, settled: str = "worst", model: str = "AmpliGraph"
) -> Ranks:
    """Convert the array of ranks that AmpliGraph returns.

    Parameters
    ----------
    ranks : array-like, shape (triples, 2) or (triples,)
        Ranks with subject and object corrupted, or with one of them (``corrupt_side="s"`` or ``"o"``).
    task : Task or int
        The task that was ranked, or the number of candidates, as for ``corrupt_side="s+o"``.
    settled : str, default "worst"
        AmpliGraph's ``ranking_strategy``, by which ties are already broken.
    model : str
        Name of the model, for the protocol.

    Returns
    -------
    Ranks
        The ranks that the file holds.

    Raises
    ------
    InputError
        If the ranks are not those of the task.

    Examples
    --------
    >>> both = ampligraph([[3, 1], [7, 2]], 40)
    >>> both.better.tolist(), both.keys["side"].tolist()
    ([0, 1, 2, 6], ['tail', 'tail', 'head', 'head'])
    """
    # read: AmpliGraph 2.2, ScoringBasedEmbeddingModel.evaluate, evaluation/metrics.py
    table = columns.as_array("ranks", ranks)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] not in (1, 2):
        raise InputError(
            "ranks must be a row per triple, with one column or two", got=columns.described(table)
        )
    if table.dtype.kind in "iuf" and (table < 1).any():
        raise InputError(
            "ranks start at 1",
            got=table[table < 1][0],
            do="rank again with ranking_strategy='worst': with a filter, AmpliGraph's 'best' and "
            "'middle' subtract known true answers that were never counted",
        )
    protocol = {"settled": settled, "model": model}
    if isinstance(task, Task):
        sides = [part.side for part in task.parts]
        if len(sides) != table.shape[1] or not set(sides) <= AMPLIGRAPH.keys():
            raise InputError(
                "ranks and task differ in sides",
                got=f"{table.shape[1]} columns for {', '.join(sides)}",
                do=["make the task for the sides that were corrupted: ", Option("sides")],
            )
        found = [table[:, AMPLIGRAPH[side] if len(sides) == 2 else 0] for side in sides]
        return _placed(task, np.concatenate(found), protocol)
    if table.shape[1] == 1:
        return Ranks.of(table[:, 0], task, protocol=protocol)
    whole = np.concatenate([table[:, AMPLIGRAPH[side]] for side in SIDES])
    return Ranks.of(whole, task, keys={"side": np.repeat(SIDES, len(table))}, protocol=protocol)


def _placed(task: Task, ranks: NDArray[Any], protocol: Mapping[str, str]) -> Ranks:
    _check_length(task, len(ranks))
    return Ranks.of(ranks, task.candidates, keys=task.keys, protocol=task.protocol.updated(protocol))


def _check_length(task: Task, count: int) -> None:
    if count != len(task):
        raise InputError(
            "ranks and task differ in length",
            got=f"{count:,} ranks for {len(task):,} targets",
            do=[
                "use the split and the sides that were ranked; if triples with entities not seen in "
                "training were left out, load the graph with ",
                Option("unseen", "drop"),
            ],
        )


def pykeen(
    evaluator: Any, task: Task | None = None, triples: ArrayLike | None = None, *, model: str = "PyKEEN"
) -> Ranks:
    """Convert the optimistic and pessimistic ranks of PyKEEN's `RankBasedEvaluator`.

    Parameters
    ----------
    evaluator : RankBasedEvaluator or mapping of str to array
        An evaluator made with ``clear_on_finalize=False``, after evaluation; or arrays, as from
        ``np.load``, named ``tail.optimistic``, ``tail.pessimistic``, ``tail.candidates``, the same for
        head, and ``triples``.
    task : Task, optional
        The task that was ranked. Ranks are reordered to match it and get its keys; PyKEEN's numbers of
        candidates must be the same.
    triples : array-like, shape (triples, 3), optional
        The triples that were ranked, as names (``factory.triples``) or ids (``factory.mapped_triples``).
        A task needs them, because PyKEEN sorts triples.
    model : str
        Name of the model, for the protocol.

    Returns
    -------
    Ranks
        The ranks that the file holds.

    Raises
    ------
    InputError
        If the evaluator holds no ranks, or they are not those of the task.

    Examples
    --------
    >>> arrays = {"tail.optimistic": [1, 2], "tail.pessimistic": [1, 4], "tail.candidates": [9, 9]}
    >>> pykeen(arrays).equal.tolist()
    [0, 2]
    """
    # read: PyKEEN 1.11.1, pykeen/evaluation/rank_based_evaluator.py
    check_type(task, Task | None, "task must be a Task", do="graph.task(...)")
    arrays = evaluator if isinstance(evaluator, Mapping) else _held(evaluator)
    found = [side for side in (*SIDES, "relation") if f"{side}.optimistic" in arrays]
    sides = [part.side for part in task.parts] if task is not None else found
    names = [
        [f"{side}.{kind}" for side in sides] for kind in ("optimistic", "pessimistic", "candidates")
    ]
    missing = [name for kind in names for name in kind if name not in arrays]
    if missing or not sides:
        raise InputError(
            "the evaluator holds no ranks" if not found else f"the evaluator holds no {missing[0]}",
            got=", ".join(arrays) or "nothing",
            do="create it as RankBasedEvaluator(clear_on_finalize=False), then evaluate",
        )
    held = [[np.atleast_1d(arrays[name]) for name in kind] for kind in names]
    keys = {"side": np.repeat(np.array(sides, dtype=object), [len(column) for column in held[0]])}
    ranked = arrays.get("triples") if triples is None else triples
    if ranked is not None:
        keys |= _parts(ranked, [len(column) for kind in held for column in kind], len(sides))
    low, high, candidates = (
        columns.integers(name, np.concatenate(parts), 1)
        for name, parts in zip(
            ("optimistic ranks", "pessimistic ranks", "candidates"), held, strict=True
        )
    )
    if task is None:
        return Ranks.between(low, high, candidates, keys=keys, protocol={"model": model})
    if ranked is None:
        raise InputError(
            "the triples of the ranks are missing: PyKEEN sorts triples",
            do="set triples=testing.triples, or add an array of that name",
        )
    by_name = not set(map(str, keys["head"])).isdisjoint(map(str, task.keys["head"]))
    order = _order(
        task.keys if by_name else _ids(task),
        keys,
        "PyKEEN's evaluation",
        "that PyKEEN ranked; triples must be names, or ids of the graph",
    )
    low, high, candidates = low[order], high[order], candidates[order]
    apart = np.flatnonzero(candidates != task.candidates)
    if len(apart):
        row = apart[0]
        raise InputError(
            "PyKEEN and the task differ in the number of candidates",
            got=f"{int(candidates[row]):,} and {task.candidates[row]:,} in row {row}",
            do="filter the task as the evaluation (additional_filter_triples)",
        )
    protocol = replace(task.protocol, model=model)
    return Ranks.between(low, high, candidates, keys=task.keys, protocol=protocol)


def _parts(triples: ArrayLike, lengths: Sequence[int], sides: int) -> dict[str, NDArray[Any]]:
    """Return head, relation and tail of the ranked triples, repeated for each side."""
    table = columns.as_array("triples", triples)
    if table.ndim != 2 or table.shape[1] != 3 or set(lengths) != {len(table)}:
        raise InputError(
            "triples and ranks differ in number",
            got=f"triples of shape {table.shape} for {', '.join(map(str, sorted(set(lengths))))} ranks",
        )
    return dict(zip(PARTS, np.concatenate([table] * sides).T, strict=True))


def _held(evaluator: Any) -> dict[str, NDArray[Any]]:
    """Concatenate the batches of an evaluator."""
    if not all(
        isinstance(getattr(evaluator, name, None), Mapping) for name in ("ranks", "num_candidates")
    ):
        raise InputError(
            "evaluator must be a RankBasedEvaluator, or a mapping of arrays",
            got=type(evaluator).__name__,
        )
    ranks = {f"{side}.{kind}": batches for (side, kind), batches in evaluator.ranks.items()}
    counts = {f"{side}.candidates": batches for side, batches in evaluator.num_candidates.items()}
    return {name: np.concatenate(batches) for name, batches in (ranks | counts).items()}


def libkge(
    path: str | os.PathLike[str],
    task: Task | int,
    *,
    names: str | os.PathLike[str] | None = None,
    split: str = "test",
    model: str = "LibKGE",
) -> Ranks:
    """Read the ranks of examples from LibKGE's `trace.yaml`.

    LibKGE writes them with ``eval.trace_level: example``, and ``kge dump trace --example`` prints them.
    Of several evaluations of a split, the last one is used, with a warning.

    Parameters
    ----------
    path : path-like
        The file, or its folder.
    task : Task or int
        The task that was ranked, or the number of candidates.
    names : path-like, optional
        Folder of `entity_ids.del` and `relation_ids.del`, which a graph with names needs.
    split : str, default "test"
        The split to read, if `task` is a number of candidates.
    model : str
        Name of the model, for the protocol.

    Returns
    -------
    Ranks
        The ranks that the file holds.

    Raises
    ------
    InputError
        If the file has no ranks of the split, or they are not those of the task.
    """
    # read: uma-pi1/kge, kge/job/eval_entity_ranking.py, kge/job/trace.py
    file = as_path(path)
    file = file / "trace.yaml" if file.is_dir() else file
    known = task.protocol if isinstance(task, Task) else Protocol(split=split)
    examples = _examples(file, known.split or split)
    column = _column(file, examples[0], known.filter)
    missing = [1 for example in examples if column not in example]
    if missing:
        raise InputError(f"{file} has no {column}", got=f"{len(missing):,} such examples")
    ranks = _numbers(file, examples, column)
    triples = np.stack([_numbers(file, examples, letter) for letter in "spo"], axis=1)
    keys = _keys(triples, as_path(names) if names is not None else None)
    sides = [LIBKGE.get(example.get("task", "")) for example in examples]
    if None in sides:
        got = examples[sides.index(None)].get("task", "none")
        raise InputError(f"{file}: an example of another task", got=got, allowed=", ".join(LIBKGE))
    keys["side"] = np.array(sides, dtype=object)
    protocol = {"settled": "rounded mean, unless LibKGE was told otherwise", "model": model}
    if not isinstance(task, Task):
        return Ranks.of(ranks, task, keys=keys, protocol={"split": split, **protocol})
    what = "that LibKGE ranked"
    if names is None:
        what += "; a graph with names needs LibKGE's names: "
    order = _order(task.keys, keys, "the trace", what, *([Option("names")] if names is None else []))
    return _placed(task, ranks[order], protocol)


def _examples(file: Path, split: str) -> list[dict[str, str]]:
    """Read the examples of the last evaluation of a split."""
    runs: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for _, line in lines(file):
        if "scope: example" in line and "rank_filtered: " in line:
            example = dict(FIELD.findall(line))
            if example.get("split", example.get("data")) == split:
                filters = FILTERS.search(line)
                example["filter"] = filters[1] if filters else ""
                runs[example.get("job_id", ""), example.get("epoch", "")].append(example)
    if not runs:
        raise InputError(
            f"{file} has no ranks of examples of {split}",
            do="evaluate with LibKGE's eval.trace_level: example",
        )
    if len(runs) > 1:
        warnings.warn(f"{len(runs)} evaluations of {split} in {file}: the last one counts", stacklevel=3)
    return runs[next(reversed(runs))]


def _numbers(file: Path, examples: Sequence[Mapping[str, str]], name: str) -> Ints:
    """Return a field of all examples as numbers."""
    found = [example.get(name, "nothing") for example in examples]
    for text in found:
        if not re.fullmatch(r"\d{1,18}", text):
            raise InputError(f"{file}: {name} of an example must be a whole number", got=repr(text))
    return np.array(found, dtype=np.int64)


def _column(file: Path, example: Mapping[str, str], wanted: tuple[str, ...] | None) -> str:
    """Return the name of the rank that is filtered as the task."""
    if wanted is None:
        return "rank_filtered"
    if not wanted:
        return "rank"
    known, asked = set(re.findall(r"[\w-]+", example["filter"])), set(wanted)
    if not known or known == asked:
        return "rank_filtered"
    if known | {"test"} == asked:
        return "rank_filtered_with_test"
    raise InputError(
        "the task and LibKGE are filtered differently",
        got=f"{', '.join(wanted)} in the task, {example['filter']} in {file}",
        do=["make a task with the same ", Option("filter")],
    )


def _keys(triples: Ints, folder: Path | None) -> dict[str, NDArray[Any]]:
    """Return head, relation and tail, by name if a folder of names is given."""
    if folder is None:
        return dict(zip(PARTS, triples.T, strict=True))
    entity, relation = (
        np.array(dictionary(folder / f"{what}_ids.del", "text"), dtype=object)
        for what in ("entity", "relation")
    )
    for numbers, table in ((triples[:, ::2], entity), (triples[:, 1], relation)):
        if numbers.max() >= len(table):
            raise InputError(
                f"{folder} lacks names of the trace",
                got=f"number {numbers.max():,} of {len(table):,} names",
                do="use the data folder of training",
            )
    head, kind, tail = triples.T
    return dict(zip(PARTS, (entity[head], relation[kind], entity[tail]), strict=True))


def _ids(task: Task) -> dict[str, NDArray[Any]]:
    """Return head, relation, tail and side of each target, as ids of the graph."""
    triples = []
    for part in task.parts:
        filled = part.queries[part.query_of]
        filled[:, PARTS.index(part.side)] = part.targets
        triples.append(in_place(part, filled))
    return {**dict(zip(PARTS, np.concatenate(triples).T, strict=True)), "side": task.keys["side"]}


def _order(wanted: Keys, keys: Keys, source: str, ranked: str, *options: Option) -> list[int]:
    """Return the row of each target; those of repeated triples are used in turn."""
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, key in enumerate(_rows(keys)):
        places[key].append(i)
    order = [places[key].pop(0) if places.get(key) else -1 for key in _rows(wanted)]
    rest = sum(map(len, places.values()))
    if rest or -1 in order:
        raise InputError(
            f"{source} and the task differ in triples",
            got=f"{order.count(-1):,} only in the task, {rest:,} only in {source}",
            do=[f"use the split and the sides {ranked}", *options],
        )
    return order


def _rows(keys: Keys) -> Iterator[tuple[str, ...]]:
    columns: Sequence[list[Any]] = [keys[name].tolist() for name in (*PARTS, "side")]
    return (tuple(map(str, row)) for row in zip(*columns, strict=True))
