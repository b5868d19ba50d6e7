"""Reads checkpoints of the RotatE code: a folder with `config.json` and two NumPy tables.

Read in `codes/model.py` and `codes/run.py` of DeepGraphLearning/KnowledgeGraphEmbedding. Rows are
numbered by the data set's `entities.dict` and `relations.dict`; complex rows hold all real parts, then
all imaginary parts. Scores are gamma minus a distance, or a product: gamma does not change their order,
but together with the dimension it gives the unit in which phases are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal.arrays import wide
from evenrank._internal.checks import check_choice
from evenrank.errors import InputError
from evenrank.models import ComplEx, DistMult, Model, RotatE, TransE
from evenrank.models.readers._alike import on_circles
from evenrank.models.readers._beside import SETTINGS, mentions, named, require, settings, table
from evenrank.models.readers.checkpoint import Checkpoint, called

FILES = (SETTINGS, "entity_embedding.npy", "relation_embedding.npy")
PI = 3.14159262358979323846  # as in the code, wrong from the eighth digit
EPSILON = 2.0
MODELS: Mapping[str, Callable[[Any, Any, float], Model]] = {
    "TransE": lambda e, r, _: TransE(e, r, p=1),
    "DistMult": lambda e, r, _: DistMult(e, r),
    "ComplEx": lambda e, r, _: ComplEx(e, r),
    "RotatE": lambda e, r, scale: RotatE(e, wide(r) / scale, p=1),
    # sum |sin(a - b)|, which is half the sum of |exp(2ia) - exp(2ib)|
    "pRotatE": lambda e, r, scale: on_circles(2 * wide(e) / scale, 2 * wide(r) / scale, p=1),
}


def recognises(path: Path) -> bool:
    """Recognise a folder by its tables, or by settings that no other code writes."""
    written = mentions(path / SETTINGS, b'"double_entity_embedding"')
    return written or any((path / name).is_file() for name in FILES[1:])


def read(path: Path, *, trust_pickle: bool = False) -> Checkpoint:
    """Read a folder that the RotatE code saved; no pickle is read."""
    del trust_pickle
    require(path, *FILES)
    given = settings(
        path,
        "model",
        "double_entity_embedding",
        "double_relation_embedding",
        numbers=("gamma", "hidden_dim"),
    )
    entity, relation = (table(path / name) for name in FILES[1:])
    widths = tuple(
        given["hidden_dim"] * (2 if given[f"double_{part}_embedding"] else 1)
        for part in ("entity", "relation")
    )
    if (entity.shape[1:], relation.shape[1:]) != tuple((width,) for width in widths):
        raise InputError(
            f"{path}: {SETTINGS} and the tables do not match",
            got=f"tables of shapes {entity.shape} and {relation.shape}, widths {widths} in {SETTINGS}",
        )
    check_choice("model of the RotatE code", given["model"], MODELS)
    scale = unit_of_phase(given["gamma"], given["hidden_dim"], PI)
    model, notes = called(given["model"], MODELS[given["model"]](entity, relation, scale))
    data = [path, *([Path(given["data_path"])] if given.get("data_path") else [])]
    names = named(model, data, ("entities.dict", "relations.dict"))
    return Checkpoint(model, *names, notes)


def unit_of_phase(gamma: float, dimension: int, pi: float = np.pi) -> float:
    """Return the divisor that turns stored numbers into radians, `(gamma + 2) / d / pi`."""
    return float(np.float32((gamma + EPSILON) / dimension)) / pi
