"""Reads models of TorchKGE: state dictionaries or modules.

Read in `torchkge/models/` and `torchkge/utils/dissimilarities.py` of torchkge-team/torchkge. Imaginary
parts are separate tables (`im_ent_emb`). TransE, TransH, TransR, TransD, DistMult, HolE and RESCAL
normalise entities whenever they score, so that is done here. L2 dissimilarities are squares, which
give the same order. Rows are numbered as `ent2ix` and `rel2ix` of the `KnowledgeGraph` of training,
which the files do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenrank._internal.arrays import wide
from evenrank.errors import InputError
from evenrank.models import RESCAL, DistMult, Model, TransE
from evenrank.models.readers._alike import analogy, folded, holographic, of_parts, on_circles, unit
from evenrank.models.readers._beside import mentions
from evenrank.models.readers._scorers import NOTE, Projected, boxed, dynamic, hyperplanes, matrices
from evenrank.models.readers._state import Kind, Library
from evenrank.models.readers.checkpoint import Checkpoint

TORUS = ("torus_eL2", "L1")  # dissimilarities on the torus that factor
# the options of live models by their dissimilarity, where it factors
MEASURES: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "TransE": {"l1_dissimilarity": {"p": 1}, "l2_dissimilarity": {"p": 2}},
    "TorusE": {
        "l1_dissimilarity": {"dissimilarity": "L1"},
        "el2_torus_dissimilarity": {"dissimilarity": "torus_eL2"},
    },
}


def _trans_h(entity: Any, relation: Any, normal: Any) -> Projected:
    return Projected("TransH", hyperplanes(unit(entity), normal), wide(relation), 2, len(entity))


def _trans_r(entity: Any, relation: Any, matrix: Any) -> Projected:
    by_entity = folded(matrix, relation.shape[1]).swapaxes(1, 2)
    return Projected("TransR", matrices(unit(entity), by_entity), wide(relation), 2, len(entity))


def _trans_d(entity: Any, relation: Any, entity_vector: Any, relation_vector: Any) -> Projected:
    project = dynamic(unit(entity), unit(entity_vector), unit(relation_vector))
    return Projected("TransD", project, unit(relation), 2, len(entity))


def _torus(entity: Any, relation: Any, dissimilarity: str) -> Model:
    entity, relation = (np.fmod(wide(rows), 1) for rows in (entity, relation))
    if dissimilarity == "torus_eL2":  # (1 - cos 2 pi x) / 2 in each dimension
        return on_circles(2 * np.pi * entity, 2 * np.pi * relation, p=2)
    if dissimilarity == "L1":
        return TransE(entity, relation, p=1)
    raise InputError(
        "TorusE: this dissimilarity does not factor",
        got=repr(dissimilarity),
        allowed=", ".join(TORUS),
        do="convert the module itself: er.integrations.torchkge.convert(model)",
    )


def _options(name: str, module: Any) -> dict[str, Any] | None:
    """Return the options of a live model by its dissimilarity, or None if that does not factor."""
    return MEASURES[name].get(module.dissimilarity.__name__) if name in MEASURES else {}


def _box(module: Any) -> Checkpoint:
    return boxed(module, lambda h, r, t: module.scoring_function(h, t, r), module.n_ent, module.n_rel)


TORCHKGE = Library(
    "torchkge",
    "torchkge",
    {
        "TransE": Kind(("ent_emb", "rel_emb"), lambda e, r, p: TransE(unit(e), r, p=p), {"p": 2}),
        "DistMult": Kind(("ent_emb", "rel_emb"), lambda e, r: DistMult(unit(e), r)),
        "HolE": Kind(("ent_emb", "rel_emb"), lambda e, r: holographic(unit(e), r)),
        "TorusE": Kind(("ent_emb", "rel_emb"), _torus, {"dissimilarity": "torus_eL2"}),
        "RESCAL": Kind(("ent_emb", "rel_mat"), lambda e, r: RESCAL(unit(e), folded(r, e.shape[1]))),
        "ComplEx": Kind(("re_ent_emb", "im_ent_emb", "re_rel_emb", "im_rel_emb"), of_parts),
        "Analogy": Kind(
            ("sc_ent_emb", "re_ent_emb", "im_ent_emb", "sc_rel_emb", "re_rel_emb", "im_rel_emb"),
            lambda *tables: analogy(tables[:3], tables[3:]),
        ),
        "TransH": Kind(("ent_emb", "rel_emb", "norm_vect"), _trans_h, notes=(NOTE.format("TransH"),)),
        "TransR": Kind(("ent_emb", "rel_emb", "proj_mat"), _trans_r, notes=(NOTE.format("TransR"),)),
        "TransD": Kind(
            ("ent_emb", "rel_emb", "ent_proj_vect", "rel_proj_vect"),
            _trans_d,
            notes=(NOTE.format("TransD"),),
        ),
    },
    _options,
    _box,
)
read, convert = TORCHKGE.read, TORCHKGE.convert


def recognises(path: Path) -> bool:
    """Recognise a file by its tables, or by the classes pickled in it."""
    return mentions(path, b"ent_emb.weight", b"torchkge.models")
