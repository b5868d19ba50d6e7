"""Columns: numbering of distinct rows, and texts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenrank._internal.columns import as_texts, encode


@given(st.data())
def test_distinct_rows_are_numbered_in_sorted_order(data):
    n = data.draw(st.integers(0, 30))
    kinds = [
        st.integers(0, 40),  # small enough to be counted without sorting
        st.integers(-5, 5),
        st.integers(0, 10**12),
        st.sampled_from(["a", "b", "ä", ""]),
    ]
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    lists = [data.draw(st.lists(kind, min_size=n, max_size=n)) for kind in chosen]
    columns = [
        np.array([*values, None], dtype=object)[:-1]
        if any(isinstance(v, str) for v in values)
        else np.array(values, dtype=np.int64)
        for values in lists
    ]
    numbers, distinct = encode(columns)
    rows = list(zip(*lists, strict=True))
    want = sorted(set(rows))
    assert numbers.tolist() == [want.index(row) for row in rows]
    assert list(zip(*(column.tolist() for column in distinct), strict=True)) == want


def test_texts_are_copied():
    given_ = np.array(["a", "b"], dtype=object)
    made = as_texts(given_)
    made[0] = "c"
    assert given_.tolist() == ["a", "b"]
    assert as_texts(np.array(["a", "bc"])).dtype == object
    assert as_texts(np.array([None, 3, "x", 2.5], dtype=object)).tolist() == ["", "3", "x", "2.5"]
