"""Advice for unknown names of metrics: first by what is meant, then by spelling."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

_ONE = "with one answer per query, "
_NOT_OF_RANKS = "it is not a rank-based metric; write e.g. mrr, hits@10 or index(mr)"

# Metrics that other fields and libraries report, and what they are for ranks of single targets;
# {k} is the cutoff in the name, or 10.
_MEANINGS: dict[str, str] = {
    name: advice
    for names, advice in {
        "accuracy acc top1 p1": "the share of targets that are ranked first is hits@1",
        "topk_accuracy top topk topk_acc recall success": _ONE + "this is hits@{k}",
        "precision": _ONE + "precision at k is hits@k divided by k; use hits@{k}",
        "f1": _ONE + "F1 at k is 2 hits@k / (k + 1); use hits@{k}",
        "map map_min": _ONE + "average precision is 1/rank; use mrr",
        "dcg ndcg": _ONE + "nDCG is the mean of 1/log2(rank + 1); use ndcg or ndcg@{k}",
        "err rbp first": _ONE + "this is a function of the rank alone; use mrr, ndcg or er.define",
        "r_precision": _ONE + "R-precision is hits@1",
        "auc": "use index(mr): if all targets have equally many candidates, it is 2 AUC - 1",
        "average_rank avg_rank rank ranks meanrank_avg": "the mean of the ranks is mr",
        "percentile percentile_rank normalized_rank relative_rank mpr": (
            "for ranks relative to the number of candidates use index(mr), or ratio(mr)"
        ),
        "f rmse mse mae loss nll ppl perplexity auprc pr_auc aucpr brier": _NOT_OF_RANKS,
        "chance expected expectation baseline random": "write chance(mrr) for the chance level of mrr",
        "index adjusted adjusted_index": "write index(mrr) for the chance-adjusted mrr",
        "z zscore z_score zscores": "write z(mrr) for the z-score of mrr",
        "p_value pvalue pval significance": "p-values are computed by compare, not by a metric",
        "mean avg average": "write mr for the mean rank, or mean(2) for a power mean",
        "quantile percent": "write quantile(0.9) for a quantile of the ranks",
    }.items()
    for name in names.split()
}
# functions of a metric
_FUNCTIONS = {
    name: function
    for function, names in {
        "z": "zscore z_score zscored standardized standardised",
        "index": "adjusted adjust adj adjusted_index normalized",
        "chance": "expected expectation random baseline chance_level",
    }.items()
    for name in names.split()
}
_WITH_CUTOFF = {"top1": "top"}
_CUTOFF = re.compile(
    r"(?P<name>.*?[a-z])(?:[\s_-]*(?:@|at)[\s_-]*|[\s_-]*)(?P<k>\d{1,9}|k)", re.IGNORECASE
)
# top-1 accuracy
_TOP = re.compile(r"top[\s_-]*(\d{1,9})[\s_-]*acc(?:uracy)?", re.IGNORECASE)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


_BY_MEANING = {_plain(name): advice for name, advice in _MEANINGS.items()}
_BY_FUNCTION = {_plain(name): function for name, function in _FUNCTIONS.items()}


def single_answer(stem: str, k: int) -> str:
    """Say which metric of single targets to use in place of one of several answers.

    >>> single_answer("recall", 5)
    'with one answer per query, this is hits@5'
    """
    stem = stem.removesuffix("_exp").removesuffix("_bin")
    return _BY_MEANING[_plain(stem)].format(k=k)


def advice(
    text: str, part: str, names: Collection[str], aliases: Collection[str], with_k: Collection[str]
) -> str:
    """Say what to write instead of an unknown metric.

    Parameters
    ----------
    text : str
        The whole expression.
    part : str
        The piece of it that is not known.
    names, aliases : collection of str
        Names of metrics.
    with_k : collection of str
        Names that are followed by a cutoff, such as hits.

    Returns
    -------
    str
        What to do.

    Examples
    --------
    >>> advice("index(top@5)", "top@5", ["mrr"], ["rr"], ["hits"])
    'with one answer per query, this is hits@5'
    >>> advice("index(hist@5)", "hist@5", ["mrr"], ["rr"], ["hits"])
    'did you mean index(hits@5)?'
    """
    part = part.strip().removeprefix("1/")
    function, inside, rest = part.partition("(")
    if inside and _plain(function) in _BY_FUNCTION:
        return f"did you mean {text.replace(part, f'{_BY_FUNCTION[_plain(function)]}({rest}')}?"
    cut = _CUTOFF.fullmatch(_TOP.sub(r"top@\1", part))
    name, k = (cut["name"], cut["k"]) if cut else (part, None)
    plain = _plain(name)
    for one in (_plain(part), _WITH_CUTOFF.get(plain, plain) if k else plain):
        if one in _BY_MEANING:
            return _BY_MEANING[one].format(k=k if k and k != "k" else 10)
    if re.match("h(its)?@", part.lower()):
        return "write e.g. hits@10"
    near = [f"{one}@{k}" for one in get_close_matches(name.lower(), with_k, 1, 0.6) if k]
    if not near:
        alike = [*get_close_matches(part.lower(), names, 3, 0.6)]
        alike += get_close_matches(part.lower(), aliases, 3, 0.85)
        # mmr is rather mrr than mr
        near = sorted(dict.fromkeys(alike), key=lambda one: abs(len(one) - len(part)))[:2]
    if near:
        return f"did you mean {' or '.join(text.replace(part, one) for one in near)}?"
    for one in get_close_matches(plain, _BY_MEANING, 1, 0.85):  # accurcy, recal@5
        return _BY_MEANING[one].format(k=k if k and k != "k" else 10)
    return "write e.g. mrr, hits@10 or index(mrr)"
