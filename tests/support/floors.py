"""Print the oldest versions that `pyproject.toml` allows, as constraints for pip.

Run with: python tests/support/floors.py EXTRA ...
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def floors(*extras: str) -> list[str]:
    """The oldest allowed version of each direct dependency, and of those of some extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    found = (re.match(r"([\w.-]+)>=([\d.]+)", text) for text in wanted)
    return sorted({f"{match[1]}=={match[2]}" for match in found if match})


if __name__ == "__main__":
    print(*floors(*sys.argv[1:]), sep="\n")
