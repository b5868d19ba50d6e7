"""Published values of Hoyt et al. (2022): which agree, to how many digits, and why others do not.

Four models on four data sets (Hoyt et al. 2022). Raw metrics, AMR, AMRI and adjusted hits are right and
agree. AMRR, the adjusted GMR and every z column have errors, which are reproduced here, so that
published and exact values are compared. Tests are skipped if their file is missing: none of the
paper's files is part of the repository.
"""

import pickle
import zipfile
from collections import OrderedDict
from functools import cache
from io import BytesIO

import numpy as np
import polars as pl
import pytest
import shared

import evenrank as er
from evenrank.metrics.adjusted import index, ratio, z
from evenrank.metrics.metric import Transform

DATASETS = ("nations", "kinships", "fb15k237", "wn18rr")
MODELS = ("complex", "rotate", "transe", "tucker")
SIDES = ("head", "tail", "both")
RULES = ("optimistic", "realistic", "pessimistic")
SHOWN = ("both", "realistic")  # what the paper's table shows
HITS = tuple(f"hits_at_{k}" for k in (1, 3, 5, 10))
# The publishers summed ranks and candidate counts in single precision: two units in the last place.
SINGLE = 2.0**-22


@cache
def sizes(dataset, side="both"):
    if side == "both":
        return np.concatenate([sizes(dataset, "head"), sizes(dataset, "tail")])
    return shared.graph(dataset).candidates(side)


@cache
def null_distribution(metric, dataset, side="both", *, missing=0):
    """Return the null distribution of a metric, with `missing` candidates too few in every set."""
    return er.chance(metric, sizes(dataset, side) - missing)


def published(dataset):
    """Return the rows of the paper's table, one a model."""
    results = shared.table("paper/case_study_results.tsv")
    rows = results.filter(pl.col("dataset") == dataset).rows(named=True)
    assert {row["model"] for row in rows} == set(MODELS)
    return rows


def by_side(dataset):
    """Return side, tie rule and metrics of every model: 4 models x 3 sides x 3 rules."""
    content = shared.content("paper/case_study_metrics_by_side.json.gz")
    return [
        (model, side, rule, content[f"{dataset}/{model}"]["metrics"][side][rule])
        for model in MODELS
        for side in SIDES
        for rule in RULES
    ]


# Candidate counts ------------------------------------------------------------------------------


def test_test_triples_left_after_dropping_unseen_entities():
    """The protocol: test triples with an entity not seen in training are not ranked."""
    left = {name: (len(shared.graph(name).entities), len(shared.graph(name).test)) for name in DATASETS}
    assert left == {
        "nations": (14, 201),
        "kinships": (104, 1_074),
        "fb15k237": (14_505, 20_438),
        "wn18rr": (40_559, 2_924),
    }


@pytest.mark.parametrize("dataset", DATASETS)
def test_candidate_counts_give_the_published_expected_mean_rank(dataset):
    """MR / AMR is the expected mean rank of a published row; it equals ours for every side and rule.

    To single precision, in which it was summed. Sets that are one too small are told apart: they
    change the mean by 1 in N, which is at least 2.5e-5 here.
    """
    for model, side, rule, metrics in by_side(dataset):
        chance = metrics["arithmetic_mean_rank"] / metrics["adjusted_arithmetic_mean_rank"]
        where = f"{model}, {side}, {rule}"
        assert metrics["count"] == len(sizes(dataset, side)), where
        assert chance == pytest.approx(null_distribution("mr", dataset, side).mean(), rel=SINGLE), where
        assert chance != pytest.approx(
            null_distribution("mr", dataset, side, missing=1).mean(), rel=1e-5
        ), where


@shared.needs("paper/case_study_metrics_by_side.json.gz", "paper/case_study_results.tsv")
def test_stored_expectations_equal_those_of_the_paper(monkeypatch):
    """Expectations for tests without the paper's files."""
    told = {name: (shared.expected_mean_ranks(name), shared.expected_hits(name)) for name in DATASETS}
    monkeypatch.setattr(shared, "PRESENT", False)
    for name, (ranks, hits) in told.items():
        written = {side: (count, mean) for side, count, mean in shared.expected_mean_ranks(name)}
        assert len(ranks) == 4 * 3 * len(written) == 36
        for side, count, mean in ranks:
            assert written[side] == (count, pytest.approx(mean, rel=2 * SINGLE))
        written = dict(shared.expected_hits(name))
        assert len(hits) == 4 * len(written) == 16
        assert all(written[k] == pytest.approx(value, abs=1e-12) for k, value in hits)


# Correct columns ---------------------------------------------------------------

RAW = ("arithmetic_mean_rank", *HITS)
RIGHT = {
    # single precision of the expected mean rank; hits were computed in double precision. An index is a
    # difference from 1, so its digits are counted from there.
    "adjusted_arithmetic_mean_rank": {"rel": SINGLE},
    "adjusted_arithmetic_mean_rank_index": {"abs": SINGLE},
    **{f"adjusted_{name}": {"abs": 1e-12} for name in HITS},
}


@pytest.mark.parametrize("dataset", DATASETS)
def test_adjusting_the_table(dataset):
    """AMR, AMRI and adjusted hits of all 16 rows follow from their raw values and the right sizes.

    evenrank reads PyKEEN's names for all of them.
    """
    for row in published(dataset):
        adjusted = er.adjust({name: row[name] for name in RAW}, sizes(dataset))
        for column, tolerance in RIGHT.items():
            assert adjusted[column] == pytest.approx(row[column], **tolerance), (row["model"], column)


@pytest.mark.parametrize("dataset", DATASETS)
def test_adjusting_every_side_and_tie_breaking_rule(dataset):
    """The same columns follow for head, tail and both, optimistic, realistic and pessimistic."""
    lines = {"adjusted_arithmetic_mean_rank": ratio}  # the others are indices
    for model, side, rule, metrics in by_side(dataset):
        for column, tolerance in RIGHT.items():
            metric = er.parse(column).metric
            raw = metrics[column.removeprefix("adjusted_").removesuffix("_index")]
            ours = lines.get(column, index)(null_distribution(metric, dataset, side))(raw)
            where = f"{model}, {side}, {rule}, {column}"
            assert ours == pytest.approx(metrics[column], **tolerance), where


def test_table_is_both_sides_with_realistic_ties():
    """The table's raw and correctly adjusted columns are those of both sides with realistic ties."""
    for dataset in DATASETS:
        files = {m: metrics for m, side, rule, metrics in by_side(dataset) if (side, rule) == SHOWN}
        for row in published(dataset):
            for name, value in files[row["model"]].items():
                if not name.startswith("z_"):
                    assert row[name] == pytest.approx(value, rel=1e-14), (dataset, name)


# Columns with errors ---------------------------------------------------------------


def continuous(mean_size):
    """The paper's expectation of 1/r: of a continuous rank, at the mean candidate count."""
    return np.log(mean_size) / (mean_size - 1)


@pytest.mark.parametrize("dataset", DATASETS)
def test_published_amrr_used_a_continuous_rank(dataset):
    """AMRR is reproduced by an index with ln C/(C-1) at the mean candidate count C, not by the exact.

    For all rows, sides and tie rules, to 1e-7 (C was a single-precision number). The error always
    favours the model, since the subtracted expectation is too small.
    """
    rows = by_side(dataset) + [(row["model"], *SHOWN, row) for row in published(dataset)]
    for model, side, rule, metrics in rows:
        value = metrics["inverse_harmonic_mean_rank"]
        chance = continuous(sizes(dataset, side).mean())
        theirs = metrics["adjusted_inverse_harmonic_mean_rank"]
        where = f"{model}, {side}, {rule}"
        assert (value - chance) / (1 - chance) == pytest.approx(theirs, rel=1e-7), where
        exact = index(null_distribution("mrr", dataset, side))(value)
        assert exact < theirs, where
        assert exact != pytest.approx(theirs, rel=1e-5), where


Z = {
    # raw column: sign of the published z, relative tolerance
    "arithmetic_mean_rank": (1, 1e-11),  # sign not changed: good models have negative values
    "inverse_harmonic_mean_rank": (1, 1e-11),
    **dict.fromkeys(HITS, (1, 1e-11)),
    # sign changed; its variance lost digits in E[M^2] - E[M]^2 (9e-8 of the value on FB15k-237)
    "geometric_mean_rank": (-1, 1e-6),
}


@pytest.mark.parametrize("dataset", DATASETS)
def test_published_z_left_the_target_out_of_its_candidates(dataset):
    """Every z column is reproduced by exact moments with candidate sets that are one too small.

    (x - E)/sigma on N - 1 instead of N, to eleven digits for MR, MRR and hits. The sign of z(GMR) is
    turned round and that of z(MR) is not; ours are all oriented so that larger is better.
    """
    for row in published(dataset):
        for name, (sign, tolerance) in Z.items():
            wrong, right = (null_distribution(er.parse(name), dataset, missing=m) for m in (1, 0))
            theirs = sign * (row[name] - wrong.mean()) / wrong.std()
            assert theirs == pytest.approx(row[f"z_{name}"], rel=tolerance), (row["model"], name)
            ours = z(right)(row[name])
            assert abs(ours) != pytest.approx(abs(theirs), rel=1e-9), (row["model"], name)


@pytest.mark.parametrize("dataset", DATASETS)
def test_published_adjusted_gmr_left_the_target_out_too(dataset):
    """The adjusted GMR is the index of the exact GMR expectation, on candidate sets one too small."""
    for row in published(dataset):
        value, theirs = row["geometric_mean_rank"], row["adjusted_geometric_mean_rank_index"]
        assert index(null_distribution("gmr", dataset, missing=1))(value) == pytest.approx(
            theirs, rel=1e-9
        )
        assert (
            index(null_distribution("gmr", dataset))(value) > theirs
        )  # this error is against the model


def test_published_z_by_side_was_not_standardised():
    """In the file by side, z columns hold the raw value (the mean rank negated), not a z-score."""
    for dataset in DATASETS:
        for _, _, _, metrics in by_side(dataset):
            assert metrics["z_arithmetic_mean_rank"] == -metrics["arithmetic_mean_rank"]
            for name in ("inverse_harmonic_mean_rank", *HITS):
                assert metrics[f"z_{name}"] == metrics[name]


SIDE_BY_SIDE = {
    # model: column: (published, exact); both z(MR) with the paper's sign
    "complex": {
        "adjusted_inverse_harmonic_mean_rank": (0.188, 0.075),
        "z_arithmetic_mean_rank": (1.97, -2.26),
        "z_inverse_harmonic_mean_rank": (-0.71, 3.42),
        "z_hits_at_10": (-0.25, 1.79),
    },
    "transe": {
        "adjusted_inverse_harmonic_mean_rank": (0.149, 0.030),
        "z_arithmetic_mean_rank": (-4.01, -7.61),
        "z_inverse_harmonic_mean_rank": (-2.83, 1.35),
        "z_hits_at_10": (0.96, 2.77),
    },
}


@pytest.mark.parametrize("model", SIDE_BY_SIDE)
def test_published_and_exact_values_on_nations(model):
    """On Nations, the smallest data set, the errors change signs: both models beat chance.

    The paper calls this erratic behaviour on small data sets; exact null distributions do not show it.
    """
    row = next(row for row in published("nations") if row["model"] == model)
    raw = ("arithmetic_mean_rank", "inverse_harmonic_mean_rank", "hits_at_10")
    ours = er.adjust({name: row[name] for name in raw}, sizes("nations"))
    for column, (theirs, exact) in SIDE_BY_SIDE[model].items():
        digits = 3 if column.startswith("adjusted") else 2
        turned = -1 if column == "z_arithmetic_mean_rank" else 1
        assert round(row[column], digits) == theirs, column
        assert round(turned * ours[column], digits) == exact, column
        assert ours[column] > 0, column


# Expectation and variance by candidate count ---------------------------------------------------

SWEPT = {
    ("arithmetic_mean_rank", False): "mr",
    ("arithmetic_mean_rank", True): "imr",
    ("harmonic_mean_rank", False): "hmr",
    ("harmonic_mean_rank", True): "mrr",
    ("geometric_mean_rank", False): "gmr",
    ("geometric_mean_rank", True): "igmr",
    ("hits_at_1", True): "hits@1",
    ("hits_at_10", True): "hits@10",
    ("hits_at_100", True): "hits@100",
}
SAMPLES = 1_000  # Monte Carlo draws behind the sampled numbers


def swept(metric):
    """Return size, null distribution, expectation and variance of each row of a metric."""
    sweep = shared.table("paper/candidate_size_sweep.tsv")
    name, inverted = next(key for key, value in SWEPT.items() if value == metric)
    rows = sweep.filter((pl.col("metric") == name) & (pl.col("inverted") == inverted))
    return [
        (size, er.chance(metric, {size: size}), expectation, variance)
        for size, expectation, variance in rows.select("candidate", "expectation", "variance").rows()
    ]


def test_the_sweep_has_as_many_tasks_as_candidates():
    """Each row of the sweep is N tasks of N candidates: its closed-form Var[MR] is (N^2-1)/12 over N.

    Sizes are 40 steps on a log scale cut to integers, so 1 and 2 occur twice, with samples
    of their own: rows are compared one by one.
    """
    for metric in SWEPT.values():
        assert [row[0] for row in swept(metric)] == np.logspace(0, 6, 40).astype(int).tolist()
    for size, _, _, variance in swept("mr"):
        assert variance == pytest.approx((size**2 - 1) / 12 / size, rel=1e-12)


@pytest.mark.parametrize("metric", ["mr", "mrr", "hits@1", "hits@10", "hits@100"])
def test_sweep_closed_forms(metric):
    """MR, MRR and hits were computed by closed forms; ours agree to 1e-12, up to a million tasks."""
    for size, null, expectation, variance in swept(metric):
        assert null.mean() == pytest.approx(expectation, rel=1e-12), size
        assert null.var() == pytest.approx(variance, rel=1e-12), size


def test_sweep_expected_gmr():
    """E[GMR] was computed by its product; it agrees to 1e-8.

    Rounding is theirs: they take a logarithm of about 1 + ln(N)/N, so a unit in its last place is
    multiplied by N. Up to 10,000 candidates it agrees to 1e-10.
    """
    for size, null, expectation, _ in swept("gmr"):
        assert null.mean() == pytest.approx(expectation, rel=1e-10 if size <= 10_000 else 1e-8), size


def kurtosis(null):
    """Return the fourth standardised moment of a metric M under chance, exactly.

    M^2 and M^3 are members of the family: the square of a power mean of r is one of r^2.
    """
    metric, tasks = null.metric, dict(zip(null.sizes.size, null.sizes.count, strict=True))
    mean, var = float(null.mean()), float(null.var()) / float(null.mean()) ** 2
    square, cube = (
        er.chance(er.Metric(Transform(f"rank^{e}", lambda r, e=e: r**e), metric.p / e, metric.q), tasks)
        for e in (2, 3)
    )
    third = cube.mean() / mean**3 - 1 - 3 * var
    fourth = square.var() / mean**4 - 4 * var - 4 * third + var**2
    return fourth / var**2


def test_kurtosis_agrees_with_enumeration():
    """The reference for sampled variances is exact."""
    for metric in ("imr", "hmr", "gmr", "igmr"):
        ranks = np.stack(np.meshgrid(*[np.arange(1, 5)] * 4), axis=-1).reshape(-1, 4)
        values = np.array([er.Ranks.of(r, candidates=4).evaluate(metric)[metric] for r in ranks])
        direct = ((values - values.mean()) ** 4).mean() / values.var() ** 2
        assert kurtosis(er.chance(metric, {4: 4})) == pytest.approx(direct, rel=1e-9)


def test_sweep_monte_carlo_lies_within_its_noise():
    """E and Var of IMR, HMR and IGMR, and Var of GMR, were sampled; all lie within 5 standard errors.

    Standard errors are exact: sigma/sqrt(m) for a mean of m draws, and from the fourth moment for a
    variance. With m = 1,000 the 266 deviations have root mean square 1, as they should; 500 or 2,000
    draws would give 0.7 or 1.4. With one candidate there is no chance, and no noise either.
    """
    deviations = []
    for metric in ("imr", "hmr", "igmr", "gmr"):
        for size, null, expectation, variance in swept(metric):
            if size == 1:
                assert (expectation, variance) == (null.mean(), null.var()) == (1.0, 0.0)
                continue
            if metric != "gmr":
                deviations.append((expectation - null.mean()) / (null.std() / SAMPLES**0.5))
            spread = ((kurtosis(null) - 1 + 2 / (SAMPLES - 1)) / SAMPLES) ** 0.5
            deviations.append((variance / null.var() - 1) / spread)
    assert len(deviations) == 7 * 38
    assert np.abs(deviations).max() < 5
    assert 0.85 < np.sqrt(np.mean(np.square(deviations))) < 1.15


# From the weights of the models ----------------------------------------------------


class _Stub:
    """Stub for any pickled class; stores its arguments."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state


class _Weights(pickle.Unpickler):
    """Reads the tensors of a PyTorch archive as NumPy arrays, without PyTorch or PyKEEN.

    Only the names below are understood; every other class becomes a stub, so no foreign code runs.
    """

    def __init__(self, archive):
        names = {name.split("/", 1)[1]: name for name in archive.namelist()}
        super().__init__(BytesIO(archive.read(names["data.pkl"])))
        self._storage = lambda key: archive.read(names[f"data/{key}"])

    def find_class(self, module, name):
        return {
            "FloatStorage": np.float32,
            "LongStorage": np.int64,
            "OrderedDict": OrderedDict,
            "set": set,
            "_rebuild_tensor_v2": _tensor,
            "_rebuild_parameter": lambda tensor, *_: tensor,
        }.get(name, type(name, (_Stub,), {}))

    def persistent_load(self, pid):
        _, dtype, key, *_ = pid
        return np.frombuffer(self._storage(key), dtype)


def _tensor(storage, offset, shape, stride, *_):
    strides = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, strides, writeable=False)


def _state(module, prefix=""):
    """Name the arrays of a module as PyTorch's state dictionary does."""
    state = module.state
    found = {
        prefix + name: value
        for part in ("_parameters", "_buffers")
        for name, value in state[part].items()
        if isinstance(value, np.ndarray)
    }
    for name, inner in state["_modules"].items():
        if inner is not None:
            found |= _state(inner, f"{prefix}{name}.")
    return found


def weights(model):
    with zipfile.ZipFile(shared.path(f"paper/models/nations-{model}.pykeen.pkl")) as archive:
        state = _state(_Weights(archive).load())
    for what in ("entity", "relation"):
        state[what] = next(
            v for k, v in state.items() if k.startswith(what) and k.endswith("_embeddings.weight")
        )
    return state


def as_complex(x):
    return x.reshape(len(x), -1, 2) @ np.array([1, 1j], dtype=np.complex64)


def affine(state, layer):
    """Return scales and shifts of a batch normalisation in evaluation mode."""
    state = {name: state[f"{layer}.{name}"].astype(float) for name in _NORM}
    scale = state["weight"] / np.sqrt(state["running_var"] + 1e-5)
    return np.stack([scale, state["bias"] - state["running_mean"] * scale])


_NORM = ("weight", "bias", "running_mean", "running_var")


def read(model):
    """Return a published model of Nations.

    All four were trained with inverse relations: relation r is number 2r, its inverse 2r + 1, and
    heads are the tails of inverse triples.
    """
    state = weights(model)
    entity, relation = state["entity"], state["relation"]
    if model == "transe":
        return er.models.TransE(entity, relation, inverse="interleaved")
    if model == "tucker":
        norms = affine(state, "bn_0"), affine(state, "bn_1")
        return er.models.TuckER(entity, relation, state["core_tensor"], *norms, inverse="interleaved")
    entity, relation = as_complex(entity), as_complex(relation)
    if model == "complex":
        return er.models.ComplEx(entity, relation, inverse="interleaved")
    return er.models.RotatE(entity, relation, p=2, inverse="interleaved")


@cache
def nations_ranks(model):
    """Rank every test triple of Nations on both sides with a model's weights."""
    graph = shared.graph("nations")
    splits = {split: getattr(graph, split) for split in ("train", "valid", "test")}
    task = er.Graph.of(splits, entities=graph.entities, relations=graph.relations).task("test")
    return er.rank(read(model), task, progress=False)


@pytest.mark.parametrize("model", MODELS)
def test_nations_metrics_are_reproduced_from_the_weights(model):
    """Scores, ranks and metrics of the published Nations models equal the published ones.

    Every base metric, AMR, AMRI and adjusted hits, for head, tail and both and for every tie rule, to
    1e-6: PyKEEN kept ranks and their means in single precision.
    """
    ranks = nations_ranks(model)
    parts = {"both": ranks, **{side: part for (side,), part in ranks.by("side")}}
    for name, side, rule, metrics in by_side("nations"):
        if name != model:
            continue
        base = [m for m in metrics if not m.startswith(("adjusted_", "z_"))]
        assert len(base) == 16
        ours = parts[side].evaluate(*base, *RIGHT, ties=rule)
        for metric in (*base, *RIGHT):
            assert ours[metric] == pytest.approx(metrics[metric], rel=1e-6), (side, rule, metric)
        assert np.array_equal(np.sort(parts[side].candidates), np.sort(sizes("nations", side)))


def test_nations_models_never_tie():
    """Published tie rules agree on Nations because its models tie nowhere, and so do our four."""
    for model in MODELS:
        ranks = nations_ranks(model)
        assert ranks.tie_rate == 0
        assert len({ranks.evaluate("gmr", ties=rule)["gmr"] for rule in ("expected", *RULES)}) == 1
