"""Checkpoints of OpenKE (its PyTorch version): `.ckpt` files, which are state dictionaries.

Read in `openke/module/`, `openke/config/` and `examples/` of thunlp/OpenKE. Rows are numbered by the
data set's `entity2id.txt` and `relation2id.txt`. Imaginary parts are tables of their own, except
RotatE's: all real parts, then all imaginary parts, phases in units of `rel_embedding_range / pi`.
Margins order nothing. Files tell neither the norm (p = 1 by default) nor whether heads, tails and
relations are divided by their length (`norm`, by default they are; TransD divides what it has
projected in any case).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenrank.engine._arrays import join, wide
from evenrank.integrations._alike import analogy, folded, holographic, unit
from evenrank.integrations._beside import mentions, named
from evenrank.integrations._checkpoint import Checkpoint, fit
from evenrank.integrations._scorers import (
    Projected,
    Projection,
    boxed,
    dynamic,
    hyperplanes,
    matrices,
    united,
)
from evenrank.integrations._state import Kind, Library, tables_of
from evenrank.models import RESCAL, ComplEx, DistMult, RotatE, TransE

if TYPE_CHECKING:
    from evenrank.data.graph import Graph

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
    """ANALOGY with its sign: OpenKE's is minus the sum, in training and in testing."""
    model = analogy(tables[:3], tables[3:])
    return replace(model, relation=-model.relation)


OPENKE = Library(
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
            lambda e, ei, r, ri: ComplEx(join(e, ei), join(r, ri)),
        ),
        "Analogy": Kind(
            tuple(f"{part}{kind}_embeddings" for part in ("ent", "rel") for kind in ("", "_re", "_im")),
            _analogy,
        ),
        # trained on the mean of `rel` and `rel_inv`, tested on `rel` alone
        "SimplE": Kind(
            ("ent_embeddings", "rel_embeddings", "rel_inv_embeddings"), lambda e, r, _: DistMult(e, r)
        ),
        # trained with high scores for what is true; its tester ranks the low ones first
        "RESCAL": Kind(
            ("ent_embeddings", "rel_matrices"),
            lambda e, r: RESCAL(e, folded(r, e.shape[1])),
        ),
        "TransH": Kind(
            ("ent_embeddings", "rel_embeddings", "norm_vector"), _trans_h, DEFAULTS, factors=False
        ),
        "TransR": Kind(
            ("ent_embeddings", "rel_embeddings", "transfer_matrix"), _trans_r, DEFAULTS, factors=False
        ),
        "TransD": Kind(
            ("ent_embeddings", "rel_embeddings", "ent_transfer", "rel_transfer"),
            _trans_d,
            DEFAULTS,
            factors=False,
        ),
    },
)


def recognises(path: Path) -> bool:
    """Know a file by the tables it speaks of."""
    return mentions(path, b"ent_embeddings.weight", b"ent_re_embeddings.weight")


def read(
    path: Path, *, trust_pickle: bool = False, model: str | None = None, **options: Any
) -> Checkpoint:
    """Read a checkpoint; `model` and `options` say what it does not."""
    checkpoint = OPENKE.read(path, trust_pickle, model, options, _of)
    rows = checkpoint.model.entities, checkpoint.model.relations
    return replace(
        checkpoint,
        entities=named([path.parent], "entity2id.txt", rows[0], "entities"),
        relations=named([path.parent], "relation2id.txt", rows[1], "relations"),
    )


def convert(module: Any, graph: Graph | None = None) -> Any:
    """Give a model that `er.rank` takes for a live module; one that is not known is asked for scores."""
    return fit(_of(module), graph, type(module).__name__)


def _of(module: Any) -> Checkpoint:
    name = type(module).__name__
    if type(module).__module__.startswith("openke.") and name in OPENKE.kinds:
        given = {"p": getattr(module, "p_norm", None), "norm": getattr(module, "norm_flag", None)}
        options = {key: given[key] for key in OPENKE.kinds[name].options}
        return OPENKE.make(name, tables_of(module.state_dict()), options)

    def scores(h: Any, r: Any, t: Any) -> Any:  # what it predicts is a cost
        return -module.predict({"batch_h": h, "batch_r": r, "batch_t": t, "mode": "normal"})

    return boxed(module, scores, module.ent_tot, module.rel_tot)
