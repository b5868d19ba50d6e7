"""Reads models of PyTorch Geometric, `torch_geometric.nn.kge`: state dictionaries or modules.

Read in `torch_geometric/nn/kge/` of pyg-team/pytorch_geometric. Imaginary parts are separate tables
(`node_emb_im`); RotatE's relations are phases in radians and its norm is over all parts at once (p = 2);
TransE normalises entities, not relations, in the norm of its distance. Margins do not change the order
of scores. Rows are numbered as the edges that the model was trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenrank.models import DistMult, RotatE, TransE
from evenrank.models.readers._alike import of_parts, paired, unit
from evenrank.models.readers._beside import mentions
from evenrank.models.readers._scorers import boxed
from evenrank.models.readers._state import Kind, Library
from evenrank.models.readers.checkpoint import Checkpoint


def _options(name: str, module: Any) -> dict[str, Any] | None:
    if name != "TransE":
        return {}
    return {"p": module.p_norm} if module.p_norm in (1, 2) else None


def _box(module: Any) -> Checkpoint:
    return boxed(module, module, module.num_nodes, module.num_relations)


PYG = Library(
    "pyg",
    "torch_geometric",
    {
        "TransE": Kind(
            ("node_emb", "rel_emb"), lambda e, r, p: TransE(unit(e, p), r, p=p), options={"p": 1}
        ),
        "DistMult": Kind(("node_emb", "rel_emb"), DistMult),
        "ComplEx": Kind(("node_emb", "node_emb_im", "rel_emb", "rel_emb_im"), of_parts),
        "RotatE": Kind(
            ("node_emb", "node_emb_im", "rel_emb"), lambda e, ei, r: RotatE(paired(e, ei), r, p=2)
        ),
    },
    _options,
    _box,
)
read, convert = PYG.read, PYG.convert


def recognises(path: Path) -> bool:
    """Recognise a file by its tables, or by the classes pickled in it."""
    return mentions(path, b"node_emb.weight", b"torch_geometric.nn.kge")
