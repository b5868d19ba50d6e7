"""Reads models saved as torch state dictionaries.

Such a file names neither its model nor the options of the model. Where the names of the tables fit
several models, the file's own name decides (`transe.ckpt`), or `format="openke:TransE(p=2)"`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenrank._internal.arrays import array, host
from evenrank._internal.checks import check_type
from evenrank._internal.optional import need
from evenrank.errors import InputError, Option
from evenrank.models.readers.checkpoint import Checkpoint, called, fit, torch_file

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph

Tables = Mapping[str, Any]
NESTS = ("model_state_dict", "state_dict")  # keys under which training loops save the dictionary
WRAPPER = "model."  # prefix of tables when a wrapper around the model was saved


@dataclass(frozen=True)
class Kind:
    """A model of a library: its tables, how to build it, options that files do not hold, notes."""

    tables: tuple[str, ...]
    make: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """The models of a library whose checkpoints are state dictionaries.

    `options(name, module)` returns the options of a live module of the library, or None if its score
    does not factor with them; `box(module)` turns any module into a black box.
    """

    name: str
    package: str
    kinds: Mapping[str, Kind]
    options: Callable[[str, Any], Mapping[str, Any] | None]
    box: Callable[[Any], Checkpoint]

    def convert(self, model: Any, graph: Graph | None = None) -> Any:
        """Convert a live module to a scorer for `evenrank.rank`.

        Parameters
        ----------
        model : torch.nn.Module
            A module of the library. One that evenrank does not know becomes a black box, which is
            slower.
        graph : Graph, optional
            The graph to rank on; its numbers of entities and relations are checked.

        Returns
        -------
        Model or scorer
            A model of `evenrank.models` if the score factors; `notes` lists what was assumed.

        Raises
        ------
        InputError
            If `model` is not a torch module, or model and graph do not match.
        """
        check_type(model, need("torch").nn.Module, "model must be a torch module")
        return fit(self._of(model), graph, type(model).__name__)

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
        """Read a state dictionary, or a pickled module; `model` and `options` name what it holds."""
        content = torch_file(path, trust_pickle=trust_pickle)
        if hasattr(content, "state_dict"):
            return self._of(content)
        tables = tables_of(content)
        names = self._fitting(tables, path) if model is None else [self._known(model)]
        named = [name for name in names if _word(name, path.stem)]
        guessed = len(names) > 1 and len(named) == 1
        if len(names) > 1 and not guessed:
            raise InputError(
                f"{path} does not name its model, and its tables fit several",
                got=f"tables {', '.join(tables)}",
                allowed=", ".join(names),
                do=[
                    "set ",
                    Option("format", f"{self.name}:{names[0]}", "model-format"),
                    ", or rename the file",
                ],
            )
        name = named[0] if guessed else names[0]
        notes = (f"assumed to be {name}, by the name of the file",) if guessed else ()
        return self.make(name, tables, options, notes)

    def make(
        self, name: str, tables: Tables, options: Mapping[str, Any], notes: tuple[str, ...] = ()
    ) -> Checkpoint:
        """Build a model from its tables, and note which options were assumed."""
        kind = self.kinds[name]
        missing = [table for table in kind.tables if table not in tables]
        if missing:
            raise InputError(
                f"not a checkpoint of {self.name}'s {name}: missing {', '.join(missing)}",
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
            values = ", ".join(f"{key}={value!r}" for key, value in assumed.items())
            notes += (f"the file does not hold the options of {name}: assumed {values}",)
        model = kind.make(*(tables[table] for table in kind.tables), **{**kind.options, **options})
        model, renamed = called(name, model)
        return Checkpoint(model, notes=notes + renamed + kind.notes)

    def _known(self, name: str) -> str:
        known = {kind.lower(): kind for kind in self.kinds}
        if name.lower() not in known:
            raise InputError(
                f"this model of {self.name} cannot be read from its tables",
                got=repr(name),
                allowed=", ".join(self.kinds),
            )
        return known[name.lower()]

    def _fitting(self, tables: Tables, path: Path) -> list[str]:
        """Return the models that account for all tables; of these, those that use the most."""
        large = {name for name, rows in tables.items() if rows.ndim == 2}
        fitting = {
            name: len(kind.tables)
            for name, kind in self.kinds.items()
            if large <= set(kind.tables) <= tables.keys()
        }
        if not fitting:
            raise InputError(
                f"{path}: the tables are those of no known model of {self.name}",
                got=", ".join(tables) or "(none)",
                allowed="; ".join(f"{n}: {', '.join(k.tables)}" for n, k in self.kinds.items()),
                do=f"convert the module itself: er.integrations.{self.name}.convert(model)",
            )
        most = max(fitting.values())
        return [name for name, count in fitting.items() if count == most]


def tables_of(content: Any) -> dict[str, Any]:
    """Return the arrays of a state dictionary by the names of their layers."""
    for nest in NESTS:
        if isinstance(content, Mapping) and isinstance(content.get(nest), Mapping):
            content = content[nest]
    check_type(content, Mapping, "not a state dictionary")
    return {
        str(name).removeprefix(WRAPPER).removesuffix(".weight"): host(array(str(name), values))
        for name, values in content.items()
        if hasattr(values, "detach")
    }


def _word(name: str, text: str) -> bool:
    """Whether a name is in a text as a word: there is no HolE in `whole`."""
    return re.search(rf"(?<![a-z]){name}(?![a-z])", text, re.IGNORECASE) is not None


def parse_model(model: str) -> tuple[str, dict[str, Any]]:
    """Parse a model as written in a format: its name, and options in brackets.

    >>> parse_model("TransE(p=2, norm=False)")
    ('TransE', {'p': 2, 'norm': False})
    """
    try:
        node = ast.parse(model, mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            return node.func.id, {str(key.arg): ast.literal_eval(key.value) for key in node.keywords}
    except (SyntaxError, ValueError):
        pass
    raise InputError("not the name of a model", got=repr(model), allowed="TransE, TransE(p=2), ...")
