"""Make test helpers importable, and Hypothesis reproducible."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

import evenrank as er

sys.path.insert(0, str(Path(__file__).parent / "support"))
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; without one, the test is skipped."""
    from browser import Browser

    with Browser() as running:
        yield running


@pytest.fixture(scope="session")
def nations():
    """Bundled models, ranked on the bundled Nations."""
    task, folder = er.load("nations").task("test"), Path(er.__file__).parent / "models" / "bundled"
    models = {
        kind: er.models.load(folder / f"nations-{kind}.safetensors")
        for kind in ("transe", "rotate", "complex")
    }
    return {kind: er.rank(model, task, progress=False) for kind, model in models.items()}
