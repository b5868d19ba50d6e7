"""Helpers of the tests of imported ranks and predictions: Nations, scores, reference ranks."""

from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import evenrank as er
from evenrank.cli import app

MODELS = Path(er.__file__).parent / "models" / "bundled"
NATIONS = er.load("nations")
TASK = NATIONS.task("test")
PARTS = ("head", "relation", "tail")
NOTES = ": left out|: they may rank anywhere|: the last one counts"


def shell(*arguments):
    """Run a command in this process and return its output."""
    with redirect_stdout(StringIO()) as out:
        app([str(argument) for argument in arguments], standalone_mode=False)
    return out.getvalue()


def shell_error(*arguments):
    """Return the error message of a command."""
    with pytest.raises(er.errors.InputError) as error:
        shell(*arguments)
    return str(error.value)


def same(ranks, other):
    counts = ("better", "equal", "candidates")
    return all(np.array_equal(getattr(ranks, name), getattr(other, name)) for name in counts)


def said(notes):
    return [str(note.message) for note in notes]


@cache
def scored():
    """For each target, its query and the scores of all candidates; rounded, so that many tie."""
    model = er.models.load(MODELS / "nations-complex.safetensors")
    sides = []
    for part in TASK.parts:
        queries = np.empty((len(part.targets), 3), np.int64)
        queries[part.place] = part.queries[part.query_of]
        sides.append((queries, np.round(model.score(queries, np.arange(part.size)), 1)))
    return tuple(np.concatenate(both) for both in zip(*sides, strict=True))


@cache
def truth():
    """The ranks by those scores, from the engine."""
    queries, scores = scored()
    table = {tuple(query): row for query, row in zip(queries.tolist(), scores, strict=True)}
    return er.rank(lambda asked, ids: np.array([table[tuple(q)][ids] for q in asked.tolist()]), TASK)
