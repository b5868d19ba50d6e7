"""Hypothesis strategies for metrics, rows of ranks, sizes, graphs and tasks."""

from math import inf
from typing import NamedTuple

from hypothesis import strategies as st

import evenrank as er
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.metric import GAIN, RANK, Statistic, hit

POWERS = (-inf, -2, -1, -0.5, 0, 0.5, 1, 2, 3, inf)

transforms = st.one_of(st.just(RANK), st.just(GAIN), st.integers(1, 12).map(hit))
metrics = st.builds(
    er.Metric,
    transforms,
    st.one_of(st.sampled_from(POWERS), st.floats(-5, 5).filter(lambda p: p == 0 or abs(p) > 0.05)),
    st.sampled_from((1, -1)),
)
statistics = st.one_of(
    st.builds(Statistic, st.just("quantile"), st.floats(0, 1), st.sampled_from((1, -1))),
    st.sampled_from([Statistic(kind) for kind in ("std", "var", "mad", "count")]),
)
plain = st.one_of(metrics, statistics)
adjusted = st.builds(
    Adjusted,
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


# Tasks --------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """A target and what it is ranked among, in plain Python, worked out beside the task."""

    side: str
    query: tuple[int, ...]
    target: int
    known: set[int]
    candidates: set[int]


SIDES = ("tail", "head", "relation", "pair")
FILTERS = ("all", None, "train", ("train", "valid"), ("test",))


def _asked(graph, side, triple):
    """The query and the answer of one triple, by hand."""
    h, r, t = map(int, triple)
    return {
        "tail": ((h, r, -1), t),
        "head": ((-1, r, t), h),
        "relation": ((h, -1, t), r),
        "pair": ((-1, r, -1), h * len(graph.entities) + t),
    }[side]


def expected(graph, sides, names, candidates):
    """List what a task of the test split must ask; `candidates(side, row, relation)` gives sets."""
    known: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    for side in sides:
        for name in names:
            for triple in graph.splits[name]:
                query, answer = _asked(graph, side, triple)
                known.setdefault((side, query), set()).add(answer)
    return [
        Asked(
            side, query, answer, known.get((side, query), set()), candidates(side, i, query, triple[1])
        )
        for side in sides
        for i, triple in enumerate(graph.splits["test"])
        for query, answer in [_asked(graph, side, triple)]
    ]


@st.composite
def graphs(draw, *, largest: int = 6, triples: int = 10):
    """A small graph; triples may be repeated in one split or in several."""
    entities, relations = draw(st.integers(1, largest)), draw(st.integers(1, 3))
    entity, relation = st.integers(0, entities - 1), st.integers(0, relations - 1)
    some = st.lists(st.tuples(entity, relation, entity), min_size=1, max_size=triples)
    splits = {name: draw(some) for name in ("train", "valid", "test")}
    return er.Graph.of(splits, entities=entities, relations=relations)


@st.composite
def tasks(draw, kinds=("all", "typed", "relation", "triple", "sampled"), *, largest=6, triples=10):
    """A task on a little graph, and what it must ask."""
    graph = draw(graphs(largest=largest, triples=triples))
    kind = draw(st.sampled_from(kinds))
    sides = draw(
        st.sampled_from([("tail", "head"), ("tail",), ("head",)])
        if kind == "typed"
        else st.lists(st.sampled_from(SIDES), min_size=1, max_size=3, unique=True).map(tuple)
    )
    names = draw(st.sampled_from(FILTERS))
    splits = tuple(graph.splits) if names == "all" else (names,) if names == "train" else names or ()
    entities, relations = len(graph.entities), len(graph.relations)
    size = {"tail": entities, "head": entities, "relation": relations, "pair": entities**2}
    asked = "both" if sides == ("tail", "head") else sides[0] if len(sides) == 1 else sides
    options = {"sides": asked, "filter": names}
    if kind == "sampled":
        k = draw(st.integers(1, 8))
        task = graph.task("test", candidates=k, seed=draw(st.integers(0, 9)), **options)
        drawn = {  # what was drawn is the task's affair; tests/test_task.py judges it
            (part.side, tuple(query)): set(part.lists[i].tolist())
            for part in task.parts
            for i, query in enumerate(part.queries.tolist())
        }
        rows = expected(graph, sides, splits, lambda side, i, query, r: drawn[side, query])
    elif kind == "all":
        task = graph.task("test", **options)
        rows = expected(graph, sides, splits, lambda side, i, query, r: set(range(size[side])))
    elif kind == "typed":
        shown = {
            (side, r): {int(t[at]) for name in graph.splits for t in graph.splits[name] if t[1] == r}
            for side, at in (("tail", 2), ("head", 0))
            for r in range(relations)
        }
        task = graph.task("test", candidates=graph.types("train", "valid", "test"), **options)
        rows = expected(graph, sides, splits, lambda side, i, query, r: shown[side, r])
    else:
        count = relations if kind == "relation" else len(graph.splits["test"])
        lists = {  # an id may be listed twice; the target may be missing, and then joins for itself
            side: [
                draw(st.lists(st.integers(0, size[side] - 1), min_size=1, max_size=9))
                for _ in range(count)
            ]
            for side in sides
        }
        given = {s: dict(enumerate(one)) if kind == "relation" else one for s, one in lists.items()}
        task = graph.task("test", candidates=given, outside="add", **options)
        rows = expected(
            graph,
            sides,
            splits,
            lambda side, i, query, r: set(lists[side][r if kind == "relation" else i]),
        )
    return task, rows
