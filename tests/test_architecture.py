"""The structure of the package: imports between packages, cost of imports, public names."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import evenrank
from evenrank.errors import EvenrankError

SOURCE = Path(evenrank.__file__).parent
ROOT = Path(__file__).parents[1]

# A package imports only packages in rows below its own, and never a private module of another.
LAYERS = """
cli                           the shell: one module per group of commands
integrations report           other libraries; pages and tables for people
models stats published        trained models; intervals and tests; results of papers
graphs ranking                graphs, data sets, candidate counts; ranking models, fast and resumable
ranks                         tasks, protocols, ranks, evaluations, files of ranks
metrics                       metrics, ties, tallies, null distributions, adjustments
_internal                     helpers that every package may use
errors                        the exceptions
"""
LEVELS = [line[:30].split() for line in LAYERS.strip().splitlines()]
PACKAGES = {name for level in LEVELS for name in level}
SHARED = {"_internal"}  # private to evenrank, not to a package

HEAVY = (
    *("torch", "polars", "vl_convert", "numba", "pandas", "pyarrow", "scipy", "typer", "rich"),
    *("safetensors", "filelock", "threadpoolctl", "pooch", "requests", "tomllib"),
    *("torchmetrics", "lightning", "sklearn", "mlflow", "wandb", "xarray"),
    *("dask", "distributed", "fsspec"),
)


def modules() -> dict[str, ast.Module]:
    """All modules but the root's `__init__` and `__main__`, by dotted name."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in SOURCE.rglob("*.py")
        if path not in (SOURCE / "__init__.py", SOURCE / "__main__.py")
    }


def imports(tree: ast.AST) -> set[str]:
    """Modules of evenrank that a module imports anywhere, dotted; type-checking blocks aside."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    return {name for node in ast.walk(tree) if id(node) not in skipped for name in _named(node)}


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("evenrank"):
        return [f"{node.module}.{alias.name}".removeprefix("evenrank.") for alias in node.names]
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names if alias.name.startswith("evenrank.")]
        return [name.removeprefix("evenrank.") for name in found]
    return []


def upward(name: str, tree: ast.AST) -> list[str]:
    """Imports that do not go down."""
    level = {package: i for i, row in enumerate(LEVELS) for package in row}
    own = name.split(".")[0]
    others = {other.split(".")[0] for other in imports(tree)} & PACKAGES - {own}
    return [f"{name} imports {other}" for other in sorted(others) if level[other] <= level[own]]


def intruding(name: str, tree: ast.AST) -> list[str]:
    """Imports of private modules, or private names, of other packages."""
    own = name.split(".")[0]
    return [
        f"{name} imports {other}"
        for other in sorted(imports(tree))
        if other.split(".")[0] not in (own, *SHARED)
        and any(part.startswith("_") and part != "__version__" for part in other.split("."))
    ]


def test_the_root_holds_packages_and_exceptions_only():
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert files == {"__init__.py", "__main__.py", "errors.py", "py.typed"}
    assert folders == PACKAGES - {"errors"}


def test_imports_go_down():
    assert [v for name, tree in modules().items() for v in upward(name, tree)] == []


def test_private_modules_stay_private():
    assert [v for name, tree in modules().items() for v in intruding(name, tree)] == []


def test_these_import_tests_can_fail():
    tree = ast.parse(
        "from evenrank.cli import main\nimport evenrank.metrics.chance._sum\n"
        "def later():\n    from evenrank.ranking.engine._native import kernels\n"
        "from evenrank._internal import columns\nfrom evenrank.models import _files"
    )
    assert upward("stats.intervals", tree) == [
        "stats.intervals imports cli",
        "stats.intervals imports models",
    ]
    assert upward("cli.rank", tree) == []
    assert intruding("cli.rank", tree) == [
        "cli.rank imports metrics.chance._sum",
        "cli.rank imports models._files",
        "cli.rank imports ranking.engine._native.kernels",
    ]
    assert intruding("models.x", tree) == [
        "models.x imports metrics.chance._sum",
        "models.x imports ranking.engine._native.kernels",
    ]


def test_the_guide_for_contributors_shows_this_map():
    assert LAYERS.strip() in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


# Classes ------------------------------------------------------------------------------------------


def classes() -> list[type]:
    """The classes of all modules that import without extras."""
    found = {}
    for name in modules():
        if name.startswith(("integrations.", "cli.__main__")) or name.rpartition(".")[2] in (
            *("_torch", "_triton", "_device", "_record", "mesh"),
        ):
            continue
        module = __import__(f"evenrank.{name}", fromlist=["x"])
        found |= {
            id(thing): thing
            for thing in vars(module).values()
            if inspect.isclass(thing) and thing.__module__ == module.__name__
        }
    return list(found.values())


def extended(every: list[type]) -> list[str]:
    """Concrete classes that others inherit from; exceptions may form families."""
    return sorted(
        f"{child.__qualname__} extends {parent.__qualname__}"
        for child in every
        for parent in child.__bases__
        if parent in every
        and not inspect.isabstract(parent)
        and not getattr(parent, "_is_protocol", False)
        and not issubclass(parent, EvenrankError | Warning)
    )


def test_classes_are_abstract_or_final():
    assert extended(classes()) == []


def set_from_outside(name: str, tree: ast.AST) -> list[str]:
    """`object.__setattr__` on anything but `self`, which is how frozen objects are changed by others."""
    return [
        f"{name}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "object.__setattr__"
        and ast.unparse(node.args[0]) != "self"
    ]


def test_objects_are_not_changed_from_outside():
    assert [v for name, tree in modules().items() for v in set_from_outside(name, tree)] == []


def test_the_tests_of_classes_can_fail():
    class Parent:
        pass

    class Child(Parent):
        pass

    assert len(extended([Parent, Child])) == 1
    tree = ast.parse("object.__setattr__(self, 'a', 1)\nobject.__setattr__(model, 'a', 1)")
    assert set_from_outside("x", tree) == ["x:2"]


# What an import costs -----------------------------------------------------------------------------


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names = run.stdout.split()
    return {*names, *(name.split(".")[0] for name in names)}


def test_import_is_light():
    later = (f"evenrank.{module}" for module, _ in evenrank._LATER.values())
    assert loaded_after("import evenrank").isdisjoint((*HEAVY, *later, "numpy"))
    slow = ("numpy.ma", "importlib.metadata")  # a tenth of the time, for next to nothing
    everything = "from evenrank import *"
    assert loaded_after(everything).isdisjoint((*HEAVY, *slow))


def test_a_function_is_not_hidden_by_the_package_of_the_same_name():
    loaded_after("import evenrank.report; assert evenrank.report.__code__")
    loaded_after("from evenrank import report; assert report.__code__")


def test_metrics_and_null_distributions_need_nothing_heavy():
    code = "import evenrank as er; print(er.Ranks.of([1, 2], candidates=9).evaluate())"
    assert loaded_after(code).isdisjoint(set(HEAVY) - {"scipy"})


def test_the_light_import_test_can_fail():
    assert not loaded_after("import polars").isdisjoint(HEAVY)


# What is public -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", evenrank.__all__)
def test_public_names_exist_and_are_documented(name):
    thing = getattr(evenrank, name)
    assert thing.__doc__
    assert not name.startswith("_")


def test_dir_shows_what_is_public_and_nothing_else():
    assert set(dir(evenrank)) == {*evenrank.__all__, "__version__"}
    assert len(evenrank.__all__) < 50
