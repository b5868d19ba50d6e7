"""Live PyKEEN models as scorers: factored where possible, otherwise as black boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints
from evenrank._internal.checks import check_type
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.models.readers.pykeen._factors import NoFactors, factors
from evenrank.ranking.scorer import Candidates
from evenrank.ranks.task import HOLE

CELLS = 1 << 25  # numbers PyKEEN may hold at once: queries x candidates x dimensions


def scorer(model: Any) -> Any:
    """Convert a PyKEEN model to a scorer for `evenrank.rank`.

    Embeddings are those of the model's forward pass in evaluation mode. They stay on the model's device;
    those on the CPU are not copied. Convert again after further training.

    Parameters
    ----------
    model : pykeen.models.Model
        A trained model. It is set to evaluation mode.

    Returns
    -------
    Model or BlackBox
        A model of `evenrank.models` if the score factors, otherwise a slower black box; `notes` gives
        the reason.

    Raises
    ------
    InputError
        If `model` is not a PyKEEN model.
    """
    need("pykeen")
    import torch
    from pykeen.models import Model

    check_type(model, Model, "model must be a PyKEEN model")
    model.eval()
    try:
        with torch.inference_mode():
            return factors(model)
    except NoFactors as reason:
        return BlackBox(model, (f"falls back to black box, slower: {reason}",))


@dataclass(frozen=True)
class BlackBox:
    """A PyKEEN model scored by its own `predict_t`, `predict_h` and `predict_r`.

    Parameters
    ----------
    model : pykeen.models.Model
        The model.
    notes : tuple of str
        Why the model is a black box.
    """

    model: Any
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model's name."""
        return type(self.model).__name__

    @property
    def entities(self) -> int:
        """Number of entities."""
        return int(self.model.num_entities)

    @property
    def relations(self) -> int:
        """Number of relations, without inverse relations."""
        return int(self.model.num_real_relations)

    def score(self, queries: Ints, candidates: Candidates) -> NDArray[Any]:
        """Score queries as PyKEEN does, a few at a time to bound memory.

        Parameters
        ----------
        queries : array of int, shape (n, 3)
            Head, relation, tail; -1 marks what is asked for.
        candidates : slice or array of int
            The same ids for all queries, or a row of ids per query.

        Returns
        -------
        ndarray, shape (n, number of candidates)
            Scores; higher is better.
        """
        import torch

        hole = np.flatnonzero(queries[0] == HOLE).tolist()
        if len(hole) != 1:
            raise InputError("PyKEEN models cannot answer this query", got=str(queries[0].tolist()))
        target = ("head", "relation", "tail")[hole[0]]
        size = self.relations if target == "relation" else self.entities
        ids = np.arange(size)[candidates] if isinstance(candidates, slice) else candidates
        ids = np.array(ids) * (2 if target == "relation" and self.model.use_inverse_triples else 1)
        asked = torch.from_numpy(np.delete(queries, hole[0], axis=1)).to(self.model.device)
        given = torch.from_numpy(ids).to(self.model.device)
        step = max(1, CELLS // (ids.shape[-1] * self._width))
        slices = max(1, CELLS // self._width) if step == 1 else None
        with torch.inference_mode():
            rows = [
                self.model.predict(
                    asked[at : at + step],
                    target,
                    full_batch=False,
                    ids=given[at : at + step] if given.ndim == 2 else given,
                    slice_size=slices,
                )
                for at in range(0, len(asked), step)
            ]
        scores = torch.cat(rows)
        return np.asarray(scores.to(torch.promote_types(scores.dtype, torch.float32)).cpu().numpy())

    @property
    def _width(self) -> int:
        """Largest number of parameters per entity or relation."""
        return max((p[0].numel() for p in self.model.parameters() if p.ndim and len(p)), default=1)
