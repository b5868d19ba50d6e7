"""Pickle small models with the PyKEEN that is installed, and write down how it scores with them.

Usage: python tests/reference/pykeen_models.py   (adds to pykeen_models.tar.xz beside it)

The archive has, for each version, a pickle of every model of `NAMES` that it knows, trained with inverse
relations in mind, and a JSON file with the scores of all tails and all heads. Made with Python 3.11 and
torch 2.13 by the versions 1.6.0, 1.8.2 (with class-resolver 0.3.10), 1.10.2 (with class-resolver 0.4.3),
each with pystow 0.4.9 and setuptools below 80, and 1.11.1. Versions before 1.7 number inverse relations
2r and 2r + 1 while they train, and forget to when they predict, so they are asked by those numbers.
"""

import io
import json
import tarfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from pykeen import models
from pykeen.triples import TriplesFactory

NAMES = ("TransE", "RotatE", "ComplEx", "DistMult", "TuckER", "RESCAL", "HolE", "SimplE", "CP", "MuRE")
TRIPLES = [(0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 2, 4), (4, 1, 5), (5, 2, 0)]
QUERIES = [(entity, relation) for entity in range(6) for relation in range(3)]


def model(name):
    labels = np.array([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in TRIPLES])
    factory = TriplesFactory.from_labeled_triples(labels, create_inverse_triples=True)
    made = getattr(models, name)(triples_factory=factory, embedding_dim=4, random_seed=3)
    for layer in made.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):  # as if it had been trained
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.normal_()
            layer.bias.data.normal_()
    return made.eval()


def main():
    installed = version("pykeen")
    doubled = 2 if tuple(map(int, installed.split(".")[:2])) < (1, 7) else 1
    asked = torch.tensor(QUERIES) * torch.tensor([1, doubled])
    path = Path(__file__).with_name("pykeen_models.tar.xz")
    files = {}
    if path.exists():
        with tarfile.open(path) as archive:
            files = {name: archive.extractfile(name).read() for name in archive.getnames()}
    for name in NAMES:
        if not hasattr(models, name):
            continue
        made, content = model(name), io.BytesIO()
        torch.save(made, content)
        with torch.no_grad():
            sides = {"tail": made.predict_t(asked.clone()), "head": made.predict_h(asked.flip(1))}
        scores = {side: [[float(f"{x:.7g}") for x in row] for row in s] for side, s in sides.items()}
        files[f"{installed}/{name}.pkl"] = content.getvalue()
        files[f"{installed}/{name}.json"] = json.dumps(scores).encode()
    with tarfile.open(path, "w:xz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
