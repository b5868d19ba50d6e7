"""Rank-based metrics, tallies of ranks, null distributions and chance-adjusted metrics."""
