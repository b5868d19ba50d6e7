"""The audit of published results: no false alarms, and explanations that name the numbers."""

import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from shared import needs, path

import evenrank as er
from evenrank.metrics.ties import TIES
from evenrank.published import PublishedValue, audit, results
from evenrank.published._audit import Run, audit_run
from evenrank.published._consistency import ranges
from evenrank.published._joint import _moment, _Program, misfits

# Hoyt's case study and the field's papers print these; 10,000 sets are drawn with EVENRANK_AUDITED=10000
DRAWN = int(os.environ.get("EVENRANK_AUDITED", "500"))
METRICS = ("hits@1", "hits@3", "hits@10", "hits@100", "mrr", "mr", "gmr", "hmr", "imr", "ndcg", "igmr")
FRACTIONS = ("mrr", "hits", "ndcg", "imr", "igmr")


def computed(better, equal, ties):
    """Compute the metrics of ranks by their definitions, one rank after the other."""
    if ties == "expected":  # the mean over all orders of the tied candidates
        ranks = [np.arange(b + 1, b + e + 2, dtype=float) for b, e in zip(better, equal, strict=True)]
    else:
        place = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}[ties]
        ranks = [np.array([b + 1 + place * e]) for b, e in zip(better, equal, strict=True)]

    def mean(function):
        return float(np.mean([function(one).mean() for one in ranks]))

    made = {f"hits@{k}": mean(lambda r, k=k: r <= k) for k in (1, 3, 10, 100)}
    made |= {
        "mrr": mean(lambda r: 1 / r),
        "mr": mean(lambda r: r),
        "ndcg": mean(lambda r: 1 / np.log2(1 + r)),
    }
    made["gmr"] = float(np.exp(mean(np.log)))
    return made | {"hmr": 1 / made["mrr"], "imr": 1 / made["mr"], "igmr": 1 / made["gmr"]}


def drawn(rng):
    """Draw ranks, tie them, average them, and print some metrics as papers do.

    Returns the printed text by metric, whether all fractions are in percent, the number of candidates,
    and whether ranks are whole.
    """
    size = int(rng.choice([2, 5, 14, 104, 14_541, 123_182]))
    ties = rng.choice(TIES)
    groups = []
    for _ in range(int(rng.choice([1, 1, 2, 5]))):  # micro; both sides; relations
        many = int(rng.choice([1, 3, 30]))
        skew = rng.choice([1.0, 4.0, 12.0])
        better = np.minimum((rng.random(many) ** skew * size).astype(int), size - 1)
        equal = (
            (rng.random(many) ** 6 * (size - better)).astype(int) if rng.random() < 0.6 else 0 * better
        )
        equal = np.minimum(equal, min(size, 2000) - 1)
        equal = np.minimum(equal, size - 1 - better)
        groups.append(computed(better, equal, ties))
    averaged = {name: float(np.mean([group[name] for group in groups])) for name in METRICS}
    names = rng.choice(METRICS, int(rng.integers(2, len(METRICS) + 1)), replace=False)
    percent, places = bool(rng.random() < 0.5), int(rng.integers(1, 5))
    printed = {}
    for name in names:
        in_percent = percent and name.startswith(FRACTIONS)
        printed[str(name)] = f"{averaged[name] * (100 if in_percent else 1):.{places}f}"
    return printed, percent, size, bool(ties in ("optimistic", "pessimistic"))


def findings(printed, percent, size, whole, *, decided=True):
    """Audit printed values, with and without the number of candidates."""
    values = [PublishedValue.of(name, text) for name, text in printed.items()]
    if decided and percent:
        values = [
            PublishedValue.of(str(one.expression), f"{printed[str(one.expression)]} %")
            if one.ends_at_one
            else one
            for one in values
        ]
    return [
        str(found)
        for most in (float("inf"), size)
        for found in audit_run(Run("d", "m", tuple(values), most, None, whole, decided=decided))
    ]


def above_one(item):
    name, text = item
    return name.startswith(FRACTIONS) and float(text) > 1


@pytest.mark.parametrize("seed", range(10))
def test_values_computed_from_ranks_have_no_findings(seed):
    rng = np.random.default_rng(seed)
    for _ in range(DRAWN // 10):
        printed, percent, size, whole = drawn(rng)
        assert findings(printed, percent, size, whole) == [], (printed, percent, size, whole)
        found = findings(printed, percent, size, False, decided=False)
        if not percent or any(map(above_one, printed.items())):
            found = [one for one in found if not (percent and " in percent" in one)]
            assert found == [], (printed, percent, size)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_table_of_values_computed_from_ranks_has_no_findings(seed):
    printed, percent, *_ = drawn(np.random.default_rng(seed))
    row = {"model": "A", "data": "my graph", **printed}
    assert list(audit([row], percent=percent)) == []
    if not percent:
        assert list(audit([row])) == []


def infeasible(size, values):
    """Solve the problem on all ranks 1, 1.5, ..., size."""
    rank = np.arange(1.0, size + 0.5, 0.5)
    terms = {"mrr": 1 / rank, "mr": rank}
    rows, most = [], []
    for name, text in values.items():
        low, high = PublishedValue.of(name, text).rounded_from
        x = terms[name] if name in terms else (rank <= int(name[5:])) * 1.0
        scale = max(1.0, high)
        rows += [x / scale, -x / scale]
        most += [high / scale, -low / scale]
    return linprog(np.zeros(len(rank)), rows, most, np.ones((1, len(rank))), [1.0]).status == 2


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_findings_equal_an_infeasible_linear_program_over_all_ranks(data):
    """Up to rank 12 each rank is a bin of its own, so that nothing is relaxed."""
    size = data.draw(st.sampled_from([10, 60]))
    hits = sorted(data.draw(st.lists(st.floats(0, 1), min_size=2, max_size=2)))
    values = {"hits@1": f"{hits[0]:.2f}", "hits@3": f"{hits[1]:.2f}"}
    values |= {"mrr": f"{data.draw(st.floats(0.1, 1)):.2f}", "mr": f"{data.draw(st.floats(1, 10)):.1f}"}
    given = [PublishedValue.of(name, text) for name, text in values.items()]
    found = bool(misfits(given, most=size))
    if size == 10:
        assert found == infeasible(size, values), values
    else:
        assert not found or infeasible(size, values), values


@pytest.mark.parametrize("step", [0.5, 1.0])
@pytest.mark.parametrize("most", [1.0, 2.0, 13.0, 14_541.0, 123_182.0, float("inf")])
def test_every_rank_is_in_a_bin(step, most):
    moments = [
        _moment(one) for text in ("5", "7") for one in ranges(PublishedValue.of("mr", text), None)
    ]
    low, high = _Program(moments[:1], most, step)._bins
    for rank in np.arange(1.0, min(most, 300.0) + step, step):
        if rank <= most:
            assert ((low[0] <= rank) & (rank <= high[0])).any(), rank


@pytest.mark.parametrize(
    ("values", "data", "sentence"),
    [
        (
            {"hits@3": "0.31", "hits@10": "0.29"},
            "wn18rr",
            "hits@3=0.31 and hits@10=0.29 contradict each other: hits@3 <= hits@10, but even with "
            "rounding 0.305 > 0.295",
        ),
        (
            {"hits@1": "0.20", "hits@10": "0.50", "mr": "8.0", "mrr": "0.245"},
            "kinships",
            r"hits@1=0.20 and mr=8.0 imply mrr >= 0.277\d+ among at most 104 candidates, but mrr=0.245 "
            "is at most 0.2455",
        ),
        (
            {"mr": "0.8"},
            "wn18rr",
            "mr=0.8 is impossible: mr >= 1 for all ranks, but even with rounding it is at most ",
        ),
        ({"mrr": "101"}, "wn18rr", "mrr=101 is impossible: mrr <= 1 for all ranks"),
        (
            {"mr": "15000"},
            "fb15k237",
            "mr=15000 is impossible: mr <= 14541 among at most 14,541 candidates, but even with "
            "rounding it is at least 14999.5",
        ),
        (
            {"mrr": "0.02"},
            "nations",
            "mrr=0.02 is impossible: mrr >= 0.0714286 among at most 14 candidates, but even with",
        ),
        (
            {"hits@10": "0.60"},
            "nations",
            "hits@10=0.60 is impossible: hits@10 >= 0.718905 among the candidates of nations, but even "
            "with rounding it is at most 0.605, unless it is a macro average",
        ),
        (
            {"index(mr)": "0.90", "mr": "9000"},
            "fb15k237",
            r"mr=9000 and index\(mr\)=0.90 contradict each other: mr <= mr from index\(mr\), but even "
            "with rounding 8999.5 > 7",
        ),
        (
            {"hits@1": "0.428", "hits@3": "49.2", "hits@10": "57.1", "mrr": "0.476"},
            "wn18rr",
            "hits@1=0.428 can only be a fraction, next to hits@3=49.2 % and hits@10=57.1 %",
        ),
    ],
)
def test_a_finding_is_one_sentence_with_the_inequality_and_the_numbers(values, data, sentence):
    found = audit([{"model": "A", "data": data, **values}])
    assert re.match(sentence.replace("(1", r"\(1"), str(found.findings[0])), str(found)
    assert len(found) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"mr": "100.0", "gmr": "102.0"},
        {"mr": "50.0", "mrr": "0.0190"},
        {"mrr": "0.0190", "gmr": "50.0"},
        {"imr": "0.0200", "mrr": "0.0190"},
        {"imr": "0.0200", "igmr": "0.0190"},
    ],
)
def test_means_of_ranks_in_the_wrong_order_by_a_few_percent_are_found(values):
    """Ranks of 50 to 102 are in bins that are wider than that."""
    assert len(audit([{"model": "A", "data": "my graph", **values}], percent=False)) == 1


def test_means_of_groups_of_ranks_may_be_in_another_order():
    """Ranks of 1 in one group and of 100 in another one: a mean GMR of 50.5, and a mean IMR of 0.505."""
    row = {"model": "A", "data": "my graph", "gmr": "50.5", "hmr": "50.5", "imr": "0.505"}
    assert len(audit([row], percent=False)) == 0
    assert len(er.published.contradictions({name: row[name] for name in ("gmr", "imr")})) == 1


def test_half_ranks_of_ties_are_no_contradiction_unless_ranks_are_known_to_be_whole():
    row = {"model": "A", "data": "wn18rr", "hits@1": "0.500", "mrr": "0.830"}  # all others at rank 1.5
    assert len(audit([row])) == 0
    columns = {"model": "A", "data": "wn18rr", "source": "B"}
    told = [columns | {"metric": name, "printed": row[name]} for name in ("hits@1", "mrr")]
    assert len(audit([one | {"ties": "realistic"} for one in told])) == 0
    assert len(audit([one | {"ties": "pessimistic"} for one in told])) == 1


def test_a_finding_says_if_cut_off_digits_explain_it():
    (found,) = audit([{"model": "A", "data": "wn18rr", "mrr": "0.48", "hits@1": "0.488"}])
    assert found.last_digit
    assert str(found).endswith("; it would fit if the last digits were off by one")
    (found,) = audit([{"model": "A", "data": "wn18rr", "mrr": "0.480", "hits@1": "0.490"}])
    assert not found.last_digit


@pytest.mark.parametrize("source", ["table", "record"])
def test_adjusted_values_fit_if_they_do_with_or_without_unseen_entities(source):
    """AMRI of a rank of 3340 on WN18RR: 0.8368 where unseen entities are kept, 0.8353 where not."""
    about = {"model": "A", "data": "wn18rr"}

    def found(index, unseen=None):
        row = {"mr": "3340", "index(mr)": index} | ({"unseen": unseen} if unseen else {})
        if source == "table":
            return len(audit([about | row]))
        about_each = about | {"source": "B"} | ({"unseen": unseen} if unseen else {})
        told = [about_each | {"metric": name, "printed": row[name]} for name in ("mr", "index(mr)")]
        return len(audit(told))

    assert [found(index) for index in ("0.8368", "0.8353", "0.8360")] == [0, 0, 1]
    assert [found("0.8368", kept) for kept in ("keep", "drop")] == [0, 1]
    assert [found("0.8353", kept) for kept in ("keep", "drop")] == [1, 0]
    if source == "table":
        row = about | {"mr": "3340", "index(mr)": "0.8353"}
        assert [len(audit([row], unseen=kept)) for kept in ("keep", "drop")] == [1, 0]


@pytest.mark.parametrize("metric", ["mr", "mrr", "hits@10", "ndcg", "gmr"])
@pytest.mark.parametrize("move", [-0.02, 0.02])
def test_raw_and_adjusted_values_that_differ_a_little_are_found(metric, move):
    value = {"mr": 300.0, "gmr": 30.0}.get(metric, 0.3)
    index = er.adjust({metric: value}, data="fb15k237")[f"index({metric})"]
    about = {"model": "A", "data": "fb15k237", metric: f"{value:.3f}"}
    assert len(audit([about | {f"index({metric})": f"{index:.6f}"}], percent=False)) == 0
    (found,) = audit([about | {f"index({metric})": f"{index + move * (1 - index):.6f}"}], percent=False)
    assert f"{metric} from index({metric})" in found.text


def test_the_same_model_twice_is_audited_as_two_evaluations():
    rows = [
        {"model": "A", "data": "wn18rr", "metric": name, "value": value}
        for name, value in (("mrr", 0.3), ("hits@1", 0.2), ("mrr", 0.6), ("hits@1", 0.5))
    ]
    assert (audit(rows).runs, len(audit(rows))) == (2, 0)


def test_unknown_data_sets_and_metrics_are_listed_once_each(tmp_path):
    file = tmp_path / "results.csv"
    lines = [
        "model,data,metric,value",
        "A,foo,mrr,0.3",
        "A,foo,hits@1,0.5",
        "A,bar,mrr,.3",
        "A,foo,quality,.3",
    ]
    file.write_text(
        "\n".join([*lines, "B,wn18rr,quality,.9", 'B,wn18rr,mrr,"0,31"', "B,wn18rr,score,.2"])
    )
    found = audit(file)
    assert found.notes == (
        "not in the atlas, checked without candidates: foo, bar",
        "metrics not checked: quality, score",
    )
    assert (len(found), found.values, found.runs) == (1, 4, 3)
    with pytest.raises(er.errors.InputError, match="no such data sets; got foo, bar; see"):
        er.published.adjust_table([{"model": "A", "data": d, "mrr": 0.3} for d in ("foo", "bar", "foo")])
    message = "csv:1: unknown data sets and metrics; got foo, bar, quality, score; see `evenrank atlas"
    with pytest.raises(er.errors.InputError, match=message):
        er.published.adjust_table(file)
    with pytest.raises(er.errors.UnknownMetricError, match="unknown metrics; got quality, score; see"):
        er.published.adjust_table([row | {"data": "wn18rr"} for row in pl.read_csv(file).to_dicts()])


def test_a_line_that_states_an_unknown_protocol_is_named(tmp_path):
    file = tmp_path / "results.csv"
    file.write_text("model,data,split,mrr\nA,wn18rr,test,0.4\nB,wn18rr,dev,0.4\n")
    with pytest.raises(er.errors.InputError, match=r"results.csv:3: .*got 'dev'; allowed: train, valid"):
        audit(file)


def test_values_that_are_no_numbers_are_not_counted_as_checked():
    row = {"model": "A", "data": "wn18rr", "hits@10": 0.5}
    assert audit([row | {"mrr": float("nan")}]).values == 1  # a missing value of pandas
    with pytest.raises(er.errors.InputError, match="row 0: a value must be finite; got mrr=nan"):
        audit([row | {"mrr": "nan"}])
    recorded = {"model": "A", "data": "wn18rr", "metric": "mr", "printed": "inf", "source": "me"}
    with pytest.raises(er.errors.InputError, match="row 0: a value must be finite; got mr=inf"):
        audit([recorded])
    with pytest.raises(er.errors.InputError, match="percent must be True, False or None; got 'yes'"):
        audit([row], percent="yes")


def test_the_bundled_results_are_audited_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert audit(Path("hoyt2022")).values == audit("hoyt2022").values > 0


def test_metrics_that_cannot_be_adjusted_are_not_checked():
    wide = audit([{"model": "A", "data": "wn18rr", "mrr": "0.4", "count": "6268", "phi(mrr)": "1"}])
    rows = [("mrr", "0.4"), ("count", "6268"), ("macro_mrr", "0.3"), ("median", "3")]
    long = audit([{"model": "A", "data": "wn18rr", "metric": m, "value": v} for m, v in rows])
    assert wide.notes == ("metrics not checked: count, phi(mrr)",)
    assert long.notes == ("metrics not checked: count, macro_mrr",)
    assert (wide.values, long.values) == (1, 2)


def test_numbers_are_read_in_any_usual_spelling():
    rows = [{"model": "A", "data": "wn18rr", "mrr": text} for text in ("57.1", "57,1", "57.1 %")]
    rows[1]["model"], rows[2]["model"] = "B", "C"
    values = [row["value"] for row in er.published.adjust_table(rows).rows()]
    assert values == [0.571, 0.571, 0.571]
    assert er.adjust({"mrr": ".571"}, data="wn18rr")["mrr"] == 0.571
    assert er.adjust({"mr": "1,234.5"}, data="wn18rr")["mr"] == 1234.5
    with pytest.raises(
        er.errors.InputError, match="decimal or a thousands separator; got 3,340; write 3340, or"
    ):
        er.adjust({"mr": "3,340"}, data="wn18rr")
    with pytest.raises(er.errors.InputError, match="a value must be a number; got '1,23,4'"):
        er.adjust({"mr": "1,23,4"}, data="wn18rr")


def test_adjusting_says_what_does_not_fit_together():
    values = {"hits@1": "0.20", "hits@10": "0.50", "mr": "8.0", "mrr": "0.245"}
    notes = er.adjust(values, data="kinships").notes
    assert any(note.startswith("warning: hits@1=0.20 and mr=8.0 imply mrr >= 0.27") for note in notes)
    notes = er.adjust({"mrr": "0.48", "hits@1": "0.488"}, data="wn18rr").notes
    assert notes[-1].endswith("0.4875 > 0.485; it would fit if the last digits were off by one")
    notes = er.adjust({"mrr": "0.830", "hits@1": "0.500"}, data="wn18rr").notes
    assert notes[-1].endswith(", unless ties have fractional ranks")
    notes = er.published.adjust_table([{"model": "A", "data": "kinships", **values}]).notes
    assert any("warning: row 0: A: hits@1=0.20 and mr=8.0 imply mrr >=" in note for note in notes)


# The record ---------------------------------------------------------------------------------------

FOUND = {
    ("wn18", "RotatE", "DeepGraphLearning/graphvite@5aad6dcc5e: doc/source/benchmark.rst"),
    ("wn18rr", "ComplEx-N3 (rank 8)", "facebookresearch/kbc@248e931364: README.md"),
    ("yago310", "Keci (KvsAll)", "dice-group/dice-embeddings@c0c7a2963e: README.md"),
    ("yago310", "ComplEx (GraSH epoch)", "uma-pi1/GraSH@00670e08ef: README.md"),
}


def test_the_findings_on_the_record_are_those_that_were_checked_by_hand():
    found = audit()
    assert {(f.data, f.model, f.where) for f in found if f.kind == "contradiction"} == FOUND
    assert not any(f.last_digit for f in found)
    assert {f.kind for f in found} == {"contradiction", "sources"}
    assert found.values == len(results(candidates="any"))


@needs("published/pykeen_ablation.csv.gz")
def test_all_digits_of_the_runs_of_pykeen_have_no_findings():
    frame = pl.read_csv(path("published/pykeen_ablation.csv.gz"), infer_schema_length=0)
    about = ["data", "model", "side", "where_found"]
    sample = frame.filter(pl.col("where_found").hash(seed=1) % 8 == 0)
    for keys, rows in sample.group_by(about):
        values = [PublishedValue.of(m, v) for m, v in rows.select("metric", "value").iter_rows()]
        assert misfits(values) == (), keys


def test_a_result_prints_and_exports():
    found = audit([{"model": "A", "data": "wn18rr", "mrr": "0.48", "hits@1": "0.52"}])
    text = found.text(80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[-1] == "checked 2 values of 1 evaluation: 1 finding"
    assert found.to_polars()["kind"].to_list() == ["contradiction"]
    assert found.rows()[0]["values"] == "hits@1=0.52 mrr=0.48"
    assert "| wn18rr | A |" in found.to_markdown()
    nothing = audit([{"model": "A", "data": "wn18rr", "mrr": "0.48"}])
    assert "no findings" in str(nothing)
    assert nothing.to_csv().strip() == ",".join(found.rows()[0])
    assert nothing.to_polars().columns == found.to_polars().columns


@pytest.mark.parametrize("source", [5, None])
def test_what_is_no_table_raises_an_error(source):
    if source is None:
        assert audit(source).values > 6000
        return
    with pytest.raises(er.errors.InputError, match="not a table of results; got int"):
        audit(source)
