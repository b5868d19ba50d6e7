"""Presets: the ranking protocols of other libraries, to reproduce their numbers to the last digit.

Libraries agree on the formula of MRR, but differ in how they compute ranks. A preset describes the
defaults of one library: which splits filter the candidates, how entities not seen in training are
treated, how ties are broken, and how scores are compared. They follow the source code of the libraries:

    pykeen      PyKEEN 1.11.1, evaluation/ranks.py, pipeline/api.py, stoppers/early_stopping.py,
                triples/triples_factory.py
    libkge      uma-pi1/kge, kge/job/eval_entity_ranking.py, kge/config-default.yaml
    rotate      DeepGraphLearning/KnowledgeGraphEmbedding, codes/model.py, codes/dataloader.py
    openke      thunlp/OpenKE, openke/base/Test.h, openke/base/Reader.h, benchmarks/FB15K237/n-n.py
    ampligraph  AmpliGraph 2.2.0, latent_features/layers/scoring/AbstractScoringLayer.py
    dgl-ke      DGL-KE 0.1.2, models/general_models.py, dataloader/sampler.py
    ogb         OGB 1.3.6, linkproppred/evaluate.py
    torchkge    TorchKGE 0.17.7, evaluation.py, utils/operations.py, utils/modeling.py
    grail       kkteru/grail, test_ranking.py, and the 50 negatives of its paper
    tkbc        facebookresearch/tkbc, tkbc/models.py, tkbc/datasets.py, for temporal graphs

`graph.task("test", protocol="libkge")` creates a task as the library does, `rank` compares scores as it
does, and the ranks keep the preset, so that `evaluate` uses its tie-breaking rule.

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
from evenrank.metrics.chance import Chance
from evenrank.metrics.ties import Ties
from evenrank.ranks.protocol import Protocol

Scores = NDArray[np.float32]
Name = Literal[
    "pykeen", "libkge", "rotate", "openke", "ampligraph", "dgl-ke", "ogb", "torchkge", "grail", "tkbc"
]


@dataclass(frozen=True)
class Yardstick:
    """How a library compares scores, if it transforms them first; computed in float32.

    `keys` maps scores to what is compared. `band` returns the smallest and the largest key that tie with
    the key of each target (default: only the same key); larger keys are better. Known answers are
    candidates with their `handicap` subtracted, or filtered if it is infinite. `margin` is the constant
    that the library's models add to negative distances. `words` describe the comparison.
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

    def describe(self, distances: bool) -> str:
        """Describe the comparison; `distances` tells whether scores are negative distances."""
        return self.words.format(of=f" (of {self.margin:g} - distance)" if distances else "")


def float32(scores: NDArray[Any]) -> Scores:
    """Convert scores to float32."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32, copy=False)


def close(target: Scores) -> tuple[Scores, Scores]:
    """Return the interval of scores that `torch.isclose` finds close to each target score (LibKGE).

    These differ by at most 1e-5 + 1e-4 |target|, all rounded to float32.

    >>> [float(end[0]) for end in close(np.ones(1, dtype=np.float32))]
    [0.9998900294303894, 1.0001099109649658]
    """
    reach = np.float32(1e-5) + np.abs(np.float32(1e-4) * target)
    # a difference below the middle between the reach and the next float is rounded to the reach, and so
    # is the middle itself where the last bit of the reach is 0
    middle = (reach.astype(np.float64) + np.nextafter(reach, np.float32(inf))) / 2
    middle = np.where(np.isfinite(target), middle, 0)  # infinities tie with their like
    below = (reach.view(np.int32) & 1 == 1) & np.isfinite(target)
    return -_floor(middle - target, below), _floor(middle + target, below)


def _floor(values: NDArray[np.float64], below: NDArray[np.bool_]) -> Scores:
    """Return the largest float32 not above each value, or strictly below it."""
    near = values.astype(np.float32)
    over = (near > values) | (below & (near == values))
    return np.where(over, np.nextafter(near, np.float32(-inf)), near)


def thousandths(scores: NDArray[Any]) -> Scores:
    """Multiply by a thousand and truncate to whole numbers (AmpliGraph).

    They stay float32, which represents them as well as int32 and is faster to compare.

    >>> thousandths(np.array([-0.0019, 0.0009, 0.002])).tolist()
    [-1.0, 0.0, 2.0]
    """
    return np.asarray(np.trunc(float32(scores) * np.float32(1000)))


def log_sigmoid(scores: NDArray[Any]) -> Scores:
    """Compute the logarithm of the sigmoid as torch does (DGL-KE)."""
    x = float32(scores)
    return np.minimum(x, np.float32(0)) - np.log1p(np.exp(-np.abs(x)))


CLOSE = Yardstick("float32, tied within 1e-05 + 1e-04 |score|", float32, band=close)
THOUSANDTHS = Yardstick("float32, cut to thousandths", thousandths)
# A known answer that is much better than the target stays better. How many are depends on the zero of
# the scores, so the margin of DGL-KE's models matters: 12, or the `gamma` of a model.
HANDICAP = Yardstick(
    "float32, log-sigmoid{of}, known answers lose 1", log_sigmoid, handicap=1.0, margin=12.0
)


@dataclass(frozen=True)
class Preset:
    """The default protocol of a library.

    `known`: the splits that filter: "all"; "train"; "earlier", which is train, valid and the ranked
    split; or "given", none, because the candidates that come with the data contain no known answers.
    `negatives`: how many candidates are sampled for each query, if not all are ranked.
    `outside`, `repeats`: whether a target is added to candidates that lack it, and whether a candidate
    counts as often as it is listed. `typed`: the splits that define the types of relations.
    `time`: which known answers a temporal graph filters, if the library determines it.
    `once`: whether duplicate triples of a split are ranked once. `chance`: whether z-scores take ranks
    as those of a random scorer or as independent.
    """

    name: Name
    ties: Ties
    known: Literal["all", "train", "earlier", "given"] = "all"
    unseen: Literal["keep", "drop"] = "keep"
    outside: Literal["raise", "add"] = "raise"
    repeats: bool = False
    typed: Literal["all", "train"] = "train"
    once: bool = False
    yardstick: Yardstick | None = None
    chance: Chance = "scorer"
    negatives: int | None = None
    time: Literal["aware"] | None = None

    def filters(self, split: str, splits: Iterable[str]) -> tuple[str, ...]:
        """Return the splits whose true answers are filtered when a split is ranked."""
        earlier = ("train",) if self.known == "train" else ("train", "valid", split)
        names = earlier if self.known in ("train", "earlier") else tuple(splits)
        return tuple(name for name in splits if name in names)


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("pykeen", "realistic", known="earlier", unseen="drop", once=True, chance="independent"),
        Preset("libkge", "rounded", known="earlier", yardstick=CLOSE),
        # an unstable sort breaks ties: the expected value over all numberings of the entities
        Preset("rotate", "expected"),
        Preset("openke", "optimistic", outside="add", typed="all"),
        Preset("ampligraph", "pessimistic", unseen="drop", yardstick=THOUSANDTHS),
        Preset("dgl-ke", "pessimistic", yardstick=HANDICAP),
        Preset("ogb", "realistic", known="given", outside="add", repeats=True),
        Preset("torchkge", "pessimistic"),
        # its paper ranks among 50 negatives; its code draws 49, so that there are 50 candidates. It may
        # draw one twice, or the target. An unstable sort breaks ties.
        Preset("grail", "expected", known="train", negatives=50),
        # known answers at the time of the query are filtered, which is the default of temporal graphs
        Preset("tkbc", "pessimistic", time="aware"),
    )
}


def chance_of(protocol: Protocol) -> Chance:
    """Return how z-scores treat random ranks: by the protocol, else its preset, else "scorer"."""
    rules = PRESETS.get(protocol.preset or "")
    said = protocol.chance or (rules.chance if rules else "scorer")
    return "independent" if said == "independent" else "scorer"


def preset(name: str) -> Preset:
    """Return the preset of a library."""
    if str(name) not in PRESETS:
        raise InputError("unknown protocol", got=repr(name)[:40], allowed=", ".join(PRESETS))
    return PRESETS[name]
