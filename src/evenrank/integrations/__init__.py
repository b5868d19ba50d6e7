"""Evaluate in the training loops of other libraries, and read the ranks and predictions they write.

Each library has a module here (`er.integrations.pykeen`, ...), imported when it is first used, so that
`import evenrank` needs none of them. Checkpoints of other libraries are read by `er.models.load`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """Import the module of a library when it is first used."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
