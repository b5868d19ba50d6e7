"""OpenKE: rank its modules; `er.models.load` reads its checkpoints."""

from evenrank.models.readers.openke import convert

__all__ = ["convert"]
