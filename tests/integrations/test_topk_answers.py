"""All answers of queries from lists of the best candidates: by hand, bounds, other libraries."""

import re

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

import evenrank as er
from evenrank.integrations import topk
from evenrank.ranks.rankings import Rankings

METRICS = ("map@10", "map_min@10", "ndcg@10", "recall@10", "precision@10", "mrr@10", "success@10")


@pytest.fixture
def lists():
    """Scores of 30 candidates for 40 queries, the ten best of each, and answers; one has none."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 30))
    relevant = rng.random(scores.shape) < 0.15
    relevant[3] = False
    ids = np.argsort(-scores, axis=1)[:, :10]
    return scores, relevant, ids


def answers(relevant):
    return [np.flatnonzero(row) for row in relevant]


def alike(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("first", "better", "equal", "candidates")
    )


def test_lists_cut_at_the_number_of_candidates_give_the_rankings_of_all_scores(lists):
    scores, relevant, _ = lists
    scores = np.round(scores, 1)
    ids = np.argsort(-scores, axis=1)
    given = np.take_along_axis(scores, ids, axis=1)
    found = topk.rankings(ids, answers(relevant), scores=given, candidates=30)
    assert alike(found, Rankings.from_scores(scores, relevant))
    assert (found.equal > 0).any()


def test_answers_below_the_cut_tie_with_all_that_is_not_listed(lists):
    scores, relevant, ids = lists
    found = topk.rankings(ids, answers(relevant), candidates=30)
    full = Rankings.from_scores(scores, relevant)
    cut = np.minimum(full.better, 10)
    assert found.better.tolist() == cut.tolist()
    assert found.equal.tolist() == np.where(full.better < 10, 0, 19).tolist()
    for metric in ("map", "ndcg", "mrr", "auc", "recall@20"):
        low, high = (found.evaluate(metric, ties=rule)[metric] for rule in ("pessimistic", "optimistic"))
        assert low <= full.evaluate(metric)[metric] <= high
        rng, seen = np.random.default_rng(1), []
        for _ in range(300):  # any order of the rest is possible
            rest = np.array([rng.permutation(np.setdiff1d(np.arange(30), row)) for row in ids])
            order = np.concatenate([ids, rest], axis=1)
            seen.append(topk.rankings(order, answers(relevant), candidates=30).evaluate(metric)[metric])
        assert low <= min(seen)
        assert max(seen) <= high
        error = np.std(seen) / len(seen) ** 0.5
        assert found.evaluate(metric)[metric] == pytest.approx(np.mean(seen), abs=5 * error)


def test_metrics_within_the_cut_do_not_depend_on_what_is_not_listed(lists):
    scores, relevant, ids = lists
    full = Rankings.from_scores(scores, relevant).evaluate(*METRICS).to_dict()
    for options in ({}, {"candidates": 30}, {"candidates": 30, "unretrieved": "never"}):
        found = topk.rankings(ids, answers(relevant), **options)
        for ties in ("expected", "optimistic", "pessimistic"):
            assert found.evaluate(*METRICS, ties=ties).to_dict() == pytest.approx(full, abs=1e-12)


def test_lists_matrices_pairs_and_sparse_matrices_are_alike(lists):
    _, relevant, ids = lists
    expected = topk.rankings(ids, answers(relevant), candidates=30)
    row, column = np.nonzero(relevant)
    mixed = np.random.default_rng(0).permutation(len(row))
    for options in (
        {"pairs": (row[mixed], column[mixed])},
        {"pairs": np.stack([row, column])},
        {"relevant": sparse.csr_matrix(relevant.astype(float))},
        {"relevant": [one.tolist() for one in answers(relevant)]},
    ):
        assert alike(topk.rankings(ids.tolist(), candidates=30, **options), expected)
    hits = np.take_along_axis(relevant, ids, axis=1)
    assert alike(topk.from_hits(hits, relevant.sum(axis=1), candidates=30), expected)
    padded = np.concatenate([ids, np.full((40, 3), -1)], axis=1)
    assert alike(topk.rankings(padded, answers(relevant), candidates=30), expected)
    scores = -np.arange(10.0) * np.ones((40, 1))
    scores = np.concatenate([scores, np.full((40, 3), -3e38)], axis=1)
    assert alike(topk.rankings(padded, answers(relevant), scores=scores, candidates=30), expected)


def test_gains_names_and_numbers_of_candidates_are_those_of_the_queries():
    found = topk.rankings(
        [[4, 2], [1]],
        [[2, 4, 9], [3]],
        gains=[[3.0, 0.0, 2.0], [1.0]],
        candidates=[10, 5],
        queries=["ann", "bob"],
        model="als",
    )
    assert found.keys["query"].tolist() == ["ann", "bob"]
    assert found.answers.tolist() == [2, 9, 3]
    assert found.gains.tolist() == [3.0, 2.0, 1.0]
    assert list(zip(found.better.tolist(), found.equal.tolist(), strict=True)) == [
        (1, 0),
        (2, 7),
        (1, 3),
    ]
    assert found.protocol.model == "als"
    assert found.protocol.scores == (
        "lists of answers, in the order listed; 50.0% of answers not listed, anywhere among the rest"
    )


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1, 1]], [[1]]), {}, "^a candidate is listed twice; got 1 in row 0"),
        (([[1], [2]], [[1], [3, 3]]), {}, "^an answer is relevant twice; got 3 in row 1"),
        (
            ([[1, 2]], [[1], [2]]),
            {},
            "^there must be a list of answers for each list of candidates; got 2",
        ),
        (([[1, 2]],), {}, "^pass the answers as relevant or as pairs"),
        (
            ([[1, 2]],),
            {"pairs": ([0, 1], [1, 1])},
            "^pairs name a query that has no list .*; got 1 in row",
        ),
        (([[1, 2]],), {"pairs": ([0], [1, 1])}, "^pairs must be two columns of one length"),
        (
            ([[1, 2]], [[0]]),
            {"candidates": 2},
            "^there are fewer candidates than listed and relevant ones",
        ),
        (
            ([[1, 2]], [[0]]),
            {"unretrieved": "tied"},
            "requires the number of candidates; got 1 such answ",
        ),
        (([[1, 2]], [[0]]), {"unretrieved": "no"}, "^unknown value of unretrieved; got 'no'"),
        (([[1, 2]], [[0]]), {"scores": [[1.0]]}, "^there must be a score for each listed candidate"),
        (([[1, 2]], [[0]]), {"scores": [[1.0, float("nan")]]}, r"NaN \(query 0, candidate 2\)"),
        (
            ([[1, 2]], [[0]]),
            {"gains": [[1.0, 2.0]]},
            "^there must be a gain for each answer; got 2 and 1",
        ),
        (([[1, 2]], [[0]]), {"gains": [[-1.0]]}, "^gains must be finite and not negative"),
        (([[1, 2]], [["x"]]), {}, "^relevant must be lists of numbers"),
        (([[1.5, 2]], [[0]]), {}, "^ids must be whole"),
        (([[1, 2]], [[-1]]), {}, "^relevant must be at least 0"),
    ],
)
def test_invalid_lists_raise(arguments, options, message):
    with pytest.raises(er.errors.InputError, match=message):
        topk.rankings(*arguments, **options)


@pytest.mark.parametrize(
    ("hits", "many", "message"),
    [
        ([[1, 2]], [3], "^hits must be a matrix of true and false"),
        ([1, 0], [3], "^hits must be a matrix of true and false"),
        ([[1, 1]], [1], "^a query has more hits than answers; got 2 hits, 1 answers in row 0"),
    ],
)
def test_invalid_hits_raise(hits, many, message):
    with pytest.raises(er.errors.InputError, match=message):
        topk.from_hits(hits, many)


# Other libraries ----------------------------------------------------------------------------------


def test_values_of_pyg_are_those_of_its_arrays(lists):
    metrics = pytest.importorskip(
        "torch_geometric.metrics", reason="PyG is compared with by `make peers`"
    )
    import torch

    _, relevant, ids = lists
    pairs = torch.from_numpy(np.stack(np.nonzero(relevant)))
    found = topk.rankings(torch.from_numpy(ids), pairs=pairs, candidates=30)
    names = {
        "map_min@10": metrics.LinkPredMAP,
        "ndcg@10": metrics.LinkPredNDCG,
        "precision@10": metrics.LinkPredPrecision,
        "recall@10": metrics.LinkPredRecall,
        "mrr@10": metrics.LinkPredMRR,
        "success@10": metrics.LinkPredHitRatio,
        "f1@10": metrics.LinkPredF1,
    }
    for name, metric in names.items():
        theirs = metric(k=10)
        theirs.update(torch.from_numpy(ids), pairs)
        if name == "precision@10":  # of all queries, where the others are of those with answers
            assert (relevant.sum(axis=1) == 0).sum() == 1
        assert found.evaluate(name)[name] == pytest.approx(theirs.compute().item(), abs=1e-6), name
    data = metrics.link_pred.LinkPredMetricData(torch.from_numpy(ids), pairs)
    assert alike(topk.from_hits(data.pred_rel_mat, data.label_count, candidates=30), found)


def test_graded_values_of_pyg_are_those_of_its_arrays(lists):
    metrics = pytest.importorskip(
        "torch_geometric.metrics", reason="PyG is compared with by `make peers`"
    )
    import torch

    _, relevant, ids = lists
    pairs = np.stack(np.nonzero(relevant))
    gains = np.random.default_rng(0).integers(1, 5, pairs.shape[1]).astype(float)
    theirs = metrics.LinkPredNDCG(k=10, weighted=True)
    theirs.update(torch.from_numpy(ids), torch.from_numpy(pairs), torch.from_numpy(gains))
    found = topk.rankings(ids, pairs=pairs, gains=torch.from_numpy(gains))
    assert found.evaluate("ndcg@10")["ndcg@10"] == pytest.approx(theirs.compute().item(), abs=1e-6)


def test_values_of_implicit_are_those_of_its_arrays(lists):
    evaluation = pytest.importorskip(
        "implicit.evaluation", reason="implicit is compared with by `make peers`"
    )
    from implicit.cpu.als import AlternatingLeastSquares

    rng = np.random.default_rng(2)
    _, relevant, _ = lists
    seen = sparse.csr_matrix(((rng.random(relevant.shape) < 0.2) & ~relevant).astype(np.float32))
    test = sparse.csr_matrix(relevant.astype(np.float32))
    with threadpool_limits(1, "blas"):
        model = AlternatingLeastSquares(factors=4, iterations=1, random_state=0, num_threads=1)
        model.fit(seen, show_progress=False)
        theirs = evaluation.ranking_metrics_at_k(model, seen, test, K=10, show_progress=False)
        ids, scores = model.recommend(np.arange(40), seen, N=10, filter_already_liked_items=True)
    found = topk.rankings(ids, test, scores=scores, candidates=30 - np.diff(seen.indptr))
    assert found.evaluate("map_min@10")["map_min@10"] == pytest.approx(theirs["map"], abs=1e-9)
    assert found.evaluate("ndcg@10")["ndcg@10"] == pytest.approx(theirs["ndcg"], abs=1e-9)
    # its precision is hits of all users over the most that they could have, with no mean over users
    hits = (found.values("precision@10") * 10)[relevant.any(axis=1)].sum()
    most = np.minimum(relevant.sum(axis=1), 10).sum()
    assert hits / most == pytest.approx(theirs["precision"], abs=1e-9)
    # its AUC has answers below the cut tie with the rest, too, but counts items of training as negatives
    every = topk.rankings(ids, test, scores=scores, candidates=30)
    assert every.evaluate("auc")["auc"] == pytest.approx(theirs["auc"], abs=1e-9)


def test_frames_of_recommenders_give_their_values(lists):
    theirs = pytest.importorskip(
        "recommenders.evaluation.python_evaluation", reason="recommenders is not installed"
    )
    pd = pytest.importorskip("pandas")
    from evenrank.integrations import trec

    scores, relevant, ids = lists
    row, column = np.nonzero(relevant)
    true = pd.DataFrame({"userID": row, "itemID": column, "rating": 1.0})
    user = np.repeat(np.arange(40), 10)
    given = pd.DataFrame(
        {"userID": user, "itemID": ids.ravel(), "prediction": scores[user, ids.ravel()]}
    )
    with pytest.warns(UserWarning, match="1 queries of the run that are not judged: left out"):
        found = trec.rankings(given, true, candidates=30)
    pairs = {"map_min@10": theirs.map_at_k, "precision@10": theirs.precision_at_k}
    pairs |= {"recall@10": theirs.recall_at_k}
    for name, function in pairs.items():
        assert found.evaluate(name)[name] == pytest.approx(function(true, given, k=10), abs=1e-9), name
    theirs = theirs.ndcg_at_k(true, given, k=10)
    assert found.evaluate("ndcg@10")["ndcg@10"] == pytest.approx(theirs, abs=1e-9)


def test_the_matrix_of_recbole_gives_its_formulas(lists):
    """RecBole has a column per position, and the number of positives in the last one."""
    _, relevant, ids = lists
    hits = np.take_along_axis(relevant, ids, axis=1).astype(int)
    matrix = np.concatenate([hits, relevant.sum(axis=1, keepdims=True)], axis=1)
    matrix = matrix[matrix[:, -1] > 0]  # RecBole has only users with positives
    found = topk.from_hits(matrix[:, :-1], matrix[:, -1], candidates=30)
    hits, many = matrix[:, :-1], matrix[:, -1]
    precision = hits.cumsum(axis=1) / np.arange(1, 11)
    discount = 1 / np.log2(np.arange(2, 12))
    formulas = {
        "map_min@10": ((precision * hits).sum(axis=1) / np.minimum(many, 10)).mean(),
        "ndcg@10": np.mean((hits * discount).sum(axis=1) / discount.cumsum()[np.minimum(many, 10) - 1]),
        "recall@10": (hits.sum(axis=1) / many).mean(),
        "precision@10": hits.mean(),
        "success@10": hits.any(axis=1).mean(),
        "mrr@10": np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0).mean(),
    }
    for name, value in formulas.items():
        assert found.evaluate(name)[name] == pytest.approx(value, abs=1e-12), name
    assert re.fullmatch(r"lists of answers, .*% of answers not listed, .*", found.protocol.scores)
