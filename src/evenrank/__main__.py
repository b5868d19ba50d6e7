"""Run as `python -m evenrank`."""

from evenrank.cli import main

main()
