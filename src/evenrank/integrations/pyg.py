"""PyTorch Geometric: convert its modules to scorers. `er.models.load` reads its checkpoints."""

from evenrank.models.readers.pyg import convert

__all__ = ["convert"]
