"""Metrics as torchmetrics has them, in one process or several."""

import pickle
from importlib.resources import files

import numpy as np
import pytest
from processes import together

import evenrank as er
from evenrank import integrations

# warnings of the libraries are ignored
pytestmark = pytest.mark.filterwarnings("ignore:::(torch|torchmetrics)")


def library(name):
    """Import a library of an extra, or skip the test."""
    return pytest.importorskip(name, reason=f"{name} is not installed (make peers installs it)")


@pytest.fixture(scope="module")
def ranks():
    model = er.models.load(files("evenrank") / "models/bundled/nations-complex.safetensors")
    return er.rank(model, er.load("nations").task("test"), progress=False)


METRICS = ("mrr", "index(mrr)", "z(hits@3)", "gmr", "1/median", "ndcg")
BATCHES = 12


def batch(i, device="cpu"):
    """Scores with ties, targets, known answers and weights without short binary fractions."""
    import torch

    generator = torch.Generator().manual_seed(i)
    scores = torch.randn(7, 40, generator=generator).round(decimals=1)
    target = torch.randint(0, 40, (7,), generator=generator)
    known = torch.rand(7, 40, generator=generator) < 0.1 * (i % 3)
    weight = torch.rand(7, generator=generator, dtype=torch.float64) + 0.1
    return tuple(part.to(device) for part in (scores, target, known, weight))


def expected(weighted, which=range(BATCHES)):
    """The same from NumPy, all at once."""
    scores, target, known, weight = map(np.concatenate, zip(*map(batch, which), strict=True))
    ranks = er.Ranks.from_scores(scores, target, known, weights=weight if weighted else None)
    return ranks.evaluate(*METRICS).to_dict(plain=True)


def ranking_metric(*metrics, **options):
    library("torchmetrics")
    return integrations.torchmetrics.RankingMetric(*(metrics or METRICS), **options)


def exact(values):
    return {name: value.item() for name, value in values.items()}


@pytest.mark.parametrize("weighted", [False, True])
def test_metric_equals_that_of_ranks(weighted):
    metric = ranking_metric()
    for i in reversed(range(BATCHES)):
        metric.update(*batch(i)[: 4 if weighted else 3])
    assert exact(metric.compute()) == expected(weighted)


def test_metric_forwards_merges_copies_and_resets():
    metric, other = ranking_metric(), ranking_metric()
    for i in range(6):
        assert exact(metric(*batch(i))) == expected(True, [i])
    for i in range(6, BATCHES):
        other.update(*batch(i))
    metric.merge_state(other)
    assert exact(metric.compute()) == expected(True)
    assert exact(pickle.loads(pickle.dumps(metric.clone())).compute()) == expected(True)
    assert exact(metric.set_dtype("float").half().compute()) == expected(True)  # weights by their bits
    metric.reset()
    assert metric.tally == er.Tally()


def test_metric_accepts_the_types_that_torch_does():
    """Arrays and lists, half precision, masks as weights, batches without queries."""
    torch = library("torch")
    scores, target, known, _ = batch(1)
    half, given = scores.bfloat16(), np.arange(7) % 3 > 0
    metric = ranking_metric()
    metric.update(half, target.tolist(), known.numpy(), torch.as_tensor(given))
    metric.update(scores[:0].numpy(), [], weights=torch.ones(0, dtype=torch.bfloat16))
    ranks = er.Ranks.from_scores(half.float(), target, known, weights=given.astype(float))
    assert exact(metric.compute()) == ranks.evaluate(*METRICS).to_dict(plain=True)


def test_metric_state_is_saved_in_checkpoints():
    metric, other = ranking_metric(), ranking_metric()
    for i in range(BATCHES):
        metric.update(*batch(i))
    metric.persistent(True)
    other.persistent(True)
    other.load_state_dict(metric.state_dict())
    assert other.tally == metric.tally


def test_metric_accepts_ranks(ranks):
    metric = ranking_metric("index(mrr)", "mr")
    for _, half in ranks.by("side"):
        metric.update(half)
    assert exact(metric.compute()) == ranks.evaluate("index(mrr)", "mr").to_dict(plain=True)
    assert metric.tally == ranks.tally()


def test_a_single_metric_is_a_scalar_with_a_direction():
    metric = ranking_metric("mr", ties="optimistic")
    metric.update(*batch(0)[:2])
    assert metric.compute().ndim == 0
    assert metric.higher_is_better is False
    assert ranking_metric("index(mr)", "amri").higher_is_better is True
    assert ranking_metric().higher_is_better is None


def test_metric_without_names_gives_the_default_table(ranks):
    library("torchmetrics")
    metric = integrations.torchmetrics.RankingMetric()
    metric.update(ranks)
    alone = ranks.evaluate(chance="independent")  # a tally does not know which ranks share scores
    assert exact(metric.compute()) == alone.to_dict(plain=True)
    metric.reset()
    metric.update(er.Ranks.of([1, 1], candidates=1))  # chance leaves no room: undefined, no error
    assert metric.compute()["index_mrr"].isnan()


def test_metric_agrees_with_torchmetrics_where_it_is_right():
    """Of positive scores without ties; a target of score 0 or less is a miss to RetrievalMRR."""
    torch = library("torch")
    metric, theirs = ranking_metric("mrr"), library("torchmetrics").retrieval.RetrievalMRR()
    scores = torch.rand(30, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    target = torch.arange(30)
    metric.update(scores, target)
    theirs.update(
        scores.ravel(),
        torch.nn.functional.one_hot(target, 50).ravel(),
        indexes=torch.arange(30).repeat_interleave(50),
    )
    assert metric.compute().item() == pytest.approx(theirs.compute().item(), rel=1e-6)


def test_metric_goes_into_collections_and_trackers():
    torchmetrics = library("torchmetrics")
    both = torchmetrics.MetricCollection(
        {"a": ranking_metric("mrr"), "b": ranking_metric("mrr", "mr", ties="optimistic")}, prefix="v/"
    )
    tracker = torchmetrics.MetricTracker(ranking_metric("mr"), maximize=None)
    for i in range(3):
        both.update(*batch(i))
        tracker.increment()
        tracker.update(*batch(i)[:3])
    scores, target, known, weight = map(np.concatenate, zip(*map(batch, range(3)), strict=True))
    ranks = er.Ranks.from_scores(scores, target, known, weights=weight)
    kind = ranks.evaluate("mrr", "mr", ties="optimistic").to_dict("v/")
    assert exact(both.compute()) == {"v/a": ranks.evaluate("mrr")["mrr"], **kind}
    worst_first = [ranking_metric("mr") for _ in range(3)]
    for i, metric in enumerate(worst_first):
        metric.update(*batch(i)[:3])
    values = [metric.compute().item() for metric in worst_first]
    assert tracker.best_metric(return_step=True) == (min(values), values.index(min(values)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, t: (s, None), "scores need a target; update"),
        (lambda s, t: (s[0], t), "scores must be a matrix"),
        (lambda s, t: (s, t + 40), "a target is not among the candidates"),
        (lambda s, t: (s, t - 50), "target must be at least 0"),
        (lambda s, t: (s, t[:3]), "columns differ in length; got 7 rows, but 3 in target"),
        (lambda s, t: (s, t, s[:, 1:] > 0), r"known and scores differ in shape; got \(7, 39\)"),
        (lambda s, t: (s.clone().fill_diagonal_(np.nan), t), r"NaN \(query 0\)"),
    ],
)
def test_metric_raises_for_invalid_arguments(change, message):
    library("torch")
    with pytest.raises(er.errors.InputError, match=message):
        ranking_metric().update(*change(*batch(0)[:2]))


def test_metric_raises_for_weights_with_ranks(ranks):
    with pytest.raises(er.errors.InputError, match=r"ranks include targets and weights; update"):
        ranking_metric().update(ranks, weights=np.ones(len(ranks)))


def test_metric_raises_for_unknown_tie_breaking_rules():
    with pytest.raises(er.errors.InputError, match="unknown tie-breaking rule; got 'lucky'"):
        ranking_metric(ties="lucky")


def metric_process():
    """Among 1, 2 and 4 processes of one world, share the batches; the last of four gets none."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world, found = dist.get_rank(), dist.get_world_size(), {}
    for size in (1, 2, world):
        group = dist.new_group(range(size))
        if rank < size:
            metric = ranking_metric(process_group=group)
            share = range(rank, BATCHES, size) if size < world else np.array_split(range(BATCHES), 3)
            for i in share if size < world else share[rank] if rank < 3 else ():
                metric.update(*batch(int(i)))
            own = metric.tally
            found[size] = {name: value.hex() for name, value in exact(metric.compute()).items()}
            assert metric.tally == own  # what others counted is given back
    dist.destroy_process_group()
    return found


def test_one_two_and_four_processes_give_the_same_bits(tmp_path):
    library("torchmetrics")
    bits = {name: value.hex() for name, value in expected(True).items()}
    first, second, third, last = together(metric_process, 4, tmp_path)
    assert first == {"1": bits, "2": bits, "4": bits}
    assert second == {"2": bits, "4": bits}
    assert third == last == {"4": bits}
