"""Checkpoints of PyKEEN: pickled models, and the folders that its pipeline saves.

Interactions that factor become models of `evenrank.models`, and nothing in the file is run. Any other
model is a black box: it has to be unpickled by PyKEEN, and is asked for its scores.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.models.readers._beside import mentions, named, require
from evenrank.models.readers.checkpoint import Checkpoint, damaged, torch_file
from evenrank.models.readers.pykeen._factors import factors
from evenrank.models.readers.pykeen._records import Record, records
from evenrank.models.readers.pykeen._scorer import BlackBox, scorer
from evenrank.ranks.task import HOLE

__all__ = ["BlackBox", "read", "recognises", "scorer"]

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
