"""Which modules are collected for their doctests."""

from importlib.util import find_spec

# torch is an extra, and triton comes with torch for GPUs
NEEDS = {"_device": "torch", "_torch": "torch", "_triton": "triton"}
collect_ignore = [
    f"src/evenrank/engine/{module}.py" for module, extra in NEEDS.items() if find_spec(extra) is None
]
