"""Models saved as torch's state dictionaries: tables by name, and little else.

Such a file says neither which model it holds nor its options. What the names of the tables leave open is
read from the file's own name (`transe.ckpt`) or has to be said: `format="openke:TransE(p=2)"`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenrank._internal.arrays import array, host
from evenrank.errors import InputError
from evenrank.models.readers.checkpoint import Checkpoint, called, fit, torch_file

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph

Tables = Mapping[str, Any]
NESTS = ("model_state_dict", "state_dict")  # where training loops put the dictionary among other things
WRAPPER = "model."  # how tables are called when a wrapper around the model was saved


@dataclass(frozen=True)
class Kind:
    """A model of a library: the tables it has, what to make of them, options no file tells, notes."""

    tables: tuple[str, ...]
    make: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """The models of a library whose checkpoints are state dictionaries.

    `options(name, module)` gives those of a live module of the library's own, None where it does not
    factor with them; `box(module)` asks any module for its scores.
    """

    name: str
    package: str
    kinds: Mapping[str, Kind]
    options: Callable[[str, Any], Mapping[str, Any] | None]
    box: Callable[[Any], Checkpoint]

    def convert(self, module: Any, graph: Graph | None = None) -> Any:
        """Give a model that `er.rank` takes for a live module; an unknown one is asked for scores."""
        return fit(self._of(module), graph, type(module).__name__)

    def _of(self, module: Any) -> Checkpoint:
        name = type(module).__name__.removesuffix("Model")
        own = type(module).__module__.startswith(f"{self.package}.") and name in self.kinds
        options = self.options(name, module) if own else None
        if options is None:
            return self.box(module)
        return self.make(name, tables_of(module.state_dict()), options)

    def read(
        self, path: Path, *, trust_pickle: bool = False, model: str | None = None, **options: Any
    ) -> Checkpoint:
        """Read a file of tables, or a module that was pickled; `model` and `options` say what it is."""
        content = torch_file(path, trust_pickle=trust_pickle)
        if hasattr(content, "state_dict"):
            return self._of(content)
        tables = tables_of(content)
        names = self._fitting(tables, path) if model is None else [self._known(model)]
        said = [name for name in names if _word(name, path.stem)]
        guessed = len(names) > 1 and len(said) == 1
        if len(names) > 1 and not guessed:
            raise InputError(
                f"{path} does not say which model it holds",
                got=f"tables {', '.join(tables)}",
                allowed=", ".join(names),
                do=f"name it: --format '{self.name}:{names[0]}', or in the name of the file",
            )
        name = said[0] if guessed else names[0]
        notes = (f"taken to be {name}, as its file is called",) if guessed else ()
        return self.make(name, tables, options, notes)

    def make(
        self, name: str, tables: Tables, options: Mapping[str, Any], notes: tuple[str, ...] = ()
    ) -> Checkpoint:
        """Make a model of its tables, and say which options were assumed."""
        kind = self.kinds[name]
        missing = [table for table in kind.tables if table not in tables]
        if missing:
            raise InputError(
                f"not a checkpoint of {self.name}'s {name}: no {', '.join(missing)}",
                got=f"tables {', '.join(tables) or '(none)'}",
                allowed=", ".join(kind.tables),
            )
        unknown = [option for option in options if option not in kind.options]
        if unknown:
            raise InputError(
                f"{self.name}'s {name} has no option {unknown[0]}",
                allowed=", ".join(kind.options) or "none",
            )
        assumed = {key: value for key, value in kind.options.items() if key not in options}
        if assumed:
            said = ", ".join(f"{key}={value!r}" for key, value in assumed.items())
            notes += (f"the file does not tell the options of {name}: assumed {said}",)
        model = kind.make(*(tables[table] for table in kind.tables), **{**kind.options, **options})
        return Checkpoint(model, notes=notes + called(name, model) + kind.notes)

    def _known(self, name: str) -> str:
        known = {kind.lower(): kind for kind in self.kinds}
        if name.lower() not in known:
            raise InputError(
                f"evenrank does not read this model of {self.name} from its tables",
                got=repr(name),
                allowed=", ".join(self.kinds),
            )
        return known[name.lower()]

    def _fitting(self, tables: Tables, path: Path) -> list[str]:
        """Give the kinds that account for all tables; of these, those that use the most."""
        large = {name for name, rows in tables.items() if rows.ndim == 2}
        fitting = {
            name: len(kind.tables)
            for name, kind in self.kinds.items()
            if large <= set(kind.tables) <= tables.keys()
        }
        if not fitting:
            raise InputError(
                f"{path}: no model of {self.name} that evenrank reads has these tables",
                got=", ".join(tables) or "(none)",
                allowed="; ".join(f"{n}: {', '.join(k.tables)}" for n, k in self.kinds.items()),
                do=f"for any other model, er.integrations.{self.name}.convert(module) takes the module "
                "itself",
            )
        most = max(fitting.values())
        return [name for name, count in fitting.items() if count == most]


def tables_of(content: Any) -> dict[str, Any]:
    """Give the arrays of a state dictionary by the names of their layers."""
    for nest in NESTS:
        if isinstance(content, Mapping) and isinstance(content.get(nest), Mapping):
            content = content[nest]
    if not isinstance(content, Mapping):
        raise InputError("a state dictionary is needed", got=type(content).__name__)
    return {
        str(name).removeprefix(WRAPPER).removesuffix(".weight"): host(array(str(name), values))
        for name, values in content.items()
        if hasattr(values, "detach")
    }


def _word(name: str, text: str) -> bool:
    """Say whether a name stands in a text as a word: there is no HolE in `whole`."""
    return re.search(rf"(?<![a-z]){name}(?![a-z])", text, re.IGNORECASE) is not None


def spoken(model: str) -> tuple[str, dict[str, Any]]:
    """Read a model as it is written in a format: its name, and options in brackets.

    >>> spoken("TransE(p=2, norm=False)")
    ('TransE', {'p': 2, 'norm': False})
    """
    try:
        said = ast.parse(model, mode="eval").body
        if isinstance(said, ast.Name):
            return said.id, {}
        if isinstance(said, ast.Call) and isinstance(said.func, ast.Name) and not said.args:
            return said.func.id, {str(key.arg): ast.literal_eval(key.value) for key in said.keywords}
    except (SyntaxError, ValueError):
        pass
    raise InputError("not the name of a model", got=repr(model), allowed="TransE, TransE(p=2), ...")
