"""Which modules are collected for their doctests."""

from importlib.util import find_spec

ENGINE = "src/evenrank/engine"
# torch is an extra, and triton comes with torch for GPUs
collect_ignore = [f"{ENGINE}/_{name}.py" for name in ("torch", "triton") if find_spec(name) is None]
