"""The shell command, as a subprocess or in this process."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import evenrank as er
from evenrank.cli import main

MODELS = sorted((Path(er.__file__).parent / "models" / "bundled").glob("*.safetensors"))
NATIONS = next(path for path in MODELS if path.stem == "nations-transe")


def run(*arguments: object, code: int = 0) -> str:
    """Run the command; return stdout, or on failure the single line of stderr."""
    command = [sys.executable, "-m", "evenrank", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.stderr.removeprefix("evenrank: ").strip()
    return done.stdout


def called(words, monkeypatch):
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.setattr("sys.argv", [str(word) for word in words])
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()
