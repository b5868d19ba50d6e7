"""What is promised about ranks at different memory limits: for models that factor, and for others."""

import numpy as np
import pytest

import evenrank as er
from evenrank.ranks.task import Task

LIMITS = ("1100KB", "4MB", "64MB")


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    return Task.of(np.arange(300)[:, None], targets=rng.integers(0, 2000, 300), size=2000)


@pytest.fixture(scope="module")
def vectors():
    """Every second candidate is nearly tied with the one before it."""
    rng = np.random.default_rng(1)
    table = np.repeat(rng.normal(0, 1, (1000, 48)), 2, axis=0).astype(np.float32)
    table[1::2] *= np.float32(1 + 1e-7)
    return rng.normal(0, 1, (300, 48)).astype(np.float32), table


def counted(scorer, task):
    made = [er.rank(scorer, task, memory=memory, progress=False) for memory in LIMITS]
    return [(ranks.better.tolist(), ranks.equal.tolist()) for ranks in made], made[0].protocol.scores


def test_ranks_of_models_that_factor_do_not_depend_on_the_memory_limit(task, vectors):
    queries, table = vectors
    found, scores = counted(
        er.Factored("dot", table, lambda asked: queries[asked[:, 0]].astype(np.float64)), task
    )
    assert found[0] == found[1] == found[2]
    assert scores == "float64, certified"


def test_ranks_by_a_function_follow_from_its_scores(task, vectors):
    """Scores that depend on the shape of a call give other ranks; scores of each pair alone do not."""
    queries, table = vectors

    def alone(asked, candidates):
        pairs = queries[asked[:, 0]][:, None, :] * table[candidates.start : candidates.stop]
        return pairs.astype(np.float64).sum(axis=2)

    found, scores = counted(alone, task)
    assert found[0] == found[1] == found[2]
    assert scores == "as given"

    def by_shape(asked, candidates):  # coarser in large calls, as another order of sums is
        scores = alone(asked, candidates)
        return scores.astype(np.float16) if len(asked) > 60 else scores

    varied, scores = counted(by_shape, task)
    assert varied[0] == found[0]
    assert varied[0] != varied[-1]
    assert scores == "as given"
