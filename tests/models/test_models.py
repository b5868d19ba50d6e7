"""Models of arrays: formulas against NumPy, products with reproducible bits, files."""

import json
import pickle
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import evenrank as er
from evenrank import models
from evenrank.ranking.engine.exact_product import Slices

ENTITIES, RELATIONS, D = 7, 3, 6
CONVENTIONS = (None, "stacked", "interleaved")
NAMES = (
    "TransE",
    "TransE p=2",
    "RotatE",
    "RotatE p=2",
    "RotatE complex",
    "DistMult",
    "ComplEx",
    "CP",
    "SimplE",
)
NAMES += ("RESCAL", "TuckER", "TuckER normalised")


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def build(name, inverse=None, dtype=np.float64, seed=0):
    """Return a model, and its formula for rows (head, relation, tail) of its tables, in float64."""
    rng = np.random.default_rng(seed)
    rows = RELATIONS * (2 if inverse else 1)

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype).astype(float)

    def model(*arrays, **options):
        held = [a if np.iscomplexobj(a) else a.astype(dtype) for a in arrays]
        return models.NAMED[name.split()[0]](*held, inverse=inverse, **options)

    e, w = normal(ENTITIES, D), normal(rows, D)
    z, v = e[:, :3] + 1j * e[:, 3:], w[:, :3] + 1j * w[:, 3:]  # real parts, then imaginary parts
    a, b, back = normal(ENTITIES, D), normal(ENTITIES, D), normal(rows, D)
    turn, matrix = np.exp(1j * w[:, :3]), normal(rows, D, D)
    core, small, before, after = normal(D, 4, D), w[:, :4], normal(2, D), normal(2, D)

    def normalised(h, r, t):
        head = e[h] * before[0] + before[1]
        return (np.einsum("i,j,ijk->k", head, small[r], core) * after[0] + after[1]) @ e[t]

    return {
        "TransE": lambda: (model(e, w), lambda h, r, t: -abs(e[h] + w[r] - e[t]).sum()),
        "TransE p=2": lambda: (  # ordered by the square
            model(e, w, p=2),
            lambda h, r, t: -(np.linalg.norm(e[h] + w[r] - e[t]) ** 2),
        ),
        "RotatE": lambda: (model(e, w[:, :3]), lambda h, r, t: -abs(z[h] * turn[r] - z[t]).sum()),
        "RotatE p=2": lambda: (
            model(e, w[:, :3], p=2),
            lambda h, r, t: -(np.linalg.norm(z[h] * turn[r] - z[t]) ** 2),
        ),
        "RotatE complex": lambda: (model(e, turn), lambda h, r, t: -abs(z[h] * turn[r] - z[t]).sum()),
        "DistMult": lambda: (model(e, w), lambda h, r, t: (e[h] * w[r] * e[t]).sum()),
        "ComplEx": lambda: (model(e, w), lambda h, r, t: (z[h] * v[r] * z[t].conj()).sum().real),
        "CP": lambda: (model(a, b, w), lambda h, r, t: (a[h] * w[r] * b[t]).sum()),
        "SimplE": lambda: (
            model(a, b, w, back),
            lambda h, r, t: ((a[h] * w[r] * b[t]).sum() + (a[t] * back[r] * b[h]).sum()) / 2,
        ),
        "RESCAL": lambda: (model(e, matrix), lambda h, r, t: e[h] @ matrix[r] @ e[t]),
        "TuckER": lambda: (
            model(e, small, core),
            lambda h, r, t: np.einsum("i,j,k,ijk", e[h], small[r], e[t], core),
        ),
        "TuckER normalised": lambda: (model(e, small, core, before, after), normalised),
    }[name]()


def row(r, inverse, *, backward=False):
    """Row of a relation, or of its inverse, in a table."""
    if inverse == "interleaved":
        return 2 * r + backward
    return r + RELATIONS if backward else r


def close(got, want):
    return np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_every_model_is_tested():
    assert {name.split()[0] for name in NAMES} == set(models.NAMED)


@pytest.mark.parametrize("inverse", CONVENTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_formulas(name, inverse):
    """Every hole of every model, for slices, vectors and matrices of candidates."""
    model, formula = build(name, inverse)
    entities, relations = range(ENTITIES), range(RELATIONS)
    at = {r: row(r, inverse) for r in relations}
    cube = np.array([[[formula(h, at[r], t) for t in entities] for r in relations] for h in entities])
    heads = cube
    if inverse:
        back = {r: row(r, inverse, backward=True) for r in relations}
        heads = np.array(
            [[[formula(t, back[r], h) for t in entities] for r in relations] for h in entities]
        )
    h, r, t = (axis.ravel() for axis in np.indices(cube.shape))
    close(model.triples(h, r, t), cube.ravel())
    h, r, t = np.array([0, 6, 3, 3]), np.array([2, 0, 1, 2]), np.array([5, 1, 3, 0])
    hole = np.full(4, -1)
    pairs = cube.transpose(1, 0, 2).reshape(RELATIONS, -1)
    asked = {
        "tail": (np.stack([h, r, hole], axis=1), cube[h, r]),
        "head": (np.stack([hole, r, t], axis=1), heads[:, r, t].T),
        "relation": (np.stack([h, hole, t], axis=1), cube[h, :, t]),
        "pair": (np.stack([hole, r, hole], axis=1), pairs[r]),
    }
    for side, (queries, want) in asked.items():
        size = want.shape[1]
        assert model.size(side) == size
        vector = np.array([size - 1, 0, 1])
        matrix = np.array([[0, size - 1], [1, 1], [size - 1, 0], [2, 1]])
        some = np.take_along_axis(want, matrix, axis=1)
        for candidates, expected in (
            (slice(0, size), want),
            (slice(1, size - 1), want[:, 1:-1]),
            (vector, want[:, vector]),
            (matrix, some),
        ):
            close(model.score(queries, candidates), expected)
            factored = model.factored(side)
            if factored is not None:
                close(factored.score(queries, candidates), model.score(queries, candidates))
        factors = not (side == "pair" or (side == "relation" and name[:6] in ("RotatE", "TuckER")))
        assert (model.factored(side) is not None) == factors


@pytest.mark.parametrize("inverse", CONVENTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_ranking_by_a_model_is_ranking_by_its_formula(name, inverse):
    """Through the engine, on every side, against dense scores of the formula."""
    model, formula = build(name, inverse, dtype=np.float32, seed=1)
    rng = np.random.default_rng(3)
    splits = {s: rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], (20, 3)) for s in ("train", "test")}
    graph = er.Graph.of(splits, entities=ENTITIES, relations=RELATIONS)
    every = {tuple(triple) for triples in splits.values() for triple in triples.tolist()}
    for side in ("tail", "head", "relation", "pair"):
        rows = []
        for h, r, t in splits["test"].tolist():
            others = {
                "tail": [(h, r, c) for c in range(ENTITIES)],
                "head": [(c, r, t) for c in range(ENTITIES)],
                "relation": [(h, c, t) for c in range(RELATIONS)],
                "pair": [(a, r, b) for a in range(ENTITIES) for b in range(ENTITIES)],
            }[side]
            others = [o for o in others if o not in every] + [(h, r, t)]
            if side == "head" and inverse:
                scores = [formula(c, row(b, inverse, backward=True), a) for a, b, c in others]
            else:
                scores = [formula(a, row(b, inverse), c) for a, b, c in others]
            better, near = (sum(s > scores[-1] + room for s in scores) for room in (1e-9, -1e-9))
            rows.append((better, near - 1, len(others)))
        low, high, candidates = np.transpose(rows)
        ranks = er.rank(model, graph.task(sides=side), progress=False)
        assert ranks.candidates.tolist() == candidates.tolist()
        assert (low <= ranks.better).all()
        assert (ranks.better + ranks.equal <= high).all()
        if side != "pair":  # (h, r, h) has the same score for all h in TransE
            assert low.tolist() == high.tolist()
        assert ranks.protocol.model == model.name


# What arrays may be -------------------------------------------------------------------------------


class Tensor:
    """What is needed of a torch tensor."""

    def __init__(self, values, dtype="torch.float32", steps=()):
        self._values, self.dtype, self._steps = values, dtype, steps

    def detach(self):
        return Tensor(self._values, self.dtype, (*self._steps, "detach"))

    def float(self):
        return Tensor(self._values.astype(np.float32), "torch.float32", self._steps)

    def cpu(self):
        return Tensor(self._values, self.dtype, (*self._steps, "cpu"))

    def numpy(self):
        assert self._steps == ("detach", "cpu")  # as torch insists
        assert self.dtype != "torch.bfloat16"  # NumPy has no such type
        return self._values


@pytest.mark.parametrize("name", ["ComplEx", "RotatE complex"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_complex_arrays_are_real_parts_then_imaginary_parts(name, dtype):
    model, _ = build(name, dtype=dtype)
    joined = [
        table[:, : table.shape[1] // 2] + 1j * table[:, table.shape[1] // 2 :]
        for table in (model.entity, model.relation)
    ]
    other = type(model)(*joined)
    assert np.array_equal(other.entity, model.entity)
    assert np.array_equal(other.relation, model.relation)
    assert other.entity.dtype == dtype


def test_tensors_are_taken_without_a_copy():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    model = models.DistMult(Tensor(table), Tensor(table[:2], "torch.bfloat16"))
    assert np.shares_memory(model.entity, table)
    assert np.array_equal(model.relation, table[:2])
    scores = model.score(np.array([[1, 0, -1]]), slice(0, 4))
    assert np.array_equal(
        scores, models.DistMult(table, table[:2]).score(np.array([[1, 0, -1]]), slice(0, 4))
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("f2", np.float16),
        ("f4", np.float32),
        (">f4", np.float32),
        (">f8", np.float64),
        ("i2", np.float64),
    ],
)
def test_types_of_tables(given, kept):
    """Whatever holds the numbers, they are kept exactly."""
    table = (np.arange(12).reshape(4, 3) - 5).astype(given)
    model = models.DistMult(table, table[:2])
    assert model.entity.dtype == np.dtype(kept)
    assert np.array_equal(model.entity, table)
    task = er.Task.of([[0, 1, -1], [3, 0, -1]], targets=[2, 0], size=4, side="tail")
    want = er.rank(models.DistMult(table.astype(float), table[:2].astype(float)), task, progress=False)
    assert er.rank(model, task, progress=False).better.tolist() == want.better.tolist()


# Products with the same bits ----------------------------------------------------------------------


@st.composite
def matrices(draw):
    """Two matrices that fit, with entries of very different sizes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    m, k, n = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 5, 64, 100])), draw(st.integers(1, 4))
    spread = draw(st.sampled_from([0, 3, 12, 40]))
    a = rng.standard_normal((m, k)) * 10.0 ** rng.integers(-spread, spread + 1, (m, k))
    b = rng.standard_normal((k, n)) * 10.0 ** rng.integers(-spread, spread + 1, (k, n))
    if draw(st.booleans()):
        a[rng.integers(m)] = 0
    return a, b, rng.permutation(m), rng.permutation(k), rng.permutation(n)


def times(a, b):
    return Slices.of(a, axis=1) @ Slices.of(b, axis=0)


@given(matrices())
@settings(max_examples=150)
def test_products_of_slices_are_exact_to_the_last_digits(case):
    """Against rational arithmetic, relative to the largest entries of row and column."""
    a, b, *_ = case
    got = times(a, b)
    for i, j in np.ndindex(got.shape):
        pairs = zip(a[i].tolist(), b[:, j].tolist(), strict=True)
        exact = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction())
        room = Fraction(float(abs(a[i]).max())) * Fraction(float(abs(b[:, j]).max())) * len(b)
        assert abs(Fraction(float(got[i, j])) - exact) <= room / 2**64 + abs(exact) / 2**52


@given(matrices())
@settings(max_examples=100)
def test_products_of_slices_have_the_same_bits_in_any_order(case):
    """Rows, columns and even terms in another order, and rows one by one."""
    a, b, rows, terms, columns = case
    got = times(a, b)
    assert np.array_equal(times(a[rows], b), got[rows])
    assert np.array_equal(times(a, b[:, columns]), got[:, columns])
    assert np.array_equal(times(a[:, terms], b[terms]), got)
    assert np.array_equal(np.concatenate([times(a[i : i + 1], b) for i in range(len(a))]), got)
    assert np.array_equal(times(np.asfortranarray(a), np.asfortranarray(b)), got)


def test_plain_blas_products_depend_on_the_order():
    """The test above can fail: plain products depend on the order of terms."""
    rng = np.random.default_rng(0)
    a, b, terms = rng.standard_normal((20, 100)), rng.standard_normal((100, 20)), rng.permutation(100)
    assert not np.array_equal(a @ b, a[:, terms] @ b[terms])
    assert np.array_equal(times(a, b), times(a[:, terms], b[terms]))


@pytest.mark.parametrize("name", NAMES)
def test_query_vectors_do_not_depend_on_the_batch(name):
    model, _ = build(name, dtype=np.float32)
    rng = np.random.default_rng(1)
    queries = rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], (50, 3))
    for side in ("tail", "head", "relation"):
        factored = model.factored(side)
        if factored is None:
            continue
        want = factored.vectors(queries)
        order = rng.permutation(50)
        assert np.array_equal(factored.vectors(queries[order]), want[order])
        singly = [factored.vectors(queries[i : i + 1]) for i in range(50)]
        assert np.array_equal(np.concatenate(singly), want)


@pytest.mark.parametrize(("scale", "other"), [(1e-155, 1e-155), (1e-300, 1.0), (1e154, 1e154)])
def test_products_at_the_ends_of_the_range(scale, other):
    """Where single terms would overflow or vanish, terms in another order give the same bits still."""
    rng = np.random.default_rng(0)
    a, b, terms = rng.standard_normal((20, 100)), rng.standard_normal((100, 20)), rng.permutation(100)
    a, b = a * scale, b * other
    with np.errstate(over="ignore"):
        got = times(a, b)
        assert np.array_equal(got, times(a[:, terms], b[terms]))
    assert np.count_nonzero(got) > 0
    assert not np.isnan(got).any()


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inverse", CONVENTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_files_round_trip(name, dtype, inverse, tmp_path):
    model, _ = build(name, inverse, dtype)
    path = tmp_path / "model.safetensors"
    models.save(model, path)
    again = models.load(str(path))
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert again.vocabulary is None
    for field in fields(model):
        mine, its = getattr(model, field.name), getattr(again, field.name)
        assert type(its) is type(mine)
        if isinstance(mine, np.ndarray):
            assert its.dtype == mine.dtype
            assert np.array_equal(its, mine)
        else:
            assert its == mine
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_options_from_numpy_can_be_saved(tmp_path):
    model = models.TransE(np.ones((2, 3)), np.ones((1, 3)), p=np.int64(2))
    models.save(model, tmp_path / "model.safetensors")
    assert models.load(tmp_path / "model.safetensors").p == 2


def test_files_keep_the_vocabulary(tmp_path):
    """Ranking raises for a graph with another numbering."""
    graph = er.Graph.of(
        [[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]], entities=["a", "b", "c"], relations=["r"]
    )
    other = er.Graph.of(
        [[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]], entities=["b", "a", "c"], relations=["r"]
    )
    assert graph.vocabulary != other.vocabulary
    model = models.DistMult(np.eye(3), np.ones((1, 3)))
    path = tmp_path / "model.safetensors"
    models.save(model, path, graph=graph)
    again = models.load(path)
    assert again.vocabulary == graph.vocabulary
    assert len(er.rank(again, graph.task(), progress=False)) == 2
    with raises("number entities and relations differently", graph.vocabulary, other.vocabulary):
        er.rank(again, other.task(), progress=False)
    assert (
        len(er.rank(model, other.task(), progress=False)) == 2
    )  # without a vocabulary, nothing is compared
    models.save(again, path)  # and what was known is kept
    assert models.load(path).vocabulary == graph.vocabulary


def written(path, header, **arrays):
    """Write a file by hand; `header` is what stands under evenrank's key."""
    metadata = (
        None
        if header is None
        else {"evenrank": header if isinstance(header, str) else json.dumps(header)}
    )
    save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, path, metadata=metadata)


ENTITY, RELATION = np.ones((4, 3)), np.ones((2, 3))
HEADER = {
    "format": 1,
    "model": "DistMult",
    "options": {"inverse": None},
    "shapes": {"entity": [4, 3], "relation": [2, 3]},
    "vocabulary": None,
}
BOTH = {"entity": ENTITY, "relation": RELATION}
BAD_FILES = [
    (None, BOTH, ["does not name its model", "entity, relation", "er.models.save"]),
    ("{", BOTH, ["the header of", "is not valid JSON"]),
    ("[]", BOTH, ["a damaged header"]),
    ("{}", BOTH, ["a damaged header", "model"]),
    ({**HEADER, "model": "Magic"}, BOTH, ["holds an unknown model or format", "Magic"]),
    ({**HEADER, "model": 7}, BOTH, ["holds an unknown model or format", "model 7"]),
    ({**HEADER, "format": 2}, BOTH, ["holds an unknown model or format", "format 2"]),
    ({**HEADER, "options": {"p": 3}}, BOTH, ["a damaged header", "p"]),
    ({**HEADER, "options": {"inverse": "x"}}, BOTH, ["unknown layout of inverse relations", "'x'"]),
    ({**HEADER, "options": 1}, BOTH, ["a damaged header"]),
    ({**HEADER, "shapes": [1]}, BOTH, ["a damaged header"]),
    (
        {**HEADER, "shapes": {"entity": [5, 3], "relation": [2, 3]}},
        BOTH,
        ["header and arrays do not match", r"entity \[4, 3\], not \[5, 3\]"],
    ),
    (HEADER, {"entity": ENTITY}, ["header and arrays do not match", "relation missing"]),
    (HEADER, {**BOTH, "more": ENTITY}, ["header and arrays do not match", "more"]),
    (
        {**HEADER, "shapes": {"entity": [4, 3]}},
        {"entity": ENTITY},
        ["a damaged header", "relation"],
    ),
    (
        {**HEADER, "shapes": {**HEADER["shapes"], "more": [4, 3]}},
        {**BOTH, "more": ENTITY},
        ["a damaged header", "more"],
    ),
    (
        {**HEADER, "shapes": {"entity": [4, 3], "relation": [2, 4]}},
        {"entity": ENTITY, "relation": np.ones((2, 4))},
        ["DistMult: arrays differ in dimension", "3 in entity, 4 in relation"],
    ),
]


@pytest.mark.parametrize(("header", "arrays", "parts"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_bad_files(header, arrays, parts, tmp_path):
    path = tmp_path / "model.safetensors"
    written(path, header, **arrays)
    with raises(*parts):
        models.load(path)


def test_good_header_by_hand(tmp_path):
    """The file that the tests above modify is valid."""
    written(tmp_path / "model.safetensors", HEADER, **BOTH)
    assert repr(models.load(tmp_path / "model.safetensors")) == "DistMult(4 entities, 2 relations)"


def test_files_of_other_formats_raise(tmp_path):
    with raises("no such file, folder or bundled model", "absent.safetensors"):
        models.load(tmp_path / "absent.safetensors")
    with raises("the format of this checkpoint is not recognised"):
        models.load(tmp_path)
    path = tmp_path / "model.safetensors"
    for content in (b"", b"hello", b"\xff" * 1000):
        path.write_bytes(content)
        with raises("cannot read", "model.safetensors", "it may be damaged"):
            models.load(path)
    models.save(models.DistMult(**BOTH), path)
    whole = path.read_bytes()
    for length in (4, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        with raises("cannot read", "may be damaged"):
            models.load(path)


def test_failed_writes_leave_no_files(tmp_path):
    model = models.DistMult(**BOTH)
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    for place in ("absent/model.safetensors", "file/model.safetensors", "folder"):
        with raises("cannot write", place, "choose another place"):
            models.save(model, tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "text"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    models.save(models.DistMult(**BOTH), path)
    before = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", broken)
    with raises("cannot write", "No space left"):
        models.save(models.DistMult(2 * ENTITY, RELATION), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Bad models ---------------------------------------------------------------------------------------


def ones(*shape):
    return np.ones(shape)


BAD_MODELS = [
    (lambda: models.TransE(ones(4), ones(2, 3)), ["TransE: entity must have 2 axes", r"\(4,\)"]),
    (lambda: models.TransE(ones(4, 3), ones(2, 3, 3)), ["TransE: relation must have 2 axes"]),
    (
        lambda: models.TransE(ones(4, 0), ones(2, 3)),
        ["TransE: entity must have 2 axes, none of them empty", r"\(4, 0\)"],
    ),
    (lambda: models.TransE(ones(0, 3), ones(2, 3)), ["TransE: entity", r"\(0, 3\)"]),
    (
        lambda: models.TransE(ones(4, 3), ones(2, 4)),
        ["arrays differ in dimension", "3 in entity, 4 in rel"],
    ),
    (lambda: models.TransE(ones(4, 3), ones(2, 3), p=3), ["p must be 1 or 2", "got 3"]),
    (lambda: models.TransE([["a"]], ones(1, 1)), ["entity must be numbers"]),
    (
        lambda: models.DistMult(ones(4, 3), ones(3, 3), inverse="stacked"),
        ["an even number of rows", "3 rows"],
    ),
    (
        lambda: models.DistMult(ones(4, 3), ones(2, 3), inverse="odd"),
        ["inverse relations", "'odd'", "stacked"],
    ),
    (lambda: models.DistMult(ones(4, 3), ones(2, 2)), ["DistMult: arrays differ in dimension"]),
    (
        lambda: models.ComplEx(ones(4, 3), ones(2, 3)),
        ["ComplEx: rows need real and imaginary", "width 3"],
    ),
    (lambda: models.ComplEx(ones(4, 4), ones(2, 2)), ["ComplEx: arrays differ in dimension"]),
    (lambda: models.RotatE(ones(4, 4), ones(2, 2), p=0), ["RotatE: p must be 1 or 2", "got 0"]),
    (lambda: models.RotatE(ones(4, 3), ones(2, 3)), ["RotatE: entities need real and imag", "3 and 3"]),
    (lambda: models.RotatE(ones(4, 4), ones(2, 3)), ["RotatE: entities need real and imag", "4 and 3"]),
    (lambda: models.RotatE(ones(4, 4), ones(2, 4)), ["relations must have modulus 1", "off by 0.414"]),
    (lambda: models.RotatE(ones(4, 4), ones(2, 2) * np.nan), ["relations must have modulus 1"]),
    (
        lambda: models.CP(ones(4, 3), ones(5, 3), ones(2, 3)),
        ["CP: arrays differ in entities", "4 in head"],
    ),
    (
        lambda: models.CP(ones(4, 3), ones(4, 2), ones(2, 3)),
        ["CP: arrays differ in dimension", "2 in tail"],
    ),
    (
        lambda: models.SimplE(ones(4, 3), ones(4, 3), ones(2, 3), ones(3, 3)),
        ["SimplE: arrays differ in relations", "2 in relation, 3 in backward"],
    ),
    (lambda: models.SimplE(ones(4, 3), ones(3, 3), ones(2, 3), ones(2, 3)), ["differ in entities"]),
    (lambda: models.SimplE(ones(4, 3), ones(4, 3), ones(2, 3), ones(2, 4)), ["differ in dimension"]),
    (lambda: models.TransE(ones(4, 3), ones(2, 3), gamma=np.inf), ["TransE: gamma must be", "inf"]),
    (lambda: models.RotatE(ones(4, 2), ones(2, 1), gamma="9"), ["gamma must be a finite number", "'9'"]),
    (lambda: models.RESCAL(ones(4, 3), ones(2, 3)), ["RESCAL: relation must have 3 axes"]),
    (lambda: models.RESCAL(ones(4, 3), ones(2, 3, 4)), ["RESCAL: arrays differ in dimension"]),
    (lambda: models.TuckER(ones(4, 3), ones(2, 5), ones(3, 5)), ["TuckER: core must have 3 axes"]),
    (
        lambda: models.TuckER(ones(4, 3), ones(2, 5), ones(3, 5, 4)),
        ["entity dimension", "4 in core, third"],
    ),
    (
        lambda: models.TuckER(ones(4, 3), ones(2, 5), ones(3, 4, 3)),
        ["relation dimension", "5 in relation"],
    ),
    (
        lambda: models.TuckER(ones(4, 3), ones(2, 5), ones(3, 5, 3), ones(2, 4)),
        ["norm_in must have two rows, scale and shift", r"\(2, 4\)"],
    ),
    (
        lambda: models.TuckER(ones(4, 3), ones(2, 5), ones(3, 5, 3), None, ones(3)),
        ["TuckER: norm_out must have 2 axes"],
    ),
]


@pytest.mark.parametrize(("make", "parts"), BAD_MODELS, ids=range(len(BAD_MODELS)))
def test_bad_models(make, parts):
    with raises(*parts):
        make()


def test_bad_queries():
    model = models.DistMult(**BOTH)
    with raises("cannot answer this query", r"\[-1, -1, 0\]"):
        model.score(np.array([[-1, -1, 0]]), slice(0, 4))
    with raises("three columns", "2 columns"):
        model.factored("tail").vectors(np.array([[0, 0]]))
    with raises("entity 4 is not in the model", "got a model of 4, numbered from 0"):
        model.score(np.array([[4, 0, -1]]), slice(0, 4))
    with raises("relation 2 is not in the model", "unseen='drop'"):
        model.triples([0], [2], [1])
    with raises("entity -1 is not in the model"):
        model.triples([0], [0], [-1])


# Models are values --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_description_makes_a_copy_that_shares_the_arrays(name):
    model, _ = build(name, None, np.float64)
    other = model.described(vocabulary="v", known_as="Other", notes=("a note",))
    assert (model.vocabulary, model.name, model.notes) == (None, name.split()[0], ())
    for changed in (other, other.on(None), other.with_arrays({}), pickle.loads(pickle.dumps(other))):
        assert type(changed) is type(model)
        assert (changed.vocabulary, changed.name, changed.notes) == ("v", "Other", ("a note",))
    for array in model.ARRAYS:
        assert getattr(other, array) is getattr(model, array) is getattr(other.on(None), array)
    with pytest.raises(FrozenInstanceError):
        other.vocabulary = None
    with raises("not part of a model's description", "got entity, name", "vocabulary, known_as, notes"):
        model.described(name="Other", entity=1)
