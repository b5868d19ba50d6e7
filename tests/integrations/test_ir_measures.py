"""evenrank behind ir_measures: its measures, its pipeline, and names both ways."""

import warnings

import numpy as np
import pytest

import evenrank as er

ir = pytest.importorskip("ir_measures", reason="ir_measures is compared with by `make peers`")
ours = er.integrations.ir_measures

MEASURES = {
    ir.AP: "map",
    ir.AP @ 10: "map@10",
    ir.nDCG: "ndcg",
    ir.nDCG @ 10: "ndcg@10",
    ir.nDCG(dcg="exp-log2") @ 5: "ndcg_exp@5",
    ir.P @ 10: "precision@10",
    ir.R @ 20: "recall@20",
    ir.RR: "mrr",
    ir.RR @ 10: "mrr@10",
    ir.Rprec: "r_precision",
    ir.Success @ 5: "success@5",
    ir.RBP(p=0.9, rel=1): "rbp(0.9)",
    ir.RBP(rel=1): "rbp(0.8)",
    ir.ERR @ 20: "err@20",
}


@pytest.fixture
def judged():
    """A run with ties and judgements from -1 to 3; some queries are in one of them only."""
    rng = np.random.default_rng(0)
    run, qrels = {}, {}
    for q in range(30):
        names = [f"d{i:02}" for i in rng.permutation(60)]
        scores = np.round(rng.normal(size=40), 1).tolist()
        run[f"q{q}"] = dict(zip(names[:40], scores, strict=True))
        gains = rng.integers(-1, 4, 12).tolist()
        qrels[f"q{q + 2}"] = dict(zip(sorted(names)[:12], [1, *gains[1:]], strict=True))
    qrels["q9"] = dict.fromkeys(qrels["q9"], 0)
    return qrels, run


@pytest.mark.parametrize(("measure", "metric"), MEASURES.items(), ids=map(str, MEASURES))
def test_names_of_measures_and_metrics_translate_both_ways(measure, metric):
    assert str(ours.to_metric(measure)) == metric
    assert ours.to_metric(str(measure)) == er.parse(metric) or metric in (
        "mrr",
        "ndcg",
        "mrr@10",
        "ndcg@10",
    )
    assert ours.to_measure(metric) == measure
    assert ours.Provider().supports(measure)


def test_aliases_of_ir_measures_are_metrics_too():
    assert str(ours.to_metric("MAP@10")) == "map@10"
    assert str(ours.to_metric("NDCG@3")) == "ndcg@3"
    assert str(ours.to_metric(ir.P(rel=2) @ 5)) == "precision@5"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ours.to_metric("Bpref"),
            "evenrank has no metric for this measure; got Bpref; allowed: AP",
        ),
        (
            lambda: ours.to_metric(ir.RBP),
            "evenrank has no metric for this measure; got RBP; .* RBP with rel",
        ),
        (lambda: ours.to_metric("AP@"), "not a measure of ir_measures; got 'AP@'"),
        (lambda: ours.to_metric(7), "only measures of ir_measures can be converted"),
        (lambda: ours.to_measure("auc"), "ir_measures has no measure for this metric; got auc"),
        (lambda: ours.to_measure("z(map)"), r"a metric without adjustment is required; got z\(map\)"),
        (
            lambda: (
                ours.Provider(ties="best")
                .evaluator([ir.AP], {"q": {"d": 1}})
                .calc_aggregate({"q": {"d": 1.0}})
            ),
            "unknown ties",
        ),
    ],
)
def test_what_has_no_counterpart_raises(call, message):
    with pytest.raises(er.errors.InputError, match=message):
        call()


def test_values_are_those_of_the_providers_of_ir_measures(judged):
    """Of each query and the mean, to 1e-9; pytrec_eval and cwl_eval compute them in ir_measures."""
    qrels, run = judged
    measures = [ir.AP, ir.AP @ 10, ir.nDCG, ir.nDCG @ 10, ir.P @ 10, ir.R @ 20, ir.RR, ir.Rprec]
    measures += [ir.Success @ 5, ir.P(rel=2) @ 10, ir.AP(rel=3), ir.nDCG(gains={1: 5, 3: 4}) @ 10]
    measures += [ir.AP(judged_only=True), ir.nDCG(judged_only=True) @ 5]
    theirs = ir.pytrec_eval.evaluator(measures, qrels).calc(run)
    found = ours.evaluator(measures, qrels).calc(run)
    assert found.aggregated == pytest.approx(theirs.aggregated, abs=1e-9)
    values = [{(m.query_id, m.measure): m.value for m in one.per_query} for one in (found, theirs)]
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_exponential_gains_and_err_are_those_of_gdeval(judged):
    qrels, run = judged
    if not ir.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    # gdeval orders equal scores by another rule, prints five digits, and reads numbers of queries
    run = {q[1:]: {d: float(s) for s, d in enumerate(each)} for q, each in run.items()}
    measures = [ir.nDCG(dcg="exp-log2") @ 5, ir.ERR @ 20]
    qrels = {q[1:]: {d: max(g, 0) for d, g in each.items()} for q, each in qrels.items()}
    theirs = {(m.query_id, m.measure): m.value for m in ir.gdeval.iter_calc(measures, qrels, run)}
    found = {(m.query_id, m.measure): m.value for m in ours.evaluator(measures, qrels).iter_calc(run)}
    assert len(found) == len(theirs) == 60
    assert found == pytest.approx(theirs, abs=6e-6)


def test_frames_and_tuples_are_read_as_ir_measures_reads_them(judged):
    qrels, run = judged
    expected = ours.evaluator([ir.AP], qrels).calc_aggregate(run)
    tuples = [ir.Qrel(q, d, g) for q, each in qrels.items() for d, g in each.items()]
    scored = [ir.ScoredDoc(q, d, s) for q, each in run.items() for d, s in each.items()]
    assert ours.evaluator([ir.AP], iter(tuples)).calc_aggregate(iter(scored)) == expected
    pd = pytest.importorskip("pandas")
    found = ours.evaluator([ir.AP], pd.DataFrame(tuples)).calc_aggregate(pd.DataFrame(scored))
    assert found == expected


def test_the_pipeline_of_ir_measures_computes_with_evenrank_once_registered(judged, monkeypatch):
    qrels, run = judged
    before = ir.calc_aggregate([ir.AP, ir.Bpref], qrels, run)
    monkeypatch.setattr(ir.DefaultPipeline, "providers", list(ir.DefaultPipeline.providers))
    monkeypatch.setattr(ir.providers, "registry", dict(ir.providers.registry))
    first = ours.register()
    assert ir.DefaultPipeline.providers[0] is first
    after = ir.calc_aggregate([ir.AP, ir.Bpref], qrels, run)  # Bpref by the provider that has it
    assert after == pytest.approx(before, abs=1e-9)
    assert isinstance(ir.evaluator([ir.AP], qrels), ours.Evaluator)
    second = ours.register(ties="expected")
    names = [one.NAME for one in ir.DefaultPipeline.providers]
    assert (names.count("evenrank"), ir.DefaultPipeline.providers[0]) == (1, second)
    tied = ir.calc_aggregate([ir.AP], qrels, run)[ir.AP]
    assert tied != pytest.approx(before[ir.AP], abs=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shared = {q: each for q, each in qrels.items() if q in run}
        rankings = er.integrations.trec.rankings(run, shared)
    mean = np.nansum(rankings.values("map")) / len(qrels)
    assert tied == pytest.approx(mean, abs=1e-12)


def test_queries_that_only_the_judgements_have_are_zero(judged):
    qrels, run = judged
    values = {m.query_id: m.value for m in ours.evaluator([ir.AP], qrels).iter_calc(run)}
    assert set(values) == set(qrels)
    assert values["q31"] == values["q9"] == 0.0
    none = ours.evaluator([ir.AP], {"a": {"d": 0}}).calc({"a": {"d": 1.0}})
    assert [metric.value for metric in none.per_query] == [0.0]
