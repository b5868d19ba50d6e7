"""Metrics of queries with several answers, and their null distributions."""
