"""PyKEEN's interactions whose scores factor, expressed as models of evenrank.

The same code reads a live model, by the representations that its own forward pass computes, and a model
read as records from a pickle (`_records`), by the embeddings as they are stored.
Layouts, from PyKEEN's source (pykeen/pykeen on GitHub, `nn/modules.py`, `nn/representation.py` and
`models/unimodal/` of versions 1.4 to 1.11):

- Relations and their inverses are interleaved: 2r and 2r + 1.
- Complex rows are stored as pairs, real and imaginary part side by side; ComplEx up to version 1.6
  stored all real parts, then all imaginary parts.
- RotatE takes the Euclidean norm, whatever its `p` is.
- Up to version 1.8 models keep their embeddings as `entity_embeddings` and `relation_embeddings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from evenrank._internal.arrays import array, host, join, place, wide
from evenrank.errors import InputError
from evenrank.models import CP, RESCAL, ComplEx, DistMult, Inverse, Model, RotatE, TransE, TuckER
from evenrank.models.readers._alike import holographic
from evenrank.models.readers.checkpoint import called, noted
from evenrank.models.readers.pykeen._records import Record

COMPLEX = ("ComplEx", "RotatE")
LEGACY = (
    "ComplEx",
    "DistMult",
    "HolE",
    "RESCAL",
    "RotatE",
    "TransE",
    "TuckER",
)  # as they were up to 1.8
TERMS = 64  # sums of more products are faster one product after the other
RENAMED = {"Tucker": "TuckER"}  # as it was called up to version 1.10


class NoFactors(Exception):  # noqa: N818  # not an error: the model is scored as a black box
    """Why the score of a model does not factor."""


def factors(model: Any) -> Model:
    """Return a model of evenrank that ranks as PyKEEN's does, or raise `NoFactors`."""
    if model.predict_with_sigmoid:
        raise NoFactors("predict_with_sigmoid makes large scores equal")
    old = isinstance(model, Record) and hasattr(model, "entity_embeddings")
    parts = _legacy(model) if old else _parts(model)
    try:
        found = BUILDERS[parts.kind](parts)
    except InputError as error:  # rows of unusual shapes
        raise NoFactors(str(error)) from None
    own = type(model).__name__
    described: Model = noted(*called(parts.kind if own == "ERModel" else own, found))
    return described


@dataclass(frozen=True)
class Parts:
    """The parts of a model: the kind of interaction, its parameters, and its rows."""

    kind: str
    interaction: Any
    entity: Sequence[Any]
    relation: Sequence[Any]
    inverse: Inverse | None
    relations: int  # rows of the relation tables, inverse relations included

    @property
    def p(self) -> int:
        """The norm, if scores factor with it."""
        if self.interaction.p not in (1, 2):
            raise NoFactors(f"{self.kind} with p = {self.interaction.p:g}")
        return int(self.interaction.p)


def _parts(model: Any) -> Parts:
    """Take apart a model that consists of an interaction and representations."""
    interaction = getattr(model, "interaction", None)
    if interaction is None or not hasattr(model, "entity_representations"):
        raise NoFactors(f"{type(model).__name__} does not consist of interaction and representations")
    if isinstance(model, Record):
        if not type(model).__module__.startswith(("pykeen.models.unimodal.", "pykeen.models.nbase")):
            raise NoFactors(f"{type(model).__name__} is not a model of PyKEEN")
    else:
        _check_not_overridden(model)
    interaction = _inmost(interaction)
    if type(interaction).__module__ != "pykeen.nn.modules":
        raise NoFactors(f"{type(interaction).__name__} is not an interaction of PyKEEN")
    kind = type(interaction).__name__.removesuffix("Interaction")
    kind = RENAMED.get(kind, kind)
    if kind not in BUILDERS:
        raise NoFactors(f"{kind} is not among the interactions that are known to factor")
    entity, relation = (
        [_rows(one, kind in COMPLEX)[:count] for one in modules._modules.values()]
        for modules, count in (
            (model.entity_representations, model.num_entities),
            (model.relation_representations, model.num_relations),
        )
    )
    return Parts(kind, interaction, entity, relation, _inverse(model), model.num_relations)


def _inmost(interaction: Any) -> Any:
    """Unwrap what does not change the order of scores: a positive factor, a clamp that is off."""
    kind = type(interaction).__name__
    unclamped = kind == "ClampedInteraction" and interaction.clamp_score is None
    if unclamped or kind == "MonotonicAffineTransformationInteraction":
        return _inmost(interaction.base)
    return interaction


def _legacy(model: Any) -> Parts:
    """Take a model of version 1.8 or older apart."""
    kind = type(model).__name__
    if kind not in LEGACY or not type(model).__module__.startswith("pykeen.models.unimodal."):
        raise NoFactors(f"{kind} of PyKEEN before 1.9 is not supported")
    tables = model.entity_embeddings, model.relation_embeddings
    entity, relation = ([_rows(table, kind == "RotatE")] for table in tables)
    return Parts(kind, _stand_in(model), entity, relation, _inverse(model), model.num_relations)


def _stand_in(model: Any) -> SimpleNamespace:
    """Return the parameters that the interaction holds since version 1.9."""
    if type(model).__name__ == "TransE":
        return SimpleNamespace(p=model.scoring_fct_norm)
    if type(model).__name__ == "TuckER":
        before, after = (model.bn_0, model.bn_1) if model.apply_batch_normalization else (None, None)
        return SimpleNamespace(
            core_tensor=model.core_tensor, head_batch_norm=before, head_relation_batch_norm=after
        )
    return SimpleNamespace()


def _check_not_overridden(model: Any) -> None:
    """Raise for subclasses that score differently: they are scored as black boxes."""
    from pykeen.inverse import DefaultRelationInverter
    from pykeen.models import ERModel

    methods = ("score_t", "score_h", "predict_t", "predict_h", "_get_representations")
    if not isinstance(model, ERModel) or any(
        getattr(type(model), name) is not getattr(ERModel, name) for name in methods
    ):
        raise NoFactors(f"{type(model).__name__} overrides how PyKEEN scores")
    if type(model.relation_inverter) is not DefaultRelationInverter:
        raise NoFactors("its relation inverter is not PyKEEN's default")


def _inverse(model: Any) -> Inverse | None:
    return "interleaved" if model.use_inverse_triples else None


# Representations ------------------------------------------------------------------------------------


def _rows(representation: Any, complex_valued: bool) -> Any:
    """Return all rows of a representation; complex ones as real parts, then imaginary parts."""
    if not isinstance(representation, Record):
        return _live_rows(representation, complex_valued)
    kind = type(representation)
    if kind.__name__ != "Embedding" or not kind.__module__.startswith("pykeen.nn."):
        raise NoFactors(f"its rows are computed by {kind.__name__}")
    if representation.normalizer is not None:
        raise NoFactors("its rows are normalised at every use")
    weight = representation._embeddings.weight
    # before 1.8 embeddings had no such flag
    _agree(getattr(representation, "is_complex", complex_valued), complex_valued)
    if complex_valued:
        pairs = weight.reshape(len(weight), -1, 2)
        return join(pairs[..., 0], pairs[..., 1])
    return weight.reshape(len(weight), *getattr(representation, "_shape", representation.shape))


def _agree(found: bool, wanted: bool) -> None:
    """Raise where an interaction got real rows for complex ones or the reverse: its score differs."""
    if found != wanted:
        raise NoFactors(f"its rows are {'complex' if found else 'real'}, unlike those of its own model")


def _live_rows(representation: Any, complex_valued: bool) -> Any:
    """Return all rows of a live representation, if they are the same when requested one by one.

    They are not with, for instance, a normaliser that takes `dim=1` for the last axis.
    """
    import torch

    rows = representation(indices=None).detach()
    alone = representation(indices=torch.zeros(1, 1, dtype=torch.long, device=rows.device))
    if not torch.allclose(alone[0, 0], rows[0], equal_nan=True):
        raise NoFactors("its rows depend on how many are requested at once")
    _agree(rows.is_complex(), complex_valued)
    return array("a representation", rows)


# Interactions ---------------------------------------------------------------------------------------


def _transe(parts: Parts) -> Model:
    return TransE(parts.entity[0], parts.relation[0], p=parts.p, inverse=parts.inverse)


def _rotate(parts: Parts) -> Model:
    if getattr(parts.interaction, "p", 2) != 2:
        raise NoFactors("RotatE with p other than 2, which PyKEEN 1.11 ignores")
    return RotatE(parts.entity[0], parts.relation[0], p=2, inverse=parts.inverse)


def _distmult(parts: Parts) -> Model:
    return DistMult(parts.entity[0], parts.relation[0], inverse=parts.inverse)


def _complex(parts: Parts) -> Model:
    return ComplEx(parts.entity[0], parts.relation[0], inverse=parts.inverse)


def _rescal(parts: Parts) -> Model:
    return RESCAL(parts.entity[0], parts.relation[0], inverse=parts.inverse)


def _simple(parts: Parts) -> Model:
    """SimplE as PyKEEN scores it: both of its products are symmetric, so it is a wider DistMult.

    Heads and tails are looked up in the same two tables in the same order (versions 1.8 to 1.11).
    """
    if getattr(parts.interaction, "clamp_score", None) is not None:
        raise NoFactors("clamped scores can be equal where products are not")
    entity, relation = reduce(join, parts.entity), reduce(join, parts.relation)
    return DistMult(entity, relation * 0.5, inverse=parts.inverse)


def _cp(parts: Parts) -> Model:
    head, tail, relation = (rows.reshape(len(rows), -1) for rows in (*parts.entity, *parts.relation))
    return CP(head, tail, relation, inverse=parts.inverse)


def _tucker(parts: Parts) -> Model:
    interaction = parts.interaction
    return TuckER(
        parts.entity[0],
        parts.relation[0],
        array("core", interaction.core_tensor),
        _affine(interaction.head_batch_norm),
        _affine(interaction.head_relation_batch_norm),
        parts.inverse,
    )


def _affine(norm: Any) -> Any:
    """Return batch normalisation at evaluation: a row of scales, a row of shifts."""
    if norm is None:
        return None
    mean, var = (wide(array("norm", values)) for values in (norm.running_mean, norm.running_var))
    scale, shift = (wide(array("norm", values)) for values in (norm.weight, norm.bias))
    scale = scale / (var + norm.eps) ** 0.5
    return join(scale[:, None], (shift - mean * scale)[:, None]).T


def _hole(parts: Parts) -> Model:
    """HolE, transformed on the host and moved back to its device."""
    entity, relation = host(parts.entity[0]), host(parts.relation[0])
    where = place(parts.entity[0])
    return holographic(entity, relation, parts.inverse).on(None if where == "cpu" else where)


def _um(parts: Parts) -> Model:
    if isinstance(parts.interaction, Record):
        raise NoFactors("UM has no relation embeddings, so their number is not known")
    rows = parts.entity[0]
    return TransE(rows, rows[[0] * parts.relations] * 0, p=parts.p, inverse=parts.inverse)


# Sums of products: each term is <a_h, w_r, b_t>, and their sum is one CP with all columns side by side


def _sum(parts: Parts, *terms: tuple[Any, Any, Any]) -> Model:
    if len(terms) > TERMS:
        raise NoFactors(f"a sum of {len(terms)} products")
    head, relation, tail = (reduce(join, map(wide, column)) for column in zip(*terms, strict=True))
    return CP(head, tail, relation, inverse=parts.inverse)


def _distma(parts: Parts) -> Model:
    e, r = parts.entity[0], parts.relation[0]
    return _sum(parts, (e, r, e**0), (e**0, r, e), (e, r**0, e))


def _transf(parts: Parts) -> Model:
    e, r = parts.entity[0], parts.relation[0]
    return _sum(parts, (e, 2 * r**0, e), (e**0, r, e), (e, -r, e**0))


def _autosf(parts: Parts) -> Model:
    e, r = parts.entity, parts.relation
    return _sum(parts, *((e[h], sign * r[k], e[t]) for h, k, t, sign in parts.interaction.coefficients))


def _quate(parts: Parts) -> Model:
    e, r, table = parts.entity[0], parts.relation[0], host(array("table", parts.interaction.table))
    return _sum(
        parts,
        *((e[..., i], -float(table[i, j, k]) * r[..., j], e[..., k]) for i, j, k in np.argwhere(table)),
    )


def _squared(parts: Parts, before: Any, shift: Any, after: Any) -> list[tuple[Any, Any, Any]]:
    """Write out `-|u_r h + s_r - v_r t|^2`."""
    e, (u, s, v) = wide(parts.entity[0]), (wide(rows) for rows in (before, shift, after))
    one = e[:, :1] ** 0
    return [
        (e * e, -u * u, e**0),
        (e, -2 * u * s, e**0),
        (e, 2 * u * v, e),
        (e**0, 2 * s * v, e),
        (e**0, -v * v, e * e),
        (one, -(s * s).sum(1)[:, None], one),
    ]


def _pairre(parts: Parts) -> Model:
    u, v = parts.relation
    return _linear(parts, u, u * 0, v)


def _linearre(parts: Parts) -> Model:
    u, s, v = parts.relation
    return _linear(parts, u, s, v)


def _triplere(parts: Parts) -> Model:
    u, s, v = parts.relation
    more = parts.interaction.u or 0
    return _linear(parts, u + more, s, v + more)


def _linear(parts: Parts, before: Any, shift: Any, after: Any) -> Model:
    if parts.p != 2:
        raise NoFactors(f"{parts.kind} scales candidates by relation, which factors with p = 2 only")
    return _sum(parts, *_squared(parts, before, shift, after))


def _mure(parts: Parts) -> Model:
    if parts.p != 2 or not parts.interaction.power_norm:
        raise NoFactors("MuRE factors with the squared norm only")
    (_, of_head, of_tail), (shift, scale) = parts.entity, parts.relation
    of_head, of_tail, one = of_head[:, None], of_tail[:, None], shift[:, :1] ** 0
    biases = (of_head, one, of_head**0), (of_tail**0, one, of_tail)
    return _sum(parts, *_squared(parts, scale, shift, scale**0), *biases)


BUILDERS: dict[str, Callable[[Parts], Model]] = {
    "AutoSF": _autosf,
    "CP": _cp,
    "ComplEx": _complex,
    "DistMA": _distma,
    "DistMult": _distmult,
    "HolE": _hole,
    "LineaRE": _linearre,
    "MuRE": _mure,
    "PairRE": _pairre,
    "QuatE": _quate,
    "RESCAL": _rescal,
    "RotatE": _rotate,
    "SimplE": _simple,
    "TransE": _transe,
    "TransF": _transf,
    "TripleRE": _triplere,
    "TuckER": _tucker,
    "UM": _um,
}
