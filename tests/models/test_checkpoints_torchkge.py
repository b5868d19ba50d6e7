"""Models of TorchKGE, alive and from files: its own modules score."""

import importlib
from collections import defaultdict

import numpy as np
import pytest
from checkpoints import (
    D,
    N,
    R,
    agree,
    need,
    same_numbers_in_any_order,  # noqa: F401  # a fixture
)

import evenrank as er
from evenrank.errors import InputError
from evenrank.models import load

pytestmark = pytest.mark.filterwarnings("ignore:::(torchkge|tqdm)")


def torchkge_modules():
    models = need("torchkge.models")
    torch = importlib.import_module("torch")
    torch.manual_seed(3)
    made = {
        "TransE": models.TransEModel(D, N, R, "L2"),
        "TransE-l1": models.TransEModel(D, N, R, "L1"),
        "TransE-torus_L1": models.TransEModel(D, N, R, "torus_L1"),
        "TransH": models.TransHModel(D, N, R),
        "TransR": models.TransRModel(D, 4, N, R),
        "TransD": models.TransDModel(D, 4, N, R),
        "TorusE-torus_eL2": models.TorusEModel(D, N, R, "torus_eL2"),
        "TorusE-torus_L1": models.TorusEModel(D, N, R, "torus_L1"),
        "TorusE-torus_L2": models.TorusEModel(D, N, R, "torus_L2"),
        "TorusE-L1": models.TorusEModel(D, N, R, "L1"),
        "RESCAL": models.RESCALModel(D, N, R),
        "DistMult": models.DistMultModel(D, N, R),
        "HolE": models.HolEModel(D, N, R),
        "HolE-odd": models.HolEModel(D - 1, N, R),
        "ComplEx": models.ComplExModel(D, N, R),
        "Analogy": models.AnalogyModel(D, N, R, 0.5),
        "ConvKB": models.ConvKBModel(D, 2, N, R),
    }
    with torch.no_grad():
        for module in made.values():
            for parameter in module.parameters():
                if parameter.ndim == 2:  # not of length 1: who normalises must be seen
                    parameter.mul_(torch.rand(len(parameter), 1) + 0.5)
    return made


def torchkge_scores(module):
    import torch

    h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
    with torch.no_grad():
        return module.scoring_function(h, t, r).reshape(N, R, N).numpy()


TORCHKGE = {
    "TransE-l1": "TransE(p=1)",
    "TransE": "TransE(p=2)",
    "TorusE-L1": "TorusE(dissimilarity='L1')",
    "TorusE-torus_eL2": "TorusE",
    "HolE-odd": "HolE",
}
BOXED = ("TransE-torus_L1", "TorusE-torus_L1", "TorusE-torus_L2", "ConvKB")


def test_models_of_torchkge(tmp_path):
    torch = need("torch")
    for name, module in torchkge_modules().items():
        theirs = torchkge_scores(module)
        # a quarter of the square of the chord
        value = (lambda s: s / 4) if name == "TorusE-torus_eL2" else (lambda s: s)
        live = er.integrations.torchkge.convert(module)
        agree(live, theirs, value)
        boxed = name in (*BOXED, "TransH", "TransR", "TransD")
        assert ("black box" in str(live.notes)) == boxed
        assert isinstance(live, er.models.Model) == (not boxed)
        torch.save(module, tmp_path / "whole.pt")
        with pytest.raises(InputError, match=r"whole.pt could run code.*trust_pickle=True"):
            load(tmp_path / "whole.pt")
        agree(load(tmp_path / "whole.pt", trust_pickle=True), theirs, value)
        if name not in BOXED:
            torch.save(module.state_dict(), tmp_path / "state.pt")
            agree(
                load(tmp_path / "state.pt", format=f"torchkge:{TORCHKGE.get(name, name)}"), theirs, value
            )


def test_files_of_torchkge(tmp_path):
    torch = need("torch")
    modules = torchkge_modules()
    torch.save(modules["ComplEx"].state_dict(), tmp_path / "model.pt")
    assert load(tmp_path / "model.pt").name == "ComplEx"  # its tables say so
    torch.save({"epoch": 3, "model_state_dict": modules["TransE"].state_dict()}, tmp_path / "transe.pt")
    assert "assumed to be TransE" in load(tmp_path / "transe.pt").notes[0]
    torch.save(modules["TransE"].state_dict(), tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"does not name its model.*TransE, DistMult, HolE, TorusE"):
        load(tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"does not factor.*'torus_L1'.*torchkge.convert\(model\)"):
        load(tmp_path / "model.pt", format="torchkge:TorusE(dissimilarity='torus_L1')")
    torch.save(modules["ConvKB"].state_dict(), tmp_path / "model.pt")
    with pytest.raises(
        InputError, match=r"no known model of torchkge.*output.0.*torchkge.convert\(model\)"
    ):
        load(tmp_path / "model.pt")
    modules["ConvKB"].train()
    er.integrations.torchkge.convert(modules["ConvKB"]).score(np.array([[0, 0, -1]]), slice(0, N))
    assert modules["ConvKB"].training  # as it was


def test_ranks_of_torchkge_models_are_its_own():
    """The whole way, from a module to ranks, beside TorchKGE's own evaluator."""
    need("torchkge")
    from torchkge.data_structures import KnowledgeGraph
    from torchkge.evaluation import LinkPredictionEvaluator
    from torchkge.models import ComplExModel

    nations = er.load("nations")
    torch = importlib.import_module("torch")
    test = torch.from_numpy(nations.splits["test"].copy())
    every_triple = np.concatenate(list(nations.splits.values()))
    known = {part: defaultdict(set) for part in ("heads", "tails", "relations")}
    for h, r, t in every_triple.tolist():
        known["heads"][t, r].add(h)
        known["tails"][h, r].add(t)
        known["relations"][h, t].add(r)
    graph = KnowledgeGraph(
        kg={"heads": test[:, 0], "tails": test[:, 2], "relations": test[:, 1]},
        ent2ix={str(name): i for i, name in enumerate(nations.entities)},
        rel2ix={str(name): i for i, name in enumerate(nations.relations)},
        dict_of_heads=known["heads"],
        dict_of_tails=known["tails"],
        dict_of_rels=known["relations"],
    )
    torch.manual_seed(1)
    module = ComplExModel(16, len(nations.entities), len(nations.relations))
    evaluator = LinkPredictionEvaluator(module, graph)
    evaluator.evaluate(b_size=64, verbose=False)
    ranks = er.rank(
        er.integrations.torchkge.convert(module, nations), nations.task("test"), progress=False
    )
    theirs = torch.cat([evaluator.filt_rank_true_tails, evaluator.filt_rank_true_heads]).numpy()
    assert (ranks.better + 1).tolist() == theirs.tolist()
