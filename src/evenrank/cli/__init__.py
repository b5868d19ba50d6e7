"""The shell: `evenrank rank`, `evaluate`, `compare`, `report`, `chance`, `adjust`, and so on.

Results go to stdout as tables, JSON, CSV, Markdown or LaTeX. An error is one line on stderr, with exit
code 2.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import warnings
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

try:
    import typer

    import evenrank
    from evenrank.cli._command import SETTINGS, Group, Later, tell
    from evenrank.errors import MESSAGE, EvenrankError, InputError, shortened, visible
except KeyboardInterrupt:  # Ctrl-C, before `main` can catch it
    sys.stderr.write("evenrank: interrupted\n")
    sys.exit(130)
except ModuleNotFoundError as missing:  # installed with --no-deps, for metrics in Python
    if missing.name is None or missing.name.startswith("evenrank"):
        raise
    sys.stderr.write(
        f"evenrank: this requires a library that is not installed; got {missing.name}; "
        "pip install evenrank\n"
    )
    sys.exit(2)

# the commands in the order of use: module and summary, which is that of the command's own help
COMMANDS = {
    "Rank and evaluate": {
        "rank": ("_rank", "Rank the test triples of a graph by trained models."),
        "import": ("_import", "Import ranks or predictions of other libraries."),
        "evaluate": ("_evaluate", "Evaluate ranks: metrics, chance-adjusted metrics, intervals."),
        "estimate": ("_estimate", "Estimate full-ranking metrics from sampled candidates."),
        "demo": ("_rank", "Rank bundled models and show why chance adjustment matters."),
    },
    "Compare and report": {
        "compare": ("_compare", "Compare models: differences, intervals, paired tests."),
        "report": ("_compare", "Write a report on models and data sets as one HTML page."),
    },
    "Chance levels and published results": {
        "chance": ("_chance", "Show the null distribution of a metric."),
        "adjust": ("_chance", "Adjust published values for chance."),
        "published": ("_published", "Look up published results, adjusted for chance."),
        "audit": ("_published", "Check whether published values are possible and consistent."),
        "record": ("_published", "Check published results, and add them to your own record."),
        "baseline": ("_chance", "Show the results of random ranking and of a constant scorer."),
        "explore": ("_chance", "Write an HTML page that adjusts published values for chance."),
        "leaderboard": ("_chance", "Write an HTML page of published results, adjusted for chance."),
    },
    "Data sets": {
        "data": ("_data", "Benchmark graphs: list, download, inspect."),
        "atlas": ("_data", "Numbers of candidates and chance levels of benchmarks."),
    },
}
app = typer.Typer(
    cls=Group, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=SETTINGS
)


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
    """Rank-based evaluation of link prediction and other rankings: exact, chance-adjusted metrics.

    Each command explains itself: evenrank COMMAND --help.

    Examples
    --------
    evenrank demo
    evenrank rank nations/transe --data nations -o ranks.parquet
    """
    del version
    if _launched() and context.invoked_subcommand != "rank":
        raise typer.Exit  # only `rank` is distributed; the first process runs everything else


def _launched() -> int | None:
    """Return the rank of this process under torchrun; the import takes time, so only where it can be."""
    if "RANK" not in os.environ:
        return None
    from evenrank.ranking.engine.run import launched

    return launched()


def _later() -> None:
    """Stand in for a command until its module is imported."""


for _panel, _entries in COMMANDS.items():
    for _name, (_module, _summary) in _entries.items():
        _cls: Any = partial(Later, _module)
        app.command(_name, cls=_cls, help=_summary, rich_help_panel=_panel)(_later)


# what stands for a letter that an encoding lacks: as wide, so that columns align
PLAIN = str.maketrans("↑↓–−─…×±·", "^v---~x~.")  # minus and multiplication signs


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that cannot be encoded by similar ones, or by question marks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(PLAIN)
    return "".join(one if one.isascii() else "?" for one in text), error.end


def _prepare_output() -> None:
    """Make stdout and stderr take any text: closed ones, and those of encodings other than UTF-8."""
    codecs.register_error("evenrank", _in_ascii)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="evenrank")
    _keep_apart()


def _keep_apart() -> None:
    """Give `sys.stderr` a descriptor of its own, so that messages of native code can be held back."""
    stream = sys.stderr
    if stream is sys.__stderr__ and isinstance(stream, io.TextIOWrapper) and stream.fileno() == 2:
        sys.stderr = open(  # noqa: SIM115  # until the end
            os.dup(2), "w", encoding=stream.encoding, errors="evenrank", buffering=1
        )


def main() -> None:
    """Run the command; errors are one line on stderr, with exit code 2."""
    _prepare_output()
    warnings.showwarning = _note  # on one line
    try:
        code = app(prog_name="evenrank", standalone_mode=False)
    except EvenrankError as error:
        _fail(error.in_shell())
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("evenrank"):
            raise
        what = "this requires a library that is not installed"
        _fail(InputError(what, got=missing.name, do="pip install evenrank").in_shell())
    except MemoryError:
        _fail(InputError("not enough memory", got=_most(), do=LESS).in_shell())
    except BrokenPipeError:  # the pipe was closed, as by head or less
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        got = error.filename or "a full disk or closed output"
        _fail(InputError(error.strerror or str(error), got=got).in_shell())
    if code == 130:  # Ctrl-C, which typer turns into an exit code
        resumable = any(word.startswith("--checkpoint") for word in sys.argv)
        again = "; run the same command again to resume" if resumable else ""
        _say(f"interrupted; no incomplete file was written{again}")
    sys.exit(code if isinstance(code, int) else 0)


LESS = "work on smaller files, or where more memory is available"


def _most() -> str:
    from evenrank._internal.limits import available_memory

    return f"{available_memory() / 1e9:,.2f} GB available"


def _note(message: Warning | str, *_: object, **__: object) -> None:
    tell(f"note: {visible(shortened(str(message), MESSAGE))}")


def _fail(message: str) -> None:
    try:
        alone = _launched() is None or find_spec("torch") is None
    except InputError:  # which is the message
        alone = True
    if alone:
        _say(message)
    else:
        from evenrank.ranking.engine.mesh import tell_once

        tell_once(message, _say)
    sys.exit(2)


def _say(message: str) -> None:
    typer.echo(f"evenrank: {message}", err=True)
