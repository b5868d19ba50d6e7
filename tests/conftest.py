"""Make the helpers beside the tests importable, and keep Hypothesis repeatable."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; without one, the test is skipped."""
    from browser import Browser

    with Browser() as running:
        yield running
