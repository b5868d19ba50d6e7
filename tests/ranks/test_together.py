"""Tasks in which all answers of a query compete: by brute force, and by a sort of all scores."""

import pickle
from dataclasses import replace

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given, settings

import evenrank as er
from evenrank.ranks.task import Task


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def score(query, candidate):
    """Seven scores, tied often."""
    return hash((*query, candidate, 5)) % 7


def scorer(queries, candidates):
    ids = np.arange(candidates.start, candidates.stop) if isinstance(candidates, slice) else candidates
    ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
    return np.array(
        [[score(q, c) for c in some] for q, some in zip(queries.tolist(), ids.tolist(), strict=True)]
    )


def grouped(rows):
    """The answers of each query, without repeats, in the order of the rows."""
    found = {}
    for row in rows:
        found.setdefault((row.side, row.query), {})[row.target] = row
    return found


@given(strategies.tasks())
@settings(max_examples=250)
def test_answers_compete_and_other_known_answers_are_filtered(asked):
    task, rows = asked
    if any(len(np.unique(part.queries, axis=0)) < len(part.queries) for part in task.parts):
        with raises("the same candidates", "several lists for a query on side", "the same list"):
            task.together()
        return
    want = []
    for (_, query), answers in grouped(rows).items():
        known = {k for row in answers.values() for k in row.known} - set(answers)
        candidates = {c for row in answers.values() for c in row.candidates} | set(answers)
        want += [oracle.rank(score, query, target, known, candidates) for target in answers]
    together = task.together()
    ranks = er.rank(scorer, together, progress=False)
    assert together.candidates.tolist() == ranks.candidates.tolist()
    got = zip(ranks.better.tolist(), ranks.equal.tolist(), ranks.candidates.tolist(), strict=True)
    assert list(got) == want
    assert together.protocol.extra["answers"] == "together"
    again = pickle.loads(pickle.dumps(together)).together()
    assert again.candidates.tolist() == together.candidates.tolist()


def test_keys_follow_the_answers_of_a_query():
    task = Task.of(
        [[7], [3], [7], [3], [7]], targets=[4, 1, 0, 1, 2], size=5, keys={"row": np.arange(5)}
    )
    together = task.together()
    assert together.keys["row"].tolist() == [0, 2, 4, 1]  # row 3 repeats row 1
    assert together.candidates.tolist() == [5, 5, 5, 5]
    assert len(together) == 4


def test_the_size_of_the_whole_ranking_is_not_that_of_answers_ranked_apart():
    graph = er.load("nations")
    sampled = graph.task("test", candidates=3)
    assert "full_candidates" in sampled.keys
    assert not {"full_candidates", "draw"} & sampled.together().keys.keys()


def test_candidates_that_are_listed_twice_are_an_error():
    task = Task.of([[0]], [1], size=5, candidates=[[1, 2, 2]], repeats=True)
    with raises("no candidate is listed twice"):
        task.together()


def test_protocols_of_libraries_rank_answers_apart():
    task = er.load("nations").task("test", protocol="libkge")
    with raises("each answer without the others", "libkge", "without this protocol"):
        task.together()


def test_a_task_keeps_the_task_made_from_it():
    """Devices keep the index of a task with the task."""
    task = er.load("nations").task("test")
    assert task.together() is task.together()
    assert replace(task).together() is not task.together()
