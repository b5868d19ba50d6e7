"""Reads checkpoints of PyKEEN: pickled models, and the folders that its pipeline saves.

Models whose scores factor become models of `evenrank.models`, and no code in the file runs. Any other
model is a black box: PyKEEN has to unpickle it, and computes its scores.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal.optional import need
from evenrank._internal.reading import content
from evenrank.errors import InputError
from evenrank.models.readers._beside import mentions, named, require
from evenrank.models.readers.checkpoint import TRUST, Checkpoint, damaged, torch_file
from evenrank.models.readers.pykeen._factors import factors
from evenrank.models.readers.pykeen._records import Record, records
from evenrank.models.readers.pykeen._scorer import BlackBox, scorer
from evenrank.ranks.task import HOLE

__all__ = ["BlackBox", "read", "recognises", "scorer"]

SAVED = "trained_model.pkl"  # the model of a pipeline
TRIPLES = "training_triples"  # the folder beside it with the names
DICTIONARIES = ("entity_to_id.tsv.gz", "relation_to_id.tsv.gz")


def recognises(path: Path) -> bool:
    """Recognise the folder of a pipeline, and pickles that mention PyKEEN."""
    if path.is_dir():
        return (path / SAVED).is_file() or (path / TRIPLES).is_dir()
    return mentions(path, b"pykeen.")


def read(path: Path, *, trust_pickle: bool = False) -> Checkpoint:
    """Read a model that PyKEEN pickled, or the folder a pipeline saved, with the names beside it.

    Models whose score factors are read without running code from the file, with or without PyKEEN
    installed, across its versions. Others have to be unpickled by PyKEEN, which needs `trust_pickle`.
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
    except Exception as reason:  # a file can hold anything; NoFactors and Unreadable give the reason
        if not trust_pickle:
            raise InputError(
                f"reading {file} means to unpickle it, which can run code in it",
                got=str(reason),
                do=TRUST,
            ) from None
        model = _unpickled(file)
    names = named(model, [file.parent / TRIPLES], DICTIONARIES, _names)
    return Checkpoint(model, *names, model.notes, leaves_out=True)


def _unpickled(file: Path) -> Any:
    """Unpickle the model, and check that the installed PyKEEN can use it."""
    need("pykeen")
    from pykeen.models import Model

    found = torch_file(file, trust_pickle=True)
    if not isinstance(found, Model):
        raise _no_model(file, found)
    try:
        model = scorer(found)
        model.score(np.array([[0, 0, HOLE]]), slice(0, 1))
    except Exception as error:  # models of another version can lack anything
        raise InputError(
            f"the installed PyKEEN cannot use the model in {file}",
            got=f"{type(error).__name__}: {error}",
            do="install the version that trained it, or give er.rank a function of queries and "
            "candidates",
        ) from None
    return model


def _no_model(file: Path, content: Any) -> InputError:
    return InputError(
        f"{file} does not hold a PyKEEN model",
        got=type(content).__name__,
        do="use the trained_model.pkl of a pipeline, or torch.save the model itself, not its state_dict",
    )


def _names(file: Path) -> list[str]:
    """Read the names of rows that a pipeline saved beside its model, quoted as by pandas."""
    text = content(file)
    try:
        _, *rows = csv.reader(io.StringIO(text.decode(), newline=""), delimiter="\t")
        names = {int(number): name for number, name in rows}
        return [names[i] for i in range(len(names))]
    except (ValueError, KeyError, csv.Error) as error:
        raise damaged(file, error) from None
