"""TorchKGE: convert its modules to scorers. `er.models.load` reads its checkpoints."""

from evenrank.models.readers.torchkge import convert

__all__ = ["convert"]
