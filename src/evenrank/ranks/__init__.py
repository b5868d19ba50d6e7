"""Ranks, what was asked for (tasks, protocols), and evaluations."""
