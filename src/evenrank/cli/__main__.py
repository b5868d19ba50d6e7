"""Run as `python -m evenrank.cli`."""

from evenrank.cli import main

main()
