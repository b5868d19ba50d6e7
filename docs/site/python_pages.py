"""Write the reference: one page per public class and function, from the docstrings."""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import evenrank
from evenrank import integrations
from evenrank.metrics.adjusted import Expression

# modules whose classes are results of public functions
RESULTS = ("evenrank.ranks", "evenrank.stats", "evenrank.stats.sampled", "evenrank.published")
# the shorter name under which the root has a module
SHORT = {"evenrank.ranking.cluster": "evenrank.cluster"}


@dataclass(frozen=True)
class Entry:
    """A public object: the module and the name by which it is reached, and the object."""

    module: str
    name: str
    thing: Any

    @property
    def path(self) -> str:
        """The name that users write."""
        return f"{SHORT.get(self.module, self.module)}.{self.name}"

    @property
    def file(self) -> str:
        """The name of its page; some file systems do not tell `Audit` from `audit`."""
        lower = self.name.lower()
        twin = lower != self.name and hasattr(sys.modules[self.module], lower)
        return f"{self.path}-class" if twin else self.path

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join((inspect.getdoc(self.thing) or "").partition("\n\n")[0].split())


def documented(thing: Any) -> bool:
    """Whether an object has a page: classes and functions, not aliases of types."""
    return (inspect.isclass(thing) or inspect.isroutine(thing)) and thing.__module__.startswith(
        "evenrank"
    )


def groups() -> dict[str, list[str]]:
    """Return the public names of the root, by the comments in its list.

    >>> groups()["Reports"]
    ['report', 'latex', 'explore', 'leaderboard']
    """
    source = Path(str(evenrank.__file__)).read_text(encoding="utf-8")
    listed = source.partition("__all__ = [")[2].partition("\n]")[0]
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        if heading := re.match(r"    # (.+)", line):
            found[heading[1].capitalize()] = names = []
        elif name := re.match(r'    "(\w+)",', line):
            names.append(name[1])
    missing = set(evenrank.__all__) - {name for names in found.values() for name in names}
    if missing:
        raise ValueError(f"names of the root without a group: {sorted(missing)}")
    return found


def sections() -> Iterator[tuple[str, list[Entry]]]:
    """Yield all public objects, by section; each object once, where users meet it first."""
    seen: set[int] = set()

    def fresh(module: str, names: list[str]) -> list[Entry]:
        found = []
        for name in names:
            thing = getattr(import_module(module), name)
            if not isinstance(thing, ModuleType) and documented(thing) and id(thing) not in seen:
                seen.add(id(thing))
                found.append(Entry(module, name, thing))
        return found

    for title, names in groups().items():
        if entries := fresh("evenrank", names):
            yield title, entries
    for name in evenrank.__all__:
        module = getattr(evenrank, name)
        if isinstance(module, ModuleType) and module is not integrations:
            yield SHORT.get(module.__name__, module.__name__), fresh(module.__name__, module.__all__)
    results = []
    for module in RESULTS:
        names = [
            name
            for name in import_module(module).__all__
            if inspect.isclass(getattr(import_module(module), name))
        ]
        results += fresh(module, names)
    yield "Results", results
    for found in pkgutil.iter_modules(integrations.__path__, "evenrank.integrations."):
        if not found.name.rpartition(".")[2].startswith("_"):
            module = import_module(found.name)
            if entries := fresh(found.name, list(getattr(module, "__all__", ()))):
                yield found.name, entries


def page(entry: Entry) -> str:
    """Write the page of a class or function in reStructuredText, the language of docstrings."""
    kind = "autoclass" if inspect.isclass(entry.thing) else "autofunction"
    members = ""
    if kind == "autoclass" and not issubclass(entry.thing, BaseException):
        members = "   :members:\n   :inherited-members: object, tuple, Mapping, Protocol\n"
    title = entry.path
    return (
        f"{title}\n{'=' * len(title)}\n\n"
        f".. currentmodule:: {entry.module}\n\n.. {kind}:: {entry.name}\n{members}"
    )


def table(entries: list[Entry]) -> str:
    """List pages with their summaries."""
    rows = "".join(f"   * - :doc:`{e.path} <{e.file}>`\n     - {e.summary}\n" for e in entries)
    pages = "".join(f"   {e.path.removeprefix('evenrank.')} <{e.file}>\n" for e in entries)
    return f".. list-table::\n   :widths: 35 65\n\n{rows}\n.. toctree::\n   :hidden:\n\n{pages}\n"


def write(out: Path) -> None:
    """Write the pages and their index.

    Parameters
    ----------
    out : Path
        The folder of the pages.
    """
    out.mkdir(parents=True)
    text = f"Python reference\n{'=' * 16}\n\nEvery public class and function has a page. "
    text += "The examples begin with ``import evenrank as er``.\n\n"
    paths: set[str] = set()
    for title, entries in sections():
        text += f"{title}\n{'-' * len(title)}\n\n{table(entries)}"
        for entry in entries:
            if entry.file.lower() in paths:
                raise ValueError(f"two pages of the name {entry.file} on some file systems")
            paths.add(entry.file.lower())
            (out / f"{entry.file}.rst").write_text(page(entry), encoding="utf-8")
    named = [name for name in evenrank.__all__ if isinstance(getattr(evenrank, name), Expression)]
    links = ", ".join(f"``er.{name}`` (:doc:`/metrics/{getattr(evenrank, name)}`)" for name in named)
    text += f"Named metrics\n{'-' * 13}\n\n"
    text += f"These are objects of the class :doc:`evenrank.Metric`: {links}.\n"
    (out / "index.rst").write_text(text, encoding="utf-8")
