"""Classifiers judged as rankers, by scikit-learn's rules for scorers."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import evenrank as er
from evenrank import integrations


def library(name):
    """Import a library of an extra, or skip the test."""
    return pytest.importorskip(name, reason=f"{name} is not installed (make peers installs it)")


@pytest.fixture(scope="module")
def digits():
    library("sklearn")
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    inputs, y = load_digits(return_X_y=True)
    names = y.astype(str)
    model = LogisticRegression(C=1e-3, max_iter=300).fit(inputs[:800] / 16, names[:800])
    return model, inputs[800:] / 16, names[800:]


def test_scorer_agrees_with_scikit_learn(digits):
    from sklearn.metrics import label_ranking_average_precision_score, top_k_accuracy_score
    from sklearn.preprocessing import label_binarize

    model, inputs, y = digits
    scores = model.decision_function(inputs)
    scorer = integrations.sklearn.scorer
    for k in (1, 2, 5):
        theirs = top_k_accuracy_score(y, scores, k=k, labels=model.classes_)
        assert scorer(f"hits@{k}")(model, inputs, y) == pytest.approx(theirs, abs=1e-12)
    right = label_binarize(y, classes=model.classes_)
    theirs = label_ranking_average_precision_score(right, scores)  # one right answer: the MRR
    assert scorer("mrr")(model, inputs, y) == pytest.approx(theirs, abs=1e-12)


def test_scorer_is_higher_where_better(digits):
    model, inputs, y = digits
    result = integrations.sklearn.ranks(model, inputs, y).evaluate("mr", "index(mr)")
    values = integrations.sklearn.scorer("mr", "index(mr)")(model, inputs, y)
    assert values == {"neg_mr": -result["mr"], "index_mr": result["index(mr)"]}
    assert integrations.sklearn.scorer("mr")(model, inputs, y) == -result["mr"]


def test_scorer_serves_searches_and_cross_validation(digits):
    from sklearn.model_selection import GridSearchCV, cross_validate
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier

    _, inputs, y = digits
    scorer = integrations.sklearn.scorer
    found = cross_validate(GaussianNB(), inputs, y, cv=3, scoring=scorer("mrr", "mr", "z(hits@3)"))
    assert {"test_mrr", "test_neg_mr", "test_z_hits_at_3"} <= found.keys()
    assert np.isfinite(found["test_z_hits_at_3"]).all()
    sent = pickle.loads(pickle.dumps(scorer("index(mrr)")))  # as to the processes of n_jobs
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 50]}, scoring=sent, cv=3)
    best = search.fit(inputs, y)
    by_hand = cross_validate(best.best_estimator_, inputs, y, cv=3, scoring=scorer("index(mrr)"))
    assert best.best_score_ == pytest.approx(by_hand["test_score"].mean())


def test_two_classes_and_several_right_answers():
    rank = integrations.sklearn.ranks
    two = SimpleNamespace(classes_=["no", "yes"], decision_function=lambda inputs: np.array(inputs))
    assert rank(two, [1.0, -2.0, 0.0], ["yes", "yes", "no"]).better.tolist() == [0, 1, 0]
    assert rank(two, [1.0, -2.0, 0.0], ["yes", "yes", "no"]).equal.tolist() == [0, 0, 1]
    many = SimpleNamespace(classes_=np.arange(4), predict_proba=lambda inputs: np.array(inputs))
    found = rank(many, [[0.9, 0.1, 0.5, 0.2], [0.0, 0.1, 0.2, 0.3]], [[0, 1, 1, 0], [0, 0, 0, 0]])
    assert found.better.tolist() == [2, 1]  # the other right answer does not compete
    assert found.candidates.tolist() == [3, 3]
    assert found.keys["class"].tolist() == [1, 2]


def test_several_right_answers_may_be_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    many = SimpleNamespace(classes_=np.arange(3), predict_proba=lambda inputs: np.array(inputs))
    marks = np.array([[0, 1, 1]])
    found = integrations.sklearn.ranks(many, [[0.9, 0.1, 0.5]], sparse.csr_array(marks))
    assert found.better.tolist() == [1, 1]


def test_one_vs_one_decisions_are_not_scores(digits):
    """Three classes have three pairs: the shapes are those of scores."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    _, inputs, y = digits
    few = y < "3"
    pairs, classes = (
        SVC(decision_function_shape=kind).fit(inputs[few], y[few]) for kind in ("ovo", "ovr")
    )
    hits = integrations.sklearn.scorer("hits@1")
    assert hits(classes, inputs[few], y[few]) == classes.score(inputs[few], y[few])
    for model in (pairs, make_pipeline(StandardScaler(), pairs).fit(inputs[few], y[few])):
        with pytest.raises(er.errors.InputError, match="this estimator does not score its classes"):
            hits(model, inputs[few], y[few])
    two = y < "2"  # have one pair
    assert hits(pairs.fit(inputs[two], y[two]), inputs[two], y[two]) == 1


def test_estimators_with_several_or_no_outputs_raise(digits):
    from sklearn.ensemble import IsolationForest, RandomForestClassifier

    _, inputs, y = digits
    outputs = np.stack([y, y < "5"], axis=1)
    for model in (
        RandomForestClassifier(2).fit(inputs, outputs),
        IsolationForest(n_estimators=2).fit(inputs),
    ):
        with pytest.raises(er.errors.InputError, match="this estimator does not score its classes"):
            integrations.sklearn.ranks(model, inputs, outputs)


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (SimpleNamespace(), ["a"], "does not score its classes; got SimpleNamespace; allowed: decision"),
        (
            SimpleNamespace(classes_=["a"], decision_function=lambda inputs: [[1, 2]]),
            ["a"],
            "does not score",
        ),
        (
            SimpleNamespace(classes_=["a", "b"], predict_proba=lambda inputs: [[1, 2]]),
            ["c"],
            "not seen in training; got 'c'; allowed: the 2 classes .*StratifiedKFold",
        ),
        (
            SimpleNamespace(classes_=["a", "b"], predict_proba=lambda inputs: [[1, 2]]),
            [[1, 0, 1]],
            r"differ in shape; got \(1, 2\) and \(1, 3\)",
        ),
    ],
)
def test_scorer_raises_for_invalid_arguments(estimator, y, message):
    with pytest.raises(er.errors.InputError, match=message):
        integrations.sklearn.ranks(estimator, [[0]], y)


def test_scorer_needs_a_metric():
    with pytest.raises(er.errors.InputError, match="a scorer needs a metric"):
        integrations.sklearn.scorer()
