"""Reads checkpoints of DGL-KE: a folder with `config.json` and tables of entities and relations.

Read in `models/pytorch/score_fun.py`, `models/general_models.py`, `utils.py`,
`dataloader/KGDataset.py` of awslabs/dgl-ke. Tables are `DATASET_MODEL_entity.npy` and
`..._relation.npy`, rows as in the dictionaries that `config.json` names (`entities.tsv`,
`entities.dict`: id, tab, name). Complex rows hold all real parts, then all imaginary parts; phases are
stored as in the RotatE code. Gamma does not change the order of scores, but matters in DGL-KE's own
comparisons (`preset="dgl-ke"`), so distance models keep it.

Scores are those of DGL-KE for triples. It scores corrupted tails differently for RESCAL (transposed
matrix) and TransR (`h - r` for `h + r`), and clips SimplE's scores at 20: neither is reproduced here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evenrank._internal.arrays import wide
from evenrank.errors import InputError
from evenrank.models import RESCAL, ComplEx, DistMult, RotatE, SimplE, TransE
from evenrank.models.readers._alike import folded, halves
from evenrank.models.readers._beside import SETTINGS, mentions, named, require, settings, table
from evenrank.models.readers._scorers import NOTE, Projected, matrices
from evenrank.models.readers.checkpoint import Checkpoint
from evenrank.models.readers.rotate import unit_of_phase

MODELS: Mapping[str, Callable[[Any, Any, float], Any]] = {
    "TransE": lambda e, r, gamma: TransE(e, r, p=2, gamma=gamma),
    "TransE_l1": lambda e, r, gamma: TransE(e, r, p=1, gamma=gamma),
    "TransE_l2": lambda e, r, gamma: TransE(e, r, p=2, gamma=gamma),
    "DistMult": lambda e, r, _: DistMult(e, r),
    "ComplEx": lambda e, r, _: ComplEx(e, r),
    "RotatE": lambda e, r, gamma: RotatE(
        e, wide(r) / unit_of_phase(gamma, r.shape[1]), p=1, gamma=gamma
    ),
    "RESCAL": lambda e, r, _: RESCAL(e, folded(r, e.shape[1])),
    "SimplE": lambda e, r, _: SimplE(*halves(e), *halves(r)),
}
# where DGL-KE ranks tails by other scores than those of triples
OTHERWISE = {
    "RESCAL": ("tails are ranked by the matrix of triples; DGL-KE ranks them by its transpose",),
    "TransR": ("tails are ranked by h + r, as triples are scored; DGL-KE ranks them by h - r",),
}


def recognises(path: Path) -> bool:
    """Recognise a folder by its tables, or by settings that no other library writes."""
    tables = path.is_dir() and any(
        file.name.endswith(("_entity.npy", "_relation.npy")) for file in path.iterdir()
    )
    return tables or mentions(path / SETTINGS, b'"emap_file"', b'"double_ent"')


def read(path: Path, *, trust_pickle: bool = False) -> Checkpoint:
    """Read a folder that DGL-KE saved; there is no pickle in it."""
    del trust_pickle
    require(path, SETTINGS)
    given = settings(path, "dataset", "model", numbers=("emb_size", "gamma"))
    name, stem = given["model"], f"{given['dataset']}_{given['model']}"
    if name not in MODELS and name != "TransR":
        raise InputError(
            "this DGL-KE model is not supported",
            got=repr(name),
            allowed=f"{', '.join(MODELS)}, TransR",
            do="give er.rank a function of queries and candidates that calls DGL-KE",
        )
    files = [f"{stem}_entity.npy", f"{stem}_relation.npy"]
    require(path, SETTINGS, *files, *([f"{stem}projection.npy"] if name == "TransR" else []))
    entity, relation = (table(path / file) for file in files)
    if name == "RotatE" and relation.shape[1] != given["emb_size"]:  # the unit of phases depends on it
        raise InputError(
            f"{path}: {SETTINGS} and the tables do not match",
            got=f"relations of shape {relation.shape}, emb_size {given['emb_size']} in {SETTINGS}",
        )
    notes: tuple[str, ...] = OTHERWISE.get(name, ())
    if name == "TransR":
        matrix = folded(table(path / f"{stem}projection.npy"), entity.shape[1])
        projection = matrices(entity, matrix)
        model: Any = Projected("TransR", projection, wide(relation), 1, len(entity), given["gamma"])
        notes += (NOTE.format("TransR"),)
    else:
        model = MODELS[name](entity, relation, given["gamma"])
    entities, relations = (Path(given.get(key) or key).name for key in ("emap_file", "rmap_file"))
    return Checkpoint(model, *named(model, [path], (entities, relations)), notes)
