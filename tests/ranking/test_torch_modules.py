"""Torch modules as scorers: against loops, in evaluation mode, in memory, on their device."""

import functools
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from loops import (
    ENTITIES,
    ENTITY,
    GRAPH,
    RELATION,
    RELATIONS,
    SIDES,
    by_hand,
    counts,
    raises,
    rank,
)

import evenrank as er
from evenrank.models import TripleScorer
from evenrank.ranking import evaluating

torch = pytest.importorskip("torch", reason="torch is not installed (make peers installs it)")

TASK = GRAPH.task("test")
ROOT = Path(__file__).parents[2]


class Base(torch.nn.Module):
    """The scores of `test_triple_scorers.triple`; those in training are others."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        shifted = np.roll(ENTITY, -1, axis=1)
        self.head, self.relation, self.tail = (
            torch.nn.Embedding.from_pretrained(torch.tensor(table).to(dtype), freeze=False)
            for table in (ENTITY, RELATION, shifted)
        )
        self.dropout = torch.nn.Dropout(0.5)
        self.frozen = torch.nn.Sequential(torch.nn.BatchNorm1d(1), torch.nn.Dropout()).eval()
        self.calls = []

    def product(self, h, r, t):
        assert not torch.is_grad_enabled()
        self.calls.append((np.prod(torch.broadcast_shapes(h.shape, r.shape, t.shape)), self.training))
        return self.dropout(self.head(h)) * self.relation(r) * self.tail(t)

    def forward(self, h, r, t):
        return self.product(h, r, t).sum(-1)


class AnAxisMore(Base):
    def forward(self, head_index, rel_type, tail_index):  # as PyTorch Geometric names them
        return self.product(head_index, rel_type, tail_index).sum(-1, keepdim=True)


class OfVectors(Base):
    def forward(self, h, r, t):
        first, rest = self.dropout(self.head(h)) * self.relation(r), self.tail(t)
        self.calls.append((len(h), self.training))
        return torch.bmm(first[:, None], rest[:, :, None])[:, 0, 0]


class AlongTheSecondAxis(Base):
    def forward(self, h, r, t):
        return self.product(h, r, t).sum(dim=1)


class NormalizedAlongTheSecondAxis(Base):
    """`normalize` takes axis 1 by default: right for vectors, silently wrong for broadcast indices."""

    def forward(self, h, r, t):
        unit = torch.nn.functional.normalize(self.head(h).double())
        length = self.head(h).double().norm(dim=-1, keepdim=True)
        return (unit * length * self.relation(r) * self.tail(t)).sum(-1).round()


class TailsFirst(Base):
    def forward(self, tails, relations, heads, mode=None):
        return self.product(heads, relations, tails).sum(-1)


class Methods(Base):
    def forward(self, batch):
        raise AssertionError("the loss")

    def score(self, h, r, t):
        return self.product(h, r, t).sum(-1)


class Trees(Base):
    """Further kinds of layers, all of which broadcast."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 1, bias=False), torch.nn.Dropout())
        torch.nn.init.ones_(self.layers[0].weight)

    def forward(self, h, r, t):
        return self.layers(self.product(h, r, t))


KINDS = [Base, AnAxisMore, OfVectors, AlongTheSecondAxis, NormalizedAlongTheSecondAxis, TailsFirst]


@pytest.mark.parametrize("sides", SIDES, ids="-".join)
@pytest.mark.parametrize("kind", [*KINDS, Methods, Trees], ids=lambda kind: kind.__name__)
def test_modules_against_loops(kind, sides):
    module = kind()
    ranks = rank(module, GRAPH.task("test", sides=sides))
    assert counts(ranks) == by_hand(sides)
    assert ranks.protocol.model == kind.__name__
    assert not any(training for _, training in module.calls)
    assert module.training
    assert module.dropout.training


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_scores_of_other_precisions_are_ranked_as_they_are(dtype):
    """Small whole numbers are exact in all of them."""
    assert counts(rank(Base(dtype), TASK)) == by_hand(("tail", "head"))


WRAPPED = {
    "method": lambda m: m.forward,
    "function": lambda m: TripleScorer(lambda h, r, t: m(h, r, t), module=m),
    "order": lambda m: TripleScorer(lambda h, t, r: m(h, r, t), module=m, columns="htr"),
    "arrays": lambda m: lambda h, r, t: m(*map(torch.as_tensor, (h, r, t))).numpy(),
    "partial": lambda m: functools.partial(lambda m, h, r, t: m(*map(torch.as_tensor, (h, r, t))), m),
    "object": lambda m: Holder(m),
    "list": lambda m: SimpleNamespace(parts=[m], score=lambda h, r, t: WRAPPED["arrays"](m)(h, r, t)),
    "queries": lambda m: lambda queries, candidates: of_queries(m, queries, candidates),
    "compiled": lambda m: torch.compile(m, backend="eager"),
    "parallel": lambda m: torch.nn.DataParallel(m),
    "eleven at a time": lambda m: TripleScorer(m, batch_size=11),
}


class Holder:
    def __init__(self, module):
        self.module = module

    def score(self, queries, candidates):
        return of_queries(self.module, queries, candidates)


def of_queries(module, queries, candidates):
    ids = torch.arange(ENTITIES)[candidates][None]
    h, r, t = torch.as_tensor(queries).T[:, :, None]
    return module(h, r, ids) if (t < 0).all() else module(ids, r, t)


@pytest.mark.parametrize("wrap", WRAPPED)
def test_no_module_is_ranked_with_dropout_whatever_wraps_it(wrap):
    module = Base()
    before = [part.training for part in module.modules()]
    assert counts(rank(WRAPPED[wrap](module), TASK)) == by_hand(("tail", "head"))
    assert not any(training for _, training in module.calls)
    assert [part.training for part in module.modules()] == before
    assert len(set(before)) == 2  # some parts train, others do not


def test_modes_are_restored_after_an_error():
    class Failing(Base):
        def forward(self, h, r, t):
            assert not self.training
            raise ZeroDivisionError("mine")

    module = Failing()
    before = [part.training for part in module.modules()]
    with raises("the model Failing raised ZeroDivisionError: mine") as caught:
        rank(module, TASK)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert [part.training for part in module.modules()] == before
    module.eval()
    with raises("Failing"):
        rank(module, TASK)
    assert not any(part.training for part in module.modules())


def test_modules_are_held_by_several_callers():
    """The first to finish does not switch dropout on for the others, also where one holds a part."""
    module = Base()
    before = [part.training for part in module.modules()]
    outer, inner = evaluating(module), evaluating(module.dropout)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert module.training
    assert not module.dropout.training
    with evaluating(module):
        inner.__exit__(None, None, None)
        assert not any(part.training for part in module.modules())
    assert [part.training for part in module.modules()] == before


def test_two_threads_rank_one_module():
    module, found = Base(), []
    meet, once = threading.Barrier(2), threading.local()

    def scorer(h, r, t):
        if not hasattr(once, "met"):  # both are ranking now
            once.met = meet.wait(60)
        return module(h, r, t)

    def work():
        found.append(counts(rank(TripleScorer(scorer, module=module), TASK)))

    threads = [threading.Thread(target=work) for _ in "ab"]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [by_hand(("tail", "head"))] * 2
    assert not any(training for _, training in module.calls)
    assert module.dropout.training


def test_switching_the_mode_runs_what_modules_do_then():
    """Such as adapters that merge weights for evaluation."""

    class Merging(Base):
        merged = False

        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

        def forward(self, h, r, t):
            assert self.merged
            return super().forward(h, r, t)

    module = Merging()
    rank(module, TASK)
    assert (module.training, module.merged, module.frozen.training) == (True, False, False)


@pytest.mark.parametrize("kind", [Base, OfVectors])
def test_calls_stay_within_the_memory(kind):
    """A row of the widest parameter per triple, times the copies that models make."""
    module = kind()
    module.wide = torch.nn.Embedding(2, 4096)
    assert counts(rank(module, TASK, memory="1MiB")) == by_hand(("tail", "head"))
    few = max(size for size, _ in module.calls[2:])
    assert few * 4096 * 4 <= 2**20 // 4
    module.calls.clear()
    rank(module, TASK)
    assert few < max(size for size, _ in module.calls) <= 256  # arrays of 4 MiB


def test_out_of_memory_halves_the_calls():
    class Large(Base):
        def forward(self, h, r, t):
            scores = super().forward(h, r, t)
            if scores.numel() > 100:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
            return scores

    with pytest.warns(RuntimeWarning, match="out of memory; continuing with half"):
        ranks = rank(Large(), GRAPH.task("test"))
    assert counts(ranks) == by_hand(("tail", "head"))


def test_gradients_and_parameters_stay_as_they_are():
    module = Base()
    loss = (module.head.weight**2).sum()
    loss.backward()
    gradient = module.head.weight.grad.clone()
    rank(module, TASK)
    assert torch.equal(module.head.weight.grad, gradient)
    assert torch.is_grad_enabled()


def test_a_factored_model_of_a_module_is_ranked_in_evaluation_mode():
    module = Base()

    def queries(batch):
        h, r, _ = torch.as_tensor(batch).T
        return module.dropout(module.head(h)) * module.relation(r)

    factored = er.Factored("dot", module.tail.weight, queries)
    assert counts(rank(factored, GRAPH.task("test", sides="tail"))) == by_hand(("tail",))
    assert module.dropout.training


class Batches(torch.nn.Module):
    def forward(self, batch, mode):
        raise AssertionError("called")


class Sparse(Base):
    def forward(self, h, r, t):
        return super().forward(h, r, t).to_sparse()


class Few(Base):
    def forward(self, h, r, t):
        return self.product(h, r, t)


BAD = {
    "other arguments": (Batches, ["do not tell how to call it", r"Batches.forward\(batch, mode\)"]),
    "no forward": (torch.nn.Module, [r"Module.forward\(\*input\)", "TripleScorer", "QueryScorer"]),
    "sparse": (Sparse, ["the scores of Sparse must be a dense tensor"]),
    "shape": (
        Few,
        ["Few returned scores of the wrong shape", r"got \(15, 6\) for heads of shape \(15,\)"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_modules(case):
    kind, parts = BAD[case]
    with raises(*parts):
        rank(kind(), TASK)


def test_a_module_with_too_few_entities_is_explained():
    module = Base()
    module.head = torch.nn.Embedding(ENTITIES - 1, 6)
    with raises("the model Base raised IndexError: index out of range", "heads of shape", "up to 22"):
        rank(module, TASK)


def test_nan_of_a_module_is_named():
    module = Base()
    with torch.no_grad():
        module.tail.weight[3, 0] = np.nan
    with raises(r"scores contain NaN \(query \(.*\), candidate 3\)"):
        rank(module, GRAPH.task("test", sides="tail"))


def test_a_module_is_scored_on_its_device():
    for device in (None, "cpu", "auto"):
        assert len(rank(Base(), TASK, device=device)) == 2 * len(GRAPH.splits["test"])
    with raises("the module is on cpu, where it is scored; got device 'cuda'", "module.to"):
        rank(Base(), TASK, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", [Base, OfVectors, AnAxisMore])
def test_modules_on_a_gpu(kind):
    module = kind().cuda()
    for options in ({}, {"device": "cuda"}, {"memory": "1MiB"}):
        assert counts(rank(module, TASK, **options)) == by_hand(("tail", "head"))
    assert next(module.parameters()).is_cuda
    assert module.dropout.training


def test_models_of_pykeen_are_to_be_converted():
    models = pytest.importorskip(
        "pykeen.models", reason="pykeen is not installed (make peers installs it)"
    )
    factory = er.integrations.pykeen.factories(GRAPH)["training"]
    model = models.TransE(triples_factory=factory, random_seed=0)
    with raises("a PyKEEN model needs to be converted; got TransE", "pykeen.scorer"):
        rank(model, TASK)


def test_a_module_resumes_from_a_checkpoint_by_its_scores(tmp_path):
    module = Base()
    rank(module, TASK, checkpoint=tmp_path)
    module.calls.clear()
    assert counts(rank(module, TASK, checkpoint=tmp_path)) == by_hand(("tail", "head"))
    assert not any(training for _, training in module.calls)
    with torch.no_grad():
        module.relation.weight[:RELATIONS] += 1
    with raises("model"):
        rank(module, TASK, checkpoint=tmp_path)


@pytest.mark.parametrize(("page", "kind"), [("overview.md", "TransE"), ("ranking.md", "DistMult")])
def test_examples_of_the_documentation(page, kind):
    """The example runs as it stands, and ranks like the model of evenrank with the same parameters."""
    every = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text("utf-8"), re.M | re.S)
    [code] = [block for block in every if f"class {kind}(torch.nn.Module)" in block]
    torch.manual_seed(0)
    names = {"er": er, "torch": torch, "graph": er.load("nations")}
    exec(code, names)
    task = names["graph"].task("test")
    torch.manual_seed(0)
    module = names[kind](14, 55)
    model = getattr(er.models, kind)(module.entity.weight, module.relation.weight)
    found, wanted = names["ranks"], er.rank(model, task, progress=False)
    assert found.protocol.model == kind
    assert (
        np.mean(found.better != wanted.better) < 0.02
    )  # float32 and float64 may order near ties otherwise
