"""`er.chance` for queries with several answers: every form of input, and what is said of wrong ones."""

import numpy as np
import pytest

import evenrank as er
from evenrank.errors import InputError, NullDistributionError
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.answers.null import QueryNull
from evenrank.metrics.answers.shapes import Shapes
from evenrank.metrics.chance import NullDistribution, read_sizes


def test_every_form_of_input_gives_the_same():
    wanted = er.chance("map", [10, 10, 30], answers=[2, 2, 5])
    assert isinstance(wanted, QueryNull)
    for given in (
        er.chance("map", [10, 30], answers=[2, 5], counts=[2, 1]),
        er.chance("map", {10: 2, 30: 1}, answers=[2, 5]),
        er.chance("map", Shapes.of_counts([10, 10, 30], [2, 2, 5])),
        er.chance("map", np.array([30, 10, 10]), answers=np.array([5, 2, 2])),
        er.chance("map", read_sizes([10, 10, 30]), answers=[2, 5]),
        er.chance(er.parse("map"), [10, 10, 30], answers=[2, 2, 5], weights=[3, 3, 3]),
    ):
        assert (given.mean(), given.var()) == (wanted.mean(), wanted.var())


def test_metrics_of_single_targets_are_converted_where_there_are_answers():
    for name in ("mrr", "mrr@10", "ndcg", "ndcg@10"):
        one = er.chance(name, [50, 70], answers=1)
        single = er.chance(name, [50, 70])
        assert isinstance(single, NullDistribution)
        assert one.mean() == pytest.approx(single.mean(), rel=1e-13)
        assert one.var() == pytest.approx(single.var(), rel=1e-12)
    with pytest.raises(InputError, match="mr is a metric of single targets"):
        er.chance("mr", [50], answers=2)


def test_rankings_know_their_shapes():
    class Rankings:
        def shapes(self):
            return Shapes.of([9, 5], [0, 2, 3], [3, 1, 2])

        def mean_of(self, metric, ties):
            return {"ndcg": 0.5, "map": 0.25}[str(metric)]

    null = er.chance("ndcg", Rankings())
    assert er.chance("ndcg", Rankings(), method="enumerate").mean() == pytest.approx(
        null.mean(), rel=1e-14
    )
    wanted = (0.5 - null.mean()) / (1.0 - null.mean())
    assert Adjusted("index", er.parse("ndcg"))(Rankings()) == pytest.approx(wanted, rel=1e-14)
    with pytest.raises(InputError, match="answers= cannot be combined with rankings"):
        er.chance("map", Rankings(), answers=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"sizes": [100]},
            "the chance level of map requires the number of answers of each query; pass answers=",
        ),
        (
            {"sizes": [3], "answers": 4},
            "a query has more answers than candidates; got 4 answers of 3 candidates in row 0",
        ),
        (
            {"sizes": [3, 4], "answers": [1, 2, 3]},
            "columns differ in length; got 3 rows, but 2 in candidates",
        ),
        (
            {"sizes": {9: 2}, "answers": 1, "counts": [2]},
            "counts= cannot be combined with a mapping, which has counts",
        ),
        ({"sizes": [3], "answers": 1.5}, "numbers of answers must be whole; got 1.5 in row 0"),
        ({"sizes": [], "answers": 1}, "chance levels require at least one query; got none"),
        (
            {"sizes": er.Tally.of([0], [0], [5]), "answers": 1},
            "answers= cannot be combined with targets that are ranked one by one; got Tally; "
            "pass the numbers of candidates, or rankings",
        ),
    ],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(InputError) as error:
        er.chance("map", **arguments)
    assert str(error.value) == message


def test_queries_are_independent():
    assert er.chance("map", [9], answers=2, chance="independent").chance == "independent"
    with pytest.raises(NullDistributionError, match="which queries depend on each other is unknown"):
        er.chance("map", [9], answers=2, chance="scorer")


def test_adjusted_metrics_of_rankings_are_not_computed_from_ranks():
    with pytest.raises(InputError, match="map is computed from rankings"):
        Adjusted("index", er.parse("map"))([1, 2])


def test_the_best_value_is_named_where_it_is_not_one():
    assert er.parse("index(map)").formula == "(map - E[map]) / (1 - E[map])"
    assert er.parse("index(precision@10)").span == "-E/(best-E) to 1"
