"""Metrics of queries with several answers as torchmetrics has them, in one process or several."""

import pickle

import numpy as np
import pytest
from processes import together

import evenrank as er
from evenrank import integrations
from evenrank.metrics.answers.tally import QueryTally
from evenrank.ranks.rankings import Rankings

# warnings of the libraries are ignored
pytestmark = pytest.mark.filterwarnings("ignore:::(torch|torchmetrics)")
torch = pytest.importorskip("torch", reason="torch is not installed (make peers installs it)")
pytest.importorskip("torchmetrics", reason="torchmetrics is not installed (make peers installs it)")

METRICS = ("map", "index(ndcg@10)", "z(recall@5)", "mrr", "auc", "precision@10", "err(3)")
BATCHES = 8


def batch(i):
    """Scores with ties, gains, known candidates and weights; some queries have no answers."""
    generator = torch.Generator().manual_seed(i)
    scores = torch.randn(9, 40, generator=generator).round(decimals=1)
    gains = torch.randint(0, 4, (9, 40), generator=generator)
    gains = gains * (torch.rand(9, 40, generator=generator) < 0.2)
    gains[i % 9] = 0
    known = torch.rand(9, 40, generator=generator) < 0.1 * (i % 3)
    weight = torch.rand(9, generator=generator, dtype=torch.float64) + 0.1
    return scores, gains, known, weight


def expected(weighted, which=range(BATCHES), **options):
    """The same from NumPy, all at once."""
    scores, gains, known, weight = map(np.concatenate, zip(*map(batch, which), strict=True))
    rankings = Rankings.from_scores(scores, gains, known, weights=weight if weighted else None)
    return rankings.evaluate(*METRICS, **options).to_dict(plain=True)


def answers_metric(*metrics, **options):
    return integrations.torchmetrics.AnswersMetric(*(metrics or METRICS), **options)


def exact(values):
    return {name: value.item() for name, value in values.items()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"ties": "pessimistic"}, {"empty": "zero"}])
def test_the_metric_has_every_bit_of_rankings_of_all_batches(weighted, options):
    metric = answers_metric(**options)
    for i in reversed(range(BATCHES)):
        metric.update(*batch(i)[: 4 if weighted else 3])
    assert exact(metric.compute()) == expected(weighted, **options)


def test_the_metric_forwards_merges_copies_and_resets(monkeypatch):
    monkeypatch.setattr(integrations.torchmetrics, "MERGED", 2)  # tallies are added up on the way
    metric, other = answers_metric(), answers_metric()
    for i in range(5):
        assert exact(metric(*batch(i))) == expected(True, [i])
    for i in range(5, BATCHES):
        other.update(*batch(i))
    assert len(other.sums) <= 3
    metric.merge_state(other)
    assert exact(metric.compute()) == expected(True)
    assert exact(pickle.loads(pickle.dumps(metric.clone())).compute()) == expected(True)
    assert exact(metric.set_dtype("float").half().compute()) == expected(True)
    saved = answers_metric()
    metric.persistent(True)
    saved.persistent(True)
    saved.load_state_dict(metric.state_dict())
    assert saved.tally == metric.tally
    metric.reset()
    assert metric.tally == QueryTally(metric.tally.metrics)


def test_the_metric_accepts_rankings_arrays_half_precision_and_infinite_scores():
    scores, gains, known, _ = batch(1)
    half = scores.bfloat16()
    half[0, :3], half[1, :2] = float("inf"), -float("inf")
    known[0, 1] = True
    metric = answers_metric()
    metric.update(half, gains.numpy(), known.tolist())
    metric.update(Rankings.from_scores(scores, gains))
    metric.update(scores[:0], gains[:0])
    both = Rankings.from_scores(half.float(), gains, known) + Rankings.from_scores(scores, gains)
    assert exact(metric.compute()) == both.evaluate(*METRICS).to_dict(plain=True)
    whole = answers_metric("map")
    whole.update(torch.tensor([[3, 2, 1]]), torch.tensor([[False, True, True]]))
    assert whole.compute().item() == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert whole.higher_is_better is True


def test_without_names_the_metric_has_the_default_table():
    metric = integrations.torchmetrics.AnswersMetric()
    metric.update(*batch(0)[:2])
    rankings = Rankings.from_scores(*batch(0)[:2])
    assert exact(metric.compute()) == rankings.evaluate().to_dict(plain=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(3),), "^scores need answers"),
        ((torch.zeros(3), torch.zeros(3)), "^scores must be a matrix"),
        ((torch.zeros(1, 3), torch.zeros(1, 2)), "^relevant must have the shape of scores; got"),
        ((torch.zeros(1, 3), torch.ones(1, 3), torch.ones(1, 2)), "^known and scores differ in shape"),
        ((torch.tensor([[0.0, float("nan")]]), torch.ones(1, 2)), r"^scores contain NaN \(query 0"),
        ((torch.zeros(1, 2), -torch.ones(1, 2)), "^gains must be finite and not negative"),
        ((Rankings([[0]]), torch.ones(1, 2)), "^rankings include answers and weights"),
    ],
)
def test_invalid_batches_raise(arguments, message):
    with pytest.raises(er.errors.InputError, match=message):
        answers_metric().update(*arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: answers_metric("map", ties="realistic"),
            "^unknown tie-breaking rule for several",
        ),
        (lambda: answers_metric("map", empty="nan"), "^unknown value of empty"),
        (lambda: answers_metric("hits@10"), "use success@10"),
        (lambda: answers_metric("map").compute(), "at least one query with an answer"),
    ],
)
def test_invalid_metrics_raise(make, message):
    with pytest.raises(er.errors.InputError, match=message):
        make()


def share():
    """Evaluate every batch of this process: process r of n has the batches r, r + n, ..."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    metric = answers_metric()
    rank, count = dist.get_rank(), dist.get_world_size()
    for i in range(rank, BATCHES, count):
        if rank < 2:  # a third process has nothing
            metric.update(*batch(i))
    found = exact(metric.compute())
    dist.destroy_process_group()
    return found


@pytest.mark.parametrize("count", [2, 3])
def test_processes_give_the_same_bits(count, tmp_path):
    which = [i for i in range(BATCHES) if i % count < 2]
    for found in together(share, count, tmp_path):
        assert found == expected(True, which)


def test_tallies_as_integers_are_the_tallies(tmp_path):
    rng = np.random.default_rng(0)
    metrics = [er.parse(name) for name in ("map", "dcg_exp", "auc")]
    total, vectors = QueryTally(metrics), []
    for i in range(6):
        gains = rng.integers(0, 9, (5 + i, 12)) / 4 * (rng.random((5 + i, 12)) < 0.4)
        weights = rng.uniform(1e-9, 1e9, len(gains)) if i % 2 else None
        rankings = Rankings.from_scores(rng.integers(0, 6, gains.shape), gains, weights=weights)
        tally = rankings.tally(*metrics)
        assert QueryTally.of_integers(metrics, tally.to_integers()) == tally
        total, vectors = total + tally, [*vectors, tally.to_integers()]
    assert QueryTally.of_integers(metrics, np.concatenate(vectors)) == total
    assert QueryTally.of_integers(metrics, np.concatenate(vectors[::-1])) == total
    assert QueryTally.of_integers(metrics, np.zeros(0, np.int64)) == QueryTally(metrics)
