"""Protocols: how other libraries count, so that their numbers can be had here to the last digit.

Libraries agree on the formula of MRR and differ in nearly everything before it. A preset says, for one
library as it counts by default: which splits are left out, what happens to entities that train never
shows, which rank a tie gets, and how scores are compared. Each was read off the library's source:

    pykeen      PyKEEN 1.11.1, evaluation/ranks.py, pipeline/api.py, stoppers/early_stopping.py,
                triples/triples_factory.py
    libkge      uma-pi1/kge, kge/job/eval_entity_ranking.py, kge/config-default.yaml
    rotate      DeepGraphLearning/KnowledgeGraphEmbedding, codes/model.py, codes/dataloader.py
    openke      thunlp/OpenKE, openke/base/Test.h, openke/base/Reader.h, benchmarks/FB15K237/n-n.py
    ampligraph  AmpliGraph 2.2.0, latent_features/layers/scoring/AbstractScoringLayer.py
    dgl-ke      DGL-KE 0.1.2, models/general_models.py, dataloader/sampler.py
    ogb         OGB 1.3.6, linkproppred/evaluate.py
    torchkge    TorchKGE 0.17.7, evaluation.py, utils/operations.py, utils/modeling.py

`graph.task("test", protocol="libkge")` asks as the library does, `rank` compares as it does, and the
ranks remember it: `evaluate` then gives ties the rank the library gives them.

>>> preset("libkge").ties, preset("libkge").filters("valid", ("train", "valid", "test"))
('rounded', ('train', 'valid'))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenrank.errors import InputError
from evenrank.metrics.ties import Ties

Scores = NDArray[np.float32]
Name = Literal["pykeen", "libkge", "rotate", "openke", "ampligraph", "dgl-ke", "ogb", "torchkge"]


@dataclass(frozen=True)
class Yardstick:
    """How a library compares scores, where it does not simply compare them; all of it in float32.

    `keys` gives what is compared in place of scores. `band` gives the least and the greatest key that
    tie with each target's (without it, only its own); better is what lies above. Known answers stay, and
    lose their `handicap`, unless that is infinite. `margin` is what the library's models add to minus a
    distance; `words` have a place for that.
    """

    words: str
    keys: Callable[[NDArray[Any]], Scores]
    band: Callable[[Scores], tuple[Scores, Scores]] | None = None
    handicap: float = inf
    margin: float = 0.0

    @property
    def keeps_known(self) -> bool:
        """Whether known answers stay among the candidates."""
        return self.handicap < inf

    def said(self, distances: bool) -> str:
        """Say in words how scores are compared, where these are minus distances or not."""
        return self.words.format(of=f" (of {self.margin:g} - distance)" if distances else "")


def float32(scores: NDArray[Any]) -> Scores:
    """Give scores as most libraries hold them."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32, copy=False)


def close(goal: Scores) -> tuple[Scores, Scores]:
    """Give the ends of what `torch.isclose` finds close to each target's score (LibKGE).

    Close is what differs by 1e-5 + 1e-4 |goal| at most, all of it rounded to float32.

    >>> [float(end[0]) for end in close(np.ones(1, dtype=np.float32))]
    [0.9998900294303894, 1.0001099109649658]
    """
    reach = np.float32(1e-5) + np.abs(np.float32(1e-4) * goal)
    # a difference below the middle between the reach and the next float is rounded to the reach, and so
    # is the middle itself where the last bit of the reach is 0
    middle = (reach.astype(np.float64) + np.nextafter(reach, np.float32(inf))) / 2
    middle = np.where(np.isfinite(goal), middle, 0)  # infinities tie with their like
    below = (reach.view(np.int32) & 1 == 1) & np.isfinite(goal)
    return -_floor(middle - goal, below), _floor(middle + goal, below)


def _floor(values: NDArray[np.float64], below: NDArray[np.bool_]) -> Scores:
    """Give the greatest float32 that is not above each value, or that is below it."""
    near = values.astype(np.float32)
    over = (near > values) | (below & (near == values))
    return np.where(over, np.nextafter(near, np.float32(-inf)), near)


def thousandths(scores: NDArray[Any]) -> Scores:
    """Multiply by a thousand and cut to whole numbers, towards zero (AmpliGraph).

    They stay float32, which holds them just as well as int32 and is counted faster.

    >>> thousandths(np.array([-0.0019, 0.0009, 0.002])).tolist()
    [-1.0, 0.0, 2.0]
    """
    return np.asarray(np.trunc(float32(scores) * np.float32(1000)))


def log_sigmoid(scores: NDArray[Any]) -> Scores:
    """Give the logarithm of the sigmoid, worked out as torch does (DGL-KE)."""
    x = float32(scores)
    return np.minimum(x, np.float32(0)) - np.log1p(np.exp(-np.abs(x)))


CLOSE = Yardstick("float32, tied within 1e-05 + 1e-04 |score|", float32, band=close)
THOUSANDTHS = Yardstick("float32, cut to thousandths", thousandths)
# a known answer that is far better than the target stays better: how many are depends on where scores
# have their zero, so the margin of DGL-KE's models counts: 12, or what a scorer has as `gamma`
HANDICAP = Yardstick(
    "float32, log-sigmoid{of}, known answers lose 1",
    log_sigmoid,
    handicap=1.0,
    margin=12.0,
)


@dataclass(frozen=True)
class Preset:
    """How one library counts by default.

    `known`: the splits that are left out: all, or `earlier`, which is train, valid and what is ranked;
    `given`: none, as the candidates that come with the data hold no known answers.
    `outside`, `repeats`: whether a target joins lists of candidates that lack it, and whether a
    candidate counts as often as it is listed. `typed`: the splits that say what is of a relation's type.
    `once`: whether a triple that stands twice in its split is ranked once.
    """

    name: Name
    ties: Ties
    known: Literal["all", "earlier", "given"] = "all"
    unseen: Literal["keep", "drop"] = "keep"
    outside: Literal["refuse", "add"] = "refuse"
    repeats: bool = False
    typed: Literal["all", "train"] = "train"
    once: bool = False
    yardstick: Yardstick | None = None

    def filters(self, split: str, splits: Iterable[str]) -> tuple[str, ...]:
        """Name the splits whose answers are left out when a split is ranked."""
        names = ("train", "valid", split) if self.known == "earlier" else tuple(splits)
        return tuple(name for name in splits if name in names)


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("pykeen", "realistic", known="earlier", unseen="drop", once=True),
        Preset("libkge", "rounded", known="earlier", yardstick=CLOSE),
        # the order that an unstable sort leaves: its mean over all numberings of the entities
        Preset("rotate", "expected"),
        Preset("openke", "optimistic", outside="add", typed="all"),
        Preset("ampligraph", "pessimistic", unseen="drop", yardstick=THOUSANDTHS),
        Preset("dgl-ke", "pessimistic", yardstick=HANDICAP),
        Preset("ogb", "realistic", known="given", outside="add", repeats=True),
        Preset("torchkge", "pessimistic"),
    )
}


def preset(name: str) -> Preset:
    """Find a preset by the library's name."""
    if str(name) not in PRESETS:
        raise InputError("unknown protocol", got=repr(name), allowed=", ".join(PRESETS))
    return PRESETS[name]
