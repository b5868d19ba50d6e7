"""Helpers of the tests of checkpoints: random numbers, reference formulas, files."""

import json
import warnings

import numpy as np
import pytest

N, R, D = 7, 3, 6  # entities, relations, dimensions
GAMMA = 9.0
rng = np.random.default_rng(7)
START = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers_in_any_order():
    """Seed the generator for each test, so that tests do not depend on their order."""
    rng.bit_generator.state = START


def rows(*shape):
    return rng.normal(size=shape).astype(np.float32)


def need(name):
    """Import a library of the extra `peers`, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing it may emit warnings
        return pytest.importorskip(name, reason="not installed (extra: peers)")


def every(score, heads, relations, tails):
    """Score all triples: an array by head, relation, tail."""
    return np.array([[[score(h, r, t) for t in tails] for r in relations] for h in heads])


def agree(model, theirs, value=lambda score: score, heads=None, tolerance=2e-5):
    """Compare a model's scores, mapped by `value`, with those of a library, for tails and heads.

    `heads` are the scores for ranking heads, if different.
    """
    tails = np.array([[h, r, -1] for h in range(N) for r in range(R)])
    close = pytest.approx(theirs.reshape(-1, N), rel=tolerance, abs=tolerance)
    assert value(model.score(tails, slice(0, N))) == close
    asked = np.array([[-1, r, t] for r in range(R) for t in range(N)])
    wanted = (theirs if heads is None else heads).transpose(1, 2, 0).reshape(-1, N)
    assert value(model.score(asked, slice(0, N))) == pytest.approx(wanted, rel=tolerance, abs=tolerance)
    pairs = np.stack([rng.permutation(N)[:4] for _ in asked])  # a row of candidates for each query
    some = np.take_along_axis(wanted, pairs, axis=1)
    assert value(model.score(asked, pairs)) == pytest.approx(some, rel=tolerance, abs=tolerance)


def z(row):
    """Read a row as all real parts, then all imaginary parts."""
    real, imaginary = np.split(np.asarray(row, np.float64), 2)
    return real + 1j * imaginary


def unit(row):
    return row / np.linalg.norm(row)


def distance(p):
    return lambda h, r, t: np.linalg.norm(np.asarray(h + r - t, np.float64), ord=p)


def product(h, r, t):
    return float((np.asarray(h, np.float64) * r * t).sum())


def hermitian(h, r, t):
    return float((z(h) * z(r) * z(t).conj()).sum().real)


def bilinear(h, r, t):
    return float(np.asarray(h, np.float64) @ r.reshape(len(h), len(t)) @ t)


def turned(h, phase, t):
    """Return the moduli of the differences after a rotation."""
    return np.abs(z(h) * np.exp(1j * np.asarray(phase, np.float64)) - z(t))


def correlation(h, r, t):
    """HolE by definition, without a Fourier transform."""
    d = len(h)
    return sum(float(r[k]) * sum(float(h[i]) * t[(i + k) % d] for i in range(d)) for k in range(d))


def rotate_folder(path, kind="RotatE", **changes):
    double = {"ComplEx": (2, 2), "RotatE": (2, 1)}.get(kind, (1, 1))
    entity, relation = rows(N, D * double[0]), rows(R, D * double[1])
    config = {
        "model": kind,
        "gamma": GAMMA,
        "hidden_dim": D,
        "double_entity_embedding": double[0] == 2,
        "double_relation_embedding": double[1] == 2,
        "data_path": "data/FB15k",
    }
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config | changes))
    np.save(path / "entity_embedding.npy", entity)
    np.save(path / "relation_embedding.npy", relation)
    return entity, relation


def openke_file(path, tables, wrapped=False):
    torch = need("torch")
    tables = {"zero_const": np.zeros(1), "pi_const": np.array([np.pi], np.float32)} | tables
    state = {
        ("model." * wrapped) + name + ".weight" * (table.ndim == 2): torch.from_numpy(table)
        for name, table in tables.items()
    }
    torch.save(state, path)
    return path
