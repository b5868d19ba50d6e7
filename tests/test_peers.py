"""Comparison with PyKEEN: equal names and values, and a test for every intended difference."""

import re
import warnings

import numpy as np
import pytest

import evenrank as er
from evenrank.metrics.adjusted import Adjusted, Affine
from evenrank.metrics.chance import read_sizes

with warnings.catch_warnings():
    # importing PyKEEN and its dependencies emits warnings
    warnings.simplefilter("ignore")
    _reason = "PyKEEN is not installed (extra: peers)"
    ranking = pytest.importorskip("pykeen.metrics.ranking", reason=_reason)
    torch = pytest.importorskip("torch", reason=_reason)
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.evaluation.evaluator import get_candidate_set_size
    from pykeen.evaluation.ranks import RankBuilder
    from pykeen.evaluation.ranks import Ranks as PykeenRanks

pytestmark = pytest.mark.filterwarnings("ignore:::(pykeen|torch|class_resolver|docdata)")

COUNTERPARTS = {
    "AdjustedArithmeticMeanRank": "ratio(mr)",
    "AdjustedArithmeticMeanRankIndex": "index(mr)",
    "AdjustedGeometricMeanRankIndex": "index(gmr)",
    "AdjustedHitsAtK": "index(hits@{k})",
    "AdjustedInverseHarmonicMeanRank": "index(mrr)",
    "ArithmeticMeanRank": "mr",
    "Count": "count",
    "GeometricMeanRank": "gmr",
    "HarmonicMeanRank": "hmr",
    "HitsAtK": "hits@{k}",
    "InverseArithmeticMeanRank": "imr",
    "InverseGeometricMeanRank": "igmr",
    "InverseHarmonicMeanRank": "mrr",
    "InverseMedianRank": "1/median",
    "MedianAbsoluteDeviation": "mad",
    "MedianRank": "median",
    "StandardDeviation": "std",
    "Variance": "var",
    "ZArithmeticMeanRank": "z(mr)",
    "ZGeometricMeanRank": "z(gmr)",
    "ZHitsAtK": "z(hits@{k})",
    "ZInverseHarmonicMeanRank": "z(mrr)",
}

# the resolver iterates over a set; sorted, the tests have the same order in every run
CLASSES = sorted(ranking.rank_based_metric_resolver, key=lambda cls: cls.__name__)
PAIRS = [
    pytest.param(cls(k=k) if takes_k else cls(), name.format(k=k), id=name.format(k=k))
    for cls in CLASSES
    for name in [COUNTERPARTS.get(cls.__name__, f"no counterpart of {cls.__name__}")]
    for takes_k in [issubclass(cls, ranking.HITS_METRICS)]
    for k in ((1, 3, 10) if takes_k else (0,))
]
SHAPES = [(seed, n) for seed in range(3) for n in (1, 5, 501, 10_001)]


def example(seed, n, largest=2_000):
    """Ranks without ties on mixed sizes, and weights.

    The ranks are better than chance, so that indices are not near 0; one number of candidates is large,
    so that hits@10 is not certain.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, largest, n)
    sizes[0] = largest
    return 1 + (sizes * rng.random(n) ** 3).astype(int), sizes, rng.uniform(0.1, 5.0, n)


def close(metric, value):
    # PyKEEN subtracts two nearly equal products for the variance of GMR, see
    # test_gmr_variance_cancels_in_pykeen; all else must agree to 1e-9
    uses_gmr_variance = isinstance(metric, ranking.ZGeometricMeanRank)
    return pytest.approx(value, rel=1e-4 if uses_gmr_variance else 1e-9, abs=0)


# The same names -------------------------------------------------------------------------------------


def test_every_pykeen_metric_has_a_counterpart():
    assert {cls.__name__ for cls in CLASSES} == set(COUNTERPARTS)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_pykeen_name_is_parsed(cls):
    metric = cls()
    resolver = ranking.rank_based_metric_resolver
    folded = [name for name, known in resolver.synonyms.items() if known is cls]
    names = {cls.__name__, metric.key, *cls.synonyms, resolver.normalize_cls(cls), *folded}
    # the names PyKEEN shows ("Median Rank", "Mean Rank (MR)"), as far as it reads them itself
    if resolver.normalize(cls.name) in resolver.lookup_dict:
        names.add(cls.name)
    if issubclass(cls, ranking.HITS_METRICS):
        # hits@k and hits_at_ stand for a family; the k takes the place of the letter, or the end
        names = {re.sub("([kK]|10)?$", "10", name, count=1) for name in names}
    expected = COUNTERPARTS[cls.__name__].format(k=10)
    assert {name: str(er.parse(name)) for name in names} == dict.fromkeys(names, expected)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_direction_agrees(cls):
    """Spread and count have no direction in evenrank: a small spread may be that of bad ranks."""
    ours = er.parse(COUNTERPARTS[cls.__name__].format(k=10))
    if ours.increasing is None:
        assert str(ours) in ("std", "var", "mad", "count")
        assert cls.increasing == (str(ours) == "count")
    else:
        assert ours.increasing == cls.increasing


# The same numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "name"), PAIRS)
@pytest.mark.parametrize(("seed", "n"), SHAPES)
def test_values_agree(metric, name, seed, n):
    ranks, sizes, _ = example(seed, n)
    ours = er.Ranks.of(ranks, sizes).evaluate(name)[name]
    assert ours == close(metric, metric(ranks, num_candidates=sizes))


@pytest.mark.parametrize(
    ("metric", "name"), [p for p in PAIRS if p.values[0].supports_weights and p.id != "mad"]
)
@pytest.mark.parametrize(("seed", "n"), [(0, 5), (1, 501), (2, 501)])
def test_weighted_values_agree(metric, name, seed, n):
    """Metrics that PyKEEN weights; std, var and mad are tested below.

    The ranks are floats for its sake, see test_integer_ranks_of_a_weighted_inverse_median.
    """
    ranks, sizes, weights = example(seed, n)
    ours = er.Ranks.of(ranks, sizes, weights=weights).evaluate(name)[name]
    theirs = metric(ranks.astype(float), num_candidates=sizes, weights=weights)
    assert ours == close(metric, theirs)


@pytest.mark.parametrize(("metric", "name"), [p for p in PAIRS if p.values[0].closed_expectation])
@pytest.mark.parametrize(
    ("seed", "n", "weighted"),
    [(0, 5, False), (1, 501, False), (2, 10_001, False), (3, 5, True), (4, 501, True)],
)
def test_closed_moments_agree(metric, name, seed, n, weighted):
    _, sizes, weights = example(seed, n)
    weights = weights if weighted else None
    ours = er.parse(name)
    base = ours.metric if isinstance(ours, Adjusted) else ours
    null = er.chance(base, sizes, weights=weights)
    line = ours.map(null) if isinstance(ours, Adjusted) else Affine(1.0)
    mean, variance = line(null.mean()), line.scale**2 * null.var()
    rel = 1e-4 if str(base) == "gmr" else 1e-9
    assert mean == pytest.approx(metric.expected_value(sizes, weights=weights), rel=1e-9, abs=1e-9)
    assert variance == pytest.approx(metric.variance(sizes, weights=weights), rel=rel)


@pytest.mark.parametrize("k", [100, 128, 129, 255, 256, 257, 512, 1_000, 1_024, 4_100, 8_190, 16_390])
def test_hits_moments_agree_for_every_k(k):
    """[r <= k] is a step: summed over many ranks at a time, it must not be stepped over."""
    metric = ranking.HitsAtK(k=k)
    for sizes in (np.array([20_000]), np.array([5, 300, 20_000, 1_000_000])):
        null = er.chance(f"hits@{k}", sizes)
        assert null.mean() == pytest.approx(metric.expected_value(sizes), rel=1e-9)
        assert null.var() == pytest.approx(metric.variance(sizes), rel=1e-9)
    # under ties the same sum runs over the ranks a tie allows
    tied = er.Ranks([0], [19_999], [20_000]).evaluate(f"hits@{k}")[f"hits@{k}"]
    assert tied == pytest.approx(k / 20_000, rel=1e-9)


@pytest.mark.parametrize("name", ["hmr", "imr", "igmr", "median", "1/median"])
def test_sampled_moments_agree(name):
    """PyKEEN can only sample these under random ranking; ours must lie within the sampling error."""
    metric = next(p.values[0] for p in PAIRS if p.id == name)
    _, sizes, _ = example(0, 51, largest=300)
    sample = metric.get_sampled_values(sizes, 4_000, generator=np.random.default_rng(1))
    null = er.chance(name, sizes)
    assert abs(sample.mean() - null.mean()) < 5 * null.std() / sample.size**0.5
    error = np.std((sample - sample.mean()) ** 2) / sample.size**0.5
    assert abs(sample.var(ddof=1) - null.var()) < 5 * error
    with pytest.raises(ranking.NoClosedFormError):
        metric.expected_value(sizes)


def test_z_of_decreasing_metrics_has_the_same_sign():
    """Both negate z if small values are good, so that positive is better than chance."""
    sizes, good = np.full(9, 100), np.full(9, 3)
    for metric in (ranking.ZArithmeticMeanRank(), ranking.ZGeometricMeanRank()):
        theirs = metric(good, num_candidates=sizes)
        assert theirs > 0
        assert er.Ranks.of(good, sizes).evaluate(metric.key)[metric.key] == close(metric, theirs)


# Where the numbers differ ---------------------------------------------------------------------------


def test_gmr_variance_cancels_in_pykeen():
    """PyKEEN subtracts `prod E[x]^2` from `prod E[x^2]`; we keep the difference from the start.

    The two products agree in more and more digits as tasks are added. On a few tasks every outcome
    can be listed; for many tasks of one size the products are powers, computed here with 60 digits.
    """
    mpmath = pytest.importorskip("mpmath", reason="the reference needs mpmath")
    few = [2, 3, 5, 7, 11, 13]
    exact, listed = er.chance("gmr", few), er.chance("gmr", few, method="enumerate")
    assert exact.var() == pytest.approx(listed.var(), rel=1e-12)
    assert exact.mean() == pytest.approx(listed.mean(), rel=1e-12)

    n, size = 40_932, 2_000
    with mpmath.workdps(60):
        logs = [mpmath.log(rank) for rank in range(1, size + 1)]
        first, second = (mpmath.fsum(mpmath.exp(log * e / n) for log in logs) / size for e in (1, 2))
        reference = float(second**n - first ** (2 * n))
    assert er.chance("gmr", {size: n}).var() == pytest.approx(reference, rel=1e-11)
    theirs = ranking.GeometricMeanRank().variance(np.full(n, size))
    assert 1e-8 < abs(theirs / reference - 1) < 1e-4


def test_even_median():
    """Of an even number of equal ranks both average the middle two, as NumPy does.

    Under weights PyKEEN averages only if a running sum of floats hits one half exactly, so even equal
    weights decide by rounding; we treat equal weights as none.
    """
    median, weights = ranking.MedianRank(), np.full(6, 0.1)
    ranks = np.array([1, 2, 3, 4, 5, 6])
    assert median(ranks) == er.Ranks.of(ranks, 9).evaluate("median")["median"] == 3.5
    assert er.Ranks.of(ranks, 9, weights=weights).evaluate("median")["median"] == 3.5
    assert median(ranks, weights=weights) == 3


def test_even_median_under_chance():
    """The mean of the two middle order statistics has its own distribution, not that of either."""
    sizes = [3, 4, 5, 6]
    exact, listed = er.chance("median", sizes), er.chance("median", sizes, method="enumerate")
    assert exact.mean() == pytest.approx(listed.mean(), rel=1e-12)
    assert exact.var() == pytest.approx(listed.var(), rel=1e-12)


def test_weighted_mad():
    """Without weights both scale the MAD to estimate sigma; under weights PyKEEN leaves that out."""
    ranks, sizes, weights = example(0, 501)
    metric = ranking.MedianAbsoluteDeviation()
    ours = er.Ranks.of(ranks, sizes, weights=weights).evaluate("mad")["mad"]
    assert ours == pytest.approx(metric(ranks, weights=weights) / 0.6744897501960817, rel=1e-9)


@pytest.mark.parametrize(("metric", "name"), [p for p in PAIRS if p.id in ("std", "var")])
def test_weighted_spread(metric, name):
    """PyKEEN ignores weights here; for us they weigh every statistic but the count."""
    ranks, sizes, _ = example(0, 51)
    weights = np.random.default_rng(2).integers(1, 5, 51)
    repeated = np.repeat(ranks, weights)
    ours = er.Ranks.of(ranks, sizes, weights=weights.astype(float)).evaluate(name)[name]
    assert ours == pytest.approx(metric(repeated), rel=1e-12)
    assert metric(ranks, weights=weights) == metric(ranks) != pytest.approx(ours, rel=1e-3)


def test_integer_ranks_of_a_weighted_inverse_median():
    """PyKEEN takes the reciprocal in the ranks' own type: of integers it is 0."""
    ranks, weights = np.array([2, 3, 4]), np.array([1.0, 2.0, 1.0])
    assert ranking.InverseMedianRank()(ranks, weights=weights) == 0
    assert er.Ranks.of(ranks, 9, weights=weights).evaluate("1/median")["1/median"] == 1 / 3


def test_certain_outcomes():
    """With at most k candidates every hit is certain: PyKEEN returns 0; evenrank raises.

    The number does not exist, and 0 reads as a model that is no better than chance.
    """
    ranks, sizes = np.array([1, 5, 9]), np.full(3, 10)
    for metric, name in ((ranking.AdjustedHitsAtK(k=10), "ah@10"), (ranking.ZHitsAtK(k=10), "zh@10")):
        assert metric(ranks, num_candidates=sizes) == 0
        with pytest.raises(er.errors.DegenerateError):
            er.Ranks.of(ranks, sizes).evaluate(name)


def test_adjusted_hits_keep_their_k():
    """PyKEEN stores adjusted hits at every k under one key, so only one of 1, 3, 5 and 10 is left."""
    metrics = RankBasedEvaluator().metrics
    for cls, prefix in ((ranking.AdjustedHitsAtK, "ah"), (ranking.ZHitsAtK, "zh")):
        made = [m.key for m in metrics if isinstance(m, cls)]
        assert (len(made), len(set(made))) == (4, 1)
        names = [f"{prefix}@{k}" for k in (1, 3, 5, 10)]
        assert len(er.Ranks.of([1, 4], 50).evaluate(*names).to_dict()) == 4


def test_candidates_include_the_target():
    """PyKEEN's helper also removes the target; its evaluator and evenrank keep it.

    Of five entities two are known tails of (0, 0, ?): the ranked one, and one that is filtered out.
    """
    known = torch.tensor([[0, 0, 1], [0, 0, 2]])
    helper = get_candidate_set_size(known[:1], additional_filter_triples=known[1:], num_entities=5)
    assert helper["tail_candidates"].tolist() == [3]
    scores, mask = np.arange(5.0)[None], np.array([[False, True, True, False, False]])
    filtered = torch.as_tensor(np.where(mask, np.nan, scores))
    filtered[0, 1] = scores[0, 1]
    theirs = PykeenRanks.from_scores(filtered[:, 1:2], filtered)
    ours = er.Ranks.from_scores(scores, [1], known=mask)
    assert ours.candidates.tolist() == theirs.number_of_options.tolist() == [4]


def test_published_expectations_leave_the_target_out():
    """The command that publishes PyKEEN's expected metrics takes its sizes from that helper.

    On Nations every count is that of the atlas minus one, and the expected MRR is a seventh too large.
    """
    from pykeen.datasets.cli import expected_metrics

    assert "get_candidate_set_size" in expected_metrics.callback.__code__.co_names
    splits = [torch.as_tensor(triples.copy()) for triples in er.load("nations").splits.values()]
    helper = get_candidate_set_size(splits[-1], additional_filter_triples=splits[:-1])
    theirs = helper[["head_candidates", "tail_candidates"]].to_numpy().ravel()
    assert er.atlas("nations") == read_sizes(theirs + 1)
    expected = ranking.InverseHarmonicMeanRank().expected_value(theirs)
    assert expected / er.chance("mrr", er.atlas("nations")).mean() == pytest.approx(1.144, abs=1e-4)


# Scores ---------------------------------------------------------------------------------------------


def tied_scores(seed, rows=41, entities=60):
    """Scores on a few levels, so that most targets tie, some of them under the filter."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 12, (rows, entities)).astype(np.float32)
    target = rng.integers(0, entities, rows)
    return scores, target, rng.random((rows, entities)) < 0.1


def pykeen_ranks(scores, target, known):
    """Rank as PyKEEN's evaluator does: other known answers become NaN, the target stays."""
    rows = np.arange(len(scores))
    masked = np.where(known, np.nan, scores)
    masked[rows, target] = scores[rows, target]
    true = torch.as_tensor(scores[rows, target])[:, None]
    return PykeenRanks.from_scores(true, torch.as_tensor(masked))


@pytest.mark.parametrize("seed", range(3))
def test_ranks_from_tied_scores_agree(seed):
    scores, target, known = tied_scores(seed)
    ours = er.Ranks.from_scores(scores, target, known)
    theirs = pykeen_ranks(scores, target, known)
    assert ours.tie_rate > 0.8
    assert (ours.better + 1).tolist() == theirs.optimistic.tolist()
    assert (ours.better + ours.equal + 1).tolist() == theirs.pessimistic.tolist()
    assert (ours.better + 1 + ours.equal / 2).tolist() == theirs.realistic.tolist()
    assert ours.candidates.tolist() == theirs.number_of_options.tolist()


def test_rank_builder_agrees():
    """PyKEEN's builder counts in slices; it is fed the other candidates, so its total is one less."""
    scores, target, _ = tied_scores(3)
    rows = np.arange(len(scores))
    others = np.ones(scores.shape, dtype=bool)
    others[rows, target] = False
    builder = RankBuilder(y_true=torch.as_tensor(scores[rows, target]))
    for part in np.array_split(scores[others].reshape(len(scores), -1), 3, axis=1):
        builder = builder.update(torch.as_tensor(part))
    ours, theirs = er.Ranks.from_scores(scores, target), builder.compute()
    assert (ours.better + 1).tolist() == theirs.optimistic.tolist()
    assert (ours.better + ours.equal + 1).tolist() == theirs.pessimistic.tolist()
    assert (ours.better + 1 + ours.equal / 2).tolist() == theirs.realistic.tolist()
    assert ours.candidates.tolist() == (theirs.number_of_options + 1).tolist()


@pytest.mark.parametrize(
    ("metric", "name", "ties"),
    [
        pytest.param(*p.values, ties, id=f"{p.id}-{ties}")
        for p in PAIRS
        for ties in p.values[0].supported_rank_types  # PyKEEN adjusts realistic ranks only
    ],
)
def test_metrics_of_tied_ranks_agree(metric, name, ties):
    scores, target, known = tied_scores(4)
    theirs = pykeen_ranks(scores, target, known)
    ranks = theirs.to_type_dict()[ties].numpy().astype(float)
    ours = er.Ranks.from_scores(scores, target, known).evaluate(name, ties=ties)[name]
    assert ours == close(metric, metric(ranks, num_candidates=theirs.number_of_options.numpy()))


def test_a_constant_model_is_at_chance_level():
    """Our default averages the metric over a tie; PyKEEN takes the metric of the average rank.

    A constant model ranks at random. Only our default has its chance level: 1/r of the middle
    rank is less than the mean of 1/r, and no middle rank is among the first ten.
    """
    scores, target = np.zeros((20, 101), dtype=np.float32), np.arange(20)
    theirs = pykeen_ranks(scores, target, np.zeros(scores.shape, dtype=bool))
    ours = er.Ranks.from_scores(scores, target).evaluate("amri", "amrr", "ah@10")
    assert ours.values_by_group == pytest.approx(np.zeros((1, 3)), abs=1e-12)
    ranks, sizes = theirs.realistic.numpy(), theirs.number_of_options.numpy()
    assert ranking.AdjustedArithmeticMeanRankIndex()(ranks, sizes) == pytest.approx(0, abs=1e-12)
    assert ranking.AdjustedInverseHarmonicMeanRank()(ranks, sizes) < -0.03
    assert ranking.AdjustedHitsAtK(k=10)(ranks, sizes) < -0.1


def test_nan_scores():
    """A NaN compares with nothing: PyKEEN gives rank 1/2 and with it an MRR of 2; evenrank raises."""
    scores = np.full((3, 5), np.nan, dtype=np.float32)
    theirs = pykeen_ranks(scores, np.zeros(3, dtype=int), np.zeros(scores.shape, dtype=bool))
    assert theirs.realistic.tolist() == [0.5] * 3
    assert ranking.InverseHarmonicMeanRank()(theirs.realistic.numpy()) == 2.0
    for bad in (scores, np.array([[0.5, np.nan, 0.1]])):
        with pytest.raises(er.errors.InputError, match="NaN"):
            er.Ranks.from_scores(bad, [0] * len(bad))


def test_infinite_scores():
    """Infinite scores are ordered like others, so their entities stay candidates.

    PyKEEN counts finite scores only: here that leaves rank 3 of 2 candidates, and an index below -1.
    """
    scores, target = np.array([[0.0, np.inf, -np.inf, 1.0]], dtype=np.float32), np.array([0])
    theirs = pykeen_ranks(scores, target, np.zeros(scores.shape, dtype=bool))
    assert (theirs.realistic.tolist(), theirs.number_of_options.tolist()) == ([3.0], [2])
    index = ranking.AdjustedArithmeticMeanRankIndex()
    assert index(theirs.realistic.numpy(), theirs.number_of_options.numpy()) < -1
    ours = er.Ranks.from_scores(scores, target)
    assert (ours.better.tolist(), ours.equal.tolist(), ours.candidates.tolist()) == ([2], [0], [4])
    assert -1 <= ours.evaluate("amri")["amri"] <= 1


@pytest.mark.parametrize(
    ("target", "better", "equal"), [(0, 0, 1), (2, 0, 1), (3, 3, 1), (4, 3, 1), (1, 2, 0)]
)
def test_equal_infinite_scores_tie(target, better, equal):
    scores = np.array([[np.inf, 0.0, np.inf, -np.inf, -np.inf]])
    ours = er.Ranks.from_scores(scores, [target])
    assert (ours.better.tolist(), ours.equal.tolist()) == ([better], [equal])
    assert ours.candidates.tolist() == [5]
