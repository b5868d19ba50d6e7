"""Ranking with torch, and with Triton's kernels (interpreted where there is no GPU): the CPU's bits."""

import gc
import os
import runpy
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import evenrank as er

torch = pytest.importorskip("torch", reason="torch is not installed (make peers installs it)")

from evenrank.ranking.engine import _device, _torch, exact_product  # noqa: E402  # need torch

FORMS = ("dot", "l1", "l2", "modulus")
DEVICES = ["torch:cpu"] + (["cuda", "torch:cuda"] if torch.cuda.is_available() else [])


def columns(ranks):
    return np.stack([ranks.better, ranks.equal, ranks.candidates]).tolist()


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def models(graph, d):
    """Every named model, with rows that tie exactly and nearly."""
    entities, relations = len(graph.entities), len(graph.relations)
    rows = numbers(entities, 2 * d)
    rows[1], rows[5] = rows[2], np.nextafter(rows[7], np.float32(9))
    half, other = rows[:, :d].copy(), numbers(entities, d, seed=1)
    single, double, twice = (numbers(relations, w, seed=2) for w in (d, 2 * d, d))
    both = numbers(2 * relations, d, seed=3)
    return [
        er.models.DistMult(half, single),
        er.models.DistMult(half, both, inverse="stacked"),
        er.models.ComplEx(rows, double),
        er.models.TransE(half, single),
        er.models.TransE(half, both, p=2, inverse="interleaved"),
        er.models.RotatE(rows, single),
        er.models.RotatE(rows, single, p=2),
        er.models.CP(half, other, single),
        er.models.SimplE(half, other, single, twice),
        er.models.TuckER(half, single, numbers(d, d, d, seed=4)),
        er.models.RESCAL(half, numbers(relations, d, d, seed=5)),
    ]


GRAPH = er.load("nations")
TASKS = {
    "filtered": GRAPH.task(),
    "raw": GRAPH.task(filter=None),
    "sampled": GRAPH.task(candidates=5),
    "typed": GRAPH.task(candidates="typed", outside="add"),
    "relations": GRAPH.task(sides="relation", filter=None),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [1, 7, 33])
def test_devices_have_the_bits_of_the_cpu(device, d):
    for model in models(GRAPH, d):
        for name, task in TASKS.items():
            want, got = er.rank(model, task), er.rank(model, task, device=device)
            assert columns(got) == columns(want), (model.name, name)
            assert got.keys["head"].tolist() == want.keys["head"].tolist()
            assert got.work.kernels.startswith(("torch", "triton")) or name == "relations"


def hostile(form, scale, offset=0.0):
    """A model and a task with overflow, underflow, mixed scales, near ties and cancellation."""
    rng = np.random.default_rng(1)
    table = (rng.standard_normal((40, 6)) + offset) * scale
    table[::5] *= 1e-8 if not offset else 1 + 1e-8
    table[3] = table[4]
    kind = np.float64 if abs(np.log10(scale)) > 37 else np.float32
    others = rng.standard_normal((5, 6)) + offset
    vectors = np.concatenate(
        [table[:5] * (1 + 1e-12), others * (scale if offset else 1 / max(scale, 1e-100))]
    )
    model = er.Factored(form, table.astype(kind), lambda queries: vectors[queries[:, 0]])
    return model, er.Task.of(np.repeat(np.arange(10), 4), rng.integers(0, 40, 40), size=40)


SCALES = [(1.0, 0), (1e-30, 0), (1e30, 0), (1e-42, 0), (1e-150, 0), (1e150, 0), (1.0, 1e5), (1e12, 1e6)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("scale", "offset"), SCALES)
def test_hostile_scales(device, form, scale, offset):
    """What float32 cannot decide, float64 does."""
    model, task = hostile(form, scale, offset)
    assert columns(er.rank(model, task, device=device)) == columns(er.rank(model, task, device="cpu"))


@pytest.mark.parametrize("device", DEVICES)
def test_tables_stream_through_small_devices(device, monkeypatch):
    """A table that does not fit comes block by block; half precision stays half until it is there."""
    monkeypatch.setattr(_device.Device, "free", lambda self: 200_000)
    table = numbers(5_000, 16).astype(np.float16)
    model = er.Factored("dot", table, lambda queries: table[queries[:, 0]].astype(np.float64))
    source = _device.Source("dot", table, _device.Device(device))
    assert source.resident is None
    assert len(list(source.blocks(source.starts(1)))) > 10
    task = er.Task.of(np.arange(300) % 90, np.arange(300) * 13, size=5_000, known=([[0], [1]], [17, 18]))
    assert columns(er.rank(model, task, device=device)) == columns(er.rank(model, task, device="cpu"))


def test_models_of_tensors_are_not_copied():
    """Parameters of a module are used where they are."""
    weight = torch.nn.Embedding(14, 8).weight
    model = er.models.DistMult(weight, torch.nn.Embedding(55, 8).weight)
    assert np.shares_memory(model.entity, weight.detach().numpy())
    assert er.rank(model, TASKS["filtered"]).work.kernels != "torch, cpu"
    assert columns(er.rank(model, TASKS["filtered"], device="torch:cpu")) == columns(
        er.rank(model, TASKS["filtered"])
    )
    half = er.models.DistMult(weight.half(), torch.ones(55, 8, dtype=torch.bfloat16))
    assert columns(er.rank(half, TASKS["raw"], device="torch:cpu")) == columns(
        er.rank(half, TASKS["raw"])
    )


@pytest.mark.parametrize("device", ["cpu", *DEVICES])
def test_parameters_trained_in_place_are_read_again(device):
    """What a model works out once (rotations, products) does not outlive the parameters."""
    task = TASKS["raw"]
    for model in models(GRAPH, 5):
        there = model if device.endswith("cpu") else model.on(torch.device("cuda", 0))
        er.rank(there, task, device=device)
        for array in (there.relation, getattr(there, "core", there.relation)):
            array[:] = -array if model.name != "RotatE" else array + 1
        assert columns(er.rank(there, task, device=device)) == columns(er.rank(there.on(None), task))


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU to record launches of")


@needs_gpu
def test_recorded_launches_have_the_bits_of_the_cpu():
    """From the third time on, launches are played back, with what the parameters hold by then."""
    from evenrank.ranking.engine._record import _recordings

    task = GRAPH.task()
    for model in models(GRAPH, 33):
        there = model.on(torch.device("cuda", 0))
        for turn in range(5):
            there.relation[:] = -there.relation if model.name != "RotatE" else there.relation + 1
            want = columns(er.rank(there.on(None), task))
            assert columns(er.rank(there, task)) == want, (model.name, turn)
        kept = _recordings.get(task.parts[0])
        assert bool(kept and kept.graphs and kept.key[2][0][1][0] is type(model)) == model.DIRECT
    there = er.models.DistMult(*(torch.as_tensor(numbers(n, 8), device="cuda") for n in (14, 55)))
    for exact in (True, False):
        for value in (0.0, 1.0, torch.nan, 2.0):
            there.entity[3] = value
            for _ in range(3):
                if value == value:
                    want = columns(er.rank(there.on(None), task))
                    assert columns(er.rank(there, task, exact=exact)) == want or not exact
                else:
                    with pytest.raises(er.errors.InputError, match="scores contain NaN"):
                        er.rank(there, task, exact=exact)


@needs_gpu
def test_recordings_are_not_shared_by_threads(monkeypatch):
    rows = numbers(500, 16)
    triples = np.stack([np.arange(3000) % 90, np.zeros(3000, int), np.arange(3000) % 500], axis=1)
    task = er.Graph.of({"train": triples}, entities=500).task("train")
    several = [
        er.models.TransE(torch.as_tensor(rows * s, device="cuda"), torch.ones(1, 16, device="cuda"))
        for s in (1, -1)
    ]
    want = [columns(er.rank(model.on(None), task)) for model in several]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda i: columns(er.rank(several[i // 8 % 2], task)), range(64)))
    assert got == [want[i // 8 % 2] for i in range(64)]
    # undecided pairs that do not fit their list are counted again, not recorded
    monkeypatch.setattr(_device, "ROOM", 256)
    flat = er.models.DistMult(torch.ones(500, 4, device="cuda"), torch.ones(1, 4, device="cuda"))
    for _ in range(4):
        assert columns(er.rank(flat, task)) == columns(er.rank(flat.on(None), task))


@needs_gpu
def test_recordings_are_freed_with_their_task():
    task = GRAPH.task()
    model = models(GRAPH, 8)[0].on(torch.device("cuda", 0))
    for _ in range(3):
        er.rank(model, task)
    gone = weakref.ref(task.parts[0])
    del task
    gc.collect()
    assert gone() is None


def test_an_index_is_built_once():
    task = GRAPH.task("valid")
    model = models(GRAPH, 3)[0]
    er.rank(model, task, device="torch:cpu")
    first = _device.indexed(task.parts[0], torch.device("cpu"), 0, len(task.parts[0].queries))
    er.rank(model, task, device="torch:cpu")
    assert _device.indexed(task.parts[0], torch.device("cpu"), 0, len(task.parts[0].queries)) is first


@pytest.mark.parametrize("device", DEVICES)
def test_bad_scores_and_devices(device):
    broken = er.models.DistMult(np.full((14, 2), np.nan), np.ones((55, 2)))
    with pytest.raises(er.errors.InputError, match=r"scores contain NaN \(query .*, candidate"):
        er.rank(broken, TASKS["filtered"], device=device)
    bad = er.Factored("dot", np.ones((14, 2)), lambda queries: np.ones((len(queries), 3)))
    with pytest.raises(er.errors.InputError, match="query vectors have the wrong shape"):
        er.rank(bad, TASKS["filtered"], device=device)
    with pytest.raises(er.errors.InputError, match="this device cannot be used; got 'nowhere'"):
        er.rank(models(GRAPH, 2)[0], TASKS["filtered"], device="nowhere")
    with pytest.raises(er.errors.InputError, match=r"got 'torch:meta' \(it holds no numbers\)"):
        er.rank(models(GRAPH, 2)[0], TASKS["filtered"], device="torch:meta")
    if not torch.backends.mps.is_available():
        with pytest.raises(er.errors.InputError, match=r"got 'torch:mps' \([^;]{1,99}\); allowed: cpu"):
            er.rank(models(GRAPH, 2)[0], TASKS["filtered"], device="torch:mps")
    assert len(er.rank(models(GRAPH, 2)[0], TASKS["raw"], device="auto")) == 402


@pytest.mark.parametrize("bad", [torch.ones(14, 2).to_sparse(), torch.ones(14, 2, device="meta")])
def test_tensors_without_all_of_their_numbers(bad):
    with pytest.raises(er.errors.InputError, match=r"^entity must be a dense tensor with values; got"):
        er.models.DistMult(bad, np.ones((55, 2)))
    with pytest.raises(er.errors.InputError, match=r"^scores must be a dense tensor with values; got"):
        er.rank(lambda queries, candidates: bad, TASKS["raw"])


def test_modules_that_do_not_take_triples_are_refused():
    """A module can be called, but forward may take something else than triples."""
    message = (
        r"^the parameters of the model do not tell how to call it; got Embedding\.forward\(input\); "
        r"allowed: \(h, r, t\), or \(queries, candidates\); .*TripleScorer\(.*QueryScorer\("
    )
    with pytest.raises(er.errors.InputError, match=message):
        er.rank(torch.nn.Embedding(14, 4), TASKS["raw"])


@pytest.mark.parametrize("device", DEVICES)
def test_running_out_of_memory(device, monkeypatch):
    """Smaller batches, then an error with advice."""
    model, task, most = models(GRAPH, 3)[0], TASKS["filtered"], 50
    want, allocate, tried = columns(er.rank(model, task)), _torch.Count._allocate, []

    def limited(count, targets):
        tried.append(count.stop - count.start)
        if tried[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")
        allocate(count, targets)

    monkeypatch.setattr(_torch.Count, "_allocate", limited)
    assert columns(er.rank(model, task, device=device)) == want
    assert max(tried) > 50 > min(tried)
    most = 0
    with pytest.raises(
        er.errors.InputError, match=r"out of memory on the device.*got CUDA out of.*rank on the CPU"
    ):
        er.rank(model, task, device=device)


def test_one_bad_score_is_named(monkeypatch):
    table = numbers(14, 3)
    table[9] = np.nan
    model = er.Factored("l1", table, lambda queries: np.zeros((len(queries), 3)))
    task = er.Task.of([[4], [4]], targets=[1, 2], size=14)
    with pytest.raises(er.errors.InputError, match=r"NaN \(query \(4\), candidate 9\)"):
        er.rank(model, task, device="torch:cpu")


# Products -----------------------------------------------------------------------------------------

PLACES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def harsh(rng, *shape):
    """Return numbers of very different sizes, with rows and columns that vanish or are not finite."""
    spread = rng.choice([0, 3, 40, 300])
    with np.errstate(over="ignore"):
        matrix = rng.standard_normal(shape) * 10.0 ** rng.integers(-spread, spread + 1, shape)
        matrix *= 10.0 ** rng.choice([0, 0, -160, -310, 155])
    for value in (0.0, 5e-324, np.inf, -np.inf, np.nan):
        if rng.random() < 0.2:
            matrix[rng.integers(shape[0])] = value
        if rng.random() < 0.2:
            matrix[tuple(map(rng.integers, shape))] = value
    return matrix


def same(got, want):
    return np.array_equal(got.cpu().numpy(), want, equal_nan=True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", [1, 2, 7, 64, 127, 500])
def test_products_have_the_bits_of_the_cpu(place, length):
    rng = np.random.default_rng(length)
    for _ in range(40):
        m, n = rng.integers(1, 40, 2)
        a, b = harsh(rng, m, length), harsh(rng, length, n)
        x, y = (torch.tensor(matrix, device=place) for matrix in (a, b))
        with np.errstate(all="ignore"):
            left, right = exact_product.Slices.of(a, axis=1), exact_product.Slices.of(b, axis=0)
            cut, other = exact_product.Slices.of(x, axis=1), exact_product.Slices.of(y, axis=0)
            assert all(map(same, (*cut.parts, cut.scale), (*left.parts, left.scale)))
            assert all(map(same, (*other.parts, other.scale), (*right.parts, right.scale)))
            want = left @ right
        assert same(cut @ other, want)
        lost = ~np.isfinite(a).all(axis=1)[:, None] | ~np.isfinite(b).all(axis=0)
        assert np.isnan(want[lost]).all()  # which ranking names
        assert not np.isnan(want[~lost]).any()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("block", "cells"), [(64, 1 << 22), (4, 100), (1, 1)])
def test_rows_times_the_matrices_of_their_relations(place, block, cells, monkeypatch):
    """In blocks of any size, for relations with no row, with one, and with many."""
    monkeypatch.setattr(exact_product, "BLOCK", block)
    monkeypatch.setattr(exact_product, "CELLS_THERE", cells)
    rng = np.random.default_rng(block)
    for n, relations, d in ((0, 3, 2), (1, 1, 1), (1, 9, 4), (130, 1, 5), (70, 200, 3), (300, 7, 16)):
        rows, matrices = harsh(rng, max(n, 1), d)[:n], harsh(rng, relations, d, d)
        r = (relations * rng.random(n) ** 3).astype(np.int64)
        tensors = [torch.tensor(values, device=place) for values in (rows, r, matrices)]
        with np.errstate(all="ignore"):
            want = exact_product.by_group(rows, r, matrices.__getitem__, relations)
        assert same(exact_product.by_group(*tensors[:2], tensors[2].__getitem__, relations), want)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["TuckER", "TuckER normalised", "RESCAL"])
def test_query_vectors_have_the_bits_of_the_cpu(place, dtype, kind):
    def table(*shape, seed):
        return numbers(*shape, seed=seed).astype(dtype) * dtype(1.1)

    d, relations, norms = 24, 9, {}
    if kind == "TuckER normalised":
        norms = {"norm_in": table(2, d, seed=1), "norm_out": table(2, d, seed=2)}
    entity = table(50, d, seed=0)
    if kind == "RESCAL":
        model = er.models.RESCAL(entity, table(relations, d, d, seed=3))
    else:
        model = er.models.TuckER(entity, table(relations, 5, seed=3), table(d, 5, d, seed=4), **norms)
    moved = replace(model)
    for name in model.ARRAYS:  # by hand: tensors on the CPU would become NumPy arrays again
        if getattr(model, name) is not None:
            object.__setattr__(moved, name, torch.tensor(getattr(model, name), device=place))
    rng = np.random.default_rng(5)
    e, r = rng.integers(0, 50, 400), rng.integers(0, relations, 400)
    there = [torch.tensor(ids, device=place) for ids in (e, r)]
    assert same(moved._tail(*there), model._tail(e, r))
    assert same(moved._head(*there), model._head(e, r))
    assert same(moved._table("head"), model._table("head"))


def test_ranking_while_training(capsys):
    """The example trains, and ranks the parameters where they are."""
    example = Path(__file__).parents[2] / "examples" / "rank_while_training.py"
    runpy.run_path(str(example))["main"]("nations", 3)
    values = [float(line.split("MRR ")[1][:6]) for line in capsys.readouterr().out.splitlines()]
    assert len(values) == 3
    assert values[-1] > values[0] > 0.3


def check_rounding(model, task, ranks):
    """Ranks of uncertified scores differ from the exact ones by no more than rounding can explain.

    tf32 stores 10 bits after the leading one. Rounding a factor to them is off by at most `2^-11` of it,
    truncating by `2^-10`; products of truncated factors by `2^-9 + 2^-20`, and so, by Cauchy and
    Schwarz, scores by that times `|q| |e|`. Each addition in float32 is off by at most `2^-23` of the
    partial sum. All machines stay within the total.
    """
    begin = 0
    for part in task.parts:
        factored = model.factored(part.side)
        end = begin + len(part.targets)
        better, begin = ranks.better[begin:end], end
        if factored.form != "dot":
            continue
        vectors, table = factored.vectors(part.queries), factored.table.astype(float)
        unit = 2.0**-9 + 2.0**-20 + (vectors.shape[1] + 1) * 2.0**-23
        slack = np.outer(*(np.linalg.norm(rows, axis=1) for rows in (vectors, table))) * unit
        scores = factored.score(part.queries, slice(None))
        for target, query, place in zip(part.targets, part.query_of, part.place, strict=True):
            others = np.ones(part.size, dtype=bool)
            others[part.known[query]] = others[target] = False
            gap = (scores[query] - scores[query, target])[others]
            reach = (slack[query] + slack[query, target])[others]
            assert (gap > reach).sum() <= better[place] <= (gap >= -reach).sum(), model.name


class Rounded:
    """A model whose query vectors and table keep so many bits after the leading one."""

    name = "rounded"

    def __init__(self, model, bits, rounding):
        self.model, self.bits, self.rounding = model, bits, rounding

    def few_bits(self, numbers):
        mantissa, exponent = np.frexp(numbers)
        return np.ldexp(self.rounding(mantissa * 2.0 ** (self.bits + 1)), exponent - self.bits - 1)

    def size(self, side):
        return self.model.size(side)

    def factored(self, side):
        exact = self.model.factored(side)
        table = self.few_bits(exact.table.astype(float))
        return er.Factored(exact.form, table, lambda queries: self.few_bits(exact.vectors(queries)))


@pytest.mark.parametrize(("d", "too_few"), [(5, 4), (64, 1)])
def test_the_bound_of_rounding_holds_for_tf32_and_not_for_fewer_bits(d, too_few):
    """It holds for factors that are rounded or truncated as tf32 does, and not for fewer bits."""
    task = TASKS["filtered"]
    for model in models(GRAPH, d)[:3]:
        check_rounding(model, task, er.rank(model, task))
        for rounding in (np.round, np.trunc):
            check_rounding(model, task, er.rank(Rounded(model, 10, rounding), task))
            with pytest.raises(AssertionError):
                check_rounding(model, task, er.rank(Rounded(model, too_few, rounding), task))


@pytest.mark.parametrize(
    "change", [np.flip, lambda better: np.roll(better, 1), lambda better: better + 1]
)
def test_the_bound_of_rounding_can_fail(change):
    for model in models(GRAPH, 5)[:3]:
        ranks = er.rank(model, TASKS["filtered"])
        with pytest.raises(AssertionError):
            check_rounding(model, TASKS["filtered"], SimpleNamespace(better=change(ranks.better)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU to multiply in tf32")
@pytest.mark.parametrize("d", [5, 64, 200])
def test_uncertified_ranks_of_a_gpu_differ_by_rounding(d):
    task = TASKS["filtered"]
    for model in (m for m in models(GRAPH, d) if m.factored("tail").form == "dot"):
        ranks = er.rank(model, task, device="cuda", exact=False)
        assert ranks.protocol.scores == "float32"
        check_rounding(model, task, ranks)


HERE = os.path.dirname(__file__)
INTERPRETED = """
import numpy as np
import torch
import evenrank as er
from triton.runtime import interpreter
from evenrank.ranking import _rank
from evenrank.ranking.engine import _device, _triton
from evenrank.ranking.engine.vectors import RULES, combined
from test_device import GRAPH, SCALES, TASKS, check_rounding, columns, hostile, models

np.seterr(all="ignore")  # the interpreter computes with NumPy, and overflow is part of the plan

def dot(self, a, b, acc, *_):
    # term by term: tensor cores give a score the same bits wherever it stands in a tile, and the kernels
    # rely on that; NumPy's matrix product does so on some processors only
    total = acc.data.copy()
    for left, right in zip(a.data.T, b.data, strict=True):
        total += np.multiply.outer(left, right)
    return interpreter.TensorHandle(total, acc.dtype.scalar)

interpreter.InterpreterBuilder.create_dot = dot
small = {"ROWS": 32, "COLUMNS": 32}
for tile in _triton.TILES.values():
    tile.update(small, DEPTH=min(tile["DEPTH"], 16))
_device.TARGETS = 2
interpreted = _device.Device("cpu")
assert interpreted.kernels is _triton
chosen = _rank._where
_rank._where = lambda device, scorer: device if device is interpreted else chosen(device, scorer)

def both(model, task):
    return columns(er.rank(model, task, device=interpreted)), columns(er.rank(model, task))

task = TASKS["filtered"]
for model in models(GRAPH, 5)[1:7]:
    got, want = both(model, task)
    assert got == want, model.name
    plain = er.rank(model, task, device=interpreted, exact=False)
    check_rounding(model, task, plain)
    if plain.protocol.scores != "float32":  # distances
        assert columns(plain) == want, model.name
got, want = both(models(GRAPH, 3)[0], TASKS["typed"])
assert got == want, "typed"
table = np.array([[1e-30], [2e-30], [3e37]], np.float32)
huge = er.Factored("dot", table, lambda queries: np.full((len(queries), 1), 1e40))
got, want = both(huge, er.Task.of([[0], [0], [0]], targets=[0, 1, 2], size=3))
assert got == want, "huge"
for form in ("dot", "l2"):
    for case in SCALES:
        got, want = both(*hostile(form, *case))
        assert got == want, (form, case)
_device.ROOM = 2 * _triton.SHARDS
tied = er.Factored("l1", np.ones((70, 3), np.float32), lambda queries: np.zeros((len(queries), 3)))
got, want = both(tied, er.Task.of([[0], [0], [1], [2]], targets=[0, 1, 2, 69], size=70))
assert got == want, "tied"  # more is undecided than fits: halves, then query by query
for i, rule in enumerate(RULES):
    left, right = np.random.default_rng(i).standard_normal((2, 9, 6))
    one, other = np.array([3, 0, 8, 8]), np.array([1, 1, 0, 5])
    given = [torch.as_tensor(x) for x in (left.astype(np.float32), one, right, other)]
    want = combined(rule, left.astype(np.float32), one, right, other)
    assert (_triton.combined(rule, *given).numpy() == want).all(), rule
print("same bits")
"""


@pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed (make peers installs it)"
)
def test_triton_kernels_interpreted():
    """The kernels themselves, run by Triton's interpreter on the CPU."""
    run = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        env={
            **os.environ,
            "TRITON_INTERPRET": "1",
            "PYTHONPATH": os.pathsep.join(
                [HERE, str(Path(HERE).parent / "support"), os.environ.get("PYTHONPATH", "")]
            ),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.stdout.strip() == "same bits", run.stderr[-2000:]
