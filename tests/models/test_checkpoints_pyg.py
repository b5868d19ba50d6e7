"""Models of PyTorch Geometric, alive and from files: its own modules score."""

import importlib

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

pytestmark = pytest.mark.filterwarnings("ignore:::(torch_geometric|tqdm)")


def pyg_modules():
    kge = need("torch_geometric.nn.kge")
    importlib.import_module("torch").manual_seed(5)
    return {
        "TransE": kge.TransE(N, R, D),
        "TransE(p=2)": kge.TransE(N, R, D, p_norm=2.0),
        "DistMult": kge.DistMult(N, R, D),
        "ComplEx": kge.ComplEx(N, R, D),
        "RotatE": kge.RotatE(N, R, D, margin=4.0),
    }


def test_models_of_pyg(tmp_path):
    torch = need("torch")
    for said, module in pyg_modules().items():
        h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
        with torch.no_grad():
            theirs = module(h, r, t).reshape(N, R, N).numpy()
        value = {"TransE(p=2)": lambda s: -np.sqrt(-s), "RotatE": lambda s: 4 - np.sqrt(-s)}.get(
            said, lambda s: s
        )
        live = er.integrations.pyg.convert(module)
        agree(live, theirs, value)
        assert live.notes == ()
        torch.save(module.state_dict(), tmp_path / "state.pt")
        agree(load(tmp_path / "state.pt", format=f"pyg:{said}"), theirs, value)
        torch.save(module, tmp_path / "whole.pt")
        with pytest.raises(InputError, match=r"whole.pt could run code.*trust_pickle=True"):
            load(tmp_path / "whole.pt")
        agree(load(tmp_path / "whole.pt", trust_pickle=True), theirs, value)


def test_a_user_defined_model_of_pyg_is_a_black_box():
    kge, torch = need("torch_geometric.nn.kge"), need("torch")

    class Odd(kge.KGEModel):
        def forward(self, h, r, t):
            return (self.node_emb(h) * self.rel_emb(r) * self.node_emb(t)).sin().sum(-1)

    module = Odd(N, R, D)
    h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
    with torch.no_grad():
        theirs = module(h, r, t).reshape(N, R, N).numpy()
    box = er.integrations.pyg.convert(module)
    agree(box, theirs)
    assert box.notes == ("Odd is not known to factor: scored as a black box, triple by triple",)
    graph = er.Graph.of([[0, 0, 1]], test=[[2, 1, 3]], entities=N, relations=R)
    ranks = er.rank(er.integrations.pyg.convert(module, graph), graph.task("test"), progress=False)
    assert ranks.better.tolist() == [
        int((theirs[2, 1] > theirs[2, 1, 3]).sum()),
        int((theirs[:, 1, 3] > theirs[2, 1, 3]).sum()),
    ]
    with pytest.raises(InputError, match=r"7 in Odd, 9 in the graph"):
        er.integrations.pyg.convert(module, er.Graph.of([[0, 0, 1]], entities=9, relations=R))


def test_norms_that_do_not_factor_are_black_boxes():
    kge, torch = need("torch_geometric.nn.kge"), need("torch")
    module = kge.TransE(N, R, D, p_norm=3.0)
    h, r, t = (torch.from_numpy(ids.ravel()) for ids in np.indices((N, R, N)))
    with torch.no_grad():
        theirs = module(h, r, t).reshape(N, R, N).numpy()
    box = er.integrations.pyg.convert(module)
    agree(box, theirs)
    assert "black box" in str(box.notes)


def test_pyg_ranks_its_tails_the_same():
    """Its `test` ranks tails, unfiltered and from 0."""
    torch = need("torch")
    module = pyg_modules()["RotatE"]
    test = np.array([[0, 0, 1], [2, 1, 3], [6, 2, 5], [4, 1, 4]])
    graph = er.Graph.of(test, test=test, entities=N, relations=R)
    model = er.integrations.pyg.convert(module, graph)
    ranks = er.rank(model, graph.task("test", sides="tail", filter=None), progress=False)
    h, r, t = torch.from_numpy(test.T.copy())
    mean, mrr, _ = module.test(h, r, t, batch_size=4, log=False)
    ours = ranks.evaluate("mr", "mrr")
    assert (ours["mr"] - 1, ours["mrr"]) == pytest.approx((mean, mrr))
