"""Time from the start of a fresh process to its end: the shell command, and what Python and NumPy take.

Run with: python benchmarks/startup.py [ROUNDS]
"""

import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter

PAGES = tempfile.mkdtemp()
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import evenrank": ["-c", "import evenrank"],
    "every name of evenrank": ["-c", "from evenrank import *"],
    "evenrank --help": ["-m", "evenrank", "--help"],
    "evenrank evaluate --help": ["-m", "evenrank", "evaluate", "--help"],
    "evenrank adjust": ["-m", "evenrank", "adjust", "mrr=0.476", "--data", "wn18rr"],
    "evenrank adjust --sizes": ["-m", "evenrank", "adjust", "mrr=0.476", "--sizes", "40559x6268"],
    "evenrank explore": ["-m", "evenrank", "explore", "-q", "-o", f"{PAGES}/explorer.html"],
    "evenrank leaderboard": ["-m", "evenrank", "leaderboard", "-o", f"{PAGES}/leaderboard.html"],
}


def seconds(arguments: list[str]) -> float:
    """Time one process."""
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):  # in turn, so that all commands see the same load
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    middle = {name: median(values) for name, values in times.items()}
    print(f"median of {rounds} fresh processes")
    print(f"{'':26}{'median':>9}{'least':>9}{'to import numpy':>18}")
    for name, value in middle.items():
        ratio = value / middle["import numpy"]
        print(f"{name:26}{value:7.3f} s{min(times[name]):7.3f} s{ratio:18.2f}")
