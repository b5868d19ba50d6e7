"""Scores near zero: they do not tie because torch was told to round them to zero."""

import sys

import numpy as np
import pytest

import evenrank as er
from evenrank.ranking.engine import denormals
from evenrank.ranks.task import Task

TINY = np.array([[3e-310], [1e-310], [2e-310], [0.0]])  # all of them denormal
TASK = Task.of([[0]], targets=[1], size=4)


def better():
    """How many candidates are better, ranked by factors and by a function, in one thread and in two."""
    model = er.Factored("dot", TINY, lambda queries: np.ones((len(queries), 1)))
    counts = []
    for scorer in (model, lambda queries, candidates: (TINY @ np.ones((1, 1))).T[:, candidates]):
        for threads in (1, 2):
            ranks = er.rank(scorer, TASK, threads=threads, progress=False)
            counts.append((int(ranks.better[0]), int(ranks.equal[0])))
    return counts


def test_denormal_scores_differ():
    assert better() == [(2, 0)] * 4
    assert not denormals.flushed()


def test_denormal_scores_differ_in_spite_of_torch():
    torch = pytest.importorskip("torch")
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot round denormal numbers to zero")
    try:
        assert denormals.flushed()
        assert better() == [(2, 0)] * 4
        assert denormals.flushed()  # as the user wanted
    finally:
        torch.set_flush_denormal(False)


def test_a_mode_that_cannot_be_changed_is_a_warning(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(denormals, "flushed", lambda: True)
    with pytest.warns(RuntimeWarning, match="rounds numbers below 2e-308 to zero, so scores"):
        er.rank(lambda queries, candidates: TINY.T, TASK, progress=False)
