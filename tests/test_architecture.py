"""The house: who imports whom, what an import costs, and that these tests can fail."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evenrank

SOURCE = Path(evenrank.__file__).parent

# a room may import only rooms to its right; rooms in one group do not import each other
LEVELS = [
    {"cli"},
    {"report", "integrations", "cluster"},
    {"sampled"},
    {"compare", "published"},
    {"models"},
    {"engine", "data"},
    {"runs", "streams"},
    {"ranks", "properties", "task"},
    {"evaluation"},
    {"grammar"},
    {"adjusted"},
    {"law"},
    {"tally", "protocols"},
    {"metric"},
    {"sums", "columns", "table", "files"},
    {"frames"},
    {"extras"},
    {"errors"},
]
HEAVY = (
    *("torch", "polars", "altair", "numba", "pandas", "pyarrow", "scipy", "typer", "rich"),
    *("safetensors", "filelock", "threadpoolctl", "pooch", "requests", "tomllib"),
    *("torchmetrics", "lightning", "sklearn", "mlflow", "wandb", "xarray"),
    *("dask", "distributed", "fsspec"),
)
# columns sits beside sums because both are tools; it takes its array types from there
ALLOWED_BESIDE = {("columns", "sums")}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    """evenrank rooms imported anywhere in a module, type-checking blocks aside."""
    found: set[str] = set()
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "evenrank":
                found |= {alias.name for alias in node.names}
            elif node.module.startswith("evenrank."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("evenrank.")}
    return found


def violations(name: str, wanted: set[str]) -> list[str]:
    level = {r: i for i, group in enumerate(LEVELS) for r in group}
    return [
        f"{name} imports {other}"
        for other in sorted(wanted - {name})
        if other in level and level[other] <= level[name] and (name, other) not in ALLOWED_BESIDE
    ]


def test_rooms_import_only_below_themselves():
    rooms = [
        path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" or path.parent != SOURCE
    ]
    assert {room(path) for path in rooms} == set().union(*LEVELS)  # every room has its place
    found = [v for path in rooms for v in violations(room(path), imports(ast.parse(path.read_text())))]
    assert found == []


def test_the_import_test_can_fail():
    tree = ast.parse("from evenrank.cli import main\nimport evenrank.law\nfrom evenrank import tally")
    assert imports(tree) == {"cli", "law", "tally"}
    assert violations("metric", imports(tree)) == [
        "metric imports cli",
        "metric imports law",
        "metric imports tally",
    ]
    assert violations("cli", {"law", "tally"}) == []


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names = run.stdout.split()
    return {*names, *(name.split(".")[0] for name in names)}


def test_import_is_light():
    later = (f"evenrank.{room}" for room in evenrank.LATER.values())
    slow = ("numpy.ma", "importlib.metadata")  # a tenth of the time, for next to nothing
    assert loaded_after("import evenrank").isdisjoint((*HEAVY, *later, *slow))


def test_metrics_and_chance_laws_need_nothing_heavy():
    code = "import evenrank as er; print(er.Ranks.of([1, 2], candidates=9).evaluate())"
    assert loaded_after(code).isdisjoint(set(HEAVY) - {"scipy"})


def test_the_light_import_test_can_fail():
    assert not loaded_after("import polars").isdisjoint(HEAVY)


@pytest.mark.parametrize("name", evenrank.__all__)
def test_public_names_exist_and_are_documented(name):
    thing = getattr(evenrank, name)
    assert thing.__doc__
    assert not name.startswith("_")
