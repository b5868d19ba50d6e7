"""GraIL's protocol: 50 sampled negatives, whose chance level of hits@10 is 10/51."""

import json
from fractions import Fraction

import numpy as np
import pytest
from shell import run

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs import atlas

CHANCE = Fraction(10, 51)


def graph():
    """A graph with a hundred entities, and known triples in all splits."""
    draw = np.random.default_rng(3)
    rows = np.unique(np.column_stack([draw.integers(0, n, 900) for n in (100, 3, 100)]), axis=0)
    draw.shuffle(rows)
    return er.Graph.of(rows[:600], rows[600:700], rows[700:760], entities=100, relations=3)


def scorer(table):
    def score(queries, candidates):
        ids = candidates
        if isinstance(candidates, slice):
            ids = np.arange(candidates.start, candidates.stop)
        ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
        h, r, t = (np.where(column == -1, ids, column) for column in queries.T[:, :, None])
        return table[h, r, t]

    return score


def test_candidates_are_the_target_and_fifty_that_are_not_known_in_training():
    made = graph()
    task = made.task(protocol="grail")
    assert set(task.candidates.tolist()) == {51}
    assert task.protocol.filter == ("train",)
    assert str(task.protocol.candidates).startswith("50 sampled per query, seed 0")
    known = {tuple(triple) for triple in made.splits["train"].tolist()}
    for part in task.parts:
        for i, target in zip(part.query_of.tolist(), part.targets.tolist(), strict=True):
            query = part.queries[i].tolist()
            hole = query.index(-1)
            drawn = part.lists[int(part.group[i])].tolist()
            filled = [tuple(c if i == hole else q for i, q in enumerate(query)) for c in drawn]
            assert all(triple not in known for triple in filled)
            assert target in drawn
    assert set(made.task(protocol="grail", candidates=20).candidates.tolist()) == {21}


def test_ranks_are_distributed_as_those_of_grail_s_loop():
    """The mean rank and hits over seeds, against its loop, which may draw a negative twice."""
    made = graph()
    draw = np.random.default_rng(0)
    table = draw.normal(size=(100, 3, 100))
    table[tuple(made.splits["test"].T)] += 1.0
    adjacent = np.zeros((100, 3, 100), dtype=bool)
    adjacent[tuple(made.splits["train"].T)] = True
    ranks = []
    for _ in range(40):
        for h, r, t in made.splits["test"].tolist():
            for row, known, target in (
                (table[h, r, :], adjacent[h, r, :], t),
                (table[:, r, t], adjacent[:, r, t], h),
            ):
                negatives = []
                while len(negatives) < 50:
                    other = int(draw.integers(100))
                    if not known[other] and other != target:
                        negatives.append(other)
                ranks.append(1 + int((row[negatives] > row[target]).sum()))
    theirs = np.array(ranks)
    ours = [
        er.rank(scorer(table), made.task(protocol="grail", seed=seed), progress=False).evaluate(
            "mr", "hits@10"
        )
        for seed in range(40)
    ]
    assert np.mean([one["mr"] for one in ours]) == pytest.approx(theirs.mean(), abs=0.3)
    assert np.mean([one["hits@10"] for one in ours]) == pytest.approx((theirs <= 10).mean(), abs=0.02)


def test_the_chance_level_of_hits_at_10_is_ten_of_fifty_one():
    sizes = er.atlas("wn18rr-v1-ind", protocol="grail")
    assert er.chance("hits@10", sizes).mean() == float(CHANCE)
    assert (sizes["candidates"].tolist(), sizes.total) == ([51], 2 * 188)
    tails = er.atlas("nell_v1_ind", "valid", "tail", protocol="grail")
    assert (tails["candidates"].tolist(), tails.total) == ([51], 101)
    # a scorer that knows nothing
    rng = np.random.default_rng(0)
    ranks = er.rank(scorer(rng.random((100, 3, 100))), graph().task(protocol="grail"), progress=False)
    assert ranks.evaluate("hits@10")["hits@10"] == pytest.approx(float(CHANCE), abs=0.12)


def test_the_shell_shows_a_value_beside_its_chance_level():
    said = json.loads(
        run(
            "adjust", "hits@10=0.8", "--data", "wn18rr-v1-ind", "--protocol", "grail", "--format", "json"
        )
    )
    table = json.dumps(said)
    assert f"{float(CHANCE)}"[:12] in table
    assert said["protocol"]["preset"] == "grail"
    assert said["protocol"]["data"] == "wn18rr-v1-ind"
    text = run("adjust", "hits@10=0.8", "--data", "wn18rr-v1-ind", "--protocol", "grail")
    assert "0.1961" in text
    assert "0.7512" in text  # (0.8 - 10/51) / (1 - 10/51)
    assert float((Fraction(8, 10) - CHANCE) / (1 - CHANCE)) == pytest.approx(0.7512, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--sizes", "51x10", "--protocol", "grail"],
            "--protocol needs a data set; got --protocol grail",
        ),
        (
            ["--data", "wn18rr", "--protocol", "grail", "--filter", "none"],
            "the protocol grail determines the filter, and which entities are kept; got --filter none",
        ),
        (
            ["--data", "wn18rr", "--protocol", "pykeen", "--unseen", "drop"],
            "the protocol pykeen determines the filter, and which entities are kept; got --unseen drop",
        ),
    ],
)
def test_options_that_contradict_the_protocol(arguments, message):
    for command in (["adjust", "hits@10=0.8"], ["chance", "hits@10"]):
        assert message in run(*command, *arguments, code=2)


def test_other_protocols_choose_the_counts_of_their_library():
    assert er.atlas("wn18rr", protocol="pykeen") == er.atlas("wn18rr", unseen="drop")
    assert er.atlas("wn18rr", protocol="rotate") == er.atlas("wn18rr")
    assert er.atlas("ogbl-biokg", protocol="ogb") == er.atlas("ogbl-biokg")
    assert er.chance("hits@10", er.atlas("ogbl-biokg")).mean() == pytest.approx(10 / 501, rel=1e-14)
    with pytest.raises(
        InputError, match="the protocol ogb ranks among candidates that come with the data"
    ):
        er.atlas("yago310", protocol="ogb")
    assert atlas.facts("ogbl-biokg").triples["test"] == 162_870
