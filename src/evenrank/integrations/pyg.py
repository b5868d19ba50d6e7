"""Models of PyTorch Geometric, `torch_geometric.nn.kge`: state dictionaries, or the modules themselves.

Read in `torch_geometric/nn/kge/` of pyg-team/pytorch_geometric. Imaginary parts are tables of their own
(`node_emb_im`); RotatE's relations are phases in radians and its norm is over all parts at once (p = 2);
TransE divides entities, not relations, by their length in the norm it measures with. Margins order
nothing. Rows are numbered as the edges that the model was trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenrank.engine._arrays import join
from evenrank.integrations._alike import unit
from evenrank.integrations._beside import mentions
from evenrank.integrations._checkpoint import Checkpoint, fit
from evenrank.integrations._scorers import boxed
from evenrank.integrations._state import Kind, Library, tables_of
from evenrank.models import ComplEx, DistMult, RotatE, TransE

if TYPE_CHECKING:
    from evenrank.data.graph import Graph

PYG = Library(
    "pyg",
    {
        "TransE": Kind(
            ("node_emb", "rel_emb"), lambda e, r, p: TransE(unit(e, p), r, p=p), options={"p": 1}
        ),
        "DistMult": Kind(("node_emb", "rel_emb"), DistMult),
        "ComplEx": Kind(
            ("node_emb", "node_emb_im", "rel_emb", "rel_emb_im"),
            lambda e, ei, r, ri: ComplEx(join(e, ei), join(r, ri)),
        ),
        "RotatE": Kind(
            ("node_emb", "node_emb_im", "rel_emb"), lambda e, ei, r: RotatE(join(e, ei), r, p=2)
        ),
    },
)


def recognises(path: Path) -> bool:
    """Know a file by the tables it speaks of, or by the classes that are pickled in it."""
    return mentions(path, b"node_emb.weight", b"torch_geometric.nn.kge")


def read(
    path: Path, *, trust_pickle: bool = False, model: str | None = None, **options: Any
) -> Checkpoint:
    """Read a state dictionary, or a module that was pickled; `model` and `options` say what it is."""
    return PYG.read(path, trust_pickle, model, options, _of)


def convert(module: Any, graph: Graph | None = None) -> Any:
    """Give a model that `er.rank` takes for a live `KGEModel`; any other one is asked for scores."""
    return fit(_of(module), graph, type(module).__name__)


def _of(module: Any) -> Checkpoint:
    name = type(module).__name__
    if type(module).__module__.startswith("torch_geometric.") and name in PYG.kinds:
        options = {"p": module.p_norm} if name == "TransE" else {}
        return PYG.make(name, tables_of(module.state_dict()), options)
    return boxed(module, module, module.num_nodes, module.num_relations)
