"""Recommenders by matrix factorization: against dense matrices of whole numbers, with exact sums."""

import numpy as np
import pytest

import evenrank as er

USERS, ITEMS, WIDTH = 6, 11, 3
RNG = np.random.default_rng(3)
P, Q = RNG.integers(-3, 4, (USERS, WIDTH)), RNG.integers(-3, 4, (ITEMS, WIDTH))
BU, BI, MEAN = RNG.integers(-3, 4, USERS), RNG.integers(-3, 4, ITEMS), 3.5
TRAIN = np.argwhere(RNG.random((USERS, ITEMS)) < 0.3)
TEST = np.argwhere(RNG.random((USERS, ITEMS)) < 0.3)
TASK = er.Task.recommendation(TEST, train=TRAIN, items=ITEMS, users=USERS)


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def by_hand(scores):
    """Better, equal and candidates of each test item among all that are not training items."""
    result = []
    for user, item in TEST:
        relevant = TEST[TEST[:, 0] == user, 1]
        masked = np.setdiff1d(TRAIN[TRAIN[:, 0] == user, 1], relevant)
        others = np.setdiff1d(np.arange(ITEMS), [*masked, item])
        goal = scores[user, item]
        better, equal = (scores[user, others] > goal).sum(), (scores[user, others] == goal).sum()
        result.append([better, equal, len(others) + 1])
    return result


def counts(model, **options):
    ranks = er.rank(model, TASK.together(), progress=False, **options)
    return np.stack([ranks.better, ranks.equal, ranks.candidates], axis=1).tolist()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, int])
@pytest.mark.parametrize("bias", [None, BI])
def test_ranks_are_those_of_the_dense_matrix(kind, bias):
    given = None if bias is None else bias.astype(kind)
    model = er.models.DotProduct(P.astype(kind), Q.astype(kind), item_bias=given)
    dense = P @ Q.T + (0 if bias is None else bias)
    np.testing.assert_array_equal(model.score(np.arange(USERS)[:, None], slice(0, ITEMS)), dense)
    assert counts(model) == by_hand(dense)
    assert er.rank(model, TASK, progress=False).protocol.scores == "float64, certified"


def test_biases_of_users_and_the_mean_change_no_rank():
    """The prediction of Surprise's SVD: mean + bu + bi + <pu, qi>."""
    dense = MEAN + BU[:, None] + BI + P @ Q.T
    assert counts(er.models.DotProduct(P, Q, item_bias=BI)) == by_hand(dense)


def test_popularity_and_neighbours_are_scorers():
    popularity = np.bincount(TRAIN[:, 1], minlength=ITEMS)
    everyone = np.broadcast_to(popularity, (USERS, ITEMS))
    assert counts(lambda queries, candidates: everyone[queries[:, 0]][:, candidates]) == by_hand(
        everyone
    )
    seen = np.zeros((USERS, ITEMS))
    seen[tuple(TRAIN.T)] = 1
    scores = seen @ (seen.T @ seen)
    assert counts(lambda queries, candidates: scores[queries[:, 0]][:, candidates]) == by_hand(scores)


@pytest.mark.parametrize("bias", [False, True])
def test_embeddings_of_torch(bias):
    torch = pytest.importorskip("torch", reason="torch is not installed (make peers installs it)")
    users, items = torch.nn.Embedding(USERS, WIDTH), torch.nn.Embedding(ITEMS, WIDTH)
    users.weight.data, items.weight.data = torch.tensor(P).float(), torch.tensor(Q).float()
    given = torch.nn.Parameter(torch.tensor(BI).float()) if bias else None
    model = er.models.DotProduct(users.weight, items.weight, item_bias=given)
    want = by_hand(P @ Q.T + BI * bias)
    assert counts(model) == want
    assert counts(model, device="torch:cpu") == want
    moved = model.on("cpu")
    assert moved.device == "cpu"
    assert counts(moved.on(None)) == want


def test_description():
    model = er.models.DotProduct(P, Q)
    assert repr(model) == "DotProduct(6 users, 11 items)"
    assert er.rank(model, TASK, progress=False).protocol.model == "DotProduct"


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ((P, Q[:, :2]), ["arrays differ in dimension", "3 in users, 2 in items"]),
        ((P, Q, BI[1:]), ["arrays differ in number of items", "10 in item_bias, 11 in items"]),
        ((P[0], Q), ["users must have 2 axes", r"\(3,\)"]),
        ((P, Q, Q), ["item_bias must have 1 axes"]),
        ((P, Q[:0]), ["items must have 2 axes, none of them empty"]),
    ],
)
def test_arrays_that_do_not_fit(arrays, parts):
    with raises("DotProduct", *parts):
        er.models.DotProduct(*arrays)


def test_queries_that_do_not_fit():
    model = er.models.DotProduct(P[:2], Q)
    with raises("user 2 is not in the model", "2 users, numbered from 0"):
        er.rank(model, er.Task.recommendation([[2, 0]], items=ITEMS), progress=False)
    with raises("queries of one column, the user"):
        er.rank(model, er.Task.of([[0, 1]], [2], size=ITEMS), progress=False)
    with raises(
        "the model has 11 candidates on side item, the task 5",
        "number the candidates of the task as those of the model",
    ):
        er.rank(model, er.Task.recommendation([[0, 0]], items=5), progress=False)
