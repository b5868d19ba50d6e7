"""Black-box scorers for models whose score does not factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenrank._internal.arrays import Floats, Ints, wide
from evenrank.errors import InputError
from evenrank.models.readers._alike import unit
from evenrank.models.readers.checkpoint import Checkpoint
from evenrank.ranking import TripleScorer
from evenrank.ranking.scorer import Candidates
from evenrank.ranks.task import HOLE

Projection = Callable[[int], Floats]  # relation -> all entities, projected
NOTE = "{} does not factor: scored as a black box, in float64"  # of `Projected`
METRICS: Mapping[int, Literal["cityblock", "sqeuclidean"]] = {1: "cityblock", 2: "sqeuclidean"}


def _asked(queries: Ints, entities: int, relations: int) -> int:
    """Return the column that is asked for; raises if another one holds an unknown id."""
    holes = np.flatnonzero(queries[0] == HOLE).tolist()
    if len(holes) != 1:
        raise InputError("black boxes cannot answer this query", got=str(queries[0].tolist()))
    for column, (what, size) in enumerate(
        (("entity", entities), ("relation", relations), ("entity", entities))
    ):
        most = int(queries[:, column].max())
        if most >= size:
            raise InputError(f"{what} {most} is not in the model", got=f"a model of {size:,}")
    return int(holes[0])


def _matrix(queries: Ints, candidates: Candidates, size: int) -> Ints:
    """Return candidates as a row of ids per query."""
    ids = np.arange(*candidates.indices(size)) if isinstance(candidates, slice) else candidates
    return np.broadcast_to(ids, (len(queries), ids.shape[-1]))


@dataclass(frozen=True, eq=False)
class Projected:
    """Translation between projections, `-|P_r(h) + w_r - P_r(t)|_p`: TransH, TransR, TransD.

    Each relation has its own table of candidates, so the score does not factor; it is computed in
    float64, relation by relation. With p = 2 scores are minus the squared distance. `gamma` is added.
    """

    name: str
    project: Projection
    relation: Floats
    p: int
    entities: int
    gamma: float = 0.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the norm, and that the arrays fit each other."""
        if self.p not in METRICS:
            raise InputError(f"{self.name}: p must be 1 or 2", got=repr(self.p))
        shape = self.project(self.relations - 1).shape
        if shape != (self.entities, self.relation.shape[1]):
            raise InputError(
                f"{self.name}: projected entities and relations differ in dimension",
                got=f"shapes {shape} and {self.relation.shape}",
            )

    @property
    def relations(self) -> int:
        """Number of relations."""
        return len(self.relation)

    def score(self, queries: Ints, candidates: Candidates) -> Floats:
        """Score heads, tails or relations, whichever queries ask for."""
        from scipy.spatial.distance import cdist

        asked = _asked(queries, self.entities, self.relations)
        if asked == 1:
            return self._relations(queries, candidates)
        shared = isinstance(candidates, slice) or candidates.ndim == 1
        ids = _matrix(queries, candidates, self.entities)
        result = np.empty(ids.shape)
        for r in np.unique(queries[:, 1]).tolist():
            rows, mine = self.project(r), np.flatnonzero(queries[:, 1] == r)
            shift = self.relation[r] if asked == 2 else -self.relation[r]
            vectors = rows[queries[mine, 2 - asked]] + shift
            if shared:
                result[mine] = self.gamma - cdist(vectors, rows[ids[0]], METRICS[self.p])
            else:
                for at, vector in zip(mine, vectors, strict=True):
                    result[at] = self.gamma - cdist(vector[None], rows[ids[at]], METRICS[self.p])[0]
        return result

    def _relations(self, queries: Ints, candidates: Candidates) -> Floats:
        every = np.empty((len(queries), self.relations))
        for r in range(self.relations):
            rows = self.project(r)
            apart = np.abs(rows[queries[:, 0]] + self.relation[r] - rows[queries[:, 2]])
            every[:, r] = self.gamma - (apart**self.p).sum(axis=1)
        return np.take_along_axis(every, _matrix(queries, candidates, self.relations), axis=1)


def hyperplanes(entity: Any, normal: Any) -> Projection:
    """TransH: entities without their part along a relation's normal vector."""
    entity, normal = wide(entity), unit(normal)
    return lambda r: entity - np.outer(entity @ normal[r], normal[r])


def matrices(entity: Any, matrix: Any) -> Projection:
    """TransR: entities times a matrix per relation, with a row per dimension of the entities."""
    entity = wide(entity)
    return lambda r: entity @ wide(matrix[r])


def dynamic(entity: Any, entity_vector: Any, relation_vector: Any) -> Projection:
    """TransD: entities, cut or padded to the dimension of relations, plus `(e . e') r'`."""
    entity, relation_vector = wide(entity), wide(relation_vector)
    along = (entity * wide(entity_vector)).sum(axis=1)
    width = relation_vector.shape[1]
    fitted = np.pad(entity, ((0, 0), (0, max(0, width - entity.shape[1]))))[:, :width]
    return lambda r: fitted + np.outer(along, relation_vector[r])


def united(project: Projection) -> Projection:
    """Normalise projected entities to length 1."""
    return lambda r: unit(project(r))


def boxed(
    module: Any, scores: Callable[[Any, Any, Any], Any], entities: int, relations: int
) -> Checkpoint:
    """Make a black box of a torch module, which scores triples in evaluation mode."""
    name = type(module).__name__
    return Checkpoint(
        TripleScorer(scores, module, name=name, entities=entities, relations=relations),
        notes=(f"{name} is not known to factor: scored as a black box, triple by triple",),
    )
