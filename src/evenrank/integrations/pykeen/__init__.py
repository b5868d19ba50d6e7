"""PyKEEN: its models ranked, its evaluator replaced, its triples taken and given.

    model = er.integrations.pykeen.scorer(pipeline_result.model)   # for er.rank
    graph = er.integrations.pykeen.graph(dataset)                  # of its triples factories
    pipeline(..., evaluator=er.integrations.pykeen.EvenRankEvaluator)

`er.integrations.load("trained_model.pkl", graph)` reads what a pipeline saved. Interactions that factor
become models of `evenrank.models` and are ranked by its engine; any other model is a black box that is
asked for its scores, and says so in its `notes`.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from evenrank.errors import InputError
from evenrank.extras import need
from evenrank.integrations._beside import mentions, named, require
from evenrank.integrations._checkpoint import Checkpoint, damaged, torch_file
from evenrank.integrations.pykeen._factors import factors
from evenrank.integrations.pykeen._factory import factories, graph
from evenrank.integrations.pykeen._records import Record, records
from evenrank.integrations.pykeen._scorer import BlackBox, scorer
from evenrank.task import HOLE

__all__ = ["BlackBox", "EvenRankEvaluator", "factories", "graph", "read", "recognises", "scorer"]

SAVED = "trained_model.pkl"  # what a pipeline calls its model,
TRIPLES = "training_triples"  # and the folder beside it that has the names
DICTIONARIES = ("entity_to_id.tsv.gz", "relation_to_id.tsv.gz")


def recognises(path: Path) -> bool:
    """Know the folder of a pipeline, and a pickle in which PyKEEN is named."""
    if path.is_dir():
        return (path / SAVED).is_file() or (path / TRIPLES).is_dir()
    return mentions(path, b"pykeen.")


def read(path: Path, *, trust_pickle: bool = False) -> Checkpoint:
    """Read a model that PyKEEN pickled, or the folder a pipeline saved, with the names beside it.

    Models whose score factors are read without running anything in the file, with or without PyKEEN,
    and across its versions. Others have to be unpickled by PyKEEN, which needs `trust_pickle`.
    """
    file = path
    if path.is_dir():
        require(path, SAVED)
        file = path / SAVED
    try:
        content = records(file)
        if not isinstance(content, Record):
            raise _no_model(file, content)
        model: Any = factors(content)
    except InputError:
        raise
    except Exception as reason:  # a file can say anything; NoFactors and Unreadable say why themselves
        if not trust_pickle:
            raise InputError(
                f"{file} can only be read by unpickling it, which may run code in it",
                got=str(reason),
                do="if you trust where it comes from: --trust-pickle, or trust_pickle=True",
            ) from None
        model = _unpickled(file)
    names = named(model, [file.parent / TRIPLES], DICTIONARIES, _names)
    return Checkpoint(model, *names, model.notes)


def _unpickled(file: Path) -> Any:
    """Let PyKEEN read the model, and see that it can still use it."""
    need("pykeen")
    from pykeen.models import Model

    found = torch_file(file, trust_pickle=True)
    if not isinstance(found, Model):
        raise _no_model(file, found)
    try:
        model = scorer(found)
        model.score(np.array([[0, 0, HOLE]]), slice(0, 1))
    except Exception as error:  # whatever a model of another version lacks
        raise InputError(
            f"the PyKEEN that is installed cannot use the model in {file}",
            got=f"{type(error).__name__}: {error}",
            do="score with the version that trained it: er.rank takes any function of queries and "
            "candidates",
        ) from None
    return model


def _no_model(file: Path, content: Any) -> InputError:
    return InputError(
        f"{file} holds no model of PyKEEN's",
        got=type(content).__name__,
        do="take the trained_model.pkl of a pipeline, or torch.save the model itself, not its state",
    )


def _names(file: Path) -> list[str]:
    """Read the names of rows that a pipeline saved beside its model, as pandas quotes them."""
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
            _, *rows = csv.reader(lines, delimiter="\t")
        names = {int(number): name for number, name in rows}
        return [names[i] for i in range(len(names))]
    except (OSError, EOFError, ValueError, KeyError, csv.Error, zlib.error) as error:
        raise damaged(file, error) from None


def __getattr__(name: str) -> Any:
    """Import the evaluator, and PyKEEN with it, when it is first asked for."""
    if name != "EvenRankEvaluator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need("pykeen")
    return import_module(f"{__name__}._evaluator").EvenRankEvaluator
