"""Ranks of AmpliGraph on Nations, and its metrics of them: writes a .json of its name beside this file.

Run where AmpliGraph 2.2.0 and tensorflow are: `python ampligraph_ranks.py FOLDER`, with a folder that
holds Nations as train.txt, valid.txt and test.txt.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from ampligraph.evaluation import hits_at_n_score, mr_score, mrr_score
from ampligraph.latent_features import ScoringBasedEmbeddingModel

folder = Path(sys.argv[1])
splits = {
    split: np.array([line.split("\t") for line in (folder / f"{split}.txt").read_text().splitlines()])
    for split in ("train", "valid", "test")
}
tf.random.set_seed(0)
model = ScoringBasedEmbeddingModel(eta=5, k=16, scoring_type="ComplEx", seed=0)
model.compile(optimizer="adam", loss="nll")
model.fit(splits["train"], batch_size=500, epochs=30, verbose=False)
content = {}
for side in ("s,o", "s", "o"):
    ranks = model.evaluate(splits["test"], use_filter=splits, corrupt_side=side, verbose=False)
    content[side] = {
        "ranks": ranks.tolist(),
        "mr": float(mr_score(ranks)),
        "mrr": float(mrr_score(ranks)),
        "hits@3": float(hits_at_n_score(ranks, 3)),
    }
Path(__file__).with_suffix(".json").write_text(json.dumps(content))
