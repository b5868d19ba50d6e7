"""The shell: `evenrank rank`, `evaluate`, `compare`, `report`, `chance`, `adjust`, and so on.

Results go to stdout as tables, JSON, CSV, Markdown or LaTeX. An error is one line on stderr, with exit
code 2.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from typing import Annotated

import typer

import evenrank
from evenrank.cli import (  # noqa: F401  # the commands register themselves
    _chance,
    _compare,
    _data,
    _estimate,
    _evaluate,
    _import,
    _rank,
)
from evenrank.cli._shell import app, show_help
from evenrank.errors import EvenrankError
from evenrank.ranking.engine.run import launched

# commands in the order of use
ORDER = ["rank", "import", "evaluate", "estimate", "compare", "report"]
ORDER += ["chance", "adjust", "baseline", "explore", "demo"]
app.registered_commands.sort(key=lambda command: ORDER.index(str(command.name)))


def _version(show: bool) -> None:
    if show:
        typer.echo(f"evenrank {evenrank.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
    show_help(context)
    if launched() and context.invoked_subcommand != "rank":
        raise typer.Exit  # only `rank` is distributed; the first process runs everything else


def main() -> None:
    """Run the command; errors are one line on stderr, with exit code 2."""
    warnings.showwarning = _note  # on one line
    try:
        code = app(standalone_mode=False)
    except EvenrankError as error:
        _fail(error.in_shell())
    except typer.TyperException as error:
        _fail(error.format_message().rstrip("."))
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the pipe was closed, as by head or less
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.strerror or error}; got {error.filename or 'a full disk or closed output'}")
    if code == 130:  # Ctrl-C, which typer turns into an exit code
        resumable = any(word.startswith("--checkpoint") for word in sys.argv)
        again = "; run the same command again to resume" if resumable else ""
        _say(f"interrupted; no incomplete file was written{again}")
    sys.exit(code if isinstance(code, int) else 0)


def _note(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"note: {message}", err=True)


def _fail(message: str) -> None:
    if launched() is None or find_spec("torch") is None:
        _say(message)
    else:
        from evenrank.ranking.engine.mesh import tell_once

        tell_once(message, _say)
    sys.exit(2)


def _say(message: str) -> None:
    typer.echo(f"evenrank: {message}", err=True)
