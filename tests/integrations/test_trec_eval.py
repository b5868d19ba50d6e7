"""Values of several answers per query: the files of trec_eval, and other libraries on random runs."""

import gzip
import re

import numpy as np
import pytest
import shared

from evenrank.integrations import trec
from evenrank.ranks.rankings import Rankings

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
# names of trec_eval that parse as metrics, with their last number as the cutoff
OURS = re.compile(r"map|Rprec|recip_rank|ndcg|(P|recall|success|ndcg_cut|map_cut)_\d+")
PERSISTENCE = "rbp(0.9)"  # of trec_eval, version 10


@pytest.fixture(scope="module")
def expected():
    """What trec_eval printed for its test run: values of each query, and `all`."""
    found = {}
    for line in (
        gzip.decompress(shared.path("retrieval/out.test.aq.gz").read_bytes()).decode().split("\n")
    ):
        if line:
            name, query, value = line.split("\t")
            found[query.strip(), name.strip()] = value
    return found


@pytest.mark.parametrize("ties", ["trec_eval", "trec_eval_10"])
def test_every_measure_of_trec_eval_that_is_here_has_its_printed_digits(expected, ties):
    run, qrels = (shared.path(f"retrieval/{name}.test.gz") for name in ("results", "qrels"))
    rankings = trec.rankings(run, qrels, ties=ties)
    names = sorted({name for _, name in expected if OURS.fullmatch(name)})
    assert len(names) == 4 + 4 * len(CUTOFFS) + 3
    for name in [*names, "set_recall", "rbp", "Rprec_mult_1.00", "infAP"]:
        # all 500 documents of each query are its first 1,000; relevance of 1 leaves no other gains
        alike = {"set_recall": "recall@1000", "rbp": PERSISTENCE, "Rprec_mult_1.00": "r_precision"}
        metric = alike.get(name, "map" if name == "infAP" else name)
        values = dict(zip(rankings.keys["query"], rankings.values(metric), strict=True))
        assert len(values) == int(expected["all", "num_q"])
        for query, value in {**values, "all": rankings.evaluate(metric)[metric]}.items():
            assert f"{value:.4f}" == expected[query, name], (query, name)


def test_the_queries_and_answers_are_those_that_trec_eval_counted(expected):
    run, qrels = (shared.path(f"retrieval/{name}.test.gz") for name in ("results", "qrels"))
    rankings = trec.rankings(run, qrels, ties="trec_eval")
    for i, query in enumerate(rankings.keys["query"]):
        mine = slice(*rankings.first[i : i + 2])
        assert str(len(rankings.better[mine])) == expected[query, "num_rel"]
        assert str((rankings.better[mine] >= 0).sum()) == expected[query, "num_rel_ret"]


def test_values_under_expected_ties_lie_between_those_of_all_orders(expected):
    run, qrels = (shared.path(f"retrieval/{name}.test.gz") for name in ("results", "qrels"))
    tied, ordered = (trec.rankings(run, qrels, ties=ties) for ties in ("expected", "trec_eval"))
    assert (tied.equal > 0).any()
    for metric in ("map", "ndcg", "ndcg@100", "recall@100"):
        low, high = (tied.values(metric, rule) for rule in ("pessimistic", "optimistic"))
        for value in (ordered.values(metric), tied.values(metric)):
            assert (low <= value + 1e-12).all()
            assert (value <= high + 1e-12).all()


def test_truncated_runs_in_any_order_agree_with_pytrec_eval():
    """Its queries are mixed, its lines have more fields, and some judgements are negative."""
    run, qrels = shared.path("retrieval/results.trunc.gz"), shared.path("retrieval/qrels.rel_level.gz")
    lists, right = {}, {}
    for line in gzip.decompress(run.read_bytes()).decode().splitlines():
        query, _, document, _, score, *_ = line.split()
        lists.setdefault(query, {})[document] = float(score)
    for line in gzip.decompress(qrels.read_bytes()).decode().splitlines():
        query, _, document, relevance = line.split()
        right.setdefault(query, {})[document] = int(relevance)
    assert min(min(each.values()) for each in right.values()) < 0
    with pytest.warns(UserWarning, match="^1 judged queries that are not in the run: left out$"):
        rankings = trec.rankings(run, qrels, ties="trec_eval")
    agree(rankings, lists, right)


# Other libraries, on random runs with ties -----------------------------------------------------------


def drawn(queries=60, documents=80, graded=True, seed=0, listed=50, digits=1):
    """Draw runs with many ties, and judgements; some queries have no relevant document in the run."""
    rng = np.random.default_rng(seed)
    lists, right = {}, {}
    for q in range(queries):
        names = [f"d{i:03}" for i in rng.permutation(documents)]
        scores = np.round(rng.normal(size=listed), digits)
        lists[f"q{q}"] = dict(zip(names[:listed], scores.tolist(), strict=True))
        judged = rng.permutation(documents)[: 3 + q % 12]
        gains = rng.integers(0, 4, len(judged)) if graded else np.ones(len(judged), int)
        gains[0] = 1
        right[f"q{q}"] = {f"d{i:03}": int(g) for i, g in zip(judged, gains, strict=True)}
    return lists, right


def agree(rankings, lists, right, **options):
    """Compare all values of all queries with pytrec_eval, to 1e-9."""
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="trec_eval is compared with by `make peers`")
    families = ("P", "recall", "success", "ndcg_cut", "map_cut")
    wanted = {"map", "Rprec", "recip_rank", "ndcg"}
    wanted |= {f"{one}.{','.join(map(str, CUTOFFS))}" for one in families}
    theirs = pytrec_eval.RelevanceEvaluator(right, wanted, **options).evaluate(lists)
    names = [name for name in next(iter(theirs.values())) if OURS.fullmatch(name)]
    assert len(names) == 4 + 5 * len(CUTOFFS)
    assert set(rankings.keys["query"]) == set(theirs)
    for name in names:
        if options and "ndcg" in name:  # trec_eval counts gains below its level of relevance in ndcg
            continue
        found = dict(zip(rankings.keys["query"], rankings.values(name).tolist(), strict=True))
        values = {query: row[name] for query, row in theirs.items()}
        assert found == pytest.approx(values, abs=1e-9), name
        mean = np.mean(list(values.values()))
        assert rankings.evaluate(name)[name] == pytest.approx(mean, abs=1e-9)


def test_random_runs_with_ties_agree_with_pytrec_eval():
    for seed in range(3):
        lists, right = drawn(seed=seed)
        agree(trec.rankings(lists, right, ties="trec_eval"), lists, right)
        agree(trec.rankings(lists, right, ties="trec_eval", candidates=80), lists, right)
    lists, right = drawn(digits=12, seed=9, listed=80)
    lists = {q: {d: 1.0 + s * 1e-7 for d, s in each.items()} for q, each in lists.items()}
    agree(trec.rankings(lists, right, ties="trec_eval"), lists, right)  # equal in single precision


def test_a_higher_level_of_relevance_agrees_with_pytrec_eval_but_for_ndcg():
    lists, right = drawn()
    right = {query: {**each, "d000": 3} for query, each in right.items()}
    rankings = trec.rankings(lists, right, ties="trec_eval", relevant=2)
    agree(rankings, lists, right, relevance_level=2)


def test_queries_without_relevant_documents_are_zeros_in_the_average_of_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="trec_eval is compared with by `make peers`")
    lists, right = drawn(6)
    right["q0"] = dict.fromkeys(right["q0"], 0)
    theirs = pytrec_eval.RelevanceEvaluator(right, {"map"}).evaluate(lists)
    rankings = trec.rankings(lists, right, ties="trec_eval")
    mean = np.mean([row["map"] for row in theirs.values()])
    assert theirs["q0"]["map"] == 0.0
    assert rankings.evaluate("map", empty="zero")["map"] == pytest.approx(mean, abs=1e-9)
    assert rankings.evaluate("map")["map"] == pytest.approx(mean * 6 / 5, abs=1e-9)


def test_random_runs_agree_with_ir_measures():
    ir = pytest.importorskip("ir_measures", reason="ir_measures is compared with by `make peers`")
    lists, right = drawn()
    rankings = trec.rankings(lists, right, ties="trec_eval")
    measures = {ir.AP: "map", ir.nDCG @ 10: "ndcg@10", ir.P @ 10: "precision@10", ir.RR: "mrr"}
    measures |= {ir.R @ 20: "recall@20", ir.Success @ 5: "success@5", ir.Rprec: "r_precision"}
    measures |= {ir.AP @ 10: "map@10", ir.nDCG: "ndcg"}
    theirs = ir.calc_aggregate(list(measures), right, lists)
    for measure, metric in measures.items():
        assert rankings.evaluate(metric)[metric] == pytest.approx(theirs[measure], abs=1e-9), metric


@pytest.mark.filterwarnings("ignore:.*unsafe cast")  # of its hashes
def test_random_runs_without_ties_agree_with_ranx():
    """With ties ranx takes the order of its sort, whatever that is."""
    ranx = pytest.importorskip("ranx", reason="ranx is compared with by `make peers`")
    lists, right = drawn(digits=12)
    rankings = trec.rankings(lists, right)
    names = {"map": "map", "map@10": "map@10", "ndcg": "ndcg", "ndcg@10": "ndcg@10", "mrr": "mrr"}
    names |= {"precision@10": "precision@10", "recall@10": "recall@10", "hit_rate@10": "success@10"}
    names |= {"ndcg_burges@10": "ndcg_exp@10", "r-precision": "r_precision"}
    positive = {q: {d: g for d, g in each.items() if g > 0} for q, each in right.items()}
    run, qrels = ranx.Run(lists), ranx.Qrels(positive)
    theirs = ranx.evaluate(qrels, run, list(names))
    for name, metric in names.items():
        assert rankings.evaluate(metric)[metric] == pytest.approx(theirs[name], abs=1e-9), metric
    binary = ranx.Qrels({q: dict.fromkeys(each, 1) for q, each in positive.items()})
    theirs = ranx.evaluate(binary, run, "rbp.90")  # of graded gains in ranx
    assert rankings.evaluate("rbp(0.9)")["rbp(0.9)"] == pytest.approx(theirs, abs=1e-9)


@pytest.fixture
def matrices():
    """Scores with ties of all candidates, and gains."""
    rng = np.random.default_rng(3)
    scores = np.round(rng.normal(size=(50, 40)), 1)
    gains = rng.integers(0, 4, scores.shape) * (rng.random(scores.shape) < 0.3)
    gains[:, 0] = 1
    return scores, gains


def test_ndcg_is_that_of_scikit_learn_which_averages_over_ties_too(matrices):
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="scikit-learn is compared with by `make peers`"
    )
    scores, gains = matrices
    rankings = Rankings.from_scores(scores, gains)
    for k in (None, 5, 10, 40):
        name = "ndcg" if k is None else f"ndcg@{k}"
        assert rankings.evaluate(name)[name] == pytest.approx(
            metrics.ndcg_score(gains, scores, k=k), abs=1e-9
        )


def test_auc_is_that_of_scikit_learn_and_average_precision_without_ties(matrices):
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="scikit-learn is compared with by `make peers`"
    )
    scores, gains = matrices
    rankings = Rankings.from_scores(scores, gains)
    theirs = [metrics.roc_auc_score(g > 0, s) for g, s in zip(gains, scores, strict=True)]
    assert rankings.values("auc") == pytest.approx(theirs, abs=1e-9)
    apart = np.random.default_rng(4).normal(size=scores.shape)
    rankings = Rankings.from_scores(apart, gains)
    theirs = [metrics.average_precision_score(g > 0, s) for g, s in zip(gains, apart, strict=True)]
    assert rankings.values("map") == pytest.approx(theirs, abs=1e-9)


def test_average_precision_of_scikit_learn_takes_a_tie_group_at_its_last_position():
    """So it is neither the mean over all orders of tied candidates, nor a bound of it."""
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="scikit-learn is compared with by `make peers`"
    )
    rankings = Rankings.from_scores([[1.0, 1.0]], [[1, 0]])
    assert metrics.average_precision_score([1, 0], [1.0, 1.0]) == 0.5
    assert rankings.evaluate("map")["map"] == 0.75


def test_retrieval_metrics_of_torchmetrics_agree_without_ties(matrices):
    retrieval = pytest.importorskip(
        "torchmetrics.retrieval", reason="torchmetrics is compared with by `make peers`"
    )
    torch = pytest.importorskip("torch")
    _, gains = matrices
    rng = np.random.default_rng(5)
    scores = (np.argsort(rng.normal(size=gains.shape), axis=1) + 1.0) / gains.shape[1]
    rankings = Rankings.from_scores(scores, gains)
    index = torch.arange(len(scores)).repeat_interleave(scores.shape[1])
    flat = torch.from_numpy(scores.ravel()), torch.from_numpy((gains > 0).ravel())
    pairs = {
        "map": retrieval.RetrievalMAP(),
        "mrr": retrieval.RetrievalMRR(),
        "mrr@3": retrieval.RetrievalMRR(top_k=3),
        "precision@7": retrieval.RetrievalPrecision(top_k=7),
        "recall@7": retrieval.RetrievalRecall(top_k=7),
        "success@3": retrieval.RetrievalHitRate(top_k=3),
        "r_precision": retrieval.RetrievalRPrecision(),
        "auc": retrieval.RetrievalAUROC(),
    }
    for name, metric in pairs.items():
        # torchmetrics computes in single precision
        assert rankings.evaluate(name)[name] == pytest.approx(
            metric(flat[0], flat[1], indexes=index).item(), abs=1e-6
        ), name
    for k in (None, 7):
        theirs = retrieval.RetrievalNormalizedDCG(top_k=k)
        value = theirs(flat[0], torch.from_numpy(gains.ravel()), indexes=index).item()
        name = "ndcg" if k is None else f"ndcg@{k}"
        assert rankings.evaluate(name)[name] == pytest.approx(value, abs=1e-6), name


def test_map_at_k_of_torchmetrics_divides_by_the_answers_that_are_found(matrices):
    """Neither by the answers, as trec_eval, nor by the smaller of k and their number."""
    retrieval = pytest.importorskip(
        "torchmetrics.retrieval", reason="torchmetrics is compared with by `make peers`"
    )
    torch = pytest.importorskip("torch")
    scores, relevant = [[4.0, 3.0, 2.0, 1.0]], [[1, 0, 0, 1]]
    rankings = Rankings.from_scores(scores, relevant)
    theirs = retrieval.RetrievalMAP(top_k=2)(
        torch.tensor(scores[0]), torch.tensor(relevant[0]), indexes=torch.zeros(4, dtype=torch.long)
    )
    assert theirs.item() == 1.0
    assert rankings.evaluate("map@2", "map_min@2").to_dict() == {"map@2": 0.5, "map_min@2": 0.5}


def test_average_precision_of_torchmetrics_ignores_answers_whose_score_is_not_positive():
    functional = pytest.importorskip(
        "torchmetrics.functional.retrieval", reason="torchmetrics is compared with by `make peers`"
    )
    torch = pytest.importorskip("torch")
    scores, relevant = torch.tensor([2.0, 1.0, -1.0, -2.0]), torch.tensor([1, 0, 1, 0])
    assert functional.retrieval_average_precision(scores, relevant).item() == 1.0
    assert functional.retrieval_average_precision(scores + 3, relevant).item() == pytest.approx(5 / 6)
    rankings = Rankings.from_scores([scores.tolist()], [relevant.tolist()])
    assert rankings.evaluate("map")["map"] == pytest.approx(5 / 6)
