"""Arguments of wrong types raise one line of evenrank's own, never an error of Python or a library."""

import numpy as np
import pytest

import evenrank as er
from evenrank.integrations import dumps, ogb, sklearn, topk, trec

NATIONS = er.load("nations")
TASK = er.Task.of([[0], [1]], targets=[3, 4], size=10)
EVALUATED = {"tail.optimistic": [1], "tail.pessimistic": [1], "tail.candidates": [9]}

CALLS = {
    "ampligraph without ranks": (lambda: dumps.ampligraph(None, 9), "^ranks must be"),
    "ampligraph of ragged rows": (lambda: dumps.ampligraph([[1, 2], [1]], 9), "^ranks must be"),
    "ampligraph with a name": (lambda: dumps.ampligraph([[1, 2]], "nations"), "^candidates must be"),
    "pykeen of text": (lambda: dumps.pykeen("x"), "^evaluator must be a RankBasedEvaluator.*got str"),
    "pykeen with a graph": (lambda: dumps.pykeen(EVALUATED, NATIONS), "^task must be a Task; got Graph"),
    "libkge of a number": (lambda: dumps.libkge(3, 9), "^not a path; got 3"),
    "lists without a task": (lambda: topk.ranks(9, [[1]]), "^task must be a Task; got int"),
    "lists of a number": (lambda: topk.ranks(TASK, 3), "^answers must be lists of numbers"),
    "lists of nothing": (lambda: topk.ranks(TASK, [[1], None]), "^answers must be lists of numbers"),
    "lists of ragged rows": (lambda: topk.ranks(TASK, [[[1, 2], [3]], [4]]), "^answers must be"),
    "anyburl without a graph": (lambda: topk.anyburl("a.txt", "nations"), "^graph must be a Graph"),
    "anyburl of a number": (lambda: topk.anyburl(3, NATIONS), "^not a path; got 3"),
    "anyburl with a name": (
        lambda: topk.anyburl("a.txt", NATIONS, "x"),
        "^task must be a Task; got str",
    ),
    "jsonl of a number": (lambda: topk.jsonl(3, NATIONS), "^not a path; got 3"),
    "wikikg90m of a list": (lambda: topk.wikikg90m([1]), r"^predictions must be a mapping; got \[1\]"),
    "wikikg90m of lists": (lambda: topk.wikikg90m({"h,r->t": [1]}), "^predictions must be a mapping"),
    "trec of numbers": (
        lambda: trec.ranks(3, "q", candidates=9),
        "^run must be a file, a table or a mapp",
    ),
    "trec without a size": (lambda: trec.ranks("r", "q", candidates="x"), "^candidates must be"),
    "trec with a word": (lambda: trec.ranks("r", "q", candidates=9, relevant="x"), "^relevant must be"),
    "ogb of a list": (lambda: ogb.ranks([1, 2]), "^predictions must be a dictionary; got list"),
    "ogb's result of a list": (lambda: ogb.result([1, 2]), "^ranked must be Ranks; got list"),
    "ogb's result of a number": (lambda: ogb.result(er.Ranks.of([1], 9), 3), "unknown metric|must be"),
    "rocauc without candidates": (
        lambda: ogb.result(er.Ranks.of([1, 2]), "rocauc"),
        "^rocauc needs the numbers of candidates; set candidates=$",
    ),
    "sklearn without metrics": (lambda: sklearn.scorer([]), "^a scorer needs a metric"),
    "sklearn of a number": (lambda: sklearn.scorer(3), "unknown metric|must be"),
    "sklearn with other ties": (lambda: sklearn.scorer("mrr", ties="best"), "tie"),
    "sklearn of text": (lambda: sklearn.ranks("x", [[1]], [0]), "^this estimator does not score"),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_wrong_types(name):
    call, message = CALLS[name]
    with pytest.raises(er.errors.EvenrankError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("library", ["openke", "torchkge", "pyg"])
def test_only_torch_modules_are_converted(library):
    pytest.importorskip("torch", reason="torch is not installed")
    for model in (None, "TransE", np.ones(3)):
        with pytest.raises(er.errors.InputError, match=r"^model must be a torch module; got "):
            getattr(er.integrations, library).convert(model)


def test_arguments_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    metric = er.integrations.torchmetrics.RankingMetric(["mrr", "mr"])
    scores, target = torch.rand(2, 3), torch.tensor([0, 1])
    for arguments, message in (
        (("x", target), "scores must be a tensor of numbers; got str"),
        ((scores, "x"), "target must be a tensor of numbers; got str"),
        ((scores, target, "x"), "known must be a tensor of numbers; got str"),
        ((scores, target, None, "x"), "weights must be a tensor of numbers; got str"),
    ):
        with pytest.raises(er.errors.InputError, match=f"^{message}"):
            metric.update(*arguments)
    metric.update(scores, target)
    assert list(metric.compute()) == ["mrr", "mr"]


def test_arguments_of_lightning():
    pytest.importorskip("lightning", reason="lightning is not installed")
    callback = er.integrations.lightning.RankingCallback
    assert callback(["mrr"], valid=TASK).metrics == callback("mrr", valid=TASK).metrics
    with pytest.raises(er.errors.InputError, match=r"^valid must be a Task; got Graph; graph.task"):
        callback("mrr", valid=NATIONS)
    with pytest.raises(er.errors.InputError, match=r"^scorer must be callable; got int"):
        callback("mrr", valid=TASK, scorer=3)


def test_metrics_may_be_one_list():
    assert sklearn.scorer(["mrr", "mr"]) == sklearn.scorer("mrr", "mr")
