"""Metric expressions such as `z(hits@10)`: their parser, and the table of names and aliases.

Expressions follow Python's grammar and are parsed with `ast`:

    mr  mrr  gmr  hmr  imr  igmr  ndcg  min  max  hits@10     named metrics
    mean(2)  mean(-0.5)  mean(2, ndcg)                         power means of the rank, or of a transform
    median  quantile(0.9)  std  var  mad  count                statistics
    1/gmr  1/median                                            inverses
    map  map@10  recall@20  ndcg_exp@10  rbp(0.8)  auc         metrics of several answers per query
    ratio(mr)  index(mrr)  z(hits@10)  phi(mrr)                chance-adjusted metrics
    chance(mrr)                                                the chance level

Aliases (`amri`, `zmrr`, PyKEEN's `adjusted_hits_at_10`, ...) print as the expression they stand for:
`parse(str(m)) == m`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any, TypeAlias, get_args

from evenrank._internal.arrays import Function
from evenrank._internal.columns import as_list
from evenrank.errors import InputError, Option, UnknownMetricError
from evenrank.metrics._advice import advice
from evenrank.metrics.adjusted import Adjusted, AdjustmentName, Expression
from evenrank.metrics.answers.metric import (
    DEFAULT_LARGEST,
    ONE,
    RECIPROCAL,
    QueryMetric,
    check_largest,
    geometric,
)
from evenrank.metrics.metric import (
    GAIN,
    GMR,
    HMR,
    IGMR,
    IMR,
    MEDIAN,
    MR,
    MRR,
    NDCG,
    RANK,
    Metric,
    Statistic,
    Transform,
    check_cutoff,
    hit,
    truncated,
)

NAMES: dict[str, Expression] = {
    "mr": MR,
    "mrr": MRR,
    "gmr": GMR,
    "hmr": HMR,
    "imr": IMR,
    "igmr": IGMR,
    "ndcg": NDCG,
    "min": Metric(RANK, -inf),
    "max": Metric(RANK, inf),
    "median": MEDIAN,
    "std": Statistic("std"),
    "var": Statistic("var"),
    "mad": Statistic("mad"),
    "count": Statistic("count"),
}

ALIASES: dict[str, Expression] = {
    alias: target
    for target, aliases in {
        MR: "mean_rank arithmetic_mean_rank",
        IMR: "iamr inverse_mean_rank inverse_arithmetic_mean_rank",
        MRR: "mean_reciprocal_rank inverse_harmonic_mean_rank ihmr rr recip_rank",
        HMR: "harmonic_mean_rank",
        GMR: "geometric_mean_rank",
        IGMR: "inverse_geometric_mean_rank",
        NDCG: "normalized_discounted_cumulative_gain",
        NAMES["min"]: "minimum min_rank",
        NAMES["max"]: "maximum max_rank",
        MEDIAN: "median_rank",
        1 / MEDIAN: "inverse_median_rank imedian",
        NAMES["std"]: "standard_deviation rank_std",
        NAMES["var"]: "variance rank_var",
        NAMES["mad"]: "median_absolute_deviation rank_mad",
        NAMES["count"]: "rank_count",
        Adjusted("ratio", MR): "amr aamr adjusted_mean_rank adjusted_arithmetic_mean_rank",
        Adjusted("index", MR): (
            "amri aamri adjusted_mean_rank_index adjusted_arithmetic_mean_rank_index"
        ),
        Adjusted("index", MRR): (
            "amrr aihmr adjusted_mrr adjusted_mean_reciprocal_rank adjusted_inverse_harmonic_mean_rank"
        ),
        Adjusted("index", GMR): "gmri agmri adjusted_geometric_mean_rank_index",
        Adjusted("z", MR): "zmr zamr z_mean_rank z_arithmetic_mean_rank",
        Adjusted("z", MRR): "zmrr zihmr z_mean_reciprocal_rank z_inverse_harmonic_mean_rank",
        Adjusted("z", GMR): "zgmr z_geometric_mean_rank",
    }.items()
    for alias in aliases.split()
}

# names followed by a k, as in h@10, ah@10, adjusted_hits_at_10
HITS_NAMES: dict[str, AdjustmentName | None] = {
    "hits": None,
    "h": None,
    "ahits": "index",
    "ah": "index",
    "adjusted_hits": "index",
    "zhits": "z",
    "zh": "z",
    "zah": "z",
    "z_hits": "z",
}

# metrics of several answers; most can be cut off after k positions, as in map@10
QUERY_NAMES: dict[str, QueryMetric] = {
    "map": QueryMetric("precision", norm="answers"),
    "auc": QueryMetric("auc"),
    "r_precision": QueryMetric("sum", k="answers", norm="answers"),
    "dcg": QueryMetric("sum", GAIN, gain="linear"),
    "dcg_bin": QueryMetric("sum", GAIN),
    "dcg_exp": QueryMetric("sum", GAIN, gain="exponential"),
    "ndcg_bin": QueryMetric("sum", GAIN, norm="ideal"),
    "ndcg_exp": QueryMetric("sum", GAIN, gain="exponential", norm="ideal"),
    "err": QueryMetric("cascade", RECIPROCAL, largest=DEFAULT_LARGEST),
}
WITH_CUTOFF = ("map", "dcg", "dcg_bin", "dcg_exp", "ndcg_bin", "ndcg_exp", "err")
CALLED = ("rbp", "err", "dcg", "ndcg", "first")  # with a parameter or a discount
_NEED_CUTOFF: dict[str, QueryMetric] = {
    "map_min": QueryMetric("precision", norm="least"),
    "precision": QueryMetric("sum", norm="k"),
    "recall": QueryMetric("sum", norm="answers"),
    "f1": QueryMetric("sum", norm="mean"),
    "success": QueryMetric("first", ONE),
}
# what trec_eval, ir_measures and libraries of recommenders call them
QUERY_ALIASES: dict[str, str] = {
    alias: name
    for name, aliases in {
        "map": "ap average_precision mean_average_precision map_cut",
        "map_min": "ap_min mapk_min",
        "precision": "p prec",
        "recall": "r rec",
        "success": "hit_rate hr hit_ratio hitrate success_rate",
        "f1": "f1_score",
        "auc": "roc_auc auroc",
        "r_precision": "rprec rprecision",
        "ndcg": "ndcg_cut",
        "mrr": "recip_rank rr",
    }.items()
    for alias in aliases.split()
}

_ADJUSTMENTS: dict[str, AdjustmentName] = {name: name for name in get_args(AdjustmentName)}
_defined: dict[str, Metric] = {}

Metrics: TypeAlias = str | Expression | Iterable[str | Expression]


def _plain(name: str) -> str:
    """Ignore case and underscores, as PyKEEN does: `MeanRank` is `mean_rank`."""
    return name.lower().replace("_", "")


_PLAIN: dict[str, Expression] = {_plain(k): v for k, v in (NAMES | ALIASES).items()}
_PLAIN_HITS = {_plain(k): v for k, v in HITS_NAMES.items()}
_PLAIN_QUERY: dict[str, str] = {
    _plain(alias): name
    for alias, name in (
        QUERY_ALIASES | {name: name for name in (*QUERY_NAMES, *_NEED_CUTOFF, "mrr", "ndcg")}
    ).items()
}


def define(name: str, function: Function, *, formula: str = "", reference: str = "") -> Metric:
    """Define a metric: the mean of a monotone, vectorised function of the rank.

    Its name can then be used in metric expressions, including chance-adjusted ones.

    Parameters
    ----------
    name : str
        A lower-case identifier.
    function : callable
        Maps an array of ranks to an array of the same shape; finite, non-negative and monotone.
    formula, reference : str
        Formula and source, for lists of metrics.

    Returns
    -------
    Metric
        The metric.

    Raises
    ------
    InputError
        If the name is invalid or taken, or the function is not as required.

    Examples
    --------
    >>> half = define("half", lambda r: 0.5**r, formula="0.5^r")
    >>> parse("index(half)"), parse("mean(2, half)").p, parse("ndcg(half)@10")
    (Adjusted('index(half)'), 2.0, QueryMetric('ndcg(half)@10'))
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise InputError("the name of a metric must be a lower-case identifier", got=repr(name)[:40])
    words = (*CALLED, "mean", "quantile", "inf", *_ADJUSTMENTS)
    taken = _plain(name) in _PLAIN | _PLAIN_QUERY or name in words
    if taken or _hits(name) is not None:
        raise InputError("this name of a metric is taken", got=repr(name), do="choose another name")
    metric = Metric(Transform(name, function, formula, reference or "user-defined"))
    _defined[name] = metric
    return metric


def parse(text: str | Expression) -> Expression:
    """Parse a metric expression.

    Parameters
    ----------
    text : str or Metric
        A metric expression, such as ``"mrr"``, ``"hits@10"`` or ``"index(mrr)"``, or an alias; metrics
        are returned as they are.

    Returns
    -------
    Metric, Statistic or Adjusted
        The metric.

    Raises
    ------
    UnknownMetricError
        If the expression cannot be parsed.
    InputError
        If it is not a text, or an argument in it is out of range.

    Examples
    --------
    >>> parse("1/hmr") == parse("mean_reciprocal_rank") == MRR
    True
    >>> print(parse("ah@10"), parse("z_hits_at_5"), parse("1/mean(0.5)"), parse("AMRI"))
    index(hits@10) z(hits@5) 1/mean(0.5) index(mr)
    >>> print(parse("P_5"), parse("ndcg_cut_10"), parse("R-precision"), parse("z(rbp(0.8))"))
    precision@5 ndcg@10 r_precision z(rbp(0.8))
    """
    if not isinstance(text, str):
        if isinstance(text, Expression):
            return text
        raise InputError("metrics must be texts such as 'mrr', or Metric objects", got=repr(text)[:40])
    source = re.sub(r"\br-prec", "r_prec", text.strip(), flags=re.IGNORECASE)  # no subtraction
    if len(source) > 200:
        raise _unknown(source[:40] + "...")
    words = source.replace("-", " ").split()
    named = _named("_".join(words)) if "".join(words).replace("_", "").isalnum() else None
    if named is not None:
        return named
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError:
        if text.count("(") > text.count(")"):
            raise UnknownMetricError("a closing bracket is missing", got=repr(text)) from None
        raise _unknown(text) from None
    if isinstance(tree, ast.Tuple) and len(tree.elts) > 1:
        each = [ast.get_source_segment(source, one) for one in tree.elts]
        do = f"write each on its own: {', '.join(map(repr, each))}"
        raise UnknownMetricError("several metrics in one text", got=repr(text), do=do)
    return _read(tree, text)


def listed(metrics: Iterable[Any]) -> list[str | Expression]:
    """Flatten metrics that are given one by one, or as a list.

    >>> listed(["mrr", "mr"]) == listed([["mrr", "mr"]])
    True
    """
    found: list[str | Expression] = []
    for given in metrics:
        several = as_list(given)
        found += [given] if several is None else several
    return found


def parse_metric(text: str | Metric | Statistic | QueryMetric) -> Metric | Statistic | QueryMetric:
    """Parse an expression of a metric that is not chance-adjusted."""
    expression = parse(text)
    if isinstance(expression, Adjusted):
        raise InputError(
            "a metric without adjustment is required", got=str(expression), do=f"use {expression.metric}"
        )
    return expression


def _named(name: str) -> Expression | None:
    plain = _plain(name)
    known = _defined.get(name.lower()) or _PLAIN.get(plain) or _hits(name)
    if known is not None:
        return known
    if _PLAIN_QUERY.get(plain) in QUERY_NAMES:
        return QUERY_NAMES[_PLAIN_QUERY[plain]]
    stem = name.rstrip("0123456789")  # recall_10, ndcg_cut_10 and P_5, as trec_eval has them
    if stem.endswith(("_", "at")) and stem != name:
        return _cut_off(stem.rstrip("_"), int(name[len(stem) :]))
    return None


def _cut_off(name: str, k: float) -> Metric | QueryMetric | None:
    """Return a metric of several answers with a cutoff; None for other names."""
    plain = _plain(name)
    stem = _PLAIN_QUERY.get(plain) or _PLAIN_QUERY.get(plain.removesuffix("at"))
    if stem == "mrr":
        return truncated("mrr", k)
    if stem == "ndcg":
        return truncated("ndcg", k)
    if stem in WITH_CUTOFF:
        return replace(QUERY_NAMES[stem], k=check_cutoff(stem, k))
    if stem in _NEED_CUTOFF:
        return replace(_NEED_CUTOFF[stem], k=check_cutoff(stem, k))
    return None


def _called(name: str, node: ast.expr, text: str) -> QueryMetric | None:
    """Parse rbp(0.8), err(3), and dcg, ndcg and first of a user-defined discount."""
    plain = _plain(name)
    if plain == "rbp":
        return QueryMetric("sum", geometric(_value(node, text)))
    if plain == "err":
        return QueryMetric("cascade", RECIPROCAL, largest=check_largest(_value(node, text)))
    if plain not in ("dcg", "ndcg", "first"):
        return None
    inner = _read(node, text)
    if not isinstance(inner, Metric) or (inner.p, inner.q) != (1.0, 1) or not inner.f.falling:
        raise InputError(
            f"{plain} of a discount requires a metric whose function falls with the rank",
            got=repr(text),
            do="define one: er.define('half', lambda r: 0.5 ** r)",
        )
    if plain == "first":
        return QueryMetric("first", inner.f)
    return QueryMetric("sum", inner.f, gain="linear", norm="ideal" if plain == "ndcg" else "one")


def _hits(name: str) -> Expression | None:
    """Parse names such as `hits_at_10`, `h10` and `adjusted_hits_at_5`."""
    stem = name.rstrip("0123456789")
    k = name[len(stem) :]
    family = _plain(stem).removesuffix("at")
    if not k or family not in _PLAIN_HITS:
        return None
    return _adjust(_PLAIN_HITS[family], Metric(hit(int(k))))


def _adjust(adjustment: AdjustmentName | None, metric: Expression) -> Expression:
    if adjustment is None:
        return metric
    return Adjusted(adjustment, metric)  # type: ignore[arg-type]  # Adjusted checks its argument


def _read(node: ast.expr, text: str) -> Expression:
    match node:
        case ast.Name(name):
            named = _named(name)
            if named is not None:
                return named
            bare = _plain(name).removesuffix("k").removesuffix("at")
            if bare in _PLAIN_HITS:
                raise _needs_k(text)
            if _PLAIN_QUERY.get(bare) in _NEED_CUTOFF:
                raise _needs_k(text, _PLAIN_QUERY[bare])
            if bare == "rbp":
                raise UnknownMetricError(
                    "rbp requires a persistence", got=repr(text), do="e.g. rbp(0.8)"
                )
        case ast.BinOp(ast.Constant(1), ast.Div(), right):
            inner = _read(right, text)
            if isinstance(inner, Adjusted | QueryMetric):
                what = (
                    "chance-adjusted metric"
                    if isinstance(inner, Adjusted)
                    else "metric of several answers"
                )
                raise InputError(f"a {what} has no inverse", got=repr(text))
            return 1 / inner
        case ast.BinOp(ast.BinOp(ast.Constant(1), ast.Div(), hits), ast.MatMult(), right):
            # Python parses 1/hits@10 as (1/hits)@10: `/` and `@` have equal precedence
            return _read(ast.BinOp(ast.Constant(1), ast.Div(), ast.BinOp(hits, node.op, right)), text)
        case ast.BinOp(ast.Name(name), ast.MatMult(), right) if _plain(name) in _PLAIN_HITS:
            if isinstance(right, ast.Name):
                raise _needs_k(text)
            k = _value(right, text)
            return _adjust(_PLAIN_HITS[_plain(name)], Metric(hit(int(k) if k % 1 == 0 else k)))
        case ast.BinOp(ast.Name(name), ast.MatMult(), right) if _plain(name) in _PLAIN_QUERY:
            if isinstance(right, ast.Name):
                raise _needs_k(text, _PLAIN_QUERY[_plain(name)])
            k = _value(right, text)
            found = _cut_off(name, int(k) if k % 1 == 0 else k)
            if found is not None:
                return found
            raise InputError(f"{_PLAIN_QUERY[_plain(name)]} has no cutoff", got=repr(text))
        case ast.BinOp(ast.Call(ast.Name(name), [of], []), ast.MatMult(), right):
            called = _called(name, of, text)
            k = _value(right, text)
            if called is not None and called.kind != "auc":
                return replace(called, k=check_cutoff(name, int(k) if k % 1 == 0 else k))
        case ast.Call(ast.Name("mean"), [power], []):
            return Metric(RANK, _value(power, text))
        case ast.Call(ast.Name("mean"), [power, of], []):
            inner = _read(of, text)
            if not isinstance(inner, Metric) or (inner.p, inner.q) != (1.0, 1):
                raise InputError("f in mean(p, f) must be a transform such as ndcg", got=repr(text))
            return Metric(inner.f, _value(power, text))
        case ast.Call(ast.Name("quantile"), [at], []):
            return Statistic("quantile", _value(at, text))
        case ast.Call(ast.Name(name), [of], []) if name.lower() in _ADJUSTMENTS:
            return _adjust(_ADJUSTMENTS[name.lower()], _read(of, text))
        case ast.Call(ast.Name(name), [of], []) if _plain(name) in (
            "rbp",
            "err",
            "dcg",
            "ndcg",
            "first",
        ):
            called = _called(name, of, text)
            assert called is not None
            return called
        case ast.Attribute():
            raise UnknownMetricError(
                "a metric expression contains no side and no tie-breaking rule",
                got=repr(text),
                do=[
                    f"use {text.rsplit('.', 1)[-1]!r}, and ",
                    Option("ties"),
                    " and ",
                    Option("by"),
                    " for the rest",
                ],
            )
    raise _unknown(text, ast.get_source_segment(text.strip(), node))


def _value(node: ast.expr, text: str) -> float:
    match node:
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            return float(value) if abs(value) < 1e300 else inf
        case ast.UnaryOp(ast.USub(), inner):
            return -_value(inner, text)
        case ast.BinOp(left, ast.Div(), right) if _value(right, text):
            return _value(left, text) / _value(right, text)
        case ast.Name("inf"):
            return inf
    raise InputError("a metric expression lacks a number", got=repr(text))


def _needs_k(text: str, name: str = "hits") -> UnknownMetricError:
    return UnknownMetricError(f"{name}@k requires a k", got=repr(text), do=f"e.g. {name}@10")


def _unknown(text: str, part: str | None = None) -> UnknownMetricError:
    """Describe an unknown metric, or the part of an expression that is unknown."""
    names, aliases = [*NAMES, *_defined], [*ALIASES, *QUERY_NAMES]
    do = advice(
        text, part or text, names, aliases, [*HITS_NAMES, *_NEED_CUTOFF, *WITH_CUTOFF, "mrr", "ndcg"]
    )
    do += " `" if do.endswith("?") else "; `"
    return UnknownMetricError(
        "unknown metric", got=repr(text), do=f"{do}evenrank evaluate --list` lists all metrics"
    )
