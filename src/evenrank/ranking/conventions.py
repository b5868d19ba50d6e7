"""How to call a user's model: told by the names of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from evenrank._internal.arrays import is_tensor
from evenrank.errors import InputError
from evenrank.ranking.adapters import PARTS, QueryScorer, TripleScorer, described, name_of
from evenrank.ranking.modules import is_module, unwrapped
from evenrank.ranking.scorer import Factored, Factoring

NAMES = {
    **dict.fromkeys(("h", "head", "s", "sub", "subj", "subject", "src", "source", "lhs", "e1"), "h"),
    **dict.fromkeys(("r", "rel", "relation", "p", "pred", "predicate"), "r"),
    **dict.fromkeys(("t", "tail", "o", "obj", "object", "dst", "target", "rhs", "e2"), "t"),
}
AFFIXES = re.compile(r"^batch_|_?(index|indexes|indices|idx|idxs|ids?|type|types|batch|tensor)$")


def adapted(scorer: Any) -> Any:
    """Return what `er.rank` ranks by: the model itself, or an adapter chosen by parameter names.

    Parameters
    ----------
    scorer : object
        What the user passed.

    Returns
    -------
    object
        A model that factors, or an object with a method `score(queries, candidates)`.

    Raises
    ------
    InputError
        If the object is no scorer, or it is unclear how to call it.
    """
    if isinstance(scorer, TripleScorer | QueryScorer | Factored | Factoring):
        return scorer
    if is_module(scorer) and any(
        base.__module__.startswith("pykeen.models") for base in type(scorer).__mro__
    ):
        raise InputError(
            "a PyKEEN model needs to be converted",
            got=type(scorer).__name__,
            do="er.rank(er.integrations.pykeen.scorer(model), task)",
        )
    method = getattr(scorer, "score", None)
    if isinstance(scorer, type) or not (callable(method) or callable(scorer)):
        matrix = (isinstance(scorer, np.ndarray) or is_tensor(scorer)) and scorer.ndim == 2
        raise InputError(
            "not a model",
            got=described(scorer),
            do="er.Rankings.from_scores ranks a matrix of scores" if matrix else None,
            allowed="a model of evenrank.models, a Factored, a torch module with forward(h, r, t), an "
            "object with score(queries, candidates), or a function of queries and candidates or h, r, t",
        )
    if callable(method):
        columns = _convention(method, f"{type(scorer).__name__}.score")
        return scorer if columns is None else TripleScorer(method, columns=columns, name=name_of(scorer))
    columns = _convention(scorer, name_of(scorer))
    return QueryScorer(scorer) if columns is None else TripleScorer(scorer, columns=columns)


def _convention(function: Callable[..., Any], name: str) -> str | None:
    """Tell by its parameters how to call a function: the order of h, r and t, or None for queries."""
    module = unwrapped(function)
    if is_module(module):
        name, function = f"{type(module).__name__}.forward", module.forward
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise _unclear(f"{name}, whose parameters are not known") from None
    kinds = inspect.Parameter
    given = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in given)
    parts = [_part(p.name) for p in given[:3]]
    if all(p.kind is not kinds.KEYWORD_ONLY or p.default is not p.empty for p in parameters):
        if sorted(filter(None, parts)) == sorted(PARTS) and required <= len(PARTS):
            return "".join(part for part in parts if part)
        if required <= 2 and [p.name for p in given[1:2]] == ["candidates"]:
            return None
        # the two arguments of a module may be anything
        if required == 2 and not all(parts[:2]) and not is_module(module):
            return None
    listed = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)
    raise _unclear(f"{name}({listed})")


def _part(name: str) -> str | None:
    """Return h, r or t if a parameter is called like one of them."""
    plain = AFFIXES.sub("", AFFIXES.sub("", name.lower()))
    return NAMES.get(plain) or NAMES.get(plain.removesuffix("s")) or NAMES.get(name.lower())


def _unclear(got: str) -> InputError:
    return InputError(
        "the parameters of the model do not tell how to call it",
        got=got,
        allowed="(h, r, t), or (queries, candidates)",
        do="pass er.models.TripleScorer(model, columns='hrt') if it takes heads, relations and tails in "
        "this order, er.models.QueryScorer(model) if it takes queries and candidates",
    )
