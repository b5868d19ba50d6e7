"""A small graph, a score of its triples, and their ranks by loops over plain numbers."""

import functools

import numpy as np
import oracle
import pytest

import evenrank as er

ENTITIES, RELATIONS = 23, 4
RNG = np.random.default_rng(5)
TRIPLES = np.unique(
    np.stack([RNG.integers(0, n, 260) for n in (ENTITIES, RELATIONS, ENTITIES)], 1), axis=0
)
SPLITS = dict(
    zip(("train", "valid", "test"), np.split(RNG.permutation(TRIPLES), [150, 190]), strict=True)
)
GRAPH = er.Graph.of(SPLITS, entities=ENTITIES, relations=RELATIONS)
# small whole numbers: sums are exact in any order, and many scores tie
ENTITY = RNG.integers(-2, 3, (ENTITIES, 6))
RELATION = RNG.integers(-2, 3, (RELATIONS, 6))


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def rank(scorer, task, **options):
    return er.rank(scorer, task, progress=False, **options)


def triple(h, r, t):
    """The score of a triple, in a loop over plain numbers; not symmetric."""
    h, r, t = ENTITY[h].tolist(), RELATION[r].tolist(), ENTITY[t].tolist()
    return sum(a * b * c for a, b, c in zip(h, r, t[1:] + t[:1], strict=True))


def by_hand(sides):
    """Rank the test triples by a loop over all triples."""
    known = {tuple(row) for rows in SPLITS.values() for row in rows.tolist()}
    asked = {
        "tail": lambda h, r, t, x: (h, r, x),
        "head": lambda h, r, t, x: (x, r, t),
        "relation": lambda h, r, t, x: (h, x, t),
        "pair": lambda h, r, t, x: (x // ENTITIES, r, x % ENTITIES),
    }
    size = {"relation": RELATIONS, "pair": ENTITIES**2}
    found = []
    for side in sides:
        for row in SPLITS["test"].tolist():
            fill = functools.partial(asked[side], *row)
            every = range(size.get(side, ENTITIES))
            true = [x for x in every if fill(x) in known]
            target = next(x for x in every if fill(x) == tuple(row))
            found.append(oracle.rank(lambda _, x, f=fill: triple(*f(x)), (), target, true, every))
    return found


def counts(ranks):
    return list(zip(*(x.tolist() for x in (ranks.better, ranks.equal, ranks.candidates)), strict=True))


SIDES = [("tail", "head"), ("relation",), ("pair",)]
