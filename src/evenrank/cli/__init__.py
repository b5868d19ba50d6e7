"""The shell: `evenrank rank`, metrics, estimate, compare, report, null, adjust, baseline, explore, ...

Results go to stdout, as a table or as JSON, CSV, Markdown or LaTeX. Bad input is one line on stderr and
exit code 2.
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
from evenrank.cli._shell import app, in_shell
from evenrank.errors import EvenrankError
from evenrank.ranking.engine.run import launched

# as they are mostly used, and not as the modules are called
ORDER = ["rank", "import", "evaluate", "estimate", "compare", "report"]
ORDER += ["chance", "adjust", "baseline", "explore", "demo"]
app.registered_commands.sort(key=lambda command: ORDER.index(str(command.name)))


def _version(show: bool) -> None:
    if show:
        typer.echo(f"evenrank {evenrank.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
    if launched() and context.invoked_subcommand != "rank":
        raise typer.Exit  # of the processes of torchrun, the first one does all that is not shared out


def main() -> None:
    """Run the shell command; bad input is one line on stderr and exit code 2."""
    warnings.showwarning = _note  # one line, like everything else here
    try:
        code = app(standalone_mode=False)
    except EvenrankError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail(error.format_message().rstrip("."))
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.strerror or error}; got {error.filename or 'a full disk or closed output'}")
    if code == 130:  # Ctrl-C, which typer turns into an exit code
        goes_on = any(word.startswith("--into") for word in sys.argv)
        again = "; the same command goes on where it was" if goes_on else ""
        _say(f"stopped; nothing is half-written{again}")
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
    typer.echo(f"evenrank: {in_shell(message)}", err=True)
