"""The help of a command: options in panels, and examples."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap as wrap_anywhere
from typing import Any, get_args

wrap = partial(wrap_anywhere, break_on_hyphens=False)
WIDEST = 100  # columns of text that are easy to read
LEFT = 24  # most columns for the names of options; a longer name has a line of its own
PANELS = {
    "Arguments": "",
    "Input": "kind data columns sizes model_format trust_pickle names qrels order relevant settled "
    "lenient skip_damaged full model value name percent year source own",
    "Protocol": "split sides filter_ time unseen candidates outside answers unretrieved queries "
    "protocol ties chance",
    "Metrics": "metric by sort reverse min_count average every_average empty list_all",
    "Statistics": "interval level unit samples seed runs baseline across_data test correction on mixed "
    "estimator gamma vary method replace",
    "Output": "out form quiet verbose figures keep limit",
    "LaTeX": "",
    "Speed": "device memory threads exact mesh checkpoint dask",
    "Options": "",
    "Other": "version install_completion show_completion help",
}
PANEL = {name: panel for panel, names in PANELS.items() for name in names.split()}
WORDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "FILE"}


def summary(command: Any) -> str:
    """Return the first line of the help."""
    return str(command.help or "").partition("\n")[0]


def name_of(param: Any) -> str:
    """Return the name by which users know a parameter."""
    return str(max(param.opts, key=len)) if param.param_type_name == "option" else _argument(param)


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def help_text(command: Any, ctx: Any) -> str:
    """Lay out the help of a command or group for the width of the terminal."""
    width = min(get_terminal_size().columns, WIDEST) - 2
    text, _, examples = inspect.cleandoc(command.help or "").partition("\n\nExamples\n--------\n")
    params = [param for param in command.get_params(ctx) if not param.hidden]
    usage = ["Usage:", ctx.command_path]
    rows: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        if param.param_type_name == "argument":
            panel, left = "Arguments", _argument(param) + "..." * (param.nargs == -1)
            usage.append(left if param.required else f"[{left}]")
        else:
            panel = param.rich_help_panel or PANEL.get(param.name, "Options")
            left = _option(param)
            if param.required:
                usage.append(left)
        rows.setdefault(panel, []).append((left, _explained(param)))
    for one in getattr(command, "commands", {}).values():
        panel = one.rich_help_panel or "Commands"
        rows.setdefault(panel, []).append((one.name, summary(one)))
    usage.append("COMMAND [OPTIONS]" if hasattr(command, "commands") else "[OPTIONS]")
    lines = wrap(" ".join(usage), width, subsequent_indent="    ")
    longest = max(len(left) for panel in rows.values() for left, _ in panel)
    column = min(longest + 2, LEFT)
    for paragraph in text.split("\n\n"):
        lines += ["", *wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")]
    for panel in sorted(rows, key=lambda panel: [*PANELS].index(panel) if panel in PANELS else -1):
        lines += ["", f"{panel}:", *_columns(rows[panel], column, width)]
    if examples:
        lines += ["", "Examples:", *(f"  {line.strip()}" for line in examples.splitlines())]
    return "\n".join(lines)


def _option(param: Any) -> str:
    """Write an option with its kind of value, such as `-m, --metric TEXT`."""
    names = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        names += " / " + ", ".join(param.secondary_opts)
    if param.is_flag:
        return names
    kind = param.type_descriptor.annotation
    kind = get_args(kind)[0] if param.type_descriptor.is_list else kind
    word = "CHOICE" if param.type_descriptor.choices else WORDS[kind]
    return f"{names} {param.metavar or word}"


def _explained(param: Any) -> str:
    """Return what an option means, its choices and its default."""
    text = [(param.help or "").removesuffix(".") + "."]
    choices = param.type_descriptor.choices or ()
    if any(choice not in text[0] for choice in choices):
        text.append(f"One of {', '.join(choices)}.")
    default = param.default
    if (
        param.param_type_name == "option"
        and default is not None
        and default is not False
        and not re.search("default|unless", text[0])
    ):
        shown = param.opts[0].lstrip("-") if default is True else default
        text.append(f"[default: {shown}]")
    if param.required:
        text.append("[required]")
    return " ".join(text)


def _columns(rows: list[tuple[str, str]], column: int, width: int) -> list[str]:
    """Write names on the left and what they mean on the right."""
    lines = []
    for left, right in rows:
        first, *rest = wrap(right, width - column) or [""]
        if len(left) > column - 2:
            lines.append(f"  {left}")
            left = ""
        lines += [f"  {left:{column}}{first}".rstrip(), *(f"  {'':{column}}{line}" for line in rest)]
    return lines
