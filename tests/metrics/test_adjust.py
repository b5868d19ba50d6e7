"""Adjustments: affine maps, their distributions under chance, and where they are undefined."""

import math

import numpy as np
import pytest
import strategies as own
from hypothesis import assume, given
from hypothesis import strategies as st

import evenrank as er
from evenrank.metrics.adjusted import LINES, Adjusted, Affine, index, ratio, z
from evenrank.metrics.chance import _check
from evenrank.metrics.metric import Transform

numbers = st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3)


@given(numbers, numbers, numbers, numbers, numbers)
def test_lines_compose_and_invert(a, b, c, d, x):
    first, second = Affine(a, b), Affine(c, d)
    assert (first @ second)(x) == pytest.approx(first(second(x)), rel=1e-9, abs=1e-9)
    assert (~first)(first(x)) == pytest.approx(x, rel=1e-6, abs=1e-6)
    assert (first @ ~first)(x) == pytest.approx(x, rel=1e-6, abs=1e-6)


def test_lines_print():
    assert str(Affine(2.0, -1.5)) == "2 x - 1.5"
    assert str(Affine(0.5)) == "0.5 x"


@given(own.sizes, own.metrics)
def test_under_random_ranking_index_and_z_have_mean_zero_and_z_variance_one(sizes, metric):
    """E[ratio] = 1, E[index] = E[z] = 0, V[z] = 1: over every outcome, for every metric."""
    assume(math.prod(sizes) <= 600)
    null, error_text = er.chance(metric, sizes), ""
    try:
        outcomes = _check.enumerated(metric, null.sizes)
        lines = {name: LINES[name](null) for name in ("ratio", "index", "z")}
    except (er.errors.NullDistributionError, er.errors.DegenerateError) as error:
        error_text = str(error)
    if error_text:  # and nothing else may be
        assert "infinite" in error_text or "every ranking has" in error_text
        return
    assume(null.std() > 1e-6 * abs(null.mean()))
    values = {name: np.array([line(x) for x in outcomes]) for name, line in lines.items()}
    assert values["ratio"].mean() == pytest.approx(1, rel=1e-9)
    assert values["index"].mean() == pytest.approx(0, abs=1e-8 * (1 + np.abs(values["index"]).max()))
    assert values["z"].mean() == pytest.approx(0, abs=1e-6)
    assert values["z"].var() == pytest.approx(1, rel=1e-6)


@given(own.sizes, own.metrics)
def test_larger_is_better_for_index_and_z(sizes, metric):
    assume(max(sizes) > 1)
    null, error_text = er.chance(metric, sizes), ""
    try:
        to_index, to_z = index(null), z(null)
    except (er.errors.NullDistributionError, er.errors.DegenerateError) as error:
        error_text = str(error)
    if error_text:  # and nothing else may be
        assert "infinite" in error_text or "every ranking has" in error_text
        return
    assert to_index(null.best) == pytest.approx(1, abs=1e-9)
    assert to_z(null.best) > 0
    assert to_index(null.mean()) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["mrr", "mr", "gmr", "hits@1"])
def test_a_perfect_ranking_has_an_index_of_exactly_one_and_chance_of_zero(name):
    adjusted = er.parse(f"index({name})")
    for size in range(2, 200):
        assert adjusted(er.Tally.of([0] * 3, [0] * 3, [size] * 3)) == 1.0
        null = er.chance(name, [size] * 3)
        line = index(null)
        assert line(float(null.mean())) == 0.0
        assert np.array_equal(line(np.array([float(null.mean()), null.best])), [0.0, 1.0])


@pytest.mark.parametrize(("name", "smaller"), [("hits@5", True), ("mrr", False)])
def test_only_hits_have_a_smaller_k(name, smaller):
    with pytest.raises(er.errors.DegenerateError, match="rank more candidates") as error:
        index(er.chance(name, [1, 1]))
    assert str(error.value).endswith("or use a smaller k") == smaller


def test_inverting_recovers_published_raw_values():
    null = er.chance("mrr", {14_541: 40_932})
    for line in (ratio(null), index(null), z(null)):
        assert (~line)(line(0.338)) == pytest.approx(0.338, rel=1e-12)
    back = er.adjust({"z(mrr)": float(z(null)(0.338))}, sizes={14_541: 40_932})
    assert back["mrr"] == pytest.approx(0.338, rel=1e-10)


def test_phi_is_the_normal_probability_of_z():
    ranks = er.Ranks.of([1, 4, 9, 2], candidates=10)
    result = ranks.evaluate("z(mrr)", "phi(mrr)", "chance(mrr)")
    want = 0.5 * math.erfc(-result["z(mrr)"] / math.sqrt(2))
    assert result["phi(mrr)"] == pytest.approx(want, rel=1e-14)
    assert result["chance(mrr)"] == pytest.approx(sum(1 / j for j in range(1, 11)) / 10, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("index(mrr)", [1, 1, 1]),
        ("z(mrr)", [1, 1]),
        ("z(mr)", [1]),
        ("index(median)", [1, 1, 1, 1]),
        ("index(hits@10)", [10, 7, 3]),
        ("z(hits@10)", [10, 10]),
        ("z(gmr)", [1, 1]),
        ("phi(hmr)", [1]),
        ("index(max)", [1, 1]),
    ],
)
def test_a_perfect_chance_level_is_an_error_not_an_epsilon(name, sizes):
    perfect = er.Ranks.of([1] * len(sizes), candidates=sizes)
    with pytest.raises(er.errors.DegenerateError, match="undefined: every ranking has the value"):
        perfect.evaluate(name)
    ratio = perfect.evaluate(f"ratio({er.parse(name).metric})")
    assert next(iter(ratio.to_dict().values())) == pytest.approx(1.0)


def test_degenerate_cells_of_the_default_table_are_dashes_with_a_note():
    result = er.Ranks.of([1, 1], candidates=[1, 1]).evaluate()
    assert result["mrr"] == 1.0
    assert np.isnan(result["index(mrr)"])
    assert "undefined: every ranking has the value 1" in str(result)
    assert '"index(mrr)": null' in result.to_json()


@pytest.mark.parametrize(
    "name", ["1/hits@10", "1/mean(2, hits@10)", "1/mean(-1, hits@1)", "1/mean(inf, hits@3)"]
)
def test_infinite_expectations_raise(name):
    with pytest.raises(er.errors.NullDistributionError, match="infinite"):
        er.chance(name, [50, 60]).mean()
    with pytest.raises(er.errors.NullDistributionError, match="infinite"):
        er.chance(name, [50, 60], method="enumerate").mean()
    with pytest.raises(er.errors.NullDistributionError, match="infinite"):
        er.Ranks.of([3, 4], candidates=[50, 60]).evaluate(f"z({name})")


def test_an_inverse_of_hits_is_finite_when_one_task_cannot_miss():
    """With a task of at most k candidates hits@k is never 0, so 1/hits@k has a mean."""
    null, every = er.chance("1/hits@3", [3, 8, 9]), er.chance("1/hits@3", [3, 8, 9], method="enumerate")
    assert null.mean() == pytest.approx(every.mean(), rel=1e-12)
    assert null.var() == pytest.approx(every.var(), rel=1e-12)


def test_adjust_reports_every_form():
    result = er.adjust({"mrr": 0.476, "hits@10": 0.571}, sizes=[40_000] * 100)
    assert result["index(mrr)"] == pytest.approx(
        (0.476 - result["chance(mrr)"]) / (1 - result["chance(mrr)"])
    )
    assert [str(e) for e in result.expressions[:6]] == [
        "mrr", "chance(mrr)", "ratio(mrr)", "index(mrr)", "z(mrr)", "phi(mrr)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mrr": 120}, "impossible value of mrr; got mrr=120; allowed: 0.01 to 1 among"),
        ({"mr": 0.5}, "impossible value of mr"),
        ({"hits@10": float("nan")}, "impossible value of hits@10"),
        ({"index(mrr)": -3.0}, "impossible value of mrr; got index.mrr.=-3, which is mrr="),
        ({"phi(mrr)": 0.9}, "cannot be converted back"),
        ({"chance(mrr)": 0.1}, "it is the same for every model"),
        ({"count": 5}, "no chance level"),
        ({}, "nothing to adjust"),
    ],
)
def test_impossible_published_values_are_errors(values, message):
    with pytest.raises(er.errors.EvenrankError, match=message):
        er.adjust(values, sizes=[100] * 5)


# Desiderata -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("mr", "yes no no no no"),
        ("mrr", "yes yes yes yes no"),
        ("hits@10", "yes yes yes no no"),
        ("hits@1", "yes yes yes no no"),
        ("index(mr)", "no yes yes yes yes"),
        ("index(mrr)", "no yes yes yes yes"),
        ("index(hits@10)", "no yes yes no yes"),
        ("ratio(mr)", "yes no yes no yes"),
        ("z(mrr)", "no no yes yes yes"),
        ("igmr", "yes yes yes yes no"),
        ("ndcg", "yes yes yes yes no"),
        ("median", "yes no no no no"),
    ],
)
def test_desiderata_reproduce_the_papers_table(name, row):
    verdicts = er.desiderata(name)[name]
    assert " ".join("yes" if v else "no" for v in verdicts.values()) == row
    for verdict in verdicts.values():
        assert bool(verdict.why) != bool(verdict)  # a reason exactly where it fails


def test_desiderata_show_what_adjustments_repair():
    table = er.desiderata("mrr")
    assert list(table) == ["mrr", "ratio(mrr)", "index(mrr)", "z(mrr)", "phi(mrr)"]
    assert not table["mrr"]["size invariant"]
    assert all(table[f"{a}(mrr)"]["size invariant"] for a in ("ratio", "index", "z"))
    assert "mrr is not size invariant: the expected value is 0.2586 for 12 candidates" in repr(table)
    assert "<table>" in table._repr_html_()


def test_desiderata_take_user_metrics():
    linear = er.define("linear1000", lambda r: np.maximum(0.0, 1 - (r - 1) / 1000))
    verdicts = er.desiderata(linear)["linear1000"]
    assert [bool(v) for v in verdicts.values()] == [True, True, True, False, False]  # 0 from 1001 on
    with pytest.raises(er.errors.InputError, match="requires a metric"):
        er.desiderata()
    with pytest.raises(er.errors.InputError, match="neither large nor small values are better"):
        er.desiderata("std")


@pytest.mark.parametrize(
    "name", ["hits@12", "hits@100", "1/hits@10", "imr", "hmr", "max", "quantile(0.9)"]
)
def test_desiderata_are_decided_for_any_metric(name):
    table = er.desiderata(name)
    assert len(table) == 5
    assert all(bool(v.why) != bool(v) for verdicts in table.values() for v in verdicts.values())
    if name == "imr":
        assert table["phi(imr)"]["anti-monotonic"]
        assert not table["phi(imr)"]["fixed optimum"]
    if name == "1/hits@10":
        assert "infinite" in table["z(1/hits@10)"]["non-negative"].why


def test_a_variance_that_underflows_raises():
    with pytest.raises(er.errors.DegenerateError, match="variance of the null distribution underflows"):
        er.Ranks.of([3] * 10_000, candidates=3).evaluate("z(max)")


@pytest.mark.parametrize("k", [13, 50, 2000, 300_000])
@pytest.mark.parametrize("name", ["{}", "index({})", "z({})"])
def test_truncated_transforms_are_not_anti_monotonic(k, name):
    metric = er.Metric(Transform(f"truncated{k}", lambda r: np.where(r <= k, 1.0 / r, 0.0)))
    form = name.split("(")[0]
    expression = metric if name == "{}" else Adjusted(form, metric)
    (verdicts, *_) = er.desiderata(expression)._verdicts.values()
    verdict = verdicts["anti-monotonic"]
    assert not verdict
    first = int(verdict.why.split("rank ")[1].split(" ")[0].replace(",", ""))
    assert first > k


@pytest.mark.parametrize(
    "function",
    [
        lambda r: 0.8 ** (r - 1),  # underflows, but is not flat
        lambda r: 1 / (1 + np.log(r)),
        lambda r: 1 / (1 + np.log1p(np.log(r))),
        lambda r: 0.5 + 0.5 / r,
        lambda r: r**-0.01,
    ],
)
def test_transforms_that_decay_to_any_constant_have_a_pessimum_and_are_anti_monotonic(function):
    (verdicts, *_) = er.desiderata(er.Metric(Transform("decaying", function)))._verdicts.values()
    assert verdicts["asymptotic pessimum"]
    assert verdicts["anti-monotonic"]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("index(mr)", True),  # -1
        ("ratio(mr)", True),  # 2
        ("ratio(mrr)", True),
        ("phi(mrr)", True),  # 1/2
        ("z(mr)", False),  # -sqrt(3 n) depends on the number of targets
        ("index(hmr)", False),  # -log N
        ("hmr", False),
        ("gmr", False),
    ],
)
def test_pessimum_may_be_any_constant(name, holds):
    verdict = er.desiderata(name)[name]["asymptotic pessimum"]
    assert bool(verdict) == holds, verdict.why


def test_constants_have_verdicts_where_their_adjustments_are_undefined():
    table = er.desiderata(er.Metric(Transform("two", lambda r: 0.0 * r + 2.0)))
    assert "undefined" in table._verdicts["index(two)"]["non-negative"].why


@pytest.mark.parametrize("name", ["mr", "mrr", "ndcg", "hits@1", "hits@3", "gmr", "imr"])
def test_indices_stay_in_their_range(name):
    adjusted = er.parse(f"index({name})")
    low, high = adjusted.range
    lowest = math.inf
    for size in range(2, 30):
        for ranks in ([size], [size] * 4, [1, size, size]):
            better = np.array(ranks) - 1
            try:
                value = adjusted(er.Tally.of(better, better * 0, better * 0 + size))
            except er.errors.DegenerateError:
                continue
            assert low - 1e-12 <= value <= high + 1e-12
            lowest = min(lowest, value)
    if low > -math.inf:
        assert lowest == pytest.approx(low)  # and the bound is attained


def test_the_range_of_an_index_is_shown_in_terms_of_its_chance_level():
    assert er.parse("index(mr)").span == "-1 to 1"
    assert er.parse("index(mrr)").span == er.parse("index(hits@10)").span == "-E/(1-E) to 1"
    assert er.parse("index(gmr)").span == "-inf to 1"
    assert er.parse("z(mr)").span == "-inf to inf"
