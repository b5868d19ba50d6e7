"""Rank models: `rank(model, task)`, what can be ranked, and rankings that resume."""

from evenrank.ranking._rank import begun, rank
from evenrank.ranking.scorer import Candidates, Factored, Factoring, Scorer

__all__ = ["Candidates", "Factored", "Factoring", "Scorer", "begun", "rank"]
