"""Which modules are collected for their doctests, and the width of tables."""

import os
from importlib.util import find_spec

# tables get all columns; readline sets COLUMNS for the children of pytest, and so for workers of xdist
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")  # readline's is not in `os.environ`

# torch is an extra, and triton comes with torch for GPUs; so are the libraries of integrations
NEEDS = {
    "ranking/engine/_device": "torch",
    "ranking/engine/_record": "torch",
    "ranking/engine/_torch": "torch",
    "ranking/engine/_triton": "triton",
    "ranking/engine/mesh": "torch",
    "integrations/lightning": "lightning",
    "integrations/pykeen/_evaluator": "pykeen",
    "integrations/pykeen/_metrics": "pykeen",
    "integrations/ir_measures": "ir_measures",
    "integrations/torchmetrics": "torchmetrics",
}
collect_ignore = [
    "docs/site",  # the scripts that build the documentation site; tests/test_site.py tests them
    "tests/fixtures",  # files that earlier versions wrote, and the script that had them written
    "tests/reference",  # scripts that made frozen numbers, to be run where the libraries are
    *(f"src/evenrank/{module}.py" for module, extra in NEEDS.items() if find_spec(extra) is None),
]
