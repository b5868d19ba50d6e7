"""Check the docstrings of everything public with numpydoc; `make lint` runs this file."""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from numpydoc.validate import Validator, validate

import evenrank

# rules that do not apply, and why
EXCEPTIONS = {
    "GL01": "the summary stands on the first line, as PEP 257 has it",
    "GL02": "a summary alone closes on its line",
    "ES01": "one line is often enough",
    "SA01": "links are made where they help",
    "EX01": "examples are for what is called in user code, not for every method",
    "PR04": "types are in the annotations where the docstring has none",
    "RT01": "checked here: for functions and methods whose annotation is not None",
    "YD01": "iterators are documented by their summary",
    "PR06": "type names are those of the annotations",
    "GL08": "checked here: inherited docstrings count",
    "SS05": "fires on plural nouns",
}
MODULES = (
    *("evenrank", "evenrank.models", "evenrank.errors", "evenrank.ranking.cluster"),
    *(f"evenrank.integrations.{name}" for name in ("dumps", "ogb", "openke", "pyg", "pykeen")),
    *(f"evenrank.integrations.{name}" for name in ("sklearn", "topk", "torchkge", "trec")),
)
RESULTS = ("evenrank.stats", "evenrank.stats.sampled", "evenrank.published", "evenrank.ranks")


def public() -> Iterator[tuple[str, Any]]:
    """Names and objects that users reach, each once: exported ones and their public methods."""
    seen: set[int] = set()
    for name in (*MODULES, *RESULTS):
        module = import_module(name)
        own = [
            k for k, v in vars(module).items() if getattr(v, "__module__", "") == name and k[0] != "_"
        ]
        for exported in getattr(module, "__all__", own):
            if exported == "EvenRankEvaluator" and find_spec("pykeen") is None:
                continue  # it extends a class of PyKEEN, an extra
            thing = getattr(module, exported)
            if isinstance(thing, ModuleType) or id(thing) in seen or not callable(thing):
                continue
            if name in RESULTS and not inspect.isclass(thing):
                continue  # helpers of other packages
            seen.add(id(thing))
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue  # instances, such as MRR, have the docstring of their class; aliases have none
            yield f"{thing.__module__}.{thing.__qualname__}", thing
            if inspect.isclass(thing):
                yield from _methods(thing, seen)


def _methods(kind: type, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or id(function) in seen:
            continue
        if hasattr(function, "__wrapped__"):
            continue  # it has the docstring of the method of another library that it stands in for
        seen.add(id(function))
        yield f"{kind.__module__}.{kind.__qualname__}.{name}", function


def complaints(path: str, thing: Any) -> list[str]:
    """Errors in one docstring."""
    if not inspect.getdoc(thing):
        return [f"{path}: no docstring"]
    found = [
        f"{path}: {code} {text}" for code, text in validate(path)["errors"] if code not in EXCEPTIONS
    ]
    document = Validator(_loaded(path))
    if not document.doc_parameters:
        found = [line for line in found if ": PR01 " not in line]  # reported once, below
    if inspect.isfunction(thing):
        parameters = [
            name for name in inspect.signature(thing).parameters if name not in ("self", "cls")
        ]
        if parameters and not document.doc_parameters:
            found.append(f"{path}: no section Parameters")
        returns = thing.__annotations__.get("return")
        if returns not in (None, "None") and parameters and not (document.returns or document.yields):
            found.append(f"{path}: no section Returns")
    return found


def _loaded(path: str) -> Any:
    from numpydoc.validate import get_doc_object

    return get_doc_object(Validator._load_obj(path))


if __name__ == "__main__":
    wanted = sys.argv[1:]
    every = [
        line
        for path, thing in public()
        if not wanted or any(path.startswith(prefix) for prefix in wanted)
        for line in complaints(path, thing)
    ]
    print(*every, sep="\n")
    assert evenrank.__all__
    print(f"{len(every)} complaints")
    sys.exit(bool(every))
