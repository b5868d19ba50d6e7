"""Commands: they load when they are called, read their arguments, print their help and write files."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from difflib import get_close_matches
from functools import cache, partial, wraps
from importlib import import_module
from math import isnan
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from evenrank._internal.terminal import wrapped
from evenrank.cli._help import help_text, name_of, summary
from evenrank.errors import InputError

SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex", ".txt": "table"}
SETTINGS = {"help_option_names": ["-h", "--help"]}
Param = TyperArgument | TyperOption
F = TypeVar("F", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command: its help has panels and examples, and its errors are ours."""

    allow_extra_args = True  # reported by parse_args

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        rest = _parsed(super().parse_args, ctx, args)
        if rest and not ctx.resilient_parsing:
            raise InputError("too many arguments", got=" ".join(rest), do=_see(ctx))
        return rest

    def get_help(self, ctx: Any) -> str:
        """Lay out the help."""
        return help_text(self, ctx)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the summary in full; typer cuts it."""
        del limit
        return summary(self)


class Group(TyperGroup):
    """A group of commands; called without one, it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return _parsed(super().parse_args, ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; suggest others if there is none of this name."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            near = get_close_matches(args[0], self.commands, 2)
            do = f"did you mean {' or '.join(near)}?" if near else _see(ctx)
            if not near and Path(args[0]).suffix and Path(args[0]).is_file():
                do = "a file comes after a command, as in evenrank evaluate FILE"
            raise InputError("no such command", got=repr(args[0]), do=do)
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """Lay out the help."""
        return help_text(self, ctx)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the summary in full; typer cuts it."""
        del limit
        return summary(self)


class App(typer.Typer):
    """Commands, or a group of them under a name of its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            cls=Group,
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            context_settings=SETTINGS,
            **options,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a command; if it prints a result, it can write it to a file as well."""

        def register(function: F) -> F:
            super(App, self).command(name, cls=Command, **options)(_with_out(function))
            return function

        return register


class Later(TyperCommand):
    """A command whose module is imported when it is called; its name and summary are known before."""

    def __init__(self, module: str, **options: Any) -> None:
        super().__init__(**options)
        self.module = module

    def load(self) -> Any:
        """Import the module and return the command."""
        return _commands(self.module)[str(self.name)]

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the arguments, as the command itself."""
        return self.load().make_context(*args, **options)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the summary in full; typer cuts it."""
        del limit
        return summary(self)


@cache
def _commands(module: str) -> Any:
    """Import a module, and build the commands of all modules that are loaded."""
    return typer.main.get_group(import_module(f"evenrank.cli.{module}").app).commands


# Values -------------------------------------------------------------------------------------------


def _parsed(read: Callable[[Any, list[str]], list[str]], ctx: Any, args: list[str]) -> list[str]:
    """Parse, with values converted here: typer would import pydantic, and word the errors."""
    for param in ctx.command.get_params(ctx):
        param.process_value = partial(_process, param)
    try:
        return read(ctx, args)
    except typer.TyperException as error:
        raise _reworded(error, ctx) from None


def _process(param: Param, ctx: Any, value: Any) -> Any:
    """Convert the text that was given for a parameter, or report that there is none."""
    several = param.multiple or param.nargs == -1
    if isinstance(value, list | tuple):
        value = tuple(_convert(param, ctx, one) for one in value)
    elif value is None:
        value = () if several else None
    else:
        value = _convert(param, ctx, value)
    if param.required and param.value_is_missing(value):
        what = str(param.help).partition("; ")[0].removesuffix(".")
        raise InputError(f"{name_of(param)} is missing: {what[0].lower()}{what[1:]}", do=_see(ctx))
    return param.callback(ctx, param, value) if param.callback else value


def _convert(param: Param, ctx: Any, value: Any) -> Any:
    if not isinstance(value, str):  # a flag, or a default
        return value
    kind, name = param.type_descriptor.annotation, name_of(param)
    if param.type_descriptor.is_list:
        [kind] = get_args(kind)
    options = {opt for other in ctx.command.params for opt in (*other.opts, *other.secondary_opts)}
    if isinstance(param, TyperOption) and value.startswith("-") and value in options:
        raise InputError(f"{name} needs a value", got=f"the option {value}")
    choices = param.type_descriptor.choices
    if choices is not None:
        if value not in choices:
            near = get_close_matches(value.lower(), choices, 1)
            raise InputError(
                f"unknown value of {name}",
                got=repr(value),
                allowed=", ".join(repr(one) if " " in one else one for one in choices),
                do=f"did you mean {near[0]}?" if near else None,
            )
        return value
    if kind not in (int, float):
        return Path(value) if kind is Path else value
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        number = None
    if number is None or isnan(number):
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {what}", got=repr(value))
    if param.min is not None and number < param.min:
        raise InputError(f"{name} must be at least {param.min}", got=value)
    return number


def _reworded(error: typer.TyperException, ctx: Any) -> InputError:
    """Say in our words what typer found wrong before any value was read."""
    option = getattr(error, "option_name", None)
    if option is None:
        return InputError(error.format_message().rstrip("."))
    if hasattr(error, "possibilities"):
        near = (error.possibilities or ())[:2]
        do = f"did you mean {' or '.join(near)}?" if near else _see(ctx)
        return InputError("no such option", got=option, do=do)
    flags = [param.opts for param in ctx.command.get_params(ctx) if getattr(param, "is_flag", False)]
    needs = "takes no value" if any(option in opts for opts in flags) else "needs a value"
    return InputError(f"{option} {needs}", do=_see(ctx))


def _see(ctx: Any) -> str:
    return f"see {ctx.command_path} --help"


def tell(text: str) -> None:
    """Write a note to stderr; in a terminal, its lines break between words."""
    width = get_terminal_size().columns if sys.stderr.isatty() else None
    for line in [text] if width is None else wrapped(text, width, names=False):
        typer.echo(line, err=True)


# Files --------------------------------------------------------------------------------------------


def check_place(path: Path) -> None:
    """Check before the work, not after it, that a file can be written."""
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        absent = "no permission" if path.parent.exists() else "no such folder"
        why = "a folder" if path.is_dir() else absent
        raise InputError(f"cannot write {path}", got=why, do="choose another place")


def _with_out(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option --out to a command that prints a result in some format."""
    signature = inspect.signature(function, eval_str=True)
    given = signature.parameters
    if "form" not in given or "out" in given:
        return function
    formats = get_args(get_args(given["form"].annotation)[0])
    suffixes = ", ".join(suffix for suffix, form in SUFFIXES.items() if form in formats)
    out = Annotated[
        Path | None,
        typer.Option("--out", "-o", help=f"File to write, in the format of its suffix: {suffixes}."),
    ]

    @wraps(function)
    def command(*, out: Path | None, form: Any, **options: Any) -> None:
        if out is None:
            function(form=form or "table", **options)
            return
        form = form or SUFFIXES.get(out.suffix.lower())
        if form not in formats:
            do = "or add --format, which decides"
            raise InputError("the suffix tells no format", got=out.name, allowed=suffixes, do=do)
        check_place(out)
        from evenrank._internal.files import replacing
        from evenrank.cli._output import TO_FILE

        result = io.StringIO()
        token = TO_FILE.set(True)
        try:
            with redirect_stdout(result):
                function(form=form, **options)
        finally:
            TO_FILE.reset(token)

        with replacing(out) as file:
            file.write_text(result.getvalue(), encoding="utf-8")
        if not options.get("quiet"):
            typer.echo(f"{out}: {out.stat().st_size / 1000:,.1f} kB", err=True)

    keyword = inspect.Parameter.KEYWORD_ONLY
    added = inspect.Parameter("out", keyword, default=None, annotation=out)
    parameters = [param.replace(kind=keyword) for param in (*given.values(), added)]
    parameters = [one.replace(default=None) if one.name == "form" else one for one in parameters]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command
