"""Check that an unpacked source distribution has every file of the repository.

Run with: python tests/support/sdist.py FOLDER
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = {".gitignore"}


def missing(folder: Path) -> list[str]:
    """Files that git tracks and the folder lacks; in a source distribution itself there is no git."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        return []
    return [name for name in listed.stdout.splitlines() if not (folder / name).is_file()]


if __name__ == "__main__":
    lost = sorted(set(missing(Path(sys.argv[1]))) - NOT_SHIPPED)
    if lost:
        sys.exit(f"the source distribution lacks {len(lost)} files: {', '.join(lost[:20])}")
