"""Metrics of ranks, tallies, and their null distributions."""
