"""Hypothesis strategies for metrics, rows of ranks, and sizes."""

from math import inf

from hypothesis import strategies as st

import evenrank as er
from evenrank.metric import GAIN, RANK, hit

POWERS = (-inf, -2, -1, -0.5, 0, 0.5, 1, 2, 3, inf)

transforms = st.one_of(st.just(RANK), st.just(GAIN), st.integers(1, 12).map(hit))
metrics = st.builds(
    er.Metric,
    transforms,
    st.one_of(st.sampled_from(POWERS), st.floats(-5, 5).filter(lambda p: p == 0 or abs(p) > 0.05)),
    st.sampled_from((1, -1)),
)
statistics = st.one_of(
    st.builds(er.Statistic, st.just("quantile"), st.floats(0, 1), st.sampled_from((1, -1))),
    st.sampled_from([er.Statistic(kind) for kind in ("std", "var", "mad", "count")]),
)
plain = st.one_of(metrics, statistics)
adjusted = st.builds(
    er.Adjusted,
    st.sampled_from(("chance", "ratio", "index", "z", "phi")),
    plain.filter(lambda m: m.increasing is not None),
)
expressions = st.one_of(plain, adjusted)


@st.composite
def rows(draw, *, largest: int = 60, most: int = 12, ties: bool = True):
    """(better, equal, candidates, weight) per target."""
    out = []
    for _ in range(draw(st.integers(1, most))):
        candidates = draw(st.integers(1, largest))
        better = draw(st.integers(0, candidates - 1))
        equal = draw(st.integers(0, candidates - 1 - better)) if ties else 0
        out.append((better, equal, candidates, draw(st.sampled_from((1.0, 0.5, 2.0, 1 / 3)))))
    return out


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def tally(table, *, weighted: bool = False) -> er.Tally:
    """Count rows of the strategy above."""
    better, equal, candidates, weight = zip(*table, strict=True)
    return er.Tally.of(better, equal, candidates, weight if weighted else None)
