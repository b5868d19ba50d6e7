"""Recommendation tasks: by brute force, and the same from rows and from matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import evenrank as er
from evenrank.ranks.task import Task

USERS, ITEMS = 5, 7
PAIRS = st.dictionaries(
    st.tuples(st.integers(0, USERS - 1), st.integers(0, ITEMS - 1)),
    st.sampled_from([0.0, 0.5, 1.0, 4.0]),
    max_size=20,
)


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def rows(pairs):
    return np.array([(u, i, g) for (u, i), g in pairs.items()]).reshape(-1, 3)


def matrix(pairs, kind):
    u, i, g = rows(pairs).T
    return kind((g, (u.astype(int), i.astype(int))), shape=(USERS, ITEMS))


@given(PAIRS, PAIRS, st.sampled_from(["rows", "csr_matrix", "coo_array", "csc_array"]))
@settings(max_examples=100)
def test_training_items_are_filtered_and_zero_gains_are_not_relevant(test, train, form):
    relevant = {pair: gain for pair, gain in test.items() if gain}
    kind = getattr(sparse, form, None)
    give = rows if kind is None else lambda pairs: matrix(pairs, kind)
    size = {"items": ITEMS, "users": USERS} if kind is None else {}
    if not relevant:
        with raises("at least one target"):
            Task.recommendation(give(test), train=give(train), **size)
        return
    task = Task.recommendation(give(test), train=give(train), **size)
    keys = [task.keys[name].tolist() for name in ("user", "item", "gain")]
    assert list(zip(*keys, strict=True)) == [(u, i, g) for (u, i), g in sorted(relevant.items())]
    seen = {pair for pair, gain in train.items() if gain} - set(relevant)
    left = {u: {i for i in range(ITEMS) if (u, i) not in seen} for u in range(USERS)}
    mine = {u: {i for v, i in relevant if v == u} for u in range(USERS)}
    assert task.together().candidates.tolist() == [len(left[u]) for u in keys[0]]
    assert task.candidates.tolist() == [len(left[u]) - len(mine[u]) + 1 for u in keys[0]]
    without = USERS - len(set(keys[0]))
    assert task.protocol.extra.get("users without test items") == (str(without) if without else None)
    assert task.protocol.extra["task"] == "recommendation"


def test_pairs_may_lack_gains_and_repeat():
    task = Task.recommendation([[0, 1], [0, 1], [3, 2]], items=4)
    assert task.keys["item"].tolist() == [1, 2]
    assert "gain" not in task.keys
    assert task.protocol.extra.get("users without test items") is None  # nobody else occurs


def test_values_of_a_matrix_that_repeats_a_pair_are_added():
    twice = sparse.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))
    assert Task.recommendation(twice).keys["gain"].tolist() == [3.0]
    assert twice.nnz == 2  # the matrix is as it was


@pytest.mark.parametrize(
    ("test", "options", "parts"),
    [
        ([[0, 1]], {}, ["number of items is required", "items="]),
        ([[0, 1, 2, 3]], {"items": 4}, ["test must be rows of user and item", r"shape \(1, 4\)"]),
        ([3, 4], {"items": 9}, ["test must be rows of user and item"]),
        ([[0, 1, -1.0]], {"items": 4}, ["gains of test must not be negative", "-1.0"]),
        ([[0, 1, np.nan]], {"items": 4}, ["gains of test must not be negative", "nan"]),
        ([[0, 1, 1.0], [0, 1, 2.0]], {"items": 4}, ["several gains in test", "1 and 2 for user 0"]),
        ([[0.5, 1, 1.0]], {"items": 4}, ["users of test must be whole"]),
        ([[0, -1]], {"items": 4}, ["items of test must be at least 0"]),
        ([[0, 4]], {"items": 4}, ["an item of test is not below the number of items, 4", "4 in row 0"]),
        ([[5, 1]], {"items": 4, "users": 5}, ["a user is not below the number of users, 5"]),
        (
            [["a", "b"]],
            {"items": 4},
            ["users and items of test must be whole numbers from 0", r"\['a', 'b'\]", "np.unique"],
        ),
        (
            [[0, 1]],
            {"items": 4, "train": [[0, 4]]},
            ["an item of train is not below the number of items"],
        ),
        (
            sparse.eye(3, 4),
            {"train": sparse.eye(3, 5)},
            ["test and train must have the same items; got 4 and 5"],
        ),
        ([], {"items": 4}, ["at least one target"]),
    ],
)
def test_mistakes(test, options, parts):
    with raises(*parts):
        Task.recommendation(test, **options)
