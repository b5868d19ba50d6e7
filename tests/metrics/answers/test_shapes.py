"""Shapes of queries: counted exactly, in an order that depends on nothing, and added."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenrank.errors import InputError
from evenrank.metrics.answers.shapes import ONES, Shapes, distinct_rows

GAINS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])
WEIGHTS = st.sampled_from([1.0, 0.5, 1 / 3])


@st.composite
def queries(draw):
    """(candidates, gains, weight) per query; 0 candidates are unknown."""
    out = []
    for _ in range(draw(st.integers(0, 8))):
        gains = draw(st.lists(GAINS, max_size=4))
        out.append((draw(st.integers(len(gains), 6)), gains, draw(WEIGHTS)))
    return out


def shapes(rows) -> Shapes:
    sizes, gains, weights = ([row[i] for row in rows] for i in range(3))
    first = np.cumsum([0, *map(len, gains)])
    return Shapes.of(sizes, first, [g for row in gains for g in row], weights)


def listed(of: Shapes) -> Counter:
    """Read every query back."""
    rows = of.rows
    return Counter(
        {
            (int(n), tuple(of.gains(i).tolist()), float(w)): int(count)
            for i, (n, w, count) in enumerate(
                zip(rows["candidates"], rows["weight"], rows.counts, strict=True)
            )
        }
    )


@given(queries())
def test_shapes_count_every_query(rows):
    assert listed(shapes(rows)) == Counter((n, tuple(sorted(g, reverse=True)), w) for n, g, w in rows)
    assert shapes(rows).total == len(rows)


@given(queries(), queries(), queries())
def test_shapes_add_exactly(a, b, c):
    whole = shapes(a + b + c)
    assert shapes(a) + shapes(b) + shapes(c) == whole
    assert shapes(c) + (shapes(b) + shapes(a)) == whole
    assert Shapes() + whole == whole == whole + Shapes()


@given(queries(), st.randoms(use_true_random=False))
def test_neither_queries_nor_answers_have_an_order(rows, random):
    mixed = [(n, random.sample(gains, len(gains)), w) for n, gains, w in rows]
    random.shuffle(mixed)
    assert shapes(mixed) == shapes(rows)


def test_gains_of_one_need_no_profile():
    one = Shapes.of([9, 9], [0, 2, 3], [1, 1, 1])
    assert one == Shapes.of([9, 9], [0, 2, 3]) == Shapes.of_counts(9, [1, 2])
    assert not one.graded
    assert (one.rows["profile"] == ONES).all()


def test_counts_stand_for_repeated_queries():
    assert Shapes.of_counts([5, 7], 2, counts=[3, 1]) == Shapes.of_counts([5, 5, 5, 7], [2, 2, 2, 2])
    assert Shapes.of_counts([5, 7], [2, 3], counts=[0, 1]) == Shapes.of_counts(7, 3)


def test_queries_of_weight_zero_do_not_count():
    some = Shapes.of([5, 7], [0, 2, 3], [4, 2, 1], weights=[0, 1])
    assert some == Shapes.of([7], [0, 1])


def test_rows_of_many_levels_and_columns_are_distinguished():
    rng = np.random.default_rng(0)
    matrix = rng.choice(rng.random(300), (40, 30))  # 300^30 possible rows do not fit into an integer
    twice = np.concatenate([matrix, matrix])
    distinct, number = distinct_rows(twice)
    assert np.array_equal(distinct[number], twice)
    assert distinct.tolist() == sorted(map(list, matrix.tolist()))


def test_shapes_say_how_many_there_are():
    assert repr(Shapes.of_counts([5, 5, 7], 2)) == "Shapes(3 queries; 2 distinct)"
    assert repr(Shapes.of_counts(5, 1)) == "Shapes(1 query; 1 distinct)"
    assert Shapes.of_counts([5, 0], 1).known is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([5], [1, 2]), "first must start at 0 and not fall; got [1, 2]"),
        (([5], [0, 2, 1]), "first must start at 0 and not fall; got [0, 2, 1]"),
        (([5, 5, 5], [0, 1, 2]), "columns differ in length; got 2 rows, but 3 in candidates"),
        (
            ([2], [0, 3]),
            "a query has more answers than candidates; got 3 answers of 2 candidates in row 0",
        ),
        (([5], [0, 1], [1, 2]), "columns differ in length; got 1 answers, but 2 gains"),
        (([5], [0, 1], [-1.0]), "gains must be finite and not negative; got -1.0 in row 0"),
        (([5], [0, 1], [np.inf]), "gains must be finite and not negative; got inf in row 0"),
        (([5], [0, 1], ["a"]), "gains must be a column of numbers; got ['a']"),
        (([5], [0, 1], None, [-1]), "weights must be finite and not negative; got -1.0"),
    ],
)
def test_invalid_columns_are_named(arguments, message):
    with pytest.raises(InputError) as error:
        Shapes.of(*arguments)
    assert str(error.value) == message
