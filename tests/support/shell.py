"""The shell command as a subprocess."""

import subprocess
import sys
from pathlib import Path

import evenrank as er

MODELS = sorted((Path(er.__file__).parent / "models" / "bundled").glob("*.safetensors"))
NATIONS = next(path for path in MODELS if path.stem == "nations-transe")


def run(*arguments: object, code: int = 0) -> str:
    """Run the command; return stdout, or on failure the single line of stderr."""
    command = [sys.executable, "-m", "evenrank.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.stderr.removeprefix("evenrank: ").strip()
    return done.stdout
