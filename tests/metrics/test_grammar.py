"""Names, aliases, and what cannot be read."""

import re

import numpy as np
import pytest

import evenrank as er
from evenrank.metrics import _advice
from evenrank.metrics.grammar import ALIASES, NAMES, parse

ALIAS_CASES = {
    "mr": "mr mean_rank arithmetic_mean_rank ArithmeticMeanRank MR mean-rank",
    "mrr": "mrr MRR mean_reciprocal_rank inverse_harmonic_mean_rank 1/hmr InverseHarmonicMeanRank",
    "imr": "imr iamr inverse_arithmetic_mean_rank 1/mr",
    "gmr": "gmr geometric_mean_rank mean(0) 1/igmr",
    "igmr": "igmr inverse_geometric_mean_rank 1/gmr",
    "hmr": "hmr harmonic_mean_rank mean(-1) 1/mrr",
    "max": "max mean(inf)",
    "min": "min mean(-inf)",
    "mean(0.5)": "mean(1/2) mean(.5)",
    "hits@10": "hits@10 h@10 hits_at_10 h_at_10 HITS@10 Hits_at_10 hits10",
    "1/hits@10": "1/hits@10 1/(hits@10)",
    "median": "median median_rank quantile(0.5)",
    "1/median": "1/median inverse_median_rank",
    "std": "std standard_deviation rank_std",
    "var": "var variance",
    "mad": "mad median_absolute_deviation",
    "count": "count rank_count",
    "ratio(mr)": "amr aamr adjusted_mean_rank adjusted_arithmetic_mean_rank ratio(mr)",
    "index(mr)": "amri aamri adjusted_arithmetic_mean_rank_index",
    "index(mrr)": "amrr aihmr adjusted_mrr adjusted_inverse_harmonic_mean_rank",
    "index(gmr)": "gmri agmri adjusted_geometric_mean_rank_index",
    "index(hits@10)": "ah@10 ahits@10 adjusted_hits_at_10 ahits_at_10 AdjustedHitsAt10",
    "z(mr)": "zmr zamr z_arithmetic_mean_rank z_mean_rank",
    "z(mrr)": "zmrr zihmr z_inverse_harmonic_mean_rank",
    "z(gmr)": "zgmr z_geometric_mean_rank",
    "z(hits@10)": "zh@10 z_hits_at_10 zhits@10 zah@10",
    "mean(2, ndcg)": "mean(2,ndcg)",
    "phi(mrr)": "phi(mean_reciprocal_rank)",
    "chance(hits@3)": "chance(h@3)",
}


@pytest.mark.parametrize(
    ("canonical", "alias"), [(c, a) for c, names in ALIAS_CASES.items() for a in names.split()]
)
def test_aliases_print_canonically(canonical, alias):
    assert str(er.parse(alias)) == canonical
    assert er.parse(canonical) == er.parse(alias)


def test_every_name_in_the_table_reads_and_writes():
    for name, target in (NAMES | ALIASES).items():
        assert er.parse(name) == target
        assert er.parse(str(target)) == target


def test_spaces_and_case_do_not_matter():
    assert er.parse("  Mean Reciprocal Rank ") == er.MRR
    assert er.parse("Z( hits@10 )") == er.parse("zh@10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mrrr", "did you mean mrr"),
        ("hits", "hits@k requires a k"),
        ("hits@k", "hits@k requires a k"),
        ("hits_at_k", "hits@k requires a k"),
        ("adjusted_hits_at_k", "hits@k requires a k"),
        ("hits@0", "k >= 1"),
        ("hits@-3", "k >= 1"),
        ("hits@1.5", "whole number"),
        ("z(index(mrr))", "only metrics without adjustment can be adjusted"),
        ("1/z(mrr)", "no inverse"),
        ("1/std", "not a metric"),
        ("index(count)", "cannot be adjusted"),
        ("z(mad)", "cannot be adjusted"),
        ("quantile(2)", "between 0 and 1"),
        ("mean(x)", "lacks a number"),
        ("mean(2, mrr)", "must be a transform"),
        ("both.realistic.mrr", "contains no side and no tie-breaking rule"),
        ("mrr)", "unknown metric"),
        ("", "unknown metric"),
        ("__import__('os')", "unknown metric"),
        ("2/mrr", "unknown metric"),
    ],
)
def test_invalid_metric_names_raise(text, message):
    with pytest.raises(er.errors.EvenrankError, match=message.replace("(", r"\(")) as caught:
        er.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        # by meaning
        ("accuracy", "is hits@1"),
        ("top-1 accuracy", "is hits@1"),
        ("Top-5", "is hits@5"),
        ("topk accuracy", "is hits@10"),
        ("f1", "f1@k requires a k"),
        ("recall", "recall@k requires a k"),
        ("rbp", "rbp requires a persistence; got 'rbp'; e.g. rbp(0.8)"),
        ("avg rank", "is mr"),
        ("z-score", "write z(mrr)"),
        ("zscore(hits@3)", "did you mean z(hits@3)?"),
        ("adjusted(mrr)", "did you mean index(mrr)?"),
        ("p-value", "computed by compare"),
        # by spelling
        ("mmr", "did you mean mrr or"),
        ("index(mmr)", "did you mean index(mrr) or"),
        ("amrri", "did you mean amrr or amri?"),
        ("hist@7", "did you mean hits@7?"),
        ("z(hit_at_3)", "did you mean z(hits@3)?"),
        ("mean_reciprical_rank", "did you mean mean_reciprocal_rank"),
        ("hits@1o", "write e.g. hits@10"),
        # by meaning, misspelled
        ("accurcy", "is hits@1"),
        ("ndgc@10", "did you mean ndcg@10?"),
        ("index(mmr@5)", "did you mean index(mrr@5)?"),
        ("recal@5", "did you mean recall@5?"),
        ("foo", "write e.g. mrr, hits@10 or index(mrr)"),
    ],
)
def test_advice_for_unknown_metrics(text, advice):
    with pytest.raises(er.errors.UnknownMetricError) as caught:
        er.parse(text)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("MAP@10", "map@10"), ("AP", "map"), ("P_5", "precision@5"), ("recall_at_3", "recall@3")),
        *(
            ("nDCG@10", "ndcg@10"),
            ("ndcg_cut_10", "ndcg@10"),
            ("map_cut_5", "map@5"),
            ("R@20", "recall@20"),
        ),
        *(("HR@20", "success@20"), ("recip_rank", "mrr"), ("RR@10", "mrr@10"), ("ROC-AUC", "auc")),
        *(
            ("Rprec", "r_precision"),
            ("R-precision", "r_precision"),
            ("index(r-precision)", "index(r_precision)"),
        ),
        *(("rbp(0.80)", "rbp(0.8)"), ("err(3)@20", "err(3)@20"), ("ERR@5", "err@5"), ("F1@7", "f1@7")),
    ],
)
def test_names_of_other_libraries_for_several_answers(text, name):
    assert str(er.parse(text)) == name
    assert er.parse(name) == er.parse(text)


def test_what_is_advised_can_be_parsed():
    texts = " ".join(
        [*_advice._BY_MEANING.values(), *(f"{f}(mrr)" for f in _advice._BY_FUNCTION.values())]
    )
    found = set(re.findall(r"hits@\{k\}|hits@\d+|\b[a-z]+\([\d.mr]+\)|\b(?:mrr|mr|ndcg)\b", texts))
    assert len(found) > 10
    for name in found:
        er.parse(name.format(k=10))


def test_index_of_mr_is_twice_the_auc_less_one():
    rank, candidates = np.array([1, 4, 2, 9]), 12
    auc = np.mean((candidates - rank) / (candidates - 1))
    index = er.Ranks.of(rank, candidates=candidates).evaluate("index(mr)")["index(mr)"]
    assert index == pytest.approx(2 * auc - 1, rel=1e-14)


def test_a_metric_must_be_text_or_a_metric():
    with pytest.raises(er.errors.InputError, match="or Metric objects; got 3"):
        er.parse(3)  # type: ignore[arg-type]


def test_user_defined_metrics_can_be_parsed():
    rbp = er.define("rbp8", lambda r: 0.8 ** (r - 1), formula="0.8^(r-1)")
    assert er.parse("rbp8") == rbp
    assert er.parse("z(rbp8)").metric == rbp
    assert str(er.parse("1/mean(2, rbp8)")) == "1/mean(2, rbp8)"
    ranks = er.Ranks.of([1, 2, 3], candidates=10)
    assert ranks.evaluate("rbp8")["rbp8"] == pytest.approx((1 + 0.8 + 0.64) / 3)
    assert -1 < ranks.evaluate("index(rbp8)")["index(rbp8)"] < 1


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("mrr", np.log, "taken"),
        ("hits_at_7", np.log, "taken"),
        ("Two Words", np.log, "identifier"),
        ("wave", np.sin, "non-negative"),
        ("bump", lambda r: np.abs(r - 5), "monotone"),
        ("scalar", lambda r: 1.0, "same shape"),
        ("pole", lambda r: 1 / (r - 1), "finite"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the pole divides by zero, which is the point
def test_invalid_definitions_raise(name, function, message):
    with pytest.raises(er.errors.InputError, match=message):
        er.define(name, function)


@pytest.mark.parametrize(
    "name", [*NAMES, "hits@10", "mean(3)", "1/quantile(0.9)", "index(mr)", "z(mrr)", "phi(gmr)"]
)
def test_every_metric_equals_its_parsed_name(name):
    metric = er.parse(name)
    low, high = metric.range
    assert low < high
    assert metric.formula
    assert metric.reference
    assert metric.increasing in (True, False, None)
    if metric.best is not None and name != "count":
        assert low <= metric.best <= high


@pytest.mark.parametrize("at", [2, 60, 65, 300, 4000])
def test_a_bump_at_any_small_rank_is_found(at):
    with pytest.raises(er.errors.InputError, match=f"falls from|rises from rank {at - 1}"):
        er.define("bump", lambda r: 1 / r + (r == at))


@pytest.mark.parametrize("at", [99_999, 1_000_000])
def test_a_bump_is_found_where_a_number_of_candidates_reaches_it(at):
    metric = er.define("late_bump", lambda r: 1 / r + (r == at))
    assert er.chance(metric, [1000]).mean() > 0
    with pytest.raises(er.errors.InputError, match="must be monotone"):
        er.chance(metric, [1000, at])


def test_a_bump_at_a_large_number_of_candidates_is_found():
    size = 3 * 10**9 + 7
    metric = er.define("far_bump", lambda r: 1 / r + (r == size))
    with pytest.raises(er.errors.InputError, match="must be monotone"):
        er.chance(metric, [10, size])


@pytest.mark.parametrize(
    "function", [lambda r: r**-0.001, np.tanh, lambda r: 1 - np.exp(-r / 10), lambda r: 0.1 + 1e-9 / r]
)
def test_rounding_is_no_bump(function):
    assert er.chance(er.define("smooth", function), [5, 10**6]).mean() > 0


@pytest.mark.parametrize("text", ["z(mrr", "1/mean(2", "index(mean(2)"])
def test_a_missing_bracket_is_named(text):
    with pytest.raises(er.errors.UnknownMetricError, match="a closing bracket is missing; got "):
        parse(text)
    assert str(parse(f"{text})")) == f"{text})"


def test_several_metrics_in_one_text_are_told_apart():
    message = "several metrics in one text; got 'mrr,hits@10'; write each on its own: 'mrr', 'hits@10'"
    with pytest.raises(er.errors.UnknownMetricError, match=message):
        parse("mrr,hits@10")
