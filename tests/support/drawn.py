"""Random ranks from known distributions, for tests of intervals and comparisons."""

import numpy as np
import pytest
import scipy

import evenrank as er


def raises(message, error=er.errors.EvenrankError):
    return pytest.raises(error, match=message)


def drawn(triples=60, seed=0, *, ties=True, shift=0.0, protocol=None):
    """Ranks of both sides of some triples; the sides of one triple are alike."""
    rng = np.random.default_rng(seed)
    hard = np.repeat(rng.normal(1.0 + shift, 1.2, triples), 2) + rng.normal(0, 0.7, 2 * triples)
    candidates = np.repeat(rng.integers(40, 90, triples), 2)
    better = np.minimum(np.exp(hard).astype(int), candidates - 5)
    equal = rng.integers(0, 3, 2 * triples) * (rng.random(2 * triples) < 0.3) if ties else 0
    names = np.repeat(np.arange(triples), 2)
    keys = {
        "head": [f"h{i % 17}" for i in names],
        "relation": [f"r{i % 5}" for i in names],
        "tail": [f"t{i}" for i in names],
        "side": ["head", "tail"] * triples,
    }
    return er.Ranks(better, equal, candidates, keys=keys, protocol=protocol)


def copied(ranks, unit, samples=4000, seed=5):
    """The naive way: copy the rows of the units drawn."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(unit == u) for u in range(unit.max() + 1)]
    for _ in range(samples):
        picked = rng.integers(0, len(members), len(members))
        yield np.concatenate([members[u] for u in picked])


def scipy_seed(seed):
    """The seed of SciPy's bootstrap, as a keyword argument that SciPy 1.15 renamed."""
    newer = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 15)
    return {"rng" if newer else "random_state": seed}
