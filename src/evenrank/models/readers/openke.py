"""Reads checkpoints of OpenKE (PyTorch version): `.ckpt` files, which are state dictionaries.

Read in `openke/module/`, `openke/config/` and `examples/` of thunlp/OpenKE. Rows are numbered by the
data set's `entity2id.txt` and `relation2id.txt`. Imaginary parts are separate tables, except RotatE's:
all real parts, then all imaginary parts, phases in units of `rel_embedding_range / pi`. Margins do not
change the order of scores. Files hold neither the norm (p = 1 by default) nor whether heads, tails and
relations are normalised (`norm`, true by default; TransD normalises projected entities in any case).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from evenrank._internal.arrays import wide
from evenrank.models import RESCAL, ComplEx, DistMult, RotatE, TransE
from evenrank.models.readers._alike import analogy, folded, holographic, of_parts, unit
from evenrank.models.readers._beside import mentions, named
from evenrank.models.readers._scorers import (
    NOTE,
    Projected,
    Projection,
    boxed,
    dynamic,
    hyperplanes,
    matrices,
    united,
)
from evenrank.models.readers._state import Kind, Library
from evenrank.models.readers.checkpoint import Checkpoint

DEFAULTS = {"p": 1, "norm": True}


def _trans_e(entity: Any, relation: Any, p: int, norm: bool) -> TransE:
    return TransE(unit(entity), unit(relation), p=p) if norm else TransE(entity, relation, p=p)


def _projected(
    name: str, project: Projection, entity: Any, relation: Any, p: int, norm: bool
) -> Projected:
    return Projected(
        name,
        united(project) if norm else project,
        unit(relation) if norm else wide(relation),
        p,
        len(entity),
    )


def _trans_h(entity: Any, relation: Any, normal: Any, p: int, norm: bool) -> Projected:
    return _projected("TransH", hyperplanes(entity, normal), entity, relation, p, norm)


def _trans_r(entity: Any, relation: Any, matrix: Any, p: int, norm: bool) -> Projected:
    project = matrices(entity, folded(matrix, entity.shape[1]))
    return _projected("TransR", project, entity, relation, p, norm)


def _trans_d(entity: Any, relation: Any, to_e: Any, to_r: Any, p: int, norm: bool) -> Projected:
    return _projected("TransD", united(dynamic(entity, to_e, to_r)), entity, relation, p, norm)


def _analogy(*tables: Any) -> ComplEx:
    """ANALOGY with OpenKE's sign: minus the sum, in training and in testing."""
    model = analogy(tables[:3], tables[3:])
    return replace(model, relation=-model.relation)


def _options(name: str, module: Any) -> dict[str, Any] | None:
    if not OPENKE.kinds[name].options:
        return {}
    return {"p": module.p_norm, "norm": module.norm_flag} if module.p_norm in (1, 2) else None


def _box(module: Any) -> Checkpoint:
    def scores(h: Any, r: Any, t: Any) -> Any:  # it predicts a cost
        return -module.predict({"batch_h": h, "batch_r": r, "batch_t": t, "mode": "normal"})

    return boxed(module, scores, module.ent_tot, module.rel_tot)


OPENKE = Library(
    "openke",
    "openke",
    {
        "TransE": Kind(("ent_embeddings", "rel_embeddings"), _trans_e, DEFAULTS),
        "DistMult": Kind(("ent_embeddings", "rel_embeddings"), DistMult),
        "HolE": Kind(("ent_embeddings", "rel_embeddings"), holographic),
        "RotatE": Kind(
            ("ent_embeddings", "rel_embeddings", "rel_embedding_range", "pi_const"),
            lambda e, r, most, pi: RotatE(e, wide(r) / (wide(most) / pi), p=1),
        ),
        "ComplEx": Kind(
            ("ent_re_embeddings", "ent_im_embeddings", "rel_re_embeddings", "rel_im_embeddings"),
            of_parts,
        ),
        "Analogy": Kind(
            tuple(f"{part}{kind}_embeddings" for part in ("ent", "rel") for kind in ("", "_re", "_im")),
            _analogy,
        ),
        # trained on the mean of `rel` and `rel_inv`, tested on `rel` alone
        "SimplE": Kind(
            ("ent_embeddings", "rel_embeddings", "rel_inv_embeddings"), lambda e, r, _: DistMult(e, r)
        ),
        # trained with high scores for true triples; its tester ranks low scores first
        "RESCAL": Kind(
            ("ent_embeddings", "rel_matrices"),
            lambda e, r: RESCAL(e, folded(r, e.shape[1])),
            notes=(
                "high scores are ranked first, as RESCAL is trained; OpenKE's tester ranks low ones",
            ),
        ),
        "TransH": Kind(
            ("ent_embeddings", "rel_embeddings", "norm_vector"),
            _trans_h,
            DEFAULTS,
            notes=(NOTE.format("TransH"),),
        ),
        "TransR": Kind(
            ("ent_embeddings", "rel_embeddings", "transfer_matrix"),
            _trans_r,
            DEFAULTS,
            notes=(NOTE.format("TransR"),),
        ),
        "TransD": Kind(
            ("ent_embeddings", "rel_embeddings", "ent_transfer", "rel_transfer"),
            _trans_d,
            DEFAULTS,
            notes=(NOTE.format("TransD"),),
        ),
    },
    _options,
    _box,
)
convert = OPENKE.convert


def recognises(path: Path) -> bool:
    """Recognise a file by its tables."""
    return mentions(path, b"ent_embeddings.weight", b"ent_re_embeddings.weight")


def read(path: Path, *, trust_pickle: bool = False, **options: Any) -> Checkpoint:
    """Read a checkpoint, and the names beside it; `options` are the model and its options."""
    checkpoint = OPENKE.read(path, trust_pickle=trust_pickle, **options)
    names = named(checkpoint.model, [path.parent], ("entity2id.txt", "relation2id.txt"))
    return Checkpoint(checkpoint.model, *names, checkpoint.notes)
