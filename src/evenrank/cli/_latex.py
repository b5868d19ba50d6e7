"""Options of tables for papers, shared by the commands that write them."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from evenrank._internal.table import Shown
from evenrank.errors import InputError
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.paper import Hits, Layout, Options, Percent, Style
from evenrank.ranks.pivot import Pivot
from evenrank.ranks.protocol import Protocol


def _option(flag: str, help_: str, **more: Any) -> Any:
    return typer.Option(flag, help=help_, rich_help_panel="LaTeX", **more)


OPTIONS: dict[str, Any] = {
    "layout": Annotated[
        Layout | None,
        _option(
            "--layout",
            "Rows: models, data (sets), long (both) or metrics. By default what fits the page.",
        ),
    ],
    "digits": Annotated[
        int | None, _option("--digits", "Decimals of values between 0 and 1. By default 3.", min=0)
    ],
    "percent": Annotated[
        Percent | None,
        _option("--percent", "Print in percent: hits, or all metrics that are at most 1."),
    ],
    "hits": Annotated[Hits | None, _option("--hits", "The name of hits: H@k (default) or Hits@k.")],
    "names": Annotated[
        list[str] | None,
        _option("--name", "Another name of a model, data set or metric: OLD=NEW; repeatable."),
    ],
    "caption": Annotated[
        str | None, _option("--caption", "Caption, in LaTeX. By default it names the data sets.")
    ],
    "label": Annotated[str | None, _option("--label", "Label for references, such as tab:results.")],
}


def with_latex(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of LaTeX to a command that has a parameter `style`."""
    parameters = dict(inspect.signature(function, eval_str=True).parameters)
    del parameters["style"]

    @wraps(function)
    def command(**options: Any) -> None:
        given = {name: value for name in OPTIONS if (value := options.pop(name)) not in (None, [], ())}
        files = options.get("out") or ()
        if given and options.get("form") != "latex" and not any(_is_tex(file) for file in files):
            flag = f"--{'name' if 'names' in given else next(iter(given))}"
            raise InputError(f"{flag} is for LaTeX", do="add --format latex or -o TABLE.tex")
        if "names" in given:
            given["names"] = dict(map(_pair, given["names"]))
        Options(**given)  # before the work, not after it
        function(style=given, **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in OPTIONS.items()
    ]
    every = [*(one.replace(kind=keyword) for one in parameters.values()), *added]
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    return command


def _is_tex(file: Path) -> bool:
    return file.suffix.lower() == ".tex"


def _pair(text: str) -> tuple[str, str]:
    """Split OLD=NEW."""
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise InputError("--name must be OLD=NEW", got=repr(text), do="e.g. --name transe=TransE")
    return old, new


def show_latex(made: Shown, style: Style) -> None:
    """Write a result to stdout as LaTeX."""
    if style and type(made).to_latex is Shown.to_latex:
        raise InputError("tables of intervals have a fixed layout", got=f"--{next(iter(style))}")
    written: Any = made.to_latex
    typer.echo(written(**style))


def data_and_model(
    names: Sequence[str], protocols: Iterable[Protocol], *, paths: bool = True
) -> list[tuple[str, str]]:
    """Name the data set and the model of each file: by its protocol, otherwise by folder and file.

    If two models of a data set have the same name, all models are named by their files, with their
    folders if `paths` allows it and the names of files repeat as well.
    """
    files, protocols = [Path(name) for name in names], [*protocols]
    folders = [file.resolve().parent.name for file in files]
    known = any(protocol.data for protocol in protocols) or len(set(folders)) > 1
    data = [protocol.data or folder * known for protocol, folder in zip(protocols, folders, strict=True)]
    stems = [file.stem for file in files]
    own = [protocol.model or stem for protocol, stem in zip(protocols, stems, strict=True)]
    for models in (own, stems, [*names] if paths else stems):
        found = list(zip(data, models, strict=True))
        if len(set(found)) == len(found):
            return found
    twice = next(pair for pair, count in Counter(found).items() if count > 1)
    raise InputError(
        "the same model twice on one data set",
        got=" on ".join(filter(None, reversed(twice))),
        do="name one file for each; evenrank evaluate --runs summarizes several seeds",
    )


def by_model(
    made: Shown, names: Sequence[str], files: Sequence[str], protocols: Iterable[Protocol]
) -> Shown:
    """Label the rows of several files by data set and model instead of the names of files."""
    if isinstance(made, Pivot):
        made = made.melt()
    if len(files) < 2 or not isinstance(made, Evaluation):
        return made
    both = dict(zip(names, data_and_model(files, protocols), strict=True))
    one = len({data for data, _ in both.values()}) == 1
    labels = [(*both[name][one:], *rest) for name, *rest in made.labels]
    return replace(
        made,
        labels=tuple(labels),
        label_names=(*("data", "model")[one:], *made.label_names[1:]),
    )
