"""OpenKE: convert its modules to scorers. `er.models.load` reads its checkpoints."""

from evenrank.models.readers.openke import convert

__all__ = ["convert"]
